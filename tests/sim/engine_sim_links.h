/* engine_sim_links.h - what carries data between the simulated ranks of a communicator
 * (engine_sim.h): links as over TCP (tests/sim/net.h), or simulated network cards
 * (tests/virtual_card/virtual_net.h). */
#ifndef TUTTI_TESTS_SIM_ENGINE_SIM_LINKS_H
#define TUTTI_TESTS_SIM_ENGINE_SIM_LINKS_H

#include <stdbool.h>

#include "tests/sim/engine_sim.h"
#include "tests/sim/net.h"
#include "tests/virtual_card/virtual_net.h"

/* One of the two, the other is NULL. */
struct sim_links {
    struct sim_net *net;
    struct virtual_net *cards;
};

/* With pieces, credits and paths that are drawn; `kind` is that of its events. */
void sim_links_create(struct sim_links *links, enum engine_sim_carrier carrier, struct sim *sim,
                      int size, const int *nodes, int kind);
/* Adds what was seen to the report. */
void sim_links_free(struct sim_links *links, struct engine_sim_report *report);
struct transport *sim_links_transport(const struct sim_links *links, int rank);
void sim_links_happen(const struct sim_links *links, const struct sim_event *event);
/* Cards have no connections: nothing is busy then, and nothing is reset. */
bool sim_links_is_busy(const struct sim_links *links, int one, int other, unsigned stream);
void sim_links_reset(const struct sim_links *links, int one, int other, unsigned stream);
void sim_links_mend(const struct sim_links *links, int one, int other);
void sim_links_stop(const struct sim_links *links, int rank);
const char *sim_links_wrong(const struct sim_links *links);
bool sim_links_is_settled(const struct sim_links *links);

#endif
