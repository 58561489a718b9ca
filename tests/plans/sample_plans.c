#include "tests/plans/sample_plans.h"

#include <stdio.h>
#include <stdlib.h>

struct plan *sample_plan(enum collective collective, int rank_count, int root,
                         sample_generate *generate)
{
    struct plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) abort();
    plan->ranks = calloc((size_t)rank_count, sizeof(struct rank_plan *));
    if (plan->ranks == NULL) abort();
    for (int rank = 0; rank < rank_count; rank++) {
        struct plan_builder *b = plan_builder_create(collective, rank_count, root, rank);
        const char *message = "";
        if (b == NULL) abort();
        generate(b, rank, rank_count);
        if (plan_builder_finish(b, &plan->ranks[rank], &message) != TUTTI_OK) {
            fprintf(stderr, "sample plan, rank %d: %s\n", rank, message);
            abort();
        }
        plan_builder_free(b);
        plan->shape = plan->ranks[rank]->shape;
    }
    return plan;
}

void sample_exchange(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_lane(b);
    plan_send_from(b, 1 - rank, PLAN_INPUT, 0, 1);
    plan_begin(b, 1);
    plan_receive(b, 1 - rank);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_end(b);
}

void sample_exchange_copied(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    const uint32_t copy = plan_scratch(b, 0);
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_SCRATCH, copy);
    plan_send(b, 1 - rank);
    plan_end(b);
    plan_begin(b, 1);
    plan_receive(b, 1 - rank);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_end(b);
}

/*  0 --x0--> 1 --x0+x1--> 2        0 <--sum-- 1 <--sum-- 2 */
void sample_chain(struct plan_builder *b, int rank, int rank_count)
{
    plan_parts(b, 2);
    plan_lane(b);
    if (rank == 0) {
        plan_send_from(b, 1, PLAN_INPUT, 0, 2);
    } else {
        plan_begin(b, 2);
        plan_receive(b, rank - 1);
        plan_read(b, PLAN_INPUT, 0);
        if (rank + 1 < rank_count) {
            plan_send(b, rank + 1);
        } else {
            plan_write(b, PLAN_OUTPUT, 0);
            plan_final(b);
            plan_send(b, rank - 1);
        }
        plan_end(b);
    }
    if (rank + 1 == rank_count) return;
    plan_begin(b, 2);
    plan_receive(b, rank + 1);
    plan_write(b, PLAN_OUTPUT, 0);
    if (rank > 0) plan_send(b, rank - 1);
    plan_end(b);
}

void sample_lanes(struct plan_builder *b, int rank, int rank_count)
{
    plan_parts(b, 2);
    if (rank == 0) {
        plan_lane(b);
        for (uint32_t i = 0; i < 2; i++) plan_send_from(b, 1, PLAN_INPUT, i, 1);
        plan_lane(b);
        plan_copy(b, PLAN_INPUT, 0, PLAN_OUTPUT, 0, 2);
        return;
    }
    const uint32_t arrived = plan_scratch(b, 0);
    plan_scratch(b, 1);
    uint32_t received[2];
    plan_lane(b);
    for (uint32_t i = 0; i < 2; i++)
        received[i] = plan_receive_to(b, rank - 1, PLAN_SCRATCH, arrived + i, 1);
    plan_lane(b);
    for (uint32_t i = 0; rank + 1 < rank_count && i < 2; i++) {
        plan_begin(b, 1);
        plan_read(b, PLAN_SCRATCH, arrived + i);
        plan_send(b, rank + 1);
        plan_after(b, received[i]);
        plan_end(b);
    }
    plan_lane(b);
    plan_begin(b, 2);
    plan_read(b, PLAN_SCRATCH, arrived);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_after(b, received[1]);
    plan_end(b);
}

static void add_to_output(struct plan_builder *b, enum plan_buffer buffer, uint32_t first,
                          uint32_t second)
{
    plan_begin(b, 1);
    plan_read(b, buffer, first);
    plan_read(b, PLAN_SCRATCH, second);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_end(b);
}

static void echo(struct plan_builder *b, int rank, uint32_t shift)
{
    const uint32_t both = plan_scratch(b, 0);
    plan_scratch(b, 0);
    plan_scratch(b, 0);
    const uint32_t kept = plan_scratch(b, 0);
    plan_lane(b);
    if (rank == 1) {
        plan_send_from(b, 0, PLAN_INPUT, 0, 1);
        plan_begin(b, 2);
        plan_receive(b, 0);
        plan_write(b, PLAN_SCRATCH, both);
        plan_send(b, 0);
        plan_end(b);
        add_to_output(b, PLAN_SCRATCH, both, both + 1);
        return;
    }
    plan_copy(b, PLAN_INPUT, 0, PLAN_SCRATCH, both, 1);
    plan_receive_to(b, 1, PLAN_SCRATCH, kept, 1);
    plan_copy(b, PLAN_SCRATCH, kept, PLAN_SCRATCH, both + 1, 1);
    plan_send_from(b, 1, PLAN_SCRATCH, both, 2);
    plan_receive_to(b, 1, PLAN_SCRATCH, both + shift, 2);
    add_to_output(b, PLAN_INPUT, 0, kept);
}

void sample_echo(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    echo(b, rank, 0);
}

void sample_echo_shifted(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    echo(b, rank, 1);
}

void sample_overwrite(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_lane(b);
    plan_send_from(b, 1 - rank, PLAN_INPUT, 0, 1);
    const uint32_t stored = plan_receive_to(b, 1 - rank, PLAN_OUTPUT, 0, 1);
    plan_lane(b);
    plan_channel(b, 1);
    plan_send_from(b, 1 - rank, PLAN_INPUT, 0, 1);
    plan_begin(b, 1);
    plan_receive(b, 1 - rank);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_after(b, stored);
    plan_final(b);
    plan_end(b);
}

static void tell(struct plan_builder *b, int peer)
{
    plan_begin(b, 0);
    plan_read(b, PLAN_INPUT, 0);
    plan_send(b, peer);
    plan_end(b);
}

static void listen_to(struct plan_builder *b, int peer)
{
    plan_begin(b, 0);
    plan_receive(b, peer);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_end(b);
}

void sample_central_barrier(struct plan_builder *b, int rank, int rank_count)
{
    plan_lane(b);
    if (rank > 0) {
        tell(b, 0);
        listen_to(b, 0);
        return;
    }
    for (int peer = 1; peer < rank_count; peer++) listen_to(b, peer);
    for (int peer = 1; peer < rank_count; peer++) tell(b, peer);
}

const struct sample sample_list[] = {
    {"exchange", COLLECTIVE_ALLREDUCE, 2, 0, sample_exchange, false},
    {"exchange_copied", COLLECTIVE_ALLREDUCE, 2, 0, sample_exchange_copied, true},
    {"chain", COLLECTIVE_ALLREDUCE, 3, 0, sample_chain, true},
    {"chain", COLLECTIVE_ALLREDUCE, 5, 0, sample_chain, true},
    {"lanes", COLLECTIVE_BROADCAST, 3, 0, sample_lanes, true},
    {"lanes", COLLECTIVE_BROADCAST, 4, 0, sample_lanes, true},
    {"echo", COLLECTIVE_ALLREDUCE, 2, 0, sample_echo, true},
    {"overwrite", COLLECTIVE_ALLREDUCE, 2, 0, sample_overwrite, false},
    {"central_barrier", COLLECTIVE_BARRIER, 3, 0, sample_central_barrier, true},
    {"central_barrier", COLLECTIVE_BARRIER, 5, 0, sample_central_barrier, true},
};
const int sample_count = sizeof sample_list / sizeof *sample_list;
