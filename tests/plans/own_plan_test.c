/* Plans that a program writes step by step, proves, and registers under a name.
 *
 * ctest: timeout=60
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/worlds/ranks.h"
#include "tutti/plan.h"

enum { RANKS = 4, COUNT = 777, TEXT_SIZE = 8000 };

/* Around a ring: part k of the sum begins at rank k + 1 and is complete at rank k, which passes it
 * on. Channels alternate. */
static enum tutti_status write_ring_rank(struct tutti_plan *plan, int rank)
{
    const int left = (rank + RANKS - 1) % RANKS, right = (rank + 1) % RANKS;
    enum tutti_status status = TUTTI_OK;
    char step[100];
    snprintf(step, sizeof step, "in[%d] -> to %d", left, right);
    status = tutti_plan_step(plan, rank, 0, step);
    for (int k = 1; k < 2 * RANKS - 1 && status == TUTTI_OK; k++) {
        const int part = (rank + 2 * RANKS - 1 - k) % RANKS;
        const int from = (k - 1) % 2, to = k % 2;
        char add[20] = "", pass_on[40] = "";
        if (k < RANKS) snprintf(add, sizeof add, " + in[%d]", part);
        if (k < 2 * RANKS - 2) snprintf(pass_on, sizeof pass_on, ", to %d channel %d", right, to);
        snprintf(step, sizeof step, "from %d channel %d%s -> out[%d]%s%s", left, from, add, part,
                 pass_on, k == RANKS - 1 ? "  final" : "");
        status = tutti_plan_step(plan, rank, 0, step);
    }
    return status;
}

static enum tutti_status write_ring(struct tutti_plan **plan)
{
    enum tutti_status status = tutti_plan_create("allreduce", RANKS, 0, RANKS, plan);
    for (int r = 0; r < RANKS && status == TUTTI_OK; r++) status = write_ring_rank(*plan, r);
    return status;
}

static void expect(enum tutti_status status, enum tutti_status wanted, const char *words)
{
    if (status != wanted || strstr(tutti_error_message(), words) == NULL)
        fail_msg("%s: %s", tutti_status_name(status), tutti_error_message());
}

/* ---------------------------------------------------------------------------------- on one rank */

static void a_plan_is_written_and_read_back(void **state)
{
    (void)state;
    struct tutti_plan *plan, *again;
    char text[TEXT_SIZE], twice[TEXT_SIZE];
    size_t bytes, full;
    assert_int_equal(write_ring(&plan), TUTTI_OK);
    expect(tutti_plan_verify(plan), TUTTI_OK, "");
    expect(tutti_plan_step(plan, 0, 0, "in[0] -> to 1"), TUTTI_UNSUPPORTED, "cannot change");
    assert_int_equal(tutti_plan_text(plan, text, sizeof text, &bytes), TUTTI_OK);
    assert_int_equal(bytes, strlen(text) + 1);
    assert_int_equal(tutti_plan_parse(text, bytes - 1, &again), TUTTI_OK);
    expect(tutti_plan_verify(again), TUTTI_OK, "");
    assert_int_equal(tutti_plan_text(again, twice, sizeof twice, NULL), TUTTI_OK);
    assert_string_equal(text, twice);
    assert_int_equal(tutti_plan_text(again, twice, 5, &full), TUTTI_OK);
    assert_string_equal(twice, "plan");
    assert_int_equal(full, bytes);
    assert_int_equal(tutti_plan_text(again, NULL, 0, &full), TUTTI_OK);
    assert_int_equal(tutti_plan_free(plan), TUTTI_OK);
    assert_int_equal(tutti_plan_free(again), TUTTI_OK);
    assert_int_equal(tutti_plan_free(NULL), TUTTI_OK);
}

static void scratch_has_the_size_of_its_class(void **state)
{
    (void)state;
    struct tutti_plan *plan;
    assert_int_equal(tutti_plan_create("allreduce", 2, 0, 1, &plan), TUTTI_OK);
    for (int r = 0; r < 2; r++) {
        char step[60];
        assert_int_equal(tutti_plan_scratch(plan, r, 0), TUTTI_OK);
        snprintf(step, sizeof step, "in[0] -> scratch[0], to %d", 1 - r);
        assert_int_equal(tutti_plan_step(plan, r, 0, step), TUTTI_OK);
        snprintf(step, sizeof step,
                 r == 0 ? "scratch[0] + from 1 -> out[0]  final"
                        : "from 0 + scratch[0] -> out[0]  final");
        assert_int_equal(tutti_plan_step(plan, r, 0, step), TUTTI_OK);
    }
    expect(tutti_plan_verify(plan), TUTTI_OK, "");
    assert_int_equal(tutti_plan_free(plan), TUTTI_OK);
}

static void a_wrong_plan_is_refused_with_its_step(void **state)
{
    (void)state;
    struct tutti_plan *plan;
    assert_int_equal(tutti_plan_create("allreduce", 2, 0, 1, &plan), TUTTI_OK);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(tutti_plan_step(plan, r, 0, r == 0 ? "in[0] -> to 1" : "in[0] -> to 0"),
                         TUTTI_OK);
        assert_int_equal(
            tutti_plan_step(plan, r, 0,
                            r == 0 ? "from 1 + in[0] -> out[0]  final" : "from 0 -> out[0]"),
            TUTTI_OK);
    }
    expect(tutti_plan_verify(plan), TUTTI_INVALID_ALGORITHM, "rank 1 lane 0 step 1 (recv)");
    assert_int_equal(tutti_plan_free(plan), TUTTI_OK);
}

static void a_step_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    struct tutti_plan *plan;
    assert_int_equal(tutti_plan_create("allreduce", 2, 0, 1, &plan), TUTTI_OK);
    assert_int_equal(tutti_plan_scratch(plan, 0, 0), TUTTI_OK);
    assert_int_equal(tutti_plan_step(plan, 0, 0, "in[0] -> to 1"), TUTTI_OK);
    assert_int_equal(tutti_plan_step(plan, 1, 1, "in[0] -> to 0"), TUTTI_OK);
    assert_int_equal(tutti_plan_step(plan, 1, 1, "in[0] -> up 0"), TUTTI_OK);
    expect(tutti_plan_verify(plan), TUTTI_INVALID_ALGORITHM,
           "rank 1 lane 1 step 1 cannot be read: \"in[0] -> up 0\"");
    assert_int_equal(tutti_plan_free(plan), TUTTI_OK);
}

static void a_scratch_chunk_that_is_like_none_is_named(void **state)
{
    (void)state;
    static const uint32_t likes[] = {1, UINT32_MAX};
    for (int i = 0; i < 2; i++) {
        struct tutti_plan *plan;
        assert_int_equal(tutti_plan_create("allreduce", 2, 0, 1, &plan), TUTTI_OK);
        assert_int_equal(tutti_plan_scratch(plan, 1, likes[i]), TUTTI_OK);
        assert_int_equal(tutti_plan_step(plan, 1, 0, "in[0] -> scratch[0]"), TUTTI_OK);
        expect(tutti_plan_verify(plan), TUTTI_INVALID_ALGORITHM, "rank 1: \"scratch like ");
        assert_int_equal(tutti_plan_free(plan), TUTTI_OK);
    }
}

/* Few bytes that name millions of chunks: the text of a plan that is right. */
static void a_plan_that_costs_too_much_is_refused(void **state)
{
    (void)state;
    static const char text[] =
        "plan allreduce ranks 2 parts 9000000\n"
        "rank 0\n lane 0\n in[0..8999999] -> to 1\n from 1 -> out[0..8999999]\n"
        "rank 1\n lane 0\n from 0 + in[0..8999999] -> out[0..8999999], to 0  final\n";
    struct tutti_plan *plan;
    assert_int_equal(tutti_plan_parse(text, sizeof text - 1, &plan), TUTTI_OK);
    expect(tutti_plan_verify(plan), TUTTI_INVALID_ALGORITHM,
           "too costly to be proven: with 36000000 chunks on all ranks it would take ");
    expect(tutti_plan_verify(plan), TUTTI_INVALID_ALGORITHM, "512 MiB are allowed");
    assert_int_equal(tutti_plan_free(plan), TUTTI_OK);
}

static void a_text_that_costs_too_much_is_refused(void **state)
{
    (void)state;
    static const char head[] = "plan allreduce ranks 2 parts 4000000\nrank 0\n"
                               "scratch like 0..3999999\nlane 0\n";
    static const char line[] = "in[0..3999999] -> scratch[0..3999999]\n";
    char text[sizeof head + 40 * sizeof line];
    struct tutti_plan *plan;
    strcpy(text, head);
    for (int i = 0; i < 40; i++) strcat(text, line);
    expect(tutti_plan_parse(text, strlen(text), &plan), TUTTI_INVALID_ALGORITHM,
           "it takes at least ");
    assert_null(plan);

    assert_int_equal(tutti_plan_create("allreduce", 2, 0, 4000000, &plan), TUTTI_OK);
    for (int i = 0; i < 40; i++)
        assert_int_equal(tutti_plan_step(plan, 0, 0, "in[0..3999999] -> out[0..3999999]"), TUTTI_OK);
    expect(tutti_plan_verify(plan), TUTTI_INVALID_ALGORITHM, "too costly");
    assert_int_equal(tutti_plan_free(plan), TUTTI_OK);
}

/* In time that grows with the text; with its square, it would take minutes. */
static void the_last_of_many_steps_is_named(void **state)
{
    (void)state;
    enum { STEPS = 240000 };
    struct tutti_plan *plan;
    char words[80];
    assert_int_equal(tutti_plan_create("allreduce", 2, 0, 1, &plan), TUTTI_OK);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(tutti_plan_step(plan, 0, 0, "in[0] -> out[0]"), TUTTI_OK);
    assert_int_equal(tutti_plan_step(plan, 0, 0, "in[0] -> up 0"), TUTTI_OK);
    snprintf(words, sizeof words, "rank 0 lane 0 step %d cannot be read: \"in[0] -> up 0\"", STEPS);
    expect(tutti_plan_verify(plan), TUTTI_INVALID_ALGORITHM, words);
    assert_int_equal(tutti_plan_free(plan), TUTTI_OK);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    struct tutti_plan *plan;
    expect(tutti_plan_create("allreduc", 2, 0, 1, &plan), TUTTI_INVALID_OPTIONS, "allreduc");
    assert_null(plan);
    expect(tutti_plan_create(NULL, 2, 0, 1, &plan), TUTTI_INVALID_OPTIONS, "NULL");
    expect(tutti_plan_create("allreduce", 1, 0, 1, &plan), TUTTI_INVALID_RANK, "2 to 1024");
    expect(tutti_plan_create("allreduce", 2, 1, 1, &plan), TUTTI_INVALID_ROOT, "no root 1");
    expect(tutti_plan_create("broadcast", 2, 2, 1, &plan), TUTTI_INVALID_ROOT, "no root 2");
    expect(tutti_plan_create("allreduce", 2, 0, 0, &plan), TUTTI_INVALID_COUNT, "parts");
    expect(tutti_plan_create("allreduce", 2, 0, 1, NULL), TUTTI_INVALID_OPTIONS, "NULL");
    expect(tutti_plan_parse("plan nothing", 12, &plan), TUTTI_INVALID_ALGORITHM, "line 1");
    expect(tutti_plan_load("/nothing/there", &plan), TUTTI_INVALID_OPTIONS, "/nothing/there");
    expect(tutti_plan_load("/dev/zero", &plan), TUTTI_INVALID_OPTIONS, "no regular file");
    expect(tutti_plan_verify(NULL), TUTTI_INVALID_OPTIONS, "plan is NULL");
    assert_int_equal(tutti_plan_create("broadcast", 2, 1, 3, &plan), TUTTI_OK);
    expect(tutti_plan_step(plan, 2, 0, "in[0] -> to 1"), TUTTI_INVALID_RANK, "0 to 1");
    expect(tutti_plan_step(plan, 0, 64, "in[0] -> to 1"), TUTTI_INVALID_OPTIONS, "0 to 63");
    expect(tutti_plan_step(plan, 0, 0, NULL), TUTTI_INVALID_OPTIONS, "one line");
    expect(tutti_plan_step(plan, 0, 0, "in[0] -> to 1\nlane 1"), TUTTI_INVALID_OPTIONS, "one line");
    expect(tutti_plan_step(plan, 0, 0, "lane 1"), TUTTI_INVALID_OPTIONS, "one line");
    assert_int_equal(tutti_plan_free(plan), TUTTI_OK);
}

/* --------------------------------------------------------------------------------- on all ranks */

static enum tutti_status add(struct tutti_comm *comm, int rank, bool in_place, bool *is_right)
{
    float in[COUNT], out[COUNT];
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    float *const result = in_place ? in : out;
    options.algorithm = "mine";
    for (int i = 0; i < COUNT; i++) in[i] = (float)(i + rank);
    const enum tutti_status status =
        tutti_allreduce_with(in, result, COUNT, TUTTI_FLOAT32, TUTTI_SUM, &options, comm);
    *is_right = true;
    for (int i = 0; i < COUNT; i++) *is_right &= result[i] == (float)(i * RANKS + 6);
    return status;
}

static int register_and_run(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)seed, (void)context;
    struct tutti_plan *plan;
    uint64_t time_ns = 0, longer_ns = 0;
    bool is_right;
    RANKS_EXPECT(add(comm, rank, false, &is_right) == TUTTI_INVALID_ALGORITHM);
    RANKS_EXPECT(write_ring(&plan) == TUTTI_OK);
    RANKS_EXPECT(tutti_plan_cost(plan, comm, COUNT, TUTTI_FLOAT32, &time_ns) == TUTTI_OK);
    RANKS_EXPECT(tutti_plan_cost(plan, comm, 1000 * COUNT, TUTTI_FLOAT32, &longer_ns) == TUTTI_OK);
    RANKS_EXPECT(time_ns > 0 && longer_ns > time_ns);
    const size_t count_max = SIZE_MAX / 2 / sizeof(float) / (size_t)size;
    RANKS_EXPECT(tutti_plan_cost(plan, comm, count_max, TUTTI_FLOAT32, &time_ns) == TUTTI_OK);
    RANKS_EXPECT(tutti_plan_cost(plan, comm, count_max + 1, TUTTI_FLOAT32, &time_ns) ==
                 TUTTI_INVALID_COUNT);
    RANKS_EXPECT(strstr(tutti_error_message(), "count must be at most") != NULL);
    RANKS_EXPECT(tutti_plan_register(plan, comm, "ring") == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_plan_register(plan, comm, "no/name") == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_plan_register(plan, comm, "mine") == TUTTI_OK);
    RANKS_EXPECT(tutti_plan_register(plan, comm, "mine") == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_plan_register(plan, comm, "mine-too") == TUTTI_OK);
    RANKS_EXPECT(tutti_plan_free(plan) == TUTTI_OK);
    for (int variant = 0; variant < 3; variant++) {
        RANKS_EXPECT(add(comm, rank, variant == 1 || (variant == 2 && rank < 2), &is_right) ==
                     TUTTI_OK);
        RANKS_EXPECT(is_right);
    }
    return 0;
}

static void a_registered_plan_runs_by_its_name(void **state)
{
    (void)state;
    const enum ranks_kind kinds[] = {RANKS_DEFAULT, RANKS_THREADS};
    for (int k = 0; k < 2 && !ranks_repeat(kinds[k]); k++) {
        const struct ranks_options options = {.kind = kinds[k], .deadline_ms = 20000};
        assert_int_equal(ranks_run(RANKS, &options, register_and_run, NULL), 0);
    }
}

/* The name of a registered plan, as the recorder of a communicator has it that is gone
 * meanwhile. */
static int name_after_the_end(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)size, (void)seed, (void)context;
    const char *names[2];
    for (int i = 0; i < 2; i++) {
        struct tutti_plan *plan;
        struct tutti_comm *copy;
        struct tutti_trace_entry entry = {.size_bytes = sizeof entry};
        bool is_right;
        uint64_t number = 1;
        RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
        RANKS_EXPECT(write_ring(&plan) == TUTTI_OK);
        RANKS_EXPECT(tutti_plan_register(plan, copy, "mine") == TUTTI_OK);
        RANKS_EXPECT(tutti_plan_free(plan) == TUTTI_OK);
        RANKS_EXPECT(add(copy, rank, false, &is_right) == TUTTI_OK && is_right);
        do { /* after what registering took */
            RANKS_EXPECT(tutti_trace_read(copy, TUTTI_TRACE_COLLECTIVES, number, &entry) == TUTTI_OK);
            RANKS_EXPECT(entry.operation != NULL);
            number = entry.number + 1;
        } while (strcmp(entry.operation, "allreduce") != 0 || strcmp(entry.algorithm, "mine") != 0);
        names[i] = entry.algorithm;
        RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    }
    RANKS_EXPECT(strcmp(names[0], "mine") == 0 && names[0] == names[1]);
    return 0;
}

static void the_name_of_a_plan_outlives_the_communicator(void **state)
{
    (void)state;
    const struct ranks_options options = {.deadline_ms = 20000};
    assert_int_equal(ranks_run(RANKS, &options, name_after_the_end, NULL), 0);
}

/* One rank registers while the others reduce: they hear of the function that it called, not of the
 * collective inside. */
static int register_alone(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_plan *plan;
    int sum = 0;
    RANKS_EXPECT(write_ring(&plan) == TUTTI_OK);
    const enum tutti_status status =
        rank == 1 ? tutti_plan_register(plan, comm, "mine")
                  : tutti_allreduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm);
    RANKS_EXPECT(status == TUTTI_DESYNC);
    RANKS_EXPECT(strstr(tutti_error_message(), "plan_register()") != NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), "allgather") == NULL);
    RANKS_EXPECT(tutti_plan_free(plan) == TUTTI_OK);
    return 0;
}

static void a_rank_that_registers_alone_is_told_so_by_that_name(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .deadline_ms = 20000};
    for (int hosts = 1; hosts <= 2; hosts++) {
        setenv("TUTTI_TEST_HOSTS", hosts == 1 ? "1" : "2", 1);
        assert_int_equal(ranks_run(RANKS, &options, register_alone, NULL), 0);
    }
    unsetenv("TUTTI_TEST_HOSTS");
}

enum difference { OTHER_PLAN, OTHER_NAME, WRONG_PLAN, OTHER_RANKS };

/* Rank 1 does something else. */
static int register_apart(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed;
    static const char *const words[] = {"ranks 0 and 1 register different plans",
                                        "ranks 0 and 1 register different names",
                                        "rank 1 cannot use the plan", "rank 1 cannot use the plan"};
    const enum difference difference = *(const enum difference *)context;
    const bool is_odd = rank == 1;
    struct tutti_plan *plan = NULL;
    bool is_right;
    if (is_odd && difference == OTHER_RANKS)
        RANKS_EXPECT(tutti_plan_create("allreduce", 3, 0, 1, &plan) == TUTTI_OK);
    else
        RANKS_EXPECT(write_ring(&plan) == TUTTI_OK);
    if (is_odd && difference == OTHER_PLAN)
        for (int r = 0; r < RANKS; r++) RANKS_EXPECT(tutti_plan_scratch(plan, r, 0) == TUTTI_OK);
    if (is_odd && difference == OTHER_PLAN)
        RANKS_EXPECT(tutti_plan_step(plan, 2, 0, "out[0] -> scratch[0]") == TUTTI_OK);
    if (is_odd && difference == WRONG_PLAN)
        RANKS_EXPECT(tutti_plan_step(plan, 2, 1, "in[0] -> to 3 channel 7") == TUTTI_OK);
    const enum tutti_status status =
        tutti_plan_register(plan, comm, is_odd && difference == OTHER_NAME ? "another" : "mine");
    if (is_odd && difference >= WRONG_PLAN) {
        RANKS_EXPECT(status == TUTTI_INVALID_ALGORITHM);
        RANKS_EXPECT(difference == OTHER_RANKS || strstr(tutti_error_message(), "rank 2 lane 1"));
    } else {
        RANKS_EXPECT(status == TUTTI_MISMATCH);
        RANKS_EXPECT(strstr(tutti_error_message(), words[difference]) != NULL);
    }
    RANKS_EXPECT(tutti_plan_free(plan) == TUTTI_OK);
    RANKS_EXPECT(add(comm, rank, false, &is_right) == TUTTI_INVALID_ALGORITHM);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK); /* nothing happened to it */
    return 0;
}

static void ranks_that_do_not_agree_are_told(void **state)
{
    (void)state;
    for (enum difference d = OTHER_PLAN; d <= OTHER_RANKS; d++) {
        const struct ranks_options options = {.deadline_ms = 20000};
        assert_int_equal(ranks_run(RANKS, &options, register_apart, &d), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_written_and_read_back),
        cmocka_unit_test(a_scratch_chunk_that_is_like_none_is_named),
        cmocka_unit_test(scratch_has_the_size_of_its_class),
        cmocka_unit_test(a_wrong_plan_is_refused_with_its_step),
        cmocka_unit_test(a_step_that_cannot_be_read_is_named),
        cmocka_unit_test(a_plan_that_costs_too_much_is_refused),
        cmocka_unit_test(a_text_that_costs_too_much_is_refused),
        cmocka_unit_test(the_last_of_many_steps_is_named),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(a_registered_plan_runs_by_its_name),
        cmocka_unit_test(the_name_of_a_plan_outlives_the_communicator),
        cmocka_unit_test(ranks_that_do_not_agree_are_told),
        cmocka_unit_test(a_rank_that_registers_alone_is_told_so_by_that_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
