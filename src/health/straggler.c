#include "health/straggler.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "health/deaths.h"
#include "health/failure.h"
#include "health/health.h"
#include "health/recorder.h"
#include "health/remote_rank.h"
#include "os/clock.h"
#include "os/process.h"

/* A named rank is passed on for so long; waits are so many times as short as the time in which they
 * fell, at most. */
static const uint64_t WAIT_NS_MIN = 1000000, NAME_NS_MAX = 1000000000;
static const uint64_t MUTUAL_NS =
    30000000000u; /* so long a finding speaks against one the other way round */
enum { SHARE_MAX = 20 };

enum tutti_status straggler_init(struct straggler *straggler, int size)
{
    straggler->open.rank = straggler->longest.rank = straggler->name.rank = -1;
    straggler->blamed_by = -1;
    straggler->held_ns = calloc((size_t)size, sizeof *straggler->held_ns);
    straggler->delays = calloc((size_t)size, sizeof *straggler->delays);
    if (straggler->held_ns == NULL || straggler->delays == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    return TUTTI_OK;
}

void straggler_release(struct straggler *straggler)
{
    free(straggler->held_ns);
    free(straggler->delays);
}

/* ------------------------------------------------------------------------------------ judgement */

void straggler_excuse(struct straggler *straggler, struct straggler_wait *wait,
                      const struct straggler_delays *now)
{
    struct straggler_delays *const last = &straggler->delays[wait->rank];
    const bool are_known = now->its != 0 && now->own != 0 && last->its != 0 && last->own != 0;
    const int32_t more = are_known ? (int32_t)(now->its - last->its - (now->own - last->own)) : 0;
    const uint64_t excused_ns = more > 0 ? (uint64_t)more * STRAGGLER_DELAY_NS : 0;
    *last = *now;
    wait->ns = wait->ns > excused_ns ? wait->ns - excused_ns : 0;
    if (wait->ns < WAIT_NS_MIN) *wait = (struct straggler_wait){-1, 0, wait->since_ns, 0};
}

bool straggler_is_mutual(uint64_t then_ns, uint64_t now_ns)
{
    return then_ns > now_ns || now_ns - then_ns < MUTUAL_NS; /* the other rank's now may be later */
}

void straggler_add(struct straggler *straggler, const struct straggler_wait *wait)
{
    straggler->waits[straggler->wait_count++ % STRAGGLER_WAITS] = *wait;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Whether m > 2.5 s for `count` lengths, of which all but the `held` given lengths are 0. */
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
    if (rank < 0) return false;
    for (unsigned i = 0; i < STRAGGLER_WAITS; i++) {
        const struct straggler_wait *wait = &waits[(oldest + i) % STRAGGLER_WAITS];
        if (wait->rank != rank) continue;
        if (held == 0) before = wait->rank_waits;
        lengths[held++] = wait->ns;
        sum += wait->ns;
    }
    /* Also the rank in question waited in the calls in which this rank waited for another one. */
    const uint64_t others = STRAGGLER_WAITS - held, its = rank_waits - before;
    const uint64_t calls = STRAGGLER_WAITS + (its > others ? its - others : 0);
    if (sum * SHARE_MAX < now_ns - waits[oldest].since_ns || !are_alike(lengths, held, calls))
        return false;
    *name = (struct straggler_name){
        .rank = rank, .held = held, .calls = (unsigned)calls, .mean_ns = sum / held};
    return true;
}

/* -------------------------------------------------------------------------------------- looking */

/* The rank of this host that has not begun the call: the rank that is waited for, or else the
 * first. -1: all have begun it, or most have not. */
static int absentee(const struct health *health, const struct straggler_call *call, int peer)
{
    int first = -1, count = 0;
    for (int i = 0; i < team_local_size(health->team); i++) {
        const int rank = team_local_rank(health->team, i);
        if (board_may_have_begun(health_calls_of(health, i, call->slot), call->begun)) continue;
        if (rank == peer || rank == call->root) return rank;
        if (count++ == 0) first = rank;
    }
    return 2 * count > team_local_size(health->team) ? -1 : first;
}

/* The rank that may have come later than this one; -1: none. */
static int holder(const struct health *health, const struct straggler_call *call, int peer)
{
    const int rank = absentee(health, call, peer);
    return rank >= 0 || peer < 0 || team_shares_host(health->team, peer) ? rank : peer;
}

/* The wait lasted until this rank was last woken. */
static void close_wait(struct straggler *straggler)
{
    struct straggler_wait *open = &straggler->open;
    open->ns = straggler->woken_ns > open->since_ns ? straggler->woken_ns - open->since_ns : 0;
    if (open->rank >= 0 && open->ns > straggler->longest.ns) straggler->longest = *open;
    open->rank = -1;
}

void straggler_sleep(struct health *health, const struct straggler_call *call, int peer,
                     uint64_t since_ns)
{
    struct straggler *straggler = &health->straggler;
    if (!CALLS_ARE_WATCHED) return;
    board_set_thread(health->board, health->board_number, (int)syscall(SYS_gettid));
    if (straggler->sequence != call->sequence) {
        straggler->sequence = call->sequence;
        straggler->open.rank = straggler->longest.rank = -1;
        straggler->longest.ns = 0;
    }
    const int rank = holder(health, call, peer);
    if (straggler->open.rank == rank) return;
    close_wait(straggler);
    const uint64_t woken_ns = straggler->woken_ns;
    straggler->open =
        (struct straggler_wait){.rank = rank, .since_ns = since_ns > woken_ns ? since_ns : woken_ns};
}

/* --------------------------------------------------------------------------------------- naming */

static void say(struct health *health, const struct straggler_name *name, uint64_t now_ns)
{
    char who[128];
    health->straggler.name = *name;
    if (!board_claim_naming(health->board, health->board_size, name->rank, now_ns)) return;
    health_name_rank(health, name->rank, who, sizeof who);
    log_write(LOG_WARN,
              "rank %d: STRAGGLER: %s held up %u of the last %u calls, by %.1f ms on average",
              health->team->rank, who, name->held, name->calls, (double)name->mean_ns * 1e-6);
}

/* The delay of a rank of this host, as in struct straggler_delays: of the thread that makes its
 * calls, or of the first thread of its process if none has slept in a call. */
static uint32_t delay_of(const struct health *health, int rank)
{
    const int number = team_local_number(health->team, rank);
    if (rank != health->team->rank && health_is_hidden(health, rank)) return 0;
    const pid_t pid = health_pid_of(health, rank), thread = board_thread(health->board, number);
    const uint64_t ns = process_waited_ns(pid, thread != 0 ? thread : pid);
    const uint32_t delay = (uint32_t)(ns / STRAGGLER_DELAY_NS);
    return ns > 0 && delay == 0 ? 1 : delay;
}

/* Whether that rank takes this one for a straggler, as far as is known. */
static bool blames_this_one(const struct health *health, int rank, uint64_t now_ns)
{
    const struct straggler *straggler = &health->straggler;
    const int number = team_local_number(health->team, rank);
    uint64_t then_ns = straggler->blamed_ns;
    if (number < 0) return straggler->blamed_by == rank && straggler_is_mutual(then_ns, now_ns);
    const int blamed = board_blame(health->board, number, &then_ns);
    return blamed == health->team->rank && straggler_is_mutual(then_ns, now_ns);
}

/* A wait for a rank that came later than this one, has waited so often itself, and was delayed so
 * long. */
static bool add(struct health *health, struct straggler_wait *wait, uint32_t its_delay,
                uint64_t now_ns)
{
    struct straggler_name name;
    const struct straggler_delays delays = {its_delay, delay_of(health, health->team->rank)};
    board_add_wait(health->board, health->board_number);
    straggler_excuse(&health->straggler, wait, &delays);
    if (wait->rank >= 0) recorder_add(&health->straggler.held_ns[wait->rank], wait->ns);
    straggler_add(&health->straggler, wait);
    if (!straggler_judge(&health->straggler, wait->rank_waits, now_ns, &name)) return false;
    board_set_blame(health->board, health->board_number, name.rank, now_ns);
    if (blames_this_one(health, name.rank, now_ns)) return false;
    name.named_ns = now_ns;
    say(health, &name, now_ns);
    return true;
}

void straggler_end(struct health *health, const struct straggler_call *call)
{
    struct straggler *straggler = &health->straggler;
    if (straggler->sequence != call->sequence) return;
    close_wait(straggler);
    straggler->sequence = 0;
    struct straggler_wait *wait = &straggler->longest;
    if (wait->rank < 0 || wait->ns < WAIT_NS_MIN) return;
    if (team_shares_host(health->team, wait->rank)) {
        wait->rank_waits = board_waits(health->board, team_local_number(health->team, wait->rank));
        add(health, wait, delay_of(health, wait->rank), clock_now_ns());
    } else if (remote_ask_after(health, wait->rank, call->slot, call->begun)) {
        straggler->asked = *wait;
        straggler->asked_slot = call->slot;
        straggler->asked_begun = call->begun;
    }
}

/* ---------------------------------------------------------------------------------- other hosts */

/* When this rank began the call of that number in a slot; 0: not yet, or long ago. */
static uint64_t begun_ns(const struct health *health, int slot, uint64_t begun)
{
    uint64_t back = board_begun(health_own_calls(health, slot));
    const uint64_t last = recorder_latest(&health->recorder);
    struct record record;
    for (uint64_t number = last; back >= begun && number >= recorder_first(last); number--) {
        if (!recorder_read(&health->recorder, number, &record)) continue; /* in line */
        if (record.slot == (unsigned)slot && back-- == begun) return record.begin_ns;
    }
    return 0;
}

struct straggler_answer straggler_answer(const struct health *health, int slot, uint64_t begun)
{
    const uint64_t now_ns = clock_now_ns(), since_ns = begun_ns(health, slot, begun);
    struct straggler_answer answer = {.waits = board_waits(health->board, health->board_number),
                                      .delay = delay_of(health, health->team->rank),
                                      .name = health->straggler.name};
    if (since_ns > 0 && since_ns < now_ns) answer.age_ns = now_ns - since_ns;
    if (now_ns - answer.name.named_ns > NAME_NS_MAX) answer.name.rank = -1;
    return answer;
}

void straggler_hear(struct health *health, int peer, int slot, uint64_t begun,
                    const struct straggler_answer *answer)
{
    struct straggler *straggler = &health->straggler;
    struct straggler_wait *wait = &straggler->asked;
    if (begun == 0 || straggler->asked_begun != begun || straggler->asked_slot != slot ||
        wait->rank != peer)
        return;
    straggler->asked_begun = 0;
    const uint64_t now_ns = clock_now_ns(), its_ns = now_ns - answer->age_ns;
    if (answer->name.rank == health->team->rank) {
        straggler->blamed_by = peer;
        straggler->blamed_ns = now_ns;
    }
    const bool came_later =
        answer->age_ns > 0 && answer->age_ns < now_ns && its_ns > wait->since_ns + WAIT_NS_MIN;
    if (came_later) {
        const uint64_t late_ns = its_ns - wait->since_ns;
        if (late_ns < wait->ns) wait->ns = late_ns;
        wait->rank_waits = answer->waits;
        if (add(health, wait, answer->delay, now_ns)) return;
    }
    const struct straggler_name *name = &answer->name;
    if (name->rank >= 0 && name->rank < health->team->size && name->rank != health->team->rank)
        say(health, name, now_ns);
}
