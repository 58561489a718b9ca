/* table_index.h - from a row's number to its place: open addressing, in segments that grow one by
 * one.
 *
 *     hash   │ 8 bits: segment │ 32 bits: where in the segment │ .. │ 8 bits: tag │
 *
 *     segment   bucket │ bucket │ bucket │ ..       any number of buckets, a cache line each
 *     bucket    12 tags │ count │ 12 places
 *
 * A row that finds its bucket full goes to the next one that is not; so a search ends at the first
 * bucket that is not full. The numbers of rows lie with the rows: a tag of 8 bits spares most looks
 * at rows that are not the one. A segment grows by a quarter, so 4.5 to 7 bytes of index are spent
 * on a row; when it does, its rows' numbers are read, and nothing else of the index is touched.
 *
 * The hash of a row is the same for everybody: whoever picks rows so that they meet in one segment
 * makes it slow. Workers are members of the job.
 */
#ifndef TUTTI_SERVER_TABLE_INDEX_H
#define TUTTI_SERVER_TABLE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/table_blocks.h"
#include "server/table_memory.h"

enum { TABLE_INDEX_SEGMENTS = 256, TABLE_BUCKET_ROWS = 12 };

struct table_bucket {
    uint8_t tags[TABLE_BUCKET_ROWS];
    uint32_t count;
    uint32_t places[TABLE_BUCKET_ROWS];
};
_Static_assert(sizeof(struct table_bucket) == 64, "a bucket is a cache line");

struct table_segment {
    struct table_bucket *buckets; /* NULL if there is no row */
    uint32_t bucket_count, row_count;
};

struct table_index {
    struct table_memory *memory;
    const struct table_blocks *blocks; /* with the rows' numbers */
    struct table_segment segments[TABLE_INDEX_SEGMENTS];
};

void table_index_init(struct table_index *index, struct table_memory *memory,
                      const struct table_blocks *blocks);
void table_index_release(struct table_index *index);

static inline uint64_t table_index_hash(int64_t row)
{
    uint64_t z = (uint64_t)row + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* The place of the row whose hash this is, or TABLE_PLACE_NONE. */
uint32_t table_index_find(const struct table_index *index, uint64_t hash, int64_t row);
/* Makes room for one more row of that hash. false: there is no memory. */
bool table_index_reserve(struct table_index *index, uint64_t hash);
/* Adds a place, for which room was reserved, and whose row is in the blocks, and not yet here. */
void table_index_put(struct table_index *index, uint64_t hash, uint32_t place);

/* For many rows: they are found quickly if memory is asked for them in advance. First the bucket,
 * then the number of the row which it probably has. */
void table_index_fetch_bucket(const struct table_index *index, uint64_t hash);
void table_index_fetch_row(const struct table_index *index, uint64_t hash);

#endif
