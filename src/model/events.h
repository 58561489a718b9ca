/* events.h - what is to happen in a simulation, by time, and first in, first out at one time. */
#ifndef TUTTI_MODEL_EVENTS_H
#define TUTTI_MODEL_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As one number, from the last member to the first, it is the less the earlier it is. */
struct event {
    uint32_t what; /* the caller's kind and index */
    uint32_t order;
    uint64_t at_ps;
};

enum { EVENT_KIND_BITS = 3 };
#define EVENT_INDEX_MAX (UINT32_MAX >> EVENT_KIND_BITS)

static inline unsigned event_kind(const struct event *event)
{
    return event->what & ((1u << EVENT_KIND_BITS) - 1);
}

static inline uint32_t event_index(const struct event *event)
{
    return event->what >> EVENT_KIND_BITS;
}

/* A heap in which each event has four below it, so that few cache lines are looked at. All zero is an empty one. */
struct events {
    struct event *heap;
    size_t count, room;
    uint32_t order;
    bool has_failed; /* for want of memory: something will not happen */
};

void events_add(struct events *events, uint64_t at_ps, unsigned kind, uint32_t index);
/* The next one, of one at least. */
struct event events_next(struct events *events);
void events_release(struct events *events);

#endif
