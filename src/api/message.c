/* message.c - send and recv: argument checks and nothing else. */
#include "api/define_forms.h"
#include "base/dtype.h"
#include "base/sized.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/options.h"

static enum tutti_status check(const struct message_call *given,
                               const struct tutti_call_options *options,
                               const struct tutti_comm *comm, struct message_call *call)
{
    const char *name = given->is_send ? "send" : "recv";
    TRY(comm_check_handle(comm, name));
    if (!dtype_is_valid(given->dtype))
        return error_set(TUTTI_INVALID_DTYPE, "tutti_%s: %d is not a dtype", name,
                         (int)given->dtype);
    if (given->count > SIZE_MAX / 2 / dtype_size(given->dtype))
        return error_set(TUTTI_INVALID_COUNT, "tutti_%s: %zu elements", name, given->count);
    if (given->count > 0 && given->buffer == NULL)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_%s: the buffer is NULL", name);
    if ((given->peer < 0 || given->peer >= comm->size) &&
        (given->is_send || given->peer != TUTTI_ANY_RANK))
        return error_set(TUTTI_INVALID_RANK, "tutti_%s: rank %d of %d ranks", name, given->peer,
                         comm->size);
    if (given->tag < 0 && (given->is_send || given->tag != TUTTI_ANY_TAG))
        return error_set(TUTTI_INVALID_TAG, "tutti_%s: tag %d", name, given->tag);
    if (given->result != NULL)
        TRY(SIZED_CHECK_RESULT("tutti_recv: message", tutti_message, given->result));
    *call = *given;
    if (given->result != NULL) call->result_bytes = given->result->size_bytes;
    call->timeout_ns = comm->timeout_ns;
    if (options == NULL) return TUTTI_OK;
    struct tutti_call_options own;
    TRY(options_for_call(options, &own));
    if (own.algorithm != NULL)
        return error_set(TUTTI_INVALID_ALGORITHM, "tutti_%s has no algorithms", name);
    if (own.timeout_ns != 0) call->timeout_ns = own.timeout_ns;
    return TUTTI_OK;
}

static enum tutti_status message_call(const struct message_call *given,
                                      const struct tutti_call_options *options,
                                      struct tutti_comm *comm)
{
    struct message_call checked;
    TRY(check(given, options, comm, &checked));
    if (!comm_group_is_open()) return comm_message_call(comm, &checked);
    struct tutti_request *request;
    TRY(comm_message_start(comm, &checked, true, &request));
    return comm_group_add(request);
}

static enum tutti_status message_start(const struct message_call *given,
                                       const struct tutti_call_options *options,
                                       struct tutti_comm *comm, struct tutti_request **request)
{
    struct message_call checked;
    if (request == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_%s_start: no place for the request",
                         given->is_send ? "send" : "recv");
    *request = NULL;
    TRY(check(given, options, comm, &checked));
    return comm_message_start(comm, &checked, false, request);
}

static enum tutti_status message_prepare(const struct message_call *given,
                                         const struct tutti_call_options *options,
                                         struct tutti_comm *comm, struct tutti_prepared **prepared)
{
    struct message_call checked;
    if (prepared == NULL)
        return error_set(TUTTI_INVALID_REQUEST, "tutti_%s_prepare: no place for it",
                         given->is_send ? "send" : "recv");
    *prepared = NULL;
    TRY(check(given, options, comm, &checked));
    return comm_message_prepare(comm, &checked, prepared);
}

#define PARAMETERS(...) __VA_ARGS__

FORMS_DEFINE(message, struct message_call, send,
             PARAMETERS(const void *send, size_t count, enum tutti_dtype dtype, int peer, int tag),
             .is_send = true, .buffer = (void *)(uintptr_t)send, .count = count, .dtype = dtype,
             .peer = peer, .tag = tag)
FORMS_DEFINE(message, struct message_call, recv,
             PARAMETERS(void *recv, size_t count, enum tutti_dtype dtype, int peer, int tag,
                        struct tutti_message *message),
             .buffer = recv, .count = count, .dtype = dtype, .peer = peer, .tag = tag,
             .result = message)
