/* compress.c - the compressor: which tensors are compressed, buckets of them, and steps. What
 * happens to a bucket in a step is drawn in compress_state.h.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/hash.h"
#include "base/sized.h"
#include "base/status.h"
#include "compress_state.h"
#include "low_rank.h"
#include "names.h"
#include "top_k.h"

enum { BUCKET_BYTES = 25 << 20, FIRST_BUCKET_BYTES = 1 << 20 };

/* ------------------------------------------------------------------------------------- arguments */

static const struct compress_method *const methods[] = {
    [TUTTI_COMPRESS_NONE] = &compress_none,
    [TUTTI_COMPRESS_LOW_RANK] = &compress_low_rank,
    [TUTTI_COMPRESS_TOP_K] = &compress_top_k,
    [TUTTI_COMPRESS_ENCODED] = &compress_encoded};

static enum tutti_status refuse(const char *option, const char *must_be, double is)
{
    return error_set(TUTTI_INVALID_OPTIONS, "tutti_compressor_create: options.%s must be %s, is %g",
                     option, must_be, is);
}

static enum tutti_status take_options(const struct tutti_compressor_options *given,
                                      struct tutti_compressor_options *options)
{
    *options = (struct tutti_compressor_options)TUTTI_COMPRESSOR_OPTIONS_INIT;
    if (given != NULL)
        TRY(SIZED_READ("tutti_compressor_create: options", tutti_compressor_options, given, options));
    if ((unsigned)options->method >= sizeof methods / sizeof *methods)
        return refuse("method", "a value of enum tutti_compress_method", (double)options->method);
    if ((unsigned)options->start > TUTTI_BUCKETS_START_AT_FINISH)
        return refuse("start", "a value of enum tutti_buckets_start", (double)options->start);
    if (options->rank < 1 || options->rank > TUTTI_COMPRESS_RANK_MAX)
        return refuse("rank", "1 to 64", options->rank);
    if (!(options->share > 0 && options->share <= 1))
        return refuse("share", "above 0 and at most 1", options->share);
    if (!(options->ratio_min >= 1)) return refuse("ratio_min", "1 or more", options->ratio_min);
    if (options->method == TUTTI_COMPRESS_ENCODED) {
        size_t bytes;
        TRY(tutti_encoded_size(options->encoding, TUTTI_FLOAT32, 1, &bytes));
    } else if (options->encoding != TUTTI_ENCODING_NONE) {
        return refuse("encoding", "none unless the method is ENCODED", (double)options->encoding);
    }
    if (options->bucket_bytes == 0) options->bucket_bytes = BUCKET_BYTES;
    if (options->first_bucket_bytes == 0)
        options->first_bucket_bytes =
            options->bucket_bytes < FIRST_BUCKET_BYTES ? options->bucket_bytes : FIRST_BUCKET_BYTES;
    return TUTTI_OK;
}

static enum tutti_status check_tensors(const struct tutti_compress_tensor *tensors, size_t count)
{
    if (tensors == NULL && count > 0)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_compressor_create: the tensors are NULL");
    for (size_t i = 0; i < count; i++) {
        const struct tutti_compress_tensor *const t = &tensors[i];
        TRY(name_check("tutti_compressor_create", t->name, i));
        if (t->columns > 0 && t->rows > SIZE_MAX / 64 / TUTTI_COMPRESS_RANK_MAX / t->columns)
            return error_set(TUTTI_INVALID_COUNT,
                             "tutti_compressor_create: tensor '%s' has too many elements", t->name);
        if (t->data == NULL && t->rows > 0 && t->columns > 0)
            return error_set(TUTTI_INVALID_BUFFER, "tutti_compressor_create: tensor '%s' is NULL",
                             t->name);
    }
    return TUTTI_OK;
}

static enum tutti_status check_names_differ(const struct tutti_compressor *c)
{
    const char **const names = malloc((c->tensor_count + 1) * sizeof *names);
    if (names == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_compressor_create: out of memory");
    for (size_t i = 0; i < c->tensor_count; i++) names[i] = c->tensors[i].name;
    const enum tutti_status status =
        names_check_differ("tutti_compressor_create", names, c->tensor_count);
    free(names);
    return status;
}

/* --------------------------------------------------------------------------------------- tensors */

static enum tutti_status copy_tensors(struct tutti_compressor *c,
                                      const struct tutti_compress_tensor *tensors)
{
    for (size_t i = 0; i < c->tensor_count; i++) {
        struct compress_tensor *const t = &c->tensors[i];
        t->name = strdup(tensors[i].name);
        if (t->name == NULL)
            return error_set(TUTTI_NO_MEMORY, "tutti_compressor_create: out of memory");
        t->data = tensors[i].data;
        t->rows = tensors[i].rows;
        t->columns = tensors[i].columns;
        t->count = t->rows * t->columns;
        t->seed = name_hash(c->options.seed, t->name);
        const size_t bytes = c->method->measure(c, t), whole = t->count * sizeof(float);
        t->is_compressed = bytes > 0 && (double)whole >= c->options.ratio_min * (double)bytes;
        c->payload_bytes += t->is_compressed ? bytes : whole;
    }
    return check_names_differ(c);
}

/* Residuals, and Q. Without pages that nobody has written, as calloc gives them. */
static enum tutti_status make_state(struct tutti_compressor *c)
{
    for (size_t i = 0; i < c->tensor_count; i++) {
        struct compress_tensor *const t = &c->tensors[i];
        if (!t->is_compressed) continue;
        c->basis_count += (size_t)t->rank * t->columns;
        if (!c->options.feedback) continue;
        t->residual = calloc(t->count, sizeof *t->residual);
        if (t->own_count > 0) t->owner = calloc(t->own_count, sizeof *t->owner);
        if (t->residual == NULL || (t->own_count > 0 && t->owner == NULL))
            return error_set(TUTTI_NO_MEMORY,
                             "tutti_compressor_create: out of memory for the residual of '%s'",
                             t->name);
    }
    c->basis_memory = calloc(c->basis_count + 1, sizeof *c->basis_memory);
    if (c->options.method == TUTTI_COMPRESS_TOP_K) c->room = malloc(TOP_K_ROOM * sizeof *c->room);
    if (c->basis_memory == NULL || (c->options.method == TUTTI_COMPRESS_TOP_K && c->room == NULL))
        return error_set(TUTTI_NO_MEMORY, "tutti_compressor_create: out of memory");
    float *at = c->basis_memory;
    for (size_t i = 0; i < c->tensor_count; i++) {
        struct compress_tensor *const t = &c->tensors[i];
        t->basis = at;
        for (int k = 0; t->is_compressed && k < t->rank; k++, at += t->columns)
            low_rank_randomise(at, t->columns, t->seed, k);
    }
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- buckets */

/* From the last tensor to the first, each to the bucket that is not full yet. */
static enum tutti_status deal_out(struct tutti_compressor *c)
{
    size_t bytes = 0;
    c->buckets = calloc(c->tensor_count + 1, sizeof *c->buckets);
    c->plain = calloc(2 * c->tensor_count + 1, sizeof *c->plain);
    if (c->buckets == NULL || c->plain == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_compressor_create: out of memory");
    for (size_t i = c->tensor_count; i-- > 0;) {
        struct compress_bucket *const bucket = &c->buckets[c->bucket_count];
        bucket->first = i;
        bucket->count++;
        bytes += c->tensors[i].count * sizeof(float);
        if (i > 0 && bytes < (c->bucket_count == 0 ? c->options.first_bucket_bytes
                                                   : c->options.bucket_bytes))
            continue;
        c->bucket_count++;
        bytes = 0;
    }
    return TUTTI_OK;
}

static enum tutti_status prepare_bucket(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    for (size_t i = 0; i < bucket->count; i++) {
        const struct compress_tensor *const t = &c->tensors[bucket->first + i];
        if (!t->is_compressed && t->count > 0)
            bucket->plain[bucket->plain_count++] = (struct tutti_tensor){t->data, t->count};
    }
    TRY(c->method->prepare(c, bucket));
    if (bucket->plain_count == 0) return TUTTI_OK;
    const struct tutti_list list = {bucket->plain, bucket->plain_count};
    const struct tutti_call_options options = compress_call_options(&c->options);
    return tutti_allreduce_list_prepare(&list, &list, TUTTI_FLOAT32, TUTTI_AVG, &options, c->comm,
                                        &bucket->prepared[EXCHANGE_PLAIN]);
}

static void begin_step(struct tutti_compressor *c)
{
    memset(c->is_ready, 0, c->tensor_count);
    for (size_t k = 0; k < c->bucket_count; k++) c->buckets[k].missing = c->buckets[k].count;
    c->next = 0;
}

/* ------------------------------------------------------------------------------------ life cycle */

/* The values that all ranks must give alike, as one number of 62 bits. */
static int64_t fingerprint(const struct tutti_compressor *c)
{
    const struct tutti_compressor_options *const o = &c->options;
    uint64_t share_bits, ratio_bits, hash = hash_take(2, c->tensor_count);
    memcpy(&share_bits, &o->share, sizeof share_bits);
    memcpy(&ratio_bits, &o->ratio_min, sizeof ratio_bits);
    const uint64_t numbers[] = {
        (uint64_t)o->method, (uint64_t)o->encoding, (uint64_t)o->rank,  share_bits,
        ratio_bits,          o->feedback != 0,      o->warm_start != 0, o->seed,
        o->bucket_bytes,     o->first_bucket_bytes, (uint64_t)o->start};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash = hash_take(hash, numbers[i]);
    for (size_t i = 0; i < c->tensor_count; i++) {
        hash = name_hash(hash, c->tensors[i].name);
        hash = hash_take(hash, c->tensors[i].rows);
        hash = hash_take(hash, c->tensors[i].columns);
    }
    return (int64_t)(hash >> 2);
}

static void describe(const void *context, FILE *lines)
{
    const struct tutti_compressor *const c = context;
    const struct tutti_compressor_options *const o = &c->options;
    fprintf(lines, "tensors: %zu\noptions.method: %d\noptions.encoding: %d\n", c->tensor_count,
            (int)o->method, (int)o->encoding);
    fprintf(lines, "options.rank: %d\noptions.share: %.17g\n", o->rank, o->share);
    fprintf(lines, "options.ratio_min: %.17g\noptions.feedback: %d\noptions.warm_start: %d\n",
            o->ratio_min, o->feedback != 0, o->warm_start != 0);
    fprintf(lines, "options.seed: %llu\noptions.bucket_bytes: %zu\n", (unsigned long long)o->seed,
            o->bucket_bytes);
    fprintf(lines, "options.first_bucket_bytes: %zu\noptions.start: %d\n", o->first_bucket_bytes,
            (int)o->start);
    for (size_t i = 0; i < c->tensor_count; i++)
        fprintf(lines, "tensor %zu: '%s' of %zu x %zu\n", i, c->tensors[i].name, c->tensors[i].rows,
                c->tensors[i].columns);
}

static bool may_overlap(const struct tutti_compressor *c)
{
    if (c->options.start == TUTTI_BUCKETS_START_CHOSEN) return tutti_comm_overlaps(c->comm) == 1;
    return c->options.start == TUTTI_BUCKETS_START_WHEN_FULL;
}

/* All that this rank can do alone. */
static enum tutti_status build(struct tutti_compressor *c,
                               const struct tutti_compress_tensor *tensors, size_t count,
                               const struct tutti_compressor_options *options)
{
    TRY(check_tensors(tensors, count));
    TRY(take_options(options, &c->options));
    c->method = methods[c->options.method];
    c->tensors = calloc(count + 1, sizeof *c->tensors);
    c->is_ready = calloc(count + 1, 1);
    c->part_names = calloc(3 * count + 1, sizeof *c->part_names);
    if (c->tensors == NULL || c->is_ready == NULL || c->part_names == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_compressor_create: out of memory");
    c->tensor_count = count;
    TRY(copy_tensors(c, tensors));
    TRY(make_state(c));
    TRY(deal_out(c));
    struct tutti_tensor *plain = c->plain;
    for (size_t k = 0; k < c->bucket_count; k++) {
        c->buckets[k].plain = plain;
        plain += c->buckets[k].count + 1;
        TRY(prepare_bucket(c, &c->buckets[k]));
    }
    begin_step(c);
    return TUTTI_OK;
}

enum tutti_status tutti_compressor_create(const struct tutti_compress_tensor *tensors, size_t count,
                                          const struct tutti_compressor_options *options,
                                          struct tutti_comm *comm, struct tutti_compressor **created)
{
    *created = NULL;
    struct tutti_compressor *c = calloc(1, sizeof *c);
    if (c == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_compressor_create: out of memory");
    c->comm = comm;
    c->rank = tutti_comm_rank(comm);
    c->size = tutti_comm_size(comm);
    pthread_mutex_init(&c->lock, NULL);
    /* Ranks agree even if this rank already knows that it cannot go on: the other ranks must learn
     * of it. */
    enum tutti_status status =
        c->size > 0
            ? build(c, tensors, count, options)
            : error_set(TUTTI_INVALID_COMM, "tutti_compressor_create: comm is not a communicator");
    const struct agreement agreement = {"tutti_compressor_create",
                                        status == TUTTI_OK ? fingerprint(c) : 0, describe, c};
    c->starts_when_full = status == TUTTI_OK && may_overlap(c);
    status = agree_on_making(comm, status, &agreement, &c->starts_when_full);
    if (status != TUTTI_OK) {
        tutti_compressor_free(c);
        return status;
    }
    *created = c;
    return TUTTI_OK;
}

/* Waits for all that was started; the first failure. */
static enum tutti_status wait_for_all(struct tutti_compressor *c)
{
    enum tutti_status first = TUTTI_OK;
    for (size_t k = 0; k < c->bucket_count; k++)
        for (int e = 0; e < EXCHANGES; e++) {
            if (c->buckets[k].requests[e] == NULL) continue;
            const enum tutti_status status = tutti_wait(&c->buckets[k].requests[e]);
            if (first == TUTTI_OK) first = status;
        }
    return first;
}

enum tutti_status tutti_compressor_free(struct tutti_compressor *c)
{
    if (c == NULL) return TUTTI_OK;
    (void)wait_for_all(c); /* nobody asks how it went */
    for (size_t k = 0; k < c->bucket_count; k++) {
        for (int e = 0; e < EXCHANGES; e++) tutti_prepared_free(c->buckets[k].prepared[e]);
        tutti_mem_free(c->buckets[k].memory);
    }
    for (size_t i = 0; i < c->tensor_count; i++) {
        free(c->tensors[i].name);
        free(c->tensors[i].residual);
        free(c->tensors[i].owner);
    }
    pthread_mutex_destroy(&c->lock);
    free(c->tensors);
    free(c->buckets);
    free(c->plain);
    free(c->basis_memory);
    free(c->room);
    free(c->part_names);
    free(c->is_ready);
    free(c);
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------------------- a step */

static enum tutti_status start_exchange(struct compress_bucket *bucket,
                                        enum compress_exchange exchange)
{
    if (bucket->prepared[exchange] == NULL) return TUTTI_OK;
    return tutti_start(bucket->prepared[exchange], &bucket->requests[exchange]);
}

static enum tutti_status wait_exchange(struct compress_bucket *bucket,
                                       enum compress_exchange exchange)
{
    if (bucket->requests[exchange] == NULL) return TUTTI_OK;
    return tutti_wait(&bucket->requests[exchange]);
}

static enum tutti_status start_first(struct tutti_compressor *c, struct compress_bucket *bucket)
{
    c->method->begin(c, bucket);
    TRY(start_exchange(bucket, EXCHANGE_PLAIN));
    return start_exchange(bucket, EXCHANGE_FIRST);
}

/* With the lock held: starts the buckets that are full, in order; or all that are left. */
static void start_buckets(struct tutti_compressor *c, bool all)
{
    while (c->status == TUTTI_OK && c->next < c->bucket_count) {
        struct compress_bucket *const bucket = &c->buckets[c->next];
        if (bucket->missing > 0 && !all) return;
        c->status = start_first(c, bucket);
        if (c->status == TUTTI_OK) c->next++;
    }
}

static enum tutti_status check_works(const struct tutti_compressor *c, const char *function)
{
    if (!c->is_broken) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "tutti_compressor_%s: a step failed before, or the state was given away; free "
                     "the compressor",
                     function);
}

static enum tutti_status make_ready(struct tutti_compressor *c, size_t index)
{
    TRY(check_works(c, "ready"));
    if (index >= c->tensor_count)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_compressor_ready: there is no tensor %zu of %zu", index,
                         c->tensor_count);
    if (c->is_ready[index])
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_compressor_ready: tensor '%s' was ready in this step before",
                         c->tensors[index].name);
    c->is_ready[index] = 1;
    size_t k = 0; /* buckets are runs of tensors, from the last to the first */
    while (index < c->buckets[k].first) k++;
    c->buckets[k].missing--;
    if (c->starts_when_full) start_buckets(c, false);
    return c->status;
}

enum tutti_status tutti_compressor_ready(struct tutti_compressor *c, size_t index)
{
    pthread_mutex_lock(&c->lock);
    const enum tutti_status status = make_ready(c, index);
    pthread_mutex_unlock(&c->lock);
    return status;
}

static enum tutti_status exchange_all(struct tutti_compressor *c)
{
    start_buckets(c, true);
    TRY(c->status);
    for (size_t k = 0; k < c->bucket_count; k++) {
        struct compress_bucket *const bucket = &c->buckets[k];
        TRY(wait_exchange(bucket, EXCHANGE_PLAIN));
        TRY(wait_exchange(bucket, EXCHANGE_FIRST));
        TRY(c->method->middle(c, bucket));
        TRY(start_exchange(bucket, EXCHANGE_SECOND));
    }
    return wait_for_all(c);
}

static enum tutti_status finish(struct tutti_compressor *c, struct tutti_compressor_result *result)
{
    for (size_t i = 0; i < c->tensor_count; i++)
        if (!c->is_ready[i] && c->tensors[i].count > 0)
            memset(c->tensors[i].data, 0, c->tensors[i].count * sizeof(float));
    const enum tutti_status status = exchange_all(c);
    if (status != TUTTI_OK) {
        char message[ERROR_TEXT_MAX];
        error_copy(message, sizeof message);
        (void)wait_for_all(c); /* for the same reason, or for this rank's, which counts */
        return error_set(status, "%s", message);
    }
    for (size_t k = 0; k < c->bucket_count; k++)
        result->not_finite += c->method->end(c, &c->buckets[k]);
    c->steps++;
    return TUTTI_OK;
}

enum tutti_status tutti_compressor_finish(struct tutti_compressor *c,
                                          struct tutti_compressor_result *result)
{
    struct tutti_compressor_result own = {0};
    pthread_mutex_lock(&c->lock);
    enum tutti_status status = check_works(c, "finish");
    if (status == TUTTI_OK) {
        status = finish(c, &own);
        c->is_broken = status != TUTTI_OK;
        begin_step(c);
    }
    pthread_mutex_unlock(&c->lock);
    if (result != NULL) *result = own;
    return status;
}
