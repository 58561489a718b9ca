/* environment_fuzz.h - for fuzzers: the environment, made of their input: NAME=value in each
 * line. */
#ifndef TUTTI_BOOTSTRAP_ENVIRONMENT_FUZZ_H
#define TUTTI_BOOTSTRAP_ENVIRONMENT_FUZZ_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENVIRONMENT_VARIABLES_MAX = 64 };

struct environment {
    char *text, **before;
    char *variables[ENVIRONMENT_VARIABLES_MAX + 1];
};

static inline void environment_replace(struct environment *environment, const uint8_t *data,
                                       size_t size)
{
    char *const text = malloc(size + 1);
    if (text == NULL) abort();
    memcpy(text, data, size);
    text[size] = '\0';
    *environment = (struct environment){.text = text, .before = environ};
    int count = 0;
    for (char *line, *rest = text;
         count < ENVIRONMENT_VARIABLES_MAX && (line = strsep(&rest, "\n")) != NULL;)
        if (strchr(line, '=') != NULL) environment->variables[count++] = line;
    environ = environment->variables;
}

static inline void environment_restore(const struct environment *environment)
{
    environ = environment->before;
    free(environment->text);
}

#endif
