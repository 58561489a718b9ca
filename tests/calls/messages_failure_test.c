/* Messages that fail: what does not fit, arguments, deadlines, deaths, departures, aborts and full
 * mailboxes are named, reach everybody, come in time, and leave nothing behind.
 *
 * ctest: label=once timeout=180 waits
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/belongings.h"
#include "tests/kit/cases.h"
#include "tests/worlds/ranks.h"

static const uint64_t SECOND = 1000000000u;
/* Sooner than by the deadline of calls. Promised is a part of that, of a machine that has time. */
static const uint64_t SOON = 8000000000u;

/* Of a message that waits for its receive with its sender. */
enum { LARGE = 100000 };

/* Shared between the ranks. */
struct shared {
    _Atomic int arrived;
};
static struct shared *shared;

static int run(int size, enum ranks_kind kind, ranks_function *function, void *context,
               struct ranks_outcome *outcomes)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = 10 * SECOND;
    comm_options.init_timeout_ns = 15 * SECOND;
    const struct ranks_options options = {
        .kind = kind, .deadline_ms = 40000, .comm_options = &comm_options, .outcomes = outcomes};
    atomic_store(&shared->arrived, 0);
    return ranks_run(size, &options, function, context);
}

static void expect_good_both(int size, ranks_function *function, void *context)
{
    assert_int_equal(run(size, RANKS_DEFAULT, function, context, NULL), 0);
    if (!ranks_repeat(RANKS_THREADS))
        assert_int_equal(run(size, RANKS_THREADS, function, context, NULL), 0);
}

/* Waits once for so many without calling the communicator, which may have failed. */
static void meet(int count)
{
    atomic_fetch_add(&shared->arrived, 1);
    for (int i = 0; i < 10000 && atomic_load(&shared->arrived) < count; i++) ranks_nap_ms(1);
    if (ranks_are_on_hosts())
        ranks_nap_ms(200); /* one hears of the other's failure a moment later */
}

static struct tutti_failure failure_of(const struct tutti_comm *comm)
{
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    tutti_comm_failure(comm, &failure);
    return failure;
}

/* After a failure every call says the same at once, in every form. */
static int expect_all_calls_fail(struct tutti_comm *comm, int rank, enum tutti_status status)
{
    float x = 0;
    struct tutti_request *request = NULL;
    struct tutti_prepared *prepared = NULL;
    const uint64_t begin = clock_now_ns();
    RANKS_EXPECT(tutti_send(&x, 1, TUTTI_FLOAT32, 0, 1, comm) == status);
    RANKS_EXPECT(tutti_recv(&x, 1, TUTTI_FLOAT32, TUTTI_ANY_RANK, 1, NULL, comm) == status);
    RANKS_EXPECT(tutti_error_message()[0] != '\0');
    RANKS_EXPECT(tutti_recv_start(&x, 1, TUTTI_FLOAT32, 0, 1, NULL, NULL, comm, &request) == status);
    RANKS_EXPECT(request == NULL);
    if (tutti_send_prepare(&x, 1, TUTTI_FLOAT32, 0, 1, NULL, comm, &prepared) == TUTTI_OK) {
        RANKS_EXPECT(tutti_start(prepared, &request) == status && request == NULL);
        RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_barrier(comm) == status);
    RANKS_EXPECT(clock_now_ns() - begin < SOON);
    return 0;
}

/* ---------------------------------------------------------------------------- what does not fit */

/* One message that is too long for its receive or of another dtype, then one that fits. */
static int too_long(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    static const size_t counts[] = {2, 500, 5000, LARGE}; /* of floats: eager, and announced */
    static float out[LARGE];
    float in[8];
    const int peer = size == 1 ? 0 : 1 - rank;
    for (int variant = 0; variant < 16; variant++) {
        const size_t count = counts[variant / 4];
        const bool is_early = variant % 2 == 0,
                   other_dtype = variant / 2 % 2 == 1; /* posted before? */
        struct tutti_message message = {.size_bytes = sizeof message, .count = 99};
        struct tutti_request *send = NULL, *recv = NULL;
        for (int i = 0; i < 8; i++) in[i] = -1;
        if (rank == 0 && is_early)
            RANKS_EXPECT(tutti_recv_start(in, other_dtype ? 8 : 1,
                                          other_dtype ? TUTTI_INT32 : TUTTI_FLOAT32, peer, variant,
                                          &message, NULL, comm, &recv) == TUTTI_OK);
        if (size > 1) RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        if (rank == size - 1)
            RANKS_EXPECT(tutti_send_start(out, count, TUTTI_FLOAT32, 0, variant, NULL, comm,
                                          &send) == TUTTI_OK);
        if (rank == 0) {
            if (!is_early && size > 1) ranks_nap_ms(2);
            const enum tutti_status status =
                is_early
                    ? tutti_wait(&recv)
                    : tutti_recv(in, other_dtype ? 8 : 1, other_dtype ? TUTTI_INT32 : TUTTI_FLOAT32,
                                 TUTTI_ANY_RANK, TUTTI_ANY_TAG, &message, comm);
            char words[64];
            snprintf(words, sizeof words, "sent %zu elements of float32 with tag %d", count,
                     variant);
            RANKS_EXPECT(status == TUTTI_TRUNCATED && recv == NULL);
            RANKS_EXPECT(strstr(tutti_error_message(), words) != NULL);
            RANKS_EXPECT(message.source == size - 1 && message.tag == variant && message.count == 0);
            for (int i = 0; i < 8; i++) RANKS_EXPECT(in[i] == -1);
        }
        if (rank == size - 1) RANKS_EXPECT(tutti_wait(&send) == TUTTI_OK);
        RANKS_EXPECT(failure_of(comm).status == TUTTI_OK);
        float word = 0;
        const float said = (float)variant + 1;
        if (rank == size - 1)
            RANKS_EXPECT(tutti_send(&said, 1, TUTTI_FLOAT32, 0, variant, comm) == TUTTI_OK);
        if (rank == 0) {
            RANKS_EXPECT(tutti_recv(&word, 1, TUTTI_FLOAT32, size - 1, variant, NULL, comm) ==
                         TUTTI_OK);
            RANKS_EXPECT(word == said);
        }
    }
    return 0;
}

static void what_does_not_fit_is_truncated_and_the_communicator_lives_on(void **state)
{
    (void)state;
    expect_good_both(2, too_long, NULL);
    expect_good_both(1, too_long, NULL);
}

/* A group tells the first failure, and waits for all. */
static int truncated_in_a_group(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)seed, (void)context, (void)size;
    int64_t in[3] = {0}, out[3] = {rank + 1, rank + 2, rank + 3};
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    for (int tag = 0; tag < 3; tag++)
        RANKS_EXPECT(tutti_send(&out[tag], tag == 1 && rank == 0 ? 2 : 1, TUTTI_INT64, 1 - rank,
                                tag, comm) == TUTTI_OK);
    for (int tag = 2; tag >= 0; tag--)
        RANKS_EXPECT(tutti_recv(&in[tag], 1, TUTTI_INT64, 1 - rank, tag, NULL, comm) == TUTTI_OK);
    const enum tutti_status status = tutti_group_end();
    RANKS_EXPECT(status == (rank == 0 ? TUTTI_OK : TUTTI_TRUNCATED));
    if (rank == 1) RANKS_EXPECT(strstr(tutti_error_message(), "tag 1") != NULL);
    for (int tag = 0; tag < 3; tag++)
        RANKS_EXPECT(in[tag] == (rank == 1 && tag == 1 ? 0 : 2 - rank + tag));
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    return 0;
}

static void a_group_tells_what_was_truncated_in_it(void **state)
{
    (void)state;
    expect_good_both(2, truncated_in_a_group, NULL);
}

/* ------------------------------------------------------------------------------------ arguments */

struct arguments {
    void *buffer;
    size_t count;
    enum tutti_dtype dtype;
    int peer, tag;
    struct tutti_message *message;
    const struct tutti_call_options *options;
};

static int expect_invalid(const struct arguments *a, bool is_send, struct tutti_comm *comm,
                          int rank, enum tutti_status expected, const char *word)
{
    struct tutti_request *request = (struct tutti_request *)shared;
    struct tutti_prepared *prepared = (struct tutti_prepared *)shared;
    enum tutti_status got;
    for (int form = 0; form < (a->options == NULL ? 4 : 3); form++) {
        switch (form) {
        case 0:
            got = is_send ? tutti_send_with(a->buffer, a->count, a->dtype, a->peer, a->tag,
                                            a->options, comm)
                          : tutti_recv_with(a->buffer, a->count, a->dtype, a->peer, a->tag,
                                            a->message, a->options, comm);
            break;
        case 1:
            got = is_send ? tutti_send_start(a->buffer, a->count, a->dtype, a->peer, a->tag,
                                             a->options, comm, &request)
                          : tutti_recv_start(a->buffer, a->count, a->dtype, a->peer, a->tag,
                                             a->message, a->options, comm, &request);
            break;
        case 2:
            got = is_send ? tutti_send_prepare(a->buffer, a->count, a->dtype, a->peer, a->tag,
                                               a->options, comm, &prepared)
                          : tutti_recv_prepare(a->buffer, a->count, a->dtype, a->peer, a->tag,
                                               a->message, a->options, comm, &prepared);
            break;
        default:
            got = is_send
                      ? tutti_send(a->buffer, a->count, a->dtype, a->peer, a->tag, comm)
                      : tutti_recv(a->buffer, a->count, a->dtype, a->peer, a->tag, a->message, comm);
        }
        if (got == expected && strstr(tutti_error_message(), word) != NULL) continue;
        fprintf(stderr, "rank %d: %s form %d: %s instead of %s; \"%s\" should name %s\n", rank,
                is_send ? "send" : "recv", form, tutti_status_name(got),
                tutti_status_name(expected), tutti_error_message(), word);
        return 1;
    }
    RANKS_EXPECT(request == NULL && prepared == NULL);
    return 0;
}

static int all_invalid(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    float x[4] = {0};
    struct tutti_message message = {.size_bytes = sizeof message}, unset = {.size_bytes = 1};
    const struct arguments good = {x, 4, TUTTI_FLOAT32, 0, 0, &message, NULL};
    for (int is_send = 0; is_send < 2; is_send++) {
        const char *const name = is_send ? "tutti_send" : "tutti_recv";
        struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
        struct arguments bad = good;
        int wrong = expect_invalid(&bad, is_send, NULL, rank, TUTTI_INVALID_COMM, name);
        bad.buffer = NULL;
        wrong |= expect_invalid(&bad, is_send, comm, rank, TUTTI_INVALID_BUFFER, "NULL");
        bad = good;
        bad.count = SIZE_MAX / 4;
        wrong |= expect_invalid(&bad, is_send, comm, rank, TUTTI_INVALID_COUNT, "elements");
        bad = good;
        bad.dtype = (enum tutti_dtype)77;
        wrong |= expect_invalid(&bad, is_send, comm, rank, TUTTI_INVALID_DTYPE, "77");
        bad = good;
        bad.peer = size;
        wrong |= expect_invalid(&bad, is_send, comm, rank, TUTTI_INVALID_RANK, "is 3");
        bad.peer = is_send ? TUTTI_ANY_RANK : -2;
        wrong |= expect_invalid(&bad, is_send, comm, rank, TUTTI_INVALID_RANK,
                                is_send ? "is -1" : "is -2");
        bad = good;
        bad.tag = is_send ? TUTTI_ANY_TAG : -2;
        wrong |= expect_invalid(&bad, is_send, comm, rank, TUTTI_INVALID_TAG,
                                is_send ? "is -1" : "is -2");
        bad = good;
        bad.options = &options;
        options.algorithm = "ring";
        wrong |= expect_invalid(&bad, is_send, comm, rank, TUTTI_INVALID_ALGORITHM, name);
        options.algorithm = NULL;
        options.size_bytes = 3;
        wrong |= expect_invalid(&bad, is_send, comm, rank, TUTTI_INVALID_OPTIONS, "size_bytes");
        bad = good;
        bad.message = &unset;
        if (!is_send)
            wrong |= expect_invalid(&bad, false, comm, rank, TUTTI_INVALID_OPTIONS, "size_bytes");
        RANKS_EXPECT(!wrong);
    }
    RANKS_EXPECT(tutti_send_start(x, 1, TUTTI_FLOAT32, 0, 0, NULL, comm, NULL) ==
                 TUTTI_INVALID_REQUEST);
    RANKS_EXPECT(tutti_recv_prepare(x, 1, TUTTI_FLOAT32, 0, 0, NULL, NULL, comm, NULL) ==
                 TUTTI_INVALID_REQUEST);
    /* Nothing of this has changed anything. NULL is good for nothing. */
    RANKS_EXPECT(failure_of(comm).status == TUTTI_OK && message.count == 0);
    RANKS_EXPECT(tutti_send(NULL, 0, TUTTI_FLOAT32, (rank + 1) % size, 0, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_recv(NULL, 0, TUTTI_FLOAT32, TUTTI_ANY_RANK, TUTTI_ANY_TAG, NULL, comm) ==
                 TUTTI_OK);
    return 0;
}

static void invalid_arguments_are_named_and_change_nothing(void **state)
{
    (void)state;
    expect_good_both(3, all_invalid, NULL);
}

/* A second start of what runs, and its end, are refused. */
static int prepared_once(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context, (void)size;
    int32_t word = 0;
    struct tutti_prepared *prepared;
    struct tutti_request *request, *again;
    RANKS_EXPECT(tutti_recv_prepare(&word, 1, TUTTI_INT32, rank, 1, NULL, NULL, comm, &prepared) ==
                 TUTTI_OK);
    RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_start(prepared, &again) == TUTTI_INVALID_REQUEST && again == NULL);
    RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_INVALID_REQUEST);
    const int32_t said = 5;
    RANKS_EXPECT(tutti_send(&said, 1, TUTTI_INT32, rank, 1, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK && word == 5);
    RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
    return 0;
}

static void what_is_prepared_runs_once_at_a_time(void **state)
{
    (void)state;
    expect_good_both(1, prepared_once, NULL);
    expect_good_both(2, prepared_once, NULL);
}

/* -------------------------------------------------------------------------------------- waiting */

/* How a rank is stuck with a message. */
enum stuck { RECV, RECV_ANY, RECV_STARTED, SEND, SEND_STARTED, RECV_PREPARED, STUCK_COUNT };

static bool is_any(enum stuck how)
{
    return how == RECV_ANY;
}

/* Until it fails. */
static enum tutti_status be_stuck(enum stuck how, int peer, uint64_t timeout_ns,
                                  struct tutti_comm *comm)
{
    static _Thread_local char data[LARGE];
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.timeout_ns = timeout_ns;
    struct tutti_request *request = NULL;
    struct tutti_prepared *prepared = NULL;
    enum tutti_status status;
    switch (how) {
    case RECV: return tutti_recv_with(data, 9, TUTTI_INT8, peer, 7, NULL, &options, comm);
    case RECV_ANY:
        return tutti_recv_with(data, 9, TUTTI_INT8, TUTTI_ANY_RANK, 7, NULL, &options, comm);
    case SEND: return tutti_send_with(data, LARGE, TUTTI_INT8, peer, 7, &options, comm);
    case RECV_STARTED:
        status = tutti_recv_start(data, 9, TUTTI_INT8, peer, 7, NULL, &options, comm, &request);
        break;
    case SEND_STARTED:
        status = tutti_send_start(data, LARGE, TUTTI_INT8, peer, 7, &options, comm, &request);
        break;
    default:
        status = tutti_recv_prepare(data, 9, TUTTI_INT8, peer, 7, NULL, &options, comm, &prepared);
        if (status == TUTTI_OK) status = tutti_start(prepared, &request);
    }
    if (status == TUTTI_OK) status = tutti_wait(&request);
    const enum tutti_status freed = tutti_prepared_free(prepared);
    return status == TUTTI_OK ? freed : status;
}

static int late(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const enum stuck how = *(const enum stuck *)context;
    const int peer = size - 1;
    const uint64_t timeout_ns = SECOND / 5, begin = clock_now_ns();
    if (rank == 0) {
        RANKS_EXPECT(be_stuck(how, peer, timeout_ns, comm) == TUTTI_TIMEOUT);
        RANKS_EXPECT(clock_now_ns() - begin >= timeout_ns * 9 / 10);
        char name[32];
        snprintf(name, sizeof name, is_any(how) ? "any rank" : "rank %d (", peer);
        RANKS_EXPECT(strstr(tutti_error_message(), name) != NULL);
        RANKS_EXPECT(strstr(tutti_error_message(),
                            how == SEND || how == SEND_STARTED ? "send(" : "recv(") != NULL);
        RANKS_EXPECT(strstr(tutti_error_message(), "tag 7") != NULL);
    } else if (rank != peer) { /* waits for something else, and learns of it */
        RANKS_EXPECT(be_stuck(how, 0, 8 * SECOND, comm) == TUTTI_TIMEOUT);
    }
    RANKS_EXPECT(clock_now_ns() - begin < timeout_ns + SECOND * 3 / 2);
    meet(size);
    const struct tutti_failure failure = failure_of(comm);
    RANKS_EXPECT(failure.status == TUTTI_TIMEOUT && failure.reporter == 0);
    RANKS_EXPECT(failure.culprit == (is_any(how) ? -1 : peer));
    return expect_all_calls_fail(comm, rank, TUTTI_TIMEOUT);
}

static void deadlines_name_who_did_not_come(void **state)
{
    (void)state;
    for (enum stuck how = RECV; how < STUCK_COUNT; how++)
        assert_int_equal(run(3, how % 2 == 0 ? RANKS_DEFAULT : RANKS_THREADS, late, &how, NULL), 0);
    /* Nobody else is there. */
    for (enum stuck how = RECV; how < STUCK_COUNT; how++)
        assert_int_equal(run(1, RANKS_THREADS, late, &how, NULL), 0);
}

/* --------------------------------------------------------------------------------------- deaths */

static int one_dies(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const enum stuck how = *(const enum stuck *)context;
    const int victim = 1;
    char data = 0;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == victim) {
        RANKS_EXPECT(tutti_send(&data, 1, TUTTI_INT8, 0, 1, comm) == TUTTI_OK);
        ranks_meet(&shared->arrived, size);
        ranks_nap_ms(50); /* the others wait for messages by then */
        kill(getpid(), SIGKILL);
    }
    if (rank == 0)
        RANKS_EXPECT(tutti_recv(&data, 1, TUTTI_INT8, victim, 1, NULL, comm) == TUTTI_OK);
    ranks_meet(&shared->arrived, size);
    const uint64_t begin = clock_now_ns();
    const int peer = rank == 0 ? victim : 0; /* the last rank waits for one that lives */
    const enum tutti_status status = be_stuck(how, peer, 0, comm);
    RANKS_EXPECT(status == TUTTI_PROC_FAILED && size == 3);
    RANKS_EXPECT(clock_now_ns() - begin < SOON);
    const struct tutti_failure failure = failure_of(comm);
    RANKS_EXPECT(failure.culprit == victim && failure.pid > 0 && failure.pid != getpid());
    RANKS_EXPECT(strstr(failure.message, "rank 1 (") != NULL &&
                 strstr(tutti_error_message(), "died") != NULL);
    return expect_all_calls_fail(comm, rank, TUTTI_PROC_FAILED);
}

static void a_death_is_noticed_by_all_who_wait_for_messages(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    for (enum stuck how = RECV; how < STUCK_COUNT; how++) {
        struct ranks_outcome outcomes[3];
        assert_int_equal(run(3, RANKS_PROCESSES, one_dies, &how, outcomes), 1);
        assert_int_equal(outcomes[1].fate, RANKS_SIGNALLED);
    }
}

static void *kill_soon(void *unused)
{
    (void)unused;
    ranks_nap_ms(60);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* In the middle of large messages, in both directions. */
static int die_within(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { BYTES = 3000000 };
    char *const out = calloc(1, BYTES), *const in = malloc(BYTES);
    pthread_t thread;
    RANKS_EXPECT(out != NULL && in != NULL);
    if (rank == 1) RANKS_EXPECT(pthread_create(&thread, NULL, kill_soon, NULL) == 0);
    enum tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK) {
        struct tutti_request *send = NULL, *recv = NULL;
        status =
            tutti_recv_start(in, BYTES, TUTTI_INT8, (rank + 1) % size, 0, NULL, NULL, comm, &recv);
        if (status == TUTTI_OK)
            status = tutti_send_start(out, BYTES, TUTTI_INT8, (rank + size - 1) % size, 0, NULL,
                                      comm, &send);
        const enum tutti_status received = recv == NULL ? TUTTI_OK : tutti_wait(&recv);
        const enum tutti_status sent = send == NULL ? TUTTI_OK : tutti_wait(&send);
        if (status == TUTTI_OK) status = received != TUTTI_OK ? received : sent;
    }
    free(out);
    free(in);
    RANKS_EXPECT(status == TUTTI_PROC_FAILED && failure_of(comm).culprit == 1);
    return expect_all_calls_fail(comm, rank, TUTTI_PROC_FAILED);
}

static void a_death_within_large_messages_is_noticed_by_all(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    struct ranks_outcome outcomes[3];
    assert_int_equal(run(3, RANKS_PROCESSES, die_within, NULL, outcomes), 1);
    assert_int_equal(outcomes[1].fate, RANKS_SIGNALLED);
}

/* -------------------------------------------------------------------------------------- leaving */

/* The last rank sends what it has to say, and goes home; without_comm: each frees its own. */
static int one_leaves(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const enum stuck how = *(const enum stuck *)context;
    const int leaver = size - 1;
    char data[9] = {0};
    if (rank == leaver) {
        for (int i = 0; i < 10; i++)
            RANKS_EXPECT(tutti_send(data, 9, TUTTI_INT8, 0, i, comm) == TUTTI_OK);
        return 0; /* the harness frees its communicator */
    }
    struct tutti_message message = {.size_bytes = sizeof message};
    if (rank == 0) { /* what was sent before comes also afterwards */
        ranks_nap_ms(50);
        for (int i = 9; i >= 0; i--)
            RANKS_EXPECT(tutti_recv(data, 9, TUTTI_INT8, is_any(how) ? TUTTI_ANY_RANK : leaver, i,
                                    &message, comm) == TUTTI_OK &&
                         message.source == leaver);
    }
    meet(2);                                /* before that nobody fails */
    if (rank == 1 && is_any(how)) return 0; /* then all others have left */
    const uint64_t begin = clock_now_ns();
    RANKS_EXPECT(be_stuck(how, leaver, 0, comm) == TUTTI_PROC_FAILED);
    RANKS_EXPECT(clock_now_ns() - begin < SOON);
    const struct tutti_failure failure = failure_of(comm);
    RANKS_EXPECT(is_any(how) ? failure.culprit > 0 : failure.culprit == leaver);
    RANKS_EXPECT(strstr(failure.message, "left") != NULL);
    return expect_all_calls_fail(comm, rank, TUTTI_PROC_FAILED);
}

static void a_rank_that_left_is_named(void **state)
{
    (void)state;
    for (enum stuck how = RECV; how < STUCK_COUNT; how++) expect_good_both(3, one_leaves, &how);
}

/* Many at once, of which some came before their sender left. */
static int many_wait_for_a_leaver(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                  void *context)
{
    (void)seed, (void)context;
    enum { COUNT = 60, SENT = 14 };
    char data[COUNT] = {0};
    if (rank == 1) {
        for (int i = 0; i < SENT; i++)
            RANKS_EXPECT(tutti_send(data, 1, TUTTI_INT8, 0, i, comm) == TUTTI_OK);
        ranks_meet(&shared->arrived,
                   size); /* the first receive that nobody answers ends all later ones */
        return 0;
    }
    struct tutti_request *requests[COUNT];
    ranks_nap_ms(30);
    for (int i = COUNT - 1; i >= 0; i--)
        RANKS_EXPECT(tutti_recv_start(&data[i], 1, TUTTI_INT8, 1, i, NULL, NULL, comm,
                                      &requests[i]) == TUTTI_OK);
    ranks_meet(&shared->arrived, size);
    for (int i = 0; i < COUNT; i++)
        RANKS_EXPECT(tutti_wait(&requests[i]) == (i < SENT ? TUTTI_OK : TUTTI_PROC_FAILED));
    return expect_all_calls_fail(comm, rank, TUTTI_PROC_FAILED);
}

static void what_a_leaver_sent_comes_and_the_rest_fails(void **state)
{
    (void)state;
    expect_good_both(2, many_wait_for_a_leaver, NULL);
}

/* --------------------------------------------------------------------------------------- aborts */

static void *abort_soon(void *argument)
{
    ranks_nap_ms(60);
    tutti_comm_abort(argument, "enough of it");
    return NULL;
}

static int blocked_and_aborted(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    (void)seed;
    const enum stuck how = *(const enum stuck *)context;
    pthread_t thread;
    if (rank == 0) RANKS_EXPECT(pthread_create(&thread, NULL, abort_soon, comm) == 0);
    const uint64_t begin = clock_now_ns();
    RANKS_EXPECT(be_stuck(how, (rank + 1) % size, 0, comm) == TUTTI_ABORTED);
    RANKS_EXPECT(clock_now_ns() - begin < SOON);
    if (rank == 0) RANKS_EXPECT(pthread_join(thread, NULL) == 0);
    const struct tutti_failure failure = failure_of(comm);
    RANKS_EXPECT(failure.reporter == 0 && strstr(failure.message, "enough of it") != NULL);
    return expect_all_calls_fail(comm, rank, TUTTI_ABORTED);
}

static void an_abort_from_another_thread_ends_blocked_messages_everywhere(void **state)
{
    (void)state;
    for (enum stuck how = RECV; how < STUCK_COUNT; how++)
        expect_good_both(2 + (int)how % 2, blocked_and_aborted, &how);
    for (enum stuck how = RECV; how < STUCK_COUNT; how += 2)
        assert_int_equal(run(1, RANKS_THREADS, blocked_and_aborted, &how, NULL), 0);
}

/* Threads read each other's memory where it lies: whoever gives up may free it at once. */
static int abort_within(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { BYTES = 2000000, MESSAGES = 4 };
    pthread_t thread;
    if (rank == 0) RANKS_EXPECT(pthread_create(&thread, NULL, abort_soon, comm) == 0);
    enum tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK) {
        struct tutti_request *requests[2 * MESSAGES] = {0};
        char *memory[2 * MESSAGES];
        for (int i = 0; i < 2 * MESSAGES; i++) {
            memory[i] = calloc(1, BYTES);
            RANKS_EXPECT(memory[i] != NULL);
            const int peer = (rank + (i % 2 == 0 ? 1 : size - 1)) % size;
            const enum tutti_status started =
                i % 2 == 0 ? tutti_send_start(memory[i], BYTES, TUTTI_INT8, peer, 0, NULL, comm,
                                              &requests[i])
                           : tutti_recv_start(memory[i], BYTES, TUTTI_INT8, peer, 0, NULL, NULL,
                                              comm, &requests[i]);
            if (started != TUTTI_OK) status = started;
        }
        for (int i = 0; i < 2 * MESSAGES; i++) {
            const enum tutti_status waited = requests[i] == NULL ? status : tutti_wait(&requests[i]);
            if (waited != TUTTI_OK) status = waited;
            free(memory[i]);
        }
    }
    if (rank == 0) RANKS_EXPECT(pthread_join(thread, NULL) == 0);
    RANKS_EXPECT(status == TUTTI_ABORTED);
    return expect_all_calls_fail(comm, rank, TUTTI_ABORTED);
}

static void memory_of_aborted_messages_may_be_freed_at_once(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) expect_good_both(3, abort_within, NULL);
}

/* A thread that is blocked in a collective keeps the communicator; messages of others fail with
 * it. */
struct outsider {
    struct tutti_comm *comm;
    enum tutti_status status;
};

static void *recv_from_outside(void *argument)
{
    struct outsider *outsider = argument;
    char data[4];
    ranks_nap_ms(20);
    outsider->status =
        tutti_recv(data, 4, TUTTI_INT8, TUTTI_ANY_RANK, TUTTI_ANY_TAG, NULL, outsider->comm);
    return NULL;
}

static int fail_beside_a_collective(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                    void *context)
{
    (void)seed, (void)context;
    struct outsider outsider = {comm, TUTTI_OK};
    pthread_t thread;
    if (rank == 0) {
        struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
        options.timeout_ns = SECOND / 5;
        RANKS_EXPECT(pthread_create(&thread, NULL, recv_from_outside, &outsider) == 0);
        RANKS_EXPECT(tutti_barrier_with(&options, comm) == TUTTI_TIMEOUT);
        RANKS_EXPECT(pthread_join(thread, NULL) == 0 && outsider.status == TUTTI_TIMEOUT);
    }
    meet(size);
    return expect_all_calls_fail(comm, rank, TUTTI_TIMEOUT);
}

static void messages_fail_with_the_collective_beside_them(void **state)
{
    (void)state;
    expect_good_both(2, fail_beside_a_collective, NULL);
}

/* ------------------------------------------------------------------------------- full mailboxes */

enum { ROOM = 4096, SMALL = 1000 };

/* More than there is room for comes with another tag than is waited for. */
static int overflow(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const bool any = context != NULL;
    static _Thread_local char data[SMALL];
    const uint64_t begin = clock_now_ns();
    if (rank == 0) {
        RANKS_EXPECT(tutti_recv(data, SMALL, TUTTI_INT8, any ? TUTTI_ANY_RANK : 1, 2, NULL, comm) ==
                     TUTTI_UNEXPECTED_FULL);
        RANKS_EXPECT(strstr(tutti_error_message(), "of rank 1") != NULL &&
                     strstr(tutti_error_message(), "with tag 1") != NULL);
    } else {
        for (int i = 0; i < 100; i++) {
            const enum tutti_status status = tutti_send(data, SMALL, TUTTI_INT8, 0, 1, comm);
            if (status == TUTTI_OK) continue;
            RANKS_EXPECT(status == TUTTI_UNEXPECTED_FULL && i >= ROOM / SMALL);
            break;
        }
    }
    RANKS_EXPECT(clock_now_ns() - begin < SOON);
    meet(size);
    const struct tutti_failure failure = failure_of(comm);
    RANKS_EXPECT(failure.status == TUTTI_UNEXPECTED_FULL && failure.culprit == 0);
    return expect_all_calls_fail(comm, rank, TUTTI_UNEXPECTED_FULL);
}

/* The same, but who is waited for is another rank, which takes its time: that is no reason to
 * fail. */
static int overflow_beside(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)size;
    const bool any = context != NULL;
    static _Thread_local char data[SMALL];
    struct tutti_message message = {.size_bytes = sizeof message};
    if (rank == 0) {
        RANKS_EXPECT(tutti_recv(data, SMALL, TUTTI_INT8, any ? TUTTI_ANY_RANK : 2, 2, &message,
                                comm) == TUTTI_OK);
        RANKS_EXPECT(message.source == 2);
        for (int i = 0; i < 100; i++)
            RANKS_EXPECT(tutti_recv(data, SMALL, TUTTI_INT8, 1, 1, NULL, comm) == TUTTI_OK);
    } else if (rank == 1) {
        for (int i = 0; i < 100; i++)
            RANKS_EXPECT(tutti_send(data, SMALL, TUTTI_INT8, 0, 1, comm) == TUTTI_OK);
    } else {
        ranks_nap_ms(400);
        RANKS_EXPECT(tutti_send(data, SMALL, TUTTI_INT8, 0, 2, comm) == TUTTI_OK);
    }
    return 0;
}

/* Who left has filled the room: that is what is wrong, and not that it left. */
static int overflow_and_leave(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)seed, (void)context, (void)size;
    enum { BYTES = 20, FITS = ROOM / BYTES, MORE = 8 }; /* which stay in the link */
    static _Thread_local char data[BYTES];
    if (rank == 1) {
        for (int i = 0; i < FITS + MORE; i++) {
            const enum tutti_status status = tutti_send(data, BYTES, TUTTI_INT8, 0, 1, comm);
            if (status == TUTTI_OK) continue;
            /* On a busy machine rank 0 finds out before all are sent. */
            RANKS_EXPECT(status == TUTTI_UNEXPECTED_FULL && i >= FITS);
            break;
        }
        return 0;
    }
    ranks_nap_ms(50);
    RANKS_EXPECT(tutti_recv(data, BYTES, TUTTI_INT8, 1, 2, NULL, comm) == TUTTI_UNEXPECTED_FULL);
    return expect_all_calls_fail(comm, rank, TUTTI_UNEXPECTED_FULL);
}

static void a_full_mailbox_is_named(void **state)
{
    (void)state;
    static int any = 1;
    setenv("TUTTI_UNEXPECTED", "4k", 1);
    expect_good_both(2, overflow, NULL);
    expect_good_both(2, overflow, &any);
    expect_good_both(2, overflow_and_leave, NULL);
    unsetenv("TUTTI_UNEXPECTED");
}

static void a_full_mailbox_does_not_keep_others_from_being_received(void **state)
{
    (void)state;
    static int any = 1;
    setenv("TUTTI_UNEXPECTED", "4k", 1);
    expect_good_both(3, overflow_beside, NULL);
    expect_good_both(3, overflow_beside, &any);
    unsetenv("TUTTI_UNEXPECTED");
}

static int read_no_size(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context, (void)size;
    char data = 0;
    setenv("TUTTI_UNEXPECTED", "much", 1); /* as late as this: tutti_comm_create refuses it, too */
    const enum tutti_status status = tutti_send(&data, 1, TUTTI_INT8, rank, 1, comm);
    unsetenv("TUTTI_UNEXPECTED");
    RANKS_EXPECT(status == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "TUTTI_UNEXPECTED=much") != NULL);
    return 0;
}

static void a_size_of_the_mailbox_that_makes_no_sense_is_named(void **state)
{
    (void)state;
    expect_good_both(1, read_no_size, NULL);
}

/* ------------------------------------------------------------------------------------ leftovers */

static void nothing_is_left_behind(void **state)
{
    (void)state;
    /* From here on the process has all that it has once: a sanitizer's thread, too. */
    assert_int_equal(run(2, RANKS_THREADS, too_long, NULL, NULL), 0);
    const struct belongings before = belongings_now();
    static int any = 1;
    for (enum stuck how = RECV; how < STUCK_COUNT; how++) {
        assert_int_equal(run(2, RANKS_THREADS, blocked_and_aborted, &how, NULL), 0);
        assert_int_equal(run(3, RANKS_THREADS, one_leaves, &how, NULL), 0);
    }
    setenv("TUTTI_UNEXPECTED", "4k", 1);
    assert_int_equal(run(2, RANKS_THREADS, overflow, &any, NULL), 0);
    unsetenv("TUTTI_UNEXPECTED");
    assert_int_equal(run(2, RANKS_THREADS, too_long, NULL, NULL), 0);
    const struct belongings after = belongings_in_the_end(&before);
    assert_int_equal(after.threads, before.threads);
    assert_int_equal(after.descriptors, before.descriptors);
    assert_int_equal(after.mappings, before.mappings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_truncated_and_the_communicator_lives_on),
        cmocka_unit_test(a_group_tells_what_was_truncated_in_it),
        cmocka_unit_test(invalid_arguments_are_named_and_change_nothing),
        cmocka_unit_test(what_is_prepared_runs_once_at_a_time),
        cmocka_unit_test(deadlines_name_who_did_not_come),
        cmocka_unit_test(a_death_is_noticed_by_all_who_wait_for_messages),
        cmocka_unit_test(a_death_within_large_messages_is_noticed_by_all),
        cmocka_unit_test(a_rank_that_left_is_named),
        cmocka_unit_test(what_a_leaver_sent_comes_and_the_rest_fails),
        cmocka_unit_test(an_abort_from_another_thread_ends_blocked_messages_everywhere),
        cmocka_unit_test(memory_of_aborted_messages_may_be_freed_at_once),
        cmocka_unit_test(messages_fail_with_the_collective_beside_them),
        cmocka_unit_test(a_full_mailbox_is_named),
        cmocka_unit_test(a_full_mailbox_does_not_keep_others_from_being_received),
        cmocka_unit_test(a_size_of_the_mailbox_that_makes_no_sense_is_named),
        cmocka_unit_test(nothing_is_left_behind),
    };
    setenv("TUTTI_LOG", "off", 0); /* failures are what is expected here */
    shared = ranks_share(sizeof *shared);
    return CASES_RUN_AT_ONCE(tests, 4);
}
