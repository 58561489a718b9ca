#include "timeline.h"

#include <assert.h>
#include <time.h>

#include "give_up.h"

#define DOING_NAME(enumerator, name, sort) [enumerator] = name,
#define DOING_SORT(enumerator, name, sort) [enumerator] = sort,
static const char *const names[DOINGS] = {DOING_LIST(DOING_NAME)};
static const enum doing_sort sorts[DOINGS] = {DOING_LIST(DOING_SORT)};

const char *doing_name(enum doing doing)
{
    return names[doing];
}

enum doing_sort doing_sort(enum doing doing)
{
    return sorts[doing];
}

uint64_t timeline_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void timeline_release(struct timeline *timeline)
{
    free(timeline->spans);
    *timeline = (struct timeline){.depth = 0};
}

void timeline_begin(struct timeline *timeline, enum doing doing, size_t number)
{
    if (timeline == NULL) return;
    assert(timeline->depth < TIMELINE_DEPTH_MAX);
    timeline->open[timeline->depth++] =
        (struct span){.begin_ns = timeline_now_ns(), .doing = doing, .number = (unsigned)number};
}

static void keep(struct timeline *timeline, const struct span *span)
{
    if (timeline->span_count == TIMELINE_SPANS_MAX) {
        timeline->left_out++;
        return;
    }
    if (timeline->span_count == timeline->span_room) {
        timeline->span_room = timeline->span_room > 0 ? 2 * timeline->span_room : 1024;
        timeline->spans = realloc(timeline->spans, timeline->span_room * sizeof *timeline->spans);
        if (timeline->spans == NULL) give_up("memory", strerror(errno));
    }
    timeline->spans[timeline->span_count++] = *span;
}

void timeline_end(struct timeline *timeline)
{
    if (timeline == NULL) return;
    assert(timeline->depth > 0);
    struct span *span = &timeline->open[--timeline->depth];
    span->end_ns = timeline_now_ns();
    if (sorts[span->doing] == SORT_WAITING)
        timeline->waited_ns[span->doing] += span->end_ns - span->begin_ns;
    if (timeline->keeps) keep(timeline, span);
}

enum doing timeline_computes(const struct timeline *timeline)
{
    for (size_t i = timeline != NULL ? timeline->depth : 0; i-- > 0;)
        if (sorts[timeline->open[i].doing] == SORT_COMPUTING) return timeline->open[i].doing;
    return DOINGS;
}
