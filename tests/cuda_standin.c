/* The functions of the driver, and what a test sets; see cuda_standin.h. Each is declared by its line of the lists there and in
 * gpu/cuda_library.h, under the name of its symbol. */
#include "cuda_standin.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_standin_mapped.h"
#include "cuda_standin_memory.h"
#include "cuda_standin_work.h"
#include "gpu/twins.h"

#define EXPORTED __attribute__((visibility("default")))
#define DECLARE(slot, symbol, parameters) EXPORTED int standin_##slot parameters __asm__(symbol);
CUDA_FUNCTION_LIST(DECLARE)
CUDA_TEST_FUNCTION_LIST(DECLARE)
#undef DECLARE

#define RESULT_LIST(X)                                                                  \
    X(CUDA_OK, "CUDA_SUCCESS", "no error")                                              \
    X(CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument")               \
    X(CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory")                  \
    X(CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error")       \
    X(CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected")     \
    X(CUDA_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal")       \
    X(CUDA_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid") \
    X(CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context")     \
    X(CUDA_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",               \
      "peer access is not supported between these two devices")                         \
    X(CUDA_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed")       \
    X(CUDA_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle")      \
    X(CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found")                 \
    X(CUDA_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready")                       \
    X(CUDA_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", \
      "part or all of the requested memory range is already mapped")                    \
    X(CUDA_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",         \
      "pointer does not correspond to a registered memory region")                      \
    X(CUDA_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE",                           \
      "uncorrectable ECC error encountered")                                            \
    X(CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",                               \
      "an illegal memory access was encountered")                                       \
    X(CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure")     \
    X(CUDA_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error")                              \
    X(CUDA_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported")        \
    X(CUDA_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",                \
      "operation not permitted when stream is capturing")                               \
    X(CUDA_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",                      \
      "operation would make the legacy stream depend on a capturing blocking stream")

enum {
    THREADS_MAX = 1024,
    CONTEXTS_DEEP = 16,
    FAILURES_MAX = 8,
    KERNELS_MAX = 32,
    NAME_BYTES = 48
};

struct cuda_context {
    int device;
    _Atomic int retained;
};

struct cuda_function {
    struct cuda_function *next;
    char name[NAME_BYTES];
    gpu_twin *run;
};

struct cuda_module {
    struct cuda_module *next;
    int device;
    bool is_unloaded;
    char *text;
    struct cuda_function *functions;
};

struct failure {
    char symbol[NAME_BYTES];
    int result;
    unsigned skipped, times;
};

static struct {
    pthread_mutex_t lock; /* of what follows, but for what is set once */
    _Atomic pid_t owner;  /* the process that initialised it; 0: none */
    int device_count;
    bool are_peers; /* devices reach memory of each other */
    atomic_bool waits_to_allocate;
    struct cuda_context contexts[STANDIN_DEVICES_MAX], foreign;
    struct cuda_module *modules; /* never freed: what was unloaded is found out */
    struct failure failures[FAILURES_MAX];
    unsigned failure_count;
    struct cuda_function kernels[KERNELS_MAX]; /* of tests */
    unsigned kernel_count, module_count;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    struct cuda_context *stack[CONTEXTS_DEEP];
    unsigned depth;
    int capture_mode;
} mine;

/* Whether a test wants that call to fail. */
static int fails(const char *symbol)
{
    int result = CUDA_OK;
    pthread_mutex_lock(&state.lock);
    for (unsigned f = 0; f < state.failure_count && result == CUDA_OK; f++) {
        struct failure *const failure = &state.failures[f];
        if (strcmp(failure->symbol, symbol) != 0) continue;
        if (failure->skipped > 0) {
            failure->skipped--;
        } else if (failure->times > 0) {
            failure->times--;
            result = failure->result;
        }
    }
    pthread_mutex_unlock(&state.lock);
    return result;
}

static int begin_call(const char *symbol)
{
    if (atomic_load(&state.owner) != getpid()) return CUDA_NOT_INITIALIZED;
    return fails(symbol);
}

static struct cuda_context *current(void)
{
    return mine.depth > 0 ? mine.stack[mine.depth - 1] : NULL;
}

/* As what the device of the current context has failed. */
static int current_fault(void)
{
    return current() != NULL ? work_fault_of(current()->device) : CUDA_OK;
}

/* Of calls that a driver does not allow while a thread captures. */
static int refuse_in_capture(void)
{
    bool is_capturing = false;
    for (int d = 0; d < state.device_count; d++) is_capturing |= work_is_capturing(d);
    return is_capturing && mine.capture_mode != CUDA_CAPTURE_RELAXED ? CUDA_CAPTURE_UNSUPPORTED
                                                                     : CUDA_OK;
}

#define RETURN_UNLESS_OK(call)                          \
    do {                                                \
        const int call_result = (call);                 \
        if (call_result != CUDA_OK) return call_result; \
    } while (0)
#define BEGIN(symbol) RETURN_UNLESS_OK(begin_call(symbol))
/* Waits while another thread keeps it out of that device. */
#define BEGIN_IN_CONTEXT(symbol)                        \
    BEGIN(symbol);                                      \
    if (current() == NULL) return CUDA_INVALID_CONTEXT; \
    work_enter(symbol, current()->device);              \
    RETURN_UNLESS_OK(current_fault())
/* The same of a call that needs no context. */
#define BEGIN_ANYWHERE(symbol) \
    BEGIN(symbol);             \
    RETURN_UNLESS_OK(current_fault())

/* Until all is over that is on the device by now; nobody else comes in meanwhile. */
static void finish_device(const char *what, int device)
{
    work_hold_driver(what, device);
    work_synchronize_device(what, device);
    work_let_go(device);
}

static void finish_devices(const char *what)
{
    for (int d = 0; d < state.device_count; d++) finish_device(what, d);
}

/* The same of what a driver may do so for, and perhaps does not. */
static void finish_device_if_asked(const char *what, int device)
{
    if (state.waits_to_allocate) finish_device(what, device);
}

static void finish_if_asked(const char *what)
{
    finish_device_if_asked(what, current()->device);
}

static long number_from(const char *value, long least, long most, long otherwise)
{
    if (value == NULL || *value == '\0') return otherwise;
    const long number = strtol(value, NULL, 10);
    return number < least ? least : number > most ? most : number;
}

/* The start, and errors. */

int standin_init(unsigned flags)
{
    int result = flags == 0 ? CUDA_OK : CUDA_INVALID_VALUE;
    const char *const own_queues = getenv("TUTTI_STANDIN_QUEUES"),
                      *const queues =
                          own_queues != NULL ? own_queues : getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    pthread_mutex_lock(&state.lock);
    const pid_t owner = atomic_load(&state.owner);
    if (owner != 0 && owner != getpid()) result = CUDA_NOT_INITIALIZED;
    if (owner == 0 && result == CUDA_OK) {
        const struct work_options options = {
            .device_count =
                (int)number_from(getenv("TUTTI_STANDIN_DEVICES"), 0, STANDIN_DEVICES_MAX, 2),
            .queue_count = (unsigned)number_from(queues, 1, 64, 8),
            .processor_count = (unsigned)number_from(getenv("TUTTI_STANDIN_PROCESSORS"), 1, 256, 8),
            .seed = (uint64_t)number_from(getenv("TUTTI_STANDIN_SEED"), 0, INT32_MAX, 1),
            .copy_queue_count = (unsigned)number_from(getenv("TUTTI_STANDIN_COPY_QUEUES"), 0, 64, 0),
            .keeps_others_out = number_from(getenv("TUTTI_STANDIN_LOCK"), 0, 1, 1) != 0};
        state.waits_to_allocate = number_from(getenv("TUTTI_STANDIN_WAIT"), 0, 1, 0) != 0;
        state.device_count = options.device_count;
        state.are_peers = number_from(getenv("TUTTI_STANDIN_PEERS"), 0, 1, 1) != 0;
        for (int d = 0; d < state.device_count; d++) state.contexts[d].device = d;
        memory_init(state.device_count);
        mapped_init((enum mapped_manner)number_from(getenv("TUTTI_STANDIN_MAPPED"), 0,
                                                    MAPPED_MANNERS - 1, 0));
        work_init(&options);
        gpu_twin_reach = work_reach;
        atomic_store(&state.owner, getpid());
    }
    if (result == CUDA_OK && state.device_count == 0) result = CUDA_NO_DEVICE;
    pthread_mutex_unlock(&state.lock);
    return result != CUDA_OK ? result : fails("cuInit");
}

#define NAME_OF(code, name_of_it, text_of_it) \
    case code: *name = name_of_it; return CUDA_OK;
int standin_error_name(int result, const char **name)
{
    switch (result) {
        RESULT_LIST(NAME_OF)
    default: *name = NULL; return CUDA_INVALID_VALUE;
    }
}
#undef NAME_OF

#define TEXT_OF(code, name_of_it, text_of_it) \
    case code: *text = text_of_it; return CUDA_OK;
int standin_error_text(int result, const char **text)
{
    switch (result) {
        RESULT_LIST(TEXT_OF)
    default: *text = NULL; return CUDA_INVALID_VALUE;
    }
}
#undef TEXT_OF

/* Devices. */

static bool is_device(int device)
{
    return device >= 0 && device < state.device_count;
}

int standin_device_count(int *count)
{
    BEGIN("cuDeviceGetCount");
    *count = state.device_count;
    return CUDA_OK;
}

int standin_device_get(int *device, int number)
{
    BEGIN("cuDeviceGet");
    if (!is_device(number)) return CUDA_INVALID_DEVICE;
    *device = number;
    return CUDA_OK;
}

int standin_device_name(char *name, int bytes, int device)
{
    BEGIN("cuDeviceGetName");
    if (!is_device(device)) return CUDA_INVALID_DEVICE;
    snprintf(name, (size_t)bytes, "stand-in %d", device);
    return CUDA_OK;
}

int standin_device_bus(char *bus, int bytes, int device)
{
    BEGIN("cuDeviceGetPCIBusId");
    if (!is_device(device)) return CUDA_INVALID_DEVICE;
    snprintf(bus, (size_t)bytes, "0000:%02X:00.0", 0xA0 + device);
    return CUDA_OK;
}

int standin_device_memory(size_t *bytes, int device)
{
    BEGIN("cuDeviceTotalMem_v2");
    if (!is_device(device)) return CUDA_INVALID_DEVICE;
    *bytes = (size_t)8 << 30;
    return CUDA_OK;
}

int standin_device_attribute(int *value, int attribute, int device)
{
    BEGIN("cuDeviceGetAttribute");
    if (!is_device(device)) return CUDA_INVALID_DEVICE;
    switch (attribute) {
    case CUDA_DEVICE_MULTIPROCESSOR_COUNT:
        *value = (int)number_from(getenv("TUTTI_STANDIN_PROCESSORS"), 1, 256, 8);
        return CUDA_OK;
    case CUDA_DEVICE_CAN_MAP_HOST_MEMORY:
    case CUDA_DEVICE_UNIFIED_ADDRESSING: *value = 1; return CUDA_OK;
    case CUDA_DEVICE_MAPS_BY_HAND:
    case CUDA_DEVICE_EXPORTS_DESCRIPTORS: *value = 1; return CUDA_OK;
    case CUDA_DEVICE_CAPABILITY_MAJOR: *value = 9; return CUDA_OK;
    case CUDA_DEVICE_CAPABILITY_MINOR: *value = 0; return CUDA_OK;
    default: return CUDA_INVALID_VALUE;
    }
}

/* Contexts. */

static bool is_context(const struct cuda_context *context)
{
    for (int d = 0; d < state.device_count; d++)
        if (context == &state.contexts[d]) return atomic_load(&state.contexts[d].retained) > 0;
    return false;
}

int standin_primary_retain(struct cuda_context **context, int device)
{
    BEGIN("cuDevicePrimaryCtxRetain");
    if (!is_device(device)) return CUDA_INVALID_DEVICE;
    atomic_fetch_add(&state.contexts[device].retained, 1);
    *context = &state.contexts[device];
    return CUDA_OK;
}

int standin_primary_release(int device)
{
    BEGIN("cuDevicePrimaryCtxRelease_v2");
    if (!is_device(device)) return CUDA_INVALID_DEVICE;
    if (atomic_fetch_sub(&state.contexts[device].retained, 1) <= 0)
        standin_die("the primary context of device %d is released more often than retained", device);
    return CUDA_OK;
}

int standin_context_push(struct cuda_context *context)
{
    BEGIN("cuCtxPushCurrent_v2");
    if (!is_context(context)) return CUDA_INVALID_CONTEXT;
    if (mine.depth == CONTEXTS_DEEP) standin_die("contexts are pushed and never popped");
    mine.stack[mine.depth++] = context;
    return CUDA_OK;
}

int standin_context_pop(struct cuda_context **context)
{
    BEGIN("cuCtxPopCurrent_v2");
    if (mine.depth == 0) return CUDA_INVALID_CONTEXT;
    mine.depth--;
    if (context != NULL) *context = mine.stack[mine.depth];
    return CUDA_OK;
}

int standin_context_set(struct cuda_context *context)
{
    BEGIN("cuCtxSetCurrent");
    if (context != NULL && !is_context(context)) return CUDA_INVALID_CONTEXT;
    if (mine.depth > 0) mine.depth--;
    if (context != NULL) mine.stack[mine.depth++] = context;
    return CUDA_OK;
}

int standin_context_get(struct cuda_context **context)
{
    BEGIN("cuCtxGetCurrent");
    *context = current();
    return CUDA_OK;
}

int standin_context_device(int *device)
{
    BEGIN_IN_CONTEXT("cuCtxGetDevice");
    *device = current()->device;
    return CUDA_OK;
}

int standin_context_synchronize(void)
{
    BEGIN_IN_CONTEXT("cuCtxSynchronize");
    work_synchronize_device("cuCtxSynchronize", current()->device);
    return current_fault();
}

int standin_exchange_capture_mode(int *mode)
{
    BEGIN("cuThreadExchangeStreamCaptureMode");
    if (*mode < CUDA_CAPTURE_GLOBAL || *mode > CUDA_CAPTURE_RELAXED) return CUDA_INVALID_VALUE;
    const int before = mine.capture_mode;
    mine.capture_mode = *mode;
    *mode = before;
    return CUDA_OK;
}

/* Modules and kernels. */

static gpu_twin *kernel_of_tests(const char *name)
{
    gpu_twin *found = NULL;
    pthread_mutex_lock(&state.lock);
    for (unsigned k = 0; k < state.kernel_count; k++)
        if (strcmp(state.kernels[k].name, name) == 0) found = state.kernels[k].run;
    pthread_mutex_unlock(&state.lock);
    return found;
}

/* The parameters of an entry of PTX, or NULL: there is no such entry. */
static const char *parameters_of(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *entry = text; (entry = strstr(entry, ".entry")) != NULL;) {
        entry += strlen(".entry");
        while (isspace((unsigned char)*entry)) entry++;
        if (strncmp(entry, name, length) != 0) continue;
        const char *next = entry + length;
        while (isspace((unsigned char)*next)) next++;
        if (*next == '(') return next + 1;
    }
    return NULL;
}

/* Whether they are one number of 64 bits, as twins have it. */
static bool is_one_number(const char *parameters)
{
    const char *const end = strchr(parameters, ')');
    unsigned count = 0;
    bool is_number = false;
    for (const char *one = parameters;
         end != NULL && (one = strstr(one, ".param")) != NULL && one < end;) {
        one += strlen(".param");
        while (isspace((unsigned char)*one)) one++;
        is_number = strncmp(one, ".u64", 4) == 0 || strncmp(one, ".b64", 4) == 0;
        count++;
    }
    return count == 1 && is_number;
}

static void write_log(unsigned count, const int *options, void **values, const char *text)
{
    char *log = NULL;
    size_t bytes = 0;
    for (unsigned o = 0; o < count; o++) {
        if (options[o] == CUDA_JIT_ERROR_LOG) log = values[o];
        if (options[o] == CUDA_JIT_ERROR_LOG_BYTES) bytes = (uintptr_t)values[o];
    }
    if (log != NULL && bytes > 0) snprintf(log, bytes, "%s", text);
}

int standin_module_load(struct cuda_module **module, const void *image, unsigned count,
                        int *options, void **values)
{
    BEGIN_IN_CONTEXT("cuModuleLoadDataEx");
    RETURN_UNLESS_OK(refuse_in_capture());
    if (strstr(image, ".version") == NULL || strstr(image, ".target") == NULL) {
        write_log(count, options, values, "ptxas fatal: no .version, no .target");
        return CUDA_INVALID_PTX;
    }
    finish_if_asked("cuModuleLoadDataEx");
    struct cuda_module *const made = calloc(1, sizeof *made);
    if (made == NULL || (made->text = strdup(image)) == NULL) standin_die("out of memory");
    made->device = current()->device;
    pthread_mutex_lock(&state.lock);
    made->next = state.modules;
    state.modules = made;
    state.module_count++;
    pthread_mutex_unlock(&state.lock);
    *module = made;
    return CUDA_OK;
}

static struct cuda_module *module_of(struct cuda_module *module)
{
    pthread_mutex_lock(&state.lock);
    struct cuda_module *found = state.modules;
    while (found != NULL && found != module) found = found->next;
    const bool is_there = found != NULL && !found->is_unloaded;
    pthread_mutex_unlock(&state.lock);
    if (!is_there) standin_die("%p is no module: it was unloaded, or never there", (void *)module);
    return found;
}

int standin_module_unload(struct cuda_module *module)
{
    BEGIN_IN_CONTEXT("cuModuleUnload");
    struct cuda_module *const found = module_of(module);
    finish_device("cuModuleUnload", found->device);
    pthread_mutex_lock(&state.lock);
    found->is_unloaded = true;
    pthread_mutex_unlock(&state.lock);
    return CUDA_OK;
}

int standin_module_function(struct cuda_function **function, struct cuda_module *module,
                            const char *name)
{
    BEGIN_IN_CONTEXT("cuModuleGetFunction");
    struct cuda_module *const found = module_of(module);
    gpu_twin *run = kernel_of_tests(name);
    if (run == NULL) {
        const char *const parameters = parameters_of(found->text, name);
        if (parameters == NULL) return CUDA_NOT_FOUND;
        if (!is_one_number(parameters))
            standin_die("the kernel %s has other parameters than one of 64 bits", name);
        run = gpu_twin_find(name);
        if (run == NULL) standin_die("the kernel %s has no twin on the host", name);
    }
    finish_if_asked("cuModuleGetFunction"); /* may be what loads it */
    struct cuda_function *const made = calloc(1, sizeof *made);
    if (made == NULL) standin_die("out of memory");
    snprintf(made->name, sizeof made->name, "%s", name);
    made->run = run;
    pthread_mutex_lock(&state.lock);
    made->next = found->functions;
    found->functions = made;
    pthread_mutex_unlock(&state.lock);
    *function = made;
    return CUDA_OK;
}

int standin_function_attribute(int *value, int attribute, struct cuda_function *function)
{
    BEGIN_ANYWHERE("cuFuncGetAttribute");
    (void)function;
    if (attribute != CUDA_FUNCTION_MAX_THREADS) return CUDA_INVALID_VALUE;
    *value = THREADS_MAX;
    return CUDA_OK;
}

/* The device on which a function of a module is, that was not unloaded. */
static int device_of(const struct cuda_function *function)
{
    int device = -1;
    pthread_mutex_lock(&state.lock);
    for (const struct cuda_module *m = state.modules; m != NULL; m = m->next)
        for (const struct cuda_function *f = m->functions; f != NULL; f = f->next)
            if (f == function && !m->is_unloaded) device = m->device;
    pthread_mutex_unlock(&state.lock);
    return device;
}

int standin_launch(struct cuda_function *function, unsigned blocks_x, unsigned blocks_y,
                   unsigned blocks_z, unsigned threads_x, unsigned threads_y, unsigned threads_z,
                   unsigned shared_bytes, struct cuda_stream *stream, void **parameters,
                   void **extra)
{
    uint64_t argument;
    BEGIN_IN_CONTEXT("cuLaunchKernel");
    const int device = device_of(function);
    if (device < 0) standin_die("%p is no kernel of a loaded module", (void *)function);
    const int of_stream = work_stream_device(stream);
    if (device != current()->device || (of_stream >= 0 && of_stream != device))
        return CUDA_INVALID_HANDLE;
    if (blocks_x == 0 || blocks_y != 1 || blocks_z != 1 || threads_x == 0 ||
        threads_x > THREADS_MAX || threads_y != 1 || threads_z != 1 || shared_bytes != 0 ||
        parameters == NULL || extra != NULL)
        return CUDA_INVALID_VALUE;
    memcpy(&argument, parameters[0], sizeof argument);
    work_launch(device, stream, function->name, function->run, argument, blocks_x);
    return CUDA_OK;
}

/* Memory. */

static const uint32_t freed_by_release =
    1u << MEMORY_DEVICE | 1u << MEMORY_BARE | 1u << MEMORY_FOREIGN | 1u << MEMORY_MANAGED;

static void set_attribute(int attribute, void *value, const struct memory_range *range)
{
    const bool is_host =
        range != NULL && (range->sort == MEMORY_PINNED || range->sort == MEMORY_REGISTERED);
    switch (attribute) {
    case CUDA_POINTER_CONTEXT:
        *(struct cuda_context **)value =
            range == NULL || range->sort == MEMORY_BARE || range->sort == MEMORY_MAPPED ? NULL
            : range->sort == MEMORY_FOREIGN  ? &state.foreign
            : range->sort == MEMORY_IMPORTED ? &state.contexts[range->opener]
                                             : &state.contexts[range->device];
        break;
    case CUDA_POINTER_MEMORY_TYPE:
        *(unsigned *)value = range == NULL ? 0 : is_host ? CUDA_MEMORY_HOST : CUDA_MEMORY_DEVICE;
        break;
    case CUDA_POINTER_BUFFER_ID:
        *(unsigned long long *)value = range == NULL ? 0 : range->buffer;
        break;
    case CUDA_POINTER_IS_MANAGED:
        *(unsigned *)value = range != NULL && range->sort == MEMORY_MANAGED;
        break;
    case CUDA_POINTER_DEVICE_ORDINAL: *(int *)value = range == NULL ? -2 : range->device; break;
    case CUDA_POINTER_IS_LEGACY_IPC_CAPABLE:
        *(int *)value = range != NULL && range->sort == MEMORY_DEVICE;
        break;
    case CUDA_POINTER_RANGE_BEGIN: *(uint64_t *)value = range == NULL ? 0 : range->begin; break;
    case CUDA_POINTER_RANGE_BYTES: *(size_t *)value = range == NULL ? 0 : range->bytes; break;
    case CUDA_POINTER_IS_MAPPED: *(int *)value = range != NULL; break;
    case CUDA_POINTER_HANDLE_TYPES:
        *(uint64_t *)value = range == NULL || range->sort != MEMORY_MAPPED ? 0 : mapped_types(range);
        break;
    default: standin_die("cuPointerGetAttributes: nothing is known of attribute %d", attribute);
    }
}

int standin_pointer_attributes(unsigned count, int *attributes, void **values, uint64_t address)
{
    struct memory_range range;
    BEGIN("cuPointerGetAttributes");
    const bool is_known = memory_find(address, &range);
    for (int d = 0; d < state.device_count; d++)
        if (!is_known || range.device == d) RETURN_UNLESS_OK(work_fault_of(d));
    for (unsigned a = 0; a < count; a++)
        set_attribute(attributes[a], values[a], is_known ? &range : NULL);
    return CUDA_OK;
}

static int device_of_work(struct cuda_stream *stream)
{
    const int of_stream = work_stream_device(stream);
    return of_stream >= 0 ? of_stream : current()->device;
}

int standin_allocate(uint64_t *address, size_t bytes)
{
    BEGIN_IN_CONTEXT("cuMemAlloc_v2");
    RETURN_UNLESS_OK(refuse_in_capture());
    finish_if_asked("cuMemAlloc");
    return memory_allocate(MEMORY_DEVICE, current()->device, bytes, address);
}

/* Of the device's pool, at once: the address is there when this returns, and nothing waits. */
int standin_allocate_later(uint64_t *address, size_t bytes, struct cuda_stream *stream)
{
    BEGIN_IN_CONTEXT("cuMemAllocAsync");
    return memory_allocate(MEMORY_BARE, device_of_work(stream), bytes, address);
}

int standin_allocate_managed(uint64_t *address, size_t bytes, unsigned flags)
{
    (void)flags;
    BEGIN_IN_CONTEXT("cuMemAllocManaged");
    return memory_allocate(MEMORY_MANAGED, current()->device, bytes, address);
}

int standin_release(uint64_t address)
{
    BEGIN_IN_CONTEXT("cuMemFree_v2");
    RETURN_UNLESS_OK(refuse_in_capture());
    struct memory_range range;
    if (address == 0) return CUDA_OK;
    if (memory_find(address, &range)) finish_device("cuMemFree", range.device);
    RETURN_UNLESS_OK(current_fault());
    memory_release("cuMemFree", freed_by_release, address);
    return CUDA_OK;
}

int standin_address_range(uint64_t *base, size_t *bytes, uint64_t address)
{
    struct memory_range range;
    BEGIN_IN_CONTEXT("cuMemGetAddressRange_v2");
    if (!memory_find(address, &range) || range.sort == MEMORY_PINNED ||
        range.sort == MEMORY_REGISTERED || range.sort == MEMORY_MANAGED)
        return CUDA_NOT_FOUND;
    if (range.sort == MEMORY_MAPPED) return mapped_range(&range, base, bytes);
    *base = range.begin - range.block_lead;
    *bytes = range.block_lead + range.bytes + range.block_rest;
    return CUDA_OK;
}

int standin_host_allocate(void **memory, size_t bytes, unsigned flags)
{
    uint64_t address = 0;
    BEGIN_IN_CONTEXT("cuMemHostAlloc");
    RETURN_UNLESS_OK(refuse_in_capture());
    if ((flags & CUDA_HOST_PORTABLE) == 0) return CUDA_NOT_SUPPORTED;
    finish_if_asked("cuMemHostAlloc");
    const int result = memory_allocate(MEMORY_PINNED, current()->device, bytes, &address);
    if (result == CUDA_OK) *memory = (void *)(uintptr_t)address;
    return result;
}

int standin_host_release(void *memory)
{
    BEGIN_IN_CONTEXT("cuMemFreeHost");
    RETURN_UNLESS_OK(refuse_in_capture());
    finish_devices("cuMemFreeHost");
    RETURN_UNLESS_OK(current_fault());
    memory_release("cuMemFreeHost", 1u << MEMORY_PINNED, (uintptr_t)memory);
    return CUDA_OK;
}

int standin_host_register(void *memory, size_t bytes, unsigned flags)
{
    BEGIN_IN_CONTEXT("cuMemHostRegister_v2");
    RETURN_UNLESS_OK(refuse_in_capture());
    if ((flags & CUDA_HOST_PORTABLE) == 0) return CUDA_NOT_SUPPORTED;
    finish_if_asked("cuMemHostRegister");
    return memory_register(memory, bytes);
}

int standin_host_unregister(void *memory)
{
    BEGIN_IN_CONTEXT("cuMemHostUnregister");
    RETURN_UNLESS_OK(refuse_in_capture());
    finish_devices("cuMemHostUnregister");
    RETURN_UNLESS_OK(current_fault());
    return memory_unregister(memory);
}

int standin_host_device_pointer(uint64_t *address, void *memory, unsigned flags)
{
    struct memory_range range;
    BEGIN_IN_CONTEXT("cuMemHostGetDevicePointer_v2");
    if (flags != 0 || !memory_find((uintptr_t)memory, &range) ||
        (range.sort != MEMORY_PINNED && range.sort != MEMORY_REGISTERED))
        return CUDA_INVALID_VALUE;
    *address = (uintptr_t)memory;
    return CUDA_OK;
}

int standin_ipc_export(struct cuda_ipc_handle *handle, uint64_t address)
{
    BEGIN_IN_CONTEXT("cuIpcGetMemHandle");
    return memory_export(address, handle);
}

int standin_ipc_open(uint64_t *address, struct cuda_ipc_handle handle, unsigned flags)
{
    BEGIN_IN_CONTEXT("cuIpcOpenMemHandle_v2");
    RETURN_UNLESS_OK(refuse_in_capture());
    if (flags != CUDA_IPC_ENABLE_PEER_ACCESS) return CUDA_INVALID_VALUE;
    finish_if_asked("cuIpcOpenMemHandle");
    return memory_import(current()->device, state.are_peers, &handle, address);
}

int standin_ipc_close(uint64_t address)
{
    BEGIN_IN_CONTEXT("cuIpcCloseMemHandle");
    RETURN_UNLESS_OK(refuse_in_capture());
    finish_devices("cuIpcCloseMemHandle");
    RETURN_UNLESS_OK(current_fault());
    memory_release("cuIpcCloseMemHandle", 1u << MEMORY_IMPORTED, address);
    return CUDA_OK;
}

/* Memory that is mapped by hand. */

int standin_memory_granularity(size_t *bytes, const struct cuda_memory_kind *kind, int option)
{
    (void)option;
    BEGIN_ANYWHERE("cuMemGetAllocationGranularity");
    if (kind->type != CUDA_MEMORY_PINNED || kind->location.type != CUDA_LOCATION_DEVICE)
        return CUDA_INVALID_VALUE;
    *bytes = STANDIN_GRANULARITY;
    return is_device(kind->location.device) ? CUDA_OK : CUDA_INVALID_DEVICE;
}

int standin_memory_create(cuda_memory *memory, size_t bytes, const struct cuda_memory_kind *kind,
                          unsigned long long flags)
{
    BEGIN_ANYWHERE("cuMemCreate");
    if (flags != 0 || kind->type != CUDA_MEMORY_PINNED ||
        kind->location.type != CUDA_LOCATION_DEVICE || !is_device(kind->location.device))
        return CUDA_INVALID_VALUE;
    return mapped_create(kind->location.device, bytes,
                         (kind->handle_types & CUDA_MEMORY_AS_DESCRIPTOR) != 0, memory);
}

int standin_memory_retain(cuda_memory *memory, void *address)
{
    BEGIN_ANYWHERE("cuMemRetainAllocationHandle");
    RETURN_UNLESS_OK(refuse_in_capture());
    return mapped_retain((uintptr_t)address, memory);
}

int standin_memory_release(cuda_memory memory)
{
    BEGIN_ANYWHERE("cuMemRelease");
    mapped_release(memory);
    return CUDA_OK;
}

int standin_memory_export(void *descriptor, cuda_memory memory, int type, unsigned long long flags)
{
    BEGIN_ANYWHERE("cuMemExportToShareableHandle");
    if (type != CUDA_MEMORY_AS_DESCRIPTOR || flags != 0) return CUDA_INVALID_VALUE;
    return mapped_export(memory, descriptor);
}

int standin_memory_import(cuda_memory *memory, void *descriptor, int type)
{
    BEGIN_ANYWHERE("cuMemImportFromShareableHandle");
    if (type != CUDA_MEMORY_AS_DESCRIPTOR) return CUDA_INVALID_VALUE;
    return mapped_import((int)(intptr_t)descriptor, memory);
}

int standin_address_reserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t wish,
                            unsigned long long flags)
{
    BEGIN_ANYWHERE("cuMemAddressReserve");
    if (alignment != 0 || wish != 0 || flags != 0) return CUDA_INVALID_VALUE;
    return mapped_reserve(bytes, address);
}

int standin_address_free(uint64_t address, size_t bytes)
{
    BEGIN_ANYWHERE("cuMemAddressFree");
    mapped_free(address, bytes);
    return CUDA_OK;
}

int standin_map(uint64_t address, size_t bytes, size_t offset, cuda_memory memory,
                unsigned long long flags)
{
    BEGIN_ANYWHERE("cuMemMap");
    if (offset != 0 || flags != 0) return CUDA_INVALID_VALUE;
    return mapped_map(address, bytes, memory);
}

int standin_unmap(uint64_t address, size_t bytes)
{
    BEGIN_ANYWHERE("cuMemUnmap");
    struct memory_range range;
    if (memory_find(address, &range)) finish_device_if_asked("cuMemUnmap", range.device);
    mapped_unmap(address, bytes);
    return CUDA_OK;
}

int standin_set_access(uint64_t address, size_t bytes, const struct cuda_access *access,
                       size_t count)
{
    BEGIN_ANYWHERE("cuMemSetAccess");
    for (size_t a = 0; a < count; a++) {
        if (access[a].location.type != CUDA_LOCATION_DEVICE ||
            !is_device(access[a].location.device) || access[a].flags != CUDA_READ_AND_WRITE)
            return CUDA_INVALID_VALUE;
        const int device = access[a].location.device;
        finish_device_if_asked("cuMemSetAccess", device);
        RETURN_UNLESS_OK(mapped_give_access(address, bytes, device, state.are_peers));
    }
    return CUDA_OK;
}

/* Copies. */

int standin_copy(uint64_t destination, uint64_t source, size_t bytes, struct cuda_stream *stream)
{
    BEGIN_IN_CONTEXT("cuMemcpyAsync");
    work_copy(device_of_work(stream), stream, destination, source, bytes);
    return current_fault();
}

int standin_copy_to_device(uint64_t destination, const void *source, size_t bytes)
{
    BEGIN_IN_CONTEXT("cuMemcpyHtoD_v2");
    work_copy_now(current()->device, destination, (uintptr_t)source, bytes);
    return current_fault();
}

int standin_copy_to_host(void *destination, uint64_t source, size_t bytes)
{
    BEGIN_IN_CONTEXT("cuMemcpyDtoH_v2");
    work_copy_now(current()->device, (uintptr_t)destination, source, bytes);
    return current_fault();
}

/* Streams and events. */

int standin_stream_create(struct cuda_stream **stream, unsigned flags)
{
    BEGIN_IN_CONTEXT("cuStreamCreate");
    if (flags > CUDA_STREAM_NON_BLOCKING) return CUDA_INVALID_VALUE;
    *stream = work_stream_create(current()->device, flags != CUDA_STREAM_NON_BLOCKING);
    return CUDA_OK;
}

int standin_stream_destroy(struct cuda_stream *stream)
{
    BEGIN_ANYWHERE("cuStreamDestroy_v2");
    work_stream_destroy(stream);
    return CUDA_OK;
}

int standin_stream_context(struct cuda_stream *stream, struct cuda_context **context)
{
    BEGIN_ANYWHERE("cuStreamGetCtx");
    const int device = work_stream_device(stream);
    *context = device >= 0 ? &state.contexts[device] : current();
    return *context != NULL ? CUDA_OK : CUDA_INVALID_CONTEXT;
}

int standin_stream_is_capturing(struct cuda_stream *stream, int *status)
{
    BEGIN_IN_CONTEXT("cuStreamIsCapturing");
    const int device = device_of_work(stream);
    *status = work_stream_capture(device, stream);
    return *status == CUDA_CAPTURE_NONE && work_stream_device(stream) < 0 &&
                   work_is_capturing(device)
               ? CUDA_CAPTURE_IMPLICIT
               : CUDA_OK;
}

/* To ask about a stream that is being captured, or to wait for it, spoils the capture; on the default stream that of any blocking one. */
static int refuse_captured(struct cuda_stream *stream)
{
    const int device = device_of_work(stream);
    if (work_stream_capture(device, stream) != CUDA_CAPTURE_NONE) {
        work_stream_set_capture(device, stream, CUDA_CAPTURE_INVALIDATED);
        return CUDA_CAPTURE_UNSUPPORTED;
    }
    return work_stream_device(stream) < 0 && work_is_capturing(device) ? CUDA_CAPTURE_IMPLICIT
                                                                       : CUDA_OK;
}

int standin_stream_synchronize(struct cuda_stream *stream)
{
    BEGIN_IN_CONTEXT("cuStreamSynchronize");
    RETURN_UNLESS_OK(refuse_captured(stream));
    work_synchronize_stream("cuStreamSynchronize", device_of_work(stream), stream);
    return current_fault();
}

int standin_stream_query(struct cuda_stream *stream)
{
    BEGIN_IN_CONTEXT("cuStreamQuery");
    RETURN_UNLESS_OK(refuse_captured(stream));
    const bool is_idle = work_stream_is_idle(device_of_work(stream), stream);
    RETURN_UNLESS_OK(current_fault());
    return is_idle ? CUDA_OK : CUDA_NOT_READY;
}

int standin_stream_wait(struct cuda_stream *stream, struct cuda_event *event, unsigned flags)
{
    BEGIN_IN_CONTEXT("cuStreamWaitEvent");
    if (flags != 0) return CUDA_INVALID_VALUE;
    work_event_wait(device_of_work(stream), event, stream);
    return CUDA_OK;
}

/* The function must not call the driver, and has no context here in which it could. */
int standin_call_host(struct cuda_stream *stream, void (*run)(void *context), void *context)
{
    BEGIN_IN_CONTEXT("cuLaunchHostFunc");
    if (run == NULL) return CUDA_INVALID_VALUE;
    work_call_host(device_of_work(stream), stream, run, context);
    return CUDA_OK;
}

int standin_event_create(struct cuda_event **event, unsigned flags)
{
    (void)flags;
    BEGIN_IN_CONTEXT("cuEventCreate");
    *event = work_event_create();
    return CUDA_OK;
}

int standin_event_record(struct cuda_event *event, struct cuda_stream *stream)
{
    BEGIN_IN_CONTEXT("cuEventRecord");
    work_event_record(device_of_work(stream), event, stream);
    return CUDA_OK;
}

int standin_event_query(struct cuda_event *event)
{
    BEGIN_ANYWHERE("cuEventQuery");
    return work_event_has_come(event) ? CUDA_OK : CUDA_NOT_READY;
}

int standin_event_synchronize(struct cuda_event *event)
{
    BEGIN_ANYWHERE("cuEventSynchronize");
    work_event_synchronize(event);
    return current_fault();
}

int standin_event_destroy(struct cuda_event *event)
{
    BEGIN_ANYWHERE("cuEventDestroy_v2");
    work_event_destroy(event);
    return CUDA_OK;
}

/* For tests. */

static void add_kernel(const char *name, gpu_twin *run)
{
    pthread_mutex_lock(&state.lock);
    if (state.kernel_count == KERNELS_MAX) standin_die("too many kernels of tests");
    struct cuda_function *const kernel = &state.kernels[state.kernel_count++];
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    kernel->run = run;
    pthread_mutex_unlock(&state.lock);
}

static void fail(const char *symbol, int result, unsigned skipped, unsigned times)
{
    pthread_mutex_lock(&state.lock);
    if (symbol == NULL) {
        state.failure_count = 0;
    } else {
        if (state.failure_count == FAILURES_MAX) standin_die("too many functions that fail");
        struct failure *const failure = &state.failures[state.failure_count++];
        snprintf(failure->symbol, sizeof failure->symbol, "%s", symbol);
        failure->result = result;
        failure->skipped = skipped;
        failure->times = times;
    }
    pthread_mutex_unlock(&state.lock);
}

static void fault(int device, int result, unsigned questions)
{
    if (!is_device(device) || result == CUDA_OK) standin_die("no fault of device %d", device);
    work_fault(device, result, questions);
}

static void fault_at(int device, int result, uint64_t address)
{
    if (!is_device(device) || result == CUDA_OK) standin_die("no fault of device %d", device);
    work_fault_at(device, result, address);
}

static int device_of_test(struct cuda_stream *stream)
{
    if (work_stream_device(stream) < 0 && current() == NULL)
        standin_die("the default stream of no context");
    return device_of_work(stream);
}

static void set_capture(struct cuda_stream *stream, enum cuda_capture_status status)
{
    work_stream_set_capture(device_of_test(stream), stream, status);
}

static void set_wait(bool waits)
{
    atomic_store(&state.waits_to_allocate, waits);
}

static void hold(struct cuda_stream *stream, bool is_held)
{
    work_hold(device_of_test(stream), stream, is_held);
}

static int allocate_for_test(int device, size_t bytes, enum cuda_standin_memory kind,
                             uint64_t *address)
{
    static const enum memory_sort sorts[] = {
        [STANDIN_ORDINARY] = MEMORY_DEVICE, [STANDIN_BARE] = MEMORY_BARE, [STANDIN_FOREIGN] = MEMORY_FOREIGN};
    return is_device(device) ? memory_allocate(sorts[kind], device, bytes, address)
                             : CUDA_INVALID_DEVICE;
}

static struct cuda_standin_counts count(void)
{
    struct cuda_standin_counts counts;
    work_count(&counts);
    pthread_mutex_lock(&state.lock);
    counts.modules = state.module_count;
    pthread_mutex_unlock(&state.lock);
    counts.allocations = memory_count(MEMORY_DEVICE) + memory_count(MEMORY_BARE) +
                         memory_count(MEMORY_FOREIGN) + memory_count(MEMORY_MANAGED);
    counts.pinned = memory_count(MEMORY_PINNED);
    counts.registered = memory_count(MEMORY_REGISTERED);
    counts.imported = memory_count(MEMORY_IMPORTED);
    return counts;
}

EXPORTED const struct cuda_standin cuda_standin = {.add_kernel = add_kernel,
                                                   .reach = work_reach,
                                                   .fail = fail,
                                                   .fault = fault,
                                                   .fault_at = fault_at,
                                                   .set_capture = set_capture,
                                                   .hold = hold,
                                                   .allocate = allocate_for_test,
                                                   .count = count,
                                                   .set_wait = set_wait,
                                                   .set_deadline = work_set_deadline};
