#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

enum { ELASTIC_SAMPLES = 4, MISTAKE_BYTES = 160 };

static const char usage[] =
    "usage: gpt [options]\n"
    "  Trains a small GPT on a text, and lets it write.\n"
    "text:\n"
    "  --text FILE         what to learn (default: the licences in /usr/share/common-licenses)\n"
    "  --vocabulary N      tokens, 256 of which are bytes (default 512)\n"
    "  --tokenizer FILE    use the tokenizer in FILE, or train one and keep it there\n"
    "model:\n"
    "  --context N         tokens that the model sees (default 128)\n"
    "  --width N           numbers for each token (default 128)\n"
    "  --layers N          (default 4)\n"
    "  --heads N           of attention (default 4)\n"
    "  --hidden N          columns of the MLP (default: 8/3 of the width)\n"
    "  --untied            the head has a matrix of its own, not the embedding's\n"
    "training:\n"
    "  --steps N           (default 1000)\n"
    "  --batch N           samples of a step (default 8)\n"
    "  --micro-batch N     of them at once (default: all)\n"
    "  --lr RATE           the highest learning rate (default 0.003)\n"
    "  --warm-up N         steps until it is reached (default 40)\n"
    "  --weight-decay X    of matrices (default 0.1)\n"
    "  --clip X            the most that the gradients' length may be (default 1)\n"
    "  --dropout X         the share of each branch that is dropped (default 0)\n"
    "  --recompute         keep less of the forward pass, and compute it again in the backward "
    "pass\n"
    "  --seed N            (default 1)\n"
    "many ranks, as in `tutti-run -n 4 gpt --mesh dp=2,tp=2`:\n"
    "  --mesh AXES         dp=N: ranks that share the samples, tp=N: matrices, pp=N: layers "
    "(default: "
    "dp\n"
    "                      alone)\n"
    "  --zero N            what dp ranks share of parameters: 0 nothing, 1 the optimizer's state, "
    "2 "
    "and\n"
    "                      gradients, 3 and weights (default 1)\n"
    "  --ahead N           layers that are gathered ahead, with --zero 3 (default 2)\n"
    "  --split-rows        tp ranks share the rows between matrices, too (sequence parallelism)\n"
    "  --gather-again      with --split-rows: keep only the own rows of layers' inputs, and gather "
    "the\n"
    "                      others again in the backward pass\n"
    "  --schedule NAME     of the pipeline: 1f1b, gpipe or interleaved (default 1f1b)\n"
    "  --chunks N          parts of the model on each stage (default 1; interleaved: 2)\n"
    "  --dtype NAME        of weights and gradients: float, or bf16 with float masters (default "
    "float)\n"
    "  --wide-gradients    float gradients with bf16 weights\n"
    "  --loss-scale X      a dynamic loss scale that begins with X (default: none)\n"
    "  --compress HOW      average gradients in fewer bytes: powersgd:RANK, top:SHARE, an encoding "
    "such as\n"
    "                      int4, or none, to compare (dp alone, with --zero 0)\n"
    "  --no-feedback       drop what compression leaves out, rather than to send it later\n"
    "  --check-single      train again in one process, without compression; exit with 1 if the "
    "weights\n"
    "                      differ by more than rounding, or with --compress if the mean losses of "
    "the last\n"
    "                      quarter of the steps differ by more than 10 %\n"
    "many ranks that may die and join, as in `tutti-run -n 4 --elastic 2 gpt --elastic`:\n"
    "  --elastic           go on when a rank dies, with another process in its place or with those "
    "that are\n"
    "                      left; put out a rank that is sick. Each rank has the whole model; it "
    "computes up\n"
    "                      to 4 samples at once, unless --micro-batch says how many\n"
    "                      --checkpoint DIR: go on from the newest one there, and write one as "
    "often as pays\n"
    "checkpoints, of one process or many:\n"
    "  --checkpoint DIR    write the run to DIR while it goes on, and in the end\n"
    "  --checkpoint-every N  steps between checkpoints (default 100)\n"
    "  --checkpoint-keep N   newest ones that stay (default 2)\n"
    "  --resume            go on from the newest one in DIR, if there is one, on any mesh\n"
    "what communication costs:\n"
    "  --profile FILE      write the last steps of all ranks there, for Perfetto "
    "(ui.perfetto.dev)\n"
    "  --profile-steps N   so many (default 3)\n"
    "  --reduce-late       reduce gradients when the backward pass is over, not while it goes on\n"
    "  --without-communication\n"
    "                      leave communication out, to compare; the losses then mean nothing\n"
    "what comes out:\n"
    "  --report N          steps between lines, where the output is no terminal (default: 12 "
    "lines)\n"
    "  --held-out N        samples that nobody learns from, to find the loss in the end (default "
    "256)\n"
    "  --write N           tokens that the model writes in the end (default 200)\n"
    "  --temperature X     below 1: likelier tokens even more often (default 0.7)\n"
    "  --check-gradients   only compare the gradients with differences of losses; exit with 1 if "
    "they\n"
    "                      differ (gpt_double does that)\n"
    "  --help              this text\n";

enum name {
    TEXT = 1,
    VOCABULARY,
    TOKENIZER,
    CONTEXT,
    WIDTH,
    LAYERS,
    HEADS,
    HIDDEN,
    UNTIED,
    STEPS,
    BATCH,
    MICRO_BATCH,
    RATE,
    WARM_UP,
    WEIGHT_DECAY,
    CLIP,
    DROPOUT,
    RECOMPUTE,
    SEED,
    REPORT,
    HELD_OUT,
    WRITE,
    TEMPERATURE,
    CHECK_GRADIENTS,
    ELASTIC,
    MESH, /* from here on, but for --checkpoint and --resume: not for --elastic */
    ZERO,
    AHEAD,
    OWN_ROWS,
    SCHEDULE,
    CHUNKS,
    DTYPE,
    WIDE_GRADIENTS,
    LOSS_SCALE,
    COMPRESS,
    NO_FEEDBACK,
    CHECK_SINGLE,
    GATHER_AGAIN,
    PROFILE,
    PROFILE_STEPS,
    REDUCE_LATE,
    WITHOUT_COMMUNICATION,
    CHECKPOINT,
    CHECKPOINT_EVERY,
    CHECKPOINT_KEEP,
    RESUME,
    HELP
};
static const struct option list[] = {
    {"text", required_argument, NULL, TEXT},
    {"vocabulary", required_argument, NULL, VOCABULARY},
    {"tokenizer", required_argument, NULL, TOKENIZER},
    {"context", required_argument, NULL, CONTEXT},
    {"width", required_argument, NULL, WIDTH},
    {"layers", required_argument, NULL, LAYERS},
    {"heads", required_argument, NULL, HEADS},
    {"hidden", required_argument, NULL, HIDDEN},
    {"untied", no_argument, NULL, UNTIED},
    {"steps", required_argument, NULL, STEPS},
    {"batch", required_argument, NULL, BATCH},
    {"micro-batch", required_argument, NULL, MICRO_BATCH},
    {"lr", required_argument, NULL, RATE},
    {"warm-up", required_argument, NULL, WARM_UP},
    {"weight-decay", required_argument, NULL, WEIGHT_DECAY},
    {"clip", required_argument, NULL, CLIP},
    {"dropout", required_argument, NULL, DROPOUT},
    {"recompute", no_argument, NULL, RECOMPUTE},
    {"seed", required_argument, NULL, SEED},
    {"report", required_argument, NULL, REPORT},
    {"held-out", required_argument, NULL, HELD_OUT},
    {"write", required_argument, NULL, WRITE},
    {"temperature", required_argument, NULL, TEMPERATURE},
    {"check-gradients", no_argument, NULL, CHECK_GRADIENTS},
    {"mesh", required_argument, NULL, MESH},
    {"zero", required_argument, NULL, ZERO},
    {"ahead", required_argument, NULL, AHEAD},
    {"split-rows", no_argument, NULL, OWN_ROWS},
    {"schedule", required_argument, NULL, SCHEDULE},
    {"chunks", required_argument, NULL, CHUNKS},
    {"dtype", required_argument, NULL, DTYPE},
    {"wide-gradients", no_argument, NULL, WIDE_GRADIENTS},
    {"loss-scale", required_argument, NULL, LOSS_SCALE},
    {"compress", required_argument, NULL, COMPRESS},
    {"no-feedback", no_argument, NULL, NO_FEEDBACK},
    {"check-single", no_argument, NULL, CHECK_SINGLE},
    {"elastic", no_argument, NULL, ELASTIC},
    {"gather-again", no_argument, NULL, GATHER_AGAIN},
    {"profile", required_argument, NULL, PROFILE},
    {"profile-steps", required_argument, NULL, PROFILE_STEPS},
    {"reduce-late", no_argument, NULL, REDUCE_LATE},
    {"without-communication", no_argument, NULL, WITHOUT_COMMUNICATION},
    {"checkpoint", required_argument, NULL, CHECKPOINT},
    {"checkpoint-every", required_argument, NULL, CHECKPOINT_EVERY},
    {"checkpoint-keep", required_argument, NULL, CHECKPOINT_KEEP},
    {"resume", no_argument, NULL, RESUME},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0}};

static bool parse_real(const char *text, double min, double max, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && *number >= min && *number <= max;
}

static bool parse_count(const char *text, double min, double max, size_t *count)
{
    double number;
    if (!parse_real(text, min, max, &number) || number != floor(number)) return false;
    *count = (size_t)number;
    return true;
}

/* "pp=2,dp=4,tp=2", of which any may be absent. */
static bool parse_mesh(const char *text, struct mesh_sizes *mesh)
{
    *mesh = (struct mesh_sizes){0};
    while (*text != '\0') {
        size_t *size = strncmp(text, "pp=", 3) == 0   ? &mesh->stages
                       : strncmp(text, "dp=", 3) == 0 ? &mesh->replicas
                       : strncmp(text, "tp=", 3) == 0 ? &mesh->slices
                                                      : NULL;
        char number[8] = "";
        const size_t length = size != NULL ? strcspn(text + 3, ",") : 0;
        if (length == 0 || length >= sizeof number || *size != 0) return false;
        memcpy(number, text + 3, length);
        if (!parse_count(number, 1, 1 << 16, size)) return false;
        text += 3 + length;
        if (*text == ',' && *++text == '\0') return false;
    }
    if (mesh->stages == 0) mesh->stages = 1;
    if (mesh->slices == 0) mesh->slices = 1;
    return true;
}

/* One process that writes checkpoints is a mesh of one rank. */
static bool set_checkpoint(struct options *options, enum name name, const char *text)
{
    struct checkpointing_options *checkpointing = &options->checkpointing;
    switch (name) {
    case CHECKPOINT: checkpointing->folder = text; return true;
    case CHECKPOINT_EVERY: return parse_count(text, 1, 1e9, &checkpointing->every_steps);
    case CHECKPOINT_KEEP: return parse_count(text, 1, 1e6, &checkpointing->keep);
    case RESUME: checkpointing->resume = true; return true;
    default: return false;
    }
}

static bool set_parallel(struct options *options, enum name name, const char *text)
{
    struct parallel_options *parallel = &options->parallel;
    size_t count = 0;
    bool good = true;
    options->wants_ranks = true;
    switch (name) {
    case MESH: return parse_mesh(text, &parallel->mesh);
    case ZERO:
        good = parse_count(text, 0, 3, &count);
        parallel->zero = (int)count;
        return good;
    case AHEAD:
        good = parse_count(text, 0, 64, &count);
        parallel->ahead = (int)count;
        return good;
    case OWN_ROWS: parallel->rows_split = true; return true;
    case SCHEDULE:
        parallel->schedule = text;
        return strcmp(text, "1f1b") == 0 || strcmp(text, "gpipe") == 0 ||
               strcmp(text, "interleaved") == 0;
    case CHUNKS: return parse_count(text, 1, 256, &parallel->chunks);
    case DTYPE:
        parallel->weights = strcmp(text, "bf16") == 0 ? WEIGHTS_BFLOAT16 : WEIGHTS_REAL;
        return parallel->weights == WEIGHTS_BFLOAT16 || strcmp(text, "float") == 0;
    case WIDE_GRADIENTS: parallel->wide_gradients = true; return true;
    case LOSS_SCALE: return parse_real(text, 0x1p-64, 0x1p64, &parallel->loss_scale);
    case COMPRESS: return compression_parse(text, &parallel->compression);
    case NO_FEEDBACK: parallel->compression.compressor.feedback = 0; return true;
    case CHECK_SINGLE: options->check_single = true; return true;
    case GATHER_AGAIN: parallel->gathers_again = true; return true;
    case PROFILE: parallel->profile = text; return true;
    case PROFILE_STEPS: return parse_count(text, 1, 1e6, &parallel->profile_steps);
    case REDUCE_LATE: parallel->reduces_late = true; return true;
    case WITHOUT_COMMUNICATION: parallel->is_unconnected = true; return true;
    default: return set_checkpoint(options, name, text);
    }
}

/* False if the number makes no sense. */
static bool set(struct options *options, int name, const char *text)
{
    struct trainer_options *trainer = &options->trainer;
    struct shape *shape = &trainer->model.shape;
    double number = 0;
    size_t count = 0;
    bool good;
    switch (name) {
    case TEXT: options->text_path = text; return true;
    case TOKENIZER: options->tokenizer_path = text; return true;
    case VOCABULARY:
        return parse_count(text, TOKENIZER_BYTES, TOKENIZER_VOCABULARY_MAX, &shape->vocabulary);
    case CONTEXT: return parse_count(text, 2, 1 << 13, &shape->context);
    case WIDTH: return parse_count(text, 2, 1 << 13, &shape->width);
    case LAYERS: return parse_count(text, 1, 1 << 10, &shape->layers);
    case HEADS: return parse_count(text, 1, 1 << 10, &shape->heads);
    case HIDDEN: return parse_count(text, 1, 1 << 15, &shape->hidden);
    case UNTIED: shape->tied = false; return true;
    case STEPS:
        good = parse_count(text, 1, 1e9, &count);
        trainer->schedule.steps = count;
        return good;
    case BATCH: return parse_count(text, 1, 1 << 16, &trainer->batch);
    case MICRO_BATCH:
        options->has_micro_batch = true;
        return parse_count(text, 1, 1 << 16, &trainer->model.samples_max);
    case RATE: return parse_real(text, 0, 1e3, &trainer->schedule.rate);
    case WARM_UP:
        good = parse_count(text, 0, 1e9, &count);
        trainer->schedule.warm_up_steps = count;
        return good;
    case WEIGHT_DECAY: return parse_real(text, 0, 1e3, &trainer->adamw.weight_decay);
    case CLIP: return parse_real(text, 1e-9, 1e9, &trainer->clip);
    case DROPOUT:
        good = parse_real(text, 0, 0.99, &number);
        trainer->model.dropout = (real)number;
        return good;
    case RECOMPUTE: trainer->model.recompute = true; return true;
    case SEED:
        good = parse_count(text, 0, 0x1p53, &count);
        trainer->model.seed = count;
        return good;
    case REPORT: return parse_count(text, 1, 1e9, &options->report_steps);
    case HELD_OUT: return parse_count(text, 0, 1e9, &options->held_out_samples);
    case WRITE: return parse_count(text, 0, 1e9, &options->write_tokens);
    case TEMPERATURE: return parse_real(text, 0, 1e3, &options->temperature);
    case CHECK_GRADIENTS: options->check_gradients = true; return true;
    case ELASTIC: options->is_elastic = true; return true;
    default: return set_parallel(options, name, text);
    }
}

/* NULL if the options fit together. */
static const char *find_mistake(const struct options *options)
{
    const struct trainer_options *trainer = &options->trainer;
    const struct shape *shape = &trainer->model.shape;
    if (shape->width % (2 * shape->heads) != 0)
        return "the width has to be a multiple of twice the heads";
    if (!options->is_elastic && trainer->batch % trainer->model.samples_max != 0)
        return "the batch has to be a multiple of the micro-batch";
    const struct parallel_options *parallel = &options->parallel;
    if (parallel->chunks > 1 && strcmp(parallel->schedule, "interleaved") != 0)
        return "several chunks are for --schedule interleaved";
    if (parallel->wide_gradients && parallel->weights == WEIGHTS_REAL)
        return "gradients are wide anyway without --dtype bf16";
    if (options->is_elastic && options->mesh_option != NULL) {
        static char mistake[MISTAKE_BYTES];
        snprintf(mistake, sizeof mistake,
                 "--elastic is for replicas of the whole model, without --%s", options->mesh_option);
        return mistake;
    }
    if (options->check_gradients && (options->wants_ranks || options->is_elastic))
        return "gradients are checked in one process";
    if (options->checkpointing.resume && options->checkpointing.folder == NULL)
        return "--resume needs a folder: --checkpoint DIR";
    if (options->checkpointing.folder != NULL && options->parallel.is_unconnected)
        return "without communication there is nothing worth a checkpoint";
    if (options->check_single && options->parallel.is_unconnected)
        return "without communication there is nothing to compare with one process";
    if (options->check_gradients && sizeof(real) < sizeof(double))
        return "gradients can be checked in double alone: use gpt_double";
    return NULL;
}

/* Of many ranks with the same arguments one tells what is wrong with them. */
static bool is_teller(void)
{
    int rank;
    const char *const joins = getenv("TUTTI_ELASTIC_JOIN");
    if (joins != NULL && strcmp(joins, "1") == 0) return false;
    return tutti_launcher(&rank, NULL) == NULL || rank == 0;
}

int options_parse(int argument_count, char **arguments, struct options *options)
{
    const bool tells = is_teller();
    *options =
        (struct options){.tells = tells,
                         .held_out_samples = 256,
                         .write_tokens = 200,
                         .temperature = 0.7,
                         .checkpointing = {.every_steps = 100, .keep = 2},
                         .parallel = {.mesh = {.stages = 1, .slices = 1},
                                      .zero = 1,
                                      .ahead = 2,
                                      .schedule = "1f1b",
                                      .compression = {.compressor = TUTTI_COMPRESSOR_OPTIONS_INIT},
                                      .profile_steps = 3}};
    options->trainer = (struct trainer_options){
        .model = {.shape = {.vocabulary = 512,
                            .context = 128,
                            .width = 128,
                            .layers = 4,
                            .heads = 4,
                            .tied = true},
                  .seed = 1,
                  .exchange = &exchange_alone},
        .batch = 8,
        .schedule = {.rate = 0.003, .warm_up_steps = 40, .steps = 1000},
        .adamw = {.first_decay = 0.9, .second_decay = 0.95, .epsilon = 1e-8, .weight_decay = 0.1},
        .clip = 1};
    opterr = tells;
    for (int name, i = 0; (name = getopt_long(argument_count, arguments, "", list, &i)) != -1;) {
        if (name == HELP) {
            if (tells) fputs(usage, stdout);
            return 0;
        }
        if (name != '?' && set(options, name, optarg)) {
            if (name >= MESH && name != CHECKPOINT && name != RESUME)
                options->mesh_option = list[i].name;
            continue;
        }
        if (name != '?' && tells)
            fprintf(stderr, "gpt: this makes no sense: --%s %s\n", list[i].name, optarg);
        if (tells) fputs("options: gpt --help\n", stderr);
        return 2;
    }
    struct model_options *model = &options->trainer.model;
    struct shape *shape = &model->shape;
    if (shape->hidden == 0) shape->hidden = (shape->width * 8 / 3 + 31) / 32 * 32;
    /* Ranks may come and go, but what is computed at once has to stay, for the bits. */
    const size_t at_once = options->is_elastic && options->trainer.batch > ELASTIC_SAMPLES
                               ? ELASTIC_SAMPLES
                               : options->trainer.batch;
    if (model->samples_max == 0) model->samples_max = at_once;
    struct parallel_options *parallel = &options->parallel;
    if (parallel->chunks == 0)
        parallel->chunks = strcmp(parallel->schedule, "interleaved") == 0 ? 2 : 1;
    model->part = part_whole(shape);
    const char *mistake = optind < argument_count ? arguments[optind] : find_mistake(options);
    if (mistake == NULL) return -1;
    if (tells)
        fprintf(stderr, "gpt: %s%s\n", optind < argument_count ? "this is no option: " : "",
                mistake);
    return 2;
}
