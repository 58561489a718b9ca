#include "transport/tcp/stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/crc32c.h"
#include "base/status.h"

enum {
    READ_BYTES_A_PASS = 1 << 20,
    /* The bytes that the kernel takes beyond those that it can send at once: an urgent frame waits
     * behind them, ... */
    KERNEL_BYTES_MAX = 128 << 10,
    /* ... but none if urgent frames have a connection of their own. If the bytes on their way are
     * bounded, this alone keeps the path full while this process does not run: 4 ms at 1 Gbit/s. */
    LARGE_KERNEL_BYTES_MAX = 512 << 10,
    /* A host that vanished while nothing was under way to it is noticed after half a minute, ... */
    KEEPALIVE_IDLE_S = 10,
    KEEPALIVE_APART_S = 5,
    KEEPALIVE_COUNT = 4,
    /* ... and after this if something urgent was. Not on connections that carry much: the kernel
     * would also give up a connection whose peer is there but does not read, because it
     * computes. */
    USER_TIMEOUT_MS = 10000,
    URGENT_PRIORITY =
        6 /* TC_PRIO_INTERACTIVE: before others in the host's own queue, where that has bands */
};

void tcp_stream_init(struct tcp_stream *stream, unsigned number)
{
    *stream = (struct tcp_stream){.socket = byte_stream_none(), .number = number};
}

/* These may fail: without them the connection is slower, or notices losses later, or is not TCP at
 * all. */
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
    /* After a short cut, a peer should not be taken for silent because the kernel tries ever more
     * rarely. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &one, sizeof one);
}

enum tutti_status tcp_stream_open(struct tcp_stream *stream, struct byte_stream socket,
                                  bool is_urgent, bool is_bounded)
{
    assert(stream->socket.fd < 0);
    const int fd = socket.fd, flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        const enum tutti_status status = error_system("a connection cannot be used");
        byte_stream_close(&socket);
        return status;
    }
    set_options(fd, is_urgent, is_bounded);
    tcp_stream_init(stream, stream->number);
    stream->socket = socket;
    return TUTTI_OK;
}

void tcp_stream_close(struct tcp_stream *stream)
{
    byte_stream_close(&stream->socket);
    free(stream->copy);
    tcp_stream_init(stream, stream->number);
}

/* ------------------------------------------------------------------------------------------ out */

unsigned tcp_stream_room(const struct tcp_stream *stream)
{
    return TCP_BATCH_FRAMES - stream->frame_count;
}

/* Inserts at that place among the parts. */
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

/* The bytes of a frame before its payload, if it has a payload. */
static size_t head_bytes(bool has_check)
{
    return TCP_FRAME_HEAD_BYTES + (has_check ? TCP_FRAME_CHECK_BYTES : 0);
}

/* Before the first frame that gives way and has not begun: it has a payload. */
static unsigned place_of_urgent(const struct tcp_stream *stream)
{
    const size_t whole = head_bytes(stream->sends_checks);
    unsigned p = stream->part_first;
    while (p < stream->part_count &&
           !(stream->owners[p].gives_way && stream->parts[p].iov_len == whole))
        p++;
    return p;
}

void tcp_stream_add(struct tcp_stream *stream, const struct tcp_frame *frame, const void *payload,
                    const void *owner)
{
    const bool gives_way = frame->kind == TCP_FRAME_DATA && frame->place != TCP_FRAME_NO_PLACE;
    const unsigned at = gives_way ? stream->part_count : place_of_urgent(stream);
    unsigned char *const head = stream->heads[stream->frame_count++];
    const bool has_check = stream->sends_checks && frame->bytes > 0;
    tcp_frame_write(frame, head);
    if (has_check)
        tcp_frame_write_check(crc32c(0, payload, frame->bytes), head + TCP_FRAME_HEAD_BYTES);
    add_part(stream, at, head, head_bytes(has_check),
             (struct tcp_batch_owner){.gives_way = gives_way});
    if (frame->kind == TCP_FRAME_READY)
        stream->sends_checks = (frame->flags & TCP_FRAME_CHECKED) != 0;
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

bool tcp_stream_has_output(const struct tcp_stream *stream)
{
    return stream->part_count > 0 || byte_stream_has_output(&stream->socket);
}

enum tcp_stream_result tcp_stream_flush(struct tcp_stream *stream)
{
    enum tcp_stream_result result = TCP_STREAM_BLOCKED;
    while (tcp_stream_has_output(stream)) {
        const ssize_t written =
            byte_stream_writev(&stream->socket, stream->parts + stream->part_first,
                               (int)(stream->part_count - stream->part_first));
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

/* ------------------------------------------------------------------------------------------- in */

/* Bytes of a payload lie at their target. False: all of it does, and is not as it was sent. */
static bool feed(struct tcp_stream *stream, const struct tcp_stream_sink *sink, size_t bytes)
{
    if (stream->gets_checks)
        stream->check_so_far = crc32c(stream->check_so_far, stream->target, bytes);
    stream->target += bytes;
    stream->target_left -= bytes;
    if (stream->target_left > 0) return true;
    const bool is_intact = !stream->gets_checks || stream->check_so_far == stream->check;
    if (!sink->end(sink->context, &stream->frame, is_intact)) return false;
    stream->in_payload = false;
    return true;
}

/* Takes a head and the bytes between it and the payload. MOVED: *taken is their number; 0: not all
 * of them are there. */
static enum tcp_stream_result begin_frame(struct tcp_stream *stream,
                                          const struct tcp_stream_sink *sink,
                                          const unsigned char *head, size_t bytes, size_t *taken,
                                          const char **wrong)
{
    struct tcp_frame *const frame = &stream->frame;
    *taken = 0;
    if (bytes < TCP_FRAME_HEAD_BYTES) return TCP_STREAM_MOVED;
    *wrong = tcp_frame_read(head, frame);
    if (*wrong != NULL)
        return *wrong == tcp_frame_changed ? TCP_STREAM_CHANGED : TCP_STREAM_NONSENSE;
    const bool has_check = stream->gets_checks && frame->bytes > 0;
    if (bytes < head_bytes(has_check)) return TCP_STREAM_MOVED;
    *taken = head_bytes(has_check);
    char *target = NULL;
    *wrong = sink->begin(sink->context, frame, &target);
    if (*wrong != NULL) return TCP_STREAM_NONSENSE;
    if (frame->kind == TCP_FRAME_READY)
        stream->gets_checks = (frame->flags & TCP_FRAME_CHECKED) != 0;
    if (frame->bytes == 0) {
        (void)sink->end(sink->context, frame, true);
        return TCP_STREAM_MOVED;
    }
    stream->in_payload = true;
    stream->target = target;
    stream->target_left = frame->bytes;
    stream->check = has_check ? tcp_frame_read_check(head + TCP_FRAME_HEAD_BYTES) : 0;
    stream->check_so_far = 0;
    return TCP_STREAM_MOVED;
}

/* Takes all staged bytes except the first bytes of an incomplete head, which stay at the
 * beginning. */
static enum tcp_stream_result digest(struct tcp_stream *stream, const struct tcp_stream_sink *sink,
                                     const char **wrong)
{
    const unsigned char *next = stream->staging;
    size_t left = stream->staged_bytes, taken;
    stream->staged_bytes = 0;
    for (; left > 0; next += taken, left -= taken) {
        if (stream->in_payload) {
            taken = left < stream->target_left ? left : stream->target_left;
            memcpy(stream->target, next, taken);
            if (!feed(stream, sink, taken)) return TCP_STREAM_CHANGED;
            continue;
        }
        const enum tcp_stream_result result = begin_frame(stream, sink, next, left, &taken, wrong);
        if (result != TCP_STREAM_MOVED) return result;
        if (taken > 0) continue;
        memmove(stream->staging, next, left);
        stream->staged_bytes = left;
        break;
    }
    return TCP_STREAM_MOVED;
}

/* Reads the rest of a payload, and what follows it. looks: at the socket, too. */
static ssize_t receive(struct tcp_stream *stream, bool looks, size_t *asked)
{
    struct iovec parts[2];
    int count = 0;
    *asked = 0;
    if (stream->in_payload) parts[count++] = (struct iovec){stream->target, stream->target_left};
    parts[count++] = (struct iovec){stream->staging + stream->staged_bytes,
                                    TCP_STAGING_BYTES - stream->staged_bytes};
    for (int i = 0; i < count; i++) *asked += parts[i].iov_len;
    return looks ? byte_stream_readv(&stream->socket, parts, count)
                 : byte_stream_drain(&stream->socket, parts, count);
}

enum tcp_stream_result tcp_stream_read(struct tcp_stream *stream,
                                       const struct tcp_stream_sink *sink, const char **wrong)
{
    enum tcp_stream_result result = TCP_STREAM_BLOCKED;
    for (size_t total = 0;;) {
        const bool looks = total < READ_BYTES_A_PASS;
        if (!looks && !byte_stream_has_input(&stream->socket)) return result;
        size_t asked;
        const ssize_t got = receive(stream, looks, &asked);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return result;
        if (got <= 0) return TCP_STREAM_LOST;
        result = TCP_STREAM_MOVED;
        total += (size_t)got;
        size_t direct = 0;
        if (stream->in_payload) {
            direct = (size_t)got < stream->target_left ? (size_t)got : stream->target_left;
            if (!feed(stream, sink, direct)) return TCP_STREAM_CHANGED;
        }
        stream->staged_bytes += (size_t)got - direct;
        result = digest(stream, sink, wrong);
        if (result != TCP_STREAM_MOVED) return result;
        if ((size_t)got < asked) return result; /* there is no more, or it will be heard of */
    }
}
