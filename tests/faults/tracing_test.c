/* Dumps of real ranks: what a communicator that fails leaves behind, and what is asked of it while
 * it works.
 *
 * What tutti-trace says about them is in tests/tools/trace_test.sh.
 *
 * ctest: label=notsan timeout=120
 */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/metrics_file.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 3, TEXT_BYTES = 1 << 20 };
static const uint64_t SECOND = 1000000000u;
static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tutti-trace-XXXXXX");
    setenv("TUTTI_LOG", "off", 0);
    return mkdtemp(folder) != NULL && setenv("TUTTI_TRACE_DIR", folder, 1) == 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char path[400];
    DIR *entries = opendir(folder);
    if (entries == NULL) return -1;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    closedir(entries);
    return rmdir(folder);
}

/* The dump of a rank: all of it, in memory that the next call uses again; "" where there is none.
 * Counts them in *count. */
static char *dump_of(int rank, int *count)
{
    static char text[TEXT_BYTES];
    char path[400], end[32];
    snprintf(end, sizeof end, "-rank%d.json", rank);
    DIR *entries = opendir(folder);
    *count = 0;
    text[0] = '\0';
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        const size_t length = strlen(entry->d_name);
        if (length < strlen(end) || strcmp(entry->d_name + length - strlen(end), end) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL) continue;
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        ++*count;
    }
    if (entries != NULL) closedir(entries);
    return text;
}

static bool says(int rank, const char *what)
{
    int count;
    const char *text = dump_of(rank, &count);
    if (count == 1 && strstr(text, what) != NULL) return true;
    print_message("rank %d: %d dumps, the last one without %s:\n%s\n", rank, count, what, text);
    return false;
}

static int run(int size, uint64_t timeout_ns, ranks_function *function,
               struct ranks_outcome *outcomes)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = timeout_ns;
    const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                          .deadline_ms = 30000,
                                          .comm_options = &comm_options,
                                          .outcomes = outcomes};
    return ranks_run(size, &options, function, NULL);
}

static enum tutti_status sum(struct tutti_comm *comm, size_t count)
{
    float data[16] = {0};
    return tutti_allreduce(data, data, count, TUTTI_FLOAT32, TUTTI_SUM, comm);
}

/* ------------------------------------------------------------------------------------- failures */

static _Atomic int *met; /* see ranks_meet */

static int one_dies(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    RANKS_EXPECT(sum(comm, 4) == TUTTI_OK);
    ranks_meet(met, size);
    if (rank == 1) {
        ranks_nap_ms(200);
        raise(SIGKILL);
    }
    RANKS_EXPECT(sum(comm, 8) == TUTTI_PROC_FAILED);
    int count;
    RANKS_EXPECT(dump_of(rank, &count)[0] != '\0'); /* it is there before the call returns */
    return 0;
}

static void every_survivor_leaves_a_dump(void **state)
{
    (void)state;
    met = ranks_share(sizeof *met);
    assert_int_equal(run(RANKS, 20 * SECOND, one_dies, NULL), 1);
    int count;
    dump_of(1, &count);
    assert_int_equal(count, 0);
    for (int rank = 0; rank < RANKS; rank += 2) {
        assert_true(says(rank, "\"status\": \"PROC_FAILED\""));
        assert_true(says(rank, "\"culprit\": {\"rank\": 1, "));
        assert_true(says(rank,
                         "{\"sequence\": 1, \"call\": \"allreduce\", \"started\": false, "
                         "\"count\": 4, \"dtype\": \"float32\", \"op\": \"sum\", \"algorithm\": "));
        assert_true(says(rank, "{\"sequence\": 2, \"call\": \"allreduce\""));
        assert_true(says(rank, "\"waits_for\": {\"rank\": ")); /* 1, or who waits for 1 */
    }
}

/* Its application computes, and calls nothing. */
static int one_computes(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_call_options soon = TUTTI_CALL_OPTIONS_INIT;
    float data[8] = {0};
    soon.timeout_ns = SECOND / 2;
    RANKS_EXPECT(sum(comm, 4) == TUTTI_OK);
    if (rank != 2) {
        RANKS_EXPECT(tutti_allreduce_with(data, data, 8, TUTTI_FLOAT32, TUTTI_SUM, &soon, comm) ==
                     TUTTI_TIMEOUT);
        return 0;
    }
    const uint64_t begin_ns = clock_now_ns();
    int count = 0;
    while (count == 0 && clock_now_ns() - begin_ns < 10 * SECOND) {
        ranks_nap_ms(20);
        dump_of(2, &count);
    }
    RANKS_EXPECT(count == 1);
    return 0;
}

static void who_is_in_no_call_leaves_one_too(void **state)
{
    (void)state;
    assert_int_equal(run(RANKS, 20 * SECOND, one_computes, NULL), 0);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_true(says(rank, "\"status\": \"TIMEOUT\""));
        assert_true(says(rank, "\"reason\": \"failure\""));
    }
    int count;
    assert_null(strstr(dump_of(2, &count), "\"sequence\": 2, \"call\""));
    assert_non_null(strstr(dump_of(0, &count), "\"sequence\": 2, \"call\""));
}

static int all_is_well(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    for (int i = 0; i < 10; i++) RANKS_EXPECT(sum(comm, 4) == TUTTI_OK);
    return 0;
}

static void without_a_failure_nothing_is_written(void **state)
{
    (void)state;
    assert_int_equal(run(RANKS, 20 * SECOND, all_is_well, NULL), 0);
    int count;
    for (int rank = 0; rank < RANKS; rank++) {
        dump_of(rank, &count);
        assert_int_equal(count, 0);
    }
}

/* ----------------------------------------------------------------------------------- on request */

static int dump_all_kinds(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    struct tutti_request *request;
    int32_t number = rank, all[RANKS];
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_allgather_start(&number, all, 1, TUTTI_INT32, NULL, comm, &request) ==
                 TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    RANKS_EXPECT(tutti_broadcast(&number, &number, 1, TUTTI_INT32, 2, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_send_start(&number, 1, TUTTI_INT32, next, 7, NULL, comm, &request) ==
                 TUTTI_OK);
    RANKS_EXPECT(tutti_recv(all, 1, TUTTI_INT32, previous, 7, NULL, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    RANKS_EXPECT(tutti_trace_dump(comm, NULL) == TUTTI_OK);
    RANKS_EXPECT(says(rank, "\"reason\": \"request\""));
    RANKS_EXPECT(says(rank, "{\"sequence\": 1, \"call\": \"barrier\", \"started\": false"));
    RANKS_EXPECT(says(rank, "{\"sequence\": 2, \"call\": \"allgather\", \"started\": true"));
    RANKS_EXPECT(says(rank, "\"dtype\": \"int32\", \"root\": 2"));
    char expected[64];
    snprintf(expected, sizeof expected, "\"peer\": %d, \"tag\": 7", previous);
    RANKS_EXPECT(says(rank, "\"call\": \"recv\", \"count\": 1, \"dtype\": \"int32\", "));
    RANKS_EXPECT(says(rank, expected));
    RANKS_EXPECT(tutti_trace_dump(comm, "/proc/nowhere") != TUTTI_OK);
    RANKS_EXPECT(tutti_trace_dump(NULL, NULL) == TUTTI_INVALID_COMM);
    return 0;
}

static void a_dump_shows_all_kinds_of_calls(void **state)
{
    (void)state;
    assert_int_equal(run(RANKS, 20 * SECOND, dump_all_kinds, NULL), 0);
}

static int dump_choices(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    float data[16] = {0}, out[16];
    const size_t counts[RANKS] = {1, 1, 1};
    for (int i = 0; i < 3; i++) RANKS_EXPECT(sum(comm, 4) == TUTTI_OK);
    options.algorithm = "ring";
    RANKS_EXPECT(tutti_allreduce_with(data, data, 8, TUTTI_FLOAT32, TUTTI_SUM, &options, comm) ==
                 TUTTI_OK);
    RANKS_EXPECT(tutti_alltoallv(data, counts, NULL, out, counts, NULL, TUTTI_FLOAT32, comm) ==
                 TUTTI_OK);
    RANKS_EXPECT(tutti_trace_dump(comm, NULL) == TUTTI_OK);
    RANKS_EXPECT(says(rank, "\"choices\": [\n  {\"call\": \"allreduce\", \"count\": 4, \"dtype\": "
                            "\"float32\", \"bytes\": 16, \"algorithm\": \""));
    RANKS_EXPECT(says(rank, "\"reason\": \"the model takes it to be the fastest\", \"calls\": 3"));
    RANKS_EXPECT(says(rank, ", \"next\": {\"algorithm\": \""));
    RANKS_EXPECT(says(rank, ", \"cores\": "));
    RANKS_EXPECT(says(rank, "\"count\": 8, \"dtype\": \"float32\", \"bytes\": 32, \"algorithm\": "
                            "\"ring\", \"reason\": \"the call asks for it\", \"calls\": 1"));
    RANKS_EXPECT(says(rank, "{\"call\": \"alltoallv\", \"dtype\": \"float32\", \"bytes\": 262144, "
                            "\"bytes_are_assumed\": true, "));
    /* What was expected stands beside each call, but where nothing was compared, or sizes are not
     * known. */
    RANKS_EXPECT(says(rank, "\"slot\": 0, \"expected_ns\": "));
    int count;
    const char *const text = dump_of(rank, &count);
    const char *const fourth = strstr(text, "{\"sequence\": 4, ");
    RANKS_EXPECT(fourth != NULL && strstr(fourth, "expected_ns") == NULL);
    return 0;
}

static void a_dump_says_why_calls_got_their_algorithms(void **state)
{
    (void)state;
    assert_int_equal(run(RANKS, 20 * SECOND, dump_choices, NULL), 0);
}

/* A rank alone, whose messages may be anything. */
static void ranks_alone_have_a_recorder_and_texts_are_json(void **state)
{
    (void)state;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    struct tutti_request *request;
    float x = 1;
    options.rank = 0;
    options.size = 1;
    assert_int_equal(tutti_comm_create(&options, &comm), TUTTI_OK);
    assert_int_equal(sum(comm, 3), TUTTI_OK);
    assert_int_equal(
        tutti_allreduce_start(&x, &x, 1, TUTTI_FLOAT32, TUTTI_MAX, NULL, comm, &request), TUTTI_OK);
    assert_int_equal(tutti_wait(&request), TUTTI_OK);
    assert_int_equal(tutti_comm_abort(comm, "\"quoted\"\\ \n\xff\xc3\xa4\xed\xa0\x80"), TUTTI_OK);
    assert_int_equal(sum(comm, 3), TUTTI_ABORTED);
    assert_true(
        says(0, "{\"sequence\": 1, \"call\": \"allreduce\", \"started\": false, \"count\": 3"));
    assert_true(says(0,
                     "{\"sequence\": 2, \"call\": \"allreduce\", \"started\": true, \"count\": 1, "
                     "\"dtype\": \"float32\", \"op\": \"max\""));
    assert_true(says(0, "\\\"quoted\\\"\\\\ \\u000a\\ufffd\xc3\xa4\\ufffd\\ufffd\\ufffd"));
    assert_int_equal(tutti_comm_free(comm), TUTTI_OK);
}

static void a_folder_is_needed(void **state)
{
    (void)state;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    char elsewhere[128];
    int count;
    unsetenv("TUTTI_TRACE_DIR");
    options.rank = 0;
    options.size = 1;
    assert_int_equal(tutti_comm_create(&options, &comm), TUTTI_OK);
    assert_int_equal(tutti_trace_dump(comm, NULL), TUTTI_INVALID_OPTIONS);
    assert_int_equal(tutti_trace_dump(comm, folder), TUTTI_OK);
    dump_of(0, &count);
    assert_int_equal(count, 1);
    snprintf(elsewhere, sizeof elsewhere, "%s/deeper", folder); /* is made */
    assert_int_equal(tutti_trace_dump(comm, elsewhere), TUTTI_OK);
    struct stat there;
    assert_int_equal(stat(elsewhere, &there), 0);
    char command[160];
    snprintf(command, sizeof command, "rm -r %s", elsewhere);
    assert_int_equal(system(command), 0);
    assert_int_equal(tutti_comm_free(comm), TUTTI_OK);
}

/* -------------------------------------------------------------------------------------- metrics */

static long value_in(const char *path, const char *name)
{
    static char text[TEXT_BYTES];
    FILE *file = fopen(path, "re");
    const size_t size = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    text[size] = '\0';
    if (file != NULL) fclose(file);
    const char *line = strstr(text, name);
    const char *value = line != NULL ? strstr(line, "process=\"") : NULL;
    value = value != NULL ? strstr(value, "\"} ") : NULL;
    return value != NULL ? strtol(value + 3, NULL, 10) : -1;
}

static struct tutti_comm *be_alone(void)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    options.rank = 0;
    options.size = 1;
    assert_int_equal(tutti_comm_create(&options, &comm), TUTTI_OK);
    return comm;
}

static void metrics_count_what_was_called(void **state)
{
    (void)state;
    static const char calls[] = "\ntutti_calls_total{collective=\"allreduce\",";
    static const char bytes[] = "\ntutti_bytes_total{collective=\"allreduce\",";
    static const char sent[] = "\ntutti_bytes_total{collective=\"send\",";
    static const char failures[] = "\ntutti_failures_total{";
    char path[256];
    float x[2] = {1, 2}, y[2];
    struct tutti_request *request;
    unsetenv("TUTTI_TRACE_DIR");
    setenv("TUTTI_METRICS_DIR", folder, 1);
    assert_int_equal(tutti_comm_free(be_alone()), TUTTI_OK);
    assert_int_equal(metrics_file_find(folder, getpid(), path, sizeof path), 1);
    const long before[] = {value_in(path, calls), value_in(path, bytes), value_in(path, sent),
                           value_in(path, failures)};
    struct tutti_comm *comm = be_alone();
    for (int i = 0; i < 600; i++)
        assert_int_equal(sum(comm, 3), TUTTI_OK); /* more than the ring has */
    assert_int_equal(tutti_send_start(x, 2, TUTTI_FLOAT32, 0, 1, NULL, comm, &request), TUTTI_OK);
    assert_int_equal(tutti_recv(y, 2, TUTTI_FLOAT32, 0, 1, NULL, comm), TUTTI_OK);
    assert_int_equal(tutti_wait(&request), TUTTI_OK);
    assert_int_equal(tutti_comm_abort(comm, NULL), TUTTI_OK);
    assert_int_equal(tutti_comm_free(comm), TUTTI_OK);
    assert_int_equal(value_in(path, calls) - before[0], 600);
    assert_int_equal(value_in(path, bytes) - before[1], 600 * 3 * 4);
    assert_int_equal(value_in(path, sent) - before[2], 2 * 4);
    assert_int_equal(value_in(path, failures) - before[3], 1);
    unsetenv("TUTTI_METRICS_DIR");
}

/* --------------------------------------------------------------------------------------- scenes */

/* As a program that tests/tools/trace_test.sh starts: rank 1 plays the part that the scene is named
 * after. */
static enum tutti_status play(struct tutti_comm *comm, const char *scene)
{
    const bool is_odd = tutti_comm_rank(comm) == 1;
    for (int i = 0; i < 3; i++)
        if (sum(comm, 4) != TUTTI_OK) return TUTTI_INTERNAL;
    if (strcmp(scene, "fine") == 0) return tutti_trace_dump(comm, NULL);
    if (is_odd && strcmp(scene, "die") == 0) raise(SIGKILL);
    if (is_odd && strcmp(scene, "late") == 0) ranks_nap_ms(3000);
    if (is_odd && strcmp(scene, "stopped") == 0) raise(SIGSTOP);
    if (is_odd && strcmp(scene, "abort") == 0) return tutti_comm_abort(comm, "the loss is NaN");
    if (is_odd && strcmp(scene, "stop") == 0) /* until the script ends it */
        for (;;) pause();
    if (is_odd && strcmp(scene, "desync") == 0) return tutti_barrier(comm);
    return sum(comm, is_odd && strcmp(scene, "mismatch") == 0 ? 8 : 4);
}

static int be_a_rank(const char *scene)
{
    struct tutti_comm *comm;
    if (tutti_comm_create(NULL, &comm) != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_error_message());
        return 99;
    }
    const enum tutti_status status = play(comm, scene);
    return tutti_comm_free(comm) == TUTTI_OK ? (int)status : 99;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "scene") == 0) return be_a_rank(argv[2]);
    const struct CMUnitTest tests[] = {
        TEST(every_survivor_leaves_a_dump),
        TEST(who_is_in_no_call_leaves_one_too),
        TEST(without_a_failure_nothing_is_written),
        TEST(a_dump_shows_all_kinds_of_calls),
        TEST(a_dump_says_why_calls_got_their_algorithms),
        TEST(ranks_alone_have_a_recorder_and_texts_are_json),
        TEST(a_folder_is_needed),
        TEST(metrics_count_what_was_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
