/* The three small numbers are n, 2n and 4n. With d and e, by how much 2n costs more than n, and 4n more than 2n:
 *
 *     e > d     A + B lg n + C n: C n is e - d, B is 2d - e
 *     e > 2d    A + C n + E n^2, as of messages between all ranks that one card or memory carries
 *     e < d     A + B lg n - D/n: what is left of a vector when one's own part is out, (n-1)/n of it; D/n is 4 (d - e), B is 2e - d
 *
 * What grows with n multiplies over the dimensions, as the rounds of a ring do; what grows with lg n adds, as those of a tree.
 */
#include "tune/estimate.h"

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

/* Ranks, host by host, rack by rack; or dealt to them in turns. */
struct shape {
    int of[DIMENSIONS];
    bool ranks_in_turns, hosts_in_turns;
};

static int rank_count_of(const struct shape *shape)
{
    return shape->of[HOST_RANKS] * shape->of[RACK_HOSTS] * shape->of[RACKS];
}

/* ------------------------------------------------------------------------------------------ many pieces */

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

/* Nothing is over before the busiest resource is. Its work grows evenly with bytes and ranks, and is known better than the time: a part of a
 * message may be too short to fill a long chain of ranks, which then seems to take in the next part at once. */
static void wait_for_busiest(struct model_result *result)
{
    for (int r = 0; r < MODEL_RESOURCES; r++)
        if (result->time_ps < result->loads[r].busy_ps) result->time_ps = result->loads[r].busy_ps;
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
    struct model_result one = {.rank_ps = NULL};
    TRY(model_simulate_part(plan, wiring, job->machine, part, job->count, job->element_bytes, &one));
    TRY(model_simulate_part(plan, wiring, job->machine, 2 * part, job->count, job->element_bytes,
                            result));
    result->time_ps = beyond(one.time_ps, result->time_ps, part, 2 * part, job->count);
    for (int r = 0; r < MODEL_RESOURCES; r++)
        result->loads[r].busy_ps =
            beyond(one.loads[r].busy_ps, result->loads[r].busy_ps, part, 2 * part, job->count);
    wait_for_busiest(result);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------------- small shapes */

/* A job of fewer ranks, with what it points to. */
struct small {
    struct shape shape;
    struct predict_job job;
    struct model_machine machine;
    struct algo_levels levels;
    int *host_of, *rack_of_host, *rack_of, *order;
    struct plan *plan;
    struct wiring wiring;
    struct model_result result;
};

static void release(struct small *small)
{
    free(small->host_of);
    free(small->rack_of_host);
    free(small->rack_of);
    free(small->order);
    if (small->plan != NULL) wiring_release(&small->wiring);
    plan_free(small->plan);
    *small = (struct small){.plan = NULL};
}

/* As a communicator has it, of hosts, or of ranks that are tied to cores which they share: the model's cores are dealt to ranks in turns. */
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

static enum tutti_status place(struct small *small, const struct predict_job *job)
{
    const struct shape *shape = &small->shape;
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
    if (job->order != NULL && (shape->ranks_in_turns || shape->hosts_in_turns))
        return find_order(small);
    return TUTTI_OK;
}

/* Its plan; the job's count is that of the large one. */
static enum tutti_status make(struct small *small, const struct shape *shape,
                              const struct predict_job *job, const struct algorithm *algorithm,
                              bool only_hosts)
{
    *small = (struct small){.shape = *shape};
    TRY(place(small, job));
    return predict_plan(&small->job, algorithm, only_hosts, &small->plan, &small->wiring);
}

/* ---------------------------------------------------------------------------------------- what there is */

/* Groups have numbers of any kind. */
static int count_groups(const int *group_of, const int *within, int rank_count)
{
    int count = 0;
    for (int r = 0; r < rank_count; r++)
        count += r == 0 || group_of[r] != group_of[r - 1] ||
                 (within != NULL && within[r] != within[r - 1]);
    return count;
}

/* Of the machine, and of strangers on one host as if each had its own. */
static void find_shape(const struct predict_job *job, struct shape *shape)
{
    const struct model_machine *machine = job->machine;
    const int ranks = machine->rank_count;
    *shape = (struct shape){{ranks, 1, 1}, false, false};
    if (job->levels == NULL) return;
    if (machine->host_count == 1) {
        *shape = (struct shape){{1, ranks, 1}, false, false};
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
}

/* A few that are like so many: a power of two, if they are one. */
static int first_point(int count)
{
    return (count & (count - 1)) == 0 ? 2 : 3;
}

/* Makes dimensions small, the largest first, until few ranks are left, even in the largest job, which has four times as many. Where hosts and
 * racks are many, each dimension's numbers multiply with the other's first, so those are as small as can be. */
static void shrink(struct shape *shape, bool is_scaled[DIMENSIONS])
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

/* -------------------------------------------------------------------------------------------- many ranks */

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

/* One dimension: what it adds, and by how much it multiplies, in millionths. */
struct growth {
    int64_t more;
    __int128 factor_ppm;
};

enum { PPM = 1000000 };

/* may_square: of what ranks share. Times of a few ranks often seem to, because they do not yet wait for each other. */
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

/* Parts of a block are as many as there are ranks of some kind, or so many in all; those of a torus depend on its dimensions, and are
 * soon as many as they will be. */
static uint64_t parts_of(const struct small points[DIMENSIONS][POINTS], const struct shape *shape,
                         const bool is_scaled[DIMENSIONS], const struct small *base)
{
    uint64_t parts = base->plan->shape.parts;
    for (int d = 0; d < DIMENSIONS; d++) {
        if (!is_scaled[d]) continue;
        const uint64_t one = base->plan->shape.parts, two = points[d][1].plan->shape.parts,
                       four = points[d][2].plan->shape.parts;
        const unsigned first = (unsigned)base->shape.of[d], count = (unsigned)shape->of[d];
        if (two > one && four - two >= two - one)
            parts = parts * (one + (two - one) * (count - first) / first) / one;
        else if (four > one)
            parts = parts * four / one;
    }
    return parts;
}

static enum tutti_status simulate_small(struct small *small, uint64_t parts)
{
    const uint64_t chunk = (small->job.count + parts - 1) / parts;
    small->job.count = (size_t)(chunk * small->plan->shape.parts);
    return simulate(&small->job, small->plan, &small->wiring, &small->result);
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

/* Of a quantity of the small jobs, what it is in the large one. */
static uint64_t grown(const struct small points[DIMENSIONS][POINTS], const struct shape *shape,
                      const bool is_scaled[DIMENSIONS], const struct small *base,
                      uint64_t (*quantity)(const struct model_result *result, int which), int which)
{
    const bool is_shared = quantity == load_of && which != MODEL_CORE;
    const int64_t first = (int64_t)quantity(&base->result, which);
    __int128 factor_ppm = PPM;
    int64_t more = 0;
    for (int d = 0; d < DIMENSIONS; d++) {
        if (!is_scaled[d]) continue;
        const int64_t values[POINTS] = {first, (int64_t)quantity(&points[d][1].result, which),
                                        (int64_t)quantity(&points[d][2].result, which)};
        const struct growth growth = grow(values, base->shape.of[d], shape->of[d], is_shared);
        more = clamp((__int128)more + growth.more);
        factor_ppm = clamp(factor_ppm * growth.factor_ppm / PPM);
    }
    return (uint64_t)clamp((__int128)first * factor_ppm / PPM + (__int128)more);
}

static void combine(const struct small points[DIMENSIONS][POINTS], const struct shape *shape,
                    const bool is_scaled[DIMENSIONS], const struct small *base,
                    struct model_result *result)
{
    *result = base->result;
    result->time_ps = grown(points, shape, is_scaled, base, time_of, 0);
    for (int r = 0; r < MODEL_RESOURCES; r++)
        result->loads[r] =
            (struct model_load){.number = -1, /* that of fewer hosts */
                                .busy_ps = grown(points, shape, is_scaled, base, load_of, r)};
    wait_for_busiest(result);
}

static enum tutti_status extrapolate(const struct predict_job *job, const struct shape *shape,
                                     const struct shape *small_shape,
                                     const bool is_scaled[DIMENSIONS],
                                     const struct algorithm *algorithm, bool only_hosts,
                                     struct model_result *result)
{
    struct small base = {.plan = NULL}, points[DIMENSIONS][POINTS] = {{{.plan = NULL}}};
    enum tutti_status status = make(&base, small_shape, job, algorithm, only_hosts);
    for (int d = 0; d < DIMENSIONS; d++)
        for (int p = 1; p < POINTS && is_scaled[d] && status == TUTTI_OK; p++) {
            struct shape point = *small_shape;
            point.of[d] <<= p;
            status = make(&points[d][p], &point, job, algorithm, only_hosts);
        }
    if (status == TUTTI_OK) {
        const uint64_t parts = parts_of(points, shape, is_scaled, &base);
        status = simulate_small(&base, parts);
        for (int d = 0; d < DIMENSIONS; d++)
            for (int p = 1; p < POINTS && is_scaled[d] && status == TUTTI_OK; p++)
                status = simulate_small(&points[d][p], parts);
    }
    if (status == TUTTI_OK) combine(points, shape, is_scaled, &base, result);
    release(&base);
    for (int d = 0; d < DIMENSIONS; d++)
        for (int p = 1; p < POINTS; p++) release(&points[d][p]);
    return status;
}

static enum tutti_status estimate_few(const struct predict_job *job,
                                      const struct algorithm *algorithm, bool only_hosts,
                                      struct model_result *result)
{
    struct plan *plan;
    struct wiring wiring;
    TRY(predict_plan(job, algorithm, only_hosts, &plan, &wiring));
    const enum tutti_status status = simulate(job, plan, &wiring, result);
    wiring_release(&wiring);
    plan_free(plan);
    return status;
}

enum tutti_status estimate_one(const struct predict_job *job, const struct algorithm *algorithm,
                               bool only_hosts, struct prediction *prediction)
{
    if (!predict_begin(job, algorithm, only_hosts, prediction)) return TUTTI_OK;
    struct shape shape;
    bool is_scaled[DIMENSIONS] = {false};
    if (job->machine->rank_count <= RANKS_MAX || algorithm->plan != NULL)
        return estimate_few(job, algorithm, only_hosts, &prediction->result);
    find_shape(job, &shape);
    struct shape small_shape = shape;
    shrink(&small_shape, is_scaled);
    return extrapolate(job, &shape, &small_shape, is_scaled, algorithm, only_hosts,
                       &prediction->result);
}
