/* join.c - the ranks of a new communicator come together: which hosts they are on, the segment of
 * each host, the paths between them. */
#include "comm/join.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "bootstrap/exchange.h"
#include "bootstrap/host_id.h"
#include "bootstrap/launcher.h"
#include "bootstrap/rendezvous.h"
#include "call/communicator.h"
#include "comm/knowledge.h"
#include "comm/plans.h"
#include "comm/site.h"
#include "connect/discovery.h"
#include "connect/port.h"
#include "gpu/executor.h"
#include "health/deaths.h"
#include "health/failure.h"
#include "health/health_init.h"
#include "health/network.h"
#include "health/network_join.h"
#include "memory/heap.h"
#include "os/cpu.h"
#include "team/options.h"

/* MPI libraries use the one PMI-1 connection of a process themselves. */
static unsigned exchange_means(void)
{
    return EXCHANGE_FOLDER | EXCHANGE_PMIX |
           (dlsym(RTLD_DEFAULT, "MPI_Init") == NULL ? EXCHANGE_PMI1 : 0);
}

/* The CPUs that this rank may run on. *cores: host_id_cores(); 0 where their time is limited, so
 * that they are its container's own. */
static enum tutti_status find_cores(int *count, uint64_t *cores)
{
    cpu_set_t allowed;
    const long all = sysconf(_SC_NPROCESSORS_ONLN);
    const int own = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    const int limit = cpu_limit();
    /* A rank that is tied to one core is one of several that are tied to others. */
    *count = own > 1 || all < 1 ? own : (int)all;
    *cores = 0;
    if (limit == 0 || limit >= *count) return host_id_cores(cores);
    *count = limit;
    return TUTTI_OK;
}

/* The process's port is open; nothing goes through it in clear where that is not wanted. */
static enum tutti_status use_port(struct tutti_comm *comm)
{
    comm->team.transports.has_port = true;
    return comm->team.settings.is_encrypted ? port_encrypt() : TUTTI_OK;
}

static uint32_t plans_word(const struct tutti_comm *comm, const struct creation *creation)
{
    return creation->trouble == TUTTI_OK ? plans_fingerprint(comm) : PLANS_CANNOT_JOIN;
}

/* Entries by the numbers of a meeting become entries by rank. */
static enum tutti_status put_in_places(struct discovery_entry *entries, const int *places, int size)
{
    struct discovery_entry *const met = calloc((size_t)size, sizeof *met);
    if (met == NULL) return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    memcpy(met, entries, (size_t)size * sizeof *met);
    for (int i = 0; i < size; i++) entries[places[i]] = met[i];
    free(met);
    return TUTTI_OK;
}

/* Learns where all ranks are, if they may be on several hosts. *key: the key that they meet by
 * afterwards; the key that they knew before is the same for an earlier run of the job. */
static enum tutti_status find_hosts(struct tutti_comm *comm, const struct creation *creation,
                                    struct rendezvous_key *key)
{
    struct net_address own;
    *key = creation->key;
    if (team_spans_hosts(&comm->team)) {
        TRY(port_open(NULL, &own));
        return use_port(comm);
    }
    if (creation->meeting == NULL && !launcher_may_span_hosts(creation->facts)) return TUTTI_OK;
    struct discovery_options options = {
        .facts = creation->facts,
        .self = {.pid = getpid(),
                 .knowledge = comm->team.members.knowledge->fingerprint,
                 .table = knowledge_table_fingerprint(comm->team.members.table),
                 .plans = plans_word(comm, creation),
                 .fabric = comm->team.transports.fabric},
        .deadline_ns = creation->deadline_ns,
        .exchange_means = exchange_means(),
        .is_encrypted = comm->team.settings.is_encrypted,
        .meeting = creation->meeting,
        .look = creation->look,
        .look_context = creation->look_context};
    snprintf(options.self.host_name, sizeof options.self.host_name, "%s",
             comm->team.members.host_name);
    TRY(host_id_read(&options.self.host));
    TRY(find_cores(&options.self.core_count, &options.self.cores));
    if (creation->meeting != NULL)
        TRY(port_open_towards(creation->meeting, &options.self.address));
    else
        TRY(port_open(creation->facts, &options.self.address));
    TRY(use_port(comm));
    struct discovery_entry *entries = calloc((size_t)comm->team.size, sizeof *entries);
    if (entries == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    unsigned messages;
    enum tutti_status status = discovery_run(&options, entries, key, &messages);
    if (status == TUTTI_OK && creation->places != NULL)
        status = put_in_places(entries, creation->places, comm->team.size);
    if (status == TUTTI_OK)
        status =
            team_hosts_create(entries, comm->team.rank, comm->team.size, &comm->team.members.hosts);
    free(entries);
    if (status != TUTTI_OK) return status;
    log_write(LOG_INFO, "rank %d of %d: %d on this host, %d hosts; rank discovery took %u messages",
              comm->team.rank, comm->team.size, comm->team.members.hosts->local_size,
              comm->team.members.hosts->host_count, messages);
    if (comm->team.members.hosts->host_count > 1) return TUTTI_OK;
    team_hosts_free(comm->team.members.hosts);
    comm->team.members.hosts = NULL;
    comm->team.transports.has_port = false;
    port_close();
    return TUTTI_OK;
}

/* The ranks of this host meet under their local numbers. */
static enum tutti_status meet(struct tutti_comm *comm, const struct creation *creation,
                              const struct rendezvous_key *key, struct rendezvous_result *result)
{
    const struct heap_location heap = heap_location();
    struct rendezvous_options options = {
        .key = *key,
        .rank = team_local_number(&comm->team, creation->rank),
        .size = team_local_size(&comm->team),
        .names = team_local_ranks(&comm->team),
        .deadline_ns = creation->deadline_ns,
        .self = {.process_key = heap.process_key,
                 .heap_inode = heap.inode,
                 .heap_bytes = heap.bytes,
                 .heap_fd = heap.fd,
                 .knowledge = comm->team.members.knowledge->fingerprint,
                 .table = knowledge_table_fingerprint(comm->team.members.table),
                 .plans = plans_word(comm, creation),
                 .fabric = comm->team.transports.fabric},
        .segment_fd = -1,
        .look = creation->look,
        .look_context = creation->look_context,
        .is_foreign = creation->is_known};
    TRY(find_cores(&options.self.core_count, &options.self.cores));
    if (team_spans_hosts(&comm->team)) { /* hosts can be told apart that share a namespace */
        const int host = comm->team.members.hosts->host_of[comm->team.rank];
        rendezvous_key_derive(key, &host, sizeof host, &options.key);
    }
    /* A rank that makes a communicator from another one is where it was. */
    if (creation->facts != NULL) options.self.host_id = host_id_option();
    options.self.integrity = (uint8_t)comm->team.settings.integrity;
    options.self.is_encrypted = comm->team.settings.is_encrypted;
    if (comm->team.transports.over_tcp && !team_spans_hosts(&comm->team)) {
        struct net_address own;
        TRY(port_open(NULL, &own));
        TRY(use_port(comm));
        options.self.port = own.port;
    }
    const bool leads = options.rank == 0;
    if (leads)
        TRY(transports_create_segment(options.size, health_shared_bytes(&comm->team),
                                      &options.segment_fd));
    const enum tutti_status status = rendezvous_meet(&options, result);
    if (!leads) return status;
    if (status == TUTTI_OK)
        result->segment_fd = options.segment_fd;
    else
        close(options.segment_fd);
    return status;
}

/* Whether ranks that have met take themselves to be on several hosts: TUTTI_HOSTID. */
static bool are_apart(const struct tutti_comm *comm, const struct rendezvous_member *members)
{
    for (int r = 1; r < team_local_size(&comm->team); r++)
        if (members[r].host_id != members[0].host_id) return true;
    return false;
}

/* At a second meeting ranks say which ports they have. Nobody uses the segment that is handed
 * around there. */
static enum tutti_status meet_for_ports(struct tutti_comm *comm, const struct creation *creation,
                                        const struct rendezvous_result *met,
                                        struct rendezvous_result *ports)
{
    static const char what[] = "doors";
    struct net_address own;
    struct rendezvous_options options = {.rank = creation->rank,
                                         .size = creation->size,
                                         .deadline_ns = creation->deadline_ns,
                                         .segment_fd = creation->rank == 0 ? met->segment_fd : -1,
                                         .look = creation->look,
                                         .look_context = creation->look_context,
                                         .is_foreign = creation->is_known};
    if (comm->team.transports.has_port) port_close();
    comm->team.transports.has_port = false;
    TRY(port_open(NULL, &own));
    TRY(use_port(comm));
    options.self.port = own.port;
    rendezvous_key_derive(&met->identity, what, sizeof what, &options.key);
    return rendezvous_meet(&options, ports);
}

/* From now on they are on several hosts, which loopback joins. */
static enum tutti_status set_apart(struct tutti_comm *comm, const struct creation *creation,
                                   const struct rendezvous_result *met)
{
    struct rendezvous_result ports;
    uint64_t machine;
    TRY(host_id_machine(&machine));
    struct discovery_entry *entries = calloc((size_t)comm->team.size, sizeof *entries);
    if (entries == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    enum tutti_status status = meet_for_ports(comm, creation, met, &ports);
    if (status != TUTTI_OK) goto free_entries;
    for (int r = 0; r < comm->team.size; r++) {
        entries[r] = (struct discovery_entry){.host = host_id_of(machine, met->members[r].host_id),
                                              .cores = met->members[r].cores,
                                              .pid = met->members[r].pid,
                                              .core_count = met->members[r].core_count,
                                              .knowledge = met->members[r].knowledge,
                                              .table = met->members[r].table,
                                              .plans = met->members[r].plans,
                                              .fabric = met->members[r].fabric};
        net_address_parse("127.0.0.1", &entries[r].address);
        entries[r].address.port = ports.members[r].port;
        snprintf(entries[r].host_name, sizeof entries[r].host_name, "%s",
                 comm->team.members.host_name);
    }
    rendezvous_result_release(&ports);
    status = team_hosts_create(entries, comm->team.rank, comm->team.size, &comm->team.members.hosts);
    if (status == TUTTI_OK)
        log_write(LOG_INFO, "rank %d of %d: TUTTI_HOSTID makes %d hosts, %d ranks on this one",
                  comm->team.rank, comm->team.size, comm->team.members.hosts->host_count,
                  comm->team.members.hosts->local_size);
free_entries:
    free(entries);
    return status;
}

/* Whether one of the processes that came has died before all had joined. */
static enum tutti_status look_for_deaths(struct tutti_comm *comm)
{
    int at = 0;
    char who[128];
    if (!health_look_at_processes(&comm->health)) return TUTTI_OK;
    health_name_rank(&comm->health, health_next_ended(&comm->health, &at), who, sizeof who);
    return error_set(TUTTI_PROC_FAILED, "%s died during start-up", who);
}

static enum tutti_status acquire_window(const struct rendezvous_member *member, pid_t pid,
                                        struct heap_window **window)
{
    const struct heap_location location = {.process_key = member->process_key,
                                           .inode = member->heap_inode,
                                           .bytes = member->heap_bytes,
                                           .fd = member->heap_fd,
                                           .pid = pid};
    return heap_window_acquire(&location, window);
}

struct joining {
    struct tutti_comm *comm;
    const struct creation *creation;
};

/* Looks for deaths and failures of ranks that came and have not joined yet. A rank that fails says
 * so on the board. */
static enum tutti_status look_at_joining(void *context)
{
    const struct joining *joining = context;
    const struct creation *creation = joining->creation;
    TRY(health_check(&joining->comm->health));
    TRY(look_for_deaths(joining->comm));
    return creation->look != NULL ? creation->look(creation->look_context) : TUTTI_OK;
}

static struct host_patience patience_of(const struct creation *creation, struct joining *joining)
{
    return (struct host_patience){
        .deadline_ns = creation->deadline_ns, .look = look_at_joining, .look_context = joining};
}

/* From now on a rank that fails can tell the others of its host. */
static enum tutti_status open_board(struct tutti_comm *comm, struct rendezvous_result *result)
{
    const struct host_options options = {.rank = team_local_number(&comm->team, comm->team.rank),
                                         .size = team_local_size(&comm->team),
                                         .names = team_local_ranks(&comm->team),
                                         .segment_fd = result->segment_fd,
                                         .board_bytes = health_shared_bytes(&comm->team),
                                         .checks =
                                             comm->team.settings.integrity == TUTTI_INTEGRITY_ON};
    result->segment_fd = -1;
    TRY(transports_open_host(&comm->team.transports.set, &options));
    health_use_host(&comm->health, transports_board(&comm->team.transports.set),
                    comm->team.transports.set.host);
    return TUTTI_OK;
}

/* Which ranks of this host are in this process, and the memory of the others. */
static enum tutti_status find_peers(struct tutti_comm *comm, const struct rendezvous_member *members,
                                    struct host_peer *peers, unsigned *same_process_count)
{
    const int size = team_local_size(&comm->team),
              number = team_local_number(&comm->team, comm->team.rank);
    for (int i = 0; i < size; i++) {
        const int first = members[i].first;
        const bool same_process = first == members[number].first;
        const pid_t pid = processes_visible_pid(&members[number], &members[i]);
        if (first == i && !same_process)
            TRY(acquire_window(&members[i], pid, &comm->team.transports.windows[i]));
        peers[i] = (struct host_peer){same_process, pid, comm->team.transports.windows[first]};
        *same_process_count += same_process;
    }
    return TUTTI_OK;
}

/* Waits for the other ranks of this host. */
static enum tutti_status join_host(struct tutti_comm *comm, const struct rendezvous_member *members,
                                   const struct creation *creation)
{
    struct joining joining = {comm, creation};
    const size_t size = (size_t)team_local_size(&comm->team);
    struct host_peer *peers = calloc(size, sizeof *peers);
    comm->team.transports.windows = calloc(size, sizeof *comm->team.transports.windows);
    unsigned same_process_count = 0;
    enum tutti_status status =
        peers != NULL && comm->team.transports.windows != NULL
            ? find_peers(comm, members, peers, &same_process_count)
            : error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    gpu_share(same_process_count);
    comm->team.transports.is_one_process = (int)same_process_count == comm->team.size;
    if (status == TUTTI_OK) {
        const struct host_patience patience = patience_of(creation, &joining);
        status = transports_meet_host(&comm->team.transports.set, peers, &patience);
    }
    free(peers);
    return status;
}

/* Checks that all ranks of one host want TCP, or none does: ranks that do not agree would wait for
 * each other. */
static enum tutti_status check_wish(const struct tutti_comm *comm,
                                    const struct rendezvous_member *members)
{
    for (int r = 1; r < comm->team.size; r++)
        if ((members[r].port != 0) != (members[0].port != 0))
            return error_set(TUTTI_INVALID_OPTIONS, "%s=tcp holds for rank %d, and not for rank %d",
                             option_names.TRANSPORT, members[0].port != 0 ? 0 : r,
                             members[0].port != 0 ? r : 0);
    return TUTTI_OK;
}

/* The levels of ranks on several hosts: which ranks are on one host, and which hosts are in one
 * rack. */
static enum tutti_status levels_of_hosts(const struct tutti_comm *comm, struct host_levels *levels)
{
    struct topo topology;
    const char **names = calloc((size_t)comm->team.size, sizeof *names);
    const struct discovery_entry *entries = comm->team.members.hosts->entries;
    if (names == NULL) return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    for (int r = 0; r < comm->team.size; r++) names[r] = entries[r].host_name;
    enum tutti_status status = host_levels_read_topology(&topology);
    if (status == TUTTI_OK) {
        status = host_levels_init(levels, comm->team.size, comm->team.members.hosts->host_of, names,
                                  &topology);
        topo_release(&topology);
    }
    free(names);
    return status;
}

/* The levels of one host whose ranks share nothing: as if each rank had a host of its own. */
static enum tutti_status levels_of_strangers(const struct tutti_comm *comm,
                                             struct host_levels *levels)
{
    const struct topo nothing = {0};
    int *own = calloc((size_t)comm->team.size, sizeof *own);
    if (own == NULL) return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    for (int r = 0; r < comm->team.size; r++) own[r] = r;
    const enum tutti_status status = host_levels_init(levels, comm->team.size, own, NULL, &nothing);
    free(own);
    return status;
}

/* `find` fills in the levels. A communicator that was derived from another one has its levels
 * already. */
static enum tutti_status find_levels(struct tutti_comm *comm,
                                     enum tutti_status (*find)(const struct tutti_comm *comm,
                                                               struct host_levels *levels))
{
    if (comm->team.members.levels != NULL) return TUTTI_OK;
    struct host_levels *levels = calloc(1, sizeof *levels);
    if (levels == NULL) return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    const enum tutti_status status = find(comm, levels);
    if (status == TUTTI_OK)
        comm->team.members.levels = levels;
    else
        free(levels);
    return status;
}

/* The ranks of all hosts know each other now, and agree on this. */
static void use_hosts(struct tutti_comm *comm)
{
    struct members *members = &comm->team.members;
    members->core_count = team_hosts_core_count(members->hosts);
    members->shares_cores = team_hosts_share_cores(members->hosts);
    members->oversubscribed |= team_hosts_crowd(members->hosts, comm->team.rank);
    members->order = NULL;
    health_write_table(&comm->health);
}

/* Whether a card is there and can be opened depends on this host alone, so its error says which one
 * that is. */
static enum tutti_status fail_for_card(struct tutti_comm *comm, enum tutti_status status)
{
    (void)comm_name_this_rank(comm, status);
    if (comm->health.board != NULL)
        health_fail(&comm->health, NULL, status, comm->team.rank, "%s", tutti_error_message());
    return status;
}

static enum tutti_status create_network(struct tutti_comm *comm, const uint16_t *ports)
{
    const enum tutti_status status = network_create(&comm->health, ports);
    if (status == TUTTI_OK || !comm->team.transports.uses_card) return status;
    return fail_for_card(comm, status);
}

static enum tutti_status open_network(struct tutti_comm *comm,
                                      const struct rendezvous_member *members)
{
    if (team_spans_hosts(&comm->team)) {
        use_hosts(comm);
        TRY(create_network(comm, NULL));
        return find_levels(comm, levels_of_hosts);
    }
    TRY(check_wish(comm, members));
    if (!comm->team.transports.over_tcp) return TUTTI_OK;
    TRY(find_levels(comm, levels_of_strangers));
    uint16_t *const ports = calloc((size_t)comm->team.size, sizeof *ports);
    if (ports == NULL) return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    for (int r = 0; r < comm->team.size; r++) ports[r] = members[r].port;
    const enum tutti_status status = create_network(comm, ports);
    free(ports);
    return status;
}

/* The rank of this host that differs from the host's first rank in *what; -1: none. (Ranks of other
 * hosts hear of it: hear.c and connect/hello.h.) */
static int find_odd_one(const struct tutti_comm *comm, const struct rendezvous_member *members,
                        const char **what)
{
    for (int i = 1; i < team_local_size(&comm->team); i++) {
        *what = "integrity: TUTTI_INTEGRITY";
        if (members[i].integrity != members[0].integrity) return team_local_rank(&comm->team, i);
        *what = "encryption: TUTTI_ENCRYPTION";
        if (members[i].is_encrypted != members[0].is_encrypted)
            return team_local_rank(&comm->team, i);
    }
    return -1;
}

/* Fails the communicator, so that everybody hears of it. */
static enum tutti_status reject_odd_one(struct tutti_comm *comm, int rank, const char *what)
{
    health_fail(
        &comm->health, NULL, TUTTI_INVALID_OPTIONS, rank,
        "ranks %d and %d differ in %s, or what options say, has to be the same on all ranks",
        team_local_rank(&comm->team, 0), rank, what);
    return health_check(&comm->health);
}

/* Whether some of the ranks may share no memory; where all do, nobody needs to look for a card. */
static bool may_be_apart(const struct tutti_comm *comm, const struct creation *creation)
{
    return comm->team.transports.over_tcp || team_spans_hosts(&comm->team) ||
           creation->meeting != NULL || launcher_may_span_hosts(creation->facts) ||
           (creation->facts != NULL && host_id_option() != 0);
}

/* Takes over what the ranks of this host have in common. */
static void use_host(struct tutti_comm *comm)
{
    struct host_facts facts;
    transports_host_facts(&comm->team.transports.set, &facts);
    comm->team.members.has_threads = processes_has_threads(&comm->health.processes);
    comm->team.transports.publishers_fence = facts.publishers_fence;
    comm->team.members.oversubscribed = team_local_size(&comm->team) > facts.core_count;
    comm->team.members.shares_cores = comm->team.members.oversubscribed;
    comm->team.members.core_count = facts.core_count > 0 ? facts.core_count : 1;
    domain_set_spinning(&comm->team.domain, !comm->team.members.oversubscribed);
    comm->team.members.order = facts.order;
}

/* Joins the ranks that are reached over a network. */
static enum tutti_status join_others(struct tutti_comm *comm, struct joining *joining)
{
    if (!health_has_network(&comm->health)) return TUTTI_OK;
    domain_set_spinning(&comm->team.domain, false);
    comm->team.transports.maps_heaps = false; /* not all do */
    TRY(network_join(&comm->health, look_at_joining, joining, joining->creation->deadline_ns));
    health_share_table(&comm->health);
    return domain_register(&comm->team.domain);
}

/* As far as ranks can come alone. */
static enum tutti_status join(struct tutti_comm *comm, const struct creation *creation,
                              struct rendezvous_result *met)
{
    const char *what;
    TRY(open_board(comm, met));
    enum tutti_status status = processes_open(
        &comm->health.processes, met->members, team_local_number(&comm->team, comm->team.rank),
        team_local_size(&comm->team), team_local_ranks(&comm->team));
    if (creation->trouble != TUTTI_OK) return status; /* the board is there */
    if (status == TUTTI_OK) status = join_host(comm, met->members, creation);
    /* Another rank may have failed first. Then all go, and this one misses them. */
    if (status != TUTTI_OK) TRY(health_check(&comm->health));
    TRY(status);
    use_host(comm);
    TRY(open_network(comm, met->members));
    if (creation->knowledge == NULL) TRY(comm_agree_on_knowledge(comm, met->members));
    const int odd_one = find_odd_one(comm, met->members, &what);
    return odd_one >= 0 ? reject_odd_one(comm, odd_one, what) : TUTTI_OK;
}

/* The identity of the new communicator, by which the ranks of all hosts know each other. */
static void identify(struct tutti_comm *comm, const struct rendezvous_key *key,
                     const struct rendezvous_result *met)
{
    static const char what[] = "hosts";
    comm->team.identity = met->identity;
    if (team_spans_hosts(&comm->team))
        rendezvous_key_derive(key, what, sizeof what, &comm->team.identity);
}

enum tutti_status comm_join(struct tutti_comm *comm, const struct creation *creation)
{
    struct rendezvous_result result;
    struct rendezvous_key key;
    TRY(find_hosts(comm, creation, &key));
    TRY(meet(comm, creation, &key, &result));
    if (are_apart(comm, result.members)) {
        key = result.identity; /* of this run alone */
        const enum tutti_status apart = set_apart(comm, creation, &result);
        rendezvous_result_release(&result);
        TRY(apart);
        TRY(meet(comm, creation, &key, &result));
    }
    log_write(LOG_INFO, "rank %d of %d met the ranks of its host with %u messages", comm->team.rank,
              comm->team.size, result.message_count);
    identify(comm, &key, &result);
    comm->team.transports.uses_card = comm_agree_on_card(comm, result.members);
    const enum tutti_status status = join(comm, creation, &result);
    rendezvous_result_release(&result);
    return status;
}

enum tutti_status comm_find_paths(struct tutti_comm *comm, const struct creation *creation)
{
    TRY(options_transport(&comm->team.transports.over_tcp));
    return may_be_apart(comm, creation) ? comm_find_card(comm) : TUTTI_OK;
}

/* The first rank of this host that has not come as far as this one. */
static enum tutti_status name_late(const struct tutti_comm *comm)
{
    char who[128];
    int i = 0;
    const int size = team_local_size(&comm->team);
    while (i < size && board_state(comm->health.board, i) != RANK_ABSENT) i++;
    if (i == size)
        return TUTTI_INIT_TIMEOUT; /* it has come since, and the error's text says enough */
    health_name_rank(&comm->health, team_local_rank(&comm->team, i), who, sizeof who);
    return error_set(TUTTI_INIT_TIMEOUT, "after the start-up deadline %s is not ready", who);
}

enum tutti_status comm_join_all(struct tutti_comm *comm, const struct creation *creation)
{
    struct joining joining = {comm, creation};
    const struct host_patience patience = patience_of(creation, &joining);
    if (creation->has_come != NULL) *creation->has_come = true;
    board_enter(comm->health.board, comm->health.board_number, getpid());
    const enum tutti_status status = transports_begin_host(&comm->team.transports.set, &patience,
                                                           &comm->team.transports.maps_heaps);
    if (status == TUTTI_INIT_TIMEOUT) return name_late(comm);
    return status == TUTTI_OK ? join_others(comm, &joining) : status;
}
