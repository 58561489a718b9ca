/* stream.h - one connection of a pair: it sends frames out of memory where that lies, and receives
 * frames to where they belong.
 *
 *   out   a batch: heads of its own, payloads of links, written by one system call, and by the next
 *         from where that stopped
 *   in    a small buffer for heads and short payloads; the rest of a payload is read straight to
 *         its target
 *
 * After a READY that says so, payloads are checked: each has its checksum before it, made when the
 * payload is added, computed again as the payload comes, while it is in cache, and compared when
 * all of it has come.
 *
 * Neither direction waits. The sink decides what else a frame means.
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
    TCP_STREAM_NONSENSE /* the same: the peer's frame makes no sense */
};

/* Its functions may not touch the stream. */
struct tcp_stream_sink {
    /* A head has come. Sets the place of the payload, if there is one. Returns a text that says
     * what is wrong, or NULL. */
    const char *(*begin)(void *context, const struct tcp_frame *frame, char **target);
    /* The payload has come, too; is_intact: as it was sent. False: the frame is not taken, and no
     * later one is. */
    bool (*end)(void *context, const struct tcp_frame *frame, bool is_intact);
    void *context;
};

/* The owner of the memory of a part of the batch. */
struct tcp_batch_owner {
    const void *owner; /* or NULL: the stream's own */
    uint64_t sequence;
    bool gives_way; /* a head that urgent frames overtake until part of its frame is written */
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
    char *copy;          /* the bytes taken over, until they are written; or NULL */
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
/* Takes the socket, also on failure; the stream must have none. is_urgent: the connection will
 * carry only small frames. is_bounded: the bytes on their way are bounded, and another connection
 * carries urgent frames. */
enum tutti_status tcp_stream_open(struct tcp_stream *stream, struct byte_stream socket,
                                  bool is_urgent, bool is_bounded);
void tcp_stream_close(struct tcp_stream *stream);

/* The number of frames that still fit into the batch. */
unsigned tcp_stream_room(const struct tcp_stream *stream);
/* Adds a frame. The payload must stay as it is until it is written or taken over, or the stream is
 * closed; `owner` says whose it is. Pieces that are not small give way: a frame that is added later
 * goes before them, unless it also gives way. */
void tcp_stream_add(struct tcp_stream *stream, const struct tcp_frame *frame, const void *payload,
                    const void *owner);
/* Whether bytes of an owner's pieces below a number are still to be written from where they lie. */
bool tcp_stream_is_writing(const struct tcp_stream *stream, const void *owner, uint64_t below);
/* Copies the bytes that are still to be written: at most two pieces and small frames. From then on
 * only the stream's own memory is read. False: no memory, and nothing has changed. */
bool tcp_stream_take_over(struct tcp_stream *stream);
/* Whether any frame that was added has not yet been given to the kernel. */
bool tcp_stream_has_output(const struct tcp_stream *stream);
/* Writes as much as the kernel takes. */
enum tcp_stream_result tcp_stream_flush(struct tcp_stream *stream);
/* Reads what has come, a bounded amount. LOST: errno says why, EBADMSG: a changed record of TLS.
 * NONSENSE: *wrong says why. */
enum tcp_stream_result tcp_stream_read(struct tcp_stream *stream,
                                       const struct tcp_stream_sink *sink, const char **wrong);

#endif
