#include "process/watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/status.h"
#include "os/fork.h"
#include "os/process.h"

struct watch {
    struct watch *next;
    uint64_t process_key;
    int fd;
    unsigned users;
};

FORK_LOCK(lock, FORK_WATCH, NULL);
static struct watch *watches; /* under lock */

/* Not every kernel, emulator and filter of system calls (seccomp) lets processes have such
 * descriptors. Some complain each time. */
static atomic_bool are_missing;

/* -1 with errno. */
static int open_pidfd(pid_t pid)
{
    errno = ENOSYS;
    if (atomic_load_explicit(&are_missing, memory_order_relaxed)) return -1;
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
        atomic_store_explicit(&are_missing, true, memory_order_relaxed);
        errno = ENOSYS;
    }
    return fd;
}

static enum tutti_status add(uint64_t process_key, pid_t pid, struct watch **added)
{
    *added = NULL;
    struct watch *const watch = malloc(sizeof *watch);
    if (watch == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    const int fd = open_pidfd(pid);
    if (fd < 0) {
        free(watch);
        return errno == ENOSYS ? TUTTI_OK : error_system("watching process %d", (int)pid);
    }
    *watch = (struct watch){watches, process_key, fd, 0};
    watches = *added = watch;
    return TUTTI_OK;
}

enum tutti_status watch_open(uint64_t process_key, pid_t pid, int *fd)
{
    pthread_mutex_lock(&lock);
    struct watch *watch = watches;
    while (watch != NULL && watch->process_key != process_key) watch = watch->next;
    const enum tutti_status status = watch != NULL ? TUTTI_OK : add(process_key, pid, &watch);
    *fd = -1;
    if (watch != NULL) {
        watch->users++;
        *fd = watch->fd;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void watch_close(int fd)
{
    if (fd < 0) return;
    pthread_mutex_lock(&lock);
    struct watch **link = &watches;
    while ((*link)->fd != fd) link = &(*link)->next;
    struct watch *const watch = *link;
    if (--watch->users == 0) {
        *link = watch->next;
        close(fd);
        free(watch);
    }
    pthread_mutex_unlock(&lock);
}

bool watch_has_ended(pid_t pid)
{
    const int fd = open_pidfd(pid);
    if (fd < 0) return errno == ESRCH || process_has_ended(pid);
    struct pollfd entry = {fd, POLLIN, 0};
    const bool ended = poll(&entry, 1, 0) > 0;
    close(fd);
    return ended;
}
