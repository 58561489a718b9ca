#include "outside_group.h"

#include "base/group_depth.h"

enum tutti_status outside_group(const char *function)
{
    if (!group_is_open()) return TUTTI_OK;
    return error_set(TUTTI_INVALID_REQUEST,
                     "%s: must not be called between tutti_group_begin and tutti_group_end",
                     function);
}
