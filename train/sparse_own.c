#include "sparse_own.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/status.h"
#include "sparse_sort.h"

enum tutti_status sparse_check_indices(const char *function, const int64_t *indices, size_t count,
                                       uint64_t row_count)
{
    uint64_t highest = 0; /* a negative index counts as a large one */
    for (size_t i = 0; i < count; i++)
        highest = (uint64_t)indices[i] > highest ? (uint64_t)indices[i] : highest;
    if (count == 0 || highest < row_count) return TUTTI_OK;
    size_t i = 0;
    while ((uint64_t)indices[i] < row_count) i++;
    return error_set(TUTTI_INVALID_COUNT,
                     "%s: indices[%zu] is %" PRId64 ", which is not a row of %" PRIu64, function, i,
                     indices[i], row_count);
}

/* Keys in the order of their indices; the caller frees *memory. NULL: out of memory. */
static struct sparse_key *sorted_keys(const int64_t *indices, size_t count, uint64_t row_count,
                                      struct sparse_key **memory)
{
    struct sparse_key *const keys = *memory = calloc(count, 2 * sizeof *keys);
    if (keys == NULL) return NULL;
    bool is_sorted = true;
    for (size_t i = 0; i < count; i++) {
        keys[i] = (struct sparse_key){indices[i], i};
        is_sorted &= i == 0 || indices[i - 1] <= indices[i];
    }
    return is_sorted ? keys : sparse_sort(keys, keys + count, count, row_count);
}

/* Different indices, in own->made_indices. */
static void take_indices(struct sparse_own *own, const struct sparse_key *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (i == 0 || keys[i].index != keys[i - 1].index)
            own->made_indices[own->count++] = keys[i].index;
    own->indices = own->made_indices;
}

/* Rows of equal indices are groups, whose sources stand in the order in which they were given. */
static enum tutti_status combine(struct sparse_own *own, const struct sparse_key *keys,
                                 size_t count, const void *values, const struct sparse_sum *sum)
{
    size_t *const starts = malloc((own->count + 1) * sizeof *starts);
    const void **const sources = malloc(count * sizeof *sources);
    own->values = own->made_values = calloc(own->count, sum->row_bytes);
    enum tutti_status status = TUTTI_NO_MEMORY;
    if (starts != NULL && sources != NULL && own->made_values != NULL) {
        size_t group = 0;
        for (size_t i = 0; i < count; i++) {
            sources[i] = (const char *)values + keys[i].position * sum->row_bytes;
            if (i == 0 || keys[i].index != keys[i - 1].index) starts[group++] = i;
        }
        starts[group] = count;
        status = sparse_sum_groups(sum, group, starts, sources, own->made_values);
    }
    free(starts);
    free(sources);
    return status;
}

static void note_places(struct sparse_own *own, const struct sparse_key *keys, size_t count)
{
    for (size_t i = 0, place = 0; i < count; i++) {
        place += i > 0 && keys[i].index != keys[i - 1].index;
        own->places[keys[i].position] = place;
    }
}

/* With values, or without if sum is NULL. */
static enum tutti_status put_in_order(struct sparse_own *own, const int64_t *indices, size_t count,
                                      uint64_t row_count, const void *values,
                                      const struct sparse_sum *sum)
{
    *own = (struct sparse_own){.indices = indices, .values = values, .count = count};
    if (sparse_is_increasing(indices, count)) return TUTTI_OK;
    struct sparse_key *memory = NULL;
    struct sparse_key *const keys = sorted_keys(indices, count, row_count, &memory);
    *own = (struct sparse_own){.made_indices = malloc(count * sizeof *own->made_indices)};
    enum tutti_status status = TUTTI_NO_MEMORY;
    if (keys != NULL && own->made_indices != NULL) {
        take_indices(own, keys, count);
        if (sum != NULL) {
            status = combine(own, keys, count, values, sum);
        } else if ((own->places = malloc(count * sizeof *own->places)) != NULL) {
            note_places(own, keys, count);
            status = TUTTI_OK;
        }
    }
    free(memory);
    if (status == TUTTI_OK) return TUTTI_OK;
    sparse_own_release(own);
    return error_set(status, "out of memory");
}

enum tutti_status sparse_own_rows(struct sparse_own *own, const struct tutti_sparse_rows *rows,
                                  const struct sparse_sum *sum)
{
    return put_in_order(own, rows->indices, rows->count, rows->row_count, rows->values, sum);
}

enum tutti_status sparse_own_indices(struct sparse_own *own, const int64_t *indices, size_t count,
                                     uint64_t row_count)
{
    return put_in_order(own, indices, count, row_count, NULL, NULL);
}

void sparse_own_release(struct sparse_own *own)
{
    free(own->made_indices);
    free(own->made_values);
    free(own->places);
    *own = (struct sparse_own){0};
}
