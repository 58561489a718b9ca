/* text.h - prints a table of measured choices for terminals. */
#ifndef TUTTI_TOOLS_TUNE_TEXT_H
#define TUTTI_TOOLS_TUNE_TEXT_H

#include <stdio.h>

#include "tune/table.h"

void print_table(const struct tune_table *table, FILE *file);

#endif
