/* draw.c - the sheet is drawn row by row.  A row is the one above, used again, and the cells that have changed; cells
 * that look the same are one path, and colours are classes of a style sheet.  So pictures stay small, and there
 * are two sets of colours: readers in dark mode get the second.  The ground is the picture's own, so that both
 * can be read on any page.
 */
#include "studio/plan/draw.h"

#include <stdlib.h>
#include <string.h>

#include "studio/plan/rounds.h"
#include "studio/xml_text.h"

/* Pixels. */
enum {
    GUTTER = 84,
    BOX_PAD = 8,
    BOX_WIDTH_MIN = 112,
    BOX_SPACE = 24,
    CAPTION = 16,
    HEAD = 92,
    FOOT = 58,
    CHIP_WIDTH = 30,
    CHIP_HEIGHT = 17,
    FINGER = 12, /* the straight end of an arrow */
    ROUND = 4    /* a cell's corners */
};

enum { REUSE_MAX = 12 }; /* rows that stand on one another: readers of SVG have limits */

enum { GREY = UINT16_MAX }; /* the colour of what carries several chunks, or none */

struct cell {
    bool held;
    bool fresh;   /* has changed in this round */
    bool changed; /* since it was drawn */
    struct round_value value;
};

/* Something at a place; marks of one look are one element. */
struct mark {
    uint32_t look;
    int x, y;
    const struct cell *cell;
};

struct arrow {
    const struct round_message *message;
    int x1, y1, x2, y2;
    bool roomy; /* there is room for what it carries beside its tail */
};

struct picture {
    const struct plan *plan;
    const struct rounds *rounds;
    const struct draw_options *options;
    FILE *file;
    struct cell *cells; /* rank after rank */
    uint32_t cell_count, columns;
    int cell_width, cell_height, box_width, box_height, row_pitch, width, height;
    uint32_t *leaving, *arriving; /* messages of each rank in the round being drawn */
    struct mark *marks;           /* of a row; as many as there are cells */
    uint32_t mark_count;
    struct arrow *arrows; /* of a round; as many as there are messages */
};

/* --------------------------------------------------------------------------------------------- what is where */

static bool reduces(const struct picture *picture)
{
    return collective_reduces(picture->plan->shape.collective);
}

static bool is_barrier(const struct picture *picture)
{
    return picture->plan->shape.collective == COLLECTIVE_BARRIER;
}

static uint32_t count_cells(const struct plan_shape *shape)
{
    switch (shape->collective) {
    case COLLECTIVE_BARRIER: return 1;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST: return shape->parts;
    default: return (uint32_t)shape->rank_count * shape->parts;
    }
}

/* The cell in a rank's box that shows a class; false if the class only passes through. Classes are
 * cells, except that an all-to-all has one cell for each output chunk. */
static bool cell_of_class(const struct plan_shape *shape, int rank, uint32_t chunk_class,
                          uint32_t *cell)
{
    *cell = chunk_class;
    if (shape->collective != COLLECTIVE_ALLTOALL) return true;
    const uint32_t all = (uint32_t)shape->rank_count, block = chunk_class / shape->parts;
    *cell = block / all * shape->parts + chunk_class % shape->parts;
    return block % all == (uint32_t)rank;
}

static uint64_t everybody(const struct picture *picture)
{
    return UINT64_MAX >> (64 - picture->plan->shape.rank_count);
}

static bool is_complete(const struct picture *picture, const struct cell *cell)
{
    const bool gathers = reduces(picture) || is_barrier(picture);
    return cell->held && (!gathers || cell->value.ranks == everybody(picture));
}

/* Whether the collective promises this cell to this rank in the end. */
static bool is_wanted(const struct picture *picture, int rank, uint32_t cell)
{
    const struct plan_shape *shape = &picture->plan->shape;
    const uint32_t count = plan_chunk_count(shape, rank, PLAN_OUTPUT);
    if (is_barrier(picture) || shape->collective == COLLECTIVE_ALLTOALL) return true;
    for (uint32_t i = 0; i < count; i++)
        if (plan_chunk_class(shape, rank, PLAN_OUTPUT, i) == cell) return true;
    return false;
}

/* Only what has come nearer to the result is shown: a message put aside does not hide the rank's own. */
static void show_value(struct picture *picture, int rank, struct round_value value)
{
    uint32_t index;
    if (value.ranks == 0) return;
    if (!cell_of_class(&picture->plan->shape, rank, value.chunk_class, &index)) return;
    struct cell *cell = &picture->cells[(uint32_t)rank * picture->cell_count + index];
    if (cell->held && (cell->value.ranks & ~value.ranks) != 0) return;
    cell->fresh |= !cell->held || cell->value.ranks != value.ranks;
    cell->changed |= cell->fresh;
    cell->held = true;
    cell->value = value;
}

static void show_inputs(struct picture *picture)
{
    const struct plan_shape *shape = &picture->plan->shape;
    for (int rank = 0; rank < shape->rank_count; rank++) {
        struct cell *cells = picture->cells + (uint32_t)rank * picture->cell_count;
        if (is_barrier(picture))
            show_value(picture, rank, (struct round_value){.ranks = UINT64_C(1) << rank});
        const uint32_t count = plan_chunk_count(shape, rank, PLAN_INPUT);
        for (uint32_t i = 0; i < count; i++) {
            const struct round_value value =
                rounds_input(picture->plan, rank, i, picture->options->example_values,
                             picture->options->value_count);
            const bool alltoall = shape->collective == COLLECTIVE_ALLTOALL;
            cells[alltoall ? i : value.chunk_class] = (struct cell){true, false, true, value};
        }
    }
}

/* Shows the results of a round. The results of round 0 are what the ranks had anyway. */
static void show_round(struct picture *picture, uint32_t round)
{
    const size_t count = (size_t)picture->plan->shape.rank_count * picture->cell_count;
    for (size_t i = 0; i < count; i++) picture->cells[i].fresh = false;
    for (uint32_t i = 0; i < picture->rounds->result_count; i++) {
        const struct round_result *result = &picture->rounds->results[i];
        if (result->round != round) continue;
        for (uint32_t k = 0; k < result->value_count; k++)
            show_value(picture, result->rank, picture->rounds->values[result->first_value + k]);
    }
}

/* ---------------------------------------------------------------------------------------------- measures */

static void measure(struct picture *picture)
{
    const int rank_count = picture->plan->shape.rank_count;
    const uint32_t count = picture->cell_count;
    uint32_t columns = count <= 5 ? count : 4;
    while (columns * columns < count) columns++;
    const uint32_t lines = (count + columns - 1) / columns;
    columns = (count + lines - 1) / lines; /* lines of the same length, nearly */
    const bool small = lines > 2 || (uint32_t)rank_count * columns > 24;
    picture->columns = columns;
    picture->cell_width = is_barrier(picture) ? 96 : small ? 29 : 40;
    picture->cell_height = small ? 25 : 34;
    picture->box_width = (int)columns * picture->cell_width + 2 * BOX_PAD;
    if (picture->box_width < BOX_WIDTH_MIN) picture->box_width = BOX_WIDTH_MIN;
    picture->box_height = (int)lines * picture->cell_height + 2 * BOX_PAD + CAPTION - 4;
    int gap = 72 + 6 * rank_count;
    if (gap > 140) gap = 140;
    picture->row_pitch = picture->box_height + gap;
    picture->width = GUTTER + rank_count * (picture->box_width + BOX_SPACE);
    picture->height =
        HEAD + (int)picture->rounds->round_count * picture->row_pitch + picture->box_height + FOOT;
}

static bool is_small(const struct picture *picture)
{
    return picture->cell_height < 30;
}

static int stroke_y(const struct picture *picture, int y)
{
    const int height = picture->cell_height - 4;
    return y + height - (is_small(picture) ? 4 : 6);
}

/* Strokes of the ranks stand side by side; the gaps between them are dashes where they are of the whole length. */
static double stroke_width(const struct picture *picture)
{
    return (double)(picture->cell_width - 12) / picture->plan->shape.rank_count;
}

static double stroke_gap(const struct picture *picture)
{
    return stroke_width(picture) >= 4 ? 1 : 0;
}

static int box_left(const struct picture *picture, int rank)
{
    return GUTTER + rank * (picture->box_width + BOX_SPACE);
}

static int row_top(const struct picture *picture, uint32_t round)
{
    return HEAD + (int)round * picture->row_pitch;
}

/* --------------------------------------------------------------------------------------------- ink */

static uint32_t colour_count(const struct picture *picture)
{
    const struct plan_shape *shape = &picture->plan->shape;
    if (is_barrier(picture)) return 1;
    return shape->collective == COLLECTIVE_ALLTOALL ? (uint32_t)shape->rank_count
                                                    : picture->cell_count;
}

/* The colour of a chunk. A chunk of an all-to-all has the colour of the rank from which it
 * comes. */
static uint32_t colour_of(const struct picture *picture, uint32_t chunk_class)
{
    const struct plan_shape *shape = &picture->plan->shape;
    if (shape->collective != COLLECTIVE_ALLTOALL) return chunk_class;
    return chunk_class / shape->parts / (uint32_t)shape->rank_count;
}

/* Hues that stay apart for people who see few colours, then as many as needed. */
static int hue_of(uint32_t colour, uint32_t count)
{
    static const int hues[] = {212, 28, 152, 330, 48, 265, 185, 0};
    return count <= 8 ? hues[colour] : (int)((uint64_t)colour * 360 / count);
}

/* Written as rgb: not every reader of SVG knows hsl. */
static void print_rgb(FILE *file, int hue, int lightness)
{
    const double saturation = 0.62, light = lightness / 100.0;
    const double spread = saturation * (light < 0.5 ? light : 1 - light);
    int rgb[3];
    for (int i = 0; i < 3; i++) {
        static const int offsets[] = {0, 8, 4};
        double k = offsets[i] + hue / 30.0;
        if (k >= 12) k -= 12;
        double t = k - 3 < 9 - k ? k - 3 : 9 - k;
        t = t > 1 ? 1 : t < -1 ? -1 : t;
        rgb[i] = (int)((light - spread * t) * 255 + 0.5);
    }
    fprintf(file, "#%02x%02x%02x", (unsigned)rgb[0], (unsigned)rgb[1], (unsigned)rgb[2]);
}

/* Lightness of a colour's looks: p in part, c complete (white letters are on it), f the edge of what is fresh. */
struct shades {
    int part, complete, fresh;
};

/* Classes pK, cK, fK, and lK for the line of an arrow, of every colour K. */
static void print_colours(const struct picture *picture, struct shades shades)
{
    FILE *file = picture->file;
    const uint32_t count = colour_count(picture);
    for (uint32_t i = 0; i < count; i++) {
        const int hue = hue_of(i, count);
        const bool luminous = hue > 40 && hue < 200; /* yellow to cyan look lighter than they are */
        fprintf(file, ".p%u{fill:", i);
        print_rgb(file, hue, shades.part);
        fputs(";stroke:", file);
        print_rgb(file, hue, shades.part);
        fprintf(file, "}.c%u{fill:", i);
        print_rgb(file, hue, shades.complete - (luminous ? 8 : 0));
        fprintf(file, "}.c%u,.l%u{stroke:", i, i);
        print_rgb(file, hue, shades.complete - (luminous ? 8 : 0));
        fprintf(file, "}.f%u{fill:", i);
        print_rgb(file, hue, shades.fresh);
        fputs(";stroke:", file);
        print_rgb(file, hue, shades.fresh);
        fputs("}\n", file);
    }
}

/* t title, u what is written beside, r ranks, n and d names in light and dark cells, s and small z in chips; g ground,
 * b box, e empty cell, a veil over what is not wanted, h halo of an arrow, i inside of a chip; k cells, o their
 * edges, l lines, q chips; v strokes of the ranks that a chunk has gone through, w of all ranks. */
static void print_style(const struct picture *picture)
{
    FILE *file = picture->file;
    const int stroke = is_small(picture) ? 2 : 3;
    fputs(
        "<style>text{text-anchor:middle;font-weight:600}.t{font-size:19px}.t,.u{text-anchor:start}"
        ".u,.x text{font-weight:400;font-size:12px}.x text{font-size:9px}.r{font-size:13px}"
        ".s{font-weight:400;font-size:10px}.z{font-size:8px}\n"
        ".k,.a{stroke-width:8}.o{stroke-width:11}.k,.o,.a{stroke-linejoin:round}"
        ".l,.h,.q,.i,.v,.w{fill:none}.l{stroke-width:1.8}.h{stroke-width:5}"
        ".q,.i{stroke-linecap:round;stroke-width:17}.i{stroke-width:15}.j{stroke-width:6}",
        file);
    fprintf(file, ".v,.w{stroke-width:%d}", stroke);
    if (stroke_gap(picture) > 0)
        fprintf(file, ".w{stroke-dasharray:%.3g 1}\n", stroke_width(picture) - 1);
    fputs(
        ".g,.i,.e{fill:#fff}.h,.i{stroke:#fff}.i{fill:none}.b{fill:#f8fafc;stroke:#e2e8f0}"
        ".e{stroke:#cbd5e1;stroke-dasharray:2.5}.t,.n,.s{fill:#0f172a}.u,.x{fill:#64748b}"
        ".r{fill:#334155}.d{fill:#fff}.v{stroke:#334155}.a{fill:#f8fafc;stroke:#f8fafc;opacity:.7}"
        ".w{stroke:#fff;stroke-opacity:.7}.w.c{stroke-opacity:1}.cg{fill:#64748b}.cg,.lg{stroke:#"
        "64748b}"
        ".lg{marker-end:url(#mg)}"
        ".pg{fill:#dbe4ef;stroke:#dbe4ef}\n",
        file);
    print_colours(picture, (struct shades){84, 43, 26});
    fputs("@media(prefers-color-scheme:dark){.g,.e{fill:#0d1117}.h,.i{stroke:#0d1117}"
          ".b{fill:#161b22;stroke:#30363d}.e{stroke:#3d444d}.t,.n,.s,.r{fill:#e6edf3}"
          ".u,.x{fill:#9198a1}.v{stroke:#e6edf3}.w{stroke-opacity:.25}.a{fill:#161b22;stroke:#"
          "161b22}.cg{fill:#9198a1}"
          ".cg,.lg{stroke:#9198a1}.pg{fill:#2b323b;stroke:#2b323b}\n",
          file);
    print_colours(picture, (struct shades){24, 48, 78});
    fputs("}\n", file);
    for (uint32_t i = 0; i < colour_count(picture); i++)
        fprintf(file, ".l%u{marker-end:url(#m%u)}", i, i);
    fputs(".q,.j{marker-end:none}</style>\n", file);
}

/* The heads of arrows: a marker has no colour of its line's. */
static void print_markers(const struct picture *picture)
{
    const uint32_t count = colour_count(picture);
    for (uint32_t i = 0; i <= count; i++) {
        char name[12] = "g";
        if (i < count) snprintf(name, sizeof name, "%u", i);
        fprintf(picture->file,
                "<marker id=\"m%s\" markerUnits=\"userSpaceOnUse\" markerWidth=\"11\" "
                "markerHeight=\"10\" refX=\"2\" refY=\"5\" orient=\"auto\">"
                "<path class=\"c%s\" stroke-width=\".5\" d=\"M1 .8v8.4l8-4.2z\"/></marker>\n",
                name, name);
    }
}

static void print_text(const struct picture *picture, int x, int y, const char *look,
                       const char *text)
{
    fprintf(picture->file, "<text class=\"%s\" x=\"%d\" y=\"%d\">", look, x, y);
    xml_print_text(text, picture->file);
    fprintf(picture->file, "</text>\n");
}

/* "0+2", or "4/8" where that would be long. */
static void write_ranks(uint64_t ranks, int rank_count, size_t length_max, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int rank = 0; rank < rank_count && used <= length_max && used < size; rank++)
        if (ranks >> rank & 1)
            used += (size_t)snprintf(text + used, size - used, used > 0 ? "+%d" : "%d", rank);
    if (used > length_max) snprintf(text, size, "%d/%d", __builtin_popcountll(ranks), rank_count);
}

static void write_label(const struct picture *picture, struct round_value value, char *text,
                        size_t size)
{
    const struct plan_shape *shape = &picture->plan->shape;
    const uint32_t block = value.chunk_class / shape->parts,
                   part = value.chunk_class % shape->parts, all = (uint32_t)shape->rank_count;
    if (picture->options->example_values != NULL && !is_barrier(picture))
        snprintf(text, size, "%.6g", value.number);
    else if ((reduces(picture) || is_barrier(picture)) && value.ranks == everybody(picture))
        snprintf(text, size, "all");
    else if (reduces(picture) || is_barrier(picture))
        write_ranks(value.ranks, shape->rank_count, is_small(picture) ? 3 : 5, text, size);
    else if (shape->collective == COLLECTIVE_ALLTOALL)
        snprintf(text, size, "%u\xe2\x80\xba%u", block / all, block % all);
    else if (shape->collective == COLLECTIVE_BROADCAST || shape->parts == 1)
        snprintf(text, size, "%u", value.chunk_class);
    else
        snprintf(text, size, "%u.%u", block, part);
}

/* ------------------------------------------------------------------------------------------------ boxes */

/* Looks of cells: the colour above what can be said without it. */
enum { LOOK_EMPTY, LOOK_PART = 0, LOOK_COMPLETE = 1, LOOK_BITS = 1 };

static uint32_t look_of(const struct picture *picture, const struct cell *cell)
{
    if (!cell->held) return LOOK_EMPTY;
    return (colour_of(picture, cell->value.chunk_class) + 1) << LOOK_BITS |
           (is_complete(picture, cell) ? LOOK_COMPLETE : LOOK_PART);
}

static int cell_x(const struct picture *picture, int rank, uint32_t cell)
{
    const int inner = (int)picture->columns * picture->cell_width;
    return box_left(picture, rank) + (picture->box_width - inner) / 2 + 2 +
           (int)(cell % picture->columns) * picture->cell_width;
}

static int cell_y(const struct picture *picture, uint32_t round, uint32_t cell)
{
    return row_top(picture, round) + BOX_PAD + 2 +
           (int)(cell / picture->columns) * picture->cell_height;
}

static int compare_marks(const void *left, const void *right)
{
    const struct mark *a = left, *b = right;
    if (a->look != b->look) return a->look < b->look ? -1 : 1;
    if (a->y != b->y) return a->y < b->y ? -1 : 1;
    return a->x < b->x ? -1 : a->x > b->x;
}

enum which { FRESH_CELLS, CHANGED_CELLS, ALL_CELLS, UNWANTED_CELLS };

static void collect_cells(struct picture *picture, uint32_t round, enum which which)
{
    picture->mark_count = 0;
    for (int rank = 0; rank < picture->plan->shape.rank_count; rank++)
        for (uint32_t i = 0; i < picture->cell_count; i++) {
            const struct cell *cell = &picture->cells[(uint32_t)rank * picture->cell_count + i];
            if (which == FRESH_CELLS && !cell->fresh) continue;
            if (which == CHANGED_CELLS && !cell->changed) continue;
            if (which == UNWANTED_CELLS && (!cell->held || is_wanted(picture, rank, i))) continue;
            picture->marks[picture->mark_count++] =
                (struct mark){which == UNWANTED_CELLS ? 0 : look_of(picture, cell),
                              cell_x(picture, rank, i), cell_y(picture, round, i), cell};
        }
    qsort(picture->marks, picture->mark_count, sizeof *picture->marks, compare_marks);
}

/* The end of the run of marks that look like the mark `first`. */
static uint32_t end_of_run(const struct picture *picture, uint32_t first)
{
    uint32_t end = first;
    while (end < picture->mark_count && picture->marks[end].look == picture->marks[first].look)
        end++;
    return end;
}

/* Rectangles as one path; its broad stroke with round joins makes the corners. */
static void draw_rectangles(const struct picture *picture, uint32_t first, uint32_t end,
                            const char *look)
{
    const int width = picture->cell_width - 4 - 2 * ROUND,
              height = picture->cell_height - 4 - 2 * ROUND;
    fprintf(picture->file, "<path class=\"%s\" d=\"", look);
    int x = 0, y = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct mark *mark = &picture->marks[i];
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

static void draw_empty(const struct picture *picture, uint32_t first, uint32_t end)
{
    const int width = picture->cell_width - 6, height = picture->cell_height - 6;
    fputs("<path class=\"e\" d=\"", picture->file);
    for (uint32_t i = first; i < end; i++)
        fprintf(picture->file, "M%d %dh%dv%dh%dz", picture->marks[i].x + 1, picture->marks[i].y + 1,
                width, height, -width);
    fputs("\"/>\n", picture->file);
}

/* The rectangles of the marks; around them where they are fresh. */
static void draw_grounds(const struct picture *picture, bool edges)
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

static int label_size(const struct picture *picture, const char *label)
{
    const size_t length = strlen(label);
    if (is_barrier(picture)) return 12;
    if (is_small(picture)) return length <= 2 ? 11 : length <= 3 ? 9 : 8;
    return length <= 3 ? 13 : length <= 4 ? 10 : length <= 5 ? 9 : 8;
}

/* Labels of one look and size are a group: for the marks, the size takes the place of the colour. */
static void draw_labels(struct picture *picture)
{
    const bool strokes = reduces(picture) || is_barrier(picture);
    const int width = picture->cell_width - 4, height = picture->cell_height - 4;
    char label[48];
    for (uint32_t i = 0; i < picture->mark_count; i++) {
        struct mark *mark = &picture->marks[i];
        if (!mark->cell->held) {
            mark->look = 0;
            continue;
        }
        write_label(picture, mark->cell->value, label, sizeof label);
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
            const struct mark *mark = &picture->marks[i];
            write_label(picture, mark->cell->value, label, sizeof label);
            fprintf(picture->file, "<text x=\"%d\" y=\"%d\">", mark->x + width / 2,
                    mark->y + height / 2 + (size * 36 + 50) / 100 - (strokes ? 2 : 0));
            xml_print_text(label, picture->file);
            fputs("</text>", picture->file);
        }
        fputs("</g>\n", picture->file);
    }
}

static bool is_stroked(const struct picture *picture, const struct cell *cell, bool complete)
{
    return cell->held && is_complete(picture, cell) == complete;
}

/* Draws a stroke for each rank whose contribution is in, over faint strokes for all ranks. */
static void draw_contributions(const struct picture *picture)
{
    const double width = stroke_width(picture), gap = stroke_gap(picture);
    bool open = false;
    for (uint32_t i = 0; i < picture->mark_count; i++) {
        const struct mark *mark = &picture->marks[i];
        if (!is_stroked(picture, mark->cell, false)) continue;
        fprintf(picture->file, "%sM%d %dh%d", open ? "" : "<path class=\"w\" d=\"", mark->x + 4,
                stroke_y(picture, mark->y), picture->cell_width - 12);
        open = true;
    }
    if (!open) return;
    fputs("\"/><path class=\"v\" d=\"", picture->file);
    for (uint32_t i = 0; i < picture->mark_count; i++) {
        const struct mark *mark = &picture->marks[i];
        if (!is_stroked(picture, mark->cell, false)) continue;
        const uint64_t ranks = mark->cell->value.ranks;
        for (int rank = 0; rank < picture->plan->shape.rank_count; rank++)
            if (ranks >> rank & 1)
                fprintf(picture->file, "M%.5g %dh%.3g", mark->x + 4 + width * rank,
                        stroke_y(picture, mark->y), width - gap);
    }
    fputs("\"/>\n", picture->file);
}

/* White strokes for all ranks, on what is complete. */
static void draw_completions(const struct picture *picture)
{
    bool open = false;
    for (uint32_t i = 0; i < picture->mark_count; i++) {
        const struct mark *mark = &picture->marks[i];
        if (!is_stroked(picture, mark->cell, true)) continue;
        fprintf(picture->file, "%sM%d %dh%d", open ? "" : "<path class=\"w c\" d=\"", mark->x + 4,
                stroke_y(picture, mark->y), picture->cell_width - 12);
        open = true;
    }
    if (open) fputs("\"/>\n", picture->file);
}

static void define_boxes(const struct picture *picture)
{
    fputs("<defs><g id=\"b\" class=\"b\">\n", picture->file);
    for (int rank = 0; rank < picture->plan->shape.rank_count; rank++)
        fprintf(picture->file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n",
                box_left(picture, rank), row_top(picture, 0), picture->box_width,
                picture->box_height);
    fputs("</g>", picture->file);
    print_markers(picture);
    fputs("</defs>\n", picture->file);
}

/* "send, recv_reduce" */
static void write_caption(const struct picture *picture, int rank, uint32_t round, char *text,
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
static void draw_cells(struct picture *picture, uint32_t round)
{
    FILE *file = picture->file;
    const size_t count = (size_t)picture->plan->shape.rank_count * picture->cell_count;
    const bool emptied = picture->plan->shape.collective == COLLECTIVE_ALLTOALL && round == 1;
    const bool whole = round % REUSE_MAX == 0 || emptied;
    collect_cells(picture, round, FRESH_CELLS);
    draw_grounds(picture, true);
    fprintf(file, "<g id=\"r%u\">\n", round);
    if (!whole) fprintf(file, "<use href=\"#r%u\" y=\"%d\"/>\n", round - 1, picture->row_pitch);
    collect_cells(picture, round, whole ? ALL_CELLS : CHANGED_CELLS);
    draw_grounds(picture, false);
    draw_labels(picture);
    if (reduces(picture) || is_barrier(picture)) {
        draw_contributions(picture);
        draw_completions(picture);
    }
    fputs("</g>\n", file);
    for (size_t i = 0; i < count; i++) picture->cells[i].changed = false;
}

static void draw_row(struct picture *picture, uint32_t round)
{
    char text[96] = "start";
    if (round > 0) snprintf(text, sizeof text, "round %u", round);
    print_text(picture, 20, row_top(picture, round) + picture->box_height / 2 + 4, "u", text);
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
                box_left(picture, rank) + picture->box_width / 2,
                row_top(picture, round) + picture->box_height - 6, text);
    }
    fputs("</g>\n", picture->file);
}

/* ----------------------------------------------------------------------------------------------- arrows */

/* Arrows leave and arrive side by side, in the order of where they go, so that they cross little. */
static uint32_t place_among(const struct picture *picture, const struct round_message *message,
                            bool leaving)
{
    uint32_t place = 0;
    const struct round_message *messages = picture->rounds->messages;
    for (uint32_t i = 0; i < picture->rounds->message_count; i++) {
        const struct round_message *other = &messages[i];
        if (other->round != message->round || other == message) continue;
        const bool shares = leaving ? other->from == message->from : other->to == message->to;
        const int its_end = leaving ? other->to : other->from;
        const int end = leaving ? message->to : message->from;
        if (shares && (its_end < end || (its_end == end && other < message))) place++;
    }
    return place;
}

static struct arrow make_arrow(const struct picture *picture, const struct round_message *message)
{
    const uint32_t leaving = picture->leaving[message->from],
                   arriving = picture->arriving[message->to];
    const int tail = picture->box_width / ((int)leaving + 1);
    const int head = picture->box_width / ((int)arriving + 1);
    return (struct arrow){.message = message,
                          .x1 = box_left(picture, message->from) +
                                tail * (1 + (int)place_among(picture, message, true)),
                          .y1 = row_top(picture, message->round - 1) + picture->box_height,
                          .x2 = box_left(picture, message->to) +
                                head * (1 + (int)place_among(picture, message, false)),
                          .y2 = row_top(picture, message->round) - 2,
                          .roomy = tail >= CHIP_WIDTH + 4};
}

static uint32_t message_colour(const struct picture *picture, const struct round_message *message)
{
    const struct round_value *values = picture->rounds->values + message->first_value;
    if (message->value_count != 1 || is_barrier(picture)) return GREY;
    return colour_of(picture, values->chunk_class);
}

/* "c3", or "cg" for grey. */
static void write_class(char kind, uint32_t colour, char *text, size_t size)
{
    if (colour == GREY)
        snprintf(text, size, "%cg", kind);
    else
        snprintf(text, size, "%c%u", kind, colour);
}

static void draw_arrow(const struct picture *picture, const struct arrow *arrow)
{
    FILE *file = picture->file;
    const int end = arrow->y2 - 8, bend = FINGER + (end - arrow->y1) * 3 / 10;
    char path[160], look[16];
    const int across = arrow->x2 - arrow->x1, down = end - FINGER - arrow->y1;
    snprintf(path, sizeof path, "M%d %dv%dc0 %d %d %d %d %dv%d", arrow->x1, arrow->y1, FINGER,
             bend - FINGER, across, down - bend, across, down - FINGER, FINGER);
    write_class('l', message_colour(picture, arrow->message), look, sizeof look);
    fprintf(file, "<path class=\"h\" d=\"%s\"/>", path);
    fprintf(file, "<path class=\"l %s\" d=\"%s\"/>\n", look, path);
}

/* The left end of the chip beside an arrow's tail, and the height of the chip's middle. */
static int chip_left(const struct arrow *arrow)
{
    return arrow->x1 - (CHIP_WIDTH - CHIP_HEIGHT) / 2;
}

static int chip_y(const struct arrow *arrow)
{
    return arrow->y1 + 14;
}

static void draw_chip_edge(const struct picture *picture, const struct arrow *arrow)
{
    char look[16];
    write_class('l', message_colour(picture, arrow->message), look, sizeof look);
    fprintf(picture->file, "<path class=\"q %s\" d=\"M%d %dh%d\"/>\n", look, chip_left(arrow),
            chip_y(arrow), CHIP_WIDTH - CHIP_HEIGHT);
}

/* The content of a chip: the value of its message, or squares in the colours of several chunks. */
static void draw_chip_content(const struct picture *picture, const struct arrow *arrow)
{
    FILE *file = picture->file;
    const struct round_value *values = picture->rounds->values + arrow->message->first_value;
    const uint32_t count = arrow->message->value_count;
    char label[48];
    if (count > 1 && count <= 4 && picture->options->example_values == NULL) {
        for (uint32_t i = 0; i < count; i++)
            fprintf(file, "<path class=\"j l%u\" d=\"M%d %dh4\"/>",
                    colour_of(picture, values[i].chunk_class),
                    arrow->x1 - (int)count * 3 + (int)i * 6 + 1, chip_y(arrow));
        fputc('\n', file);
        return;
    }
    if (count > 1)
        snprintf(label, sizeof label, "\xc3\x97%u", count);
    else
        write_label(picture, values[0], label, sizeof label);
    print_text(picture, arrow->x1, chip_y(arrow) + 4, strlen(label) > 4 ? "s z" : "s", label);
}

/* Chips in three layers; their inner sides are one path. */
static void draw_chips(const struct picture *picture, const struct arrow *arrows, uint32_t count)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++)
        if (arrows[i].roomy) draw_chip_edge(picture, &arrows[i]);
    for (uint32_t i = 0; i < count; i++) {
        if (!arrows[i].roomy) continue;
        fprintf(picture->file, "%sM%d %dh%d", any ? "" : "<path class=\"i\" d=\"",
                chip_left(&arrows[i]), chip_y(&arrows[i]), CHIP_WIDTH - CHIP_HEIGHT);
        any = true;
    }
    if (any) fputs("\"/>\n", picture->file);
    for (uint32_t i = 0; i < count; i++)
        if (arrows[i].roomy) draw_chip_content(picture, &arrows[i]);
}

static void draw_messages(const struct picture *picture, uint32_t round)
{
    const size_t rank_count = (size_t)picture->plan->shape.rank_count;
    memset(picture->leaving, 0, rank_count * sizeof *picture->leaving);
    memset(picture->arriving, 0, rank_count * sizeof *picture->arriving);
    const struct round_message *messages = picture->rounds->messages;
    const uint32_t count = picture->rounds->message_count;
    for (uint32_t i = 0; i < count; i++) {
        if (messages[i].round != round) continue;
        picture->leaving[messages[i].from]++;
        picture->arriving[messages[i].to]++;
    }
    uint32_t arrow_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (messages[i].round != round) continue;
        picture->arrows[arrow_count] = make_arrow(picture, &messages[i]);
        draw_arrow(picture, &picture->arrows[arrow_count++]);
    }
    draw_chips(picture, picture->arrows, arrow_count);
}

/* --------------------------------------------------------------------------------------------- the sheet */

static void draw_heads(const struct picture *picture)
{
    const struct plan_shape *shape = &picture->plan->shape;
    char title[96], text[96];
    snprintf(title, sizeof title, "%s of %d ranks", collective_name(shape->collective),
             shape->rank_count);
    print_text(picture, 20, 32, "t",
               picture->options->title != NULL ? picture->options->title : title);
    snprintf(text, sizeof text, "%u round%s, %u message%s", picture->rounds->round_count,
             picture->rounds->round_count == 1 ? "" : "s", picture->rounds->message_count,
             picture->rounds->message_count == 1 ? "" : "s");
    print_text(picture, 20, 51, "u", text);
    for (int rank = 0; rank < shape->rank_count; rank++) {
        const bool root = collective_is_rooted(shape->collective) && rank == shape->root;
        snprintf(text, sizeof text, root ? "rank %d (root)" : "rank %d", rank);
        print_text(picture, box_left(picture, rank) + picture->box_width / 2, HEAD - 10, "r", text);
    }
}

static void draw_legend(const struct picture *picture)
{
    const int y = picture->height - 30;
    const bool gathers = reduces(picture) || is_barrier(picture);
    const char *const names[] = {"nothing yet", "in part", gathers ? "complete" : "there"};
    static const char *const looks[] = {"e", "pg", "cg"};
    int x = GUTTER;
    for (int i = 0; i < 3; i++) {
        if (i == (gathers ? 0 : 1)) continue;
        fprintf(picture->file,
                "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"16\" height=\"13\" rx=\"3\"/>\n",
                looks[i], x, y);
        print_text(picture, x + 22, y + 11, "u", names[i]);
        x += 36 + 7 * (int)strlen(names[i]);
    }
}

static void draw_sheet(struct picture *picture)
{
    const size_t count = (size_t)picture->plan->shape.rank_count * picture->cell_count;
    fprintf(picture->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Arial, "
            "'DejaVu Sans', sans-serif\">\n",
            picture->width, picture->height, picture->width, picture->height);
    print_style(picture);
    define_boxes(picture);
    fputs("<rect class=\"g\" width=\"100%\" height=\"100%\" rx=\"10\"/>\n", picture->file);
    draw_heads(picture);
    show_inputs(picture);
    for (size_t i = 0; i < count; i++)
        picture->cells[i].fresh = false; /* nothing has happened yet */
    draw_row(picture, 0);
    if (picture->plan->shape.collective == COLLECTIVE_ALLTOALL)
        memset(picture->cells, 0, count * sizeof *picture->cells);
    show_round(picture, 0);
    for (uint32_t round = 1; round <= picture->rounds->round_count; round++) {
        draw_messages(picture, round);
        show_round(picture, round);
        draw_row(picture, round);
    }
    draw_legend(picture);
    fprintf(picture->file, "</svg>\n");
}

enum tutti_status plan_draw_svg(const struct plan *plan, const struct draw_options *options,
                                FILE *file, const char **message)
{
    static const struct draw_options plain = {.ports = 1};
    const uint32_t cell_count = count_cells(&plan->shape);
    if (plan->shape.rank_count > DRAW_RANKS_MAX || cell_count > DRAW_CELLS_MAX) {
        *message = "too many ranks or chunks for a picture";
        return TUTTI_UNSUPPORTED;
    }
    if (options == NULL) options = &plain;
    struct rounds rounds;
    enum tutti_status status = rounds_init(&rounds, plan, options->ports, options->example_values,
                                           options->value_count, message);
    if (status != TUTTI_OK) return status;
    const size_t rank_count = (size_t)plan->shape.rank_count;
    struct picture picture = {.plan = plan,
                              .rounds = &rounds,
                              .options = options,
                              .file = file,
                              .cell_count = cell_count,
                              .cells = calloc(rank_count * cell_count, sizeof *picture.cells),
                              .marks = calloc(rank_count * cell_count, sizeof *picture.marks),
                              .arrows = calloc(rounds.message_count + 1, sizeof *picture.arrows),
                              .leaving = calloc(rank_count, sizeof *picture.leaving),
                              .arriving = calloc(rank_count, sizeof *picture.arriving)};
    if (rounds.round_count > DRAW_ROUNDS_MAX) {
        *message = "too many rounds for a picture";
        status = TUTTI_UNSUPPORTED;
    } else if (!picture.cells || !picture.marks || !picture.arrows || !picture.leaving ||
               !picture.arriving) {
        *message = "out of memory";
        status = TUTTI_NO_MEMORY;
    } else {
        measure(&picture);
        draw_sheet(&picture);
    }
    free(picture.cells);
    free(picture.marks);
    free(picture.arrows);
    free(picture.leaving);
    free(picture.arriving);
    rounds_release(&rounds);
    return status;
}
