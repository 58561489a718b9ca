/* choice - which algorithms the library takes to be the fastest, and how long it needs to find that
 * out: `build/bench/choice [OPTIONS]`
 *
 *     --ranks N          (8)               --hosts H     with the same number of ranks each (1)
 *     --racks R          of hosts (1)      --cores C     of each host (one for each of its ranks)
 *     --machines M       hosts are containers on so many machines, and share their cores (each has its own)
 *     --turns            ranks are dealt to the hosts in turns, and hosts to the racks
 *     --pinned           ranks of one host are tied to its cores, in turns
 *     --loopback         ranks of one host that reach each other over TCP
 *     --mapped           memory that others can read where it lies; blocks of less than mapped_bytes_min
 *                        (path/path.h) count as private, as ranks of a job take them
 *     --calibration FILE
 *     --first            only what is chosen, not what the others would take
 *     --exact            simulates all ranks and all pieces, beside what is chosen by (as long as that takes)
 *     COLLECTIVE BYTES...
 *
 * One line a size and algorithm, as CSV: collective, bytes of a rank's larger buffer, algorithm,
 * only_hosts, microseconds; with --exact the exact ones behind. On stderr, how long the choice of
 * each size took, and how much was looked at for it: steps of plans, and events of simulations.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "algo/algo.h"
#include "algo/levels.h"
#include "base/byte_size.h"
#include "base/dtype.h"
#include "base/status.h"
#include "format/calibration_file.h"
#include "timing.h"
#include "transport/paths.h"
#include "tune/choose.h"
#include "tune/predict.h"
#include "tune/ranking.h"

static struct {
    int ranks, hosts, racks, cores, machines;
    bool turns, pinned, loopback, mapped, first, exact;
    const char *calibration;
} options = {.ranks = 8, .hosts = 1, .racks = 1};

static const struct option long_options[] = {{"ranks", required_argument, NULL, 'n'},
                                             {"hosts", required_argument, NULL, 'h'},
                                             {"racks", required_argument, NULL, 'r'},
                                             {"cores", required_argument, NULL, 'c'},
                                             {"machines", required_argument, NULL, 'M'},
                                             {"turns", no_argument, NULL, 't'},
                                             {"pinned", no_argument, NULL, 'p'},
                                             {"loopback", no_argument, NULL, 'l'},
                                             {"mapped", no_argument, NULL, 'm'},
                                             {"first", no_argument, NULL, 'o'},
                                             {"exact", no_argument, NULL, 'e'},
                                             {"calibration", required_argument, NULL, 'f'},
                                             {NULL, 0, NULL, 0}};

static bool read_options(int argc, char **argv)
{
    for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) switch (c) {
        case 'n': options.ranks = atoi(optarg); break;
        case 'h': options.hosts = atoi(optarg); break;
        case 'r': options.racks = atoi(optarg); break;
        case 'c': options.cores = atoi(optarg); break;
        case 'M': options.machines = atoi(optarg); break;
        case 't': options.turns = true; break;
        case 'p': options.pinned = true; break;
        case 'l': options.loopback = true; break;
        case 'm': options.mapped = true; break;
        case 'o': options.first = true; break;
        case 'e': options.exact = true; break;
        case 'f': options.calibration = optarg; break;
        default: return false;
        }
    return options.ranks > 0 && options.hosts > 0 && options.racks > 0 &&
           options.ranks % options.hosts == 0 && options.hosts % options.racks == 0 &&
           options.machines >= 0 &&
           (options.machines == 0 || options.hosts % options.machines == 0) && optind + 1 < argc;
}

static size_t bytes_of(const char *text)
{
    uint64_t bytes;
    if (byte_size_read(text, NULL, SIZE_MAX / 2, &bytes)) return (size_t)bytes;
    fprintf(stderr, "choice: '%s' is no size\n", text);
    exit(2);
}

static size_t block_bytes_of(enum collective collective, size_t bytes)
{
    switch (collective) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST: return bytes;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return bytes / (size_t)options.ranks;
}

static double exact_us(const struct tune_site *site, const struct tune_question *question,
                       const struct ranked *ranked)
{
    struct model_machine machine;
    struct tune_room room;
    struct prediction prediction;
    const size_t element_bytes = dtype_size(question->dtype);
    if (tune_machine(site, question, &machine, &room) != TUTTI_OK) return 0;
    const struct predict_job job = {.collective = question->collective,
                                    .count = (question->bytes + element_bytes - 1) / element_bytes,
                                    .element_bytes = element_bytes,
                                    .levels = site->levels,
                                    .order = site->order,
                                    .machine = &machine};
    const bool is_known =
        predict_one(&job, ranked->algorithm, ranked->only_hosts, &prediction) == TUTTI_OK &&
        prediction.why_not == NULL;
    tune_room_release(&room);
    return is_known ? (double)prediction.result.time_ps * 1e-6 : 0;
}

static void print(const struct tune_site *site, const struct tune_question *question, size_t bytes,
                  const struct ranking *ranking)
{
    for (int i = 0; i < ranking->count; i++) {
        const struct ranked *ranked = &ranking->ranked[i];
        printf("%s,%zu,%s,%d,%.3f", collective_name(question->collective), bytes,
               ranked->algorithm->name, ranked->only_hosts, (double)ranked->time_ps * 1e-6);
        if (options.exact) printf(",%.3f", exact_us(site, question, ranked));
        printf("\n");
    }
}

static bool takes_any(const struct ranked *ranked, void *context)
{
    (void)ranked;
    (void)context;
    return true;
}

static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* What is chosen, and how long that took; afterwards, unless only the first is wanted, the whole
 * ranking, which has the same on top. */
static bool choose_one(const struct tune_site *site, const struct tune_question *question,
                       size_t bytes)
{
    const struct choose_call call = {.question = *question, .site = site};
    struct choice choice;
    struct ranking ranking;
    const double begun = now_us(), begun_cpu = cpu_us();
    if (choose_algorithm(&call, &choice) != TUTTI_OK) return false;
    const double chosen = now_us(), chosen_cpu = cpu_us();
    if (choose_algorithm(&call, &choice) != TUTTI_OK) return false;
    const double again = now_us();
    if (ranking_find_first(site, question, takes_any, NULL, &ranking) != TUTTI_OK) return false;
    fprintf(stderr,
            "%zu bytes: %s, found in %.0f us, %.0f of a core, by %llu steps; again %.3f us\n",
            bytes, choice.algorithm->name, chosen - begun, chosen_cpu - begun_cpu,
            (unsigned long long)ranking.work, again - chosen);
    if (options.first) ranking.count = 1;
    if (!options.first && ranking_find(site, question, &ranking) != TUTTI_OK) return false;
    const struct ranked *const best = &ranking.ranked[0];
    if (best->algorithm == choice.algorithm && best->only_hosts == choice.only_hosts)
        print(site, question, bytes, &ranking);
    else
        error_set(TUTTI_INTERNAL, "%s is chosen, and %s is cheaper", choice.algorithm->name,
                  best->algorithm->name);
    return best->algorithm == choice.algorithm && best->only_hosts == choice.only_hosts;
}

static bool choose_all(const struct tune_site *site, char **words)
{
    struct tune_question question = {.dtype = TUTTI_FLOAT32};
    question.collective = collective_from_name(*words);
    if ((int)question.collective >= COLLECTIVE_COUNT) return false;
    while (*++words != NULL) {
        const size_t bytes = bytes_of(*words);
        question.bytes = block_bytes_of(question.collective, bytes);
        question.is_mapped =
            options.mapped && question.bytes >= site->within->sizes.mapped_bytes_min;
        if (!choose_one(site, &question, bytes)) return false;
    }
    return true;
}

/* As a communicator has the ranks. False: as they are numbered. */
static bool find_order(const struct algo_levels *levels, int core_count, int *order)
{
    if (levels != NULL)
        return options.turns && algo_order_by_levels(levels, options.ranks, order) == TUTTI_OK;
    int place = 0;
    for (int core = 0; core < core_count; core++)
        for (int r = core; r < options.ranks; r += core_count) order[place++] = r;
    return options.pinned && core_count < options.ranks;
}

/* Of each rank, the first on its machine; false: each host has its own cores. */
static bool find_machines(const int *host_of, int *cores_of)
{
    for (int r = 0; options.machines > 0 && r < options.ranks; r++) {
        const int machine = host_of[r] / (options.hosts / options.machines);
        while (host_of[cores_of[r]] / (options.hosts / options.machines) != machine) cores_of[r]++;
    }
    return options.machines > 0 && options.hosts > 1;
}

int main(int argc, char **argv)
{
    struct transport_path within, between;
    struct calibration calibration;
    if (!read_options(argc, argv)) {
        fprintf(stderr, "usage: choice [OPTIONS] COLLECTIVE BYTES..., see choice.c\n");
        return 2;
    }
    const int hosts = options.loopback ? options.ranks : options.hosts;
    int *const host_of = calloc((size_t)options.ranks, sizeof *host_of), *const rack_of = calloc(
                                                                             (size_t)options.ranks,
                                                                             sizeof *rack_of);
    int *const order = calloc((size_t)options.ranks, sizeof *order), *const cores_of = calloc(
                                                                         (size_t)options.ranks,
                                                                         sizeof *cores_of);
    if (host_of == NULL || rack_of == NULL || order == NULL || cores_of == NULL) return 1;
    for (int r = 0; r < options.ranks; r++) {
        host_of[r] = options.turns ? r % hosts : r / (options.ranks / hosts);
        rack_of[r] =
            options.turns ? host_of[r] % options.racks : host_of[r] / (hosts / options.racks);
    }
    const struct algo_levels levels = {options.racks > 1 ? 2 : 1, {host_of, rack_of}};
    transport_path_of("local", options.ranks, &within);
    transport_path_of("tcp", options.ranks, &between);
    calibration_init(&calibration, within.map.tables[0], between.map.tables[0]);
    if (options.calibration != NULL &&
        calibration_file_load(options.calibration, &calibration) != TUTTI_OK) {
        fprintf(stderr, "choice: %s\n", tutti_error_message());
        return 1;
    }
    const bool has_levels = hosts > 1;
    const struct transport_path *limits = hosts == options.ranks && has_levels ? &between : &within;
    struct tune_site site = {.rank_count = options.ranks,
                             .core_count =
                                 options.cores > 0 ? options.cores : options.ranks / options.hosts,
                             .levels = has_levels ? &levels : NULL,
                             .is_loopback = options.loopback,
                             .within = within.map.tables[0],
                             .between = has_levels ? between.map.tables[0] : NULL,
                             .piece_bytes_max = limits->piece_bytes_max,
                             .piece_count_max = limits->piece_count_max,
                             .calibration = &calibration};
    if (find_order(site.levels, site.core_count, order)) site.order = order;
    if (find_machines(host_of, cores_of)) site.cores_of = cores_of;
    site.fingerprint = tune_site_fingerprint(&site, 0);
    if (!choose_all(&site, argv + optind)) {
        fprintf(stderr, "choice: %s\n", tutti_error_message());
        return 1;
    }
    free(host_of);
    free(rack_of);
    free(order);
    free(cores_of);
    return 0;
}
