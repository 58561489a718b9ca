/* between.h - the numbers of a calibration that a job measures between its hosts.
 *
 *     pairs of hosts send ──► probe_links (topo/probe.h) ──► struct between ──┬──► tutti-topo --calibrate --probe: a file
 *                                                                           └──► each start (comm/measured.h): in place of
 *                                                                                numbers that are
 *                                                                                assumed
 *
 * Shipped numbers are those of Ethernet with 10 Gbit/s: on other networks they mislead the choice
 * of algorithms more than all else. Nobody has to calibrate to be rid of them.
 *
 * Pure functions, on any thread; nothing allocates or blocks.
 */
#ifndef TUTTI_MODEL_BETWEEN_H
#define TUTTI_MODEL_BETWEEN_H

#include <stdbool.h>
#include <stdint.h>

#include "model/calibration.h"
#include "topo/probe.h"

/* The calibration's numbers that are measured between hosts. */
enum between_number {
    BETWEEN_LATENCY_RACK,
    BETWEEN_LATENCY_CLUSTER,
    BETWEEN_CARD_BYTE,
    BETWEEN_UPLINK_BYTE,
    BETWEEN_NUMBERS
};
enum calibration_parameter between_parameter(enum between_number number);

/* ASSUMED: was not measured, and says nothing. The spread of a latency is that of other numbers;
 * that of a byte says by how much a quarter of all samples is above the value at least. */
struct between {
    struct calibration_number numbers[BETWEEN_NUMBERS];
};

/* A latency is the least of all samples, since disturbances only make it longer. The time of a byte
 * is the middle sample, since single rounds are short and some are lucky. path_ps: the cost of a
 * small message's path to its two ranks, which a model adds to the latency. */
void between_set(struct between *between, const struct probe_links *links, uint64_t path_ps);
/* Rounds the values to steps of an eighth: starts on the same machines then mostly have the same
 * numbers, and make the same choices, which a process keeps. No model is more exact than that. */
void between_make_coarse(struct between *between);

/* Whether the calibration lacks a number that between hosts would be measured: of a card, or of an
 * uplink where there are racks. */
bool between_is_wanted(const struct calibration *calibration, bool has_racks);
/* Puts measured numbers in place of assumed ones. Calibrated numbers stay. */
void between_take(const struct between *between, struct calibration *calibration);

/* Whether the numbers are worth keeping for another job: there is that of a card, and neither for
 * cards nor for uplinks the samples lie far apart. */
bool between_is_steady(const struct between *between);
/* Whether two measurements agree on what a card and an uplink carry, within a quarter. */
bool between_agree(const struct between *one, const struct between *other);
/* Whether what was measured before still holds, by the rates of one round (the first matrix; 0: the
 * pair did not meet). Pairs of a rack should get what a card carries, and pairs of two racks their
 * part of what the uplinks do; of either sort at least half must, within a factor of one and a
 * half. rack_of: of each host. */
bool between_holds(const struct between *between, const struct probe *round, const int *rack_of);

#endif
