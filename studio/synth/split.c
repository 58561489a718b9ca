#include "studio/synth/split.h"

#include <stdlib.h>

#include "base/status.h"
#include "studio/synth/late.h"

/* A switch on its way out. Splits are done by the dozen before anybody asks whether all still fits;
 * a dozen that was wrong is undone, and done anew with the cuts that were found. One split that
 * keeps to all known cuts and is wrong still finds a new cut: it ends. */
struct removal {
    struct residual *residual;
    struct splits *splits;
    struct residual_mark mark;
    int via, next; /* the switch; the node to which the next split goes */
    int batch;     /* splits before somebody asks */
};

static enum tutti_status note(struct splits *splits, struct split split)
{
    if (splits->count == splits->room) {
        const int room = splits->room > 0 ? 2 * splits->room : 64;
        struct split *larger = realloc(splits->of, (size_t)room * sizeof *larger);
        if (larger == NULL) return error_set(TUTTI_NO_MEMORY, "%d splits", room);
        splits->of = larger;
        splits->room = room;
    }
    splits->of[splits->count++] = split;
    return TUTTI_OK;
}

/* A set loses what went out of it and comes back. */
static bool narrows(const struct residual_cut *cut, const struct split *split)
{
    return cut->has[split->from] == cut->has[split->to] &&
           cut->has[split->via] != cut->has[split->to];
}

static int64_t allowed(const struct residual *residual, const struct split *split)
{
    const int64_t in = *residual_room(residual, split->from, split->via);
    const int64_t out = *residual_room(residual, split->via, split->to);
    int64_t amount = in < out ? in : out;
    for (int i = 0; i < residual->cut_count && amount > 0; i++)
        if (narrows(&residual->cuts[i], split) && residual->cuts[i].slack < amount)
            amount = residual->cuts[i].slack;
    return amount > 0 ? amount : 0;
}

static enum tutti_status apply(struct removal *removal, const struct split *split)
{
    struct residual *residual = removal->residual;
    *residual_room(residual, split->from, split->via) -= split->amount;
    *residual_room(residual, split->via, split->to) -= split->amount;
    if (split->from != split->to) *residual_room(residual, split->from, split->to) += split->amount;
    for (int i = 0; i < residual->cut_count; i++)
        if (narrows(&residual->cuts[i], split)) residual->cuts[i].slack -= split->amount;
    return split->from != split->to ? note(removal->splits, *split) : TUTTI_OK;
}

/* Finds a node whose edge to the switch has capacity left, and a node to which this capacity may go
 * on. Amounts are shares, so that a rank gets many neighbours and trees stay flat. As the last
 * resort, an edge is lost. */
static bool find(struct removal *removal, struct split *split)
{
    const struct residual *residual = removal->residual;
    const int nodes = residual->node_count;
    for (int from = 0; from < nodes; from++) {
        const int64_t in = *residual_room(residual, from, removal->via);
        for (int i = 0; in > 0 && i <= nodes; i++) {
            const int to = i < nodes ? (removal->next + i) % nodes : from;
            if (i < nodes && to == from) continue;
            *split = (struct split){from, removal->via, to, 0};
            split->amount = allowed(residual, split);
            if (split->amount == 0) continue;
            removal->next = (to + 1) % nodes;
            return true;
        }
    }
    return false;
}

static int64_t share_of(const struct residual *residual, int via)
{
    enum { NEIGHBOURS = 8 };
    int64_t widest = 0;
    for (int i = 0; i < residual->node_count; i++)
        if (*residual_room(residual, i, via) > widest) widest = *residual_room(residual, i, via);
    return (widest + NEIGHBOURS - 2) / (NEIGHBOURS - 1);
}

static void drop(struct residual *residual, int via)
{
    for (int i = 0; i < residual->node_count; i++)
        *residual_room(residual, i, via) = *residual_room(residual, via, i) = 0;
    residual_count_all(residual);
}

static enum tutti_status remove_switch(struct removal *removal)
{
    const int64_t share = share_of(removal->residual, removal->via);
    struct split split;
    for (bool more = true; more;) {
        const int count = removal->splits->count;
        residual_mark_set(removal->residual, &removal->mark);
        int done = 0;
        while (done < removal->batch && (more = find(removal, &split))) {
            if (split.amount > share) split.amount = share;
            TRY(apply(removal, &split));
            done++;
            if (synth_is_late(removal->residual->deadline_ns)) break; /* and residual_ask says so */
        }
        if (done == 0) break;
        bool holds;
        TRY(residual_ask(removal->residual, &holds));
        if (holds) {
            removal->batch *= 2;
            continue;
        }
        residual_mark_return(removal->residual, &removal->mark);
        removal->splits->count = count;
        removal->batch = done > 1 ? done / 2 : 1;
        more = true;
    }
    drop(removal->residual, removal->via);
    return TUTTI_OK;
}

static enum tutti_status remove_all(struct removal *removal, bool *holds)
{
    struct residual *const residual = removal->residual;
    TRY(residual_mark_init(residual, &removal->mark));
    TRY(residual_ask(residual, holds));
    for (int via = residual->rank_count; via < residual->node_count && *holds; via++) {
        removal->via = via;
        removal->next = 0;
        removal->batch = 64;
        TRY(remove_switch(removal));
        TRY(residual_ask(residual, holds));
    }
    return TUTTI_OK;
}

enum tutti_status split_switches(struct residual *residual, struct splits *splits, bool *holds)
{
    struct removal removal = {.residual = residual, .splits = splits};
    const enum tutti_status status = remove_all(&removal, holds);
    residual_mark_release(&removal.mark);
    residual_count_all(residual);
    return status;
}

void splits_release(struct splits *splits)
{
    free(splits->of);
    *splits = (struct splits){NULL, 0, 0};
}
