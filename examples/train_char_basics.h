/* train_char_basics.h - errors, memory, time and chance in examples/train_char. */
#ifndef EXAMPLES_TRAIN_CHAR_BASICS_H
#define EXAMPLES_TRAIN_CHAR_BASICS_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

extern int my_rank; /* for messages */

void give_up(const char *what, const char *why);
/* Gives up with Tutti's message if the status is not OK. */
void check(enum tutti_status status, const char *what);
/* Zeros; gives up if there is no memory. */
void *allocate(size_t count, size_t size);
/* Memory that the other ranks can read in place, for buffers that we pass to tutti again and again. */
float *allocate_shared(size_t count);
double now_s(void);
/* A random number that is a function of its place, so that any rank can ask for any of them. */
uint64_t random_at(uint64_t seed, uint64_t place);
double random_unit(uint64_t seed, uint64_t place); /* from 0 to below 1 */

#endif
