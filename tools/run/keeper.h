/* keeper.h - the process that owns the ranks of one host.
 *
 *     shell ── tutti-run (front) ──orders──> keeper ──┬── rank 0 ── ...
 *              terminal, signals, stdin               ├── rank 1 ── ...
 *                                                     └── rank 2 ── ...
 *
 * There are two processes, so that either may be killed with SIGKILL and nothing is left behind:
 * the keeper sees the front's end at the orders pipe, the front sees the keeper's end as its parent
 * does, and both adopt orphans. The kernel kills the ranks when the keeper dies (PR_SET_PDEATHSIG).
 *
 * In a job on several hosts, each host has such a pair. The conductor (conductor.h) takes
 * the place that the keeper has here, and gives the orders to the fronts.
 *
 *     RUNNING ──a rank fails──> GRACE ──time is up──> TERMINATING (SIGTERM) ──2 s──> KILLING (SIGKILL)
 *        │ all ranks ended        │                        │                            │
 *        └────────────────────────┴────────────────────────┴────────────────────────────┘
 *                                        v
 *                LINGERING: what ranks left behind may finish writing ── 200 ms ──> FLUSHING
 *
 * In an elastic job a rank that fails is started again, as a process that joins (elastic.h). GRACE
 * begins with the first rank that ends well, or if too few ranks are left. On several hosts the
 * conductor counts the ranks that are left, and the ranks find each other in a directory of their
 * host, whose address the conductor carries from host to host.
 *
 * An order is one byte (orders.h).
 */
#ifndef TUTTI_TOOLS_RUN_KEEPER_H
#define TUTTI_TOOLS_RUN_KEEPER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Of a job, and of one host: the memory that the ranks of a host share grows with the square of
 * their number, and above this neither it nor the descriptors of tutti-run are sure to be there. */
enum { RANKS_MAX = 1 << 16, HOST_RANKS_MAX = 1 << 10, RESTARTS_MAX = 1000000 };

enum run_exit {
    RUN_WRONG_USE = 2,
    RUN_TIMED_OUT = 124,
    RUN_FAILED = 125, /* tutti-run itself */
    RUN_CANNOT_EXEC = 126,
    RUN_NOT_FOUND = 127,
    RUN_SIGNALLED = 128 /* plus the signal's number */
};

/* The part of a job that is on one host. */
struct run_options {
    int size;         /* ranks of the job */
    int rank_count;   /* ranks on this host, spares included */
    int spare_count;  /* the last of them: they join when a rank has died */
    int elastic_min;  /* with fewer ranks left the job ends; 0: when the first rank dies */
    int restart_max;  /* of each rank of an elastic job */
    bool joins;       /* the ranks join a team that runs: their host was lost, or is a spare */
    const int *ranks; /* their numbers, ascending */
    int node_index, node_count;
    const char *host;  /* its name in messages; "" if there is only one host */
    const char *token; /* of reports, see message.h; "": none are wanted */
    bool prefix;
    bool pin;
    bool colours[2];           /* of prefixes, on stdout and stderr */
    const char *output_folder; /* "": none */
    uint64_t grace_ns;
    uint64_t timeout_ns;       /* 0: none */
    uint64_t start_timeout_ns; /* for all ranks to be running; UINT64_MAX: none */
    const char *master_address;
    int master_port;
    const char *job_id;
    const char *program;     /* with a slash in it */
    char **arguments;        /* of the program, its name first, NULL last */
    int stdin_fd;            /* for rank 0 */
    sigset_t signals_before; /* the mask that ranks get */
};

/* Starts the ranks, stays until they and everything below them have gone, and returns the exit
 * code. Must run in a process of its own, with all signals blocked. Takes over both descriptors;
 * orders_fd is the reading end. */
int keeper_run(const struct run_options *options, int orders_fd);

#endif
