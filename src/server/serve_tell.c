#include <string.h>

#include "membership/rank_set.h"
#include "server/serve_state.h"

/* In one message if the payload is small. */
static enum tutti_status send_request(struct line *line, int tag,
                                      const struct server_request *request, const void *payload)
{
    char together[sizeof *request + SERVER_INLINE_BYTES];
    size_t bytes = sizeof *request;
    const bool is_inline =
        request->payload_bytes > 0 && request->payload_bytes <= SERVER_INLINE_BYTES;
    memcpy(together, request, sizeof *request);
    if (is_inline) {
        memcpy(together + bytes, payload, request->payload_bytes);
        bytes += request->payload_bytes;
    }
    const enum tutti_status status = line_send(line, tag, together, bytes);
    if (status != TUTTI_OK || is_inline || request->payload_bytes == 0) return status;
    return line_send(line, tag + 1, payload, request->payload_bytes);
}

void serve_tell(struct serve *serve, int peer, const struct server_request *request,
                const void *payload)
{
    struct line *const line = &serve->peers[peer].line;
    const int tag = peer > serve->config.seat ? SERVER_TAG_TO_HIGHER : SERVER_TAG_TO_LOWER;
    if (line->state == LINE_CLOSED) return;
    struct server_request whole = *request;
    whole.magic = SERVER_MAGIC;
    whole.version = SERVER_VERSION;
    serve->peers[peer].has_failed |= send_request(line, tag, &whole, payload) != TUTTI_OK;
}

void serve_tell_all(struct serve *serve, const struct server_request *request)
{
    for (int i = 0; i < serve->peer_count; i++) serve_tell(serve, i, request, NULL);
}

void serve_tell_clocks(struct serve *serve, const struct server_request *request)
{
    for (int i = 0; i < serve->peer_count; i++)
        if (i != serve->config.seat && seat_map_has_clock(&serve->map, i))
            serve_tell(serve, i, request, NULL);
}

void serve_tell_entry(struct serve *serve, int peer, const struct step_entry *entry)
{
    static const enum server_kind kinds[] = {
        [STEP_DECIDED] = SERVER_DECIDED, [STEP_LOST] = SERVER_LOST,
        [STEP_LEFT] = SERVER_LEFT,       [STEP_CAME] = SERVER_CAME,
        [STEP_INVITED] = SERVER_INVITED, [STEP_JOINED] = SERVER_JOINED,
        [STEP_FULL] = SERVER_FULL,       [STEP_OUT] = SERVER_OUT,
        [STEP_CHANGED] = SERVER_CHANGED, [STEP_KEPT] = SERVER_KEPT};
    const size_t words = rank_set_words(serve->config.division->worker_count);
    const bool is_step = entry->kind == STEP_DECIDED;
    serve_tell(
        serve, peer,
        &(struct server_request){.kind = (uint16_t)kinds[entry->kind],
                                 .sequence = entry->index,
                                 .clock = entry->round,
                                 .number = entry->number,
                                 .left_count = entry->left_count,
                                 .payload_bytes = is_step ? words * sizeof *entry->members : 0},
        entry->members);
}

void serve_tell_linked(struct serve *serve, int worker, int clock)
{
    const struct server_request request = {.kind = SERVER_LINKED, .number = (uint64_t)worker};
    if (clock >= 0) {
        serve_tell(serve, clock, &request, NULL);
        return;
    }
    serve_tell_clocks(serve, &request);
    if (serve_has_clock(serve)) step_leader_linked(&serve->leader, serve->config.seat, worker);
}
