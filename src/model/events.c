#include "model/events.h"

#include <stdlib.h>

enum { FANOUT = 4 };

/* One number is compared without a branch; which event is earlier, no processor can predict. */
static inline unsigned __int128 rank_of(const struct event *event)
{
    return (unsigned __int128)event->at_ps << 64 | (uint64_t)event->order << 32 | event->what;
}

static int compare(const void *one, const void *other)
{
    const unsigned __int128 a = rank_of(one), b = rank_of(other);
    return a < b ? -1 : a > b;
}

/* What is in order is a heap, too. */
static void number_anew(struct events *events)
{
    qsort(events->heap, events->count, sizeof *events->heap, compare);
    for (size_t i = 0; i < events->count; i++) events->heap[i].order = (uint32_t)i;
    events->order = (uint32_t)events->count;
}

static bool make_room(struct events *events)
{
    if (events->count < events->room) return true;
    const size_t room = events->room == 0 ? 1024 : 2 * events->room;
    struct event *const heap = realloc(events->heap, room * sizeof *heap);
    if (heap == NULL) return false;
    events->heap = heap;
    events->room = room;
    return true;
}

void events_add(struct events *events, uint64_t at_ps, unsigned kind, uint32_t index)
{
    if (!make_room(events)) {
        events->has_failed = true;
        return;
    }
    if (events->order == UINT32_MAX) number_anew(events);
    const struct event event = {index << EVENT_KIND_BITS | kind, events->order++, at_ps};
    const unsigned __int128 rank = rank_of(&event);
    struct event *const heap = events->heap;
    size_t at = events->count++;
    for (; at > 0 && rank < rank_of(&heap[(at - 1) / FANOUT]); at = (at - 1) / FANOUT)
        heap[at] = heap[(at - 1) / FANOUT];
    heap[at] = event;
}

/* The earliest of those from begin to end. */
static inline size_t earliest(const struct event *heap, size_t begin, size_t end)
{
    size_t least = begin;
    unsigned __int128 rank = rank_of(&heap[begin]);
    for (size_t i = begin + 1; i < end; i++) {
        const unsigned __int128 other = rank_of(&heap[i]);
        least = other < rank ? i : least;
        rank = other < rank ? other : rank;
    }
    return least;
}

/* The gap that the first one leaves goes down to the bottom, and the last one up from there: it belongs far down, mostly. */
struct event events_next(struct events *events)
{
    struct event *const heap = events->heap;
    const struct event first = heap[0], last = heap[--events->count];
    const unsigned __int128 rank = rank_of(&last);
    const size_t count = events->count;
    size_t at = 0, child;
    while ((child = FANOUT * at + 1) + FANOUT <= count) {
        const size_t least = earliest(heap, child, child + FANOUT);
        heap[at] = heap[least];
        at = least;
    }
    if (child < count) {
        const size_t least = earliest(heap, child, count);
        heap[at] = heap[least];
        at = least;
    }
    for (; at > 0 && rank < rank_of(&heap[(at - 1) / FANOUT]); at = (at - 1) / FANOUT)
        heap[at] = heap[(at - 1) / FANOUT];
    heap[at] = last;
    return first;
}

void events_release(struct events *events)
{
    free(events->heap);
    *events = (struct events){0};
}
