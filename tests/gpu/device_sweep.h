/* device_sweep.h - many calls that are drawn (device_case.h), by ranks that share devices.
 */
#ifndef TUTTI_TESTS_GPU_DEVICE_SWEEP_H
#define TUTTI_TESTS_GPU_DEVICE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/worlds/ranks.h"

enum device_calls {
    DEVICE_COLLECTIVES, /* each once, by the algorithm that the library chooses */
    DEVICE_ALGORITHMS,  /* each once */
    DEVICE_TYPES,       /* each operation on each type of elements */
    DEVICE_PAIRS        /* collectives, two at once in two streams of a rank */
};

struct device_sweep {
    enum ranks_kind kind;
    int size, devices; /* that ranks share */
    enum device_calls calls;
    int hosts; /* on which processes take themselves to be; 0: the one where they are */
    /* Two calls of a process want more multiprocessors than the stand-in has, so blocks come late:
     * not with threads, where a call of another rank may have all of them. */
    bool crowded;
    bool checked;        /* with checksums over all that goes between ranks */
    unsigned rounds;     /* 0: 1 */
    uint64_t seed;       /* 0: TUTTI_TEST_SEED, or a fresh one */
    uint64_t timeout_ns; /* of each call; 0: a minute */
};

/* Returns how many ranks did not find all as it should be. The driver is loaded in the ranks: those
 * that are processes come before any that are threads, as a child of who has used a driver cannot
 * use it. */
int device_sweep_run(const struct device_sweep *sweep);
/* All calls so far, and those of which some rank's was in a stream. */
void device_sweep_count(unsigned *calls, unsigned *in_streams);

/* One sweep for each seed from `first` on, drawn from it, in a process of its own, with streams of
 * the stand-in that are late as the seed says; at most `count`, and for at most so many seconds (0:
 * no limit). Says on stdout how many there were, and of each that fails what it was and the last of
 * what it said. Returns how many failed. Only in a process that has used no driver. */
unsigned device_sweep_seeds(uint64_t first, unsigned count, unsigned seconds);

/* For planted_bugs.sh: `--seeds N`, each in processes and threads of its own. Says on stdout at
 * which one something was wrong. */
int device_sweep_main(int argument_count, char **arguments);

#endif
