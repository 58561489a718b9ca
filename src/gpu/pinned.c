#include "gpu/pinned.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"
#include "gpu/executor.h"

struct pinned {
    struct pinned *next;
    uintptr_t begin, end;
    bool is_pinned;
};

/* A thread that adds or removes has `changing`, also while the driver works; `list` is for those who only look, and never held for long. A thread
 * that has both took `changing` first. */
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER;
static struct pinned *ranges;          /* in order */
static struct gpu_device *device_open; /* under `changing` */
static atomic_uint
    version; /* of `ranges`; stored under `list` with release, which pairs with the acquire of gpu_pinned_look */

static bool pin(const struct pinned *range)
{
    char before[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    const struct gpu_driver *const driver = device_open->driver;
    const bool is_pinned =
        driver->pin(device_open, (void *)range->begin, range->end - range->begin) == TUTTI_OK;
    error_unless_ok(TUTTI_OK, before); /* it is copied then */
    return is_pinned;
}

static void changed(void)
{
    atomic_store_explicit(&version, atomic_load_explicit(&version, memory_order_relaxed) + 1,
                          memory_order_release);
}

void gpu_pinned_add(void *memory, size_t bytes)
{
    struct pinned *const range = malloc(sizeof *range);
    if (range == NULL || bytes == 0) {
        free(range);
        return;
    }
    *range = (struct pinned){.begin = (uintptr_t)memory, .end = (uintptr_t)memory + bytes};
    pthread_mutex_lock(&changing);
    if (device_open != NULL) range->is_pinned = pin(range);
    pthread_mutex_lock(&list);
    struct pinned **place = &ranges;
    while (*place != NULL && (*place)->begin < range->begin) place = &(*place)->next;
    range->next = *place;
    *place = range;
    changed();
    pthread_mutex_unlock(&list);
    pthread_mutex_unlock(&changing);
}

void gpu_pinned_remove(void *memory)
{
    pthread_mutex_lock(&changing);
    pthread_mutex_lock(&list);
    struct pinned **place = &ranges;
    while (*place != NULL && (*place)->begin != (uintptr_t)memory) place = &(*place)->next;
    struct pinned *const range = *place;
    if (range != NULL) {
        *place = range->next;
        changed();
    }
    pthread_mutex_unlock(&list);
    if (range != NULL && range->is_pinned) device_open->driver->unpin(device_open, memory);
    pthread_mutex_unlock(&changing);
    free(range);
}

void gpu_pinned_open(struct gpu_device *device)
{
    pthread_mutex_lock(&changing);
    if (device_open == NULL) {
        device_open = device;
        for (struct pinned *range = ranges; range != NULL; range = range->next) {
            const bool is_pinned = pin(range);
            pthread_mutex_lock(&list);
            range->is_pinned = is_pinned;
            changed();
            pthread_mutex_unlock(&list);
        }
    }
    pthread_mutex_unlock(&changing);
}

void gpu_pinned_look(struct gpu_pinned_view *view)
{
    if (atomic_load_explicit(&version, memory_order_acquire) == view->version) return;
    pthread_mutex_lock(&list);
    view->version = atomic_load_explicit(&version, memory_order_relaxed);
    view->count = 0;
    for (const struct pinned *range = ranges; range != NULL; range = range->next) {
        if (!range->is_pinned || view->count == GPU_PINNED_VIEW) continue;
        view->ranges[view->count].begin = range->begin;
        view->ranges[view->count++].end = range->end;
    }
    pthread_mutex_unlock(&list);
}

bool gpu_pinned_has(const struct gpu_pinned_view *view, const void *address, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)address;
    unsigned low = 0,
             high =
                 view->count; /* ranges below `low` begin at or before it, from `high` on behind it */
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (view->ranges[middle].begin <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && begin < view->ranges[low - 1].end &&
           bytes <= view->ranges[low - 1].end - begin;
}
