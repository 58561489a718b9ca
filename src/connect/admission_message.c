#include "connect/admission_message.h"

#include "base/status.h"
#include "tutti/exclude.h"

enum { MAGIC = 0x32726f64, APPLICATION_MAGIC = 0x31707061 }; /* "dor2", "app1" */
enum { REFUSAL_MAX = 1 + TUTTI_CAUSE_DEVICE };

void admission_application_sign(struct admission_application *application)
{
    application->magic = APPLICATION_MAGIC;
}

bool admission_application_is_sound(const struct admission_application *application)
{
    return application->magic == APPLICATION_MAGIC && application->pid > 0;
}

void admission_invitation_sign(struct admission_invitation *invitation)
{
    invitation->magic = MAGIC;
}

static bool is_sound_refusal(const struct admission_invitation *refusal)
{
    return refusal->magic == MAGIC && refusal->refusal >= 1 && refusal->refusal <= REFUSAL_MAX &&
           (refusal->is_whole_host == 0 || refusal->is_whole_host == 1) && refusal->old_size == 0 &&
           refusal->bar_count == 0;
}

static bool is_sound(const struct admission_invitation *invitation)
{
    if (invitation->refusal != 0) return is_sound_refusal(invitation);
    return invitation->magic == MAGIC && invitation->old_size >= 1 &&
           invitation->old_size <= ADMISSION_RANKS_MAX && invitation->joiner_count >= 1 &&
           invitation->joiner_count <= ADMISSION_RANKS_MAX && invitation->joiner >= 0 &&
           invitation->joiner < invitation->joiner_count &&
           (invitation->keeps_ranks == 0 || invitation->keeps_ranks == 1) &&
           invitation->bar_count >= 0 && invitation->bar_count <= BARS_MAX &&
           invitation->is_whole_host == 0;
}

size_t admission_set_words(const struct admission_invitation *invitation)
{
    return ((size_t)invitation->old_size + 63) / 64;
}

/* The part behind the head. */
static bool rest_is_sound(const struct admission_reader *reader)
{
    const size_t words = admission_set_words(reader->invitation);
    const int odd = reader->invitation->old_size % 64;
    uint64_t any = 0;
    for (size_t i = 0; i < words; i++) any |= reader->survivors[i];
    for (int i = 0; i < reader->invitation->bar_count; i++)
        if (reader->bars->all[i].pid < 0 || reader->bars->all[i].cause < 0 ||
            reader->bars->all[i].cause > TUTTI_CAUSE_DEVICE)
            return false;
    reader->bars->count = reader->invitation->bar_count;
    return any != 0 && (odd == 0 || reader->survivors[words - 1] >> odd == 0);
}

size_t admission_reader_wants(const struct admission_reader *reader, void **to)
{
    const size_t head_bytes = sizeof *reader->invitation;
    *to = (char *)reader->invitation + reader->done;
    if (reader->done < head_bytes) return head_bytes - reader->done;
    const size_t got = reader->done - head_bytes;
    const size_t set_bytes = admission_set_words(reader->invitation) * sizeof *reader->survivors;
    const size_t bars_bytes = (size_t)reader->invitation->bar_count * sizeof *reader->bars->all;
    *to = (char *)reader->survivors + got;
    if (got < set_bytes) return set_bytes - got;
    *to = (char *)reader->bars->all + (got - set_bytes);
    return bars_bytes - (got - set_bytes);
}

enum tutti_status admission_reader_took(struct admission_reader *reader, size_t bytes)
{
    void *to;
    const bool was_in_head = reader->done < sizeof *reader->invitation;
    reader->done += bytes;
    if (reader->done < sizeof *reader->invitation) return TUTTI_OK;
    if ((was_in_head && !is_sound(reader->invitation)) ||
        (admission_reader_wants(reader, &to) == 0 && reader->invitation->refusal == 0 &&
         !rest_is_sound(reader)))
        return error_set(TUTTI_AUTH_FAILED, "the team sent an invitation that makes no sense");
    return TUTTI_OK;
}
