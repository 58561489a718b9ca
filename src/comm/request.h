/* request.h - requests: what is called or sent, and the memory that stands for it until somebody has waited for it. */
#ifndef TUTTI_COMM_REQUEST_H
#define TUTTI_COMM_REQUEST_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "comm/board.h"
#include "engine/run.h"
#include "p2p/p2p.h"
#include "tutti/tutti.h"

/* What a call has beside two buffers in one piece; one allocation. */
struct call_extra {
    size_t *input_counts, *output_counts;  /* of the v forms, one a rank; or NULL */
    struct segment_of_buffer *segments[2]; /* of send and recv; NULL: in one piece */
    size_t segment_counts[2];
    size_t count_bytes; /* of both counts together: they lie one after the other */
};

/* What is called, checked and complete. */
struct call {
    struct call_description what;
    const struct tutti_operation *op;
    const void *send;
    void *recv;
    bool in_place, deterministic;
    bool all_were_mapped; /* all memory of all ranks, the last time that it mattered; all ranks agree */
    int priority;
    unsigned radix; /* of the algorithm asked for, or 0 */
    uint64_t timeout_ns;
    const struct algorithm *algorithm; /* asked for by name, or NULL */
    struct call_extra *extra;          /* or NULL; belongs to the call */
};

/* A message to send or to receive, checked and complete. */
struct message_call {
    bool is_send;
    void *buffer;
    size_t count;
    enum tutti_dtype dtype;
    int peer, tag;
    uint64_t timeout_ns;
    struct tutti_message *result; /* of a recv, or NULL */
    size_t result_bytes;          /* of it, as its caller has it */
};

/* Instead of a descriptor: nobody is to be told that a request is done; it is. */
enum request_event { EVENT_NONE, EVENT_DONE };

/* What every request has. Its address is that of the struct call_request or struct message_request that it is part of. */
struct tutti_request {
    struct tutti_comm *comm;
    bool is_message;            /* else a call */
    bool is_grouped;            /* moved by the thread that will wait for it */
    bool is_prepared;           /* part of a struct tutti_prepared */
    bool is_owned;              /* somebody will wait for it; unless it is_prepared */
    _Atomic bool is_waited_for; /* somebody does nothing else */
    enum tutti_status status;
    uint64_t sequence;   /* number of the call on the communicator, from 1; 0: a message */
    uint64_t started_ns; /* when it was first found waiting; 0: not yet */
    uint64_t looked_ns;  /* when peers were last looked at */
    char error[256];     /* of a failure */
    _Atomic int event; /* ~ the descriptor to be told that it is done; or one of enum request_event */
    _Atomic bool done; /* released last */
    struct tutti_request *_Atomic next_free;
    struct tutti_request *_Atomic *home; /* the free ones that it is one of */
    struct tutti_request *next;          /* in the queue */
    struct tutti_request *next_made;     /* all of the communicator's, waited for or not */
    struct tutti_request *after,
        *previous; /* in the list that it is in: of messages that are not done, or orphans.c */
};

/* A call under way. A prepared one keeps its program and its extra. */
struct call_request {
    struct tutti_request base;
    struct call call;
    struct operation operation;
    struct program *program;
    int slot;
    uint64_t begun;      /* number of the call in its slot, from 1 */
    uint64_t number;     /* of the call among those that are started; 0: none of them */
    unsigned passes;     /* of the wait loop until a blocking call was done */
    uint64_t faulted_ns; /* since when it is asked what a rank of another host meant; 0: it is not */
    uint64_t crossed_ns; /* since when ranks of other forms are known to wait for each other; 0: they are not */
};

struct message_request {
    struct tutti_request base;
    struct message_call call;
    struct p2p_request message;
    struct message_request
        *takes_back; /* another receive: this stands in line to do that, and is no message */
    uint64_t record; /* in the recorder of messages; 0: none */
};

static inline struct call_request *request_call(struct tutti_request *request)
{
    assert(!request->is_message);
    return (struct call_request *)request;
}
static inline const struct call_request *request_call_const(const struct tutti_request *request)
{
    assert(!request->is_message);
    return (const struct call_request *)request;
}
static inline struct message_request *request_message(struct tutti_request *request)
{
    assert(request->is_message);
    return (struct message_request *)request;
}
static inline const struct message_request *request_message_const(const struct tutti_request *request)
{
    assert(request->is_message);
    return (const struct message_request *)request;
}

/* Requests that wait for somebody to begin them, under the lock of struct requests. */
struct request_line {
    struct tutti_request *first, *last;
    _Atomic uint32_t count; /* not begun yet */
};

struct tutti_prepared {
    union {
        struct tutti_request request;
        struct call_request call;
        struct message_request message;
    };
    bool runs; /* started and not waited for */
    struct tutti_prepared *next,
        *previous; /* of the communicator's, under the lock of struct requests */
};

/* All requests of a communicator, and the line of started calls. */
struct requests {
    pthread_mutex_t lock; /* of lines, of lists of what was made, and of nothing else */
    struct request_line queue;
    struct tutti_request *_Atomic free; /* taken by the issuing thread only */
    struct tutti_request *all;          /* that were made */
    struct tutti_prepared *prepared;    /* the same */
};

/* A prepared request that knows its communicator, and that the communicator knows. NULL when out of memory. */
struct tutti_prepared *comm_make_prepared(struct tutti_comm *comm, bool is_message);
/* Of a communicator that is freed: requests that somebody will still wait for outlive it. */
void comm_requests_free(struct tutti_comm *comm);
/* Puts a request back where it came from; any thread. */
void comm_give_back(struct tutti_request *request);
/* Takes one, or NULL; one thread at a time. */
struct tutti_request *comm_take_free(struct tutti_request *_Atomic *free_requests);
/* A new request among all of the communicator's, to be given back to those; NULL when out of memory. */
struct tutti_request *comm_make_request(struct tutti_comm *comm, bool is_message,
                                        struct tutti_request *_Atomic *home);
/* The end of a line, any thread; and its beginning, or NULL, with the domain held: it counts until the caller, who
 * has begun it, takes it off the count. */
void comm_line_up(struct tutti_comm *comm, struct request_line *line, struct tutti_request *request);
struct tutti_request *comm_line_first(struct tutti_comm *comm, struct request_line *line);
/* Makes it ready for another run. */
void comm_reset_request(struct tutti_comm *comm, struct tutti_request *request);
/* Says how it ended, for its waiter. */
void comm_finish_request(struct tutti_request *request, enum tutti_status status);
/* Adds one to the counter of a descriptor that tutti_notify was given. */
void comm_tell_event(int event_fd);
/* "recv(count 3, float32, from rank 2, tag 7)" */
void comm_message_describe(const struct message_request *request, char *text, size_t text_bytes);

#endif
