/* Checks in the plans the properties that double_tree.c gives its trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "tests/plans/plan_rounds.h"

enum { TREES = 2, RANKS_MAX = 140, NOBODY = -1 };

struct node {
    int parent, child_count, children[2];
};

struct trees {
    int ranks;
    struct node nodes[TREES][RANKS_MAX];
};

static struct plan *make(enum collective collective, int ranks, int root)
{
    const struct algo_params params = {.collective = collective, .rank_count = ranks, .root = root};
    return plan_named("double_tree", &params);
}

static void add_child(struct node *node, int child)
{
    assert_in_range(node->child_count, 0, 1);
    node->children[node->child_count++] = child;
}

/* Upwards: a step sums up the children's messages and its own half, and tells the parent. */
static void read_way_up(const struct rank_plan *plan, const struct plan_step *step,
                        struct trees *trees)
{
    struct node node = {.parent = NOBODY};
    int tree = -1;
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &plan->sources[step->first_source + i];
        if (source->is_link)
            add_child(&node, source->peer);
        else
            tree = (int)source->location.first;
    }
    assert_in_range(tree, 0, TREES - 1);
    if (!step->final) {
        assert_int_equal(step->target_count, 1);
        node.parent = plan->targets[step->first_target];
    }
    trees->nodes[tree][plan->rank] = node;
}

/* Downwards: a step stores the parent's half and tells the children. */
static void read_way_down(const struct rank_plan *plan, const struct plan_step *step,
                          struct trees *trees)
{
    const struct plan_source *source = &plan->sources[step->first_source];
    struct node node = {.parent = source->is_link ? source->peer : NOBODY};
    assert_true(step->has_destination && step->source_count == 1);
    assert_in_range(step->destination.first, 0, TREES - 1);
    for (uint32_t i = 0; i < step->target_count; i++)
        add_child(&node, plan->targets[step->first_target + i]);
    trees->nodes[step->destination.first][plan->rank] = node;
}

static bool reads_input(const struct rank_plan *plan, const struct plan_step *step)
{
    for (uint32_t i = 0; i < step->source_count; i++)
        if (!plan->sources[step->first_source + i].is_link) return true;
    return false;
}

/* Reads the trees from the plans: for an allreduce, from the way up or, if `down`, from the way
 * down. The roots turn around, so the way down lacks them. */
static struct trees trees_of(enum collective collective, int ranks, int root, bool down)
{
    struct plan *plan = make(collective, ranks, root);
    struct trees trees = {.ranks = ranks};
    assert_true(ranks <= RANKS_MAX && plan->shape.parts == TREES);
    for (int r = 0; r < ranks; r++) {
        const struct rank_plan *rank_plan = plan->ranks[r];
        for (uint32_t s = 0; s < rank_plan->step_count; s++) {
            const struct plan_step *step = &rank_plan->steps[s];
            if (collective == COLLECTIVE_BROADCAST || !reads_input(rank_plan, step)) {
                if (down) read_way_down(rank_plan, step, &trees);
            } else if (!down) {
                read_way_up(rank_plan, step, &trees);
            }
        }
    }
    plan_free(plan);
    return trees;
}

static int depth_of(const struct trees *trees, int tree, int rank)
{
    int depth = 0;
    for (; trees->nodes[tree][rank].parent != NOBODY; rank = trees->nodes[tree][rank].parent)
        assert_true(++depth < trees->ranks);
    return depth;
}

static int log2_up(int count)
{
    int log = 0;
    while ((1 << log) < count) log++;
    return log;
}

static void check_depth(const struct trees *trees)
{
    for (int tree = 0; tree < TREES; tree++) {
        int deepest = 0, roots = 0;
        for (int rank = 0; rank < trees->ranks; rank++) {
            const int depth = depth_of(trees, tree, rank);
            if (depth > deepest) deepest = depth;
            roots += depth == 0;
        }
        assert_int_equal(roots, 1);
        assert_int_equal(deepest, log2_up(trees->ranks));
    }
}

static void check_child_counts(const struct trees *trees)
{
    for (int rank = 0; rank < trees->ranks; rank++)
        assert_in_range(trees->nodes[0][rank].child_count + trees->nodes[1][rank].child_count, 0, 2);
}

/* The number of ranks that have children in both trees; *some is one of them. */
static int inner_in_both(const struct trees *trees, int *some)
{
    int count = 0;
    for (int rank = 0; rank < trees->ranks; rank++) {
        if (trees->nodes[0][rank].child_count == 0 || trees->nodes[1][rank].child_count == 0)
            continue;
        *some = rank;
        count++;
    }
    return count;
}

static void allreduce_trees_are_two_binary_trees_of_the_least_depth(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
        const struct trees trees = trees_of(COLLECTIVE_ALLREDUCE, ranks, 0, false);
        int some;
        check_depth(&trees);
        check_child_counts(&trees);
        assert_int_equal(inner_in_both(&trees, &some), ranks % 2);
    }
}

static void results_come_down_the_way_that_operands_went_up(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 40; ranks++) {
        const struct trees up = trees_of(COLLECTIVE_ALLREDUCE, ranks, 0, false);
        const struct trees down = trees_of(COLLECTIVE_ALLREDUCE, ranks, 0, true);
        for (int tree = 0; tree < TREES; tree++)
            for (int rank = 0; rank < ranks; rank++) {
                if (up.nodes[tree][rank].parent == NOBODY) continue;
                assert_memory_equal(&down.nodes[tree][rank], &up.nodes[tree][rank],
                                    sizeof(struct node));
            }
    }
}

static void only_the_root_is_inner_in_both_of_its_trees(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++)
        for (int root = 0; root < ranks; root += 1 + ranks / 5) {
            const struct trees up = trees_of(COLLECTIVE_REDUCE, ranks, root, false);
            const struct trees down = trees_of(COLLECTIVE_BROADCAST, ranks, root, true);
            int some = NOBODY;
            check_depth(&up);
            check_depth(&down);
            check_child_counts(&up);
            check_child_counts(&down);
            assert_int_equal(inner_in_both(&up, &some), 1);
            assert_int_equal(some, root);
            assert_int_equal(inner_in_both(&down, &some), 1);
            assert_int_equal(some, root);
        }
}

static void each_way_of_each_tree_is_one_step_in_its_own_lane(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 17; ranks++) {
        struct plan *plan = make(COLLECTIVE_ALLREDUCE, ranks, 0);
        uint32_t steps = 0;
        for (int r = 0; r < ranks; r++) {
            assert_int_equal(plan->ranks[r]->lane_count, plan->ranks[r]->step_count);
            steps += plan->ranks[r]->step_count;
        }
        assert_int_equal(steps, 4 * ranks - 2); /* a root turns around in one */
        plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_trees_are_two_binary_trees_of_the_least_depth),
        cmocka_unit_test(results_come_down_the_way_that_operands_went_up),
        cmocka_unit_test(only_the_root_is_inner_in_both_of_its_trees),
        cmocka_unit_test(each_way_of_each_tree_is_one_step_in_its_own_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
