/* choices.h - prints why calls got their algorithms. */
#ifndef TUTTI_TOOLS_TRACE_CHOICES_H
#define TUTTI_TOOLS_TRACE_CHOICES_H

#include <stdio.h>

#include "studio/trace/trace_json.h"

/* Prints a line for each choice, the oldest first, and lines for the user's plans that were not
 * chosen; each begins with four blanks. */
void show_choices(const struct trace_json *trace, FILE *file);

#endif
