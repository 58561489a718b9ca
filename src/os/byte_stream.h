/* byte_stream.h - a byte stream on a connected socket, plain or inside TLS, for callers that need
 * not know which.
 *
 *     struct byte_stream ──tls NULL──► readv, sendmsg on the socket
 *                    ──tls───────► os/tls.h, which reads and writes the socket
 *
 * 1. Nothing waits, nothing raises SIGPIPE, EINTR is dealt with here.
 * 2. Bytes that byte_stream_writev took may still lie in this process, encrypted. Then
 *    byte_stream_has_output is true, and a thread that sleeps until the socket takes more calls
 *    byte_stream_writev again. (Nothing of the caller's memory is read any more.)
 * 3. Bytes that byte_stream_readv has not given may lie in this process already, where epoll does
 *    not see them. Then byte_stream_has_input is true, until byte_stream_drain says EAGAIN.
 * 4. The end of a stream says nothing: a reader that needs all bytes counts them.
 *
 * The descriptor is for epoll and options of sockets. One thread at a time.
 */
#ifndef TUTTI_OS_BYTE_STREAM_H
#define TUTTI_OS_BYTE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "tutti/tutti.h"

struct tls;

struct byte_stream {
    int fd; /* below 0: none */
    struct tls *tls;
};

static inline struct byte_stream byte_stream_plain(int fd)
{
    return (struct byte_stream){.fd = fd};
}
static inline struct byte_stream byte_stream_none(void)
{
    return (struct byte_stream){.fd = -1};
}
/* Closes the socket, if there is one, and wipes keys; the stream has no socket afterwards. */
void byte_stream_close(struct byte_stream *socket);

/* As readv: 0 is the end; fewer bytes than asked for are all bytes that there are now; -1 with
 * EAGAIN: there are none. EBADMSG: bytes changed on the way, and none of them was given. */
ssize_t byte_stream_readv(const struct byte_stream *socket, const struct iovec *parts, int count);
/* The same, of what needs no look at the socket. */
ssize_t byte_stream_drain(const struct byte_stream *socket, const struct iovec *parts, int count);
bool byte_stream_has_input(const struct byte_stream *socket);
/* As sendmsg; no parts: sends bytes that were taken before, and returns 0 when all are out. */
ssize_t byte_stream_writev(const struct byte_stream *socket, const struct iovec *parts, int count);
bool byte_stream_has_output(const struct byte_stream *socket);
/* Memory beside the struct and the kernel's. */
size_t byte_stream_bytes(const struct byte_stream *socket);

/* As tcp_read and tcp_write (os/tcp_socket.h); written bytes count as sent when byte_stream_flush
 * is OK and not IN_PROGRESS. */
enum tutti_status byte_stream_read(const struct byte_stream *socket, void *data, size_t bytes,
                                   size_t *done);
enum tutti_status byte_stream_write(const struct byte_stream *socket, const void *data,
                                    size_t bytes, size_t *done);
enum tutti_status byte_stream_flush(const struct byte_stream *socket);

#endif
