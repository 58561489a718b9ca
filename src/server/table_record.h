/* table_record.h - the bytes of a record of a copy, little-endian.
 *
 *     0  magic   4  kind   8  checksum of all that follows   12  index of the table
 *     16  bytes of the body   24  rows or elements           32  body
 *
 *     table    table_record_spec.c
 *     rows     numbers of rows, 8 bytes each; records of values and state
 *     dense    8 bytes: the first element, counted from the share's; values; state
 *     end      8 bytes: version; 8 bytes: number of tables
 */
#ifndef TUTTI_SERVER_TABLE_RECORD_H
#define TUTTI_SERVER_TABLE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/crc32c.h"
#include "server/table.h"

enum table_record_kind { RECORD_TABLE = 1, RECORD_ROWS, RECORD_DENSE, RECORD_END };

enum {
    RECORD_HEADER_BYTES = 32,
    RECORD_CHECKED_FROM = 12,
    RECORD_END_BYTES = 16,
    RECORD_DENSE_HEAD_BYTES = 8,
    RECORD_SPEC_BYTES = 152, /* of a table without its name */
    RECORD_SPEC_BYTES_MAX = RECORD_SPEC_BYTES + TABLE_NAME_BYTES_MAX + 1
};
#define RECORD_MAGIC UINT32_C(0x62615454) /* "TTab" */

struct table_record {
    enum table_record_kind kind;
    uint32_t table;
    uint64_t body_bytes;
    uint64_t count;
};

static inline void record_put(unsigned char *at, size_t size, uint64_t number)
{
    for (size_t i = 0; i < size; i++) at[i] = (unsigned char)(number >> 8 * i);
}

static inline uint64_t record_get(const unsigned char *at, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) number |= (uint64_t)at[i] << 8 * i;
    return number;
}

/* Numbers of `size` bytes each, from the order of this machine or to it. */
static inline void record_swap(void *to, const void *from, size_t size, size_t count)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(to, from, size * count);
#else
    for (size_t i = 0; i < size * count; i++)
        ((unsigned char *)to)[i] =
            ((const unsigned char *)from)[i / size * size + size - 1 - i % size];
#endif
}

/* Writes the header in front of a body that is there. */
static inline void record_finish(unsigned char *at, const struct table_record *record)
{
    record_put(at, 4, RECORD_MAGIC);
    record_put(at + 4, 4, record->kind);
    record_put(at + 12, 4, record->table);
    record_put(at + 16, 8, record->body_bytes);
    record_put(at + 24, 8, record->count);
    record_put(at + 8, 4,
               crc32c(0, at + RECORD_CHECKED_FROM,
                      RECORD_HEADER_BYTES - RECORD_CHECKED_FROM + record->body_bytes));
}

/* The body of a table's record: RECORD_SPEC_BYTES and the name, with zeros up to a multiple of 4. */
size_t table_record_spec_bytes(const struct table_spec *spec);
void table_record_spec_print(const struct table_spec *spec, uint64_t steps, unsigned char *body);
/* Reads it; the spec's name is in name[TABLE_NAME_BYTES_MAX + 1], and its function NULL. false: it is
 * not what was printed. Whether the spec can be used is for tables_add to say. */
bool table_record_spec_parse(const unsigned char *body, size_t bytes, struct table_spec *spec,
                             char *name, uint64_t *steps);
/* Whether they differ in more than rate, function and context. */
bool table_record_spec_differs(const struct table_spec *a, const struct table_spec *b);

#endif
