/* shrink.h - a communicator of the ranks that are left, for tutti_comm_shrink and tutti_comm_exclude.
 *
 *     who is left? ──► shrink: they meet under a key of that agreement ──► have all met? ──► it is there
 *          ▲           exclude: they agree on a secret first, and its key has it ──┘ │
 *          └──────────────────────── somebody failed meanwhile ─────────────────────┘
 *
 * Excluded ranks have no part in any of this. They know the job's secret and the old communicator's
 * identity, but not the key of the meeting, so they cannot come to it.
 */
#ifndef TUTTI_COMM_SHRINK_H
#define TUTTI_COMM_SHRINK_H

#include <stdint.h>

#include "tutti/exclude.h"

struct shrink_wish {
    const char *function;                     /* the public one, without "tutti_" */
    const uint64_t *excluded;                 /* a set of ranks without this one; NULL: none */
    uint32_t about;                           /* of excluded, see health/agree.h */
    const struct tutti_comm_options *options; /* of the new communicator; checked, or NULL */
    uint64_t *left; /* room for a set: the ranks of the new communicator; NULL: not wanted */
};

/* Collective over the ranks that are left and not excluded, with the same wish. comm has two ranks at
 * least. On failure *created is NULL. */
enum tutti_status shrink(struct tutti_comm *comm, const struct shrink_wish *wish,
                         struct tutti_comm **created);

#endif
