/* minimise.h - makes any input that fails smaller, as long as it still fails.
 *
 * A candidate is a plain struct of `bytes` bytes that can be copied, valid or not. The best
 * candidate so far is always valid and fails, also at the end. A candidate that an edit did not
 * change is not tried. One thread.
 */
#ifndef TUTTI_TESTS_KIT_MINIMISE_H
#define TUTTI_TESTS_KIT_MINIMISE_H

#include <stdbool.h>
#include <stddef.h>

struct minimise {
    void *best;
    size_t bytes;
    bool (*is_valid)(const void *candidate);
    bool (*fails)(const void *candidate, void *context); /* asked of valid ones only */
    void *context;
};

/* Changes a candidate: drops its part number index, or makes that part simpler. */
typedef void minimise_edit(void *candidate, int index);

/* Applies the edit to a copy of the best candidate; if the copy is valid and fails, it becomes the
 * best one. Returns whether it did. */
bool minimise_try(const struct minimise *search, minimise_edit *edit, int index);
/* Drops as many as possible of the parts that count_of counts: many at once at first, then one by
 * one, from the last to the first. */
void minimise_drop(const struct minimise *search, int (*count_of)(const void *candidate),
                   minimise_edit *drop);

#endif
