/* leaders.c - k leaders: each adds up the operands of the ranks around it, all give each other their sums, and each hands
 * the result to its ranks.
 *
 *     k = 2, p = 8      1   2   3       4   6   7      each leader has a run of ranks that stand near each other; the
 *                        \  |  /         \  |  /       first leader is the first of its run, the second one the second
 *                           0 <---------> 5            of its run, and so on
 *
 * Cost: 3 alpha + (2 (p/k-1) + k-1) (n beta + n gamma). These are 2 (p-k) + k (k-1) messages, with two leaders 2 (p-1), and no
 * allreduce takes fewer. That counts where ranks share cores, and the cores are busy with messages: doubling takes p lg p. A tree
 * takes as few, but the core of its root has most of them. Leaders are on different cores, whether ranks got the cores in
 * turns or in runs, so all cores have the same number.
 *
 * Each leader adds its ranks in their order and then all sums in the order of the leaders: one association tree, rank order
 * where ranks stand in the order of their numbers. Any number of ranks.
 *
 * Source: Karonis et al., "Exploiting Hierarchy in Parallel Computer Networks to Optimize Collective Operation Performance",
 * IPDPS 2000, for one leader of each part of a network.
 */
#include "algo/generators.h"

/* The places of the ranks of a leader, [first, end), and its own. */
struct run {
    int first, end, leader;
};

static struct run run_of(int number, int leader_count, int rank_count)
{
    const int first = (int)((int64_t)number * rank_count / leader_count);
    const int end = (int)(((int64_t)number + 1) * rank_count / leader_count);
    return (struct run){first, end, first + number % (end - first)};
}

static int number_of_run(int place, int leader_count, int rank_count)
{
    return (int)((((int64_t)place + 1) * leader_count - 1) / rank_count);
}

static int rank_of(const struct circle *circle, int place)
{
    return circle_at(circle, place - circle->self);
}

/* Its sum is not left in the input, which others may still read when the result is stored there. */
static struct plan_location add_run(struct plan_builder *b, const struct circle *circle, int number,
                                    int leader_count, bool in_place)
{
    const struct run run = run_of(number, leader_count, circle->rank_count);
    struct plan_location sum = {PLAN_INPUT, 0};
    const bool is_stored = run.end - run.first > 1 || in_place;
    if (is_stored) sum = (struct plan_location){PLAN_SCRATCH, plan_scratch(b, 0)};
    plan_begin(b, 1);
    for (int place = run.first; place < run.end; place++)
        if (place == run.leader)
            plan_read(b, PLAN_INPUT, 0);
        else
            plan_receive(b, rank_of(circle, place));
    if (is_stored) plan_write(b, sum.buffer, sum.first);
    for (int i = 1; i < leader_count; i++) {
        const int other = (number + i) % leader_count;
        plan_send(b, rank_of(circle, run_of(other, leader_count, circle->rank_count).leader));
    }
    plan_end(b);
    return sum;
}

static void add_sums(struct plan_builder *b, const struct circle *circle, int number,
                     int leader_count, struct plan_location sum)
{
    const struct run run = run_of(number, leader_count, circle->rank_count);
    plan_begin(b, 1);
    for (int i = 0; i < leader_count; i++)
        if (i == number)
            plan_read(b, sum.buffer, sum.first);
        else
            plan_receive(b, rank_of(circle, run_of(i, leader_count, circle->rank_count).leader));
    plan_write(b, PLAN_OUTPUT, 0);
    for (int place = run.first; place < run.end; place++)
        if (place != run.leader) plan_send(b, rank_of(circle, place));
    plan_final(b);
    plan_end(b);
}

void leaders_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct circle circle = circle_of(params, rank);
    const int count = radix_of(params);
    const int number = number_of_run(circle.self, count, params->rank_count);
    const int leader = run_of(number, count, params->rank_count).leader;
    plan_lane(b);
    if (circle.self == leader) {
        add_sums(b, &circle, number, count, add_run(b, &circle, number, count, params->in_place));
        return;
    }
    plan_send_from(b, rank_of(&circle, leader), PLAN_INPUT, 0, 1);
    plan_lane(b); /* so that pieces come back while others still go */
    plan_receive_to(b, rank_of(&circle, leader), PLAN_OUTPUT, 0, 1);
}
