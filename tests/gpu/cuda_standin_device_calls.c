/* cuda_standin_device_calls.c - devices: how many there are, and what they are. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/cuda_standin_state.h"

int standin_device_count(int *count)
{
    BEGIN("cuDeviceGetCount");
    *count = standin_state.device_count;
    return CUDA_OK;
}

int standin_device_get(int *device, int number)
{
    BEGIN("cuDeviceGet");
    if (!standin_is_device(number)) return CUDA_INVALID_DEVICE;
    *device = number;
    return CUDA_OK;
}

int standin_device_name(char *name, int bytes, int device)
{
    BEGIN("cuDeviceGetName");
    if (!standin_is_device(device)) return CUDA_INVALID_DEVICE;
    snprintf(name, (size_t)bytes, "stand-in %d", device);
    return CUDA_OK;
}

int standin_device_bus(char *bus, int bytes, int device)
{
    BEGIN("cuDeviceGetPCIBusId");
    if (!standin_is_device(device)) return CUDA_INVALID_DEVICE;
    snprintf(bus, (size_t)bytes, "0000:%02X:00.0", 0xA0 + device);
    return CUDA_OK;
}

int standin_device_memory(size_t *bytes, int device)
{
    BEGIN("cuDeviceTotalMem_v2");
    if (!standin_is_device(device)) return CUDA_INVALID_DEVICE;
    *bytes = (size_t)8 << 30;
    return CUDA_OK;
}

int standin_device_attribute(int *value, int attribute, int device)
{
    BEGIN("cuDeviceGetAttribute");
    if (!standin_is_device(device)) return CUDA_INVALID_DEVICE;
    switch (attribute) {
    case CUDA_DEVICE_MULTIPROCESSOR_COUNT:
        *value = (int)standin_number_from(getenv("TUTTI_STANDIN_PROCESSORS"), 1, 256, 8);
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
