/* ranking.h - the algorithms of a collective, from the cheapest to the most expensive by the model
 * (estimate.h), for calls of about one size on the machines of a communicator.
 *
 *     site, collective, size ──► estimates ──► ranking ──► the first that the call can use (choose.h)
 *                                   in stages: algorithms that cannot come first any more drop out
 *                                   kept for the process: all communicators of the same shape share
 *                                   them
 *
 * Sizes between two powers of two share the ranking of the lower one, so a new count of a known
 * size costs only a look-up.
 */
#ifndef TUTTI_TUNE_RANKING_H
#define TUTTI_TUNE_RANKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "base/encoding_wish.h"
#include "model/calibration.h"
#include "path/path.h"
#include "tune/predict.h"
#include "tune/table.h"
#include "tutti/tutti.h"

/* The machines of a communicator, as far as costs depend on them: the same on all its ranks. The
 * arrays are the caller's, and must stay. */
struct tune_site {
    int rank_count;
    int core_count;      /* of each host, the least of all; at least 1 */
    const int *cores_of; /* of each rank, the first rank on the same cores, where hosts are containers of one machine; NULL: each host has its own cores */
    const struct algo_levels *levels; /* NULL: all ranks are on one host, which they know */
    const int *order; /* in which plans have the ranks, near ones side by side; NULL: as they are numbered */
    bool is_loopback; /* they are on one host, and reach each other over its network; there are levels, of a host each */
    const struct path_table *within, *between; /* as they ship; between: NULL without levels */
    size_t piece_bytes_max;
    unsigned piece_count_max;
    const struct calibration *calibration;
    const struct tune_table *table; /* of measured choices; NULL: none */
    /* Plans that are not built in, and compete with those that are: proven, and for these machines.
     * They stay for good. */
    const struct algorithm *const *loaded;
    int loaded_count;
    struct tune_shape shape; /* by tune_site_shape; not needed without a table */
    uint64_t fingerprint;    /* of all of this, by tune_site_fingerprint */
};

/* The fingerprint of all fields but `fingerprint`. */
uint64_t tune_site_fingerprint(const struct tune_site *site, uint64_t levels_fingerprint);
/* The key by which tables of measurements tell machines apart. Looks at each rank, so it is done
 * once. NO_MEMORY. Any thread. */
enum tutti_status tune_site_shape(const struct tune_site *site, struct tune_shape *shape);

struct tune_question {
    enum collective collective;
    enum tutti_dtype dtype;
    size_t bytes;   /* of a block */
    bool is_mapped; /* all memory is such that others can read and write it where it lies */
    enum tutti_encoding encoding; /* of elements on these links; TUTTI_ENCODING_NONE: as in memory */
    enum encoded_links encoded_links;
};

struct ranked {
    const struct algorithm *algorithm;
    bool only_hosts; /* its plan is made with the level of hosts alone, though there are racks */
    bool is_least;   /* its time is at least so much: more was not needed yet */
    bool has_many_partners; /* over a network, ranks have more partners than they must: then another one comes first that is slower by less than the model can tell */
    uint64_t time_ps;
};

enum { RANKED_MAX = 40, RANKED_LOADED_MAX = 12 /* of a collective */ };
struct ranking {
    int count;
    uint64_t work; /* steps of plans that were made, and events that were simulated, for all of this (estimate.h) */
    struct ranked ranked[RANKED_MAX];
};

/* Ranks all algorithms with their times. NO_MEMORY. Any thread; takes some milliseconds for each
 * algorithm the first time. */
enum tutti_status ranking_find(const struct tune_site *site, const struct tune_question *question,
                               struct ranking *ranking);
/* The same, but only until the cheapest of those that may be taken is known: its time is known, and
 * of the others perhaps only that they take at least so long. So most of them are given up early.
 * Earlier questions do not influence which one is the cheapest. */
typedef bool ranking_may_take(const struct ranked *ranked, void *context);
enum tutti_status ranking_find_first(const struct tune_site *site,
                                     const struct tune_question *question,
                                     ranking_may_take *may_take, void *context,
                                     struct ranking *ranking);

/* The machine of a question, for callers that predict. Its arrays and tables live in *room until
 * that is released. */
struct tune_room {
    int *host_of, *rack_of_host, *cores_of_host;
    struct calibration_tables tables;
};
enum tutti_status tune_machine(const struct tune_site *site, const struct tune_question *question,
                               struct model_machine *machine, struct tune_room *room);
void tune_room_release(struct tune_room *room);

#endif
