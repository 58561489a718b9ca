/* team.h - a team: the ranks of a communicator as one of them sees them. It has their number, their
 * hosts, the transports that lead to them, and the lock of the thread that moves these.
 *
 * A team knows nothing of calls, nor of what becomes of its ranks. Everything but the domain stays
 * as it is from the creation of the communicator on.
 */
#ifndef TUTTI_TEAM_TEAM_H
#define TUTTI_TEAM_TEAM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "bootstrap/key.h"
#include "domain/domain.h"
#include "kernel/kernel.h"
#include "team/members.h"
#include "team/transports.h"
#include "tune/rules.h"
#include "tutti/tutti.h"

/* The settings that the creator of the communicator or the environment has made. */
struct settings {
    uint64_t timeout_ns, init_timeout_ns;
    bool deterministic;
    bool is_encrypted;              /* traffic over TCP is */
    enum tutti_integrity integrity; /* OFF, NETWORK or ON */
    enum kernel_level level;
    struct rules *rules;
    char *algorithms;        /* the text of the rules; or NULL */
    struct rules *encodings; /* rules for encodings; or NULL */
    char *encodings_text;    /* their text; or NULL */
    int *own_places; /* of each rank: its number, where all links may be encoded (call/encoded.h) */
};

struct team {
    int rank, size;
    struct members members;       /* who the ranks are, and what they share */
    struct transports transports; /* the paths to them */
    struct settings settings;
    struct domain domain;           /* which thread moves what */
    struct rendezvous_key identity; /* the same on all ranks, and nowhere else */
    uint32_t generation; /* of the process that created it: in a child of fork() it is another one */
};

/* Ranks of this host, by rank and by local number (hosts.h). */
static inline bool team_shares_host(const struct team *team, int rank)
{
    return team->members.hosts == NULL || team->members.hosts->local_numbers[rank] >= 0;
}
static inline int team_local_size(const struct team *team)
{
    return team->members.hosts == NULL ? team->size : team->members.hosts->local_size;
}
static inline int team_local_number(const struct team *team, int rank)
{
    return team->members.hosts == NULL ? rank : team->members.hosts->local_numbers[rank];
}
static inline int team_local_rank(const struct team *team, int number)
{
    return team->members.hosts == NULL ? number : team->members.hosts->local_ranks[number];
}
/* Iterates over ranks of other hosts, with *at 0 at first: the next one; -1 at the end. */
static inline int team_next_remote(const struct team *team, int *at)
{
    const int *locals = team->members.hosts == NULL ? NULL : team->members.hosts->local_numbers;
    while (locals != NULL && *at < team->size)
        if (locals[(*at)++] < 0) return *at - 1;
    return -1;
}
/* The rank numbers of this host's ranks, by local number; NULL: the same numbers. */
static inline const int *team_local_ranks(const struct team *team)
{
    return team->members.hosts == NULL ? NULL : team->members.hosts->local_ranks;
}
static inline void team_host_name_of(const struct team *team, int rank,
                                     char name[DISCOVERY_HOST_NAME_MAX])
{
    struct discovery_entry entry;
    if (team->members.hosts != NULL) team_hosts_entry(team->members.hosts, rank, &entry);
    memcpy(name, team->members.hosts == NULL ? team->members.host_name : entry.host_name,
           DISCOVERY_HOST_NAME_MAX);
}
/* Whether there is a rank on another host. */
static inline bool team_spans_hosts(const struct team *team)
{
    return team->members.hosts != NULL;
}
/* The host of a rank, and its pid there, as it has told the others. False: all ranks are on one host, and
 * have told nobody. */
static inline bool team_read_process(const struct team *team, int rank, uint64_t *host, int32_t *pid)
{
    if (team->members.hosts == NULL) return false;
    struct discovery_entry entry;
    team_hosts_entry(team->members.hosts, rank, &entry);
    *host = entry.host;
    *pid = entry.pid;
    return true;
}
/* The number of times that a step checks a full link before it takes the path through memory. A
 * check costs a spin; with more ranks than cores, one turn of every other rank on this core. */
static inline uint32_t team_spin_budget(const struct team *team)
{
    return team->members.oversubscribed ? 8 : 128;
}

#endif
