#include "tests/programs/program_message.h"

#include "tests/kit/elements.h"

enum { SEND, RECV };

static int to_rank(const struct program_work *w)
{
    return (w->on->rank + w->step->rank) % w->on->size;
}

static int from_rank(const struct program_work *w)
{
    return (w->on->rank + w->on->size - w->step->rank % w->on->size) % w->on->size;
}

static int root_of(const struct program_work *w)
{
    return w->step->rank % w->on->size;
}

/* Elements of a rank's message number i. */
static size_t count_of(const struct program_work *w, int rank, int i)
{
    const uint64_t quarters = elements_mixed((uint64_t)w->step->salt, (uint64_t)(rank * 16 + i)) % 5;
    if (w->step->pattern == PROGRAM_TRUNCATED) return (size_t)w->step->count;
    return (size_t)w->step->count * quarters / 4;
}

static int message_count(const struct random_step *s)
{
    const bool may_be_many = s->pattern == PROGRAM_RING || s->pattern == PROGRAM_UNAWAITED;
    return may_be_many && s->number > 1 ? s->number : 1;
}

static bool receives_backwards(const struct program_work *w)
{
    return w->step->form != BLOCKING && w->step->salt % 2 != 0;
}

/* -------------------------------------------------------------------------------------- buffers */

static bool init_side(struct program_work *w, int side, const size_t *counts, int pieces)
{
    const struct random_step *const s = w->step;
    uint64_t random = elements_mixed((uint64_t)s->salt, (uint64_t)(w->on->rank * 2 + side));
    return spread_init_in(&w->sides[side], (enum spread_memory)s->memory, counts, (size_t)pieces,
                          tutti_dtype_size((enum tutti_dtype)s->dtype),
                          (enum spread_order)(spread_random(&random) % 3), (size_t)s->shift,
                          &random);
}

/* A receive asks for its message by name, for any rank's with that tag, or, where messages come in
 * order, for any of that rank. */
static void plan_receive(struct program_work *w, int i)
{
    const bool from_any = w->step->pattern == PROGRAM_ANY_RANK;
    w->sources[i] = from_any ? TUTTI_ANY_RANK : from_rank(w);
    w->tags[i] = w->index * PROGRAM_RANKS_MAX + (from_any ? 0 : i);
    w->messages[i] = (struct tutti_message){sizeof(struct tutti_message), -2, -2, 0};
    w->statuses[i] = w->step->pattern == PROGRAM_TRUNCATED ? TUTTI_TRUNCATED : TUTTI_OK;
}

static size_t room_for(const struct program_work *w, int i)
{
    switch (w->step->pattern) {
    case PROGRAM_TRUNCATED: return (size_t)w->step->count - 1;
    case PROGRAM_RING: return count_of(w, from_rank(w), i) + (size_t)(w->step->salt + i) % 3;
    default: return (size_t)w->step->count;
    }
}

bool program_message_init(struct program_work *w)
{
    const int pattern = w->step->pattern;
    const bool is_root = w->on->rank == root_of(w);
    size_t counts[PROGRAM_RANKS_MAX] = {0};
    int sends = message_count(w->step), receives = sends;
    if (pattern == PROGRAM_CANCELLED) sends = 0;
    if (pattern == PROGRAM_UNAWAITED) receives = 0;
    if (pattern == PROGRAM_ANY_RANK) {
        sends = is_root ? 0 : 1;
        receives = is_root ? w->on->size - 1 : 0;
    }
    w->receive_count = receives;
    w->request_count = receives + sends;
    for (int i = 0; i < sends; i++) counts[i] = count_of(w, w->on->rank, i);
    if (!init_side(w, SEND, counts, sends)) return false;
    for (int i = 0; i < receives; i++) {
        plan_receive(w, i);
        counts[i] = room_for(w, i);
    }
    return init_side(w, RECV, counts, receives);
}

/* ---------------------------------------------------------------------------------------- calls */

static unsigned char *piece_of(const struct program_work *w, int side, int i)
{
    const struct spread *const spread = &w->sides[side];
    return spread->base + spread->offsets[i] * spread->element_bytes;
}

static enum tutti_status receive(struct program_work *w, int i, bool starts)
{
    const enum tutti_dtype dtype = (enum tutti_dtype)w->step->dtype;
    const int salt = w->step->salt / 2 + i;
    const size_t room = w->sides[RECV].counts[i];
    int source = w->sources[i], tag = w->tags[i];
    if (salt % 3 == 0)
        source = TUTTI_ANY_RANK;
    else if (salt % 3 == 1 && !receives_backwards(w) && source != TUTTI_ANY_RANK &&
             w->step->pattern != PROGRAM_CANCELLED)
        tag = TUTTI_ANY_TAG;
    void *const place = piece_of(w, RECV, i);
    return starts ? tutti_recv_start(place, room, dtype, source, tag, &w->messages[i], &w->options,
                                     w->on->comm, &w->requests[i])
                  : tutti_recv_with(place, room, dtype, source, tag, &w->messages[i], &w->options,
                                    w->on->comm);
}

static enum tutti_status send(struct program_work *w, int i, bool starts)
{
    const enum tutti_dtype dtype = (enum tutti_dtype)w->step->dtype;
    const int peer = w->step->pattern == PROGRAM_ANY_RANK ? root_of(w) : to_rank(w);
    const int tag = w->index * PROGRAM_RANKS_MAX + i;
    const size_t count = w->sides[SEND].counts[i];
    const void *const place = piece_of(w, SEND, i);
    return starts ? tutti_send_start(place, count, dtype, peer, tag, &w->options, w->on->comm,
                                     &w->requests[w->receive_count + i])
                  : tutti_send_with(place, count, dtype, peer, tag, &w->options, w->on->comm);
}

static enum tutti_status receive_all(struct program_work *w, bool starts)
{
    enum tutti_status status = TUTTI_OK;
    for (int i = 0; i < w->receive_count && status == TUTTI_OK; i++)
        status = receive(w, receives_backwards(w) ? w->receive_count - 1 - i : i, starts);
    return status;
}

static enum tutti_status send_all(struct program_work *w, bool starts)
{
    enum tutti_status status = TUTTI_OK;
    for (int i = 0; i < w->request_count - w->receive_count && status == TUTTI_OK; i++)
        status = send(w, i, starts);
    return status;
}

static void fill(struct program_work *w)
{
    struct elements table;
    size_t place = 0;
    program_work_given(w, w->on->rank, &table);
    spread_poison(&w->sides[RECV], 0, w->sides[RECV].count);
    for (size_t i = 0; i < w->sides[SEND].piece_count; i++) {
        spread_put(&w->sides[SEND], false, place, w->sides[SEND].counts[i], &table,
                   program_work_index(w, (int)i));
        place += w->sides[SEND].counts[i];
    }
    spread_expect(&w->sides[SEND]);
    spread_expect(&w->sides[RECV]);
}

/* Nobody waits in a circle: around each ring somebody receives first, and somebody sends first. */
static enum tutti_status block(struct program_work *w)
{
    const bool sends_first = w->step->pattern == PROGRAM_ANY_RANK || w->on->rank < to_rank(w);
    const enum tutti_status status = sends_first ? send_all(w, false) : receive_all(w, false);
    if (status != TUTTI_OK) return status;
    return sends_first ? receive_all(w, false) : send_all(w, false);
}

/* Nothing can have met it; if it was not taken back, it has failed. */
static enum tutti_status cancel(struct program_work *w)
{
    enum tutti_status status = tutti_cancel(&w->requests[0]);
    if (status == TUTTI_IN_PROGRESS) {
        status = tutti_wait(&w->requests[0]);
        if (status == TUTTI_OK) status = TUTTI_INTERNAL;
    }
    return status;
}

enum tutti_status program_message_begin(struct program_work *w, bool grouped)
{
    const bool to_itself = w->step->pattern == PROGRAM_RING && to_rank(w) == w->on->rank;
    const bool starts = w->step->form == STARTED || (to_itself && !grouped);
    fill(w);
    if (w->step->form == BLOCKING && !grouped && !to_itself) return block(w);
    enum tutti_status status = receive_all(w, starts);
    if (status == TUTTI_OK && w->step->pattern == PROGRAM_CANCELLED) return cancel(w);
    if (status == TUTTI_OK) status = send_all(w, starts);
    for (int i = 0; w->step->form == BLOCKING && i < w->request_count && status == TUTTI_OK; i++)
        status = program_work_wait(w, i, false);
    return status;
}

/* -------------------------------------------------------------------------------------- results */

static const char *compare(const struct program_work *w, int i, unsigned *seen)
{
    const struct tutti_message *const message = &w->messages[i];
    const bool from_any = w->sources[i] == TUTTI_ANY_RANK;
    const int source = message->source;
    if (source < 0 || source >= w->on->size || (!from_any && source != w->sources[i]))
        return "a message is another rank's";
    if (message->tag != w->tags[i]) return "a message has another tag";
    if (from_any && *seen >> source & 1) return "a rank's message came twice";
    *seen |= 1u << source;
    return message->count == count_of(w, source, from_any ? 0 : i) ? NULL
                                                                   : "a message has another length";
}

const char *program_message_complaint(struct program_work *w)
{
    unsigned seen = 0;
    size_t place = 0;
    const bool arrives = w->step->pattern == PROGRAM_RING || w->step->pattern == PROGRAM_ANY_RANK;
    for (int i = 0; i < w->receive_count && arrives; i++) {
        struct elements table;
        const char *const complaint = compare(w, i, &seen);
        if (complaint != NULL) return complaint;
        program_work_given(w, w->messages[i].source, &table);
        spread_put(&w->sides[RECV], true, place, w->messages[i].count, &table,
                   program_work_index(w, w->sources[i] == TUTTI_ANY_RANK ? 0 : i));
        spread_accept(&w->sides[RECV], place, w->messages[i].count,
                      (enum tutti_dtype)w->step->dtype, program_work_tolerance(w));
        place += w->sides[RECV].counts[i];
    }
    return NULL;
}
