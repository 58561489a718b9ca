/* dumped.h - the words that a dump of a communicator has. */
#ifndef TUTTI_TESTS_WORLDS_DUMPED_H
#define TUTTI_TESTS_WORLDS_DUMPED_H

#include "tutti/tutti.h"

/* How often the text stands in a dump that this rank writes now, in a directory of its own that is
 * gone again; -1: there is no dump. */
int dumped_count(struct tutti_comm *comm, const char *text);

#endif
