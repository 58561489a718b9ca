/* start.h - starting kernels of programs in which only kernels move what is sent (computing.h): they have finished when they are started,
 * or an executor says later that they have.
 */
#ifndef TUTTI_ENGINE_START_H
#define TUTTI_ENGINE_START_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/piece.h"

/* Starts a kernel of a group. */
void start_kernel(const struct program *program, kernel_reduce *kernel,
                  const struct kernel_call *call);
/* Ends the group, if there is any kernel in it, and returns its number; 0: all have finished. */
uint64_t start_end(const struct program *program, bool any);
/* Whether a group has finished; once it has, its number means nothing any more. */
bool start_is_finished(const struct program *program, uint64_t group);

/* Starts kernels that copy what a message is to send next, so many bytes, to a place of its links; memory: the kind of that. */
void start_copy(struct operation *operation, struct run_send *send, void *place,
                const struct memory_kind *memory, size_t bytes);
/* Of a message that has a piece in flight (run_send.computing): whether that is there. */
bool start_is_copied(struct operation *operation, struct run_send *send);

#endif
