/* A cache of registrations, over a device that really holds the pages: it keeps them in a pipe
 * (vmsplice), so that what lies at an address and what the device sees there differ as soon as a
 * registration is stale.
 *
 * Tests that unmap memory run three times: as we are, as another user without privileges, and where
 * a filter forbids userfaultfd.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/registrations.h"
#include "memory/unmapped.h"
#include "os/clock.h"
#include "os/userfault.h"
#include "tests/kit/belongings.h"
#include "tests/kit/chance.h"
#include "tests/kit/sanitized.h"

enum { PAGE = 4096, HELD_PAGES = 16 /* the bytes that a pipe takes */, KEYS_MAX = 1 << 14 };

/* ----------------------------------------------------------------------------------- the device */

struct held_memory {
    char *begin;
    size_t bytes;
    int ends[2]; /* the pipe; -1: this device does not hold pages */
};

struct device {
    bool holds_pages;
    size_t bytes, bytes_max; /* registered; NO_MEMORY above */
    size_t entries;
    unsigned calls, refusals;
    const char *forbidden; /* registering its page fails for another reason */
    uint64_t keys[KEYS_MAX];
    unsigned key_count;
    _Atomic int driver; /* for enter */
    bool may_enter;
};

static bool hold_pages(struct held_memory *held)
{
    struct iovec whole = {held->begin, held->bytes};
    /* As a device that writes: no page of zeros that a write would replace. */
    if (madvise(held->begin, held->bytes, 23 /* MADV_POPULATE_WRITE */) != 0) return false;
    return vmsplice(held->ends[1], &whole, 1, SPLICE_F_NONBLOCK) == (ssize_t)held->bytes;
}

static enum tutti_status hold(struct device *device, struct held_memory *held)
{
    if (!device->holds_pages) return TUTTI_OK;
    if (held->bytes > HELD_PAGES * PAGE || pipe2(held->ends, O_CLOEXEC) != 0) return TUTTI_SYSTEM;
    if (hold_pages(held)) return TUTTI_OK;
    close(held->ends[0]);
    close(held->ends[1]);
    return TUTTI_SYSTEM;
}

static enum tutti_status register_memory(void *context, void *address, size_t bytes, uint64_t *key,
                                         void **handle)
{
    struct device *const device = context;
    assert_int_equal((uintptr_t)address % PAGE, 0);
    assert_int_equal(bytes % PAGE, 0);
    assert_true(bytes > 0);
    device->calls++;
    for (unsigned i = 0; i < device->key_count; i++) assert_true(device->keys[i] != *key);
    if (device->key_count < KEYS_MAX) device->keys[device->key_count++] = *key;
    const uintptr_t begin = (uintptr_t)address, bad = (uintptr_t)device->forbidden;
    enum tutti_status status = device->bytes + bytes > device->bytes_max ? TUTTI_NO_MEMORY
                               : bad >= begin && bad < begin + bytes     ? TUTTI_SYSTEM
                                                                         : TUTTI_OK;
    struct held_memory *const held = malloc(sizeof *held);
    assert_non_null(held);
    *held = (struct held_memory){address, bytes, {-1, -1}};
    if (status == TUTTI_OK) status = hold(device, held);
    if (status != TUTTI_OK) {
        free(held);
        device->refusals++;
        return status;
    }
    device->bytes += bytes;
    device->entries++;
    *handle = held;
    return TUTTI_OK;
}

static void unregister_memory(void *context, void *handle)
{
    struct device *const device = context;
    struct held_memory *const held = handle;
    device->bytes -= held->bytes;
    device->entries--;
    if (held->ends[0] >= 0) {
        close(held->ends[0]);
        close(held->ends[1]);
    }
    free(held);
}

static bool enter(void *context, uint64_t deadline_ns)
{
    struct device *const device = context;
    assert_true(deadline_ns > clock_now_ns());
    int free_now = 0;
    return device->may_enter && atomic_compare_exchange_strong(&device->driver, &free_now, 1);
}

static void leave(void *context)
{
    atomic_store(&((struct device *)context)->driver, 0);
}

/* The byte that the device sees at an address; the device's pages stay. */
static unsigned char seen_by_device(const struct registration *registration, const char *address)
{
    const struct held_memory *const held = registration->handle;
    static unsigned char copy[HELD_PAGES * PAGE];
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(tee(held->ends[0], ends[1], held->bytes, 0), held->bytes);
    size_t at = 0;
    while (at < held->bytes) {
        const ssize_t bytes = read(ends[0], copy + at, held->bytes - at);
        assert_true(bytes > 0);
        at += (size_t)bytes;
    }
    close(ends[0]);
    close(ends[1]);
    return copy[address - held->begin];
}

static struct device device;

static struct registrations *cache_of(size_t bytes_max, size_t entries_max, int key_bits)
{
    const struct registrations_device calls = {&device, register_memory, unregister_memory, enter,
                                               leave};
    const struct registrations_options options = {bytes_max, entries_max, key_bits};
    struct registrations *cache;
    assert_int_equal(registrations_create(&calls, &options, &cache), TUTTI_OK);
    return cache;
}

static struct registrations *large_cache(void)
{
    return cache_of((size_t)1 << 40, 1000, 64);
}

static int begin_test(void **state)
{
    (void)state;
    memset(&device, 0, sizeof device);
    device.bytes_max = SIZE_MAX / 2;
    device.may_enter = true;
    return 0;
}

/* Whatever a test did, the device has nothing left. */
static int end_test(void **state)
{
    (void)state;
    return device.bytes == 0 && device.entries == 0 ? 0 : -1;
}

/* -------------------------------------------------------------------------------------- helpers */

static char *map(size_t pages)
{
    char *const memory =
        mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

static bool contains(const struct registration *registration, const char *address, size_t bytes)
{
    return registration != NULL && registration->begin <= address &&
           registration->begin + registration->bytes >= address + bytes;
}

static const struct registration *acquire(struct registrations *cache, const char *address,
                                          size_t bytes)
{
    const struct registration *const got = registrations_acquire(cache, address, bytes);
    assert_true(contains(got, address, bytes));
    return got;
}

/* Acquires and releases; whether it was there before. */
static bool is_hit(struct registrations *cache, const char *address, size_t bytes)
{
    const uint64_t hits = registrations_counts(cache).hits;
    registrations_release(cache, acquire(cache, address, bytes));
    return registrations_counts(cache).hits > hits;
}

/* Allocates from tutti_mem_alloc: such memory is known whatever the system can tell. */
static char *allocate(size_t pages)
{
    void *memory;
    assert_int_equal(tutti_mem_alloc(pages * PAGE, &memory), TUTTI_OK);
    return memory;
}

/* ----------------------------------------------------------------------------------- what stays */

static void what_was_registered_is_found_again(void **state)
{
    (void)state;
    struct registrations *const cache = large_cache();
    char *const memory = allocate(4);
    const struct registration *const first = acquire(cache, memory + 10, PAGE);
    assert_ptr_equal(first->begin, memory);
    assert_int_equal(first->bytes, 2 * PAGE);
    assert_ptr_equal(acquire(cache, memory + 2 * PAGE - 1, 1), first);
    assert_int_equal(registrations_counts(cache).in_use, 1);
    registrations_release(cache, first);
    registrations_release(cache, first);
    assert_ptr_equal(acquire(cache, memory, 2 * PAGE), first);
    registrations_release(cache, first);
    const struct registrations_counts counts = registrations_counts(cache);
    assert_int_equal(counts.hits, 2);
    assert_int_equal(counts.misses, 1);
    assert_int_equal(counts.entries, 1);
    assert_int_equal(counts.in_use, 0);
    assert_int_equal(registrations_bytes(cache), 2 * PAGE);
    assert_true(counts.footprint_bytes > 0);
    registrations_free(cache);
    assert_int_equal(tutti_mem_free(memory), TUTTI_OK);
}

static void neighbours_become_one_while_that_costs_little(void **state)
{
    (void)state;
    struct registrations *const cache = large_cache();
    char *const memory = allocate(64);
    assert_false(is_hit(cache, memory, PAGE));
    assert_false(is_hit(cache, memory + PAGE, PAGE)); /* touches: both */
    assert_true(is_hit(cache, memory, 2 * PAGE));
    assert_int_equal(device.entries, 1);
    assert_false(is_hit(cache, memory + PAGE, 3 * PAGE)); /* overlaps */
    assert_int_equal(device.entries, 1);
    assert_int_equal(device.bytes, 4 * PAGE);
    assert_false(is_hit(cache, memory + 4 * PAGE, PAGE)); /* one page is not worth four */
    assert_int_equal(device.entries, 2);
    assert_false(is_hit(cache, memory + 10 * PAGE, PAGE)); /* apart */
    assert_int_equal(device.entries, 3);
    assert_false(is_hit(cache, memory, 64 * PAGE)); /* all are in it */
    assert_int_equal(device.entries, 1);
    registrations_free(cache);
    assert_int_equal(tutti_mem_free(memory), TUTTI_OK);
}

static void a_larger_one_leaves_those_in_use(void **state)
{
    (void)state;
    struct registrations *const cache = large_cache();
    char *const memory = allocate(4);
    const struct registration *const small = acquire(cache, memory, PAGE);
    const struct registration *const large = acquire(cache, memory, 4 * PAGE);
    assert_int_equal(device.entries, 2);
    assert_true(small->key != large->key);
    registrations_release(cache, small);
    registrations_release(cache, large);
    assert_true(is_hit(cache, memory, 4 * PAGE));
    registrations_free(cache);
    assert_int_equal(tutti_mem_free(memory), TUTTI_OK);
}

/* Memory that cannot be registered together with a neighbour is registered without it. */
static void a_bad_neighbour_is_left_out(void **state)
{
    (void)state;
    struct registrations *const cache = large_cache();
    char *const memory = allocate(2);
    assert_false(is_hit(cache, memory, PAGE));
    device.forbidden = memory;
    assert_false(is_hit(cache, memory + PAGE, PAGE));
    assert_int_equal(device.entries, 2);
    assert_null(registrations_acquire(cache, memory, 2 * PAGE));
    assert_int_equal(registrations_counts(cache).refusals, 1);
    assert_int_equal(device.entries, 2);
    registrations_free(cache);
    assert_int_equal(tutti_mem_free(memory), TUTTI_OK);
}

static void the_longest_idle_goes_first(void **state)
{
    (void)state;
    struct registrations *const cache = cache_of((size_t)1 << 40, 3, 64);
    char *const memory = allocate(20);
    const struct registration *const used = acquire(cache, memory, PAGE);
    assert_false(is_hit(cache, memory + 4 * PAGE, PAGE));
    assert_false(is_hit(cache, memory + 8 * PAGE, PAGE));
    assert_true(is_hit(cache, memory + 4 * PAGE, PAGE));
    assert_false(is_hit(cache, memory + 12 * PAGE, PAGE));
    assert_int_equal(device.entries, 3);
    assert_true(is_hit(cache, memory + 4 * PAGE, PAGE));
    assert_true(is_hit(cache, memory, PAGE));
    assert_false(is_hit(cache, memory + 8 * PAGE, PAGE));
    assert_int_equal(registrations_counts(cache).evictions, 2);
    registrations_release(cache, used);
    registrations_free(cache);
    assert_int_equal(tutti_mem_free(memory), TUTTI_OK);
}

static void the_bound_on_bytes_spares_what_is_used(void **state)
{
    (void)state;
    struct registrations *const cache = cache_of(4 * PAGE, 100, 64);
    char *const memory = allocate(40);
    const struct registration *const used = acquire(cache, memory, 3 * PAGE);
    const struct registration *const also = acquire(cache, memory + 10 * PAGE, 3 * PAGE);
    assert_int_equal(device.bytes, 6 * PAGE); /* above the bound, as nothing is idle */
    registrations_release(cache, also);
    assert_int_equal(device.bytes, 3 * PAGE);
    assert_false(is_hit(cache, memory + 20 * PAGE, PAGE));
    assert_true(is_hit(cache, memory + 20 * PAGE, PAGE));
    registrations_release(cache, used);
    assert_int_equal(device.bytes, 4 * PAGE);
    registrations_free(cache);
    assert_int_equal(tutti_mem_free(memory), TUTTI_OK);
}

static void a_device_that_is_full_gets_room(void **state)
{
    (void)state;
    struct registrations *const cache = large_cache();
    char *const memory = allocate(40);
    device.bytes_max = 4 * PAGE;
    assert_false(is_hit(cache, memory, PAGE));
    const struct registration *const used = acquire(cache, memory + 4 * PAGE, PAGE);
    assert_false(is_hit(cache, memory + 8 * PAGE, PAGE));
    assert_false(is_hit(cache, memory + 12 * PAGE, 3 * PAGE)); /* two had to go */
    assert_int_equal(registrations_counts(cache).evictions, 2);
    assert_null(registrations_acquire(cache, memory + 20 * PAGE, 4 * PAGE));
    assert_int_equal(registrations_counts(cache).entries, 1);
    /* It is not worth evicting again and again for memory that cannot fit. */
    assert_false(is_hit(cache, memory + 8 * PAGE, PAGE));
    for (int i = 0; i < 10; i++)
        assert_null(registrations_acquire(cache, memory + 20 * PAGE, 4 * PAGE));
    assert_true(is_hit(cache, memory + 8 * PAGE, PAGE));
    /* Once the limit has grown, though by less than the idle bytes, the memory fits. */
    assert_false(is_hit(cache, memory, 2 * PAGE));
    device.bytes_max = 5 * PAGE;
    const struct registration *got = NULL;
    for (int i = 0; i < 200 && got == NULL; i++)
        got = registrations_acquire(cache, memory + 20 * PAGE, 4 * PAGE);
    assert_non_null(got);
    registrations_release(cache, got);
    registrations_release(cache, used);
    registrations_free(cache);
    assert_int_equal(tutti_mem_free(memory), TUTTI_OK);
}

/* 256 keys and no more; the device itself compares them. */
static void no_key_comes_twice(void **state)
{
    (void)state;
    struct registrations *const cache = cache_of(0, 0, 8);
    char *const memory = allocate(1);
    for (int i = 0; i < 256; i++) {
        const struct registration *const got = acquire(cache, memory, PAGE);
        assert_true(got->key < 256);
        registrations_release(cache, got);
        assert_int_equal(device.entries, 0); /* it keeps nothing */
    }
    assert_null(registrations_acquire(cache, memory, PAGE));
    registrations_free(cache);
    assert_int_equal(device.calls, 256);
    struct registrations *const other = large_cache(), *const third = large_cache();
    const struct registration *const a = acquire(other, memory, 1), *b = acquire(third, memory, 1);
    assert_true(a->key != b->key); /* but for one in 2^64 */
    registrations_release(other, a);
    registrations_release(third, b);
    registrations_free(other);
    registrations_free(third);
    assert_int_equal(tutti_mem_free(memory), TUTTI_OK);
}

/* ------------------------------------------------------------- memory of ours, and given memory */

static void freed_memory_is_not_found(void **state)
{
    (void)state;
    struct registrations *const cache = large_cache();
    char *const keep = allocate(1), *memory = allocate(4);
    assert_false(is_hit(cache, memory, 4 * PAGE));
    const struct registration *const used = acquire(cache, keep, 1);
    assert_int_equal(tutti_mem_free(memory), TUTTI_OK);
    char *const next = allocate(4);
    assert_ptr_equal(next, memory); /* the same place, other pages */
    assert_false(is_hit(cache, next, 4 * PAGE));
    assert_ptr_equal(acquire(cache, keep, 1), used);
    registrations_release(cache, used);
    registrations_release(cache, used);
    assert_int_equal(tutti_mem_free(next), TUTTI_OK);
    registrations_sweep(cache);
    assert_int_equal(device.entries, 1);
    registrations_free(cache);
    assert_int_equal(tutti_mem_free(keep), TUTTI_OK);
}

static void given_memory_is_registered_as_a_whole_and_let_go(void **state)
{
    (void)state;
    struct registrations *const cache = large_cache();
    char *const memory = map(20);
    assert_int_equal(tutti_mem_register(memory + 100, 10 * PAGE), TUTTI_OK);
    const struct registration *const used = acquire(cache, memory + PAGE, 1);
    assert_ptr_equal(used->begin, memory);
    assert_int_equal(used->bytes, 11 * PAGE);
    assert_ptr_equal(acquire(cache, memory + 100, 10 * PAGE), used);
    registrations_release(cache, used);
    assert_int_equal(tutti_mem_unregister(memory + 100), TUTTI_IN_PROGRESS);
    assert_int_equal(device.entries, 1);
    assert_true(is_hit(cache, memory + PAGE, 1)); /* still given */
    registrations_release(cache, used);
    device.may_enter = false;
    assert_int_equal(tutti_mem_unregister(memory + 100), TUTTI_IN_PROGRESS);
    assert_int_equal(device.entries, 1);
    device.may_enter = true;
    assert_int_equal(tutti_mem_unregister(memory + 100), TUTTI_OK);
    assert_int_equal(device.entries, 0); /* by now, not some time */
    registrations_free(cache);
    munmap(memory, 20 * PAGE);
}

/* A registration of given memory is evicted and made again like any other; a part of given memory
 * that is larger than the bound is registered alone. */
static void given_memory_has_no_privilege(void **state)
{
    (void)state;
    struct registrations *const cache = cache_of(4 * PAGE, 100, 64);
    char *const memory = map(20);
    assert_int_equal(tutti_mem_register(memory, 4 * PAGE), TUTTI_OK);
    assert_int_equal(tutti_mem_register(memory + 4 * PAGE, 16 * PAGE), TUTTI_OK);
    assert_false(is_hit(cache, memory, 1));
    assert_int_equal(device.bytes, 4 * PAGE);
    assert_false(is_hit(cache, memory + 5 * PAGE, PAGE));
    assert_int_equal(device.bytes, PAGE);
    assert_false(is_hit(cache, memory, 1));
    assert_int_equal(tutti_mem_unregister(memory + 4 * PAGE), TUTTI_OK);
    assert_true(is_hit(cache, memory, 1));
    assert_int_equal(tutti_mem_unregister(memory), TUTTI_OK);
    assert_int_equal(device.entries, 0);
    registrations_free(cache);
    munmap(memory, 20 * PAGE);
}

/* ----------------------------------------------------------------------------- memory that goes */

/* How memory goes; afterwards other pages are at its address, which hold 0. */
enum change { CHANGE_UNMAP, CHANGE_REPLACE, CHANGE_MOVE, CHANGE_DISCARD, CHANGE_COUNT };

static bool change_memory(char *memory, size_t bytes, enum change change)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS, may = PROT_READ | PROT_WRITE;
    switch (change) {
    case CHANGE_UNMAP:
        return munmap(memory, bytes) == 0 &&
               mmap(memory, bytes, may, flags | MAP_FIXED_NOREPLACE, -1, 0) == memory;
    case CHANGE_REPLACE: return mmap(memory, bytes, may, flags | MAP_FIXED, -1, 0) == memory;
    case CHANGE_MOVE: {
        char *const room = mmap(NULL, bytes, PROT_NONE, flags, -1, 0);
        return room != MAP_FAILED &&
               mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, room) == room &&
               munmap(room, bytes) == 0 &&
               mmap(memory, bytes, may, flags | MAP_FIXED_NOREPLACE, -1, 0) == memory;
    }
    case CHANGE_DISCARD: return madvise(memory, bytes, MADV_DONTNEED) == 0;
    default: return false;
    }
}

struct task {
    char *memory;
    size_t bytes;
    enum change change;
};

static void *change_in_thread(void *context)
{
    const struct task *const task = context;
    return change_memory(task->memory, task->bytes, task->change) ? NULL : context;
}

static void change_elsewhere(char *memory, size_t bytes, enum change change)
{
    struct task task = {memory, bytes, change};
    pthread_t thread;
    void *failure;
    assert_int_equal(pthread_create(&thread, NULL, change_in_thread, &task), 0);
    pthread_join(thread, &failure);
    assert_null(failure);
}

static void memory_that_goes_is_not_found(void **state)
{
    (void)state;
    device.holds_pages = true;
    struct registrations *const cache = large_cache();
    char *const memory = map(8);
    memset(memory, 1, 8 * PAGE);
    for (int change = 0; change < CHANGE_COUNT; change++) {
        for (int in_use = 0; in_use < 2; in_use++) {
            const struct registration *const before = acquire(cache, memory + PAGE, 4 * PAGE);
            memory[2 * PAGE] = 'a';
            assert_int_equal(seen_by_device(before, memory + 2 * PAGE), 'a');
            if (!in_use) registrations_release(cache, before);
            change_elsewhere(memory + 2 * PAGE, PAGE, (enum change)change);
            const struct registration *const after = acquire(cache, memory + PAGE, 4 * PAGE);
            memory[2 * PAGE] = 'b';
            assert_int_equal(seen_by_device(after, memory + 2 * PAGE), 'b');
            if (in_use) {
                assert_int_equal(seen_by_device(before, memory + 2 * PAGE), 'a');
                registrations_release(cache, before);
            }
            registrations_release(cache, after);
            if (unmapped_is_possible()) assert_true(is_hit(cache, memory + PAGE, 4 * PAGE));
        }
    }
    registrations_free(cache);
    munmap(memory, 8 * PAGE);
}

static void freed_blocks_are_not_found(void **state)
{
    (void)state;
    if (IS_SANITIZED) return; /* its malloc keeps freed memory */
    device.holds_pages = true;
    struct registrations *const cache = large_cache();
    enum { BYTES = 1 << 20 };
    for (int turn = 0; turn < 50; turn++) {
        char *const memory = malloc(BYTES);
        assert_non_null(memory);
        char *const part = memory + BYTES / 2;
        const struct registration *const got = acquire(cache, part, 5 * PAGE);
        part[3] = (char)turn;
        assert_int_equal(seen_by_device(got, part + 3), turn);
        registrations_release(cache, got);
        free(memory);
    }
    registrations_free(cache);
}

/* Memory that the kernel does not tell of is registered again each time. */
static void files_and_shared_memory_do_not_stay(void **state)
{
    (void)state;
    struct registrations *const cache = large_cache();
    char *const memory =
        mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    const struct registration *const used = acquire(cache, memory, PAGE);
    assert_false(is_hit(cache, memory, PAGE)); /* not even while it is in use */
    registrations_release(cache, used);
    assert_int_equal(device.entries, 0);
    assert_int_equal(tutti_mem_register(memory, 4 * PAGE), TUTTI_OK);
    assert_false(is_hit(cache, memory, PAGE));
    assert_true(is_hit(cache, memory, 4 * PAGE));
    assert_int_equal(tutti_mem_unregister(memory), TUTTI_OK);
    registrations_free(cache);
    munmap(memory, 4 * PAGE);
}

/* The application can change its mappings as if there were no cache: a mapping of which a part is
 * registered is not cut. */
static void mappings_stay_whole(void **state)
{
    (void)state;
    struct registrations *const cache = large_cache();
    char *memory = map(16);
    memset(memory, 7, 16 * PAGE);
    assert_false(is_hit(cache, memory + 4 * PAGE, PAGE));
    memory = mremap(memory, 16 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(memory[15 * PAGE], 7);
    registrations_free(cache);
    munmap(memory, 64 * PAGE);
}

static void several_caches_hear_of_the_same_memory(void **state)
{
    (void)state;
    struct registrations *const a = large_cache(), *const b = large_cache();
    char *const memory = map(8);
    assert_false(is_hit(a, memory, PAGE));
    assert_false(is_hit(b, memory + 4 * PAGE, PAGE));
    registrations_free(a);
    change_elsewhere(memory, 8 * PAGE, CHANGE_REPLACE);
    assert_false(is_hit(b, memory + 4 * PAGE, PAGE));
    registrations_free(b);
    munmap(memory, 8 * PAGE);
}

/* ---------------------------------------------------------------------------- random operations */

enum { SLOTS = 12, SLOT_PAGES = 4, HELD = 4 };

/* Every slot is the tester's or the changer's. */
static struct {
    char *memory;
    _Atomic bool is_changers[SLOTS];
    _Atomic bool is_over;
    _Atomic bool is_bad;
    uint64_t seed;
} arena;

static char *slot_memory(int slot)
{
    return arena.memory + (size_t)slot * SLOT_PAGES * PAGE;
}

static void *change_at_random(void *unused)
{
    (void)unused;
    struct chance chance = {.seed = arena.seed ^ 0x5eed};
    while (!atomic_load(&arena.is_over) && !atomic_load(&arena.is_bad)) {
        const int slot = chance_below(&chance, SLOTS);
        if (!atomic_load(&arena.is_changers[slot])) {
            sched_yield();
            continue;
        }
        const enum change change = (enum change)chance_below(&chance, CHANGE_COUNT);
        const int first = chance_below(&chance, SLOT_PAGES);
        /* Pages that move must lie in one mapping. */
        const int pages = change == CHANGE_MOVE ? 1 : 1 + chance_below(&chance, SLOT_PAGES - first);
        if (!change_memory(slot_memory(slot) + (size_t)first * PAGE, (size_t)pages * PAGE, change))
            atomic_store(&arena.is_bad, true);
        atomic_store(&arena.is_changers[slot], false);
    }
    return NULL;
}

struct use {
    const struct registration *registration;
    char *at;
    int slot;
    unsigned char value;
};

/* The slow model: memory that is the tester's holds the bytes that the tester wrote last, and the
 * device sees the same bytes. */
static void check_use(const struct use *use)
{
    assert_int_equal((unsigned char)*use->at, use->value);
    assert_int_equal(seen_by_device(use->registration, use->at), use->value);
}

static bool is_used(const struct use *uses, int slot)
{
    for (int i = 0; i < HELD; i++)
        if (uses[i].registration != NULL && uses[i].slot == slot) return true;
    return false;
}

/* No two uses write at the same place: each has its byte of every page. */
static void begin_use(struct registrations *cache, struct chance *chance, struct use *use,
                      int number, int slot)
{
    const int page = chance_below(chance, SLOT_PAGES), pages = 1 + chance_below(chance, 3);
    const size_t left = (size_t)(SLOT_PAGES - page) * PAGE;
    const size_t wanted = (size_t)pages * PAGE - (size_t)chance_below(chance, PAGE / 2);
    char *const begin = slot_memory(slot) + (size_t)page * PAGE;
    use->registration = acquire(cache, begin, wanted < left ? wanted : left);
    use->slot = slot;
    use->at = begin + number;
    use->value = (unsigned char)(1 + chance_below(chance, 255));
    *use->at = (char)use->value;
}

static void random_turn(struct registrations *cache, struct chance *chance, struct use *uses)
{
    const int slot = chance_below(chance, SLOTS), i = chance_below(chance, HELD);
    if (uses[i].registration != NULL) {
        check_use(&uses[i]);
        registrations_release(cache, uses[i].registration);
        uses[i].registration = NULL;
    } else if (atomic_load(&arena.is_changers[slot])) {
        sched_yield();
    } else {
        if (chance_below(chance, 3) == 0 && !is_used(uses, slot)) {
            atomic_store(&arena.is_changers[slot], true);
        } else {
            begin_use(cache, chance, &uses[i], i, slot);
            check_use(&uses[i]);
        }
    }
    const struct registrations_counts counts = registrations_counts(cache);
    assert_int_equal(counts.bytes, device.bytes);
    assert_int_equal(counts.entries, device.entries);
}

static void random_operations_never_show_the_device_old_memory(void **state)
{
    (void)state;
    struct chance chance = {.seed = chance_seed(1)};
    device.holds_pages = true;
    arena.seed = chance.seed;
    arena.memory = map(SLOTS * SLOT_PAGES);
    atomic_store(&arena.is_over, false);
    struct registrations *const cache = cache_of(24 * PAGE, 8, 64);
    struct use uses[HELD] = {{0}};
    pthread_t changer;
    assert_int_equal(pthread_create(&changer, NULL, change_at_random, NULL), 0);
    const uint64_t wanted = getenv("TUTTI_LONG") != NULL ? 100000 : 3000;
    while (registrations_counts(cache).hits + registrations_counts(cache).misses < wanted &&
           !atomic_load(&arena.is_bad))
        random_turn(cache, &chance, uses);
    atomic_store(&arena.is_over, true);
    pthread_join(changer, NULL);
    assert_false(atomic_load(&arena.is_bad));
    for (int i = 0; i < HELD; i++)
        if (uses[i].registration != NULL) registrations_release(cache, uses[i].registration);
    const struct registrations_counts counts = registrations_counts(cache);
    print_message("%llu hits, %llu misses, %llu evictions, %llu gone\n",
                  (unsigned long long)counts.hits, (unsigned long long)counts.misses,
                  (unsigned long long)counts.evictions, (unsigned long long)counts.invalidations);
    if (unmapped_is_possible()) assert_true(counts.hits > 0 && counts.invalidations > 0);
    registrations_free(cache);
    for (int slot = 0; slot < SLOTS; slot++) atomic_store(&arena.is_changers[slot], false);
    munmap(arena.memory, SLOTS * SLOT_PAGES * PAGE);
}

/* ------------------------------------------------------------------------------ other processes */

static int run_child(int (*run)(void *context), void *context)
{
    int fate;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        _exit(run(context));
    }
    if (pid < 0 || waitpid(pid, &fate, 0) != pid || !WIFEXITED(fate)) return -1;
    return WEXITSTATUS(fate);
}

static char *forked_memory;

static int be_a_child(void *context)
{
    const unsigned calls = device.calls;
    const size_t entries = device.entries;
    munmap(forked_memory, 4 * PAGE); /* nobody reads messages here, and none is sent */
    registrations_free(context);
    if (device.calls != calls || device.entries != entries) return 1;
    if (IS_THREAD_SANITIZED) return 0;
    struct registrations *const own = large_cache();
    char *const memory = map(4);
    if (registrations_acquire(own, memory, 10) == NULL) return 2;
    munmap(memory, 4 * PAGE);
    return 0;
}

static void a_child_frees_it_without_the_device(void **state)
{
    (void)state;
    struct registrations *const cache = large_cache();
    char *const memory = forked_memory = map(4), *const other = map(4);
    const struct registration *const used = acquire(cache, memory, PAGE);
    assert_false(is_hit(cache, other, PAGE));
    assert_int_equal(run_child(be_a_child, cache), 0);
    if (unmapped_is_possible()) assert_true(is_hit(cache, other, PAGE));
    change_elsewhere(other, PAGE, CHANGE_REPLACE);
    assert_false(is_hit(cache, other, PAGE));
    registrations_release(cache, used);
    registrations_free(cache);
    munmap(memory, 4 * PAGE);
    munmap(other, 4 * PAGE);
}

static _Atomic bool is_forking_over;

static void *unmap_again_and_again(void *context)
{
    while (!atomic_load(&is_forking_over))
        if (!change_memory(context, PAGE, CHANGE_DISCARD)) return context;
    return NULL;
}

static int just_end(void *context)
{
    (void)context;
    return 0;
}

static void forks_and_unmapping_do_not_wait_for_each_other(void **state)
{
    (void)state;
    struct registrations *const cache = large_cache();
    char *const memory = map(4);
    pthread_t thread;
    void *failure;
    atomic_store(&is_forking_over, false);
    registrations_release(cache, acquire(cache, memory, 4 * PAGE));
    assert_int_equal(pthread_create(&thread, NULL, unmap_again_and_again, memory), 0);
    for (int i = 0; i < 20; i++) {
        registrations_release(cache, acquire(cache, memory + 2 * PAGE, PAGE));
        assert_int_equal(run_child(just_end, NULL), 0);
    }
    atomic_store(&is_forking_over, true);
    pthread_join(thread, &failure);
    assert_null(failure);
    registrations_free(cache);
    munmap(memory, 4 * PAGE);
}

static void nothing_is_left_behind(void **state)
{
    (void)state;
    const struct belongings before = belongings_now();
    struct registrations *const cache = large_cache();
    char *const memory = map(4);
    registrations_release(cache, acquire(cache, memory, 4 * PAGE));
    registrations_free(cache);
    const struct belongings after = belongings_in_the_end(&before);
    assert_int_equal(after.descriptors, before.descriptors);
    assert_int_equal(after.threads, before.threads);
    munmap(memory, 4 * PAGE); /* waits for nobody */
}

/* ----------------------------------------------------------------------------------- everything */

#define UNIT_TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)

static int test_what_goes(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(memory_that_goes_is_not_found),
        UNIT_TEST(freed_blocks_are_not_found),
        UNIT_TEST(files_and_shared_memory_do_not_stay),
        UNIT_TEST(mappings_stay_whole),
        UNIT_TEST(several_caches_hear_of_the_same_memory),
        UNIT_TEST(random_operations_never_show_the_device_old_memory),
        UNIT_TEST(a_child_frees_it_without_the_device),
        UNIT_TEST(forks_and_unmapping_do_not_wait_for_each_other),
        UNIT_TEST(nothing_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static bool can_be_told(void)
{
    const int fd = userfault_open();
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static bool become_another_user(void)
{
    const bool is_other = getuid() != 0 || (setresgid(65534, 65534, 65534) == 0 &&
                                            setresuid(65534, 65534, 65534) == 0);
    print_message("as user %d: userfaultfd %s\n", (int)getuid(),
                  can_be_told() ? "works" : "is refused");
    return is_other;
}

static bool forbid_userfaultfd(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        print_message("no filters here: the fallback is not tested\n");
        return true;
    }
    return !can_be_told();
}

static char *own_name;

/* A program of its own, since a fork of this one may be unable to start threads. */
static int run_again(void *how)
{
    char *const arguments[] = {own_name, how, NULL};
    execv("/proc/self/exe", arguments);
    return 1;
}

static int test_all(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(what_was_registered_is_found_again),
        UNIT_TEST(neighbours_become_one_while_that_costs_little),
        UNIT_TEST(a_larger_one_leaves_those_in_use),
        UNIT_TEST(a_bad_neighbour_is_left_out),
        UNIT_TEST(the_longest_idle_goes_first),
        UNIT_TEST(the_bound_on_bytes_spares_what_is_used),
        UNIT_TEST(a_device_that_is_full_gets_room),
        UNIT_TEST(no_key_comes_twice),
        UNIT_TEST(freed_memory_is_not_found),
        UNIT_TEST(given_memory_is_registered_as_a_whole_and_let_go),
        UNIT_TEST(given_memory_has_no_privilege),
    };
    const int failures = cmocka_run_group_tests(tests, NULL, NULL) + test_what_goes();
    const int as_other = run_child(run_again, "as-another-user");
    const int without = run_child(run_again, "without-userfaultfd");
    print_message("as another user: %d; without userfaultfd: %d\n", as_other, without);
    return failures == 0 && as_other == 0 && without == 0 ? 0 : 1;
}

int main(int argument_count, char **arguments)
{
    own_name = arguments[0];
    if (argument_count < 2) return test_all();
    const bool is_ready =
        strcmp(arguments[1], "as-another-user") == 0 ? become_another_user() : forbid_userfaultfd();
    return is_ready ? test_what_goes() : 1;
}
