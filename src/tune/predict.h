/* predict.h - what each algorithm of a collective would cost on a machine: its plan is made, wired and simulated (model/simulate.h).
 *
 * For people and tools that ask why: it takes the plans of all ranks, which is milliseconds for tens of ranks and too much for thousands.
 */
#ifndef TUTTI_TUNE_PREDICT_H
#define TUTTI_TUNE_PREDICT_H

#include <stdbool.h>
#include <stddef.h>

#include "algo/algo.h"
#include "model/simulate.h"
#include "tutti/tutti.h"

/* A call, and the machine that it is made on. */
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

/* Of all ranks, beyond which a plan is not simulated: each takes a second, and the steps half a gigabyte. */
enum { PREDICT_STEPS_MAX = 2000000, PREDICT_PIECES_MAX = 4000000 };

/* Fills in what is known before; false: the algorithm cannot do the call, and why_not says why. */
bool predict_begin(const struct predict_job *job, const struct algorithm *algorithm,
                   bool only_hosts, struct prediction *prediction);
/* The plan of all ranks, wired; free and release both after success. NO_MEMORY, or what the algorithm says. */
enum tutti_status predict_plan(const struct predict_job *job, const struct algorithm *algorithm,
                               bool only_hosts, struct plan **plan, struct wiring *wiring);
/* Into how many parts its plan cuts a block, from the plan of rank 0. NO_MEMORY, or what the algorithm says. */
enum tutti_status predict_parts(const struct predict_job *job, const struct algorithm *algorithm,
                                bool only_hosts, uint64_t *parts);

/* One of them. NO_MEMORY. If the algorithm cannot do the call, why_not says so. Any thread; pure. */
enum tutti_status predict_one(const struct predict_job *job, const struct algorithm *algorithm,
                              bool only_hosts, struct prediction *prediction);

enum { PREDICTIONS_MAX = 64 };
/* All of the list, the fastest first, and at the end those that were not simulated. */
enum tutti_status predict_all(const struct predict_job *job,
                              struct prediction predictions[PREDICTIONS_MAX], int *count);

#endif
