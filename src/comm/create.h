/* create.h - creates a communicator once the size and this process's rank are known, and ends
 * it. */
#ifndef TUTTI_COMM_CREATE_H
#define TUTTI_COMM_CREATE_H

#include <stdint.h>

#include "bootstrap/launcher.h"
#include "team/hosts.h"
#include "tutti/tutti.h"

struct creation {
    const char *origin; /* launcher or function that gave rank and size; for the log */
    int rank, size;
    struct rendezvous_key key;          /* where the ranks meet, if there are several */
    const struct launcher_facts *facts; /* what the launcher says of hosts; or NULL */
    const struct net_address *meeting;  /* rank 0's port, from an id for several hosts; or NULL */
    /* With a meeting of ranks that have other numbers there, which facts has: the rank of each of
     * these numbers. NULL: the same numbers. */
    const int *places;
    struct team_hosts *hosts; /* where the ranks are, if that is known and not all one host; taken */
    struct host_levels *host_levels; /* with hosts, and taken like them */
    /* The knowledge of the communicator from which this one is derived; NULL: it is not derived, so
     * the ranks agree on theirs. */
    const struct knowledge *knowledge;
    const struct tune_table *table;           /* with knowledge; or NULL */
    const struct tutti_comm_options *options; /* with all defaults filled in */
    uint64_t deadline_ns;
    /* OK while the missing ranks can still come, see bootstrap/rendezvous.h; or NULL. */
    enum tutti_status (*look)(void *context);
    void *look_context;
    bool *is_known; /* becomes true if it fails because of another rank; or NULL */
    bool *has_come; /* becomes true when other ranks may be through, as they need no more of this one; or NULL */
    /* Not OK, with this thread's error: this rank cannot join. It meets the others to tell them
     * why, and creation fails with that. */
    enum tutti_status trouble;
};

/* Blocks until all ranks have come, look() returns an error, or the deadline passes. On failure
 * *comm is NULL. */
enum tutti_status comm_create(const struct creation *creation, struct tutti_comm **comm);
/* Finishes started calls, tells the others that this rank leaves, and frees comm. Blocks up to the
 * deadlines of what is under way. */
void comm_end(struct tutti_comm *comm);
/* Does the same for a communicator on which no rank has made a call: blocks for a moment only. */
void comm_discard(struct tutti_comm *comm);

#endif
