/* elastic_trainer.h - replicas that go on when ranks die, and take in processes that join.
 *
 *     tutti-run -n 4 --elastic 2 gpt --elastic
 *
 *     rank 0   samples 0, 1 ─┐                       ┌─ commit ─ AdamW        each rank has a trainer of its own
 *     rank 1   samples 2, 3 ─┼─ sum of all gradients ┼─ commit ─ AdamW        (trainer.h), with all weights and
 *     rank 2   samples 4, 5 ─┘                       └─ commit ─ AdamW        moments, and takes its share of a step
 *
 * A step in which a rank dies is taken again by those that are left, or with a process that takes
 * its place: tutti/train/elastic.h, whose state are the weights and the moments here. A step has the
 * same samples however many ranks there are; with as many ranks as before it has the same bits.
 */
#ifndef GPT_ELASTIC_TRAINER_H
#define GPT_ELASTIC_TRAINER_H

#include <stdio.h>

#include "trainer.h"

struct elastic_trainer;

/* Waits for the other ranks; a process that joins waits for a place. Borrows the trainer. A run
 * whose first ranks find a checkpoint in the folder goes on from it; NULL: no checkpoints. Gives up
 * if it fails, as all of these. */
struct elastic_trainer *elastic_trainer_open(struct trainer *trainer, const char *folder);
void elastic_trainer_close(struct elastic_trainer *elastic);

/* Takes steps until one counts, and sets *step to its number, which is less than the last one if the
 * team went back to a checkpoint. False: all steps are taken. */
bool elastic_trainer_step(struct elastic_trainer *elastic, size_t *step, struct step_report *report);

/* Of the team as it is now. */
bool elastic_trainer_is_first(const struct elastic_trainer *elastic);

/* Lines about failures, goodput and the time that steps had. */
void elastic_trainer_describe(const struct elastic_trainer *elastic, FILE *file);

#endif
