/* ran.h - which algorithm ran. It stands apart because the library has other structs of the names
 * that tutti-perf uses. */
#ifndef TUTTI_TOOLS_PERF_RAN_H
#define TUTTI_TOOLS_PERF_RAN_H

#include "tutti/tutti.h"

enum { RAN_NAME_SIZE = 128 };

/* The algorithm of this rank's latest call on the communicator, as --algo names it; empty: a
 * message, or a rank alone, has none. */
void ran_name(const struct tutti_comm *comm, char name[static RAN_NAME_SIZE]);

#endif
