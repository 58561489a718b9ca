#include "tutti-trace_query.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "format/trace_json.h"
#include "os/clock.h"
#include "os/local_socket.h"
#include "tutti-trace_choices.h"
#include "tutti-trace_text.h"

/* As process/monitor.h has them, which tools do not include: what goes over the socket is a format. */
static const char NAME_PREFIX[] = "tutti-monitor/";
enum { MESSAGE_BYTES_MAX = 65536, NAME_SIZE = 48, NAMES_MAX = 4096, MESSAGES_MAX = 1024 };
static const uint64_t PATIENCE_NS = 2000000000;

static int complain(const char *name, const char *why)
{
    fprintf(stderr, "tutti-trace: %s: %s\n", name, why);
    return 1;
}

/* --------------------------------------------------------------------------------------------- one process */

/* Bytes of the next message; 0: there are no more; -1: not in time, or not to be read. */
static ssize_t receive(int fd, char *message, uint64_t deadline_ns)
{
    for (;;) {
        const ssize_t bytes = recv(fd, message, MESSAGE_BYTES_MAX, MSG_DONTWAIT | MSG_TRUNC);
        if (bytes >= 0) return bytes <= MESSAGE_BYTES_MAX ? bytes : -1;
        if (errno == ECONNRESET) return 0;
        if (errno != EAGAIN && errno != EINTR) return -1;
        const uint64_t now = clock_now_ns();
        struct pollfd entry = {fd, POLLIN, 0};
        if (now >= deadline_ns || poll(&entry, 1, (int)((deadline_ns - now) / 1000000 + 1)) == 0)
            return -1;
    }
}

/* Prints what a process says; how many messages that were, or -1. */
static int listen_to(int fd, const char *name, bool with_choices, FILE *file)
{
    char *message = malloc(MESSAGE_BYTES_MAX);
    const uint64_t deadline_ns = clock_now_ns() + PATIENCE_NS;
    int heard = 0;
    ssize_t bytes = message == NULL ? -1 : 1;
    while (message != NULL && heard < MESSAGES_MAX &&
           (bytes = receive(fd, message, deadline_ns)) > 0) {
        struct trace_json trace;
        if (trace_json_load(message, (size_t)bytes, &trace) != TUTTI_OK) {
            complain(name, tutti_error_message());
            bytes = -1;
            break;
        }
        show_state(&trace, file);
        if (with_choices) show_choices(&trace, file);
        trace_json_release(&trace);
        heard++;
    }
    free(message);
    return bytes < 0 ? -1 : heard;
}

/* 0 when it answered; it is somebody of this user, or nobody is listened to. */
static int query_name(const char *name, bool with_choices, FILE *file)
{
    static const char request[8] = "query";
    int fd;
    pid_t pid;
    uid_t uid;
    if (local_socket_connect(name, 0, &fd) != TUTTI_OK) return complain(name, "nobody listens");
    int result = 0;
    if (!local_socket_peer(fd, &pid, &uid) || (uid != geteuid() && geteuid() != 0))
        result = complain(name, "it belongs to another user");
    else if (local_socket_send(fd, request, sizeof request, NULL, 0,
                               clock_now_ns() + PATIENCE_NS) != TUTTI_OK ||
             listen_to(fd, name, with_choices, file) < 0)
        result = complain(name, "it does not answer: is it stopped?");
    close(fd);
    return result;
}

/* -------------------------------------------------------------------------------------------------- all */

struct names {
    char (*all)[NAME_SIZE];
    size_t count;
};

static bool is_known(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->all[i], name) == 0) return true;
    return false;
}

/* Listening sockets and those that are being answered have the same name. */
static bool find_names(struct names *names)
{
    FILE *list = fopen("/proc/net/unix", "re");
    char line[512];
    names->count = 0;
    names->all = calloc(NAMES_MAX, sizeof *names->all);
    while (list != NULL && names->all != NULL && fgets(line, sizeof line, list) != NULL) {
        const char *name = strstr(line, " @tutti-monitor/");
        if (name == NULL) continue;
        name += 2;
        const size_t length = strcspn(name, "\n");
        const char *number = name + strlen(NAME_PREFIX);
        if (length >= NAME_SIZE || strspn(number, "0123456789.") != length - strlen(NAME_PREFIX))
            continue;
        char *place = names->all[names->count];
        memcpy(place, name, length);
        place[length] = '\0';
        if (!is_known(names, place) && names->count + 1 < NAMES_MAX) names->count++;
    }
    const bool is_read = list != NULL && names->all != NULL;
    if (list != NULL) fclose(list);
    return is_read;
}

static int number_of(const char *name)
{
    return atoi(name + strlen(NAME_PREFIX));
}

static int by_number(const void *a, const void *b)
{
    const int left = number_of(a), right = number_of(b);
    return left != right ? (left < right ? -1 : 1) : strcmp(a, b);
}

static bool is_wanted(const char *name, const int *pids, int count)
{
    for (int i = 0; i < count; i++)
        if (number_of(name) == pids[i]) return true;
    return count == 0;
}

int query_processes(const int *pids, int count, bool with_choices, FILE *file)
{
    struct names names;
    if (!find_names(&names)) {
        free(names.all);
        return complain("/proc/net/unix", strerror(errno));
    }
    qsort(names.all, names.count, sizeof *names.all, by_number);
    int silent = 0;
    for (size_t i = 0; i < names.count; i++)
        if (is_wanted(names.all[i], pids, count))
            silent += query_name(names.all[i], with_choices, file);
    for (int p = 0; p < count; p++) {
        size_t i = 0;
        while (i < names.count && number_of(names.all[i]) != pids[p]) i++;
        if (i < names.count) continue;
        fprintf(stderr, "tutti-trace: process %d has no communicator that could be asked\n",
                pids[p]);
        silent++;
    }
    if (count == 0 && names.count == 0)
        silent = complain("this host", "no process has a communicator");
    free(names.all);
    return silent;
}
