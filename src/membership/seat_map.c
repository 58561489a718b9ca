#include "membership/seat_map.h"

#include <stdlib.h>

bool seat_map_init(struct seat_map *map, int server_count, int copy_count, int spare_count)
{
    const int seats = server_count * (copy_count + spare_count);
    *map = (struct seat_map){server_count, seats, calloc((size_t)seats, sizeof *map->seats)};
    for (int s = 0; s < seats && map->seats != NULL; s++) {
        const int share = seat_first_share(server_count, copy_count, s);
        map->seats[s] = (struct seat){share, share < 0 ? SEAT_SPARE : SEAT_FULL};
    }
    return map->seats != NULL;
}

void seat_map_release(struct seat_map *map)
{
    free(map->seats);
    *map = (struct seat_map){0};
}

bool seat_map_move(struct seat_map *map, int seat, enum seat_state state, int share)
{
    if (seat < 0 || seat >= map->seat_count || share < 0 || share >= map->server_count)
        return false;
    struct seat *const of = &map->seats[seat];
    const bool is_next =
        state == SEAT_OUT ? of->state != SEAT_OUT : state != SEAT_SPARE && state == of->state + 1;
    if (!is_next || (of->share >= 0 && of->share != share)) return false;
    *of = (struct seat){share, state};
    return true;
}

int seat_map_full(const struct seat_map *map, int share, int but)
{
    for (int s = 0; s < map->seat_count; s++)
        if (s != but && map->seats[s].share == share && map->seats[s].state == SEAT_FULL) return s;
    return -1;
}

int seat_map_unbacked(const struct seat_map *map)
{
    int count = 0;
    for (int share = 0; share < map->server_count; share++) {
        const int first = seat_map_full(map, share, -1);
        count += first >= 0 && seat_map_full(map, share, first) < 0;
    }
    return count;
}

/* Seats that a server has; a server with one of that share has too many. */
static int load_of(const struct seat_map *map, int server, int share)
{
    int count = 0;
    for (int s = 0; s < map->seat_count; s++) {
        if (seat_map_server(map, s) != server || !seat_map_hears(map, s)) continue;
        count += map->seats[s].share == share ? map->seat_count : 1;
    }
    return count;
}

int seat_map_choose(const struct seat_map *map, int share)
{
    int best = -1, least = map->seat_count;
    for (int s = 0; s < map->seat_count; s++) {
        const int load = load_of(map, seat_map_server(map, s), share);
        if (map->seats[s].state != SEAT_SPARE || load >= least) continue;
        best = s;
        least = load;
    }
    return best;
}

/* Whether a seat is about to get the share. */
static bool is_awaited(const struct seat_map *map, int share)
{
    for (int s = 0; s < map->seat_count; s++) {
        const struct seat *const seat = &map->seats[s];
        if ((seat->state == SEAT_INVITED || seat->state == SEAT_JOINED) && seat->share == share)
            return true;
    }
    return false;
}

int seat_map_stay_alone(const struct seat_map *map)
{
    int count = 0;
    for (int share = 0; share < map->server_count; share++) {
        const int first = seat_map_full(map, share, -1);
        count += first >= 0 && seat_map_full(map, share, first) < 0 && !is_awaited(map, share) &&
                 seat_map_choose(map, share) < 0;
    }
    return count;
}
