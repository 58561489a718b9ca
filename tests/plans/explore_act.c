/* explore_act.c - what an action does, and whether results are right. */
#include <stdio.h>
#include <string.h>

#include "base/collective.h"
#include "tests/plans/explore_state.h"

/* Content that a fault has spoiled: no sum with it is right. */
static const struct explore_content poison = {.state = EXPLORE_POISON};

static uint64_t scramble(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static struct explore_content contribution(int rank, uint32_t class)
{
    return (struct explore_content){.state = EXPLORE_VALID,
                                    .class = class,
                                    .counts = UINT64_C(1) << (8 * rank),
                                    .tree = scramble((uint64_t)rank + 1)};
}

static struct explore_content add(struct explore_content a, struct explore_content b)
{
    if (a.state != EXPLORE_VALID || b.state != EXPLORE_VALID || a.class != b.class || a.final ||
        b.final)
        return poison;
    const uint64_t low = a.tree < b.tree ? a.tree : b.tree, high = a.tree < b.tree ? b.tree : a.tree;
    a.counts += b.counts;
    a.tree = scramble(scramble(low) * 3 + high);
    return a;
}

static uint64_t all_once(int rank_count)
{
    return UINT64_C(0x0101010101010101) >> (8 * (8 - rank_count));
}

static void fail(struct explore_model *m, const char *what, int rank, uint32_t where)
{
    if (m->wrong) return;
    m->wrong = true;
    snprintf(m->report->message, sizeof m->report->message, "rank %d: %s %u", rank, what, where);
}

/* The content of a piece, counted through an input or an output. */
static struct explore_content *content_at(const struct explore_model *m, int rank,
                                          enum plan_buffer buffer, uint32_t piece)
{
    const int location =
        explore_location_of(m, rank, buffer, piece / EXPLORE_PIECES, piece % EXPLORE_PIECES);
    return &m->locations[location].content;
}

static void begin_run(struct explore_model *m, struct explore_process *p)
{
    const struct plan_shape *shape = &m->plan->shape;
    for (uint32_t i = 0; i < plan_chunk_count(shape, p->rank, PLAN_OUTPUT) * EXPLORE_PIECES; i++)
        *content_at(m, p->rank, PLAN_OUTPUT, i) =
            (struct explore_content){.state = EXPLORE_UNDEFINED};
    for (uint32_t i = 0; i < plan_chunk_count(shape, p->rank, PLAN_INPUT) * EXPLORE_PIECES; i++)
        *content_at(m, p->rank, PLAN_INPUT, i) =
            contribution(p->rank, plan_chunk_class(shape, p->rank, PLAN_INPUT, i / EXPLORE_PIECES) +
                                      (p->run << 24));
    memset(m->completed[p->rank], 0,
           (m->plan->ranks[p->rank]->step_count + 1) * sizeof *m->completed[p->rank]);
    for (int i = 0; i < m->lane_count; i++)
        if (m->lanes[i].rank == p->rank) m->lanes[i].step = 0;
    p->running = true;
}

static int owner_of(const struct plan_shape *shape, uint32_t class)
{
    const uint32_t block = class / shape->parts;
    if (shape->collective == COLLECTIVE_ALLTOALL) return (int)block / shape->rank_count;
    if (shape->collective == COLLECTIVE_GATHER || shape->collective == COLLECTIVE_ALLGATHER)
        return (int)block;
    return shape->root;
}

static void check_piece(struct explore_model *m, const struct explore_process *p, uint32_t i)
{
    const struct plan_shape *shape = &m->plan->shape;
    const struct explore_content *found = content_at(m, p->rank, PLAN_OUTPUT, i);
    const uint32_t class = plan_chunk_class(shape, p->rank, PLAN_OUTPUT, i / EXPLORE_PIECES);
    const bool reduces = collective_reduces(shape->collective);
    const uint64_t expected =
        reduces ? all_once(m->rank_count) : UINT64_C(1) << (8 * owner_of(shape, class));
    if (found->state != EXPLORE_VALID || found->class != class + (p->run << 24) ||
        found->counts != expected || found->final != (reduces && m->rank_count > 1)) {
        fail(m, "wrong output chunk", p->rank, i / EXPLORE_PIECES);
        return;
    }
    if (shape->collective != COLLECTIVE_ALLREDUCE) return;
    uint64_t *tree = &m->trees[p->run * shape->parts * EXPLORE_PIECES + i];
    if (*tree == 0) *tree = found->tree;
    if (*tree != found->tree) fail(m, "another tree for output chunk", p->rank, i / EXPLORE_PIECES);
}

static void end_run(struct explore_model *m, struct explore_process *p)
{
    const struct plan_shape *shape = &m->plan->shape;
    for (uint32_t i = 0; i < plan_chunk_count(shape, p->rank, PLAN_OUTPUT) * EXPLORE_PIECES; i++)
        check_piece(m, p, i);
    for (int rank = 0; shape->collective == COLLECTIVE_BARRIER && rank < m->rank_count; rank++) {
        const struct explore_process *other = &m->processes[rank];
        if (other->run < p->run || (other->run == p->run && !other->running))
            fail(m, "left the barrier before the beginning of rank", p->rank, (uint32_t)rank);
    }
    p->run++;
    p->running = false;
}

void explore_check_end(struct explore_model *m)
{
    for (int rank = 0; rank < m->rank_count; rank++)
        if (m->processes[rank].run < (uint32_t)m->options->run_count)
            fail(m, "deadlock in run", rank, m->processes[rank].run);
    for (int i = 0; i < m->link_count; i++)
        for (int rank = 0; rank < m->rank_count; rank++)
            if (m->links[i].group >> rank & 1 && m->links[i].taken[rank] != m->links[i].begun)
                fail(m, "a message is left over from rank", rank, (uint32_t)m->links[i].source);
}

/* Whether a run's end waits for a message from there to be taken. */
static bool run_waits_for(const struct explore_model *m, int rank, int location)
{
    return !m->options->scratch_outlives_run || location < m->scratch_location[rank];
}

static struct explore_content take_piece(struct explore_model *m, struct explore_lane *p,
                                         uint32_t i, uint32_t event)
{
    struct explore_link *link = &m->links[explore_source_link(m, p, i)];
    const uint32_t slot = link->taken[p->rank] % EXPLORE_CAPACITY_MAX;
    const struct explore_piece *piece = &link->pieces[slot][p->read];
    const int location = explore_location_for(piece, p->rank);
    const struct explore_content content =
        location == EXPLORE_NOBODY ? piece->content : m->locations[location].content;
    if (link->lengths[slot] != explore_piece_count(explore_step_of(m, p)))
        fail(m, "length of a message, step", p->rank, p->first_step + p->step);
    if (piece->location != EXPLORE_NOBODY && location == piece->location &&
        run_waits_for(m, link->source, piece->location)) {
        m->unread[link->source]--;
        explore_join(m, m->read_clock[link->source], m->path[event - 1].clock);
    }
    if (++link->taken_pieces[p->rank] == link->lengths[slot]) {
        link->taken_pieces[p->rank] = 0;
        link->taken[p->rank]++;
        link->taken_event[slot][p->rank] = event;
    }
    return content;
}

static void read_piece(struct explore_model *m, struct explore_lane *p, uint32_t event)
{
    const struct plan_step *step = explore_step_of(m, p);
    struct explore_content sum = poison;
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &explore_sources_of(m, p)[i];
        struct explore_content next = {.state = EXPLORE_UNDEFINED};
        if (source->is_link)
            next = take_piece(m, p, i, event);
        else if (step->chunk_count > 0)
            next =
                m->locations[explore_place_location(m, p->rank, &source->location, p->read)].content;
        sum = i == 0 ? next : add(sum, next);
    }
    if (step->source_count > 1) sum.tree = scramble(sum.tree + 1);
    if (step->final &&
        (sum.state != EXPLORE_VALID || sum.final || sum.counts != all_once(m->rank_count)))
        sum = poison;
    if (step->final) {
        sum.final = true;
        sum.tree = scramble(sum.tree + 2);
    }
    p->held_event[p->read] = event;
    p->held[p->read++] = sum;
}

/* Stores a piece that goes on a link in the memory of the receivers that advertise it, and notes
 * where. */
static uint32_t place_piece(struct explore_model *m, struct explore_lane *p, int link,
                            struct explore_piece *piece)
{
    const uint32_t ranks = explore_places_in(m, p, link);
    for (int rank = 0; rank < EXPLORE_RANKS_MAX; rank++) {
        piece->placed[rank] = EXPLORE_NOBODY;
        if (!(ranks >> rank & 1)) continue;
        piece->placed[rank] = explore_placed_location(m, p, link, rank);
        m->locations[piece->placed[rank]].content = p->held[p->written];
    }
    return ranks;
}

static void post_piece(struct explore_model *m, struct explore_lane *p, int location, uint32_t event)
{
    const struct plan_step *step = explore_step_of(m, p);
    uint32_t placed = 0;
    for (uint32_t i = 0; i < explore_target_count(step); i++) {
        struct explore_link *link = &m->links[explore_target_link(m, p, i)];
        struct explore_piece piece = {
            .location = location, .content = p->held[p->written], .event = event};
        const uint32_t ranks = place_piece(m, p, explore_target_link(m, p, i), &piece);
        placed |= ranks;
        if (p->written == 0) {
            link->lengths[link->begun % EXPLORE_CAPACITY_MAX] = explore_piece_count(step);
            link->begun++;
        }
        link->posted = p->written + 1;
        link->pieces[(link->begun - 1) % EXPLORE_CAPACITY_MAX][p->written] = piece;
        if (location != EXPLORE_NOBODY && run_waits_for(m, p->rank, location))
            m->unread[p->rank] += (uint32_t)__builtin_popcount(link->group & ~ranks);
    }
    if (p->written == 0) p->placed = placed;
}

static void write_piece(struct explore_model *m, struct explore_lane *p, uint32_t event)
{
    const struct plan_step *step = explore_step_of(m, p);
    int location = EXPLORE_NOBODY;
    if (explore_posts_memory_only(m, p))
        location =
            explore_place_location(m, p->rank, &explore_sources_of(m, p)[0].location, p->written);
    if (step->has_destination)
        location = explore_place_location(m, p->rank, &step->destination, p->written);
    if (step->has_destination && !explore_stores_nothing(m, p)) {
        m->locations[location].content = p->held[p->written];
        if (m->options->eager) location = EXPLORE_NOBODY;
    }
    post_piece(m, p, location, event);
    if (++p->written < explore_piece_count(step)) return;
    m->completed[p->rank][p->first_step + p->step] = event;
    p->read = p->written = 0;
    p->step++;
}

void explore_act(struct explore_model *m, struct explore_process *p, uint32_t event)
{
    if (p->kind == EXPLORE_READER)
        read_piece(m, p->lane, event);
    else if (p->kind == EXPLORE_WRITER)
        write_piece(m, p->lane, event);
    else if (p->running)
        end_run(m, p);
    else
        begin_run(m, p);
}
