/* estimate.h - estimates what an algorithm would cost, well enough for a choice, in some
 * milliseconds however many ranks and bytes there are.
 *
 *     few ranks, few pieces     the simulation itself (predict.h)
 *     many pieces               a part of each message is simulated, and twice that part: the rest
 *                               goes on at that rate. But no call is over before the resources that
 *                               it keeps busy
 *     many ranks                fewer of them are simulated: of each dimension that is large (ranks
 *                               of a host, hosts of a rack, racks) three small numbers, with chunks
 *                               of the same size. Plans cost A + B lg n + C n in each
 *
 *     ranks     2 ──► 4 ──► 8 ── ── ── ── ── ─► 10,000        or 3, 6, 12, for what a power of two of ranks does differently
 *
 * All numbers are whole, so all ranks get the same, whatever compiler built them.
 */
#ifndef TUTTI_TUNE_ESTIMATE_H
#define TUTTI_TUNE_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#include "tune/predict.h"

/* About the result of predict_one. The loads say which resource is the busiest, and for how much of
 * the time; they say which one of its kind it is only if all ranks are simulated (number -1: they
 * are not). NO_MEMORY. Any thread; pure. */
enum tutti_status estimate_one(const struct predict_job *job, const struct algorithm *algorithm,
                               bool only_hosts, struct prediction *prediction);

/* The same in stages, for callers that only need to know that an algorithm is too expensive. Each
 * stage simulates some more ranks, and then the time is known to be at least so long: no later
 * stage says less. */
struct estimate;

/* The ranks are placed host by host, rack by rack, or dealt to hosts in turns. The shape is the
 * same for all estimates of a job. */
enum { ESTIMATE_DIMENSIONS = 3 }; /* ranks of a host, hosts of a rack, racks */
struct estimate_shape {
    int of[ESTIMATE_DIMENSIONS];
    bool ranks_in_turns, hosts_in_turns;
    int sharers; /* hosts that share their cores; 1: each has its own */
};
/* Looks at each rank. */
void estimate_shape_of(const struct predict_job *job, struct estimate_shape *shape);

/* Nothing is simulated yet. The estimate keeps pointers into the job, which must outlive it. Free
 * it after any outcome. NO_MEMORY. */
enum tutti_status estimate_create(const struct predict_job *job, const struct estimate_shape *shape,
                                  const struct algorithm *algorithm, bool only_hosts,
                                  struct estimate **estimate);
void estimate_free(struct estimate *estimate);
/* Takes the estimate one stage further, if there is one. NO_MEMORY. */
enum tutti_status estimate_go_on(struct estimate *estimate);
bool estimate_is_over(const struct estimate *estimate);
/* The result as far as it is known: its time is the least possible one, and the final one once the
 * estimate is over. It lives as long as the estimate. */
const struct prediction *estimate_prediction(const struct estimate *estimate);
/* The work so far, which is the same on any machine: steps of plans that were made, and events that
 * were simulated. */
uint64_t estimate_work(const struct estimate *estimate);

#endif
