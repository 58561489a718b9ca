/* A stranger takes a dead rank's port: it listens there at once and answers every hello without the
 * job's key. Survivors must report that the rank died, which is true, and nothing that the stranger
 * says. If a stranger has the first of rank 0's ports before the start, start-up goes on at the
 * next port.
 *
 *     refusal   16 bytes: "you do not have this job's key"
 *     answer    an ANSWER of the right form, whose mac is made up
 *     garbage   another protocol
 *     silence   nothing
 *
 * ctest: label=notsan label=once timeout=300 waits */
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "connect/hello.h"
#include "os/clock.h"
#include "tests/kit/cases.h"
#include "tests/worlds/launched_rank.h"
#include "tests/worlds/ranks.h"

enum { RANKS_MAX = 3, PORTS = 12, CONNECTIONS_MAX = 256, KIND_REFUSAL = 9 };
static const uint64_t SECOND_NS = 1000000000u;

enum says { SAYS_REFUSAL, SAYS_ANSWER, SAYS_GARBAGE, SAYS_NOTHING, SAYS_COUNT };

/* Of all processes. */
struct scene {
    int port, ranks;
    enum says says;
    bool is_early;      /* the stranger has the port before anybody starts */
    atomic_int met;     /* ranks, before rank 0 dies */
    atomic_int listens; /* the stranger does */
    atomic_int greeted; /* connections that it answered */
    atomic_int ended;   /* ranks that are through */
    atomic_int missed;  /* ranks that knew the truth before the stranger listened */
};

/* --------------------------------------------------------------------------------- the stranger */

static int take_port(struct scene *scene)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)scene->port),
                                   .sin_addr.s_addr = htonl(INADDR_ANY)};
    const uint64_t deadline_ns = clock_now_ns() + 60 * SECOND_NS;
    while (clock_now_ns() < deadline_ns) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 64) == 0)
            return fd;
        close(fd);
        ranks_nap_ms(1);
    }
    return -1;
}

static void answer(int fd, enum says says)
{
    static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    char bytes[HELLO_ANSWER_BYTES] = "TUTTIHI1";
    bytes[8] = says == SAYS_REFUSAL ? KIND_REFUSAL : 2;
    memset(bytes + 40, 0x5a, sizeof bytes - 40); /* a nonce and a mac */
    if (says == SAYS_NOTHING) return;
    if (says == SAYS_GARBAGE)
        (void)!send(fd, http, sizeof http - 1, MSG_NOSIGNAL);
    else
        (void)!send(fd, bytes, says == SAYS_REFUSAL ? 16 : sizeof bytes, MSG_NOSIGNAL);
}

static int be_stranger(struct scene *scene)
{
    int connections[CONNECTIONS_MAX], listener = take_port(scene);
    unsigned count = 0;
    if (listener < 0) return 1;
    for (int i = 0; i < CONNECTIONS_MAX; i++) connections[i] = -1;
    atomic_store(&scene->listens, 1);
    while (atomic_load(&scene->ended) < scene->ranks - (scene->is_early ? 0 : 1)) {
        struct pollfd entry = {listener, POLLIN, 0};
        if (poll(&entry, 1, 50) <= 0) continue;
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) continue;
        answer(fd, (enum says)scene->says);
        atomic_fetch_add(&scene->greeted, 1);
        if (connections[count % CONNECTIONS_MAX] >= 0) close(connections[count % CONNECTIONS_MAX]);
        connections[count++ % CONNECTIONS_MAX] = fd; /* the ranks close */
    }
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        if (connections[i] >= 0) close(connections[i]);
    close(listener);
    return 0;
}

/* ------------------------------------------------------------------------------------ the ranks */

static int survive(struct scene *scene, struct tutti_comm *comm, int rank)
{
    int64_t value = 1;
    enum tutti_status status = TUTTI_OK;
    const uint64_t begin_ns = clock_now_ns();
    while (status == TUTTI_OK)
        status = tutti_allreduce(&value, &value, 1, TUTTI_INT64, TUTTI_MAX, comm);
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    printf("rank %d, after %.1f s: %s: %s\n", rank, (double)(clock_now_ns() - begin_ns) * 1e-9,
           tutti_status_name(status), tutti_error_message());
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT(status == TUTTI_PROC_FAILED && failure.culprit == 0);
    if (atomic_load(&scene->listens) == 0) atomic_fetch_add(&scene->missed, 1);
    return 0;
}

static int be_rank(struct scene *scene, int rank)
{
    struct tutti_comm *comm;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    int64_t value = rank;
    options.init_timeout_ns = options.timeout_ns = 60 * SECOND_NS;
    while (scene->is_early && atomic_load(&scene->listens) == 0) ranks_nap_ms(1);
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(&value, &value, 1, TUTTI_INT64, TUTTI_MAX, comm) == TUTTI_OK);
    RANKS_EXPECT(value == scene->ranks - 1);
    if (!scene->is_early) ranks_meet(&scene->met, scene->ranks);
    if (!scene->is_early) ranks_nap_ms(700); /* until hosts have heard of each other */
    if (rank == 0 && !scene->is_early) raise(SIGKILL);
    if (!scene->is_early && survive(scene, comm, rank) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static int play(struct tutti_comm *none, int number, int size, uint64_t seed, void *context)
{
    struct scene *scene = context;
    char range[32];
    (void)none, (void)size, (void)seed;
    if (number == scene->ranks) {
        if (!scene->is_early) ranks_nap_ms(100); /* rank 0 first */
        return be_stranger(scene);
    }
    launched_rank_become(&(struct launched_rank){
        .rank = number, .size = scene->ranks, .hosts = scene->ranks, .port = scene->port});
    snprintf(range, sizeof range, "%d-%d", scene->port + 4, scene->port + PORTS - 1);
    setenv("TUTTI_PORT_RANGE", range, 1);
    setenv("TUTTI_SECRET", "only the ranks of this test know it", 1);
    const int result = be_rank(scene, number);
    atomic_fetch_add(&scene->ended, 1);
    return result;
}

/* ------------------------------------------------------------------------------------ the tests */

/* Whether the stranger was there in time. */
static bool play_once(int ranks, enum says says, bool is_early)
{
    struct ranks_outcome outcomes[RANKS_MAX + 1];
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 150000, .without_comm = true, .outcomes = outcomes};
    struct scene *scene = ranks_share(sizeof *scene);
    scene->port = launched_rank_find_ports(PORTS);
    if (scene->port < 0) fail_msg("there are no %d free ports", PORTS);
    scene->ranks = ranks;
    scene->says = says;
    scene->is_early = is_early;
    const int bad = ranks_run(ranks + 1, &options, play, scene);
    const bool is_in_time = scene->missed == 0 && scene->greeted > 0;
    printf("%d ranks, stranger %d: %d connections%s\n", ranks, (int)says, scene->greeted,
           is_in_time ? "" : ", too late");
    assert_int_equal(bad, is_early ? 0 : 1);
    if (!is_early) assert_int_equal(outcomes[0].fate, RANKS_SIGNALLED);
    munmap(scene, sizeof *scene);
    return is_in_time;
}

/* Where cores are busy, survivors may find the port closed before the stranger has it. */
static void run(int ranks, enum says says, bool is_early)
{
    enum { TRIES = 20 };
    int tries = 0;
    while (!play_once(ranks, says, is_early)) assert_true(++tries < TRIES);
}

static void survivors_name_the_dead_and_not_themselves(void **state)
{
    (void)state;
    for (int says = 0; says < SAYS_COUNT; says++) run(3, (enum says)says, false);
}

/* A rank that is left alone hears from no other rank: the stranger that listens there shows that
 * rank 0's process is gone. */
static void so_does_one_that_is_left_alone(void **state)
{
    (void)state;
    run(2, SAYS_REFUSAL, false);
    run(2, SAYS_GARBAGE, false);
}

static void a_start_goes_on_where_a_stranger_has_the_port(void **state)
{
    (void)state;
    for (int says = 0; says < SAYS_COUNT; says++) run(3, (enum says)says, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_name_the_dead_and_not_themselves),
        cmocka_unit_test(so_does_one_that_is_left_alone),
        cmocka_unit_test(a_start_goes_on_where_a_stranger_has_the_port),
    };
    return CASES_RUN_AT_ONCE(tests, 4);
}
