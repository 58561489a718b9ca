/* grow.h - trees are taken out of what is left of a graph of ranks, all trees of a root at a
 * time. */
#ifndef TUTTI_STUDIO_SYNTH_GROW_H
#define TUTTI_STUDIO_SYNTH_GROW_H

#include "studio/synth/forest.h"
#include "studio/synth/residual.h"

/* The residual has no switches left, and holds what it promises. All that every root needs becomes
 * trees of the forest, in the order of the roots. TIMEOUT, NO_MEMORY; INTERNAL: the promise did not
 * hold. */
enum tutti_status grow_trees(struct residual *residual, struct forest *forest);

#endif
