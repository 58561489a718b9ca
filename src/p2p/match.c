#include "p2p/match.h"

#include <stdlib.h>

#include "base/status.h"

enum {
    CLASS_MIN = 7,            /* 128 bytes: an arrival with a small payload */
    SPARE_BYTES_MAX = 1 << 20 /* of memory that is kept though nothing waits in it */
};

enum tutti_status match_init(struct matcher *matcher, int source_count, size_t bytes_max,
                             size_t count_max)
{
    *matcher = (struct matcher){.source_count = source_count,
                                .count_max = count_max,
                                .bytes_max = bytes_max,
                                .spare_bytes_max = SPARE_BYTES_MAX};
    matcher->sources = calloc((size_t)source_count, sizeof *matcher->sources);
    if (matcher->sources == NULL) return error_set(TUTTI_NO_MEMORY, "messages: out of memory");
    return TUTTI_OK;
}

static void free_all(struct arrival *arrival)
{
    while (arrival != NULL) {
        struct arrival *const newer = arrival->newer;
        free(arrival);
        arrival = newer;
    }
}

void match_release(struct matcher *matcher)
{
    free_all(matcher->arrivals.oldest);
    for (int c = 0; c < MATCH_CLASS_COUNT; c++) free_all(matcher->spare[c]);
    free(matcher->sources);
    *matcher = (struct matcher){0};
}

static bool tag_fits(int wanted, int tag)
{
    return wanted == tag || wanted == TUTTI_ANY_TAG;
}

/* ------------------------------------------------------------------------------------- receives */

/* Both queues are walked together, in the order of posting. */
struct p2p_request *match_take_posted(struct matcher *matcher, int source, int tag)
{
    struct match_queue *const queues[] = {&matcher->sources[source].posted, &matcher->posted_any};
    struct p2p_request *next[] = {queues[0]->first, queues[1]->first}, *previous[] = {NULL, NULL};
    while (next[0] != NULL || next[1] != NULL) {
        const int q = next[0] == NULL || (next[1] != NULL && next[1]->id < next[0]->id);
        if (tag_fits(next[q]->tag, tag)) return queue_take(queues[q], previous[q]);
        previous[q] = next[q];
        next[q] = next[q]->next;
    }
    return NULL;
}

static struct match_queue *queue_of(struct matcher *matcher, const struct p2p_request *request)
{
    return request->peer == TUTTI_ANY_RANK ? &matcher->posted_any
                                           : &matcher->sources[request->peer].posted;
}

void match_post(struct matcher *matcher, struct p2p_request *request)
{
    request->id = matcher->post_count++;
    queue_push(queue_of(matcher, request), request);
}

bool match_take_back(struct matcher *matcher, const struct p2p_request *request)
{
    struct match_queue *const queue = queue_of(matcher, request);
    struct p2p_request *previous = NULL;
    for (struct p2p_request *r = queue->first; r != NULL; previous = r, r = r->next) {
        if (r != request) continue;
        queue_take(queue, previous);
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------------- arrivals */

static struct arrival *allocate(struct matcher *matcher, size_t payload_bytes)
{
    const size_t bytes = sizeof(struct arrival) + payload_bytes;
    uint32_t size_class = CLASS_MIN;
    while ((size_t)1 << size_class < bytes) size_class++;
    struct arrival *arrival = matcher->spare[size_class];
    if (arrival != NULL) {
        matcher->spare[size_class] = arrival->newer;
        matcher->spare_bytes -= (size_t)1 << size_class;
    } else {
        arrival = malloc((size_t)1 << size_class);
        if (arrival == NULL) return NULL;
    }
    *arrival = (struct arrival){.size_class = size_class};
    return arrival;
}

struct arrival *match_add_arrival(struct matcher *matcher, int source, int tag, size_t payload_bytes)
{
    if (matcher->count >= matcher->count_max) return NULL;
    if (payload_bytes > matcher->bytes_max - matcher->bytes) return NULL;
    struct arrival *const arrival = allocate(matcher, payload_bytes);
    if (arrival == NULL) return NULL; /* as good as full: a receive that fits needs no memory */
    arrival->source = source;
    arrival->tag = tag;
    arrival->payload_bytes = payload_bytes;
    matcher->count++;
    matcher->bytes += payload_bytes;

    struct arrival_list *const all = &matcher->arrivals,
                               *of_source = &matcher->sources[source].arrivals;
    arrival->older = all->newest;
    *(all->newest != NULL ? &all->newest->newer : &all->oldest) = arrival;
    all->newest = arrival;
    arrival->older_of_source = of_source->newest;
    *(of_source->newest != NULL ? &of_source->newest->newer_of_source : &of_source->oldest) =
        arrival;
    of_source->newest = arrival;
    return arrival;
}

static struct arrival *find_arrival(const struct matcher *matcher, int source, int tag)
{
    struct arrival *arrival;
    if (source == TUTTI_ANY_RANK) {
        for (arrival = matcher->arrivals.oldest; arrival != NULL; arrival = arrival->newer)
            if (tag_fits(tag, arrival->tag)) return arrival;
        return NULL;
    }
    for (arrival = matcher->sources[source].arrivals.oldest; arrival != NULL;
         arrival = arrival->newer_of_source)
        if (tag_fits(tag, arrival->tag)) return arrival;
    return NULL;
}

struct arrival *match_take_arrival(struct matcher *matcher, int source, int tag)
{
    struct arrival *const arrival = find_arrival(matcher, source, tag);
    if (arrival == NULL) return NULL;
    struct arrival_list *const all = &matcher->arrivals,
                               *of_source = &matcher->sources[arrival->source].arrivals;
    *(arrival->older != NULL ? &arrival->older->newer : &all->oldest) = arrival->newer;
    *(arrival->newer != NULL ? &arrival->newer->older : &all->newest) = arrival->older;
    *(arrival->older_of_source != NULL ? &arrival->older_of_source->newer_of_source
                                       : &of_source->oldest) = arrival->newer_of_source;
    *(arrival->newer_of_source != NULL ? &arrival->newer_of_source->older_of_source
                                       : &of_source->newest) = arrival->older_of_source;
    matcher->count--;
    matcher->bytes -= arrival->payload_bytes;
    return arrival;
}

void match_free_arrival(struct matcher *matcher, struct arrival *arrival)
{
    const size_t bytes = (size_t)1 << arrival->size_class;
    if (bytes > matcher->spare_bytes_max - matcher->spare_bytes) {
        free(arrival);
        return;
    }
    arrival->newer = matcher->spare[arrival->size_class];
    matcher->spare[arrival->size_class] = arrival;
    matcher->spare_bytes += bytes;
}
