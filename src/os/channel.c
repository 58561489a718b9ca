#include "os/channel.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "os/tls.h"

void channel_close(struct channel *channel)
{
    tls_free(channel->tls);
    if (channel->fd >= 0) close(channel->fd);
    *channel = channel_none();
}

ssize_t channel_readv(const struct channel *channel, const struct iovec *parts, int count)
{
    if (channel->tls != NULL) return tls_readv(channel->tls, parts, count, true);
    ssize_t got;
    do got = readv(channel->fd, parts, count);
    while (got < 0 && errno == EINTR);
    return got;
}

bool channel_has_input(const struct channel *channel)
{
    return channel->tls != NULL && tls_has_input(channel->tls);
}

ssize_t channel_drain(const struct channel *channel, const struct iovec *parts, int count)
{
    if (channel->tls != NULL) return tls_readv(channel->tls, parts, count, false);
    errno = EAGAIN;
    return -1;
}

ssize_t channel_writev(const struct channel *channel, const struct iovec *parts, int count)
{
    if (channel->tls != NULL) return tls_writev(channel->tls, parts, count);
    if (count == 0) return 0;
    const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                                   .msg_iovlen = (size_t)count};
    ssize_t sent;
    do sent = sendmsg(channel->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent;
}

bool channel_has_output(const struct channel *channel)
{
    return channel->tls != NULL && tls_has_output(channel->tls);
}

size_t channel_bytes(const struct channel *channel)
{
    return channel->tls != NULL ? tls_bytes() : 0;
}

/* ------------------------------------------------------------------------------------------ by status */

/* What readv or writev came to. */
static enum tutti_status count_bytes(ssize_t moved, const char *what, size_t *done)
{
    *done = moved > 0 ? (size_t)moved : 0;
    if (moved >= 0 || errno == EAGAIN || errno == EWOULDBLOCK) return TUTTI_OK;
    if (errno == ECONNRESET || errno == EPIPE || errno == ETIMEDOUT || errno == EBADMSG)
        return error_set(TUTTI_PROC_FAILED, "%s: the connection is lost%s", what,
                         errno == EBADMSG ? ": what came was changed" : "");
    return error_system("%s", what);
}

enum tutti_status channel_read(const struct channel *channel, void *data, size_t bytes, size_t *done)
{
    *done = 0;
    if (bytes == 0) return TUTTI_OK;
    const ssize_t got = channel_readv(channel, &(struct iovec){data, bytes}, 1);
    if (got == 0) return error_set(TUTTI_PROC_FAILED, "reading: the other side closed");
    return count_bytes(got, "reading", done);
}

enum tutti_status channel_write(const struct channel *channel, const void *data, size_t bytes,
                                size_t *done)
{
    const struct iovec part = {(void *)(uintptr_t)data, bytes};
    return count_bytes(channel_writev(channel, &part, 1), "writing", done);
}

enum tutti_status channel_flush(const struct channel *channel)
{
    size_t none;
    TRY(count_bytes(channel_writev(channel, NULL, 0), "writing", &none));
    return channel_has_output(channel) ? TUTTI_IN_PROGRESS : TUTTI_OK;
}
