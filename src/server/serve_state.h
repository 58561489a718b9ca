/* serve_state.h - the members of a server, for the files that make it up:
 *
 *     serve.c            its thread: sleeps, looks after lines, starts and ends
 *       serve_request.c  what a request does
 *         serve_step.c   clocks and steps; what the loss of a worker or server changes
 *           serve_fill.c   spare seats: what one begins with, and how a share is copied to it
 *           serve_join.c   workers that come later
 *           serve_change.c   another mode, which all workers ask for
 *             serve_answer.c   answers that were waited for
 *             serve_tell.c     what other seats are told
 */
#ifndef TUTTI_SERVER_SERVE_STATE_H
#define TUTTI_SERVER_SERVE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "membership/seat_fill.h"
#include "membership/seat_map.h"
#include "membership/step_leader.h"
#include "server/line.h"
#include "server/serve.h"
#include "server/table_copy.h"
#include "server/update.h"

/* AWAITED: a place for a worker that comes later; this seat has no line to it yet. */
enum serve_presence { SERVE_THERE, SERVE_LEFT, SERVE_LOST, SERVE_AWAITED };

struct serve_worker {
    struct line line;
    enum serve_presence presence;
    uint64_t sequence;             /* of its last request */
    struct server_request request; /* that is being read */
    struct server_request_part parts[TUTTI_SERVER_PARTS];
    struct update open, ended;
    bool has_ended;   /* `ended` waits for its step */
    uint64_t ticked;  /* clocks whose end this server has heard of */
    uint64_t decided; /* clocks that are in steps here */
    bool awaits_tick; /* a seat with a clock: the worker waits for an answer */
    bool asks;        /* and this is to its question for another mode, in that round */
    bool asks_late;   /* which was over when it asked */
    uint64_t asks_until_ns; /* another seat: it waits for the answer of one with a clock; 0: it does not */
    uint64_t asks_round;
    uint32_t tick_slot;
    uint64_t tick_deadline_ns, tick_number;
    uint64_t queued_bytes; /* of pulls that wait */
    uint32_t queued_count;
    bool is_held; /* a tick that came before the step of the last one; an early wish; or any request of a
                          worker that is not in yet */
    bool is_in; /* it was there at the start, or an entry says that it has come */
    uint64_t first_clock,
        first_round;   /* then: the clock, and the round of changes, in which it came */
    bool is_invited;   /* to push to this spare */
    uint64_t begun;    /* 1 + the clock from which it does; 0: not yet */
    bool leaves;       /* and is gone once its answer is sent */
    bool is_told;      /* in answers why it is gone: it ends the connection itself */
    char *why_told;    /* NULL: no memory */
    int ended_count;   /* messages since then */
    uint64_t heard_ns; /* when it last said something, or was last waiting for this server */
    bool has_failed;   /* an answer could not be sent */
};

/* A pull that waits. */
struct serve_pull {
    struct serve_pull *next;
    int worker;
    uint64_t deadline_ns;
    struct server_request request;
    struct server_request_part *parts;
    int64_t *rows; /* of all parts, one after the other */
};

/* A worker that comes, as the application's thread hands it over. */
struct serve_newcomer {
    struct serve_newcomer *next;
    int worker;
    struct tutti_comm *comm; /* NULL: it does not come */
};

/* Another seat. */
struct serve_peer {
    struct line line;
    bool is_over;    /* all its workers are gone, or it is gone itself; or there is no line */
    bool is_silent;  /* it says nothing more: all workers are gone, everywhere */
    bool is_held;    /* what its line has taken must wait */
    bool has_failed; /* a message could not be sent */
};

enum { SERVE_RECORDS = 512 };

struct serve_record {
    uint64_t number;
    uint32_t left_count, member_count;
};

struct serve {
    struct serve_config config;
    uint64_t *firsts; /* of dense shares */
    struct serve_worker *workers;
    struct serve_peer *peers; /* by seat; a seat without a clock has lines to the two that have one */
    int peer_count;
    struct serve_pull *pulls;  /* in the order of their priorities, then as they came */
    int share;                 /* that it has; -1: none yet */
    bool has_all;              /* of it */
    struct seat_map map;       /* behind the entries that it has carried out */
    int said_alone;            /* parts that stay on one server, as the log knows */
    struct step_leader leader; /* of a seat with a clock */
    bool has_leader;
    bool acts;             /* does what that wants */
    uint64_t heard;        /* entries that this seat has carried out */
    struct seat_fill fill; /* of a spare, while its share is copied to it */
    struct tables_loaded loaded;
    struct serve_copying {
        int to; /* the spare that gets a copy of this seat's share; -1: none */
        struct tables_copy copy;
        uint64_t named; /* the entry in the last piece */
        void *bytes;
        size_t capacity;
    } copying;
    struct serve_record *records; /* of a seat with a clock: ring */
    uint64_t *record_members;
    uint64_t *members; /* of a step, while it is applied */
    struct update **updates;
    struct block_pool payloads; /* of requests, updates and answers */
    struct closings closings;   /* of lines that have ended */
    uint64_t steps;
    enum tutti_status broken; /* not OK: a share is lost, or a step could not be applied */
    char why[256];
    bool has_said_over; /* to the leader: all workers are gone here; the leader: that they are everywhere */
    bool has_told_over, is_told_over;
    uint64_t farewell_ns; /* until then it waits for other seats to say so, too */
    struct tutti_server_counters seen;

    uint32_t generation; /* of the process that has the thread */
    int event_fd;
    pthread_t thread;
    atomic_bool stops;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool is_over;
    bool *has_line; /* to each other seat */
    int silent; /* the worker that has been silent for the longest time; -1: none that is there */
    uint64_t silent_since_ns;
    enum tutti_status result;
    struct tutti_server_counters counters;
    struct serve_save {
        char *folder;             /* NULL: nothing is to be saved */
        uint64_t done;            /* how often that came to an end */
        enum tutti_status status; /* of the last time, and its message */
        char why[256];
    } save;
    struct serve_newcomer *newcomers;
};

static inline struct server_ends serve_ends(const struct serve *serve, bool is_from_server)
{
    return (struct server_ends){serve->config.division, serve->config.seat, serve->share,
                                is_from_server};
}

/* Whether it decides steps, or may come to. */
static inline bool serve_has_clock(const struct serve *serve)
{
    return serve->has_leader && seat_map_has_clock(&serve->map, serve->config.seat);
}

/* ------------------------------------------------------------------------------------ serve_tell.c */

/* Another seat; all; the others that have a clock. A failure shows when the line is looked after. */
void serve_tell(struct serve *serve, int peer, const struct server_request *request,
                const void *payload);
void serve_tell_all(struct serve *serve, const struct server_request *request);
void serve_tell_clocks(struct serve *serve, const struct server_request *request);
void serve_tell_entry(struct serve *serve, int peer, const struct step_entry *entry);
/* Tells a seat with a clock (-1: all, this one, too) that this seat has a line to a worker that is not in yet. */
void serve_tell_linked(struct serve *serve, int worker, int clock);

/* ---------------------------------------------------------------------------------- serve_answer.c */

enum tutti_status serve_answer(struct serve *serve, int worker, uint32_t slot,
                               const struct server_reply *reply, struct block *block);
/* With this thread's message. */
enum tutti_status serve_answer_failure(struct serve *serve, int worker, uint32_t slot,
                                       enum tutti_status status, const char *text);
/* To a worker that was told why it is gone: the request that its line has taken fails, too. */
enum tutti_status serve_answer_again(struct serve *serve, int worker);
/* A pull of which the worker's line has the payload. */
enum tutti_status serve_take_pull(struct serve *serve, int worker);
/* Ends what has been sent, so that a step does not take it for being read. */
void serve_reap(struct serve *serve);
/* Whether the worker's answers on their way leave room for another one. */
bool serve_has_room(const struct serve *serve, int worker);
/* Answers pulls that need not, or must not wait any longer. Whether there were any. */
bool serve_answer_pulls(struct serve *serve, uint64_t now_ns);
void serve_drop_pulls(struct serve *serve, int worker);
enum tutti_status serve_answer_record(struct serve *serve, int worker,
                                      const struct server_request *request);
/* A seat with a clock: of a worker's tick that a step has; of ticks that are late, if any; of all, when
 * broken. */
void serve_answer_tick(struct serve *serve, int worker);
void serve_answer_tick_failure(struct serve *serve, int worker, enum tutti_status status,
                               const char *text);
bool serve_answer_late_ticks(struct serve *serve, uint64_t now_ns);
void serve_answer_broken(struct serve *serve);
/* When a request of that timeout (0: none), which has just come, is late. */
uint64_t serve_deadline_of(const struct server_request *request);
/* The next deadline of a tick or pull. */
uint64_t serve_next_deadline(const struct serve *serve);

/* ---------------------------------------------------------------------------------- serve_change.c */

/* A worker asks for another mode; it waits for an answer of the seats with a clock. */
enum tutti_status serve_take_change(struct serve *serve, int worker);
/* A seat with a clock: a round of these questions is over; answers. */
void serve_end_round(struct serve *serve, const struct step_entry *entry);

/* ------------------------------------------------------------------------------------ serve_fill.c */

/* Gives a spare what it begins with. */
void serve_give_base(struct serve *serve, int seat);
/* Takes it: makes room for the share, and asks workers to push to this seat. A failure: of no use. */
enum tutti_status serve_take_base(struct serve *serve, int peer, const uint64_t *words);
/* A worker pushes here from that clock on. */
enum tutti_status serve_take_begin(struct serve *serve, int worker);
/* Copies this seat's share to a spare from here on. */
enum tutti_status serve_copy_begin(struct serve *serve, int seat);
/* Sends the next piece, if its line has room, or names the entry behind which this seat is. Whether it has
 * sent any of the share. */
bool serve_copy_on(struct serve *serve);
/* A piece, behind its entry. */
enum tutti_status serve_take_piece(struct serve *serve, const struct server_request *request,
                                   const void *bytes);

/* Asks a worker to push to this spare. */
void serve_invite(struct serve *serve, int worker);

/* ------------------------------------------------------------------------------------ serve_join.c */

/* Takes what the application's thread has handed over. Whether there was anything. */
bool serve_take_newcomers(struct serve *serve);
/* Nobody takes it any more. why: NULL in a child of fork(), which has no part in it. */
void serve_drop_newcomers(struct serve *serve, const char *why);
/* An entry says that a worker is in. */
void serve_let_in(struct serve *serve, const struct step_entry *entry);
/* A worker that is in asks where it is to push. */
enum tutti_status serve_answer_enter(struct serve *serve, int worker);

/* ------------------------------------------------------------------------------------ serve_step.c */

/* Does what the clock of this seat wants. The outermost call sees to what that changes. */
void serve_act(struct serve *serve);
/* That seat is gone, and this one is of no use without it. */
void serve_stop_without(struct serve *serve, int seat);
/* A worker's update is complete here. */
void serve_end_clock(struct serve *serve, int worker);
/* News from another seat. */
enum tutti_status serve_hear_seat(struct serve *serve, int peer,
                                  const struct server_request *request, const void *payload);
/* Workers that are in, and that this seat has not lost. */
int serve_left_here(const struct serve *serve);
/* A worker is gone, or does not come: closes its line. why: NULL if it left. */
void serve_lose_worker(struct serve *serve, int worker, const char *why);
void serve_lose_peer(struct serve *serve, int peer, const char *why);
/* Tells the other seats when all workers are gone, and whether all know. */
bool serve_is_over(struct serve *serve);

/* --------------------------------------------------------------------------------- serve_request.c */

/* The message that a line has taken. A failure ends the line. */
enum tutti_status serve_hear_worker(struct serve *serve, int worker);
/* Listens again, where that had to wait. */
enum tutti_status serve_go_on(struct serve *serve, int worker);
enum tutti_status serve_hear_peer(struct serve *serve, int peer);

#endif
