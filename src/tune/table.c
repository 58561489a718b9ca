#include "tune/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"

/* ----------------------------------------------------------------------------------------- keys */

enum { KEY_WORDS = 7 };

static bool has_dtypes(const struct tune_key *key)
{
    return collective_reduces(key->collective);
}

/* Writes the words by which keys are sorted and hashed. */
static void spell(const struct tune_key *key, uint64_t words[KEY_WORDS])
{
    words[0] = (uint64_t)key->shape.rank_count;
    words[1] = (uint64_t)key->shape.host_count;
    words[2] = (uint64_t)key->shape.rack_count;
    words[3] = key->shape.is_loopback;
    words[4] = key->collective;
    words[5] = has_dtypes(key) ? key->dtypes : CALIBRATION_CLASS_PLAIN;
    words[6] = key->is_mapped;
}

static int compare(const struct tune_key *one, const struct tune_key *other)
{
    uint64_t words[KEY_WORDS], other_words[KEY_WORDS];
    spell(one, words);
    spell(other, other_words);
    for (int i = 0; i < KEY_WORDS; i++)
        if (words[i] != other_words[i]) return words[i] < other_words[i] ? -1 : 1;
    return 0;
}

/* The first entry that ends behind a size of a key, or belongs to a later key. */
static int place_of(const struct tune_table *table, const struct tune_key *key, uint64_t bytes)
{
    int from = 0, to = table->count;
    while (from < to) {
        const int middle = from + (to - from) / 2;
        const struct tune_entry *entry = &table->entries[middle];
        const int order = compare(&entry->key, key);
        if (order < 0 || (order == 0 && entry->bytes_to <= bytes))
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

const struct tune_entry *tune_table_find(const struct tune_table *table, const struct tune_key *key,
                                         uint64_t bytes)
{
    const int place = place_of(table, key, bytes);
    if (place == table->count) return NULL;
    const struct tune_entry *entry = &table->entries[place];
    return compare(&entry->key, key) == 0 && entry->bytes_from <= bytes ? entry : NULL;
}

/* --------------------------------------------------------------------------------------- adding */

void tune_table_init(struct tune_table *table)
{
    *table = (struct tune_table){.count = 0};
}

void tune_table_release(struct tune_table *table)
{
    free(table->entries);
    tune_table_init(table);
}

static bool is_power_of_two(uint64_t bytes)
{
    return bytes != 0 && (bytes & (bytes - 1)) == 0;
}

static const char *wrong_shape(const struct tune_shape *shape)
{
    if (shape->rank_count < 2 || shape->rank_count > PLAN_RANKS_MAX)
        return "the ranks must be 2 or more, and as many as a plan can have at most";
    if (shape->host_count < 1 || shape->host_count > shape->rank_count)
        return "the hosts must be 1 to the number of ranks";
    if (shape->rack_count < 1 || shape->rack_count > shape->host_count)
        return "the racks must be 1 to the number of hosts";
    if (shape->is_loopback && shape->host_count > 1) return "loopback is for one host";
    return NULL;
}

static const char *wrong(const struct tune_entry *entry)
{
    const struct tune_key *key = &entry->key;
    const char *why = wrong_shape(&key->shape);
    if (why != NULL) return why;
    if ((unsigned)key->collective >= COLLECTIVE_COUNT ||
        (unsigned)key->dtypes >= CALIBRATION_CLASSES)
        return "there is no such collective or class of dtypes";
    if ((entry->bytes_from != 0 && !is_power_of_two(entry->bytes_from)) ||
        !is_power_of_two(entry->bytes_to) || entry->bytes_from >= entry->bytes_to ||
        entry->bytes_to > TUNE_BYTES_MAX)
        return "sizes must go from 0 or a power of two to a larger power of two, 2^48 at most";
    if (entry->algorithm == NULL || entry->algorithm->collective != key->collective)
        return "the algorithm is not one of this collective";
    if (entry->only_hosts && key->shape.rack_count == 1)
        return "hosts alone can be the levels only where there are racks";
    if (entry->time_ns > TUNE_TIME_NS_MAX || entry->faster_permille > TUNE_FASTER_PERMILLE_MAX)
        return "a measured value is too large";
    return NULL;
}

static bool make_room(struct tune_table *table, int count)
{
    if (count <= table->room) return true;
    const int room = count < 16 ? 16 : 2 * count;
    struct tune_entry *grown = realloc(table->entries, (size_t)room * sizeof *grown);
    if (grown == NULL) return false;
    table->entries = grown;
    table->room = room;
    return true;
}

/* The new entry cuts the entries from first to end, without end: of all of them, at most a piece at
 * each side is left.
 *
 *         first                end                     first             end
 *     |-----------|-----|------------|      ──►      |-----|    new     |----|
 *           |     new     |
 */
enum tutti_status tune_table_add(struct tune_table *table, const struct tune_entry *entry)
{
    const char *why = wrong(entry);
    if (why != NULL) return error_set(TUTTI_INVALID_OPTIONS, "%s", why);
    const int first = place_of(table, &entry->key, entry->bytes_from);
    int end = first, piece_count = 0;
    while (end < table->count && compare(&table->entries[end].key, &entry->key) == 0 &&
           table->entries[end].bytes_from < entry->bytes_to)
        end++;
    struct tune_entry pieces[3];
    if (end > first && table->entries[first].bytes_from < entry->bytes_from) {
        pieces[piece_count] = table->entries[first];
        pieces[piece_count++].bytes_to = entry->bytes_from;
    }
    pieces[piece_count] = *entry;
    if (!has_dtypes(&entry->key)) pieces[piece_count].key.dtypes = CALIBRATION_CLASS_PLAIN;
    piece_count++;
    if (end > first && table->entries[end - 1].bytes_to > entry->bytes_to) {
        pieces[piece_count] = table->entries[end - 1];
        pieces[piece_count++].bytes_from = entry->bytes_to;
    }
    const int count = table->count - (end - first) + piece_count;
    if (count > TUNE_ENTRIES_MAX)
        return error_set(TUTTI_UNSUPPORTED, "a table has at most %d entries", TUNE_ENTRIES_MAX);
    if (!make_room(table, count)) return error_set(TUTTI_NO_MEMORY, "a table: out of memory");
    memmove(table->entries + first + piece_count, table->entries + end,
            (size_t)(table->count - end) * sizeof *table->entries);
    memcpy(table->entries + first, pieces, (size_t)piece_count * sizeof *pieces);
    table->count = count;
    return TUTTI_OK;
}

enum tutti_status tune_table_merge(struct tune_table *table, const struct tune_table *other)
{
    for (int i = 0; i < other->count; i++) TRY(tune_table_add(table, &other->entries[i]));
    table->is_loaded = table->is_loaded || other->is_loaded;
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------------- fingerprint */

static uint64_t take_entry(uint64_t hash, const struct tune_entry *entry)
{
    uint64_t words[KEY_WORDS];
    spell(&entry->key, words);
    for (int i = 0; i < KEY_WORDS; i++) hash = hash_take(hash, words[i]);
    hash = hash_take(hash, entry->bytes_from);
    hash = hash_take(hash, entry->bytes_to);
    for (const char *c = entry->algorithm->name; *c != '\0'; c++)
        hash = hash_take(hash, (unsigned char)*c);
    return hash_take(hash, UINT64_C(256) + entry->only_hosts);
}

uint64_t tune_table_fingerprint(const struct tune_table *table)
{
    if (table == NULL || table->count == 0) return 0;
    uint64_t hash = 0x7461626cu;
    for (int i = 0; i < table->count; i++) hash = take_entry(hash, &table->entries[i]);
    return hash != 0 ? hash : 1;
}
