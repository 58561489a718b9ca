/* series.h - turns a value that was measured several times into a number of a
 * calibration: the least value, since disturbances only make a measurement longer, and how far the
 * median is above it.
 */
#ifndef TUTTI_TOOLS_TOPO_SERIES_H
#define TUTTI_TOOLS_TOPO_SERIES_H

#include <assert.h>
#include <stdlib.h>

#include "model/calibration.h"

enum { SERIES_MAX = 32 };

struct series {
    double values[SERIES_MAX];
    int count;
};

static inline void series_add(struct series *series, double value)
{
    assert(series->count < SERIES_MAX);
    series->values[series->count++] = value;
}

static inline int series_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The series must have at least one value. */
static inline double series_least(const struct series *series)
{
    double least = series->values[0];
    for (int i = 1; i < series->count; i++)
        if (series->values[i] < least) least = series->values[i];
    return least;
}

static inline double series_middle(const struct series *series)
{
    struct series sorted = *series;
    qsort(sorted.values, (size_t)sorted.count, sizeof *sorted.values, series_compare);
    return sorted.values[sorted.count / 2];
}

/* Stores a parameter as measured. A value out of bounds becomes the bound. */
static inline void series_store_least(double least, double middle,
                                      enum calibration_parameter parameter,
                                      struct calibration *calibration)
{
    const struct calibration_info *info = calibration_info(parameter);
    double value = least + 0.5, spread = least > 0 ? (middle / least - 1) * 1000 : 0;
    if (value < (double)info->least) value = (double)info->least;
    if (value > (double)info->most) value = (double)info->most;
    if (spread > CALIBRATION_SPREAD_MAX) spread = CALIBRATION_SPREAD_MAX;
    calibration->numbers[parameter] =
        (struct calibration_number){(uint64_t)value, (unsigned)spread, CALIBRATION_MEASURED};
}

static inline void series_store(const struct series *series, enum calibration_parameter parameter,
                                struct calibration *calibration)
{
    series_store_least(series_least(series), series_middle(series), parameter, calibration);
}

#endif
