/* message_game.h - point to point between ranks in one thread, over whatever transport: messages
 * come to their receivers in order and as they were sent. A game is made of what each rank sends
 * and receives, one after the other. Assertions are cmocka's. */
#ifndef TUTTI_TESTS_WORLDS_MESSAGE_GAME_H
#define TUTTI_TESTS_WORLDS_MESSAGE_GAME_H

#include <stddef.h>
#include <stdint.h>

#include "tests/worlds/link_world.h"

enum { MESSAGE_GAME_RANKS_MAX = 8, MESSAGE_GAME_TAGS = 3 /* 0 to 2 */ };

struct message_game; /* opaque */

struct message_game *message_game_create(int size);
void message_game_send(struct message_game *game, int rank, int to, int tag, size_t bytes);
void message_game_receive(struct message_game *game, int rank, int from, int tag, size_t bytes);
/* Messages from each rank to any others, of sizes up to bytes_max, with the tags in turn. */
void message_game_add_any(struct message_game *game, uint64_t *random, size_t bytes_max);

/* A rank starts something in one of so many steps; 0: all of it before the first one. Frees the
 * game. */
void message_game_play(struct message_game *game, const struct link_world *world, unsigned starts);

#endif
