/* random_test.c - random programs of everything that ranks can do together: see program.h, and
 * docs/develop/simulated-faults.md.
 *
 * With arguments it is the tester by hand: --help.
 *
 * With sanitizers the quick tier draws a third of the programs: one of each kind of job.
 *
 * ctest: timeout=300 waits first
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/sanitized.h"
#include "tests/programs/program_minimise.h"
#include "tests/programs/program_run.h"
#include "tests/worlds/ranks.h"

static void programs_are_valid_and_can_be_read_back(void **state)
{
    (void)state;
    static struct random_program drawn, read;
    static char text[PROGRAM_TEXT_BYTES], again[PROGRAM_TEXT_BYTES];
    for (uint64_t seed = 0; seed < (uint64_t)some_of(500); seed++)
        for (int job = 0; program_job_name(job) != NULL; job++) {
            int line;
            program_draw(&drawn, seed, job, 0);
            assert_true(program_is_valid(&drawn));
            program_print(&drawn, text);
            assert_true(program_parse(&read, text, &line));
            program_print(&read, again);
            assert_string_equal(text, again);
        }
}

static void what_is_no_program_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int line;
    } bad[] = {
        {"seed 1\njob ranks 2 hosts 1\nsing comm 0\n", 3},
        {"seed 1\njob ranks 2\ncall colour red\n", 3},
        {"seed 1\njob ranks 2\ncall count many\n", 3},
        {"seed 1\njob ranks 9\n", 0},
        {"seed 1\njob ranks 2\ncall comm 1\n", 0},
        {"seed 1\njob ranks 2\nbegin\n", 0},
        {"seed 1\njob ranks 2\nkill rank 1\ncall count 1\n", 0},
        {"seed 1\njob ranks 2\ncall count 1 op land\n", 0},
        {"seed 1\njob ranks 2\nagain\n", 0},
        {"seed 1\njob ranks 2\nsparse way around\n", 3},
        {"seed 1\njob ranks 2\ncall encoding int9\n", 3},
        {"seed 1\njob ranks 2\ncall count 1 dtype int32 encoding bfloat16\n", 0},
        {"seed 1\njob ranks 2\ncall count 1 op max encoding bfloat16\n", 0},
        {"seed 1\njob ranks 2\ncall collective alltoall shape varying encoding int8\n", 0},
        {"seed 1\njob ranks 2\nmessage count 1 dtype bfloat16 encoding int8\n", 0},
        {"seed 1\njob ranks 2\nsparse count 1 dtype uint8\n", 0},
        {"seed 1\njob ranks 2\nbegin\nsparse dtype float32\nend\n", 0},
        {"seed 1\njob ranks 2\ncall own 1\n", 0},
        {"seed 1\njob ranks 2 over threads\nfork\n", 0},
        {"seed 1\njob ranks 2 over threads\ndup comm 1 number 2 starved 1\n", 0},
        {"seed 1\njob ranks 2\nmessage pattern unawaited form started\nmessage count 1\n", 0},
        {"seed 1\njob ranks 2\ndup comm 1 number 2\ndup comm 1 number 2\n", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct random_program program;
        int line;
        assert_false(program_parse(&program, bad[i].text, &line));
        assert_int_equal(line, bad[i].line);
    }
}

/* As if an alltoall of more than 100 elements on a communicator that was made broke what is started
 * behind it. */
static bool breaks(const void *candidate, void *runs)
{
    const struct random_program *const p = candidate;
    bool is_broken = false;
    ++*(int *)runs;
    for (int i = 0; i < p->step_count; i++) {
        const struct random_step *const s = &p->steps[i];
        if (is_broken && s->verb == PROGRAM_MESSAGE && s->form == STARTED) return true;
        is_broken |= s->verb == PROGRAM_CALL && s->comm > 0 &&
                     s->collective == COLLECTIVE_ALLTOALL && s->count > 100;
    }
    return false;
}

static void what_fails_becomes_as_small_as_it_can(void **state)
{
    (void)state;
    static struct random_program program;
    int found = 0;
    for (uint64_t seed = 0; found < 10; seed++) {
        int runs = 0;
        program_draw(&program, seed, 0, 0);
        if (!breaks(&program, &runs)) continue;
        found++;
        program_minimise(&program, breaks, &runs);
        assert_true(breaks(&program, &runs) && program_is_valid(&program) && runs < 400);
        assert_in_range(program.step_count, 3, 4); /* a communicator, perhaps of another one */
        assert_int_equal(program.rank_count, 1);
        assert_in_range(program.steps[program.step_count - 2].count, 101, 201);
        assert_int_equal(program.steps[program.step_count - 1].count, 0);
    }
}

static struct program_campaign known = {
    .seed = 1, .job = PROGRAM_ALL, .timeout_s = 60, .program = "tests_programs_random_test"};

static void few_programs_are_right(void **state)
{
    (void)state;
    enum { RUNS = 27, RUNS_OF_THREADS = 12, THIRD = 3 };
    struct program_campaign campaign = known;
    campaign.runs = RUNS;
    if (ranks_are_threads()) {
        campaign.job = 1;
        campaign.runs = RUNS_OF_THREADS;
    }
    if (is_sparse() && getenv("TUTTI_LONG") == NULL) campaign.runs /= THIRD;
    assert_int_equal(program_campaign_run(&campaign, stdout), 0);
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) return program_main(argument_count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_are_valid_and_can_be_read_back),
        cmocka_unit_test(what_is_no_program_is_refused_with_its_line),
        cmocka_unit_test(what_fails_becomes_as_small_as_it_can),
        cmocka_unit_test(few_programs_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
