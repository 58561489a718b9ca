/* Bytes in place of a vote: only votes that a rank can have written are taken for votes, and ranks
 * keep only those of the present number or of a later one.
 *
 * The input: the number that is under way, and messages. */
#include <stdlib.h>
#include <string.h>

#include "membership/standing.h"
#include "membership/vote.h"

static uint64_t vote_in(const void *context, int rank)
{
    return ((const uint64_t *)context)[rank];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    enum { RANKS = 5 };
    uint64_t votes[RANKS] = {0}, kept = 0;
    struct vote_history history = {{0}};
    if (bytes < 1) return 0;
    const uint64_t number = data[0];
    for (size_t at = 1; at < bytes;) {
        const size_t some = bytes - at < VOTE_BYTES ? bytes - at : VOTE_BYTES;
        unsigned char again[VOTE_BYTES];
        struct vote_message message;
        if (vote_read(data + at, some, &message)) {
            vote_write(&message, again);
            if (memcmp(again, data + at, VOTE_BYTES) != 0) abort();
            kept = vote_keep(kept, message.epoch, number);
            if (kept != 0 && standing_number(kept) < number) abort();
            vote_note_own(&history, message.epoch);
            if (vote_own_at(&history, standing_number(message.epoch)) != message.epoch) abort();
            votes[message.epoch % RANKS] = standing_about(message.epoch);
        }
        at += some;
    }
    (void)vote_may_exclude(RANKS, (uint32_t)votes[0], vote_in, votes);
    return 0;
}
