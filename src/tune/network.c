/* Names in the formulas: N hosts of L ranks, R racks of m hosts, p ranks, n bytes of a vector or b of a block.
 *
 * Sources of the closed forms are those of the algorithms (algo/list.c); for alpha, beta and the processor's time:
 * Hockney, "The Communication Challenge for MPP", Parallel Computing 20(3), 1994; Culler et al., "LogP: Towards a
 * Realistic Model of Parallel Computation", PPoPP 1993.
 */
#include "tune/network.h"

#include <stdlib.h>

#include "algo/levels.h"
#include "base/status.h"

/* Ethernet between 1 and 25 Gbit/s: a byte costs the geometric mean of what it costs at both, so that no choice is far
 * off at either end. Calibration will say better. */
#define ALPHA_NS 50e3
#define BYTE_NS 1.6
#define MESSAGE_NS 10e3 /* of a processor that sends one and receives one */
#define MEMORY_BYTE_NS 0.1
/* Many senders to one: their queue overflows, and some of it is sent again. */
#define INCAST_BYTES (128 << 10)
#define INCAST_FACTOR 1.5
/* What is under way at once where data streams through ranks. */
#define PIECE_BYTES (64 << 10)

double network_time_ns(const struct network_cost *cost)
{
    const double wire =
        cost->card_bytes > cost->uplink_bytes ? cost->card_bytes : cost->uplink_bytes;
    const double waiting = cost->rounds * ALPHA_NS + cost->messages * MESSAGE_NS;
    const double moving = (wire + cost->extra_bytes) * BYTE_NS;
    const double memory = cost->memory_bytes * MEMORY_BYTE_NS;
    if (cost->streams) return ALPHA_NS + memory + (waiting > moving ? waiting : moving);
    return waiting + moving + memory;
}

/* -------------------------------------------------------------------------------------------- shape */

enum tutti_status network_shape_init(struct network_shape *shape, const struct algo_levels *levels,
                                     int rank_count)
{
    struct hierarchy h;
    TRY(hierarchy_init(&h, levels, NULL, rank_count));
    *shape = (struct network_shape){.host_ranks_min = 1, .host_ranks_max = 1, .rack_count = 1};
    int level =
        0; /* whose units are the hosts; without any level all ranks are hosts of their own, or one host */
    if (h.has_hosts) {
        level = 1;
        shape->host_ranks_min = rank_count;
        for (int i = 0; i < h.unit_count[1]; i++) {
            const int size = hierarchy_unit_size(&h, 1, i);
            if (size < shape->host_ranks_min) shape->host_ranks_min = size;
            if (size > shape->host_ranks_max) shape->host_ranks_max = size;
        }
    } else {
        bool is_one = true;
        for (int r = 1; r < rank_count; r++)
            is_one &= levels->group_of[0][r] == levels->group_of[0][0];
        if (is_one) {
            *shape = (struct network_shape){1, rank_count, rank_count, 1, 1};
            hierarchy_release(&h);
            return TUTTI_OK;
        }
    }
    shape->host_count = shape->rack_hosts_max = h.unit_count[level];
    if (h.top > level) {
        shape->rack_count = h.unit_count[level + 1];
        shape->rack_hosts_max = 1;
        for (int team = 0; team < shape->rack_count; team++) {
            const int count = hierarchy_members(&h, level, team).count;
            if (count > shape->rack_hosts_max) shape->rack_hosts_max = count;
        }
    }
    hierarchy_release(&h);
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------------- helpers */

static double smaller(double one, double other)
{
    return one < other ? one : other;
}

static double lg(double count)
{
    double rounds = 0;
    for (double reached = 1; reached < count; reached *= 2) rounds++;
    return rounds;
}

/* Rounds of a cube into which ranks beyond a power of two are folded. */
static double cube_rounds(double count)
{
    const double rounds = lg(count);
    return (double)(1 << (int)rounds) == count ? rounds : rounds - 1 + 2;
}

static bool has_racks(const struct network_shape *s)
{
    return s->rack_count > 1;
}

/* Of all that is, that part which a rack's hosts send to other racks when partners are anywhere. */
static double leaving_part(const struct network_shape *s)
{
    return has_racks(s) ? 1 - (double)s->rack_hosts_max / s->host_count : 0;
}

/* Each card sends that much to hosts that are anywhere. */
static void send_anywhere(const struct network_shape *s, double card_bytes,
                          struct network_cost *cost)
{
    cost->card_bytes = card_bytes;
    cost->uplink_bytes = has_racks(s) ? s->rack_hosts_max * card_bytes : 0;
}

/* Each card sends that much to the next host in the order of nearness. */
static void send_to_neighbours(const struct network_shape *s, double card_bytes,
                               struct network_cost *cost)
{
    cost->card_bytes = card_bytes;
    cost->uplink_bytes = has_racks(s) ? card_bytes : 0;
}

/* --------------------------------------------------------------------------------- allreduce
 *
 * n bytes; two slices are on their way at once on rails, half of a level's time hides behind another one's. */

static void doubling(const struct network_shape *s, double p, double n, struct network_cost *cost)
{
    const double rounds = cube_rounds(p), local = lg(s->host_ranks_min);
    cost->rounds = cost->messages = rounds > local ? rounds - local : 1;
    send_anywhere(s, s->host_ranks_max * n * cost->rounds, cost);
    cost->memory_bytes = n * local;
}

static void halving_doubling(const struct network_shape *s, double p, double n,
                             struct network_cost *cost)
{
    const bool folds = cube_rounds(p) != lg(p);
    cost->rounds = cost->messages = 2 * lg(p); /* folding takes two, and leaves a smaller cube */
    const double within = folds ? (double)(1 << (int)(lg(p) - 1)) : p;
    send_anywhere(s, s->host_ranks_max * n * (2 * (within - 1) / within + (folds ? 1 : 0)), cost);
}

static void circulant(const struct network_shape *s, double p, double n, struct network_cost *cost)
{
    cost->rounds = 2 * lg(p);
    cost->messages = 2 * cost->rounds; /* a run that passes the last rank is two messages */
    send_anywhere(s, s->host_ranks_max * 2 * (p - 1) / p * n, cost);
}

static void ring(const struct network_shape *s, double p, double n, struct network_cost *cost)
{
    cost->rounds = cost->messages = 2 * (p - 1);
    send_to_neighbours(s, 2 * (p - 1) / p * n, cost);
    cost->memory_bytes = s->host_ranks_max > 1 ? 2 * n : 0;
    cost->streams = true;
}

static void rails_ring(const struct network_shape *s, double p, double n, struct network_cost *cost)
{
    (void)p;
    const double hosts = s->host_count;
    const double worst = (double)s->host_ranks_max / s->host_ranks_min;
    cost->rounds = 2 * (hosts - 1);
    cost->messages = 2 * cost->rounds * worst;
    send_to_neighbours(s, 2 * (hosts - 1) / hosts * n, cost);
    cost->memory_bytes = s->host_ranks_max > 1 ? 2 * n : 0;
    cost->streams = true;
}

static void rails(const struct network_shape *s, double p, double n, struct network_cost *cost)
{
    (void)p;
    const double hosts = s->host_count, racks = s->rack_count, members = s->rack_hosts_max;
    const double worst = (double)s->host_ranks_max / s->host_ranks_min;
    cost->rounds = has_racks(s) ? 2 * lg(racks) + 2 * lg(members) : 2 * lg(hosts);
    cost->messages = 4 * cost->rounds * worst;
    cost->card_bytes = 2 * (hosts - 1) / hosts * n;
    if (has_racks(s)) {
        cost->uplink_bytes = 2 * (racks - 1) / racks * n;
        const double one_by_one = 2 * (members - 1) / members * n + cost->uplink_bytes;
        cost->extra_bytes = (one_by_one - cost->card_bytes) / 2;
    }
    cost->memory_bytes = s->host_ranks_max > 1 ? 2 * n : 0;
}

/* In a host all send to the leader and it to all; leaders double. */
static void leaders_allreduce(const struct network_shape *s, double p, double n,
                              struct network_cost *cost)
{
    (void)p;
    cost->rounds = cost->messages = cube_rounds(s->host_count);
    send_anywhere(s, n * cost->rounds, cost);
    cost->memory_bytes = s->host_ranks_max > 1 ? (s->host_ranks_max + 1) * n : 0;
}

/* Two halves there and back; here ranks are in the order of their numbers, wherever they are. */
static void chain_allreduce(const struct network_shape *s, double p, double n,
                            struct network_cost *cost)
{
    cost->rounds = cost->messages = 2 * (p - 1);
    send_anywhere(s, s->host_ranks_max * (p > 2 ? 2 : 1) * n, cost);
    cost->extra_bytes = 2 * (p - 2) * smaller(n, PIECE_BYTES);
}

/* ------------------------------------------------------------------------ broadcast and reduce: n bytes */

static void tree(const struct network_shape *s, double p, double n, struct network_cost *cost)
{
    cost->rounds = cost->messages = lg(p);
    send_anywhere(s, n * lg(p), cost);
}

static void leaders_tree(const struct network_shape *s, double p, double n,
                         struct network_cost *cost)
{
    (void)p;
    cost->rounds = cost->messages = lg(s->host_count);
    send_anywhere(s, n * lg(s->host_count), cost);
    cost->memory_bytes = s->host_ranks_max > 1 ? s->host_ranks_max * n : 0;
}

static void chain(const struct network_shape *s, double p, double n, struct network_cost *cost)
{
    (void)p;
    cost->rounds = cost->messages = s->host_count - 1;
    send_to_neighbours(s, n, cost);
    cost->extra_bytes = (s->host_count - 2) * smaller(n, PIECE_BYTES);
    cost->memory_bytes = s->host_ranks_max > 1 ? s->host_ranks_max * n : 0;
}

/* 16 blocks, each complete before it goes on. */
static void circulant_blocks(const struct network_shape *s, double p, double n,
                             struct network_cost *cost)
{
    const double blocks = 16;
    cost->rounds = cost->messages = blocks - 1 + lg(p);
    send_anywhere(s, s->host_ranks_max * n * (blocks - 1 + lg(p)) / blocks, cost);
}

/* A rank with two children gives each a half, in pieces; the way down or up is 2 lg p pieces long. */
static void double_tree(const struct network_shape *s, double p, double n, struct network_cost *cost)
{
    cost->rounds = cost->messages = 2 * lg(p);
    send_anywhere(s, s->host_ranks_max * n, cost);
    cost->extra_bytes = 2 * lg(p) * smaller(n, PIECE_BYTES);
}

/* On every rail a double tree, of each level; the root's host, or who stands for a rack, is in two. */
static void rails_tree(const struct network_shape *s, double p, double n, struct network_cost *cost)
{
    (void)p;
    const double steps =
        has_racks(s) ? lg(s->rack_count) + lg(s->rack_hosts_max) : lg(s->host_count);
    cost->rounds = 2 * steps;
    cost->messages = 2 * cost->rounds * s->host_ranks_max / s->host_ranks_min;
    cost->card_bytes = has_racks(s) ? 2 * n : n;
    cost->uplink_bytes = has_racks(s) ? n : 0;
    cost->extra_bytes = 2 * steps * smaller(n, PIECE_BYTES);
    cost->memory_bytes = s->host_ranks_max > 1 ? 2 * n : 0;
}

/* Everybody to the root at once. */
static void direct_reduce(const struct network_shape *s, double p, double n,
                          struct network_cost *cost)
{
    const double others = p - s->host_ranks_min;
    cost->rounds = 1;
    cost->messages = others;
    send_anywhere(s, others * n, cost);
    if (cost->card_bytes > INCAST_BYTES) cost->extra_bytes = (INCAST_FACTOR - 1) * cost->card_bytes;
}

static void twoshot_reduce(const struct network_shape *s, double p, double n,
                           struct network_cost *cost)
{
    cost->rounds = 2;
    cost->messages = 2 * (p - 1);
    send_anywhere(s, s->host_ranks_max * 2 * (p - 1) / p * n, cost);
    if (cost->card_bytes > INCAST_BYTES) cost->extra_bytes = (INCAST_FACTOR - 1) * cost->card_bytes;
}

/* -------------------------------------------------------- gather and scatter: b bytes of each rank, at the root */

static void at_root(const struct network_shape *s, double p, double b, struct network_cost *cost)
{
    cost->card_bytes = (p - s->host_ranks_min) * b;
    cost->uplink_bytes = p * b * leaving_part(s);
}

static void direct_scatter(const struct network_shape *s, double p, double b,
                           struct network_cost *cost)
{
    at_root(s, p, b, cost);
    cost->rounds = 1;
    cost->messages = p - s->host_ranks_min;
}

static void direct_gather(const struct network_shape *s, double p, double b,
                          struct network_cost *cost)
{
    direct_scatter(s, p, b, cost);
    if (cost->card_bytes > INCAST_BYTES) cost->extra_bytes = (INCAST_FACTOR - 1) * cost->card_bytes;
}

static void tree_blocks(const struct network_shape *s, double p, double b, struct network_cost *cost)
{
    at_root(s, p, b, cost);
    if (has_racks(s)) cost->uplink_bytes = s->rack_hosts_max * s->host_ranks_max * b * lg(p);
    cost->rounds = cost->messages = lg(p);
    cost->memory_bytes = (p + 2 * s->host_ranks_max) * b;
}

static void leaders_blocks(const struct network_shape *s, double p, double b,
                           struct network_cost *cost)
{
    at_root(s, p, b, cost);
    cost->rounds = cost->messages =
        has_racks(s) ? lg(s->rack_count) + lg(s->rack_hosts_max) : lg(s->host_count);
    cost->memory_bytes = (p + s->host_ranks_max) * b;
}

/* -------------------------------------------------------- allgather and reduce_scatter: p blocks of b bytes */

static void circulant_all(const struct network_shape *s, double p, double b,
                          struct network_cost *cost)
{
    cost->rounds = lg(p);
    cost->messages = 2 * lg(p);
    send_anywhere(s, s->host_ranks_max * (p - 1) * b, cost);
}

static void ring_all(const struct network_shape *s, double p, double b, struct network_cost *cost)
{
    cost->rounds = cost->messages = p - 1;
    send_to_neighbours(s, (p - 1) * b, cost);
    cost->memory_bytes = s->host_ranks_max > 1 ? p * b : 0;
    cost->streams = true;
}

static void rails_all(const struct network_shape *s, double p, double b, struct network_cost *cost)
{
    const double worst = (double)s->host_ranks_max / s->host_ranks_min;
    cost->rounds = (s->host_count - 1) * worst;
    cost->messages = 2 * cost->rounds;
    send_to_neighbours(s, (p - s->host_ranks_min) * b, cost);
    cost->memory_bytes = s->host_ranks_max > 1 ? p * b : 0;
    cost->streams = true;
}

static void leaders_all(const struct network_shape *s, double p, double b, struct network_cost *cost)
{
    cost->rounds = lg(s->host_count);
    cost->messages = 2 * cost->rounds;
    send_anywhere(s, (p - s->host_ranks_min) * b, cost);
    cost->memory_bytes = s->host_ranks_max > 1 ? 3 * p * b : 0;
}

static void direct_reduce_scatter(const struct network_shape *s, double p, double b,
                                  struct network_cost *cost)
{
    cost->rounds = 1;
    cost->messages = p - 1;
    send_anywhere(s, s->host_ranks_max * (p - s->host_ranks_min) * b, cost);
    if ((p - 1) * b > INCAST_BYTES) cost->extra_bytes = (INCAST_FACTOR - 1) * cost->card_bytes;
}

/* ----------------------------------------------------------------- all-to-all: b bytes for each rank */

static void every_block(const struct network_shape *s, double p, double b, struct network_cost *cost)
{
    const double ranks = s->host_ranks_max, rack_ranks = ranks * s->rack_hosts_max;
    cost->card_bytes = ranks * (p - s->host_ranks_min) * b;
    cost->uplink_bytes = has_racks(s) && p > rack_ranks ? rack_ranks * (p - rack_ranks) * b : 0;
}

static void direct_exchange(const struct network_shape *s, double p, double b,
                            struct network_cost *cost)
{
    every_block(s, p, b, cost);
    cost->rounds = 1;
    cost->messages = p - s->host_ranks_min;
    if ((p - 1) * b > INCAST_BYTES)
        cost->extra_bytes =
            (INCAST_FACTOR - 1) * (has_racks(s) ? cost->uplink_bytes : cost->card_bytes);
}

static void bruck(const struct network_shape *s, double p, double b, struct network_cost *cost)
{
    cost->rounds = cost->messages = lg(p);
    send_anywhere(s, s->host_ranks_max * lg(p) * p / 2 * b, cost);
    cost->memory_bytes = s->host_ranks_max * 2 * p * b;
}

/* A round waits for the one before. */
static void pairwise(const struct network_shape *s, double p, double b, struct network_cost *cost)
{
    every_block(s, p, b, cost);
    cost->rounds = cost->messages = p - 1;
}

static void rails_exchange(const struct network_shape *s, double p, double b,
                           struct network_cost *cost)
{
    const double worst = (double)s->host_ranks_max / s->host_ranks_min;
    every_block(s, p, b, cost);
    cost->rounds = 2;
    cost->messages = (s->host_count - 1) * worst;
    if ((p - 1) * b > INCAST_BYTES)
        cost->extra_bytes =
            (INCAST_FACTOR - 1) * (has_racks(s) ? cost->uplink_bytes : cost->card_bytes);
    cost->memory_bytes = s->host_ranks_max > 1 ? 3 * p * s->host_ranks_max * b : 0;
}

/* ------------------------------------------------------------------------------------------- barrier */

static void dissemination(const struct network_shape *s, double p, double n,
                          struct network_cost *cost)
{
    (void)n;
    cost->rounds = lg(p);
    cost->messages =
        lg(p) * s->host_ranks_max; /* nobody goes on before all of a host have been served */
}

static void leaders_barrier(const struct network_shape *s, double p, double n,
                            struct network_cost *cost)
{
    (void)p, (void)n;
    cost->rounds = cost->messages = lg(s->host_count);
}

/* ---------------------------------------------------------------------------------------- the list */

const struct network_candidate network_candidates[] = {
    {COLLECTIVE_ALLREDUCE, "doubling", false, false, doubling},
    {COLLECTIVE_ALLREDUCE, "hierarchical_tree", true, false, leaders_allreduce},
    {COLLECTIVE_ALLREDUCE, "ring", false, false, ring},
    {COLLECTIVE_ALLREDUCE, "hierarchical_ring", true, false, rails_ring},
    {COLLECTIVE_ALLREDUCE, "circulant", false, false, circulant},
    {COLLECTIVE_ALLREDUCE, "hierarchical", true, true, rails},
    {COLLECTIVE_ALLREDUCE, "halving_doubling", false, false, halving_doubling},
    {COLLECTIVE_ALLREDUCE, "chain", false, false, chain_allreduce},
    {COLLECTIVE_REDUCE, "tree", false, false, tree},
    {COLLECTIVE_REDUCE, "hierarchical_tree", true, false, leaders_tree},
    {COLLECTIVE_REDUCE, "chain", false, false, chain},
    {COLLECTIVE_REDUCE, "circulant", false, false, circulant_blocks},
    {COLLECTIVE_REDUCE, "double_tree", false, false, double_tree},
    {COLLECTIVE_REDUCE, "hierarchical", true, true, rails_tree},
    {COLLECTIVE_REDUCE, "direct", false, false, direct_reduce},
    {COLLECTIVE_REDUCE, "twoshot", false, false, twoshot_reduce},
    {COLLECTIVE_BROADCAST, "tree", false, false, tree},
    {COLLECTIVE_BROADCAST, "hierarchical_tree", true, false, leaders_tree},
    {COLLECTIVE_BROADCAST, "chain", false, false, chain},
    {COLLECTIVE_BROADCAST, "circulant", false, false, circulant_blocks},
    {COLLECTIVE_BROADCAST, "double_tree", false, false, double_tree},
    {COLLECTIVE_BROADCAST, "hierarchical", true, true, rails_tree},
    {COLLECTIVE_GATHER, "direct", false, false, direct_gather},
    {COLLECTIVE_GATHER, "tree", false, false, tree_blocks},
    {COLLECTIVE_GATHER, "hierarchical", true, true, leaders_blocks},
    {COLLECTIVE_SCATTER, "direct", false, false, direct_scatter},
    {COLLECTIVE_SCATTER, "tree", false, false, tree_blocks},
    {COLLECTIVE_SCATTER, "hierarchical", true, true, leaders_blocks},
    {COLLECTIVE_ALLGATHER, "ring", false, false, ring_all},
    {COLLECTIVE_ALLGATHER, "circulant", false, false, circulant_all},
    {COLLECTIVE_ALLGATHER, "hierarchical_tree", true, false, leaders_all},
    {COLLECTIVE_ALLGATHER, "hierarchical", true, false, rails_all},
    {COLLECTIVE_REDUCE_SCATTER, "ring", false, false, ring_all},
    {COLLECTIVE_REDUCE_SCATTER, "circulant", false, false, circulant_all},
    {COLLECTIVE_REDUCE_SCATTER, "hierarchical_tree", true, false, leaders_all},
    {COLLECTIVE_REDUCE_SCATTER, "hierarchical", true, false, rails_all},
    {COLLECTIVE_REDUCE_SCATTER, "direct", false, false, direct_reduce_scatter},
    {COLLECTIVE_ALLTOALL, "direct", false, false, direct_exchange},
    {COLLECTIVE_ALLTOALL, "pairwise", false, false, pairwise},
    {COLLECTIVE_ALLTOALL, "bruck", false, false, bruck},
    {COLLECTIVE_ALLTOALL, "hierarchical", true, false, rails_exchange},
    {COLLECTIVE_BARRIER, "dissemination", false, false, dissemination},
    {COLLECTIVE_BARRIER, "hierarchical", true, false, leaders_barrier},
};
const int network_candidate_count = sizeof network_candidates / sizeof *network_candidates;
