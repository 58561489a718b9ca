/* bfloat16.h - the upper half of a float: the same range, 8 bits of precision. */
#ifndef GPT_BFLOAT16_H
#define GPT_BFLOAT16_H

#include <stdint.h>
#include <string.h>

static inline float bfloat16_widened(uint16_t number)
{
    const uint32_t bits = (uint32_t)number << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

/* The nearest one, of two the even one. */
static inline uint16_t bfloat16_nearest(float wide)
{
    uint32_t bits;
    memcpy(&bits, &wide, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40); /* not a number */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
