/* On any bytes, proto_get reads no further than they go, and gives a text that fits or none; what
 * proto_put appends to a whole message is found there. */
#include <stdlib.h>
#include <string.h>

#include "bindings/tensorflow/front/proto.c" /* no library has it */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    char text[64], again[64];
    const unsigned field = 1 + data[0] % 16;
    const size_t text_size = 1 + data[1] % sizeof text, bytes = size - 2;
    const bool is_good = proto_get(data + 2, bytes, field, text, text_size);
    if (memchr(text, 0, text_size) == NULL || (!is_good && text[0] != '\0')) abort();
    if (!is_good) return 0;

    const size_t room = bytes + 128;
    char *const message = malloc(room);
    if (message == NULL) abort();
    memcpy(message, data + 2, bytes);
    size_t whole = bytes;
    if (!proto_put(message, room, &whole, field, "appended", 8) ||
        !proto_put_number(message, room, &whole, field, bytes))
        abort();
    if (!proto_get(message, whole, field, again, sizeof again) || strcmp(again, "appended") != 0)
        abort();
    free(message);
    return 0;
}
