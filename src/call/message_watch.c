#include "call/message_watch.h"

#include <pthread.h>
#include <stddef.h>

#include "base/watched.h"
#include "call/communicator.h"
#include "call/diagnose.h"
#include "call/message.h"
#include "health/known.h"

enum { LOOK_NS = 20000000 };

/* -------------------------------------------------------------------------------------- waiters */

void message_watch_begin(struct tutti_comm *comm, struct message_waiter *waiter)
{
    struct message_watch *const watch = &comm->messages.watch;
    if (waiter->is_noted || !waiter->request->is_message) return;
    waiter->is_noted = true;
    pthread_mutex_lock(&comm->requests.lock);
    waiter->next = watch->waiters;
    watch->waiters = waiter;
    atomic_fetch_add_explicit(&watch->waiter_count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&comm->requests.lock);
}

void message_watch_end(struct tutti_comm *comm, struct message_waiter *waiter)
{
    struct message_watch *const watch = &comm->messages.watch;
    if (!waiter->is_noted) return;
    pthread_mutex_lock(&comm->requests.lock);
    struct message_waiter **link = &watch->waiters;
    while (*link != waiter) link = &(*link)->next;
    *link = waiter->next;
    atomic_fetch_sub_explicit(&watch->waiter_count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&comm->requests.lock);
}

/* Moves what threads wait for to its list. A request that still lines up is in none, and one that
 * is done is in none any more. */
static void take_waiters(struct tutti_comm *comm)
{
    struct message_watch *const watch = &comm->messages.watch;
    if (atomic_load_explicit(&watch->waiter_count, memory_order_relaxed) == 0) return;
    pthread_mutex_lock(&comm->requests.lock);
    for (const struct message_waiter *w = watch->waiters; w != NULL; w = w->next) {
        if (w->request->list != &watch->first) continue;
        message_list_take_out(w->request);
        message_list_insert(&watch->watched, w->request);
    }
    pthread_mutex_unlock(&comm->requests.lock);
}

/* ----------------------------------------------------------------------------------------- time */

static uint64_t deadline_of(const struct tutti_request *request)
{
    const uint64_t timeout_ns = ((const struct message_request *)request)->call.timeout_ns,
                   longest_ns = UINT64_MAX - request->started_ns;
    return request->started_ns + (timeout_ns < longest_ns ? timeout_ns : longest_ns);
}

static void note_deadline(struct message_watch *watch, const struct tutti_request *request)
{
    const uint64_t deadline_ns = deadline_of(request);
    if (watch->deadline_ns == 0 || deadline_ns < watch->deadline_ns)
        watch->deadline_ns = deadline_ns;
}

/* Their time counts from now on. */
static void start_new(struct message_watch *watch, uint64_t now_ns)
{
    for (struct tutti_request *r = watch->first; r != NULL && r->started_ns == 0; r = r->after) {
        r->started_ns = r->looked_ns = now_ns;
        note_deadline(watch, r);
    }
}

/* The earliest deadline that has not passed. */
static void find_deadline(struct message_watch *watch, uint64_t now_ns)
{
    const struct tutti_request *const lists[] = {watch->watched, watch->first};
    watch->deadline_ns = 0;
    for (int l = 0; l < 2; l++)
        for (const struct tutti_request *r = lists[l]; r != NULL; r = r->after)
            if (deadline_of(r) > now_ns) note_deadline(watch, r);
}

/* -------------------------------------------------------------------------------------- looking */

static int count_left(const struct tutti_comm *comm)
{
    int left_count = 0;
    for (int r = 0; r < comm->team.size; r++)
        left_count += known_state(&comm->health, r) == RANK_LEFT;
    return left_count;
}

/* False: the list has changed, or the communicator has failed. */
static bool look_at(struct tutti_comm *comm, struct tutti_request *request, uint64_t now_ns)
{
    request->looked_ns = now_ns;
    return !diagnose_message(comm, request_message(request), now_ns) &&
           !board_has_failed(comm->health.board);
}

/* A message that was just begun is looked at later. only_new: no message that was looked at
 * before. */
static bool look_at_list(struct tutti_comm *comm, struct tutti_request *first, bool only_new,
                         uint64_t now_ns)
{
    for (struct tutti_request *r = first; r != NULL; r = r->after) {
        if (only_new && r->looked_ns != r->started_ns) return true;
        if (now_ns - r->started_ns < LOOK_NS && now_ns < deadline_of(r)) continue;
        if (!look_at(comm, r, now_ns)) return false;
    }
    return true;
}

void message_watch_look(struct tutti_comm *comm, uint64_t now_ns)
{
    struct message_watch *const watch = &comm->messages.watch;
    if (!CALLS_ARE_WATCHED) return;
    start_new(watch, now_ns);
    take_waiters(comm);
    const struct tutti_request *const any = message_watch_any(watch);
    const bool is_late = watch->deadline_ns != 0 && now_ns >= watch->deadline_ns;
    if (any == NULL || (now_ns - watch->looked_ns < LOOK_NS && !is_late)) return;
    watch->looked_ns = now_ns;
    if (diagnose_deaths(comm, any)) return;
    const int left_count = count_left(comm);
    const bool looks_at_all = is_late || watch->looks_again || left_count != watch->left_count;
    watch->left_count = left_count;
    watch->looks_again = false;
    if (is_late) find_deadline(watch, now_ns);
    if (!look_at_list(comm, watch->watched, false, now_ns) ||
        ((looks_at_all || left_count > 0) &&
         !look_at_list(comm, watch->first, !looks_at_all, now_ns)))
        watch->looks_again = true;
}
