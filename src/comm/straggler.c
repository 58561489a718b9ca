#include "comm/straggler.h"

#include <stdlib.h>

#include "base/collective.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/failure.h"
#include "comm/remote_rank.h"
#include "health/recorder.h"
#include "os/clock.h"

/* A named rank is passed on for so long; waits are so many times as short as the time in which they fell, at most. */
static const uint64_t WAIT_NS_MIN = 1000000, NAME_NS_MAX = 1000000000;
enum { SHARE_MAX = 20 };

enum tutti_status straggler_init(struct straggler *straggler, int size)
{
    straggler->open.rank = straggler->longest.rank = straggler->name.rank = -1;
    straggler->held_ns = calloc((size_t)size, sizeof *straggler->held_ns);
    if (straggler->held_ns == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    return TUTTI_OK;
}

void straggler_release(struct straggler *straggler)
{
    free(straggler->held_ns);
}

/* ------------------------------------------------------------------------------------------- judgement */

void straggler_add(struct straggler *straggler, const struct straggler_wait *wait)
{
    straggler->waits[straggler->wait_count++ % STRAGGLER_WAITS] = *wait;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* m > 2.5 s of count lengths, of which those that are not among the `held` given ones are 0. */
static bool are_alike(uint64_t *lengths, unsigned held, uint64_t count)
{
    qsort(lengths, held, sizeof *lengths, compare);
    const uint64_t most = 2 * lengths[held / 2];
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < held; i++) {
        const double length = (double)(lengths[i] < most ? lengths[i] : most);
        sum += length;
        squares += length * length;
    }
    const double n = (double)count, variance = squares / n - sum / n * (sum / n);
    return sum / n * (sum / n) > 2.5 * 2.5 * variance;
}

bool straggler_judge(const struct straggler *straggler, uint64_t rank_waits, uint64_t now_ns,
                     struct straggler_name *name)
{
    if (straggler->wait_count < STRAGGLER_WAITS) return false;
    const struct straggler_wait *waits = straggler->waits;
    const unsigned oldest = straggler->wait_count % STRAGGLER_WAITS;
    const int rank = waits[(oldest + STRAGGLER_WAITS - 1) % STRAGGLER_WAITS].rank;
    uint64_t lengths[STRAGGLER_WAITS], sum = 0, before = rank_waits;
    unsigned held = 0;
    for (unsigned i = 0; i < STRAGGLER_WAITS; i++) {
        const struct straggler_wait *wait = &waits[(oldest + i) % STRAGGLER_WAITS];
        if (wait->rank != rank) continue;
        if (held == 0) before = wait->rank_waits;
        lengths[held++] = wait->ns;
        sum += wait->ns;
    }
    /* Where this rank waited for another one, so did the one that is waited for now. */
    const uint64_t others = STRAGGLER_WAITS - held, its = rank_waits - before;
    const uint64_t calls = STRAGGLER_WAITS + (its > others ? its - others : 0);
    if (sum * SHARE_MAX < now_ns - waits[oldest].since_ns || !are_alike(lengths, held, calls))
        return false;
    *name = (struct straggler_name){
        .rank = rank, .held = held, .calls = (unsigned)calls, .mean_ns = sum / held};
    return true;
}

/* --------------------------------------------------------------------------------------------- looking */

/* Of the ranks of this host those that have not called it: the one that is waited for, or else the first; -1 if there is none,
 * or if it is most of them. */
static int absentee(const struct tutti_comm *comm, const struct call_request *request, int peer)
{
    const struct call_description *what = &request->call.what;
    int first = -1, count = 0;
    for (int i = 0; i < comm_local_size(comm); i++) {
        const int rank = comm_local_rank(comm, i);
        if (board_may_have_begun(comm_calls_of(comm, rank, request->slot), request->begun))
            continue;
        if (rank == peer || (collective_is_rooted(what->collective) && rank == what->root))
            return rank;
        if (count++ == 0) first = rank;
    }
    return 2 * count > comm_local_size(comm) ? -1 : first;
}

/* Whoever may have come later than this rank; -1. */
static int holder(const struct tutti_comm *comm, const struct call_request *request)
{
    const int peer = operation_waits_for(&request->operation);
    const int rank = absentee(comm, request, peer);
    return rank >= 0 || peer < 0 || comm_shares_host(comm, peer) ? rank : peer;
}

/* It lasted until this rank was last woken. */
static void close_wait(struct straggler *straggler)
{
    struct straggler_wait *open = &straggler->open;
    open->ns = straggler->woken_ns > open->since_ns ? straggler->woken_ns - open->since_ns : 0;
    if (open->rank >= 0 && open->ns > straggler->longest.ns) straggler->longest = *open;
    open->rank = -1;
}

static bool has_begun(const struct tutti_comm *comm, const struct call_request *request)
{
    return request == &comm->calls.blocking || comm->calls.running[request->slot] == request;
}

void straggler_sleep(struct tutti_comm *comm, const struct call_request *request, uint64_t since_ns)
{
    struct straggler *straggler = &comm->health.straggler;
    if (!CALLS_ARE_WATCHED || !has_begun(comm, request)) return;
    if (straggler->sequence != request->base.sequence) {
        straggler->sequence = request->base.sequence;
        straggler->open.rank = straggler->longest.rank = -1;
        straggler->longest.ns = 0;
    }
    const int rank = holder(comm, request);
    if (straggler->open.rank == rank) return;
    close_wait(straggler);
    const uint64_t woken_ns = straggler->woken_ns;
    straggler->open =
        (struct straggler_wait){.rank = rank, .since_ns = since_ns > woken_ns ? since_ns : woken_ns};
}

/* ---------------------------------------------------------------------------------------------- naming */

static void say(struct tutti_comm *comm, const struct straggler_name *name, uint64_t now_ns)
{
    char who[128];
    comm->health.straggler.name = *name;
    if (!board_may_name(comm->health.board, name->rank, now_ns)) return;
    comm_name_rank(comm, name->rank, who, sizeof who);
    log_write(LOG_WARN,
              "rank %d: STRAGGLER: %s held up %u of the last %u calls, by %.1f ms on average",
              comm->rank, who, name->held, name->calls, (double)name->mean_ns * 1e-6);
}

/* A wait for a rank that came later than this one, and has waited so often itself. */
static bool add(struct tutti_comm *comm, const struct straggler_wait *wait, uint64_t now_ns)
{
    struct straggler_name name;
    recorder_add(&comm->health.straggler.held_ns[wait->rank], wait->ns);
    board_add_wait(comm->health.board, comm->rank);
    straggler_add(&comm->health.straggler, wait);
    if (!straggler_judge(&comm->health.straggler, wait->rank_waits, now_ns, &name)) return false;
    name.named_ns = now_ns;
    say(comm, &name, now_ns);
    return true;
}

void straggler_end(struct tutti_comm *comm, const struct call_request *request)
{
    struct straggler *straggler = &comm->health.straggler;
    if (straggler->sequence != request->base.sequence) return;
    close_wait(straggler);
    straggler->sequence = 0;
    struct straggler_wait *wait = &straggler->longest;
    if (wait->rank < 0 || wait->ns < WAIT_NS_MIN) return;
    if (comm_shares_host(comm, wait->rank)) {
        wait->rank_waits = board_waits(comm->health.board, wait->rank);
        add(comm, wait, clock_now_ns());
    } else if (remote_ask_after(comm, wait->rank, request->slot, request->begun)) {
        straggler->asked = *wait;
        straggler->asked_slot = request->slot;
        straggler->asked_begun = request->begun;
    }
}

/* -------------------------------------------------------------------------------------- other hosts */

/* When this rank began the call of that number in a slot; 0: not yet, or long ago. */
static uint64_t begun_ns(const struct tutti_comm *comm, int slot, uint64_t begun)
{
    uint64_t back = comm->calls.begun[slot];
    const uint64_t last = atomic_load_explicit(&comm->calls.sequence, memory_order_relaxed);
    struct record record;
    for (uint64_t number = last; back >= begun && number >= recorder_first(last); number--) {
        if (!recorder_read(&comm->health.recorder, number, &record)) continue; /* in line */
        if (record.slot == (unsigned)slot && back-- == begun) return record.begin_ns;
    }
    return 0;
}

struct straggler_answer straggler_answer(const struct tutti_comm *comm, int slot, uint64_t begun)
{
    const uint64_t now_ns = clock_now_ns(), since_ns = begun_ns(comm, slot, begun);
    struct straggler_answer answer = {.waits = board_waits(comm->health.board, comm->rank),
                                      .name = comm->health.straggler.name};
    if (since_ns > 0 && since_ns < now_ns) answer.age_ns = now_ns - since_ns;
    if (now_ns - answer.name.named_ns > NAME_NS_MAX) answer.name.rank = -1;
    return answer;
}

void straggler_hear(struct tutti_comm *comm, int peer, int slot, uint64_t begun,
                    const struct straggler_answer *answer)
{
    struct straggler *straggler = &comm->health.straggler;
    struct straggler_wait *wait = &straggler->asked;
    if (begun == 0 || straggler->asked_begun != begun || straggler->asked_slot != slot ||
        wait->rank != peer)
        return;
    straggler->asked_begun = 0;
    const uint64_t now_ns = clock_now_ns(), its_ns = now_ns - answer->age_ns;
    const bool came_later =
        answer->age_ns > 0 && answer->age_ns < now_ns && its_ns > wait->since_ns + WAIT_NS_MIN;
    if (came_later) {
        const uint64_t late_ns = its_ns - wait->since_ns;
        if (late_ns < wait->ns) wait->ns = late_ns;
        wait->rank_waits = answer->waits;
        if (add(comm, wait, now_ns)) return;
    }
    const struct straggler_name *name = &answer->name;
    if (name->rank >= 0 && name->rank < comm->size && name->rank != comm->rank)
        say(comm, name, now_ns);
}
