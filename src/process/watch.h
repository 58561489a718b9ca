/* watch.h - one descriptor for each process whose end matters here, however many communicators have
 * ranks in it. */
#ifndef TUTTI_PROCESS_WATCH_H
#define TUTTI_PROCESS_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tutti/tutti.h"

/* A pidfd, readable when that process has ended; the same one for the same process. Every open
 * needs a close. The key tells processes apart (memory/heap.h): a pid alone may be another one's by
 * now. -1 where there are no such descriptors: then watch_has_ended is all there is. Any thread. */
enum tutti_status watch_open(uint64_t process_key, pid_t pid, int *fd);
/* Does nothing if fd is -1. */
void watch_close(int fd);
/* Whether there is no such process, or it has ended and its parent has not waited for it yet. Keeps
 * no descriptor, so another process may have that pid by now: then it looks alive. */
bool watch_has_ended(pid_t pid);

#endif
