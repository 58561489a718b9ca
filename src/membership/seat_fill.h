/* seat_fill.h - a spare seat while a share is copied to it, piece by piece, and steps go on: pure.
 *
 *     the FULL seat     entry 7   piece   entry 8   entry 9   piece   piece   entry 10 ..
 *                                   │ at 7                    │ at 9    │ at 9, the last
 *     the spare         entry 7   piece   entry 8   entry 9   piece   piece   entry 10 ..
 *
 * A piece is of the tables behind the entry that it names. The spare hears entries from the leader, and
 * pieces from the FULL seat. It carries out no entry that the FULL seat has not named in a piece, an empty one
 * perhaps, and loads no piece before its entry. So each part of the tables that it has is behind the same
 * entry, and it applies a step to these parts alone: the other ones come with the step in them. One pass
 * over the tables is enough, nothing is copied twice, and no step waits.
 *
 * Where the FULL seat is the leader, both come on one line, and entries behind the leader's own step.
 */
#ifndef TUTTI_MEMBERSHIP_SEAT_FILL_H
#define TUTTI_MEMBERSHIP_SEAT_FILL_H

#include <stdbool.h>
#include <stdint.h>

struct seat_fill {
    bool is_filling; /* from JOINED on, until the last piece is loaded */
    int source;      /* the FULL seat */
    uint64_t mark;   /* the entry that it has named last */
};

static inline void seat_fill_begin(struct seat_fill *fill, int source)
{
    fill->is_filling = true;
    fill->source = source;
}
/* A piece has come. */
static inline void seat_fill_name(struct seat_fill *fill, uint64_t index)
{
    if (index > fill->mark) fill->mark = index;
}
/* Whether an entry from that seat may be carried out. */
static inline bool seat_fill_may_hear(const struct seat_fill *fill, int from, uint64_t index)
{
    return !fill->is_filling || from == fill->source || index <= fill->mark;
}
/* Whether a piece may be loaded behind so many entries. */
static inline bool seat_fill_may_load(const struct seat_fill *fill, uint64_t heard, uint64_t index)
{
    return fill->is_filling && heard >= index;
}

#endif
