/* footprint.c - what a communicator costs this rank, counted from its parts.
 *
 * Private memory is what malloc holds for it, including what malloc adds; of a thread that shares a
 * mapping with another rank, its own part. Shared memory is what this rank reserved to write into,
 * its counters, and its part of what all have in common: over all ranks they add up to the segment.
 * Descriptors that communicators share (one a process that has ranks in them, one a heap) count for
 * each that uses them. Not counted: messages that nobody has received yet (they have a bound of
 * their own, TUTTI_UNEXPECTED), prepared calls, stacks, what the process has once whatever its
 * communicators are (heap, kernels, progress thread), and page tables.
 */
#include <string.h>

#include "base/held.h"
#include "base/sized.h"
#include "base/status.h"
#include "call/calls_init.h"
#include "call/communicator.h"
#include "health/health_init.h"

static size_t bytes_of_hosts(const struct tutti_comm *comm)
{
    const struct team_hosts *hosts = comm->team.members.hosts;
    const struct host_levels *levels = comm->team.members.levels;
    size_t bytes = 0;
    if (hosts != NULL)
        bytes += held(hosts) + held(hosts->entries) + held(hosts->host_of) + held(hosts->firsts) +
                 held(hosts->counts) + held(hosts->local_ranks) + held(hosts->local_numbers) +
                 held(hosts->cores_of) + held(hosts->crowds) + held(hosts->core_counts);
    if (levels != NULL) bytes += held(levels) + held(levels->order) + held(levels->groups);
    return bytes;
}

enum tutti_status tutti_comm_footprint(const struct tutti_comm *comm,
                                       struct tutti_footprint *footprint)
{
    TRY(communicator_check_handle(comm, "comm_footprint"));
    TRY(SIZED_CHECK_RESULT("tutti_comm_footprint: footprint", tutti_footprint, footprint));
    struct tutti_footprint sum = {.size_bytes = sizeof sum};
    sum.private_bytes = held(comm) + held(comm->team.transports.windows) +
                        held(comm->team.settings.rules) + held(comm->team.settings.algorithms) +
                        held(comm->team.settings.encodings) +
                        held(comm->team.settings.encodings_text) +
                        held(comm->team.settings.own_places) + bytes_of_hosts(comm);
    calls_footprint(comm, &sum);
    health_footprint(&comm->health, &sum);
    if (comm->team.transports.set.host != NULL) {
        struct transport_footprint ends = {0};
        transports_add_footprint(&comm->team.transports.set, &ends);
        sum.private_bytes += ends.private_bytes;
        sum.shared_bytes = ends.shared_bytes;
        sum.link_count = ends.link_count;
        sum.descriptor_count += 1 + ends.descriptor_count; /* one of the segment */
    }
    SIZED_WRITE(tutti_footprint, footprint, footprint->size_bytes, &sum);
    return TUTTI_OK;
}
