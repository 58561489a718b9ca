/* measure.h - measures how long candidates take, on all ranks together.
 *
 *     warm-up     each candidate a few times, which also says how often it fits into the time
 *     rounds      all candidates in a random order, the same on all ranks; and again in another
 *                 order
 *     a round of a candidate       barrier, calls; the time of the slowest rank
 *
 * If no rank can be ahead of the others after a collective, its calls follow each other directly.
 * Before each call of a rooted collective the ranks meet, since its root would otherwise be many
 * calls ahead.
 */
#ifndef TUTTI_TOOLS_TUNE_MEASURE_H
#define TUTTI_TOOLS_TUNE_MEASURE_H

#include "candidates.h"
#include "tune/ranking.h"

/* The time of a call, over all rounds. */
struct timing {
    double median_ns;
    double spread_ns; /* between the quartiles */
};

/* The bytes that this rank's buffers take for such a question. */
size_t measure_buffer_bytes(const struct tune_question *question, int rank_count);

/* Collective over comm; the same timings on all ranks. `seconds` is for all candidates together;
 * each is called at least once per round. */
enum tutti_status measure_candidates(struct tutti_comm *comm, const struct tune_question *question,
                                     const struct candidates *candidates, double seconds,
                                     struct timing timings[CANDIDATES_MAX]);

/* The candidate that is faster than the first one by more than the noise of both, and by at least a
 * fiftieth; 0: there is none. */
int measure_winner(const struct timing *timings, int count);

#endif
