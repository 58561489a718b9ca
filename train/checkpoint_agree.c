#include "checkpoint_agree.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static const int64_t all_bytes_max = (int64_t)1 << 40;

struct report {
    int32_t status;
    char message[ERROR_TEXT_MAX];
};

/* All ranks get the status of the rank `teller`. */
static enum tutti_status hear(struct tutti_comm *comm, enum tutti_status status, int teller)
{
    struct report report = {.status = (int32_t)status};
    if (tutti_comm_rank(comm) == teller) error_copy(report.message, sizeof report.message);
    TRY(tutti_broadcast(&report, &report, sizeof report, TUTTI_UINT8, teller, comm));
    report.message[sizeof report.message - 1] = '\0';
    return error_set((enum tutti_status)report.status, "%s", report.message);
}

/* The least of the numbers behind the first one, which says who failed. `status` comes back if
 * ranks cannot be asked. */
static enum tutti_status ask(struct tutti_comm *comm, enum tutti_status status, int64_t *numbers,
                             size_t count)
{
    char message[ERROR_TEXT_MAX];
    const int64_t nobody = tutti_comm_size(comm);
    error_copy(message, sizeof message);
    numbers[0] = status == TUTTI_OK ? nobody : tutti_comm_rank(comm);
    const enum tutti_status asked =
        tutti_allreduce(numbers, numbers, count, TUTTI_INT64, TUTTI_MIN, comm);
    if (asked != TUTTI_OK) return status == TUTTI_OK ? asked : error_set(status, "%s", message);
    if (numbers[0] == nobody) return TUTTI_OK;
    if (status != TUTTI_OK) (void)error_set(status, "%s", message);
    return hear(comm, status, (int)numbers[0]);
}

enum tutti_status checkpoint_agree(struct tutti_comm *comm, enum tutti_status status)
{
    int64_t numbers[1];
    return ask(comm, status, numbers, 1);
}

enum tutti_status checkpoint_agree_whether(struct tutti_comm *comm, enum tutti_status status,
                                           bool answer, bool *is_yes)
{
    int64_t numbers[2] = {0, answer};
    status = ask(comm, status, numbers, 2);
    *is_yes = numbers[1] != 0;
    return status;
}

/* All ranks know that the numbers differ. The other ranks should have the numbers of rank 0. */
static enum tutti_status tell_difference(struct tutti_comm *comm, const char *function,
                                         const struct agree_number *numbers, size_t count)
{
    uint64_t first[AGREE_NUMBERS_MAX];
    enum tutti_status status = TUTTI_OK;
    for (size_t i = 0; i < count; i++) first[i] = numbers[i].value;
    TRY(tutti_broadcast(first, first, count, TUTTI_UINT64, 0, comm));
    for (size_t i = 0; i < count && status == TUTTI_OK; i++)
        if (numbers[i].value != first[i])
            status = error_set(TUTTI_MISMATCH, "%s: %s is %llu on rank 0, and %llu on rank %d",
                               function, numbers[i].name, (unsigned long long)first[i],
                               (unsigned long long)numbers[i].value, tutti_comm_rank(comm));
    return checkpoint_agree(comm, status);
}

enum tutti_status checkpoint_agree_on(struct tutti_comm *comm, enum tutti_status status,
                                      const char *function, const struct agree_number *numbers,
                                      size_t count)
{
    int64_t both[1 + 4 * AGREE_NUMBERS_MAX];
    assert(count <= AGREE_NUMBERS_MAX);
    for (size_t i = 0; i < count; i++) { /* halves, whose negative numbers exist */
        const uint64_t value = numbers[i].value;
        const int64_t low = (int64_t)(value & UINT32_MAX), high = (int64_t)(value >> 32);
        both[1 + 4 * i] = low;
        both[2 + 4 * i] = -low;
        both[3 + 4 * i] = high;
        both[4 + 4 * i] = -high;
    }
    TRY(ask(comm, status, both, 1 + 4 * count));
    for (size_t i = 1; i <= 4 * count; i += 2)
        if (both[i] != -both[i + 1]) return tell_difference(comm, function, numbers, count);
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- tables */

struct gathered {
    int64_t *sizes; /* [tables] */
    size_t *counts; /* bytes of each rank */
    unsigned char *bytes;
};

static enum tutti_status no_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "checkpoint: out of memory");
}

/* Counts the bytes of all ranks together, and refuses absurd sizes. */
static enum tutti_status count_bytes(struct gathered *gathered, size_t table_count, size_t ranks,
                                     size_t *all)
{
    *all = 0;
    for (size_t t = 0; t < table_count; t++) {
        if (gathered->sizes[t] < 0 || gathered->sizes[t] > all_bytes_max - (int64_t)*all)
            return error_set(TUTTI_CORRUPT, "checkpoint: the tables are too large");
        gathered->counts[t % ranks] += (size_t)gathered->sizes[t];
        *all += (size_t)gathered->sizes[t];
    }
    return TUTTI_OK;
}

static enum tutti_status parse_all(const struct gathered *gathered, size_t table_count,
                                   size_t ranks, struct table *tables)
{
    const unsigned char *at = gathered->bytes;
    for (size_t r = 0; r < ranks; r++)
        for (size_t t = r; t < table_count; t += ranks) {
            TRY(table_parse(at, (size_t)gathered->sizes[t], &tables[t]));
            at += gathered->sizes[t];
        }
    return TUTTI_OK;
}

static enum tutti_status gather(struct tutti_comm *comm, enum tutti_status status,
                                const unsigned char *bytes, size_t table_count,
                                struct gathered *gathered, struct table *tables)
{
    const size_t ranks = (size_t)tutti_comm_size(comm);
    size_t all = 0;
    if (status == TUTTI_OK && (gathered->sizes == NULL || gathered->counts == NULL || tables == NULL))
        status = no_memory();
    TRY(checkpoint_agree(comm, status));
    TRY(tutti_allreduce(gathered->sizes, gathered->sizes, table_count, TUTTI_INT64, TUTTI_SUM, comm));
    TRY(count_bytes(gathered, table_count, ranks, &all)); /* the same on all ranks */
    gathered->bytes = malloc(all + 1);
    TRY(checkpoint_agree(comm, gathered->bytes != NULL ? TUTTI_OK : no_memory()));
    static const unsigned char nothing[1]; /* an address, where this rank has no bytes */
    if (bytes == NULL) bytes = nothing;
    TRY(tutti_allgatherv(bytes, gathered->bytes, gathered->counts, NULL, TUTTI_UINT8, comm));
    return checkpoint_agree(comm, parse_all(gathered, table_count, ranks, tables));
}

enum tutti_status checkpoint_agree_on_tables(struct tutti_comm *comm, enum tutti_status status,
                                             const unsigned char *bytes, const int64_t *sizes,
                                             size_t table_count, struct table **tables)
{
    struct gathered gathered = {.sizes = calloc(table_count + 1, sizeof *gathered.sizes),
                                .counts =
                                    calloc((size_t)tutti_comm_size(comm), sizeof *gathered.counts)};
    *tables = calloc(table_count + 1, sizeof **tables);
    if (gathered.sizes != NULL && sizes != NULL)
        memcpy(gathered.sizes, sizes, table_count * sizeof *sizes);
    status = gather(comm, status, bytes, table_count, &gathered, *tables);
    free(gathered.sizes);
    free(gathered.counts);
    free(gathered.bytes);
    if (status == TUTTI_OK) return TUTTI_OK;
    checkpoint_agree_release_tables(*tables, table_count);
    *tables = NULL;
    return status;
}

void checkpoint_agree_release_tables(struct table *tables, size_t count)
{
    for (size_t t = 0; tables != NULL && t < count; t++) table_release(&tables[t]);
    free(tables);
}
