/* newcomer.c - a process outside joins a team: the other side of grow.c.
 *
 *     look where to apply ──► apply ──► wait until invited ──► meet, make the communicator, agree whether all have it
 *          ▲                  │             │                        │
 *          └──────────────────┴─────────────┴── closed, or nowhere ──┘
 */
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/sized.h"
#include "base/status.h"
#include "call/communicator.h"
#include "comm/create.h"
#include "comm/enlarge.h"
#include "comm/id.h"
#include "connect/admission.h"
#include "connect/bars.h"
#include "gpu/gpu.h"
#include "membership/growth.h"
#include "os/clock.h"
#include "plan/plan.h"
#include "process/excluded.h"
#include "team/options.h"

enum { NAP_NS = 1000000, NO_ADMISSION_NAP_NS = 20000000 };
/* For so long a process applies where nobody answers, before it looks again where to apply. */
static const uint64_t APPLY_NS = 1000000000;

struct newcomer {
    struct tutti_comm_options options;
    struct tutti_store store; /* unless the options have an id */
    uint64_t deadline_ns;
    char why[400]; /* the last reason why it is not in; "": none */
    struct admission_invitation invitation;
    uint64_t survivors[ADMISSION_SET_WORDS_MAX];
    struct bars bars; /* of the team */
};

static void nap(long ns)
{
    nanosleep(&(struct timespec){0, ns}, NULL);
}

static bool is_over(const struct newcomer *newcomer)
{
    return clock_now_ns() > newcomer->deadline_ns;
}

static void note_why(struct newcomer *newcomer)
{
    error_copy(newcomer->why, sizeof newcomer->why);
}

/* None is open: its address is none. */
static enum tutti_status find_admission(struct newcomer *newcomer, struct id_content *admission)
{
    struct tutti_id id;
    const uint64_t now_ns = clock_now_ns();
    if (newcomer->options.id != NULL) {
        id_read(newcomer->options.id, admission);
        if (id_spans_hosts(admission)) return TUTTI_OK;
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_comm_join: options.id is of no team that lets processes in");
    }
    *admission = (struct id_content){.magic = 0};
    if (now_ns < newcomer->deadline_ns &&
        newcomer->store.get(newcomer->store.context, ENLARGE_STORE_KEY, id.bytes, sizeof id.bytes,
                            newcomer->deadline_ns - now_ns) == 0)
        id_read(&id, admission);
    return TUTTI_OK;
}

/* OK: invited. IN_PROGRESS: not here, or not now. */
static enum tutti_status wait_at(struct newcomer *newcomer, struct applicant *applicant)
{
    for (;;) {
        const enum tutti_status status =
            applicant_test(applicant, &newcomer->invitation, newcomer->survivors, &newcomer->bars);
        if (status == TUTTI_OK || status == TUTTI_AUTH_FAILED || status == TUTTI_VERSION ||
            status == TUTTI_INVALID_OPTIONS || status == TUTTI_EXCLUDED)
            return status;
        if (status != TUTTI_IN_PROGRESS) {
            note_why(newcomer);
            return TUTTI_IN_PROGRESS;
        }
        if (is_over(newcomer)) return TUTTI_IN_PROGRESS;
        nap(NAP_NS);
    }
}

static enum tutti_status look(void *context)
{
    return applicant_look(context);
}

static enum tutti_status enlarge(struct newcomer *newcomer, const struct net_address *meeting,
                                 struct applicant *applicant, struct tutti_comm **comm)
{
    const struct admission_invitation *const invitation = &newcomer->invitation;
    struct enlargement enlargement = {.function = "comm_join",
                                      .team = {.old_size = invitation->old_size,
                                               .survivors = newcomer->survivors,
                                               .joiner_count = invitation->joiner_count,
                                               .keeps_ranks = invitation->keeps_ranks},
                                      .key = invitation->key,
                                      .meeting = *meeting,
                                      .options = &newcomer->options,
                                      .look = look,
                                      .look_context = applicant};
    if (!growth_is_sound(&enlargement.team, PLAN_RANKS_MAX))
        return error_set(TUTTI_AUTH_FAILED,
                         "tutti_comm_join: an invitation to a team that cannot be");
    enlargement.number =
        growth_size(&enlargement.team) - invitation->joiner_count + invitation->joiner;
    struct bars *const bars = bars_copy(&newcomer->bars);
    if (bars == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_comm_join: out of memory");
    const enum tutti_status status = enlarge_meet(&enlargement, comm);
    if (status != TUTTI_OK) {
        free(bars);
        return status;
    }
    (*comm)->bars = bars;
    switch (enlarge_agree(&enlargement, comm)) {
    case ENLARGE_MADE: return TUTTI_OK;
    case ENLARGE_UNDECIDED: return TUTTI_MINORITY;
    case ENLARGE_AGAIN: break;
    }
    return error_set(TUTTI_PROC_FAILED, "tutti_comm_join: a rank went before all had met");
}

/* Whether a rank lacks something, as it will next time, too. */
static bool is_final(enum tutti_status status)
{
    return status != TUTTI_PROC_FAILED && status != TUTTI_INIT_TIMEOUT && status != TUTTI_TIMEOUT;
}

/* OK: it is in. IN_PROGRESS: it has to apply once more. */
static enum tutti_status apply_at(struct newcomer *newcomer, const struct id_content *admission,
                                  struct tutti_comm **comm)
{
    struct applicant *applicant;
    const uint64_t patience_ns = clock_now_ns() + APPLY_NS;
    TRY(applicant_begin(
        &admission->key, &admission->address, newcomer->options.encryption == TUTTI_ENCRYPTION_ON,
        patience_ns < newcomer->deadline_ns ? patience_ns : newcomer->deadline_ns, &applicant));
    enum tutti_status status = wait_at(newcomer, applicant);
    if (status == TUTTI_OK) {
        status = enlarge(newcomer, &admission->address, applicant, comm);
        if (status != TUTTI_OK && !is_final(status)) {
            note_why(newcomer);
            log_write(LOG_INFO, "joining once more: %s", newcomer->why);
            status = TUTTI_IN_PROGRESS;
        }
    }
    applicant_end(applicant);
    return status;
}

static enum tutti_status fail(const struct newcomer *newcomer)
{
    return error_set(TUTTI_INIT_TIMEOUT,
                     "tutti_comm_join: no team took this process in within "
                     "%.1f s%s%s",
                     (double)newcomer->options.init_timeout_ns * 1e-9,
                     newcomer->why[0] != '\0' ? ": " : "", newcomer->why);
}

static enum tutti_status join(struct newcomer *newcomer, struct tutti_comm **comm)
{
    while (!is_over(newcomer)) {
        struct id_content admission;
        TRY(find_admission(newcomer, &admission));
        if (!id_spans_hosts(&admission)) {
            nap(NO_ADMISSION_NAP_NS);
            continue;
        }
        const enum tutti_status status = apply_at(newcomer, &admission, comm);
        if (status != TUTTI_IN_PROGRESS) return status;
        nap(NAP_NS);
    }
    return fail(newcomer);
}

static enum tutti_status read_options(struct newcomer *newcomer,
                                      const struct tutti_comm_options *user)
{
    enum tutti_status trouble;
    const struct gpu_driver *driver; /* calls do not look for one */
    TRY(options_for_comm(user, &newcomer->options, &trouble));
    TRY(trouble);
    TRY(gpu_driver(&driver));
    newcomer->deadline_ns = clock_now_ns() + newcomer->options.init_timeout_ns;
    if (newcomer->options.id != NULL) return TUTTI_OK;
    if (newcomer->options.store == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_comm_join: options.store or options.id must "
                                                "say where the team lets processes in");
    return SIZED_READ("store", tutti_store, newcomer->options.store, &newcomer->store);
}

enum tutti_status tutti_comm_join(const struct tutti_comm_options *options, struct tutti_comm **comm)
{
    if (comm == NULL)
        return error_set(TUTTI_INVALID_COMM,
                         "tutti_comm_join: comm must be the address of a pointer, is NULL");
    *comm = NULL;
    if (excluded_is_noted())
        return error_set(TUTTI_EXCLUDED,
                         "tutti_comm_join: a team has put this process out; start a new process");
    struct newcomer *const newcomer = calloc(1, sizeof *newcomer);
    if (newcomer == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_comm_join: out of memory");
    enum tutti_status status = read_options(newcomer, options);
    if (status == TUTTI_OK) status = join(newcomer, comm);
    free(newcomer);
    return status;
}
