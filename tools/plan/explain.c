#include "explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/levels.h"
#include "algo/loaded.h"
#include "base/dtype.h"
#include "base/status.h"
#include "encoded.h"
#include "format/calibration_file.h"
#include "format/plan_file.h"
#include "model/calibration.h"
#include "transport/paths.h"
#include "tune/choose.h"
#include "tune/encoding_cost.h"
#include "tune/predict.h"

static enum exit_code complain(const char *what)
{
    fprintf(stderr, "tutti-plan: explain: %s\n", what);
    return EXIT_WRONG;
}

/* Everything that is asked, and what it takes to answer. */
struct question {
    const struct options *options;
    struct calibration calibration;
    struct calibration_tables tables;
    struct model_machine machine;
    struct predict_job job;
    const struct algo_levels *levels;
    const struct path_table *within, *between;
    int *rack_of_host, *cores_of, *order;
    uint32_t *host_permille;
    size_t block_bytes;
    struct algorithm *plans[PLANS_MAX]; /* from files, and proven */
    int plan_count;
};

/* -------------------------------------------------------------------------------------- numbers */

/* NAME=VALUE */
static enum exit_code override_one(struct calibration *calibration, const char *text)
{
    char name[64];
    const char *equals = strchr(text, '=');
    const size_t length = equals != NULL ? (size_t)(equals - text) : 0;
    if (length == 0 || length >= sizeof name)
        return usage_error("--set %s is not NAME=VALUE", text);
    memcpy(name, text, length);
    name[length] = '\0';
    const enum calibration_parameter parameter = calibration_find(name);
    if (parameter == CALIBRATION_PARAMETERS)
        return usage_error("--set: no number is called %s; tutti-topo --calibration lists them",
                           name);
    const struct calibration_info *info = calibration_info(parameter);
    char *end;
    const unsigned long long value = strtoull(equals + 1, &end, 10);
    if (equals[1] < '0' || equals[1] > '9' || *end != '\0' || value < info->least ||
        value > info->most)
        return usage_error("--set %s: %s takes %llu to %llu (%s)", text, info->name,
                           (unsigned long long)info->least, (unsigned long long)info->most,
                           info->unit);
    calibration->numbers[parameter].value = value;
    return EXIT_FINE;
}

/* Numbers of another machine are asked about on purpose: somebody may plan for it here. */
static void warn(const struct question *question)
{
    char why[CALIBRATION_WHY_SIZE];
    const char *const name = question->options->calibration;
    struct calibration_key here = question->calibration.key;
    if (name == NULL || here.hardware.cpu_count == 0) return;
    hardware_of_host(&here.hardware);
    if (!calibration_is_for(&question->calibration, &here, why))
        fprintf(stderr, "tutti-plan: explain: %s is of another machine than this: %s\n", name, why);
    if (question->calibration.is_loaded)
        fprintf(stderr, "tutti-plan: explain: %s was measured while others used the machine\n",
                name);
}

static int measured_count(const struct calibration *calibration)
{
    int count = 0;
    for (int i = 0; i < CALIBRATION_PARAMETERS; i++)
        count += calibration->numbers[i].known == CALIBRATION_MEASURED;
    return count;
}

static enum exit_code read_numbers(struct question *question, const struct transport_path *within,
                                   const struct transport_path *between)
{
    const struct options *options = question->options;
    calibration_init(&question->calibration, within->map.tables[0], between->map.tables[0]);
    if (options->calibration != NULL &&
        calibration_file_load(options->calibration, &question->calibration) != TUTTI_OK)
        return complain(tutti_error_message());
    warn(question);
    for (int i = 0; i < options->set_count; i++) {
        const enum exit_code code = override_one(&question->calibration, options->sets[i]);
        if (code != EXIT_FINE) return code;
    }
    return EXIT_FINE;
}

/* -------------------------------------------------------------------------------------- machine */

static int one_more_than_largest(const int *numbers, int count)
{
    int largest = 0;
    for (int i = 0; i < count; i++)
        if (numbers[i] > largest) largest = numbers[i];
    return largest + 1;
}

/* False: out of memory. */
static bool place_ranks(struct question *question)
{
    const struct options *options = question->options;
    const struct hosts *hosts = &options->hosts;
    struct model_machine *machine = &question->machine;
    const int ranks = options->ranks_min;
    *machine = (struct model_machine){
        .rank_count = ranks, .host_count = 1, .rack_count = 1, .core_count = options->cores};
    if (hosts->rank_count == 0) return true;
    machine->host_of = hosts->host_of;
    machine->host_count = one_more_than_largest(hosts->host_of, ranks);
    if (machine->host_count == 1) return true;
    question->levels = &hosts->levels;
    question->order = malloc((size_t)ranks * sizeof *question->order);
    if (question->order == NULL ||
        algo_order_by_levels(&hosts->levels, ranks, question->order) != TUTTI_OK)
        return false;
    if (hosts->rack_of == NULL) return true;
    question->rack_of_host = malloc((size_t)machine->host_count * sizeof *question->rack_of_host);
    if (question->rack_of_host == NULL) return false;
    for (int r = 0; r < ranks; r++) question->rack_of_host[hosts->host_of[r]] = hosts->rack_of[r];
    machine->rack_of = question->rack_of_host;
    machine->rack_count = one_more_than_largest(hosts->rack_of, ranks);
    return true;
}

/* Machines have as many hosts each, one after the other. */
static enum exit_code place_hosts(struct question *question)
{
    struct model_machine *machine = &question->machine;
    const int machines = question->options->machines, hosts = machine->host_count;
    if (machines == 0) return EXIT_FINE;
    if (hosts % machines != 0)
        return usage_error("--machines %d: %d host%s cannot be dealt out evenly", machines, hosts,
                           hosts == 1 ? "" : "s");
    question->cores_of = malloc((size_t)hosts * sizeof *question->cores_of);
    if (question->cores_of == NULL) return complain("out of memory");
    for (int h = 0; h < hosts; h++) question->cores_of[h] = h - h % (hosts / machines);
    machine->cores_of = question->cores_of;
    return EXIT_FINE;
}

static int ranks_of_largest_host(const struct question *question)
{
    const struct model_machine *machine = &question->machine;
    int largest = 0;
    for (int h = 0; h < machine->host_count; h++) {
        int count = 0;
        for (int r = 0; r < machine->rank_count; r++) count += model_host_of(machine, r) == h;
        if (count > largest) largest = count;
    }
    return largest;
}

/* HOST=FACTOR */
static enum exit_code slow_down(struct question *question, const char *text)
{
    enum { FACTOR_MAX = 1000 };
    struct model_machine *machine = &question->machine;
    char *end, *last;
    const long host = strtol(text, &end, 10);
    const double factor = *end == '=' ? strtod(end + 1, &last) : 0;
    if (*text < '0' || *text > '9' || *end != '=' || *last != '\0' ||
        !(factor >= 0.001 && factor <= FACTOR_MAX))
        return usage_error("--slow %s is not HOST=FACTOR with a factor from 0.001 to %d", text,
                           FACTOR_MAX);
    if (host >= machine->host_count)
        return usage_error("--slow %s: there are %d hosts, counted from 0", text,
                           machine->host_count);
    if (question->host_permille == NULL) {
        question->host_permille =
            malloc((size_t)machine->host_count * sizeof *question->host_permille);
        if (question->host_permille == NULL) return complain("out of memory");
        for (int h = 0; h < machine->host_count; h++) question->host_permille[h] = 1000;
        machine->host_permille = question->host_permille;
    }
    question->host_permille[host] = (uint32_t)(factor * 1000 + 0.5);
    return EXIT_FINE;
}

/* The bytes of a block, in which calls count. The size that the user asks for is the size of a
 * rank's larger buffer, as tutti-perf has it. */
static size_t block_bytes_of(const struct options *options)
{
    switch (options->collective) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST: return options->bytes;
    case COLLECTIVE_BARRIER: return 0;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_COUNT: break;
    }
    return options->bytes / (size_t)options->ranks_min;
}

/* The model knows encodings of links between hosts alone. */
static bool is_encoded(const struct question *question)
{
    return encoded_is_asked(&question->options->encoding) && question->levels != NULL;
}

static enum exit_code prepare(struct question *question)
{
    const struct options *options = question->options;
    struct transport_path within, between;
    if (!transport_path_of("local", options->ranks_min, &within) ||
        !transport_path_of("tcp", options->ranks_min, &between))
        return complain("there are no tables of paths");
    question->within = within.map.tables[0];
    question->between = between.map.tables[0];
    enum exit_code code = read_numbers(question, &within, &between);
    if (code != EXIT_FINE) return code;
    if (!place_ranks(question)) return complain("out of memory");
    code = place_hosts(question);
    for (int i = 0; i < options->slow_count && code == EXIT_FINE; i++)
        code = slow_down(question, options->slows[i]);
    if (code != EXIT_FINE) return code;
    const size_t element_bytes = dtype_size(TUTTI_FLOAT32);
    question->block_bytes = block_bytes_of(options) / element_bytes * element_bytes;
    const struct calibration_use use = {.dtype = TUTTI_FLOAT32,
                                        .is_far = options->bytes >=
                                                  within.map.tables[0]->sizes.stream_bytes_min,
                                        .within = within.map.tables[0],
                                        .between = between.map.tables[0],
                                        .tables = &question->tables};
    calibration_apply(&question->calibration, &use, &question->machine);
    if (is_encoded(question))
        encoding_cost_apply(options->encoding.encoding, TUTTI_FLOAT32, options->encoding.links,
                            &question->machine, &question->tables);
    if (options->cores > 0) question->machine.core_count = options->cores;
    if (question->machine.core_count == 0)
        question->machine.core_count = ranks_of_largest_host(question);
    question->machine.is_mapped = options->memory == PATH_MAPPED;
    question->machine.piece_bytes_max = within.piece_bytes_max;
    question->machine.piece_count_max = within.piece_count_max;
    question->job = (struct predict_job){.collective = options->collective,
                                         .root = options->root == ALL_ROOTS ? 0 : options->root,
                                         .count = question->block_bytes / element_bytes,
                                         .element_bytes = element_bytes,
                                         .in_place = options->in_place,
                                         .levels = question->levels,
                                         .order = question->order,
                                         .machine = &question->machine};
    return EXIT_FINE;
}

/* ------------------------------------------------------------------------------- plans in files */

static enum tutti_status check_plan(const struct options *options, const struct algorithm *algorithm)
{
    const struct plan_shape *const shape = &algorithm->plan->shape;
    const int root = options->root == ALL_ROOTS ? 0 : options->root;
    if (shape->collective == options->collective && shape->rank_count == options->ranks_min &&
        (shape->root == root || !collective_is_rooted(shape->collective)))
        return TUTTI_OK;
    return error_set(TUTTI_INVALID_ALGORITHM, "%s is a plan for %s of %d ranks, root %d",
                     algorithm->name, collective_name(shape->collective), shape->rank_count,
                     shape->root);
}

static enum tutti_status load_plan(const struct options *options, const char *path,
                                   struct algorithm **algorithm)
{
    struct plan *plan;
    struct loaded_proof proof;
    struct plan_budget proving = plan_budget_default(), reading = plan_budget_to_read(&proving);
    TRY(plan_file_load(path, &reading, &plan));
    TRY(loaded_create(path, plan, algorithm));
    TRY(check_plan(options, *algorithm));
    TRY(loaded_prove(*algorithm, &proving, &proof));
    loaded_set_proof(*algorithm, &proof);
    return TUTTI_OK;
}

static enum exit_code load_plans(struct question *question)
{
    const struct options *options = question->options;
    for (; question->plan_count < options->plan_count; question->plan_count++)
        if (load_plan(options, options->plans[question->plan_count],
                      &question->plans[question->plan_count]) != TUTTI_OK)
            return complain(tutti_error_message());
    question->job.loaded = (const struct algorithm *const *)question->plans;
    question->job.loaded_count = question->plan_count;
    return EXIT_FINE;
}

/* ----------------------------------------------------------------------------------- the choice */

/* For each rank, the first rank on the same cores; the caller frees the array. NULL: each host has
 * its own cores, or out of memory. */
static int *cores_of_ranks(const struct model_machine *machine)
{
    int *const cores_of =
        machine->cores_of != NULL ? calloc((size_t)machine->rank_count, sizeof *cores_of) : NULL;
    for (int r = 0; cores_of != NULL && r < machine->rank_count; r++)
        while (model_host_of(machine, cores_of[r]) !=
               model_cores_of(machine, model_host_of(machine, r)))
            cores_of[r]++;
    return cores_of;
}

/* Finds the choice that a communicator on these machines would make, with these numbers. */
static enum tutti_status choose(const struct question *question, struct choice *choice)
{
    const struct model_machine *machine = &question->machine;
    int *const cores_of = cores_of_ranks(machine);
    if (machine->cores_of != NULL && cores_of == NULL)
        return error_set(TUTTI_NO_MEMORY, "out of memory");
    struct tune_site site = {.rank_count = machine->rank_count,
                             .core_count = machine->core_count,
                             .cores_of = cores_of,
                             .levels = question->levels,
                             .within = question->within,
                             .between = question->levels != NULL ? question->between : NULL,
                             .piece_bytes_max = machine->piece_bytes_max,
                             .piece_count_max = machine->piece_count_max,
                             .calibration = &question->calibration,
                             .loaded = question->job.loaded,
                             .loaded_count = question->job.loaded_count};
    site.fingerprint = tune_site_fingerprint(&site, 0);
    struct choose_call call = {.question = {.collective = question->options->collective,
                                            .dtype = TUTTI_FLOAT32,
                                            .bytes = question->block_bytes,
                                            .is_mapped = machine->is_mapped},
                               .site = &site,
                               .root = question->job.root};
    encoded_ask(&question->options->encoding, &call);
    const enum tutti_status status = choose_algorithm(&call, choice);
    free(cores_of);
    return status;
}

/* Without racks there is one plan of each, whatever the levels. */
static bool is_chosen(const struct choice *choice, const struct prediction *prediction)
{
    return prediction->algorithm == choice->algorithm &&
           (prediction->has_one_plan || prediction->only_hosts == choice->only_hosts);
}

/* ------------------------------------------------------------------------------------- printing */

static const char *time_text(uint64_t time_ps, char *text, size_t size)
{
    const double us = (double)time_ps * 1e-6;
    if (us < 1000)
        snprintf(text, size, "%.2f us", us);
    else if (us < 1e6)
        snprintf(text, size, "%.2f ms", us * 1e-3);
    else
        snprintf(text, size, "%.3f s", us * 1e-6);
    return text;
}

static enum model_resource busiest(const struct model_result *result)
{
    enum model_resource most = MODEL_CORE;
    for (int r = 0; r < MODEL_RESOURCES; r++)
        if (result->loads[r].busy_ps > result->loads[most].busy_ps) most = (enum model_resource)r;
    return most;
}

/* "host 3, core 1", "host 3", "rack 1" */
static const char *place_text(const struct model_machine *machine, enum model_resource resource,
                              int number, char *text, size_t size)
{
    if (resource == MODEL_CORE && machine->host_count > 1)
        snprintf(text, size, "host %d, core %d", number / machine->core_count,
                 number % machine->core_count);
    else if (resource == MODEL_CORE)
        snprintf(text, size, "core %d", number);
    else
        snprintf(text, size, "%s %d",
                 resource == MODEL_UPLINK_OUT || resource == MODEL_UPLINK_IN ? "rack" : "host",
                 number);
    return text;
}

static void print_one(const struct question *question, const struct prediction *prediction,
                      uint64_t best_ps, bool chosen)
{
    const struct model_result *result = &prediction->result;
    const enum model_resource most = busiest(result);
    const struct model_load *load = &result->loads[most];
    char time[40], place[60], name[80];
    snprintf(name, sizeof name, "%s%s", prediction->algorithm->name,
             prediction->only_hosts ? " (hosts)" : "");
    printf("%12s %6.2f  %-28s %3.0f%%  %-11s  %s%s\n", time_text(result->time_ps, time, sizeof time),
           best_ps > 0 ? (double)result->time_ps / (double)best_ps : 1.0, name,
           result->time_ps > 0 ? 100 * (double)load->busy_ps / (double)result->time_ps : 0.0,
           model_resource_name(most),
           place_text(&question->machine, most, load->number, place, sizeof place),
           chosen ? "  <- chosen" : "");
}

static void print_head(const struct question *question)
{
    const struct options *options = question->options;
    const struct model_machine *machine = &question->machine;
    printf("%s of %zu bytes on %d rank%s", collective_name(options->collective), options->bytes,
           machine->rank_count, machine->rank_count == 1 ? "" : "s");
    printf(", %d host%s of %d core%s", machine->host_count, machine->host_count == 1 ? "" : "s",
           machine->core_count, machine->core_count == 1 ? "" : "s");
    if (options->machines > 0)
        printf(", on %d machine%s", options->machines, options->machines == 1 ? "" : "s");
    if (machine->rack_count > 1) printf(", %d racks", machine->rack_count);
    printf("; %s memory\n", machine->is_mapped ? "mapped" : "private");
    if (encoded_is_asked(&options->encoding)) {
        char text[160];
        encoded_describe(&options->encoding, 0, text, sizeof text);
        printf("encoded: %s\n", text);
    }
    printf("numbers: ");
    if (options->calibration == NULL)
        printf("as shipped, not measured on these hosts");
    else
        printf("%s, %d of %d measured", options->calibration,
               measured_count(&question->calibration), CALIBRATION_PARAMETERS);
    for (int i = 0; i < options->set_count; i++) printf(", %s", options->sets[i]);
    for (int i = 0; i < options->slow_count; i++) printf(", slow: %s", options->slows[i]);
    printf("\n\n        time of best  %-28s busy  what         which\n", "algorithm");
}

/* For programs: times are in nanoseconds; the network's time is its busiest port's. */
static void print_csv(const struct prediction *predictions, int count, const struct choice *choice)
{
    printf("algorithm,only_hosts,time_ns,busiest,busy_ns,where,network_ns,chosen\n");
    for (int i = 0; i < count; i++) {
        const struct prediction *one = &predictions[i];
        const struct model_load *loads = one->result.loads;
        if (one->why_not != NULL) continue;
        const enum model_resource most = busiest(&one->result);
        uint64_t network_ps = 0;
        for (int r = MODEL_CARD_OUT; r < MODEL_RESOURCES; r++)
            if (loads[r].busy_ps > network_ps) network_ps = loads[r].busy_ps;
        printf("%s,%d,%.0f,%s,%.0f,%d,%.0f,%d\n", one->algorithm->name, one->only_hosts,
               (double)one->result.time_ps * 1e-3, model_resource_name(most),
               (double)loads[most].busy_ps * 1e-3, loads[most].number, (double)network_ps * 1e-3,
               is_chosen(choice, one));
    }
}

static void print_all(const struct question *question, const struct prediction *predictions,
                      int count, const struct choice *choice)
{
    bool any_left_out = false;
    print_head(question);
    for (int i = 0; i < count; i++) {
        const struct prediction *one = &predictions[i];
        if (one->why_not != NULL) {
            any_left_out = true;
            continue;
        }
        print_one(question, one, predictions[0].result.time_ps, is_chosen(choice, one));
    }
    if (!any_left_out) return;
    printf("\nnot simulated:\n");
    for (int i = 0; i < count; i++)
        if (predictions[i].why_not != NULL && !predictions[i].only_hosts)
            printf("  %-28s %s%s\n", predictions[i].algorithm->name, predictions[i].why_not,
                   predictions[i].algorithm == choice->algorithm ? "  <- chosen" : "");
}

/* Algorithms that calls with the encoding cannot take come last. */
static void leave_out(const struct encoding_wish *wish, struct prediction *predictions, int count)
{
    struct prediction left_out[PREDICTIONS_MAX];
    int kept = 0, out = 0;
    for (int i = 0; i < count; i++) {
        const char *const why = encoded_why_not(wish, predictions[i].algorithm);
        if (predictions[i].why_not == NULL) predictions[i].why_not = why;
        if (predictions[i].why_not == NULL)
            predictions[kept++] = predictions[i];
        else
            left_out[out++] = predictions[i];
    }
    memcpy(predictions + kept, left_out, (size_t)out * sizeof *left_out);
}

enum exit_code explain(const struct options *options)
{
    struct prediction predictions[PREDICTIONS_MAX];
    struct question *question = calloc(1, sizeof *question);
    struct choice choice;
    int count;
    if (question == NULL) return complain("out of memory");
    question->options = options;
    enum exit_code code = prepare(question);
    if (code == EXIT_FINE) code = load_plans(question);
    if (code == EXIT_FINE && (predict_all(&question->job, predictions, &count) != TUTTI_OK ||
                              choose(question, &choice) != TUTTI_OK))
        code = complain(tutti_error_message());
    if (code == EXIT_FINE) leave_out(&options->encoding, predictions, count);
    if (code == EXIT_FINE && options->csv)
        print_csv(predictions, count, &choice);
    else if (code == EXIT_FINE)
        print_all(question, predictions, count, &choice);
    for (int i = 0; i < PLANS_MAX; i++) loaded_free(question->plans[i]);
    free(question->rack_of_host);
    free(question->cores_of);
    free(question->order);
    free(question->host_permille);
    free(question);
    return code;
}
