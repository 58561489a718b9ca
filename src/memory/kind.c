#include "memory/kind.h"

_Atomic(memory_kind_finder *) memory_kind_driver;
