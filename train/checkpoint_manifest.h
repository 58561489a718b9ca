/* checkpoint_manifest.h - the file whose presence makes a checkpoint complete; it lists the files
 * that belong to the checkpoint.
 *
 *     tutti checkpoint 1
 *     step 1200
 *     id 0f1e2d3c4b5a6978            random, the same in all files of the checkpoint
 *     shards 2
 *     1049344 0a1b2c3d               bytes of shard-00000, checksum of its head
 *     524992 4d5e6f70                of shard-00001
 *     end 12345678                   checksum of all lines before
 *
 * Pure. Texts are hostile; one manifest has one text, so a manifest that was parsed prints as the
 * same.
 */
#ifndef TUTTI_TRAIN_CHECKPOINT_MANIFEST_H
#define TUTTI_TRAIN_CHECKPOINT_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum { MANIFEST_SHARDS_MAX = 100000, MANIFEST_BYTES_MAX = 1 << 22 };

struct manifest_shard {
    uint64_t bytes;
    uint32_t sum;
};

struct manifest {
    uint64_t step, id;
    struct manifest_shard *shards;
    size_t count;
};

/* A text that the caller frees; NULL: no memory. */
char *manifest_print(const struct manifest *manifest);
/* NO_MEMORY; CORRUPT or UNSUPPORTED (of a later version), with a message for "FILE: ". On failure
 * there is nothing to release. */
enum tutti_status manifest_parse(const char *text, size_t size, struct manifest *manifest);
void manifest_release(struct manifest *manifest);

#endif
