/* tutti-tune - measures choices of algorithms in which the model may be wrong, and handles tables
 * of them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option.h"
#include "base/status.h"
#include "call/communicator.h"
#include "candidates.h"
#include "format/table_file.h"
#include "format/table_json.h"
#include "load.h"
#include "measure.h"
#include "options.h"
#include "studio/foreign/nccl_tuner.h"
#include "text.h"
#include "tune/table.h"

static const size_t buffer_bytes_max = (size_t)1 << 30;

static enum exit_code fail(void)
{
    fprintf(stderr, "tutti-tune: %s\n", tutti_error_message());
    return EXIT_WRONG;
}

/* --------------------------------------------------------------------------------------- output */

static enum tutti_status flush(FILE *file)
{
    if (fflush(file) == 0 && !ferror(file)) return TUTTI_OK;
    return error_set(TUTTI_SYSTEM, "standard output: %s", strerror(errno));
}

static enum tutti_status write_table(const struct options *options, const struct tune_table *table)
{
    if (options->output != NULL) return table_file_save(options->output, table);
    table_json_dump(table, stdout);
    return flush(stdout);
}

/* --------------------------------------------------------------------------------------- tuning */

/* The calls for which a plan of the folder is the fastest. A table cannot name this plan, for a
 * table has the names of built-in algorithms; a rule for algorithms can. */
struct rule {
    enum collective collective;
    uint64_t bytes_from, bytes_to;
    const struct algorithm *algorithm;
};

enum { RULES_MAX = 64 };

/* A rank's part of the measurement. The table and the rules are rank 0's. */
struct tuner {
    const struct options *options;
    struct tutti_comm *comm;
    const struct tune_site *site;
    struct tune_shape shape;
    bool is_first, shows; /* this is rank 0; somebody watches its progress */
    int job_count, jobs_left_out;
    struct tune_table table;
    int rule_count, rules_left_out;
    struct rule rules[RULES_MAX];
    struct tune_load load; /* while all was measured */
};

/* As one with the rule before it, if it goes on there. */
static void add_rule(struct tuner *tuner, const struct rule *rule)
{
    struct rule *const last = tuner->rule_count > 0 ? &tuner->rules[tuner->rule_count - 1] : NULL;
    if (last != NULL && last->collective == rule->collective &&
        last->algorithm == rule->algorithm && last->bytes_to >= rule->bytes_from)
        last->bytes_to = rule->bytes_to;
    else if (tuner->rule_count < RULES_MAX)
        tuner->rules[tuner->rule_count++] = *rule;
    else
        tuner->rules_left_out++;
}

static void print_rules(const struct tuner *tuner)
{
    fprintf(stderr, "tutti-tune: plans of the folder are faster than what the model chooses: %s='",
            option_names.ALGORITHMS);
    for (int i = 0; i < tuner->rule_count; i++) {
        const struct rule *const rule = &tuner->rules[i];
        fprintf(stderr, "%s%s:%" PRIu64 "-%" PRIu64 "=%s", i > 0 ? ";" : "",
                collective_name(rule->collective), rule->bytes_from, rule->bytes_to,
                rule->algorithm->name);
    }
    fputs("'\n", stderr);
    if (tuner->rules_left_out > 0)
        fprintf(stderr, "tutti-tune: %d more are left out\n", tuner->rules_left_out);
}

static enum tutti_status enter(struct tuner *tuner, const struct tune_question *question,
                               const struct candidates *candidates, const struct timing *timings)
{
    const int winner = measure_winner(timings, candidates->count);
    if (winner == 0) return TUTTI_OK;
    struct tune_entry entry = {.key = {.shape = tuner->shape,
                                       .collective = question->collective,
                                       .dtypes = calibration_class_of(question->dtype),
                                       .is_mapped = question->is_mapped},
                               .bytes_to = question->bytes > 0 ? 2 * question->bytes : 1,
                               .algorithm = candidates->of[winner].algorithm,
                               .time_ns = (uint64_t)timings[winner].median_ns};
    const double faster = (timings[0].median_ns / timings[winner].median_ns - 1) * 1000;
    entry.faster_permille =
        faster < TUNE_FASTER_PERMILLE_MAX ? (unsigned)faster : TUNE_FASTER_PERMILLE_MAX;
    TRY(candidates_least_bytes(tuner->site, question, &candidates->of[0], &candidates->of[winner],
                               &entry.bytes_from));
    if (candidate_is_loaded(&candidates->of[winner])) {
        add_rule(tuner, &(struct rule){question->collective, entry.bytes_from, entry.bytes_to,
                                       entry.algorithm});
        return TUTTI_OK;
    }
    return tune_table_add(&tuner->table, &entry);
}

static enum tutti_status do_job(struct tuner *tuner, const struct tune_question *question)
{
    struct candidates candidates = {.count = 0};
    struct timing timings[CANDIDATES_MAX];
    if (measure_buffer_bytes(question, tuner->shape.rank_count) > buffer_bytes_max) {
        tuner->jobs_left_out++;
        return TUTTI_OK;
    }
    if (tuner->shows)
        fprintf(stderr, "\r\033[Ktutti-tune: %s, %zu bytes", collective_name(question->collective),
                question->bytes);
    if (tuner->is_first)
        TRY(candidates_find(tuner->site, question, tuner->options->margin, &candidates));
    TRY(candidates_share(&candidates, tuner->site, tuner->comm));
    if (candidates.count < CANDIDATES_MIN) return TUTTI_OK;
    tuner->job_count++;
    TRY(measure_candidates(tuner->comm, question, &candidates, tuner->options->seconds, timings));
    return tuner->is_first ? enter(tuner, question, &candidates, timings) : TUTTI_OK;
}

/* Each fourfold of the first size, and the last one. */
static enum tutti_status do_sizes(struct tuner *tuner, enum collective collective)
{
    const struct options *options = tuner->options;
    struct tune_question question = {
        .collective = collective, .dtype = options->dtype, .is_mapped = options->mapped};
    if (collective == COLLECTIVE_BARRIER) return do_job(tuner, &question);
    question.bytes = options->first_bytes;
    for (; question.bytes < options->last_bytes; question.bytes *= 4) TRY(do_job(tuner, &question));
    question.bytes = options->last_bytes;
    return do_job(tuner, &question);
}

static enum tutti_status do_all(struct tuner *tuner)
{
    struct load load;
    const int rank_count = tutti_comm_size(tuner->comm);
    if (rank_count < 2)
        return error_set(TUTTI_UNSUPPORTED, "one rank has nothing to choose: start it as several, "
                                            "such as with tutti-run -n 4");
    if (tuner->site->table != NULL)
        return error_set(TUTTI_UNSUPPORTED, "a table is in force already, and the choices of the "
                                            "model are measured: run it without");
    TRY(tune_site_shape(tuner->site, &tuner->shape));
    TRY(tune_load_begin(tuner->comm, &load));
    for (unsigned c = 0; c < COLLECTIVE_COUNT; c++)
        if (tuner->options->collectives >> c & 1) TRY(do_sizes(tuner, (enum collective)c));
    if (tuner->shows) fputs("\r\033[K", stderr);
    TRY(tune_load_end(tuner->comm, &load, &tuner->load));
    tuner->table.is_loaded = tuner->load.verdict.is_loaded;
    return TUTTI_OK;
}

static void warn_of_load(const struct tune_load *load)
{
    if (load->verdict.is_loaded)
        fprintf(stderr,
                "tutti-tune: host %s is loaded, and the table says so: others used %.0f %% of all "
                "its processors, and a hypervisor took %.0f %%\n",
                load->host, load->verdict.others_percent, load->verdict.stolen_percent);
}

static enum tutti_status conclude(const struct tuner *tuner)
{
    if (!tuner->is_first) return TUTTI_OK;
    TRY(write_table(tuner->options, &tuner->table));
    if (tuner->jobs_left_out > 0)
        fprintf(stderr,
                "tutti-tune: %d of the sizes are left out: a rank's buffers would take more than "
                "1 GiB\n",
                tuner->jobs_left_out);
    fprintf(stderr, "tutti-tune: measured: %d; entries: %d", tuner->job_count, tuner->table.count);
    if (tuner->options->output != NULL) fprintf(stderr, "; %s is written", tuner->options->output);
    fputc('\n', stderr);
    if (tuner->rule_count > 0) print_rules(tuner);
    warn_of_load(&tuner->load);
    return TUTTI_OK;
}

/* Rules would stand in the model's way. */
static enum exit_code tune(const struct options *options)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    struct tuner tuner = {.options = options};
    comm_options.algorithms = "";
    if (tutti_comm_create(&comm_options, &tuner.comm) != TUTTI_OK) {
        if (tutti_launcher(NULL, NULL) != NULL) return fail();
        fprintf(stderr, "tutti-tune: %s\nRun it as all ranks of a job: tutti-run -n 2 tutti-tune\n",
                tutti_error_message());
        return EXIT_WRONG;
    }
    tuner.site = &tuner.comm->team.members.site;
    tuner.is_first = tutti_comm_rank(tuner.comm) == 0;
    tuner.shows = tuner.is_first && isatty(STDERR_FILENO) == 1;
    tune_table_init(&tuner.table);
    enum tutti_status status = do_all(&tuner);
    if (status == TUTTI_OK) status = conclude(&tuner);
    const enum exit_code code = status == TUTTI_OK ? EXIT_FINE : fail();
    if (status != TUTTI_OK) tutti_comm_abort(tuner.comm, "tutti-tune has failed");
    tune_table_release(&tuner.table);
    tutti_comm_free(tuner.comm);
    return code;
}

/* --------------------------------------------------------------------------------------- tables */

/* All files in one table. */
static enum tutti_status load(const struct options *options, struct tune_table *table)
{
    tune_table_init(table);
    for (int i = 0; i < options->file_count; i++) {
        struct tune_table one;
        tune_table_init(&one);
        enum tutti_status status = table_file_load(options->files[i], &one);
        if (status == TUTTI_OK) status = tune_table_merge(table, &one);
        tune_table_release(&one);
        TRY(status);
    }
    return TUTTI_OK;
}

static enum tutti_status export_nccl(const struct options *options, const struct tune_table *table)
{
    FILE *file = options->output != NULL ? fopen(options->output, "we") : stdout;
    if (file == NULL)
        return error_set(TUTTI_SYSTEM, "%.200s: %s", options->output, strerror(errno));
    const int left_out = nccl_tuner_dump(table, file);
    enum tutti_status status = flush(file);
    if (file != stdout && fclose(file) != 0 && status == TUTTI_OK)
        status = error_set(TUTTI_SYSTEM, "%.200s: %s", options->output, strerror(errno));
    if (left_out > 0)
        fprintf(stderr,
                "tutti-tune: %d of %d entries have no counterpart in NCCL and are left out\n",
                left_out, table->count);
    return status;
}

static enum tutti_status handle(const struct options *options, const struct tune_table *table)
{
    switch (options->action) {
    case ACTION_MERGE: return write_table(options, table);
    case ACTION_EXPORT: return export_nccl(options, table);
    case ACTION_TUNE:
    case ACTION_SHOW: break;
    }
    print_table(table, stdout);
    return flush(stdout);
}

static enum exit_code handle_files(const struct options *options)
{
    struct tune_table table;
    enum tutti_status status = load(options, &table);
    if (status == TUTTI_OK) status = handle(options, &table);
    tune_table_release(&table);
    return status == TUTTI_OK ? EXIT_FINE : fail();
}

int main(int argc, char **argv)
{
    struct options options;
    const enum exit_code code = options_parse(argc, argv, &options);
    if (code != EXIT_FINE || options.done) return (int)code;
    return (int)(options.action == ACTION_TUNE ? tune(&options) : handle_files(&options));
}
