/* tutti-plan - lists algorithms; shows, proves, draws and exports their plans, or those of
 * files. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "draw.h"
#include "explain.h"
#include "file.h"
#include "options.h"
#include "paths.h"
#include "plan/text.h"
#include "verify.h"

/* ------------------------------------------------------------------------------- getting a plan */

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

/* ----------------------------------------------------------------------------------------- list */

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

/* ---------------------------------------------------------------- show, verify, export and draw */

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
    const enum exit_code code = verify_plan(plan, in_place, options);
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

static enum exit_code draw(const struct options *options)
{
    bool in_place;
    if (draw_check_ranks(options) != EXIT_FINE) return EXIT_WRONG;
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
