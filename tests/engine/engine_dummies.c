#include "tests/engine/engine_dummies.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/engine/engine_dummy.h"
#include "tests/sim/sim_seeds.h"
#include "tests/worlds/engine_world.h"

#define ENGINE_DUMMY_ADDRESS(name) &engine_dummy_##name,
static const struct engine_dummy *const dummies[] = {ENGINE_DUMMIES(ENGINE_DUMMY_ADDRESS)};
enum {
    DUMMY_COUNT = sizeof dummies / sizeof *dummies,
    ELEMENTS_MAX = 150000,
    LOOKS_MAX = 4000000,
    EXPECTED_COUNT = 17000 /* elements for each rank: a little more than what is worth an offer */
};

unsigned engine_dummies_round(void)
{
    return DUMMY_COUNT * COLLECTIVE_COUNT;
}

/* -------------------------------------------------------------------------------------- drawing */

static uint64_t draw(uint64_t *random)
{
    *random += 0x9e3779b97f4a7c15u;
    uint64_t mixed = *random;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

static size_t below(uint64_t *random, size_t end)
{
    return (size_t)(draw(random) % end);
}

static const struct algorithm *draw_algorithm(uint64_t *random, enum collective collective, int size)
{
    const struct algorithm *algorithm;
    do algorithm = &algo_list[below(random, (size_t)algo_count)];
    while (algorithm->collective != collective || !algo_supports(algorithm, size));
    return algorithm;
}

static size_t draw_count(uint64_t *random, bool is_expected, int size)
{
    if (is_expected) return EXPECTED_COUNT * (size_t)size + below(random, 500);
    switch (below(random, 8)) {
    case 0: return below(random, 3);
    case 1:
    case 2: return 1 + below(random, 100);
    case 3:
    case 4:
    case 5: return 1 + below(random, 5000);
    default: return 1 + below(random, (size_t)ELEMENTS_MAX / 4 / (size_t)size);
    }
}

/* Whether two stand-ins are for different things, so that programs may run with both. */
static bool go_together(const struct engine_dummy *a, const struct engine_dummy *b)
{
    return !((a->make_executor != NULL && b->make_executor != NULL) ||
             (a->make_gate != NULL && b->make_gate != NULL) ||
             (a->kernels != NULL && b->kernels != NULL));
}

static struct engine_dummy both(const struct engine_dummy *a, const struct engine_dummy *b)
{
    struct engine_dummy both = *a;
    if (b->make_executor != NULL) {
        both.make_executor = b->make_executor;
        both.free_executor = b->free_executor;
    }
    if (b->make_gate != NULL) {
        both.make_gate = b->make_gate;
        both.gate_has_ended = b->gate_has_ended;
        both.free_gate = b->free_gate;
    }
    if (b->kernels != NULL) {
        both.memory = b->memory;
        both.begin_touching = b->begin_touching;
        both.end_touching = b->end_touching;
        both.encoding = b->encoding;
        both.kernels = b->kernels;
    }
    return both;
}

/* A job with its mood and its stand-in, as a seed draws them. */
struct drawn {
    struct engine_job job;
    struct engine_mood mood;
    struct engine_dummy dummy;    /* the job's */
    int places[ENGINE_RANKS_MAX]; /* the job's, where not all links are encoded */
    const char *second;           /* the name of another one in it, or NULL */
};

/* One in turn, and now and then with another one. */
static void draw_dummy(uint64_t *random, uint64_t seed, struct drawn *drawn)
{
    const struct engine_dummy *first = dummies[seed % DUMMY_COUNT],
                              *second = dummies[below(random, DUMMY_COUNT)];
    const bool takes_both = go_together(first, second) && below(random, 2) == 0;
    drawn->dummy = takes_both ? both(first, second) : *first;
    drawn->second = takes_both ? second->name : NULL;
}

/* Some links are encoded, and others not. Units of several elements need chunks of whole units in
 * the middle of ranges, which not all plans have. */
static void draw_places(uint64_t *random, struct drawn *drawn)
{
    struct engine_job *const job = &drawn->job;
    const struct kernel_encoding *const encoding = job->dummy->encoding;
    if (encoding == NULL || encoding->unit_elements > 1 || below(random, 2) == 0) return;
    for (int r = 0; r < job->size; r++) drawn->places[r] = (int)below(random, 3);
    job->places = drawn->places;
    job->encodes_apart = job->dummy->memory == NULL && below(random, 2) == 0;
}

static void draw_job(uint64_t *random, uint64_t seed, struct drawn *drawn)
{
    struct engine_job *const job = &drawn->job;
    struct engine_mood *const mood = &drawn->mood;
    draw_dummy(random, seed, drawn);
    const enum collective collective = (enum collective)(seed / DUMMY_COUNT % COLLECTIVE_COUNT);
    static const enum link_reach reaches[] = {REACH_NONE, REACH_NONE, REACH_READ, REACH_COPY};
    *job = (struct engine_job){.dummy = &drawn->dummy,
                               .size = 2 + (int)below(random, ENGINE_RANKS_MAX - 1)};
    job->algorithm = draw_algorithm(random, collective, job->size);
    if (collective_is_rooted(collective)) job->root = (int)below(random, (size_t)job->size);
    *mood =
        (struct engine_mood){.piece_bytes = below(random, 2) == 0 ? 8192 : 16384,
                             .pieces = 1 + (unsigned)below(random, 4),
                             .delay = 1 + (unsigned)below(random, 3),
                             .reach = reaches[below(random, 4)],
                             .expects = below(random, 3) == 0,
                             .shares = below(random, 2) == 0 ? 0 : 1 + (unsigned)below(random, 4),
                             .dummy = &drawn->dummy,
                             .far = 1 + (unsigned)below(random, (1 << ENGINE_RANKS_MAX) - 1),
                             .reaches_far = below(random, 2) == 0};
    draw_places(random, drawn);
    const bool is_expected =
        mood->expects && collective_reduces(collective) && below(random, 2) == 0;
    /* One stores where all expect it, another one has several lanes that use shared slots: hardly
     * any other does. */
    if (collective == COLLECTIVE_ALLREDUCE && is_expected)
        job->algorithm = algo_find(collective, "twoshot");
    else if (collective == COLLECTIVE_ALLREDUCE && mood->shares > 0 && below(random, 2) == 0)
        job->algorithm = algo_find(collective, "relay");
    job->count = draw_count(random, is_expected, job->size);
    if (below(random, 2) == 0) job->in_place = (unsigned)below(random, 1 << ENGINE_RANKS_MAX);
    const bool can_be_cut =
        collective != COLLECTIVE_BARRIER && !is_expected &&
        (job->dummy->encoding == NULL || job->dummy->encoding->unit_elements == 1);
    job->is_cut = can_be_cut && below(random, 3) == 0;
    const bool can_vary = collective == COLLECTIVE_ALLGATHER ||
                          collective == COLLECTIVE_REDUCE_SCATTER ||
                          ((collective == COLLECTIVE_GATHER || collective == COLLECTIVE_SCATTER ||
                            collective == COLLECTIVE_ALLTOALL) &&
                           job->algorithm->is_direct);
    if (can_vary && below(random, 3) == 0) engine_job_vary(job, job->count, draw(random));
}

/* -------------------------------------------------------------------------------------- running */

static void expect_gate_has_ended(const struct engine_rank *own, bool done)
{
    bool is_done;
    if (own->gate == NULL) return;
    assert_true(own->dummy->gate_has_ended(own->gate, &is_done));
    assert_true(is_done == done);
}

static void expect_gate_is_not_told(const struct engine_rank *own)
{
    bool is_done;
    assert_true(own->gate == NULL || !own->dummy->gate_has_ended(own->gate, &is_done));
}

/* All ranks in any order, so many looks at most. Whoever is done finds its result right, and uses
 * its buffers for something else. Returns how many are not done. */
static int run(const struct engine_job *job, struct engine_net *net, struct engine_rank *ranks,
               int looks_max)
{
    int left = job->size;
    for (int looks = 0; left > 0 && looks < looks_max; looks++) {
        const int rank = (int)(engine_net_draw(net) % (uint64_t)job->size);
        struct engine_rank *own = &ranks[rank];
        if (own->done) continue;
        own->operation.must_not_spin = engine_net_draw(net) % 8 == 0;
        const enum run_result result = operation_run(&own->operation);
        if (result == RUN_FAULT) fail_msg("a message made no sense");
        if (result != RUN_DONE) continue;
        assert_false(operation_is_computing(&own->operation) || operation_is_gated(&own->operation));
        expect_gate_has_ended(own, true);
        engine_expect_right(job, rank, own);
        engine_rank_scribble(own);
        own->done = true;
        left--;
    }
    return left;
}

/* As whoever finds that a rank has died: their buffers are the callers' when nothing computes any
 * more. */
static void give_up(int size, struct engine_rank *ranks)
{
    for (int r = 0; r < size; r++) {
        while (operation_is_computing(&ranks[r].operation)) continue;
        if (!ranks[r].done) expect_gate_is_not_told(&ranks[r]);
        operation_give_up(&ranks[r].operation); /* where it is done, nobody is told twice */
        expect_gate_has_ended(&ranks[r], ranks[r].done);
        engine_rank_scribble(&ranks[r]);
    }
}

static void run_all(const struct engine_job *job, struct engine_net *net, struct engine_rank *ranks,
                    struct engine_dummies_report *report)
{
    enum { ROUNDS = 2 };
    for (int round = 0; round < ROUNDS; round++) {
        if (run(job, net, ranks, LOOKS_MAX) > 0) fail_msg("stuck");
        engine_net_expect_empty(net);
        report->done += (unsigned)job->size;
        for (int r = 0; r < job->size && round + 1 < ROUNDS; r++) {
            engine_rank_fill(job, r, &ranks[r]);
            engine_rank_prepare_again(net, r, &ranks[r]);
        }
    }
}

void engine_dummies_run(uint64_t seed, struct engine_dummies_report *report)
{
    uint64_t random = seed;
    struct drawn drawn;
    struct engine_rank ranks[ENGINE_RANKS_MAX];
    draw_job(&random, seed, &drawn);
    const struct engine_job *const job = &drawn.job;
    struct engine_net *net = engine_net_create(job->size, drawn.mood, draw(&random));
    for (int r = 0; r < job->size; r++) engine_rank_prepare(job, net, r, &ranks[r]);
    if (below(&random, 8) > 0) {
        run_all(job, net, ranks, report);
    } else {
        report->given_up += (unsigned)run(job, net, ranks, 1 + (int)below(&random, 200));
        give_up(job->size, ranks);
    }
    report->written += engine_net_written(net);
    report->handed_on += engine_net_handed_on(net);
    report->shared += engine_net_shared(net);
    report->multicast += engine_net_multicast(net);
    for (int r = 0; r < job->size; r++) engine_rank_release(&ranks[r]);
    engine_net_free(net);
}

/* --------------------------------------------------------------------------------- as a program */

static uint64_t current_seed;
static int told_fd, caught_fd; /* the real stderr; what assertions say */
static bool is_over;

/* "seed 12: prompt, allreduce by ring: ..."; the reason is the first line of what an assertion
 * said. */
static void tell(void)
{
    char line[512], reason[256] = "it crashed";
    uint64_t random = current_seed;
    struct drawn drawn;
    if (is_over) return;
    const ssize_t length = pread(caught_fd, reason, sizeof reason - 1, 0);
    if (length > 0) reason[length] = '\0';
    reason[strcspn(reason, "\n")] = '\0';
    draw_job(&random, current_seed, &drawn);
    const struct engine_job *const job = &drawn.job;
    const int bytes = snprintf(
        line, sizeof line, "seed %llu: %s%s%s, %s by %s on %d ranks, count %zu: %s\n",
        (unsigned long long)current_seed, drawn.dummy.name, drawn.second != NULL ? " and " : "",
        drawn.second != NULL ? drawn.second : "", collective_name(job->algorithm->collective),
        job->algorithm->name, job->size, job->count, reason);
    if (bytes < 0 || write(told_fd, line, (size_t)bytes) != bytes) _exit(3);
}

static void crash(int number)
{
    (void)number;
    tell();
    _exit(1);
}

/* An assertion outside of a test ends the process. */
int engine_dummies_main(int argument_count, char **arguments)
{
    struct sim_seeds seeds;
    struct engine_dummies_report report = {0};
    if (!sim_seeds_parse(argument_count, arguments, &seeds)) return 2;
    told_fd = dup(STDERR_FILENO);
    caught_fd = memfd_create("assertions", MFD_CLOEXEC);
    if (told_fd < 0 || caught_fd < 0 || dup2(caught_fd, STDERR_FILENO) < 0 || atexit(tell) != 0)
        return 2;
    const struct sigaction action = {.sa_handler = crash};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGABRT, &action, NULL);
    for (uint64_t i = 0; i < seeds.count; i++) {
        current_seed = seeds.first + i;
        engine_dummies_run(current_seed, &report);
    }
    is_over = true;
    dup2(told_fd, STDERR_FILENO);
    printf("%llu seeds from %llu held: %u operations done, %u given up;\n"
           "messages written %llu, forwarded %llu, shared %llu, multicast %llu\n",
           (unsigned long long)seeds.count, (unsigned long long)seeds.first, report.done,
           report.given_up, (unsigned long long)report.written, (unsigned long long)report.handed_on,
           (unsigned long long)report.shared, (unsigned long long)report.multicast);
    return 0;
}
