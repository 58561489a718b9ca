/* draw_boxes.c - a row of a picture: boxes, the cells in them, captions. See draw.c. */
#include <stdlib.h>
#include <string.h>

#include "studio/plan/draw_state.h"
#include "studio/xml_text.h"

enum { REUSE_MAX = 12 }; /* rows that stand on one another: readers of SVG have limits */
enum { ROUND = 4 };      /* a cell's corners */

/* The look of a cell: its colour, above the bits that do not depend on it. */
enum { LOOK_EMPTY, LOOK_PART = 0, LOOK_COMPLETE = 1, LOOK_BITS = 1 };

static uint32_t look_of(const struct draw_picture *picture, const struct contents_cell *cell)
{
    if (!cell->held) return LOOK_EMPTY;
    return (draw_colour_of(picture, cell->value.chunk_class) + 1) << LOOK_BITS |
           (contents_is_complete(&picture->contents, cell) ? LOOK_COMPLETE : LOOK_PART);
}

static int cell_x(const struct draw_picture *picture, int rank, uint32_t cell)
{
    const int inner = (int)picture->columns * picture->cell_width;
    return draw_box_left(picture, rank) + (picture->box_width - inner) / 2 + 2 +
           (int)(cell % picture->columns) * picture->cell_width;
}

static int cell_y(const struct draw_picture *picture, uint32_t round, uint32_t cell)
{
    return draw_row_top(picture, round) + DRAW_BOX_PAD + 2 +
           (int)(cell / picture->columns) * picture->cell_height;
}

static int compare_marks(const void *left, const void *right)
{
    const struct draw_mark *a = left, *b = right;
    if (a->look != b->look) return a->look < b->look ? -1 : 1;
    if (a->y != b->y) return a->y < b->y ? -1 : 1;
    return a->x < b->x ? -1 : a->x > b->x;
}

enum which { FRESH_CELLS, CHANGED_CELLS, ALL_CELLS, UNWANTED_CELLS };

static void collect_cells(struct draw_picture *picture, uint32_t round, enum which which)
{
    picture->mark_count = 0;
    for (int rank = 0; rank < picture->plan->shape.rank_count; rank++)
        for (uint32_t i = 0; i < picture->contents.cell_count; i++) {
            const struct contents_cell *cell =
                &picture->contents.cells[(uint32_t)rank * picture->contents.cell_count + i];
            if (which == FRESH_CELLS && !cell->fresh) continue;
            if (which == CHANGED_CELLS && !cell->changed) continue;
            if (which == UNWANTED_CELLS &&
                (!cell->held || contents_is_wanted(&picture->contents, rank, i)))
                continue;
            picture->marks[picture->mark_count++] =
                (struct draw_mark){which == UNWANTED_CELLS ? 0 : look_of(picture, cell),
                                   cell_x(picture, rank, i), cell_y(picture, round, i), cell};
        }
    qsort(picture->marks, picture->mark_count, sizeof *picture->marks, compare_marks);
}

/* The end of the run of marks that look like the mark `first`. */
static uint32_t end_of_run(const struct draw_picture *picture, uint32_t first)
{
    uint32_t end = first;
    while (end < picture->mark_count && picture->marks[end].look == picture->marks[first].look)
        end++;
    return end;
}

/* Draws rectangles as one path. Its broad stroke with round joins makes the corners. */
static void draw_rectangles(const struct draw_picture *picture, uint32_t first, uint32_t end,
                            const char *look)
{
    const int width = picture->cell_width - 4 - 2 * ROUND,
              height = picture->cell_height - 4 - 2 * ROUND;
    fprintf(picture->file, "<path class=\"%s\" d=\"", look);
    int x = 0, y = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct draw_mark *mark = &picture->marks[i];
        if (i == first || mark->y != y)
            fprintf(picture->file, "M%d %d", mark->x + ROUND, mark->y + ROUND);
        else
            fprintf(picture->file, "m%d 0", mark->x - x);
        fprintf(picture->file, "h%dv%dh%dz", width, height, -width);
        x = mark->x;
        y = mark->y;
    }
    fputs("\"/>\n", picture->file);
}

static void draw_empty(const struct draw_picture *picture, uint32_t first, uint32_t end)
{
    const int width = picture->cell_width - 6, height = picture->cell_height - 6;
    fputs("<path class=\"e\" d=\"", picture->file);
    for (uint32_t i = first; i < end; i++)
        fprintf(picture->file, "M%d %dh%dv%dh%dz", picture->marks[i].x + 1, picture->marks[i].y + 1,
                width, height, -width);
    fputs("\"/>\n", picture->file);
}

/* Draws the rectangles of the marks, or the edges around those that are fresh. */
static void draw_grounds(const struct draw_picture *picture, bool edges)
{
    for (uint32_t first = 0, end; first < picture->mark_count; first = end) {
        const uint32_t look = picture->marks[first].look, colour = (look >> LOOK_BITS) - 1;
        char name[32];
        end = end_of_run(picture, first);
        if (look == LOOK_EMPTY) {
            draw_empty(picture, first, end);
            continue;
        }
        if (edges)
            snprintf(name, sizeof name, "o f%u", colour);
        else
            snprintf(name, sizeof name, "k %c%u", look & LOOK_COMPLETE ? 'c' : 'p', colour);
        draw_rectangles(picture, first, end, name);
    }
}

static int label_size(const struct draw_picture *picture, const char *label)
{
    const size_t length = strlen(label);
    if (draw_is_barrier(picture)) return 12;
    if (draw_is_small(picture)) return length <= 2 ? 11 : length <= 3 ? 9 : 8;
    return length <= 3 ? 13 : length <= 4 ? 10 : length <= 5 ? 9 : 8;
}

/* Labels of one look and size are a group. In the looks of the marks, the size takes the place of
 * the colour. */
static void draw_labels(struct draw_picture *picture)
{
    const bool strokes = draw_reduces(picture) || draw_is_barrier(picture);
    const int width = picture->cell_width - 4, height = picture->cell_height - 4;
    char label[48];
    for (uint32_t i = 0; i < picture->mark_count; i++) {
        struct draw_mark *mark = &picture->marks[i];
        if (!mark->cell->held) {
            mark->look = 0;
            continue;
        }
        draw_write_label(picture, mark->cell->value, label, sizeof label);
        mark->look =
            (uint32_t)label_size(picture, label) << LOOK_BITS | (mark->look & LOOK_COMPLETE);
    }
    qsort(picture->marks, picture->mark_count, sizeof *picture->marks, compare_marks);
    for (uint32_t first = 0, end; first < picture->mark_count; first = end) {
        const uint32_t look = picture->marks[first].look;
        const int size = (int)(look >> LOOK_BITS);
        end = end_of_run(picture, first);
        if (size == 0) continue;
        fprintf(picture->file, "<g class=\"%s\" font-size=\"%d\">\n",
                look & LOOK_COMPLETE ? "d" : "n", size);
        for (uint32_t i = first; i < end; i++) {
            const struct draw_mark *mark = &picture->marks[i];
            draw_write_label(picture, mark->cell->value, label, sizeof label);
            fprintf(picture->file, "<text x=\"%d\" y=\"%d\">", mark->x + width / 2,
                    mark->y + height / 2 + (size * 36 + 50) / 100 - (strokes ? 2 : 0));
            xml_print_text(label, picture->file);
            fputs("</text>", picture->file);
        }
        fputs("</g>\n", picture->file);
    }
}

static bool is_stroked(const struct draw_picture *picture, const struct contents_cell *cell,
                       bool complete)
{
    return cell->held && contents_is_complete(&picture->contents, cell) == complete;
}

/* Draws a stroke for each rank whose contribution is in, over faint strokes for all ranks. */
static void draw_contributions(const struct draw_picture *picture)
{
    const double width = draw_stroke_width(picture), gap = draw_stroke_gap(picture);
    bool open = false;
    for (uint32_t i = 0; i < picture->mark_count; i++) {
        const struct draw_mark *mark = &picture->marks[i];
        if (!is_stroked(picture, mark->cell, false)) continue;
        fprintf(picture->file, "%sM%d %dh%d", open ? "" : "<path class=\"w\" d=\"", mark->x + 4,
                draw_stroke_y(picture, mark->y), picture->cell_width - 12);
        open = true;
    }
    if (!open) return;
    fputs("\"/><path class=\"v\" d=\"", picture->file);
    for (uint32_t i = 0; i < picture->mark_count; i++) {
        const struct draw_mark *mark = &picture->marks[i];
        if (!is_stroked(picture, mark->cell, false)) continue;
        const uint64_t ranks = mark->cell->value.ranks;
        for (int rank = 0; rank < picture->plan->shape.rank_count; rank++)
            if (ranks >> rank & 1)
                fprintf(picture->file, "M%.5g %dh%.3g", mark->x + 4 + width * rank,
                        draw_stroke_y(picture, mark->y), width - gap);
    }
    fputs("\"/>\n", picture->file);
}

/* Draws white strokes for all ranks on the cells that are complete. */
static void draw_completions(const struct draw_picture *picture)
{
    bool open = false;
    for (uint32_t i = 0; i < picture->mark_count; i++) {
        const struct draw_mark *mark = &picture->marks[i];
        if (!is_stroked(picture, mark->cell, true)) continue;
        fprintf(picture->file, "%sM%d %dh%d", open ? "" : "<path class=\"w c\" d=\"", mark->x + 4,
                draw_stroke_y(picture, mark->y), picture->cell_width - 12);
        open = true;
    }
    if (open) fputs("\"/>\n", picture->file);
}

void draw_define_boxes(const struct draw_picture *picture)
{
    fputs("<defs><g id=\"b\" class=\"b\">\n", picture->file);
    for (int rank = 0; rank < picture->plan->shape.rank_count; rank++)
        fprintf(picture->file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n",
                draw_box_left(picture, rank), draw_row_top(picture, 0), picture->box_width,
                picture->box_height);
    fputs("</g>", picture->file);
    draw_print_markers(picture);
    fputs("</defs>\n", picture->file);
}

/* Writes "send, recv_reduce". */
static void write_caption(const struct draw_picture *picture, int rank, uint32_t round, char *text,
                          size_t size)
{
    const char *kinds[3] = {NULL, NULL, NULL};
    uint32_t counts[3] = {0, 0, 0}, total = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < picture->rounds->result_count; i++) {
        const struct round_result *result = &picture->rounds->results[i];
        if (result->rank != rank || result->round != round) continue;
        const struct rank_plan *rank_plan = picture->plan->ranks[rank];
        const char *kind = plan_step_kind(rank_plan, &rank_plan->steps[result->step]);
        int k = 0;
        while (k < 2 && kinds[k] != NULL && strcmp(kinds[k], kind) != 0) k++;
        kinds[k] = kind;
        counts[k]++;
        total++;
    }
    if (total == 0) return;
    char one[2][40] = {"", ""};
    for (int k = 0; k < 2 && kinds[k] != NULL; k++)
        snprintf(one[k], sizeof one[k], counts[k] > 1 ? "%s \xc3\x97%u" : "%s", kinds[k], counts[k]);
    snprintf(text, size, kinds[1] != NULL ? "%s, %s" : "%s", one[0], one[1]);
    if (kinds[2] != NULL || (int)strlen(text) * 11 / 2 > picture->box_width)
        snprintf(text, size, "%u steps", total);
}

/* Draws the cells of a row: the cells of the row above, and the cells that have changed. */
static void draw_cells(struct draw_picture *picture, uint32_t round)
{
    FILE *file = picture->file;
    const size_t count = (size_t)picture->plan->shape.rank_count * picture->contents.cell_count;
    const bool emptied = picture->plan->shape.collective == COLLECTIVE_ALLTOALL && round == 1;
    const bool whole = round % REUSE_MAX == 0 || emptied;
    collect_cells(picture, round, FRESH_CELLS);
    draw_grounds(picture, true);
    fprintf(file, "<g id=\"r%u\">\n", round);
    if (!whole) fprintf(file, "<use href=\"#r%u\" y=\"%d\"/>\n", round - 1, picture->row_pitch);
    collect_cells(picture, round, whole ? ALL_CELLS : CHANGED_CELLS);
    draw_grounds(picture, false);
    draw_labels(picture);
    if (draw_reduces(picture) || draw_is_barrier(picture)) {
        draw_contributions(picture);
        draw_completions(picture);
    }
    fputs("</g>\n", file);
    for (size_t i = 0; i < count; i++) picture->contents.cells[i].changed = false;
}

void draw_row(struct draw_picture *picture, uint32_t round)
{
    char text[96] = "start";
    if (round > 0) snprintf(text, sizeof text, "round %u", round);
    draw_print_text(picture, 20, draw_row_top(picture, round) + picture->box_height / 2 + 4, "u",
                    text);
    fprintf(picture->file, "<use href=\"#b\" y=\"%d\"/>\n", (int)round * picture->row_pitch);
    draw_cells(picture, round);
    if (round > 0 && round == picture->rounds->round_count) {
        collect_cells(picture, round, UNWANTED_CELLS);
        if (picture->mark_count > 0) draw_rectangles(picture, 0, picture->mark_count, "a");
    }
    fputs("<g class=\"x\">\n", picture->file);
    for (int rank = 0; rank < picture->plan->shape.rank_count; rank++) {
        write_caption(picture, rank, round, text, sizeof text);
        if (text[0] == '\0') continue;
        fprintf(picture->file, "<text x=\"%d\" y=\"%d\">%s</text>\n",
                draw_box_left(picture, rank) + picture->box_width / 2,
                draw_row_top(picture, round) + picture->box_height - 6, text);
    }
    fputs("</g>\n", picture->file);
}
