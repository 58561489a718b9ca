/* send.h - messages that are posted and not handed over to their links in full (struct run_send):
 * they outlive their step, and go on whenever their links have room. */
#ifndef TUTTI_ENGINE_SEND_H
#define TUTTI_ENGINE_SEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/buffer.h"
#include "engine/piece.h"

/* A message to be posted: `done` bytes of it have been handed over, and `ready` are there. */
struct send_from {
    int buffer; /* enum plan_buffer */
    size_t offset;
    size_t done, ready;
};

/* Announces a step's message on its link t, by reference or as pieces in the link's places. The
 * link must have no other message (run_send.active). */
void send_open(struct operation *operation, const struct program_step *step, uint32_t t,
               const struct send_from *from, bool by_reference);
/* The same for all links of the step at once, in shared slots; hands over the first piece if there
 * is room. All links must have LINK_SHARES. */
void send_open_shared(struct operation *operation, const struct program_step *step,
                      const struct send_from *from);
/* Hands over one piece that is ready, if there is room; true when something moved. One at a time,
 * so that lanes and sends take turns, and no reader starves. */
bool send_push(struct operation *operation, uint32_t t);

/* Whether an earlier message still waits for room in one of the step's links. */
bool send_is_under_way(const struct operation *operation, const struct program_step *step);
/* Collects links (of program.step_tx) in operation->targets; whether all of them have room. */
bool send_has_room(struct operation *operation, uint32_t first_tx, uint32_t tx_count);
/* A place for all those links together, or NULL. */
void *send_reserve_shared(struct operation *operation, uint32_t first_tx, uint32_t tx_count,
                          size_t bytes);
/* Whether there were enough looks in vain: `times` spin budgets. */
bool send_waited_enough(const struct operation *operation, uint32_t looks, uint32_t times);

static inline void send_copy(const struct buffer *buffer, size_t offset, char *place, size_t bytes)
{
    while (bytes > 0) {
        size_t run = bytes;
        const char *source = buffer_at(buffer, offset, &run);
        memcpy(place, source, run);
        place += run, offset += run, bytes -= run;
    }
}

/* Sends a step's message on its link t now, if it is a small one and the link has a place. No
 * earlier message may be waiting on the link. */
static inline bool send_at_once(struct operation *operation, const struct program_step *step,
                                uint32_t t, const struct program_source *from)
{
    if (!step_has(step, STEP_SENDS_AT_ONCE)) return false;
    struct link_tx *link = operation->tx[t];
    void *place = link->ops->reserve(link, step->bytes);
    if (place == NULL) return false;
    send_copy(&operation->buffers[from->buffer], from->offset, place, step->bytes);
    link->ops->commit(link, step->bytes);
    taken(operation, step, (enum path_kind)step->place);
    return true;
}

#endif
