/* Operations that are over for a rank, or were only started by it, go on while that rank computes:
 * over TCP an operation is over when its bytes lie in links, and connections may still have to be
 * made, or made again. The test runs within one host, and between two pretended hosts.
 *
 * Every rank that has done its part computes, without calling the library, until all others have
 * done theirs.
 *
 * ctest: label=nosan label=once timeout=300 waits
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/cases.h"
#include "tests/kit/connections.h"
#include "tests/worlds/ranks.h"
#include "tests/worlds/ways.h"
#include "tutti/tutti.h"

enum { COUNT_MAX = 25000 };
enum { PATIENCE_MS = 20000 };

/* How a rank does its part; then it computes. */
enum variant { BLOCKING, WAIT, TEST, PREPARED, GROUPED, NOTIFIED, MESSAGES, VARIANT_COUNT };
static const char *const path_names[] = {"blocking", "wait",     "test",    "prepared",
                                         "grouped",  "notified", "messages"};

struct scene {
    enum variant variant;
    bool is_warm; /* connections are there */
    bool is_late; /* the root comes late: receivers ask for connections first */
    size_t count;
};

/* Of all ranks of a run. */
static struct shared {
    atomic_int through[8]; /* with each part */
} * shared;

static bool computes_until(atomic_int *through, int count)
{
    for (int ms = 0; atomic_load(through) < count; ms += 2) {
        if (ms > PATIENCE_MS) return false;
        ranks_nap_ms(2);
    }
    return true;
}

/* This rank's part is over: it computes until the others' are. */
static int compute(int part, int rank, int size)
{
    atomic_fetch_add(&shared->through[part], 1);
    RANKS_EXPECT(computes_until(&shared->through[part], size));
    return 0;
}

/* ---------------------------------------------------------------------------------------- parts */

static int start(int32_t *data, size_t count, struct tutti_comm *comm, int rank,
                 struct tutti_request **request)
{
    RANKS_EXPECT(tutti_broadcast_start(data, data, count, TUTTI_INT32, 0, NULL, comm, request) ==
                 TUTTI_OK);
    return 0;
}

static int until_tested(int32_t *data, size_t count, struct tutti_comm *comm, int rank)
{
    struct tutti_request *request;
    enum tutti_status status;
    if (start(data, count, comm, rank, &request) != 0) return 1;
    while ((status = tutti_test(&request)) == TUTTI_IN_PROGRESS) ranks_nap_ms(1);
    RANKS_EXPECT(status == TUTTI_OK);
    return 0;
}

static int until_notified(int32_t *data, size_t count, struct tutti_comm *comm, int rank)
{
    struct tutti_request *request;
    struct pollfd event = {.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
    RANKS_EXPECT(event.fd >= 0);
    if (start(data, count, comm, rank, &request) != 0) return 1;
    RANKS_EXPECT(tutti_notify(request, event.fd) == TUTTI_OK);
    RANKS_EXPECT(poll(&event, 1, PATIENCE_MS) == 1);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    close(event.fd);
    return 0;
}

static int prepared(int32_t *data, size_t count, struct tutti_comm *comm, int rank)
{
    struct tutti_prepared *operation;
    struct tutti_request *request;
    RANKS_EXPECT(tutti_broadcast_prepare(data, data, count, TUTTI_INT32, 0, NULL, comm,
                                         &operation) == TUTTI_OK);
    RANKS_EXPECT(tutti_start(operation, &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    RANKS_EXPECT(tutti_prepared_free(operation) == TUTTI_OK);
    return 0;
}

static int grouped(int32_t *data, size_t count, struct tutti_comm *comm, int rank)
{
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    RANKS_EXPECT(tutti_broadcast(data, data, count, TUTTI_INT32, 0, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    return 0;
}

static int messages(int32_t *data, size_t count, struct tutti_comm *comm, int rank, int size)
{
    for (int peer = 1; rank == 0 && peer < size; peer++)
        RANKS_EXPECT(tutti_send(data, count, TUTTI_INT32, peer, 0, comm) == TUTTI_OK);
    if (rank != 0) RANKS_EXPECT(tutti_recv(data, count, TUTTI_INT32, 0, 0, NULL, comm) == TUTTI_OK);
    return 0;
}

static int do_part(const struct scene *scene, int32_t *data, struct tutti_comm *comm, int rank,
                   int size)
{
    const size_t count = scene->count;
    struct tutti_request *request;
    switch (scene->variant) {
    case BLOCKING:
        RANKS_EXPECT(tutti_broadcast(data, data, count, TUTTI_INT32, 0, comm) == TUTTI_OK);
        return 0;
    case WAIT:
        if (start(data, count, comm, rank, &request) != 0) return 1;
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
        return 0;
    case TEST: return until_tested(data, count, comm, rank);
    case PREPARED: return prepared(data, count, comm, rank);
    case GROUPED: return grouped(data, count, comm, rank);
    case NOTIFIED: return until_notified(data, count, comm, rank);
    default: return messages(data, count, comm, rank, size);
    }
}

/* Data that each rank but the first gets from others, and is right. */
static int get_data(const struct scene *scene, int part, struct tutti_comm *comm, int rank, int size)
{
    static int32_t data[COUNT_MAX];
    for (size_t i = 0; i < scene->count; i++) data[i] = rank == 0 ? (int32_t)i + part : -1;
    if (do_part(scene, data, comm, rank, size) != 0) return 1;
    for (size_t i = 0; i < scene->count; i++) RANKS_EXPECT(data[i] == (int32_t)i + part);
    return 0;
}

/* ---------------------------------------------------------------------------------------- tests */

static const size_t counts[] = {2, 700, COUNT_MAX};

static int broadcasts(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct scene *scene = context;
    if (scene->is_warm) RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (scene->is_late && rank == 0) ranks_nap_ms(150);
    if (get_data(scene, 0, comm, rank, size) != 0) return 1;
    return compute(0, rank, size);
}

/* Their sum comes to rank 0: those who have sent theirs compute. */
static int reduces(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct scene *scene = context;
    static int32_t data[COUNT_MAX];
    struct tutti_request *request;
    for (size_t i = 0; i < scene->count; i++) data[i] = (int32_t)i + rank;
    if (scene->is_late && rank == 0) ranks_nap_ms(150);
    RANKS_EXPECT(tutti_reduce_start(data, data, scene->count, TUTTI_INT32, TUTTI_SUM, 0, NULL, comm,
                                    &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    for (size_t i = 0; rank == 0 && i < scene->count; i++)
        RANKS_EXPECT(data[i] == size * (int32_t)i + size * (size - 1) / 2);
    return compute(0, rank, size);
}

/* Another communicator's calls do not move what one has left. */
static int goes_on_beside_another(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                  void *context)
{
    (void)seed;
    const struct scene *scene = context;
    struct tutti_comm *other;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &other) == TUTTI_OK);
    if (get_data(scene, 0, comm, rank, size) != 0) return 1;
    RANKS_EXPECT(tutti_barrier(other) == TUTTI_OK);
    if (get_data(scene, 1, other, rank, size) != 0) return 1;
    if (compute(0, rank, size) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(other) == TUTTI_OK);
    return 0;
}

static int run_one(int size, ranks_function *function, struct scene *scene)
{
    const struct tutti_comm_options patient = {.size_bytes = sizeof patient,
                                               .rank = -1,
                                               .size = -1,
                                               .timeout_ns = 15000000000u,
                                               .init_timeout_ns = 20000000000u};
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .comm_options = &patient};
    memset(shared, 0, sizeof *shared);
    const int bad = ranks_run(size, &options, function, scene);
    if (bad != 0)
        fprintf(stderr, "%d ranks, %s, %zu elements%s%s: not good\n", size,
                path_names[scene->variant], scene->count, scene->is_warm ? ", warm" : "",
                scene->is_late ? ", late" : "");
    return bad;
}

static int run_paths(int size, ranks_function *function, bool is_warm, bool is_late)
{
    int bad = 0;
    for (int variant = 0; variant < VARIANT_COUNT; variant++) {
        struct scene scene = {.variant = (enum variant)variant,
                              .is_warm = is_warm,
                              .is_late = is_late,
                              .count = counts[(variant + size) % 3]};
        bad += run_one(size, function, &scene) != 0;
    }
    return bad;
}

static void what_a_rank_has_sent_arrives(void **state)
{
    (void)state;
    assert_int_equal(run_paths(2, broadcasts, false, false) + run_paths(3, broadcasts, true, false) +
                         run_paths(2, broadcasts, false, true),
                     0);
}

static void so_it_does_beside_another_communicator(void **state)
{
    (void)state;
    assert_int_equal(run_paths(2, goes_on_beside_another, false, false), 0);
}

static void those_who_come_first_go_on(void **state)
{
    (void)state;
    int bad = 0;
    for (int i = 0; i < 3; i++)
        for (int late = 0; late < 2; late++)
            bad +=
                run_one(2 + i % 2, reduces,
                        &(struct scene){.variant = WAIT, .is_late = late, .count = counts[i]}) != 0;
    assert_int_equal(bad, 0);
}

/* ---------------------------------------------------------------------------------- connections */

/* Data that lay in connections that broke is sent again over new ones, though its sender computes,
 * whichever side makes them. */
static int sends_again(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct scene *scene = context;
    int32_t data[2] = {rank, -1};
    for (int root = 0; root < 2; root++) {
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_broadcast(data, data, scene->count, TUTTI_INT32, root, comm) == TUTTI_OK);
        if (compute(2 * root, rank, size) != 0) return 1;
        data[0] = rank == root ? 7 + root : -1;
        if (rank == root) connections_cut();
        RANKS_EXPECT(tutti_broadcast(data, data, scene->count, TUTTI_INT32, root, comm) == TUTTI_OK);
        RANKS_EXPECT(data[0] == 7 + root);
        if (compute(2 * root + 1, rank, size) != 0) return 1;
    }
    return 0;
}

static void data_that_was_lost_is_sent_again(void **state)
{
    (void)state;
    assert_int_equal(run_one(2, sends_again, &(struct scene){.variant = BLOCKING, .count = 1}), 0);
}

/* -------------------------------------------------------------------------------------- leaving */

/* A rank that frees a communicator gives its peers what it has sent them, also where they come only
 * then. */
static int leaves_early(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct scene *scene = context;
    struct tutti_comm *other;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &other) == TUTTI_OK);
    if (rank != 0) ranks_nap_ms(300);
    if (get_data(scene, 0, other, rank, size) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(other) == TUTTI_OK);
    return 0;
}

/* A rank can leave while those that have taken what it sent compute. */
static int leaves_those_who_compute(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                    void *context)
{
    (void)seed, (void)context;
    struct tutti_comm *other;
    struct tutti_request *request;
    int32_t one = 1;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &other) == TUTTI_OK);
    RANKS_EXPECT(tutti_reduce_start(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, 0, NULL, other,
                                    &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    RANKS_EXPECT(rank != 0 || one == size);
    if (rank != 0) RANKS_EXPECT(tutti_comm_free(other) == TUTTI_OK);
    if (compute(0, rank, size) != 0) return 1;
    if (rank == 0) RANKS_EXPECT(tutti_comm_free(other) == TUTTI_OK);
    return 0;
}

static void a_rank_that_leaves_has_sent_everything(void **state)
{
    (void)state;
    assert_int_equal(run_paths(2, leaves_early, false, false), 0);
}

static void a_rank_that_computes_lets_others_leave(void **state)
{
    (void)state;
    const uint64_t begin_ns = clock_now_ns();
    assert_int_equal(
        run_one(3, leaves_those_who_compute, &(struct scene){.variant = WAIT, .count = 1}), 0);
    assert_true(clock_now_ns() - begin_ns < UINT64_C(10000000000)); /* not at a deadline */
}

/* ------------------------------------------------------------------------------------ the truth */

/* A process that is stopped sends nothing, though it is through with the operation: nobody's counts
 * differ. Rank 1 is the root, and is stopped before it is connected to rank 2; rank 0 has spoken to
 * both since the start. */
static int waits_for_what_does_not_come(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                        void *context)
{
    (void)seed, (void)size, (void)context;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    int32_t data = rank;
    options.algorithm = "tree";
    if (rank == 0) {
        (void)!tutti_broadcast_with(&data, &data, 1, TUTTI_INT32, 1, &options, comm);
        return !computes_until(&shared->through[0], 1);
    }
    if (rank == 2) {
        options.timeout_ns = 1500000000;
        ranks_nap_ms(500); /* the root is through with it, and is stopped */
        const enum tutti_status status =
            tutti_broadcast_with(&data, &data, 1, TUTTI_INT32, 1, &options, comm);
        RANKS_EXPECT(status == TUTTI_TIMEOUT);
        RANKS_EXPECT(strstr(tutti_error_message(), "differ") == NULL);
        atomic_fetch_add(&shared->through[0], 1);
        return 0;
    }
    const pid_t self = getpid(), other = fork();
    if (other == 0) { /* stops it, and lets it go on */
        ranks_nap_ms(200);
        kill(self, SIGSTOP);
        const bool is_over = computes_until(&shared->through[0], 1);
        kill(self, SIGCONT);
        _exit(!is_over);
    }
    RANKS_EXPECT(tutti_broadcast_with(&data, &data, 1, TUTTI_INT32, 1, &options, comm) == TUTTI_OK);
    int status = -1;
    RANKS_EXPECT(waitpid(other, &status, 0) == other && status == 0);
    return 0;
}

static void data_that_does_not_come_is_not_taken_for_less(void **state)
{
    (void)state;
    assert_int_equal(
        run_one(3, waits_for_what_does_not_come, &(struct scene){.variant = BLOCKING, .count = 1}),
        0);
}

int main(void)
{
    shared = ranks_share(sizeof *shared);
#define CASES(way)                                                                                \
    CASE_OF(what_a_rank_has_sent_arrives, way),                                                   \
        CASE_OF(so_it_does_beside_another_communicator, way),                                     \
        CASE_OF(those_who_come_first_go_on, way), CASE_OF(data_that_was_lost_is_sent_again, way), \
        CASE_OF(a_rank_that_leaves_has_sent_everything, way),                                     \
        CASE_OF(a_rank_that_computes_lets_others_leave, way),                                     \
        CASE_OF(data_that_does_not_come_is_not_taken_for_less, way)
    const struct CMUnitTest tests[] = {CASES(over_tcp_on_one_host), CASES(on_two_hosts)};
    return CASES_RUN_AT_ONCE(tests, 4);
}
