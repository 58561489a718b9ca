#include "tests/kit/minimise.h"

#include <stdlib.h>
#include <string.h>

/* With one edit each for the indexes first + count - 1 down to first. */
static bool try_edits(const struct minimise *search, minimise_edit *edit, int first, int count)
{
    void *const candidate = malloc(search->bytes);
    if (candidate == NULL) abort();
    memcpy(candidate, search->best, search->bytes);
    for (int i = first + count - 1; i >= first; i--) edit(candidate, i);
    const bool takes = memcmp(candidate, search->best, search->bytes) != 0 &&
                       search->is_valid(candidate) && search->fails(candidate, search->context);
    if (takes) memcpy(search->best, candidate, search->bytes);
    free(candidate);
    return takes;
}

bool minimise_try(const struct minimise *search, minimise_edit *edit, int index)
{
    return try_edits(search, edit, index, 1);
}

void minimise_drop(const struct minimise *search, int (*count_of)(const void *), minimise_edit *drop)
{
    int many = 1;
    while (many * 4 <= count_of(search->best)) many *= 2;
    for (; many > 0; many /= 2)
        for (int end = count_of(search->best); end > 0; end -= many) {
            const int first = end > many ? end - many : 0;
            try_edits(search, drop, first, end - first);
        }
}
