#include "paths.h"

#include <stdio.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "base/dtype.h"
#include "base/op.h"
#include "base/status.h"
#include "encoded.h"
#include "encoding/encoding.h"
#include "engine/bind.h"
#include "plan/verify.h"
#include "transport/paths.h"
#include "tune/choose.h"

/* The facts of one call that all its ranks have in common. */
struct job {
    const struct algorithm *algorithm;
    struct algo_params params;
    size_t count;
    unsigned memory;
    bool shares_cores, says_why;
    const struct encoding_wish *wish;
    struct kernel_set encoding_kernels;
    int *places; /* of each rank, if links are encoded; or NULL */
    struct transport_path path;
    struct transport_group everybody;
    int *ranks;
};

static enum exit_code complain(const char *what)
{
    fprintf(stderr, "tutti-plan: paths: %s\n", what);
    return EXIT_WRONG;
}

/* One rank's program, and the messages that its steps send, as the tables see them. The caller
 * frees both. NULL: there is no program, which has been said. */
static struct program *bind_rank(const struct job *job, int rank, struct path_case **cases)
{
    struct rank_plan *plan;
    struct program *program = NULL;
    const char *message = "";
    *cases = NULL;
    if (algo_rank_plan(job->algorithm, &job->params, rank, &plan, &message) != TUTTI_OK) {
        complain(message);
        return NULL;
    }
    *cases = calloc(plan->step_count + 1, sizeof **cases);
    const struct bind_options options = {
        .count = job->count,
        .dtype = TUTTI_FLOAT32,
        .op = op_builtin(OP_SUM),
        .level = KERNEL_SCALAR,
        .algorithm = job->algorithm->name,
        .in_place = job->params.in_place,
        .shares_cores = job->shares_cores,
        .encoding = job->places != NULL ? encoding_of(job->wish->encoding, TUTTI_FLOAT32) : NULL,
        .places = job->places,
        .encoding_kernels = &job->encoding_kernels,
        .memory = job->memory,
        .paths = &job->path.map,
        .piece_bytes_max = job->path.piece_bytes_max,
        .piece_count_max = job->path.piece_count_max,
        .groups = &job->everybody,
        .group_count = job->path.has_group,
        .cases = *cases};
    if (*cases == NULL)
        complain("out of memory");
    else if (bind_program(plan, &options, &program) != TUTTI_OK)
        complain(tutti_error_message());
    if (program == NULL) free(*cases);
    plan_rank_free(plan);
    return program;
}

static bool job_init(struct job *job, const struct options *options)
{
    *job = (struct job){
        .algorithm = options->algorithm,
        .params = {.rank_count = options->ranks_min,
                   .root = options->root == ALL_ROOTS ? 0 : options->root,
                   .in_place = options->in_place,
                   .radix = options->radix,
                   .order = options->order,
                   .levels = options->hosts.rank_count > 0 ? &options->hosts.levels : NULL},
        .memory = options->memory,
        .shares_cores = options->shares_cores,
        .says_why = options->says_why,
        .wish = &options->encoding,
        .encoding_kernels = encoding_kernels(KERNEL_SCALAR, TUTTI_FLOAT32),
        .ranks = calloc((size_t)options->ranks_min, sizeof *job->ranks)};
    if (job->ranks == NULL) return false;
    for (int r = 0; r < options->ranks_min; r++) job->ranks[r] = r;
    bool none = true;
    if (encoded_is_asked(job->wish))
        job->places = encoded_places(job->wish, &options->hosts, options->ranks_min, &none);
    if (job->places == NULL && !none) return false;
    job->params.encodes = job->places != NULL;
    job->everybody = (struct transport_group){job->ranks, options->ranks_min};
    return transport_path_of(options->transport, options->ranks_min, &job->path);
}

static const struct path_table *table_of(const struct job *job)
{
    return job->path.map.tables[0];
}

/* The algorithm that is chosen for blocks of that size, by shipped numbers: with as many cores as
 * ranks, or half as many. */
static bool choose(struct job *job, size_t bytes)
{
    struct calibration calibration;
    const int ranks = job->params.rank_count;
    struct tune_site site = {.rank_count = ranks,
                             .core_count = job->shares_cores ? (ranks + 1) / 2 : ranks,
                             .within = table_of(job),
                             .piece_bytes_max = job->path.piece_bytes_max,
                             .piece_count_max = job->path.piece_count_max,
                             .calibration = &calibration};
    calibration_init(&calibration, NULL, NULL);
    site.fingerprint = tune_site_fingerprint(&site, 0);
    struct choose_call call = {.question = {.collective = job->params.collective,
                                            .dtype = TUTTI_FLOAT32,
                                            .bytes = bytes,
                                            .is_mapped = job->memory == PATH_MAPPED},
                               .site = &site};
    if (job->places != NULL) encoded_ask(job->wish, &call);
    struct choice choice;
    if (choose_algorithm(&call, &choice) != TUTTI_OK) {
        complain(tutti_error_message());
        return false;
    }
    job->algorithm = choice.algorithm;
    job->params.radix = choice.radix;
    return true;
}

/* ------------------------------------------------------------------------------------------ why */

static void print_rule(char sign, const struct path_rule *rule, const char *unless)
{
    printf("       %c %s", sign, path_kind_name(rule->path));
    if (rule->bytes_max < SIZE_MAX && rule->bytes_min > 0)
        printf(" from %zu to %zu bytes", rule->bytes_min, rule->bytes_max);
    else if (rule->bytes_max < SIZE_MAX)
        printf(" up to %zu bytes", rule->bytes_max);
    else if (rule->bytes_min > 1)
        printf(" from %zu bytes on", rule->bytes_min);
    if (rule->readers_max > 0) printf(", up to %u readers", rule->readers_max);
    if (rule->all_bytes_max > 0) printf(", up to %zu of all ranks together", rule->all_bytes_max);
    printf("%s: %s\n", unless, rule->why);
}

/* Whether the table's links have the path, but not for such memory. */
static bool memory_forbids(const struct job *job, enum path_kind path)
{
    const struct path_row *row = path_row_of(table_of(job), path);
    const unsigned needed = path == PATH_WRITE ? row->receiver_memory : row->sender_memory;
    return job->memory != 0 && (needed & job->memory) == 0;
}

/* The option that would have to differ for a rule to put its path in the list; NULL: none that
 * --count, --memory and --shared-cores say. */
static const char *unless_of(const struct job *job, const struct path_rule *rule,
                             const struct path_case *message)
{
    struct path_case other = *message;
    const bool in_other_memory = memory_forbids(job, rule->path);
    if (path_applies(rule, message)) return in_other_memory ? ", in other memory" : NULL;
    other.bytes = rule->bytes_min;
    if (path_applies(rule, &other)) return in_other_memory ? ", in other memory" : "";
    const bool shares = message->cores == PATH_SHARED_CORES;
    other.cores = shares ? PATH_OWN_CORES : PATH_SHARED_CORES;
    if (in_other_memory || !path_applies(rule, &other)) return NULL;
    return shares ? ", where each rank has a core" : ", where ranks share cores";
}

/* The rules that put paths in a message's list, and the rules that would if something were
 * different. */
static void print_why(const struct job *job, const struct path_case *message,
                      const struct path_list *list)
{
    const struct path_table *const table = table_of(job);
    for (unsigned i = 0; i < table->rule_count; i++)
        if (path_has(list, table->rules[i].path) && path_applies(&table->rules[i], message))
            print_rule('+', &table->rules[i], "");
    for (unsigned i = 0; i < table->rule_count; i++) {
        const char *unless = unless_of(job, &table->rules[i], message);
        if (unless != NULL) print_rule('-', &table->rules[i], unless);
    }
}

/* The same of what a step stores. */
static void print_why_stored(const struct job *job, const struct program_step *step)
{
    struct path_case message = {.bytes = step->bytes,
                                .traffic = path_traffic_of(job->params.collective),
                                .readers = PATH_TO_ONE,
                                .step = PATH_STORES,
                                .cores = job->shares_cores ? PATH_SHARED_CORES : PATH_OWN_CORES,
                                .senders = PATH_FEW_SENDERS,
                                .rank_count = job->params.rank_count};
    struct path_list list = {.count = 0};
    if (step_has(step, STEP_EXPECTS)) path_add(&list, PATH_WRITE);
    if (step_has(step, STEP_PLACES_DIRECTLY)) path_add(&list, PATH_DIRECT);
    print_why(job, &message, &list);
}

/* --------------------------------------------------------------------------------- step by step */

static void print_targets(const struct program *program, const struct program_step *step,
                          char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < step->tx_count && used < size; i++) {
        const struct program_link *link = &program->tx_links[program->step_tx[step->first_tx + i]];
        const char *comma = i > 0 ? ", " : "";
        used += (size_t)(link->group != PROGRAM_NONE
                             ? snprintf(text + used, size - used, "%sall", comma)
                             : snprintf(text + used, size - used, "%s%d", comma, link->peer));
        if (link->encoding != NULL && used < size)
            used += (size_t)snprintf(
                text + used, size - used, " (%zu in %s)",
                program_tx_bytes(program, (uint32_t)program->step_tx[step->first_tx + i],
                                 step->bytes),
                link->encoding->name);
    }
}

static void print_step(const struct job *job, const struct program *program, uint32_t s,
                       const struct path_case *message)
{
    const struct program_step *step = &program->steps[s];
    char paths[160], targets[160];
    if (step->tx_count > 0) {
        const struct path_list *list = &program->lists[step->paths];
        path_describe(list, paths, sizeof paths);
        print_targets(program, step, targets, sizeof targets);
        printf("    %u: %zu bytes to %s: %s\n", s, step->bytes, targets, paths);
        if (job->says_why) print_why(job, message, list);
    }
    if (step_has(step, STEP_EXPECTS)) printf("    %u: %zu bytes are advertised\n", s, step->bytes);
    if (step_has(step, STEP_PLACES_DIRECTLY))
        printf("    %u: %zu bytes may be placed directly\n", s, step->bytes);
    if (job->says_why && step_has(step, STEP_EXPECTS | STEP_PLACES_DIRECTLY))
        print_why_stored(job, step);
}

static bool is_printed(const struct program_step *step)
{
    return step->tx_count > 0 || step_has(step, STEP_EXPECTS | STEP_PLACES_DIRECTLY);
}

/* Lanes that only receive, with nothing to say about it, are left out. */
static void print_lane(const struct job *job, const struct program *program, uint32_t l,
                       const struct path_case *cases)
{
    const struct program_lane *lane = &program->lanes[l];
    bool has_head = false;
    for (uint32_t s = lane->first_step; s < lane->end_step; s++) {
        if (!is_printed(&program->steps[s])) continue;
        if (!has_head) printf("  lane %u\n", l);
        has_head = true;
        print_step(job, program, s, &cases[s]);
    }
}

static void print_rank(const struct job *job, const struct program *program, int rank,
                       const struct path_case *cases)
{
    bool is_silent = true;
    for (uint32_t s = 0; s < program->step_count; s++) is_silent &= !is_printed(&program->steps[s]);
    printf("rank %d%s\n", rank, is_silent ? " sends nothing" : "");
    for (uint32_t l = 0; l < program->lane_count; l++) print_lane(job, program, l, cases);
}

/* Says how often the plan rounds, or why it cannot run so. */
static enum exit_code print_roundings(const struct job *job)
{
    struct plan *plan;
    struct verify_report report;
    const char *message = "";
    char text[160];
    const char *const why = encoded_why_not(job->wish, job->algorithm);
    if (why != NULL) {
        fprintf(stderr, "tutti-plan: paths: %s %s\n", job->algorithm->name, why);
        return EXIT_WRONG;
    }
    if (algo_plan(job->algorithm, &job->params, &plan, &message) != TUTTI_OK)
        return complain(message);
    const struct verify_options how = {.in_place = job->params.in_place, .places = job->places};
    const enum verify_verdict verdict = plan_verify(plan, &how, &report);
    plan_free(plan);
    if (verdict != VERIFY_PROVEN) return complain(report.message);
    encoded_describe(job->wish, report.roundings, text, sizeof text);
    printf("%s\n", text);
    return EXIT_FINE;
}

static enum exit_code print_steps(struct job *job, const struct options *options)
{
    job->params.collective = options->collective;
    job->count = (size_t)options->count;
    if (job->algorithm == NULL) {
        if (!choose(job, job->count * sizeof(float))) return EXIT_WRONG;
        printf("algorithm %s\n", job->algorithm->name);
    }
    if (job->places != NULL && print_roundings(job) != EXIT_FINE) return EXIT_WRONG;
    if (encoded_is_asked(job->wish) && job->places == NULL) printf("no link is encoded\n");
    for (int rank = 0; rank < job->params.rank_count; rank++) {
        struct path_case *cases;
        struct program *program = bind_rank(job, rank, &cases);
        if (program == NULL) return EXIT_WRONG;
        print_rank(job, program, rank, cases);
        program_free(program);
        free(cases);
    }
    return EXIT_FINE;
}

/* -------------------------------------------------------------------------------------- a table */

enum { SIZE_COUNT = 6 };
static const size_t sizes[SIZE_COUNT] = {8, 1 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20};
static const char *const size_names[SIZE_COUNT] = {"8 B",     "1 KiB", "32 KiB",
                                                   "256 KiB", "2 MiB", "16 MiB"};

/* The paths that messages take when receivers keep up: the first path of each list that is
 * possible, and the path by which they come where a receiver has said where they belong. */
static unsigned first_paths(const struct program *program, bool may_forward)
{
    unsigned bits = 0;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const struct program_step *step = &program->steps[s];
        const struct path_list *list = &program->lists[step->paths];
        if (step_has(step, STEP_EXPECTS))
            bits |= path_bit(PATH_WRITE);
        else if (step_has(step, STEP_PLACES_DIRECTLY))
            bits |= path_bit(PATH_DIRECT);
        for (uint32_t i = 0; i < list->count; i++) {
            const enum path_kind path = (enum path_kind)list->paths[i];
            if ((path == PATH_WRITE && !step_has(step, STEP_PLACES)) ||
                (path == PATH_FORWARD && !may_forward))
                continue;
            bits |= path_bit(path);
            break;
        }
    }
    return bits;
}

static bool print_cell(struct job *job, size_t bytes)
{
    if (!choose(job, bytes)) return false;
    job->count = bytes / sizeof(float);
    unsigned bits = 0;
    for (int rank = 0; rank < job->params.rank_count; rank++) {
        struct path_case *cases;
        struct program *program = bind_rank(job, rank, &cases);
        if (program == NULL) return false;
        const unsigned paths = first_paths(program, false);
        bits |= paths; /* only a message that came in a shared slot can be forwarded */
        if ((paths & path_bit(PATH_SHARED_SLOT)) != 0) bits |= first_paths(program, true);
        program_free(program);
        free(cases);
    }
    printf(" %s:", job->algorithm->name);
    for (int path = 0, written = 0; path < PATH_KIND_COUNT; path++)
        if ((bits & path_bit((unsigned)path)) != 0)
            printf("%s %s", written++ > 0 ? "," : "", path_kind_name((enum path_kind)path));
    printf(" |");
    return true;
}

static enum exit_code print_table(struct job *job, const struct options *options)
{
    printf("| |");
    for (int i = 0; i < SIZE_COUNT; i++) printf(" %s |", size_names[i]);
    printf("\n|---|");
    for (int i = 0; i < SIZE_COUNT; i++) printf("---|");
    printf("\n");
    for (int c = 0; c < COLLECTIVE_COUNT; c++) {
        job->params.collective = (enum collective)c;
        if (options->collective != COLLECTIVE_COUNT && options->collective != (enum collective)c)
            continue;
        printf("| %s |", collective_name((enum collective)c));
        for (int i = 0; i < SIZE_COUNT; i++) {
            const bool is_empty = c == COLLECTIVE_BARRIER && i > 0;
            if (is_empty)
                printf(" |");
            else if (!print_cell(job, c == COLLECTIVE_BARRIER ? 0 : sizes[i]))
                return EXIT_WRONG;
        }
        printf("\n");
    }
    return EXIT_FINE;
}

enum exit_code print_paths(const struct options *options)
{
    struct job job;
    enum exit_code code = EXIT_WRONG;
    if (!job_init(&job, options))
        code = complain("out of memory");
    else
        code = options->all ? print_table(&job, options) : print_steps(&job, options);
    free(job.ranks);
    free(job.places);
    return code;
}
