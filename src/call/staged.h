/* staged.h - messages whose buffer lies in memory of a device: they go through memory of the host,
 * the *staging memory*.
 *
 *     send   buffer ──load──► staging ──► message begins ──► ... ──► done ──collect──► staging freed
 *     recv   staging ──► message begins ──► ... ──► done ──collect: unload──► buffer, staging freed
 *
 * Invariants
 *   1. Only the caller's threads copy: before the message begins, and when its request is
 *      collected. The thread that moves messages never does, nor does a thread that holds the
 *      domain: a copy waits for a device.
 *   2. The staging memory belongs to the request, from before the message begins until the request
 *      is collected, however it ended. A prepared message keeps it until it is freed.
 *   3. Only what was received is copied: nothing of a receive that failed, was truncated or was
 *      taken back.
 *
 * A message of the host has no kind and no staging memory, and pays one branch at each end.
 */
#ifndef TUTTI_CALL_STAGED_H
#define TUTTI_CALL_STAGED_H

#include <stdbool.h>
#include <stddef.h>

#include "call/request.h"

static inline bool message_is_staged(const struct message_call *call)
{
    return __builtin_expect(call->kind != NULL, 0);
}

/* The memory that moves: the staging memory, or the buffer itself. */
static inline void *message_memory(const struct message_call *call)
{
    return message_is_staged(call) ? call->staging : call->buffer;
}

/* Finds where the buffer of a checked message lies, and notes its kind of memory. INVALID_BUFFER:
 * managed memory, say. Any thread; blocks when a device is used for the first time. */
enum tutti_status staged_find(struct message_call *call);

/* The functions below are for messages that are staged; any thread that does not hold the domain,
 * one at a time for each message. */

/* Allocates the staging memory. NO_MEMORY. Does not block. */
enum tutti_status staged_make(struct message_call *call);
/* Before a message begins: copies what it sends to the staging memory; of a receive there is
 * nothing to do. Blocks until the device has copied, at most for the message's timeout, and no
 * longer than the communicator works. On failure (SYSTEM, TIMEOUT) the message must not begin. */
enum tutti_status staged_load(const struct tutti_comm *comm, const struct message_call *call);
/* Does the same for a message that has no staging memory yet; on failure it has none. */
enum tutti_status staged_make_and_load(const struct tutti_comm *comm, struct message_call *call);
/* When a message is done: copies what it received to the buffer; of a send there is nothing to do.
 * Blocks as staged_load does, also of a communicator that has failed or was freed. On failure the
 * buffer is undefined. */
enum tutti_status staged_unload(const struct message_call *call, size_t received_bytes);
/* Frees the staging memory, if there is any; also of messages of the host, which have none. Does
 * not block. */
void staged_free(struct message_call *call);

#endif
