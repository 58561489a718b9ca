/* Many links between two ranks at once: messages of any size, committed and posted, taken in any
 * portions, expected or not, over wires that break: every byte comes once and in order, and a link
 * that is not read holds up no other.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/worlds/link_game.h"
#include "tests/worlds/tcp_world.h"

static void play(struct tcp_mood mood, unsigned messages, uint64_t seed)
{
    const struct link_game_rules rules = {
        .messages = messages, .bytes_max = 300000, .posts = 4, .steps_max = 3000000};
    struct tcp_world *world = tcp_world_create(2, mood, seed);
    const struct link_world links = tcp_world_links(world);
    struct link_game *game = link_game_play(&links, &rules);
    if (mood.breaks > 0) {
        print_message("seed %llu: %u breaks in %u steps\n", (unsigned long long)seed,
                      tcp_world_broken(world), link_game_steps(game));
        assert_true(tcp_world_broken(world) > 0);
    }
    if (mood.flips > 0) {
        print_message("seed %llu: %u bits flipped, %llu mended\n", (unsigned long long)seed,
                      tcp_world_flipped(world), (unsigned long long)tcp_world_mended(world));
        assert_true(tcp_world_flipped(world) > 0 && tcp_world_mended(world) > 0);
    }
    tcp_world_free(world);
    link_game_free(game);
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
