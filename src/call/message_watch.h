/* message_watch.h - looks for reasons why messages do not move, at a cost that does not grow with
 * the messages that are only posted: a program may post thousands of receives and wait for one.
 *
 *     begun ──► first ─────── a thread waits for it ───────► watched
 *               (newest first)                               (each is looked at every LOOK_NS)
 *
 *   - Deaths, which take system calls, are looked for once for all messages.
 *   - A message that a thread waits for may be held up by a rank that does not run, or by messages
 *     that nobody receives, and the recorder tells of it. Few are: one a thread.
 *   - To any other message two things can happen: its deadline passes, or its peer leaves. So all
 *     messages are looked at when the earliest deadline has passed, when another rank has left, and
 *     again as long as a message waits for a rank that left; newer messages than these, if a rank
 *     has left at all.
 *
 * A look in vain costs as much as the ranks of the communicator, the messages begun since the last
 * look, and the watched messages.
 *
 * Threads: as it says, the rest with the domain held.
 */
#ifndef TUTTI_CALL_MESSAGE_WATCH_H
#define TUTTI_CALL_MESSAGE_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "call/request.h"

struct tutti_comm;

/* A thread that waits for a request; on its stack. */
struct message_waiter {
    struct tutti_request *request;
    struct message_waiter *next;
    bool is_noted;
};

/* Of struct messages. */
struct message_watch {
    struct tutti_request *first, *watched; /* the requests that are not done, newest first */
    struct message_waiter *waiters;        /* with the lock of struct requests held */
    _Atomic unsigned waiter_count;         /* the same; read by any thread */
    uint64_t looked_ns;                    /* when reasons were last looked for */
    uint64_t deadline_ns;                  /* no deadline passes before; 0: none is known yet */
    int left_count;                        /* ranks that had left when all were looked at last */
    bool looks_again;                      /* one of them waits for a rank that left */
};

/* Notes that the thread is about to pause in its wait for the request of *waiter, if that is a
 * message. Any thread, without the domain or with it; message_watch_end before the request is given
 * back. */
void message_watch_begin(struct tutti_comm *comm, struct message_waiter *waiter);
void message_watch_end(struct tutti_comm *comm, struct message_waiter *waiter);
/* Looks for reasons, if it is time. */
void message_watch_look(struct tutti_comm *comm, uint64_t now_ns);
/* Any request that is not done; NULL. */
static inline struct tutti_request *message_watch_any(const struct message_watch *watch)
{
    return watch->watched != NULL ? watch->watched : watch->first;
}

/* A request that begins is inserted in `first`; one that is over is taken out of its list. */
static inline void message_list_insert(struct tutti_request **list, struct tutti_request *request)
{
    request->list = list;
    request->previous = NULL;
    request->after = *list;
    if (*list != NULL) (*list)->previous = request;
    *list = request;
}
static inline void message_list_take_out(struct tutti_request *request)
{
    if (request->after != NULL) request->after->previous = request->previous;
    if (request->previous != NULL)
        request->previous->after = request->after;
    else
        *request->list = request->after;
    request->list = NULL;
}

#endif
