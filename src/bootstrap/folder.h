/* folder.h - keys through a folder that all ranks see: the means that needs no service.
 *
 *     DIR/tutti-<hash of job, size and user>/                 mode 0700, made by the first to come
 *         hello.<rank>   who came: a token made for this run, 32 characters
 *         roster         rank 0's answer: the tokens of all that it has seen, by rank; its own is the generation
 *         <generation>/  <rank>.joined  <rank>.fence.<n>  <rank>.value.<key>  and rank 0's fence.<n>
 *
 *  1. A file is there whole or not at all: it is written beside its place and renamed.
 *  2. Files of an earlier run of the same job cannot be taken for this one's. A rank goes on only
 *     when the roster has the token that it made just now, and rank 0 only when all ranks have come
 *     into the generation that it made just now; whichever old files they meet on the way, they
 *     keep looking.
 *  3. Looking is polling, with pauses from 0.2 ms doubling up to 50 ms: notifications do not cross
 *     NFS.
 *  4. The last rank to leave removes the folder. A run that fails may leave it there; it does no
 *     harm.
 *
 * Two runs of one job at the same time are not told apart: they disturb each other and end at their
 * deadline.
 */
#ifndef TUTTI_BOOTSTRAP_FOLDER_H
#define TUTTI_BOOTSTRAP_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct folder;

/* path: an existing folder. Blocks, on rank 0 until all ranks are there, on others until rank 0 is.
 * INIT_TIMEOUT at the deadline, naming the ranks that are missing; AUTH_FAILED if a folder of
 * another user is in our place. */
enum tutti_status folder_open(const char *path, const char *run_id, int rank, int size,
                              uint64_t deadline_ns, struct folder **folder);
/* Key: letters, digits, '-' and '_'. */
enum tutti_status folder_put(struct folder *folder, const char *key, const void *value,
                             size_t value_bytes);
/* Names the missing ranks at the deadline. */
enum tutti_status folder_fence(struct folder *folder, uint64_t deadline_ns);
/* Waits until it is there. */
enum tutti_status folder_get(struct folder *folder, int rank, const char *key, void *buffer,
                             size_t buffer_bytes, size_t *value_bytes, uint64_t deadline_ns);
/* Removes what this rank put. NULL is fine. */
void folder_close(struct folder *folder);

#endif
