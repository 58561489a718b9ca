/* elastic_move.h - pieces of state from rank to rank, each with a checksum.
 *
 * All ranks go through the same list of pieces in the same order, and each keeps those that it sends
 * or receives. It has few of them on the way at once, the oldest first. The oldest piece of all that
 * is not done is the oldest of both its ranks, so there is always a piece that moves.
 */
#ifndef TUTTI_TRAIN_ELASTIC_MOVE_H
#define TUTTI_TRAIN_ELASTIC_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum { ELASTIC_PIECE_BYTES = 1 << 20 };

struct elastic_piece {
    int peer;
    bool is_sent;
    size_t bytes; /* at most ELASTIC_PIECE_BYTES */
    char *at;
};

/* Zeroed at first. */
struct elastic_moves {
    struct elastic_piece *pieces;
    size_t count, room;
    bool is_short; /* of memory: a piece is missing */
    uint64_t received_bytes;
};

/* Adds what lies between two ranks, cut into pieces, if `rank` is one of them: `from` has it at
 * `source`, and `to` gets it at `target`. Between a rank and itself it is copied at once. */
void elastic_moves_add(struct elastic_moves *moves, int rank, int from, int to, const char *source,
                       char *target, size_t bytes);
/* Moves all pieces. CORRUPT: a checksum was wrong; the message names the rank that sent the piece.
 * NO_MEMORY, or a status of a message. Then other ranks may still be at it. */
enum tutti_status elastic_moves_run(struct elastic_moves *moves, struct tutti_comm *comm);
void elastic_moves_release(struct elastic_moves *moves);

#endif
