/* start.h - starts kernels of programs in which only kernels move the bytes that are sent
 * (computing.h). Without an executor a kernel has finished when it has been started; with one, the
 * executor says later that it has.
 */
#ifndef TUTTI_ENGINE_START_H
#define TUTTI_ENGINE_START_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/piece.h"

/* Starts a kernel; it belongs to the group that the next start_end ends. */
void start_kernel(const struct operation *operation, kernel_reduce *kernel,
                  const struct kernel_call *call);
/* Ends the group, if any kernel was started in it, and returns its number; 0: all have finished. */
uint64_t start_end(const struct operation *operation, bool any);
/* Whether a group has finished; once it has, its number means nothing any more. */
bool start_is_finished(const struct operation *operation, uint64_t group);

/* Starts kernels that copy the next `bytes` bytes of a message to a place of its links. memory: the
 * kind of memory of that place. */
void start_copy(struct operation *operation, struct run_send *send, void *place,
                const struct memory_kind *memory, size_t bytes);
/* Whether the piece that a message has in flight (run_send.computing) has been copied. */
bool start_is_copied(struct operation *operation, struct run_send *send);

#endif
