/* The three small numbers are n, 2n and 4n. Let d be the cost of 2n minus that of n, and e that of
 * 4n minus that of 2n:
 *
 *     e > d     A + B lg n + C n: C n is e - d, B is 2d - e
 *     e > 2d    A + C n + E n^2, as of messages between all ranks that one card or memory carries
 *     e < d     A + B lg n - D/n: the rest of a vector without the own part, (n-1)/n of
 *               it; D/n is 4 (d - e), B is 2e - d
 *
 * Terms that grow with n multiply over the dimensions, like the rounds of a ring; terms that grow
 * with lg n add, like those of a tree.
 *
 * The cost of 4n is known to be at least something before 4n is simulated: no plan takes less than
 * one of its ranks needs for its messages to other hosts. With n and 2n, that is often enough to
 * see that an algorithm is too expensive. So all dimensions get to 2n before one of them gets to
 * 4n, which takes most of the work.
 */
#include "tune/estimate.h"

#include <assert.h>
#include <stdlib.h>

#include "algo/levels.h"
#include "base/status.h"

enum {
    RANKS_MAX = 32, /* that are simulated as they are */
    FEW_PIECES = 8,
    FEW_RANKS = 16, /* with more, half as many pieces are enough */
    POINTS = 3,
    POINTS_RATIO = 4,   /* of the last to the first */
    DIMENSION_LEAST = 4 /* below, a dimension is small already */
};
#define TIME_MAX (INT64_MAX / 8)

enum dimension { HOST_RANKS, RACK_HOSTS, RACKS, DIMENSIONS };
static_assert((int)DIMENSIONS == (int)ESTIMATE_DIMENSIONS, "as in struct estimate_shape");

static int rank_count_of(const struct estimate_shape *shape)
{
    return shape->of[HOST_RANKS] * shape->of[RACK_HOSTS] * shape->of[RACKS];
}

/* ---------------------------------------------------------------------------------- many pieces */

static uint64_t largest_step(const struct plan *plan, size_t count, size_t element_bytes)
{
    const size_t part = (count + plan->shape.parts - 1) / plan->shape.parts;
    uint32_t chunks = 0;
    for (int r = 0; r < plan->shape.rank_count; r++)
        for (uint32_t i = 0; i < plan->ranks[r]->step_count; i++)
            if (plan->ranks[r]->steps[i].chunk_count > chunks)
                chunks = plan->ranks[r]->steps[i].chunk_count;
    return (uint64_t)chunks * part * element_bytes;
}

static uint64_t beyond(uint64_t one, uint64_t two, size_t part, size_t twice, size_t whole)
{
    if (two <= one) return two;
    const unsigned __int128 more = (unsigned __int128)(two - one) * (whole - twice) / (twice - part);
    return more < TIME_MAX - two ? two + (uint64_t)more : TIME_MAX;
}

static enum tutti_status simulate(const struct predict_job *job, const struct plan *plan,
                                  const struct wiring *wiring, struct model_result *result)
{
    const uint64_t largest = largest_step(plan, job->count, job->element_bytes),
                   piece = model_piece_bytes(job->machine, largest), pieces = largest / piece;
    const size_t few = plan->shape.rank_count > FEW_RANKS ? FEW_PIECES / 2 : FEW_PIECES;
    const size_t part = pieces > 0 ? (size_t)(job->count / pieces * few) : 0;
    if (pieces <= 2 * few || part == 0)
        return model_simulate(plan, wiring, job->machine, job->count, job->element_bytes, result);
    struct model_result one = {.time_ps = 0};
    TRY(model_simulate_part(plan, wiring, job->machine, part, job->count, job->element_bytes, &one));
    TRY(model_simulate_part(plan, wiring, job->machine, 2 * part, job->count, job->element_bytes,
                            result));
    result->events += one.events;
    result->time_ps = beyond(one.time_ps, result->time_ps, part, 2 * part, job->count);
    for (int r = 0; r < MODEL_RESOURCES; r++)
        result->loads[r].busy_ps =
            beyond(one.loads[r].busy_ps, result->loads[r].busy_ps, part, 2 * part, job->count);
    model_wait_for_busiest(
        result); /* a part may be too short to fill a long chain of ranks, which then seems to take in the next part at once */
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------- small shapes */

/* A job of fewer ranks, with the memory to which it points. */
struct small {
    struct estimate_shape shape;
    struct predict_job job;
    struct model_machine machine;
    struct algo_levels levels;
    int *host_of, *rack_of_host, *cores_of, *rack_of, *order;
};

static void small_release(struct small *small)
{
    free(small->host_of);
    free(small->rack_of_host);
    free(small->cores_of);
    free(small->rack_of);
    free(small->order);
}

/* The order that a communicator would have: by hosts, or by cores if ranks are tied to cores that
 * they share; the model's cores are dealt to ranks in turns. */
static enum tutti_status find_order(struct small *small)
{
    const int ranks = small->machine.rank_count, cores = small->machine.core_count;
    small->order = malloc((size_t)ranks * sizeof *small->order);
    if (small->order == NULL) return error_set(TUTTI_NO_MEMORY, "an estimate: out of memory");
    small->job.order = small->order;
    if (small->job.levels != NULL)
        return algo_order_by_levels(small->job.levels, ranks, small->order);
    int place = 0;
    for (int core = 0; core < cores; core++)
        for (int r = core; r < ranks; r += cores) small->order[place++] = r;
    return TUTTI_OK;
}

/* Hosts that all share their cores still do. Hosts of several machines each have their machine's
 * part of the cores. */
static enum tutti_status share_cores(struct small *small, const struct predict_job *job)
{
    struct model_machine *const machine = &small->machine;
    const int sharers = small->shape.sharers;
    machine->cores_of = NULL;
    if (sharers < job->machine->host_count) {
        machine->core_count = machine->core_count > sharers ? machine->core_count / sharers : 1;
        return TUTTI_OK;
    }
    small->cores_of = calloc((size_t)machine->host_count, sizeof *small->cores_of);
    machine->cores_of = small->cores_of; /* host 0's */
    if (small->cores_of == NULL) return error_set(TUTTI_NO_MEMORY, "an estimate: out of memory");
    return TUTTI_OK;
}

static enum tutti_status place(struct small *small, const struct predict_job *job)
{
    const struct estimate_shape *shape = &small->shape;
    const int ranks = rank_count_of(shape), hosts = shape->of[RACK_HOSTS] * shape->of[RACKS];
    small->host_of = malloc((size_t)ranks * sizeof *small->host_of);
    small->rack_of = malloc((size_t)ranks * sizeof *small->rack_of);
    small->rack_of_host = malloc((size_t)hosts * sizeof *small->rack_of_host);
    if (small->host_of == NULL || small->rack_of == NULL || small->rack_of_host == NULL)
        return error_set(TUTTI_NO_MEMORY, "an estimate: out of memory");
    for (int h = 0; h < hosts; h++)
        small->rack_of_host[h] =
            shape->hosts_in_turns ? h % shape->of[RACKS] : h / shape->of[RACK_HOSTS];
    for (int r = 0; r < ranks; r++) {
        small->host_of[r] = shape->ranks_in_turns ? r % hosts : r / shape->of[HOST_RANKS];
        small->rack_of[r] = small->rack_of_host[small->host_of[r]];
    }
    small->machine = *job->machine;
    small->machine.rank_count = ranks;
    small->machine.host_permille = NULL;
    small->job = *job;
    small->job.machine = &small->machine;
    small->job.root = 0;
    small->job.order = NULL;
    if (job->levels == NULL) return job->order != NULL ? find_order(small) : TUTTI_OK;
    small->levels = (struct algo_levels){1, {small->host_of}};
    if (shape->of[RACKS] > 1) small->levels.group_of[small->levels.level_count++] = small->rack_of;
    small->job.levels = &small->levels;
    if (job->machine->host_count == 1) return TUTTI_OK; /* strangers on one host */
    small->machine.host_of = small->host_of;
    small->machine.rack_of = shape->of[RACKS] > 1 ? small->rack_of_host : NULL;
    small->machine.host_count = hosts;
    small->machine.rack_count = shape->of[RACKS];
    if (job->machine->cores_of != NULL) TRY(share_cores(small, job));
    if (job->order != NULL && (shape->ranks_in_turns || shape->hosts_in_turns))
        return find_order(small);
    return TUTTI_OK;
}

/* The job's count is that of the large job. The caller releases *small after any outcome. */
static enum tutti_status small_init(struct small *small, const struct estimate_shape *shape,
                                    const struct predict_job *job)
{
    *small = (struct small){.shape = *shape};
    return place(small, job);
}

/* -------------------------------------------------------------------------------- what there is */

/* Groups have numbers of any kind. */
static int count_groups(const int *group_of, const int *within, int rank_count)
{
    int count = 0;
    for (int r = 0; r < rank_count; r++)
        count += r == 0 || group_of[r] != group_of[r - 1] ||
                 (within != NULL && within[r] != within[r - 1]);
    return count;
}

/* The shape of the machine; ranks on one host that reach each other over its network count as if
 * each had a host of its own. */
void estimate_shape_of(const struct predict_job *job, struct estimate_shape *shape)
{
    const struct model_machine *machine = job->machine;
    const int ranks = machine->rank_count;
    *shape = (struct estimate_shape){{ranks, 1, 1}, false, false, 1};
    if (job->levels == NULL) return;
    if (machine->host_count == 1) {
        *shape = (struct estimate_shape){{1, ranks, 1}, false, false, 1};
        return;
    }
    const int hosts = machine->host_count, racks = machine->rack_count;
    shape->of[HOST_RANKS] = (ranks + hosts - 1) / hosts;
    shape->of[RACK_HOSTS] = (hosts + racks - 1) / racks;
    shape->of[RACKS] = racks;
    shape->ranks_in_turns =
        shape->of[HOST_RANKS] > 1 && count_groups(machine->host_of, NULL, ranks) > hosts;
    shape->hosts_in_turns = shape->of[RACK_HOSTS] > 1 && racks > 1 &&
                            count_groups(machine->rack_of, NULL, hosts) > racks;
    int machines = 0;
    for (int h = 0; h < hosts; h++) machines += model_cores_of(machine, h) == h;
    shape->sharers = (hosts + machines - 1) / machines;
}

/* A small number that stands for a large one: a power of two if the large one is. */
static int first_point(int count)
{
    return (count & (count - 1)) == 0 ? 2 : 3;
}

/* Makes dimensions small, the largest first, until few ranks are left even in the largest job,
 * which has four times as many. If there are many hosts and many racks, the points of each
 * dimension multiply with the first point of the other, so first points are as small as
 * possible. */
static void shrink(struct estimate_shape *shape, bool is_scaled[DIMENSIONS])
{
    int count = 0;
    while (rank_count_of(shape) > RANKS_MAX / POINTS_RATIO) {
        int largest = 0;
        for (int d = 1; d < DIMENSIONS; d++)
            if (shape->of[d] > shape->of[largest]) largest = d;
        if (shape->of[largest] < DIMENSION_LEAST) break;
        shape->of[largest] = first_point(shape->of[largest]);
        is_scaled[largest] = true;
        count++;
    }
    for (int d = 0; d < DIMENSIONS && count > 1; d++)
        if (is_scaled[d]) shape->of[d] = 2;
}

/* ----------------------------------------------------------------------------------- many ranks */

/* lg of a ratio of one at least, in thousandths, straight between powers of two. */
static int64_t lg_permille(int count, int of)
{
    int64_t lg = 0, reached = of;
    for (; 2 * reached <= count; reached *= 2) lg += 1000;
    return lg + (count - reached) * 1000 / reached;
}

static int64_t clamp(__int128 value)
{
    return value > TIME_MAX ? TIME_MAX : value < 0 ? 0 : (int64_t)value;
}

/* The growth in one dimension: the addition, and the factor in millionths. */
struct growth {
    int64_t more;
    __int128 factor_ppm;
};

enum { PPM = 1000000 };

/* may_square: for resources that ranks share. Times of a few ranks often seem to grow with the
 * square, because these ranks do not yet wait for each other. */
static struct growth grow(const int64_t values[POINTS], int first, int count, bool may_square)
{
    /* More ranks do not make anything shorter. */
    const int64_t d = values[1] > values[0] ? values[1] - values[0] : 0,
                  e = values[2] > values[1] ? values[2] - values[1] : 0;
    struct growth growth = {0, PPM};
    if (e < d) {
        const int64_t lg_part = 2 * e - d > 0 ? 2 * e - d : 0, part = 2 * (d - lg_part);
        growth.more = (int64_t)((__int128)lg_part * lg_permille(count, first) / 1000 +
                                (__int128)part * (count - first) / count);
        return growth;
    }
    int64_t lg_part = 2 * d - e, part = e - d, square = 0; /* of first */
    if (lg_part < 0) {
        lg_part = 0;
        square = may_square ? (e - 2 * d) / 6 : 0;
        part = may_square ? d - 3 * square : (d + e) / 3;
    }
    const __int128 parts = (__int128)part * (count - first) / first +
                           (__int128)square * ((__int128)count * count / first - first) / first;
    growth.more = clamp((__int128)lg_part * lg_permille(count, first) / 1000);
    if (values[0] > 0) growth.factor_ppm += clamp(parts * PPM / values[0]);
    return growth;
}

/* --------------------------------------------------------------------------------------- stages */

/* A plan, wired. */
struct made {
    struct plan *plan; /* NULL: it is not */
    struct wiring wiring;
};

/* An estimate simulates the smallest job first, and with each stage a larger one in one of the
 * dimensions, beginning with that which has to grow the most. */
struct estimate {
    struct prediction prediction;
    struct predict_job job;
    struct estimate_shape shape, small;
    bool is_scaled[DIMENSIONS];
    int known[DIMENSIONS]; /* points, beyond the first one */
    bool is_whole;         /* all ranks are simulated */
    bool has_base;
    bool shares_plans[DIMENSIONS]; /* its plans depend on nothing but how many ranks, or hosts, these dimensions make together */
    uint64_t parts;                           /* of a block of the large job */
    uint64_t small_parts[DIMENSIONS][POINTS]; /* of small ones; the first points are all one job */
    uint64_t least_ps[DIMENSIONS]; /* that the last point of each takes, and keeps a core busy */
    struct model_result base, points[DIMENSIONS][POINTS];
    struct made made[POINTS]; /* for the other dimensions that share them */
    uint64_t work;
};

static struct estimate_shape point_of(const struct estimate *estimate, int dimension, int point)
{
    struct estimate_shape shape = estimate->small;
    shape.of[dimension] <<= point;
    return shape;
}

/* The number of parts of a block is a number of ranks of some kind, or constant. The numbers of a
 * torus depend on its dimensions, and soon reach their final value. */
static uint64_t parts_of(const struct estimate *estimate)
{
    uint64_t parts = estimate->small_parts[0][0];
    for (int d = 0; d < DIMENSIONS; d++) {
        if (!estimate->is_scaled[d]) continue;
        const uint64_t one = estimate->small_parts[0][0], two = estimate->small_parts[d][1],
                       four = estimate->small_parts[d][2];
        const unsigned first = (unsigned)estimate->small.of[d],
                       count = (unsigned)estimate->shape.of[d];
        if (two > one && four - two >= two - one)
            parts = parts * (one + (two - one) * (count - first) / first) / one;
        else if (four > one)
            parts = parts * four / one;
    }
    return parts;
}

static uint64_t time_of(const struct model_result *result, int unused)
{
    (void)unused;
    return result->time_ps;
}

static uint64_t load_of(const struct model_result *result, int resource)
{
    return result->loads[resource].busy_ps;
}

/* The dimension whose next point is simulated next: one of those of which the least is known, and
 * among these the one that grows the most; -1: all are known. */
static int next_dimension(const struct estimate *estimate)
{
    const int *const of = estimate->shape.of, *const small = estimate->small.of,
                     *const known = estimate->known;
    int next = -1;
    for (int d = 0; d < DIMENSIONS; d++) {
        if (!estimate->is_scaled[d] || known[d] == POINTS - 1) continue;
        if (next >= 0 && known[d] > known[next]) continue;
        if (next < 0 || known[d] < known[next] ||
            (int64_t)of[d] * small[next] >= (int64_t)of[next] * small[d])
            next = d;
    }
    return next;
}

/* The values of a quantity at the points of a dimension. A last one that is not known is taken to
 * be the least that it can be: the one before, or for a time and the load of a core what one rank
 * has to do. The larger it is, the more grows the quantity, if the dimension grows at least as much
 * as its points. False: it is not known whether the quantity grows. */
static bool values_of(const struct estimate *estimate, int dimension,
                      uint64_t (*quantity)(const struct model_result *result, int which), int which,
                      int64_t values[POINTS])
{
    const struct model_result *const points = estimate->points[dimension];
    const int known = estimate->known[dimension];
    if (!estimate->is_scaled[dimension] || known == 0) return false;
    values[0] = (int64_t)quantity(&estimate->base, which);
    values[1] = (int64_t)quantity(&points[1], which);
    values[2] = (int64_t)quantity(&points[2], which);
    if (known == POINTS - 1) return true;
    const bool is_bounded = quantity == time_of || which == MODEL_CORE;
    values[2] = is_bounded ? (int64_t)estimate->least_ps[dimension] : 0;
    if (values[2] < values[1]) values[2] = values[1];
    return estimate->shape.of[dimension] / POINTS_RATIO >= estimate->small.of[dimension];
}

/* The value in the large job of a quantity of the small jobs. Dimensions that are not known yet
 * count as if they stayed small, since none makes the quantity less. */
static uint64_t grown(const struct estimate *estimate,
                      uint64_t (*quantity)(const struct model_result *result, int which), int which)
{
    const bool is_shared =
        quantity == load_of && (which != MODEL_CORE || estimate->job.machine->cores_of != NULL);
    __int128 factor_ppm = PPM;
    int64_t more = 0;
    for (int d = 0; d < DIMENSIONS; d++) {
        int64_t values[POINTS];
        if (!values_of(estimate, d, quantity, which, values)) continue;
        const struct growth growth =
            grow(values, estimate->small.of[d], estimate->shape.of[d], is_shared);
        more = clamp((__int128)more + growth.more);
        factor_ppm = clamp(factor_ppm * growth.factor_ppm / PPM);
    }
    const int64_t first = (int64_t)quantity(&estimate->base, which);
    return (uint64_t)clamp((__int128)first * factor_ppm / PPM + (__int128)more);
}

/* A little is left out as long as not all is known, since factors are in millionths. */
static uint64_t least_grown(const struct estimate *estimate,
                            uint64_t (*quantity)(const struct model_result *result, int which),
                            int which)
{
    const uint64_t all = grown(estimate, quantity, which), left_out = all / 100000 + 4;
    if (next_dimension(estimate) < 0) return all;
    return all > left_out ? all - left_out : 0;
}

static void combine(struct estimate *estimate)
{
    struct model_result *const result = &estimate->prediction.result;
    *result = estimate->base;
    result->time_ps = least_grown(estimate, time_of, 0);
    for (int r = 0; r < MODEL_RESOURCES; r++)
        result->loads[r] = (struct model_load){.number = -1, /* that of fewer hosts */
                                               .busy_ps = least_grown(estimate, load_of, r)};
    model_wait_for_busiest(result);
}

static void made_release(struct made *made)
{
    if (made->plan != NULL) wiring_release(&made->wiring);
    plan_free(made->plan);
    made->plan = NULL;
}

/* Makes the plan of a small job, if none is there, and simulates it. */
static enum tutti_status simulate_plan(struct estimate *estimate, struct small *small,
                                       struct made *made, struct model_result *result)
{
    if (made->plan == NULL) {
        TRY(predict_plan(&small->job, estimate->prediction.algorithm,
                         estimate->prediction.only_hosts, &made->plan, &made->wiring));
        estimate->work += made->wiring.step_count;
    }
    const uint64_t chunk = (small->job.count + estimate->parts - 1) / estimate->parts;
    small->job.count = (size_t)(chunk * made->plan->shape.parts);
    const enum tutti_status status = simulate(&small->job, made->plan, &made->wiring, result);
    estimate->work += result->events;
    return status;
}

/* After a failure there is no plan. */
static enum tutti_status simulate_small(struct estimate *estimate,
                                        const struct estimate_shape *shape, struct made *made,
                                        struct model_result *result)
{
    struct small small;
    enum tutti_status status = small_init(&small, shape, &estimate->job);
    if (status == TUTTI_OK) status = simulate_plan(estimate, &small, made, result);
    if (status != TUTTI_OK) made_release(made);
    small_release(&small);
    return status;
}

static uint64_t count_elsewhere(const struct model_machine *machine, int host, const int *ranks,
                                uint32_t rank_count)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < rank_count; i++) count += machine->host_of[ranks[i]] != host;
    return count;
}

/* The time for which a core is busy at least with the messages that a rank exchanges with other
 * hosts, whatever path each of them takes. */
static uint64_t least_core_ps(const struct model_machine *machine, const struct rank_plan *plan)
{
    const struct path_table *const table = machine->between;
    if (table == NULL || machine->host_of == NULL) return 0;
    uint64_t sender_ps = UINT64_MAX, receiver_ps = UINT64_MAX, busy_ps = 0;
    for (unsigned i = 0; i < table->row_count; i++) {
        const struct path_cost *const cost = &table->rows[i].cost;
        if (cost->sender_ps < sender_ps) sender_ps = cost->sender_ps;
        if (cost->receiver_ps < receiver_ps) receiver_ps = cost->receiver_ps;
    }
    const int host = machine->host_of[plan->rank];
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const int group = plan->steps[i].target_group;
        if (group != PLAN_NO_GROUP)
            busy_ps += sender_ps * count_elsewhere(machine, host,
                                                   plan->members + plan->groups[group].first_member,
                                                   plan->groups[group].member_count);
    }
    busy_ps += sender_ps * count_elsewhere(machine, host, plan->targets, plan->target_count);
    for (uint32_t i = 0; i < plan->source_count; i++)
        if (plan->sources[i].is_link && machine->host_of[plan->sources[i].peer] != host)
            busy_ps += receiver_ps;
    return busy_ps;
}

enum { FIRST_RANK, LAST_RANK, OUTLINED_RANKS };
/* Plans of two ranks of a host; NULL: not made. */
struct outlines {
    struct rank_plan *of[OUTLINED_RANKS];
};

static void outlines_release(struct outlines *outlines)
{
    for (int i = 0; i < OUTLINED_RANKS; i++) plan_rank_free(outlines->of[i]);
}

/* Looks at the plan of a host's first rank. For the last point of a dimension also at that of its
 * last rank, since in a ring it is this one that sends to the next host. */
static enum tutti_status outline_ranks(struct estimate *estimate, const struct small *small,
                                       int dimension, int point, struct outlines *outlines)
{
    const int ranks[OUTLINED_RANKS] = {0, small->shape.of[HOST_RANKS] - 1},
              count = point == POINTS - 1 && ranks[LAST_RANK] > 0 ? OUTLINED_RANKS : 1;
    for (int i = 0; i < count; i++) {
        struct rank_plan **const plan = &outlines->of[i];
        if (*plan == NULL)
            TRY(predict_rank_plan(&small->job, estimate->prediction.algorithm,
                                  estimate->prediction.only_hosts, ranks[i], plan));
        const uint64_t busy_ps = point == POINTS - 1 ? least_core_ps(&small->machine, *plan) : 0;
        if (busy_ps > estimate->least_ps[dimension]) estimate->least_ps[dimension] = busy_ps;
        estimate->small_parts[dimension][point] = (*plan)->shape.parts;
    }
    return TUTTI_OK;
}

static enum tutti_status outline(struct estimate *estimate, int dimension, int point,
                                 struct outlines *outlines)
{
    const struct estimate_shape shape = point_of(estimate, dimension, point);
    struct small small;
    enum tutti_status status = small_init(&small, &shape, &estimate->job);
    if (status == TUTTI_OK) status = outline_ranks(estimate, &small, dimension, point, outlines);
    small_release(&small);
    return status;
}

static enum tutti_status outline_all(struct estimate *estimate)
{
    struct outlines shared[POINTS] = {{{NULL}}};
    enum tutti_status status = TUTTI_OK;
    for (int d = 0; d < DIMENSIONS; d++)
        for (int p = 0; p < POINTS && status == TUTTI_OK; p++) {
            if (p == 0 ? d > 0 : !estimate->is_scaled[d]) continue;
            struct outlines own = {{NULL}};
            status = outline(estimate, d, p, estimate->shares_plans[d] ? &shared[p] : &own);
            outlines_release(&own);
        }
    for (int p = 0; p < POINTS; p++) outlines_release(&shared[p]);
    return status;
}

static enum tutti_status simulate_base(struct estimate *estimate)
{
    struct made made = {.plan = NULL};
    TRY(outline_all(estimate));
    estimate->parts = parts_of(estimate);
    TRY(simulate_small(estimate, &estimate->small, &made, &estimate->base));
    made_release(&made);
    return TUTTI_OK;
}

static enum tutti_status simulate_point(struct estimate *estimate, int dimension)
{
    const int p = estimate->known[dimension] + 1;
    const struct estimate_shape point = point_of(estimate, dimension, p);
    struct made own = {.plan = NULL}, *const made = estimate->shares_plans[dimension]
                                                        ? &estimate->made[p]
                                                        : &own;
    TRY(simulate_small(estimate, &point, made, &estimate->points[dimension][p]));
    made_release(&own);
    estimate->known[dimension] = p;
    return TUTTI_OK;
}

static enum tutti_status simulate_whole(struct estimate *estimate)
{
    const struct prediction *prediction = &estimate->prediction;
    struct plan *plan;
    struct wiring wiring;
    TRY(predict_plan(&estimate->job, prediction->algorithm, prediction->only_hosts, &plan, &wiring));
    const enum tutti_status status =
        simulate(&estimate->job, plan, &wiring, &estimate->prediction.result);
    estimate->work += wiring.step_count + estimate->prediction.result.events;
    wiring_release(&wiring);
    plan_free(plan);
    return status;
}

enum tutti_status estimate_create(const struct predict_job *job, const struct estimate_shape *shape,
                                  const struct algorithm *algorithm, bool only_hosts,
                                  struct estimate **estimate)
{
    struct estimate *const new = calloc(1, sizeof *new);
    *estimate = new;
    if (new == NULL) return error_set(TUTTI_NO_MEMORY, "an estimate: out of memory");
    new->job = *job;
    new->shape = new->small = *shape;
    if (!predict_begin(job, algorithm, only_hosts, &new->prediction)) return TUTTI_OK;
    new->is_whole = job->machine->rank_count <= RANKS_MAX || algorithm->plan != NULL;
    for (int d = 0; d < DIMENSIONS && job->order == NULL; d++)
        new->shares_plans[d] = !algorithm->needs_levels || (only_hosts && d != HOST_RANKS);
    if (!new->is_whole) shrink(&new->small, new->is_scaled);
    return TUTTI_OK;
}

void estimate_free(struct estimate *estimate)
{
    for (int p = 0; estimate != NULL && p < POINTS; p++) made_release(&estimate->made[p]);
    free(estimate);
}

bool estimate_is_over(const struct estimate *estimate)
{
    if (estimate->prediction.why_not != NULL) return true;
    return estimate->has_base && (estimate->is_whole || next_dimension(estimate) < 0);
}

enum tutti_status estimate_go_on(struct estimate *estimate)
{
    if (estimate_is_over(estimate)) return TUTTI_OK;
    if (!estimate->has_base)
        TRY(estimate->is_whole ? simulate_whole(estimate) : simulate_base(estimate));
    else
        TRY(simulate_point(estimate, next_dimension(estimate)));
    estimate->has_base = true;
    if (!estimate->is_whole) combine(estimate);
    return TUTTI_OK;
}

const struct prediction *estimate_prediction(const struct estimate *estimate)
{
    return &estimate->prediction;
}

uint64_t estimate_work(const struct estimate *estimate)
{
    return estimate->work;
}

enum tutti_status estimate_one(const struct predict_job *job, const struct algorithm *algorithm,
                               bool only_hosts, struct prediction *prediction)
{
    struct estimate_shape shape;
    struct estimate *estimate;
    estimate_shape_of(job, &shape);
    TRY(estimate_create(job, &shape, algorithm, only_hosts, &estimate));
    enum tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK && !estimate_is_over(estimate)) status = estimate_go_on(estimate);
    if (status == TUTTI_OK) *prediction = estimate->prediction;
    estimate_free(estimate);
    return status;
}
