#include "path/path.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

enum { PIECE_STEP = 4096 };

const char *path_kind_name(enum path_kind path)
{
    static const char *const names[PATH_KIND_COUNT] = {
#define X(enumerator, name, text) [enumerator] = name,
        PATH_KIND_LIST(X)
#undef X
    };
    return (unsigned)path < PATH_KIND_COUNT ? names[path] : "?";
}

enum path_traffic path_traffic_of(enum collective collective)
{
    switch (collective) {
    case COLLECTIVE_ALLREDUCE: return PATH_REDUCED_FOR_ALL;
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_REDUCE_SCATTER: return PATH_REDUCED;
    case COLLECTIVE_GATHER: return PATH_TO_ROOT;
    case COLLECTIVE_SCATTER: return PATH_FROM_ROOT;
    case COLLECTIVE_ALLTOALL: return PATH_EXCHANGE;
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return PATH_SPREAD;
}

const struct path_row *path_row_of(const struct path_table *table, enum path_kind path)
{
    for (unsigned i = 0; i < table->row_count && (table->lacks & path_bit(path)) == 0; i++)
        if (table->rows[i].path == path) return &table->rows[i];
    return NULL;
}

size_t path_piece_bytes(const struct path_sizes *sizes, size_t largest_bytes, unsigned piece_count)
{
    const size_t bytes = (largest_bytes / piece_count + PIECE_STEP - 1) / PIECE_STEP * PIECE_STEP;
    return bytes < sizes->piece_bytes_min ? sizes->piece_bytes_min : bytes;
}

/* ------------------------------------------------------------------------------------- choosing */

bool path_applies(const struct path_rule *rule, const struct path_case *message)
{
    if (message->is_encoded && (path_bit(rule->path) & PATH_AS_THEY_LIE) != 0) return false;
    return message->bytes >= rule->bytes_min && message->bytes <= rule->bytes_max &&
           (rule->traffic & message->traffic) != 0 && (rule->readers & message->readers) != 0 &&
           (rule->steps & message->step) != 0 && (rule->cores & message->cores) != 0 &&
           (rule->senders & message->senders) != 0 &&
           (rule->readers_max == 0 || message->reader_count <= rule->readers_max) &&
           (rule->all_bytes_max == 0 ||
            message->bytes <= rule->all_bytes_max / (size_t)message->rank_count);
}

void path_add(struct path_list *list, enum path_kind path)
{
    if (path_has(list, path)) return;
    list->paths[list->count++] = (uint8_t)path;
    list->bits |= (uint16_t)path_bit(path);
}

struct path_list path_choose(const struct path_table *table, const struct path_case *message)
{
    struct path_list list = {.count = 0};
    for (unsigned i = 0; i < table->rule_count; i++)
        if ((table->lacks & path_bit(table->rules[i].path)) == 0 &&
            path_applies(&table->rules[i], message))
            path_add(&list, table->rules[i].path);
    return list;
}

size_t path_least_bytes(const struct path_table *table, enum path_kind path)
{
    size_t least = SIZE_MAX;
    for (unsigned i = 0; i < table->rule_count && (table->lacks & path_bit(path)) == 0; i++)
        if (table->rules[i].path == path && table->rules[i].bytes_min < least)
            least = table->rules[i].bytes_min;
    return least;
}

size_t path_inline_bytes(const struct path_table *table)
{
    size_t most = 0;
    for (unsigned i = 0; i < table->rule_count && (table->lacks & path_bit(PATH_INLINE)) == 0; i++)
        if (table->rules[i].path == PATH_INLINE && table->rules[i].bytes_max > most)
            most = table->rules[i].bytes_max;
    return most;
}

struct path_list path_common(const struct path_list *list, const struct path_list *other)
{
    struct path_list common = {.count = 0};
    for (unsigned i = 0; i < list->count; i++)
        if (path_has(other, list->paths[i])) path_add(&common, list->paths[i]);
    return common;
}

void path_describe(const struct path_list *list, char *text, size_t text_bytes)
{
    size_t used = 0;
    if (text_bytes > 0) text[0] = '\0';
    for (unsigned i = 0; i < list->count && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", i > 0 ? ", " : "",
                                 path_kind_name(list->paths[i]));
}

/* ------------------------------------------------------------------------------------- checking */

/* Whether a message of any size has a path for which a step can wait. */
static bool has_last_path(const struct path_table *table, struct path_case *message)
{
    /* The paths that a rule allows change only at its bounds. */
    for (unsigned i = 0; i <= 2 * table->rule_count; i++) {
        const struct path_rule *rule = &table->rules[i / 2 % table->rule_count];
        message->bytes = i == 2 * table->rule_count       ? SIZE_MAX
                         : i % 2 == 0                     ? rule->bytes_min
                         : rule->bytes_max < SIZE_MAX - 1 ? rule->bytes_max + 1
                                                          : 0;
        const struct path_list list = path_choose(table, message);
        const unsigned last = list.count > 0 ? list.paths[list.count - 1] : PATH_KIND_COUNT;
        if (last != PATH_INLINE && last != PATH_SLOT && last != PATH_GROUP_SLOT && last != PATH_STAGE)
            return false;
    }
    return true;
}

static bool all_have_last_paths(const struct path_table *table)
{
    struct path_case message = {.rank_count = 2};
    for (unsigned t = 1; t < PATH_ANY_TRAFFIC; t <<= 1)
        for (unsigned r = 1; r < PATH_ANY_READERS; r <<= 1)
            for (unsigned i = 0; i < 8; i++) {
                message.traffic = (enum path_traffic)t;
                message.readers = (enum path_readers)r;
                message.step = i & 1 ? PATH_PASSES : PATH_SENDS;
                message.cores = i & 2 ? PATH_SHARED_CORES : PATH_OWN_CORES;
                message.senders = i & 4 ? PATH_MANY_SENDERS : PATH_FEW_SENDERS;
                if (!has_last_path(table, &message)) return false;
            }
    return true;
}

static bool has_row(const struct path_table *table, enum path_kind path)
{
    for (unsigned i = 0; i < table->row_count; i++)
        if (table->rows[i].path == path) return true;
    return false;
}

static bool is_repeated(const struct path_table *table, unsigned row)
{
    for (unsigned i = 0; i < row; i++)
        if (table->rows[i].path == table->rows[row].path) return true;
    return false;
}

const char *path_check(const struct path_table *table)
{
    if (table->row_count == 0 || table->rule_count == 0) return "it has no rows or no rules";
    for (unsigned i = 0; i < table->row_count; i++) {
        const struct path_row *row = &table->rows[i];
        if ((unsigned)row->path >= PATH_KIND_COUNT || is_repeated(table, i))
            return "two rows for one path";
        if (row->alignment == 0 || row->in_flight == 0 || row->measured == NULL)
            return "a row without an alignment, a number in flight or a measurement";
    }
    for (unsigned i = 0; i < table->rule_count; i++) {
        const struct path_rule *rule = &table->rules[i];
        if (!has_row(table, rule->path)) return "a rule for a path without a row";
        if (rule->bytes_min > rule->bytes_max || rule->why == NULL)
            return "a rule with its bounds the wrong way round, or without a reason";
        if (rule->traffic == 0 || rule->readers == 0 || rule->steps == 0 || rule->cores == 0 ||
            rule->senders == 0)
            return "a rule that never applies";
    }
    if (table->sizes.piece_bytes_min > table->sizes.piece_bytes_max)
        return "pieces with their bounds the wrong way round";
    return all_have_last_paths(table) ? NULL : "a message that no path is left for";
}

/* --------------------------------------------------------------------------------------- agreed */

uint64_t path_agreed(const struct path_map *map)
{
    uint64_t hash = 1;
    for (int t = 0; t < PATH_TABLES_MAX && map->tables[t] != NULL; t++) {
        const struct path_sizes *sizes = &map->tables[t]->sizes;
        hash = hash_take(hash, sizes->piece_bytes_min);
        hash = hash_take(hash, sizes->piece_bytes_max);
        hash = hash_take(hash, sizes->mapped_bytes_min);
        hash = hash_take(hash, sizes->copies_bytes_min);
    }
    return hash;
}
