/* on_device.h - calls whose buffers lie in memory of a device, and calls in the order of a device's
 * stream.
 *
 *     checked ──► found (whose memory is it?) ──► begun: a worker on the stream ──► as any call with a gate ──► over: the worker ends
 *
 * Such a call has a *run* of the device (gpu/executor.h): its gate, which opens when the stream
 * comes to it, and the executor of its kernels. Without a stream the worker runs on one of this
 * library's own, at once: then the buffers must be ready when the call is made, as the host's must.
 *
 * A call with a stream and buffers of the host's only waits its turn in the stream.
 */
#ifndef TUTTI_CALL_ON_DEVICE_H
#define TUTTI_CALL_ON_DEVICE_H

#include <stdatomic.h>

#include "call/request.h"
#include "gpu/gpu.h"

struct bind_options;
struct tutti_comm;

enum tutti_status on_device_find_slowly(const char *name, const struct tutti_call_options *options,
                                        bool is_root, struct call *call);
/* Whether a call can have to do with a device. */
static inline bool on_device_may_be(const struct tutti_call_options *options)
{
    return __builtin_expect(atomic_load_explicit(&gpu_in_use, memory_order_acquire) != NULL, 0) ||
           (options != NULL && options->on_stream);
}
/* Finds where the buffers of a checked call lie, and notes it, and the stream, in its extra. A
 * buffer that the collective does not look at on this rank may be anything. INVALID_BUFFER: in
 * memory of several devices, of several kinds in one list, managed, or freed; INVALID_OPTIONS: not
 * a stream; UNSUPPORTED. options: complete, or NULL. is_root: whether this rank is the call's root.
 * Any thread. */
static inline enum tutti_status on_device_find(const char *name,
                                               const struct tutti_call_options *options,
                                               bool is_root, struct call *call)
{
    if (!on_device_may_be(options)) return TUTTI_OK;
    return on_device_find_slowly(name, options, is_root, call);
}

static inline bool call_is_on_device(const struct call *call)
{
    return __builtin_expect(call->extra != NULL, 0) && call->extra->device != NULL;
}

/* Whether it runs in the order of a stream of the caller's. */
static inline bool call_is_on_stream(const struct call *call)
{
    return call_is_on_device(call) && call->extra->on_stream;
}

/* Whether its gate waits for the device alone, and for no work of the caller's: then its deadline
 * counts from when it was made. */
static inline bool call_waits_for_device(const struct call *call)
{
    return call_is_on_device(call) && !call->extra->on_stream;
}

/* Why the call can never end: the words of its device's fault; NULL: no reason. Any thread. */
static inline const char *on_device_fault(const struct call *call)
{
    return call_is_on_device(call) ? gpu_fault_of(call->extra->device) : NULL;
}
/* TIMEOUT: at its deadline the device had not come to a call_waits_for_device. */
enum tutti_status on_device_late(const struct call *call);
/* Before such a call begins: puts its worker on the stream. Blocks when a device, or a run of it,
 * is used for the first time. On failure nothing was queued, and no call is made. */
enum tutti_status on_device_begin(struct tutti_comm *comm, struct call *call);
/* on_device_begin has succeeded, but no call is made. */
void on_device_cancel(const struct call *call);

/* For its program. */
void on_device_bind(const struct call *call, struct bind_options *options);
/* For its operation, which has been prepared. */
void on_device_attach(struct call_request *request);

/* In a communicator of one rank: copies so many elements of the input to the output. TIMEOUT: the
 * device does not. SYSTEM: it has failed. */
enum tutti_status on_device_move(const struct call *call, size_t count);

/* Frees the extra of a call, which is over; NULL is allowed. */
void call_free_extra(struct call_extra *extra);

#endif
