#include "tests/worlds/message_game.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "p2p/p2p.h"
#include "tests/kit/chance.h"

enum { REQUESTS_MAX = 200, ANY_MESSAGES = 40, TAGS = MESSAGE_GAME_TAGS, STEPS_MAX = 3000000 };

struct own {
    struct p2p *p2p;
    struct p2p_request requests[REQUESTS_MAX];
    int count, started;
};

struct message_game {
    int size;
    struct own owns[MESSAGE_GAME_RANKS_MAX];
};

struct message_game *message_game_create(int size)
{
    struct message_game *const game = calloc(1, sizeof *game);
    assert_non_null(game);
    assert_in_range(size, 1, MESSAGE_GAME_RANKS_MAX);
    game->size = size;
    return game;
}

static unsigned char *add(struct own *own, bool is_send, int peer, int tag, size_t bytes)
{
    assert_true(own->count < REQUESTS_MAX);
    assert_in_range(tag, 0, TAGS - 1);
    struct p2p_request *request = &own->requests[own->count++];
    *request = (struct p2p_request){
        .is_send = is_send, .bytes = bytes, .dtype = TUTTI_UINT8, .peer = peer, .tag = tag};
    request->buffer = calloc(1, bytes + 1);
    assert_non_null(request->buffer);
    return request->buffer;
}

void message_game_send(struct message_game *game, int rank, int to, int tag, size_t bytes)
{
    const int number = game->owns[rank].count;
    unsigned char *const buffer = add(&game->owns[rank], true, to, tag, bytes);
    const unsigned first = (unsigned)(rank * 50 + to * 11 + number * 7);
    for (size_t i = 0; i < bytes; i++)
        buffer[i] = (unsigned char)(first + i * 3 + (i >> 8) + (i >> 16) * 31);
}

void message_game_receive(struct message_game *game, int rank, int from, int tag, size_t bytes)
{
    add(&game->owns[rank], false, from, tag, bytes);
}

void message_game_add_any(struct message_game *game, uint64_t *random, size_t bytes_max)
{
    const size_t sizes[] = {0, 9, 300, 5000, 70000, bytes_max};
    const uint64_t others = (uint64_t)game->size - 1;
    for (int number = 0; number < ANY_MESSAGES; number++) {
        for (int from = 0; from < game->size; from++) {
            const int to = (from + 1 + (int)(chance_next(random) % others)) % game->size;
            const size_t bytes = sizes[chance_next(random) % 6];
            message_game_send(game, from, to, number % TAGS, bytes);
            message_game_receive(game, to, from, number % TAGS, bytes);
        }
    }
}

static void expect_done(const struct own *own)
{
    for (int i = 0; i < own->count; i++) {
        const struct p2p_request *request = &own->requests[i];
        assert_true(request->done);
        assert_int_equal(request->status, TUTTI_OK);
        if (request->is_send) continue;
        assert_int_equal(request->received_bytes, request->bytes);
    }
}

/* The next request from number `i` on that is one of these. */
static int next_of(const struct own *own, int i, bool is_send, int peer, int tag)
{
    while (i < own->count && (own->requests[i].is_send != is_send ||
                              own->requests[i].peer != peer || own->requests[i].tag != tag))
        i++;
    return i;
}

/* The k-th receive from a rank with a tag got its k-th send with that. */
static void expect_order(const struct message_game *game, int source, int destination, int tag)
{
    const struct own *const from = &game->owns[source], *const to = &game->owns[destination];
    int s = next_of(from, 0, true, destination, tag), r = next_of(to, 0, false, source, tag);
    while (s < from->count && r < to->count) {
        assert_int_equal(to->requests[r].bytes, from->requests[s].bytes);
        assert_memory_equal(to->requests[r].buffer, from->requests[s].buffer,
                            from->requests[s].bytes);
        s = next_of(from, s + 1, true, destination, tag);
        r = next_of(to, r + 1, false, source, tag);
    }
    assert_true(s == from->count && r == to->count);
}

static void open_ranks(struct message_game *game, const struct link_world *world)
{
    static const struct p2p_options options = {
        .eager_bytes_max = 4000, .unexpected_bytes_max = 100000, .unexpected_count_max = 50};
    assert_int_equal(game->size, world->size);
    for (int r = 0; r < game->size; r++) {
        assert_int_equal(
            p2p_create(world->ranks[r], TRANSPORT_SLOT_MESSAGES, &options, &game->owns[r].p2p),
            TUTTI_OK);
        assert_int_equal(p2p_listen(game->owns[r].p2p), TUTTI_OK);
    }
}

static void start_next(struct own *own)
{
    assert_int_equal(p2p_start(own->p2p, &own->requests[own->started++]), TUTTI_OK);
}

static bool is_over(const struct message_game *game)
{
    for (int r = 0; r < game->size; r++)
        if (game->owns[r].started < game->owns[r].count || p2p_is_busy(game->owns[r].p2p))
            return false;
    return true;
}

void message_game_play(struct message_game *game, const struct link_world *world, unsigned starts)
{
    open_ranks(game, world);
    for (int r = 0; r < game->size && starts == 0; r++)
        while (game->owns[r].started < game->owns[r].count) start_next(&game->owns[r]);
    for (int steps = 0; !is_over(game); steps++) {
        if (steps == STEPS_MAX) fail_msg("stuck, seed %llu", (unsigned long long)world->seed);
        struct own *const own = &game->owns[chance_next(world->random) % (uint64_t)game->size];
        if (own->started < own->count && chance_next(world->random) % starts == 0) start_next(own);
        p2p_progress(own->p2p);
        assert_int_equal(p2p_fault(own->p2p), -1);
        world->step(world->world);
    }
    for (int r = 0; r < game->size; r++) expect_done(&game->owns[r]);
    for (int s = 0; s < game->size; s++)
        for (int d = 0; d < game->size; d++)
            for (int tag = 0; tag < TAGS; tag++) expect_order(game, s, d, tag);
    for (int r = 0; r < game->size; r++) {
        p2p_free(game->owns[r].p2p);
        for (int i = 0; i < game->owns[r].count; i++) free(game->owns[r].requests[i].buffer);
    }
    free(game);
}
