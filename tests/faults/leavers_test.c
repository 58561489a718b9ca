/* leavers_test.c - a rank that left, or a full mailbox, is blamed only after what had been said was
 * read.
 *
 * Each test lets a peer speak and leave while rank 0 reads nothing, so that both lie there for one
 * look: rank 0 keeps the domain, or claims it, so its own progress thread reads nothing either.
 * Where ranks of one host use connections, one leads through slow proxies instead: there the board
 * shows that a rank has left before its last bytes are there.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "call/message.h"
#include "call/progress.h"
#include "health/known.h"
#include "health/lock.h"
#include "os/clock.h"
#include "p2p/p2p.h"
#include "tests/worlds/proxy.h"
#include "tests/worlds/ranks.h"
#include "transport/tcp/endpoint_state.h"

static const uint64_t SECOND = 1000000000u;

struct shared {
    atomic_bool is_ready; /* rank 0 reads nothing from now on but what the test asks for */
    atomic_bool has_left;
};

static int run(int size, ranks_function *function)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = comm_options.init_timeout_ns = 30 * SECOND;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .comm_options = &comm_options};
    return ranks_run(size, &options, function, ranks_share(sizeof(struct shared)));
}

static bool comes_true(atomic_bool *flag)
{
    for (int ms = 0; ms < 20000 && !atomic_load(flag); ms++) ranks_nap_ms(1);
    return atomic_load(flag);
}

/* ------------------------------------------------------------------------------------- messages */

enum { BYTES = 200000 }; /* goes by reference: the buffer is free when the receiver says so */

/* With the domain held: sends everything, and does not read that it was received. */
static int send_without_reading(struct tutti_comm *comm, int rank)
{
    struct transport *const tcp = ((struct endpoint *)comm->team.transports.set.tcp)->tcp;
    const uint64_t deadline_ns = clock_now_ns() + 10 * SECOND;
    do { /* the first pass may have to begin it */
        calls_progress(comm);
        RANKS_EXPECT(clock_now_ns() < deadline_ns);
    } while (comm->messages.p2p == NULL || !p2p_is_referenced(comm->messages.p2p));
    while (!tcp_is_idle(tcp)) {
        tcp->ops->sleep_begin(tcp); /* it only writes */
        tcp->ops->sleep_cancel(tcp);
        RANKS_EXPECT(clock_now_ns() < deadline_ns);
    }
    while (known_state(&comm->health, 1) != RANK_LEFT) {
        ranks_nap_ms(1);
        RANKS_EXPECT(clock_now_ns() < deadline_ns);
    }
    return 0;
}

static int send_to_a_leaver(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)size, (void)seed;
    static char data[BYTES];
    struct shared *const shared = context;
    struct tutti_request *request;
    if (rank == 1) {
        RANKS_EXPECT(comes_true(&shared->is_ready));
        RANKS_EXPECT(tutti_recv(data, BYTES, TUTTI_INT8, 0, 1, NULL, comm) == TUTTI_OK);
        return 0;
    }
    RANKS_EXPECT(tutti_send_start(data, BYTES, TUTTI_INT8, 1, 1, NULL, comm, &request) == TUTTI_OK);
    RANKS_EXPECT(health_lock(&comm->health, 10 * SECOND) == TUTTI_OK);
    atomic_store(&shared->is_ready, true);
    const int failed = send_without_reading(comm, rank);
    const bool was_done = request_message(request)->message.done;
    if (failed == 0) diagnose_message(comm, request_message(request), clock_now_ns());
    health_unlock(&comm->health);
    RANKS_EXPECT(failed == 0 && !was_done);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    return 0;
}

static void a_rank_that_received_a_message_and_left_has_received_it(void **state)
{
    (void)state;
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    const int bad = run(2, send_to_a_leaver);
    unsetenv("TUTTI_TRANSPORT");
    assert_int_equal(bad, 0);
}

enum { SMALL = 100, MANY = 100 }; /* of which the mailbox holds a part */

/* With the domain held: rank 1 fills the mailbox, then rank 2 sends what is waited for, and
 * leaves. */
static int wait_without_reading(struct tutti_comm *comm, int rank, struct shared *shared)
{
    const uint64_t deadline_ns = clock_now_ns() + 10 * SECOND;
    do {
        calls_progress(comm);
        RANKS_EXPECT(clock_now_ns() < deadline_ns);
    } while (comm->messages.p2p == NULL || p2p_held_back(comm->messages.p2p, 1) < 0);
    atomic_store(&shared->is_ready, true);
    while (known_state(&comm->health, 2) != RANK_LEFT) {
        ranks_nap_ms(1);
        RANKS_EXPECT(clock_now_ns() < deadline_ns);
    }
    return 0;
}

static int fill_the_mailbox_beside_a_leaver(struct tutti_comm *comm, int rank, int size,
                                            uint64_t seed, void *context)
{
    (void)size, (void)seed;
    static char data[SMALL];
    struct shared *const shared = context;
    struct tutti_request *request;
    if (rank == 1)
        for (int i = 0; i < MANY; i++)
            RANKS_EXPECT(tutti_send(data, SMALL, TUTTI_INT8, 0, 1, comm) == TUTTI_OK);
    if (rank == 2) {
        RANKS_EXPECT(comes_true(&shared->is_ready));
        RANKS_EXPECT(tutti_send(data, SMALL, TUTTI_INT8, 0, 2, comm) == TUTTI_OK);
    }
    if (rank != 0) return 0;
    RANKS_EXPECT(tutti_recv_start(data, SMALL, TUTTI_INT8, TUTTI_ANY_RANK, 2, NULL, NULL, comm,
                                  &request) == TUTTI_OK);
    RANKS_EXPECT(health_lock(&comm->health, 10 * SECOND) == TUTTI_OK);
    const int failed = wait_without_reading(comm, rank, shared);
    const bool was_done = request_message(request)->message.done;
    atomic_store(&request->is_waited_for, true);
    request->started_ns =
        clock_now_ns() - 5 * SECOND; /* long enough for a full mailbox to be blamed */
    if (failed == 0) diagnose_message(comm, request_message(request), clock_now_ns());
    health_unlock(&comm->health);
    RANKS_EXPECT(failed == 0 && !was_done);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    for (int i = 0; i < MANY; i++)
        RANKS_EXPECT(tutti_recv(data, SMALL, TUTTI_INT8, 1, 1, NULL, comm) == TUTTI_OK);
    return 0;
}

static void a_full_mailbox_is_not_blamed_for_what_a_leaver_has_sent(void **state)
{
    (void)state;
    setenv("TUTTI_UNEXPECTED", "4k", 1);
    const int bad = run(3, fill_the_mailbox_beside_a_leaver);
    unsetenv("TUTTI_UNEXPECTED");
    assert_int_equal(bad, 0);
}

/* ---------------------------------------------------------------------------------- derivations */

/* Rank 1 aborts and leaves; rank 0 hears of both for the first time when it waits for rank 1 at a
 * derivation. */
static int derive_from_what_failed(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                   void *context)
{
    (void)size, (void)seed;
    struct shared *const shared = context;
    struct tutti_comm *copy, *group = NULL;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(copy) == TUTTI_OK);
    if (rank == 1) {
        RANKS_EXPECT(comes_true(&shared->is_ready));
        RANKS_EXPECT(tutti_comm_abort(copy, "the reason") == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
        atomic_store(&shared->has_left, true);
        return 0;
    }
    RANKS_EXPECT(health_lock(&copy->health, 10 * SECOND) == TUTTI_OK);
    atomic_store(&shared->is_ready, true);
    RANKS_EXPECT(comes_true(&shared->has_left));
    RANKS_EXPECT(!board_has_failed(copy->health.board) && known_state(&copy->health, 1) != RANK_LEFT);
    /* Held up to here: the progress thread may have seen that nobody wants the domain, and come
     * late. */
    domain_want(&copy->team.domain);
    health_unlock(&copy->health);
    const enum tutti_status status = tutti_comm_group(copy, (const int[]){0, 1}, 2, NULL, &group);
    domain_want_no_more(&copy->team.domain);
    RANKS_EXPECT(status == TUTTI_ABORTED && strstr(tutti_error_message(), "the reason") != NULL);
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    return 0;
}

static void a_derivation_says_why_its_parent_failed_not_who_left(void **state)
{
    (void)state;
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    const int bad = run(2, derive_from_what_failed);
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(bad, 0);
}

/* ---------------------------------------------------------------------------- deaths of several */

enum { PATIENCE_S = 60 }; /* far beyond what it takes to find out that a process is dead */

static bool is_stopped(pid_t pid)
{
    char name[64], text[512] = "";
    snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
    FILE *const file = fopen(name, "r");
    if (file == NULL) return false;
    const size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    const char *const state = size > 0 ? strrchr(text, ')') : NULL;
    return state != NULL && state[1] != 0 && state[2] == 'T';
}

/* Ranks 1 and 2 are stopped, so they do not receive what rank 0 sends them, and die. Rank 0 leaves
 * without waiting for either of them. */
static int leave_behind_two_deaths(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                   void *context)
{
    (void)seed;
    static char data[SMALL];
    _Atomic pid_t *const pids = context;
    struct tutti_comm *copy;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
    atomic_store(&pids[rank], getpid());
    RANKS_EXPECT(tutti_barrier(copy) == TUTTI_OK);
    if (rank != 0) return raise(SIGSTOP);
    for (int r = 1; r < size; r++)
        for (int ms = 0; ms < 20000 && !is_stopped(atomic_load(&pids[r])); ms++) ranks_nap_ms(1);
    for (int r = 1; r < size; r++) {
        RANKS_EXPECT(tutti_send(data, SMALL, TUTTI_INT8, r, 1, copy) == TUTTI_OK);
        RANKS_EXPECT(kill(atomic_load(&pids[r]), SIGKILL) == 0);
    }
    const uint64_t begin_ns = clock_now_ns();
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    RANKS_EXPECT(clock_now_ns() - begin_ns < (PATIENCE_S - 10) * SECOND);
    return 0;
}

static void a_rank_that_leaves_waits_for_none_of_several_dead_ranks(void **state)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = comm_options.init_timeout_ns = PATIENCE_S * SECOND;
    struct ranks_outcome outcomes[3];
    const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                          .deadline_ms = 2 * PATIENCE_S * 1000,
                                          .comm_options = &comm_options,
                                          .outcomes = outcomes};
    (void)state;
    setenv("TUTTI_TEST_HOSTS", "3", 1);
    (void)ranks_run(3, &options, leave_behind_two_deaths, ranks_share(3 * sizeof(_Atomic pid_t)));
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(outcomes[0].fate, RANKS_GOOD);
}

/* ----------------------------------------------------------------------------- slow connections */

static atomic_bool are_proxied, are_slow;
static long nap_ms; /* for each part of what goes on */

static void take_time(char *bytes, size_t count, bool is_answer)
{
    (void)bytes, (void)count, (void)is_answer;
    if (atomic_load(&are_slow)) ranks_nap_ms(nap_ms);
}

/* Takes the place of the C library's: all that is called by this program comes here. */
int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t bytes)
{
    const struct sockaddr *address = to.__sockaddr__;
    struct sockaddr_in at;
    if (atomic_load(&are_proxied) && address->sa_family == AF_INET &&
        proxy_start(address, take_time, &at))
        return (int)syscall(SYS_connect, fd, &at, (socklen_t)sizeof at);
    return (int)syscall(SYS_connect, fd, address, bytes);
}

static int exchange_and_leave(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)rank, (void)seed, (void)context;
    char *const send = calloc((size_t)size, BYTES), *const recv = calloc((size_t)size, BYTES);
    RANKS_EXPECT(send != NULL && recv != NULL);
    RANKS_EXPECT(tutti_alltoall(send, recv, BYTES, TUTTI_UINT8, comm) == TUTTI_OK);
    atomic_store(&are_slow, true);
    RANKS_EXPECT(tutti_alltoall(send, recv, BYTES, TUTTI_UINT8, comm) == TUTTI_OK);
    free(send);
    free(recv);
    return 0;
}

static void expect_to_arrive(long ms)
{
    nap_ms = ms;
    are_proxied = true;
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    const int bad = run(3, exchange_and_leave);
    unsetenv("TUTTI_TRANSPORT");
    are_proxied = false;
    assert_int_equal(bad, 0);
}

static void what_is_on_its_way_when_a_rank_leaves_arrives(void **state)
{
    (void)state;
    expect_to_arrive(20);
}

/* Over all it takes longer than a rank may be silent that has left. */
static void and_if_it_comes_very_slowly(void **state)
{
    (void)state;
    const char *const is_long = getenv("TUTTI_LONG");
    if (is_long == NULL || strcmp(is_long, "1") != 0) skip();
    expect_to_arrive(4000);
}

/* Ranks are through with a derivation one after the other; the first ones leave the parent while others still hear
 * that all have come. */
static int leave_parents(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    enum { ROUNDS = 30 };
    struct tutti_comm *parent, *child;
    (void)seed, (void)context;
    for (int i = 0; i < ROUNDS; i++) {
        int value = 1;
        RANKS_EXPECT(tutti_comm_dup(comm, NULL, &parent) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_split(parent, 0, i % 2 == 0 ? rank : -rank, NULL, &child) ==
                     TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(parent) == TUTTI_OK);
        RANKS_EXPECT(tutti_allreduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, child) == TUTTI_OK);
        RANKS_EXPECT(value == size);
        RANKS_EXPECT(tutti_comm_free(child) == TUTTI_OK);
    }
    return 0;
}

static void who_is_through_may_leave_the_parent(void **state)
{
    (void)state;
    setenv("TUTTI_TEST_HOSTS", "3", 1);
    const int bad = run(6, leave_parents);
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_received_a_message_and_left_has_received_it),
        cmocka_unit_test(a_full_mailbox_is_not_blamed_for_what_a_leaver_has_sent),
        cmocka_unit_test(what_is_on_its_way_when_a_rank_leaves_arrives),
        cmocka_unit_test(and_if_it_comes_very_slowly),
        cmocka_unit_test(a_derivation_says_why_its_parent_failed_not_who_left),
        cmocka_unit_test(who_is_through_may_leave_the_parent),
        cmocka_unit_test(a_rank_that_leaves_waits_for_none_of_several_dead_ranks),
    };
    setenv("TUTTI_LOG", "off", 0);
    setenv("TUTTI_SECRET", "only the ranks of this test know it", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
