/* link_game.h - many links between two ranks at once: messages of any size, committed and posted,
 * taken in any portions, expected or not. Every byte comes once and in order, and a link that is
 * not read holds up no other. Assertions are cmocka's. */
#ifndef TUTTI_TESTS_WORLDS_LINK_GAME_H
#define TUTTI_TESTS_WORLDS_LINK_GAME_H

#include <stddef.h>

#include "tests/worlds/link_world.h"

struct link_game_rules {
    unsigned messages; /* on each link */
    size_t bytes_max;  /* of a message, and of what is expected */
    unsigned posts;    /* one of so many messages is posted */
    unsigned steps_max;
};

struct link_game; /* opaque: a game that is over */

/* Until all has come and is consumed. The caller frees the game, and before that the world, whose
 * ranks may still expect something in it. */
struct link_game *link_game_play(const struct link_world *world,
                                 const struct link_game_rules *rules);
void link_game_free(struct link_game *game);
/* That it took. */
unsigned link_game_steps(const struct link_game *game);

#endif
