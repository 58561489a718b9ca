/* checkpoint_load.c - reading a checkpoint: its manifest once, each shard's table once, and then
 * each rank what it wants. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "checkpoint_find.h"
#include "checkpoint_manifest.h"
#include "checkpoint_shard.h"
#include "checkpoint_state.h"
#include "outside_group.h"

/* Puts the checkpoint's file in front of this thread's message. */
static enum tutti_status about_file(const struct tutti_checkpoints *c, const char *path,
                                    enum tutti_status status)
{
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    return error_set(status, "rank %d: %.300s: %s", c->rank, path, why);
}

/* ------------------------------------------------------------------------------------- manifest */

static enum tutti_status no_memory(const struct tutti_checkpoints *c)
{
    return error_set(TUTTI_NO_MEMORY, "rank %d: out of memory", c->rank);
}

/* Rank 0 reads the text for all; the caller frees it, whatever comes of this. */
static enum tutti_status share_text(struct tutti_checkpoints *c, uint64_t step, char **text,
                                    size_t *size)
{
    enum tutti_status status = TUTTI_OK;
    if (c->rank == 0) status = folder_read_manifest(&c->folder, step, text, size);
    TRY(checkpoint_agree(c->comm, status));
    uint64_t bytes = *size;
    TRY(tutti_broadcast(&bytes, &bytes, 1, TUTTI_UINT64, 0, c->comm));
    *size = (size_t)bytes;
    if (c->rank != 0) *text = malloc(*size + 1);
    TRY(checkpoint_agree(c->comm, *text != NULL ? TUTTI_OK : no_memory(c)));
    return tutti_broadcast(*text, *text, *size, TUTTI_UINT8, 0, c->comm);
}

static enum tutti_status parse_manifest(const struct tutti_checkpoints *c, uint64_t step,
                                        const char *text, size_t size, struct manifest *manifest)
{
    enum tutti_status status = manifest_parse(text, size, manifest);
    if (status == TUTTI_OK && manifest->step != step)
        status = error_set(TUTTI_CORRUPT, "it is of step %llu", (unsigned long long)manifest->step);
    if (status == TUTTI_OK) return TUTTI_OK;
    char path[PATH_MAX];
    folder_path(&c->folder, step, "manifest", path);
    return about_file(c, path, status);
}

/* There is something to release even on failure. */
static enum tutti_status read_manifest(struct tutti_checkpoints *c, uint64_t step,
                                       struct manifest *manifest)
{
    char *text = NULL;
    size_t size = 0;
    *manifest = (struct manifest){0};
    enum tutti_status status = share_text(c, step, &text, &size);
    if (status == TUTTI_OK)
        status = checkpoint_agree(c->comm, parse_manifest(c, step, text, size, manifest));
    free(text);
    return status;
}

/* --------------------------------------------------------------------------------------- tables */

/* Opens a file that the manifest has, and compares what both say. */
static enum tutti_status open_shard(const struct tutti_checkpoints *c,
                                    const struct manifest *manifest, size_t index,
                                    char path[PATH_MAX], struct shard *shard)
{
    folder_shard_path(&c->folder, manifest->step, index, path);
    TRY(shard_open(shard, path, c->rank));
    const struct head *const head = &shard->head;
    if (head->id == manifest->id && head->step == manifest->step && head->rank == index &&
        head->rank_count == manifest->count && head->sum == manifest->shards[index].sum &&
        head_file_bytes(head) == manifest->shards[index].bytes)
        return TUTTI_OK;
    shard_close(shard);
    return error_set(TUTTI_CORRUPT, "rank %d: %.400s: it is of another checkpoint than its manifest",
                     c->rank, path);
}

/* The tables of every n-th shard, one behind the other. */
struct own_tables {
    unsigned char *bytes;
    size_t size;
    int64_t *sizes; /* [shards] */
};

/* Adds the table of an open file. This rank looks at the table before other ranks hear of it. */
static enum tutti_status add_table(const struct tutti_checkpoints *c, const struct shard *shard,
                                   const char *path, size_t index, struct own_tables *own)
{
    const size_t bytes = (size_t)shard->head.table_bytes;
    struct table table;
    unsigned char *const grown = realloc(own->bytes, own->size + bytes + 1);
    if (grown == NULL) return no_memory(c);
    own->bytes = grown;
    memcpy(own->bytes + own->size, shard->table, bytes);
    own->size += bytes;
    own->sizes[index] = (int64_t)bytes;
    enum tutti_status status = table_parse(shard->table, bytes, &table);
    if (status == TUTTI_OK && table.data_bytes != shard->head.data_bytes)
        status = error_set(TUTTI_CORRUPT, "its table is not that of its data");
    table_release(&table);
    return status == TUTTI_OK ? TUTTI_OK : about_file(c, path, status);
}

static enum tutti_status read_tables(const struct tutti_checkpoints *c,
                                     const struct manifest *manifest, struct own_tables *own)
{
    own->sizes = calloc(manifest->count + 1, sizeof *own->sizes);
    if (own->sizes == NULL) return no_memory(c);
    for (size_t s = (size_t)c->rank; s < manifest->count; s += (size_t)c->size) {
        char path[PATH_MAX];
        struct shard shard;
        TRY(open_shard(c, manifest, s, path, &shard));
        const enum tutti_status status = add_table(c, &shard, path, s, own);
        shard_close(&shard);
        TRY(status);
    }
    return TUTTI_OK;
}

static enum tutti_status share_tables(struct tutti_checkpoints *c, const struct manifest *manifest,
                                      struct table **tables)
{
    struct own_tables own = {NULL, 0, NULL};
    const enum tutti_status read = read_tables(c, manifest, &own);
    const enum tutti_status status =
        checkpoint_agree_on_tables(c->comm, read, own.bytes, own.sizes, manifest->count, tables);
    free(own.bytes);
    free(own.sizes);
    return status;
}

/* ----------------------------------------------------------------------------------------- data */

static enum tutti_status copy(struct shard *shard, const struct found *found)
{
    const struct box *const from = &found->from->box, *const to = &found->to->box;
    const size_t element = dtype_size(found->to->dtype);
    const int one = box_run_dimension(from, &found->box), two = box_run_dimension(to, &found->box);
    const int dimension = one > two ? one : two;
    uint64_t run;
    const uint64_t runs = box_runs(&found->box, dimension, &run);
    for (uint64_t i = 0; i < runs; i++) {
        const uint64_t source = box_run_place(from, &found->box, dimension, i);
        const uint64_t target = box_run_place(to, &found->box, dimension, i);
        TRY(shard_read(shard, found->from->offset + source * element,
                       found->data + target * element, (size_t)run * element));
    }
    return TUTTI_OK;
}

/* shard: none is open; afterwards one may be. */
static enum tutti_status read_found(const struct tutti_checkpoints *c,
                                    const struct manifest *manifest, const struct found *found,
                                    size_t count, struct shard *shard)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || found[i].shard != found[i - 1].shard) {
            shard_close(shard);
            TRY(open_shard(c, manifest, found[i].shard, path, shard));
        }
        TRY(copy(shard, &found[i]));
    }
    return TUTTI_OK;
}

static enum tutti_status read_data(const struct tutti_checkpoints *c,
                                   const struct manifest *manifest, const struct found *found,
                                   size_t count)
{
    struct shard shard = {.fd = -1};
    const enum tutti_status status = read_found(c, manifest, found, count, &shard);
    shard_close(&shard);
    return status;
}

static enum tutti_status load(struct tutti_checkpoints *c, const struct manifest *manifest,
                              const struct parts *parts)
{
    struct table *tables;
    struct found *found = NULL;
    size_t count = 0;
    TRY(share_tables(c, manifest, &tables));
    enum tutti_status status = find_parts(tables, manifest->count, parts, &found, &count);
    if (status != TUTTI_OK) {
        char path[PATH_MAX];
        folder_path(&c->folder, manifest->step, NULL, path);
        status = about_file(c, path, status);
    }
    /* Nobody reads before all know that they can: so what tensors hold is only changed for a
     * checkpoint that fits. */
    status = checkpoint_agree(c->comm, status);
    if (status == TUTTI_OK)
        status = checkpoint_agree(c->comm, read_data(c, manifest, found, count));
    free(found);
    checkpoint_agree_release_tables(tables, manifest->count);
    return status;
}

enum tutti_status tutti_checkpoints_load(struct tutti_checkpoints *c, uint64_t step,
                                         const struct tutti_checkpoint_tensor *tensors, size_t count)
{
    struct parts parts;
    struct manifest manifest = {0};
    TRY(outside_group("tutti_checkpoints_load"));
    TRY(tutti_checkpoints_wait(c));
    const struct agree_number number = {"step", step};
    enum tutti_status status = parts_init(&parts, "tutti_checkpoints_load", c->rank, tensors, count);
    status = checkpoint_agree_on(c->comm, status, "tutti_checkpoints_load", &number, 1);
    if (status == TUTTI_OK) status = read_manifest(c, step, &manifest);
    if (status == TUTTI_OK) status = load(c, &manifest, &parts);
    manifest_release(&manifest);
    parts_release(&parts);
    return status;
}
