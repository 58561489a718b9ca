/* checkpointing.h - the run in files, from which the same ranks, or others, go on.
 *
 *     gpt --checkpoint run-7 --checkpoint-every 50             writes run-7/step-000000000050, then 100, ...
 *     gpt --checkpoint run-7 --checkpoint-every 50 --resume    goes on from the newest one, on any mesh
 *
 * A checkpoint has each tensor of the whole model under its name, with its moments and masters,
 * from whatever rank has them; the loss scale, and how many steps it did not skip; what compression
 * of gradients left for the next step (compression.h); and which samples of which text were seen. There is no other state: random numbers are functions of their
 * place (counter.h), and the learning rate is one of the step. So a run that goes on with the same
 * options on the same mesh computes the bits of one that never stopped.
 */
#ifndef GPT_CHECKPOINTING_H
#define GPT_CHECKPOINTING_H

#include "parallel.h"

struct checkpointing_options {
    const char *folder; /* NULL: no checkpoints */
    size_t every_steps; /* the last step has one in any case */
    size_t keep;        /* newest ones that stay */
    bool resume;
};

struct checkpointing;

/* Collective over the world, as all of these. Gives up if another run writes there, or if there are
 * checkpoints and nobody wants to go on from them. NULL without a folder, which all of these take,
 * too. */
struct checkpointing *checkpointing_open(const struct checkpointing_options *options,
                                         struct tutti_comm *world);
/* False if the last one could not be written. */
bool checkpointing_close(struct checkpointing *checkpointing);

/* Steps that the checkpoint had taken from which the run goes on; 0 if there is none. */
uint64_t checkpointing_step(const struct checkpointing *checkpointing);

/* Changes what shards begin with to that of the checkpoint, if there is one: the optimizer's steps;
 * the loss scale, and how many good steps it had, if the checkpoint has them. A loss scale of 0 is
 * none, and stays. */
void checkpointing_begin(struct checkpointing *checkpointing, struct parallel_options *parallel);
/* Reads it. Gives up if it cannot be read, or is of another run. */
void checkpointing_load(struct checkpointing *checkpointing, struct parallel *parallel);

/* After so many steps: starts to write a checkpoint if it is time for one, and returns. A
 * checkpoint that cannot be written is told once, and training goes on. */
void checkpointing_after(struct checkpointing *checkpointing, struct parallel *parallel,
                         uint64_t steps);

#endif
