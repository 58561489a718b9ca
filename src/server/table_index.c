#include "server/table_index.h"

#include <string.h>

/* Of 64 places, those that are taken before the segment grows. */
enum { FULL_OF_64 = 54 };

void table_index_init(struct table_index *index, struct table_memory *memory,
                      const struct table_blocks *blocks)
{
    memset(index, 0, sizeof *index);
    index->memory = memory;
    index->blocks = blocks;
}

void table_index_release(struct table_index *index)
{
    for (int i = 0; i < TABLE_INDEX_SEGMENTS; i++) {
        struct table_segment *const segment = &index->segments[i];
        table_memory_give(index->memory, segment->buckets,
                          (uint64_t)segment->bucket_count * sizeof *segment->buckets);
        *segment = (struct table_segment){NULL, 0, 0};
    }
}

static inline const struct table_segment *segment_of(const struct table_index *index, uint64_t hash)
{
    return &index->segments[hash >> 56];
}

static inline uint32_t home_of(uint32_t bucket_count, uint64_t hash)
{
    return (uint32_t)((uint64_t)(uint32_t)(hash >> 24) * bucket_count >> 32);
}

/* Bytes of the word that are 0, as their highest bits; perhaps some above the first, too. */
static inline uint64_t zeros(uint64_t word)
{
    return (word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080);
}

/* Bit 8 i + 7 - of *high for tags 8 and on - is set for each tag that may be the hash's. */
static inline void match(const struct table_bucket *bucket, uint64_t hash, uint64_t *low,
                         uint32_t *high)
{
    const uint64_t tags = (hash & 0xff) * UINT64_C(0x0101010101010101);
    uint64_t first;
    uint32_t second;
    memcpy(&first, bucket->tags, sizeof first);
    memcpy(&second, bucket->tags + sizeof first, sizeof second);
    *low = zeros(first ^ tags);
    *high = (uint32_t)zeros((uint64_t)second ^ (tags & UINT32_MAX));
}

/* On big-endian machines the first byte is the highest; the order of tags does not matter then, but
 * their number does. */
static inline unsigned tag_of(uint64_t bits, unsigned bytes)
{
    const unsigned byte = (unsigned)__builtin_ctzll(bits) / 8;
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? byte : bytes - 1 - byte;
}

static uint32_t find_in(const struct table_index *index, const struct table_bucket *bucket,
                        uint64_t hash, int64_t row)
{
    uint64_t low;
    uint32_t high;
    match(bucket, hash, &low, &high);
    for (; low != 0; low &= low - 1) {
        const unsigned at = tag_of(low, 8);
        if (at < bucket->count && *table_blocks_row(index->blocks, bucket->places[at]) == row)
            return bucket->places[at];
    }
    for (; high != 0; high &= high - 1) {
        const unsigned at = 8 + tag_of(high, 4);
        if (at < bucket->count && *table_blocks_row(index->blocks, bucket->places[at]) == row)
            return bucket->places[at];
    }
    return TABLE_PLACE_NONE;
}

uint32_t table_index_find(const struct table_index *index, uint64_t hash, int64_t row)
{
    const struct table_segment *const segment = segment_of(index, hash);
    if (segment->bucket_count == 0) return TABLE_PLACE_NONE;
    uint32_t at = home_of(segment->bucket_count, hash);
    for (uint32_t looked = 0; looked < segment->bucket_count; looked++) {
        const struct table_bucket *const bucket = &segment->buckets[at];
        const uint32_t place = find_in(index, bucket, hash, row);
        if (place != TABLE_PLACE_NONE || bucket->count < TABLE_BUCKET_ROWS) return place;
        at = at + 1 == segment->bucket_count ? 0 : at + 1;
    }
    return TABLE_PLACE_NONE;
}

static void put(struct table_bucket *buckets, uint32_t bucket_count, uint64_t hash, uint32_t place)
{
    uint32_t at = home_of(bucket_count, hash);
    while (buckets[at].count == TABLE_BUCKET_ROWS) at = at + 1 == bucket_count ? 0 : at + 1;
    struct table_bucket *const bucket = &buckets[at];
    bucket->tags[bucket->count] = (uint8_t)hash;
    bucket->places[bucket->count++] = place;
}

/* Reads the numbers of a bucket's rows in one go: they lie anywhere in memory. */
static void put_again(const struct table_index *index, const struct table_bucket *old,
                      struct table_bucket *buckets, uint32_t bucket_count)
{
    int64_t rows[TABLE_BUCKET_ROWS];
    for (uint32_t i = 0; i < old->count; i++)
        rows[i] = *table_blocks_row(index->blocks, old->places[i]);
    for (uint32_t i = 0; i < old->count; i++)
        put(buckets, bucket_count, table_index_hash(rows[i]), old->places[i]);
}

static bool grow(struct table_index *index, struct table_segment *segment)
{
    const uint32_t old_count = segment->bucket_count, count = old_count + old_count / 4 + 1;
    const uint64_t bytes = (uint64_t)count * sizeof *segment->buckets;
    struct table_bucket *const buckets = table_memory_take(index->memory, bytes);
    if (buckets == NULL) return false;
    memset(buckets, 0, bytes);
    for (uint32_t i = 0; i < old_count; i++) {
        if (i + 1 < old_count)
            for (uint32_t j = 0; j < segment->buckets[i + 1].count; j++)
                __builtin_prefetch(
                    table_blocks_row(index->blocks, segment->buckets[i + 1].places[j]));
        put_again(index, &segment->buckets[i], buckets, count);
    }
    table_memory_give(index->memory, segment->buckets,
                      (uint64_t)old_count * sizeof *segment->buckets);
    segment->buckets = buckets;
    segment->bucket_count = count;
    return true;
}

bool table_index_reserve(struct table_index *index, uint64_t hash)
{
    struct table_segment *const segment = &index->segments[hash >> 56];
    const uint64_t most = (uint64_t)segment->bucket_count * TABLE_BUCKET_ROWS * FULL_OF_64 / 64;
    return segment->row_count < most || grow(index, segment);
}

void table_index_put(struct table_index *index, uint64_t hash, uint32_t place)
{
    struct table_segment *const segment = &index->segments[hash >> 56];
    put(segment->buckets, segment->bucket_count, hash, place);
    segment->row_count++;
}

void table_index_fetch_bucket(const struct table_index *index, uint64_t hash)
{
    const struct table_segment *const segment = segment_of(index, hash);
    if (segment->bucket_count > 0)
        __builtin_prefetch(&segment->buckets[home_of(segment->bucket_count, hash)]);
}

void table_index_fetch_row(const struct table_index *index, uint64_t hash)
{
    const struct table_segment *const segment = segment_of(index, hash);
    if (segment->bucket_count == 0) return;
    const struct table_bucket *const bucket =
        &segment->buckets[home_of(segment->bucket_count, hash)];
    uint64_t low;
    uint32_t high;
    match(bucket, hash, &low, &high);
    if (low == 0 && high == 0) return;
    const unsigned at = low != 0 ? tag_of(low, 8) : 8 + tag_of(high, 4);
    if (at < bucket->count) __builtin_prefetch(table_blocks_row(index->blocks, bucket->places[at]));
}
