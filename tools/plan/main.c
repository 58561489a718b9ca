/* tutti-plan - lists algorithms; shows, proves, draws and exports their plans, or those of files. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "file.h"
#include "options.h"
#include "paths.h"
#include "plan/text.h"
#include "studio/plan/draw.h"
#include "verify.h"

/* ------------------------------------------------------------------------------------------ getting a plan */

static struct plan *make_plan(const struct options *options)
{
    const struct algo_params params = {
        .collective = options->collective,
        .rank_count = options->ranks_min,
        .root = options->root == ALL_ROOTS ? 0 : options->root,
        .in_place = options->in_place,
        .radix = options->radix,
        .order = options->order,
        .levels = options->hosts.rank_count > 0 ? &options->hosts.levels : NULL};
    struct plan *plan;
    const char *message;
    if (algo_plan(options->algorithm, &params, &plan, &message) != TUTTI_OK)
        file_fail(options->algorithm->name, message);
    return plan;
}

/* NULL when there is none, which has been said. */
static struct plan *get_plan(const struct options *options, bool *in_place)
{
    *in_place = options->in_place;
    return options->file != NULL ? file_read_plan(options->file, in_place) : make_plan(options);
}

/* ------------------------------------------------------------------------------------------------ list */

/* "hosts, radix, 2^k ranks, commutative, deterministic" */
static const char *properties(const struct algorithm *algorithm, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s%s%s", algorithm->needs_levels ? ", hosts" : "",
             algorithm->has_radix ? ", radix" : "",
             algorithm->needs_power_of_two ? ", 2^k ranks" : "",
             algorithm->needs_commutative ? ", commutative" : "",
             algorithm->deterministic ? ", deterministic" : "");
    return text[0] == '\0' ? "" : text + 2;
}

static void list_as_text(const struct algorithm *algorithm)
{
    char text[80];
    printf("  %-22s %s\n", algorithm->name, algorithm->summary);
    printf("  %-22s %s", "", algorithm->cost);
    if (*properties(algorithm, text, sizeof text))
        printf("  [%s]", properties(algorithm, text, sizeof text));
    printf("\n");
}

static void list_as_markdown(const struct algorithm *algorithm)
{
    char text[80];
    printf("| `%s` | %s | `%s` | %s | %s |\n", algorithm->name, algorithm->summary, algorithm->cost,
           properties(algorithm, text, sizeof text), algorithm->source);
}

static enum exit_code list(const struct options *options)
{
    for (int i = 0; i < COLLECTIVE_COUNT; i++) {
        const enum collective collective = (enum collective)i;
        if (options->collective != COLLECTIVE_COUNT && options->collective != collective) continue;
        if (options->markdown)
            printf("### %s\n\n| algorithm | what it does | cost | properties | origin |\n"
                   "|---|---|---|---|---|\n",
                   collective_name(collective));
        else
            printf("%s\n", collective_name(collective));
        for (int k = 0; k < algo_count; k++) {
            if (algo_list[k].collective != collective) continue;
            if (options->markdown)
                list_as_markdown(&algo_list[k]);
            else
                list_as_text(&algo_list[k]);
        }
        printf("\n");
    }
    return EXIT_FINE;
}

/* ------------------------------------------------------------------------------------- show and verify */

static enum exit_code show(const struct options *options)
{
    bool in_place;
    struct plan *plan = get_plan(options, &in_place);
    if (plan == NULL) return EXIT_WRONG;
    plan_print(plan, stdout);
    plan_free(plan);
    return EXIT_FINE;
}

static enum exit_code verify(const struct options *options)
{
    if (options->file == NULL) return verify_algorithms(options);
    bool in_place;
    struct plan *plan = get_plan(options, &in_place);
    if (plan == NULL) return EXIT_WRONG;
    const enum exit_code code = verify_plan(plan, in_place);
    plan_free(plan);
    return code;
}

static enum exit_code export_as(const struct options *options)
{
    struct options how = *options;
    struct plan *plan = get_plan(options, &how.in_place);
    if (plan == NULL) return EXIT_WRONG;
    const enum exit_code code = file_export_plan(plan, &how);
    plan_free(plan);
    return code;
}

/* ------------------------------------------------------------------------------------------------ draw */

static uint32_t widest_input(const struct plan *plan)
{
    uint32_t widest = 0;
    for (int rank = 0; rank < plan->shape.rank_count; rank++) {
        const uint32_t count = plan_chunk_count(&plan->shape, rank, PLAN_INPUT);
        if (count > widest) widest = count;
    }
    return widest;
}

/* "2,4,6/1,2,3/4,8,12": value_count numbers for each rank. */
static bool read_values(const char *text, size_t rank_count, size_t value_count, double *values)
{
    for (size_t i = 0; i < rank_count * value_count; i++) {
        char *end;
        values[i] = strtod(text, &end);
        if (end == text || !isfinite(values[i])) return false;
        const char wanted = i + 1 == rank_count * value_count ? '\0'
                            : (i + 1) % value_count == 0      ? '/'
                                                              : ',';
        if (*end != wanted) return false;
        text = end + 1;
    }
    return rank_count * value_count > 0;
}

static enum exit_code draw_with(const struct plan *plan, const struct draw_options *how,
                                const struct options *options)
{
    char *text = NULL;
    size_t size;
    const char *message;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return file_fail("picture", strerror(errno));
    const enum tutti_status status = plan_draw_svg(plan, how, file, &message);
    const bool written = fclose(file) == 0;
    enum exit_code code;
    if (status != TUTTI_OK)
        code = file_fail("picture", message);
    else
        code = written ? file_write(options->output, text, size)
                       : file_fail("picture", "out of memory");
    free(text);
    return code;
}

static enum exit_code draw_plan(const struct plan *plan, bool in_place,
                                const struct options *options)
{
    char title[160] = "";
    const size_t rank_count = (size_t)plan->shape.rank_count;
    struct draw_options how = {
        .title = options->title,
        .rounds = {.ports = options->ports, .in_place = in_place, .value_count = widest_input(plan)}};
    double *values = NULL;
    if (how.title == NULL && options->algorithm != NULL) {
        snprintf(title, sizeof title, "%s %s of %zu ranks", options->algorithm->name,
                 collective_name(options->collective), rank_count);
        how.title = title;
    }
    enum exit_code code = EXIT_FINE;
    if (options->values != NULL) {
        values = calloc(rank_count * how.rounds.value_count + 1, sizeof *values);
        if (values == NULL) return file_fail("values", "out of memory");
        how.rounds.example_values = values;
        if (!read_values(options->values, rank_count, how.rounds.value_count, values))
            code =
                usage_error("--values wants %u numbers, with commas, for each of %zu ranks, with /",
                            how.rounds.value_count, rank_count);
    }
    if (code == EXIT_FINE) code = draw_with(plan, &how, options);
    free(values);
    return code;
}

static enum exit_code draw(const struct options *options)
{
    bool in_place;
    struct plan *plan = get_plan(options, &in_place);
    if (plan == NULL) return EXIT_WRONG;
    const enum exit_code code = draw_plan(plan, in_place, options);
    plan_free(plan);
    return code;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        enum exit_code (*run)(const struct options *options);
    } commands[] = {{"list", list},      {"show", show},        {"verify", verify},
                    {"draw", draw},      {"export", export_as}, {"paths", print_paths},
                    {"explain", explain}};
    struct options options;
    enum exit_code code = options_parse(argc, argv, &options);
    for (size_t i = 0;
         code == EXIT_FINE && options.command != NULL && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, options.command) == 0) {
            code = commands[i].run(&options);
            break;
        }
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_FINE)
        code = file_fail("standard output", strerror(errno));
    options_release(&options);
    return code;
}
