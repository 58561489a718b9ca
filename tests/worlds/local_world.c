#include "tests/worlds/local_world.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"

static const uint64_t OPENING_NS = 30000000000;

struct joiner {
    struct host_options options;
    const struct host_peer *peers;
    struct transport *transport;
    enum tutti_status status;
};

static void *join(void *argument)
{
    struct joiner *joiner = argument;
    const struct host_patience patience = {.deadline_ns = clock_now_ns() + OPENING_NS};
    joiner->status = local_open(&joiner->options, &joiner->transport);
    if (joiner->status == TUTTI_OK)
        joiner->status = local_meet(joiner->transport, joiner->peers, &patience);
    if (joiner->status == TUTTI_OK) joiner->status = local_begin(joiner->transport, &patience);
    return NULL;
}

int local_world_open(int size, struct host_peer peer, const int *names, bool checks,
                     size_t board_bytes, struct transport **transports)
{
    struct host_peer peers[LOCAL_WORLD_RANKS_MAX];
    struct joiner joiners[LOCAL_WORLD_RANKS_MAX];
    pthread_t threads[LOCAL_WORLD_RANKS_MAX];
    int fd;
    assert_in_range(size, 1, LOCAL_WORLD_RANKS_MAX);
    assert_int_equal(local_segment_create(size, board_bytes, &fd), TUTTI_OK);
    for (int r = 0; r < size; r++) peers[r] = peer;
    for (int r = 0; r < size; r++) {
        joiners[r].options = (struct host_options){.rank = r,
                                                   .size = size,
                                                   .names = names,
                                                   .checks = checks,
                                                   .segment_fd = dup(fd),
                                                   .board_bytes = board_bytes};
        joiners[r].peers = peers;
        assert_int_equal(pthread_create(&threads[r], NULL, join, &joiners[r]), 0);
    }
    for (int r = 0; r < size; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < size; r++) {
        assert_int_equal(joiners[r].status, TUTTI_OK);
        transports[r] = joiners[r].transport;
    }
    return fd;
}

struct local_net local_net_open(int size, struct host_peer peer, const int *names, bool checks)
{
    struct local_net net = {.size = size};
    const int fd = local_world_open(size, peer, names, checks, LOCAL_NET_BOARD_BYTES, net.ranks);
    for (int r = 0; r < size; r++) net.ranks[r]->signatures[LOCAL_NET_SLOT] = LOCAL_NET_SIGNATURE;
    assert_int_equal(segment_attach(fd, size, LOCAL_NET_BOARD_BYTES, &net.segment), TUTTI_OK);
    return net;
}

void local_net_close(struct local_net *net)
{
    segment_detach(net->segment);
    for (int r = 0; r < net->size; r++) local_close(net->ranks[r]);
}

struct link_tx *local_net_tx(struct local_net *net, int rank, int peer)
{
    struct transport *const transport = net->ranks[rank];
    struct link_tx *link;
    assert_int_equal(peer == LINK_TO_GROUP
                         ? transport->sharing->open_multicast_tx(
                               transport, LOCAL_NET_SLOT, LOCAL_NET_CHANNEL, 0, 1 << 20, &link)
                         : transport->ops->open_tx(transport, LOCAL_NET_SLOT, LOCAL_NET_CHANNEL,
                                                   peer, 1 << 20, &link),
                     TUTTI_OK);
    return link;
}

struct link_rx *local_net_rx(struct local_net *net, int rank, int peer, bool multicast)
{
    struct transport *const transport = net->ranks[rank];
    struct link_rx *link;
    assert_int_equal(multicast ? transport->sharing->open_multicast_rx(
                                     transport, LOCAL_NET_SLOT, LOCAL_NET_CHANNEL, 0, peer, &link)
                               : transport->ops->open_rx(transport, LOCAL_NET_SLOT,
                                                         LOCAL_NET_CHANNEL, peer, &link),
                     TUTTI_OK);
    return link;
}
