#include "bootstrap/pmi1.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/status.h"
#include "os/clock.h"

/* ---------------------------------------------------------------------------------- lines, pure */

static bool is_printable(char c)
{
    return c > ' ' && c <= '~';
}

bool pmi1_next_word(const char **line, size_t *line_bytes, struct pmi1_word *word)
{
    const char *c = *line, *const end = *line + *line_bytes;
    while (c < end && *c == ' ') c++;
    *line = c;
    *line_bytes = (size_t)(end - c);
    if (c == end) return false;
    word->name = c;
    while (c < end && is_printable(*c) && *c != '=') c++;
    word->name_bytes = (size_t)(c - word->name);
    if (c == end || *c != '=' || word->name_bytes == 0) return false;
    word->value = ++c;
    while (c < end && is_printable(*c)) c++;
    word->value_bytes = (size_t)(c - word->value);
    if (c < end && *c != ' ') return false;
    *line = c;
    *line_bytes = (size_t)(end - c);
    return true;
}

bool pmi1_find(const char *line, size_t line_bytes, const char *name, struct pmi1_word *word)
{
    const size_t name_bytes = strlen(name);
    while (pmi1_next_word(&line, &line_bytes, word))
        if (word->name_bytes == name_bytes && memcmp(word->name, name, name_bytes) == 0)
            return true;
    return false;
}

static bool word_is(const struct pmi1_word *word, const char *text)
{
    return word->value_bytes == strlen(text) && memcmp(word->value, text, word->value_bytes) == 0;
}

/* A number of at most nine digits; false when it is none. */
static bool word_number(const struct pmi1_word *word, long *number)
{
    const bool negative = word->value_bytes > 0 && word->value[0] == '-';
    if (word->value_bytes == negative || word->value_bytes > 9u + negative) return false;
    *number = 0;
    for (size_t i = negative; i < word->value_bytes; i++) {
        if (word->value[i] < '0' || word->value[i] > '9') return false;
        *number = *number * 10 + (word->value[i] - '0');
    }
    if (negative) *number = -*number;
    return true;
}

/* ----------------------------------------------------------------------------------- connection */

/* After this the next line might answer anything. */
static enum tutti_status break_off(struct pmi1 *client, enum tutti_status status)
{
    client->is_broken = true;
    return status;
}

static enum tutti_status wait_ready(struct pmi1 *client, short events, uint64_t deadline_ns,
                                    const char *what)
{
    for (;;) {
        if (clock_now_ns() >= deadline_ns)
            return break_off(
                client,
                error_set(TUTTI_INIT_TIMEOUT,
                          "PMI: no answer to %s from the process manager by the deadline", what));
        struct pollfd entry = {client->fd, events, 0};
        const int ready = poll(&entry, 1, clock_poll_ms(deadline_ns));
        if (ready > 0) return TUTTI_OK;
        if (ready < 0 && errno != EINTR)
            return break_off(client, error_system("PMI: waiting for the process manager"));
    }
}

static enum tutti_status manager_is_gone(struct pmi1 *client, const char *what)
{
    return break_off(
        client,
        error_set(TUTTI_PROC_FAILED, "PMI: the process manager closed the connection at %s", what));
}

static enum tutti_status send_line(struct pmi1 *client, const char *line, size_t bytes,
                                   uint64_t deadline_ns, const char *what)
{
    while (bytes > 0) {
        const ssize_t sent = send(client->fd, line, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            line += sent;
            bytes -= (size_t)sent;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return manager_is_gone(client, what);
        } else if (errno == EAGAIN) {
            TRY(wait_ready(client, POLLOUT, deadline_ns, what));
        } else if (errno != EINTR) {
            return break_off(client, error_system("PMI: sending %s", what));
        }
    }
    return TUTTI_OK;
}

/* One line without its end into `line` (PMI1_LINE_BYTES_MAX). */
static enum tutti_status receive_line(struct pmi1 *client, char *line, size_t *line_bytes,
                                      uint64_t deadline_ns, const char *what)
{
    for (;;) {
        const char *const end = memchr(client->buffer, '\n', client->buffered);
        if (end != NULL) {
            *line_bytes = (size_t)(end - client->buffer);
            memcpy(line, client->buffer, *line_bytes);
            client->buffered -= *line_bytes + 1;
            memmove(client->buffer, end + 1, client->buffered);
            return TUTTI_OK;
        }
        if (client->buffered == sizeof client->buffer)
            return break_off(client, error_set(TUTTI_AUTH_FAILED,
                                               "PMI: the answer to %s has no end: is PMI_FD=%d "
                                               "really a process manager's?",
                                               what, client->fd));
        const ssize_t got = recv(client->fd, client->buffer + client->buffered,
                                 sizeof client->buffer - client->buffered, MSG_DONTWAIT);
        if (got > 0)
            client->buffered += (size_t)got;
        else if (got == 0 || errno == ECONNRESET)
            return manager_is_gone(client, what);
        else if (errno == EAGAIN)
            TRY(wait_ready(client, POLLIN, deadline_ns, what));
        else if (errno != EINTR)
            return break_off(client, error_system("PMI: receiving the answer to %s", what));
    }
}

struct answer {
    char line[PMI1_LINE_BYTES_MAX];
    size_t line_bytes;
};

/* Asks and takes the answer of that name, whatever its rc. */
static enum tutti_status ask(struct pmi1 *client, const char *what, const char *expected,
                             uint64_t deadline_ns, struct answer *answer, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

static enum tutti_status ask(struct pmi1 *client, const char *what, const char *expected,
                             uint64_t deadline_ns, struct answer *answer, const char *format, ...)
{
    if (client->is_broken)
        return error_set(TUTTI_PROC_FAILED, "PMI: %s: the connection broke before", what);
    char question[PMI1_LINE_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    const int bytes = vsnprintf(question, sizeof question, format, arguments);
    va_end(arguments);
    if (bytes < 0 || (size_t)bytes >= sizeof question)
        return error_set(TUTTI_INVALID_OPTIONS, "PMI: %s does not fit a line", what);
    TRY(send_line(client, question, (size_t)bytes, deadline_ns, what));
    TRY(receive_line(client, answer->line, &answer->line_bytes, deadline_ns, what));
    struct pmi1_word word;
    if (pmi1_find(answer->line, answer->line_bytes, "cmd", &word) && word_is(&word, expected))
        return TUTTI_OK;
    char shown[61];
    size_t length = answer->line_bytes < 60 ? answer->line_bytes : 60;
    for (size_t i = 0; i < length; i++)
        shown[i] = is_printable(answer->line[i]) ? answer->line[i] : ' ';
    shown[length] = '\0';
    return break_off(client, error_set(TUTTI_AUTH_FAILED,
                                       "PMI: %s was answered with \"%s\": is PMI_FD=%d really a "
                                       "process manager's?",
                                       what, shown, client->fd));
}

/* Some managers leave rc out when it is 0. */
static enum tutti_status check_result(const struct answer *answer, const char *what)
{
    struct pmi1_word word;
    long result = 0;
    if (!pmi1_find(answer->line, answer->line_bytes, "rc", &word)) return TUTTI_OK;
    if (word_number(&word, &result) && result == 0) return TUTTI_OK;
    struct pmi1_word text = {.value = "", .value_bytes = 0};
    if (!pmi1_find(answer->line, answer->line_bytes, "msg", &text)) text.value_bytes = 0;
    return error_set(TUTTI_UNSUPPORTED, "PMI: the process manager refused %s: rc=%.*s %.*s", what,
                     (int)(word.value_bytes < 12 ? word.value_bytes : 12), word.value,
                     (int)(text.value_bytes < 80 ? text.value_bytes : 80), text.value);
}

static enum tutti_status find_size(const struct answer *answer, const char *name, size_t least,
                                   size_t *size)
{
    struct pmi1_word word;
    long number;
    if (!pmi1_find(answer->line, answer->line_bytes, name, &word) || !word_number(&word, &number) ||
        number < (long)least)
        return error_set(TUTTI_AUTH_FAILED, "PMI: the process manager's %s makes no sense", name);
    *size = (size_t)number;
    return TUTTI_OK;
}

/* Key space of the job; all later lines name it. */
static enum tutti_status learn_space(struct pmi1 *client, uint64_t deadline_ns)
{
    struct answer answer;
    struct pmi1_word word;
    TRY(ask(client, "get_my_kvsname", "my_kvsname", deadline_ns, &answer, "cmd=get_my_kvsname\n"));
    TRY(check_result(&answer, "get_my_kvsname"));
    if (!pmi1_find(answer.line, answer.line_bytes, "kvsname", &word) || word.value_bytes == 0 ||
        word.value_bytes >= sizeof client->space)
        return error_set(TUTTI_AUTH_FAILED, "PMI: the process manager's kvsname makes no sense");
    memcpy(client->space, word.value, word.value_bytes);
    client->space[word.value_bytes] = '\0';
    return TUTTI_OK;
}

static enum tutti_status say_hello(struct pmi1 *client, uint64_t deadline_ns)
{
    struct answer answer;
    struct pmi1_word word;
    TRY(ask(client, "init", "response_to_init", deadline_ns, &answer,
            "cmd=init pmi_version=1 pmi_subversion=1\n"));
    TRY(check_result(&answer, "init"));
    if (!pmi1_find(answer.line, answer.line_bytes, "pmi_version", &word) || !word_is(&word, "1"))
        return error_set(TUTTI_UNSUPPORTED, "PMI: the process manager does not speak version 1");
    TRY(ask(client, "get_maxes", "maxes", deadline_ns, &answer, "cmd=get_maxes\n"));
    TRY(check_result(&answer, "get_maxes"));
    TRY(find_size(&answer, "kvsname_max", 2, &client->name_bytes_max));
    TRY(find_size(&answer, "keylen_max", 16, &client->key_bytes_max));
    TRY(find_size(&answer, "vallen_max", 16, &client->value_bytes_max));
    return learn_space(client, deadline_ns);
}

enum tutti_status pmi1_open(struct pmi1 *client, int fd, uint64_t deadline_ns)
{
    *client = (struct pmi1){.fd = fd};
    int type = 0;
    socklen_t bytes = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_STREAM) {
        client->is_broken = true;
        return error_set(TUTTI_UNSUPPORTED,
                         "PMI: PMI_FD=%d is no socket in this process: was it started through "
                         "something that closes descriptors?",
                         fd);
    }
    const enum tutti_status status = say_hello(client, deadline_ns);
    if (status != TUTTI_OK) client->is_broken = true;
    return status;
}

/* ----------------------------------------------------------------------------------------- keys */

size_t pmi1_value_room(const struct pmi1 *client, size_t key_bytes)
{
    /* Managers read lines into buffers of 1024 bytes; some count their own words in. */
    enum { WORDS = 64 };
    const size_t taken = WORDS + strlen(client->space) + key_bytes;
    const size_t room = taken < PMI1_LINE_BYTES_MAX ? PMI1_LINE_BYTES_MAX - taken : 0;
    return room < client->value_bytes_max - 1 ? room : client->value_bytes_max - 1;
}

static bool is_word(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if (!is_printable(*c)) return false;
    return *text != '\0';
}

static enum tutti_status check_key(const struct pmi1 *client, const char *key)
{
    if (is_word(key) && strchr(key, '=') == NULL && strlen(key) < client->key_bytes_max)
        return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "PMI: \"%.80s\" is no key of less than %zu characters",
                     key, client->key_bytes_max);
}

enum tutti_status pmi1_put(struct pmi1 *client, const char *key, const char *value,
                           uint64_t deadline_ns)
{
    struct answer answer;
    TRY(check_key(client, key));
    if (!is_word(value) || strlen(value) > pmi1_value_room(client, strlen(key)))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "PMI: the value of %s is empty, too long or has blanks", key);
    TRY(ask(client, "put", "put_result", deadline_ns, &answer,
            "cmd=put kvsname=%s key=%s value=%s\n", client->space, key, value));
    return check_result(&answer, "put");
}

enum tutti_status pmi1_fence(struct pmi1 *client, uint64_t deadline_ns)
{
    struct answer answer;
    TRY(ask(client, "barrier_in", "barrier_out", deadline_ns, &answer, "cmd=barrier_in\n"));
    return check_result(&answer, "barrier_in");
}

enum tutti_status pmi1_get(struct pmi1 *client, const char *key, char *value, size_t value_bytes,
                           uint64_t deadline_ns)
{
    struct answer answer;
    struct pmi1_word word;
    TRY(check_key(client, key));
    TRY(ask(client, "get", "get_result", deadline_ns, &answer, "cmd=get kvsname=%s key=%s\n",
            client->space, key));
    TRY(check_result(&answer, key));
    if (!pmi1_find(answer.line, answer.line_bytes, "value", &word))
        return error_set(TUTTI_AUTH_FAILED, "PMI: the answer has no value of %s", key);
    if (word.value_bytes >= value_bytes)
        return error_set(TUTTI_INVALID_OPTIONS, "PMI: the value of %s has %zu characters, not %zu",
                         key, word.value_bytes, value_bytes - 1);
    memcpy(value, word.value, word.value_bytes);
    value[word.value_bytes] = '\0';
    return TUTTI_OK;
}

enum tutti_status pmi1_close(struct pmi1 *client, uint64_t deadline_ns)
{
    if (client->is_broken) return TUTTI_OK;
    struct answer answer;
    const enum tutti_status status =
        ask(client, "finalize", "finalize_ack", deadline_ns, &answer, "cmd=finalize\n");
    client->is_broken = true;
    return status;
}
