/* elastic_sync.h - gives all ranks of a communicator the same state. */
#ifndef TUTTI_TRAIN_ELASTIC_SYNC_H
#define TUTTI_TRAIN_ELASTIC_SYNC_H

#include "elastic_state.h"

/* OK: all ranks that are left have agreed that they hold the state; but e->is_broken if a rank died
 * just then. Otherwise nothing has changed that a rank may need, and elastic_may_recover(status)
 * says whether to try once more with another communicator; e->is_lost: that would not help.
 * *any_died: a rank is missing. Collective. */
enum tutti_status elastic_sync(struct tutti_elastic *e, bool *any_died);

/* Sends each live shard to its partner, into partner_next of the shards. Collective. */
enum tutti_status elastic_sync_partners(struct tutti_elastic *e);

#endif
