/* network_state.h - what is known of ranks of other hosts, and what leads there: for network.c,
 * network_join.c, network_leave.c, remote_rank.c, hear.c, heartbeats.c and quiesce.c. */
#ifndef TUTTI_HEALTH_NETWORK_STATE_H
#define TUTTI_HEALTH_NETWORK_STATE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log_limit.h"
#include "base/rank_map.h"
#include "health/health.h"

/* The facts about a rank of another host that must be remembered even if there is no memory for
 * more. */
struct remote_flags {
    bool is_dead : 1;   /* its process has ended, or it is taken for dead */
    bool has_ended : 1; /* for certain */
    bool was_found : 1; /* taken for dead, and alive for the agreement after that */
    bool is_invited : 1, knows_failure : 1, has_joined : 1;
    bool is_suspect : 1;   /* its host is a suspect, and that was said */
    _Atomic bool has_left; /* may be read without the domain */
    uint16_t owed;         /* what the rank could not be told yet, a bit for each kind of message */
};
static_assert(sizeof(struct remote_flags) == 4, "each rank has one for all ranks");

/* The words of a rank of another host that was asked something or has answered. */
struct remote_rank {
    uint64_t asked_ns; /* when it was asked something last */
    uint64_t waited_ns; /* the first time that it was asked after its last answer; 0: it has answered */
    uint64_t told_ns;   /* when it answered last */
    uint64_t warned_ns; /* when it was last said that its host is suspected */
    int known_slot;     /* the rank said how far it was with this call */
    uint64_t known_begun;
    uint64_t sequence; /* its latest call in all slots */
    bool is_in_call, agrees;
    bool has_progress; /* it said how far it was with all calls, and when that was heard */
    uint64_t progress_ns;
    struct board_progress progress;
    bool has_finding; /* it said which rank it takes to hold that call up */
    struct board_finding finding;
    uint64_t withdrawn, left_at;                    /* as on a board */
    struct board_call *calls[TRANSPORT_SLOT_COUNT]; /* BOARD_CALLS of a slot; NULL: none was told */
};

struct network {
    struct health *health;
    struct transport *transport; /* leads to all ranks, and moves whatever leads there */
    struct control *control;
    uint16_t *ports;   /* of each rank's process, on loopback; NULL: hosts->entries says */
    uint64_t *next_ns; /* of each host: when to ask its first rank to connect again */
    bool is_stopped, all_have_joined;
    unsigned passes;
    struct remote_flags *flags;   /* one per rank; NULL where there is one host */
    struct rank_map ranks;        /* of struct remote_rank; of no ranks where there is one host */
    struct heartbeat *heartbeat;  /* of the first rank of a host, see heartbeats.h; or NULL */
    uint64_t heartbeat_looked_ns; /* when it was looked at last */
    bool any_owed;                /* to a rank at least */
    uint64_t untold;              /* control messages that were dropped, see remote_rank.c */
    struct log_limit untold_limit;
    bool is_judged; /* its verdict is known to all */
};

enum {
    CONTROL_MESSAGE_BYTES = 296,
    CONTROL_HEARTBEAT = 64,
    CONTROL_AGREEMENT,
    CONTROL_WITHDRAWN,
    CONTROL_EXCLUDED
};
/* The last four are kinds of control messages of other sizes, see heartbeats.c, recover.c,
 * withdrawn.c and exclusion.c. */
/* hear.c: a control message of that many bytes has come. It is called by the transport, and may
 * only tell and forget. */
void remote_hear(void *context, int peer, const void *message, size_t bytes);
/* The flags of a rank of another host; NULL: it is on this one, or there is nothing to know yet. */
struct remote_flags *remote_of(const struct health *health, int rank);
/* The words of that rank, kept from when there is room for them; NULL: there is none, and the rank
 * was never asked. */
const struct remote_rank *remote_find(const struct network *network, int rank);
/* Makes room for that; NULL: out of memory. */
struct remote_rank *remote_know(struct network *network, int rank);
/* Makes room for that rank's calls in a slot; NULL: out of memory. */
struct board_call *remote_know_calls(struct remote_rank *remote, int slot);
void remote_free_all(struct network *network);
/* Tells what could not be told when it was due, for want of memory or of a place. */
void remote_tell_owed(struct network *network);
/* A control message to that rank was dropped for want of memory or of a place: counts it, and logs
 * it now and then. */
void remote_count_untold(struct network *network, int rank);
/* Tells the ranks that are connected why the communicator failed; each once. */
void remote_tell_failure(struct network *network);
/* Tells one rank, and connects to it for that. */
void remote_tell_failure_to(struct network *network, int rank);
/* Tells the ranks that are connected that this rank leaves. */
void remote_tell_leaving(struct network *network);
/* Whether the first rank of each host has said that its ranks have joined; rank 0 hears it. */
bool remote_all_hosts_have_joined(const struct network *network);
/* The first rank of a host tells rank 0 that its ranks have joined; rank 0 answers when all hosts
 * have. */
void remote_tell_joined(struct network *network);
void remote_tell_all_have_joined(struct network *network);
/* From now on that rank counts as dead: no rank waits for it, and nothing more is done to reach
 * it. */
void remote_declare_dead(struct network *network, int rank);

#endif
