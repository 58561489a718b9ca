#include "health/exclusion_tell.h"

#include "base/status.h"
#include "health/control_message.h"
#include "health/lock.h"

static const uint64_t LOCK_NS = 1000000000u;

static void tell_other_host(struct health *health, int rank, uint64_t word)
{
    struct network *const network = health->network;
    const struct word_message message = {.kind = CONTROL_EXCLUDED, .word = word};
    if (remote_of(health, rank) == NULL || network->flags[rank].is_dead) return;
    if (network->control->ops->tell(network->control, rank, &message, sizeof message) != TUTTI_OK)
        remote_count_untold(network, rank);
}

void exclusion_tell(struct health *health, int rank, const struct exclusion *exclusion,
                    bool tells_far)
{
    const int number = team_local_number(health->team, rank);
    const uint64_t word = exclusion_word(exclusion);
    char text[ERROR_TEXT_MAX];
    if (number >= 0) {
        exclusion_write(health, number, word);
        return;
    }
    if (!tells_far || health->network == NULL) return;
    error_copy(text, sizeof text);
    if (health_lock_failed(health, LOCK_NS) == TUTTI_OK) {
        tell_other_host(health, rank, word);
        health_unlock(health);
    }
    (void)error_unless_ok(TUTTI_OK, text);
}
