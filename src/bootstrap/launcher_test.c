#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/launcher.h"

static const char *const variables[] = {"TUTTI_RANK",
                                        "TUTTI_SIZE",
                                        "TUTTI_JOB_ID",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMIX_NAMESPACE",
                                        "OMPI_MCA_ess_base_jobid",
                                        "RANK",
                                        "WORLD_SIZE",
                                        "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_RESTART_COUNT",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "SLURM_JOB_ID",
                                        "SLURM_STEP_ID"};

static int clear_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
    return 0;
}

static void expect_place(const char *launcher, int rank, int size)
{
    struct launcher_place place;
    if (launcher_detect(&place) != TUTTI_OK) fail_msg("%s: %s", launcher, tutti_error_message());
    assert_string_equal(place.launcher, launcher);
    assert_int_equal(place.rank, rank);
    assert_int_equal(place.size, size);
}

static void expect_refused(const char *word)
{
    struct launcher_place place;
    assert_int_equal(launcher_detect(&place), TUTTI_INVALID_OPTIONS);
    if (strstr(tutti_error_message(), word) == NULL)
        fail_msg("\"%s\" does not name %s", tutti_error_message(), word);
}

static void each_launcher_is_recognised(void **state)
{
    (void)state;
    setenv("SLURM_PROCID", "7", 1);
    setenv("SLURM_NTASKS", "8", 1);
    expect_place("Slurm", 7, 8);
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    expect_place("torchrun", 1, 2);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "5", 1);
    expect_place("Open MPI", 0, 5);
    setenv("TUTTI_RANK", "2", 1);
    setenv("TUTTI_SIZE", "3", 1);
    expect_place("tutti-run", 2, 3);
}

static void half_a_launcher_is_none(void **state)
{
    (void)state;
    expect_refused("WORLD_SIZE");
    setenv("RANK", "0", 1);
    expect_refused("WORLD_SIZE");
    setenv("SLURM_NTASKS", "3", 1);
    expect_refused("RANK");
}

static void numbers_are_checked_and_named(void **state)
{
    (void)state;
    static const char *const sizes[] = {
        "", "0", "-1", "two", "2x", "65537", "99999999999999999999", "2 "};
    setenv("RANK", "0", 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        setenv("WORLD_SIZE", sizes[i], 1);
        expect_refused("WORLD_SIZE");
    }
    static const char *const ranks[] = {"", "4", "-1", "one", "1.0", "0x"};
    setenv("WORLD_SIZE", "4", 1);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        setenv("RANK", ranks[i], 1);
        expect_refused("RANK");
    }
}

static struct rendezvous_key key_now(void)
{
    struct launcher_place place;
    assert_int_equal(launcher_detect(&place), TUTTI_OK);
    return place.key;
}

static void each_call_of_a_process_has_another_key(void **state)
{
    (void)state;
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    struct rendezvous_key keys[50];
    for (int i = 0; i < 50; i++) {
        keys[i] = key_now();
        /* The socket's name is made of the first 16 bytes. */
        for (int j = 0; j < i; j++) assert_memory_not_equal(keys[i].bytes, keys[j].bytes, 16);
    }
}

/* Keys of the same call in several processes; a child has the parent's count of calls. */
static void expect_keys(bool equal, const char *variable, const char *value)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct launcher_place place;
        setenv("RANK", "1", 1);
        if (variable != NULL) setenv(variable, value, 1);
        if (launcher_detect(&place) != TUTTI_OK) _exit(1);
        _exit(write(ends[1], &place.key, sizeof place.key) == sizeof place.key ? 0 : 1);
    }
    struct rendezvous_key theirs;
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &theirs, sizeof theirs), sizeof theirs);
    close(ends[0]);
    close(ends[1]);
    const struct rendezvous_key mine = key_now();
    assert_int_equal(memcmp(mine.bytes, theirs.bytes, sizeof mine.bytes) == 0, equal);
    if (!equal) assert_memory_not_equal(mine.bytes, theirs.bytes, 16);
}

static void ranks_of_a_job_share_a_key_and_jobs_do_not(void **state)
{
    (void)state;
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", "somewhere", 1);
    setenv("MASTER_PORT", "29500", 1);
    expect_keys(true, NULL, NULL);
    expect_keys(false, "MASTER_PORT", "29501");
    expect_keys(false, "MASTER_ADDR", "elsewhere");
    expect_keys(false, "TORCHELASTIC_RESTART_COUNT", "1");
    expect_keys(true, "SLURM_JOB_ID", "7"); /* not this launcher's */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_environment, clear_environment)
    const struct CMUnitTest tests[] = {
        TEST(each_launcher_is_recognised),
        TEST(half_a_launcher_is_none),
        TEST(numbers_are_checked_and_named),
        TEST(each_call_of_a_process_has_another_key),
        TEST(ranks_of_a_job_share_a_key_and_jobs_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
