/* compared.h - kinds of calls beside the times that were predicted for them: by the cost model now,
 * and by the job when it chose their algorithms.
 */
#ifndef TUTTI_TOOLS_TRACE_COMPARED_H
#define TUTTI_TOOLS_TRACE_COMPARED_H

#include "calls.h"
#include "predict.h"

/* A call may take so many times as long as predicted before anything is said. */
#define COMPARED_RATIO_FINE 1.2

struct compared {
    const struct call_kind *kind;
    uint64_t expected_ns; /* the job's own prediction, of the first dump; 0: it has none */
    struct call_prediction prediction;
    double ratio; /* measured to predicted, or to expected where there is no predictor; 0: there is
                     none */
};

/* Fills in rows[] for each kind, the worst ratio first. predictor NULL: nothing is predicted
 * beside what the dumps have. NO_MEMORY. */
enum tutti_status compared_find(const struct predictor *predictor, const struct trace_calls *calls,
                                struct compared *rows);

#endif
