#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/launcher.h"

static int clear_environment(void **state)
{
    (void)state;
    return clearenv();
}

/* "NAME=value NAME=value" */
static void set(const char *text)
{
    char *const copy = strdup(text), *rest = copy;
    assert_non_null(copy);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        char *const value = strchr(word, '=');
        assert_non_null(value);
        *value = '\0';
        assert_int_equal(setenv(word, value + 1, 1), 0);
    }
    free(copy);
}

static void only(const char *text)
{
    clearenv();
    set(text);
}

static struct launcher_facts place_now(void)
{
    struct launcher_facts facts;
    if (launcher_detect(&facts) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    return facts;
}

static struct launcher_facts expect_place(const char *launcher, int rank, int size)
{
    const struct launcher_facts facts = place_now();
    assert_string_equal(facts.launcher, launcher);
    assert_int_equal(facts.rank, rank);
    assert_int_equal(facts.size, size);
    return facts;
}

static void expect_local(const struct launcher_facts *facts, int local_rank, int local_size,
                         int node_index, int node_count)
{
    assert_int_equal(facts->local_rank, local_rank);
    assert_int_equal(facts->local_size, local_size);
    assert_int_equal(facts->node_index, node_index);
    assert_int_equal(facts->node_count, node_count);
}

/* All of the words, separated by blanks, are in the message. */
static void expect_refused(const char *words)
{
    struct launcher_facts facts;
    assert_int_equal(launcher_detect(&facts), TUTTI_INVALID_OPTIONS);
    char *const copy = strdup(words), *rest = copy;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        if (strstr(tutti_error_message(), word) == NULL)
            fail_msg("\"%s\" does not name %s", tutti_error_message(), word);
    free(copy);
}

/* ---------------------------------------------------------------------- what each launcher sets */

#define TUTTI_RUN                                                                 \
    "TUTTI_RANK=2 TUTTI_SIZE=3 TUTTI_JOB_ID=j7 RANK=2 WORLD_SIZE=3 LOCAL_RANK=2 " \
    "LOCAL_WORLD_SIZE=3 GROUP_RANK=0 GROUP_WORLD_SIZE=1 "                         \
    "MASTER_ADDR=127.0.0.1 MASTER_PORT=41000"
#define TUTTI_RUN_HOSTS                                                           \
    "TUTTI_RANK=3 TUTTI_SIZE=6 TUTTI_JOB_ID=j8 RANK=3 WORLD_SIZE=6 LOCAL_RANK=1 " \
    "LOCAL_WORLD_SIZE=2 GROUP_RANK=1 GROUP_WORLD_SIZE=3 "                         \
    "MASTER_ADDR=node1 MASTER_PORT=23456"
#define TORCHRUN                                                                           \
    "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 GROUP_WORLD_SIZE=2 " \
    "ROLE_RANK=5 ROLE_WORLD_SIZE=8 ROLE_NAME=default MASTER_ADDR=head MASTER_PORT=29400 "  \
    "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0"
#define OPEN_MPI                                                                                 \
    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=6 OMPI_COMM_WORLD_LOCAL_RANK=1 "                \
    "OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_NODE_RANK=1 OMPI_UNIVERSE_SIZE=9 PMIX_RANK=3 " \
    "PMIX_NAMESPACE=2092761089 PMIX_SERVER_URI41=2092761088.0;tcp4://127.0.0.1:40075"
#define OPEN_MPI_4 OPEN_MPI " OMPI_MCA_ess_base_jobid=2092761089 OMPI_MCA_orte_num_nodes=3"
#define OPEN_MPI_5 OPEN_MPI " PMIX_HOSTNAME=n1 PRTE_LAUNCHED=1"
#define MPICH "PMI_RANK=1 PMI_SIZE=4 PMI_FD=99 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2"
#define INTEL_MPI MPICH " I_MPI_MPIRUN=mpirun I_MPI_ROOT=/opt/intel"
#define SLURM_JOB                                                                          \
    "SLURM_JOB_ID=200505 SLURM_JOBID=200505 SLURM_NTASKS=8 SLURM_NPROCS=8 SLURM_NNODES=2 " \
    "SLURM_JOB_NUM_NODES=2 HYDRA_BOOTSTRAP=slurm I_MPI_HYDRA_BOOTSTRAP=slurm "             \
    "SLURM_TASKS_PER_NODE=4"
#define SLURM_BATCH SLURM_JOB " SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_TASK_PID=16360"
#define SRUN                                                                                   \
    SLURM_JOB " SLURM_PROCID=5 SLURM_LOCALID=2 SLURM_NODEID=1 SLURM_STEP_ID=0 SLURM_STEPID=0 " \
              "SLURM_STEP_NUM_TASKS=6 SLURM_STEP_NUM_NODES=2 SLURM_STEP_TASKS_PER_NODE=3(x2)"
#define FLUX                                                                                   \
    "FLUX_TASK_RANK=1 FLUX_TASK_LOCAL_ID=0 FLUX_JOB_SIZE=2 FLUX_JOB_NNODES=2 FLUX_JOB_ID=fA9 " \
    "PMI_RANK=1 PMI_SIZE=2 PMI_FD=99 FLUX_URI=local:///run/flux/local"
#define PYTORCH_JOB                                                                \
    "MASTER_ADDR=train-master-0 MASTER_PORT=23456 PET_MASTER_ADDR=train-master-0 " \
    "PET_MASTER_PORT=23456 WORLD_SIZE=4 RANK=3 PET_NODE_RANK=3 PET_NNODES=4 "      \
    "HOSTNAME=train-worker-2"
#define TRAINER                                                                        \
    "PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=t-node-0-0.t PET_MASTER_PORT=29500 " \
    "JOB_COMPLETION_INDEX=1 HOSTNAME=t-node-0-1"
#define INDEXED_JOB "JOB_COMPLETION_INDEX=2 HOSTNAME=sum-2 KUBERNETES_SERVICE_HOST=10.0.0.1"

static void tutti_run_is_recognised(void **state)
{
    (void)state;
    set(TUTTI_RUN);
    const struct launcher_facts facts = expect_place("tutti-run", 2, 3);
    expect_local(&facts, 2, 3, 0, 1);
    assert_non_null(strstr(facts.run_id, "j7"));
    assert_string_equal(facts.master_address, "127.0.0.1");
    assert_int_equal(facts.master_port, 41000);
    assert_int_equal(facts.service, LAUNCHER_SERVICE_NONE);
}

static void tutti_run_on_several_hosts_is_recognised(void **state)
{
    (void)state;
    set(TUTTI_RUN_HOSTS);
    const struct launcher_facts facts = expect_place("tutti-run", 3, 6);
    expect_local(&facts, 1, 2, 1, 3);
    assert_non_null(strstr(facts.run_id, "j8"));
    assert_string_equal(facts.master_address, "node1");
    assert_int_equal(facts.master_port, 23456);
    setenv("LOCAL_RANK", "2", 1);
    expect_refused("LOCAL_RANK=2");
    set("LOCAL_RANK=1 GROUP_RANK=3");
    expect_refused("GROUP_RANK=3");
    set("GROUP_RANK=0 GROUP_WORLD_SIZE=1");
    expect_refused("GROUP_WORLD_SIZE=1 LOCAL_WORLD_SIZE=2 TUTTI_SIZE=6");
    unsetenv("GROUP_RANK"); /* of an older tutti-run, or by hand */
    unsetenv("GROUP_WORLD_SIZE");
    const struct launcher_facts without = place_now();
    expect_local(&without, 1, 2, -1, -1);
}

static void torchrun_is_recognised(void **state)
{
    (void)state;
    set(TORCHRUN);
    const struct launcher_facts facts = expect_place("torchrun", 5, 8);
    expect_local(&facts, 1, 4, 1, 2);
    assert_string_equal(facts.master_address, "head");
    assert_int_equal(facts.master_port, 29401); /* its own store is at 29400 */
    assert_int_equal(facts.service, LAUNCHER_SERVICE_NONE);
    setenv("MASTER_PORT", "65535", 1);
    assert_int_equal(place_now().master_port, 65535);
}

static void open_mpi_is_recognised(void **state)
{
    (void)state;
    static const char *const versions[] = {OPEN_MPI_4, OPEN_MPI_5};
    for (int i = 0; i < 2; i++) {
        only(versions[i]);
        const struct launcher_facts facts = expect_place("Open MPI", 3, 6);
        expect_local(&facts, 1, 2, -1, -1); /* the node's number is not said */
        assert_int_equal(facts.service, LAUNCHER_SERVICE_PMIX);
        assert_non_null(strstr(facts.run_id, "2092761089"));
        assert_string_equal(facts.master_address, "");
        assert_int_equal(facts.master_port, 0);
    }
}

static void hydra_is_recognised(void **state)
{
    (void)state;
    set(MPICH);
    struct launcher_facts facts = expect_place("MPICH", 1, 4);
    expect_local(&facts, 1, 2, -1, -1);
    assert_int_equal(facts.service, LAUNCHER_SERVICE_PMI1);
    only(INTEL_MPI);
    facts = expect_place("Intel MPI", 1, 4);
    assert_int_equal(facts.service, LAUNCHER_SERVICE_PMI1);
    unsetenv("PMI_FD");
    assert_int_equal(place_now().service, LAUNCHER_SERVICE_NONE);
}

static void srun_is_recognised(void **state)
{
    (void)state;
    set(SRUN);
    struct launcher_facts facts = expect_place("Slurm", 5, 6);
    expect_local(&facts, 2, 3, 1, 2);
    assert_int_equal(facts.service, LAUNCHER_SERVICE_NONE);
    assert_non_null(strstr(facts.run_id, "200505"));
    set("PMI_RANK=5 PMI_SIZE=6 PMI_FD=99 PMI_JOBID=200505.0");
    assert_int_equal(expect_place("Slurm", 5, 6).service, LAUNCHER_SERVICE_PMI1);
    set("PMIX_RANK=5 PMIX_NAMESPACE=slurm.pmix.200505.0");
    assert_int_equal(expect_place("Slurm", 5, 6).service, LAUNCHER_SERVICE_PMIX);
    unsetenv("SLURM_STEP_NUM_TASKS");
    expect_place("Slurm", 5, 8);
}

static void slurms_list_of_tasks_is_read_and_nonsense_in_it_is_not(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        int node, local_size;
    } cases[] = {{"3(x2)", 1, 3},
                 {"4(x1),3,1(x9)", 1, 3},
                 {"4(x1),3", 0, 4},
                 {"4,3(x2)", 2, 3},
                 {"6", 0, 6},
                 {"3", 1, -1},
                 {"", 0, -1},
                 {"x", 0, -1},
                 {"3(x0),4", 0, -1},
                 {"3(x", 0, -1},
                 {"3(x2", 0, -1},
                 {"3(x2)4", 2, -1},
                 {"0,3", 1, -1},
                 {"99999999999999999999", 0, -1},
                 {"1(x1),3", 0, -1},
                 {"7", 0, -1}}; /* the last: more than there are; before it: not with local rank 2 */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        only(SRUN);
        setenv("SLURM_STEP_TASKS_PER_NODE", cases[i].list, 1);
        setenv("SLURM_STEP_NUM_NODES", "3", 1);
        char node[12];
        snprintf(node, sizeof node, "%d", cases[i].node);
        setenv("SLURM_NODEID", node, 1);
        const struct launcher_facts facts = expect_place("Slurm", 5, 6);
        if (facts.local_size != cases[i].local_size)
            fail_msg("%s: %d", cases[i].list, facts.local_size);
    }
}

static void flux_is_recognised(void **state)
{
    (void)state;
    set(FLUX);
    const struct launcher_facts facts = expect_place("Flux", 1, 2);
    expect_local(&facts, 0, -1, -1, 2);
    assert_int_equal(facts.service, LAUNCHER_SERVICE_PMI1);
    set("PMIX_RANK=1 PMIX_NAMESPACE=f");
    assert_int_equal(place_now().service, LAUNCHER_SERVICE_PMIX);
}

static void other_pmi_managers_are_recognised(void **state)
{
    (void)state;
    set("PMI_RANK=3 PMI_SIZE=4 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=2 PALS_APID=9 PMI_FD=99");
    const struct launcher_facts facts = expect_place("PMI", 3, 4);
    expect_local(&facts, 1, 2, -1, -1);
    assert_int_equal(facts.service, LAUNCHER_SERVICE_PMI1);
}

static void plain_variables_are_recognised(void **state)
{
    (void)state;
    set("RANK=1 WORLD_SIZE=2");
    struct launcher_facts facts = expect_place("environment", 1, 2);
    expect_local(&facts, -1, -1, -1, -1);
    set("LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=::1 MASTER_PORT=29500");
    facts = expect_place("environment", 1, 2);
    expect_local(&facts, 1, 2, 0, 1);
    assert_string_equal(facts.master_address, "::1");
    assert_int_equal(facts.master_port, 29500);
}

/* ----------------------------------------------------------------------------------- Kubernetes */

static void a_pod_with_one_process_is_a_rank(void **state)
{
    (void)state;
    set(PYTORCH_JOB);
    struct launcher_facts facts = expect_place("PyTorchJob", 3, 4);
    expect_local(&facts, 0, 1, 3, 4);
    setenv("PET_NPROC_PER_NODE", "1", 1);
    expect_place("PyTorchJob", 3, 4);
    assert_string_equal(facts.master_address, "train-master-0");

    only(TRAINER " PET_NPROC_PER_NODE=1");
    facts = expect_place("PyTorchJob", 1, 2);
    expect_local(&facts, 0, 1, 1, 2);
    assert_string_equal(facts.master_address, "t-node-0-0.t");
    assert_int_equal(facts.master_port, 29500);
}

static void a_pod_with_several_processes_is_no_rank(void **state)
{
    (void)state;
    static const char *const counts[] = {"2", "8", "auto", "gpu", "cpu", "0", ""};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        only(PYTORCH_JOB);
        setenv("PET_NPROC_PER_NODE", counts[i], 1);
        expect_refused("RANK=3 PET_NPROC_PER_NODE LOCAL_RANK torchrun nprocPerNode");
        only(TRAINER);
        setenv("PET_NPROC_PER_NODE", counts[i], 1);
        expect_refused("PET_NODE_RANK=1 PET_NPROC_PER_NODE LOCAL_RANK torchrun");
    }
    /* Newer operators multiply. */
    only(PYTORCH_JOB " PET_NPROC_PER_NODE=1");
    setenv("WORLD_SIZE", "8", 1);
    expect_refused("WORLD_SIZE=8 PET_NNODES=4 LOCAL_RANK");
    only(PYTORCH_JOB " PET_NPROC_PER_NODE=1");
    setenv("PET_NODE_RANK", "2", 1);
    expect_refused("RANK=3 PET_NODE_RANK=2 LOCAL_RANK");
    only(TRAINER);
    setenv("PET_NNODES", "1:4", 1);
    expect_refused("PET_NNODES=1:4");
    unsetenv("PET_NNODES");
    expect_refused("PET_NODE_RANK PET_NNODES");
}

static void torchrun_in_a_pod_numbers_the_processes(void **state)
{
    (void)state;
    set(PYTORCH_JOB " PET_NPROC_PER_NODE=auto JOB_COMPLETION_INDEX=3");
    set(TORCHRUN);
    expect_place("torchrun", 5, 8);
}

static void another_starter_in_a_pod_has_to_number_them_itself(void **state)
{
    (void)state;
    set(PYTORCH_JOB " PET_NPROC_PER_NODE=2");
    set("RANK=7 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2");
    const struct launcher_facts facts = expect_place("PyTorchJob", 7, 8);
    expect_local(&facts, 1, 2, -1, -1);
    set("RANK=3"); /* still the pod's */
    expect_refused("RANK=3 PET_NODE_RANK LOCAL_RANK=1");
    set("RANK=6 LOCAL_RANK=0"); /* the first of the pod */
    expect_place("PyTorchJob", 6, 8);

    only(INDEXED_JOB " RANK=2 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2");
    expect_refused("RANK=2 JOB_COMPLETION_INDEX LOCAL_RANK=1");
    set("RANK=5");
    expect_place("environment", 5, 8);
    /* Pods that have nothing to do with each other. */
    only(INDEXED_JOB " RANK=2 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=4");
    expect_place("environment", 2, 4);
}

static void mpirun_in_a_pod_wins(void **state)
{
    (void)state;
    set(INDEXED_JOB);
    set(PYTORCH_JOB);
    set(OPEN_MPI_4 " K_MPI_JOB_ROLE=launcher");
    expect_place("Open MPI", 3, 6);
    only(INDEXED_JOB " " MPICH);
    expect_place("MPICH", 1, 4);
}

static void an_indexed_job_says_how_many_pods_and_processes_there_are(void **state)
{
    (void)state;
    set(INDEXED_JOB);
    expect_refused("JOB_COMPLETION_INDEX=2 TUTTI_PODS");
    setenv("WORLD_SIZE", "4", 1); /* of pods or of processes? */
    expect_refused("JOB_COMPLETION_INDEX=2 TUTTI_PODS RANK");
    unsetenv("WORLD_SIZE");
    setenv("TUTTI_PODS", "4", 1);
    expect_refused("JOB_COMPLETION_INDEX=2 TUTTI_PODS=4 TUTTI_RANKS_PER_POD");
    setenv("TUTTI_RANKS_PER_POD", "1", 1);
    struct launcher_facts facts = expect_place("Indexed Job", 2, 4);
    expect_local(&facts, 0, 1, 2, 4);
    assert_non_null(strstr(facts.run_id, "/sum/"));

    setenv("TUTTI_RANKS_PER_POD", "2", 1);
    expect_refused("TUTTI_RANKS_PER_POD=2 LOCAL_RANK");
    setenv("LOCAL_RANK", "1", 1);
    facts = expect_place("Indexed Job", 5, 8);
    expect_local(&facts, 1, 2, 2, 4);
    setenv("LOCAL_RANK", "2", 1);
    expect_refused("LOCAL_RANK=2");
    set("LOCAL_RANK=0 JOB_COMPLETION_INDEX=4");
    expect_refused("JOB_COMPLETION_INDEX=4");
    set("JOB_COMPLETION_INDEX=3 TUTTI_RANKS_PER_POD=99999999");
    expect_refused("TUTTI_RANKS_PER_POD=99999999");
}

static void pods_of_an_indexed_job_have_one_name(void **state)
{
    (void)state;
    static const char *const hosts[] = {"sum-0", "sum-1"};
    char names[2][160];
    for (int i = 0; i < 2; i++) {
        only("TUTTI_PODS=2 TUTTI_RANKS_PER_POD=1");
        setenv("JOB_COMPLETION_INDEX", i == 0 ? "0" : "1", 1);
        setenv("HOSTNAME", hosts[i], 1);
        strcpy(names[i], place_now().run_id);
    }
    assert_string_equal(names[0], names[1]);
    setenv("HOSTNAME", "node17", 1); /* on the host's network */
    assert_null(strstr(place_now().run_id, "node17"));
}

/* -------------------------------------------------------------------------------------- nesting */

static void the_inner_launcher_wins(void **state)
{
    (void)state;
    set(SLURM_BATCH);
    set(OPEN_MPI_4);
    expect_place("Open MPI", 3, 6);
    set(TORCHRUN);
    expect_place("torchrun", 5, 8);
    assert_int_equal(place_now().service, LAUNCHER_SERVICE_NONE); /* PMIx knows other ranks */

    only(SRUN " " MPICH);
    expect_place("MPICH", 1, 4);
    set("RANK=0 WORLD_SIZE=2");
    expect_place("MPICH", 1, 4);
    only(SRUN " RANK=0 WORLD_SIZE=2"); /* in a batch script, by hand */
    expect_place("environment", 0, 2);
    only(SRUN " " FLUX);
    expect_place("Flux", 1, 2);
    only(OPEN_MPI_4 " " SRUN " TUTTI_RANK=0 TUTTI_SIZE=2");
    expect_place("tutti-run", 0, 2);
}

static void a_service_of_an_outer_launcher_is_not_used(void **state)
{
    (void)state;
    set(MPICH " PMIX_NAMESPACE=x PMIX_RANK=1");
    assert_int_equal(place_now().service, LAUNCHER_SERVICE_PMI1);
    only(OPEN_MPI_4 " PMI_RANK=3 PMI_SIZE=6 PMI_FD=4");
    setenv("PMIX_RANK", "1", 1);
    assert_int_equal(place_now().service, LAUNCHER_SERVICE_NONE);
    only(SRUN " PMI_RANK=0 PMI_SIZE=6 PMI_FD=4");
    assert_int_equal(place_now().service, LAUNCHER_SERVICE_NONE);
    setenv("PMI_RANK", "5", 1);
    setenv("PMI_SIZE", "8", 1);
    assert_int_equal(place_now().service, LAUNCHER_SERVICE_NONE);
}

static void torchrun_in_tutti_run_is_refused(void **state)
{
    (void)state;
    set(TUTTI_RUN);
    set(TORCHRUN);
    expect_refused("TUTTI_RANK=2 TUTTI_SIZE=3 RANK=5 WORLD_SIZE=8 TORCHELASTIC_RUN_ID");
    set(TUTTI_RUN); /* the other way round: tutti-run sets both */
    expect_place("tutti-run", 2, 3);
}

static void tutti_runs_variables_by_hand_take_no_foreign_local_rank(void **state)
{
    (void)state;
    set("LOCAL_RANK=7 LOCAL_WORLD_SIZE=8 TUTTI_RANK=0 TUTTI_SIZE=2");
    const struct launcher_facts facts = expect_place("tutti-run", 0, 2);
    expect_local(&facts, -1, -1, -1, -1);
}

static void the_shell_of_a_batch_job_is_no_rank(void **state)
{
    (void)state;
    set(SLURM_BATCH);
    expect_refused("SLURM_PROCID=0 SLURM_STEP_ID srun");
    static const char *const steps[] = {"batch", "4294967291", "4294967290", "", "-1"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        setenv("SLURM_STEPID", steps[i], 1);
        expect_refused("SLURM_PROCID=0 SLURM_STEP_ID srun");
    }
    setenv("SLURM_STEP_ID", "0", 1);
    expect_place("Slurm", 0, 8);
    only("SLURM_PROCID=0 SLURM_JOB_ID=7"); /* of a job that was given nodes, not tasks */
    expect_refused("SLURM_PROCID=0 SLURM_STEP_ID srun");
}

/* ------------------------------------------------------------------------------------- nonsense */

static void half_a_launcher_is_none(void **state)
{
    (void)state;
    expect_refused("RANK WORLD_SIZE tutti-run");
    setenv("RANK", "0", 1);
    expect_refused("RANK WORLD_SIZE");
    setenv("SLURM_NTASKS", "3", 1);
    expect_refused("RANK");
    only("OMPI_COMM_WORLD_SIZE=2");
    expect_refused("OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK");
    only("MPI_LOCALRANKID=0 PMI_RANK=0");
    expect_refused("PMI_RANK PMI_SIZE");
}

static void numbers_are_checked_and_named(void **state)
{
    (void)state;
    static const struct {
        const char *all, *variable;
        bool may_be_zero;
    } cases[] = {{"RANK=0 WORLD_SIZE=4", "WORLD_SIZE", false},
                 {"RANK=0 WORLD_SIZE=4", "RANK", true},
                 {TUTTI_RUN, "TUTTI_RANK", true},
                 {TUTTI_RUN, "TUTTI_SIZE", false},
                 {TUTTI_RUN, "LOCAL_WORLD_SIZE", false},
                 {TUTTI_RUN_HOSTS, "GROUP_WORLD_SIZE", false},
                 {TUTTI_RUN_HOSTS, "GROUP_RANK", true},
                 {TORCHRUN, "LOCAL_RANK", true},
                 {TORCHRUN, "LOCAL_WORLD_SIZE", false},
                 {TORCHRUN, "GROUP_RANK", true},
                 {TORCHRUN, "GROUP_WORLD_SIZE", false},
                 {OPEN_MPI_4, "OMPI_COMM_WORLD_LOCAL_RANK", true},
                 {MPICH, "MPI_LOCALRANKID", true},
                 {MPICH, "PMI_SIZE", false},
                 {SRUN, "SLURM_PROCID", true},
                 {SRUN, "SLURM_STEP_NUM_TASKS", false},
                 {SRUN, "SLURM_NODEID", true},
                 {FLUX, "FLUX_JOB_NNODES", false},
                 {INDEXED_JOB " TUTTI_PODS=4 TUTTI_RANKS_PER_POD=1", "TUTTI_PODS", false}};
    static const char *const bad[] = {"",   "-1",  "two", "2x", "65537", "99999999999999999999",
                                      "2 ", "1.0", "0x1"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t j = 0; j < sizeof bad / sizeof *bad; j++) {
            only(cases[i].all);
            setenv(cases[i].variable, bad[j], 1);
            expect_refused(cases[i].variable);
        }
        only(cases[i].all);
        setenv(cases[i].variable, "0", 1);
        if (!cases[i].may_be_zero) expect_refused(cases[i].variable);
    }
    only("RANK=4 WORLD_SIZE=4");
    expect_refused("RANK=4");
    only(MPICH);
    setenv("MPI_LOCALRANKID", "2", 1);
    expect_refused("MPI_LOCALRANKID=2");
    only(MPICH);
    setenv("MPI_LOCALNRANKS", "5", 1);
    expect_refused("MPI_LOCALNRANKS=5");
}

static void a_meeting_place_that_makes_no_sense_is_none(void **state)
{
    (void)state;
    static const char *const ports[] = {"0", "65536", "x", "", "-1"};
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        only("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a");
        setenv("MASTER_PORT", ports[i], 1);
        assert_string_equal(place_now().master_address, "");
        assert_int_equal(place_now().master_port, 0);
    }
    char address[300];
    memset(address, 'a', sizeof address - 1);
    address[sizeof address - 1] = '\0';
    setenv("MASTER_PORT", "1", 1);
    setenv("MASTER_ADDR", address, 1);
    assert_string_equal(place_now().master_address, "");
    address[255] = '\0';
    setenv("MASTER_ADDR", address, 1);
    assert_string_equal(place_now().master_address, address);
}

/* ---------------------------------------------------------------------------------------- names */

static struct rendezvous_key key_now(void)
{
    return place_now().key;
}

static void each_call_of_a_process_has_another_key(void **state)
{
    (void)state;
    set("RANK=0 WORLD_SIZE=2");
    struct rendezvous_key keys[50];
    for (int i = 0; i < 50; i++) {
        keys[i] = key_now();
        /* The socket's name is made of the first 16 bytes. */
        for (int j = 0; j < i; j++) assert_memory_not_equal(keys[i].bytes, keys[j].bytes, 16);
    }
}

/* Keys of the same call in several processes; a child has the parent's count of calls. */
static void expect_keys(bool equal, const char *variable, const char *value)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct launcher_facts facts;
        setenv("RANK", "1", 1);
        if (variable != NULL) setenv(variable, value, 1);
        if (launcher_detect(&facts) != TUTTI_OK) _exit(1);
        _exit(write(ends[1], &facts.key, sizeof facts.key) == sizeof facts.key ? 0 : 1);
    }
    struct rendezvous_key theirs;
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &theirs, sizeof theirs), sizeof theirs);
    close(ends[0]);
    close(ends[1]);
    const struct rendezvous_key mine = key_now();
    assert_int_equal(memcmp(mine.bytes, theirs.bytes, sizeof mine.bytes) == 0, equal);
    if (!equal) assert_memory_not_equal(mine.bytes, theirs.bytes, 16);
}

static void ranks_of_a_job_share_a_key_and_jobs_do_not(void **state)
{
    (void)state;
    set("RANK=0 WORLD_SIZE=2 MASTER_ADDR=somewhere MASTER_PORT=29500");
    expect_keys(true, NULL, NULL);
    expect_keys(false, "MASTER_PORT", "29501");
    expect_keys(false, "MASTER_ADDR", "elsewhere");
    expect_keys(false, "TUTTI_JOB_ID", "another");
    expect_keys(true, "SLURM_JOB_ID", "7"); /* not this launcher's */
    set(TORCHRUN);
    setenv("RANK", "0", 1);
    expect_keys(true, NULL, NULL);
    expect_keys(false, "TORCHELASTIC_RUN_ID", "b");
    expect_keys(false, "TORCHELASTIC_RESTART_COUNT", "1");
}

static void long_names_differ_where_they_were_cut(void **state)
{
    (void)state;
    char long_name[1000];
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    set(TUTTI_RUN);
    setenv("TUTTI_JOB_ID", long_name, 1);
    const struct launcher_facts first = place_now();
    assert_int_equal(strlen(first.run_id), sizeof first.run_id - 1);
    long_name[sizeof long_name - 2] = 'm';
    setenv("TUTTI_JOB_ID", long_name, 1);
    assert_string_not_equal(place_now().run_id, first.run_id);
    /* As long as fits, to the character. */
    long_name[sizeof first.run_id - 1 - strlen("tutti-run//")] = '\0';
    setenv("TUTTI_JOB_ID", long_name, 1);
    assert_int_equal(strlen(place_now().run_id), sizeof first.run_id - 1);
    assert_null(strchr(place_now().run_id, '~'));
}

/* If all ranks of Hydra are on this host, the process that made the socket in PMI_FD names the
 * job. */
static void hydras_jobs_on_one_host_are_told_apart(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    set("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2");
    const struct launcher_facts without = place_now();
    char fd[12], expected[40];
    snprintf(fd, sizeof fd, "%d", ends[1]);
    snprintf(expected, sizeof expected, "manager %d/", (int)getpid());
    setenv("PMI_FD", fd, 1);
    assert_non_null(strstr(place_now().run_id, expected));
    setenv("TUTTI_JOB_ID", "mine", 1); /* said by hand */
    assert_null(strstr(place_now().run_id, "manager"));
    unsetenv("TUTTI_JOB_ID");
    setenv("PMI_SIZE", "4", 1); /* not all here: the others have another manager */
    assert_null(strstr(place_now().run_id, "manager"));
    set("PMI_SIZE=2 PMI_FD=nonsense");
    assert_string_equal(place_now().run_id, without.run_id);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_environment, clear_environment)
    const struct CMUnitTest tests[] = {
        TEST(tutti_run_is_recognised),
        TEST(tutti_run_on_several_hosts_is_recognised),
        TEST(torchrun_is_recognised),
        TEST(open_mpi_is_recognised),
        TEST(hydra_is_recognised),
        TEST(srun_is_recognised),
        TEST(slurms_list_of_tasks_is_read_and_nonsense_in_it_is_not),
        TEST(flux_is_recognised),
        TEST(other_pmi_managers_are_recognised),
        TEST(plain_variables_are_recognised),
        TEST(a_pod_with_one_process_is_a_rank),
        TEST(a_pod_with_several_processes_is_no_rank),
        TEST(torchrun_in_a_pod_numbers_the_processes),
        TEST(another_starter_in_a_pod_has_to_number_them_itself),
        TEST(mpirun_in_a_pod_wins),
        TEST(an_indexed_job_says_how_many_pods_and_processes_there_are),
        TEST(pods_of_an_indexed_job_have_one_name),
        TEST(the_inner_launcher_wins),
        TEST(a_service_of_an_outer_launcher_is_not_used),
        TEST(torchrun_in_tutti_run_is_refused),
        TEST(tutti_runs_variables_by_hand_take_no_foreign_local_rank),
        TEST(the_shell_of_a_batch_job_is_no_rank),
        TEST(half_a_launcher_is_none),
        TEST(numbers_are_checked_and_named),
        TEST(a_meeting_place_that_makes_no_sense_is_none),
        TEST(each_call_of_a_process_has_another_key),
        TEST(ranks_of_a_job_share_a_key_and_jobs_do_not),
        TEST(long_names_differ_where_they_were_cut),
        TEST(hydras_jobs_on_one_host_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
