/* channel.h - a byte stream on a connected socket, plain or inside TLS, for those who need not know which.
 *
 *     struct channel ──tls NULL──► readv, sendmsg on the socket
 *                    ──tls───────► os/tls.h, which reads and writes the socket
 *
 * 1. Nothing waits, nothing raises SIGPIPE, EINTR is dealt with here.
 * 2. What channel_writev took may lie in this process still, encrypted: then channel_has_output, and who sleeps until the socket
 *    takes more calls channel_writev again. (Nothing of the caller's memory is read any more.)
 * 3. What channel_readv has not given may lie in this process already, where epoll does not see it: then channel_has_input, until
 *    channel_drain says EAGAIN.
 * 4. The end of a stream says nothing: who needs all bytes counts them.
 *
 * The descriptor is for epoll and options of sockets. One thread at a time.
 */
#ifndef TUTTI_OS_CHANNEL_H
#define TUTTI_OS_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "tutti/tutti.h"

struct tls;

struct channel {
    int fd; /* below 0: none */
    struct tls *tls;
};

static inline struct channel channel_plain(int fd)
{
    return (struct channel){.fd = fd};
}
static inline struct channel channel_none(void)
{
    return (struct channel){.fd = -1};
}
/* Closes the socket and wipes keys; none is fine, and what it becomes. */
void channel_close(struct channel *channel);

/* As readv: 0 is the end, fewer bytes than asked for are all that there are now, -1 with EAGAIN: none. EBADMSG: what came is not
 * what was sent, and nothing of it was given. */
ssize_t channel_readv(const struct channel *channel, const struct iovec *parts, int count);
/* The same, of what needs no look at the socket. */
ssize_t channel_drain(const struct channel *channel, const struct iovec *parts, int count);
bool channel_has_input(const struct channel *channel);
/* As sendmsg; no parts: sends what was taken before, and is 0 when that is out. */
ssize_t channel_writev(const struct channel *channel, const struct iovec *parts, int count);
bool channel_has_output(const struct channel *channel);
/* Memory beside the struct and the kernel's. */
size_t channel_bytes(const struct channel *channel);

/* As tcp_read and tcp_write (os/tcp_socket.h); what was written counts as sent when channel_flush is OK and not IN_PROGRESS. */
enum tutti_status channel_read(const struct channel *channel, void *data, size_t bytes,
                               size_t *done);
enum tutti_status channel_write(const struct channel *channel, const void *data, size_t bytes,
                                size_t *done);
enum tutti_status channel_flush(const struct channel *channel);

#endif
