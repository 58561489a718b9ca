/* Whatever control messages come from ranks of other hosts: nothing is written but what the message
 * may say, on boards that stay readable by everybody who describes a call or a failure from them.
 *
 * Rank 0 of four, of which rank 1 is on its host. The input is a sequence of control messages: from
 * whom, how many bytes, and these; what lacks at the end is zero. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "health/known.h"
#include "health/network_state.h"
#include "tests/worlds/tcp_control.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

enum { SIZE = 4, LOCAL_SIZE = 2 };

struct world {
    struct team team;
    struct health *health;
    struct network network;
    struct tcp_control control;
    struct host_levels levels;
    struct transport near;
    unsigned woken;
};

static struct world *one_world;

static void count_waking(struct transport *transport)
{
    (void)transport;
    one_world->woken++;
}

static void want_nothing(void *context, int peer, unsigned stream)
{
    (void)context;
    (void)peer;
    (void)stream;
}

static struct board *make_board(void)
{
    const size_t bytes = (board_bytes(LOCAL_SIZE, SIZE) + 63) / 64 * 64;
    struct board *board = aligned_alloc(64, bytes);
    if (board == NULL) abort();
    memset(board, 0, bytes);
    return board;
}

static void open_world(struct world *world)
{
    static const struct transport_ops near_ops = {.wake_all = count_waking};
    struct discovery_entry entries[SIZE] = {0};
    memset(world, 0, sizeof *world);
    one_world = world;
    world->health = aligned_alloc(64, (sizeof *world->health + 63) / 64 * 64);
    if (world->health == NULL) abort();
    memset(world->health, 0, sizeof *world->health);
    for (int r = 0; r < SIZE; r++) entries[r].host = r < LOCAL_SIZE ? 0 : (uint64_t)r;
    struct health *health = world->health;
    health->team = &world->team;
    health->team->size = SIZE;
    if (team_hosts_create(entries, 0, SIZE, &health->team->members.hosts) != TUTTI_OK) abort();
    health->board = make_board();
    health->board_size = LOCAL_SIZE;
    if (straggler_init(&health->straggler, SIZE) != TUTTI_OK) abort();
    health->team->members.levels = &world->levels;
    health->team->transports.set.host = &world->near;
    health->network = &world->network;
    world->near.ops = &near_ops;
    world->network.health = health;
    world->network.flags = calloc(SIZE, sizeof *world->network.flags);
    if (world->network.flags == NULL || !rank_map_init(&world->network.ranks, SIZE)) abort();
    const struct tcp_options options = {
        .size = SIZE, .wants = want_nothing, .hears = remote_hear, .hears_context = &world->network};
    if (tcp_create(&options, &world->network.transport) != TUTTI_OK) abort();
    tcp_control_init(&world->control, world->network.transport);
    world->network.control = &world->control.base;
}

static void close_world(struct world *world)
{
    tcp_close(world->network.transport);
    team_hosts_free(world->health->team->members.hosts);
    free(world->health->board);
    remote_free_all(&world->network);
    straggler_release(&world->health->straggler);
    free(world->health);
}

/* A call waited for that rank, which was asked since when it is in it. */
static void ask(struct world *world, int peer)
{
    struct straggler *straggler = &world->health->straggler;
    straggler->asked = (struct straggler_wait){.rank = peer, .since_ns = 1, .ns = 5000000};
    straggler->asked_slot = 0;
    straggler->asked_begun = 1;
}

/* Checks all that is read to explain why a call does not go on. */
static void check(struct world *world)
{
    struct tutti_failure failure;
    char text[96];
    if (board_failure(world->health->board, &failure) != TUTTI_OK) {
        if (failure.culprit < -1 || failure.culprit >= SIZE) abort();
        if (failure.reporter < 0 || failure.reporter >= SIZE) abort();
        if (memchr(failure.message, '\0', sizeof failure.message) == NULL) abort();
        if ((int)failure.status <= TUTTI_IN_PROGRESS || (int)failure.status >= STATUS_COUNT)
            abort();
    }
    if (board_state(world->health->board, 1) == RANK_LEFT) abort(); /* no word of another host's */
    for (int r = 2; r < SIZE; r++) {
        const struct remote_rank *remote = remote_find(&world->network, r);
        const struct board_finding *finding = remote != NULL ? &remote->finding : NULL;
        if (remote != NULL && remote->known_slot >= TRANSPORT_SLOT_COUNT) abort();
        if (remote != NULL && remote->has_finding && (finding->rank < 0 || finding->rank >= SIZE))
            abort();
        for (int slot = 0; slot < TRANSPORT_SLOT_COUNT; slot++) {
            struct call_description what;
            struct board_call *calls = known_calls(world->health, r, slot);
            if (!board_read_call(calls, board_begun(calls), &what)) continue;
            board_describe(&what, text, sizeof text);
            if (memchr(text, '\0', sizeof text) == NULL) abort();
        }
    }
    if (world->health->straggler.name.rank < -1 || world->health->straggler.name.rank >= SIZE)
        abort();
    if (world->network.all_have_joined) abort(); /* rank 0 says so, and that is this one */
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return setenv("TUTTI_LOG", "off", 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world world;
    open_world(&world);
    while (size >= 2) {
        const int peer = data[0] % SIZE;
        const size_t bytes =
            data[1] == 0 ? data[0] : CONTROL_MESSAGE_BYTES; /* of any length only now and then */
        const size_t there = bytes < size - 2 ? bytes : size - 2;
        uint8_t *message = calloc(1, bytes + 1);
        if (message == NULL) abort();
        memcpy(message, data + 2, there);
        ask(&world, peer);
        if (peer != 0) remote_hear(&world.network, peer, message, bytes);
        free(message);
        data += 2 + there;
        size -= 2 + there;
        check(&world);
    }
    close_world(&world);
    return 0;
}
