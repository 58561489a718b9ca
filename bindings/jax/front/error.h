/* error.h - what went wrong, as MPI says it: a class of errors, and a message for the thread that
 * asks. */
#ifndef TUTTI_JAX_ERROR_H
#define TUTTI_JAX_ERROR_H

#include "front/front.h"

/* MPI_MAX_ERROR_STRING of MPItrampoline's ABI, with the zero at the end. */
enum { FRONT_ERROR_BYTES = 1024 };

/* Returns early with an error of MPI, where nothing needs undoing. */
#define FRONT_TRY(call)                                       \
    do {                                                      \
        const int front_error = (call);                       \
        if (front_error != FRONT_SUCCESS) return front_error; \
    } while (0)

/* Keeps "MPI_FUNCTION: ..." as this thread's message and returns the class. Any thread; does not
 * block. */
int front_fail(enum front_class class, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for what a call of Tutti in this thread returned, with the call's message; FRONT_SUCCESS
 * for TUTTI_OK. */
int front_result(const char *function, enum tutti_status status);

/* Keeps a message that was kept before, for another thread, say. */
int front_repeat(enum front_class class, const char *message);

/* One line in the log: standard error, as Tutti's own. */
void front_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
