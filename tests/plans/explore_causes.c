/* explore_causes.c - what an action touches, and what comes before it. */
#include "base/collective.h"
#include "tests/plans/explore_state.h"

/* Events count from 1: event e left path[e - 1]. */
static void join_event(const struct explore_model *m, uint16_t *clock, uint32_t event)
{
    if (event != 0) explore_join(m, clock, m->path[event - 1].clock);
}

static struct explore_piece *next_piece(const struct explore_model *m, const struct explore_lane *p,
                                        uint32_t i)
{
    const struct explore_link *link = &m->links[explore_source_link(m, p, i)];
    return &link->pieces[link->taken[p->rank] % EXPLORE_CAPACITY_MAX][p->read];
}

/* Behind all other locations there is one for each beginning of a run. The end of a barrier reads
 * it, and so does a step that places. */
static int begun_location(const struct explore_model *m, uint32_t run, int rank)
{
    return m->location_count - m->rank_count * (m->options->run_count - (int)run) + rank;
}

/* An application touches all pieces of input and output, and beginnings of the run. */
static int application_accesses(const struct explore_model *m, const struct explore_process *p,
                                struct explore_access *accesses)
{
    const struct plan_shape *shape = &m->plan->shape;
    const int begun = begun_location(m, p->run, 0);
    const bool begins = !p->running;
    int count = 0;
    if (begins) accesses[count++] = (struct explore_access){begun + p->rank, true};
    for (int rank = 0; !begins && shape->collective == COLLECTIVE_BARRIER && rank < m->rank_count;
         rank++)
        accesses[count++] = (struct explore_access){begun + rank, false};
    for (int buffer = begins ? PLAN_INPUT : PLAN_OUTPUT; buffer <= PLAN_OUTPUT; buffer++) {
        const uint32_t chunks = plan_chunk_count(shape, p->rank, (enum plan_buffer)buffer);
        for (uint32_t i = 0; i < chunks * EXPLORE_PIECES; i++)
            accesses[count++] =
                (struct explore_access){explore_location_of(m, p->rank, (enum plan_buffer)buffer,
                                                            i / EXPLORE_PIECES, i % EXPLORE_PIECES),
                                        begins};
    }
    return count;
}

static int placing_accesses(const struct explore_model *m, const struct explore_lane *p,
                            struct explore_access *accesses)
{
    int count = 0;
    for (uint32_t i = 0; i < explore_target_count(explore_step_of(m, p)); i++) {
        const int link = explore_target_link(m, p, i);
        const uint32_t asked = p->written == 0 ? explore_offering(m, p, link) : 0;
        const uint32_t placed = explore_places_in(m, p, link);
        for (int rank = 0; rank < m->rank_count; rank++) {
            if (asked >> rank & 1)
                accesses[count++] = (struct explore_access){
                    begun_location(m, m->processes[p->rank].run, rank), false};
            if (placed >> rank & 1)
                accesses[count++] =
                    (struct explore_access){explore_placed_location(m, p, link, rank), true};
        }
    }
    return count;
}

int explore_accesses_of(const struct explore_model *m, const struct explore_process *p,
                        struct explore_access *accesses)
{
    int count = 0;
    if (p->kind == EXPLORE_APPLICATION) return application_accesses(m, p, accesses);
    const struct plan_step *step = explore_step_of(m, p->lane);
    if (step->chunk_count == 0) return 0;
    if (p->kind == EXPLORE_WRITER) {
        if (step->has_destination && !explore_stores_nothing(m, p->lane))
            accesses[count++] = (struct explore_access){
                explore_place_location(m, p->rank, &step->destination, p->lane->written), true};
        return count + placing_accesses(m, p->lane, accesses + count);
    }
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &explore_sources_of(m, p->lane)[i];
        const int location =
            source->is_link ? explore_location_for(next_piece(m, p->lane, i), p->rank)
                            : explore_place_location(m, p->rank, &source->location, p->lane->read);
        if (location != EXPLORE_NOBODY)
            accesses[count++] = (struct explore_access){location, false};
    }
    return count;
}

static void join_start(const struct explore_model *m, const struct explore_lane *p, uint16_t *clock)
{
    const struct plan_step *step = explore_step_of(m, p);
    const struct rank_plan *rank_plan = m->plan->ranks[p->rank];
    explore_join(m, clock, m->processes[p->rank].clock); /* the run has begun */
    for (uint32_t i = 0; i < step->after_count; i++)
        join_event(m, clock, m->completed[p->rank][rank_plan->afters[step->first_after + i]]);
    if (p->step > 0) join_event(m, clock, m->completed[p->rank][p->first_step + p->step - 1]);
}

static void join_room(const struct explore_model *m, const struct explore_lane *p, uint16_t *clock)
{
    for (uint32_t i = 0; i < explore_target_count(explore_step_of(m, p)); i++) {
        const struct explore_link *link = &m->links[explore_target_link(m, p, i)];
        if (link->begun < (uint32_t)m->options->capacity) continue;
        const uint32_t freed = link->begun - (uint32_t)m->options->capacity;
        for (int rank = 0; rank < m->rank_count; rank++)
            if (link->group >> rank & 1)
                join_event(m, clock, link->taken_event[freed % EXPLORE_CAPACITY_MAX][rank]);
    }
}

void explore_join_causes(const struct explore_model *m, const struct explore_process *p,
                         uint16_t *clock)
{
    explore_join(m, clock, p->clock);
    if (p->kind == EXPLORE_APPLICATION) {
        for (int i = 0; p->running && i < m->process_count; i++)
            if (m->processes[i].rank == p->rank) explore_join(m, clock, m->processes[i].clock);
        if (p->running) explore_join(m, clock, m->read_clock[p->rank]);
        return;
    }
    const struct explore_lane *lane = p->lane;
    const bool first = (p->kind == EXPLORE_READER ? lane->read : lane->written) == 0;
    if (first) join_start(m, lane, clock);
    if (p->kind == EXPLORE_WRITER) {
        if (!explore_posts_memory_only(m, lane))
            join_event(m, clock, lane->held_event[lane->written]);
        if (first) join_room(m, lane, clock);
        return;
    }
    for (uint32_t i = 0; i < explore_step_of(m, lane)->source_count; i++)
        if (explore_sources_of(m, lane)[i].is_link)
            join_event(m, clock, next_piece(m, lane, i)->event);
}
