#include "tests/sim/engine_sim_links.h"

#include <stdint.h>

static void create_net(struct sim_links *links, struct sim *sim, int size, const int *nodes,
                       int kind)
{
    const struct sim_net_options options = {
        .size = size,
        .nodes = nodes,
        .kind = kind,
        .streams = 1 + sim_below(sim, SIM_STREAMS_MAX),
        .piece_bytes =
            sim_chance(sim, 500) ? 320 + 64 * sim_below(sim, 8) : 1024u << sim_below(sim, 5),
        .piece_count = 1 + sim_below(sim, sim_chance(sim, 500) ? 3 : 16),
        .frame_count = 2 + sim_below(sim, 8),
        .reach_bytes = sim_chance(sim, 500) ? 0 : SIZE_MAX,
        .expects = sim_chance(sim, 500)};
    links->net = sim_net_create(sim, &options);
}

static void create_cards(struct sim_links *links, struct sim *sim, int size, const int *nodes,
                         int kind)
{
    struct virtual_net_options options = {
        .size = size, .nodes = nodes, .kind = kind, .packets = 1 + sim_below(sim, 12)};
    struct card_options *card = &options.card;
    card->piece_bytes = sim_chance(sim, 500) ? 320 + 64 * sim_below(sim, 8) : 4032;
    card->piece_count = 1 + sim_below(sim, sim_chance(sim, 500) ? 3 : 16);
    card->receive_count = 8 + sim_below(sim, sim_chance(sim, 500) ? 4 : 57);
    card->reach_bytes = sim_chance(sim, 700) ? 1 : SIZE_MAX;
    card->offer_bytes = sim_chance(sim, 700) ? 1 : SIZE_MAX;
    card->asked_bytes = sim_chance(sim, 500) ? 3000 : 0;
    card->landing_bytes = sim_chance(sim, 700) ? 16384 : 0;
    card->flight_bytes = card->piece_count % 2 == 0 ? 16384 * (1 + (size_t)card->receive_count % 4)
                                                    : CARD_FLIGHT_ANY;
    options.cards = card->receive_count % 4 == 0 ? 2 + card->piece_count % 2 : 1;
    options.rails_bytes = 1;
    links->cards = virtual_net_create(sim, &options);
}

void sim_links_create(struct sim_links *links, enum engine_sim_carrier carrier, struct sim *sim,
                      int size, const int *nodes, int kind)
{
    *links = (struct sim_links){0};
    if (carrier == ENGINE_SIM_CARDS)
        create_cards(links, sim, size, nodes, kind);
    else
        create_net(links, sim, size, nodes, kind);
}

static void report_net(const struct sim_net *net, struct engine_sim_report *report)
{
    struct sim_net_counts counts;
    sim_net_count(net, &counts);
    report->again += counts.again;
    report->halves_lost += counts.halves_lost;
    report->by_reference += counts.by_reference;
    report->expected += counts.expected;
    report->held_up += counts.held_up;
}

static void report_cards(const struct virtual_net *cards, struct engine_sim_report *report)
{
    struct virtual_net_counts counts;
    virtual_net_count(cards, &counts);
    report->messages += counts.device.sends;
    report->writes += counts.device.writes;
    report->refused += counts.device.refused;
    report->turned += counts.device.turned;
    report->held_up += counts.held_up;
}

void sim_links_free(struct sim_links *links, struct engine_sim_report *report)
{
    if (links->cards != NULL) {
        report_cards(links->cards, report);
        virtual_net_free(links->cards);
    } else {
        report_net(links->net, report);
        sim_net_free(links->net);
    }
}

struct transport *sim_links_transport(const struct sim_links *links, int rank)
{
    if (links->cards != NULL) return virtual_net_transport(links->cards, rank);
    return sim_net_transport(links->net, rank);
}

void sim_links_happen(const struct sim_links *links, const struct sim_event *event)
{
    if (links->cards != NULL)
        virtual_net_happen(links->cards, event);
    else
        sim_net_happen(links->net, event);
}

bool sim_links_is_busy(const struct sim_links *links, int one, int other, unsigned stream)
{
    return links->net != NULL && sim_net_is_busy(links->net, one, other, stream);
}

void sim_links_reset(const struct sim_links *links, int one, int other, unsigned stream)
{
    if (links->net != NULL) sim_net_reset(links->net, one, other, stream);
}

void sim_links_mend(const struct sim_links *links, int one, int other)
{
    if (links->cards != NULL)
        virtual_net_mend(links->cards, one, other);
    else
        sim_net_mend(links->net, one, other);
}

void sim_links_stop(const struct sim_links *links, int rank)
{
    if (links->cards != NULL)
        virtual_net_stop(links->cards, rank);
    else
        sim_net_stop(links->net, rank);
}

const char *sim_links_wrong(const struct sim_links *links)
{
    return links->cards != NULL ? virtual_net_wrong(links->cards) : sim_net_wrong(links->net);
}

bool sim_links_is_settled(const struct sim_links *links)
{
    if (links->cards != NULL) return virtual_net_is_settled(links->cards);
    return sim_net_is_settled(links->net);
}
