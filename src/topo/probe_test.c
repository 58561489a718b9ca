#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "studio/topo/levels.h"
#include "topo/probe.h"

enum { HOSTS_MAX = 33, TOURNAMENTS = 3 };

static void every_two_hosts_meet_once_in_a_tournament(void **state)
{
    (void)state;
    for (int hosts = 1; hosts <= HOSTS_MAX; hosts++)
        for (int tournament = 0; tournament < TOURNAMENTS; tournament++) {
            int order[HOSTS_MAX], met[HOSTS_MAX][HOSTS_MAX] = {{0}};
            probe_order(hosts, tournament, order);
            for (int round = 0; round < probe_round_count(hosts); round++) {
                int idle = 0;
                for (int host = 0; host < hosts; host++) {
                    const int other = probe_partner(order, hosts, round, host);
                    if (other < 0) {
                        idle++;
                        continue;
                    }
                    assert_int_not_equal(other, host);
                    assert_int_equal(probe_partner(order, hosts, round, other), host);
                    met[host][other]++;
                }
                assert_int_equal(idle, hosts % 2);
            }
            for (int a = 0; a < hosts; a++)
                for (int b = 0; b < hosts; b++) assert_int_equal(met[a][b], a != b);
        }
}

static void tournaments_pair_hosts_differently(void **state)
{
    (void)state;
    int first[8], second[8], third[8];
    probe_order(8, 0, first);
    probe_order(8, 1, second);
    probe_order(8, 2, third);
    for (int i = 0; i < 8; i++) assert_int_equal(first[i], i);
    assert_memory_not_equal(first, second, sizeof first);
    assert_memory_not_equal(second, third, sizeof second);
}

/* A network as probe_racks would see it: uplinks carry `uplink` hosts' rates, shared by the pairs
 * that cross them in a round; each measurement is up to `noise` less. */
struct network {
    int hosts;
    const int *rack_of;
    double uplink, noise, far_ns;
};

static double latency_ns[HOSTS_MAX * HOSTS_MAX];
static double rates[TOURNAMENTS * HOSTS_MAX * HOSTS_MAX];

static int crossing(const struct network *network, const int *order, int round, int rack)
{
    int count = 0;
    for (int host = 0; host < network->hosts; host++) {
        const int other = probe_partner(order, network->hosts, round, host);
        count += network->rack_of[host] == rack && other >= 0 && network->rack_of[other] != rack;
    }
    return count;
}

static double rate_between(const struct network *network, const int *order, int round, int a, int b)
{
    double rate = 1;
    const int racks[2] = {network->rack_of[a], network->rack_of[b]};
    for (int i = 0; i < 2 && racks[0] != racks[1]; i++) {
        const double share = network->uplink / crossing(network, order, round, racks[i]);
        if (share < rate) rate = share;
    }
    return rate;
}

static struct probe measured(const struct network *network)
{
    const int hosts = network->hosts;
    uint32_t random = 1;
    for (int t = 0; t < TOURNAMENTS; t++) {
        int order[HOSTS_MAX];
        probe_order(hosts, t, order);
        for (int round = 0; round < probe_round_count(hosts); round++)
            for (int a = 0; a < hosts; a++) {
                const int b = probe_partner(order, hosts, round, a);
                if (b < a) continue;
                random = random * 1664525u + 1013904223u;
                const double lost = network->noise * (random >> 8) / (1 << 24);
                const double rate = 125e6 * (1 - lost) * rate_between(network, order, round, a, b);
                rates[(t * hosts + a) * hosts + b] = rates[(t * hosts + b) * hosts + a] = rate;
            }
    }
    for (int a = 0; a < hosts; a++)
        for (int b = 0; b < hosts; b++)
            latency_ns[a * hosts + b] =
                network->rack_of[a] == network->rack_of[b] ? 20e3 : network->far_ns;
    return (struct probe){hosts, TOURNAMENTS, latency_ns, rates};
}

static void finds(const struct network *network, const int *expected)
{
    const struct probe probe = measured(network);
    int found[HOSTS_MAX], racks = 0;
    for (int i = 0; i < network->hosts; i++)
        if (expected[i] >= racks) racks = expected[i] + 1;
    assert_int_equal(probe_racks(&probe, found), racks);
    assert_memory_equal(found, expected, (size_t)network->hosts * sizeof *found);
}

static const int four_and_four[] = {0, 0, 0, 0, 1, 1, 1, 1}, in_turn[] = {0, 1, 0, 1, 0, 1, 0, 1},
                 three_and_three[] = {0, 1, 1, 0, 1, 0}, uneven[] = {0, 0, 1, 0, 0, 1, 0},
                 three_racks[] = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}, together[HOSTS_MAX];

static void racks_are_found_by_what_shares_an_uplink(void **state)
{
    (void)state;
    const double noises[] = {0, 0.15};
    for (int i = 0; i < 2; i++) {
        finds(&(struct network){8, four_and_four, 1, noises[i], 20e3}, four_and_four);
        finds(&(struct network){8, in_turn, 1, noises[i], 20e3}, in_turn);
        finds(&(struct network){6, three_and_three, 1, noises[i], 20e3}, three_and_three);
        finds(&(struct network){7, uneven, 1, noises[i], 20e3}, uneven);
        finds(&(struct network){12, three_racks, 1, noises[i], 20e3}, three_racks);
    }
}

static void racks_are_found_by_latency_when_uplinks_are_wide(void **state)
{
    (void)state;
    finds(&(struct network){8, in_turn, 4, 0.1, 40e3}, in_turn);
    finds(&(struct network){12, three_racks, 4, 0.1, 40e3}, three_racks);
}

static void hosts_that_nothing_tells_apart_stand_in_one_rack(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= HOSTS_MAX; hosts++)
        finds(&(struct network){hosts, together, 1, 0.2, 20e3}, together);
    /* Wide uplinks and nearly the same latency. */
    finds(&(struct network){8, in_turn, 4, 0.1, 22e3}, together);
    /* Two hosts: nothing to compare with. */
    static const int alone[] = {0, 1};
    finds(&(struct network){2, alone, 0.1, 0, 90e3}, together);
}

static void the_topology_has_racks_links_and_ranks(void **state)
{
    (void)state;
    const struct probe probe = measured(&(struct network){8, in_turn, 1, 0, 30e3});
    const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    const int host_of_rank[] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1};
    struct topo topo;
    assert_int_equal(probe_topo(&probe, in_turn, 2, names, host_of_rank, 10, &topo), TUTTI_OK);
    assert_int_equal(topo_validate(&topo), TUTTI_OK);
    assert_int_equal(topo_rank_count(&topo), 10);
    struct topo_levels levels;
    assert_int_equal(topo_levels_init(&levels, &topo), TUTTI_OK);
    const struct topo_level *racks = &levels.levels[levels.count - 1];
    for (int rank = 0; rank < 10; rank++)
        assert_int_equal(racks->group_of_rank[rank], in_turn[host_of_rank[rank]]);
    topo_levels_release(&levels);
    /* Each host's link carries what a pair alone gets, and each uplink what it really does. */
    assert_int_equal(topo.link_count, 10);
    for (int i = 0; i < topo.link_count; i++) {
        assert_true(topo.links[i].bytes_per_second > 124e6 && topo.links[i].bytes_per_second < 126e6);
        assert_int_equal(topo.links[i].known, TOPO_MEASURED);
    }
    topo_release(&topo);
}

/* Noise makes what was measured up to 15 % less. */
static void links_carry_what_their_pairs_got(void **state)
{
    (void)state;
    struct probe probe = measured(&(struct network){8, in_turn, 1, 0.15, 30e3});
    struct probe_links links;
    assert_int_equal(probe_links_find(&probe, in_turn, 2, &links), TUTTI_OK);
    assert_int_equal(links.host_byte_ns.count, 2 * 6 * TOURNAMENTS);
    assert_true(links.host_byte_ns.least >= 8 && links.host_byte_ns.middle < 9.5);
    assert_true(links.host_byte_ns.middle <= links.host_byte_ns.upper);
    assert_true(links.uplink_byte_ns.count > 0);
    assert_true(links.uplink_byte_ns.middle >= 8 && links.uplink_byte_ns.middle < 9.5);
    assert_true(links.rack_ns.middle == 20e3 && links.cluster_ns.least == 30e3);
    /* In a network without racks, nothing crosses an uplink. */
    probe = measured(&(struct network){3, together, 1, 0, 20e3});
    assert_int_equal(probe_links_find(&probe, together, 1, &links), TUTTI_OK);
    assert_int_equal(links.host_byte_ns.count, 3 * TOURNAMENTS);
    assert_int_equal(links.uplink_byte_ns.count, 0);
    assert_int_equal(links.cluster_ns.count, 0);
}

/* Only some of the rounds were played: a round with an unknown pair says nothing of uplinks. */
static void rounds_that_were_not_played_say_nothing(void **state)
{
    (void)state;
    struct probe probe = measured(&(struct network){8, four_and_four, 1, 0, 30e3});
    struct probe_links links;
    int order[8];
    probe.tournament_count = 1;
    probe_order(8, 0, order);
    for (int round = 2; round < probe_round_count(8); round++)
        for (int a = 0; a < 8; a++) rates[a * 8 + probe_partner(order, 8, round, a)] = 0;
    assert_int_equal(probe_links_find(&probe, four_and_four, 2, &links), TUTTI_OK);
    assert_true(links.uplink_byte_ns.count >= 2);
    assert_true(links.uplink_byte_ns.least > 7.9 && links.uplink_byte_ns.upper < 8.1);
    for (int a = 0; a < 8; a++) rates[a * 8 + probe_partner(order, 8, 1, a)] = 0;
    for (int a = 0; a < 8; a++) rates[a * 8 + probe_partner(order, 8, 0, a)] = 0;
    assert_int_equal(probe_links_find(&probe, four_and_four, 2, &links), TUTTI_OK);
    assert_int_equal(links.host_byte_ns.count, 0);
    assert_int_equal(links.uplink_byte_ns.count, 0);
}

/* A host and its partner of the other rack got half as much again as the others, in a round in
 * which no other pair crossed the uplinks or all did. */
static void a_round_that_was_lucky_makes_no_uplink_faster(void **state)
{
    (void)state;
    for (int other = 0; other < 8; other++) {
        if (in_turn[other] == in_turn[0]) continue;
        const struct probe probe = measured(&(struct network){8, in_turn, 1, 0, 30e3});
        const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
        const int host_of_rank[] = {0, 1, 2, 3, 4, 5, 6, 7};
        rates[other] *= 1.5;
        rates[other * 8] *= 1.5;
        struct topo topo;
        assert_int_equal(probe_topo(&probe, in_turn, 2, names, host_of_rank, 8, &topo), TUTTI_OK);
        for (int i = 0; i < topo.link_count; i++) {
            if (topo.nodes[topo.links[i].ends[0]].kind == TOPO_NIC) continue;
            assert_true(topo.links[i].bytes_per_second > 124e6);
            assert_true(topo.links[i].bytes_per_second < 135e6);
        }
        topo_release(&topo);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_two_hosts_meet_once_in_a_tournament),
        cmocka_unit_test(tournaments_pair_hosts_differently),
        cmocka_unit_test(racks_are_found_by_what_shares_an_uplink),
        cmocka_unit_test(racks_are_found_by_latency_when_uplinks_are_wide),
        cmocka_unit_test(hosts_that_nothing_tells_apart_stand_in_one_rack),
        cmocka_unit_test(the_topology_has_racks_links_and_ranks),
        cmocka_unit_test(links_carry_what_their_pairs_got),
        cmocka_unit_test(rounds_that_were_not_played_say_nothing),
        cmocka_unit_test(a_round_that_was_lucky_makes_no_uplink_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
