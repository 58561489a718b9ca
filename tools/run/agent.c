#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option.h"
#include "os/clock.h"
#include "program.h"

#define RECEIVE_NS UINT64_C(60000000000)

/* NULL, or why there is not all of it. */
static const char *receive(unsigned char *bytes, size_t size, uint64_t deadline_ns)
{
    for (size_t got = 0; got < size;) {
        const uint64_t now = clock_now_ns();
        struct pollfd input = {.fd = 0, .events = POLLIN};
        if (now >= deadline_ns) return "it does not come";
        if (poll(&input, 1, (int)((deadline_ns - now) / 1000000) + 1) <= 0) continue;
        const ssize_t part = read(0, bytes + got, size - got);
        if (part == 0) return "it is cut off";
        if (part < 0 && errno != EINTR && errno != EAGAIN) return strerror(errno);
        if (part > 0) got += (size_t)part;
    }
    return NULL;
}

static const char *receive_message(struct message *message)
{
    const uint64_t deadline_ns = clock_now_ns() + RECEIVE_NS;
    unsigned char head[MESSAGE_HEAD_BYTES];
    const char *wrong = receive(head, sizeof head, deadline_ns);
    if (wrong != NULL) return wrong;
    const size_t size = message_body_size(head, &wrong);
    if (wrong != NULL) return wrong;
    unsigned char *body = malloc(size > 0 ? size : 1);
    if (body == NULL) return strerror(ENOMEM);
    wrong = receive(body, size, deadline_ns);
    if (wrong == NULL) wrong = message_read(body, size, message);
    if (wrong != NULL) free(body);
    return wrong;
}

/* The user's host decides which secret there is: one that this host has of its own would contradict
 * it. */
static void set_environment(char *const *environment)
{
    unsetenv(option_names.SECRET);
    unsetenv(option_names.SECRET_FILE);
    for (int i = 0; environment[i] != NULL; ++i) putenv(environment[i]);
}

static int enter(const char *folder, const char *host)
{
    if (chdir(folder) == 0 && setenv("PWD", folder, 1) == 0) return -1;
    fprintf(stderr, "tutti-run: host %s: cannot enter %s: %s\n", host, folder, strerror(errno));
    return RUN_FAILED;
}

void agent_report(const char *token, enum report_kind kind, int code)
{
    char text[100];
    report_write(token, kind, code, text, sizeof text);
    fprintf(stderr, "%s\n", text);
}

int agent_prepare(struct agent_task *task)
{
    struct message *message = &task->message;
    struct run_options *options = &message->options;
    const char *wrong = receive_message(message);
    if (wrong != NULL) {
        fprintf(stderr, "tutti-run --agent: no message to be understood: %s\n", wrong);
        return RUN_FAILED;
    }
    set_environment(message->environment);
    int code = enter(message->folder, options->host);
    if (code < 0) code = program_find(options->arguments[0], options->host, task->program);
    if (code < 0 && *options->output_folder != '\0')
        code = program_make_folder(options->output_folder, options->host);
    options->program = task->program;
    options->stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (code >= 0) {
        agent_report(options->token, REPORT_FAILED, code);
        agent_report(options->token, REPORT_DONE, code);
    }
    return code;
}
