/* status.h - the one list of statuses, and how a failure is reported.
 *
 * A function that fails calls error_set() where the cause is first known; callers only pass the
 * status on.
 */
#ifndef TUTTI_BASE_STATUS_H
#define TUTTI_BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

#include "tutti/tutti.h"

/* X(enumerator without TUTTI_, text: what happened; what to do) */
#define STATUS_LIST(X)                                                                             \
    X(OK, "no error")                                                                              \
    X(IN_PROGRESS, "the operation is not done yet; test again or wait")                            \
    X(INVALID_COMM, "not a communicator; pass one that was created and is not freed")              \
    X(INVALID_BUFFER, "a buffer cannot be used; check for NULL and partial overlap")               \
    X(INVALID_COUNT,                                                                               \
      "the count is too large; count times element size times ranks must fit into size_t")         \
    X(INVALID_DTYPE, "not a dtype; use a value of enum tutti_dtype")                               \
    X(INVALID_OP, "not an operation; use one that tutti.h names or tutti_op_create made")          \
    X(INVALID_ROOT, "the root is not a rank of this communicator; use 0 to size - 1")              \
    X(INVALID_RANK,                                                                                \
      "rank and size make no communicator; use 0 <= rank < size, and one size on all ranks")       \
    X(INVALID_OPTIONS, "an option cannot be used; the message names it")                           \
    X(INVALID_REQUEST, "not a request; pass the address of one that a _start function filled")     \
    X(INVALID_ALGORITHM, "no such algorithm for this call; `tutti-plan list` shows them")          \
    X(TIMEOUT, "the deadline passed; look at the named rank, or set a longer timeout")             \
    X(INIT_TIMEOUT, "ranks are missing; start them, or set a longer TUTTI_INIT_TIMEOUT")           \
    X(PROC_FAILED,                                                                                 \
      "a rank ended; look at its output, then shrink the communicator or start again")             \
    X(MISMATCH,                                                                                    \
      "ranks made one call with different arguments or forms; make the named calls agree")         \
    X(DESYNC, "ranks called different operations; make the order of calls the same on all ranks")  \
    X(ABORTED, "the communicator was aborted; free it")                                            \
    X(AUTH_FAILED,                                                                                 \
      "the other side is not of this job; check TUTTI_SECRET_FILE, TUTTI_SECRET and the job's id") \
    X(VERSION, "ranks run versions of Tutti that cannot talk to each other; install one version")  \
    X(NO_MEMORY, "out of memory; free some, or raise the limit")                                   \
    X(NO_SPACE, "shared memory could not be reserved; free some, or raise the memory limit")       \
    X(NO_DESCRIPTORS, "out of file descriptors; raise `ulimit -n`")                                \
    X(SYSTEM, "a system call or a GPU failed; the message has its error")                          \
    X(UNSUPPORTED, "not possible here; the message says why")                                      \
    X(INTERNAL, "a bug in Tutti; report it in the project's issue tracker, with the message")      \
    X(INVALID_TAG, "not a tag; tags of messages are 0 or more")                                    \
    X(TRUNCATED,                                                                                   \
      "a message is longer than its receive, or of another dtype; receive it as it is sent")       \
    X(UNEXPECTED_FULL,                                                                             \
      "too many messages wait here for a receive; receive them, or raise TUTTI_UNEXPECTED")        \
    X(MINORITY,                                                                                    \
      "cut off from most ranks, which may go on; end this process, and check the network")         \
    X(CORRUPT,                                                                                     \
      "data arrives changed; check the NICs and the memory of the hosts of the two ranks")         \
    X(REVOKED, "a rank revoked the communicator; agree, shrink it, or end")                        \
    X(EXCLUDED,                                                                                    \
      "ranks are put out of the communicator; if it is this one, end, else exclude them, too")

#define STATUS_ONE(name, text) +1
enum { STATUS_COUNT = 0 STATUS_LIST(STATUS_ONE) };
#undef STATUS_ONE

/* Formats this thread's error message and returns status. */
enum tutti_status error_set(enum tutti_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A copy of this thread's message. */
void error_copy(char *text, size_t text_bytes);
/* For a caller that tries several ways: if the last one succeeded, failures of the others do not
 * count, and `before`, the message that error_copy gave at the start, becomes this thread's again.
 * Returns the status. */
enum tutti_status error_unless_ok(enum tutti_status status, const char *before);
enum { ERROR_TEXT_MAX = 512 };
/* The same with ": " and the text of errno behind it; errno also decides between NO_MEMORY,
 * NO_SPACE, NO_DESCRIPTORS and SYSTEM. */
enum tutti_status error_system(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns early with a failure where nothing needs undoing. */
#define TRY(call)                                      \
    do {                                               \
        const enum tutti_status try_status = (call);   \
        if (try_status != TUTTI_OK) return try_status; \
    } while (0)

#endif
