/* elastic_shard.h - how sharded arrays are divided among ranks, and the memory of the parts. */
#ifndef TUTTI_TRAIN_ELASTIC_SHARD_H
#define TUTTI_TRAIN_ELASTIC_SHARD_H

#include "elastic_state.h"

/* The first element of rank `rank` of `size`; with rank == size the end of the array. */
size_t elastic_shard_first(const struct elastic_array *array, int rank, int size);
/* The rank that keeps the shard of `rank`, and the rank whose shard `rank` keeps. */
int elastic_partner_of(const struct tutti_elastic *e, struct elastic_place place);
int elastic_ward_of(const struct tutti_elastic *e, struct elastic_place place);

/* Zeroed memory for the place. NO_MEMORY; then there is none. */
enum tutti_status elastic_shard_make(const struct tutti_elastic *e,
                                     const struct elastic_array *array, struct elastic_place place,
                                     struct elastic_shard *shard);
void elastic_shard_release(struct elastic_shard *shard);

/* The state becomes what the base is; and the other way round. */
void elastic_state_restore(struct tutti_elastic *e);
void elastic_state_keep(struct tutti_elastic *e);

#endif
