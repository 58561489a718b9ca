/* player.h - a plan as a page that plays it: how the chunks move, round by round, and what every
 * rank holds.
 *
 * The page is one file that asks for nothing else (player.html). Its data is JSON, from the plan's
 * abstract run (rounds.h):
 *
 *     {"title": "ring allreduce of 3 ranks", "collective": "allreduce", "algorithm": "ring",
 *      "ranks": 3, "root": null, "parts": 3, "cells": 3,          cells of a rank, see contents.h
 *      "reduces": true, "in_place": false, "ports": 1, "rounds": 4,
 *      "hosts": [0, 0, 1],                                        of each rank, or null: not known
 *      "proof": {"proven": true, "text": "..."},                  or null: nobody asked
 *      "busiest": 1.33333, "least": 1.33333,                      blocks that the busiest rank sends or receives, and the
 *                                                                 fewest that any plan needs; null
 *                                                                 in a barrier
 *      "inputs": [[0, 1, 2], ...], "outputs": ..., "scratch": ... the classes of each rank's chunks
 *      "values": [[2, 4, 6], ...],                                example values of each rank's inputs, or null
 *      "sets": ["1", "2", "3", ...],                              sets of ranks, as hexadecimal bits: bit 0 is rank 0
 *      "steps": [[round, rank, "recv_reduce", "0.2: from 2 + in[1] -> out[1]", buffer, first,
 *      [class, set, ...]], ...]
 *                                                                 buffer: 0 input, 1 output, 2
 *                                                                 scratch, -1: stores nothing
 *      "messages": [[round, from, to, sending step, taking step], ...]   taking step -1: nobody takes it
 *      "frames": [[rank, cell, class, set, ...], ...]}            cells that change: at the start, then in each round
 *
 * Steps come in an order in which they can run. A step in round 0 needs no message; it is shown
 * with round 1. A page of a plan without messages has one round for that.
 */
#ifndef TUTTI_STUDIO_PLAN_PLAYER_H
#define TUTTI_STUDIO_PLAN_PLAYER_H

#include <stdbool.h>
#include <stdio.h>

#include "plan/plan.h"
#include "studio/plan/rounds.h"
#include "tutti/tutti.h"

/* The most that a page shows: a browser still steps through it at once. */
enum {
    PLAYER_RANKS_MAX = ROUNDS_RANKS_MAX,
    PLAYER_CELLS_MAX = 8192, /* of all ranks */
    PLAYER_STEPS_MAX = ROUNDS_STEPS_MAX,
    PLAYER_MESSAGES_MAX = 20000
};

struct player_options {
    struct rounds_options rounds;
    const char *title;     /* UTF-8; or NULL: what the plan is */
    const char *algorithm; /* or NULL: not known */
    const int *host_of;    /* of each rank, or NULL: not known */
    const char *proof;     /* what a proof of the plan said, or NULL */
    bool is_proven;
};

/* Whether the plan is as small as a page demands of it, before its run. UNSUPPORTED: it is not;
 * message says what the limit is. */
enum tutti_status plan_check_player(const struct plan *plan, char *message, size_t message_bytes);
/* Writes the page. On failure nothing is written, and message (message_bytes long) says why:
 * UNSUPPORTED: too large, with the limit; INVALID_ALGORITHM: it comes to a halt; NO_MEMORY. Foreign
 * texts come out as texts. Any thread. */
enum tutti_status plan_write_player(const struct plan *plan, const struct player_options *options,
                                    FILE *file, char *message, size_t message_bytes);

#endif
