/* tutti-run_keeper.h - the process that owns the ranks.
 *
 *     shell ── tutti-run (front) ──orders──> keeper ──┬── rank 0 ── ...
 *              terminal, signals, stdin               ├── rank 1 ── ...
 *                                                     └── rank 2 ── ...
 *
 * Two processes, so that either may be killed with SIGKILL and nothing is left behind: the keeper sees the
 * front's end at the orders pipe, the front sees the keeper's as its child, and both adopt orphans. Ranks
 * are killed by the kernel when the keeper dies (PR_SET_PDEATHSIG).
 *
 *     RUNNING ──a rank fails──> GRACE ──time is up──> TERMINATING (SIGTERM) ──2 s──> KILLING (SIGKILL)
 *        │ all ranks ended        │                        │                            │
 *        └────────────────────────┴────────────────────────┴────────────────────────────┘
 *                                        v
 *                LINGERING: what ranks left behind may finish writing ── 200 ms ──> FLUSHING
 *
 * An order is one byte: the number of a signal that the user sent.
 */
#ifndef TUTTI_RUN_KEEPER_H
#define TUTTI_RUN_KEEPER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum run_exit {
    RUN_TIMED_OUT = 124,
    RUN_FAILED = 125, /* tutti-run itself */
    RUN_CANNOT_EXEC = 126,
    RUN_NOT_FOUND = 127,
    RUN_SIGNALLED = 128 /* plus the signal's number */
};

struct run_options {
    int rank_count;
    bool prefix;
    bool pin;
    const char *output_folder; /* or NULL */
    uint64_t grace_ns;
    uint64_t timeout_ns; /* 0: none */
    int master_port;
    char job_id[33];
    const char *program;     /* with a slash in it */
    char **arguments;        /* of the program, its name first, NULL last */
    int stdin_fd;            /* for rank 0 */
    sigset_t signals_before; /* the mask that ranks get */
};

/* Starts the ranks, stays until they and everything below them have gone, and returns the exit code. Expects
 * a process of its own with all signals blocked. Takes over both descriptors; orders_fd is the reading end. */
int keeper_run(const struct run_options *options, int orders_fd);

#endif
