/* launcher.h - which launcher started this process, and as which rank of how many: read from the
 * environment, by a table.
 *
 *  1. A place is taken only from variables of one launcher. If launchers are nested, the inner one
 *     wins, as far as the environment can tell (the order of the table in launcher.c).
 *  2. Variables that contradict each other are refused, and the message names them and says what to
 *     do. The number of a Kubernetes pod is the rank of a process only where something says that a
 *     pod has one process; the shell of a batch job is no rank.
 *  3. No other process is asked. Only the environment is read, and which process made one
 *     descriptor (see run_id).
 */
#ifndef TUTTI_BOOTSTRAP_LAUNCHER_H
#define TUTTI_BOOTSTRAP_LAUNCHER_H

#include <stdbool.h>

#include "bootstrap/rendezvous.h"
#include "tutti/tutti.h"

/* Through which service of the launcher the ranks can exchange keys; exchange.h does it. */
enum launcher_service { LAUNCHER_SERVICE_NONE, LAUNCHER_SERVICE_PMI1, LAUNCHER_SERVICE_PMIX };

struct launcher_facts {
    const char *launcher; /* static */
    int rank, size;
    int local_rank, local_size; /* among the ranks of this host; -1: not said */
    int node_index, node_count; /* -1: not said */
    /* MASTER_ADDR and MASTER_PORT, if both are there and make sense; else "" and 0. Only a
     * proposal: nobody has looked whether anything listens there, or can. With torchrun it is the
     * next port: MASTER_PORT is for the store of its agent or of torch.distributed, to which our
     * hellos would be noise. */
    char master_address[256];
    int master_port;
    /* The job's name: the same text for all ranks of a job, as far as possible another one for
     * every other job. No secret. Hydra (MPICH, Intel MPI) gives its jobs no name in the
     * environment: where all of its ranks are on one host, the process id of the manager at the
     * other end of PMI_FD tells two of them apart; on several hosts TUTTI_JOB_ID has to. */
    char run_id[160];
    enum launcher_service service;
    struct rendezvous_key key; /* the same for all ranks of the job, another one for each call in a process */
};

/* Fills *facts. INVALID_OPTIONS when no launcher is recognised or its variables make no sense; the
 * message names the variables. Does not block. Reads the environment: not while another thread
 * changes it. */
enum tutti_status launcher_detect(struct launcher_facts *facts);
/* The same for a caller that only looks: it gets no key, which stays there for the next call of
 * launcher_detect. */
enum tutti_status launcher_look(struct launcher_facts *facts);
/* Whether ranks may be on other hosts, as far as what started them says; a place without a launcher
 * (NULL) is nobody's. */
bool launcher_may_span_hosts(const struct launcher_facts *facts);

#endif
