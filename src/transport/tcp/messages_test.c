/* Point to point over TCP links: messages of any size between three ranks, whose wires break, come
 * to their receivers in order and as they were sent.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/worlds/message_game.h"
#include "tests/worlds/tcp_world.h"

enum { RANKS = 3, BYTES_MAX = 300000, STARTS = 4 };

static void play(struct tcp_mood mood, uint64_t seed)
{
    struct tcp_world *world = tcp_world_create(RANKS, mood, seed);
    const struct link_world links = tcp_world_links(world);
    struct message_game *game = message_game_create(RANKS);
    message_game_add_any(game, links.random, BYTES_MAX);
    message_game_play(game, &links, STARTS);
    assert_true((tcp_world_broken(world) > 0) == (mood.breaks > 0));
    tcp_world_free(world);
}

static void messages_come_over_loopback(void **state)
{
    (void)state;
    play((struct tcp_mood){.streams = 2, .piece_bytes = 65536, .piece_count = 8, .is_plain = true},
         1);
}

static void messages_come_over_wires_that_break(void **state)
{
    (void)state;
    for (uint64_t seed = 2; seed < 6; seed++)
        play((struct tcp_mood){.streams = 1 + (unsigned)seed % 2,
                               .piece_bytes = 8192,
                               .piece_count = 4,
                               .gulp = 20000,
                               .breaks = 500,
                               .silence = 30},
             seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_over_loopback),
        cmocka_unit_test(messages_come_over_wires_that_break),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
