/* line.h - a server's end of a communicator of two ranks: requests that come, and replies that go.
 *
 *     CLOSED ──line_open──► HEADER ──a request comes──► TAKEN ──it has a payload──► PAYLOAD
 *                             ▲                           │                           │
 *                             └───────────line_listen─────┴◄──────────it comes────────┘
 *
 * Receives are started, and add to an eventfd when they are done, so that one thread sleeps for all
 * its lines. They have no deadline: a worker may compute for hours. Whatever ends the communicator
 * closes the line, and ends no other one.
 *
 * One thread, and nothing blocks: the end of a communicator is left to closings.h.
 */
#ifndef TUTTI_SERVER_LINE_H
#define TUTTI_SERVER_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/block.h"
#include "server/closings.h"
#include "server/server_message.h"

enum line_state { LINE_CLOSED, LINE_HEADER, LINE_TAKEN, LINE_PAYLOAD };

struct line_sent; /* a message on its way */

/* A part of a payload that is a message. */
struct line_piece {
    struct block *block; /* NULL: it was taken by another owner */
    size_t bytes;
    struct tutti_request *receive;
    struct tutti_message message;
    bool wakes; /* the server's thread, when it has come */
};

struct line {
    enum line_state state;
    struct tutti_comm *comm;
    int peer, tag, event_fd;
    bool is_borrowed; /* the communicator */
    struct block_pool *pool;
    struct closings *closings;
    struct tutti_request *receive;
    struct tutti_message message;
    unsigned char header[SERVER_REQUEST_BYTES_MAX + SERVER_INLINE_BYTES];
    struct line_piece *pieces; /* of the payload of the request that was taken */
    size_t piece_count;        /* 0: it has none */
    struct line_sent *sent;
    uint64_t sent_bytes; /* of these messages */
    uint32_t sent_count;
};

/* Takes over the communicator, of which this rank is number 1 - peer, and listens. A
 * communicator of this rank alone has the worker as its other end: peer is 0, and it stays the
 * caller's. tag: of requests; their payloads have the next one. Payloads are of the pool, and the communicator
 * ends in `closings`. On failure the line is closed. */
enum tutti_status line_open(struct line *line, struct tutti_comm *comm, int peer, int tag,
                            int event_fd, struct block_pool *pool, struct closings *closings);
/* Whether a request, or the payload that was asked for, has come: then the line is TAKEN, and
 * the header of line->message.count bytes, and the payload, are the caller's to read. A failure
 * is that of the communicator; MISMATCH: the payload has not the bytes that were asked for. */
enum tutti_status line_take(struct line *line, bool *has_come);
/* The request that was taken has a payload of pieces of so many bytes, of which the first may have none and
 * then does not come as a message. If it has come with the request, the line stays TAKEN, and the payload is
 * there. NO_MEMORY. */
enum tutti_status line_want_payload(struct line *line, const size_t *sizes, size_t count);
/* The first piece of a payload that is there; NULL: there is no payload. */
void *line_payload(const struct line *line);
/* The request is done with. Its payload is freed. */
enum tutti_status line_listen(struct line *line);
/* Sends a message: a copy; or memory that must stay as it is until the line calls release(owner), which it
 * does in any case. */
enum tutti_status line_send(struct line *line, int tag, const void *bytes, size_t size);
enum tutti_status line_send_held(struct line *line, int tag, const void *bytes, size_t size,
                                 void (*release)(void *owner), void *owner);
/* Gives back what is sent. */
enum tutti_status line_reap(struct line *line);
bool line_is_sending(const struct line *line);
/* Ends the communicator and frees everything. Ended already: nothing. why: the peer's error has
 * it; NULL: as planned, so what was sent may still come. */
void line_close(struct line *line, const char *why);

#endif
