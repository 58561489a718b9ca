#include "tune/ranking.h"

#include <pthread.h>
#include <stdlib.h>

#include "algo/levels.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "os/fork.h"
#include "tune/encoding_cost.h"
#include "tune/estimate.h"

/* Blocks are taken to be at most so large: beyond that, only the time changes. */
enum { CLASS_MAX = 40 };

static unsigned class_of(size_t bytes)
{
    unsigned class = 0;
    while (class < CLASS_MAX && bytes >> class > 1) class ++;
    return class;
}

/* -------------------------------------------------------------------------------------- machine */

uint64_t tune_site_fingerprint(const struct tune_site *site, uint64_t levels_fingerprint)
{
    uint64_t hash = hash_take(0x73697465u, (uint64_t)site->rank_count);
    hash = hash_take(hash, (uint64_t)site->core_count << 1 | site->is_loopback);
    hash = hash_take(hash, site->levels != NULL ? levels_fingerprint : 0);
    hash = hash_take(hash, site->levels != NULL ? (uint64_t)site->levels->level_count : 0);
    for (int i = 0; site->order != NULL && i < site->rank_count; i++)
        hash = hash_take(hash, (uint64_t)site->order[i]);
    for (int i = 0; site->cores_of != NULL && i < site->rank_count; i++)
        hash = hash_take(hash, (uint64_t)site->cores_of[i]);
    hash = hash_take(hash, (uintptr_t)site->within);
    hash = hash_take(hash, (uintptr_t)site->between);
    hash = hash_take(hash, site->piece_bytes_max);
    hash = hash_take(hash, site->piece_count_max);
    hash = hash_take(hash, tune_table_fingerprint(site->table));
    for (int i = 0; i < site->loaded_count; i++) hash = hash_take(hash, (uintptr_t)site->loaded[i]);
    return hash_take(hash, calibration_fingerprint(site->calibration));
}

/* Groups counted from 0; *count of them. NULL: out of memory. */
static int *number_groups(const int *group_of, int rank_count, int *count)
{
    int *const numbers = malloc(2 * (size_t)rank_count * sizeof *numbers);
    *count = numbers != NULL
                 ? algo_number_groups(group_of, rank_count, numbers, numbers + rank_count)
                 : 0;
    if (*count > 0) return numbers;
    free(numbers);
    return NULL;
}

static bool place_cores(const struct tune_site *site, struct model_machine *machine,
                        struct tune_room *room)
{
    if (site->cores_of == NULL) return true;
    room->cores_of_host = calloc((size_t)machine->host_count, sizeof *room->cores_of_host);
    if (room->cores_of_host == NULL) return false;
    for (int r = 0; r < site->rank_count; r++)
        room->cores_of_host[room->host_of[r]] = room->host_of[site->cores_of[r]];
    machine->cores_of = room->cores_of_host;
    return true;
}

static bool place_hosts(const struct tune_site *site, struct model_machine *machine,
                        struct tune_room *room)
{
    const struct algo_levels *levels = site->levels;
    room->host_of = number_groups(levels->group_of[0], site->rank_count, &machine->host_count);
    if (room->host_of == NULL) return false;
    machine->host_of = room->host_of;
    if (!place_cores(site, machine, room)) return false;
    if (levels->level_count == 1) return true;
    int *const rack_of = number_groups(levels->group_of[1], site->rank_count, &machine->rack_count);
    room->rack_of_host = calloc((size_t)machine->host_count, sizeof *room->rack_of_host);
    if (rack_of != NULL && room->rack_of_host != NULL)
        for (int r = 0; r < site->rank_count; r++)
            room->rack_of_host[room->host_of[r]] = rack_of[r];
    free(rack_of);
    machine->rack_of = room->rack_of_host;
    return rack_of != NULL && room->rack_of_host != NULL;
}

/* 0: out of memory. */
static int count_groups(const int *group_of, int rank_count)
{
    int count;
    free(number_groups(group_of, rank_count, &count));
    return count;
}

enum tutti_status tune_site_shape(const struct tune_site *site, struct tune_shape *shape)
{
    const struct algo_levels *levels = site->is_loopback ? NULL : site->levels;
    *shape = (struct tune_shape){.rank_count = site->rank_count,
                                 .host_count = 1,
                                 .rack_count = 1,
                                 .is_loopback = site->is_loopback};
    if (levels == NULL) return TUTTI_OK;
    shape->host_count = count_groups(levels->group_of[0], site->rank_count);
    if (levels->level_count > 1)
        shape->rack_count = count_groups(levels->group_of[1], site->rank_count);
    if (shape->host_count > 0 && shape->rack_count > 0) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "choosing an algorithm: out of memory");
}

/* Whether all ranks together use so many bytes of buffers that these do not stay in caches. */
static bool is_far(const struct tune_site *site, const struct tune_question *question)
{
    size_t bytes = question->bytes;
    switch (question->collective) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST: break;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: bytes *= (size_t)site->rank_count; break;
    }
    return bytes >= site->within->sizes.stream_bytes_min;
}

enum tutti_status tune_machine(const struct tune_site *site, const struct tune_question *question,
                               struct model_machine *machine, struct tune_room *room)
{
    *room = (struct tune_room){.host_of = NULL};
    *machine =
        (struct model_machine){.rank_count = site->rank_count, .host_count = 1, .rack_count = 1};
    if (site->levels != NULL && !site->is_loopback && !place_hosts(site, machine, room)) {
        tune_room_release(room);
        return error_set(TUTTI_NO_MEMORY, "choosing an algorithm: out of memory");
    }
    const struct calibration_use use = {.dtype = question->dtype,
                                        .is_far = is_far(site, question),
                                        .within = site->within,
                                        .between = site->between,
                                        .tables = &room->tables};
    calibration_apply(site->calibration, &use, machine);
    if (question->encoding != TUTTI_ENCODING_NONE)
        encoding_cost_apply(question->encoding, question->dtype, question->encoded_links, machine,
                            &room->tables);
    if (site->is_loopback) machine->within = machine->between;
    machine->core_count = site->core_count;
    machine->is_mapped = question->is_mapped;
    machine->piece_bytes_max = site->piece_bytes_max;
    machine->piece_count_max = site->piece_count_max;
    return TUTTI_OK;
}

void tune_room_release(struct tune_room *room)
{
    free(room->host_of);
    free(room->rack_of_host);
    free(room->cores_of_host);
    room->host_of = room->rack_of_host = room->cores_of_host = NULL;
}

/* ------------------------------------------------------------------------------------ estimates */

/* The model knows nothing of connections that slow down while they rest, nor of what is under way
 * when several ranks turn to the same one. So where plans cost about the same over a network, those
 * in which ranks keep their partners are faster: of an allreduce of 16 MiB on 8 hosts others took
 * up to 1.12 times as long as a ring over TCP, and 1.2 over a card in software, where the model saw
 * 1.00. In an alltoall no rank can; there, of 64 KiB to 1 MiB, direct took 1.0 to 1.9 times as long
 * as pairwise. */
static uint64_t weighed_ps(const struct ranked *ranked)
{
    return ranked->time_ps + (ranked->has_many_partners ? ranked->time_ps / 32 : 0);
}

/* Addresses have the same order on all ranks only within the list, whose algorithms have no
 * fingerprint (0). If two algorithms are equally expensive, the one that may turn out to be more
 * expensive comes first, so that it is looked at first. */
static int by_time(const void *a, const void *b)
{
    const struct ranked *one = a, *other = b;
    const uint64_t one_ps = weighed_ps(one), other_ps = weighed_ps(other);
    if (one_ps != other_ps) return one_ps < other_ps ? -1 : 1;
    if (one->is_least != other->is_least) return one->is_least ? -1 : 1;
    if (one->algorithm->plan_fingerprint != other->algorithm->plan_fingerprint)
        return one->algorithm->plan_fingerprint < other->algorithm->plan_fingerprint ? -1 : 1;
    if (one->algorithm != other->algorithm) return one->algorithm < other->algorithm ? -1 : 1;
    return (int)one->only_hosts - (int)other->only_hosts;
}

static void sort(struct ranking *ranking)
{
    qsort(ranking->ranked, (size_t)ranking->count, sizeof *ranking->ranked, by_time);
}

/* Estimates under way for the algorithms of a ranking whose times are not known. */
struct search {
    struct model_machine machine;
    struct tune_room room;
    struct predict_job job;
    struct estimate_shape shape;
    struct ranking *ranking;
    struct estimate *estimates[RANKED_MAX]; /* NULL: known, or not begun */
};

static enum tutti_status search_begin(struct search *search, const struct tune_site *site,
                                      const struct tune_question *question, struct ranking *ranking)
{
    const size_t element_bytes = dtype_size(question->dtype);
    *search = (struct search){.ranking = ranking};
    TRY(tune_machine(site, question, &search->machine, &search->room));
    search->job =
        (struct predict_job){.collective = question->collective,
                             .count = (question->bytes + element_bytes - 1) / element_bytes,
                             .element_bytes = element_bytes,
                             .levels = site->levels,
                             .order = site->order,
                             .machine = &search->machine};
    estimate_shape_of(&search->job, &search->shape);
    return TUTTI_OK;
}

static void search_end(struct search *search)
{
    for (int i = 0; i < search->ranking->count; i++) estimate_free(search->estimates[i]);
    tune_room_release(&search->room);
}

/* Whether it matters over a network with whom ranks have to do. */
static bool partners_matter(const struct model_machine *machine)
{
    const bool is_loopback = machine->within != NULL && !machine->within->is_memory;
    return (machine->host_count > 1 || is_loopback) && machine->rank_count > 2;
}

/* Whether ranks have no more partners under way than they must. With one rank on each host a
 * hierarchical ring is two rings between the same ranks: of an allreduce of 16 MiB on 8 hosts over
 * a card in software it took 1.08 times as long as one. */
static bool has_few_partners(const struct model_machine *machine, const struct algorithm *algorithm)
{
    if (algorithm->needs_levels && machine->host_count == machine->rank_count) return false;
    return algorithm->keeps_partner || algorithm->is_paced;
}

/* Lists the algorithms that can do the call, of which nothing is known yet. */
static void list(const struct search *search, const struct algorithm *algorithm)
{
    struct ranking *const ranking = search->ranking;
    for (int only_hosts = 0; only_hosts < 2; only_hosts++) {
        struct prediction prediction;
        if (predict_begin(&search->job, algorithm, only_hosts != 0, &prediction) &&
            ranking->count < RANKED_MAX)
            ranking->ranked[ranking->count++] =
                (struct ranked){.algorithm = algorithm,
                                .only_hosts = only_hosts != 0,
                                .is_least = true,
                                .has_many_partners = partners_matter(&search->machine) &&
                                                     !has_few_partners(&search->machine, algorithm)};
        if (prediction.has_one_plan) break;
    }
}

static void list_candidates(const struct search *search, const struct tune_site *site)
{
    for (int i = 0; i < algo_count; i++)
        if (algo_list[i].collective == search->job.collective) list(search, &algo_list[i]);
    for (int i = 0; i < site->loaded_count; i++)
        if (site->loaded[i]->collective == search->job.collective) list(search, site->loaded[i]);
}

/* Takes an estimate that is not complete one stage further. */
static enum tutti_status go_on(struct search *search, int index)
{
    struct ranked *const ranked = &search->ranking->ranked[index];
    struct estimate **const estimate = &search->estimates[index];
    if (*estimate == NULL)
        TRY(estimate_create(&search->job, &search->shape, ranked->algorithm, ranked->only_hosts,
                            estimate));
    const uint64_t before = estimate_work(*estimate);
    TRY(estimate_go_on(*estimate));
    search->ranking->work += estimate_work(*estimate) - before;
    const uint64_t time_ps = estimate_prediction(*estimate)->result.time_ps;
    if (time_ps > ranked->time_ps) ranked->time_ps = time_ps; /* more may be known already */
    ranked->is_least = !estimate_is_over(*estimate);
    if (ranked->is_least) return TUTTI_OK;
    estimate_free(*estimate);
    *estimate = NULL;
    return TUTTI_OK;
}

static bool is_unknown(const struct ranked *ranked, void *context)
{
    (void)context;
    return ranked->is_least;
}

/* The first algorithm that may be taken; -1: none. */
static int find_first(const struct ranking *ranking, ranking_may_take *may_take, void *context)
{
    int first = -1;
    for (int i = 0; i < ranking->count; i++)
        if (may_take(&ranking->ranked[i], context) &&
            (first < 0 || by_time(&ranking->ranked[i], &ranking->ranked[first]) < 0))
            first = i;
    return first;
}

static bool is_found(const struct ranking *ranking, ranking_may_take *may_take, void *context)
{
    const int first = find_first(ranking, may_take, context);
    return first < 0 || !ranking->ranked[first].is_least;
}

/* Always continues with the algorithm that may be the cheapest. When its time is known, no other
 * one is cheaper. */
static enum tutti_status search_first(const struct tune_site *site,
                                      const struct tune_question *question,
                                      ranking_may_take *may_take, void *context,
                                      struct ranking *ranking)
{
    struct search search;
    TRY(search_begin(&search, site, question, ranking));
    if (ranking->count == 0) list_candidates(&search, site);
    enum tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK && !is_found(ranking, may_take, context))
        status = go_on(&search, find_first(ranking, may_take, context));
    search_end(&search);
    sort(ranking);
    return status;
}

/* A single rank waits for no other rank. */
static void list_all(const struct tune_question *question, struct ranking *ranking)
{
    for (int i = 0; i < algo_count && ranking->count < RANKED_MAX; i++)
        if (algo_list[i].collective == question->collective && algo_supports(&algo_list[i], 1))
            ranking->ranked[ranking->count++] = (struct ranked){.algorithm = &algo_list[i]};
}

/* --------------------------------------------------------------------------------- what is kept */

enum { KEPT = 512 };

static struct kept {
    uint64_t site, question; /* fingerprints; 0: the place is free */
    struct ranking ranking;
} * kept; /* allocated with the first one */
FORK_LOCK(kept_lock, FORK_RANKINGS, NULL);

static struct kept *kept_place(uint64_t site, uint64_t question)
{
    if (kept == NULL) kept = calloc(KEPT, sizeof *kept);
    return kept != NULL ? &kept[hash_take(site, question) % KEPT] : NULL;
}

static bool look_up(uint64_t site, uint64_t question, struct ranking *ranking)
{
    pthread_mutex_lock(&kept_lock);
    const struct kept *place = kept_place(site, question);
    const bool is_there = place != NULL && place->site == site && place->question == question;
    if (is_there) *ranking = place->ranking;
    pthread_mutex_unlock(&kept_lock);
    return is_there;
}

static void keep(uint64_t site, uint64_t question, const struct ranking *ranking)
{
    pthread_mutex_lock(&kept_lock);
    struct kept *place = kept_place(site, question);
    if (place != NULL) *place = (struct kept){site, question, *ranking};
    pthread_mutex_unlock(&kept_lock);
}

enum tutti_status ranking_find_first(const struct tune_site *site,
                                     const struct tune_question *question,
                                     ranking_may_take *may_take, void *context,
                                     struct ranking *ranking)
{
    const unsigned class = class_of(question->bytes);
    ranking->count = 0;
    ranking->work = 0;
    if (site->rank_count == 1) {
        list_all(question, ranking);
        return TUTTI_OK;
    }
    const uint64_t word = 1 | (uint64_t)question->collective << 1 |
                          (uint64_t)question->dtype << 16 | (uint64_t)question->is_mapped << 24 |
                          (uint64_t) class << 32 | (uint64_t)question->encoding << 40 |
                          (uint64_t)question->encoded_links << 48;
    if (look_up(site->fingerprint, word, ranking) && is_found(ranking, may_take, context))
        return TUTTI_OK;
    struct tune_question typical = *question;
    typical.bytes = question->bytes > 0 ? (size_t)1 << class : 0;
    TRY(search_first(site, &typical, may_take, context, ranking));
    keep(site->fingerprint, word, ranking);
    return TUTTI_OK;
}

/* Until the times of all are known, only those whose times are not known are looked for. */
enum tutti_status ranking_find(const struct tune_site *site, const struct tune_question *question,
                               struct ranking *ranking)
{
    return ranking_find_first(site, question, is_unknown, NULL, ranking);
}
