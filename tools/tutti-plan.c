/* tutti-plan - lists algorithms; shows, proves and draws their plans, or those of files. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/file.h"
#include "plan/draw.h"
#include "plan/text.h"
#include "tutti-plan_explain.h"
#include "tutti-plan_options.h"
#include "tutti-plan_paths.h"
#include "tutti-plan_verify.h"

enum { FILE_BYTES_MAX = 1 << 28 };

static enum exit_code fail(const char *what, const char *why)
{
    fprintf(stderr, "tutti-plan: %s: %s\n", what, why);
    return EXIT_WRONG;
}

/* ------------------------------------------------------------------------------------------ getting a plan */

static struct plan *read_plan(const char *name)
{
    const bool standard = strcmp(name, "-") == 0;
    size_t size = 0;
    char message[200];
    struct plan *plan = NULL;
    FILE *file = standard ? stdin : fopen(name, "rbe");
    char *text = file == NULL ? NULL : file_read_all(file, FILE_BYTES_MAX, &size);
    if (text == NULL)
        fail(name, strerror(errno));
    else if (plan_parse(text, size, &plan, message, sizeof message) != TUTTI_OK)
        fail(name, message);
    free(text);
    if (file != NULL && !standard) fclose(file);
    return plan;
}

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
        fail(options->algorithm->name, message);
    return plan;
}

/* NULL when there is none, which has been said. */
static struct plan *get_plan(const struct options *options)
{
    return options->file != NULL ? read_plan(options->file) : make_plan(options);
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
    struct plan *plan = get_plan(options);
    if (plan == NULL) return EXIT_WRONG;
    plan_print(plan, stdout);
    plan_free(plan);
    return EXIT_FINE;
}

static enum exit_code verify(const struct options *options)
{
    if (options->file == NULL) return verify_algorithms(options);
    struct plan *plan = read_plan(options->file);
    if (plan == NULL) return EXIT_WRONG;
    const enum exit_code code = verify_plan(plan, options);
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

/* The picture is whole before the file is touched. */
static enum exit_code write_out(const char *name, const char *text, size_t size)
{
    FILE *file = name == NULL ? stdout : fopen(name, "wbe");
    if (file == NULL) return fail(name, strerror(errno));
    bool written = fwrite(text, 1, size, file) == size && fflush(file) == 0;
    int error = errno;
    if (name != NULL && fclose(file) != 0 && written) {
        written = false;
        error = errno;
    }
    return written ? EXIT_FINE : fail(name == NULL ? "standard output" : name, strerror(error));
}

static enum exit_code draw_with(const struct plan *plan, const struct draw_options *how,
                                const struct options *options)
{
    char *text = NULL;
    size_t size;
    const char *message;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return fail("picture", strerror(errno));
    const enum tutti_status status = plan_draw_svg(plan, how, file, &message);
    const bool written = fclose(file) == 0;
    enum exit_code code;
    if (status != TUTTI_OK)
        code = fail("picture", message);
    else
        code = written ? write_out(options->output, text, size) : fail("picture", "out of memory");
    free(text);
    return code;
}

static enum exit_code draw_plan(const struct plan *plan, const struct options *options)
{
    char title[160] = "";
    const size_t rank_count = (size_t)plan->shape.rank_count;
    struct draw_options how = {
        .title = options->title, .ports = options->ports, .value_count = widest_input(plan)};
    double *values = NULL;
    if (how.title == NULL && options->algorithm != NULL) {
        snprintf(title, sizeof title, "%s %s of %zu ranks", options->algorithm->name,
                 collective_name(options->collective), rank_count);
        how.title = title;
    }
    enum exit_code code = EXIT_FINE;
    if (options->values != NULL) {
        values = calloc(rank_count * how.value_count + 1, sizeof *values);
        if (values == NULL) return fail("values", "out of memory");
        how.example_values = values;
        if (!read_values(options->values, rank_count, how.value_count, values))
            code =
                usage_error("--values wants %u numbers, with commas, for each of %zu ranks, with /",
                            how.value_count, rank_count);
    }
    if (code == EXIT_FINE) code = draw_with(plan, &how, options);
    free(values);
    return code;
}

static enum exit_code draw(const struct options *options)
{
    struct plan *plan = get_plan(options);
    if (plan == NULL) return EXIT_WRONG;
    const enum exit_code code = draw_plan(plan, options);
    plan_free(plan);
    return code;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        enum exit_code (*run)(const struct options *options);
    } commands[] = {{"list", list}, {"show", show},         {"verify", verify},
                    {"draw", draw}, {"paths", print_paths}, {"explain", explain}};
    struct options options;
    enum exit_code code = options_parse(argc, argv, &options);
    for (size_t i = 0;
         code == EXIT_FINE && options.command != NULL && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, options.command) == 0) {
            code = commands[i].run(&options);
            break;
        }
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_FINE)
        code = fail("standard output", strerror(errno));
    options_release(&options);
    return code;
}
