#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "health/control_message.h"
#include "health/network_state.h"
#include "health/remote_rank.h"
#include "tests/worlds/tcp_control.h"
#include "tests/worlds/tcp_peer.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

/* Rank 0 of two, on two hosts. Of rank 1 there is its end of the connection, which keeps what it
 * hears. */
enum { SIZE = 2, KINDS = 16, FAILURE = 1, LEFT = 2, MESSAGES = 5, STEPS = 100000 };

struct world {
    struct team team;
    struct health *health;
    struct network network;
    struct tcp_control control;
    struct remote_flags flags[SIZE];
    struct transport near, *peer;
    unsigned heard[KINDS];
};

static const struct board_failure too_late = {
    .status = TUTTI_TIMEOUT, .culprit = 1, .sequence = 7, .message = "too late"};

static bool memory_is_short;

void *__real_malloc(size_t);
void *__wrap_malloc(size_t);
void *__wrap_malloc(size_t bytes)
{
    return memory_is_short ? NULL : __real_malloc(bytes);
}

static void hear(void *context, int peer, const void *message, size_t bytes)
{
    struct world *const world = context;
    uint32_t kind;
    assert_int_equal(peer, 0);
    assert_true(bytes >= sizeof kind);
    memcpy(&kind, message, sizeof kind);
    if (kind < KINDS) world->heard[kind]++;
}

static struct board *make_board(void)
{
    const size_t bytes = (board_bytes(1, SIZE) + 63) / 64 * 64;
    struct board *board = aligned_alloc(64, bytes);
    assert_non_null(board);
    memset(board, 0, bytes);
    return board;
}

static void open_world(struct world *world)
{
    struct discovery_entry entries[SIZE] = {{.host = 1}, {.host = 2}};
    memset(world, 0, sizeof *world);
    struct health *health = world->health = aligned_alloc(64, (sizeof *health + 63) / 64 * 64);
    assert_non_null(health);
    memset(health, 0, sizeof *health);
    health->team = &world->team;
    health->team->size = SIZE;
    assert_int_equal(team_hosts_create(entries, 0, SIZE, &health->team->members.hosts), TUTTI_OK);
    health->board = make_board();
    health->board_size = 1;
    health->team->transports.set.host = &world->near;
    health->network = &world->network;
    world->network.health = health;
    world->network.flags = world->flags;
    assert_true(rank_map_init(&world->network.ranks, SIZE));
    health->team->transports.set.all = health->team->transports.set.host;
    struct tcp_options options = {
        .size = SIZE, .streams = 1, .hears = remote_hear, .hears_context = &world->network};
    assert_int_equal(tcp_create(&options, &world->network.transport), TUTTI_OK);
    tcp_control_init(&world->control, world->network.transport);
    world->network.control = &world->control.base;
    options = (struct tcp_options){
        .rank = 1, .size = SIZE, .streams = 1, .hears = hear, .hears_context = world};
    assert_int_equal(tcp_create(&options, &world->peer), TUTTI_OK);
    tcp_peer_join(world->network.transport, world->peer, 0);
}

static void close_world(struct world *world)
{
    tcp_close(world->network.transport);
    tcp_close(world->peer);
    team_hosts_free(world->health->team->members.hosts);
    free(world->health->board);
    rank_map_release(&world->network.ranks);
    free(world->health);
}

/* Rank 1 takes in no control messages, as if it was stopped: the control messages for it take all
 * places that there are. */
static void fill(struct world *world)
{
    const struct control_message message = {.kind = CONTROL_WITHDRAWN};
    for (int i = 0; i < 2 * CONTROL_MESSAGES_MAX; i++)
        (void)remote_tell(&world->network, 1, &message);
}

/* Both ends go on. */
static void move(struct world *world)
{
    for (int i = 0; i < STEPS && !(tcp_is_settled(world->network.transport, 1) && i > STEPS / 10);
         i++) {
        (void)world->network.transport->ops->progress(world->network.transport);
        world->peer->ops->flush(world->peer);
        remote_tell_owed(&world->network);
    }
}

static void last_words_come_however_many_others_are_under_way(void **state)
{
    (void)state;
    struct world world;
    open_world(&world);
    fill(&world);
    assert_true(board_fail(world.health->board, &too_late));
    remote_tell_failure(&world.network);
    remote_tell_leaving(&world.network);
    move(&world);
    assert_int_equal(world.heard[FAILURE], 1);
    assert_int_equal(world.heard[LEFT], 1);
    close_world(&world);
}

static void last_words_need_no_memory(void **state)
{
    (void)state;
    struct world world;
    open_world(&world);
    assert_true(board_fail(world.health->board, &too_late));
    memory_is_short = true;
    remote_tell_failure(&world.network);
    remote_tell_leaving(&world.network);
    memory_is_short = false;
    move(&world);
    assert_int_equal(world.heard[FAILURE], 1);
    assert_int_equal(world.heard[LEFT], 1);
    close_world(&world);
}

/* A rank that is not told listens for no messages, and the sender says it only once. */
static void an_invitation_is_told_when_there_is_a_place(void **state)
{
    (void)state;
    struct world world;
    open_world(&world);
    fill(&world);
    remote_invite(world.health, 1);
    move(&world);
    assert_int_equal(world.heard[MESSAGES], 1);
    assert_false(world.network.any_owed);
    close_world(&world);
}

/* They are said again, and what is told once needs a place. */
static void agreements_leave_places_to_others(void **state)
{
    (void)state;
    struct world world;
    open_world(&world);
    for (int i = 0; i < 2 * CONTROL_MESSAGES_MAX; i++)
        remote_tell_agreement(world.health, 1, "agree", 6);
    assert_int_equal(world.network.untold, 0);
    remote_invite(world.health, 1);
    assert_false(world.network.any_owed);
    move(&world);
    assert_int_equal(world.heard[MESSAGES], 1);
    close_world(&world);
}

static void what_is_dropped_is_counted(void **state)
{
    (void)state;
    struct world world;
    open_world(&world);
    fill(&world);
    assert_int_equal(world.network.untold, CONTROL_MESSAGES_MAX + CONTROL_FINAL_MESSAGES);
    /* One is logged, and the others are in 10 s. */
    assert_int_equal(world.network.untold_limit.left_out, world.network.untold - 1);
    close_world(&world);
}

static void a_rank_that_agreements_find_alive_is_not_missed(void **state)
{
    (void)state;
    struct world world;
    const uint64_t both[] = {3}, alone[] = {1};
    open_world(&world);
    remote_note_agreement(world.health, both);
    assert_false(remote_is_missed(world.health, 1));
    remote_declare_dead(&world.network, 1); /* after they agreed */
    assert_true(remote_is_missed(world.health, 1));
    remote_note_agreement(world.health, both);
    assert_false(remote_is_missed(world.health, 1));
    remote_note_agreement(world.health, alone);
    assert_true(remote_is_missed(world.health, 1));
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_words_come_however_many_others_are_under_way),
        cmocka_unit_test(last_words_need_no_memory),
        cmocka_unit_test(an_invitation_is_told_when_there_is_a_place),
        cmocka_unit_test(agreements_leave_places_to_others),
        cmocka_unit_test(what_is_dropped_is_counted),
        cmocka_unit_test(a_rank_that_agreements_find_alive_is_not_missed),
    };
    setenv("TUTTI_LOG", "off", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
