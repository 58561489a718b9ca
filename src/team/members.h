/* members.h - who the ranks of a communicator are, and what they share. */
#ifndef TUTTI_TEAM_MEMBERS_H
#define TUTTI_TEAM_MEMBERS_H

#include <stdbool.h>

#include "team/host_levels.h"
#include "team/hosts.h"
#include "tune/ranking.h"

struct members {
    bool oversubscribed; /* more ranks than cores here, ranks of other hosts included: yield at the first miss */
    bool shares_cores; /* some host has more ranks than cores: all ranks agree */
    int core_count; /* that the ranks of a host may run on, of the host where they are the fewest: all ranks agree */
    bool has_threads; /* another rank lives in this process */
    const int *order; /* near ranks side by side; the transport's. NULL: as they are numbered */
    struct host_levels *levels; /* of ranks on several hosts; NULL: all are on one */
    struct team_hosts *hosts;   /* NULL: all ranks are on this one */
    /* By what algorithms are chosen: numbers (comm/knowledge.h), measured choices (NULL: none), the
     * machines. All ranks agree. */
    const struct knowledge *knowledge;
    const struct tune_table *table;
    struct tune_site site;
    char host_name[DISCOVERY_HOST_NAME_MAX];
};

#endif
