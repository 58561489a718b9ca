/* local.c - local training is made, and its options change. Its steps are in local_step.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/hash.h"
#include "base/sized.h"
#include "base/status.h"
#include "local_state.h"
#include "names.h"

enum { ENCODING_BYTES_MAX = 100 };

/* ------------------------------------------------------------------------------------- arguments */

static enum tutti_status refuse(const char *function, const char *option, const char *must_be,
                                double is)
{
    return error_set(TUTTI_INVALID_OPTIONS, "%s: options.%s must be %s, is %g", function, option,
                     must_be, is);
}

/* The encoding stays the caller's text. */
static enum tutti_status take_options(const char *function, const struct tutti_local_options *given,
                                      struct tutti_local_options *options)
{
    char what[64];
    *options = (struct tutti_local_options)TUTTI_LOCAL_OPTIONS_INIT;
    snprintf(what, sizeof what, "%s: options", function);
    if (given != NULL) TRY(SIZED_READ(what, tutti_local_options, given, options));
    const struct tutti_local_options *const o = options;
    if (o->every < 1) return refuse(function, "every", "1 or more", o->every);
    if (o->delay < 0 || o->delay >= o->every)
        return refuse(function, "delay", "from 0 to below options.every", o->delay);
    if (!(o->mixing >= 0 && o->mixing < 1))
        return refuse(function, "mixing", "from 0 to below 1", o->mixing);
    if (!(o->rate > 0 && o->rate < 1e30)) return refuse(function, "rate", "above 0", o->rate);
    if (!(o->momentum >= 0 && o->momentum < 1))
        return refuse(function, "momentum", "from 0 to below 1", o->momentum);
    if (o->encoding != NULL && strnlen(o->encoding, ENCODING_BYTES_MAX + 1) > ENCODING_BYTES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: options.encoding is longer than %d bytes",
                         function, ENCODING_BYTES_MAX);
    return TUTTI_OK;
}

static enum tutti_status check_tensor(const struct tutti_local_tensor *t, size_t index, size_t count)
{
    TRY(name_check("tutti_local_create", t->name, index));
    if (t->count > SIZE_MAX / 64)
        return error_set(TUTTI_INVALID_COUNT,
                         "tutti_local_create: tensor '%s' has too many elements", t->name);
    if (t->data == NULL && t->count > 0)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_local_create: tensor '%s' is NULL", t->name);
    if (t->fragment < 0 || (size_t)t->fragment >= count)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_local_create: tensor '%s' has fragment %d; %zu tensors have at "
                         "most fragments 0 to %zu",
                         t->name, t->fragment, count, count - 1);
    return TUTTI_OK;
}

static enum tutti_status check_tensors(const struct tutti_local_tensor *tensors, size_t count)
{
    if (count == 0)
        return error_set(TUTTI_INVALID_COUNT, "tutti_local_create: there are no tensors");
    if (tensors == NULL)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_local_create: the tensors are NULL");
    for (size_t i = 0; i < count; i++) TRY(check_tensor(&tensors[i], i, count));
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------- tensors and fragments */

static enum tutti_status no_memory(const char *function)
{
    return error_set(TUTTI_NO_MEMORY, "%s: out of memory", function);
}

static enum tutti_status check_names(const struct tutti_local *c)
{
    const char **const names = malloc((c->tensor_count + 1) * sizeof *names);
    if (names == NULL) return no_memory("tutti_local_create");
    for (size_t i = 0; i < c->tensor_count; i++) names[i] = c->tensors[i].name;
    const enum tutti_status status =
        names_check_differ("tutti_local_create", names, c->tensor_count);
    free(names);
    return status;
}

static enum tutti_status copy_tensors(struct tutti_local *c,
                                      const struct tutti_local_tensor *tensors, size_t count)
{
    c->tensors = calloc(count, sizeof *c->tensors);
    c->fragments = calloc(count, sizeof *c->fragments);
    c->part_names = calloc(4 * count, sizeof *c->part_names);
    if (c->tensors == NULL || c->fragments == NULL || c->part_names == NULL)
        return no_memory("tutti_local_create");
    unsigned char *const has_tensor = calloc(count, 1);
    if (has_tensor == NULL) return no_memory("tutti_local_create");
    enum tutti_status status = TUTTI_OK;
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        struct local_tensor *const t = &c->tensors[c->tensor_count++];
        struct local_fragment *const fragment = &c->fragments[tensors[i].fragment];
        *t = (struct local_tensor){strdup(tensors[i].name), tensors[i].data, tensors[i].count,
                                   tensors[i].fragment, fragment->count};
        if (t->name == NULL) status = no_memory("tutti_local_create");
        fragment->count += t->count;
        has_tensor[t->fragment] = 1;
        if ((size_t)t->fragment >= c->fragment_count) c->fragment_count = (size_t)t->fragment + 1;
    }
    for (size_t f = 0; f < c->fragment_count && status == TUTTI_OK; f++)
        if (!has_tensor[f])
            status = error_set(TUTTI_INVALID_OPTIONS,
                               "tutti_local_create: fragment %zu of %zu has no tensor", f,
                               c->fragment_count);
    free(has_tensor);
    return status;
}

static enum tutti_status make_fragment(struct local_fragment *fragment)
{
    void *memory;
    if (fragment->count == 0) return TUTTI_OK;
    fragment->global = malloc(fragment->count * sizeof *fragment->global);
    if (fragment->global == NULL) return no_memory("tutti_local_create");
    TRY(tutti_mem_alloc(fragment->count * sizeof(float), &memory));
    fragment->delta = memory;
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------- what options change */

/* Of a fragment, for other options. */
struct renewal {
    float *momentum;
    struct tutti_prepared *prepared;
};

static void free_renewals(struct renewal *renewals, size_t count)
{
    for (size_t f = 0; renewals != NULL && f < count; f++) {
        free(renewals[f].momentum);
        tutti_prepared_free(renewals[f].prepared);
    }
    free(renewals);
}

static enum tutti_status prepare(const struct tutti_local *c,
                                 const struct tutti_local_options *options,
                                 const struct local_fragment *fragment, struct renewal *renewal)
{
    struct tutti_call_options call = TUTTI_CALL_OPTIONS_INIT;
    if (fragment->count == 0) return TUTTI_OK;
    if (options->momentum > 0 && fragment->momentum == NULL) {
        renewal->momentum = calloc(fragment->count, sizeof *renewal->momentum);
        if (renewal->momentum == NULL) return no_memory("tutti_local");
    }
    call.priority = options->priority;
    call.encoding = options->encoding;
    return tutti_allreduce_prepare(fragment->delta, fragment->delta, fragment->count, TUTTI_FLOAT32,
                                   TUTTI_AVG, &call, c->comm, &renewal->prepared);
}

/* All that may fail; *encoding and the renewals belong to the caller. */
static enum tutti_status prepare_all(const struct tutti_local *c,
                                     const struct tutti_local_options *options, char **encoding,
                                     struct renewal **renewals)
{
    *renewals = calloc(c->fragment_count + 1, sizeof **renewals);
    if (*renewals == NULL) return no_memory("tutti_local");
    if (options->encoding != NULL) {
        *encoding = strdup(options->encoding);
        if (*encoding == NULL) return no_memory("tutti_local");
    }
    for (size_t f = 0; f < c->fragment_count; f++)
        TRY(prepare(c, options, &c->fragments[f], &(*renewals)[f]));
    return TUTTI_OK;
}

/* Cannot fail. Takes the encoding and the renewals, whose list stays the caller's. */
static void renew(struct tutti_local *c, const struct tutti_local_options *options, char *encoding,
                  struct renewal *renewals)
{
    for (size_t f = 0; f < c->fragment_count; f++) {
        struct local_fragment *const fragment = &c->fragments[f];
        tutti_prepared_free(fragment->prepared);
        fragment->prepared = renewals[f].prepared;
        renewals[f].prepared = NULL;
        if (fragment->momentum == NULL) {
            fragment->momentum = renewals[f].momentum;
            renewals[f].momentum = NULL;
        } else if (!(options->momentum > 0)) {
            free(fragment->momentum);
            fragment->momentum = NULL;
        }
    }
    free(c->encoding_text);
    c->options = *options;
    c->options.encoding = c->encoding_text = encoding;
    c->base = c->steps;
}

/* ------------------------------------------------------------------------------------ life cycle */

/* The arguments that all ranks give alike. */
struct arguments {
    const struct tutti_local *local;
    const struct tutti_local_options *options;
};

static uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static int64_t fingerprint(const struct arguments *arguments)
{
    const struct tutti_local *const c = arguments->local;
    const struct tutti_local_options *const o = arguments->options;
    const uint64_t numbers[] = {(uint64_t)o->every, (uint64_t)o->delay,   bits_of(o->mixing),
                                bits_of(o->rate),   bits_of(o->momentum), o->nesterov != 0,
                                c->tensor_count};
    uint64_t hash = name_hash(4, o->encoding != NULL ? o->encoding : "");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash = hash_take(hash, numbers[i]);
    for (size_t i = 0; i < c->tensor_count; i++) {
        hash = name_hash(hash, c->tensors[i].name);
        hash = hash_take(hash, c->tensors[i].count);
        hash = hash_take(hash, (uint64_t)c->tensors[i].fragment);
    }
    return (int64_t)(hash >> 2);
}

static void describe(const void *context, FILE *lines)
{
    const struct arguments *const arguments = context;
    const struct tutti_local *const c = arguments->local;
    const struct tutti_local_options *const o = arguments->options;
    fprintf(lines, "options.every: %d\noptions.delay: %d\noptions.mixing: %.17g\n", o->every,
            o->delay, o->mixing);
    fprintf(lines, "options.rate: %.17g\noptions.momentum: %.17g\noptions.nesterov: %d\n", o->rate,
            o->momentum, o->nesterov != 0);
    fprintf(lines, "options.encoding: %s\ntensors: %zu\n", o->encoding != NULL ? o->encoding : "",
            c->tensor_count);
    for (size_t i = 0; i < c->tensor_count; i++)
        fprintf(lines, "tensor %zu: '%s' of %zu elements in fragment %d\n", i, c->tensors[i].name,
                c->tensors[i].count, c->tensors[i].fragment);
}

/* All that this rank can do alone. */
static enum tutti_status build(struct tutti_local *c, const struct tutti_local_tensor *tensors,
                               size_t count, const struct tutti_local_options *given)
{
    struct tutti_local_options options;
    struct renewal *renewals = NULL;
    char *encoding = NULL;
    TRY(check_tensors(tensors, count));
    TRY(copy_tensors(c, tensors, count));
    TRY(check_names(c));
    TRY(take_options("tutti_local_create", given, &options));
    c->numbers = calloc(4 + 2 * c->fragment_count, sizeof *c->numbers);
    if (c->numbers == NULL) return no_memory("tutti_local_create");
    for (size_t f = 0; f < c->fragment_count; f++) TRY(make_fragment(&c->fragments[f]));
    enum tutti_status status = prepare_all(c, &options, &encoding, &renewals);
    if (status == TUTTI_OK) {
        renew(c, &options, encoding, renewals);
        encoding = NULL;
    }
    free(encoding);
    free_renewals(renewals, c->fragment_count);
    for (size_t i = 0; i < c->tensor_count && status == TUTTI_OK; i++)
        if (c->tensors[i].count > 0)
            memcpy(c->fragments[c->tensors[i].fragment].global + c->tensors[i].offset,
                   c->tensors[i].data, c->tensors[i].count * sizeof(float));
    return status;
}

enum tutti_status tutti_local_create(const struct tutti_local_tensor *tensors, size_t count,
                                     const struct tutti_local_options *options,
                                     struct tutti_comm *comm, struct tutti_local **created)
{
    *created = NULL;
    struct tutti_local *c = calloc(1, sizeof *c);
    if (c == NULL) return no_memory("tutti_local_create");
    c->comm = comm;
    c->rank = tutti_comm_rank(comm);
    c->size = tutti_comm_size(comm);
    /* Ranks agree even if this rank already knows that it cannot go on: the others must learn of
     * it. */
    enum tutti_status status =
        c->size > 0
            ? build(c, tensors, count, options)
            : error_set(TUTTI_INVALID_COMM, "tutti_local_create: comm is not a communicator");
    const struct arguments arguments = {c, &c->options};
    const struct agreement agreement = {"tutti_local_create",
                                        status == TUTTI_OK ? fingerprint(&arguments) : 0, describe,
                                        &arguments};
    status = agree_on_making(comm, status, &agreement, NULL);
    if (status != TUTTI_OK) {
        tutti_local_free(c);
        return status;
    }
    *created = c;
    return TUTTI_OK;
}

enum tutti_status tutti_local_free(struct tutti_local *c)
{
    if (c == NULL) return TUTTI_OK;
    for (size_t f = 0; f < c->fragment_count; f++) {
        struct local_fragment *const fragment = &c->fragments[f];
        (void)local_arrive(c, fragment); /* nobody asks how it went */
        tutti_prepared_free(fragment->prepared);
        tutti_mem_free(fragment->delta);
        free(fragment->global);
        free(fragment->momentum);
    }
    for (size_t i = 0; i < c->tensor_count; i++) free(c->tensors[i].name);
    free(c->tensors);
    free(c->fragments);
    free(c->encoding_text);
    free(c->numbers);
    free(c->part_names);
    free(c);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------ other options */

enum tutti_status tutti_local_change(struct tutti_local *c, const struct tutti_local_options *given)
{
    struct tutti_local_options options;
    struct renewal *renewals = NULL;
    char *encoding = NULL;
    enum tutti_status status = local_check_works(c, "tutti_local_change");
    if (status == TUTTI_OK) status = take_options("tutti_local_change", given, &options);
    if (status == TUTTI_OK) status = prepare_all(c, &options, &encoding, &renewals);
    const struct arguments arguments = {c, &options};
    const struct agreement agreement = {"tutti_local_change",
                                        status == TUTTI_OK ? fingerprint(&arguments) : 0, describe,
                                        &arguments};
    status = agree_on_making(c->comm, status, &agreement, NULL);
    for (size_t f = 0; f < c->fragment_count && status == TUTTI_OK; f++) {
        status = local_arrive(c, &c->fragments[f]);
        c->is_broken = status != TUTTI_OK;
        if (status == TUTTI_OK && c->fragments[f].phase == LOCAL_ARRIVED)
            (void)local_apply(c, &c->fragments[f], c->options.mixing); /* counted there */
    }
    if (status == TUTTI_OK) {
        renew(c, &options, encoding, renewals);
        encoding = NULL;
    }
    free(encoding);
    free_renewals(renewals, c->fragment_count);
    return status;
}
