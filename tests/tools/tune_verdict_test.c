/* What tutti-tune measures, and which measurement makes an entry. That it measures at all is seen
 * by tune_test.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/tune/candidates.c"
#include "tools/tune/measure.c"
#include "transport/local/local.h"
#include "transport/local/paths.h"
#include "transport/tcp/paths.h"

enum { RACK_RANKS = 16 };

/* Ranks of one host, or of pairs on hosts, four of them in a rack. */
static struct tune_site site_of(int rank_count, bool has_racks)
{
    static struct calibration calibration;
    static int host_of[RACK_RANKS], rack_of[RACK_RANKS];
    static const struct algo_levels levels = {2, {host_of, rack_of}};
    for (int r = 0; r < RACK_RANKS; r++) {
        host_of[r] = r / 2;
        rack_of[r] = r / 8;
    }
    calibration_init(&calibration, local_paths(false), tcp_paths());
    struct tune_site site = {.rank_count = rank_count,
                             .core_count = has_racks ? 2 : rank_count,
                             .levels = has_racks ? &levels : NULL,
                             .within = local_paths(false),
                             .between = has_racks ? tcp_paths() : NULL,
                             .calibration = &calibration};
    local_limits(rank_count, false, &site.piece_bytes_max, &site.piece_count_max);
    site.fingerprint = tune_site_fingerprint(&site, has_racks);
    return site;
}

static struct candidates candidates_of(const struct tune_site *site, size_t bytes, double margin)
{
    const struct tune_question question = {.collective = COLLECTIVE_ALLREDUCE, .bytes = bytes};
    struct candidates candidates;
    if (candidates_find(site, &question, margin, &candidates) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    return candidates;
}

static void what_the_model_has_within_the_margin_is_measured(void **state)
{
    (void)state;
    const struct tune_site site = site_of(8, false);
    for (size_t bytes = 8; bytes <= 64 << 20; bytes *= 8) {
        const struct tune_question question = {.collective = COLLECTIVE_ALLREDUCE, .bytes = bytes};
        struct ranking ranking;
        assert_int_equal(ranking_find(&site, &question, &ranking), TUTTI_OK);
        for (int percent = 0; percent <= 100; percent += 25) {
            const struct candidates candidates = candidates_of(&site, bytes, percent / 100.0);
            const double limit_ps = (1 + percent / 100.0) * (double)ranking.ranked[0].time_ps;
            assert_in_range(candidates.count, CANDIDATES_MIN, CANDIDATES_BY_MODEL_MAX);
            for (int i = 0; i < candidates.count; i++) {
                assert_ptr_equal(candidates.of[i].algorithm, ranking.ranked[i].algorithm);
                assert_true(i < CANDIDATES_MIN || (double)ranking.ranked[i].time_ps <= limit_ps);
            }
            if (candidates.count < CANDIDATES_BY_MODEL_MAX && candidates.count < ranking.count)
                assert_true((double)ranking.ranked[candidates.count].time_ps > limit_ps);
        }
        assert_int_equal(candidates_of(&site, bytes, 1000).count, CANDIDATES_BY_MODEL_MAX);
    }
}

/* Somebody has put it into the folder, who may know more of the machine. */
static void a_plan_of_the_folder_is_measured_whatever_is_predicted(void **state)
{
    (void)state;
    struct algorithm slow = *algo_find(COLLECTIVE_ALLREDUCE, "chain");
    slow.name = "file:slow.plan";
    slow.plan_fingerprint = 1;
    const struct algorithm *const folder[] = {&slow};
    struct tune_site site = site_of(8, false);
    site.loaded = folder;
    site.loaded_count = 1;
    site.fingerprint = tune_site_fingerprint(&site, 0);
    const struct candidates candidates = candidates_of(&site, 8, 0);
    assert_int_equal(candidates.count, CANDIDATES_MIN + 1);
    assert_ptr_equal(candidates.of[CANDIDATES_MIN].algorithm, &slow);
    assert_true(candidate_is_loaded(&candidates.of[CANDIDATES_MIN]));
    assert_false(candidate_is_loaded(&candidates.of[0]));
    assert_ptr_equal(algorithm_of(&site, number_of(&site, &slow)), &slow);
    assert_ptr_equal(algorithm_of(&site, number_of(&site, &algo_list[3])), &algo_list[3]);
    assert_null(algorithm_of(&site, -1));
    assert_null(algorithm_of(&site, algo_count + 1));
}

/* A call can ask for an algorithm, and not for its plan without racks. */
static void plans_without_racks_are_measured_only_where_the_model_takes_them(void **state)
{
    (void)state;
    const struct tune_site site = site_of(RACK_RANKS, true);
    int seen = 0;
    for (size_t bytes = 8; bytes <= 64 << 20; bytes *= 4) {
        const struct tune_question question = {.collective = COLLECTIVE_ALLREDUCE, .bytes = bytes};
        struct ranking ranking;
        assert_int_equal(ranking_find(&site, &question, &ranking), TUTTI_OK);
        for (int i = 0; i < ranking.count; i++) seen += ranking.ranked[i].only_hosts;
        const struct candidates candidates = candidates_of(&site, bytes, 10);
        assert_int_equal(candidates.count, CANDIDATES_BY_MODEL_MAX);
        assert_true(candidates.of[0].only_hosts == ranking.ranked[0].only_hosts);
        for (int i = 1; i < candidates.count; i++) assert_false(candidates.of[i].only_hosts);
    }
    assert_true(seen > 0); /* otherwise this asks nothing */
}

static void an_entry_speaks_only_against_choices_that_were_measured(void **state)
{
    (void)state;
    const struct tune_site site = site_of(8, false);
    int halves = 0, wholes = 0;
    for (size_t bytes = 2; bytes <= 64 << 20; bytes *= 2) {
        const struct tune_question question = {.collective = COLLECTIVE_ALLREDUCE, .bytes = bytes};
        const struct candidates here = candidates_of(&site, bytes, 0),
                                below = candidates_of(&site, bytes / 2, 0);
        const struct candidate model = here.of[0],
                               third = {algo_find(COLLECTIVE_ALLREDUCE, "tree"), false};
        const bool is_same = model.algorithm == below.of[0].algorithm;
        uint64_t from;
        assert_int_equal(candidates_least_bytes(&site, &question, &model, &third, &from), TUTTI_OK);
        assert_true(from == (is_same ? bytes / 2 : bytes));
        assert_int_equal(candidates_least_bytes(&site, &question, &model, &below.of[0], &from),
                         TUTTI_OK);
        assert_true(from == bytes / 2);
        *(is_same ? &halves : &wholes) += 1;
    }
    assert_true(halves > 0 && wholes > 0);
}

static void only_what_is_clearly_faster_wins(void **state)
{
    (void)state;
    const struct timing clear[] = {{100, 5}, {90, 5}, {80, 5}, {85, 1}};
    assert_int_equal(measure_winner(clear, 4), 2);
    assert_int_equal(measure_winner(clear, 2), 1);
    assert_int_equal(measure_winner(clear, 1), 0);
    const struct timing slower[] = {{100, 0}, {101, 0}};
    assert_int_equal(measure_winner(slower, 2), 0);
    const struct timing noisy[] = {{100, 20}, {80, 1}};
    assert_int_equal(measure_winner(noisy, 2), 0);
    const struct timing noisy_winner[] = {{100, 1}, {80, 20}};
    assert_int_equal(measure_winner(noisy_winner, 2), 0);
    const struct timing hardly[] = {{100, 0}, {99, 0}};
    assert_int_equal(measure_winner(hardly, 2), 0);
}

static void quartiles_are_the_noise(void **state)
{
    (void)state;
    struct bench bench = {.comm = NULL};
    for (int round = 0; round < ROUNDS; round++)
        bench.times_ns[round][1] = 10 * ((round * 4) % ROUNDS);
    bench.times_ns[0][1] = 0;
    const struct timing timing = sum_up(&bench, 1); /* 0, 10 ... 80 */
    assert_true(timing.median_ns == 40);
    assert_true(timing.spread_ns == 40);
}

static void an_order_has_each_candidate_once(void **state)
{
    (void)state;
    uint64_t chance = 1;
    int firsts[CANDIDATES_MAX] = {0};
    for (int round = 0; round < 600; round++) {
        int order[CANDIDATES_MAX] = {0};
        unsigned seen = 0;
        shuffle(&chance, order, CANDIDATES_MAX);
        for (int i = 0; i < CANDIDATES_MAX; i++) seen |= 1u << order[i];
        assert_int_equal(seen, (1u << CANDIDATES_MAX) - 1);
        firsts[order[0]]++;
    }
    for (int i = 0; i < CANDIDATES_MAX; i++) assert_in_range(firsts[i], 40, 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_model_has_within_the_margin_is_measured),
        cmocka_unit_test(a_plan_of_the_folder_is_measured_whatever_is_predicted),
        cmocka_unit_test(plans_without_racks_are_measured_only_where_the_model_takes_them),
        cmocka_unit_test(an_entry_speaks_only_against_choices_that_were_measured),
        cmocka_unit_test(only_what_is_clearly_faster_wins),
        cmocka_unit_test(quartiles_are_the_noise),
        cmocka_unit_test(an_order_has_each_candidate_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
