/* leftovers.h - what provider shm of libfabric leaves in /dev/shm when its process is killed: files /dev/shm/PID:NUMBER:NUMBER.
 *
 * Any thread. Reads a folder.
 */
#ifndef TUTTI_TRANSPORT_OFI_LEFTOVERS_H
#define TUTTI_TRANSPORT_OFI_LEFTOVERS_H

#include <sys/types.h>

/* Of those of these processes that have ended or are about to (process_is_ending), whether somebody has waited for them or not. Without the right to remove a file it stays. */
void ofi_leftovers_remove(const pid_t *pids, int count);

#endif
