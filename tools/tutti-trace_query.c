#include "tutti-trace_query.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
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

/* What came of asking a process. */
enum answer {
    ANSWERED,
    GONE,    /* nobody listens, or somebody who has no communicator any more */
    FOREIGN, /* it belongs to another user */
    SILENT   /* it does not answer in time, or nothing that can be read; that was said */
};

static int number_of(const char *name)
{
    return atoi(name + strlen(NAME_PREFIX));
}

__attribute__((format(printf, 2, 3))) static void complain(int pid, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "tutti-trace: process %d ", pid);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
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

/* Prints what a process says. */
static enum answer listen_to(int fd, const char *name, bool with_choices, FILE *file)
{
    char *message = malloc(MESSAGE_BYTES_MAX);
    const uint64_t deadline_ns = clock_now_ns() + PATIENCE_NS;
    int heard = 0;
    ssize_t bytes = message == NULL ? -1 : 1;
    while (message != NULL && heard < MESSAGES_MAX &&
           (bytes = receive(fd, message, deadline_ns)) > 0) {
        struct trace_json trace;
        if (trace_json_load(message, (size_t)bytes, &trace) != TUTTI_OK) {
            complain(number_of(name), "says what cannot be read: %s", tutti_error_message());
            free(message);
            return SILENT;
        }
        show_state(&trace, file);
        if (with_choices) show_choices(&trace, file);
        trace_json_release(&trace);
        heard++;
    }
    free(message);
    if (bytes < 0)
        complain(number_of(name), "does not answer: is it stopped, or short of processors?");
    return bytes < 0 ? SILENT : heard > 0 ? ANSWERED : GONE;
}

static enum answer ask(int fd, const char *name, bool with_choices, FILE *file)
{
    static const char request[8] = "query";
    pid_t pid;
    uid_t uid;
    if (!local_socket_peer(fd, &pid, &uid) || (uid != geteuid() && geteuid() != 0)) return FOREIGN;
    const enum tutti_status status =
        local_socket_send(fd, request, sizeof request, NULL, 0, clock_now_ns() + PATIENCE_NS);
    return status == TUTTI_OK ? listen_to(fd, name, with_choices, file) : GONE;
}

static enum answer query_name(const char *name, bool with_choices, FILE *file)
{
    int fd;
    if (local_socket_connect(name, 0, &fd) != TUTTI_OK) {
        if (errno != EAGAIN) return GONE;
        complain(number_of(name), "does not answer, and many wait for it to: is it stopped?");
        return SILENT;
    }
    const enum answer answer = ask(fd, name, with_choices, file);
    close(fd);
    return answer;
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

static int by_number(const void *a, const void *b)
{
    const int left = number_of(a), right = number_of(b);
    return left != right ? (left < right ? -1 : 1) : strcmp(a, b);
}

/* Those that have a socket, or one of them: the best answer. */
static enum answer query_pid(const struct names *names, int pid, bool with_choices, FILE *file)
{
    enum answer best = GONE;
    for (size_t i = 0; i < names->count; i++) {
        if (number_of(names->all[i]) != pid) continue;
        const enum answer answer = query_name(names->all[i], with_choices, file);
        if (answer == ANSWERED || best == GONE) best = answer;
    }
    return best;
}
static int query_pids(const struct names *names, const int *pids, int count, bool with_choices,
                      FILE *file)
{
    int silent = 0;
    for (int i = 0; i < count; i++) {
        const enum answer answer = query_pid(names, pids[i], with_choices, file);
        silent += answer != ANSWERED;
        if (answer == GONE)
            complain(pids[i], "has no communicator that could be asked");
        else if (answer == FOREIGN)
            complain(pids[i], "belongs to another user: only that user and root may ask it");
    }
    return silent;
}

/* Those that end meanwhile, and those of other users, are none of them. */
static int query_all(const struct names *names, bool with_choices, FILE *file)
{
    int silent = 0, answered = 0;
    for (size_t i = 0; i < names->count; i++) {
        const enum answer answer = query_name(names->all[i], with_choices, file);
        silent += answer == SILENT;
        answered += answer == ANSWERED;
    }
    if (silent + answered > 0) return silent;
    fputs("tutti-trace: no process of this user has a communicator on this host\n", stderr);
    return 1;
}

int query_processes(const int *pids, int count, bool with_choices, FILE *file)
{
    struct names names;
    int silent = 1;
    if (find_names(&names)) {
        qsort(names.all, names.count, sizeof *names.all, by_number);
        silent = count > 0 ? query_pids(&names, pids, count, with_choices, file)
                           : query_all(&names, with_choices, file);
    } else {
        fprintf(stderr, "tutti-trace: /proc/net/unix: %s\n", strerror(errno));
    }
    free(names.all);
    return silent;
}
