#include "os/byte_stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "os/tls.h"

void byte_stream_close(struct byte_stream *socket)
{
    tls_free(socket->tls);
    if (socket->fd >= 0) close(socket->fd);
    *socket = byte_stream_none();
}

ssize_t byte_stream_readv(const struct byte_stream *socket, const struct iovec *parts, int count)
{
    if (socket->tls != NULL) return tls_readv(socket->tls, parts, count, true);
    ssize_t got;
    do
        got = count == 1 ? recv(socket->fd, parts->iov_base, parts->iov_len, 0)
                         : readv(socket->fd, parts, count);
    while (got < 0 && errno == EINTR);
    return got;
}

bool byte_stream_has_input(const struct byte_stream *socket)
{
    return socket->tls != NULL && tls_has_input(socket->tls);
}

ssize_t byte_stream_drain(const struct byte_stream *socket, const struct iovec *parts, int count)
{
    if (socket->tls != NULL) return tls_readv(socket->tls, parts, count, false);
    errno = EAGAIN;
    return -1;
}

ssize_t byte_stream_writev(const struct byte_stream *socket, const struct iovec *parts, int count)
{
    if (socket->tls != NULL) return tls_writev(socket->tls, parts, count);
    if (count == 0) return 0;
    const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                                   .msg_iovlen = (size_t)count};
    ssize_t sent;
    do sent = sendmsg(socket->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent;
}

bool byte_stream_has_output(const struct byte_stream *socket)
{
    return socket->tls != NULL && tls_has_output(socket->tls);
}

size_t byte_stream_bytes(const struct byte_stream *socket)
{
    return socket->tls != NULL ? tls_bytes() : 0;
}

/* ------------------------------------------------------------------------------------ by status */

/* Makes a status of the result of readv or writev. */
static enum tutti_status count_bytes(ssize_t moved, const char *what, size_t *done)
{
    *done = moved > 0 ? (size_t)moved : 0;
    if (moved >= 0 || errno == EAGAIN || errno == EWOULDBLOCK) return TUTTI_OK;
    if (errno == ECONNRESET || errno == EPIPE || errno == ETIMEDOUT || errno == EBADMSG)
        return error_set(TUTTI_PROC_FAILED, "%s: the connection is lost%s", what,
                         errno == EBADMSG ? ": what came was changed" : "");
    return error_system("%s", what);
}

enum tutti_status byte_stream_read(const struct byte_stream *socket, void *data, size_t bytes,
                                   size_t *done)
{
    *done = 0;
    if (bytes == 0) return TUTTI_OK;
    const ssize_t got = byte_stream_readv(socket, &(struct iovec){data, bytes}, 1);
    if (got == 0) return error_set(TUTTI_PROC_FAILED, "reading: the other side closed");
    return count_bytes(got, "reading", done);
}

enum tutti_status byte_stream_write(const struct byte_stream *socket, const void *data,
                                    size_t bytes, size_t *done)
{
    const struct iovec part = {(void *)(uintptr_t)data, bytes};
    return count_bytes(byte_stream_writev(socket, &part, 1), "writing", done);
}

enum tutti_status byte_stream_flush(const struct byte_stream *socket)
{
    size_t none;
    TRY(count_bytes(byte_stream_writev(socket, NULL, 0), "writing", &none));
    return byte_stream_has_output(socket) ? TUTTI_IN_PROGRESS : TUTTI_OK;
}
