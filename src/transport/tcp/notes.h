/* notes.h - the notes that two ranks send each other besides data: those to be told, and those that
 * were heard. Knows nothing of sockets.
 *
 *   teller   acked ──── sent ──── told          numbered for the life of the pair; those from `acked` on are kept
 *   hearer         heard ─┘                     says how many it has heard, soon after each and in its READY
 *
 * All notes that are under way and not acked go over one connection, the carrier. When the carrier
 * is lost, all of them are sent again over another connection; a note that has come over both is
 * heard once. So every connection carries rising numbers, without gaps in the notes that the hearer
 * lacks, and the hearer needs no memory to put them in order.
 *
 * The hearer never has to hold a note back: at most as many are under way as may be kept, and the
 * next can only come when it has said that it heard.
 */
#ifndef TUTTI_TRANSPORT_TCP_NOTES_H
#define TUTTI_TRANSPORT_TCP_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/tcp/frame.h"
#include "transport/tcp/tcp.h"

struct tcp_note {
    size_t bytes;
    char data[TCP_FRAME_NOTE_BYTES_MAX];
};

/* Zeroed, to begin with. */
struct tcp_notes {
    /* telling */
    struct tcp_note *queue; /* of CONTROL_MESSAGES_MAX */
    uint64_t told, acked;
    uint64_t sent;    /* as far as this holds today */
    uint64_t given;   /* the most that was ever sent */
    unsigned carrier; /* of notes that are sent and not acked */
    /* hearing */
    uint64_t heard, heard_told; /* and as the teller was told */
    bool owes_heard, has_changed;
    uint64_t changed; /* the note that came last, but not as it was told; if any did */
};

void tcp_notes_release(struct tcp_notes *notes);
/* Makes the memory for all notes that can be under way, so that telling takes none. Failures:
 * NO_MEMORY. */
enum tutti_status tcp_notes_init(struct tcp_notes *notes);
/* The last CONTROL_FINAL_MESSAGES places are kept for final messages. */
bool tcp_notes_has_room(const struct tcp_notes *notes, bool is_final);
/* There must be room. */
void tcp_notes_tell(struct tcp_notes *notes, const void *note, size_t bytes);
bool tcp_notes_are_sent(const struct tcp_notes *notes);
/* The next note to be sent over that connection; NULL: none. */
const struct tcp_note *tcp_notes_next(const struct tcp_notes *notes, unsigned stream);
/* The note was given to that connection, which had a number for it. */
void tcp_notes_sent(struct tcp_notes *notes, unsigned stream);
/* This connection was lost: the notes that it carried may not have come. */
void tcp_notes_lost(struct tcp_notes *notes, unsigned stream);
/* The hearer says that it has heard that many; it may have heard more by now. False: it cannot
 * have. */
bool tcp_notes_acked(struct tcp_notes *notes, uint64_t heard);

/* The head of a note has come. Returns a text that says what is wrong, or NULL. */
const char *tcp_notes_begin(const struct tcp_notes *notes, uint64_t number);
/* All of the note has come; false: it was heard before. */
bool tcp_notes_end(struct tcp_notes *notes, uint64_t number);
/* A note came changed; true if the same note had come changed before. And whether such a note has
 * now come as it was told. */
bool tcp_notes_came_changed(struct tcp_notes *notes, uint64_t number);
bool tcp_notes_is_mended(struct tcp_notes *notes, uint64_t number);
/* The teller is being told how many were heard. */
void tcp_notes_heard_told(struct tcp_notes *notes);

#endif
