/* control_queue.h - the control messages that two ranks send each other besides data: those to be
 * told, and those that were heard. Knows nothing of sockets.
 *
 *   teller   acked ──── sent ──── told          numbered for the life of the pair; those from `acked` on are kept
 *   hearer         heard ─┘                     says how many it has heard, soon after each and in its READY
 *
 * All control messages that are under way and not acked go over one connection, the carrier. When
 * the carrier is lost, all of them are sent again over another connection; a control message that
 * has come over both is heard once. So every connection carries rising numbers, without gaps in the
 * control messages that the hearer lacks, and the hearer needs no memory to put them in order.
 *
 * The hearer never has to hold a control message back: at most as many are under way as may be
 * kept, and the next can only come when it has said that it heard.
 */
#ifndef TUTTI_TRANSPORT_TCP_CONTROL_QUEUE_H
#define TUTTI_TRANSPORT_TCP_CONTROL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/tcp/frame.h"
#include "transport/tcp/tcp.h"

struct tcp_control {
    size_t bytes;
    char data[TCP_FRAME_CONTROL_BYTES_MAX];
};

/* Zeroed, to begin with. */
struct tcp_control_queue {
    /* telling */
    struct tcp_control *queue; /* of CONTROL_MESSAGES_MAX */
    uint64_t told, acked;
    uint64_t sent;    /* as far as this holds today */
    uint64_t given;   /* the most that was ever sent */
    unsigned carrier; /* of control messages that are sent and not acked */
    /* hearing */
    uint64_t heard, heard_told; /* and as the teller was told */
    bool owes_heard, has_changed;
    uint64_t changed; /* the control message that came last, but not as it was told; if any did */
};

void control_queue_release(struct tcp_control_queue *control);
/* Makes the memory for all control messages that can be under way, so that telling takes none.
 * Failures: NO_MEMORY. */
enum tutti_status control_queue_init(struct tcp_control_queue *control);
/* The last CONTROL_FINAL_MESSAGES places are kept for final messages. */
bool control_queue_has_room(const struct tcp_control_queue *control, bool is_final);
/* There must be room. */
void control_queue_tell(struct tcp_control_queue *control, const void *message, size_t bytes);
bool control_queue_are_sent(const struct tcp_control_queue *control);
/* The next control message to be sent over that connection; NULL: none. */
const struct tcp_control *control_queue_next(const struct tcp_control_queue *control,
                                             unsigned stream);
/* The control message was given to that connection, which had a number for it. */
void control_queue_sent(struct tcp_control_queue *control, unsigned stream);
/* This connection was lost: the control messages that it carried may not have come. */
void control_queue_lost(struct tcp_control_queue *control, unsigned stream);
/* The hearer says that it has heard that many; it may have heard more by now. False: it cannot
 * have. */
bool control_queue_acked(struct tcp_control_queue *control, uint64_t heard);

/* The head of a control message has come. Returns a text that says what is wrong, or NULL. */
const char *control_queue_begin(const struct tcp_control_queue *control, uint64_t number);
/* All of the control message has come; false: it was heard before. */
bool control_queue_end(struct tcp_control_queue *control, uint64_t number);
/* A control message came changed; true if the same control message had come changed before. And
 * whether such a control message has now come as it was told. */
bool control_queue_came_changed(struct tcp_control_queue *control, uint64_t number);
bool control_queue_is_mended(struct tcp_control_queue *control, uint64_t number);
/* The teller is being told how many were heard. */
void control_queue_heard_told(struct tcp_control_queue *control);

#endif
