/* A rank that has no descriptor left cannot even meet the others for a new communicator. They hear
 * of it at once, through the old one, which goes on, as does one beside it; and when the rank has
 * descriptors again, the same call succeeds.
 *
 * ctest: label=notsan waits */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/cases.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 4 };
static const uint64_t SECOND = 1000000000u;

typedef enum tutti_status derive_function(struct tutti_comm *comm, struct tutti_comm **made);

static enum tutti_status dup_all(struct tutti_comm *comm, struct tutti_comm **made)
{
    return tutti_comm_dup(comm, NULL, made);
}

static enum tutti_status group_all(struct tutti_comm *comm, struct tutti_comm **made)
{
    const int ranks[RANKS] = {2, 0, 3, 1};
    return tutti_comm_group(comm, ranks, RANKS, NULL, made);
}

/* Takes all descriptors that are left below the limit; returns the limit there was. */
static struct rlimit starve(void)
{
    struct rlimit was, none;
    if (getrlimit(RLIMIT_NOFILE, &was) != 0) abort();
    none = was;
    for (none.rlim_cur = 0; fcntl((int)none.rlim_cur, F_GETFD) >= 0;) none.rlim_cur++;
    if (setrlimit(RLIMIT_NOFILE, &none) != 0) abort();
    return was;
}

struct scene {
    derive_function *derive;
    int starved;
};

static int derive_starved(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct scene *const scene = context;
    struct tutti_comm *made = comm, *beside = NULL;
    int32_t one[RANKS] = {1, 1, 1, 1}, all[RANKS], sum = 0;
    struct tutti_call_options directly = TUTTI_CALL_OPTIONS_INIT;
    directly.algorithm = "pairwise";
    char who[32];
    snprintf(who, sizeof who, "rank %d (", scene->starved);
    /* Connections between hosts are there before the descriptors go: each rank has something of
     * each. */
    RANKS_EXPECT(tutti_alltoall_with(one, all, 1, TUTTI_INT32, &directly, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &beside) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    struct rlimit was = {0};
    if (rank == scene->starved) was = starve();
    const uint64_t begin_ns = clock_now_ns();
    const enum tutti_status status = scene->derive(comm, &made);
    const uint64_t took_ns = clock_now_ns() - begin_ns;
    if (rank == 1 && scene->starved == 1)
        nanosleep(&(struct timespec){.tv_sec = 2}, NULL); /* heartbeats */
    if (rank == scene->starved && setrlimit(RLIMIT_NOFILE, &was) != 0) abort();
    RANKS_EXPECT(status == TUTTI_NO_DESCRIPTORS && made == NULL);
    RANKS_EXPECT(rank == scene->starved || strstr(tutti_error_message(), who) != NULL);
    RANKS_EXPECT(took_ns < 60 * SECOND); /* the deadline is later */
    RANKS_EXPECT(tutti_allreduce(one, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(sum == size);
    /* Heartbeats have wanted connections of this one, which had none. */
    RANKS_EXPECT(tutti_allreduce(one, &sum, 1, TUTTI_INT32, TUTTI_SUM, beside) == TUTTI_OK);
    RANKS_EXPECT(sum == size && tutti_comm_free(beside) == TUTTI_OK);
    RANKS_EXPECT(scene->derive(comm, &made) == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(one, &sum, 1, TUTTI_INT32, TUTTI_SUM, made) == TUTTI_OK);
    RANKS_EXPECT(sum == size && tutti_comm_free(made) == TUTTI_OK);
    return 0;
}

static void run(const char *hosts, derive_function *derive, int starved)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.init_timeout_ns = 120 * SECOND;
    comm_options.timeout_ns = 30 * SECOND;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 90000, .comm_options = &comm_options};
    struct scene scene = {derive, starved};
    setenv("TUTTI_TEST_HOSTS", hosts, 1);
    assert_int_equal(ranks_run(RANKS, &options, derive_starved, &scene), 0);
    unsetenv("TUTTI_TEST_HOSTS");
}

/* Rank 2 sends something to rank 1, with which it has no connection yet, and has no descriptor for
 * it. It leaves, and does not wait long for what cannot go; rank 1 does not wait until its
 * deadline. */
static int owe(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)size, (void)context;
    struct tutti_comm *made = NULL;
    int32_t word = 7;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &made) == TUTTI_OK);
    struct rlimit was = {0};
    if (rank == 2) was = starve();
    const uint64_t begin_ns = clock_now_ns();
    enum tutti_status status = TUTTI_NO_DESCRIPTORS;
    if (rank == 2) {
        status = tutti_send(&word, 1, TUTTI_INT32, 1, 0, made);
        RANKS_EXPECT(status == TUTTI_OK || status == TUTTI_NO_DESCRIPTORS);
    } else if (rank == 1) {
        status = tutti_recv(&word, 1, TUTTI_INT32, 2, 0, NULL, made);
        RANKS_EXPECT(status == TUTTI_NO_DESCRIPTORS);
        RANKS_EXPECT(strstr(tutti_error_message(), "found by rank 2") != NULL);
    }
    if (rank == 2) (void)!tutti_comm_free(made);
    RANKS_EXPECT(clock_now_ns() - begin_ns < 20 * SECOND); /* the deadline is later */
    if (rank == 2 && setrlimit(RLIMIT_NOFILE, &was) != 0) abort();
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank != 2) (void)!tutti_comm_free(made);
    return 0;
}

static void who_owes_data_that_cannot_go_says_so(void **state)
{
    (void)state;
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.init_timeout_ns = comm_options.timeout_ns = 40 * SECOND;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 90000, .comm_options = &comm_options};
    setenv("TUTTI_TEST_HOSTS", "4", 1);
    assert_int_equal(ranks_run(RANKS, &options, owe, NULL), 0);
    unsetenv("TUTTI_TEST_HOSTS");
}

static void the_others_hear_of_it_at_once(void **state)
{
    (void)state;
    for (int starved = 0; starved < RANKS; starved += 3) {
        run("1", dup_all, starved);
        run("1", group_all, starved);
    }
}

static void ranks_of_other_hosts_hear_of_it_at_once(void **state)
{
    (void)state;
    for (int starved = 0; starved < RANKS; starved += 3) {
        run("4", dup_all, 1);
        run("2", dup_all, starved);
        run("2", group_all, starved);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_others_hear_of_it_at_once),
        cmocka_unit_test(ranks_of_other_hosts_hear_of_it_at_once),
        cmocka_unit_test(who_owes_data_that_cannot_go_says_so),
    };
    return CASES_RUN_AT_ONCE(tests, 4);
}
