#include "tests/worlds/tcp_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/tcp/tcp.h"

static void attach(struct transport *rank, int peer, unsigned stream, int end)
{
    assert_int_equal(tcp_attach(rank, peer, stream, byte_stream_plain(end)), TUTTI_OK);
}

void tcp_peer_join(struct transport *a, struct transport *b, unsigned stream)
{
    attach(a, b->rank, stream, tcp_peer_open(b, a->rank, stream));
}

int tcp_peer_open(struct transport *rank, int peer, unsigned stream)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    attach(rank, peer, stream, ends[0]);
    return ends[1];
}

void tcp_peer_open_closed(struct transport *rank, int peer, unsigned stream)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    close(ends[1]);
    attach(rank, peer, stream, ends[0]);
}

bool tcp_peer_put_head(int end, struct tcp_frame frame)
{
    unsigned char head[TCP_FRAME_HEAD_BYTES];
    tcp_frame_write(&frame, head);
    return send(end, head, sizeof head, MSG_NOSIGNAL) == sizeof head;
}

struct tcp_frame tcp_peer_ready(size_t piece_bytes, unsigned pieces)
{
    return (struct tcp_frame){.kind = TCP_FRAME_READY,
                              .sequence = 1,
                              .offset = piece_bytes,
                              .signature = TCP_FRAME_VERSION,
                              .place = 2 * pieces};
}

void tcp_peer_move(struct transport *rank, int times)
{
    for (int i = 0; i < times; i++) {
        rank->ops->progress(rank);
        nanosleep(&(struct timespec){0, 1000}, NULL);
    }
}
