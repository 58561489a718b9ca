/* Plans from files: rules and calls name them; what is wrong with one, or differs between ranks, is
 * an error on all ranks.
 *
 * ctest: timeout=60
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "algo/loaded.h"
#include "format/plan_file.h"
#include "format/proof_file.h"
#include "plan/text.h"
#include "tests/kit/log_reader.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 4, COUNT = 1000, PATH_SIZE = 200 };

#define SECOND_NS UINT64_C(1000000000)

static char folder[] = "/tmp/tutti-plans-XXXXXX";

static const char *path_of(const char *name)
{
    static _Thread_local char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_text(const char *name, const char *text)
{
    FILE *const file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path_of(name), 0600), 0);
}

static void write_plan(const char *name, enum collective collective, const char *algorithm,
                       int ranks)
{
    struct plan *plan;
    const char *message;
    const struct algo_params params = {.collective = collective, .rank_count = ranks};
    assert_int_equal(algo_plan(algo_find(collective, algorithm), &params, &plan, &message),
                     TUTTI_OK);
    FILE *const file = fopen(path_of(name), "w");
    assert_non_null(file);
    plan_print(plan, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path_of(name), 0600), 0);
    plan_free(plan);
}

/* A sum along a chain, right, after copies that make its proof take more than 2^29 looks:
 * seconds. */
static void write_slow(const char *name)
{
    enum { COPIES = 640 };
    FILE *const file = fopen(path_of(name), "w");
    assert_non_null(file);
    fprintf(file, "plan allreduce ranks %d parts 10000\n", RANKS);
    for (int r = 0; r < RANKS; r++) {
        fprintf(file, "rank %d\n lane 0\n", r);
        for (int i = 0; i < COPIES; i++) fprintf(file, " in[0..9999] -> out[0..9999]\n");
        if (r > 0) fprintf(file, " from %d + ", r - 1);
        if (r == RANKS - 1) {
            fprintf(file, "in[0..9999] -> out[0..9999], to %d channel 1  final\n", r - 1);
            continue;
        }
        fprintf(file, " in[0..9999] -> to %d\n from %d channel 1 -> out[0..9999]", r + 1, r + 1);
        if (r > 0) fprintf(file, ", to %d channel 1", r - 1);
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path_of(name), 0600), 0);
}

#define WRONG                                                                                     \
    "plan allreduce ranks 4 parts 1\nrank 0\n lane 0\n in[0] -> to 1\n from 1 -> out[0]\nrank "   \
    "1\n lane 0\n in[0] -> to 0\n from 0 -> out[0]\nrank 2\n lane 0\n in[0] -> to 3\n from 3 -> " \
    "out[0]\nrank 3\n lane 0\n in[0] -> to 2\n from 2 -> out[0]\n"

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL || setenv("XDG_CACHE_HOME", path_of("cache"), 1) != 0) return 1;
    if (mkdir(path_of("own"), 0700) != 0 || mkdir(path_of("own/9-hosts"), 0700) != 0 ||
        mkdir(path_of("own/1-hosts-1-racks"), 0700) != 0 || mkdir(path_of("other"), 0700) != 0)
        return 1;
    write_plan("own/1-hosts-1-racks/ring.plan", COLLECTIVE_ALLREDUCE, "ring", RANKS);
    write_plan("own/9-hosts/far.plan", COLLECTIVE_ALLREDUCE, "ring", RANKS);
    write_plan("own/three.plan", COLLECTIVE_ALLREDUCE, "ring", 3);
    write_plan("other/ring.plan", COLLECTIVE_ALLREDUCE, "ring", RANKS);
    write_text("own/broken.plan", "plan allreduce ranks 4 parts 0\n");
    write_text("own/wrong.plan", WRONG);
    write_text("own/read.me", "no plan");
    write_plan("ring.plan", COLLECTIVE_ALLREDUCE, "ring", RANKS);
    write_plan("twoshot.plan", COLLECTIVE_ALLREDUCE, "twoshot", RANKS);
    write_plan("three.plan", COLLECTIVE_ALLREDUCE, "ring", 3);
    write_plan("gather.plan", COLLECTIVE_ALLGATHER, "ring", RANKS);
    write_plan("broadcast.plan", COLLECTIVE_BROADCAST, "chain", RANKS);
    write_text("wrong.plan", WRONG);
    write_plan("open.plan", COLLECTIVE_ALLREDUCE, "twoshot", RANKS);
    if (chmod(path_of("open.plan"), 0620) != 0) return 1;
    write_slow("slow.plan");
    write_text("broken.plan", "plan allreduce ranks 4 parts 1\nrank 0\n lane 0\n in[7] -> to 1\n");
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[PATH_SIZE + 20];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 ? 0 : 1;
}

/* -------------------------------------------------------------------------------- what is right */

static enum tutti_status add(struct tutti_comm *comm, int rank, const char *algorithm,
                             bool in_place, bool *is_right)
{
    float in[COUNT], out[COUNT];
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    const int size = tutti_comm_size(comm);
    options.algorithm = algorithm;
    for (int i = 0; i < COUNT; i++) in[i] = (float)(i + rank);
    float *const result = in_place ? in : out;
    const enum tutti_status status =
        tutti_allreduce_with(in, result, COUNT, TUTTI_FLOAT32, TUTTI_SUM, &options, comm);
    *is_right = true;
    for (int i = 0; i < COUNT; i++)
        *is_right = *is_right && result[i] == (float)(i * size + size * (size - 1) / 2);
    return status;
}

struct job {
    const char *algorithm; /* of the call; or NULL */
    const char *explained; /* what tutti_comm_explain says; or NULL */
};

static int reduce(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed;
    const struct job *const job = context;
    char text[8000];
    bool is_right;
    for (int variant = 0; variant < 3; variant++) {
        RANKS_EXPECT(add(comm, rank, job->algorithm,
                         variant == 1 || (variant == 2 && rank % 2 == 0), &is_right) == TUTTI_OK);
        RANKS_EXPECT(is_right);
    }
    RANKS_EXPECT(tutti_comm_explain(comm, "allreduce", COUNT, TUTTI_FLOAT32, text, sizeof text) ==
                 TUTTI_OK);
    RANKS_EXPECT(job->explained == NULL || strstr(text, job->explained) != NULL);
    return 0;
}

static void run(const char *rules, const char *algorithm, const char *explained)
{
    struct tutti_comm_options of_comm = TUTTI_COMM_OPTIONS_INIT;
    struct job job = {algorithm, explained};
    of_comm.algorithms = rules;
    const enum ranks_kind kinds[] = {RANKS_DEFAULT, RANKS_THREADS};
    for (int k = 0; k < 2 && !ranks_repeat(kinds[k]); k++) {
        const struct ranks_options options = {
            .kind = kinds[k], .deadline_ms = 20000, .comm_options = &of_comm};
        assert_int_equal(ranks_run(RANKS, &options, reduce, &job), 0);
    }
}

static void a_rule_names_a_file(void **state)
{
    (void)state;
    char rules[2 * PATH_SIZE], explained[2 * PATH_SIZE];
    snprintf(rules, sizeof rules, "allreduce:1k-=file:%s;barrier=mesh", path_of("ring.plan"));
    snprintf(explained, sizeof explained, "file:%s, because the rules", path_of("ring.plan"));
    run(rules, NULL, explained);
}

static void a_call_names_a_file(void **state)
{
    (void)state;
    char algorithm[2 * PATH_SIZE];
    snprintf(algorithm, sizeof algorithm, "file:%s", path_of("twoshot.plan"));
    run(NULL, algorithm, NULL);
}

/* -------------------------------------------------------------------------------- what is wrong */

enum { TEXT_SIZE = 600 };

struct meeting {
    struct tutti_id id;
    const char *files[RANKS];    /* of the rules of each rank */
    const char *folders[RANKS];  /* TUTTI_PLANS; or NULL */
    const char *caches[RANKS];   /* of proofs; or NULL */
    uint64_t timeouts_ns[RANKS]; /* of creation; 0: long */
    enum tutti_status statuses[RANKS];
    char messages[RANKS][TEXT_SIZE];
};

static int meet(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    (void)none, (void)seed;
    struct meeting *const meeting = context;
    struct tutti_comm *comm;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    char rules[2 * PATH_SIZE];
    snprintf(rules, sizeof rules, "allreduce=file:%s", path_of(meeting->files[rank]));
    const char *const own = meeting->folders[rank];
    if (own != NULL) setenv("TUTTI_PLANS", own[0] != '\0' ? path_of(own) : "", 1);
    if (meeting->caches[rank] != NULL) setenv("XDG_CACHE_HOME", path_of(meeting->caches[rank]), 1);
    options.rank = rank;
    options.size = size;
    options.id = &meeting->id;
    options.algorithms = rules;
    options.init_timeout_ns =
        meeting->timeouts_ns[rank] != 0 ? meeting->timeouts_ns[rank] : 20 * SECOND_NS;
    meeting->statuses[rank] = tutti_comm_create(&options, &comm);
    snprintf(meeting->messages[rank], TEXT_SIZE, "%s", tutti_error_message());
    return tutti_comm_free(comm) == TUTTI_OK ? 0 : 1;
}

static struct meeting *shared_meeting(void)
{
    struct meeting *const meeting = ranks_share(sizeof *meeting);
    assert_int_equal(tutti_id_create(&meeting->id), TUTTI_OK);
    return meeting;
}

/* All ranks have one file but for rank 2. */
static struct meeting *meet_with(const char *usual, const char *odd)
{
    struct meeting *const meeting = shared_meeting();
    const struct ranks_options options = {.deadline_ms = 30000, .without_comm = true};
    for (int r = 0; r < RANKS; r++) meeting->files[r] = r == 2 ? odd : usual;
    assert_int_equal(ranks_run(RANKS, &options, meet, meeting), 0);
    return meeting;
}

static void expect(const struct meeting *meeting, int rank, enum tutti_status status,
                   const char *words)
{
    if (meeting->statuses[rank] != status || strstr(meeting->messages[rank], words) == NULL)
        fail_msg("rank %d: %s: %s", rank, tutti_status_name(meeting->statuses[rank]),
                 meeting->messages[rank]);
}

static void a_wrong_plan_is_refused_with_its_step(void **state)
{
    (void)state;
    struct meeting *const meeting = meet_with("wrong.plan", "wrong.plan");
    for (int r = 0; r < RANKS; r++) {
        expect(meeting, r, TUTTI_INVALID_ALGORITHM, "wrong.plan");
        expect(meeting, r, TUTTI_INVALID_ALGORITHM, "rank 1 lane 0 step 1 (recv)");
    }
    munmap(meeting, sizeof *meeting);
}

static void ranks_with_different_plans_are_told(void **state)
{
    (void)state;
    struct meeting *const meeting = meet_with("ring.plan", "twoshot.plan");
    for (int r = 0; r < RANKS; r++)
        expect(meeting, r, TUTTI_MISMATCH, "ranks 0 and 2 have different plans");
    munmap(meeting, sizeof *meeting);
}

static void a_plan_that_is_wrong_on_one_rank_is_refused_there_with_its_step(void **state)
{
    (void)state;
    struct meeting *const meeting = meet_with("ring.plan", "wrong.plan");
    for (int r = 0; r < RANKS; r++)
        if (r == 2)
            expect(meeting, r, TUTTI_INVALID_ALGORITHM, "rank 1 lane 0 step 1 (recv)");
        else
            expect(meeting, r, TUTTI_MISMATCH, "ranks 0 and 2 have different plans");
    munmap(meeting, sizeof *meeting);
}

static void who_cannot_read_its_plan_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *file, *words;
        enum tutti_status status;
    } cases[] = {
        {"none.plan", "none.plan: No such file", TUTTI_INVALID_OPTIONS},
        {"broken.plan", "line 4", TUTTI_INVALID_ALGORITHM},
        {"open.plan", "other users can write it", TUTTI_INVALID_OPTIONS},
        {"gather.plan", "it is a plan for allgather", TUTTI_INVALID_ALGORITHM},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct meeting *const meeting = meet_with("ring.plan", cases[i].file);
        for (int r = 0; r < RANKS; r++) {
            expect(meeting, r, cases[i].status, cases[i].words);
            if (r != 2) expect(meeting, r, cases[i].status, "rank 2 (");
        }
        munmap(meeting, sizeof *meeting);
    }
}

/* Rank 2 calls with another file; if it is wrong, its own status says so. */
struct calls {
    const char *odd, *words;
    enum tutti_status own;
    const char *own_words;
};

static int call_apart(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed;
    const struct calls *const calls = context;
    char algorithm[2 * PATH_SIZE];
    bool is_right;
    const char *const name = rank == 2 ? calls->odd : "ring.plan";
    snprintf(algorithm, sizeof algorithm, "file:%s", name[0] != '\0' ? path_of(name) : "");
    enum tutti_status status = add(comm, rank, algorithm, false, &is_right);
    if (rank == 2 && calls->own != TUTTI_OK) {
        RANKS_EXPECT(status == calls->own);
        RANKS_EXPECT(strstr(tutti_error_message(), calls->own_words) != NULL);
        status = TUTTI_OK;
    }
    if (status == TUTTI_OK) status = tutti_barrier(comm); /* through with it before it showed */
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    RANKS_EXPECT(status == TUTTI_MISMATCH);
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT(strstr(failure.message, calls->words) != NULL);
    return 0;
}

static void ranks_that_call_with_different_files_are_told(void **state)
{
    (void)state;
    static const char refused[] = "and cannot use the plan that its call names";
    struct calls cases[] = {
        {"twoshot.plan", "another algorithm (or plan of it)", TUTTI_OK, ""},
        {"none.plan", refused, TUTTI_INVALID_OPTIONS, "none.plan: No such file"},
        {"wrong.plan", refused, TUTTI_INVALID_ALGORITHM, "rank 1 lane 0 step 1 (recv)"},
        {"", refused, TUTTI_INVALID_ALGORITHM, "the path of a file is needed"},
        {"three.plan", refused, TUTTI_INVALID_ALGORITHM, "is a plan for 3 ranks, and there are 4"},
        {"broadcast.plan", refused, TUTTI_INVALID_ALGORITHM, "is a plan for broadcast"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct ranks_options options = {.deadline_ms = 20000};
        if (i == 1) setenv("TUTTI_TEST_HOSTS", "2", 1);
        const int failed = ranks_run(RANKS, &options, call_apart, &cases[i]);
        unsetenv("TUTTI_TEST_HOSTS");
        assert_int_equal(failed, 0);
    }
}

/* All make the same mistake, in each form. */
enum form { BLOCKING, STARTED, PREPARED, GROUPED, FORMS };

static enum tutti_status sum_in_form(struct tutti_comm *comm, enum form form, const char *algorithm,
                                     int32_t *value)
{
    struct tutti_request *request = NULL;
    struct tutti_prepared *prepared = NULL;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    enum tutti_status status = TUTTI_OK;
    options.algorithm = algorithm;
    if (form == STARTED)
        status = tutti_allreduce_start(value, value, 1, TUTTI_INT32, TUTTI_SUM, &options, comm,
                                       &request);
    else if (form == PREPARED)
        status = tutti_allreduce_prepare(value, value, 1, TUTTI_INT32, TUTTI_SUM, &options, comm,
                                         &prepared);
    else
        status = tutti_allreduce_with(value, value, 1, TUTTI_INT32, TUTTI_SUM, &options, comm);
    if (status == TUTTI_OK && prepared != NULL) status = tutti_start(prepared, &request);
    if (status == TUTTI_OK && request != NULL) status = tutti_wait(&request);
    const enum tutti_status freed = tutti_prepared_free(prepared);
    return status != TUTTI_OK ? status : freed;
}

/* With so many started calls beside it that those that begin later stand in line. */
static int mistake(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    enum { BESIDE = 20 };
    const struct calls *const calls = context;
    char algorithm[2 * PATH_SIZE];
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    snprintf(algorithm, sizeof algorithm, "file:%s", path_of(calls->odd));
    for (int form = 0; form < FORMS; form++) {
        int32_t value = rank, good = rank, beside[BESIDE];
        struct tutti_request *requests[BESIDE] = {0};
        for (int i = 0; i < BESIDE; i++) {
            beside[i] = rank + i;
            RANKS_EXPECT(tutti_allreduce_start(&beside[i], &beside[i], 1, TUTTI_INT32, TUTTI_SUM,
                                               NULL, comm, &requests[i]) == TUTTI_OK);
        }
        if (form == GROUPED) RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
        RANKS_EXPECT(sum_in_form(comm, (enum form)form, algorithm, &value) == calls->own);
        RANKS_EXPECT(strstr(tutti_error_message(), calls->own_words) != NULL && value == rank);
        RANKS_EXPECT(sum_in_form(comm, (enum form)form, NULL, &good) == TUTTI_OK);
        if (form == GROUPED) RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
        RANKS_EXPECT(good == size * (size - 1) / 2);
        for (int i = 0; i < BESIDE; i++) {
            RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_OK);
            RANKS_EXPECT(beside[i] == size * (size - 1) / 2 + size * i);
        }
    }
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK && failure.status == TUTTI_OK);
    return 0;
}

static void a_file_that_is_wrong_on_all_ranks_fails_that_call_alone(void **state)
{
    (void)state;
    static const struct calls cases[] = {
        {"none.plan", NULL, TUTTI_INVALID_OPTIONS, "none.plan: No such file"},
        {"wrong.plan", NULL, TUTTI_INVALID_ALGORITHM, "rank 1 lane 0 step 1 (recv)"},
        {"three.plan", NULL, TUTTI_INVALID_ALGORITHM, "is a plan for 3 ranks, and there are 4"},
    };
    const struct ranks_options processes = {.deadline_ms = 20000},
                               threads = {.kind = RANKS_THREADS, .deadline_ms = 20000};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(
            ranks_run(RANKS, i == 0 ? &threads : &processes, mistake, (void *)&cases[i]), 0);
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    const int failed = ranks_run(RANKS, &processes, mistake, (void *)&cases[0]);
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(failed, 0);
}

/* -------------------------------------------------------------------------- what takes too long */

/* All ranks take the plan to be proven, but for rank 2, which finds no proof of it. */
static void who_lacks_a_kept_proof_is_named_with_its_cause(void **state)
{
    (void)state;
    struct plan *plan;
    struct algorithm *algorithm;
    struct plan_budget budget = plan_budget_default();
    assert_int_equal(plan_file_load(path_of("slow.plan"), &budget, &plan), TUTTI_OK);
    assert_int_equal(loaded_create("slow", plan, &algorithm), TUTTI_OK);
    proof_file_keep(algorithm, &(struct loaded_proof){.in_rank_order = true});
    loaded_free(algorithm);
    struct meeting *const meeting = shared_meeting();
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 30000, .without_comm = true};
    for (int r = 0; r < RANKS; r++) meeting->files[r] = "slow.plan";
    meeting->caches[2] = "other-cache";
    meeting->timeouts_ns[2] = 2 * SECOND_NS;
    assert_int_equal(ranks_run(RANKS, &options, meet, meeting), 0);
    for (int r = 0; r < RANKS; r++) {
        expect(meeting, r, TUTTI_TIMEOUT, "was given up: the deadline passed after ");
        if (r != 2) expect(meeting, r, TUTTI_TIMEOUT, "rank 2 ");
    }
    munmap(meeting, sizeof *meeting);
}

static int call_slow(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    char algorithm[2 * PATH_SIZE];
    int32_t one = rank;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    snprintf(algorithm, sizeof algorithm, "file:%s", path_of("slow.plan"));
    options.algorithm = algorithm;
    options.timeout_ns = SECOND_NS / 5;
    RANKS_EXPECT(tutti_allreduce_with(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, &options, comm) ==
                 TUTTI_TIMEOUT);
    RANKS_EXPECT(strstr(tutti_error_message(), "the deadline passed ") != NULL);
    /* It is over for all ranks, and the communicator goes on. */
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK && failure.status == TUTTI_OK);
    return 0;
}

/* No rank has a proof. */
static void the_deadline_of_a_call_bounds_the_proof(void **state)
{
    (void)state;
    assert_int_equal(setenv("XDG_CACHE_HOME", path_of("third-cache"), 1), 0);
    const enum ranks_kind kinds[] = {RANKS_DEFAULT, RANKS_THREADS};
    for (int k = 0; k < 2 && !ranks_repeat(kinds[k]); k++) {
        const struct ranks_options options = {.kind = kinds[k], .deadline_ms = 20000};
        assert_int_equal(ranks_run(RANKS, &options, call_slow, NULL), 0);
    }
    assert_int_equal(setenv("XDG_CACHE_HOME", path_of("cache"), 1), 0);
}

static int call_slow_on_a_failed_one(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                     void *context)
{
    (void)size, (void)seed, (void)context;
    char algorithm[2 * PATH_SIZE];
    int32_t one = rank;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    snprintf(algorithm, sizeof algorithm, "file:%s", path_of("slow.plan"));
    options.algorithm = algorithm;
    if (rank == RANKS - 1) {
        ranks_nap_ms(100); /* the others read or prove it */
        RANKS_EXPECT(tutti_comm_revoke(comm) == TUTTI_OK);
    }
    struct tutti_prepared *prepared;
    RANKS_EXPECT(tutti_allreduce_prepare(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, &options, comm,
                                         &prepared) == TUTTI_REVOKED);
    RANKS_EXPECT(strstr(tutti_error_message(), "revoked the communicator") != NULL);
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK && failure.status == TUTTI_REVOKED);
    return 0;
}

/* Whoever is stopped in the middle of a proof says why, as any other call on that communicator
 * does. */
static void a_proof_that_a_failure_stops_returns_the_failure(void **state)
{
    (void)state;
    assert_int_equal(setenv("XDG_CACHE_HOME", path_of("fourth-cache"), 1), 0);
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .deadline_ms = 20000};
    assert_int_equal(ranks_run(RANKS, &options, call_slow_on_a_failed_one, NULL), 0);
    assert_int_equal(setenv("XDG_CACHE_HOME", path_of("cache"), 1), 0);
}

/* ----------------------------------------------------------------------------- what is not used */

enum { WORDS_MAX = 5 };

struct log_count {
    const char *words[WORDS_MAX];
    int counts[WORDS_MAX];
};

static void count_line(const char *line, void *context)
{
    struct log_count *const log = context;
    for (int i = 0; i < WORDS_MAX && log->words[i] != NULL; i++)
        log->counts[i] += strstr(line, log->words[i]) != NULL;
}

/* Lines that all ranks log in all. */
static struct log_count *count_lines(const char *level, const char *rules, struct job *job,
                                     const char *const words[WORDS_MAX])
{
    struct tutti_comm_options of_comm = TUTTI_COMM_OPTIONS_INIT;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 20000, .comm_options = &of_comm};
    struct log_count *const log = ranks_share(sizeof *log);
    struct log_reader reader;
    of_comm.algorithms = rules;
    memcpy(log->words, words, sizeof log->words);
    setenv("TUTTI_LOG", level, 1);
    log_reader_begin(&reader, count_line, log);
    const int bad = ranks_run(RANKS, &options, reduce, job);
    log_reader_end(&reader);
    unsetenv("TUTTI_LOG");
    assert_int_equal(bad, 0);
    return log;
}

/* Each of them is in one line. */
static void expect_lines(const char *rules, struct job *job, const char *const words[WORDS_MAX])
{
    struct log_count *const log = count_lines("info", rules, job, words);
    for (int i = 0; i < WORDS_MAX && words[i] != NULL; i++)
        if (log->counts[i] != 1) fail_msg("%d lines with \"%s\"", log->counts[i], words[i]);
    munmap(log, sizeof *log);
}

static void expect_proofs(int new_min, int new_max)
{
    char rules[2 * PATH_SIZE];
    snprintf(rules, sizeof rules, "allreduce=file:%s", path_of("ring.plan"));
    struct job job = {NULL, NULL};
    const char *const words[WORDS_MAX] = {"ring.plan: is proven", "ring.plan: was proven before"};
    struct log_count *const log = count_lines("debug", rules, &job, words);
    assert_int_equal(log->counts[0] + log->counts[1], RANKS);
    assert_in_range(log->counts[0], new_min, new_max);
    munmap(log, sizeof *log);
}

static void a_proof_is_kept_for_other_processes(void **state)
{
    (void)state;
    expect_proofs(1, RANKS);
    expect_proofs(0, 0);
    char command[2 * PATH_SIZE];
    snprintf(command, sizeof command, "for f in %s/tutti/proofs/*; do echo >>$f; done",
             path_of("cache"));
    assert_int_equal(system(command), 0);
    expect_proofs(1, RANKS); /* changed ones do not count, and are written anew */
    expect_proofs(0, 0);
}

static void a_plan_for_other_ranks_is_passed_over(void **state)
{
    (void)state;
    char rules[2 * PATH_SIZE];
    snprintf(rules, sizeof rules, "allreduce=twoshot,file:%s", path_of("three.plan"));
    struct job job = {NULL, "twoshot, because the rules"};
    const char *const words[WORDS_MAX] = {
        "three.plan is not used: it is for 3 ranks, and there are 4"};
    expect_lines(rules, &job, words);
}

/* -------------------------------------------------------------------------------------- folders */

static void the_log_says_why_plans_of_a_folder_are_not_used(void **state)
{
    (void)state;
    struct job job = {NULL, "1-hosts-1-racks/ring.plan"};
    const char *const words[WORDS_MAX] = {
        "own/three.plan is not used: it is for 3 ranks, and there are 4",
        "own/9-hosts/far.plan is not used: it is for other machines",
        "wrong.plan of allreduce is wrong, with separate buffers: rank 1 lane 0 step 1",
        "own/1-hosts-1-racks/ring.plan is not used: about ",
    };
    setenv("TUTTI_PLANS", path_of("own"), 1);
    expect_lines(NULL, &job, words);
    const char *const by_rules[WORDS_MAX] = {
        "own/1-hosts-1-racks/ring.plan is not used for 4000 bytes: twoshot is, because the rules"};
    expect_lines("allreduce=twoshot", &job, by_rules);
    unsetenv("TUTTI_PLANS");
}

/* Nothing else is left. */
static void a_plan_of_a_folder_is_chosen_by_its_cost(void **state)
{
    (void)state;
    char rules[1000] = "barrier=mesh;allreduce";
    for (int i = 0; i < algo_count; i++) {
        if (algo_list[i].collective != COLLECTIVE_ALLREDUCE) continue;
        strcat(rules, strstr(rules, "^") == NULL ? "=^" : ",^");
        strcat(rules, algo_list[i].name);
    }
    setenv("TUTTI_PLANS", path_of("own"), 1);
    run(rules, NULL, "1-hosts-1-racks/ring.plan, because the model");
    unsetenv("TUTTI_PLANS");
}

static void different_folders_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *words;
        enum tutti_status status;
    } cases[] = {
        {"other", "ranks 0 and 2 have different plans", TUTTI_MISMATCH},
        {"nowhere", "nowhere/: No such file", TUTTI_INVALID_OPTIONS},
        {"", "ranks 0 and 2 have different plans", TUTTI_MISMATCH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct meeting *const meeting = shared_meeting();
        const struct ranks_options options = {
            .kind = RANKS_PROCESSES, .deadline_ms = 30000, .without_comm = true};
        for (int r = 0; r < RANKS; r++) {
            meeting->files[r] = "ring.plan";
            meeting->folders[r] = r == 2 ? cases[i].folder : "own";
        }
        assert_int_equal(ranks_run(RANKS, &options, meet, meeting), 0);
        for (int r = 0; r < RANKS; r++) expect(meeting, r, cases[i].status, cases[i].words);
        munmap(meeting, sizeof *meeting);
    }
}

static int broadcast_by_file(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)size, (void)seed;
    const int root = *(const int *)context;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    char algorithm[2 * PATH_SIZE];
    int32_t value = rank + 5;
    snprintf(algorithm, sizeof algorithm, "file:%s", path_of("broadcast.plan"));
    options.algorithm = algorithm;
    const enum tutti_status status =
        tutti_broadcast_with(&value, &value, 1, TUTTI_INT32, root, &options, comm);
    if (root == 0) {
        RANKS_EXPECT(status == TUTTI_OK && value == 5);
    } else {
        RANKS_EXPECT(status == TUTTI_INVALID_ALGORITHM);
        RANKS_EXPECT(strstr(tutti_error_message(), "is a plan for another root") != NULL);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    }
    return 0;
}

static void a_plan_is_for_one_root(void **state)
{
    (void)state;
    const struct ranks_options options = {.deadline_ms = 20000};
    for (int root = 0; root < 2; root++)
        assert_int_equal(ranks_run(RANKS, &options, broadcast_by_file, &root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proof_is_kept_for_other_processes),
        cmocka_unit_test(
            a_plan_for_other_ranks_is_passed_over), /* before this process reads what to log */
        cmocka_unit_test(the_log_says_why_plans_of_a_folder_are_not_used),
        cmocka_unit_test(a_rule_names_a_file),
        cmocka_unit_test(a_call_names_a_file),
        cmocka_unit_test(a_wrong_plan_is_refused_with_its_step),
        cmocka_unit_test(ranks_with_different_plans_are_told),
        cmocka_unit_test(a_plan_that_is_wrong_on_one_rank_is_refused_there_with_its_step),
        cmocka_unit_test(who_cannot_read_its_plan_is_named),
        cmocka_unit_test(ranks_that_call_with_different_files_are_told),
        cmocka_unit_test(a_file_that_is_wrong_on_all_ranks_fails_that_call_alone),
        cmocka_unit_test(who_lacks_a_kept_proof_is_named_with_its_cause),
        cmocka_unit_test(the_deadline_of_a_call_bounds_the_proof),
        cmocka_unit_test(a_proof_that_a_failure_stops_returns_the_failure),
        cmocka_unit_test(a_plan_is_for_one_root),
        cmocka_unit_test(a_plan_of_a_folder_is_chosen_by_its_cost),
        cmocka_unit_test(different_folders_are_told),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
