#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "comm/stored_plan.h"
#include "os/clock.h"
#include "os/process.h"
#include "plan/text.h"

static char folder[] = "/tmp/tutti-stored-XXXXXX";

static const char *path_of(const char *name)
{
    static char paths[4][200];
    static int next;
    char *const path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_plan(const char *name, const char *algorithm)
{
    struct plan *plan;
    const char *message;
    const struct algo_params params = {.collective = COLLECTIVE_ALLREDUCE, .rank_count = 4};
    FILE *const file = fopen(path_of(name), "we");
    assert_non_null(file);
    assert_int_equal(
        algo_plan(algo_find(COLLECTIVE_ALLREDUCE, algorithm), &params, &plan, &message), TUTTI_OK);
    plan_print(plan, file);
    plan_free(plan);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL && setenv("XDG_CACHE_HOME", folder, 1) == 0 ? 0 : 1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* Records what another thread of the process gets while a plan is being proven. The proof only asks
 * whether it is to stop, so the other thread comes within that question. */
struct meanwhile {
    struct stored_plan *proving;
    enum tutti_status found, proved, same, of_child;
    bool was_asked;
};

static enum tutti_status status_of_child(struct stored_plan *stored)
{
    const pid_t child = fork();
    if (child == 0) {
        const struct plan_budget limits = plan_budget_default();
        _exit((int)stored_plan_prove(stored, &limits));
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return TUTTI_INTERNAL;
    return (enum tutti_status)WEXITSTATUS(status);
}

static bool come_meanwhile(const void *context)
{
    struct meanwhile *const meanwhile = *(struct meanwhile *const *)context;
    const struct plan_budget limits = plan_budget_default();
    struct plan_budget short_limits = limits;
    struct stored_plan *other;
    if (meanwhile->was_asked) return true;
    meanwhile->was_asked = true;
    short_limits.deadline_ns = clock_now_ns() + 1000000;
    meanwhile->found = stored_plan_find(path_of("other.plan"), &limits, &other);
    meanwhile->proved = stored_plan_prove(other, &limits);
    meanwhile->same = stored_plan_prove(meanwhile->proving, &short_limits);
    meanwhile->of_child = status_of_child(meanwhile->proving);
    return true;
}

static void a_proof_holds_up_only_those_who_need_it(void **state)
{
    (void)state;
    const struct plan_budget limits = plan_budget_default();
    struct meanwhile meanwhile = {.found = TUTTI_INTERNAL}, *const context = &meanwhile;
    struct plan_budget asking = limits;
    asking.is_stopped = come_meanwhile;
    asking.context = &context;
    write_plan("one.plan", "ring");
    write_plan("other.plan", "tree");
    assert_int_equal(stored_plan_find(path_of("one.plan"), &limits, &meanwhile.proving), TUTTI_OK);
    assert_int_equal(stored_plan_prove(meanwhile.proving, &asking), TUTTI_ABORTED);
    assert_true(meanwhile.was_asked);
    assert_int_equal(meanwhile.found, TUTTI_OK);
    assert_int_equal(meanwhile.proved, TUTTI_OK);
    assert_int_equal(meanwhile.same, TUTTI_TIMEOUT); /* another thread is at it */
    assert_int_equal(meanwhile.of_child, TUTTI_OK);  /* where that thread is not */
    assert_int_equal(stored_plan_prove(meanwhile.proving, &limits), TUTTI_OK);
}

static void a_deadline_refuses_nothing_for_good(void **state)
{
    (void)state;
    struct plan_budget limits = plan_budget_default(), over = limits;
    struct stored_plan *stored;
    over.deadline_ns = clock_now_ns();
    write_plan("late.plan", "twoshot");
    assert_int_equal(stored_plan_find(path_of("late.plan"), &over, &stored), TUTTI_TIMEOUT);
    assert_non_null(strstr(tutti_error_message(), "late.plan: line "));
    assert_int_equal(stored_plan_find(path_of("late.plan"), &limits, &stored), TUTTI_OK);
    assert_int_equal(stored_plan_prove(stored, &over), TUTTI_TIMEOUT);
    assert_non_null(strstr(tutti_error_message(), "was given up: the deadline passed"));
    assert_int_equal(stored_plan_prove(stored, &limits), TUTTI_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proof_holds_up_only_those_who_need_it),
        cmocka_unit_test(a_deadline_refuses_nothing_for_good),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
