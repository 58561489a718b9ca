/* minimise.h - makes what fails smaller, as long as it still fails, whatever it is.
 *
 * A candidate is a plain struct that can be copied: of `bytes` bytes, valid or not. The best one so far is valid and fails; so it is
 * in the end. An edit that changes nothing is not asked about. One thread.
 */
#ifndef TUTTI_TESTS_MINIMISE_H
#define TUTTI_TESTS_MINIMISE_H

#include <stdbool.h>
#include <stddef.h>

struct minimise {
    void *best;
    size_t bytes;
    bool (*is_valid)(const void *candidate);
    bool (*fails)(const void *candidate, void *context); /* asked of valid ones only */
    void *context;
};

/* Changes a candidate: drops its thing number index, or makes that one simpler. */
typedef void minimise_edit(void *candidate, int index);

/* The best one with that edit is the best one, if it is valid and fails; returns whether. */
bool minimise_try(const struct minimise *search, minimise_edit *edit, int index);
/* Drops what can go of the things that count_of tells: many at once at first, then one by one, from the last to the first. */
void minimise_drop(const struct minimise *search, int (*count_of)(const void *candidate),
                   minimise_edit *drop);

#endif
