#include "front/proto.h"

#include <stdint.h>
#include <string.h>

enum { WIRE_NUMBER = 0, WIRE_8_BYTES = 1, WIRE_BYTES = 2, WIRE_4_BYTES = 5, NUMBER_BYTES_MAX = 10 };

/* Seven bits in each byte, the lowest first; the top bit says that more follow. False: it does not
 * end within the message, or has more than 64 bits. */
static bool get_number(const uint8_t *message, size_t size, size_t *at, uint64_t *number)
{
    *number = 0;
    for (int i = 0; i < NUMBER_BYTES_MAX && *at < size; i++) {
        const uint8_t byte = message[(*at)++];
        if (i == NUMBER_BYTES_MAX - 1 && byte > 1) return false;
        *number |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) return true;
    }
    return false;
}

bool proto_get(const void *message, size_t message_bytes, unsigned field, char *text,
               size_t text_size)
{
    const uint8_t *const bytes = message;
    size_t at = 0, found = 0, found_bytes = 0;
    text[0] = '\0';
    while (at < message_bytes) {
        uint64_t tag, length = 0;
        if (!get_number(bytes, message_bytes, &at, &tag)) return false;
        switch (tag & 7) {
        case WIRE_NUMBER:
            if (!get_number(bytes, message_bytes, &at, &length)) return false;
            continue;
        case WIRE_8_BYTES: length = 8; break;
        case WIRE_4_BYTES: length = 4; break;
        case WIRE_BYTES:
            if (!get_number(bytes, message_bytes, &at, &length)) return false;
            break;
        default: return false;
        }
        if (length > message_bytes - at) return false;
        if (tag == ((uint64_t)field << 3 | WIRE_BYTES)) {
            found = at;
            found_bytes = (size_t)length;
        }
        at += (size_t)length;
    }
    if (found_bytes >= text_size || memchr(bytes + found, 0, found_bytes) != NULL) return false;
    memcpy(text, bytes + found, found_bytes);
    text[found_bytes] = '\0';
    return true;
}

static size_t put_number(uint8_t *place, uint64_t number)
{
    size_t count = 0;
    while (number >= 0x80) {
        place[count++] = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    place[count++] = (uint8_t)number;
    return count;
}

static bool append(void *message, size_t size, size_t *bytes, const uint8_t *head,
                   size_t head_bytes, const void *value, size_t value_bytes)
{
    if (head_bytes > size - *bytes || value_bytes > size - *bytes - head_bytes) return false;
    uint8_t *const end = (uint8_t *)message + *bytes;
    memcpy(end, head, head_bytes);
    if (value_bytes > 0) memcpy(end + head_bytes, value, value_bytes);
    *bytes += head_bytes + value_bytes;
    return true;
}

bool proto_put(void *message, size_t size, size_t *bytes, unsigned field, const void *value,
               size_t value_bytes)
{
    uint8_t head[2 * NUMBER_BYTES_MAX];
    size_t head_bytes = put_number(head, (uint64_t)field << 3 | WIRE_BYTES);
    head_bytes += put_number(head + head_bytes, value_bytes);
    return append(message, size, bytes, head, head_bytes, value, value_bytes);
}

bool proto_put_number(void *message, size_t size, size_t *bytes, unsigned field,
                      unsigned long long number)
{
    uint8_t head[2 * NUMBER_BYTES_MAX];
    size_t head_bytes = put_number(head, (uint64_t)field << 3 | WIRE_NUMBER);
    head_bytes += put_number(head + head_bytes, number);
    return append(message, size, bytes, head, head_bytes, NULL, 0);
}
