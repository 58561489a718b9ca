/* server.h - a parameter server: some ranks hold tables of numbers, the others push gradients to
 * them and pull values back.
 *
 *       server 0            server 1          each has a part of every table, and the optimizer's
 *      ┌────────┐          ┌────────┐         state for it
 *      │ tables │          │ tables │
 *      └─┬──┬──┬┘          └┬──┬──┬─┘         one communicator of two ranks for each line: when a
 *        │  │  └────────┐   │  │  │           process dies, only its own lines end
 *        │  └─────────┐ │ ┌─┘  │  │
 *        │  ┌─────────┼─┼─┘    │  │
 *      worker 0     worker 1   worker 2
 *
 *     struct tutti_server_table tables[] = {TUTTI_SERVER_TABLE_INIT("layer", 0, 4096),
 *                                           TUTTI_SERVER_TABLE_INIT("words", 1000000, 64)};
 *     struct tutti_server_options options = TUTTI_SERVER_OPTIONS_INIT;
 *     options.tables = tables, options.table_count = 2;
 *     options.server_ranks = (int[]){0}, options.server_count = 1;
 *     tutti_server_create(&options, comm, &server);
 *     if (tutti_comm_rank(comm) == 0)
 *         tutti_server_serve(server);                               // until all workers have left
 *     else
 *         for (each step) {
 *             struct tutti_server_part parts[] = {{0, NULL, 0, weights}, {1, words, count, rows}};
 *             tutti_server_pull(server, parts, 2, NULL);            // values of the tables
 *             compute gradients, in gradients[2] like parts[2];
 *             tutti_server_push(server, gradients, 2, NULL);
 *             tutti_server_tick(server, NULL);                      // ends this worker's clock
 *         }
 *     tutti_server_free(server);
 *
 * Clocks.  Each worker counts *clocks*, usually one for each step of training. It pushes
 * gradients as often as it likes and then calls tutti_server_tick: this ends its clock, and what
 * it pushed in the clock is its *update*. The servers decide in which *step* they apply an
 * update; the updates of a step are added up in the order of the workers' ranks, and the
 * optimizer takes the sum. All servers take the same steps in the same order. An update is
 * applied whole or not at all. tutti_server_tick returns when this worker's update is in a step
 * and the worker may go on:
 *
 *     SYNCHRONOUS    when all workers have ended the clock. Their updates are one step
 *     BOUNDED        when no worker is more than `staleness` clocks behind (stale synchronous
 *                    parallel). A worker in clock c sees all updates of clocks up to c - staleness - 1,
 *                    and all of its own. With staleness 0 the bits are those of SYNCHRONOUS
 *     ASYNCHRONOUS   at once
 *     QUORUM         when `quorum` workers have ended a clock since the last step. Later updates
 *                    are part of the next step
 *
 * tutti_server_change_mode changes the mode between two steps, when all workers ask for it.
 *
 * Pulls return the values after the step of this worker's last update, or after a later step.
 * tutti_server_step_read tells which workers took part in a step.
 *
 * Failures.  When a worker dies, the servers drop what it pushed since its last step, and the
 * clock goes on without it. When a server dies, its part of the tables is lost: calls return
 * PROC_FAILED, and the message names the server's rank, host and pid. With `backups`, workers push
 * to two servers: calls go on with the other server, and the values are those of a run in which no
 * server died. Only when both servers that have a part die, calls return PROC_FAILED. With `spares`,
 * a part that has lost a server gets another one while work goes on. Statuses that
 * say that a call was refused (INVALID_*, UNSUPPORTED) change nothing, nor does TIMEOUT where a
 * server says which workers are waited for. Any other failure ends the connection of this worker
 * with that server: later calls that need it return the same status, and the servers go on without
 * the worker (with backups, if that server lives). A server that cannot apply a step (no memory)
 * counts as one that died.
 *
 * Workers that come later.  With `joiner_max` the servers keep places for workers that are not there yet. A
 * process comes in two steps. First it joins a communicator, which need have no ranks but the servers:
 * they call tutti_comm_grow, and it calls tutti_comm_join. In the new communicator the servers call
 * tutti_server_admit, and it calls tutti_server_join:
 *
 *     servers                                              a process that comes
 *         tutti_comm_grow(servers, &growth, &grown);           tutti_comm_join(&options, &grown);
 *         tutti_server_admit(server, grown);                   tutti_server_join(&same, grown, &server);
 *         tutti_comm_free(grown);                              tutti_comm_free(grown);
 *
 * Workers go on meanwhile. The new one comes between two steps, in the clock of the slowest worker, and
 * is a worker like all others from then on:
 *
 *     SYNCHRONOUS    the step of that clock waits for its update, as for those of all workers
 *     BOUNDED        it is beside the slowest worker, so nobody waits for a clock that it cannot reach
 *     ASYNCHRONOUS   no worker waits
 *     QUORUM         it counts as a worker that is left
 *
 * If it dies before, nobody has waited for it. When all workers have left, the server has ended, and nobody comes.
 *
 * A child of fork() has no part in its parent's server: it can only free it.
 *
 * Threads.  Servers answer in a thread of the library's own, so a rank may be server and worker.
 * One thread of a worker at a time makes calls.
 *
 * Sources: Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014.
 * Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server,
 * NIPS 2013. Chen et al., Revisiting Distributed Synchronous SGD, 2016 (quorum).
 * docs/how-to/parameter-server.md has the costs.
 */
#ifndef TUTTI_SERVER_H
#define TUTTI_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/encode.h"
#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------------------- tables */

struct tutti_server;           /* opaque: a parameter server as one rank has it */
struct tutti_server_operation; /* opaque: a started call */

/* How a server turns the sum g of gradients into a change of a value w. Every operation is
 * rounded to float32 by itself, in the order of torch.optim. t counts the steps that had a
 * gradient for the table. */
enum tutti_server_optimizer {
    TUTTI_SERVER_SGD,      /* w += -rate * g */
    TUTTI_SERVER_MOMENTUM, /* m = momentum * m + g; w += -rate * m; with `nesterov`:
                              w += -rate * (g + momentum * m) */
    TUTTI_SERVER_ADAGRAD,  /* s += g * g; w += -rate / (1 + (t - 1) * rate_decay) * g / (sqrt(s) +
                              epsilon) */
    TUTTI_SERVER_ADAM,     /* m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g * g; w +=
                              -rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon) */
    TUTTI_SERVER_FUNCTION  /* `function` */
};

/* The user's optimizer: changes parameters[count] and state[0 to state_count - 1][count],
 * elements of one row or of a piece of a tensor, each of which it must treat alike. step is t,
 * from 1. It is only called in a server's threads, one call at a time, must neither block nor
 * call Tutti, and keeps no pointer. */
typedef void tutti_server_function(void *context, uint64_t step, size_t count,
                                   const float *gradients, float *parameters, float *const *state);

/* The values of a table before anything was pushed. Random values depend on the seed and on
 * their place in the table alone, not on the number of servers. */
enum tutti_server_initial {
    TUTTI_SERVER_CONSTANT, /* initial_value: 0, unless it is set */
    TUTTI_SERVER_UNIFORM,  /* evenly distributed from -initial_value up to initial_value */
    TUTTI_SERVER_NORMAL    /* with mean 0 and deviation initial_value, at most 6 of it from 0 */
};

/* A table of float32: one dense tensor, or rows that take memory from their first gradient on.
 * The same on all ranks, but for function and context, which only servers use. */
struct tutti_server_table {
    size_t size_bytes; /* sizeof(struct tutti_server_table); TUTTI_SERVER_TABLE_INIT sets it */
    const char *name;  /* 1 to 255 bytes, distinct; copied */
    size_t row_count;  /* 0: a dense tensor of `width` elements; else rows 0 to row_count - 1 */
    size_t width;      /* elements of the tensor, at least 1; or of a row, 1 to 2^20 */
    enum tutti_server_optimizer optimizer;
    enum tutti_server_initial initial;
    double rate; /* at least 0 */
    double momentum, rate_decay, beta1, beta2, epsilon;
    double initial_state; /* of ADAGRAD's s, and of FUNCTION's state */
    double weight_decay;  /* at least 0 */
    int decoupled; /* not 0: weight decay is w *= 1 - rate * weight_decay; 0: g += weight_decay * w */
    int nesterov;
    double initial_value;
    uint64_t seed;
    int allows_nan;  /* 0: a push of NaN or infinity is refused; 1: it is applied */
    int state_count; /* for FUNCTION: numbers of state for each element, at most 4 */
    tutti_server_function *function; /* for FUNCTION; may be NULL on ranks that are no servers */
    void *context;                   /* for function; must live until tutti_server_free */
};
/* A table with plain SGD (rate 0.01), and the usual numbers for the other optimizers. */
#define TUTTI_SERVER_TABLE_INIT(name, row_count, width)                                            \
    {                                                                                              \
        sizeof(struct tutti_server_table), (name), (row_count), (width), TUTTI_SERVER_SGD,         \
            TUTTI_SERVER_CONSTANT, 0.01, 0.9, 0.0, 0.9, 0.999, 1e-8, 0.0, 0.0, 0, 0, 0.0, 0, 0, 0, \
            NULL, NULL                                                                             \
    }

/* --------------------------------------------------------------------------------------- servers */

enum tutti_server_mode {
    TUTTI_SERVER_SYNCHRONOUS,
    TUTTI_SERVER_BOUNDED,
    TUTTI_SERVER_ASYNCHRONOUS,
    TUTTI_SERVER_QUORUM
};

/* The same on all ranks, but for what struct tutti_server_table says. */
struct tutti_server_options {
    size_t size_bytes; /* sizeof(struct tutti_server_options); TUTTI_SERVER_OPTIONS_INIT sets it */
    const struct tutti_server_table *tables;
    size_t table_count;      /* 1 to 4096 */
    const int *server_ranks; /* ranks of comm that hold the tables, increasing */
    size_t server_count;     /* at least 1 */
    const int *worker_ranks; /* ranks of comm that work, increasing; NULL: all that are no servers */
    size_t worker_count;     /* at least 1, unless worker_ranks is NULL */
    enum tutti_server_mode mode;
    int staleness; /* for BOUNDED: 0 or more clocks */
    int quorum; /* for QUORUM: 1 to the number of workers, with those that may come; when fewer are left, all of
                      these */
    int average;         /* not 0: each update counts 1 / (number of workers that are left) */
    size_t queue_bytes;  /* a server takes no further request of a worker while its requests or its
                           answers of so many bytes wait; 0: 256 MiB, and the bytes of all dense
                           tensors on a server. Larger requests are refused.
                           The push with which a worker has pushed more in a clock fails with
                           NO_MEMORY, and ends its connection; gradients of one dense tensor are
                           added up, and count once */
    uint64_t timeout_ns; /* default deadline of the calls below; 0: 30 minutes */
    const char *load_folder; /* the tables begin with what tutti_server_save wrote there; NULL: with
                                their initial values */
    uint64_t serve_timeout_ns; /* a server's tutti_server_serve gives up when a worker has been silent
                                  for so long: it neither says anything nor waits for the servers.
                                  0: a worker may compute for as long as it likes */
    int backups; /* 1: each server's part is on the next server, too, round and round, so that a server
                    may die; at least 2 servers. 0: calls fail when a server dies */
    int spares; /* 0 to 2, with backups and at least 3 servers: places that each server keeps for parts of
                   servers that die. A part that has lost a server then gets another backup while work
                   goes on, which needs memory for it only then. 0: it gets none */
    int joiner_max; /* so many workers may come later, in all: 0 to 1024. Each takes a place for good */
    int reserved; /* 0 */
};
#define TUTTI_SERVER_OPTIONS_INIT                                                                 \
    {                                                                                             \
        sizeof(struct tutti_server_options), NULL, 0, NULL, 0, NULL, 0, TUTTI_SERVER_SYNCHRONOUS, \
            0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0                                                    \
    }

/* Makes a parameter server of the ranks of comm: a communicator for each worker and server, and
 * for server 0 and each other server; with backups about twice as many, with spares more. Tutti
 * copies the options and what they point to. comm may be freed afterwards, and may fail. Collective
 * over comm; blocks like tutti_comm_create for each of these communicators. Servers answer from then on. On failure *server is NULL:
 * INVALID_COMM, INVALID_OPTIONS, INVALID_DTYPE, MISMATCH (ranks gave different options),
 * NO_MEMORY, or a status of tutti_comm_group. With load_folder: SYSTEM (a file is not there), CORRUPT
 * (it is not whole), INVALID_OPTIONS (it has other tables, or those of another number of servers), MISMATCH (parts are of different steps). */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_create(const struct tutti_server_options *options, struct tutti_comm *comm,
                    struct tutti_server **server);
/* Lets workers in: the ranks of `grown` that call tutti_server_join. Collective over grown, in which each
 * server that lives must be. Other ranks of this server may be in it, and then call this function, too. If more
 * ranks join than places are left, the lowest get them. All of these get their connections, or none does. Blocks like tutti_comm_group for a communicator of each new
 * worker with each part and place of each server. grown stays the caller's, and may be freed then. OK: the servers
 * have these connections, and let the workers in between two steps; tutti_server_join waits for that. Otherwise as
 * tutti_server_join; and INVALID_BUFFER: server is NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_server_admit(struct tutti_server *server,
                                                              struct tutti_comm *grown);
/* Makes this process a worker of the server whose ranks call tutti_server_admit on `grown`. Of `options`, tables,
 * table_count and timeout_ns count: tables are those of the server, but for function and context; all else is as the
 * server has it. Collective over grown, which stays the caller's, and may be freed then. Blocks as tutti_server_admit
 * does, and until this worker is in, at most for the deadline of the options.
 * The worker's rank (tutti_server_rank) is the size of the communicator of tutti_server_create, and one more for each
 * place that was taken before. Its clock (tutti_server_count) is the clock of the slowest worker. Its pulls return
 * values after all steps that were taken before it came.
 * On failure *server is NULL, grown may have failed, too, and the server and its workers go on as before. INVALID_OPTIONS: as for
 * tutti_server_create, or the server has no place left for this rank. MISMATCH: the server has other tables. INVALID_COMM:
 * grown is no communicator of this process, has no server, or no rank that joins, lacks a server that lives, or has servers of
 * two parameter servers. PROC_FAILED, ABORTED: the server has
 * ended, since all its workers have left; or a rank died. TIMEOUT: the servers have not let it in. NO_MEMORY, or a status
 * of tutti_comm_group. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_join(const struct tutti_server_options *options, struct tutti_comm *grown,
                  struct tutti_server **server);
/* This rank's number in messages and in tutti_server_step_read: that in the communicator of tutti_server_create; of a
 * worker that came later its own. -1: server is NULL. Any thread; does not block. */
TUTTI_API int tutti_server_rank(const struct tutti_server *server);
/* Blocks until all workers have left or died: for ranks that only serve. Has no deadline but
 * serve_timeout_ns of the options: TIMEOUT then names the rank of the worker that has been silent,
 * the server goes on, and the function may be called again. Returns at once on a rank that is no
 * server. PROC_FAILED: a server died, and so the tables are no longer complete; otherwise OK. Any
 * thread; several at once. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_server_serve(struct tutti_server *server);
/* The same, but blocks for at most wait_ns (UINT64_MAX: no such end): IN_PROGRESS then, and the
 * server goes on. For programs that look after something else meanwhile, such as signals. Any thread. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_server_serve_for(struct tutti_server *server,
                                                                  uint64_t wait_ns);
/* Saves this server's part of the tables, with the optimizers' state, in a file of a folder
 * ("server-0-of-2.tables"), which replaces the one of the last time when it is whole; with backups
 * also the part of which it has the backup. Every server
 * saves its own part; parts belong together when they are from after the same step, so let servers
 * save while no worker is in a clock, say between two barriers. The server answers nothing while it
 * writes, about a second for each GB. Later, tutti_server_create with load_folder and the same
 * tables, optimizers and number of servers begins there. Blocks until the file is there, at most for
 * the deadline of the options. TIMEOUT: it may still be written. INVALID_RANK: this rank is no server.
 * INVALID_BUFFER: folder is NULL. INVALID_OPTIONS: it is empty. INVALID_REQUEST: it is saving. NO_SPACE: the disk is full. SYSTEM:
 * the folder is not there, or cannot be written. Then the old file stays. NO_MEMORY. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_server_save(struct tutti_server *server,
                                                             const char *folder);
/* Leaves. A worker tells the servers that it takes no more part, and its unfinished clock is
 * dropped. A server waits until all workers have left or died, then ends its thread and frees
 * its part of the tables. Blocks for that, until the deadline of the options: TIMEOUT then names a
 * worker that is still there, and everything is freed nevertheless. All operations must have been waited
 * for. NULL is allowed. */
TUTTI_API enum tutti_status tutti_server_free(struct tutti_server *server);

/* ---------------------------------------------------------------------------------- push and pull */

/* A dense tensor as a whole, or some rows of a table. */
struct tutti_server_part {
    size_t table;        /* its index in the options */
    const int64_t *rows; /* NULL: the dense tensor; otherwise row_count rows, in any order. In a push
                            a row may come several times: its gradients are added */
    size_t row_count;
    void *values; /* [width] or [row_count][width]; only read in a push */
};

/* The most parts of a call: it can name every table. */
#define TUTTI_SERVER_PARTS 4096

struct tutti_server_call_options {
    size_t size_bytes;   /* sizeof(struct tutti_server_call_options); _INIT sets it */
    uint64_t timeout_ns; /* deadline from now; 0: the one of struct tutti_server_options */
    int priority;        /* a server answers waiting requests of higher priority first; -100 to 100.
                            Requests of one worker and one priority keep their order. Front layers,
                            which the next step needs first, get higher priorities */
    enum tutti_encoding encoding; /* of the values of a push on their way; NONE: as they are */
};
#define TUTTI_SERVER_CALL_OPTIONS_INIT                                                \
    {                                                                                 \
        sizeof(struct tutti_server_call_options), (uint64_t)0, 0, TUTTI_ENCODING_NONE \
    }

/* Adds gradients to this worker's update: `part_count` parts, in one message to each server. The
 * servers apply nothing before tutti_server_tick. Blocks until the servers have the gradients,
 * at most until the deadline. Parts, rows and values stay the caller's; options may be NULL.
 * Only workers. Refused: INVALID_COUNT (no such table, a row out of range, more than
 * TUTTI_SERVER_PARTS parts, or more bytes than queue_bytes), INVALID_BUFFER (NULL, or NaN or
 * infinity, in the encoding, too; the message says where), INVALID_OPTIONS, INVALID_RANK (this rank is no worker),
 * UNSUPPORTED (the encoding does not take float32). Otherwise PROC_FAILED, TIMEOUT, NO_MEMORY
 * (here; or on a server, also because the clock's update is above queue_bytes), or a status of a
 * message. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_push(struct tutti_server *server, const struct tutti_server_part *parts,
                  size_t part_count, const struct tutti_server_call_options *options);
/* Sets values, past the optimizer, as a part of this worker's update: of `part_count` parts,
 * which stay the caller's. In a step, values are set before gradients are applied, and of
 * several workers the highest rank's values hold. So one worker can set the first values of a
 * model: it calls this, and all workers tick. Blocks like tutti_server_push, takes the same
 * server and options, and fails for the same reasons. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_set(struct tutti_server *server, const struct tutti_server_part *parts,
                 size_t part_count, const struct tutti_server_call_options *options);
/* Reads `part_count` parts of a server's tables into their values; the parts stay the caller's,
 * and options may be NULL. Waits for the step of this worker's last update, if its tick is not
 * over: TIMEOUT then changes nothing, and a later pull waits again. Reading makes no rows.
 * Blocks until the values are there, at most until the deadline. Fails like tutti_server_push;
 * on failure the values are undefined. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_pull(struct tutti_server *server, const struct tutti_server_part *parts,
                  size_t part_count, const struct tutti_server_call_options *options);
/* Ends this worker's clock, and blocks until its update is in a step and the worker may go on:
 * see "Clocks" above. Only workers of the server; options may be NULL. TIMEOUT: the message
 * names the workers that are waited for; the clock has ended all the same, and the next
 * tutti_server_tick goes on waiting for it. PROC_FAILED: a server died. INVALID_REQUEST: a tick
 * that was started has not been waited for. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_tick(struct tutti_server *server, const struct tutti_server_call_options *options);
/* Pushes the `pushed_count` parts at `pushed`, ends the clock, and pulls the `pulled_count`
 * parts at `pulled`: as the three calls on the server one after the other, in one round trip.
 * Blocks until all is done, at most until the deadline of the options, which may be NULL. Parts
 * stay the caller's; either count may be 0. Refused like the three calls, and then nothing was
 * pushed and no clock has ended; fails like them. After TIMEOUT the clock has ended with what was
 * pushed. Then the next tutti_server_push_pull goes on with it: it pushes nothing, waits and pulls,
 * so a program calls it again with the same arguments. tutti_server_tick and tutti_server_pull
 * go on, too. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_push_pull(struct tutti_server *server, const struct tutti_server_part *pushed,
                       size_t pushed_count, const struct tutti_server_part *pulled,
                       size_t pulled_count, const struct tutti_server_call_options *options);
/* Starts tutti_server_push, with the same server, parts and options, and does not block. Tutti
 * copies parts, rows and values. Servers see the calls of a worker in the order in which they
 * were started, and a pull waits for ticks before it. So push, tick and pull can be started one
 * after the other, and cost one round trip. On failure *operation is NULL: as tutti_server_push
 * when it refuses, and INVALID_REQUEST if 64 calls are in flight already. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_push_start(struct tutti_server *server, const struct tutti_server_part *parts,
                        size_t part_count, const struct tutti_server_call_options *options,
                        struct tutti_server_operation **operation);
/* Starts tutti_server_set, with the same server, parts and options, and does not block. Tutti
 * copies parts, rows and values. Fails like tutti_server_push_start, with *operation NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_set_start(struct tutti_server *server, const struct tutti_server_part *parts,
                       size_t part_count, const struct tutti_server_call_options *options,
                       struct tutti_server_operation **operation);
/* Starts tutti_server_pull, with the same server and options, and does not block. Tutti copies
 * parts and rows; values belong to the operation until it is done. Fails like
 * tutti_server_push_start, with *operation NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_pull_start(struct tutti_server *server, const struct tutti_server_part *parts,
                        size_t part_count, const struct tutti_server_call_options *options,
                        struct tutti_server_operation **operation);
/* Starts tutti_server_tick, with the same server and options, and does not block. Pushes from
 * now on belong to the next clock. Fails like tutti_server_push_start, with *operation NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_tick_start(struct tutti_server *server, const struct tutti_server_call_options *options,
                        struct tutti_server_operation **operation);
/* Blocks until the operation is done or its deadline has passed, frees it, sets *operation to NULL,
 * and returns its status. All operations must have been waited for before tutti_server_free.
 * INVALID_REQUEST: operation or *operation is NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_wait(struct tutti_server_operation **operation);
/* The same without blocking: IN_PROGRESS leaves the operation as it is. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_test(struct tutti_server_operation **operation);

/* --------------------------------------------------------------------------- another mode */

/* A mode, with what belongs to it: as in struct tutti_server_options. */
struct tutti_server_change {
    size_t size_bytes; /* sizeof(struct tutti_server_change); TUTTI_SERVER_CHANGE_INIT sets it */
    enum tutti_server_mode mode;
    int staleness; /* for BOUNDED; else 0 */
    int quorum;    /* for QUORUM; else 0 */
    int reserved;  /* 0 */
};
#define TUTTI_SERVER_CHANGE_INIT                                              \
    {                                                                         \
        sizeof(struct tutti_server_change), TUTTI_SERVER_SYNCHRONOUS, 0, 0, 0 \
    }

/* Changes the mode of `server`, when all workers that are left have called it with the same
 * `change`: between two steps, and between two clocks of each worker. Blocks until then, at most
 * until the deadline of `options`, which may be NULL. So workers call it behind as many clocks each,
 * and also to meet: a job may begin ASYNCHRONOUS, so that one worker can set values and tick alone, and
 * then change to its mode. A worker that waits here ends no clock, and a quorum does not count it. Only
 * workers. MISMATCH: workers asked for different modes, and the mode stays; all are told which two.
 * TIMEOUT: the message names the workers that have not asked; call it again with the same change, or
 * with another one, or tick instead. Until the worker does, the wish stands, and the mode may change by it: the
 * same change, called again, returns what came of it; another change, or one behind a tick, is a new wish.
 * With backups, the change outlives the death of a server: the server that would decide the steps next has
 * heard of it before any worker, and all workers get the same result. A worker that comes meanwhile is one of all
 * workers, too. INVALID_OPTIONS: as for tutti_server_create; or it has a staleness or a quorum, and a mode that has none.
 * INVALID_REQUEST: a tick is not over.
 * Otherwise as tutti_server_tick. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_server_change_mode(struct tutti_server *server, const struct tutti_server_change *change,
                         const struct tutti_server_call_options *options);

/* ---------------------------------------------------------------------------------------- results */

/* A step: updates that the servers applied together. */
struct tutti_server_step {
    size_t size_bytes;     /* set by the caller to sizeof(struct tutti_server_step) */
    uint64_t number;       /* from 1 */
    uint64_t worker_count; /* workers that were left when it was decided */
    uint64_t member_count; /* workers whose updates it has */
};
/* Fills *step, and the ranks (in comm) of its members, increasing, as many as rank_capacity
 * allows. number: a step, or 0 for the step of this worker's last update. Server 0 remembers the
 * last 512 steps; a spare that has taken its place, those since it was a backup. ranks may be NULL with capacity 0. Only workers; blocks until server 0 has
 * answered, at most for the deadline of the options. INVALID_COUNT: there is no such step, or
 * not any more. Otherwise as tutti_server_push. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_server_step_read(struct tutti_server *server,
                                                                  uint64_t number, int *ranks,
                                                                  size_t rank_capacity,
                                                                  struct tutti_server_step *step);

/* The work of this rank so far. Numbers only grow. */
struct tutti_server_counters {
    size_t size_bytes; /* set by the caller to sizeof(struct tutti_server_counters) */
    uint64_t clock;    /* a worker: clocks that it has ended, or that were over when it came */
    uint64_t pushes;   /* a worker: requests that it sent; a server: that it took */
    uint64_t pulls;
    uint64_t bytes;      /* of values that these carried, as they were sent */
    uint64_t steps;      /* a server: steps that it has taken */
    uint64_t duplicates; /* a server: requests that came again, and were not applied again */
    uint64_t refused; /* a server: requests that made no sense, and ended a worker's connection */
    uint64_t workers; /* a server: workers that are left, now */
    uint64_t parts_alone; /* a server, with `spares`: parts that one server alone has, now */
    uint64_t joined;      /* a server: workers that have come later */
    uint64_t changes; /* a worker: calls of tutti_server_change_mode that changed the mode, or were a MISMATCH; and those
                         that were over when it came. So it knows which ones it has missed */
};
/* Fills *counters with what this rank of the server has done. Local; any thread; does not block.
 * INVALID_BUFFER: server or counters is NULL. INVALID_OPTIONS: counters->size_bytes is not set. */
TUTTI_API enum tutti_status tutti_server_count(const struct tutti_server *server,
                                               struct tutti_server_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
