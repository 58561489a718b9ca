#include "tutti-plan_paths.h"

#include <stdio.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "base/dtype.h"
#include "base/op.h"
#include "base/status.h"
#include "engine/bind.h"
#include "transport/paths.h"
#include "tune/choose.h"

/* What all ranks of one call have in common. */
struct job {
    const struct algorithm *algorithm;
    struct algo_params params;
    size_t count;
    unsigned memory;
    bool shares_cores;
    struct transport_path path;
    struct transport_group everybody;
    int *ranks;
};

static enum exit_code complain(const char *what)
{
    fprintf(stderr, "tutti-plan: paths: %s\n", what);
    return EXIT_WRONG;
}

/* One rank's program; NULL: there is none, which has been said. */
static struct program *bind_rank(const struct job *job, int rank)
{
    struct rank_plan *plan;
    struct program *program = NULL;
    const char *message = "";
    if (algo_rank_plan(job->algorithm, &job->params, rank, &plan, &message) != TUTTI_OK) {
        complain(message);
        return NULL;
    }
    const struct bind_options options = {.count = job->count,
                                         .dtype = TUTTI_FLOAT32,
                                         .op = op_builtin(OP_SUM),
                                         .level = KERNEL_SCALAR,
                                         .algorithm = job->algorithm->name,
                                         .in_place = job->params.in_place,
                                         .shares_cores = job->shares_cores,
                                         .memory = job->memory,
                                         .paths = &job->path.map,
                                         .piece_bytes_max = job->path.piece_bytes_max,
                                         .piece_count_max = job->path.piece_count_max,
                                         .groups = &job->everybody,
                                         .group_count = job->path.has_group};
    if (bind_program(plan, &options, &program) != TUTTI_OK) complain(tutti_error_message());
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
        .ranks = calloc((size_t)options->ranks_min, sizeof *job->ranks)};
    if (job->ranks == NULL) return false;
    for (int r = 0; r < options->ranks_min; r++) job->ranks[r] = r;
    job->everybody = (struct transport_group){job->ranks, options->ranks_min};
    return transport_path_of(options->transport, options->ranks_min, &job->path);
}

/* ------------------------------------------------------------------------------------------ step by step */

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
    }
}

static void print_step(const struct program *program, uint32_t s)
{
    const struct program_step *step = &program->steps[s];
    char ways[160], targets[160];
    if (step->tx_count > 0) {
        path_describe(&program->lists[step->ways], ways, sizeof ways);
        print_targets(program, step, targets, sizeof targets);
        printf("    %u: %zu bytes to %s: %s\n", s, step->bytes, targets, ways);
    }
    if (step->expects) printf("    %u: %zu bytes are advertised\n", s, step->bytes);
    if (step->places_directly) printf("    %u: %zu bytes may be placed directly\n", s, step->bytes);
}

static void print_rank(const struct program *program, int rank)
{
    printf("rank %d\n", rank);
    for (uint32_t l = 0; l < program->lane_count; l++) {
        printf("  lane %u\n", l);
        for (uint32_t s = program->lanes[l].first_step; s < program->lanes[l].end_step; s++)
            print_step(program, s);
    }
}

static enum exit_code print_steps(struct job *job, const struct options *options)
{
    job->params.collective = options->collective;
    job->count = (size_t)options->count;
    for (int rank = 0; rank < job->params.rank_count; rank++) {
        struct program *program = bind_rank(job, rank);
        if (program == NULL) return EXIT_WRONG;
        print_rank(program, rank);
        program_free(program);
    }
    return EXIT_FINE;
}

/* ----------------------------------------------------------------------------------------------- a table */

enum { SIZE_COUNT = 6 };
static const size_t sizes[SIZE_COUNT] = {8, 1 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20};
static const char *const size_names[SIZE_COUNT] = {"8 B",     "1 KiB", "32 KiB",
                                                   "256 KiB", "2 MiB", "16 MiB"};

/* Whether what a rank stores can come that way, by the memory that it is stored in. */
static bool can_come(const struct job *job, enum path_way way)
{
    const struct path_row *row = path_row_of(job->path.map.tables[0], way);
    return row != NULL && (job->memory == 0 || (row->receiver_memory & job->memory) != 0);
}

/* What messages take when receivers keep up: the first way of each list that is possible, and the way by which they come where a receiver
 * has said where they belong. */
static unsigned first_ways(const struct job *job, const struct program *program, bool may_forward)
{
    unsigned bits = 0;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const struct program_step *step = &program->steps[s];
        const struct path_list *list = &program->lists[step->ways];
        const enum path_way comes = step->expects ? PATH_WRITE : PATH_DIRECT;
        if ((step->expects || step->places_directly) && can_come(job, comes))
            bits |= path_bit(comes);
        for (uint32_t i = 0; i < list->count; i++) {
            const enum path_way way = (enum path_way)list->ways[i];
            if ((way == PATH_WRITE && !step->places) || (way == PATH_FORWARD && !may_forward))
                continue;
            bits |= path_bit(way);
            break;
        }
    }
    return bits;
}

static bool print_cell(struct job *job, size_t bytes, bool mapped)
{
    const struct choose_call call = {.collective = job->params.collective,
                                     .bytes = bytes,
                                     .rank_count = job->params.rank_count,
                                     .oversubscribed = job->shares_cores,
                                     .mapped = mapped,
                                     .over_sockets = !job->path.has_group};
    struct choice choice;
    if (choose_algorithm(&call, &choice) != TUTTI_OK) {
        complain(tutti_error_message());
        return false;
    }
    job->algorithm = choice.algorithm;
    job->params.radix = choice.radix;
    job->count = bytes / sizeof(float);
    unsigned bits = 0;
    for (int rank = 0; rank < job->params.rank_count; rank++) {
        struct program *program = bind_rank(job, rank);
        if (program == NULL) return false;
        const unsigned ways = first_ways(job, program, false);
        bits |= ways; /* only a message that came in a shared slot can be forwarded */
        if ((ways & path_bit(PATH_SHARED_SLOT)) != 0) bits |= first_ways(job, program, true);
        program_free(program);
    }
    printf(" %s:", choice.algorithm->name);
    for (int way = 0, written = 0; way < PATH_WAY_COUNT; way++)
        if ((bits & path_bit((unsigned)way)) != 0)
            printf("%s %s", written++ > 0 ? "," : "", path_way_name((enum path_way)way));
    printf(" |");
    return true;
}

static enum exit_code print_table(struct job *job, const struct options *options)
{
    const bool mapped = options->memory == PATH_MAPPED;
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
            else if (!print_cell(job, c == COLLECTIVE_BARRIER ? 0 : sizes[i], mapped))
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
    return code;
}
