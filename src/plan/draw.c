#include "plan/draw.h"

#include <stdlib.h>
#include <string.h>

#include "plan/rounds.h"

/* Pixels. */
enum {
    GUTTER = 84,
    BOX_PAD = 8,
    BOX_WIDTH_MIN = 112,
    BOX_SPACE = 36,
    CAPTION = 16,
    HEAD = 92,
    FOOT = 58,
    CHIP_WIDTH = 30,
    CHIP_HEIGHT = 17,
    FINGER = 12 /* the straight end of an arrow */
};

struct cell {
    bool held;
    bool fresh; /* has changed in this round */
    struct round_value value;
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

/* Where a class is shown in a rank's box; false when it only passes through. Classes are cells, except that
 * an all-to-all has one cell for each output chunk. */
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
            cells[alltoall ? i : value.chunk_class] = (struct cell){true, false, value};
        }
    }
}

/* Results of a round; those of round 0 are what the ranks had anyway. */
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
    uint32_t columns = count <= 4 ? count : 4;
    while (columns * columns < count) columns++;
    const uint32_t lines = (count + columns - 1) / columns;
    const bool small = lines > 2;
    picture->columns = columns;
    picture->cell_width = is_barrier(picture) ? 96 : small ? 27 : 40;
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

static int box_left(const struct picture *picture, int rank)
{
    return GUTTER + rank * (picture->box_width + BOX_SPACE);
}

static int row_top(const struct picture *picture, uint32_t round)
{
    return HEAD + (int)round * picture->row_pitch;
}

/* --------------------------------------------------------------------------------------------- ink */

/* Hues that stay apart for people who see few colours, then as many as needed. */
static void print_colour(const struct picture *picture, uint32_t chunk_class, int lightness)
{
    static const int hues[] = {212, 28, 152, 330, 48, 265, 185, 0};
    const struct plan_shape *shape = &picture->plan->shape;
    uint32_t index = chunk_class, count = picture->cell_count;
    if (shape->collective == COLLECTIVE_ALLTOALL) {
        index = chunk_class / shape->parts / (uint32_t)shape->rank_count;
        count = (uint32_t)shape->rank_count;
    }
    const int hue = count <= 8 ? hues[index % 8] : (int)((uint64_t)index * 360 / count);
    /* Written as rgb: not every reader of SVG knows hsl. */
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
    fprintf(picture->file, "#%02x%02x%02x", (unsigned)rgb[0], (unsigned)rgb[1], (unsigned)rgb[2]);
}

static void print_escaped(const char *text, FILE *file)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        case '&': fputs("&amp;", file); break;
        default:
            if ((unsigned char)*text >= ' ') fputc(*text, file);
        }
    }
}

static void print_text(const struct picture *picture, int x, int y, const char *style,
                       const char *text)
{
    fprintf(picture->file, "<text x=\"%d\" y=\"%d\" %s>", x, y, style);
    print_escaped(text, picture->file);
    fprintf(picture->file, "</text>\n");
}

static bool is_small(const struct picture *picture)
{
    return picture->cell_height < 30;
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

/* A stroke for each rank, dark where its contribution is in. */
static void draw_contributions(const struct picture *picture, const struct cell *cell, int x, int y,
                               int width)
{
    const int rank_count = picture->plan->shape.rank_count;
    const int gap = width >= 4 * rank_count ? 1 : 0;
    for (int rank = 0; rank < rank_count; rank++) {
        const int left = x + width * rank / rank_count, right = x + width * (rank + 1) / rank_count;
        fprintf(picture->file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"", left,
                y, right - left - gap, is_small(picture) ? 2 : 3);
        if (cell->value.ranks >> rank & 1)
            fputs(is_complete(picture, cell) ? "#ffffff" : "#334155", picture->file);
        else
            fputs("#ffffff\" fill-opacity=\"0.75", picture->file);
        fputs("\"/>\n", picture->file);
    }
}

static void draw_cell(const struct picture *picture, const struct cell *cell, int x, int y,
                      bool faded)
{
    FILE *file = picture->file;
    const int width = picture->cell_width - 4, height = picture->cell_height - 4;
    const bool small = is_small(picture), complete = is_complete(picture, cell);
    fprintf(file, "<g%s><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" ",
            faded ? " opacity=\"0.3\"" : "", x, y, width, height);
    if (!cell->held) {
        fprintf(file, "fill=\"#ffffff\" stroke=\"#cbd5e1\" stroke-dasharray=\"2.5 2.5\"/></g>\n");
        return;
    }
    fputs("fill=\"", file);
    print_colour(picture, cell->value.chunk_class, complete ? 43 : 84);
    fputs("\" stroke=\"", file);
    print_colour(picture, cell->value.chunk_class, cell->fresh ? 28 : complete ? 43 : 68);
    fprintf(file, "\" stroke-width=\"%s\"/>\n", cell->fresh ? "2" : "1");
    char label[48], style[96];
    write_label(picture, cell->value, label, sizeof label);
    const bool strokes = reduces(picture) || is_barrier(picture);
    int size = small ? 10 : 13;
    if (strlen(label) > 3) size -= small ? 2 : 3;
    if (strlen(label) > 5) size -= small ? 2 : 1;
    if (is_barrier(picture)) size = 12;
    snprintf(style, sizeof style,
             "text-anchor=\"middle\" font-size=\"%d\" font-weight=\"600\" fill=\"%s\"", size,
             complete ? "#ffffff" : "#0f172a");
    const int lift = strokes ? 2 : 0;
    print_text(picture, x + width / 2, y + height / 2 + (size * 36 + 50) / 100 - lift, style, label);
    if (strokes) draw_contributions(picture, cell, x + 4, y + height - (small ? 4 : 6), width - 8);
    fputs("</g>\n", file);
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

static void draw_box(const struct picture *picture, int rank, uint32_t round)
{
    const int x = box_left(picture, rank), y = row_top(picture, round);
    const bool last = round == picture->rounds->round_count;
    fprintf(picture->file,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#f8fafc\" "
            "stroke=\"#e2e8f0\"/>\n",
            x, y, picture->box_width, picture->box_height);
    const int inner = (int)picture->columns * picture->cell_width;
    const int left = x + (picture->box_width - inner) / 2 + 2;
    for (uint32_t i = 0; i < picture->cell_count; i++)
        draw_cell(picture, &picture->cells[(uint32_t)rank * picture->cell_count + i],
                  left + (int)(i % picture->columns) * picture->cell_width,
                  y + BOX_PAD + 2 + (int)(i / picture->columns) * picture->cell_height,
                  last && round > 0 && !is_wanted(picture, rank, i));
    char caption[96];
    write_caption(picture, rank, round, caption, sizeof caption);
    print_text(picture, x + picture->box_width / 2, y + picture->box_height - 6,
               "text-anchor=\"middle\" font-size=\"9\" fill=\"#64748b\"", caption);
}

static void draw_row(const struct picture *picture, uint32_t round)
{
    char label[32] = "start";
    if (round > 0) snprintf(label, sizeof label, "round %u", round);
    print_text(picture, 20, row_top(picture, round) + picture->box_height / 2 + 4,
               "font-size=\"13\" fill=\"#64748b\"", label);
    for (int rank = 0; rank < picture->plan->shape.rank_count; rank++)
        draw_box(picture, rank, round);
}

/* ----------------------------------------------------------------------------------------------- arrows */

struct arrow {
    const struct round_message *message;
    int x1, y1, x2, y2;
    bool roomy; /* there is room for what it carries beside its tail */
};

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

static void print_message_colour(const struct picture *picture, const struct round_message *message,
                                 int lightness)
{
    const struct round_value *values = picture->rounds->values + message->first_value;
    if (message->value_count == 1 && !is_barrier(picture))
        print_colour(picture, values->chunk_class, lightness);
    else
        fputs(lightness > 60 ? "#cbd5e1" : "#64748b", picture->file);
}

static void draw_arrow(const struct picture *picture, const struct arrow *arrow)
{
    FILE *file = picture->file;
    const int end = arrow->y2 - 6, bend = FINGER + (end - arrow->y1) * 3 / 10;
    char path[160];
    snprintf(path, sizeof path, "M%d %d v%d C%d %d %d %d %d %d V%d", arrow->x1, arrow->y1, FINGER,
             arrow->x1, arrow->y1 + bend, arrow->x2, end - bend, arrow->x2, end - FINGER, end);
    fprintf(file, "<path d=\"%s\" fill=\"none\" stroke=\"#ffffff\" stroke-width=\"5\"/>\n", path);
    fprintf(file, "<path d=\"%s\" fill=\"none\" stroke-width=\"1.8\" stroke=\"", path);
    print_message_colour(picture, arrow->message, 43);
    fprintf(file, "\"/>\n<path d=\"M%d %d l-4.5 -8 h9 z\" fill=\"", arrow->x2, arrow->y2);
    print_message_colour(picture, arrow->message, 43);
    fputs("\"/>\n", file);
}

/* What it carries: its value, or squares in the colours of several chunks. */
static void draw_chip(const struct picture *picture, const struct arrow *arrow)
{
    FILE *file = picture->file;
    const struct round_value *values = picture->rounds->values + arrow->message->first_value;
    const uint32_t count = arrow->message->value_count;
    const int x = arrow->x1 - CHIP_WIDTH / 2, y = arrow->y1 + 6;
    if (!arrow->roomy) return;
    fprintf(
        file,
        "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#ffffff\" stroke=\"", x,
        y, CHIP_WIDTH, CHIP_HEIGHT);
    print_message_colour(picture, arrow->message, 43);
    fputs("\"/>\n", file);
    char label[48];
    if (count > 1 && count <= 4 && picture->options->example_values == NULL) {
        for (uint32_t i = 0; i < count; i++) {
            fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"5\" height=\"7\" rx=\"1\" fill=\"",
                    arrow->x1 - (int)count * 3 + (int)i * 6, y + 5);
            print_colour(picture, values[i].chunk_class, 43);
            fputs("\"/>\n", file);
        }
        return;
    }
    if (count > 1)
        snprintf(label, sizeof label, "\xc3\x97%u", count);
    else
        write_label(picture, values[0], label, sizeof label);
    print_text(picture, arrow->x1, y + 12,
               strlen(label) > 4 ? "text-anchor=\"middle\" font-size=\"8\" fill=\"#0f172a\""
                                 : "text-anchor=\"middle\" font-size=\"10\" fill=\"#0f172a\"",
               label);
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
    for (int chips = 0; chips < 2; chips++) {
        for (uint32_t i = 0; i < count; i++) {
            if (messages[i].round != round) continue;
            const struct arrow arrow = make_arrow(picture, &messages[i]);
            if (chips)
                draw_chip(picture, &arrow);
            else
                draw_arrow(picture, &arrow);
        }
    }
}

/* --------------------------------------------------------------------------------------------- the sheet */

static void draw_heads(const struct picture *picture)
{
    const struct plan_shape *shape = &picture->plan->shape;
    char title[96], text[96];
    snprintf(title, sizeof title, "%s of %d ranks", collective_name(shape->collective),
             shape->rank_count);
    print_text(picture, 20, 32, "font-size=\"19\" font-weight=\"600\" fill=\"#0f172a\"",
               picture->options->title != NULL ? picture->options->title : title);
    snprintf(text, sizeof text, "%u round%s, %u message%s", picture->rounds->round_count,
             picture->rounds->round_count == 1 ? "" : "s", picture->rounds->message_count,
             picture->rounds->message_count == 1 ? "" : "s");
    print_text(picture, 20, 51, "font-size=\"12\" fill=\"#64748b\"", text);
    for (int rank = 0; rank < shape->rank_count; rank++) {
        const bool root = collective_is_rooted(shape->collective) && rank == shape->root;
        snprintf(text, sizeof text, root ? "rank %d (root)" : "rank %d", rank);
        print_text(picture, box_left(picture, rank) + picture->box_width / 2, HEAD - 10,
                   "text-anchor=\"middle\" font-size=\"13\" font-weight=\"600\" fill=\"#334155\"",
                   text);
    }
}

static void draw_legend(const struct picture *picture)
{
    const int y = picture->height - 30;
    const bool gathers = reduces(picture) || is_barrier(picture);
    const char *const names[] = {"nothing yet", "in part", gathers ? "complete" : "there"};
    static const char *const inks[] = {
        "fill=\"#ffffff\" stroke=\"#cbd5e1\" stroke-dasharray=\"2.5 2.5\"",
        "fill=\"#dbe4ef\" stroke=\"#a9b8ca\"", "fill=\"#475569\" stroke=\"#475569\""};
    int x = GUTTER;
    for (int i = 0; i < 3; i++) {
        if (i == (gathers ? 0 : 1)) continue;
        fprintf(picture->file, "<rect x=\"%d\" y=\"%d\" width=\"16\" height=\"13\" rx=\"3\" %s/>\n",
                x, y, inks[i]);
        print_text(picture, x + 22, y + 11, "font-size=\"11\" fill=\"#64748b\"", names[i]);
        x += 36 + 7 * (int)strlen(names[i]);
    }
}

static void draw_sheet(struct picture *picture)
{
    fprintf(
        picture->file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
        "%d\" "
        "font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\">\n"
        "<rect width=\"100%%\" height=\"100%%\" rx=\"10\" fill=\"#ffffff\"/>\n",
        picture->width, picture->height, picture->width, picture->height);
    draw_heads(picture);
    show_inputs(picture);
    draw_row(picture, 0);
    if (picture->plan->shape.collective == COLLECTIVE_ALLTOALL)
        memset(picture->cells, 0,
               (size_t)picture->plan->shape.rank_count * picture->cell_count *
                   sizeof *picture->cells);
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
                              .leaving = calloc(rank_count, sizeof *picture.leaving),
                              .arriving = calloc(rank_count, sizeof *picture.arriving)};
    if (rounds.round_count > DRAW_ROUNDS_MAX) {
        *message = "too many rounds for a picture";
        status = TUTTI_UNSUPPORTED;
    } else if (!picture.cells || !picture.leaving || !picture.arriving) {
        *message = "out of memory";
        status = TUTTI_NO_MEMORY;
    } else {
        measure(&picture);
        draw_sheet(&picture);
    }
    free(picture.cells);
    free(picture.leaving);
    free(picture.arriving);
    rounds_release(&rounds);
    return status;
}
