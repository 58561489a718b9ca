/* Whatever verdicts come from other ranks: a rank is found only if two other ranks accuse it, or one in a team of two, and
 * never because a single rank says so.
 *
 * The input: the size of the team, the difference that makes a witness, the shares of all ranks, and their verdicts; the
 * rest is zero. */
#include <stdlib.h>
#include <string.h>

#include "elastic_table.h"

enum { SIZE_MAX_RANKS = 12 };

static int count_accusers(const uint8_t *verdicts, int size, int on)
{
    int count = 0;
    for (int by = 0; by < size; by++) {
        const uint8_t verdict = verdicts[by * size + on];
        count += by != on && verdict != TUTTI_CAUSE_NONE && verdict <= TUTTI_CAUSE_DEVICE;
    }
    return count;
}

static int find(const uint8_t *verdicts, int size)
{
    enum tutti_cause cause;
    const int found = elastic_table_find(verdicts, size, &cause);
    if (found < -1 || found >= size || (found >= 0) != (cause != TUTTI_CAUSE_NONE)) abort();
    if (found >= 0 && count_accusers(verdicts, size, found) < (size > 2 ? ELASTIC_WITNESSES_MIN : 1))
        abort();
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t shares[SIZE_MAX_RANKS] = {0}, all[SIZE_MAX_RANKS * SIZE_MAX_RANKS] = {0};
    if (bytes < 2) return 0;
    const int size = 2 + data[0] % (SIZE_MAX_RANKS - 1), share_min = 1 + data[1] % 255;
    const size_t cells = (size_t)size * (size_t)size;
    data += 2, bytes -= 2;
    const size_t given = bytes < (size_t)size ? bytes : (size_t)size;
    memcpy(shares, data, given);
    memcpy(all, data + given, bytes - given < cells ? bytes - given : cells);
    uint8_t *const exact = malloc(cells); /* the sanitizer sees what lies beyond */
    if (exact == NULL) abort();
    for (int liar = 0; liar < size && size > 2; liar++) { /* the others accuse nobody */
        memset(exact, 0, cells);
        memcpy(exact + liar * size, all + liar * size, (size_t)size);
        if (find(exact, size) >= 0) abort();
    }
    memcpy(exact, all, cells);
    (void)find(exact, size);
    elastic_table_add_witnesses(exact, shares, size, share_min);
    (void)find(exact, size);
    free(exact);
    return 0;
}
