/* stream.h - one connection of a pair: frames out of memory where it lies, frames in to where they belong.
 *
 *   out   a batch: heads of its own, payloads of links, written by one system call and again from where that stopped
 *   in    a small buffer for heads and what is short; the rest of a payload is read straight to its target
 *
 * What follows a READY that says so is checked: each payload has its checksum before it, made when it is added and compared
 * when all of it has come, as it comes, while it is in cache.
 *
 * Neither direction waits. What else a frame means is the sink's matter.
 */
#ifndef TUTTI_TRANSPORT_TCP_STREAM_H
#define TUTTI_TRANSPORT_TCP_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "os/byte_stream.h"
#include "transport/tcp/frame.h"
#include "tutti/tutti.h"

enum { TCP_BATCH_FRAMES = 16, TCP_STAGING_BYTES = 4 << 10 };

enum tcp_stream_result {
    TCP_STREAM_BLOCKED,
    TCP_STREAM_MOVED,
    TCP_STREAM_LOST, /* nothing comes or goes any more */
    TCP_STREAM_CHANGED, /* nor should it: what came is not what was sent, the payload of `frame` (in_payload) or a head */
    TCP_STREAM_NONSENSE /* the same: what was sent makes no sense */
};

/* May not touch the stream. */
struct tcp_stream_sink {
    /* A head has come. Says where the payload goes (not set: there is none). Returns what is wrong, or NULL. */
    const char *(*begin)(void *context, const struct tcp_frame *frame, char **target);
    /* The payload has, too, and is_intact: as it was sent. False: it is not taken, and nothing else is. */
    bool (*end)(void *context, const struct tcp_frame *frame, bool is_intact);
    void *context;
};

/* Whose memory a part of the batch is. */
struct tcp_batch_owner {
    const void *owner; /* or NULL: the stream's own */
    uint64_t sequence;
    bool gives_way; /* the head of a frame that urgent ones overtake as long as nothing of it was written */
};

struct tcp_stream {
    struct byte_stream socket; /* none: there is no connection */
    unsigned number;
    bool is_blocked; /* the kernel took no more at the last try */
    /* out */
    bool sends_checks;
    unsigned char heads[TCP_BATCH_FRAMES][TCP_FRAME_HEAD_BYTES + TCP_FRAME_CHECK_BYTES];
    struct iovec parts[2 * TCP_BATCH_FRAMES];
    struct tcp_batch_owner owners[2 * TCP_BATCH_FRAMES];
    unsigned frame_count, part_first, part_count;
    size_t unsent_bytes; /* of the batch */
    char *copy;          /* what was taken over, until it is written; or NULL */
    /* in */
    unsigned char staging[TCP_STAGING_BYTES];
    size_t staged_bytes; /* of the next head, between reads */
    bool in_payload, gets_checks;
    uint32_t check, check_so_far; /* as it was sent, and of what has come */
    struct tcp_frame frame;       /* of which the payload is coming */
    char *target;
    size_t target_left;
};

void tcp_stream_init(struct tcp_stream *stream, unsigned number);
/* Takes the socket, also on failure; the stream has none. Urgent: it will carry only what is small. Bounded: what is on its
 * way is, and others carry what is urgent. */
enum tutti_status tcp_stream_open(struct tcp_stream *stream, struct byte_stream socket,
                                  bool is_urgent, bool is_bounded);
void tcp_stream_close(struct tcp_stream *stream);

/* Frames that still fit into the batch. */
unsigned tcp_stream_room(const struct tcp_stream *stream);
/* The payload stays as it is until it is written, or taken over, or the stream closed; it belongs to that piece of a link, or
 * that note. Pieces that are not small give way: what is added later goes before them if it does not, too. */
void tcp_stream_add(struct tcp_stream *stream, const struct tcp_frame *frame, const void *payload,
                    const void *owner);
/* Whether bytes of an owner's pieces below a number are still to be written from where they lie. */
bool tcp_stream_is_writing(const struct tcp_stream *stream, const void *owner, uint64_t below);
/* What is still to be written, at most two pieces and what is small, is copied: nobody else's memory is read any more. False:
 * no memory, nothing has changed. */
bool tcp_stream_take_over(struct tcp_stream *stream);
/* Whether anything added was not given to the kernel yet. */
bool tcp_stream_has_output(const struct tcp_stream *stream);
/* Writes what the kernel takes. */
enum tcp_stream_result tcp_stream_flush(struct tcp_stream *stream);
/* Reads what has come, a bounded amount. LOST: errno says why, EBADMSG: a changed record of TLS. NONSENSE: *wrong says why. */
enum tcp_stream_result tcp_stream_read(struct tcp_stream *stream,
                                       const struct tcp_stream_sink *sink, const char **wrong);

#endif
