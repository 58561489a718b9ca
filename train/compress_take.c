/* compress_take.c - the compressor's state goes to another compressor, by the names of tensors.
 *
 *     residual            stays on its rank
 *     owner's residual    goes to the rank that owns the elements now, bit for bit
 *     basis, steps        all ranks have those of the first rank that has any
 */
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/hash.h"
#include "base/status.h"
#include "compress_state.h"

/* All that has to be there before anything changes. */
struct taking {
    struct compress_tensor **old; /* for each tensor: that of the same name and shape, or NULL */
    float *room;                  /* for any tensor */
};

static enum tutti_status check_pair(const struct tutti_compressor *c,
                                    const struct tutti_compressor *from)
{
    TRY(compress_check_rest(c, "take"));
    if (c->is_broken)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_compressor_take: a step of this compressor failed before, or its "
                         "state was given away; free it");
    if (from == NULL) return TUTTI_OK;
    if (from->has_given)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_compressor_take: the other compressor has "
                                                "given its state away before; free it");
    if (from == c || from->tensors == NULL)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_compressor_take: the state must be that of another compressor");
    const struct tutti_compressor_options *const a = &c->options, *const b = &from->options;
    if (a->method == b->method && a->encoding == b->encoding && a->rank == b->rank &&
        (a->feedback != 0) == (b->feedback != 0))
        return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "tutti_compressor_take: method, encoding, rank and feedback must be %d, %d, "
                     "%d and %d as in the other compressor, are %d, %d, %d and %d",
                     (int)b->method, (int)b->encoding, b->rank, b->feedback != 0, (int)a->method,
                     (int)a->encoding, a->rank, a->feedback != 0);
}

static int compare_tensors(const void *a, const void *b)
{
    return strcmp((*(struct compress_tensor *const *)a)->name,
                  (*(struct compress_tensor *const *)b)->name);
}

/* Tensors by name; the caller frees the list. NULL: out of memory. */
static struct compress_tensor **sort_by_name(const struct tutti_compressor *c)
{
    struct compress_tensor **const sorted = malloc((c->tensor_count + 1) * sizeof *sorted);
    if (sorted == NULL) return NULL;
    for (size_t i = 0; i < c->tensor_count; i++) sorted[i] = &c->tensors[i];
    qsort(sorted, c->tensor_count, sizeof *sorted, compare_tensors);
    return sorted;
}

static bool are_alike(const struct compress_tensor *a, const struct compress_tensor *b)
{
    return a->rows == b->rows && a->columns == b->columns && a->is_compressed && b->is_compressed;
}

/* Fills taking->old from two sorted lists. */
static void match(const struct tutti_compressor *c, struct compress_tensor **mine,
                  const struct tutti_compressor *from, struct compress_tensor **others,
                  struct taking *taking)
{
    for (size_t i = 0, j = 0; i < c->tensor_count && j < from->tensor_count;) {
        const int order = strcmp(mine[i]->name, others[j]->name);
        if (order == 0 && are_alike(mine[i], others[j]))
            taking->old[mine[i] - c->tensors] = others[j];
        i += order <= 0;
        j += order >= 0;
    }
}

static enum tutti_status find_matches(const struct tutti_compressor *c,
                                      const struct tutti_compressor *from, struct taking *taking)
{
    struct compress_tensor **const mine = sort_by_name(c), **const others = sort_by_name(from);
    const bool is_there = mine != NULL && others != NULL;
    if (is_there) match(c, mine, from, others, taking);
    free(mine);
    free(others);
    if (is_there) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "tutti_compressor_take: out of memory");
}

static bool has_owners(const struct tutti_compressor *c, const struct compress_tensor *t)
{
    return c->options.method == TUTTI_COMPRESS_ENCODED && t->residual != NULL;
}

static enum tutti_status get_ready(const struct tutti_compressor *c,
                                   const struct tutti_compressor *from, struct taking *taking)
{
    size_t most = 0;
    TRY(check_pair(c, from));
    for (size_t i = 0; i < c->tensor_count; i++)
        if (has_owners(c, &c->tensors[i]) && c->tensors[i].count > most) most = c->tensors[i].count;
    taking->old = calloc(c->tensor_count + 1, sizeof *taking->old);
    taking->room = malloc((most + 1) * sizeof *taking->room);
    if (taking->old == NULL || taking->room == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_compressor_take: out of memory");
    return from != NULL ? find_matches(c, from, taking) : TUTTI_OK;
}

/* ---------------------------------------------------------------------------------------- taking */

/* Elements of ranks that are gone are zeros. Every element has one owner, so that bits can be put
 * together. */
static enum tutti_status move_owned(struct tutti_compressor *c, const struct taking *taking)
{
    for (size_t i = 0; i < c->tensor_count; i++) {
        struct compress_tensor *const t = &c->tensors[i];
        const struct compress_tensor *const old = taking->old[i] != NULL ? taking->old[i] : t;
        float *const room = taking->room;
        if (!has_owners(c, t)) continue;
        memset(room, 0, t->count * sizeof *room);
        if (old->owner != NULL)
            memcpy(room + old->own_first, old->owner, old->own_count * sizeof *room);
        TRY(tutti_allreduce(room, room, t->count, TUTTI_UINT32, TUTTI_BOR, c->comm));
        if (t->owner != NULL) memcpy(t->owner, room + t->own_first, t->own_count * sizeof *room);
    }
    return TUTTI_OK;
}

/* The result tells which tensors take state. */
static uint64_t take_own(struct tutti_compressor *c, struct tutti_compressor *from,
                         const struct taking *taking)
{
    uint64_t hash = 3;
    for (size_t i = 0; i < c->tensor_count; i++) {
        struct compress_tensor *const to = &c->tensors[i], *const old = taking->old[i];
        if (old == NULL) continue;
        float *const residual = to->residual;
        to->residual = old->residual;
        old->residual = residual;
        memcpy(to->basis, old->basis, (size_t)to->rank * to->columns * sizeof *to->basis);
        hash = hash_take(hash, i);
    }
    c->steps = from->steps;
    from->is_broken = from->has_given = true;
    return hash >> 2;
}

static enum tutti_status take_all(struct tutti_compressor *c, struct tutti_compressor *from,
                                  const struct taking *taking)
{
    const bool has = from != NULL;
    const int64_t own = has ? (int64_t)take_own(c, from, taking) : 0;
    const int64_t send[3] = {has ? c->rank : c->size, has ? own : INT64_MAX, has ? -own : INT64_MAX};
    int64_t least[3];
    TRY(tutti_allreduce(send, least, 3, TUTTI_INT64, TUTTI_MIN, c->comm));
    if (least[0] == c->size) return TUTTI_OK; /* no rank had state */
    if (least[1] != -least[2])
        return error_set(TUTTI_MISMATCH,
                         "tutti_compressor_take: ranks took the state of different tensors");
    const int root = (int)least[0];
    TRY(tutti_broadcast(&c->steps, &c->steps, 1, TUTTI_UINT64, root, c->comm));
    TRY(tutti_broadcast(c->basis_memory, c->basis_memory, c->basis_count, TUTTI_FLOAT32, root,
                        c->comm));
    return move_owned(c, taking);
}

enum tutti_status tutti_compressor_take(struct tutti_compressor *c, struct tutti_compressor *from)
{
    const struct agreement agreement = {"tutti_compressor_take", 1, NULL, NULL};
    struct taking taking = {NULL, NULL};
    enum tutti_status status =
        agree_on_making(c->comm, get_ready(c, from, &taking), &agreement, NULL);
    if (status == TUTTI_OK) {
        status = take_all(c, from, &taking);
        if (status != TUTTI_OK) c->is_broken = true;
    }
    free(taking.old);
    free(taking.room);
    return status;
}
