#include "topo/probe.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

/* ------------------------------------------------------------------------------------- schedule */

int probe_round_count(int host_count)
{
    return host_count < 2 ? 0 : host_count - 1 + host_count % 2;
}

int probe_tournament_count(int host_count, int tournaments_max, int rounds_max)
{
    const int rounds = probe_round_count(host_count);
    int count = 1;
    while (count < tournaments_max && (count + 1) * rounds <= rounds_max) count++;
    return count;
}

void probe_order(int host_count, int tournament, int *order)
{
    uint64_t random = (uint64_t)tournament * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < host_count; i++) order[i] = i;
    for (int i = host_count - 1; i > 0 && tournament > 0; i--) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const int other = (int)((random >> 33) % (uint64_t)(i + 1));
        const int kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

int probe_partner(const int *order, int host_count, int round, int host)
{
    const int rounds = probe_round_count(host_count); /* odd: as many places as move on */
    int place = 0;
    while (place < host_count && order[place] != host) place++;
    assert(place < host_count && round >= 0 && round < rounds);
    /* Places 0 to rounds - 1 move, the last one stays (nobody's with an odd number): two that move
     * meet when their sum is twice the round, and who would meet itself meets the one that
     * stays. */
    int other = (2 * round + rounds - place) % rounds;
    if (place == rounds)
        other = round;
    else if (other == place)
        other = rounds;
    return other < host_count ? order[other] : -1;
}

/* ----------------------------------------------------------------------------------- clustering */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median over the hosts of what each has in common with the host that is most like it. */
static double usual_likeness(const double *likeness, int count, double *best)
{
    for (int i = 0; i < count; i++) {
        best[i] = 0;
        for (int j = 0; j < count; j++) {
            const double here = likeness[(size_t)i * (size_t)count + (size_t)j];
            if (i != j && here > best[i]) best[i] = here;
        }
    }
    qsort(best, (size_t)count, sizeof *best, ascending);
    return best[count / 2];
}

/* Average linkage keeps means between groups: of a and b together to others, weighted by their
 * sizes. A group has the number of its first host. */
static void merge(double *mean, int *size, int *group_of, int count, int a, int b)
{
    const size_t stride = (size_t)count;
    for (int other = 0; other < count; other++) {
        if (size[other] == 0 || other == a || other == b) continue;
        const double joint = (mean[(size_t)a * stride + (size_t)other] * size[a] +
                              mean[(size_t)b * stride + (size_t)other] * size[b]) /
                             (size[a] + size[b]);
        mean[(size_t)a * stride + (size_t)other] = mean[(size_t)other * stride + (size_t)a] = joint;
    }
    size[a] += size[b];
    size[b] = 0;
    for (int i = 0; i < count; i++)
        if (group_of[i] == b) group_of[i] = a;
}

static double find_closest(const double *mean, const int *size, int count, int *a, int *b)
{
    double best = 0;
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count && size[i] > 0; j++) {
            const double here = mean[(size_t)i * (size_t)count + (size_t)j];
            if (size[j] == 0 || here <= best) continue;
            best = here;
            *a = i;
            *b = j;
        }
    return best;
}

/* Numbers groups by their first hosts; size is overwritten. */
static int renumber(int *group_of, int *size, int count)
{
    int groups = 0;
    for (int i = 0; i < count; i++) {
        if (group_of[i] == i) size[i] = groups++;
        group_of[i] = size[group_of[i]];
    }
    return groups;
}

int probe_cluster(const double *likeness, int host_count, double part, int *group_of)
{
    const size_t count = (size_t)host_count;
    double *const mean = malloc(count * count * sizeof *mean);
    double *const best = malloc(count * sizeof *best);
    int *const size = malloc(count * sizeof *size);
    int groups = -1;
    if (mean != NULL && best != NULL && size != NULL) {
        const double least = part * usual_likeness(likeness, host_count, best);
        for (size_t i = 0; i < count * count; i++) mean[i] = likeness[i];
        for (int i = 0; i < host_count; i++) size[i] = 1, group_of[i] = i;
        for (int a, b;;) {
            const double closest = find_closest(mean, size, host_count, &a, &b);
            if (closest <= 0 || closest < least) break;
            merge(mean, size, group_of, host_count, a, b);
        }
        groups = renumber(group_of, size, host_count);
    }
    free(mean);
    free(best);
    free(size);
    return groups;
}

static bool tells_apart(int groups, int host_count)
{
    return groups > 1 && groups < host_count;
}

int probe_racks(const struct probe *probe, int *rack_of)
{
    /* A pair that shares its path with one other at each time gets half; noise takes less than a
     * quarter. A switch more takes at least half of the time again. */
    const double rate_part = 0.75, latency_part = 1 / 1.5;
    const int count = probe->host_count;
    const size_t cells = (size_t)count * (size_t)count;
    double *const likeness = malloc(cells * sizeof *likeness);
    if (likeness == NULL) return -1;
    for (size_t i = 0; i < cells; i++) {
        likeness[i] = 0;
        for (int t = 0; t < probe->tournament_count; t++)
            likeness[i] += probe->bytes_per_second[(size_t)t * cells + i];
    }
    int racks = probe_cluster(likeness, count, rate_part, rack_of);
    if (racks >= 0 && !tells_apart(racks, count) && probe->latency_ns != NULL) {
        for (size_t i = 0; i < cells; i++)
            likeness[i] = probe->latency_ns[i] > 0 ? 1 / probe->latency_ns[i] : 0;
        racks = probe_cluster(likeness, count, latency_part, rack_of);
    }
    free(likeness);
    if (racks < 0 || tells_apart(racks, count)) return racks;
    for (int i = 0; i < count; i++) rack_of[i] = 0;
    return 1;
}

/* -------------------------------------------------------------------------------------- uplinks */

static double rate_of(const struct probe *probe, int tournament, int a, int b)
{
    const size_t count = (size_t)probe->host_count;
    return probe->bytes_per_second[((size_t)tournament * count + (size_t)a) * count + (size_t)b];
}

static double best_rate(const struct probe *probe, int host)
{
    double best = 0;
    for (int t = 0; t < probe->tournament_count; t++)
        for (int other = 0; other < probe->host_count; other++) {
            const double rate = other == host ? 0 : rate_of(probe, t, host, other);
            if (rate > best) best = rate;
        }
    return best;
}

/* How many pairs crossed a rack's border in a round; adds what they got, in each direction, to
 * *sum. 0: none, or of one it is not known. */
static int add_crossing(const struct probe *probe, const int *rack_of, int rack, int tournament,
                        const int *order, int round, double *sum)
{
    int pairs = 0;
    for (int host = 0; host < probe->host_count; host++) {
        const int other = probe_partner(order, probe->host_count, round, host);
        if (rack_of[host] != rack || other < 0 || rack_of[other] == rack) continue;
        const double rate = rate_of(probe, tournament, host, other);
        if (rate == 0) return 0;
        *sum += rate;
        pairs++;
    }
    return pairs;
}

/* The rates of all pairs that crossed the uplink of a rack, summed up in each of the rounds in
 * which the most pairs crossed it. Nobody knows whether the pairs of other rounds, or of the best
 * of all rounds, fill the uplink. `rates` has room for one rate a round, `order` for all hosts.
 * Returns the number of rates. */
static int uplink_rates(const struct probe *probe, const int *rack_of, int rack, int *order,
                        double *rates)
{
    const int rounds = probe_round_count(probe->host_count);
    int most = 1, count = 0;
    for (int t = 0; t < probe->tournament_count; t++) {
        probe_order(probe->host_count, t, order);
        for (int round = 0; round < rounds; round++) {
            double rate = 0;
            const int pairs = add_crossing(probe, rack_of, rack, t, order, round, &rate);
            if (pairs < most) continue;
            if (pairs > most) count = 0;
            most = pairs;
            rates[count++] = rate;
        }
    }
    return count;
}

/* ---------------------------------------------------------------------------------------- links */

struct samples {
    double *values;
    int count;
};

static struct probe_figure figure_of(struct samples *samples)
{
    const int count = samples->count;
    samples->count = 0;
    if (count == 0) return (struct probe_figure){.count = 0};
    double *const values = samples->values;
    qsort(values, (size_t)count, sizeof *values, ascending);
    return (struct probe_figure){count, values[0], values[count / 2], values[(3 * count) / 4]};
}

static void add_rates(struct samples *samples, const double *rates, int count)
{
    for (int i = 0; i < count; i++)
        if (rates[i] > 0) samples->values[samples->count++] = 1e9 / rates[i];
}

static struct probe_figure host_byte(const struct probe *probe, const int *rack_of,
                                     struct samples *samples)
{
    for (int t = 0; t < probe->tournament_count; t++)
        for (int a = 0; a < probe->host_count; a++)
            for (int b = a + 1; b < probe->host_count; b++) {
                const double rate = rate_of(probe, t, a, b);
                if (rack_of[a] == rack_of[b]) add_rates(samples, &rate, 1);
            }
    return figure_of(samples);
}

static struct probe_figure latency(const struct probe *probe, const int *rack_of, bool across,
                                   struct samples *samples)
{
    const size_t count = (size_t)probe->host_count;
    for (size_t a = 0; a < count && probe->latency_ns != NULL; a++)
        for (size_t b = a + 1; b < count; b++) {
            const double here = probe->latency_ns[a * count + b];
            if ((rack_of[a] != rack_of[b]) == across && here > 0)
                samples->values[samples->count++] = here;
        }
    return figure_of(samples);
}

enum tutti_status probe_links_find(const struct probe *probe, const int *rack_of, int rack_count,
                                   struct probe_links *links)
{
    const size_t hosts = (size_t)probe->host_count,
                 rounds = (size_t)(probe_round_count(probe->host_count) * probe->tournament_count);
    /* At most one sample a round for each rack, and for each pair. */
    struct samples samples = {calloc(hosts * (rounds + hosts) + 1, sizeof(double)), 0};
    double *const rates = calloc(rounds + 1, sizeof *rates);
    int *const order = calloc(hosts, sizeof *order);
    const bool has_memory = samples.values != NULL && rates != NULL && order != NULL;
    *links = (struct probe_links){.rack_ns = {.count = 0}};
    if (has_memory) {
        links->host_byte_ns = host_byte(probe, rack_of, &samples);
        links->rack_ns = latency(probe, rack_of, false, &samples);
        links->cluster_ns = latency(probe, rack_of, true, &samples);
        for (int rack = 0; rack < rack_count && rack_count > 1; rack++)
            add_rates(&samples, rates, uplink_rates(probe, rack_of, rack, order, rates));
        links->uplink_byte_ns = figure_of(&samples);
    }
    free(samples.values);
    free(rates);
    free(order);
    return has_memory ? TUTTI_OK : error_set(TUTTI_NO_MEMORY, "what links carry: out of memory");
}

/* ------------------------------------------------------------------------------------- topology */

/* Half of the least latency between hosts of one rack, or of different ones; 0: there are none. */
static double least_latency(const struct probe *probe, const int *rack_of, bool across)
{
    double least = 0;
    for (int a = 0; a < probe->host_count; a++)
        for (int b = 0; b < a; b++) {
            const double here = probe->latency_ns[(size_t)a * (size_t)probe->host_count + (size_t)b];
            if ((rack_of[a] != rack_of[b]) == across && (least == 0 || here < least)) least = here;
        }
    return least;
}

static struct topo_node named(enum topo_kind kind, int parent, const char *name)
{
    struct topo_node node = {.kind = kind, .parent = parent, .number = -1};
    topo_set_text(node.name, sizeof node.name, name);
    return node;
}

struct growing {
    const struct probe *probe;
    const int *rack_of;
    const char *const *host_names;
    const int *host_of_rank;
    int rank_count;
    double host_latency_ns, uplink_latency_ns;
    int spine; /* node, or -1 */
    int *order;
    double *rates; /* room for one of each round */
    struct topo *topo;
};

static double uplink_rate(const struct growing *growing, int rack)
{
    const int count =
        uplink_rates(growing->probe, growing->rack_of, rack, growing->order, growing->rates);
    double sum = 0;
    for (int i = 0; i < count; i++) sum += growing->rates[i];
    return count > 0 ? sum / count : 0;
}

static enum tutti_status join(const struct growing *growing, int a, int b, double rate, double ns)
{
    const struct topo_link link = {{a, b}, rate, ns, TOPO_MEASURED};
    return topo_add_link(growing->topo, &link);
}

static enum tutti_status add_host(const struct growing *growing, int rack, int leaf, int host)
{
    int machine, nic;
    struct topo_node node = named(TOPO_MACHINE, rack, growing->host_names[host]);
    TRY(topo_add_node(growing->topo, &node, &machine));
    node = named(TOPO_NIC, machine, "");
    TRY(topo_add_node(growing->topo, &node, &nic));
    TRY(join(growing, nic, leaf, best_rate(growing->probe, host), growing->host_latency_ns));
    for (int rank = 0; rank < growing->rank_count; rank++) {
        if (growing->host_of_rank[rank] != host) continue;
        node = (struct topo_node){.kind = TOPO_RANK, .parent = machine, .number = rank};
        TRY(topo_add_node(growing->topo, &node, NULL));
    }
    return TUTTI_OK;
}

static enum tutti_status add_rack(const struct growing *growing, int number)
{
    char name[16];
    int rack, leaf;
    snprintf(name, sizeof name, "rack%d", number);
    struct topo_node node = named(TOPO_RACK, 0, name);
    TRY(topo_add_node(growing->topo, &node, &rack));
    node = named(TOPO_SWITCH, rack, "leaf");
    TRY(topo_add_node(growing->topo, &node, &leaf));
    if (growing->spine >= 0)
        TRY(join(growing, leaf, growing->spine, uplink_rate(growing, number),
                 growing->uplink_latency_ns));
    for (int host = 0; host < growing->probe->host_count; host++)
        if (growing->rack_of[host] == number) TRY(add_host(growing, rack, leaf, host));
    return TUTTI_OK;
}

static enum tutti_status add_all(struct growing *growing, int rack_count)
{
    struct topo_node node = named(TOPO_CLUSTER, -1, "");
    TRY(topo_add_node(growing->topo, &node, NULL));
    node = named(TOPO_SWITCH, 0, "spine");
    if (rack_count > 1) TRY(topo_add_node(growing->topo, &node, &growing->spine));
    for (int rack = 0; rack < rack_count; rack++) TRY(add_rack(growing, rack));
    return TUTTI_OK;
}

enum tutti_status probe_topo(const struct probe *probe, const int *rack_of, int rack_count,
                             const char *const *host_names, const int *host_of_rank, int rank_count,
                             struct topo *topo)
{
    *topo = (struct topo){0};
    struct growing growing = {
        .probe = probe,
        .rack_of = rack_of,
        .host_names = host_names,
        .host_of_rank = host_of_rank,
        .rank_count = rank_count,
        .host_latency_ns = least_latency(probe, rack_of, false) / 2,
        .spine = -1,
        .order = calloc((size_t)probe->host_count, sizeof(int)),
        .rates = calloc((size_t)(probe_round_count(probe->host_count) * probe->tournament_count) + 1,
                        sizeof(double)),
        .topo = topo};
    /* The uplinks account for the time that a path between racks takes longer than a path within a
     * rack. */
    const double across_ns = least_latency(probe, rack_of, true) / 2 - growing.host_latency_ns;
    growing.uplink_latency_ns = across_ns > 0 ? across_ns : 0;
    const bool has_memory = growing.order != NULL && growing.rates != NULL;
    const enum tutti_status status =
        has_memory ? add_all(&growing, rack_count) : error_set(TUTTI_NO_MEMORY, "out of memory");
    free(growing.order);
    free(growing.rates);
    if (status != TUTTI_OK) topo_release(topo);
    return status;
}
