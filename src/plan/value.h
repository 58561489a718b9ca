/* value.h - the content of a chunk during the verifier's run: one rank's contribution, or a
 * reduction of several.
 *
 * A value knows its class, the ranks that contributed, and a hash of its expression tree that does
 * not change when the two operands of one reduction change places, nor with the class. Equal
 * reductions are stored once. Contributors are a bit set up to VERIFY_EXACT_RANKS ranks; above,
 * they are the sum of one pseudo-random 128-bit number per rank, beside their count.
 */
#ifndef TUTTI_PLAN_VALUE_H
#define TUTTI_PLAN_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/verify.h"

typedef uint64_t value;

#define VALUE_NONE UINT64_C(0) /* of a chunk that nobody wrote */

enum { VALUE_DISJOINT = -1, VALUE_SOME_RANK = -2 };

/* A value taken apart; also the accumulator of a step. */
struct value_parts {
    uint64_t hash[2];
    uint32_t class, count; /* contributions */
    int low, high;         /* the first and the last contributing rank */
    uint32_t roundings;    /* the most that any contribution went through */
    bool ordered;          /* operands came in ascending rank order without gaps */
    bool final;
    uint64_t who[VERIFY_EXACT_RANKS / 64];
};

struct value_table; /* opaque */

/* NULL when out of memory. The budget (or NULL) is charged as the table grows. */
struct value_table *value_table_create(int rank_count, struct plan_budget *budget);
void value_table_free(struct value_table *table);

value value_contribution(int rank, uint32_t class);
/* The value after it was encoded and decoded (rounding.h): another tree, unless it was rounded
 * last. */
value value_rounded(value v);
uint32_t value_class(const struct value_table *table, value v);
void value_take(const struct value_table *table, value v, struct value_parts *parts);

/* VALUE_DISJOINT, or a rank that contributed to both; VALUE_SOME_RANK when it cannot be named. */
int value_overlap(const struct value_table *table, const struct value_parts *a,
                  const struct value_parts *b);
/* into = into + operand, which are disjoint. */
void value_add(const struct value_table *table, struct value_parts *into,
               const struct value_parts *operand);
/* All ranks contributed once. */
bool value_is_complete(const struct value_table *table, const struct value_parts *parts);
/* Stores the result of a step that added; VALUE_NONE when out of memory, or of the budget. */
value value_store(struct value_table *table, const struct value_parts *parts);

#endif
