/* sparse_allreduce.c - tutti_sparse_allreduce and tutti_sparse_push, from their arguments on. */
#include <stdlib.h>

#include "base/dtype.h"
#include "base/status.h"
#include "sparse_arguments.h"
#include "sparse_reduce.h"
#include "tutti/sparse.h"

/* The caller's rows and options, checked and in order. */
struct asked {
    struct tutti_sparse_rows rows;
    const struct tutti_operation *operation;
    struct tutti_sparse_options options;
    struct sparse_own own;
    struct tutti_sparse *result; /* empty */
};

static bool is_sum(const struct tutti_operation *operation)
{
    return operation->kind == OP_SUM || operation->kind == OP_AVG ||
           operation->kind == OP_SCALED_SUM;
}

/* A failure leaves what there is for ask_release. */
static enum tutti_status ask(struct asked *asked, struct sparse_call *call,
                             const struct tutti_sparse_rows *rows, tutti_op op,
                             const struct tutti_sparse_options *options, bool allows_way)
{
    *asked = (struct asked){.options = TUTTI_SPARSE_OPTIONS_INIT};
    if (rows == NULL) return error_set(TUTTI_INVALID_BUFFER, "%s: rows is NULL", call->function);
    asked->rows = *rows;
    TRY(sparse_read_options(call, options, allows_way, &asked->options));
    TRY(sparse_check_rows(call->function, rows));
    TRY(sparse_check_op(call->function, op, rows->dtype, &asked->operation));
    if (asked->options.way == TUTTI_SPARSE_DENSE && !is_sum(asked->operation))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%s: options.way is dense, which is for sums, not for %s", call->function,
                         asked->operation->name);
    struct sparse_sum within;
    sparse_sum_init(&within, asked->operation, rows->dtype, rows->width, 0);
    asked->result = sparse_result_create(rows);
    if (asked->result == NULL || sparse_own_rows(&asked->own, rows, &within) != TUTTI_OK)
        return error_set(TUTTI_NO_MEMORY, "%s: out of memory", call->function);
    return TUTTI_OK;
}

static void ask_release(struct asked *asked)
{
    sparse_own_release(&asked->own);
    (void)tutti_sparse_free(asked->result);
}

/* ------------------------------------------------------------------------------- which way to go */

static enum tutti_status choose(const struct sparse_reduction *r, const struct asked *asked,
                                struct sparse_choice *choice)
{
    const int size = r->call->size;
    uint64_t *const counts = calloc((size_t)size, sizeof *counts);
    if (counts == NULL) return sparse_lacks_memory(r->call);
    for (int i = 0; i < size; i++) counts[i] = r->hellos[i].count;
    const uint64_t row_count = asked->rows.row_count;
    const struct sparse_load load = {.size = size,
                                     .row_count = row_count,
                                     .row_bytes = r->sum.row_bytes,
                                     .total = r->total,
                                     .expected = sparse_expect(counts, size, row_count),
                                     .may_be_dense =
                                         is_sum(asked->operation) && !asked->options.deterministic};
    free(counts);
    sparse_choose(&load, asked->options.way, choice);
    return TUTTI_OK;
}

static enum tutti_status reduce(const struct sparse_reduction *r, enum tutti_sparse_way way,
                                struct tutti_sparse *result)
{
    switch (way) {
    case TUTTI_SPARSE_GATHER: return sparse_reduce_gather(r, result);
    case TUTTI_SPARSE_DENSE: return sparse_reduce_dense(r, result);
    default: return sparse_reduce_owner(r, result);
    }
}

static enum tutti_status allreduce(const struct sparse_reduction *r, struct asked *asked)
{
    struct tutti_sparse *const result = asked->result;
    TRY(choose(r, asked, &result->choice));
    result->counters.way = (uint64_t)result->choice.way;
    return reduce(r, result->choice.way, result);
}

static enum tutti_status push(const struct sparse_reduction *r, struct asked *asked)
{
    struct tutti_sparse *const result = asked->result;
    asked->options.way = TUTTI_SPARSE_OWNER; /* from here on; it is no choice */
    TRY(choose(r, asked, &result->choice));
    result->counters.way = TUTTI_SPARSE_OWNER;
    return sparse_reduce_to_owner(r, result);
}

/* -------------------------------------------------------------------------------------- the call */

static enum tutti_status run(struct sparse_call *call, enum sparse_function function,
                             struct asked *asked, enum tutti_status status, tutti_op op)
{
    const struct sparse_question question =
        sparse_question_of(function, &asked->rows, asked->operation, &asked->options);
    const size_t row_bytes =
        status == TUTTI_OK ? asked->rows.width * dtype_size(asked->rows.dtype) : 1;
    struct sparse_reduction r = {.call = call, .own = &asked->own, .op = op};
    struct sparse_hello *hellos;
    TRY(sparse_agree(call, status, &question, &asked->own, row_bytes, &hellos));
    r.hellos = hellos;
    for (int i = 0; i < call->size; i++) r.total += hellos[i].count;
    sparse_sum_init(&r.sum, asked->operation, asked->rows.dtype, asked->rows.width, call->size);
    status = function == SPARSE_PUSH ? push(&r, asked) : allreduce(&r, asked);
    free(hellos);
    return status;
}

static enum tutti_status call_with(const char *name, enum sparse_function function,
                                   const struct tutti_sparse_rows *rows, tutti_op op,
                                   const struct tutti_sparse_options *options,
                                   struct tutti_comm *comm, struct tutti_sparse **result)
{
    struct sparse_call call;
    struct asked asked;
    if (result != NULL) *result = NULL;
    TRY(sparse_call_init(&call, name, comm));
    enum tutti_status status = ask(&asked, &call, rows, op, options, function == SPARSE_ALLREDUCE);
    if (status == TUTTI_OK && result == NULL)
        status = error_set(TUTTI_INVALID_BUFFER, "%s: result is NULL", name);
    status = run(&call, function, &asked, status, op);
    if (status == TUTTI_OK) {
        *result = asked.result;
        asked.result = NULL;
    }
    ask_release(&asked);
    return status;
}

enum tutti_status tutti_sparse_allreduce(const struct tutti_sparse_rows *rows, tutti_op op,
                                         const struct tutti_sparse_options *options,
                                         struct tutti_comm *comm, struct tutti_sparse **result)
{
    return call_with("tutti_sparse_allreduce", SPARSE_ALLREDUCE, rows, op, options, comm, result);
}

enum tutti_status tutti_sparse_push(const struct tutti_sparse_rows *rows, tutti_op op,
                                    const struct tutti_sparse_options *options,
                                    struct tutti_comm *comm, struct tutti_sparse **result)
{
    return call_with("tutti_sparse_push", SPARSE_PUSH, rows, op, options, comm, result);
}
