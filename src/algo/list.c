#include "algo/algo.h"

#include <stdlib.h>
#include <string.h>

#include "algo/generators.h"
#include "algo/levels.h"
#include "base/status.h"
#include "plan/rounding.h"

static const char OUT_OF_MEMORY[] = "out of memory while a plan was made";

/* The needs and promises of an algorithm, see struct algorithm. */
enum property {
    NONE = 0,
    CUBE = 1,          /* a power of two of ranks */
    COMMUTATIVE = 2,   /* needs a commutative operation */
    ONE_TREE = 4,      /* deterministic */
    RADIX = 8,         /* takes a radix */
    DIRECT = 16,       /* blocks pass through no other rank */
    LEVELS = 32,       /* needs the host map */
    RANK_ORDER = 64,   /* adds one rank after the other */
    ONE_PARTNER = 128, /* between hosts a rank keeps its partner */
    PACED = 256,       /* between hosts a rank sends to one partner after the other */
    OWNERS = 512,      /* of an allreduce: one rank completes each part of the result */
    TO_OWNERS = 1024,  /* the rank that completes a part has all contributions from their ranks,
                          on each level */
    UNITS = 2048       /* no message goes on behind the end of a block */
};

/* A chunk a pair of ranks has to be counted in 32 bits. */
enum { PAIRS_RANKS_MAX = PLAN_RANKS_MAX - 1 };

#define FOLKLORE "folklore"
#define THAKUR "Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005"
#define RABENSEIFNER "Rabenseifner, ICCS 2004"
#define PATARASUK "Patarasuk, Yuan, JPDC 69(2), 2009"
#define PJESIVAC "Pjesivac-Grbovic et al., Cluster Computing 10(2), 2007"
#define GEIJN "Barnett et al., SHPCC 1994"
#define BRUCK "Bruck, Ho, Kipnis, Weathersby, TPDS 8(11), 1997"
#define TRAEFF_REDUCE "Träff, arXiv:2410.14234, 2024"
#define TRAEFF_BROADCAST "Träff, arXiv:2407.18004, 2024"
#define FRAIGNIAUD "Fraigniaud, Lazard, Discrete Applied Mathematics 53, 1994"
#define HENSGEN "Hensgen, Finkel, Manber, IJPP 17(1), 1988"
#define SANDERS "Sanders, Speck, Träff, Parallel Computing 35(12), 2009"
#define SWING "De Sensi, Bonato, Saam, Hoefler, NSDI 2024"
#define BINE "De Sensi et al., SC 2025"
#define JAIN "Jain, Sabharwal, ICS 2010"

#define KARONIS "Karonis et al., IPDPS 2000"
#define CHO "Cho, Finkler, Kung, Hunter, MLSys 2019"
#define TRAEFF_HIERARCHY "Träff, Rougier, EuroMPI/ASIA 2014"

#define ENTRY(of, called, function, properties, what, price, origin)                               \
    {                                                                                              \
        .name = called, .collective = COLLECTIVE_##of, .generate = function,                       \
        .has_radix = ((properties)&RADIX) != 0, .needs_power_of_two = ((properties)&CUBE) != 0,    \
        .needs_levels = ((properties)&LEVELS) != 0,                                                \
        .needs_commutative = ((properties)&COMMUTATIVE) != 0,                                      \
        .deterministic = ((properties)&ONE_TREE) != 0,                                             \
        .adds_in_rank_order = ((properties)&RANK_ORDER) != 0,                                      \
        .is_direct = ((properties)&DIRECT) != 0, .keeps_partner = ((properties)&ONE_PARTNER) != 0, \
        .is_paced = ((properties)&PACED) != 0, .keeps_units = ((properties)&UNITS) != 0,           \
        .has_owners = COLLECTIVE_##of != COLLECTIVE_ALLREDUCE || ((properties)&OWNERS) != 0,       \
        .sends_to_owners = ((properties)&TO_OWNERS) != 0,                                          \
        .rank_count_max =                                                                          \
            COLLECTIVE_##of == COLLECTIVE_ALLTOALL ? PAIRS_RANKS_MAX : PLAN_RANKS_MAX,             \
        .summary = what, .cost = price, .source = origin                                           \
    }

/* The algorithm with the least latency comes first for each collective. n is the bytes of a vector,
 * or of all blocks together; S the number of pieces; k the radix (k-1 ports); lg is rounded up. A
 * torus has D dimensions of d_i ranks; N hosts have L ranks each, and the cost omits the work in a
 * host. */
const struct algorithm algo_list[] = {
    ENTRY(ALLREDUCE, "oneshot", mesh_oneshot, ONE_TREE | RANK_ORDER | UNITS,
          "everyone sends all to everyone and reduces all; smallest messages on one host",
          "alpha + (p-1) n beta + (p-1) n gamma", FOLKLORE),
    ENTRY(ALLREDUCE, "twoshot", mesh_twoshot, ONE_TREE | RANK_ORDER | OWNERS | TO_OWNERS | UNITS,
          "everyone reduces one part and sends it to everyone; medium to large on one host",
          "2 alpha + 2 (p-1)/p n beta + (p-1)/p n gamma", THAKUR),
    ENTRY(ALLREDUCE, "doubling", doubling_allreduce, ONE_TREE | UNITS,
          "recursive doubling; small messages over a network", "lg p (alpha + n beta + n gamma)",
          THAKUR),
    ENTRY(ALLREDUCE, "tree", tree_allreduce, ONE_TREE | RADIX | OWNERS | UNITS,
          "k-nomial reduce to 0 and broadcast; small messages, few links",
          "2 lg_k p (alpha + (k-1) n beta) + lg_k p (k-1) n gamma", BRUCK),
    ENTRY(
        ALLREDUCE, "leaders", leaders_allreduce, ONE_TREE | RADIX | UNITS,
        "k ranks add up those near them, and give each other the sums; small messages, ranks that "
        "share cores",
        "3 alpha + (2 (p/k-1) + k-1) (n beta + n gamma)", KARONIS),
    ENTRY(ALLREDUCE, "halving_doubling", halving_allreduce, ONE_TREE | OWNERS | UNITS,
          "recursive halving, then doubling; medium messages",
          "2 lg p alpha + 2 (p-1)/p n beta + (p-1)/p n gamma", RABENSEIFNER),
    ENTRY(ALLREDUCE, "ring", ring_allreduce, COMMUTATIVE | ONE_PARTNER | OWNERS | UNITS,
          "reduce_scatter and allgather around a ring; large messages",
          "2 (p-1) alpha + 2 (p-1)/p n beta + (p-1)/p n gamma", PATARASUK),
    ENTRY(ALLREDUCE, "chain", chain_allreduce, OWNERS | UNITS,
          "two halves along a chain in opposite directions, pipelined; very large messages",
          "(S+2p-3) (alpha + n/S beta + n/2S gamma)", PJESIVAC),
    ENTRY(ALLREDUCE, "relay", relay_allreduce, OWNERS | UNITS,
          "two halves along a chain, the results to all at once; many ranks on few cores",
          "(S+p-1) (alpha + n/S beta + n/2S gamma)", PJESIVAC),
    ENTRY(ALLREDUCE, "circulant", composed_allreduce, COMMUTATIVE | RADIX | OWNERS,
          "reduce_scatter and allgather on circulant graphs; medium messages, any number of ranks",
          "2 lg_k p alpha + 2 (p-1)/p n beta + (p-1)/p n gamma", TRAEFF_REDUCE),
    ENTRY(ALLREDUCE, "double_tree", double_tree_allreduce, COMMUTATIVE | OWNERS | UNITS,
          "two binary trees, half of the vector each, pipelined; large messages on many ranks",
          "(S + 2 lg p) (4 alpha + 2 n/S beta + n/S gamma)", SANDERS),
    ENTRY(ALLREDUCE, "swing_latency", swing_latency_allreduce, CUBE | COMMUTATIVE | ONE_TREE | UNITS,
          "recursive doubling with nearer partners; small messages on a ring or torus",
          "lg p (alpha + n beta + n gamma)", SWING),
    ENTRY(ALLREDUCE, "swing", swing_allreduce, CUBE | COMMUTATIVE | OWNERS | UNITS,
          "recursive halving with nearer partners; medium messages on a ring or torus",
          "2 lg p alpha + 2 (p-1)/p n beta + (p-1)/p n gamma", SWING),
    ENTRY(ALLREDUCE, "bine", bine_allreduce, CUBE | COMMUTATIVE | ONE_TREE | OWNERS | UNITS,
          "halving and doubling with nearer partners, the farthest first; medium messages",
          "2 lg p alpha + 2 (p-1)/p n beta + (p-1)/p n gamma", BINE),
    ENTRY(ALLREDUCE, "torus", torus_allreduce, COMMUTATIVE | OWNERS | UNITS,
          "rings in all dimensions and directions at once; large messages on a torus",
          "2 sum(d_i-1) alpha + 2 (p-1)/p n/2D beta + (p-1)/p n gamma", JAIN),
    ENTRY(ALLREDUCE, "direct", mesh_direct_allreduce,
          ONE_TREE | RANK_ORDER | OWNERS | TO_OWNERS | UNITS,
          "all send to 0, which sends the sum to all; small messages, few ranks that share cores",
          "2 alpha + 2 (p-1) n beta + (p-1) n gamma", FOLKLORE),
    ENTRY(ALLREDUCE, "hierarchical", hierarchical_allreduce, LEVELS | COMMUTATIVE | OWNERS,
          "a rail across hosts for every rank of a host, on circulant graphs; medium to large",
          "2 lg N alpha + 2 (N-1)/N n/L beta across", CHO),
    ENTRY(ALLREDUCE, "hierarchical_ring", hierarchical_ring_allreduce,
          LEVELS | COMMUTATIVE | ONE_PARTNER | OWNERS | UNITS,
          "a rail across hosts for every rank of a host, around rings; large messages",
          "2 (N-1) alpha + 2 (N-1)/N n/L beta across", CHO),
    ENTRY(ALLREDUCE, "hierarchical_direct", hierarchical_direct_allreduce,
          LEVELS | COMMUTATIVE | ONE_TREE | OWNERS | TO_OWNERS | UNITS,
          "a rail across hosts for every rank of a host, sums straight to their owners on each "
          "level; medium to large",
          "N alpha + 2 (N-1)/N n/L beta across", CHO),
    ENTRY(ALLREDUCE, "hierarchical_tree", hierarchical_tree_allreduce,
          LEVELS | COMMUTATIVE | ONE_TREE | UNITS,
          "through one leader a host, doubling between them; small messages",
          "lg N (alpha + n beta) across", KARONIS),

    ENTRY(REDUCE, "direct", mesh_reduce, ONE_TREE | RANK_ORDER | TO_OWNERS | UNITS,
          "all send to the root; small messages, few ranks", "alpha + (p-1) n beta + (p-1) n gamma",
          FOLKLORE),
    ENTRY(REDUCE, "tree", tree_reduce, COMMUTATIVE | ONE_TREE | RADIX | UNITS,
          "k-nomial tree; small messages", "lg_k p (alpha + (k-1) n beta + (k-1) n gamma)", BRUCK),
    ENTRY(REDUCE, "twoshot", composed_reduce_twoshot, ONE_TREE | RANK_ORDER | TO_OWNERS | UNITS,
          "direct reduce_scatter, then direct gather; medium to large on one host",
          "2 alpha + 2 (p-1)/p n beta + (p-1)/p n gamma", THAKUR),
    ENTRY(REDUCE, "reduce_scatter_gather", composed_reduce, COMMUTATIVE | ONE_TREE | RADIX,
          "recursive halving, then tree gather; medium messages",
          "2 lg p alpha + 2 (p-1)/p n beta + (p-1)/p n gamma", RABENSEIFNER),
    ENTRY(REDUCE, "chain", chain_reduce, COMMUTATIVE | ONE_TREE | ONE_PARTNER | UNITS,
          "pipelined chain; large messages", "(S+p-2) (alpha + n/S beta + n/S gamma)", PJESIVAC),
    ENTRY(REDUCE, "circulant", circulant_reduce, COMMUTATIVE | UNITS,
          "16 blocks in the fewest rounds; medium to large messages, many ranks",
          "(S-1 + lg p) (alpha + n/S beta + n/S gamma)", TRAEFF_BROADCAST),
    ENTRY(REDUCE, "double_tree", double_tree_reduce, COMMUTATIVE | UNITS,
          "two binary trees, half of the vector each, pipelined; large messages on many ranks",
          "(S + lg p) (2 alpha + n/S beta + n/S gamma)", SANDERS),
    ENTRY(REDUCE, "bine", bine_reduce, CUBE | COMMUTATIVE | ONE_TREE | UNITS,
          "binomial tree with nearer partners; small messages", "lg p (alpha + n beta + n gamma)",
          BINE),
    ENTRY(
        REDUCE, "hierarchical", hierarchical_reduce, LEVELS | COMMUTATIVE | UNITS,
        "a rail across hosts for every rank of a host, two trees on each; medium to large messages",
        "(S + lg N) (2 alpha + n/SL beta) across", CHO),
    ENTRY(REDUCE, "hierarchical_tree", hierarchical_tree_reduce,
          LEVELS | COMMUTATIVE | ONE_TREE | UNITS,
          "through one leader a host, a tree between them; small messages",
          "lg N (alpha + n beta) across", KARONIS),

    ENTRY(BROADCAST, "direct", mesh_broadcast, UNITS,
          "the root sends to all at once; one host, or few ranks",
          "alpha + n beta by multicast, (p-1) n beta without", FOLKLORE),
    ENTRY(BROADCAST, "tree", tree_broadcast, RADIX | UNITS, "k-nomial tree; small messages",
          "lg_k p (alpha + (k-1) n beta)", BRUCK),
    ENTRY(BROADCAST, "twoshot", composed_broadcast_twoshot, UNITS,
          "direct scatter, then direct allgather; medium messages", "2 alpha + 2 (p-1)/p n beta",
          THAKUR),
    ENTRY(BROADCAST, "scatter_allgather", composed_broadcast, RADIX,
          "tree scatter, then ring allgather; large messages",
          "(lg p + p-1) alpha + 2 (p-1)/p n beta", GEIJN),
    ENTRY(BROADCAST, "chain", chain_broadcast, ONE_PARTNER | UNITS,
          "pipelined chain; very large messages", "(S+p-2) (alpha + n/S beta)", PJESIVAC),
    ENTRY(BROADCAST, "circulant", circulant_broadcast, UNITS,
          "16 blocks in the fewest rounds; medium to large messages, many ranks",
          "(S-1 + lg p) (alpha + n/S beta)", TRAEFF_BROADCAST),
    ENTRY(BROADCAST, "double_tree", double_tree_broadcast, UNITS,
          "two binary trees, half of the vector each, pipelined; large messages on many ranks",
          "(S + lg p) (2 alpha + n/S beta)", SANDERS),
    ENTRY(BROADCAST, "bine", bine_broadcast, CUBE | UNITS,
          "binomial tree with nearer partners; small messages", "lg p (alpha + n beta)", BINE),
    ENTRY(
        BROADCAST, "hierarchical", hierarchical_broadcast, LEVELS | UNITS,
        "a rail across hosts for every rank of a host, two trees on each; medium to large messages",
        "(S + lg N) (2 alpha + n/SL beta) across", CHO),
    ENTRY(BROADCAST, "hierarchical_tree", hierarchical_tree_broadcast, LEVELS | UNITS,
          "through one leader a host, a tree between them; small messages",
          "lg N (alpha + n beta) across", KARONIS),

    ENTRY(GATHER, "direct", mesh_gather, DIRECT | UNITS,
          "all send to the root; large blocks, or one host", "alpha + (p-1)/p n beta", THAKUR),
    ENTRY(GATHER, "tree", tree_gather, RADIX, "k-nomial tree; small blocks",
          "lg_k p (k-1) alpha + (p-1)/p n beta", THAKUR),
    ENTRY(GATHER, "bine", bine_gather, CUBE, "binomial tree with nearer partners; small blocks",
          "lg p alpha + (p-1)/p n beta", BINE),
    ENTRY(GATHER, "hierarchical", hierarchical_gather, LEVELS,
          "all blocks of a host in one message, through leaders; small blocks",
          "lg N alpha + (N-1)/N n beta across", KARONIS),

    ENTRY(SCATTER, "direct", mesh_scatter, DIRECT | UNITS,
          "the root sends to all; large blocks, or one host", "alpha + (p-1)/p n beta", THAKUR),
    ENTRY(SCATTER, "tree", tree_scatter, RADIX, "k-nomial tree; small blocks",
          "lg_k p (k-1) alpha + (p-1)/p n beta", THAKUR),
    ENTRY(SCATTER, "bine", bine_scatter, CUBE, "binomial tree with nearer partners; small blocks",
          "lg p alpha + (p-1)/p n beta", BINE),
    ENTRY(SCATTER, "hierarchical", hierarchical_scatter, LEVELS,
          "all blocks of a host in one message, through leaders; small blocks",
          "lg N alpha + (N-1)/N n beta across", KARONIS),

    ENTRY(ALLGATHER, "direct", mesh_allgather, UNITS,
          "everyone sends its block to everyone; one host", "alpha + (p-1)/p n beta", THAKUR),
    ENTRY(ALLGATHER, "doubling", doubling_allgather, CUBE,
          "recursive doubling; small and medium blocks", "lg p alpha + (p-1)/p n beta", THAKUR),
    ENTRY(ALLGATHER, "gather_broadcast", composed_allgather, RADIX,
          "tree gather to 0, then tree broadcast; small blocks",
          "2 lg_k p (k-1) alpha + (1 + (k-1) lg_k p) n beta", GEIJN),
    ENTRY(ALLGATHER, "ring", ring_allgather, ONE_PARTNER | UNITS, "around a ring; large blocks",
          "(p-1) alpha + (p-1)/p n beta", PATARASUK),
    ENTRY(ALLGATHER, "circulant", circulant_allgather, RADIX,
          "circulant graph, all rounds alike; small and medium blocks, any number of ranks",
          "lg_k p alpha + (p-1)/p n beta", TRAEFF_REDUCE),
    ENTRY(ALLGATHER, "bruck", bruck_allgather, RADIX,
          "from powers of k further on; small and medium blocks, any number of ranks",
          "lg_k p alpha + (p-1)/p n beta", BRUCK),
    ENTRY(ALLGATHER, "swing", swing_allgather, CUBE,
          "recursive doubling with nearer partners; medium blocks on a ring or torus",
          "lg p alpha + (p-1)/p n beta", SWING),
    ENTRY(ALLGATHER, "bine", bine_allgather, CUBE,
          "recursive doubling with nearer partners, the nearest first; small and medium blocks",
          "lg p alpha + (p-1)/p n beta", BINE),
    ENTRY(ALLGATHER, "torus", torus_allgather, NONE,
          "rings in all dimensions and directions at once; large blocks on a torus",
          "sum(d_i-1) alpha + (p-1)/p n/2D beta", JAIN),
    ENTRY(ALLGATHER, "two_way_ring", ring_allgather_two_ways, UNITS,
          "half way round a ring in both directions; large blocks",
          "p/2 alpha + 1/2 n beta on each of two links", FRAIGNIAUD),
    ENTRY(ALLGATHER, "hierarchical", hierarchical_allgather, LEVELS | ONE_PARTNER | UNITS,
          "a rail across hosts for every rank of a host, around rings; large blocks",
          "(N-1) alpha + (N-1)/N n/L beta across", CHO),
    ENTRY(ALLGATHER, "hierarchical_tree", hierarchical_tree_allgather, LEVELS,
          "all blocks of a host in one message, through leaders; small blocks",
          "lg N alpha + (N-1)/N n beta across", KARONIS),

    ENTRY(REDUCE_SCATTER, "direct", mesh_reduce_scatter, ONE_TREE | RANK_ORDER | TO_OWNERS | UNITS,
          "block j to rank j, reduced there; one host", "alpha + (p-1)/p n beta + (p-1)/p n gamma",
          THAKUR),
    ENTRY(REDUCE_SCATTER, "halving", halving_reduce_scatter, COMMUTATIVE | ONE_TREE,
          "recursive halving; small and medium blocks",
          "lg p alpha + (p-1)/p n beta + (p-1)/p n gamma", RABENSEIFNER),
    ENTRY(REDUCE_SCATTER, "pairwise", pairwise_reduce_scatter, COMMUTATIVE | TO_OWNERS | UNITS,
          "one exchange at a time; large blocks", "(p-1) alpha + (p-1)/p n beta + (p-1)/p n gamma",
          THAKUR),
    ENTRY(REDUCE_SCATTER, "ring", ring_reduce_scatter, COMMUTATIVE | ONE_PARTNER | UNITS,
          "around a ring; large blocks", "(p-1) alpha + (p-1)/p n beta + (p-1)/p n gamma", PATARASUK),
    ENTRY(REDUCE_SCATTER, "circulant", circulant_reduce_scatter, COMMUTATIVE | RADIX,
          "circulant graph; small and medium blocks, any number of ranks",
          "lg_k p alpha + (p-1)/p n beta + (p-1)/p n gamma", TRAEFF_REDUCE),
    ENTRY(REDUCE_SCATTER, "swing", swing_reduce_scatter, CUBE | COMMUTATIVE,
          "recursive halving with nearer partners; medium blocks on a ring or torus",
          "lg p alpha + (p-1)/p n beta + (p-1)/p n gamma", SWING),
    ENTRY(REDUCE_SCATTER, "bine", bine_reduce_scatter, CUBE | COMMUTATIVE | ONE_TREE,
          "recursive halving with nearer partners, the farthest first; small and medium blocks",
          "lg p alpha + (p-1)/p n beta + (p-1)/p n gamma", BINE),
    ENTRY(REDUCE_SCATTER, "torus", torus_reduce_scatter, COMMUTATIVE,
          "rings in all dimensions and directions at once; large blocks on a torus",
          "sum(d_i-1) alpha + (p-1)/p n/2D beta + (p-1)/p n gamma", JAIN),
    ENTRY(REDUCE_SCATTER, "hierarchical", hierarchical_reduce_scatter,
          LEVELS | COMMUTATIVE | ONE_PARTNER | UNITS,
          "a rail across hosts for every rank of a host, around rings; large blocks",
          "(N-1) alpha + (N-1)/N n/L beta across", CHO),
    ENTRY(REDUCE_SCATTER, "hierarchical_direct", hierarchical_direct_reduce_scatter,
          LEVELS | COMMUTATIVE | ONE_TREE | TO_OWNERS | UNITS,
          "a rail across hosts for every rank of a host, sums straight to their owners on each "
          "level; large blocks",
          "alpha + (N-1)/N n/L beta across", CHO),
    ENTRY(REDUCE_SCATTER, "hierarchical_tree", hierarchical_tree_reduce_scatter,
          LEVELS | COMMUTATIVE, "all blocks of a host in one message, through leaders; small blocks",
          "lg N alpha + (N-1)/N n beta across", KARONIS),

    ENTRY(ALLTOALL, "direct", mesh_alltoall, DIRECT | UNITS,
          "all blocks at once; small and medium blocks", "alpha + (p-1)/p n beta", THAKUR),
    ENTRY(ALLTOALL, "pairwise", pairwise_alltoall, DIRECT | PACED | UNITS,
          "one exchange at a time; large blocks", "(p-1) alpha + (p-1)/p n beta", THAKUR),
    ENTRY(ALLTOALL, "bruck", bruck_alltoall, RADIX,
          "a digit of the way at a time, many blocks in a message; small blocks",
          "(k-1) lg_k p alpha + (k-1)/k lg_k p n beta", BRUCK),
    ENTRY(
        ALLTOALL, "hierarchical", hierarchical_alltoall, LEVELS,
        "one message a rail and pair of hosts, with the blocks of a host; small and medium blocks",
        "(N-1) alpha + (N-1)/N n beta across", TRAEFF_HIERARCHY),

    ENTRY(BARRIER, "mesh", mesh_barrier, NONE, "everyone tells everyone; one host", "alpha",
          FOLKLORE),
    ENTRY(BARRIER, "dissemination", doubling_barrier, RADIX, "powers of k further on, 1, 2, 4, ...",
          "lg_k p alpha", HENSGEN),
    ENTRY(BARRIER, "tree", tree_barrier, RADIX, "up and down a k-nomial tree; few messages",
          "2 lg_k p alpha", BRUCK),
    ENTRY(BARRIER, "hierarchical", hierarchical_barrier, LEVELS,
          "leaders of hosts at powers of 2 further on; few messages across hosts",
          "lg N alpha across", KARONIS),
};
const int algo_count = sizeof algo_list / sizeof *algo_list;

const struct algorithm *algo_find(enum collective collective, const char *name)
{
    for (int i = 0; i < algo_count; i++)
        if (algo_list[i].collective == collective && strcmp(algo_list[i].name, name) == 0)
            return &algo_list[i];
    return NULL;
}

/* Digits and nothing else; 0 when it is not a radix. */
static unsigned parse_radix(const char *text)
{
    unsigned radix = 0;
    if (*text == '0') return 0;
    for (; *text >= '0' && *text <= '9' && radix <= ALGO_RADIX_MAX; text++)
        radix = radix * 10 + (unsigned)(*text - '0');
    return *text == '\0' && radix >= ALGO_RADIX_MIN && radix <= ALGO_RADIX_MAX ? radix : 0;
}

bool algo_parse(enum collective collective, const char *text, const struct algorithm **algorithm,
                unsigned *radix)
{
    const size_t length = strcspn(text, "/");
    const unsigned number = text[length] == '/' ? parse_radix(text + length + 1) : 0;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *candidate = &algo_list[i];
        if (candidate->collective != collective || strlen(candidate->name) != length ||
            memcmp(candidate->name, text, length) != 0)
            continue;
        if (text[length] == '/' && (number == 0 || !candidate->has_radix)) return false;
        *algorithm = candidate;
        *radix = number;
        return true;
    }
    return false;
}

bool algo_supports(const struct algorithm *algorithm, int rank_count)
{
    return !algorithm->needs_levels && algo_supports_levels(algorithm, rank_count);
}

bool algo_supports_levels(const struct algorithm *algorithm, int rank_count)
{
    if (rank_count < 1 || rank_count > algorithm->rank_count_max) return false;
    if (algorithm->plan != NULL) return rank_count == algorithm->plan->shape.rank_count;
    return !algorithm->needs_power_of_two || is_power_of_two(rank_count);
}

enum tutti_status algo_check_order(const int *order, int rank_count, const char **message)
{
    *message = OUT_OF_MEMORY;
    bool *const seen = calloc((size_t)rank_count, sizeof *seen);
    if (seen == NULL) return TUTTI_NO_MEMORY;
    *message = NULL;
    for (int i = 0; i < rank_count && *message == NULL; i++) {
        if (order[i] < 0 || order[i] >= rank_count)
            *message = "the order of ranks names one that is not there";
        else if (seen[order[i]])
            *message = "the order of ranks names one twice";
        else
            seen[order[i]] = true;
    }
    free(seen);
    return *message == NULL ? TUTTI_OK : TUTTI_INVALID_RANK;
}

/* Whether there can be a plan at all. */
static enum tutti_status check_params(const struct algorithm *algorithm,
                                      const struct algo_params *params, const char **message)
{
    if (params->collective != algorithm->collective) {
        *message = "the algorithm is one of another collective";
        return TUTTI_INVALID_ALGORITHM;
    }
    if (!algo_supports_levels(algorithm, params->rank_count)) {
        *message = "the algorithm cannot do this number of ranks";
        return TUTTI_INVALID_ALGORITHM;
    }
    if (algorithm->needs_levels && params->levels == NULL) {
        *message = "the algorithm needs to know which ranks are on one host";
        return TUTTI_INVALID_ALGORITHM;
    }
    if (algorithm->plan != NULL && params->root != algorithm->plan->shape.root &&
        collective_is_rooted(algorithm->collective)) {
        *message = "the plan is for another root";
        return TUTTI_INVALID_ALGORITHM;
    }
    if (params->order != NULL) TRY(algo_check_order(params->order, params->rank_count, message));
    if (params->levels == NULL) return TUTTI_OK;
    return algo_check_levels(params->levels, params->rank_count, message);
}

/* One rank's plan, of checked parameters. */
static enum tutti_status make_rank_plan(const struct algorithm *algorithm,
                                        const struct algo_params *params, int rank,
                                        struct rank_plan **rank_plan, const char **message)
{
    if (algorithm->plan == NULL) {
        TRY(generate_rank_plan(algorithm->generate, params, rank, rank_plan, message));
    } else {
        *rank_plan = plan_rank_copy(algorithm->plan->ranks[rank]);
    }
    const bool rounds = params->encodes && params->in_place;
    if (*rank_plan != NULL && (!rounds || rounding_of_own_block(*rank_plan))) return TUTTI_OK;
    plan_rank_free(*rank_plan);
    *rank_plan = NULL;
    *message = OUT_OF_MEMORY;
    return TUTTI_NO_MEMORY;
}

enum tutti_status algo_rank_plan(const struct algorithm *algorithm, const struct algo_params *params,
                                 int rank, struct rank_plan **rank_plan, const char **message)
{
    *rank_plan = NULL;
    TRY(check_params(algorithm, params, message));
    return make_rank_plan(algorithm, params, rank, rank_plan, message);
}

enum tutti_status algo_plan(const struct algorithm *algorithm, const struct algo_params *params,
                            struct plan **plan, const char **message)
{
    *plan = NULL;
    TRY(check_params(algorithm, params, message));
    *message = OUT_OF_MEMORY;
    struct plan *whole = calloc(1, sizeof *whole);
    if (whole == NULL) return TUTTI_NO_MEMORY;
    enum tutti_status status = TUTTI_NO_MEMORY;
    whole->shape.rank_count = params->rank_count;
    whole->ranks = calloc((size_t)params->rank_count, sizeof(struct rank_plan *));
    if (whole->ranks == NULL) goto free_plan;
    for (int rank = 0; rank < params->rank_count; rank++) {
        status = make_rank_plan(algorithm, params, rank, &whole->ranks[rank], message);
        if (status != TUTTI_OK) goto free_plan;
    }
    whole->shape = whole->ranks[0]->shape;
    *plan = whole;
    return TUTTI_OK;

free_plan:
    plan_free(whole);
    return status;
}
