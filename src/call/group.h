/* group.h - calls between tutti_group_begin and tutti_group_end. */
#ifndef TUTTI_CALL_GROUP_H
#define TUTTI_CALL_GROUP_H

#include "base/group_depth.h"
#include "tutti/tutti.h"

/* Adds one that was started to the open group. */
enum tutti_status group_add(struct tutti_request *request);

#endif
