/* The stand-in for CUDA's driver does what streams, events, queues and memory are to do, and ends
 * programs that misuse them. Each case has a process of its own. */
#include "tests/gpu/cuda_standin.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/option.h"
#include "tests/kit/chance.h"
#include "tests/worlds/apart.h"

enum { BYTES = 4096, NUMBERS = 64 };

static const struct cuda_standin *standin;
static struct cuda_test_library cuda;
static struct cuda_module *module;

static void good(int result)
{
    assert(result == CUDA_OK);
}

static void make_current(int device)
{
    struct cuda_context *context;
    int found;
    good(cuda.driver.device_get(&found, device));
    good(cuda.driver.primary_retain(&context, found));
    good(cuda.context_set(context));
}

/* Kernels of this test. They are told where to write by pinned memory. */
struct order {
    _Atomic uint32_t may_end, begun, ended; /* blocks */
    uint64_t address, number, count;
};

static struct order *order_of(uint64_t argument)
{
    return standin->reach(argument, sizeof(struct order));
}

/* Each block waits until it may end. */
static void wait_kernel(uint64_t argument, uint32_t block, uint32_t block_count)
{
    struct order *const order = order_of(argument);
    (void)block;
    (void)block_count;
    atomic_fetch_add(&order->begun, 1);
    while (atomic_load(&order->may_end) == 0) nanosleep(&(struct timespec){0, 100000}, NULL);
    atomic_fetch_add(&order->ended, 1);
}

/* Adds a number to numbers in the memory of a device. */
static void add_kernel(uint64_t argument, uint32_t block, uint32_t block_count)
{
    const struct order *const order = order_of(argument);
    if (order->count == 0) return;
    uint64_t *const numbers = standin->reach(order->address, order->count * sizeof(uint64_t));
    for (uint64_t i = block; i < order->count; i += block_count) numbers[i] += order->number;
}

/* Multiplies by 3 and adds the number: the order of several matters. */
static void mix_kernel(uint64_t argument, uint32_t block, uint32_t block_count)
{
    const struct order *const order = order_of(argument);
    if (order->count == 0) return;
    uint64_t *const numbers = standin->reach(order->address, order->count * sizeof(uint64_t));
    for (uint64_t i = block; i < order->count; i += block_count)
        numbers[i] = 3 * numbers[i] + order->number;
}

static void begin(void)
{
    static const char text[] = ".version 7.0\n.target sm_70\n"
                               ".visible .entry twinless(\n\t.param .u64 one\n)\n{ ret; }\n"
                               ".visible .entry many(.param .u64 one, .param .u32 two)\n{ ret; }\n";
    standin = cuda_standin_use();
    cuda_test_load(cuda_standin_file(), &cuda);
    standin->add_kernel("wait", wait_kernel);
    standin->add_kernel("add", add_kernel);
    standin->add_kernel("mix", mix_kernel);
    good(cuda.driver.init(0));
    make_current(0);
    good(cuda.driver.module_load(&module, text, 0, NULL, NULL));
}

static struct cuda_stream *make_stream(unsigned flags)
{
    struct cuda_stream *stream;
    good(cuda.driver.stream_create(&stream, flags));
    return stream;
}

static uint64_t allocate(size_t bytes)
{
    uint64_t address;
    good(cuda.driver.allocate(&address, bytes));
    return address;
}

static struct order *make_order(void)
{
    void *memory;
    good(cuda.driver.host_allocate(&memory, sizeof(struct order),
                                   CUDA_HOST_PORTABLE | CUDA_HOST_DEVICE_MAP));
    memset(memory, 0, sizeof(struct order));
    return memory;
}

static int try_to_launch(const char *name, struct cuda_stream *stream, unsigned blocks,
                         uint64_t argument)
{
    struct cuda_function *function;
    void *parameters[] = {&argument};
    good(cuda.driver.module_function(&function, module, name));
    return cuda.driver.launch(function, blocks, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

static void launch(const char *name, struct cuda_stream *stream, unsigned blocks,
                   const struct order *order)
{
    good(try_to_launch(name, stream, blocks, (uintptr_t)order));
}

static void await(_Atomic uint32_t *number, uint32_t value)
{
    while (atomic_load(number) < value) nanosleep(&(struct timespec){0, 100000}, NULL);
}

/* So long that what does not wait would be over, at any seed. A busy machine may take longer; then
 * a fault is not seen. */
static void give_it_time(void)
{
    nanosleep(&(struct timespec){0, 20000000}, NULL);
}

/* What it does. */

static void bytes_go_to_a_device_and_back(const char *argument)
{
    char text[16] = "there and back", back[16] = "", none[16] = "";
    (void)argument;
    begin();
    struct cuda_stream *const stream = make_stream(CUDA_STREAM_NON_BLOCKING);
    const uint64_t first = allocate(BYTES), second = allocate(BYTES);
    good(cuda.driver.copy(first + 5, (uintptr_t)text, sizeof text, stream));
    memset(text, 'x', sizeof text); /* private memory was read at once */
    good(cuda.driver.copy(second, first + 5, sizeof text, stream));
    good(cuda.driver.copy((uintptr_t)back, second, sizeof back,
                          stream)); /* and is filled when it returns */
    assert(strcmp(back, "there and back") == 0);
    good(cuda.copy_to_device(first, "fresh", 6));
    good(cuda.copy_to_host(none, first, 6));
    assert(strcmp(none, "fresh") == 0);
    good(cuda.driver.release(first));
    good(cuda.driver.release(second));
    assert(standin->count().allocations == 0);
}

static void kernels_reach_what_devices_reach(const char *argument)
{
    uint64_t numbers[NUMBERS] = {1, 2, 3};
    (void)argument;
    begin();
    struct cuda_stream *const stream = make_stream(0);
    struct order *const order = make_order();
    order->address = allocate(sizeof numbers);
    order->count = NUMBERS;
    order->number = 1000;
    good(cuda.driver.copy(order->address, (uintptr_t)numbers, sizeof numbers, stream));
    launch("add", stream, 4, order);
    launch("add", stream, 3, order);
    good(cuda.driver.copy((uintptr_t)numbers, order->address, sizeof numbers, stream));
    assert(numbers[0] == 2001 && numbers[2] == 2003 && numbers[NUMBERS - 1] == 2000);
}

static void pinned_memory_is_read_when_a_copy_runs(const char *argument)
{
    (void)argument;
    begin();
    struct cuda_stream *const stream = make_stream(0);
    struct order *const from = make_order(), *const to = make_order();
    const uint64_t memory = allocate(sizeof *from);
    standin->hold(stream, true);
    from->number = 1;
    good(cuda.driver.copy(memory, (uintptr_t)from, sizeof *from, stream));
    good(cuda.driver.copy((uintptr_t)to, memory, sizeof *to, stream));
    from->number = 2;
    assert(cuda.driver.stream_query(stream) == CUDA_NOT_READY && to->number == 0);
    standin->hold(stream, false);
    good(cuda.stream_synchronize(stream));
    assert(to->number == 2);
}

/* A call of another thread, and whether it is over. */
struct caller {
    enum { COPIES_OUT, COPIES_IN, COPIES_PINNED, ASKS, ALLOCATES } what;
    struct cuda_stream *stream;
    uint64_t memory;
    char bytes[16], *pinned;
    pthread_t thread;
    _Atomic bool is_over;
};

static void *call_driver(void *context)
{
    struct caller *const caller = context;
    uint64_t address;
    make_current(0);
    switch (caller->what) {
    case COPIES_OUT:
        good(cuda.driver.copy((uintptr_t)caller->bytes, caller->memory, sizeof caller->bytes,
                              caller->stream));
        break;
    case COPIES_IN:
        good(cuda.driver.copy(caller->memory, (uintptr_t)caller->bytes, sizeof caller->bytes,
                              caller->stream));
        break;
    case COPIES_PINNED:
        good(cuda.driver.copy((uintptr_t)caller->pinned, (uintptr_t)caller->pinned + 64, 16,
                              caller->stream));
        break;
    case ASKS: cuda.driver.stream_query(caller->stream); break;
    case ALLOCATES: good(cuda.driver.allocate(&address, BYTES)); break;
    }
    atomic_store(&caller->is_over, true);
    return NULL;
}

static void start_call(struct caller *caller)
{
    assert(pthread_create(&caller->thread, NULL, call_driver, caller) == 0);
}

static void start_copy(struct caller *caller)
{
    const unsigned before = standin->count().waiting_copies;
    start_call(caller);
    while (standin->count().waiting_copies == before) give_it_time();
}

static void end_call(struct caller *caller)
{
    pthread_join(caller->thread, NULL);
    assert(atomic_load(&caller->is_over));
}

/* Of memory that is not pinned, and from the host to the host. */
static void a_copy_that_waits_keeps_others_out(const char *argument)
{
    struct caller copiers[3] = {{.what = COPIES_OUT}, {.what = COPIES_IN}, {.what = COPIES_PINNED}};
    (void)argument;
    begin();
    struct cuda_stream *const other = make_stream(CUDA_STREAM_NON_BLOCKING);
    for (int c = 0; c < 3; c++) {
        struct caller asker = {.what = ASKS, .stream = other};
        copiers[c].stream = make_stream(CUDA_STREAM_NON_BLOCKING);
        copiers[c].memory = allocate(BYTES);
        copiers[c].pinned = (char *)make_order();
        struct order *const order = make_order();
        launch("wait", copiers[c].stream, 1, order);
        start_copy(&copiers[c]);
        start_call(&asker);
        give_it_time();
        assert(!atomic_load(&copiers[c].is_over) && !atomic_load(&asker.is_over));
        atomic_store(&order->may_end, 1);
        end_call(&copiers[c]);
        end_call(&asker);
    }
    assert(standin->count().waiting_copies == 3);
}

static void it_keeps_nobody_out_where_that_is_not_wished_for(const char *argument)
{
    (void)argument;
    setenv(option_names.STANDIN_LOCK, "0", 1);
    begin();
    struct caller copier = {.what = COPIES_OUT, .stream = make_stream(0), .memory = allocate(BYTES)};
    struct order *const order = make_order();
    launch("wait", copier.stream, 1, order);
    start_copy(&copier);
    assert(cuda.driver.stream_query(copier.stream) == CUDA_NOT_READY);
    atomic_store(&order->may_end, 1);
    end_call(&copier);
}

static void to_allocate_waits_where_that_is_wished_for(const char *argument)
{
    struct caller caller = {.what = ALLOCATES};
    (void)argument;
    setenv(option_names.STANDIN_WAIT, "1", 1);
    begin();
    struct cuda_stream *const stream = make_stream(CUDA_STREAM_NON_BLOCKING);
    struct order *const order = make_order();
    launch("wait", stream, 1, order);
    start_call(&caller);
    give_it_time();
    assert(!atomic_load(&caller.is_over));
    atomic_store(&order->may_end, 1);
    end_call(&caller);
}

/* It returns before the device has what was not pinned; the stream knows. */
static void a_copy_to_a_device_may_come_later(const char *argument)
{
    char text[16] = "later", back[16] = "";
    (void)argument;
    begin();
    const uint64_t memory = allocate(sizeof text);
    standin->hold(NULL, true);
    good(cuda.copy_to_device(memory, text, sizeof text));
    text[0] = 'x'; /* it was read */
    assert(cuda.driver.stream_query(NULL) == CUDA_NOT_READY);
    standin->hold(NULL, false);
    good(cuda.stream_synchronize(NULL));
    good(cuda.copy_to_host(back, memory, sizeof back));
    assert(strcmp(back, "later") == 0);
}

static void note_order(void *context)
{
    atomic_fetch_add((_Atomic uint32_t *)context, 1);
}

static void functions_of_the_host_run_in_their_stream(const char *argument)
{
    _Atomic uint32_t called = 0;
    (void)argument;
    begin();
    struct cuda_stream *const stream = make_stream(CUDA_STREAM_NON_BLOCKING);
    struct order *const order = make_order();
    launch("wait", stream, 1, order);
    good(cuda.call_host(stream, note_order, &called));
    give_it_time();
    assert(atomic_load(&called) == 0);
    atomic_store(&order->may_end, 1);
    good(cuda.stream_synchronize(stream));
    assert(atomic_load(&called) == 1);
}

static void wait_until_set(void *context)
{
    while (atomic_load((_Atomic uint32_t *)context) == 0) give_it_time();
}

static void a_function_of_the_host_holds_up_no_other_stream(const char *argument)
{
    _Atomic uint32_t may_end = 0, called = 0;
    (void)argument;
    setenv("TUTTI_STANDIN_QUEUES", "2", 1);
    begin();
    struct cuda_stream *const held = make_stream(CUDA_STREAM_NON_BLOCKING),
                              *const other = make_stream(CUDA_STREAM_NON_BLOCKING);
    struct order *const order = make_order();
    const uint64_t numbers = allocate(sizeof(uint64_t));
    *order = (struct order){.address = numbers, .count = 1, .number = 1};
    good(cuda.call_host(held, wait_until_set, &may_end));
    give_it_time();
    launch("add", other, 1, order);
    good(cuda.stream_synchronize(other));
    good(cuda.call_host(other, note_order, &called)); /* but another function */
    give_it_time();
    assert(atomic_load(&called) == 0 && cuda.driver.stream_query(held) == CUDA_NOT_READY);
    atomic_store(&may_end, 1);
    good(cuda.stream_synchronize(held));
    good(cuda.stream_synchronize(other));
    assert(atomic_load(&called) == 1);
}

/* Two mappings side by side, and a third one behind a hole. */
static uint64_t map_by_hand(void)
{
    enum { PART = STANDIN_GRANULARITY };
    const struct cuda_memory_kind kind = {.type = CUDA_MEMORY_PINNED,
                                          .location = {CUDA_LOCATION_DEVICE, 0}};
    const struct cuda_access access = {{CUDA_LOCATION_DEVICE, 0}, CUDA_READ_AND_WRITE};
    uint64_t at;
    good(cuda.driver.address_reserve(&at, 4 * PART, 0, 0, 0));
    for (uint64_t part = 0; part < 4; part++) {
        cuda_memory memory;
        if (part == 2) continue;
        good(cuda.memory_create(&memory, PART, &kind, 0));
        good(cuda.driver.map(at + part * PART, PART, 0, memory, 0));
        good(cuda.driver.memory_release(memory));
    }
    good(cuda.driver.set_access(at, 2 * PART, &access, 1)); /* of both at once */
    good(cuda.driver.set_access(at + 3 * PART, PART, &access, 1));
    return at;
}

static void what_is_mapped_side_by_side_is_one(const char *argument)
{
    enum { PART = STANDIN_GRANULARITY };
    uint64_t numbers[NUMBERS];
    (void)argument;
    begin();
    const uint64_t at = map_by_hand(), across = at + PART - sizeof numbers / 2;
    struct order *const order = make_order();
    for (uint64_t i = 0; i < NUMBERS; i++) numbers[i] = i;
    good(cuda.copy_to_device(across, numbers, sizeof numbers));
    good(cuda.stream_synchronize(NULL));
    *order = (struct order){.address = across, .count = NUMBERS, .number = 5};
    launch("add", NULL, 2, order);
    good(cuda.copy_to_host(numbers, across, sizeof numbers));
    for (uint64_t i = 0; i < NUMBERS; i++) assert(numbers[i] == i + 5);
    good(cuda.driver.unmap(at, 2 * PART));
    good(cuda.driver.unmap(at + 3 * PART, PART));
    good(cuda.driver.address_free(at, 4 * PART));
}

static void copies_into_a_hole(const char *argument)
{
    enum { PART = STANDIN_GRANULARITY };
    char bytes[16] = "";
    (void)argument;
    begin();
    cuda.copy_to_device(map_by_hand() + 2 * PART - 8, bytes, sizeof bytes);
    cuda.stream_synchronize(NULL);
}

static void copies_where_nobody_gave_access(const char *argument)
{
    enum { PART = STANDIN_GRANULARITY };
    const struct cuda_memory_kind kind = {.type = CUDA_MEMORY_PINNED,
                                          .location = {CUDA_LOCATION_DEVICE, 0}};
    cuda_memory memory;
    char bytes[16] = "";
    (void)argument;
    begin();
    const uint64_t at = map_by_hand();
    good(cuda.memory_create(&memory, PART, &kind, 0));
    good(cuda.driver.map(at + 2 * PART, PART, 0, memory, 0));
    cuda.copy_to_device(at + 2 * PART - 8, bytes, sizeof bytes);
    cuda.stream_synchronize(NULL);
}

/* Small ones share blocks of 2 MiB, large ones have their own. */
static void allocations_lie_in_blocks(const char *argument)
{
    enum { BLOCK = 2 << 20 };
    (void)argument;
    begin();
    const uint64_t small = allocate(100), next = allocate(BYTES), large = allocate(BLOCK),
                   larger = allocate(3 * BLOCK - 5), last = allocate(BLOCK - BYTES);
    assert(small / BLOCK == next / BLOCK && large % BLOCK == 0 && larger % BLOCK == 0);
    assert(last / BLOCK == (last + BLOCK - BYTES - 1) / BLOCK);
    assert(large / BLOCK != last / BLOCK && (larger + 3 * BLOCK - 6) / BLOCK != last / BLOCK);
}

static void the_default_stream_waits_and_is_waited_for(const char *argument)
{
    (void)argument;
    begin();
    struct cuda_stream *const blocking = make_stream(0);
    struct cuda_stream *const other = make_stream(0);
    struct cuda_stream *const apart = make_stream(CUDA_STREAM_NON_BLOCKING);
    struct order *const first = make_order(), *const second = make_order();
    launch("wait", blocking, 1, first);
    launch("wait", NULL, 1, second);
    launch("add", other, 1, make_order());
    launch("add", apart, 1, make_order());
    good(cuda.stream_synchronize(apart));
    await(&first->begun, 1);
    give_it_time();
    assert(second->begun == 0 && cuda.driver.stream_query(other) == CUDA_NOT_READY);
    atomic_store(&first->may_end, 1);
    await(&second->begun, 1);
    give_it_time();
    assert(cuda.driver.stream_query(other) == CUDA_NOT_READY);
    atomic_store(&second->may_end, 1);
    good(cuda.context_synchronize());
}

static void events_are_what_was_recorded_last(const char *argument)
{
    struct cuda_event *event;
    (void)argument;
    begin();
    struct cuda_stream *const one = make_stream(0), *const two = make_stream(0);
    struct order *const order = make_order(), *const next = make_order();
    good(cuda.event_create(&event, 0));
    assert(cuda.event_query(event) == CUDA_OK); /* never recorded */
    good(cuda.stream_wait(two, event, 0));
    good(cuda.stream_synchronize(two));
    launch("wait", one, 1, order);
    good(cuda.event_record(event, one));
    good(cuda.stream_wait(two, event, 0));
    launch("add", two, 1, next);
    assert(cuda.event_query(event) == CUDA_NOT_READY);
    give_it_time();
    assert(cuda.driver.stream_query(two) == CUDA_NOT_READY);
    launch("wait", one, 1, next);
    good(cuda.event_record(event, one)); /* the wait is for the earlier one */
    atomic_store(&order->may_end, 1);
    good(cuda.stream_synchronize(two));
    assert(cuda.event_query(event) == CUDA_NOT_READY);
    atomic_store(&next->may_end, 1);
    good(cuda.event_synchronize(event));
    good(cuda.event_destroy(event));
    assert(standin->count().events == 0);
}

/* A kernel runs in one stream, and more waits behind it there: does another stream go on? */
static bool another_stream_goes_on(const char *queues)
{
    struct cuda_stream *streams[2];
    setenv(option_names.STANDIN_QUEUES, queues, 1);
    begin();
    for (int s = 0; s < 2; s++) streams[s] = make_stream(CUDA_STREAM_NON_BLOCKING);
    struct order *const order = make_order();
    launch("wait", streams[0], 1, order);
    launch("add", streams[1], 1, make_order());
    good(cuda.stream_synchronize(streams[1])); /* a kernel that runs keeps no queue */
    assert(order->ended == 0);
    launch("add", streams[0], 1, make_order());
    launch("add", streams[1], 1, make_order());
    give_it_time();
    const bool goes_on = cuda.driver.stream_query(streams[1]) == CUDA_OK;
    atomic_store(&order->may_end, 1);
    good(cuda.context_synchronize());
    return goes_on;
}

static void one_queue_stands_behind_its_head(const char *argument)
{
    (void)argument;
    assert(!another_stream_goes_on("1"));
}

static void two_queues_go_on_beside_each_other(const char *argument)
{
    struct cuda_stream *streams[3];
    (void)argument;
    setenv(option_names.STANDIN_QUEUES, "2", 1);
    begin();
    for (int s = 0; s < 3; s++) streams[s] = make_stream(CUDA_STREAM_NON_BLOCKING);
    struct order *const order = make_order();
    launch("wait", streams[0], 1, order);
    launch("add", streams[0], 1, make_order());
    launch("add", streams[1], 1, make_order());
    good(cuda.stream_synchronize(streams[1]));
    launch("add", streams[2], 1, make_order()); /* in the first one's queue */
    give_it_time();
    assert(cuda.driver.stream_query(streams[2]) == CUDA_NOT_READY);
    atomic_store(&order->may_end, 1);
    good(cuda.context_synchronize());
}

static void blocks_wait_for_multiprocessors(const char *argument)
{
    (void)argument;
    setenv(option_names.STANDIN_PROCESSORS, "3", 1);
    begin();
    struct cuda_stream *const one = make_stream(0), *const two = make_stream(0);
    struct order *const first = make_order(), *const second = make_order();
    launch("wait", one, 2, first);
    await(&first->begun, 2);
    launch("wait", two, 2, second);
    await(&second->begun, 1);
    give_it_time();
    assert(second->begun == 1);
    atomic_store(&first->may_end, 1);
    await(&second->begun, 2);
    atomic_store(&second->may_end, 1);
    good(cuda.context_synchronize());
}

/* Streams, joined by events at random, change the same numbers one after the other, as a host
 * would. */
static void run_chain(struct chance *chance)
{
    enum { STREAMS = 4, STEPS = 40 };
    struct cuda_stream *streams[STREAMS];
    struct cuda_event *event;
    uint64_t numbers[NUMBERS] = {0}, expected = 0;
    for (int s = 0; s < STREAMS; s++) streams[s] = make_stream(chance_below(chance, 2) != 0);
    good(cuda.event_create(&event, 0));
    const uint64_t memory = allocate(sizeof numbers);
    good(cuda.copy_to_device(memory, numbers, sizeof numbers));
    good(cuda.stream_synchronize(NULL));
    for (int step = 1; step <= STEPS; step++) {
        struct cuda_stream *const stream = streams[chance_below(chance, STREAMS)];
        struct order *const order = make_order();
        order->address = memory;
        order->count = NUMBERS;
        order->number = (uint64_t)step;
        expected = 3 * expected + (uint64_t)step;
        if (step > 1) good(cuda.stream_wait(stream, event, 0));
        launch("mix", stream, 1 + (unsigned)chance_below(chance, 4), order);
        good(cuda.event_record(event, stream));
    }
    good(cuda.event_synchronize(event));
    good(cuda.copy_to_host(numbers, memory, sizeof numbers));
    for (int i = 0; i < NUMBERS; i++) assert(numbers[i] == expected);
}

static void every_seed_keeps_the_order(const char *argument)
{
    struct chance chance = {.seed = 7};
    char seed[16], output[2048];
    if (argument != NULL) {
        chance.seed = (uint64_t)atoi(argument);
        begin();
        run_chain(&chance);
        return;
    }
    for (int s = 0; s < 6; s++) {
        snprintf(seed, sizeof seed, "%d", s);
        setenv(option_names.STANDIN_SEED, seed, 1);
        setenv(option_names.STANDIN_QUEUES, s % 3 == 0 ? "1" : s % 3 == 1 ? "2" : "8", 1);
        const int fate = apart_run("every_seed_keeps_the_order", seed, output, sizeof output);
        if (fate != 0) fprintf(stderr, "seed %d: %s", s, output);
        assert(fate == 0);
    }
}

static void a_stream_that_is_destroyed_ends_what_it_has(const char *argument)
{
    (void)argument;
    begin();
    struct cuda_stream *const stream = make_stream(0);
    struct order *const order = make_order();
    launch("wait", stream, 1, order);
    good(cuda.driver.stream_destroy(stream));
    assert(standin->count().streams == 0);
    atomic_store(&order->may_end, 1);
    await(&order->ended, 1);
    good(cuda.context_synchronize());
}

static void errors_are_returned(const char *argument)
{
    char log[64] = "";
    int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES}, number;
    void *values[] = {log, (void *)sizeof log}, *memory;
    struct cuda_module *none;
    struct cuda_function *function;
    struct cuda_context *context;
    const char *name;
    uint64_t address;
    size_t bytes;
    (void)argument;
    standin = cuda_standin_use();
    cuda_test_load(cuda_standin_file(), &cuda);
    assert(cuda.driver.device_count(&number) == CUDA_NOT_INITIALIZED);
    begin();
    assert(cuda.driver.module_load(&none, "no text", 2, options, values) == CUDA_INVALID_PTX);
    assert(strstr(log, ".version") != NULL);
    assert(cuda.driver.module_function(&function, module, "nothing") == CUDA_NOT_FOUND);
    assert(cuda.driver.allocate(&address, (size_t)1 << 50) == CUDA_OUT_OF_MEMORY);
    assert(cuda.host_unregister(log) == CUDA_HOST_MEMORY_NOT_REGISTERED);
    assert(cuda.host_register((void *)(uintptr_t)BYTES, BYTES, CUDA_HOST_PORTABLE) ==
           CUDA_INVALID_VALUE);
    assert(cuda.driver.address_range(&address, &bytes, (uintptr_t)log) == CUDA_NOT_FOUND);
    assert(cuda.driver.device_get(&number, 2) == CUDA_INVALID_DEVICE);
    assert(cuda.driver.error_name(12345, &name) == CUDA_INVALID_VALUE);
    assert(try_to_launch("add", make_stream(0), 0, 0) == CUDA_INVALID_VALUE);
    standin->fail("cuMemHostAlloc", CUDA_OUT_OF_MEMORY, 1, 1);
    good(cuda.driver.host_allocate(&memory, BYTES, CUDA_HOST_PORTABLE));
    assert(cuda.driver.host_allocate(&memory, BYTES, CUDA_HOST_PORTABLE) == CUDA_OUT_OF_MEMORY);
    good(cuda.driver.host_allocate(&memory, BYTES, CUDA_HOST_PORTABLE));
    good(cuda.driver.context_pop(&context));
    assert(cuda.driver.allocate(&address, BYTES) == CUDA_INVALID_CONTEXT);
    assert(cuda.driver.context_pop(&context) == CUDA_INVALID_CONTEXT);
}

/* Of device 0, whose work has touched what it must not: all calls say so, nothing waits, and device
 * 1 goes on. */
static void expect_fault(int result, struct cuda_stream *stream, uint64_t address)
{
    struct cuda_event *event;
    uint64_t other = 0;
    unsigned type = 0;
    int attribute = CUDA_POINTER_MEMORY_TYPE;
    void *values[] = {&type};
    assert(cuda.stream_synchronize(stream) == result);
    assert(cuda.context_synchronize() == result);
    assert(cuda.driver.stream_query(stream) == result);
    assert(cuda.driver.stream_destroy(stream) == result);
    assert(cuda.driver.allocate(&other, BYTES) == result);
    assert(cuda.driver.release(address) == result);
    assert(cuda.event_create(&event, 0) == result);
    assert(cuda.driver.pointer_attributes(1, &attribute, values, address) == result);
    assert(cuda.driver.pointer_attributes(1, &attribute, values, (uintptr_t)&other) == result);
    make_current(1);
    other = allocate(BYTES);
    good(cuda.driver.pointer_attributes(1, &attribute, values, other));
    struct cuda_stream *const works = make_stream(CUDA_STREAM_NON_BLOCKING);
    good(cuda.stream_synchronize(works));
    good(cuda.driver.stream_destroy(works));
    good(cuda.driver.release(other));
}

static void a_kernel_that_touches_a_byte_breaks_its_device(const char *argument)
{
    (void)argument;
    begin();
    struct order *const waits = make_order(), *const adds = make_order();
    const uint64_t address = allocate(BYTES);
    struct cuda_stream *const stream = make_stream(CUDA_STREAM_NON_BLOCKING),
                              *const other = make_stream(CUDA_STREAM_NON_BLOCKING);
    *adds = (struct order){.address = address, .number = 1, .count = NUMBERS};
    standin->fault_at(1, CUDA_ILLEGAL_ADDRESS, address); /* which device 0 may touch */
    launch("add", stream, 2, adds);
    good(cuda.stream_synchronize(stream));
    launch("wait", other, 1, waits); /* for ever */
    while (atomic_load(&waits->begun) == 0) give_it_time();
    standin->fault_at(0, CUDA_ILLEGAL_ADDRESS, address + (NUMBERS - 1) * sizeof(uint64_t));
    good(cuda.driver.stream_query(stream));
    launch("add", stream, 2, adds);
    expect_fault(CUDA_ILLEGAL_ADDRESS, stream, address);
    atomic_store(&waits->may_end, 1);
}

static void a_copy_that_touches_a_byte_breaks_its_device(const char *argument)
{
    (void)argument;
    begin();
    struct order *const pinned = make_order();
    const uint64_t address = allocate(BYTES);
    struct cuda_stream *const stream = make_stream(CUDA_STREAM_NON_BLOCKING);
    standin->fault_at(0, CUDA_LAUNCH_FAILED, address + 16);
    good(cuda.driver.copy(address, (uintptr_t)pinned, 16, stream));
    good(cuda.stream_synchronize(stream));
    standin->hold(stream, true);
    good(cuda.driver.copy(address, (uintptr_t)pinned, 17, stream));
    standin->hold(stream, false);
    expect_fault(CUDA_LAUNCH_FAILED, stream, address);
}

static void a_question_breaks_its_device(const char *argument)
{
    (void)argument;
    begin();
    const uint64_t address = allocate(BYTES);
    struct cuda_stream *const stream = make_stream(CUDA_STREAM_NON_BLOCKING);
    standin->fault(0, CUDA_ECC_UNCORRECTABLE, 2);
    good(cuda.driver.stream_query(stream));
    assert(cuda.driver.stream_query(stream) == CUDA_ECC_UNCORRECTABLE);
    expect_fault(CUDA_ECC_UNCORRECTABLE, stream, address);
}

static void children_of_fork_have_nothing(const char *argument)
{
    int fate = -1, number;
    uint64_t address;
    (void)argument;
    begin();
    allocate(BYTES);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(cuda.driver.init(0) == CUDA_NOT_INITIALIZED &&
                      cuda.driver.device_count(&number) == CUDA_NOT_INITIALIZED &&
                      cuda.driver.allocate(&address, BYTES) == CUDA_NOT_INITIALIZED
                  ? 0
                  : 1);
    assert(waitpid(pid, &fate, 0) == pid && fate == 0);
}

static cuda_memory create(void)
{
    const struct cuda_memory_kind kind = {.type = CUDA_MEMORY_PINNED,
                                          .handle_types = CUDA_MEMORY_AS_DESCRIPTOR,
                                          .location = {CUDA_LOCATION_DEVICE, 0}};
    cuda_memory memory;
    good(cuda.memory_create(&memory, STANDIN_GRANULARITY, &kind, 0));
    return memory;
}

static uint64_t reserve(size_t bytes)
{
    uint64_t address;
    good(cuda.driver.address_reserve(&address, bytes, 0, 0, 0));
    return address;
}

static int give_access(uint64_t address, int device)
{
    const struct cuda_access access = {{CUDA_LOCATION_DEVICE, device}, CUDA_READ_AND_WRITE};
    return cuda.driver.set_access(address, STANDIN_GRANULARITY, &access, 1);
}

static void what_is_mapped_by_hand_is_of_whole_grains(const char *argument)
{
    enum { GRAIN = STANDIN_GRANULARITY };
    struct cuda_memory_kind kind = {.type = CUDA_MEMORY_PINNED,
                                    .location = {CUDA_LOCATION_DEVICE, 0}};
    cuda_memory memory, retained;
    uint64_t base;
    size_t bytes;
    (void)argument;
    begin();
    assert(cuda.memory_create(&memory, GRAIN + 4096, &kind, 0) == CUDA_INVALID_VALUE);
    kind.type = 0;
    assert(cuda.memory_create(&memory, GRAIN, &kind, 0) == CUDA_INVALID_VALUE);
    assert(cuda.memory_granularity(&bytes, &kind, 0) == CUDA_INVALID_VALUE);
    memory = create();
    const uint64_t at = reserve(3 * GRAIN);
    assert(cuda.driver.map(at + 4096, GRAIN, 0, memory, 0) == CUDA_INVALID_VALUE);
    assert(cuda.driver.map(at, 4096, 0, memory, 0) == CUDA_INVALID_VALUE);
    assert(cuda.driver.map(at, GRAIN, GRAIN, memory, 0) == CUDA_INVALID_VALUE);
    assert(cuda.driver.map(at, 2 * GRAIN, 0, memory, 0) == CUDA_INVALID_VALUE);
    good(cuda.driver.map(at + GRAIN, GRAIN, 0, memory, 0));
    assert(cuda.driver.map(at + GRAIN, GRAIN, 0, memory, 0) == CUDA_INVALID_VALUE);
    good(cuda.driver.address_range(&base, &bytes, at + GRAIN + 5));
    assert(base == at + GRAIN && bytes == GRAIN);
    assert(cuda.driver.address_range(&base, &bytes, at) == CUDA_NOT_FOUND);
    assert(cuda.driver.memory_retain(&retained, (void *)(uintptr_t)at) == CUDA_INVALID_VALUE);
    good(cuda.driver.memory_retain(&retained, (void *)(uintptr_t)(at + 2 * GRAIN - 1)));
    assert(retained == memory);
    const uint64_t plain = allocate(BYTES);
    assert(cuda.driver.memory_retain(&retained, (void *)(uintptr_t)plain) == CUDA_INVALID_VALUE);
}

static void devices_may_be_no_peers(const char *argument)
{
    (void)argument;
    setenv(option_names.STANDIN_PEERS, "0", 1);
    begin();
    const uint64_t at = reserve(STANDIN_GRANULARITY);
    good(cuda.driver.map(at, STANDIN_GRANULARITY, 0, create(), 0));
    good(give_access(at, 0));
    assert(give_access(at, 1) == CUDA_INVALID_DEVICE);
}

static void to_ask_about_a_stream_spoils_its_capture(const char *argument)
{
    int status;
    (void)argument;
    begin();
    struct cuda_stream *const stream = make_stream(0), *const other =
                                                           make_stream(CUDA_STREAM_NON_BLOCKING);
    standin->set_capture(stream, CUDA_CAPTURE_ACTIVE);
    good(cuda.driver.stream_query(other));
    assert(cuda.driver.stream_query(NULL) == CUDA_CAPTURE_IMPLICIT);
    good(cuda.driver.stream_is_capturing(stream, &status));
    assert(status == CUDA_CAPTURE_ACTIVE);
    assert(cuda.driver.stream_query(stream) == CUDA_CAPTURE_UNSUPPORTED);
    good(cuda.driver.stream_is_capturing(stream, &status));
    assert(status == CUDA_CAPTURE_INVALIDATED);
    standin->set_capture(stream, CUDA_CAPTURE_NONE);
    good(cuda.stream_synchronize(stream));
}

/* What it does not let pass. */

static void gives_access_while_a_kernel_waits_for_that(const char *argument)
{
    (void)argument;
    setenv(option_names.STANDIN_WAIT, "1", 1);
    begin();
    const uint64_t at = reserve(STANDIN_GRANULARITY);
    good(cuda.driver.map(at, STANDIN_GRANULARITY, 0, create(), 0));
    struct order *const order = make_order();
    standin->set_deadline(100);
    launch("wait", make_stream(CUDA_STREAM_NON_BLOCKING), 2, order);
    give_access(at, 0);
}

static void exports_what_begins_nothing(const char *argument)
{
    struct cuda_ipc_handle handle;
    (void)argument;
    begin();
    cuda.driver.ipc_export(&handle, allocate(BYTES) + 64);
}

static void asks_what_no_driver_knows(const char *argument)
{
    unsigned value;
    int attribute = 99;
    void *values[] = {&value};
    (void)argument;
    begin();
    cuda.driver.pointer_attributes(1, &attribute, values, allocate(BYTES));
}

static void a_kernel_in_a_mapping_that_nobody_may_touch(const char *argument)
{
    (void)argument;
    begin();
    const uint64_t at = reserve(STANDIN_GRANULARITY);
    good(cuda.driver.map(at, STANDIN_GRANULARITY, 0, create(), 0));
    struct order *const order = make_order();
    *order = (struct order){.address = at, .count = 2};
    launch("add", make_stream(0), 1, order);
    cuda.context_synchronize();
}

static void unmaps_a_part(const char *argument)
{
    (void)argument;
    begin();
    const uint64_t at = reserve(STANDIN_GRANULARITY);
    good(cuda.driver.map(at, STANDIN_GRANULARITY, 0, create(), 0));
    cuda.driver.unmap(at, STANDIN_GRANULARITY / 2);
}

static void gives_memory_back_twice(const char *argument)
{
    (void)argument;
    begin();
    const cuda_memory memory = create();
    good(cuda.driver.memory_release(memory));
    cuda.driver.memory_release(memory);
}

static void frees_addresses_that_are_mapped(const char *argument)
{
    (void)argument;
    begin();
    const uint64_t at = reserve(STANDIN_GRANULARITY);
    good(cuda.driver.map(at, STANDIN_GRANULARITY, 0, create(), 0));
    cuda.driver.address_free(at, STANDIN_GRANULARITY);
}

static void reads_by_the_host(const char *argument)
{
    (void)argument;
    begin();
    const volatile char *const memory = (const volatile char *)(uintptr_t)allocate(BYTES);
    (void)*memory;
}

static void writes_by_the_host(const char *argument)
{
    (void)argument;
    begin();
    *(volatile char *)(uintptr_t)(allocate(BYTES) + 100) = 1;
}

static void copies_from_freed_memory(const char *argument)
{
    char to[16];
    (void)argument;
    begin();
    const uint64_t memory = allocate(BYTES);
    good(cuda.driver.release(memory));
    cuda.copy_to_host(to, memory, sizeof to);
}

static void copies_beyond_the_end(const char *argument)
{
    char to[16];
    (void)argument;
    begin();
    cuda.copy_to_host(to, allocate(100) + 90, sizeof to);
}

static void frees_twice(const char *argument)
{
    (void)argument;
    begin();
    const uint64_t memory = allocate(BYTES);
    good(cuda.driver.release(memory));
    cuda.driver.release(memory);
}

static void frees_what_begins_nothing(const char *argument)
{
    (void)argument;
    begin();
    cuda.driver.release(allocate(BYTES) + 64);
}

static void frees_by_the_wrong_function(const char *argument)
{
    (void)argument;
    begin();
    cuda.driver.release((uintptr_t)make_order());
}

/* Adds to numbers of memory that device 0 does not reach so. */
static void add_to(uint64_t address, uint64_t count)
{
    struct order *const order = make_order();
    order->address = address;
    order->count = count;
    launch("add", make_stream(0), 1, order);
    cuda.context_synchronize();
}

static void a_kernel_beyond_the_end(const char *argument)
{
    (void)argument;
    begin();
    add_to(allocate(15), 2);
}

static void a_kernel_in_private_memory(const char *argument)
{
    static uint64_t numbers[2];
    (void)argument;
    begin();
    add_to((uintptr_t)numbers, 2);
}

static void a_kernel_on_another_device(const char *argument)
{
    (void)argument;
    begin();
    make_current(1);
    const uint64_t memory = allocate(BYTES);
    make_current(0);
    add_to(memory, 2);
}

static void a_kernel_in_freed_memory(const char *argument)
{
    (void)argument;
    begin();
    const uint64_t memory = allocate(BYTES);
    add_to(memory, 2); /* is remembered by no later thread */
    good(cuda.driver.release(memory));
    add_to(memory, 2);
}

static void a_kernel_in_memory_that_is_no_longer_pinned(const char *argument)
{
    static _Alignas(BYTES) uint64_t numbers[BYTES / sizeof(uint64_t)];
    (void)argument;
    begin();
    good(cuda.host_register(numbers, sizeof numbers, CUDA_HOST_PORTABLE));
    add_to((uintptr_t)numbers, 2);
    good(cuda.host_unregister(numbers));
    add_to((uintptr_t)numbers, 2);
}

static void a_kernel_without_a_twin(const char *argument)
{
    (void)argument;
    begin();
    try_to_launch("twinless", NULL, 1, 0);
}

static void a_kernel_with_other_parameters(const char *argument)
{
    (void)argument;
    begin();
    try_to_launch("many", NULL, 1, 0);
}

static void a_destroyed_stream(const char *argument)
{
    (void)argument;
    begin();
    struct cuda_stream *const stream = make_stream(0);
    good(cuda.driver.stream_destroy(stream));
    cuda.driver.stream_query(stream);
}

static void an_unknown_stream(const char *argument)
{
    int number;
    (void)argument;
    begin();
    cuda.stream_synchronize((struct cuda_stream *)&number);
}

static void a_destroyed_event(const char *argument)
{
    struct cuda_event *event;
    (void)argument;
    begin();
    good(cuda.event_create(&event, 0));
    good(cuda.event_destroy(event));
    cuda.event_query(event);
}

static void frees_while_a_kernel_waits_for_that(const char *argument)
{
    (void)argument;
    begin();
    standin->set_deadline(100);
    const uint64_t memory = allocate(BYTES);
    launch("wait", make_stream(CUDA_STREAM_NON_BLOCKING), 2, make_order());
    cuda.driver.release(memory);
}

static void works_while_it_captures(const char *argument)
{
    (void)argument;
    begin();
    struct cuda_stream *const stream = make_stream(0);
    struct order *const order = make_order();
    standin->set_capture(stream, CUDA_CAPTURE_ACTIVE);
    launch("add", stream, 1, order);
}

/* Reads memory whose handle it gets as text, and then once more when the pipe says that its owner
 * has freed it. */
static void import_text(const char *argument)
{
    struct cuda_ipc_handle handle;
    int to_read, to_write, at;
    uint64_t address;
    char byte = 0;
    begin();
    assert(sscanf(argument, "%d %d %n", &to_read, &to_write, &at) == 2);
    for (size_t b = 0; b < sizeof handle.bytes; b++) {
        unsigned value;
        assert(sscanf(&argument[at + 2 * (int)b], "%2x", &value) == 1);
        handle.bytes[b] = (unsigned char)value;
    }
    good(cuda.driver.ipc_open(&address, handle, CUDA_IPC_ENABLE_PEER_ACCESS));
    good(cuda.copy_to_host(&byte, address, 1));
    assert(byte == 'a' && write(to_write, "1", 1) == 1 && read(to_read, &byte, 1) == 1);
    cuda.copy_to_host(&byte, address, 1);
}

struct owner {
    uint64_t memory;
    int to_read, to_write;
};

static void *free_when_told(void *context)
{
    const struct owner *const owner = context;
    char byte;
    make_current(0);
    assert(read(owner->to_read, &byte, 1) == 1);
    good(cuda.driver.release(owner->memory));
    assert(write(owner->to_write, "1", 1) == 1);
    return NULL;
}

static void imported_memory_that_its_owner_frees(const char *argument)
{
    struct cuda_ipc_handle handle;
    int there[2], back[2];
    char text[256], output[1024];
    pthread_t thread;
    (void)argument;
    begin();
    assert(pipe(there) == 0 && pipe(back) == 0);
    struct owner owner = {allocate(BYTES), there[0], back[1]};
    good(cuda.copy_to_device(owner.memory, "a", 1));
    good(cuda.stream_synchronize(NULL));
    good(cuda.driver.ipc_export(&handle, owner.memory));
    int length = snprintf(text, sizeof text, "%d %d ", back[0], there[1]);
    for (size_t b = 0; b < sizeof handle.bytes; b++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%02x", handle.bytes[b]);
    assert(pthread_create(&thread, NULL, free_when_told, &owner) == 0);
    const int fate = apart_run("import_text", text, output, sizeof output);
    assert(fate != 0 && strstr(output, "which its owner") != NULL);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    static const struct apart_case cases[] = {
#define DOES(name) {#name, name, NULL}
#define DIES(name, words)                    \
    {                                        \
#name, name, "cuda stand-in: " words \
    }
        DOES(bytes_go_to_a_device_and_back),
        DOES(kernels_reach_what_devices_reach),
        DOES(pinned_memory_is_read_when_a_copy_runs),
        DOES(a_copy_that_waits_keeps_others_out),
        DOES(it_keeps_nobody_out_where_that_is_not_wished_for),
        DOES(to_allocate_waits_where_that_is_wished_for),
        DOES(a_copy_to_a_device_may_come_later),
        DOES(functions_of_the_host_run_in_their_stream),
        DOES(a_function_of_the_host_holds_up_no_other_stream),
        DOES(what_is_mapped_side_by_side_is_one),
        DOES(allocations_lie_in_blocks),
        DOES(the_default_stream_waits_and_is_waited_for),
        DOES(events_are_what_was_recorded_last),
        DOES(one_queue_stands_behind_its_head),
        DOES(two_queues_go_on_beside_each_other),
        DOES(blocks_wait_for_multiprocessors),
        DOES(every_seed_keeps_the_order),
        DOES(a_stream_that_is_destroyed_ends_what_it_has),
        DOES(errors_are_returned),
        DOES(a_kernel_that_touches_a_byte_breaks_its_device),
        DOES(a_copy_that_touches_a_byte_breaks_its_device),
        DOES(a_question_breaks_its_device),
        DOES(children_of_fork_have_nothing),
        DOES(imported_memory_that_its_owner_frees),
        DOES(what_is_mapped_by_hand_is_of_whole_grains),
        DOES(devices_may_be_no_peers),
        DOES(to_ask_about_a_stream_spoils_its_capture),
        DIES(reads_by_the_host, "the host touches memory of a device"),
        DIES(writes_by_the_host, "the host touches memory of a device"),
        DIES(copies_from_freed_memory, "a copy touches 16 bytes at"),
        DIES(copies_beyond_the_end, "a copy touches 16 bytes at"),
        DIES(copies_into_a_hole, "a copy touches 16 bytes at"),
        DIES(copies_where_nobody_gave_access, "a copy touches "),
        DIES(frees_twice, "cuMemFree: nothing is at"),
        DIES(frees_what_begins_nothing, "cuMemFree: "),
        DIES(frees_by_the_wrong_function, "cuMemFree: "),
        DIES(a_kernel_beyond_the_end, "add touches 16 bytes at"),
        DIES(a_kernel_in_private_memory, "add touches 16 bytes at"),
        DIES(a_kernel_on_another_device, "add touches "),
        DIES(a_kernel_in_freed_memory, "add touches 16 bytes at"),
        DIES(a_kernel_in_memory_that_is_no_longer_pinned, "add touches 16 bytes at"),
        DIES(a_kernel_without_a_twin, "the kernel twinless has no twin"),
        DIES(a_kernel_with_other_parameters, "the kernel many has other parameters"),
        DIES(a_destroyed_stream, ""),
        DIES(an_unknown_stream, ""),
        DIES(a_destroyed_event, ""),
        DIES(frees_while_a_kernel_waits_for_that, "cuMemFree has waited for 100 ms"),
        DIES(works_while_it_captures, "work is given to a stream that is being captured"),
        DIES(gives_access_while_a_kernel_waits_for_that, "cuMemSetAccess has waited for 100 ms"),
        DIES(exports_what_begins_nothing, "cuIpcGetMemHandle: "),
        DIES(asks_what_no_driver_knows, "cuPointerGetAttributes: nothing is known of attribute 99"),
        DIES(a_kernel_in_a_mapping_that_nobody_may_touch, "add touches "),
        DIES(unmaps_a_part, "cuMemUnmap: no mapping of "),
        DIES(gives_memory_back_twice, "cuMemRelease: no memory has the name"),
        DIES(frees_addresses_that_are_mapped, "cuMemAddressFree: memory is mapped"),
#undef DIES
#undef DOES
        {"import_text", import_text, apart_is_part}};
    return apart_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
