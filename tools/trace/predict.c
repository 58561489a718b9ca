#include "predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/levels.h"
#include "base/dtype.h"
#include "base/status.h"
#include "format/calibration_file.h"
#include "model/between.h"
#include "transport/paths.h"
#include "tune/estimate.h"

/* Beyond, a count is no count. */
#define BYTES_MAX ((uint64_t)1 << 40)

/* ---------------------------------------------------------------------------------------- hosts */

struct placed {
    int rank;
    const char *host; /* NULL: no dump names it */
};

static int by_host(const void *a, const void *b)
{
    const struct placed *one = a, *other = b;
    const int order = strcmp(one->host, other->host);
    return order != 0 ? order : one->rank - other->rank;
}

static void find_places(const struct trace_calls *calls, struct placed *placed, int rank_count)
{
    for (int r = 0; r < rank_count; r++) placed[r] = (struct placed){r, NULL};
    for (size_t t = 0; t < calls->trace_count; t++) {
        const struct trace_json *trace = &calls->traces[t];
        for (int i = 0; i < trace->place_count; i++)
            placed[trace->places[i].rank].host = trace->places[i].host;
    }
    for (size_t t = 0; t < calls->trace_count; t++)
        placed[calls->traces[t].own.rank].host = calls->traces[t].own.host;
}

/* Equal names are equal hosts. False: out of memory. */
static bool number_hosts(struct predictor *predictor, struct placed *placed)
{
    const int ranks = predictor->rank_count;
    int *groups = malloc(2 * (size_t)ranks * sizeof *groups);
    if (groups == NULL) return false;
    qsort(placed, (size_t)ranks, sizeof *placed, by_host);
    int group = 0;
    for (int i = 0; i < ranks; i++) {
        group += i > 0 && strcmp(placed[i].host, placed[i - 1].host) != 0;
        groups[placed[i].rank] = group;
    }
    predictor->host_count = algo_number_groups(groups, ranks, predictor->host_of, groups + ranks);
    for (int i = 0; i < ranks && predictor->host_count > 0; i++) {
        const int host = predictor->host_of[placed[i].rank];
        predictor->host_names[host] = placed[i].host;
        predictor->ranks_on[host]++;
    }
    free(groups);
    return predictor->host_count > 0;
}

static enum tutti_status place_ranks(struct predictor *predictor, const struct trace_calls *calls)
{
    const size_t ranks = (size_t)predictor->rank_count;
    struct placed *placed = calloc(ranks, sizeof *placed);
    predictor->host_of = calloc(ranks, sizeof *predictor->host_of);
    predictor->ranks_on = calloc(ranks, sizeof *predictor->ranks_on);
    predictor->host_names = calloc(ranks, sizeof *predictor->host_names);
    bool is_fine = placed != NULL && predictor->host_of != NULL && predictor->ranks_on != NULL &&
                   predictor->host_names != NULL;
    if (is_fine) {
        find_places(calls, placed, predictor->rank_count);
        for (size_t r = 0; r < ranks; r++) predictor->unplaced_count += placed[r].host == NULL;
        if (predictor->unplaced_count == 0) is_fine = number_hosts(predictor, placed);
    }
    free(placed);
    return is_fine ? TUTTI_OK : error_set(TUTTI_NO_MEMORY, "out of memory");
}

/* Finds the racks, if each host has a dump that says its rack. */
static enum tutti_status find_racks(struct predictor *predictor, const struct trace_calls *calls)
{
    const size_t ranks = (size_t)predictor->rank_count;
    int *const groups = malloc(3 * ranks * sizeof *groups); /* of hosts, of ranks, and room */
    int *const rack_of = malloc(ranks * sizeof *rack_of);
    bool is_known = true;
    predictor->rack_count = 1;
    if (groups == NULL || rack_of == NULL) {
        free(groups);
        free(rack_of);
        return error_set(TUTTI_NO_MEMORY, "out of memory");
    }
    for (int h = 0; h < predictor->host_count; h++) groups[h] = -1;
    for (size_t t = 0; t < calls->trace_count; t++)
        groups[predictor->host_of[calls->traces[t].own.rank]] = calls->traces[t].rack;
    for (size_t r = 0; r < ranks; r++) {
        groups[ranks + r] = groups[predictor->host_of[r]];
        is_known = is_known && groups[ranks + r] >= 0;
    }
    const int found =
        is_known ? algo_number_groups(groups + ranks, (int)ranks, rack_of, groups + 2 * ranks) : 1;
    free(groups);
    if (found > 1) {
        predictor->rack_count = found;
        predictor->rack_of = rack_of;
    } else {
        free(rack_of);
    }
    return found > 0 ? TUTTI_OK : error_set(TUTTI_NO_MEMORY, "out of memory");
}

/* Finds the hosts that share cores, as far as dumps say. */
static enum tutti_status find_shared_cores(struct predictor *predictor,
                                           const struct trace_calls *calls)
{
    const int ranks = predictor->rank_count;
    bool are_shared = false;
    int *const cores_of = malloc((size_t)ranks * sizeof *cores_of);
    if (cores_of == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    predictor->cores_of = cores_of;
    for (int r = 0; r < ranks; r++) cores_of[r] = r;
    for (size_t t = 0; t < calls->trace_count; t++) {
        const struct trace_json *trace = &calls->traces[t];
        if (trace->cores_of < 0 || trace->cores_of > trace->own.rank) continue;
        cores_of[trace->own.rank] = trace->cores_of;
        are_shared = true;
    }
    for (int r = 0; r < ranks; r++) cores_of[r] = cores_of[cores_of[r]];
    if (are_shared) return TUTTI_OK;
    free(cores_of);
    predictor->cores_of = NULL;
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------------------------- site */

int predictor_most_ranks(const struct predictor *predictor)
{
    int most = 1;
    for (int h = 0; h < predictor->host_count; h++)
        if (predictor->ranks_on[h] > most) most = predictor->ranks_on[h];
    return most;
}

/* As the ranks took it when they chose; dumps of older versions do not say. */
static void find_cores(struct predictor *predictor, const struct trace_calls *calls)
{
    predictor->core_count = 0;
    for (size_t t = 0; t < calls->trace_count && predictor->core_count == 0; t++)
        predictor->core_count = calls->traces[t].core_count;
    if (predictor->core_count == 0)
        predictor->core_count = predictor->calibration.key.hardware.cpu_count;
    predictor->cores_are_assumed = predictor->core_count == 0;
    if (predictor->core_count == 0) predictor->core_count = predictor_most_ranks(predictor);
}

static enum tutti_status make_site(struct predictor *predictor, const struct trace_calls *calls,
                                   const struct transport_path *within,
                                   const struct transport_path *between)
{
    find_cores(predictor, calls);
    TRY(find_racks(predictor, calls));
    TRY(find_shared_cores(predictor, calls));
    predictor->levels = (struct algo_levels){.level_count = predictor->rack_count > 1 ? 2 : 1,
                                             .group_of = {predictor->host_of, predictor->rack_of}};
    const bool has_hosts = predictor->host_count > 1;
    predictor->site = (struct tune_site){.rank_count = predictor->rank_count,
                                         .core_count = predictor->core_count,
                                         .cores_of = predictor->cores_of,
                                         .levels = has_hosts ? &predictor->levels : NULL,
                                         .within = within->map.tables[0],
                                         .between = has_hosts ? between->map.tables[0] : NULL,
                                         .piece_bytes_max = within->piece_bytes_max,
                                         .piece_count_max = within->piece_count_max,
                                         .calibration = &predictor->calibration};
    if (!has_hosts) return TUTTI_OK;
    predictor->order = malloc((size_t)predictor->rank_count * sizeof *predictor->order);
    predictor->site.order = predictor->order;
    if (predictor->order == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    return algo_order_by_levels(&predictor->levels, predictor->rank_count, predictor->order);
}

/* Dumps do not say which machines they come from, but they say how many hosts and ranks there
 * are. */
static void doubt_calibration(struct predictor *predictor)
{
    const struct calibration *calibration = &predictor->calibration;
    struct calibration_key here = calibration->key;
    if (here.host_count == 0) return;
    here.host_count = predictor->host_count;
    here.rank_count = predictor->rank_count;
    if (calibration_is_for(calibration, &here, predictor->doubt)) predictor->doubt[0] = '\0';
}

/* All ranks have the same numbers of the job, unless a dump was written before the job had any. */
static void take_measured(struct predictor *predictor, const struct trace_calls *calls)
{
    const int before = predictor_measured_count(predictor);
    for (size_t t = 0; t < calls->trace_count; t++)
        between_take(&calls->traces[t].measured, &predictor->calibration);
    predictor->job_measured_count = predictor_measured_count(predictor) - before;
}

/* The machine that the model predicts for, or why there is none. */
static enum tutti_status find_site(struct predictor *predictor, const struct trace_calls *calls,
                                   const struct transport_path *within,
                                   const struct transport_path *between)
{
    TRY(place_ranks(predictor, calls));
    if (predictor->unplaced_count > 0)
        predictor->why_not = "no dump names the hosts of some ranks";
    else if (predictor->rank_count == 1)
        predictor->why_not = "there is one rank";
    else
        return make_site(predictor, calls, within, between);
    return TUTTI_OK;
}

enum tutti_status predictor_init(struct predictor *predictor, const struct trace_calls *calls,
                                 const char *calibration)
{
    struct transport_path within, between;
    *predictor = (struct predictor){.rank_count = calls->traces[0].size};
    if (!transport_path_of("local", predictor->rank_count, &within) ||
        !transport_path_of("tcp", predictor->rank_count, &between))
        return error_set(TUTTI_INTERNAL, "there are no tables of paths");
    calibration_init(&predictor->calibration, within.map.tables[0], between.map.tables[0]);
    if (calibration != NULL) TRY(calibration_file_load(calibration, &predictor->calibration));
    take_measured(predictor, calls);
    const enum tutti_status status = find_site(predictor, calls, &within, &between);
    if (status != TUTTI_OK) {
        predictor_release(predictor);
        return status;
    }
    if (predictor->why_not == NULL) doubt_calibration(predictor);
    return TUTTI_OK;
}

void predictor_release(struct predictor *predictor)
{
    free(predictor->host_of);
    free(predictor->ranks_on);
    free(predictor->rack_of);
    free(predictor->cores_of);
    free(predictor->order);
    free(predictor->host_names);
    *predictor = (struct predictor){.rank_count = 0};
}

/* --------------------------------------------------------------------------------------- a call */

static void refuse(struct call_prediction *prediction, const char *why)
{
    snprintf(prediction->why_not, sizeof prediction->why_not, "%s", why);
}

/* "read, slot" has "read". */
static bool has_path(const char *paths, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = paths; (at = strstr(at, name)) != NULL; at += length) {
        const bool begins = at == paths || at[-1] == ' ';
        if (begins && (at[length] == '\0' || at[length] == ',')) return true;
    }
    return false;
}

/* Within a host, these paths lead through memory that others can address. Between hosts they tell
 * nothing. */
static bool is_mapped(const struct predictor *predictor, const struct trace_calls *calls,
                      const struct call_kind *kind)
{
    for (size_t t = 0; t < calls->trace_count && predictor->host_count == 1; t++) {
        const struct trace_json *trace = &calls->traces[t];
        for (size_t i = 0; i < trace->operation_count; i++) {
            const struct trace_entry *entry = &trace->operations[i];
            if (entry->number != kind->first->number) continue;
            if (has_path(entry->paths, path_kind_name(PATH_READ)) ||
                has_path(entry->paths, path_kind_name(PATH_WRITE)))
                return true;
        }
    }
    return false;
}

/* -1: there is none. */
static int first_host_of_rack(const struct predictor *predictor, int rack)
{
    for (int r = 0; predictor->rack_of != NULL && r < predictor->rank_count; r++)
        if (predictor->rack_of[r] == rack) return predictor->host_of[r];
    return -1;
}

static void find_busiest(const struct predictor *predictor, const struct model_result *result,
                         struct call_prediction *prediction)
{
    enum model_resource most = MODEL_CORE;
    for (int r = 0; r < MODEL_RESOURCES; r++)
        if (result->loads[r].busy_ps > result->loads[most].busy_ps) most = (enum model_resource)r;
    const struct model_load *load = &result->loads[most];
    prediction->busiest = most;
    prediction->busy_permille =
        result->time_ps > 0 ? (int)((double)load->busy_ps * 1000 / (double)result->time_ps) : 0;
    if (load->number < 0) return;
    if (resource_is_uplink(most)) {
        prediction->host = first_host_of_rack(predictor, load->number);
        return;
    }
    prediction->host = most == MODEL_CORE ? load->number / predictor->core_count : load->number;
    if (most == MODEL_CORE) prediction->core = load->number % predictor->core_count;
    if (prediction->host >= predictor->host_count) prediction->host = -1;
}

/* Whether its plan has no level of racks, as the latest choice that fits says. */
static bool is_of_hosts_alone(const struct predictor *predictor, const struct trace_calls *calls,
                              const struct trace_entry *entry)
{
    const struct trace_json *const trace = &calls->traces[0];
    if (predictor->rack_count == 1) return true;
    for (size_t i = trace->choice_count; i > 0; i--) {
        const struct trace_choice *const choice = &trace->choices[i - 1];
        if (strcmp(choice->call, entry->call) == 0 && choice->count == entry->count &&
            strcmp(choice->dtype, entry->dtype) == 0 &&
            strcmp(choice->algorithm, entry->algorithm) == 0)
            return choice->only_hosts;
    }
    return false;
}

/* host_permille: how long each host takes, or NULL, as in struct model_machine. */
static enum tutti_status estimate(const struct predictor *predictor,
                                  const struct tune_question *question,
                                  const struct predict_job *wanted,
                                  const struct algorithm *algorithm, bool only_hosts,
                                  const uint32_t *host_permille, struct prediction *found)
{
    struct predict_job job = *wanted;
    struct model_machine machine;
    struct tune_room room;
    TRY(tune_machine(&predictor->site, question, &machine, &room));
    job.machine = &machine;
    machine.host_permille = host_permille;
    const enum tutti_status status = estimate_one(&job, algorithm, only_hosts, found);
    tune_room_release(&room);
    return status;
}

static enum tutti_dtype dtype_of(const struct trace_entry *entry)
{
    return entry->dtype[0] != '\0' ? dtype_from_name(entry->dtype) : TUTTI_FLOAT32;
}

/* Why a call is not predicted; NULL: nothing speaks against it. */
static const char *reason_against(const struct predictor *predictor, const struct call_kind *kind)
{
    const struct trace_entry *entry = kind->first;
    const enum tutti_dtype dtype = dtype_of(entry);
    const struct algorithm *algorithm = algo_find(kind->collective, entry->algorithm);
    if (predictor->why_not != NULL) return predictor->why_not;
    if (entry->algorithm[0] == '\0') return "the dumps name no algorithm";
    if (algorithm == NULL || !dtype_is_valid(dtype))
        return "this version knows no such algorithm or dtype";
    if (entry->count > BYTES_MAX / dtype_size(dtype) / (uint64_t)predictor->rank_count)
        return "it is too large to be predicted";
    return NULL;
}

/* Estimates a kind of calls that can be predicted. */
static enum tutti_status estimate_kind(const struct predictor *predictor,
                                       const struct trace_calls *calls, const struct call_kind *kind,
                                       const uint32_t *host_permille, struct prediction *found)
{
    const struct trace_entry *entry = kind->first;
    const size_t element_bytes = dtype_size(dtype_of(entry));
    const struct tune_question question = {.collective = kind->collective,
                                           .dtype = dtype_of(entry),
                                           .bytes = (size_t)entry->count * element_bytes,
                                           .is_mapped = is_mapped(predictor, calls, kind)};
    const struct predict_job job = {.collective = kind->collective,
                                    .root = entry->root > 0 ? entry->root : 0,
                                    .count = (size_t)entry->count,
                                    .element_bytes = element_bytes,
                                    .levels = predictor->site.levels,
                                    .order = predictor->site.order};
    return estimate(predictor, &question, &job, algo_find(kind->collective, entry->algorithm),
                    is_of_hosts_alone(predictor, calls, entry), host_permille, found);
}

enum tutti_status predict_kind(const struct predictor *predictor, const struct trace_calls *calls,
                               const struct call_kind *kind, struct call_prediction *prediction)
{
    struct prediction found;
    const char *const why_not = reason_against(predictor, kind);
    *prediction = (struct call_prediction){.host = -1, .core = -1};
    if (why_not != NULL) {
        refuse(prediction, why_not);
        return TUTTI_OK;
    }
    const enum tutti_status status = estimate_kind(predictor, calls, kind, NULL, &found);
    if (status == TUTTI_NO_MEMORY) return status;
    if (status != TUTTI_OK || found.why_not != NULL) {
        refuse(prediction, status != TUTTI_OK ? tutti_error_message() : found.why_not);
        return TUTTI_OK;
    }
    prediction->time_ps = found.result.time_ps;
    find_busiest(predictor, &found.result, prediction);
    return TUTTI_OK;
}

/* Halves the range of factors in which the measured time lies until it is a percent wide. */
enum tutti_status predict_slow_host(const struct predictor *predictor,
                                    const struct trace_calls *calls, const struct call_kind *kind,
                                    int host, uint64_t measured_ns, double *percent)
{
    enum { AS_CALIBRATED = 1000, SLOWEST = 200 * AS_CALIBRATED };
    uint32_t *host_permille = malloc((size_t)predictor->host_count * sizeof *host_permille);
    if (host_permille == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    for (int h = 0; h < predictor->host_count; h++) host_permille[h] = AS_CALIBRATED;
    uint32_t low = AS_CALIBRATED, high = SLOWEST;
    enum tutti_status status = TUTTI_OK;
    bool is_reached = false, is_whole = true;
    host_permille[host] = high; /* whether it can take that long at all */
    for (bool is_first = true; is_whole && (is_first || high - low > low / 100);) {
        struct prediction found;
        status = estimate_kind(predictor, calls, kind, host_permille, &found);
        if (status != TUTTI_OK) break;
        const bool is_enough = found.result.time_ps / 1000 >= measured_ns;
        is_whole = found.why_not == NULL && found.result.loads[MODEL_CARD_IN].number >= 0;
        if (is_first && !is_enough) break;
        is_reached = true;
        is_first = false;
        if (is_enough)
            high = host_permille[host];
        else
            low = host_permille[host];
        host_permille[host] = low + (high - low) / 2;
    }
    free(host_permille);
    *percent = is_reached && is_whole ? 100.0 * AS_CALIBRATED / high : 0;
    return status == TUTTI_NO_MEMORY ? status : TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- numbers */

bool predictor_port_is_measured(const struct predictor *predictor, enum model_resource resource)
{
    const enum calibration_parameter byte =
        resource_is_uplink(resource) ? CALIBRATION_uplink_byte_fs : CALIBRATION_card_byte_fs;
    return predictor->calibration.numbers[byte].known == CALIBRATION_MEASURED;
}

int predictor_measured_count(const struct predictor *predictor)
{
    int count = 0;
    for (int i = 0; i < CALIBRATION_PARAMETERS; i++)
        count += predictor->calibration.numbers[i].known == CALIBRATION_MEASURED;
    return count;
}
