/* cuda_standin_state.c - how each call begins, and which ones are to fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/gpu/cuda_standin_state.h"

struct standin_state standin_state = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { FAILURES_MAX = 8 };

/* A function that a test wants to fail. */
struct failure {
    char symbol[STANDIN_NAME_BYTES];
    int result;
    unsigned skipped, times;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct failure failures[FAILURES_MAX];
static unsigned failure_count;

int standin_fails(const char *symbol)
{
    int result = CUDA_OK;
    pthread_mutex_lock(&lock);
    for (unsigned f = 0; f < failure_count && result == CUDA_OK; f++) {
        struct failure *const failure = &failures[f];
        if (strcmp(failure->symbol, symbol) != 0) continue;
        if (failure->skipped > 0) {
            failure->skipped--;
        } else if (failure->times > 0) {
            failure->times--;
            result = failure->result;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void standin_fail(const char *symbol, int result, unsigned skipped, unsigned times)
{
    pthread_mutex_lock(&lock);
    if (symbol == NULL) {
        failure_count = 0;
    } else {
        if (failure_count == FAILURES_MAX) standin_die("too many functions that fail");
        struct failure *const failure = &failures[failure_count++];
        snprintf(failure->symbol, sizeof failure->symbol, "%s", symbol);
        failure->result = result;
        failure->skipped = skipped;
        failure->times = times;
    }
    pthread_mutex_unlock(&lock);
}

int standin_begin_call(const char *symbol)
{
    if (atomic_load(&standin_state.owner) != getpid()) return CUDA_NOT_INITIALIZED;
    return standin_fails(symbol);
}

long standin_number_from(const char *value, long least, long most, long otherwise)
{
    if (value == NULL || *value == '\0') return otherwise;
    const long number = strtol(value, NULL, 10);
    return number < least ? least : number > most ? most : number;
}
