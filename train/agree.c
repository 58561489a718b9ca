#include "agree.h"

#include <stdlib.h>
#include <string.h>

#include "outside_group.h"

/* ------------------------------------------------------------------------ a rank that could not */

/* Message of the rank `teller`, for all. The ranks that failed keep their own. */
static enum tutti_status hear_failure(struct tutti_comm *comm, enum tutti_status status,
                                      const char *function, const char *message, int teller)
{
    char heard[ERROR_TEXT_MAX];
    memcpy(heard, message, sizeof heard);
    const enum tutti_status told =
        tutti_broadcast(heard, heard, sizeof heard, TUTTI_UINT8, teller, comm);
    if (status != TUTTI_OK) return error_set(status, "%s", message);
    if (told != TUTTI_OK) return told;
    heard[sizeof heard - 1] = '\0';
    const size_t length = strlen(function);
    const bool is_named = strncmp(heard, function, length) == 0 && heard[length] == ':';
    return error_set(TUTTI_MISMATCH, "%s: rank %d failed: %s", function, teller,
                     is_named ? heard + length + 2 : heard);
}

/* ---------------------------------------------------------------------------- ranks that differ */

/* More than the arguments of any model: from a rank that makes no sense. */
#define LINES_BYTES_MAX (UINT64_C(1) << 30)

struct lines {
    char *text;
    size_t size;
};

static struct lines describe(const struct agreement *agreement)
{
    struct lines lines = {NULL, 0};
    FILE *const out = open_memstream(&lines.text, &lines.size);
    if (out == NULL) return lines;
    agreement->describe(agreement->context, out);
    if (fclose(out) == 0) return lines;
    free(lines.text);
    return (struct lines){NULL, 0};
}

/* The line of the text from `at` on, without its end. */
static struct lines line_at(const struct lines *lines, size_t at)
{
    char *const begin = lines->text + (at < lines->size ? at : lines->size);
    const size_t left = lines->size - (size_t)(begin - lines->text);
    const char *const end = left > 0 ? memchr(begin, '\n', left) : NULL;
    return (struct lines){begin, end != NULL ? (size_t)(end - begin) : left};
}

/* The first line that is another one than rank 0's. OK, if there is none. */
static enum tutti_status compare(const struct lines *own, const struct lines *first,
                                 const char *function, int rank)
{
    for (size_t at = 0; at < own->size || at < first->size;) {
        const struct lines mine = line_at(own, at), theirs = line_at(first, at);
        if (mine.size != theirs.size || memcmp(mine.text, theirs.text, mine.size) != 0)
            return error_set(TUTTI_MISMATCH, "%s: rank 0 has '%.*s', rank %d has '%.*s'", function,
                             (int)(theirs.size < 160 ? theirs.size : 160), theirs.text, rank,
                             (int)(mine.size < 160 ? mine.size : 160), mine.text);
        at += mine.size + 1;
    }
    return TUTTI_OK;
}

/* All ranks that are here differ from some other one, or could not say. */
static enum tutti_status tell_difference(struct tutti_comm *comm, const struct agreement *agreement,
                                         const struct lines *own, const struct lines *first)
{
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    const bool is_there = own->text != NULL && first->text != NULL;
    int64_t numbers[2] = {is_there, 0};
    TRY(tutti_allreduce(numbers, numbers, 1, TUTTI_INT64, TUTTI_MIN, comm));
    if (numbers[0] == 0)
        return error_set(TUTTI_NO_MEMORY, "%s: out of memory", agreement->function);
    TRY(tutti_broadcast(first->text, first->text, first->size, TUTTI_UINT8, 0, comm));
    char message[ERROR_TEXT_MAX] = "";
    numbers[0] = size;
    if (compare(own, first, agreement->function, rank) != TUTTI_OK) {
        numbers[0] = rank;
        error_copy(message, sizeof message);
    }
    TRY(tutti_allreduce(numbers, numbers, 1, TUTTI_INT64, TUTTI_MIN, comm));
    if (numbers[0] < size) {
        TRY(tutti_broadcast(message, message, sizeof message, TUTTI_UINT8, (int)numbers[0], comm));
        message[sizeof message - 1] = '\0';
        return error_set(TUTTI_MISMATCH, "%s", message);
    }
    return error_set(TUTTI_MISMATCH, "%s: the ranks' arguments differ", agreement->function);
}

static enum tutti_status find_difference(struct tutti_comm *comm, const struct agreement *agreement)
{
    struct lines own = describe(agreement), first = {NULL, 0};
    uint64_t bytes = own.size;
    enum tutti_status status = tutti_broadcast(&bytes, &bytes, 1, TUTTI_UINT64, 0, comm);
    if (status == TUTTI_OK) {
        first.size = (size_t)bytes;
        if (bytes < LINES_BYTES_MAX) first.text = malloc(first.size + 1);
        if (tutti_comm_rank(comm) == 0 && first.text != NULL && own.text != NULL)
            memcpy(first.text, own.text, own.size);
        status = tell_difference(comm, agreement, &own, &first);
    }
    free(own.text);
    free(first.text);
    return status;
}

/* ------------------------------------------------------------------------------------- together */

enum tutti_status agree_on_making(struct tutti_comm *comm, enum tutti_status status,
                                  const struct agreement *agreement, bool *is_common)
{
    char message[ERROR_TEXT_MAX] = "";
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    const int64_t own = status == TUTTI_OK ? agreement->fingerprint : 0;
    const int64_t send[4] = {own, -own, status == TUTTI_OK ? size : rank,
                             status == TUTTI_OK && is_common != NULL && *is_common};
    int64_t least[4];
    TRY(outside_group(agreement->function));
    error_copy(message, sizeof message);
    const enum tutti_status reduced = tutti_allreduce(send, least, 4, TUTTI_INT64, TUTTI_MIN, comm);
    if (reduced != TUTTI_OK) return status == TUTTI_OK ? reduced : error_set(status, "%s", message);
    if (least[2] < size)
        return hear_failure(comm, status, agreement->function, message, (int)least[2]);
    if (least[0] != -least[1]) return find_difference(comm, agreement);
    if (is_common != NULL) *is_common = least[3] != 0;
    return TUTTI_OK;
}
