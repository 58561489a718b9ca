/* message.c - send and recv: argument checks and nothing else. */
#include "api/check.h"
#include "api/define_forms.h"
#include "base/dtype.h"
#include "base/sized.h"
#include "base/status.h"
#include "call/communicator.h"
#include "call/encoded.h"
#include "call/faulted.h"
#include "call/group.h"
#include "call/message_call.h"
#include "call/staged.h"
#include "team/options.h"

static enum tutti_status check_encoding(const char *name, const char *text,
                                        const struct tutti_comm *comm, struct message_call *call)
{
    struct encoding_wish wish;
    const char *const wrong = encoding_wish_parse(text, &wish);
    if (wrong != NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_%s: options.encoding is \"%.40s\": %s", name,
                         text, wrong);
    const struct call_to_encode asked = {.collective = COLLECTIVE_BROADCAST,
                                         .dtype = call->dtype,
                                         .deterministic = comm->team.settings.deterministic};
    const char *const why = call_encoding_why_never(&asked, &wish);
    call->encoding = encoding_wish_pack(&wish);
    return why == NULL ? TUTTI_OK
                       : error_set(TUTTI_UNSUPPORTED, "tutti_%s: options.encoding is \"%.40s\": %s",
                                   name, text, why);
}

static enum tutti_status check_options(const char *name, const struct tutti_call_options *options,
                                       const struct tutti_comm *comm, struct message_call *call)
{
    struct tutti_call_options own;
    TRY(options_for_call(options, &own));
    if (own.on_stream)
        return error_set(TUTTI_UNSUPPORTED,
                         "tutti_%s: options.on_stream must be 0, because messages are in no "
                         "stream's order",
                         name);
    if (own.algorithm != NULL)
        return error_set(TUTTI_INVALID_ALGORITHM,
                         "tutti_%s: options.algorithm must be NULL, because messages have no "
                         "algorithms, is \"%.40s\"",
                         name, own.algorithm);
    if (own.timeout_ns != 0) call->timeout_ns = own.timeout_ns;
    if (own.encoding != NULL) TRY(check_encoding(name, own.encoding, comm, call));
    return TUTTI_OK;
}

static enum tutti_status check(const struct message_call *given,
                               const struct tutti_call_options *options, struct tutti_comm *comm,
                               struct message_call *call)
{
    const char *name = given->is_send ? "send" : "recv";
    TRY(communicator_check_handle(comm, name));
    TRY(api_check_dtype(name, given->dtype));
    const size_t element_bytes = dtype_size(given->dtype), count_max = SIZE_MAX / 2 / element_bytes;
    if (given->count > count_max)
        return error_set(TUTTI_INVALID_COUNT,
                         "tutti_%s: count must be at most %zu elements of %zu bytes, is %zu", name,
                         count_max, element_bytes, given->count);
    TRY(api_check_buffer(name, name, given->buffer, given->count * element_bytes));
    if ((given->peer < 0 || given->peer >= comm->team.size) &&
        (given->is_send || given->peer != TUTTI_ANY_RANK))
        return error_set(TUTTI_INVALID_RANK, "tutti_%s: peer must be a rank, 0 to %d,%s is %d",
                         name, comm->team.size - 1, given->is_send ? "" : " or TUTTI_ANY_RANK,",
                         given->peer);
    if (given->tag < 0 && (given->is_send || given->tag != TUTTI_ANY_TAG))
        return error_set(TUTTI_INVALID_TAG, "tutti_%s: tag must be 0 or more,%s is %d", name,
                         given->is_send ? "" : " or TUTTI_ANY_TAG,", given->tag);
    if (given->result != NULL)
        TRY(SIZED_CHECK_RESULT("tutti_recv: message", tutti_message, given->result));
    *call = *given;
    if (given->result != NULL) call->result_bytes = given->result->size_bytes;
    call->timeout_ns = comm->team.settings.timeout_ns;
    if (options != NULL) TRY(check_options(name, options, comm, call));
    const enum tutti_status status = staged_find(call);
    return status == TUTTI_OK ? TUTTI_OK : faulted_message(comm, call, status);
}

static enum tutti_status message_call(const struct message_call *given,
                                      const struct tutti_call_options *options,
                                      struct tutti_comm *comm)
{
    struct message_call checked;
    TRY(check(given, options, comm, &checked));
    if (!group_is_open()) return message_call_run(comm, &checked);
    struct tutti_request *request;
    TRY(message_call_start(comm, &checked, true, &request));
    return group_add(request);
}

static enum tutti_status message_start(const struct message_call *given,
                                       const struct tutti_call_options *options,
                                       struct tutti_comm *comm, struct tutti_request **request)
{
    struct message_call checked;
    if (request == NULL)
        return error_set(TUTTI_INVALID_REQUEST,
                         "tutti_%s_start: request must be the address of a pointer, is NULL",
                         given->is_send ? "send" : "recv");
    *request = NULL;
    TRY(check(given, options, comm, &checked));
    return message_call_start(comm, &checked, false, request);
}

static enum tutti_status message_prepare(const struct message_call *given,
                                         const struct tutti_call_options *options,
                                         struct tutti_comm *comm, struct tutti_prepared **prepared)
{
    struct message_call checked;
    if (prepared == NULL)
        return error_set(TUTTI_INVALID_REQUEST,
                         "tutti_%s_prepare: prepared must be the address of a pointer, is NULL",
                         given->is_send ? "send" : "recv");
    *prepared = NULL;
    TRY(check(given, options, comm, &checked));
    return message_call_prepare(comm, &checked, prepared);
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
