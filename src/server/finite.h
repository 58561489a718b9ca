/* finite.h - whether numbers that go into tables are finite. */
#ifndef TUTTI_SERVER_FINITE_H
#define TUTTI_SERVER_FINITE_H

#include <stddef.h>

/* The first number that is NaN or infinite, or count. */
size_t finite_end(size_t count, const float *numbers);

#endif
