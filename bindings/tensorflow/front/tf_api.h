/* tf_api.h - what the kernels use of TensorFlow's C API: found in the TensorFlow that the process
 * has loaded, so that nothing of TensorFlow is needed to compile this. The C API keeps its binary
 * interface from version to version, its C++ one does not.
 *
 * Types are opaque; numbers of dtypes and codes are those of TensorFlow's protocols, which never
 * change.
 */
#ifndef TUTTI_TENSORFLOW_TF_API_H
#define TUTTI_TENSORFLOW_TF_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tf_status;
struct tf_tensor;
struct tf_builder;
struct tf_construction;
struct tf_context;
struct tf_done;

/* Bytes that TensorFlow gives or takes. TF_DeleteBuffer frees what TF_NewBuffer made. */
struct tf_buffer {
    const void *data;
    size_t bytes;
    void (*deallocate)(void *data, size_t bytes);
};

enum tf_dtype {
    TF_DTYPE_FLOAT = 1,
    TF_DTYPE_DOUBLE = 2,
    TF_DTYPE_INT32 = 3,
    TF_DTYPE_INT64 = 9,
    TF_DTYPE_BOOL = 10,
    TF_DTYPE_BFLOAT16 = 14,
    TF_DTYPE_HALF = 19,
    TF_DTYPE_RESOURCE = 20
};

enum tf_code {
    TF_CODE_OK = 0,
    TF_CODE_CANCELLED = 1,
    TF_CODE_INVALID_ARGUMENT = 3,
    TF_CODE_DEADLINE_EXCEEDED = 4,
    TF_CODE_ALREADY_EXISTS = 6,
    TF_CODE_RESOURCE_EXHAUSTED = 8,
    TF_CODE_FAILED_PRECONDITION = 9,
    TF_CODE_UNIMPLEMENTED = 12,
    TF_CODE_INTERNAL = 13,
    TF_CODE_UNAVAILABLE = 14
};

typedef void *tf_create(struct tf_construction *);
typedef void tf_compute(void *kernel, struct tf_context *, struct tf_done *);
typedef void tf_delete(void *kernel);

/* X(member, name, result, arguments) */
#define TF_API(X)                                                                                  \
    X(new_status, "TF_NewStatus", struct tf_status *, (void))                                      \
    X(delete_status, "TF_DeleteStatus", void, (struct tf_status *))                                \
    X(set_status, "TF_SetStatus", void, (struct tf_status *, int code, const char *text))          \
    X(get_code, "TF_GetCode", int, (const struct tf_status *))                                     \
    X(message, "TF_Message", const char *, (const struct tf_status *))                             \
    X(delete_tensor, "TF_DeleteTensor", void, (struct tf_tensor *))                                \
    X(tensor_type, "TF_TensorType", int, (const struct tf_tensor *))                               \
    X(num_dims, "TF_NumDims", int, (const struct tf_tensor *))                                     \
    X(dim, "TF_Dim", int64_t, (const struct tf_tensor *, int dimension))                           \
    X(byte_size, "TF_TensorByteSize", size_t, (const struct tf_tensor *))                          \
    X(data, "TF_TensorData", void *, (const struct tf_tensor *))                                   \
    X(element_count, "TF_TensorElementCount", int64_t, (const struct tf_tensor *))                 \
    X(new_builder, "TF_NewAsyncKernelBuilder", struct tf_builder *,                                \
      (const char *operation, const char *device, tf_create *, tf_compute *, tf_delete *))         \
    X(priority, "TF_KernelBuilder_Priority", void, (struct tf_builder *, int32_t))                 \
    X(register_builder, "TF_RegisterKernelBuilder", void,                                          \
      (const char *name, struct tf_builder *, struct tf_status *))                                 \
    X(attribute_size, "TF_OpKernelConstruction_GetAttrSize", void,                                 \
      (struct tf_construction *, const char *name, int32_t *count, int32_t *bytes,                 \
       struct tf_status *))                                                                        \
    X(attribute_string, "TF_OpKernelConstruction_GetAttrString", void,                             \
      (struct tf_construction *, const char *name, char *value, size_t bytes, struct tf_status *)) \
    X(attribute_float, "TF_OpKernelConstruction_GetAttrFloat", void,                               \
      (struct tf_construction *, const char *name, float *value, struct tf_status *))              \
    X(node_def, "TF_OpKernelConstruction_GetNodeDef", struct tf_buffer *,                          \
      (struct tf_construction *, struct tf_status *))                                              \
    X(new_buffer, "TF_NewBuffer", struct tf_buffer *, (void))                                      \
    X(delete_buffer, "TF_DeleteBuffer", void, (struct tf_buffer *))                                \
    X(allocate_tensor, "TF_AllocateTensor", struct tf_tensor *,                                    \
      (int dtype, const int64_t *dimensions, int count, size_t bytes))                             \
    X(parse_tensor, "TF_TensorFromProto", void,                                                    \
      (const struct tf_buffer *, struct tf_tensor *, struct tf_status *))                          \
    X(set_output, "TF_SetOutput", void,                                                            \
      (struct tf_context *, int i, const struct tf_tensor *, struct tf_status *))                  \
    X(get_handle, "TF_GetSerializedResourceHandleProto", void,                                     \
      (struct tf_context *, int i, struct tf_buffer *, struct tf_status *))                        \
    X(fail_construction, "TF_OpKernelConstruction_Failure", void,                                  \
      (struct tf_construction *, struct tf_status *))                                              \
    X(get_input, "TF_GetInput", void,                                                              \
      (struct tf_context *, int i, struct tf_tensor **, struct tf_status *))                       \
    X(expected_output, "TF_ExpectedOutputDataType", int, (struct tf_context *, int i))             \
    X(allocate_output, "TF_AllocateOutput", struct tf_tensor *,                                    \
      (struct tf_context *, int i, int dtype, const int64_t *dimensions, int count, size_t bytes,  \
       struct tf_status *))                                                                        \
    X(forward_input, "TF_ForwardInputOrAllocateOutput", struct tf_tensor *,                        \
      (struct tf_context *, const int *inputs, int input_count, int output,                        \
       const int64_t *dimensions, int count, int *forwarded, struct tf_status *))                  \
    X(fail, "TF_OpKernelContext_Failure", void, (struct tf_context *, struct tf_status *))         \
    X(done, "TF_RunAsyncOpKernelDoneCallback", void, (struct tf_done *))

#define X(member, name, result, arguments) typedef result tf_##member##_function arguments;
TF_API(X)
#undef X

struct tf_api {
#define X(member, name, result, arguments) tf_##member##_function *member;
    TF_API(X)
#undef X
};

#endif
