/* request.h - a request stands for a call or a message until its owner has waited for it. */
#ifndef TUTTI_CALL_REQUEST_H
#define TUTTI_CALL_REQUEST_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/gate.h"
#include "engine/run.h"
#include "health/board.h"
#include "p2p/p2p.h"
#include "tutti/tutti.h"

/* The gate that a call waits for before it runs, see gated.h. */
struct call_gate {
    struct operation_gate base;   /* the operation's */
    struct operation_gate *asked; /* the call's; NULL: it has none */
    struct call_request *request; /* of a call that has begun */
    bool is_closed;               /* the call has begun, and waits for it */
    bool is_told;                 /* that the call is over */
};

struct gpu_device;
struct gpu_run;

/* The rest of a call that is more than two contiguous buffers of the host: counts, segments, a
 * gate, a device. One allocation, and what call_free_extra (on_device.h) frees. */
struct call_extra {
    size_t *input_counts, *output_counts;  /* for v forms, one count for each rank; else NULL */
    struct segment_of_buffer *segments[2]; /* of send and recv; NULL: in one piece */
    size_t segment_counts[2];
    size_t count_bytes; /* of both counts together: they lie one after the other */
    struct call_gate gate;
    /* of calls on memory of a device, or in the order of a stream (on_device.h): */
    struct gpu_device *device; /* NULL: neither */
    struct gpu_run *run;       /* from when it first begins */
    bool on_device[2];         /* what it sends, what it receives */
    bool on_stream;
    void *stream;
};

/* The wishes of a call besides its algorithm; side by side, so that calls without any are compared
 * at once. */
struct call_wishes {
    uint16_t radix;    /* of the requested algorithm; 0: its default */
    uint16_t encoding; /* encoding_wish_pack; 0: the rules of the communicator decide */
};
static inline uint32_t call_wishes_word(const struct call_wishes *wishes)
{
    uint32_t word;
    static_assert(sizeof word == sizeof *wishes, "no padding");
    memcpy(&word, wishes, sizeof word);
    return word;
}

/* The call of a request, checked and complete. */
struct call {
    struct call_description what;
    const struct tutti_operation *op;
    const void *send;
    void *recv;
    bool in_place, deterministic;
    bool all_were_mapped; /* every rank's memory, the last time that it was checked; the same on all ranks */
    int priority;
    struct call_wishes wishes;
    uint64_t timeout_ns;
    enum tutti_status refused;         /* not OK: why this rank cannot make it (refuse.h) */
    const struct algorithm *algorithm; /* requested by name, or NULL */
    struct call_extra *extra;          /* the call owns it; NULL: it needs none */
};

/* A call of which nothing is known. It is copied: GCC clears a structure of this size with a string
 * instruction, which waits until all earlier stores have left the core, as long as a message
 * takes. */
extern const struct call call_blank;

static inline bool call_has_gate(const struct call *call)
{
    return __builtin_expect(call->extra != NULL, 0) && call->extra->gate.asked != NULL;
}

struct memory_kind;

/* A message to send or to receive, checked and complete. */
struct message_call {
    bool is_send;
    void *buffer;
    const struct memory_kind *kind; /* of the buffer; NULL: the host's */
    void *staging;                  /* memory of the host, for a buffer that is not (staged.h) */
    size_t count;
    enum tutti_dtype dtype;
    int peer, tag;
    uint16_t encoding; /* the wish of the call: encoding_wish_pack; 0: the rules of the communicator decide */
    uint64_t timeout_ns;
    struct tutti_message *result; /* where a recv says what it received, or NULL */
    size_t result_bytes;          /* size of *result, as the caller was compiled */
};

/* Values of `event` that are no descriptor: none is set; the request is done; no thread will wait
 * for it, and the thread that finishes it gives it back. */
enum request_event { EVENT_NONE, EVENT_DONE, EVENT_DETACHED };

/* The part that all requests have. Its address is that of the struct call_request or struct
 * message_request that it is part of. */
struct tutti_request {
    struct tutti_comm *comm;
    bool is_message;            /* else a call */
    bool is_grouped;            /* only the thread that will wait for it moves it */
    bool is_prepared;           /* part of a struct tutti_prepared */
    bool is_owned;              /* a caller will still wait for it (not used for prepared ones) */
    _Atomic bool is_waited_for; /* a thread is in tutti_wait for it */
    enum tutti_status status;
    uint64_t sequence; /* number of the call on the communicator, from 1; 0: a message */
    uint64_t started_ns; /* when the wait loop first found it unfinished, or its gate opened; 0: not yet */
    uint64_t looked_ns; /* when the wait loop last looked for reasons */
    uint64_t left_ns;   /* since when a rank that it waits for is known to have left; 0: none is */
    char error[256];    /* of a failure */
    _Atomic int event; /* ~ the descriptor to signal when it is done; or one of enum request_event */
    _Atomic bool done; /* stored last, with release order */
    struct tutti_request *_Atomic next_free;
    struct tutti_request *_Atomic *home;    /* the free list that request_give_back returns it to */
    struct tutti_request *next;             /* in a queue */
    struct tutti_request *next_made;        /* in the list of all requests of the communicator */
    struct tutti_request *after, *previous; /* in one list: unfinished messages, or orphans */
    struct tutti_request **list;            /* of unfinished messages, in which it is; NULL: none */
};

/* A call under way. A prepared one keeps its program and its extra. */
struct call_request {
    struct tutti_request base;
    /* `own`; of a blocking call: its caller's, for a copy, made right after it was written in other
     * sizes, would wait until all earlier stores have left the core. */
    struct call *call;
    struct call own;
    struct operation operation;
    struct program *program;
    int slot;
    uint64_t begun;  /* number of the call in its slot, from 1 */
    uint64_t number; /* among started calls, from 1; 0: not a started call */
    unsigned passes; /* of the wait loop until a blocking call was done */
    uint64_t faulted_ns; /* since when a rank of another host is asked what its message meant; 0: it is not */
    uint64_t quit_ns; /* since when it is not run any more, for the communicator has failed; 0: it is run */
    uint64_t crossed_ns; /* since when ranks of other forms are known to wait for each other; 0: they are not */
    /* of a call in a stream: since when others are told that the stream waits for it */
};

struct message_request {
    struct tutti_request base;
    struct message_call call;
    struct p2p_request message;
    struct message_request
        *takes_back; /* the receive that this one cancels, instead of being a message; else NULL */
    uint64_t record; /* in the recorder of messages; 0: none */
};

/* Whether a call has begun, and waits for its gate. */
static inline bool request_is_gated(const struct call_request *request)
{
    return __builtin_expect(request->call->extra != NULL, 0) && request->call->extra->gate.is_closed;
}

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

/* Requests that wait until the thread that holds the domain begins them; under the lock of struct
 * requests. */
struct request_queue {
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

/* All requests of a communicator, and the queue of started calls. */
struct requests {
    pthread_mutex_t lock; /* protects only queues and the two lists below */
    struct request_queue queue;
    struct tutti_request *_Atomic free; /* idle ones; only the thread that issues calls takes from it */
    struct tutti_request *all;          /* every request */
    struct tutti_prepared *prepared; /* every prepared one */
};

/* A prepared request that knows its communicator, and that the communicator knows. NULL when out of
 * memory. */
struct tutti_prepared *request_make_prepared(struct tutti_comm *comm, bool is_message);
/* Frees the requests of a communicator. Those that a caller will still wait for become orphans
 * (orphans.h). */
void requests_free(struct tutti_comm *comm);
/* Puts a request back where it came from; any thread. */
void request_give_back(struct tutti_request *request);
/* Takes one, or NULL; one thread at a time. */
struct tutti_request *request_take_free(struct tutti_request *_Atomic *free_requests);
/* A new request of the communicator, which request_give_back returns to `home`. NULL when out of
 * memory. */
struct tutti_request *request_make(struct tutti_comm *comm, bool is_message,
                                   struct tutti_request *_Atomic *home);
/* Appends a request to a queue. Any thread. */
void request_enqueue(struct tutti_comm *comm, struct request_queue *queue,
                     struct tutti_request *request);
/* Takes the first request of a queue, or NULL; domain held. The caller begins the request, and then
 * takes one off queue->count. */
struct tutti_request *request_dequeue(struct tutti_comm *comm, struct request_queue *queue);
/* Makes it ready for another run. */
void request_reset(struct tutti_comm *comm, struct tutti_request *request);
/* Stores the status of a request and the text of an error, and marks it done. */
void request_finish(struct tutti_request *request, enum tutti_status status);
/* Adds one to the counter of a descriptor that tutti_notify was given. */
void request_tell_event(int event_fd);
/* "recv(count 3, float32, from rank 2, tag 7)" */
void message_describe(const struct message_call *call, char *text, size_t text_bytes);
/* Publishes a failure of a request with its cause; the first failure wins on all ranks. request
 * NULL: nothing of this rank's is to blame, and the text says what is. */
void call_fail(struct tutti_comm *comm, const struct tutti_request *request,
               enum tutti_status status, int culprit, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
