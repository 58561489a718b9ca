#include "transport/ofi/regions.h"

#include <assert.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/status.h"
#include "memory/registrations.h"

enum { INDEX_BITS = 24, ENTRIES_MAX = 4096, CLOSING_MAX = 64 };

static const size_t STAYING_BYTES_MAX = (size_t)4 << 30;

struct region {
    uint64_t key;                            /* 0: free */
    const struct registration *registration; /* NULL: none is needed */
    uint64_t base;                           /* where peers find its first byte */
    bool is_written;
    uint32_t next_free;
};

/* One kind of access. */
struct kept {
    struct ofi_regions *regions;
    uint64_t rights;
    struct registrations *cache;
};

struct ofi_regions {
    const struct ofi_calls *verbs;
    const struct fi_info *facts;
    struct fid_domain *space; /* the domain */
    struct fid_ep *endpoint;
    pthread_mutex_t lock; /* of the caches' work */
    struct kept own, written;
    struct region *table;
    uint32_t room, asked, end, first_free, count;
    uint64_t serial;
    struct fid_mr *closing[CLOSING_MAX];    /* that libfabric has not let go of yet */
    unsigned closing_count, unclosed_count; /* unclosed: that it will not let go of */
    int close_error;                        /* of libfabric, the last one; 0: none */
    int refusal;                            /* of libfabric, the last one; 0: none yet */
    bool is_refusal_said;
};

static bool needs(const struct ofi_regions *regions, int mode)
{
    return (regions->facts->domain_attr->mr_mode & mode) != 0;
}

bool ofi_regions_stay(const struct fi_info *facts)
{
    return (facts->domain_attr->mr_mode & (FI_MR_LOCAL | FI_MR_PROV_KEY)) != 0;
}

/* ---------------------------------------------------------------------------- the caches' calls */

static void close_memory(struct ofi_regions *regions, struct fid_mr *memory)
{
    const int result = regions->verbs->close_memory(memory);
    if (result == 0) return;
    regions->close_error = result;
    if (result == -FI_EBUSY && regions->closing_count < CLOSING_MAX)
        regions->closing[regions->closing_count++] = memory;
    else
        regions->unclosed_count++;
}

static void close_again(struct ofi_regions *regions)
{
    const unsigned count = regions->closing_count;
    regions->closing_count = 0;
    for (unsigned i = 0; i < count; i++) close_memory(regions, regions->closing[i]);
}

static enum tutti_status register_memory(void *context, void *address, size_t bytes, uint64_t *key,
                                         void **handle)
{
    const struct kept *kept = context;
    struct ofi_regions *regions = kept->regions;
    const bool makes_keys = needs(regions, FI_MR_PROV_KEY);
    struct fid_mr *memory;
    int result = regions->verbs->register_memory(regions->space, address, bytes, kept->rights,
                                                 makes_keys ? 0 : *key, &memory);
    if (result == 0 && needs(regions, FI_MR_ENDPOINT)) {
        result = regions->verbs->bind(memory, regions->endpoint);
        if (result != 0) (void)regions->verbs->close_memory(memory);
    }
    if (result != 0) {
        regions->refusal = -result;
        return error_set(result == -FI_ENOMEM || result == -FI_EAGAIN ? TUTTI_NO_MEMORY
                                                                      : TUTTI_UNSUPPORTED,
                         "a network card does not register %zu bytes", bytes);
    }
    if (makes_keys) *key = regions->verbs->key(memory);
    *handle = memory;
    return TUTTI_OK;
}

static void unregister_memory(void *context, void *handle)
{
    close_memory(((const struct kept *)context)->regions, handle);
}

static bool enter(void *context, uint64_t deadline_ns)
{
    const struct kept *kept = context;
    const struct timespec deadline = {(time_t)(deadline_ns / 1000000000u),
                                      (long)(deadline_ns % 1000000000u)};
    return pthread_mutex_clocklock(&kept->regions->lock, CLOCK_MONOTONIC, &deadline) == 0;
}

static void leave(void *context)
{
    pthread_mutex_unlock(&((const struct kept *)context)->regions->lock);
}

/* -------------------------------------------------------------------------------------- regions */

enum tutti_status ofi_regions_make_room(struct ofi_regions *regions, unsigned count)
{
    const uint32_t needed = regions->asked + count;
    if (needed > regions->room) {
        const uint32_t room = needed + needed / 2 + 64;
        struct region *table =
            room >> INDEX_BITS == 0 ? realloc(regions->table, room * sizeof *table) : NULL;
        if (table == NULL) return error_set(TUTTI_NO_MEMORY, "a network card: out of memory");
        regions->table = table;
        regions->room = room;
    }
    regions->asked = needed;
    return TUTTI_OK;
}

/* A free region; NULL: none is left. */
static struct region *take_region(struct ofi_regions *regions)
{
    uint32_t index = regions->first_free;
    if (index != 0)
        regions->first_free = regions->table[index - 1].next_free;
    else if (regions->end < regions->room)
        index = ++regions->end;
    else
        return NULL;
    struct region *region = &regions->table[index - 1];
    *region = (struct region){.key = ++regions->serial << INDEX_BITS | index};
    regions->count++;
    return region;
}

static void give_region_back(struct ofi_regions *regions, struct region *region)
{
    region->key = 0;
    region->next_free = regions->first_free;
    regions->first_free = (uint32_t)(region - regions->table) + 1;
    regions->count--;
}

static struct region *region_of(const struct ofi_regions *regions, uint64_t key)
{
    const uint64_t index = key & ((UINT64_C(1) << INDEX_BITS) - 1);
    assert(index > 0 && index <= regions->end && regions->table[index - 1].key == key);
    return &regions->table[index - 1];
}

/* Says once why a job is slow. */
static void say_refusal(struct ofi_regions *regions, size_t bytes)
{
    if (regions->is_refusal_said || regions->refusal == 0) return;
    regions->is_refusal_said = true;
    log_write(
        LOG_WARN,
        "network card: provider %s does not register %zu bytes (%s), so they are copied, which "
        "is slower; see ulimit -l and tutti-topo --check-fabric",
        regions->facts->fabric_attr->prov_name, bytes, strerror(regions->refusal));
}

uint64_t ofi_regions_add(struct ofi_regions *regions, void *address, size_t bytes,
                         enum card_access access)
{
    const bool is_written = access == CARD_ACCESS_WRITTEN;
    struct region *region = take_region(regions);
    if (region == NULL) return 0;
    region->is_written = is_written;
    if (bytes == 0 || (!is_written && !needs(regions, FI_MR_LOCAL))) return region->key;
    struct registrations *const cache = (is_written ? &regions->written : &regions->own)->cache;
    pthread_mutex_lock(&regions->lock);
    region->registration = registrations_acquire(cache, address, bytes);
    if (region->registration == NULL) say_refusal(regions, bytes);
    pthread_mutex_unlock(&regions->lock);
    if (region->registration == NULL) {
        give_region_back(regions, region);
        return 0;
    }
    region->base = needs(regions, FI_MR_VIRT_ADDR)
                       ? (uint64_t)(uintptr_t)address
                       : (uint64_t)((char *)address - region->registration->begin);
    return region->key;
}

static void release(struct ofi_regions *regions, struct region *region)
{
    if (region->registration == NULL) return;
    pthread_mutex_lock(&regions->lock);
    registrations_release((region->is_written ? &regions->written : &regions->own)->cache,
                          region->registration);
    pthread_mutex_unlock(&regions->lock);
    region->registration = NULL;
}

void ofi_regions_remove(struct ofi_regions *regions, uint64_t key)
{
    struct region *region = region_of(regions, key);
    release(regions, region);
    give_region_back(regions, region);
}

struct card_target ofi_regions_target(const struct ofi_regions *regions, uint64_t key)
{
    const struct region *region = region_of(regions, key);
    return (struct card_target){.key = region->registration->key, .base = region->base};
}

unsigned ofi_regions_count(const struct ofi_regions *regions)
{
    return regions->count;
}

void *ofi_regions_descriptor(const struct ofi_regions *regions, uint64_t key)
{
    const struct registration *registration =
        key != 0 ? region_of(regions, key)->registration : NULL;
    return registration != NULL ? regions->verbs->descriptor(registration->handle) : NULL;
}

void ofi_regions_sweep(struct ofi_regions *regions)
{
    pthread_mutex_lock(&regions->lock);
    if (regions->own.cache != NULL) registrations_sweep(regions->own.cache);
    registrations_sweep(regions->written.cache);
    if (regions->closing_count > 0) close_again(regions);
    pthread_mutex_unlock(&regions->lock);
}

size_t ofi_regions_bytes(const struct ofi_regions *regions)
{
    size_t bytes = sizeof *regions + regions->room * sizeof *regions->table;
    if (regions->own.cache != NULL)
        bytes += registrations_counts(regions->own.cache).footprint_bytes;
    if (regions->written.cache != NULL)
        bytes += registrations_counts(regions->written.cache).footprint_bytes;
    return bytes;
}

/* ----------------------------------------------------------------------------------- life cycle */

static enum tutti_status create_cache(struct ofi_regions *regions, struct kept *kept,
                                      uint64_t rights)
{
    const size_t key_bytes = regions->facts->domain_attr->mr_key_size;
    const bool stays = ofi_regions_stay(regions->facts);
    const struct registrations_device device = {.context = kept,
                                                .register_memory = register_memory,
                                                .unregister_memory = unregister_memory,
                                                .enter = enter,
                                                .leave = leave};
    const struct registrations_options options = {
        .bytes_max = stays ? STAYING_BYTES_MAX : 0,
        .entries_max = stays ? ENTRIES_MAX : 0,
        .key_bits = key_bytes == 0 || key_bytes > 8 ? 64 : 8 * (int)key_bytes};
    *kept = (struct kept){.regions = regions, .rights = rights};
    return registrations_create(&device, &options, &kept->cache);
}

enum tutti_status ofi_regions_create(const struct ofi_calls *calls, const struct fi_info *facts,
                                     struct fid_domain *domain, struct fid_ep *endpoint,
                                     struct ofi_regions **created)
{
    struct ofi_regions *regions = calloc(1, sizeof *regions);
    *created = NULL;
    if (regions == NULL) return error_set(TUTTI_NO_MEMORY, "a network card: out of memory");
    regions->verbs = calls;
    regions->facts = facts;
    regions->space = domain;
    regions->endpoint = endpoint;
    pthread_mutex_init(&regions->lock, NULL);
    enum tutti_status status = create_cache(regions, &regions->written, FI_REMOTE_WRITE);
    if (status == TUTTI_OK && needs(regions, FI_MR_LOCAL))
        status = create_cache(regions, &regions->own, FI_SEND | FI_RECV | FI_WRITE);
    if (status != TUTTI_OK) {
        ofi_regions_free(regions);
        return status;
    }
    *created = regions;
    return TUTTI_OK;
}

int ofi_regions_stop(struct ofi_regions *regions)
{
    for (uint32_t i = 0; i < regions->end; i++)
        if (regions->table[i].key != 0) release(regions, &regions->table[i]);
    registrations_free(regions->own.cache);
    registrations_free(regions->written.cache);
    regions->own.cache = regions->written.cache = NULL;
    close_again(regions);
    return regions->closing_count + regions->unclosed_count > 0 ? regions->close_error : 0;
}

void ofi_regions_free(struct ofi_regions *regions)
{
    if (regions == NULL) return;
    (void)ofi_regions_stop(regions);
    pthread_mutex_destroy(&regions->lock);
    free(regions->table);
    free(regions);
}
