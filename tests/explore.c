#include "explore.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/form.h"
#include "plan/verify.h"

enum { PIECES = 2, PROCESSES_MAX = 64, RANKS_MAX = 8, CAPACITY_MAX = 2, NOBODY = -1 };

/* ------------------------------------------------------------------------------------------------ values */

struct content {
    enum { UNDEFINED, VALID, POISON } state;
    uint32_t class;  /* with the number of the run in the upper bits */
    uint64_t counts; /* a byte for each rank: how often it is in */
    uint64_t tree;
    bool final;
};

static const struct content poison = {.state = POISON};

static uint64_t scramble(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static struct content contribution(int rank, uint32_t class)
{
    return (struct content){.state = VALID,
                            .class = class,
                            .counts = UINT64_C(1) << (8 * rank),
                            .tree = scramble((uint64_t)rank + 1)};
}

static struct content add(struct content a, struct content b)
{
    if (a.state != VALID || b.state != VALID || a.class != b.class || a.final || b.final)
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

/* ------------------------------------------------------------------------------------------------- model */

struct lane {
    int rank;
    uint32_t first_step, step_count; /* in the rank's steps */
    uint32_t step, read, written;    /* pieces of the step */
    uint32_t placed;      /* ranks in whose memory the step stores, once it has begun to */
    struct content *held; /* read, and not yet stored and posted; of each piece */
    uint32_t *held_event; /* that read it */
};

/* A process does one action at a time. A lane is two: its reader takes pieces of sources, its writer stores
 * and posts them, so that taking a message never waits for room to pass it on. A rank's application begins
 * and ends its runs. */
struct process {
    enum { APPLICATION, READER, WRITER } kind;
    int rank;
    struct lane *lane; /* of readers and writers */
    uint32_t run;      /* of applications */
    bool running;
    uint32_t event_count;
    uint16_t clock[PROCESSES_MAX]; /* events of each process that come before its next one */
};

struct piece {
    int location;          /* read there when taken; NOBODY: the content is here */
    int placed[RANKS_MAX]; /* the same for each receiver, in its own memory; or NOBODY */
    struct content content;
    uint32_t event; /* that posted it */
};

struct link {
    int source, channel, to; /* to a rank, or `group` (bit mask of ranks) */
    uint32_t group;
    int writer, readers[RANKS_MAX]; /* lanes */
    /* state */
    uint32_t begun, posted; /* messages; pieces of the last one */
    uint32_t lengths[CAPACITY_MAX];
    struct piece *pieces[CAPACITY_MAX];
    uint32_t taken[RANKS_MAX], taken_pieces[RANKS_MAX]; /* by each receiver */
    uint32_t taken_event[CAPACITY_MAX][RANKS_MAX];
};

struct access {
    int location;
    bool writes;
};

struct location {
    struct content content;
    uint32_t write;                /* event; 0: none */
    uint32_t reads[PROCESSES_MAX]; /* events since then */
};

/* A state on the path, and the event that left it. */
struct node {
    uint64_t enabled, backtrack, done, sleep;
    int process;
    uint32_t index; /* of the event within its process */
    uint16_t clock[PROCESSES_MAX];
};

struct model {
    const struct plan *plan;
    const struct explore_options *options;
    struct explore_report *report;
    int rank_count, process_count, lane_count;
    struct process processes[PROCESSES_MAX]; /* applications in the order of ranks, then lanes */
    struct lane lanes[PROCESSES_MAX / 2];
    struct link *links;
    int link_count, location_count;
    int *links_of_step[RANKS_MAX];         /* of each source, each target, each step's group */
    enum placement *placements[RANKS_MAX]; /* of each step */
    uint32_t longest;
    struct location *locations;
    int first_location[RANKS_MAX], output_location[RANKS_MAX], scratch_location[RANKS_MAX];
    int *alias[RANKS_MAX];          /* output chunk -> input chunk or NOBODY */
    uint32_t *completed[RANKS_MAX]; /* event that completed each step in this run */
    uint32_t unread[RANKS_MAX];     /* pieces still to be read from input or output of that rank */
    uint16_t read_clock[RANKS_MAX][PROCESSES_MAX];
    uint64_t *trees; /* [run][output location of a rank]: of an allreduce; 0 unknown */
    int tree_count;
    struct access *accesses, *other_accesses;
    struct node *path;
    uint32_t depth, depth_max;
    bool wrong;
};

static void fail(struct model *m, const char *what, int rank, uint32_t where)
{
    if (m->wrong) return;
    m->wrong = true;
    snprintf(m->report->message, sizeof m->report->message, "rank %d: %s %u", rank, what, where);
}

static const struct plan_step *step_of(const struct model *m, const struct lane *p)
{
    return &m->plan->ranks[p->rank]->steps[p->first_step + p->step];
}

static int location_of(const struct model *m, int rank, enum plan_buffer buffer, uint32_t chunk,
                       uint32_t piece)
{
    int first = m->first_location[rank];
    if (buffer == PLAN_OUTPUT && m->options->in_place && m->alias[rank][chunk] != NOBODY)
        chunk = (uint32_t)m->alias[rank][chunk];
    else if (buffer == PLAN_OUTPUT)
        first = m->output_location[rank];
    else if (buffer == PLAN_SCRATCH)
        first = m->scratch_location[rank];
    return first + (int)(chunk * PIECES + piece);
}

/* Position and half of a step's piece, as a location. */
static int place_location(const struct model *m, int rank, const struct plan_place *place,
                          uint32_t piece)
{
    return location_of(m, rank, place->buffer, place->first + piece / PIECES, piece % PIECES);
}

static uint32_t piece_count(const struct plan_step *step)
{
    return step->chunk_count == 0 ? 1 : step->chunk_count * PIECES;
}

static int source_link(const struct model *m, const struct lane *p, uint32_t i)
{
    const struct plan_step *step = step_of(m, p);
    return m->links_of_step[p->rank][step->first_source + i];
}

/* Targets come behind all sources; one to a group counts as the first. */
static int target_link(const struct model *m, const struct lane *p, uint32_t i)
{
    const struct rank_plan *rank_plan = m->plan->ranks[p->rank];
    const struct plan_step *step = step_of(m, p);
    const uint32_t at = rank_plan->source_count + step->first_target + i;
    return step->target_group == PLAN_NO_GROUP
               ? m->links_of_step[p->rank][at]
               : m->links_of_step[p->rank][rank_plan->source_count + rank_plan->target_count +
                                           p->first_step + p->step];
}

static uint32_t target_count(const struct plan_step *step)
{
    return step->target_group == PLAN_NO_GROUP ? step->target_count : 1;
}

static const struct plan_source *sources_of(const struct model *m, const struct lane *p)
{
    return &m->plan->ranks[p->rank]->sources[step_of(m, p)->first_source];
}

/* A pure send is nothing but a post of the memory it names. */
static bool posts_memory_only(const struct model *m, const struct lane *p)
{
    const struct plan_step *step = step_of(m, p);
    return !m->options->eager && !step->has_destination && step->source_count == 1 &&
           !sources_of(m, p)[0].is_link && step->chunk_count > 0;
}

/* --------------------------------------------------------------------------------------------- placement */

/* The step with whose destination a rank advertises for the first message of a link; NULL: it does not. A later offer replaces an
 * earlier one. */
static const struct plan_step *offer_of(const struct model *m, int link, int rank)
{
    const struct rank_plan *rank_plan = m->plan->ranks[rank];
    const struct plan_step *found = NULL;
    for (uint32_t i = 0; i < rank_plan->step_count; i++) {
        const struct plan_step *step = &rank_plan->steps[i];
        if (m->placements[rank][i] == PLACEMENT_ADVERTISES &&
            rank_plan->sources[step->first_source].is_link &&
            m->links_of_step[rank][step->first_source] == link)
            found = step;
    }
    return found;
}

static bool has_sent_before(const struct model *m, const struct lane *p, int link)
{
    struct lane earlier = *p;
    for (earlier.step = 0; earlier.step < p->step; earlier.step++)
        for (uint32_t i = 0; i < target_count(step_of(m, &earlier)); i++)
            if (target_link(m, &earlier, i) == link) return true;
    return false;
}

/* Ranks that may advertise for what the step sends on that link. */
static uint32_t offering(const struct model *m, const struct lane *p, int link)
{
    uint32_t ranks = 0;
    if (m->placements[p->rank][p->first_step + p->step] != PLACEMENT_PLACES ||
        has_sent_before(m, p, link))
        return 0;
    for (int rank = 0; rank < m->rank_count; rank++)
        if (m->links[link].group >> rank & 1 && offer_of(m, link, rank) != NULL)
            ranks |= 1u << rank;
    return ranks;
}

/* Of these, those that have begun the same run. */
static uint32_t begun_like(const struct model *m, int self, uint32_t ranks)
{
    for (int rank = 0; rank < m->rank_count; rank++) {
        const struct process *theirs = &m->processes[rank];
        if (!theirs->running || theirs->run != m->processes[self].run) ranks &= ~(1u << rank);
    }
    return ranks;
}

/* Where a piece of the step's result goes on that link: decided with its first piece. */
static uint32_t places_in(const struct model *m, const struct lane *p, int link)
{
    const uint32_t ranks = offering(m, p, link);
    return p->written == 0 ? begun_like(m, p->rank, ranks) : ranks & p->placed;
}

static int placed_location(const struct model *m, const struct lane *p, int link, int rank)
{
    return place_location(m, rank, &offer_of(m, link, rank)->destination, p->written);
}

/* Where a receiver finds a piece. */
static int location_for(const struct piece *piece, int rank)
{
    return piece->placed[rank] != NOBODY ? piece->placed[rank] : piece->location;
}

/* ---------------------------------------------------------------------------------------- what may happen */

/* A copy of a chunk onto itself, in place. */
static bool stores_nothing(const struct model *m, const struct lane *p)
{
    const struct plan_step *step = step_of(m, p);
    return step->chunk_count == 0 ||
           (step->has_destination && step->source_count == 1 && !sources_of(m, p)[0].is_link &&
            place_location(m, p->rank, &sources_of(m, p)[0].place, 0) ==
                place_location(m, p->rank, &step->destination, 0));
}

static bool run_is_done(const struct model *m, int rank)
{
    for (int i = 0; i < m->lane_count; i++)
        if (m->lanes[i].rank == rank && m->lanes[i].step < m->lanes[i].step_count) return false;
    return m->unread[rank] == 0;
}

static bool piece_is_there(const struct link *link, int receiver, uint32_t piece)
{
    const uint32_t message = link->taken[receiver];
    return message + 1 < link->begun || (message + 1 == link->begun && piece < link->posted);
}

static bool has_room(const struct model *m, const struct link *link)
{
    for (int rank = 0; rank < m->rank_count; rank++)
        if (link->group >> rank & 1 &&
            link->begun - link->taken[rank] >= (uint32_t)m->options->capacity)
            return false;
    return true;
}

static bool may_start(const struct model *m, const struct lane *p)
{
    const struct plan_step *step = step_of(m, p);
    const struct rank_plan *rank_plan = m->plan->ranks[p->rank];
    for (uint32_t i = 0; i < step->after_count; i++)
        if (m->completed[p->rank][rank_plan->afters[step->first_after + i]] == 0) return false;
    return true;
}

static bool may_read(const struct model *m, const struct lane *p)
{
    const struct plan_step *step = step_of(m, p);
    if (posts_memory_only(m, p) || p->read == piece_count(step)) return false;
    if (p->read == 0 && !may_start(m, p)) return false;
    for (uint32_t i = 0; i < step->source_count; i++)
        if (sources_of(m, p)[i].is_link &&
            !piece_is_there(&m->links[source_link(m, p, i)], p->rank, p->read))
            return false;
    return true;
}

static bool may_write(const struct model *m, const struct lane *p)
{
    if (posts_memory_only(m, p)) {
        if (p->written == 0 && !may_start(m, p)) return false;
    } else if (p->written == p->read) {
        return false;
    }
    for (uint32_t i = 0; p->written == 0 && i < target_count(step_of(m, p)); i++)
        if (!has_room(m, &m->links[target_link(m, p, i)])) return false;
    return true;
}

static bool is_enabled(const struct model *m, const struct process *p)
{
    if (p->kind == APPLICATION)
        return p->running ? run_is_done(m, p->rank) : p->run < (uint32_t)m->options->run_count;
    if (!m->processes[p->rank].running || p->lane->step == p->lane->step_count) return false;
    return p->kind == READER ? may_read(m, p->lane) : may_write(m, p->lane);
}

/* ------------------------------------------------------------------------- accesses and what comes before */

static void join(const struct model *m, uint16_t *clock, const uint16_t *other)
{
    for (int i = 0; i < m->process_count; i++)
        if (clock[i] < other[i]) clock[i] = other[i];
}

/* Events count from 1: event e left path[e - 1]. */
static void join_event(const struct model *m, uint16_t *clock, uint32_t event)
{
    if (event != 0) join(m, clock, m->path[event - 1].clock);
}

static struct piece *next_piece(const struct model *m, const struct lane *p, uint32_t i)
{
    const struct link *link = &m->links[source_link(m, p, i)];
    return &link->pieces[link->taken[p->rank] % CAPACITY_MAX][p->read];
}

/* Behind all others, one location for each beginning of a run, which the ends of barriers read, and those who place. */
static int begun_location(const struct model *m, uint32_t run, int rank)
{
    return m->location_count - m->rank_count * (m->options->run_count - (int)run) + rank;
}

/* Chunks of input and output, both pieces, and the beginning of the run. */
static int application_accesses(const struct model *m, const struct process *p,
                                struct access *accesses)
{
    const struct plan_shape *shape = &m->plan->shape;
    const int begun = begun_location(m, p->run, 0);
    const bool begins = !p->running;
    int count = 0;
    if (begins) accesses[count++] = (struct access){begun + p->rank, true};
    for (int rank = 0; !begins && shape->collective == COLLECTIVE_BARRIER && rank < m->rank_count;
         rank++)
        accesses[count++] = (struct access){begun + rank, false};
    for (int buffer = begins ? PLAN_INPUT : PLAN_OUTPUT; buffer <= PLAN_OUTPUT; buffer++) {
        const uint32_t chunks = plan_chunk_count(shape, p->rank, (enum plan_buffer)buffer);
        for (uint32_t i = 0; i < chunks * PIECES; i++)
            accesses[count++] = (struct access){
                location_of(m, p->rank, (enum plan_buffer)buffer, i / PIECES, i % PIECES), begins};
    }
    return count;
}

static int placing_accesses(const struct model *m, const struct lane *p, struct access *accesses)
{
    int count = 0;
    for (uint32_t i = 0; i < target_count(step_of(m, p)); i++) {
        const int link = target_link(m, p, i);
        const uint32_t asked = p->written == 0 ? offering(m, p, link) : 0;
        const uint32_t placed = places_in(m, p, link);
        for (int rank = 0; rank < m->rank_count; rank++) {
            if (asked >> rank & 1)
                accesses[count++] =
                    (struct access){begun_location(m, m->processes[p->rank].run, rank), false};
            if (placed >> rank & 1)
                accesses[count++] = (struct access){placed_location(m, p, link, rank), true};
        }
    }
    return count;
}

/* Of the next action of an enabled process. */
static int accesses_of(const struct model *m, const struct process *p, struct access *accesses)
{
    int count = 0;
    if (p->kind == APPLICATION) return application_accesses(m, p, accesses);
    const struct plan_step *step = step_of(m, p->lane);
    if (step->chunk_count == 0) return 0;
    if (p->kind == WRITER) {
        if (step->has_destination && !stores_nothing(m, p->lane))
            accesses[count++] = (struct access){
                place_location(m, p->rank, &step->destination, p->lane->written), true};
        return count + placing_accesses(m, p->lane, accesses + count);
    }
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &sources_of(m, p->lane)[i];
        const int location = source->is_link
                                 ? location_for(next_piece(m, p->lane, i), p->rank)
                                 : place_location(m, p->rank, &source->place, p->lane->read);
        if (location != NOBODY) accesses[count++] = (struct access){location, false};
    }
    return count;
}

static void join_start(const struct model *m, const struct lane *p, uint16_t *clock)
{
    const struct plan_step *step = step_of(m, p);
    const struct rank_plan *rank_plan = m->plan->ranks[p->rank];
    join(m, clock, m->processes[p->rank].clock); /* the run has begun */
    for (uint32_t i = 0; i < step->after_count; i++)
        join_event(m, clock, m->completed[p->rank][rank_plan->afters[step->first_after + i]]);
    if (p->step > 0) join_event(m, clock, m->completed[p->rank][p->first_step + p->step - 1]);
}

static void join_room(const struct model *m, const struct lane *p, uint16_t *clock)
{
    for (uint32_t i = 0; i < target_count(step_of(m, p)); i++) {
        const struct link *link = &m->links[target_link(m, p, i)];
        if (link->begun < (uint32_t)m->options->capacity) continue;
        const uint32_t freed = link->begun - (uint32_t)m->options->capacity;
        for (int rank = 0; rank < m->rank_count; rank++)
            if (link->group >> rank & 1)
                join_event(m, clock, link->taken_event[freed % CAPACITY_MAX][rank]);
    }
}

/* All but conflicting accesses: program order, dependencies, messages, room. */
static void join_causes(const struct model *m, const struct process *p, uint16_t *clock)
{
    join(m, clock, p->clock);
    if (p->kind == APPLICATION) {
        for (int i = 0; p->running && i < m->process_count; i++)
            if (m->processes[i].rank == p->rank) join(m, clock, m->processes[i].clock);
        if (p->running) join(m, clock, m->read_clock[p->rank]);
        return;
    }
    const struct lane *lane = p->lane;
    const bool first = (p->kind == READER ? lane->read : lane->written) == 0;
    if (first) join_start(m, lane, clock);
    if (p->kind == WRITER) {
        if (!posts_memory_only(m, lane)) join_event(m, clock, lane->held_event[lane->written]);
        if (first) join_room(m, lane, clock);
        return;
    }
    for (uint32_t i = 0; i < step_of(m, lane)->source_count; i++)
        if (sources_of(m, lane)[i].is_link) join_event(m, clock, next_piece(m, lane, i)->event);
}

/* ----------------------------------------------------------------------------------------------- actions */

static void begin_run(struct model *m, struct process *p)
{
    const struct plan_shape *shape = &m->plan->shape;
    for (uint32_t i = 0; i < plan_chunk_count(shape, p->rank, PLAN_OUTPUT) * PIECES; i++)
        m->locations[location_of(m, p->rank, PLAN_OUTPUT, i / PIECES, i % PIECES)].content =
            (struct content){.state = UNDEFINED};
    for (uint32_t i = 0; i < plan_chunk_count(shape, p->rank, PLAN_INPUT) * PIECES; i++)
        m->locations[location_of(m, p->rank, PLAN_INPUT, i / PIECES, i % PIECES)].content =
            contribution(p->rank,
                         plan_chunk_class(shape, p->rank, PLAN_INPUT, i / PIECES) + (p->run << 24));
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

static void check_piece(struct model *m, const struct process *p, uint32_t i)
{
    const struct plan_shape *shape = &m->plan->shape;
    const int location = location_of(m, p->rank, PLAN_OUTPUT, i / PIECES, i % PIECES);
    const struct content *found = &m->locations[location].content;
    const uint32_t class = plan_chunk_class(shape, p->rank, PLAN_OUTPUT, i / PIECES);
    const bool reduces = collective_reduces(shape->collective);
    const uint64_t expected =
        reduces ? all_once(m->rank_count) : UINT64_C(1) << (8 * owner_of(shape, class));
    if (found->state != VALID || found->class != class + (p->run << 24) ||
        found->counts != expected || found->final != (reduces && m->rank_count > 1)) {
        fail(m, "wrong output chunk", p->rank, i / PIECES);
        return;
    }
    if (shape->collective != COLLECTIVE_ALLREDUCE) return;
    uint64_t *tree = &m->trees[p->run * shape->parts * PIECES + i];
    if (*tree == 0) *tree = found->tree;
    if (*tree != found->tree) fail(m, "another tree for output chunk", p->rank, i / PIECES);
}

static void end_run(struct model *m, struct process *p)
{
    const struct plan_shape *shape = &m->plan->shape;
    for (uint32_t i = 0; i < plan_chunk_count(shape, p->rank, PLAN_OUTPUT) * PIECES; i++)
        check_piece(m, p, i);
    for (int rank = 0; shape->collective == COLLECTIVE_BARRIER && rank < m->rank_count; rank++) {
        const struct process *other = &m->processes[rank];
        if (other->run < p->run || (other->run == p->run && !other->running))
            fail(m, "left the barrier before the beginning of rank", p->rank, (uint32_t)rank);
    }
    p->run++;
    p->running = false;
}

/* Whether a run's end waits for a message from there to be taken. */
static bool run_waits_for(const struct model *m, int rank, int location)
{
    return !m->options->scratch_outlives_run || location < m->scratch_location[rank];
}

static struct content take_piece(struct model *m, struct lane *p, uint32_t i, uint32_t event)
{
    struct link *link = &m->links[source_link(m, p, i)];
    const uint32_t slot = link->taken[p->rank] % CAPACITY_MAX;
    const struct piece *piece = &link->pieces[slot][p->read];
    const int location = location_for(piece, p->rank);
    const struct content content =
        location == NOBODY ? piece->content : m->locations[location].content;
    if (link->lengths[slot] != piece_count(step_of(m, p)))
        fail(m, "length of a message, step", p->rank, p->first_step + p->step);
    if (piece->location != NOBODY && location == piece->location &&
        run_waits_for(m, link->source, piece->location)) {
        m->unread[link->source]--;
        join(m, m->read_clock[link->source], m->path[event - 1].clock);
    }
    if (++link->taken_pieces[p->rank] == link->lengths[slot]) {
        link->taken_pieces[p->rank] = 0;
        link->taken[p->rank]++;
        link->taken_event[slot][p->rank] = event;
    }
    return content;
}

static void read_piece(struct model *m, struct lane *p, uint32_t event)
{
    const struct plan_step *step = step_of(m, p);
    struct content sum = poison;
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &sources_of(m, p)[i];
        struct content next = {.state = UNDEFINED};
        if (source->is_link)
            next = take_piece(m, p, i, event);
        else if (step->chunk_count > 0)
            next = m->locations[place_location(m, p->rank, &source->place, p->read)].content;
        sum = i == 0 ? next : add(sum, next);
    }
    if (step->source_count > 1) sum.tree = scramble(sum.tree + 1);
    if (step->final && (sum.state != VALID || sum.final || sum.counts != all_once(m->rank_count)))
        sum = poison;
    if (step->final) {
        sum.final = true;
        sum.tree = scramble(sum.tree + 2);
    }
    p->held_event[p->read] = event;
    p->held[p->read++] = sum;
}

/* Stores a piece of what goes on a link in the memory of receivers that advertise it, and notes where. */
static uint32_t place_piece(struct model *m, struct lane *p, int link, struct piece *piece)
{
    const uint32_t ranks = places_in(m, p, link);
    for (int rank = 0; rank < RANKS_MAX; rank++) {
        piece->placed[rank] = NOBODY;
        if (!(ranks >> rank & 1)) continue;
        piece->placed[rank] = placed_location(m, p, link, rank);
        m->locations[piece->placed[rank]].content = p->held[p->written];
    }
    return ranks;
}

static void post_piece(struct model *m, struct lane *p, int location, uint32_t event)
{
    const struct plan_step *step = step_of(m, p);
    uint32_t placed = 0;
    for (uint32_t i = 0; i < target_count(step); i++) {
        struct link *link = &m->links[target_link(m, p, i)];
        struct piece piece = {.location = location, .content = p->held[p->written], .event = event};
        const uint32_t ranks = place_piece(m, p, target_link(m, p, i), &piece);
        placed |= ranks;
        if (p->written == 0) {
            link->lengths[link->begun % CAPACITY_MAX] = piece_count(step);
            link->begun++;
        }
        link->posted = p->written + 1;
        link->pieces[(link->begun - 1) % CAPACITY_MAX][p->written] = piece;
        if (location != NOBODY && run_waits_for(m, p->rank, location))
            m->unread[p->rank] += (uint32_t)__builtin_popcount(link->group & ~ranks);
    }
    if (p->written == 0) p->placed = placed;
}

static void write_piece(struct model *m, struct lane *p, uint32_t event)
{
    const struct plan_step *step = step_of(m, p);
    int location = NOBODY;
    if (posts_memory_only(m, p))
        location = place_location(m, p->rank, &sources_of(m, p)[0].place, p->written);
    if (step->has_destination)
        location = place_location(m, p->rank, &step->destination, p->written);
    if (step->has_destination && !stores_nothing(m, p)) {
        m->locations[location].content = p->held[p->written];
        if (m->options->eager) location = NOBODY;
    }
    post_piece(m, p, location, event);
    if (++p->written < piece_count(step)) return;
    m->completed[p->rank][p->first_step + p->step] = event;
    p->read = p->written = 0;
    p->step++;
}

static void act(struct model *m, struct process *p, uint32_t event)
{
    if (p->kind == READER)
        read_piece(m, p->lane, event);
    else if (p->kind == WRITER)
        write_piece(m, p->lane, event);
    else if (p->running)
        end_run(m, p);
    else
        begin_run(m, p);
}

/* ------------------------------------------------------------------------------------------------ search */

/* Event `earlier` and the next one of process p could come in the other order: something that leads to that
 * must be tried where `earlier` was chosen. */
static void try_other_order(struct model *m, uint32_t earlier, int p, const uint16_t *clock)
{
    struct node *node = &m->path[earlier - 1];
    uint64_t candidates = node->enabled & UINT64_C(1) << p;
    for (uint32_t i = earlier; i < m->depth; i++)
        if (clock[m->path[i].process] >= m->path[i].index)
            candidates |= node->enabled & UINT64_C(1) << m->path[i].process;
    if (candidates & node->backtrack) return;
    node->backtrack |= candidates != 0 ? candidates & -candidates : node->enabled;
}

static void meet(struct model *m, uint32_t earlier, int p, bool analyse, const uint16_t *causes,
                 uint16_t *clock)
{
    if (earlier == 0) return;
    const struct node *node = &m->path[earlier - 1];
    if (node->process == p || causes[node->process] >= node->index) return;
    if (analyse) try_other_order(m, earlier, p, causes);
    join(m, clock, node->clock);
}

/* Executes the next action of process p; its event leaves the node at the end of the path. */
static void step_on(struct model *m, int p, bool analyse)
{
    struct process *process = &m->processes[p];
    struct node *node = &m->path[m->depth];
    const uint32_t event = m->depth + 1;
    uint16_t causes[PROCESSES_MAX] = {0}, clock[PROCESSES_MAX];
    join_causes(m, process, causes);
    memcpy(clock, causes, sizeof clock);
    const int access_count = accesses_of(m, process, m->accesses);
    for (int i = 0; i < access_count; i++) {
        struct location *location = &m->locations[m->accesses[i].location];
        meet(m, location->write, p, analyse, causes, clock);
        for (int q = 0; m->accesses[i].writes && q < m->process_count; q++)
            meet(m, location->reads[q], p, analyse, causes, clock);
    }
    for (int i = 0; i < access_count; i++) {
        struct location *location = &m->locations[m->accesses[i].location];
        if (m->accesses[i].writes) {
            memset(location->reads, 0, sizeof location->reads);
            location->write = event;
        } else {
            location->reads[p] = event;
        }
    }
    clock[p] = (uint16_t)++process->event_count;
    node->process = p;
    node->index = process->event_count;
    memcpy(node->clock, clock, sizeof clock);
    memcpy(process->clock, clock, sizeof clock);
    act(m, process, event);
    m->depth++;
    m->report->events++;
}

static bool independent(struct model *m, int p, int q)
{
    const int a = accesses_of(m, &m->processes[p], m->accesses);
    const int b = accesses_of(m, &m->processes[q], m->other_accesses);
    for (int i = 0; i < a; i++)
        for (int k = 0; k < b; k++)
            if (m->accesses[i].location == m->other_accesses[k].location &&
                (m->accesses[i].writes || m->other_accesses[k].writes))
                return false;
    return true;
}

static void go(struct model *m, int p)
{
    struct node *node = &m->path[m->depth];
    const uint64_t asleep = (node->sleep | node->done) & ~(UINT64_C(1) << p);
    uint64_t sleep = 0;
    for (int q = 0; q < m->process_count; q++)
        if (asleep >> q & 1 && independent(m, p, q)) sleep |= UINT64_C(1) << q;
    node->done |= UINT64_C(1) << p;
    step_on(m, p, true);
    m->path[m->depth] = (struct node){.sleep = sleep};
}

static void reset(struct model *m)
{
    for (int i = 0; i < m->process_count; i++) {
        struct process *p = &m->processes[i];
        *p = (struct process){.kind = p->kind, .rank = p->rank, .lane = p->lane};
    }
    for (int i = 0; i < m->lane_count; i++)
        m->lanes[i].step = m->lanes[i].read = m->lanes[i].written = 0;
    memset(m->locations, 0, (size_t)m->location_count * sizeof *m->locations);
    memset(m->unread, 0, sizeof m->unread);
    memset(m->read_clock, 0, sizeof m->read_clock);
    memset(m->trees, 0, (size_t)m->tree_count * sizeof *m->trees);
    for (int i = 0; i < m->link_count; i++) {
        struct link *link = &m->links[i];
        link->begun = link->posted = 0;
        memset(link->taken, 0, sizeof link->taken);
        memset(link->taken_pieces, 0, sizeof link->taken_pieces);
        memset(link->taken_event, 0, sizeof link->taken_event);
    }
    m->depth = 0;
}

static void check_end(struct model *m)
{
    for (int rank = 0; rank < m->rank_count; rank++)
        if (m->processes[rank].run < (uint32_t)m->options->run_count)
            fail(m, "deadlock in run", rank, m->processes[rank].run);
    for (int i = 0; i < m->link_count; i++)
        for (int rank = 0; rank < m->rank_count; rank++)
            if (m->links[i].group >> rank & 1 && m->links[i].taken[rank] != m->links[i].begun)
                fail(m, "a message is left over from rank", rank, (uint32_t)m->links[i].source);
}

/* From the end of the path to the end of an execution. */
static void run_forward(struct model *m)
{
    while (!m->wrong && m->report->events < m->options->events_max && m->depth < m->depth_max) {
        struct node *node = &m->path[m->depth];
        node->enabled = 0;
        for (int p = 0; p < m->process_count; p++)
            if (is_enabled(m, &m->processes[p])) node->enabled |= UINT64_C(1) << p;
        if (node->enabled == 0) check_end(m);
        const uint64_t awake = node->enabled & ~node->sleep;
        if (awake == 0) return;
        node->backtrack = awake & -awake;
        go(m, __builtin_ctzll(awake));
    }
}

/* The deepest state where something else is to be tried; false when all is done. */
static bool step_back(struct model *m, uint64_t *next)
{
    while (m->depth > 0) {
        const struct node *node = &m->path[--m->depth];
        *next = node->backtrack & ~node->done & ~node->sleep;
        if (*next != 0) return true;
    }
    return false;
}

static enum explore_outcome search(struct model *m)
{
    uint64_t next = 0;
    reset(m);
    m->path[0] = (struct node){0};
    for (;;) {
        run_forward(m);
        m->report->executions++;
        if (m->wrong) return EXPLORE_WRONG;
        if (m->depth == m->depth_max || m->report->events >= m->options->events_max)
            return EXPLORE_BOUND;
        if (!step_back(m, &next)) return EXPLORE_RIGHT;
        const uint32_t depth = m->depth;
        reset(m);
        while (m->depth < depth) step_on(m, m->path[m->depth].process, false);
        go(m, __builtin_ctzll(next));
    }
}

/* ------------------------------------------------------------------------------------- setting up the model */

static uint32_t members_of(const struct rank_plan *rank_plan, int group)
{
    uint32_t mask = 0;
    const struct plan_group *of = &rank_plan->groups[group];
    for (uint32_t i = 0; i < of->member_count; i++)
        mask |= 1u << rank_plan->members[of->first_member + i];
    return mask;
}

static int find_link(struct model *m, int source, uint32_t group, int to, int channel)
{
    for (int i = 0; i < m->link_count; i++)
        if (m->links[i].source == source && m->links[i].group == group && m->links[i].to == to &&
            m->links[i].channel == channel)
            return i;
    m->links = realloc(m->links, sizeof *m->links * (size_t)(m->link_count + 1));
    assert(m->links != NULL);
    struct link *link = &m->links[m->link_count];
    *link = (struct link){
        .source = source, .channel = channel, .to = to, .group = group, .writer = NOBODY};
    for (int rank = 0; rank < RANKS_MAX; rank++) link->readers[rank] = NOBODY;
    return m->link_count++;
}

static bool claim(int *holder, int lane)
{
    if (*holder == NOBODY) *holder = lane;
    return *holder == lane;
}

/* Receivers of a unicast link are a set of one; `to` tells it from a group of two. */
static bool connect_step(struct model *m, int lane, uint32_t index)
{
    const struct lane *p = &m->lanes[lane];
    const struct rank_plan *rank_plan = m->plan->ranks[p->rank];
    const struct plan_step *step = &rank_plan->steps[index];
    int *links = m->links_of_step[p->rank];
    const uint32_t self = 1u << p->rank;
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *s = &rank_plan->sources[step->first_source + i];
        int *at = &links[step->first_source + i];
        if (!s->is_link) continue;
        *at = s->group == PLAN_NO_GROUP
                  ? find_link(m, s->peer, self, p->rank, s->channel)
                  : find_link(m, s->peer, members_of(rank_plan, s->group) & ~(1u << s->peer),
                              NOBODY, s->channel);
        if (!claim(&m->links[*at].readers[p->rank], lane)) return false;
        for (uint32_t k = 0; k < i; k++)
            if (rank_plan->sources[step->first_source + k].is_link && at[(int)k - (int)i] == *at)
                return false;
    }
    for (uint32_t i = 0; i < step->target_count; i++) {
        const int peer = rank_plan->targets[step->first_target + i];
        int *at = &links[rank_plan->source_count + step->first_target + i];
        *at = find_link(m, p->rank, 1u << peer, peer, step->target_channel);
        if (!claim(&m->links[*at].writer, lane)) return false;
        for (uint32_t k = 0; k < i; k++)
            if (at[(int)k - (int)i] == *at) return false;
    }
    if (step->target_group == PLAN_NO_GROUP) return true;
    int *at = &links[rank_plan->source_count + rank_plan->target_count + index];
    *at = find_link(m, p->rank, members_of(rank_plan, step->target_group) & ~self, NOBODY,
                    step->target_channel);
    return claim(&m->links[*at].writer, lane);
}

/* Two links that lead from one rank to another on one channel could not be told apart. */
static bool links_are_distinct(const struct model *m)
{
    for (int i = 0; i < m->link_count; i++)
        for (int k = 0; k < i; k++)
            if (m->links[i].source == m->links[k].source &&
                m->links[i].channel == m->links[k].channel &&
                (m->links[i].group & m->links[k].group) != 0)
                return false;
    return true;
}

static void lay_out_rank(struct model *m, int rank)
{
    const struct plan_shape *shape = &m->plan->shape;
    const struct rank_plan *rank_plan = m->plan->ranks[rank];
    const uint32_t inputs = plan_chunk_count(shape, rank, PLAN_INPUT);
    const uint32_t outputs = plan_chunk_count(shape, rank, PLAN_OUTPUT);
    m->first_location[rank] = m->location_count;
    m->output_location[rank] = m->first_location[rank] + (int)inputs * PIECES;
    m->scratch_location[rank] = m->output_location[rank] + (int)outputs * PIECES;
    m->location_count = m->scratch_location[rank] + (int)rank_plan->scratch_count * PIECES;
    m->alias[rank] = calloc(outputs + 1, sizeof(int));
    m->completed[rank] = calloc(rank_plan->step_count + 1, sizeof(uint32_t));
    m->links_of_step[rank] = calloc(
        rank_plan->source_count + rank_plan->target_count + rank_plan->step_count + 1, sizeof(int));
    m->placements[rank] = calloc(rank_plan->step_count + 1, sizeof(enum placement));
    assert(m->alias[rank] && m->completed[rank] && m->links_of_step[rank] && m->placements[rank]);
    for (uint32_t out = 0; out < outputs; out++) {
        m->alias[rank][out] = NOBODY;
        for (uint32_t in = 0; in < inputs; in++)
            if (shape->collective == COLLECTIVE_ALLTOALL
                    ? in == out
                    : plan_chunk_class(shape, rank, PLAN_INPUT, in) ==
                          plan_chunk_class(shape, rank, PLAN_OUTPUT, out))
                m->alias[rank][out] = (int)in;
    }
    for (uint32_t i = 0; i < rank_plan->step_count; i++) {
        const uint32_t count = piece_count(&rank_plan->steps[i]);
        if (count > m->longest) m->longest = count;
    }
}

static bool add_lane(struct model *m, int rank, const struct plan_lane *from)
{
    if (m->process_count + 2 > PROCESSES_MAX) return false;
    struct lane *lane = &m->lanes[m->lane_count++];
    *lane =
        (struct lane){.rank = rank, .first_step = from->first_step, .step_count = from->step_count};
    lane->held = calloc(m->longest, sizeof *lane->held);
    lane->held_event = calloc(m->longest, sizeof *lane->held_event);
    assert(lane->held && lane->held_event);
    m->processes[m->process_count++] = (struct process){.kind = READER, .rank = rank, .lane = lane};
    m->processes[m->process_count++] = (struct process){.kind = WRITER, .rank = rank, .lane = lane};
    return true;
}

static bool add_processes(struct model *m)
{
    for (int rank = 0; rank < m->rank_count; rank++)
        m->processes[m->process_count++] = (struct process){.kind = APPLICATION, .rank = rank};
    for (int rank = 0; rank < m->rank_count; rank++)
        for (uint32_t i = 0; i < m->plan->ranks[rank]->lane_count; i++)
            if (!add_lane(m, rank, &m->plan->ranks[rank]->lanes[i])) return false;
    return true;
}

static void find_placements(struct model *m)
{
    for (int rank = 0; m->options->placement != NULL && rank < m->rank_count; rank++)
        for (uint32_t i = 0; i < m->plan->ranks[rank]->step_count; i++)
            m->placements[rank][i] =
                m->options->placement(m->plan->ranks[rank], i, m->options->in_place);
}

static bool set_up(struct model *m)
{
    uint64_t event_count = 64;
    for (int rank = 0; rank < m->rank_count; rank++) lay_out_rank(m, rank);
    m->location_count += m->rank_count * m->options->run_count; /* "has begun" */
    if (!add_processes(m)) return false;
    find_placements(m);
    for (int lane = 0; lane < m->lane_count; lane++)
        for (uint32_t i = 0; i < m->lanes[lane].step_count; i++) {
            if (!connect_step(m, lane, m->lanes[lane].first_step + i)) return false;
            event_count += 2 * (uint64_t)m->longest * (uint64_t)m->options->run_count;
        }
    if (!links_are_distinct(m)) return false;
    for (int i = 0; i < m->link_count; i++)
        for (int k = 0; k < CAPACITY_MAX; k++) {
            m->links[i].pieces[k] = calloc(m->longest, sizeof(struct piece));
            assert(m->links[i].pieces[k] != NULL);
        }
    m->tree_count = m->options->run_count * (int)m->plan->shape.parts * PIECES;
    m->depth_max = (uint32_t)event_count;
    m->locations = calloc((size_t)m->location_count, sizeof *m->locations);
    m->trees = calloc((size_t)m->tree_count, sizeof *m->trees);
    m->accesses = calloc((size_t)m->location_count + 64, sizeof *m->accesses);
    m->other_accesses = calloc((size_t)m->location_count + 64, sizeof *m->other_accesses);
    m->path = calloc((size_t)m->depth_max + 1, sizeof *m->path);
    assert(m->locations && m->trees && m->accesses && m->other_accesses && m->path);
    return true;
}

static void tear_down(struct model *m)
{
    for (int rank = 0; rank < m->rank_count; rank++) {
        free(m->alias[rank]);
        free(m->completed[rank]);
        free(m->links_of_step[rank]);
        free(m->placements[rank]);
    }
    for (int i = 0; i < m->lane_count; i++) {
        free(m->lanes[i].held);
        free(m->lanes[i].held_event);
    }
    for (int i = 0; i < m->link_count; i++)
        for (int k = 0; k < CAPACITY_MAX; k++) free(m->links[i].pieces[k]);
    free(m->links);
    free(m->locations);
    free(m->trees);
    free(m->accesses);
    free(m->other_accesses);
    free(m->path);
    free(m);
}

enum explore_outcome explore(const struct plan *plan, const struct explore_options *options,
                             struct explore_report *report)
{
    struct verify_report form;
    *report = (struct explore_report){0};
    if (plan->shape.rank_count > RANKS_MAX || !form_check(plan, &form)) return EXPLORE_MALFORMED;
    assert(options->capacity >= 1 && options->capacity <= CAPACITY_MAX);
    struct model *m = calloc(1, sizeof *m);
    assert(m != NULL);
    m->plan = plan;
    m->options = options;
    m->report = report;
    m->rank_count = plan->shape.rank_count;
    m->longest = 1;
    const enum explore_outcome outcome = set_up(m) ? search(m) : EXPLORE_MALFORMED;
    tear_down(m);
    return outcome;
}
