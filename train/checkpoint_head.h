/* checkpoint_head.h - the first bytes of a shard's file, and what they say about the rest.
 *
 *     offset  bytes
 *          0      8   "tuttickp"
 *          8      4   version of the form: 1
 *         12      4   rank that wrote it
 *         16      4   so many ranks did
 *         20      4   bytes of a block of data
 *         24      8   number of the checkpoint: random, the same in all its files
 *         32      8   step
 *         40      8   bytes of the table
 *         48      8   bytes of the data
 *         56      4   checksum of the table and of the checksums of the blocks
 *         60      4   checksum of all of this
 *         64          table (checkpoint_table.h); a checksum of 4 bytes for each block of the data;
 *                     zeros up to a multiple of 64; data
 *
 * Pure. Bytes to be parsed are hostile.
 */
#ifndef TUTTI_TRAIN_CHECKPOINT_HEAD_H
#define TUTTI_TRAIN_CHECKPOINT_HEAD_H

#include <stdint.h>

#include "tutti/tutti.h"

enum { HEAD_BYTES = 64, HEAD_BLOCK_BYTES = 1 << 20, HEAD_TABLE_BYTES_MAX = 1 << 28 };

struct head {
    uint32_t rank, rank_count;
    uint64_t id, step;
    uint64_t table_bytes, data_bytes;
    uint32_t rest_sum; /* of table and checksums */
    uint32_t sum;      /* its own; head_print finds it */
};

uint64_t head_blocks(const struct head *head);
/* The offset at which the data begins, and the size of the file. */
uint64_t head_data_offset(const struct head *head);
uint64_t head_file_bytes(const struct head *head);

void head_print(struct head *head, unsigned char bytes[HEAD_BYTES]);
/* CORRUPT, or UNSUPPORTED: of a later version; the message is for "FILE: ". OK promises that sizes
 * have no overflow and a table not more than HEAD_TABLE_BYTES_MAX. */
enum tutti_status head_parse(const unsigned char bytes[HEAD_BYTES], struct head *head);

#endif
