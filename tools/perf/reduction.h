/* reduction.h - the reductions as tutti-perf knows them: one list, Tutti's own and three
 * that it makes.
 *
 *     scaled     the sum times 3/8
 *     user       composition of functions x -> ax + b: an element of 2h bits is a in its high h
 *                bits and b in the low ones, all modulo 2^h. Associative, and any other order than
 *                that of the ranks shows.
 *     user-any   sum modulo 2^(bits) of the elements taken as unsigned integers; operands may come
 *                in any order
 *
 * The user's reductions take elements as bits, so they are exact in every dtype.
 */
#ifndef TUTTI_TOOLS_PERF_REDUCTION_H
#define TUTTI_TOOLS_PERF_REDUCTION_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* X(enumerator, name); the constants of tutti.h in their order come first. */
#define REDUCTION_LIST(X)         \
    X(REDUCTION_SUM, "sum")       \
    X(REDUCTION_PROD, "prod")     \
    X(REDUCTION_MIN, "min")       \
    X(REDUCTION_MAX, "max")       \
    X(REDUCTION_AVG, "avg")       \
    X(REDUCTION_LAND, "land")     \
    X(REDUCTION_LOR, "lor")       \
    X(REDUCTION_LXOR, "lxor")     \
    X(REDUCTION_BAND, "band")     \
    X(REDUCTION_BOR, "bor")       \
    X(REDUCTION_BXOR, "bxor")     \
    X(REDUCTION_SCALED, "scaled") \
    X(REDUCTION_USER, "user")     \
    X(REDUCTION_USER_ANY, "user-any")

enum reduction {
#define X(enumerator, name) enumerator,
    REDUCTION_LIST(X)
#undef X
        REDUCTION_COUNT,
    REDUCTION_BUILTIN_COUNT = REDUCTION_SCALED
};

/* The factor has few bits, so a product with any number needs only one rounding. */
#define REDUCTION_FACTOR 0.375

const char *reduction_name(enum reduction reduction);
bool reduction_supports(enum reduction reduction, enum tutti_dtype dtype);
/* Whether operands are taken as bits, whatever the dtype. */
bool reduction_is_of_words(enum reduction reduction);
/* Tutti's handle, which tutti_op_free takes; NO_MEMORY. */
enum tutti_status reduction_create(enum reduction reduction, tutti_op *op);
/* The function of the user's operations, on one element of so many bits. */
uint64_t reduction_compose(int bits, uint64_t left, uint64_t right);

#endif
