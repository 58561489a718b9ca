/* abandoned.h - frees locks of provider shm that a killed process holds.
 *
 * Processes that use libfabric's provider shm map files of each other. Each file has a spin lock,
 * which its owner holds while it takes messages, and a peer while it writes them. If a process is
 * killed while it holds one, the next process that wants that lock spins in a call of libfabric
 * that never returns, and no deadline of ours ends it.
 *
 *     this process ── fi_cq_read ── spins at the lock of its own file ◄── held by rank 3, which was killed
 *          └── a thread of this module: rank 3 has ended, the lock was held at 20 looks in a row: it frees it
 *
 * Invariants
 *   1. A lock is freed only if a process of the communicator has ended, and if it was held at LOOKS
 *      looks in a row, together a second.
 *   2. No lock is freed while one of these processes is stopped: that process may hold the lock,
 *      and go on.
 *   3. Nothing is touched but one word of a mapping whose file has a name of provider shm and a
 *      head of a known layout: libfabric 1.15 to 2.1. If the layout is another one, nothing is
 *      freed.
 *   4. The module reads and writes through the kernel, since libfabric may remove a mapping at any
 *      time.
 *
 * Provider shm shows peers what it has written by one store at the end, so peers do not see what a
 * killed process had only begun to write. In any case the file is not used for long: the
 * communicator has failed.
 */
#ifndef TUTTI_TRANSPORT_OFI_ABANDONED_H
#define TUTTI_TRANSPORT_OFI_ABANDONED_H

#include <stdint.h>
#include <sys/types.h>

#include "tutti/tutti.h"

enum { ABANDONED_LOOKS = 20, ABANDONED_LOOK_MS = 50 };

struct abandoned;

/* Starts the thread. pids: those of the ranks of a communicator; 0: not known. They are copied.
 * NO_MEMORY, SYSTEM. */
enum tutti_status abandoned_create(const pid_t *pids, int count, struct abandoned **abandoned);
/* Ends it. NULL is allowed. In a child of fork() there is no thread, and nothing to wait for. */
void abandoned_free(struct abandoned *abandoned);

/* For tests, instead of abandoned_create: no thread is started, and abandoned_look takes one look
 * as the thread would. */
enum tutti_status abandoned_init(const pid_t *pids, int count, struct abandoned **abandoned);
/* Returns how many locks it has freed. */
unsigned abandoned_look(struct abandoned *abandoned);

#endif
