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
 * Forms.  Every collective, and send and recv, has four:
 *     tutti_X(...)              blocks until this rank's part is done: its buffers may be used again.
 *     tutti_X_with(..., opt)    the same with a deadline, an algorithm, a priority of its own.
 *     tutti_X_start(..., &r)    returns at once; the buffers belong to the operation until tutti_wait (or a
 *                               tutti_test that says done) gives them back.  Progress needs no further call.
 *     tutti_X_prepare(..., &p)  checks and plans everything once; tutti_start(p, &r) then starts it as often as
 *                               you like, on the same buffers with whatever is in them by then.
 * The blocking forms are in this file, the others in forms.h, which it includes.
 * Between tutti_group_begin() and tutti_group_end() blocking calls are only started; the end waits for all.
 * On the ranks, started, prepared and grouped calls meet each other, and blocking calls meet only blocking calls.  Ranks
 * that wait for each other in different forms get MISMATCH.
 *
 * Buffers.  Every collective also takes its buffers as lists of tensors (tutti_X_list): "the tensors, one after
 * the other" are the buffer, and nothing is copied together.  The v forms (tutti_Xv) have blocks of different
 * counts.
 *
 * Errors.  Functions return TUTTI_OK or a status; tutti_error_message() then tells this thread what went
 * wrong, and tutti_comm_failure() who is to blame.  An invalid argument is found before anything is sent and
 * changes nothing.  Any other failure ends the communicator: later calls return the same status, and
 * tutti_comm_free() still works.  No call waits longer than its deadline.
 *
 * Threads.  Any thread may call anything.  Calls on one communicator must have the same order on every rank,
 * so let one thread at a time issue them; waiting, testing and aborting may happen anywhere, at any time.
 *
 * A child of fork() has no communicators: its calls on those of its parent return TUTTI_INVALID_COMM, and
 * tutti_comm_free() there gives memory back without telling the other ranks anything.
 *
 * Memory.  Any readable or writable memory works, at any alignment.  Memory from tutti_mem_alloc() is mapped by the other
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

/* ------------------------------------------------------------------------------------------ version
 *
 * A program may run with a library that is later than the header it was compiled with, as long as the soname is the same, and with
 * an earlier library that has everything that the program uses.  Structs that begin with size_bytes may get more fields at their end.
 * A field that the program does not know is 0, which changes nothing.  A field that is set but that the library does not have is
 * refused with INVALID_OPTIONS.  All other structs, and the values of enums and constants, stay as they are.  See
 * docs/compatibility.md. */

/* The version of this header. */
#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

/* A version as one number, for `#if TUTTI_VERSION_NUMBER >= TUTTI_VERSION_OF(0, 2, 0)`: later versions have larger ones. */
#define TUTTI_VERSION_OF(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
/* The version of this header as one number. */
#define TUTTI_VERSION_NUMBER \
    TUTTI_VERSION_OF(TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH)

/* The version of the library that runs, as one number: compare it with TUTTI_VERSION_NUMBER or TUTTI_VERSION_OF.  Any thread;
 * does not block. */
TUTTI_API int tutti_version(void);
/* The same as a text for people, "0.1.0"; never NULL, static.  Any thread; does not block. */
TUTTI_API const char *tutti_version_text(void);

/* ------------------------------------------------------------------------------------------ status */

enum tutti_status {
    TUTTI_OK = 0,
    TUTTI_IN_PROGRESS,    /* tutti_test, tutti_cancel: not done yet; no error */
    TUTTI_INVALID_COMM,   /* communicator is NULL, freed, of a parent process, or something else */
    TUTTI_INVALID_BUFFER, /* NULL with a count above zero, or overlapping in part */
    TUTTI_INVALID_COUNT,  /* counts that do not fit into size_t, or not to each other */
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
    TUTTI_MISMATCH,          /* ranks called one operation with different arguments, or forms */
    TUTTI_DESYNC,            /* ranks called different operations, or in a different order */
    TUTTI_ABORTED,           /* tutti_comm_abort was called */
    TUTTI_AUTH_FAILED,       /* somebody else answered at start-up */
    TUTTI_VERSION,           /* the ranks run versions of Tutti that cannot talk to each other */
    TUTTI_NO_MEMORY,         /* malloc or mmap failed */
    TUTTI_NO_SPACE,          /* shared memory could not be reserved */
    TUTTI_NO_DESCRIPTORS,    /* out of file descriptors */
    TUTTI_SYSTEM,            /* another system call failed; the message has errno */
    TUTTI_UNSUPPORTED,       /* known but impossible here; the message says why */
    TUTTI_INTERNAL,          /* a bug in Tutti */
    TUTTI_INVALID_TAG,       /* a tag below 0 */
    TUTTI_TRUNCATED,         /* a message is longer than the place for it, or of another dtype */
    TUTTI_UNEXPECTED_FULL,   /* too many messages came that nobody here receives */
    TUTTI_MINORITY,          /* cut off from most ranks, which may go on without this one */
    TUTTI_CORRUPT,           /* what a rank sent arrives changed, also when it is sent again */
    TUTTI_REVOKED            /* tutti_comm_revoke was called */
};

/* The name of a status ("PROC_FAILED"), never NULL.  Any thread; does not block. */
TUTTI_API const char *tutti_status_name(enum tutti_status status);
/* What happened and what to do about it, one sentence each, never NULL.  Any thread; does not block. */
TUTTI_API const char *tutti_status_text(enum tutti_status status);
/* The whole story of the last failure of a call in this thread: rank, host, operation, sequence.  Valid until
 * this thread's next failing call.  "" when there was none.  Does not block. */
TUTTI_API const char *tutti_error_message(void);

/* --------------------------------------------------------------------------------- dtypes and operations */

/* 8- and 16-bit floats are accumulated in float32 in plan order and rounded to nearest even, once per step;
 * integers wrap. */
enum tutti_dtype {
    TUTTI_FLOAT32,
    TUTTI_FLOAT64,
    TUTTI_BFLOAT16,
    TUTTI_INT32,
    TUTTI_INT64,
    TUTTI_FLOAT16,     /* IEEE 754 binary16 */
    TUTTI_FLOAT8_E4M3, /* OCP OFP8: no infinity, largest 448; what is too large becomes NaN */
    TUTTI_FLOAT8_E5M2, /* OCP OFP8: largest 57344, then infinity */
    TUTTI_INT8,
    TUTTI_INT16,
    TUTTI_UINT8,
    TUTTI_UINT16,
    TUTTI_UINT32,
    TUTTI_UINT64
};

/* An operation: one of the constants below, or made by tutti_op_create. Compared by ==. */
typedef const struct tutti_operation *tutti_op;
#define TUTTI_SUM ((tutti_op)1)
#define TUTTI_PROD ((tutti_op)2)
#define TUTTI_MIN ((tutti_op)3) /* min(a, b) = a < b ? a : b in plan order, also for NaN */
#define TUTTI_MAX ((tutti_op)4) /* max(a, b) = a > b ? a : b */
#define TUTTI_AVG \
    ((tutti_op)5) /* sum divided by the number of ranks, once; integers truncate towards zero */
#define TUTTI_LAND ((tutti_op)6) /* logical: 1 where both are not 0, else 0; integers only */
#define TUTTI_LOR ((tutti_op)7)
#define TUTTI_LXOR ((tutti_op)8)
#define TUTTI_BAND ((tutti_op)9) /* bitwise; integers only */
#define TUTTI_BOR ((tutti_op)10)
#define TUTTI_BXOR ((tutti_op)11)

/* result[i] = left[i] op right[i] for count elements, which lie at any alignment; result may be left or right.
 * Called from any thread that moves operations, several at a time; may neither block nor call Tutti. */
typedef void tutti_combine(const void *left, const void *right, void *result, size_t count,
                           enum tutti_dtype dtype, void *context);

/* What an operation of the user's is; every rank creates its own, the same on all. */
struct tutti_op_options {
    size_t size_bytes;      /* sizeof(struct tutti_op_options); TUTTI_OP_OPTIONS_INIT sets it */
    const char *name;       /* ranks must agree on it; copied, up to 31 characters; NULL: "user" */
    tutti_combine *combine; /* associative; or NULL: the sum times `factor` */
    void *context;          /* handed to combine; must live as long as the operation */
    int commutative; /* not 0: operands may come in any order; 0: always in the order of ranks */
    double factor;   /* without combine: result = factor * sum, rounded once; not 0; floats only */
};
#define TUTTI_OP_OPTIONS_INIT                                     \
    {                                                             \
        sizeof(struct tutti_op_options), NULL, NULL, NULL, 0, 1.0 \
    }

/* Makes an operation. The options are copied. Local; any thread; does not block. INVALID_OPTIONS, NO_MEMORY;
 * *op is NULL then. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_op_create(const struct tutti_op_options *options,
                                                           tutti_op *op);
/* Gives it back; nothing started or prepared may still use it. NULL and the constants are allowed. Local; any
 * thread; does not block. */
TUTTI_API enum tutti_status tutti_op_free(tutti_op op);

/* Bytes of one element; 0 for what is not a dtype. Any thread; does not block. */
TUTTI_API size_t tutti_dtype_size(enum tutti_dtype dtype);
/* "float32" and so on; "unknown" for what is not a dtype. Never NULL, never to be freed. Any thread; does not
 * block. */
TUTTI_API const char *tutti_dtype_name(enum tutti_dtype dtype);
/* "sum" and so on, or the name it was created with (valid until it is freed); "unknown" for what is not an
 * operation. Any thread; does not block. */
TUTTI_API const char *tutti_op_name(tutti_op op);

/* ----------------------------------------------------------------------------------------- communicators */

struct tutti_comm;     /* opaque */
struct tutti_request;  /* opaque: an operation under way */
struct tutti_prepared; /* opaque: an operation that can be started again and again */
struct tutti_mesh;     /* opaque: communicators along named axes */

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

/* Whether what ranks send each other is compared with a checksum (CRC-32C) of what was sent. What is found to have changed is
 * read once more, as it is sent again or from a second copy; when that has changed, too, the call ends with CORRUPT, which names
 * the rank that sent it.  The same on all ranks. */
enum tutti_integrity {
    TUTTI_INTEGRITY_DEFAULT, /* TUTTI_INTEGRITY; without it OFF; of a communicator made from another one: as there */
    TUTTI_INTEGRITY_OFF,     /* what the network lets through is taken as it is */
    TUTTI_INTEGRITY_NETWORK, /* all that goes over TCP is compared */
    TUTTI_INTEGRITY_ON /* and all that ranks of a host send each other through shared memory, which is never read where it lies */
};

/* Whether what goes between hosts is encrypted (TLS 1.3), and so can be neither read nor changed by others.  Needs the job's secret:
 * TUTTI_SECRET_FILE or TUTTI_SECRET; without one nothing goes between hosts, and INVALID_OPTIONS says so.  The same on all
 * ranks. */
enum tutti_encryption {
    TUTTI_ENCRYPTION_DEFAULT, /* TUTTI_ENCRYPTION; without it OFF; of a communicator made from another one: as there */
    TUTTI_ENCRYPTION_OFF, /* who reads the wire reads what ranks send each other */
    TUTTI_ENCRYPTION_ON   /* all that goes over TCP is encrypted */
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
    enum tutti_integrity integrity;
    enum tutti_encryption encryption;
};
#define TUTTI_COMM_OPTIONS_INIT                                               \
    {                                                                         \
        sizeof(struct tutti_comm_options), -1, -1, NULL, NULL, 0, 0, 0, NULL, \
            TUTTI_INTEGRITY_DEFAULT, TUTTI_ENCRYPTION_DEFAULT                 \
    }

/* Fills *id with a fresh, unguessable name, for one communicator.  Whether its ranks may be on several hosts is decided
 * here: when what started this process says that there are several, or TUTTI_ID_HOSTS is "many" ("one": they are
 * not).  Then this process listens for the others until rank 0, which must be in this process, has
 * made the communicator.  Otherwise nothing listens, all ranks must be on this host, and who is elsewhere gets
 * INVALID_OPTIONS.  Through a store rank 0 does this itself.  Any thread; does not block on other ranks. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_id_create(struct tutti_id *id);

/* The launcher that started this process, as its environment shows it, such as "torchrun" or "Slurm"; NULL: none that
 * would do for tutti_comm_create(NULL, ...), and the error message says why. *rank and *size: this process's, or -1; each may
 * be NULL. Not collective. The text is static. Any thread, while none changes the environment; does not block. */
TUTTI_API const char *tutti_launcher(int *rank, int *size);

/* Joins a communicator; collective over its ranks, each with its own rank number.  options may be NULL: all
 * from the environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and what Tutti's launcher sets).  Options
 * and what they point to are copied.  Blocks until all ranks have arrived or the start-up deadline names the
 * missing ones.  On failure *comm is NULL and nothing is left behind. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_create(const struct tutti_comm_options *options, struct tutti_comm **comm);
/* Leaves: blocks until this rank's started operations are done (or their deadlines have passed), gives all
 * memory back.  NULL is allowed.  Not collective: peers that still need this rank get an error that names it.
 * tutti_wait, tutti_test and tutti_group_end still say how its requests ended; its prepared calls can only be
 * freed.  Any later call on it returns INVALID_COMM, until another communicator is created at the same address. */
TUTTI_API enum tutti_status tutti_comm_free(struct tutti_comm *comm);
/* Ends every present and future operation of the communicator on all ranks with TUTTI_ABORTED, from any
 * thread, also while a call is blocked.  The first failure wins.  The reason (copied; NULL: none) is what the
 * others read in their message.  Does not block. */
TUTTI_API enum tutti_status tutti_comm_abort(struct tutti_comm *comm, const char *reason);
/* This rank's number; -1 if comm is no communicator. Any thread; does not block. */
TUTTI_API int tutti_comm_rank(const struct tutti_comm *comm);
/* The number of ranks; -1 if comm is no communicator. Any thread; does not block. */
TUTTI_API int tutti_comm_size(const struct tutti_comm *comm);
/* 1 where started operations may move while this rank computes: over a network, or if its host has a CPU that none of the ranks there
 * computes on (more CPUs than ranks, or TUTTI_PROGRESS_CPUS). 0 where they can only move instead: then a blocking call at the end
 * costs no more. -1 if comm is no communicator. Of this rank: others may be told otherwise. Any thread; does not block. */
TUTTI_API int tutti_comm_overlaps(const struct tutti_comm *comm);

/* Communicators from communicators. Each is independent of where it came from: it fails, and is freed, alone.
 * `options` may be NULL: everything as in `comm`; otherwise timeouts, deterministic and algorithms that are
 * set there are the new communicator's own (rank, size, id and store are ignored). They block like
 * tutti_comm_create, until their deadlines, and *created is NULL on failure. */

/* Ranks that pass the same color form a communicator, ordered by key and then by rank in comm. Collective over
 * comm. TUTTI_NO_COLOR: this rank gets none, *created is NULL. */
#define TUTTI_NO_COLOR (-1)
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_split(struct tutti_comm *comm, int color, int key,
                 const struct tutti_comm_options *options, struct tutti_comm **created);
/* The same ranks once more. Collective over comm. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_comm_dup(struct tutti_comm *comm,
                                                          const struct tutti_comm_options *options,
                                                          struct tutti_comm **created);
/* The listed ranks of comm (distinct, in the order of their new numbers). Collective over the listed ranks
 * only, which all pass the same list; the others do not call. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_group(struct tutti_comm *comm, const int *ranks, int rank_count,
                 const struct tutti_comm_options *options, struct tutti_comm **created);

/* A mesh numbers the ranks of comm along named axes, the last one varying fastest: with axes dp=2, tp=2, rank 2
 * is (1, 0). Along each axis, the ranks that differ only there form a communicator. */
struct tutti_axis {
    const char *name;                         /* "dp", "tp", ...; distinct */
    int size;                                 /* the product of all sizes is the size of comm */
    const struct tutti_comm_options *options; /* of this axis's communicators, as for split; or NULL */
};
/* Makes the communicators of all axes. Collective over comm; blocks like tutti_comm_create. Axes and names are
 * copied. *mesh is NULL on failure. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_mesh_create(struct tutti_comm *comm,
                                                             const struct tutti_axis *axes,
                                                             int axis_count,
                                                             struct tutti_mesh **mesh);
/* Frees the mesh and its communicators, and blocks like tutti_comm_free. NULL is allowed. */
TUTTI_API enum tutti_status tutti_mesh_free(struct tutti_mesh *mesh);
/* The communicator of this rank along the axis of that name, owned by the mesh; NULL when there is none. Its rank
 * in it is its coordinate. Any thread; does not block. */
TUTTI_API struct tutti_comm *tutti_mesh_axis(const struct tutti_mesh *mesh, const char *name);

/* What a communicator costs this rank now. */
struct tutti_footprint {
    size_t size_bytes;       /* set by the caller to sizeof(struct tutti_footprint) */
    size_t private_bytes;    /* memory of this rank's own */
    size_t shared_bytes;     /* its share of shared memory: what it reserved for its links */
    size_t program_count;    /* prepared plans in the cache */
    size_t link_count;       /* open links, both directions */
    size_t descriptor_count; /* file descriptors */
};
/* Fills *footprint.  Any thread, between operations; does not block. */
TUTTI_API enum tutti_status tutti_comm_footprint(const struct tutti_comm *comm,
                                                 struct tutti_footprint *footprint);

struct tutti_failure {
    size_t size_bytes;        /* set by the caller to sizeof(struct tutti_failure) */
    enum tutti_status status; /* TUTTI_OK: the communicator is healthy */
    int culprit;       /* the rank at fault, -1 if none can be named; the same on every survivor */
    int reporter;      /* the rank that found out first */
    int pid;           /* process of the culprit, 0 if not known, or in another PID namespace */
    uint64_t sequence; /* number of the operation on this communicator, from 1; 0: outside of one */
    char message[256]; /* all of it in words */
};
/* Fills *failure: why the communicator failed, or that it did not.  Any thread; does not block. */
TUTTI_API enum tutti_status tutti_comm_failure(const struct tutti_comm *comm,
                                               struct tutti_failure *failure);
/* Writes what this rank did last on the communicator, its flight recorder, to FOLDER/tutti-ID-rankN.json, in place of
 * what was there; `tutti-trace` reads the files of all ranks together.  folder: made if it is not there; NULL:
 * TUTTI_TRACE_DIR, where a communicator that fails also writes this by itself.  Not collective.  Any thread, also while a
 * call is blocked; blocks until the file system has taken it, 30 s at most.  INVALID_OPTIONS when there is no
 * folder; SYSTEM, NO_SPACE or NO_MEMORY when the file cannot be written: then no part of it is there, but after 30 s
 * without an answer the file may still appear.  The communicator stays as it is. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_trace_dump(struct tutti_comm *comm,
                                                            const char *folder);

/* After failures, with ULFM's meaning (Bland, Bouteiller, Herault, Bosilca, Dongarra: Post-failure recovery of MPI communication
 * capability, IJHPCA 27(3), 2013). A communicator of which a rank failed stays failed: all its operations return why. The
 * calls below work on it all the same, and on healthy ones: collective over the ranks that are left, in the same order on each. They
 * block until these have called, at most for the communicator's timeout.
 *
 *     if (tutti_allreduce(...) == TUTTI_PROC_FAILED && tutti_comm_shrink(comm, NULL, &smaller) == TUTTI_OK)
 *         tutti_comm_free(comm), comm = smaller;
 *
 * Who does not answer because it is cut off, on the smaller side of a partition, gets MINORITY after some seconds; on the other side
 * (more than half of the ranks, or half of them with rank 0) they go on. Where most ranks have died for certain the rest goes on. */

/* Ends every present and future operation on all ranks with TUTTI_REVOKED, as tutti_comm_abort does: for who knows of a failure
 * that others do not, before all shrink. The first failure wins. Any thread; does not block. */
TUTTI_API enum tutti_status tutti_comm_revoke(struct tutti_comm *comm);
/* *word becomes the bitwise AND of the words of all ranks that took part; the same on all, whatever fails meanwhile. OK: all ranks
 * of the communicator took part. PROC_FAILED: not all did; *word is that of the others, and the message lists who is missing: the same
 * on all ranks. MINORITY, TIMEOUT and others: nothing was agreed, *word is as it was. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_comm_agree(struct tutti_comm *comm, uint64_t *word);
/* A communicator of the ranks that are left, in their old order; options as for tutti_comm_split. All of them get it or none: who dies
 * meanwhile is left out, too. On failure *created is NULL: PROC_FAILED (the others went on without this rank), MINORITY, TIMEOUT, or what
 * kept a rank from making it. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_shrink(struct tutti_comm *comm, const struct tutti_comm_options *options,
                  struct tutti_comm **created);

/* ------------------------------------------------------------------------------------------- operations */

struct tutti_call_options {
    size_t size_bytes;   /* sizeof(struct tutti_call_options); TUTTI_CALL_OPTIONS_INIT sets it */
    uint64_t timeout_ns; /* deadline from now; 0: the communicator's */
    const char *algorithm; /* name from `tutti-plan list`, "bruck/4" for one with a radix; NULL: chosen.
                              The same on all ranks. Not for send and recv. */
    int deterministic; /* as in the communicator's options, for this call; the same on all ranks */
    int priority; /* of operations under way the higher ones move first; -100 to 100, 0 is usual */
};
#define TUTTI_CALL_OPTIONS_INIT                          \
    {                                                    \
        sizeof(struct tutti_call_options), 0, NULL, 0, 0 \
    }

/* Blocks until the request is done or its deadline has passed, then frees it and sets *request to NULL.
 * Returns the operation's status.  One thread per request. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_wait(struct tutti_request **request);
/* Like tutti_wait without blocking: TUTTI_IN_PROGRESS leaves the request as it is. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_test(struct tutti_request **request);
/* Takes a started receive back that no message has met yet: OK, it is as if it had never been, its buffer is the caller's
 * and *request NULL. IN_PROGRESS: a message has met it, or it has failed; wait for it as ever. UNSUPPORTED for a send, which its
 * receiver may know already, and for a collective, also one that waits for its turn: it is counted, and the other ranks wait
 * for it. Those end with tutti_comm_revoke or tutti_comm_abort. Local; does not block. One thread per request. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_cancel(struct tutti_request **request);
/* Adds 1 to an eventfd when the request is done, at once if it is: for threads that sleep until one of several requests, or
 * something else, needs them. The request is then fetched by tutti_test as ever. The descriptor stays the caller's, and
 * open until it has been added to, which may be a moment after tutti_test says that the request is done. A request has one at
 * most. The thread that has the request; does not block. INVALID_REQUEST: it is NULL, or has one already. INVALID_OPTIONS: not a
 * descriptor. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_notify(struct tutti_request *request, int event_fd);

/* Starts a prepared operation; it counts as a call of its communicator. One run at a time: after tutti_wait (or a
 * tutti_test that says done) on *request it can be started again. Its deadline begins anew each time. Does not
 * block. *request is NULL on failure. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_start(struct tutti_prepared *prepared,
                                                       struct tutti_request **request);
/* Forgets a prepared call; not while it runs. NULL is allowed. Local; does not block. */
TUTTI_API enum tutti_status tutti_prepared_free(struct tutti_prepared *prepared);

/* From here to the matching end, this thread's blocking calls (also on several communicators, also send and
 * recv) are started and return at once; their buffers belong to them until the end. Groups may be nested: the
 * outermost end waits. Does not block. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_group_begin(void);
/* Blocks until everything that was called since is done, each until its deadline, and returns the first failure.
 * INVALID_REQUEST without a begin. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_group_end(void);

/* In the following, n is the size of the communicator and r the calling rank.  `send` is read, `recv` is
 * written; they do not overlap unless they are "in place" as each line says.  `_start` forms own both until
 * the request is done, `_prepare` forms while they run.  options may be NULL.  All block as described at the top
 * (except `_start` and `_prepare`), return INVALID_*, TIMEOUT, PROC_FAILED, MISMATCH, DESYNC, ABORTED, NO_MEMORY or
 * NO_SPACE, and leave `recv` undefined when they fail after the argument checks.  Preparing is local: ranks
 * meet when it is started.
 *
 * A TUTTI_OPERATION has the forms that the top of this file lists.  This file declares the blocking one, tutti/forms.h the others. */
#define TUTTI_OPERATION TUTTI_API TUTTI_MUST_USE

/* allreduce: recv[count] on every rank = reduction of all send[count].  In place: recv == send. */
TUTTI_OPERATION enum tutti_status tutti_allreduce(const void *send, void *recv, size_t count,
                                                  enum tutti_dtype dtype, tutti_op op,
                                                  struct tutti_comm *comm);
/* reduce: recv[count] on root = reduction of all send[count]; recv is ignored elsewhere.
 * In place: recv == send on root. */
TUTTI_OPERATION enum tutti_status tutti_reduce(const void *send, void *recv, size_t count,
                                               enum tutti_dtype dtype, tutti_op op, int root,
                                               struct tutti_comm *comm);
/* broadcast: recv[count] on every rank = send[count] of root; send is ignored elsewhere.
 * In place: recv == send on root. */
TUTTI_OPERATION enum tutti_status tutti_broadcast(const void *send, void *recv, size_t count,
                                                  enum tutti_dtype dtype, int root,
                                                  struct tutti_comm *comm);
/* gather: recv[n * count] on root = send[count] of rank 0, 1, ...; recv is ignored elsewhere.
 * In place: send == recv + root * count elements on root. */
TUTTI_OPERATION enum tutti_status tutti_gather(const void *send, void *recv, size_t count,
                                               enum tutti_dtype dtype, int root,
                                               struct tutti_comm *comm);
/* scatter: recv[count] on rank r = block r of root's send[n * count]; send is ignored elsewhere.
 * In place: recv == send + root * count elements on root. */
TUTTI_OPERATION enum tutti_status tutti_scatter(const void *send, void *recv, size_t count,
                                                enum tutti_dtype dtype, int root,
                                                struct tutti_comm *comm);
/* allgather: recv[n * count] on every rank = send[count] of rank 0, 1, ...
 * In place: send == recv + r * count elements. */
TUTTI_OPERATION enum tutti_status tutti_allgather(const void *send, void *recv, size_t count,
                                                  enum tutti_dtype dtype, struct tutti_comm *comm);
/* reduce_scatter: recv[count] on rank r = reduction of block r of all send[n * count].
 * In place: recv == send + r * count elements. */
TUTTI_OPERATION enum tutti_status tutti_reduce_scatter(const void *send, void *recv, size_t count,
                                                       enum tutti_dtype dtype, tutti_op op,
                                                       struct tutti_comm *comm);
/* alltoall: block s of recv[n * count] on rank r = block r of send[n * count] on rank s.
 * In place: recv == send. */
TUTTI_OPERATION enum tutti_status tutti_alltoall(const void *send, void *recv, size_t count,
                                                 enum tutti_dtype dtype, struct tutti_comm *comm);

/* barrier: no rank leaves before every rank has entered. */
TUTTI_OPERATION enum tutti_status tutti_barrier(struct tutti_comm *comm);

/* ---------------------------------------------------------------- v forms: blocks of different counts
 *
 * Counts and displacements are in elements.  Block i lies at displs[i] from the start of its buffer, and has
 * counts[i] elements; displs may be NULL: the blocks lie one after the other.  Arrays have n entries; they are
 * copied.  Blocks of a written buffer do not overlap.  Where a rank gives only counts of its own (gatherv,
 * scatterv, alltoallv), both ends of a transfer must give the same; that they differ is found when it happens
 * (MISMATCH). */

/* gatherv: block i of recv on root = send[send_count] of rank i; recv, recv_counts and recv_displs are ignored
 * elsewhere.  In place: send == recv + recv_displs[root] elements on root. */
TUTTI_OPERATION enum tutti_status tutti_gatherv(const void *send, size_t send_count, void *recv,
                                                const size_t *recv_counts,
                                                const size_t *recv_displs, enum tutti_dtype dtype,
                                                int root, struct tutti_comm *comm);
/* scatterv: recv[recv_count] on rank i = block i of root's send; send, send_counts and send_displs are ignored
 * elsewhere.  In place: recv == send + send_displs[root] elements on root. */
TUTTI_OPERATION enum tutti_status tutti_scatterv(const void *send, const size_t *send_counts,
                                                 const size_t *send_displs, void *recv,
                                                 size_t recv_count, enum tutti_dtype dtype,
                                                 int root, struct tutti_comm *comm);
/* allgatherv: block i of recv on every rank = send[recv_counts[i]] of rank i; the same counts on all ranks.
 * In place: send == recv + recv_displs[r] elements. */
TUTTI_OPERATION enum tutti_status tutti_allgatherv(const void *send, void *recv,
                                                   const size_t *recv_counts,
                                                   const size_t *recv_displs,
                                                   enum tutti_dtype dtype, struct tutti_comm *comm);
/* reduce_scatterv: recv[recv_counts[r]] on rank r = reduction of block r of all send, whose blocks lie one after
 * the other; the same counts on all ranks.  In place: recv == block r of send. */
TUTTI_OPERATION enum tutti_status tutti_reduce_scatterv(const void *send, void *recv,
                                                        const size_t *recv_counts,
                                                        enum tutti_dtype dtype, tutti_op op,
                                                        struct tutti_comm *comm);
/* alltoallv: block s of recv on rank r = block r of send on rank s.  In place: recv == send with the same counts
 * and displs for both. */
TUTTI_OPERATION enum tutti_status tutti_alltoallv(const void *send, const size_t *send_counts,
                                                  const size_t *send_displs, void *recv,
                                                  const size_t *recv_counts,
                                                  const size_t *recv_displs, enum tutti_dtype dtype,
                                                  struct tutti_comm *comm);

/* ------------------------------------------------------------------------- lists of tensors
 *
 * The tensors of a list, one after the other, are the buffer of the collective of that name, without being
 * copied together: many gradients in one allreduce, one tensor a rank in an allgather.  How a buffer is cut into
 * tensors is each rank's own matter; the number of elements in all must be what the collective needs.
 * The list is copied, tensors do not overlap (which is not checked).  In place: the same tensors where the
 * buffers of the collective would be the same.  A list may be NULL where its buffer is ignored. */
struct tutti_tensor {
    void *data;   /* only read in lists to be sent */
    size_t count; /* elements */
};
struct tutti_list {
    const struct tutti_tensor *tensors;
    size_t tensor_count;
};
TUTTI_OPERATION enum tutti_status tutti_allreduce_list(const struct tutti_list *send,
                                                       const struct tutti_list *recv,
                                                       enum tutti_dtype dtype, tutti_op op,
                                                       struct tutti_comm *comm);
TUTTI_OPERATION enum tutti_status tutti_reduce_list(const struct tutti_list *send,
                                                    const struct tutti_list *recv,
                                                    enum tutti_dtype dtype, tutti_op op, int root,
                                                    struct tutti_comm *comm);
/* On ranks that are not root, send is ignored. */
TUTTI_OPERATION enum tutti_status tutti_broadcast_list(const struct tutti_list *send,
                                                       const struct tutti_list *recv,
                                                       enum tutti_dtype dtype, int root,
                                                       struct tutti_comm *comm);
TUTTI_OPERATION enum tutti_status tutti_gather_list(const struct tutti_list *send,
                                                    const struct tutti_list *recv,
                                                    enum tutti_dtype dtype, int root,
                                                    struct tutti_comm *comm);
TUTTI_OPERATION enum tutti_status tutti_scatter_list(const struct tutti_list *send,
                                                     const struct tutti_list *recv,
                                                     enum tutti_dtype dtype, int root,
                                                     struct tutti_comm *comm);
TUTTI_OPERATION enum tutti_status tutti_allgather_list(const struct tutti_list *send,
                                                       const struct tutti_list *recv,
                                                       enum tutti_dtype dtype,
                                                       struct tutti_comm *comm);
TUTTI_OPERATION enum tutti_status tutti_reduce_scatter_list(const struct tutti_list *send,
                                                            const struct tutti_list *recv,
                                                            enum tutti_dtype dtype, tutti_op op,
                                                            struct tutti_comm *comm);
TUTTI_OPERATION enum tutti_status tutti_alltoall_list(const struct tutti_list *send,
                                                      const struct tutti_list *recv,
                                                      enum tutti_dtype dtype,
                                                      struct tutti_comm *comm);

/* ------------------------------------------------------------------------------------ point to point
 *
 * A message goes from one rank to one rank and carries a tag.  A recv takes the first message, in the order of
 * sending, that fits its source and tag; recvs that fit the same message take it in the order of calling.
 * Small messages leave before anybody receives them: they wait at the receiver, up to TUTTI_UNEXPECTED bytes
 * (16 MiB) and 65536 messages in all; beyond that their senders wait, and a rank that then waits for a message
 * that cannot come gets UNEXPECTED_FULL.  Large ones wait at the sender until they are received: a blocking send
 * to a rank that sends too may wait for ever (until its deadline); group or start the two.  These calls have no
 * order among the collectives.  A deadline ends the communicator, as everywhere. */
#define TUTTI_ANY_RANK (-1)
#define TUTTI_ANY_TAG (-1)

/* What was received. */
struct tutti_message {
    size_t size_bytes; /* set by the caller to sizeof(struct tutti_message) */
    int source;
    int tag;
    size_t count; /* elements, at most those of the recv */
};

/* send: count elements to rank peer (also to itself), with a tag >= 0. */
TUTTI_OPERATION enum tutti_status tutti_send(const void *send, size_t count, enum tutti_dtype dtype,
                                             int peer, int tag, struct tutti_comm *comm);
/* recv: at most count elements of the same dtype from rank peer or TUTTI_ANY_RANK, with that tag or TUTTI_ANY_TAG.
 * message may be NULL; otherwise it is filled when the recv is done, and belongs to it until then.  TRUNCATED: the
 * message is longer, or of another dtype; it is lost, and the communicator lives on. */
TUTTI_OPERATION enum tutti_status tutti_recv(void *recv, size_t count, enum tutti_dtype dtype,
                                             int peer, int tag, struct tutti_message *message,
                                             struct tutti_comm *comm);

/* ---------------------------------------------------------------------------------------------- memory */

/* Memory that every process of this host that joins a communicator with this one can read in place; 64-byte
 * aligned, zeroed, owned by the caller until tutti_mem_free.  Needs no communicator.  Any thread; does not
 * block on peers.  *memory is NULL on failure (NO_SPACE, NO_MEMORY). */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_mem_alloc(size_t size_bytes, void **memory);
/* Gives memory of tutti_mem_alloc back; no operation may still be using it.  NULL is allowed.  Any thread; does not
 * block. */
TUTTI_API enum tutti_status tutti_mem_free(void *memory);

#ifdef __cplusplus
}
#endif

/* tutti_X_with, tutti_X_start and tutti_X_prepare of every TUTTI_OPERATION above. */
#include "tutti/forms.h"

#endif
