#include "volumes.h"

#define VOLUME_AXIS(enumerator, axis, what) [enumerator] = axis,
#define VOLUME_WHAT(enumerator, axis, what) [enumerator] = what,
static const enum mesh_axis axes[VOLUMES] = {VOLUME_LIST(VOLUME_AXIS)};
static const char *const whats[VOLUMES] = {VOLUME_LIST(VOLUME_WHAT)};
static const char *const kinds[VOLUME_KINDS] = {"allreduce", "reduce_scatter", "allgather", "send"};

/* ------------------------------------------------------------------------------ what is counted */

static struct amount look(const struct mesh *mesh, enum mesh_axis axis)
{
    const struct axis ranks = mesh_axis(mesh, axis);
    struct amount amount = {{0}, {0}};
    if (ranks.size == 1) return amount;
    for (size_t k = 0; k < VOLUME_KINDS; k++) {
        struct tutti_comm_counters counters = {.size_bytes = sizeof counters};
        expect(tutti_comm_count(ranks.comm, kinds[k], &counters), "asking for counters");
        amount.calls[k] = counters.calls;
        amount.bytes[k] = counters.bytes;
    }
    return amount;
}

void volumes_init(struct volumes *volumes, const struct mesh *mesh,
                  const struct volumes_setting *setting)
{
    *volumes = (struct volumes){.setting = *setting, .mesh = mesh};
    for (int axis = 0; axis < AXES; axis++) volumes->seen[axis] = look(mesh, (enum mesh_axis)axis);
}

void volumes_begin_step(struct volumes *volumes)
{
    volumes->steps++;
    for (int axis = 0; axis < AXES; axis++)
        if (axis != AXIS_REPLICAS) volumes->seen[axis] = look(volumes->mesh, (enum mesh_axis)axis);
}

void volumes_skip_step(struct volumes *volumes)
{
    volumes->skipped++;
}

void volumes_note(struct volumes *volumes, enum volume volume)
{
    if (volumes == NULL) return;
    struct amount *seen = &volumes->seen[axes[volume]], *counted = &volumes->counted[volume];
    const struct amount now = look(volumes->mesh, axes[volume]);
    for (size_t k = 0; k < VOLUME_KINDS; k++) {
        counted->calls[k] += now.calls[k] - seen->calls[k];
        counted->bytes[k] += now.bytes[k] - seen->bytes[k];
    }
    *seen = now;
}

/* --------------------------------------------------------------------------- what the books say */

static void add(struct amount *amount, enum volume_kind kind, size_t calls, size_t bytes)
{
    amount->calls[kind] += calls;
    amount->bytes[kind] += calls * bytes;
}

/* Slices add up rows, and bring all rows together where they are split. */
static void add_slices(struct amount *amount, const struct volumes_setting *s, size_t sums,
                       size_t gathers)
{
    const size_t bytes = s->rows * s->shape.width * sizeof(real), m = s->micro_batches;
    add(amount, s->rows_split ? KIND_REDUCE_SCATTER : KIND_ALLREDUCE, m * sums, bytes);
    if (s->rows_split) add(amount, KIND_ALLGATHER, m * gathers, bytes);
}

/* How often a layer adds up rows and gathers them, forward and backward: 4, and 2 more of what is
 * done again. */
static size_t layer_sums(const struct volumes_setting *s)
{
    return s->recomputes ? 6 : 4;
}

static size_t layer_gathers(const struct volumes_setting *s)
{
    return s->recomputes || s->gathers_again ? 6 : 4;
}

/* Of all groups together: how many operations carry them is the groups' affair, so calls are not
 * said. */
static void add_parameters(struct amount *amount, const struct volumes_setting *s)
{
    const size_t gradients = s->parameters * s->gradient_bytes, m = s->micro_batches;
    const size_t parameters = s->parameters * s->parameter_bytes;
    if (s->zero == 0) add(amount, KIND_ALLREDUCE, 1, gradients);
    if (s->zero > 0) add(amount, KIND_REDUCE_SCATTER, s->zero == 1 ? 1 : m, gradients);
    if (s->zero > 0) add(amount, KIND_ALLGATHER, s->zero == 3 ? 2 * m : 1, parameters);
}

/* Of a step. Sends are those of all stages together. */
static struct amount book(const struct volumes *volumes, enum volume volume)
{
    const struct volumes_setting *s = &volumes->setting;
    const struct mesh *mesh = volumes->mesh;
    const size_t m = s->micro_batches, width = s->shape.width;
    struct amount amount = {{0}, {0}};
    if (mesh_axis(mesh, axes[volume]).size == 1) return amount;
    switch (volume) {
    case VOLUME_PARAMETERS: add_parameters(&amount, s); break;
    case VOLUME_SQUARES:
        if (s->zero > 0) /* four numbers of each rank say what its step before was */
            add(&amount, KIND_ALLGATHER, 1, (s->blocks + 4 * mesh->replica.size) * sizeof(double));
        break;
    case VOLUME_LAYERS:
        add_slices(&amount, s, s->layers * layer_sums(s), s->layers * layer_gathers(s));
        break;
    case VOLUME_EMBEDDING:
        if (s->has_embedding) add_slices(&amount, s, 1, 1);
        break;
    case VOLUME_HEAD:
        if (s->has_head) add_slices(&amount, s, 1, 1);
        break;
    case VOLUME_LOSS: /* the largest logit, the sum, and the target's logit */
        if (!s->has_head) break;
        add(&amount, KIND_ALLREDUCE, m, s->rows * sizeof(real));
        add(&amount, KIND_ALLREDUCE, m, 2 * s->rows * sizeof(real));
        break;
    case VOLUME_GAINS:
        if (s->rows_split && s->own_gains > 0)
            add(&amount, KIND_ALLREDUCE, 1, s->own_gains * s->gradient_bytes);
        break;
    case VOLUME_PIPELINE: {
        const size_t rows =
            s->rows_split ? range_share(s->rows, s->part.tensor_index, s->part.tensor_count).count
                          : s->rows;
        add(&amount, KIND_SEND, 2 * m * (s->chunks * mesh->stage.size - 1),
            rows * width * sizeof(real));
        break;
    }
    case VOLUME_TIED:
        if (s->own_tied > 0) add(&amount, KIND_ALLREDUCE, 1, s->own_tied * s->gradient_bytes);
        break;
    case VOLUME_REPORT: add(&amount, KIND_ALLREDUCE, 1, s->report_count * sizeof(double)); break;
    default: add(&amount, KIND_ALLREDUCE, 1, sizeof(double));
    }
    return amount;
}

/* ----------------------------------------------------------------------------------- both sides */

static void describe_parameters(const struct volumes *volumes, char *text, size_t size)
{
    static const char *const formulas[] = {"2 (n - 1) / n", "2 (n - 1) / n", "(m + 1) (n - 1) / n",
                                           "3 m (n - 1) / n"};
    const struct volumes_setting *s = &volumes->setting;
    snprintf(text, size, "%s Psi; n %zu, m %zu, Psi %zu", formulas[s->zero],
             volumes->mesh->replica.size, s->micro_batches, s->parameters);
}

static void describe_layers(const struct volumes *volumes, char *text, size_t size)
{
    const struct volumes_setting *s = &volumes->setting;
    const size_t layers = s->layers, m = s->micro_batches;
    int length = s->rows_split ? snprintf(text, size, "%zu allgathers and %zu reduce_scatters",
                                          layer_gathers(s), layer_sums(s))
                               : snprintf(text, size, "%zu allreduces", layer_sums(s));
    snprintf(text + length, size - (size_t)length,
             " of B in each of %zu layers; m %zu, B %zu rows x %zu", layers, m, s->rows,
             s->shape.width);
}

/* In words, the numbers of a step. */
static void describe(const struct volumes *volumes, enum volume volume, const struct amount *amount,
                     char *text, size_t size)
{
    if (volume == VOLUME_PARAMETERS) {
        describe_parameters(volumes, text, size);
        return;
    }
    if (volume == VOLUME_LAYERS) {
        describe_layers(volumes, text, size);
        return;
    }
    int length = 0;
    text[0] = '\0';
    for (size_t k = 0; k < VOLUME_KINDS; k++) {
        if (amount->calls[k] == 0 || (size_t)length >= size) continue;
        length += snprintf(text + length, size - (size_t)length, "%s%llu %s%s",
                           length > 0 ? ", " : "", (unsigned long long)amount->calls[k], kinds[k],
                           amount->calls[k] == 1 ? "" : "s");
    }
    if (volume != VOLUME_PIPELINE || (size_t)length >= size) return;
    length += snprintf(text + length, size - (size_t)length,
                       ": 2 m (p%s - 1) activations, of all stages; m %zu, p %zu",
                       volumes->setting.chunks > 1 ? " v" : "", volumes->setting.micro_batches,
                       volumes->mesh->stage.size);
    if (volumes->setting.chunks > 1 && (size_t)length < size)
        snprintf(text + length, size - (size_t)length, ", v %zu", volumes->setting.chunks);
}

/* Bytes through this rank. */
static double volume_of(const struct amount *amount, size_t n)
{
    const double share = ((double)n - 1) / (double)n;
    return share * (2 * (double)amount->bytes[KIND_ALLREDUCE] +
                    (double)amount->bytes[KIND_REDUCE_SCATTER] +
                    (double)amount->bytes[KIND_ALLGATHER]) +
           (double)amount->bytes[KIND_SEND];
}

/* The same for all steps: of messages, what all stages sent. */
static struct amount counted_of(const struct volumes *volumes, enum volume volume)
{
    struct amount amount = volumes->counted[volume];
    if (volume != VOLUME_PIPELINE) return amount;
    amount.bytes[KIND_SEND] =
        (uint64_t)axis_sum(&volumes->mesh->stage, (double)amount.bytes[KIND_SEND]);
    return amount;
}

/* New parameters are gathered after the steps that were not skipped, unless they are gathered in
 * passes. */
static bool are_equal(const struct volumes *volumes, enum volume volume,
                      const struct amount *counted, const struct amount *of_a_step)
{
    const bool gathers_after = volume == VOLUME_PARAMETERS && volumes->setting.zero < 3;
    for (size_t k = 0; k < VOLUME_KINDS; k++) {
        const bool is_left_out = gathers_after && k == KIND_ALLGATHER;
        const size_t steps = volumes->steps - (is_left_out ? volumes->skipped : 0);
        if (counted->bytes[k] != steps * of_a_step->bytes[k]) return false;
    }
    return true;
}

size_t volumes_print(const struct volumes *volumes, FILE *file)
{
    static const char *const names[AXES] = {"pp", "dp", "tp", "ends", "all"};
    const double steps = (double)volumes->steps;
    bool same = true;
    if (volumes->steps == 0) return 0;
    if (file != NULL)
        fprintf(file, "volumes        bytes of rank 0 in a step, %s%s: as counted, by the formula\n",
                tutti_dtype_name(REAL_DTYPE),
                volumes->setting.parameter_bytes < sizeof(real) ? ", parameters bfloat16" : "");
    for (int v = 0; v < VOLUMES; v++) {
        const enum volume volume = (enum volume)v;
        if (volume == VOLUME_PARAMETERS && volumes->setting.compresses) continue;
        const size_t n = mesh_axis(volumes->mesh, axes[v]).size;
        const struct amount counted = counted_of(volumes, volume), of_a_step = book(volumes, volume);
        same = are_equal(volumes, volume, &counted, &of_a_step) && same;
        const double is = volume_of(&counted, n) / steps, should = volume_of(&of_a_step, n);
        char words[160];
        if (file == NULL || (is == 0 && should == 0)) continue;
        describe(volumes, volume, &of_a_step, words, sizeof words);
        fprintf(file, "  %-4s %-25s %14.12g %14.12g  %s\n", names[axes[v]], whats[v], is, should,
                words);
    }
    const size_t different = (size_t)mesh_sum(volumes->mesh, same ? 0 : 1);
    if (file != NULL && different == 0)
        fprintf(file, "  to the byte what the formulas say, on all ranks\n");
    if (file != NULL && volumes->skipped > 0)
        fprintf(file, "  %zu of %zu steps were skipped, because gradients were not finite\n",
                volumes->skipped, volumes->steps);
    if (file != NULL && different > 0)
        fprintf(file, "  not what the formulas say on %zu ranks\n", different);
    return different;
}
