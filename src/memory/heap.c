#include "memory/heap.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "memory/unmapped.h"
#include "os/clock.h"
#include "os/fork.h"
#include "os/process.h"
#include "os/shm.h"

/* An allocation; the list is in order of offsets, free space is what lies between. */
struct block {
    struct block *next;
    size_t offset, bytes;
};

enum { FIRST_SHIFT = 24, EXTENT_COUNT = 22 };
static const uint64_t HEAP_BYTES = ((UINT64_C(1) << EXTENT_COUNT) - 1) << FIRST_SHIFT,
                      RETRY_NS = 10000000;

struct heap_window {
    struct heap_window *next;
    struct heap_location location;
    unsigned users;
    /* The base of each extent; NULL until first used; release after mapping, acquire in readers. */
    _Atomic(char *) bases[EXTENT_COUNT];
    uint64_t retry_ns;         /* under lock; 0: at once */
    _Atomic uint32_t shortage; /* enum tutti_status, of the last try; relaxed */
};

/* Extents of a heap of this process. */
struct extents {
    _Atomic(char *)
        bases[EXTENT_COUNT]; /* NULL: not mapped; released after its length, which readers acquire */
    size_t mapped_bytes[EXTENT_COUNT]; /* less than the extent has where address space is short */
};

/* A heap of a process that this one was forked from. */
struct inherited {
    struct inherited *next;
    uint32_t generation; /* of that process */
    unsigned users;
    int fd;
    struct extents extents;
    struct block *blocks;
};

/* Protects everything here but addresses of extents. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    unsigned users;
    int fd;
    size_t bytes_max; /* of an allocation */
    struct extents extents;
    uint64_t process_key, inode;
    struct block *blocks;
    struct inherited
        *heir; /* where a child puts all this; there from the start, so that it need not allocate */
} heap = {.fd = -1};
static struct inherited *inherited;
static struct heap_window *windows;

/* ---------------------------------------------------------------------------------------- forks */

static void copy_extents(const struct extents *from, struct extents *to)
{
    for (int i = 0; i < EXTENT_COUNT; i++) {
        to->mapped_bytes[i] = from->mapped_bytes[i];
        atomic_store_explicit(&to->bases[i],
                              atomic_load_explicit(&from->bases[i], memory_order_relaxed),
                              memory_order_relaxed);
    }
}

static void forget_extents(struct extents *extents)
{
    for (int i = 0; i < EXTENT_COUNT; i++)
        atomic_store_explicit(&extents->bases[i], NULL, memory_order_relaxed);
}

/* In the child: the parent's heap is still mapped here, and still the parent's. */
static void inherit(bool is_held)
{
    (void)is_held; /* each store leaves lists that can be followed */
    if (heap.users > 0) {
        struct inherited *const heir = heap.heir;
        heir->next = inherited;
        heir->generation = process_generation() - 1;
        heir->users = heap.users;
        heir->fd = heap.fd;
        heir->blocks = heap.blocks;
        copy_extents(&heap.extents, &heir->extents);
        inherited = heir;
        heap.users = 0;
        heap.fd = -1;
        heap.blocks = NULL;
        heap.heir = NULL;
        forget_extents(&heap.extents);
    }
}

__attribute__((constructor)) static void watch_forks(void)
{
    static const struct fork_participant heaps = {.lock = &lock, .child = inherit};
    fork_watch(FORK_HEAP, &heaps);
}

/* -------------------------------------------------------------------------------------- extents */

static size_t extent_bytes(int extent)
{
    return (size_t)1 << (FIRST_SHIFT + extent);
}

static uint64_t extent_begin(int extent)
{
    return ((UINT64_C(1) << extent) - 1) << FIRST_SHIFT;
}

/* The extent of an offset that is not beyond the heap. */
static int extent_of(uint64_t offset)
{
    return 63 - __builtin_clzll((offset >> FIRST_SHIFT) + 1);
}

/* The extent in which a range lies, and how far in the range begins; -1: it does not lie in a
 * single extent. */
static int find_extent(uint64_t offset, uint64_t bytes, uint64_t *distance)
{
    if (offset >= HEAP_BYTES) return -1;
    const int extent = extent_of(offset);
    *distance = offset - extent_begin(extent);
    return bytes <= extent_bytes(extent) - *distance ? extent : -1;
}

static void unmap_extents(struct extents *extents)
{
    for (int i = 0; i < EXTENT_COUNT; i++)
        shm_unmap(atomic_load_explicit(&extents->bases[i], memory_order_relaxed),
                  extents->mapped_bytes[i]);
    forget_extents(extents);
}

/* The extent in which an address lies, and how far in; -1: none. */
static int extent_at(const struct extents *extents, const void *address, size_t *distance)
{
    for (int i = 0; i < EXTENT_COUNT; i++) {
        const char *base = atomic_load_explicit(&extents->bases[i], memory_order_acquire);
        *distance = (uintptr_t)address - (uintptr_t)base;
        if (base != NULL && *distance < extents->mapped_bytes[i]) return i;
    }
    return -1;
}

/* ------------------------------------------------------------------------------------- the heap */

/* An allocation of more than four times the machine's memory is a mistake. */
static size_t largest_allocation(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * page;
    const size_t wanted = memory * 4, least = (size_t)16 << 30, most = (size_t)1 << 40;
    return wanted < least ? least : wanted > most ? most : wanted;
}

static uint64_t fresh_key(void)
{
    uint64_t key;
    if (getrandom(&key, sizeof key, 0) != (ssize_t)sizeof key)
        key = clock_now_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid() << 32;
    return key | 1;
}

static uint64_t inode_of(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 ? (uint64_t)stat.st_ino : 0;
}

static enum tutti_status open_heap(void)
{
    heap.bytes_max = largest_allocation();
    heap.heir = malloc(sizeof *heap.heir);
    if (heap.heir == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    const enum tutti_status status = shm_open_growing("tutti-heap", &heap.fd);
    if (status != TUTTI_OK) {
        free(heap.heir);
        heap.heir = NULL;
        return status;
    }
    heap.process_key = fresh_key();
    heap.inode = inode_of(heap.fd);
    return TUTTI_OK;
}

enum tutti_status heap_acquire(void)
{
    pthread_mutex_lock(&lock);
    const enum tutti_status status = heap.users == 0 ? open_heap() : TUTTI_OK;
    if (status == TUTTI_OK) heap.users++;
    pthread_mutex_unlock(&lock);
    return status;
}

void heap_release(void)
{
    pthread_mutex_lock(&lock);
    if (--heap.users == 0) {
        unmap_extents(&heap.extents);
        close(heap.fd);
        heap.fd = -1;
        free(heap.heir);
        heap.heir = NULL;
    }
    pthread_mutex_unlock(&lock);
}

/* With the lock held. */
static void release_inherited(struct inherited *old)
{
    if (--old->users > 0) return;
    struct inherited **link = &inherited;
    while (*link != old) link = &(*link)->next;
    *link = old->next;
    unmap_extents(&old->extents);
    close(old->fd);
    free(old);
}

void heap_release_of(uint32_t generation)
{
    if (generation == process_generation()) {
        heap_release();
        return;
    }
    pthread_mutex_lock(&lock);
    struct inherited *old = inherited;
    while (old->generation != generation) old = old->next;
    release_inherited(old);
    pthread_mutex_unlock(&lock);
}

struct heap_location heap_location(void)
{
    return (struct heap_location){.process_key = heap.process_key,
                                  .inode = heap.inode,
                                  .bytes = HEAP_BYTES,
                                  .fd = heap.fd,
                                  .pid = getpid()};
}

size_t heap_size(void)
{
    return HEAP_BYTES;
}

bool heap_find(const void *address, size_t bytes, uint64_t *offset)
{
    size_t distance;
    const int extent = extent_at(&heap.extents, address, &distance);
    if (extent < 0 || bytes > heap.extents.mapped_bytes[extent] - distance) return false;
    *offset = extent_begin(extent) + distance;
    return true;
}

bool heap_overlaps(const void *address, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)address;
    for (int i = 0; i < EXTENT_COUNT; i++) {
        const uintptr_t base = (uintptr_t)atomic_load_explicit(
            &heap.extents.bases[i], memory_order_acquire); /* pairs with map_extent */
        if (base != 0 && base < begin + bytes && begin < base + heap.extents.mapped_bytes[i])
            return true;
    }
    return false;
}

const void *heap_at(uint64_t offset, uint64_t bytes)
{
    uint64_t distance;
    const int extent = find_extent(offset, bytes, &distance);
    if (extent < 0) return NULL;
    const char *base = atomic_load_explicit(&heap.extents.bases[extent], memory_order_acquire);
    const bool is_mapped = base != NULL && distance <= heap.extents.mapped_bytes[extent] &&
                           bytes <= heap.extents.mapped_bytes[extent] - distance;
    return is_mapped ? base + distance : NULL;
}

uint64_t heap_bases(void)
{
    static_assert(sizeof heap.extents.bases[0] == sizeof(uint64_t), "others read it as such");
    return (uint64_t)(uintptr_t)heap.extents.bases;
}

bool heap_base_of(uint64_t offset, uint64_t bytes, uint64_t *base, uint64_t *distance)
{
    const int extent = find_extent(offset, bytes, distance);
    if (extent < 0) return false;
    *base = (uint64_t)extent * sizeof heap.extents.bases[0];
    return true;
}

/* First fit in a mapped extent: the link after which the block goes, and its offset; NULL. */
static struct block **find_room(int extent, size_t bytes, size_t *offset)
{
    const size_t begin = extent_begin(extent), end = begin + heap.extents.mapped_bytes[extent];
    struct block **link = &heap.blocks;
    while (*link != NULL && (*link)->offset < begin) link = &(*link)->next;
    *offset = begin;
    while (*link != NULL && (*link)->offset < end && (*link)->offset - *offset < bytes) {
        *offset = (*link)->offset + (*link)->bytes;
        link = &(*link)->next;
    }
    const size_t until = *link != NULL && (*link)->offset < end ? (*link)->offset : end;
    return until - *offset >= bytes ? link : NULL;
}

static bool is_mapped(int extent)
{
    return atomic_load_explicit(&heap.extents.bases[extent], memory_order_relaxed) != NULL;
}

/* Maps an extent for an allocation of so many bytes: all of it, or those alone where there is no
 * address space for more. */
static enum tutti_status map_extent(int extent, size_t bytes)
{
    const uint64_t begin = extent_begin(extent);
    size_t mapped_bytes = extent_bytes(extent);
    void *base;
    TRY(shm_grow(heap.fd, begin + mapped_bytes));
    if (shm_map(heap.fd, begin, mapped_bytes, &base) != TUTTI_OK) {
        mapped_bytes = bytes;
        TRY(shm_map(heap.fd, begin, mapped_bytes, &base));
    }
    heap.extents.mapped_bytes[extent] = mapped_bytes;
    atomic_store_explicit(&heap.extents.bases[extent], base,
                          memory_order_release); /* pairs with extent_at */
    return TUTTI_OK;
}

/* In the first extent that has room, or else in the smallest new one. */
static enum tutti_status place(size_t bytes, struct block ***link, size_t *offset)
{
    int fresh = -1;
    for (int i = 0; i < EXTENT_COUNT; i++) {
        if (extent_bytes(i) < bytes) continue;
        if (!is_mapped(i) && fresh < 0) fresh = i;
        if (is_mapped(i) && (*link = find_room(i, bytes, offset)) != NULL) return TUTTI_OK;
    }
    if (fresh < 0)
        return error_set(TUTTI_NO_SPACE, "tutti_mem_alloc of %zu bytes: heap is full", bytes);
    TRY(map_extent(fresh, bytes));
    *link = find_room(fresh, bytes, offset);
    return TUTTI_OK;
}

static enum tutti_status allocate_locked(size_t bytes, void **memory)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > heap.bytes_max - page)
        return error_set(TUTTI_NO_SPACE, "tutti_mem_alloc of %zu bytes is more than the heap's %zu",
                         bytes, heap.bytes_max);
    bytes = bytes == 0 ? page : (bytes + page - 1) / page * page;
    size_t offset = 0;
    struct block **link;
    TRY(place(bytes, &link, &offset));
    TRY(shm_reserve(heap.fd, offset, bytes));
    struct block *block = malloc(sizeof *block);
    if (block == NULL) {
        shm_release(heap.fd, offset, bytes);
        return error_set(TUTTI_NO_MEMORY, "tutti_mem_alloc: out of memory");
    }
    *block = (struct block){*link, offset, bytes};
    *link = block;
    *memory = (void *)(uintptr_t)heap_at(offset, bytes);
    shm_let_dump(*memory, bytes, true);
    return TUTTI_OK;
}

enum tutti_status heap_allocate(size_t bytes, void **memory)
{
    *memory = NULL;
    TRY(heap_acquire()); /* one use per allocation */
    pthread_mutex_lock(&lock);
    const enum tutti_status status = allocate_locked(bytes, memory);
    pthread_mutex_unlock(&lock);
    if (status != TUTTI_OK) heap_release();
    return status;
}

/* The allocation that begins at that offset, taken out of its list; NULL. */
static struct block *take_block(struct block **link, size_t offset)
{
    while (*link != NULL && (*link)->offset != offset) link = &(*link)->next;
    struct block *const block = *link;
    if (block != NULL) *link = block->next;
    return block;
}

/* The pages behind it stay: they are the parent's. */
static bool free_inherited(const void *memory)
{
    struct block *block = NULL;
    pthread_mutex_lock(&lock);
    for (struct inherited *old = inherited; old != NULL && block == NULL; old = old->next) {
        size_t distance;
        const int extent = extent_at(&old->extents, memory, &distance);
        if (extent >= 0) block = take_block(&old->blocks, extent_begin(extent) + distance);
        if (block == NULL) continue;
        release_inherited(old);
        break;
    }
    pthread_mutex_unlock(&lock);
    free(block);
    return block != NULL;
}

enum tutti_status heap_free(void *memory)
{
    uint64_t offset;
    if (!heap_find(memory, 1, &offset)) {
        if (free_inherited(memory)) return TUTTI_OK;
        return error_set(TUTTI_INVALID_BUFFER, "tutti_mem_free: %p is not from tutti_mem_alloc",
                         memory);
    }
    pthread_mutex_lock(&lock);
    struct block *const block = take_block(&heap.blocks, offset);
    if (block != NULL) {
        unmapped_announce(memory, block->bytes);
        shm_let_dump(memory, block->bytes, false);
        shm_release(heap.fd, block->offset, block->bytes);
    }
    pthread_mutex_unlock(&lock);
    if (block == NULL)
        return error_set(TUTTI_INVALID_BUFFER,
                         "tutti_mem_free: %p is not the start of an allocation", memory);
    free(block);
    heap_release();
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------------- other heaps */

/* A descriptor of the object, which is at least that large; or -1 with errno. */
static int open_location(const struct heap_location *location, uint64_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)location->pid, (int)location->fd);
    errno = ESRCH;
    if (location->pid <= 0 || !process_has_own_proc()) return -1;
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return -1;
    if (inode_of(fd) == location->inode && shm_check_foreign(fd, bytes) == TUTTI_OK) return fd;
    close(fd);
    errno = ESRCH;
    return -1;
}

bool heap_is_reachable(const struct heap_location *location)
{
    const int fd = open_location(location, 0);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

enum tutti_status heap_window_acquire(const struct heap_location *location,
                                      struct heap_window **window)
{
    *window = NULL;
    pthread_mutex_lock(&lock);
    struct heap_window *w = windows;
    while (w != NULL && w->location.process_key != location->process_key) w = w->next;
    if (w == NULL && (w = calloc(1, sizeof *w)) != NULL) {
        w->location = *location;
        w->next = windows;
        windows = w;
    }
    if (w != NULL) w->users++;
    pthread_mutex_unlock(&lock);
    if (w == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    *window = w;
    return TUTTI_OK;
}

void heap_window_release(struct heap_window *window)
{
    if (window == NULL) return;
    pthread_mutex_lock(&lock);
    const bool last = --window->users == 0;
    if (last) {
        struct heap_window **link = &windows;
        while (*link != window) link = &(*link)->next;
        *link = window->next;
    }
    pthread_mutex_unlock(&lock);
    if (!last) return;
    for (int i = 0; i < EXTENT_COUNT; i++)
        shm_unmap(atomic_load_explicit(&window->bases[i], memory_order_relaxed), extent_bytes(i));
    free(window);
}

const struct heap_location *heap_window_location(const struct heap_window *window)
{
    return &window->location;
}

/* A descriptor, or address space, may be there the next time. */
static void note_failure(struct heap_window *window, enum tutti_status shortage)
{
    atomic_store_explicit(&window->shortage, shortage, memory_order_relaxed);
    window->retry_ns = shortage != TUTTI_OK ? clock_now_ns() + RETRY_NS : 0;
}

static enum tutti_status shortage_of(int error)
{
    const bool is_of_files = error == EMFILE || error == ENFILE;
    return is_of_files ? TUTTI_NO_DESCRIPTORS : error == ENOMEM ? TUTTI_NO_MEMORY : TUTTI_OK;
}

static char *try_to_map(struct heap_window *window, int extent)
{
    const uint64_t begin = extent_begin(extent);
    const size_t bytes = extent_bytes(extent);
    if (window->retry_ns != 0 && clock_now_ns() < window->retry_ns) return NULL;
    const int fd = open_location(&window->location, begin + bytes);
    if (fd < 0) {
        note_failure(window, shortage_of(errno));
        return NULL;
    }
    void *mapped;
    const enum tutti_status status = shm_map(fd, begin, bytes, &mapped);
    close(fd);
    note_failure(window, status);
    if (status != TUTTI_OK) return NULL;
    atomic_store_explicit(&window->bases[extent], mapped, memory_order_release);
    return mapped;
}

static char *map_window(struct heap_window *window, int extent)
{
    pthread_mutex_lock(&lock);
    char *base = atomic_load_explicit(&window->bases[extent], memory_order_relaxed);
    if (base == NULL) base = try_to_map(window, extent);
    pthread_mutex_unlock(&lock);
    return base;
}

bool heap_window_holds(const struct heap_window *window, uint64_t offset, uint64_t bytes)
{
    uint64_t distance;
    return offset <= window->location.bytes && bytes <= window->location.bytes - offset &&
           find_extent(offset, bytes, &distance) >= 0;
}

void *heap_window_at(struct heap_window *window, uint64_t offset, uint64_t bytes)
{
    if (!heap_window_holds(window, offset, bytes)) return NULL;
    const int extent = extent_of(offset);
    char *base = atomic_load_explicit(&window->bases[extent],
                                      memory_order_acquire); /* pairs with try_to_map */
    if (base == NULL && (base = map_window(window, extent)) == NULL) return NULL;
    return base + (offset - extent_begin(extent));
}

enum tutti_status heap_window_shortage(const struct heap_window *window)
{
    return (enum tutti_status)atomic_load_explicit(&window->shortage, memory_order_relaxed);
}
