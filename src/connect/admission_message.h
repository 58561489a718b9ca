/* admission_message.h - the messages between a team and a process that wants to join it (admission.h), as
 * bytes.
 *
 *     APPLICATION  alone                                who the process says that it is
 *     INVITATION   head, (old_size + 63) / 64 words,    the new team, and which number at its meeting the joiner has;
 *                  bar_count bars                       processes and hosts that the team lets in no more
 *     REFUSAL      head                                 the team does not let the process in, for this cause
 *
 * The reader is a pure function of the bytes and knows no sockets. The bytes are foreign: once they
 * are through, numbers are in their ranges, and the set has ranks of the old team only. Hosts of
 * another byte order have another magic; its last character changes when the message does.
 */
#ifndef TUTTI_CONNECT_ADMISSION_MESSAGE_H
#define TUTTI_CONNECT_ADMISSION_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/key.h"
#include "connect/bars.h"
#include "tutti/tutti.h"

enum { ADMISSION_RANKS_MAX = 1 << 16, ADMISSION_SET_WORDS_MAX = ADMISSION_RANKS_MAX / 64 };

struct admission_application {
    uint32_t magic;
    int32_t pid;   /* above 0 */
    uint64_t host; /* see host_id_read */
};
void admission_application_sign(struct admission_application *application);
bool admission_application_is_sound(const struct admission_application *application);

/* A refusal has no ranks and no bars. */
struct admission_invitation {
    uint32_t magic;
    int32_t old_size;     /* ranks of the old team */
    int32_t joiner_count; /* all that are invited, 1 at least */
    int32_t joiner;       /* this one's number among them */
    int32_t keeps_ranks;  /* 1: survivors keep their ranks, and joiners fill the gaps; 0 */
    int32_t bar_count;    /* BARS_MAX at most */
    int32_t refusal; /* 1 + enum tutti_cause: the team has put the process, or its host, out; 0: invited */
    int32_t is_whole_host;     /* of a refusal: 1: all processes of the host are kept out; 0 */
    struct rendezvous_key key; /* of the meeting */
};

/* Fills in the magic. */
void admission_invitation_sign(struct admission_invitation *invitation);

/* Reads one invitation or refusal into the caller's memory: a set has room for ADMISSION_SET_WORDS_MAX
 * words. */
struct admission_reader {
    struct admission_invitation *invitation;
    uint64_t *survivors; /* of the old team, by rank; not empty */
    struct bars *bars;
    size_t done; /* 0 for a new message */
};

/* The number of words of the set behind this invitation. */
size_t admission_set_words(const struct admission_invitation *invitation);
/* The number of bytes that the caller may write to *to next; 0: the message is complete. */
size_t admission_reader_wants(const struct admission_reader *reader, void **to);
/* The caller has written that many of them. AUTH_FAILED, with this thread's error: the message
 * makes no sense; read no more. */
enum tutti_status admission_reader_took(struct admission_reader *reader, size_t bytes);

#endif
