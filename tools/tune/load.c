#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "call/communicator.h"

/* A rank's message to the others. */
struct report {
    char machine[LOAD_MACHINE_SIZE];
    uint64_t own_ns;
    struct tune_load found;
};

enum tutti_status tune_load_begin(struct tutti_comm *comm, struct load *load)
{
    TRY(tutti_barrier(comm));
    load_begin(load);
    return TUTTI_OK;
}

static enum tutti_status gather(struct tutti_comm *comm, const struct report *own,
                                struct report *all)
{
    return tutti_allgather(own, all, sizeof *own, TUTTI_UINT8, comm);
}

static bool is_worse(const struct load_verdict *one, const struct load_verdict *other)
{
    if (one->is_loaded != other->is_loaded) return one->is_loaded;
    return one->others_percent + one->stolen_percent > other->others_percent + other->stolen_percent;
}

static enum tutti_status compare(struct tutti_comm *comm, const struct load *load,
                                 struct report *all, struct tune_load *result)
{
    const int rank_count = tutti_comm_size(comm);
    struct report own = {.own_ns = load_own_ns(load)};
    load_machine(own.machine);
    snprintf(own.found.host, sizeof own.found.host, "%.63s", comm->team.members.host_name);
    TRY(gather(comm, &own, all));
    uint64_t used_ns = 0;
    for (int i = 0; i < rank_count; i++)
        if (strcmp(all[i].machine, own.machine) == 0) used_ns += all[i].own_ns;
    own.found.verdict = load_end(load, used_ns);
    TRY(gather(comm, &own, all));
    *result = all[0].found;
    for (int i = 1; i < rank_count; i++)
        if (is_worse(&all[i].found.verdict, &result->verdict)) *result = all[i].found;
    return TUTTI_OK;
}

enum tutti_status tune_load_end(struct tutti_comm *comm, const struct load *load,
                                struct tune_load *result)
{
    struct report *const all = calloc((size_t)tutti_comm_size(comm), sizeof *all);
    if (all == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    enum tutti_status status = tutti_barrier(comm);
    if (status == TUTTI_OK) status = compare(comm, load, all, result);
    free(all);
    return status;
}
