/* child.h - how a child ended, in words. */
#ifndef TUTTI_TOOLS_RUN_CHILD_H
#define TUTTI_TOOLS_RUN_CHILD_H

#include <stddef.h>

/* Describes a status from waitpid: "exited with code 7", "was killed by SIGSEGV (core dumped)". */
void child_describe_end(int status, char *text, size_t size);
/* The exit code that stands for such a status: 128 + signal if the child was killed. */
int child_exit_code(int status);

#endif
