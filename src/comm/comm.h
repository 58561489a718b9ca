/* comm.h - the communicator: its parts, its life, and one call on its way through it.
 *
 *     created ──► healthy ──► failed (status on the board, for good) ──► freed
 *                    └──────────────────────────────────────────────────►
 *
 * A call goes: api (arguments) → comm_call (program from the cache) → slot → drive (the one wait loop).
 * Blocking calls use slot 0; started ones take slots 1..16 in turn, and queue when their slot is busy. So the
 * order of calls alone decides the slot, the same on every rank.
 *
 * Threads. `domain` is the one-word lock of everything that moves: links, operations, programs. Whoever holds it
 * moves all operations of the communicator. `queue_lock` covers only the queue of calls to be started.
 */
#ifndef TUTTI_COMM_COMM_H
#define TUTTI_COMM_COMM_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "algo/algo.h"
#include "bootstrap/key.h"
#include "comm/board.h"
#include "engine/run.h"
#include "os/process.h"
#include "process/progress.h"
#include "transport/local/local.h"
#include "tune/rules.h"
#include "tutti/tutti.h"

enum { STARTED_SLOT_COUNT = 16, PROGRAM_CACHE_SIZE = 256 };
static_assert(1 + STARTED_SLOT_COUNT == TRANSPORT_SLOT_MESSAGES, "every slot has one use");

/* What is called, checked and complete. */
struct call {
    struct call_description what;
    const struct tutti_operation *op;
    const void *send;
    void *recv;
    bool in_place;
    uint64_t timeout_ns;
    const struct algorithm *algorithm; /* asked for by name, or NULL */
    bool deterministic;
};

/* A call under way. */
struct tutti_request {
    struct tutti_comm *comm;
    struct call call;
    struct operation operation;
    struct program *program;
    int slot;
    uint64_t begun;      /* number of the call in its slot, from 1 */
    uint64_t sequence;   /* number of the call on the communicator, from 1 */
    uint64_t started_ns; /* when it was first found waiting; 0: not yet */
    uint64_t looked_ns;  /* when peers were last looked at */
    enum tutti_status status;
    char message[256];               /* of a failure */
    _Atomic bool done;               /* released last */
    struct tutti_request *next;      /* in the queue, and among the free ones */
    struct tutti_request *next_made; /* all of the communicator's, waited for or not */
};

struct cached_program {
    struct call_description what;
    bool in_place, deterministic;
    const struct algorithm *algorithm; /* as asked for */
    uint64_t op_serial;
    struct program *program;
};

struct tutti_comm {
    int rank, size;
    bool oversubscribed; /* more ranks than cores: yield at the first miss */
    bool has_threads;    /* another rank lives in this process */
    uint64_t timeout_ns;
    bool deterministic;
    enum kernel_level level;
    struct rules *rules;
    struct transport *transport; /* NULL for a communicator of one */
    struct board *board;         /* shared; a private one for a communicator of one */
    char host[64];
    int *pidfds; /* of the other processes, and the first rank of each */
    int *pidfd_ranks;
    int pidfd_count;
    struct heap_window **windows; /* of the other processes */
    uint32_t window_count;

    _Alignas(64) _Atomic uint32_t domain;
    _Atomic uint64_t sequence; /* calls so far */
    uint64_t slot_begun[TRANSPORT_SLOT_COUNT];
    struct tutti_request blocking; /* of slot 0 */
    struct tutti_request *running[TRANSPORT_SLOT_COUNT];
    int running_count; /* started calls in slots */
    struct cached_program cache[PROGRAM_CACHE_SIZE];

    pthread_mutex_t queue_lock;
    struct tutti_request *queue_first, *queue_last, *free_requests;
    struct tutti_request *requests; /* all that were made */
    uint64_t begun_started;         /* of them, how many have got their slot */
    _Atomic uint32_t outstanding;   /* started and not done */
    _Atomic uint32_t waiting; /* threads in tutti_wait: they move things, the progress thread keeps out */
    struct progress_client client;
    bool client_registered;

    /* create.c, derive.c */
    uint32_t generation;            /* of the process that created it, see os/process.h */
    struct rendezvous_key identity; /* the same on all ranks, and nowhere else */
    uint64_t init_timeout_ns;
    char *algorithms;                    /* the text of the rules; or NULL */
    uint64_t derived_count;              /* times that all ranks derived communicators together */
    struct derived_list *derived_lists;  /* how often which of them did, see derive.c */
};

/* Whether it came here by fork(): then nothing of it may be used, but to be freed. */
static inline bool comm_is_foreign(const struct tutti_comm *comm)
{
    return __builtin_expect(comm->generation != process_generation(), 0);
}

/* create.c */
/* OK, or INVALID_COMM for NULL and for what came here by fork(); `function` is its name without "tutti_". */
enum tutti_status comm_check_handle(const struct tutti_comm *comm, const char *function);

/* call.c */
enum tutti_status comm_call(struct tutti_comm *comm, const struct call *call);
enum tutti_status comm_call_start(struct tutti_comm *comm, const struct call *call,
                                  struct tutti_request **request);
/* The program of a call, from the cache or new. Holds the domain. */
enum tutti_status comm_program(struct tutti_comm *comm, const struct call *call,
                               struct program **program);
void comm_programs_free(struct tutti_comm *comm);

/* How many looks a full link is worth: a look is a spin, or a turn of everybody else on this core. */
static inline uint32_t comm_patience(const struct tutti_comm *comm)
{
    return comm->oversubscribed ? 8 : 128;
}

/* drive.c */
bool comm_try_lock(struct tutti_comm *comm);
void comm_unlock(struct tutti_comm *comm);
/* Until it is this thread's, at most until the deadline of a call. */
enum tutti_status comm_lock(struct tutti_comm *comm, uint64_t timeout_ns);
/* Waits, with the domain held, until the request of slot 0 is done; returns its status. */
enum tutti_status comm_drive_blocking(struct tutti_comm *comm, struct tutti_request *request);
/* Waits for a started request, moving everything while nobody else does. */
void comm_drive_started(struct tutti_comm *comm, struct tutti_request *request);
/* One pass over everything that was started; domain held. True when something moved. */
bool comm_progress(struct tutti_comm *comm);

/* The same for the progress thread, which also looks at deadlines. */
enum progress_result comm_client_progress(struct progress_client *client);

/* failure.c */
/* Publishes a failure of a request with its cause; the first one wins on all ranks. */
void comm_fail(struct tutti_comm *comm, const struct tutti_request *request,
               enum tutti_status status, int culprit, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Reports what is on the board as this thread's error; its status, or OK. */
enum tutti_status comm_check(struct tutti_comm *comm);
/* Looks for reasons why a request does not move (deaths, mismatches, the deadline) and fails it. */
void comm_look(struct tutti_comm *comm, struct tutti_request *request, uint64_t now_ns);
/* A message of that peer made no sense for this request. */
void comm_fault(struct tutti_comm *comm, struct tutti_request *request, int peer);
/* After a failure: until no peer can still be reading this rank's memory. */
void comm_quiesce(struct tutti_comm *comm, const struct tutti_request *request);

#endif
