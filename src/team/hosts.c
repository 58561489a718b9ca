#include "team/hosts.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static enum tutti_status out_of_memory(struct comm_hosts *hosts)
{
    comm_hosts_free(hosts);
    return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
}

static struct comm_hosts *allocate(int size)
{
    struct comm_hosts *hosts = calloc(1, sizeof *hosts);
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
    comm_hosts_free(hosts);
    return NULL;
}

typedef uint64_t key_of(const struct discovery_entry *entry);

static uint64_t host_key(const struct discovery_entry *entry)
{
    return entry->host;
}

static uint64_t cores_key(const struct discovery_entry *entry)
{
    return entry->cores;
}

/* A table of ranks by a key of theirs, in which nothing is deleted: the place of the first rank with that key (the rank and 1), or the
 * free one where it belongs. */
static int *place_of(const struct comm_hosts *hosts, int *places, key_of *key, uint64_t wanted)
{
    const size_t place_count = 2 * (size_t)hosts->size;
    size_t at = (size_t)((wanted ^ wanted >> 29) * 0x9e3779b97f4a7c15u >> 20) % place_count;
    while (places[at] > 0 && key(&hosts->entries[places[at] - 1]) != wanted)
        at = (at + 1) % place_count;
    return &places[at];
}

/* Of each rank, the first one with the same key. */
static bool find_firsts(const struct comm_hosts *hosts, key_of *key, int *first_of)
{
    int *const places = calloc(2 * (size_t)hosts->size, sizeof *places);
    if (places == NULL) return false;
    for (int r = 0; r < hosts->size; r++) {
        int *const place = place_of(hosts, places, key, key(&hosts->entries[r]));
        if (*place == 0) *place = r + 1;
        first_of[r] = *place - 1;
    }
    free(places);
    return true;
}

/* Numbers the hosts in the order of their first ranks. */
static bool number_hosts(struct comm_hosts *hosts)
{
    int *const host_of = hosts->host_of;
    if (!find_firsts(hosts, host_key, host_of)) return false;
    for (int r = 0; r < hosts->size; r++) {
        if (host_of[r] == r) hosts->firsts[hosts->host_count++] = r;
        host_of[r] = host_of[r] == r ? hosts->host_count - 1 : host_of[host_of[r]];
    }
    return true;
}

/* The ranks of a host may be tied to different cores, so its first rank counts for all of them. */
static bool find_shared_cores(struct comm_hosts *hosts)
{
    int *const cores_of = calloc((size_t)hosts->size, sizeof *cores_of);
    hosts->cores_of = cores_of;
    hosts->crowds = calloc((size_t)hosts->size, sizeof *hosts->crowds);
    if (cores_of == NULL || hosts->crowds == NULL || !find_firsts(hosts, cores_key, cores_of))
        return false;
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
        hosts->crowds[cores_of[r]]++;
    }
    if (are_shared) return true;
    free(cores_of);
    free(hosts->crowds);
    hosts->cores_of = hosts->crowds = NULL;
    return true;
}

/* What there is one of for each host, or for each rank of this one. */
static bool count_ranks(struct comm_hosts *hosts, int own_host)
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

/* From the entries. */
static enum tutti_status number(struct comm_hosts **hosts, int rank)
{
    struct comm_hosts *const made = *hosts;
    if (!number_hosts(made) || !count_ranks(made, made->host_of[rank]) || !find_shared_cores(made)) {
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

enum tutti_status comm_hosts_create(const struct discovery_entry *entries, int rank, int size,
                                    struct comm_hosts **hosts)
{
    *hosts = allocate(size);
    if (*hosts == NULL) return out_of_memory(NULL);
    memcpy((*hosts)->entries, entries, (size_t)size * sizeof *entries);
    return number(hosts, rank);
}

enum tutti_status comm_hosts_of_some(const struct comm_hosts *hosts, const int *ranks, int rank,
                                     int size, struct comm_hosts **some)
{
    *some = allocate(size);
    if (*some == NULL) return out_of_memory(NULL);
    for (int i = 0; i < size; i++) comm_hosts_entry(hosts, ranks[i], &(*some)->entries[i]);
    return number(some, rank);
}

void comm_hosts_free(struct comm_hosts *hosts)
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
    free(hosts);
}

void comm_hosts_entry(const struct comm_hosts *hosts, int rank, struct discovery_entry *entry)
{
    if (hosts->table != NULL)
        rank_table_read(hosts->table, rank, entry);
    else
        *entry = hosts->entries[rank];
}

void comm_hosts_share(struct comm_hosts *hosts, const struct rank_table *table)
{
    if (hosts->entries == NULL || !rank_table_equals(table, hosts->entries, hosts->size)) return;
    hosts->table = table;
    free(hosts->entries);
    hosts->entries = NULL;
}

static int crowd_of(const struct comm_hosts *hosts, int rank)
{
    return hosts->cores_of != NULL ? hosts->crowds[hosts->cores_of[rank]]
                                   : hosts->counts[hosts->host_of[rank]];
}

bool comm_hosts_crowd(const struct comm_hosts *hosts, int rank)
{
    struct discovery_entry first;
    comm_hosts_entry(hosts, hosts->firsts[hosts->host_of[rank]], &first);
    return crowd_of(hosts, rank) > first.core_count;
}

bool comm_hosts_share_cores(const struct comm_hosts *hosts)
{
    struct discovery_entry entry;
    for (int r = 0; r < hosts->size; r++) {
        comm_hosts_entry(hosts, r, &entry);
        if (crowd_of(hosts, r) > entry.core_count) return true;
    }
    return false;
}

int comm_hosts_core_count(const struct comm_hosts *hosts)
{
    struct discovery_entry entry;
    int least = INT_MAX;
    for (int r = 0; r < hosts->size; r++) {
        comm_hosts_entry(hosts, r, &entry);
        if (entry.core_count < least) least = entry.core_count;
    }
    return least > 0 ? least : 1;
}
