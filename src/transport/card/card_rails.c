#include "transport/card/card_rails.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"

enum { SHORT_SLEEP_NS = 200000 /* where a device has nothing to wait for */ };

/* A region that further cards have registered, too, in a table with open addressing. */
struct region {
    uint64_t key; /* on the first card; 0: free */
    uint64_t further[CARD_FURTHER_MAX];
};

struct card_rails {
    struct card_device base;
    struct card_rails_options options;
    struct card_device *devices[CARD_RAILS_MAX];
    unsigned count;
    uint64_t given[CARD_RAILS_MAX], done[CARD_RAILS_MAX]; /* bytes of writes */
    unsigned char *prepared;                              /* for each peer, a bit for each device */
    struct region *table; /* has at most as many as were asked for */
    unsigned room;        /* a power of two, at least twice as many */
    unsigned asked, used;
    unsigned repeated; /* regions of further cards in the table */
    unsigned turn;     /* the device that shows the next completion */
    int all;           /* an epoll instance of the devices' descriptors; -1: none yet */
};

static struct card_rails *rails_of(struct card_device *device)
{
    return (struct card_rails *)device;
}

static const struct card_rails *const_rails_of(const struct card_device *device)
{
    return (const struct card_rails *)device;
}

static enum tutti_status out_of_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "several network cards: out of memory");
}

/* ------------------------------------------------------------------------------------ the table */

/* Knuth: The Art of Computer Programming, volume 3, section 6.4: multiplicative hashing. */
static unsigned home_of(const struct card_rails *rails, uint64_t key)
{
    return (unsigned)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (rails->room - 1);
}

/* The place of a region in the table, or the free place for it: there always is one. */
static unsigned place_of(const struct card_rails *rails, uint64_t key)
{
    unsigned place = home_of(rails, key);
    while (rails->table[place].key != 0 && rails->table[place].key != key)
        place = (place + 1) & (rails->room - 1);
    return place;
}

/* NULL: only the first card has it. */
static const struct region *region_of(const struct card_rails *rails, uint64_t key)
{
    const struct region *const region = &rails->table[place_of(rails, key)];
    return region->key == 0 ? NULL : region;
}

/* Frees a place, and moves those behind it up that would not be found any more. */
static void remove_region(struct card_rails *rails, unsigned place)
{
    const unsigned mask = rails->room - 1;
    for (unsigned next = (place + 1) & mask; rails->table[next].key != 0; next = (next + 1) & mask) {
        const unsigned home = home_of(rails, rails->table[next].key);
        if (((next - home) & mask) < ((next - place) & mask)) continue;
        rails->table[place] = rails->table[next];
        place = next;
    }
    rails->table[place] = (struct region){0};
    rails->used--;
}

static enum tutti_status grow_table(struct card_rails *rails, unsigned asked)
{
    unsigned room = rails->room;
    while (room < 2 * asked) room = room == 0 ? 64 : 2 * room;
    if (room == rails->room) return TUTTI_OK;
    struct region *const table = calloc(room, sizeof *table), *const old = rails->table;
    const unsigned old_room = rails->room;
    if (table == NULL) return out_of_memory();
    rails->table = table;
    rails->room = room;
    for (unsigned i = 0; i < old_room; i++)
        if (old[i].key != 0) table[place_of(rails, old[i].key)] = old[i];
    free(old);
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- regions */

static enum tutti_status rails_make_room(struct card_device *base, unsigned regions)
{
    struct card_rails *const rails = rails_of(base);
    TRY(grow_table(rails, rails->asked + regions));
    rails->asked += regions;
    for (unsigned i = 0; i < rails->count; i++)
        TRY(rails->devices[i]->ops->make_room(rails->devices[i], regions));
    return TUTTI_OK;
}

static uint64_t enroll_with(const struct card_rails *rails, unsigned number, void *address,
                            size_t bytes, enum card_access access)
{
    struct card_device *const device = rails->devices[number];
    return device->ops->enroll(device, address, bytes, access);
}

static uint64_t rails_enroll(struct card_device *base, void *address, size_t bytes,
                             enum card_access access)
{
    struct card_rails *const rails = rails_of(base);
    struct region region = {.key = enroll_with(rails, 0, address, bytes, access)};
    unsigned further = 0;
    if (region.key == 0 || access == CARD_ACCESS_OWN || bytes < rails->options.least_bytes ||
        rails->used == rails->asked)
        return region.key;
    for (unsigned i = 1; i < rails->count; i++) {
        region.further[i - 1] = enroll_with(rails, i, address, bytes, access);
        further += region.further[i - 1] != 0;
    }
    if (further > 0) rails->table[place_of(rails, region.key)] = region;
    rails->used += further > 0;
    rails->repeated += further;
    return region.key;
}

static void rails_deregister(struct card_device *base, uint64_t key)
{
    struct card_rails *const rails = rails_of(base);
    const unsigned place = place_of(rails, key);
    const struct region region = rails->table[place];
    if (region.key != 0) remove_region(rails, place);
    for (unsigned i = 1; i < rails->count; i++) {
        if (region.further[i - 1] == 0) continue;
        rails->devices[i]->ops->deregister(rails->devices[i], region.further[i - 1]);
        rails->repeated--;
    }
    rails->devices[0]->ops->deregister(rails->devices[0], key);
}

static struct card_target rails_target(const struct card_device *base, uint64_t key)
{
    const struct card_rails *const rails = const_rails_of(base);
    struct card_target target = rails->devices[0]->ops->target(rails->devices[0], key);
    const struct region *const region = region_of(rails, key);
    for (unsigned i = 1; region != NULL && i < rails->count; i++) {
        if (region->further[i - 1] == 0) continue;
        const struct card_target further =
            rails->devices[i]->ops->target(rails->devices[i], region->further[i - 1]);
        target.further[i - 1] = (struct card_place){further.key, further.base};
    }
    return target;
}

/* A region that several cards have counts once. */
static unsigned rails_count_regions(const struct card_device *base)
{
    const struct card_rails *const rails = const_rails_of(base);
    unsigned count = 0;
    for (unsigned i = 0; i < rails->count; i++)
        count += rails->devices[i]->ops->regions(rails->devices[i]);
    return count - rails->repeated;
}

/* ---------------------------------------------------------------------------------------- peers */

/* The first device last: only then does the peer count as prepared. */
static enum tutti_status rails_prepare(struct card_device *base, int peer)
{
    struct card_rails *const rails = rails_of(base);
    for (unsigned i = rails->count; i-- > 0;) {
        if ((rails->prepared[peer] >> i & 1) != 0) continue;
        const enum tutti_status status = rails->devices[i]->ops->prepare(rails->devices[i], peer);
        if (status != TUTTI_OK) return status;
        rails->prepared[peer] |= (unsigned char)(1u << i);
    }
    return TUTTI_OK;
}

static void rails_connect(struct card_device *base, int peer)
{
    struct card_rails *const rails = rails_of(base);
    for (unsigned i = 0; i < rails->count; i++)
        rails->devices[i]->ops->connect(rails->devices[i], peer);
}

static enum card_peer_state state_on(const struct card_rails *rails, unsigned number, int peer)
{
    return rails->devices[number]->ops->state(rails->devices[number], peer);
}

static enum card_peer_state rails_state(const struct card_device *base, int peer)
{
    const struct card_rails *const rails = const_rails_of(base);
    for (unsigned i = 1; i < rails->count; i++) {
        const enum card_peer_state state = state_on(rails, i, peer);
        if (state == CARD_PEER_LOST || state == CARD_PEER_BROKEN) return state;
    }
    return state_on(rails, 0, peer);
}

static int rails_caller(const struct card_device *base)
{
    const struct card_device *const first = const_rails_of(base)->devices[0];
    return first->ops->caller(first);
}

static void rails_forget(struct card_device *base, int peer)
{
    struct card_rails *const rails = rails_of(base);
    rails->devices[0]->ops->forget(rails->devices[0], peer);
    /* A peer may have fewer cards, and need no more of them. */
    if (state_on(rails, 0, peer) != CARD_PEER_LOST) return;
    for (unsigned i = 1; i < rails->count; i++)
        rails->devices[i]->ops->forget(rails->devices[i], peer);
}

static void rails_break_pair(struct card_device *base, int peer)
{
    struct card_rails *const rails = rails_of(base);
    for (unsigned i = 0; i < rails->count; i++)
        rails->devices[i]->ops->break_pair(rails->devices[i], peer);
}

/* ---------------------------------------------------------------------------------------- verbs */

static bool rails_post_receive(struct card_device *base, int peer, uint64_t key, void *address,
                               uint64_t id)
{
    struct card_device *const first = rails_of(base)->devices[0];
    return first->ops->post_receive(first, peer, key, address, id);
}

static bool rails_send(struct card_device *base, int peer, const void *head, size_t head_bytes,
                       const struct card_memory *memory, uint64_t id)
{
    struct card_device *const first = rails_of(base)->devices[0];
    return first->ops->send(first, peer, head, head_bytes, memory, id);
}

/* Finds the memory and the target of a write on one device; false: the device cannot carry it. */
static bool find_path(const struct card_rails *rails, unsigned number, int peer,
                      const struct card_target *target, struct card_memory *memory,
                      struct card_target *there)
{
    if (number == 0) {
        *there = (struct card_target){target->key, target->base, {{0}}};
        return true;
    }
    const struct card_place *const place = &target->further[number - 1];
    const struct region *const region = region_of(rails, memory->key);
    if (place->key == 0 || region == NULL || region->further[number - 1] == 0 ||
        state_on(rails, number, peer) != CARD_PEER_UP)
        return false;
    memory->key = region->further[number - 1];
    *there = (struct card_target){place->key, place->base, {{0}}};
    return true;
}

static bool write_over(struct card_rails *rails, unsigned number, int peer,
                       const struct card_target *target, uint64_t offset,
                       const struct card_memory *memory, uint64_t id)
{
    struct card_device *const device = rails->devices[number];
    struct card_memory own = *memory;
    struct card_target there;
    if (!find_path(rails, number, peer, target, &own, &there) ||
        !device->ops->write(device, peer, &there, offset, &own, id))
        return false;
    rails->given[number] += memory->bytes;
    return true;
}

/* Tries the devices, in the order of their bytes under way, the fewest first. */
static bool rails_write(struct card_device *base, int peer, const struct card_target *target,
                        uint64_t offset, const struct card_memory *memory, uint64_t id)
{
    struct card_rails *const rails = rails_of(base);
    for (unsigned tried = 0; tried != (1u << rails->count) - 1;) {
        unsigned best = 0;
        uint64_t fewest = UINT64_MAX;
        for (unsigned i = 0; i < rails->count; i++) {
            const uint64_t under_way = rails->given[i] - rails->done[i];
            if ((tried >> i & 1) != 0 || under_way >= fewest) continue;
            best = i;
            fewest = under_way;
        }
        if (write_over(rails, best, peer, target, offset, memory, id)) return true;
        tried |= 1u << best;
    }
    return false;
}

/* -------------------------------------------------------------------------------------- looking */

static bool rails_progress(struct card_device *base)
{
    struct card_rails *const rails = rails_of(base);
    bool moved = false;
    for (unsigned i = 0; i < rails->count; i++)
        moved |= rails->devices[i]->ops->progress(rails->devices[i]);
    return moved;
}

static bool rails_poll(struct card_device *base, struct card_completion *completion)
{
    struct card_rails *const rails = rails_of(base);
    for (unsigned i = 0; i < rails->count; i++) {
        const unsigned number = rails->turn;
        rails->turn = (rails->turn + 1) % rails->count;
        if (!rails->devices[number]->ops->poll(rails->devices[number], completion)) continue;
        if (completion->work == CARD_WRITTEN) rails->done[number] += completion->bytes;
        return true;
    }
    return false;
}

static bool rails_is_busy(const struct card_device *base)
{
    const struct card_rails *const rails = const_rails_of(base);
    for (unsigned i = 0; i < rails->count; i++)
        if (rails->devices[i]->ops->is_busy(rails->devices[i])) return true;
    return false;
}

static void rails_look_again(struct card_device *base)
{
    struct card_device *const first = rails_of(base)->devices[0];
    first->ops->look_again(first);
}

static void rails_wake(struct card_device *base)
{
    struct card_device *const first = rails_of(base)->devices[0];
    first->ops->wake(first);
}

static int rails_descriptor(struct card_device *base)
{
    struct card_rails *const rails = rails_of(base);
    const bool is_new = rails->all < 0;
    if (is_new) rails->all = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < rails->count && rails->all >= 0; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        const int descriptor = rails->devices[i]->ops->descriptor(rails->devices[i]);
        if (descriptor >= 0 &&
            (!is_new || epoll_ctl(rails->all, EPOLL_CTL_ADD, descriptor, &event) == 0))
            continue;
        close(rails->all);
        rails->all = -1;
    }
    return rails->all;
}

static void rails_sleep(struct card_device *base, uint64_t timeout_ns)
{
    struct card_device *const first = rails_of(base)->devices[0];
    struct pollfd entry = {.fd = rails_descriptor(base), .events = POLLIN};
    const struct timespec timeout = {(time_t)(timeout_ns / 1000000000u),
                                     (long)(timeout_ns % 1000000000u)};
    if (entry.fd >= 0)
        (void)ppoll(&entry, 1, &timeout, NULL);
    else
        first->ops->sleep(first, timeout_ns < SHORT_SLEEP_NS ? timeout_ns : SHORT_SLEEP_NS);
}

/* ----------------------------------------------------------------------------------- life cycle */

static bool rails_stop(struct card_device *base)
{
    struct card_rails *const rails = rails_of(base);
    bool is_untouched = true;
    for (unsigned i = 0; i < rails->count; i++)
        is_untouched &= rails->devices[i]->ops->stop(rails->devices[i]);
    return is_untouched;
}

static size_t rails_bytes(const struct card_device *base)
{
    const struct card_rails *const rails = const_rails_of(base);
    size_t bytes = sizeof *rails + (size_t)rails->options.size + rails->room * sizeof *rails->table;
    for (unsigned i = 0; i < rails->count; i++)
        bytes += rails->devices[i]->ops->bytes(rails->devices[i]);
    return bytes;
}

static void rails_free(struct card_device *base)
{
    struct card_rails *const rails = rails_of(base);
    if (rails->all >= 0) close(rails->all);
    for (unsigned i = 0; i < rails->count; i++) rails->devices[i]->ops->free(rails->devices[i]);
    free(rails->prepared);
    free(rails->table);
    free(rails);
}

static const struct card_device_ops ops = {.make_room = rails_make_room,
                                           .enroll = rails_enroll,
                                           .deregister = rails_deregister,
                                           .target = rails_target,
                                           .regions = rails_count_regions,
                                           .prepare = rails_prepare,
                                           .connect = rails_connect,
                                           .state = rails_state,
                                           .caller = rails_caller,
                                           .forget = rails_forget,
                                           .break_pair = rails_break_pair,
                                           .post_receive = rails_post_receive,
                                           .send = rails_send,
                                           .write = rails_write,
                                           .progress = rails_progress,
                                           .poll = rails_poll,
                                           .is_busy = rails_is_busy,
                                           .look_again = rails_look_again,
                                           .sleep = rails_sleep,
                                           .wake = rails_wake,
                                           .descriptor = rails_descriptor,
                                           .stop = rails_stop,
                                           .bytes = rails_bytes,
                                           .free = rails_free};

enum tutti_status card_rails_create(const struct card_rails_options *options,
                                    struct card_device *const *devices, unsigned count,
                                    struct card_device **created)
{
    struct card_rails *const rails = calloc(1, sizeof *rails);
    unsigned char *const prepared = calloc((size_t)options->size, 1);
    assert(count >= 2 && count <= CARD_RAILS_MAX);
    *created = NULL;
    if (rails == NULL || prepared == NULL) {
        for (unsigned i = 0; i < count; i++) devices[i]->ops->free(devices[i]);
        free(rails);
        free(prepared);
        return out_of_memory();
    }
    rails->base = (struct card_device){.ops = &ops,
                                       .message_bytes = devices[0]->message_bytes,
                                       .head_room = devices[0]->head_room,
                                       .further = count - 1};
    rails->options = *options;
    if (options->least_bytes == 0) rails->options.least_bytes = CARD_RAILS_BYTES;
    rails->prepared = prepared;
    rails->count = count;
    rails->all = -1;
    for (unsigned i = 0; i < count; i++) {
        assert(!devices[i]->keeps_order);
        rails->devices[i] = devices[i];
    }
    const enum tutti_status status = grow_table(rails, 1);
    if (status != TUTTI_OK)
        rails_free(&rails->base);
    else
        *created = &rails->base;
    return status;
}

struct card_device *card_rails_device(const struct card_device *device, unsigned number)
{
    const struct card_rails *const rails = const_rails_of(device);
    return number < rails->count ? rails->devices[number] : NULL;
}

uint64_t card_rails_given(const struct card_device *device, unsigned number)
{
    return const_rails_of(device)->given[number];
}
