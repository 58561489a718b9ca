/* group.c - between group_begin and group_end a thread's blocking calls are started; the end waits
 * for all.
 *
 * Who waits for one operation moves all of its communicator, so a group needs nobody else to move
 * it. Where it spans several communicators, peers may wait for them in another order: then the
 * progress thread helps. */
#include <stdlib.h>

#include "base/status.h"
#include "call/communicator.h"
#include "call/group.h"
#include "call/progress.h"

struct group {
    size_t count, capacity;
    struct tutti_request **requests;
    bool spans; /* several communicators */
};

static _Thread_local struct group group;

static enum tutti_status ensure_progress(struct tutti_comm *comm)
{
    return comm->team.size > 1 ? domain_register(&comm->team.domain) : TUTTI_OK;
}

/* With the request that comes next, a group that spans several communicators has the progress
 * thread on all. */
static enum tutti_status call_for_help(const struct tutti_request *next)
{
    const bool spanned = group.spans;
    group.spans |= group.count > 0 && group.requests[0]->comm != next->comm;
    if (!group.spans) return TUTTI_OK;
    TRY(ensure_progress(next->comm));
    for (size_t i = 0; i < group.count && !spanned; i++)
        if (group.requests[i]->comm != NULL) /* else it was freed meanwhile */
            TRY(ensure_progress(group.requests[i]->comm));
    progress_notify();
    return TUTTI_OK;
}

enum tutti_status group_add(struct tutti_request *request)
{
    const enum tutti_status status = call_for_help(request);
    if (group.count == group.capacity) {
        const size_t capacity = group.capacity == 0 ? 16 : 2 * group.capacity;
        struct tutti_request **requests =
            realloc(group.requests, capacity * sizeof(struct tutti_request *));
        if (requests == NULL) return tutti_wait(&request); /* no room: it ends before the others */
        group.requests = requests;
        group.capacity = capacity;
    }
    group.requests[group.count++] = request;
    return status;
}

enum tutti_status tutti_group_begin(void)
{
    group_depth++;
    return TUTTI_OK;
}

enum tutti_status tutti_group_end(void)
{
    if (group_depth == 0)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_group_end: there was no tutti_group_begin");
    if (--group_depth > 0) return TUTTI_OK;
    enum tutti_status first = TUTTI_OK;
    char message[512];
    for (size_t i = 0; i < group.count; i++) {
        const enum tutti_status status = tutti_wait(&group.requests[i]);
        if (status == TUTTI_OK || first != TUTTI_OK) continue;
        first = status;
        error_copy(message, sizeof message);
    }
    free(group.requests);
    group.requests = NULL;
    group.count = group.capacity = 0;
    group.spans = false;
    return first == TUTTI_OK ? first : error_set(first, "%s", message);
}
