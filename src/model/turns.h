/* turns.h - cores that ranks share. Each rank in its turn looks for work, does all that it finds,
 * and hands its core on to the next rank, in a circle, even while there is nothing to do:
 *
 *     rank     0 . . 2 2 2 4 . . 6 . . 0 . . 2 ...      . a turn: a rank hands on, and the next one looks
 *
 * So a message to a rank waits until that rank has its turn; and if all ranks have much to do, the
 * core is seldom handed on.
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

/* cores: of each rank, counted over all hosts. in_step: all cores begin with their first ranks, at
 * once; otherwise they begin at different places of the round, and within a turn one after the
 * other, both spread evenly. False: out of memory; the caller releases *turns in any case. */
bool turns_init(struct turns *turns, struct servers *servers, const int *cores, bool in_step,
                unsigned event_kind);
/* Whether it matters where cores begin: there are several, and ranks share some of them. */
bool turns_depend_on_step(const struct turns *turns);
void turns_release(struct turns *turns);
/* Whether the rank has to wait for its turn; otherwise its work is servers_compute's. */
bool turns_shares(const struct turns *turns, int rank);

/* Adds work of a rank, after which that event is due. */
void turns_add(struct turns *turns, struct events *events, uint64_t now_ps, int rank,
               struct model_effort effort, unsigned kind, uint32_t index);
/* The event of some work has been handled, and all work that follows from it was added: goes on
 * with the next work of that core. */
void turns_next(struct turns *turns, struct events *events, uint64_t now_ps, int rank);
/* Handles the event of a core. */
void turns_look(struct turns *turns, struct events *events, uint64_t now_ps, uint32_t core);

#endif
