#include "memory.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "driver.h"

struct memory_told memory_ask(uint64_t address)
{
    struct memory_told told = {.ordinal = -1};
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
        snprintf(text, bytes, "%s", driver_name_of(result));
    else
        snprintf(text, bytes, "%#llx", (unsigned long long)value);
    return text;
}

void memory_tell_attributes(const char *name, uint64_t address)
{
    const struct memory_told told = memory_ask(address);
    char more[5][48];
    if (told.result != CUDA_OK) {
        facts_say("%s: cuPointerGetAttributes: %s", name, driver_name_of(told.result));
        return;
    }
    facts_say("%s: at %#llx: type %u, managed %u, device %d, number %llu, context %s", name,
              (unsigned long long)address, told.type, told.is_managed, told.ordinal, told.number,
              told.context == NULL             ? "none"
              : told.context == driver.context ? "the primary one"
                                               : "another one");
    for (int a = 0; a < 5; a++)
        ask_more(address, CUDA_POINTER_IS_LEGACY_IPC_CAPABLE + a, more[a], sizeof more[a]);
    facts_say("%s: IPC-capable %s, reserved from %s, %s bytes, mapped %s, handle types %s", name,
              more[0], more[1], more[2], more[3], more[4]);
}

void memory_tell_range(const char *name, uint64_t address)
{
    uint64_t base = 0;
    size_t bytes = 0;
    const int result = cuda.address_range(&base, &bytes, address);
    if (result != CUDA_OK)
        facts_say("%s: cuMemGetAddressRange: %s", name, driver_name_of(result));
    else
        facts_say("%s: cuMemGetAddressRange: begins %lld before, %zu bytes", name,
                  (long long)(address - base), bytes);
}

static void tell_handles(const char *name, uint64_t address, bool begins)
{
    struct cuda_ipc_handle handle;
    cuda_memory memory = 0;
    int descriptor = -1;
    int result = cuda.memory_retain(&memory, (void *)(uintptr_t)address);
    facts_say("%s: cuMemRetainAllocationHandle: %s, %#llx", name,
              result == CUDA_OK ? "OK" : driver_name_of(result), memory);
    if (result == CUDA_OK) {
        result = cuda.memory_export(&descriptor, memory, CUDA_MEMORY_AS_DESCRIPTOR, 0);
        facts_say("%s: cuMemExportToShareableHandle: %s", name,
                  result == CUDA_OK ? "OK" : driver_name_of(result));
        if (result == CUDA_OK) close(descriptor);
        facts_need(cuda.memory_release(memory), "cuMemRelease");
    }
    if (!begins) return;
    result = cuda.ipc_export(&handle, address);
    facts_say("%s: cuIpcGetMemHandle: %s", name, result == CUDA_OK ? "OK" : driver_name_of(result));
}

void memory_tell(const char *name, uint64_t address, bool begins)
{
    memory_tell_attributes(name, address);
    memory_tell_range(name, address);
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
    if (!driver_has_mappings()) {
        facts_say("memory that is mapped by hand: the device has none that can be exported");
        return;
    }
    const cuda_memory one = driver_created(true), two = driver_created(true),
                      secret = driver_created(false);
    facts_say("granularity: %zu bytes", driver.grain);
    const uint64_t at = driver_reserved(6);
    driver_map(at + driver.grain, one);
    driver_map(at + 2 * driver.grain, two);
    driver_map(at + 3 * driver.grain, one);
    driver_map(at + 4 * driver.grain, secret);
    memory_tell("mapping", at + driver.grain, true);
    memory_tell("in a mapping", at + driver.grain + 4096, false);
    memory_tell("the next mapping", at + 2 * driver.grain, true);
    memory_tell("the first one's memory mapped again", at + 3 * driver.grain, true);
    memory_tell("mapping that may not be exported", at + 4 * driver.grain, true);
    memory_tell_attributes("reserved, not mapped", at);
    memory_tell_range("reserved, not mapped", at);
    facts_expect(name_at(at + driver.grain) == one && name_at(at + 2 * driver.grain - 1) == one,
                 "the name of the memory at an address is not the one that was mapped");
    facts_expect(name_at(at) == 0 && name_at(at + driver.grain - 1) == 0,
                 "what is not mapped has a name");
    facts_expect(memory_ask(at + driver.grain).number != 0,
                 "mappings have no number: they are not read directly");
    uint64_t base = 0;
    size_t bytes = 0;
    facts_expect(cuda.address_range(&base, &bytes, at + driver.grain + 5) == CUDA_OK &&
                     base == at + driver.grain && bytes == driver.grain,
                 "cuMemGetAddressRange does not tell a mapping: they are not read directly");
    int result = cuda.map(at + 5 * driver.grain, driver.grain, driver.grain, one, 0);
    facts_say("cuMemMap beyond the end: %s", result == CUDA_OK ? "OK" : driver_name_of(result));
    facts_need(cuda.unmap(at + driver.grain, driver.grain), "cuMemUnmap");
    memory_tell_attributes("unmapped", at + driver.grain);
    const cuda_memory three = driver_created(true);
    driver_map(at + driver.grain, three);
    memory_tell("mapped anew", at + driver.grain, true);
    facts_expect(name_at(at + driver.grain) == three, "memory that is mapped anew has an old name");
    facts_need(cuda.memory_release(one), "cuMemRelease");
    facts_need(cuda.memory_release(two), "cuMemRelease");
    facts_need(cuda.memory_release(three), "cuMemRelease");
    facts_need(cuda.memory_release(secret), "cuMemRelease");
}

static void *ask_without_context(void *address)
{
    static struct memory_told told;
    told = memory_ask((uintptr_t)address);
    return &told;
}

static struct memory_told told_without_context(uint64_t address)
{
    pthread_t thread;
    void *told = NULL;
    if (pthread_create(&thread, NULL, ask_without_context, (void *)(uintptr_t)address) != 0)
        _exit(2);
    pthread_join(thread, &told);
    return *(struct memory_told *)told;
}

void memory_part(void)
{
    static char here[1 << 16];
    const uint64_t small = driver_allocated(FACTS_SMALL), next = driver_allocated(FACTS_SMALL),
                   large = driver_allocated(FACTS_LARGE);
    memory_tell("cuMemAlloc of 256 bytes", small, true);
    memory_tell("the next one", next, true);
    memory_tell("cuMemAlloc of 5 MiB", large, true);
    memory_tell("in it", large + (3 << 20), false);
    facts_expect(name_at(large) == 0,
                 "memory of cuMemAlloc is taken for memory that is mapped by hand");
    const unsigned long long was = memory_ask(small).number;
    facts_expect(was != 0 && was != memory_ask(next).number, "two allocations have one number");
    facts_need(cuda.release(small), "cuMemFree");
    memory_tell_attributes("freed", small);
    const uint64_t again = driver_allocated(FACTS_SMALL);
    facts_say("the next allocation of that size is %s",
              again == small ? "at the same address" : "elsewhere");
    facts_expect(memory_ask(again).number != was, "a number is used again");
    uint64_t of_pool = 0;
    const int result = cuda.allocate_later(&of_pool, FACTS_LARGE, driver.other_stream);
    facts_need(further.stream_synchronize(driver.other_stream), "a stream");
    if (result == CUDA_OK)
        memory_tell("cuMemAllocAsync of 5 MiB", of_pool, true);
    else
        facts_say("cuMemAllocAsync: %s", driver_name_of(result));
    tell_mappings();
    memory_tell_attributes("cuMemHostAlloc", (uintptr_t)driver_pinned(FACTS_SMALL));
    memory_tell_attributes("memory of the host", (uintptr_t)here);
    memory_tell_range("memory of the host", (uintptr_t)here);
    const struct memory_told told = told_without_context(large);
    facts_say("cuPointerGetAttributes in a thread without a context: %s, type %u, number %llu",
              told.result == CUDA_OK ? "OK" : driver_name_of(told.result), told.type, told.number);
    facts_expect(told.result == CUDA_OK && told.number == memory_ask(large).number,
                 "a thread without a context is not told whose memory that is");
}
