#include "checkpoint_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "checkpoint_bytes.h"

enum {
    PIECE_HEAD_BYTES = 4,
    DIMENSION_BYTES = 3 * 8,
    PIECE_BYTES_MIN = PIECE_HEAD_BYTES + DIMENSION_BYTES + 1
};
static const uint64_t data_bytes_max = UINT64_C(1) << 60;

uint64_t piece_bytes(const struct piece *piece)
{
    return box_count(&piece->box) * dtype_size(piece->dtype);
}

const char *table_name_mistake(const char *name, size_t size)
{
    if (size == 0) return "is empty";
    if (size > TABLE_NAME_MAX) return "is longer than 200 bytes";
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 127) return "has a control character";
    return NULL;
}

bool piece_is_namesake(const struct piece *a, const struct piece *b)
{
    return strcmp(a->name, b->name) == 0;
}

bool piece_is_alike(const struct piece *a, const struct piece *b)
{
    return a->dtype == b->dtype && a->box.dims == b->box.dims &&
           memcmp(a->shape, b->shape, (size_t)a->box.dims * sizeof a->shape[0]) == 0;
}

int piece_compare(const struct piece *a, const struct piece *b)
{
    const int names = strcmp(a->name, b->name);
    if (names != 0) return names;
    if (a->box.dims != b->box.dims) return a->box.dims - b->box.dims;
    return box_compare(&a->box, &b->box);
}

void table_describe_box(const struct box *box, char *text, size_t text_bytes)
{
    int at = snprintf(text, text_bytes, "[");
    for (int d = 0; d < box->dims && at > 0 && (size_t)at < text_bytes; d++) {
        const unsigned long long first = box->first[d], last = first + box->extent[d] - 1;
        at += snprintf(text + at, text_bytes - (size_t)at, "%s%llu", d > 0 ? ", " : "", first);
        if (last > first && (size_t)at < text_bytes)
            at += snprintf(text + at, text_bytes - (size_t)at, " to %llu", last);
    }
    if (at > 0 && (size_t)at < text_bytes) snprintf(text + at, text_bytes - (size_t)at, "]");
}

void piece_describe(const struct piece *piece, char *text, size_t text_bytes)
{
    int at = snprintf(text, text_bytes, "%s [", tutti_dtype_name(piece->dtype));
    for (int d = 0; d < piece->box.dims && at > 0 && (size_t)at < text_bytes; d++)
        at += snprintf(text + at, text_bytes - (size_t)at, "%s%llu", d > 0 ? " x " : "",
                       (unsigned long long)piece->shape[d]);
    if (at > 0 && (size_t)at < text_bytes) snprintf(text + at, text_bytes - (size_t)at, "]");
}

/* ------------------------------------------------------------------------------------- printing */

static unsigned char *grow(struct table_bytes *bytes, size_t more)
{
    if (bytes->room - bytes->size < more) {
        const size_t room = 2 * bytes->room + more + 1024;
        unsigned char *const grown = realloc(bytes->bytes, room);
        if (grown == NULL) return NULL;
        bytes->bytes = grown;
        bytes->room = room;
    }
    bytes->size += more;
    return bytes->bytes + bytes->size - more;
}

enum tutti_status table_print(const struct piece *piece, struct table_bytes *bytes)
{
    const size_t name_bytes = strlen(piece->name), dims = (size_t)piece->box.dims;
    unsigned char *at = grow(bytes, PIECE_HEAD_BYTES + DIMENSION_BYTES * dims + name_bytes);
    if (at == NULL) return error_set(TUTTI_NO_MEMORY, "checkpoint: out of memory");
    bytes_put(at, 2, name_bytes);
    at[2] = (unsigned char)piece->dtype;
    at[3] = (unsigned char)dims;
    at += PIECE_HEAD_BYTES;
    for (size_t d = 0; d < dims; d++) {
        bytes_put(at + 8 * d, 8, piece->shape[d]);
        bytes_put(at + 8 * (dims + d), 8, piece->box.first[d]);
        bytes_put(at + 8 * (2 * dims + d), 8, piece->box.extent[d]);
    }
    memcpy(at + DIMENSION_BYTES * dims, piece->name, name_bytes);
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- parsing */

/* Parses the piece that begins at *at, and moves *at behind it. False: there is no piece. */
static bool parse_piece(const unsigned char *bytes, size_t size, size_t *at, struct piece *piece,
                        char **name)
{
    if (size - *at < PIECE_BYTES_MIN) return false;
    const unsigned char *const from = bytes + *at;
    const size_t name_bytes = (size_t)bytes_get(from, 2), dims = from[3];
    if (!dtype_is_valid((enum tutti_dtype)from[2]) || dims == 0 || dims > BOX_DIMS) return false;
    const size_t all = PIECE_HEAD_BYTES + DIMENSION_BYTES * dims + name_bytes;
    if (all > size - *at) return false;
    *piece = (struct piece){.name = *name, .dtype = (enum tutti_dtype)from[2]};
    piece->box.dims = (int)dims;
    for (size_t d = 0; d < dims; d++) {
        piece->shape[d] = bytes_get(from + PIECE_HEAD_BYTES + 8 * d, 8);
        piece->box.first[d] = bytes_get(from + PIECE_HEAD_BYTES + 8 * (dims + d), 8);
        piece->box.extent[d] = bytes_get(from + PIECE_HEAD_BYTES + 8 * (2 * dims + d), 8);
    }
    memcpy(*name, from + all - name_bytes, name_bytes);
    if (!box_fits(&piece->box, piece->shape) || table_name_mistake(*name, name_bytes) != NULL)
        return false;
    (*name)[name_bytes] = '\0';
    *name += name_bytes + 1;
    *at += all;
    return true;
}

enum tutti_status table_parse(const unsigned char *bytes, size_t size, struct table *table)
{
    size_t at = 0;
    *table = (struct table){0};
    table->pieces = calloc(size / PIECE_BYTES_MIN + 1, sizeof *table->pieces);
    table->names = calloc(size + 1, 1);
    if (table->pieces == NULL || table->names == NULL) {
        table_release(table);
        return error_set(TUTTI_NO_MEMORY, "checkpoint: out of memory");
    }
    for (char *name = table->names; at < size;) {
        struct piece *const piece = &table->pieces[table->count];
        const bool is_piece = parse_piece(bytes, size, &at, piece, &name);
        if (!is_piece || piece_bytes(piece) > data_bytes_max - table->data_bytes) {
            table_release(table);
            return error_set(TUTTI_CORRUPT, "its table makes no sense");
        }
        piece->offset = table->data_bytes;
        table->data_bytes += piece_bytes(piece);
        table->count++;
    }
    return TUTTI_OK;
}

void table_release(struct table *table)
{
    free(table->pieces);
    free(table->names);
    *table = (struct table){0};
}
