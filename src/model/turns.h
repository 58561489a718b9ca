/* turns.h - cores that ranks share. Each rank in its turn looks for work, does all that it finds, and hands its core on to the next one,
 * round and round, also while there is nothing to do:
 *
 *     rank     0 . . 2 2 2 4 . . 6 . . 0 . . 2 ...      . a turn: a rank hands on, and the next one looks
 *
 * So a message to a rank waits until that rank has its turn; and ranks that have much to do, all of them, hand on seldom.
 */
#ifndef TUTTI_MODEL_TURNS_H
#define TUTTI_MODEL_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/events.h"
#include "model/servers.h"
#include "model/work.h"

struct turns {
    struct servers *servers;
    unsigned event_kind; /* in which a core has come to a rank that has work; its index is the core's */
    struct turns_core *cores;
    struct turns_rank *ranks;
    int *seats; /* whose each is, core by core */
    struct turns_job *jobs;
    uint32_t job_count, job_room, free_job;
};

/* cores: of each rank, counted through all hosts. False: out of memory; release in any case. */
bool turns_init(struct turns *turns, struct servers *servers, const int *cores, unsigned event_kind);
void turns_release(struct turns *turns);
/* Whether the rank has to wait for its turn; otherwise its work is servers_compute's. */
bool turns_shares(const struct turns *turns, int rank);

/* A rank has some more work, after which that event is due. */
void turns_add(struct turns *turns, struct events *events, uint64_t now_ps, int rank,
               struct model_effort effort, unsigned kind, uint32_t index);
/* The event of some work is over, and all that came of it was added: on with what is next there. */
void turns_next(struct turns *turns, struct events *events, uint64_t now_ps, int rank);
/* The event of a core. */
void turns_look(struct turns *turns, struct events *events, uint64_t now_ps, uint32_t core);

#endif
