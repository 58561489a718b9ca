/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
/* Programs of hierarchical algorithms run as the other programs in run_test.c do, on hosts of many
 * shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "tests/kit/sanitized.h"
#include "tests/worlds/engine_world.h"
#include "tests/worlds/host_map.h"

enum { IN_PLACE = 0xffff, SOME_IN_PLACE = 0x5a };

static const struct host_shape shapes[] = {
    {.hosts = {2, 2}},
    {.hosts = {1, 3}},
    {.hosts = {2, 1, 5}},
    {.hosts = {4, 4}},
    {.hosts = {2, 2, 2, 2}},
    {.hosts = {3, 2, 3}},
    {.hosts = {2, 2, 2, 2}, .racks = {2, 2}},
    {.hosts = {1, 2, 2, 1, 2}, .racks = {2, 3}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* The numbers of messages of all programs that went in shared slots, and by multicast. */
struct sums {
    uint64_t shared, multicast;
};

/* by_host: the ranks of each host are a group, and only links between them share and advertise. */
static struct sums run_every_algorithm(const size_t *counts, int count_count,
                                       struct engine_mood mood, bool by_host)
{
    struct sums sums = {0};
    static const unsigned places[] = {0, IN_PLACE, SOME_IN_PLACE};
    for (int i = 0; i < algo_count; i++) {
        if (!algo_list[i].needs_levels) continue;
        const bool is_rooted = collective_is_rooted(algo_list[i].collective);
        for (int s = 0; s < SHAPES; s++)
            for (int n = 0; n < NUMBERING_COUNT; n++) {
                struct host_map map;
                host_map_init(&map, &shapes[s], (enum numbering)n, (uint32_t)s);
                for (int c = 0; c < 3 * count_count; c++) {
                    if (is_left_out((unsigned)(i + s + n + c))) continue;
                    const struct engine_job job = {.algorithm = &algo_list[i],
                                                   .levels = &map.levels,
                                                   .size = map.rank_count,
                                                   .root =
                                                       is_rooted ? (s + n + c) % map.rank_count : 0,
                                                   .count = counts[c / 3],
                                                   .in_place = places[c % 3]};
                    mood.host_of = by_host ? map.host_of : NULL;
                    struct engine_net *net = engine_net_create(
                        map.rank_count, mood, (uint64_t)(i * 1000 + s * 100 + n * 10 + c));
                    engine_run_job_over(&job, net);
                    sums.shared += engine_net_shared(net);
                    sums.multicast += engine_net_multicast(net);
                    engine_net_free(net);
                }
            }
    }
    return sums;
}

static void every_program_is_right_with_room(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 7, 300};
    run_every_algorithm(counts, 4,
                        (struct engine_mood){.piece_bytes = 16384, .pieces = 4, .delay = 1}, false);
}

static void every_program_is_right_in_one_slot(void **state)
{
    (void)state;
    static const size_t counts[] = {7, 5003};
    run_every_algorithm(counts, 2,
                        (struct engine_mood){.piece_bytes = 8192, .pieces = 1, .delay = 3}, false);
    run_every_algorithm(counts, 2,
                        (struct engine_mood){.piece_bytes = 8192, .pieces = 1, .delay = 3}, true);
}

static void every_program_is_right_by_reference_and_where_it_is_expected(void **state)
{
    (void)state;
    static const size_t counts[] = {7, 9001};
    run_every_algorithm(
        counts, 2,
        (struct engine_mood){
            .piece_bytes = 8192, .pieces = 3, .delay = 2, .reach = REACH_READ, .expects = true},
        false);
}

static void every_program_is_right_with_shared_slots(void **state)
{
    (void)state;
    static const size_t counts[] = {7, 5003};
    run_every_algorithm(
        counts, 2, (struct engine_mood){.piece_bytes = 8192, .pieces = 2, .delay = 2, .shares = 2},
        false);
}

/* As if each host had a segment of its own, and connections led to all other hosts. */
static void ranks_of_a_host_share_and_multicast(void **state)
{
    (void)state;
    static const size_t counts[] = {7, 40009};
    const struct sums sums = run_every_algorithm(
        counts, 2,
        (struct engine_mood){
            .piece_bytes = 8192, .pieces = 2, .delay = 2, .expects = true, .shares = 2},
        true);
    print_message("%llu places shared, %llu messages multicast\n", (unsigned long long)sums.shared,
                  (unsigned long long)sums.multicast);
    assert_true(sums.shared > 0 && sums.multicast > 0);
}

/* For collectives in which all ranks know all counts. */
static void blocks_may_have_counts_of_their_own(void **state)
{
    (void)state;
    for (int i = 0; i < algo_count; i++) {
        const enum collective collective = algo_list[i].collective;
        if (!algo_list[i].needs_levels ||
            (collective != COLLECTIVE_ALLGATHER && collective != COLLECTIVE_REDUCE_SCATTER))
            continue;
        for (int s = 0; s < SHAPES; s++)
            for (int round = 0; round < 6; round++) {
                const uint64_t seed = (uint64_t)(i * 3001 + s * 211 + round);
                struct host_map map;
                host_map_init(&map, &shapes[s], (enum numbering)(round % NUMBERING_COUNT), 1);
                struct engine_job job = {.algorithm = &algo_list[i],
                                         .levels = &map.levels,
                                         .size = map.rank_count,
                                         .in_place = round % 2 == 0 ? SOME_IN_PLACE : 0,
                                         .is_cut = round % 3 == 1};
                engine_job_vary(&job, round % 2 == 0 ? 30 : 6000, seed);
                engine_run_job(
                    &job, (struct engine_mood){.piece_bytes = 8192, .pieces = 2, .delay = 2}, seed);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_program_is_right_with_room),
        cmocka_unit_test(every_program_is_right_in_one_slot),
        cmocka_unit_test(every_program_is_right_by_reference_and_where_it_is_expected),
        cmocka_unit_test(every_program_is_right_with_shared_slots),
        cmocka_unit_test(ranks_of_a_host_share_and_multicast),
        cmocka_unit_test(blocks_may_have_counts_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
