#include "model/between.h"

#include <assert.h>

enum calibration_parameter between_parameter(enum between_number number)
{
    static const enum calibration_parameter parameters[BETWEEN_NUMBERS] = {
        [BETWEEN_LATENCY_RACK] = CALIBRATION_latency_rack_ps,
        [BETWEEN_LATENCY_CLUSTER] = CALIBRATION_latency_cluster_ps,
        [BETWEEN_CARD_BYTE] = CALIBRATION_card_byte_fs,
        [BETWEEN_UPLINK_BYTE] = CALIBRATION_uplink_byte_fs};
    assert(number < BETWEEN_NUMBERS);
    return parameters[number];
}

static struct calibration_number measured(enum between_number number,
                                          const struct probe_figure *figure, double value,
                                          double typical)
{
    const struct calibration_info *const info = calibration_info(between_parameter(number));
    double whole = value + 0.5, spread = value > 0 ? (typical / value - 1) * 1000 : 0;
    if (figure->count == 0) return (struct calibration_number){.known = CALIBRATION_ASSUMED};
    if (!(whole > (double)info->least)) whole = (double)info->least;
    if (whole > (double)info->most) whole = (double)info->most;
    if (!(spread > 0)) spread = 0;
    if (spread > CALIBRATION_SPREAD_MAX) spread = CALIBRATION_SPREAD_MAX;
    return (struct calibration_number){(uint64_t)whole, (unsigned)spread, CALIBRATION_MEASURED};
}

static struct calibration_number latency(enum between_number number,
                                         const struct probe_figure *figure, uint64_t way_ps)
{
    return measured(number, figure, figure->least * 1e3 - (double)way_ps,
                    figure->middle * 1e3 - (double)way_ps);
}

static struct calibration_number byte(enum between_number number, const struct probe_figure *figure)
{
    return measured(number, figure, figure->middle * 1e6, figure->upper * 1e6);
}

void between_set(struct between *between, const struct probe_links *links, uint64_t way_ps)
{
    *between = (struct between){
        {[BETWEEN_LATENCY_RACK] = latency(BETWEEN_LATENCY_RACK, &links->rack_ns, way_ps),
         [BETWEEN_LATENCY_CLUSTER] = latency(BETWEEN_LATENCY_CLUSTER, &links->cluster_ns, way_ps),
         [BETWEEN_CARD_BYTE] = byte(BETWEEN_CARD_BYTE, &links->host_byte_ns),
         [BETWEEN_UPLINK_BYTE] = byte(BETWEEN_UPLINK_BYTE, &links->uplink_byte_ns)}};
}

/* To the nearest of the numbers with four binary digits. */
static uint64_t coarse(uint64_t value)
{
    enum { DIGITS = 4 };
    if (value >> DIGITS == 0) return value;
    const int drop = 64 - __builtin_clzll(value) - DIGITS;
    return ((value >> (drop - 1)) + 1) >> 1 << drop;
}

void between_make_coarse(struct between *between)
{
    for (unsigned i = 0; i < BETWEEN_NUMBERS; i++)
        between->numbers[i].value = coarse(between->numbers[i].value);
}

static bool is_assumed(const struct calibration *calibration, enum between_number number)
{
    return calibration->numbers[between_parameter(number)].known == CALIBRATION_ASSUMED;
}

bool between_is_wanted(const struct calibration *calibration, bool has_racks)
{
    return is_assumed(calibration, BETWEEN_CARD_BYTE) ||
           (has_racks && is_assumed(calibration, BETWEEN_UPLINK_BYTE));
}

void between_take(const struct between *between, struct calibration *calibration)
{
    for (unsigned i = 0; i < BETWEEN_NUMBERS; i++)
        if (between->numbers[i].known == CALIBRATION_MEASURED && is_assumed(calibration, i))
            calibration->numbers[between_parameter(i)] = between->numbers[i];
}
