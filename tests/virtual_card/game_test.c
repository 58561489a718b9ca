/* Many links between two ranks at once over simulated network cards: messages of any size,
 * committed and posted, taken in any portions, expected or not: every byte comes once and in order,
 * and a link that is not read holds up no other.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/worlds/card_game.h"

static void every_byte_comes_over_sockets(void **state)
{
    (void)state;
    card_game_play((struct card_mood){.card = {.offer_bytes = 1}}, 100, 1);
    card_game_play(
        (struct card_mood){.card = {.offer_bytes = 1, .piece_count = 2, .receive_count = 8}}, 100,
        2);
    card_game_play((struct card_mood){.card = {.offer_bytes = 1,
                                               .asked_bytes = 1,
                                               .landing_bytes = 4096,
                                               .flight_bytes = CARD_FLIGHT_ADAPTS}},
                   100, 3);
}

static void every_byte_comes_in_virtual_time(void **state)
{
    (void)state;
    for (uint64_t seed = 10; seed < 40; seed++)
        card_game_play((struct card_mood){.is_virtual = true,
                                          .packets = 1 + (unsigned)seed % 9,
                                          .card = {.offer_bytes = 1,
                                                   .piece_bytes = seed % 2 == 0 ? 320 : 4032,
                                                   .piece_count = 1 + (unsigned)seed % 7,
                                                   .receive_count = 8 + (unsigned)seed % 20,
                                                   .flight_bytes = seed % 3 * 2000}},
                       40, seed);
}

/* Each card is late by itself, and some memory is registered with the first one alone. */
static void every_byte_comes_over_several_cards(void **state)
{
    (void)state;
    card_game_play((struct card_mood){.cards = 2, .rails_bytes = 1, .card = {.offer_bytes = 1}}, 60,
                   1);
    card_game_play((struct card_mood){.cards = 3,
                                      .last_has_one = true,
                                      .rails_bytes = 1,
                                      .card = {.offer_bytes = 1, .asked_bytes = 2000}},
                   60, 2);
    for (uint64_t seed = 50; seed < 80; seed++)
        card_game_play((struct card_mood){.is_virtual = true,
                                          .packets = 1 + (unsigned)seed % 9,
                                          .cards = 2 + (unsigned)seed % 3,
                                          .rails_bytes = seed % 2 == 0 ? 1 : 20000,
                                          .card = {.offer_bytes = 1,
                                                   .asked_bytes = seed % 4 == 0 ? 0 : 2000,
                                                   .landing_bytes = 16384,
                                                   .receive_count = 8 + (unsigned)seed % 20,
                                                   .flight_bytes = seed % 3 * 40000}},
                       40, seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_comes_over_sockets),
        cmocka_unit_test(every_byte_comes_in_virtual_time),
        cmocka_unit_test(every_byte_comes_over_several_cards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
