/* shards_step.c - from reduced gradients to new parameters. */
#include <math.h>
#include <string.h>

#include "base/sized.h"
#include "base/status.h"
#include "norm.h"
#include "outside_group.h"
#include "shards_state.h"
#include "shards_update.h"

enum tutti_status tutti_shards_finish(struct tutti_shards *s)
{
    if (s->is_broken) return shards_check(s, "finish", 0);
    for (size_t g = 0; g < s->group_count; g++)
        if (s->groups[g].ready_count < s->options.micro_batches && s->groups[g].count > 0)
            return error_set(TUTTI_INVALID_OPTIONS,
                             "tutti_shards_finish: group %zu is ready for %d of %d micro-batches",
                             g, s->groups[g].ready_count, s->options.micro_batches);
    TRY(shards_broken_by(s, shards_settle(s, 0)));
    s->is_finished = true;
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- squares */

static double square_of_block(const struct tutti_shards *s, const struct shards_group *group,
                              size_t block)
{
    const size_t first = block * TUTTI_SHARDS_BLOCK, left = group->count - first;
    return norm_square_sum(group->sums + (first - group->own.first) * s->gradient_size,
                           left < TUTTI_SHARDS_BLOCK ? left : TUTTI_SHARDS_BLOCK, s->gradient_dtype);
}

/* Squares all blocks of all groups in their order: every rank has everything. */
static void square_whole(struct tutti_shards *s)
{
    for (size_t g = 0; g < s->group_count; g++)
        for (size_t b = 0; b < shards_blocks(s->groups[g].count); b++)
            s->all_squares[s->groups[g].blocks_before + b] = square_of_block(s, &s->groups[g], b);
}

/* `step` begins the message: of which step the numbers are that came with the squares. */
static enum tutti_status compare_numbers(const struct tutti_shards *s, const char *step)
{
    static const char *const names[SHARDS_STEP_NUMBERS] = {"rate", "factor", "norm_max", "overflow"};
    const double *const first = s->gathered_squares, *other = first;
    for (int r = 1; r < s->size; r++) {
        other += s->square_counts[r - 1];
        for (int i = 0; i < SHARDS_STEP_NUMBERS; i++)
            if (other[i] != first[i])
                return error_set(TUTTI_MISMATCH,
                                 "%s: rank 0 has 'options.%s: %.17g', rank %d has 'options.%s: "
                                 "%.17g'",
                                 step, names[i], first[i], r, names[i], other[i]);
    }
    return TUTTI_OK;
}

/* Each rank has its step's numbers, and the sums of its blocks, group by group; then the sums are
 * brought into the order of square_whole. */
static enum tutti_status square_shards(struct tutti_shards *s, const char *step)
{
    size_t own_count = SHARDS_STEP_NUMBERS;
    memcpy(s->all_squares, s->step_numbers, sizeof s->step_numbers);
    for (size_t g = 0; g < s->group_count; g++) {
        const struct shards_range own = shards_own_blocks(s->groups[g].count, s->rank, s->size);
        for (size_t b = 0; b < own.count; b++)
            s->all_squares[own_count++] = square_of_block(s, &s->groups[g], own.first + b);
    }
    TRY(tutti_allgatherv(s->all_squares, s->gathered_squares, s->square_counts, NULL, TUTTI_FLOAT64,
                         s->comm));
    TRY(compare_numbers(s, step));
    const double *square = s->gathered_squares;
    for (int r = 0; r < s->size; r++) {
        square += SHARDS_STEP_NUMBERS;
        for (size_t g = 0; g < s->group_count; g++) {
            const struct shards_range theirs = shards_own_blocks(s->groups[g].count, r, s->size);
            for (size_t b = 0; b < theirs.count; b++)
                s->all_squares[s->groups[g].blocks_before + theirs.first + b] = *square++;
        }
    }
    return TUTTI_OK;
}

static double square_of_group(const struct tutti_shards *s, const struct shards_group *group)
{
    double sum = 0;
    for (size_t b = 0; b < shards_blocks(group->count); b++)
        sum += s->all_squares[group->blocks_before + b];
    return sum;
}

static enum tutti_status square_blocks(struct tutti_shards *s, const char *step)
{
    if (s->options.stage != TUTTI_SHARDS_NONE && s->size > 1) return square_shards(s, step);
    square_whole(s);
    return TUTTI_OK;
}

enum tutti_status tutti_shards_squares(struct tutti_shards *s, double *squares)
{
    TRY(outside_group("tutti_shards_squares"));
    if (s->is_broken) return shards_check(s, "squares", 0);
    if (squares == NULL && s->group_count > 0)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_shards_squares: squares is NULL");
    if (!s->is_finished)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_shards_squares: there are no gradients before tutti_shards_finish");
    TRY(shards_broken_by(s, square_blocks(s, "tutti_shards_squares: in the step before")));
    for (size_t g = 0; g < s->group_count; g++) squares[g] = square_of_group(s, &s->groups[g]);
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------------------------- step */

static enum tutti_status take_step(const struct tutti_shards *s,
                                   const struct tutti_shards_step_options *given,
                                   struct tutti_shards_step_options *step)
{
    *step = (struct tutti_shards_step_options)TUTTI_SHARDS_STEP_INIT;
    if (given != NULL)
        TRY(SIZED_READ("tutti_shards_step: options", tutti_shards_step_options, given, step));
    if (!(step->rate >= 0) || !isfinite(step->factor) || !(step->norm_max >= 0))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_shards_step: rate and norm_max must be 0 or more, and factor a "
                         "finite number; they are %g, %g and %g",
                         step->rate, step->norm_max, step->factor);
    if ((unsigned)step->overflow > TUTTI_SHARDS_OVERFLOW_FOUND || step->reserved != 0)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_shards_step: overflow must be a value of enum "
                         "tutti_shards_overflow, 0 to 2, and reserved 0; they are %d and %d",
                         (int)step->overflow, step->reserved);
    if (step->factor == 0) step->factor = 1 / ((double)s->size * (double)s->options.micro_batches);
    for (size_t g = 0; g < s->group_count; g++)
        if (s->groups[g].use_count > 0)
            return error_set(TUTTI_INVALID_OPTIONS,
                             "tutti_shards_step: group %zu is still acquired", g);
    return TUTTI_OK;
}

/* All ranks find the same: the blocks' squares are the same everywhere, and in one of them any
 * number that is not finite shows. */
static enum tutti_status look_at_squares(struct tutti_shards *s,
                                         struct tutti_shards_step_options *step,
                                         struct tutti_shards_result *result)
{
    const bool asks = step->overflow == TUTTI_SHARDS_OVERFLOW_ASK && s->loss_scale > 0;
    double sum = 0;
    result->skipped = step->overflow == TUTTI_SHARDS_OVERFLOW_FOUND;
    if (step->norm_max == 0 && !asks) return TUTTI_OK;
    TRY(square_blocks(s, "tutti_shards_step"));
    for (size_t g = 0; g < s->group_count; g++) sum += square_of_group(s, &s->groups[g]);
    if (asks) result->skipped = !isfinite(sum);
    if (step->norm_max == 0) return TUTTI_OK;
    result->norm = sqrt(sum) * fabs(step->factor);
    if (!isfinite(result->norm) || result->norm <= step->norm_max) return TUTTI_OK;
    result->scaled = !result->skipped;
    step->factor *= step->norm_max / result->norm;
    return TUTTI_OK;
}

static void update(struct tutti_shards *s, const struct tutti_shards_step_options *step,
                   struct shards_group *group)
{
    const struct shards_update what = {.optimizer = s->options.optimizer,
                                       .rate = step->rate,
                                       .weight_decay = group->weight_decay,
                                       .factor = step->factor,
                                       .first_decay = s->options.first_decay,
                                       .second_decay = s->options.second_decay,
                                       .epsilon = s->options.epsilon,
                                       .step = s->counters.steps};
    const bool is_whole = s->options.stage < TUTTI_SHARDS_PARAMETERS;
    const struct shards_elements elements = {
        .count = group->own.count,
        .state_dtype = s->state_dtype,
        .gradient_dtype = s->gradient_dtype,
        .dtype = s->options.dtype,
        .gradients = group->sums,
        .first = group->first,
        .second = group->second,
        .masters = group->masters,
        .parameters = group->parameters + (is_whole ? group->own.first * s->parameter_size : 0)};
    shards_update(&what, &elements);
}

/* In place: an encoding would round the own part, too, and without masters that is all there is of
 * it. */
static enum tutti_status start_gather(struct tutti_shards *s, struct shards_group *group)
{
    const enum tutti_shards_stage stage = s->options.stage;
    const bool is_needed = stage == TUTTI_SHARDS_OPTIMIZER || stage == TUTTI_SHARDS_GRADIENTS;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    if (!is_needed || s->size == 1 || group->count == 0) return TUTTI_OK;
    if (group->masters == NULL) options.encoding = "none";
    s->counters.elements_gathered += group->count;
    return tutti_allgatherv_start(group->parameters + group->own.first * s->parameter_size,
                                  group->parameters, group->counts, NULL, s->options.dtype,
                                  &options, s->comm, &group->gather);
}

/* Drops parameters that were gathered ahead and not acquired, or that are still being gathered
 * since the step before. */
static enum tutti_status drop_old(struct tutti_shards *s)
{
    for (size_t g = 0; g < s->group_count; g++) {
        TRY(shards_wait_gather(&s->groups[g]));
        shards_drop_gathered(s, &s->groups[g]);
    }
    return TUTTI_OK;
}

static enum tutti_status do_step(struct tutti_shards *s, struct tutti_shards_step_options *step,
                                 struct tutti_shards_result *result)
{
    TRY(look_at_squares(s, step, result));
    if (result->skipped) return TUTTI_OK;
    TRY(drop_old(s));
    for (size_t g = 0; g < s->group_count; g++) {
        update(s, step, &s->groups[g]);
        TRY(start_gather(s, &s->groups[g]));
    }
    return TUTTI_OK;
}

double tutti_shards_loss_scale(const struct tutti_shards *s)
{
    return s->loss_scale > 0 ? s->loss_scale : 1;
}

static void scale_by(struct tutti_shards *s, double factor)
{
    const double scale = s->loss_scale * factor;
    if (scale >= SHARDS_LOSS_SCALE_MIN && scale <= SHARDS_LOSS_SCALE_MAX) s->loss_scale = scale;
}

static void adjust_loss_scale(struct tutti_shards *s, bool is_skipped)
{
    const uint64_t growth_steps = (uint64_t)s->options.growth_steps;
    s->counters.good_steps = is_skipped ? 0 : s->counters.good_steps + 1;
    if (growth_steps == 0) return;
    if (is_skipped) scale_by(s, 0.5);
    if (s->counters.good_steps < growth_steps) return;
    scale_by(s, 2);
    s->counters.good_steps = 0;
}

static void begin_step(struct tutti_shards *s, bool is_skipped)
{
    if (is_skipped)
        s->counters.skipped_steps++;
    else
        s->counters.steps++;
    adjust_loss_scale(s, is_skipped);
    s->is_finished = false;
    for (size_t g = 0; g < s->group_count; g++) {
        s->groups[g].ready_count = s->groups[g].added_count = 0;
        s->groups[g].is_stale = true;
    }
}

static void note_numbers(struct tutti_shards *s, const struct tutti_shards_step_options *step)
{
    const double numbers[SHARDS_STEP_NUMBERS] = {step->rate, step->factor, step->norm_max,
                                                 (double)step->overflow};
    memcpy(s->step_numbers, numbers, sizeof numbers);
}

enum tutti_status tutti_shards_step(struct tutti_shards *s,
                                    const struct tutti_shards_step_options *options,
                                    struct tutti_shards_result *result)
{
    struct tutti_shards_step_options step;
    struct tutti_shards_result own = {0, 0, 0};
    if (result != NULL) *result = own;
    TRY(outside_group("tutti_shards_step"));
    if (s->is_broken) return shards_check(s, "step", 0);
    TRY(take_step(s, options, &step));
    TRY(tutti_shards_finish(s));
    note_numbers(s, &step);
    step.factor /= tutti_shards_loss_scale(s);
    TRY(shards_broken_by(s, do_step(s, &step, &own)));
    begin_step(s, own.skipped);
    if (result != NULL) *result = own;
    return TUTTI_OK;
}
