#include "transport/tcp/notes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "transport/tcp/frame.h"

static_assert((int)CONTROL_MESSAGE_BYTES_MAX + (int)CONTROL_ENVELOPE_BYTES ==
                  (int)TCP_FRAME_NOTE_BYTES_MAX,
              "a note is a frame");

enum tutti_status tcp_notes_init(struct tcp_notes *notes)
{
    *notes = (struct tcp_notes){.queue = malloc(CONTROL_MESSAGES_MAX * sizeof *notes->queue)};
    if (notes->queue == NULL) return error_set(TUTTI_NO_MEMORY, "notes to a peer: out of memory");
    return TUTTI_OK;
}

void tcp_notes_release(struct tcp_notes *notes)
{
    free(notes->queue);
    *notes = (struct tcp_notes){0};
}

/* ------------------------------------------------------------------------------------------ telling */

bool tcp_notes_has_room(const struct tcp_notes *notes, bool is_final)
{
    const unsigned places =
        is_final ? CONTROL_MESSAGES_MAX : CONTROL_MESSAGES_MAX - CONTROL_FINAL_MESSAGES;
    return notes->told - notes->acked < places;
}

void tcp_notes_tell(struct tcp_notes *notes, const void *data, size_t bytes)
{
    assert(tcp_notes_has_room(notes, true) && bytes > 0 && bytes <= TCP_FRAME_NOTE_BYTES_MAX);
    struct tcp_note *note = &notes->queue[notes->told % CONTROL_MESSAGES_MAX];
    note->bytes = bytes;
    memcpy(note->data, data, bytes);
    notes->told++;
}

bool tcp_notes_are_sent(const struct tcp_notes *notes)
{
    return notes->sent == notes->told;
}

const struct tcp_note *tcp_notes_next(const struct tcp_notes *notes, unsigned stream)
{
    if (tcp_notes_are_sent(notes)) return NULL;
    if (notes->sent > notes->acked && notes->carrier != stream) return NULL;
    return &notes->queue[notes->sent % CONTROL_MESSAGES_MAX];
}

void tcp_notes_sent(struct tcp_notes *notes, unsigned stream)
{
    notes->carrier = stream;
    notes->sent++;
    if (notes->given < notes->sent) notes->given = notes->sent;
}

void tcp_notes_lost(struct tcp_notes *notes, unsigned stream)
{
    if (notes->carrier == stream) notes->sent = notes->acked;
}

bool tcp_notes_acked(struct tcp_notes *notes, uint64_t heard)
{
    if (heard > notes->given) return false;
    if (notes->acked < heard) notes->acked = heard;
    if (notes->sent < notes->acked) notes->sent = notes->acked;
    return true;
}

/* ------------------------------------------------------------------------------------------ hearing */

const char *tcp_notes_begin(const struct tcp_notes *notes, uint64_t number)
{
    if (number > notes->heard) return "a note is missing before this one";
    if (number - notes->heard_told >= CONTROL_MESSAGES_MAX && number == notes->heard)
        return "more notes come than may be under way";
    return NULL;
}

bool tcp_notes_end(struct tcp_notes *notes, uint64_t number)
{
    if (number != notes->heard) return false;
    notes->heard++;
    notes->owes_heard = true;
    return true;
}

bool tcp_notes_came_changed(struct tcp_notes *notes, uint64_t number)
{
    const bool did_before = notes->has_changed && notes->changed == number;
    notes->has_changed = true;
    notes->changed = number;
    return did_before;
}

bool tcp_notes_is_mended(struct tcp_notes *notes, uint64_t number)
{
    if (!notes->has_changed || notes->changed != number) return false;
    notes->has_changed = false;
    return true;
}

void tcp_notes_heard_told(struct tcp_notes *notes)
{
    notes->heard_told = notes->heard;
    notes->owes_heard = false;
}
