#include "comm/enlarge.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/status.h"
#include "bootstrap/launcher.h"
#include "call/communicator.h"
#include "comm/create.h"
#include "comm/measured.h"
#include "health/agree.h"
#include "membership/rank_set.h"
#include "os/clock.h"

/* By numbers at the meeting, and of ranks; freed by the caller, together. */
static enum tutti_status place(const struct enlargement *enlargement, int **places,
                               uint64_t **voters)
{
    const int size = growth_size(&enlargement->team);
    *places = calloc((size_t)size, sizeof **places);
    *voters = calloc(rank_set_words(size), sizeof **voters);
    if (*places == NULL || *voters == NULL) {
        free(*places);
        free(*voters);
        return error_set(TUTTI_NO_MEMORY, "tutti_%s: out of memory", enlargement->function);
    }
    growth_place(&enlargement->team, *places, *voters);
    return TUTTI_OK;
}

/* An error names ranks as they are numbered where it arose: at the meeting, or in the new team. */
static enum tutti_status explain(const struct enlargement *enlargement, enum tutti_status status)
{
    char why[400];
    error_copy(why, sizeof why);
    return error_set(status, "tutti_%s: making the new communicator: %s", enlargement->function,
                     why);
}

static enum tutti_status make(const struct enlargement *enlargement, const int *places,
                              struct tutti_comm **created)
{
    const struct launcher_facts facts = {.launcher = enlargement->function,
                                         .rank = enlargement->number,
                                         .size = growth_size(&enlargement->team),
                                         .local_rank = -1,
                                         .local_size = -1,
                                         .node_index = -1,
                                         .node_count = -1,
                                         .key = enlargement->key};
    const struct creation creation = {.origin = enlargement->function,
                                      .rank = places[enlargement->number],
                                      .size = facts.size,
                                      .key = enlargement->key,
                                      .facts = &facts,
                                      .meeting = &enlargement->meeting,
                                      .places = places,
                                      .options = enlargement->options,
                                      .deadline_ns =
                                          clock_now_ns() + enlargement->options->init_timeout_ns,
                                      .look = enlargement->look,
                                      .look_context = enlargement->look_context};
    TRY(comm_create(&creation, created));
    const enum tutti_status status = comm_measure(*created);
    if (status == TUTTI_OK) return TUTTI_OK;
    comm_discard(*created);
    *created = NULL;
    return status;
}

enum tutti_status enlarge_meet(const struct enlargement *enlargement, struct tutti_comm **created)
{
    int *places;
    uint64_t *voters;
    *created = NULL;
    TRY(place(enlargement, &places, &voters));
    const enum tutti_status status = make(enlargement, places, created);
    free(places);
    free(voters);
    return status == TUTTI_OK ? TUTTI_OK : explain(enlargement, status);
}

static enum enlarge_end decide(const struct enlargement *enlargement, struct tutti_comm *created,
                               const uint64_t *voters)
{
    struct agreed agreed;
    if (created->team.size == 1) return ENLARGE_MADE;
    const enum tutti_status status =
        agree_on_all(&created->health, enlargement->function, voters, &agreed);
    if (status == TUTTI_PROC_FAILED) return ENLARGE_AGAIN;
    if (status != TUTTI_OK) return ENLARGE_UNDECIDED;
    return growth_is_made(&enlargement->team, agreed.set) ? ENLARGE_MADE : ENLARGE_AGAIN;
}

enum enlarge_end enlarge_agree(const struct enlargement *enlargement, struct tutti_comm **created)
{
    int *places;
    uint64_t *voters;
    char why[ERROR_TEXT_MAX];
    enum enlarge_end end = ENLARGE_UNDECIDED;
    if (place(enlargement, &places, &voters) == TUTTI_OK) {
        end = decide(enlargement, *created, voters);
        free(places);
        free(voters);
    }
    if (end == ENLARGE_MADE) return end;
    error_copy(why, sizeof why);
    log_write(LOG_INFO, "%s: rank %d of %d: the new team is not there%s", enlargement->function,
              (*created)->team.rank, (*created)->team.size,
              end == ENLARGE_AGAIN ? ", because a rank of it has gone"
                                   : ", as far as this rank knows");
    comm_discard(*created);
    *created = NULL;
    (void)error_unless_ok(TUTTI_OK, why);
    return end;
}
