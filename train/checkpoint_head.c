#include "checkpoint_head.h"

#include <string.h>

#include "base/crc32c.h"
#include "base/status.h"
#include "checkpoint_bytes.h"

enum { VERSION = 1, ALIGNMENT = 64, SUM_OFFSET = HEAD_BYTES - 4 };
static const char magic[8] = {'t', 'u', 't', 't', 'i', 'c', 'k', 'p'};
static const uint64_t data_bytes_max = UINT64_C(1) << 60;

uint64_t head_blocks(const struct head *head)
{
    return (head->data_bytes + HEAD_BLOCK_BYTES - 1) / HEAD_BLOCK_BYTES;
}

uint64_t head_data_offset(const struct head *head)
{
    const uint64_t before = HEAD_BYTES + head->table_bytes + 4 * head_blocks(head);
    return (before + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

uint64_t head_file_bytes(const struct head *head)
{
    return head_data_offset(head) + head->data_bytes;
}

void head_print(struct head *head, unsigned char bytes[HEAD_BYTES])
{
    memcpy(bytes, magic, sizeof magic);
    bytes_put(bytes + 8, 4, VERSION);
    bytes_put(bytes + 12, 4, head->rank);
    bytes_put(bytes + 16, 4, head->rank_count);
    bytes_put(bytes + 20, 4, HEAD_BLOCK_BYTES);
    bytes_put(bytes + 24, 8, head->id);
    bytes_put(bytes + 32, 8, head->step);
    bytes_put(bytes + 40, 8, head->table_bytes);
    bytes_put(bytes + 48, 8, head->data_bytes);
    bytes_put(bytes + 56, 4, head->rest_sum);
    head->sum = crc32c(0, bytes, SUM_OFFSET);
    bytes_put(bytes + SUM_OFFSET, 4, head->sum);
}

enum tutti_status head_parse(const unsigned char bytes[HEAD_BYTES], struct head *head)
{
    const uint64_t version = bytes_get(bytes + 8, 4);
    *head = (struct head){.rank = (uint32_t)bytes_get(bytes + 12, 4),
                          .rank_count = (uint32_t)bytes_get(bytes + 16, 4),
                          .id = bytes_get(bytes + 24, 8),
                          .step = bytes_get(bytes + 32, 8),
                          .table_bytes = bytes_get(bytes + 40, 8),
                          .data_bytes = bytes_get(bytes + 48, 8),
                          .rest_sum = (uint32_t)bytes_get(bytes + 56, 4),
                          .sum = (uint32_t)bytes_get(bytes + SUM_OFFSET, 4)};
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return error_set(TUTTI_CORRUPT, "this is no file of a checkpoint");
    if (version > VERSION)
        return error_set(TUTTI_UNSUPPORTED,
                         "a later version of Tutti wrote it: form %llu, this one reads %d",
                         (unsigned long long)version, VERSION);
    if (crc32c(0, bytes, SUM_OFFSET) != head->sum)
        return error_set(TUTTI_CORRUPT, "its head is damaged");
    if (version != VERSION || bytes_get(bytes + 20, 4) != HEAD_BLOCK_BYTES ||
        head->rank >= head->rank_count || head->table_bytes > HEAD_TABLE_BYTES_MAX ||
        head->data_bytes > data_bytes_max)
        return error_set(TUTTI_CORRUPT, "its head makes no sense");
    return TUTTI_OK;
}
