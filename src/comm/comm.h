/* comm.h - the communicator: its parts, its life, and one call on its way through it.
 *
 *     created ──► healthy ──► failed (status on the board, for good) ──► freed
 *                    └──────────────────────────────────────────────────►
 *
 * A call goes: api (arguments) → comm_call or comm_call_start (program from the cache) → slot → the one
 * wait loop. Blocking calls use slot 0; started ones take slots 1..16 in turn, and wait in a queue while their slot is busy.
 * So the order of calls alone decides the slot, the same on every rank.
 *
 * Files, from above to below; each uses only what stands after it (tests/repo/cycles_test.sh):
 *
 *     life cycle       life.c public functions · mesh.c · racks.c measured racks · shrink.c going on after a failure ·
 *                      derive.c split, dup, group · create.c making one, taking it apart · join.c its ranks come together ·
 *                      derived_list.c · host_levels.c, hosts.c who shares a host or rack · id.c · options.c · footprint.c
 *     calling          group.c group_begin to group_end · call.c blocking calls, own_call.c those of the library · start.c started
 *                      and prepared calls · message_call.c send and recv · cancel.c · complete.c wait, test, notify
 *     moving           wait_loop.c the one wait loop, and the progress thread's pass · progress.c started calls move ·
 *                      message.c messages move · begin.c the beginning of a call · program.c programs and their cache
 *     why it is stuck  diagnose.c reasons, the deadline · report.c who is late · crossing.c calls in different forms ·
 *                      quiesce.c until nobody touches this rank's memory · agree.c agreements of those who are left
 *     other hosts      network.c all come together and part · hear.c what other hosts say · heartbeats.c ·
 *                      recover.c messages of agreements · remote_rank.c what ranks of other hosts are told and asked
 *     knowing          known.c what is known of a rank, wherever it is · failure.c one failure, the same on all ranks ·
 *                      trace.c the last calls · straggler.c ranks that are late again and again ·
 *                      deaths.c processes that have ended (src/health)
 *     below all        request.c requests and their queues · orphans.c requests that outlive it · lock.c · handle.c
 *
 * Threads. `domain.lock` is the one-word lock of everything that moves: links, operations, programs, messages. The thread that holds it
 * moves all operations of the communicator. A thread that has to wait for the lock adds itself to `domain.wanted`; a holder that only
 * waits for started calls then lets go after the piece at hand. A thread in a blocking call holds the lock until the call ends, so other
 * threads must be able to start calls without it: a call or message that finds the lock taken, or its slot busy, joins a queue
 * (`requests.lock` protects only queues), and the thread that holds the domain begins it.
 */
#ifndef TUTTI_COMM_COMM_H
#define TUTTI_COMM_COMM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/key.h"
#include "comm/calls.h"
#include "comm/domain.h"
#include "comm/handle.h"
#include "comm/health.h"
#include "comm/members.h"
#include "comm/message.h"
#include "comm/program.h"
#include "comm/request.h"
#include "comm/transports.h"
#include "health/board.h"
#include "kernel/kernel.h"
#include "os/process.h"
#include "tune/rules.h"
#include "tutti/tutti.h"

/* What the creator of the communicator or the environment has set. */
struct settings {
    uint64_t timeout_ns, init_timeout_ns;
    bool deterministic;
    bool is_encrypted;              /* traffic over TCP is */
    enum tutti_integrity integrity; /* OFF, NETWORK or ON */
    enum kernel_level level;
    struct rules *rules;
    char *algorithms; /* the text of the rules; or NULL */
};

/* Where it comes from, and what comes from it. */
struct lineage {
    uint32_t generation; /* of the process that created it: in a child of fork() it is another one */
    struct rendezvous_key identity;     /* the same on all ranks, and nowhere else */
    uint64_t derived_count;             /* communicators that all ranks have derived together */
    struct derived_list *derived_lists; /* the same of some ranks, see derived_list.h */
};

struct tutti_comm {
    int rank, size;
    struct members members;       /* who the ranks are, and what they share */
    struct transports transports; /* the ways to them */
    struct settings settings;
    struct domain domain; /* which thread moves what */
    struct health health; /* what is known of the other ranks */
    struct calls calls;   /* collectives under way */
    struct requests requests;
    struct messages messages;      /* send and recv under way */
    struct program_cache programs; /* plans bound to shapes of calls */
    struct lineage lineage;
};

/* Whether this process inherited the communicator by fork(): then it may only free it. */
static inline bool comm_is_foreign(const struct tutti_comm *comm)
{
    return __builtin_expect(comm->lineage.generation != process_generation(), 0);
}

/* Ranks of this host, by rank and by local number (hosts.h). */
static inline bool comm_shares_host(const struct tutti_comm *comm, int rank)
{
    return comm->members.hosts == NULL || comm->members.hosts->locals[rank] >= 0;
}
static inline int comm_local_size(const struct tutti_comm *comm)
{
    return comm->members.hosts == NULL ? comm->size : comm->members.hosts->local_size;
}
static inline int comm_local_number(const struct tutti_comm *comm, int rank)
{
    return comm->members.hosts == NULL ? rank : comm->members.hosts->locals[rank];
}
static inline int comm_local_rank(const struct tutti_comm *comm, int number)
{
    return comm->members.hosts == NULL ? number : comm->members.hosts->names[number];
}
/* The next rank of another host from *at on, which moves behind it; -1: there is none. */
static inline int comm_next_remote(const struct tutti_comm *comm, int *at)
{
    const int *locals = comm->members.hosts == NULL ? NULL : comm->members.hosts->locals;
    while (locals != NULL && *at < comm->size)
        if (locals[(*at)++] < 0) return *at - 1;
    return -1;
}
/* The rank numbers of this host's ranks, by local number; NULL: the same numbers. */
static inline const int *comm_local_names(const struct tutti_comm *comm)
{
    return comm->members.hosts == NULL ? NULL : comm->members.hosts->names;
}
static inline const char *comm_host_name_of(const struct tutti_comm *comm, int rank)
{
    return comm->members.hosts == NULL ? comm->members.host_name
                                       : comm->members.hosts->entries[rank].host_name;
}
/* Whether ranks are reached over a network, also some of this host; its calls end when their bytes lie in links. */
static inline bool comm_has_network(const struct tutti_comm *comm)
{
    return comm->transports.network != NULL;
}
/* Whether there is anybody on another host. */
static inline bool comm_spans_hosts(const struct tutti_comm *comm)
{
    return comm->members.hosts != NULL;
}
/* The board that has a rank's entries: the shared one for a rank of this host, else this rank's copy of what it was told. */
static inline struct board *comm_board_of(const struct tutti_comm *comm, int rank)
{
    return comm_shares_host(comm, rank) ? comm->health.board : comm->health.remote_board;
}
static inline enum rank_state comm_state_of(const struct tutti_comm *comm, int rank)
{
    return board_state(comm_board_of(comm, rank), rank);
}
static inline struct board_call *comm_calls_of(const struct tutti_comm *comm, int rank, int slot)
{
    return board_calls(comm_board_of(comm, rank), comm->size, rank, slot);
}
/* The sequence number of the latest call that a rank of this host has begun; queued calls have not. 0: none. */
static inline uint64_t comm_sequence_of(const struct tutti_comm *comm, int rank)
{
    const uint64_t count = board_sequence(comm->health.board, comm->size, rank);
    return count > comm->calls.unnumbered ? count - comm->calls.unnumbered : 0;
}

/* OK, or INVALID_COMM if the pointer is no communicator of this process, or one that it inherited by fork(); `function` is the public one, without "tutti_". */
static inline enum tutti_status comm_check_handle(const struct tutti_comm *comm,
                                                  const char *function)
{
    if (__builtin_expect(handle_is_known(comm) && !comm_is_foreign(comm), 1)) return TUTTI_OK;
    return handle_error(comm, function);
}

/* Whether anything was started that is not done. */
static inline bool comm_has_requests(struct tutti_comm *comm)
{
    return atomic_load_explicit(&comm->calls.outstanding, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&comm->requests.queue.count, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&comm->messages.count, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&comm->messages.queue.count, memory_order_relaxed) > 0;
}
/* Whether a thread has to move it: it has requests, or finished calls still have unsent data. */
static inline bool comm_is_busy(struct tutti_comm *comm)
{
    return comm_has_requests(comm) ||
           atomic_load_explicit(&comm->domain.has_output, memory_order_relaxed);
}

/* How often a step checks a full link before it takes the way through memory. A check costs a spin, or a turn of everybody else on this
 * core. */
static inline uint32_t comm_spin_budget(const struct tutti_comm *comm)
{
    return comm->members.oversubscribed ? 8 : 128;
}

#endif
