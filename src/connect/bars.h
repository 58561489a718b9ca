/* bars.h - processes and hosts that a team lets in no more: it has put their ranks out.
 *
 *     comm/exclude.c adds ──► the new communicator's list ──► every communicator that is made from it
 *                                        │                      and every process that joins (admission_message.h)
 *                                        └──► the admitting rank refuses processes that are on it (admission.h)
 *
 * 1. All ranks of a communicator have the same list, in the same order: it follows from the ranks that
 *    they agreed to put out.
 * 2. A process is known by its host (host_id.h) and its pid there. When another process of that host
 *    gets the same pid, it counts as the same.
 * 3. A list has BARS_MAX entries at most; the oldest one makes room.
 *
 * A process says itself which host and pid it has. So the list keeps out processes that do not lie,
 * with what they remember or without; a process that has the job's secret and lies gets in. */
#ifndef TUTTI_CONNECT_BARS_H
#define TUTTI_CONNECT_BARS_H

#include <stdint.h>

#include "tutti/exclude.h"

enum { BARS_MAX = 256, BAR_ANY_PID = 0 };

struct bar {
    uint64_t host; /* see host_id_read */
    int32_t pid;   /* BAR_ANY_PID: all processes of the host */
    int32_t cause; /* enum tutti_cause */
};

struct bars {
    int count;
    struct bar all[BARS_MAX];
};

/* A copy, with free(); of NULL an empty list. NULL: out of memory. */
struct bars *bars_copy(const struct bars *bars);
void bars_add(struct bars *bars, const struct bar *bar);
/* The entry that keeps a process out; NULL: none does. bars may be NULL. */
const struct bar *bars_find(const struct bars *bars, uint64_t host, int pid);

#endif
