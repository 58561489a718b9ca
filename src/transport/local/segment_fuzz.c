/* A peer writes anything, at any time, into the part of a segment that it may write. This rank must
 * read and write nothing outside of the memory that it may touch, and must not hang.
 *
 * Rank 0 of two does what the input says. Rank 1 is a thread that has joined as a rank does and
 * then, until rank 0 is done, stores random values into its own headers, slots, tail and bell, into
 * the counts of shared slots and the number of sleepers, which all ranks write, and rings rank 0's
 * bell; now and then it forges a message that looks like the next one. Some of rank 0's memory is
 * of a kind that processes share; what a peer shares lies in `mapped`, whatever it is said to be.
 * Both seeds come from the input, but the machine decides the moment of each store: an input that
 * fails may have to run several times. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "memory/kind.h"
#include "os/clock.h"
#include "transport/local/local.h"
#include "transport/local/segment.h"

enum {
    SIZE = 2,
    SLOT = 2,
    CHANNEL = 1,
    SIGNATURE = 4242,
    BOARD_BYTES = 256,
    MEMORY_BYTES = 64 << 10,
    STEPS_MAX = 400
};
static const uint64_t OPENING_NS = 60000000000u, NAP_NS = 20000;

struct world {
    struct segment *segment; /* a way in beside both ranks' */
    struct transport *ranks[SIZE];
    struct host_peer peers[SIZE];
    int descriptor;
    bool checks;
    uint64_t seed;
    _Atomic bool is_over;
    struct link_tx *tx;
    struct link_rx *rx;
    unsigned char *memory; /* of rank 0: the memory that it posts and expects data in */
    size_t view_left;      /* not consumed */
    bool can_commit;
    size_t reserved_bytes;
};

/* Rank 0's memory of a kind that processes share, and the memory that rank 0 maps. */
static unsigned char *of_kind, *mapped;

static void must(bool holds);

static bool copy(const struct memory_kind *kind, void *destination, const void *source, size_t bytes)
{
    const size_t offset = (size_t)((const unsigned char *)source - mapped);
    (void)kind;
    must(offset <= MEMORY_BYTES && bytes <= MEMORY_BYTES - offset);
    memcpy(destination, source, bytes);
    return true;
}

static bool share(const struct memory_kind *kind, const void *address, size_t bytes,
                  struct memory_share *share)
{
    const size_t offset = (size_t)((const unsigned char *)address - of_kind);
    (void)kind;
    *share =
        (struct memory_share){.process = 1, .number = 1, .bytes = MEMORY_BYTES, .offset = offset};
    return bytes <= MEMORY_BYTES - offset;
}

static enum memory_mapping map(const struct memory_kind *kind, const struct memory_share *share,
                               void **address, size_t *bytes)
{
    (void)kind;
    *address = mapped;
    *bytes = MEMORY_BYTES;
    return share->number % 7 == 6   ? MEMORY_NOT_YET
           : share->number % 7 == 5 ? MEMORY_REFUSED
                                    : MEMORY_MAPPED;
}

static const struct memory_kind shared_kind = {
    .name = "shared", .copy = copy, .share = share, .map = map};

static const struct memory_kind *find_kind(const void *address)
{
    const uintptr_t offset = (uintptr_t)address - (uintptr_t)of_kind;
    return offset < MEMORY_BYTES ? &shared_kind : NULL;
}

static void must(bool holds)
{
    if (!holds) abort();
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33 ^ *state >> 17;
}

static enum tutti_status join(struct world *world, int rank)
{
    const struct host_options options = {.rank = rank,
                                         .size = SIZE,
                                         .checks = world->checks,
                                         .segment_fd = dup(world->descriptor),
                                         .board_bytes = BOARD_BYTES};
    const struct host_patience patience = {.deadline_ns = clock_now_ns() + OPENING_NS};
    TRY(local_open(&options, &world->ranks[rank]));
    world->ranks[rank]->signatures[SLOT] = SIGNATURE;
    TRY(local_meet(world->ranks[rank], world->peers, &patience));
    return local_begin(world->ranks[rank], &patience);
}

/* ------------------------------------------------------------------------------------- the peer */

/* All memory that rank 1 may write. */
struct reach {
    struct message_header *headers;
    size_t link_bytes;  /* headers and slots behind them, as far as they are reserved */
    size_t small_slots; /* where those begin, from the headers */
    struct tail *own_tail;
    struct tail *other_tail; /* rank 0's: how much it has consumed. Only read */
    struct shared_slot *shared[SIZE];
};

static uint64_t likely(uint64_t *seed)
{
    static const uint64_t values[] = {0, 1, 2, 3, 4, 16, 40, 64, 4096, UINT64_MAX, INT64_MAX};
    const uint64_t drawn = next(seed);
    if (drawn % 3 == 0) return values[drawn / 3 % (sizeof values / sizeof *values)];
    return drawn % 3 == 1 ? drawn % 100000 : drawn * next(seed);
}

static void forge(const struct reach *reach, uint64_t *seed)
{
    const uint64_t sequence = atomic_load(&reach->other_tail->consumed);
    struct message_header *header = &reach->headers[sequence % HEADER_COUNT];
    volatile uint64_t *const kind_and_bytes = &header->kind_and_bytes, *const where =
                                                                           &header->u.where;
    *(volatile uint64_t *)&header->signature = next(seed) % 8 == 0 ? likely(seed) : SIGNATURE;
    *kind_and_bytes =
        next(seed) % (MESSAGE_KIND_COUNT + 2) << 56 | (likely(seed) & ((UINT64_C(1) << 56) - 1));
    if (next(seed) % 4 == 0) /* shares something */
        *kind_and_bytes = (uint64_t)(next(seed) % 2 == 0 ? MESSAGE_SLOT : MESSAGE_SHARED) << 56 |
                          (uint64_t)MESSAGE_SHARES << 56 | likely(seed) % 1000;
    *where = next(seed) % 2 == 0 ? next(seed) % SIZE << 8 | next(seed) % 5 : likely(seed);
    *(volatile uint64_t *)&header->u.mapped.offset = likely(seed);
    struct memory_share *const share =
        (struct memory_share *)(void *)((char *)reach->headers + reach->small_slots +
                                        segment_small_slot(sequence));
    *(volatile uint64_t *)&share->number = likely(seed);
    *(volatile uint64_t *)&share->bytes = likely(seed);
    atomic_store(&header->sequence, sequence + 1);
    for (int i = 0; i < 3; i++) { /* while it is being looked at */
        *kind_and_bytes = next(seed) % MESSAGE_KIND_COUNT << 56 | likely(seed) % 100000;
        *where = likely(seed);
    }
}

static void store_one(struct world *world, const struct reach *reach, uint64_t *seed)
{
    struct segment_header *const all = segment_header(world->segment);
    struct bell *const own = segment_bell(world->segment, 1), *const other =
                                                                  segment_bell(world->segment, 0);
    switch (next(seed) % 10) {
    case 0:
    case 1:
    case 2: forge(reach, seed); break;
    case 3: {
        volatile unsigned char *const bytes = (volatile unsigned char *)reach->headers;
        bytes[next(seed) % reach->link_bytes] = (unsigned char)next(seed);
        break;
    }
    case 4: atomic_store(&reach->own_tail->consumed, likely(seed)); break;
    case 5:
        atomic_store(&reach->own_tail->expected_bytes, likely(seed));
        atomic_store(&reach->own_tail->expected_where, likely(seed));
        atomic_store(&reach->own_tail->expected, likely(seed));
        atomic_store(&reach->own_tail->answer, likely(seed));
        break;
    case 6:
        atomic_store(&reach->shared[next(seed) % SIZE][next(seed) % SHARED_SLOTS].readers,
                     (uint32_t)likely(seed));
        break;
    case 7: atomic_store(&all->sleeper_count, (uint32_t)likely(seed)); break;
    case 8:
        atomic_store(&own->asleep, (uint32_t)likely(seed));
        atomic_store(&own->door, next(seed) % 4 == 0 ? likely(seed) : 0);
        break;
    default: atomic_fetch_add(&other->ring, 1); break;
    }
}

static void *go_mad(void *context)
{
    struct world *const world = context;
    struct reach reach;
    struct link_tx *tx;
    struct link_rx *rx;
    char *data;
    uint64_t seed = world->seed;
    must(join(world, 1) == TUTTI_OK);
    struct transport *const own = world->ranks[1];
    must(own->ops->open_tx(own, SLOT, CHANNEL, 0, MEMORY_BYTES, &tx) == TUTTI_OK);
    must(own->ops->open_rx(own, SLOT, CHANNEL, 0, &rx) == TUTTI_OK);
    if (!world->checks) must(own->sharing->open_shared_slots(own, SLOT) == TUTTI_OK);
    must(segment_link(world->segment, 1, SLOT, CHANNEL, 0, &reach.headers, &data) == TUTTI_OK);
    must(segment_tail(world->segment, 1, SLOT, CHANNEL, 0, false, &reach.own_tail) == TUTTI_OK);
    must(segment_tail(world->segment, 0, SLOT, CHANNEL, 1, false, &reach.other_tail) == TUTTI_OK);
    reach.small_slots = (size_t)(data - SMALL_SLOTS_BYTES - (char *)reach.headers);
    reach.link_bytes = segment_link_bytes(world->segment, SIZE_MAX);
    for (int r = 0; r < SIZE; r++)
        segment_shared_slots(world->segment, r, SLOT, &reach.shared[r], &data);
    while (!atomic_load_explicit(&world->is_over, memory_order_relaxed))
        store_one(world, &reach, &seed);
    return NULL;
}

/* --------------------------------------------------------------------------------------- rank 0 */

/* Whether this rank may read there: in the segment, in what it fetched (which a sanitizer knows),
 * or in its own memory. */
static void look_at(const struct world *world, const struct link_view *view)
{
    const char *const begin = view->data, *const base = world->segment->base;
    volatile unsigned char sum = 0;
    if (begin >= (const char *)mapped && begin < (const char *)mapped + MEMORY_BYTES)
        must(view->bytes <= (size_t)((const char *)mapped + MEMORY_BYTES - begin));
    if (begin >= base && begin < base + world->segment->further.offset)
        must(view->bytes <= (size_t)(base + world->segment->further.offset - begin));
    for (size_t i = 0; i < view->bytes; i++) sum = (unsigned char)(sum + begin[i]);
    if (view->place != NULL && view->bytes > 0) memset(view->place, 3, view->bytes);
}

static void receive(struct world *world, uint64_t *draw)
{
    struct link_rx *const rx = world->rx;
    struct link_view view;
    if (rx->ops->peek(rx, &view) != LINK_READY) return;
    if (view.data == NULL) {
        unsigned char destination[256];
        const size_t part = view.bytes < sizeof destination ? view.bytes : sizeof destination;
        const bool came = next(draw) % 2 == 0 ? rx->ops->fetch(rx)
                                              : part > 0 && rx->ops->take(rx, destination, part);
        if (!came && part > 0) rx->ops->consume(rx, part);
        return;
    }
    look_at(world, &view);
    if (view.place != NULL && next(draw) % 2 == 0 && world->tx->ops->has_room(world->tx) &&
        !world->can_commit) {
        rx->ops->forward(rx, &world->tx, 1);
        return;
    }
    rx->ops->consume(rx, next(draw) % 3 == 0 && view.bytes > 1 ? view.bytes / 2 : view.bytes);
}

static void send_some(struct world *world, uint64_t *draw, size_t bytes_max)
{
    struct link_tx *const tx = world->tx;
    if (!world->can_commit) {
        world->reserved_bytes = next(draw) % bytes_max + 1;
        if (next(draw) % 2 == 0) world->reserved_bytes = next(draw) % 48 + 1;
    }
    void *const place = tx->ops->reserve(tx, world->reserved_bytes);
    world->can_commit = place != NULL;
    if (place == NULL) return;
    memset(place, 1, world->reserved_bytes);
    tx->ops->commit(tx, world->reserved_bytes);
    world->can_commit = false;
}

static void act(struct world *world, uint8_t what, uint64_t *draw, size_t bytes_max)
{
    struct transport *const own = world->ranks[0];
    struct link_tx *const tx = world->tx;
    struct link_rx *const rx = world->rx;
    const size_t bytes = next(draw) % MEMORY_BYTES + 1;
    void *place;
    struct link_reference reference;
    /* Messages that are compared are neither posted nor shared. */
    if (world->checks && what % 12 >= 6 && what % 12 <= 10) what = 0;
    switch (what % 12) {
    case 0:
    case 1:
    case 2:
    case 3: receive(world, draw); break;
    case 4: send_some(world, draw, bytes_max); break;
    case 5: (void)tx->ops->consumed(tx); break;
    case 6:
        if (next(draw) % 2 == 0) {
            if (tx->ops->reach(tx, of_kind, bytes) != REACH_NONE)
                (void)tx->ops->post(tx, of_kind, bytes);
            break;
        }
        if (tx->ops->reach(tx, world->memory, bytes) != REACH_NONE)
            (void)tx->ops->post(tx, world->memory, bytes);
        break;
    case 7:
        place = tx->ops->has_room(tx) ? tx->ops->advertised_at(tx, bytes) : NULL;
        if (place != NULL) memset(place, 2, bytes);
        if (place != NULL) tx->ops->written(tx, bytes);
        break;
    case 8: rx->ops->advertise(rx, world->memory, bytes); break;
    case 9:
        place = own->sharing->reserve_shared(own, SLOT, bytes % bytes_max + 1);
        if (place == NULL || !tx->ops->has_room(tx)) break;
        memset(place, 4, bytes % bytes_max + 1);
        own->sharing->send_shared(own, SLOT, &tx, 1, bytes % bytes_max + 1);
        break;
    case 10:
        reference = (struct link_reference){next(draw) % (MESSAGE_KIND_COUNT + 3), next(draw)};
        if (reference.kind != 0)
            (void)rx->ops->copy(rx, &reference, next(draw) % 100, world->memory, bytes);
        break;
    default:
        own->ops->sleep_begin(own);
        own->ops->sleep(own, NAP_NS);
        own->ops->wake(own);
        break;
    }
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
    struct world world = {.checks = size > 0 && data[0] % 2 == 1};
    uint64_t draw = 7;
    pthread_t peer;
    size_t bytes_max;
    unsigned pieces;
    for (size_t i = 0; i < size; i++) world.seed = world.seed * 31 + data[i] + 1;
    /* Private memory of a peer, if the peer is another process that this rank may read. */
    for (int r = 0; r < SIZE; r++)
        world.peers[r].pid = size > 0 && (data[0] & 2) != 0 ? getpid() : 0;
    must(local_segment_create(SIZE, BOARD_BYTES, &world.descriptor) == TUTTI_OK);
    must(segment_attach(dup(world.descriptor), SIZE, BOARD_BYTES, &world.segment) == TUTTI_OK);
    must(pthread_create(&peer, NULL, go_mad, &world) == 0);
    must(join(&world, 0) == TUTTI_OK);
    struct transport *const own = world.ranks[0];
    must(own->ops->open_tx(own, SLOT, CHANNEL, 1, MEMORY_BYTES, &world.tx) == TUTTI_OK);
    must(own->ops->open_rx(own, SLOT, CHANNEL, 1, &world.rx) == TUTTI_OK);
    if (!world.checks) must(own->sharing->open_shared_slots(own, SLOT) == TUTTI_OK);
    local_limits(SIZE, world.checks, &bytes_max, &pieces);
    must((world.memory = malloc(MEMORY_BYTES)) != NULL);
    memset(world.memory, 9, MEMORY_BYTES);
    must((of_kind = malloc(MEMORY_BYTES)) != NULL && (mapped = malloc(MEMORY_BYTES)) != NULL);
    memset(mapped, 8, MEMORY_BYTES);
    atomic_store(&memory_kind_driver, find_kind);
    if (size > 0 && (data[0] & 4) != 0) own->takes_kind[SLOT] = &shared_kind;
    for (size_t i = 1; i < size && i < STEPS_MAX; i++) {
        draw = draw * 31 + data[i];
        for (int times = data[i] >> 5; times >= 0; times--) act(&world, data[i], &draw, bytes_max);
    }
    atomic_store(&world.is_over, true);
    pthread_join(peer, NULL);
    for (int r = 0; r < SIZE; r++) local_close(world.ranks[r]);
    segment_detach(world.segment);
    close(world.descriptor);
    free(world.memory);
    atomic_store(&memory_kind_driver, NULL);
    free(of_kind);
    free(mapped);
    return 0;
}
