/* group_depth.h - whether this thread's blocking calls only start, because a group is open.
 */
#ifndef TUTTI_BASE_GROUP_DEPTH_H
#define TUTTI_BASE_GROUP_DEPTH_H

#include <stdbool.h>

/* The number of open groups of this thread; call/group.c counts. Every call reads it, so it has a
 * place of its own. */
extern _Thread_local unsigned group_depth __attribute__((tls_model("initial-exec")));
static inline bool group_is_open(void)
{
    return __builtin_expect(group_depth > 0, 0);
}

#endif
