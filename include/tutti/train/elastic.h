/* elastic.h - a training loop that goes on when ranks die: the step in which a rank died is done
 * again, by a team in which another process has taken its place, or by the ranks that are left.
 *
 *     rank 0   step 7 ─ commit ─ step 8 ──╳ commit: no ┬ replace ┬ state ┬ step 8 ─ commit ─ step 9
 *     rank 1   step 7 ─ commit ─ step 8 ──✝            │         │       │
 *     rank 2   step 7 ─ commit ─ step 8 ──╳ commit: no ┤         │       ├ step 8 ─ commit ─ step 9
 *     spare    waits ─────────────────────────────────┴ is rank 1 ──────┴ step 8 ─ commit ─ step 9
 *
 * The object owns the communicator of the loop, and knows its *state*: arrays that the program
 * names, the number of the step, and the position in the data.
 *
 *     struct tutti_elastic_array arrays[] = {
 *         {"weights", TUTTI_ELASTIC_REPLICATED, TUTTI_FLOAT32, count, weights},
 *         {"momentum", TUTTI_ELASTIC_REPLICATED, TUTTI_FLOAT32, count, momentum}};
 *     struct tutti_elastic_options options = TUTTI_ELASTIC_OPTIONS_INIT;
 *     options.step_count = 1000;
 *     options.batch = 512;
 *     options.sample_count = 1000000;
 *     tutti_elastic_open(arrays, 2, &options, &elastic);
 *     while (tutti_elastic_begin(elastic, &step) == TUTTI_OK && !step.is_over) {
 *         gradients = the sum over samples step.first to step.first + step.count - 1,
 *                     divided by step.batch_count;
 *         status = tutti_allreduce(gradients, gradients, count, TUTTI_FLOAT32, TUTTI_SUM,
 *                                  tutti_elastic_comm(elastic));
 *         if (tutti_elastic_commit(elastic, status, &is_committed) != TUTTI_OK) break;
 *         if (is_committed) update weights and momentum;
 *     }
 *     tutti_elastic_close(elastic);
 *
 * A step counts when all ranks that are left have agreed that it does (tutti_comm_agree): all of
 * them hear the same, whatever fails meanwhile. A step that does not count is done again from the
 * state before it, with the same samples. There are two ways to have that state:
 *     AFTER    The program changes its state after the commit, and only if the step counts. Costs no
 *              memory. For replicated state, and for shards without a partner's copy.
 *     BEFORE   The program changes its state before the commit, and the object keeps a second copy,
 *              to which the state returns if the step does not count. Costs the memory of the state
 *              once more, and a copy of it in memory for each step.
 *
 * Shards.  Of a SHARDED array each rank has a part, in memory of the object (tutti_elastic_shard).
 * When the number of ranks changes, the array is divided anew. With `partner` (and BEFORE) each rank
 * also keeps the shard of another rank, which sends it at each commit: the shards of a dead rank are
 * then there, unless its partner died, too. That costs the memory of a shard twice more, as the old
 * one stays until the step counts, and its bytes on the network for each step.
 *
 * State for processes that join.  All ranks that have it send it, each another slice, in chunks with
 * checksums, and all ranks wait meanwhile. State that no rank has any more comes from the newest
 * checkpoint (checkpoint_folder). Without a checkpoint, tutti_elastic_begin returns PROC_FAILED.
 *
 * Data.  A step takes the next `batch` samples of an epoch, however many ranks there are, and ranks
 * divide them. So the global batch stays the same when the team becomes smaller, and each sample is
 * taken once in an epoch. The last batch of an epoch may be smaller. As ranks may have different
 * numbers of samples, let each give sums, divided by step.batch_count, and not averages.
 *
 * Bits.  With a replacement for each rank that died, on a communicator with `deterministic` set, a
 * run has the bits of a run without faults, if the program's own work depends on the state and on
 * the samples alone.
 *
 * An object is for one thread at a time. All ranks make the same calls in the same order.
 * docs/how-to/elastic.md has an example, costs and measured times.
 */
#ifndef TUTTI_TRAIN_ELASTIC_H
#define TUTTI_TRAIN_ELASTIC_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/exclude.h"
#include "tutti/train/shards.h"
#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------- state */

struct tutti_elastic; /* opaque */

enum tutti_elastic_kind {
    TUTTI_ELASTIC_REPLICATED, /* all ranks have all of it, with the same values */
    TUTTI_ELASTIC_SHARDED,    /* each rank has a part */
    TUTTI_ELASTIC_BLOCKS /* the same, but divided as tutti_shards divides a group: in whole blocks */
};

/* An array of the state, in memory of the host. All ranks name the same arrays. */
struct tutti_elastic_array {
    const char *name; /* 1 to 100 bytes, without control characters; no two arrays have the same */
    enum tutti_elastic_kind kind;
    enum tutti_dtype dtype;
    size_t count; /* elements of the whole array, 1 or more */
    void *data;   /* REPLICATED: the caller's, and stays where it is. Otherwise NULL */
};

enum tutti_elastic_update {
    TUTTI_ELASTIC_UPDATE_AFTER, /* the program changes its state after a commit */
    TUTTI_ELASTIC_UPDATE_BEFORE /* before it; the object keeps a second copy */
};

/* The same on all ranks, but for joins, store and comm_options. */
struct tutti_elastic_options {
    size_t size_bytes; /* sizeof(struct tutti_elastic_options); _INIT sets it */
    /* Of the first communicator; rank and size as there, and if they are given without an id, ranks
     * meet through `store`. A process that joins has to give the
     * options that the ranks gave. NULL: none. */
    const struct tutti_comm_options *comm_options;
    /* Through which ranks and processes that join find each other, as in struct
     * tutti_grow_options. NULL: the directory TUTTI_ELASTIC_STORE, which `tutti-run --elastic` sets.
     * Without either, nobody can join, and a team only becomes smaller. */
    const struct tutti_store *store;
    /* 1: this process joins a team. 0: it is one of the first ranks. -1: as TUTTI_ELASTIC_JOIN says,
     * which `tutti-run --elastic` sets for processes that it starts later, and for spares. */
    int joins;
    int size_min; /* with fewer ranks left, tutti_elastic_begin returns PROC_FAILED; 0: 1 */
    enum tutti_elastic_update update;
    int partner; /* nonzero: each shard also at a partner; needs UPDATE_BEFORE */
    /* The partner of rank r is rank r + partner_distance, modulo the number of ranks. 0: half of the
     * ranks away, so on another host, if hosts have equally many ranks, in order. */
    int partner_distance;
    uint64_t replace_wait_ns; /* for processes that take the places of dead ranks; 0: no wait */
    uint64_t grow_every_ns;   /* a team that is too small looks so often for processes that join, */
    uint64_t grow_wait_ns;    /* and waits so long for them; 0: it does not look */
    uint64_t join_wait_ns;    /* a process that joins waits so long for a place */
    uint64_t step_count;      /* the loop is over after so many steps; 0: never */
    uint64_t batch;           /* samples of a step, of all ranks together; 0: 1 */
    uint64_t sample_count;    /* of an epoch; 0: epochs do not end */
    uint64_t seed;            /* of tutti_elastic_sample; 0: samples are in order */
    /* A directory for checkpoints, which all ranks see. NULL: none. A run whose first ranks find a
     * checkpoint there goes on from it. */
    const char *checkpoint_folder;
    uint64_t checkpoint_every_ns; /* 0: tutti_elastic_daly of measured costs */
    uint64_t mttf_ns; /* mean time to a failure, for that. 0: from the failures so far, as if there
                         had been one more in 24 h */
    int attempt_max;  /* a step that fails so often in succession, with no rank dying, ends the loop
                         with its status; 0: 3 */
    int reserved;     /* 0 */
    /* The thresholds by which a rank that is sick, but not dead, is put out of the team
     * (tutti/exclude.h). A rank that lets a call of the others run into its deadline is put out, too. Copied.
     * NULL: no rank is put out. The same on all ranks, or NULL on all. */
    const struct tutti_exclude_policy *exclude_policy;
};
#define TUTTI_ELASTIC_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(struct tutti_elastic_options), NULL, NULL, -1, 0, TUTTI_ELASTIC_UPDATE_AFTER, 0, 0, \
            (uint64_t)30000000000, (uint64_t)10000000000, (uint64_t)200000000, UINT64_MAX,         \
            (uint64_t)0, (uint64_t)0, (uint64_t)0, (uint64_t)0, NULL, (uint64_t)0, (uint64_t)0, 0, \
            0, NULL                                                                                \
    }

/* Makes the communicator and the object. Tutti copies names and options, not the data. One of the
 * first ranks blocks until all of these have come (the start-up deadline); a process that joins
 * blocks until a team takes it in, at most for join_wait_ns. The memory of shards is zeroed. Fill it,
 * and the replicated arrays, with the first values now: the first tutti_elastic_begin gives all
 * ranks the replicated arrays of rank 0, unless there is a team or a checkpoint with state.
 *
 * On failure *opened is NULL: INVALID_OPTIONS, INVALID_BUFFER, INVALID_DTYPE, NO_MEMORY, or a status
 * of tutti_comm_create or tutti_comm_join. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_elastic_open(const struct tutti_elastic_array *arrays, size_t count,
                   const struct tutti_elastic_options *options, struct tutti_elastic **opened);
/* Waits for a checkpoint that is being written, and frees elastic with its communicator and
 * shards. Call it on all ranks when the loop is over. Blocks for that wait. NULL is allowed. */
TUTTI_API enum tutti_status tutti_elastic_close(struct tutti_elastic *elastic);

/* The communicator of the team, which belongs to `elastic`: valid until the next
 * tutti_elastic_begin. Objects made from it (buckets, splits, prepared calls) have to be made again
 * when step.generation has changed; free it before that tutti_elastic_begin, that is, after a commit
 * that said that the step does not count. NULL for no object. Local; does not block. */
TUTTI_API struct tutti_comm *tutti_elastic_comm(const struct tutti_elastic *elastic);

/* The part of a sharded array that this rank has: `count` elements from element `first` on. */
struct tutti_elastic_part {
    size_t first, count;
    void *data; /* the object's; valid until step.generation changes */
};
/* Fills *part for the array `index` of elastic, as tutti_elastic_open had it. Rank r of n has the elements from
 * floor(count * r / n) on; of BLOCKS, those that struct tutti_shard says. Local; does not block. INVALID_OPTIONS: there is no such array, or it is
 * not sharded. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_elastic_shard(const struct tutti_elastic *elastic,
                                                               size_t index,
                                                               struct tutti_elastic_part *part);

/* ---------------------------------------------------------------------------------------- steps */

struct tutti_elastic_step {
    size_t size_bytes;    /* set by the caller to sizeof(struct tutti_elastic_step) */
    uint64_t number;      /* steps that count so far */
    uint64_t epoch;       /* from 0 */
    uint64_t first;       /* places in the epoch of this rank's samples: `count` from `first` on */
    uint64_t count;       /* may be 0 */
    uint64_t batch_first; /* of all ranks together */
    uint64_t batch_count;
    uint64_t generation; /* of the team: changes when the communicator does; the same on all ranks */
    int rank, size;
    int attempt; /* 1, or more if this rank does the step again */
    int is_over; /* step_count steps are done: there is nothing to do */
};
/* Begins a step of elastic. If the team has lost ranks, first makes a team that can go on, and gives its state
 * to all members. Ranks that died meanwhile make it begin again. Collective; blocks for
 * replace_wait_ns, for the transfer of state, and as tutti_comm_replace does. After a failure the
 * loop cannot go on. PROC_FAILED: fewer than size_min ranks are left; or some of the state is on no
 * rank and in no checkpoint; or the others went on without this rank. MINORITY: this rank is cut off;
 * end this process. MISMATCH: the first ranks gave different arrays or options, and the message has two
 * of them; or this process joins with others than the ranks have, which go on without it. Other
 * statuses as tutti_comm_shrink, tutti_comm_replace and tutti_checkpoints_load. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_elastic_begin(struct tutti_elastic *elastic,
                                                               struct tutti_elastic_step *step);
/* Ends a step of elastic. `work` is the status of this rank's own work in it: OK, or the first failure, of
 * whichever call. *is_committed becomes 1 if the step counts, the same on all ranks that are left:
 * then all of these gave OK. It becomes 0 if it does not count, say because a rank has died; then
 * call tutti_elastic_begin as after any step. With TUTTI_ELASTIC_UPDATE_BEFORE the state is then as it was before
 * the step. Collective; blocks until all ranks that are left have called, at most for the
 * communicator's timeout. After a failure the loop cannot go on: MINORITY, TIMEOUT, or `work`, if the
 * step failed attempt_max times though no rank died. INVALID_OPTIONS: no step has begun. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_elastic_commit(struct tutti_elastic *elastic, enum tutti_status work, int *is_committed);
/* The sample of elastic at a place of an epoch: a permutation of 0 to sample_count - 1 that depends on the seed
 * and the epoch alone (a Feistel network of 4 rounds with cycle walking: Black, Rogaway, CT-RSA
 * 2002). Without a seed or a sample_count it is the place itself. Local; does not block. */
TUTTI_API uint64_t tutti_elastic_sample(const struct tutti_elastic *elastic, uint64_t epoch,
                                        uint64_t place);

/* --------------------------------------------------------------------------------------- shards */

/* The state of struct tutti_shards (ZeRO) as state of an elastic loop:
 *
 *     tutti_elastic_shards_create(groups, count, &shards_options, &kept);
 *     arrays = tutti_elastic_shards_arrays(kept, &array_count);
 *     tutti_elastic_open(arrays, array_count, &options, &elastic);     // with TUTTI_ELASTIC_UPDATE_BEFORE
 *     while (tutti_elastic_begin(elastic, &step) == TUTTI_OK && !step.is_over) {
 *         status = tutti_elastic_shards_begin(kept, elastic, &shards, &is_first);
 *         if (is_first) tutti_shards_set(shards, g, first_values[g]) for all groups;
 *         if (status == TUTTI_OK) status = the passes of a step, and tutti_shards_step;
 *         if (status == TUTTI_OK) status = tutti_elastic_shards_keep(kept, elastic);
 *         tutti_elastic_commit(elastic, status, &is_committed);
 *     }
 *     tutti_elastic_close(elastic);
 *     tutti_elastic_shards_free(kept);
 *
 * After a failure, and when the number of ranks changes, the shards are made anew on the new
 * communicator, with the state of the last step that counts. With `partner` the shards of a rank
 * that died come from its partner. */
struct tutti_elastic_shards; /* opaque */

/* Makes the arrays for shards of these groups with these options, which may be NULL. Tutti copies
 * both. Local; does not block. On failure *created is NULL: INVALID_BUFFER, INVALID_OPTIONS or
 * NO_MEMORY. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_elastic_shards_create(const struct tutti_shard_group *groups, size_t count,
                            const struct tutti_shards_options *options,
                            struct tutti_elastic_shards **created);
/* Frees kept, after tutti_elastic_close of the loop that has its arrays. NULL is allowed. Local; does
 * not block. */
TUTTI_API void tutti_elastic_shards_free(struct tutti_elastic_shards *kept);
/* The *count arrays of kept, to be given to tutti_elastic_open before any arrays of the program. They
 * belong to kept. Local; does not block. */
TUTTI_API const struct tutti_elastic_array *
tutti_elastic_shards_arrays(const struct tutti_elastic_shards *kept, size_t *count);

/* After tutti_elastic_begin on elastic: *shards becomes the shards of kept on the team's
 * communicator. They hold the state of the last step that counts, and belong to elastic: they are
 * valid until the next tutti_elastic_begin or tutti_elastic_close. *is_first becomes 1 if no step
 * counts yet: set the parameters of all groups then. Collective; blocks as tutti_shards_create does,
 * if shards have to be made, otherwise not. INVALID_OPTIONS: no step has begun, or elastic has no
 * TUTTI_ELASTIC_UPDATE_BEFORE, or does not begin with the arrays of kept; else a status of tutti_shards_create or
 * tutti_shards_views, which is a status of this step's work. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_elastic_shards_begin(struct tutti_elastic_shards *kept, struct tutti_elastic *elastic,
                           struct tutti_shards **shards, int *is_first);
/* After tutti_shards_step, and before tutti_elastic_commit on elastic: copies the state of the shards
 * into the arrays of kept. Local; blocks until allgathers of the step are done, at most until the
 * communicator's deadline. INVALID_OPTIONS: tutti_elastic_shards_begin has made no shards; else a
 * status of tutti_shards_views. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_elastic_shards_keep(struct tutti_elastic_shards *kept, struct tutti_elastic *elastic);

/* ------------------------------------------------------------------------------------- accounts */

/* Of the run so far: processes that join take over those of the team. Times are of the rank whose
 * accounts came first, the lowest that is still there. */
struct tutti_elastic_counters {
    size_t size_bytes; /* set by the caller to sizeof(struct tutti_elastic_counters) */
    uint64_t steps;    /* that count */
    uint64_t samples;  /* in them */
    uint64_t repeated; /* steps that did not count */
    uint64_t undone;   /* steps that counted, and were lost by going back to a checkpoint */
    uint64_t failures; /* deaths of ranks that the team noticed, and ranks that it put out */
    uint64_t replaced; /* processes that joined */
    uint64_t teams;    /* communicators, the first included */
    uint64_t checkpoints;
    uint64_t elapsed_ns; /* since the run began; with checkpoints, without the time between runs */
    uint64_t productive_ns; /* in steps that count, until the next step began */
    uint64_t checkpoint_ns; /* in which steps waited for checkpoints */
    uint64_t write_ns;    /* of the last checkpoint that was measured, from its begin to its end */
    uint64_t interval_ns; /* from one checkpoint to the next, as it is now */
    uint64_t outage_ns;   /* of the last failure: from its notice to the next step that counted */
    uint64_t outage_max_ns;  /* the longest of them */
    uint64_t received_bytes; /* of state, that this process received from other ranks */
};
/* Fills *counters for elastic. Local; does not block. INVALID_OPTIONS: counters->size_bytes is not set. */
TUTTI_API enum tutti_status tutti_elastic_count(const struct tutti_elastic *elastic,
                                                struct tutti_elastic_counters *counters);
/* Writes the accounts of elastic as lines of text, for the end of a run: steps, failures, goodput (samples that
 * count, by the second of elapsed time) and ETTR (effective training time ratio: productive by
 * elapsed time). text gets as much as fits into text_bytes, and a zero at the end. Local; does not
 * block. INVALID_BUFFER: there is no room. */
TUTTI_API enum tutti_status tutti_elastic_report(const struct tutti_elastic *elastic, char *text,
                                                 size_t text_bytes);

/* --------------------------------------------------------------------------------------- models */

/* Of a job and its checkpoints. All times in seconds. */
struct tutti_elastic_costs {
    double nodes;        /* units that fail independently */
    double failure_rate; /* of one of them, by the second: 6.5 in 1,000 node-days are 6.5e-3 / 86400 */
    double restart_s;    /* from a failure until steps go on, without steps that are done again */
    double write_s;      /* by which a checkpoint holds up training */
    double interval_s; /* from one checkpoint to the next */
};
/* Mean time to a failure of a job with these costs: 1 / (failure_rate * nodes); infinite if that is
 * 0. Local; does not block. */
TUTTI_API double tutti_elastic_mttf(const struct tutti_elastic_costs *costs);
/* The interval that costs least: sqrt(2 w M) for writes of w seconds and a mean time to failure of M
 * (Young: A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974). Of
 * costs, interval_s and restart_s do not matter, nor for the next function. Local; does not
 * block. */
TUTTI_API double tutti_elastic_young(const struct tutti_elastic_costs *costs);
/* The same to a higher order: sqrt(2 w M) (1 + sqrt(w / 2 M) / 3 + w / 18 M) - w for w < 2 M, else M
 * (Daly: A higher order estimate of the optimum checkpoint interval for restart dumps, Future
 * Generation Computer Systems 22(3), 2006). costs as above. Local; does not block. */
TUTTI_API double tutti_elastic_daly(const struct tutti_elastic_costs *costs);
/* Expected effective training time ratio (1 - N r (u + D / 2)) / (1 + w / D), at least 0, for N
 * nodes with the failure rate r, a restart of u, and writes of w each D seconds (Kokolis et al.:
 * Revisiting reliability in large-scale machine learning research clusters, HPCA 2025): all of
 * costs. Local; does not block. */
TUTTI_API double tutti_elastic_ettr(const struct tutti_elastic_costs *costs);

#ifdef __cplusplus
}
#endif

#endif
