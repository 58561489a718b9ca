/* card_game.h - the game of link_game.h between two ranks over network cards, one or several.
 * Assertions are cmocka's. */
#ifndef TUTTI_TESTS_WORLDS_CARD_GAME_H
#define TUTTI_TESTS_WORLDS_CARD_GAME_H

#include <stdint.h>

#include "tests/worlds/card_world.h"

/* So many messages on each link; some bytes come where they were expected. Returns how many bytes
 * further cards were given: some, if both ranks have several simulated ones; over a fabric it
 * depends on when connections are there, and on which writes are under way together. */
uint64_t card_game_play(struct card_mood mood, unsigned messages, uint64_t seed);

/* [--seeds N] [--seed S]: games in virtual time, from seed S on; exit status 0: all were right. */
int card_game_main(int argument_count, char **arguments);

#endif
