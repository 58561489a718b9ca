/* checkpoint_folder.h - the folder of checkpoints: names in it, what is complete there, and how a checkpoint comes and goes.
 *
 *     begin    other unfinished ones are removed ── step-N/ is made, and on the disk
 *              all ranks write shards, and wait for the disk
 *     commit   names of shards on the disk ── manifest.new written, on the disk ── renamed to manifest ── that name on the disk
 *     remove   manifest away, and that on the disk ── all else away
 *
 * 1. A checkpoint is complete if, and as long as, step-N/manifest is there.
 * 2. Only files and folders of these names are ever removed.
 *
 * One rank calls what changes something, and it alone. Messages are whole: "rank 0: writing FILE: ...".
 */
#ifndef TUTTI_TRAIN_CHECKPOINT_FOLDER_H
#define TUTTI_TRAIN_CHECKPOINT_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct folder {
    char path[PATH_MAX]; /* absolute, short enough for all names in it */
    int rank;            /* for messages */
    int lock;            /* a descriptor; -1: not locked */
};

/* Makes the folder if it has to. SYSTEM, NO_SPACE. */
enum tutti_status folder_make(struct folder *folder, const char *path, int rank);
/* On other ranks, which find it there. */
enum tutti_status folder_find(struct folder *folder, const char *path, int rank);
void folder_unlock(struct folder *folder);

/* The path of a file of a checkpoint, of the checkpoint's own folder if `name` is NULL. */
void folder_path(const struct folder *folder, uint64_t step, const char *name, char path[PATH_MAX]);
void folder_shard_path(const struct folder *folder, uint64_t step, size_t shard,
                       char path[PATH_MAX]);

/* The steps of complete checkpoints, newest first; the caller frees them. SYSTEM, NO_MEMORY. */
enum tutti_status folder_list(const struct folder *folder, uint64_t **steps, size_t *count);
bool folder_has(const struct folder *folder, uint64_t step);

/* SYSTEM, NO_SPACE, NO_MEMORY; the first one also where another run has the folder. */
enum tutti_status folder_begin(struct folder *folder, uint64_t step);
/* *is_complete becomes true at the moment from which on the checkpoint is. */
enum tutti_status folder_commit(const struct folder *folder, uint64_t step, const char *manifest,
                                bool *is_complete);
enum tutti_status folder_remove(const struct folder *folder, uint64_t step);
/* Of the checkpoints up to that step, removes all but the newest `keep`. */
enum tutti_status folder_keep(const struct folder *folder, uint64_t step, size_t keep);

/* The text of a manifest, which the caller frees. SYSTEM, NO_MEMORY. */
enum tutti_status folder_read_manifest(const struct folder *folder, uint64_t step, char **text,
                                       size_t *size);

#endif
