/* faulted.h - calls and messages that can never be done because the device has failed that they
 * need (gpu/device_fault.h): the communicator fails, on all ranks, with the fault.
 *
 *     refused by the driver ──► faulted_refused      no call was made
 *                               faulted_message      no message was sent or received
 *     cannot begin          ──► faulted_fail         it has its number
 *     waits                 ──► faulted_look         again and again, as other reasons are looked for
 */
#ifndef TUTTI_CALL_FAULTED_H
#define TUTTI_CALL_FAULTED_H

#include <stdbool.h>

#include "call/request.h"

/* A call was refused with `status` before it was made, so the other ranks would wait for this rank
 * in vain. If its device has failed (or any device of this process, if it is not known which it
 * needs), fails the communicator and returns its status; else returns `status`. Asks the driver;
 * any thread. */
enum tutti_status faulted_refused(struct tutti_comm *comm, const struct call *call,
                                  enum tutti_status status);
/* A message was refused with `status` before it began, or its data could not be copied, so the rank
 * at its other end would wait for this rank in vain. Does the same as faulted_refused. Besides, if
 * a copy ended with TIMEOUT, the communicator fails with it. Not with the domain held. */
enum tutti_status faulted_message(struct tutti_comm *comm, const struct message_call *message,
                                  enum tutti_status status);
/* A call cannot begin, and so fails on all ranks: because its device has failed, or else with
 * `status` and this thread's error. Asks the driver; with the domain held. */
void faulted_fail(struct tutti_comm *comm, const struct call_request *request,
                  enum tutti_status status);
/* Whether the device of a call under way is known to have failed; then the communicator has failed.
 * Costs a load; with the domain held. */
bool faulted_look(struct tutti_comm *comm, const struct call_request *request);

#endif
