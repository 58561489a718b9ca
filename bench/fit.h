/* fit.h - the line cost = first + each * bytes through measured costs, which span orders of
 * magnitude and have outliers. */
#ifndef TUTTI_BENCH_FIT_H
#define TUTTI_BENCH_FIT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "timing.h"

enum { FIT_POINTS_MAX = 16 };

struct fit_point {
    double bytes, cost; /* cost > 0 */
};

struct fit_line {
    double first, each; /* neither is below 0 */
};

static inline double fit_at(const struct fit_line *line, double bytes)
{
    return line->first + line->each * bytes;
}

/* Least squares of relative errors, so that a small message counts as much as a large one. */
static inline struct fit_line fit_relative(const struct fit_point *points, const bool *counts,
                                           int count)
{
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    for (int i = 0; i < count; i++) {
        if (!counts[i]) continue;
        const double weight = 1 / (points[i].cost * points[i].cost), x = points[i].bytes;
        w += weight, wx += weight * x, wy += weight * points[i].cost;
        wxx += weight * x * x, wxy += weight * x * points[i].cost;
    }
    const double determinant = w * wxx - wx * wx;
    struct fit_line line = {wy / w, 0};
    if (determinant <= 1e-9 * w * wxx) return line; /* one size */
    line.each = (w * wxy - wx * wy) / determinant;
    line.first = (wy - line.each * wx) / w;
    if (line.each < 0) return (struct fit_line){wy / w, 0};
    if (line.first < 0) return (struct fit_line){0, wxy / wxx};
    return line;
}

/* The line through 1 to FIT_POINTS_MAX points. Points that are much farther from the line than most
 * others are left out, and the rest are fitted again. */
static inline struct fit_line fit(const struct fit_point *points, int count)
{
    static const double errors_apart = 4, error_least = 0.05;
    bool counts[FIT_POINTS_MAX];
    double errors[FIT_POINTS_MAX], sorted[FIT_POINTS_MAX];
    for (int i = 0; i < count; i++) counts[i] = true;
    struct fit_line line = fit_relative(points, counts, count);
    if (count < 4) return line; /* too few to say which of them is out */
    for (int i = 0; i < count; i++)
        sorted[i] = errors[i] = fabs(fit_at(&line, points[i].bytes) / points[i].cost - 1);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    const double middle = sorted[count / 2];
    for (int i = 0; i < count; i++)
        counts[i] = errors[i] <= error_least || errors[i] <= errors_apart * middle;
    return fit_relative(points, counts, count);
}

#endif
