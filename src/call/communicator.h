/* communicator.h - the communicator, as its calls see it.
 *
 *     created ──► healthy ──► failed (status on the board, for good) ──► freed
 *                    └──────────────────────────────────────────────────►
 *
 * Each of its parts belongs to a folder, which alone names the part's members. A folder knows its
 * own part and those of lower folders:
 *
 *     team       src/team     ranks, hosts, transports, settings: constant but for its domain, which has the lock
 *     health     src/health   the state of the other ranks; knows calls only by number and description
 *     calls, requests, messages, programs   src/call
 *     derivations                           src/comm
 *
 * Lock and unlock with health/lock.h.
 *
 * A call goes: api (arguments) → call_run or call_start (program from the cache) → slot → wait loop. Blocking calls use
 * slot 0; started ones take slots 1 to 16 in turn, and wait in a queue while their slot is busy. So
 * the order of calls alone decides the slot, the same on every rank.
 *
 * Files of this folder, from above to below; each uses only what stands after it
 * (tests/repo/cycles_test.sh):
 *
 *     calling          group.c group_begin to group_end · call.c blocking calls, own_call.c those of the library · start.c started
 *                      and prepared calls · message_call.c send and recv · cancel.c · complete.c
 *                      wait, test, notify
 *     moving           wait_loop.c waiting, and the progress thread's pass · progress.c started calls move ·
 *                      message.c messages move · begin.c the beginning of a call · program.c
 *                      programs and their cache · chosen.c why they have their algorithms
 *     why it is stuck  diagnose.c reasons, the deadline · report.c who is late · crossing.c calls in different forms ·
 *                      faulted.c calls whose device has failed
 *     below all        repeat.c calls with the arguments of the last one · gated.c calls that wait for gates · calls_init.c beginning and end · request.c requests and their queues · orphans.c requests that outlive it ·
 *                      staged.c messages of devices · handle.c
 *
 * Threads. The lock of the team's domain is for everything that moves: links, operations, programs,
 * messages. The thread that holds it moves all operations of the communicator. A thread in a
 * blocking call holds it until the call ends, so other threads must be able to start calls without
 * it: a call or message that finds the lock taken, or its slot busy, joins a queue (`requests.lock`
 * protects only queues), and the thread that holds the domain begins it.
 */
#ifndef TUTTI_CALL_COMMUNICATOR_H
#define TUTTI_CALL_COMMUNICATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "call/calls.h"
#include "call/gated.h"
#include "call/handle.h"
#include "call/message.h"
#include "call/program.h"
#include "call/request.h"
#include "health/health.h"
#include "health/network.h"
#include "os/process.h"
#include "team/team.h"
#include "tutti/tutti.h"

/* The number of times that communicators were derived from this one: each derivation meets under a
 * key of its own. */
struct derivations {
    uint64_t count;             /* by all ranks together */
    struct derived_list *lists; /* by some of them, see derived_list.h */
    bool is_undecided; /* this rank does not know how a growth ended; only a free is left then */
};

struct own_plans; /* comm/plans.h */
struct bars;      /* connect/bars.h */

struct tutti_comm {
    struct team team;     /* the ranks, and the paths to them */
    struct health health; /* what is known of the other ranks */
    struct calls calls;   /* collectives under way */
    struct requests requests;
    struct messages messages;      /* send and recv under way */
    struct program_cache programs; /* plans bound to shapes of calls */
    struct derivations derivations;
    struct own_plans *plans; /* that come from files, or from the user; NULL: none */
    struct gated_calls gated;
    atomic_bool watches_devices; /* it has joined the watch (gpu/device_fault.h) */
    struct bars *bars;           /* processes that it lets in no more; NULL: none */
};

/* Whether this process inherited the communicator by fork(): then it may only free it. */
static inline bool communicator_is_foreign(const struct tutti_comm *comm)
{
    return __builtin_expect(comm->team.generation != process_generation(), 0);
}

/* OK, or INVALID_COMM if the pointer is no communicator of this process, or one that it inherited
 * by fork(); `function` is the public one, without "tutti_". */
static inline enum tutti_status communicator_check_handle(const struct tutti_comm *comm,
                                                          const char *function)
{
    if (__builtin_expect(handle_is_known(comm) && !communicator_is_foreign(comm), 1))
        return TUTTI_OK;
    return handle_error(comm, function);
}

/* Whether anything was started that is not done. */
static inline bool communicator_has_requests(struct tutti_comm *comm)
{
    return atomic_load_explicit(&comm->calls.outstanding, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&comm->requests.queue.count, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&comm->messages.count, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&comm->messages.queue.count, memory_order_relaxed) > 0;
}
/* Whether a thread has to move it: it has requests, or finished calls still have unsent data. */
static inline bool communicator_is_busy(struct tutti_comm *comm)
{
    return communicator_has_requests(comm) || domain_has_output(&comm->team.domain);
}

#endif
