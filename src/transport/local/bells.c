#include "transport/local/bells.h"

#include "base/log.h"
#include "base/status.h"
#include "os/doorbell.h"

/* False: the door may not have been rung. */
static bool ring_door(struct local *local, struct bell *bell)
{
    const uint64_t door = atomic_load_explicit(&bell->door, memory_order_relaxed);
    return door == 0 ||
           doorbell_ring(atomic_load_explicit(&local->door_fd, memory_order_relaxed), door);
}

/* At a door one ring is enough: if the sleeper has already been rung in this sleep, there is
 * nothing to do. */
__attribute__((cold, noinline)) static void ring_sleeper(struct local *local, struct bell *bell,
                                                         uint32_t asleep)
{
    switch (asleep & ASLEEP_WHERE) {
    case ASLEEP_RUNG: break;
    case ASLEEP_AT_DOOR:
        atomic_thread_fence(memory_order_acquire); /* pairs with sleep_begin, for the number */
        if (!ring_door(local, bell)) break;
        atomic_compare_exchange_strong_explicit(&bell->asleep, &asleep, asleep | ASLEEP_RUNG,
                                                memory_order_release, memory_order_relaxed);
        break;
    default:
        atomic_fetch_add_explicit(&bell->ring, 1, memory_order_release);
        futex_wake(&bell->ring);
    }
}

void bells_ring(struct local *local, const int *ranks, int count)
{
    for (int i = 0; i < count; i++) {
        struct bell *bell = segment_bell(local->segment, ranks[i]);
        /* A fence between publishing and the look; the sleeper has one between its word and its
         * last look. */
        if (local->publishers_fence) fence_this_thread();
        const uint32_t asleep = atomic_load_explicit(&bell->asleep, memory_order_relaxed);
        if (asleep != AWAKE) ring_sleeper(local, bell, asleep);
    }
}

void bells_sleep_begin(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    local->ring_seen = atomic_load_explicit(&local->bell->ring, memory_order_acquire);
    uint32_t asleep = ASLEEP;
    if (bells_have_door(local)) {
        doorbell_hush(local->door_fd);
        asleep = ++local->sleep_count << ASLEEP_COUNT_SHIFT | ASLEEP_AT_DOOR;
    }
    atomic_store_explicit(&local->bell->asleep, asleep, memory_order_release);
    atomic_fetch_add_explicit(&local->header->sleeper_count, 1, memory_order_relaxed);
    fence_everybody();
}

void bells_sleep_cancel(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    atomic_store_explicit(&local->bell->asleep, AWAKE, memory_order_relaxed);
    atomic_fetch_sub_explicit(&local->header->sleeper_count, 1, memory_order_relaxed);
}

void bells_sleep(struct transport *transport, uint64_t timeout_ns)
{
    struct local *local = (struct local *)transport;
    if (bells_have_door(local))
        doorbell_wait(local->door_fd, timeout_ns);
    else
        futex_wait(&local->bell->ring, local->ring_seen, timeout_ns);
    bells_sleep_cancel(transport);
}

/* Decided once, so that a rank that rings finds this one asleep where it is. */
int bells_descriptor(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    if (local->asked_for_door) return local->door_fd;
    local->asked_for_door = true;
    uint64_t number;
    int fd;
    if (doorbell_open(&number, &fd) != TUTTI_OK) {
        log_write(LOG_WARN, "local rank %d: %s; waiting takes processor time without it",
                  transport->rank, tutti_error_message());
        return -1;
    }
    atomic_store_explicit(&local->bell->door, number, memory_order_relaxed);
    atomic_store_explicit(&local->door_fd, fd, memory_order_relaxed);
    return fd;
}

void bells_wake(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    if (bells_somebody_sleeps(local)) bells_ring(local, &transport->rank, 1);
}

void bells_wake_all(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    for (int r = 0; r < transport->size; r++) {
        struct bell *bell = segment_bell(local->segment, r);
        atomic_fetch_add_explicit(&bell->ring, 1, memory_order_seq_cst);
        futex_wake(&bell->ring);
        (void)ring_door(local, bell);
    }
}
