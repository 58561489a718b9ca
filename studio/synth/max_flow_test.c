/* max_flow_test.c - flows of small chance networks against all of their cuts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "studio/synth/max_flow.h"
#include "tests/kit/chance.h"

enum { NODES = 7, ARCS = 20 };

struct arc {
    int from, to;
    int64_t capacity;
};

static int64_t crossing(const struct arc *arcs, unsigned set)
{
    int64_t total = 0;
    for (int i = 0; i < ARCS; i++)
        if ((set >> arcs[i].from & 1) && !(set >> arcs[i].to & 1)) total += arcs[i].capacity;
    return total;
}

static int64_t narrowest(const struct arc *arcs)
{
    int64_t least = INT64_MAX;
    for (unsigned set = 1; set < 1u << NODES;
         set += 2) /* node 0 is the source, the last one the sink */
        if (!(set >> (NODES - 1)))
            least = crossing(arcs, set) < least ? crossing(arcs, set) : least;
    return least;
}

static void a_flow_is_as_large_as_the_narrowest_cut(void **state)
{
    (void)state;
    struct max_flow flow = {0};
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct chance chance = {.seed = seed};
        struct arc arcs[ARCS];
        assert_int_equal(max_flow_init(&flow, NODES), TUTTI_OK);
        for (int i = 0; i < ARCS; i++) {
            arcs[i] = (struct arc){chance_below(&chance, NODES), chance_below(&chance, NODES),
                                   (int64_t)chance_below(&chance, 9) << (seed % 40)};
            assert_int_equal(max_flow_add(&flow, arcs[i].from, arcs[i].to, arcs[i].capacity),
                             TUTTI_OK);
        }
        const int64_t expected = narrowest(arcs);
        for (int again = 0; again < 2; again++)
            assert_int_equal(max_flow_run(&flow, 0, NODES - 1, MAX_FLOW_UNBOUNDED), expected);
        unsigned set = 0;
        for (int i = 0; i < NODES; i++) set |= (unsigned)max_flow_is_before_cut(&flow, i) << i;
        assert_int_equal(crossing(arcs, set), expected);
        if (expected > 1)
            assert_int_equal(max_flow_run(&flow, 0, NODES - 1, expected - 1), expected - 1);
    }
    max_flow_release(&flow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_flow_is_as_large_as_the_narrowest_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
