#include "between.h"

#include "base/status.h"
#include "model/between.h"
#include "series.h"
#include "topo/probe.h"

/* The cost of a small message's path for its two ranks. */
static uint64_t path_ps(const struct calibration *calibration)
{
    const struct calibration_path *path = &calibration->paths[CALIBRATION_BETWEEN][PATH_INLINE];
    return path->values[CALIBRATION_PATH_sender_ps] + path->values[CALIBRATION_PATH_receiver_ps];
}

/* From one rack into another no more passes at once than the uplinks let through, and may be less
 * than they do: a card's burst hides theirs. */
static void store_bursts(const struct probe_result *result, struct calibration *calibration)
{
    series_store_least(result->rack_burst_bytes, result->rack_burst_bytes,
                       CALIBRATION_card_burst_bytes, calibration);
    if (result->rack_count > 1)
        series_store_least(result->cluster_burst_bytes, result->cluster_burst_bytes,
                           CALIBRATION_uplink_burst_bytes, calibration);
}

enum tutti_status measure_between(const struct probe_result *result, struct calibration *calibration)
{
    const struct probe probe = {result->host_count, result->tournament_count, result->latency_ns,
                                result->bytes_per_second};
    struct probe_links links;
    struct between between;
    TRY(probe_links_find(&probe, result->rack_of, result->rack_count, &links));
    between_set(&between, &links, path_ps(calibration));
    for (unsigned i = 0; i < BETWEEN_NUMBERS; i++)
        if (between.numbers[i].known == CALIBRATION_MEASURED)
            calibration->numbers[between_parameter(i)] = between.numbers[i];
    store_bursts(result, calibration);
    calibration->key.host_count = result->host_count;
    calibration->key.rank_count = result->rank_count;
    return TUTTI_OK;
}
