#include "gpu/device_fault.h"

#include <pthread.h>
#include <stdio.h>

#include "base/log.h"
#include "base/status.h"
#include "gpu/gpu.h"
#include "os/at_exit.h"
#include "os/clock.h"
#include "os/fork.h"
#include "os/futex.h"
#include "os/thread.h"

#define PERIOD_NS UINT64_C(50000000)
#define SLEEP_NS UINT64_C(3600000000000)
#define LEAVE_NS UINT64_C(2000000000)

/* The watch itself changes AWAKE to ASLEEP, and ENDS to ENDED; others change ASLEEP to AWAKE, and
 * any but ENDED to ENDS. */
enum watch_state { WATCH_AWAKE, WATCH_ASLEEP, WATCH_ENDS, WATCH_ENDED };

static unsigned joined;
static bool has_thread; /* which has not been joined */
static pthread_t thread;
static _Atomic uint32_t state;

/* In a child of fork() is no watch, and no communicator of it has joined one. */
static void forget_watch(bool is_held)
{
    (void)is_held;
    joined = 0;
    has_thread = false;
    atomic_store(&state, WATCH_AWAKE);
}

FORK_LOCK(lock, FORK_FAULT_WATCH, forget_watch); /* of the variables above, except atomic ones */
static _Atomic(struct gpu_device *) devices;
static _Atomic(const struct gpu_driver *) driver; /* NULL: none was found */
FORK_LOCK(telling, FORK_FAULT_TEXT, NULL);        /* held to store a text */

/* -------------------------------------------------------------------------------------- looking */

static void tell(struct gpu_device *device, const char *why)
{
    struct gpu_fault *const fault = &device->fault;
    pthread_mutex_lock(&telling);
    if (gpu_fault_of(device) == NULL) {
        snprintf(fault->room, sizeof fault->room, "GPU %d (%s) has failed: %s", device->number,
                 device->name, why);
        /* Release: pairs with gpu_fault_of. */
        atomic_store_explicit(&fault->text, fault->room, memory_order_release);
    }
    pthread_mutex_unlock(&telling);
}

/* Asks about devices that this library has never used, which nobody has therefore added. NULL: no
 * such device is known to have failed. */
static const char *ask_about_others(void)
{
    static struct gpu_fault others;
    const struct gpu_driver *const asked = atomic_load_explicit(&driver, memory_order_acquire);
    const char *found = atomic_load_explicit(&others.text, memory_order_acquire);
    char before[ERROR_TEXT_MAX];
    if (found != NULL || asked == NULL || !at_exit_enter()) return found;
    error_copy(before, sizeof before);
    if (asked->check_all() != TUTTI_OK) {
        pthread_mutex_lock(&telling);
        found = atomic_load_explicit(&others.text, memory_order_relaxed);
        if (found == NULL) {
            snprintf(others.room, sizeof others.room, "a GPU has failed: %s", tutti_error_message());
            found = others.room;
            atomic_store_explicit(&others.text, found, memory_order_release);
        }
        pthread_mutex_unlock(&telling);
    }
    error_unless_ok(TUTTI_OK, before);
    at_exit_leave();
    return found;
}

static void ask(struct gpu_device *device)
{
    char before[ERROR_TEXT_MAX];
    if (gpu_fault_of(device) != NULL || !at_exit_enter()) return;
    error_copy(before, sizeof before);
    if (device->driver->check(device) != TUTTI_OK) tell(device, tutti_error_message());
    error_unless_ok(TUTTI_OK, before);
    at_exit_leave();
}

const char *gpu_fault_of(const struct gpu_device *device)
{
    return atomic_load_explicit(&device->fault.text, memory_order_acquire);
}

const char *gpu_fault_look(const struct gpu_device *device)
{
    const char *found = NULL;
    for (struct gpu_device *d = atomic_load_explicit(&devices, memory_order_acquire); d != NULL;
         d = d->fault.next) {
        if (device != NULL && d != device) continue;
        ask(d);
        if (found == NULL) found = gpu_fault_of(d);
    }
    return found == NULL && device == NULL ? ask_about_others() : found;
}

void gpu_fault_add_driver(const struct gpu_driver *found)
{
    atomic_store_explicit(&driver, found, memory_order_release);
}

void gpu_fault_add(struct gpu_device *device)
{
    struct gpu_device *first = atomic_load_explicit(&devices, memory_order_relaxed);
    do device->fault.next = first;
    while (!atomic_compare_exchange_weak_explicit(&devices, &first, device, memory_order_release,
                                                  memory_order_relaxed));
}

/* ------------------------------------------------------------------------------------ the watch */

/* Whether the state was that one, and is the other one now. */
static bool change(uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(&state, &from, to);
}

bool gpu_fault_any_is_out(const struct gpu_device *device)
{
    return atomic_load(&device->fault.begun) != atomic_load(&device->fault.ended);
}

static bool any_is_out(void)
{
    for (const struct gpu_device *d = atomic_load(&devices); d != NULL; d = d->fault.next)
        if (gpu_fault_any_is_out(d)) return true;
    return false;
}

/* Workers of a device that works end one after the other, unless they wait for long. */
static void look(struct gpu_device *device)
{
    struct gpu_fault *const fault = &device->fault;
    const uint32_t ended = atomic_load(&fault->ended);
    const bool is_out = atomic_load(&fault->begun) != ended;
    if (is_out && fault->was_out && ended == fault->seen_ended) ask(device);
    fault->was_out = is_out;
    fault->seen_ended = ended;
}

static void sleep_until_one_begins(void)
{
    if (!change(WATCH_AWAKE, WATCH_ASLEEP)) return;
    /* Sequentially consistent, here and in gpu_fault_began: one of the two sees the other. */
    if (any_is_out())
        change(WATCH_ASLEEP, WATCH_AWAKE);
    else
        while (atomic_load(&state) == WATCH_ASLEEP) futex_wait(&state, WATCH_ASLEEP, SLEEP_NS);
}

static void *watch(void *context)
{
    (void)context;
    while (!change(WATCH_ENDS, WATCH_ENDED)) {
        if (!any_is_out()) sleep_until_one_begins();
        futex_wait(&state, WATCH_AWAKE, PERIOD_NS);
        for (struct gpu_device *d = atomic_load(&devices);
             d != NULL && atomic_load(&state) != WATCH_ENDS; d = d->fault.next)
            look(d);
    }
    futex_wake(&state);
    return NULL;
}

/* With the lock. */
static void start_watch(void)
{
    char before[ERROR_TEXT_MAX];
    if (has_thread) { /* the driver held it up when it was to end */
        if (change(WATCH_ENDS, WATCH_AWAKE)) return;
        pthread_join(thread, NULL);
    }
    error_copy(before, sizeof before);
    at_exit_watch();
    atomic_store(&state, WATCH_AWAKE);
    has_thread = thread_start(&thread, watch, NULL, NULL, "the watch of GPUs") == TUTTI_OK;
    if (!has_thread)
        log_write(LOG_WARN, "GPUs that fail show at deadlines only: %s", tutti_error_message());
    error_unless_ok(TUTTI_OK, before);
}

/* With the lock. */
static void end_watch(void)
{
    const uint64_t deadline_ns = clock_now_ns() + LEAVE_NS;
    atomic_store(&state, WATCH_ENDS);
    futex_wake(&state);
    while (atomic_load(&state) == WATCH_ENDS && clock_now_ns() < deadline_ns)
        futex_wait(&state, WATCH_ENDS, PERIOD_NS);
    if (atomic_load(&state) != WATCH_ENDED) return;
    pthread_join(thread, NULL);
    has_thread = false;
}

void gpu_fault_join_watch(void)
{
    pthread_mutex_lock(&lock);
    if (joined++ == 0) start_watch();
    pthread_mutex_unlock(&lock);
}

void gpu_fault_leave_watch(void)
{
    pthread_mutex_lock(&lock);
    if (--joined == 0 && has_thread) end_watch();
    pthread_mutex_unlock(&lock);
}

void gpu_fault_began(struct gpu_device *device)
{
    atomic_fetch_add(&device->fault.begun, 1);
    if (atomic_load(&state) == WATCH_ASLEEP && change(WATCH_ASLEEP, WATCH_AWAKE))
        futex_wake(&state);
}

void gpu_fault_ended(struct gpu_device *device)
{
    atomic_fetch_add(&device->fault.ended, 1);
}
