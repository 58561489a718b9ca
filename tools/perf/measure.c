#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "device.h"

enum {
    SETS_MAX = 512,
    ITERATIONS_MIN = 5,
    ITERATIONS_MAX = 2000,
    WARMUP_MIN = 4,
    WARMUP_SECONDS_MAX = 2,
    STREAM_CALLS = 16 /* calls that lie in a stream at once */
};
static const size_t pool_bytes = (size_t)256 << 20; /* per rank, for rotation; beyond every cache */

/* One case under way. */
struct run {
    struct perf_rank *rank;
    const struct perf_case *c;
    struct buffers buffers;
    struct tutti_call_options call_options;
    struct perf_call *calls; /* one for each set of buffers: made before time is taken */
    /* The call that makes a turn, if the turn is one blocking call; else NULL. */
    enum tutti_status (*plain)(const struct perf_call *call, struct tutti_comm *comm);
    struct tutti_prepared **prepared; /* of set 0, part 0, 1, then of set 1, ...; NULL: not yet */
    struct measurement *m;
    struct perf_encoded encoded;
};

/* -------------------------------------------------------------------------------- one iteration */

/* The parts of an operation from first to end, of one set of buffers, called at once. */
struct turn {
    struct run *run;
    int set;
    int first, end;
    const struct perf_call *call;
};

static const struct perf_calls *calls_of(const struct turn *turn, int part)
{
    const struct perf_options *const options = turn->run->rank->options;
    return options->tensors != TENSORS_NONE ? &options->operation->list
                                            : &options->operation->calls[part];
}

static enum tutti_status call_blocking(struct turn *turn)
{
    for (int part = turn->first; part < turn->end; part++)
        TRY(calls_of(turn, part)->run(turn->call, turn->run->rank->comm));
    return TUTTI_OK;
}

static enum tutti_status call_grouped(struct turn *turn)
{
    TRY(tutti_group_begin());
    const enum tutti_status called = call_blocking(turn), ended = tutti_group_end();
    return called != TUTTI_OK ? called : ended;
}

static enum tutti_status start_prepared(struct turn *turn, int part, struct tutti_request **request)
{
    struct tutti_prepared **const prepared = &turn->run->prepared[turn->set * PARTS_MAX + part];
    if (!*prepared) TRY(calls_of(turn, part)->prepare(turn->call, turn->run->rank->comm, prepared));
    return *prepared ? tutti_start(*prepared, request) : TUTTI_OK;
}

/* Whatever was started is waited for, also after a failure: it owns the buffers. */
static enum tutti_status call_started(struct turn *turn, bool prepared)
{
    struct tutti_request *requests[PARTS_MAX] = {NULL};
    enum tutti_status status = TUTTI_OK;
    for (int part = turn->first; status == TUTTI_OK && part < turn->end; part++)
        status =
            prepared
                ? start_prepared(turn, part, &requests[part])
                : calls_of(turn, part)->start(turn->call, turn->run->rank->comm, &requests[part]);
    for (int part = turn->first; part < turn->end; part++) {
        const enum tutti_status waited = requests[part] ? tutti_wait(&requests[part]) : TUTTI_OK;
        if (status == TUTTI_OK) status = waited;
    }
    return status;
}

static enum tutti_status call_turn(struct turn *turn)
{
    switch (turn->run->rank->options->form) {
    case FORM_STARTED: return call_started(turn, false);
    case FORM_PREPARED: return call_started(turn, true);
    case FORM_GROUPED: return call_grouped(turn);
    case FORM_BLOCKING: break;
    }
    return turn->end - turn->first > 1 ? call_grouped(turn) : call_blocking(turn);
}

/* With --stream, the stream may still be at it. */
static enum tutti_status make_call(struct run *run, int iteration)
{
    const enum parts parts = run->rank->options->operation->parts;
    const int sets = run->buffers.set_count, set = sets > 1 ? iteration % sets : 0;
    if (run->plain) return run->plain(&run->calls[set], run->rank->comm);
    struct turn turn = {.run = run,
                        .set = set,
                        .end = parts == PARTS_AT_ONCE ? PARTS_MAX : 1,
                        .call = &run->calls[set]};
    TRY(call_turn(&turn));
    if (parts != PARTS_IN_TURN) return TUTTI_OK;
    turn.first++;
    turn.end++;
    return call_turn(&turn);
}

static enum tutti_status call_once(struct run *run, int iteration)
{
    TRY(make_call(run, iteration));
    return perf_device_finish(run->rank);
}

static void free_calls(struct run *run)
{
    for (int i = 0; run->prepared && i < run->buffers.set_count * PARTS_MAX; i++)
        tutti_prepared_free(run->prepared[i]);
    free(run->prepared);
    free(run->calls);
}

/* -------------------------------------------------------------------------------------- buffers */

/* As many sets as bring the pool's memory through the cache, when a set does not fit into L2
 * (auto). */
static int set_count_for(const struct perf_options *options, size_t bytes, bool in_place)
{
    const size_t set_bytes = bytes * (in_place ? 1 : 2);
    const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    const size_t l2_bytes = l2 > 0 ? (size_t)l2 : (size_t)1 << 20;
    if (options->rotate == ROTATE_NEVER) return 1;
    if (options->rotate == ROTATE_AUTO && set_bytes <= l2_bytes) return 1;
    if (set_bytes > pool_bytes) return 1;
    const size_t sets = set_bytes ? (pool_bytes + set_bytes - 1) / set_bytes : SETS_MAX;
    return sets < 2 ? 2 : sets > SETS_MAX ? SETS_MAX : (int)sets;
}

/* Without options of its own a call is the plain one. */
static const struct tutti_call_options *options_for(const struct run *run)
{
    const struct tutti_call_options *const options = &run->call_options;
    const bool plain = !options->algorithm && !options->deterministic && !options->priority &&
                       !options->on_stream && !options->encoding;
    return plain ? NULL : options;
}

static enum tutti_status init_calls(struct run *run)
{
    const struct perf_rank *const rank = run->rank;
    const struct perf_options *const options = rank->options;
    const int sets = run->buffers.set_count;
    if (options->form == FORM_BLOCKING && options->operation->parts == PARTS_ONE &&
        options->tensors == TENSORS_NONE)
        run->plain = options->operation->calls[0].run;
    if (options->form == FORM_PREPARED &&
        !(run->prepared = calloc((size_t)sets * PARTS_MAX, sizeof *run->prepared)))
        return TUTTI_NO_MEMORY;
    if (!(run->calls = calloc((size_t)sets, sizeof *run->calls))) return TUTTI_NO_MEMORY;
    for (int set = 0; set < sets; set++) {
        run->calls[set] = (struct perf_call){.rank = rank->rank,
                                             .rank_count = rank->rank_count,
                                             .count = run->c->count,
                                             .dtype = run->c->dtype,
                                             .op = rank->ops[run->c->reduction],
                                             .root = run->c->root,
                                             .options = options_for(run)};
        buffers_call(&run->buffers, set, &run->calls[set]);
    }
    return TUTTI_OK;
}

static enum tutti_status init_buffers(struct run *run)
{
    const struct perf_rank *const rank = run->rank;
    const struct perf_options *const options = rank->options;
    const struct perf_shape shape = {.rank_count = rank->rank_count,
                                     .rank = rank->rank,
                                     .root = run->c->root,
                                     .count = run->c->count,
                                     .skew = options->skew,
                                     .displs = options->displs,
                                     .tensors = options->tensors,
                                     .in_place = run->c->in_place};
    const size_t element_bytes = tutti_dtype_size(run->c->dtype);
    const size_t bytes =
        operation_blocks(options->operation, rank->rank_count) * run->c->count * element_bytes;
    const struct buffers_options buffers_options = {
        .element_bytes = element_bytes,
        .misalign = options->misalign,
        .mapped = options->memory == PERF_MEMORY_MAPPED,
        .device = options->memory == PERF_MEMORY_DEVICE ? rank->device : NULL,
        .set_count = set_count_for(options, bytes, run->c->in_place)};
    return buffers_init(&run->buffers, options->operation, &shape, &buffers_options);
}

static struct pattern pattern_for(const struct run *run, uint64_t salt)
{
    return (struct pattern){run->c->dtype,
                            run->rank->options->operation->reduces,
                            run->c->reduction,
                            run->rank->rank_count,
                            salt,
                            run->encoded};
}

/* Which collective the calls of a case are, as far as they may be encoded. */
static const char *encodable(const struct run *run)
{
    const struct perf_options *const options = run->rank->options;
    const struct perf_operation *const operation = options->operation;
    const bool adds = run->c->reduction == REDUCTION_SUM || run->c->reduction == REDUCTION_AVG;
    if (!operation_blocks(operation, 1)) return NULL;
    if (operation->reduces && (!adds || options->deterministic)) return NULL;
    return operation_is_message(operation) ? "send" : operation->name;
}

static enum tutti_status find_encoded(struct run *run)
{
    const struct perf_encodable call = {.collective = encodable(run),
                                        .count = run->c->count,
                                        .dtype = run->c->dtype,
                                        .encoding = run->call_options.encoding,
                                        .has_algorithm = run->c->algorithm != NULL};
    return perf_encoded_find(run->rank->comm, &call, &run->encoded);
}

/* --------------------------------------------------------------------------------------- checks */

static void judge(struct run *run, int set, const struct pattern *pattern)
{
    const struct perf_rank *const rank = run->rank;
    char text[200];
    const size_t wrong = buffers_check(&run->buffers, set, pattern, text, sizeof text);
    if (wrong && !run->m->wrong_here) {
        const struct perf_case *const c = run->c;
        fprintf(
            stderr, "tutti-perf: rank %d: %s %s %s of %zu, %s place, root %d, algorithm %s: %s\n",
            rank->rank, rank->options->operation->name, tutti_dtype_name(c->dtype),
            rank->options->operation->reduces ? reduction_name(c->reduction) : "copies", c->count,
            c->in_place ? "in" : "out of", c->root, c->algorithm ? c->algorithm : "(chosen)", text);
    }
    run->m->wrong_here += (int64_t)wrong;
}

/* A barrier is right when nobody leaves before the last one has entered. One rank enters late. */
static enum tutti_status check_barrier(struct run *run, int iteration)
{
    struct perf_rank *const rank = run->rank;
    if (iteration % rank->rank_count == rank->rank)
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    double entered_last = perf_seconds();
    TRY(call_once(run, iteration));
    const double left = perf_seconds();
    TRY(perf_sync_max(rank, &entered_last, 1));
    if (rank->one_clock && left < entered_last) {
        fprintf(stderr,
                "tutti-perf: rank %d left a barrier %.1f us before the last rank entered it\n",
                rank->rank, (entered_last - left) * 1e6);
        run->m->wrong_here++;
    }
    return TUTTI_OK;
}

static enum tutti_status check_before(struct run *run)
{
    const bool barrier = !operation_blocks(run->rank->options->operation, 1);
    for (int i = 0; i < run->rank->options->check_iterations; i++) {
        if (barrier) {
            TRY(check_barrier(run, i));
            continue;
        }
        const int set = i % run->buffers.set_count;
        const struct pattern pattern = pattern_for(run, (uint64_t)i + 1);
        TRY(buffers_fill(&run->buffers, set, &pattern));
        TRY(call_once(run, set));
        judge(run, set, &pattern);
    }
    return TUTTI_OK;
}

/* Whether a named algorithm can do this at all: only a call can tell. */
static enum tutti_status probe(struct run *run)
{
    run->m->supported = true;
    if (!run->c->algorithm) return TUTTI_OK;
    const enum tutti_status status = call_once(run, 0);
    run->m->supported = status != TUTTI_INVALID_ALGORITHM;
    return run->m->supported ? status : TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- timing */

static enum tutti_status warm_up(struct run *run, double *estimate)
{
    const struct perf_options *const options = run->rank->options;
    const int sets = run->buffers.set_count;
    const bool fixed = options->warmup >= 0;
    const int wanted = fixed ? options->warmup : sets > WARMUP_MIN ? sets : WARMUP_MIN;
    const bool estimates = !options->iterations;
    *estimate = 1e9;
    TRY(perf_sync_barrier(run->rank));
    const double started = perf_seconds();
    int32_t more = wanted > 0 || estimates;
    for (int i = 0; more; i++) {
        double seconds = perf_seconds();
        TRY(call_once(run, i));
        seconds = perf_seconds() - seconds;
        if (estimates) TRY(perf_sync_max(run->rank, &seconds, 1));
        if (seconds < *estimate) *estimate = seconds;
        more = i + 1 < wanted && (fixed || perf_seconds() - started < WARMUP_SECONDS_MAX);
        if (!fixed) TRY(perf_sync_from_first(run->rank, &more));
    }
    return TUTTI_OK;
}

static enum tutti_status choose_iterations(struct run *run, double estimate, int32_t *iterations)
{
    const struct perf_options *const options = run->rank->options;
    const double fit = options->time_seconds / (estimate + 1e-9);
    *iterations = fit < ITERATIONS_MIN   ? ITERATIONS_MIN
                  : fit > ITERATIONS_MAX ? ITERATIONS_MAX
                                         : (int32_t)fit;
    if (options->iterations) *iterations = options->iterations;
    return perf_sync_from_first(run->rank, iterations);
}

/* After a barrier, ranks begin a call one after the other, and in an order that helps some
 * algorithms: algorithms that go along with this order seem to be faster than they are. Ranks that
 * share a clock begin at the same time. */
static enum tutti_status begin_single(struct run *run, double *start)
{
    if (run->rank->options->one_clock) return perf_sync_start(run->rank, start);
    TRY(perf_sync_barrier(run->rank));
    *start = perf_seconds();
    return TUTTI_OK;
}

static enum tutti_status time_single(struct run *run, int iteration, double *seconds)
{
    double start;
    bool is_timed = true;
    do {
        TRY(begin_single(run, &start));
        TRY(call_once(run, iteration));
        *seconds = (perf_seconds() - start) / operation_turns(run->rank->options->operation);
        if (run->rank->options->one_clock) TRY(perf_sync_started(run->rank, &is_timed));
    } while (!is_timed);
    return TUTTI_OK;
}

/* Seconds of every iteration of this rank; stops early, on all ranks, when the estimate was far
 * off. */
static enum tutti_status time_singles(struct run *run, double *seconds, int32_t *iterations)
{
    const struct perf_options *const options = run->rank->options;
    const double stop = perf_seconds() + 4 * options->time_seconds + 1;
    for (int32_t i = 0; i < *iterations; i++) {
        TRY(time_single(run, i, &seconds[i]));
        if (options->iterations || i % 16 != 15) continue;
        int32_t go_on = perf_seconds() < stop;
        TRY(perf_sync_from_first(run->rank, &go_on));
        if (!go_on) *iterations = i + 1;
    }
    return TUTTI_OK;
}

static enum tutti_status time_loop(struct run *run, int iterations)
{
    TRY(perf_sync_barrier(run->rank));
    const double start = perf_seconds();
    for (int i = 0; i < iterations; i++) {
        TRY(make_call(run, i));
        if (i % STREAM_CALLS == STREAM_CALLS - 1 || i == iterations - 1)
            TRY(perf_device_finish(run->rank));
    }
    run->m->loop =
        (perf_seconds() - start) / iterations / operation_turns(run->rank->options->operation);
    return perf_sync_max(run->rank, &run->m->loop, 1);
}

static int compare_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum tutti_status summarise(struct run *run, double *seconds, int iterations)
{
    TRY(perf_sync_max(run->rank, seconds, (size_t)iterations));
    qsort(seconds, (size_t)iterations, sizeof *seconds, compare_seconds);
    run->m->iterations = iterations;
    run->m->min = seconds[0];
    run->m->p50 = seconds[iterations / 2];
    run->m->p99 = seconds[(int)((int64_t)iterations * 99 / 100)];
    run->m->max = seconds[iterations - 1];
    return TUTTI_OK;
}

static enum tutti_status take_times(struct run *run, const struct pattern *pattern, double *seconds,
                                    int32_t iterations)
{
    TRY(time_singles(run, seconds, &iterations));
    if (run->m->checked && !run->c->in_place)
        judge(run, (iterations - 1) % run->buffers.set_count, pattern);
    TRY(summarise(run, seconds, iterations));
    return time_loop(run, iterations);
}

static enum tutti_status time_call(struct run *run)
{
    const struct pattern pattern = pattern_for(run, 0);
    double estimate;
    int32_t iterations;
    for (int set = 0; set < run->buffers.set_count; set++)
        TRY(buffers_fill_for_timing(&run->buffers, set, &pattern));
    TRY(warm_up(run, &estimate));
    TRY(choose_iterations(run, estimate, &iterations));
    double *const seconds = calloc((size_t)iterations, sizeof *seconds);
    if (!seconds) return TUTTI_NO_MEMORY;
    const enum tutti_status status = take_times(run, &pattern, seconds, iterations);
    free(seconds);
    return status;
}

/* --------------------------------------------------------------------------------------- a case */

static enum tutti_status measure_with_buffers(struct run *run)
{
    const struct pattern pattern = pattern_for(run, 0);
    TRY(buffers_fill_for_timing(&run->buffers, 0, &pattern));
    TRY(probe(run));
    if (!run->m->supported) return TUTTI_OK;
    TRY(check_before(run));
    TRY(time_call(run));
    ran_name(run->rank->comm, run->m->ran);
    run->m->wrong = run->m->wrong_here;
    return perf_sync_sum(run->rank, &run->m->wrong);
}

/* To allocate or free memory of a device, a driver may wait for all that runs there, also for a
 * call of another rank of this process, which waits for this rank. So all ranks have their buffers
 * before any calls, and have freed them before any goes on. */
static enum tutti_status make_buffers_and_measure(struct run *run)
{
    TRY(find_encoded(run));
    TRY(init_buffers(run));
    TRY(init_calls(run));
    TRY(perf_sync_barrier(run->rank));
    return measure_with_buffers(run);
}

enum tutti_status perf_measure(struct perf_rank *rank, const struct perf_case *perf_case,
                               struct measurement *measurement)
{
    struct run run = {
        .rank = rank, .c = perf_case, .m = measurement, .call_options = TUTTI_CALL_OPTIONS_INIT};
    *measurement = (struct measurement){.checked = rank->options->check_iterations > 0};
    run.call_options.algorithm = perf_case->algorithm;
    run.call_options.deterministic = rank->options->deterministic;
    run.call_options.priority = rank->options->priority;
    run.call_options.encoding = rank->options->encoding;
    run.call_options.on_stream = rank->options->on_stream;
    run.call_options.stream = rank->stream;
    const enum tutti_status status = make_buffers_and_measure(&run);
    free_calls(&run);
    /* after a failure peers may still be reading mapped memory, and a device its own; it goes with
     * the process */
    if (status != TUTTI_OK && (run.buffers.mapped || rank->device)) return status;
    buffers_release(&run.buffers);
    return status == TUTTI_OK ? perf_sync_barrier(rank) : status;
}
