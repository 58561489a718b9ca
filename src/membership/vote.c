#include "membership/vote.h"

#include <endian.h>
#include <string.h>

#include "membership/standing.h"

/* ------------------------------------------------------------------------------------- messages
 *
 *   0 magic  2 kind  3 nothing  8 epoch
 *
 * Little-endian. The magic is not that of the messages of agreements (agreement.c). */

enum { MAGIC = 0x6756, KIND_QUESTION = 1, KIND_VOTE = 2, EPOCH_AT = 8 };

void vote_write(const struct vote_message *message, unsigned char bytes[VOTE_BYTES])
{
    const uint64_t epoch = htole64(message->epoch);
    memset(bytes, 0, VOTE_BYTES);
    bytes[0] = MAGIC & 0xff;
    bytes[1] = MAGIC >> 8;
    bytes[2] = message->is_question ? KIND_QUESTION : KIND_VOTE;
    memcpy(bytes + EPOCH_AT, &epoch, sizeof epoch);
}

bool vote_read(const void *bytes, size_t byte_count, struct vote_message *message)
{
    static const unsigned char nothing[EPOCH_AT - 3] = {0};
    const unsigned char *const head = bytes;
    uint64_t epoch;
    if (byte_count != VOTE_BYTES || head[0] != (MAGIC & 0xff) || head[1] != MAGIC >> 8)
        return false;
    if (head[2] != KIND_QUESTION && head[2] != KIND_VOTE) return false;
    if (memcmp(head + 3, nothing, sizeof nothing) != 0) return false;
    memcpy(&epoch, head + EPOCH_AT, sizeof epoch);
    *message = (struct vote_message){head[2] == KIND_QUESTION, le64toh(epoch)};
    return standing_number(message->epoch) != 0;
}

/* --------------------------------------------------------------------------------- what is known */

void vote_note_own(struct vote_history *history, uint64_t epoch)
{
    history->epochs[standing_number(epoch) % VOTE_HISTORY] = epoch;
}

uint64_t vote_own_at(const struct vote_history *history, uint64_t number)
{
    const uint64_t epoch = history->epochs[number % VOTE_HISTORY];
    return standing_number(epoch) == number ? epoch : 0;
}

uint64_t vote_keep(uint64_t kept, uint64_t heard, uint64_t number)
{
    if (standing_number(heard) < number) return kept;
    if (standing_number(heard) == number) return heard;
    return kept == 0 || standing_number(kept) < number ? heard : kept;
}

/* ------------------------------------------------------------------------------------ conclusion */

/* about VOTE_UNKNOWN: a list that no known vote is for. */
static bool may_win(int size, uint64_t about, vote_of *of, const void *context)
{
    int count = 0;
    bool has_first = false;
    for (int r = 0; r < size; r++) {
        const uint64_t vote = of(context, r);
        if (vote != about && vote != VOTE_UNKNOWN) continue;
        has_first |= r == 0;
        count++;
    }
    return standing_is_majority(count, has_first, size);
}

bool vote_may_exclude(int size, uint32_t own, vote_of *of, const void *context)
{
    uint64_t last = VOTE_UNKNOWN; /* ranks with the same list often have numbers in a row */
    if (may_win(size, VOTE_UNKNOWN, of, context)) return true;
    for (int r = 0; r < size; r++) {
        const uint64_t vote = of(context, r);
        if (vote == 0 || vote == own || vote == VOTE_NONE || vote == VOTE_UNKNOWN || vote == last)
            continue;
        if (may_win(size, vote, of, context)) return true;
        last = vote;
    }
    return false;
}
