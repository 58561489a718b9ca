/* buckets.c - gradient buckets: which gradients go together, and when each bucket starts.
 * Where nothing can hide behind computing, none does before finish, which reduces them all at once.
 *
 *   open ──ready──► open ──last one ready, and all buckets before it started──► started ──finish──► open
 *
 * Invariants
 *   1. Buckets start in their order on every rank, because that is the order of calls that ranks
 *      have to agree on.
 *   2. A bucket starts when all of its gradients are ready, or at finish, and once in a step.
 *   3. Every request that was started is waited for before a call that failed returns, or at free.
 */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/sized.h"
#include "base/status.h"
#include "norm.h"
#include "outside_group.h"
#include "tutti/train.h"

enum { BUCKET_BYTES = 25 << 20, FIRST_BUCKET_BYTES = 1 << 20 };

struct bucket {
    size_t first, count; /* of members */
    enum tutti_dtype dtype;
    size_t missing; /* members that are not ready in this step */
    struct tutti_prepared *prepared;
    struct tutti_request *request; /* NULL: not started, or waited for */
};

struct gradient {
    struct tutti_gradient what;
    int bucket;
};

struct tutti_buckets {
    struct tutti_buckets_options options;
    struct tutti_comm *comm;
    bool starts_when_full; /* or at finish */
    struct gradient *gradients;
    size_t gradient_count, element_count;
    struct tutti_tensor *members; /* of all buckets, one behind the other */
    struct bucket *buckets;
    int bucket_count;
    pthread_mutex_t lock; /* protects the rest, between begin and end of a step */
    bool is_held, is_broken;
    enum tutti_status status; /* of the first start in this step that failed */
    int next;                 /* the first bucket that has not started in this step */
    unsigned char *is_ready;  /* of each gradient */
    unsigned char *is_used;   /* the same of all ranks, after finish */
};

/* ---------------------------------------------------------------------------------- dealing out */

static bool is_float(enum tutti_dtype dtype)
{
    return dtype_is_valid(dtype) && dtype_kind(dtype) == DTYPE_FLOAT;
}

static enum tutti_status check_gradients(const struct tutti_gradient *gradients, size_t count)
{
    if (gradients == NULL && count > 0)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_buckets_create: the gradients are NULL");
    for (size_t i = 0; i < count; i++) {
        if (!is_float(gradients[i].dtype))
            return error_set(TUTTI_INVALID_DTYPE,
                             "tutti_buckets_create: gradient %zu must be of floats, is of %s "
                             "(dtype %d)",
                             i, tutti_dtype_name(gradients[i].dtype), (int)gradients[i].dtype);
        if (gradients[i].count > SIZE_MAX / 16)
            return error_set(TUTTI_INVALID_COUNT,
                             "tutti_buckets_create: gradient %zu has too many elements", i);
        if (gradients[i].data == NULL && gradients[i].count > 0)
            return error_set(TUTTI_INVALID_BUFFER, "tutti_buckets_create: gradient %zu is NULL", i);
    }
    return TUTTI_OK;
}

static enum tutti_status take_options(const struct tutti_buckets_options *given,
                                      struct tutti_buckets_options *options)
{
    *options = (struct tutti_buckets_options)TUTTI_BUCKETS_OPTIONS_INIT;
    if (given != NULL)
        TRY(SIZED_READ("tutti_buckets_create: options", tutti_buckets_options, given, options));
    if ((unsigned)options->start > TUTTI_BUCKETS_START_AT_FINISH)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_buckets_create: options.start must be a value of enum "
                         "tutti_buckets_start, 0 to %d, is %d",
                         TUTTI_BUCKETS_START_AT_FINISH, (int)options->start);
    if (!(options->norm_max >= 0))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_buckets_create: options.norm_max must be 0 or more, is %g",
                         options->norm_max);
    if (options->bucket_bytes == 0) options->bucket_bytes = BUCKET_BYTES;
    if (options->first_bucket_bytes == 0)
        options->first_bucket_bytes =
            options->bucket_bytes < FIRST_BUCKET_BYTES ? options->bucket_bytes : FIRST_BUCKET_BYTES;
    return TUTTI_OK;
}

/* From the last gradient to the first, each to the bucket of its dtype that is not full yet. */
static void deal_out(struct tutti_buckets *b)
{
    int open[DTYPE_COUNT], made = 0;
    size_t bytes[DTYPE_COUNT];
    for (int d = 0; d < DTYPE_COUNT; d++) open[d] = -1;
    for (size_t i = b->gradient_count; i-- > 0;) {
        struct gradient *g = &b->gradients[i];
        const int d = (int)g->what.dtype;
        if (open[d] < 0) {
            open[d] = made++;
            bytes[d] = 0;
        }
        g->bucket = open[d];
        bytes[d] += g->what.count * dtype_size(g->what.dtype);
        if (bytes[d] >= (open[d] == 0 ? b->options.first_bucket_bytes : b->options.bucket_bytes))
            open[d] = -1;
    }
    b->bucket_count = made;
}

static int compare_places(const void *a, const void *b)
{
    const size_t x = ((const size_t *)a)[0], y = ((const size_t *)b)[0];
    return (x < y) - (x > y); /* a bucket that is complete with a later gradient comes first */
}

/* Renumbers the buckets in the order in which a backward pass completes them. */
static bool order_buckets(struct tutti_buckets *b)
{
    const size_t count = (size_t)b->bucket_count;
    size_t(*last)[2] = malloc((count + 1) * sizeof *last); /* its first gradient; its number */
    int *const numbers = malloc((count + 1) * sizeof *numbers);
    const bool is_there = last != NULL && numbers != NULL;
    if (is_there) {
        for (size_t i = 0; i < count; i++) last[i][1] = i;
        for (size_t i = b->gradient_count; i-- > 0;) last[b->gradients[i].bucket][0] = i;
        qsort(last, count, sizeof *last, compare_places);
        for (size_t i = 0; i < count; i++) numbers[last[i][1]] = (int)i;
        for (size_t i = 0; i < b->gradient_count; i++)
            b->gradients[i].bucket = numbers[b->gradients[i].bucket];
    }
    free(last);
    free(numbers);
    return is_there;
}

/* Lists what each bucket has, in the order of the model. */
static void fill_buckets(struct tutti_buckets *b)
{
    for (size_t i = 0; i < b->gradient_count; i++) {
        struct bucket *const bucket = &b->buckets[b->gradients[i].bucket];
        bucket->count++;
        bucket->dtype = b->gradients[i].what.dtype;
        b->element_count += b->gradients[i].what.count;
    }
    for (int k = 1; k < b->bucket_count; k++)
        b->buckets[k].first = b->buckets[k - 1].first + b->buckets[k - 1].count;
    for (int k = 0; k < b->bucket_count; k++) b->buckets[k].missing = 0;
    for (size_t i = 0; i < b->gradient_count; i++) {
        struct bucket *const bucket = &b->buckets[b->gradients[i].bucket];
        b->members[bucket->first + bucket->missing++] =
            (struct tutti_tensor){b->gradients[i].what.data, b->gradients[i].what.count};
    }
}

static enum tutti_status prepare_bucket(struct tutti_buckets *b, struct bucket *bucket)
{
    const struct tutti_list list = {b->members + bucket->first, bucket->count};
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.priority = b->options.priority;
    return tutti_allreduce_list_prepare(&list, &list, bucket->dtype, TUTTI_AVG, &options, b->comm,
                                        &bucket->prepared);
}

/* ----------------------------------------------------------------------------------- life cycle */

/* The values that all ranks must give alike, as one number of 62 bits. */
static int64_t fingerprint(const struct tutti_buckets *b)
{
    uint64_t norm_bits, hash = hash_take(1, b->gradient_count);
    memcpy(&norm_bits, &b->options.norm_max, sizeof norm_bits);
    hash = hash_take(hash, b->options.bucket_bytes);
    hash = hash_take(hash, b->options.first_bucket_bytes);
    hash = hash_take(hash, norm_bits);
    hash = hash_take(hash, b->options.find_unused != 0);
    hash = hash_take(hash, (uint64_t)b->options.start);
    for (size_t i = 0; i < b->gradient_count; i++) {
        hash = hash_take(hash, b->gradients[i].what.count);
        hash = hash_take(hash, (uint64_t)b->gradients[i].what.dtype);
    }
    return (int64_t)(hash >> 2);
}

static bool may_overlap(const struct tutti_buckets *b)
{
    if (b->options.start == TUTTI_BUCKETS_START_CHOSEN) return tutti_comm_overlaps(b->comm) == 1;
    return b->options.start == TUTTI_BUCKETS_START_WHEN_FULL;
}

static void describe(const void *context, FILE *lines)
{
    const struct tutti_buckets *const b = context;
    const struct tutti_buckets_options *const o = &b->options;
    fprintf(lines, "gradients: %zu\noptions.bucket_bytes: %zu\noptions.first_bucket_bytes: %zu\n",
            b->gradient_count, o->bucket_bytes, o->first_bucket_bytes);
    fprintf(lines, "options.norm_max: %.17g\noptions.find_unused: %d\noptions.start: %d\n",
            o->norm_max, o->find_unused != 0, (int)o->start);
    for (size_t i = 0; i < b->gradient_count; i++)
        fprintf(lines, "gradient %zu: %zu elements of %s\n", i, b->gradients[i].what.count,
                tutti_dtype_name(b->gradients[i].what.dtype));
}

/* Ranks agree even if this rank already knows that it cannot go on: the other ranks must learn of
 * it. */
static enum tutti_status agree_on(struct tutti_buckets *b, enum tutti_status status)
{
    const struct agreement agreement = {"tutti_buckets_create",
                                        status == TUTTI_OK ? fingerprint(b) : 0, describe, b};
    b->starts_when_full = status == TUTTI_OK && may_overlap(b);
    return agree_on_making(b->comm, status, &agreement, &b->starts_when_full);
}

static enum tutti_status build(struct tutti_buckets *b, const struct tutti_gradient *gradients,
                               size_t count)
{
    b->gradients = calloc(count + 1, sizeof *b->gradients);
    b->members = calloc(count + 1, sizeof *b->members);
    b->is_ready = calloc(count + 1, 1);
    b->is_used = calloc(count + 1, 1);
    if (b->gradients == NULL || b->members == NULL || b->is_ready == NULL || b->is_used == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_buckets_create: out of memory");
    b->gradient_count = count;
    for (size_t i = 0; i < count; i++) b->gradients[i].what = gradients[i];
    memset(b->is_used, 1, count);
    deal_out(b);
    b->buckets = calloc((size_t)b->bucket_count + 1, sizeof *b->buckets);
    if (b->buckets == NULL || !order_buckets(b))
        return error_set(TUTTI_NO_MEMORY, "tutti_buckets_create: out of memory");
    fill_buckets(b);
    for (int k = 0; k < b->bucket_count; k++) TRY(prepare_bucket(b, &b->buckets[k]));
    return TUTTI_OK;
}

static enum tutti_status prepare(struct tutti_buckets *b, const struct tutti_gradient *gradients,
                                 size_t count, const struct tutti_buckets_options *options)
{
    TRY(check_gradients(gradients, count));
    TRY(take_options(options, &b->options));
    return build(b, gradients, count);
}

enum tutti_status tutti_buckets_create(const struct tutti_gradient *gradients, size_t count,
                                       const struct tutti_buckets_options *options,
                                       struct tutti_comm *comm, struct tutti_buckets **created)
{
    *created = NULL;
    struct tutti_buckets *b = calloc(1, sizeof *b);
    if (b == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_buckets_create: out of memory");
    b->comm = comm;
    pthread_mutex_init(&b->lock, NULL);
    const enum tutti_status status = agree_on(b, prepare(b, gradients, count, options));
    if (status != TUTTI_OK) {
        tutti_buckets_free(b);
        return status;
    }
    *created = b;
    return TUTTI_OK;
}

/* Waits for all that was started; the first failure. */
static enum tutti_status wait_for_all(struct tutti_buckets *b)
{
    enum tutti_status first = TUTTI_OK;
    for (int k = 0; k < b->bucket_count; k++) {
        if (b->buckets[k].request == NULL) continue;
        const enum tutti_status status = tutti_wait(&b->buckets[k].request);
        if (first == TUTTI_OK) first = status;
    }
    return first;
}

enum tutti_status tutti_buckets_free(struct tutti_buckets *b)
{
    if (b == NULL) return TUTTI_OK;
    if (b->buckets != NULL) {
        (void)wait_for_all(b); /* nobody asks how it went */
        for (int k = 0; k < b->bucket_count; k++) tutti_prepared_free(b->buckets[k].prepared);
    }
    pthread_mutex_destroy(&b->lock);
    free(b->gradients);
    free(b->members);
    free(b->buckets);
    free(b->is_ready);
    free(b->is_used);
    free(b);
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- a step */

/* With the lock held: starts the buckets that are full, in order; or all that are left. */
static void start_buckets(struct tutti_buckets *b, bool all)
{
    while (b->status == TUTTI_OK && b->next < b->bucket_count) {
        struct bucket *const bucket = &b->buckets[b->next];
        if (bucket->missing > 0 && !all) return;
        b->status = tutti_start(bucket->prepared, &bucket->request);
        if (b->status == TUTTI_OK) b->next++;
    }
}

static enum tutti_status check_step(const struct tutti_buckets *b, const char *function)
{
    if (!b->is_broken) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "tutti_buckets_%s: a step failed before; free the buckets", function);
}

static enum tutti_status make_ready(struct tutti_buckets *b, size_t index)
{
    TRY(check_step(b, "ready"));
    if (index >= b->gradient_count)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_buckets_ready: there is no gradient %zu of %zu", index,
                         b->gradient_count);
    if (b->is_held) return TUTTI_OK;
    if (b->is_ready[index])
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_buckets_ready: gradient %zu was ready in this step before", index);
    b->is_ready[index] = 1;
    b->buckets[b->gradients[index].bucket].missing--;
    if (b->starts_when_full) start_buckets(b, false);
    return b->status;
}

enum tutti_status tutti_buckets_ready(struct tutti_buckets *b, size_t index)
{
    pthread_mutex_lock(&b->lock);
    const enum tutti_status status = make_ready(b, index);
    pthread_mutex_unlock(&b->lock);
    return status;
}

enum tutti_status tutti_buckets_hold(struct tutti_buckets *b, int is_held)
{
    enum tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&b->lock);
    if (memchr(b->is_ready, 1, b->gradient_count) != NULL)
        status = error_set(TUTTI_INVALID_OPTIONS,
                           "tutti_buckets_hold: in the middle of a step; finish it first");
    else
        b->is_held = is_held != 0;
    pthread_mutex_unlock(&b->lock);
    return status;
}

/* The sum over this rank's share of all elements: results are the same on all ranks, so each looks
 * at a part only. */
static double own_square_sum(const struct tutti_buckets *b)
{
    const size_t size = (size_t)tutti_comm_size(b->comm), rank = (size_t)tutti_comm_rank(b->comm);
    const size_t share = b->element_count / size, rest = b->element_count % size;
    const size_t begin = share * rank + (rank < rest ? rank : rest);
    const size_t end = begin + share + (rank < rest);
    double sum = 0;
    for (size_t i = 0, at = 0; i < b->gradient_count && at < end; i++) {
        const struct tutti_gradient *const g = &b->gradients[i].what;
        const size_t from = begin > at ? begin - at : 0;
        const size_t to = end - at < g->count ? end - at : g->count;
        if (from < to)
            sum += norm_square_sum((const char *)g->data + from * dtype_size(g->dtype), to - from,
                                   g->dtype);
        at += g->count;
    }
    return sum;
}

static enum tutti_status limit_norm(struct tutti_buckets *b, struct tutti_buckets_result *result)
{
    double sum = own_square_sum(b);
    TRY(tutti_allreduce(&sum, &sum, 1, TUTTI_FLOAT64, TUTTI_SUM, b->comm));
    result->norm = sqrt(sum);
    if (!isfinite(result->norm) || result->norm <= b->options.norm_max) return TUTTI_OK;
    result->scaled = 1;
    for (size_t i = 0; i < b->gradient_count; i++) {
        const struct tutti_gradient *const g = &b->gradients[i].what;
        norm_scale(g->data, g->count, g->dtype, b->options.norm_max / result->norm);
    }
    return TUTTI_OK;
}

static void zero_what_is_missing(struct tutti_buckets *b)
{
    for (size_t i = 0; i < b->gradient_count; i++) {
        const struct tutti_gradient *const g = &b->gradients[i].what;
        if (!b->is_ready[i] && g->count > 0) memset(g->data, 0, g->count * dtype_size(g->dtype));
    }
}

/* Starts what has not, and waits for all. */
static enum tutti_status reduce_started(struct tutti_buckets *b)
{
    start_buckets(b, true);
    const enum tutti_status waited = wait_for_all(b);
    return waited != TUTTI_OK ? waited : b->status;
}

/* Blocking calls, each for all buckets of one dtype that follow each other. */
static enum tutti_status reduce_at_once(struct tutti_buckets *b)
{
    for (int k = 0; k < b->bucket_count;) {
        const struct bucket *const first = &b->buckets[k];
        struct tutti_list list = {b->members + first->first, 0};
        for (; k < b->bucket_count && b->buckets[k].dtype == first->dtype; k++)
            list.tensor_count += b->buckets[k].count;
        TRY(tutti_allreduce_list(&list, &list, first->dtype, TUTTI_AVG, b->comm));
    }
    return TUTTI_OK;
}

static enum tutti_status finish(struct tutti_buckets *b, struct tutti_buckets_result *result)
{
    zero_what_is_missing(b);
    TRY(b->starts_when_full ? reduce_started(b) : reduce_at_once(b));
    if (b->options.find_unused && b->gradient_count > 0)
        TRY(tutti_allreduce(b->is_ready, b->is_used, b->gradient_count, TUTTI_UINT8, TUTTI_MAX,
                            b->comm));
    if (b->options.norm_max > 0) TRY(limit_norm(b, result));
    return TUTTI_OK;
}

static void begin_step(struct tutti_buckets *b)
{
    memset(b->is_ready, 0, b->gradient_count);
    for (int k = 0; k < b->bucket_count; k++) b->buckets[k].missing = b->buckets[k].count;
    b->next = 0;
}

static enum tutti_status end_step(struct tutti_buckets *b, struct tutti_buckets_result *result)
{
    TRY(outside_group("tutti_buckets_finish"));
    TRY(check_step(b, "finish"));
    if (b->is_held)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_buckets_finish: the gradients are held; tutti_buckets_hold(.., 0)");
    const enum tutti_status status = finish(b, result);
    b->is_broken = status != TUTTI_OK;
    begin_step(b);
    return status;
}

enum tutti_status tutti_buckets_finish(struct tutti_buckets *b, struct tutti_buckets_result *result)
{
    struct tutti_buckets_result own = {0};
    pthread_mutex_lock(&b->lock);
    const enum tutti_status status = end_step(b, &own);
    pthread_mutex_unlock(&b->lock);
    if (result != NULL) *result = own;
    return status;
}

/* ------------------------------------------------------------------------------------ questions */

int tutti_buckets_is_used(const struct tutti_buckets *b, size_t index)
{
    return index < b->gradient_count ? b->is_used[index] : -1;
}

int tutti_buckets_count(const struct tutti_buckets *b)
{
    return b->bucket_count;
}

int tutti_buckets_find(const struct tutti_buckets *b, size_t index)
{
    return index < b->gradient_count ? b->gradients[index].bucket : -1;
}
