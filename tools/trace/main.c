/* tutti-trace - which rank is at fault, and what is slow: reads the flight recorders of ranks, from
 * dumps or while they run. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choices.h"
#include "compare.h"
#include "query.h"
#include "read.h"
#include "report.h"
#include "text.h"
#include "tutti/tutti.h"
#include "verdict.h"

/* EXIT_FOUND: of compare and report, something that cannot be read or does not fit together. */
enum exit_code { EXIT_FINE, EXIT_FOUND, EXIT_BAD };

static const char help[] =
    "tutti-trace - says which rank is at fault, and what ranks do\n"
    "\n"
    "  tutti-trace verdict DIR     the culprit and why, in a line, from the dumps in a directory\n"
    "  tutti-trace show FILE       one dump as a table, oldest call first, and why calls got\n"
    "                              their algorithms\n"
    "  tutti-trace query [--why] [PID...]\n"
    "      what the processes of this host, or the named processes, do now\n"
    "      --why: also which algorithms their calls got, why, and their expected times\n"
    "  tutti-trace compare DUMPS... [--calibration FILE] [--csv] [--top N]\n"
    "      how long the calls took beside the predictions of the cost model, the worst ratio\n"
    "      first, and which ranks come late\n"
    "      DUMPS: files, or directories of files, of all ranks of a communicator or of several\n"
    "      --calibration: numbers that `tutti-topo --calibrate` measured on these hosts\n"
    "      (the shipped numbers)\n"
    "      --csv: for programs, with times in nanoseconds\n"
    "      --top: at most this many lines of calls, and of ranks (20; with --csv all)\n"
    "  tutti-trace report DUMPS... [-o FILE | --output FILE] [--calibration FILE]\n"
    "      writes a page of HTML about a job: the verdict and its evidence, a timeline of the\n"
    "      ranks, slow ranks, measured times beside the times that the job expected or, with\n"
    "      --calibration, that the cost model predicts, and what the dumps do not tell. It names\n"
    "      files that cannot be read\n"
    "      --output: the file (standard output)\n"
    "  tutti-trace -h | --help | -V | --version\n"
    "\n"
    "Ranks write dumps where TUTTI_TRACE_DIR says: when a communicator fails, on the\n"
    "signal TUTTI_TRACE_SIGNAL, and in tutti_trace_dump().\n"
    "Example: TUTTI_TRACE_DIR=traces tutti-run -n 8 ./train; tutti-trace verdict traces\n"
    "\n"
    "Exit status of verdict: 0 no rank is at fault; 1 a rank is. Of query: 0; 1 a process did not\n"
    "answer, or there is none. Of compare: 0; 1 a file cannot be read, or dumps do not fit\n"
    "together. Of report: 0; 1 the page is written, but some files cannot be read. Of all: 2 "
    "wrong\n"
    "usage; of verdict and show, also a file cannot be read; of report, no page is written.\n";

/* Either the output has been written, or the exit status says that it has not. */
static enum exit_code finish(enum exit_code code)
{
    if (fflush(stdout) == 0) return code;
    trace_complain("standard output: %s", strerror(errno));
    return EXIT_BAD;
}

/* ------------------------------------------------------------------------------------- commands */

static enum exit_code run_verdict(const char *folder)
{
    struct traces traces = {0};
    struct verdict verdict;
    enum exit_code code = traces_add_folder(&traces, folder) ? EXIT_FINE : EXIT_BAD;
    if (code == EXIT_FINE && verdict_find(traces.all, traces.count, &verdict) != TUTTI_OK) {
        trace_complain("%s: %s", folder, tutti_error_message());
        code = EXIT_BAD;
    }
    if (code == EXIT_FINE) {
        puts(verdict.text);
        code = verdict.kind == VERDICT_NOTHING ? EXIT_FINE : EXIT_FOUND;
    }
    traces_release(&traces);
    return finish(code);
}

static void show_algorithms(const struct trace_json *trace)
{
    if (trace->choice_count + trace->unused_plan_count == 0) return;
    puts("algorithms:");
    show_choices(trace, stdout);
}

static enum exit_code run_show(const char *path)
{
    struct traces traces = {0};
    const bool is_read = traces_add_file(&traces, path);
    if (is_read) {
        show_trace(&traces.all[0], stdout);
        show_algorithms(&traces.all[0]);
    }
    traces_release(&traces);
    return is_read ? finish(EXIT_FINE) : EXIT_BAD;
}

static enum exit_code run_query(int count, char **words)
{
    int *pids = calloc((size_t)count + 1, sizeof *pids);
    if (pids == NULL) {
        trace_complain("out of memory");
        return EXIT_BAD;
    }
    enum exit_code code = EXIT_FINE;
    bool with_choices = false;
    int pid_count = 0;
    for (int i = 0; i < count && code == EXIT_FINE; i++) {
        if (strcmp(words[i], "--why") == 0) {
            with_choices = true;
            continue;
        }
        char *end;
        const long pid = strtol(words[i], &end, 10);
        if (*words[i] < '0' || *words[i] > '9' || *end != '\0' || pid < 1 || pid > INT_MAX) {
            trace_complain("%s is not the number of a process (see tutti-trace --help)", words[i]);
            code = EXIT_BAD;
        }
        pids[pid_count++] = (int)pid;
    }
    if (code == EXIT_FINE && query_processes(pids, pid_count, with_choices, stdout) > 0)
        code = EXIT_FOUND;
    free(pids);
    return finish(code);
}

static int misused(const char *what, const char *why)
{
    trace_complain("%s%s (see tutti-trace --help)", what, why);
    return EXIT_BAD;
}

static int run_compare(int argc, char **argv)
{
    struct compare_options options;
    if (!compare_parse(argc, argv, &options)) return EXIT_BAD;
    const bool is_done = compare_dumps(&options, stdout);
    return is_done ? (int)finish(EXIT_FINE) : EXIT_FOUND;
}

static int run_report(int argc, char **argv)
{
    struct report_options options;
    if (!report_parse(argc, argv, &options)) return EXIT_BAD;
    switch (report_dumps(&options)) {
    case REPORT_WHOLE: return EXIT_FINE;
    case REPORT_LACKS_FILES: return EXIT_FOUND;
    default: return EXIT_BAD;
    }
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
    if (strcmp(command, "compare") == 0) return run_compare(argc - 1, argv + 1);
    if (strcmp(command, "report") == 0) return run_report(argc - 1, argv + 1);
    const bool is_verdict = strcmp(command, "verdict") == 0;
    if (!is_verdict && strcmp(command, "show") != 0)
        return misused("verdict, show, query, compare or report is needed", "");
    if (argc != 3) return misused(command, is_verdict ? " takes one folder" : " takes one file");
    return (int)(is_verdict ? run_verdict(argv[2]) : run_show(argv[2]));
}
