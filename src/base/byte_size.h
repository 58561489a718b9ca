/* byte_size.h - sizes as people write them: "4096", "64k", "16M", "1g". Units are powers of 1024.
 *
 * One reader for the environment and for all tools, so that what one of them takes the others take.
 * Any thread.
 */
#ifndef TUTTI_BASE_BYTE_SIZE_H
#define TUTTI_BASE_BYTE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a size of at most `most` bytes; *end is behind it, or NULL: nothing may stand behind it.
 * False: there is none, and *bytes is unchanged. */
static inline bool byte_size_read(const char *text, const char **end, uint64_t most, uint64_t *bytes)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    if (at == text) return false;
    unsigned shift = 0;
    switch (*at) {
    case 'k':
    case 'K': shift = 10; break;
    case 'm':
    case 'M': shift = 20; break;
    case 'g':
    case 'G': shift = 30; break;
    }
    at += shift > 0;
    if (value > most >> shift || (end == NULL && *at != '\0')) return false;
    if (end != NULL) *end = at;
    *bytes = value << shift;
    return true;
}

#endif
