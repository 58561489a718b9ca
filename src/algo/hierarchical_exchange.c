/* hierarchical_exchange.c - all-to-all and barrier for ranks on hosts (levels.h).
 *
 * All-to-all. All blocks of a host's ranks for one rank elsewhere go there in one message, from the
 * rank of the host that is on the same rail:
 *
 *     host 0             host 1           to rank 5 (rail 1 of host 1)
 *     rank 0 --+         rank 4
 *     rank 1 --o=======> rank 5           rank 1 collects the blocks 0->5, 1->5, 2->5 and sends them
 *     rank 2 --+         rank 6           at once; it does so for the ranks of rail 1 on all hosts
 *
 *     lane 0    round t: exchange in the host the blocks for the t-th destination of everybody,
 *               send those for ours
 *     lane 1    messages from other hosts, as they come
 *
 * Cost: (N-1) alpha + (N-1)/N n beta for N hosts, of n bytes that a rank sends; pairwise takes L
 * times as many alphas.  In a host every block goes once more from rank to rank.  A host of fewer
 * ranks has ranks on several rails, who send a message to each.  Only the level of hosts is heeded.
 *
 * A pair of ranks exchanges one message across hosts, so neither waits for room. If the ranks of
 * the sending host are no run, a message is unpacked by copies.
 *
 * Barrier. Ranks tell their leader, leaders tell theirs, the leaders at the top tell each other by
 * dissemination, and it all goes back; leaders are first ranks. Cost: lg N alpha across, and both
 * ways through the levels below.
 *
 * Source: Träff, Rougier, "MPI Collectives and Datatypes for Hierarchical All-to-all
 * Communication", EuroMPI/ASIA 2014; Karonis et al. 2000 (see hierarchical.c); Hensgen et al. 1988
 * (see doubling.c).
 */
#include <stdlib.h>

#include "algo/circulant.h"
#include "algo/generators.h"
#include "algo/levels.h"

static const char OUT_OF_MEMORY[] = "out of memory while a hierarchical plan was made";

/* ----------------------------------------------------------------------------------- all-to-all */

struct exchange {
    struct plan_builder *b;
    struct hierarchy h;
    bool in_place;
    uint32_t ranks;
    int self;                          /* position */
    int hosts_level;                   /* whose units are the hosts */
    int host, first, size, host_count; /* this rank's, its first position, its ranks; all hosts */
    /* Destinations on other hosts, by the member of our host that sends to them: member m has
     * destinations[begin[m]] .. destinations[begin[m+1]-1], the next host's first. */
    int *begin, *destinations;
};

static int rank_of(const struct exchange *e, int position)
{
    return e->h.order[position];
}

static int host_of(const struct exchange *e, int position)
{
    return e->h.unit_of[e->hosts_level][position];
}

/* The member of a host that has the host's blocks for a position on another host. */
static int carrier_in(const struct exchange *e, int host, int position)
{
    const int size = hierarchy_unit_size(&e->h, e->hosts_level, host);
    if (size == 1) return 0;
    return shard_owner(e->h.shard_count[0], size, hierarchy_block_shard(&e->h, 0, position));
}

/* Host after host from the one behind ours on, each with all its positions in turn. */
static int position_further_on(const struct exchange *e, int i)
{
    return (e->first + e->size + i) % e->h.rank_count;
}

static bool sort_destinations(struct exchange *e)
{
    const int elsewhere = e->h.rank_count - e->size;
    e->begin = calloc((size_t)e->size + 2, sizeof *e->begin);
    e->destinations = malloc(sizeof *e->destinations * ((size_t)elsewhere + 1));
    if (e->begin == NULL || e->destinations == NULL) return false;
    for (int i = 0; i < elsewhere; i++)
        e->begin[carrier_in(e, e->host, position_further_on(e, i)) + 2]++;
    for (int m = 0; m < e->size; m++) e->begin[m + 2] += e->begin[m + 1];
    for (int i = 0; i < elsewhere; i++) {
        const int position = position_further_on(e, i);
        e->destinations[e->begin[carrier_in(e, e->host, position) + 1]++] = position;
    }
    return true;
}

static void exchange_release(struct exchange *e)
{
    free(e->begin);
    free(e->destinations);
    hierarchy_release(&e->h);
}

static bool exchange_init(struct exchange *e, const struct algo_params *params, int rank,
                          struct plan_builder *b)
{
    *e = (struct exchange){
        .b = b, .in_place = params->in_place, .ranks = (uint32_t)params->rank_count};
    if (hierarchy_init(&e->h, params->levels, params->order, params->rank_count) != TUTTI_OK)
        goto fail;
    e->self = e->h.position[rank];
    e->hosts_level = e->h.top > 0 ? 1 : 0;
    e->host = host_of(e, e->self);
    e->first = e->h.units[e->hosts_level][e->host];
    e->size = hierarchy_unit_size(&e->h, e->hosts_level, e->host);
    e->host_count = e->h.unit_count[e->hosts_level];
    if (sort_destinations(e)) return true;
    exchange_release(e);
fail:
    plan_fail(b, TUTTI_NO_MEMORY, OUT_OF_MEMORY);
    return false;
}

static uint32_t class_between(const struct exchange *e, int source, int destination)
{
    return (uint32_t)rank_of(e, source) * e->ranks + (uint32_t)rank_of(e, destination);
}

/* The position of the member of our host that comes so far behind us. */
static int local_at(const struct exchange *e, int distance)
{
    return e->first + rank_at(e->self - e->first, distance, e->size);
}

/* Our block for a position, to a rank of our host.  In place a result will come where it lies. */
static uint32_t send_block(struct exchange *e, int destination, int to)
{
    const uint32_t copy =
        e->in_place ? plan_scratch(e->b, class_between(e, e->self, destination)) : 0;
    plan_begin(e->b, 1);
    plan_read(e->b, PLAN_INPUT, (uint32_t)rank_of(e, destination));
    if (e->in_place) plan_write(e->b, PLAN_SCRATCH, copy);
    plan_send(e->b, rank_of(e, to));
    return plan_end(e->b);
}

static void exchange_in_host(struct exchange *e)
{
    for (int k = 1; k < e->size; k++) send_block(e, local_at(e, k), local_at(e, k));
    for (int k = 1; k < e->size; k++) {
        const int peer = rank_of(e, local_at(e, -k));
        plan_receive_to(e->b, peer, PLAN_OUTPUT, (uint32_t)peer, 1);
    }
}

/* The blocks of all of the host for one destination, in the order of positions. */
static void collect_and_send(struct exchange *e, int destination)
{
    const int own = e->self - e->first;
    uint32_t blocks = 0;
    for (int i = 0; i < e->size; i++) {
        const uint32_t chunk = plan_scratch(e->b, class_between(e, e->first + i, destination));
        if (i == 0) blocks = chunk;
    }
    plan_copy(e->b, PLAN_INPUT, (uint32_t)rank_of(e, destination), PLAN_SCRATCH,
              blocks + (uint32_t)own, 1);
    for (int k = 1; k < e->size; k++) {
        const int peer = local_at(e, -k);
        plan_receive_to(e->b, rank_of(e, peer), PLAN_SCRATCH, blocks + (uint32_t)(peer - e->first),
                        1);
    }
    plan_send_from(e->b, rank_of(e, destination), PLAN_SCRATCH, blocks, (uint32_t)e->size);
}

static int destination_count(const struct exchange *e, int member)
{
    return e->begin[member + 1] - e->begin[member];
}

/* Everything that is sent. */
static void send_across(struct exchange *e)
{
    const int own = e->self - e->first;
    int rounds = 0;
    for (int m = 0; m < e->size; m++)
        if (destination_count(e, m) > rounds) rounds = destination_count(e, m);
    for (int t = 0; t < rounds; t++) {
        for (int k = 1; k < e->size; k++) {
            const int member = local_at(e, k) - e->first;
            if (t < destination_count(e, member))
                send_block(e, e->destinations[e->begin[member] + t], e->first + member);
        }
        if (t >= destination_count(e, own)) continue;
        const int destination = e->destinations[e->begin[own] + t];
        if (e->size > 1)
            collect_and_send(e, destination);
        else
            send_block(e, destination, destination);
    }
}

static bool is_run(const struct exchange *e, int first, int count)
{
    for (int i = 1; i < count; i++)
        if (rank_of(e, first + i) != rank_of(e, first) + i) return false;
    return true;
}

/* The message of another host.  In place its blocks come where ours for that host lay. */
static void receive_from_host(struct exchange *e, int host, const uint32_t *sent)
{
    const int first = e->h.units[e->hosts_level][host];
    const int count = hierarchy_unit_size(&e->h, e->hosts_level, host);
    const bool as_it_is = is_run(e, first, count);
    uint32_t blocks = (uint32_t)rank_of(e, first);
    for (int i = 0; i < count && !as_it_is; i++) {
        const uint32_t chunk = plan_scratch(e->b, class_between(e, first + i, e->self));
        if (i == 0) blocks = chunk;
    }
    plan_begin(e->b, (uint32_t)count);
    plan_receive(e->b, rank_of(e, first + carrier_in(e, host, e->self)));
    plan_write(e->b, as_it_is ? PLAN_OUTPUT : PLAN_SCRATCH, blocks);
    if (sent != NULL) plan_after(e->b, *sent);
    plan_end(e->b);
    for (int i = 0; i < count && !as_it_is; i++)
        plan_copy(e->b, PLAN_SCRATCH, blocks + (uint32_t)i, PLAN_OUTPUT,
                  (uint32_t)rank_of(e, first + i), 1);
}

void hierarchical_alltoall(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct exchange e;
    if (!exchange_init(&e, params, rank, b)) return;
    plan_lane(b);
    exchange_in_host(&e);
    send_across(&e);
    /* A copy of a place onto itself: its end tells that all of our blocks have left where they
     * lay. */
    const uint32_t own = (uint32_t)rank;
    const uint32_t sent = plan_copy(b, PLAN_INPUT, own, PLAN_OUTPUT, own, 1);
    plan_lane(b);
    for (int k = 1; k < e.host_count; k++)
        receive_from_host(&e, rank_at(e.host, -k, e.host_count),
                          e.in_place && k == 1 ? &sent : NULL);
    exchange_release(&e);
}

/* -------------------------------------------------------------------------------------- barrier */

struct post {
    struct plan_builder *b;
    struct hierarchy h;
    int self;
};

static int leader_at(const struct post *post, int level, int unit)
{
    return hierarchy_leader(&post->h, level, unit, 0);
}

static bool is_leader(const struct post *post, int level)
{
    return leader_at(post, level, post->h.unit_of[level][post->self]) == post->self;
}

typedef void say_to(struct plan_builder *b, int peer);

/* Applies `say` to the ranks that this rank leads in its team at one level. */
static void say_to_members(struct post *post, int level, say_to *say)
{
    const int team = hierarchy_subgroup(&post->h, level, post->self);
    const struct level_members members = hierarchy_members(&post->h, level, team);
    for (int i = 0; i < members.count; i++) {
        const int position = leader_at(post, level, members.first + i);
        if (position != post->self) say(post->b, post->h.order[position]);
    }
}

static void receive_from_members(struct post *post)
{
    for (int level = 0; level < post->h.top && is_leader(post, level + 1); level++)
        say_to_members(post, level, plan_receive);
}

/* Sends to the members at the highest level first: their message has the farthest to go. */
static void send_to_members(struct post *post)
{
    for (int level = post->h.top - 1; level >= 0; level--)
        if (is_leader(post, level + 1)) say_to_members(post, level, plan_send);
}

static void wait_for_leader(struct post *post)
{
    int level = 0;
    while (is_leader(post, level + 1)) level++;
    const int leader =
        post->h.order[leader_at(post, level + 1, hierarchy_subgroup(&post->h, level, post->self))];
    plan_begin(post->b, 0);
    plan_read(post->b, PLAN_INPUT, 0);
    receive_from_members(post);
    plan_send(post->b, leader);
    plan_end(post->b);
    plan_begin(post->b, 0);
    plan_receive(post->b, leader);
    plan_write(post->b, PLAN_OUTPUT, 0);
    send_to_members(post);
    plan_end(post->b);
}

static int leader_further_on(const struct post *post, int distance)
{
    const int count = post->h.unit_count[post->h.top];
    const int own = post->h.unit_of[post->h.top][post->self];
    return post->h.order[leader_at(post, post->h.top, rank_at(own, distance, count))];
}

static void disseminate(struct post *post)
{
    const struct circulant circulant = circulant_of_powers(post->h.unit_count[post->h.top], 2);
    for (int round = 0; round <= circulant.round_count; round++) {
        plan_begin(post->b, 0);
        if (round == 0) {
            plan_read(post->b, PLAN_INPUT, 0);
            receive_from_members(post);
        } else {
            plan_receive(post->b, leader_further_on(post, -circulant.skips[round - 1]));
        }
        if (round < circulant.round_count) {
            plan_send(post->b, leader_further_on(post, circulant.skips[round]));
        } else {
            plan_write(post->b, PLAN_OUTPUT, 0);
            send_to_members(post);
        }
        plan_end(post->b);
    }
}

void hierarchical_barrier(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct post post = {.b = b};
    if (hierarchy_init(&post.h, params->levels, params->order, params->rank_count) != TUTTI_OK) {
        plan_fail(b, TUTTI_NO_MEMORY, OUT_OF_MEMORY);
        return;
    }
    post.self = post.h.position[rank];
    plan_lane(b);
    if (is_leader(&post, post.h.top))
        disseminate(&post);
    else
        wait_for_leader(&post);
    hierarchy_release(&post.h);
}
