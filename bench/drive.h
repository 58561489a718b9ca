/* drive.h - for paths.c: sends messages over links of a communicator through the contract of
 * transports, by one way at a time.
 *
 *     sender    ──────────────┤[ sends a burst ]├──────────────────────────────┤[ settles ]├
 *     receiver  [ advertises ]├─────────────────┤[ takes the burst, copies it ]├───────────┤ checks
 *                         handshake         handshake                      handshake   handshake
 *
 * The links are in a slot that no call uses, and handshakes go over another communicator, so that
 * they move nothing on these links. A burst fits into what may be under way, so no rank waits
 * within [ ], and only that is timed. Over connections, bytes move while a rank calls `progress`:
 * there, calls that moved something count, and calls that found nothing are waiting.
 *
 *   1. The sender stores to its source before each burst, and the receiver reads its destination
 *      after it. So bytes to be sent are only in the sender's cache, and memory that a sender will
 *      write is only in the receiver's.
 *   2. The receiver checks every byte: a path that moves wrong bytes has no cost.
 *   3. To forward a message is to scale it in the place in which it came and to send that place on:
 *      a load and a store for each byte, as for a copy into a slot. The time of the rank that
 *      forwards contains its look at the message that came.
 *   4. A staged message is stored in memory first, and then sent by slot.
 *   5. To write bytes where the receiver wants them is a copy, too: a load and a store for each
 *      byte.
 *   6. Every wait has a deadline: a rank whose peer does not answer ends with a message.
 *   7. A sender looks at what its receiver has offered before it sends: a card writes there only if
 *      it knows of the place.
 */
#ifndef TUTTI_BENCH_DRIVE_H
#define TUTTI_BENCH_DRIVE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call/communicator.h"
#include "domain/domain.h"
#include "kernel/kernel.h"
#include "os/clock.h"
#include "path/path.h"
#include "rank_program.h"
#include "transport/transport.h"

enum {
    SLOT = TRANSPORT_SLOT_MESSAGES - 1, /* of started calls, of which there are none */
    CHANNEL = 0,
    MOST_BYTES = 1 << 20, /* of a burst */
    WARM_UP = 5,
    IDLE_PASSES =
        40, /* of progress, after which nothing is left to move: a peer has been told what may be told later */
    SENDER = 0,
    RECEIVER = 1
};
static const uint64_t SIGNATURE = UINT64_C(0x7061746873), DEADLINE_NS = UINT64_C(20000000000);

/* `comm` is for handshakes. */
static struct tutti_comm *measured;
static struct transport *transport;
static bool is_moved; /* bytes move only while ranks call progress */

static void fail(const char *what)
{
    fprintf(stderr, "paths: rank %d: %s\n", rank, what);
    exit(1);
}

static void handshake(void)
{
    check(tutti_barrier(comm), "handshake");
}

/* True if it is true on both ranks. */
static bool both(bool mine)
{
    return largest_of_ranks(mine ? 0 : 1) == 0;
}

/* ------------------------------------------------------------------------------------ the watch */

/* The time that this rank worked in a burst. */
static uint64_t busy_ns, begun_ns, clock_ns;

static void begin(void)
{
    begun_ns = clock_now_ns();
}
static void end(void)
{
    const uint64_t took_ns = clock_now_ns() - begun_ns;
    busy_ns += took_ns > clock_ns ? took_ns - clock_ns : 0;
}

/* Measures the time that begin and end themselves take. */
static void calibrate(void)
{
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < 10000; i++) {
        begin();
        const uint64_t took_ns = clock_now_ns() - begun_ns;
        if (took_ns < least_ns) least_ns = took_ns;
    }
    clock_ns = least_ns;
}

/* One look at what may have come. Its time counts if something had come; true in that case. */
static bool move(void)
{
    begin();
    const bool moved = transport->ops->progress(transport);
    if (moved) end();
    return moved;
}

static void move_all(void)
{
    for (int idle = 0; is_moved && idle < IDLE_PASSES;) idle = move() ? 0 : idle + 1;
}

struct patience {
    uint64_t until_ns;
    const char *what;
};

static struct patience patience_for(const char *what)
{
    return (struct patience){clock_now_ns() + DEADLINE_NS, what};
}

static void wait_for(const struct patience *patience)
{
    if (!move()) sched_yield();
    if (clock_now_ns() > patience->until_ns) fail(patience->what);
}

/* --------------------------------------------------------------------------------- the messages */

/* Messages of one size by one way. */
struct burst {
    const struct path_row *row;
    const struct path_table *table;
    size_t bytes, stride;
    unsigned count;
    int from;           /* the sender: of what is forwarded, the receiver of another burst */
    struct link_tx *tx; /* at the end that sends */
    struct link_rx *rx;
    char *source, *destination;
};

static struct {
    struct link_tx *tx, *back_tx, *group_tx;
    struct link_rx *rx, *back_rx, *group_rx;
} links;

static struct {
    char *private_source, *private_destination, *mapped_source, *mapped_destination, *staging;
} memory;

static char *at(char *base, const struct burst *burst, unsigned message)
{
    return base + burst->stride * message;
}

/* The next two return false if there is no room, which should not happen. */
static bool send_through_place(const struct burst *burst, const char *source)
{
    void *const place = burst->tx->ops->reserve(burst->tx, burst->bytes);
    if (place == NULL) return false;
    kernel_copy(place, source, burst->bytes);
    burst->tx->ops->commit(burst->tx, burst->bytes);
    return true;
}

static bool send_shared_slot(struct link_tx *tx, const char *source, size_t bytes)
{
    if (!tx->ops->has_room(tx)) return false;
    void *const place = transport->sharing->reserve_shared(transport, SLOT, bytes);
    if (place == NULL) return false;
    kernel_copy(place, source, bytes);
    transport->sharing->send_shared(transport, SLOT, &tx, 1, bytes);
    return true;
}

static bool send_place(const struct burst *burst, unsigned message)
{
    return send_through_place(burst, at(burst->source, burst, message));
}

static bool send_shared(const struct burst *burst, unsigned message)
{
    return send_shared_slot(burst->tx, at(burst->source, burst, message), burst->bytes);
}

static bool send_staged(const struct burst *burst, unsigned message)
{
    char *const stored = at(memory.staging, burst, message);
    kernel_copy(stored, at(burst->source, burst, message), burst->bytes);
    return send_through_place(burst, stored);
}

static bool send_reference(const struct burst *burst, unsigned message)
{
    char *const source = at(burst->source, burst, message);
    return burst->tx->ops->reach(burst->tx, source, burst->bytes) != REACH_NONE &&
           burst->tx->ops->post(burst->tx, source, burst->bytes);
}

/* Over a connection the receiver's end stores what is written, and a card does that itself. */
static bool posts(const struct burst *burst)
{
    const enum path_kind path = burst->row->path;
    return path == PATH_READ || path == PATH_COPY || path == PATH_DIRECT ||
           (path == PATH_WRITE && (burst->tx->capabilities & LINK_ADVERTISES) == 0);
}

static bool send_written(const struct burst *burst, unsigned message)
{
    struct link_tx *const tx = burst->tx;
    if (posts(burst)) return send_reference(burst, message);
    void *const wanted = tx->ops->has_room(tx) ? tx->ops->advertised_at(tx, burst->bytes) : NULL;
    if (wanted == NULL) return false;
    kernel_copy(wanted, at(burst->source, burst, message), burst->bytes);
    tx->ops->written(tx, burst->bytes);
    return true;
}

static bool send_forward(const struct burst *burst, unsigned message)
{
    (void)message;
    struct link_rx *const rx = links.rx;
    struct link_view view;
    const enum link_state state = rx->ops->peek(rx, &view);
    if (state == LINK_FAULT || (state == LINK_READY && view.place == NULL))
        fail("what came cannot be forwarded");
    if (state == LINK_EMPTY || !burst->tx->ops->has_room(burst->tx)) return false;
    const void *const source = view.place;
    const struct kernel_call call = {.destination = view.place,
                                     .sources = &source,
                                     .source_count = 1,
                                     .factor = 1,
                                     .count = view.bytes / sizeof(float),
                                     .dtype = TUTTI_FLOAT32};
    kernel_get(kernel_level_chosen(), TUTTI_FLOAT32, OP_SUM).reduce(&call);
    rx->ops->forward(rx, &burst->tx, 1);
    return true;
}

static void advertise(const struct burst *burst)
{
    burst->rx->ops->advertise(burst->rx, burst->destination, burst->bytes);
}

static void place_directly(const struct burst *burst)
{
    burst->rx->ops->place_directly(burst->rx, burst->destination, burst->stride * burst->count);
}

/* How a path is taken. */
struct driver {
    bool (*send)(const struct burst *burst, unsigned message);
    void (*prepare)(const struct burst *burst); /* at the receiver; or NULL */
};
static const struct driver drivers[PATH_KIND_COUNT] = {
    [PATH_INLINE] = {send_place, NULL},
    [PATH_SLOT] = {send_place, NULL},
    [PATH_GROUP_SLOT] = {send_place, NULL},
    [PATH_SHARED_SLOT] = {send_shared, NULL},
    [PATH_FORWARD] = {send_forward, NULL},
    [PATH_READ] = {send_reference, NULL},
    [PATH_COPY] = {send_reference, NULL},
    [PATH_WRITE] = {send_written, advertise},
    [PATH_DIRECT] = {send_reference, place_directly},
    [PATH_STAGE] = {send_staged, NULL},
};

/* Takes what is in view, up to `most` bytes, to its destination. Returns how many that were. */
static size_t take_view(const struct burst *burst, const struct link_view *view, char *destination,
                        size_t most)
{
    struct link_rx *const rx = burst->rx;
    const size_t at_once = burst->table->sizes.copied_pieces * burst->table->sizes.piece_bytes_max;
    size_t bytes = view->bytes < most ? view->bytes : most;
    if (view->data == NULL) {
        if (bytes > at_once) bytes = at_once;
        if (!rx->ops->take(rx, destination, bytes)) fail("cannot copy the sender's memory");
    } else if (view->data != destination) {
        kernel_copy(destination, view->data, bytes);
    }
    rx->ops->consume(rx, bytes);
    return bytes;
}

/* The time before a wait counts; the time of the look that found nothing does not. */
static void take_burst(const struct burst *burst)
{
    const struct patience patience = patience_for("a message has not come");
    struct link_rx *const rx = burst->rx;
    bool has_worked = false;
    begin();
    for (unsigned m = 0; m < burst->count; m++) {
        char *const destination = at(burst->destination, burst, m);
        for (size_t done = 0; done < burst->bytes;) {
            struct link_view view;
            const enum link_state state = rx->ops->peek(rx, &view);
            if (state == LINK_FAULT) fail("a message makes no sense");
            if (state == LINK_READY) {
                done += take_view(burst, &view, destination + done, burst->bytes - done);
                has_worked = true;
                continue;
            }
            if (has_worked) end();
            wait_for(&patience);
            has_worked = false;
            begin();
        }
    }
    end();
    move_all();
}

/* ----------------------------------------------------------------------------------- one repeat */

/* Other bytes in each repeat, never those of a NaN. */
static int pattern_of(int repeat)
{
    return 1 + (repeat + WARM_UP) % 100;
}

static void check_bytes(const struct burst *burst, int pattern)
{
    for (unsigned m = 0; m < burst->count; m++) {
        const char *const bytes = at(burst->destination, burst, m);
        if (bytes[0] != (char)pattern || memcmp(bytes, bytes + 1, burst->bytes - 1) != 0)
            fail("a message came with other bytes than were sent");
    }
}

/* A message that is forwarded comes from the receiver. */
static void fill_places(const struct burst *burst)
{
    const struct patience patience = patience_for("no shared slot is free");
    for (unsigned m = 0; m < burst->count; m++)
        while (!send_shared_slot(links.tx, at(burst->source, burst, m), burst->bytes))
            wait_for(&patience);
}

static void send_burst(const struct burst *burst)
{
    const struct patience patience = patience_for("a link has no room");
    bool (*const send)(const struct burst *, unsigned) = drivers[burst->row->path].send;
    begin();
    for (unsigned m = 0; m < burst->count; m++)
        while (!send(burst, m)) {
            end();
            wait_for(&patience);
            begin();
        }
    end();
    move_all();
}

/* The receiver has the messages: their memory may be used again. */
static void settle(const struct burst *burst)
{
    const struct patience patience = patience_for("messages were not consumed");
    const bool counts = burst->row->completion == PATH_CONSUMED;
    for (;;) {
        begin();
        if (burst->tx->ops->consumed(burst->tx)) break;
        wait_for(&patience);
    }
    if (counts) end();
}

/* Returns how long this rank worked, in nanoseconds per message. */
static double run_repeat(const struct burst *burst, int repeat)
{
    const bool sends = rank == burst->from;
    const int pattern = pattern_of(repeat);
    busy_ns = 0;
    if (rank == SENDER) memset(burst->source, pattern, burst->stride * burst->count);
    if (burst->row->path == PATH_FORWARD && !sends) fill_places(burst);
    if (drivers[burst->row->path].prepare != NULL && !sends) {
        begin();
        drivers[burst->row->path].prepare(burst);
        end();
        move_all();
    }
    handshake();
    if (sends && drivers[burst->row->path].prepare != NULL) move_all();
    if (sends) send_burst(burst);
    handshake();
    if (sends && is_moved) settle(burst);
    if (!sends) take_burst(burst);
    handshake();
    if (sends && !is_moved) settle(burst);
    if (!sends) check_bytes(burst, pattern);
    handshake(); /* no rank looks for the last burst while the next one is prepared */
    return (double)busy_ns / burst->count;
}

/* ------------------------------------------------------------------------------------ around it */

static void open_links(void)
{
    const struct transport_ops *const ops = transport->ops;
    const int peer = 1 - rank;
    struct link_tx **const tx = rank == SENDER ? &links.tx : &links.back_tx;
    struct link_rx **const rx = rank == SENDER ? &links.back_rx : &links.rx;
    size_t piece_bytes;
    unsigned piece_count;
    ops->limits(transport, &piece_bytes, &piece_count);
    transport->signatures[SLOT] = SIGNATURE;
    check(ops->open_tx(transport, SLOT, CHANNEL, peer, piece_bytes, tx), "a link");
    check(ops->open_rx(transport, SLOT, CHANNEL, peer, rx), "a link");
    if (((*tx)->capabilities & LINK_SHARES) != 0)
        check(transport->sharing->open_shared_slots(transport, SLOT), "shared slots");
    if (transport->group_count == 0) return;
    if (rank == SENDER)
        check(transport->sharing->open_multicast_tx(transport, SLOT, CHANNEL, 0, piece_bytes,
                                                    &links.group_tx),
              "a link to a group");
    else
        check(transport->sharing->open_multicast_rx(transport, SLOT, CHANNEL, 0, peer,
                                                    &links.group_rx),
              "a link to a group");
}

static char *private_memory(void)
{
    char *const bytes = aligned_alloc(4096, MOST_BYTES);
    if (bytes == NULL) check(TUTTI_NO_MEMORY, "memory");
    return memset(bytes, 1, MOST_BYTES);
}

static char *mapped_memory(void)
{
    void *bytes;
    check(tutti_mem_alloc(MOST_BYTES, &bytes), "mem_alloc");
    return memset(bytes, 1, MOST_BYTES);
}

static void get_memory(void)
{
    memory.private_source = private_memory();
    memory.private_destination = private_memory();
    memory.staging = private_memory();
    memory.mapped_source = mapped_memory();
    memory.mapped_destination = mapped_memory();
}

static void give_back_memory(void)
{
    free(memory.private_source);
    free(memory.private_destination);
    free(memory.staging);
    check(tutti_mem_free(memory.mapped_source), "mem_free");
    check(tutti_mem_free(memory.mapped_destination), "mem_free");
}

/* Takes the communicator, so that no other thread moves the links meanwhile. */
static void take_communicator(void)
{
    const uint64_t until_ns = clock_now_ns() + DEADLINE_NS;
    while (!domain_try_lock(&measured->team.domain)) {
        if (clock_now_ns() > until_ns) fail("another thread keeps the communicator");
        sched_yield();
    }
    transport = measured->team.transports.set.all;
    is_moved = measured->team.transports.set.control != NULL;
}

static void create_communicators(void)
{
    struct tutti_comm_options limits = TUTTI_COMM_OPTIONS_INIT;
    limits.timeout_ns = DEADLINE_NS;
    check(tutti_comm_create(&limits, &measured), "comm_create");
    check(tutti_comm_dup(measured, &limits, &comm), "comm_dup");
    rank = tutti_comm_rank(comm);
    check(tutti_barrier(measured), "barrier"); /* connections are there */
}

#endif
