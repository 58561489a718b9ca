/* A rank of another host says anything about its network cards: addresses that make no sense are
 * not used, and nothing else is touched.
 *
 * Rank 0 of three, of which rank 1 is on its host; it has as many cards as can be. The input is a
 * sequence of control messages: for each its sender, whether it has the right size, and its bytes;
 * missing bytes at the end are zero. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/tcp/endpoint_state.h"

enum { SIZE = 3 };

static void name_rank(void *context, int rank, char *text, size_t size)
{
    (void)context;
    snprintf(text, size, "rank %d", rank);
}

static void locate(void *context, int rank, struct remote_location *location)
{
    (void)context;
    *location = (struct remote_location){.is_remote = rank > 1};
}

static void open_world(struct endpoint *endpoint, struct endpoint_peer *peers)
{
    const struct net_address own[PORT_RAILS_MAX] = {{0}};
    *endpoint = (struct endpoint){.base = {.size = SIZE}, .names = name_rank, .locates = locate};
    if (!rank_map_init(&endpoint->peers, SIZE)) abort();
    for (int r = 0; r < SIZE; r++) {
        peers[r] = (struct endpoint_peer){.is_at = {.is_remote = r > 1}};
        *rank_map_place(&endpoint->peers, r) = &peers[r];
    }
    if (rails_create(endpoint, own, PORT_RAILS_MAX, &endpoint->rails) != TUTTI_OK) abort();
    if (endpoint->rails == NULL) abort();
    for (int r = 0; r < SIZE; r++)
        if (rails_know(endpoint->rails, r) != TUTTI_OK) abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return setenv("TUTTI_LOG", "off", 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct endpoint endpoint;
    struct endpoint_peer peers[SIZE];
    open_world(&endpoint, peers);
    while (size >= 2) {
        const int peer = 1 + data[0] % (SIZE - 1);
        const size_t bytes = data[1] == 0 ? data[0] : sizeof(struct rails_message);
        const size_t there = bytes < size - 2 ? bytes : size - 2;
        uint8_t *message = calloc(1, bytes + 1);
        if (message == NULL) abort();
        memcpy(message, data + 2, there);
        rails_hear(endpoint.rails, peer, message, bytes);
        rails_want(endpoint.rails, peer, TCP_STREAMS_DEFAULT + data[1] % RAILS_FURTHER_MAX);
        free(message);
        data += 2 + there;
        size -= 2 + there;
    }
    rails_free(endpoint.rails);
    rank_map_release(&endpoint.peers);
    return 0;
}
