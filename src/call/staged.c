#include "call/staged.h"

#include <stdlib.h>

#include "base/dtype.h"
#include "base/status.h"
#include "gpu/gpu.h"

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

/* The device has told this thread why. */
static enum tutti_status fail(const struct message_call *call, size_t bytes)
{
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    return error_set(
        TUTTI_SYSTEM, "tutti_%s: %zu bytes could not be copied %s memory of a device at %p: %.300s",
        call->is_send ? "send" : "recv", bytes, call->is_send ? "from" : "to", call->buffer, why);
}

enum tutti_status staged_load(const struct message_call *call)
{
    const size_t bytes = bytes_of(call);
    if (!call->is_send || call->kind->copy(call->kind, call->staging, call->buffer, bytes))
        return TUTTI_OK;
    return fail(call, bytes);
}

enum tutti_status staged_make_and_load(struct message_call *call)
{
    TRY(staged_make(call));
    const enum tutti_status status = staged_load(call);
    if (status != TUTTI_OK) staged_free(call);
    return status;
}

enum tutti_status staged_unload(const struct message_call *call, size_t received_bytes)
{
    if (call->is_send || received_bytes == 0 ||
        call->kind->copy(call->kind, call->buffer, call->staging, received_bytes))
        return TUTTI_OK;
    return fail(call, received_bytes);
}

void staged_free(struct message_call *call)
{
    free(call->staging);
    call->staging = NULL;
}
