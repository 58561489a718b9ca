#include "memory/heap.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/shm.h"

/* An allocation; the list is in order of offsets, free space is what lies between. */
struct block {
    struct block *next;
    size_t offset, bytes;
};

struct heap_window {
    struct heap_window *next;
    struct heap_location location;
    unsigned users;
    _Atomic(char *) base; /* NULL until first used; release after mapping, acquire in readers */
};

/* A heap of a process that this one was forked from. */
struct inherited {
    struct inherited *next;
    uint32_t generation; /* of that process */
    unsigned users;
    int fd;
    size_t bytes;
    char *base;
    struct block *blocks;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects everything here but heap.base */
static struct {
    unsigned users;
    int fd;
    size_t bytes;
    _Atomic(char *) base; /* set and cleared while no one else can use it; relaxed */
    uint64_t process_key, inode;
    struct block *blocks;
    struct inherited
        *heir; /* where a child puts all this; there from the start, so that it need not allocate */
} heap = {.fd = -1};
static struct inherited *inherited;
static struct heap_window *windows;

/* -------------------------------------------------------------------------------------------- forks */

static void hold(void)
{
    pthread_mutex_lock(&lock);
}

static void let_go(void)
{
    pthread_mutex_unlock(&lock);
}

/* In the child: the parent's heap is still mapped here, and still the parent's. */
static void inherit(void)
{
    if (heap.users > 0) {
        *heap.heir =
            (struct inherited){inherited,  process_generation() - 1,
                               heap.users, heap.fd,
                               heap.bytes, atomic_load_explicit(&heap.base, memory_order_relaxed),
                               heap.blocks};
        inherited = heap.heir;
        heap.users = 0;
        heap.fd = -1;
        heap.blocks = NULL;
        heap.heir = NULL;
        atomic_store_explicit(&heap.base, NULL, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    process_watch_forks(); /* before this module's handler: the generation has changed when that runs */
    pthread_atfork(hold, let_go, inherit);
}

/* ---------------------------------------------------------------------------------------- the heap */

/* Room for four times the machine's memory: address space only, memory is reserved as it is allocated. */
static size_t size_of_heap(void)
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
    void *base = NULL;
    heap.bytes = size_of_heap();
    heap.heir = malloc(sizeof *heap.heir);
    if (heap.heir == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    enum tutti_status status = shm_open_new("tutti-heap", heap.bytes, &heap.fd);
    if (status == TUTTI_OK) status = shm_map(heap.fd, heap.bytes, &base);
    if (status != TUTTI_OK) {
        if (heap.fd >= 0) close(heap.fd);
        heap.fd = -1;
        free(heap.heir);
        heap.heir = NULL;
        return status;
    }
    heap.process_key = fresh_key();
    heap.inode = inode_of(heap.fd);
    atomic_store_explicit(&heap.base, base, memory_order_relaxed);
    return TUTTI_OK;
}

enum tutti_status heap_acquire(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
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
        shm_unmap(atomic_load_explicit(&heap.base, memory_order_relaxed), heap.bytes);
        atomic_store_explicit(&heap.base, NULL, memory_order_relaxed);
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
    shm_unmap(old->base, old->bytes);
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
                                  .bytes = heap.bytes,
                                  .fd = heap.fd,
                                  .pid = getpid()};
}

size_t heap_size(void)
{
    return heap.bytes;
}

bool heap_find(const void *address, size_t bytes, uint64_t *offset)
{
    const char *base = atomic_load_explicit(&heap.base, memory_order_relaxed);
    const uintptr_t distance = (uintptr_t)address - (uintptr_t)base;
    if (base == NULL || distance >= heap.bytes || bytes > heap.bytes - distance) return false;
    *offset = distance;
    return true;
}

const void *heap_at(uint64_t offset, uint64_t bytes)
{
    if (offset > heap.bytes || bytes > heap.bytes - offset) return NULL;
    return atomic_load_explicit(&heap.base, memory_order_relaxed) + offset;
}

/* First fit: the link after which the block goes, and its offset. */
static struct block **find_room(size_t bytes, size_t *offset)
{
    struct block **link = &heap.blocks;
    *offset = 0;
    while (*link != NULL && (*link)->offset - *offset < bytes) {
        *offset = (*link)->offset + (*link)->bytes;
        link = &(*link)->next;
    }
    return *link != NULL || heap.bytes - *offset >= bytes ? link : NULL;
}

static enum tutti_status allocate_locked(size_t bytes, void **memory)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > heap.bytes - page)
        return error_set(TUTTI_NO_SPACE, "tutti_mem_alloc of %zu bytes is more than the heap's %zu",
                         bytes, heap.bytes);
    bytes = bytes == 0 ? page : (bytes + page - 1) / page * page;
    size_t offset;
    struct block **link = find_room(bytes, &offset);
    if (link == NULL)
        return error_set(TUTTI_NO_SPACE, "tutti_mem_alloc of %zu bytes: heap is full", bytes);
    TRY(shm_reserve(heap.fd, offset, bytes));
    struct block *block = malloc(sizeof *block);
    if (block == NULL) {
        shm_release(heap.fd, offset, bytes);
        return error_set(TUTTI_NO_MEMORY, "tutti_mem_alloc: out of memory");
    }
    *block = (struct block){*link, offset, bytes};
    *link = block;
    *memory = atomic_load_explicit(&heap.base, memory_order_relaxed) + offset;
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
        const uintptr_t distance = (uintptr_t)memory - (uintptr_t)old->base;
        if (distance < old->bytes) block = take_block(&old->blocks, distance);
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
    if (block != NULL) shm_release(heap.fd, block->offset, block->bytes);
    pthread_mutex_unlock(&lock);
    if (block == NULL)
        return error_set(TUTTI_INVALID_BUFFER,
                         "tutti_mem_free: %p is not the start of an allocation", memory);
    free(block);
    heap_release();
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- other heaps */

/* A descriptor of the object, or -1. */
static int open_location(const struct heap_location *location)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)location->pid, (int)location->fd);
    const int fd = location->pid > 0 ? open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    if (fd < 0) return -1;
    if (inode_of(fd) == location->inode && shm_check_foreign(fd, location->bytes) == TUTTI_OK)
        return fd;
    close(fd);
    return -1;
}

bool heap_is_reachable(const struct heap_location *location)
{
    const int fd = open_location(location);
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
    shm_unmap(atomic_load_explicit(&window->base, memory_order_relaxed), window->location.bytes);
    free(window);
}

const struct heap_location *heap_window_location(const struct heap_window *window)
{
    return &window->location;
}

static char *map_window(struct heap_window *window)
{
    pthread_mutex_lock(&lock);
    char *base = atomic_load_explicit(&window->base, memory_order_relaxed);
    const int fd = base == NULL ? open_location(&window->location) : -1;
    void *mapped;
    if (fd >= 0 && shm_map(fd, window->location.bytes, &mapped) == TUTTI_OK) {
        base = mapped;
        atomic_store_explicit(&window->base, base, memory_order_release);
    }
    if (fd >= 0) close(fd);
    pthread_mutex_unlock(&lock);
    return base;
}

bool heap_window_holds(const struct heap_window *window, uint64_t offset, uint64_t bytes)
{
    return offset <= window->location.bytes && bytes <= window->location.bytes - offset;
}

void *heap_window_at(struct heap_window *window, uint64_t offset, uint64_t bytes)
{
    if (!heap_window_holds(window, offset, bytes)) return NULL;
    char *base =
        atomic_load_explicit(&window->base, memory_order_acquire); /* pairs with map_window */
    if (base == NULL && (base = map_window(window)) == NULL) return NULL;
    return base + offset;
}
