/* draw_measures.c - sizes and places in a picture. */
#include "studio/plan/draw_state.h"

/* Pixels. */
enum { BOX_WIDTH_MIN = 112, CAPTION = 16 };

void draw_measure(struct draw_picture *picture)
{
    const int rank_count = picture->plan->shape.rank_count;
    const uint32_t count = picture->contents.cell_count;
    uint32_t columns = count <= 5 ? count : 4;
    while (columns * columns < count) columns++;
    const uint32_t lines = (count + columns - 1) / columns;
    columns = (count + lines - 1) / lines; /* lines of the same length, nearly */
    const bool small = lines > 2 || (uint32_t)rank_count * columns > 24;
    picture->columns = columns;
    picture->cell_width = draw_is_barrier(picture) ? 96 : small ? 29 : 40;
    picture->cell_height = small ? 25 : 34;
    picture->box_width = (int)columns * picture->cell_width + 2 * DRAW_BOX_PAD;
    if (picture->box_width < BOX_WIDTH_MIN) picture->box_width = BOX_WIDTH_MIN;
    picture->box_height = (int)lines * picture->cell_height + 2 * DRAW_BOX_PAD + CAPTION - 4;
    int gap = 72 + 6 * rank_count;
    if (gap > 140) gap = 140;
    picture->row_pitch = picture->box_height + gap;
    picture->width = DRAW_GUTTER + rank_count * (picture->box_width + DRAW_BOX_SPACE);
    picture->height = draw_head(picture) + (int)picture->rounds->round_count * picture->row_pitch +
                      picture->box_height + DRAW_FOOT;
}

int draw_stroke_y(const struct draw_picture *picture, int y)
{
    const int height = picture->cell_height - 4;
    return y + height - (draw_is_small(picture) ? 4 : 6);
}

/* Strokes of the ranks stand side by side. A stroke for all of them is a line with dashes. */
double draw_stroke_width(const struct draw_picture *picture)
{
    return (double)(picture->cell_width - 12) / picture->plan->shape.rank_count;
}

double draw_stroke_gap(const struct draw_picture *picture)
{
    return draw_stroke_width(picture) >= 4 ? 1 : 0;
}
