/* Programs whose links have different capabilities, on a transport that only opens links. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/status.h"
#include "engine/program_links.h"
#include "plan/build.h"
#include "transport/paths.h"

/* Ranks 0 to 2 are on one host, rank 3 on another one. */
enum {
    SIZE = 4,
    NEAR = 3,
    ALL_CAPABILITIES = LINK_SHARES | LINK_ADVERTISES | LINK_PLACES_DIRECTLY
};

struct stage {
    struct transport base;
    struct path_table tables[2]; /* within the host, and to the other one */
    uint8_t by_rank[SIZE];
    struct link_tx tx[SIZE], multicast_tx;
    struct link_rx rx[SIZE], multicast_rx[SIZE];
    unsigned opened, multicast, shared_opened;
    bool refuses; /* the last link */
};

static unsigned can(int peer)
{
    return peer < NEAR ? ALL_CAPABILITIES : LINK_PLACES_DIRECTLY;
}

static enum tutti_status stage_open_tx(struct transport *transport, int slot, int channel, int peer,
                                       size_t bytes, struct link_tx **link)
{
    (void)slot, (void)channel, (void)bytes;
    struct stage *stage = (struct stage *)transport;
    stage->opened++;
    stage->tx[peer] = (struct link_tx){.peer = peer, .capabilities = can(peer)};
    *link = &stage->tx[peer];
    return TUTTI_OK;
}

static enum tutti_status stage_open_rx(struct transport *transport, int slot, int channel, int peer,
                                       struct link_rx **link)
{
    (void)slot, (void)channel;
    struct stage *stage = (struct stage *)transport;
    if (stage->refuses) return error_set(TUTTI_NO_SPACE, "no more links");
    stage->opened++;
    stage->rx[peer] = (struct link_rx){.peer = peer, .capabilities = can(peer)};
    *link = &stage->rx[peer];
    return TUTTI_OK;
}

static enum tutti_status stage_open_multicast_tx(struct transport *transport, int slot, int channel,
                                                 int group, size_t bytes, struct link_tx **link)
{
    (void)slot, (void)channel, (void)bytes;
    struct stage *stage = (struct stage *)transport;
    assert_int_equal(group, 0);
    stage->multicast++;
    stage->multicast_tx = (struct link_tx){.peer = LINK_TO_GROUP, .capabilities = LINK_SHARES};
    *link = &stage->multicast_tx;
    return TUTTI_OK;
}

static enum tutti_status stage_open_multicast_rx(struct transport *transport, int slot, int channel,
                                                 int group, int peer, struct link_rx **link)
{
    (void)slot, (void)channel;
    struct stage *stage = (struct stage *)transport;
    assert_int_equal(group, 0);
    stage->multicast++;
    stage->multicast_rx[peer] = (struct link_rx){.peer = peer, .capabilities = LINK_SHARES};
    *link = &stage->multicast_rx[peer];
    return TUTTI_OK;
}

static enum tutti_status stage_open_shared_slots(struct transport *transport, int slot)
{
    (void)slot;
    ((struct stage *)transport)->shared_opened++;
    return TUTTI_OK;
}

static void stage_limits(struct transport *transport, size_t *piece_bytes_max,
                         unsigned *piece_count_max)
{
    (void)transport;
    *piece_bytes_max = 64 << 10;
    *piece_count_max = 4;
}

static const struct sharing_ops stage_sharing = {.open_multicast_tx = stage_open_multicast_tx,
                                                 .open_multicast_rx = stage_open_multicast_rx,
                                                 .open_shared_slots = stage_open_shared_slots,
                                                 .reserve_shared = transport_no_reserve_shared,
                                                 .send_shared = transport_no_send_shared};

static const struct transport_ops stage_ops = {
    .limits = stage_limits, .open_tx = stage_open_tx, .open_rx = stage_open_rx};

static void stage_set(struct stage *stage)
{
    static const int host[NEAR] = {0, 1, 2};
    *stage = (struct stage){.base = {.ops = &stage_ops,
                                     .sharing = &stage_sharing,
                                     .size = SIZE,
                                     .groups = {{host, NEAR}},
                                     .group_count = 1}};
    stage->tables[0] = *transport_paths("local");
    stage->tables[1] = *transport_paths("tcp");
    stage->tables[1].lacks = path_bit(PATH_WRITE);
    for (int t = 0; t < 2; t++) stage->base.paths.tables[t] = &stage->tables[t];
    stage->by_rank[NEAR] = 1;
    stage->base.paths.by_rank = stage->by_rank;
}

static struct program *bound(struct plan_builder *b, size_t count, struct transport *transport)
{
    static const struct tutti_operation sum = {.kind = OP_SUM, .commutative = true};
    struct bind_options options = {
        .count = count, .dtype = TUTTI_FLOAT32, .op = &sum, .level = KERNEL_SCALAR};
    struct rank_plan *plan;
    struct program *program;
    const char *message = "";
    if (plan_builder_finish(b, &plan, &message) != TUTTI_OK) fail_msg("%s", message);
    plan_builder_free(b);
    bind_to_transport(&options, transport);
    assert_int_equal(bind_program(plan, &options, &program), TUTTI_OK);
    plan_rank_free(plan);
    return program;
}

/* Rank 0 sends its block to two others. */
static struct program *bound_to_two(int first, int second, struct transport *transport)
{
    struct plan_builder *b = plan_builder_create(COLLECTIVE_BROADCAST, SIZE, 0, 0);
    assert_non_null(b);
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_send(b, first);
    plan_send(b, second);
    plan_end(b);
    return bound(b, 10000, transport);
}

static void a_step_uses_a_shared_slot_where_all_its_links_share(void **state)
{
    (void)state;
    for (int second = 2; second <= 3; second++) {
        struct stage stage;
        stage_set(&stage);
        struct program *program = bound_to_two(1, second, &stage.base);
        for (int slot = 0; slot < 2; slot++)
            assert_int_equal(program_open_links(program, &stage.base, slot), TUTTI_OK);
        const bool shares = second == 2;
        assert_int_equal(step_has(&program->steps[0], STEP_SHARES), shares);
        assert_int_equal(program->shares, shares);
        assert_int_equal(stage.shared_opened, shares ? 2 : 0); /* in each slot */
        assert_int_equal(stage.opened, 4);
        assert_int_equal(program_open_links(program, &stage.base, 1), TUTTI_OK);
        assert_int_equal(stage.opened, 4); /* they are open */
        program_free(program);
    }
}

/* Rank 0 reduces part 0 for a peer, which gets the result and sends part 1. All parts are large
 * enough for every path. */
static struct program *bound_with_result_from(int peer, struct transport *transport)
{
    struct plan_builder *b = plan_builder_create(COLLECTIVE_ALLREDUCE, SIZE, 0, 0);
    assert_non_null(b);
    plan_parts(b, 2);
    plan_lane(b);
    plan_send_from(b, peer, PLAN_INPUT, 1, 1);
    plan_begin(b, 1);
    plan_receive(b, peer);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_channel(b, 1);
    plan_send(b, peer);
    plan_end(b);
    plan_lane(b);
    plan_channel(b, 1);
    plan_begin(b, 1);
    plan_receive(b, peer);
    plan_write(b, PLAN_OUTPUT, 1);
    plan_end(b);
    return bound(b, 100000, transport);
}

static void results_are_expected_and_placed_where_links_advertise(void **state)
{
    (void)state;
    for (int peer = 2; peer <= 3; peer++) {
        struct stage stage;
        stage_set(&stage);
        struct program *program = bound_with_result_from(peer, &stage.base);
        const bool advertises = peer == 2;
        assert_int_equal(program_open_links(program, &stage.base, 0), TUTTI_OK);
        assert_int_equal(program->expect_count, advertises);
        assert_int_equal(step_has(&program->steps[1], STEP_PLACES), advertises);
        assert_int_equal(step_has(&program->steps[2], STEP_EXPECTS), advertises);
        assert_int_equal(step_has(&program->steps[2], STEP_PLACES_DIRECTLY), !advertises);
        program_free(program);
    }
}

static void what_cannot_land_does_not(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    struct plan_builder *b = plan_builder_create(COLLECTIVE_BROADCAST, SIZE, 1, 0);
    assert_non_null(b);
    const int members[NEAR] = {0, 1, 2};
    plan_lane(b);
    plan_begin(b, 1);
    plan_receive_group(b, 1, plan_group(b, members, NEAR));
    plan_write(b, PLAN_OUTPUT, 0);
    plan_end(b);
    struct program *program = bound(b, 40000, &stage.base);
    assert_int_equal(program_open_links(program, &stage.base, 0), TUTTI_OK);
    assert_true(stage.multicast == 1 && stage.opened == 0);
    assert_false(step_has(&program->steps[0], STEP_PLACES_DIRECTLY));
    program_free(program);
}

static void a_group_has_one_link(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    struct plan_builder *b = plan_builder_create(COLLECTIVE_BROADCAST, SIZE, 0, 0);
    assert_non_null(b);
    const int members[NEAR] = {0, 1, 2};
    const int group = plan_group(b, members, NEAR);
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_send_group(b, group);
    plan_end(b);
    struct program *program = bound(b, 1000, &stage.base);
    assert_int_equal(program_open_links(program, &stage.base, 0), TUTTI_OK);
    assert_true(stage.multicast == 1 && stage.opened == 0);
    assert_ptr_equal(program->tx[0][0], &stage.multicast_tx);
    program_free(program);
}

static void a_link_that_cannot_be_opened_leaves_the_slot_closed(void **state)
{
    (void)state;
    struct stage stage;
    stage_set(&stage);
    struct program *program = bound_with_result_from(2, &stage.base);
    stage.refuses = true;
    assert_int_equal(program_open_links(program, &stage.base, 0), TUTTI_NO_SPACE);
    assert_true(program->tx[0] == NULL && program->rx[0] == NULL);
    stage.refuses = false;
    assert_int_equal(program_open_links(program, &stage.base, 0), TUTTI_OK);
    assert_int_equal(program->expect_count, 1);
    program_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_uses_a_shared_slot_where_all_its_links_share),
        cmocka_unit_test(results_are_expected_and_placed_where_links_advertise),
        cmocka_unit_test(what_cannot_land_does_not),
        cmocka_unit_test(a_group_has_one_link),
        cmocka_unit_test(a_link_that_cannot_be_opened_leaves_the_slot_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
