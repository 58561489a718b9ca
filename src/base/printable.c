#include "base/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static int length_of(unsigned char first)
{
    if (first < 0x80) return 1;
    if ((first & 0xe0) == 0xc0) return 2;
    if ((first & 0xf0) == 0xe0) return 3;
    return (first & 0xf8) == 0xf0 ? 4 : 0;
}

/* 0 bytes: none. */
static int decode(const char *text, uint32_t *value)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *const c = (const unsigned char *)text;
    const int bytes = length_of(c[0]);
    *value = c[0];
    if (bytes <= 1) return bytes;
    *value = c[0] & (0x7fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        if ((c[i] & 0xc0) != 0x80) return 0;
        *value = *value << 6 | (c[i] & 0x3fu);
    }
    const bool is_surrogate = *value >= 0xd800 && *value < 0xe000;
    return *value < least[bytes] || *value > 0x10ffff || is_surrogate ? 0 : bytes;
}

int printable_character_bytes(const char *text)
{
    uint32_t value;
    return decode(text, &value);
}

static bool is_obeyed(uint32_t value)
{
    return value < ' ' || (value >= 0x7f && value < 0xa0) || (value >= 0x2028 && value <= 0x202e) ||
           (value >= 0x2066 && value <= 0x2069);
}

void printable_make(char *text)
{
    char *to = text;
    while (*text != '\0') {
        uint32_t value;
        const int bytes = decode(text, &value), taken = bytes > 0 ? bytes : 1;
        if (bytes == 0 || is_obeyed(value)) {
            *to++ = '?';
        } else {
            memmove(to, text, (size_t)bytes);
            to += bytes;
        }
        text += taken;
    }
    *to = '\0';
}
