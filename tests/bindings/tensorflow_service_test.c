/* tensorflow_service_test.c - ranks begin collectives in orders of their own: every one has its
 * result, and what cannot run ends with an error that names a rank. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bindings/tensorflow/front/order.c" /* no library has these */
#include "bindings/tensorflow/front/service.c"
#include "tests/kit/chance.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 4, GROUPS = 3, ELEMENTS_MAX = 3000, TEXT_MAX = 600 };

static const int members[GROUPS][RANKS] = {{0, 1, 2, 3}, {1, 3}, {0, 3}};
static const int sizes[GROUPS] = {4, 2, 2};

static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_ended = PTHREAD_COND_INITIALIZER;

struct scene {
    struct service_call call; /* first */
    int group, instance, count;
    bool is_over;
    enum tutti_status status;
    char text[TEXT_MAX];
    int32_t send[ELEMENTS_MAX], recv[RANKS * ELEMENTS_MAX];
};

static void end_scene(struct service_call *call, enum tutti_status status, const char *text)
{
    struct scene *const scene = (struct scene *)call;
    pthread_mutex_lock(&done_lock);
    scene->is_over = true;
    scene->status = status;
    snprintf(scene->text, sizeof scene->text, "%s", text);
    pthread_cond_signal(&is_ended);
    pthread_mutex_unlock(&done_lock);
}

static void wait_for_scene(struct scene *scene)
{
    pthread_mutex_lock(&done_lock);
    while (!scene->is_over) pthread_cond_wait(&is_ended, &done_lock);
    pthread_mutex_unlock(&done_lock);
}

static int place_in(int group, int rank)
{
    for (int i = 0; i < sizes[group]; i++)
        if (members[group][i] == rank) return i;
    return -1;
}

static int32_t value_of(int rank, int instance, int i)
{
    return rank * 100000 + instance * 1000 + i % 997;
}

/* All kinds of collectives take turns. */
static void prepare(struct scene *scene, int rank, int group, int instance)
{
    const int size = sizes[group], kind = instance % 5, root = instance % size;
    *scene = (struct scene){.group = group, .instance = instance};
    scene->count = (1 + (instance * 37 + group * 11) % (ELEMENTS_MAX / size)) * size;
    for (int i = 0; i < scene->count; i++) scene->send[i] = value_of(rank, instance, i);
    scene->call = (struct service_call){
        .kind = (enum service_kind)kind,
        .send = scene->send,
        .recv = scene->recv,
        .count = (size_t)scene->count,
        .dtype = TUTTI_INT32,
        .op = TUTTI_SUM,
        .report = {.key = {group + 70, instance}, .group_size = size, .timeout_ns = 60000000000u},
        .done = end_scene};
    if (kind == SERVICE_REDUCE_SCATTER || kind == SERVICE_ALLTOALL)
        scene->call.count /= (size_t)size;
    if (kind == SERVICE_BROADCAST) {
        const bool is_root = place_in(group, rank) == root;
        scene->call.report.root = is_root ? ORDER_ROOT : ORDER_NOT_ROOT;
        if (is_root) memcpy(scene->recv, scene->send, sizeof scene->send);
    }
    snprintf(scene->call.report.what, sizeof scene->call.report.what, "kind %d [%d]", kind,
             scene->count);
}

static int32_t expected(const struct scene *scene, int rank, int i)
{
    const int size = sizes[scene->group], own = place_in(scene->group, rank),
              block = scene->count / size;
    const int *const who = members[scene->group];
    int32_t sum = 0;
    switch (scene->call.kind) {
    case SERVICE_ALLREDUCE:
        for (int m = 0; m < size; m++) sum += value_of(who[m], scene->instance, i);
        return sum;
    case SERVICE_ALLGATHER:
        return value_of(who[i / scene->count], scene->instance, i % scene->count);
    case SERVICE_REDUCE_SCATTER:
        for (int m = 0; m < size; m++) sum += value_of(who[m], scene->instance, own * block + i);
        return sum;
    case SERVICE_ALLTOALL:
        return value_of(who[i / block], scene->instance, own * block + i % block);
    case SERVICE_BROADCAST: return value_of(who[scene->instance % size], scene->instance, i);
    case SERVICE_GROUP: break;
    }
    return -1;
}

static int result_count(const struct scene *scene)
{
    return scene->call.kind == SERVICE_ALLGATHER        ? scene->count * sizes[scene->group]
           : scene->call.kind == SERVICE_REDUCE_SCATTER ? scene->count / sizes[scene->group]
                                                        : scene->count;
}

/* All ranks are here: a rank that leaves earlier is missed. */
static bool meet(int rank)
{
    static struct scene all;
    prepare(&all, rank, 0, 100000);
    service_submit(&all.call);
    wait_for_scene(&all);
    return all.status == TUTTI_OK;
}

/* Shuffled by what only this rank knows. */
static int in_any_order(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const int instances = *(const int *)context;
    (void)size;
    RANKS_EXPECT(service_start(comm) == TUTTI_OK);
    RANKS_EXPECT(service_start(comm) == TUTTI_INVALID_OPTIONS);
    int count = 0;
    for (int g = 0; g < GROUPS; g++) count += place_in(g, rank) >= 0 ? instances : 0;
    struct scene *const scenes = calloc((size_t)count, sizeof *scenes);
    int *const order = calloc((size_t)count, sizeof *order);
    RANKS_EXPECT(scenes != NULL && order != NULL);
    int filled = 0;
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; place_in(g, rank) >= 0 && i < instances; i++)
            prepare(&scenes[filled++], rank, g, i);
    uint64_t random = seed * 31 + (uint64_t)rank;
    for (int i = 0; i < count; i++) order[i] = i;
    for (int i = count; i-- > 1;) {
        const int k = (int)(chance_next(&random) % (unsigned)(i + 1)), held = order[i];
        order[i] = order[k];
        order[k] = held;
    }
    for (int i = 0; i < count; i++) service_submit(&scenes[order[i]].call);
    for (int i = 0; i < count; i++) {
        wait_for_scene(&scenes[i]);
        if (scenes[i].status != TUTTI_OK) fprintf(stderr, "rank %d: %s\n", rank, scenes[i].text);
        RANKS_EXPECT(scenes[i].status == TUTTI_OK);
        for (int k = 0; k < result_count(&scenes[i]); k++)
            RANKS_EXPECT(scenes[i].recv[k] == expected(&scenes[i], rank, k));
    }
    RANKS_EXPECT(meet(rank));
    service_stop();
    free(scenes);
    free(order);
    return 0;
}

static void every_order_gives_every_result(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    int instances =
        getenv("TUTTI_LONG") != NULL && strcmp(getenv("TUTTI_LONG"), "1") == 0 ? 1000 : 60;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .deadline_ms = 100000};
    assert_int_equal(ranks_run(RANKS, &options, in_any_order, &instances), 0);
}

static struct scene first, second;

/* With the lock as fork() finds it: another thread may hold it. */
static int a_child_has_none(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(service_start(comm) == TUTTI_OK);
    pthread_mutex_lock(&lock);
    const pid_t child = fork();
    if (child == 0) {
        prepare(&first, rank, 0, 0);
        service_submit(&first.call);
        service_stop();
        _exit(first.is_over && first.status == TUTTI_INVALID_COMM ? 0 : 1);
    }
    pthread_mutex_unlock(&lock);
    int status = -1;
    RANKS_EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    RANKS_EXPECT(meet(rank));
    service_stop();
    return 0;
}

static void a_child_of_fork_is_refused(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .deadline_ms = 30000};
    assert_int_equal(ranks_run(RANKS, &options, a_child_has_none, NULL), 0);
}

static int one_is_killed(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    _Atomic int *const met = context;
    (void)seed;
    RANKS_EXPECT(service_start(comm) == TUTTI_OK);
    prepare(&first, rank, 0, 0);
    service_submit(&first.call);
    wait_for_scene(&first);
    RANKS_EXPECT(first.status == TUTTI_OK);
    ranks_meet(met, size);
    if (rank == 2) raise(SIGKILL);
    prepare(&second, rank, 0, 5);
    service_submit(&second.call);
    wait_for_scene(&second);
    RANKS_EXPECT(second.status == TUTTI_PROC_FAILED);
    RANKS_EXPECT(strstr(second.text, "rank 2") != NULL);
    /* By the name that the program knows, and not by a call of the service. */
    RANKS_EXPECT(strncmp(second.text, "kind 0 [", 8) == 0);
    RANKS_EXPECT(strstr(second.text, " of group 70, instance 5: rank 2 (") != NULL);
    RANKS_EXPECT(strstr(second.text, "recv") == NULL && strstr(second.text, "PROC_FAILED") == NULL);
    /* Also what is submitted from now on. */
    prepare(&first, rank, 0, 10);
    service_submit(&first.call);
    wait_for_scene(&first);
    RANKS_EXPECT(first.status == TUTTI_PROC_FAILED);
    service_stop();
    return 0;
}

static void a_killed_rank_is_named(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    struct ranks_outcome outcomes[RANKS];
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 30000, .outcomes = outcomes};
    assert_int_equal(ranks_run(RANKS, &options, one_is_killed, ranks_share(sizeof(_Atomic int))), 1);
    assert_int_equal(outcomes[2].fate, RANKS_SIGNALLED);
}

static int one_never_comes(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(service_start(comm) == TUTTI_OK);
    prepare(&first, rank, 0, 0);
    first.call.report.timeout_ns = 300000000;
    if (rank != 1) {
        service_submit(&first.call);
        wait_for_scene(&first);
        RANKS_EXPECT(first.status == TUTTI_TIMEOUT);
        RANKS_EXPECT(strstr(first.text, "rank 1 has not begun it") != NULL);
    }
    /* Others go on. */
    prepare(&second, rank, 0, 5);
    service_submit(&second.call);
    wait_for_scene(&second);
    RANKS_EXPECT(second.status == TUTTI_OK);
    /* A call that waits at the end is told. */
    if (rank == 3) {
        prepare(&second, rank, 2, 5);
        service_submit(&second.call);
    }
    RANKS_EXPECT(meet(rank));
    service_stop();
    if (rank == 3) {
        wait_for_scene(&second);
        /* Rank 0 may have ended before this rank did. */
        RANKS_EXPECT(second.status == TUTTI_ABORTED ||
                     (second.status == TUTTI_PROC_FAILED &&
                      strstr(second.text, "rank 0 has ended") != NULL));
    }
    service_submit(&first.call);
    wait_for_scene(&first);
    RANKS_EXPECT(first.status == (rank == 1 ? TUTTI_ABORTED : first.status));
    return 0;
}

static void a_rank_that_never_comes_is_named(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .deadline_ms = 30000};
    assert_int_equal(ranks_run(RANKS, &options, one_never_comes, NULL), 0);
}

/* The last rank is the first of the communicator. */
static int has_places(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    RANKS_EXPECT(service_start(comm) == TUTTI_OK);
    prepare(&first, rank, 0, SERVICE_ALLGATHER); /* the kind of that instance */
    struct scene made = {.call = {.kind = SERVICE_GROUP,
                                  .report = {.key = {70, 0, true},
                                             .group_size = size,
                                             .has_place = true,
                                             .place = size - 1 - rank,
                                             .timeout_ns = 60000000000u,
                                             .what = "make"},
                                  .done = end_scene}};
    service_submit(&made.call);
    wait_for_scene(&made);
    RANKS_EXPECT(made.status == TUTTI_OK);
    first.call.report.key.has_communicator = true;
    service_submit(&first.call);
    wait_for_scene(&first);
    RANKS_EXPECT(first.status == TUTTI_OK);
    for (int place = 0; place < size; place++)
        for (int i = 0; i < first.count; i++)
            RANKS_EXPECT(first.recv[place * first.count + i] ==
                         value_of(size - 1 - place, first.instance, i));
    RANKS_EXPECT(meet(rank)); /* group 70 without a communicator is another */
    service_stop();
    return 0;
}

static void a_communicator_has_places(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .deadline_ms = 30000};
    assert_int_equal(ranks_run(RANKS, &options, has_places, NULL), 0);
}

static void a_cause_has_no_call(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"PROC_FAILED: recv(count 640, uint8, from any rank, tag 0): rank 1 (host a, pid 7) died",
         "rank 1 (host a, pid 7) died"},
        {"PROC_FAILED: allreduce_start(count 8, float32, sum) #12: rank 1 died", "rank 1 died"},
        {"PROC_FAILED: rank 1 (host a) #2: died", "rank 1 (host a) #2: died"},
        {"TIMEOUT: f(g(1)): late", "f(g(1)): late"},
        {"ABORTED: f(count 1) #x: late", "f(count 1) #x: late"},
        {"f(count 1", "f(count 1"},
        {"rank 0 has ended", "rank 0 has ended"},
        {"INTERNAL", "INTERNAL"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_string_equal(cause_of(texts[i][0]), texts[i][1]);
}

/* Expects that line from warn() on stderr with that TUTTI_LOG. */
static void expect_line(const char *level, const char *wanted)
{
    char before[16] = "", said[400] = "";
    snprintf(before, sizeof before, "%s", getenv("TUTTI_LOG"));
    if (level != NULL)
        setenv("TUTTI_LOG", level, 1);
    else
        unsetenv("TUTTI_LOG");
    service.warns = wants_warnings();
    setenv("TUTTI_LOG", before, 1);
    FILE *const file = tmpfile();
    assert_non_null(file);
    const int kept = dup(STDERR_FILENO);
    assert_true(kept >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    warn(NULL, "rank 1\n\x1b[2J is late");
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    if (wanted == NULL)
        assert_string_equal(said, "");
    else
        assert_non_null(strstr(said, wanted));
}

static void lines_about_late_ranks_obey_tutti_log(void **state)
{
    (void)state;
    expect_line("off", NULL);
    static const char *const levels[] = {NULL, "", "warn", "info", "debug", "nonsense"};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        expect_line(levels[i], "]: tensorflow: LATE: rank 1??[2J is late\n");
}

/* Not in the way in which the front of rank 0 would. */
static int one_talks_nonsense(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)size, (void)context;
    static const size_t lengths[] = {
        0, 3, 4, sizeof(struct report_message) - 1, sizeof(struct report_message), 800};
    if (rank != 0) RANKS_EXPECT(service_start(comm) == TUTTI_OK);
    if (rank == 0) {
        uint64_t random = seed;
        char garbage[1024];
        for (size_t i = 0; i < sizeof garbage; i++) garbage[i] = (char)chance_next(&random);
        const uint32_t kind = seed % 2 == 0 ? MESSAGE_REPORT : MESSAGE_ANSWER;
        memcpy(garbage, &kind, sizeof kind);
        const size_t bytes = lengths[seed / 2 % (sizeof lengths / sizeof *lengths)];
        for (int r = 1; r < size; r++)
            RANKS_EXPECT(tutti_send(garbage, bytes, TUTTI_UINT8, r, TAG, comm) !=
                         TUTTI_INVALID_BUFFER);
        return 0;
    }
    prepare(&first, rank, 1, 0);
    if (rank == 2) prepare(&first, 3, 1, 0); /* says what others say */
    service_submit(&first.call);
    wait_for_scene(&first);
    RANKS_EXPECT(first.status != TUTTI_OK);
    service_stop();
    return 0;
}

static void nonsense_ends_the_job_and_nothing_else(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    for (uint64_t seed = 100; seed < 112; seed++) {
        const struct ranks_options options = {
            .kind = RANKS_PROCESSES, .deadline_ms = 30000, .seed = seed};
        assert_int_equal(ranks_run(RANKS, &options, one_talks_nonsense, NULL), 0);
    }
}

int main(void)
{
    setenv("TUTTI_LOG", "off", 0); /* failures are what is expected here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_gives_every_result),
        cmocka_unit_test(a_child_of_fork_is_refused),
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(a_communicator_has_places),
        cmocka_unit_test(a_cause_has_no_call),
        cmocka_unit_test(lines_about_late_ranks_obey_tutti_log),
        cmocka_unit_test(a_rank_that_never_comes_is_named),
        cmocka_unit_test(nonsense_ends_the_job_and_nothing_else),
    };
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
