/* events.h - the events of a simulation, by time, and first in, first out at one time. */
#ifndef TUTTI_MODEL_EVENTS_H
#define TUTTI_MODEL_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event {
    uint32_t what; /* the caller's kind and index */
    uint64_t at_ps;
};

enum { EVENT_KIND_BITS = 4 };
#define EVENT_INDEX_MAX (UINT32_MAX >> EVENT_KIND_BITS)

static inline unsigned event_kind(const struct event *event)
{
    return event->what & ((1u << EVENT_KIND_BITS) - 1);
}

static inline uint32_t event_index(const struct event *event)
{
    return event->what >> EVENT_KIND_BITS;
}

/* Ranks of a plan mostly do the same things at the same time. So a heap has the moments at which
 * something happens, each with a queue:
 *
 *     heap of moments     3 us ── 4 us ── 7 us ── ...
 *     queues              ▪▪▪▪    ▪       ▪▪▪▪▪▪▪▪
 *
 * Some moments are remembered by their time. A moment that is forgotten gets a second queue, which
 * comes behind the first. A struct of zeros is empty. */
enum { EVENTS_REMEMBERED_BITS = 8 };
struct events {
    size_t count;
    uint32_t order;  /* of moments: they were made one after the other */
    bool has_failed; /* for want of memory: something will not happen */
    struct events_entry *heap;
    struct events_moment *moments;
    struct events_item *items;
    uint32_t heap_count, moment_count,
        item_count; /* counts of moments and items that were ever used */
    uint32_t heap_room, moment_room, item_room;
    uint32_t free_moment, free_item;                  /* counted from 1; 0: none */
    uint32_t remembered[1 << EVENTS_REMEMBERED_BITS]; /* moments, by a hash of their time */
};

/* No event may be due at UINT64_MAX. */
void events_add(struct events *events, uint64_t at_ps, unsigned kind, uint32_t index);
/* Takes the next event; there must be one. */
struct event events_next(struct events *events);
void events_release(struct events *events);

#endif
