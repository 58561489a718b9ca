/* shm.h - anonymous shared memory: a memfd, private to the processes that get its descriptor, never
 * in /dev/shm.
 *
 * The file is sealed against shrinking: every offset that was within it stays within it. Memory is
 * reserved range by range before it is used, so that no access ends in SIGBUS. If the kernel has a
 * seal for that, the file can never be executed.
 *
 * Mappings stay out of core dumps: the writing of a dump reads every page, and so would allocate
 * each hole of the file, in memory that other processes share. Ranges that are reserved can be put
 * back into dumps (shm_let_dump).
 */
#ifndef TUTTI_OS_SHM_H
#define TUTTI_OS_SHM_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

/* A new object of that size, which it keeps; nothing reserved. */
enum tutti_status shm_open_new(const char *name, size_t size_bytes, int *fd);
/* A new object without size, which can grow. */
enum tutti_status shm_open_growing(const char *name, int *fd);
/* Makes the object at least that large; reserves nothing. NO_SPACE: files may not be so large
 * (ulimit -f). */
enum tutti_status shm_grow(int fd, size_t size_bytes);
/* Maps a range, which the object has. NO_MEMORY: there is no address space for it (ulimit -v). */
enum tutti_status shm_map(int fd, size_t offset, size_t size_bytes, void **memory);
void shm_unmap(void *memory, size_t size_bytes);
/* Lets a core dump of this process contain that part of a mapping, all of which must be reserved,
 * or leaves it out. If this fails, the dump does not contain it. */
void shm_let_dump(void *memory, size_t size_bytes, bool lets);
/* Makes sure that the range has memory behind it. NO_SPACE when there is none. */
enum tutti_status shm_reserve(int fd, size_t offset, size_t size_bytes);
/* Gives the memory of a range back; it reads as zero afterwards. */
void shm_release(int fd, size_t offset, size_t size_bytes);
/* Checks that a descriptor from elsewhere is an object of at least that size that cannot shrink. */
enum tutti_status shm_check_foreign(int fd, size_t size_bytes);

#endif
