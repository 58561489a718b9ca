/* tutti-perf_dtype.h - the dtypes as tutti-perf knows them: what they hold exactly, and how a number becomes an
 * element. Knows nothing of the library's own conversions, which it helps to check.
 *
 * Elements lie at any alignment.
 */
#ifndef TUTTI_PERF_DTYPE_H
#define TUTTI_PERF_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum number_kind { NUMBER_REAL, NUMBER_SIGNED, NUMBER_UNSIGNED };
enum { ELEMENT_BYTES_MAX = 8 };

enum number_kind number_kind(enum tutti_dtype dtype);
/* All integers from 0 up to it, and with either sign where there are signs, are exact. At most 2^62. */
uint64_t number_exact_max(enum tutti_dtype dtype);
/* For reals: 2^k and 2^-k are exact for all k up to it. */
int number_exponent_max(enum tutti_dtype dtype);

/* The low bits of a word, as an element of that many bytes. */
void word_store(size_t element_bytes, uint64_t word, void *element);
uint64_t word_load(size_t element_bytes, const void *element);
/* A word as it is once stored and read back: integers extended by sign or zeros, everything else by zeros. */
uint64_t word_narrowed(enum tutti_dtype dtype, uint64_t word);
/* Rounded once to nearest even; 8- and 16-bit floats by way of float32. Reals only. */
void real_store(enum tutti_dtype dtype, double value, void *element);
double real_load(enum tutti_dtype dtype, const void *element);
/* One element in words people read, for messages. */
void element_text(enum tutti_dtype dtype, const void *element, char *text, size_t text_bytes);

#endif
