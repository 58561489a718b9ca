#include "elastic_shard.h"

#include <stdlib.h>
#include <string.h>

#include "shards_layout.h"

size_t elastic_shard_first(const struct elastic_array *array, int rank, int size)
{
    const size_t count = array->count;
    if (array->kind == TUTTI_ELASTIC_BLOCKS)
        return rank < size ? shards_own(count, rank, size).first : count;
    const size_t ranks = (size_t)size, all = count / ranks, rest = count % ranks;
    /* floor(count * rank / size), without a product that might not fit */
    return all * (size_t)rank + rest * (size_t)rank / ranks;
}

static int distance(const struct tutti_elastic *e, int size)
{
    const int wanted =
        e->options.partner_distance > 0 ? e->options.partner_distance % size : size / 2;
    return wanted > 0 || size == 1 ? wanted : 1;
}

int elastic_partner_of(const struct tutti_elastic *e, struct elastic_place place)
{
    return (place.rank + distance(e, place.size)) % place.size;
}

int elastic_ward_of(const struct tutti_elastic *e, struct elastic_place place)
{
    return (place.rank + place.size - distance(e, place.size)) % place.size;
}

enum tutti_status elastic_shard_make(const struct tutti_elastic *e,
                                     const struct elastic_array *array, struct elastic_place place,
                                     struct elastic_shard *shard)
{
    *shard = (struct elastic_shard){0};
    shard->first = elastic_shard_first(array, place.rank, place.size);
    shard->count = elastic_shard_first(array, place.rank + 1, place.size) - shard->first;
    if (e->options.partner != 0) {
        const int ward = elastic_ward_of(e, place);
        shard->partner_count = elastic_shard_first(array, ward + 1, place.size) -
                               elastic_shard_first(array, ward, place.size);
    }
    const size_t bytes = array->element_bytes;
    const bool has_copy = elastic_keeps_copies(e) && shard->count > 0;
    if (shard->count > 0) shard->live = calloc(shard->count, bytes);
    if (has_copy) shard->copy = calloc(shard->count, bytes);
    const bool has_partner = shard->partner_count > 0;
    if (has_partner) shard->partner = calloc(shard->partner_count, bytes);
    if (has_partner) shard->partner_next = calloc(shard->partner_count, bytes);
    if ((shard->count > 0 && shard->live == NULL) || (has_copy && shard->copy == NULL) ||
        (has_partner && (shard->partner == NULL || shard->partner_next == NULL))) {
        elastic_shard_release(shard);
        return error_set(TUTTI_NO_MEMORY, "tutti_elastic: no memory for a shard of '%s'",
                         array->name);
    }
    return TUTTI_OK;
}

void elastic_shard_release(struct elastic_shard *shard)
{
    free(shard->live);
    free(shard->copy);
    free(shard->partner);
    free(shard->partner_next);
    *shard = (struct elastic_shard){0};
}

static void copy(char *to, const char *from, size_t bytes)
{
    if (bytes > 0) memcpy(to, from, bytes);
}

static void carry(struct tutti_elastic *e, bool to_live)
{
    if (!elastic_keeps_copies(e)) return;
    for (size_t i = 0; i < e->array_count; i++) {
        const struct elastic_array *const array = &e->arrays[i];
        const bool is_whole = array->kind == TUTTI_ELASTIC_REPLICATED;
        char *const live = is_whole ? array->live : array->shard.live;
        char *const kept = is_whole ? array->copy : array->shard.copy;
        const size_t count = is_whole ? array->count : array->shard.count;
        copy(to_live ? live : kept, to_live ? kept : live, count * array->element_bytes);
    }
}

void elastic_state_restore(struct tutti_elastic *e)
{
    carry(e, true);
}

void elastic_state_keep(struct tutti_elastic *e)
{
    carry(e, false);
}
