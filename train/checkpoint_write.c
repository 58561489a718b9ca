/* checkpoint_write.c - the way of one checkpoint to the disk, on all ranks: what the writing thread
 * does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "checkpoint_manifest.h"
#include "checkpoint_shard.h"
#include "checkpoint_state.h"
#include "os/clock.h"

/* The facts that rank 0 has to know of every shard. They go from rank to rank as they lie in
 * memory. */
struct note {
    uint64_t bytes, sum;
};

static enum tutti_status write_own(struct tutti_checkpoints *c, uint64_t id, struct note *note)
{
    const struct save_plan *const plan = &c->plan;
    struct head head = {.rank = (uint32_t)c->rank,
                        .rank_count = (uint32_t)c->size,
                        .id = id,
                        .step = c->writing.step,
                        .table_bytes = plan->table.size,
                        .data_bytes = plan->data_bytes};
    char path[PATH_MAX];
    folder_shard_path(&c->folder, c->writing.step, (size_t)c->rank, path);
    TRY(shard_write(path, c->rank, &head, plan->table.bytes, plan->copy));
    *note = (struct note){head_file_bytes(&head), head.sum};
    c->writing.bytes = note->bytes;
    return TUTTI_OK;
}

/* Checks that rank 0 sees the files of the other ranks, in full length. */
static enum tutti_status look_for_shards(const struct tutti_checkpoints *c, const struct note *notes)
{
    for (int r = 0; r < c->size; r++) {
        char path[PATH_MAX];
        struct stat about;
        folder_shard_path(&c->folder, c->writing.step, (size_t)r, path);
        if (stat(path, &about) != 0)
            return error_system("rank %d: looking for %.400s, which rank %d wrote", c->rank, path,
                                r);
        if ((uint64_t)about.st_size != notes[r].bytes)
            return error_set(TUTTI_SYSTEM, "rank %d: %.400s has %lld bytes; rank %d wrote %llu",
                             c->rank, path, (long long)about.st_size, r,
                             (unsigned long long)notes[r].bytes);
    }
    return TUTTI_OK;
}

static enum tutti_status commit(struct tutti_checkpoints *c, uint64_t id, const struct note *notes,
                                bool *is_complete)
{
    struct manifest manifest = {.step = c->writing.step, .id = id, .count = (size_t)c->size};
    char *text = NULL;
    TRY(look_for_shards(c, notes));
    manifest.shards = calloc(manifest.count, sizeof *manifest.shards);
    for (size_t r = 0; manifest.shards != NULL && r < manifest.count; r++)
        manifest.shards[r] = (struct manifest_shard){notes[r].bytes, (uint32_t)notes[r].sum};
    if (manifest.shards != NULL) text = manifest_print(&manifest);
    manifest_release(&manifest);
    if (text == NULL) return error_set(TUTTI_NO_MEMORY, "rank %d: out of memory", c->rank);
    enum tutti_status status = folder_commit(&c->folder, c->writing.step, text, is_complete);
    free(text);
    if (status != TUTTI_OK) return status;
    folder_keep(&c->folder, c->writing.step, (size_t)c->options.keep);
    return TUTTI_OK;
}

static uint64_t draw_id(void)
{
    uint64_t id = 0;
    if (getrandom(&id, sizeof id, 0) != sizeof id) id = clock_now_ns();
    return id;
}

/* Rank 0's part ends all: the other ranks only wait for it. */
static enum tutti_status write_all_ranks(struct tutti_checkpoints *c, struct note *notes,
                                         bool *is_begun, bool *is_complete)
{
    struct note note = {0, 0};
    uint64_t id = draw_id();
    enum tutti_status status = TUTTI_OK;
    if (c->rank == 0) status = folder_begin(&c->folder, c->writing.step);
    *is_begun = status == TUTTI_OK;
    TRY(checkpoint_agree(c->comm, status));
    TRY(tutti_broadcast(&id, &id, 1, TUTTI_UINT64, 0, c->comm));
    TRY(checkpoint_agree(c->comm, write_own(c, id, &note)));
    TRY(tutti_gather(&note, notes, 2, TUTTI_UINT64, 0, c->comm));
    if (c->rank == 0) status = commit(c, id, notes, is_complete);
    return checkpoint_agree(c->comm, status);
}

void checkpoint_write(struct tutti_checkpoints *c)
{
    bool is_begun = false, is_complete = false;
    struct note *const notes = calloc((size_t)c->size, sizeof *notes);
    enum tutti_status status = checkpoint_agree(
        c->comm,
        notes != NULL ? TUTTI_OK : error_set(TUTTI_NO_MEMORY, "rank %d: out of memory", c->rank));
    if (status == TUTTI_OK) status = write_all_ranks(c, notes, &is_begun, &is_complete);
    free(notes);
    c->writing.status = status;
    error_copy(c->writing.message, sizeof c->writing.message);
    if (c->rank == 0 && status != TUTTI_OK && is_begun && !is_complete)
        (void)!folder_remove(&c->folder, c->writing.step);
    c->writing.ended_ns = clock_now_ns();
}
