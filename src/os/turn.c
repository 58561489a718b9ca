#include "os/turn.h"

#include <stdatomic.h>

#include "os/clock.h"
#include "os/futex.h"
#include "os/process.h"

static uint32_t own_holder(void)
{
    return process_generation() + 1;
}

/* Acquire: pairs with turn_give. */
static bool change(struct turn *turn, uint32_t from)
{
    return atomic_compare_exchange_strong_explicit(&turn->holder, &from, own_holder(),
                                                   memory_order_acquire, memory_order_relaxed);
}

enum turn_result turn_take(struct turn *turn, uint64_t deadline_ns)
{
    for (;;) {
        const uint32_t holder = atomic_load_explicit(&turn->holder, memory_order_relaxed);
        if (holder == 0) {
            if (change(turn, 0)) return TURN_TAKEN;
        } else if (holder != own_holder()) {
            if (change(turn, holder)) return TURN_TAKEN_OVER;
        } else {
            const uint64_t now_ns = clock_now_ns();
            if (now_ns >= deadline_ns) return TURN_LATE;
            futex_wait(&turn->holder, holder, deadline_ns - now_ns);
        }
    }
}

void turn_give(struct turn *turn)
{
    if (atomic_load_explicit(&turn->holder, memory_order_relaxed) != own_holder()) return;
    atomic_store_explicit(&turn->holder, 0, memory_order_release);
    futex_wake(&turn->holder);
}
