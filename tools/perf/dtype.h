/* dtype.h - the dtypes as tutti-perf knows them: the numbers that they hold exactly, and
 * how a number becomes an element. Does not use the library's own conversions, which it helps to
 * check.
 *
 * Elements lie at any alignment.
 */
#ifndef TUTTI_TOOLS_PERF_DTYPE_H
#define TUTTI_TOOLS_PERF_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum number_kind { NUMBER_REAL, NUMBER_SIGNED, NUMBER_UNSIGNED };
enum { ELEMENT_BYTES_MAX = 8 };

enum number_kind number_kind(enum tutti_dtype dtype);
/* The number up to which all integers from 0 on are exact, and, for signed dtypes, all negative
 * ones as well. At most 2^62. */
uint64_t number_exact_max(enum tutti_dtype dtype);
/* For reals: the exponent up to which 2^k and 2^-k are exact for all k. */
int number_exponent_max(enum tutti_dtype dtype);

/* The low bits of a word, as an element of that many bytes. */
void word_store(size_t element_bytes, uint64_t word, void *element);
uint64_t word_load(size_t element_bytes, const void *element);
/* The word that results if a word is stored and read back: integers are extended by sign or zeros,
 * everything else by zeros. */
uint64_t word_narrowed(enum tutti_dtype dtype, uint64_t word);
/* Rounded once to nearest even; 8- and 16-bit floats by way of float32. Reals only. */
void real_store(enum tutti_dtype dtype, double value, void *element);
double real_load(enum tutti_dtype dtype, const void *element);
/* One element as text for people, for messages. */
void element_text(enum tutti_dtype dtype, const void *element, char *text, size_t text_bytes);

#endif
