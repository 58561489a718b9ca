/* shm.h - anonymous shared memory: a memfd, private to who gets its descriptor, never in /dev/shm.
 *
 * The file is as large as it will ever be from the start and sealed against shrinking; memory is reserved
 * range by range before it is used, so that no access ends in SIGBUS. Where the kernel knows that, it can never be executed.
 */
#ifndef TUTTI_OS_SHM_H
#define TUTTI_OS_SHM_H

#include <stddef.h>

#include "tutti/tutti.h"

/* A new object of that size, nothing reserved. */
enum tutti_status shm_open_new(const char *name, size_t size_bytes, int *fd);
/* Maps the whole object. */
enum tutti_status shm_map(int fd, size_t size_bytes, void **memory);
void shm_unmap(void *memory, size_t size_bytes);
/* Makes sure that the range has memory behind it. NO_SPACE when there is none. */
enum tutti_status shm_reserve(int fd, size_t offset, size_t size_bytes);
/* Gives the memory of a range back; it reads as zero afterwards. */
void shm_release(int fd, size_t offset, size_t size_bytes);
/* Checks that a descriptor from elsewhere is an object of at least that size that cannot shrink. */
enum tutti_status shm_check_foreign(int fd, size_t size_bytes);

#endif
