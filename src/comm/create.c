/* create.c - making a communicator whose place among its ranks is known, and taking it apart. */
#include "comm/create.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "call/calls_init.h"
#include "call/communicator.h"
#include "call/wait_loop.h"
#include "comm/derived_list.h"
#include "comm/join.h"
#include "comm/knowledge.h"
#include "comm/plans.h"
#include "comm/site.h"
#include "connect/port.h"
#include "gpu/device_fault.h"
#include "health/agree.h"
#include "health/failure.h"
#include "health/health_init.h"
#include "health/lock.h"
#include "health/network_leave.h"
#include "memory/heap.h"
#include "os/at_exit.h"
#include "os/clock.h"
#include "os/hardware.h"

static enum tutti_status be_alone(struct tutti_comm *comm)
{
    TRY(rendezvous_key_create(&comm->team.identity));
    return health_be_alone(&comm->health);
}

/* ----------------------------------------------------------------------------------- life cycle */

/* Whether another thread of the parent was moving or queuing something when this process was forked
 * from it. What it was changing stays allocated: nobody can tell how far it came. */
static bool was_busy(struct tutti_comm *comm)
{
    return domain_is_locked(&comm->team.domain) || calls_were_busy(comm);
}

static void levels_free(struct host_levels *levels)
{
    if (levels != NULL) host_levels_release(levels);
    free(levels);
}

static void release(struct tutti_comm *comm)
{
    if (!communicator_is_foreign(comm) || !was_busy(comm)) calls_close(comm);
    transports_close(&comm->team.transports.set, communicator_is_foreign(comm));
    health_release(&comm->health);
    if (comm->team.transports.has_port && !communicator_is_foreign(comm)) port_close();
    if (comm->watches_devices && !communicator_is_foreign(comm)) gpu_fault_leave_watch();
    for (int i = 0; comm->team.transports.windows != NULL && i < team_local_size(&comm->team); i++)
        heap_window_release(comm->team.transports.windows[i]);
    free(comm->team.transports.windows);
    team_hosts_free(comm->team.members.hosts);
    levels_free(comm->team.members.levels);
    knowledge_drop(comm->team.members.knowledge);
    plans_free(comm);
    rules_free(comm->team.settings.rules);
    free(comm->team.settings.algorithms);
    rules_free(comm->team.settings.encodings);
    free(comm->team.settings.encodings_text);
    free(comm->team.settings.own_places);
    derived_lists_free(comm);
    free(comm->bars);
    heap_release_of(comm->team.generation);
    free(comm);
}

static void finish_network(struct tutti_comm *comm, uint64_t timeout_ns)
{
    enum { FAILED_NS = 2000000000 }; /* a thread that still has it then is on the way out */
    const bool has_failed = board_has_failed(comm->health.board);
    if (health_lock_failed(&comm->health, has_failed ? FAILED_NS : timeout_ns) != TUTTI_OK) return;
    network_leave(&comm->health, timeout_ns);
    health_unlock(&comm->health);
}

static void end(struct tutti_comm *comm, uint64_t timeout_ns)
{
    if (!communicator_is_foreign(comm)) {
        if (comm->team.settings.is_encrypted &&
            at_exit_has_begun()) /* nothing comes or goes any more */
            health_fail(&comm->health, NULL, TUTTI_ABORTED, comm->team.rank, "rank %d is in exit()",
                        comm->team.rank);
        calls_finish(comm);
        agree_leave(&comm->health);
        if (health_has_network(&comm->health)) finish_network(comm, timeout_ns);
        domain_unregister(&comm->team.domain);
        trace_close(&comm->health);
        board_leave(comm->health.board, comm->health.board_number);
        if (comm->team.transports.set.all != NULL)
            comm->team.transports.set.all->ops->wake_all(comm->team.transports.set.all);
    }
    handle_remove(comm);
    release(comm);
}

void comm_end(struct tutti_comm *comm)
{
    end(comm, comm->team.settings.timeout_ns);
}

void comm_discard(struct tutti_comm *comm)
{
    /* Twice, so that messages to ranks that this one never met leave time to tell the others that
     * it leaves. */
    end(comm, 2 * (uint64_t)NETWORK_FAREWELL_NS);
}

/* Ranks that this one has met hear why it does not come. Keeps the error message. */
static void publish(struct tutti_comm *comm, enum tutti_status status)
{
    char why[ERROR_TEXT_MAX], who[128];
    if (comm->team.size == 1) return;
    const bool is_at_fault = status != TUTTI_PROC_FAILED && status != TUTTI_INIT_TIMEOUT;
    error_copy(why, sizeof why);
    health_name_rank(&comm->health, comm->team.rank, who, sizeof who);
    health_fail(&comm->health, NULL, status, is_at_fault ? comm->team.rank : -1,
                "%s could not join: %s", who, why);
    (void)error_unless_ok(TUTTI_OK, why);
}

/* The same before the communicator has begun. */
static void give_up(struct tutti_comm *comm, enum tutti_status status)
{
    char why[ERROR_TEXT_MAX];
    if (comm->health.board == NULL) return;
    publish(comm, status);
    error_copy(why, sizeof why);
    network_give_up(&comm->health);
    board_leave(comm->health.board, comm->health.board_number);
    (void)error_unless_ok(TUTTI_OK, why);
}

/* Whether the board says that another rank has failed. */
static bool has_failed_elsewhere(const struct tutti_comm *comm)
{
    struct tutti_failure failure;
    return comm->health.board != NULL && board_failure(comm->health.board, &failure) != TUTTI_OK &&
           failure.culprit != comm->team.rank;
}

/* The rules for encodings, and the places of ranks each of which is at its own. */
static enum tutti_status equip_encodings(struct tutti_comm *comm, const char *encodings)
{
    struct settings *const settings = &comm->team.settings;
    const size_t size = (size_t)comm->team.size;
    settings->own_places = malloc(size * sizeof *settings->own_places);
    if (settings->own_places == NULL ||
        (encodings != NULL && (settings->encodings_text = strdup(encodings)) == NULL))
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    for (size_t r = 0; r < size; r++) settings->own_places[r] = (int)r;
    return rules_parse_encodings(encodings, &settings->encodings);
}

/* Gets what a rank needs of its own: files and options that may be wrong, or not there, on this
 * rank alone. */
static enum tutti_status equip(struct tutti_comm *comm, const struct creation *creation)
{
    const char *const algorithms = creation->options->algorithms;
    struct settings *const settings = &comm->team.settings;
    TRY(creation->trouble);
    if (creation->knowledge == NULL) {
        TRY(knowledge_read(&comm->team.members.knowledge));
        TRY(knowledge_read_table(&comm->team.members.table));
    }
    if (algorithms != NULL && (settings->algorithms = strdup(algorithms)) == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    TRY(rules_parse(algorithms, &settings->rules));
    TRY(equip_encodings(comm, creation->options->encodings));
    TRY(plans_read(comm, creation->deadline_ns));
    return comm->team.size > 1 ? comm_find_paths(comm, creation) : TUTTI_OK;
}

/* A rank that cannot join meets the others nevertheless: so they hear why, and do not wait for
 * it. */
struct telling {
    int rank;
    enum tutti_status trouble;
    char why[ERROR_TEXT_MAX];
    uint64_t until_ns;
};

/* So long the rank waits for others, which start at about the same time; at most half of the time
 * that it has. The ranks of a derived communicator come for sure, or are known to have gone. */
static const uint64_t TELL_NS = 10000000000u;

/* The ranks that have come hear this error from the meeting. */
static enum tutti_status look_while_telling(void *context)
{
    const struct telling *telling = context;
    if (clock_now_ns() < telling->until_ns) return TUTTI_OK;
    return error_set(telling->trouble, "rank %d could not join: %s", telling->rank, telling->why);
}

static enum tutti_status meet_to_tell(struct tutti_comm *comm, const struct creation *creation,
                                      enum tutti_status trouble)
{
    struct telling telling = {.rank = comm->team.rank, .trouble = trouble};
    struct creation joining = *creation;
    if (comm->team.size == 1) return trouble;
    error_copy(telling.why, sizeof telling.why);
    log_write(LOG_INFO, "rank %d of %d cannot join, and meets the others to say so: %s",
              comm->team.rank, comm->team.size, telling.why);
    joining.trouble = trouble;
    if (creation->look == NULL) {
        const uint64_t now = clock_now_ns();
        const uint64_t half_ns = creation->deadline_ns > now ? (creation->deadline_ns - now) / 2 : 0;
        telling.until_ns = now + (half_ns < TELL_NS ? half_ns : TELL_NS);
        joining.deadline_ns = telling.until_ns + half_ns / 8; /* where nobody looks meanwhile */
        joining.look = look_while_telling;
        joining.look_context = &telling;
    }
    (void)comm_join(comm, &joining);
    return error_set(trouble, "%s", telling.why);
}

/* Until all have come. */
static enum tutti_status join(struct tutti_comm *comm, const struct creation *creation)
{
    TRY(comm->team.size == 1 ? be_alone(comm) : comm_join(comm, creation));
    TRY(plans_prove(comm, creation->deadline_ns));
    TRY(comm_find_site(comm));
    return comm->team.size > 1 ? comm_join_all(comm, creation) : TUTTI_OK;
}

static enum tutti_status equip_and_join(struct tutti_comm *comm, const struct creation *creation)
{
    TRY(health_init(&comm->health, &comm->team));
    const enum tutti_status status = equip(comm, creation);
    return status == TUTTI_OK ? join(comm, creation) : meet_to_tell(comm, creation, status);
}

/* The version and the machine, without which the numbers of a log are worth nothing later and
 * elsewhere. Derived communicators are on the same machines. */
static void say_where(const struct tutti_comm *comm, const struct creation *creation)
{
    struct hardware hardware;
    char cpus[HARDWARE_CPUS_SIZE];
    if (comm->team.rank != 0 || creation->knowledge != NULL || !log_is_wanted(LOG_INFO)) return;
    hardware_of_host(&hardware);
    hardware_print_cpus(&hardware, cpus);
    log_write(LOG_INFO, "Tutti %s on host %s: %s", tutti_version_text(),
              comm->team.members.host_name, cpus);
}

static enum tutti_status create_at(const struct creation *creation, struct tutti_comm **comm)
{
    const struct tutti_comm_options *options = creation->options;
    struct tutti_comm *created = aligned_alloc(64, (sizeof *created + 63) / 64 * 64);
    *comm = NULL;
    enum tutti_status status =
        created != NULL ? heap_acquire()
                        : error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    if (status != TUTTI_OK) {
        free(created);
        team_hosts_free(creation->hosts);
        levels_free(creation->host_levels);
        return status;
    }
    memset(created, 0, sizeof *created);
    created->team.members.hosts = creation->hosts;
    created->team.members.levels = creation->host_levels;
    created->team.generation = process_generation();
    created->team.rank = creation->rank;
    created->team.size = creation->size;
    created->team.settings.timeout_ns = options->timeout_ns;
    created->team.settings.init_timeout_ns = options->init_timeout_ns;
    created->team.settings.deterministic = options->deterministic != 0;
    created->team.settings.integrity = options->integrity;
    created->team.settings.is_encrypted = options->encryption == TUTTI_ENCRYPTION_ON;
    created->team.settings.level = kernel_level_chosen();
    domain_init(&created->team.domain, calls_client_progress);
    calls_init(created);
    created->team.members.knowledge =
        creation->knowledge != NULL ? knowledge_share(creation->knowledge) : knowledge_shipped();
    created->team.members.table = creation->table;
    if (gethostname(created->team.members.host_name, sizeof created->team.members.host_name - 1) != 0)
        strcpy(created->team.members.host_name, "?");

    status = equip_and_join(created, creation);
    calls_open(created);
    if (status != TUTTI_OK) {
        give_up(created, status);
        if (creation->is_known != NULL) *creation->is_known |= has_failed_elsewhere(created);
        release(created);
        return status;
    }
    status = handle_add(created);
    if (status != TUTTI_OK) {
        char why[ERROR_TEXT_MAX];
        error_copy(why, sizeof why);
        publish(created, status);
        comm_end(created);
        return error_set(status, "%s", why);
    }
    trace_open(&created->health);
    say_where(created, creation);
    log_write(LOG_INFO, "rank %d of %d, from %s, kernels %s%s", created->team.rank,
              created->team.size, creation->origin, kernel_level_name(created->team.settings.level),
              created->team.members.oversubscribed ? ", more ranks than cores" : "");
    *comm = created;
    return TUTTI_OK;
}

enum tutti_status comm_create(const struct creation *creation, struct tutti_comm **comm)
{
    char before[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    return error_unless_ok(create_at(creation, comm), before);
}
