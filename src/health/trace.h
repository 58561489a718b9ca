/* trace.h - what the flight recorder of a communicator tells: files of JSON, answers to
 * tutti-trace, numbers for Prometheus.
 *
 * A dump is written at most once for a failure, by the thread that comes first: the thread whose
 * call failed, before it returns, or the process's monitor, which the rank that finds the failure
 * wakes on all processes of its host. docs/reference/dumps.md describes the members of a dump,
 * format/trace_json.h reads them.
 */
#ifndef TUTTI_HEALTH_TRACE_H
#define TUTTI_HEALTH_TRACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "process/metrics.h"
#include "process/monitor.h"
#include "tutti/tutti.h"

struct health;

/* Numbers that are measured between hosts, in the order of model/between.h. */
enum trace_number {
    TRACE_LATENCY_RACK,
    TRACE_LATENCY_CLUSTER,
    TRACE_CARD_BYTE,
    TRACE_UPLINK_BYTE,
    TRACE_NUMBERS
};

/* The machines by which algorithms are chosen, besides the names of hosts. */
struct trace_machine {
    int rack;     /* of this rank; -1: no racks are known */
    int cores_of; /* the first rank on the same cores, where hosts share them; -1: they do not */
    uint64_t numbers[TRACE_NUMBERS]; /* 0: it is assumed */
};

struct trace {
    pthread_mutex_t lock;
    char *folder;          /* TUTTI_TRACE_DIR, or NULL */
    bool is_dumped;        /* for the failure; under the lock */
    _Atomic bool is_first; /* this rank told its host of the failure, and still has to tell the monitors */
    _Atomic int rack, cores_of; /* as in struct trace_machine */
    _Atomic uint64_t numbers[TRACE_NUMBERS];
    char id[METRICS_ID_SIZE];
    struct monitor_client client;
};

/* NO_MEMORY. */
enum tutti_status trace_init(struct health *health);
/* Sets what dumps say of this rank's machine from now on. Any thread. */
void trace_set_machine(struct health *health, const struct trace_machine *machine);
/* From now on the monitor may ask; *health is complete. */
void trace_open(struct health *health);
/* From now on the monitor asks no more. */
void trace_close(struct health *health);
void trace_release(struct health *health);
/* This rank has put a failure on its host's board. Cheap. Any thread. */
void trace_tell_failure(struct health *health);
/* A call failed: dumps if it was for a failure of the communicator, and no thread has dumped yet.
 * Blocks for 2 s at most when the file system does not answer. Any thread, without the domain.
 * Keeps the thread's error message. */
void trace_dump_failure(struct health *health);
/* As tutti_trace_dump. */
enum tutti_status trace_dump(struct health *health, const char *folder);

#endif
