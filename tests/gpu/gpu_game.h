/* gpu_game.h - a device that is no device, and games with the executor over it (gpu/executor.h).
 *
 * The device's worker is its twin, a thread for each block. Its memory lies where this process
 * cannot touch it, and it touches nothing but its memory and what was pinned for it; both end the
 * process otherwise. Streams begin their work when they are told to. Some blocks come late, and
 * some are slow.
 *
 * A game follows from its seed: it starts groups of random kernels, looks for their ends in a
 * random order, compares what they stored with the CPU's kernels, gives up at some point or ends,
 * and begins again.
 */
#ifndef TUTTI_TESTS_GPU_GPU_GAME_H
#define TUTTI_TESTS_GPU_GPU_GAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/gpu.h"

/* Of 1, 2 and 6 blocks; only the last one has two teams. */
enum { GPU_GAME_DEVICES = 3, GPU_GAME_TWO_TEAMS = 2 };
struct gpu_device *gpu_game_device(unsigned which);
/* The device's memory: the address for it, and for the test the place where it really is. */
enum { GPU_GAME_MEMORY = 32 << 20 };
void *gpu_game_memory(void);
void *gpu_game_place(void *address);

/* A stream of the application's: closed, it comes to nothing that is queued. */
void *gpu_game_make_stream(void);
void gpu_game_open_stream(void *stream);
/* All workers have left, and the stream is open; false: one has not within 20 s. Frees the
 * stream. */
bool gpu_game_free_stream(void *stream);

/* How many blocks the last worker has. */
unsigned gpu_game_blocks(void);

/* NULL: all was well; otherwise what was not. */
const char *gpu_game_play(uint64_t seed);
/* [--seeds N] [--seed S]; prints "seed S: ..." and returns 1 when something is not well. */
int gpu_game_main(int argument_count, char **arguments);

#endif
