/* Many links between two ranks at once: messages of any size, committed and posted, taken in any
 * portions, expected or not, over wires that break: every byte comes once and in order, and a link
 * that is not read holds up no other.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/worlds/tcp_world.h"

enum { LINKS = 6, POSTED_BYTES = 300000, STEPS_MAX = 3000000 };

static const struct {
    int slot, channel;
} places[LINKS] = {{0, 0}, {0, 3}, {5, 1}, {16, 0}, {17, 2}, {17, 3}};

/* One direction of a link; byte i of it has a value of its own. */
struct line {
    unsigned number;
    struct link_tx *tx;
    struct link_rx *rx;
    char *memory; /* the posted memory: the values from the beginning, and again and again */
    char *destination;
    uint64_t sent, received, expected_from;
    size_t expected_bytes;
    uint64_t placed; /* bytes that came where they were expected */
    unsigned messages_left;
    bool is_stuck; /* it leaves messages unread */
};

static unsigned char value_at(const struct line *line, uint64_t i)
{
    i %= POSTED_BYTES;
    return (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16) * 31 + line->number * 101);
}

static void open_line(struct tcp_world *world, struct line *line, unsigned number)
{
    struct transport *const *ranks = tcp_world_transports(world);
    const int from = (int)(number / LINKS), slot = places[number % LINKS].slot,
              channel = places[number % LINKS].channel;
    *line = (struct line){.number = number};
    assert_int_equal(
        ranks[from]->ops->open_tx(ranks[from], slot, channel, 1 - from, 1 << 20, &line->tx),
        TUTTI_OK);
    assert_int_equal(ranks[1 - from]->ops->open_rx(ranks[1 - from], slot, channel, from, &line->rx),
                     TUTTI_OK);
    ranks[0]->signatures[slot] = ranks[1]->signatures[slot] = 1000 + (uint64_t)slot;
    line->memory = malloc(2 * POSTED_BYTES);
    line->destination = malloc(POSTED_BYTES);
    assert_true(line->memory != NULL && line->destination != NULL);
    for (size_t i = 0; i < 2 * POSTED_BYTES; i++) line->memory[i] = (char)value_at(line, i);
}

static size_t draw_bytes(struct tcp_world *world, size_t max)
{
    static const size_t sizes[] = {1, 8, 257, 2000, 100000, POSTED_BYTES};
    const uint64_t kind = tcp_world_draw(world) % 7;
    if (kind == 6) return 0;
    const size_t most = sizes[kind] < max ? sizes[kind] : max;
    return 1 + tcp_world_draw(world) % most;
}

static void send_something(struct tcp_world *world, struct line *line, size_t piece_bytes)
{
    if (line->messages_left == 0) return;
    if (tcp_world_draw(world) % 4 == 0) {
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

static void expect_something(struct tcp_world *world, struct line *line)
{
    if (line->received < line->expected_from + line->expected_bytes) return;
    line->expected_from = line->received;
    line->expected_bytes = 1 + tcp_world_draw(world) % POSTED_BYTES;
    line->rx->ops->advertise(line->rx, line->destination, line->expected_bytes);
}

/* Only whole views are taken if something is to be expected next. */
static bool take_something(struct tcp_world *world, struct line *line)
{
    struct link_view view;
    const enum link_state state = line->rx->ops->peek(line->rx, &view);
    assert_true(state != LINK_FAULT);
    if (state == LINK_EMPTY) return false;
    size_t bytes = view.bytes;
    if (bytes > 0 && tcp_world_draw(world) % 4 == 0) bytes = 1 + tcp_world_draw(world) % bytes;
    const unsigned char *data = view.data;
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != value_at(line, line->received + i))
            fail_msg("link %u: byte %llu is wrong", line->number,
                     (unsigned long long)(line->received + i));
    const char *const expected = line->destination + (line->received - line->expected_from);
    if (line->expected_bytes > 0 && (const char *)view.data == expected) line->placed += bytes;
    line->rx->ops->consume(line->rx, bytes);
    line->received += bytes;
    if (bytes == view.bytes && tcp_world_draw(world) % 4 == 0) expect_something(world, line);
    return true;
}

static bool is_over(const struct line *line)
{
    return line->messages_left == 0 && line->received == line->sent &&
           line->tx->ops->consumed(line->tx);
}

static void play(struct tcp_mood mood, unsigned messages, uint64_t seed)
{
    struct tcp_world *world = tcp_world_create(2, mood, seed);
    struct line lines[2 * LINKS];
    for (unsigned l = 0; l < 2 * LINKS; l++) {
        open_line(world, &lines[l], l);
        lines[l].messages_left = messages;
    }
    unsigned left = 2 * LINKS, steps = 0;
    while (left > 0) {
        if (steps++ == STEPS_MAX) fail_msg("stuck, seed %llu", (unsigned long long)seed);
        struct line *line = &lines[tcp_world_draw(world) % (2 * LINKS)];
        if (tcp_world_draw(world) % 500 == 0) line->is_stuck = !line->is_stuck;
        send_something(world, line, mood.piece_bytes);
        if (!line->is_stuck) take_something(world, line);
        tcp_world_step(world);
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
    if (mood.breaks > 0) {
        print_message("seed %llu: %u breaks in %u steps\n", (unsigned long long)seed,
                      tcp_world_broken(world), steps);
        assert_true(tcp_world_broken(world) > 0);
    }
    if (mood.flips > 0) {
        print_message("seed %llu: %u bits flipped, %llu mended\n", (unsigned long long)seed,
                      tcp_world_flipped(world), (unsigned long long)tcp_world_mended(world));
        assert_true(tcp_world_flipped(world) > 0 && tcp_world_mended(world) > 0);
    }
    tcp_world_free(world);
    for (unsigned l = 0; l < 2 * LINKS; l++) {
        free(lines[l].memory);
        free(lines[l].destination);
    }
}

static void every_byte_comes_over_loopback(void **state)
{
    (void)state;
    play((struct tcp_mood){.streams = 1, .piece_bytes = 65536, .piece_count = 8, .is_plain = true},
         100, 1);
    play((struct tcp_mood){.streams = 3, .piece_bytes = 65536, .piece_count = 8, .is_plain = true},
         100, 2);
}

static void every_byte_comes_over_slow_wires(void **state)
{
    (void)state;
    play((struct tcp_mood){.streams = 1, .piece_bytes = 1024, .piece_count = 1, .gulp = 3000}, 20,
         3);
    play((struct tcp_mood){.streams = 4, .piece_bytes = 4096, .piece_count = 3, .gulp = 9000}, 20,
         4);
}

static void every_byte_comes_once_over_wires_that_break(void **state)
{
    (void)state;
    for (uint64_t seed = 10; seed < 22; seed++)
        play((struct tcp_mood){.streams = 1 + (unsigned)seed % 3,
                               .piece_bytes = seed % 2 != 0 ? 65536 : 2048,
                               .piece_count = 1 + (unsigned)seed % 5,
                               .gulp = seed % 4 == 0 ? 300 : 30000,
                               .breaks = seed % 4 == 0 ? 3000 : 400,
                               .silence = 50},
             60, seed);
}

/* The messages are so few, and pieces so small, that none is under way for longer than from one
 * flip to the next. */
static void every_byte_comes_right_over_wires_that_flip_bits(void **state)
{
    (void)state;
    for (uint64_t seed = 30; seed < 34; seed++)
        play((struct tcp_mood){.streams = 1 + (unsigned)seed % 3,
                               .piece_bytes = 2048,
                               .piece_count = 1 + (unsigned)seed % 5,
                               .gulp = 30000,
                               .breaks = seed % 2 == 0 ? 4000 : 0,
                               .silence = 50,
                               .checks = true,
                               .flips = 1 << 20},
             120, seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_comes_over_loopback),
        cmocka_unit_test(every_byte_comes_over_slow_wires),
        cmocka_unit_test(every_byte_comes_once_over_wires_that_break),
        cmocka_unit_test(every_byte_comes_right_over_wires_that_flip_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
