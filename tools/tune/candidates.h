/* candidates.h - the algorithms worth measuring for a call: those that the model cannot
 * tell apart, and the plans that a user has put into the folder of plans, since the model may know
 * less of the machine than the authors of these plans. */
#ifndef TUTTI_TOOLS_TUNE_CANDIDATES_H
#define TUTTI_TOOLS_TUNE_CANDIDATES_H

#include <stdbool.h>

#include "tune/ranking.h"

enum { CANDIDATES_MIN = 2, CANDIDATES_BY_MODEL_MAX = 6, CANDIDATES_MAX = 8 };

struct candidate {
    const struct algorithm *algorithm;
    bool only_hosts; /* only of the first one: a call cannot ask for that, so it leaves the choice to the model */
};

struct candidates {
    int count;
    struct candidate of[CANDIDATES_MAX]; /* the model's choice first */
};

/* Finds the algorithms that are predicted to take at most 1 + margin times as long as the best: at
 * least two, if there are two, and at most CANDIDATES_BY_MODEL_MAX. Behind them come plans of the
 * folder, whatever is predicted for them, the fastest first. NO_MEMORY. */
enum tutti_status candidates_find(const struct tune_site *site, const struct tune_question *question,
                                  double margin, struct candidates *candidates);

/* *bytes becomes the least size from which on the model's choice is that of the question, or
 * `winner`, within half of it: an entry for smaller sizes would speak against a choice that was not
 * measured. NO_MEMORY. */
enum tutti_status candidates_least_bytes(const struct tune_site *site,
                                         const struct tune_question *question,
                                         const struct candidate *model,
                                         const struct candidate *winner, uint64_t *bytes);

/* Gives all ranks the candidates of rank 0. `site` is the communicator's. */
enum tutti_status candidates_share(struct candidates *candidates, const struct tune_site *site,
                                   struct tutti_comm *comm);

/* Whether the candidate is a plan of the folder, and not built in. */
bool candidate_is_loaded(const struct candidate *candidate);

#endif
