#include "pipeline_room.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"
#include "schedule_times.h"

/* One direction of what a stage sends and receives. */
struct flow {
    int receives, receives_free;
    size_t next_posted; /* position of the pass from which on no receive is started */
    size_t *ring;       /* messages that were sent, in order: their indices */
    size_t sent, gone;  /* of the ring: all before `gone` have been received */
    int sends;          /* the most at once */
};

enum message { NOT_YET = 0, SENT = 1, POSTED = 2, RECEIVED = SENT | POSTED };

struct rehearsal {
    const struct tutti_schedule *schedule;
    struct flow (*flows)[2];    /* of each stage */
    unsigned char *messages[2]; /* by the part that sends it, and the micro-batch */
    size_t *rings;
};

/* ------------------------------------------------------------------------------ one stage alone */

/* With one stage: the data between two parts of the model. */
static void count_alone(const struct tutti_schedule *schedule, struct pipeline_room *room)
{
    const struct schedule_stage *const stage = &schedule->stages[0];
    const int last = schedule->shape.chunk_count - 1;
    int kept[2] = {0, 0};
    *room = (struct pipeline_room){{0, 0}, {0, 0}};
    for (size_t i = 0; i < stage->count; i++) {
        const struct tutti_schedule_action a = stage->actions[i];
        if (a.pass == TUTTI_PASS_FORWARD ? a.chunk < last : a.chunk > 0) kept[a.pass]++;
        if (kept[a.pass] > room->receives[a.pass]) room->receives[a.pass] = kept[a.pass];
        if (a.pass == TUTTI_PASS_FORWARD) continue;
        if (a.chunk > 0) kept[TUTTI_PASS_FORWARD]--;
        if (a.chunk < last) kept[TUTTI_PASS_BACKWARD]--;
    }
}

/* ------------------------------------------------------------------------------------- receives */

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static bool does_receive(const struct tutti_schedule_shape *shape, int stage,
                         struct tutti_schedule_action action, enum tutti_pass pass)
{
    return schedule_part_before(shape, pass, schedule_part(shape, stage, action.chunk)) >= 0;
}

static void count_receives(const struct tutti_schedule *schedule, int stage, int receives[2])
{
    const struct tutti_schedule_shape *const shape = &schedule->shape;
    int all[2] = {0, 0}, now = 0, most = 0;
    for (size_t i = 0; i < schedule->stages[stage].count; i++) {
        const struct tutti_schedule_action a = schedule->stages[stage].actions[i];
        all[a.pass] += does_receive(shape, stage, a, a.pass);
        if (does_receive(shape, stage, a, TUTTI_PASS_FORWARD))
            now += a.pass == TUTTI_PASS_FORWARD ? 1 : -1;
        if (now > most) most = now;
    }
    receives[TUTTI_PASS_FORWARD] = smaller(most + 1, all[TUTTI_PASS_FORWARD]);
    receives[TUTTI_PASS_BACKWARD] = smaller(2, all[TUTTI_PASS_BACKWARD]);
}

/* -------------------------------------------------------------------------------- the rehearsal */

static void give_room(struct rehearsal *r, int stage, enum tutti_pass pass)
{
    struct flow *const flow = &r->flows[stage][pass];
    while (flow->gone < flow->sent && r->messages[pass][flow->ring[flow->gone]] == RECEIVED)
        flow->gone++;
}

/* Starts the receives that have a buffer. */
static void post(struct rehearsal *r, int stage, enum tutti_pass pass)
{
    const struct tutti_schedule_shape *const shape = &r->schedule->shape;
    const struct schedule_stage *const s = &r->schedule->stages[stage];
    struct flow *const flow = &r->flows[stage][pass];
    for (; flow->next_posted < s->count; flow->next_posted++) {
        const struct tutti_schedule_action a = s->actions[flow->next_posted];
        if (a.pass != pass || !does_receive(shape, stage, a, pass)) continue;
        if (flow->receives_free == 0) return;
        flow->receives_free--;
        const int from = schedule_part_before(shape, pass, schedule_part(shape, stage, a.chunk));
        unsigned char *const message =
            &r->messages[pass][schedule_index(shape, from, a.micro_batch)];
        *message |= POSTED;
        if (*message == RECEIVED) give_room(r, from % shape->stage_count, pass);
    }
}

static void do_pass(struct rehearsal *r, int stage, struct tutti_schedule_action a)
{
    const struct tutti_schedule_shape *const shape = &r->schedule->shape;
    const int part = schedule_part(shape, stage, a.chunk);
    struct flow *const flow = &r->flows[stage][a.pass];
    if (schedule_part_behind(shape, a.pass, part) >= 0) {
        const size_t index = schedule_index(shape, part, a.micro_batch);
        flow->ring[flow->sent++] = index;
        if ((int)(flow->sent - flow->gone) > flow->sends)
            flow->sends = (int)(flow->sent - flow->gone);
        r->messages[a.pass][index] |= SENT;
        give_room(r, stage, a.pass);
    }
    if (a.pass == TUTTI_PASS_FORWARD) return;
    for (int pass = 0; pass < 2; pass++)
        if (does_receive(shape, stage, a, (enum tutti_pass)pass)) {
            r->flows[stage][pass].receives_free++;
            post(r, stage, (enum tutti_pass)pass);
        }
}

static void rehearse(struct rehearsal *r, const size_t *order, size_t passes)
{
    const size_t stage_passes = schedule_stage_passes(&r->schedule->shape);
    for (int s = 0; s < r->schedule->shape.stage_count; s++)
        for (int pass = 0; pass < 2; pass++) post(r, s, (enum tutti_pass)pass);
    for (size_t i = 0; i < passes; i++) {
        const int stage = (int)(order[i] / stage_passes);
        do_pass(r, stage, r->schedule->stages[stage].actions[order[i] % stage_passes]);
    }
}

/* All passes by the time at which they end if each takes 1: a counting sort. */
static size_t *order_passes(const struct schedule_times *times, size_t passes)
{
    const size_t rounds = (size_t)times->step_time + 1;
    size_t *const order = calloc(passes, sizeof *order);
    size_t *const first = calloc(rounds + 1, sizeof *first);
    if (order == NULL || first == NULL) {
        free(order);
        free(first);
        return NULL;
    }
    for (size_t i = 0; i < passes; i++) first[(size_t)times->ends[i] + 1]++;
    for (size_t k = 1; k <= rounds; k++) first[k] += first[k - 1];
    for (size_t i = 0; i < passes; i++) order[first[(size_t)times->ends[i]]++] = i;
    free(first);
    return order;
}

static enum tutti_status rehearsal_init(struct rehearsal *r, const struct tutti_schedule *schedule)
{
    const size_t stages = (size_t)schedule->shape.stage_count;
    const size_t half = schedule_stage_passes(&schedule->shape) / 2;
    *r = (struct rehearsal){.schedule = schedule};
    r->flows = calloc(stages, sizeof *r->flows);
    r->messages[0] = calloc(2 * stages, half);
    r->rings = calloc(2 * stages * half, sizeof *r->rings);
    if (r->flows == NULL || r->messages[0] == NULL || r->rings == NULL)
        return error_set(TUTTI_NO_MEMORY, "out of memory to plan a pipeline");
    r->messages[1] = r->messages[0] + stages * half;
    for (size_t s = 0; s < stages; s++) {
        int receives[2];
        count_receives(schedule, (int)s, receives);
        for (size_t pass = 0; pass < 2; pass++)
            r->flows[s][pass] = (struct flow){.receives = receives[pass],
                                              .receives_free = receives[pass],
                                              .ring = r->rings + (2 * s + pass) * half};
    }
    return TUTTI_OK;
}

static void rehearsal_release(struct rehearsal *r)
{
    free(r->flows);
    free(r->messages[0]);
    free(r->rings);
}

/* Two places in a ring where there is more than one message, so that a pass need not wait for the
 * last message to have left. */
static int ring_size(const struct flow *flow)
{
    return flow->sends < 2 && flow->sent > 1 ? 2 : flow->sends;
}

enum tutti_status pipeline_room(const struct tutti_schedule *schedule, int stage,
                                struct pipeline_room *room)
{
    const struct tutti_schedule_times same = {sizeof same, 1, 1, NULL};
    struct schedule_times times;
    struct rehearsal r = {0};
    TRY(schedule_times_init(&times, schedule, &same));
    enum tutti_status status = TUTTI_OK;
    if (schedule->shape.stage_count == 1) {
        count_alone(schedule, room);
        goto release_times;
    }
    const size_t passes = (size_t)schedule->shape.stage_count * times.stage_passes;
    size_t *const order = order_passes(&times, passes);
    status = order != NULL ? rehearsal_init(&r, schedule)
                           : error_set(TUTTI_NO_MEMORY, "out of memory to plan a pipeline");
    if (status == TUTTI_OK) {
        rehearse(&r, order, passes);
        for (int pass = 0; pass < 2; pass++) {
            room->receives[pass] = r.flows[stage][pass].receives;
            room->sends[pass] = ring_size(&r.flows[stage][pass]);
        }
    }
    rehearsal_release(&r);
    free(order);
release_times:
    schedule_times_release(&times);
    return status;
}
