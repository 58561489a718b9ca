#include "transport/local/segment.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "os/fork.h"
#include "os/shm.h"
#include "transport/transport.h"

enum {
    PAGE = 4096,
    HEADERS_BYTES = 2 * PAGE, /* of a link */
    DATA_BYTES_MIN = 64 << 10,
    DATA_BYTES_MAX = 1 << 20,
    DATA_BYTES_A_RANK = 4 << 20,
    SHARED_SLOT_BYTES_MAX = 128 << 10
};
static_assert(2 * HEADER_COUNT * sizeof(struct message_header) <= HEADERS_BYTES,
              "both rings of headers fit");
static_assert(SMALL_SLOT_COUNT <= HEADER_COUNT && SMALL_SLOTS_BYTES % PAGE == 0,
              "pages are reserved");

FORK_LOCK(lock, FORK_SEGMENTS, NULL);
static struct segment *segments; /* of this process; under lock */

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static size_t data_bytes(int rank_count)
{
    const size_t share = DATA_BYTES_A_RANK / (size_t)rank_count / PAGE * PAGE;
    return share < DATA_BYTES_MIN   ? DATA_BYTES_MIN
           : share > DATA_BYTES_MAX ? DATA_BYTES_MAX
                                    : share;
}

size_t segment_slot_bytes(int rank_count)
{
    return data_bytes(rank_count) / DATA_SLOTS;
}

/* Returns the offset in each region at which other data of that size begins. */
static size_t lay_out_part(const struct segment *segment, struct segment_part *part,
                           size_t other_bytes)
{
    const size_t ranks = (size_t)segment->rank_count,
                 channels = (size_t)TRANSPORT_SLOT_COUNT * (size_t)part->channel_count;
    part->links_offset = channels * segment->tails_bytes;
    const size_t links_end = part->links_offset + channels * ranks * segment->link_bytes;
    part->region_bytes = links_end + other_bytes;
    part->size_bytes = ranks * part->region_bytes;
    return links_end;
}

static void lay_out(struct segment *segment, int rank_count, size_t board_bytes)
{
    const size_t ranks = (size_t)rank_count;
    segment->rank_count = rank_count;
    segment->board_bytes = board_bytes;
    segment->slot_bytes = segment_slot_bytes(rank_count);
    segment->board_offset =
        round_up(sizeof(struct segment_header) + ranks * sizeof(struct bell), PAGE);
    segment->regions_offset = segment->board_offset + round_up(board_bytes, PAGE);
    segment->tails_bytes = round_up(2 * ranks * sizeof(struct tail), PAGE);
    segment->link_bytes = HEADERS_BYTES + SMALL_SLOTS_BYTES + DATA_SLOTS * segment->slot_bytes;
    segment->shared_slot_bytes =
        segment->slot_bytes < SHARED_SLOT_BYTES_MAX ? segment->slot_bytes : SHARED_SLOT_BYTES_MAX;
    segment->shared_slots_bytes = round_up(SHARED_SLOTS * sizeof(struct shared_slot), PAGE) +
                                  SHARED_SLOTS * segment->shared_slot_bytes;
    segment->plain = (struct segment_part){
        .offset = segment->regions_offset, .channel_first = 0, .channel_count = PLAIN_CHANNELS};
    segment->shared_slots_offset = lay_out_part(
        segment, &segment->plain, (size_t)TRANSPORT_SLOT_COUNT * segment->shared_slots_bytes);
    segment->further =
        (struct segment_part){.offset = segment->plain.offset + segment->plain.size_bytes,
                              .channel_first = PLAIN_CHANNELS,
                              .channel_count = TRANSPORT_CHANNEL_COUNT - PLAIN_CHANNELS};
    lay_out_part(segment, &segment->further, 0);
    segment->size_bytes = segment->further.offset + segment->further.size_bytes;
}

enum tutti_status segment_create(int rank_count, size_t board_bytes, int *fd)
{
    struct segment layout;
    lay_out(&layout, rank_count, board_bytes);
    TRY(shm_open_new("tutti-segment", layout.size_bytes, fd));
    const enum tutti_status status = shm_reserve(*fd, 0, layout.regions_offset);
    if (status != TUTTI_OK) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

static enum tutti_status map_new(int fd, int rank_count, size_t board_bytes,
                                 const struct stat *stat, struct segment **segment)
{
    struct segment *s = calloc(1, sizeof *s);
    if (s == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    lay_out(s, rank_count, board_bytes);
    void *base = NULL;
    enum tutti_status status = shm_check_foreign(fd, s->size_bytes);
    if (status == TUTTI_OK) status = shm_map(fd, 0, s->further.offset, &base);
    if (status != TUTTI_OK) {
        free(s);
        return status;
    }
    shm_let_dump(base, s->regions_offset, true); /* reserved by segment_create: the ranks' calls */
    s->base = base;
    s->plain.base = s->base + s->plain.offset;
    s->fd = fd;
    s->device = stat->st_dev;
    s->inode = stat->st_ino;
    s->users = 1;
    s->next = segments;
    segments = *segment = s;
    return TUTTI_OK;
}

enum tutti_status segment_attach(int fd, int rank_count, size_t board_bytes,
                                 struct segment **segment)
{
    struct stat stat;
    *segment = NULL;
    if (fstat(fd, &stat) != 0) {
        const enum tutti_status status = error_system("segment: fstat");
        close(fd);
        return status;
    }
    pthread_mutex_lock(&lock);
    struct segment *s = segments;
    while (s != NULL && (s->device != stat.st_dev || s->inode != stat.st_ino)) s = s->next;
    enum tutti_status status = TUTTI_OK;
    if (s != NULL) {
        s->users++;
        *segment = s;
    } else {
        status = map_new(fd, rank_count, board_bytes, &stat, segment);
    }
    pthread_mutex_unlock(&lock);
    if (s != NULL || status != TUTTI_OK) close(fd);
    return status;
}

void segment_detach(struct segment *segment)
{
    if (segment == NULL) return;
    pthread_mutex_lock(&lock);
    const bool last = --segment->users == 0;
    if (last) {
        struct segment **link = &segments;
        while (*link != segment) link = &(*link)->next;
        *link = segment->next;
    }
    pthread_mutex_unlock(&lock);
    if (!last) return;
    shm_unmap(segment->base, segment->further.offset);
    if (segment->further.base != NULL)
        shm_unmap(segment->further.base, segment->further.size_bytes);
    close(segment->fd);
    free(segment);
}

struct bell *segment_bell(const struct segment *segment, int rank)
{
    return (struct bell *)(void *)(segment->base + sizeof(struct segment_header)) + rank;
}

void *segment_board(const struct segment *segment)
{
    return segment->base + segment->board_offset;
}

/* The part with a channel, mapped. */
static enum tutti_status find_part(struct segment *segment, int channel,
                                   const struct segment_part **part)
{
    *part = &segment->plain;
    if (channel < PLAIN_CHANNELS) return TUTTI_OK;
    struct segment_part *const further = &segment->further;
    enum tutti_status status = TUTTI_OK;
    void *base = NULL;
    pthread_mutex_lock(&lock);
    if (further->base == NULL) {
        status = shm_map(segment->fd, further->offset, further->size_bytes, &base);
        further->base = base;
    }
    pthread_mutex_unlock(&lock);
    *part = further;
    return status;
}

static size_t channel_index(const struct segment_part *part, int slot, int channel)
{
    return (size_t)slot * (size_t)part->channel_count + (size_t)(channel - part->channel_first);
}

enum tutti_status segment_tail(struct segment *segment, int rank, int slot, int channel, int source,
                               bool multicast, struct tail **tail)
{
    const struct segment_part *part;
    TRY(find_part(segment, channel, &part));
    const size_t offset = (size_t)rank * part->region_bytes +
                          channel_index(part, slot, channel) * segment->tails_bytes;
    *tail = (struct tail *)(void *)(part->base + offset) + (multicast ? segment->rank_count : 0) +
            source;
    return shm_reserve(segment->fd, part->offset + offset, segment->tails_bytes);
}

size_t segment_link_bytes(const struct segment *segment, size_t bytes)
{
    if (bytes <= INLINE_BYTES) return HEADERS_BYTES;
    if (bytes <= SMALL_SLOT_BYTES) return HEADERS_BYTES + SMALL_SLOTS_BYTES;
    return segment->link_bytes;
}

enum tutti_status segment_link(struct segment *segment, int rank, int slot, int channel, int to,
                               struct message_header **headers, char **data)
{
    const struct segment_part *part;
    TRY(find_part(segment, channel, &part));
    const size_t index =
        channel_index(part, slot, channel) * (size_t)segment->rank_count + (size_t)to;
    const size_t offset =
        (size_t)rank * part->region_bytes + part->links_offset + index * segment->link_bytes;
    *headers = (struct message_header *)(void *)(part->base + offset);
    *data = part->base + offset + HEADERS_BYTES + SMALL_SLOTS_BYTES;
    return shm_reserve(segment->fd, part->offset + offset, HEADERS_BYTES);
}

static size_t shared_slots_of(const struct segment *segment, int owner, int slot)
{
    return segment->plain.offset + (size_t)owner * segment->plain.region_bytes +
           segment->shared_slots_offset + (size_t)slot * segment->shared_slots_bytes;
}

void segment_shared_slots(const struct segment *segment, int owner, int slot,
                          struct shared_slot **slots, char **data)
{
    char *const begin = segment->base + shared_slots_of(segment, owner, slot);
    *slots = (struct shared_slot *)(void *)begin;
    *data = begin + round_up(SHARED_SLOTS * sizeof(struct shared_slot), PAGE);
}

enum tutti_status segment_reserve_shared(struct segment *segment, int owner, int slot)
{
    return shm_reserve(segment->fd, shared_slots_of(segment, owner, slot),
                       segment->shared_slots_bytes);
}

static bool has_address(const struct segment_part *part, const char *address)
{
    return (uintptr_t)address - (uintptr_t)part->base < part->size_bytes;
}

enum tutti_status segment_reserve_data(struct segment *segment, const char *data, size_t bytes)
{
    const size_t slots_bytes = segment_link_bytes(segment, bytes) - HEADERS_BYTES;
    if (slots_bytes == 0) return TUTTI_OK;
    const struct segment_part *const part =
        has_address(&segment->plain, data) ? &segment->plain : &segment->further;
    return shm_reserve(segment->fd, part->offset + (size_t)(data - part->base) - SMALL_SLOTS_BYTES,
                       slots_bytes);
}
