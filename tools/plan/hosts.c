#include "hosts.h"

#include <stdlib.h>
#include <string.h>

static const char OUT_OF_MEMORY[] = "out of memory";

/* Sizes of groups, one behind the other. */
struct sizes {
    int *of;
    int count, total;
};

/* A number from 1 to PLAN_RANKS_MAX; 0 when it is none. */
static int read_size(const char **text)
{
    int size = 0;
    if (**text == '0') return 0;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        size = size * 10 + (**text - '0');
        if (size > PLAN_RANKS_MAX) return 0;
    }
    return size;
}

/* "2" or "4x2" */
static bool read_sizes_of_one_kind(const char **text, struct sizes *sizes)
{
    int count = 1, size = read_size(text);
    if (size > 0 && **text == 'x') {
        (*text)++;
        count = size;
        size = read_size(text);
    }
    if (size == 0 || size > (PLAN_RANKS_MAX - sizes->total) / count) return false;
    for (int i = 0; i < count; i++) sizes->of[sizes->count++] = size;
    sizes->total += size * count;
    return true;
}

/* NULL when all is well. */
static const char *read_sizes(const char *text, struct sizes *sizes, const char *wrong)
{
    *sizes = (struct sizes){.of = malloc(sizeof *sizes->of * PLAN_RANKS_MAX)};
    if (sizes->of == NULL) return OUT_OF_MEMORY;
    for (bool more = true; more; text += more) {
        if (!read_sizes_of_one_kind(&text, sizes) || (*text != ',' && *text != '\0')) {
            free(sizes->of);
            sizes->of = NULL;
            return wrong;
        }
        more = *text == ',';
    }
    return NULL;
}

/* The group of each of `total` members, group after group. */
static void deal_in_order(const struct sizes *sizes, int *group_of)
{
    for (int group = 0, next = 0; group < sizes->count; group++)
        for (int i = 0; i < sizes->of[group]; i++) group_of[next++] = group;
}

/* One to each group that has room, again and again. */
static void deal_in_turns(const struct sizes *sizes, int *group_of)
{
    int next = 0;
    for (int turn = 0; next < sizes->total; turn++)
        for (int group = 0; group < sizes->count; group++)
            if (turn < sizes->of[group]) group_of[next++] = group;
}

static bool add_racks(struct hosts *hosts, const struct sizes *racks, bool in_turns)
{
    int *rack_of_host = malloc(sizeof *rack_of_host * (size_t)racks->total);
    hosts->rack_of = malloc(sizeof *hosts->rack_of * (size_t)hosts->rank_count);
    const bool memory = rack_of_host != NULL && hosts->rack_of != NULL;
    if (memory) {
        (in_turns ? deal_in_turns : deal_in_order)(racks, rack_of_host);
        for (int r = 0; r < hosts->rank_count; r++)
            hosts->rack_of[r] = rack_of_host[hosts->host_of[r]];
        hosts->levels.group_of[hosts->levels.level_count++] = hosts->rack_of;
    }
    free(rack_of_host);
    return memory;
}

/* Racks of no size at all are none. */
static bool make(struct hosts *hosts, const struct sizes *sizes, const struct sizes *racks,
                 struct hosts_dealing dealing)
{
    *hosts = (struct hosts){.rank_count = sizes->total};
    hosts->host_of = malloc(sizeof *hosts->host_of * (size_t)sizes->total);
    if (hosts->host_of == NULL) return false;
    (dealing.ranks_in_turns ? deal_in_turns : deal_in_order)(sizes, hosts->host_of);
    hosts->levels = (struct algo_levels){.level_count = 1, .group_of = {hosts->host_of}};
    if (racks->count == 0 || add_racks(hosts, racks, dealing.hosts_in_turns)) return true;
    hosts_release(hosts);
    return false;
}

bool hosts_parse(struct hosts *hosts, const char *host_sizes, const char *rack_sizes,
                 struct hosts_dealing dealing, const char **why)
{
    struct sizes sizes, racks = {0};
    *why = read_sizes(host_sizes, &sizes, "hosts are no list of numbers of ranks, as 4x2 or 2,1,5");
    if (*why != NULL) return false;
    if (rack_sizes != NULL)
        *why =
            read_sizes(rack_sizes, &racks, "racks are no list of numbers of hosts, as 2x2 or 2,1");
    if (*why == NULL && rack_sizes != NULL && racks.total != sizes.count)
        *why = "--racks has another number of hosts in all than --hosts";
    if (*why == NULL && !make(hosts, &sizes, &racks, dealing)) *why = OUT_OF_MEMORY;
    free(sizes.of);
    free(racks.of);
    return *why == NULL;
}

/* Groups of those sizes in turn, the last one of what is left. */
static bool generate_sizes(struct sizes *sizes, int total, const int *pattern, int pattern_count)
{
    *sizes = (struct sizes){.of = malloc(sizeof *sizes->of * (size_t)total), .total = total};
    for (int left = total; sizes->of != NULL && left > 0; sizes->count++) {
        const int wanted = pattern[sizes->count % pattern_count];
        sizes->of[sizes->count] = wanted < left ? wanted : left;
        left -= sizes->of[sizes->count];
    }
    return sizes->of != NULL;
}

bool hosts_generate(struct hosts *hosts, int rank_count, bool interleaved)
{
    static const int of_hosts[] = {3, 1, 2}, of_racks[] = {2, 1};
    struct sizes sizes, racks = {0};
    const bool made =
        generate_sizes(&sizes, rank_count, of_hosts, 3) &&
        generate_sizes(&racks, sizes.count, of_racks, 2) &&
        make(hosts, &sizes, &racks, (struct hosts_dealing){.ranks_in_turns = interleaved});
    free(sizes.of);
    free(racks.of);
    return made;
}

void hosts_release(struct hosts *hosts)
{
    free(hosts->host_of);
    free(hosts->rack_of);
    *hosts = (struct hosts){0};
}
