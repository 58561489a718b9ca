#include "connect/admission_message.h"

#include <stdbool.h>

#include "base/status.h"

enum { MAGIC = 0x31726f64 }; /* "dor1" */

void admission_invitation_sign(struct admission_invitation *invitation)
{
    invitation->magic = MAGIC;
}

static bool is_sound(const struct admission_invitation *invitation)
{
    return invitation->magic == MAGIC && invitation->old_size >= 1 &&
           invitation->old_size <= ADMISSION_RANKS_MAX && invitation->joiner_count >= 1 &&
           invitation->joiner_count <= ADMISSION_RANKS_MAX && invitation->joiner >= 0 &&
           invitation->joiner < invitation->joiner_count &&
           (invitation->keeps_ranks == 0 || invitation->keeps_ranks == 1) &&
           invitation->reserved == 0;
}

size_t admission_set_words(const struct admission_invitation *invitation)
{
    return ((size_t)invitation->old_size + 63) / 64;
}

static bool set_is_sound(const struct admission_reader *reader)
{
    const size_t words = admission_set_words(reader->invitation);
    const int odd = reader->invitation->old_size % 64;
    uint64_t any = 0;
    for (size_t i = 0; i < words; i++) any |= reader->survivors[i];
    return any != 0 && (odd == 0 || reader->survivors[words - 1] >> odd == 0);
}

size_t admission_reader_wants(const struct admission_reader *reader, void **to)
{
    const size_t head_bytes = sizeof *reader->invitation;
    *to = (char *)reader->invitation + reader->done;
    if (reader->done < head_bytes) return head_bytes - reader->done;
    const size_t got = reader->done - head_bytes;
    *to = (char *)reader->survivors + got;
    return admission_set_words(reader->invitation) * sizeof *reader->survivors - got;
}

enum tutti_status admission_reader_took(struct admission_reader *reader, size_t bytes)
{
    void *to;
    const bool was_in_head = reader->done < sizeof *reader->invitation;
    reader->done += bytes;
    if (reader->done < sizeof *reader->invitation) return TUTTI_OK;
    if ((was_in_head && !is_sound(reader->invitation)) ||
        (admission_reader_wants(reader, &to) == 0 && !set_is_sound(reader)))
        return error_set(TUTTI_AUTH_FAILED, "the team sent an invitation that makes no sense");
    return TUTTI_OK;
}
