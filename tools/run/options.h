/* options.h - the command line of tutti-run. */
#ifndef TUTTI_TOOLS_RUN_OPTIONS_H
#define TUTTI_TOOLS_RUN_OPTIONS_H

#include "hosts.h"
#include "keeper.h"

struct command_line {
    struct run_options run; /* the user's options for it; without ranks */
    int rank_count;         /* 0: as many as there are slots */
    struct hosts hosts;     /* none: this host alone */
    enum hosts_map map;
    const char *remote_shell;
    const char *remote_path; /* NULL: as this program */
    uint64_t start_timeout_ns;
    char **exported; /* names that -x gave, NULL last */
    bool is_agent;
};

/* Returns -1 to go on, otherwise the exit code. Variables that the user gives a value are set at
 * once. */
int command_line_read(int argument_count, char **arguments, struct command_line *line);
void command_line_release(struct command_line *line);

#endif
