/* segment.h - the shared memory of one communicator on one host, and its layout.
 *
 *   ┌ header ┬ bells, one per rank ┬ board (the communicator's) ┬ region of rank 0 ┬ region of rank 1 ┬ ... ┬ further regions, one per rank
 *
 *   region of rank r, per slot and channel:
 *     tails:  for each source, unicast and to-all: how many messages rank r has consumed,
 *             and where it expects the next one                                            (r writes)
 *     links:  to each rank, and (in r's own place) to all:                                 (r writes)
 *             a ring of message headers, and where messages are checked a second one behind it
 *             (checked.h), small slots, and DATA_SLOTS slots for payloads
 *   (of the first PLAIN_CHANNELS channels; a further region has those of the others, and is mapped
 *   when one of them is used: only plans of many lanes need it, and it is most of the addresses)
 *   region of rank r, per slot:
 *     shared: SHARED_SLOTS slots for payloads that travel, with a count of readers each       (its holder writes)
 *
 * Header and small slot of a message follow from its number. So a writer may be as many messages
 * ahead of its readers as there are headers but one, or, where messages need small slots, small
 * slots. Where ranks share a core, each has to wait for its turn once in so many messages.
 *
 * Slots belong to the writer, so the memory that a rank touches is O(ranks), and memory is reserved
 * only for links that are used. Memory is reserved before it is touched: no access ends in SIGBUS.
 * Ranks of one process share one mapping.
 *
 * A shared slot belongs to its owner while its count is 0. Once sent, it belongs to its readers.
 * Each reader takes one off the count when it is done; a reader that is the only one may instead
 * write into the slot and send it on.
 *
 * Memory traffic of a message: payloads up to INLINE_BYTES lie in the header's own cache line (one
 * line crosses cores); larger ones, up to SMALL_SLOT_BYTES through small slots, are written once
 * and read once through slots that stay in cache; shared ones are written once for all readers, and
 * a reduction in place writes the lines that it has just read; posted ones are read where they lie,
 * which is the least possible.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_SEGMENT_H
#define TUTTI_TRANSPORT_LOCAL_SEGMENT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/last_word.h"
#include "transport/transport.h"
#include "tutti/tutti.h"

enum {
    CACHE_LINE = 64,
    HEADER_COUNT = TRANSPORT_UNDER_WAY_MAX + 1,
    SMALL_SLOT_COUNT = 32,
    DATA_SLOTS = 4,   /* payloads under way per link */
    SHARED_SLOTS = 4, /* payloads of a rank that travel, per slot */
    PLAIN_CHANNELS = 4,
    INLINE_BYTES = 40,
    SMALL_SLOT_BYTES = 1 << 10,
    SMALL_SLOTS_BYTES = SMALL_SLOT_COUNT * SMALL_SLOT_BYTES
};

/* PLACED: the message lies where its reader expected it. */
enum message_kind {
    MESSAGE_INLINE,
    MESSAGE_SLOT,
    MESSAGE_ADDRESS,
    MESSAGE_HEAP,
    MESSAGE_REMOTE,
    MESSAGE_SHARED,
    MESSAGE_PLACED,
    MESSAGE_SMALL_SLOT,
    MESSAGE_OTHER,
    MESSAGE_MAPPED,
    MESSAGE_KIND_COUNT
};
/* A bit in the kinds SLOT and SHARED: the message's small slot says what memory its writer shares
 * (sharing.h). */
enum { MESSAGE_SHARES = 0x80 };
/* A bit beside the number of a slot: its reader makes the slot's lines its own (slot_owner.h). */
enum { SLOT_TO_OWN = 0x100 };

/* One message; a cache line. The writer fills it and then releases `sequence` (message number + 1,
 * or what checked.h makes of that), which the reader acquires. The reader's tail (release) and the
 * writer's look at the tail (acquire) make it free again. */
struct message_header {
    _Atomic uint64_t sequence;
    uint64_t signature;
    uint64_t kind_and_bytes; /* kind in the upper 8 bits */
    union {
        unsigned char data[INLINE_BYTES];
        uint64_t slot; /* SLOT: its number, and perhaps SLOT_TO_OWN */
        uint64_t where; /* ADDRESS, OTHER, REMOTE: address in the writer's process; HEAP: offset; SHARED: owner, number */
        struct {
            uint64_t number, offset; /* MAPPED: the writer's allocation, and the offset in it */
        } mapped;
    } u;
};
static_assert(sizeof(struct message_header) == CACHE_LINE, "a header is a cache line");

/* Reads a word that a peer may change at any time, and reads it only once: so the value that is
 * used is the value that was checked, however the compiler optimizes. */
static inline uint64_t read_once(const uint64_t *word)
{
    return *(const volatile uint64_t *)word;
}

/* The reader expects one message at a time: it fills in bytes and where, and then releases
 * `expected` (message number + 1), which the writer acquires. The reader writes there again when it
 * has consumed that message. So a writer that finds the number of its next message finds the bytes
 * and the place that belong to it, and an older offer says nothing. */
struct tail {
    _Alignas(CACHE_LINE) _Atomic uint64_t consumed; /* messages */
    _Atomic uint64_t expected;                      /* not of links to all */
    _Atomic uint64_t expected_bytes;
    _Atomic uint64_t expected_where; /* an address between ranks of one process, else a heap offset */
    /* To the last share: its number times 2, plus 1 if the reader has mapped it; 0: none yet. */
    _Atomic uint64_t answer;
};
static_assert(sizeof(struct tail) == CACHE_LINE, "a tail is a cache line");

/* The readers that are not done with a shared slot. Counted down with release, read with
 * acquire. */
struct shared_slot {
    _Alignas(CACHE_LINE) _Atomic uint32_t readers;
};

/* A rank's sleep: the lowest bits of its word say where the rank sleeps. If it sleeps at its door,
 * the bits above are the number of that sleep, so that a rank that rings late does not mark the
 * next sleep as rung. */
enum {
    AWAKE,
    ASLEEP, /* on the futex */
    ASLEEP_AT_DOOR,
    ASLEEP_RUNG, /* at the door, and about to wake up */
    ASLEEP_WHERE = 3,
    ASLEEP_COUNT_SHIFT = 2
};

struct bell {
    _Alignas(CACHE_LINE) _Atomic uint32_t ring; /* futex: changes when it rings */
    _Atomic uint32_t asleep;
    _Atomic uint64_t door;          /* the number of its doorbell, if it has slept there */
    _Atomic uint64_t probe_address; /* of a word in the rank's private memory that holds its own address */
    _Atomic uint64_t place; /* of the rank on this host, see nearness.h; constant once all have come */
    _Atomic uint64_t heap_bases; /* in the rank's private memory, see memory/heap.h; the same */
    struct last_word last_word;  /* where some of the ranks cannot see each other's processes */
};
static_assert(sizeof(struct bell) == CACHE_LINE, "nobody writes the line of another's bell");

struct segment_header {
    uint64_t size_bytes;
    uint32_t rank_count;
    _Alignas(CACHE_LINE) _Atomic uint32_t ready_count;
    _Atomic uint64_t cpus[16];         /* union of the ranks' CPU masks */
    _Atomic uint32_t cpu_limit;        /* that ranks have by cpu_limit(), the largest one; */
    _Atomic uint32_t unlimited_count;  /* but for ranks that have none */
    _Atomic uint32_t unreadable_count; /* ranks that cannot read another one's private memory */
    _Atomic uint32_t unmappable_count; /* ranks that cannot map another one's heap */
    _Atomic uint32_t
        unfenced_count; /* ranks whose kernel gives them no fence over all ranks (os/futex.h) */
    /* Read at every message, written by sleepers. Each rank that is unfenced counts as one for
     * good. */
    _Alignas(CACHE_LINE) _Atomic uint32_t sleeper_count;
};

/* For each rank a region with the tails and links of some channels. */
struct segment_part {
    size_t offset, size_bytes;         /* in the segment */
    size_t region_bytes, links_offset; /* of a rank, and in it */
    int channel_first, channel_count;
    char *base; /* NULL: not mapped; it is once, under the lock of segment.c */
};

/* A mapped segment; ranks of one process share it. */
struct segment {
    char *base; /* up to the end of the plain part */
    size_t size_bytes;
    int fd;
    int rank_count;
    size_t board_bytes;
    size_t slot_bytes;        /* of a data slot */
    size_t shared_slot_bytes; /* of a shared slot */
    /* layout */
    size_t board_offset, regions_offset, link_bytes, tails_bytes, shared_slots_offset,
        shared_slots_bytes;
    struct segment_part plain, further;
    /* of the process */
    struct segment *next;
    uint64_t device, inode;
    unsigned users;
};

/* Makes a new segment for that many ranks: only its descriptor, which is passed to the other
 * ranks. */
enum tutti_status segment_create(int rank_count, size_t board_bytes, int *fd);
/* Maps (or shares) the segment; takes the descriptor, also on failure. */
enum tutti_status segment_attach(int fd, int rank_count, size_t board_bytes,
                                 struct segment **segment);
void segment_detach(struct segment *segment);

static inline struct segment_header *segment_header(const struct segment *segment)
{
    return (struct segment_header *)(void *)segment->base;
}
struct bell *segment_bell(const struct segment *segment, int rank);
void *segment_board(const struct segment *segment);
/* The tail of reader `rank` for messages that `source` sends to it or to all; reserves the memory.
 * NO_MEMORY: there is no address space for the part with that channel; the same holds for
 * segment_link. */
enum tutti_status segment_tail(struct segment *segment, int rank, int slot, int channel, int source,
                               bool multicast, struct tail **tail);
/* The link of writer `rank`; `to` is the writer itself for the link to all. `data` are the data
 * slots, right behind the small slots. Reserves the headers. */
enum tutti_status segment_link(struct segment *segment, int rank, int slot, int channel, int to,
                               struct message_header **headers, char **data);
/* The shared slots of an owner for one slot of operations, `shared_slot_bytes` each, and their
 * counts. */
void segment_shared_slots(const struct segment *segment, int owner, int slot,
                          struct shared_slot **slots, char **data);
enum tutti_status segment_reserve_shared(struct segment *segment, int owner, int slot);
/* The size of a data slot in a segment for that many ranks. */
size_t segment_slot_bytes(int rank_count);
/* The bytes that a link reserves for messages of up to so many bytes. */
size_t segment_link_bytes(const struct segment *segment, size_t bytes);
/* Reserves the slots of a link for such messages: none, the small slots, or all. */
enum tutti_status segment_reserve_data(struct segment *segment, const char *data, size_t bytes);
/* The small slot of message `sequence`. */
static inline size_t segment_small_slot(uint64_t sequence)
{
    return (size_t)(sequence % SMALL_SLOT_COUNT) * SMALL_SLOT_BYTES; /* from the first one */
}

#endif
