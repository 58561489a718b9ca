/* adapt.c - observations of all ranks, and the decisions that all ranks take from them. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/encoding_wish.h"
#include "base/group_depth.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/sized.h"
#include "base/status.h"
#include "names.h"
#include "os/clock.h"
#include "tutti/train/adapt.h"

/* A sample as it travels. */
enum number {
    NUMBER_STEP,
    NUMBER_STALENESS,
    NUMBER_LINK,
    NUMBER_SMALL_BATCH,
    NUMBER_SMALL_SQUARED,
    NUMBER_LARGE_BATCH,
    NUMBER_LARGE_SQUARED,
    NUMBER_IS_GOOD, /* 0: the rank refuses its own sample */
    NUMBERS
};

enum { PROBES = 2, PROBE_TAG = 0 };

struct tutti_adapt {
    struct tutti_adapt_options options;
    struct tutti_comm *comm; /* of its own */
    int rank, size;
    struct tutti_adapt_policy policies[TUTTI_ADAPT_POLICIES];
    size_t policy_count;
    struct tutti_adapt_settings settings;
    struct tutti_noise noise;
    double *samples; /* NUMBERS of each rank */
    struct tutti_adapt_rank *ranks;
    unsigned char *probe; /* what is sent, and what is received; NULL: links are not measured */
    double link_s;        /* of the last call; 0: not known */
    uint64_t calls;
};

/* -------------------------------------------------------------------------------------- settings */

static enum tutti_status check_settings(const char *who, const struct tutti_adapt_settings *s)
{
    if (s->batch < 1)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: settings.batch must be 1 or more", who);
    if (!(s->rate > 0 && isfinite(s->rate)))
        return error_set(TUTTI_INVALID_OPTIONS, "%s: settings.rate must be above 0, is %g", who,
                         s->rate);
    if ((unsigned)s->synchrony > TUTTI_SYNCHRONY_BOUNDED)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%s: settings.synchrony must be a value of enum tutti_synchrony, is %d",
                         who, (int)s->synchrony);
    if (s->every < 1 || s->staleness < 0)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%s: settings.every must be 1 or more, and settings.staleness 0 or more; "
                         "they are %d and %d",
                         who, s->every, s->staleness);
    if (memchr(s->encoding, '\0', sizeof s->encoding) == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: settings.encoding has no end", who);
    struct encoding_wish wish;
    const char *const wrong =
        s->encoding[0] != '\0' ? encoding_wish_parse(s->encoding, &wish) : NULL;
    if (wrong != NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: settings.encoding is '%s': %s", who,
                         s->encoding, wrong);
    return TUTTI_OK;
}

static uint64_t hash_settings(uint64_t hash, const struct tutti_adapt_settings *s)
{
    uint64_t rate_bits;
    memcpy(&rate_bits, &s->rate, sizeof rate_bits);
    const uint64_t numbers[] = {s->batch, rate_bits, (uint64_t)s->synchrony, (uint64_t)s->every,
                                (uint64_t)s->staleness};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash = hash_take(hash, numbers[i]);
    return name_hash(hash, s->encoding);
}

static void print_settings(FILE *out, const struct tutti_adapt_settings *s)
{
    fprintf(out, "batch: %" PRIu64 "\nlearning rate: %.17g\nsynchrony: %d\nevery: %d\n", s->batch,
            s->rate, (int)s->synchrony, s->every);
    fprintf(out, "staleness: %d\nencoding: %s\n", s->staleness, s->encoding);
}

/* ------------------------------------------------------------------------------------ life cycle */

static enum tutti_status take_arguments(struct tutti_adapt *a,
                                        const struct tutti_adapt_policy *policies, size_t count,
                                        const struct tutti_adapt_settings *settings,
                                        const struct tutti_adapt_options *options)
{
    a->options = (struct tutti_adapt_options)TUTTI_ADAPT_OPTIONS_INIT;
    if (options != NULL)
        TRY(SIZED_READ("tutti_adapt_create: options", tutti_adapt_options, options, &a->options));
    if (!(a->options.noise_smoothing >= 0 && a->options.noise_smoothing < 1))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_adapt_create: options.noise_smoothing must be from 0 to below 1, "
                         "is %g",
                         a->options.noise_smoothing);
    if (count > TUTTI_ADAPT_POLICIES || (policies == NULL && count > 0))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_adapt_create: there must be 0 to %d policies", TUTTI_ADAPT_POLICIES);
    for (size_t i = 0; i < count; i++) {
        TRY(name_check("tutti_adapt_create", policies[i].name, i));
        if (policies[i].decide == NULL)
            return error_set(TUTTI_INVALID_OPTIONS,
                             "tutti_adapt_create: policy '%s' has no function", policies[i].name);
        a->policies[i] = policies[i];
        a->policies[i].name = strdup(policies[i].name);
        if (a->policies[i].name == NULL)
            return error_set(TUTTI_NO_MEMORY, "tutti_adapt_create: out of memory");
        a->policy_count++;
    }
    if (settings == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_adapt_create: settings are NULL");
    TRY(SIZED_READ("tutti_adapt_create: settings", tutti_adapt_settings, settings, &a->settings));
    return check_settings("tutti_adapt_create", &a->settings);
}

static enum tutti_status build(struct tutti_adapt *a)
{
    const size_t size = (size_t)a->size;
    a->noise = (struct tutti_noise)TUTTI_NOISE_INIT;
    a->noise.smoothing = a->options.noise_smoothing;
    a->samples = calloc(size, NUMBERS * sizeof *a->samples);
    a->ranks = calloc(size, sizeof *a->ranks);
    if (a->options.probe_bytes > 0 && a->options.probe_bytes <= SIZE_MAX / 2)
        a->probe = calloc(2, a->options.probe_bytes);
    if (a->samples == NULL || a->ranks == NULL || (a->options.probe_bytes > 0 && a->probe == NULL))
        return error_set(TUTTI_NO_MEMORY, "tutti_adapt_create: out of memory");
    return TUTTI_OK;
}

static int64_t fingerprint(const struct tutti_adapt *a)
{
    uint64_t smoothing_bits;
    memcpy(&smoothing_bits, &a->options.noise_smoothing, sizeof smoothing_bits);
    uint64_t hash = hash_settings(7, &a->settings);
    hash = hash_take(hash, a->options.probe_bytes);
    hash = hash_take(hash, smoothing_bits);
    for (size_t i = 0; i < a->policy_count; i++) hash = name_hash(hash, a->policies[i].name);
    return (int64_t)(hash >> 2);
}

static void describe(const void *context, FILE *lines)
{
    const struct tutti_adapt *const a = context;
    print_settings(lines, &a->settings);
    fprintf(lines, "options.probe_bytes: %zu\noptions.noise_smoothing: %.17g\n",
            a->options.probe_bytes, a->options.noise_smoothing);
    for (size_t i = 0; i < a->policy_count; i++)
        fprintf(lines, "policy %zu: '%s'\n", i, a->policies[i].name);
}

enum tutti_status tutti_adapt_create(const struct tutti_adapt_policy *policies, size_t count,
                                     const struct tutti_adapt_settings *settings,
                                     const struct tutti_adapt_options *options,
                                     struct tutti_comm *comm, struct tutti_adapt **created)
{
    *created = NULL;
    struct tutti_adapt *a = calloc(1, sizeof *a);
    if (a == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_adapt_create: out of memory");
    a->rank = tutti_comm_rank(comm);
    a->size = tutti_comm_size(comm);
    enum tutti_status status =
        a->size > 0
            ? take_arguments(a, policies, count, settings, options)
            : error_set(TUTTI_INVALID_COMM, "tutti_adapt_create: comm is not a communicator");
    if (status == TUTTI_OK) status = build(a);
    const struct agreement agreement = {"tutti_adapt_create",
                                        status == TUTTI_OK ? fingerprint(a) : 0, describe, a};
    status = agree_on_making(comm, status, &agreement, NULL);
    if (status == TUTTI_OK) status = tutti_comm_dup(comm, NULL, &a->comm);
    if (status != TUTTI_OK) {
        tutti_adapt_free(a);
        return status;
    }
    *created = a;
    return TUTTI_OK;
}

enum tutti_status tutti_adapt_free(struct tutti_adapt *a)
{
    if (a == NULL) return TUTTI_OK;
    const enum tutti_status status = tutti_comm_free(a->comm);
    for (size_t i = 0; i < a->policy_count; i++) free((char *)a->policies[i].name);
    free(a->samples);
    free(a->ranks);
    free(a->probe);
    free(a);
    return status;
}

const struct tutti_adapt_settings *tutti_adapt_current(const struct tutti_adapt *a)
{
    return &a->settings;
}

const struct tutti_noise *tutti_adapt_noise(const struct tutti_adapt *a)
{
    return &a->noise;
}

/* ----------------------------------------------------------------------------------- observations */

static enum tutti_status take_sample(const struct tutti_adapt *a,
                                     const struct tutti_adapt_sample *given, double *numbers)
{
    static const char *const names[NUMBERS] = {
        "step_s", "staleness", "", "small_batch", "small_squared", "large_batch", "large_squared"};
    struct tutti_adapt_sample sample = TUTTI_ADAPT_SAMPLE_INIT;
    if (given != NULL)
        TRY(SIZED_READ("tutti_adapt_observe: sample", tutti_adapt_sample, given, &sample));
    const double own[NUMBERS] = {sample.step_s,
                                 sample.staleness,
                                 a->link_s,
                                 sample.small_batch,
                                 sample.small_squared,
                                 sample.large_batch,
                                 sample.large_squared,
                                 1};
    for (int i = 0; i < NUMBERS; i++)
        if (!(own[i] >= 0 && isfinite(own[i])))
            return error_set(TUTTI_INVALID_OPTIONS,
                             "tutti_adapt_observe: sample.%s must be 0 or more, is %g", names[i],
                             own[i]);
    memcpy(numbers, own, sizeof own);
    return TUTTI_OK;
}

/* All ranks learn of a rank that refuses its sample. */
static enum tutti_status gather(struct tutti_adapt *a, const struct tutti_adapt_sample *sample)
{
    char message[ERROR_TEXT_MAX];
    double own[NUMBERS] = {0};
    const enum tutti_status status = take_sample(a, sample, own);
    if (status != TUTTI_OK) error_copy(message, sizeof message);
    TRY(tutti_allgather(own, a->samples, NUMBERS, TUTTI_FLOAT64, a->comm));
    if (status != TUTTI_OK) return error_set(status, "%s", message);
    for (int r = 0; r < a->size; r++)
        if (a->samples[NUMBERS * r + NUMBER_IS_GOOD] != 1)
            return error_set(
                TUTTI_MISMATCH,
                "tutti_adapt_observe: the sample of rank %d makes no sense, as its own "
                "error says",
                r);
    return TUTTI_OK;
}

/* The means of the ranks; nothing if a rank has none. */
static void estimate_noise(struct tutti_adapt *a)
{
    double means[NUMBERS] = {0};
    for (int r = 0; r < a->size; r++) {
        const double *const sample = &a->samples[NUMBERS * r];
        if (!(sample[NUMBER_SMALL_BATCH] > 0) || !(sample[NUMBER_LARGE_BATCH] > 0)) return;
        for (int i = NUMBER_SMALL_BATCH; i <= NUMBER_LARGE_SQUARED; i++)
            means[i] += sample[i] / a->size;
    }
    if (tutti_noise_add(&a->noise, means[NUMBER_SMALL_BATCH], means[NUMBER_SMALL_SQUARED],
                        means[NUMBER_LARGE_BATCH], means[NUMBER_LARGE_SQUARED]) != TUTTI_OK)
        log_write(LOG_INFO, "rank %d: no estimate of the noise scale: %s", a->rank,
                  tutti_error_message());
}

/* The time of a message from the rank before this one. All ranks have just met. */
static enum tutti_status probe_once(struct tutti_adapt *a, double *seconds)
{
    const size_t bytes = a->options.probe_bytes;
    struct tutti_request *coming, *going;
    const uint64_t began_ns = clock_now_ns();
    TRY(tutti_recv_start(a->probe + bytes, bytes, TUTTI_UINT8, (a->rank + a->size - 1) % a->size,
                         PROBE_TAG, NULL, NULL, a->comm, &coming));
    enum tutti_status sent = tutti_send_start(a->probe, bytes, TUTTI_UINT8, (a->rank + 1) % a->size,
                                              PROBE_TAG, NULL, a->comm, &going);
    const enum tutti_status received = tutti_wait(&coming);
    *seconds = 1e-9 * (double)(clock_now_ns() - began_ns);
    if (sent == TUTTI_OK) sent = tutti_wait(&going);
    return received != TUTTI_OK ? received : sent;
}

static enum tutti_status probe(struct tutti_adapt *a)
{
    if (a->probe == NULL || a->size == 1) return TUTTI_OK;
    double least = INFINITY, seconds;
    for (int i = 0; i < PROBES; i++) {
        TRY(probe_once(a, &seconds));
        if (seconds < least) least = seconds;
    }
    a->link_s = least;
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- decisions */

static const char *synchrony_text(const struct tutti_adapt_settings *s, char text[32])
{
    if (s->synchrony == TUTTI_SYNCHRONY_FULL) return "full";
    const bool is_local = s->synchrony == TUTTI_SYNCHRONY_LOCAL;
    snprintf(text, 32, is_local ? "every %d steps" : "bounded by %d steps",
             is_local ? s->every : s->staleness);
    return text;
}

static const char *or_none(const char *text)
{
    return text[0] != '\0' ? text : "none";
}

/* "batch 64 -> 128, rate 0.1 -> 0.2", of all that differs. */
static void print_changes(FILE *out, const struct tutti_adapt_settings *a,
                          const struct tutti_adapt_settings *b)
{
    char one[32], other[32];
    const char *gap = "";
    if (a->batch != b->batch) {
        fprintf(out, "batch %" PRIu64 " -> %" PRIu64, a->batch, b->batch);
        gap = ", ";
    }
    if (a->rate < b->rate || a->rate > b->rate) {
        fprintf(out, "%slearning rate %.4g -> %.4g", gap, a->rate, b->rate);
        gap = ", ";
    }
    if (a->synchrony != b->synchrony || a->every != b->every || a->staleness != b->staleness) {
        fprintf(out, "%ssynchrony %s -> %s", gap, synchrony_text(a, one), synchrony_text(b, other));
        gap = ", ";
    }
    if (strcmp(a->encoding, b->encoding) != 0)
        fprintf(out, "%sencoding %s -> %s", gap, or_none(a->encoding), or_none(b->encoding));
}

/* The wishes of the policies, with their reasons. */
struct wish {
    struct tutti_adapt_settings settings;
    int changed;
    char lines[512];
    size_t length;
};

static void explain(struct tutti_adapt *a, const struct tutti_adapt_policy *policy,
                    const struct tutti_adapt_settings *before, const char *reason, struct wish *wish)
{
    char changes[256] = "";
    FILE *const out = fmemopen(changes, sizeof changes, "w");
    if (out != NULL) {
        print_changes(out, before, &wish->settings);
        fclose(out);
        changes[sizeof changes - 1] = '\0';
    }
    const size_t room = sizeof wish->lines - wish->length;
    const int length = snprintf(wish->lines + wish->length, room, "%s%.40s: %.120s: %.200s",
                                wish->length > 0 ? "\n" : "", policy->name, changes, reason);
    wish->length += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
    if (a->rank == 0)
        log_write(LOG_INFO, "adapt, call %" PRIu64 ": %.40s: %.120s: %.200s", a->calls + 1,
                  policy->name, changes, reason);
}

static enum tutti_status ask_policies(struct tutti_adapt *a, struct wish *wish)
{
    struct tutti_adapt_settings before;
    const struct tutti_adapt_view view = {.size_bytes = sizeof view,
                                          .call = a->calls + 1,
                                          .ranks = a->ranks,
                                          .rank_count = a->size,
                                          .noise_scale = tutti_noise_scale(&a->noise),
                                          .noise_count = a->noise.count,
                                          .settings = &before};
    for (size_t i = 0; i < a->policy_count; i++) {
        const struct tutti_adapt_policy *const policy = &a->policies[i];
        char reason[256] = "", who[100];
        before = wish->settings;
        policy->decide(&view, &wish->settings, reason, sizeof reason, policy->context);
        reason[sizeof reason - 1] = '\0';
        snprintf(who, sizeof who, "tutti_adapt_observe: policy '%.40s'", policy->name);
        TRY(check_settings(who, &wish->settings));
        if (hash_settings(0, &before) == hash_settings(0, &wish->settings)) continue;
        wish->changed++;
        explain(a, policy, &before, reason[0] != '\0' ? reason : "without a reason", wish);
    }
    return TUTTI_OK;
}

static void describe_wish(const void *context, FILE *lines)
{
    print_settings(lines, &((const struct wish *)context)->settings);
}

enum tutti_status tutti_adapt_observe(struct tutti_adapt *a, const struct tutti_adapt_sample *sample,
                                      struct tutti_adapt_decision *decision)
{
    struct wish wish = {.settings = a->settings};
    if (decision != NULL)
        TRY(SIZED_CHECK_RESULT("tutti_adapt_observe: decision", tutti_adapt_decision, decision));
    if (group_is_open()) /* the allgather would only start */
        return error_set(TUTTI_INVALID_REQUEST,
                         "tutti_adapt_observe: must not be called between tutti_group_begin and "
                         "tutti_group_end");
    TRY(gather(a, sample));
    for (int r = 0; r < a->size; r++)
        a->ranks[r] = (struct tutti_adapt_rank){a->samples[NUMBERS * r + NUMBER_STEP],
                                                a->samples[NUMBERS * r + NUMBER_STALENESS],
                                                a->samples[NUMBERS * r + NUMBER_LINK]};
    estimate_noise(a);
    const enum tutti_status status = ask_policies(a, &wish);
    const struct agreement agreement = {
        "tutti_adapt_observe",
        status == TUTTI_OK ? (int64_t)(hash_settings(8, &wish.settings) >> 2) : 0, describe_wish,
        &wish};
    TRY(agree_on_making(a->comm, status, &agreement, NULL));
    TRY(probe(a));
    a->calls++;
    a->settings = wish.settings;
    if (decision == NULL) return TUTTI_OK;
    struct tutti_adapt_decision own = {.call = a->calls, .changed = wish.changed};
    memcpy(own.reason, wish.lines, sizeof own.reason);
    SIZED_WRITE(tutti_adapt_decision, decision, decision->size_bytes, &own);
    return TUTTI_OK;
}
