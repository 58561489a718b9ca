#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "studio/topo/levels.h"

static int add(struct topo *topo, enum topo_kind kind, int parent, int number)
{
    const struct topo_node node = {
        .kind = kind, .parent = parent, .number = number, .cache_level = kind == TOPO_CACHE ? 3 : 0};
    int index;
    assert_int_equal(topo_add_node(topo, &node, &index), TUTTI_OK);
    return index;
}

/* "machine: 0 0 1 1; rack: 0 0 0 0;" */
static void expect_levels(const struct topo *topo, const char *expected)
{
    struct topo_levels levels;
    char text[1000] = "";
    size_t used = 0;
    assert_int_equal(topo_validate(topo), TUTTI_OK);
    if (topo_levels_init(&levels, topo) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    for (int i = 0; i < levels.count; i++) {
        const struct topo_level *level = &levels.levels[i];
        int largest = 0;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s:", i > 0 ? " " : "",
                                 level->name);
        for (int rank = 0; rank < levels.rank_count; rank++) {
            const int group = level->group_of_rank[rank];
            used += (size_t)snprintf(text + used, sizeof text - used, " %d", group);
            if (group > largest) largest = group;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, ";");
        assert_int_equal(level->group_count, largest + 1);
    }
    assert_string_equal(text, expected);
    topo_levels_release(&levels);
}

/* Packages, caches in them, cores in those, ranks on those: numbers of each; rank_of turns the
 * running number of a rank into its number. */
static void add_machine(struct topo *topo, int root, const int counts[4], int *count,
                        int (*rank_of)(int place))
{
    const int machine = add(topo, TOPO_MACHINE, root, -1);
    for (int p = 0; p < counts[0]; p++) {
        const int package = add(topo, TOPO_PACKAGE, machine, p);
        for (int l = 0; l < counts[1]; l++) {
            const int cache = add(topo, TOPO_CACHE, package, -1);
            for (int c = 0; c < counts[2]; c++) {
                const int core = add(topo, TOPO_CORE, cache, c);
                for (int r = 0; r < counts[3]; r++) add(topo, TOPO_RANK, core, rank_of((*count)++));
            }
        }
    }
}

static int same(int place)
{
    return place;
}

static int interleaved(int place) /* of 8 on two machines */
{
    return place % 4 * 2 + place / 4;
}

static void every_level_that_tells_something_apart_is_there(void **state)
{
    (void)state;
    struct topo topo = {0};
    int count = 0;
    const int root = add(&topo, TOPO_CLUSTER, -1, -1);
    add_machine(&topo, root, (int[]){2, 2, 1, 2}, &count, same);
    add_machine(&topo, root, (int[]){2, 2, 1, 2}, &count, same);
    expect_levels(&topo, "L3: 0 0 1 1 2 2 3 3 4 4 5 5 6 6 7 7; "
                         "package: 0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3; "
                         "machine: 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1;");
    topo_release(&topo);
}

static void the_order_of_ranks_changes_numbers_only(void **state)
{
    (void)state;
    struct topo topo = {0};
    int count = 0;
    const int root = add(&topo, TOPO_CLUSTER, -1, -1);
    add_machine(&topo, root, (int[]){2, 1, 2, 1}, &count, interleaved);
    add_machine(&topo, root, (int[]){2, 1, 2, 1}, &count, interleaved);
    expect_levels(&topo, "package: 0 1 0 1 2 3 2 3; machine: 0 1 0 1 0 1 0 1;");
    topo_release(&topo);
}

static void one_rank_or_one_place_for_all_has_no_levels(void **state)
{
    (void)state;
    struct topo topo = {0};
    int count = 0;
    add_machine(&topo, -1, (int[]){1, 1, 1, 1}, &count, same);
    expect_levels(&topo, "");
    topo_release(&topo);
    count = 0;
    add_machine(&topo, -1, (int[]){1, 1, 1, 4}, &count, same);
    expect_levels(&topo, "");
    topo_release(&topo);
    count = 0;
    add_machine(&topo, -1, (int[]){1, 1, 4, 1}, &count, same);
    expect_levels(&topo, "");
    topo_release(&topo);
}

static void uneven_places_make_uneven_groups(void **state)
{
    (void)state;
    struct topo topo = {0};
    int count = 0;
    const int root = add(&topo, TOPO_CLUSTER, -1, -1), left = add(&topo, TOPO_RACK, root, 0);
    add_machine(&topo, left, (int[]){1, 1, 1, 1}, &count, same);
    add_machine(&topo, left, (int[]){2, 1, 2, 1}, &count, same);
    add_machine(&topo, add(&topo, TOPO_RACK, root, 1), (int[]){1, 1, 3, 1}, &count, same);
    expect_levels(&topo,
                  "package: 0 1 1 2 2 3 3 3; machine: 0 1 1 1 1 2 2 2; rack: 0 0 0 0 0 1 1 1;");
    topo_release(&topo);
}

static void a_rank_outside_of_all_places_is_alone(void **state)
{
    (void)state;
    struct topo topo = {0};
    const int machine = add(&topo, TOPO_MACHINE, -1, -1);
    const int package = add(&topo, TOPO_PACKAGE, machine, 0);
    add(&topo, TOPO_RANK, machine, 0);
    add(&topo, TOPO_RANK, package, 1);
    add(&topo, TOPO_RANK, package, 2);
    add(&topo, TOPO_RANK, machine, 3);
    expect_levels(&topo, "package: 0 1 1 2;");
    topo_release(&topo);
}

static void switches_in_and_above_machines_are_levels_of_their_own(void **state)
{
    (void)state;
    struct topo topo = {0};
    int rank = 0;
    const int root = add(&topo, TOPO_CLUSTER, -1, -1);
    for (int s = 0; s < 2; s++) {
        const int leaf = add(&topo, TOPO_SWITCH, root, -1);
        for (int m = 0; m < 2; m++) {
            const int machine = add(&topo, TOPO_MACHINE, leaf, -1);
            for (int b = 0; b < 2; b++) {
                const int bus = add(&topo, TOPO_SWITCH, machine, -1);
                for (int a = 0; a < 2; a++)
                    add(&topo, TOPO_RANK, add(&topo, TOPO_ACCELERATOR, bus, a), rank++);
            }
        }
    }
    expect_levels(&topo, "switch: 0 0 1 1 2 2 3 3 4 4 5 5 6 6 7 7; "
                         "machine: 0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3; "
                         "switch: 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1;");
    topo_release(&topo);
}

static void memory_that_spans_packages_comes_after_them(void **state)
{
    (void)state;
    struct topo topo = {0};
    int rank = 0;
    const int machine = add(&topo, TOPO_MACHINE, -1, -1);
    for (int n = 0; n < 2; n++) {
        const int numa = add(&topo, TOPO_NUMA, machine, n);
        for (int p = 0; p < 2; p++) {
            const int package = add(&topo, TOPO_PACKAGE, numa, p);
            add(&topo, TOPO_RANK, package, rank++);
            add(&topo, TOPO_RANK, package, rank++);
        }
    }
    expect_levels(&topo, "package: 0 0 1 1 2 2 3 3; numa: 0 0 0 0 1 1 1 1;");
    topo_release(&topo);
}

static void ranks_with_gaps_or_none_are_refused(void **state)
{
    (void)state;
    struct topo topo = {0};
    struct topo_levels levels;
    const int machine = add(&topo, TOPO_MACHINE, -1, -1);
    assert_int_equal(topo_levels_init(&levels, &topo), TUTTI_INVALID_RANK);
    add(&topo, TOPO_RANK, machine, 0);
    add(&topo, TOPO_RANK, machine, 2);
    assert_int_equal(topo_levels_init(&levels, &topo), TUTTI_INVALID_RANK);
    assert_int_equal(levels.count, 0);
    topo_release(&topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_that_tells_something_apart_is_there),
        cmocka_unit_test(the_order_of_ranks_changes_numbers_only),
        cmocka_unit_test(one_rank_or_one_place_for_all_has_no_levels),
        cmocka_unit_test(uneven_places_make_uneven_groups),
        cmocka_unit_test(a_rank_outside_of_all_places_is_alone),
        cmocka_unit_test(switches_in_and_above_machines_are_levels_of_their_own),
        cmocka_unit_test(memory_that_spans_packages_comes_after_them),
        cmocka_unit_test(ranks_with_gaps_or_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
