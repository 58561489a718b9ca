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
                                         const struct probe_figure *figure, uint64_t path_ps)
{
    return measured(number, figure, figure->least * 1e3 - (double)path_ps,
                    figure->middle * 1e3 - (double)path_ps);
}

static struct calibration_number byte(enum between_number number, const struct probe_figure *figure)
{
    return measured(number, figure, figure->middle * 1e6, figure->upper * 1e6);
}

void between_set(struct between *between, const struct probe_links *links, uint64_t path_ps)
{
    *between = (struct between){
        {[BETWEEN_LATENCY_RACK] = latency(BETWEEN_LATENCY_RACK, &links->rack_ns, path_ps),
         [BETWEEN_LATENCY_CLUSTER] = latency(BETWEEN_LATENCY_CLUSTER, &links->cluster_ns, path_ps),
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

/* --------------------------------------------------------------------------------- kept numbers */

static bool is_steady(const struct calibration_number *number)
{
    enum { SPREAD_PERMILLE_MAX = 250 };
    return number->known == CALIBRATION_ASSUMED || number->spread_permille <= SPREAD_PERMILLE_MAX;
}

bool between_is_steady(const struct between *between)
{
    return between->numbers[BETWEEN_CARD_BYTE].known == CALIBRATION_MEASURED &&
           is_steady(&between->numbers[BETWEEN_CARD_BYTE]) &&
           is_steady(&between->numbers[BETWEEN_UPLINK_BYTE]);
}

static bool are_near(const struct calibration_number *one, const struct calibration_number *other)
{
    const uint64_t least = one->value < other->value ? one->value : other->value,
                   most = one->value + other->value - least;
    return one->known == other->known &&
           (one->known == CALIBRATION_ASSUMED || most - least <= least / 4);
}

bool between_agree(const struct between *one, const struct between *other)
{
    return are_near(&one->numbers[BETWEEN_CARD_BYTE], &other->numbers[BETWEEN_CARD_BYTE]) &&
           are_near(&one->numbers[BETWEEN_UPLINK_BYTE], &other->numbers[BETWEEN_UPLINK_BYTE]);
}

static double rate_at(const struct probe *round, int a, int b)
{
    return round->bytes_per_second[(size_t)a * (size_t)round->host_count + (size_t)b];
}

static int count_crossing(const struct probe *round, const int *rack_of, int rack)
{
    int count = 0;
    for (int a = 0; a < round->host_count; a++)
        for (int b = 0; b < round->host_count; b++)
            count += rack_of[a] == rack && rack_of[b] != rack && rate_at(round, a, b) > 0;
    return count;
}

/* The seconds in which a pair should exchange a byte. */
static double expected_s(const struct between *between, const struct probe *round,
                         const int *rack_of, int a, int b)
{
    const struct calibration_number *const numbers = between->numbers;
    const double card_s = (double)numbers[BETWEEN_CARD_BYTE].value * 1e-15;
    if (rack_of[a] == rack_of[b] || numbers[BETWEEN_UPLINK_BYTE].known == CALIBRATION_ASSUMED)
        return card_s;
    const int here = count_crossing(round, rack_of, rack_of[a]),
              there = count_crossing(round, rack_of, rack_of[b]);
    const double uplink_s =
        (double)numbers[BETWEEN_UPLINK_BYTE].value * 1e-15 * (here > there ? here : there);
    return uplink_s > card_s ? uplink_s : card_s;
}

/* Whether the pairs of one sort fit the numbers: if more than half of them are too slow, or too
 * fast, that is no accident. */
static bool sort_holds(const struct between *between, const struct probe *round, const int *rack_of,
                       bool across)
{
    const double factor = 1.5;
    int count = 0, slow = 0, fast = 0;
    for (int a = 0; a < round->host_count; a++)
        for (int b = a + 1; b < round->host_count; b++) {
            const double rate = rate_at(round, a, b);
            if (rate <= 0 || (rack_of[a] != rack_of[b]) != across) continue;
            const double part = rate * expected_s(between, round, rack_of, a, b);
            count++;
            slow += part * factor < 1;
            fast += part > factor;
        }
    return 2 * slow <= count && 2 * fast <= count;
}

bool between_holds(const struct between *between, const struct probe *round, const int *rack_of)
{
    return between->numbers[BETWEEN_CARD_BYTE].known == CALIBRATION_MEASURED &&
           sort_holds(between, round, rack_of, false) && sort_holds(between, round, rack_of, true);
}
