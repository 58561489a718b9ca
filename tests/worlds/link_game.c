#include "tests/worlds/link_game.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/kit/chance.h"

enum { LINKS = 6 };

static const struct {
    int slot, channel;
} places[LINKS] = {{0, 0}, {0, 3}, {5, 1}, {16, 0}, {17, 2}, {17, 3}};

/* One direction of a link; byte i of it has a value of its own. */
struct line {
    unsigned number;
    struct link_tx *tx;
    struct link_rx *rx;
    char *memory; /* what is posted: the values from the beginning, and again and again */
    char *destination;
    uint64_t sent, received, expected_from;
    size_t expected_bytes;
    uint64_t placed; /* bytes that came where they were expected */
    unsigned messages_left;
    bool is_stuck; /* it leaves what comes unread */
};

struct link_game {
    struct link_world world;
    struct link_game_rules rules;
    size_t piece_bytes;
    unsigned steps;
    struct line lines[2 * LINKS];
};

static uint64_t draw(const struct link_game *game)
{
    return chance_next(game->world.random);
}

static unsigned char value_at(const struct link_game *game, const struct line *line, uint64_t i)
{
    i %= game->rules.bytes_max;
    return (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16) * 31 + line->number * 101);
}

static void open_line(const struct link_game *game, struct line *line, unsigned number)
{
    struct transport *const *const ranks = game->world.ranks;
    const size_t bytes_max = game->rules.bytes_max;
    const int from = (int)(number / LINKS), slot = places[number % LINKS].slot,
              channel = places[number % LINKS].channel;
    *line = (struct line){.number = number, .messages_left = game->rules.messages};
    assert_int_equal(
        ranks[from]->ops->open_tx(ranks[from], slot, channel, 1 - from, bytes_max, &line->tx),
        TUTTI_OK);
    assert_int_equal(ranks[1 - from]->ops->open_rx(ranks[1 - from], slot, channel, from, &line->rx),
                     TUTTI_OK);
    ranks[0]->signatures[slot] = ranks[1]->signatures[slot] = 1000 + (uint64_t)slot;
    line->memory = malloc(2 * bytes_max);
    line->destination = malloc(bytes_max);
    assert_true(line->memory != NULL && line->destination != NULL);
    for (size_t i = 0; i < 2 * bytes_max; i++) line->memory[i] = (char)value_at(game, line, i);
}

static size_t draw_bytes(const struct link_game *game, size_t max)
{
    const size_t sizes[] = {1, 8, 257, 2000, game->rules.bytes_max / 3, game->rules.bytes_max};
    const uint64_t kind = draw(game) % 7;
    if (kind == 6) return 0;
    const size_t most = sizes[kind] < max ? sizes[kind] : max;
    return 1 + draw(game) % most;
}

static void send_something(const struct link_game *game, struct line *line)
{
    const size_t bytes_max = game->rules.bytes_max;
    if (line->messages_left == 0) return;
    if (draw(game) % game->rules.posts == 0) {
        const size_t bytes = draw_bytes(game, bytes_max);
        if (!line->tx->ops->post(line->tx, line->memory + line->sent % bytes_max, bytes)) return;
        line->sent += bytes;
    } else {
        const size_t bytes = draw_bytes(game, game->piece_bytes);
        char *place = line->tx->ops->reserve(line->tx, bytes);
        if (place == NULL) return;
        assert_true(bytes <= 8 || (uintptr_t)place % 64 == 0);
        for (size_t i = 0; i < bytes; i++) place[i] = (char)value_at(game, line, line->sent + i);
        line->tx->ops->commit(line->tx, bytes);
        line->sent += bytes;
    }
    line->messages_left--;
}

static void expect_something(const struct link_game *game, struct line *line)
{
    if (line->received < line->expected_from + line->expected_bytes) return;
    line->expected_from = line->received;
    line->expected_bytes = 1 + draw(game) % game->rules.bytes_max;
    line->rx->ops->advertise(line->rx, line->destination, line->expected_bytes);
}

/* Only whole views are taken where something is to be expected next. */
static void take_something(const struct link_game *game, struct line *line)
{
    struct link_view view;
    const enum link_state state = line->rx->ops->peek(line->rx, &view);
    assert_true(state != LINK_FAULT);
    if (state == LINK_EMPTY) return;
    size_t bytes = view.bytes;
    if (bytes > 0 && draw(game) % 4 == 0) bytes = 1 + draw(game) % bytes;
    const unsigned char *data = view.data;
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != value_at(game, line, line->received + i))
            fail_msg("link %u: byte %llu is wrong", line->number,
                     (unsigned long long)(line->received + i));
    const char *const expected = line->destination + (line->received - line->expected_from);
    if (line->expected_bytes > 0 && (const char *)view.data == expected) line->placed += bytes;
    line->rx->ops->consume(line->rx, bytes);
    line->received += bytes;
    if (bytes == view.bytes && draw(game) % 4 == 0) expect_something(game, line);
}

static bool is_over(const struct link_game *game)
{
    for (unsigned l = 0; l < 2 * LINKS; l++) {
        const struct line *const line = &game->lines[l];
        if (line->messages_left > 0 || line->received < line->sent ||
            !line->tx->ops->consumed(line->tx))
            return false;
    }
    return true;
}

struct link_game *link_game_play(const struct link_world *world, const struct link_game_rules *rules)
{
    struct link_game *const game = calloc(1, sizeof *game);
    struct transport *const first = world->ranks[0];
    unsigned pieces;
    assert_non_null(game);
    assert_int_equal(world->size, 2);
    game->world = *world;
    game->rules = *rules;
    first->ops->limits(first, &game->piece_bytes, &pieces);
    for (unsigned l = 0; l < 2 * LINKS; l++) open_line(game, &game->lines[l], l);
    do {
        if (game->steps++ == rules->steps_max)
            fail_msg("stuck, seed %llu", (unsigned long long)world->seed);
        struct line *const line = &game->lines[draw(game) % (2 * LINKS)];
        if (draw(game) % 500 == 0) line->is_stuck = !line->is_stuck;
        send_something(game, line);
        if (!line->is_stuck) take_something(game, line);
        world->step(world->world);
    } while (game->steps % 64 != 0 || !is_over(game));
    uint64_t placed = 0;
    for (unsigned l = 0; l < 2 * LINKS; l++) {
        struct link_view view;
        assert_int_equal(game->lines[l].rx->ops->peek(game->lines[l].rx, &view), LINK_EMPTY);
        placed += game->lines[l].placed;
    }
    assert_true(placed > 0);
    return game;
}

unsigned link_game_steps(const struct link_game *game)
{
    return game->steps;
}

void link_game_free(struct link_game *game)
{
    for (unsigned l = 0; l < 2 * LINKS; l++) {
        free(game->lines[l].memory);
        free(game->lines[l].destination);
    }
    free(game);
}
