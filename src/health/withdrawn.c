#include "health/withdrawn.h"

#include <string.h>

#include "base/status.h"
#include "health/control_message.h"
#include "health/lock.h"

static const uint64_t LOCK_NS = 1000000000u;

/* One word: most of the meeting's number, and the status. */
enum { STATUS_BITS = 8 };
static_assert(STATUS_COUNT < 1 << STATUS_BITS, "a status fits");

static uint64_t word_of(uint64_t meeting, enum tutti_status why)
{
    return meeting << STATUS_BITS | (uint64_t)why;
}

/* The word may be foreign. */
static enum tutti_status status_of(uint64_t word, uint64_t meeting)
{
    const uint64_t status = word & ((1u << STATUS_BITS) - 1);
    if (word == 0 || word >> STATUS_BITS != meeting << STATUS_BITS >> STATUS_BITS) return TUTTI_OK;
    return status > TUTTI_IN_PROGRESS && status < STATUS_COUNT ? (enum tutti_status)status
                                                               : TUTTI_INTERNAL;
}

enum tutti_status withdrawn_status(const struct health *health, int rank, uint64_t meeting)
{
    const int number = team_local_number(health->team, rank);
    if (number >= 0) /* acquire: pairs with withdrawn_tell */
        return status_of(
            atomic_load_explicit(&health->board->ranks[number].withdrawn, memory_order_acquire),
            meeting);
    const struct remote_rank *const remote =
        remote_of(health, rank) != NULL ? remote_find(health->network, rank) : NULL;
    return remote != NULL ? status_of(remote->withdrawn, meeting) : TUTTI_OK;
}

static void tell_other_hosts(struct health *health, const int *ranks, int count, uint64_t word)
{
    struct network *const network = health->network;
    const struct word_message message = {.kind = CONTROL_WITHDRAWN, .word = word};
    for (int i = 0; i < count; i++)
        if (remote_of(health, ranks[i]) != NULL &&
            network->control->ops->tell(network->control, ranks[i], &message, sizeof message) !=
                TUTTI_OK)
            remote_count_untold(network, ranks[i]);
}

void withdrawn_tell(struct health *health, const int *ranks, int count, uint64_t meeting,
                    enum tutti_status why)
{
    char text[ERROR_TEXT_MAX];
    const uint64_t word = word_of(meeting, why);
    error_copy(text, sizeof text);
    atomic_store_explicit(&health->board->ranks[health->board_number].withdrawn, word,
                          memory_order_release);
    if (health_has_network(health) && health_lock(health, LOCK_NS) == TUTTI_OK) {
        tell_other_hosts(health, ranks, count, word);
        health_unlock(health);
    }
    error_set(why, "%s", text);
}
