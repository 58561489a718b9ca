/* encoded.h - whether the calls of a case go encoded, and how far right results then are from exact
 * ones.
 *
 *     what tutti_comm_explain says of such a call ──► encoding, roundings ──► inputs that do not overflow, a tolerance
 *
 * A rounding changes a contribution by at most a share of the largest magnitude beside it
 * (encoding_error_max), and a contribution is rounded as often as the plan that runs rounds it; or,
 * where Tutti does not say how often, once for each rank.
 */
#ifndef TUTTI_TOOLS_PERF_ENCODED_H
#define TUTTI_TOOLS_PERF_ENCODED_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/encode.h"
#include "tutti/tutti.h"

struct perf_encoded {
    enum tutti_encoding encoding; /* TUTTI_ENCODING_NONE: results are exact */
    int roundings;                /* of an input on its way to a result, at most */
};

/* A call that may be encoded. */
struct perf_encodable {
    const char *collective; /* "allgather", "allgatherv"; "send" for messages; NULL: nothing of it is ever encoded */
    size_t count;
    enum tutti_dtype dtype;
    const char *encoding; /* as the call asks for it, or NULL */
    bool has_algorithm;   /* it asks for one */
};

/* INVALID_OPTIONS: the encoding or the rules in TUTTI_ENCODINGS are none; NO_MEMORY. */
enum tutti_status perf_encoded_find(const struct tutti_comm *comm,
                                    const struct perf_encodable *call, struct perf_encoded *found);
/* The same from the text of tutti_comm_explain. */
void perf_encoded_read(const char *text, int rank_count, struct perf_encoded *found);

/* The largest magnitude that inputs and results may have. */
double perf_encoded_largest(const struct perf_encoded *encoded, double exact_max);
/* How much a result may differ from the exact one, if no input, sum or result is larger than that.
 * exact_max: up to which the dtype has all integers; 0 where nothing is encoded. */
double perf_encoded_tolerance(const struct perf_encoded *encoded, int rank_count, double largest,
                              double exact_max);

#endif
