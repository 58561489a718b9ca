#include "team/hosts.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"

static enum tutti_status out_of_memory(struct team_hosts *hosts)
{
    team_hosts_free(hosts);
    return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
}

static struct team_hosts *allocate(int size)
{
    struct team_hosts *hosts = calloc(1, sizeof *hosts);
    if (hosts == NULL) return NULL;
    const size_t ranks = (size_t)size;
    hosts->size = size;
    hosts->entries = calloc(ranks, sizeof *hosts->entries);
    hosts->host_of = calloc(ranks, sizeof *hosts->host_of);
    hosts->firsts = calloc(ranks, sizeof *hosts->firsts);
    hosts->local_numbers = calloc(ranks, sizeof *hosts->local_numbers);
    if (hosts->entries != NULL && hosts->host_of != NULL && hosts->firsts != NULL &&
        hosts->local_numbers != NULL)
        return hosts;
    team_hosts_free(hosts);
    return NULL;
}

/* A table of ranks by a key of theirs, in which nothing is deleted: the place of the first rank
 * with that key (the rank and 1), or the free one where it belongs. */
static int *place_of(int *places, const uint64_t *keys, int size, uint64_t wanted)
{
    const size_t place_count = 2 * (size_t)size;
    size_t at = (size_t)((wanted ^ wanted >> 29) * 0x9e3779b97f4a7c15u >> 20) % place_count;
    while (places[at] > 0 && keys[places[at] - 1] != wanted) at = (at + 1) % place_count;
    return &places[at];
}

/* Finds for each rank the first rank with the same key. */
static bool find_firsts(const uint64_t *keys, int size, int *first_of)
{
    int *const places = calloc(2 * (size_t)size, sizeof *places);
    if (places == NULL) return false;
    for (int r = 0; r < size; r++) {
        int *const place = place_of(places, keys, size, keys[r]);
        if (*place == 0) *place = r + 1;
        first_of[r] = *place - 1;
    }
    free(places);
    return true;
}

/* Numbers the hosts in the order of their first ranks. */
static bool number_hosts(struct team_hosts *hosts, uint64_t *keys)
{
    int *const host_of = hosts->host_of;
    for (int r = 0; r < hosts->size; r++) keys[r] = hosts->entries[r].host;
    if (!find_firsts(keys, hosts->size, host_of)) return false;
    for (int r = 0; r < hosts->size; r++) {
        if (host_of[r] == r) hosts->firsts[hosts->host_count++] = r;
        host_of[r] = host_of[r] == r ? hosts->host_count - 1 : host_of[host_of[r]];
    }
    return true;
}

/* Finds for each rank the first rank on the same cores. The ranks of a host may be tied to
 * different cores; hosts share cores if their first ranks do. Returns whether any do. */
static bool find_sharers(const struct team_hosts *hosts, int *cores_of)
{
    bool are_shared = false;
    for (int r = 0; r < hosts->size; r++) {
        const int first = hosts->firsts[hosts->host_of[r]];
        if (first < r)
            cores_of[r] = cores_of[first];
        else if (hosts->entries[r].cores == 0)
            cores_of[r] = r;
        else
            cores_of[r] = cores_of[cores_of[r]];
        are_shared |= hosts->host_of[cores_of[r]] != hosts->host_of[r];
    }
    return are_shared;
}

/* Each set of cores that ranks are tied to counts once. (No rank knows which sets overlap in
 * part.) */
static void count_cores(struct team_hosts *hosts, const int *cores_of, const int *first_of)
{
    for (int r = 0; r < hosts->size; r++) {
        const int host = hosts->host_of[cores_of[r]], more = hosts->entries[r].core_count;
        int *const count = &hosts->core_counts[host];
        if (first_of[r] == r) *count = *count < INT_MAX - more ? *count + more : INT_MAX;
        hosts->crowds[host]++;
    }
    for (int h = 0; h < hosts->host_count; h++) {
        const int first = hosts->host_of[cores_of[hosts->firsts[h]]];
        hosts->crowds[h] = hosts->crowds[first];
        hosts->core_counts[h] = hosts->core_counts[first];
    }
}

static bool find_cores(struct team_hosts *hosts, uint64_t *keys)
{
    const size_t host_count = (size_t)hosts->host_count;
    int *const cores_of = calloc((size_t)hosts->size, sizeof *cores_of), *const first_of = calloc(
                                                                             (size_t)hosts->size,
                                                                             sizeof *first_of);
    hosts->crowds = calloc(host_count, sizeof *hosts->crowds);
    hosts->core_counts = calloc(host_count, sizeof *hosts->core_counts);
    bool is_found =
        cores_of != NULL && first_of != NULL && hosts->crowds != NULL && hosts->core_counts != NULL;
    for (int r = 0; r < hosts->size; r++) keys[r] = hosts->entries[r].cores;
    is_found = is_found && find_firsts(keys, hosts->size, cores_of);
    const bool are_shared = is_found && find_sharers(hosts, cores_of);
    for (int r = 0; r < hosts->size && is_found;
         r++) /* sets of cores, of the hosts that share some */
        keys[r] = hash_take(hash_take(1, (uint64_t)cores_of[r]), keys[r]);
    is_found = is_found && find_firsts(keys, hosts->size, first_of);
    if (is_found) count_cores(hosts, cores_of, first_of);
    free(first_of);
    if (are_shared)
        hosts->cores_of = cores_of;
    else
        free(cores_of);
    return is_found;
}

/* Counts the ranks of each host, and makes room for the arrays with one element for each host, or
 * for each rank of this host. */
static bool count_ranks(struct team_hosts *hosts, int own_host)
{
    const size_t host_count = (size_t)hosts->host_count;
    int *const firsts = realloc(hosts->firsts, host_count * sizeof *firsts);
    if (firsts != NULL) hosts->firsts = firsts;
    hosts->counts = calloc(host_count, sizeof *hosts->counts);
    if (firsts == NULL || hosts->counts == NULL) return false;
    for (int r = 0; r < hosts->size; r++)
        if (++hosts->counts[hosts->host_of[r]] > hosts->largest)
            hosts->largest = hosts->counts[hosts->host_of[r]];
    hosts->local_ranks = calloc((size_t)hosts->counts[own_host], sizeof *hosts->local_ranks);
    return hosts->local_ranks != NULL;
}

/* Numbers the hosts and their ranks from the entries. */
static enum tutti_status number(struct team_hosts **hosts, int rank)
{
    struct team_hosts *const made = *hosts;
    uint64_t *const keys = malloc((size_t)made->size * sizeof *keys);
    const bool is_made = keys != NULL && number_hosts(made, keys) &&
                         count_ranks(made, made->host_of[rank]) && find_cores(made, keys);
    free(keys);
    if (!is_made) {
        *hosts = NULL;
        return out_of_memory(made);
    }
    for (int r = 0; r < made->size; r++) {
        made->local_numbers[r] = -1;
        if (made->host_of[r] != made->host_of[rank]) continue;
        made->local_numbers[r] = made->local_size;
        made->local_ranks[made->local_size++] = r;
    }
    return TUTTI_OK;
}

enum tutti_status team_hosts_create(const struct discovery_entry *entries, int rank, int size,
                                    struct team_hosts **hosts)
{
    *hosts = allocate(size);
    if (*hosts == NULL) return out_of_memory(NULL);
    memcpy((*hosts)->entries, entries, (size_t)size * sizeof *entries);
    return number(hosts, rank);
}

enum tutti_status team_hosts_of_some(const struct team_hosts *hosts, const int *ranks, int rank,
                                     int size, struct team_hosts **some)
{
    *some = allocate(size);
    if (*some == NULL) return out_of_memory(NULL);
    for (int i = 0; i < size; i++) team_hosts_entry(hosts, ranks[i], &(*some)->entries[i]);
    return number(some, rank);
}

void team_hosts_free(struct team_hosts *hosts)
{
    if (hosts == NULL) return;
    free(hosts->entries);
    free(hosts->host_of);
    free(hosts->firsts);
    free(hosts->counts);
    free(hosts->local_ranks);
    free(hosts->local_numbers);
    free(hosts->cores_of);
    free(hosts->crowds);
    free(hosts->core_counts);
    free(hosts);
}

void team_hosts_entry(const struct team_hosts *hosts, int rank, struct discovery_entry *entry)
{
    if (hosts->table != NULL)
        rank_table_read(hosts->table, rank, entry);
    else
        *entry = hosts->entries[rank];
}

void team_hosts_share(struct team_hosts *hosts, const struct rank_table *table)
{
    if (hosts->entries == NULL || !rank_table_equals(table, hosts->entries, hosts->size)) return;
    hosts->table = table;
    free(hosts->entries);
    hosts->entries = NULL;
}

bool team_hosts_crowd(const struct team_hosts *hosts, int rank)
{
    const int host = hosts->host_of[rank];
    return hosts->crowds[host] > hosts->core_counts[host];
}

bool team_hosts_share_cores(const struct team_hosts *hosts)
{
    for (int h = 0; h < hosts->host_count; h++)
        if (hosts->crowds[h] > hosts->core_counts[h]) return true;
    return false;
}

int team_hosts_core_count(const struct team_hosts *hosts)
{
    int least = INT_MAX;
    for (int h = 0; h < hosts->host_count; h++)
        if (hosts->core_counts[h] < least) least = hosts->core_counts[h];
    return least > 0 ? least : 1;
}
