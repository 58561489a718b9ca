#include "memory/registrations.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/held.h"
#include "base/log.h"
#include "base/status.h"
#include "memory/given.h"
#include "memory/heap.h"
#include "memory/ranges.h"
#include "memory/unmapped.h"
#include "os/clock.h"
#include "os/process.h"

enum { REFUSED_TURNS = 64 };

/* How the cache learns that the memory goes. */
enum source {
    SOURCE_NONE, /* not at all: for one use */
    SOURCE_HEAP,
    SOURCE_GIVEN,
    SOURCE_WATCHED
};

struct entry {
    struct registration shown;    /* first: registrations are entries */
    struct range range;           /* in `found`, unless it is dead or for one use */
    struct range watched;         /* SOURCE_WATCHED: the mappings around it */
    struct entry *before, *after; /* in `idle` or `apart` */
    unsigned users;
    enum source source;
    bool is_found; /* in `found` */
};

/* A list through `before` and `after`; its head is an entry of its own. */
struct list {
    struct entry head;
};

struct registrations {
    struct registrations_device device;
    struct registrations_options options;
    struct unmapped_listener listener;
    struct given_observer observer;
    struct ranges found;
    struct list idle;  /* the longest idle first */
    struct list apart; /* in use, but not to be found: dead, or for one use */
    uint64_t next_key, last_key;
    bool has_keys;
    /* So much did not fit when nothing idle was left. From there on nothing is evicted for an
     * acquire that is as large as that. */
    size_t refused_bytes;
    unsigned refused_turns; /* acquires that were refused without evicting since then */
    size_t page;
    uint32_t generation; /* of the process */
    struct registrations_counts counts;
    size_t in_use_bytes;
};

/* ---------------------------------------------------------------------------------------- lists */

static void list_init(struct list *list)
{
    list->head.before = list->head.after = &list->head;
}

static void list_append(struct list *list, struct entry *entry)
{
    entry->before = list->head.before;
    entry->after = &list->head;
    entry->before->after = entry;
    list->head.before = entry;
}

static void list_remove(struct entry *entry)
{
    entry->before->after = entry->after;
    entry->after->before = entry->before;
}

static struct entry *list_first(struct list *list)
{
    return list->head.after != &list->head ? list->head.after : NULL;
}

/* -------------------------------------------------------------------------------------- entries */

static struct entry *entry_of_range(struct range *range)
{
    return range == NULL ? NULL
                         : (struct entry *)(void *)((char *)range - offsetof(struct entry, range));
}

static size_t bytes_of(const struct entry *entry)
{
    return entry->shown.bytes;
}

/* Destroys an entry that is in no list and no set. */
static void destroy(struct registrations *cache, struct entry *entry)
{
    cache->device.unregister_memory(cache->device.context, entry->shown.handle);
    if (entry->source == SOURCE_WATCHED) unmapped_unwatch(&entry->watched);
    cache->counts.bytes -= bytes_of(entry);
    cache->counts.entries--;
    cache->counts.footprint_bytes -= held(entry);
    free(entry);
}

/* It is not found again; taken back now or at its last release. */
static void drop(struct registrations *cache, struct entry *entry)
{
    ranges_remove(&cache->found, &entry->range);
    entry->is_found = false;
    if (entry->users == 0) {
        list_remove(entry);
        destroy(cache, entry);
    } else {
        list_append(&cache->apart, entry);
    }
}

/* Evicts the entries that have been idle for longest, until so many bytes are gone or nothing is
 * idle any more. Returns the number of evicted bytes. */
static size_t evict(struct registrations *cache, size_t bytes_wanted)
{
    size_t bytes = 0;
    struct entry *entry;
    while (bytes < bytes_wanted && (entry = list_first(&cache->idle)) != NULL) {
        bytes += bytes_of(entry);
        cache->counts.evictions++;
        drop(cache, entry);
    }
    return bytes;
}

static void keep_bounds(struct registrations *cache)
{
    while (list_first(&cache->idle) != NULL && (cache->counts.bytes > cache->options.bytes_max ||
                                                cache->counts.entries > cache->options.entries_max))
        evict(cache, 1);
}

static void forget(struct registrations *cache, uintptr_t begin, uintptr_t end)
{
    struct range *range;
    while ((range = ranges_next(&cache->found, begin, end, NULL)) != NULL) {
        cache->counts.invalidations++;
        drop(cache, entry_of_range(range));
    }
}

void registrations_sweep(struct registrations *cache)
{
    struct unmapped_range gone[UNMAPPED_PENDING];
    const int count = unmapped_take(&cache->listener, gone);
    for (int i = 0; i < count; i++) forget(cache, gone[i].begin, gone[i].end);
}

/* ------------------------------------------------------------------------- tutti_mem_unregister */

/* Whether an operation uses a registration that exists because this memory, or given memory in the
 * same page, is given. */
static bool is_used(struct registrations *cache, const struct given_range *given)
{
    struct range *found = NULL;
    while ((found = ranges_next(&cache->found, given->begin, given->end, found)) != NULL)
        if (entry_of_range(found)->source == SOURCE_GIVEN && entry_of_range(found)->users > 0)
            return true;
    struct list *const apart = &cache->apart;
    for (struct entry *each = apart->head.after; each != &apart->head; each = each->after)
        if (each->source == SOURCE_GIVEN && each->range.begin < given->end &&
            given->begin < each->range.end)
            return true;
    return false;
}

static bool let_go(struct given_observer *observer, const struct given_range *range,
                   uint64_t deadline_ns)
{
    struct registrations *const cache =
        (struct registrations *)(void *)((char *)observer - offsetof(struct registrations, observer));
    if (!cache->device.enter(cache->device.context, deadline_ns)) return false;
    const bool is_free = !is_used(cache, range);
    struct range *found;
    while (is_free && (found = ranges_next(&cache->found, range->begin, range->end, NULL)) != NULL)
        drop(cache, entry_of_range(found));
    cache->device.leave(cache->device.context);
    return is_free;
}

/* -------------------------------------------------------------------------------------- acquire */

/* A random beginning: a peer that still has a key of an earlier process does not hit on one of this
 * one. */
static void begin_keys(struct registrations *cache, int bits)
{
    const uint64_t largest = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = clock_now_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid() << 32;
    cache->next_key = random & largest;
    cache->last_key = (cache->next_key - 1) & largest;
    cache->has_keys = true;
}

static bool take_key(struct registrations *cache, uint64_t *key)
{
    if (!cache->has_keys) return false;
    const int bits = cache->options.key_bits;
    *key = cache->next_key;
    cache->has_keys = *key != cache->last_key;
    cache->next_key = (*key + 1) & (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
    return true;
}

static enum tutti_status register_pages(struct registrations *cache, struct entry *entry)
{
    struct registration *const shown = &entry->shown;
    shown->begin = (char *)entry->range.begin;
    shown->bytes = entry->range.end - entry->range.begin;
    if (!take_key(cache, &shown->key)) return TUTTI_UNSUPPORTED;
    return cache->device.register_memory(cache->device.context, shown->begin, shown->bytes,
                                         &shown->key, &shown->handle);
}

/* Whether evicting may help: the last time it did not, with no more in use than now. Limits change,
 * so now and then it is tried again. */
static bool may_evict_for(struct registrations *cache, size_t bytes)
{
    const bool has_hope =
        cache->refused_bytes == 0 || cache->in_use_bytes + bytes < cache->refused_bytes;
    if (has_hope || ++cache->refused_turns < REFUSED_TURNS) return has_hope;
    cache->refused_turns = 0;
    return true;
}

static enum tutti_status register_making_room(struct registrations *cache, struct entry *entry)
{
    const size_t bytes = entry->range.end - entry->range.begin;
    enum tutti_status status = register_pages(cache, entry);
    if (status == TUTTI_NO_MEMORY && may_evict_for(cache, bytes)) {
        while (status == TUTTI_NO_MEMORY && evict(cache, bytes) > 0)
            status = register_pages(cache, entry);
        if (status == TUTTI_NO_MEMORY) cache->refused_bytes = cache->in_use_bytes + bytes;
    }
    if (status == TUTTI_OK && cache->in_use_bytes + bytes >= cache->refused_bytes)
        cache->refused_bytes = 0; /* the limit was raised, or others use less of it */
    return status;
}

/* Whole pages, as far as there are addresses. */
static void set_pages(const struct registrations *cache, struct range *range, uintptr_t begin,
                      uintptr_t end)
{
    range->begin = begin / cache->page * cache->page;
    range->end = (end + cache->page - 1) / cache->page * cache->page;
}

/* Makes it larger by idle neighbours of the same source that it overlaps or touches, to twice its
 * size at most: so neighbours become one step by step, and every page is registered again only as
 * often as its registration doubles. */
static void grow(struct registrations *cache, struct entry *entry)
{
    const uintptr_t begin = entry->range.begin, end = entry->range.end;
    struct range *const wanted = &entry->range;
    for (struct range *each = NULL;
         (each = ranges_next(&cache->found, begin - 1, end + 1, each)) != NULL;) {
        const struct entry *const neighbour = entry_of_range(each);
        if (neighbour->users > 0 || neighbour->source != entry->source) continue;
        const uintptr_t first = each->begin < wanted->begin ? each->begin : wanted->begin;
        const uintptr_t last = each->end > wanted->end ? each->end : wanted->end;
        if (last - first > 2 * (end - begin) || last - first > cache->options.bytes_max) continue;
        wanted->begin = first;
        wanted->end = last;
    }
}

static bool watch(struct entry *entry)
{
    entry->watched = entry->range;
    return unmapped_watch(&entry->watched);
}

/* Finds where the memory comes from, and chooses the pages to register. */
static void choose(struct registrations *cache, const void *address, size_t bytes, bool is_for_once,
                   struct entry *entry)
{
    struct given_range given;
    uint64_t offset;
    const uintptr_t begin = (uintptr_t)address;
    entry->source = SOURCE_NONE;
    set_pages(cache, &entry->range, begin, begin + bytes);
    if (given_find(address, bytes, &given)) {
        entry->source = SOURCE_GIVEN;
        if (given.end - given.begin <= cache->options.bytes_max)
            set_pages(cache, &entry->range, given.begin, given.end);
    } else if (heap_find(address, bytes, &offset)) {
        entry->source = SOURCE_HEAP;
        grow(cache, entry);
    } else if (!is_for_once && bytes <= cache->options.bytes_max) {
        entry->source = SOURCE_WATCHED;
        grow(cache, entry);
    }
}

/* Watches before it registers, so that nothing can go unseen in between. */
static enum tutti_status watch_and_register(struct registrations *cache, struct entry *entry)
{
    if (entry->source == SOURCE_WATCHED && !watch(entry)) entry->source = SOURCE_NONE;
    const enum tutti_status status = register_making_room(cache, entry);
    if (status != TUTTI_OK && entry->source == SOURCE_WATCHED) unmapped_unwatch(&entry->watched);
    return status;
}

/* Drops the idle entries that this entry covers. */
static void drop_covered(struct registrations *cache, const struct entry *by)
{
    struct range *each = NULL;
    while ((each = ranges_next(&cache->found, by->range.begin, by->range.end, each)) != NULL) {
        struct entry *const entry = entry_of_range(each);
        const bool is_covered = each->begin >= by->range.begin && each->end <= by->range.end;
        if (!is_covered || entry->users > 0) continue;
        drop(cache, entry);
        each = NULL;
    }
}

static void admit(struct registrations *cache, struct entry *entry)
{
    cache->counts.bytes += bytes_of(entry);
    cache->counts.entries++;
    cache->counts.in_use++;
    cache->counts.footprint_bytes += held(entry);
    cache->in_use_bytes += bytes_of(entry);
    entry->users = 1;
    entry->is_found = entry->source != SOURCE_NONE;
    if (entry->is_found) {
        drop_covered(cache, entry);
        ranges_add(&cache->found, &entry->range);
    } else {
        list_append(&cache->apart, entry);
    }
    keep_bounds(cache);
}

static struct entry *make(struct registrations *cache, const void *address, size_t bytes,
                          bool is_for_once)
{
    struct entry *const entry = calloc(1, sizeof *entry);
    if (entry == NULL) return NULL;
    struct range pages = {0};
    set_pages(cache, &pages, (uintptr_t)address, (uintptr_t)address + bytes);
    choose(cache, address, bytes, is_for_once, entry);
    enum tutti_status status = watch_and_register(cache, entry);
    const bool is_larger = entry->range.begin != pages.begin || entry->range.end != pages.end;
    if (status != TUTTI_OK && is_larger) {
        /* The pages that were added may be gone, or too many. */
        entry->range = pages;
        status = watch_and_register(cache, entry);
    }
    if (status == TUTTI_OK) {
        admit(cache, entry);
        return entry;
    }
    free(entry);
    return NULL;
}

static void use(struct registrations *cache, struct entry *entry)
{
    if (entry->users++ > 0) return;
    list_remove(entry);
    cache->counts.in_use++;
    cache->in_use_bytes += bytes_of(entry);
}

static struct entry *find(struct registrations *cache, uintptr_t begin, uintptr_t end)
{
    registrations_sweep(cache);
    return entry_of_range(ranges_covering(&cache->found, begin, end));
}

const struct registration *registrations_acquire(struct registrations *cache, const void *address,
                                                 size_t bytes)
{
    const uintptr_t begin = (uintptr_t)address;
    assert(bytes > 0);
    assert(bytes <= UINTPTR_MAX - cache->page - begin);
    struct entry *entry = find(cache, begin, begin + bytes);
    bool is_for_once = false;
    if (entry != NULL && entry->source == SOURCE_WATCHED) {
        is_for_once = !unmapped_settle();
        entry = is_for_once ? NULL : find(cache, begin, begin + bytes);
    }
    if (entry != NULL) {
        cache->counts.hits++;
        use(cache, entry);
        return &entry->shown;
    }
    cache->counts.misses++;
    entry = make(cache, address, bytes, is_for_once);
    if (entry == NULL) cache->counts.refusals++;
    return entry != NULL ? &entry->shown : NULL;
}

void registrations_release(struct registrations *cache, const struct registration *registration)
{
    struct entry *const entry = (struct entry *)(uintptr_t)registration;
    assert(entry->users > 0);
    if (--entry->users > 0) return;
    cache->counts.in_use--;
    cache->in_use_bytes -= bytes_of(entry);
    if (entry->is_found) {
        list_append(&cache->idle, entry);
        keep_bounds(cache);
    } else {
        list_remove(entry);
        destroy(cache, entry);
    }
}

/* ----------------------------------------------------------------------------- the cache itself */

enum tutti_status registrations_create(const struct registrations_device *device,
                                       const struct registrations_options *options,
                                       struct registrations **cache)
{
    assert(options->key_bits >= 8);
    assert(options->key_bits <= 64);
    *cache = NULL;
    struct registrations *const made = calloc(1, sizeof *made);
    if (made == NULL) return error_set(TUTTI_NO_MEMORY, "a cache of registrations: out of memory");
    made->device = *device;
    made->options = *options;
    made->page = (size_t)sysconf(_SC_PAGESIZE);
    list_init(&made->idle);
    list_init(&made->apart);
    begin_keys(made, options->key_bits);
    unmapped_open(&made->listener);
    made->generation = process_generation();
    made->observer.let_go = let_go;
    given_observe(&made->observer);
    made->counts.footprint_bytes = held(made);
    *cache = made;
    return TUTTI_OK;
}

/* In a child: the device and the watched ranges are the parent's. */
static void free_inherited(struct registrations *cache)
{
    struct range *each;
    struct entry *entry;
    while ((each = cache->found.root) != NULL) {
        ranges_remove(&cache->found, each);
        free(entry_of_range(each));
    }
    while ((entry = list_first(&cache->apart)) != NULL) {
        list_remove(entry);
        free(entry);
    }
    free(cache);
}

void registrations_free(struct registrations *cache)
{
    if (cache == NULL) return;
    if (cache->generation != process_generation()) {
        free_inherited(cache);
        return;
    }
    given_observe_no_more(&cache->observer);
    evict(cache, SIZE_MAX);
    assert(cache->counts.entries == 0);
    unmapped_close(&cache->listener);
    free(cache);
}

size_t registrations_bytes(const struct registrations *cache)
{
    return cache->counts.bytes;
}

struct registrations_counts registrations_counts(const struct registrations *cache)
{
    return cache->counts;
}
