/* An attacker in the network records how a process joins a team, and sends the same bytes again: it is not
 * let in, gets no invitation, and takes nobody's place.
 *
 * ctest: label=once timeout=120 waits
 */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/enlarge.h"
#include "comm/id.h"
#include "connect/admission_message.h"
#include "connect/hello.h"
#include "tests/kit/scratch.h"
#include "tests/worlds/ranks.h"
#include "train/elastic_store.h"

enum { RECORDED_MAX = 4096, REPLAYS = 3 };
static const uint64_t SECOND = 1000000000u;
static char folder[SCRATCH_BYTES];

/* Shared by all processes. */
struct scene {
    _Atomic int is_between; /* the attacker has put itself between the joiner and the team */
    _Atomic int is_over;    /* it has tried all */
};
static struct scene *scene;

enum part { TEAM, ATTACKER, JOINER, LATER, PARTS };

static enum tutti_status open_store(struct tutti_store *store, struct elastic_folder_store **made)
{
    return elastic_folder_store_open(folder, store, made);
}

/* --------------------------------------------------------------------------------- the attacker */

/* A connection of the joiner, and the connection to the team behind it. */
struct tap {
    int listener, ends[2]; /* of the joiner, of the team */
    struct sockaddr_in team;
    unsigned char recorded[RECORDED_MAX]; /* what the joiner said */
    _Atomic size_t count;
};

static int call_team(const struct sockaddr_in *team)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)team, sizeof *team) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* Passes on the bytes that have come from one end to the other one. False: an end is closed. */
static bool pass_on(struct tap *tap, int from)
{
    unsigned char bytes[RECORDED_MAX];
    const ssize_t got = recv(tap->ends[from], bytes, sizeof bytes, 0);
    const size_t count = atomic_load(&tap->count);
    if (got <= 0) return false;
    if (from == 0 && count + (size_t)got <= sizeof tap->recorded) {
        memcpy(tap->recorded + count, bytes, (size_t)got);
        atomic_store(&tap->count, count + (size_t)got);
    }
    return send(tap->ends[1 - from], bytes, (size_t)got, MSG_NOSIGNAL) == got;
}

static void *relay(void *context)
{
    struct tap *const tap = context;
    tap->ends[0] = accept(tap->listener, NULL, NULL);
    tap->ends[1] = call_team(&tap->team);
    bool goes_on = tap->ends[0] >= 0 && tap->ends[1] >= 0;
    while (goes_on) {
        struct pollfd polls[2] = {{tap->ends[0], POLLIN, 0}, {tap->ends[1], POLLIN, 0}};
        if (poll(polls, 2, -1) < 0) break;
        for (int i = 0; i < 2 && goes_on; i++)
            if (polls[i].revents != 0) goes_on = pass_on(tap, i);
    }
    for (int i = 0; i < 2; i++)
        if (tap->ends[i] >= 0) close(tap->ends[i]);
    return NULL;
}

/* Listens, and tells joining processes that the team is here. */
static bool get_between(struct tap *tap, const struct tutti_store *store, struct tutti_id *real)
{
    struct id_content content = {.magic = 0};
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof own;
    struct tutti_id forged;
    if (store->get(store->context, ENLARGE_STORE_KEY, real, sizeof *real, 20 * SECOND) != 0)
        return false;
    id_read(real, &content);
    tap->team = own;
    tap->team.sin_port = htons(content.address.port);
    tap->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(tap->listener, (struct sockaddr *)&own, sizeof own) != 0 ||
        listen(tap->listener, 1) != 0 ||
        getsockname(tap->listener, (struct sockaddr *)&own, &bytes) != 0)
        return false;
    content.address.port = ntohs(own.sin_port);
    return id_write(&content.key, &content.address, &forged) == TUTTI_OK &&
           store->set(store->context, ENLARGE_STORE_KEY, &forged, sizeof forged) == 0;
}

/* Sends a part of the recording, at most. Returns what the team says to it in all, in bytes, until it closes the
 * connection; -1: it keeps it. */
static ssize_t replay(const struct tap *tap, size_t first, size_t rest)
{
    unsigned char answer[RECORDED_MAX];
    ssize_t answered = 0;
    const int fd = call_team(&tap->team);
    if (fd < 0) return -1;
    (void)send(fd, tap->recorded, first, MSG_NOSIGNAL);
    for (bool is_first = true;; is_first = false) {
        struct pollfd polls = {fd, POLLIN, 0};
        if (poll(&polls, 1, 20000) <= 0) {
            answered = -1;
            break;
        }
        const ssize_t got = recv(fd, answer, sizeof answer, 0);
        if (got <= 0) break;
        answered += got;
        if (is_first) (void)send(fd, tap->recorded + first, rest, MSG_NOSIGNAL);
    }
    close(fd);
    return answered;
}

static int attack(int rank)
{
    struct tutti_store store;
    struct elastic_folder_store *made = NULL;
    struct tap tap = {.ends = {-1, -1}};
    struct tutti_id real;
    pthread_t thread;
    RANKS_EXPECT(open_store(&store, &made) == TUTTI_OK);
    RANKS_EXPECT(get_between(&tap, &store, &real));
    RANKS_EXPECT(pthread_create(&thread, NULL, relay, &tap) == 0);
    atomic_store(&scene->is_between, 1);
    const size_t whole = HELLO_CALL_BYTES + HELLO_PROOF_BYTES + sizeof(struct admission_application);
    while (atomic_load(&tap.count) < whole) ranks_nap_ms(1);
    RANKS_EXPECT(atomic_load(&tap.count) == whole);
    for (int i = 0; i < REPLAYS; i++) {
        /* All at once, and as answers to what the team says: no more than its ANSWER comes. */
        const ssize_t at_once = replay(&tap, whole, 0);
        const ssize_t in_turn = replay(&tap, HELLO_CALL_BYTES, whole - HELLO_CALL_BYTES);
        RANKS_EXPECT(at_once >= 0 && at_once <= HELLO_ANSWER_BYTES);
        RANKS_EXPECT(in_turn >= 0 && in_turn <= HELLO_ANSWER_BYTES);
    }
    RANKS_EXPECT(store.set(store.context, ENLARGE_STORE_KEY, &real, sizeof real) == 0);
    (void)shutdown(tap.ends[0], SHUT_RDWR); /* so that the joiner comes again, to the team itself */
    RANKS_EXPECT(pthread_join(thread, NULL) == 0);
    atomic_store(&scene->is_over, 1);
    close(tap.listener);
    elastic_folder_store_close(made);
    return 0;
}

/* ------------------------------------------------------------------------------------ the others */

static int check_team(struct tutti_comm *comm, int rank)
{
    int32_t one = 1;
    RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(one == 3); /* the team, and both that joined honestly */
    return tutti_comm_free(comm) != TUTTI_OK;
}

/* The team waits for two processes. */
static int play(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_grow_options wanted = TUTTI_GROW_OPTIONS_INIT;
    struct tutti_store store;
    struct elastic_folder_store *made = NULL;
    struct tutti_comm *comm, *larger;
    (void)none, (void)size, (void)seed, (void)context;
    if (rank == ATTACKER) return attack(rank);
    RANKS_EXPECT(open_store(&store, &made) == TUTTI_OK);
    options.store = &store;
    options.timeout_ns = options.init_timeout_ns = 60 * SECOND;
    if (rank == TEAM) {
        options.rank = 0;
        options.size = 1;
        wanted.store = &store;
        wanted.joiner_min = wanted.joiner_max = 2;
        wanted.wait_ns = 60 * SECOND;
        RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_grow(comm, &wanted, &larger) == TUTTI_OK);
        RANKS_EXPECT(atomic_load(&scene->is_over) == 1);
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    } else {
        const _Atomic int *const awaited = rank == JOINER ? &scene->is_between : &scene->is_over;
        while (atomic_load(awaited) == 0) ranks_nap_ms(1);
        RANKS_EXPECT(tutti_comm_join(&options, &larger) == TUTTI_OK);
    }
    const int result = check_team(larger, rank);
    elastic_folder_store_close(made);
    return result;
}

static void a_recorded_join_lets_nobody_in(void **state)
{
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 100000, .without_comm = true};
    (void)state;
    if (ranks_are_threads()) skip(); /* they share one port */
    assert_int_equal(ranks_run(PARTS, &options, play, NULL), 0);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

int main(void)
{
    setenv("TUTTI_SECRET", "the secret of this test, which nobody guesses", 1);
    setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
    setenv("TUTTI_ENCRYPTION", "off", 1); /* the recording is of bytes in clear */
    scene = ranks_share(sizeof *scene);
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_recorded_join_lets_nobody_in, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
