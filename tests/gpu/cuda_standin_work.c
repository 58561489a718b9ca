#include "tests/gpu/cuda_standin_work.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "os/clock.h"
#include "tests/gpu/cuda_standin_memory.h"
#include "tests/kit/chance.h"

enum {
    QUEUES_MAX = 64,
    DIRECTIONS = 3,
    DEADLINE_MS = 30000,
    NAME_BYTES = 48,
    DESCRIPTION_BYTES = 3072
};
#define LATE_NEVER UINT64_MAX

enum item_kind { ITEM_KERNEL, ITEM_COPY, ITEM_HOST, ITEM_RECORD, ITEM_WAIT };

/* One record of an event. */
struct marker {
    unsigned references;
    bool has_come;
};

struct item {
    struct item *next_of_stream, *next_of_queue, *next_of_copies;
    struct queue *copies; /* in which a copy stands, too; or NULL */
    struct cuda_stream *stream;
    uint64_t number; /* in the order of calls */
    enum item_kind kind;
    uint64_t begin_ns; /* when it may begin; LATE_NEVER: that is not known yet */
    struct marker *marker;
    /* A kernel. */
    char name[NAME_BYTES];
    gpu_twin *run;
    uint64_t argument;
    unsigned blocks, begun, ended;
    struct item *next_running;
    /* A copy. */
    uint64_t destination, source;
    size_t bytes;
    void *staged; /* what was read at once; or NULL */
    /* A function of the host. */
    void (*call)(void *context);
    void *context;
};

/* Never freed: a pointer to one that was destroyed is found out. */
struct cuda_stream {
    struct cuda_stream *next;
    int device, capture;
    unsigned queue;
    bool is_default, is_blocking, is_destroyed, is_held;
    struct item *first, *last; /* of those that have not ended */
};

struct cuda_event {
    struct cuda_event *next;
    struct marker *marker; /* of its last record; NULL: none */
    bool is_destroyed;
};

struct queue {
    struct item *first, *last; /* of those that have not begun */
};

struct device {
    struct cuda_stream standard;
    struct queue queues[QUEUES_MAX];
    struct queue copies[DIRECTIONS][QUEUES_MAX];
    unsigned next_queue;
    struct item *running;  /* kernels */
    struct item *function; /* of the host, which runs; or NULL */
    unsigned busy;         /* multiprocessors */
    bool has_thread;
    pthread_t holder;    /* who keeps others out */
    unsigned held;       /* so often; 0: nobody does */
    const char *held_by; /* what it is that does */
    int fault;           /* CUDA_OK: it works */
    int planted;         /* the fault that is to come */
    unsigned questions;  /* in so many; 0: not by them */
    uint64_t forbidden;  /* or when its work touches this byte; 0: none */
};

static struct {
    struct work_options options;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    struct device devices[STANDIN_DEVICES_MAX];
    struct cuda_stream *streams;
    struct cuda_event *events;
    uint64_t items, random;
    unsigned deadline_ms;
    struct cuda_standin_counts counts;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .deadline_ms = DEADLINE_MS};

/* Of the thread of a block. */
static _Thread_local const struct item *mine;

static void *allocate(size_t bytes)
{
    void *const memory = calloc(1, bytes);
    if (memory == NULL) standin_die("out of memory");
    return memory;
}

static uint64_t draw(void)
{
    return chance_next(&state.random);
}

/* Half of all items are prompt; some of the others are very late. */
static uint64_t draw_delay_ns(void)
{
    static const uint64_t most_ns[8] = {0, 0, 0, 0, 50000, 50000, 500000, 3000000};
    if (state.options.seed == 0) return 0;
    const uint64_t most = most_ns[draw() % 8];
    return most == 0 ? 0 : draw() % most;
}

void work_init(const struct work_options *options)
{
    pthread_condattr_t monotonic;
    state.options = *options;
    state.random = options->seed * 0x9e3779b97f4a7c15u + 1;
    for (int d = 0; d < options->device_count; d++)
        state.devices[d].standard =
            (struct cuda_stream){.device = d, .is_default = true, .is_blocking = true};
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&state.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void lock(void)
{
    pthread_mutex_lock(&state.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&state.lock);
}

static struct timespec time_of(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

/* The stream itself, which is there. Under the lock. */
static struct cuda_stream *stream_of(int device, struct cuda_stream *stream)
{
    if (stream == NULL || stream == (struct cuda_stream *)1) return &state.devices[device].standard;
    for (struct cuda_stream *s = state.streams; s != NULL; s = s->next)
        if (s == stream && !s->is_destroyed) return s;
    standin_die("%p is no stream: it was destroyed, or never there", (void *)stream);
}

static struct cuda_event *event_of(struct cuda_event *event)
{
    for (struct cuda_event *e = state.events; e != NULL; e = e->next)
        if (e == event && !e->is_destroyed) return e;
    standin_die("%p is no event: it was destroyed, or never there", (void *)event);
}

static void unreference(struct marker *marker)
{
    if (marker != NULL && --marker->references == 0) free(marker);
}

/* Faults. Under the lock. */

static void break_device(struct device *device)
{
    device->fault = device->planted;
    pthread_cond_broadcast(&state.changed);
}

/* Whether work of the device may go on, which is about to touch those bytes. */
static bool may_touch(struct device *device, uint64_t address, size_t bytes)
{
    if (device->fault == CUDA_OK && device->forbidden != 0 && device->forbidden >= address &&
        device->forbidden - address < bytes)
        break_device(device);
    return device->fault == CUDA_OK;
}

/* What may begin. */

static bool has_earlier(const struct cuda_stream *stream, const struct item *item)
{
    return stream->first != NULL && stream->first->number < item->number;
}

static bool default_streams_allow(const struct item *item)
{
    const struct cuda_stream *const stream = item->stream;
    if (!stream->is_blocking) return true;
    if (!stream->is_default) return !has_earlier(&state.devices[stream->device].standard, item);
    for (const struct cuda_stream *s = state.streams; s != NULL; s = s->next)
        if (s->device == stream->device && s->is_blocking && has_earlier(s, item)) return false;
    return true;
}

static bool may_begin(const struct item *item)
{
    return item->stream->first == item && !item->stream->is_held && default_streams_allow(item) &&
           (item->copies == NULL || item->copies->first == item) &&
           (item->kind != ITEM_WAIT || item->marker->has_come) &&
           (item->kind != ITEM_HOST || state.devices[item->stream->device].function == NULL);
}

/* What runs. Under the lock, but for what the item itself does. */

static void end(struct item *item)
{
    item->stream->first = item->next_of_stream;
    if (item->stream->first == NULL) item->stream->last = NULL;
    if (item->kind == ITEM_RECORD) item->marker->has_come = true;
    unreference(item->marker);
    free(item->staged);
    free(item);
    pthread_cond_broadcast(&state.changed);
}

/* Private memory of the host is reached as the host does. A copy reaches all devices, whichever its
 * stream is of; of memory that was mapped by hand, what the stream's device was given access to. */
static void *side_of_copy(int device, uint64_t address, size_t bytes)
{
    struct memory_range range;
    const bool is_known = memory_find(address, &range);
    if (!is_known && !memory_is_hidden(address)) return (void *)(uintptr_t)address;
    return memory_reach("a copy", is_known && range.sort != MEMORY_MAPPED ? range.device : device,
                        address, bytes);
}

static void run_copy(struct item *item)
{
    const int device = item->stream->device;
    if (!may_touch(&state.devices[device], item->destination, item->bytes) ||
        (item->staged == NULL && !may_touch(&state.devices[device], item->source, item->bytes)))
        return;
    unlock();
    void *const to = side_of_copy(device, item->destination, item->bytes);
    const void *const from =
        item->staged != NULL ? item->staged : side_of_copy(device, item->source, item->bytes);
    memmove(to, from, item->bytes);
    lock();
}

static void start_thread(void *(*run)(void *context), void *context)
{
    pthread_t thread;
    pthread_attr_t detached;
    sigset_t all, was;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    const int error = pthread_create(&thread, &detached, run, context);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    pthread_attr_destroy(&detached);
    if (error != 0) standin_die("no thread can be started: %s", strerror(error));
}

static void *run_function(void *context)
{
    struct item *const item = context;
    struct device *const device = &state.devices[item->stream->device];
    item->call(item->context);
    lock();
    device->function = NULL;
    if (device->fault == CUDA_OK) end(item);
    unlock();
    return NULL;
}

struct block {
    struct item *item;
    unsigned number;
};

static void leave_running(struct device *device, struct item *item)
{
    struct item **place = &device->running;
    while (*place != item) place = &(*place)->next_running;
    *place = item->next_running;
}

static void *run_block(void *context)
{
    struct item *const item = ((struct block *)context)->item;
    const unsigned number = ((struct block *)context)->number;
    struct device *const device = &state.devices[item->stream->device];
    free(context);
    mine = item;
    item->run(item->argument, number, item->blocks); /* does not return after a fault */
    lock();
    if (device->fault != CUDA_OK) {
        unlock();
        return NULL;
    }
    device->busy--;
    if (++item->ended == item->blocks) {
        leave_running(device, item);
        end(item);
    }
    pthread_cond_broadcast(&state.changed);
    unlock();
    return NULL;
}

/* As many blocks as there are multiprocessors free, of older kernels first. */
static void start_blocks(struct device *device)
{
    for (struct item *item = device->fault == CUDA_OK ? device->running : NULL; item != NULL;
         item = item->next_running)
        while (item->begun < item->blocks && device->busy < state.options.processor_count) {
            struct block *const block = allocate(sizeof *block);
            *block = (struct block){item, item->begun++};
            device->busy++;
            start_thread(run_block, block);
        }
}

static void begin(struct device *device, struct item *item)
{
    switch (item->kind) {
    case ITEM_COPY: run_copy(item); break;
    case ITEM_HOST:
        device->function = item;
        start_thread(run_function, item);
        return;
    case ITEM_KERNEL: {
        struct item **place = &device->running;
        while (*place != NULL) place = &(*place)->next_running;
        *place = item;
        return;
    }
    case ITEM_RECORD:
    case ITEM_WAIT: break;
    }
    if (device->fault == CUDA_OK) end(item);
}

/* Takes the head of a queue that may begin and is late enough, any of them; else NULL, and when to
 * look again. */
static struct item *choose(struct device *device, uint64_t *again_ns)
{
    const uint64_t now = clock_now_ns();
    struct queue *found = NULL;
    unsigned ready = 0;
    *again_ns = now + 1000000000u;
    if (device->fault != CUDA_OK) return NULL;
    for (unsigned q = 0; q < state.options.queue_count; q++) {
        struct queue *const queue = &device->queues[q];
        struct item *const head = queue->first;
        if (head == NULL || !may_begin(head)) continue;
        if (head->begin_ns == LATE_NEVER) head->begin_ns = now + draw_delay_ns();
        if (head->begin_ns > now) {
            if (head->begin_ns < *again_ns) *again_ns = head->begin_ns;
        } else if (draw() % ++ready == 0) {
            found = queue;
        }
    }
    if (found == NULL) return NULL;
    struct item *const item = found->first;
    found->first = item->next_of_queue;
    if (found->first == NULL) found->last = NULL;
    if (item->copies != NULL) {
        item->copies->first = item->next_of_copies;
        if (item->copies->first == NULL) item->copies->last = NULL;
    }
    return item;
}

static void *run_device(void *context)
{
    struct device *const device = context;
    lock();
    for (;;) {
        uint64_t again_ns;
        start_blocks(device);
        struct item *const item = choose(device, &again_ns);
        if (item != NULL) {
            begin(device, item);
            continue;
        }
        const struct timespec until = time_of(again_ns);
        pthread_cond_timedwait(&state.changed, &state.lock, &until);
    }
    return NULL;
}

static struct item *make_item(int device, struct cuda_stream *stream, enum item_kind kind)
{
    struct item *const item = allocate(sizeof *item);
    item->kind = kind;
    item->begin_ns = LATE_NEVER;
    item->stream = stream_of(device, stream);
    return item;
}

static void submit(struct item *item)
{
    struct cuda_stream *const stream = item->stream;
    struct device *const device = &state.devices[stream->device];
    struct queue *const queue = &device->queues[stream->queue];
    if (stream->capture != CUDA_CAPTURE_NONE)
        standin_die("work is given to a stream that is being captured");
    item->number = ++state.items;
    if (stream->last != NULL)
        stream->last->next_of_stream = item;
    else
        stream->first = item;
    stream->last = item;
    if (queue->last != NULL)
        queue->last->next_of_queue = item;
    else
        queue->first = item;
    queue->last = item;
    if (item->copies != NULL) {
        if (item->copies->last != NULL)
            item->copies->last->next_of_copies = item;
        else
            item->copies->first = item;
        item->copies->last = item;
    }
    if (!device->has_thread) {
        device->has_thread = true;
        start_thread(run_device, device);
    }
    pthread_cond_broadcast(&state.changed);
}

/* Waiting. */

/* What the items that have not begun, and the kernels that run, are: for whoever waited too
 * long. */
static void describe(char *text, size_t bytes)
{
    static const char *const kinds[] = {"kernel", "copy", "function", "record", "wait"};
    size_t length = 0;
    text[0] = '\0';
    for (int d = 0; d < state.options.device_count; d++) {
        const struct device *const device = &state.devices[d];
        if (device->held > 0 && length < bytes)
            length += (size_t)snprintf(text + length, bytes - length,
                                       "; %s keeps others out of device %d", device->held_by, d);
        for (const struct item *i = device->running; i != NULL && length < bytes;
             i = i->next_running)
            length += (size_t)snprintf(text + length, bytes - length,
                                       "; device %d runs %s, %u of %u blocks begun, %u ended", d,
                                       i->name, i->begun, i->blocks, i->ended);
        if (device->function != NULL && length < bytes)
            length += (size_t)snprintf(text + length, bytes - length,
                                       "; device %d runs a function of the host", d);
        for (unsigned q = 0; q < state.options.queue_count && length < bytes; q++) {
            const struct item *const head = device->queues[q].first;
            if (head == NULL) continue;
            length += (size_t)snprintf(
                text + length, bytes - length, "; at the head of its queue %u: %s %s%s", q,
                kinds[head->kind], head->name,
                head->stream->is_held         ? ", which a test holds"
                : head->stream->first != head ? ", behind others of its stream"
                                              : "");
        }
    }
}

/* Waits for a change; dies when the deadline of whoever waits has passed. */
static void await_change(const char *what, uint64_t begun_ns)
{
    const uint64_t deadline_ns = begun_ns + (uint64_t)state.deadline_ms * 1000000u;
    const struct timespec until = time_of(deadline_ns);
    if (pthread_cond_timedwait(&state.changed, &state.lock, &until) == ETIMEDOUT &&
        clock_now_ns() >= deadline_ns) {
        char text[DESCRIPTION_BYTES];
        describe(text, sizeof text);
        standin_die("%s has waited for %u ms%s", what, state.deadline_ms, text);
    }
}

/* Under the lock. */
static bool is_held_by_other(const struct device *device)
{
    return device->held > 0 && !pthread_equal(device->holder, pthread_self());
}

static void await_entry(const char *what, const struct device *device)
{
    const uint64_t begun_ns = clock_now_ns();
    while (is_held_by_other(device)) await_change(what, begun_ns);
}

void work_enter(const char *what, int device)
{
    lock();
    await_entry(what, &state.devices[device]);
    unlock();
}

void work_hold_driver(const char *what, int device)
{
    struct device *const its = &state.devices[device];
    if (!state.options.keeps_others_out) return;
    lock();
    await_entry(what, its);
    if (its->held++ == 0) {
        its->holder = pthread_self();
        its->held_by = what;
    }
    unlock();
}

void work_let_go(int device)
{
    if (!state.options.keeps_others_out) return;
    lock();
    state.devices[device].held--;
    pthread_cond_broadcast(&state.changed);
    unlock();
}

/* Or never will be. */
static bool is_over(const struct cuda_stream *stream, uint64_t number)
{
    return state.devices[stream->device].fault != CUDA_OK || stream->first == NULL ||
           stream->first->number > number;
}

static bool device_is_over(int device, uint64_t number)
{
    if (!is_over(&state.devices[device].standard, number)) return false;
    for (const struct cuda_stream *s = state.streams; s != NULL; s = s->next)
        if (s->device == device && !is_over(s, number)) return false;
    return true;
}

void work_synchronize_stream(const char *what, int device, struct cuda_stream *stream)
{
    const uint64_t begun_ns = clock_now_ns();
    lock();
    const struct cuda_stream *const found = stream_of(device, stream);
    const uint64_t number = state.items;
    while (!is_over(found, number)) await_change(what, begun_ns);
    unlock();
}

void work_synchronize_device(const char *what, int device)
{
    const uint64_t begun_ns = clock_now_ns();
    lock();
    const uint64_t number = state.items;
    while (!device_is_over(device, number)) await_change(what, begun_ns);
    unlock();
}

void work_set_deadline(unsigned milliseconds)
{
    lock();
    state.deadline_ms = milliseconds != 0 ? milliseconds : DEADLINE_MS;
    unlock();
}

bool work_stream_is_idle(int device, struct cuda_stream *stream)
{
    lock();
    const struct cuda_stream *const found = stream_of(device, stream);
    struct device *const its = &state.devices[found->device];
    const bool is_idle = found->first == NULL;
    state.counts.questions++;
    if (its->questions > 0 && --its->questions == 0) break_device(its);
    unlock();
    return is_idle;
}

/* Streams. */

struct cuda_stream *work_stream_create(int device, bool is_blocking)
{
    struct cuda_stream *const stream = allocate(sizeof *stream);
    lock();
    stream->device = device;
    stream->is_blocking = is_blocking;
    stream->queue = ++state.devices[device].next_queue % state.options.queue_count;
    stream->next = state.streams;
    state.streams = stream;
    state.counts.streams++;
    unlock();
    return stream;
}

void work_stream_destroy(struct cuda_stream *stream)
{
    lock();
    struct cuda_stream *const found = stream_of(0, stream);
    if (found->is_default) standin_die("the default stream cannot be destroyed");
    found->is_destroyed = true; /* what is queued still runs */
    state.counts.streams--;
    unlock();
}

int work_stream_device(const struct cuda_stream *stream)
{
    lock();
    const struct cuda_stream *const found = stream_of(0, (struct cuda_stream *)(uintptr_t)stream);
    const int device = found->is_default ? -1 : found->device;
    unlock();
    return device;
}

int work_stream_capture(int device, struct cuda_stream *stream)
{
    lock();
    const int status = stream_of(device, stream)->capture;
    unlock();
    return status;
}

void work_stream_set_capture(int device, struct cuda_stream *stream, int status)
{
    lock();
    stream_of(device, stream)->capture = status;
    unlock();
}

bool work_is_capturing(int device)
{
    bool is = false;
    lock();
    for (const struct cuda_stream *s = state.streams; s != NULL; s = s->next)
        is |= s->device == device && s->is_blocking && !s->is_destroyed && s->capture != 0;
    unlock();
    return is;
}

void work_hold(int device, struct cuda_stream *stream, bool is_held)
{
    lock();
    stream_of(device, stream)->is_held = is_held;
    pthread_cond_broadcast(&state.changed);
    unlock();
}

/* Work. */

void work_launch(int device, struct cuda_stream *stream, const char *name, gpu_twin *run,
                 uint64_t argument, unsigned blocks)
{
    lock();
    struct item *const item = make_item(device, stream, ITEM_KERNEL);
    snprintf(item->name, sizeof item->name, "%s", name);
    item->run = run;
    item->argument = argument;
    item->blocks = blocks;
    state.counts.launches++;
    submit(item);
    unlock();
}

enum side { SIDE_DEVICE, SIDE_PINNED, SIDE_PRIVATE };

static enum side side_of(uint64_t address)
{
    struct memory_range range;
    if (memory_is_hidden(address)) return SIDE_DEVICE;
    if (!memory_find(address, &range)) return SIDE_PRIVATE;
    return range.sort == MEMORY_PINNED || range.sort == MEMORY_REGISTERED ? SIDE_PINNED
                                                                          : SIDE_DEVICE;
}

static void submit_copy(int device, struct cuda_stream *stream, uint64_t destination,
                        uint64_t source, size_t bytes, void *staged)
{
    lock();
    struct item *const item = make_item(device, stream, ITEM_COPY);
    item->destination = destination;
    item->source = source;
    item->bytes = bytes;
    item->staged = staged;
    if (state.options.copy_queue_count > 0) {
        const unsigned direction = side_of(destination) != SIDE_DEVICE ? 0
                                   : side_of(source) != SIDE_DEVICE    ? 1
                                                                       : 2;
        item->copies = &state.devices[item->stream->device]
                            .copies[direction][item->stream->queue % state.options.copy_queue_count];
    }
    submit(item);
    unlock();
}

static void hold_to_copy(const char *what, int device)
{
    work_hold_driver(what, device);
    lock();
    state.counts.waiting_copies++;
    unlock();
}

/* What is private is read when all before it in the stream is over. */
static void copy_from_private(int device, struct cuda_stream *stream, uint64_t destination,
                              uint64_t source, size_t bytes)
{
    static const char what[] = "a copy from memory of the host that is not pinned";
    void *staged = NULL;
    hold_to_copy(what, device);
    work_synchronize_stream(what, device, stream);
    if (bytes > 0) {
        staged = allocate(bytes);
        memcpy(staged, (const void *)(uintptr_t)source, bytes);
    }
    submit_copy(device, stream, destination, source, bytes, staged);
    work_let_go(device);
}

static void copy_and_wait(const char *what, int device, struct cuda_stream *stream,
                          uint64_t destination, uint64_t source, size_t bytes)
{
    hold_to_copy(what, device);
    submit_copy(device, stream, destination, source, bytes, NULL);
    work_synchronize_stream(what, device, stream);
    work_let_go(device);
}

void work_copy(int device, struct cuda_stream *stream, uint64_t destination, uint64_t source,
               size_t bytes)
{
    const enum side to = side_of(destination), from = side_of(source);
    if (to != SIDE_DEVICE && from != SIDE_DEVICE)
        copy_and_wait("a copy from the host to the host", device, stream, destination, source,
                      bytes);
    else if (to == SIDE_PRIVATE)
        copy_and_wait("a copy to memory of the host that is not pinned", device, stream,
                      destination, source, bytes);
    else if (from == SIDE_PRIVATE)
        copy_from_private(device, stream, destination, source, bytes);
    else
        submit_copy(device, stream, destination, source, bytes, NULL);
}

void work_copy_now(int device, uint64_t destination, uint64_t source, size_t bytes)
{
    if (side_of(destination) == SIDE_DEVICE && side_of(source) == SIDE_PRIVATE)
        copy_from_private(device, NULL, destination, source, bytes);
    else
        copy_and_wait("a copy that waits", device, NULL, destination, source, bytes);
}

void work_call_host(int device, struct cuda_stream *stream, void (*run)(void *context),
                    void *context)
{
    lock();
    struct item *const item = make_item(device, stream, ITEM_HOST);
    item->call = run;
    item->context = context;
    submit(item);
    unlock();
}

void *work_reach(uint64_t address, size_t bytes)
{
    if (mine == NULL) standin_die("only a kernel, while it runs, reaches what devices reach");
    lock();
    const bool may = may_touch(&state.devices[mine->stream->device], address, bytes);
    unlock();
    if (!may) pthread_exit(NULL);
    return memory_reach(mine->name, mine->stream->device, address, bytes);
}

/* Events. */

struct cuda_event *work_event_create(void)
{
    struct cuda_event *const event = allocate(sizeof *event);
    lock();
    event->next = state.events;
    state.events = event;
    state.counts.events++;
    unlock();
    return event;
}

void work_event_destroy(struct cuda_event *event)
{
    lock();
    struct cuda_event *const found = event_of(event);
    unreference(found->marker);
    found->marker = NULL;
    found->is_destroyed = true;
    state.counts.events--;
    unlock();
}

void work_event_record(int device, struct cuda_event *event, struct cuda_stream *stream)
{
    lock();
    struct cuda_event *const found = event_of(event);
    struct item *const item = make_item(device, stream, ITEM_RECORD);
    struct marker *const marker = allocate(sizeof *marker);
    marker->references = 2;
    unreference(found->marker);
    found->marker = item->marker = marker;
    submit(item);
    unlock();
}

void work_event_wait(int device, struct cuda_event *event, struct cuda_stream *stream)
{
    lock();
    struct cuda_event *const found = event_of(event);
    struct item *const item = make_item(device, stream, ITEM_WAIT);
    item->marker = found->marker;
    if (item->marker == NULL) { /* never recorded: nothing to wait for */
        item->kind = ITEM_RECORD;
        item->marker = allocate(sizeof *item->marker);
    }
    item->marker->references++;
    submit(item);
    unlock();
}

static bool has_come(const struct cuda_event *event)
{
    return event->marker == NULL || event->marker->has_come;
}

/* Of any device: an event does not say of which it is. */
static bool any_has_failed(void)
{
    for (int d = 0; d < state.options.device_count; d++)
        if (state.devices[d].fault != CUDA_OK) return true;
    return false;
}

bool work_event_has_come(struct cuda_event *event)
{
    lock();
    const bool has = has_come(event_of(event));
    unlock();
    return has;
}

void work_event_synchronize(struct cuda_event *event)
{
    const uint64_t begun_ns = clock_now_ns();
    lock();
    while (!has_come(event_of(event)) && !any_has_failed())
        await_change("cuEventSynchronize", begun_ns);
    unlock();
}

void work_fault(int device, int result, unsigned questions)
{
    lock();
    state.devices[device].planted = result;
    state.devices[device].questions = questions;
    if (questions == 0) break_device(&state.devices[device]);
    unlock();
}

void work_fault_at(int device, int result, uint64_t address)
{
    lock();
    state.devices[device].planted = result;
    state.devices[device].forbidden = address;
    unlock();
}

int work_fault_of(int device)
{
    lock();
    const int fault = state.devices[device].fault;
    unlock();
    return fault;
}

void work_count(struct cuda_standin_counts *counts)
{
    lock();
    *counts = state.counts;
    unlock();
}
