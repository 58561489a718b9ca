/* tutti-topo_text.h - a topology for terminals. */
#ifndef TUTTI_TOOLS_TOPO_TEXT_H
#define TUTTI_TOOLS_TOPO_TEXT_H

#include <stdio.h>

#include "topo/topo.h"

enum { MATRIX_MAX = 512 }; /* rows */

/* All return a status, and its message in tutti_error_message(). */

/* A tree of what contains what, and below it the links. */
enum tutti_status print_tree(const struct topo *topo, FILE *file);
/* Ranks (or processing units, or machines, whatever is the finest there is) and devices against each other: what the smallest
 * thing is that contains both; and in a second table what the way between them carries, where that is known. */
enum tutti_status print_matrix(const struct topo *topo, FILE *file);
/* The groups of the ranks at each level. */
enum tutti_status print_levels(const struct topo *topo, FILE *file);

#endif
