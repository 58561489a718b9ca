/* Devices over the stand-in for CUDA's driver (tests/gpu/cuda_standin.h): which driver is taken,
 * whose memory an address is, and each function of struct gpu_driver. Each case has a process of
 * its own. */
#include "gpu/gpu.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/option.h"
#include "base/status.h"
#include "gpu/executor.h"
#include "gpu/kernels.h"
#include "gpu/shares.h"
#include "tests/gpu/cuda_standin.h"
#include "tests/worlds/apart.h"

enum { BYTES = 10000, PAGE = 4096 };

static const struct cuda_standin *standin;
static struct cuda_test_library cuda;
static const struct gpu_driver *driver;

static bool error_has(const char *words)
{
    char text[ERROR_TEXT_MAX];
    error_copy(text, sizeof text);
    if (strstr(text, words) == NULL) fprintf(stderr, "the message is: %s\n", text);
    return strstr(text, words) != NULL;
}

static struct cuda_context *context_of(int device)
{
    struct cuda_context *context;
    assert(cuda.driver.primary_retain(&context, device) == CUDA_OK);
    return context;
}

/* In place of the worker: each block counts. */
static void count_blocks(uint64_t control, uint32_t block, uint32_t block_count)
{
    uint32_t *const counted = standin->reach(control, sizeof *counted);
    assert(block < block_count);
    __atomic_fetch_add(counted, 1, __ATOMIC_RELAXED);
}

/* A program that uses CUDA on device 1, and a communicator that looks for a driver. */
static void begin_with(bool has_own_kernel)
{
    standin = cuda_standin_use();
    cuda_test_load(cuda_standin_file(), &cuda);
    if (has_own_kernel) standin->add_kernel(GPU_KERNEL_WORKER, count_blocks);
    assert(gpu_driver(&driver) == TUTTI_OK && driver != NULL);
    assert(cuda.context_set(context_of(1)) == CUDA_OK);
}

static void begin(void)
{
    begin_with(true);
}

/* Nothing is left but memory that is kept for the next allocation, and two streams and pinned
 * memory for each device. The context is the same as before. */
static void end_with(unsigned kept)
{
    struct cuda_context *context;
    const struct cuda_standin_counts counts = standin->count();
    assert(cuda.context_get(&context) == CUDA_OK && context == context_of(1));
    assert(cuda.driver.context_pop(&context) == CUDA_OK);
    assert(cuda.driver.context_pop(&context) == CUDA_INVALID_CONTEXT);
    assert(counts.allocations == kept && counts.streams == 2 * counts.pinned &&
           counts.registered == 0 && counts.imported == 0 && counts.pinned <= 2);
}

static void end(void)
{
    end_with(0);
}

static struct gpu_device *open_device(int number)
{
    struct gpu_device *device = NULL;
    assert(driver->open(number, &device) == TUTTI_OK && device != NULL);
    return device;
}

static void *on_device(int device, size_t bytes)
{
    uint64_t address = 0;
    assert(standin->allocate(device, bytes, STANDIN_ORDINARY, &address) == CUDA_OK);
    return (void *)(uintptr_t)address;
}

static void release(void *memory)
{
    assert(cuda.driver.release((uintptr_t)memory) == CUDA_OK);
}

/* From memory that is not pinned the copy alone would return before the device has all. */
static bool put(void *memory, const void *data, size_t bytes)
{
    return cuda.copy_to_device((uintptr_t)memory, data, bytes) == CUDA_OK &&
           cuda.stream_synchronize(NULL) == CUDA_OK;
}

static struct gpu_device *found(const void *address)
{
    struct gpu_device *device = (struct gpu_device *)1;
    assert(gpu_find(address, &device) == TUTTI_OK);
    return device;
}

/* The choice of a driver. */

static void without_a_driver_all_is_the_hosts(const char *argument)
{
    const struct gpu_driver *none = (const struct gpu_driver *)1;
    int number = 0;
    (void)argument;
    unsetenv(option_names.CUDA_DRIVER);
    assert(gpu_driver(&none) == TUTTI_OK && none == NULL);
    assert(atomic_load(&gpu_in_use) == NULL);
    assert(found(&number) == NULL && found(NULL) == NULL);
    assert(gpu_of_kind(NULL) == NULL);
}

static void the_programs_driver_is_taken_once_initialised(const char *argument)
{
    const struct gpu_driver *it;
    (void)argument;
    standin = cuda_standin_use();
    unsetenv(option_names.CUDA_DRIVER);
    cuda_test_load(cuda_standin_file(), &cuda);
    assert(gpu_driver(&it) == TUTTI_OK && it == NULL);
    assert(cuda.driver.init(0) == CUDA_OK);
    assert(gpu_driver(&it) == TUTTI_OK && it != NULL && strcmp(it->name, "cuda") == 0);
    assert(atomic_load(&gpu_in_use) == it && it->device_count() == 2);
}

static void a_missing_file_is_named(const char *argument)
{
    (void)argument;
    setenv(option_names.CUDA_DRIVER, "/nowhere/libcuda.so.1", 1);
    assert(gpu_driver(&driver) == TUTTI_INVALID_OPTIONS && driver == NULL);
    assert(error_has("/nowhere/libcuda.so.1"));
    assert(atomic_load(&gpu_in_use) == NULL);
}

static void a_file_without_the_functions_is_named_with_one(const char *argument)
{
    (void)argument;
    setenv(option_names.CUDA_DRIVER, "libm.so.6", 1);
    assert(gpu_driver(&driver) == TUTTI_INVALID_OPTIONS && driver == NULL);
    assert(error_has("libm.so.6 has no function cuInit"));
}

static void no_device_is_no_driver(const char *argument)
{
    (void)argument;
    standin = cuda_standin_use();
    setenv(option_names.STANDIN_DEVICES, "0", 1);
    assert(gpu_driver(&driver) == TUTTI_OK && driver == NULL);
}

static void a_driver_that_fails_says_why(const char *argument)
{
    (void)argument;
    standin = cuda_standin_use();
    standin->fail("cuInit", CUDA_OUT_OF_MEMORY, 0, 1);
    assert(gpu_driver(&driver) == TUTTI_NO_MEMORY && driver == NULL);
    assert(error_has("CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"));
    assert(gpu_driver(&driver) == TUTTI_OK && driver != NULL);
}

static void *get_driver(void *context)
{
    const struct gpu_driver **const got = context;
    assert(gpu_driver(got) == TUTTI_OK);
    return NULL;
}

static void threads_find_the_same_driver(const char *argument)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    const struct gpu_driver *got[THREADS];
    (void)argument;
    cuda_standin_use();
    for (int t = 0; t < THREADS; t++)
        assert(pthread_create(&threads[t], NULL, get_driver, &got[t]) == 0);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) assert(got[t] != NULL && got[t] == got[0]);
}

/* Devices. */

static void a_device_is_described(const char *argument)
{
    struct gpu_device *none = NULL;
    (void)argument;
    begin();
    const struct gpu_device *const device = open_device(1);
    assert(device == open_device(1) && device != open_device(0));
    assert(device->driver == driver && device->number == 1 && device->processor_count == 8);
    assert(strcmp(device->name, "stand-in 1") == 0 && strcmp(device->bus, "0000:a1:00.0") == 0);
    assert(device->memory_bytes == (uint64_t)8 << 30);
    assert(driver->open(2, &none) == TUTTI_INVALID_OPTIONS && error_has("no CUDA device 2"));
    assert(driver->open(-1, &none) == TUTTI_INVALID_OPTIONS && none == NULL);
    end();
}

static void *open_both(void *context)
{
    struct gpu_device **const got = context;
    assert(driver->open(0, &got[0]) == TUTTI_OK && driver->open(1, &got[1]) == TUTTI_OK);
    return NULL;
}

static void threads_open_a_device_once(const char *argument)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    struct gpu_device *got[THREADS][2];
    (void)argument;
    begin();
    for (int t = 0; t < THREADS; t++)
        assert(pthread_create(&threads[t], NULL, open_both, got[t]) == 0);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) assert(got[t][0] == got[0][0] && got[t][1] == got[0][1]);
    assert(standin->count().modules == 2);
    end();
}

static void a_device_that_does_not_open_can_be_opened_later(const char *argument)
{
    static const struct {
        const char *function;
        enum tutti_status status;
    } steps[] = {{"cuDeviceGet", TUTTI_SYSTEM},         {"cuDevicePrimaryCtxRetain", TUTTI_SYSTEM},
                 {"cuDeviceGetName", TUTTI_SYSTEM},     {"cuDeviceGetPCIBusId", TUTTI_SYSTEM},
                 {"cuDeviceTotalMem_v2", TUTTI_SYSTEM}, {"cuDeviceGetAttribute", TUTTI_SYSTEM},
                 {"cuCtxPushCurrent_v2", TUTTI_SYSTEM}, {"cuModuleLoadDataEx", TUTTI_SYSTEM},
                 {"cuModuleGetFunction", TUTTI_SYSTEM}, {"cuFuncGetAttribute", TUTTI_SYSTEM},
                 {"cuMemHostAlloc", TUTTI_SYSTEM},      {"cuStreamCreate", TUTTI_SYSTEM}};
    (void)argument;
    begin();
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        struct gpu_device *device = NULL;
        standin->fail(steps[s].function, CUDA_INVALID_PTX, 0, 1);
        assert(driver->open(0, &device) == steps[s].status && device == NULL);
        assert(error_has("CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed"));
        standin->fail(NULL, 0, 0, 0);
    }
    open_device(0);
    end();
}

/* Memory. */

static void memory_is_found_where_it_lies(const char *argument)
{
    char *const host = malloc(BYTES);
    void *pinned = NULL;
    uint64_t bare = 0;
    (void)argument;
    begin();
    char *const zero = on_device(0, BYTES), *const one = on_device(1, BYTES);
    struct gpu_device *const device = found(one);
    assert(device != NULL && device->number == 1 && device == open_device(1));
    assert(found(one + BYTES - 1) == device && found(one + BYTES) == NULL);
    assert(found(zero)->number == 0);
    assert(found(host) == NULL && found(&host) == NULL && found((const void *)begin) == NULL);
    assert(driver->allocate_pinned(device, BYTES, &pinned) == TUTTI_OK);
    memset(pinned, 1, BYTES);
    assert(found(pinned) == NULL);
    struct gpu_memory memory;
    assert(driver->find(pinned, &memory) == TUTTI_OK && memory.place == GPU_PINNED);
    assert(driver->find(host, &memory) == TUTTI_OK && memory.place == GPU_NOT_ITS);
    assert(driver->find(one + 17, &memory) == TUTTI_OK && memory.place == GPU_DEVICE_MEMORY &&
           memory.device == 1 && memory.buffer != 0);
    assert(standin->allocate(0, BYTES, STANDIN_BARE, &bare) == CUDA_OK);
    assert(found((void *)(uintptr_t)bare)->number == 0);
    driver->release_pinned(device, pinned);
    release(zero);
    release(one);
    release((void *)(uintptr_t)bare);
    assert(found(one) == NULL);
    free(host);
    end();
}

static void memory_of_the_same_address_has_another_number(const char *argument)
{
    struct gpu_memory before, after;
    (void)argument;
    begin();
    void *const first = on_device(0, BYTES);
    assert(driver->find(first, &before) == TUTTI_OK && before.buffer != 0);
    release(first);
    void *const second = on_device(0, BYTES);
    assert(second == first);
    assert(driver->find(second, &after) == TUTTI_OK && after.place == GPU_DEVICE_MEMORY);
    assert(after.buffer != 0 && after.buffer != before.buffer);
    release(second);
    end();
}

static void managed_and_foreign_memory_is_refused(const char *argument)
{
    struct gpu_device *device = NULL;
    uint64_t managed = 0, foreign = 0;
    (void)argument;
    begin();
    assert(cuda.allocate_managed(&managed, BYTES, 1) == CUDA_OK);
    assert(gpu_find((void *)(uintptr_t)managed, &device) == TUTTI_INVALID_BUFFER);
    assert(device == NULL && error_has("managed memory"));
    assert(standin->allocate(0, BYTES, STANDIN_FOREIGN, &foreign) == CUDA_OK);
    for (int turn = 0; turn < 2; turn++) { /* the device is not open yet, and it is */
        assert(gpu_find((void *)(uintptr_t)foreign, &device) == TUTTI_INVALID_BUFFER);
        assert(device == NULL && error_has("a CUDA context other than the primary one"));
    }
    release((void *)(uintptr_t)managed);
    release((void *)(uintptr_t)foreign);
    end();
}

static void finding_may_fail(const char *argument)
{
    struct gpu_device *device = NULL;
    int number;
    (void)argument;
    begin();
    standin->fail("cuPointerGetAttributes", CUDA_NOT_SUPPORTED, 0, 1);
    assert(gpu_find(&number, &device) == TUTTI_UNSUPPORTED && device == NULL);
    standin->fail(NULL, 0, 0, 0);
    standin->fail("cuPointerGetAttributes", CUDA_DEINITIALIZED, 0, 1);
    assert(found(&number) == NULL);
    standin->fail(NULL, 0, 0, 0);
    standin->fail("cuPointerGetAttributes", CUDA_INVALID_CONTEXT, 0, 2);
    assert(found(&number) == NULL);
    void *const memory = on_device(0, BYTES);
    assert(gpu_find(memory, &device) == TUTTI_SYSTEM && error_has("CUDA_ERROR_INVALID_CONTEXT"));
    release(memory);
    end();
}

/* Some drivers need a context to answer. That a driver needs one is no fault of a device. */
static void a_thread_without_a_context_asks_in_that_of_a_device(const char *argument)
{
    struct gpu_memory memory;
    int number;
    (void)argument;
    begin();
    open_device(0);
    void *const theirs = on_device(0, BYTES);
    standin->fail("cuPointerGetAttributes", CUDA_INVALID_CONTEXT, 0, 1);
    assert(driver->find(theirs, &memory) == TUTTI_OK);
    assert(memory.place == GPU_DEVICE_MEMORY && memory.device == 0 && memory.buffer != 0);
    standin->fail(NULL, 0, 0, 0);
    standin->fail("cuPointerGetAttributes", CUDA_INVALID_CONTEXT, 0, 2);
    assert(driver->check_all() == TUTTI_OK);
    assert(driver->find(&number, &memory) == TUTTI_OK && memory.place == GPU_NOT_ITS);
    release(theirs);
    end();
}

/* The driver answers every question about its device with the fault, and about memory that no
 * device has. */
static void a_device_that_has_failed_says_so_and_hides_no_other_memory(const char *argument)
{
    struct gpu_device *device = NULL;
    char host[16] = "of the host", text[16] = "";
    (void)argument;
    begin();
    struct gpu_device *const fails = open_device(0), *const works = open_device(1);
    void *const lost = on_device(0, BYTES), *const kept = on_device(1, BYTES);
    assert(driver->check(fails) == TUTTI_OK && driver->check(works) == TUTTI_OK);
    standin->fail("cuStreamQuery", CUDA_NOT_READY, 0, 1); /* is none */
    assert(driver->check(fails) == TUTTI_OK);
    standin->fail("cuStreamQuery", CUDA_OUT_OF_MEMORY, 0, 1); /* nor is this */
    assert(driver->check(fails) == TUTTI_OK);
    standin->fail(NULL, 0, 0, 0);
    standin->fault(0, CUDA_ECC_UNCORRECTABLE, 0);
    assert(driver->check(fails) == TUTTI_SYSTEM);
    assert(
        error_has("CUDA_ERROR_ECC_UNCORRECTABLE (214); start this process again; see nvidia-smi"));
    assert(driver->check(works) == TUTTI_OK);
    assert(gpu_find(lost, &device) == TUTTI_SYSTEM && error_has("CUDA_ERROR_ECC_UNCORRECTABLE"));
    assert(found(host) == NULL && found(kept) == works);
    /* Links take it for memory of no device and not of the host. */
    const struct memory_kind *const kind = memory_kind_of(lost);
    assert(kind != NULL && kind != &fails->kind && gpu_of_kind(kind) == NULL);
    assert(!kind->copy(kind, text, lost, 8) && kind->allocate(kind, 8) == NULL);
    assert(memory_kind_of(host) == NULL && memory_kind_of(kept) == &works->kind);
    assert(works->kind.copy(&works->kind, kept, host, sizeof host));
    assert(works->kind.copy(&works->kind, text, kept, sizeof text) && strcmp(text, host) == 0);
    assert(!fails->kind.copy(&fails->kind, text, lost, 8));
    assert(!fails->kind.read(&fails->kind, text, lost, 8));
    assert(fails->kind.allocate(&fails->kind, BYTES) == NULL);
    driver->release_memory(fails, lost);
    release(kept);
    end_with(1);
}

static void a_kind_allocates_on_its_device(const char *argument)
{
    static const struct memory_kind other = {.name = "other"};
    struct gpu_memory memory;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    const struct memory_kind *const kind = &device->kind;
    assert(gpu_of_kind(kind) == device && gpu_of_kind(NULL) == NULL && gpu_of_kind(&other) == NULL);
    void *const memory_of_kind = kind->allocate(kind, 100);
    assert(memory_of_kind != NULL && (uintptr_t)memory_of_kind % 64 == 0);
    assert(driver->find(memory_of_kind, &memory) == TUTTI_OK && memory.device == 0);
    assert(found(memory_of_kind) == device);
    assert(kind->copy(kind, memory_of_kind, "of a kind", 10));
    char text[10] = "";
    assert(kind->copy(kind, text, memory_of_kind, 10) && strcmp(text, "of a kind") == 0);
    kind->release(kind, memory_of_kind, 100);
    assert(kind->allocate(kind, 200) == memory_of_kind); /* it was kept */
    void *const another = kind->allocate(kind, 200);
    assert(another != NULL && another != memory_of_kind);
    kind->release(kind, another, 200);
    kind->release(kind, memory_of_kind, 200);
    assert(standin->count().waiting_copies == 0); /* a driver would keep other threads out */
    standin->fail("cuMemcpyAsync", CUDA_NOT_SUPPORTED, 0, 1);
    assert(!kind->copy(kind, text, memory_of_kind, 10) && error_has("CUDA_ERROR_NOT_SUPPORTED"));
    assert(kind->allocate(kind, (size_t)1 << 40) == NULL && error_has("CUDA_ERROR_OUT_OF_MEMORY"));
    end_with(2);
}

static void a_device_without_pools_allocates_plainly(const char *argument)
{
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    standin->fail("cuMemAllocAsync", CUDA_NOT_SUPPORTED, 0, 1);
    void *const memory = device->kind.allocate(&device->kind, BYTES);
    assert(memory != NULL && found(memory) == device);
    device->kind.release(&device->kind, memory, BYTES);
    end_with(1);
}

/* Through pinned memory, a piece at a time. */
static void a_kind_copies_what_is_large(const char *argument)
{
    static const size_t sizes[] = {1, 512 << 10, (512 << 10) + 1, (1 << 20) + 7, (3 << 20) + 5};
    enum { LARGEST = (3 << 20) + 5 };
    (void)argument;
    begin();
    const struct memory_kind *const kind = &open_device(0)->kind;
    unsigned char *const there = malloc(LARGEST + 1), *const back = malloc(LARGEST + 1);
    char *const memory = kind->allocate(kind, LARGEST);
    assert(there != NULL && back != NULL && memory != NULL);
    for (size_t i = 0; i < LARGEST; i++) there[i] = (unsigned char)(i * 7 + i / 4093);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        memset(back, 0, LARGEST + 1);
        there[sizes[s] - 1] ^= (unsigned char)(s + 1);
        assert(kind->copy(kind, memory, there, sizes[s]));
        assert(kind->copy(kind, back, memory, sizes[s]));
        assert(memcmp(back, there, sizes[s]) == 0 && back[sizes[s]] == 0);
    }
    for (unsigned skipped = 0; skipped < 6; skipped++) { /* and goes on after a failure anywhere */
        standin->fail("cuMemcpyAsync", CUDA_NOT_SUPPORTED, skipped, 1);
        assert(!kind->copy(kind, memory, there, LARGEST));
        standin->fail(NULL, 0, 0, 0);
        standin->fail("cuMemcpyAsync", CUDA_NOT_SUPPORTED, skipped, 1);
        assert(!kind->copy(kind, back, memory, LARGEST));
        standin->fail(NULL, 0, 0, 0);
    }
    assert(kind->copy(kind, memory, there, LARGEST) && kind->copy(kind, back, memory, LARGEST));
    assert(memcmp(back, there, LARGEST) == 0 && standin->count().waiting_copies == 0);
    kind->release(kind, memory, LARGEST);
    free(there);
    free(back);
    end_with(1);
}

struct reading {
    const struct memory_kind *kind;
    unsigned char *text;
    const void *memory;
    size_t bytes;
    bool is_good;
};

static void *read_there(void *context)
{
    struct reading *const reading = context;
    reading->is_good =
        reading->kind->read(reading->kind, reading->text, reading->memory, reading->bytes);
    return NULL;
}

/* In the only queue, work that a program has enqueued behind an operation stands before the
 * driver's copy, and waits for the operation's worker. */
static void reading_waits_for_no_work_behind_a_worker(const char *argument)
{
    enum { LARGE = (1 << 20) + 5 };
    static unsigned char there[LARGE], back[LARGE];
    struct gpu_run *run = NULL;
    pthread_t thread;
    void *stream = NULL;
    (void)argument;
    setenv(option_names.STANDIN_QUEUES, "1", 1);
    begin_with(false);
    for (size_t i = 0; i < LARGE; i++) there[i] = (unsigned char)(i * 7 + i / 4093);
    struct gpu_device *const device = open_device(0);
    const struct memory_kind *const kind = &device->kind;
    char *const memory = on_device(0, LARGE);
    assert(put(memory, there, LARGE) && driver->make_stream(device, &stream) == TUTTI_OK);
    const unsigned waiting_copies = standin->count().waiting_copies;
    struct reading reading = {kind, back, memory, LARGE, false};
    read_there(&reading); /* no worker is there: the driver copies */
    assert(reading.is_good && memcmp(back, there, LARGE) == 0);

    assert(gpu_run_take(device, &run) == TUTTI_OK);
    struct operation_gate *const gate = gpu_run_gate(run);
    standin->hold(stream, true);
    assert(gpu_run_begin(run, true, stream) == TUTTI_OK);
    assert(cuda.driver.copy((uintptr_t)memory, (uintptr_t)memory + 1, 1, stream) == CUDA_OK);
    memset(back, 0, LARGE);
    assert(pthread_create(&thread, NULL, read_there, &reading) == 0);
    usleep(20000); /* that the driver's copy is in the queue, most likely */
    standin->hold(stream, false);
    assert(pthread_join(thread, NULL) == 0 && reading.is_good); /* the worker came */
    assert(memcmp(back, there, LARGE) == 0 && gate->ops->is_open(gate));
    memset(back, 0, LARGE);
    read_there(&reading); /* and is there still */
    assert(reading.is_good && memcmp(back, there, LARGE) == 0);
    gate->ops->end(gate, true);
    assert(cuda.stream_synchronize(stream) == CUDA_OK);
    gpu_run_give_back(run);
    there[0] = there[1];
    read_there(&reading);
    assert(reading.is_good && memcmp(back, there, LARGE) == 0);
    assert(standin->count().waiting_copies == waiting_copies);
}

/* A driver may wait for a rank's worker before it allocates, and the worker for the rank that
 * allocates. */
static void runs_are_made_before_ranks_wait_for_each_other(const char *argument)
{
    struct gpu_run *first = NULL, *second = NULL;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(1);
    gpu_share(4);
    assert(standin->count().pinned == 1); /* no rank may ever use it */
    assert(gpu_run_take(device, &first) == TUTTI_OK && standin->count().pinned == 1 + 2 * 4);
    assert(gpu_run_take(device, &second) == TUTTI_OK && standin->count().pinned == 1 + 2 * 4);
    assert(first != second);
    gpu_run_give_back(first);
    gpu_run_give_back(second);
    gpu_share(3);
    assert(standin->count().pinned == 1 + 2 * 4);
    gpu_share(5); /* with fewer blocks: others */
    assert(standin->count().pinned == 1 + 2 * 4 + 2 * 5);
    assert(gpu_run_take(device, &first) == TUTTI_OK);
    assert(standin->count().pinned == 1 + 2 * 4 + 2 * 5);
    /* Making a run in advance may fail without a word. Only a run that is asked for reports a
     * failure. */
    gpu_run_give_back(first);
    standin->fail("cuMemHostAlloc", CUDA_OUT_OF_MEMORY, 1, 1);
    assert(gpu_run_take(open_device(0), &first) == TUTTI_NO_MEMORY);
    standin->fail(NULL, 0, 0, 0);
    standin->fail("cuMemHostAlloc", CUDA_OUT_OF_MEMORY, 1, 1);
    assert(gpu_run_take(open_device(0), &first) == TUTTI_OK);
    gpu_run_give_back(first);
}

static void pages_that_the_program_has_pinned_are_the_hosts(const char *argument)
{
    (void)argument;
    char *const pages =
        mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct gpu_memory memory;
    begin();
    open_device(0);
    assert(cuda.host_register(pages, 4 * PAGE, CUDA_HOST_PORTABLE) == CUDA_OK);
    assert(driver->find(pages + PAGE, &memory) == TUTTI_OK && memory.place == GPU_PINNED);
    assert(found(pages + PAGE) == NULL);
    assert(cuda.host_unregister(pages) == CUDA_OK);
    assert(driver->find(pages + PAGE, &memory) == TUTTI_OK && memory.place == GPU_NOT_ITS);
    munmap(pages, 4 * PAGE);
    end();
}

static void pinned_memory_may_not_be_had(const char *argument)
{
    (void)argument;
    void *pinned = NULL;
    begin();
    struct gpu_device *const device = open_device(0);
    standin->fail("cuMemHostGetDevicePointer_v2", CUDA_INVALID_VALUE, 0, 1);
    assert(driver->allocate_pinned(device, PAGE, &pinned) == TUTTI_SYSTEM && pinned == NULL);
    standin->fail("cuMemHostAlloc", CUDA_OUT_OF_MEMORY, 0, 1);
    assert(driver->allocate_pinned(device, PAGE, &pinned) == TUTTI_NO_MEMORY && pinned == NULL);
    end();
}

/* Streams. */

static void streams_have_a_device(const char *argument)
{
    void *stream = NULL;
    struct cuda_stream *theirs = NULL;
    struct cuda_context *context;
    int number = -1;
    (void)argument;
    begin();
    struct gpu_device *const zero = open_device(0), *const one = open_device(1);
    assert(driver->make_stream(zero, &stream) == TUTTI_OK && stream != NULL);
    assert(driver->stream_device(stream, &number) == TUTTI_OK && number == 0);
    assert(driver->stream_check(zero, stream) == TUTTI_OK);
    assert(driver->stream_check(one, stream) == TUTTI_INVALID_OPTIONS);
    assert(cuda.driver.stream_create(&theirs, 0) == CUDA_OK);
    assert(driver->stream_device(theirs, &number) == TUTTI_OK && number == 1);
    assert(driver->stream_device(NULL, &number) == TUTTI_OK && number == 1);
    assert(driver->stream_check(one, NULL) == TUTTI_OK);
    assert(cuda.driver.context_pop(&context) == CUDA_OK);
    assert(driver->stream_device(NULL, &number) == TUTTI_INVALID_OPTIONS);
    assert(error_has("CUDA_ERROR_INVALID_CONTEXT"));
    assert(cuda.driver.context_push(context) == CUDA_OK);
    assert(cuda.driver.stream_destroy(theirs) == CUDA_OK);
    driver->free_stream(zero, stream);
    standin->fail("cuStreamCreate", CUDA_OUT_OF_MEMORY, 0, 1);
    assert(driver->make_stream(zero, &stream) == TUTTI_NO_MEMORY);
    end();
}

static void streams_that_are_captured_are_refused(const char *argument)
{
    struct cuda_stream *theirs = NULL;
    void *pinned = NULL;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(1);
    assert(cuda.driver.stream_create(&theirs, 0) == CUDA_OK);
    standin->set_capture(theirs, CUDA_CAPTURE_ACTIVE);
    assert(driver->stream_check(device, theirs) == TUTTI_UNSUPPORTED && error_has("captured"));
    /* The default stream would wait for that one. */
    assert(driver->stream_check(device, NULL) == TUTTI_UNSUPPORTED && error_has("captured"));
    standin->set_capture(theirs, CUDA_CAPTURE_INVALIDATED);
    assert(driver->stream_check(device, theirs) == TUTTI_UNSUPPORTED);
    standin->set_capture(theirs, CUDA_CAPTURE_ACTIVE);
    /* A program must not allocate during the capture; this library may. */
    uint64_t address;
    assert(cuda.driver.allocate(&address, BYTES) == CUDA_CAPTURE_UNSUPPORTED);
    assert(driver->allocate_pinned(device, BYTES, &pinned) == TUTTI_OK);
    driver->release_pinned(device, pinned);
    void *const memory = device->kind.allocate(&device->kind, BYTES);
    assert(memory != NULL);
    device->kind.release(&device->kind, memory, BYTES);
    open_device(0);
    assert(cuda.driver.allocate(&address, BYTES) == CUDA_CAPTURE_UNSUPPORTED);
    standin->set_capture(theirs, CUDA_CAPTURE_NONE);
    assert(driver->stream_check(device, theirs) == TUTTI_OK);
    assert(cuda.driver.stream_destroy(theirs) == CUDA_OK);
    end_with(1);
}

static void a_worker_starts_when_its_stream_comes_to_it(const char *argument)
{
    void *stream = NULL, *control = NULL;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    assert(driver->make_stream(device, &stream) == TUTTI_OK);
    assert(driver->allocate_pinned(device, 64, &control) == TUTTI_OK);
    uint32_t *const counted = control;
    *counted = 0;
    standin->hold(stream, true);
    assert(driver->start_worker(device, stream, 5, control) == TUTTI_OK);
    assert(cuda.driver.stream_query(stream) == CUDA_NOT_READY && *counted == 0);
    standin->hold(stream, false);
    assert(cuda.stream_synchronize(stream) == CUDA_OK && *counted == 5);
    standin->fail("cuLaunchKernel", CUDA_OUT_OF_MEMORY, 0, 1);
    assert(driver->start_worker(device, stream, 5, control) == TUTTI_NO_MEMORY);
    struct cuda_stream *theirs;
    assert(cuda.driver.stream_create(&theirs, 0) == CUDA_OK); /* on device 1 */
    assert(driver->start_worker(device, theirs, 5, control) == TUTTI_SYSTEM);
    assert(cuda.driver.stream_destroy(theirs) == CUDA_OK);
    driver->free_stream(device, stream);
    driver->release_pinned(device, control);
    end();
}

/* The kernel itself: the library's text has it, and it has a twin. */
static void a_device_opens_with_the_workers_own_kernel(const char *argument)
{
    (void)argument;
    begin_with(false);
    open_device(0);
    end();
}

/* Other processes. */

static void handle_as_text(const struct gpu_handle *handle, char text[2 * GPU_HANDLE_BYTES + 1])
{
    for (int b = 0; b < GPU_HANDLE_BYTES; b++) sprintf(&text[2 * b], "%02x", handle->bytes[b]);
}

static void handle_from_text(const char *text, struct gpu_handle *handle)
{
    for (int b = 0; b < GPU_HANDLE_BYTES; b++) {
        unsigned byte;
        assert(sscanf(&text[2 * b], "%2x", &byte) == 1);
        handle->bytes[b] = (unsigned char)byte;
    }
}

static void importer(const char *argument)
{
    struct gpu_handle handle = {.descriptor = -1}, wrong;
    char text[32];
    void *memory = NULL, *again = NULL;
    begin();
    struct gpu_device *const device = open_device(1);
    handle_from_text(argument, &handle);
    wrong = handle;
    wrong.bytes[0] ^= 1;
    assert(driver->import_memory(device, &wrong, BYTES, &memory) == TUTTI_SYSTEM && memory == NULL);
    assert(error_has("CUDA_ERROR_INVALID_HANDLE"));
    standin->fail("cuMemGetAddressRange_v2", CUDA_INVALID_VALUE, 0, 1);
    assert(driver->import_memory(device, &handle, BYTES, &memory) == TUTTI_SYSTEM && memory == NULL);
    assert(driver->import_memory(device, &handle, 4 << 20, &memory) == TUTTI_SYSTEM);
    assert(memory == NULL && error_has("smaller than that says"));
    assert(driver->import_memory(device, &handle, BYTES, &memory) == TUTTI_OK);
    assert(driver->import_memory(device, &handle, BYTES, &again) == TUTTI_OK && again == memory);
    assert(cuda.copy_to_host(text, (uintptr_t)memory + 100, sizeof text) == CUDA_OK);
    assert(strcmp(text, "from another process") == 0);
    assert(put((char *)memory + 200, "and back", 9));
    assert(found(memory)->number == 0); /* the device where it lies, not a device that reaches it */
    while (found(memory) != NULL) assert(cuda.ipc_close((uintptr_t)memory) == CUDA_OK);
    end();
}

static void memory_goes_to_other_processes(const char *argument)
{
    struct gpu_handle handle;
    char text[2 * GPU_HANDLE_BYTES + 1], output[2048], answer[9];
    size_t offset = 0, bytes = 0;
    void *memory = NULL;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    void *const before = on_device(0, 3 * BYTES);
    char *const mine = on_device(0, BYTES);
    assert(put(mine + 100, "from another process", 21));
    assert(driver->export_memory(device, mine + 100, &handle, &offset, &bytes) == TUTTI_OK);
    assert(offset == 100 && bytes == BYTES);
    assert(handle.descriptor < 0);
    assert(driver->import_memory(device, &handle, bytes, &memory) ==
           TUTTI_SYSTEM); /* it is one's own */
    handle_as_text(&handle, text);
    const int fate = apart_run("importer", text, output, sizeof output);
    if (fate != 0) fprintf(stderr, "%s", output);
    assert(fate == 0);
    assert(cuda.copy_to_host(answer, (uintptr_t)mine + 200, sizeof answer) == CUDA_OK);
    assert(strcmp(answer, "and back") == 0);
    release(mine);
    release(before);
    end();
}

static void memory_without_a_handle_is_not_exported(const char *argument)
{
    struct gpu_handle handle;
    size_t offset, bytes;
    uint64_t bare = 0;
    int number;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    assert(standin->allocate(0, BYTES, STANDIN_BARE, &bare) == CUDA_OK);
    assert(driver->export_memory(device, (void *)(uintptr_t)bare, &handle, &offset, &bytes) ==
           TUTTI_UNSUPPORTED);
    assert(driver->export_memory(device, &number, &handle, &offset, &bytes) == TUTTI_UNSUPPORTED);
    void *const ordinary = on_device(0, BYTES);
    standin->fail("cuIpcGetMemHandle", CUDA_INVALID_VALUE, 0, 1);
    assert(driver->export_memory(device, ordinary, &handle, &offset, &bytes) == TUTTI_UNSUPPORTED);
    assert(error_has("that other processes cannot map"));
    release(ordinary);
    release((void *)(uintptr_t)bare);
    end();
}

static bool is_shared(struct gpu_device *device, const void *address, size_t bytes,
                      struct memory_share *share)
{
    return device->kind.share(&device->kind, address, bytes, share);
}

/* A share that is wished for on the path of a message is there once the next call has begun. */
static void memory_is_shared_by_the_number_of_its_allocation(const char *argument)
{
    struct memory_share first, again, other;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0), *const beside = open_device(1);
    char *const memory = on_device(0, BYTES);
    assert(!is_shared(device, memory + 100, 50, &first));
    gpu_shares_open(beside);
    assert(!is_shared(device, memory + 100, 50, &first));
    error_set(TUTTI_TIMEOUT, "what was said before");
    gpu_shares_open(device);
    assert(is_shared(device, memory + 100, 50, &first) && error_has("what was said before"));
    assert(first.offset == 100 && first.bytes == BYTES && first.process != 0 && first.number != 0);
    assert(is_shared(device, memory, BYTES, &again) && again.offset == 0);
    assert(again.number == first.number && again.process == first.process);
    assert(!is_shared(device, memory, BYTES + 1, &again));
    assert(!is_shared(device, memory + 1, BYTES, &again));
    assert(!is_shared(beside, memory, BYTES, &again)); /* it is the other device's */
    release(memory);
    char *const anew = on_device(0, BYTES);
    assert(anew == memory);
    assert(!is_shared(device, anew + 100, 50, &other));
    gpu_shares_open(device);
    assert(is_shared(device, anew + 100, 50, &other) && other.number != first.number);
    assert(memcmp(other.handle, first.handle, sizeof first.handle) != 0);
    release(anew);
    end();
}

/* Freed, or another allocation's, when it is to be exported. */
static void what_is_wished_for_too_late_is_not_shared(const char *argument)
{
    struct memory_share share;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    char *const memory = on_device(0, BYTES);
    assert(!is_shared(device, memory, BYTES, &share));
    release(memory);
    gpu_shares_open(device);
    char *const anew = on_device(0, 2 * BYTES);
    assert(anew == memory);
    assert(!is_shared(device, anew, BYTES, &share));
    release(anew);
    char *const last = on_device(0, 3 * BYTES);
    assert(last == memory);
    gpu_shares_open(device); /* the memory of the wish is gone */
    assert(!is_shared(device, last, BYTES, &share));
    gpu_shares_open(device);
    assert(is_shared(device, last, BYTES, &share) && share.bytes == 3 * BYTES);
    release(last);
    end();
}

static void some_memory_is_not_shared(const char *argument)
{
    struct memory_share share;
    uint64_t bare = 0;
    int number;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    assert(standin->allocate(0, BYTES, STANDIN_BARE, &bare) == CUDA_OK);
    void *const ordinary = on_device(0, BYTES);
    standin->fail("cuIpcGetMemHandle", CUDA_INVALID_VALUE, 0, 2); /* for the other one, too */
    for (int turn = 0; turn < 3; turn++) {
        assert(!is_shared(device, (void *)(uintptr_t)bare, BYTES, &share));
        assert(!is_shared(device, &number, sizeof number, &share));
        assert(!is_shared(device, ordinary, BYTES, &share));
        gpu_shares_open(device);
    }
    release(ordinary);
    release((void *)(uintptr_t)bare);
    end();
}

/* A driver keeps freed memory while others have it. */
static void who_frees_much_that_was_shared_shares_no_more(const char *argument)
{
    struct memory_share share;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    const size_t most = device->memory_bytes / GPU_FREED_SHARE;
    for (int turn = 0; turn < 4; turn++) {
        void *const memory = on_device(0, most / 2 + 1);
        assert(!is_shared(device, memory, 100, &share));
        gpu_shares_open(device);
        assert(is_shared(device, memory, 100, &share) == (turn < 2));
        release(memory);
    }
    end();
}

/* Places of freed memory are found although nothing new finds one. */
static void who_frees_what_it_shared_may_share_as_much_again(const char *argument)
{
    enum { SMALL = 256 };
    struct memory_share share;
    void *all[GPU_EXPORTS_MAX];
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    for (int e = 0; e < GPU_EXPORTS_MAX; e++) {
        all[e] = on_device(0, SMALL);
        assert(!is_shared(device, all[e], SMALL, &share));
    }
    gpu_shares_open(device);
    for (int e = 0; e < GPU_EXPORTS_MAX; e++) {
        assert(is_shared(device, all[e], SMALL, &share));
        release(all[e]);
    }
    void *const last = on_device(0, SMALL);
    bool is_shared_again = false;
    for (int call = 0; call < GPU_EXPORTS_MAX + 2 && !is_shared_again; call++) {
        is_shared_again = is_shared(device, last, SMALL, &share);
        gpu_shares_open(device);
    }
    assert(is_shared_again);
    release(last);
    end();
}

static enum memory_mapping is_mapped(struct gpu_device *device, const struct memory_share *share,
                                     void **address, size_t *bytes)
{
    return device->kind.map(&device->kind, share, address, bytes);
}

static void sharer(const char *argument)
{
    struct memory_share share, wrong, larger, again;
    struct gpu_handle handle;
    char text[32];
    void *address = NULL, *other = NULL;
    size_t bytes = 0;
    begin();
    struct gpu_device *const device = open_device(1);
    assert(sscanf(argument, "%lu %lu %lu", &share.process, &share.number, &share.bytes) == 3);
    handle_from_text(strrchr(argument, ' ') + 1, &handle);
    memcpy(share.handle, handle.bytes, sizeof share.handle);
    share.descriptor = -1;
    share.offset = 77; /* does not matter */
    wrong = larger = again = share;
    wrong.handle[0] ^= 1;
    larger.bytes += 4 << 20; /* more than a driver may map beside it */
    again.number++;          /* the same handle for another allocation: a driver opens it twice */
    again.offset = 0;
    assert(is_mapped(device, &share, &address, &bytes) == MEMORY_NOT_YET);
    assert(is_mapped(device, &share, &address, &bytes) == MEMORY_NOT_YET);
    assert(is_mapped(device, &wrong, &address, &bytes) == MEMORY_NOT_YET);
    assert(is_mapped(device, &larger, &address, &bytes) == MEMORY_NOT_YET);
    error_set(TUTTI_TIMEOUT, "what was said before");
    gpu_shares_open(device);
    assert(error_has("what was said before"));
    assert(is_mapped(device, &wrong, &address, &bytes) == MEMORY_REFUSED);
    assert(is_mapped(device, &larger, &address, &bytes) == MEMORY_REFUSED);
    assert(is_mapped(device, &share, &address, &bytes) == MEMORY_MAPPED && bytes == BYTES);
    assert(cuda.copy_to_host(text, (uintptr_t)address + 100, sizeof text) == CUDA_OK);
    assert(strcmp(text, "from another process") == 0);
    assert(is_mapped(device, &again, &other, &bytes) == MEMORY_NOT_YET);
    gpu_shares_open(device);
    assert(is_mapped(device, &again, &other, &bytes) == MEMORY_MAPPED && other == address);
    for (unsigned i = 4; i < GPU_IMPORTS_MAX; i++) {
        wrong.number++;
        assert(is_mapped(device, &wrong, &other, &bytes) == MEMORY_NOT_YET);
    }
    wrong.number++;
    assert(is_mapped(device, &wrong, &other, &bytes) == MEMORY_REFUSED);
    gpu_shares_open(device);
    assert(is_mapped(device, &share, &other, &bytes) == MEMORY_MAPPED && other == address);
}

static void what_is_shared_is_mapped_in_other_processes(const char *argument)
{
    struct memory_share share;
    struct gpu_handle handle;
    char text[2 * GPU_HANDLE_BYTES + 1], all[400], output[2048];
    void *none;
    size_t bytes;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    char *const mine = on_device(0, BYTES);
    assert(put(mine + 100, "from another process", 21));
    assert(!is_shared(device, mine, BYTES, &share));
    gpu_shares_open(device);
    assert(is_shared(device, mine, BYTES, &share));
    memcpy(handle.bytes, share.handle, sizeof handle.bytes);
    handle_as_text(&handle, text);
    snprintf(all, sizeof all, "%lu %lu %lu %s", share.process, share.number, share.bytes, text);
    const int fate = apart_run("sharer", all, output, sizeof output);
    if (fate != 0) fprintf(stderr, "%s", output);
    assert(fate == 0);
    assert(is_mapped(device, &share, &none, &bytes) == MEMORY_NOT_YET);
    gpu_shares_open(device); /* a driver maps none of its own */
    assert(is_mapped(device, &share, &none, &bytes) == MEMORY_REFUSED);
    release(mine);
    end();
}

/* Memory that is mapped by hand. */

static cuda_memory created(int device, size_t bytes, bool may_be_exported)
{
    const struct cuda_memory_kind kind = {.type = CUDA_MEMORY_PINNED,
                                          .handle_types =
                                              may_be_exported ? CUDA_MEMORY_AS_DESCRIPTOR : 0,
                                          .location = {CUDA_LOCATION_DEVICE, device}};
    cuda_memory memory;
    assert(cuda.memory_create(&memory, bytes, &kind, 0) == CUDA_OK);
    return memory;
}

static char *mapped_from(cuda_memory memory, int device, uint64_t at, size_t bytes)
{
    const struct cuda_access access = {{CUDA_LOCATION_DEVICE, device}, CUDA_READ_AND_WRITE};
    assert(cuda.driver.map(at, bytes, 0, memory, 0) == CUDA_OK);
    assert(cuda.driver.set_access(at, bytes, &access, 1) == CUDA_OK);
    return (char *)(uintptr_t)at;
}

static char *mapped(int device, uint64_t at, size_t bytes, bool may_be_exported)
{
    const cuda_memory memory = created(device, bytes, may_be_exported);
    char *const address = mapped_from(memory, device, at, bytes);
    assert(cuda.driver.memory_release(memory) == CUDA_OK);
    return address;
}

static uint64_t reserved(size_t bytes)
{
    uint64_t at;
    assert(cuda.driver.address_reserve(&at, bytes, 0, 0, 0) == CUDA_OK);
    return at;
}

static bool is_shared_soon(struct gpu_device *device, const void *address, size_t bytes,
                           struct memory_share *share)
{
    const bool is_shared_now = is_shared(device, address, bytes, share);
    gpu_shares_open(device);
    return !is_shared_now && is_shared(device, address, bytes, share);
}

/* The stand-in gives all that is mapped in a reservation one number. */
static void what_is_mapped_by_hand_is_known_by_what_is_mapped(const char *argument)
{
    enum { PART = STANDIN_GRANULARITY };
    struct memory_share first, second, again;
    struct cuda_stream *theirs;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    const uint64_t at = reserved(3 * PART);
    char *const one = mapped(0, at, PART, true), *const two = mapped(0, at + PART, PART, true);
    assert(is_shared_soon(device, one + 100, 50, &first));
    assert(first.offset == 100 && first.bytes == PART && first.descriptor >= 0);
    assert(is_shared_soon(device, two, PART, &second) && second.number != first.number);
    assert(second.offset == 0 && second.descriptor != first.descriptor);
    assert(!is_shared(device, one + 1, PART, &again)); /* into the other one */
    assert(is_shared(device, one, PART, &again) && again.number == first.number);
    assert(cuda.driver.unmap(at, PART) == CUDA_OK);
    mapped(0, at, PART, true);
    assert(!is_shared(device, one, PART, &again));
    assert(is_shared_soon(device, one, PART, &again));
    assert(again.number != first.number && again.number != second.number);
    assert(is_shared(device, two, 1, &first) && first.number == second.number);
    char *const secret = mapped(0, at + 2 * PART, PART, false);
    assert(!is_shared_soon(device, secret, 1, &first) && !is_shared_soon(device, secret, 1, &first));
    assert(is_shared(device, one, 1, &first) && first.number == again.number);
    assert(cuda.driver.stream_create(&theirs, 0) == CUDA_OK);
    standin->set_capture(theirs, CUDA_CAPTURE_ACTIVE);
    assert(is_shared(device, one, 1, &first) && first.number == again.number);
    standin->set_capture(theirs, CUDA_CAPTURE_NONE);
    assert(cuda.driver.stream_destroy(theirs) == CUDA_OK);
    end();
}

/* The same memory, but not from the same address on, or less of it. */
static void what_is_mapped_elsewhere_is_not_what_was_exported(const char *argument)
{
    enum { PART = STANDIN_GRANULARITY };
    struct memory_share share;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    const uint64_t at = reserved(3 * PART);
    const cuda_memory memory = created(0, 2 * PART, true);
    char *const middle = mapped_from(memory, 0, at, 2 * PART) + PART;
    assert(is_shared_soon(device, middle, 100, &share) && share.offset == PART);
    assert(cuda.driver.unmap(at, 2 * PART) == CUDA_OK);
    mapped_from(memory, 0, at + PART, 2 * PART);
    assert(!is_shared(device, middle, 100, &share));
    assert(is_shared_soon(device, middle, 2 * PART, &share) && share.offset == 0);
    assert(cuda.driver.unmap(at + PART, 2 * PART) == CUDA_OK);
    mapped_from(memory, 0, at + PART, PART);
    mapped(0, at + 2 * PART, PART, true);
    assert(!is_shared(device, middle, 2 * PART, &share));
    assert(is_shared_soon(device, middle, PART, &share) && share.bytes == PART);
    assert(cuda.driver.unmap(at + PART, PART) == CUDA_OK);
    assert(cuda.driver.unmap(at + 2 * PART, PART) == CUDA_OK);
    mapped(0, at + PART, 2 * PART, true);
    assert(!is_shared(device, middle, 2 * PART, &share)); /* more than there was */
    assert(is_shared_soon(device, middle, 2 * PART, &share) && share.bytes == 2 * PART);
    assert(cuda.driver.memory_release(memory) == CUDA_OK);
    end();
}

/* Memory that is mapped when the export is made is kept, so that export is of use, whatever was
 * mapped when it was wished for. */
static void what_is_mapped_when_it_is_exported_is_shared(const char *argument)
{
    enum { PART = STANDIN_GRANULARITY };
    struct gpu_memory before, after;
    struct memory_share share;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    const uint64_t at = reserved(PART);
    char *const memory = mapped(0, at, PART, true);
    assert(!is_shared(device, memory, BYTES, &share));
    assert(driver->find(memory, &before) == TUTTI_OK);
    assert(cuda.driver.unmap(at, PART) == CUDA_OK);
    assert(cuda.driver.address_free(at, PART) == CUDA_OK);
    assert(reserved(PART) == at && mapped(0, at, PART, true) == memory);
    assert(driver->find(memory, &after) == TUTTI_OK && after.buffer != before.buffer);
    gpu_shares_open(device);
    assert(is_shared(device, memory, BYTES, &share));
    end();
}

/* A wish that comes too late leaves nothing behind that other memory with its number, the
 * reservation's, is taken for. */
static void memory_that_is_gone_when_it_is_exported_keeps_nothing_out(const char *argument)
{
    enum { PART = STANDIN_GRANULARITY };
    struct memory_share share;
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    const uint64_t at = reserved(2 * PART);
    char *const one = mapped(0, at, PART, true);
    assert(!is_shared(device, one, PART, &share));
    assert(cuda.driver.unmap(at, PART) == CUDA_OK);
    gpu_shares_open(device);
    mapped(0, at, PART, true);
    char *const two = mapped(0, at + PART, PART, true);
    assert(is_shared_soon(device, two, PART, &share));
    assert(is_shared_soon(device, one, PART, &share));
    end();
}

/* Mappings have any numbers and ranges: they are shared, or they are not, and a new mapping is
 * never taken for an earlier one. */
static void share_mappings(enum mapped_manner manner)
{
    enum { PART = STANDIN_GRANULARITY };
    const bool are_shared = manner <= MAPPED_NUMBER_OF_MEMORY;
    struct memory_share first, second, again;
    char text[12];
    snprintf(text, sizeof text, "%d", (int)manner);
    setenv(option_names.STANDIN_MAPPED, text, 1);
    begin();
    struct gpu_device *const device = open_device(0);
    const uint64_t at = reserved(4 * PART);
    char *const one = mapped(0, at, PART, true), *const two = mapped(0, at + PART, PART, true);
    for (int turn = 0; turn < 3; turn++) {
        assert(is_shared(device, one + 8, 50, &first) == (are_shared && turn > 0));
        const bool is_second = is_shared(device, two, PART, &second);
        assert(!is_second || (are_shared && turn > 0));
        assert(is_second || !are_shared || turn < 2); /* it may be taken for the first one at first */
        assert(!is_shared(device, two + 1, PART, &again));
        error_set(TUTTI_TIMEOUT, "what was said before");
        gpu_shares_open(device);
        assert(error_has("what was said before"));
    }
    if (are_shared) assert(first.offset == 8 && second.number != first.number);
    assert(cuda.driver.unmap(at, PART) == CUDA_OK);
    const cuda_memory memory = created(0, PART, true);
    mapped_from(memory, 0, at, PART);
    assert(!is_shared(device, one, PART,
                      &again)); /* that it is gone is seen before it is wished for */
    assert(!is_shared(device, one, PART, &again));
    gpu_shares_open(device);
    assert(is_shared(device, one, PART, &again) == are_shared);
    if (are_shared) assert(again.number != first.number);
    assert(cuda.driver.unmap(at, PART) == CUDA_OK);
    mapped_from(memory, 0, at + 2 * PART, PART); /* the same memory elsewhere */
    char *const moved = one + 2 * PART;
    assert(!is_shared(device, moved, PART, &again));
    gpu_shares_open(device);
    assert(is_shared(device, moved, PART, &again) == are_shared);
    assert(is_shared(device, two, PART, &again) == are_shared);
    assert(cuda.driver.memory_release(memory) == CUDA_OK);
    end();
}

static void mappings_are_shared_whatever_a_driver_says_of_them(const char *argument)
{
    (void)argument;
    for (int manner = 0; manner < MAPPED_MANNERS; manner++) {
        int fate = -1;
        const pid_t pid = fork();
        if (pid == 0) {
            share_mappings((enum mapped_manner)manner);
            _exit(0);
        }
        assert(waitpid(pid, &fate, 0) == pid);
        if (fate != 0) fprintf(stderr, "manner %d\n", manner);
        assert(fate == 0);
    }
}

static void by_hand_sharer(const char *argument)
{
    struct memory_share share = {.handle = ""}, wrong;
    void *address = NULL, *other = NULL;
    size_t bytes = 0;
    char text[32];
    begin();
    struct gpu_device *const device = open_device(1);
    assert(sscanf(argument, "%lu %lu %lu %lu %d %d", &share.process, &share.process_at,
                  &share.number, &share.bytes, &share.pid, &share.descriptor) == 6);
    wrong = share;
    wrong.process++;                            /* it is no proof */
    for (int i = 0; i < GPU_IMPORTS_MAX; i++) { /* a refused share takes no place */
        wrong.number++;
        assert(is_mapped(device, &wrong, &other, &bytes) == MEMORY_REFUSED);
    }
    assert(is_mapped(device, &share, &address, &bytes) == MEMORY_NOT_YET);
    wrong = share;
    wrong.number++;
    wrong.descriptor = 9999;
    assert(is_mapped(device, &wrong, &other, &bytes) == MEMORY_REFUSED);
    wrong.number++;
    wrong.descriptor = 2; /* it is none of a driver's */
    assert(is_mapped(device, &wrong, &other, &bytes) == MEMORY_NOT_YET);
    wrong = share;
    wrong.number += 3;
    wrong.bytes *= 2;
    assert(is_mapped(device, &wrong, &other, &bytes) == MEMORY_NOT_YET);
    gpu_shares_open(device);
    assert(is_mapped(device, &wrong, &other, &bytes) == MEMORY_REFUSED);
    assert(is_mapped(device, &share, &address, &bytes) == MEMORY_MAPPED && bytes == share.bytes);
    assert(cuda.copy_to_host(text, (uintptr_t)address + 100, sizeof text) == CUDA_OK);
    assert(strcmp(text, "from another process") == 0);
}

static void what_is_mapped_by_hand_goes_to_other_processes(const char *argument)
{
    struct memory_share share;
    char all[200], output[2048];
    (void)argument;
    begin();
    struct gpu_device *const device = open_device(0);
    char *const mine = mapped(0, reserved(STANDIN_GRANULARITY), STANDIN_GRANULARITY, true);
    assert(cuda.context_set(context_of(0)) == CUDA_OK); /* the other one does not reach it */
    assert(put(mine + 100, "from another process", 21));
    assert(cuda.context_set(context_of(1)) == CUDA_OK);
    assert(is_shared_soon(device, mine, BYTES, &share));
    snprintf(all, sizeof all, "%lu %lu %lu %lu %d %d", share.process, share.process_at,
             share.number, share.bytes, getpid(), share.descriptor);
    const int fate = apart_run("by_hand_sharer", all, output, sizeof output);
    if (fate != 0) fprintf(stderr, "%s", output);
    assert(fate == 0);
    end();
}

/* Children of fork(). */

static void use_in_child(struct gpu_device *device, void *memory)
{
    int number = 0;
    void *something;
    struct gpu_device *none = NULL;
    assert(gpu_driver(&driver) == TUTTI_OK && driver->device_count() == 0);
    assert(found(&number) == NULL);
    assert(gpu_find(memory, &none) == TUTTI_INVALID_BUFFER && none == NULL);
    assert(error_has("forked from one that had used CUDA"));
    assert(driver->open(0, &none) == TUTTI_UNSUPPORTED &&
           driver->open(1, &none) == TUTTI_UNSUPPORTED);
    assert(driver->make_stream(device, &something) == TUTTI_UNSUPPORTED);
    assert(driver->stream_device(NULL, &number) == TUTTI_UNSUPPORTED);
    assert(device->kind.allocate(&device->kind, BYTES) == NULL);
    assert(error_has("forked from one that had used CUDA"));
    device->kind.release(&device->kind, memory, BYTES);
}

static void a_child_cannot_use_its_parents_driver(const char *argument)
{
    int fate = -1;
    (void)argument;
    begin();
    void *const memory = on_device(0, BYTES);
    struct gpu_device *const device = found(memory);
    const pid_t pid = fork();
    if (pid == 0) {
        use_in_child(device, memory);
        _exit(0);
    }
    assert(waitpid(pid, &fate, 0) == pid && fate == 0);
    assert(found(memory) == device);
    release(memory);
    end();
}

static void a_child_uses_a_driver_that_its_parent_did_not(const char *argument)
{
    int fate = -1;
    (void)argument;
    const pid_t pid = fork();
    if (pid == 0) {
        begin();
        void *const memory = on_device(0, BYTES);
        assert(found(memory)->number == 0);
        release(memory);
        end();
        _exit(0);
    }
    assert(waitpid(pid, &fate, 0) == pid && fate == 0);
    begin();
    end();
}

int main(int argc, char **argv)
{
    static const struct apart_case cases[] = {
#define CASE(name) {#name, name, NULL}
        CASE(without_a_driver_all_is_the_hosts),
        CASE(the_programs_driver_is_taken_once_initialised),
        CASE(a_missing_file_is_named),
        CASE(a_file_without_the_functions_is_named_with_one),
        CASE(no_device_is_no_driver),
        CASE(a_driver_that_fails_says_why),
        CASE(threads_find_the_same_driver),
        CASE(a_device_is_described),
        CASE(threads_open_a_device_once),
        CASE(a_device_that_does_not_open_can_be_opened_later),
        CASE(memory_is_found_where_it_lies),
        CASE(memory_of_the_same_address_has_another_number),
        CASE(managed_and_foreign_memory_is_refused),
        CASE(finding_may_fail),
        CASE(a_thread_without_a_context_asks_in_that_of_a_device),
        CASE(a_device_that_has_failed_says_so_and_hides_no_other_memory),
        CASE(a_kind_allocates_on_its_device),
        CASE(a_device_without_pools_allocates_plainly),
        CASE(a_kind_copies_what_is_large),
        CASE(reading_waits_for_no_work_behind_a_worker),
        CASE(runs_are_made_before_ranks_wait_for_each_other),
        CASE(pages_that_the_program_has_pinned_are_the_hosts),
        CASE(pinned_memory_may_not_be_had),
        CASE(streams_have_a_device),
        CASE(streams_that_are_captured_are_refused),
        CASE(a_worker_starts_when_its_stream_comes_to_it),
        CASE(a_device_opens_with_the_workers_own_kernel),
        CASE(memory_goes_to_other_processes),
        CASE(memory_without_a_handle_is_not_exported),
        CASE(memory_is_shared_by_the_number_of_its_allocation),
        CASE(what_is_wished_for_too_late_is_not_shared),
        CASE(some_memory_is_not_shared),
        CASE(who_frees_much_that_was_shared_shares_no_more),
        CASE(who_frees_what_it_shared_may_share_as_much_again),
        CASE(what_is_shared_is_mapped_in_other_processes),
        CASE(what_is_mapped_by_hand_is_known_by_what_is_mapped),
        CASE(what_is_mapped_elsewhere_is_not_what_was_exported),
        CASE(what_is_mapped_when_it_is_exported_is_shared),
        CASE(memory_that_is_gone_when_it_is_exported_keeps_nothing_out),
        CASE(mappings_are_shared_whatever_a_driver_says_of_them),
        CASE(what_is_mapped_by_hand_goes_to_other_processes),
        CASE(a_child_cannot_use_its_parents_driver),
        CASE(a_child_uses_a_driver_that_its_parent_did_not),
#undef CASE
        {"importer", importer, apart_is_part},
        {"sharer", sharer, apart_is_part},
        {"by_hand_sharer", by_hand_sharer, apart_is_part}};
    return apart_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
