#include "call/staged.h"

#include <stdlib.h>

#include "base/dtype.h"
#include "base/status.h"
#include "call/communicator.h"
#include "gpu/gpu.h"
#include "os/clock.h"

static size_t bytes_of(const struct message_call *call)
{
    return call->count * dtype_size(call->dtype);
}

enum tutti_status staged_find(struct message_call *call)
{
    struct gpu_device *device = NULL;
    call->kind = NULL;
    call->staging = NULL;
    if (call->count == 0) return TUTTI_OK; /* nobody looks at the buffer */
    const enum tutti_status status = gpu_find(call->buffer, &device);
    if (status != TUTTI_OK) {
        char why[ERROR_TEXT_MAX];
        error_copy(why, sizeof why);
        return error_set(status, "tutti_%s: %.400s", call->is_send ? "send" : "recv", why);
    }
    if (device != NULL) call->kind = &device->kind;
    return TUTTI_OK;
}

enum tutti_status staged_make(struct message_call *call)
{
    call->staging = malloc(bytes_of(call));
    if (call->staging != NULL) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY,
                     "tutti_%s: no %zu bytes of the host's memory, through which a message goes "
                     "whose buffer lies in memory of a device",
                     call->is_send ? "send" : "recv", bytes_of(call));
}

static bool has_failed(const void *context)
{
    const struct tutti_comm *const comm = context;
    return board_has_failed(comm->health.board);
}

/* comm: once that has failed, the copy is pointless; or NULL. Its timeout is what the device gets:
 * a message that is received may have waited for long before. */
static enum tutti_status copy(const struct tutti_comm *comm, const struct message_call *call,
                              void *destination, const void *source, size_t bytes)
{
    struct gpu_device *const device = gpu_of_kind(call->kind);
    const uint64_t now_ns = clock_now_ns(), end_ns = now_ns + call->timeout_ns;
    const struct gpu_wait wait = {.deadline_ns = end_ns < now_ns ? UINT64_MAX : end_ns,
                                  .is_pointless = comm != NULL ? has_failed : NULL,
                                  .context = comm};
    const enum tutti_status status =
        device->driver->copy_until(device, destination, source, bytes, &wait);
    if (status == TUTTI_OK) return TUTTI_OK;
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    return error_set(status == TUTTI_TIMEOUT ? TUTTI_TIMEOUT : TUTTI_SYSTEM,
                     "tutti_%s: %zu bytes could not be copied %s memory of a device at %p: %.300s",
                     call->is_send ? "send" : "recv", bytes, call->is_send ? "from" : "to",
                     call->buffer, why);
}

enum tutti_status staged_load(const struct tutti_comm *comm, const struct message_call *call)
{
    return call->is_send ? copy(comm, call, call->staging, call->buffer, bytes_of(call)) : TUTTI_OK;
}

enum tutti_status staged_make_and_load(const struct tutti_comm *comm, struct message_call *call)
{
    TRY(staged_make(call));
    const enum tutti_status status = staged_load(comm, call);
    if (status != TUTTI_OK) staged_free(call);
    return status;
}

enum tutti_status staged_unload(const struct message_call *call, size_t received_bytes)
{
    return call->is_send ? TUTTI_OK : copy(NULL, call, call->buffer, call->staging, received_bytes);
}

void staged_free(struct message_call *call)
{
    free(call->staging);
    call->staging = NULL;
}
