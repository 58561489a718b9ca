/* elastic_save.h - checkpoints of an elastic loop, for the state that no rank has any more. */
#ifndef TUTTI_TRAIN_ELASTIC_SAVE_H
#define TUTTI_TRAIN_ELASTIC_SAVE_H

#include "elastic_state.h"

/* Opens the directory for the communicator, if there is one and it is not open. Collective. */
enum tutti_status elastic_save_open(struct tutti_elastic *e);
/* Stops using it; waits until nothing is being written, if that can still come to an end. */
void elastic_save_leave(struct tutti_elastic *e);

/* Starts a checkpoint of the base. One that cannot be written is told in the log; the loop goes on.
 * `waits`: until it is written. Collective. */
enum tutti_status elastic_save(struct tutti_elastic *e, bool waits);
/* Whether it is time for one; on one rank. */
bool elastic_save_is_due(const struct tutti_elastic *e, uint64_t now_ns);
/* As it is now. */
uint64_t elastic_save_interval_ns(const struct tutti_elastic *e, uint64_t now_ns);

/* Loads the newest checkpoint that can be read: replicated arrays into their base, sharded arrays
 * into what is staged. *is_there becomes false if there is none. Collective. */
enum tutti_status elastic_save_load(struct tutti_elastic *e, struct elastic_progress *progress,
                                    bool *is_there);

#endif
