#include "compression.h"

#include "give_up.h"

static bool parse_number(const char *text, double min, double max, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && *number >= min && *number <= max;
}

bool compression_parse(const char *text, struct compression_options *options)
{
    static const char low_rank[] = "powersgd:", top[] = "top:";
    struct tutti_compressor_options *const compressor = &options->compressor;
    double rank;
    options->is_wanted = true;
    if (strncmp(text, low_rank, sizeof low_rank - 1) == 0) {
        if (!parse_number(text + sizeof low_rank - 1, 1, TUTTI_COMPRESS_RANK_MAX, &rank) ||
            rank != floor(rank))
            return false;
        compressor->method = TUTTI_COMPRESS_LOW_RANK;
        compressor->rank = (int)rank;
        return true;
    }
    if (strncmp(text, top, sizeof top - 1) == 0) {
        compressor->method = TUTTI_COMPRESS_TOP_K;
        return parse_number(text + sizeof top - 1, 1e-9, 1, &compressor->share);
    }
    if (strcmp(text, "none") == 0) return true; /* as options begin */
    compressor->method = TUTTI_COMPRESS_ENCODED;
    return tutti_encoding_find(text, &compressor->encoding) == TUTTI_OK &&
           compressor->encoding != TUTTI_ENCODING_NONE;
}

/* ----------------------------------------------------------------------------------- life cycle */

/* In the order of the groups: gains are ready last, so they are in the last bucket. */
static struct tutti_compress_tensor *list_tensors(struct compression *c)
{
    const struct parameters *const parameters = c->parameters;
    struct tutti_compress_tensor *const list = allocate(parameters->tensor_count, sizeof *list);
    size_t count = 0;
    for (size_t g = 0; g < parameters->group_count; g++) {
        const struct group *const group = &parameters->groups[g];
        c->progress[g].first_listed = count;
        for (size_t i = 0; i < group->tensor_count; i++) {
            const struct tensor *const tensor = &parameters->tensors[group->first_tensor + i];
            void *const gradients = c->gradients + tensor->offset; /* of float, where this runs */
            list[count++] = (struct tutti_compress_tensor){
                tensor->name, gradients, tensor->rows.count, tensor->columns.count};
        }
    }
    return list;
}

void compression_open(struct compression *c, const struct compression_options *options,
                      const struct parameters *parameters, size_t micro_batches,
                      const struct mesh *mesh)
{
    *c = (struct compression){.parameters = parameters,
                              .micro_batches = micro_batches,
                              .replicas = (double)mesh->replica.size};
    c->gradients = allocate(parameters->elements, sizeof *c->gradients);
    c->progress = allocate(parameters->group_count, sizeof *c->progress);
    struct tutti_compress_tensor *const tensors = list_tensors(c);
    expect(tutti_compressor_create(tensors, parameters->tensor_count, &options->compressor,
                                   mesh->replica.comm, &c->compressor),
           "making a compressor");
    free(tensors);
    expect(tutti_comm_split(mesh->world, tutti_comm_rank(mesh->world), 0, NULL, &c->alone),
           "making a communicator of one rank");
}

void compression_close(struct compression *c)
{
    tutti_compressor_free(c->compressor);
    tutti_comm_free(c->alone);
    free(c->gradients);
    free(c->progress);
}

/* --------------------------------------------------------------------------------------- a step */

real *compression_gradient(struct compression *c, size_t group)
{
    return c->gradients + c->parameters->groups[group].offset;
}

void compression_ready(struct compression *c, size_t index)
{
    struct compression_progress *const progress = &c->progress[index];
    if (++progress->ready_count < c->micro_batches) return;
    progress->ready_count = 0;
    for (size_t i = c->parameters->groups[index].tensor_count; i-- > 0;)
        expect(tutti_compressor_ready(c->compressor, progress->first_listed + i),
               "compressing gradients");
}

static void hand_over(struct compression *c, size_t index, struct tutti_shards *shards)
{
    const struct group *const group = &c->parameters->groups[index];
    real *const averages = c->gradients + group->offset;
    void *gradient;
    expect(tutti_shards_gradient(shards, index, &gradient), "getting memory for gradients");
    real *const sums = gradient;
    for (size_t e = 0; e < group->elements; e++)
        sums[e] = (real)((double)averages[e] * c->replicas);
    expect(tutti_shards_ready(shards, index), "handing over gradients");
}

bool compression_finish(struct compression *c, struct tutti_shards *shards)
{
    struct tutti_compressor_result result;
    expect(tutti_compressor_finish(c->compressor, &result), "averaging compressed gradients");
    for (size_t g = 0; g < c->parameters->group_count; g++) hand_over(c, g, shards);
    memset(c->gradients, 0, c->parameters->elements * sizeof *c->gradients);
    return result.not_finite == 0;
}

void compression_describe(const struct compression *c, FILE *file)
{
    struct tutti_compressor_counters counters = {.size_bytes = sizeof counters};
    expect(tutti_compressor_count(c->compressor, &counters), "counting compressed bytes");
    fprintf(file,
            "compression    gradients went in 1/%.1f of their bytes, %llu of %llu tensors "
            "compressed; %.1f MiB of residuals and bases\n",
            (double)counters.gradient_bytes / (double)counters.payload_bytes,
            (unsigned long long)counters.compressed, (unsigned long long)counters.tensors,
            (double)counters.state_bytes / (1 << 20));
}
