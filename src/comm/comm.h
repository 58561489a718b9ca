/* comm.h - the communicator: its parts, its life, and one call on its way through it.
 *
 *     created ──► healthy ──► failed (status on the board, for good) ──► freed
 *                    └──────────────────────────────────────────────────►
 *
 * A call goes: api (arguments) → comm_call or comm_call_start (program from the cache) → slot → drive (the one
 * wait loop). Blocking calls use slot 0; started ones take slots 1..16 in turn, and queue when their slot is busy.
 * So the order of calls alone decides the slot, the same on every rank.
 *
 * From above to below; a file uses what stands behind it only (tests/repo/cycles_test.sh):
 *
 *     life.c     the public life cycle        racks.c    racks that are measured
 *     shrink.c   going on after a failure     derive.c   split, dup, group             agree.c   agreements of those left
 *     create.c   making one, taking it apart  join.c     its ranks come together
 *     group.c    between group_begin and _end call.c     blocking calls                start.c   started and prepared calls
 *     wait.c     the end of a started call    cancel.c   taking one back               message_call.c  send and recv
 *     drive.c    waiting                      progress.c what was started moves        message.c messages move
 *     begin.c    the beginning of a call      program.c  programs and their cache      request.c requests, lines of them
 *     diagnose.c why something is stuck       report.c   who holds up what             crossing.h  calls in different forms
 *     quiesce.c  after a failure              lock.c     the lock of what moves
 *     network.c  connections                  hear.c     what other hosts say          beat.c, rails.c, recover.c
 *     failure.c  one failure for all          trace.h    what is told of calls         straggler.h  who holds up call after call
 *     deaths.c   which processes have ended   far.c      ranks of other hosts          recorder.h   the last calls
 *
 * Threads. `domain.lock` is the one-word lock of everything that moves: links, operations, programs, messages. Whoever
 * holds it moves all operations of the communicator; who needs it and has to wait says so in `domain.wanted`, and who only
 * waits for started ones lets go after the piece at hand. A thread in a blocking call keeps it, so what other threads
 * start must not need it: calls and messages that find it taken, or their slot busy, line up (`requests.lock` covers
 * only that), and whoever has the domain begins them.
 */
#ifndef TUTTI_COMM_COMM_H
#define TUTTI_COMM_COMM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/key.h"
#include "comm/board.h"
#include "comm/domain.h"
#include "comm/handle.h"
#include "comm/health.h"
#include "comm/members.h"
#include "comm/message.h"
#include "comm/program.h"
#include "comm/progress.h"
#include "comm/request.h"
#include "comm/transports.h"
#include "kernel/kernel.h"
#include "os/process.h"
#include "tune/rules.h"
#include "tutti/tutti.h"

/* What its creator chose, or the environment. */
struct settings {
    uint64_t timeout_ns, init_timeout_ns;
    bool deterministic;
    bool is_encrypted;              /* what goes over TCP */
    enum tutti_integrity integrity; /* OFF, NETWORK or ON */
    enum kernel_level level;
    struct rules *rules;
    char *algorithms; /* the text of the rules; or NULL */
};

/* Where it comes from, and what comes from it. */
struct lineage {
    uint32_t generation;                /* of the process, when it was created */
    struct rendezvous_key identity;     /* the same on all ranks, and nowhere else */
    uint64_t derived_count;             /* times that all ranks derived communicators together */
    struct derived_list *derived_lists; /* how often which of them did, see derived_list.h */
};

struct tutti_comm {
    int rank, size;
    struct members members;
    struct transports transports;
    struct settings settings;
    struct domain domain;
    struct health health;
    struct calls calls;
    struct requests requests;
    struct messages messages;
    struct program_cache programs;
    struct lineage lineage;
};

/* Whether it came here by fork(): then nothing of it may be used, but to be freed. */
static inline bool comm_is_foreign(const struct tutti_comm *comm)
{
    return __builtin_expect(comm->lineage.generation != process_generation(), 0);
}

/* Ranks of this host, by rank and by local number (hosts.h). */
static inline bool comm_is_near(const struct tutti_comm *comm, int rank)
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
/* What a rank says on the board of its host, or what was heard of one of another host. */
static inline struct board *comm_board_of(const struct tutti_comm *comm, int rank)
{
    return comm_is_near(comm, rank) ? comm->health.board : comm->health.remote_board;
}
static inline enum rank_state comm_state_of(const struct tutti_comm *comm, int rank)
{
    return board_state(comm_board_of(comm, rank), rank);
}
static inline struct board_call *comm_calls_of(const struct tutti_comm *comm, int rank, int slot)
{
    return board_calls(comm_board_of(comm, rank), comm->size, rank, slot);
}
/* The sequence number of the latest call that a rank of this host began; of those in line the first. 0: none. */
static inline uint64_t comm_sequence_of(const struct tutti_comm *comm, int rank)
{
    const uint64_t count = board_sequence(comm->health.board, comm->size, rank);
    return count > comm->calls.unnumbered ? count - comm->calls.unnumbered : 0;
}

/* OK, or INVALID_COMM for what is none of this process's communicators, and for one of the process that this one was forked
 * from; `function` is the public one, without "tutti_". */
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
/* Whether somebody has to move it: for that, or for what is done and not sent yet. */
static inline bool comm_is_busy(struct tutti_comm *comm)
{
    return comm_has_requests(comm) ||
           atomic_load_explicit(&comm->domain.has_output, memory_order_relaxed);
}

/* How many looks a full link is worth: a look is a spin, or a turn of everybody else on this core. */
static inline uint32_t comm_patience(const struct tutti_comm *comm)
{
    return comm->members.oversubscribed ? 8 : 128;
}

#endif
