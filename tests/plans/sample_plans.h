/* sample_plans.h - plans written by hand, for tests that want one of known shape. */
#ifndef TUTTI_TESTS_PLANS_SAMPLE_PLANS_H
#define TUTTI_TESTS_PLANS_SAMPLE_PLANS_H

#include "plan/build.h"
#include "plan/plan.h"

typedef void sample_generate(struct plan_builder *b, int rank, int rank_count);

struct sample {
    const char *name;
    enum collective collective;
    int rank_count, root;
    sample_generate *generate;
    bool in_place; /* right in place too */
};

/* All of them are right with separate buffers. */
extern const struct sample sample_list[];
extern const int sample_count;

/* Builds the plan of all ranks; ends the program when the builder refuses. */
struct plan *sample_plan(enum collective collective, int rank_count, int root,
                         sample_generate *generate);

/* Two ranks swap vectors and add: the own vector is overwritten in place while the peer may still
 * read it. */
sample_generate sample_exchange;
/* The same through a copy. */
sample_generate sample_exchange_copied;
/* Two chunks at once travel up a chain, are added, and come back as the sum. */
sample_generate sample_chain;
/* A broadcast down a line: one lane receives, another one passes on, a third one copies; in place
 * the root copies its vector onto itself while it sends it. */
sample_generate sample_lanes;
/* Two ranks: the first one collects both vectors in scratch, sends them as one range and has them
 * sent back, position by position over what it sent. */
sample_generate sample_echo;
/* The same, one chunk further on: position 0 comes back over position 1. Wrong. */
sample_generate sample_echo_shifted;
/* Two ranks: one lane stores the peer's vector where another one, after it, stores the sum. */
sample_generate sample_overwrite;
/* Everyone tells rank 0, which tells everyone. */
sample_generate sample_central_barrier;

#endif
