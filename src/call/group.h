/* group.h - calls between tutti_group_begin and tutti_group_end. */
#ifndef TUTTI_CALL_GROUP_H
#define TUTTI_CALL_GROUP_H

#include <stdbool.h>

#include "tutti/tutti.h"

/* The number of open groups of this thread. Every call reads it, so it has a place of its own. */
extern _Thread_local unsigned group_depth __attribute__((tls_model("initial-exec")));
/* Whether this thread's calls are to be started, and one that was. */
static inline bool group_is_open(void)
{
    return __builtin_expect(group_depth > 0, 0);
}
enum tutti_status group_add(struct tutti_request *request);

#endif
