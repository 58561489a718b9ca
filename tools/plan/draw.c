#include "draw.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "file.h"
#include "plan/verify.h"
#include "studio/plan/draw.h"
#include "studio/plan/player.h"

enum { TITLE_BYTES_MAX = 400, MESSAGE_BYTES = 320 };

static bool is_page(const struct options *options)
{
    return options->format != NULL && strcmp(options->format, FORMAT_HTML) == 0;
}

enum exit_code draw_check_ranks(const struct options *options)
{
    char message[MESSAGE_BYTES];
    const int rank_count_max = is_page(options) ? PLAYER_RANKS_MAX : DRAW_RANKS_MAX;
    if (options->file != NULL || options->ranks_min <= rank_count_max) return EXIT_FINE;
    snprintf(message, sizeof message, "at most %d ranks can be shown, and there are %d",
             rank_count_max, options->ranks_min);
    return file_fail(is_page(options) ? "page" : "picture", message);
}

/* ------------------------------------------------------------------------------------ its words */

/* Writes "ring allreduce of 3 ranks" or "mine.plan: allreduce of 3 ranks"; what the user has said
 * comes first. */
static void write_title(const struct plan *plan, const struct options *options, char *title,
                        size_t size)
{
    const char *collective = collective_name(plan->shape.collective);
    const int rank_count = plan->shape.rank_count;
    if (options->title != NULL) {
        snprintf(title, size, "%s", options->title);
    } else if (options->algorithm != NULL) {
        snprintf(title, size, "%s %s of %d ranks", options->algorithm->name, collective, rank_count);
    } else if (is_page(options) && strcmp(options->file, "-") != 0) {
        const char *slash = strrchr(options->file, '/');
        snprintf(title, size, "%s: %s of %d ranks", slash != NULL ? slash + 1 : options->file,
                 collective, rank_count);
    } else {
        snprintf(title, size, "%s of %d ranks", collective, rank_count);
    }
    printable_make(title);
}

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

/* The verdict of a proof of the plan; NULL if that is not known. */
static const char *prove(const struct plan *plan, bool in_place, bool *is_proven,
                         struct verify_report *report)
{
    const struct verify_options how = {.in_place = in_place};
    const enum verify_verdict verdict = plan_verify(plan, &how, report);
    *is_proven = verdict == VERIFY_PROVEN;
    if (*is_proven)
        snprintf(report->message, sizeof report->message, "%s%s",
                 in_place ? "in place" : "separate buffers",
                 !collective_reduces(plan->shape.collective) ? ""
                 : report->rank_ordered                      ? ", operands in rank order"
                                                             : ", needs a commutative operation");
    return *is_proven || verdict == VERIFY_WRONG ? report->message : NULL;
}

/* ---------------------------------------------------------------------------------- the drawing */

static enum tutti_status write_picture(const struct plan *plan, const struct rounds_options *rounds,
                                       const char *title, const struct options *options, FILE *file,
                                       char *message, size_t message_bytes)
{
    const char *why = "";
    const struct draw_options how = {
        .rounds = *rounds, .title = title, .host_of = options->hosts.host_of};
    const enum tutti_status status = plan_draw_svg(plan, &how, file, &why);
    snprintf(message, message_bytes, "%s", why);
    return status;
}

static enum tutti_status write_page(const struct plan *plan, const struct rounds_options *rounds,
                                    const char *title, const struct options *options, FILE *file,
                                    char *message, size_t message_bytes)
{
    struct verify_report report;
    struct player_options how = {.rounds = *rounds,
                                 .title = title,
                                 .algorithm =
                                     options->algorithm != NULL ? options->algorithm->name : NULL,
                                 .host_of = options->hosts.host_of};
    const enum tutti_status status = plan_check_player(plan, message, message_bytes);
    if (status != TUTTI_OK) return status;
    how.proof = prove(plan, rounds->in_place, &how.is_proven, &report);
    return plan_write_player(plan, &how, file, message, message_bytes);
}

static enum exit_code draw_with(const struct plan *plan, const struct rounds_options *rounds,
                                const struct options *options)
{
    char title[TITLE_BYTES_MAX], message[MESSAGE_BYTES];
    const char *what = is_page(options) ? "page" : "picture";
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return file_fail(what, strerror(errno));
    write_title(plan, options, title, sizeof title);
    const enum tutti_status status =
        is_page(options)
            ? write_page(plan, rounds, title, options, file, message, sizeof message)
            : write_picture(plan, rounds, title, options, file, message, sizeof message);
    const bool written = fclose(file) == 0;
    enum exit_code code;
    if (status != TUTTI_OK)
        code = file_fail(what, message);
    else
        code = written ? file_write(options->output, text, size) : file_fail(what, "out of memory");
    free(text);
    return code;
}

enum exit_code draw_plan(const struct plan *plan, bool in_place, const struct options *options)
{
    const size_t rank_count = (size_t)plan->shape.rank_count;
    struct rounds_options rounds = {
        .ports = options->ports, .in_place = in_place, .value_count = widest_input(plan)};
    if (options->hosts.rank_count > 0 && options->hosts.rank_count != plan->shape.rank_count)
        return file_fail(is_page(options) ? "page" : "picture",
                         "the hosts have another number of ranks than the plan");
    if (options->values == NULL) return draw_with(plan, &rounds, options);
    double *values = calloc(rank_count * rounds.value_count + 1, sizeof *values);
    if (values == NULL) return file_fail("values", "out of memory");
    rounds.example_values = values;
    const enum exit_code code =
        read_values(options->values, rank_count, rounds.value_count, values)
            ? draw_with(plan, &rounds, options)
            : usage_error("--values wants %u numbers, with commas, for each of %zu ranks, with /",
                          rounds.value_count, rank_count);
    free(values);
    return code;
}
