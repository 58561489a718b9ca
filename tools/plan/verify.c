#include "verify.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "encoded.h"
#include "plan/verify.h"

enum { WORKERS_MAX = 64, RANKS_MIN_OF_ALL = 1, RANKS_MAX_OF_ALL = 33 };

/* One plan to prove, with separate buffers and in place. */
struct task {
    const struct algorithm *algorithm;
    int rank_count, root;
};

struct work {
    struct task *tasks;
    size_t task_count, task_capacity;
    unsigned radix;
    const int *order;
    const struct hosts *hosts; /* NULL: algorithms that need hosts get some */
    const struct encoding_wish *encoding;
    atomic_size_t next; /* relaxed: it only hands out numbers */

    pthread_mutex_t lock; /* of what follows, and of the terminal */
    size_t proven, wrong, unknown;
    uint32_t roundings;
    uint64_t step_count, message_count;
    bool shows_progress;
    uint64_t progress_ns;
};

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ------------------------------------------------------------------------------------- one plan */

/* On encoded links, if it is to run on some: *none says that no link of its ranks is encoded. */
static enum verify_verdict verify_encoded(struct plan *plan, bool in_place,
                                          const struct options *options, bool *none,
                                          struct verify_report *report)
{
    struct verify_options how = {.in_place = in_place};
    int *places = NULL;
    *none = true;
    if (encoded_is_asked(&options->encoding)) {
        places = encoded_places(&options->encoding, &options->hosts, plan->shape.rank_count, none);
        if (!*none && (places == NULL || (in_place && !encoded_in_place(plan)))) {
            free(places);
            snprintf(report->message, sizeof report->message, "out of memory");
            return VERIFY_NO_MEMORY;
        }
    }
    how.places = places;
    const enum verify_verdict verdict = plan_verify(plan, &how, report);
    free(places);
    return verdict;
}

/* Links that can be encoded do not make a plan that calls take. */
static void say_what_calls_take(const struct options *options, const struct algorithm *algorithm,
                                const char *why)
{
    const char *const encoding = tutti_encoding_name(options->encoding.encoding);
    if (why != NULL)
        printf("no call with %s takes %s: it %s\n", encoding,
               algorithm == NULL ? "this plan" : algorithm->name, why);
    else if (encoding_unit_elements(options->encoding.encoding) > 1 && algorithm != NULL &&
             !algorithm->keeps_units)
        printf("calls with %s take %s where blocks end with a whole unit\n", encoding,
               algorithm->name);
    if (why != NULL || algorithm == NULL || !encoded_has_v_form(algorithm->collective)) return;
    const char *const why_not_v = encoded_why_not_varying(&options->encoding, algorithm);
    const char *const collective = collective_name(algorithm->collective);
    if (why_not_v == NULL)
        printf("%sv with %s takes %s, too\n", collective, encoding, algorithm->name);
    else
        printf("%sv with %s does not take %s: %s\n", collective, encoding, algorithm->name,
               why_not_v);
}

enum exit_code verify_plan(struct plan *plan, bool in_place, const struct options *options)
{
    struct verify_report report;
    bool none;
    const char *collective = collective_name(plan->shape.collective);
    const char *buffers = in_place ? "in place" : "separate buffers";
    if (options->hosts.rank_count > 0 && options->hosts.rank_count != plan->shape.rank_count)
        return usage_error("the hosts have %d ranks, and the plan has %d",
                           options->hosts.rank_count, plan->shape.rank_count);
    if (encoded_is_asked(&options->encoding) && plan->shape.collective == COLLECTIVE_BARRIER)
        return usage_error("--encoding: a barrier has no elements");
    const enum verify_verdict verdict = verify_encoded(plan, in_place, options, &none, &report);
    if (verdict != VERIFY_PROVEN) {
        fprintf(stderr, "%s of %d ranks, %s: %s: %s\n", collective, plan->shape.rank_count, buffers,
                verdict == VERIFY_WRONG ? "WRONG" : "not known", report.message);
        return EXIT_WRONG;
    }
    printf("%s of %d ranks, %s: proven (%llu steps, %llu messages%s)\n", collective,
           plan->shape.rank_count, buffers, (unsigned long long)report.step_count,
           (unsigned long long)report.message_count,
           !collective_reduces(plan->shape.collective) ? ""
           : report.rank_ordered                       ? ", operands in rank order"
                                                       : ", needs a commutative operation");
    if (!encoded_is_asked(&options->encoding)) return EXIT_FINE;
    char text[160];
    encoded_describe(&options->encoding, report.roundings, text, sizeof text);
    printf("%s\n", none ? "no link is encoded" : text);
    if (!none) say_what_calls_take(options, NULL, "is not of the list of algorithms");
    return EXIT_FINE;
}

/* ----------------------------------------------------------------------------------- many plans */

static enum verify_verdict prove_with(const struct work *work, const struct task *task,
                                      const struct algo_levels *levels, const int *places,
                                      bool in_place, struct verify_report *report)
{
    const struct algorithm *algorithm = task->algorithm;
    const struct algo_params params = {.collective = algorithm->collective,
                                       .rank_count = task->rank_count,
                                       .root = task->root,
                                       .in_place = in_place,
                                       .encodes = places != NULL,
                                       .radix = work->radix,
                                       .order = work->order,
                                       .levels = levels};
    const struct verify_options how = {.in_place = in_place,
                                       .associative_tree_uniform =
                                           algorithm->deterministic && places == NULL,
                                       .places = places};
    struct plan *plan;
    const char *message;
    const enum tutti_status status = algo_plan(algorithm, &params, &plan, &message);
    if (status != TUTTI_OK) {
        snprintf(report->message, sizeof report->message, "it makes no plan: %s", message);
        return status == TUTTI_NO_MEMORY ? VERIFY_NO_MEMORY : VERIFY_WRONG;
    }
    const enum verify_verdict verdict = plan_verify(plan, &how, report);
    plan_free(plan);
    if (verdict == VERIFY_PROVEN && collective_reduces(algorithm->collective) &&
        !algorithm->needs_commutative && work->order == NULL && !report->rank_ordered) {
        snprintf(report->message, sizeof report->message,
                 "it promises operands in rank order and does not keep it");
        return VERIFY_WRONG;
    }
    return verdict;
}

static enum verify_verdict prove_on(const struct work *work, const struct task *task,
                                    const struct hosts *hosts, bool in_place,
                                    struct verify_report *report)
{
    const bool takes_levels =
        hosts != NULL && (work->hosts != NULL || task->algorithm->needs_levels);
    int *places = NULL;
    bool none = true;
    if (encoded_is_asked(work->encoding)) {
        places = encoded_places(work->encoding, hosts, task->rank_count, &none);
        if (places == NULL && !none) {
            snprintf(report->message, sizeof report->message, "out of memory");
            return VERIFY_NO_MEMORY;
        }
    }
    const enum verify_verdict verdict =
        prove_with(work, task, takes_levels ? &hosts->levels : NULL, places, in_place, report);
    free(places);
    return verdict;
}

/* On hosts that were named; or on some, where it needs them. */
static enum verify_verdict prove(const struct work *work, const struct task *task, bool in_place,
                                 struct verify_report *report)
{
    const bool parts_links =
        encoded_is_asked(work->encoding) && work->encoding->links != ENCODED_EVERYWHERE;
    struct hosts hosts;
    if (work->hosts != NULL || (!task->algorithm->needs_levels && !parts_links))
        return prove_on(work, task, work->hosts, in_place, report);
    if (!hosts_generate(&hosts, task->rank_count, task->rank_count % 2 == 1)) {
        snprintf(report->message, sizeof report->message, "out of memory");
        return VERIFY_NO_MEMORY;
    }
    const enum verify_verdict verdict = prove_on(work, task, &hosts, in_place, report);
    hosts_release(&hosts);
    return verdict;
}

static void clear_progress(const struct work *work)
{
    if (work->shows_progress) fputs("\r\x1b[K", stderr);
}

static void show_progress(struct work *work, const struct task *task)
{
    const uint64_t now = now_ns();
    if (!work->shows_progress || now - work->progress_ns < 100000000u) return;
    work->progress_ns = now;
    clear_progress(work);
    fprintf(stderr, "%zu of %zu: %s %s, %d ranks", work->proven + work->wrong + work->unknown,
            2 * work->task_count, collective_name(task->algorithm->collective),
            task->algorithm->name, task->rank_count);
    fflush(stderr);
}

static void count_verdict(struct work *work, const struct task *task, bool in_place,
                          enum verify_verdict verdict, const struct verify_report *report)
{
    pthread_mutex_lock(&work->lock);
    if (verdict == VERIFY_PROVEN) {
        work->proven++;
        work->step_count += report->step_count;
        work->message_count += report->message_count;
        if (report->roundings > work->roundings) work->roundings = report->roundings;
    } else {
        clear_progress(work);
        fprintf(stderr, "%s %s of %d ranks, root %d, %s: %s\n",
                collective_name(task->algorithm->collective), task->algorithm->name,
                task->rank_count, task->root, in_place ? "in place" : "separate buffers",
                report->message);
        if (verdict == VERIFY_WRONG)
            work->wrong++;
        else
            work->unknown++;
    }
    show_progress(work, task);
    pthread_mutex_unlock(&work->lock);
}

static void *work_on(void *context)
{
    struct work *work = context;
    for (;;) {
        const size_t index = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed);
        if (index >= work->task_count) return NULL;
        /* Backwards: what takes longest comes last in the list. */
        const struct task *task = &work->tasks[work->task_count - 1 - index];
        for (int in_place = 0; in_place < 2; in_place++) {
            struct verify_report report = {0};
            const enum verify_verdict verdict = prove(work, task, in_place != 0, &report);
            count_verdict(work, task, in_place != 0, verdict, &report);
        }
    }
}

static bool add_task(struct work *work, struct task task)
{
    if (work->task_count == work->task_capacity) {
        const size_t capacity = work->task_capacity * 2 + 256;
        struct task *grown = realloc(work->tasks, capacity * sizeof *grown);
        if (grown == NULL) return false;
        work->tasks = grown;
        work->task_capacity = capacity;
    }
    work->tasks[work->task_count++] = task;
    return true;
}

static bool add_roots(struct work *work, const struct options *options,
                      const struct algorithm *algorithm, int rank_count)
{
    const bool every = options->root == ALL_ROOTS && collective_is_rooted(algorithm->collective);
    const int first = options->root == ALL_ROOTS ? 0 : options->root;
    const int last = every ? rank_count - 1 : first;
    for (int root = first; root <= last; root++)
        if (!add_task(work, (struct task){algorithm, rank_count, root})) return false;
    return true;
}

static bool add_tasks(struct work *work, const struct options *options)
{
    const int min = options->ranks_min > 0 ? options->ranks_min : RANKS_MIN_OF_ALL;
    const int max = options->ranks_min > 0 ? options->ranks_max : RANKS_MAX_OF_ALL;
    for (int rank_count = min; rank_count <= max; rank_count++)
        for (int i = 0; i < algo_count; i++) {
            const struct algorithm *algorithm = &algo_list[i];
            if (options->algorithm != NULL && options->algorithm != algorithm) continue;
            if (options->collective != COLLECTIVE_COUNT &&
                options->collective != algorithm->collective)
                continue;
            /* Of many, those that calls with the encoding may take. */
            if (options->algorithm == NULL && encoded_why_not(&options->encoding, algorithm) != NULL)
                continue;
            if (algo_supports_levels(algorithm, rank_count) &&
                !add_roots(work, options, algorithm, rank_count))
                return false;
        }
    return true;
}

static void run_workers(struct work *work)
{
    pthread_t workers[WORKERS_MAX];
    long wanted = sysconf(_SC_NPROCESSORS_ONLN) - 1; /* this thread works, too */
    int started = 0;
    if (wanted > WORKERS_MAX) wanted = WORKERS_MAX;
    while (started < wanted && pthread_create(&workers[started], NULL, work_on, work) == 0)
        started++;
    work_on(work);
    for (int i = 0; i < started; i++) pthread_join(workers[i], NULL);
}

enum exit_code verify_algorithms(const struct options *options)
{
    struct work work = {.radix = options->radix,
                        .order = options->order,
                        .hosts = options->hosts.rank_count > 0 ? &options->hosts : NULL,
                        .encoding = &options->encoding,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .shows_progress = isatty(STDERR_FILENO)};
    const uint64_t begin_ns = now_ns();
    if (!add_tasks(&work, options)) {
        free(work.tasks);
        fputs("tutti-plan: out of memory\n", stderr);
        return EXIT_WRONG;
    }
    run_workers(&work);
    clear_progress(&work);
    free(work.tasks);
    const double seconds = (double)(now_ns() - begin_ns) / 1e9;
    printf("%zu plans proven", work.proven);
    if (work.wrong > 0) printf(", %zu WRONG", work.wrong);
    if (work.unknown > 0) printf(", %zu not known", work.unknown);
    printf(" (%llu steps, %llu messages, %.1f s)\n", (unsigned long long)work.step_count,
           (unsigned long long)work.message_count, seconds);
    if (encoded_is_asked(&options->encoding) && work.proven > 0) {
        char text[160];
        encoded_describe(&options->encoding, work.roundings, text, sizeof text);
        printf("%s\n", work.roundings > 0 ? text : "no link is encoded");
        if (options->algorithm != NULL)
            say_what_calls_take(options, options->algorithm,
                                encoded_why_not(&options->encoding, options->algorithm));
    }
    return work.wrong + work.unknown == 0 && work.proven > 0 ? EXIT_FINE : EXIT_WRONG;
}
