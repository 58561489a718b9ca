#include "transport/tcp/stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"

enum {
    READ_BYTES_A_PASS = 1 << 20,
    /* What the kernel takes beyond what it can send at once: an urgent frame waits behind that, ... */
    KERNEL_BYTES_MAX = 128 << 10,
    /* ... but none where there is a connection of its own for them. Where what is on its way is bounded, this alone keeps
     * the path full while this process does not run: 4 ms at 1 Gbit/s. */
    LARGE_KERNEL_BYTES_MAX = 512 << 10,
    /* A host that vanished while nothing was under way to it is noticed after half a minute, ... */
    KEEPALIVE_IDLE_S = 10,
    KEEPALIVE_APART_S = 5,
    KEEPALIVE_COUNT = 4,
    /* ... and after this where something urgent was. Not where there is much: the kernel would also give up a connection whose
     * peer is there and only does not read, because it computes. */
    USER_TIMEOUT_MS = 10000,
    URGENT_PRIORITY =
        6 /* TC_PRIO_INTERACTIVE: before others in the host's own queue, where that has bands */
};

void tcp_stream_init(struct tcp_stream *stream, unsigned number)
{
    *stream = (struct tcp_stream){.fd = -1, .number = number};
}

/* Without these it is slower, or notices later, or is not TCP at all. */
static void set_options(int fd, bool is_urgent, bool is_bounded)
{
    const int one = 1, unsent = is_bounded ? LARGE_KERNEL_BYTES_MAX : KERNEL_BYTES_MAX,
              idle_s = KEEPALIVE_IDLE_S, apart_s = KEEPALIVE_APART_S, count = KEEPALIVE_COUNT,
              timeout_ms = USER_TIMEOUT_MS, priority = URGENT_PRIORITY;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &apart_s, sizeof apart_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    if (!is_urgent) return;
    (void)setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

enum tutti_status tcp_stream_open(struct tcp_stream *stream, int fd, bool is_urgent, bool is_bounded)
{
    assert(stream->fd < 0);
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        const enum tutti_status status = error_system("a connection cannot be used");
        close(fd);
        return status;
    }
    set_options(fd, is_urgent, is_bounded);
    tcp_stream_init(stream, stream->number);
    stream->fd = fd;
    return TUTTI_OK;
}

void tcp_stream_close(struct tcp_stream *stream)
{
    if (stream->fd >= 0) close(stream->fd);
    free(stream->copy);
    tcp_stream_init(stream, stream->number);
}

/* --------------------------------------------------------------------------------------------- out */

unsigned tcp_stream_room(const struct tcp_stream *stream)
{
    return TCP_BATCH_FRAMES - stream->frame_count;
}

/* At that place among the parts. */
static void add_part(struct tcp_stream *stream, unsigned at, const void *data, size_t bytes,
                     struct tcp_batch_owner owner)
{
    const unsigned behind = stream->part_count++ - at;
    memmove(&stream->parts[at + 1], &stream->parts[at], behind * sizeof *stream->parts);
    memmove(&stream->owners[at + 1], &stream->owners[at], behind * sizeof *stream->owners);
    stream->parts[at] = (struct iovec){(void *)(uintptr_t)data, bytes};
    stream->owners[at] = owner;
    stream->unsent_bytes += bytes;
}

/* Before the first frame that gives way and has not begun. */
static unsigned place_of_urgent(const struct tcp_stream *stream)
{
    unsigned p = stream->part_first;
    while (p < stream->part_count &&
           !(stream->owners[p].gives_way && stream->parts[p].iov_len == TCP_FRAME_HEAD_BYTES))
        p++;
    return p;
}

void tcp_stream_add(struct tcp_stream *stream, const struct tcp_frame *frame, const void *payload,
                    const void *owner)
{
    const bool gives_way = frame->kind == TCP_FRAME_DATA && frame->place != TCP_FRAME_NO_PLACE;
    const unsigned at = gives_way ? stream->part_count : place_of_urgent(stream);
    unsigned char *const head = stream->heads[stream->frame_count++];
    tcp_frame_write(frame, head);
    add_part(stream, at, head, TCP_FRAME_HEAD_BYTES,
             (struct tcp_batch_owner){.gives_way = gives_way});
    if (frame->bytes > 0)
        add_part(stream, at + 1, payload, frame->bytes,
                 (struct tcp_batch_owner){.owner = owner, .sequence = frame->sequence});
}

bool tcp_stream_is_writing(const struct tcp_stream *stream, const void *owner, uint64_t below)
{
    for (unsigned p = stream->part_first; p < stream->part_count; p++)
        if (stream->owners[p].owner == owner && stream->owners[p].sequence < below) return true;
    return false;
}

bool tcp_stream_take_over(struct tcp_stream *stream)
{
    if (stream->part_count == 0) return true;
    char *const copy = malloc(stream->unsent_bytes);
    if (copy == NULL) return false;
    size_t done = 0;
    for (unsigned p = stream->part_first; p < stream->part_count; p++) {
        memcpy(copy + done, stream->parts[p].iov_base, stream->parts[p].iov_len);
        done += stream->parts[p].iov_len;
    }
    assert(done == stream->unsent_bytes);
    free(stream->copy);
    stream->copy = copy;
    stream->parts[0] = (struct iovec){copy, done};
    stream->owners[0] = (struct tcp_batch_owner){.owner = NULL};
    stream->part_first = 0;
    stream->part_count = stream->frame_count = 1; /* heads and all */
    return true;
}

static void was_written(struct tcp_stream *stream, size_t bytes)
{
    stream->unsent_bytes -= bytes;
    while (stream->part_first < stream->part_count) {
        struct iovec *const part = &stream->parts[stream->part_first];
        if (bytes < part->iov_len) {
            part->iov_base = (char *)part->iov_base + bytes;
            part->iov_len -= bytes;
            return;
        }
        bytes -= part->iov_len;
        stream->part_first++;
    }
    stream->part_first = stream->part_count = stream->frame_count = 0;
    free(stream->copy);
    stream->copy = NULL;
}

enum tcp_stream_result tcp_stream_flush(struct tcp_stream *stream)
{
    enum tcp_stream_result result = TCP_STREAM_BLOCKED;
    while (stream->part_first < stream->part_count) {
        const struct msghdr message = {.msg_iov = stream->parts + stream->part_first,
                                       .msg_iovlen = stream->part_count - stream->part_first};
        const ssize_t written = sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) return TCP_STREAM_LOST;
            stream->is_blocked = true;
            return result;
        }
        was_written(stream, (size_t)written);
        result = TCP_STREAM_MOVED;
    }
    return result;
}

/* ---------------------------------------------------------------------------------------------- in */

/* Some of a payload lies at its target. */
static void feed(struct tcp_stream *stream, const struct tcp_stream_sink *sink, size_t bytes)
{
    stream->target += bytes;
    stream->target_left -= bytes;
    if (stream->target_left > 0) return;
    stream->in_payload = false;
    sink->end(sink->context, &stream->frame);
}

static const char *begin_frame(struct tcp_stream *stream, const struct tcp_stream_sink *sink,
                               const unsigned char *head)
{
    const char *wrong = tcp_frame_read(head, &stream->frame);
    char *target = NULL;
    if (wrong == NULL) wrong = sink->begin(sink->context, &stream->frame, &target);
    if (wrong != NULL) return wrong;
    if (stream->frame.bytes == 0) {
        sink->end(sink->context, &stream->frame);
        return NULL;
    }
    stream->in_payload = true;
    stream->target = target;
    stream->target_left = stream->frame.bytes;
    return NULL;
}

/* All that is staged but for the first bytes of a head, which stay at its beginning. */
static const char *digest(struct tcp_stream *stream, const struct tcp_stream_sink *sink)
{
    const unsigned char *next = stream->staging;
    size_t left = stream->staged_bytes;
    stream->staged_bytes = 0;
    while (left > 0) {
        if (stream->in_payload) {
            const size_t bytes = left < stream->target_left ? left : stream->target_left;
            memcpy(stream->target, next, bytes);
            next += bytes;
            left -= bytes;
            feed(stream, sink, bytes);
            continue;
        }
        if (left < TCP_FRAME_HEAD_BYTES) {
            memmove(stream->staging, next, left);
            stream->staged_bytes = left;
            return NULL;
        }
        const char *const wrong = begin_frame(stream, sink, next);
        if (wrong != NULL) return wrong;
        next += TCP_FRAME_HEAD_BYTES;
        left -= TCP_FRAME_HEAD_BYTES;
    }
    return NULL;
}

/* The rest of a payload, and what follows it. */
static ssize_t receive(struct tcp_stream *stream, size_t *asked)
{
    struct iovec parts[2];
    int count = 0;
    *asked = 0;
    if (stream->in_payload) parts[count++] = (struct iovec){stream->target, stream->target_left};
    parts[count++] = (struct iovec){stream->staging + stream->staged_bytes,
                                    TCP_STAGING_BYTES - stream->staged_bytes};
    for (int i = 0; i < count; i++) *asked += parts[i].iov_len;
    ssize_t got;
    do {
        got = readv(stream->fd, parts, count);
    } while (got < 0 && errno == EINTR);
    return got;
}

enum tcp_stream_result tcp_stream_read(struct tcp_stream *stream,
                                       const struct tcp_stream_sink *sink, const char **wrong)
{
    enum tcp_stream_result result = TCP_STREAM_BLOCKED;
    for (size_t total = 0; total < READ_BYTES_A_PASS;) {
        size_t asked;
        const ssize_t got = receive(stream, &asked);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return result;
        if (got <= 0) return TCP_STREAM_LOST;
        result = TCP_STREAM_MOVED;
        total += (size_t)got;
        size_t direct = 0;
        if (stream->in_payload) {
            direct = (size_t)got < stream->target_left ? (size_t)got : stream->target_left;
            feed(stream, sink, direct);
        }
        stream->staged_bytes += (size_t)got - direct;
        *wrong = digest(stream, sink);
        if (*wrong != NULL) return TCP_STREAM_NONSENSE;
        if ((size_t)got < asked) return result; /* there is no more, or it will be heard of */
    }
    return result;
}
