#include "memory/given.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/status.h"
#include "memory/heap.h"
#include "memory/ranges.h"
#include "os/clock.h"
#include "os/fork.h"

static const uint64_t LET_GO_NS = 1000000000;

struct given {
    struct range range; /* first: a range here is a struct given */
    uint64_t generation;
    bool is_leaving;
};

/* Held to add, remove or observe; taken before `lock`, and never at fork(). */
static pthread_mutex_t change = PTHREAD_MUTEX_INITIALIZER;
static struct given_observer *observers; /* under `change` */
/* Protects what follows; nothing allocates or waits with it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ranges all;
static uint64_t generation;

static struct given *given_of(struct range *range)
{
    return (struct given *)range;
}

/* In the child the promises are not kept, and what observers have is the parent's. Not held: an
 * entry may be half in the set, so they are left where they are. */
static void forget_all(bool is_held)
{
    for (struct range *each; is_held && (each = all.root) != NULL;) {
        ranges_remove(&all, each);
        free(given_of(each));
    }
    all = (struct ranges){0};
    observers = NULL;
    change = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

__attribute__((constructor)) static void watch_forks(void)
{
    static const struct fork_participant given = {.lock = &lock, .child = forget_all};
    fork_watch(FORK_GIVEN, &given);
}

static enum tutti_status check(const void *memory, size_t bytes)
{
    if (memory == NULL)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_mem_register: memory is NULL");
    if (bytes == 0) return error_set(TUTTI_INVALID_BUFFER, "tutti_mem_register: size_bytes is 0");
    if (bytes > UINTPTR_MAX - (uintptr_t)memory)
        return error_set(TUTTI_INVALID_COUNT,
                         "tutti_mem_register: %zu bytes from %p on go beyond the address space",
                         bytes, memory);
    if (heap_overlaps(memory, bytes))
        return error_set(TUTTI_INVALID_BUFFER,
                         "tutti_mem_register: %p is from tutti_mem_alloc, which needs no "
                         "registration",
                         memory);
    return TUTTI_OK;
}

enum tutti_status given_add(const void *memory, size_t bytes)
{
    TRY(check(memory, bytes));
    struct given *const made = malloc(sizeof *made);
    if (made == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_mem_register: out of memory");
    const uintptr_t begin = (uintptr_t)memory, end = begin + bytes;
    *made = (struct given){.range = {.begin = begin, .end = end}};
    pthread_mutex_lock(&lock);
    const struct range *const other = ranges_next(&all, begin, end, NULL);
    const struct range found = other != NULL ? *other : (struct range){0};
    if (other == NULL) {
        made->generation = ++generation;
        ranges_add(&all, &made->range);
    }
    pthread_mutex_unlock(&lock);
    if (other == NULL) return TUTTI_OK;
    free(made);
    return error_set(TUTTI_INVALID_BUFFER,
                     "tutti_mem_register: %zu bytes at %p overlap what is registered already, %zu "
                     "bytes at %p",
                     bytes, memory, (size_t)(found.end - found.begin), (void *)found.begin);
}

/* Finds the given memory that begins there and is not leaving; NULL: there is none. With the lock
 * held. */
static struct given *find_begin(const void *memory)
{
    const uintptr_t begin = (uintptr_t)memory;
    struct range *const range = memory == NULL ? NULL : ranges_covering(&all, begin, begin + 1);
    return range != NULL && range->begin == begin && !given_of(range)->is_leaving ? given_of(range)
                                                                                  : NULL;
}

/* With `change` held, and not the lock: an observer that lets go may wait for a thread that asks
 * given_find. */
static bool all_let_go(const struct given *given)
{
    const struct given_range range = {given->range.begin, given->range.end, given->generation};
    const uint64_t deadline_ns = clock_now_ns() + LET_GO_NS;
    for (struct given_observer *each = observers; each != NULL; each = each->next)
        if (!each->let_go(each, &range, deadline_ns)) return false;
    return true;
}

static enum tutti_status remove_changing(const void *memory)
{
    pthread_mutex_lock(&lock);
    struct given *const given = find_begin(memory);
    if (given != NULL) given->is_leaving = true;
    pthread_mutex_unlock(&lock);
    if (given == NULL)
        return error_set(TUTTI_INVALID_BUFFER,
                         "tutti_mem_unregister: %p is not the start of registered memory", memory);
    const bool is_gone = all_let_go(given);
    pthread_mutex_lock(&lock);
    given->is_leaving = false;
    if (is_gone) ranges_remove(&all, &given->range);
    pthread_mutex_unlock(&lock);
    if (!is_gone)
        return error_set(TUTTI_IN_PROGRESS,
                         "tutti_mem_unregister: an operation still uses the memory at %p; it stays "
                         "registered",
                         memory);
    free(given);
    return TUTTI_OK;
}

enum tutti_status given_remove(const void *memory)
{
    pthread_mutex_lock(&change);
    const enum tutti_status status = remove_changing(memory);
    pthread_mutex_unlock(&change);
    return status;
}

bool given_find(const void *address, size_t bytes, struct given_range *range)
{
    const uintptr_t begin = (uintptr_t)address;
    pthread_mutex_lock(&lock);
    struct range *const found = ranges_covering(&all, begin, begin + bytes);
    const bool is_given = found != NULL && !given_of(found)->is_leaving;
    if (is_given)
        *range = (struct given_range){found->begin, found->end, given_of(found)->generation};
    pthread_mutex_unlock(&lock);
    return is_given;
}

void given_observe(struct given_observer *observer)
{
    pthread_mutex_lock(&change);
    observer->next = observers;
    observers = observer;
    pthread_mutex_unlock(&change);
}

void given_observe_no_more(struct given_observer *observer)
{
    pthread_mutex_lock(&change);
    struct given_observer **link = &observers;
    while (*link != NULL && *link != observer) link = &(*link)->next;
    if (*link != NULL) *link = observer->next;
    pthread_mutex_unlock(&change);
}
