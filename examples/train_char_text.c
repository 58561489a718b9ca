#include "train_char_text.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train_char_basics.h"

enum {
    TEXT_BYTES_MIN = 10000,
    TEXT_BYTES_MAX = 64 << 20,
    HELD_OUT_RUN = 500, /* of every HELD_OUT_EVERY runs of characters, one is never trained on */
    HELD_OUT_EVERY = 20
};

static void append_file(const char *path, unsigned char **bytes, size_t *length)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) give_up(path, strerror(errno));
    unsigned char buffer[1 << 14];
    for (size_t got; (got = fread(buffer, 1, sizeof buffer, file)) > 0;) {
        if (*length + got > TEXT_BYTES_MAX) give_up(path, "longer than 64 MiB");
        /* With room to round up to whole integers, see share_text. */
        *bytes = realloc(*bytes, *length + got + sizeof(int32_t));
        if (*bytes == NULL) give_up("memory", strerror(errno));
        memcpy(*bytes + *length, buffer, got);
        *length += got;
        memset(*bytes + *length, 0, sizeof(int32_t));
    }
    if (ferror(file)) give_up(path, strerror(errno));
    fclose(file);
}

static unsigned char *read_text(const char *path, size_t *length)
{
    static const char *const licences[] = {"GPL-3",   "Apache-2.0", "LGPL-2.1",
                                           "MPL-2.0", "GFDL-1.3",   "GPL-2"};
    unsigned char *bytes = NULL;
    *length = 0;
    if (path != NULL) {
        append_file(path, &bytes, length);
        return bytes;
    }
    for (size_t i = 0; i < sizeof licences / sizeof *licences; i++) {
        char name[100];
        snprintf(name, sizeof name, "/usr/share/common-licenses/%s", licences[i]);
        if (access(name, R_OK) == 0) append_file(name, &bytes, length);
    }
    if (bytes == NULL)
        give_up("/usr/share/common-licenses", "no text there; please say --text FILE");
    return bytes;
}

void share_text(const char *path, struct text *text, struct tutti_comm *comm)
{
    const bool reads = tutti_comm_rank(comm) == 0;
    int64_t length = 0;
    if (reads) text->characters = read_text(path, &text->length);
    length = (int64_t)text->length;
    check(tutti_broadcast(&length, &length, 1, TUTTI_INT64, 0, comm), "sharing the text's length");
    text->length = (size_t)length;

    const size_t words = (text->length + sizeof(int32_t) - 1) / sizeof(int32_t);
    if (!reads) text->characters = allocate(words + 1, sizeof(int32_t));
    check(tutti_broadcast(text->characters, text->characters, words, TUTTI_INT32, 0, comm),
          "sharing the text");
}

void prepare_text(struct text *text)
{
    size_t frequency[256] = {0};
    unsigned char symbol_of[256] = {0};
    for (size_t i = 0; i < text->length; i++) frequency[text->characters[i]]++;
    for (int byte = 0; byte < 256; byte++) {
        if (frequency[byte] == 0) continue;
        const double share = (double)frequency[byte] / (double)text->length;
        text->entropy -= share * log(share);
        text->symbols[text->symbol_count] = (unsigned char)byte;
        symbol_of[byte] = (unsigned char)text->symbol_count++;
    }
    for (size_t i = 0; i < text->length; i++) text->characters[i] = symbol_of[text->characters[i]];

    text->train = allocate(text->length + 1, sizeof *text->train);
    text->held_out = allocate(text->length + 1, sizeof *text->held_out);
    for (size_t i = CONTEXT; i < text->length; i++) {
        if (i / HELD_OUT_RUN % HELD_OUT_EVERY == HELD_OUT_EVERY / 2)
            text->held_out[text->held_out_count++] = (uint32_t)i;
        else
            text->train[text->train_count++] = (uint32_t)i;
    }
    if (text->length < TEXT_BYTES_MIN)
        give_up("text", "too short to learn from; 10000 characters are the least");
}

void free_text(struct text *text)
{
    free(text->characters);
    free(text->train);
    free(text->held_out);
}
