/* ratio.h - fractions of whole numbers, compared exactly. */
#ifndef TUTTI_STUDIO_SYNTH_RATIO_H
#define TUTTI_STUDIO_SYNTH_RATIO_H

#include <stdint.h>

struct synth_ratio {
    int64_t top, bottom; /* neither negative, nor both 0; what is above 0 is infinite */
};

static inline int64_t synth_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static inline struct synth_ratio synth_ratio_reduce(struct synth_ratio ratio)
{
    const int64_t common = synth_gcd(ratio.top, ratio.bottom);
    return (struct synth_ratio){ratio.top / common, ratio.bottom / common};
}

/* Below 0, 0 or above it, as a is less, equal or more. */
static inline int synth_ratio_compare(struct synth_ratio a, struct synth_ratio b)
{
    const __int128 left = (__int128)a.top * b.bottom, right = (__int128)b.top * a.bottom;
    return (left > right) - (left < right);
}

static inline double synth_ratio_value(struct synth_ratio ratio)
{
    return (double)ratio.top / (double)ratio.bottom;
}

#endif
