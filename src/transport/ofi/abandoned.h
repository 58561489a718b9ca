/* abandoned.h - locks of provider shm that a killed process holds.
 *
 * The processes that use provider shm of libfabric map files of each other. In each file there is a spin lock, which its owner holds while it takes
 * messages, and a peer while it writes them. If a process is killed while it holds one, the next process that wants that lock spins in a call of
 * libfabric that never returns: no deadline of ours ends it.
 *
 *     this process ── fi_cq_read ── spins at the lock of its own file ◄── held by rank 3, which was killed
 *          └── a thread of this module: rank 3 has ended, the lock was held at 20 looks in a row: it frees it
 *
 * Invariants
 *   1. A lock is freed only when a process of the communicator has ended, and when it was held at LOOKS looks in a row, together a second.
 *   2. And only while none of these processes is stopped: that one may hold it, and go on.
 *   3. Nothing is touched but a word of a mapping that is a file of provider shm by its name, and whose head is one that we know: libfabric 1.15 to
 *      2.1. Where the layout is another one nothing is freed.
 *   4. It reads and writes through the kernel: libfabric may take a mapping away at any time.
 *
 * Provider shm shows peers what it has written by one store at the end, so what a killed process had begun is not seen. In any case nobody uses the
 * file for long: the communicator has failed.
 */
#ifndef TUTTI_TRANSPORT_OFI_ABANDONED_H
#define TUTTI_TRANSPORT_OFI_ABANDONED_H

#include <stdint.h>
#include <sys/types.h>

#include "tutti/tutti.h"

enum { ABANDONED_LOOKS = 20, ABANDONED_LOOK_MS = 50 };

struct abandoned;

/* Starts the thread. pids: of the ranks of a communicator, 0: not known; copied. NO_MEMORY, SYSTEM. */
enum tutti_status abandoned_create(const pid_t *pids, int count, struct abandoned **abandoned);
/* Ends it. NULL is allowed. In a child of fork() there is no thread, and nothing to wait for. */
void abandoned_free(struct abandoned *abandoned);

/* For tests: a look as the thread takes it, without the thread; abandoned_init instead of abandoned_create. */
enum tutti_status abandoned_init(const pid_t *pids, int count, struct abandoned **abandoned);
/* Returns how many locks it has freed. */
unsigned abandoned_look(struct abandoned *abandoned);

#endif
