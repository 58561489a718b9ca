#include "transport/local/local.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "os/last_word.h"
#include "transport/local/arrival.h"
#include "transport/local/bells.h"
#include "transport/local/checked.h"
#include "transport/local/checked_link.h"
#include "transport/local/links.h"
#include "transport/local/paths.h"
#include "transport/local/peer_memory.h"
#include "transport/local/shared_slots.h"
#include "transport/local/sharing.h"
#include "transport/local/state.h"

void local_limits(int size, bool checks, size_t *piece_bytes_max, unsigned *piece_count_max)
{
    const size_t slot_bytes = segment_slot_bytes(size);
    *piece_bytes_max = checks ? checked_bytes_max(slot_bytes) : slot_bytes;
    *piece_count_max = DATA_SLOTS;
}

static void limits(struct transport *transport, size_t *piece_bytes_max, unsigned *piece_count_max)
{
    local_limits(transport->size, ((struct local *)transport)->checks, piece_bytes_max,
                 piece_count_max);
}

static void add_footprint(const struct transport *transport, struct transport_footprint *sum)
{
    const struct local *local = (const struct local *)transport;
    const size_t size = (size_t)transport->size;
    sum->private_bytes += sizeof *local + size * sizeof *local->peers +
                          (local->order != NULL ? size * sizeof *local->order : 0) +
                          (local->names != NULL ? size * sizeof *local->names : 0) +
                          size * sizeof *local->everybody;
    sum->descriptor_count += bells_have_door(local);
    sum->shared_bytes += local->segment->regions_offset / size;
    for (int slot = 0; slot < TRANSPORT_SLOT_COUNT; slot++)
        if (local->shared[slot].slots != NULL)
            sum->shared_bytes += local->segment->shared_slots_bytes;
    sharing_add_footprint(local, sum);
    links_add_footprint(local, sum);
}

static const struct sharing_ops sharing = {.open_multicast_tx = links_open_multicast_tx,
                                           .open_multicast_rx = links_open_multicast_rx,
                                           .open_shared_slots = shared_slots_open,
                                           .reserve_shared = shared_slots_reserve,
                                           .send_shared = shared_slots_send};

static const struct transport_ops ops = {.limits = limits,
                                         .open_tx = links_open_tx,
                                         .open_rx = links_open_rx,
                                         .sleep_begin = bells_sleep_begin,
                                         .sleep_cancel = bells_sleep_cancel,
                                         .sleep = bells_sleep,
                                         .descriptor = bells_descriptor,
                                         .progress = transport_no_progress,
                                         .flush = transport_no_flush,
                                         .is_awaited = transport_not_awaited,
                                         .is_settled = transport_owes_nothing,
                                         .stop = transport_stops_nothing,
                                         .wake = bells_wake,
                                         .wake_all = bells_wake_all,
                                         .corrupt_rank = checked_corrupt_rank,
                                         .shortage = peer_memory_shortage,
                                         .add_footprint = add_footprint};

/* A shared slot has no second copy. */
static const struct sharing_ops checked_sharing = {.open_multicast_tx = links_open_multicast_tx,
                                                   .open_multicast_rx = links_open_multicast_rx,
                                                   .open_shared_slots = transport_no_shared_slots,
                                                   .reserve_shared = transport_no_reserve_shared,
                                                   .send_shared = transport_no_send_shared};

enum tutti_status local_segment_create(int size, size_t board_bytes, int *fd)
{
    return segment_create(size, board_bytes, fd);
}

static void name_group(struct local *local)
{
    const int size = local->base.size;
    for (int r = 0; r < size; r++) local->everybody[r] = r;
    if (size < 2) return;
    local->base.groups[0] = (struct transport_group){local->everybody, size};
    local->base.group_count = 1;
}

enum tutti_status local_open(const struct host_options *options, struct transport **transport)
{
    *transport = NULL;
    const size_t size = (size_t)options->size;
    struct local *local = calloc(1, sizeof *local);
    struct segment *segment = NULL;
    enum tutti_status status =
        segment_attach(options->segment_fd, options->size, options->board_bytes, &segment);
    if (status == TUTTI_OK && local == NULL) status = error_set(TUTTI_NO_MEMORY, "out of memory");
    if (status != TUTTI_OK) {
        segment_detach(segment);
        free(local);
        return status;
    }
    local->base = (struct transport){.ops = &ops,
                                     .sharing = options->checks ? &checked_sharing : &sharing,
                                     .rank = options->rank,
                                     .size = options->size,
                                     .paths.tables = {local_paths(options->checks)}};
    local->checks = options->checks;
    local->corrupt_peer = -1;
    sharing_init(local);
    transport_own_slots(&local->base);
    local->door_fd = -1;
    local->segment = segment;
    local->header = segment_header(segment);
    local->bell = segment_bell(segment, options->rank);
    local->peers = calloc(size, sizeof *local->peers);
    local->order = calloc(size, sizeof *local->order);
    if (options->names != NULL) local->names = calloc(size, sizeof *local->names);
    local->everybody = calloc(size, sizeof *local->everybody);
    if (local->peers == NULL || local->order == NULL || local->everybody == NULL ||
        (options->names != NULL && local->names == NULL)) {
        local_close(&local->base);
        return error_set(TUTTI_NO_MEMORY, "out of memory");
    }
    if (options->names != NULL) memcpy(local->names, options->names, size * sizeof *local->names);
    name_group(local);
    *transport = &local->base;
    return TUTTI_OK;
}

enum tutti_status local_meet(struct transport *transport, const struct host_peer *peers,
                             const struct host_patience *patience)
{
    struct local *local = (struct local *)transport;
    const size_t size = (size_t)transport->size;
    uint64_t *const places = calloc(size, sizeof *places);
    if (places == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    memcpy(local->peers, peers, size * sizeof *local->peers);
    const enum tutti_status status = arrival_meet(local, patience);
    if (status == TUTTI_OK) arrival_find_order(local, places);
    free(places);
    return status;
}

enum tutti_status local_begin(struct transport *transport, const struct host_patience *patience)
{
    return arrival_end((struct local *)transport, patience);
}

void local_close(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    if (local == NULL) return;
    links_free(local);
    sharing_release(local);
    free(local->peers);
    free(local->order);
    free(local->names);
    free(local->everybody);
    if (bells_have_door(local)) close(local->door_fd);
    last_word_take_back(local->last_word);
    segment_detach(local->segment);
    free(local);
}

void *local_board(struct transport *transport)
{
    return segment_board(((struct local *)transport)->segment);
}

int local_core_count(struct transport *transport)
{
    const struct segment_header *const header = ((struct local *)transport)->header;
    const int limit = (int)atomic_load_explicit(&header->cpu_limit, memory_order_relaxed);
    int count = 0;
    for (int i = 0; i < 16; i++)
        count += __builtin_popcountll(atomic_load_explicit(&header->cpus[i], memory_order_relaxed));
    if (atomic_load_explicit(&header->unlimited_count, memory_order_relaxed) == 0 && limit > 0 &&
        limit < count)
        return limit;
    return count > 0 ? count : 1;
}

bool local_publishers_fence(const struct transport *transport)
{
    return ((const struct local *)transport)->publishers_fence;
}

bool local_maps_heaps(const struct transport *transport)
{
    const struct local *local = (const struct local *)transport;
    return local->maps_heaps && !local->checks;
}

const int *local_order(const struct transport *transport)
{
    return ((const struct local *)transport)->order;
}

bool local_checks(const struct transport *transport)
{
    return ((const struct local *)transport)->checks;
}
