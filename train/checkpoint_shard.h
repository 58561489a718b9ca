/* checkpoint_shard.h - the file of one rank: written once, in one go; read in blocks that are
 * compared with their checksums.
 *
 * Messages of failures are whole: "rank 2: writing FILE: No space left on device".
 */
#ifndef TUTTI_TRAIN_CHECKPOINT_SHARD_H
#define TUTTI_TRAIN_CHECKPOINT_SHARD_H

#include <stddef.h>

#include "checkpoint_head.h"

/* Makes the file, which must not be there yet, of that head (whose sums this function computes),
 * table and data, and waits until all of it is on the disk. `rank` is for messages. SYSTEM,
 * NO_SPACE, NO_MEMORY. */
enum tutti_status shard_write(const char *path, int rank, struct head *head,
                              const unsigned char *table, const char *data);

struct shard {
    const char *path; /* the caller's */
    int rank;         /* the rank that reads it, for messages */
    int fd;           /* -1: not open */
    struct head head;
    unsigned char *table; /* [head.table_bytes], and behind it the checksums of blocks */
    char *block;          /* the one that was read last */
    uint64_t block_index; /* UINT64_MAX: none */
};

/* Opens the file, and reads and checks its head and table. After CORRUPT, UNSUPPORTED, SYSTEM or
 * NO_MEMORY the file is closed. */
enum tutti_status shard_open(struct shard *shard, const char *path, int rank);
/* Copies a range of the data. Ranges in rising order read each block once. CORRUPT, SYSTEM. */
enum tutti_status shard_read(struct shard *shard, uint64_t offset, void *to, size_t bytes);
void shard_close(struct shard *shard);

#endif
