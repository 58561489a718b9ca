/* comm.h - the communicator: its parts, its life, and one call on its way through it.
 *
 *     created ──► healthy ──► failed (status on the board, for good) ──► freed
 *                    └──────────────────────────────────────────────────►
 *
 * A call goes: api (arguments) → comm_call or comm_call_start (program from the cache) → slot → drive (the one
 * wait loop). Blocking calls use slot 0; started ones take slots 1..16 in turn, and queue when their slot is busy.
 * So the order of calls alone decides the slot, the same on every rank.
 *
 * From above to below; a file uses what stands behind it only (tests/repo/cycles_test.sh):
 *
 *     life.c     the public life cycle        create.c   making one, taking it apart   racks.c   measured racks
 *     derive.c   split, dup, group            shrink.c   going on after a failure      agree.c   agreements
 *     group.c    between group_begin and _end call.c     blocking calls                start.c   started and prepared calls
 *     wait.c     the end of a started call    cancel.c   taking one back               message_call.c  send and recv
 *     drive.c    waiting                      progress.c what was started moves        message.c messages move
 *     begin.c    the beginning of a call      program.c  programs and their cache      request.c requests, lines of them
 *     diagnose.c why something is stuck       report.c   who holds up what             crossing.h  calls in different forms
 *     quiesce.c  after a failure              lock.c     the lock of what moves
 *     network.c  connections                  hear.c     what other hosts say          beat.c, rails.c, recover.c
 *     failure.c  one failure for all          trace.h    what is told of calls         straggler.h  who holds up call after call
 *     deaths.c   which processes have ended   far.c      ranks of other hosts          recorder.h   the last calls
 *
 * Threads. `domain` is the one-word lock of everything that moves: links, operations, programs, messages. Whoever
 * holds it moves all operations of the communicator; who needs it and has to wait says so in `wanted`, and who only
 * waits for started ones lets go after the piece at hand. A thread in a blocking call keeps it, so what other threads
 * start must not need it: calls and messages that find it taken, or their slot busy, line up (`queue_lock` covers
 * only that), and whoever has the domain begins them.
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
#include "comm/handle.h"
#include "comm/host_levels.h"
#include "comm/hosts.h"
#include "comm/recorder.h"
#include "comm/straggler.h"
#include "comm/trace.h"
#include "engine/buffer.h"
#include "engine/run.h"
#include "os/futex.h"
#include "os/process.h"
#include "p2p/p2p.h"
#include "process/progress.h"
#include "transport/local/local.h"
#include "tune/rules.h"
#include "tutti/tutti.h"

enum { STARTED_SLOT_COUNT = 16, PROGRAM_CACHE_SIZE = 256 };
static_assert(1 + STARTED_SLOT_COUNT == TRANSPORT_SLOT_MESSAGES, "every slot has one use");

/* What a call has beside two buffers in one piece; one allocation. */
struct call_extra {
    size_t *input_counts, *output_counts;  /* of the v forms, one a rank; or NULL */
    struct segment_of_buffer *segments[2]; /* of send and recv; NULL: in one piece */
    size_t segment_counts[2];
    size_t count_bytes; /* of both counts together: they lie one after the other */
};

/* What is called, checked and complete. */
struct call {
    struct call_description what;
    const struct tutti_operation *op;
    const void *send;
    void *recv;
    bool in_place, deterministic;
    bool all_were_mapped; /* all memory of all ranks, the last time that it mattered; all ranks agree */
    int priority;
    unsigned radix; /* of the algorithm asked for, or 0 */
    uint64_t timeout_ns;
    const struct algorithm *algorithm; /* asked for by name, or NULL */
    struct call_extra *extra;          /* or NULL; belongs to the call */
};

/* A message to send or to receive, checked and complete. */
struct message_call {
    bool is_send;
    void *buffer;
    size_t count;
    enum tutti_dtype dtype;
    int peer, tag;
    uint64_t timeout_ns;
    struct tutti_message *result; /* of a recv, or NULL */
    size_t result_bytes;          /* of it, as its caller has it */
};

/* Instead of a descriptor: nobody is to be told that a request is done; it is. */
enum request_event { EVENT_NONE, EVENT_DONE };

/* A call under way, or a message: the same request, with other parts of it in use. */
struct tutti_request {
    struct tutti_comm *comm;
    struct call call;
    struct operation operation;
    struct program *program;
    int slot;
    uint64_t begun;      /* number of the call in its slot, from 1 */
    uint64_t sequence;   /* number of the call on the communicator, from 1 */
    uint64_t number;     /* the same among those that are started; 0: none of them */
    uint64_t record;     /* of a message, in its recorder; 0: none */
    unsigned passes;     /* of the wait loop until a blocking call was done */
    uint64_t started_ns; /* when it was first found waiting; 0: not yet */
    uint64_t looked_ns;  /* when peers were last looked at */
    uint64_t faulted_ns; /* since when it is asked what a rank of another host meant; 0: it is not */
    uint64_t crossed_ns; /* since when ranks of other forms are known to wait for each other; 0: they are not */
    enum tutti_status status;
    /* a message: */
    bool is_message;
    _Atomic bool is_waited_for; /* somebody does nothing else */
    struct message_call message_call;
    struct p2p_request message;
    struct tutti_request *takes_back; /* another receive: this stands in line to do that, and is no message */
    struct tutti_request *message_next, *message_previous; /* among those that are not done */
    bool is_grouped;  /* moved by the thread that will wait for it */
    bool is_prepared; /* part of a struct tutti_prepared: keeps its program and its extra */
    bool is_owned;    /* somebody will wait for it; unless it is_prepared */
    char error[256];  /* of a failure */
    _Atomic int event; /* ~ the descriptor to be told that it is done; or one of enum request_event */
    _Atomic bool done; /* released last */
    struct tutti_request *_Atomic next_free;
    struct tutti_request *_Atomic *home; /* the free ones that it is one of */
    struct tutti_request *next;          /* in the queue */
    struct tutti_request *next_made;     /* all of the communicator's, waited for or not */
};

/* Requests that wait for somebody to begin them, under queue_lock. */
struct request_line {
    struct tutti_request *first, *last;
    _Atomic uint32_t count; /* not begun yet */
};

struct tutti_prepared {
    struct tutti_request request;
    bool runs;                              /* started and not waited for */
    struct tutti_prepared *next, *previous; /* of the communicator's, under queue_lock */
};

struct cached_program {
    struct call_description what;
    bool in_place, deterministic, mapped;
    const struct algorithm *algorithm; /* as asked for */
    unsigned radix;
    uint64_t op_serial;
    size_t *counts; /* of the v forms, as in call_extra; or NULL */
    size_t count_bytes;
    struct program *program;
};

/* Another process with ranks of the communicator, see deaths.c. Of one that is not visible from here each rank counts. */
struct watched_process {
    uint64_t key;
    pid_t pid;                 /* 0: not visible */
    int rank;                  /* the first of its ranks */
    int fd;                    /* of a neighbour; else -1 */
    _Atomic bool has_ended;    /* as far as it was noticed */
    _Atomic bool has_executed; /* and it goes on as another program */
    _Atomic uint64_t program;  /* at the first look, see process_program; 0: not known yet */
};

/* A rank of this host. */
struct local_rank {
    int first;   /* the lowest local number of its process */
    int process; /* of those watched; -1: this one */
};

/* What was said last of a rank that holds up a call, see report.c. */
struct comm_report {
    bool is_open; /* it still does */
    int rank;
    const struct tutti_request *request;
    uint64_t since_ns, looked_ns;
    uint64_t present_ns;       /* this rank ran */
    uint64_t listens_until_ns; /* it did not before, and says nothing */
};

struct tutti_comm {
    int rank, size;
    bool oversubscribed;   /* more ranks than cores here: yield at the first miss */
    bool shares_cores;     /* the same of some host: all ranks agree */
    bool has_threads;      /* another rank lives in this process */
    bool publishers_fence; /* see comm_publish */
    const int *rank_order; /* near ranks side by side; the transport's. NULL: as they are numbered */
    struct host_levels *host_levels; /* of ranks on several hosts; NULL: all are on one */
    uint64_t timeout_ns;
    bool deterministic;
    enum kernel_level level;
    struct rules *rules;
    struct transport *local; /* of the ranks of this host: the board, who is near whom; NULL for one */
    struct transport *router;     /* to ranks of this host and of others; NULL */
    struct transport *transport;  /* of the data: one of these, or over TCP; NULL for one */
    struct comm_network *network; /* NULL: nothing goes over TCP */
    bool over_tcp;                /* all of it, also to ranks of this host */
    bool has_door;                /* has opened the process's */
    struct comm_hosts *hosts;     /* NULL: all ranks are on this one */
    struct board *board;          /* shared by the ranks of this host; a private one for one rank */
    struct letter_ring *letters; /* of this host's ranks, by local number, behind the board; NULL for one */
    struct recovery *_Atomic recovery; /* NULL: nothing was ever agreed on, see recover.h */
    struct board *far_board; /* what this rank was told of those of other hosts; or NULL */
    char host[64];
    struct watched_process *processes; /* the others, in the order of their first ranks */
    int process_count;
    struct local_rank *local_ranks; /* by local number; NULL for a communicator of one */
    _Atomic int next_process;       /* to look at */
    struct heap_window **windows; /* of each local number: the first one's of a process; else NULL */

    _Alignas(64) _Atomic uint32_t domain;
    _Atomic uint32_t wanted;      /* threads that wait for the domain */
    _Atomic unsigned wakefulness; /* how often the time before a sleep was doubled */
    _Atomic bool has_output;      /* something that is over here still waits for room in a socket */
    bool looks_rarely;            /* whoever has the domain will not look again soon */
    bool has_napped;              /* the progress thread has, since its last pass */
    _Atomic uint64_t sequence;    /* calls so far */
    uint64_t unnumbered_calls;    /* before those: of its own, while it was made */
    uint64_t started_calls;       /* so far, also those in line */
    uint64_t slot_begun[TRANSPORT_SLOT_COUNT];
    bool maps_heaps; /* ranks, all on this host, read and write each other's heaps where they lie */
    uint64_t mapped_calls; /* blocking ones whose algorithm heeds whether memory is mapped */
    _Alignas(64) struct recorder recorder; /* of calls, which are numbered by their sequence */
    struct recorder message_recorder;      /* from the first message on */
    _Atomic uint64_t message_sequence;
    struct tutti_request blocking;                       /* of slot 0 */
    struct tutti_request *running[TRANSPORT_SLOT_COUNT]; /* of each slot */
    struct tutti_request *order[STARTED_SLOT_COUNT];     /* the same, most urgent first */
    int running_count;
    struct cached_program cache[PROGRAM_CACHE_SIZE];

    pthread_mutex_t queue_lock;
    struct request_line queue;
    struct tutti_request *_Atomic free_requests; /* taken by the issuing thread only */
    struct tutti_request *requests;              /* all that were made */
    struct tutti_prepared *prepared;             /* the same */
    uint64_t begun_started;                      /* of them, how many have got their slot */
    _Atomic uint32_t outstanding; /* begun and not done; written with the domain held */
    /* message.c; all but the count and the queue belong to who holds the domain */
    struct p2p *p2p;                             /* from the first message on */
    struct transport alone;                      /* of a communicator of one */
    struct tutti_request *messages;              /* that are not done */
    struct tutti_request *_Atomic free_messages; /* taken with the domain held */
    struct request_line message_queue;
    struct tutti_request *_Atomic free_queued_messages; /* taken with the queue_lock held */
    _Atomic uint32_t message_count;                     /* not done; written with the domain held */
    uint64_t message_pass;                              /* how often they were moved */
    uint64_t looked_ns; /* when started calls and messages were last looked at */
    struct comm_report report;
    struct straggler straggler;
    struct trace trace;

    struct progress_client client;
    _Atomic bool client_registered;

    /* create.c, derive.c */
    uint32_t generation;            /* of the process, when it was created */
    struct rendezvous_key identity; /* the same on all ranks, and nowhere else */
    uint64_t init_timeout_ns;
    enum tutti_integrity integrity;     /* OFF, NETWORK or ON */
    bool is_encrypted;                  /* what goes over TCP */
    char *algorithms;                   /* the text of the rules; or NULL */
    uint64_t derived_count;             /* times that all ranks derived communicators together */
    struct derived_list *derived_lists; /* how often which of them did, see derive.c */
};

/* Whether it came here by fork(): then nothing of it may be used, but to be freed. */
static inline bool comm_is_foreign(const struct tutti_comm *comm)
{
    return __builtin_expect(comm->generation != process_generation(), 0);
}

/* Ranks of this host, by rank and by local number (hosts.h). */
static inline bool comm_is_near(const struct tutti_comm *comm, int rank)
{
    return comm->hosts == NULL || comm->hosts->locals[rank] >= 0;
}
static inline int comm_local_size(const struct tutti_comm *comm)
{
    return comm->hosts == NULL ? comm->size : comm->hosts->local_size;
}
static inline int comm_local_number(const struct tutti_comm *comm, int rank)
{
    return comm->hosts == NULL ? rank : comm->hosts->locals[rank];
}
static inline int comm_local_rank(const struct tutti_comm *comm, int number)
{
    return comm->hosts == NULL ? number : comm->hosts->names[number];
}
/* What a rank says on the board of its host, or what was heard of one of another host. */
static inline struct board *comm_board_of(const struct tutti_comm *comm, int rank)
{
    return comm_is_near(comm, rank) ? comm->board : comm->far_board;
}
static inline enum rank_state comm_state_of(const struct tutti_comm *comm, int rank)
{
    return board_state(comm_board_of(comm, rank), rank);
}
static inline struct board_call *comm_calls_of(const struct tutti_comm *comm, int rank, int slot)
{
    return board_calls(comm_board_of(comm, rank), comm->size, rank, slot);
}
/* The sequence number of the latest call that a rank of this host began; of those in line the first. 0: none. */
static inline uint64_t comm_sequence_of(const struct tutti_comm *comm, int rank)
{
    const uint64_t count = board_sequence(comm->board, comm->size, rank);
    return count > comm->unnumbered_calls ? count - comm->unnumbered_calls : 0;
}

/* OK, or INVALID_COMM for what is none of this process's communicators, and for one of the process that this one was forked
 * from; `function` is the public one, without "tutti_". */
static inline enum tutti_status comm_check_handle(const struct tutti_comm *comm,
                                                  const char *function)
{
    if (__builtin_expect(handle_is_known(comm) && !comm_is_foreign(comm), 1)) return TUTTI_OK;
    return handle_error(comm, function);
}

/* program.c */
/* The program of a call, from the cache or new. INVALID_ALGORITHM and UNSUPPORTED are the same on all ranks. Holds
 * the domain. */
enum tutti_status comm_program(struct tutti_comm *comm, const struct call *call,
                               struct program **program);
/* Whether there can be one, without the domain. */
enum tutti_status comm_program_check(const struct tutti_comm *comm, const struct call *call);
/* Who runs or keeps a program holds it; the last one to let go of one that left the cache frees it. */
static inline void comm_program_hold(struct program *program)
{
    program->users++;
}
static inline void comm_program_release(struct program *program)
{
    if (--program->users == 0 && program->is_orphan) program_free(program);
}
void comm_programs_free(struct tutti_comm *comm);

/* call.c */
/* Takes over call->extra, also on failure. */
enum tutti_status comm_call(struct tutti_comm *comm, struct call *call);

/* begin.c, and begin.h for what is inline */
/* Gives the request its slot's links and makes it ready to run; domain held. Then it is to be recorded. */
enum tutti_status comm_begin(struct tutti_comm *comm, struct tutti_request *request);
/* A communicator of one: input becomes output. */
void comm_call_alone(struct tutti_comm *comm, const struct call *call);

/* request.c */
/* A prepared request that knows its communicator, and that the communicator knows. NULL when out of memory. */
struct tutti_prepared *comm_make_prepared(struct tutti_comm *comm);
/* Of a communicator that is freed: requests that somebody will still wait for outlive it. */
void comm_requests_free(struct tutti_comm *comm);
/* Puts a request back where it came from; any thread. */
void comm_give_back(struct tutti_request *request);
/* Takes one, or NULL; one thread at a time. */
struct tutti_request *comm_take_free(struct tutti_request *_Atomic *free_requests);
/* A new request among all of the communicator's, to be given back to those; NULL when out of memory. */
struct tutti_request *comm_make_request(struct tutti_comm *comm,
                                        struct tutti_request *_Atomic *home);
/* The end of a line, any thread; and its beginning, or NULL, with the domain held: it counts until the caller, who
 * has begun it, takes it off the count. */
void comm_line_up(struct tutti_comm *comm, struct request_line *line, struct tutti_request *request);
struct tutti_request *comm_line_first(struct tutti_comm *comm, struct request_line *line);
/* Makes it ready for another run. */
void comm_reset_request(struct tutti_comm *comm, struct tutti_request *request);
/* Says how it ended, for its waiter. */
void comm_finish_request(struct tutti_request *request, enum tutti_status status);
/* Adds one to the counter of a descriptor that tutti_notify was given. */
void comm_tell_event(int event_fd);
/* "recv(count 3, float32, from rank 2, tag 7)" */
void comm_message_describe(const struct tutti_request *request, char *text, size_t text_bytes);

/* progress.c */
/* One pass over everything that was started; domain held. True when something moved. */
bool comm_progress(struct tutti_comm *comm);
/* Starts a request with the domain held: at once, if nothing is before it. */
enum tutti_status comm_start_held(struct tutti_comm *comm, struct tutti_request *request);
/* Numbers a started call, which is made now: by one thread at a time. */
void comm_count_started(struct tutti_comm *comm, struct tutti_request *request);
/* Finds its program, unless it has one (is prepared), and holds that; domain held. */
enum tutti_status comm_find_program(struct tutti_comm *comm, struct tutti_request *request);
/* Whether anything was started that is not done. */
static inline bool comm_has_requests(struct tutti_comm *comm)
{
    return atomic_load_explicit(&comm->outstanding, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&comm->queue.count, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&comm->message_count, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&comm->message_queue.count, memory_order_relaxed) > 0;
}
/* Whether somebody has to move it: for that, or for what is done and not sent yet. */
static inline bool comm_is_busy(struct tutti_comm *comm)
{
    return comm_has_requests(comm) || atomic_load_explicit(&comm->has_output, memory_order_relaxed);
}
/* Makes sure that the progress thread knows this communicator; any thread. */
enum tutti_status comm_ensure_progress(struct tutti_comm *comm);

/* start.c: takes over call->extra, also on failure. */
/* is_grouped: nothing moves it but this thread, which will wait for it, see group.c. */
enum tutti_status comm_call_start(struct tutti_comm *comm, struct call *call, bool is_grouped,
                                  struct tutti_request **request);
enum tutti_status comm_call_prepare(struct tutti_comm *comm, struct call *call,
                                    struct tutti_prepared **prepared);
/* Starts a prepared request of either kind. */
enum tutti_status comm_start_request(struct tutti_comm *comm, struct tutti_request *request);

/* wait.c */
/* The end of a request that is done, for its waiter: its status and text; *request is NULL then. */
enum tutti_status comm_collect(struct tutti_request **request);

/* message_call.c */
enum tutti_status comm_message_call(struct tutti_comm *comm, const struct message_call *call);
/* is_grouped: as for comm_call_start. */
enum tutti_status comm_message_start(struct tutti_comm *comm, const struct message_call *call,
                                     bool is_grouped, struct tutti_request **request);
enum tutti_status comm_message_prepare(struct tutti_comm *comm, const struct message_call *call,
                                       struct tutti_prepared **prepared);

/* message.c */
/* Starts a request whose message_call is set; any thread. What fails later is the request's status. */
enum tutti_status comm_message_begin(struct tutti_comm *comm, struct tutti_request *request);
/* The same with the domain held, behind those that lined up before; and without it: in line, for whoever has it. */
enum tutti_status comm_message_begin_held(struct tutti_comm *comm, struct tutti_request *request);
void comm_message_line_up(struct tutti_comm *comm, struct tutti_request *request);
/* A free request for a message; NULL when out of memory. */
struct tutti_request *comm_message_request(struct tutti_comm *comm, bool has_domain);
/* Takes a receive back, see tutti_cancel; domain held. IN_PROGRESS: it cannot be any more. */
enum tutti_status comm_message_take_back(struct tutti_comm *comm, struct tutti_request *receive);
/* Moves messages; domain held. True when something moved. */
bool comm_messages_progress(struct tutti_comm *comm);
/* Looks for reasons, but for deaths, why a message does not move; domain held. True when that changed the list of
 * messages. */
bool comm_message_look(struct tutti_comm *comm, struct tutti_request *request, uint64_t now_ns);
void comm_messages_free(struct tutti_comm *comm);

/* group.c */
/* How many groups of this thread are open: a word that every call reads, so it has a place of its own. */
extern _Thread_local unsigned comm_group_depth __attribute__((tls_model("initial-exec")));
/* Whether this thread's calls are to be started, and one that was. */
static inline bool comm_group_is_open(void)
{
    return __builtin_expect(comm_group_depth > 0, 0);
}
enum tutti_status comm_group_add(struct tutti_request *request);

/* How many looks a full link is worth: a look is a spin, or a turn of everybody else on this core. */
static inline uint32_t comm_patience(const struct tutti_comm *comm)
{
    return comm->oversubscribed ? 8 : 128;
}

/* network.c: only for a communicator that has one; the domain is held, if others may move it. */
/* On failure comm_network_free gives back what there is. addresses: of the ranks' doors. */
enum tutti_status comm_network_create(struct tutti_comm *comm, const struct net_address *addresses);
/* Blocks until the ranks of all hosts have come this far, `look` objects (create.h), or the deadline. */
enum tutti_status comm_network_join(struct tutti_comm *comm,
                                    enum tutti_status (*look)(void *context), void *look_context,
                                    uint64_t deadline_ns);
bool comm_network_progress(struct tutti_comm *comm);
/* Before a rank is blamed for what it did not send: over TCP, what it sent may lie in sockets. A rank that goes on sending cannot keep
 * this one here. Also without a network. */
void comm_network_read_all(struct tutti_comm *comm);
/* Whether connections are wanted that are not there. */
bool comm_network_is_joining(const struct tutti_comm *comm);
/* Before the domain is given back: leaves data that was not sent yet, also of operations that are over, to the progress thread. The first
 * only notes it, for that thread itself; the second also tells the thread. */
void comm_network_note_rest(struct tutti_comm *comm);
void comm_network_leave_rest(struct tutti_comm *comm);
/* After a failure: memory that was posted or is expected is not touched any more. */
void comm_network_stop(struct tutti_comm *comm);
/* Until the others have what was sent to them and know that this rank leaves, or the deadline. */
void comm_network_finish(struct tutti_comm *comm);
void comm_network_free(struct tutti_comm *comm);
/* Adds what it holds. */
void comm_network_footprint(const struct tutti_comm *comm, struct tutti_footprint *sum);

/* far.c: the same; what ranks of other hosts are told and asked, and whether they are there */
/* Asks a rank of another host for its call of that number in a slot, now and then; its answer comes to the far board. */
void comm_network_ask(struct tutti_comm *comm, int rank, int slot, uint64_t begun);
void comm_network_ask_all(struct tutti_comm *comm, int slot, uint64_t begun);
/* Asks how it came to that call, of which this rank knows no more; straggler.c hears the answer. False: not now. */
bool comm_network_ask_after(struct tutti_comm *comm, int rank, int slot, uint64_t begun);
/* What it said last of itself: its latest call, and whether it was in one; and of whom it took to hold that up. */
struct board_finding comm_network_finding(const struct tutti_comm *comm, int rank);
bool comm_network_is_in_call(const struct tutti_comm *comm, int rank);
/* How far it was with its calls when it answered last, and when that was (0: never); false: not known. */
bool comm_network_read_progress(const struct tutti_comm *comm, int rank,
                                struct board_progress *progress);
uint64_t comm_network_progress_heard_ns(const struct tutti_comm *comm, int rank);
bool comm_network_hearsay(const struct tutti_comm *comm, int rank, struct board_finding *finding);
/* Whether a rank that is asked since that time has not answered for a while, but its kernel has. */
bool comm_network_is_stopped(const struct tutti_comm *comm, int rank, uint64_t since_ns,
                             uint64_t now_ns);
/* Whether it is known how far that rank is with it. */
bool comm_network_knows(const struct tutti_comm *comm, int rank, int slot, uint64_t begun);
/* Tells a rank of another host, once, that there are messages for it. */
void comm_network_invite(struct tutti_comm *comm, int rank);
/* A rank of another host whose process is gone, as far as its connections and its door tell; -1. */
int comm_network_find_dead(struct tutti_comm *comm, uint64_t now_ns);
enum { COMM_TROUBLE_MAX = 164 };
/* The end of a message that a rank is missed: why connecting to it fails now, as "; connecting to ADDRESS: ..."; or "" if there is no such
 * trouble. peer -1: to any rank. */
void comm_network_trouble(const struct tutti_comm *comm, int peer, char text[COMM_TROUBLE_MAX]);
/* A rank of which what it sends arrives changed; -1. */
int comm_network_find_corrupt(const struct tutti_comm *comm);
bool comm_network_is_dead(const struct tutti_comm *comm, int rank);
/* When anything came from it last; 0: never. */
uint64_t comm_network_heard_ns(const struct tutti_comm *comm, int rank);
/* Looks at all of them; and whether one of them has died for certain, not only vanished. */
void comm_network_look_at_all(struct tutti_comm *comm, uint64_t now_ns);
bool comm_network_has_died(const struct tutti_comm *comm, int rank);
/* A message of an agreement, to a rank of another host; best effort. */
void comm_network_tell_agreement(struct tutti_comm *comm, int rank, const void *bytes,
                                 size_t byte_count);

/* lock.c */
static inline bool comm_try_lock(struct tutti_comm *comm)
{
    return atomic_load_explicit(&comm->domain, memory_order_relaxed) == 0 &&
           atomic_exchange_explicit(&comm->domain, 1, memory_order_acquire) == 0;
}
/* For a thread that comes back soon, and moves then whatever is left. */
static inline void comm_unlock_for_now(struct tutti_comm *comm)
{
    atomic_store_explicit(&comm->domain, 0, memory_order_release); /* pairs with comm_try_lock */
}
/* For all others: a thread that leaves may not be back before the peers need what it leaves. */
static inline void comm_unlock(struct tutti_comm *comm)
{
    if (__builtin_expect(comm->network != NULL, 0)) comm_network_leave_rest(comm);
    comm_unlock_for_now(comm);
}
/* Until it is this thread's, at most until the deadline of a call. */
enum tutti_status comm_lock(struct tutti_comm *comm, uint64_t timeout_ns);
/* The same for what is still done when the communicator has failed, where comm_lock does not wait. */
enum tutti_status comm_lock_failed(struct tutti_comm *comm, uint64_t timeout_ns);

/* drive.c */
/* Waits, with the domain held, until the request of slot 0 is done; returns its status. */
enum tutti_status comm_drive_blocking(struct tutti_comm *comm, struct tutti_request *request);
/* Waits for a started request, moving everything while nobody else does. */
void comm_drive_started(struct tutti_comm *comm, struct tutti_request *request);
/* One pass for the progress thread, which also looks at deadlines. */
enum progress_result comm_client_progress(struct progress_client *client);

/* failure.c: one failure, the same on all ranks */
/* Publishes a failure of a request with its cause; the first one wins on all ranks. */
void comm_fail(struct tutti_comm *comm, const struct tutti_request *request,
               enum tutti_status status, int culprit, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Reports what is on the board as this thread's error; its status, or OK. */
enum tutti_status comm_check(struct tutti_comm *comm);
/* "rank 3 (host a, pid 71)", or "rank 3 (host a, pid 1 of another PID namespace)" */
void comm_name_rank(const struct tutti_comm *comm, int rank, char *text, size_t text_bytes);

/* diagnose.c */
/* Looks for reasons why a request does not move (deaths, mismatches, the deadline) and fails it. */
void comm_look(struct tutti_comm *comm, struct tutti_request *request, uint64_t now_ns);
/* Only for processes that died; true when the communicator failed of it. */
bool comm_look_for_deaths(struct tutti_comm *comm, const struct tutti_request *request);
/* The same of what arrives changed. */
bool comm_look_for_corruption(struct tutti_comm *comm, const struct tutti_request *request);
/* A message of that peer made no sense for this request: fails it. False: the peer is on another host and is asked first what it
 * means; once more, please. */
bool comm_fault(struct tutti_comm *comm, struct tutti_request *request, int peer);

/* deaths.c */
/* Watches the processes: takes those behind this rank's own as its neighbours. */
enum tutti_status comm_watch_neighbours(struct tutti_comm *comm);
void comm_unwatch(struct tutti_comm *comm);
/* Looks at some of the processes; whether one is known to have ended (has_ended). Any thread. */
bool comm_look_at_processes(struct tutti_comm *comm);
/* Whether a rank's process is gone, with all its threads. Any thread. */
bool comm_is_gone(struct tutti_comm *comm, int rank);
/* Whether two ranks are of one process of this host. */
bool comm_share_process(const struct tutti_comm *comm, int rank, int other);
/* Whether a rank is of this host, and its process is in another PID namespace: its pid means nothing here. */
bool comm_is_hidden(const struct tutti_comm *comm, int rank);
/* Whether a rank of this host is gone because its process went on as another program. */
bool comm_has_executed(const struct tutti_comm *comm, int rank);
/* Whether a rank of this host is known to be stopped, by a signal or a debugger. */
bool comm_is_stopped(const struct tutti_comm *comm, int rank);

/* quiesce.c */
/* After a failure: until no peer can still be reading or writing this rank's memory, or for as long as that may
 * reasonably take. */
void comm_quiesce(struct tutti_comm *comm, const struct tutti_request *request);
/* Between saying on the board that a call begins and the look whether the communicator has failed. Whoever fails has its fence
 * (comm_quiesce) between saying so and its look at who is in a call: so one of the two sees the other. */
static inline void comm_publish(const struct tutti_comm *comm)
{
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(comm->publishers_fence, 0)) fence_this_thread();
}

/* report.c */
/* Whether a rank is known not to have called it: of one on another host, only what it has answered is. */
bool comm_has_not_begun(const struct tutti_comm *comm, const struct tutti_request *request,
                        int rank);
/* Looks, now and then, whom a call waits for that has waited long, and says so once. */
void comm_report(struct tutti_comm *comm, struct tutti_request *request, uint64_t now_ns);
/* At every look at a call, whatever it waits for: that this rank runs. */
void comm_report_presence(struct tutti_comm *comm, uint64_t now_ns);
/* The call is over: what was said of it, if anything, is no more; NULL: of whichever. Only while comm->report.is_open. */
void comm_end_report(struct tutti_comm *comm, const struct tutti_request *request);

#endif
