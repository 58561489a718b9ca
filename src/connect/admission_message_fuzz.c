/* Whatever comes to a process that wants to join a team, in pieces of any size: the reader asks for
 * nothing beyond the head, the set and the bars for which there is room, and what it takes for an
 * invitation has numbers in their ranges.
 *
 * The input: how the pieces are cut, and the bytes. */
#include <stdlib.h>
#include <string.h>

#include "connect/admission_message.h"
#include "tutti/exclude.h"

static void check(const struct admission_invitation *invitation, const uint64_t *survivors,
                  const struct bars *bars)
{
    uint64_t any = 0;
    if (invitation->refusal != 0) {
        if (invitation->refusal < 1 || invitation->refusal > 1 + TUTTI_CAUSE_DEVICE) abort();
        return;
    }
    if (bars->count != invitation->bar_count || bars->count > BARS_MAX) abort();
    for (int i = 0; i < bars->count; i++)
        if (bars->all[i].pid < 0 || bars->all[i].cause > TUTTI_CAUSE_DEVICE) abort();
    const size_t words = admission_set_words(invitation);
    if (invitation->old_size < 1 || invitation->old_size > ADMISSION_RANKS_MAX) abort();
    if (invitation->joiner < 0 || invitation->joiner >= invitation->joiner_count) abort();
    if (invitation->joiner_count > ADMISSION_RANKS_MAX || words > ADMISSION_SET_WORDS_MAX) abort();
    for (size_t i = 0; i < words * 64; i++) {
        const uint64_t bit = survivors[i / 64] >> (i % 64) & 1;
        if (bit != 0 && i >= (size_t)invitation->old_size) abort();
        any |= bit;
    }
    if (any == 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint64_t survivors[ADMISSION_SET_WORDS_MAX];
    static struct bars bars;
    struct admission_invitation invitation = {0};
    struct admission_reader reader = {
        .invitation = &invitation, .survivors = survivors, .bars = &bars};
    struct admission_application application;
    if (bytes >= sizeof application) {
        memcpy(&application, data, sizeof application);
        if (admission_application_is_sound(&application) && application.pid <= 0) abort();
    }
    if (bytes < 1) return 0;
    const size_t piece = 1 + data[0];
    data++, bytes--;
    void *to;
    for (size_t wants; (wants = admission_reader_wants(&reader, &to)) > 0;) {
        size_t now = wants < piece ? wants : piece;
        if (bytes == 0) return 0;
        if (now > bytes) now = bytes;
        memcpy(to, data, now);
        data += now, bytes -= now;
        if (admission_reader_took(&reader, now) != TUTTI_OK) return 0;
    }
    check(&invitation, survivors, &bars);
    return 0;
}
