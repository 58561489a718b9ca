/* launch.h - what started this process, and PMIx. */
#ifndef TUTTI_TOOLS_INFO_LAUNCH_H
#define TUTTI_TOOLS_INFO_LAUNCH_H

#include <stdbool.h>

enum { LAUNCH_TEXT_SIZE = 256 };

struct launch {
    const char *launcher; /* NULL: none */
    int rank, size;
};

struct pmix {
    bool is_there;
    char version[LAUNCH_TEXT_SIZE]; /* as the library words it */
    char why[LAUNCH_TEXT_SIZE];     /* it is not there */
};

void launch_look(struct launch *launch);
/* answer: a struct pmix. */
void launch_ask_pmix(void *answer, int question);

#endif
