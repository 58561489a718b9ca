/* checkpoint_folder.h - the folder of checkpoints: the names in it, which checkpoints are complete,
 * and how a checkpoint is made and removed.
 *
 *     begin    other unfinished ones are removed ── step-N/ is made, and on the disk
 *              all ranks write shards, and wait for the disk
 *     commit   names of shards on the disk ── manifest.new written, on the disk ── renamed to manifest ── that name on the disk
 *     remove   manifest away, and that on the disk ── all else away
 *
 * 1. A checkpoint is complete if, and as long as, step-N/manifest is there.
 * 2. Only files and folders of these names are ever removed. A link is not followed for that, and
 *    stays, as does anything else of such a name that is no folder. What cannot be removed stays,
 *    too, with a line in the log.
 * 3. The lock ends with the process that took it: children of fork() do not keep it.
 *
 * Only one rank calls the functions that change something. Messages are whole: "rank 0: writing
 * FILE: ...".
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
    struct folder *next_locked;
};

/* Makes the folder unless it is there. SYSTEM, NO_SPACE. */
enum tutti_status folder_make(struct folder *folder, const char *path, int rank);
/* The same for the other ranks, once the folder is there. */
enum tutti_status folder_find(struct folder *folder, const char *path, int rank);
/* A run that has the folder locked may change what is in it. SYSTEM: another run has it. OK if this
 * one has. A locked folder stays where it is in memory. */
enum tutti_status folder_lock(struct folder *folder);
void folder_unlock(struct folder *folder);

/* The path of a file of a checkpoint, of the checkpoint's own folder if `name` is NULL. */
void folder_path(const struct folder *folder, uint64_t step, const char *name, char path[PATH_MAX]);
void folder_shard_path(const struct folder *folder, uint64_t step, size_t shard,
                       char path[PATH_MAX]);

/* The steps of complete checkpoints, newest first; the caller frees them. SYSTEM, NO_MEMORY. */
enum tutti_status folder_list(const struct folder *folder, uint64_t **steps, size_t *count);
bool folder_has(const struct folder *folder, uint64_t step);

/* SYSTEM, also if another run has the folder; NO_SPACE, NO_MEMORY. */
enum tutti_status folder_begin(struct folder *folder, uint64_t step);
/* *is_complete becomes true at the moment at which the checkpoint becomes complete. */
enum tutti_status folder_commit(const struct folder *folder, uint64_t step, const char *manifest,
                                bool *is_complete);
enum tutti_status folder_remove(const struct folder *folder, uint64_t step);
/* Removes the checkpoints up to that step, except the newest `keep` of them. */
void folder_keep(const struct folder *folder, uint64_t step, size_t keep);

/* The text of a manifest, which the caller frees. SYSTEM, NO_MEMORY. */
enum tutti_status folder_read_manifest(const struct folder *folder, uint64_t step, char **text,
                                       size_t *size);

#endif
