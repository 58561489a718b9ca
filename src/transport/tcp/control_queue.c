#include "transport/tcp/control_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "transport/tcp/frame.h"

static_assert((int)CONTROL_MESSAGE_BYTES_MAX + (int)CONTROL_ENVELOPE_BYTES ==
                  (int)TCP_FRAME_CONTROL_BYTES_MAX,
              "a control message is a frame");

enum tutti_status control_queue_init(struct tcp_control_queue *control)
{
    *control =
        (struct tcp_control_queue){.queue = malloc(CONTROL_MESSAGES_MAX * sizeof *control->queue)};
    if (control->queue == NULL)
        return error_set(TUTTI_NO_MEMORY, "control messages to a peer: out of memory");
    return TUTTI_OK;
}

void control_queue_release(struct tcp_control_queue *control)
{
    free(control->queue);
    *control = (struct tcp_control_queue){0};
}

/* -------------------------------------------------------------------------------------- telling */

bool control_queue_has_room(const struct tcp_control_queue *control, bool is_final)
{
    const unsigned places =
        is_final ? CONTROL_MESSAGES_MAX : CONTROL_MESSAGES_MAX - CONTROL_FINAL_MESSAGES;
    return control->told - control->acked < places;
}

void control_queue_tell(struct tcp_control_queue *control, const void *data, size_t bytes)
{
    assert(control_queue_has_room(control, true) && bytes > 0 &&
           bytes <= TCP_FRAME_CONTROL_BYTES_MAX);
    struct tcp_control *message = &control->queue[control->told % CONTROL_MESSAGES_MAX];
    message->bytes = bytes;
    memcpy(message->data, data, bytes);
    control->told++;
}

bool control_queue_are_sent(const struct tcp_control_queue *control)
{
    return control->sent == control->told;
}

const struct tcp_control *control_queue_next(const struct tcp_control_queue *control,
                                             unsigned stream)
{
    if (control_queue_are_sent(control)) return NULL;
    if (control->sent > control->acked && control->carrier != stream) return NULL;
    return &control->queue[control->sent % CONTROL_MESSAGES_MAX];
}

void control_queue_sent(struct tcp_control_queue *control, unsigned stream)
{
    control->carrier = stream;
    control->sent++;
    if (control->given < control->sent) control->given = control->sent;
}

void control_queue_lost(struct tcp_control_queue *control, unsigned stream)
{
    if (control->carrier == stream) control->sent = control->acked;
}

bool control_queue_acked(struct tcp_control_queue *control, uint64_t heard)
{
    if (heard > control->given) return false;
    if (control->acked < heard) control->acked = heard;
    if (control->sent < control->acked) control->sent = control->acked;
    return true;
}

/* -------------------------------------------------------------------------------------- hearing */

const char *control_queue_begin(const struct tcp_control_queue *control, uint64_t number)
{
    if (number > control->heard) return "a control message is missing before this one";
    if (number - control->heard_told >= CONTROL_MESSAGES_MAX && number == control->heard)
        return "more control messages come than may be under way";
    return NULL;
}

bool control_queue_end(struct tcp_control_queue *control, uint64_t number)
{
    if (number != control->heard) return false;
    control->heard++;
    control->owes_heard = true;
    return true;
}

bool control_queue_came_changed(struct tcp_control_queue *control, uint64_t number)
{
    const bool did_before = control->has_changed && control->changed == number;
    control->has_changed = true;
    control->changed = number;
    return did_before;
}

bool control_queue_is_mended(struct tcp_control_queue *control, uint64_t number)
{
    if (!control->has_changed || control->changed != number) return false;
    control->has_changed = false;
    return true;
}

void control_queue_heard_told(struct tcp_control_queue *control)
{
    control->heard_told = control->heard;
    control->owes_heard = false;
}
