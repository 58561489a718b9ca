/* local_take.c - the state of local training goes to another communicator: to the survivors of a
 * failure, and to ranks that join.
 *
 *     of each fragment, all ranks get the values of the first rank among those that have taken the
 *     most synchronisations; the parameters of ranks that have taken fewer become these values
 */
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/status.h"
#include "local_state.h"

static enum tutti_status refuse(const char *why)
{
    return error_set(TUTTI_INVALID_OPTIONS, "tutti_local_take: %s", why);
}

static bool is_same_list(const struct tutti_local *a, const struct tutti_local *b)
{
    bool is_same = a->tensor_count == b->tensor_count && a->fragment_count == b->fragment_count;
    for (size_t i = 0; is_same && i < a->tensor_count; i++)
        is_same = strcmp(a->tensors[i].name, b->tensors[i].name) == 0 &&
                  a->tensors[i].count == b->tensors[i].count &&
                  a->tensors[i].fragment == b->tensors[i].fragment;
    return is_same;
}

static enum tutti_status check_pair(const struct tutti_local *c, const struct tutti_local *from)
{
    TRY(local_check_works(c, "tutti_local_take"));
    if (c->has_begun) return refuse("it has taken a step, or has state, already");
    if (from == NULL) return TUTTI_OK;
    if (from == c) return refuse("the state must be that of another one");
    if (from->has_given) return refuse("the other one has given its state away before; free it");
    if (!is_same_list(c, from)) return refuse("the other one has other tensors or fragments");
    return TUTTI_OK;
}

/* What each rank has: synchronisations + 1 of each fragment, and steps + 1; 0: no state. */
struct having {
    int64_t *own, *most, *first; /* first: the first rank that has the most */
};

static enum tutti_status get_ready(const struct tutti_local *c, const struct tutti_local *from,
                                   struct having *having)
{
    TRY(check_pair(c, from));
    having->own = calloc(3 * (c->fragment_count + 1), sizeof *having->own);
    if (having->own == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_local_take: out of memory");
    having->most = having->own + c->fragment_count + 1;
    having->first = having->most + c->fragment_count + 1;
    return TUTTI_OK;
}

static void take_own(struct tutti_local *c, struct tutti_local *from, struct having *having)
{
    const size_t count = c->fragment_count;
    for (size_t f = 0; f < count; f++) {
        struct local_fragment *const to = &c->fragments[f], *const old = &from->fragments[f];
        const size_t bytes = to->count * sizeof(float);
        to->rounds = old->rounds;
        having->own[f] = (int64_t)old->rounds + 1;
        if (bytes > 0) memcpy(to->global, old->global, bytes);
        if (to->momentum != NULL && old->momentum != NULL)
            memcpy(to->momentum, old->momentum, bytes);
    }
    having->own[count] = (int64_t)from->steps + 1;
    c->dropped = from->dropped;
    from->is_broken = from->has_given = true;
}

static enum tutti_status share_fragment(struct tutti_local *c, size_t f, const struct having *having)
{
    struct local_fragment *const fragment = &c->fragments[f];
    const int root = (int)having->first[f];
    if (fragment->count > 0)
        TRY(tutti_broadcast(fragment->global, fragment->global, fragment->count, TUTTI_FLOAT32,
                            root, c->comm));
    if (fragment->momentum != NULL)
        TRY(tutti_broadcast(fragment->momentum, fragment->momentum, fragment->count, TUTTI_FLOAT32,
                            root, c->comm));
    if (having->own[f] < having->most[f]) local_reset(c, fragment);
    fragment->rounds = (uint64_t)having->most[f] - 1;
    return TUTTI_OK;
}

static enum tutti_status take_all(struct tutti_local *c, struct tutti_local *from,
                                  struct having *having)
{
    const size_t count = c->fragment_count + 1;
    if (from != NULL) take_own(c, from, having);
    TRY(tutti_allreduce(having->own, having->most, count, TUTTI_INT64, TUTTI_MAX, c->comm));
    if (having->most[count - 1] == 0) return TUTTI_OK; /* no rank had state */
    for (size_t i = 0; i < count; i++)
        having->first[i] = having->own[i] == having->most[i] ? c->rank : c->size;
    TRY(tutti_allreduce(having->first, having->first, count, TUTTI_INT64, TUTTI_MIN, c->comm));
    TRY(tutti_broadcast(&c->dropped, &c->dropped, 1, TUTTI_UINT64, (int)having->first[count - 1],
                        c->comm));
    for (size_t f = 0; f < c->fragment_count; f++) TRY(share_fragment(c, f, having));
    c->steps = c->base = (uint64_t)having->most[count - 1] - 1;
    c->has_begun = true;
    return TUTTI_OK;
}

enum tutti_status tutti_local_take(struct tutti_local *c, struct tutti_local *from)
{
    const struct agreement agreement = {"tutti_local_take", 1, NULL, NULL};
    struct having having = {NULL, NULL, NULL};
    if (from != NULL && from != c) local_settle(from);
    enum tutti_status status =
        agree_on_making(c->comm, get_ready(c, from, &having), &agreement, NULL);
    if (status == TUTTI_OK) {
        status = take_all(c, from, &having);
        if (status != TUTTI_OK) c->is_broken = true;
    }
    free(having.own);
    return status;
}
