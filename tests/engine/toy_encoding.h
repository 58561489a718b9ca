/* toy_encoding.h - kernels for encodings that make two bytes of each element of four. A unit is its
 * first element in 16 bits, and how each other one differs from that; what is no number of 15 bits
 * fails. With units of several elements nothing can be read from its middle. */
#ifndef TUTTI_TESTS_ENGINE_TOY_ENCODING_H
#define TUTTI_TESTS_ENGINE_TOY_ENCODING_H

#include "kernel/kernel.h"

/* They sum int32. An encoding of theirs has 2 bytes for each element of a unit. */
extern const struct kernel_set toy_kernels;

#endif
