#include "query.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "choices.h"
#include "os/clock.h"
#include "os/local_socket.h"
#include "os/process.h"
#include "studio/trace/trace_json.h"
#include "text.h"

/* As process/monitor.h has them, which tools do not include: what goes over the socket is a
 * format. */
static const char NAME_PREFIX[] = "tutti-monitor/";
enum { MESSAGE_BYTES_MAX = 65536, NAME_SIZE = 48 };
enum { ANSWERS_MAX = 1024, WHY_SIZE = 240 };
static const uint64_t PATIENCE_NS = 2000000000;

/* The outcome of asking a process. */
enum answer {
    UNASKED,
    WAITING,
    ANSWERED,
    GONE,    /* nobody listens, or the listener has no communicator any more */
    FOREIGN, /* it belongs to another user */
    SILENT   /* it does not answer in time, or nothing that can be read; `why` says more */
};

/* A process, by the name at which it may listen. */
struct asked {
    char name[NAME_SIZE];
    enum answer answer;
    int fd;     /* while it is WAITING */
    pid_t pid;  /* as this process calls it; 0: it does not see it */
    char *text; /* of an answer that is not whole yet */
    size_t text_bytes;
    int answers;
    FILE *file; /* the file for its lines; NULL: closed, or there are none */
    char *lines;
    size_t lines_bytes;
    char why[WHY_SIZE];
};

/* A rank of this host, of which another one has told. */
struct told {
    int pid, rank, size;
    char communicator[24];
};

struct query {
    bool with_choices;
    struct asked *all; /* by number and name */
    size_t count;
    struct told *told;
    size_t told_count;
    char message[MESSAGE_BYTES_MAX];
};

static int number_of(const char *name)
{
    return atoi(name + strlen(NAME_PREFIX));
}

static void end(struct asked *asked, enum answer answer)
{
    if (asked->answer == WAITING) close(asked->fd);
    if (asked->file != NULL) fclose(asked->file);
    free(asked->text);
    asked->answer = answer;
    asked->file = NULL;
    asked->text = NULL;
}

__attribute__((format(printf, 2, 3))) static void end_silent(struct asked *asked,
                                                             const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(asked->why, sizeof asked->why, format, arguments);
    va_end(arguments);
    end(asked, SILENT);
}

/* -------------------------------------------------------------------------------------- hearing */

static void note_told(struct query *query, const struct trace_json *trace)
{
    for (int i = 0; i < trace->place_count; i++) {
        const struct trace_place *const place = &trace->places[i];
        if (place->pid == 0 || strcmp(place->host, trace->own.host) != 0) continue;
        struct told *const grown =
            realloc(query->told, (query->told_count + 1) * sizeof *query->told);
        if (grown == NULL) return;
        query->told = grown;
        struct told *const told = &grown[query->told_count++];
        *told = (struct told){.pid = place->pid, .rank = place->rank, .size = trace->size};
        memcpy(told->communicator, trace->communicator, sizeof told->communicator);
    }
}

/* A whole answer: of one communicator. */
static void hear_answer(struct query *query, struct asked *asked)
{
    struct trace_json trace;
    if (asked->answers++ == ANSWERS_MAX) {
        end_silent(asked, "has more than %d communicators: the others are left out", ANSWERS_MAX);
        return;
    }
    if (asked->file == NULL) asked->file = open_memstream(&asked->lines, &asked->lines_bytes);
    if (asked->file == NULL) {
        end_silent(asked, "cannot be heard: out of memory");
        return;
    }
    if (trace_json_load(asked->text, asked->text_bytes, &trace) != TUTTI_OK) {
        end_silent(asked, "says what cannot be read: %s", tutti_error_message());
        return;
    }
    show_state(&trace, asked->file);
    if (query->with_choices) show_choices(&trace, asked->file);
    note_told(query, &trace);
    trace_json_release(&trace);
    asked->text_bytes = 0;
}

/* All parts of an answer but the last have the largest size. */
static void hear_part(struct query *query, struct asked *asked, size_t bytes)
{
    if (asked->text_bytes + bytes > TRACE_JSON_BYTES_MAX) {
        end_silent(asked, "says more than %d bytes of one communicator", TRACE_JSON_BYTES_MAX);
        return;
    }
    char *const grown = realloc(asked->text, asked->text_bytes + bytes);
    if (grown == NULL) {
        end_silent(asked, "cannot be heard: out of memory");
        return;
    }
    asked->text = grown;
    memcpy(asked->text + asked->text_bytes, query->message, bytes);
    asked->text_bytes += bytes;
    if (bytes < MESSAGE_BYTES_MAX) hear_answer(query, asked);
}

static void end_heard(struct asked *asked)
{
    if (asked->text_bytes > 0)
        end_silent(asked, "ends in the middle of its answer");
    else
        end(asked, asked->answers > 0 ? ANSWERED : GONE);
}

/* Takes what is there. */
static void hear(struct query *query, struct asked *asked)
{
    bool is_closed = false;
    while (asked->answer == WAITING) {
        const ssize_t bytes =
            recv(asked->fd, query->message, sizeof query->message, MSG_DONTWAIT | MSG_TRUNC);
        /* Its last word may lie behind either (os/local_socket.c). */
        const bool may_be_closed = bytes == 0 || (bytes < 0 && errno == ECONNRESET);
        if (may_be_closed && is_closed)
            end_heard(asked);
        else if (may_be_closed)
            is_closed = true;
        else if (bytes > MESSAGE_BYTES_MAX)
            end_silent(asked, "says what cannot be read: a message of %zd bytes", bytes);
        else if (bytes > 0)
            hear_part(query, asked, (size_t)bytes);
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR)
            end_silent(asked, "cannot be heard: %s", strerror(errno));
    }
}

/* --------------------------------------------------------------------------------------- asking */

/* False: there is no descriptor for it now. */
static bool ask(struct asked *asked)
{
    static const char request[8] = "query";
    uid_t uid;
    const enum tutti_status status = local_socket_connect(asked->name, 0, &asked->fd);
    if (status == TUTTI_NO_DESCRIPTORS) return false;
    if (status != TUTTI_OK && errno == EAGAIN)
        end_silent(asked, "does not answer, and many wait for it to: is it stopped?");
    else if (status != TUTTI_OK)
        end(asked, GONE);
    if (status != TUTTI_OK) return true;
    asked->answer = WAITING;
    if (local_socket_peer(asked->fd, &asked->pid, &uid) != TUTTI_OK ||
        (uid != geteuid() && geteuid() != 0))
        end(asked, FOREIGN);
    else if (local_socket_send(asked->fd, request, sizeof request, NULL, 0, 0) != TUTTI_OK)
        end(asked, GONE);
    return true;
}

/* As many as there are descriptors for. False: there is none to wait for. */
static bool ask_some(struct query *query, size_t *next)
{
    const size_t first = *next;
    while (*next < query->count && ask(&query->all[*next])) ++*next;
    if (*next == first && first < query->count)
        end_silent(&query->all[(*next)++], "cannot be asked: %s", strerror(EMFILE));
    return *next > first;
}

static void give_up(struct query *query)
{
    for (size_t i = 0; i < query->count; i++) {
        struct asked *const asked = &query->all[i];
        if (asked->answer != WAITING) continue;
        if (asked->pid != 0 && process_is_stopped(asked->pid))
            end_silent(asked, "does not answer: it is stopped");
        else
            end_silent(asked, "does not answer: is it short of processors?");
    }
}

/* To all that are asked, until none has said a word for a while. */
static void listen_to_all(struct query *query, struct pollfd *entries)
{
    uint64_t deadline_ns = clock_now_ns() + PATIENCE_NS;
    while (clock_now_ns() < deadline_ns) {
        nfds_t count = 0;
        for (size_t i = 0; i < query->count; i++)
            if (query->all[i].answer == WAITING)
                entries[count++] = (struct pollfd){query->all[i].fd, POLLIN, 0};
        if (count == 0) return;
        if (poll(entries, count, clock_poll_ms(deadline_ns)) <= 0) continue;
        count = 0;
        for (size_t i = 0; i < query->count; i++)
            if (query->all[i].answer == WAITING && entries[count++].revents != 0)
                hear(query, &query->all[i]);
        deadline_ns = clock_now_ns() + PATIENCE_NS;
    }
    give_up(query);
}

static bool query_all(struct query *query)
{
    struct pollfd *const entries = calloc(query->count + 1, sizeof *entries);
    for (size_t next = 0; entries != NULL && ask_some(query, &next);) listen_to_all(query, entries);
    free(entries);
    return entries != NULL;
}

/* ---------------------------------------------------------------------------------------- names */

static int by_number(const void *a, const void *b)
{
    const struct asked *const one = a, *const other = b;
    const int left = number_of(one->name), right = number_of(other->name);
    return left != right ? (left < right ? -1 : 1) : strcmp(one->name, other->name);
}

/* A listening socket and the sockets that it has accepted have the same name. */
static void sort_names(struct query *query)
{
    size_t kept = 0;
    if (query->count == 0) return;
    qsort(query->all, query->count, sizeof *query->all, by_number);
    for (size_t i = 1; i < query->count; i++)
        if (strcmp(query->all[i].name, query->all[kept].name) != 0)
            query->all[++kept] = query->all[i];
    query->count = kept + 1;
}

static bool is_named(int number, const int *pids, int count)
{
    bool is_there = count == 0;
    for (int i = 0; i < count && !is_there; i++) is_there = pids[i] == number;
    return is_there;
}

static bool add_name(struct query *query, const char *name, size_t length)
{
    struct asked *const grown = realloc(query->all, (query->count + 1) * sizeof *query->all);
    if (grown == NULL) return false;
    query->all = grown;
    grown[query->count] = (struct asked){.answer = UNASKED};
    memcpy(grown[query->count++].name, name, length);
    return true;
}

/* Finds the names of those processes, or of all processes. False: they cannot be found, and errno
 * says why. */
static bool find_names(struct query *query, const int *pids, int count)
{
    FILE *const list = fopen("/proc/net/unix", "re");
    char line[512];
    bool is_fine = list != NULL;
    while (is_fine && fgets(line, sizeof line, list) != NULL) {
        const char *name = strstr(line, " @tutti-monitor/");
        if (name == NULL) continue;
        name += 2;
        const size_t length = strcspn(name, "\n");
        const char *const number = name + strlen(NAME_PREFIX);
        if (length < NAME_SIZE && strspn(number, "0123456789.") == length - strlen(NAME_PREFIX) &&
            is_named(number_of(name), pids, count))
            is_fine = add_name(query, name, length);
    }
    if (list != NULL) fclose(list);
    sort_names(query);
    return is_fine;
}

/* ------------------------------------------------------------------------------------ reporting */

/* The rank's number in the largest communicator of which another rank has told. */
static void complain(const struct query *query, int pid, const char *why)
{
    const struct told *best = NULL;
    for (size_t i = 0; i < query->told_count; i++) {
        const struct told *const told = &query->told[i];
        if (told->pid == pid && (best == NULL || told->size > best->size)) best = told;
    }
    fprintf(stderr, "tutti-trace: process %d ", pid);
    if (best != NULL)
        fprintf(stderr, "(rank %d of %d, communicator %.8s) ", best->rank, best->size,
                best->communicator);
    fprintf(stderr, "%s\n", why);
}

static void print_lines(const struct asked *asked, FILE *file)
{
    if (asked->lines != NULL) fwrite(asked->lines, 1, asked->lines_bytes, file);
}

/* The best answer from a process that has a socket, or several. */
static enum answer answer_of(const struct query *query, int pid)
{
    enum answer best = GONE;
    for (size_t i = 0; i < query->count; i++) {
        const struct asked *const asked = &query->all[i];
        if (number_of(asked->name) != pid) continue;
        if (asked->answer == ANSWERED || best == GONE) best = asked->answer;
    }
    return best;
}

/* Reports the processes with these numbers, in the order in which the user named them. */
static int report_pids(const struct query *query, const int *pids, int count, FILE *file)
{
    int missing = 0;
    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < query->count; k++)
            if (number_of(query->all[k].name) == pids[i]) print_lines(&query->all[k], file);
    fflush(file); /* complaints come last, also where both go to one terminal */
    for (int i = 0; i < count; i++) {
        const enum answer answer = answer_of(query, pids[i]);
        missing += answer != ANSWERED;
        if (answer == GONE)
            complain(query, pids[i], "has no communicator that could be asked");
        else if (answer == FOREIGN)
            complain(query, pids[i], "belongs to another user: only that user and root may ask it");
        for (size_t k = 0; k < query->count; k++)
            if (query->all[k].answer == SILENT && number_of(query->all[k].name) == pids[i])
                complain(query, pids[i], query->all[k].why);
    }
    return missing;
}

/* Reports all processes. Processes that end meanwhile do not count, nor do processes of other
 * users. */
static int report_all(const struct query *query, FILE *file)
{
    int silent = 0, answered = 0;
    for (size_t i = 0; i < query->count; i++) print_lines(&query->all[i], file);
    fflush(file);
    for (size_t i = 0; i < query->count; i++) {
        const struct asked *const asked = &query->all[i];
        silent += asked->answer == SILENT;
        answered += asked->answer == ANSWERED;
        if (asked->answer == SILENT) complain(query, number_of(asked->name), asked->why);
    }
    if (silent + answered > 0) return silent;
    fputs("tutti-trace: no process of this user has a communicator on this host\n", stderr);
    return 1;
}

static void release(struct query *query)
{
    for (size_t i = 0; i < query->count; i++) free(query->all[i].lines);
    free(query->all);
    free(query->told);
    free(query);
}

int query_processes(const int *pids, int count, bool with_choices, FILE *file)
{
    struct query *const query = calloc(1, sizeof *query);
    int missing = 1;
    if (query == NULL) {
        fputs("tutti-trace: out of memory\n", stderr);
        return missing;
    }
    query->with_choices = with_choices;
    if (!find_names(query, pids, count))
        fprintf(stderr, "tutti-trace: /proc/net/unix: %s\n", strerror(errno));
    else if (!query_all(query))
        fputs("tutti-trace: out of memory\n", stderr);
    else
        missing = count > 0 ? report_pids(query, pids, count, file) : report_all(query, file);
    release(query);
    return missing;
}
