/* nearness.h - the order of ranks in which those that share a core, a cache or a package stand side
 * by side.
 *
 *     rank r on core r % 2:   0 1 2 3 4 5   ->   0 2 4 1 3 5
 *
 * Only parts that no rank can leave count: as soon as one rank may run anywhere, the order is that
 * of their numbers.
 *
 * Pure: every rank computes the same order from the same words.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_NEARNESS_H
#define TUTTI_TRANSPORT_LOCAL_NEARNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "os/cpu.h"

/* The word by which a rank tells the others its place: 16 bits per level, the largest part in the
 * highest bits. */
uint64_t nearness_word(const struct cpu_binding *place);
/* Fills order with the ranks, sorted by their words and then by number. False: the ranks stay as
 * they are numbered, as they also do if a word makes no sense. The words are foreign, and the
 * function changes them. */
bool nearness_order(uint64_t *words, int rank_count, int *order);

#endif
