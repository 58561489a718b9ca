/* trainer.h - one step of training after the other.
 *
 *     a step's samples ── micro-batches: forward, backward ── gradients ── clip ── AdamW ── new weights
 *
 * Gradients are those of the mean loss over all tokens of the step, so they do not depend on how
 * the samples are cut into micro-batches, but for the order of sums.
 */
#ifndef GPT_TRAINER_H
#define GPT_TRAINER_H

#include "adamw.h"
#include "data.h"
#include "model.h"

struct trainer_options {
    struct model_options model; /* samples_max is a micro-batch */
    size_t batch;               /* samples of a step, a multiple of samples_max */
    struct schedule schedule;
    struct adamw adamw;
    double clip; /* the most that the gradients' length may be */
};

struct trainer {
    struct trainer_options options;
    const struct data *data; /* borrowed */
    struct model *model;
    struct saved *saved;
    struct moments moments;     /* of all elements */
    double *squares;            /* [blocks of the flat array] */
    uint32_t *inputs, *targets; /* of a micro-batch */
    uint64_t *numbers;
};

struct step_report {
    double loss; /* the mean, in nats for each token */
    double rate;
    double gradient_length; /* before clipping */
    bool is_skipped;        /* of many ranks with a loss scale: gradients were not finite */
    /* Of many ranks (mesh.h), in the mean: the time of the step, and what of it they waited for
     * stages, for replicas and for slices. */
    double step_s, waited_s[3];
};

void trainer_init(struct trainer *trainer, const struct trainer_options *options,
                  const struct data *data);
void trainer_release(struct trainer *trainer);

/* The mean loss of a step's samples. */
double trainer_loss(struct trainer *trainer, uint64_t step);

/* The same, and sets the model's gradients. */
double trainer_gradients(struct trainer *trainer, uint64_t step);

struct step_report trainer_step(struct trainer *trainer, uint64_t step);

/* A step in two halves, for replicas that share its samples. The first one sets the model's
 * gradients to what the samples `samples`, by their global numbers, add to those of the step, and
 * returns what they add to its mean loss. The second one takes the step, with the sum of all
 * replicas' gradients; the loss is not in its report. */
double trainer_share(struct trainer *trainer, uint64_t step, struct range samples);
struct step_report trainer_update(struct trainer *trainer, uint64_t step);

/* The mean loss over what was held out, of at most `samples_max` samples spread over it. */
double trainer_held_out(struct trainer *trainer, size_t samples_max);

#endif
