#include "transport/ofi/device_peers.h"

#include <assert.h>
#include <errno.h>
#include <rdma/fi_cm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "os/clock.h"
#include "transport/ofi/shortage.h"

enum tutti_status ofi_peers_create(struct ofi_device *device)
{
    device->peers = calloc((size_t)device->options.size, sizeof(struct ofi_peer *));
    return device->peers != NULL ? TUTTI_OK : ofi_device_no_memory();
}

void ofi_peers_free(struct ofi_device *device)
{
    for (int r = 0; device->peers != NULL && r < device->options.size; r++) free(device->peers[r]);
    free(device->peers);
}

size_t ofi_peers_bytes(const struct ofi_device *device)
{
    size_t bytes = (size_t)device->options.size * sizeof(struct ofi_peer *);
    for (int r = 0; r < device->options.size; r++)
        if (device->peers[r] != NULL) bytes += sizeof(struct ofi_peer);
    return bytes;
}

static enum tutti_status draw(uint64_t *number)
{
    while (*number == 0)
        if (getrandom(number, sizeof *number, 0) != (ssize_t)sizeof *number)
            return error_system("a network card: getrandom");
    return TUTTI_OK;
}

struct ofi_peer *ofi_peers_find(struct ofi_device *device, int rank)
{
    if (device->peers[rank] != NULL) return device->peers[rank];
    struct ofi_peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL || draw(&peer->own_nonce) != TUTTI_OK) {
        free(peer);
        return NULL;
    }
    peer->state = CARD_PEER_WANTED;
    return device->peers[rank] = peer;
}

/* -------------------------------------------------------------------------------------- trouble */

void ofi_peers_trouble(struct ofi_device *device, int rank, const char *what, int error,
                       const char *reason)
{
    struct ofi_peer *peer = device->peers[rank];
    if (ofi_peer_is_over(peer) || peer->trouble_ns != 0) return;
    peer->trouble_ns = clock_now_ns();
    peer->owes_greeting = device->any_owed = true;
    if (device->shortage == TUTTI_OK && ofi_is_shortage(ofi_status_of(error))) {
        device->shortage = ofi_status_of(error);
        device->short_for = rank;
    }
    const struct ofi_device_options *const options = &device->options;
    const char *const card = options->choice->cards[options->card].domain;
    snprintf(peer->trouble, sizeof peer->trouble, "%s%s%.15s %s: %s", options->choice->provider,
             options->is_of_several ? " " : "", options->is_of_several ? card : "", what, reason);
    log_write(LOG_WARN, "peer %d: over the network card: %s", rank, peer->trouble);
}

void ofi_device_fail(struct card_device *base, int rank, const char *what, uint64_t since_ns)
{
    struct ofi_device *device = ofi_device_of(base);
    struct ofi_peer *peer = device->peers[rank];
    if (peer == NULL || ofi_peer_is_over(peer) || peer->trouble_ns != 0) return;
    ofi_peers_trouble(device, rank, "failed", 0, what);
    peer->trouble_ns = since_ns;
}

uint64_t ofi_device_trouble(const struct card_device *base, int rank, char text[OFI_TROUBLE_MAX])
{
    const struct ofi_peer *peer = ofi_const_device_of(base)->peers[rank];
    text[0] = '\0';
    if (peer == NULL || peer->trouble_ns == 0) return 0;
    memcpy(text, peer->trouble, OFI_TROUBLE_MAX);
    return peer->trouble_ns;
}

enum tutti_status ofi_device_check(const struct card_device *base)
{
    const struct ofi_device *device = ofi_const_device_of(base);
    if (device->shortage == TUTTI_OK) return TUTTI_OK;
    return error_set(device->shortage, "rank %d has no %s left for its network card: %s",
                     device->options.rank,
                     device->shortage == TUTTI_NO_DESCRIPTORS ? "descriptor" : "memory",
                     device->peers[device->short_for]->trouble);
}

bool ofi_device_owes(const struct card_device *base, int rank, uint64_t *steps)
{
    const struct ofi_peer *peer = ofi_const_device_of(base)->peers[rank];
    *steps = peer == NULL ? 0 : peer->steps;
    return peer != NULL && !ofi_peer_is_over(peer) && (peer->under_way > 0 || peer->is_refused);
}

/* ------------------------------------------------------------------------------------ greetings */

static void greet(struct ofi_device *device, int rank)
{
    struct ofi_peer *peer = device->peers[rank];
    struct ofi_greeting greeting = {.nonce = peer->own_nonce,
                                    .address_format = device->provider.info->addr_format};
    size_t bytes = sizeof greeting.address;
    const bool has_name = fi_getname(&device->provider.endpoint->fid, greeting.address, &bytes) == 0;
    greeting.address_bytes = (uint32_t)bytes;
    peer->owes_greeting =
        !has_name || !device->options.greets(device->options.context, rank, &greeting);
    device->any_owed |= peer->owes_greeting;
}

void ofi_peers_greet_again(struct ofi_device *device)
{
    device->any_owed = false;
    for (int r = 0; r < device->options.size; r++)
        if (device->peers[r] != NULL && device->peers[r]->owes_greeting) greet(device, r);
}

static bool is_caller(const struct ofi_peer *peer)
{
    return peer->is_greeted && !peer->is_prepared && !ofi_peer_is_over(peer);
}

static void become_up(struct ofi_peer *peer)
{
    if (peer->state == CARD_PEER_WANTED && peer->is_connected && peer->is_greeted)
        peer->state = CARD_PEER_UP;
}

void ofi_peers_connect(struct card_device *base, int rank)
{
    struct ofi_device *device = ofi_device_of(base);
    struct ofi_peer *peer = device->peers[rank];
    assert(peer != NULL && peer->is_prepared);
    if (ofi_peer_is_over(peer) || device->is_stopped) return;
    peer->is_connected = peer->owes_greeting = true;
    greet(device, rank);
    become_up(peer);
}

/* A provider that cannot accept a connection says nothing of it to either end. */
static void look_why_not_reached(struct ofi_device *device, int rank)
{
    if (ofi_descriptors_are_at_an_end())
        ofi_peers_trouble(device, rank, "does not accept connections", EMFILE, strerror(EMFILE));
}

/* If an address is text, libfabric reads it up to its terminating zero. */
static bool address_ends(const struct ofi_greeting *greeting)
{
    return greeting->address_format != FI_ADDR_STR ||
           memchr(greeting->address, '\0', greeting->address_bytes) != NULL;
}

bool ofi_device_greeted(struct card_device *base, int rank, const struct ofi_greeting *greeting)
{
    struct ofi_device *device = ofi_device_of(base);
    if (device->is_stopped) return true;
    struct ofi_peer *peer = ofi_peers_find(device, rank);
    if (peer != NULL && peer->is_greeted) look_why_not_reached(device, rank);
    if (peer == NULL || peer->is_greeted || ofi_peer_is_over(peer)) return peer != NULL;
    if (greeting->address_format != device->provider.info->addr_format ||
        greeting->address_bytes == 0 || greeting->address_bytes > OFI_ADDRESS_MAX ||
        !address_ends(greeting))
        return false;
    if (fi_av_insert(device->provider.addresses, greeting->address, 1, &peer->address, 0, NULL) != 1)
        return false;
    peer->nonce = greeting->nonce;
    peer->is_greeted = true;
    device->caller_count += is_caller(peer);
    become_up(peer);
    return true;
}

/* --------------------------------------------------------------------------------------- states */

enum card_peer_state ofi_peers_state(const struct card_device *base, int rank)
{
    const struct ofi_peer *peer = ofi_const_device_of(base)->peers[rank];
    return peer == NULL ? CARD_PEER_UNUSED : peer->state;
}

int ofi_peers_caller(const struct card_device *base)
{
    const struct ofi_device *device = ofi_const_device_of(base);
    if (device->is_stopped || device->caller_count == 0) return -1;
    for (int r = 0; r < device->options.size; r++)
        if (device->peers[r] != NULL && is_caller(device->peers[r])) return r;
    return -1;
}

void ofi_peers_prepared(struct ofi_device *device, struct ofi_peer *peer)
{
    device->caller_count -= is_caller(peer);
    device->prepared_count++;
    peer->is_prepared = true;
}

void ofi_peers_end(struct ofi_device *device, int rank, enum card_peer_state state)
{
    struct ofi_peer *peer = device->peers[rank];
    if (peer == NULL || ofi_peer_is_over(peer)) return;
    device->caller_count -= is_caller(peer);
    peer->state = state;
    peer->owes_greeting = false;
    for (unsigned w = 0; w < OFI_WRITES_MAX; w++) {
        struct ofi_write *write = &device->writes[w];
        if (write->is_used && write->peer == rank) write->has_failed = true;
    }
}

void ofi_peers_break(struct card_device *base, int rank)
{
    ofi_peers_end(ofi_device_of(base), rank, CARD_PEER_BROKEN);
}

void ofi_peers_forget(struct card_device *base, int rank)
{
    ofi_peers_end(ofi_device_of(base), rank, CARD_PEER_LOST);
}
