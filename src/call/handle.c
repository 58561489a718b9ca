#include "call/handle.h"

#include "base/status.h"

/* In a place that was used: those behind it are still found. */
#define REMOVED ((struct tutti_comm *)1)

struct tutti_comm *_Atomic handle_table[HANDLE_COUNT_MAX];

static struct tutti_comm *_Atomic *place_after(const struct tutti_comm *comm, size_t distance)
{
    return &handle_table[(handle_place(comm) + distance) & (HANDLE_COUNT_MAX - 1)];
}

/* NULL: it is not in the table. */
static struct tutti_comm *_Atomic *find(const struct tutti_comm *comm)
{
    if (comm == NULL || comm == REMOVED) return NULL;
    for (size_t i = 0; i < HANDLE_COUNT_MAX; i++) {
        struct tutti_comm *_Atomic *place = place_after(comm, i);
        const struct tutti_comm *there = atomic_load_explicit(place, memory_order_relaxed);
        if (there == comm) return place;
        if (there == NULL) return NULL;
    }
    return NULL;
}

bool handle_search(const struct tutti_comm *comm)
{
    return find(comm) != NULL;
}

enum tutti_status handle_add(struct tutti_comm *comm)
{
    for (size_t i = 0; i < HANDLE_COUNT_MAX; i++) {
        struct tutti_comm *_Atomic *place = place_after(comm, i);
        struct tutti_comm *there = atomic_load_explicit(place, memory_order_relaxed);
        while (there == NULL || there == REMOVED)
            if (atomic_compare_exchange_weak_explicit(place, &there, comm, memory_order_relaxed,
                                                      memory_order_relaxed))
                return TUTTI_OK;
    }
    return error_set(TUTTI_NO_MEMORY, "creating a communicator: this process has %d already",
                     HANDLE_COUNT_MAX);
}

void handle_remove(const struct tutti_comm *comm)
{
    struct tutti_comm *_Atomic *place = find(comm);
    if (place != NULL) atomic_store_explicit(place, REMOVED, memory_order_relaxed);
}

enum tutti_status handle_error(const struct tutti_comm *comm, const char *function)
{
    if (comm == NULL)
        return error_set(TUTTI_INVALID_COMM, "tutti_%s: the communicator is NULL", function);
    if (!handle_is_known(comm))
        return error_set(TUTTI_INVALID_COMM,
                         "tutti_%s: %p is not a communicator, or one that was freed", function,
                         (const void *)comm);
    return error_set(
        TUTTI_INVALID_COMM,
        "tutti_%s: the communicator was created before fork() and belongs to the parent", function);
}
