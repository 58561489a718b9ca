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
 * One thread. Nothing blocks but line_close, until what was sent is done or the deadline of the
 * communicator has passed.
 */
#ifndef TUTTI_SERVER_LINE_H
#define TUTTI_SERVER_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/server_message.h"

enum line_state { LINE_CLOSED, LINE_HEADER, LINE_TAKEN, LINE_PAYLOAD };

struct line_sent; /* a message on its way */

struct line {
    enum line_state state;
    struct tutti_comm *comm;
    int peer, tag, event_fd;
    bool is_borrowed; /* the communicator */
    struct tutti_request *receive;
    struct tutti_message message;
    unsigned char header[SERVER_REQUEST_BYTES_MAX];
    void *payload; /* of the request that was taken; NULL: it has none */
    struct line_sent *sent;
    uint64_t sent_bytes; /* of these messages */
    uint32_t sent_count;
};

/* Takes over the communicator, of which this rank is number 1 - peer, and listens. A
 * communicator of this rank alone has the worker as its other end: peer is 0, and it stays the
 * caller's. tag: of requests; their payloads have the next one. On failure the line is closed. */
enum tutti_status line_open(struct line *line, struct tutti_comm *comm, int peer, int tag,
                            int event_fd);
/* Whether a request, or the payload that was asked for, has come: then the line is TAKEN, and
 * the header of line->message.count bytes, and the payload, are the caller's to read. A failure
 * is that of the communicator. */
enum tutti_status line_take(struct line *line, bool *has_come);
/* The request that was taken has a payload. NO_MEMORY. */
enum tutti_status line_want_payload(struct line *line, size_t bytes);
/* The request is done with. Its payload is freed. */
enum tutti_status line_listen(struct line *line);
/* Sends a message, a copy, or memory from malloc() that becomes the line's in any case. */
enum tutti_status line_send(struct line *line, int tag, const void *bytes, size_t size);
enum tutti_status line_send_owned(struct line *line, int tag, void *bytes, size_t size);
/* Gives back what is sent. */
enum tutti_status line_reap(struct line *line);
bool line_is_sending(const struct line *line);
/* Ends the communicator and frees everything. Ended already: nothing. why: the peer's error has
 * it; NULL: as planned, so what was sent may still come. */
void line_close(struct line *line, const char *why);

#endif
