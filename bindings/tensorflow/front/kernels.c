/* kernels.c - TensorFlow's collective operations on CPUs, done by Tutti. TensorFlow takes these
 * kernels instead of its own because they have a higher priority; which ranks take part, and when,
 * is the service's matter (service.h).
 *
 *     CollectiveReduceV2         input, group_size, group_key, instance_key ──► allreduce
 *     CollectiveGatherV2         the same ──► allgather along the first dimension
 *     CollectiveReduceScatterV2  the same ──► reduce_scatter along the first dimension
 *     CollectiveAllToAllV2       the same ──► alltoall along the first dimension
 *     CollectiveBcastSendV2      the same ──► broadcast, as its root
 *     CollectiveBcastRecvV2      group_size, group_key, instance_key, shape ──► broadcast
 *
 *     CollectiveInitializeCommunicator  group_key, rank, group_size ──► a handle (communicators.h)
 *     CollectiveReduceV3                input, handle, no group_assignment ──► allreduce
 *     CollectiveAllToAllV3              the same ──► alltoall along the first dimension
 *
 * CollectiveAssignGroupV2, which makes a group's key from a table, is TensorFlow's own kernel: it
 * says nothing to other ranks.
 *
 * Kernels are asynchronous: a computation holds its tensors until Tutti has given them back, and no
 * thread of TensorFlow waits.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/communicators.h"
#include "front/done.h"
#include "front/proto.h"
#include "front/service.h"
#include "front/tf_api.h"

#define EXPORT __attribute__((visibility("default")))

enum { DIMENSIONS_MAX = 254, NAME_SIZE = 32, DEVICE_SIZE = 192, MESSAGE_SIZE = 512 };

static const char CONTAINER[] = "tutti"; /* of the handles of communicators */

static struct tf_api tf;
static uint64_t default_timeout_ns;

struct operation {
    const char *name;
    enum service_kind kind;
    bool reduces, sends, receives; /* sends, receives: of a broadcast */
    bool has_communicator;         /* and no keys */
};

static const struct operation operations[] = {
    {.name = "CollectiveReduceV2", .kind = SERVICE_ALLREDUCE, .reduces = true},
    {.name = "CollectiveGatherV2", .kind = SERVICE_ALLGATHER},
    {.name = "CollectiveReduceScatterV2", .kind = SERVICE_REDUCE_SCATTER, .reduces = true},
    {.name = "CollectiveAllToAllV2", .kind = SERVICE_ALLTOALL},
    {.name = "CollectiveBcastSendV2", .kind = SERVICE_BROADCAST, .sends = true},
    {.name = "CollectiveBcastRecvV2", .kind = SERVICE_BROADCAST, .receives = true},
    {.name = "CollectiveInitializeCommunicator", .kind = SERVICE_GROUP},
    {.name = "CollectiveReduceV3",
     .kind = SERVICE_ALLREDUCE,
     .reduces = true,
     .has_communicator = true},
    {.name = "CollectiveAllToAllV3", .kind = SERVICE_ALLTOALL, .has_communicator = true},
};
enum { OPERATION_COUNT = sizeof operations / sizeof *operations };

static const struct dtype {
    enum tf_dtype tf;
    const char *name;
    enum tutti_dtype tutti; /* in which it is reduced */
    size_t bytes;
    bool reduces;
} dtypes[] = {
    {TF_DTYPE_FLOAT, "float32", TUTTI_FLOAT32, 4, true},
    {TF_DTYPE_DOUBLE, "float64", TUTTI_FLOAT64, 8, true},
    {TF_DTYPE_HALF, "float16", TUTTI_FLOAT16, 2, true},
    {TF_DTYPE_BFLOAT16, "bfloat16", TUTTI_BFLOAT16, 2, true},
    {TF_DTYPE_INT32, "int32", TUTTI_INT32, 4, true},
    {TF_DTYPE_INT64, "int64", TUTTI_INT64, 8, true},
    {TF_DTYPE_BOOL, "bool", TUTTI_UINT8, 1, false},
};

static const struct dtype *find_dtype(int number)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if ((int)dtypes[i].tf == number) return &dtypes[i];
    return NULL;
}

/* A node of a graph. */
struct kernel {
    const struct operation *operation;
    tutti_op op;
    const char *op_name;
    uint64_t timeout_ns;      /* 0: the graph says none */
    char device[DEVICE_SIZE]; /* of a CollectiveInitializeCommunicator */
};

/* One computation of a node. */
struct computation {
    struct service_call call; /* first: the service gives this back */
    const struct kernel *kernel;
    struct tf_context *context;
    struct done done;
    struct tf_tensor *input, *output;
};

/* --------------------------------------------------------------------------------- construction */

/* An attribute that is a short text; false: *status says why not. */
static bool read_text(struct tf_construction *construction, const char *name, char *text,
                      struct tf_status *status)
{
    int32_t count, bytes;
    text[0] = '\0';
    tf.attribute_size(construction, name, &count, &bytes, status);
    if (tf.get_code(status) != TF_CODE_OK) return false;
    if (bytes < 0 || bytes >= NAME_SIZE) {
        tf.set_status(status, TF_CODE_INVALID_ARGUMENT, "Tutti: a name is too long");
        return false;
    }
    tf.attribute_string(construction, name, text, NAME_SIZE, status);
    text[bytes] = '\0'; /* TensorFlow does not end it */
    return tf.get_code(status) == TF_CODE_OK;
}

/* Which reduction merge_op and final_op make, or a communicator's `reduction`; false: *status says
 * that Tutti has none. */
static bool read_reduction(struct tf_construction *construction, struct kernel *kernel,
                           struct tf_status *status)
{
    char merge[NAME_SIZE], final[NAME_SIZE] = "Id", text[160];
    const bool has_one = kernel->operation->has_communicator;
    if (!read_text(construction, has_one ? "reduction" : "merge_op", merge, status) ||
        (!has_one && !read_text(construction, "final_op", final, status)))
        return false;
    static const struct {
        const char *merge, *final, *name;
        tutti_op op;
    } reductions[] = {{"Add", "Id", "sum", TUTTI_SUM},
                      {"Add", "Div", "avg", TUTTI_AVG},
                      {"Mul", "Id", "prod", TUTTI_PROD},
                      {"Min", "Id", "min", TUTTI_MIN},
                      {"Max", "Id", "max", TUTTI_MAX}};
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (strcmp(reductions[i].merge, merge) == 0 && strcmp(reductions[i].final, final) == 0) {
            kernel->op = reductions[i].op;
            kernel->op_name = reductions[i].name;
            return true;
        }
    snprintf(text, sizeof text, "Tutti has no reduction with merge_op %s and final_op %s", merge,
             final);
    tf.set_status(status, TF_CODE_UNIMPLEMENTED, text);
    return false;
}

/* The device of the node, which the handle of a communicator must name. */
static bool read_device(struct tf_construction *construction, struct kernel *kernel,
                        struct tf_status *status)
{
    enum { FIELD_DEVICE = 4 }; /* of a NodeDef */
    struct tf_buffer *const node = tf.node_def(construction, status);
    if (tf.get_code(status) != TF_CODE_OK) return false;
    const bool is_known =
        proto_get(node->data, node->bytes, FIELD_DEVICE, kernel->device, sizeof kernel->device) &&
        kernel->device[0] != '\0';
    tf.delete_buffer(node);
    if (!is_known)
        tf.set_status(status, TF_CODE_INTERNAL, "Tutti: TensorFlow does not say on which device");
    return is_known;
}

static void *create(struct tf_construction *construction, const struct operation *operation)
{
    struct tf_status *const status = tf.new_status();
    struct kernel *kernel = calloc(1, sizeof *kernel);
    float seconds = 0;
    if (kernel == NULL) {
        tf.set_status(status, TF_CODE_RESOURCE_EXHAUSTED, "Tutti: out of memory");
        goto failed;
    }
    kernel->operation = operation;
    kernel->op_name = "";
    tf.attribute_float(construction, "timeout_seconds", &seconds, status);
    if (tf.get_code(status) != TF_CODE_OK) goto failed;
    if (seconds > 0 && seconds < 1e9f) kernel->timeout_ns = (uint64_t)((double)seconds * 1e9);
    if (operation->reduces && !read_reduction(construction, kernel, status)) goto failed;
    if (operation->kind == SERVICE_GROUP && !read_device(construction, kernel, status)) goto failed;
    tf.delete_status(status);
    return kernel;
failed:
    tf.fail_construction(construction, status);
    tf.delete_status(status);
    free(kernel);
    return NULL;
}

static void delete_kernel(void *kernel)
{
    free(kernel);
}

/* ---------------------------------------------------------------------------------- computation */

static enum tf_code code_of(enum tutti_status status)
{
    switch (status) {
    case TUTTI_OK: return TF_CODE_OK;
    case TUTTI_TIMEOUT:
    case TUTTI_INIT_TIMEOUT: return TF_CODE_DEADLINE_EXCEEDED;
    case TUTTI_ABORTED: return TF_CODE_CANCELLED;
    case TUTTI_MISMATCH:
    case TUTTI_DESYNC: return TF_CODE_INVALID_ARGUMENT;
    case TUTTI_NO_MEMORY:
    case TUTTI_NO_SPACE:
    case TUTTI_NO_DESCRIPTORS: return TF_CODE_RESOURCE_EXHAUSTED;
    case TUTTI_UNSUPPORTED: return TF_CODE_UNIMPLEMENTED;
    case TUTTI_PROC_FAILED:
    case TUTTI_MINORITY:
    case TUTTI_EXCLUDED:
    case TUTTI_REVOKED: return TF_CODE_UNAVAILABLE;
    case TUTTI_IN_PROGRESS:
    case TUTTI_INVALID_COMM:
    case TUTTI_INVALID_BUFFER:
    case TUTTI_INVALID_COUNT:
    case TUTTI_INVALID_DTYPE:
    case TUTTI_INVALID_OP:
    case TUTTI_INVALID_ROOT:
    case TUTTI_INVALID_RANK:
    case TUTTI_INVALID_OPTIONS:
    case TUTTI_INVALID_REQUEST:
    case TUTTI_INVALID_ALGORITHM:
    case TUTTI_AUTH_FAILED:
    case TUTTI_VERSION:
    case TUTTI_SYSTEM:
    case TUTTI_INTERNAL:
    case TUTTI_INVALID_TAG:
    case TUTTI_TRUNCATED:
    case TUTTI_UNEXPECTED_FULL:
    case TUTTI_CORRUPT: break;
    }
    return TF_CODE_INTERNAL;
}

/* Ends a computation, with the status if it is not OK, and frees it. */
static void end(struct computation *computation, int code, const char *text)
{
    if (code != TF_CODE_OK) {
        struct tf_status *const status = tf.new_status();
        tf.set_status(status, code, text);
        tf.fail(computation->context, status);
        tf.delete_status(status);
    }
    if (computation->input != NULL) tf.delete_tensor(computation->input);
    if (computation->output != NULL) tf.delete_tensor(computation->output);
    struct done done = computation->done;
    free(computation);
    done_call(&done);
}

/* Makes the handle of a communicator the output: a scalar tensor of one ResourceHandleProto. */
static bool put_handle(struct computation *computation, const char *name, struct tf_status *status)
{
    enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_HANDLE = 14 }; /* TensorProto */
    enum { HANDLE_DEVICE = 1, HANDLE_CONTAINER = 2, HANDLE_NAME = 3, HANDLE_TYPE = 5 };
    const char *const device = computation->kernel->device;
    char handle[MESSAGE_SIZE], message[MESSAGE_SIZE + 64];
    size_t handle_bytes = 0, bytes = 0;
    const bool fits =
        proto_put(handle, sizeof handle, &handle_bytes, HANDLE_DEVICE, device, strlen(device)) &&
        proto_put(handle, sizeof handle, &handle_bytes, HANDLE_CONTAINER, CONTAINER,
                  strlen(CONTAINER)) &&
        proto_put(handle, sizeof handle, &handle_bytes, HANDLE_NAME, name, strlen(name)) &&
        proto_put(handle, sizeof handle, &handle_bytes, HANDLE_TYPE, CONTAINER, strlen(CONTAINER)) &&
        proto_put_number(message, sizeof message, &bytes, TENSOR_DTYPE, TF_DTYPE_RESOURCE) &&
        proto_put(message, sizeof message, &bytes, TENSOR_SHAPE, NULL, 0) &&
        proto_put(message, sizeof message, &bytes, TENSOR_HANDLE, handle, handle_bytes);
    struct tf_tensor *const tensor = tf.allocate_tensor(TF_DTYPE_RESOURCE, NULL, 0, 0);
    if (!fits || tensor == NULL) {
        tf.set_status(status, TF_CODE_INTERNAL, "Tutti: no room for a communicator's handle");
    } else {
        const struct tf_buffer buffer = {.data = message, .bytes = bytes};
        tf.parse_tensor(&buffer, tensor, status);
        if (tf.get_code(status) == TF_CODE_OK)
            tf.set_output(computation->context, 0, tensor, status);
    }
    if (tensor != NULL) tf.delete_tensor(tensor);
    return tf.get_code(status) == TF_CODE_OK;
}

/* The group is made, or has failed. If the handle of a group that is made is wrong, *status says
 * how. */
static void end_group(struct computation *computation, enum tutti_status made,
                      struct tf_status *status)
{
    const struct order_report *const report = &computation->call.report;
    char name[COMMUNICATORS_NAME_MAX];
    if (made == TUTTI_OK) {
        communicators_made(report->key.group, report->group_size, computation->kernel->timeout_ns,
                           name);
        if (put_handle(computation, name, status)) return;
    }
    communicators_failed(report->key.group);
}

static void is_done(struct service_call *call, enum tutti_status status, const char *text)
{
    struct computation *const computation = (struct computation *)call;
    char whole[1200] = "";
    int code = code_of(status);
    if (status != TUTTI_OK)
        snprintf(whole, sizeof whole, "Tutti: %s: %s", tutti_status_name(status), text);
    if (call->kind == SERVICE_GROUP) {
        struct tf_status *const of_handle = tf.new_status();
        end_group(computation, status, of_handle);
        if (status == TUTTI_OK) {
            code = tf.get_code(of_handle);
            snprintf(whole, sizeof whole, "%s", tf.message(of_handle));
        }
        tf.delete_status(of_handle);
    }
    end(computation, code, whole);
}

/* The number in an input of one int32; false: *status says what is wrong. */
static bool read_number(struct tf_context *context, int input, int32_t *number,
                        struct tf_status *status)
{
    struct tf_tensor *tensor = NULL;
    tf.get_input(context, input, &tensor, status);
    if (tf.get_code(status) != TF_CODE_OK) return false;
    const bool is_right = tf.tensor_type(tensor) == TF_DTYPE_INT32 && tf.element_count(tensor) == 1;
    if (is_right)
        memcpy(number, tf.data(tensor), sizeof *number);
    else
        tf.set_status(status, TF_CODE_INVALID_ARGUMENT,
                      "Tutti: sizes, ranks and keys of groups are int32 scalars");
    tf.delete_tensor(tensor);
    return is_right;
}

/* Adds "[2,3]". */
static void describe_shape(char *text, size_t text_size, const int64_t *dimensions, int count)
{
    size_t length = strlen(text);
    for (int i = 0; i < count && length + 24 < text_size; i++)
        length += (size_t)snprintf(text + length, text_size - length, "%s%lld", i > 0 ? "," : "[",
                                   (long long)dimensions[i]);
    snprintf(text + length, text_size - length, "%s", count > 0 ? "]" : "[]");
}

/* The shape that CollectiveBcastRecvV2 is to receive; the number of dimensions, or -1. */
static int read_shape(struct tf_context *context, int64_t *dimensions, struct tf_status *status)
{
    struct tf_tensor *tensor = NULL;
    tf.get_input(context, 3, &tensor, status);
    if (tf.get_code(status) != TF_CODE_OK) return -1;
    const int64_t count = tf.element_count(tensor);
    const int type = tf.tensor_type(tensor);
    int result = -1;
    if (count >= 0 && count <= DIMENSIONS_MAX && (type == TF_DTYPE_INT32 || type == TF_DTYPE_INT64)) {
        result = (int)count;
        for (int i = 0; i < result; i++) {
            dimensions[i] = type == TF_DTYPE_INT32 ? ((const int32_t *)tf.data(tensor))[i]
                                                   : ((const int64_t *)tf.data(tensor))[i];
            if (dimensions[i] < 0) result = -1;
        }
    }
    if (result < 0) tf.set_status(status, TF_CODE_INVALID_ARGUMENT, "Tutti: this is no shape");
    tf.delete_tensor(tensor);
    return result;
}

/* The bytes of such a tensor; false: it is too large. */
static bool size_of(const struct dtype *dtype, const int64_t *dimensions, int count,
                    size_t *elements)
{
    size_t bytes = dtype->bytes;
    *elements = 1;
    for (int i = 0; i < count; i++) {
        if (__builtin_mul_overflow(bytes, (size_t)dimensions[i], &bytes)) return false;
        *elements *= (size_t)dimensions[i];
    }
    return bytes <= INT64_MAX;
}

/* The keys of an operation on a communicator. */
static bool read_communicator(struct tf_context *context, struct order_report *report,
                              uint64_t own_timeout_ns, struct tf_status *status)
{
    enum { HANDLE = 1, GROUP_ASSIGNMENT = 2 };      /* inputs */
    enum { HANDLE_CONTAINER = 2, HANDLE_NAME = 3 }; /* fields of a ResourceHandleProto */
    char container[sizeof CONTAINER], name[COMMUNICATORS_NAME_MAX];
    struct communicator_turn turn;
    struct tf_buffer *const handle = tf.new_buffer();
    tf.get_handle(context, HANDLE, handle, status);
    bool is_known = tf.get_code(status) == TF_CODE_OK;
    if (is_known) {
        is_known =
            proto_get(handle->data, handle->bytes, HANDLE_CONTAINER, container, sizeof container) &&
            strcmp(container, CONTAINER) == 0 &&
            proto_get(handle->data, handle->bytes, HANDLE_NAME, name, sizeof name) &&
            communicators_next(name, &turn);
        if (!is_known)
            tf.set_status(
                status, TF_CODE_FAILED_PRECONDITION,
                "Tutti: this communicator was made before tutti_tensorflow was enabled or "
                "disabled, or by the parent of this process");
    }
    tf.delete_buffer(handle);
    if (!is_known) return false;
    /* From here on this is a turn of the communicator's, also if it fails. */
    struct tf_tensor *assignment = NULL;
    tf.get_input(context, GROUP_ASSIGNMENT, &assignment, status);
    if (tf.get_code(status) != TF_CODE_OK) return false;
    const bool has_assignment = tf.element_count(assignment) != 0;
    tf.delete_tensor(assignment);
    if (has_assignment) {
        tf.set_status(status, TF_CODE_UNIMPLEMENTED,
                      "Tutti: no group_assignment is supported, as in TensorFlow: make a "
                      "communicator for each group");
        return false;
    }
    report->key = (struct order_key){turn.group, turn.instance, true};
    report->group_size = turn.group_size;
    if (own_timeout_ns == 0 && turn.timeout_ns > 0) report->timeout_ns = turn.timeout_ns;
    return true;
}

/* Fills the call of a CollectiveInitializeCommunicator. From then on the group's communicator is
 * being made. */
static bool prepare_group(struct computation *computation, struct tf_status *status)
{
    struct order_report *const report = &computation->call.report;
    char text[160];
    if (!read_number(computation->context, 0, &report->key.group, status) ||
        !read_number(computation->context, 1, &report->place, status) ||
        !read_number(computation->context, 2, &report->group_size, status))
        return false;
    if (report->group_size < 1 || report->place < 0 || report->place >= report->group_size) {
        snprintf(text, sizeof text, "Tutti: rank %d of a communicator of %d", report->place,
                 report->group_size);
        tf.set_status(status, TF_CODE_INVALID_ARGUMENT, text);
        return false;
    }
    report->key.has_communicator = report->has_place = true;
    snprintf(report->what, sizeof report->what, "%s", computation->kernel->operation->name);
    if (!communicators_begin(report->key.group)) {
        snprintf(text, sizeof text, "Tutti: group %d has a communicator already; a group has one",
                 report->key.group);
        tf.set_status(status, TF_CODE_ALREADY_EXISTS, text);
        return false;
    }
    return true;
}

/* Fills the call's buffers and counts, and allocates the output. False: *status says why not. */
static bool prepare(struct computation *computation, const struct kernel *kernel,
                    struct tf_status *status)
{
    const struct operation *const operation = kernel->operation;
    struct service_call *const call = &computation->call;
    struct order_report *const report = &call->report;
    int64_t dimensions[DIMENSIONS_MAX];
    int count = 0, first = 1;
    if (operation->receives) {
        first = 0;
        count = read_shape(computation->context, dimensions, status);
        if (count < 0) return false;
    } else {
        tf.get_input(computation->context, 0, &computation->input, status);
        if (tf.get_code(status) != TF_CODE_OK) return false;
        count = tf.num_dims(computation->input);
        for (int i = 0; i < count; i++) dimensions[i] = tf.dim(computation->input, i);
    }
    if (!operation->has_communicator &&
        (!read_number(computation->context, first, &report->group_size, status) ||
         !read_number(computation->context, first + 1, &report->key.group, status) ||
         !read_number(computation->context, first + 2, &report->key.instance, status)))
        return false;
    if (operation->has_communicator &&
        !read_communicator(computation->context, report, kernel->timeout_ns, status))
        return false;
    const struct dtype *const dtype = find_dtype(tf.expected_output(computation->context, 0));
    size_t elements;
    if (dtype == NULL || (operation->reduces && !dtype->reduces)) {
        tf.set_status(status, TF_CODE_UNIMPLEMENTED, "Tutti has no such collective of this dtype");
        return false;
    }
    if (report->group_size < 1 || !size_of(dtype, dimensions, count, &elements)) {
        tf.set_status(status, TF_CODE_INVALID_ARGUMENT,
                      "Tutti: group_size is below 1, or the tensor is too large");
        return false;
    }
    /* The text that all members must have alike. */
    snprintf(report->what, sizeof report->what, "%s %s%s%s ",
             operation->sends || operation->receives ? "CollectiveBcastV2" : operation->name,
             kernel->op_name, kernel->op_name[0] != '\0' ? " " : "", dtype->name);
    describe_shape(report->what, sizeof report->what, dimensions, count);

    const bool splits = call->kind == SERVICE_REDUCE_SCATTER || call->kind == SERVICE_ALLTOALL;
    if (call->kind != SERVICE_ALLREDUCE && call->kind != SERVICE_BROADCAST && count < 1) {
        tf.set_status(status, TF_CODE_INVALID_ARGUMENT, "Tutti: a scalar has no first dimension");
        return false;
    }
    if (splits && dimensions[0] % report->group_size != 0) {
        tf.set_status(status, TF_CODE_INVALID_ARGUMENT,
                      "Tutti: the first dimension cannot be divided by the group's size");
        return false;
    }
    if (call->kind == SERVICE_ALLGATHER &&
        __builtin_mul_overflow(dimensions[0], (int64_t)report->group_size, &dimensions[0])) {
        tf.set_status(status, TF_CODE_INVALID_ARGUMENT, "Tutti: the result is too large");
        return false;
    }
    if (call->kind == SERVICE_REDUCE_SCATTER) dimensions[0] /= report->group_size;
    size_t result;
    if (!size_of(dtype, dimensions, count, &result)) {
        tf.set_status(status, TF_CODE_INVALID_ARGUMENT, "Tutti: the result is too large");
        return false;
    }
    const int forwarded = 0;
    int which = -1;
    if (call->kind == SERVICE_ALLREDUCE || operation->sends)
        computation->output = tf.forward_input(computation->context, &forwarded, 1, 0, dimensions,
                                               count, &which, status);
    else
        computation->output = tf.allocate_output(computation->context, 0, (int)dtype->tf,
                                                 dimensions, count, result * dtype->bytes, status);
    if (tf.get_code(status) != TF_CODE_OK) return false;

    call->recv = tf.data(computation->output);
    call->send = operation->receives ? call->recv : tf.data(computation->input);
    if (operation->sends && call->send != call->recv && elements > 0)
        memcpy(call->recv, call->send, elements * dtype->bytes);
    if (operation->reduces) {
        call->dtype = dtype->tutti;
        call->count = call->kind == SERVICE_REDUCE_SCATTER ? result : elements;
    } else { /* only moved */
        call->dtype = TUTTI_UINT8;
        call->count = elements * dtype->bytes;
        if (call->kind == SERVICE_ALLTOALL) call->count /= (size_t)report->group_size;
    }
    return true;
}

static void compute(void *node, struct tf_context *context, struct tf_done *done)
{
    const struct kernel *const kernel = node;
    struct computation *const computation = calloc(1, sizeof *computation);
    struct tf_status *const status = tf.new_status();
    if (computation == NULL) {
        tf.set_status(status, TF_CODE_RESOURCE_EXHAUSTED, "Tutti: out of memory");
        tf.fail(context, status);
        tf.delete_status(status);
        tf.done(done);
        return;
    }
    const struct operation *const operation = kernel->operation;
    *computation = (struct computation){
        .call = {.kind = operation->kind,
                 .op = kernel->op,
                 .report = {.root = operation->sends      ? ORDER_ROOT
                                    : operation->receives ? ORDER_NOT_ROOT
                                                          : ORDER_NO_ROOT,
                            .timeout_ns =
                                kernel->timeout_ns > 0 ? kernel->timeout_ns : default_timeout_ns},
                 .done = is_done},
        .kernel = kernel,
        .context = context};
    done_keep(&computation->done, done);
    const bool is_prepared = operation->kind == SERVICE_GROUP ? prepare_group(computation, status)
                                                              : prepare(computation, kernel, status);
    if (is_prepared)
        service_submit(&computation->call);
    else
        end(computation, tf.get_code(status), tf.message(status));
    tf.delete_status(status);
}

/* --------------------------------------------------------------------------------- registration */

#define CREATE(i)                                                 \
    static void *create_##i(struct tf_construction *construction) \
    {                                                             \
        return create(construction, &operations[i]);              \
    }
CREATE(0)
CREATE(1)
CREATE(2)
CREATE(3)
CREATE(4)
CREATE(5)
CREATE(6)
CREATE(7)
CREATE(8)
static tf_create *const creates[] = {create_0, create_1, create_2, create_3, create_4,
                                     create_5, create_6, create_7, create_8};
_Static_assert(sizeof creates / sizeof *creates == OPERATION_COUNT, "one for each operation");

static bool register_kernel(int i, struct tf_status *status)
{
    char name[64];
    snprintf(name, sizeof name, "Tutti%s", operations[i].name);
    struct tf_builder *const builder =
        tf.new_builder(operations[i].name, "CPU", creates[i], compute, delete_kernel);
    tf.priority(builder, 1);
    tf.register_builder(name, builder, status);
    return tf.get_code(status) == TF_CODE_OK;
}

static bool find_functions(const char *library, char *text, size_t text_size)
{
    void *const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) {
        snprintf(text, text_size, "TensorFlow's library %s is not loaded: %s", library, dlerror());
        return false;
    }
#define X(member, name, result, arguments)                                                     \
    tf.member = (tf_##member##_function *)dlsym(handle, name);                                 \
    if (tf.member == NULL) {                                                                   \
        snprintf(text, text_size, "this TensorFlow has no %s: Tutti's kernels need it", name); \
        return false;                                                                          \
    }
    TF_API(X)
#undef X
    if (dlsym(handle, DONE_WITNESS) == NULL) {
        snprintf(
            text, text_size,
            "this TensorFlow is not built with libstdc++, whose callbacks Tutti's kernels know");
        return false;
    }
    return true;
}

/* Registers the kernels with the TensorFlow in that library, once in a process. 0; otherwise the
 * text says what is wrong. */
EXPORT int tutti_tensorflow_register(const char *library, char *text, size_t text_size)
{
    static bool is_registered;
    if (is_registered) return 0;
    if (!find_functions(library, text, text_size)) return -1;
    struct tf_status *const status = tf.new_status();
    bool is_good = true;
    for (int i = 0; i < OPERATION_COUNT && is_good; i++) is_good = register_kernel(i, status);
    if (!is_good) snprintf(text, text_size, "TensorFlow takes no kernels: %s", tf.message(status));
    tf.delete_status(status);
    is_registered = is_good;
    return is_good ? 0 : -1;
}

/* Begins to serve collectives over that communicator (service.h); timeout_ns: of a collective that
 * says none. */
EXPORT int tutti_tensorflow_start(struct tutti_comm *comm, uint64_t timeout_ns)
{
    default_timeout_ns = timeout_ns;
    return (int)service_start(comm);
}

EXPORT void tutti_tensorflow_stop(void)
{
    service_stop();
    communicators_clear();
}
