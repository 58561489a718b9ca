/* A sandbox denies a rank a system call that it needs to meet the others, as seccomp filters do:
 * the rank does not wait for its deadline, and its error says what was denied.
 *
 * The functions below fail on one rank (cmake/tests.cmake).
 *
 * ctest: label=notsan waits */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worlds/ranks.h"

enum { RANKS = 3 };
static const uint64_t SECOND = 1000000000u;

enum denial { NOTHING, ACCEPT_LOCAL, ACCEPT_TCP, WHO_IS_THERE, IS_CONNECTED };
static enum denial denied;   /* to this process */
static atomic_bool *is_over; /* the victim is through */

int __real_getsockopt(int, int, int, void *, socklen_t *);
int __wrap_getsockopt(int, int, int, void *, socklen_t *);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
    if (level == SOL_SOCKET && ((denied == WHO_IS_THERE && option == SO_PEERCRED) ||
                                (denied == IS_CONNECTED && option == SO_ERROR))) {
        errno = EPERM;
        return -1;
    }
    return __real_getsockopt(fd, level, option, value, bytes);
}

static bool is_local(int fd)
{
    int domain = 0;
    socklen_t bytes = sizeof domain;
    return __real_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX;
}

int __real_accept4(int, struct sockaddr *, socklen_t *, int);
int __wrap_accept4(int, struct sockaddr *, socklen_t *, int);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    if (denied == (is_local(fd) ? ACCEPT_LOCAL : ACCEPT_TCP)) {
        errno = EPERM;
        return -1;
    }
    return __real_accept4(fd, address, bytes, flags);
}

struct scene {
    struct tutti_id id;
    enum denial denial;
    int victim;
    const char *words;
};

/* Ranks other than the victim miss it, for as long as it takes. */
static void *end_with_victim(void *unused)
{
    (void)unused;
    while (!atomic_load(is_over)) ranks_nap_ms(1);
    _exit(0);
}

static int meet(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct scene *const scene = context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.id = &scene->id;
    options.init_timeout_ns = 100 * SECOND;
    options.timeout_ns = 100 * SECOND;
    pthread_t thread;
    if (rank == scene->victim)
        denied = scene->denial;
    else
        RANKS_EXPECT(pthread_create(&thread, NULL, end_with_victim, NULL) == 0);
    enum tutti_status status = tutti_comm_create(&options, &comm);
    if (status == TUTTI_OK) status = tutti_barrier(comm);
    if (rank == scene->victim) atomic_store(is_over, true);
    while (rank != scene->victim) ranks_nap_ms(1);
    RANKS_EXPECT(status == TUTTI_SYSTEM);
    RANKS_EXPECT(strstr(tutti_error_message(), scene->words) != NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), "Operation not permitted") != NULL);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void expect_named(enum denial denial, int victim, const char *words)
{
    struct ranks_outcome outcomes[RANKS];
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 30000, .without_comm = true, .outcomes = outcomes};
    struct scene scene = {.denial = denial, .victim = victim, .words = words};
    assert_int_equal(tutti_id_create(&scene.id), TUTTI_OK);
    atomic_store(is_over, false);
    (void)ranks_run(RANKS, &options, meet, &scene);
    assert_int_equal(outcomes[victim].fate, RANKS_GOOD);
}

static void a_rank_that_may_not_let_others_in_says_so(void **state)
{
    (void)state;
    expect_named(ACCEPT_LOCAL, 0, "a rank cannot be let in");
}

static void a_rank_that_may_not_ask_who_is_there_says_so(void **state)
{
    (void)state;
    for (int victim = 0; victim < RANKS; victim++)
        expect_named(WHO_IS_THERE, victim, "which process is at the other end");
}

static void a_rank_that_may_not_accept_over_tcp_says_so(void **state)
{
    (void)state;
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    expect_named(ACCEPT_TCP, 0, "accepting a connection");
    unsetenv("TUTTI_TRANSPORT");
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    expect_named(ACCEPT_TCP, 0, "accepting a connection");
    unsetenv("TUTTI_TEST_HOSTS");
}

static void a_rank_that_may_not_ask_whether_it_is_connected_says_so(void **state)
{
    (void)state;
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    expect_named(IS_CONNECTED, RANKS - 1, "is made");
    unsetenv("TUTTI_TRANSPORT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_may_not_let_others_in_says_so),
        cmocka_unit_test(a_rank_that_may_not_ask_who_is_there_says_so),
        cmocka_unit_test(a_rank_that_may_not_accept_over_tcp_says_so),
        cmocka_unit_test(a_rank_that_may_not_ask_whether_it_is_connected_says_so),
    };
    is_over = ranks_share(sizeof *is_over);
    setenv("TUTTI_SECRET", "a secret of this test alone", 1);
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
