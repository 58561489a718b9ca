/* player_page.h - player.html, player.css and player.js as the program carries them
 * (base/embedded.h): the page of a player (player.h).
 *
 * The page has marks for page_write: style, script, title, and plan, the data of the plan.
 */
#ifndef TUTTI_STUDIO_PLAN_PLAYER_PAGE_H
#define TUTTI_STUDIO_PLAN_PLAYER_PAGE_H

/* Each ends in a 0. */
extern const char player_html[], player_css[], player_js[];

#endif
