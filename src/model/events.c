#include "model/events.h"

#include <stdlib.h>

enum { FANOUT = 4 };

static inline bool is_before(const struct event *one, const struct event *other)
{
    if (one->at_ps != other->at_ps) return one->at_ps < other->at_ps;
    return (int32_t)(one->order - other->order) < 0; /* numbers begin again at 0 */
}

void events_add(struct events *events, uint64_t at_ps, unsigned kind, uint32_t index)
{
    if (events->count == events->room) {
        const size_t room = events->room == 0 ? 1024 : 2 * events->room;
        struct event *heap = realloc(events->heap, room * sizeof *heap);
        if (heap == NULL) {
            events->has_failed = true;
            return;
        }
        events->heap = heap;
        events->room = room;
    }
    const struct event event = {at_ps, events->order++, index << EVENT_KIND_BITS | kind};
    struct event *heap = events->heap;
    size_t at = events->count++;
    for (; at > 0 && is_before(&event, &heap[(at - 1) / FANOUT]); at = (at - 1) / FANOUT)
        heap[at] = heap[(at - 1) / FANOUT];
    heap[at] = event;
}

struct event events_next(struct events *events)
{
    struct event *heap = events->heap;
    const struct event first = heap[0], last = heap[--events->count];
    const size_t count = events->count;
    size_t at = 0;
    for (;;) {
        const size_t begin = FANOUT * at + 1, end = begin + FANOUT < count ? begin + FANOUT : count;
        if (begin >= count) break;
        size_t least = begin;
        for (size_t child = begin + 1; child < end; child++)
            if (is_before(&heap[child], &heap[least])) least = child;
        if (!is_before(&heap[least], &last)) break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = last;
    return first;
}

void events_release(struct events *events)
{
    free(events->heap);
    *events = (struct events){0};
}
