/* Programs of every algorithm run by ranks on several hosts in one thread, some of them over shared
 * memory and some over connections: results are right on every kind of link, and the ranks of a
 * host send one message to all of them at once and use shared slots.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "tests/worlds/engine_world.h"
#include "tests/worlds/router_world.h"

static const struct host_shape shapes[] = {{.hosts = {2, 3, 1}}, {.hosts = {2, 2}},
                                           {.hosts = {4, 4}},    {.hosts = {3, 1, 2, 1}},
                                           {.hosts = {1, 7}},    {.hosts = {1, 1, 1}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void every_program_is_right(void **state)
{
    (void)state;
    static const size_t counts[] = {5, 3001, 40013};
    int hierarchical = 0;
    for (int s = 0; s < SHAPES; s++) {
        struct router_world *world = router_world_open_routes(
            &shapes[s], (enum numbering)(s % NUMBERING_COUNT), s % 2 == 0, s / 2 % 2 == 1);
        const struct link_world links = router_world_links(world, (uint64_t)s);
        struct engine_net *net = engine_net_over(&links, (uint64_t)s);
        uint64_t multicast = 0;
        unsigned in_shared_slots = 0;
        for (int i = 0; i < algo_count; i++) {
            if (!router_world_supports(&algo_list[i], world)) continue;
            hierarchical += algo_list[i].needs_levels;
            const struct engine_job job = router_world_job(world, i, s, counts[(i + s) % 3]);
            engine_run_job_over(&job, net);
            const struct router_shared shared = router_world_shared(world);
            multicast = shared.multicast;
            in_shared_slots += shared.in_shared_slots;
        }
        const bool has_neighbours = shapes[s].hosts[0] > 1 || shapes[s].hosts[1] > 1;
        if ((multicast > 0) != has_neighbours || (in_shared_slots > 0) != has_neighbours)
            fail_msg("on hosts of shape %d, %llu messages were multicast and %u shared", s,
                     (unsigned long long)multicast, in_shared_slots);
        engine_net_free(net);
        router_world_close(world);
    }
    assert_true(hierarchical >= SHAPES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_program_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
