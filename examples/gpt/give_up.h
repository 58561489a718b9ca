/* give_up.h - what the program does when it cannot go on: it says why, and ends. */
#ifndef GPT_GIVE_UP_H
#define GPT_GIVE_UP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline _Noreturn void give_up(const char *what, const char *why)
{
    fprintf(stderr, "gpt: %s: %s\n", what, why);
    exit(1);
}

/* Zeroed memory, for free(). */
static inline void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);
    if (memory == NULL) give_up("memory", strerror(errno));
    return memory;
}

#endif
