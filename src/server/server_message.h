/* server_message.h - what workers and servers say to each other, as bytes.
 *
 *     worker                                                  server
 *       request, and the parts it is about   ── REQUEST ──►     checked; then room for its payload
 *       its payload, if it has one           ── PAYLOAD ──►
 *       ..                                   ── PAYLOAD ──►
 *                                            ◄── tag ───        reply
 *                                            ◄── tag + 1 ──     payload, if it is OK and has one
 *                                            ◄── tag + 1 ──     ..
 *
 * REQUEST and PAYLOAD are the tags of messages. Payloads of a push or set: part by part the rows
 * (int64, if there are any) and then the values, each padded to 8 bytes. Payload of a pull: the
 * rows; its reply has the values, part by part, without gaps.
 *
 * A small payload goes with its request or reply, in one message. Of a larger one, each large part
 * is a message of its own, so that it goes straight from the memory where it is to the memory
 * where it is wanted; all other parts are one message, which goes first.
 *
 * Numbers are those of the machine. All that a peer sends is copied once and checked here before
 * anything is done with it.
 */
#ifndef TUTTI_SERVER_SERVER_MESSAGE_H
#define TUTTI_SERVER_SERVER_MESSAGE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/division.h"
#include "tutti/encode.h"
#include "tutti/server.h"

enum { SERVER_MAGIC = 0x53545554, SERVER_VERSION = 4 };
enum { SERVER_TAG_REQUEST = 0, SERVER_TAG_PAYLOAD = 1, SERVER_TAG_REPLY = 16 };
/* A spare seat asks a worker to push to it, too: a reply, with its share. */
enum { SERVER_TAG_INVITE = 8 };
/* Payloads of at most so many bytes go with their request or reply; parts of at least so many go alone. */
enum { SERVER_INLINE_BYTES = 4096, SERVER_ALONE_BYTES = 32768 };
/* Between two seats, which may be on one rank: instead of TAG_REQUEST, by the receiver; TAG_PAYLOAD
 * is one more. */
enum { SERVER_TAG_TO_HIGHER = 2, SERVER_TAG_TO_LOWER = 4 };
/* Requests of a worker that a server has not answered yet. Each has two tags, from TAG_REPLY on. */
enum { SERVER_SLOTS = 64 };

enum server_kind {
    SERVER_PUSH = 1,
    SERVER_SET,
    SERVER_PULL,
    SERVER_TICK,
    SERVER_RECORD, /* which workers were in a step */
    SERVER_LEAVE,  /* the worker goes */
    SERVER_BEGIN,  /* it pushes to this seat, too, from that clock on; has no answer */
    SERVER_CHANGE, /* the worker asks for another rule of the clock; seats with a clock answer */
    SERVER_ENTER,  /* a worker that comes later asks for its first clock, and where it is to push */
    SERVER_HAS,    /* to seats with a clock: this seat has the whole update of a worker's clock */
    SERVER_LOST,   /* to these: a worker is gone; from the leader: an entry */
    SERVER_LEFT,   /* an entry: a worker has left */
    SERVER_LINKED, /* to seats with a clock: this seat has a line to a worker that comes */
    SERVER_CAME,   /* an entry: that worker is in */
    SERVER_DECIDED, /* an entry: a step; the payload is the set of its members */
    SERVER_INVITED, /* entries: what becomes of a seat */
    SERVER_JOINED,
    SERVER_FULL,
    SERVER_OUT,
    SERVER_CHANGED, /* to the standby: all workers asked for another rule, and it holds */
    SERVER_KEPT,    /* to the standby: two workers asked for different rules, and none changes */
    SERVER_CONFIRM, /* from the standby: it has heard an entry, or one of these two */
    SERVER_RESUME, /* to a seat with a clock: the other one is gone, and this seat has heard so many entries */
    SERVER_GONE,   /* from the leader: a seat is gone */
    SERVER_BEGUN,  /* to seats with a clock: this spare has a worker's updates from that clock on */
    SERVER_FILLED, /* to these: and all of its share */
    SERVER_BASE, /* from the leader to a spare: the state that it begins with (server_base_bytes) */
    SERVER_PIECE, /* from the FULL seat of its share: records of tables (table_copy.h), behind an entry */
    SERVER_OVER, /* to seats with a clock: all workers are gone here; the last message of each seat: everywhere */
    SERVER_KIND_END
};
enum { SERVER_OVER_HERE, SERVER_OVER_EVERYWHERE };

struct server_request {
    uint32_t magic;
    uint16_t version, kind;
    /* Of this worker's requests to this server, from 1. Between seats the index of an entry
     * (membership/step_leader.h); 0: it is none. */
    uint64_t sequence;
    uint64_t clock; /* PUSH, SET: in which the worker is; TICK, HAS: that ends; PULL: that are over;
                       BEGIN, BEGUN: the first one; CHANGE, CHANGED, KEPT, and CONFIRM of these two: the round of changes;
                       CAME: rounds that are over */
    uint64_t number; /* HAS, LOST, LEFT, LINKED, CAME, BEGUN: the worker; RECORD, DECIDED: the step; GONE, RESUME, INVITED,
                        JOINED, FULL, OUT: the seat; CHANGE, CHANGED: the staleness; KEPT: a worker;
                        OVER: where; PIECE: 1 if it is the last */
    uint64_t timeout_ns; /* TICK, PULL: from when it comes; 0: none */
    uint64_t payload_bytes;
    uint32_t part_count;
    int32_t priority;
    uint32_t slot;
    uint32_t encoding; /* PUSH, SET: of values */
    uint64_t left_count; /* DECIDED, LOST, LEFT: workers that were left; CHANGE, CHANGED: the quorum, or 0;
                          * KEPT: the other worker; CAME: the worker's first clock; GONE: 0: the tables are no longer complete; of a seat: its
                          * share; LOST, which is no entry: 1: the worker has left */
};
static_assert(sizeof(struct server_request) == 72, "no padding");

struct server_request_part {
    uint32_t table;
    uint32_t is_rows;
    uint64_t count; /* rows; of a dense tensor the elements that this server has */
};

enum {
    SERVER_REQUEST_BYTES_MAX =
        sizeof(struct server_request) + TUTTI_SERVER_PARTS * sizeof(struct server_request_part)
};

struct server_reply {
    uint32_t magic;
    uint16_t version, status;
    uint64_t payload_bytes;
    uint64_t clock; /* TICK: that are over; ENTER: the first one */
    uint64_t step;  /* TICK, RECORD; ENTER: rounds of changes that are over */
    uint32_t worker_count; /* RECORD: that were left; CHANGE: 1: the round was over before the question came */
    uint32_t member_count;
    char text[216]; /* why the status is not OK; ends with a zero */
};
static_assert(sizeof(struct server_reply) == 256, "no padding");

/* The sender of a request, and its receiver. */
struct server_ends {
    const struct server_division *division;
    int seat;  /* that gets it */
    int share; /* which that has; -1: none */
    bool is_from_server;
};

/* The payload of the answer to an ENTER: of each seat a word, 1 + its share if the worker is to push there,
 * otherwise 0. */
static inline size_t server_enter_bytes(const struct server_division *division)
{
    return (size_t)division_seats(division) * sizeof(uint64_t);
}

/* Pieces of tables have at most so many bytes; the widest row fits. */
enum { SERVER_PIECE_BYTES_MAX = 32 << 20 };
/* The payload of a BASE: what step_leader_base gives; then of each worker the step of its last update: its
 * number, how many workers were left, and the set of its members. */
enum { SERVER_BASE_HEAD = 2 };
size_t server_base_bytes(const struct server_division *division);

/* Bytes of a part's rows, and of its values on their way, each padded; and what it needs in memory.
 * False: they do not fit. */
bool server_part_bytes(const struct server_division *division, const struct server_request *request,
                       const struct server_request_part *part, size_t *row_bytes,
                       size_t *value_bytes);

/* Bytes of a part in a message of its own, or 0 if it goes with others: of the payload of a request that is
 * measured, or, of a PULL, of its reply's. */
size_t server_alone_bytes(const struct server_division *division,
                          const struct server_request *request,
                          const struct server_request_part *part);
/* The same of all parts that go with others: of the payload of a request, or of a PULL's reply. */
size_t server_rest_bytes(const struct server_division *division,
                         const struct server_request *request,
                         const struct server_request_part *parts);

/* Takes a request of `size` bytes apart, with which its payload may have come; that is behind the parts.
 * parts: room for TUTTI_SERVER_PARTS. VERSION: of another
 * library. MISMATCH: it makes no sense for this server; the message says why. Pure. */
enum tutti_status server_request_read(const struct server_ends *ends, const void *bytes,
                                      size_t size, struct server_request *request,
                                      struct server_request_part *parts);
/* Whether all rows are of this table and of this server: INVALID_COUNT otherwise. Pure. */
enum tutti_status server_rows_check(const struct server_ends *ends, size_t table, size_t count,
                                    const int64_t *rows);
/* Bytes of the reply's payload to a PULL that was read. */
size_t server_reply_bytes(const struct server_division *division,
                          const struct server_request *request,
                          const struct server_request_part *parts);

/* INTERNAL: not a reply, or with a payload of more than payload_max bytes, or of some bytes that have not come with
 * it as they must; otherwise its status, with the text as this thread's message. */
enum tutti_status server_reply_read(struct server_reply *reply, size_t size, size_t payload_max);

#endif
