#include "ran.h"

#include <assert.h>

#include "call/chosen.h"

static_assert((int)RAN_NAME_SIZE == (int)CHOSEN_NAME_SIZE, "as the library has it");

void ran_name(const struct tutti_comm *comm, char name[static RAN_NAME_SIZE])
{
    chosen_name_latest(comm, name);
}
