#include "tests/worlds/host_map.h"

#include <stdio.h>

static int count_of(const int *sizes)
{
    int count = 0;
    while (sizes[count] > 0) count++;
    return count;
}

/* The group that holds member i where groups have those sizes. */
static int group_at(const int *sizes, int i)
{
    int group = 0;
    while (i >= sizes[group]) i -= sizes[group++];
    return group;
}

static void deal_in_turns(int *host_of, const int *hosts, int rank_count)
{
    int left[HOST_MAP_UNITS_MAX], host = 0;
    const int count = count_of(hosts);
    for (int i = 0; i < count; i++) left[i] = hosts[i];
    for (int rank = 0; rank < rank_count; rank++, host = (host + 1) % count) {
        while (left[host] == 0) host = (host + 1) % count;
        left[host]--;
        host_of[rank] = host;
    }
}

static void shuffle(int *numbers, int count, uint32_t random)
{
    for (int i = count; i > 1; i--) {
        random = random * 1664525 + 1013904223;
        const int j = (int)((random >> 8) % (uint32_t)i), kept = numbers[i - 1];
        numbers[i - 1] = numbers[j];
        numbers[j] = kept;
    }
}

void host_map_init(struct host_map *map, const struct host_shape *shape, enum numbering numbering,
                   uint32_t seed)
{
    *map = (struct host_map){.levels = {.level_count = 1, .group_of = {map->host_of}}};
    for (int i = 0; shape->hosts[i] > 0; i++) map->rank_count += shape->hosts[i];
    for (int r = 0; r < map->rank_count; r++) map->host_of[r] = group_at(shape->hosts, r);
    if (numbering == INTERLEAVED) deal_in_turns(map->host_of, shape->hosts, map->rank_count);
    if (numbering == SHUFFLED) shuffle(map->host_of, map->rank_count, seed);
    if (shape->racks[0] > 0) map->levels.group_of[map->levels.level_count++] = map->rack_of;
    if (shape->rooms[0] > 0) map->levels.group_of[map->levels.level_count++] = map->room_of;
    for (int r = 0; r < map->rank_count; r++) {
        if (shape->racks[0] > 0) map->rack_of[r] = group_at(shape->racks, map->host_of[r]);
        if (shape->rooms[0] > 0) map->room_of[r] = group_at(shape->rooms, map->rack_of[r]);
    }
    for (int r = 0; r < map->rank_count; r++) map->host_of[r] = 1000 - 7 * map->host_of[r];
}

void host_map_init_mixed(struct host_map *map, int rank_count)
{
    *map = (struct host_map){.levels = {.level_count = 2, .group_of = {map->host_of, map->rack_of}},
                             .rank_count = rank_count};
    for (int r = 0; r < rank_count; r++) {
        const int of_six[] = {0, 0, 0, 1, 2, 2}, of_three[] = {0, 0, 1};
        map->host_of[r] = r / 6 * 3 + of_six[r % 6];
        map->rack_of[r] = map->host_of[r] / 3 * 2 + of_three[map->host_of[r] % 3];
    }
}

static int print_sizes(char *text, size_t size, const char *before, const int *sizes,
                       const char *behind)
{
    int length = snprintf(text, size, "%s", before);
    for (int i = 0; sizes[i] > 0 && (size_t)length < size; i++)
        length += snprintf(text + length, size - (size_t)length, "%s%d", i > 0 ? "+" : "", sizes[i]);
    if ((size_t)length < size)
        length += snprintf(text + length, size - (size_t)length, "%s", behind);
    return length;
}

const char *host_map_text(const struct host_shape *shape, enum numbering numbering)
{
    static const char *const numberings[] = {"contiguous", "interleaved", "shuffled"};
    static char text[400];
    size_t length = (size_t)print_sizes(text, sizeof text, "", shape->hosts, " ranks");
    if (shape->racks[0] > 0 && length < sizeof text)
        length += (size_t)print_sizes(text + length, sizeof text - length, ", racks of ",
                                      shape->racks, " hosts");
    if (shape->rooms[0] > 0 && length < sizeof text)
        length += (size_t)print_sizes(text + length, sizeof text - length, ", rooms of ",
                                      shape->rooms, " racks");
    if (length < sizeof text)
        snprintf(text + length, sizeof text - length, ", %s", numberings[numbering]);
    return text;
}
