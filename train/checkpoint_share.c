#include "checkpoint_share.h"

#include <stdlib.h>

#include "base/status.h"
#include "checkpoint_rest.h"

/* Pieces with fewer bytes are not cut. */
enum { CUT_BYTES_MIN = 1 << 16 };

struct holding {
    const struct piece *piece;
    size_t rank, index; /* in its table */
};

static int compare(const void *a, const void *b)
{
    const struct holding *const left = a, *const right = b;
    const int pieces = piece_compare(left->piece, right->piece);
    if (pieces != 0) return pieces;
    if (left->rank != right->rank) return left->rank < right->rank ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

/* All pieces, sorted; the caller frees them. */
static struct holding *sort(const struct table *tables, size_t rank_count, size_t *count)
{
    size_t all = 0, at = 0;
    for (size_t r = 0; r < rank_count; r++) all += tables[r].count;
    struct holding *const holdings = calloc(all + 1, sizeof *holdings);
    if (holdings == NULL) return NULL;
    for (size_t r = 0; r < rank_count; r++)
        for (size_t i = 0; i < tables[r].count; i++)
            holdings[at++] = (struct holding){&tables[r].pieces[i], r, i};
    qsort(holdings, all, sizeof *holdings, compare);
    *count = all;
    return holdings;
}

/* ----------------------------------------------------------------------------------- one tensor */

static enum tutti_status check_alike(const struct holding *first, const struct holding *other)
{
    char one[160], two[160];
    if (piece_is_alike(first->piece, other->piece)) return TUTTI_OK;
    piece_describe(first->piece, one, sizeof one);
    piece_describe(other->piece, two, sizeof two);
    return error_set(TUTTI_MISMATCH,
                     "tutti_checkpoints_save: tensor '%s' is %s on rank %zu, and %s on rank %zu",
                     first->piece->name, one, first->rank, two, other->rank);
}

/* rest: what is left of the tensor as the holdings are taken out. */
static enum tutti_status take_all(const struct holding *holdings, size_t count, struct rest *rest)
{
    const struct piece *const piece = holdings[0].piece;
    const struct box whole = box_whole(piece->box.dims, piece->shape);
    struct box common;
    TRY(rest_init(rest, piece->name, &whole, count));
    for (size_t i = 0; i < count; i++) {
        bool taken =
            i == 0 || box_compare(&holdings[i].piece->box, &holdings[i - 1].piece->box) != 0;
        rest_come(rest);
        while (taken) TRY(rest_take(rest, &holdings[i].piece->box, &common, &taken));
    }
    if (rest->count == 0) return TUTTI_OK;
    char missing[160];
    table_describe_box(&rest->boxes[0], missing, sizeof missing);
    return error_set(TUTTI_INVALID_OPTIONS,
                     "tutti_checkpoints_save: no rank has the elements %s of tensor '%s'", missing,
                     piece->name);
}

static enum tutti_status check_whole(const struct holding *holdings, size_t count)
{
    struct rest rest;
    const enum tutti_status status = take_all(holdings, count, &rest);
    rest_release(&rest);
    return status;
}

/* ---------------------------------------------------------------------------------------- ranks */

/* The part of a piece that holder `place` of its `count` holders writes. Small pieces go around, so
 * that no rank gets all of them. */
static struct share share_of(const struct piece *piece, size_t place, size_t count, size_t turn)
{
    const uint64_t elements = box_count(&piece->box);
    if (piece_bytes(piece) < CUT_BYTES_MIN)
        return (struct share){.count = turn % count == place ? elements : 0};
    const uint64_t share = elements / count, rest = elements % count;
    return (struct share){.begin = share * place + (place < rest ? place : rest),
                          .count = share + (place < rest)};
}

/* Finds the rank's share of one piece, among the holdings of that piece. A rank that names a piece
 * twice holds it once. */
static void share_piece(const struct holding *holdings, size_t count, size_t rank, size_t turn,
                        struct share *by_piece)
{
    size_t holders = 0, place = SIZE_MAX, index = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && holdings[i].rank == holdings[i - 1].rank) continue;
        if (holdings[i].rank == rank) {
            place = holders;
            index = holdings[i].index;
        }
        holders++;
    }
    if (place == SIZE_MAX) return;
    by_piece[index] = share_of(holdings[0].piece, place, holders, turn);
    by_piece[index].piece = index;
}

/* Finds the rank's shares of one tensor. */
static enum tutti_status share_tensor(const struct holding *holdings, size_t count, size_t rank,
                                      size_t *turn, struct share *by_piece)
{
    for (size_t i = 1; i < count; i++) TRY(check_alike(&holdings[0], &holdings[i]));
    TRY(check_whole(holdings, count));
    for (size_t i = 0, same; i < count; i += same) {
        for (same = 1; i + same < count; same++)
            if (box_compare(&holdings[i].piece->box, &holdings[i + same].piece->box) != 0) break;
        share_piece(&holdings[i], same, rank, (*turn)++, by_piece);
    }
    return TUTTI_OK;
}

static enum tutti_status share_all(const struct holding *holdings, size_t count, size_t rank,
                                   struct share *by_piece)
{
    size_t turn = 0;
    for (size_t i = 0, same; i < count; i += same) {
        for (same = 1; i + same < count; same++)
            if (!piece_is_namesake(holdings[i].piece, holdings[i + same].piece)) break;
        TRY(share_tensor(&holdings[i], same, rank, &turn, by_piece));
    }
    return TUTTI_OK;
}

enum tutti_status share_pieces(const struct table *tables, size_t rank_count, size_t rank,
                               struct share **shares, size_t *share_count)
{
    size_t count = 0;
    struct holding *const holdings = sort(tables, rank_count, &count);
    struct share *const by_piece = calloc(tables[rank].count + 1, sizeof *by_piece);
    const enum tutti_status status =
        holdings != NULL && by_piece != NULL
            ? share_all(holdings, count, rank, by_piece)
            : error_set(TUTTI_NO_MEMORY, "tutti_checkpoints_save: out of memory");
    free(holdings);
    *shares = NULL;
    *share_count = 0;
    if (status != TUTTI_OK) {
        free(by_piece);
        return status;
    }
    for (size_t i = 0; i < tables[rank].count; i++)
        if (by_piece[i].count > 0) by_piece[(*share_count)++] = by_piece[i];
    *shares = by_piece;
    return TUTTI_OK;
}
