#include "text.h"

#include <inttypes.h>

#include "format/table_json.h"

enum { SIZE_TEXT = 32 };

/* 4096 is "4k". */
static const char *size_text(uint64_t bytes, char text[SIZE_TEXT])
{
    static const char *const units[] = {"", "k", "m", "g", "t"};
    unsigned unit = 0;
    for (; bytes != 0 && bytes % 1024 == 0 && unit < 4; unit++) bytes /= 1024;
    snprintf(text, SIZE_TEXT, "%" PRIu64 "%s", bytes, units[unit]);
    return text;
}

static void print_shape(const struct tune_shape *shape, FILE *file)
{
    fprintf(file, "%d ranks on %d host%s in %d rack%s%s\n", shape->rank_count, shape->host_count,
            shape->host_count == 1 ? "" : "s", shape->rack_count, shape->rack_count == 1 ? "" : "s",
            shape->is_loopback ? ", over its network" : "");
}

static bool is_same(const struct tune_shape *one, const struct tune_shape *other)
{
    return one->rank_count == other->rank_count && one->host_count == other->host_count &&
           one->rack_count == other->rack_count && one->is_loopback == other->is_loopback;
}

static void print_entry(const struct tune_entry *entry, FILE *file)
{
    char from[SIZE_TEXT], to[SIZE_TEXT], range[2 * SIZE_TEXT + 1];
    const struct tune_key *key = &entry->key;
    snprintf(range, sizeof range, "%s-%s", size_text(entry->bytes_from, from),
             size_text(entry->bytes_to, to));
    fprintf(file, "  %-14s  %-7s  %-7s  %-11s  %10.2f us  %+6.1f %%  %s%s\n",
            collective_name(key->collective),
            collective_reduces(key->collective) ? table_json_dtypes(key->dtypes) : "all",
            table_json_memory(key->is_mapped), range, (double)entry->time_ns / 1000,
            entry->faster_permille / 10.0, entry->algorithm->name,
            entry->only_hosts ? ", of hosts alone" : "");
}

void print_table(const struct tune_table *table, FILE *file)
{
    if (table->is_loaded)
        fputs("others used the machines while they were measured: entries may be wrong\n", file);
    if (table->count == 0) {
        fputs("no entries: the model's choices stand\n", file);
        return;
    }
    for (int i = 0; i < table->count; i++) {
        const struct tune_entry *entry = &table->entries[i];
        if (i == 0 || !is_same(&entry->key.shape, &table->entries[i - 1].key.shape)) {
            print_shape(&entry->key.shape, file);
            fputs(
                "  collective      dtypes   memory   block             time     model  algorithm\n",
                file);
        }
        print_entry(entry, file);
    }
}
