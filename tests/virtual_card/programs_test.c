/* Programs of every algorithm run over simulated network cards by ranks in one thread, over sockets
 * and in virtual time: results are right in whatever order messages, writes and completions come.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "tests/worlds/card_world.h"
#include "tests/worlds/engine_world.h"

enum { IN_PLACE = 0xffff, COUNTS = 3 };

static struct engine_job draw_job(int i, int size)
{
    static const size_t counts[COUNTS] = {7, 5003, 40013};
    const int c = (i + size) % COUNTS;
    const bool is_rooted = collective_is_rooted(algo_list[i].collective);
    return (struct engine_job){.algorithm = &algo_list[i],
                               .size = size,
                               .root = is_rooted ? (i + c) % size : 0,
                               .count = counts[c],
                               .in_place = (i / COUNTS + c) % 2 == 1 ? IN_PLACE : 0,
                               .is_cut = i % 4 == 2};
}

static void run_every_algorithm(int size, struct card_mood mood, uint64_t seed)
{
    struct card_world *world = card_world_create(size, mood, seed);
    const struct link_world links = card_world_links(world);
    struct engine_net *net = engine_net_over(&links, seed);
    struct virtual_card_counts counts;
    for (int i = 0; i < algo_count; i++) {
        if (!algo_supports(&algo_list[i], size)) continue;
        const struct engine_job job = draw_job(i, size);
        engine_run_job_over(&job, net);
    }
    card_world_settle(world);
    card_world_count(world, &counts);
    assert_true(counts.writes > 0 && counts.sends > 0 && counts.turned > 0);
    engine_net_free(net);
    card_world_free(world);
}

static void every_program_is_right_over_sockets(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++)
        run_every_algorithm(size, (struct card_mood){0}, (uint64_t)size);
}

/* Few receives and a small window, and regions for all memory that is not tiny. */
static struct card_mood narrow_mood(uint64_t seed)
{
    return (struct card_mood){.is_virtual = true,
                              .packets = 1 + (unsigned)seed % 6,
                              .card = {.piece_bytes = seed % 2 == 0 ? 512 : 4032,
                                       .piece_count = 1 + (unsigned)seed % 5,
                                       .receive_count = seed % 3 == 0 ? 8 : 20,
                                       .reach_bytes = seed % 4 == 3 ? 9000 : 100,
                                       .offer_bytes = 100}};
}

static void every_program_is_right_in_virtual_time(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++)
        run_every_algorithm(2 + (int)seed % 4, narrow_mood(seed), seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_program_is_right_over_sockets),
        cmocka_unit_test(every_program_is_right_in_virtual_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
