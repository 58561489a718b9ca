/* match.h - which receive gets which message: posted receives, and arrivals: unexpected messages,
 * which no call has received yet.
 *
 *     posted:    per source, and one queue for any source; a number of its own tells which was posted first
 *     arrivals:  per source, and all in the order of their coming
 *
 * Invariants
 *   1. No posted receive fits an arrival: a message looks among the posted first, a receive among
 *      the arrivals.
 *   2. Looking from the oldest on, the first that fits is taken; so in the usual case, where the
 *      oldest fits, it costs the same whatever waits. Otherwise it costs what is passed over.
 *   3. At most bytes_max of payload and count_max arrivals wait. Their memory is at most twice
 *      that, is used again, and goes back beyond spare_bytes_max.
 *
 * Does not know links, payloads on their way, or when a request is done.
 */
#ifndef TUTTI_P2P_MATCH_H
#define TUTTI_P2P_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "p2p/p2p.h"

/* First in, first out, linked by the requests themselves. */
struct match_queue {
    struct p2p_request *first, *last;
};

static inline void queue_push(struct match_queue *queue, struct p2p_request *request)
{
    request->next = NULL;
    if (queue->first == NULL)
        queue->first = request;
    else
        queue->last->next = request;
    queue->last = request;
}

/* Takes out the one behind `previous`, or the first where that is NULL. There must be one. */
static inline struct p2p_request *queue_take(struct match_queue *queue, struct p2p_request *previous)
{
    struct p2p_request **const link = previous == NULL ? &queue->first : &previous->next;
    struct p2p_request *const request = *link;
    *link = request->next;
    if (queue->last == request) queue->last = previous;
    return request;
}

/* A message that has come, or is coming, before its receive. */
struct arrival {
    struct arrival *older_of_source, *newer_of_source, *older, *newer;
    int source, tag;
    enum tutti_dtype dtype;
    const struct kernel_encoding *encoding; /* of its payload, which waits as it came; NULL: none */
    size_t bytes;                           /* of the message, in memory */
    bool announced;                         /* its payload is still with its sender */
    uint64_t id;                            /* of the announcement */
    struct link_reference reference;
    struct p2p_request *sender; /* announced by this rank to itself */
    uint32_t size_class;
    size_t payload_bytes; /* that have place here: all, or none if announced */
    char payload[];
};

struct arrival_list {
    struct arrival *oldest, *newest;
};

struct match_source {
    struct match_queue posted;
    struct arrival_list arrivals;
};

enum { MATCH_CLASS_COUNT = 64 }; /* memory for arrivals comes in powers of two */

struct matcher {
    struct match_source *sources; /* one per rank */
    int source_count;
    struct match_queue posted_any;
    uint64_t post_count;
    struct arrival_list arrivals;
    size_t count, bytes; /* of what waits */
    size_t count_max, bytes_max;
    struct arrival *spare[MATCH_CLASS_COUNT]; /* linked by `newer` */
    size_t spare_bytes, spare_bytes_max;
};

enum tutti_status match_init(struct matcher *matcher, int source_count, size_t bytes_max,
                             size_t count_max);
void match_release(struct matcher *matcher);

/* The message's side: takes the receive that gets the message out of the posted receives; NULL:
 * there is none. */
struct p2p_request *match_take_posted(struct matcher *matcher, int source, int tag);
/* Takes out a receive; false: it is not posted, or not any more. */
bool match_take_back(struct matcher *matcher, const struct p2p_request *request);
/* Then it may wait, if there is room; the rest of it and the payload are for the caller to fill in.
 * NULL: it may not. */
struct arrival *match_add_arrival(struct matcher *matcher, int source, int tag,
                                  size_t payload_bytes);

/* The receive's side: the arrival that it gets, taken out, to be freed by match_free_arrival; or
 * NULL. */
struct arrival *match_take_arrival(struct matcher *matcher, int source, int tag);
/* Then it is posted. */
void match_post(struct matcher *matcher, struct p2p_request *request);
void match_free_arrival(struct matcher *matcher, struct arrival *arrival);

#endif
