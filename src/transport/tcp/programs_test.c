/* Programs of every algorithm run over TCP links by ranks in one thread, plain and over wires that
 * break: results are right, no matter what is sent again.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "tests/worlds/engine_world.h"
#include "tests/worlds/tcp_world.h"

enum { IN_PLACE = 0xffff };

/* One world per size, for all algorithms one after the other: anything that one leaves behind would
 * disturb the next. */
static void run_every_algorithm(int size, struct tcp_mood mood, const size_t *counts,
                                int count_count, uint64_t seed)
{
    struct tcp_world *world = tcp_world_create(size, mood, seed);
    struct link_world links = tcp_world_links(world);
    links.ranks = tcp_world_fans(world);
    struct engine_net *net = engine_net_over(&links, seed);
    for (int i = 0; i < algo_count; i++) {
        if (!algo_supports(&algo_list[i], size)) continue;
        for (int c = 0; c < count_count; c++) {
            if ((mood.breaks > 0 || mood.flips > 0) && (i + size) % count_count != c)
                continue; /* one each, in turn */
            const bool in_place = (i + c) % 2 == 1;
            const struct engine_job job = {
                .algorithm = &algo_list[i],
                .size = size,
                .root = collective_is_rooted(algo_list[i].collective) ? (i + c) % size : 0,
                .count = counts[c],
                .in_place = in_place ? IN_PLACE : 0,
                .is_cut = (i + c) % 3 == 2};
            engine_run_job_over(&job, net);
        }
    }
    tcp_world_settle(world);
    if (mood.breaks > 0) {
        print_message("%d ranks, seed %llu: %u wires broke\n", size, (unsigned long long)seed,
                      tcp_world_broken(world));
        assert_true(tcp_world_broken(world) > 0);
    }
    if (mood.flips > 0) {
        print_message("%d ranks, seed %llu: %u bits flipped, %llu mended\n", size,
                      (unsigned long long)seed, tcp_world_flipped(world),
                      (unsigned long long)tcp_world_mended(world));
        assert_true(tcp_world_flipped(world) > 0 && tcp_world_mended(world) > 0);
    }
    engine_net_free(net);
    tcp_world_free(world);
}

static void every_program_is_right_over_loopback(void **state)
{
    (void)state;
    static const size_t counts[] = {7, 5003, 60013};
    for (int size = 2; size <= 5; size++)
        run_every_algorithm(size,
                            (struct tcp_mood){.streams = 1 + (unsigned)size % 2,
                                              .piece_bytes = 65536,
                                              .piece_count = 8,
                                              .is_plain = true},
                            counts, 3, (uint64_t)size);
}

static void every_program_is_right_over_wires_that_break(void **state)
{
    (void)state;
    static const size_t counts[] = {100, 20011, 40009}; /* the last is long enough to land */
    for (int size = 2; size <= 5; size++)
        run_every_algorithm(size,
                            (struct tcp_mood){.streams = 1 + (unsigned)size % 3,
                                              .piece_bytes = 8192,
                                              .piece_count = 2,
                                              .gulp = 30000,
                                              .breaks = 700,
                                              .silence = 20},
                            counts, 3, 100 + (uint64_t)size);
}

/* Never twice in what an operation has under way between two ranks. */
static void every_program_is_right_over_wires_that_flip_bits(void **state)
{
    (void)state;
    static const size_t counts[] = {100, 20011, 40009};
    for (int size = 2; size <= 5; size++)
        run_every_algorithm(size,
                            (struct tcp_mood){.streams = 1 + (unsigned)size % 3,
                                              .piece_bytes = 8192,
                                              .piece_count = 2,
                                              .gulp = 30000,
                                              .silence = 20,
                                              .checks = true,
                                              .flips = 400000},
                            counts, 3, 200 + (uint64_t)size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_program_is_right_over_loopback),
        cmocka_unit_test(every_program_is_right_over_wires_that_break),
        cmocka_unit_test(every_program_is_right_over_wires_that_flip_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
