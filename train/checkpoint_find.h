/* checkpoint_find.h - finds the elements that a rank wants in the files of a checkpoint.
 *
 * Pure. Each wanted element is found once, although files may have it several times.
 */
#ifndef TUTTI_TRAIN_CHECKPOINT_FIND_H
#define TUTTI_TRAIN_CHECKPOINT_FIND_H

#include "checkpoint_part.h"

/* Files are hostile: of the blocks that hold a tensor, a load reads each so many times on average,
 * for each part of the tensor that the rank wants. */
enum { FIND_READS_A_BLOCK = 64 };

/* Elements of a piece in a file that go to a piece in memory. */
struct found {
    const struct piece *from; /* in the table of that shard */
    size_t shard;
    const struct piece *to; /* its elements lie in `data` without gaps */
    char *data;
    struct box box; /* of the elements; lies in both */
};

/* Finds the elements of all parts in the shards' tables, in the order of shards and of places in
 * them; the caller frees *found. MISMATCH (a tensor is missing, in whole or in part, or has another
 * dtype or shape): the message, for "FOLDER: ", says which tensor. UNSUPPORTED: to find or to read
 * its elements would take too long, because many pieces of a tensor cross each other. NO_MEMORY. */
enum tutti_status find_parts(const struct table *tables, size_t shard_count,
                             const struct parts *parts, struct found **found, size_t *count);

#endif
