/* tutti.h - collective communication for distributed training: the whole interface.
 *
 *     struct tutti_comm *comm;
 *     tutti_comm_create(NULL, &comm);                  // rank and size from the launcher
 *     tutti_allreduce(gradients, gradients, count, TUTTI_FLOAT32, TUTTI_AVG, comm);
 *     tutti_comm_free(comm);
 *
 * Words.  A *communicator* joins `size` ranks, numbered from 0. A rank is a process or a thread. A
 * *collective* is a call that all ranks of a communicator make together, in the same order on each.
 * A *block* is `count` elements of one dtype.
 *
 * Forms.  Every collective, and send and recv, has four forms:
 *     tutti_X(...)              blocks until this rank's part is done: its buffers are free again.
 *     tutti_X_with(..., opt)    the same with a deadline, an algorithm or a priority for this call.
 *     tutti_X_start(..., &r)    returns at once; the buffers belong to the operation until tutti_wait
 *                               (or a tutti_test that says done) gives them back. Progress needs no
 *                               further call.
 *     tutti_X_prepare(..., &p)  checks and plans everything once; tutti_start(p, &r) then starts it
 *                               as often as you like, on the present contents of the buffers.
 * Between tutti_group_begin() and tutti_group_end() blocking calls only start; the end waits for
 * all of them. Started, prepared and grouped calls of different ranks match each other. Blocking
 * calls match only blocking calls. Ranks that wait for each other in different forms get MISMATCH.
 *
 * Buffers.  Every collective also takes its buffers as lists of tensors (tutti_X_list): the
 * tensors, one after the other, are the buffer, and Tutti does not copy them into one. In the v
 * forms (tutti_Xv) blocks may have different counts.
 *
 * Errors.  Functions return TUTTI_OK or a status. tutti_error_message() then tells this thread what
 * went wrong, and tutti_comm_failure() which rank is to blame. Tutti finds an invalid argument
 * before it sends anything, and changes nothing. Any other failure ends the communicator, unless
 * its function says otherwise: later calls return the same status, and tutti_comm_free() still
 * works. No call waits longer than its deadline.
 *
 * Threads.  Any thread may call anything. Calls on one communicator must have the same order on
 * every rank, so let one thread at a time make them. Any thread may wait, test and abort, at any
 * time.
 *
 * A child of fork() has no communicators. A call on one of its parent's communicators returns
 * TUTTI_INVALID_COMM; tutti_comm_free() there gives memory back without telling the other ranks
 * anything.
 *
 * Memory.  A buffer may be any memory, at any alignment. Large operations copy less in memory from
 * tutti_mem_alloc(), because the other processes of the host map it.
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

/* ----------------------------------------------------------------------------------------- version
 *
 * A program may run with a later library than its header, as long as the soname is the same. It may
 * run with an earlier library that has everything that the program uses. Structs that begin with
 * size_bytes may get more fields at their end. A field that the program does not know is 0, which
 * changes nothing. The library refuses a set field that it does not know with INVALID_OPTIONS. All
 * other structs, and the values of enums and constants, stay as they are. See
 * docs/reference/compatibility.md. */

/* The version of this header. */
#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 2
#define TUTTI_VERSION_PATCH 0

/* A version as one number, larger for later versions. Use it as in
 * `#if TUTTI_VERSION_NUMBER >= TUTTI_VERSION_OF(0, 2, 0)`. */
#define TUTTI_VERSION_OF(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
/* The version of this header as one number. */
#define TUTTI_VERSION_NUMBER \
    TUTTI_VERSION_OF(TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH)

/* The version of the running library as one number, to compare with TUTTI_VERSION_NUMBER or
 * TUTTI_VERSION_OF. Any thread; does not block. */
TUTTI_API int tutti_version(void);
/* The same as text, such as "0.2.0": static, never NULL. Any thread; does not block. */
TUTTI_API const char *tutti_version_text(void);

/* --------------------------------------------------------------------------------------- status */

enum tutti_status {
    TUTTI_OK = 0,
    TUTTI_IN_PROGRESS,       /* tutti_test, tutti_cancel: not done yet; no error */
    TUTTI_INVALID_COMM,      /* NULL, freed, of a parent process, or not a communicator */
    TUTTI_INVALID_BUFFER,    /* NULL with a count above zero, or overlapping in part */
    TUTTI_INVALID_COUNT,     /* a count does not fit into size_t, or counts do not fit each other */
    TUTTI_INVALID_DTYPE,     /* not a dtype */
    TUTTI_INVALID_OP,        /* not an op, or not for this dtype */
    TUTTI_INVALID_ROOT,      /* root is not a rank of the communicator */
    TUTTI_INVALID_RANK,      /* rank and size make no communicator */
    TUTTI_INVALID_OPTIONS,   /* an options struct or environment variable; the message says which */
    TUTTI_INVALID_REQUEST,   /* request is NULL */
    TUTTI_INVALID_ALGORITHM, /* unknown, or unable to do this collective with this many ranks */
    TUTTI_TIMEOUT,           /* the deadline passed; the message names the culprit */
    TUTTI_INIT_TIMEOUT,      /* ranks are missing at start-up; the message lists them */
    TUTTI_PROC_FAILED,       /* a rank died */
    TUTTI_MISMATCH,          /* ranks called one operation with different arguments or forms */
    TUTTI_DESYNC,            /* ranks called different operations, or in a different order */
    TUTTI_ABORTED,           /* tutti_comm_abort was called */
    TUTTI_AUTH_FAILED,       /* at start-up a process answered that is not of this job */
    TUTTI_VERSION,           /* ranks run versions of Tutti that cannot talk to each other */
    TUTTI_NO_MEMORY,         /* malloc or mmap failed */
    TUTTI_NO_SPACE,          /* shared memory could not be reserved */
    TUTTI_NO_DESCRIPTORS,    /* out of file descriptors */
    TUTTI_SYSTEM,            /* another system call, or a GPU, failed; the message has its error */
    TUTTI_UNSUPPORTED,       /* known but impossible here; the message says why */
    TUTTI_INTERNAL,          /* a bug in Tutti */
    TUTTI_INVALID_TAG,       /* a tag below 0 */
    TUTTI_TRUNCATED,         /* a message is longer than its receive allows, or of another dtype */
    TUTTI_UNEXPECTED_FULL,   /* too many messages wait here for a receive */
    TUTTI_MINORITY,          /* cut off from most ranks, which may go on without this rank */
    TUTTI_CORRUPT,           /* data arrives changed, also when it is sent again */
    TUTTI_REVOKED,           /* tutti_comm_revoke was called */
    TUTTI_EXCLUDED           /* tutti_comm_exclude was called; the message says for which rank */
};

/* The name of a status ("PROC_FAILED"), never NULL.  Any thread; does not block. */
TUTTI_API const char *tutti_status_name(enum tutti_status status);
/* A text that says what happened and what to do about it; never NULL. Any thread; does not
 * block. */
TUTTI_API const char *tutti_status_text(enum tutti_status status);
/* The last failure of a call in this thread, in full: rank, host, operation, sequence. Valid until
 * this thread's next failing call; "" if there was no failure. Does not block. */
TUTTI_API const char *tutti_error_message(void);

/* ------------------------------------------------------------------------------- dtypes and ops */

/* Reductions accumulate 8- and 16-bit floats in float32, in plan order, and round to nearest even
 * once per step. Integers wrap. */
enum tutti_dtype {
    TUTTI_FLOAT32,
    TUTTI_FLOAT64,
    TUTTI_BFLOAT16,
    TUTTI_INT32,
    TUTTI_INT64,
    TUTTI_FLOAT16,     /* IEEE 754 binary16 */
    TUTTI_FLOAT8_E4M3, /* OCP OFP8: no infinity, largest 448; values too large become NaN */
    TUTTI_FLOAT8_E5M2, /* OCP OFP8: largest 57344, then infinity */
    TUTTI_INT8,
    TUTTI_INT16,
    TUTTI_UINT8,
    TUTTI_UINT16,
    TUTTI_UINT32,
    TUTTI_UINT64
};

/* An op, which says how elements are reduced: a constant below, or the result of tutti_op_create.
 * Compare ops by ==. */
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

/* Computes result[i] = left[i] op right[i] for count elements, at any alignment; result may be left
 * or right. Any thread that moves operations may call it, and several threads may call it at once.
 * It must neither block nor call Tutti. */
typedef void tutti_combine(const void *left, const void *right, void *result, size_t count,
                           enum tutti_dtype dtype, void *context);

/* A user-defined op. Every rank creates its own, which must be the same on all ranks. */
struct tutti_op_options {
    size_t size_bytes;      /* sizeof(struct tutti_op_options); TUTTI_OP_OPTIONS_INIT sets it */
    const char *name;       /* the same on all ranks; copied, up to 31 characters; NULL: "user" */
    tutti_combine *combine; /* associative; NULL: the sum times `factor` */
    void *context;          /* passed to combine; must live as long as the op */
    int commutative; /* not 0: operands may come in any order; 0: always in the order of ranks */
    double factor;   /* without combine: result = factor * sum, rounded once; not 0; floats only */
};
#define TUTTI_OP_OPTIONS_INIT                                     \
    {                                                             \
        sizeof(struct tutti_op_options), NULL, NULL, NULL, 0, 1.0 \
    }

/* Makes an op. The options are copied. Local; any thread; does not block. On failure
 * (INVALID_OPTIONS, NO_MEMORY) *op is NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_op_create(const struct tutti_op_options *options,
                                                           tutti_op *op);
/* Frees an op. No started or prepared call may still use it. op may be NULL or a constant.
 * Local; any thread; does not block. */
TUTTI_API enum tutti_status tutti_op_free(tutti_op op);

/* Bytes of one element; 0 if dtype is invalid. Any thread; does not block. */
TUTTI_API size_t tutti_dtype_size(enum tutti_dtype dtype);
/* "float32" and so on; "unknown" if dtype is invalid. Static, never NULL. Any thread; does not
 * block. */
TUTTI_API const char *tutti_dtype_name(enum tutti_dtype dtype);
/* "sum" and so on, or the name with which the op was created (valid until it is freed);
 * "unknown" if op is invalid. Any thread; does not block. */
TUTTI_API const char *tutti_op_name(tutti_op op);

/* -------------------------------------------------------------------------------- communicators */

struct tutti_comm;     /* opaque */
struct tutti_request;  /* opaque: an operation in flight */
struct tutti_prepared; /* opaque: an operation that can be started again and again */
struct tutti_mesh;     /* opaque: communicators along named axes */

/* The name of a communicator that is yet to be created. One rank makes it, and the application
 * carries it to the others. */
struct tutti_id {
    unsigned char bytes[128];
};

/* A key-value store of the application, through which ranks find each other. Both functions return
 * 0 on success. */
struct tutti_store {
    size_t size_bytes; /* sizeof(struct tutti_store) */
    int (*set)(void *context, const char *key, const void *value, size_t value_bytes);
    /* Blocks until the key is there or timeout_ns has passed; copies exactly value_bytes. */
    int (*get)(void *context, const char *key, void *value, size_t value_bytes, uint64_t timeout_ns);
    void *context;
};

/* Whether ranks check the data that they receive against a checksum (CRC-32C) of the sent data. The
 * receiver reads changed data once more: the sender sends it again, or there is a second copy. If
 * that has changed, too, the call ends with CORRUPT, and its message names the rank that sent the
 * data. The same on all ranks. */
enum tutti_integrity {
    TUTTI_INTEGRITY_DEFAULT, /* TUTTI_INTEGRITY, else OFF; derived communicators inherit it */
    TUTTI_INTEGRITY_OFF,     /* ranks take data as the network delivers it */
    TUTTI_INTEGRITY_NETWORK, /* ranks check all data that comes over TCP */
    TUTTI_INTEGRITY_ON /* and all data through shared memory, which no rank then reads in place */
};

/* Whether data between hosts is encrypted (TLS 1.3), so that others can neither read nor change it.
 * Needs the job's secret, TUTTI_SECRET_FILE or TUTTI_SECRET: without it, Tutti sends nothing
 * between hosts and returns INVALID_OPTIONS. The same on all ranks. */
enum tutti_encryption {
    TUTTI_ENCRYPTION_DEFAULT, /* TUTTI_ENCRYPTION, else OFF; derived communicators inherit it */
    TUTTI_ENCRYPTION_OFF,     /* anybody on the network can read what ranks send each other */
    TUTTI_ENCRYPTION_ON       /* all data over TCP is encrypted */
};

struct tutti_comm_options {
    size_t size_bytes; /* sizeof(struct tutti_comm_options); TUTTI_COMM_OPTIONS_INIT sets it */
    int rank;          /* -1: from the launcher's environment */
    int size;          /* -1: from the launcher's environment */
    const struct tutti_id *id;       /* ranks meet by this id, the same on all; NULL: no id */
    const struct tutti_store *store; /* ranks meet through this store; NULL: the environment */
    uint64_t timeout_ns;      /* default deadline of an operation; 0: TUTTI_TIMEOUT or 30 minutes */
    uint64_t init_timeout_ns; /* until all ranks have arrived; 0: TUTTI_INIT_TIMEOUT or 5 minutes */
    int deterministic;        /* not 0: bits do not depend on size, offset or bucketing either */
    const char *algorithms; /* rules: "allreduce:0-64k=oneshot,64k-=ring"; NULL: TUTTI_ALGORITHMS */
    enum tutti_integrity integrity;
    enum tutti_encryption encryption;
    const char *encodings; /* rules for encodings: "allreduce:64k-=bfloat16/hosts"; NULL:
                              TUTTI_ENCODINGS, else none. They are permissions, for calls that can
                              be encoded; see `encoding` of struct tutti_call_options. The same on
                              all ranks. */
};
#define TUTTI_COMM_OPTIONS_INIT                                               \
    {                                                                         \
        sizeof(struct tutti_comm_options), -1, -1, NULL, NULL, 0, 0, 0, NULL, \
            TUTTI_INTEGRITY_DEFAULT, TUTTI_ENCRYPTION_DEFAULT, NULL           \
    }

/* Fills *id with a fresh, unguessable name for one communicator, and decides whether its ranks may
 * be on several hosts. They may if the launcher says that there are several hosts, or if
 * TUTTI_ID_HOSTS is "many". Then this process listens for the others until rank 0, which must be in
 * this process, has made the communicator. Otherwise, or if TUTTI_ID_HOSTS is "one", this process
 * does not listen, all ranks must be on this host, and a rank on another host gets INVALID_OPTIONS.
 * When ranks meet through a store, rank 0 does this itself. Any thread; does not block on other
 * ranks. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_id_create(struct tutti_id *id);

/* The launcher that started this process, as its environment shows it, such as "torchrun" or
 * "Slurm". NULL: there is no launcher that tutti_comm_create(NULL, ...) can use, and the error
 * message says why. *rank and *size become the values of this process, or -1; each pointer may be
 * NULL. Not collective. The text is static. Any thread, while no thread changes the environment;
 * does not block. */
TUTTI_API const char *tutti_launcher(int *rank, int *size);

/* Joins a communicator; collective over its ranks, each with its own rank number. options may be
 * NULL: everything comes from the environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and the
 * variables of Tutti's launcher). Tutti copies the options and the data to which they point. Blocks
 * until all ranks have arrived, or until the start-up deadline: then the error names the missing
 * ranks. On failure *comm is NULL and nothing is left behind. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_create(const struct tutti_comm_options *options, struct tutti_comm **comm);
/* Leaves the communicator: blocks until this rank's started operations are done (or their deadlines
 * have passed), then gives all memory back. NULL is allowed. Not collective: peers that still need
 * this rank get an error that names it. tutti_wait, tutti_test and tutti_group_end still say how
 * its requests ended; its prepared calls can then only be freed. Any later call on the communicator
 * returns INVALID_COMM, until another communicator is created at the same address. */
TUTTI_API enum tutti_status tutti_comm_free(struct tutti_comm *comm);
/* Ends every present and future operation of the communicator on all ranks with TUTTI_ABORTED. Any
 * thread may call it, also while a call is blocked. The first failure wins. The other ranks' error
 * messages contain reason (copied; NULL: none). Does not block. */
TUTTI_API enum tutti_status tutti_comm_abort(struct tutti_comm *comm, const char *reason);
/* This rank's number; -1 if comm is no communicator. Any thread; does not block. */
TUTTI_API int tutti_comm_rank(const struct tutti_comm *comm);
/* The number of ranks; -1 if comm is no communicator. Any thread; does not block. */
TUTTI_API int tutti_comm_size(const struct tutti_comm *comm);
/* Whether started operations can move while this rank computes. 1: over a network, or if the host
 * has a CPU on which no rank there computes (more CPUs than ranks, or TUTTI_PROGRESS_CPUS). 0: they
 * can move only at the expense of computing, so a blocking call at the end costs no more. -1: comm
 * is no communicator. Ranks may get different answers. Any thread; does not block. */
TUTTI_API int tutti_comm_overlaps(const struct tutti_comm *comm);

/* Derived communicators. Each is independent of its parent `comm`: it fails, and is freed, alone.
 * `options` may be NULL: everything as in `comm`. Otherwise the timeouts, deterministic,
 * algorithms and encodings that are set there are the new communicator's own (rank, size, id and store are
 * ignored). These calls block like tutti_comm_create, until their deadlines. On failure *created is
 * NULL. */

/* Ranks that pass the same color form a communicator, ordered by key and then by rank in comm.
 * Collective over comm. A rank that passes TUTTI_NO_COLOR gets none: its *created is NULL. */
#define TUTTI_NO_COLOR (-1)
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_split(struct tutti_comm *comm, int color, int key,
                 const struct tutti_comm_options *options, struct tutti_comm **created);
/* Makes a communicator of the same ranks. Collective over comm. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_comm_dup(struct tutti_comm *comm,
                                                          const struct tutti_comm_options *options,
                                                          struct tutti_comm **created);
/* Makes a communicator of the listed ranks of comm (distinct, in the order of their new numbers).
 * Collective over the listed ranks alone, which all pass the same list; the other ranks do not
 * call. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_group(struct tutti_comm *comm, const int *ranks, int rank_count,
                 const struct tutti_comm_options *options, struct tutti_comm **created);

/* A mesh numbers the ranks of comm along named axes; the last axis varies fastest. With axes dp=2,
 * tp=2, rank 2 is (1, 0). The ranks that differ only in their coordinate along an axis form a
 * communicator. */
struct tutti_axis {
    const char *name;                         /* "dp", "tp", ...; distinct */
    int size;                                 /* the product of all sizes is the size of comm */
    const struct tutti_comm_options *options; /* for its communicators, as for split; or NULL */
};
/* Makes the communicators of all axes. Collective over comm; blocks like tutti_comm_create. Axes
 * and names are copied. On failure *mesh is NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_mesh_create(struct tutti_comm *comm,
                                                             const struct tutti_axis *axes,
                                                             int axis_count,
                                                             struct tutti_mesh **mesh);
/* Frees the mesh and its communicators, and blocks like tutti_comm_free. NULL is allowed. */
TUTTI_API enum tutti_status tutti_mesh_free(struct tutti_mesh *mesh);
/* This rank's communicator along the axis of that name, owned by the mesh; NULL if there is no such
 * axis. The rank's number in it is its coordinate. Any thread; does not block. */
TUTTI_API struct tutti_comm *tutti_mesh_axis(const struct tutti_mesh *mesh, const char *name);

/* The memory and descriptors of a communicator in this rank, as they are now. */
struct tutti_footprint {
    size_t size_bytes;       /* set by the caller to sizeof(struct tutti_footprint) */
    size_t private_bytes;    /* memory of this rank alone */
    size_t shared_bytes;     /* its share of shared memory: the part that its links reserved */
    size_t program_count;    /* prepared plans in the cache */
    size_t link_count;       /* open links, both directions */
    size_t descriptor_count; /* file descriptors */
};
/* Fills *footprint.  Any thread, between operations; does not block. */
TUTTI_API enum tutti_status tutti_comm_footprint(const struct tutti_comm *comm,
                                                 struct tutti_footprint *footprint);
/* Says which algorithm a call on this communicator would take, and why. The first line names the
 * chosen algorithm and who chose it. A line for each algorithm follows, with the time that the cost
 * model predicts for it, the fastest first. Then come the algorithms that cannot do the call, with
 * the reason. All of this is for private memory, an op that commutes, and the communicator's
 * own settings. collective: "allreduce" and so on, or "allreduce=bfloat16/hosts" for a call that
 * asks for that encoding, of a sum; count and dtype as in that call. "send:3" or
 * "send:3=bfloat16/hosts" is a message from this rank to rank 3: the text then says whether it goes
 * encoded, and why not. text: gets as
 * much as fits into text_bytes, and a zero at the end. Not collective. Any thread; does not block,
 * but takes some milliseconds for a size that no call has had before. INVALID_OPTIONS: there is no
 * collective or encoding of that name, or no room for text. INVALID_RANK: there is no such rank to
 * send to. INVALID_DTYPE, NO_MEMORY. INVALID_ALGORITHM: the communicator's rules leave none. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_comm_explain(const struct tutti_comm *comm,
                                                              const char *collective, size_t count,
                                                              enum tutti_dtype dtype, char *text,
                                                              size_t text_bytes);

struct tutti_failure {
    size_t size_bytes;        /* set by the caller to sizeof(struct tutti_failure) */
    enum tutti_status status; /* TUTTI_OK: the communicator is healthy */
    int culprit;       /* the rank at fault, the same on every survivor; -1 if none can be named */
    int reporter;      /* the rank that found out first */
    int pid;           /* process of the culprit, 0 if not known, or in another PID namespace */
    uint64_t sequence; /* number of the operation on this communicator, from 1; 0: outside of one */
    char message[256]; /* the whole failure in words */
};
/* Fills *failure with why the communicator failed, or with TUTTI_OK. Any thread; does not block. */
TUTTI_API enum tutti_status tutti_comm_failure(const struct tutti_comm *comm,
                                               struct tutti_failure *failure);
/* Writes this rank's flight recorder, its last calls on the communicator, to the file
 * tutti-ID-rankN.json in a directory, and replaces an earlier file. `tutti-trace` reads the files
 * of all ranks together. `folder`: the directory, created if it does not exist; NULL:
 * TUTTI_TRACE_DIR, to which a communicator that fails writes the same by itself. Not collective.
 * Any thread, also while a call is blocked; blocks until the file system has taken the file, 30 s
 * at most. INVALID_OPTIONS: `folder` is NULL, and TUTTI_TRACE_DIR is not set. SYSTEM, NO_SPACE or
 * NO_MEMORY: the file cannot be written, and no part of it is there; after 30 s without an answer
 * it may still appear. The communicator stays as it is. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_trace_dump(struct tutti_comm *comm,
                                                            const char *folder);

/* Operations of one kind that this rank, not any other, began on a communicator. Both numbers only
 * grow. */
struct tutti_comm_counters {
    size_t size_bytes; /* set by the caller to sizeof(struct tutti_comm_counters) */
    uint64_t calls;
    /* Count times element size, as called. In the v forms, the bytes of all blocks of which this
     * rank gives the counts: all that an allgatherv gathers, a reduce_scatterv reduces or an
     * alltoallv sends, and on the root all that a gatherv or scatterv moves. In gatherv and
     * scatterv the other ranks give the count of their own block. */
    uint64_t bytes;
};
/* Fills *counters. operation: "allreduce" and so on, whatever its form, or "send" or "recv". An
 * operation that waits for another operation to end, because many were started, counts once it has
 * begun. Any thread; does not block. INVALID_OPTIONS: there is no operation of that name. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_comm_count(const struct tutti_comm *comm,
                                                            const char *operation,
                                                            struct tutti_comm_counters *counters);

enum tutti_trace_of { TUTTI_TRACE_COLLECTIVES, TUTTI_TRACE_MESSAGES };
/* An operation in the flight recorder. Its texts stay valid as long as the process lives. */
struct tutti_trace_entry {
    size_t size_bytes;     /* set by the caller to sizeof(struct tutti_trace_entry) */
    uint64_t number;       /* on this communicator, from 1; messages have numbers of their own */
    const char *operation; /* "allreduce", "send" and so on; NULL: there is no such entry */
    const char *algorithm; /* of a collective; NULL if it is not known */
    uint64_t bytes;        /* as struct tutti_comm_counters counts them */
    /* Of CLOCK_MONOTONIC. end_ns is 0 until the operation is over. Both are equal for a call that
     * took 2 us or less. */
    uint64_t begin_ns, end_ns;
    int peer; /* of a message; TUTTI_ANY_RANK until it is known. Of a collective the root, or 0 */
    int tag;  /* of a message; else 0 */
};
/* Fills *entry with the oldest entry in the recorder whose number is `number` or more. The recorder
 * keeps the last 512 collectives, and as many messages. Any thread, also while a call is blocked;
 * does not block. INVALID_OPTIONS: entry->size_bytes is not set. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_trace_read(const struct tutti_comm *comm,
                                                            enum tutti_trace_of of, uint64_t number,
                                                            struct tutti_trace_entry *entry);

/* Recovery after failures. The calls below mean the same as in ULFM (Bland, Bouteiller, Herault,
 * Bosilca, Dongarra: Post-failure recovery of MPI communication capability, IJHPCA 27(3), 2013). A
 * communicator in which a rank failed stays failed: all its operations return that status. The
 * calls below work on failed and on healthy communicators. tutti_comm_agree and tutti_comm_shrink
 * are collective over the surviving ranks, in the same order on each, and block until all of these
 * have called, at most for the communicator's timeout.
 *
 *     if (tutti_allreduce(...) == TUTTI_PROC_FAILED &&
 *         tutti_comm_shrink(comm, NULL, &smaller) == TUTTI_OK)
 *         tutti_comm_free(comm), comm = smaller;
 *
 * In a partition the larger side (more than half of the ranks, or half of them with rank 0) goes
 * on. Ranks of the other side get MINORITY after some seconds. If most ranks are known to have
 * died, the others go on. */

/* Ends every present and future operation of the communicator on all ranks with TUTTI_REVOKED. A
 * rank calls it if it knows of a failure that others may not know of, before all of them shrink.
 * The first failure wins: if the communicator has failed already, nothing changes. Not collective;
 * any thread may call it, also while a call is blocked. Does not block. */
TUTTI_API enum tutti_status tutti_comm_revoke(struct tutti_comm *comm);
/* The same with a reason, which the error messages of the other ranks contain (copied, up to about
 * 200 characters; NULL: none). Not collective. Any thread; does not block. */
TUTTI_API enum tutti_status tutti_comm_revoke_because(struct tutti_comm *comm, const char *reason);
/* *word becomes the bitwise AND of the words of all ranks that took part, the same on all of them,
 * whatever fails meanwhile. OK: all ranks of the communicator took part. PROC_FAILED: not all did;
 * *word is the AND of the words of the ranks that did, and the message lists the missing ranks, the
 * same on all. MINORITY, TIMEOUT and others: nothing was agreed, and *word is as it was. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_comm_agree(struct tutti_comm *comm, uint64_t *word);
/* Makes a communicator of the ranks that are left, in their old order; options as for
 * tutti_comm_split. All of them get it, or none does; a rank that dies meanwhile is left out, too.
 * On failure *created is NULL: PROC_FAILED (the others went on without this rank), MINORITY,
 * TIMEOUT, or the status that kept a rank from making it. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_shrink(struct tutti_comm *comm, const struct tutti_comm_options *options,
                  struct tutti_comm **created);

/* Exclusion of ranks that are sick, and not dead: tutti/exclude.h. */

/* Growth. Processes outside of a communicator join its ranks, in a new communicator of both. The
 * ranks call tutti_comm_grow or tutti_comm_replace, and each process outside calls tutti_comm_join.
 *
 *     ranks                                              a process outside
 *         options.store = &store;                            options.store = &store;
 *         options.joiner_min = 1;                            tutti_comm_join(&options, &comm);
 *         tutti_comm_grow(comm, &options, &larger);
 *         tutti_comm_free(comm), comm = larger;
 *
 * They find each other through the store: the lowest rank that is left leaves an id there, under
 * the key "tutti/admission", and listens at the address in it. It lets in only processes with the same
 * TUTTI_SECRET (TUTTI_SECRET_FILE); without a secret, only processes of the same launched job.
 *
 * All ranks and all processes that were let in get the new communicator, or none does. Only the
 * ranks of the old communicator have a vote in that, and they need the same majority as for
 * tutti_comm_shrink. If a rank or a joining process dies meanwhile, the others begin again without
 * it. The old communicator stays as it is, and can be used, until its ranks free it. The new one
 * shares nothing with it: requests, prepared calls, own plans, and communicators that were split
 * from it stay with the old one. */

struct tutti_grow_options {
    size_t size_bytes; /* sizeof(struct tutti_grow_options); TUTTI_GROW_OPTIONS_INIT sets it */
    const struct tutti_store *store; /* where processes outside find the ranks; not NULL */
    int joiner_min;   /* so many processes have to join; 0: 1. tutti_comm_replace ignores it */
    int joiner_max;   /* so many may; 0: joiner_min. tutti_comm_replace ignores it */
    uint64_t wait_ns; /* for processes that join, from the call on; 0: the start-up deadline */
    const struct tutti_comm_options *comm_options; /* as for tutti_comm_split; or NULL */
};
#define TUTTI_GROW_OPTIONS_INIT                                \
    {                                                          \
        sizeof(struct tutti_grow_options), NULL, 0, 0, 0, NULL \
    }

/* Makes a communicator of the ranks that are left, in their old order, and of processes that join,
 * which come behind them. Waits until joiner_max processes have come, or until wait_ns have passed
 * and at least joiner_min are there. Collective over the ranks that are left, with the same numbers
 * on all ranks; comm may have failed, and processes of other ranks may have died. options must not
 * be NULL. Blocks for wait_ns,
 * for the time until all ranks have called, and as tutti_comm_create does.
 *
 * On failure *created is NULL and comm is as it was. TIMEOUT: too few processes came; the message
 * says how many. PROC_FAILED: the others went on without this rank. MINORITY: this rank is cut off
 * from the others, or did not hear how the call ended, so the others may have the new communicator;
 * end this process. Otherwise the status that kept a rank, or a process that joins, from making
 * it. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_comm_grow(struct tutti_comm *comm,
                                                           const struct tutti_grow_options *options,
                                                           struct tutti_comm **created);
/* Does the same, with as many processes as ranks of comm are missing: each rank that is left keeps
 * its number, and processes that join get the numbers of those that are missing, the lowest first.
 * If no rank is missing, nobody joins. Collective, blocks and fails as tutti_comm_grow does: options
 * must not be NULL, and on failure *created is NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_replace(struct tutti_comm *comm, const struct tutti_grow_options *options,
                   struct tutti_comm **created);
/* Joins a communicator whose ranks call tutti_comm_grow or tutti_comm_replace, now or later: so a
 * process that has called may stand by as a spare. options->store (or options->id: what the store
 * would have) says where they are; rank and size come from them, and are ignored. Options that have
 * to be the same on all ranks, such as integrity, have to be those of the ranks. Blocks until the
 * new communicator is there, at most for the start-up deadline.
 *
 * On failure *comm is NULL and nothing is left behind. INIT_TIMEOUT: no team took this process in.
 * AUTH_FAILED: the ranks have another secret. MINORITY: this process did not hear how it ended. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_comm_join(const struct tutti_comm_options *options,
                                                           struct tutti_comm **comm);

/* ----------------------------------------------------------------------------------- operations */

struct tutti_call_options {
    size_t size_bytes;     /* sizeof(struct tutti_call_options); TUTTI_CALL_OPTIONS_INIT sets it */
    uint64_t timeout_ns;   /* deadline from now; 0: the communicator's */
    const char *algorithm; /* name from `tutti-plan list`, "bruck/4" with a radix; NULL: chosen.
                              The same on all ranks. Not for send and recv. */
    int deterministic; /* as in the communicator's options, for this call; the same on all ranks */
    int priority;      /* operations with a higher priority move first; -100 to 100, usually 0 */
    void *stream;  /* with on_stream: a CUstream or cudaStream_t; NULL: the legacy default stream of
                      the current device */
    int on_stream; /* 1: the operation begins when the work before it on `stream` is done, and later
                      work on it waits for the operation. See "Memory of devices". */
    int reserved;  /* 0 */
    const char *encoding; /* a permission to send in fewer bytes, which rounds results: an encoding
                             of tutti/encode.h, on which links, and whether it is "allowed" (where
                             it is expected to be faster) or "required": "bfloat16/hosts/allowed".
                             NULL: the communicator's rules; "none": as it is. The same on all
                             ranks; of a message see recv. UNSUPPORTED: elements that the
                             encoding does not take, an op
                             other than sum and avg, a barrier; gatherv, scatterv and alltoallv in
                             an encoding in units; a deterministic call that reduces, or does not
                             say "required". */
};
#define TUTTI_CALL_OPTIONS_INIT                                            \
    {                                                                      \
        sizeof(struct tutti_call_options), 0, NULL, 0, 0, NULL, 0, 0, NULL \
    }

/* Memory of devices. Buffers may lie in the memory of a GPU; each of `send` and `recv` then lies in
 * the memory of one GPU as a whole. Ranks may differ in this: the buffers of a rank may be in a
 * GPU's memory, and the buffers of another rank in the host's. Results have the same bits. Tutti
 * finds CUDA's driver (libcuda.so.1) if the program has loaded and initialised it before it creates
 * the communicator, or at the first call with a stream. TUTTI_CUDA_DRIVER names a file that Tutti
 * loads itself.
 *
 * Without a stream, buffers must be ready when the call is made, and are ready when it is done, as
 * ever. With a stream, the call is work of that stream. The caller, or the stream, waits for
 * `_start` and `_prepare` forms. The other forms return at once, and a failure shows in the next
 * call on the communicator and in tutti_comm_failure. The deadline counts from the moment at which
 * the stream reaches the operation. If it fails, the stream goes on, and `recv` is undefined. A
 * call in a stream occupies some of the GPU's multiprocessors (TUTTI_GPU_BLOCKS) from then to its
 * end.
 *
 * Messages (tutti_send, tutti_recv) from and to memory of a GPU go through memory of the host; each
 * message has its own until it is over. The thread that sends copies before the message begins: the
 * call, or the start, returns when the GPU has copied. The thread that receives copies the data in
 * the call that ends the request: tutti_wait, tutti_test, the end of the group, the blocking call.
 * SYSTEM: the GPU could not copy. Only that message fails, unless the GPU has failed for good,
 * which ends the communicator.
 *
 * INVALID_BUFFER: managed memory, or memory of several GPUs. UNSUPPORTED: the stream is being
 * captured into a graph; an op made from a function; send and recv with a stream. */

/* Blocks until the request is done or its deadline has passed, then frees it and sets *request to
 * NULL. Returns the operation's status. One thread per request. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_wait(struct tutti_request **request);
/* Like tutti_wait without blocking: TUTTI_IN_PROGRESS leaves the request as it is. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_test(struct tutti_request **request);
/* Takes back a started receive that no message has matched yet. OK: it never happened, its buffer
 * is the caller's again, and *request is NULL. IN_PROGRESS: a message has matched it, or it has
 * failed; wait for it as usual. UNSUPPORTED: the request is a send, of which its receiver may know
 * already, or a collective, for which the other ranks wait even if it has not begun.
 * tutti_comm_revoke and tutti_comm_abort end sends and collectives. Local; does not block. One
 * thread per request. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_cancel(struct tutti_request **request);
/* Adds 1 to an eventfd when the request is done, or at once if it is done already. Use it in
 * threads that sleep until a request, or another event, needs them. tutti_test then completes the
 * request as usual. event_fd stays the caller's, and must stay open until Tutti has added to it,
 * which may be a moment after tutti_test says that the request is done. A request has at most one
 * eventfd. Only the thread that owns the request may call this; does not block. INVALID_REQUEST: it
 * is NULL, or has an eventfd already. INVALID_OPTIONS: not a descriptor. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_notify(struct tutti_request *request, int event_fd);

/* Starts a prepared operation, as a call of its communicator. It runs once at a time: after
 * tutti_wait (or a tutti_test that says done) on *request you can start it again, with a fresh
 * deadline. Does not block. On failure *request is NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_start(struct tutti_prepared *prepared,
                                                       struct tutti_request **request);
/* Frees a prepared call, which must not be running. NULL is allowed. Local; does not block. */
TUTTI_API enum tutti_status tutti_prepared_free(struct tutti_prepared *prepared);

/* From here to the matching end, this thread's blocking calls (on any communicators, also send and
 * recv) only start, and return at once. Their buffers belong to them until the end. Groups may be
 * nested: the outermost end waits. Calls of tutti/sparse.h, tutti/train.h and tutti/train/ that
 * consist of blocking calls return INVALID_REQUEST meanwhile, and change nothing. Does not block. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_group_begin(void);
/* Blocks until all calls since the matching begin are done, each until its deadline, and returns
 * the first failure. INVALID_REQUEST: there was no begin. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_group_end(void);

/* In all operations, n is the size of the communicator and r the calling rank. The call reads
 * `send` and writes `recv`; they do not overlap, unless they are in place as the operation allows.
 * A call blocks until this rank's part is done, at most until its deadline. `_start` and `_prepare`
 * forms do not block: `_start` forms own both buffers until the request is done, `_prepare` forms
 * while they run. Preparing is local: ranks meet at tutti_start. options may be NULL. All forms
 * return INVALID_*, TIMEOUT, PROC_FAILED, MISMATCH, DESYNC, ABORTED, REVOKED, NO_MEMORY or
 * NO_SPACE, and leave `recv` undefined when they fail after the argument checks. */
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
 * In place: recv == send on root, where it is then only read, unless the call is encoded: then it
 * is rounded there, as on the other ranks. */
TUTTI_OPERATION enum tutti_status tutti_broadcast(const void *send, void *recv, size_t count,
                                                  enum tutti_dtype dtype, int root,
                                                  struct tutti_comm *comm);
/* gather: recv[n * count] on root = send[count] of rank 0, 1, ...; recv is ignored elsewhere.
 * In place: send == recv + root * count elements on root. */
TUTTI_OPERATION enum tutti_status tutti_gather(const void *send, void *recv, size_t count,
                                               enum tutti_dtype dtype, int root,
                                               struct tutti_comm *comm);
/* scatter: recv[count] on rank r = block r of root's send[n * count]; send is ignored elsewhere.
 * In place: recv == send + root * count elements on root, where all is then only read. */
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

/* ------------------------------------------------------------- v forms: blocks of different counts
 *
 * Counts and displacements are in elements. Block i lies at displs[i] from the start of its buffer,
 * and has counts[i] elements; displs may be NULL: the blocks lie one after the other. Arrays have n
 * entries, and Tutti copies them. Blocks of a written buffer must not overlap. Where each rank
 * gives only its own counts (gatherv, scatterv, alltoallv), both ends of a transfer must give the
 * same count. If they differ, the call fails with MISMATCH. */

/* gatherv: block i of recv on root = send[send_count] of rank i; recv, recv_counts and recv_displs
 * are ignored elsewhere. In place: send == recv + recv_displs[root] elements on root. */
TUTTI_OPERATION enum tutti_status tutti_gatherv(const void *send, size_t send_count, void *recv,
                                                const size_t *recv_counts,
                                                const size_t *recv_displs, enum tutti_dtype dtype,
                                                int root, struct tutti_comm *comm);
/* scatterv: recv[recv_count] on rank i = block i of root's send; send, send_counts and send_displs
 * are ignored elsewhere. In place: recv == send + send_displs[root] elements on root. */
TUTTI_OPERATION enum tutti_status tutti_scatterv(const void *send, const size_t *send_counts,
                                                 const size_t *send_displs, void *recv,
                                                 size_t recv_count, enum tutti_dtype dtype,
                                                 int root, struct tutti_comm *comm);
/* allgatherv: block i of recv on every rank = send[recv_counts[i]] of rank i; the same counts on
 * all ranks.
 * In place: send == recv + recv_displs[r] elements. */
TUTTI_OPERATION enum tutti_status tutti_allgatherv(const void *send, void *recv,
                                                   const size_t *recv_counts,
                                                   const size_t *recv_displs,
                                                   enum tutti_dtype dtype, struct tutti_comm *comm);
/* reduce_scatterv: recv[recv_counts[r]] on rank r = reduction of block r of all send, whose blocks
 * lie one after the other; the same counts on all ranks. In place: recv == block r of send. */
TUTTI_OPERATION enum tutti_status tutti_reduce_scatterv(const void *send, void *recv,
                                                        const size_t *recv_counts,
                                                        enum tutti_dtype dtype, tutti_op op,
                                                        struct tutti_comm *comm);
/* alltoallv: block s of recv on rank r = block r of send on rank s. In place: recv == send with
 * the same counts and displs for both. */
TUTTI_OPERATION enum tutti_status tutti_alltoallv(const void *send, const size_t *send_counts,
                                                  const size_t *send_displs, void *recv,
                                                  const size_t *recv_counts,
                                                  const size_t *recv_displs, enum tutti_dtype dtype,
                                                  struct tutti_comm *comm);

/* ------------------------------------------------------------------------- lists of tensors
 *
 * The tensors of a list, one after the other, are the buffer of the collective of that name; Tutti
 * does not copy them into one. So one allreduce takes many gradients, and one allgather one tensor
 * per rank. Each rank cuts its buffers into tensors as it likes; all tensors together must have as
 * many elements as the collective needs. The list is copied. Tensors must not overlap; this is not
 * checked. In place: the same tensors where the buffers of the collective would be the same. A list
 * may be NULL where its buffer is ignored. */
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

/* ---------------------------------------------------------------------------------- point to point
 *
 * A message goes from one rank to one rank and carries a tag. A recv takes the first message, in
 * the order of sending, that fits its source and tag. If several recvs fit a message, the recv that
 * was called first takes it.
 *
 * Two ranks that send to each other with blocking calls may both wait until their deadlines: group
 * or start these calls. Small messages leave before their receiver calls. They wait at the
 * receiver, up to TUTTI_UNEXPECTED bytes (16 MiB) and 65536 messages in all. Beyond that their
 * senders wait, and a rank that then waits for a message that cannot come gets UNEXPECTED_FULL.
 * Large messages wait at the sender until they are received.
 *
 * Messages and collectives have no order among each other. As everywhere, a deadline that passes
 * ends the communicator. */
#define TUTTI_ANY_RANK (-1)
#define TUTTI_ANY_TAG (-1)

/* A message that was received. */
struct tutti_message {
    size_t size_bytes; /* set by the caller to sizeof(struct tutti_message) */
    int source;
    int tag;
    size_t count; /* elements, at most as many as the recv allows */
};

/* send: count elements to rank peer (also to itself), with a tag >= 0. */
TUTTI_OPERATION enum tutti_status tutti_send(const void *send, size_t count, enum tutti_dtype dtype,
                                             int peer, int tag, struct tutti_comm *comm);
/* recv: at most count elements of the same dtype from rank peer or TUTTI_ANY_RANK, with that tag or
 * TUTTI_ANY_TAG. message may be NULL; otherwise it belongs to the recv until the recv is done and
 * has filled it. TRUNCATED: the message is longer, or of another dtype; it is lost, and the
 * communicator lives on.
 *
 * options.encoding, and the rules for "send" of the communicator, are for messages, too. The rank
 * that sends decides: with "allowed" where the message is expected to be faster, never within a
 * host. The buffer that is sent stays as it is, and what is received was rounded once. A recv takes
 * a message that is encoded as the recv allows, or not encoded; but not the latter where the recv
 * requires an encoding. MISMATCH: the message came otherwise, or is encoded and of another dtype;
 * the text names both ranks. The message is lost, its sender is done, and the communicator lives
 * on. A message to the own rank goes as it is. */
TUTTI_OPERATION enum tutti_status tutti_recv(void *recv, size_t count, enum tutti_dtype dtype,
                                             int peer, int tag, struct tutti_message *message,
                                             struct tutti_comm *comm);

/* --------------------------------------------------------------------------------------- memory */

/* Allocates memory that other processes of this host can read in place, if they have a communicator
 * with this process: 64-byte aligned, zeroed, the caller's until tutti_mem_free. Needs no
 * communicator. Any thread; does not block on peers. On failure (NO_SPACE, NO_MEMORY) *memory is
 * NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_mem_alloc(size_t size_bytes, void **memory);
/* Frees memory that came from tutti_mem_alloc, which no operation may still use. NULL is allowed.
 * Any thread; does not block. */
TUTTI_API enum tutti_status tutti_mem_free(void *memory);

/* Tells Tutti of memory that the caller uses often, such as a framework's tensors. The size_bytes
 * bytes at `memory` must stay mapped where they are, in the same pages, until tutti_mem_unregister.
 * The memory stays the caller's. An RDMA NIC then registers it once, as a whole, when an operation
 * first uses it through that NIC, instead of for each operation. Between ranks of one host, and
 * over TCP, it changes nothing. Needs no communicator, and holds for all communicators of this
 * process, now and later; a child of fork() has no registered memory. Any thread; does not block.
 * INVALID_BUFFER: memory is NULL, from tutti_mem_alloc, or overlaps memory that is registered
 * already; or size_bytes is 0. INVALID_COUNT: it ends beyond the address space. A failure (also
 * NO_MEMORY) changes nothing. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_mem_register(void *memory, size_t size_bytes);
/* Ends a registration: when it returns TUTTI_OK, no NIC has the memory registered, and the caller
 * may free it. `memory` is the address that tutti_mem_register got. IN_PROGRESS: an operation, or a
 * thread that moves it, still uses the memory, which stays registered: wait for the operation and
 * try again. INVALID_BUFFER: no registered memory begins there. Any thread; blocks at most a
 * second, for other threads that move operations through NICs. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_mem_unregister(void *memory);

#ifdef __cplusplus
}
#endif

/* Declares tutti_X_with, tutti_X_start and tutti_X_prepare of every TUTTI_OPERATION above. */
#include "tutti/forms.h"

#endif
