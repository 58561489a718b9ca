#include "os/close_on_exec.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { DEPTH_MAX = 5 /* the kernel's, of epoll instances that wait for each other */ };

static void mark(int descriptor)
{
    const int flags = fcntl(descriptor, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0)
        (void)fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC);
}

static bool is_epoll(int descriptor)
{
    char path[32], name[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    const ssize_t bytes = readlink(path, name, sizeof name - 1);
    if (bytes <= 0) return false;
    name[bytes] = '\0';
    return strstr(name, "[eventpoll]") != NULL;
}

static void mark_watched(int descriptor, int depth)
{
    char path[48], line[256];
    if (descriptor < 0) return;
    mark(descriptor);
    if (depth == 0 || !is_epoll(descriptor)) return;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", descriptor);
    FILE *const file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        int watched;
        if (sscanf(line, "tfd: %d", &watched) == 1) mark_watched(watched, depth - 1);
    }
    if (file != NULL) fclose(file);
}

void close_on_exec_watched(int epoll)
{
    mark_watched(epoll, DEPTH_MAX);
}

static int compare(const void *one, const void *other)
{
    const int a = *(const int *)one, b = *(const int *)other;
    return (a > b) - (a < b);
}

/* The descriptors that are open now, ascending; NULL: not known. */
static int *list(size_t *count)
{
    DIR *const folder = opendir("/proc/self/fd");
    int *found = NULL;
    size_t room = 0;
    *count = 0;
    if (folder == NULL) return NULL;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const int descriptor = (int)strtol(entry->d_name, NULL, 10);
        if (!isdigit((unsigned char)entry->d_name[0]) || descriptor == dirfd(folder)) continue;
        if (*count == room) {
            room = room == 0 ? 256 : 2 * room;
            int *const more = realloc(found, room * sizeof *found);
            if (more == NULL) {
                free(found);
                found = NULL;
                break;
            }
            found = more;
        }
        found[(*count)++] = descriptor;
    }
    closedir(folder);
    if (found != NULL) qsort(found, *count, sizeof *found, compare);
    return found;
}

void close_on_exec_begin(struct close_on_exec *since)
{
    since->before = list(&since->count);
}

/* One end of a socketpair of this process. */
static bool is_end_of_pair(int descriptor)
{
    struct sockaddr_un name;
    struct ucred peer;
    socklen_t name_bytes = sizeof name, peer_bytes = sizeof peer;
    return getsockname(descriptor, (struct sockaddr *)&name, &name_bytes) == 0 &&
           name.sun_family == AF_UNIX && name_bytes == sizeof name.sun_family &&
           getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0 &&
           peer.pid == getpid();
}

void close_on_exec_end(struct close_on_exec *since, int epoll)
{
    size_t count;
    int *const now = since->before != NULL ? list(&count) : NULL;
    for (size_t i = 0; now != NULL && i < count; i++) {
        const bool is_new =
            bsearch(&now[i], since->before, since->count, sizeof now[i], compare) == NULL;
        if (is_new && (is_end_of_pair(now[i]) || is_epoll(now[i]))) mark_watched(now[i], DEPTH_MAX);
    }
    free(now);
    free(since->before);
    *since = (struct close_on_exec){0};
    close_on_exec_watched(epoll);
}
