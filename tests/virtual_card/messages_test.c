/* Point to point over simulated network cards: messages of any size between three ranks come to the
 * rank that receives them, in order and as they were sent.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/worlds/card_world.h"
#include "tests/worlds/message_game.h"

enum { RANKS = 3, BYTES_MAX = 100000, STARTS = 4 };

static void play(struct card_mood mood, uint64_t seed)
{
    struct card_world *world = card_world_create(RANKS, mood, seed);
    const struct link_world links = card_world_links(world);
    struct message_game *game = message_game_create(RANKS);
    message_game_add_any(game, links.random, BYTES_MAX);
    message_game_play(game, &links, STARTS);
    card_world_settle(world);
    card_world_free(world);
}

static void messages_come_over_sockets(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 3; seed++) play((struct card_mood){0}, seed);
}

static void messages_come_in_virtual_time(void **state)
{
    (void)state;
    for (uint64_t seed = 3; seed < 12; seed++)
        play((struct card_mood){.is_virtual = true,
                                .packets = 1 + (unsigned)seed % 8,
                                .card = {.piece_bytes = seed % 2 == 0 ? 640 : 4032,
                                         .piece_count = 1 + (unsigned)seed % 6,
                                         .receive_count = 8 + (unsigned)seed % 9,
                                         .reach_bytes = 1000,
                                         .offer_bytes = 1000}},
             seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_over_sockets),
        cmocka_unit_test(messages_come_in_virtual_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
