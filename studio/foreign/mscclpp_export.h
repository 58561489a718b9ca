/* mscclpp_export.h - a plan as an execution plan of MSCCL++, for its executor: JSON, as commit
 * 1f5f065d7b13ab02df32c22568f38785d1eeec01 (August 2026) of microsoft/mscclpp reads it.
 *
 * A message is a `put` into the receiver's scratch memory and a signal; the receiver waits for the
 * signal and then copies or reduces from there. Every message of a run has scratch memory of its
 * own, so no sender ever waits for room:
 *
 *     sender    wait (begun) -- put ----- signal ---->
 *     receiver  signal ------------------ wait -- copy or reduce
 *
 * To a GPU of another host, put and signal are one operation, over a port channel. The receiver
 * says once for each run and connection that it has begun. So nothing is put where the previous run
 * may still read. A lane becomes one thread block, or several, one after the other
 * (mscclpp_program.h); `after` becomes semaphores.
 *
 * Refused: barriers and collectives with a root, which the format does not have.
 */
#ifndef TUTTI_STUDIO_FOREIGN_MSCCLPP_EXPORT_H
#define TUTTI_STUDIO_FOREIGN_MSCCLPP_EXPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "plan/plan.h"
#include "tutti/tutti.h"

struct mscclpp_export_options {
    const char *name; /* for people; any text. The fingerprint of the plan follows it: the executor tells plans apart by name */
    bool in_place;
    const int *host_of; /* of each rank: GPUs of one host map each other's memory, others are reached over ports. NULL: all are of one */
};

/* Writes the plan, which should be proven for what in_place says; the file's own errors are the
 * caller's. INVALID_ALGORITHM: message, message_bytes long, says which limit of the executor is
 * broken, where, or what the format cannot say; nothing is written then. Pure but for the file; any
 * thread. */
enum tutti_status mscclpp_export(const struct plan *plan,
                                 const struct mscclpp_export_options *options, FILE *file,
                                 char *message, size_t message_bytes);

#endif
