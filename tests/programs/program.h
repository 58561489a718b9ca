/* program.h - a program for all ranks of a job, to be run and judged: calls, messages,
 * communicators and events between them.
 *
 * A program follows from its seed, and has a text that can be read back, edited and replayed. All
 * ranks do the steps in order; a rank that is not in the communicator of a step leaves it out. A
 * value that a step does not give is 0:
 *
 *     seed 17 job ranks 4 over tcp hosts 1 integrity network encryption 1 dup comm 1 parent 0 call
 *     comm 1 collective allreduce shape list form started dtype float32 op sum count 1000 salt 17
 *     message comm 0 pattern ring form blocking rank 1 number 2 count 10 salt 4 wait comm -1
 *
 * Invariants of a program that was drawn or read (program_is_valid):
 *  1. The communicator of a step, and the parent of a communicator that a step makes, is there; 0
 *     is the world, and is never freed.
 *  2. begin and end, parallel and join are balanced. Within parallel, where each communicator has a
 *     thread, there are only calls, messages, waits and groups, each on a communicator; within
 *     begin only calls and messages that begin there.
 *  3. A rank that is killed is gone for good; a shrink follows, and until then no communicators are
 *     made and nobody has a child.
 *  4. Behind messages that nobody receives there are no others on their communicator.
 *
 * Pure: any thread, no clock, no I/O.
 */
#ifndef TUTTI_TESTS_PROGRAMS_PROGRAM_H
#define TUTTI_TESTS_PROGRAMS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "base/op.h"
#include "tests/kit/form.h"
#include "tests/kit/spread.h"
#include "tutti/sparse.h"
#include "tutti/tutti.h"

enum {
    PROGRAM_RANKS_MAX = 8,
    PROGRAM_STEPS_MAX = 80,
    PROGRAM_COMMS_MAX = 6,
    PROGRAM_HANDLES_MAX = 8
};
enum { PROGRAM_TEXT_BYTES = 32768, PROGRAM_LINE_BYTES = 400 }; /* for any program, any step */
enum { PROGRAM_ALL = -1 };

enum program_verb {
    PROGRAM_CALL,
    PROGRAM_MESSAGE,
    PROGRAM_AGAIN,   /* starts the call that was prepared under `handle` once more */
    PROGRAM_WAIT,    /* waits for the calls started on comm, or PROGRAM_ALL; salt chooses how */
    PROGRAM_COMPUTE, /* `rank`, or every rank, does not call the library for `number` ms */
    PROGRAM_DUP,     /* makes comm, of parent */
    PROGRAM_SPLIT,   /* into `number` parts; with some salts, part 1 gets no communicator */
    PROGRAM_GROUP,   /* all but each rank of `number` */
    PROGRAM_MESH,    /* one of the two axes of a mesh that is `number` wide */
    PROGRAM_FREE,
    PROGRAM_BEGIN,
    PROGRAM_END,
    PROGRAM_PARALLEL,
    PROGRAM_JOIN,
    PROGRAM_KILL,   /* `rank`, of the first world */
    PROGRAM_SHRINK, /* all communicators but a new world are gone */
    PROGRAM_FORK,   /* `rank`, or every rank, has a child; salt chooses what the child does */
    PROGRAM_SPARSE, /* a sum of sparse rows, or rows to and from their owners (program_sparse.h) */
    PROGRAM_VERB_COUNT
};

enum program_style { PROGRAM_EVEN, PROGRAM_SKEWED, PROGRAM_ZEROS, PROGRAM_FEW }; /* of counts */
enum program_pattern {
    PROGRAM_RING,      /* `number` messages, with tags, to the rank `rank` places on */
    PROGRAM_ANY_RANK,  /* one message of each rank to `rank`, which receives from any rank */
    PROGRAM_TRUNCATED, /* one message along a ring, larger than its receiver takes */
    PROGRAM_CANCELLED, /* a receive that nobody sends to */
    PROGRAM_UNAWAITED /* `number` small messages that nobody receives: the last ones on their communicator */
};
enum {
    PROGRAM_PUSH = TUTTI_SPARSE_DENSE + 1,
    PROGRAM_PULL,
    PROGRAM_WAYS
};                                          /* behind the ways of a sum */
enum { PROGRAM_OP_COMMUTATIVE = OP_COUNT }; /* the user's exclusive or, of integers */

struct random_step {
    int verb, comm, parent;
    int rank, number; /* rank: the root, or as the verb says; modulo the size */
    int form,
        shape; /* enum form, without GROUPED, which BLOCKING becomes between begin and end; enum call_shape */
    int collective, dtype, op, count, style, pattern;
    int memory, shift, in_place; /* enum spread_memory */
    int algorithm, radix;        /* 1 + the algorithm's place in the list; used if it fits */
    int own;                     /* 1: by that algorithm's plan, read from a file */
    int deterministic, priority;
    int starved; /* 1 + the place in the parent of a rank that has hardly any descriptors left while it makes the communicator */
    int handle;  /* of a prepared call */
    int encoding, links,
        required; /* that a call or message asks for: enum tutti_encoding, enum encoded_links; 0: it asks for none */
    int way; /* of a sparse call: enum tutti_sparse_way, PROGRAM_PUSH or PROGRAM_PULL */
    int salt;
};

enum program_over { PROGRAM_OVER_MEMORY, PROGRAM_OVER_THREADS, PROGRAM_OVER_TCP };

struct random_program {
    uint64_t seed;
    int rank_count;
    int over;       /* enum program_over */
    int hosts;      /* that ranks take themselves to be on, in turns */
    int integrity;  /* enum tutti_integrity */
    int encryption; /* 1: on */
    int stops;      /* 1: ranks are stopped now and then */
    int step_count;
    struct random_step steps[PROGRAM_STEPS_MAX];
};

/* Kinds of jobs by name: "memory", "threads", "tcp", "hosts", "encrypted", "checked". X(name, over,
 * hosts, integrity, encryption) */
#define PROGRAM_JOB_LIST(X)                                                  \
    X("memory", PROGRAM_OVER_MEMORY, 1, TUTTI_INTEGRITY_OFF, 0)              \
    X("threads", PROGRAM_OVER_THREADS, 1, TUTTI_INTEGRITY_OFF, 0)            \
    X("tcp", PROGRAM_OVER_TCP, 1, TUTTI_INTEGRITY_OFF, 0)                    \
    X("hosts", PROGRAM_OVER_MEMORY, 2, TUTTI_INTEGRITY_OFF, 0)               \
    X("encrypted", PROGRAM_OVER_TCP, 1, TUTTI_INTEGRITY_OFF, 1)              \
    X("encrypted-hosts", PROGRAM_OVER_MEMORY, 3, TUTTI_INTEGRITY_NETWORK, 1) \
    X("checked", PROGRAM_OVER_MEMORY, 1, TUTTI_INTEGRITY_ON, 0)              \
    X("checked-tcp", PROGRAM_OVER_TCP, 1, TUTTI_INTEGRITY_NETWORK, 0)        \
    X("checked-hosts", PROGRAM_OVER_MEMORY, 3, TUTTI_INTEGRITY_ON, 0)

/* NULL behind the last one. */
const char *program_job_name(int job);
/* Draws a program for a job of that kind; rank_count 0: the seed decides. */
void program_draw(struct random_program *program, uint64_t seed, int job, int rank_count);
bool program_is_valid(const struct random_program *program);

/* Into text[PROGRAM_TEXT_BYTES], line[PROGRAM_LINE_BYTES]. */
void program_print(const struct random_program *program, char *text);
void program_print_step(const struct random_step *step, char *line);
/* False if the text is not that of a valid program; *line is the number of the wrong line, or 0 if
 * the program as a whole is wrong. */
bool program_parse(struct random_program *program, const char *text, int *line);

/* Whether the results of a step may be rounded. */
static inline bool program_encodes(const struct random_step *step)
{
    return step->encoding != 0;
}

/* Whether a step makes a communicator. */
static inline bool program_makes(const struct random_step *step)
{
    return step->verb >= PROGRAM_DUP && step->verb <= PROGRAM_MESH;
}

#endif
