#include "call/on_device.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "base/status.h"
#include "call/begin.h"
#include "call/communicator.h"
#include "call/gated.h"
#include "engine/bind.h"
#include "gpu/device_fault.h"
#include "gpu/executor.h"
#include "gpu/shares.h"
#include "os/clock.h"
#include "os/mapping.h"

static enum tutti_status refuse_mixture(const char *name, const char *buffer)
{
    return error_set(
        TUTTI_INVALID_BUFFER,
        "tutti_%s: the tensors of %s must lie in memory of one kind: all in that of one "
        "device, or all in the host's",
        name, buffer);
}

/* Adds the call and the argument to an error of the driver, which knows neither. */
static enum tutti_status tell_of(const char *name, const char *argument, enum tutti_status status)
{
    char why[ERROR_TEXT_MAX];
    if (status == TUTTI_OK) return TUTTI_OK;
    error_copy(why, sizeof why);
    return error_set(status, "tutti_%s: %s: %.400s", name, argument, why);
}

/* The device in whose memory a buffer lies; NULL: the host's. */
static enum tutti_status find_buffer(const char *name, const char *buffer_name,
                                     const struct call *call, int which, struct gpu_device **device)
{
    const struct buffer buffer = call_buffer(call, which);
    *device = NULL;
    if (buffer.segments == NULL) return tell_of(name, buffer_name, gpu_find(buffer.base, device));
    for (size_t s = 0; s < buffer.segment_count; s++) {
        struct gpu_device *other;
        TRY(tell_of(name, buffer_name, gpu_find(buffer.segments[s].address, &other)));
        if (s > 0 && other != *device) return refuse_mixture(name, buffer_name);
        *device = other;
    }
    return TUTTI_OK;
}

/* The device of a stream. */
static enum tutti_status find_stream(const char *name, void *stream, struct gpu_device **device)
{
    const struct gpu_driver *driver;
    int number;
    TRY(gpu_driver(&driver));
    if (driver == NULL)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_%s: options.on_stream is set, but CUDA is not initialised in this "
                         "process (TUTTI_CUDA_DRIVER names a driver to load)",
                         name);
    TRY(tell_of(name, "options.stream", driver->stream_device(stream, &number)));
    TRY(driver->open(number, device));
    return tell_of(name, "options.stream", driver->stream_check(*device, stream));
}

static enum tutti_status refuse_devices(const char *name, const struct gpu_device *sends,
                                        const struct gpu_device *receives,
                                        const struct gpu_device *streams)
{
    const struct {
        const char *name;
        const struct gpu_device *device;
    } arguments[] = {{"send", sends}, {"recv", receives}, {"options.stream", streams}};
    char each[120] = "";
    for (size_t a = 0, used = 0; a < sizeof arguments / sizeof *arguments; a++)
        if (arguments[a].device != NULL)
            used += (size_t)snprintf(each + used, sizeof each - used, "%s%s of device %d",
                                     used > 0 ? ", " : "", arguments[a].name,
                                     arguments[a].device->number);
    return error_set(TUTTI_INVALID_BUFFER,
                     "tutti_%s: buffers and stream must be of one device, but are: %s", name, each);
}

/* Checks a buffer that is in no device's memory, in a call for a device: it is memory of the host,
 * or was memory of a device until the program freed it. Calls that have nothing to do with devices
 * do not pay for the question. */
static enum tutti_status check_host(const char *name, const char *buffer_name,
                                    const struct call *call, int which)
{
    const struct buffer buffer = call_buffer(call, which);
    if (call->what.count == 0 || call->what.varies || buffer.segments != NULL ||
        buffer.base == NULL || mapping_is_readable(buffer.base))
        return TUTTI_OK;
    return error_set(
        TUTTI_INVALID_BUFFER,
        "tutti_%s: %s: %p is memory neither of a device nor of the host: was it freed?", name,
        buffer_name, (void *)buffer.base);
}

enum tutti_status on_device_find_slowly(const char *name, const struct tutti_call_options *options,
                                        bool is_root, struct call *call)
{
    struct gpu_device *sends = NULL, *receives = NULL, *streams = NULL;
    const bool on_stream = options != NULL && options->on_stream;
    /* First: this may find the driver, which then knows whose memory the buffers are. */
    if (on_stream) TRY(find_stream(name, options->stream, &streams));
    const bool has_buffers = call->what.collective != COLLECTIVE_BARRIER,
               is_sent =
                   has_buffers && collective_blocks_sent(call->what.collective, is_root, 1) > 0,
               is_received =
                   has_buffers && collective_blocks_received(call->what.collective, is_root, 1) > 0;
    if (is_sent) TRY(find_buffer(name, "send", call, 0, &sends));
    if (is_received) TRY(find_buffer(name, "recv", call, 1, &receives));
    struct gpu_device *const device = sends != NULL ? sends : receives != NULL ? receives : streams;
    if (device == NULL) return TUTTI_OK;
    if ((sends != NULL && sends != device) || (receives != NULL && receives != device) ||
        (streams != NULL && streams != device))
        return refuse_devices(name, sends, receives, streams);
    if (is_sent && sends == NULL) TRY(check_host(name, "send", call, 0));
    if (is_received && receives == NULL) TRY(check_host(name, "recv", call, 1));
    if ((sends != NULL || receives != NULL) && call->what.op == OP_USER &&
        collective_reduces(call->what.collective))
        return error_set(
            TUTTI_UNSUPPORTED,
            "tutti_%s: operations made with tutti_op_create from a function run on the "
            "CPU, but the buffers lie in memory of device %d",
            name, device->number);
    if (call->extra == NULL) call->extra = calloc(1, sizeof *call->extra);
    if (call->extra == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_%s: out of memory", name);
    call->extra->device = device;
    call->extra->on_device[0] = sends != NULL;
    call->extra->on_device[1] = receives != NULL;
    call->extra->on_stream = on_stream;
    call->extra->stream = on_stream ? options->stream : NULL;
    return TUTTI_OK;
}

static void watch(struct tutti_comm *comm)
{
    if (!atomic_exchange_explicit(&comm->watches_devices, true, memory_order_relaxed))
        gpu_fault_join_watch();
}

enum tutti_status on_device_begin(struct tutti_comm *comm, struct call *call)
{
    struct call_extra *const extra = call->extra;
    watch(comm);
    if (extra->run == NULL) {
        TRY(gpu_run_take(extra->device, &extra->run));
        const enum tutti_status status = gated_set(call, gpu_run_gate(extra->run));
        if (status != TUTTI_OK) return status;
    }
    gpu_shares_open(extra->device); /* before the worker is there: it may take long */
    return gpu_run_begin(extra->run, extra->on_stream, extra->stream);
}

void on_device_cancel(const struct call *call)
{
    gpu_run_cancel(call->extra->run);
}

void on_device_bind(const struct call *call, struct bind_options *options)
{
    const struct call_extra *const extra = call->extra;
    const bool sends = extra->on_device[0], receives = extra->on_device[1];
    if (!sends && !receives) return;
    const struct memory_kind *const kind = &extra->device->kind;
    options->kinds[PLAN_INPUT] = sends ? kind : NULL;
    options->kinds[PLAN_OUTPUT] = receives ? kind : NULL;
    options->kinds[PLAN_SCRATCH] = kind;
    options->kernels = &gpu_kernels; /* which know encodings, too */
    options->encoding_kernels = NULL;
    options->has_executor = true;
}

void on_device_attach(struct call_request *request)
{
    if (request->program->has_executor)
        request->operation.executor = gpu_run_executor(request->call->extra->run);
}

enum tutti_status on_device_late(const struct call *call)
{
    return error_set(
        TUTTI_TIMEOUT,
        "GPU %d has not come to it: other work fills the GPU, or stands before it in a "
        "hardware queue; deadline of %.3g s",
        call->extra->device->number, (double)call->timeout_ns * 1e-9);
}

/* ---------------------------------------------------------------------------------------- alone */

enum tutti_status on_device_move(const struct call *call, size_t count)
{
    const struct call_extra *const extra = call->extra;
    const struct buffer input = call_buffer(call, 0), output = call_buffer(call, 1);
    const struct memory_kind *const kind = &extra->device->kind;
    const struct kernel_format from = {NULL, extra->on_device[0] ? kind : NULL};
    const struct kernel_formats formats = {.destination = {NULL, extra->on_device[1] ? kind : NULL},
                                           .sources = &from};
    const bool scales = collective_reduces(call->what.collective) && call->op->kind == OP_SCALED_SUM;
    const size_t element_bytes = dtype_size(call->what.dtype), bytes = count * element_bytes;
    struct kernel_executor *const executor = gpu_run_executor(extra->run);
    bool any = false;
    for (size_t done = 0, run; done < bytes; done += run) {
        run = bytes - done;
        const void *source = buffer_at(&input, done, &run);
        void *destination = buffer_at(&output, done, &run);
        if (source == destination && !scales) continue;
        const struct kernel_call move = {.destination = destination,
                                         .sources = &source,
                                         .source_count = 1,
                                         .factor = scales ? call->op->factor : 0,
                                         .count = run / element_bytes,
                                         .operation = call->op,
                                         .dtype = call->what.dtype,
                                         .formats = &formats};
        executor->ops->start(executor, gpu_kernels.reduce, &move);
        any = true;
    }
    if (!any) return TUTTI_OK;
    const uint64_t group = executor->ops->flush(executor), began_ns = clock_now_ns();
    while (!executor->ops->is_finished(executor, group)) {
        const char *const fault = on_device_fault(call);
        if (fault != NULL) return error_set(TUTTI_SYSTEM, "%s", fault);
        if (clock_now_ns() - began_ns > call->timeout_ns)
            return error_set(TUTTI_TIMEOUT, "device %d has not copied %zu bytes in time",
                             extra->device->number, bytes);
        sched_yield();
    }
    return TUTTI_OK;
}

void call_free_extra(struct call_extra *extra)
{
    if (extra == NULL) return;
    if (extra->run != NULL) gpu_run_give_back(extra->run);
    free(extra);
}
