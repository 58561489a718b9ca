/* table_json.c - jansson reads, this file says what it means; bounds are those of tune/table.h. */
#include "format/table_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/printable.h"
#include "base/status.h"
#include "format/json_part.h"
#include "format/json_text.h"

enum { VERSION = 1 };

const char *table_json_dtypes(enum calibration_class dtypes)
{
    static const char *const names[CALIBRATION_CLASSES] = {
#define X(enumerator, name) #name,
        CALIBRATION_CLASS_LIST(X)
#undef X
    };
    return names[dtypes];
}

const char *table_json_memory(bool is_mapped)
{
    return is_mapped ? "mapped" : "private";
}

/* -------------------------------------------------------------------------------------- loading */

/* *to stays as it is where there is no such member. */
static enum tutti_status read_count(const struct json_part *part, const char *key, int *to)
{
    uint64_t value = (uint64_t)*to;
    TRY(json_part_integer(part, key, 0, PLAN_RANKS_MAX, &value));
    *to = (int)value;
    return TUTTI_OK;
}

static enum tutti_status read_boolean(const struct json_part *part, const char *key, bool *to)
{
    json_t *value = json_object_get(part->object, key);
    if (value == NULL) return TUTTI_OK;
    if (!json_is_boolean(value))
        return json_part_fail(part, key, "\"%s\": true or false is expected", key);
    *to = json_is_true(value);
    return TUTTI_OK;
}

/* NULL: there is no such member, or it is no text. */
static const char *name_at(const struct json_part *part, const char *key)
{
    return json_string_value(json_object_get(part->object, key));
}

static enum tutti_status fail_name(const struct json_part *part, const char *key,
                                   const char *expected)
{
    char shown[48];
    const char *name = name_at(part, key);
    if (name == NULL) return json_part_fail(part, key, "\"%s\": %s is expected", key, expected);
    snprintf(shown, sizeof shown, "%s", name);
    printable_make(shown);
    return json_part_fail(part, key, "\"%s\": \"%s\" is not known: %s is expected", key, shown,
                          expected);
}

static enum tutti_status load_names(const struct json_part *part, struct tune_entry *entry)
{
    const char *const collective = name_at(part, "collective");
    const char *const algorithm = name_at(part, "algorithm");
    entry->key.collective = collective != NULL ? collective_from_name(collective) : COLLECTIVE_COUNT;
    if (entry->key.collective == COLLECTIVE_COUNT)
        return fail_name(part, "collective", "the name of a collective");
    entry->algorithm = algorithm != NULL ? algo_find(entry->key.collective, algorithm) : NULL;
    if (entry->algorithm == NULL)
        return fail_name(part, "algorithm", "the name of an algorithm of this collective");
    return TUTTI_OK;
}

/* The words may be missing: then they are the first of their kind. */
static enum tutti_status load_words(const struct json_part *part, struct tune_entry *entry)
{
    const char *const dtypes = name_at(part, "dtypes");
    const char *const memory = name_at(part, "memory");
    unsigned class = 0;
    if (json_object_get(part->object, "dtypes") != NULL) {
        while (class < CALIBRATION_CLASSES &&
               (dtypes == NULL || strcmp(dtypes, table_json_dtypes(class)) != 0))
            class ++;
        if (class == CALIBRATION_CLASSES)
            return fail_name(part, "dtypes", "plain, float16 or float8");
        entry->key.dtypes = class;
    }
    if (json_object_get(part->object, "memory") == NULL) return TUTTI_OK;
    entry->key.is_mapped = memory != NULL && strcmp(memory, "mapped") == 0;
    if (entry->key.is_mapped || (memory != NULL && strcmp(memory, "private") == 0)) return TUTTI_OK;
    return fail_name(part, "memory", "private or mapped");
}

static enum tutti_status load_entry(const struct json_part *part, struct tune_table *table)
{
    struct tune_entry entry = {.key.shape = {.host_count = 1, .rack_count = 1}};
    struct tune_shape *shape = &entry.key.shape;
    uint64_t faster = 0;
    if (!json_is_object(part->object)) return json_part_fail(part, NULL, "an object is expected");
    TRY(read_count(part, "ranks", &shape->rank_count));
    TRY(read_count(part, "hosts", &shape->host_count));
    TRY(read_count(part, "racks", &shape->rack_count));
    TRY(read_boolean(part, "loopback", &shape->is_loopback));
    TRY(load_names(part, &entry));
    TRY(load_words(part, &entry));
    TRY(json_part_integer(part, "from_bytes", 0, TUNE_BYTES_MAX, &entry.bytes_from));
    TRY(json_part_integer(part, "to_bytes", 0, TUNE_BYTES_MAX, &entry.bytes_to));
    TRY(read_boolean(part, "only_hosts", &entry.only_hosts));
    TRY(json_part_integer(part, "time_ns", 0, TUNE_TIME_NS_MAX, &entry.time_ns));
    TRY(json_part_integer(part, "faster_permille", 0, TUNE_FASTER_PERMILLE_MAX, &faster));
    entry.faster_permille = (unsigned)faster;
    if (tune_table_add(table, &entry) == TUTTI_OK) return TUTTI_OK;
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    return json_part_fail(part, NULL, "%.380s", why);
}

static enum tutti_status load_all(const struct json_part *whole, struct tune_table *table)
{
    if (!json_is_object(whole->object)) return json_part_fail(whole, NULL, "an object is expected");
    if (json_integer_value(json_object_get(whole->object, "tutti_table")) != VERSION)
        return json_part_fail(whole, "tutti_table", "\"tutti_table\": %d is expected here", VERSION);
    TRY(read_boolean(whole, "loaded", &table->is_loaded));
    json_t *entries = json_object_get(whole->object, "entries"), *entry;
    if (entries == NULL) return TUTTI_OK;
    if (!json_is_array(entries))
        return json_part_fail(whole, "entries", "\"entries\": a list is expected");
    const struct json_position list = {&whole->place, "entries", 0};
    size_t i;
    json_array_foreach(entries, i, entry)
    {
        const struct json_part part = {whole->text, whole->text_bytes, {&list, NULL, i}, entry};
        TRY(load_entry(&part, table));
    }
    return TUTTI_OK;
}

enum tutti_status table_json_load(const char *text, size_t text_bytes, struct tune_table *table)
{
    json_t *json;
    TRY(json_text_load("table", text, text_bytes, TABLE_JSON_BYTES_MAX, &json));
    const struct json_part whole = {text, text_bytes, {NULL, NULL, 0}, json};
    struct tune_table loaded;
    tune_table_init(&loaded);
    const enum tutti_status status = load_all(&whole, &loaded);
    json_decref(json);
    if (status != TUTTI_OK) {
        tune_table_release(&loaded);
        return status;
    }
    tune_table_release(table);
    *table = loaded;
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- dumping */

static const char *boolean(bool value)
{
    return value ? "true" : "false";
}

static void dump_entry(const struct tune_entry *entry, FILE *file)
{
    const struct tune_key *key = &entry->key;
    fprintf(file, "\n  {\"ranks\": %d, \"hosts\": %d, \"racks\": %d, \"loopback\": %s,\n",
            key->shape.rank_count, key->shape.host_count, key->shape.rack_count,
            boolean(key->shape.is_loopback));
    fprintf(file,
            "   \"collective\": \"%s\", \"dtypes\": \"%s\", \"memory\": \"%s\", \"from_bytes\": "
            "%" PRIu64 ", \"to_bytes\": %" PRIu64 ",\n",
            collective_name(key->collective), table_json_dtypes(key->dtypes),
            table_json_memory(key->is_mapped), entry->bytes_from, entry->bytes_to);
    fprintf(file,
            "   \"algorithm\": \"%s\", \"only_hosts\": %s, \"time_ns\": %" PRIu64
            ", \"faster_permille\": %u}",
            entry->algorithm->name, boolean(entry->only_hosts), entry->time_ns,
            entry->faster_permille);
}

void table_json_dump(const struct tune_table *table, FILE *file)
{
    fprintf(file, "{\"tutti_table\": %d,\n \"loaded\": %s,\n \"entries\": [", VERSION,
            boolean(table->is_loaded));
    for (int i = 0; i < table->count; i++) {
        if (i > 0) fputc(',', file);
        dump_entry(&table->entries[i], file);
    }
    fputs("]}\n", file);
}
