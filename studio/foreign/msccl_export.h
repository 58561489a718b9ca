/* msccl_export.h - a plan as MSCCL's XML, for the runtimes that read it.
 *
 * A thread block of MSCCL sends to one peer and receives from one, so a lane becomes one block or
 * several, and the order of the lane becomes dependencies between these. A step with several
 * sources becomes several (what is summed so far waits in scratch memory, and is rounded there);
 * one with several targets, or to a group, sends once for each. Links of a lane that pass on what
 * the other brings share a block where channels allow it: then fused steps stay fused.
 *
 * MSCCL knows neither roots nor empty messages: a root is written as an attribute of our own, and
 * barriers are refused.
 */
#ifndef TUTTI_STUDIO_FOREIGN_MSCCL_EXPORT_H
#define TUTTI_STUDIO_FOREIGN_MSCCL_EXPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "plan/plan.h"
#include "tutti/tutti.h"

/* The limits and the spelling of a reader. */
struct msccl_profile {
    const char *name;
    const char *reduce_scatter; /* its name for a reduce-scatter */
    int steps_max;              /* of a thread block */
    int chunks_max;             /* of a step */
    int channel_blocks_max;     /* thread blocks that use a channel of one GPU */
    bool says_range;            /* minBytes, maxBytes, outofplace */
};

/* NULL when there is none of that name. */
const struct msccl_profile *msccl_profile_find(const char *name);

struct msccl_export_options {
    const struct msccl_profile *profile;
    const char *name; /* of the algorithm, for people; any text */
    bool in_place;
    int *depth; /* or NULL: gets how many messages each connection must hold (msccl_depth.h), which the name in the file ends with */
    bool may_have_fewer_pieces; /* whoever made the plan can cut the data into fewer: a refusal for too many steps says how many */
};

/* Writes the plan, which should be proven for what in_place says; the file's own errors are the
 * caller's. INVALID_ALGORITHM: message, message_bytes long, says which limit of the profile is
 * broken, where, or what the format cannot say; nothing is written then. Pure but for the file; any
 * thread. */
enum tutti_status msccl_export(const struct plan *plan, const struct msccl_export_options *options,
                               FILE *file, char *message, size_t message_bytes);

#endif
