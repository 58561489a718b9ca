#include "os/local_name.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "os/clock.h"
#include "os/local_socket.h"

enum {
    DIGITS = 16,
    ATTEMPTS = 4,
    LISTENS = 0x10000,   /* the kernel's flag of sockets that accept */
    HOLDER_NS = 20000000 /* until who has just got a name listens */
};

/* OK: a process of this user. INIT_TIMEOUT: nobody, or somebody else; *look says more. */
static enum tutti_status connect_to_own(const char *name, uint64_t deadline_ns, int *fd,
                                        struct local_name_look *look)
{
    pid_t pid;
    uid_t uid;
    const enum tutti_status status = local_socket_connect(name, deadline_ns, fd);
    if (status == TUTTI_INIT_TIMEOUT) look->is_busy |= errno == EAGAIN;
    if (status != TUTTI_OK) return status;
    const enum tutti_status known = local_socket_peer(*fd, &pid, &uid);
    if (known == TUTTI_OK && uid == geteuid()) return TUTTI_OK;
    close(*fd);
    *fd = -1;
    TRY(known);
    look->is_taken = true;
    return error_set(TUTTI_INIT_TIMEOUT, "another user (%d, pid %d) listens as %s", (int)uid,
                     (int)pid, name);
}

enum tutti_status local_name_listen(const char *name, int *fd, struct local_name_look *look)
{
    *look = (struct local_name_look){.is_taken = false};
    enum tutti_status status = local_socket_listen(name, fd);
    if (status != TUTTI_IN_PROGRESS) return status;
    status = connect_to_own(name, clock_now_ns() + HOLDER_NS, fd, look);
    if (status == TUTTI_OK) close(*fd);
    *fd = -1;
    if (status != TUTTI_INIT_TIMEOUT) return status == TUTTI_OK ? TUTTI_IN_PROGRESS : status;
    look->is_taken = true; /* also by somebody who does not listen */
    status = TUTTI_IN_PROGRESS;
    for (int i = 0; i < ATTEMPTS && status == TUTTI_IN_PROGRESS; i++) {
        char other[LOCAL_NAME_MAX];
        uint64_t number;
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
            return error_system("getrandom");
        snprintf(other, sizeof other, "%.*s-%016" PRIx64, LOCAL_NAME_MAX - DIGITS - 2, name, number);
        status = local_socket_listen(other, fd);
    }
    return status != TUTTI_IN_PROGRESS
               ? status
               : error_set(TUTTI_SYSTEM, "all names like %s are taken", name);
}

bool local_name_in_line(const char *line, const char *name, char found[LOCAL_NAME_MAX])
{
    unsigned flags, type;
    const size_t name_bytes = strlen(name);
    const char *at = strstr(line, " @");
    if (at == NULL || sscanf(line, "%*[^:]: %*x %*x %x %x", &flags, &type) != 2) return false;
    at += 2;
    if ((flags & LISTENS) == 0 || type != SOCK_SEQPACKET) return false;
    if (strncmp(at, name, name_bytes) != 0 || at[name_bytes] != '-') return false;
    const char *const digits = at + name_bytes + 1;
    const size_t digit_count = strspn(digits, "0123456789abcdef");
    const char end = digits[digit_count];
    if (digit_count != DIGITS || (end != '\n' && end != '\0')) return false;
    if (name_bytes + 1 + DIGITS >= LOCAL_NAME_MAX) return false;
    memcpy(found, at, name_bytes + 1 + DIGITS);
    found[name_bytes + 1 + DIGITS] = '\0';
    return true;
}

/* Goes through all of them: somebody who wants to hide one behind many others needs a descriptor
 * for each. */
static enum tutti_status search(const char *name, int *fd, struct local_name_look *look)
{
    FILE *list = fopen("/proc/net/unix", "re");
    if (list == NULL && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return error_system("looking for %s", name);
    char *line = NULL, found[LOCAL_NAME_MAX];
    size_t line_bytes = 0;
    enum tutti_status status = error_set(TUTTI_INIT_TIMEOUT, "nobody listens as %s", name);
    while (list != NULL && status == TUTTI_INIT_TIMEOUT && getline(&line, &line_bytes, list) > 0)
        if (local_name_in_line(line, name, found)) status = connect_to_own(found, 0, fd, look);
    free(line);
    if (list != NULL) fclose(list);
    return status;
}

enum tutti_status local_name_reach(const char *name, bool searches, int *fd,
                                   struct local_name_look *look)
{
    *look = (struct local_name_look){.is_taken = false};
    *fd = -1;
    const enum tutti_status status = connect_to_own(name, 0, fd, look);
    return status == TUTTI_INIT_TIMEOUT && searches ? search(name, fd, look) : status;
}
