/* gpu_facts - what a driver of CUDA's does where its documentation leaves that open, or where this library relies on it: one run on a machine
 * with a device tells all of it, in half a minute.
 *
 *     gpu_facts [DRIVER] [memory|waiting|processes]...
 *
 * DRIVER is a file with CUDA's driver, libcuda.so.1 by default; without the names of parts all run.
 *
 *     memory      of memory of each sort: what kind it is, its number, its range, its names and handles; also from a thread without a context
 *     waiting     which calls wait for a kernel that runs, and which other calls another thread cannot make while one waits so
 *     processes   what another process can map, what it finds there, what it waits for, and what is there when the owner has freed it
 *
 * What this library relies on is marked with "expected"; a line that begins with UNEXPECTED says that it is otherwise.
 *
 * Exit status 0: all is as expected; 1: not; 2: a mistake of the driver's or ours; 77: there is no driver, or no device.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpu/cuda_library.h"
#include "gpu/kernels.h"
#include "gpu/worker_protocol.h"

enum { THREADS = 512, SMALL = 256, LARGE = 5 << 20, WAIT_MS = 300, DEADLINE_S = 20, ALL_S = 140 };

/* ---------------------------------------------------------------------------------------- the driver */

#define FURTHER_FUNCTIONS(X)                                                    \
    X(context_set, "cuCtxSetCurrent", (struct cuda_context * context))          \
    X(stream_synchronize, "cuStreamSynchronize", (struct cuda_stream * stream)) \
    X(ipc_close, "cuIpcCloseMemHandle", (uint64_t address))                     \
    X(create, "cuMemCreate",                                                    \
      (cuda_memory * memory, size_t bytes, const struct cuda_memory_kind *kind, \
       unsigned long long flags))                                               \
    X(granularity, "cuMemGetAllocationGranularity",                             \
      (size_t * bytes, const struct cuda_memory_kind *kind, int option))

static struct cuda_library cuda;
static struct {
#define X(member, name, parameters) int(*member) parameters;
    FURTHER_FUNCTIONS(X)
#undef X
} further;

static bool is_standin; /* tests' double: it ends a process that touches what was freed */
static int device;
static struct cuda_context *context;
static struct cuda_stream *stream, *other_stream;
static struct cuda_function *worker;
static size_t grain;
static unsigned unexpected;
static const char *who = "";

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static const char *name_of(int result)
{
    const char *name = NULL;
    return cuda.error_name(result, &name) == CUDA_OK && name != NULL ? name : "an unknown error";
}

static __attribute__((format(printf, 1, 2))) void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs(who, stdout);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

static void expect(bool is_so, const char *what)
{
    if (is_so) return;
    unexpected++;
    say("UNEXPECTED: %s", what);
}

static void need(int result, const char *what)
{
    if (result == CUDA_OK) return;
    fflush(stdout);
    fprintf(stderr, "%s%s: %s (%d)\n", who, what, name_of(result), result);
    _exit(2);
}

/* Exit status 0, or what it is without a driver or a device. */
static int driver_open(const char *file)
{
    bool is_there;
    void *const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        printf("skipped: no driver (%s)\n", dlerror());
        return 77;
    }
    if (cuda_library_load(file, &cuda, &is_there) != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_error_message());
        return 2;
    }
#define X(member, name, parameters)                           \
    further.member = (int(*) parameters)dlsym(library, name); \
    if (further.member == NULL) {                             \
        fprintf(stderr, "%s: has no %s\n", file, name);       \
        return 2;                                             \
    }
    FURTHER_FUNCTIONS(X)
#undef X
    is_standin = dlsym(library, "cuda_standin") != NULL;
    int version = 0;
    char name[128] = "";
    const int result = cuda.init(0);
    if (result != CUDA_OK || cuda.device_get(&device, 0) != CUDA_OK) {
        printf("skipped: the driver finds no device (error %d)\n", result);
        return 77;
    }
    int (*const version_get)(int *) = (int (*)(int *))dlsym(library, "cuDriverGetVersion");
    if (version_get != NULL) version_get(&version);
    need(cuda.device_name(name, sizeof name, device), "the device's name");
    need(cuda.primary_retain(&context, device), "the device's context");
    need(further.context_set(context), "the device's context");
    need(cuda.stream_create(&stream, CUDA_STREAM_NON_BLOCKING), "a stream");
    need(cuda.stream_create(&other_stream, CUDA_STREAM_NON_BLOCKING), "a stream");
    say("device: %s, driver for CUDA %d.%d", name, version / 1000, version % 1000 / 10);
    return 0;
}

static uint64_t allocated(size_t bytes)
{
    uint64_t address = 0;
    need(cuda.allocate(&address, bytes), "cuMemAlloc");
    return address;
}

static void *pinned(size_t bytes)
{
    void *memory = NULL;
    need(cuda.host_allocate(&memory, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICE_MAP),
         "cuMemHostAlloc");
    return memory;
}

static cuda_memory created(bool may_be_exported)
{
    const struct cuda_memory_kind kind = {.type = CUDA_MEMORY_PINNED,
                                          .handle_types =
                                              may_be_exported ? CUDA_MEMORY_AS_DESCRIPTOR : 0,
                                          .location = {CUDA_LOCATION_DEVICE, device}};
    cuda_memory memory = 0;
    if (grain == 0) need(further.granularity(&grain, &kind, 0), "cuMemGetAllocationGranularity");
    need(further.create(&memory, grain, &kind, 0), "cuMemCreate");
    return memory;
}

static uint64_t reserved(unsigned grains)
{
    uint64_t address = 0;
    need(cuda.address_reserve(&address, grains * grain, 0, 0, 0), "cuMemAddressReserve");
    return address;
}

static int give_access(uint64_t address)
{
    const struct cuda_access access = {{CUDA_LOCATION_DEVICE, device}, CUDA_READ_AND_WRITE};
    return cuda.set_access(address, grain, &access, 1);
}

static void map(uint64_t address, cuda_memory memory)
{
    need(cuda.map(address, grain, 0, memory, 0), "cuMemMap");
    need(give_access(address), "cuMemSetAccess");
}

static bool has_mappings(void)
{
    int maps = 0, exports = 0;
    const int first = cuda.device_attribute(&maps, CUDA_DEVICE_MAPS_BY_HAND, device),
              second = cuda.device_attribute(&exports, CUDA_DEVICE_EXPORTS_DESCRIPTORS, device);
    return first == CUDA_OK && second == CUDA_OK && maps != 0 && exports != 0;
}

/* Through pinned memory, in a stream that waits for nothing. */
static int move(uint64_t to, uint64_t from, size_t bytes)
{
    const int result = cuda.copy(to, from, bytes, other_stream);
    return result == CUDA_OK ? further.stream_synchronize(other_stream) : result;
}

/* -------------------------------------------------------------------------------------------- memory */

struct told {
    int result;
    unsigned type, is_managed;
    int ordinal;
    unsigned long long number;
    struct cuda_context *context;
};

static struct told ask(uint64_t address)
{
    struct told told = {.ordinal = -1};
    int attributes[] = {CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED,
                        CUDA_POINTER_DEVICE_ORDINAL, CUDA_POINTER_BUFFER_ID, CUDA_POINTER_CONTEXT};
    void *values[] = {&told.type, &told.is_managed, &told.ordinal, &told.number, &told.context};
    told.result = cuda.pointer_attributes(5, attributes, values, address);
    return told;
}

/* One more attribute, by itself, as old drivers do not know all of them. */
static const char *ask_more(uint64_t address, int attribute, char *text, size_t bytes)
{
    uint64_t value = 0; /* large enough for each of them */
    void *values[] = {&value};
    const int result = cuda.pointer_attributes(1, &attribute, values, address);
    if (result != CUDA_OK)
        snprintf(text, bytes, "%s", name_of(result));
    else
        snprintf(text, bytes, "%#llx", (unsigned long long)value);
    return text;
}

static void tell_attributes(const char *name, uint64_t address)
{
    const struct told told = ask(address);
    char more[5][48];
    if (told.result != CUDA_OK) {
        say("%s: cuPointerGetAttributes: %s", name, name_of(told.result));
        return;
    }
    say("%s: at %#llx: type %u, managed %u, device %d, number %llu, context %s", name,
        (unsigned long long)address, told.type, told.is_managed, told.ordinal, told.number,
        told.context == NULL      ? "none"
        : told.context == context ? "the primary one"
                                  : "another one");
    for (int a = 0; a < 5; a++)
        ask_more(address, CUDA_POINTER_IS_LEGACY_IPC_CAPABLE + a, more[a], sizeof more[a]);
    say("%s: IPC-capable %s, reserved from %s, %s bytes, mapped %s, handle types %s", name, more[0],
        more[1], more[2], more[3], more[4]);
}

static void tell_range(const char *name, uint64_t address)
{
    uint64_t base = 0;
    size_t bytes = 0;
    const int result = cuda.address_range(&base, &bytes, address);
    if (result != CUDA_OK)
        say("%s: cuMemGetAddressRange: %s", name, name_of(result));
    else
        say("%s: cuMemGetAddressRange: begins %lld before, %zu bytes", name,
            (long long)(address - base), bytes);
}

static void tell_handles(const char *name, uint64_t address, bool begins)
{
    struct cuda_ipc_handle handle;
    cuda_memory memory = 0;
    int descriptor = -1;
    int result = cuda.memory_retain(&memory, (void *)(uintptr_t)address);
    say("%s: cuMemRetainAllocationHandle: %s, %#llx", name,
        result == CUDA_OK ? "OK" : name_of(result), memory);
    if (result == CUDA_OK) {
        result = cuda.memory_export(&descriptor, memory, CUDA_MEMORY_AS_DESCRIPTOR, 0);
        say("%s: cuMemExportToShareableHandle: %s", name,
            result == CUDA_OK ? "OK" : name_of(result));
        if (result == CUDA_OK) close(descriptor);
        need(cuda.memory_release(memory), "cuMemRelease");
    }
    if (!begins) return;
    result = cuda.ipc_export(&handle, address);
    say("%s: cuIpcGetMemHandle: %s", name, result == CUDA_OK ? "OK" : name_of(result));
}

static void tell(const char *name, uint64_t address, bool begins)
{
    tell_attributes(name, address);
    tell_range(name, address);
    tell_handles(name, address, begins);
}

static cuda_memory name_at(uint64_t address)
{
    cuda_memory memory = 0;
    if (cuda.memory_retain(&memory, (void *)(uintptr_t)address) != CUDA_OK) return 0;
    cuda.memory_release(memory);
    return memory;
}

static void tell_mappings(void)
{
    if (!has_mappings()) {
        say("memory that is mapped by hand: the device has none that can be exported");
        return;
    }
    const cuda_memory one = created(true), two = created(true), secret = created(false);
    say("granularity: %zu bytes", grain);
    const uint64_t at = reserved(6);
    map(at + grain, one);
    map(at + 2 * grain, two);
    map(at + 3 * grain, one);
    map(at + 4 * grain, secret);
    tell("mapping", at + grain, true);
    tell("in a mapping", at + grain + 4096, false);
    tell("the next mapping", at + 2 * grain, true);
    tell("the first one's memory mapped again", at + 3 * grain, true);
    tell("mapping that may not be exported", at + 4 * grain, true);
    tell_attributes("reserved, not mapped", at);
    tell_range("reserved, not mapped", at);
    expect(name_at(at + grain) == one && name_at(at + 2 * grain - 1) == one,
           "the name of the memory at an address is not the one that was mapped");
    expect(name_at(at) == 0 && name_at(at + grain - 1) == 0, "what is not mapped has a name");
    expect(ask(at + grain).number != 0, "mappings have no number: they are not read directly");
    uint64_t base = 0;
    size_t bytes = 0;
    expect(cuda.address_range(&base, &bytes, at + grain + 5) == CUDA_OK && base == at + grain &&
               bytes == grain,
           "cuMemGetAddressRange does not tell a mapping: they are not read directly");
    int result = cuda.map(at + 5 * grain, grain, grain, one, 0);
    say("cuMemMap beyond the end: %s", result == CUDA_OK ? "OK" : name_of(result));
    need(cuda.unmap(at + grain, grain), "cuMemUnmap");
    tell_attributes("unmapped", at + grain);
    const cuda_memory three = created(true);
    map(at + grain, three);
    tell("mapped anew", at + grain, true);
    expect(name_at(at + grain) == three, "memory that is mapped anew has an old name");
    need(cuda.memory_release(one), "cuMemRelease");
    need(cuda.memory_release(two), "cuMemRelease");
    need(cuda.memory_release(three), "cuMemRelease");
    need(cuda.memory_release(secret), "cuMemRelease");
}

static void *ask_without_context(void *address)
{
    static struct told told;
    told = ask((uintptr_t)address);
    return &told;
}

static struct told told_without_context(uint64_t address)
{
    pthread_t thread;
    void *told = NULL;
    if (pthread_create(&thread, NULL, ask_without_context, (void *)(uintptr_t)address) != 0)
        _exit(2);
    pthread_join(thread, &told);
    return *(struct told *)told;
}

static void memory(void)
{
    static char here[1 << 16];
    const uint64_t small = allocated(SMALL), next = allocated(SMALL), large = allocated(LARGE);
    tell("cuMemAlloc of 256 bytes", small, true);
    tell("the next one", next, true);
    tell("cuMemAlloc of 5 MiB", large, true);
    tell("in it", large + (3 << 20), false);
    expect(name_at(large) == 0, "memory of cuMemAlloc is taken for memory that is mapped by hand");
    const unsigned long long was = ask(small).number;
    expect(was != 0 && was != ask(next).number, "two allocations have one number");
    need(cuda.release(small), "cuMemFree");
    tell_attributes("freed", small);
    const uint64_t again = allocated(SMALL);
    say("the next allocation of that size is %s",
        again == small ? "at the same address" : "elsewhere");
    expect(ask(again).number != was, "a number is used again");
    uint64_t of_pool = 0;
    const int result = cuda.allocate_later(&of_pool, LARGE, other_stream);
    need(further.stream_synchronize(other_stream), "a stream");
    if (result == CUDA_OK)
        tell("cuMemAllocAsync of 5 MiB", of_pool, true);
    else
        say("cuMemAllocAsync: %s", name_of(result));
    tell_mappings();
    tell_attributes("cuMemHostAlloc", (uintptr_t)pinned(SMALL));
    tell_attributes("memory of the host", (uintptr_t)here);
    tell_range("memory of the host", (uintptr_t)here);
    const struct told told = told_without_context(large);
    say("cuPointerGetAttributes in a thread without a context: %s, type %u, number %llu",
        told.result == CUDA_OK ? "OK" : name_of(told.result), told.type, told.number);
    expect(told.result == CUDA_OK && told.number == ask(large).number,
           "a thread without a context is not told whose memory that is");
}

/* ------------------------------------------------------------------------------------------- waiting */

static struct worker_control *control;
static uint64_t home;

static void await_state(enum worker_state state)
{
    const double begin = seconds_now();
    while (__atomic_load_n(&control->said[0], __ATOMIC_ACQUIRE) >> 32 != state) {
        if (seconds_now() > begin + DEADLINE_S) {
            fprintf(stderr, "the kernel is not in state %d after %d s\n", (int)state, DEADLINE_S);
            _exit(2);
        }
        sched_yield();
    }
}

/* A kernel that runs until it is told to end. */
static void kernel_make(void)
{
    struct cuda_module *module = NULL;
    struct worker_home *const image = pinned(sizeof *image);
    int threads;
    need(cuda.module_load(&module, gpu_kernels_ptx, 0, NULL, NULL), "this library's kernels");
    need(cuda.module_function(&worker, module, GPU_KERNEL_WORKER), GPU_KERNEL_WORKER);
    need(cuda.function_attribute(&threads, CUDA_FUNCTION_MAX_THREADS, worker), GPU_KERNEL_WORKER);
    control = pinned(sizeof *control);
    home = allocated(sizeof *image);
    memset(image, 0, sizeof *image);
    image->control = (uintptr_t)control;
    image->team_size = 1;
    need(move(home, (uintptr_t)image, sizeof *image), "a copy");
}

static void kernel_begin(void)
{
    void *parameters[] = {&home};
    memset(control, 0, sizeof *control);
    need(cuda.launch(worker, 1, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL),
         "cuLaunchKernel");
    await_state(WORKER_PRESENT);
}

static void kernel_end(void)
{
    __atomic_store_n(&control->end, 1, __ATOMIC_RELEASE);
    await_state(WORKER_LEFT);
    need(further.stream_synchronize(stream), "a stream");
}

/* The memory and streams that the calls use. */
static struct {
    uint64_t device, extra, reserved, mapped, plain;
    cuda_memory physical;
    void *host;
    struct cuda_stream *stream;
    struct cuda_ipc_handle handle; /* another process's */
    int descriptor;                /* of another process's memory; -1: none */
} use = {.descriptor = -1};

static int call_allocate(void)
{
    return cuda.allocate(&use.extra, LARGE);
}
static int call_release(void)
{
    return cuda.release(use.device);
}
static int call_allocate_later(void)
{
    uint64_t address;
    return cuda.allocate_later(&address, LARGE, other_stream);
}
static int call_host_allocate(void)
{
    return cuda.host_allocate(&use.host, LARGE, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICE_MAP);
}
static int call_host_release(void)
{
    return cuda.host_release(use.host);
}
static int call_ask(void)
{
    return ask(use.plain).result;
}
static int call_range(void)
{
    uint64_t base;
    size_t bytes;
    return cuda.address_range(&base, &bytes, use.plain);
}
static int call_retain(void)
{
    cuda_memory found;
    const int result = cuda.memory_retain(&found, (void *)(uintptr_t)use.mapped);
    return result == CUDA_OK ? cuda.memory_release(found) : result;
}
static int call_ipc_export(void)
{
    struct cuda_ipc_handle handle;
    return cuda.ipc_export(&handle, use.plain);
}
static int call_export(void)
{
    int descriptor = -1;
    const int result = cuda.memory_export(&descriptor, use.physical, CUDA_MEMORY_AS_DESCRIPTOR, 0);
    if (result == CUDA_OK) close(descriptor);
    return result;
}
static int call_create(void)
{
    use.physical = created(true);
    return CUDA_OK;
}
static int call_reserve(void)
{
    return cuda.address_reserve(&use.reserved, grain, 0, 0, 0);
}
static int call_map(void)
{
    return cuda.map(use.reserved, grain, 0, use.physical, 0);
}
static int call_give_access(void)
{
    return give_access(use.reserved);
}
static int call_unmap(void)
{
    return cuda.unmap(use.reserved, grain);
}
static int call_make_stream(void)
{
    return cuda.stream_create(&use.stream, CUDA_STREAM_NON_BLOCKING);
}
static int call_free_stream(void)
{
    return cuda.stream_destroy(use.stream);
}
static int call_query(void)
{
    const int result = cuda.stream_query(other_stream);
    return result == CUDA_NOT_READY ? CUDA_OK : result;
}
static int call_copy(void)
{
    return move(use.plain, (uintptr_t)control + offsetof(struct worker_control, unused), 64);
}
static int call_load(void)
{
    struct cuda_module *module;
    return cuda.module_load(&module, gpu_kernels_ptx, 0, NULL, NULL);
}
static int call_ipc_open(void)
{
    return cuda.ipc_open(&use.device, use.handle, CUDA_IPC_ENABLE_PEER_ACCESS);
}
static int call_ipc_close(void)
{
    return further.ipc_close(use.device);
}
static int call_import(void)
{
    return cuda.memory_import(&use.physical, (void *)(intptr_t)use.descriptor,
                              CUDA_MEMORY_AS_DESCRIPTOR);
}

struct question {
    const char *name;
    int (*call)(void);
    bool must_not_wait; /* this library makes it while calls are under way */
    pthread_t thread;
    int result;
    double seconds;
    atomic_bool is_over;
};

static void *run_question(void *argument)
{
    struct question *const question = argument;
    need(further.context_set(context), "cuCtxSetCurrent");
    const double begin = seconds_now();
    question->result = question->call();
    question->seconds = seconds_now() - begin;
    atomic_store(&question->is_over, true);
    return NULL;
}

/* Whether it is over in a while. */
static bool try_question(struct question *question)
{
    const double begin = seconds_now();
    atomic_store(&question->is_over, false);
    if (pthread_create(&question->thread, NULL, run_question, question) != 0) _exit(2);
    while (!atomic_load(&question->is_over) && seconds_now() < begin + WAIT_MS * 1e-3) usleep(200);
    return atomic_load(&question->is_over);
}

static void finish_question(struct question *question, bool was_prompt)
{
    pthread_join(question->thread, NULL);
    if (question->result != CUDA_OK)
        say("while a kernel runs, %s: %s", question->name, name_of(question->result));
    else if (was_prompt)
        say("while a kernel runs, %s takes %.1f us", question->name, question->seconds * 1e6);
    else
        say("while a kernel runs, %s WAITS FOR IT", question->name);
    if (!was_prompt && question->must_not_wait) {
        unexpected++;
        say("UNEXPECTED: %s must not wait", question->name);
    }
}

/* Tells which calls of another thread go on while one waits. */
static void try_beside(const char *waiting)
{
    static struct question beside[] = {{.name = "cuPointerGetAttributes", .call = call_ask},
                                       {.name = "cuMemRetainAllocationHandle", .call = call_retain},
                                       {.name = "cuMemGetAddressRange", .call = call_range},
                                       {.name = "cuStreamQuery", .call = call_query},
                                       {.name = "a copy", .call = call_copy}};
    enum { COUNT = sizeof beside / sizeof *beside };
    bool was_prompt[COUNT] = {false};
    for (int b = 0; b < COUNT; b++)
        if (beside[b].call != call_retain || use.mapped != 0)
            was_prompt[b] = try_question(&beside[b]);
    kernel_end();
    for (int b = 0; b < COUNT; b++) {
        if (beside[b].call == call_retain && use.mapped == 0) continue;
        pthread_join(beside[b].thread, NULL);
        say("while %s waits so, %s of another thread %s%s", waiting, beside[b].name,
            was_prompt[b] ? "goes on" : "WAITS, TOO",
            beside[b].result == CUDA_OK ? "" : ", and fails");
    }
}

static void try_all(struct question *questions, int count)
{
    for (int q = 0; q < count; q++) {
        kernel_begin();
        const bool is_prompt = try_question(&questions[q]);
        if (is_prompt)
            kernel_end();
        else
            try_beside(questions[q].name);
        finish_question(&questions[q], is_prompt);
    }
}

static void waiting(void)
{
    static struct question plain[] = {
        {.name = "cuPointerGetAttributes", .call = call_ask, .must_not_wait = true},
        {.name = "cuMemGetAddressRange", .call = call_range},
        {.name = "cuStreamQuery", .call = call_query, .must_not_wait = true},
        {.name = "a copy in another stream", .call = call_copy},
        {.name = "cuMemAllocAsync", .call = call_allocate_later},
        {.name = "cuStreamCreate", .call = call_make_stream},
        {.name = "cuStreamDestroy", .call = call_free_stream},
        {.name = "cuIpcGetMemHandle", .call = call_ipc_export},
        {.name = "cuMemAlloc", .call = call_allocate},
        {.name = "cuMemFree", .call = call_release},
        {.name = "cuMemHostAlloc", .call = call_host_allocate},
        {.name = "cuMemFreeHost", .call = call_host_release},
        {.name = "cuModuleLoadDataEx", .call = call_load}};
    static struct question by_hand[] = {
        {.name = "cuMemRetainAllocationHandle", .call = call_retain, .must_not_wait = true},
        {.name = "cuMemCreate", .call = call_create},
        {.name = "cuMemExportToShareableHandle", .call = call_export},
        {.name = "cuMemAddressReserve", .call = call_reserve},
        {.name = "cuMemMap", .call = call_map},
        {.name = "cuMemSetAccess", .call = call_give_access},
        {.name = "cuMemUnmap", .call = call_unmap}};
    if (worker == NULL) kernel_make();
    use.plain = allocated(LARGE);
    use.device = allocated(LARGE);
    if (has_mappings()) {
        const cuda_memory mapped = created(true);
        use.mapped = reserved(1);
        map(use.mapped, mapped);
    }
    try_all(plain, sizeof plain / sizeof *plain);
    if (has_mappings()) try_all(by_hand, sizeof by_hand / sizeof *by_hand);
}

/* ----------------------------------------------------------------------------------------- processes */

/* The message from the owner to the other process. */
struct offer {
    struct cuda_ipc_handle small, large;
    size_t grain;
    int pid, descriptor; /* in the owner; -1: none */
};

static void send_offer(int channel, const struct offer *offer)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } extra = {.room = {0}};
    struct iovec part = {(void *)(uintptr_t)offer, sizeof *offer};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (offer->descriptor >= 0) {
        message.msg_control = extra.room;
        message.msg_controllen = sizeof extra.room;
        extra.header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&extra.header), &offer->descriptor, sizeof(int));
    }
    if (sendmsg(channel, &message, 0) != (ssize_t)sizeof *offer) _exit(2);
}

/* False: there is no owner any more. *descriptor: a copy. */
static bool receive_offer(int channel, struct offer *offer, int *descriptor)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } extra = {.room = {0}};
    struct iovec part = {offer, sizeof *offer};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = extra.room,
                             .msg_controllen = sizeof extra.room};
    *descriptor = -1;
    if (recvmsg(channel, &message, 0) != (ssize_t)sizeof *offer) return false;
    const struct cmsghdr *const found = CMSG_FIRSTHDR(&message);
    if (found != NULL) memcpy(descriptor, CMSG_DATA(found), sizeof(int));
    return true;
}

static void tell_descriptor_rights(const struct offer *offer)
{
    const int process = (int)syscall(SYS_pidfd_open, offer->pid, 0);
    const int copy =
        process >= 0 ? (int)syscall(SYS_pidfd_getfd, process, offer->descriptor, 0) : -1;
    say("pidfd_getfd of the owner's descriptor: %s (of ranks started by one launcher see Yama, "
        "kernel.yama.ptrace_scope)",
        copy >= 0 ? "OK" : strerror(errno));
    if (copy >= 0) close(copy);
    if (process >= 0) close(process);
}

static void tell_bytes(const char *name, uint64_t address)
{
    unsigned char *const seen = pinned(SMALL);
    memset(seen, 0, SMALL);
    const int result = move((uintptr_t)seen, address, SMALL);
    say("%s: %s, holds %#x %#x", name, result == CUDA_OK ? "can be read" : name_of(result), seen[0],
        seen[SMALL - 1]);
}

static void expect_bytes(const char *name, uint64_t address, int value)
{
    unsigned char *const seen = pinned(SMALL);
    tell_bytes(name, address);
    need(move((uintptr_t)seen, address, SMALL), name);
    expect(seen[0] == value && seen[SMALL - 1] == value, "it does not hold what its owner stored");
}

static uint64_t open_handle(const char *name, const struct cuda_ipc_handle *handle)
{
    uint64_t address = 0, again = 0;
    const int result = cuda.ipc_open(&address, *handle, CUDA_IPC_ENABLE_PEER_ACCESS);
    say("%s: cuIpcOpenMemHandle: %s", name, result == CUDA_OK ? "OK" : name_of(result));
    expect(result == CUDA_OK, "a handle of another process cannot be opened");
    if (result != CUDA_OK) return 0;
    tell_attributes(name, address);
    tell_range(name, address);
    const int second = cuda.ipc_open(&again, *handle, CUDA_IPC_ENABLE_PEER_ACCESS);
    say("%s: opened once more: %s, %s", name, second == CUDA_OK ? "OK" : name_of(second),
        again == address ? "the same address" : "another address");
    expect_bytes(name, address, 0x5a);
    return address;
}

static uint64_t map_descriptor(int descriptor)
{
    cuda_memory imported = 0;
    const int result =
        cuda.memory_import(&imported, (void *)(intptr_t)descriptor, CUDA_MEMORY_AS_DESCRIPTOR);
    say("mapping of another process: cuMemImportFromShareableHandle: %s",
        result == CUDA_OK ? "OK" : name_of(result));
    expect(result == CUDA_OK, "a descriptor of another process cannot be imported");
    if (result != CUDA_OK) return 0;
    const uint64_t at = reserved(1);
    map(at, imported);
    need(cuda.memory_release(imported), "cuMemRelease");
    tell("mapping of another process", at, true);
    expect_bytes("mapping of another process", at, 0xa5);
    return at;
}

static int other_process(const char *file, int channel)
{
    static struct question legacy[] = {{.name = "cuIpcOpenMemHandle", .call = call_ipc_open},
                                       {.name = "cuIpcCloseMemHandle", .call = call_ipc_close}};
    static struct question by_hand[] = {
        {.name = "cuMemImportFromShareableHandle", .call = call_import},
        {.name = "cuMemAddressReserve", .call = call_reserve},
        {.name = "cuMemMap of imported memory", .call = call_map},
        {.name = "cuMemSetAccess of imported memory", .call = call_give_access},
        {.name = "cuMemUnmap of imported memory", .call = call_unmap}};
    struct offer offer;
    char byte;
    who = "other process: ";
    if (!receive_offer(channel, &offer, &use.descriptor)) return 0;
    const int status = driver_open(file);
    if (status != 0) return status;
    grain = offer.grain;
    const uint64_t small = open_handle("256 bytes", &offer.small),
                   large = open_handle("5 MiB", &offer.large);
    uint64_t mapped = 0;
    if (use.descriptor >= 0) {
        tell_descriptor_rights(&offer);
        mapped = map_descriptor(use.descriptor);
    }
    kernel_make();
    use.plain = allocated(LARGE);
    if (write(channel, "1", 1) != 1 || read(channel, &byte, 1) != 1) return 2;
    if (!is_standin) { /* the owner has freed it all, and allocated as much anew */
        if (small != 0) tell_bytes("256 bytes that were freed", small);
        if (large != 0) tell_bytes("5 MiB that were freed", large);
        if (mapped != 0) expect_bytes("a mapping whose owner has unmapped it", mapped, 0xa5);
    }
    if (write(channel, "1", 1) != 1 || !receive_offer(channel, &offer, &use.descriptor)) return 2;
    use.handle = offer.large;
    try_all(legacy, 2);
    if (use.descriptor >= 0) try_all(by_hand, sizeof by_hand / sizeof *by_hand);
    if (write(channel, "1", 1) != 1) return 2;
    return unexpected != 0;
}

static void store(uint64_t address, size_t bytes, int value)
{
    unsigned char *const image = pinned(bytes);
    memset(image, value, bytes);
    need(move(address, (uintptr_t)image, bytes), "a copy");
}

/* Memory for the other process. */
static struct offer make_offer(uint64_t *small, uint64_t *large, uint64_t *mapped, int value)
{
    struct offer offer = {.pid = getpid(), .descriptor = -1};
    *small = allocated(SMALL);
    *large = allocated(LARGE);
    store(*small, SMALL, value);
    store(*large, LARGE, value);
    need(cuda.ipc_export(&offer.small, *small), "cuIpcGetMemHandle");
    need(cuda.ipc_export(&offer.large, *large), "cuIpcGetMemHandle");
    if (!has_mappings()) return offer;
    const cuda_memory physical = created(true);
    *mapped = reserved(1);
    map(*mapped, physical);
    store(*mapped, SMALL, value ^ 0xff);
    need(cuda.memory_export(&offer.descriptor, physical, CUDA_MEMORY_AS_DESCRIPTOR, 0),
         "cuMemExportToShareableHandle");
    need(cuda.memory_release(physical), "cuMemRelease");
    offer.grain = grain;
    return offer;
}

static void processes(int channel, pid_t other)
{
    uint64_t small = 0, large = 0, mapped = 0;
    int status = -1;
    char byte;
    struct offer offer = make_offer(&small, &large, &mapped, 0x5a);
    send_offer(channel, &offer);
    if (read(channel, &byte, 1) == 1) {
        need(cuda.release(small), "cuMemFree of memory that another process has open");
        need(cuda.release(large), "cuMemFree of memory that another process has open");
        if (mapped != 0) need(cuda.unmap(mapped, grain), "cuMemUnmap");
        if (offer.descriptor >= 0) close(offer.descriptor);
        offer = make_offer(&small, &large, &mapped, 0x3c);
        if (write(channel, "1", 1) != 1 || read(channel, &byte, 1) != 1) _exit(2);
        send_offer(channel, &offer);
        if (read(channel, &byte, 1) != 1) say("the other process ended early");
    }
    if (waitpid(other, &status, 0) != other || !WIFEXITED(status) || WEXITSTATUS(status) > 1) {
        say("the other process ended with status %#x", (unsigned)status);
        _exit(2);
    }
    unexpected += (unsigned)WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    const char *driver = "libcuda.so.1";
    bool has_memory = false, has_waiting = false, has_processes = false;
    int ends[2];
    pid_t other = -1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "memory") == 0)
            has_memory = true;
        else if (strcmp(argv[i], "waiting") == 0)
            has_waiting = true;
        else if (strcmp(argv[i], "processes") == 0)
            has_processes = true;
        else
            driver = argv[i];
    }
    const bool has_all = !has_memory && !has_waiting && !has_processes;
    alarm(ALL_S); /* a call of the driver may never return */
    /* Before the driver is there: a child of one that has used it could not use it. */
    if (has_all || has_processes) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || (other = fork()) < 0) return 2;
        if (other == 0) {
            close(ends[0]);
            alarm(ALL_S); /* a child has none of its parent's */
            return other_process(driver, ends[1]);
        }
        close(ends[1]);
    }
    const int status = driver_open(driver);
    if (status != 0) return status;
    if (has_all || has_memory) memory();
    if (has_all || has_waiting) waiting();
    if (has_all || has_processes) processes(ends[0], other);
    say(unexpected == 0 ? "all is as expected" : "UNEXPECTED: see above");
    return unexpected != 0;
}
