/* footprint.h - bytes that malloc holds for programs and operations, including what malloc adds. */
#ifndef TUTTI_ENGINE_FOOTPRINT_H
#define TUTTI_ENGINE_FOOTPRINT_H

#include <stddef.h>

struct program;
struct operation;

size_t program_bytes(const struct program *program);
/* Without the struct itself. */
size_t operation_bytes(const struct operation *operation);

#endif
