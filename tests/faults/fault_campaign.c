#include "tests/faults/fault_campaign.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/clock.h"
#include "tests/faults/fault_judge.h"
#include "tests/faults/fault_minimise.h"
#include "tests/faults/fault_run.h"

enum { TRIES = 3, SAMPLES_MAX = 1 << 16 };

struct samples {
    int count;
    uint64_t took_ns[SAMPLES_MAX];
};

struct tally {
    int runs, failures, operations, faults;
    int struck[FAULT_KIND_COUNT];
    uint64_t begin_ns;
    struct samples samples[FAULT_KIND_COUNT];
};

/* -------------------------------------------------------------------------------------- one run */

static void run_and_judge(const struct fault_schedule *schedule, struct fault_record *record,
                          struct fault_verdict *verdict)
{
    if (!fault_run(schedule, record)) exit(EXIT_FAILURE);
    fault_judge(schedule, record, verdict);
}

int fault_try(const struct fault_schedule *schedule, int times)
{
    struct fault_record *record = fault_record_create();
    struct fault_verdict verdict;
    int failures = 0;
    if (record == NULL) exit(EXIT_FAILURE);
    for (int i = 0; i < times; i++) {
        run_and_judge(schedule, record, &verdict);
        if (verdict.complaint_count == 0) continue;
        failures++;
        fputs(verdict.text, stderr);
    }
    fault_record_free(record);
    return failures;
}

static bool fails_sometimes(const struct fault_schedule *schedule, void *context)
{
    (void)context;
    for (int i = 0; i < TRIES; i++)
        if (fault_try(schedule, 1) > 0) return true;
    return false;
}

void fault_explain(const struct fault_schedule *schedule)
{
    struct fault_schedule smallest = *schedule;
    char text[FAULT_TEXT_BYTES];
    if (!fails_sometimes(schedule, NULL)) {
        fprintf(stderr, "it did not fail again in %d runs\n", TRIES);
        return;
    }
    fault_minimise(&smallest, fails_sometimes, NULL);
    fault_schedule_print(&smallest, text);
    fprintf(stderr, "this is left of it; write it to a file, and --replay FILE:\n%s", text);
}

/* ------------------------------------------------------------------------------------ many runs */

static void count(struct tally *tally, const struct fault_schedule *schedule,
                  const struct fault_record *record, const struct fault_verdict *verdict)
{
    tally->runs++;
    tally->failures += verdict->complaint_count > 0;
    for (int i = 0; i < schedule->fault_count; i++) {
        if (atomic_load(&record->struck_ns[i]) == 0) continue;
        tally->faults++;
        tally->struck[schedule->faults[i].kind]++;
    }
    for (int rank = 0; rank < schedule->rank_count; rank++)
        for (int i = 0; i < schedule->operation_count; i++)
            tally->operations += record->ranks[rank].calls[i].returned;
    for (int i = 0; i < verdict->detection_count; i++) {
        struct samples *samples = &tally->samples[verdict->detections[i].kind];
        if (samples->count < SAMPLES_MAX)
            samples->took_ns[samples->count++] = verdict->detections[i].took_ns;
    }
}

static void print_failure(const struct fault_campaign *campaign,
                          const struct fault_schedule *schedule, const struct fault_verdict *verdict)
{
    char text[FAULT_TEXT_BYTES];
    fault_schedule_print(schedule, text);
    fprintf(stderr, "%s%sreplay: %s --runs 1 --seed %" PRIu64, verdict->text, text,
            campaign->program, schedule->seed);
    if (campaign->rank_count > 0) fprintf(stderr, " --ranks %d", campaign->rank_count);
    if (campaign->fabric != NULL) fprintf(stderr, " --fabric '%s'", campaign->fabric);
    fputs(" [--minimise]\n", stderr);
    if (campaign->minimise) fault_explain(schedule);
}

static double minutes_since(uint64_t begin_ns)
{
    return (double)(clock_now_ns() - begin_ns) * 1e-9 / 60;
}

static bool goes_on(const struct fault_campaign *campaign, const struct tally *tally)
{
    return tally->runs < campaign->runs || tally->faults < campaign->faults ||
           minutes_since(tally->begin_ns) < campaign->minutes;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_summary(const struct fault_campaign *campaign, struct tally *tally, FILE *out)
{
    fprintf(out,
            "seeds from %" PRIu64
            ": %d runs in %.1f minutes, %d calls, %d faults; %d runs failed\n",
            campaign->seed, tally->runs, minutes_since(tally->begin_ns), tally->operations,
            tally->faults, tally->failures);
    fprintf(out, "%-12s %7s %9s %9s %9s\n", "fault", "struck", "noticed", "p50 ms", "p99 ms");
    for (int kind = 0; kind < FAULT_KIND_COUNT; kind++) {
        struct samples *samples = &tally->samples[kind];
        fprintf(out, "%-12s %7d", fault_kind_name((enum fault_kind)kind), tally->struck[kind]);
        if (samples->count > 0) {
            qsort(samples->took_ns, (size_t)samples->count, sizeof *samples->took_ns, compare);
            fprintf(out, " %9d %9.2f %9.2f", samples->count,
                    (double)samples->took_ns[(samples->count - 1) / 2] * 1e-6,
                    (double)samples->took_ns[samples->count - 1 - samples->count / 100] * 1e-6);
        }
        fputc('\n', out);
    }
}

int fault_campaign_run(const struct fault_campaign *campaign, FILE *out)
{
    const bool shows_progress = isatty(STDERR_FILENO);
    struct fault_record *record = fault_record_create();
    struct tally *tally = calloc(1, sizeof *tally);
    if (record == NULL || tally == NULL) exit(EXIT_FAILURE);
    tally->begin_ns = clock_now_ns();
    while (goes_on(campaign, tally)) {
        struct fault_schedule schedule;
        struct fault_verdict verdict;
        fault_schedule_init(&schedule, campaign->seed + (uint64_t)tally->runs, campaign->rank_count,
                            campaign->fabric != NULL ? campaign->fabric : "");
        run_and_judge(&schedule, record, &verdict);
        count(tally, &schedule, record, &verdict);
        if (verdict.complaint_count > 0) print_failure(campaign, &schedule, &verdict);
        if (shows_progress)
            fprintf(stderr, "\r%d runs, %d faults, %d failed, %.1f of %.0f minutes ", tally->runs,
                    tally->faults, tally->failures, minutes_since(tally->begin_ns),
                    campaign->minutes);
    }
    if (shows_progress) fputc('\n', stderr);
    print_summary(campaign, tally, out);
    const int failures = tally->failures;
    free(tally);
    fault_record_free(record);
    return failures;
}
