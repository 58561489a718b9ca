/* timeline.h - what this rank does, moment for moment: the seam through which a step is watched.
 *
 *     step ├──────────────────────────────────────────────────────────────────────────────────────┤
 *     forward 0  ├──────────────────────────┤  backward 0 ...
 *     layer      ├──── layer 0 ────┼─ layer 1 ┤
 *     waiting       ├ tp ┤ ├ tp ┤   ├ dp ┤
 *
 * Spans lie in each other as calls do, and are of one thread. Waiting in a span is no computing, so
 * the time waited for each axis of the mesh is the time that nothing hid (progress of the
 * training), and where somebody asks for it, spans are kept (profile.h). A look at the clock at
 * both ends of a span is all that it costs.
 */
#ifndef GPT_TIMELINE_H
#define GPT_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(enumerator, name, sort) */
#define DOING_LIST(X)                                                 \
    X(DOING_STEP, "step", SORT_FRAME)                                 \
    X(DOING_FORWARD, "forward", SORT_FRAME)                           \
    X(DOING_BACKWARD, "backward", SORT_FRAME)                         \
    X(DOING_EMBEDDING, "embedding", SORT_COMPUTING)                   \
    X(DOING_LAYER, "layer", SORT_COMPUTING)                           \
    X(DOING_HEAD, "head", SORT_COMPUTING)                             \
    X(DOING_HEAD_BACKWARD, "head backward", SORT_COMPUTING)           \
    X(DOING_LAYER_AGAIN, "layer again", SORT_COMPUTING)               \
    X(DOING_LAYER_BACKWARD, "layer backward", SORT_COMPUTING)         \
    X(DOING_EMBEDDING_BACKWARD, "embedding backward", SORT_COMPUTING) \
    X(DOING_OPTIMIZER, "optimizer", SORT_COMPUTING)                   \
    X(WAITING_STAGES, "waits for stages", SORT_WAITING)               \
    X(WAITING_REPLICAS, "waits for replicas", SORT_WAITING)           \
    X(WAITING_SLICES, "waits for slices", SORT_WAITING)               \
    X(WAITING_ALL, "waits for all", SORT_WAITING)

#define DOING_ONE(enumerator, name, sort) enumerator,
enum doing { DOING_LIST(DOING_ONE) DOINGS };
#undef DOING_ONE

enum doing_sort { SORT_FRAME, SORT_COMPUTING, SORT_WAITING };
const char *doing_name(enum doing doing);
enum doing_sort doing_sort(enum doing doing);

struct span {
    uint64_t begin_ns, end_ns; /* of CLOCK_MONOTONIC */
    enum doing doing;
    unsigned number; /* of the step, the micro-batch or the layer */
};

enum { TIMELINE_DEPTH_MAX = 8, TIMELINE_SPANS_MAX = 1 << 18 };

struct timeline {
    struct span open[TIMELINE_DEPTH_MAX];
    size_t depth;
    uint64_t waited_ns[DOINGS]; /* of what waits; only ever growing */
    bool keeps;
    struct span *spans; /* that are over, while it keeps them: in the order of their ends */
    size_t span_count, span_room, left_out; /* left_out: there were more than TIMELINE_SPANS_MAX */
};

/* A timeline begins as zeros; this gives its memory back. */
void timeline_release(struct timeline *timeline);

uint64_t timeline_now_ns(void);

/* Both do nothing if there is no timeline. */
void timeline_begin(struct timeline *timeline, enum doing doing, size_t number);
void timeline_end(struct timeline *timeline);

/* What goes on, frames and waiting left aside; DOINGS: nothing. */
enum doing timeline_computes(const struct timeline *timeline);

#endif
