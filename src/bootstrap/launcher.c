/* launcher.c - the table of launchers.
 *
 * One row a launcher: the variables that it sets for each process, and one function that looks for
 * what does not fit. Rows are tried from top to bottom; the first that applies decides, also when
 * it then refuses. The order is that of nesting, the inner launcher first, because variables of the
 * outer one are inherited:
 *
 *   tutti-run        first: its variables can be set by hand to overrule everything below
 *   torchrun         is started by the others, once a node or pod, and starts processes itself
 *   Open MPI, MPICH  mpirun runs inside Slurm, Flux and Kubernetes (MPIJob) and starts processes there
 *   PyTorchJob, environment   RANK and WORLD_SIZE, by hand or for a pod: below those that a pod may start, above the
 *                    schedulers, in whose scripts people set them
 *   Flux, Slurm, PMI Slurm may hold Flux. Both may speak PMI, with the same ranks as in their own
 *   variables, which
 *                    say more
 *   Indexed Job      last: the number of a pod is there whatever runs in it
 *
 * Which one is the inner one cannot be told from the environment where two of one line are nested
 * (mpirun in mpirun), or mpirun in tutti-run; tutti-run against torchrun can, and a difference is
 * refused.
 *
 * These variables are not read: OMPI_COMM_WORLD_NODE_RANK (a rank within the node, not the node's
 * number); I_MPI_HYDRA_BOOTSTRAP and HYDRA_BOOTSTRAP (Slurm sets them in every job, whatever starts
 * the ranks); OMPI_UNIVERSE_SIZE and SLURM_NPROCS (places, not ranks).
 */
#include "bootstrap/launcher.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option.h"
#include "base/status.h"
#include "os/local_socket.h"
#include "os/tcp_socket.h"

enum { RANKS_MAX = 1 << 16 };

struct launcher {
    const char *name;
    const char *marks[4]; /* one of them has to be set; none listed: nothing more than the rank */
    const char *rank;
    const char *sizes[2];      /* the first that is set */
    bool is_known_by_its_rank; /* without a size it is still this one, and refused */
    const char *local_rank, *local_size, *node_index, *node_count; /* or NULL */
    const char *run[4]; /* they tell one job from another; TUTTI_JOB_ID does with every launcher */
    bool has_pmi1, has_pmix;
    bool uses_master_port; /* something else listens there, or will */
    /* Refuses variables that do not fit, and derives the rest from several variables. NULL: nothing
     * to do. */
    enum tutti_status (*examine)(struct launcher_facts *facts);
};

static enum tutti_status examine_tutti_run(struct launcher_facts *facts);
static enum tutti_status examine_hydra(struct launcher_facts *facts);
static enum tutti_status examine_pytorch_job(struct launcher_facts *facts);
static enum tutti_status examine_environment(struct launcher_facts *facts);
static enum tutti_status examine_slurm(struct launcher_facts *facts);
static enum tutti_status examine_indexed_job(struct launcher_facts *facts);

#define POD_MARKS                                                              \
    {                                                                          \
        "PET_NPROC_PER_NODE", "PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR" \
    }

static const struct launcher launchers[] = {
    {.name = "tutti-run",
     .rank = option_names.RANK,
     .sizes = {option_names.SIZE},
     .examine = examine_tutti_run},
    {.name = "torchrun",
     .marks = {"TORCHELASTIC_RUN_ID"},
     .rank = "RANK",
     .sizes = {"WORLD_SIZE"},
     .local_rank = "LOCAL_RANK",
     .local_size = "LOCAL_WORLD_SIZE",
     .node_index = "GROUP_RANK",
     .node_count = "GROUP_WORLD_SIZE",
     .run = {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"},
     .uses_master_port = true},
    {.name = "Open MPI",
     .rank = "OMPI_COMM_WORLD_RANK",
     .sizes = {"OMPI_COMM_WORLD_SIZE"},
     .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
     .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .run = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
     .has_pmix = true},
    {.name = "MPICH", /* Hydra: also Intel MPI's */
     .marks = {"MPI_LOCALRANKID"},
     .rank = "PMI_RANK",
     .sizes = {"PMI_SIZE"},
     .local_rank = "MPI_LOCALRANKID",
     .local_size = "MPI_LOCALNRANKS",
     .run = {"PMI_JOBID", "SLURM_JOB_ID", "PBS_JOBID"},
     .has_pmi1 = true,
     .examine = examine_hydra},
    {.name = "PyTorchJob", /* of Kubeflow's training operator: rank and size of the pod */
     .marks = POD_MARKS,
     .rank = "RANK",
     .sizes = {"WORLD_SIZE"},
     .run = {"MASTER_ADDR", "MASTER_PORT", "PET_RDZV_ID"},
     .examine = examine_pytorch_job},
    {.name = "PyTorchJob", /* of Kubeflow's trainer */
     .marks = POD_MARKS,
     .rank = "PET_NODE_RANK",
     .sizes = {"PET_NNODES"},
     .is_known_by_its_rank = true,
     .run = {"PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_ID"},
     .examine = examine_pytorch_job},
    {.name = "environment", /* by hand, and launchers that imitate torchrun */
     .rank = "RANK",
     .sizes = {"WORLD_SIZE"},
     .local_rank = "LOCAL_RANK",
     .local_size = "LOCAL_WORLD_SIZE",
     .run = {"MASTER_ADDR", "MASTER_PORT"},
     .examine = examine_environment},
    {.name = "Flux",
     .rank = "FLUX_TASK_RANK",
     .sizes = {"FLUX_JOB_SIZE"},
     .local_rank = "FLUX_TASK_LOCAL_ID",
     .node_count = "FLUX_JOB_NNODES",
     .run = {"FLUX_JOB_ID"},
     .has_pmi1 = true,
     .has_pmix = true},
    {.name = "Slurm",
     .rank = "SLURM_PROCID",
     .sizes = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     .is_known_by_its_rank = true,
     .local_rank = "SLURM_LOCALID",
     .node_index = "SLURM_NODEID",
     .node_count = "SLURM_STEP_NUM_NODES",
     .run = {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_RESTART_COUNT"},
     .has_pmi1 = true, /* its PMI-2 service answers in the older protocol when asked in it */
     .has_pmix = true,
     .examine = examine_slurm},
    {.name = "PMI",
     .rank = "PMI_RANK",
     .sizes = {"PMI_SIZE"},
     .local_rank = "PMI_LOCAL_RANK",
     .local_size = "PMI_LOCAL_SIZE",
     .run = {"PMI_JOBID", "PALS_APID", "PBS_JOBID"},
     .has_pmi1 = true},
    {.name = "Indexed Job", /* of Kubernetes, also those of a JobSet */
     .rank = "JOB_COMPLETION_INDEX",
     .sizes = {option_names.PODS},
     .is_known_by_its_rank = true,
     .run = {"MASTER_ADDR", "MASTER_PORT"},
     .examine = examine_indexed_job},
};

enum { LAUNCHER_COUNT = sizeof launchers / sizeof *launchers };

/* -------------------------------------------------------------------------------------- numbers */

static bool is_set(const char *variable)
{
    return variable != NULL && getenv(variable) != NULL;
}

static enum tutti_status read_number(const char *variable, long least, long most, int *number)
{
    const char *text = getenv(variable);
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most)
        return error_set(TUTTI_INVALID_OPTIONS, "%s=%.40s: a number from %ld to %ld is needed",
                         variable, text, least, most);
    *number = (int)value;
    return TUTTI_OK;
}

/* The same for what need not be there. */
static enum tutti_status read_optional(const char *variable, long least, long most, int *number)
{
    *number = -1;
    return is_set(variable) ? read_number(variable, least, most, number) : TUTTI_OK;
}

/* Whether the variable is a number and which, for comparisons; nonsense is none. */
static bool is_number(const char *variable, long *number)
{
    const char *text = getenv(variable);
    char *end;
    if (text == NULL) return false;
    errno = 0;
    *number = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static bool is_number_equal(const char *variable, int number)
{
    long value;
    return is_number(variable, &value) && value == number;
}

/* If the ranks of a host are all ranks, there is one host. */
static enum tutti_status read_locality(const struct launcher *launcher, struct launcher_facts *facts)
{
    TRY(read_optional(launcher->local_size, 1, facts->size, &facts->local_size));
    const int local_max = facts->local_size > 0 ? facts->local_size : facts->size;
    TRY(read_optional(launcher->local_rank, 0, local_max - 1, &facts->local_rank));
    TRY(read_optional(launcher->node_count, 1, RANKS_MAX, &facts->node_count));
    const int node_max = facts->node_count > 0 ? facts->node_count : RANKS_MAX;
    TRY(read_optional(launcher->node_index, 0, node_max - 1, &facts->node_index));
    return TUTTI_OK;
}

static void complete_locality(struct launcher_facts *facts)
{
    if (facts->node_count < 0 && facts->local_size == facts->size) facts->node_count = 1;
    if (facts->node_count != 1) return;
    facts->node_index = 0;
    facts->local_size = facts->size;
    if (facts->local_rank < 0) facts->local_rank = facts->rank;
}

/* ---------------------------------------------------------------------------- what does not fit */

static enum tutti_status examine_tutti_run(struct launcher_facts *facts)
{
    const bool same =
        is_number_equal("RANK", facts->rank) && is_number_equal("WORLD_SIZE", facts->size);
    /* tutti-run sets both alike. Only torchrun says that it is there, so only it can be told to be
     * the inner one. */
    if (!same && is_set("TORCHELASTIC_RUN_ID") && is_set("RANK") && is_set("WORLD_SIZE"))
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "%s=%d of %s=%d, but torchrun says RANK=%.12s of WORLD_SIZE=%.12s: where tutti-run "
            "started torchrun, unset TUTTI_RANK and TUTTI_SIZE in between; to overrule torchrun, "
            "unset TORCHELASTIC_RUN_ID",
            option_names.RANK, facts->rank, option_names.SIZE, facts->size, getenv("RANK"),
            getenv("WORLD_SIZE"));
    if (!same) return TUTTI_OK; /* set by hand: nobody knows whose LOCAL_RANK it is */
    TRY(read_optional("LOCAL_WORLD_SIZE", 1, facts->size, &facts->local_size));
    const int local_max = facts->local_size > 0 ? facts->local_size : facts->size;
    TRY(read_optional("LOCAL_RANK", 0, local_max - 1, &facts->local_rank));
    TRY(read_optional("GROUP_WORLD_SIZE", 1, facts->size, &facts->node_count));
    const int node_max = facts->node_count > 0 ? facts->node_count : facts->size;
    TRY(read_optional("GROUP_RANK", 0, node_max - 1, &facts->node_index));
    if (facts->node_count == 1 && facts->local_size > 0 && facts->local_size != facts->size)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "GROUP_WORLD_SIZE=1 means one host, but LOCAL_WORLD_SIZE=%d "
                         "of TUTTI_SIZE=%d ranks are on this one",
                         facts->local_size, facts->size);
    return TUTTI_OK;
}

/* "All on one host" is said by each host for itself; only what all ranks find alike may go into the
 * job's name. */
static enum tutti_status examine_hydra(struct launcher_facts *facts)
{
    long fd;
    pid_t pid;
    uid_t uid;
    if (is_set("I_MPI_MPIRUN")) facts->launcher = "Intel MPI";
    if (facts->local_size != facts->size || is_set(option_names.JOB_ID)) return TUTTI_OK;
    if (!is_number("PMI_FD", &fd) || fd < 0 || fd > INT_MAX) return TUTTI_OK;
    if (local_socket_peer((int)fd, &pid, &uid) == TUTTI_OK)
        snprintf(facts->run_id, sizeof facts->run_id, "manager %d", (int)pid);
    return TUTTI_OK;
}

/* One process in each pod, if the variables say so; otherwise the pod's number is nobody's rank. */
static enum tutti_status one_process_a_pod(const char *rank_variable)
{
    const char *processes = getenv("PET_NPROC_PER_NODE");
    long count;
    if (processes == NULL || (is_number("PET_NPROC_PER_NODE", &count) && count == 1))
        return TUTTI_OK;
    return error_set(
        TUTTI_INVALID_OPTIONS,
        "%s=%.12s is the number of a pod and PET_NPROC_PER_NODE=%.20s allows it several "
        "processes, but LOCAL_RANK is not set: start the program with torchrun, or "
        "set nprocPerNode to 1 where each pod runs one process",
        rank_variable, getenv(rank_variable), processes);
}

/* Somebody in the pod counts processes: then RANK has to count them too. (Pods that have nothing to
 * do with each other have equal ranks and local ranks.) */
static enum tutti_status rank_within_pod(struct launcher_facts *facts)
{
    TRY(read_optional("LOCAL_WORLD_SIZE", 1, facts->size, &facts->local_size));
    const int local_max = facts->local_size > 0 ? facts->local_size : facts->size;
    TRY(read_number("LOCAL_RANK", 0, local_max - 1, &facts->local_rank));
    static const char *const pods[] = {"PET_NODE_RANK", "JOB_COMPLETION_INDEX"};
    for (int i = 0; i < 2; i++)
        if (facts->local_rank > 0 && facts->local_rank != facts->rank &&
            is_number_equal(pods[i], facts->rank))
            return error_set(
                TUTTI_INVALID_OPTIONS,
                "RANK=%d is %s, the number of the pod, but LOCAL_RANK=%d says that the "
                "pod runs several processes: set RANK and WORLD_SIZE for each process, "
                "or start them with torchrun",
                facts->rank, pods[i], facts->local_rank);
    return TUTTI_OK;
}

static enum tutti_status examine_pytorch_job(struct launcher_facts *facts)
{
    long pod;
    const bool is_ours = is_set("RANK") && is_set("WORLD_SIZE");
    if (is_set("LOCAL_RANK") && is_ours) return rank_within_pod(facts);
    TRY(one_process_a_pod(is_ours ? "RANK" : "PET_NODE_RANK"));
    if (is_number("PET_NODE_RANK", &pod) && pod != facts->rank)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "RANK=%d, but PET_NODE_RANK=%ld: with one process a pod they are equal; "
                         "with several, LOCAL_RANK has to be set too (torchrun does)",
                         facts->rank, pod);
    if (is_number("PET_NNODES", &pod) && pod != facts->size)
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "WORLD_SIZE=%d, but PET_NNODES=%ld: with one process a pod they are equal; "
            "with several, LOCAL_RANK has to be set too (torchrun does)",
            facts->size, pod);
    facts->local_rank = 0;
    facts->local_size = 1;
    facts->node_index = facts->rank;
    facts->node_count = facts->size;
    return TUTTI_OK;
}

static enum tutti_status examine_environment(struct launcher_facts *facts)
{
    return is_set("LOCAL_RANK") ? rank_within_pod(facts) : TUTTI_OK;
}

/* How many tasks a node has, from Slurm's list of counts such as 4(x2),3; -1 when it does not say
 * so. */
static int tasks_of_node(const char *list, int node)
{
    while (list != NULL && *list >= '0' && *list <= '9') {
        char *end;
        const long tasks = strtol(list, &end, 10);
        long times = 1;
        if (end[0] == '(' && end[1] == 'x') {
            times = strtol(end + 2, &end, 10);
            if (*end++ != ')') return -1;
        }
        if (tasks < 1 || tasks > RANKS_MAX || times < 1) return -1;
        if (node < times) return (int)tasks;
        node -= (int)times; /* times <= node */
        if (*end != ',') return -1;
        list = end + 1;
    }
    return -1;
}

/* The shell of a batch job looks like task 0 of all tasks, but no step was started. Slurm's special
 * steps (the batch script, an interactive shell, processes outside of steps) have numbers at the
 * very end of 32 bits. */
static enum tutti_status examine_slurm(struct launcher_facts *facts)
{
    const char *step = getenv("SLURM_STEP_ID");
    if (step == NULL) step = getenv("SLURM_STEPID");
    char *end = NULL;
    errno = 0;
    const long long number = step != NULL ? strtoll(step, &end, 10) : -1;
    if (step == NULL || errno != 0 || end == step || *end != '\0' || number < 0 ||
        number >= 0xfffffff0ll)
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "SLURM_PROCID=%.12s is set, but SLURM_STEP_ID is %.20s: this is the shell of "
            "a Slurm job and no rank; start the ranks with srun (or tutti-run, or mpirun)",
            getenv("SLURM_PROCID"), step == NULL ? "not" : step);
    if (facts->node_index >= 0)
        facts->local_size = tasks_of_node(getenv("SLURM_STEP_TASKS_PER_NODE"), facts->node_index);
    if (facts->local_rank >= facts->local_size || facts->local_size > facts->size)
        facts->local_size = -1;
    return TUTTI_OK;
}

/* In an Indexed Job pods are called JOB-INDEX. */
static void name_by_pod(struct launcher_facts *facts, int pod)
{
    const char *host = getenv("HOSTNAME");
    char end[16];
    snprintf(end, sizeof end, "-%d", pod);
    const size_t length = host != NULL ? strlen(host) : 0, end_length = strlen(end);
    if (length <= end_length || strcmp(host + length - end_length, end) != 0) return;
    snprintf(facts->run_id, sizeof facts->run_id, "%.*s", (int)(length - end_length), host);
}

static enum tutti_status examine_indexed_job(struct launcher_facts *facts)
{
    const int pod = facts->rank, pod_count = facts->size;
    if (!is_set(option_names.RANKS_PER_POD))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "JOB_COMPLETION_INDEX=%d of TUTTI_PODS=%d, but nothing says how many "
                         "processes a pod runs: set TUTTI_RANKS_PER_POD",
                         pod, pod_count);
    TRY(read_number(option_names.RANKS_PER_POD, 1, RANKS_MAX / pod_count, &facts->local_size));
    if (facts->local_size > 1 && !is_set("LOCAL_RANK"))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%s=%d, but LOCAL_RANK is not set: which of them is this?",
                         option_names.RANKS_PER_POD, facts->local_size);
    facts->local_rank = 0;
    if (facts->local_size > 1)
        TRY(read_number("LOCAL_RANK", 0, facts->local_size - 1, &facts->local_rank));
    facts->node_index = pod;
    facts->node_count = pod_count;
    facts->rank = pod * facts->local_size + facts->local_rank;
    facts->size = pod_count * facts->local_size;
    name_by_pod(facts, pod);
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------- name, key, meeting */

/* Shortens a text of any length to a bounded text: a hash of all of it (FNV-1a) tells texts apart
 * that do not fit. */
struct naming {
    char *text;
    size_t text_bytes, used;
    uint64_t hash;
};

static void name_add(struct naming *naming, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        naming->hash = (naming->hash ^ (unsigned char)*c) * 0x100000001b3u;
        if (naming->used + 1 < naming->text_bytes) naming->text[naming->used] = *c;
        naming->used++;
    }
}

static void name_job(const struct launcher *launcher, struct launcher_facts *facts)
{
    char found[sizeof facts->run_id];
    memcpy(found, facts->run_id, sizeof found); /* the part that was found on the way, or "" */
    struct naming naming = {facts->run_id, sizeof facts->run_id, 0, 0xcbf29ce484222325u};
    name_add(&naming, launcher->name);
    name_add(&naming, "/");
    name_add(&naming, found);
    const int last = sizeof launcher->run / sizeof *launcher->run;
    for (int i = -1; i < last; i++) {
        const char *variable = i < 0 ? option_names.JOB_ID : launcher->run[i];
        if (variable == NULL) break;
        name_add(&naming, "/");
        if (is_set(variable)) name_add(&naming, getenv(variable));
    }
    if (naming.used < sizeof facts->run_id) {
        facts->run_id[naming.used] = '\0';
        return;
    }
    enum { HASH_CHARACTERS = 17 };
    snprintf(facts->run_id + sizeof facts->run_id - HASH_CHARACTERS - 1, HASH_CHARACTERS + 1,
             "~%016llx", (unsigned long long)naming.hash);
}

/* Not a secret: both sides of a connection check each other's user, see rendezvous.h. */
static void make_key(struct launcher_facts *facts)
{
    static atomic_uint calls; /* every process of a job creates its communicators in the same order */
    const uint64_t numbers[4] = {geteuid(),
                                 atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed)};
    struct rendezvous_key from;
    static_assert(sizeof numbers == sizeof from.bytes, "a key is four numbers");
    memcpy(from.bytes, numbers, sizeof numbers);
    rendezvous_key_derive(&from, facts->run_id, strlen(facts->run_id), &facts->key);
}

/* Ranks of one host need no place to meet and use both as part of the job's name alone: nonsense
 * stops nobody. */
static void read_meeting(const struct launcher *launcher, struct launcher_facts *facts)
{
    const bool is_pet = !is_set("MASTER_ADDR");
    const char *address = getenv(is_pet ? "PET_MASTER_ADDR" : "MASTER_ADDR");
    long port;
    if (address == NULL || *address == '\0' || strlen(address) >= sizeof facts->master_address)
        return;
    if (!is_number(is_pet ? "PET_MASTER_PORT" : "MASTER_PORT", &port) || port < 1 || port > 65535)
        return;
    strcpy(facts->master_address, address);
    facts->master_port = (int)port;
    if (launcher->uses_master_port && port < 65535) facts->master_port++;
}

static enum launcher_service find_service(const struct launcher *launcher,
                                          const struct launcher_facts *facts)
{
    if (launcher->has_pmix && is_set("PMIX_NAMESPACE") && is_number_equal("PMIX_RANK", facts->rank))
        return LAUNCHER_SERVICE_PMIX;
    if (launcher->has_pmi1 && is_set("PMI_FD") && is_number_equal("PMI_RANK", facts->rank) &&
        is_number_equal("PMI_SIZE", facts->size))
        return LAUNCHER_SERVICE_PMI1;
    return LAUNCHER_SERVICE_NONE;
}

/* -------------------------------------------------------------------------------------- finding */

static const char *size_variable(const struct launcher *launcher)
{
    for (int i = 0; i < 2; i++)
        if (is_set(launcher->sizes[i])) return launcher->sizes[i];
    return NULL;
}

static bool applies(const struct launcher *launcher)
{
    bool is_marked = launcher->marks[0] == NULL;
    for (int i = 0; i < 4 && launcher->marks[i] != NULL; i++)
        is_marked |= is_set(launcher->marks[i]);
    return is_marked && is_set(launcher->rank) &&
           (launcher->is_known_by_its_rank || size_variable(launcher) != NULL);
}

static enum tutti_status read_place(const struct launcher *launcher, struct launcher_facts *facts)
{
    *facts = (struct launcher_facts){.launcher = launcher->name,
                                     .local_rank = -1,
                                     .local_size = -1,
                                     .node_index = -1,
                                     .node_count = -1};
    const char *const size = size_variable(launcher);
    if (size == NULL && launcher->examine == examine_slurm) TRY(examine_slurm(facts));
    if (size == NULL)
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "%s=%.12s is set, but %s is not: how many are there? (RANK and WORLD_SIZE for "
            "each process, or a launcher that sets them, do as well)",
            launcher->rank, getenv(launcher->rank), launcher->sizes[0]);
    TRY(read_number(size, 1, RANKS_MAX, &facts->size));
    TRY(read_number(launcher->rank, 0, facts->size - 1, &facts->rank));
    TRY(read_locality(launcher, facts));
    if (launcher->examine != NULL) TRY(launcher->examine(facts));
    complete_locality(facts);
    read_meeting(launcher, facts);
    name_job(launcher, facts);
    facts->service = find_service(launcher, facts);
    return TUTTI_OK;
}

/* Nobody applies. A launcher of which only one half is there is the likeliest reason. */
static enum tutti_status nobody_found(void)
{
    char half[120] = "RANK and WORLD_SIZE are not set";
    for (int i = 0; i < LAUNCHER_COUNT; i++) {
        const struct launcher *launcher = &launchers[i];
        const char *const size = size_variable(launcher);
        if (is_set(launcher->rank) == (size != NULL)) continue;
        snprintf(half, sizeof half, "%s is set, but %s is not", size == NULL ? launcher->rank : size,
                 size == NULL ? launcher->sizes[0] : launcher->rank);
        break;
    }
    return error_set(
        TUTTI_INVALID_OPTIONS,
        "no launcher is recognised: %s; start with tutti-run or another launcher, or set RANK "
        "and WORLD_SIZE",
        half);
}

enum tutti_status launcher_look(struct launcher_facts *facts)
{
    for (int i = 0; i < LAUNCHER_COUNT; i++)
        if (applies(&launchers[i])) return read_place(&launchers[i], facts);
    return nobody_found();
}

enum tutti_status launcher_detect(struct launcher_facts *facts)
{
    TRY(launcher_look(facts));
    make_key(facts);
    return TUTTI_OK;
}

static bool is_here(const char *address)
{
    struct net_address parsed;
    return strcmp(address, "localhost") == 0 ||
           (net_address_parse(address, &parsed) && net_address_is_loopback(&parsed));
}

bool launcher_may_span_hosts(const struct launcher_facts *facts)
{
    if (facts == NULL || facts->launcher == NULL || facts->local_size == facts->size ||
        facts->node_count == 1)
        return false;
    return facts->local_size > 0 || facts->node_count > 1 ||
           (facts->master_address[0] != '\0' && !is_here(facts->master_address));
}
