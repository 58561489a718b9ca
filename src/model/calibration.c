#include "model/calibration.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "os/cpu.h"

static const struct calibration_info infos[CALIBRATION_PARAMETERS] = {
#define X(name, unit, shipped, least, most, what) {#name, unit, shipped, least, most, what},
    CALIBRATION_PARAMETER_LIST(X)
#undef X
};

const struct calibration_info *calibration_info(enum calibration_parameter parameter)
{
    assert(parameter < CALIBRATION_PARAMETERS);
    return &infos[parameter];
}

enum calibration_parameter calibration_find(const char *name)
{
    unsigned i = 0;
    while (i < CALIBRATION_PARAMETERS && strcmp(infos[i].name, name) != 0) i++;
    return (enum calibration_parameter)i;
}

enum calibration_class calibration_class_of(enum tutti_dtype dtype)
{
    if (dtype_kind(dtype) != DTYPE_FLOAT || dtype_size(dtype) > 2) return CALIBRATION_CLASS_PLAIN;
    return dtype_size(dtype) == 2 ? CALIBRATION_CLASS_FLOAT16 : CALIBRATION_CLASS_FLOAT8;
}

const char *calibration_path_value_name(enum calibration_path_value value)
{
    static const char *const names[CALIBRATION_PATH_VALUES] = {
#define X(name, most) #name,
        CALIBRATION_PATH_LIST(X)
#undef X
    };
    assert(value < CALIBRATION_PATH_VALUES);
    return names[value];
}

uint64_t calibration_path_value_most(enum calibration_path_value value)
{
    static const uint64_t most_of[CALIBRATION_PATH_VALUES] = {
#define X(name, most) most,
        CALIBRATION_PATH_LIST(X)
#undef X
    };
    assert(value < CALIBRATION_PATH_VALUES);
    return most_of[value];
}

static const char *const known_names[CALIBRATION_KNOWN_COUNT] = {
#define X(enumerator, name) name,
    CALIBRATION_KNOWN_LIST(X)
#undef X
};

const char *calibration_known_name(enum calibration_known known)
{
    assert(known < CALIBRATION_KNOWN_COUNT);
    return known_names[known];
}

enum calibration_known calibration_known_from_name(const char *name)
{
    unsigned i = 0;
    while (i < CALIBRATION_KNOWN_COUNT && strcmp(known_names[i], name) != 0) i++;
    return (enum calibration_known)i;
}

const char *calibration_table_name(enum calibration_table table)
{
    assert(table < CALIBRATION_TABLES);
    return table == CALIBRATION_WITHIN ? "within" : "between";
}

/* ------------------------------------------------------------------------------- shipped values */

static void init_paths(struct calibration_path paths[PATH_KIND_COUNT],
                       const struct path_table *table)
{
    for (unsigned i = 0; i < table->row_count; i++) {
        const struct path_row *row = &table->rows[i];
        paths[row->path] =
            (struct calibration_path){.is_there = true,
                                      .values = {row->cost.sender_ps, row->cost.receiver_ps,
                                                 (uint64_t)row->cost.sender_ps_a_byte * 1000,
                                                 (uint64_t)row->cost.receiver_ps_a_byte * 1000},
                                      .known = CALIBRATION_ASSUMED};
    }
}

void calibration_init(struct calibration *calibration, const struct path_table *within,
                      const struct path_table *between)
{
    memset(calibration, 0, sizeof *calibration);
    for (unsigned i = 0; i < CALIBRATION_PARAMETERS; i++)
        calibration->numbers[i] =
            (struct calibration_number){.value = infos[i].shipped, .known = CALIBRATION_ASSUMED};
    if (within != NULL) init_paths(calibration->paths[CALIBRATION_WITHIN], within);
    if (between == NULL) return;
    init_paths(calibration->paths[CALIBRATION_BETWEEN], between);
    calibration->between = between->name;
}

/* -------------------------------------------------------------------------------------- the key */

/* The text written so far; words that do not fit are left out. */
struct words {
    char *text;
    size_t used, size;
};

__attribute__((format(printf, 2, 3))) static void say(struct words *words, const char *format, ...)
{
    va_list arguments;
    if (words->used + 1 >= words->size) return;
    if (words->used > 0)
        words->used += (size_t)snprintf(words->text + words->used, words->size - words->used, "; ");
    if (words->used + 1 >= words->size) return;
    va_start(arguments, format);
    words->used +=
        (size_t)vsnprintf(words->text + words->used, words->size - words->used, format, arguments);
    va_end(arguments);
}

static void compare_texts(struct words *words, const char *what, const char *its, const char *here)
{
    if (strcmp(its, here) != 0)
        say(words, "it was measured with %s \"%s\", and this is \"%s\"", what, its, here);
}

static void compare_counts(struct words *words, const char *what, uint64_t its, uint64_t here)
{
    if (its != here)
        say(words, "it was measured with %" PRIu64 " %s, and here are %" PRIu64, its, what, here);
}

static void compare_hardware(struct words *words, const struct hardware *its,
                             const struct hardware *here)
{
    compare_texts(words, "the processor", its->cpu_model, here->cpu_model);
    compare_counts(words, "processors", (uint64_t)its->cpu_count, (uint64_t)here->cpu_count);
    compare_counts(words, "processors around a cache", (uint64_t)its->cpus_a_cache,
                   (uint64_t)here->cpus_a_cache);
    for (int i = 0; i < HARDWARE_CACHE_LEVELS; i++) {
        char what[48];
        snprintf(what, sizeof what, "bytes of cache on level %d", i + 1);
        compare_counts(words, what, its->cache_bytes[i], here->cache_bytes[i]);
    }
    compare_texts(words, "the kernel", its->kernel_release, here->kernel_release);
    compare_texts(words, "the network cards", its->cards, here->cards);
}

bool calibration_is_for(const struct calibration *calibration, const struct calibration_key *here,
                        char why[static CALIBRATION_WHY_SIZE])
{
    const struct calibration_key *key = &calibration->key;
    struct words words = {why, 0, CALIBRATION_WHY_SIZE};
    why[0] = '\0';
    compare_hardware(&words, &key->hardware, &here->hardware);
    if (key->host_count > 0) {
        compare_counts(&words, "hosts", (uint64_t)key->host_count, (uint64_t)here->host_count);
        compare_counts(&words, "ranks", (uint64_t)key->rank_count, (uint64_t)here->rank_count);
    }
    return words.used == 0;
}

/* ------------------------------------------------------------------------ what was not measured */

/* By how much a path within the host that was not measured costs more than it says, in thousandths.
 * Its row is of a machine on which copies cost what is shipped. On another AMD EPYC copies cost
 * 1.25 to 1.35 times as much, and a slot 1.1 to 1.3 times; an allreduce of 64 to 512 KiB by two
 * ranks took twice what rows of the first machine said. A machine that copies faster need not hand
 * lines on faster. */
static uint64_t slowness_permille(const struct calibration *calibration)
{
    const struct calibration_number *const copy =
        &calibration->numbers[CALIBRATION_copy_near_byte_fs];
    const uint64_t shipped = infos[CALIBRATION_copy_near_byte_fs].shipped;
    if (copy->known == CALIBRATION_ASSUMED || copy->value <= shipped) return 1000;
    return copy->value * 1000 / shipped;
}

/* ---------------------------------------------------------------------------------- ranks agree */

uint64_t calibration_fingerprint(const struct calibration *calibration)
{
    uint64_t hash = hash_take((uint64_t)calibration->key.hardware.cpu_count,
                              (uint64_t)calibration->key.hardware.cpus_a_cache);
    for (unsigned i = 0; i < CALIBRATION_PARAMETERS; i++)
        hash = hash_take(hash, calibration->numbers[i].value);
    hash = hash_take(hash, slowness_permille(calibration));
    for (unsigned table = 0; table < CALIBRATION_TABLES; table++)
        for (unsigned path = 0; path < PATH_KIND_COUNT; path++) {
            hash = hash_take(hash, calibration->paths[table][path].known);
            for (unsigned i = 0; i < CALIBRATION_PATH_VALUES; i++)
                hash = hash_take(hash, calibration->paths[table][path].values[i]);
        }
    return hash;
}

/* -------------------------------------------------------------------------------------- its use */

static uint64_t value_of(const struct calibration *calibration, enum calibration_parameter parameter)
{
    return calibration->numbers[parameter].value;
}

static uint32_t whole_ps(uint64_t fs)
{
    return (uint32_t)((fs + 500) / 1000);
}

static uint64_t scaled(const struct calibration_path *path, enum calibration_path_value value,
                       uint64_t permille)
{
    const unsigned __int128 cost = path->values[value];
    const uint64_t most = calibration_path_value_most(value);
    if (path->known != CALIBRATION_ASSUMED) return path->values[value];
    return cost * permille / 1000 < most ? (uint64_t)(cost * permille / 1000) : most;
}

static const struct path_table *apply_table(const struct calibration_path paths[PATH_KIND_COUNT],
                                            uint64_t permille, const struct path_table *shipped,
                                            struct path_table *table, struct path_row *rows)
{
    if (shipped == NULL) return NULL;
    assert(shipped->row_count <= PATH_KIND_COUNT);
    *table = *shipped;
    table->rows = rows;
    for (unsigned i = 0; i < shipped->row_count; i++) {
        rows[i] = shipped->rows[i];
        const struct calibration_path *path = &paths[rows[i].path];
        if (!path->is_there) continue;
        rows[i].cost = (struct path_cost){
            .sender_ps = (uint32_t)scaled(path, CALIBRATION_PATH_sender_ps, permille),
            .receiver_ps = (uint32_t)scaled(path, CALIBRATION_PATH_receiver_ps, permille),
            .sender_ps_a_byte = whole_ps(scaled(path, CALIBRATION_PATH_sender_byte_fs, permille)),
            .receiver_ps_a_byte =
                whole_ps(scaled(path, CALIBRATION_PATH_receiver_byte_fs, permille))};
    }
    return table;
}

/* The cost of each byte that is read or written past the caches, if a byte of result takes so many
 * of them. */
static uint64_t far_fs(uint64_t near_byte_fs, uint64_t far_byte_fs, unsigned touched)
{
    return far_byte_fs > near_byte_fs ? (far_byte_fs - near_byte_fs) / touched : 0;
}

enum { COPY_TOUCHES = 2, SUM_TOUCHES = 3 };

/* Memory carries at least what one core alone moves, however little all of them together did as
 * that was measured. If it carried less in the model, one rank that copies would take as long as
 * two that do so at the same time, and ranks that wait for each other would seem to cost
 * nothing. */
static uint64_t memory_fs(const struct calibration *calibration)
{
    const uint64_t together = value_of(calibration, CALIBRATION_memory_byte_fs),
                   alone = value_of(calibration, CALIBRATION_copy_far_byte_fs) / COPY_TOUCHES;
    return alone > 0 && alone < together ? alone : together;
}

/* Copies read a byte and write one, sums of two read two and write one; further sources only cost
 * their reading. */
static void apply_kernels(const struct calibration *calibration, const struct calibration_use *use,
                          struct model_machine *machine)
{
    static const struct {
        enum calibration_parameter each, near_byte, far_byte;
    } classes[CALIBRATION_CLASSES] = {
#define X(enumerator, name)                                                         \
    {CALIBRATION_reduce_##name##_each_ps, CALIBRATION_reduce_##name##_near_byte_fs, \
     CALIBRATION_reduce_##name##_far_byte_fs},
        CALIBRATION_CLASS_LIST(X)
#undef X
    };
    const enum calibration_class class = calibration_class_of(use->dtype);
    const uint64_t copy_fs = value_of(calibration, CALIBRATION_copy_near_byte_fs),
                   sum_fs = value_of(calibration, classes[class].near_byte);
    machine->copy = (struct model_cost){value_of(calibration, CALIBRATION_copy_each_ps), copy_fs};
    machine->reduce = (struct model_cost){value_of(calibration, classes[class].each), sum_fs};
    machine->more_byte_fs = sum_fs / SUM_TOUCHES;
    machine->far_copy_fs = machine->far_reduce_fs = machine->memory_byte_fs = 0;
    if (!use->is_far) return;
    machine->far_copy_fs =
        far_fs(copy_fs, value_of(calibration, CALIBRATION_copy_far_byte_fs), COPY_TOUCHES);
    machine->far_reduce_fs =
        far_fs(sum_fs, value_of(calibration, classes[class].far_byte), SUM_TOUCHES);
    machine->memory_byte_fs = memory_fs(calibration);
}

static bool is_wide(const struct calibration *calibration, const struct model_machine *machine)
{
    const int hosts = machine->host_count > 0 ? machine->host_count : 1;
    const int around = calibration->key.hardware.cpus_a_cache;
    return around > 0 && around < calibration->key.hardware.cpu_count &&
           (machine->rank_count + hosts - 1) / hosts > around;
}

#define PORT(calibration, name)                                                                 \
    {                                                                                           \
        .message = {value_of(calibration, CALIBRATION_##name##_message_ps),                     \
                    value_of(calibration, CALIBRATION_##name##_byte_fs)},                       \
        .burst_bytes = value_of(calibration, CALIBRATION_##name##_burst_bytes),                 \
        .queue_bytes = value_of(calibration, CALIBRATION_##name##_queue_bytes),                 \
        .again_permille = (unsigned)value_of(calibration, CALIBRATION_##name##_again_permille), \
    }

void calibration_apply(const struct calibration *calibration, const struct calibration_use *use,
                       struct model_machine *machine)
{
    struct calibration_tables *const tables = use->tables;
    if (calibration->key.hardware.cpu_count > 0)
        machine->core_count = calibration->key.hardware.cpu_count;
    const bool has_far_cores = is_wide(calibration, machine);
    machine->latency_ps[MODEL_SAME_HOST] = value_of(
        calibration, has_far_cores ? CALIBRATION_latency_far_ps : CALIBRATION_latency_near_ps);
    machine->retake_byte_fs = value_of(calibration, has_far_cores ? CALIBRATION_retake_far_byte_fs
                                                                  : CALIBRATION_retake_near_byte_fs);
    machine->latency_ps[MODEL_SAME_RACK] = value_of(calibration, CALIBRATION_latency_rack_ps);
    machine->latency_ps[MODEL_OTHER_RACK] = value_of(calibration, CALIBRATION_latency_cluster_ps);
    machine->card = (struct model_port)PORT(calibration, card);
    machine->uplink = (struct model_port)PORT(calibration, uplink);
    machine->turn_ps = value_of(calibration, CALIBRATION_turn_ps);
    apply_kernels(calibration, use, machine);
    machine->within = apply_table(
        calibration->paths[CALIBRATION_WITHIN], slowness_permille(calibration), use->within,
        &tables->tables[CALIBRATION_WITHIN], tables->rows[CALIBRATION_WITHIN]);
    machine->between = use->between;
    if (use->between == NULL || calibration->between == NULL ||
        strcmp(use->between->name, calibration->between) != 0)
        return;
    machine->between =
        apply_table(calibration->paths[CALIBRATION_BETWEEN], 1000, use->between,
                    &tables->tables[CALIBRATION_BETWEEN], tables->rows[CALIBRATION_BETWEEN]);
}
