/* draw_state.h - a picture of a plan while it is drawn (draw.c), and the functions that its files
 * share.
 *
 *     draw.c            the sheet: heads, rows from top to bottom, legend
 *     draw_boxes.c      a row: boxes, the cells in them, captions
 *     draw_arrows.c     the messages between two rows
 *     draw_ink.c        colours, the style sheet, texts
 *     draw_measures.c   sizes and places
 *
 * Boxes show the cells of contents.h.
 *
 * One thread. draw.c has all memory; plan, rounds, options and file are the caller's.
 */
#ifndef TUTTI_STUDIO_PLAN_DRAW_STATE_H
#define TUTTI_STUDIO_PLAN_DRAW_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/collective.h"
#include "plan/plan.h"
#include "studio/plan/contents.h"
#include "studio/plan/draw.h"
#include "studio/plan/rounds.h"

/* Pixels. */
enum {
    DRAW_GUTTER = 84, /* left of the boxes */
    DRAW_HEAD = 92,
    DRAW_HOSTS = 28, /* more, where hosts are shown */
    DRAW_FOOT = 58,
    DRAW_BOX_PAD = 8,
    DRAW_BOX_SPACE = 24
};

/* Something at a place; marks of one look are one element. */
struct draw_mark {
    uint32_t look;
    int x, y;
    const struct contents_cell *cell;
};

struct draw_arrow {
    const struct round_message *message;
    int x1, y1, x2, y2;
    bool roomy; /* there is room for a chip beside its tail, which shows what it carries */
};

struct draw_picture {
    const struct plan *plan;
    const struct rounds *rounds;
    const struct draw_options *options;
    FILE *file;
    struct contents contents; /* a cell is changed until it is drawn */
    uint32_t columns;         /* of cells, in a box */
    int cell_width, cell_height, box_width, box_height, row_pitch, width, height;
    uint32_t *leaving, *arriving; /* messages of each rank in the round being drawn */
    struct draw_mark *marks;      /* of a row; as many as there are cells */
    uint32_t mark_count;
    struct draw_arrow *arrows; /* of a round; as many as there are messages */
};

static inline bool draw_reduces(const struct draw_picture *picture)
{
    return collective_reduces(picture->plan->shape.collective);
}

static inline bool draw_is_barrier(const struct draw_picture *picture)
{
    return picture->plan->shape.collective == COLLECTIVE_BARRIER;
}

static inline bool draw_is_small(const struct draw_picture *picture)
{
    return picture->cell_height < 30;
}

static inline int draw_box_left(const struct draw_picture *picture, int rank)
{
    return DRAW_GUTTER + rank * (picture->box_width + DRAW_BOX_SPACE);
}

/* Where the boxes begin. */
static inline int draw_head(const struct draw_picture *picture)
{
    return DRAW_HEAD + (picture->options->host_of != NULL ? DRAW_HOSTS : 0);
}

static inline int draw_row_top(const struct draw_picture *picture, uint32_t round)
{
    return draw_head(picture) + (int)round * picture->row_pitch;
}

/* draw_measures.c */

/* Fills in sizes, from the contents and the rounds. */
void draw_measure(struct draw_picture *picture);
/* The strokes in a cell, one for each rank: how high they lie in a cell at y; their width; the gap
 * between two of them. */
int draw_stroke_y(const struct draw_picture *picture, int y);
double draw_stroke_width(const struct draw_picture *picture);
double draw_stroke_gap(const struct draw_picture *picture);

/* draw_ink.c */

/* The colour of a chunk: a number from 0 on, as classes of the style sheet have it. */
uint32_t draw_colour_of(const struct draw_picture *picture, uint32_t chunk_class);
void draw_print_style(const struct draw_picture *picture);
/* The heads of arrows, for <defs>. */
void draw_print_markers(const struct draw_picture *picture);
void draw_print_text(const struct draw_picture *picture, int x, int y, const char *look,
                     const char *text);
/* The text that stands for a value, in a cell or in a chip. */
void draw_write_label(const struct draw_picture *picture, struct round_value value, char *text,
                      size_t size);

/* draw_boxes.c */

/* Defines what all rows use: the boxes, and the heads of arrows. */
void draw_define_boxes(const struct draw_picture *picture);
void draw_row(struct draw_picture *picture, uint32_t round);

/* draw_arrows.c. The messages of a round, above its row. */
void draw_messages(const struct draw_picture *picture, uint32_t round);

#endif
