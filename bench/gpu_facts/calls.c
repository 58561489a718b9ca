#include "calls.h"

#include <unistd.h>

#include "driver.h"
#include "gpu/kernels.h"
#include "memory.h"
#include "runner.h"

struct calls calls = {.descriptor = -1};

int calls_allocate(void)
{
    return cuda.allocate(&calls.extra, FACTS_LARGE);
}

int calls_release(void)
{
    return cuda.release(calls.device);
}

int calls_allocate_later(void)
{
    uint64_t address;
    return cuda.allocate_later(&address, FACTS_LARGE, driver.other_stream);
}

int calls_host_allocate(void)
{
    return cuda.host_allocate(&calls.host, FACTS_LARGE, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICE_MAP);
}

int calls_host_release(void)
{
    return cuda.host_release(calls.host);
}

int calls_ask(void)
{
    return memory_ask(calls.plain).result;
}

int calls_range(void)
{
    uint64_t base;
    size_t bytes;
    return cuda.address_range(&base, &bytes, calls.plain);
}

int calls_retain(void)
{
    cuda_memory found;
    const int result = cuda.memory_retain(&found, (void *)(uintptr_t)calls.mapped);
    return result == CUDA_OK ? cuda.memory_release(found) : result;
}

int calls_ipc_export(void)
{
    struct cuda_ipc_handle handle;
    return cuda.ipc_export(&handle, calls.plain);
}

int calls_export(void)
{
    int descriptor = -1;
    const int result = cuda.memory_export(&descriptor, calls.physical, CUDA_MEMORY_AS_DESCRIPTOR, 0);
    if (result == CUDA_OK) close(descriptor);
    return result;
}

int calls_create(void)
{
    calls.physical = driver_created(true);
    return CUDA_OK;
}

int calls_reserve(void)
{
    return cuda.address_reserve(&calls.reserved, driver.grain, 0, 0, 0);
}

int calls_map(void)
{
    return cuda.map(calls.reserved, driver.grain, 0, calls.physical, 0);
}

int calls_give_access(void)
{
    return driver_give_access(calls.reserved);
}

int calls_unmap(void)
{
    return cuda.unmap(calls.reserved, driver.grain);
}

int calls_make_stream(void)
{
    return cuda.stream_create(&calls.stream, CUDA_STREAM_NON_BLOCKING);
}

int calls_free_stream(void)
{
    return cuda.stream_destroy(calls.stream);
}

int calls_query(void)
{
    const int result = cuda.stream_query(driver.other_stream);
    return result == CUDA_NOT_READY ? CUDA_OK : result;
}

int calls_copy(void)
{
    return driver_move(calls.plain, runner_spare(), RUNNER_SPARE_BYTES);
}

int calls_load(void)
{
    struct cuda_module *module;
    return cuda.module_load(&module, gpu_kernels_ptx, 0, NULL, NULL);
}

int calls_ipc_open(void)
{
    return cuda.ipc_open(&calls.device, calls.handle, CUDA_IPC_ENABLE_PEER_ACCESS);
}

int calls_ipc_close(void)
{
    return further.ipc_close(calls.device);
}

int calls_import(void)
{
    return cuda.memory_import(&calls.physical, (void *)(intptr_t)calls.descriptor,
                              CUDA_MEMORY_AS_DESCRIPTOR);
}
