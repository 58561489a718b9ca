#include "server/closings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "os/thread.h"

struct closing {
    struct closing *next;
    struct tutti_comm *comm;
    pthread_t thread;
    atomic_bool has_ended; /* release, by its thread; acquire, before that is joined */
};

static void *end(void *context)
{
    struct closing *const closing = context;
    (void)tutti_comm_free(closing->comm);
    atomic_store_explicit(&closing->has_ended, true, memory_order_release);
    return NULL;
}

/* Gives back threads that have nothing to do any more. */
static void reap(struct closings *closings, bool waits)
{
    for (struct closing **at = &closings->first; *at != NULL;) {
        struct closing *const closing = *at;
        if (!waits && !atomic_load_explicit(&closing->has_ended, memory_order_acquire)) {
            at = &closing->next;
            continue;
        }
        *at = closing->next;
        pthread_join(closing->thread, NULL);
        free(closing);
    }
}

void closings_start(struct closings *closings, struct tutti_comm *comm)
{
    struct closing *const closing = malloc(sizeof *closing);
    reap(closings, false);
    if (closing == NULL) {
        (void)tutti_comm_free(comm);
        return;
    }
    *closing = (struct closing){.next = closings->first, .comm = comm};
    atomic_init(&closing->has_ended, false);
    if (thread_start(&closing->thread, end, closing, NULL, "a thread that ends a line") == TUTTI_OK) {
        closings->first = closing;
        return;
    }
    free(closing);
    (void)tutti_comm_free(comm);
}

void closings_release(struct closings *closings, bool is_of_parent)
{
    while (is_of_parent && closings->first != NULL) {
        struct closing *const closing = closings->first;
        closings->first = closing->next;
        free(closing);
    }
    reap(closings, true);
}
