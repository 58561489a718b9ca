/* A job is started again, with the same name, address, port and secret, while ranks of its last run
 * still hang.
 *
 *     first run   meets; rank 0 ends without a word, and the others get PROC_FAILED. They do not end: they call again and again,
 *                 and look for rank 0 at the port where the second run listens now
 *     second run  meets there and works, in clear and encrypted; no rank of the first run disturbs it or becomes one of its ranks
 *
 * TUTTI_TEST_RESTARTS=N repeats the test N times, with a second run of 10 s each; the long tier repeats it 20 times.
 * ctest: label=notsan label=once timeout=900 waits */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/worlds/launched_rank.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 3, PORTS = 12, LONG_RESTARTS = 20 };
static const uint64_t SECOND_NS = 1000000000u;

/* Which rank of the first run hangs where. */
enum story {
    HANGS_AFTER_A_FAILURE, /* rank 0 has ended */
    HANGS_ON_THE_PORT /* rank 1 has; rank 0 keeps the port, and the second run's rank 0 takes the next one */
};

/* Of all processes. */
struct scene {
    int port;
    enum story story;
    uint64_t work_ns;
    bool is_encrypted;
    atomic_int summed; /* ranks of the first run, before one of them ends */
    atomic_int failed; /* survivors of the first run that have had their error */
    atomic_int ended;  /* ranks of the second run that are through */
};

static int sum(struct tutti_comm *comm, int rank, int round)
{
    int64_t values[5000];
    for (int i = 0; i < 5000; i++) values[i] = rank + i + round;
    RANKS_EXPECT(tutti_allreduce(values, values, 5000, TUTTI_INT64, TUTTI_SUM, comm) == TUTTI_OK);
    for (int i = 0; i < 5000; i++)
        RANKS_EXPECT(values[i] == (int64_t)RANKS * (i + round) + RANKS * (RANKS - 1) / 2);
    return 0;
}

static int first_run(struct scene *scene, int rank)
{
    const int victim = scene->story == HANGS_AFTER_A_FAILURE ? 0 : 1;
    struct tutti_comm *comm;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.init_timeout_ns = 60 * SECOND_NS;
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    if (sum(comm, rank, 1) != 0) return 1;
    ranks_meet(&scene->summed, RANKS);
    if (rank == victim) raise(SIGKILL);
    int64_t value = 0;
    enum tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK)
        status = tutti_allreduce(&value, &value, 1, TUTTI_INT64, TUTTI_SUM, comm);
    fprintf(stderr, "first run, rank %d: %s: %s\n", rank, tutti_status_name(status),
            tutti_error_message());
    RANKS_EXPECT(status == TUTTI_PROC_FAILED);
    atomic_fetch_add(&scene->failed, 1);
    while (atomic_load(&scene->ended) < RANKS) {
        uint64_t word = 1;
        RANKS_EXPECT(tutti_allreduce(&value, &value, 1, TUTTI_INT64, TUTTI_SUM, comm) != TUTTI_OK);
        /* Nobody else comes to it. */
        RANKS_EXPECT(rank != RANKS - 1 || tutti_comm_agree(comm, &word) != TUTTI_OK);
        ranks_nap_ms(1);
    }
    return 0; /* as it hangs: without freeing anything */
}

static int second_run(struct scene *scene, int rank)
{
    struct tutti_comm *comm, *copy;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.init_timeout_ns = options.timeout_ns = 60 * SECOND_NS;
    while (atomic_load(&scene->failed) < RANKS - 1) ranks_nap_ms(1);
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
    const uint64_t end_ns = clock_now_ns() + scene->work_ns;
    int32_t goes_on = 1;
    for (int round = 0; goes_on != 0; round++) {
        if (sum(comm, rank, round) != 0 || sum(copy, rank, round) != 0) return 1;
        goes_on = clock_now_ns() < end_ns;
        RANKS_EXPECT(tutti_broadcast(&goes_on, &goes_on, 1, TUTTI_INT32, 0, comm) == TUTTI_OK);
        ranks_nap_ms(1);
    }
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static int play(struct tutti_comm *none, int number, int size, uint64_t seed, void *context)
{
    struct scene *scene = context;
    char range[32];
    (void)none, (void)size, (void)seed;
    launched_rank_become(&(struct launched_rank){
        .rank = number % RANKS, .size = RANKS, .hosts = RANKS, .port = scene->port});
    snprintf(range, sizeof range, "%d-%d", scene->port + 4, scene->port + PORTS - 1);
    setenv("TUTTI_PORT_RANGE", range, 1);
    setenv("TUTTI_SECRET", "the secret of both runs of this job", 1);
    setenv("TUTTI_ENCRYPTION", scene->is_encrypted ? "on" : "off", 1);
    if (number < RANKS) return first_run(scene, number);
    const int result = second_run(scene, number - RANKS);
    atomic_fetch_add(&scene->ended, 1);
    return result;
}

/* ------------------------------------------------------------------------------------ the tests */

static int find_ports(void)
{
    const int port = launched_rank_find_ports(PORTS);
    if (port < 0) fail_msg("there are no %d free ports", PORTS);
    return port;
}

static int rounds(void)
{
    const char *said = getenv("TUTTI_TEST_RESTARTS"), *is_long = getenv("TUTTI_LONG");
    if (said != NULL) return atoi(said);
    return is_long != NULL && *is_long != '\0' ? LONG_RESTARTS : 0;
}

static void restart(enum story story, bool is_encrypted)
{
    const int victim = story == HANGS_AFTER_A_FAILURE ? 0 : 1;
    const int round_count = rounds() > 0 ? rounds() : 1;
    for (int round = 0; round < round_count; round++) {
        struct ranks_outcome outcomes[2 * RANKS];
        const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                              .deadline_ms = 200000,
                                              .without_comm = true,
                                              .outcomes = outcomes};
        struct scene *scene = ranks_share(sizeof *scene);
        scene->port = find_ports();
        scene->story = story;
        scene->is_encrypted = is_encrypted;
        scene->work_ns = rounds() > 0 ? 10 * SECOND_NS : 2 * SECOND_NS;
        assert_int_equal(ranks_run(2 * RANKS, &options, play, scene), 1);
        for (int i = 0; i < 2 * RANKS; i++)
            assert_int_equal(outcomes[i].fate, i == victim ? RANKS_SIGNALLED : RANKS_GOOD);
        munmap(scene, sizeof *scene);
    }
}

static void ranks_that_hang_after_a_failure_do_not_disturb(void **state)
{
    (void)state;
    restart(HANGS_AFTER_A_FAILURE, false);
}

static void nor_do_they_where_all_is_encrypted(void **state)
{
    (void)state;
    restart(HANGS_AFTER_A_FAILURE, true);
}

static void nor_does_a_rank_0_that_keeps_the_port(void **state)
{
    (void)state;
    restart(HANGS_ON_THE_PORT, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_hang_after_a_failure_do_not_disturb),
        cmocka_unit_test(nor_do_they_where_all_is_encrypted),
        cmocka_unit_test(nor_does_a_rank_0_that_keeps_the_port),
    };
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
