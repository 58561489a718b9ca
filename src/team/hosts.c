#include "team/hosts.h"

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
    hosts->counts = calloc(ranks, sizeof *hosts->counts);
    hosts->local_ranks = calloc(ranks, sizeof *hosts->local_ranks);
    hosts->local_numbers = calloc(ranks, sizeof *hosts->local_numbers);
    if (hosts->entries != NULL && hosts->host_of != NULL && hosts->firsts != NULL &&
        hosts->counts != NULL && hosts->local_ranks != NULL && hosts->local_numbers != NULL)
        return hosts;
    comm_hosts_free(hosts);
    return NULL;
}

/* The number of a rank's host; a new one when no rank before it is there. */
static int find_host(struct comm_hosts *hosts, int rank)
{
    int host = 0;
    while (host < hosts->host_count &&
           hosts->entries[hosts->firsts[host]].host != hosts->entries[rank].host)
        host++;
    if (host == hosts->host_count) hosts->firsts[hosts->host_count++] = rank;
    return host;
}

/* From the entries. */
static void number(struct comm_hosts *hosts, int rank)
{
    for (int r = 0; r < hosts->size; r++) {
        const int host = find_host(hosts, r);
        hosts->host_of[r] = host;
        if (++hosts->counts[host] > hosts->largest) hosts->largest = hosts->counts[host];
    }
    for (int r = 0; r < hosts->size; r++) {
        hosts->local_numbers[r] = -1;
        if (hosts->host_of[r] != hosts->host_of[rank]) continue;
        hosts->local_numbers[r] = hosts->local_size;
        hosts->local_ranks[hosts->local_size++] = r;
    }
}

enum tutti_status comm_hosts_create(const struct discovery_entry *entries, int rank, int size,
                                    struct comm_hosts **hosts)
{
    *hosts = allocate(size);
    if (*hosts == NULL) return out_of_memory(NULL);
    memcpy((*hosts)->entries, entries, (size_t)size * sizeof *entries);
    number(*hosts, rank);
    return TUTTI_OK;
}

enum tutti_status comm_hosts_of_some(const struct comm_hosts *hosts, const int *ranks, int rank,
                                     int size, struct comm_hosts **some)
{
    *some = allocate(size);
    if (*some == NULL) return out_of_memory(NULL);
    for (int i = 0; i < size; i++) (*some)->entries[i] = hosts->entries[ranks[i]];
    number(*some, rank);
    return TUTTI_OK;
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
    free(hosts);
}

bool comm_hosts_share_cores(const struct comm_hosts *hosts)
{
    for (int r = 0; r < hosts->size; r++)
        if (hosts->counts[hosts->host_of[r]] > hosts->entries[r].core_count) return true;
    return false;
}
