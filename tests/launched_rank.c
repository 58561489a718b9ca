#include "launched_rank.h"

#include <stdio.h>
#include <stdlib.h>

static void set_number(const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

void launched_rank_become(const struct launched_rank *self)
{
    const int host = self->rank % self->hosts;
    set_number("RANK", self->rank);
    set_number("WORLD_SIZE", self->size);
    set_number("LOCAL_RANK", self->rank / self->hosts);
    set_number("LOCAL_WORLD_SIZE", (self->size + self->hosts - 1 - host) / self->hosts);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", self->port);
    if (self->hosts > 1) set_number("TUTTI_HOSTID", host);
}
