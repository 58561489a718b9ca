/* calibration_json.c - jansson reads, this file says what it means. Names and bounds are those of
 * model/calibration.h. */
#include "format/calibration_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/status.h"
#include "format/json_part.h"
#include "format/json_text.h"
#include "os/cpu.h"

enum { VERSION = 1, RANKS_MAX = 1 << 16 };

static enum tutti_status no_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "calibration: out of memory");
}

/* -------------------------------------------------------------------------------------- loading */

static enum tutti_status fail_unknown(const struct json_part *part, const char *key,
                                      const char *instead)
{
    char shown[48];
    snprintf(shown, sizeof shown, "%s", key);
    printable_make(shown);
    return json_part_fail(part, key, "no \"%s\" is known here, but %s", shown, instead);
}

/* The object that is a member; inner->object is NULL if there is none. */
static enum tutti_status enter(const struct json_part *part, const char *key,
                               struct json_part *inner)
{
    *inner = (struct json_part){
        part->text, part->text_bytes, {&part->place, key, 0}, json_object_get(part->object, key)};
    if (inner->object != NULL && !json_is_object(inner->object))
        return json_part_fail(part, key, "\"%s\": an object is expected", key);
    return TUTTI_OK;
}

/* Fails on members that nobody reads: most likely they are misspelt. */
static enum tutti_status check_members(const struct json_part *part, const char *const *known)
{
    const char *key;
    json_t *value;
    json_object_foreach(part->object, key, value)
    {
        char list[240] = "";
        size_t used = 0;
        int i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0) i++;
        if (known[i] != NULL || strcmp(key, "comment") == 0) continue;
        for (i = 0; known[i] != NULL && used < sizeof list; i++)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, i > 0 ? ", %s" : "%s", known[i]);
        return fail_unknown(part, key, list);
    }
    return TUTTI_OK;
}

/* *to stays as it is where there is no such member. */
static enum tutti_status read_count(const struct json_part *part, const char *key, int most, int *to)
{
    uint64_t value = (uint64_t)*to;
    TRY(json_part_integer(part, key, 0, (uint64_t)most, &value));
    *to = (int)value;
    return TUTTI_OK;
}

static enum tutti_status read_text(const struct json_part *part, const char *key, char *to,
                                   size_t size)
{
    json_t *value = json_object_get(part->object, key);
    if (value == NULL) return TUTTI_OK;
    if (!json_is_string(value) || json_string_length(value) >= size)
        return json_part_fail(part, key, "\"%s\": a text of at most %zu bytes is expected", key,
                              size - 1);
    char text[HARDWARE_CARDS_SIZE];
    memcpy(text, json_string_value(value), json_string_length(value) + 1);
    printable_make(text);
    if (strcmp(text, json_string_value(value)) != 0)
        return json_part_fail(part, key, "\"%s\": printable characters are expected", key);
    memset(to, 0, size);
    strcpy(to, text);
    return TUTTI_OK;
}

static enum tutti_status load_caches(const struct json_part *part, struct hardware *hardware)
{
    json_t *list = json_object_get(part->object, "cache_bytes");
    if (list == NULL) return TUTTI_OK;
    if (!json_is_array(list) || json_array_size(list) > HARDWARE_CACHE_LEVELS)
        return json_part_fail(part, "cache_bytes",
                              "\"cache_bytes\": a list of at most %d numbers is expected",
                              HARDWARE_CACHE_LEVELS);
    memset(hardware->cache_bytes, 0, sizeof hardware->cache_bytes);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *value = json_array_get(list, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return json_part_fail(part, "cache_bytes",
                                  "\"cache_bytes\": whole numbers are expected");
        hardware->cache_bytes[i] = (uint64_t)json_integer_value(value);
    }
    return TUTTI_OK;
}

static enum tutti_status load_key(const struct json_part *whole, struct calibration_key *key)
{
    static const char *const known[] = {"cpu_model",   "cpu_count",      "cpus_a_cache",
                                        "cache_bytes", "kernel_release", "cards",
                                        "host_count",  "rank_count",     NULL};
    struct hardware *hardware = &key->hardware;
    struct json_part part;
    TRY(enter(whole, "machine", &part));
    TRY(check_members(&part, known));
    TRY(read_text(&part, "cpu_model", hardware->cpu_model, sizeof hardware->cpu_model));
    TRY(read_count(&part, "cpu_count", CPU_COUNT_MAX, &hardware->cpu_count));
    TRY(read_count(&part, "cpus_a_cache", CPU_COUNT_MAX, &hardware->cpus_a_cache));
    TRY(load_caches(&part, hardware));
    TRY(read_text(&part, "kernel_release", hardware->kernel_release,
                  sizeof hardware->kernel_release));
    TRY(read_text(&part, "cards", hardware->cards, sizeof hardware->cards));
    TRY(read_count(&part, "host_count", RANKS_MAX, &key->host_count));
    return read_count(&part, "rank_count", RANKS_MAX, &key->rank_count);
}

/* Reads what else the file says of a number: its spread, and how it is known. */
static enum tutti_status read_how(const struct json_part *part, unsigned *spread_permille,
                                  enum calibration_known *known)
{
    json_t *value = json_object_get(part->object, "known");
    uint64_t spread = 0;
    TRY(json_part_integer(part, "spread_permille", 0, CALIBRATION_SPREAD_MAX, &spread));
    *spread_permille = (unsigned)spread;
    *known = CALIBRATION_ASSUMED;
    if (value == NULL) return TUTTI_OK;
    const char *name = json_string_value(value);
    *known = name != NULL ? calibration_known_from_name(name) : CALIBRATION_KNOWN_COUNT;
    if (*known != CALIBRATION_KNOWN_COUNT) return TUTTI_OK;
    return json_part_fail(part, "known", "\"known\": assumed or measured is expected");
}

static enum tutti_status load_number(const struct json_part *parameters, const char *key,
                                     struct calibration *calibration)
{
    static const char *const members[] = {"value", "spread_permille", "known", NULL};
    const enum calibration_parameter parameter = calibration_find(key);
    if (parameter == CALIBRATION_PARAMETERS)
        return fail_unknown(parameters, key, "copy_each_ps, turn_ps and other parameters");
    const struct calibration_info *info = calibration_info(parameter);
    struct calibration_number number = {0};
    struct json_part part;
    TRY(enter(parameters, key, &part));
    TRY(check_members(&part, members));
    if (json_object_get(part.object, "value") == NULL)
        return json_part_fail(&part, NULL, "\"%s\": a \"value\" is expected", key);
    TRY(json_part_integer(&part, "value", info->least, info->most, &number.value));
    TRY(read_how(&part, &number.spread_permille, &number.known));
    calibration->numbers[parameter] = number;
    return TUTTI_OK;
}

static enum tutti_status load_parameters(const struct json_part *whole,
                                         struct calibration *calibration)
{
    struct json_part part;
    const char *key;
    json_t *value;
    TRY(enter(whole, "parameters", &part));
    json_object_foreach(part.object, key, value) TRY(load_number(&part, key, calibration));
    return TUTTI_OK;
}

static enum path_kind find_path(const char *name)
{
    unsigned path = 0;
    while (path < PATH_KIND_COUNT && strcmp(path_kind_name(path), name) != 0) path++;
    return (enum path_kind)path;
}

static enum tutti_status load_path(const struct json_part *paths, const char *key,
                                   struct calibration_path *table)
{
    const char *members[CALIBRATION_PATH_VALUES + 3] = {"spread_permille", "known"};
    const enum path_kind path = find_path(key);
    if (path == PATH_KIND_COUNT || !table[path].is_there)
        return fail_unknown(paths, key, "slot, read and other paths of this table");
    struct json_part part;
    TRY(enter(paths, key, &part));
    for (unsigned i = 0; i < CALIBRATION_PATH_VALUES; i++)
        members[i + 2] = calibration_path_value_name(i);
    TRY(check_members(&part, members));
    for (unsigned i = 0; i < CALIBRATION_PATH_VALUES; i++)
        TRY(json_part_integer(&part, calibration_path_value_name(i), 0,
                              calibration_path_value_most(i), &table[path].values[i]));
    return read_how(&part, &table[path].spread_permille, &table[path].known);
}

static enum tutti_status load_paths(const struct json_part *whole, enum calibration_table table,
                                    struct calibration *calibration)
{
    struct json_part part;
    const char *key;
    json_t *value;
    TRY(enter(whole, calibration_table_name(table), &part));
    json_object_foreach(part.object, key, value)
        TRY(load_path(&part, key, calibration->paths[table]));
    return TUTTI_OK;
}

static enum tutti_status load_all(const struct json_part *whole, struct calibration *calibration)
{
    static const char *const known[] = {
        "tutti_calibration", "machine", "loaded", "parameters", "within", "between", NULL};
    if (!json_is_object(whole->object)) return json_part_fail(whole, NULL, "an object is expected");
    TRY(check_members(whole, known));
    if (json_integer_value(json_object_get(whole->object, "tutti_calibration")) != VERSION)
        return json_part_fail(whole, "tutti_calibration",
                              "\"tutti_calibration\": %d is expected here", VERSION);
    json_t *loaded = json_object_get(whole->object, "loaded");
    if (loaded != NULL && !json_is_boolean(loaded))
        return json_part_fail(whole, "loaded", "\"loaded\": true or false is expected");
    calibration->is_loaded = json_is_true(loaded);
    TRY(load_key(whole, &calibration->key));
    TRY(load_parameters(whole, calibration));
    TRY(load_paths(whole, CALIBRATION_WITHIN, calibration));
    return load_paths(whole, CALIBRATION_BETWEEN, calibration);
}

enum tutti_status calibration_json_load(const char *text, size_t text_bytes,
                                        struct calibration *calibration)
{
    json_t *json;
    TRY(json_text_load("calibration", text, text_bytes, CALIBRATION_JSON_BYTES_MAX, &json));
    const struct json_part whole = {text, text_bytes, {NULL, NULL, 0}, json};
    struct calibration loaded = *calibration;
    const enum tutti_status status = load_all(&whole, &loaded);
    json_decref(json);
    if (status == TUTTI_OK) *calibration = loaded;
    return status;
}

/* -------------------------------------------------------------------------------------- dumping */

static enum tutti_status dump_text(const char *before, const char *text, FILE *file)
{
    json_t *string = json_string(text);
    char *quoted = string != NULL ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    json_decref(string);
    if (quoted == NULL) return no_memory();
    fprintf(file, "%s%s", before, quoted);
    free(quoted);
    return TUTTI_OK;
}

static enum tutti_status dump_key(const struct calibration_key *key, FILE *file)
{
    const struct hardware *hardware = &key->hardware;
    TRY(dump_text(" \"machine\": {\"cpu_model\": ", hardware->cpu_model, file));
    fprintf(file, ", \"cpu_count\": %d, \"cpus_a_cache\": %d, \"cache_bytes\": [",
            hardware->cpu_count, hardware->cpus_a_cache);
    for (int i = 0; i < HARDWARE_CACHE_LEVELS; i++)
        fprintf(file, "%s%" PRIu64, i > 0 ? ", " : "", hardware->cache_bytes[i]);
    TRY(dump_text("],\n             \"kernel_release\": ", hardware->kernel_release, file));
    TRY(dump_text(", \"cards\": ", hardware->cards, file));
    fprintf(file, ", \"host_count\": %d, \"rank_count\": %d},\n", key->host_count, key->rank_count);
    return TUTTI_OK;
}

static void dump_how(unsigned spread_permille, enum calibration_known known, FILE *file)
{
    fprintf(file, ", \"spread_permille\": %u, \"known\": \"%s\"}", spread_permille,
            calibration_known_name(known));
}

static void dump_path(enum path_kind path, const struct calibration_path *values, FILE *file)
{
    fprintf(file, "\n  \"%s\": {", path_kind_name(path));
    for (unsigned i = 0; i < CALIBRATION_PATH_VALUES; i++)
        fprintf(file, "%s\"%s\": %" PRIu64, i > 0 ? ", " : "", calibration_path_value_name(i),
                values->values[i]);
    dump_how(values->spread_permille, values->known, file);
}

static void dump_paths(const struct calibration *calibration, enum calibration_table table,
                       FILE *file)
{
    const char *comma = "";
    fprintf(file, ",\n \"%s\": {", calibration_table_name(table));
    for (unsigned path = 0; path < PATH_KIND_COUNT; path++) {
        if (!calibration->paths[table][path].is_there) continue;
        fputs(comma, file);
        dump_path(path, &calibration->paths[table][path], file);
        comma = ",";
    }
    fputc('}', file);
}

enum tutti_status calibration_json_dump(const struct calibration *calibration, FILE *file)
{
    fprintf(file, "{\"tutti_calibration\": %d,\n", VERSION);
    TRY(dump_key(&calibration->key, file));
    fprintf(file, " \"loaded\": %s,\n \"parameters\": {", calibration->is_loaded ? "true" : "false");
    for (unsigned i = 0; i < CALIBRATION_PARAMETERS; i++) {
        const struct calibration_number *number = &calibration->numbers[i];
        fprintf(file, "%s\n  \"%s\": {\"value\": %" PRIu64, i > 0 ? "," : "",
                calibration_info(i)->name, number->value);
        dump_how(number->spread_permille, number->known, file);
    }
    fputc('}', file);
    dump_paths(calibration, CALIBRATION_WITHIN, file);
    dump_paths(calibration, CALIBRATION_BETWEEN, file);
    fputs("}\n", file);
    return TUTTI_OK;
}
