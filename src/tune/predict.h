/* predict.h - predicts what each algorithm of a collective would cost on a machine: makes its plan,
 * wires and simulates it (model/simulate.h).
 *
 * For people and tools that ask why: it takes the plans of all ranks, which is milliseconds for
 * tens of ranks and too much for thousands.
 */
#ifndef TUTTI_TUNE_PREDICT_H
#define TUTTI_TUNE_PREDICT_H

#include <stdbool.h>
#include <stddef.h>

#include "algo/algo.h"
#include "model/simulate.h"
#include "tutti/tutti.h"

/* A call, and the machine on which it is made. */
struct predict_job {
    enum collective collective;
    int root;
    size_t count; /* elements in a block */
    size_t element_bytes;
    bool in_place;
    const struct algo_levels *levels; /* hosts, and racks above them; NULL: all ranks are on one host */
    const int *order; /* in which plans have the ranks, as in struct tune_site; NULL: as they are numbered */
    const struct model_machine *machine;
    const struct algorithm *const *loaded; /* what predict_all takes besides the list: of this collective */
    int loaded_count;
};

struct prediction {
    const struct algorithm *algorithm;
    bool only_hosts;   /* its plan is made with the level of hosts alone, though there are racks */
    bool has_one_plan; /* it does not heed levels, or there are no racks */
    const char *why_not; /* it was not simulated (static text); NULL: it was */
    struct model_result result;
};

/* The numbers, over all ranks, beyond which a plan is not simulated: each takes a second, and the
 * steps half a gigabyte. */
enum { PREDICT_STEPS_MAX = 2000000, PREDICT_PIECES_MAX = 4000000 };

/* Fills in what is known without a simulation; false: the algorithm cannot do the call, and why_not
 * says why. */
bool predict_begin(const struct predict_job *job, const struct algorithm *algorithm,
                   bool only_hosts, struct prediction *prediction);
/* Makes the plan of all ranks, and wires it; the caller frees and releases both after success.
 * NO_MEMORY, or the algorithm's error. */
enum tutti_status predict_plan(const struct predict_job *job, const struct algorithm *algorithm,
                               bool only_hosts, struct plan **plan, struct wiring *wiring);
/* Makes the plan of one rank; the caller frees it. NO_MEMORY, or the algorithm's error. */
enum tutti_status predict_rank_plan(const struct predict_job *job, const struct algorithm *algorithm,
                                    bool only_hosts, int rank, struct rank_plan **plan);

/* Predicts one algorithm. NO_MEMORY. If the algorithm cannot do the call, why_not says so. Any
 * thread; pure. */
enum tutti_status predict_one(const struct predict_job *job, const struct algorithm *algorithm,
                              bool only_hosts, struct prediction *prediction);

enum { PREDICTIONS_MAX = 64 };
/* Predicts all algorithms of the list, the fastest first, and at the end those that were not
 * simulated. */
enum tutti_status predict_all(const struct predict_job *job,
                              struct prediction predictions[PREDICTIONS_MAX], int *count);

#endif
