#include "gpu/shares.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "gpu/executor.h"
#include "gpu/gpu.h"
#include "os/fork.h"
#include "os/process.h"

enum state { WISHED, DONE, FAILED };

struct exported {
    struct gpu_device *device; /* NULL: the place is free */
    uint64_t number;           /* the driver's, of the allocation; 0: it is gone */
    uint64_t told;             /* the number by which other processes know it */
    uintptr_t base;            /* where it begins; WISHED: an address in it */
    size_t bytes;              /* 0: not known */
    enum state state;
    struct gpu_handle handle; /* DONE */
};

struct imported {
    struct gpu_device *device;
    struct memory_share share; /* offset 0 */
    enum state state;
    int descriptor; /* WISHED: this process's copy */
    void *address;
    size_t bytes;
};

FORK_LOCK(lock, FORK_SHARES, NULL);
static pthread_mutex_t opening =
    PTHREAD_MUTEX_INITIALIZER;                   /* held by the thread for which the driver works */
static struct exported exports[GPU_EXPORTS_MAX]; /* under the lock, as all below */
static uint64_t export_count;                    /* ever */
static uint64_t freed_bytes;                     /* of allocations that had been exported */
static struct imported imports[GPU_IMPORTS_MAX];
static unsigned import_count;
static uint64_t process;
static unsigned placeless_count; /* exports, ever, that found no place */
static bool wishes_for_places;   /* counts among the wishes */
/* Changed under the lock; a look without it that finds none is repeated at the next call. */
static atomic_uint wish_count;

/* Kinds whose functions these are belong to devices. */
static struct gpu_device *device_of(const struct memory_kind *kind)
{
    return (struct gpu_device *)((uintptr_t)kind - offsetof(struct gpu_device, kind));
}

/* Looks for the address too: several allocations of memory that was mapped by hand may have one
 * number. */
static struct exported *find_export(const struct gpu_device *device, uint64_t number,
                                    const void *address)
{
    for (unsigned e = 0; e < GPU_EXPORTS_MAX; e++) {
        struct exported *const found = &exports[e];
        if (found->device == device && found->number == number &&
            (found->bytes == 0 || (uintptr_t)address - found->base < found->bytes))
            return found;
    }
    return NULL;
}

static void end_wish(enum state *state, enum state now)
{
    *state = now;
    atomic_fetch_sub_explicit(&wish_count, 1, memory_order_relaxed);
}

/* To look for places takes a question for each: so that is only done for as many messages that
 * would need one. */
static void wish_for_places(void)
{
    if (++placeless_count % GPU_EXPORTS_MAX != 0 || wishes_for_places) return;
    wishes_for_places = true;
    atomic_fetch_add_explicit(&wish_count, 1, memory_order_relaxed);
}

/* For nothing if there is no place. */
static void wish_export(struct gpu_device *device, uint64_t number, const void *address)
{
    struct exported *const place = find_export(NULL, 0, NULL);
    if (place == NULL) {
        wish_for_places();
        return;
    }
    *place = (struct exported){.device = device,
                               .number = number,
                               .told = ++export_count,
                               .base = (uintptr_t)address,
                               .state = WISHED};
    atomic_fetch_add_explicit(&wish_count, 1, memory_order_relaxed);
}

/* With the lock; 0: the system gives no random number now. */
static uint64_t own_process(void)
{
    if (process == 0 && getrandom(&process, sizeof process, GRND_NONBLOCK) != sizeof process)
        process = 0;
    return process;
}

static bool fill_share(const struct exported *made, const void *address, size_t bytes,
                       struct memory_share *share)
{
    const uintptr_t offset = (uintptr_t)address - made->base;
    if (made->state != DONE || offset >= made->bytes || bytes > made->bytes - offset) return false;
    *share = (struct memory_share){.process = own_process(),
                                   .process_at = (uintptr_t)&process,
                                   .descriptor = made->handle.descriptor,
                                   .number = made->told,
                                   .bytes = made->bytes,
                                   .offset = offset};
    static_assert(sizeof share->handle == sizeof made->handle.bytes, "one is the other");
    memcpy(share->handle, made->handle.bytes, sizeof share->handle);
    return share->process != 0;
}

/* The driver's number of the allocation at an address; 0: it is no memory of that device that has
 * one. */
static uint64_t number_at(const struct gpu_device *device, const void *address)
{
    struct gpu_memory memory;
    char before[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    if (device->driver->find(address, &memory) != TUTTI_OK) {
        error_unless_ok(TUTTI_OK, before);
        return 0;
    }
    const bool is_its = memory.place == GPU_DEVICE_MEMORY && memory.device == device->number;
    return is_its ? memory.buffer : 0;
}

static bool is_mapped_by_hand(const struct exported *made)
{
    return made->state == DONE && made->handle.descriptor >= 0;
}

/* Whether an allocation is not the same any more as when it was exported. */
static bool is_gone(const struct exported *was)
{
    const void *const base = (const void *)was->base;
    if (was->number == 0) return true;
    return is_mapped_by_hand(was) ? !was->device->driver->is_kept(base, was->bytes, &was->handle)
                                  : number_at(was->device, base) != was->number;
}

/* The next call with such memory wishes for it anew. */
static void retire(const struct exported *was)
{
    pthread_mutex_lock(&lock);
    for (unsigned e = 0; e < GPU_EXPORTS_MAX; e++)
        if (exports[e].device != NULL && exports[e].told == was->told) exports[e].number = 0;
    pthread_mutex_unlock(&lock);
}

bool gpu_shares_share(const struct memory_kind *kind, const void *address, size_t bytes,
                      struct memory_share *share)
{
    struct gpu_device *const device = device_of(kind);
    const uint64_t number = number_at(device, address);
    struct exported was = {.device = NULL};
    if (number == 0) return false;
    pthread_mutex_lock(&lock);
    const struct exported *const made = find_export(device, number, address);
    const bool is_there = made != NULL && fill_share(made, address, bytes, share);
    if (made != NULL && is_mapped_by_hand(made)) was = *made;
    if (made == NULL) wish_export(device, number, address);
    pthread_mutex_unlock(&lock);
    if (was.device == NULL || !is_gone(&was)) return is_there;
    retire(&was);
    return false;
}

static struct imported *find_import(const struct gpu_device *device,
                                    const struct memory_share *share)
{
    for (unsigned i = 0; i < import_count; i++) {
        const struct memory_share *const theirs = &imports[i].share;
        if (imports[i].device == device && theirs->number == share->number &&
            theirs->process == share->process && theirs->bytes == share->bytes &&
            memcmp(theirs->handle, share->handle, sizeof theirs->handle) == 0)
            return &imports[i];
    }
    return NULL;
}

static enum memory_mapping wish_import(struct gpu_device *device, const struct memory_share *share)
{
    int descriptor = -1;
    /* At once: later that may be the number of another descriptor. */
    if (share->descriptor >= 0)
        descriptor = process_copy_descriptor(share->pid, share->descriptor, share->process_at,
                                             share->process);
    if (share->descriptor >= 0 && descriptor < 0) {
        log_write(LOG_INFO,
                  "GPU %d does not read memory of process %d where it lies: a descriptor of that "
                  "process cannot be copied (pidfd_getfd): %s",
                  device->number, (int)share->pid, strerror(errno));
        return MEMORY_REFUSED; /* and takes no place from what can be mapped */
    }
    struct imported *const wish = &imports[import_count++];
    *wish = (struct imported){
        .device = device, .share = *share, .state = WISHED, .descriptor = descriptor};
    wish->share.offset = 0;
    atomic_fetch_add_explicit(&wish_count, 1, memory_order_relaxed);
    return MEMORY_NOT_YET;
}

enum memory_mapping gpu_shares_map(const struct memory_kind *kind, const struct memory_share *share,
                                   void **address, size_t *bytes)
{
    struct gpu_device *const device = device_of(kind);
    enum memory_mapping mapping = MEMORY_NOT_YET;
    pthread_mutex_lock(&lock);
    const struct imported *const found = find_import(device, share);
    if (found == NULL && import_count < GPU_IMPORTS_MAX) {
        mapping = wish_import(device, share);
    } else if (found == NULL || found->state == FAILED) {
        mapping = MEMORY_REFUSED;
    } else if (found->state == DONE) {
        mapping = MEMORY_MAPPED;
        *address = found->address;
        *bytes = found->bytes;
    }
    pthread_mutex_unlock(&lock);
    return mapping;
}

/* --------------------------------------------------------------------------------------- wishes */

static bool may_export(const struct gpu_device *device)
{
    pthread_mutex_lock(&lock);
    const bool may = freed_bytes <= device->memory_bytes / GPU_FREED_SHARE;
    pthread_mutex_unlock(&lock);
    return may;
}

static void tell_refusal(const struct exported *wish, bool may)
{
    log_write(LOG_INFO, "GPU %d: other processes do not read memory at %#llx where it lies: %s",
              wish->device->number, (unsigned long long)wish->base,
              may ? tutti_error_message() : "too much that they had been given was freed");
}

/* By the address, which may be another allocation's by now: so its number is asked for again when
 * its handle is there. Memory that was mapped by hand is kept from now on, so it is counted,
 * whatever its number has become. Until it is made, only this thread changes it. */
static void make_export(struct exported *wish)
{
    struct exported made = *wish;
    const void *const address = (const void *)wish->base;
    size_t offset = 0;
    const bool may = may_export(made.device);
    bool is_made = may && made.device->driver->export_memory(made.device, address, &made.handle,
                                                             &offset, &made.bytes) == TUTTI_OK;
    if (!is_made) tell_refusal(&made, may);
    const uint64_t number = number_at(made.device, address);
    const bool is_same = number == wish->number;
    if (is_made && made.handle.descriptor >= 0)
        made.number = number;
    else
        is_made = is_made && is_same;
    made.base -= offset;
    pthread_mutex_lock(&lock);
    *wish = made;
    end_wish(&wish->state, is_made ? DONE : FAILED);
    if (!is_made && !is_same)
        *wish = (struct exported){.device = NULL}; /* it was of other memory */
    pthread_mutex_unlock(&lock);
}

/* Gives back the places of allocations that are no more; no operation uses them. Only the thread
 * that has `opening` does so. */
static void forget_gone(void)
{
    for (unsigned e = 0; e < GPU_EXPORTS_MAX; e++) {
        struct exported *const made = &exports[e];
        pthread_mutex_lock(&lock);
        const struct exported was = *made;
        pthread_mutex_unlock(&lock);
        if (was.device == NULL || was.state == WISHED || !is_gone(&was)) continue;
        if (is_mapped_by_hand(&was)) close(was.handle.descriptor);
        pthread_mutex_lock(&lock);
        if (was.state == DONE) freed_bytes += was.bytes;
        *made = (struct exported){.device = NULL};
        pthread_mutex_unlock(&lock);
    }
}

static void make_import(struct imported *import)
{
    struct gpu_device *const device = import->device; /* it stays as it is, and so does the share */
    struct gpu_handle handle = {.descriptor = import->descriptor};
    void *address = NULL;
    memcpy(handle.bytes, import->share.handle, sizeof handle.bytes);
    const bool is_made =
        device->driver->import_memory(device, &handle, import->share.bytes, &address) == TUTTI_OK;
    if (!is_made)
        log_write(LOG_INFO, "GPU %d does not read memory of another process where it lies: %s",
                  device->number, tutti_error_message());
    if (import->descriptor >= 0) close(import->descriptor);
    pthread_mutex_lock(&lock);
    import->address = address;
    import->bytes = (size_t)import->share.bytes;
    end_wish(&import->state, is_made ? DONE : FAILED);
    pthread_mutex_unlock(&lock);
}

static bool take_wish_for_places(void)
{
    pthread_mutex_lock(&lock);
    const bool is_wished = wishes_for_places;
    wishes_for_places = false;
    if (is_wished) atomic_fetch_sub_explicit(&wish_count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    return is_wished;
}

static struct exported *next_wished_export(const struct gpu_device *device)
{
    struct exported *found = NULL;
    pthread_mutex_lock(&lock);
    for (unsigned e = 0; e < GPU_EXPORTS_MAX && found == NULL; e++)
        if (exports[e].device == device && exports[e].state == WISHED) found = &exports[e];
    pthread_mutex_unlock(&lock);
    return found;
}

static struct imported *next_wished_import(const struct gpu_device *device)
{
    struct imported *found = NULL;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < import_count && found == NULL; i++)
        if (imports[i].device == device && imports[i].state == WISHED) found = &imports[i];
    pthread_mutex_unlock(&lock);
    return found;
}

void gpu_shares_open(struct gpu_device *device)
{
    struct exported *export;
    struct imported *import;
    char before[ERROR_TEXT_MAX];
    if (atomic_load_explicit(&wish_count, memory_order_relaxed) == 0) return;
    if (pthread_mutex_trylock(&opening) != 0) return; /* the next call looks again */
    error_copy(before, sizeof before);
    if (take_wish_for_places() || next_wished_export(device) != NULL) forget_gone();
    /* Others may wish meanwhile: each has its turn once, so that this ends. */
    for (unsigned turns = 0;
         turns < GPU_EXPORTS_MAX && (export = next_wished_export(device)) != NULL; turns++)
        make_export(export);
    /* A driver may wait to map for all that is on the device: for a worker, too, that waits for
     * this call, say as another rank of this process. */
    if (next_wished_import(device) != NULL && gpu_run_keep_out(device)) {
        for (unsigned turns = 0;
             turns < GPU_IMPORTS_MAX && (import = next_wished_import(device)) != NULL; turns++)
            make_import(import);
        gpu_run_let_in();
    }
    error_unless_ok(TUTTI_OK, before);
    pthread_mutex_unlock(&opening);
}
