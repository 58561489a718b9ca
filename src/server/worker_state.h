/* worker_state.h - the members of a worker and of its calls, for the files that make it up:
 *
 *     worker.c           calls: what goes to which server
 *       worker_parts.c   parts to payloads, and values back to parts
 *       worker_seats.c   seats of a share, and spares that become some
 *         worker_leg.c   one request to one server, and its answer
 */
#ifndef TUTTI_SERVER_WORKER_STATE_H
#define TUTTI_SERVER_WORKER_STATE_H

#include "server/block.h"
#include "server/server_message.h"
#include "server/worker.h"

struct worker_line {
    struct tutti_comm *comm; /* this worker is rank 0 of it, and the server rank 1 */
    int peer;                /* 1; 0 if the worker is its own server */
    bool is_borrowed;        /* the server is this rank, and has the communicator, too */
    bool is_lost; /* a message has failed, or the seat has stopped: pulls go to the other seat */
    uint64_t sequence;
    uint64_t used;            /* slots, a bit each */
    enum tutti_status failed; /* not OK: a server has refused a push, so all calls fail like it */
    char *why;
    int share; /* that the seat has, as far as this worker pushes to it; -1: it does not */
    struct tutti_request *invited; /* a spare: it may ask for that; NULL: it has, or will not */
    struct server_reply invitation;
    struct tutti_message message;
};

/* A message of a payload. */
struct leg_piece {
    void *bytes;
    size_t size;         /* 0: it is not sent */
    struct block *block; /* with the bytes; NULL: they are the caller's, or of another leg of the call */
    struct tutti_request *request;
    struct tutti_message message;
};

struct worker_leg {
    struct worker_line *line;            /* NULL: it has none, or its answer is there */
    const struct worker_line *last_line; /* that it went to; NULL: it was not started */
    int slot;
    bool has_no_reply, is_answered;
    struct server_request *request; /* with its parts, and its payload if that is small */
    size_t request_bytes, payload_bytes, reply_bytes;
    /* Of the payload, and then of the reply's: in each what goes together, and then what goes alone. */
    struct leg_piece *pieces;
    size_t sent_count, piece_count;
    struct {
        struct server_reply head;
        char payload[SERVER_INLINE_BYTES];
    } reply;
    struct tutti_message reply_message;
    struct tutti_request *request_sent, *reply_received;
    enum tutti_status status; /* what came of it */
    char *text;               /* why not OK; NULL: no memory */
};

struct tutti_server_operation {
    struct worker *worker;
    const char *function;
    enum server_kind kind;
    struct tutti_server_part *parts; /* copies, with rows */
    int64_t *rows;
    size_t part_count;
    uint64_t timeout_ns;      /* of its messages, from its launch on */
    struct worker_leg legs[]; /* one for each seat */
};

struct worker {
    struct worker_config config;
    uint32_t generation; /* of the process that made it */
    struct worker_line *lines;
    uint64_t clock;     /* ticks that were started */
    bool has_tick;      /* the last one is not over */
    bool is_unfinished; /* nor the push, tick and pull that it is a part of, after a TIMEOUT */
    struct tutti_server_operation *tick; /* which has not been waited for */
    uint64_t changes;                    /* of the mode that were answered */
    bool has_wish, gave_up; /* the last one timed out; and the worker has ended a clock since */
    struct worker_clock_rule wish; /* for which it asked */
    struct block_pool payloads;
    uint64_t pushes, pulls, bytes;
};

/* ---------------------------------------------------------------------------------- worker_leg.c */

/* Takes a slot of the line, which has a free one, and sends. The leg has its request, payload
 * and room for the answer. A failure is the leg's status, in the end. */
void leg_start(struct worker_leg *leg, struct worker_line *line, uint64_t timeout_ns);
/* Whether the answer is there, or will not come; `blocks` waits for that. Then leg->status
 * holds. */
bool leg_finish(struct worker_leg *leg, bool blocks);
/* Whether it says that its seat is of no use any more: it has no answer, or one that no other call
 * would change. */
bool leg_is_lost(const struct worker_leg *leg);
void leg_release(struct worker_leg *leg);
/* The leg is lost: starts it again, on another line. False: that has no slot. */
bool leg_move(struct worker_leg *leg, struct worker_line *line, uint64_t timeout_ns);
/* Makes a leg with the request and payload of another one, which is released later. NO_MEMORY. */
enum tutti_status leg_copy(const struct worker_leg *from, struct worker_leg *leg);

/* -------------------------------------------------------------------------------- worker_seats.c */

int worker_seats(const struct worker *worker);
/* NULL: no memory, with a message. */
struct tutti_server_operation *operation_create(struct worker *worker, const char *function,
                                                enum server_kind kind);
void operation_free(struct tutti_server_operation *operation); /* NULL is allowed */
/* A request without parts: to one seat; to all to which this worker pushes, of which those with a clock answer. */
enum tutti_status plain_leg(struct worker_leg *leg, const struct server_request *head);
enum tutti_status plain_legs(struct tutti_server_operation *operation,
                             const struct server_request *head);
/* The seat of a share that answers for it. */
int reader_of(const struct worker *worker, int share);
/* Whether it has a leg for each share, and not for each seat. */
bool goes_to_one_seat(const struct tutti_server_operation *operation);
/* The seat whose failure is the share's; -1: none. One seat of each share is enough. The reason of a
 * server's answer comes before that of a line. May wait for a spare's word. */
int failed_seat(const struct tutti_server_operation *operation, int share);
/* A line to a spare: it may ask this worker to push to it. And no longer. */
void worker_await_invitation(struct worker_line *line);
void worker_await_no_invitation(struct worker_line *line);
/* This worker has just ended a clock: it begins the next one with all spares that have asked. */
void worker_begin_with_spares(struct worker *worker);

/* -------------------------------------------------------------------------------- worker_parts.c */

/* Makes the request, payload and room of a leg to one server. stays: values of parts stay as they are until the
 * leg is finished, so that they need not be copied. NO_MEMORY, INVALID_COUNT (more bytes than a request may have). */
enum tutti_status parts_pack(struct worker *worker, int server, const struct server_request *head,
                             const struct tutti_server_part *parts, size_t part_count, bool stays,
                             struct worker_leg *leg);
/* A payload that comes with the reply, or as one piece. */
enum tutti_status parts_make_room(struct worker *worker, size_t bytes, struct worker_leg *leg);
const void *parts_rest(const struct worker_leg *leg);
/* Puts the values that a server sent in their places, where they are not there already. */
void parts_unpack(const struct server_division *division, int server,
                  const struct tutti_server_part *parts, size_t part_count,
                  const struct worker_leg *leg);

#endif
