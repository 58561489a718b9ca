#include "team/host_levels.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/levels.h"
#include "base/hash.h"
#include "base/option.h"
#include "base/status.h"
#include "os/file.h"
#include "topo/racks.h"

enum { FILE_BYTES_MAX = 1 << 24, MESSAGE_SIZE = 512, LISTED_SIZE = 200 };

/* ------------------------------------------------------------------------------------- the file */

static enum tutti_status parse(const char *text, size_t size, struct topo *topo)
{
    const char first = text[strspn(text, " \t\r\n")];
    if (first == '{' || first == '<')
        return error_set(TUTTI_UNSUPPORTED,
                         "it is %s; `tutti-topo FILE --format racks` writes what "
                         "the library reads, lines of racks and their hosts",
                         first == '{' ? "JSON" : "XML");
    return topo_racks_load(text, size, topo);
}

enum tutti_status host_levels_read_topology(struct topo *topo)
{
    const char *name = option_text(OPTION_TOPO_FILE);
    size_t size = 0;
    *topo = (struct topo){0};
    if (name == NULL) return TUTTI_OK;
    FILE *file = fopen(name, "rbe");
    char *text = file == NULL ? NULL : file_read_all(file, FILE_BYTES_MAX, &size);
    enum tutti_status status = TUTTI_OK;
    if (text == NULL) {
        status = error_system("%s: %s", option_names.TOPO_FILE, name);
    } else if ((status = parse(text, size, topo)) != TUTTI_OK) {
        char why[MESSAGE_SIZE];
        error_copy(why, sizeof why);
        error_set(status, "%s: %s: %s", option_names.TOPO_FILE, name, why);
    }
    free(text);
    if (file != NULL) fclose(file);
    return status;
}

/* ---------------------------------------------------------------------- machines by their names */

static bool is_same_before_dots(const char *one, const char *other)
{
    const size_t length = strcspn(one, ".");
    return length > 0 && length == strcspn(other, ".") && memcmp(one, other, length) == 0;
}

/* The machines that fit the host's name best; *first is the first of them. */
static int count_machines(const struct topo *topo, const char *host, int *first)
{
    for (int loosely = 0; loosely < 2; loosely++) {
        int count = 0;
        for (int i = topo->node_count - 1; i >= 0; i--) {
            const struct topo_node *node = &topo->nodes[i];
            if (node->kind != TOPO_MACHINE) continue;
            if (loosely ? !is_same_before_dots(node->name, host) : strcmp(node->name, host) != 0)
                continue;
            *first = i;
            count++;
        }
        if (count > 0) return count;
    }
    return 0;
}

static void list_machines(const struct topo *topo, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < topo->node_count && length < size; i++) {
        if (topo->nodes[i].kind != TOPO_MACHINE) continue;
        const int more = snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "",
                                  topo->nodes[i].name);
        if (more < 0 || (size_t)more >= size - length) {
            snprintf(text + length, size - length, ", ...");
            return;
        }
        length += (size_t)more;
    }
}

static enum tutti_status find_machine(const struct topo *topo, const char *host, int rank,
                                      int *machine)
{
    const int count = count_machines(topo, host, machine);
    if (count == 1) return TUTTI_OK;
    if (count > 1)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "the topology of TUTTI_TOPO_FILE has %d machines of the name of host %s, "
                         "which rank %d is on",
                         count, host, rank);
    char names[LISTED_SIZE];
    list_machines(topo, names, sizeof names);
    return error_set(
        TUTTI_INVALID_OPTIONS,
        "the topology of TUTTI_TOPO_FILE has no machine named %s, which rank %d is on; it has %s",
        host, rank, names[0] != '\0' ? names : "none");
}

/* The place of that kind in which a machine stands, or the machine itself if there is none. */
static int place_of(const struct topo *topo, int machine, enum topo_kind kind)
{
    const int place = topo_place_of_machine(topo, machine, kind);
    return place >= 0 ? place : machine;
}

/* --------------------------------------------------------------------------------------- levels */

static const enum topo_kind kinds[] = {TOPO_RACK, TOPO_SWITCH, TOPO_CLUSTER};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };
static_assert(1 + KIND_COUNT <= ALGO_LEVELS_MAX, "a level for the hosts and one for each kind");

/* Groups are nodes of the topology. room: a byte a node, zeros before and after. */
static int count_groups(const int *group_of, int rank_count, char *room)
{
    int count = 0;
    for (int r = 0; r < rank_count; r++) {
        count += !room[group_of[r]];
        room[group_of[r]] = 1;
    }
    for (int r = 0; r < rank_count; r++) room[group_of[r]] = 0;
    return count;
}

/* Finer ones first. */
static void sort_by_count(int **group_of, int *counts, int count)
{
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && counts[k - 1] < counts[k]; k--) {
            int *const groups = group_of[k];
            const int kept = counts[k];
            group_of[k] = group_of[k - 1];
            counts[k] = counts[k - 1];
            group_of[k - 1] = groups;
            counts[k - 1] = kept;
        }
}

/* Adds a level if it tells hosts apart and nests with the levels that are there. */
static enum tutti_status add_level(struct host_levels *levels, const int *group_of)
{
    const char *message;
    levels->levels.group_of[levels->levels.level_count++] = group_of;
    const enum tutti_status status =
        algo_check_levels(&levels->levels, levels->rank_count, &message);
    if (status != TUTTI_OK) levels->levels.level_count--;
    return status == TUTTI_NO_MEMORY ? error_set(status, "levels: %s", message) : TUTTI_OK;
}

/* Fills a group of each kind for every rank; the order, which is not known yet, has their machines
 * meanwhile. */
static enum tutti_status find_places(struct host_levels *levels, int **group_of,
                                     const char *const *host_names, const struct topo *topo)
{
    const int *host_of = levels->groups;
    for (int r = 0, machine = 0; r < levels->rank_count; r++) {
        if (r == 0 || host_of[r] != host_of[r - 1])
            TRY(find_machine(topo, host_names[r], r, &machine));
        levels->order[r] = machine;
        for (int k = 0; k < KIND_COUNT; k++) group_of[k][r] = place_of(topo, machine, kinds[k]);
    }
    return TUTTI_OK;
}

static enum tutti_status add_places(struct host_levels *levels, const char *const *host_names,
                                    const struct topo *topo)
{
    int *group_of[KIND_COUNT], counts[KIND_COUNT];
    for (int k = 0; k < KIND_COUNT; k++)
        group_of[k] = levels->groups + (size_t)(k + 1) * (size_t)levels->rank_count;
    TRY(find_places(levels, group_of, host_names, topo));
    char *room = calloc((size_t)topo->node_count, 1);
    if (room == NULL) return error_set(TUTTI_NO_MEMORY, "levels: out of memory");
    int last = count_groups(levels->order, levels->rank_count, room);
    for (int k = 0; k < KIND_COUNT; k++)
        counts[k] = count_groups(group_of[k], levels->rank_count, room);
    free(room);
    sort_by_count(group_of, counts, KIND_COUNT);
    for (int k = 0; k < KIND_COUNT; k++) {
        if (counts[k] > 1 && counts[k] < last) TRY(add_level(levels, group_of[k]));
        last = counts[k];
    }
    return TUTTI_OK;
}

/* A fingerprint of which ranks are together, whatever numbers the groups have. */
static uint64_t fingerprint_of(const struct host_levels *levels, const struct hierarchy *h)
{
    uint64_t hash = hash_take(0x6c6576656c73u, (uint64_t)levels->rank_count);
    hash = hash_take(hash, (uint64_t)levels->host_count);
    for (int i = 0; i < levels->rank_count; i++) hash = hash_take(hash, (uint64_t)h->order[i]);
    for (int level = 0; level <= h->top; level++)
        for (int unit = 0; unit < h->unit_count[level]; unit++)
            hash = hash_take(hash, (uint64_t)h->units[level][unit] | (uint64_t)level << 32);
    return hash;
}

/* Keeps the groups of the levels that there are, and gives back the room for others. */
static enum tutti_status trim(struct host_levels *levels)
{
    const size_t count = (size_t)levels->rank_count;
    int *const groups = malloc(sizeof *groups * count * (size_t)levels->levels.level_count);
    if (groups == NULL) return TUTTI_NO_MEMORY;
    for (int k = 0; k < levels->levels.level_count; k++) {
        memcpy(groups + (size_t)k * count, levels->levels.group_of[k], sizeof *groups * count);
        levels->levels.group_of[k] = groups + (size_t)k * count;
    }
    free(levels->groups);
    levels->groups = groups;
    return TUTTI_OK;
}

static enum tutti_status arrange(struct host_levels *levels, struct hierarchy *hierarchy)
{
    TRY(trim(levels));
    TRY(algo_order_by_levels(&levels->levels, levels->rank_count, levels->order));
    return hierarchy_init(hierarchy, &levels->levels, NULL, levels->rank_count);
}

/* Hosts of one rank each are no level of the hierarchy, and neither is one host of all ranks. */
static int count_hosts(const struct host_levels *levels, const struct hierarchy *hierarchy)
{
    const int *const group_of = levels->levels.group_of[0];
    bool is_one = true;
    for (int r = 1; r < levels->rank_count; r++) is_one &= group_of[r] == group_of[0];
    if (is_one) return 1;
    return hierarchy->unit_count[hierarchy->has_hosts ? 1 : 0];
}

/* Computes what follows from the levels. */
static enum tutti_status complete(struct host_levels *levels)
{
    struct hierarchy hierarchy;
    const enum tutti_status status = arrange(levels, &hierarchy);
    if (status != TUTTI_OK) return error_set(status, "levels: out of memory");
    levels->host_count = count_hosts(levels, &hierarchy);
    levels->fingerprint = fingerprint_of(levels, &hierarchy);
    hierarchy_release(&hierarchy);
    return TUTTI_OK;
}

static enum tutti_status allocate(struct host_levels *levels, int rank_count)
{
    *levels = (struct host_levels){.rank_count = rank_count, .levels = {.level_count = 1}};
    levels->order = malloc(sizeof *levels->order * (size_t)rank_count);
    levels->groups = malloc(sizeof *levels->groups * (size_t)rank_count * ALGO_LEVELS_MAX);
    levels->levels.group_of[0] = levels->groups;
    if (levels->order != NULL && levels->groups != NULL) return TUTTI_OK;
    host_levels_release(levels);
    return error_set(TUTTI_NO_MEMORY, "levels: out of memory");
}

enum tutti_status host_levels_init(struct host_levels *levels, int rank_count, const int *host_of,
                                   const char *const *host_names, const struct topo *topo)
{
    TRY(allocate(levels, rank_count));
    memcpy(levels->groups, host_of, sizeof *host_of * (size_t)rank_count);
    enum tutti_status status = TUTTI_OK;
    if (topo != NULL && topo->node_count > 0) status = add_places(levels, host_names, topo);
    if (status == TUTTI_OK) status = complete(levels);
    if (status != TUTTI_OK) host_levels_release(levels);
    return status;
}

enum tutti_status host_levels_init_racks(struct host_levels *levels, int rank_count,
                                         const int *host_of, const int *rack_of)
{
    TRY(allocate(levels, rank_count));
    memcpy(levels->groups, host_of, sizeof *host_of * (size_t)rank_count);
    int *const racks = levels->groups + rank_count;
    for (int r = 0; r < rank_count; r++) racks[r] = rack_of[host_of[r]];
    enum tutti_status status = add_level(levels, racks);
    if (status == TUTTI_OK) status = complete(levels);
    if (status != TUTTI_OK) host_levels_release(levels);
    return status;
}

enum tutti_status host_levels_select(struct host_levels *part, const struct host_levels *whole,
                                     const int *ranks, int rank_count)
{
    TRY(allocate(part, rank_count));
    part->levels.level_count = whole->levels.level_count;
    for (int k = 0; k < whole->levels.level_count; k++) {
        int *groups = part->groups + (size_t)k * (size_t)rank_count;
        for (int i = 0; i < rank_count; i++) groups[i] = whole->levels.group_of[k][ranks[i]];
        part->levels.group_of[k] = groups;
    }
    const enum tutti_status status = complete(part);
    if (status != TUTTI_OK) host_levels_release(part);
    return status;
}

void host_levels_release(struct host_levels *levels)
{
    free(levels->order);
    free(levels->groups);
    *levels = (struct host_levels){0};
}
