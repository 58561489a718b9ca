/* mesh.c - direct algorithms: every rank talks to every other one, nothing is passed on twice.
 *
 *     0 ------- 1     one-shot   all send all they have to all; all reduce everything
 *     | \     / |     two-shot   everyone reduces one part and sends its result to all
 *     |   \ /   |     direct     blocks go straight from their owner to their reader
 *     |   / \   |
 *     | /     \ |     What goes to all is one message to the group of all ranks: one store and
 *     2 ------- 3     many loads in shared memory, one by one where a transport cannot do better.
 *
 * Cost for p ranks and n bytes in a vector, or in all blocks together:
 *     one-shot allreduce      alpha + (p-1) n beta + (p-1) n gamma
 *     two-shot allreduce    2 alpha + 2 (p-1)/p n beta + (p-1)/p n gamma
 *     direct allreduce      2 alpha + 2 (p-1) n beta + (p-1) n gamma at rank 0
 *     broadcast, reduce       alpha + (p-1) n beta at the root [+ (p-1) n gamma]
 *     the others              alpha + (p-1)/p n beta [+ (p-1)/p n gamma]
 * alpha is paid once only where p-1 messages may be under way together, which is so in shared
 * memory and not behind a network card; the ring and the trees are for those.
 *
 * All reductions take their operands in rank order in one step, so one-shot and two-shot have the
 * same single association tree, for any operation. Any rank count; p-1 links a rank.
 *
 * Source: folklore; Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication
 * Operations in MPICH", IJHPCA 19(1), 2005, for the direct ("long vector") forms.
 */
#include "algo/generators.h"

enum {
    CHANNEL_RESULT = 1
}; /* of two-shot: messages to a group and to one rank are never on one channel */

/* The sources of a reduction: all ranks' operands, ours at its place among the messages. */
static void read_in_rank_order(struct plan_builder *b, const struct algo_params *params, int rank,
                               int group, uint32_t own)
{
    for (int peer = 0; peer < params->rank_count; peer++) {
        if (peer == rank)
            plan_read(b, PLAN_INPUT, own);
        else if (group == PLAN_NO_GROUP)
            plan_receive(b, peer);
        else
            plan_receive_group(b, peer, group);
    }
}

/* Block j of the input to rank j, starting with the next rank, so that not all begin with the same
 * one. */
static void send_blocks(struct plan_builder *b, const struct algo_params *params, int rank)
{
    for (int k = 1; k < params->rank_count; k++) {
        const int peer = rank_at(rank, k, params->rank_count);
        plan_send_from(b, peer, PLAN_INPUT, (uint32_t)peer, 1);
    }
}

/* Block j of the output from what rank j sent to all. */
static void receive_blocks_from_group(struct plan_builder *b, const struct algo_params *params,
                                      int rank, int group)
{
    for (int k = 1; k < params->rank_count; k++) {
        const int peer = rank_at(rank, k, params->rank_count);
        plan_begin(b, 1);
        plan_receive_group(b, peer, group);
        plan_write(b, PLAN_OUTPUT, (uint32_t)peer);
        plan_end(b);
    }
}

/* In place the result would be stored over an input that slower peers still read; therefore they
 * are sent a copy then, which costs nothing at the sizes this is for. */
void mesh_oneshot(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int all = plan_group_all(b);
    const uint32_t copy = params->in_place ? plan_scratch(b, 0) : 0;
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    if (params->in_place) plan_write(b, PLAN_SCRATCH, copy);
    plan_send_group(b, all);
    plan_end(b);

    plan_begin(b, 1);
    read_in_rank_order(b, params, rank, all, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_end(b);
}

/* In place output part j lies where the input part lay that was sent to j: it may be stored there
 * since j's result comes only after j has consumed our part, position by position. */
void mesh_twoshot(const struct algo_params *params, int rank, struct plan_builder *b)
{
    plan_parts(b, (uint32_t)params->rank_count);
    const int all = plan_group_all(b);
    plan_lane(b);
    send_blocks(b, params, rank);
    plan_begin(b, 1);
    read_in_rank_order(b, params, rank, PLAN_NO_GROUP, (uint32_t)rank);
    plan_write(b, PLAN_OUTPUT, (uint32_t)rank);
    plan_channel(b, CHANNEL_RESULT);
    plan_send_group(b, all);
    plan_final(b);
    plan_end(b);

    plan_lane(b); /* so that results stream in while our part is reduced */
    plan_channel(b, CHANNEL_RESULT);
    receive_blocks_from_group(b, params, rank, all);
}

/* The fewest messages that an allreduce of p ranks takes, 2 (p-1). Their number counts where ranks share cores, since each
 * message keeps a core busy. */
void mesh_direct_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int all = plan_group_all(b);
    plan_lane(b);
    plan_begin(b, 1);
    if (rank == 0) {
        read_in_rank_order(b, params, rank, PLAN_NO_GROUP, 0);
        plan_write(b, PLAN_OUTPUT, 0);
        plan_channel(b, CHANNEL_RESULT);
        plan_send_group(b, all);
        plan_final(b);
    } else {
        plan_read(b, PLAN_INPUT, 0);
        plan_send(b, 0);
        plan_end(b);
        plan_lane(b); /* so that pieces come back while others still go */
        plan_channel(b, CHANNEL_RESULT);
        plan_begin(b, 1);
        plan_receive_group(b, 0, all);
        plan_write(b, PLAN_OUTPUT, 0);
    }
    plan_end(b);
}

void mesh_broadcast(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int all = plan_group_all(b);
    plan_lane(b);
    plan_begin(b, 1);
    if (rank == params->root) {
        plan_read(b, PLAN_INPUT, 0);
        plan_write(b, PLAN_OUTPUT, 0);
        plan_send_group(b, all);
    } else {
        plan_receive_group(b, params->root, all);
        plan_write(b, PLAN_OUTPUT, 0);
    }
    plan_end(b);
}

void mesh_reduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    plan_lane(b);
    if (rank != params->root) {
        plan_send_from(b, params->root, PLAN_INPUT, 0, 1);
        return;
    }
    plan_begin(b, 1);
    read_in_rank_order(b, params, rank, PLAN_NO_GROUP, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_end(b);
}

void mesh_gather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    plan_lane(b);
    if (rank != params->root) {
        plan_send_from(b, params->root, PLAN_INPUT, 0, 1);
        return;
    }
    plan_copy(b, PLAN_INPUT, 0, PLAN_OUTPUT, (uint32_t)rank, 1);
    for (int k = 1; k < params->rank_count; k++) {
        const int peer = rank_at(rank, k, params->rank_count);
        plan_receive_to(b, peer, PLAN_OUTPUT, (uint32_t)peer, 1);
    }
}

void mesh_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    plan_lane(b);
    if (rank != params->root) {
        plan_receive_to(b, params->root, PLAN_OUTPUT, 0, 1);
        return;
    }
    send_blocks(b, params, rank);
    plan_copy(b, PLAN_INPUT, (uint32_t)rank, PLAN_OUTPUT, 0, 1);
}

/* The own block is copied by a lane of its own, so that the others' blocks can come in
 * meanwhile. */
void mesh_allgather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int all = plan_group_all(b);
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_send_group(b, all);
    plan_end(b);
    receive_blocks_from_group(b, params, rank, all);

    plan_lane(b);
    plan_copy(b, PLAN_INPUT, 0, PLAN_OUTPUT, (uint32_t)rank, 1);
}

void mesh_reduce_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    plan_lane(b);
    send_blocks(b, params, rank);
    plan_begin(b, 1);
    read_in_rank_order(b, params, rank, PLAN_NO_GROUP, (uint32_t)rank);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_end(b);
}

/* In place block j arrives where the block for j lies: that one is sent from a copy. */
void mesh_alltoall(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count;
    plan_lane(b);
    for (int k = 1; k < ranks; k++) {
        const uint32_t peer = (uint32_t)rank_at(rank, k, ranks);
        uint32_t copy = 0;
        if (params->in_place) copy = plan_scratch(b, (uint32_t)rank * (uint32_t)ranks + peer);
        plan_begin(b, 1);
        plan_read(b, PLAN_INPUT, peer);
        if (params->in_place) plan_write(b, PLAN_SCRATCH, copy);
        plan_send(b, (int)peer);
        plan_end(b);
    }
    for (int k = 1; k < ranks; k++) {
        const int peer = rank_at(rank, -k, ranks);
        plan_receive_to(b, peer, PLAN_OUTPUT, (uint32_t)peer, 1);
    }
    plan_lane(b);
    plan_copy(b, PLAN_INPUT, (uint32_t)rank, PLAN_OUTPUT, (uint32_t)rank, 1);
}

void mesh_barrier(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int all = plan_group_all(b);
    plan_lane(b);
    plan_begin(b, 0);
    plan_read(b, PLAN_INPUT, 0);
    plan_send_group(b, all);
    plan_end(b);

    plan_begin(b, 0);
    for (int peer = 0; peer < params->rank_count; peer++)
        if (peer != rank) plan_receive_group(b, peer, all);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_end(b);
}
