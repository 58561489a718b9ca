/* Hosts in virtual time, on a network that delays, cuts and heals, from a seed: who is there is
 * found out, nobody who is there is taken for dead, and at most one side goes on.
 *
 * ctest: timeout=120 label=notsan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "membership/heartbeat.h"
#include "tests/kit/chance.h"

enum { HOSTS = 16, QUEUE = 4096, USUAL_SEED = 20260101 };
static const uint64_t MS = 1000000, PERIOD = 100 * 1000000u;

/* -------------------------------------------------------------------------------- a small world */

struct heartbeat_message {
    uint64_t at_ns;
    int from, to;
    bool is_verdict; /* the word of a failure */
    int culprit;
    bool is_minority;
    size_t bytes;
    unsigned char data[HEARTBEAT_BYTES_MAX];
};

struct host {
    struct heartbeat *heartbeat;
    bool is_dead, is_stopped, has_failed, is_minority;
    int culprit;
    uint64_t failed_ns, next_ns;
    uint64_t answered_ns[HOSTS];  /* when that one's kernel acknowledged last */
    uint64_t condemned_ns[HOSTS]; /* when there was a verdict on that one; 0: there was none */
    unsigned suspicions;
};

struct world {
    int count;
    uint64_t seed, now_ns, delay_ns_max, tick_ns_max;
    int side[HOSTS]; /* those on one side hear each other */
    struct host hosts[HOSTS];
    int counts[HOSTS];
    struct heartbeat_message *queue;
    int queued;
};

static uint64_t chance(struct world *world, uint64_t below)
{
    const uint64_t number = chance_next(&world->seed);
    return below == 0 ? 0 : number % below;
}

static void open_world(struct world *world, uint64_t seed, int count)
{
    memset(world, 0, sizeof *world);
    world->seed = seed;
    world->count = count;
    world->now_ns = 1000 * MS;
    world->delay_ns_max = 20 * MS;
    world->tick_ns_max = 40 * MS;
    world->queue = calloc(QUEUE, sizeof *world->queue);
    assert_non_null(world->queue);
    for (int h = 0; h < count; h++) world->counts[h] = 1 + (int)chance(world, 4);
    for (int h = 0; h < count; h++) {
        const struct heartbeat_options options = {.host = h,
                                                  .host_count = count,
                                                  .rank_counts = world->counts,
                                                  .period_ns = PERIOD,
                                                  .now_ns = world->now_ns,
                                                  .first_ns =
                                                      world->now_ns + chance(world, 300 * MS)};
        assert_int_equal(heartbeat_create(&options, &world->hosts[h].heartbeat), TUTTI_OK);
        world->hosts[h].culprit = -1;
    }
}

static void close_world(struct world *world)
{
    for (int h = 0; h < world->count; h++) heartbeat_free(world->hosts[h].heartbeat);
    free(world->queue);
}

static bool reaches(const struct world *world, int from, int to)
{
    return world->side[from] == world->side[to] && !world->hosts[from].is_dead &&
           !world->hosts[to].is_dead;
}

/* A message that is sent into a cut is lost; over a connection it would come later, with the next
 * heartbeat. */
static struct heartbeat_message *post(struct world *world, int from, int to)
{
    if (!reaches(world, from, to)) return NULL;
    world->hosts[from].answered_ns[to] = world->now_ns; /* the kernel's word */
    assert_true(world->queued < QUEUE);
    struct heartbeat_message *message = &world->queue[world->queued++];
    message->at_ns = world->now_ns + chance(world, world->delay_ns_max);
    message->from = from;
    message->to = to;
    message->is_verdict = false;
    return message;
}

static void adopt(struct world *world, int h, bool is_minority, int culprit)
{
    struct host *host = &world->hosts[h];
    if (host->has_failed) return;
    host->has_failed = true;
    host->is_minority = is_minority;
    host->culprit = culprit;
    host->failed_ns = world->now_ns;
    for (int to = 0; to < world->count; to++) {
        struct heartbeat_message *message = to != h ? post(world, h, to) : NULL;
        if (message == NULL) continue;
        message->is_verdict = true;
        message->is_minority = is_minority;
        message->culprit = culprit;
    }
}

static void deliver(struct world *world)
{
    for (int i = 0; i < world->queued; i++) {
        struct heartbeat_message *message = &world->queue[i];
        struct host *to = &world->hosts[message->to];
        if (message->at_ns > world->now_ns || to->is_stopped) continue;
        const struct heartbeat_message copy = *message;
        *message = world->queue[--world->queued];
        i--;
        if (to->is_dead) continue;
        if (!copy.is_verdict)
            heartbeat_hear(to->heartbeat, copy.data, copy.bytes, world->now_ns);
        else if (reaches(world, copy.from, copy.to))
            adopt(world, copy.to, copy.is_minority, copy.culprit);
    }
}

static void send_beats(struct world *world, int h)
{
    struct host *host = &world->hosts[h];
    int to;
    bool is_poke;
    while (heartbeat_next(host->heartbeat, &to, &is_poke)) {
        assert_true(to >= 0 && to < world->count && to != h);
        struct heartbeat_message *message = post(world, h, to);
        if (message != NULL) message->bytes = heartbeat_write(host->heartbeat, 0, message->data);
    }
    for (int other = 0; other < world->count; other++)
        if (heartbeat_wants_answer(host->heartbeat, other) && host->answered_ns[other] > 0)
            heartbeat_answered(host->heartbeat, other, host->answered_ns[other]);
}

static void tick(struct world *world, int h)
{
    struct host *host = &world->hosts[h];
    struct heartbeat_verdict verdict;
    enum heartbeat_state before, now;
    int other;
    if (host->is_dead || host->is_stopped || world->now_ns < host->next_ns) return;
    host->next_ns = world->now_ns + 5 * MS + chance(world, world->tick_ns_max);
    if (heartbeat_progress(host->heartbeat, world->now_ns)) send_beats(world, h);
    while (heartbeat_change(host->heartbeat, &other, &before, &now))
        host->suspicions += now == HEARTBEAT_SUSPECTED;
    if (heartbeat_judge(host->heartbeat, &verdict))
        adopt(world, h, verdict.is_minority, verdict.culprit);
    while (heartbeat_condemned(host->heartbeat, &other)) {
        assert_int_equal(host->condemned_ns[other], 0); /* each once */
        host->condemned_ns[other] = world->now_ns;
    }
}

static void run(struct world *world, uint64_t duration_ns)
{
    const uint64_t end_ns = world->now_ns + duration_ns;
    for (; world->now_ns < end_ns; world->now_ns += 5 * MS) {
        for (int h = 0; h < world->count; h++) tick(world, h);
        /* The kernel probes an idle connection once a second. */
        if (world->now_ns / (5 * MS) % 200 == 0)
            for (int h = 0; h < world->count; h++)
                for (int to = 0; to < world->count; to++)
                    if (reaches(world, h, to)) world->hosts[h].answered_ns[to] = world->now_ns;
        deliver(world);
    }
}

static void expect_nothing_happened(const struct world *world)
{
    for (int h = 0; h < world->count; h++)
        if (!world->hosts[h].is_dead) assert_false(world->hosts[h].has_failed);
}

/* ------------------------------------------------------------------------------------ schedules */

#define SCHEDULES(seed, count)                                                                  \
    for (uint64_t seed = chance_seed(USUAL_SEED), last_seed = seed + (count); seed < last_seed; \
         seed++)

static void nobody_is_suspected_who_is_there(void **state)
{
    (void)state;
    struct world world;
    SCHEDULES(seed, 100)
    {
        open_world(&world, seed, 2 + (int)(seed % (HOSTS - 1)));
        world.delay_ns_max = 250 * MS;
        world.tick_ns_max = 60 * MS;
        run(&world, 6000 * MS);
        expect_nothing_happened(&world);
        for (int h = 0; h < world.count; h++) {
            assert_int_equal(world.hosts[h].suspicions, 0);
            for (int other = 0; other < world.count; other++)
                assert_int_not_equal(heartbeat_state(world.hosts[h].heartbeat, other),
                                     HEARTBEAT_UNHEARD);
        }
        close_world(&world);
    }
}

static long ranks_of(const struct world *world, bool dead)
{
    long count = 0;
    for (int h = 0; h < world->count; h++)
        if (world->hosts[h].is_dead == dead) count += world->counts[h];
    return count;
}

/* Hosts die within 0.7 s: the survivors name the lowest of them, or say on which side they are. */
static void all_survivors_name_the_lowest_dead_host(void **state)
{
    (void)state;
    struct world world;
    uint64_t slowest_ns = 0;
    SCHEDULES(seed, 300)
    {
        open_world(&world, seed, 2 + (int)(seed % (HOSTS - 1)));
        run(&world, 1500 * MS + chance(&world, 500 * MS));
        const int deaths = 1 + (int)chance(&world, (uint64_t)(world.count + 1) / 2);
        for (int i = 0; i < deaths; i++) {
            world.hosts[chance(&world, (uint64_t)world.count)].is_dead = true;
            if (i + 1 < deaths) run(&world, chance(&world, 700 * MS / (uint64_t)deaths));
        }
        const uint64_t died_ns = world.now_ns;
        run(&world, 5500 * MS);
        int lowest = 0;
        while (!world.hosts[lowest].is_dead) lowest++;
        const long all = ranks_of(&world, false) + ranks_of(&world, true),
                   own = ranks_of(&world, false);
        const bool is_minority = own * 2 < all || (own * 2 == all && lowest == 0);
        for (int h = 0; h < world.count; h++) {
            if (world.hosts[h].is_dead) continue;
            assert_true(world.hosts[h].has_failed);
            assert_int_equal(world.hosts[h].culprit, lowest);
            assert_int_equal(world.hosts[h].is_minority, is_minority);
            assert_true(world.hosts[h].suspicions > 0);
            const uint64_t took_ns = world.hosts[h].failed_ns - died_ns;
            if (took_ns > slowest_ns) slowest_ns = took_ns;
        }
        close_world(&world);
    }
    print_message("slowest: %.2f s\n", (double)slowest_ns * 1e-9);
    assert_true(slowest_ns < 5000 * MS);
}

static void kill_one(struct world *world)
{
    int h;
    do h = (int)chance(world, (uint64_t)world->count);
    while (world->hosts[h].is_dead);
    world->hosts[h].is_dead = true;
}

/* Hosts die one after the other, some while the verdict on those before is awaited, some long after
 * it: all survivors have a verdict on each as soon, and on no host that is there. */
static void hosts_that_die_after_a_verdict_are_judged_as_soon(void **state)
{
    (void)state;
    struct world world;
    SCHEDULES(seed, 200)
    {
        open_world(&world, seed, 4 + (int)(seed % (HOSTS - 3)));
        for (int h = 0; h < world.count; h++) world.counts[h] = 1;
        run(&world, 1500 * MS + chance(&world, 500 * MS));
        const int deaths = 2 + (int)chance(&world, (uint64_t)(world.count - 2) / 2);
        for (int i = 0; i < deaths; i++) {
            kill_one(&world);
            run(&world, i + 1 < deaths ? chance(&world, 8000 * MS) : 5500 * MS);
        }
        for (int h = 0; h < world.count; h++)
            for (int other = 0; other < world.count && !world.hosts[h].is_dead; other++)
                assert_int_equal(world.hosts[h].condemned_ns[other] != 0,
                                 world.hosts[other].is_dead);
        close_world(&world);
    }
}

/* Two of five hosts die, and then two more: the last host may not go on. */
static void who_loses_the_others_after_a_verdict_is_a_minority(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, chance_seed(USUAL_SEED), 5);
    for (int h = 0; h < world.count; h++) world.counts[h] = 1;
    run(&world, 1500 * MS);
    world.hosts[0].is_dead = world.hosts[3].is_dead = true;
    run(&world, 5000 * MS);
    assert_true(world.hosts[1].has_failed);
    assert_false(heartbeat_is_minority(world.hosts[1].heartbeat));
    world.hosts[2].is_dead = world.hosts[4].is_dead = true;
    run(&world, 5000 * MS);
    assert_true(heartbeat_is_minority(world.hosts[1].heartbeat));
    assert_int_equal(world.hosts[1].culprit, 0);
    close_world(&world);
}

static void cut(struct world *world, int side_count)
{
    for (int h = 0; h < world->count; h++)
        world->side[h] = (int)chance(world, (uint64_t)side_count);
}

/* All hosts of a side fail in the same way, and at most one side may go on: the majority, if there
 * is one. */
static void check_sides(const struct world *world, int side_count)
{
    int winners = 0;
    long all = 0;
    for (int h = 0; h < world->count; h++) all += world->counts[h];
    for (int side = 0; side < side_count; side++) {
        int first = -1, lowest_other = -1;
        long own = 0;
        for (int h = world->count - 1; h >= 0; h--) {
            if (world->side[h] == side) {
                first = h;
                own += world->counts[h];
            } else {
                lowest_other = h;
            }
        }
        if (first < 0 || lowest_other < 0) continue;
        const bool wins = own * 2 > all || (own * 2 == all && first == 0);
        winners += wins;
        for (int h = 0; h < world->count; h++) {
            if (world->side[h] != side) continue;
            assert_true(world->hosts[h].has_failed);
            assert_int_equal(world->hosts[h].is_minority, !wins);
            assert_int_equal(world->hosts[h].culprit, lowest_other);
        }
    }
    assert_true(winners <= 1);
}

static void at_most_one_side_of_a_cut_goes_on(void **state)
{
    (void)state;
    struct world world;
    SCHEDULES(seed, 400)
    {
        const int side_count = 2 + (int)(seed % 2);
        open_world(&world, seed, 2 + (int)(seed % (HOSTS - 1)));
        run(&world, 1500 * MS + chance(&world, 500 * MS));
        cut(&world, side_count);
        run(&world, 5000 * MS);
        check_sides(&world, side_count);
        close_world(&world);
    }
}

/* A cut that comes bit by bit, with hosts that change sides, and then stays. */
static void a_cut_that_comes_bit_by_bit_is_one(void **state)
{
    (void)state;
    struct world world;
    SCHEDULES(seed, 400)
    {
        open_world(&world, seed, 3 + (int)(seed % (HOSTS - 2)));
        run(&world, 1500 * MS);
        cut(&world, 2);
        for (int moves = 0; moves < 6; moves++) {
            world.side[chance(&world, (uint64_t)world.count)] ^= 1;
            run(&world, chance(&world, 150 * MS));
        }
        expect_nothing_happened(&world);
        run(&world, 5500 * MS);
        check_sides(&world, 2);
        close_world(&world);
    }
}

static void a_short_cut_is_forgotten(void **state)
{
    (void)state;
    struct world world;
    SCHEDULES(seed, 200)
    {
        open_world(&world, seed, 2 + (int)(seed % (HOSTS - 1)));
        run(&world, 1500 * MS);
        for (int times = 0; times < 3; times++) {
            cut(&world, 2);
            run(&world, 700 * MS + chance(&world, 1500 * MS));
            memset(world.side, 0, sizeof world.side);
            run(&world, 1500 * MS);
        }
        expect_nothing_happened(&world);
        for (int h = 0; h < world.count; h++)
            for (int other = 0; other < world.count; other++)
                assert_int_not_equal(heartbeat_state(world.hosts[h].heartbeat, other),
                                     HEARTBEAT_SUSPECTED);
        close_world(&world);
    }
}

/* This holds for the stopped host, too: the time in which it did not run is nobody's silence. */
static void who_is_stopped_is_stalled_and_goes_on(void **state)
{
    (void)state;
    struct world world;
    SCHEDULES(seed, 200)
    {
        open_world(&world, seed, 2 + (int)(seed % (HOSTS - 1)));
        run(&world, 1500 * MS + chance(&world, 300 * MS));
        const int stopped = (int)chance(&world, (uint64_t)world.count);
        world.hosts[stopped].is_stopped = true;
        run(&world, 2000 * MS + chance(&world, 8000 * MS));
        for (int h = 0; h < world.count; h++)
            if (h != stopped)
                assert_int_equal(heartbeat_state(world.hosts[h].heartbeat, stopped),
                                 HEARTBEAT_STALLED);
        world.hosts[stopped].is_stopped = false;
        run(&world, 1500 * MS);
        expect_nothing_happened(&world);
        for (int h = 0; h < world.count; h++) {
            assert_int_equal(world.hosts[h].suspicions, 0);
            for (int other = 0; other < world.count; other++)
                assert_int_equal(heartbeat_state(world.hosts[h].heartbeat, other), HEARTBEAT_ALIVE);
        }
        close_world(&world);
    }
}

static void who_is_stopped_and_then_dies_is_found(void **state)
{
    (void)state;
    struct world world;
    SCHEDULES(seed, 100)
    {
        open_world(&world, seed, 3 + (int)(seed % (HOSTS - 2)));
        for (int h = 0; h < world.count; h++) world.counts[h] = 1;
        run(&world, 1500 * MS);
        const int stopped = (int)chance(&world, (uint64_t)world.count);
        world.hosts[stopped].is_stopped = true;
        run(&world, 2000 * MS + chance(&world, 2000 * MS));
        world.hosts[stopped].is_dead = true;
        run(&world, 7000 * MS);
        for (int h = 0; h < world.count; h++) {
            if (h == stopped) continue;
            assert_true(world.hosts[h].has_failed);
            assert_int_equal(world.hosts[h].culprit, stopped);
        }
        close_world(&world);
    }
}

/* Leaving is told to those whom one beats for; they pass it on. */
static void nobody_judges_when_somebody_has_left(void **state)
{
    (void)state;
    struct world world;
    SCHEDULES(seed, 200)
    {
        open_world(&world, seed, 2 + (int)(seed % (HOSTS - 1)));
        run(&world, 1500 * MS);
        const int stays = (int)chance(&world, (uint64_t)world.count);
        for (int i = 0; i < world.count; i++) { /* one after the other, none waits for the next */
            const int leaver = (stays + 1 + i) % world.count;
            if (leaver == stays) continue;
            heartbeat_end(world.hosts[leaver].heartbeat);
            for (int distance = 1; distance < world.count; distance *= 2)
                heartbeat_end(world.hosts[(leaver + distance) % world.count].heartbeat);
            if (chance(&world, 2) == 0) run(&world, chance(&world, 300 * MS));
            world.hosts[leaver].is_dead = true;
        }
        run(&world, 6000 * MS);
        expect_nothing_happened(&world);
        assert_int_equal(world.hosts[stays].suspicions, 0);
        close_world(&world);
    }
}

/* ------------------------------------------------------------------------------------- the rest */

static struct heartbeat *make(int host, int host_count)
{
    static int counts[HEARTBEAT_HOSTS_MAX];
    for (int h = 0; h < HEARTBEAT_HOSTS_MAX; h++) counts[h] = 1;
    const struct heartbeat_options options = {.host = host,
                                              .host_count = host_count,
                                              .rank_counts = counts,
                                              .period_ns = PERIOD,
                                              .now_ns = 1,
                                              .first_ns = 1};
    struct heartbeat *heartbeat;
    assert_int_equal(heartbeat_create(&options, &heartbeat), TUTTI_OK);
    return heartbeat;
}

static void many_hosts_need_several_parts(void **state)
{
    (void)state;
    static const int sizes[] = {HEARTBEAT_PART_HOSTS, HEARTBEAT_PART_HOSTS + 1, 300,
                                HEARTBEAT_HOSTS_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct heartbeat *teller = make(sizes[s] - 1, sizes[s]), *hearer = make(0, sizes[s]);
        assert_true(heartbeat_progress(teller, PERIOD));
        int neighbours = 0, to;
        bool is_poke;
        while (heartbeat_next(teller, &to, &is_poke)) neighbours++;
        assert_true(1 << neighbours >= sizes[s] && 1 << (neighbours - 1) < sizes[s]);
        for (int part = 0; part < heartbeat_part_count(teller); part++) {
            unsigned char bytes[HEARTBEAT_BYTES_MAX];
            const size_t size = heartbeat_write(teller, part, bytes);
            assert_true(size <= sizeof bytes);
            heartbeat_hear(hearer, bytes, size, 2 * PERIOD);
        }
        assert_int_equal(heartbeat_state(hearer, sizes[s] - 1), HEARTBEAT_ALIVE);
        assert_int_equal(heartbeat_state(hearer, 1), HEARTBEAT_UNHEARD);
        heartbeat_free(teller);
        heartbeat_free(hearer);
    }
}

static void numbers_wrap_around(void **state)
{
    (void)state;
    struct heartbeat *teller = make(1, 2), *hearer = make(0, 2);
    uint64_t now_ns = 1;
    for (int round = 0; round < 3 * 65536; round++) {
        unsigned char bytes[HEARTBEAT_BYTES_MAX];
        now_ns += PERIOD;
        assert_true(heartbeat_progress(teller, now_ns));
        heartbeat_progress(hearer, now_ns);
        heartbeat_hear(hearer, bytes, heartbeat_write(teller, 0, bytes), now_ns);
        assert_int_equal(heartbeat_silence_ns(hearer, 1), 0);
    }
    heartbeat_free(teller);
    heartbeat_free(hearer);
}

/* No bytes hurt, and none revive: a heartbeat of old numbers is no sign of life. */
static void nonsense_and_old_beats_are_not_heard(void **state)
{
    (void)state;
    struct heartbeat *teller = make(1, 3), *hearer = make(0, 3);
    unsigned char old[HEARTBEAT_BYTES_MAX], bytes[HEARTBEAT_BYTES_MAX];
    assert_true(heartbeat_progress(teller, PERIOD));
    const size_t size = heartbeat_write(teller, 0, old);
    heartbeat_hear(hearer, old, size, PERIOD);
    for (uint64_t now_ns = PERIOD; now_ns < 12 * PERIOD; now_ns += PERIOD / 2) {
        heartbeat_progress(hearer, now_ns);
        heartbeat_hear(hearer, old, size, now_ns);
        for (size_t length = 0; length < size; length++)
            heartbeat_hear(hearer, old, length, now_ns);
        memcpy(bytes, old, size);
        bytes[1] = 7; /* a part that there is not */
        heartbeat_hear(hearer, bytes, size, now_ns);
        bytes[1] = 0;
        bytes[2] = 9; /* another number of hosts */
        heartbeat_hear(hearer, bytes, size, now_ns);
    }
    assert_int_equal(heartbeat_state(hearer, 1), HEARTBEAT_SUSPECTED);
    assert_int_equal(heartbeat_state(hearer, 2), HEARTBEAT_UNHEARD);
    heartbeat_free(teller);
    heartbeat_free(hearer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_suspected_who_is_there),
        cmocka_unit_test(all_survivors_name_the_lowest_dead_host),
        cmocka_unit_test(hosts_that_die_after_a_verdict_are_judged_as_soon),
        cmocka_unit_test(who_loses_the_others_after_a_verdict_is_a_minority),
        cmocka_unit_test(at_most_one_side_of_a_cut_goes_on),
        cmocka_unit_test(a_cut_that_comes_bit_by_bit_is_one),
        cmocka_unit_test(a_short_cut_is_forgotten),
        cmocka_unit_test(who_is_stopped_is_stalled_and_goes_on),
        cmocka_unit_test(who_is_stopped_and_then_dies_is_found),
        cmocka_unit_test(nobody_judges_when_somebody_has_left),
        cmocka_unit_test(many_hosts_need_several_parts),
        cmocka_unit_test(numbers_wrap_around),
        cmocka_unit_test(nonsense_and_old_beats_are_not_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
