#include "base/group_depth.h"

_Thread_local unsigned group_depth;
