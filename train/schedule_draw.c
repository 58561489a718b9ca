/* schedule_draw.c - a schedule as a picture: a row for each stage, time to the right.
 *
 * Boxes of one pass are as long as it takes, and the shortest one has room for its number. In the
 * SVG, readers in dark mode get other colours for what is not a box. Numbers are whole, so that no
 * locale changes them.
 */
#include <math.h>
#include <stdio.h>

#include "base/status.h"
#include "schedule_times.h"
#include "text_out.h"

/* Pixels. */
enum {
    GUTTER = 86,
    MARGIN = 20,
    HEAD = 70,
    BOX = 26,
    ROW = 32,
    FOOT = 40,
    DIGIT = 8,
    NUMBERED_MIN = 11, /* a narrower box has no number */
    WIDTH_MAX = 3000   /* of all boxes of a row */
};
enum { SVG_PASSES_MAX = 50000, COLUMNS_MAX = 4000, SHADES = 4 };

struct drawing {
    const struct tutti_schedule *schedule;
    const struct schedule_times *times;
    FILE *file;
};

static double shortest(const struct drawing *drawing)
{
    const struct tutti_schedule_shape *const shape = &drawing->schedule->shape;
    const struct tutti_schedule_times *const given = &drawing->times->given;
    double least = given->weights == NULL ? 1 : given->weights[0];
    for (int part = 0; part < schedule_part_count(shape) && given->weights != NULL; part++)
        if (given->weights[part] < least) least = given->weights[part];
    return least * (given->forward < given->backward ? given->forward : given->backward);
}

static int digits_of(int number)
{
    int digits = 1;
    while ((number /= 10) > 0) digits++;
    return digits;
}

/* Passes of one stage with the places where their boxes begin and end, for a scale in pixels or
 * columns for a unit of time. */
struct box {
    struct tutti_schedule_action action;
    int begin, end;
};

static struct box box_of(const struct drawing *drawing, int stage, size_t position, double scale)
{
    const struct tutti_schedule_action action = drawing->schedule->stages[stage].actions[position];
    const double end = drawing->times->ends[(size_t)stage * drawing->times->stage_passes + position];
    const double duration =
        schedule_times_duration(drawing->times, drawing->schedule, stage, action);
    return (struct box){action, (int)((end - duration) * scale + 0.5), (int)(end * scale + 0.5)};
}

/* ------------------------------------------------------------------------------------------ SVG */

static const char style[] =
    "<style>text{text-anchor:middle;font-weight:600;font-size:13px;fill:#fff}"
    ".t,.u,.r,.z{text-anchor:start}.t{font-size:19px;fill:#0f172a}.u,.z{font-weight:400;fill:#"
    "64748b}"
    ".z{font-size:11px}.r{fill:#334155}.d{fill:#0f172a}.g{fill:#fff}.i{fill:#e2e8f0}"
    ".x{stroke:#64748b;fill:none}"
    ".F0{fill:#1d4f91}.F1{fill:#3b7dc4}.F2{fill:#7fb0e3}.F3{fill:#b9d6f2}"
    ".B0{fill:#1c6b4a}.B1{fill:#2a8f63}.B2{fill:#74c8a1}.B3{fill:#b5e4cd}\n"
    "@media(prefers-color-scheme:dark){.g{fill:#0d1117}.i{fill:#21262d}.t,.r{fill:#e6edf3}"
    ".u,.z{fill:#9198a1}.x{stroke:#9198a1}}</style>\n";

static int shade_of(const struct drawing *drawing, int chunk)
{
    return drawing->schedule->shape.chunk_count == 1 ? 1 : chunk % SHADES;
}

static void draw_row(const struct drawing *drawing, int stage, double scale, int width)
{
    const int top = HEAD + stage * ROW, middle = top + BOX / 2 + 5;
    fprintf(drawing->file, "<text class=\"r\" x=\"%d\" y=\"%d\">stage %d</text>\n", MARGIN, middle,
            stage);
    fprintf(drawing->file,
            "<rect class=\"i\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\"/>\n", GUTTER,
            top, width, BOX);
    for (size_t i = 0; i < drawing->times->stage_passes; i++) {
        const struct box box = box_of(drawing, stage, i, scale);
        const int shade = shade_of(drawing, box.action.chunk), box_width = box.end - box.begin;
        fprintf(drawing->file,
                "<rect class=\"%c%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\"/>",
                box.action.pass == TUTTI_PASS_FORWARD ? 'F' : 'B', shade, GUTTER + box.begin, top,
                box_width > 1 ? box_width - 1 : 1, BOX);
        if (box_width >= NUMBERED_MIN + DIGIT * (digits_of(box.action.micro_batch) - 1))
            fprintf(drawing->file, "<text%s x=\"%d\" y=\"%d\">%d</text>",
                    shade > 1 ? " class=\"d\"" : "", GUTTER + (box.begin + box.end - 1) / 2, middle,
                    box.action.micro_batch);
        fputc('\n', drawing->file);
    }
}

static void print_heading(const struct drawing *drawing)
{
    const struct tutti_schedule_shape *const shape = &drawing->schedule->shape;
    const struct schedule_times *const times = drawing->times;
    const char *const name = drawing->schedule->name;
    double busy = 0;
    for (int s = 0; s < shape->stage_count; s++) busy += times->busy[s];
    const double idle = fmax(times->step_time * shape->stage_count - busy, 0);
    fprintf(
        drawing->file,
        "<text class=\"t\" x=\"%d\" y=\"32\">%s: stages %d, micro-batches %d, chunks %d</text>\n",
        MARGIN, name[0] != '\0' ? name : "schedule", shape->stage_count, shape->micro_batch_count,
        shape->chunk_count);
    fprintf(drawing->file, "<text class=\"u\" x=\"%d\" y=\"52\">forward ", MARGIN);
    text_print_number(drawing->file, times->given.forward);
    fputs(", backward ", drawing->file);
    text_print_number(drawing->file, times->given.backward);
    fputs(", step ", drawing->file);
    text_print_number(drawing->file, times->step_time);
    fputs(", idle over busy ", drawing->file);
    text_print_number(drawing->file, 100 * idle / busy);
    fputs(" %</text>\n", drawing->file);
}

/* Blue and green boxes, and what they are; an arrow for time. */
static void draw_legend(const struct drawing *drawing, int width)
{
    const int top = HEAD + drawing->schedule->shape.stage_count * ROW + 6;
    const int shade = shade_of(drawing, 0);
    static const char *const words[] = {"forward", "backward"};
    for (int pass = 0; pass < 2; pass++) {
        fprintf(drawing->file,
                "<rect class=\"%c%d\" x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" rx=\"2\"/>",
                "FB"[pass], shade, GUTTER + 80 * pass, top);
        fprintf(drawing->file, "<text class=\"z\" x=\"%d\" y=\"%d\">%s</text>\n",
                GUTTER + 80 * pass + 17, top + 10, words[pass]);
    }
    fprintf(drawing->file,
            "<path class=\"x\" d=\"M%d %dh60m-5 -4l5 4l-5 4\"/><text class=\"z\" x=\"%d\" "
            "y=\"%d\">time</text>\n",
            GUTTER + width - 60, top + 6, GUTTER + width - 88, top + 10);
}

static enum tutti_status draw_svg(const struct drawing *drawing)
{
    enum { TITLE_WIDTH = 470 };
    const struct tutti_schedule_shape *const shape = &drawing->schedule->shape;
    const size_t passes = (size_t)shape->stage_count * drawing->times->stage_passes;
    if (passes > SVG_PASSES_MAX)
        return error_set(TUTTI_UNSUPPORTED, "%zu passes are too many for a picture; at most %d",
                         passes, SVG_PASSES_MAX);
    double scale = (18 + DIGIT * digits_of(shape->micro_batch_count - 1)) / shortest(drawing);
    if (scale * drawing->times->step_time > WIDTH_MAX)
        scale = WIDTH_MAX / drawing->times->step_time;
    const int width = (int)(drawing->times->step_time * scale + 0.5);
    const int full = GUTTER + MARGIN + (width > TITLE_WIDTH ? width : TITLE_WIDTH);
    const int height = HEAD + shape->stage_count * ROW + FOOT;
    fprintf(drawing->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\" font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', "
            "sans-serif\">\n%s<rect class=\"g\" width=\"100%%\" height=\"100%%\" rx=\"10\"/>\n",
            full, height, full, height, style);
    print_heading(drawing);
    for (int s = 0; s < shape->stage_count; s++) draw_row(drawing, s, scale, width);
    draw_legend(drawing, width);
    fputs("</svg>\n", drawing->file);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------- for a terminal */

static enum tutti_status draw_text(const struct drawing *drawing)
{
    const struct tutti_schedule_shape *const shape = &drawing->schedule->shape;
    const struct tutti_schedule_action widest = {TUTTI_PASS_FORWARD, shape->micro_batch_count - 1,
                                                 shape->chunk_count - 1};
    const int cell = 1 + snprintf(NULL, 0, "%s", schedule_action_name(shape, widest).text);
    const double scale = cell / shortest(drawing);
    if (drawing->times->step_time * scale > COLUMNS_MAX)
        return error_set(TUTTI_UNSUPPORTED,
                         "the step takes %.0f columns as text, which is more than %d",
                         drawing->times->step_time * scale, COLUMNS_MAX);
    for (int s = 0; s < shape->stage_count; s++) {
        int at = 0; /* columns written */
        fprintf(drawing->file, "stage %-*d", digits_of(shape->stage_count - 1) + 1, s);
        for (size_t i = 0; i < drawing->times->stage_passes; i++) {
            const struct box box = box_of(drawing, s, i, scale);
            for (; at < box.begin; at++) fputc(' ', drawing->file);
            at += fprintf(drawing->file, "%s", schedule_action_name(shape, box.action).text);
            for (; box.end - box.begin > cell && at < box.end - 1; at++) fputc('-', drawing->file);
        }
        fputc('\n', drawing->file);
    }
    return TUTTI_OK;
}

enum tutti_status tutti_schedule_draw(const struct tutti_schedule *schedule,
                                      const struct tutti_schedule_times *given,
                                      enum tutti_schedule_picture picture, char *text,
                                      size_t text_bytes, size_t *full_bytes)
{
    struct schedule_times times;
    struct text_out out;
    if ((unsigned)picture > TUTTI_SCHEDULE_PICTURE_TEXT)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_schedule_draw: there is no picture %d",
                         (int)picture);
    TRY(schedule_times_init(&times, schedule, given));
    enum tutti_status status = text_out_begin(&out);
    if (status != TUTTI_OK) goto release_times;
    const struct drawing drawing = {schedule, &times, out.file};
    status = picture == TUTTI_SCHEDULE_PICTURE_SVG ? draw_svg(&drawing) : draw_text(&drawing);
    if (status == TUTTI_OK)
        status = text_out_finish(&out, text, text_bytes, full_bytes);
    else
        text_out_abandon(&out);
release_times:
    schedule_times_release(&times);
    return status;
}
