/* tutti.h - collective communication for distributed training: the whole user story.
 *
 *     struct tutti_comm *comm;
 *     tutti_comm_create(NULL, &comm);                  // rank and size from the launcher
 *     tutti_allreduce(gradients, gradients, count, TUTTI_FLOAT32, TUTTI_AVG, comm);
 *     tutti_comm_free(comm);
 *
 * Words.  A *communicator* joins `size` ranks, numbered from 0; a rank is a process or a thread.  A
 * *collective* is called by every rank of a communicator, in the same order on all of them.  A *block* is
 * `count` elements of one dtype.
 *
 * Forms.  Every collective has three:
 *     tutti_X(...)            blocks until this rank's part is done: its buffers may be used again.
 *     tutti_X_with(..., opt)  the same with a deadline, an algorithm or determinism of its own.
 *     tutti_X_start(..., &r)  returns at once; the buffers belong to the operation until tutti_wait (or a
 *                             tutti_test that says done) gives them back.  Progress needs no further call.
 * The form is part of the call: a started collective meets started ones on the other ranks.
 *
 * Errors.  Functions return TUTTI_OK or a status; tutti_error_message() then tells this thread what went
 * wrong, and tutti_comm_failure() who is to blame.  An invalid argument is found before anything is sent and
 * changes nothing.  Any other failure ends the communicator: later calls return the same status, and
 * tutti_comm_free() still works.  No call waits longer than its deadline.
 *
 * Threads.  Any thread may call anything.  Calls on one communicator must have the same order on every rank,
 * so let one thread at a time issue them; waiting, testing and aborting may happen anywhere, at any time.
 *
 * Memory.  Any readable or writable memory works.  Memory from tutti_mem_alloc() is mapped by the other
 * processes of the host: large operations on it copy less.
 */
#ifndef TUTTI_H
#define TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#define TUTTI_MUST_USE __attribute__((warn_unused_result))
#else
#define TUTTI_API
#define TUTTI_MUST_USE
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

/* ------------------------------------------------------------------------------------------ status */

enum tutti_status {
    TUTTI_OK = 0,
    TUTTI_IN_PROGRESS,    /* tutti_test: not done yet; no error */
    TUTTI_INVALID_COMM,   /* communicator is NULL or not one of ours */
    TUTTI_INVALID_BUFFER, /* NULL with a count above zero, misaligned, or overlapping in part */
    TUTTI_INVALID_COUNT,  /* count times the element size does not fit into size_t */
    TUTTI_INVALID_DTYPE,  /* not a dtype */
    TUTTI_INVALID_OP,     /* not an operation, or none for this dtype */
    TUTTI_INVALID_ROOT,   /* root is not a rank of the communicator */
    TUTTI_INVALID_RANK,   /* rank or size of a communicator make no sense */
    TUTTI_INVALID_OPTIONS, /* an options struct or environment variable; the message says which field */
    TUTTI_INVALID_REQUEST,   /* request is NULL */
    TUTTI_INVALID_ALGORITHM, /* unknown, or it cannot do this collective with this many ranks */
    TUTTI_TIMEOUT,           /* the deadline passed; the culprit is named */
    TUTTI_INIT_TIMEOUT,      /* ranks missing at start-up; they are listed */
    TUTTI_PROC_FAILED,       /* a rank died */
    TUTTI_MISMATCH,          /* ranks called the same operation with different arguments */
    TUTTI_DESYNC,            /* ranks called different operations, or in a different order */
    TUTTI_ABORTED,           /* tutti_comm_abort was called */
    TUTTI_AUTH_FAILED,       /* somebody else answered at start-up */
    TUTTI_VERSION,           /* the ranks run versions of Tutti that cannot talk to each other */
    TUTTI_NO_MEMORY,         /* malloc or mmap failed */
    TUTTI_NO_SPACE,          /* shared memory could not be reserved */
    TUTTI_NO_DESCRIPTORS,    /* out of file descriptors */
    TUTTI_SYSTEM,            /* another system call failed; the message has errno */
    TUTTI_UNSUPPORTED,       /* known but impossible here; the message says why */
    TUTTI_INTERNAL           /* a bug in Tutti */
};

/* The name of a status ("PROC_FAILED"), never NULL.  Any thread; does not block. */
TUTTI_API const char *tutti_status_name(enum tutti_status status);
/* What happened and what to do about it, one sentence each, never NULL.  Any thread; does not block. */
TUTTI_API const char *tutti_status_text(enum tutti_status status);
/* The whole story of the last failure of a call in this thread: rank, host, operation, sequence.  Valid until
 * this thread's next failing call.  "" when there was none. */
TUTTI_API const char *tutti_error_message(void);

/* --------------------------------------------------------------------------------- dtypes and operations */

enum tutti_dtype {
    TUTTI_FLOAT32,
    TUTTI_FLOAT64,
    TUTTI_BFLOAT16, /* accumulated in float32 in plan order, rounded once per step */
    TUTTI_INT32,    /* sums and products wrap */
    TUTTI_INT64
};

enum tutti_op {
    TUTTI_SUM,
    TUTTI_PROD,
    TUTTI_MIN, /* NaN handling: min(a, b) = a < b ? a : b in plan order */
    TUTTI_MAX,
    TUTTI_AVG /* sum divided by the number of ranks, once; integers truncate towards zero */
};

/* Bytes of one element; 0 for what is not a dtype. */
TUTTI_API size_t tutti_dtype_size(enum tutti_dtype dtype);
TUTTI_API const char *tutti_dtype_name(enum tutti_dtype dtype);
TUTTI_API const char *tutti_op_name(enum tutti_op op);

/* ----------------------------------------------------------------------------------------- communicators */

struct tutti_comm;    /* opaque */
struct tutti_request; /* opaque */

/* Names a communicator to be.  Made by one rank, carried to the others by the application. */
struct tutti_id {
    unsigned char bytes[128];
};

/* A key-value store of the application, through which ranks find each other.  Both return 0 when done. */
struct tutti_store {
    size_t size_bytes; /* sizeof(struct tutti_store) */
    int (*set)(void *context, const char *key, const void *value, size_t value_bytes);
    /* Blocks until the key is there or timeout_ns has passed; copies exactly value_bytes. */
    int (*get)(void *context, const char *key, void *value, size_t value_bytes, uint64_t timeout_ns);
    void *context;
};

struct tutti_comm_options {
    size_t size_bytes; /* sizeof(struct tutti_comm_options); TUTTI_COMM_OPTIONS_INIT sets it */
    int rank;          /* -1: from the launcher's environment */
    int size;          /* -1: from the launcher's environment */
    const struct tutti_id *id;       /* meet by id: the same on all ranks; or NULL */
    const struct tutti_store *store; /* meet through a store; or NULL: meet through the environment */
    uint64_t timeout_ns;      /* default deadline of an operation; 0: TUTTI_TIMEOUT or 30 minutes */
    uint64_t init_timeout_ns; /* for all ranks to arrive; 0: TUTTI_INIT_TIMEOUT or 5 minutes */
    int deterministic;        /* not 0: bits do not depend on size, offset or bucketing either */
    const char *algorithms; /* rules, e.g. "allreduce:0-64k=oneshot,64k-=ring"; NULL: TUTTI_ALGORITHMS */
};
#define TUTTI_COMM_OPTIONS_INIT                                              \
    {                                                                        \
        sizeof(struct tutti_comm_options), -1, -1, NULL, NULL, 0, 0, 0, NULL \
    }

/* Fills *id with a fresh, unguessable name.  Any thread; does not block. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_id_create(struct tutti_id *id);

/* Joins a communicator; collective over its ranks, each with its own rank number.  options may be NULL: all
 * from the environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and what Tutti's launcher sets).  Options
 * and what they point to are copied.  Blocks until all ranks have arrived or the start-up deadline names the
 * missing ones.  On failure *comm is NULL and nothing is left behind. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_create(const struct tutti_comm_options *options, struct tutti_comm **comm);
/* Leaves: waits for this rank's started operations (until their deadlines), gives all memory back.  NULL is
 * allowed.  Not collective: peers that still need this rank get an error that names it. */
TUTTI_API enum tutti_status tutti_comm_free(struct tutti_comm *comm);
/* Ends every present and future operation of the communicator on all ranks with TUTTI_ABORTED, from any
 * thread, also while a call is blocked.  The first failure wins.  Does not block. */
TUTTI_API enum tutti_status tutti_comm_abort(struct tutti_comm *comm, const char *reason);
TUTTI_API int tutti_comm_rank(const struct tutti_comm *comm); /* -1 for NULL */
TUTTI_API int tutti_comm_size(const struct tutti_comm *comm); /* -1 for NULL */

struct tutti_failure {
    size_t size_bytes;        /* set by the caller to sizeof(struct tutti_failure) */
    enum tutti_status status; /* TUTTI_OK: the communicator is healthy */
    int culprit;       /* the rank at fault, -1 if none can be named; the same on every survivor */
    int reporter;      /* the rank that found out first */
    int pid;           /* process of the culprit, 0 if not known */
    uint64_t sequence; /* number of the operation on this communicator, from 1; 0: outside of one */
    char message[256]; /* all of it in words */
};
/* Why the communicator failed.  Any thread; does not block. */
TUTTI_API enum tutti_status tutti_comm_failure(const struct tutti_comm *comm,
                                               struct tutti_failure *failure);

/* ------------------------------------------------------------------------------------------- operations */

struct tutti_call_options {
    size_t size_bytes;     /* sizeof(struct tutti_call_options); TUTTI_CALL_OPTIONS_INIT sets it */
    uint64_t timeout_ns;   /* deadline from now; 0: the communicator's */
    const char *algorithm; /* name from `tutti-plan list`; NULL: chosen.  The same on all ranks. */
    int deterministic;     /* as in the communicator's options, for this call */
};
#define TUTTI_CALL_OPTIONS_INIT                       \
    {                                                 \
        sizeof(struct tutti_call_options), 0, NULL, 0 \
    }

/* Blocks until the request is done or its deadline has passed, then frees it and sets *request to NULL.
 * Returns the operation's status.  One thread per request. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_wait(struct tutti_request **request);
/* Like tutti_wait without blocking: TUTTI_IN_PROGRESS leaves the request as it is. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_test(struct tutti_request **request);

/* In the following, n is the size of the communicator and r the calling rank.  `send` is read, `recv` is
 * written; they do not overlap unless they are "in place" as each line says.  `_start` forms own both until
 * the request is done.  options may be NULL.  All block as described at the top (except `_start`), return
 * INVALID_*, TIMEOUT, PROC_FAILED, MISMATCH, DESYNC, ABORTED, NO_MEMORY or NO_SPACE, and leave `recv`
 * undefined when they fail after the argument checks. */
#define TUTTI_DECLARE(name, ...)                                                                   \
    TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_##name(__VA_ARGS__, struct tutti_comm *comm); \
    TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_##name##_with(                                \
        __VA_ARGS__, const struct tutti_call_options *options, struct tutti_comm *comm);           \
    TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_##name##_start(                               \
        __VA_ARGS__, const struct tutti_call_options *options, struct tutti_comm *comm,            \
        struct tutti_request **request)

/* allreduce: recv[count] on every rank = reduction of all send[count].  In place: recv == send. */
TUTTI_DECLARE(allreduce, const void *send, void *recv, size_t count, enum tutti_dtype dtype,
              enum tutti_op op);
/* reduce: recv[count] on root = reduction of all send[count]; recv is ignored elsewhere.
 * In place: recv == send on root. */
TUTTI_DECLARE(reduce, const void *send, void *recv, size_t count, enum tutti_dtype dtype,
              enum tutti_op op, int root);
/* broadcast: recv[count] on every rank = send[count] of root; send is ignored elsewhere.
 * In place: recv == send on root. */
TUTTI_DECLARE(broadcast, const void *send, void *recv, size_t count, enum tutti_dtype dtype,
              int root);
/* gather: recv[n * count] on root = send[count] of rank 0, 1, ...; recv is ignored elsewhere.
 * In place: send == recv + root * count elements on root. */
TUTTI_DECLARE(gather, const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root);
/* scatter: recv[count] on rank r = block r of root's send[n * count]; send is ignored elsewhere.
 * In place: recv == send + root * count elements on root. */
TUTTI_DECLARE(scatter, const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root);
/* allgather: recv[n * count] on every rank = send[count] of rank 0, 1, ...
 * In place: send == recv + r * count elements. */
TUTTI_DECLARE(allgather, const void *send, void *recv, size_t count, enum tutti_dtype dtype);
/* reduce_scatter: recv[count] on rank r = reduction of block r of all send[n * count].
 * In place: recv == send + r * count elements. */
TUTTI_DECLARE(reduce_scatter, const void *send, void *recv, size_t count, enum tutti_dtype dtype,
              enum tutti_op op);
/* alltoall: block s of recv[n * count] on rank r = block r of send[n * count] on rank s.
 * In place: recv == send. */
TUTTI_DECLARE(alltoall, const void *send, void *recv, size_t count, enum tutti_dtype dtype);

/* barrier: no rank leaves before every rank has entered. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_barrier(struct tutti_comm *comm);
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_barrier_with(const struct tutti_call_options *options, struct tutti_comm *comm);
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_barrier_start(const struct tutti_call_options *options, struct tutti_comm *comm,
                    struct tutti_request **request);

/* ---------------------------------------------------------------------------------------------- memory */

/* Memory that every process of this host that joins a communicator with this one can read in place; 64-byte
 * aligned, zeroed, owned by the caller until tutti_mem_free.  Needs no communicator.  Any thread; does not
 * block on peers.  *memory is NULL on failure (NO_SPACE, NO_MEMORY). */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_mem_alloc(size_t size_bytes, void **memory);
/* Gives it back; no operation may still be using it.  NULL is allowed. */
TUTTI_API enum tutti_status tutti_mem_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
