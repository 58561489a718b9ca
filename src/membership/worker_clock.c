#include "membership/worker_clock.h"

#include <string.h>

#include "membership/rank_set.h"

void worker_clock_init(struct worker_clock *clock, const struct worker_clock_rule *rule,
                       int worker_count, int first_count, struct worker_clock_worker *workers)
{
    *clock = (struct worker_clock){
        .rule = *rule, .worker_count = worker_count, .left_count = first_count, .workers = workers};
    memset(workers, 0, (size_t)worker_count * sizeof *workers);
    for (int i = first_count; i < worker_count; i++) workers[i].state = WORKER_AWAITED;
}

static bool is_left(const struct worker_clock_worker *worker)
{
    return worker->state != WORKER_GONE && worker->state != WORKER_AWAITED;
}

/* The first clock that the worker has not ended. */
static uint64_t reached(const struct worker_clock_worker *worker)
{
    return worker->clock + (worker->state == WORKER_WAITS);
}

uint64_t worker_clock_lowest(const struct worker_clock *clock)
{
    uint64_t lowest = UINT64_MAX;
    for (int i = 0; i < clock->worker_count; i++) {
        const struct worker_clock_worker *const worker = &clock->workers[i];
        if (is_left(worker) && reached(worker) < lowest) lowest = reached(worker);
    }
    return lowest;
}

enum worker_clock_end worker_clock_end(struct worker_clock *clock, int worker, uint64_t number)
{
    struct worker_clock_worker *const own = &clock->workers[worker];
    if (!is_left(own)) return WORKER_CLOCK_REFUSED;
    if (number < reached(own)) return WORKER_CLOCK_KNOWN;
    if (number > own->clock || own->state == WORKER_WAITS) return WORKER_CLOCK_REFUSED;
    own->state = WORKER_WAITS;
    return WORKER_CLOCK_NEW;
}

void worker_clock_remove(struct worker_clock *clock, int worker)
{
    struct worker_clock_worker *const own = &clock->workers[worker];
    clock->left_count -= is_left(own);
    own->state = WORKER_GONE;
}

static uint64_t highest_ever(const struct worker_clock *clock)
{
    uint64_t highest = 0;
    for (int i = 0; i < clock->worker_count; i++)
        if (clock->workers[i].clock > highest) highest = clock->workers[i].clock;
    return highest;
}

void worker_clock_join(struct worker_clock *clock, int worker)
{
    struct worker_clock_worker *const own = &clock->workers[worker];
    /* With nobody left, a low clock would put workers that come back later too far ahead. */
    const uint64_t first = clock->left_count > 0 ? worker_clock_lowest(clock) : highest_ever(clock);
    (void)worker_clock_follow_join(clock, worker, first > own->clock ? first : own->clock);
}

bool worker_clock_follow_join(struct worker_clock *clock, int worker, uint64_t number)
{
    struct worker_clock_worker *const own = &clock->workers[worker];
    if (is_left(own)) return false;
    own->clock = number;
    own->state = WORKER_WORKS;
    clock->left_count++;
    return true;
}

/* The lowest clock of an update that waits; UINT64_MAX: none does. */
static uint64_t first_waiting(const struct worker_clock *clock)
{
    uint64_t first = UINT64_MAX;
    for (int i = 0; i < clock->worker_count; i++) {
        const struct worker_clock_worker *const worker = &clock->workers[i];
        if (worker->state == WORKER_WAITS && worker->clock < first) first = worker->clock;
    }
    return first;
}

/* Whether all workers that are left, of which the last has reached `lowest`, are near enough. */
static bool is_within(const struct worker_clock *clock, uint64_t number, uint64_t lowest)
{
    const uint64_t staleness = clock->rule.staleness;
    return number < lowest || number - lowest < staleness;
}

static int count_of(const struct worker_clock *clock, enum worker_state state)
{
    int count = 0;
    for (int i = 0; i < clock->worker_count; i++) count += clock->workers[i].state == state;
    return count;
}

static bool has_quorum(const struct worker_clock *clock)
{
    const int waiting = count_of(clock, WORKER_WAITS);
    const int able = clock->left_count - count_of(clock, WORKER_WISHES);
    const int needed = clock->rule.quorum < able ? clock->rule.quorum : able;
    return waiting > 0 && waiting >= needed;
}

/* The workers that wait become members; of one clock, or of any (UINT64_MAX). */
static void take(struct worker_clock *clock, uint64_t number, uint64_t *members)
{
    memset(members, 0, rank_set_words(clock->worker_count) * sizeof *members);
    for (int i = 0; i < clock->worker_count; i++) {
        struct worker_clock_worker *const worker = &clock->workers[i];
        if (worker->state != WORKER_WAITS) continue;
        if (number != UINT64_MAX && worker->clock != number) continue;
        rank_set_add(members, i);
        worker->clock++;
        worker->state = WORKER_WORKS;
    }
    clock->steps++;
}

bool worker_clock_decide(struct worker_clock *clock, uint64_t *members)
{
    if (clock->rule.quorum > 0) {
        if (!has_quorum(clock)) return false;
        take(clock, UINT64_MAX, members);
        return true;
    }
    const uint64_t first = first_waiting(clock);
    if (first == UINT64_MAX || !is_within(clock, first, worker_clock_lowest(clock))) return false;
    take(clock, first, members);
    return true;
}

void worker_clock_follow(struct worker_clock *clock, const uint64_t *members)
{
    for (int i = 0; i < clock->worker_count; i++) {
        struct worker_clock_worker *const worker = &clock->workers[i];
        if (!rank_set_has(members, i)) continue;
        worker->clock++;
        if (is_left(worker)) worker->state = WORKER_WORKS;
    }
    clock->steps++;
}

/* -------------------------------------------------------------------------------- another rule */

enum worker_clock_end worker_clock_wish(struct worker_clock *clock, int worker, uint64_t round,
                                        const struct worker_clock_rule *rule)
{
    struct worker_clock_worker *const own = &clock->workers[worker];
    if (!is_left(own)) return WORKER_CLOCK_REFUSED;
    if (round < clock->changes) return WORKER_CLOCK_KNOWN;
    if (round > clock->changes || own->state == WORKER_WAITS) return WORKER_CLOCK_REFUSED;
    own->state = WORKER_WISHES;
    own->wish = *rule;
    return WORKER_CLOCK_NEW;
}

static bool is_same(const struct worker_clock_rule *one, const struct worker_clock_rule *other)
{
    return one->staleness == other->staleness && one->quorum == other->quorum;
}

static void end_round(struct worker_clock *clock, bool has_agreed)
{
    for (int i = 0; i < clock->worker_count; i++)
        if (clock->workers[i].state == WORKER_WISHES) clock->workers[i].state = WORKER_WORKS;
    clock->changes++;
    if (has_agreed) clock->agreed = clock->changes;
}

enum worker_clock_change worker_clock_change(struct worker_clock *clock, int differing[2])
{
    int first = -1;
    for (int i = 0; i < clock->worker_count; i++) {
        const struct worker_clock_worker *const worker = &clock->workers[i];
        if (worker->state != WORKER_WISHES) continue;
        if (first < 0) first = i;
        if (is_same(&worker->wish, &clock->workers[first].wish)) continue;
        differing[0] = first;
        differing[1] = i;
        end_round(clock, false);
        return WORKER_CLOCK_DIFFERS;
    }
    if (first < 0 || count_of(clock, WORKER_WISHES) < clock->left_count) return WORKER_CLOCK_STAYS;
    clock->rule = clock->workers[first].wish;
    end_round(clock, true);
    return WORKER_CLOCK_AGREES;
}

bool worker_clock_has_changed(const struct worker_clock *clock, uint64_t round)
{
    /* Without that worker no later round can have been an agreement. */
    return round + 1 == clock->agreed;
}

void worker_clock_follow_change(struct worker_clock *clock, const struct worker_clock_rule *rule)
{
    if (rule != NULL) clock->rule = *rule;
    end_round(clock, rule != NULL);
}

/* --------------------------------------------------------------------------------------- waiting */

static bool is_awaited(const struct worker_clock *clock, const struct worker_clock_worker *own,
                       const struct worker_clock_worker *other)
{
    if (own->state == WORKER_WISHES) return other->state != WORKER_WISHES;
    if (other->state == WORKER_WAITS) return false;
    if (clock->rule.quorum > 0) return other->state != WORKER_WISHES;
    return !is_within(clock, own->clock, other->clock);
}

void worker_clock_awaited(const struct worker_clock *clock, int worker, uint64_t *awaited)
{
    memset(awaited, 0, rank_set_words(clock->worker_count) * sizeof *awaited);
    const struct worker_clock_worker *const own = &clock->workers[worker];
    if (own->state != WORKER_WAITS && own->state != WORKER_WISHES) return;
    for (int i = 0; i < clock->worker_count; i++) {
        const struct worker_clock_worker *const other = &clock->workers[i];
        if (is_left(other) && is_awaited(clock, own, other)) rank_set_add(awaited, i);
    }
}
