/* arrival.h - how the ranks of a segment meet: they wait for each other, and find out what each can
 * do with the others' memory and processes, and which ranks are near each other.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_ARRIVAL_H
#define TUTTI_TRANSPORT_LOCAL_ARRIVAL_H

#include "transport/local/state.h"

/* This rank adds its CPUs and itself, waits for all others, and tries the ways to use their
 * memory. */
enum tutti_status arrival_meet(struct local *local, const struct host_patience *patience);
/* Waits until all ranks are through with arrival_meet, and so knows what all of them can do. */
enum tutti_status arrival_end(struct local *local, const struct host_patience *patience);
/* Called after arrival_meet, when the places that ranks have told are constant. Fills the order of
 * the ranks, or drops it if the ranks stay as they are numbered. `places` has room for one word per
 * rank. */
void arrival_find_order(struct local *local, uint64_t *places);

#endif
