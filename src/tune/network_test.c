/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
/* What is chosen over a network: that there is always a plan for it that is proven, that plans send the bytes that the model
 * says, and that the choices are those which docs/choosing.md explains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "algo/levels.h"
#include "host_map.h"
#include "plan/verify.h"
#include "tune/choose.h"

/* ------------------------------------------------------------------------------------------ helpers */

struct setting {
    struct host_map map;
    struct network_shape network;
    int order[HOST_MAP_RANKS_MAX];
    char text[200];
};

static void complete(struct setting *setting)
{
    assert_int_equal(
        network_shape_init(&setting->network, &setting->map.levels, setting->map.rank_count),
        TUTTI_OK);
    assert_int_equal(
        algo_order_by_levels(&setting->map.levels, setting->map.rank_count, setting->order),
        TUTTI_OK);
}

static void set_up(struct setting *setting, const struct host_shape *shape, enum numbering numbering)
{
    host_map_init(&setting->map, shape, numbering, 7);
    snprintf(setting->text, sizeof setting->text, "%s", host_map_text(shape, numbering));
    complete(setting);
}

static void set_up_even(struct setting *setting, int hosts, int locals, int racks,
                        enum numbering numbering)
{
    struct host_shape shape = {.hosts = {0}};
    for (int h = 0; h < hosts; h++) shape.hosts[h] = locals;
    for (int r = 0; r < racks; r++) shape.racks[r] = hosts / racks;
    set_up(setting, &shape, numbering);
}

/* Rank r on host r, in rack r mod 2. */
static void set_up_interleaved_racks(struct setting *setting, int hosts)
{
    set_up_even(setting, hosts, 1, 2, CONTIGUOUS);
    for (int r = 0; r < hosts; r++) setting->map.rack_of[r] = r % 2;
    snprintf(setting->text, sizeof setting->text, "%d hosts in two racks in turns", hosts);
    complete(setting);
}

struct wish {
    enum collective collective;
    size_t bytes;
    bool deterministic, in_rank_order, counts_are_local;
};

static struct choice chosen(const struct setting *setting, const struct wish *wish)
{
    const struct choose_call call = {.collective = wish->collective,
                                     .bytes = wish->bytes,
                                     .rank_count = setting->map.rank_count,
                                     .deterministic = wish->deterministic,
                                     .in_rank_order = wish->in_rank_order,
                                     .counts_are_local = wish->counts_are_local,
                                     .network = &setting->network};
    struct choice choice;
    if (choose_algorithm(&call, &choice) != TUTTI_OK)
        fail_msg("%s of %zu bytes, %s: %s", collective_name(wish->collective), wish->bytes,
                 setting->text, tutti_error_message());
    return choice;
}

/* As the communicator makes it. */
static struct plan *make(const struct setting *setting, const struct choice *choice,
                         const struct wish *wish, int root, bool in_place)
{
    struct algo_levels levels = setting->map.levels;
    if (choice->only_hosts) levels.level_count = 1;
    const bool is_bound =
        collective_reduces(wish->collective) && (wish->deterministic || wish->in_rank_order);
    const struct algo_params params = {.collective = wish->collective,
                                       .rank_count = setting->map.rank_count,
                                       .root = root,
                                       .in_place = in_place,
                                       .radix = choice->radix,
                                       .order = is_bound ? NULL : setting->order,
                                       .levels = &levels};
    struct plan *plan;
    const char *message;
    if (algo_plan(choice->algorithm, &params, &plan, &message) != TUTTI_OK)
        fail_msg("%s of %s, %s, root %d: %s", choice->algorithm->name,
                 collective_name(wish->collective), setting->text, root, message);
    return plan;
}

/* ------------------------------------------------------------------------------------------- proofs */

static void prove(const struct setting *setting, const struct choice *choice,
                  const struct wish *wish, int root, bool in_place)
{
    struct plan *plan = make(setting, choice, wish, root, in_place);
    const bool one_tree = wish->deterministic && collective_reduces(wish->collective);
    const struct verify_options options = {.in_place = in_place,
                                           .associative_tree_uniform = one_tree};
    struct verify_report report;
    if (plan_verify(plan, &options, &report) != VERIFY_PROVEN)
        fail_msg("%s of %s, %s, root %d%s: %s", choice->algorithm->name,
                 collective_name(wish->collective), setting->text, root,
                 in_place ? ", in place" : "", report.message);
    if (wish->in_rank_order && collective_reduces(wish->collective) && !report.rank_ordered)
        fail_msg("%s of %s, %s, root %d: not in rank order", choice->algorithm->name,
                 collective_name(wish->collective), setting->text, root);
    plan_free(plan);
}

static const size_t sizes[] = {0,       8,       1 << 10,  8 << 10,  64 << 10, 256 << 10,
                               1 << 20, 4 << 20, 16 << 20, 64 << 20, 1 << 30};
enum { SIZES = sizeof sizes / sizeof *sizes, PROVEN_MAX = 64 };

/* Everything that is chosen for a collective at any size, once. */
static void prove_choices(const struct setting *setting, struct wish wish)
{
    const struct algorithm *proven[PROVEN_MAX];
    bool only_hosts[PROVEN_MAX];
    int count = 0;
    for (int i = 0; i < SIZES; i++) {
        wish.bytes = sizes[i];
        const struct choice choice = chosen(setting, &wish);
        if (wish.counts_are_local) assert_true(choice.algorithm->is_direct);
        int k = 0;
        while (k < count && (proven[k] != choice.algorithm || only_hosts[k] != choice.only_hosts))
            k++;
        if (k < count) continue;
        proven[count] = choice.algorithm;
        only_hosts[count++] = choice.only_hosts;
        const int last = setting->map.rank_count - 1;
        const bool has_root = collective_is_rooted(wish.collective);
        for (int in_place = 0; in_place < 2; in_place++) {
            prove(setting, &choice, &wish, 0, in_place);
            if (has_root) prove(setting, &choice, &wish, last, in_place);
            if (has_root && last > 2) prove(setting, &choice, &wish, last / 2, in_place);
        }
    }
}

static void prove_all_choices(const struct setting *setting)
{
    for (int c = 0; c < COLLECTIVE_COUNT; c++) {
        const enum collective collective = (enum collective)c;
        prove_choices(setting, (struct wish){.collective = collective});
        prove_choices(setting, (struct wish){.collective = collective, .deterministic = true});
        prove_choices(setting, (struct wish){.collective = collective, .in_rank_order = true});
        if (collective == COLLECTIVE_GATHER || collective == COLLECTIVE_SCATTER ||
            collective == COLLECTIVE_ALLTOALL)
            prove_choices(setting,
                          (struct wish){.collective = collective, .counts_are_local = true});
    }
}

static void every_choice_is_proven(void **state)
{
    (void)state;
    static const int host_counts[] = {2, 3, 5, 8, 16};
    struct setting setting;
    for (size_t h = 0; h < sizeof host_counts / sizeof *host_counts; h++)
        for (int locals = 1; locals <= 8 && locals * host_counts[h] <= 20; locals *= 2)
            for (int racks = 0; racks <= 2; racks += 2)
                for (int n = 0; n < NUMBERING_COUNT; n++) {
                    if (racks > 0 && (host_counts[h] % racks != 0 || host_counts[h] < 4)) continue;
                    if (host_counts[h] * locals > 12 && n != SHUFFLED) continue;
                    set_up_even(&setting, host_counts[h], locals, racks, (enum numbering)n);
                    prove_all_choices(&setting);
                }
    set_up_interleaved_racks(&setting, 8);
    prove_all_choices(&setting);
}

static void every_choice_is_proven_for_uneven_hosts_and_racks(void **state)
{
    (void)state;
    static const struct host_shape shapes[] = {
        {.hosts = {1, 2}},
        {.hosts = {4, 1, 2}},
        {.hosts = {1, 1, 1, 6}},
        {.hosts = {2, 1, 5}},
        {.hosts = {1, 1, 1, 1, 1}, .racks = {2, 3}},
        {.hosts = {3, 1, 2, 2}, .racks = {1, 3}},
        {.hosts = {1, 1, 2, 1, 1, 1, 1, 2}, .racks = {2, 2, 2, 2}, .rooms = {2, 2}},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int n = 0; n < NUMBERING_COUNT; n++) {
            struct setting setting;
            set_up(&setting, &shapes[s], (enum numbering)n);
            prove_all_choices(&setting);
        }
}

/* 16 hosts of 8 ranks: one rank's plan, since all of them would take long. */
static void many_ranks_have_a_plan(void **state)
{
    (void)state;
    for (int locals = 1; locals <= 8; locals *= 2)
        for (int racks = 0; racks <= 4; racks += 2) {
            struct setting setting;
            set_up_even(&setting, 16, locals, racks, SHUFFLED);
            for (int c = 0; c < COLLECTIVE_COUNT; c++)
                for (int i = 0; i < SIZES; i++) {
                    const struct wish wish = {.collective = (enum collective)c, .bytes = sizes[i]};
                    const struct choice choice = chosen(&setting, &wish);
                    struct algo_levels levels = setting.map.levels;
                    if (choice.only_hosts) levels.level_count = 1;
                    const struct algo_params params = {.collective = wish.collective,
                                                       .rank_count = setting.map.rank_count,
                                                       .order = setting.order,
                                                       .levels = &levels};
                    struct rank_plan *plan;
                    const char *message;
                    if (algo_rank_plan(choice.algorithm, &params, setting.map.rank_count / 3, &plan,
                                       &message) != TUTTI_OK)
                        fail_msg("%s of %s, %s: %s", choice.algorithm->name, collective_name(c),
                                 setting.text, message);
                    plan_rank_free(plan);
                }
        }
}

/* ------------------------------------------------------------------------------------------ traffic */

/* In blocks: vectors, or what the collective calls a block. */
struct traffic {
    double card, uplink; /* of the busiest ones, in the busier direction */
};

enum { UNITS_MAX = HOST_MAP_RANKS_MAX };

struct counters {
    double sent[UNITS_MAX], received[UNITS_MAX];
};

static double most(const struct counters *counters)
{
    double most_blocks = 0;
    for (int i = 0; i < UNITS_MAX; i++) {
        if (counters->sent[i] > most_blocks) most_blocks = counters->sent[i];
        if (counters->received[i] > most_blocks) most_blocks = counters->received[i];
    }
    return most_blocks;
}

static void count_transfer(const int *unit_of, int from, int to, double blocks,
                           struct counters *counters)
{
    if (unit_of[from] == unit_of[to]) return;
    counters->sent[unit_of[from]] += blocks;
    counters->received[unit_of[to]] += blocks;
}

static struct traffic count(const struct setting *setting, const struct plan *plan)
{
    static struct counters cards, uplinks;
    const int *hosts = setting->map.host_of, *racks = setting->map.rack_of;
    memset(&cards, 0, sizeof cards);
    memset(&uplinks, 0, sizeof uplinks);
    for (int rank = 0; rank < plan->shape.rank_count; rank++) {
        const struct rank_plan *own = plan->ranks[rank];
        for (uint32_t i = 0; i < own->step_count; i++) {
            const struct plan_step *step = &own->steps[i];
            const double blocks = (double)step->chunk_count / plan->shape.parts;
            for (uint32_t t = 0; t < step->target_count; t++) {
                const int to = own->targets[step->first_target + t];
                count_transfer(hosts, rank, to, blocks, &cards);
                count_transfer(racks, rank, to, blocks, &uplinks);
            }
            if (step->target_group == PLAN_NO_GROUP) continue;
            const struct plan_group *group = &own->groups[step->target_group];
            for (uint32_t m = 0; m < group->member_count; m++) {
                const int to = own->members[group->first_member + m];
                count_transfer(hosts, rank, to, blocks, &cards);
                count_transfer(racks, rank, to, blocks, &uplinks);
            }
        }
    }
    return (struct traffic){most(&cards), most(&uplinks)};
}

static struct traffic traffic_of(const struct setting *setting, const struct wish *wish,
                                 const struct choice *choice)
{
    struct plan *plan = make(setting, choice, wish, 0, false);
    const struct traffic traffic = count(setting, plan);
    plan_free(plan);
    return traffic;
}

/* What the model says of a candidate, of one byte a block. */
static void compare(const struct setting *setting, const struct network_candidate *candidate)
{
    const struct algorithm *algorithm = algo_find(candidate->collective, candidate->name);
    const struct choice choice = {.algorithm = algorithm, .only_hosts = !candidate->heeds_racks};
    const struct wish wish = {.collective = candidate->collective};
    const struct traffic traffic = traffic_of(setting, &wish, &choice);
    struct network_cost cost = {0};
    candidate->cost(&setting->network, setting->map.rank_count, 1, &cost);
    if (traffic.card > cost.card_bytes * 1.001 || traffic.uplink > cost.uplink_bytes * 1.001)
        fail_msg("%s of %s, %s: %g blocks through a card and %g through an uplink, where the model "
                 "has %g and %g",
                 candidate->name, collective_name(candidate->collective), setting->text,
                 traffic.card, traffic.uplink, cost.card_bytes, cost.uplink_bytes);
    /* Nothing is made to look bad: without racks, with one rank a host or an algorithm that knows the hosts, costs are what
     * they are. */
    const bool is_exact = setting->network.rack_count == 1 &&
                          (setting->network.host_ranks_max == 1 || algorithm->needs_levels);
    if (is_exact && cost.card_bytes > traffic.card * 1.5 + 1e-9)
        fail_msg("%s of %s, %s: %g blocks through a card, where the model has %g", candidate->name,
                 collective_name(candidate->collective), setting->text, traffic.card,
                 cost.card_bytes);
}

static bool is_compared(const struct network_candidate *candidate, const struct setting *setting)
{
    const struct algorithm *algorithm = algo_find(candidate->collective, candidate->name);
    assert_non_null(algorithm);
    return candidate->collective != COLLECTIVE_BARRIER &&
           network_suits(candidate, &setting->network) &&
           algo_supports_levels(algorithm, setting->map.rank_count);
}

/* One rank a host, and hosts of several where ranks are numbered host by host; with racks an upper bound. */
static void plans_send_what_the_model_says(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= 16; hosts *= 2)
        for (int locals = 1; locals * hosts <= 16; locals *= 2)
            for (int racks = 0; racks <= 2; racks += 2) {
                struct setting setting;
                if (racks > 0 && hosts < 4) continue;
                set_up_even(&setting, hosts, locals, racks, CONTIGUOUS);
                for (int i = 0; i < network_candidate_count; i++)
                    if (is_compared(&network_candidates[i], &setting))
                        compare(&setting, &network_candidates[i]);
            }
}

/* ------------------------------------------------------------------------------- choices and their reasons */

static void expect(const struct setting *setting, enum collective collective, size_t bytes,
                   const char *name)
{
    const struct wish wish = {.collective = collective, .bytes = bytes};
    const struct choice choice = chosen(setting, &wish);
    if (strcmp(choice.algorithm->name, name) != 0)
        fail_msg("%s of %zu bytes, %s: %s and not %s", collective_name(collective), bytes,
                 setting->text, choice.algorithm->name, name);
}

enum { RINGS = 3 };

/* 2 (N-1)/N n through every card and every uplink: no algorithm has less through a card. */
static void a_long_allreduce_sends_the_least_bytes(void **state)
{
    (void)state;
    for (int way = 0; way < RINGS; way++) {
        struct setting setting;
        if (way == 0) set_up_even(&setting, 8, 1, 0, CONTIGUOUS);
        if (way == 1) set_up_even(&setting, 8, 1, 2, CONTIGUOUS);
        if (way == 2) set_up_interleaved_racks(&setting, 8);
        for (int i = 0; i < SIZES; i++) {
            if (sizes[i] < 1 << 20) continue;
            const struct wish wish = {.collective = COLLECTIVE_ALLREDUCE, .bytes = sizes[i]};
            const struct choice choice = chosen(&setting, &wish);
            assert_string_equal(choice.algorithm->name, "ring");
            const struct traffic traffic = traffic_of(&setting, &wish, &choice);
            assert_true(traffic.card <= 2 * 7 / 8.0);
            assert_true(traffic.uplink <= 2 * 7 / 8.0);
        }
    }
}

static struct traffic traffic_by(const struct setting *setting, const char *name, bool in_order)
{
    struct setting other = *setting;
    const struct wish wish = {.collective = COLLECTIVE_ALLREDUCE};
    const struct choice choice = {.algorithm = algo_find(COLLECTIVE_ALLREDUCE, name)};
    for (int r = 0; r < other.map.rank_count && !in_order; r++) other.order[r] = r;
    other.map.levels.group_of[0] = other.map.host_of; /* of the copy */
    other.map.levels.group_of[1] = other.map.rack_of;
    return traffic_of(&other, &wish, &choice);
}

/* What docs/choosing.md says of them. */
static void other_long_allreduces_burden_uplinks_or_wait(void **state)
{
    (void)state;
    struct setting setting;
    set_up_interleaved_racks(&setting, 8);
    const struct traffic ring = traffic_by(&setting, "ring", true);
    const struct traffic unordered = traffic_by(&setting, "ring", false);
    const struct traffic levels = traffic_by(&setting, "hierarchical", true);
    assert_true(ring.card == 1.75 && ring.uplink == 1.75);
    assert_true(unordered.card == 1.75 && unordered.uplink == 4 * 1.75);
    assert_true(levels.card == 1.75 && levels.uplink == 1);
    set_up_even(&setting, 8, 1, 2, CONTIGUOUS);
    const struct traffic circulant = traffic_by(&setting, "circulant", true);
    assert_true(circulant.card == 1.75 && circulant.uplink == 5.25);
}

static void a_long_allreduce_of_many_ranks_sends_the_least_bytes(void **state)
{
    (void)state;
    static const int host_counts[] = {2, 3, 5, 8, 16};
    for (size_t h = 0; h < sizeof host_counts / sizeof *host_counts; h++)
        for (int locals = 2; locals * host_counts[h] <= 32; locals *= 2)
            for (int n = 0; n < NUMBERING_COUNT; n++)
                for (int racks = 0; racks <= 2; racks += 2) {
                    const double hosts = host_counts[h];
                    struct setting setting;
                    if (racks > 0 && (host_counts[h] % racks != 0 || host_counts[h] < 4)) continue;
                    set_up_even(&setting, host_counts[h], locals, racks, (enum numbering)n);
                    const struct wish wish = {COLLECTIVE_ALLREDUCE, 64 << 20, false, false, false};
                    const struct choice choice = chosen(&setting, &wish);
                    const struct traffic traffic = traffic_of(&setting, &wish, &choice);
                    if (traffic.card > 2 * (hosts - 1) / hosts + 1e-9 ||
                        traffic.uplink > 2 * (hosts - 1) / hosts + 1e-9)
                        fail_msg("%s, %s: %g and %g vectors", choice.algorithm->name, setting.text,
                                 traffic.card, traffic.uplink);
                }
}

static void a_short_allreduce_takes_the_fewest_rounds(void **state)
{
    (void)state;
    struct setting setting;
    for (int hosts = 2; hosts <= 16; hosts *= 2) {
        set_up_even(&setting, hosts, 1, 0, CONTIGUOUS);
        expect(&setting, COLLECTIVE_ALLREDUCE, 8, "doubling");
        expect(&setting, COLLECTIVE_ALLREDUCE, 1 << 10, "doubling");
        set_up_even(&setting, hosts, 4, 0, INTERLEAVED);
        expect(&setting, COLLECTIVE_ALLREDUCE, 8, "hierarchical_tree");
        expect(&setting, COLLECTIVE_ALLREDUCE, 1 << 10, "hierarchical_tree");
    }
    set_up_interleaved_racks(&setting, 8);
    expect(&setting, COLLECTIVE_ALLREDUCE, 8, "doubling");
    expect(&setting, COLLECTIVE_ALLREDUCE, 1 << 10, "doubling");
}

/* Rounds in which every rank sends one block: what the busiest card or uplink carries in each, added up. */
static double stepwise_blocks(const struct setting *setting, const struct plan *plan)
{
    const int ranks = plan->shape.rank_count;
    double sum = 0;
    for (int round = 0; round < ranks - 1; round++) {
        int cards[HOST_MAP_UNITS_MAX] = {0}, uplinks[HOST_MAP_UNITS_MAX] = {0}, busiest = 0;
        for (int rank = 0; rank < ranks; rank++) {
            const struct rank_plan *own = plan->ranks[rank];
            int sends = 0, to = -1;
            for (uint32_t i = 0; i < own->step_count && to < 0; i++)
                if (own->steps[i].target_count == 1 && sends++ == round)
                    to = own->targets[own->steps[i].first_target];
            assert_true(to >= 0);
            const int host = (1000 - setting->map.host_of[rank]) / 7;
            const int rack = setting->map.rack_of[rank];
            if (setting->map.host_of[to] != setting->map.host_of[rank]) cards[host]++;
            if (setting->map.rack_of[to] != rack) uplinks[rack]++;
            if (cards[host] > busiest) busiest = cards[host];
            if (uplinks[rack] > busiest) busiest = uplinks[rack];
        }
        sum += busiest;
    }
    return sum;
}

/* In step, no card or uplink carries more in all rounds together than the busiest has to. */
static void a_long_alltoall_keeps_the_busiest_link_busy(void **state)
{
    (void)state;
    for (int way = 0; way < 5; way++) {
        struct setting setting;
        double least = 7;
        if (way == 0) set_up_even(&setting, 8, 1, 0, CONTIGUOUS);
        if (way == 1) set_up_even(&setting, 8, 1, 2, CONTIGUOUS), least = 16;
        if (way == 2) set_up_interleaved_racks(&setting, 8), least = 16;
        if (way == 3) set_up_even(&setting, 4, 4, 0, INTERLEAVED), least = 4 * 12;
        if (way == 4) set_up_even(&setting, 6, 2, 2, SHUFFLED), least = 6 * 6;
        const struct wish wish = {COLLECTIVE_ALLTOALL, 512 << 10, false, false, false};
        const struct choice choice = chosen(&setting, &wish);
        assert_string_equal(choice.algorithm->name, "pairwise");
        for (int in_place = 0; in_place < 2; in_place++) {
            struct plan *plan = make(&setting, &choice, &wish, 0, in_place);
            /* 7 blocks where there are no racks; 4 ranks with 4 blocks each through an uplink. */
            const double blocks = stepwise_blocks(&setting, plan);
            if (way == 0) assert_true(blocks == 7);
            if (blocks > least * 1.001) fail_msg("%s: %g blocks", setting.text, blocks);
            plan_free(plan);
        }
    }
}

/* ------------------------------------------------------------------------- the tables of docs/choosing.md */

static const char *size_name(size_t bytes)
{
    static char name[24];
    if (bytes >= 1 << 20)
        snprintf(name, sizeof name, "%zu MiB", bytes >> 20);
    else if (bytes >= 1 << 10)
        snprintf(name, sizeof name, "%zu KiB", bytes >> 10);
    else
        snprintf(name, sizeof name, "%zu B", bytes);
    return name;
}

/* "| allreduce | `doubling`, from 256 KiB `ring` |": sizes of a block in which another one comes. */
static void write_row(const struct setting *setting, enum collective collective, char *row,
                      size_t size)
{
    const char *last = "";
    size_t length = (size_t)snprintf(row, size, "| %s |", collective_name(collective));
    for (int i = 1; i < SIZES; i++) {
        const struct wish wish = {.collective = collective, .bytes = sizes[i]};
        const struct choice choice = chosen(setting, &wish);
        if (strcmp(last, choice.algorithm->name) == 0) continue;
        length +=
            i == 1 ? (size_t)snprintf(row + length, size - length, " `%s`", choice.algorithm->name)
                   : (size_t)snprintf(row + length, size - length, ", from %s `%s`",
                                      size_name(sizes[i]), choice.algorithm->name);
        assert_true(length < size);
        last = choice.algorithm->name;
    }
    snprintf(row + length, size - length, " |\n");
}

static const struct {
    const char *title;
    int locals, racks;
} tables[] = {{"8 hosts of 1 rank", 1, 0},
              {"8 hosts of 1 rank, two racks", 1, 2},
              {"8 hosts of 4 ranks", 4, 0},
              {"8 hosts of 4 ranks, two racks", 4, 2}};

static char *make_tables(void)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        struct setting setting;
        set_up_even(&setting, 8, tables[t].locals, tables[t].racks, CONTIGUOUS);
        fprintf(file, "| %s | |\n|---|---|\n", tables[t].title);
        for (int c = 0; c < COLLECTIVE_COUNT; c++) {
            char row[300];
            write_row(&setting, (enum collective)c, row, sizeof row);
            fputs(row, file);
        }
        fputs("\n", file);
    }
    fclose(file);
    return text;
}

static void the_documented_tables_are_true(void **state)
{
    (void)state;
    enum { PAGE_BYTES_MAX = 1 << 16 };
    char path[4096];
    const char *root = getenv("TUTTI_ROOT");
    if (root == NULL) skip();
    snprintf(path, sizeof path, "%s/docs/choosing.md", root);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *page = calloc(1, PAGE_BYTES_MAX), *made = make_tables();
    assert_non_null(page);
    assert_in_range(fread(page, 1, PAGE_BYTES_MAX - 1, file), 1, PAGE_BYTES_MAX - 2);
    fclose(file);
    const bool is_true = strstr(page, made) != NULL;
    if (!is_true) fprintf(stderr, "docs/choosing.md should have:\n%s", made);
    assert_true(is_true);
    free(page);
    free(made);
}

static void shapes_are_what_levels_say(void **state)
{
    (void)state;
    struct setting setting;
    set_up_even(&setting, 8, 1, 2, SHUFFLED);
    assert_memory_equal(&setting.network, (&(struct network_shape){8, 1, 1, 2, 4}),
                        sizeof setting.network);
    set_up_even(&setting, 8, 1, 0, SHUFFLED);
    assert_memory_equal(&setting.network, (&(struct network_shape){8, 1, 1, 1, 8}),
                        sizeof setting.network);
    set_up_even(&setting, 1, 5, 0, SHUFFLED);
    assert_memory_equal(&setting.network, (&(struct network_shape){1, 5, 5, 1, 1}),
                        sizeof setting.network);
    set_up(&setting, &(struct host_shape){.hosts = {3, 1, 2, 2}, .racks = {1, 3}}, SHUFFLED);
    assert_memory_equal(&setting.network, (&(struct network_shape){4, 1, 3, 2, 3}),
                        sizeof setting.network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_what_levels_say),
        cmocka_unit_test(every_choice_is_proven),
        cmocka_unit_test(every_choice_is_proven_for_uneven_hosts_and_racks),
        cmocka_unit_test(many_ranks_have_a_plan),
        cmocka_unit_test(plans_send_what_the_model_says),
        cmocka_unit_test(a_long_allreduce_sends_the_least_bytes),
        cmocka_unit_test(other_long_allreduces_burden_uplinks_or_wait),
        cmocka_unit_test(a_long_allreduce_of_many_ranks_sends_the_least_bytes),
        cmocka_unit_test(a_short_allreduce_takes_the_fewest_rounds),
        cmocka_unit_test(a_long_alltoall_keeps_the_busiest_link_busy),
        cmocka_unit_test(the_documented_tables_are_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
