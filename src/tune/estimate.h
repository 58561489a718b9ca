/* estimate.h - what an algorithm would cost, near enough to choose by, in about a millisecond however many ranks and bytes there are.
 *
 *     few ranks, few pieces     the simulation itself (predict.h)
 *     many pieces               a part of each message is simulated, and twice that part: the rest goes on at that rate. But nothing is over
 *                               before what is busy for it
 *     many ranks                fewer of them are simulated: of each dimension that is large (ranks of a host, hosts of a rack, racks) three
 *                               small numbers, with chunks of the same size. Plans cost A + B lg n + C n in each
 *
 *     ranks     2 ──► 4 ──► 8 ── ── ── ── ── ─► 10,000        or 3, 6, 12, for what a power of two of ranks does differently
 *
 * Whole numbers: all ranks get the same, whatever compiled them.
 */
#ifndef TUTTI_TUNE_ESTIMATE_H
#define TUTTI_TUNE_ESTIMATE_H

#include "tune/predict.h"

/* What predict_one says, or nearly; of the loads, which resource is the busiest, and for how much of the time; which one of
 * its kind, only where all ranks are simulated (number -1: they are not).
 * NO_MEMORY. Any thread; pure. */
enum tutti_status estimate_one(const struct predict_job *job, const struct algorithm *algorithm,
                               bool only_hosts, struct prediction *prediction);

#endif
