#include "tests/programs/program_run.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "tests/kit/chance.h"
#include "tests/programs/program_minimise.h"
#include "tests/programs/program_plans.h"
#include "tests/programs/program_rank.h"
#include "tests/worlds/ranks.h"

enum { LOOK_MS = 2, GRACE_S = 30, TRIES = 3, MINIMISE_MINUTES = 10 };

static const uint64_t SECOND = 1000000000u;

/* Memory that the ranks share with the process that watches them. */
struct stage {
    struct random_program program;
    struct program_place places[PROGRAM_RANKS_MAX];
};

static unsigned deadline_s(int timeout_s)
{
    return 3 * (unsigned)timeout_s;
}

/* ------------------------------------------------------------------------------------ all ranks */

static bool is_killed(const struct random_program *program, int rank)
{
    for (int i = 0; i < program->step_count; i++)
        if (program->steps[i].verb == PROGRAM_KILL && program->steps[i].rank == rank) return true;
    return false;
}

static int be_rank(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed;
    struct stage *const stage = context;
    return program_rank_run(&stage->program, comm, &stage->places[rank]);
}

static void set_number(const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

/* In a process of its own. Its exit status: how many ranks were not as they have to be. */
static __attribute__((noinline)) int run_ranks(struct stage *stage, int timeout_s)
{
    const struct random_program *const p = &stage->program;
    struct ranks_outcome outcomes[PROGRAM_RANKS_MAX];
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = (uint64_t)timeout_s * SECOND;
    comm_options.init_timeout_ns = 2 * comm_options.timeout_ns;
    comm_options.integrity = (enum tutti_integrity)p->integrity;
    comm_options.encryption = p->encryption ? TUTTI_ENCRYPTION_ON : TUTTI_ENCRYPTION_OFF;
    if (p->encryption) setenv("TUTTI_SECRET", "only-the-ranks-of-this-test-know-it", 1);
    setenv("TUTTI_TRANSPORT", p->over == PROGRAM_OVER_TCP ? "tcp" : "auto", 1);
    set_number("TUTTI_TEST_HOSTS", p->hosts);
    const struct ranks_options options = {.kind = p->over == PROGRAM_OVER_THREADS ? RANKS_THREADS
                                                                                  : RANKS_PROCESSES,
                                          .deadline_ms = deadline_s(timeout_s) * 1000,
                                          .seed = p->seed + 1,
                                          .comm_options = &comm_options,
                                          .outcomes = outcomes};
    (void)ranks_run(p->rank_count, &options, be_rank, stage);
    int bad = 0;
    for (int rank = 0; rank < p->rank_count; rank++) {
        const bool was_killed =
            outcomes[rank].fate == RANKS_SIGNALLED && outcomes[rank].value == SIGKILL;
        bad += is_killed(p, rank) ? !was_killed : outcomes[rank].fate != RANKS_GOOD;
    }
    if (bad == 0) bad = program_replicas_differ(p, stage->places);
    return bad;
}

/* -------------------------------------------------------------------------------------- look on */

/* Ranks that are stopped for a while, now and then. */
struct stopper {
    struct chance chance;
    uint64_t next_ns;
    int stopped; /* a process; 0: none */
};

static void stop_some(struct stopper *stopper, struct stage *stage)
{
    if (clock_now_ns() < stopper->next_ns) return;
    uint64_t pause_us = chance_of_any_size(&stopper->chance, 200000);
    if (stopper->stopped > 0) {
        kill(stopper->stopped, SIGCONT);
        stopper->stopped = 0;
    } else {
        const int rank = chance_below(&stopper->chance, stage->program.rank_count);
        stopper->stopped = atomic_load(&stage->places[rank].pid);
        if (stopper->stopped > 0) kill(stopper->stopped, SIGSTOP);
    }
    stopper->next_ns = clock_now_ns() + pause_us * 1000;
}

static void tell_places(struct stage *stage, FILE *story)
{
    char line[PROGRAM_LINE_BYTES];
    for (int rank = 0; rank < stage->program.rank_count; rank++)
        for (int i = 0; i < PROGRAM_COMMS_MAX; i++) {
            const int step = atomic_load(&stage->places[rank].step[i]) - 1;
            if (atomic_load(&stage->places[rank].pid) == 0 || step < 0) continue;
            program_print_step(&stage->program.steps[step], line);
            fprintf(story, "rank %d did not come to its end; it was at step %d: %s\n", rank, step,
                    line);
        }
}

/* Returns its wait status; kills it when it takes too long. */
static int await(pid_t pid, struct stage *stage, int timeout_s)
{
    const uint64_t deadline_ns = clock_now_ns() + (deadline_s(timeout_s) + GRACE_S) * SECOND;
    struct stopper stopper = {.chance = {stage->program.seed, 1000}};
    int status;
    while (waitpid(pid, &status, WNOHANG) != pid) {
        if (clock_now_ns() > deadline_ns) kill(pid, SIGKILL); /* its ranks go with it */
        if (stage->program.stops) stop_some(&stopper, stage);
        ranks_nap_ms(LOOK_MS);
    }
    return status;
}

bool program_run(const struct random_program *program, int timeout_s, FILE *story)
{
    struct stage *const stage = ranks_share(sizeof *stage);
    const pid_t parent = getpid();
    stage->program = *program;
    if (!program_plans_write(program)) {
        fputs("a plan cannot be written\n", stderr);
        abort();
    }
    fflush(NULL); /* or the child prints it again */
    const pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        abort();
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(EXIT_FAILURE);
        dup2(fileno(story), STDOUT_FILENO);
        dup2(fileno(story), STDERR_FILENO);
        exit(run_ranks(stage, timeout_s));
    }
    const int status = await(pid, stage, timeout_s);
    const bool good = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
    fseek(story, 0, SEEK_END);
    if (WIFSIGNALED(status)) fprintf(story, "it died: %s\n", strsignal(WTERMSIG(status)));
    if (!good) tell_places(stage, story);
    munmap(stage, sizeof *stage);
    program_plans_remove();
    return good;
}

/* ----------------------------------------------------------------------------------- what fails */

static FILE *new_story(void)
{
    FILE *const story = tmpfile();
    if (story == NULL) {
        perror("tmpfile");
        abort();
    }
    return story;
}

static void copy(FILE *story, FILE *out)
{
    rewind(story);
    for (int c; (c = getc(story)) != EOF;) putc(c, out);
}

struct search {
    int timeout_s;
    uint64_t deadline_ns;
};

static bool fails_sometimes(const void *program, void *context)
{
    const struct search *const search = context;
    bool good = true;
    for (int i = 0; i < TRIES && good && clock_now_ns() < search->deadline_ns; i++) {
        FILE *const story = new_story();
        good = program_run(program, search->timeout_s, story);
        fclose(story);
    }
    return !good;
}

void program_explain(const struct random_program *program, int timeout_s, double minutes)
{
    static char text[PROGRAM_TEXT_BYTES];
    struct random_program smallest = *program;
    struct search search = {timeout_s, clock_now_ns() + (uint64_t)(minutes * 60e9)};
    if (!fails_sometimes(program, &search)) {
        fprintf(stderr, "it did not fail again in %d runs\n", TRIES);
        return;
    }
    program_minimise(&smallest, fails_sometimes, &search);
    program_print(&smallest, text);
    fprintf(stderr, "this is left of it; write it to a file, and --replay FILE:\n%s", text);
}

/* The first thing that a rank complains of. */
static void tell_briefly(FILE *story, FILE *out)
{
    char line[2 * PROGRAM_LINE_BYTES];
    rewind(story);
    while (fgets(line, sizeof line, story) != NULL)
        if (strncmp(line, "rank ", 5) == 0 || strncmp(line, "it died", 7) == 0) break;
    fputs(line, out);
}

static void tell(const struct program_campaign *campaign, const struct random_program *program,
                 int job, FILE *story)
{
    static char text[PROGRAM_TEXT_BYTES];
    program_print(program, text);
    fprintf(stderr, "seed %" PRIu64 ", %s: ", program->seed, program_job_name(job));
    tell_briefly(story, stderr);
    if (campaign->ends_at_failure) return;
    copy(story, stderr);
    fprintf(stderr, "%sreplay: %s --runs 1 --seed %" PRIu64 " --job %s", text, campaign->program,
            program->seed, program_job_name(job));
    if (campaign->rank_count > 0) fprintf(stderr, " --ranks %d", campaign->rank_count);
    fputs(" [--minimise]\n", stderr);
    if (campaign->minimise) program_explain(program, campaign->timeout_s, MINIMISE_MINUTES);
}

int program_campaign_run(const struct program_campaign *campaign, FILE *out)
{
    const bool shows_progress = isatty(STDERR_FILENO);
    const uint64_t begin_ns = clock_now_ns();
    int jobs = 0, runs = 0, failures = 0, steps = 0;
    double minutes = 0;
    while (program_job_name(jobs) != NULL) jobs++;
    while ((runs < campaign->runs || minutes < campaign->minutes) &&
           (failures == 0 || !campaign->ends_at_failure)) {
        const uint64_t seed = campaign->seed + (uint64_t)runs++;
        const int job = campaign->job == PROGRAM_ALL ? (int)(seed % (uint64_t)jobs) : campaign->job;
        static struct random_program program;
        FILE *const story = new_story();
        program_draw(&program, seed, job, campaign->rank_count);
        if (!program_run(&program, campaign->timeout_s, story)) {
            failures++;
            tell(campaign, &program, job, story);
        }
        fclose(story);
        steps += program.step_count;
        minutes = (double)(clock_now_ns() - begin_ns) / 60e9;
        if (shows_progress) fprintf(stderr, "\r%d programs, %d failed ", runs, failures);
    }
    if (campaign->ends_at_failure && failures > 0) return failures;
    fprintf(out, "seeds from %" PRIu64 ": %d programs of %d steps in %.1f minutes; %d failed\n",
            campaign->seed, runs, steps, minutes, failures);
    return failures;
}
