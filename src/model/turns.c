#include "model/turns.h"

#include <stdlib.h>
#include <string.h>

#define NO_JOB UINT32_MAX

struct turns_job {
    struct model_effort effort;
    unsigned kind;
    uint32_t index;
    uint32_t next; /* of its rank; of a free one: the next free one */
};

struct turns_core {
    int seat_count, first_seat; /* among those of all cores */
    int seat;                   /* that has the turn, or had it when the core became idle */
    uint64_t since_ps;          /* it has been idle */
    uint64_t look_ps;           /* it comes to a rank that has work */
    uint32_t job_count;
    bool is_busy;
};

struct turns_rank {
    int core, seat;
    uint32_t first_job, last_job;
};

bool turns_init(struct turns *turns, struct servers *servers, const int *cores, bool in_step,
                unsigned event_kind)
{
    const int rank_count = servers->machine->rank_count,
              core_count = servers_count(servers, MODEL_CORE);
    *turns = (struct turns){.servers = servers, .event_kind = event_kind, .free_job = NO_JOB};
    turns->cores = calloc((size_t)core_count, sizeof *turns->cores);
    turns->ranks = calloc((size_t)rank_count, sizeof *turns->ranks);
    turns->seats = calloc((size_t)rank_count, sizeof *turns->seats);
    if (turns->cores == NULL || turns->ranks == NULL || turns->seats == NULL) return false;
    for (int r = 0; r < rank_count; r++)
        turns->ranks[r] = (struct turns_rank){.core = cores[r],
                                              .seat = turns->cores[cores[r]].seat_count++,
                                              .first_job = NO_JOB,
                                              .last_job = NO_JOB};
    int used = 0, number = 0;
    for (int c = 0; c < core_count; c++) used += turns->cores[c].seat_count > 0;
    for (int c = 0, seats = 0; c < core_count; c++) {
        struct turns_core *core = &turns->cores[c];
        core->first_seat = seats;
        seats += core->seat_count;
        if (!in_step) {
            core->seat = number * core->seat_count / used;
            core->since_ps = (uint64_t)number * turns->servers->machine->turn_ps / (uint64_t)used;
        }
        number += core->seat_count > 0;
    }
    for (int r = 0; r < rank_count; r++)
        turns->seats[turns->cores[cores[r]].first_seat + turns->ranks[r].seat] = r;
    return true;
}

void turns_release(struct turns *turns)
{
    free(turns->cores);
    free(turns->ranks);
    free(turns->seats);
    free(turns->jobs);
}

bool turns_shares(const struct turns *turns, int rank)
{
    return turns->servers->machine->turn_ps > 0 &&
           turns->cores[turns->ranks[rank].core].seat_count > 1;
}

bool turns_depend_on_step(const struct turns *turns)
{
    if (servers_count(turns->servers, MODEL_CORE) == 1) return false;
    for (int r = 0; r < turns->servers->machine->rank_count; r++)
        if (turns_shares(turns, r)) return true;
    return false;
}

/* ----------------------------------------------------------------------------------------- jobs */

static uint32_t take_job(struct turns *turns)
{
    if (turns->free_job != NO_JOB) {
        const uint32_t job = turns->free_job;
        turns->free_job = turns->jobs[job].next;
        return job;
    }
    if (turns->job_count == turns->job_room) {
        const uint32_t room = turns->job_room == 0 ? 64 : 2 * turns->job_room;
        struct turns_job *const jobs = realloc(turns->jobs, room * sizeof *jobs);
        if (jobs == NULL) return NO_JOB;
        turns->jobs = jobs;
        turns->job_room = room;
    }
    return turns->job_count++;
}

static int rank_at(const struct turns *turns, const struct turns_core *core, int seat)
{
    return turns->seats[core->first_seat + seat];
}

/* Starts the first job of the rank whose turn it is; the core has changed ranks so many times
 * before. */
static void start(struct turns *turns, struct events *events, uint64_t now_ps,
                  struct turns_core *core, int turn_count)
{
    const int number = rank_at(turns, core, core->seat);
    struct turns_rank *rank = &turns->ranks[number];
    const uint32_t index = rank->first_job;
    struct turns_job *job = &turns->jobs[index];
    const uint64_t turns_ps = (uint64_t)turn_count * turns->servers->machine->turn_ps;
    core->is_busy = true;
    core->job_count--;
    rank->first_job = job->next;
    if (rank->first_job == NO_JOB) rank->last_job = NO_JOB;
    events_add(events,
               servers_compute(turns->servers, rank->core, number, now_ps,
                               turns_ps + job->effort.core_ps, job->effort.memory_bytes),
               job->kind, job->index);
    job->next = turns->free_job;
    turns->free_job = index;
}

/* ---------------------------------------------------------------------------------------- turns */

/* The time at which the turn next comes to a seat of a core that has been idle, or that has not
 * begun. */
static uint64_t next_turn(const struct turns *turns, const struct turns_core *core, int seat,
                          uint64_t now_ps)
{
    const uint64_t turn_ps = turns->servers->machine->turn_ps;
    const uint64_t passed =
        now_ps > core->since_ps ? (now_ps - core->since_ps + turn_ps - 1) / turn_ps : 0;
    const uint64_t at = (uint64_t)core->seat + passed, seats = (uint64_t)core->seat_count;
    const uint64_t ahead = ((uint64_t)seat + seats - at % seats) % seats;
    return core->since_ps + (passed + ahead) * turn_ps;
}

void turns_add(struct turns *turns, struct events *events, uint64_t now_ps, int number,
               struct model_effort effort, unsigned kind, uint32_t index)
{
    struct turns_rank *rank = &turns->ranks[number];
    struct turns_core *core = &turns->cores[rank->core];
    const uint32_t job = take_job(turns);
    if (job == NO_JOB) {
        events->has_failed = true;
        return;
    }
    turns->jobs[job] = (struct turns_job){effort, kind, index, NO_JOB};
    if (rank->last_job != NO_JOB)
        turns->jobs[rank->last_job].next = job;
    else
        rank->first_job = job;
    rank->last_job = job;
    core->job_count++;
    if (core->is_busy) return;
    const uint64_t at_ps = next_turn(turns, core, rank->seat, now_ps);
    if (core->job_count > 1 && core->look_ps <= at_ps) return;
    core->look_ps = at_ps;
    events_add(events, at_ps, turns->event_kind, (uint32_t)rank->core);
}

void turns_look(struct turns *turns, struct events *events, uint64_t now_ps, uint32_t number)
{
    struct turns_core *core = &turns->cores[number];
    if (core->is_busy || core->job_count == 0 || core->look_ps != now_ps)
        return; /* it came earlier */
    const uint64_t passed = (now_ps - core->since_ps) / turns->servers->machine->turn_ps;
    core->seat = (int)(((uint64_t)core->seat + passed) % (uint64_t)core->seat_count);
    start(turns, events, now_ps, core, 0);
}

void turns_next(struct turns *turns, struct events *events, uint64_t now_ps, int number)
{
    struct turns_core *core = &turns->cores[turns->ranks[number].core];
    int turn_count = 0;
    core->is_busy = false;
    core->since_ps = now_ps;
    if (core->job_count == 0) return;
    while (turns->ranks[rank_at(turns, core, core->seat)].first_job == NO_JOB) {
        core->seat = (core->seat + 1) % core->seat_count;
        turn_count++;
    }
    start(turns, events, now_ps, core, turn_count);
}
