/* enlarge.h - the second half of a round of growth, on members and on joiners alike: they meet, make
 * the communicator of the new team, and agree whether all of them have it.
 *
 *     meeting at the admitter's port ──► communicator of all ──► agreement in which the survivors vote
 *       by numbers, growth.h              by ranks                about all ranks: made · about fewer: nowhere, once more
 *                                                                  none heard: undecided
 *
 * membership/growth.h says why no team is had by some alone.
 */
#ifndef TUTTI_COMM_ENLARGE_H
#define TUTTI_COMM_ENLARGE_H

#include <stdint.h>

#include "bootstrap/key.h"
#include "membership/growth.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

/* The key in a store under which a team leaves the id of its admission. */
#define ENLARGE_STORE_KEY "tutti/admission"

struct enlargement {
    const char *function;    /* the public one, without "tutti_" */
    struct growth_team team; /* sound */
    int number;              /* this rank's at the meeting */
    struct rendezvous_key key;
    struct net_address meeting;               /* the port of number 0 */
    const struct tutti_comm_options *options; /* complete */
    /* OK while the others can still come, see bootstrap/rendezvous.h. */
    enum tutti_status (*look)(void *context);
    void *look_context;
};

enum enlarge_end {
    ENLARGE_MADE,
    ENLARGE_AGAIN,    /* the new team is nowhere */
    ENLARGE_UNDECIDED /* this rank cannot know; this thread's error says why */
};

/* Meets the others and makes the communicator. Blocks as tutti_comm_create does. On failure
 * *created is NULL, and the new team will be nowhere. */
enum tutti_status enlarge_meet(const struct enlargement *enlargement, struct tutti_comm **created);
/* Agrees with all others whether all have it; to be called once, when enlarge_meet succeeded. If
 * not, the communicator is freed, and *created is NULL. */
enum enlarge_end enlarge_agree(const struct enlargement *enlargement, struct tutti_comm **created);

#endif
