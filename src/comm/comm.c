/* comm.c - the life of a communicator as its users see it: where it comes from, what it says of
 * itself, its end.
 *
 * Files of this folder, from above to below; each uses only what stands after it
 * (tests/repo/cycles_test.sh):
 *
 *     comm.c public functions · mesh.c a grid of communicators · grow.c, newcomer.c processes join,
 *     enlarge.c the half that members and joiners have in common · measured.c racks and links,
 *     tournament.c measuring them · exclude.c ranks are put out, signs.c of which sickness · shrink.c going on after a failure, round.h what growing has in
 *     common with it · derive.c split, dup, group · create.c making one, taking it apart · join.c
 *     its ranks come together · own_plan.c plans that a program writes · plans.c plans from files,
 *     stored_folder.c and stored_plan.c those of the process · derived_list.c how often a list of
 *     ranks was derived · id.c what a tutti_id says · footprint.c what it costs
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/option_mistake.h"
#include "base/printable.h"
#include "base/sized.h"
#include "base/status.h"
#include "bootstrap/launcher.h"
#include "call/communicator.h"
#include "comm/create.h"
#include "comm/id.h"
#include "comm/measured.h"
#include "connect/port.h"
#include "gpu/gpu.h"
#include "health/deaths.h"
#include "health/failure.h"
#include "os/clock.h"
#include "team/options.h"

const char *tutti_launcher(int *rank, int *size)
{
    struct launcher_facts facts;
    const bool is_found = launcher_look(&facts) == TUTTI_OK;
    if (rank != NULL) *rank = is_found ? facts.rank : -1;
    if (size != NULL) *size = is_found ? facts.size : -1;
    return is_found ? facts.launcher : NULL;
}

/* Rank 0 leaves a fresh id in the store, the others read it. */
static enum tutti_status id_through_store(const struct tutti_store *given, int rank,
                                          uint64_t timeout_ns, struct tutti_id *id)
{
    static const char key[] = "tutti/id";
    struct tutti_store own;
    const struct tutti_store *const store = &own;
    TRY(SIZED_READ("store", tutti_store, given, &own));
    if (rank == 0) {
        TRY(tutti_id_create(id));
        if (store->set(store->context, key, id->bytes, sizeof id->bytes) != 0) {
            struct id_content content;
            id_read(id, &content);
            port_withdraw(&content.key);
            return error_set(TUTTI_INIT_TIMEOUT, "the store did not take the communicator's id");
        }
    } else if (store->get(store->context, key, id->bytes, sizeof id->bytes, timeout_ns) != 0) {
        return error_set(TUTTI_INIT_TIMEOUT, "rank %d: the store has no id: rank 0 is missing",
                         rank);
    }
    return TUTTI_OK;
}

/* A rank that is told its place may still belong to a launcher's job, which knows the hosts. */
static void learn_hosts(const struct tutti_comm_options *options, struct launcher_facts *facts)
{
    struct launcher_facts detected;
    if (launcher_look(&detected) == TUTTI_OK && detected.rank == options->rank &&
        detected.size == options->size)
        *facts = detected;
}

static enum tutti_status find_place(const struct tutti_comm_options *options,
                                    uint64_t init_timeout_ns, struct launcher_facts *facts,
                                    struct id_content *id)
{
    const bool meets = options->id != NULL || options->store != NULL;
    if (!meets && options->size != 1 && (options->rank >= 0 || options->size >= 0))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "rank or size are given, but neither an id nor a store to meet through");
    *facts = (struct launcher_facts){.launcher = "options", .local_size = -1, .node_count = -1};
    if (options->rank == -1 || options->size == -1)
        TRY(meets ? launcher_look(facts) : launcher_detect(facts));
    else
        learn_hosts(options, facts);
    if (!meets && options->size != 1) return TUTTI_OK;
    if (options->rank != -1) facts->rank = options->rank;
    if (options->size != -1) facts->size = options->size;
    if (facts->size < 1 || facts->size > PLAN_RANKS_MAX || facts->rank < 0 ||
        facts->rank >= facts->size)
        return error_set(TUTTI_INVALID_RANK, "rank %d of %d: 0 <= rank < size <= %d is needed",
                         facts->rank, facts->size, PLAN_RANKS_MAX);
    if (options->id != NULL) id_read(options->id, id);
    if (facts->size == 1) return TUTTI_OK;
    if (options->id == NULL) {
        struct tutti_id bytes;
        TRY(id_through_store(options->store, facts->rank, init_timeout_ns, &bytes));
        id_read(&bytes, id);
    }
    facts->key = id->key;
    return launcher_may_span_hosts(facts) && !id_spans_hosts(id) ? TUTTI_OK
                                                                 : id_check(id, facts->rank);
}

static enum tutti_status create(const struct tutti_comm_options *user_options,
                                struct tutti_comm **comm)
{
    const struct gpu_driver *driver; /* calls do not look for one */
    struct tutti_comm_options options;
    enum tutti_status trouble;
    char why[ERROR_TEXT_MAX];
    TRY(options_for_comm(user_options, &options, &trouble));
    if (trouble == TUTTI_OK) trouble = gpu_driver(&driver);
    error_copy(why, sizeof why);
    const uint64_t deadline_ns = clock_now_ns() + options.init_timeout_ns;
    struct launcher_facts facts;
    struct id_content id = {.magic = 0};
    const enum tutti_status placed = find_place(&options, options.init_timeout_ns, &facts, &id);
    /* If a launcher says which rank is the first of its host, that rank tells for all. */
    if (placed != TUTTI_OK || facts.local_rank <= 0) option_mistake_tell();
    if (placed != TUTTI_OK) return placed;
    const struct creation creation = {.origin = facts.launcher,
                                      .rank = facts.rank,
                                      .size = facts.size,
                                      .key = facts.key,
                                      .facts = &facts,
                                      .meeting = id_spans_hosts(&id) ? &id.address : NULL,
                                      .options = &options,
                                      .deadline_ns = deadline_ns,
                                      .trouble = trouble};
    if (trouble != TUTTI_OK) error_set(trouble, "%s", why);
    enum tutti_status status = comm_create(&creation, comm);
    if (facts.rank == 0) port_withdraw(&id.key);
    if (status == TUTTI_OK) status = comm_measure(*comm);
    if (status == TUTTI_OK || *comm == NULL) return status;
    comm_end(*comm);
    *comm = NULL;
    return status;
}

enum tutti_status tutti_comm_create(const struct tutti_comm_options *options,
                                    struct tutti_comm **comm)
{
    if (comm == NULL)
        return error_set(TUTTI_INVALID_COMM,
                         "tutti_comm_create: comm must be the address of a pointer, is NULL");
    *comm = NULL;
    char before[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    return error_unless_ok(create(options, comm), before);
}

enum tutti_status tutti_comm_free(struct tutti_comm *comm)
{
    if (comm == NULL) return TUTTI_OK;
    if (!handle_is_known(comm)) return handle_error(comm, "comm_free");
    comm_end(comm);
    return TUTTI_OK;
}

enum tutti_status tutti_comm_abort(struct tutti_comm *comm, const char *reason)
{
    TRY(communicator_check_handle(comm, "comm_abort"));
    health_fail(&comm->health, NULL, TUTTI_ABORTED, comm->team.rank, "rank %d aborted: %s",
                comm->team.rank, reason != NULL ? reason : "no reason given");
    return TUTTI_OK;
}

int tutti_comm_rank(const struct tutti_comm *comm)
{
    return handle_is_known(comm) ? comm->team.rank : -1;
}

int tutti_comm_overlaps(const struct tutti_comm *comm)
{
    if (!handle_is_known(comm)) return -1;
    return health_has_network(&comm->health) || progress_has_free_cpu(team_local_size(&comm->team));
}

int tutti_comm_size(const struct tutti_comm *comm)
{
    return handle_is_known(comm) ? comm->team.size : -1;
}

enum tutti_status tutti_comm_failure(const struct tutti_comm *comm, struct tutti_failure *failure)
{
    TRY(communicator_check_handle(comm, "comm_failure"));
    TRY(SIZED_CHECK_RESULT("tutti_comm_failure: failure", tutti_failure, failure));
    struct tutti_failure own;
    board_failure(comm->health.board, &own);
    printable_make(own.message);
    if (own.culprit >= 0 && own.culprit < comm->team.size &&
        health_is_hidden(&comm->health, own.culprit))
        own.pid = 0;
    SIZED_WRITE(tutti_failure, failure, failure->size_bytes, &own);
    return TUTTI_OK;
}

enum tutti_status tutti_trace_dump(struct tutti_comm *comm, const char *folder)
{
    TRY(communicator_check_handle(comm, "trace_dump"));
    return trace_dump(&comm->health, folder);
}
