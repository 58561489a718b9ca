/* player_page.h - player.html, player.css and player.js as the program carries them: the page of a player (player.h).
 *
 * The page has marks, @STYLE@, @SCRIPT@, @TITLE@ and @PLAN@, where its style, its script, a title and the data of a plan go.
 */
#ifndef TUTTI_STUDIO_PLAN_PLAYER_PAGE_H
#define TUTTI_STUDIO_PLAN_PLAYER_PAGE_H

/* Each ends in a 0. */
extern const char player_page[], player_style[], player_script[];

#endif
