/* text.h - prints a topology for terminals. */
#ifndef TUTTI_TOOLS_TOPO_TEXT_H
#define TUTTI_TOOLS_TOPO_TEXT_H

#include <stdio.h>

#include "topo/topo.h"

enum { MATRIX_MAX = 512 }; /* rows */

/* All functions return a status; tutti_error_message() has its message. */

/* Prints a tree of the parts of the machine, and below it the links. */
enum tutti_status print_tree(const struct topo *topo, FILE *file);
/* Prints a table of ranks (or processing units, or machines, whichever is the finest there is) and
 * devices against each other: the smallest part that contains both. If the bandwidth of the path
 * between them is known, a second table has it. */
enum tutti_status print_matrix(const struct topo *topo, FILE *file);
/* Prints the groups of the ranks at each level. */
enum tutti_status print_levels(const struct topo *topo, FILE *file);

#endif
