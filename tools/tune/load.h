/* load.h - whether others used the machines of a job while it measured (os/load.h): each rank looks
 * at its own machine, on which all ranks count as those that measure.
 */
#ifndef TUTTI_TOOLS_TUNE_LOAD_H
#define TUTTI_TOOLS_TUNE_LOAD_H

#include "studio/load.h"
#include "tutti/tutti.h"

enum { TUNE_HOST_SIZE = 64 };

/* The load of the host that other programs used most. */
struct tune_load {
    char host[TUNE_HOST_SIZE];
    struct load_verdict verdict;
};

/* Collective over comm, as tune_load_end is. */
enum tutti_status tune_load_begin(struct tutti_comm *comm, struct load *load);
/* The same result on all ranks. NO_MEMORY, and failures of comm. */
enum tutti_status tune_load_end(struct tutti_comm *comm, const struct load *load,
                                struct tune_load *result);

#endif
