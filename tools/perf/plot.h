/* plot.h - draws bus bandwidth and time against size, both logarithmic, as an SVG that
 * suits light and dark pages.
 *
 * Points that agree in all fields are a curve. Fields in which all points agree make the title, the
 * others name the curves. Points without a size (barriers, calls without elements) are left out.
 */
#ifndef TUTTI_TOOLS_PERF_PLOT_H
#define TUTTI_TOOLS_PERF_PLOT_H

#include <stdbool.h>
#include <stddef.h>

/* X(enumerator, column of --format csv) */
#define PLOT_FIELD_LIST(X)         \
    X(PLOT_OP, "op")               \
    X(PLOT_RANKS, "ranks")         \
    X(PLOT_ALGORITHM, "algorithm") \
    X(PLOT_DTYPE, "dtype")         \
    X(PLOT_REDOP, "redop")         \
    X(PLOT_ROOT, "root")           \
    X(PLOT_IN_PLACE, "in_place")   \
    X(PLOT_FORM, "form")           \
    X(PLOT_MEMORY, "memory")       \
    X(PLOT_SKEW, "skew")           \
    X(PLOT_DISPLS, "displs")       \
    X(PLOT_TENSORS, "tensors")     \
    X(PLOT_MISALIGN, "misalign")   \
    X(PLOT_FILE, "") /* no column: where the point was read from */

enum plot_field {
#define X(enumerator, column) enumerator,
    PLOT_FIELD_LIST(X)
#undef X
        PLOT_FIELD_COUNT
};
enum { PLOT_TEXT_MAX = 40 };

struct plot_point {
    char fields[PLOT_FIELD_COUNT][PLOT_TEXT_MAX]; /* cut if longer; "" where there is nothing to say */
    double size;                                  /* bytes */
    double time_us;
    double busbw; /* GB/s */
};

/* Begins as {0}. */
struct plot {
    struct plot_point *points;
    size_t point_count, room;
};

void plot_set(struct plot_point *point, enum plot_field field, const char *text);
/* The functions below return false after a message on stderr. */
bool plot_add(struct plot *plot, const struct plot_point *point);
bool plot_read(struct plot *plot, const char *file);
bool plot_write(const struct plot *plot, const char *file);
void plot_release(struct plot *plot);

#endif
