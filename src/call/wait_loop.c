/* wait_loop.c - how calls are waited for.
 *
 *   run ──moved──► run again
 *    └─blocked─► pause: spin; from the first miss on yield when ranks outnumber cores; then sleep on the bell
 *                every LOOK_NS: deaths, mismatches, the deadline; every pass: the failure on the
 *                board
 */
#include <sched.h>
#include <stddef.h>
#include <time.h>

#include "base/status.h"
#include "base/watched.h"
#include "call/begin.h"
#include "call/communicator.h"
#include "call/crossing.h"
#include "call/diagnose.h"
#include "call/message.h"
#include "call/message_watch.h"
#include "call/on_device.h"
#include "call/progress.h"
#include "call/report.h"
#include "call/wait_loop.h"
#include "health/failure.h"
#include "health/lock.h"
#include "health/network.h"
#include "health/quiesce.h"
#include "health/recover.h"
#include "os/clock.h"

enum {
    EAGER_LOOKS =
        64, /* without a pause, which takes as long as half a message (140 cycles and more on some CPUs) */
    SPINS = 1024,        /* looks before a CPU is given away */
    SLEEP_NS = 20000000, /* then look around */
    JOINING_NS = 500000, /* the same while connections are missing */
    GATED_NS = 200000,   /* and while calls wait for gates, which do not have to wake anybody */
    LOOK_NS = 20000000,
    NAP_NS = 20000, /* where there is no bell to sleep on */
    PASSES_A_LOOK = 4096,
    PASSES_A_LISTEN = 16
};

/* How long nothing has moved. */
struct backoff {
    unsigned looks;
    uint64_t since_ns;
};

/* Gives the CPU away; false when it is time to sleep. */
static bool yield_awake(const struct tutti_comm *comm, struct backoff *backoff)
{
    sched_yield();
    const uint64_t now = clock_now_ns();
    if (backoff->since_ns == 0) backoff->since_ns = now;
    return now - backoff->since_ns < domain_awake_ns(&comm->team.domain);
}

/* Lets time pass without holding up other threads; false when it is time to sleep. */
static bool pause_awake(const struct tutti_comm *comm, struct backoff *backoff)
{
    backoff->looks++;
    if (domain_may_spin(&comm->team.domain) && backoff->looks < SPINS) {
        if (backoff->looks > EAGER_LOOKS) cpu_relax();
        return true;
    }
    return yield_awake(comm, backoff);
}

/* Until something happens, or it is time to look around. */
static void sleep_and_learn(struct tutti_comm *comm)
{
    const uint64_t begin_ns = clock_now_ns();
    /* A connection that arrives at the port does not wake this rank. */
    struct transport *all = comm->team.transports.set.all;
    const struct control *control = comm->team.transports.set.control;
    const bool looks_at_gates = comm->gated.count > 0;
    const uint64_t otherwise_ns =
        control != NULL && control->ops->is_connecting(control) ? JOINING_NS : SLEEP_NS;
    all->ops->sleep(all, looks_at_gates ? GATED_NS : otherwise_ns);
    const uint64_t woken_ns = clock_now_ns();
    straggler_wake(&comm->health.straggler, woken_ns);
    /* A sleep that is kept short says nothing of how long others take. */
    if (!looks_at_gates) domain_learn_sleep(&comm->team.domain, woken_ns - begin_ns);
}

/* This rank is about to sleep in a call that has begun. */
static void sleep_in_call(struct tutti_comm *comm, const struct call_request *request,
                          uint64_t since_ns)
{
    if (request_is_gated(request)) return; /* for nobody */
    const struct straggler_call call = call_of_request(request);
    straggler_sleep(&comm->health, &call, operation_waits_for(&request->operation), since_ns);
}

/* Whether a started call has got its slot. */
static bool is_running(const struct tutti_comm *comm, const struct call_request *request)
{
    return comm->calls.running[request->slot] == request;
}

static bool is_time_to_look(struct tutti_request *request, uint64_t timeout_ns, uint64_t now)
{
    if (!CALLS_ARE_WATCHED) return false;
    if (request->started_ns == 0) {
        request->started_ns = request->looked_ns = now;
        return false;
    }
    if (now - request->looked_ns < LOOK_NS && now - request->started_ns < timeout_ns) return false;
    request->looked_ns = now;
    return true;
}

/* Time-driven checks of one call; cheap when it is too early for them. */
static void look_sometimes(struct tutti_comm *comm, struct call_request *request, uint64_t now)
{
    if (request->quit_ns != 0) return; /* why is known */
    /* The deadline counts from when the gate opens, if that is the caller's doing. */
    const bool has_deadline = !request_is_gated(request) || call_waits_for_device(request->call);
    const uint64_t timeout_ns = has_deadline ? request->call->timeout_ns : UINT64_MAX;
    if (is_time_to_look(&request->base, timeout_ns, now)) diagnose_call(comm, request, now);
}

static void look_at_started(struct tutti_comm *comm, uint64_t now)
{
    if (now - comm->calls.looked_ns < LOOK_NS / 8) return;
    comm->calls.looked_ns = now;
    message_watch_look(comm, now);
    for (int i = 0; i < comm->calls.running_count; i++)
        look_sometimes(comm, comm->calls.order[i], now);
}

/* Whether nothing that was started is as urgent as this call. */
static bool is_most_urgent(const struct tutti_comm *comm, const struct call_request *request)
{
    return comm->calls.running_count == 0 ||
           comm->calls.order[0]->call->priority < request->call->priority;
}

/* Whether it is time to take in messages that nobody here waits for; the last time is before it
 * sleeps. */
static bool listens(const struct tutti_comm *comm, unsigned passes, bool about_to_sleep)
{
    return (passes % PASSES_A_LISTEN == 0 || about_to_sleep) &&
           board_has_messages(comm->health.board);
}

enum tutti_status call_await_blocking(struct tutti_comm *comm, struct call_request *request)
{
    struct operation *operation = &request->operation;
    struct backoff backoff = {0};
    bool about_to_sleep = false, has_slept = false;
    for (unsigned passes = 1;; passes++) {
        operation->must_not_spin = about_to_sleep;
        domain_set_last_look(&comm->team.domain, about_to_sleep);
        const bool came = network_progress(&comm->health);
        const enum run_result result = operation_run(operation);
        bool moved = came || result != RUN_BLOCKED;
        if ((communicator_is_busy(comm) || listens(comm, passes, about_to_sleep)) &&
            (!moved || !is_most_urgent(comm, request)) && calls_progress(comm))
            moved = true;
        domain_set_last_look(&comm->team.domain, false);
        if (about_to_sleep && (moved || board_has_failed(comm->health.board))) {
            comm->team.transports.set.all->ops->sleep_cancel(comm->team.transports.set.all);
            about_to_sleep = false;
        }
        if (result == RUN_DONE) {
            if (comm->calls.report.is_open) report_call_end(comm, request);
            if (has_slept) call_end_wait(comm, request);
            request->passes = passes;
            return TUTTI_OK;
        }
        if (result == RUN_FAULT && !board_has_failed(comm->health.board))
            diagnose_fault(comm, request, operation->fault_peer);
        if (board_has_failed(comm->health.board)) {
            const enum tutti_status status = health_check(&comm->health);
            call_quiesce(comm, request);
            return status;
        }
        if (moved) {
            backoff = (struct backoff){0};
            /* Started operations may keep moving while this one is stuck. */
            if (passes % PASSES_A_LOOK == 0) look_sometimes(comm, request, clock_now_ns());
            continue;
        }
        if (about_to_sleep) {
            sleep_and_learn(comm);
            about_to_sleep = false;
        } else if (pause_awake(comm, &backoff)) {
            continue;
        } else {
            sleep_in_call(comm, request, backoff.since_ns);
            has_slept = true;
            comm->team.transports.set.all->ops->sleep_begin(comm->team.transports.set.all);
            about_to_sleep = true; /* one more look before it is true */
            continue;
        }
        const uint64_t now = clock_now_ns();
        look_sometimes(comm, request, now);
        look_at_started(comm, now);
    }
}

/* Moves everything until the request is done, the domain is wanted, or (false) there is nothing to
 * do but sleep. */
static bool drive_awake(struct tutti_comm *comm, const struct tutti_request *request,
                        struct backoff *backoff)
{
    unsigned passes = 1;
    while (!atomic_load_explicit(&request->done, memory_order_relaxed) &&
           !domain_is_wanted(&comm->team.domain)) {
        if (calls_progress(comm)) {
            *backoff = (struct backoff){0};
            if (passes++ % PASSES_A_LOOK == 0) look_at_started(comm, clock_now_ns());
        } else if (!pause_awake(comm, backoff)) {
            return false;
        }
    }
    return true;
}

/* With a last look in between, until something happens or it is time to look around. */
static void sleep_until_something(struct tutti_comm *comm)
{
    if (comm->team.transports.set.all ==
        NULL) { /* a communicator of one rank: only another thread can do something */
        nanosleep(&(struct timespec){0, comm->gated.count > 0 ? GATED_NS : NAP_NS}, NULL);
        return;
    }
    comm->team.transports.set.all->ops->sleep_begin(comm->team.transports.set.all);
    domain_set_last_look(&comm->team.domain, true);
    const bool moved = calls_progress(comm);
    domain_set_last_look(&comm->team.domain, false);
    if (moved || board_has_failed(comm->health.board) || domain_is_wanted(&comm->team.domain))
        comm->team.transports.set.all->ops->sleep_cancel(comm->team.transports.set.all);
    else
        sleep_and_learn(comm);
}

void call_await_started(struct tutti_comm *comm, struct tutti_request *request)
{
    struct backoff backoff = {0};
    struct crossing_wait wait = {0};
    struct message_waiter waiter = {.request = request};
    while (!atomic_load_explicit(&request->done, memory_order_acquire)) {
        /* The thread that has the domain moves this request, too: perhaps on this CPU. */
        if (domain_is_wanted(&comm->team.domain) || !domain_try_lock(&comm->team.domain)) {
            if (yield_awake(comm, &backoff)) continue;
            message_watch_begin(comm, &waiter);
            nanosleep(&(struct timespec){0, NAP_NS}, NULL);
            crossing_wait(comm, request, &wait);
            continue;
        }
        if (!drive_awake(comm, request, &backoff)) {
            if (!request->is_message && is_running(comm, request_call(request)))
                sleep_in_call(comm, request_call(request), backoff.since_ns);
            message_watch_begin(comm, &waiter);
            sleep_until_something(comm);
            look_at_started(comm, clock_now_ns());
            crossing_wait(comm, request, &wait);
        }
        if (atomic_load_explicit(&request->done, memory_order_relaxed))
            health_unlock(&comm->health);
        else
            domain_unlock(&comm->team.domain);
    }
    message_watch_end(comm, &waiter);
    crossing_end_wait(comm, &wait);
}

/* -------------------------------------------------------------------------- the progress thread */

/* It sees itself to what it leaves, and must not wake itself. */
static void let_go(struct tutti_comm *comm)
{
    network_note_output(&comm->health);
    domain_unlock(&comm->team.domain);
}

/* While there is nothing to move: accepts connections, makes lost ones again, answers other hosts,
 * and ranks that ask for an agreement. */
static enum progress_result listen_to_others(struct tutti_comm *comm)
{
    if (!health_has_network(&comm->health) && !recover_has_begun(&comm->health))
        return PROGRESS_NOTHING_TO_DO;
    if (domain_is_wanted(&comm->team.domain) || !domain_try_lock(&comm->team.domain))
        return PROGRESS_LISTENING;
    domain_set_last_look(&comm->team.domain, true);
    const bool moved = network_progress(&comm->health);
    domain_set_last_look(&comm->team.domain, false);
    recover_listen(&comm->health);
    let_go(comm);
    if (moved) return PROGRESS_MOVED;
    return communicator_is_busy(comm) ? PROGRESS_BLOCKED : PROGRESS_LISTENING;
}

enum progress_result calls_client_progress(struct progress_client *client)
{
    struct tutti_comm *comm =
        (struct tutti_comm *)((char *)domain_of(client) - offsetof(struct tutti_comm, team.domain));
    if (!communicator_is_busy(comm)) return listen_to_others(comm);
    if (domain_is_wanted(&comm->team.domain) || !domain_try_lock(&comm->team.domain))
        return PROGRESS_BLOCKED; /* another thread moves it */
    domain_begin_pass(&comm->team.domain);
    const bool moved = calls_progress(comm);
    domain_end_pass(&comm->team.domain, moved);
    recover_listen(&comm->health);
    if (!moved) look_at_started(comm, clock_now_ns());
    let_go(comm);
    return moved ? PROGRESS_MOVED : PROGRESS_BLOCKED;
}
