/* userfault.h - being told when memory of this process goes: munmap, mremap,
 * madvise(MADV_DONTNEED), mmap over it (userfaultfd).
 *
 * Watched memory behaves as ever: it is registered for write protection, and nothing is ever
 * protected, so no access stops. Two things do change. A thread that unmaps watched memory waits
 * until a reader has read the message. And the kernel does not join a watched mapping with one
 * beside it that is not; so whole mappings are watched (os/mapping.h), never parts of one.
 *
 * Works without privileges from Linux 5.11 on, where a sandbox allows the system call.
 */
#ifndef TUTTI_OS_USERFAULT_H
#define TUTTI_OS_USERFAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct userfault_range {
    uintptr_t begin, end;
};

/* A descriptor that becomes readable when watched memory goes; -1 with errno: not possible here.
 * Closing it ends the watching, and lets go of all threads that wait, as soon as no other process
 * has it either. */
int userfault_open(void);
/* Whether these pages, all of them mapped, are watched now. */
bool userfault_watch(int fd, uintptr_t begin, uintptr_t end);
/* Pages that may have gone in the meantime. False: something there cannot be watched at all, and
 * nothing has changed. */
bool userfault_unwatch(int fd, uintptr_t begin, uintptr_t end);
/* Whether some thread is between beginning to unmap watched memory and being let go. Takes no
 * message. */
bool userfault_is_busy(int fd);
/* Takes messages, as far as there are any, stores the ranges that have gone, and lets go of their
 * threads. Does not wait. */
int userfault_read(int fd, struct userfault_range *gone, int count_max);

#endif
