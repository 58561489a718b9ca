/* adapt.c - training that adapts to what happens: the batch grows with the gradient noise scale, and
 * while a rank is slow, ranks take steps of their own and synchronise now and then.
 *
 *     tutti-run -n 2 adapt --slow 1:3:5-15 --seconds 20
 *
 * Rank 1 is then 3 times slower from second 5 to second 15. Every decision is printed with its
 * reason:
 *
 *     rounds of all ranks    one step, gradients averaged │ own steps, then DiLoCo │ one step ...
 *                                     rank 1 is slow ─────┘      fair again ───────┘
 *
 * In a round with own steps, a rank takes as many as the time of the slowest rank allows, so no rank
 * waits long. With --mode the program does not adapt: full, local (local SGD) or diloco, to compare
 * them.
 *
 * With --server rank 0 is a parameter server, and the others work (tutti/server.h):
 *
 *     tutti-run -n 3 adapt --server adapt --slow 1:3:5-15       # the clock is synchronous, and bounded while
 *                                                               # a worker is slow
 *
 * Workers, and the slow rank among them, are then counted without the server.
 *
 * Computing is a gradient of a small model (adapt_model.h), and a sleep in place of a larger one.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adapt_model.h"
#include "tutti/server.h"
#include "tutti/train/adapt.h"
#include "tutti/train/local.h"
#include "tutti/tutti.h"

enum { OBSERVED_STEPS = 20, RANKS_MAX = 1024 };

enum mode { MODE_ADAPT, MODE_FULL, MODE_LOCAL, MODE_DILOCO };

struct settings {
    enum mode mode;
    double seconds, compute_ms, rate;
    int every, batch, slow_rank; /* slow_rank: -1: none */
    double slow_factor, slow_from_s, slow_to_s;
    bool traces;        /* the loss at every observation */
    bool is_nominal;    /* a step takes what the settings say, whatever the clock says */
    bool serves;        /* rank 0 is a parameter server, */
    bool adapts_server; /* of which the policies choose the mode; or: */
    enum tutti_server_mode server_mode;
    int staleness, quorum;
    uint64_t seed;        /* of the samples */
    const char *encoding; /* of gradients on their way; "": none */
    int observations;     /* to end after so many, whatever the seconds; 0: no such end */
};

/* --------------------------------------------------------------------------------- small things */

static int my_rank, rank_count;

static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "adapt: rank %d: %s: %s\n", my_rank, what, why);
    exit(1); /* the others will be told which rank has gone */
}

static void check(enum tutti_status status, const char *what)
{
    if (status != TUTTI_OK) give_up(what, tutti_error_message());
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void nap(double seconds)
{
    struct timespec left = {(time_t)seconds, (long)(1e9 * (seconds - floor(seconds)))};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

/* --------------------------------------------------------------------------------------- training */

struct training {
    const struct settings *settings;
    struct tutti_comm *comm;
    struct tutti_adapt *adapt;
    struct tutti_local *local;   /* NULL: gradients are averaged in each step; or: */
    struct tutti_server *server; /* steps are taken there; NULL: in each rank */
    int own_steps;               /* with local: in a round */
    float parameters[PARAMETERS], *gradient;
    double begin_s, first_loss, computed_s; /* computed: for the steps since the last observation */
    uint64_t steps, observed_steps;
    struct tutti_adapt_sample sample;
};

/* The mean gradient of this rank's samples. */
static void compute_gradient(struct training *t, uint64_t batch)
{
    const struct settings *const s = t->settings;
    const double begin_s = now_s(), elapsed_s = begin_s - t->begin_s;
    const bool is_slow =
        my_rank == s->slow_rank && elapsed_s >= s->slow_from_s && elapsed_s < s->slow_to_s;
    const uint64_t place = (t->steps * (uint64_t)RANKS_MAX + (uint64_t)my_rank) * 4096;
    model_gradient(t->parameters, (s->seed << 45) + place, batch, t->gradient);
    const double nap_s = 1e-3 * s->compute_ms;
    nap(nap_s);
    const double fair_s = s->is_nominal ? nap_s : now_s() - begin_s;
    if (is_slow) nap((s->slow_factor - 1) * fair_s);
    t->computed_s += s->is_nominal ? fair_s * (is_slow ? s->slow_factor : 1) : now_s() - begin_s;
    t->steps++;
}

static double squared_norm(const float *numbers)
{
    double sum = 0;
    for (int i = 0; i < PARAMETERS; i++) sum += (double)numbers[i] * (double)numbers[i];
    return sum;
}

static void descend(struct training *t, double rate)
{
    for (int i = 0; i < PARAMETERS; i++) t->parameters[i] -= (float)rate * t->gradient[i];
}

static uint64_t own_batch(const struct tutti_adapt_settings *now)
{
    const uint64_t batch = now->batch / (uint64_t)rank_count;
    return batch > 0 ? batch : 1;
}

/* A step in which all ranks average gradients. Tells how noisy they were. */
static void step_together(struct training *t, const struct tutti_adapt_settings *now)
{
    const uint64_t batch = own_batch(now);
    compute_gradient(t, batch);
    t->sample.small_batch = (double)batch;
    t->sample.small_squared = squared_norm(t->gradient);
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    if (now->encoding[0] != '\0') options.encoding = now->encoding;
    check(tutti_allreduce_with(t->gradient, t->gradient, PARAMETERS, TUTTI_FLOAT32, TUTTI_AVG,
                               &options, t->comm),
          "averaging gradients");
    t->sample.large_batch = (double)batch * rank_count;
    t->sample.large_squared = squared_norm(t->gradient);
    descend(t, now->rate);
}

static void steps_alone(struct training *t, const struct tutti_adapt_settings *now)
{
    for (int i = 0; i < t->own_steps; i++) {
        compute_gradient(t, own_batch(now));
        descend(t, now->rate);
    }
    t->sample.small_batch = 0; /* there is no gradient of all ranks */
    check(tutti_local_step(t->local, NULL), "synchronising");
}

/* The server takes the step, with the gradients that its mode waits for. */
static void step_on_server(struct training *t, const struct tutti_adapt_settings *now)
{
    const struct tutti_server_part push = {0, NULL, 0, t->gradient},
                                   pull = {0, NULL, 0, t->parameters};
    compute_gradient(t, own_batch(now));
    check(tutti_server_push_pull(t->server, &push, 1, &pull, 1, NULL), "pushing a gradient");
}

/* As many steps as the slowest rank needs time for `every`. */
static int share_of_steps(struct training *t, int every)
{
    double step_s[2] = {t->sample.step_s, 0};
    check(tutti_allreduce(&step_s[0], &step_s[1], 1, TUTTI_FLOAT64, TUTTI_MAX, t->comm),
          "comparing times");
    const double share = step_s[0] > 0 ? step_s[1] / step_s[0] : 1;
    return (int)(every * fmin(share, 16) + 0.5);
}

static void begin_local(struct training *t, int every)
{
    const struct tutti_local_tensor tensors[] = {
        {"first layer", t->parameters, FIRST_LAYER, 0},
        {"second layer", t->parameters + FIRST_LAYER, SECOND_LAYER, 0}};
    struct tutti_local_options options = TUTTI_LOCAL_OPTIONS_INIT; /* DiLoCo */
    options.every = 1; /* this program calls it once a round */
    if (t->settings->mode != MODE_DILOCO) options.rate = 1, options.momentum = 0;
    t->own_steps = share_of_steps(t, every);
    check(tutti_local_create(tensors, 2, &options, t->comm, &t->local), "beginning local training");
}

static void end_local(struct training *t)
{
    check(tutti_local_synchronise(t->local, NULL), "synchronising");
    check(tutti_local_free(t->local), "ending local training");
    t->local = NULL;
}

/* All workers come here behind the same number of clocks. */
static void change_server(struct training *t, enum tutti_server_mode mode, int staleness)
{
    const int quorum = t->settings->quorum > 0 ? t->settings->quorum : rank_count - 1;
    struct tutti_server_change change = TUTTI_SERVER_CHANGE_INIT;
    change.mode = mode;
    if (mode == TUTTI_SERVER_BOUNDED) change.staleness = staleness;
    if (mode == TUTTI_SERVER_QUORUM) change.quorum = quorum > 0 ? quorum : 1;
    check(tutti_server_change_mode(t->server, &change, NULL), "changing the server's mode");
}

/* Does as the settings ask, at a step at which all ranks have the same parameters or a round ends. */
static void apply(struct training *t, const struct tutti_adapt_settings *now)
{
    const bool is_full = now->synchrony == TUTTI_SYNCHRONY_FULL;
    if (t->server != NULL) {
        change_server(t, is_full ? TUTTI_SERVER_SYNCHRONOUS : TUTTI_SERVER_BOUNDED, now->staleness);
        return;
    }
    if (t->local != NULL) end_local(t);
    if (!is_full) begin_local(t, now->every);
}

static void trace(const struct training *t)
{
    if (!t->settings->traces || my_rank != 0) return;
    printf("at %.3f s, %llu steps: loss %.6f\n", now_s() - t->begin_s, (unsigned long long)t->steps,
           model_judge(t->parameters));
}

/* In a mode of the server that nobody changes, a rank need not meet the others. */
static bool look_at_clock(const struct training *t)
{
    const int most = t->settings->observations;
    if (t->steps % OBSERVED_STEPS == 0) trace(t);
    return most > 0 ? t->steps < (uint64_t)most * OBSERVED_STEPS
                    : now_s() - t->begin_s < t->settings->seconds;
}

/* The reason of each policy that wanted a change is a line. */
static void print_reasons(double at_s, const char *reasons)
{
    for (const char *line = reasons; *line != '\0';) {
        const int length = (int)strcspn(line, "\n");
        printf("%6.2f s  %.*s\n", at_s, length, line);
        line += length + (line[length] == '\n');
    }
    fflush(stdout);
}

/* All ranks observe at the same round, and end at the same observation. Returns whether to go on. */
static bool observe(struct training *t)
{
    struct tutti_adapt_decision decision = {.size_bytes = sizeof decision};
    const int most = t->settings->observations;
    uint8_t goes_on;
    t->sample.step_s = t->computed_s / (double)(t->steps - t->observed_steps);
    t->computed_s = 0;
    t->observed_steps = t->steps;
    check(tutti_adapt_observe(t->adapt, &t->sample, &decision), "observing");
    if (decision.changed) {
        apply(t, tutti_adapt_current(t->adapt));
        if (my_rank == 0) print_reasons(now_s() - t->begin_s, decision.reason);
    }
    goes_on =
        most > 0 ? decision.call < (uint64_t)most : now_s() - t->begin_s < t->settings->seconds;
    trace(t);
    check(tutti_broadcast(&goes_on, &goes_on, 1, TUTTI_UINT8, 0, t->comm), "asking for the time");
    return goes_on != 0;
}

static void train(struct training *t)
{
    int rounds = 0;
    t->begin_s = now_s();
    for (bool goes_on = true; goes_on;) {
        const struct tutti_adapt_settings *const now = tutti_adapt_current(t->adapt);
        if (t->server != NULL && !t->settings->adapts_server) {
            step_on_server(t, now);
            goes_on = look_at_clock(t);
            continue;
        }
        if (t->server != NULL)
            step_on_server(t, now);
        else if (t->local != NULL)
            steps_alone(t, now);
        else
            step_together(t, now);
        rounds += t->local != NULL ? now->every : 1;
        if (rounds < OBSERVED_STEPS) continue;
        rounds = 0;
        goes_on = observe(t);
    }
    if (t->server != NULL) check(tutti_server_free(t->server), "leaving the server");
    if (t->local != NULL) end_local(t);
}

/* ---------------------------------------------------------------------------------------- program */

static const char usage[] =
    "usage: adapt [options]\n"
    "  --mode MODE          adapt, full, local or diloco (default: adapt)\n"
    "  --seconds S          how long to train (default: 20)\n"
    "  --observations N     end after so many calls of the policies, whatever the seconds\n"
    "  --trace 1            print the loss at each of these calls\n"
    "  --compute-ms MS      sleep of a step, in place of a larger model (default: 4)\n"
    "  --nominal 1          a step counts as that sleep, also on a machine that has other work\n"
    "  --slow RANK:FACTOR:FROM-TO   that rank is so many times slower, from and to a second\n"
    "  --every N            steps of the slowest rank in a round with own steps (default: 10)\n"
    "  --batch N            samples of a step, of all ranks together (default: 32)\n"
    "  --lr RATE            learning rate (default: 0.02)\n"
    "  --encoding NAME      of gradients on their way, such as bfloat16/hosts (default: none)\n"
    "  --seed N             of the samples (default: 0)\n"
    "  --server MODE        rank 0 is a parameter server, and its clock is synchronous, bounded,\n"
    "                       asynchronous or quorum; or adapt: synchronous, and bounded while\n"
    "                       a worker is slow. There is no --mode then\n"
    "  --staleness N        when bounded (default: 3)\n"
    "  --quorum N           with quorum: so many workers (default: all but one)\n";

static int wrong_use(const char *what)
{
    fprintf(stderr, "adapt: this makes no sense: %s\n%s", what, usage);
    return 2;
}

static bool parse_number(const char *text, double least, double most, double *number)
{
    char *end;
    errno = 0;
    *number = strtod(text, &end);
    return errno == 0 && end != text && *end == '\0' && *number >= least && *number <= most;
}

/* Which of them; -1: none. */
static int find_word(const char *word, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0) return i;
    return -1;
}

static bool parse_option(const char *name, const char *value, struct settings *s)
{
    static const char *const modes[] = {"adapt", "full", "local", "diloco"};
    static const char *const clocks[] = {"synchronous", "bounded", "asynchronous", "quorum",
                                         "adapt"};
    double number;
    int chosen;
    if (strcmp(name, "--mode") == 0 && (chosen = find_word(value, modes, 4)) >= 0)
        return s->mode = (enum mode)chosen, true;
    if (strcmp(name, "--server") == 0 && (chosen = find_word(value, clocks, 5)) >= 0) {
        s->serves = true;
        s->adapts_server = chosen == 4;
        s->server_mode = chosen == 4 ? TUTTI_SERVER_SYNCHRONOUS : (enum tutti_server_mode)chosen;
        return true;
    }
    if (strcmp(name, "--staleness") == 0 && parse_number(value, 0, 1e6, &number))
        return s->staleness = (int)number, true;
    if (strcmp(name, "--quorum") == 0 && parse_number(value, 1, RANKS_MAX, &number))
        return s->quorum = (int)number, true;
    if (strcmp(name, "--seed") == 0 && parse_number(value, 0, 8191, &number))
        return s->seed = (uint64_t)number, true;
    if (strcmp(name, "--seconds") == 0) return parse_number(value, 0.1, 1e6, &s->seconds);
    if (strcmp(name, "--compute-ms") == 0) return parse_number(value, 0, 1e5, &s->compute_ms);
    if (strcmp(name, "--lr") == 0) return parse_number(value, 1e-9, 100, &s->rate);
    if (strcmp(name, "--every") == 0 && parse_number(value, 1, 1e6, &number))
        return s->every = (int)number, true;
    if (strcmp(name, "--batch") == 0 && parse_number(value, 1, 4096, &number))
        return s->batch = (int)number, true;
    if (strcmp(name, "--trace") == 0 && parse_number(value, 0, 1, &number))
        return s->traces = number > 0, true;
    if (strcmp(name, "--nominal") == 0 && parse_number(value, 0, 1, &number))
        return s->is_nominal = number > 0, true;
    if (strcmp(name, "--observations") == 0 && parse_number(value, 1, 1e9, &number))
        return s->observations = (int)number, true;
    if (strcmp(name, "--encoding") == 0) /* tutti_adapt_create says what is wrong with its name */
        return s->encoding = value,
               strlen(value) < sizeof((struct tutti_adapt_settings *)0)->encoding;
    if (strcmp(name, "--slow") != 0) return false;
    return sscanf(value, "%d:%lf:%lf-%lf", &s->slow_rank, &s->slow_factor, &s->slow_from_s,
                  &s->slow_to_s) == 4 &&
           s->slow_rank >= 0 && s->slow_factor >= 1 && s->slow_factor <= 1000;
}

/* Returns -1 to go on, otherwise the exit code. */
static int parse_options(int argument_count, char **arguments, struct settings *settings)
{
    for (int i = 1; i < argument_count; i += 2) {
        if (strcmp(arguments[i], "--help") == 0) return fputs(usage, stdout), 0;
        if (i + 1 == argument_count || !parse_option(arguments[i], arguments[i + 1], settings))
            return wrong_use(arguments[i]);
    }
    return -1;
}

/* Rank 0 serves; t->comm has the workers alone. */
static void begin_server(struct training *t, struct tutti_comm *world)
{
    const struct settings *const s = t->settings;
    const int size = tutti_comm_size(world), rank = tutti_comm_rank(world);
    struct tutti_server_table table = TUTTI_SERVER_TABLE_INIT("parameters", 0, PARAMETERS);
    struct tutti_server_options options = TUTTI_SERVER_OPTIONS_INIT;
    if (size < 2) give_up("--server", "it needs 2 ranks or more: one of them serves");
    table.rate = s->rate;
    options.tables = &table, options.table_count = 1;
    options.server_ranks = (int[]){0}, options.server_count = 1;
    options.mode = TUTTI_SERVER_ASYNCHRONOUS; /* until all have begun */
    options.average = 1;
    check(tutti_server_create(&options, world, &t->server), "making a parameter server");
    check(tutti_comm_split(world, rank == 0 ? TUTTI_NO_COLOR : 0, rank, NULL, &t->comm),
          "meeting the other workers");
}

/* The server begins with what all workers begin with, before it gets a gradient. Every worker ends a
 * clock here, in a mode in which none waits for another, and the change of the mode lets all wait. */
static void set_first(struct training *t)
{
    const struct tutti_server_part all = {0, NULL, 0, t->parameters};
    if (my_rank == 0) check(tutti_server_set(t->server, &all, 1, NULL), "setting parameters");
    check(tutti_server_tick(t->server, NULL), "setting parameters");
    change_server(t, t->settings->server_mode, t->settings->staleness);
}

/* The two policies, or none of them with a mode of its own. */
static void begin(struct training *t)
{
    static struct tutti_batch_by_noise noise = TUTTI_BATCH_BY_NOISE_INIT;
    static struct tutti_bounded_when_slow slow = TUTTI_BOUNDED_WHEN_SLOW_INIT;
    static const struct tutti_adapt_policy policies[] = {
        {"batch by noise", tutti_batch_by_noise_decide, &noise},
        {"when a rank is slow", tutti_bounded_when_slow_decide, &slow}};
    struct tutti_adapt_settings first = TUTTI_ADAPT_SETTINGS_INIT;
    const struct settings *const s = t->settings;
    void *memory;
    noise.batch_max = 4096;
    /* A program that averages gradients has local steps in place of bounded staleness. */
    slow.synchrony = s->serves ? TUTTI_SYNCHRONY_BOUNDED : TUTTI_SYNCHRONY_LOCAL;
    slow.staleness = s->staleness;
    slow.every = s->every;
    first.batch = (uint64_t)s->batch;
    first.rate = s->rate;
    first.every = s->every;
    memcpy(first.encoding, s->encoding, strlen(s->encoding) + 1);
    if (s->mode > MODE_FULL && !s->serves) first.synchrony = TUTTI_SYNCHRONY_LOCAL;
    check(tutti_mem_alloc(PARAMETERS * sizeof(float), &memory), "memory");
    t->gradient = memory;
    model_begin(t->parameters);
    t->first_loss = model_judge(t->parameters);
    if (t->server != NULL) set_first(t);
    /* The server's learning rate stays. */
    const struct tutti_adapt_policy *const chosen = s->serves ? &policies[1] : policies;
    const size_t count = s->serves ? s->adapts_server : s->mode == MODE_ADAPT ? 2 : 0;
    check(tutti_adapt_create(chosen, count, &first, NULL, t->comm, &t->adapt),
          "beginning to adapt");
    t->sample = (struct tutti_adapt_sample)TUTTI_ADAPT_SAMPLE_INIT;
    if (s->mode <= MODE_FULL || s->serves) return;
    t->begin_s = now_s() - s->slow_from_s; /* the slow rank is slow from the first step on */
    for (int i = 0; i < OBSERVED_STEPS; i++) compute_gradient(t, own_batch(&first));
    t->sample.step_s = t->computed_s / OBSERVED_STEPS;
    t->computed_s = 0;
    t->steps = 0;
    begin_local(t, s->every);
}

static void report(struct training *t)
{
    int64_t steps[RANKS_MAX], own = (int64_t)t->steps;
    const double seconds = now_s() - t->begin_s;
    check(tutti_allgather(&own, steps, 1, TUTTI_INT64, t->comm), "counting steps");
    if (my_rank != 0) return;
    printf("loss %.5f -> %.5f in %.1f s; steps a second:", t->first_loss,
           model_judge(t->parameters), seconds);
    for (int r = 0; r < rank_count; r++) printf(" %.1f", (double)steps[r] / seconds);
    printf("; batch %llu\n", (unsigned long long)tutti_adapt_current(t->adapt)->batch);
}

int main(int argument_count, char **arguments)
{
    struct settings settings = {.mode = MODE_ADAPT,
                                .seconds = 20,
                                .compute_ms = 4,
                                .rate = 0.02,
                                .every = 10,
                                .batch = 32,
                                .slow_rank = -1,
                                .slow_factor = 1,
                                .staleness = 3,
                                .encoding = ""};
    static struct training training;
    struct tutti_comm *world;
    const int code = parse_options(argument_count, arguments, &settings);
    if (code >= 0) return code;
    check(tutti_comm_create(NULL, &world), "meeting the other ranks");
    training.settings = &settings;
    training.comm = world;
    if (settings.serves) begin_server(&training, world);
    if (training.comm == NULL) {
        check(tutti_server_serve(training.server), "serving");
        check(tutti_server_free(training.server), "serving");
        check(tutti_comm_free(world), "leaving");
        return 0;
    }
    my_rank = tutti_comm_rank(training.comm);
    rank_count = tutti_comm_size(training.comm);
    if (rank_count > RANKS_MAX) give_up("ranks", "there are more than 1024");
    begin(&training);
    train(&training);
    report(&training);
    check(tutti_adapt_free(training.adapt), "ending");
    tutti_mem_free(training.gradient);
    if (training.comm != world) check(tutti_comm_free(training.comm), "leaving");
    check(tutti_comm_free(world), "leaving");
    return 0;
}
