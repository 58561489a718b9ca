#include "model/events.h"

#include <stdlib.h>

enum { FANOUT = 4 };
#define NEVER UINT64_MAX

/* An entry of a heap in which each entry has four below it, so that few cache lines are touched. */
struct events_entry {
    uint32_t moment, order;
    uint64_t at_ps;
};

struct events_moment {
    uint64_t at_ps; /* NEVER: it is over */
    uint32_t first,
        last; /* of its queue, counted from 1; 0: it is empty. Of one that is over: the next of those */
};

struct events_item {
    uint32_t what;
    uint32_t next; /* in the queue, counted from 1; of a free one: the next free one */
};

/* ------------------------------------------------------------------------------------- the heap */

/* One number is compared without a branch, since no processor can predict which moment is
 * earlier. */
static inline unsigned __int128 rank_of(const struct events_entry *entry)
{
    return (unsigned __int128)entry->at_ps << 64 | (uint64_t)entry->order << 32 | entry->moment;
}

static int compare(const void *one, const void *other)
{
    const unsigned __int128 a = rank_of(one), b = rank_of(other);
    return a < b ? -1 : a > b;
}

/* Sorted entries are a heap, too. */
static void number_anew(struct events *events)
{
    if (events->heap_count > 0)
        qsort(events->heap, events->heap_count, sizeof *events->heap, compare);
    for (uint32_t i = 0; i < events->heap_count; i++) events->heap[i].order = i;
    events->order = events->heap_count;
}

static void heap_add(struct events *events, struct events_entry entry)
{
    const unsigned __int128 rank = rank_of(&entry);
    struct events_entry *const heap = events->heap;
    uint32_t at = events->heap_count++;
    for (; at > 0 && rank < rank_of(&heap[(at - 1) / FANOUT]); at = (at - 1) / FANOUT)
        heap[at] = heap[(at - 1) / FANOUT];
    heap[at] = entry;
}

/* The earliest of the entries from begin to end. */
static inline uint32_t earliest(const struct events_entry *heap, uint32_t begin, uint32_t end)
{
    uint32_t least = begin;
    unsigned __int128 rank = rank_of(&heap[begin]);
    for (uint32_t i = begin + 1; i < end; i++) {
        const unsigned __int128 other = rank_of(&heap[i]);
        least = other < rank ? i : least;
        rank = other < rank ? other : rank;
    }
    return least;
}

/* The gap that the first entry leaves moves down to the bottom, and the last entry moves up from
 * there, since it mostly belongs far down. */
static void heap_take(struct events *events)
{
    struct events_entry *const heap = events->heap;
    const struct events_entry last = heap[--events->heap_count];
    const unsigned __int128 rank = rank_of(&last);
    const uint32_t count = events->heap_count;
    uint32_t at = 0, child;
    while ((child = FANOUT * at + 1) + FANOUT <= count) {
        const uint32_t least = earliest(heap, child, child + FANOUT);
        heap[at] = heap[least];
        at = least;
    }
    if (child < count) {
        const uint32_t least = earliest(heap, child, count);
        heap[at] = heap[least];
        at = least;
    }
    for (; at > 0 && rank < rank_of(&heap[(at - 1) / FANOUT]); at = (at - 1) / FANOUT)
        heap[at] = heap[(at - 1) / FANOUT];
    heap[at] = last;
}

/* --------------------------------------------------------------------------------------- memory */

/* Makes room for one more; false: there is no memory, and the old array stays. */
static bool grow(struct events *events, void **array, size_t size, uint32_t count, uint32_t *room)
{
    if (count < *room) return true;
    const uint32_t more = *room == 0 ? 256 : 2 * *room;
    void *const grown = more > *room ? realloc(*array, more * size) : NULL;
    if (grown == NULL) {
        events->has_failed = true;
        return false;
    }
    *array = grown;
    *room = more;
    return true;
}

static inline bool has_room(const struct events *events)
{
    return events->heap_count < events->heap_room && events->moment_count < events->moment_room &&
           events->item_count < events->item_room;
}

static bool make_room(struct events *events)
{
    void *heap = events->heap, *moments = events->moments, *items = events->items;
    const bool has_room =
        grow(events, &heap, sizeof *events->heap, events->heap_count, &events->heap_room) &&
        grow(events, &moments, sizeof *events->moments, events->moment_count, &events->moment_room) &&
        grow(events, &items, sizeof *events->items, events->item_count, &events->item_room);
    events->heap = heap;
    events->moments = moments;
    events->items = items;
    return has_room;
}

/* -------------------------------------------------------------------------------------- moments */

static uint32_t new_moment(struct events *events, uint64_t at_ps)
{
    uint32_t moment = events->free_moment;
    if (moment > 0)
        events->free_moment = events->moments[--moment].last;
    else
        moment = events->moment_count++;
    events->moments[moment] = (struct events_moment){at_ps, 0, 0};
    if (events->order == UINT32_MAX) number_anew(events);
    heap_add(events, (struct events_entry){moment, events->order++, at_ps});
    return moment;
}

/* The last moment that was made for that time. If it was forgotten, it cannot be found again: a new
 * one is made, and further events of that time come behind the earlier ones. */
static struct events_moment *moment_at(struct events *events, uint64_t at_ps)
{
    const uint64_t hash = at_ps * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t *const remembered = &events->remembered[hash >> (64 - EVENTS_REMEMBERED_BITS)];
    if (*remembered >= events->moment_count || events->moments[*remembered].at_ps != at_ps)
        *remembered = new_moment(events, at_ps);
    return &events->moments[*remembered];
}

static void end_moment(struct events *events, uint32_t moment)
{
    heap_take(events);
    events->moments[moment] = (struct events_moment){NEVER, 0, events->free_moment};
    events->free_moment = moment + 1;
}

void events_add(struct events *events, uint64_t at_ps, unsigned kind, uint32_t index)
{
    if (!has_room(events) && !make_room(events)) return;
    struct events_moment *const moment = moment_at(events, at_ps);
    uint32_t item = events->free_item;
    if (item > 0)
        events->free_item = events->items[item - 1].next;
    else
        item = ++events->item_count;
    events->items[item - 1] = (struct events_item){index << EVENT_KIND_BITS | kind, 0};
    if (moment->first == 0)
        moment->first = item;
    else
        events->items[moment->last - 1].next = item;
    moment->last = item;
    events->count++;
}

/* A moment whose queue is empty stays until time goes on: more may be due at once. */
struct event events_next(struct events *events)
{
    while (events->moments[events->heap[0].moment].first == 0)
        end_moment(events, events->heap[0].moment);
    struct events_moment *const moment = &events->moments[events->heap[0].moment];
    const uint32_t item = moment->first;
    struct events_item *const taken = &events->items[item - 1];
    moment->first = taken->next;
    taken->next = events->free_item;
    events->free_item = item;
    events->count--;
    return (struct event){taken->what, moment->at_ps};
}

void events_release(struct events *events)
{
    free(events->heap);
    free(events->moments);
    free(events->items);
    *events = (struct events){0};
}
