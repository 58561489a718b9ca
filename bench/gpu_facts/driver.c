#include "driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct cuda_library cuda;
struct further_functions further;
struct driver driver;
unsigned facts_unexpected;
const char *facts_who = "";

double facts_seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

const char *driver_name_of(int result)
{
    const char *name = NULL;
    return cuda.error_name(result, &name) == CUDA_OK && name != NULL ? name : "an unknown error";
}

void facts_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs(facts_who, stdout);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

void facts_expect(bool is_so, const char *what)
{
    if (is_so) return;
    facts_unexpected++;
    facts_say("UNEXPECTED: %s", what);
}

void facts_need(int result, const char *what)
{
    if (result == CUDA_OK) return;
    fflush(stdout);
    fprintf(stderr, "%s%s: %s (%d)\n", facts_who, what, driver_name_of(result), result);
    _exit(2);
}

/* Exit status 0, or what it is without a driver or a device. */
int driver_open(const char *file)
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
    driver.is_standin = dlsym(library, "cuda_standin") != NULL;
    int version = 0;
    char name[128] = "";
    const int result = cuda.init(0);
    if (result != CUDA_OK || cuda.device_get(&driver.number, 0) != CUDA_OK) {
        printf("skipped: the driver finds no device (error %d)\n", result);
        return 77;
    }
    int (*const version_get)(int *) = (int (*)(int *))dlsym(library, "cuDriverGetVersion");
    if (version_get != NULL) version_get(&version);
    facts_need(cuda.device_name(name, sizeof name, driver.number), "the device's name");
    facts_need(cuda.primary_retain(&driver.context, driver.number), "the device's context");
    facts_need(further.context_set(driver.context), "the device's context");
    facts_need(cuda.stream_create(&driver.stream, CUDA_STREAM_NON_BLOCKING), "a stream");
    facts_need(cuda.stream_create(&driver.other_stream, CUDA_STREAM_NON_BLOCKING), "a stream");
    facts_say("device: %s, driver for CUDA %d.%d", name, version / 1000, version % 1000 / 10);
    return 0;
}

uint64_t driver_allocated(size_t bytes)
{
    uint64_t address = 0;
    facts_need(cuda.allocate(&address, bytes), "cuMemAlloc");
    return address;
}

void *driver_pinned(size_t bytes)
{
    void *memory = NULL;
    facts_need(cuda.host_allocate(&memory, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICE_MAP),
               "cuMemHostAlloc");
    return memory;
}

cuda_memory driver_created(bool may_be_exported)
{
    const struct cuda_memory_kind kind = {.type = CUDA_MEMORY_PINNED,
                                          .handle_types =
                                              may_be_exported ? CUDA_MEMORY_AS_DESCRIPTOR : 0,
                                          .location = {CUDA_LOCATION_DEVICE, driver.number}};
    cuda_memory memory = 0;
    if (driver.grain == 0)
        facts_need(further.granularity(&driver.grain, &kind, 0), "cuMemGetAllocationGranularity");
    facts_need(further.create(&memory, driver.grain, &kind, 0), "cuMemCreate");
    return memory;
}

uint64_t driver_reserved(unsigned grains)
{
    uint64_t address = 0;
    facts_need(cuda.address_reserve(&address, grains * driver.grain, 0, 0, 0),
               "cuMemAddressReserve");
    return address;
}

int driver_give_access(uint64_t address)
{
    const struct cuda_access access = {{CUDA_LOCATION_DEVICE, driver.number}, CUDA_READ_AND_WRITE};
    return cuda.set_access(address, driver.grain, &access, 1);
}

void driver_map(uint64_t address, cuda_memory memory)
{
    facts_need(cuda.map(address, driver.grain, 0, memory, 0), "cuMemMap");
    facts_need(driver_give_access(address), "cuMemSetAccess");
}

bool driver_has_mappings(void)
{
    int maps = 0, exports = 0;
    const int first = cuda.device_attribute(&maps, CUDA_DEVICE_MAPS_BY_HAND, driver.number),
              second =
                  cuda.device_attribute(&exports, CUDA_DEVICE_EXPORTS_DESCRIPTORS, driver.number);
    return first == CUDA_OK && second == CUDA_OK && maps != 0 && exports != 0;
}

/* Through pinned memory, in a stream that waits for nothing. */
int driver_move(uint64_t to, uint64_t from, size_t bytes)
{
    const int result = cuda.copy(to, from, bytes, driver.other_stream);
    return result == CUDA_OK ? further.stream_synchronize(driver.other_stream) : result;
}
