/* leftovers.h - removes the files that libfabric's provider shm leaves behind when its process is
 * killed: /dev/shm/PID:NUMBER:NUMBER.
 *
 * Any thread. Reads a folder.
 */
#ifndef TUTTI_TRANSPORT_OFI_LEFTOVERS_H
#define TUTTI_TRANSPORT_OFI_LEFTOVERS_H

#include <sys/types.h>

/* Removes the files of those of these processes that have ended or are about to
 * (process_is_ending), whether they have been waited for or not. A file that may not be removed
 * stays. */
void ofi_leftovers_remove(const pid_t *pids, int count);

#endif
