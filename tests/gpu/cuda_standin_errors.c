/* cuda_standin_errors.c - names and texts of results. */
#include "tests/gpu/cuda_standin_state.h"

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
