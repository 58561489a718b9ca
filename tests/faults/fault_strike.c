#include "tests/faults/fault_strike.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "tests/kit/connections.h"
#include "tests/worlds/ranks.h"

enum { FLIPS_FOR_EVER = 1 << 30 };

static atomic_int flips_left;
static _Atomic(_Atomic uint64_t *) flip_struck_ns; /* where it is noted that one was made */

bool fault_takes_flip(void)
{
    if (atomic_load(&flips_left) <= 0 || atomic_fetch_sub(&flips_left, 1) <= 0) return false;
    uint64_t not_yet = 0;
    atomic_compare_exchange_strong(atomic_load(&flip_struck_ns), &not_yet, clock_now_ns());
    return true;
}

void fault_flips_end(void)
{
    atomic_store(&flips_left, 0);
}

void fault_descriptors_limit(bool limited)
{
    static struct rlimit usual;
    if (!limited) {
        setrlimit(RLIMIT_NOFILE, &usual);
        return;
    }
    const int lowest_free = dup(STDERR_FILENO);
    close(lowest_free);
    getrlimit(RLIMIT_NOFILE, &usual);
    const struct rlimit none = {(rlim_t)lowest_free, usual.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
}

/* A child may not use what it inherits, and gives it back without harm to anybody. */
static void fork_and_use(struct fault_strikes *strikes)
{
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const bool refused = tutti_barrier(strikes->comm) == TUTTI_INVALID_COMM;
        _exit(refused && tutti_comm_free(strikes->comm) == TUTTI_OK ? 0 : 1);
    }
    int status = -1;
    if (child > 0) waitpid(child, &status, 0);
    if (status != 0) strikes->record->ranks[strikes->rank].child_status = status;
}

static void begin_flips(struct fault_strikes *strikes, int fault, int count)
{
    atomic_store(&flip_struck_ns, &strikes->record->struck_ns[fault]);
    atomic_store(&flips_left, count);
}

static void strike(struct fault_strikes *strikes, int index)
{
    const struct fault *fault = &strikes->schedule->faults[index];
    if (fault->kind == FAULT_FLIP || fault->kind == FAULT_CORRUPT) {
        begin_flips(strikes, index, fault->kind == FAULT_FLIP ? 1 : FLIPS_FOR_EVER);
        return;
    }
    atomic_store(&strikes->record->struck_ns[index], clock_now_ns());
    switch (fault->kind) {
    case FAULT_KILL: kill(getpid(), SIGKILL); break;
    case FAULT_EXIT: _exit(EXIT_SUCCESS);
    case FAULT_LEAVE: strikes->leaves = true; break;
    case FAULT_STOP: kill(getpid(), SIGSTOP); break; /* who started it lets it go on */
    case FAULT_LATE: ranks_nap_ms(fault->detail / 1000); break;
    case FAULT_ABORT: (void)tutti_comm_abort(strikes->comm, "the schedule says so"); break;
    case FAULT_REVOKE: (void)tutti_comm_revoke(strikes->comm); break;
    case FAULT_RESET: connections_cut(); break;
    case FAULT_FORK: fork_and_use(strikes); break;
    default: break;
    }
}

static bool is_within_call(const struct fault *fault)
{
    return fault->kind == FAULT_MISMATCH || fault->kind == FAULT_DESYNC ||
           fault->kind == FAULT_DESCRIPTORS;
}

/* Whether the fault is this rank's, for that place, and has not struck. */
static bool is_due(const struct fault_strikes *strikes, int index, int operation,
                   enum fault_phase phase)
{
    const struct fault *fault = &strikes->schedule->faults[index];
    const bool here =
        phase == FAULT_RECOVERY ? fault->operation < operation : fault->operation == operation;
    return here && fault->rank == strikes->rank && fault->phase == phase &&
           !is_within_call(fault) && atomic_load(&strikes->record->struck_ns[index]) == 0;
}

void fault_strike(struct fault_strikes *strikes, int operation, enum fault_phase phase)
{
    for (int i = 0; i < strikes->schedule->fault_count; i++)
        if (is_due(strikes, i, operation, phase)) strike(strikes, i);
}

static void *strike_later(void *context)
{
    const struct fault_pending *pending = context;
    struct fault_strikes *strikes = pending->strikes;
    usleep((useconds_t)strikes->schedule->faults[pending->fault].delay_us);
    strike(strikes, pending->fault);
    return NULL;
}

void fault_strike_soon(struct fault_strikes *strikes, int operation, enum fault_phase phase)
{
    for (int i = 0; i < strikes->schedule->fault_count; i++) {
        struct fault_pending *pending = &strikes->pending[i];
        if (pending->waits || !is_due(strikes, i, operation, phase)) continue;
        pending->strikes = strikes;
        pending->fault = i;
        pending->waits = pthread_create(&pending->thread, NULL, strike_later, pending) == 0;
    }
}

void fault_strike_join(struct fault_strikes *strikes)
{
    for (int i = 0; i < strikes->schedule->fault_count; i++) {
        if (strikes->pending[i].waits) pthread_join(strikes->pending[i].thread, NULL);
        strikes->pending[i].waits = false;
    }
}

const struct fault *fault_strike_in_call(struct fault_strikes *strikes, int operation)
{
    for (int i = 0; i < strikes->schedule->fault_count; i++) {
        const struct fault *fault = &strikes->schedule->faults[i];
        if (fault->rank != strikes->rank || fault->operation != operation || !is_within_call(fault))
            continue;
        atomic_store(&strikes->record->struck_ns[i], clock_now_ns());
        return fault;
    }
    return NULL;
}
