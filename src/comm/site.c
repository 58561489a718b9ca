#include "comm/site.h"

#include <assert.h>

#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "comm/knowledge.h"
#include "comm/plans.h"
#include "health/failure.h"
#include "health/trace.h"
#include "model/between.h"

/* Fingerprints of what a rank has. */
struct fingerprints {
    uint32_t knowledge, table, plans, fabric;
};

static struct fingerprints of_rank(const struct tutti_comm *comm,
                                   const struct rendezvous_member *members, int rank)
{
    struct discovery_entry entry;
    if (comm->team.members.hosts == NULL)
        return (struct fingerprints){members[rank].knowledge, members[rank].table,
                                     members[rank].plans, members[rank].fabric};
    team_hosts_entry(comm->team.members.hosts, rank, &entry);
    return (struct fingerprints){entry.knowledge, entry.table, entry.plans, entry.fabric};
}

static void warn(const struct tutti_comm *comm, int odd_one)
{
    char its_host[DISCOVERY_HOST_NAME_MAX], own_host[DISCOVERY_HOST_NAME_MAX];
    team_host_name_of(&comm->team, 0, own_host);
    team_host_name_of(&comm->team, odd_one, its_host);
    log_write(
        LOG_WARN,
        "rank 0 (host %s) and rank %d (host %s) have different calibrations, so algorithms are "
        "chosen by shipped numbers: give all hosts the file of one of them, see %s",
        own_host, odd_one, its_host, option_names.CALIBRATION);
}

/* A rank whose own plan is wrong says that instead: its file, and where. */
static enum tutti_status agree_on_plans(struct tutti_comm *comm,
                                        const struct rendezvous_member *members)
{
    const uint32_t first = of_rank(comm, members, 0).plans;
    int odd_one = -1;
    for (int r = 0; r < comm->team.size; r++) {
        if (odd_one < 0 && of_rank(comm, members, r).plans != first) odd_one = r;
    }
    if (odd_one < 0) return TUTTI_OK;
    TRY(plans_find_wrong(comm));
    return error_set(TUTTI_MISMATCH,
                     "ranks 0 and %d have different plans: the files that rules name, and those in "
                     "the folder of "
                     "%s, have to be the same on all ranks",
                     odd_one, option_names.PLANS);
}

static bool somebody_cannot_join(const struct tutti_comm *comm,
                                 const struct rendezvous_member *members)
{
    for (int r = 0; r < comm->team.size; r++)
        if (of_rank(comm, members, r).plans == PLANS_CANNOT_JOIN) return true;
    return false;
}

enum tutti_status comm_agree_on_knowledge(struct tutti_comm *comm,
                                          const struct rendezvous_member *members)
{
    const struct fingerprints first = of_rank(comm, members, 0);
    int odd_one = -1;
    if (somebody_cannot_join(comm, members)) return TUTTI_OK; /* which will say why */
    TRY(agree_on_plans(comm, members));
    for (int r = 1; r < comm->team.size; r++) {
        const struct fingerprints its = of_rank(comm, members, r);
        if (its.table != first.table)
            return error_set(TUTTI_MISMATCH,
                             "ranks 0 and %d have different tables of measured choices: %s has to "
                             "name the same one on all ranks",
                             r, option_names.TABLE);
        if (odd_one < 0 && its.knowledge != first.knowledge) odd_one = r;
    }
    if (odd_one < 0) return TUTTI_OK;
    if (comm->team.rank == 0) warn(comm, odd_one);
    comm->team.members.knowledge = knowledge_shipped();
    return TUTTI_OK;
}

/* Adds advice to the error of a card. Returns the status. */
static enum tutti_status advise(enum tutti_status status)
{
    char message[ERROR_TEXT_MAX];
    if (status != TUTTI_UNSUPPORTED) return status;
    error_copy(message, sizeof message);
    return error_set(status, "%s; tutti-topo --check-fabric there says more", message);
}

enum tutti_status comm_name_this_rank(const struct tutti_comm *comm, enum tutti_status status)
{
    char message[ERROR_TEXT_MAX], who[128];
    (void)advise(status);
    error_copy(message, sizeof message);
    health_name_rank(&comm->health, comm->team.rank, who, sizeof who);
    return error_set(status, "%s: %s", who, message);
}

enum tutti_status comm_find_card(struct tutti_comm *comm)
{
    const struct settings *settings = &comm->team.settings;
    struct transports *transports = &comm->team.transports;
    if (comm->team.size == 1) return TUTTI_OK;
    TRY(advise(transports_find_card(&transports->fabric)));
    const char *const wish = settings->is_encrypted ? option_names.ENCRYPTION
                             : settings->integrity == TUTTI_INTEGRITY_OFF ||
                                     settings->integrity == TUTTI_INTEGRITY_DEFAULT
                                 ? NULL
                                 : option_names.INTEGRITY;
    if (transports->fabric == 0 || wish == NULL) return TUTTI_OK;
    log_write(LOG_INFO, "fabric: not used, because data on it cannot be protected as %s says", wish);
    transports->fabric = 0;
    return TUTTI_OK;
}

bool comm_agree_on_card(const struct tutti_comm *comm, const struct rendezvous_member *members)
{
    const uint32_t own = comm->team.transports.fabric;
    if (own == 0) return false;
    for (int r = 0; r < comm->team.size; r++)
        if (of_rank(comm, members, r).fabric != own) {
            char its_host[DISCOVERY_HOST_NAME_MAX];
            team_host_name_of(&comm->team, r, its_host);
            log_write(LOG_INFO,
                      "fabric: not used, because rank %d (host %s) has none of the same kind; "
                      "tutti-topo --check-fabric says there what it has",
                      r, its_host);
            return false;
        }
    return true;
}

static void tell_trace(struct tutti_comm *comm)
{
    static_assert((int)TRACE_LATENCY_RACK == (int)BETWEEN_LATENCY_RACK &&
                      (int)TRACE_LATENCY_CLUSTER == (int)BETWEEN_LATENCY_CLUSTER &&
                      (int)TRACE_CARD_BYTE == (int)BETWEEN_CARD_BYTE &&
                      (int)TRACE_UPLINK_BYTE == (int)BETWEEN_UPLINK_BYTE &&
                      (int)TRACE_NUMBERS == (int)BETWEEN_NUMBERS,
                  "one order");
    const struct tune_site *site = &comm->team.members.site;
    const int rank = comm->team.rank;
    struct trace_machine machine = {.rack = -1, .cores_of = -1};
    if (site->levels != NULL && site->levels->level_count > 1)
        machine.rack = site->levels->group_of[1][rank];
    if (site->cores_of != NULL) machine.cores_of = site->cores_of[rank];
    for (int i = 0; i < TRACE_NUMBERS && site->levels != NULL; i++) {
        const struct calibration_number *number =
            &site->calibration->numbers[between_parameter((enum between_number)i)];
        if (number->known == CALIBRATION_MEASURED) machine.numbers[i] = number->value;
    }
    trace_set_machine(&comm->health, &machine);
}

enum tutti_status comm_find_site(struct tutti_comm *comm)
{
    struct members *members = &comm->team.members;
    const struct transport_set *transports = &comm->team.transports.set;
    const struct host_levels *levels = members->levels;
    const bool has_hosts = levels != NULL && levels->host_count > 1;
    const int *const cores_of = members->hosts != NULL ? members->hosts->cores_of : NULL;
    members->site = (struct tune_site){.rank_count = comm->team.size,
                                       .core_count = members->core_count,
                                       .cores_of = cores_of,
                                       .levels = has_hosts ? &levels->levels : NULL,
                                       .order = has_hosts ? levels->order : members->order,
                                       .is_loopback = has_hosts && !team_spans_hosts(&comm->team),
                                       .table = members->table,
                                       .calibration = &members->knowledge->calibration};
    tell_trace(comm);
    TRY(tune_site_shape(&members->site, &members->site.shape));
    if (comm->team.size == 1) return TUTTI_OK;
    members->site.within = transports->host->paths.tables[0];
    members->site.between = transports_paths_between(transports);
    transports->all->ops->limits(transports->all, &members->site.piece_bytes_max,
                                 &members->site.piece_count_max);
    TRY(plans_offer(comm));
    members->site.fingerprint =
        tune_site_fingerprint(&members->site, has_hosts ? levels->fingerprint : 0);
    return TUTTI_OK;
}
