#include "api/check.h"

#include <stdint.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "api/blocks.h"
#include "base/dtype.h"
#include "base/status.h"
#include "call/call.h"
#include "call/communicator.h"
#include "call/encoded.h"
#include "call/faulted.h"
#include "call/group.h"
#include "call/on_device.h"
#include "call/program.h"
#include "call/refuse.h"
#include "call/start.h"
#include "comm/plans.h"
#include "team/options.h"

static const char *name_of(const struct arguments *a)
{
    return collective_name(a->collective);
}

/* Whether send lies at the place in recv (or recv in send) that makes the call in place. */
static bool is_in_place(const struct arguments *a, const struct tutti_comm *comm, size_t block_bytes)
{
    const uintptr_t send = (uintptr_t)a->send, recv = (uintptr_t)a->recv;
    const size_t own = (size_t)comm->team.rank * block_bytes;
    return send + (collective_scatters(a->collective) ? own : 0) ==
           recv + (collective_gathers(a->collective) ? own : 0);
}

static enum tutti_status check_even(const struct arguments *a, const struct tutti_comm *comm,
                                    struct call *call)
{
    const char *name = name_of(a);
    const size_t element_bytes = dtype_size(a->dtype);
    size_t all_bytes;
    if (__builtin_mul_overflow(a->count, element_bytes * (size_t)comm->team.size, &all_bytes) ||
        all_bytes > SIZE_MAX / 2)
        return error_set(TUTTI_INVALID_COUNT,
                         "tutti_%s: count must be at most %zu elements of %zu bytes with %d ranks, "
                         "is %zu",
                         name, SIZE_MAX / 2 / element_bytes / (size_t)comm->team.size,
                         element_bytes, comm->team.size, a->count);
    const size_t block_bytes = a->count * element_bytes;
    const size_t send_bytes = blocks_sent(a, comm) * block_bytes,
                 recv_bytes = blocks_received(a, comm) * block_bytes;
    TRY(api_check_buffer(name, "send", a->send, send_bytes));
    TRY(api_check_buffer(name, "recv", a->recv, recv_bytes));
    const uintptr_t send = (uintptr_t)a->send, recv = (uintptr_t)a->recv;
    call->send = a->send;
    call->recv = a->recv;
    call->what.count = a->count;
    if (send_bytes == 0 || recv_bytes == 0) return TUTTI_OK;
    call->in_place = is_in_place(a, comm, block_bytes);
    if (!call->in_place && send < recv + recv_bytes && recv < send + send_bytes)
        return error_set(
            TUTTI_INVALID_BUFFER,
            "tutti_%s: send and recv must be apart or in place, but overlap: %zu bytes "
            "at %p and %zu bytes at %p",
            name, send_bytes, a->send, recv_bytes, a->recv);
    return TUTTI_OK;
}

/* Takes the encoding that a call asks for, or refuses it. */
static enum tutti_status check_encoding(const struct arguments *a, const char *text,
                                        const struct tutti_comm *comm, struct call *call)
{
    struct encoding_wish wish;
    const char *const wrong = encoding_wish_parse(text, &wish);
    if (wrong != NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_%s: options.encoding is \"%.40s\": %s",
                         name_of(a), text, wrong);
    call->wishes.encoding = encoding_wish_pack(&wish);
    const struct call_to_encode asked = {.collective = a->collective,
                                         .dtype = a->dtype,
                                         .op = call->what.op,
                                         .varies = call->what.varies,
                                         .deterministic = call->deterministic};
    const char *const why = call_encoding_why_never(&asked, &wish);
    if (call->extra != NULL) call->refused = call_program_check_encoding(comm, call);
    if (why == NULL) return TUTTI_OK;
    return error_set(TUTTI_UNSUPPORTED, "tutti_%s: options.encoding is \"%.40s\": %s", name_of(a),
                     text, why);
}

/* given: not NULL; *options becomes complete. */
static enum tutti_status check_options(const struct arguments *a,
                                       const struct tutti_call_options *given,
                                       struct tutti_comm *comm, struct call *call,
                                       struct tutti_call_options *options)
{
    TRY(options_for_call(given, options));
    call->priority = options->priority;
    if (options->timeout_ns != 0) call->timeout_ns = options->timeout_ns;
    if (options->deterministic != 0) call->deterministic = true;
    if (options->encoding != NULL) TRY(check_encoding(a, options->encoding, comm, call));
    if (options->algorithm == NULL)
        return call->wishes.encoding != 0 ? call_program_check(comm, call) : TUTTI_OK;
    if (plans_names_file(options->algorithm)) {
        if (call->refused == TUTTI_OK)
            call->refused = plans_find_file(comm, call, options->algorithm);
        if (call->refused != TUTTI_OK) call->algorithm = NULL;
        return TUTTI_OK;
    }
    unsigned radix = 0;
    const bool is_listed = algo_parse(a->collective, options->algorithm, &call->algorithm, &radix);
    call->wishes.radix = (uint16_t)radix;
    if (!is_listed && !plans_find_own(comm, a->collective, options->algorithm, &call->algorithm))
        return error_set(TUTTI_INVALID_ALGORITHM,
                         "tutti_%s: options.algorithm must be one of `tutti-plan list`, is "
                         "\"%.40s\"",
                         name_of(a), options->algorithm);
    /* A communicator of one rank says what the others would say, too. */
    return call_program_check(comm, call);
}

/* Finds the device of a call that may be on one. A separate function, so that other calls pay
 * nothing for it. */
__attribute__((cold, noinline)) static enum tutti_status
find_device(const struct arguments *a, const struct tutti_call_options *options,
            struct tutti_comm *comm, struct call *call)
{
    const enum tutti_status status =
        on_device_find(name_of(a), options, comm->team.rank == a->root, call);
    if (status != TUTTI_OK) return faulted_refused(comm, call, status);
    if (call_is_on_device(call) && call->refused == TUTTI_OK)
        call->refused = call_program_check_encoding(comm, call);
    return TUTTI_OK;
}

static enum tutti_status check(const struct arguments *a, const struct tutti_call_options *options,
                               struct tutti_comm *comm, struct call *call)
{
    const char *name = name_of(a);
    TRY(communicator_check_handle(comm, name));
    TRY(api_check_dtype(name, a->dtype));
    const struct tutti_operation *op = op_resolve(a->op);
    if (op == NULL)
        return error_set(TUTTI_INVALID_OP,
                         "tutti_%s: op must be a constant such as TUTTI_SUM or come from "
                         "tutti_op_create, is %p: not an operation",
                         name, (const void *)a->op);
    if (collective_reduces(a->collective) && !op_supports(op, a->dtype))
        return error_set(TUTTI_INVALID_OP, "tutti_%s: %s is not for %s: %s are needed", name,
                         op->name, tutti_dtype_name(a->dtype),
                         dtype_kind(a->dtype) == DTYPE_FLOAT ? "integers" : "floats");
    if (a->root < 0 || a->root >= comm->team.size)
        return error_set(TUTTI_INVALID_ROOT, "tutti_%s: root must be a rank, 0 to %d, is %d", name,
                         comm->team.size - 1, a->root);
    *call = call_blank;
    call->what.collective = a->collective;
    call->what.dtype = a->dtype;
    call->what.op = op->kind;
    call->what.root = a->root;
    call->op = op;
    call->deterministic = comm->team.settings.deterministic;
    call->timeout_ns = comm->team.settings.timeout_ns;
    switch (a->shape) {
    case SHAPE_EVEN: TRY(check_even(a, comm, call)); break;
    case SHAPE_VARYING: TRY(blocks_check_varying(a, comm, call)); break;
    case SHAPE_LIST: TRY(blocks_check_lists(a, comm, call)); break;
    }
    struct tutti_call_options own;
    enum tutti_status status = TUTTI_OK;
    if (options != NULL) status = check_options(a, options, comm, call, &own);
    if (status == TUTTI_OK && on_device_may_be(options != NULL ? &own : NULL))
        status = find_device(a, options != NULL ? &own : NULL, comm, call);
    if (status != TUTTI_OK) free(call->extra);
    return status;
}

/* Whether it was the call before once more, and has been made. */
static bool call_repeated(const struct arguments *a, struct tutti_comm *comm,
                          enum tutti_status *status)
{
    return handle_is_known(comm) && !communicator_is_foreign(comm) &&
           call_may_come_again(comm, a) && call_run_again(comm, a, status);
}

enum tutti_status api_call(const struct arguments *arguments,
                           const struct tutti_call_options *options, struct tutti_comm *comm)
{
    enum tutti_status status;
    if (options == NULL && arguments->shape == SHAPE_EVEN && !group_is_open() &&
        call_repeated(arguments, comm, &status))
        return status;
    struct call checked;
    TRY(check(arguments, options, comm, &checked));
    const bool is_on_stream = call_is_on_stream(&checked);
    if (__builtin_expect(checked.refused != TUTTI_OK, 0))
        return call_refuse(comm, &checked, is_on_stream || group_is_open());
    if (is_on_stream) return call_unattended(comm, &checked);
    if (!group_is_open()) return call_run(comm, &checked);
    struct tutti_request *request;
    TRY(call_start(comm, &checked, true, &request));
    return group_add(request);
}

enum tutti_status api_start(const struct arguments *arguments,
                            const struct tutti_call_options *options, struct tutti_comm *comm,
                            struct tutti_request **request)
{
    struct call checked;
    if (request == NULL)
        return error_set(TUTTI_INVALID_REQUEST,
                         "tutti_%s_start: request must be the address of a pointer, is NULL",
                         name_of(arguments));
    *request = NULL;
    TRY(check(arguments, options, comm, &checked));
    if (checked.refused != TUTTI_OK) return call_refuse(comm, &checked, true);
    return call_start(comm, &checked, false, request);
}

/* Reading and proving a plan before the first call takes nothing from the time of later calls. */
static enum tutti_status restore_timeout(const struct tutti_call_options *options,
                                         const struct tutti_comm *comm, struct call *call)
{
    struct tutti_call_options own = {.timeout_ns = 0};
    if (options != NULL) TRY(options_for_call(options, &own));
    call->timeout_ns = own.timeout_ns != 0 ? own.timeout_ns : comm->team.settings.timeout_ns;
    return TUTTI_OK;
}

enum tutti_status api_prepare(const struct arguments *arguments,
                              const struct tutti_call_options *options, struct tutti_comm *comm,
                              struct tutti_prepared **prepared)
{
    struct call checked;
    if (prepared == NULL)
        return error_set(TUTTI_INVALID_REQUEST,
                         "tutti_%s_prepare: prepared must be the address of a pointer, is NULL",
                         name_of(arguments));
    *prepared = NULL;
    TRY(check(arguments, options, comm, &checked));
    if (checked.refused != TUTTI_OK) { /* no call yet, for which others would wait */
        call_free_extra(checked.extra);
        return checked.refused;
    }
    if (checked.algorithm != NULL) TRY(restore_timeout(options, comm, &checked));
    return call_prepare(comm, &checked, prepared);
}
