/* arrival.h - how the ranks of a segment meet: they wait for each other, and find out what each can do with the others' memory
 * and processes, and who is near whom.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_ARRIVAL_H
#define TUTTI_TRANSPORT_LOCAL_ARRIVAL_H

#include "transport/local/state.h"

/* This rank adds its CPUs and itself, waits for all others, tries what it can do with their memory, and waits for them again. */
enum tutti_status arrival_meet(struct local *local, const struct host_options *options);
/* After that, when what the ranks say of their places is constant: fills the order of the ranks, or takes it away where they stay as
 * they are numbered. `places` is room for one word a rank. */
void arrival_find_order(struct local *local, uint64_t *places);

#endif
