/* local_step.c - synchronisations: when they are due, and how they go. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/hash.h"
#include "base/sized.h"
#include "base/status.h"
#include "local_state.h"
#include "local_update.h"
#include "os/clock.h"
#include "outside_group.h"

enum tutti_status local_check_works(const struct tutti_local *c, const char *function)
{
    if (!c->is_broken) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "%s: a call failed before, or the state was given away; free it", function);
}

/* ------------------------------------------------------------------------------------- schedule */

/* Whether the fragment's parameters change at the step. */
static bool is_due(const struct tutti_local *c, size_t f, uint64_t step)
{
    const uint64_t every = (uint64_t)c->options.every;
    const uint64_t at = (f + 1) * every / c->fragment_count;
    return step > c->base && (step - c->base) % every == at % every;
}

/* --------------------------------------------------------------------------- a synchronisation */

static enum tutti_status start(struct tutti_local *c, struct local_fragment *fragment)
{
    const size_t f = (size_t)(fragment - c->fragments);
    for (size_t i = 0; i < c->tensor_count; i++) {
        const struct local_tensor *const t = &c->tensors[i];
        if ((size_t)t->fragment == f && t->count > 0)
            local_update_delta(fragment->global + t->offset, t->data, fragment->delta + t->offset,
                               t->count);
    }
    if (fragment->prepared != NULL) TRY(tutti_start(fragment->prepared, &fragment->request));
    fragment->phase = LOCAL_UNDER_WAY;
    c->sent_bytes += fragment->count * sizeof(float);
    return TUTTI_OK;
}

enum tutti_status local_arrive(struct tutti_local *c, struct local_fragment *fragment)
{
    if (fragment->phase != LOCAL_UNDER_WAY) return TUTTI_OK;
    if (fragment->request != NULL) {
        const uint64_t began_ns = clock_now_ns();
        const enum tutti_status status = tutti_wait(&fragment->request);
        c->waited_ns += clock_now_ns() - began_ns;
        if (status != TUTTI_OK) {
            fragment->phase = LOCAL_REST;
            return status;
        }
    }
    fragment->phase = LOCAL_ARRIVED;
    return TUTTI_OK;
}

void local_reset(struct tutti_local *c, const struct local_fragment *fragment)
{
    const size_t f = (size_t)(fragment - c->fragments);
    for (size_t i = 0; i < c->tensor_count; i++) {
        const struct local_tensor *const t = &c->tensors[i];
        if ((size_t)t->fragment == f && t->count > 0)
            memcpy(t->data, fragment->global + t->offset, t->count * sizeof *t->data);
    }
}

bool local_apply(struct tutti_local *c, struct local_fragment *fragment, double mixing)
{
    const struct local_update update = {(float)c->options.rate, (float)c->options.momentum,
                                        (float)mixing, c->options.nesterov != 0};
    const size_t f = (size_t)(fragment - c->fragments);
    const bool is_good = local_update_is_finite(&update, fragment->global, fragment->momentum,
                                                fragment->delta, fragment->count);
    fragment->phase = LOCAL_REST;
    fragment->rounds++;
    if (!is_good) {
        local_reset(c, fragment);
        c->dropped++;
        return true;
    }
    for (size_t i = 0; i < c->tensor_count; i++) {
        const struct local_tensor *const t = &c->tensors[i];
        if ((size_t)t->fragment == f && t->count > 0)
            local_update_apply(&update, fragment->global + t->offset,
                               fragment->momentum != NULL ? fragment->momentum + t->offset : NULL,
                               fragment->delta + t->offset, t->data, t->count);
    }
    return false;
}

void local_settle(struct tutti_local *c)
{
    for (size_t f = 0; f < c->fragment_count; f++) {
        struct local_fragment *const fragment = &c->fragments[f];
        if (local_arrive(c, fragment) == TUTTI_OK && fragment->phase == LOCAL_ARRIVED)
            (void)local_apply(c, fragment, c->options.mixing); /* counted there */
    }
}

/* --------------------------------------------------------------------------------- the first one */

static uint64_t hash_tensor(const struct tutti_local *c, const struct local_tensor *t)
{
    const float *const values = c->fragments[t->fragment].global;
    uint64_t hash = 5;
    for (size_t i = 0; i < t->count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[t->offset + i], sizeof bits);
        hash = hash_take(hash, bits);
    }
    return hash;
}

static void describe(const void *context, FILE *lines)
{
    const struct tutti_local *const c = context;
    for (size_t i = 0; i < c->tensor_count; i++)
        fprintf(lines, "first values of tensor '%s': hash %016" PRIx64 "\n", c->tensors[i].name,
                hash_tensor(c, &c->tensors[i]));
}

/* Once, unless state came from elsewhere. */
static enum tutti_status compare_first(struct tutti_local *c, const char *function)
{
    if (c->has_begun) return TUTTI_OK;
    uint64_t hash = 6;
    for (size_t i = 0; i < c->tensor_count; i++)
        hash = hash_take(hash, hash_tensor(c, &c->tensors[i]));
    const struct agreement agreement = {function, (int64_t)(hash >> 2), describe, c};
    const enum tutti_status status = agree_on_making(c->comm, TUTTI_OK, &agreement, NULL);
    if (status == TUTTI_OK) c->has_begun = true;
    if (status != TUTTI_MISMATCH) return status;
    char message[ERROR_TEXT_MAX];
    error_copy(message, sizeof message);
    return error_set(status, "%s; give all ranks the same first values (tutti_broadcast)", message);
}

/* ----------------------------------------------------------------------------------------- steps */

static enum tutti_status arrive_and_apply(struct tutti_local *c, size_t f, double mixing,
                                          struct tutti_local_result *result)
{
    TRY(local_arrive(c, &c->fragments[f]));
    if (c->fragments[f].phase != LOCAL_ARRIVED) return TUTTI_OK;
    result->fragment = (int)f;
    result->dropped += local_apply(c, &c->fragments[f], mixing);
    return TUTTI_OK;
}

static enum tutti_status step(struct tutti_local *c, struct tutti_local_result *result)
{
    const uint64_t delay = (uint64_t)c->options.delay;
    TRY(compare_first(c, "tutti_local_step"));
    c->steps++;
    for (size_t f = 0; delay > 0 && f < c->fragment_count; f++)
        if (is_due(c, f, c->steps)) TRY(arrive_and_apply(c, f, c->options.mixing, result));
    for (size_t f = 0; f < c->fragment_count; f++)
        if (is_due(c, f, c->steps + delay)) TRY(start(c, &c->fragments[f]));
    for (size_t f = 0; delay == 0 && f < c->fragment_count; f++)
        if (is_due(c, f, c->steps)) TRY(arrive_and_apply(c, f, c->options.mixing, result));
    return TUTTI_OK;
}

static enum tutti_status synchronise(struct tutti_local *c, struct tutti_local_result *result)
{
    TRY(compare_first(c, "tutti_local_synchronise"));
    for (size_t f = 0; f < c->fragment_count; f++)
        TRY(arrive_and_apply(c, f, c->options.mixing, result));
    for (size_t f = 0; f < c->fragment_count; f++) TRY(start(c, &c->fragments[f]));
    for (size_t f = 0; f < c->fragment_count; f++) TRY(arrive_and_apply(c, f, 0, result));
    c->base = c->steps;
    result->fragment = -1;
    return TUTTI_OK;
}

typedef enum tutti_status work(struct tutti_local *c, struct tutti_local_result *result);

static enum tutti_status run(struct tutti_local *c, const char *function, work *does,
                             struct tutti_local_result *result)
{
    struct tutti_local_result own = {-1, 0};
    enum tutti_status status = local_check_works(c, function);
    if (status == TUTTI_OK) status = outside_group(function);
    if (status == TUTTI_OK) {
        status = does(c, &own);
        c->is_broken = status != TUTTI_OK;
    }
    if (result != NULL) *result = own;
    return status;
}

enum tutti_status tutti_local_step(struct tutti_local *c, struct tutti_local_result *result)
{
    return run(c, "tutti_local_step", step, result);
}

enum tutti_status tutti_local_synchronise(struct tutti_local *c, struct tutti_local_result *result)
{
    return run(c, "tutti_local_synchronise", synchronise, result);
}

/* --------------------------------------------------------------------------------------- questions */

enum tutti_status tutti_local_values(const struct tutti_local *c, size_t index, const float **values)
{
    *values = NULL;
    if (index >= c->tensor_count)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_local_values: there is no tensor %zu of %zu",
                         index, c->tensor_count);
    const struct local_tensor *const t = &c->tensors[index];
    if (t->count > 0) *values = c->fragments[t->fragment].global + t->offset;
    return TUTTI_OK;
}

enum tutti_status tutti_local_count(const struct tutti_local *c,
                                    struct tutti_local_counters *counters)
{
    TRY(SIZED_CHECK_RESULT("tutti_local_count: counters", tutti_local_counters, counters));
    struct tutti_local_counters own = {.steps = c->steps,
                                       .dropped = c->dropped,
                                       .sent_bytes = c->sent_bytes,
                                       .waited_ns = c->waited_ns};
    for (size_t f = 0; f < c->fragment_count; f++) {
        const struct local_fragment *const fragment = &c->fragments[f];
        const uint64_t bytes = fragment->count * sizeof(float);
        own.synchronisations += fragment->rounds;
        own.parameter_bytes += bytes;
        own.state_bytes += (fragment->momentum != NULL ? 3 : 2) * bytes;
    }
    SIZED_WRITE(tutti_local_counters, counters, counters->size_bytes, &own);
    return TUTTI_OK;
}
