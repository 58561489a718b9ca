#include "checkpoint_manifest.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/status.h"

enum { VERSION = 1, LINE_BYTES_MAX = 64 };

/* ------------------------------------------------------------------------------------- printing */

static size_t add(char *text, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static size_t add(char *text, size_t at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int bytes = vsnprintf(text + at, LINE_BYTES_MAX, format, arguments);
    va_end(arguments);
    return at + (size_t)bytes;
}

char *manifest_print(const struct manifest *manifest)
{
    char *const text = malloc((manifest->count + 5) * LINE_BYTES_MAX);
    if (text == NULL) return NULL;
    size_t at = add(text, 0, "tutti checkpoint %d\n", VERSION);
    at = add(text, at, "step %llu\n", (unsigned long long)manifest->step);
    at = add(text, at, "id %016llx\n", (unsigned long long)manifest->id);
    at = add(text, at, "shards %zu\n", manifest->count);
    for (size_t i = 0; i < manifest->count; i++)
        at = add(text, at, "%llu %08x\n", (unsigned long long)manifest->shards[i].bytes,
                 (unsigned)manifest->shards[i].sum);
    add(text, at, "end %08x\n", (unsigned)crc32c(0, text, at));
    return text;
}

/* -------------------------------------------------------------------------------------- parsing */

struct reader {
    const char *text;
    size_t size, at;
    bool is_bad;
};

static void expect(struct reader *reader, const char *word)
{
    const size_t length = strlen(word);
    if (reader->is_bad || reader->size - reader->at < length ||
        memcmp(reader->text + reader->at, word, length) != 0)
        reader->is_bad = true;
    else
        reader->at += length;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

/* Without zeros in front. */
static uint64_t decimal(struct reader *reader)
{
    uint64_t number = 0;
    const size_t begin = reader->at;
    while (!reader->is_bad && reader->at < reader->size && digit_of(reader->text[reader->at]) < 10) {
        const uint64_t digit = (uint64_t)digit_of(reader->text[reader->at++]);
        if (number > (UINT64_MAX - digit) / 10 || (number == 0 && reader->at - begin > 1))
            reader->is_bad = true;
        else
            number = 10 * number + digit;
    }
    if (reader->at == begin) reader->is_bad = true;
    return number;
}

static uint64_t hexadecimal(struct reader *reader, size_t digits)
{
    uint64_t number = 0;
    for (size_t i = 0; i < digits && !reader->is_bad; i++) {
        const int digit = reader->at < reader->size ? digit_of(reader->text[reader->at]) : 16;
        if (digit == 16) reader->is_bad = true;
        reader->at += digit != 16;
        number = number << 4 | (uint64_t)(digit & 15);
    }
    return number;
}

static enum tutti_status read_shards(struct reader *reader, struct manifest *manifest)
{
    expect(reader, "shards ");
    const uint64_t count = decimal(reader);
    expect(reader, "\n");
    /* A line of a shard has 11 bytes or more. */
    if (count == 0 || count > MANIFEST_SHARDS_MAX || count > reader->size / 11)
        reader->is_bad = true;
    if (reader->is_bad) return TUTTI_OK;
    manifest->shards = calloc((size_t)count, sizeof *manifest->shards);
    if (manifest->shards == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    manifest->count = (size_t)count;
    for (size_t i = 0; i < manifest->count && !reader->is_bad; i++) {
        manifest->shards[i].bytes = decimal(reader);
        expect(reader, " ");
        manifest->shards[i].sum = (uint32_t)hexadecimal(reader, 8);
        expect(reader, "\n");
    }
    return TUTTI_OK;
}

static enum tutti_status parse(struct reader *reader, struct manifest *manifest)
{
    expect(reader, "tutti checkpoint ");
    const uint64_t version = decimal(reader);
    expect(reader, "\n");
    if (reader->is_bad) return error_set(TUTTI_CORRUPT, "this is no manifest of a checkpoint");
    if (version > VERSION)
        return error_set(TUTTI_UNSUPPORTED,
                         "a later version of Tutti wrote it: form %llu, this one reads %d",
                         (unsigned long long)version, VERSION);
    expect(reader, "step ");
    manifest->step = decimal(reader);
    expect(reader, "\nid ");
    manifest->id = hexadecimal(reader, 16);
    expect(reader, "\n");
    TRY(read_shards(reader, manifest));
    const uint32_t sum = crc32c(0, reader->text, reader->at);
    expect(reader, "end ");
    const uint32_t said = (uint32_t)hexadecimal(reader, 8);
    expect(reader, "\n");
    if (reader->is_bad || version != VERSION || reader->at != reader->size || sum != said)
        return error_set(TUTTI_CORRUPT, "it is damaged, or cut off");
    return TUTTI_OK;
}

enum tutti_status manifest_parse(const char *text, size_t size, struct manifest *manifest)
{
    struct reader reader = {.text = text, .size = size};
    *manifest = (struct manifest){0};
    const enum tutti_status status = parse(&reader, manifest);
    if (status != TUTTI_OK) manifest_release(manifest);
    return status;
}

void manifest_release(struct manifest *manifest)
{
    free(manifest->shards);
    *manifest = (struct manifest){0};
}
