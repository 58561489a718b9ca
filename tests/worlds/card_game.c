#include "tests/worlds/card_game.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/sim/sim_seeds.h"

enum { LINKS = 6, POSTED_BYTES = 100000, STEPS_MAX = 30000000, STEPS_A_CHECK = 1 << 14 };

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

static unsigned char value_at(const struct line *line, uint64_t i)
{
    i %= POSTED_BYTES;
    return (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16) * 31 + line->number * 101);
}

static void open_line(struct card_world *world, struct line *line, unsigned number)
{
    struct transport *const *ranks = card_world_transports(world);
    const int from = (int)(number / LINKS), slot = places[number % LINKS].slot,
              channel = places[number % LINKS].channel;
    *line = (struct line){.number = number};
    assert_int_equal(
        ranks[from]->ops->open_tx(ranks[from], slot, channel, 1 - from, 4096, &line->tx), TUTTI_OK);
    assert_int_equal(ranks[1 - from]->ops->open_rx(ranks[1 - from], slot, channel, from, &line->rx),
                     TUTTI_OK);
    ranks[0]->signatures[slot] = ranks[1]->signatures[slot] = 1000 + (uint64_t)slot;
    line->memory = malloc(2 * POSTED_BYTES);
    line->destination = malloc(POSTED_BYTES);
    assert_true(line->memory != NULL && line->destination != NULL);
    for (size_t i = 0; i < 2 * POSTED_BYTES; i++) line->memory[i] = (char)value_at(line, i);
}

static size_t draw_bytes(struct card_world *world, size_t max)
{
    static const size_t sizes[] = {1, 8, 257, 2000, 30000, POSTED_BYTES};
    const uint64_t kind = card_world_draw(world) % 7;
    if (kind == 6) return 0;
    const size_t most = sizes[kind] < max ? sizes[kind] : max;
    return 1 + card_world_draw(world) % most;
}

static void send_something(struct card_world *world, struct line *line, size_t piece_bytes)
{
    if (line->messages_left == 0) return;
    if (card_world_draw(world) % 3 == 0) {
        const size_t bytes = draw_bytes(world, POSTED_BYTES);
        if (!line->tx->ops->post(line->tx, line->memory + line->sent % POSTED_BYTES, bytes)) return;
        line->sent += bytes;
    } else {
        const size_t bytes = draw_bytes(world, piece_bytes);
        char *place = line->tx->ops->reserve(line->tx, bytes);
        if (place == NULL) return;
        assert_true(bytes <= 8 || (uintptr_t)place % 64 == 0);
        for (size_t i = 0; i < bytes; i++) place[i] = (char)value_at(line, line->sent + i);
        line->tx->ops->commit(line->tx, bytes);
        line->sent += bytes;
    }
    line->messages_left--;
}

static void expect_something(struct card_world *world, struct line *line)
{
    if (line->received < line->expected_from + line->expected_bytes) return;
    line->expected_from = line->received;
    line->expected_bytes = 1 + card_world_draw(world) % POSTED_BYTES;
    line->rx->ops->advertise(line->rx, line->destination, line->expected_bytes);
}

/* Only whole views are taken where something is to be expected next. */
static void take_something(struct card_world *world, struct line *line)
{
    struct link_view view;
    const enum link_state state = line->rx->ops->peek(line->rx, &view);
    assert_true(state != LINK_FAULT);
    if (state == LINK_EMPTY) return;
    size_t bytes = view.bytes;
    if (bytes > 0 && card_world_draw(world) % 4 == 0) bytes = 1 + card_world_draw(world) % bytes;
    const unsigned char *data = view.data;
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != value_at(line, line->received + i))
            fail_msg("link %u: byte %llu is wrong", line->number,
                     (unsigned long long)(line->received + i));
    const char *const expected = line->destination + (line->received - line->expected_from);
    if (line->expected_bytes > 0 && (const char *)view.data == expected) line->placed += bytes;
    line->rx->ops->consume(line->rx, bytes);
    line->received += bytes;
    if (bytes == view.bytes && card_world_draw(world) % 4 == 0) expect_something(world, line);
}

static bool is_over(const struct line *line)
{
    return line->messages_left == 0 && line->received == line->sent &&
           line->tx->ops->consumed(line->tx);
}

uint64_t card_game_play(struct card_mood mood, unsigned messages, uint64_t seed)
{
    struct card_world *world = card_world_create(2, mood, seed);
    struct line lines[2 * LINKS];
    size_t piece_bytes;
    unsigned pieces, left = 2 * LINKS, steps = 0;
    struct transport *first = card_world_transports(world)[0];
    first->ops->limits(first, &piece_bytes, &pieces);
    for (unsigned l = 0; l < 2 * LINKS; l++) {
        open_line(world, &lines[l], l);
        lines[l].messages_left = messages;
    }
    while (left > 0) {
        if (steps++ == STEPS_MAX) fail_msg("stuck, seed %llu", (unsigned long long)seed);
        struct line *line = &lines[card_world_draw(world) % (2 * LINKS)];
        if (card_world_draw(world) % 500 == 0) line->is_stuck = !line->is_stuck;
        send_something(world, line, piece_bytes);
        if (!line->is_stuck) take_something(world, line);
        card_world_step(world);
        if (steps % STEPS_A_CHECK == 0) card_world_expect_sound(world);
        if (steps % 64 != 0) continue;
        left = 0;
        for (unsigned l = 0; l < 2 * LINKS; l++) left += !is_over(&lines[l]);
    }
    uint64_t placed = 0;
    for (unsigned l = 0; l < 2 * LINKS; l++) {
        struct link_view view;
        assert_int_equal(lines[l].rx->ops->peek(lines[l].rx, &view), LINK_EMPTY);
        placed += lines[l].placed;
    }
    assert_true(placed > 0);
    const uint64_t further = card_world_further(world);
    const bool may_be_further = mood.cards > 1 && !mood.last_has_one;
    assert_true(may_be_further ? further > 0 || mood.fabric != NULL : further == 0);
    card_world_expect_sound(world);
    card_world_free(world);
    for (unsigned l = 0; l < 2 * LINKS; l++) {
        free(lines[l].memory);
        free(lines[l].destination);
    }
    return further;
}

/* ------------------------------------------------------------------------------------ as a program */

enum { MESSAGES = 40 };

static struct card_mood mood_of(uint64_t seed)
{
    const unsigned number = (unsigned)seed;
    return (struct card_mood){.is_virtual = true,
                              .packets = 1 + number % 9,
                              .cards = 1 + number % 5 / 3,
                              .rails_bytes = 1,
                              .card = {.offer_bytes = 1,
                                       .piece_bytes = number % 2 == 0 ? 320 : 4032,
                                       .piece_count = 1 + number % 7,
                                       .asked_bytes = number % 4 == 0 ? 0 : 2000,
                                       .landing_bytes = 16384,
                                       .receive_count = 8 + number % 20,
                                       .flight_bytes = number % 3 * (size_t)40000}};
}

static uint64_t seed_played;   /* 0: none */
static int told_fd, caught_fd; /* the real stderr; what assertions say */

/* "seed 12: ..."; the reason is what an assertion said, in one line. */
static void tell(void)
{
    char reason[256] = "";
    if (seed_played == 0) return;
    const ssize_t length = pread(caught_fd, reason, sizeof reason - 1, 0);
    for (ssize_t i = 0; i < length; i++)
        if (reason[i] == '\n') reason[i] = i + 1 < length ? ' ' : '\0';
    dprintf(told_fd, "seed %llu: %s\n", (unsigned long long)seed_played, reason);
    seed_played = 0;
}

static void abort_with_seed(int number)
{
    (void)number;
    tell();
    _exit(1);
}

/* An assertion outside of a test ends the process; cmocka says which one only if it aborts. */
int card_game_main(int argument_count, char **arguments)
{
    struct sim_seeds seeds;
    const struct sigaction action = {.sa_handler = abort_with_seed};
    if (!sim_seeds_parse(argument_count, arguments, &seeds)) return 2;
    told_fd = dup(STDERR_FILENO);
    caught_fd = memfd_create("assertions", MFD_CLOEXEC);
    if (told_fd < 0 || caught_fd < 0 || dup2(caught_fd, STDERR_FILENO) < 0 || atexit(tell) != 0)
        return 2;
    if (setenv("CMOCKA_TEST_ABORT", "1", 1) != 0 || sigaction(SIGABRT, &action, NULL) != 0)
        return 2;
    for (uint64_t i = 0; i < seeds.count; i++) {
        seed_played = seeds.first + i;
        card_game_play(mood_of(seed_played), MESSAGES, seed_played);
    }
    seed_played = 0;
    dup2(told_fd, STDERR_FILENO);
    printf("%llu games from seed %llu held\n", (unsigned long long)seeds.count,
           (unsigned long long)seeds.first);
    return 0;
}
