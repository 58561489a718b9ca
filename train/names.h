/* names.h - names of tensors, to which a block's state belongs: in checkpoints, and in the exchange
 * between old and new lists. */
#ifndef TUTTI_TRAIN_NAMES_H
#define TUTTI_TRAIN_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum { NAME_BYTES_MAX = 150 }; /* so that a checkpoint's names have room for what is behind it */

/* INVALID_OPTIONS: the name of tensor `index` is NULL, empty, too long, or has control characters.
 * Messages begin with `function`. */
enum tutti_status name_check(const char *function, const char *name, size_t index);
/* INVALID_OPTIONS: two names are the same. Reorders the list. */
enum tutti_status names_check_differ(const char *function, const char **names, size_t count);
/* Takes a name into a hash, as hash_take takes a number. */
uint64_t name_hash(uint64_t hash, const char *name);

#endif
