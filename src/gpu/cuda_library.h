/* cuda_library.h - the functions of CUDA's driver that we call, loaded when they are needed, never
 * linked.
 *
 * Declared here from their public documentation: names, values and signatures, as they have been
 * since version 11.2 of CUDA. The names that the driver's own header gives them differ from those
 * of their symbols where a second version replaced the first ("_v2").
 *
 * An object of the driver's is a pointer to a struct that nobody defines. Addresses of devices are
 * numbers of 64 bits.
 */
#ifndef TUTTI_GPU_CUDA_LIBRARY_H
#define TUTTI_GPU_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* As dlopen finds the driver of this machine. */
#define CUDA_LIBRARY_FILE "libcuda.so.1"

struct cuda_context;
struct cuda_module;
struct cuda_function;
/* NULL: the default stream of the current context, which waits for all but non-blocking streams. */
struct cuda_stream;

struct cuda_ipc_handle {
    unsigned char bytes[64];
};

/* Physical memory, which a program maps by hand; 0: none. */
typedef unsigned long long cuda_memory;

/* The owner of memory that a program maps by hand, or a device that reaches it. */
struct cuda_location {
    int type, device;
};
enum { CUDA_LOCATION_DEVICE = 1 };
/* The kind of physical memory that cuMemCreate makes: for tests. */
struct cuda_memory_kind {
    int type, handle_types;
    struct cuda_location location;
    void *security;
    unsigned char flags[8];
};
enum { CUDA_MEMORY_PINNED = 1 };
struct cuda_access {
    struct cuda_location location;
    int flags;
};
enum { CUDA_READ_AND_WRITE = 3 };
enum { CUDA_MEMORY_AS_DESCRIPTOR = 1 }; /* how it goes to other processes */

/* The results of functions. */
enum cuda_result {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_DEINITIALIZED = 4,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_IMAGE = 200,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_ECC_UNCORRECTABLE = 214,
    CUDA_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_INVALID_PTX = 218,
    CUDA_NVLINK_UNCORRECTABLE = 220,
    CUDA_CONTAINED = 226,
    CUDA_INVALID_HANDLE = 400,
    CUDA_NOT_FOUND = 500,
    CUDA_NOT_READY = 600,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_LAUNCH_TIMEOUT = 702,
    CUDA_CONTEXT_IS_DESTROYED = 709,
    CUDA_ASSERT = 710,
    CUDA_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_HARDWARE_STACK_ERROR = 714,
    CUDA_ILLEGAL_INSTRUCTION = 715,
    CUDA_MISALIGNED_ADDRESS = 716,
    CUDA_INVALID_ADDRESS_SPACE = 717,
    CUDA_INVALID_PC = 718,
    CUDA_LAUNCH_FAILED = 719,
    CUDA_TENSOR_MEMORY_LEAK = 721,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_MPS_CLIENT_TERMINATED = 810,
    CUDA_CAPTURE_UNSUPPORTED = 900,
    CUDA_CAPTURE_IMPLICIT = 906,
    CUDA_UNKNOWN = 999
};

/* The attributes that cuPointerGetAttributes tells, with the type to which each pointer must
 * point. */
enum cuda_pointer_attribute {
    CUDA_POINTER_CONTEXT = 1,     /* struct cuda_context * */
    CUDA_POINTER_MEMORY_TYPE = 2, /* unsigned: enum cuda_memory_type; 0: not known to the driver */
    CUDA_POINTER_BUFFER_ID = 7,   /* unsigned long long */
    CUDA_POINTER_IS_MANAGED = 8,  /* unsigned */
    CUDA_POINTER_DEVICE_ORDINAL = 9, /* int */
    /* For tests. */
    CUDA_POINTER_IS_LEGACY_IPC_CAPABLE = 10, /* int */
    CUDA_POINTER_RANGE_BEGIN = 11,           /* uint64_t: of the reservation */
    CUDA_POINTER_RANGE_BYTES = 12,           /* size_t */
    CUDA_POINTER_IS_MAPPED = 13,             /* int */
    CUDA_POINTER_HANDLE_TYPES = 14           /* uint64_t */
};
enum cuda_memory_type { CUDA_MEMORY_HOST = 1, CUDA_MEMORY_DEVICE = 2, CUDA_MEMORY_UNIFIED = 4 };

enum cuda_device_attribute {
    CUDA_DEVICE_MULTIPROCESSOR_COUNT = 16,
    CUDA_DEVICE_CAN_MAP_HOST_MEMORY = 19,
    CUDA_DEVICE_UNIFIED_ADDRESSING = 41,
    CUDA_DEVICE_CAPABILITY_MAJOR = 75,
    CUDA_DEVICE_CAPABILITY_MINOR = 76,
    CUDA_DEVICE_MAPS_BY_HAND = 102,
    CUDA_DEVICE_EXPORTS_DESCRIPTORS = 103
};

enum cuda_function_attribute { CUDA_FUNCTION_MAX_THREADS = 0 }; /* of a block */
enum cuda_jit_option { CUDA_JIT_ERROR_LOG = 5, CUDA_JIT_ERROR_LOG_BYTES = 6 };

enum cuda_stream_flag { CUDA_STREAM_NON_BLOCKING = 1 };
enum cuda_capture_status {
    CUDA_CAPTURE_NONE = 0,
    CUDA_CAPTURE_ACTIVE = 1,
    CUDA_CAPTURE_INVALIDATED = 2
};
enum cuda_capture_mode {
    CUDA_CAPTURE_GLOBAL = 0,
    CUDA_CAPTURE_THREAD_LOCAL = 1,
    CUDA_CAPTURE_RELAXED = 2
};
/* Flags for memory of the host: all contexts may use it, and devices reach it. */
enum cuda_host_flag { CUDA_HOST_PORTABLE = 1, CUDA_HOST_DEVICE_MAP = 2 };
enum cuda_ipc_flag { CUDA_IPC_ENABLE_PEER_ACCESS = 1 };

/* X(slot, symbol, parameters): all return enum cuda_result, as an int. A device is an int that
 * cuDeviceGet makes of its number. */
#define CUDA_FUNCTION_LIST(X)                                                                        \
    X(init, "cuInit", (unsigned flags))                                                              \
    X(error_name, "cuGetErrorName", (int result, const char **name))                                 \
    X(error_text, "cuGetErrorString", (int result, const char **text))                               \
    X(device_count, "cuDeviceGetCount", (int *count))                                                \
    X(device_get, "cuDeviceGet", (int *device, int number))                                          \
    X(device_name, "cuDeviceGetName", (char *name, int bytes, int device))                           \
    X(device_bus, "cuDeviceGetPCIBusId", (char *bus, int bytes, int device))                         \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                            \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))             \
    X(primary_retain, "cuDevicePrimaryCtxRetain", (struct cuda_context * *context, int device))      \
    X(primary_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                 \
    X(context_push, "cuCtxPushCurrent_v2", (struct cuda_context * context))                          \
    X(context_pop, "cuCtxPopCurrent_v2", (struct cuda_context * *context))                           \
    X(context_device, "cuCtxGetDevice", (int *device))                                               \
    X(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                       \
    X(module_load, "cuModuleLoadDataEx",                                                             \
      (struct cuda_module * *module, const void *image, unsigned option_count, int *options,         \
       void **values))                                                                               \
    X(module_unload, "cuModuleUnload", (struct cuda_module * module))                                \
    X(module_function, "cuModuleGetFunction",                                                        \
      (struct cuda_function * *function, struct cuda_module * module, const char *name))             \
    X(function_attribute, "cuFuncGetAttribute",                                                      \
      (int *value, int attribute, struct cuda_function *function))                                   \
    X(launch, "cuLaunchKernel",                                                                      \
      (struct cuda_function * function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,     \
       unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,            \
       struct cuda_stream *stream, void **parameters, void **extra))                                 \
    X(pointer_attributes, "cuPointerGetAttributes",                                                  \
      (unsigned count, int *attributes, void **values, uint64_t address))                            \
    X(allocate, "cuMemAlloc_v2", (uint64_t * address, size_t bytes))                                 \
    X(release, "cuMemFree_v2", (uint64_t address))                                                   \
    X(address_range, "cuMemGetAddressRange_v2",                                                      \
      (uint64_t * base, size_t * bytes, uint64_t address))                                           \
    X(host_allocate, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned flags))                \
    X(host_release, "cuMemFreeHost", (void *memory))                                                 \
    X(host_device_pointer, "cuMemHostGetDevicePointer_v2",                                           \
      (uint64_t * address, void *memory, unsigned flags))                                            \
    X(ipc_export, "cuIpcGetMemHandle", (struct cuda_ipc_handle * handle, uint64_t address))          \
    X(ipc_open, "cuIpcOpenMemHandle_v2",                                                             \
      (uint64_t * address, struct cuda_ipc_handle handle, unsigned flags))                           \
    X(memory_retain, "cuMemRetainAllocationHandle", (cuda_memory * memory, void *address))           \
    X(memory_release, "cuMemRelease", (cuda_memory memory))                                          \
    X(memory_export, "cuMemExportToShareableHandle",                                                 \
      (void *descriptor, cuda_memory memory, int type, unsigned long long flags))                    \
    X(memory_import, "cuMemImportFromShareableHandle",                                               \
      (cuda_memory * memory, void *descriptor, int type))                                            \
    X(address_reserve, "cuMemAddressReserve",                                                        \
      (uint64_t * address, size_t bytes, size_t alignment, uint64_t wish, unsigned long long flags)) \
    X(address_free, "cuMemAddressFree", (uint64_t address, size_t bytes))                            \
    X(map, "cuMemMap",                                                                               \
      (uint64_t address, size_t bytes, size_t offset, cuda_memory memory, unsigned long long flags)) \
    X(unmap, "cuMemUnmap", (uint64_t address, size_t bytes))                                         \
    X(set_access, "cuMemSetAccess",                                                                  \
      (uint64_t address, size_t bytes, const struct cuda_access *access, size_t count))              \
    X(stream_create, "cuStreamCreate", (struct cuda_stream * *stream, unsigned flags))               \
    X(stream_destroy, "cuStreamDestroy_v2", (struct cuda_stream * stream))                           \
    X(stream_context, "cuStreamGetCtx",                                                              \
      (struct cuda_stream * stream, struct cuda_context * *context))                                 \
    X(stream_is_capturing, "cuStreamIsCapturing", (struct cuda_stream * stream, int *status))        \
    X(stream_query, "cuStreamQuery", (struct cuda_stream * stream))                                  \
    X(copy, "cuMemcpyAsync",                                                                         \
      (uint64_t destination, uint64_t source, size_t bytes, struct cuda_stream * stream))            \
    X(allocate_later, "cuMemAllocAsync",                                                             \
      (uint64_t * address, size_t bytes, struct cuda_stream * stream))

struct cuda_library {
#define CUDA_SLOT(slot, symbol, parameters) int(*slot) parameters;
    CUDA_FUNCTION_LIST(CUDA_SLOT)
#undef CUDA_SLOT
};

/* Fills the table from that file, as dlopen finds it; file NULL: from libcuda.so.1, and only if
 * this process has loaded it already. The file stays loaded. is_there false, and OK: file is NULL,
 * and the process has not loaded it. INVALID_OPTIONS: there is no such file, or it lacks a
 * function; the message names both. Calls nothing of the file. Any thread; blocks. */
enum tutti_status cuda_library_load(const char *file, struct cuda_library *library, bool *is_there);

#endif
