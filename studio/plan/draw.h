/* draw.h - a plan as a picture: how the chunks move between the ranks, round by round.
 *
 * Ranks stand side by side, time runs downwards. A box shows what a rank holds of every chunk: the
 * best it has seen so far, stored or on its way through. Arrows are messages, coloured like the
 * chunk they carry. An all-to-all shows inputs first and outputs from then on; a barrier shows
 * which ranks are known to have entered.
 */
#ifndef TUTTI_STUDIO_PLAN_DRAW_H
#define TUTTI_STUDIO_PLAN_DRAW_H

#include <stdio.h>

#include "plan/plan.h"
#include "studio/plan/rounds.h"
#include "tutti/tutti.h"

enum { DRAW_RANKS_MAX = 32, DRAW_CELLS_MAX = 256, DRAW_ROUNDS_MAX = 128 };

struct draw_options {
    struct rounds_options rounds; /* of example values, if there are any, the sums are shown */
    const char *title;            /* or NULL: what the plan is */
    const int *host_of; /* the hosts of the ranks, which are framed; NULL: they are not shown. The caller's */
};

/* Writes an SVG. On failure (UNSUPPORTED: too large for a picture; INVALID_ALGORITHM: it comes to a
 * halt; NO_MEMORY) nothing is written and *message says why (static text). options may be NULL: one
 * port, no values. Any thread. */
enum tutti_status plan_draw_svg(const struct plan *plan, const struct draw_options *options,
                                FILE *file, const char **message);

#endif
