#include "calibrate.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "bandwidth.h"
#include "base/status.h"
#include "format/calibration_file.h"
#include "kernels.h"
#include "pair.h"
#include "studio/load.h"
#include "transport/paths.h"

static void init(struct calibration *calibration)
{
    calibration_init(calibration, transport_paths("local"), transport_paths("tcp"));
}

/* ------------------------------------------------------------------------------------ measuring */

/* On a terminal, in place of what was said before; "" takes it away. */
static void tell(const char *what)
{
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K%s", what);
}

/* Measures everything that goes from core to core. */
static enum tutti_status measure_pairs(struct calibration *calibration)
{
    tell("latencies ...");
    TRY(measure_latencies(calibration));
    tell("results that others have read ...");
    return measure_retakes(calibration);
}

/* A hypervisor may have moved the processors farther away from each other for some seconds. So the
 * least of two times counts. */
static enum tutti_status measure_pairs_again(struct calibration *calibration)
{
    const struct calibration before = *calibration;
    TRY(measure_pairs(calibration));
    for (unsigned i = 0; i < CALIBRATION_PARAMETERS; i++)
        if (before.numbers[i].value < calibration->numbers[i].value)
            calibration->numbers[i] = before.numbers[i];
    return TUTTI_OK;
}

static enum tutti_status measure(struct calibration *calibration, struct load *load)
{
    TRY(measure_pairs(calibration));
    tell("copies and sums ...");
    TRY(measure_kernels(calibration, load));
    tell("memory ...");
    TRY(measure_bandwidth(calibration, load));
    tell("turns ...");
    TRY(measure_turn(calibration));
    return measure_pairs_again(calibration);
}

static enum tutti_status begin_with(const char *file, struct calibration *calibration)
{
    char path[CALIBRATE_PATH_SIZE];
    init(calibration);
    if (file == NULL) return TUTTI_OK;
    TRY(calibrate_read(file, path, calibration));
    return calibrate_check(path, calibration);
}

enum tutti_status calibrate_host(const char *file, struct calibration *calibration,
                                 char why[static CALIBRATE_WHY_SIZE])
{
    struct load load;
    TRY(begin_with(file, calibration));
    hardware_of_host(&calibration->key.hardware);
    load_begin(&load);
    const enum tutti_status status = measure(calibration, &load);
    tell("");
    const struct load_verdict verdict = load_end(&load, load_own_ns(&load));
    calibration->is_loaded = verdict.is_loaded;
    snprintf(why, CALIBRATE_WHY_SIZE,
             "measuring got %.0f %% of the time of its processors, others used %.0f %% of all, and "
             "a hypervisor took %.0f %%",
             verdict.got_percent, verdict.others_percent, verdict.stolen_percent);
    return status;
}

/* ---------------------------------------------------------------------------------------- files */

static enum tutti_status find_path(const char *file, char path[static CALIBRATE_PATH_SIZE])
{
    if (file == NULL) return calibration_file_path(path, CALIBRATE_PATH_SIZE);
    if ((size_t)snprintf(path, CALIBRATE_PATH_SIZE, "%s", file) < CALIBRATE_PATH_SIZE)
        return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "the path of the calibration is too long");
}

enum tutti_status calibrate_read(const char *file, char path[static CALIBRATE_PATH_SIZE],
                                 struct calibration *calibration)
{
    init(calibration);
    TRY(find_path(file, path));
    return calibration_file_load(path, calibration);
}

enum tutti_status calibrate_write(const char *file, char path[static CALIBRATE_PATH_SIZE],
                                  const struct calibration *calibration)
{
    TRY(find_path(file, path));
    return calibration_file_save(path, calibration);
}

enum tutti_status calibrate_check(const char *path, const struct calibration *calibration)
{
    char why[CALIBRATION_WHY_SIZE];
    if (calibration->key.hardware.cpu_count == 0) return TUTTI_OK;
    struct calibration_key here = calibration->key; /* of a job, nothing is known here */
    hardware_of_host(&here.hardware);
    if (calibration_is_for(calibration, &here, why)) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "%.200s: not for this machine: %s", path, why);
}

/* ------------------------------------------------------------------------------------ the table */

/* As people say it: "35.7 GB/s", "21.9 MB/s", "1.2 us". */
static void write_people(uint64_t value, const char *unit, char *text, size_t text_bytes)
{
    text[0] = '\0';
    if (strcmp(unit, "fs/byte") == 0 && value > 1000000)
        snprintf(text, text_bytes, "%.1f MB/s", 1e9 / (double)value);
    else if (strcmp(unit, "fs/byte") == 0 && value > 0)
        snprintf(text, text_bytes, "%.1f GB/s", 1e6 / (double)value);
    else if (strcmp(unit, "ps") == 0 && value >= 1000000)
        snprintf(text, text_bytes, "%.1f us", (double)value / 1e6);
    else if (strcmp(unit, "ps") == 0)
        snprintf(text, text_bytes, "%.1f ns", (double)value / 1e3);
}

static void print_machine(const struct calibration *calibration, FILE *file)
{
    const struct hardware *hardware = &calibration->key.hardware;
    if (hardware->cpu_count == 0) {
        fputs("the file names no machine: it is for any\n", file);
        return;
    }
    fprintf(file, "processor  %s, %d of them, %d around a cache; caches of", hardware->cpu_model,
            hardware->cpu_count, hardware->cpus_a_cache);
    for (int i = 0; i < HARDWARE_CACHE_LEVELS; i++)
        if (hardware->cache_bytes[i] > 0)
            fprintf(file, " %" PRIu64 " KiB", hardware->cache_bytes[i] >> 10);
    fprintf(file, "\nkernel     %s\ncards      %s\n", hardware->kernel_release, hardware->cards);
    if (calibration->key.host_count > 0)
        fprintf(file, "job        %d hosts, %d ranks\n", calibration->key.host_count,
                calibration->key.rank_count);
    fprintf(file, "checksum   %016" PRIx64 "\n", calibration_fingerprint(calibration));
    if (calibration->is_loaded)
        fputs("others used the machine while it was measured: values may be far too high\n", file);
}

static void print_number(enum calibration_parameter parameter,
                         const struct calibration_number *number, FILE *file)
{
    const struct calibration_info *info = calibration_info(parameter);
    char people[32], spread[16] = "";
    write_people(number->value, info->unit, people, sizeof people);
    if (number->known == CALIBRATION_MEASURED)
        snprintf(spread, sizeof spread, "+%.1f %%", number->spread_permille / 10.0);
    fprintf(file, "%-28s %10" PRIu64 " %-8s %12s %9s  %-8s  %s\n", info->name, number->value,
            info->unit, people, spread, calibration_known_name(number->known), info->what);
}

static void print_paths(const struct calibration *calibration, enum calibration_table table,
                        FILE *file)
{
    fprintf(file, "\nways %s hosts%*s", calibration_table_name(table),
            table == CALIBRATION_WITHIN ? 2 : 1, "");
    for (unsigned i = 0; i < CALIBRATION_PATH_VALUES; i++)
        fprintf(file, " %16s", calibration_path_value_name(i));
    fputc('\n', file);
    for (unsigned path = 0; path < PATH_KIND_COUNT; path++) {
        const struct calibration_path *costs = &calibration->paths[table][path];
        if (!costs->is_there) continue;
        fprintf(file, "%-19s", path_kind_name(path));
        for (unsigned i = 0; i < CALIBRATION_PATH_VALUES; i++)
            fprintf(file, " %16" PRIu64, costs->values[i]);
        fprintf(file, "  %s\n", calibration_known_name(costs->known));
    }
}

enum tutti_status calibrate_print(const struct calibration *calibration, FILE *file)
{
    print_machine(calibration, file);
    fputc('\n', file);
    for (unsigned i = 0; i < CALIBRATION_PARAMETERS; i++)
        print_number(i, &calibration->numbers[i], file);
    print_paths(calibration, CALIBRATION_WITHIN, file);
    print_paths(calibration, CALIBRATION_BETWEEN, file);
    return TUTTI_OK;
}
