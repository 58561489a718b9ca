/* One rank of a job, for tests/startup/launchers_test.sh, which starts it by real launchers:
 *
 *     tests_startup_launched_test rank [folder|pmix|pmi1 [late|before|within]]
 *
 * says where it is, makes a communicator out of the environment, adds up with the others, and hands
 * its rank around. late: rank 0 waits for a key that nobody has put, and at a fence for the others,
 * who do not come. before, within: Open MPI's library is used in the same process, after the
 * exchange or around it. Without arguments it is a test of its own: it starts such ranks with the
 * variables that Kubernetes sets.
 * ctest: label=notsan */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/exchange.h"
#include "bootstrap/launcher.h"
#include "os/clock.h"
#include "tutti/tutti.h"

/* --------------------------------------------------------------------------------------- a rank */

static int complain(const struct launcher_facts *facts, const char *what)
{
    fprintf(stderr, "rank %d of %d: %s: %s\n", facts->rank, facts->size, what,
            tutti_error_message());
    return 1;
}

static int add_up(const struct launcher_facts *facts)
{
    struct tutti_comm *comm;
    const int64_t one = facts->rank + 1;
    int64_t sum = 0;
    if (tutti_comm_create(NULL, &comm) != TUTTI_OK) return complain(facts, "communicator");
    if (tutti_comm_rank(comm) != facts->rank || tutti_comm_size(comm) != facts->size)
        return complain(facts, "another place");
    if (tutti_allreduce(&one, &sum, 1, TUTTI_INT64, TUTTI_SUM, comm) != TUTTI_OK)
        return complain(facts, "allreduce");
    if (sum != (int64_t)facts->size * (facts->size + 1) / 2) return complain(facts, "sum");
    return tutti_comm_free(comm) == TUTTI_OK ? 0 : complain(facts, "free");
}

/* A short value and one that needs several lines of PMI-1. */
static size_t make_value(int rank, int round, const char *key, char *value)
{
    const size_t bytes = key[0] == 'l' ? 3000 : 40;
    memset(value, 'a' + rank % 26, bytes);
    snprintf(value, 40, "rank %d round %d", rank, round);
    return bytes;
}

static int hand_around_once(const struct launcher_facts *facts, enum exchange_means means, int round)
{
    static const char *const keys[] = {"short", "long"};
    const uint64_t deadline_ns = clock_now_ns() + 60000000000u;
    struct exchange *exchange;
    char expected[EXCHANGE_VALUE_BYTES_MAX], got[EXCHANGE_VALUE_BYTES_MAX];
    size_t bytes, got_bytes;
    if (exchange_open(facts, means, deadline_ns, &exchange) != TUTTI_OK)
        return complain(facts, "exchange_open");
    for (int i = 0; i < 2; i++) {
        bytes = make_value(facts->rank, round, keys[i], expected);
        if (exchange_put(exchange, keys[i], expected, bytes, deadline_ns) != TUTTI_OK)
            return complain(facts, "exchange_put");
    }
    if (exchange_fence(exchange, deadline_ns) != TUTTI_OK) return complain(facts, "fence");
    for (int i = 0; i < 2 * facts->size; i++) {
        const char *const key = keys[i % 2];
        bytes = make_value(i / 2, round, key, expected);
        if (exchange_get(exchange, i / 2, key, got, sizeof got, &got_bytes, deadline_ns) != TUTTI_OK ||
            got_bytes != bytes || memcmp(got, expected, bytes) != 0)
            return complain(facts, "exchange_get");
    }
    if (exchange_fence(exchange, deadline_ns) != TUTTI_OK) return complain(facts, "last fence");
    exchange_close(exchange);
    return 0;
}

static int hand_around(const struct launcher_facts *facts, enum exchange_means means)
{
    for (int round = 0; round < 2; round++)
        if (hand_around_once(facts, means, round) != 0) return 1;
    return 0;
}

/* The others come to the second fence when rank 0 has given up. */
static int wait_in_vain(const struct launcher_facts *facts, enum exchange_means means)
{
    struct exchange *exchange;
    const uint64_t long_ns = 60000000000u, short_ns = 300000000u;
    if (exchange_open(facts, means, clock_now_ns() + long_ns, &exchange) != TUTTI_OK)
        return complain(facts, "exchange_open");
    if (exchange_fence(exchange, clock_now_ns() + long_ns) != TUTTI_OK)
        return complain(facts, "fence");
    if (facts->rank == 0) {
        char value[8];
        size_t bytes;
        if (exchange_get(exchange, facts->size - 1, "none", value, sizeof value, &bytes,
                         clock_now_ns() + short_ns) == TUTTI_OK)
            return complain(facts, "a key that nobody put");
        if (exchange_fence(exchange, clock_now_ns() + short_ns) != TUTTI_INIT_TIMEOUT)
            return complain(facts, "a fence that nobody comes to");
        if (exchange_fence(exchange, clock_now_ns() + short_ns) == TUTTI_OK)
            return complain(facts, "a fence after one that failed");
    } else {
        nanosleep(&(struct timespec){2, 0}, NULL);
    }
    exchange_close(exchange);
    return 0;
}

typedef int mpi_init_function(int *argument_count, char ***arguments);
typedef int mpi_finalize_function(void);

/* With an MPI library that is loaded as a plug-in might load it. */
static int beside_mpi(const struct launcher_facts *facts, enum exchange_means means, bool is_within)
{
    void *const library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) return complain(facts, dlerror());
    mpi_init_function *init;
    mpi_finalize_function *finalize;
    *(void **)&init = dlsym(library, "MPI_Init");
    *(void **)&finalize = dlsym(library, "MPI_Finalize");
    if (init == NULL || finalize == NULL) return complain(facts, dlerror());
    if (!is_within && hand_around(facts, means) != 0) return 1;
    if (init(NULL, NULL) != 0) return complain(facts, "MPI_Init");
    if (is_within && hand_around(facts, means) != 0) return 1;
    return finalize() == 0 ? 0 : complain(facts, "MPI_Finalize");
}

static int use_exchange(const struct launcher_facts *facts, const char *means, const char *how)
{
    const enum exchange_means wanted = strcmp(means, "folder") == 0 ? EXCHANGE_FOLDER
                                       : strcmp(means, "pmix") == 0 ? EXCHANGE_PMIX
                                                                    : EXCHANGE_PMI1;
    if (how == NULL) return hand_around(facts, wanted);
    if (strcmp(how, "late") == 0) return wait_in_vain(facts, wanted);
    return beside_mpi(facts, wanted, strcmp(how, "within") == 0);
}

/* One rank asks more often than the others: they meet all the same. */
static bool look_alone(const struct launcher_facts *facts)
{
    int rank, size;
    if (facts->rank != 0) return true;
    const char *const launcher = tutti_launcher(&rank, &size);
    return launcher != NULL && strcmp(launcher, facts->launcher) == 0 && rank == facts->rank &&
           size == facts->size && tutti_launcher(NULL, NULL) != NULL;
}

static int be_rank(const char *means, const char *how)
{
    static const char *const services[] = {"none", "pmi1", "pmix"};
    struct launcher_facts facts;
    if (launcher_detect(&facts) != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_error_message());
        return 1;
    }
    if (!look_alone(&facts)) return complain(&facts, "tutti_launcher");
    if (add_up(&facts) != 0) return 1;
    if (means != NULL && use_exchange(&facts, means, how) != 0) return 1;
    printf("rank %d of %d by %s, local %d of %d, service %s: fine\n", facts.rank, facts.size,
           facts.launcher, facts.local_rank, facts.local_size, services[facts.service]);
    return 0;
}

/* ----------------------------------------------------------------------------------- Kubernetes */

/* Ends for good, with the exit status of a rank that has only these variables. */
static void become_rank(const char *const *variables)
{
    clearenv();
    for (; variables[0] != NULL; variables += 2) setenv(variables[0], variables[1], 1);
    /* Deadlines for when this fails; the ranks are short. */
    setenv("TUTTI_INIT_TIMEOUT", "20s", 1);
    setenv("TUTTI_TIMEOUT", "20s", 1);
    fflush(NULL);
    execl("/proc/self/exe", "launched", "rank", NULL);
    _exit(127);
}

/* Variables of all pods (pairs), then those whose value is the pod's number, then where they
 * meet. */
static void expect_job(int pod_count, const char *const *all, const char *number, const char *host,
                       const char *port_variable)
{
    pid_t pids[8];
    char port[12]; /* not that of another test */
    snprintf(port, sizeof port, "%d", 10000 + (int)getpid() % 20000);
    for (int pod = 0; pod < pod_count; pod++) {
        fflush(NULL);
        pids[pod] = fork();
        assert_true(pids[pod] >= 0);
        if (pids[pod] != 0) continue;
        char text[12], name[64];
        const char *variables[40];
        int count = 0;
        for (; all[count] != NULL; count++) variables[count] = all[count];
        snprintf(text, sizeof text, "%d", pod);
        snprintf(name, sizeof name, "%s-%d", host, pod);
        variables[count++] = number;
        variables[count++] = text;
        variables[count++] = "HOSTNAME";
        variables[count++] = name;
        variables[count++] = port_variable;
        variables[count++] = port;
        variables[count] = NULL;
        become_rank(variables);
    }
    for (int pod = 0; pod < pod_count; pod++) {
        int status;
        assert_int_equal(waitpid(pids[pod], &status, 0), pids[pod]);
        assert_int_equal(status, 0);
    }
}

static void pods_of_a_train_job_with_one_process_each_meet(void **state)
{
    (void)state;
    static const char *const all[] = {
        "PET_NNODES", "3", "PET_NPROC_PER_NODE", "1", "PET_MASTER_ADDR", "127.0.0.1", NULL};
    expect_job(3, all, "PET_NODE_RANK", "t-node-0", "PET_MASTER_PORT");
}

static void pods_of_an_indexed_job_meet(void **state)
{
    (void)state;
    static const char *const all[] = {"TUTTI_PODS", "2", "TUTTI_RANKS_PER_POD", "1", "MASTER_ADDR",
                                      "127.0.0.1",  NULL};
    expect_job(2, all, "JOB_COMPLETION_INDEX", "sum", "MASTER_PORT");
}

static void ranks_said_by_hand_meet(void **state)
{
    (void)state;
    static const char *const all[] = {"WORLD_SIZE", "3", "MASTER_ADDR", "127.0.0.1", NULL};
    expect_job(3, all, "RANK", "sum", "MASTER_PORT");
}

static void without_a_launcher_its_name_is_null(void **state)
{
    (void)state;
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int rank = 7, size = 7, status;
        clearenv();
        status = tutti_launcher(&rank, &size) != NULL || rank != -1 || size != -1;
        status |= strstr(tutti_error_message(), "no launcher") == NULL ? 2 : 0;
        setenv("RANK", "3", 1); /* of two */
        setenv("WORLD_SIZE", "2", 1);
        status |= tutti_launcher(NULL, NULL) != NULL ? 4 : 0;
        setenv("RANK", "1", 1);
        status |= tutti_launcher(&rank, &size) == NULL || rank != 1 || size != 2 ? 8 : 0;
        _exit(status);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(int argument_count, char **arguments)
{
    if (argument_count >= 2 && strcmp(arguments[1], "rank") == 0)
        return be_rank(argument_count >= 3 ? arguments[2] : NULL,
                       argument_count >= 4 ? arguments[3] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_launcher_its_name_is_null),
        cmocka_unit_test(pods_of_a_train_job_with_one_process_each_meet),
        cmocka_unit_test(pods_of_an_indexed_job_meet),
        cmocka_unit_test(ranks_said_by_hand_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
