#include "tutti-topo_between.h"

#include <stdlib.h>

#include "base/status.h"
#include "tutti-topo_series.h"

/* Of pairs or links of a kind: any number, of which a parameter becomes the least or the middle one. */
struct costs {
    double *values;
    int count;
};

static void add(struct costs *costs, double value)
{
    costs->values[costs->count++] = value;
}

enum which { LEAST, MIDDLE };

static void store(struct costs *costs, enum which which, enum calibration_parameter parameter,
                  struct calibration *calibration)
{
    if (costs->count == 0) return;
    qsort(costs->values, (size_t)costs->count, sizeof *costs->values, series_compare);
    const double middle = costs->values[costs->count / 2];
    series_store_least(which == LEAST ? costs->values[0] : middle, middle, parameter, calibration);
    costs->count = 0;
}

/* From when a message leaves: a model adds what the way costs its ranks. */
static double latency_ps(const struct calibration *calibration, double one_way_ns)
{
    const struct calibration_way *way = &calibration->ways[CALIBRATION_BETWEEN][PATH_INLINE];
    return one_way_ns * 1e3 - (double)(way->values[CALIBRATION_WAY_sender_ps] +
                                       way->values[CALIBRATION_WAY_receiver_ps]);
}

static void store_latencies(const struct probe_result *result, bool is_rack, struct costs *costs,
                            struct calibration *calibration)
{
    const int count = result->host_count;
    for (int a = 0; a < count; a++)
        for (int b = a + 1; b < count; b++)
            if ((result->rack_of[a] == result->rack_of[b]) == is_rack)
                add(costs, latency_ps(calibration, result->latency_ns[a * count + b]));
    store(costs, LEAST, is_rack ? CALIBRATION_latency_rack_ps : CALIBRATION_latency_cluster_ps,
          calibration);
}

/* What pairs of a rack exchanged while all others did the same. The middle one: a round is short, so the fastest of many is luck. */
static void store_card_rate(const struct probe_result *result, struct costs *costs,
                            struct calibration *calibration)
{
    const int count = result->host_count;
    for (int a = 0; a < count; a++)
        for (int b = a + 1; b < count; b++)
            for (int t = 0; t < result->tournament_count; t++) {
                const double rate = result->bytes_per_second[(t * count + a) * count + b];
                if (result->rack_of[a] == result->rack_of[b] && rate > 0) add(costs, 1e15 / rate);
            }
    store(costs, MIDDLE, CALIBRATION_card_byte_fs, calibration);
}

/* From one rack into another no more passes at once than the uplinks let through, and may be less than they do: a card's burst hides theirs. */
static void store_bursts(const struct probe_result *result, struct costs *costs,
                         struct calibration *calibration)
{
    add(costs, result->rack_burst_bytes);
    store(costs, MIDDLE, CALIBRATION_card_burst_bytes, calibration);
    if (result->rack_count > 1) add(costs, result->cluster_burst_bytes);
    store(costs, MIDDLE, CALIBRATION_uplink_burst_bytes, calibration);
}

/* Of what joins switches. */
static void store_uplink_rate(const struct topo *topo, struct costs *costs,
                              struct calibration *calibration)
{
    for (int i = 0; i < topo->link_count; i++) {
        const struct topo_link *link = &topo->links[i];
        if (topo->nodes[link->ends[0]].kind != TOPO_NIC && link->bytes_per_second > 0)
            add(costs, 1e15 / link->bytes_per_second);
    }
    store(costs, MIDDLE, CALIBRATION_uplink_byte_fs, calibration);
}

enum tutti_status measure_between(const struct probe_result *result, struct calibration *calibration)
{
    const size_t pairs =
        (size_t)result->host_count * (size_t)result->host_count * (size_t)result->tournament_count;
    const size_t links = (size_t)result->topo.link_count;
    struct costs costs = {calloc(pairs > links ? pairs : links, sizeof *costs.values), 0};
    if (costs.values == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    store_latencies(result, true, &costs, calibration);
    store_latencies(result, false, &costs, calibration);
    store_card_rate(result, &costs, calibration);
    store_bursts(result, &costs, calibration);
    store_uplink_rate(&result->topo, &costs, calibration);
    calibration->key.host_count = result->host_count;
    calibration->key.rank_count = result->rank_count;
    free(costs.values);
    return TUTTI_OK;
}
