#include "elastic_move.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/status.h"

enum { ON_THE_WAY = 8, TAG_DATA = 1, TAG_CHECKSUM = 2 };

/* A piece on its way: its bytes are one message, and their checksum is another. */
struct trip {
    const struct elastic_piece *piece; /* NULL: none */
    uint32_t checksum;
    struct tutti_request *data, *check;
};

static void add_piece(struct elastic_moves *moves, struct elastic_piece piece)
{
    if (moves->is_short) return;
    if (moves->count == moves->room) {
        const size_t room = moves->room > 0 ? 2 * moves->room : 64;
        struct elastic_piece *const more = realloc(moves->pieces, room * sizeof *more);
        moves->is_short = more == NULL;
        if (more == NULL) return;
        moves->pieces = more;
        moves->room = room;
    }
    moves->pieces[moves->count++] = piece;
}

void elastic_moves_add(struct elastic_moves *moves, int rank, int from, int to, const char *source,
                       char *target, size_t bytes)
{
    if (from == to) {
        if (rank == to && bytes > 0) memcpy(target, source, bytes);
        return;
    }
    if (rank != from && rank != to) return;
    for (size_t at = 0; at < bytes; at += ELASTIC_PIECE_BYTES) {
        const size_t left = bytes - at;
        /* A send only reads what it is given. */
        char *const place = rank == from ? (char *)(uintptr_t)(source + at) : target + at;
        add_piece(moves, (struct elastic_piece){
                             .peer = rank == from ? to : from,
                             .is_sent = rank == from,
                             .bytes = left < ELASTIC_PIECE_BYTES ? left : ELASTIC_PIECE_BYTES,
                             .at = place});
    }
}

static enum tutti_status set_out(struct trip *trip, const struct elastic_piece *piece,
                                 struct tutti_comm *comm)
{
    trip->piece = piece;
    if (!piece->is_sent) {
        TRY(tutti_recv_start(piece->at, piece->bytes, TUTTI_UINT8, piece->peer, TAG_DATA, NULL,
                             NULL, comm, &trip->data));
        return tutti_recv_start(&trip->checksum, 1, TUTTI_UINT32, piece->peer, TAG_CHECKSUM, NULL,
                                NULL, comm, &trip->check);
    }
    trip->checksum = crc32c(0, piece->at, piece->bytes);
    TRY(tutti_send_start(piece->at, piece->bytes, TUTTI_UINT8, piece->peer, TAG_DATA, NULL, comm,
                         &trip->data));
    return tutti_send_start(&trip->checksum, 1, TUTTI_UINT32, piece->peer, TAG_CHECKSUM, NULL, comm,
                            &trip->check);
}

/* Both messages are over in any case. */
static enum tutti_status end_trip(struct trip *trip, struct elastic_moves *moves)
{
    const struct elastic_piece *const piece = trip->piece;
    enum tutti_status status = TUTTI_OK;
    if (trip->data != NULL) status = tutti_wait(&trip->data);
    if (trip->check != NULL) {
        char message[ERROR_TEXT_MAX];
        error_copy(message, sizeof message);
        const enum tutti_status second = tutti_wait(&trip->check);
        status = status == TUTTI_OK ? second : error_set(status, "%s", message);
    }
    trip->piece = NULL;
    if (status != TUTTI_OK || piece->is_sent) return status;
    moves->received_bytes += piece->bytes;
    if (crc32c(0, piece->at, piece->bytes) != trip->checksum)
        return error_set(TUTTI_CORRUPT,
                         "tutti_elastic_begin: a piece of state from rank %d arrived changed",
                         piece->peer);
    return TUTTI_OK;
}

/* A checksum that is wrong ends nothing before the end: the other ranks count on this one. */
static void note(enum tutti_status status, enum tutti_status *first, char message[ERROR_TEXT_MAX])
{
    if (status == TUTTI_OK || (*first != TUTTI_OK && *first != TUTTI_CORRUPT)) return;
    *first = status;
    error_copy(message, ERROR_TEXT_MAX);
}

enum tutti_status elastic_moves_run(struct elastic_moves *moves, struct tutti_comm *comm)
{
    struct trip trips[ON_THE_WAY] = {{0}};
    enum tutti_status first = TUTTI_OK;
    char message[ERROR_TEXT_MAX] = "";
    if (moves->is_short)
        return error_set(TUTTI_NO_MEMORY, "tutti_elastic_begin: no memory for the list of pieces");
    for (size_t i = 0; i < moves->count + ON_THE_WAY; i++) {
        struct trip *const trip = &trips[i % ON_THE_WAY];
        if (trip->piece != NULL) note(end_trip(trip, moves), &first, message);
        if (i >= moves->count || (first != TUTTI_OK && first != TUTTI_CORRUPT)) continue;
        note(set_out(trip, &moves->pieces[i], comm), &first, message);
    }
    return first == TUTTI_OK ? TUTTI_OK : error_set(first, "%s", message);
}

void elastic_moves_release(struct elastic_moves *moves)
{
    free(moves->pieces);
    *moves = (struct elastic_moves){0};
}
