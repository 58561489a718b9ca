#include "sparse_agree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"

/* -------------------------------------------------------------------------------- what is told */

/* Where part i of the indices begins, of SPARSE_SAMPLES. */
static uint64_t part_begin(uint64_t count, unsigned i)
{
    return count / SPARSE_SAMPLES * i + count % SPARSE_SAMPLES * i / SPARSE_SAMPLES;
}

static void tell(struct sparse_hello *hello, enum tutti_status status,
                 const struct sparse_question *question, const struct sparse_own *own)
{
    memset(hello, 0, sizeof *hello);
    hello->question = *question;
    hello->status = (uint64_t)status;
    if (status != TUTTI_OK) {
        char message[ERROR_TEXT_MAX];
        error_copy(message, sizeof message);
        snprintf(hello->problem, sizeof hello->problem, "%.*s", SPARSE_PROBLEM_BYTES - 1, message);
        return;
    }
    hello->count = own->count;
    for (unsigned i = 0; i < SPARSE_SAMPLES && own->count > 0; i++)
        hello->samples[i] = (uint64_t)own->indices[part_begin(own->count, i)];
}

/* ------------------------------------------------------------------------------ what was heard */

static enum tutti_status hear_failure(const struct sparse_call *call,
                                      const struct sparse_hello *hello, int rank)
{
    char problem[SPARSE_PROBLEM_BYTES];
    memcpy(problem, hello->problem, sizeof problem);
    problem[sizeof problem - 1] = '\0';
    const size_t length = strlen(call->function);
    const bool is_named = strncmp(problem, call->function, length) == 0 && problem[length] == ':';
    return error_set(TUTTI_MISMATCH, "%s: rank %d failed: %s (operation %" PRIu64 ")",
                     call->function, rank, is_named ? problem + length + 2 : problem,
                     sparse_last_sequence(call));
}

static const char *function_name(uint64_t function)
{
    switch (function) {
    case SPARSE_ALLREDUCE: return "tutti_sparse_allreduce";
    case SPARSE_PUSH: return "tutti_sparse_push";
    case SPARSE_PULL: return "tutti_sparse_pull";
    default: return "another function";
    }
}

static const char *dtype_name(uint64_t dtype)
{
    return dtype < DTYPE_COUNT ? tutti_dtype_name((enum tutti_dtype)dtype) : "unknown";
}

static const char *operation_name(uint64_t identity)
{
    return identity < OP_BUILTIN_COUNT ? op_kind_name((enum op)identity) : "an own operation";
}

static const char *way_name(uint64_t way)
{
    static const char *const names[] = {"chosen", "gather", "owner", "dense"};
    return way < sizeof names / sizeof *names ? names[way] : "unknown";
}

/* The first thing that two ranks ask for differently. */
static enum tutti_status tell_difference(const struct sparse_call *call,
                                         const struct sparse_question *a,
                                         const struct sparse_question *b, int rank)
{
    const uint64_t operation = sparse_last_sequence(call);
#define DIFFERENCE(conversion, name, of_a, of_b)                                      \
    error_set(TUTTI_MISMATCH,                                                         \
              "%s: rank 0 has the " name " %" conversion ", rank %d has %" conversion \
              " (operation %" PRIu64 ")",                                             \
              call->function, of_a, rank, of_b, operation)
    if (a->function != b->function)
        return error_set(TUTTI_MISMATCH,
                         "%s: rank 0 called %s, rank %d called %s (operation %" PRIu64 ")",
                         call->function, function_name(a->function), rank,
                         function_name(b->function), operation);
    if (a->row_count != b->row_count)
        return DIFFERENCE(PRIu64, "row_count", a->row_count, b->row_count);
    if (a->width != b->width) return DIFFERENCE(PRIu64, "width", a->width, b->width);
    if (a->dtype != b->dtype)
        return DIFFERENCE("s", "dtype", dtype_name(a->dtype), dtype_name(b->dtype));
    if (a->operation != b->operation)
        return DIFFERENCE("s", "operation", operation_name(a->operation),
                          operation_name(b->operation));
    if (a->way != b->way) return DIFFERENCE("s", "way", way_name(a->way), way_name(b->way));
    return DIFFERENCE(PRIu64, "option deterministic", a->deterministic, b->deterministic);
#undef DIFFERENCE
}

/* Whether all counts are such as a rank of this call has, and together fit into memory. */
static enum tutti_status check_counts(const struct sparse_call *call,
                                      const struct sparse_hello *hellos, size_t row_bytes)
{
    uint64_t total = 0;
    size_t bytes;
    for (int r = 0; r < call->size; r++) {
        if (hellos[r].count > hellos[r].question.row_count)
            return error_set(TUTTI_CORRUPT,
                             "%s: rank %d says that it has %" PRIu64 " rows of %" PRIu64,
                             call->function, r, hellos[r].count, hellos[r].question.row_count);
        if (__builtin_add_overflow(total, hellos[r].count, &total)) total = UINT64_MAX;
    }
    size_t entry_bytes; /* of a row, with its index, and tables */
    if (!__builtin_add_overflow(row_bytes, 4 * sizeof(uint64_t), &entry_bytes) &&
        total < SIZE_MAX - (size_t)call->size &&
        !__builtin_mul_overflow((size_t)total + (size_t)call->size, entry_bytes, &bytes) &&
        bytes <= SIZE_MAX / 2)
        return TUTTI_OK;
    return error_set(TUTTI_INVALID_COUNT,
                     "%s: the rows of all ranks together, %" PRIu64 ", do not fit into memory",
                     call->function, total);
}

static enum tutti_status judge(const struct sparse_call *call, const struct sparse_hello *hellos,
                               size_t row_bytes)
{
    for (int r = 0; r < call->size; r++)
        if (hellos[r].status != TUTTI_OK) return hear_failure(call, &hellos[r], r);
    for (int r = 1; r < call->size; r++)
        if (memcmp(&hellos[0].question, &hellos[r].question, sizeof hellos[0].question) != 0)
            return tell_difference(call, &hellos[0].question, &hellos[r].question, r);
    return check_counts(call, hellos, row_bytes);
}

enum tutti_status sparse_agree(const struct sparse_call *call, enum tutti_status status,
                               const struct sparse_question *question, const struct sparse_own *own,
                               size_t row_bytes, struct sparse_hello **hellos)
{
    struct sparse_hello mine;
    char message[ERROR_TEXT_MAX];
    error_copy(message, sizeof message);
    tell(&mine, status, question, own);
    *hellos = calloc((size_t)call->size, sizeof **hellos);
    if (*hellos == NULL) return sparse_lacks_memory(call);
    enum tutti_status heard = sparse_allgather(call, &mine, *hellos, sizeof mine);
    if (status != TUTTI_OK)
        heard = error_set(status, "%s", message);
    else if (heard == TUTTI_OK)
        heard = judge(call, *hellos, row_bytes);
    if (heard == TUTTI_OK) return TUTTI_OK;
    free(*hellos);
    *hellos = NULL;
    return heard;
}

enum tutti_status sparse_agreed_ranges(const struct sparse_hello *hellos, int size, int64_t *firsts)
{
    struct sparse_sample *const samples = calloc((size_t)size, SPARSE_SAMPLES * sizeof *samples);
    if (samples == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    size_t count = 0;
    for (int r = 0; r < size; r++)
        for (unsigned i = 0; i < SPARSE_SAMPLES; i++) {
            const uint64_t weight =
                part_begin(hellos[r].count, i + 1) - part_begin(hellos[r].count, i);
            if (weight > 0) samples[count++] = (struct sparse_sample){hellos[r].samples[i], weight};
        }
    sparse_ranges_balanced(samples, count, hellos[0].question.row_count, size, firsts);
    free(samples);
    return TUTTI_OK;
}
