/* message.h - messages move. */
#ifndef TUTTI_CALL_MESSAGE_H
#define TUTTI_CALL_MESSAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "call/message_watch.h"
#include "call/request.h"
#include "p2p/p2p.h"
#include "transport/transport.h"

/* The messages of a communicator; all but the count and the queue belong to the thread that holds
 * the domain. */
struct messages {
    struct p2p *p2p;                    /* from the first message on */
    struct transport alone;             /* for a communicator of one rank */
    struct message_watch watch;         /* over the requests that are not done */
    struct tutti_request *_Atomic free; /* taken with the domain held */
    struct request_queue queue;
    struct tutti_request *_Atomic free_queued; /* taken with the lock of struct requests held */
    _Atomic uint32_t count;                    /* requests not done; written with the domain held */
    uint64_t pass;                             /* how often messages were moved */
};

/* Starts a request whose call is set; any thread. A later failure is the request's status. */
enum tutti_status message_begin(struct tutti_comm *comm, struct message_request *request);
/* Starts a request with the domain held, behind the requests that lined up before. message_enqueue:
 * without the domain, in line for the thread that has it. */
enum tutti_status message_begin_held(struct tutti_comm *comm, struct message_request *request);
void message_enqueue(struct tutti_comm *comm, struct message_request *request);
/* A free request for a message; NULL when out of memory. */
struct message_request *message_request_make(struct tutti_comm *comm, bool has_domain);
/* Takes a receive back, see tutti_cancel; domain held. IN_PROGRESS: it is too late for that. */
enum tutti_status message_take_back(struct tutti_comm *comm, struct message_request *receive);
/* Moves messages; domain held. True when something moved. */
bool messages_progress(struct tutti_comm *comm);
/* Looks for reasons, but for deaths, why a message does not move; domain held. True when that
 * changed the list of messages. */
bool diagnose_message(struct tutti_comm *comm, struct message_request *request, uint64_t now_ns);
void messages_free(struct tutti_comm *comm);

#endif
