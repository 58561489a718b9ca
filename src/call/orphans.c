#include "call/orphans.h"

#include <pthread.h>
#include <stdlib.h>

#include "call/communicator.h"
#include "os/fork.h"

/* Linked by after and previous: a request that is done is in no other list. */
static struct {
    pthread_mutex_t lock;
    struct tutti_request *first;
} orphans = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void hold(void)
{
    pthread_mutex_lock(&orphans.lock);
}

static void let_go(void)
{
    pthread_mutex_unlock(&orphans.lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
    static const struct fork_participant list = {.lock = &orphans.lock};
    fork_watch(FORK_ORPHANS, &list);
}

void orphans_add(struct tutti_request *request)
{
    request->comm = NULL;
    request->previous = NULL;
    hold();
    request->after = orphans.first;
    if (orphans.first != NULL) orphans.first->previous = request;
    orphans.first = request;
    let_go();
}

void orphans_free(struct tutti_request *request)
{
    hold();
    if (request->previous != NULL)
        request->previous->after = request->after;
    else
        orphans.first = request->after;
    if (request->after != NULL) request->after->previous = request->previous;
    let_go();
    free(request);
}
