/* seat_map.h - which seat of a parameter server has which share of the tables: pure, and alike on all
 * seats, since each follows the same entries (step_leader.h).
 *
 *     seats 0 to n - 1        server s has share s
 *     seats n to 2n - 1       and, with backups, the share before it
 *     seats from 2n on        spares: seat 2n + k n + s is the k-th one of server s, and has no share
 *
 *     SPARE ──► INVITED ──► JOINED ──► FULL          a spare gets a share whose other seat is gone:
 *                 │           │          │            INVITED   workers begin to push to it, each between
 *                 └───────────┴──────────┴──► OUT                two of its clocks
 *                                                     JOINED    each later step has its updates there, and
 *                                                               the FULL seat of the share copies to it
 *                                                     FULL      it has all: either seat may die now
 *
 * Invariants
 *   1. A seat has one share in its whole life, and never goes back in this picture.
 *   2. A share has at most one seat that is INVITED or JOINED, and no two seats on one server.
 */
#ifndef TUTTI_MEMBERSHIP_SEAT_MAP_H
#define TUTTI_MEMBERSHIP_SEAT_MAP_H

#include <stdbool.h>
#include <stdint.h>

enum seat_state { SEAT_SPARE, SEAT_INVITED, SEAT_JOINED, SEAT_FULL, SEAT_OUT };

struct seat {
    int share; /* -1: none yet */
    enum seat_state state;
};

struct seat_map {
    int server_count; /* as many as shares */
    int seat_count;
    struct seat *seats;
};

/* The server that a seat is on: a backup is on the one behind that of its share. */
static inline int seat_server(int server_count, int seat)
{
    const bool is_backup = seat >= server_count && seat < 2 * server_count;
    return (seat + is_backup) % server_count;
}
static inline int seat_map_server(const struct seat_map *map, int seat)
{
    return seat_server(map->server_count, seat);
}
/* The share that a seat begins with; -1: none. copy_count: 1, or 2 with backups. */
static inline int seat_first_share(int server_count, int copy_count, int seat)
{
    return seat < server_count * copy_count ? seat % server_count : -1;
}

/* False: no memory; it is to be released in any case. */
bool seat_map_init(struct seat_map *map, int server_count, int copy_count, int spare_count);
void seat_map_release(struct seat_map *map);
/* A seat is in another state now. False: it cannot come there. */
bool seat_map_move(struct seat_map *map, int seat, enum seat_state state, int share);
/* Whether it has entries of the list told to it. */
static inline bool seat_map_hears(const struct seat_map *map, int seat)
{
    const enum seat_state state = map->seats[seat].state;
    return state == SEAT_INVITED || state == SEAT_JOINED || state == SEAT_FULL;
}
/* Whether each later step needs its updates. */
static inline bool seat_map_counts(const struct seat_map *map, int seat)
{
    return map->seats[seat].state == SEAT_JOINED || map->seats[seat].state == SEAT_FULL;
}
/* Whether it hears entries, and has the share with which the clock goes. */
static inline bool seat_map_has_clock(const struct seat_map *map, int seat)
{
    return seat_map_hears(map, seat) && map->seats[seat].share == 0;
}
/* The FULL seat of a share, other than `but`; -1: there is none. */
int seat_map_full(const struct seat_map *map, int share, int but);
/* Shares that have one FULL seat alone. */
int seat_map_unbacked(const struct seat_map *map);
/* The spare that is to get that share: on a server that has none of its seats, and has the fewest seats;
 * -1: there is none. */
int seat_map_choose(const struct seat_map *map, int share);
/* Shares that have one FULL seat alone, and get no other one: none is to get it, and there is no spare for
 * it. */
int seat_map_stay_alone(const struct seat_map *map);

#endif
