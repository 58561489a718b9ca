/* hosts.h - which ranks of a communicator share a host with this one, and where the others are.
 *
 *     rank            0  1  2  3  4  5  6            hosts a: 0 3 4   b: 1 5   c: 2 6
 *     host            a  b  c  a  a  b  c
 *     local number    0  -  -  1  2  -  -            seen from rank 3: what the ranks of its host call each other
 */
#ifndef TUTTI_TEAM_HOSTS_H
#define TUTTI_TEAM_HOSTS_H

#include <stdbool.h>

#include "connect/discovery.h"
#include "team/rank_table.h"
#include "tutti/tutti.h"

struct team_hosts {
    int size;
    struct discovery_entry *entries; /* one for each rank, the same on all; or NULL: see `table` */
    const struct rank_table *table;  /* of all ranks of this host; see team_hosts_share */
    int *host_of; /* of each rank: hosts are numbered as their first ranks come */
    int host_count;
    int *firsts;        /* the first rank of each host: ascending */
    int *counts;        /* the number of ranks of each host */
    int *local_ranks;   /* the rank of each local number: ascending */
    int *local_numbers; /* the local number of each rank; -1: it is on another host */
    int local_size;
    int largest;   /* the most ranks that a host has */
    int *cores_of; /* of each rank, the first rank that runs on the same cores or is of the same host; NULL: no host shares cores with another one */
    int *crowds; /* for each host, how many ranks run on its cores, of hosts that share these too */
    int *core_counts; /* for each host, how many cores these are */
};

/* Takes a copy of the entries. NO_MEMORY. */
enum tutti_status team_hosts_create(const struct discovery_entry *entries, int rank, int size,
                                    struct team_hosts **hosts);
/* The hosts of some ranks of a communicator, in their new order. */
enum tutti_status team_hosts_of_some(const struct team_hosts *hosts, const int *ranks, int rank,
                                     int size, struct team_hosts **some);
void team_hosts_free(struct team_hosts *hosts);
/* The place of a rank. Any thread. */
void team_hosts_entry(const struct team_hosts *hosts, int rank, struct discovery_entry *entry);
/* Gives up this rank's entries for the entries in the table, which the first rank of the host has
 * written, if they are the same. The table stays as long as the hosts. */
void team_hosts_share(struct team_hosts *hosts, const struct rank_table *table);
/* Whether more ranks run on the cores of some rank than there are cores: hosts may be containers of
 * one machine, and then share its cores. The same on all ranks. */
bool team_hosts_share_cores(const struct team_hosts *hosts);
/* Whether more ranks run on the cores of one rank's host than there are cores: the same on all
 * ranks of the host. */
bool team_hosts_crowd(const struct team_hosts *hosts, int rank);

/* The cores that the ranks of a host may run on, of the host that has the fewest: the same on all
 * ranks. */
int team_hosts_core_count(const struct team_hosts *hosts);

#endif
