#include "tests/programs/program_sparse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/elements.h"
#include "tutti/sparse.h"

/* --------------------------------------------------------------------------------- what ranks give */

static uint64_t mixed(const struct random_step *s, int rank, size_t row)
{
    return elements_mixed((uint64_t)s->salt * 16 + (uint64_t)rank, row);
}

static bool has_row(const struct random_step *s, int rank, size_t row)
{
    const uint64_t h = mixed(s, rank, row) >> 8;
    switch (s->style) {
    case PROGRAM_EVEN: return h % 4 == 0;
    case PROGRAM_SKEWED: return h % 8 < (uint64_t)rank;
    case PROGRAM_ZEROS: return rank % 2 == 0 && h % 2 == 0;
    default: return h % 100 == 0;
    }
}

static int value_of(const struct random_step *s, int rank, size_t row, size_t column)
{
    return (int)((mixed(s, rank, row) >> 20) + column * 7) % 17 - 8;
}

static size_t width_of(const struct random_step *s)
{
    return (size_t)s->number + 1;
}

static void put(const struct random_step *s, void *values, size_t at, int value)
{
    if (s->dtype == TUTTI_FLOAT32)
        ((float *)values)[at] = (float)value;
    else
        ((int64_t *)values)[at] = value;
}

static bool is_value(const struct random_step *s, const void *values, size_t at, int value)
{
    return s->dtype == TUTTI_FLOAT32 ? ((const float *)values)[at] == (float)value
                                     : ((const int64_t *)values)[at] == value;
}

/* ---------------------------------------------------------------------------------------- memory */

/* Rows of this rank, from the last to the first, the first one twice. */
struct given {
    int64_t *indices;
    void *values;
    size_t count;
};

static bool given_init(struct given *given, const struct random_step *s)
{
    const size_t rows = (size_t)s->count + 1;
    *given = (struct given){malloc(rows * sizeof *given->indices),
                            malloc(rows * width_of(s) * sizeof(int64_t)), 0};
    return given->indices != NULL && given->values != NULL;
}

static void given_release(struct given *given)
{
    free(given->indices);
    free(given->values);
}

static void add_row(struct given *given, const struct random_step *s, int rank, size_t row)
{
    const size_t at = given->count++ * width_of(s);
    given->indices[given->count - 1] = (int64_t)row;
    for (size_t c = 0; c < width_of(s); c++)
        put(s, given->values, at + c, value_of(s, rank, row, c));
}

/* ---------------------------------------------------------------------------------------- to sums */

static int sum_of(const struct random_step *s, int size, size_t row, size_t column)
{
    int sum = 0;
    for (int r = 0; r < size; r++)
        if (has_row(s, r, row)) sum += value_of(s, r, row, column);
    return sum;
}

static bool has_any(const struct random_step *s, int size, size_t row)
{
    bool has = false;
    for (int r = 0; r < size && !has; r++) has = has_row(s, r, row);
    return has;
}

static const char *check_sums(const struct random_step *s, const struct program_comm *on,
                              const struct tutti_sparse *result, char text[160])
{
    struct tutti_sparse_rows rows;
    size_t first = 0, count = (size_t)s->count, at = 0;
    if (tutti_sparse_view(result, &rows) != TUTTI_OK) return "a result without a view";
    if (s->way == PROGRAM_PUSH &&
        tutti_sparse_range((size_t)s->count, on->size, on->rank, &first, &count) != TUTTI_OK)
        return "no range";
    for (size_t row = first; row < first + count; row++) {
        if (!has_any(s, on->size, row)) continue;
        snprintf(text, 160, "row %zu is wrong, or is not there", row);
        if (at == rows.count || rows.indices[at] != (int64_t)row) return text;
        for (size_t c = 0; c < width_of(s); c++)
            if (!is_value(s, rows.values, at * width_of(s) + c, sum_of(s, on->size, row, c)))
                return text;
        at++;
    }
    return at == rows.count ? NULL : "there are rows that no rank gave: the result is wrong";
}

static const char *sum(const struct random_step *s, const struct program_comm *on,
                       struct given *given, enum tutti_status *status, char text[160])
{
    struct tutti_sparse_options options = TUTTI_SPARSE_OPTIONS_INIT;
    struct tutti_sparse *result;
    for (size_t row = (size_t)s->count; row-- > 0;)
        if (has_row(s, on->rank, row)) add_row(given, s, on->rank, row);
    const struct tutti_sparse_rows rows = {
        (size_t)s->count, width_of(s),    (enum tutti_dtype)s->dtype,
        given->count,     given->indices, given->values};
    options.deterministic = s->deterministic;
    if (s->way != PROGRAM_PUSH) options.way = (enum tutti_sparse_way)s->way;
    *status = s->way == PROGRAM_PUSH
                  ? tutti_sparse_push(&rows, TUTTI_SUM, &options, on->comm, &result)
                  : tutti_sparse_allreduce(&rows, TUTTI_SUM, &options, on->comm, &result);
    if (*status != TUTTI_OK) return result == NULL ? NULL : "a result of a call that failed";
    const char *const complaint = check_sums(s, on, result, text);
    (void)tutti_sparse_free(result);
    return complaint;
}

/* -------------------------------------------------------------------------------------- from a table */

/* The table has the values that a rank behind all would give. */
static const char *pull(const struct random_step *s, const struct program_comm *on,
                        struct given *given, enum tutti_status *status, char text[160])
{
    const int nobody = PROGRAM_RANKS_MAX;
    struct given wanted;
    size_t first, count;
    if (!given_init(&wanted, s) ||
        tutti_sparse_range((size_t)s->count, on->size, on->rank, &first, &count) != TUTTI_OK) {
        given_release(&wanted);
        return "no memory, or no range";
    }
    for (size_t row = first; row < first + count; row++) add_row(given, s, nobody, row);
    for (size_t row = (size_t)s->count; row-- > 0;)
        if (has_row(s, on->rank, row)) wanted.indices[wanted.count++] = (int64_t)row;
    if (wanted.count > 0) { /* as the last one once more; there is room for it */
        wanted.indices[wanted.count] = wanted.indices[0];
        wanted.count++;
    }
    const struct tutti_sparse_table table = {(size_t)s->count, width_of(s),
                                             (enum tutti_dtype)s->dtype, given->values};
    *status = tutti_sparse_pull(&table, wanted.indices, wanted.count, wanted.values, NULL, on->comm);
    const char *complaint = NULL;
    for (size_t i = 0; *status == TUTTI_OK && i < wanted.count * width_of(s); i++) {
        const size_t row = (size_t)wanted.indices[i / width_of(s)];
        if (is_value(s, wanted.values, i, value_of(s, nobody, row, i % width_of(s)))) continue;
        snprintf(text, 160, "row %zu from its owner is wrong", row);
        complaint = text;
    }
    given_release(&wanted);
    return complaint;
}

const char *program_sparse_run(const struct random_step *step, const struct program_comm *on,
                               enum tutti_status *status, char text[160])
{
    struct given given;
    const char *complaint = "no memory";
    *status = TUTTI_OK;
    if (given_init(&given, step))
        complaint = (step->way == PROGRAM_PULL ? pull : sum)(step, on, &given, status, text);
    given_release(&given);
    return complaint;
}
