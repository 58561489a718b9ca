#include "tests/gpu/device_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/cuda_standin.h"

typedef unsigned long long address;

static struct {
    int (*init)(unsigned flags);
    int (*count)(int *count);
    int (*device)(int *device, int number);
    int (*retain)(void **context, int device);
    int (*use)(void *context);
    int (*current)(int *device);
    int (*attribute)(int *value, int attribute, int device);
    int (*error_name)(int result, const char **name);
    int (*allocate)(address *memory, size_t bytes);
    int (*release)(address memory);
    int (*create)(address *physical, size_t bytes, const struct cuda_memory_kind *kind,
                  unsigned long long flags);
    int (*granularity)(size_t *bytes, const struct cuda_memory_kind *kind, int option);
    int (*let_go)(address physical);
    int (*reserve)(address *memory, size_t bytes, size_t alignment, address wish,
                   unsigned long long flags);
    int (*free_reserved)(address memory, size_t bytes);
    int (*map)(address memory, size_t bytes, size_t offset, address physical,
               unsigned long long flags);
    int (*unmap)(address memory, size_t bytes);
    int (*set_access)(address memory, size_t bytes, const struct cuda_access *access, size_t count);
    int (*put)(address device, const void *host, size_t bytes);
    int (*get)(void *host, address device, size_t bytes);
    int (*copy)(address destination, address source, size_t bytes, void *stream);
    int (*make_stream)(void **stream, unsigned flags);
    int (*free_stream)(void *stream);
    int (*finish)(void *stream);
    int (*call_host)(void *stream, void (*run)(void *context), void *context);
    int (*pinned)(void **memory, size_t bytes, unsigned flags);
    int (*free_pinned)(void *memory);
} cuda;

static const struct {
    void *place;
    const char *name;
} functions[] = {
    {&cuda.init, "cuInit"},
    {&cuda.count, "cuDeviceGetCount"},
    {&cuda.device, "cuDeviceGet"},
    {&cuda.retain, "cuDevicePrimaryCtxRetain"},
    {&cuda.use, "cuCtxSetCurrent"},
    {&cuda.current, "cuCtxGetDevice"},
    {&cuda.attribute, "cuDeviceGetAttribute"},
    {&cuda.error_name, "cuGetErrorName"},
    {&cuda.allocate, "cuMemAlloc_v2"},
    {&cuda.release, "cuMemFree_v2"},
    {&cuda.create, "cuMemCreate"},
    {&cuda.granularity, "cuMemGetAllocationGranularity"},
    {&cuda.let_go, "cuMemRelease"},
    {&cuda.reserve, "cuMemAddressReserve"},
    {&cuda.free_reserved, "cuMemAddressFree"},
    {&cuda.map, "cuMemMap"},
    {&cuda.unmap, "cuMemUnmap"},
    {&cuda.set_access, "cuMemSetAccess"},
    {&cuda.put, "cuMemcpyHtoD_v2"},
    {&cuda.get, "cuMemcpyDtoH_v2"},
    {&cuda.copy, "cuMemcpyAsync"},
    {&cuda.make_stream, "cuStreamCreate"},
    {&cuda.free_stream, "cuStreamDestroy_v2"},
    {&cuda.finish, "cuStreamSynchronize"},
    {&cuda.call_host, "cuLaunchHostFunc"},
    {&cuda.pinned, "cuMemHostAlloc"},
    {&cuda.free_pinned, "cuMemFreeHost"},
};

static void must(int result, const char *what)
{
    const char *name = NULL;
    if (result == 0) return;
    if (cuda.error_name(result, &name) != 0 || name == NULL) name = "no name";
    fprintf(stderr, "%s: the driver says %d (%s)\n", what, result, name);
    abort();
}

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* ranks that are threads open it together */
static char text[256];

static void *library;

static bool open_driver(void)
{
    static bool is_open;
    const char *const named = getenv("TUTTI_CUDA_DRIVER");
    if (is_open) return true;
    library = dlopen(named != NULL ? named : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        snprintf(text, sizeof text, "no driver of a device: %s", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *const found = dlsym(library, functions[i].name);
        if (found == NULL) {
            snprintf(text, sizeof text, "the driver has no %s", functions[i].name);
            return false;
        }
        *(void **)functions[i].place = found;
    }
    if (cuda.init(0) != 0 || device_driver_count() == 0) {
        snprintf(text, sizeof text, "the driver has no device");
        return false;
    }
    is_open = true;
    return true;
}

bool device_driver_open(const char **reason)
{
    pthread_mutex_lock(&lock);
    const bool is_open = open_driver();
    pthread_mutex_unlock(&lock);
    *reason = text;
    return is_open;
}

int device_driver_count(void)
{
    int count = 0;
    return cuda.count(&count) == 0 ? count : 0;
}

void device_driver_use(int device)
{
    void *context;
    int handle;
    must(cuda.device(&handle, device), "cuDeviceGet");
    must(cuda.retain(&context, handle), "cuDevicePrimaryCtxRetain");
    must(cuda.use(context), "cuCtxSetCurrent");
}

void *device_driver_allocate(size_t bytes)
{
    address memory;
    must(cuda.allocate(&memory, bytes), "cuMemAlloc");
    return (void *)(uintptr_t)memory;
}

void device_driver_free(void *memory)
{
    must(cuda.release((uintptr_t)memory), "cuMemFree");
}

bool device_driver_maps_by_hand(const char **reason)
{
    int device, maps = 0, exports = 0;
    must(cuda.current(&device), "cuCtxGetDevice");
    must(cuda.attribute(&maps, CUDA_DEVICE_MAPS_BY_HAND, device), "cuDeviceGetAttribute");
    must(cuda.attribute(&exports, CUDA_DEVICE_EXPORTS_DESCRIPTORS, device), "cuDeviceGetAttribute");
    *reason = maps == 0 ? "the device has no memory that is mapped by hand"
                        : "the device exports no memory as a descriptor";
    return maps != 0 && exports != 0;
}

static size_t rounded_up(size_t bytes, const struct cuda_memory_kind *kind)
{
    size_t grain = 0;
    must(cuda.granularity(&grain, kind, 0), "cuMemGetAllocationGranularity");
    return (bytes + grain - 1) / grain * grain;
}

static struct cuda_memory_kind kind_of(bool may_be_exported)
{
    int device;
    must(cuda.current(&device), "cuCtxGetDevice");
    return (struct cuda_memory_kind){.type = CUDA_MEMORY_PINNED,
                                     .handle_types = may_be_exported ? CUDA_MEMORY_AS_DESCRIPTOR : 0,
                                     .location = {CUDA_LOCATION_DEVICE, device}};
}

void *device_driver_map(size_t bytes, bool may_be_exported)
{
    const struct cuda_memory_kind kind = kind_of(may_be_exported);
    const struct cuda_access access = {kind.location, CUDA_READ_AND_WRITE};
    const size_t whole = rounded_up(bytes, &kind);
    address physical, memory;
    must(cuda.create(&physical, whole, &kind, 0), "cuMemCreate");
    must(cuda.reserve(&memory, whole, 0, 0, 0), "cuMemAddressReserve");
    must(cuda.map(memory, whole, 0, physical, 0), "cuMemMap");
    must(cuda.set_access(memory, whole, &access, 1), "cuMemSetAccess");
    must(cuda.let_go(physical), "cuMemRelease");
    return (void *)(uintptr_t)memory;
}

void device_driver_unmap(void *memory, size_t bytes)
{
    const struct cuda_memory_kind kind = kind_of(false);
    const size_t whole = rounded_up(bytes, &kind);
    must(cuda.unmap((uintptr_t)memory, whole), "cuMemUnmap");
    must(cuda.free_reserved((uintptr_t)memory, whole), "cuMemAddressFree");
}

void *device_driver_map_two(size_t bytes)
{
    const struct cuda_memory_kind kind = kind_of(true);
    const struct cuda_access access = {kind.location, CUDA_READ_AND_WRITE};
    const size_t half = rounded_up(bytes, &kind);
    address physical, memory;
    must(cuda.reserve(&memory, 2 * half, 0, 0, 0), "cuMemAddressReserve");
    for (int part = 0; part < 2; part++) {
        must(cuda.create(&physical, half, &kind, 0), "cuMemCreate");
        must(cuda.map(memory + (address)part * half, half, 0, physical, 0), "cuMemMap");
        must(cuda.let_go(physical), "cuMemRelease");
    }
    must(cuda.set_access(memory, 2 * half, &access, 1), "cuMemSetAccess");
    return (char *)(uintptr_t)memory + half - bytes / 2;
}

void device_driver_unmap_two(void *memory, size_t bytes)
{
    const struct cuda_memory_kind kind = kind_of(true);
    const size_t half = rounded_up(bytes, &kind);
    const address begin = (uintptr_t)memory + bytes / 2 - half;
    must(cuda.unmap(begin, half), "cuMemUnmap");
    must(cuda.unmap(begin + half, half), "cuMemUnmap");
    must(cuda.free_reserved(begin, 2 * half), "cuMemAddressFree");
}

void device_driver_put(void *device, const void *host, size_t bytes)
{
    if (bytes == 0) return;
    must(cuda.put((uintptr_t)device, host, bytes), "cuMemcpyHtoD");
    /* From memory that is not pinned it returns before the device has everything, and no other
     * stream waits for the rest. */
    must(cuda.finish(NULL), "cuStreamSynchronize");
}

void device_driver_get(void *host, const void *device, size_t bytes)
{
    if (bytes > 0) must(cuda.get(host, (uintptr_t)device, bytes), "cuMemcpyDtoH");
}

void *device_driver_stream(void)
{
    enum { NON_BLOCKING = 1 };
    void *stream;
    must(cuda.make_stream(&stream, NON_BLOCKING), "cuStreamCreate");
    return stream;
}

void device_driver_free_stream(void *stream)
{
    must(cuda.free_stream(stream), "cuStreamDestroy");
}

void device_driver_put_later(void *device, const void *host, size_t bytes, void *stream)
{
    if (bytes > 0)
        must(cuda.copy((uintptr_t)device, (uintptr_t)host, bytes, stream), "cuMemcpyAsync");
}

void device_driver_get_later(void *host, const void *device, size_t bytes, void *stream)
{
    if (bytes > 0)
        must(cuda.copy((uintptr_t)host, (uintptr_t)device, bytes, stream), "cuMemcpyAsync");
}

struct move {
    void *destination;
    const void *source;
    size_t bytes;
};

static void run_move(void *context)
{
    struct move *const move = context;
    memcpy(move->destination, move->source, move->bytes);
    free(move);
}

void device_driver_move_later(void *destination, const void *source, size_t bytes, void *stream)
{
    if (bytes == 0) return;
    struct move *const move = malloc(sizeof *move);
    if (move == NULL) abort();
    *move = (struct move){destination, source, bytes};
    must(cuda.call_host(stream, run_move, move), "cuLaunchHostFunc");
}

static const char faulty_ptx[] = ".version 7.0\n"
                                 ".target sm_70\n"
                                 ".address_size 64\n"
                                 ".visible .entry faulty(.param .u64 after_ns)\n"
                                 "{\n"
                                 "    .reg .pred %early;\n"
                                 "    .reg .u64 %after, %begin, %now;\n"
                                 "    .reg .u32 %value;\n"
                                 "    ld.param.u64 %after, [after_ns];\n"
                                 "    mov.u64 %begin, %globaltimer;\n"
                                 "again:\n"
                                 "    mov.u64 %now, %globaltimer;\n"
                                 "    sub.u64 %now, %now, %begin;\n"
                                 "    setp.lt.u64 %early, %now, %after;\n"
                                 "    @%early bra again;\n"
                                 "    mov.u64 %now, 16;\n"
                                 "    mov.u32 %value, 1;\n"
                                 "    st.global.u32 [%now], %value;\n"
                                 "    ret;\n"
                                 "}\n";

void device_driver_fault_later(uint64_t after_ns, void *stream)
{
    int (*load)(void **module, const void *image);
    int (*find)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                  unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,
                  void *stream, void **parameters, void **extra);
    void *module, *function, *parameters[] = {&after_ns};
    *(void **)&load = dlsym(library, "cuModuleLoadData");
    *(void **)&find = dlsym(library, "cuModuleGetFunction");
    *(void **)&launch = dlsym(library, "cuLaunchKernel");
    if (load == NULL || find == NULL || launch == NULL) abort();
    must(load(&module, faulty_ptx), "cuModuleLoadData");
    must(find(&function, module, "faulty"), "cuModuleGetFunction");
    must(launch(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL), "cuLaunchKernel");
}

void device_driver_finish(void *stream)
{
    must(cuda.finish(stream), "cuStreamSynchronize");
}

void *device_driver_pinned(size_t bytes)
{
    enum { PORTABLE = 1, MAPPED = 2 };
    void *memory;
    must(cuda.pinned(&memory, bytes, PORTABLE | MAPPED), "cuMemHostAlloc");
    return memory;
}

void device_driver_free_pinned(void *memory)
{
    must(cuda.free_pinned(memory), "cuMemFreeHost");
}
