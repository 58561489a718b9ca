#include "plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool complain(const char *file, const char *why)
{
    fprintf(stderr, "tutti-perf: %s: %s\n", file, why);
    return false;
}

/* --------------------------------------------------------------------------------------- points */

void plot_set(struct plot_point *point, enum plot_field field, const char *text)
{
    snprintf(point->fields[field], PLOT_TEXT_MAX, "%s", text);
}

bool plot_add(struct plot *plot, const struct plot_point *point)
{
    if (!(point->size > 0 && point->time_us > 0)) return true;
    if (plot->point_count == plot->room) {
        const size_t room = plot->room ? 2 * plot->room : 64;
        struct plot_point *const points = realloc(plot->points, room * sizeof *points);
        if (!points) return complain("plot", strerror(errno));
        plot->points = points;
        plot->room = room;
    }
    plot->points[plot->point_count++] = *point;
    return true;
}

void plot_release(struct plot *plot)
{
    free(plot->points);
    *plot = (struct plot){0};
}

static bool is_same_curve(const struct plot_point *a, const struct plot_point *b)
{
    return !memcmp(a->fields, b->fields, sizeof a->fields);
}

/* ------------------------------------------------------------------------------ files of before */

/* A column of a file: one of the fields, one of the numbers, or neither. */
enum {
    COLUMN_SIZE = PLOT_FIELD_COUNT,
    COLUMN_TIME,
    COLUMN_BUSBW,
    COLUMN_UNKNOWN,
    COLUMNS_MAX = 64
};

struct table {
    const char *file;
    int columns[COLUMNS_MAX];
    int column_count;
};

static int column_named(const char *name)
{
    static const char *const names[] = {
#define X(enumerator, column) column,
        PLOT_FIELD_LIST(X)
#undef X
            "size",
        "time_us",
        "busbw",
    };
    for (int i = 0; i < COLUMN_UNKNOWN; i++)
        if (*name && !strcmp(name, names[i])) return i;
    return COLUMN_UNKNOWN;
}

static bool read_header(struct table *table, char *line)
{
    int found = 0;
    for (char *name; (name = strsep(&line, ","));) {
        if (table->column_count == COLUMNS_MAX) return complain(table->file, "too many columns");
        const int column = column_named(name);
        if (column >= COLUMN_SIZE && column < COLUMN_UNKNOWN) found |= 1 << (column - COLUMN_SIZE);
        table->columns[table->column_count++] = column;
    }
    return found == 7 || complain(table->file, "no columns size, time_us and busbw: not written by "
                                               "tutti-perf --format csv?");
}

static bool read_line(struct plot *plot, const struct table *table, char *line)
{
    struct plot_point point = {.size = 0};
    int column = 0;
    const char *const slash = strrchr(table->file, '/');
    plot_set(&point, PLOT_FILE, slash ? slash + 1 : table->file);
    for (char *text; (text = strsep(&line, ",")); column++) {
        if (column == table->column_count) return complain(table->file, "a line is too long");
        const int what = table->columns[column];
        if (what < PLOT_FIELD_COUNT)
            plot_set(&point, (enum plot_field)what, text);
        else if (what == COLUMN_SIZE)
            point.size = strtod(text, NULL);
        else if (what == COLUMN_TIME)
            point.time_us = strtod(text, NULL);
        else if (what == COLUMN_BUSBW)
            point.busbw = strtod(text, NULL);
    }
    if (column < table->column_count) return complain(table->file, "a line is too short");
    if (!isfinite(point.size) || !isfinite(point.time_us) || !isfinite(point.busbw))
        return complain(table->file, "a number is not finite");
    return plot_add(plot, &point);
}

bool plot_read(struct plot *plot, const char *file)
{
    FILE *const stream = fopen(file, "re");
    if (!stream) return complain(file, strerror(errno));
    struct table table = {.file = file};
    char *line = NULL;
    size_t room = 0;
    bool fine = true;
    while (fine && getline(&line, &room, stream) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (!*line) continue;
        fine = table.column_count ? read_line(plot, &table, line) : read_header(&table, line);
    }
    if (fine && !table.column_count) fine = complain(file, "nothing in it");
    free(line);
    fclose(stream);
    return fine;
}

/* ---------------------------------------------------------------------------------------- words */

static void put_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        default:
            if ((unsigned char)*text >= 0x20) putc(*text, out);
        }
    }
}

/* A field's value as people say it; "" where there is nothing to say. */
static const char *spoken(const struct plot_point *point, enum plot_field field, char *text,
                          size_t text_bytes)
{
    const char *const value = point->fields[field];
    const char *before = "", *after = "", *middle = value;
    switch (field) {
    case PLOT_RANKS: after = " ranks"; break;
    case PLOT_ALGORITHM: middle = *value ? value : "chosen"; break;
    case PLOT_REDOP: middle = strcmp(value, "none") ? value : ""; break;
    case PLOT_ROOT: before = "root "; break;
    case PLOT_IN_PLACE: middle = strcmp(value, "1") ? "out of place" : "in place"; break;
    case PLOT_MEMORY: after = " memory"; break;
    case PLOT_SKEW: before = "skew "; break;
    case PLOT_DISPLS: before = "displs "; break;
    case PLOT_TENSORS: after = " tensors"; break;
    case PLOT_MISALIGN: before = "off by "; break;
    default: break;
    }
    if (*middle) snprintf(text, text_bytes, "%s%s%s", before, middle, after);
    return *middle ? text : "";
}

static bool varies(const struct plot *plot, enum plot_field field)
{
    for (size_t i = 1; i < plot->point_count; i++)
        if (strcmp(plot->points[i].fields[field], plot->points[0].fields[field])) return true;
    return false;
}

/* The fields that vary, or those that do not and are worth a title. */
static void put_fields(FILE *out, const struct plot *plot, const struct plot_point *point,
                       bool varying)
{
    static const bool in_title[PLOT_FIELD_COUNT] = {
        [PLOT_OP] = true, [PLOT_RANKS] = true, [PLOT_DTYPE] = true, [PLOT_REDOP] = true};
    const char *separator = "";
    for (int f = 0; f < PLOT_FIELD_COUNT; f++) {
        char text[PLOT_TEXT_MAX + 16];
        if (varies(plot, (enum plot_field)f) != varying || (!varying && !in_title[f])) continue;
        const char *const word = spoken(point, (enum plot_field)f, text, sizeof text);
        if (!*word) continue;
        fputs(separator, out);
        put_text(out, word);
        separator = ", ";
    }
}

/* ----------------------------------------------------------------------------------------- axes */

enum {
    WIDTH = 1000,
    PANEL_WIDTH = 400,
    PANEL_HEIGHT = 300,
    PANEL_TOP = 76,
    LEGEND_TOP = PANEL_TOP + PANEL_HEIGHT + 64,
    LEGEND_LINE = 20,
    LEGEND_COLUMNS = 3
};
static const int panel_left[] = {70, 570};

/* Logarithmic: values low to high on pixels from to to. */
struct axis {
    double low, high;
    double from, to;
};

static double at(const struct axis *axis, double value)
{
    return axis->from +
           (axis->to - axis->from) * log(value / axis->low) / log(axis->high / axis->low);
}

static double time_of(const struct plot_point *point)
{
    return point->time_us;
}

static double busbw_of(const struct plot_point *point)
{
    return point->busbw;
}

static double size_of(const struct plot_point *point)
{
    return point->size;
}

typedef double plot_value(const struct plot_point *point);

/* Around all values above zero, a little wider, and never without extent. */
static struct axis axis_around(const struct plot *plot, plot_value *value, double from, double to)
{
    struct axis axis = {INFINITY, 0, from, to};
    for (size_t i = 0; i < plot->point_count; i++) {
        const double v = value(&plot->points[i]);
        if (v > 0 && v < axis.low) axis.low = v;
        if (v > 0 && v > axis.high) axis.high = v;
    }
    if (!(axis.high > 0)) axis.low = axis.high = 1; /* nothing above zero */
    axis.low /= 1.25;
    axis.high *= 1.25;
    if (axis.high < axis.low * 10) {
        const double middle = sqrt(axis.low * axis.high);
        axis.low = middle / sqrt(10);
        axis.high = middle * sqrt(10);
    }
    return axis;
}

static void put_size(FILE *out, double bytes)
{
    static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 6; unit++) bytes /= 1024;
    fprintf(out, "%.4g%s", bytes, units[unit]);
}

static void size_grid(FILE *out, const struct axis *x, const struct axis *y)
{
    enum { LABELS_MAX = 8 };
    const int first = (int)ceil(log2(x->low)), last = (int)floor(log2(x->high));
    const int step = (last - first) / LABELS_MAX + 1;
    for (int power = first; power <= last; power += step) {
        const double pixel = at(x, exp2(power));
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", pixel, y->from, y->to);
        fprintf(out, "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", pixel,
                y->from + 18);
        put_size(out, exp2(power));
        fputs("</text>\n", out);
    }
}

/* Lines at 1, 2 and 5 times powers of ten; all labelled where there is room. */
static void value_grid(FILE *out, const struct axis *x, const struct axis *y)
{
    static const int digits[] = {1, 2, 5};
    const bool wide = y->high / y->low > 1e3;
    for (int power = (int)floor(log10(y->low)); power <= (int)ceil(log10(y->high)); power++)
        for (int d = 0; d < 3; d++) {
            const double value = digits[d] * pow(10, power);
            if (value < y->low || value > y->high) continue;
            fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", x->from, at(y, value),
                    x->to);
            if (d && wide) continue;
            fprintf(out,
                    "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.10g</text>\n",
                    x->from - 6, at(y, value) + 4, value);
        }
}

/* --------------------------------------------------------------------------------------- curves */

enum { COLORS = 8, DASHES = 4 };

static void put_style(FILE *out)
{
    static const char *const light[COLORS] = {"#0060a8", "#c4500a", "#00795a", "#a3307c",
                                              "#7a5b00", "#4b4bc8", "#b01030", "#3a6b8a"};
    static const char *const dark[COLORS] = {"#5ab0f2", "#ff9a5a", "#3fcf9f", "#f08acb",
                                             "#e0bf45", "#a8a5ff", "#ff7d92", "#8fc3df"};
    fputs("<style>\n"
          "text{font:13px system-ui,sans-serif;fill:#1c1e21}\n"
          ".soft{fill:#5b6470;font-size:12px}\n"
          ".title{font-size:16px;font-weight:600}\n"
          ".paper{fill:#fff}\n"
          ".grid{stroke:#e1e4e8;fill:none}\n"
          ".frame{stroke:#8b949e;fill:none}\n"
          ".curve{fill:none;stroke-width:2;stroke-linejoin:round}\n"
          ".d1{stroke-dasharray:7 3}.d2{stroke-dasharray:2 3}.d3{stroke-dasharray:9 3 2 3}\n",
          out);
    for (int c = 0; c < COLORS; c++)
        fprintf(out, ".c%d{stroke:%s}.p%d{fill:%s}\n", c, light[c], c, light[c]);
    fputs("@media(prefers-color-scheme:dark){\n"
          "text{fill:#e8eaed}.soft{fill:#a0a8b2}.paper{fill:#16181b}\n"
          ".grid{stroke:#30363d}.frame{stroke:#6b7480}\n",
          out);
    for (int c = 0; c < COLORS; c++)
        fprintf(out, ".c%d{stroke:%s}.p%d{fill:%s}\n", c, dark[c], c, dark[c]);
    fputs("}\n</style>\n", out);
}

struct curve {
    const struct plot_point *first; /* in the order of measuring */
    const struct plot_point **points;
    size_t point_count;
    size_t number;
};

static int compare_points(const void *a, const void *b)
{
    const struct plot_point *const x = *(const struct plot_point *const *)a,
                                   *const y = *(const struct plot_point *const *)b;
    if (x->size < y->size || x->size > y->size) return x->size < y->size ? -1 : 1;
    return (x > y) - (x < y);
}

static void put_curve(FILE *out, const struct curve *curve, plot_value *value, const struct axis *x,
                      const struct axis *y)
{
    const size_t color = curve->number % COLORS, dash = curve->number / COLORS % DASHES;
    fprintf(out, "<polyline class=\"curve c%zu d%zu\" points=\"", color, dash);
    for (size_t i = 0; i < curve->point_count; i++)
        if (value(curve->points[i]) > 0)
            fprintf(out, "%.1f,%.1f ", at(x, curve->points[i]->size),
                    at(y, value(curve->points[i])));
    fputs("\"/>\n", out);
    for (size_t i = 0; i < curve->point_count; i++) {
        const struct plot_point *const p = curve->points[i];
        if (!(value(p) > 0)) continue;
        fprintf(out, "<circle class=\"p%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>", color,
                at(x, p->size), at(y, value(p)));
        fprintf(out, "%.0f bytes: %.2f us, %.3f GB/s</title></circle>\n", p->size, p->time_us,
                p->busbw);
    }
}

static void put_legend(FILE *out, const struct plot *plot, const struct curve *curve)
{
    const int column = (int)(curve->number % LEGEND_COLUMNS);
    const int line = (int)(curve->number / LEGEND_COLUMNS);
    const int x = panel_left[0] + column * (WIDTH - 100) / LEGEND_COLUMNS;
    const int y = LEGEND_TOP + line * LEGEND_LINE;
    const size_t color = curve->number % COLORS, dash = curve->number / COLORS % DASHES;
    fprintf(out,
            "<path class=\"curve c%zu d%zu\" d=\"M%d %dh26\"/><circle class=\"p%zu\" cx=\"%d\" "
            "cy=\"%d\" r=\"3\"/><text x=\"%d\" y=\"%d\">",
            color, dash, x, y - 4, color, x + 13, y - 4, x + 34, y);
    put_fields(out, plot, curve->first, true);
    fputs("</text>\n", out);
}

/* ----------------------------------------------------------------------------------------- file */

static bool find_curves(const struct plot *plot, struct curve *curves, size_t *curve_count)
{
    *curve_count = 0;
    for (size_t i = 0; i < plot->point_count; i++) {
        const struct plot_point *const point = &plot->points[i];
        size_t c = 0;
        while (c < *curve_count && !is_same_curve(curves[c].first, point)) c++;
        if (c == *curve_count) {
            curves[c] = (struct curve){.first = point, .number = c};
            curves[c].points = calloc(plot->point_count, sizeof *curves[c].points);
            ++*curve_count;
            if (!curves[c].points) return false;
        }
        curves[c].points[curves[c].point_count++] = point;
    }
    for (size_t c = 0; c < *curve_count; c++)
        qsort(curves[c].points, curves[c].point_count, sizeof *curves[c].points, compare_points);
    return true;
}

static void put_panel(FILE *out, const struct plot *plot, const struct curve *curves,
                      size_t curve_count, int left, plot_value *value, const char *title)
{
    const struct axis x = axis_around(plot, size_of, left, left + PANEL_WIDTH);
    const struct axis y = axis_around(plot, value, PANEL_TOP + PANEL_HEIGHT, PANEL_TOP);
    fprintf(out, "<text x=\"%d\" y=\"%d\">%s</text>\n", left, PANEL_TOP - 12, title);
    size_grid(out, &x, &y);
    value_grid(out, &x, &y);
    fprintf(out, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", left,
            PANEL_TOP, PANEL_WIDTH, PANEL_HEIGHT);
    for (size_t c = 0; c < curve_count; c++) put_curve(out, &curves[c], value, &x, &y);
    fprintf(out,
            "<text class=\"soft\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">size (bytes)</text>\n",
            left + PANEL_WIDTH / 2, PANEL_TOP + PANEL_HEIGHT + 38);
}

static void put_plot(FILE *out, const struct plot *plot, const struct curve *curves,
                     size_t curve_count)
{
    const size_t lines = (curve_count + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
    const int height = LEGEND_TOP + (curve_count > 1 ? (int)lines * LEGEND_LINE : 0);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\">\n",
            WIDTH, height, WIDTH, height);
    put_style(out);
    fprintf(out, "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", WIDTH, height);
    fprintf(out, "<text class=\"title\" x=\"%d\" y=\"32\">", panel_left[0]);
    put_fields(out, plot, &plot->points[0], false);
    fputs("</text>\n", out);
    put_panel(out, plot, curves, curve_count, panel_left[0], busbw_of, "bus bandwidth (GB/s)");
    put_panel(out, plot, curves, curve_count, panel_left[1], time_of, "time (us)");
    for (size_t c = 0; curve_count > 1 && c < curve_count; c++) put_legend(out, plot, &curves[c]);
    fputs("</svg>\n", out);
}

bool plot_write(const struct plot *plot, const char *file)
{
    if (!plot->point_count) return complain(file, "nothing that has a size was measured");
    struct curve *const curves = calloc(plot->point_count, sizeof *curves);
    size_t curve_count = 0;
    bool fine = curves && find_curves(plot, curves, &curve_count);
    if (!fine) complain(file, "out of memory");
    FILE *const out = fine ? fopen(file, "we") : NULL;
    if (fine && !out) fine = complain(file, strerror(errno));
    if (fine) {
        put_plot(out, plot, curves, curve_count);
        const bool failed = ferror(out);
        if (fclose(out) || failed) fine = complain(file, "could not be written");
    }
    for (size_t c = 0; c < curve_count; c++) free(curves[c].points);
    free(curves);
    return fine;
}
