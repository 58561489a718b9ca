/* tutti-trace - which rank is at fault: reads the flight recorders of ranks, from dumps or while they run. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/trace_json.h"
#include "os/file.h"
#include "tutti-trace_query.h"
#include "tutti-trace_text.h"
#include "tutti-trace_verdict.h"
#include "tutti/tutti.h"

enum exit_code { EXIT_FINE, EXIT_FOUND, EXIT_BAD };

static const char help[] =
    "tutti-trace - says which rank is at fault, and what ranks do\n"
    "\n"
    "  tutti-trace verdict DIR     the culprit and why, in one line, from the dumps in a folder\n"
    "  tutti-trace show FILE       one dump as a table, oldest call first\n"
    "  tutti-trace query [PID...]  what the processes of this host, or those named, do now\n"
    "  tutti-trace -h | --help | -V | --version\n"
    "\n"
    "Ranks write dumps where TUTTI_TRACE_DIR says: when a communicator fails, on the\n"
    "signal TUTTI_TRACE_SIGNAL, and in tutti_trace_dump().\n"
    "\n"
    "Exit status of verdict: 0 nothing is wrong; 1 something is. Of query: 0; 1 a process did not\n"
    "answer, or there is none. Of all: 2 wrong usage, or a file that cannot be read.\n";

__attribute__((format(printf, 1, 2))) static enum exit_code complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("tutti-trace: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return EXIT_BAD;
}

/* What was printed is there, or the exit status says that it is not. */
static enum exit_code finish(enum exit_code code)
{
    if (fflush(stdout) == 0) return code;
    return complain("standard output: %s", strerror(errno));
}

/* ------------------------------------------------------------------------------------------------ reading */

static enum exit_code read_trace(const char *path, struct trace_json *trace)
{
    size_t size;
    FILE *file = fopen(path, "rbe");
    char *text = file != NULL ? file_read_all(file, TRACE_JSON_BYTES_MAX, &size) : NULL;
    enum exit_code code = EXIT_FINE;
    if (text == NULL)
        code = complain("%s: %s", path, strerror(errno));
    else if (trace_json_load(text, size, trace) != TUTTI_OK)
        code = complain("%s: %s", path, tutti_error_message());
    free(text);
    if (file != NULL) fclose(file);
    return code;
}

/* tutti-ID-rankN.json */
static bool is_dump(const char *name)
{
    const size_t length = strlen(name);
    return strncmp(name, "tutti-", 6) == 0 && strstr(name, "-rank") != NULL && length > 5 &&
           strcmp(name + length - 5, ".json") == 0;
}

struct traces {
    struct trace_json *all;
    size_t count, room;
};

static void release(struct traces *traces)
{
    for (size_t i = 0; i < traces->count; i++) trace_json_release(&traces->all[i]);
    free(traces->all);
}

static enum exit_code add_trace(struct traces *traces, const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return complain("%s: the name is too long", folder);
    if (traces->count == traces->room) {
        const size_t room = 2 * traces->room + 16;
        struct trace_json *grown = realloc(traces->all, room * sizeof *grown);
        if (grown == NULL) return complain("out of memory");
        traces->all = grown;
        traces->room = room;
    }
    const enum exit_code code = read_trace(path, &traces->all[traces->count]);
    traces->count += code == EXIT_FINE;
    return code;
}

static enum exit_code read_folder(const char *name, struct traces *traces)
{
    DIR *folder = opendir(name);
    if (folder == NULL) return complain("%s: %s", name, strerror(errno));
    enum exit_code code = EXIT_FINE;
    for (struct dirent *entry; code == EXIT_FINE && (entry = readdir(folder)) != NULL;)
        if (is_dump(entry->d_name)) code = add_trace(traces, name, entry->d_name);
    closedir(folder);
    if (code == EXIT_FINE && traces->count == 0)
        code = complain("%s: there are no dumps (tutti-ID-rankN.json)", name);
    return code;
}

/* ----------------------------------------------------------------------------------------------- commands */

static enum exit_code run_verdict(const char *folder)
{
    struct traces traces = {0};
    struct verdict verdict;
    enum exit_code code = read_folder(folder, &traces);
    if (code == EXIT_FINE && verdict_find(traces.all, traces.count, &verdict) != TUTTI_OK)
        code = complain("%s: %s", folder, tutti_error_message());
    if (code == EXIT_FINE) {
        puts(verdict.text);
        code = verdict.kind == VERDICT_NOTHING ? EXIT_FINE : EXIT_FOUND;
    }
    release(&traces);
    return finish(code);
}

static enum exit_code run_show(const char *path)
{
    struct trace_json trace;
    const enum exit_code code = read_trace(path, &trace);
    if (code != EXIT_FINE) return code;
    show_trace(&trace, stdout);
    trace_json_release(&trace);
    return finish(EXIT_FINE);
}

static enum exit_code run_query(int count, char **words)
{
    int *pids = calloc((size_t)count + 1, sizeof *pids);
    if (pids == NULL) return complain("out of memory");
    enum exit_code code = EXIT_FINE;
    for (int i = 0; i < count && code == EXIT_FINE; i++) {
        char *end;
        const long pid = strtol(words[i], &end, 10);
        if (*words[i] < '0' || *words[i] > '9' || *end != '\0' || pid < 1 || pid > INT_MAX)
            code = complain("%s is not the number of a process (see tutti-trace --help)", words[i]);
        pids[i] = (int)pid;
    }
    if (code == EXIT_FINE && query_processes(pids, count, stdout) > 0) code = EXIT_FOUND;
    free(pids);
    return finish(code);
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "-h") == 0 || strcmp(command, "--help") == 0) {
        fputs(help, stdout);
        return (int)finish(EXIT_FINE);
    }
    if (strcmp(command, "-V") == 0 || strcmp(command, "--version") == 0) {
        printf("tutti-trace %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
               TUTTI_VERSION_PATCH);
        return (int)finish(EXIT_FINE);
    }
    if (strcmp(command, "query") == 0) return (int)run_query(argc - 2, argv + 2);
    const bool is_verdict = strcmp(command, "verdict") == 0;
    if (!is_verdict && strcmp(command, "show") != 0)
        return (int)complain("verdict, show or query is needed (see tutti-trace --help)");
    if (argc != 3)
        return (int)complain("%s takes one %s (see tutti-trace --help)", command,
                             is_verdict ? "folder" : "file");
    return (int)(is_verdict ? run_verdict(argv[2]) : run_show(argv[2]));
}
