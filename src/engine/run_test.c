/* Programs of every algorithm run in one thread over links that are slow, short of room and
 * unpredictable, in any order of ranks, on buffers that lie in one piece or in many, with blocks of
 * one count or of many: results are right, and nothing gets stuck.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "engine/run.h"
#include "tests/kit/sanitized.h"
#include "tests/worlds/engine_world.h"

static const int sizes[] = {2, 3, 4, 5, 8};
enum { SIZE_COUNT = sizeof sizes / sizeof *sizes, IN_PLACE = 0xffff, ELEMENTS_MAX = 150000 };

static int root_of(enum collective collective, int number, int size)
{
    return collective_is_rooted(collective) ? number % size : 0;
}

/* A message that is reduced on the way is never copied out of its sender's memory. */
static bool says_nothing_new(const struct algorithm *algorithm, const struct engine_mood *mood)
{
    return mood->reach == REACH_COPY && collective_reduces(algorithm->collective);
}

/* --------------------------------------------------------------------------------- in one piece */

static void run_every_algorithm(const size_t *counts, int count_count, struct engine_mood mood)
{
    for (int i = 0; i < algo_count; i++) {
        if (says_nothing_new(&algo_list[i], &mood)) continue;
        for (int s = 0; s < SIZE_COUNT; s++) {
            if (!algo_supports(&algo_list[i], sizes[s])) continue;
            for (int c = 0; c < 2 * count_count; c++) {
                if (is_left_out((unsigned)(i + s + c))) continue;
                const struct engine_job job = {
                    .algorithm = &algo_list[i],
                    .size = sizes[s],
                    .root = root_of(algo_list[i].collective, i + c, sizes[s]),
                    .count = counts[c / 2],
                    .in_place = c % 2 == 1 ? IN_PLACE : 0};
                engine_run_job(&job, mood, (uint64_t)(i * 1000 + s * 100 + c));
            }
        }
    }
}

static void every_program_is_right_with_room(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 7, 100};
    run_every_algorithm(counts, 4,
                        (struct engine_mood){.piece_bytes = 16384, .pieces = 4, .delay = 1});
}

static void every_program_is_right_in_one_slot(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 7, 100, 5003};
    run_every_algorithm(counts, 5,
                        (struct engine_mood){.piece_bytes = 8192, .pieces = 1, .delay = 3});
}

static void chunks_larger_than_all_slots_do_not_stick(void **state)
{
    (void)state;
    static const size_t counts[] = {60013};
    run_every_algorithm(counts, 1,
                        (struct engine_mood){.piece_bytes = 8192, .pieces = 2, .delay = 2});
}

static void every_program_is_right_by_reference(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 5000, 20011};
    run_every_algorithm(
        counts, 3,
        (struct engine_mood){.piece_bytes = 16384, .pieces = 3, .delay = 2, .reach = REACH_READ});
}

static void every_program_is_right_where_receivers_copy(void **state)
{
    (void)state;
    static const size_t counts[] = {7, 40009};
    run_every_algorithm(
        counts, 2,
        (struct engine_mood){.piece_bytes = 16384, .pieces = 3, .delay = 2, .reach = REACH_COPY});
}

/* --------------------------------------------------------------------------------- shared slots */

static void every_program_is_right_with_shared_slots(void **state)
{
    (void)state;
    static const size_t counts[] = {7, 5003, 60013};
    run_every_algorithm(
        counts, 3, (struct engine_mood){.piece_bytes = 16384, .pieces = 3, .delay = 2, .shares = 3});
}

/* The only place of a rank may wait for a rank that waits for a place. */
static void too_few_shared_slots_hold_up_nobody(void **state)
{
    (void)state;
    static const size_t counts[] = {20011};
    run_every_algorithm(
        counts, 1, (struct engine_mood){.piece_bytes = 8192, .pieces = 2, .delay = 1, .shares = 1});
}

/* Every piece of a relay is forwarded by each rank of its chain but the first. */
static void a_relay_hands_places_on(void **state)
{
    (void)state;
    enum { RANKS = 4, PIECES = 3, PIECE_BYTES = 16384 };
    const struct engine_job job = {.algorithm = algo_find(COLLECTIVE_ALLREDUCE, "relay"),
                                   .size = RANKS,
                                   .count = 2 * PIECES * PIECE_BYTES / sizeof(int32_t)};
    struct engine_net *net = engine_net_create(
        RANKS,
        (struct engine_mood){.piece_bytes = PIECE_BYTES, .pieces = 4, .delay = 1, .shares = 8}, 1);
    engine_run_job_over(&job, net);
    assert_int_equal(engine_net_handed_on(net), 2 * PIECES * (RANKS - 1));
    engine_net_free(net);
}

/* Ranks of two hosts: the net checks that whatever is shared, written or forwarded stays on one
 * host. */
static void steps_that_lead_to_other_hosts_use_no_shared_slot(void **state)
{
    (void)state;
    static const int host_of[ENGINE_RANKS_MAX] = {1, 2, 2, 1, 2, 1, 1, 2};
    const struct engine_mood mood = {.piece_bytes = 16384,
                                     .pieces = 3,
                                     .delay = 2,
                                     .expects = true,
                                     .shares = 3,
                                     .host_of = host_of};
    uint64_t shared = 0, handed_on = 0;
    for (int i = 0; i < algo_count; i++) {
        for (int size = 3; size <= ENGINE_RANKS_MAX; size += 5) {
            if (!algo_supports(&algo_list[i], size)) continue;
            const bool is_rooted = collective_is_rooted(algo_list[i].collective);
            const struct engine_job job = {.algorithm = &algo_list[i],
                                           .size = size,
                                           .root = is_rooted ? i % size : 0,
                                           .count = 40009,
                                           .in_place = i % 2 == 0 ? 0xffff : 0};
            struct engine_net *net = engine_net_create(size, mood, (uint64_t)i);
            engine_run_job_over(&job, net);
            shared += engine_net_shared(net);
            handed_on += engine_net_handed_on(net);
            engine_net_free(net);
        }
    }
    assert_true(shared > 0 && handed_on > 0);
}

/* A relay forwards places until it comes to the other host. */
static void a_relay_hands_places_on_within_a_host(void **state)
{
    (void)state;
    enum { RANKS = 4, PIECES = 3, PIECE_BYTES = 16384 };
    static const int host_of[RANKS] = {0, 0, 0, 1};
    const struct engine_mood mood = {
        .piece_bytes = PIECE_BYTES, .pieces = 4, .delay = 1, .shares = 8, .host_of = host_of};
    const struct engine_job job = {.algorithm = algo_find(COLLECTIVE_ALLREDUCE, "relay"),
                                   .size = RANKS,
                                   .count = 2 * PIECES * PIECE_BYTES / sizeof(int32_t)};
    struct engine_net *net = engine_net_create(RANKS, mood, 1);
    engine_run_job_over(&job, net);
    const uint64_t handed_on = engine_net_handed_on(net);
    assert_true(handed_on > 0 && handed_on < 2 * PIECES * (RANKS - 1));
    engine_net_free(net);
}

/* ------------------------------------------------------------------------------------ expecting */

static unsigned offers; /* that were made, and not passed on */

static void count_offer(struct link_rx *link, void *destination, size_t bytes)
{
    (void)link, (void)destination, (void)bytes;
    offers++;
}

/* Another rank cannot see that an operation is prepared: nothing is offered before it opens, and
 * nothing is left behind if it is dropped. */
static void what_is_prepared_shows_nothing_before_it_opens(void **state)
{
    (void)state;
    enum { SIZE = 4 };
    const struct engine_mood mood = {.piece_bytes = 16384, .pieces = 4, .delay = 1, .expects = true};
    const struct engine_job job = {.algorithm = algo_find(COLLECTIVE_ALLREDUCE, "twoshot"),
                                   .size = SIZE,
                                   .count = 4 * 17000,
                                   .in_place = 0};
    struct engine_net *net = engine_net_create(SIZE, mood, 1);
    struct engine_rank ranks[SIZE];
    for (int r = 0; r < SIZE; r++) engine_rank_prepare(&job, net, r, &ranks[r]);
    engine_run(&job, net, ranks);
    assert_true(ranks[0].program->expect_count > 0);
    struct link_rx *const link = ranks[0].operation.rx[ranks[0].program->expects[0].rx];
    struct link_rx_ops counting = *link->ops;
    counting.advertise = count_offer;
    link->ops = &counting;
    for (int dropped = 0; dropped < 2; dropped++)
        for (int r = 0; r < SIZE; r++) {
            ranks[r].done = false;
            assert_int_equal(operation_prepare(&ranks[r].operation, ranks[r].program,
                                               engine_net_transport(net, r), 0,
                                               &ranks[r].input.buffer, &ranks[r].output.buffer),
                             TUTTI_OK);
        }
    assert_int_equal(offers, 0);
    for (int r = 0; r < SIZE; r++) operation_open(&ranks[r].operation, ranks[r].program->signature);
    assert_int_equal(offers, 1);
    engine_run(&job, net, ranks);
    for (int r = 0; r < SIZE; r++) engine_expect_right(&job, r, &ranks[r]);
    for (int r = 0; r < SIZE; r++) engine_rank_release(&ranks[r]);
    engine_net_free(net);
}

/* The number of messages that went to where they were expected; a job in which none is expected
 * shows nothing new. */
static uint64_t run_expecting(const struct engine_job *job, struct engine_mood mood, uint64_t seed)
{
    struct engine_net *net = engine_net_create(job->size, mood, seed);
    struct engine_rank ranks[ENGINE_RANKS_MAX];
    uint32_t expects = 0;
    for (int r = 0; r < job->size; r++) {
        engine_rank_prepare(job, net, r, &ranks[r]);
        expects += ranks[r].program->expect_count;
    }
    for (int round = 0; round < 2 && expects > 0; round++) { /* offers of the first are void then */
        if (round > 0)
            for (int r = 0; r < job->size; r++) engine_rank_prepare_again(net, r, &ranks[r]);
        engine_run(job, net, ranks);
        engine_net_expect_empty(net);
        if (job->in_place == 0 || round == 0)
            for (int r = 0; r < job->size; r++) engine_expect_right(job, r, &ranks[r]);
    }
    const uint64_t placed = engine_net_written(net);
    for (int r = 0; r < job->size; r++) engine_rank_release(&ranks[r]);
    engine_net_free(net);
    return placed;
}

/* Ranks in place and not, buffers in one piece and in a few. */
static void results_are_stored_where_they_are_expected(void **state)
{
    (void)state;
    enum { PART = 17000, VARIANTS = 6 }; /* elements; a little more than what is worth an offer */
    static const size_t segments[] = {3 * PART, PART / 2, 40 * PART, PART};
    static const enum link_reach reaches[] = {REACH_NONE, REACH_READ, REACH_COPY};
    uint64_t placed[VARIANTS] = {0};
    for (int i = 0; i < algo_count; i++) {
        if (!collective_reduces(algo_list[i].collective)) continue;
        for (int s = 0; s < SIZE_COUNT; s++) {
            if (!algo_supports(&algo_list[i], sizes[s])) continue;
            for (int variant = s % 2; variant < VARIANTS; variant += 2) {
                const struct engine_mood mood = {.piece_bytes = 16384,
                                                 .pieces = 1 + (unsigned)variant % 3,
                                                 .delay = 1 + (unsigned)variant % 2,
                                                 .reach = reaches[(variant + s) % 3],
                                                 .expects = true};
                const struct engine_job job = {
                    .algorithm = &algo_list[i],
                    .size = sizes[s],
                    .root = root_of(algo_list[i].collective, i + variant, sizes[s]),
                    .count = (size_t)sizes[s] * PART + (size_t)variant * 100,
                    .in_place = variant % 3 == 0   ? 0
                                : variant % 3 == 1 ? IN_PLACE
                                                   : 0x55,
                    .is_cut = variant >= 3,
                    .segments = segments};
                placed[variant] += run_expecting(&job, mood, (uint64_t)(i * 100 + s * 10 + variant));
            }
        }
    }
    for (int variant = 0; variant < VARIANTS; variant++) {
        print_message("variant %d: %llu messages\n", variant, (unsigned long long)placed[variant]);
        assert_true(placed[variant] > 0);
    }
}

/* ---------------------------------------------------------------------------------- in segments */

/* Some ranks are in place and others are not; each rank's buffers are cut in their own way. */
static void run_every_algorithm_cut(const size_t *counts, int count_count, struct engine_mood mood)
{
    for (int i = 0; i < algo_count; i++) {
        if (algo_list[i].collective == COLLECTIVE_BARRIER || says_nothing_new(&algo_list[i], &mood))
            continue;
        for (int s = 0; s < SIZE_COUNT; s++) {
            if (!algo_supports(&algo_list[i], sizes[s])) continue;
            for (int c = 0; c < 2 * count_count; c++) {
                if (counts[c / 2] * (size_t)sizes[s] > ELEMENTS_MAX) continue;
                if (is_left_out((unsigned)(i + s + c))) continue;
                const uint64_t seed = (uint64_t)(i * 1009 + s * 101 + c);
                const struct engine_job job = {
                    .algorithm = &algo_list[i],
                    .size = sizes[s],
                    .root = root_of(algo_list[i].collective, i + c, sizes[s]),
                    .count = counts[c / 2],
                    .in_place = c % 2 == 1 ? (unsigned)(seed * 0x9e3779b9u >> 8) & IN_PLACE : 0,
                    .is_cut = true};
                engine_run_job(&job, mood, seed);
            }
        }
    }
}

static void buffers_may_lie_in_segments(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 7, 300, 9001};
    run_every_algorithm_cut(counts, 4,
                            (struct engine_mood){.piece_bytes = 8192, .pieces = 2, .delay = 2});
}

static void buffers_in_segments_may_go_by_reference(void **state)
{
    (void)state;
    static const size_t counts[] = {5, 20011};
    run_every_algorithm_cut(
        counts, 2,
        (struct engine_mood){.piece_bytes = 16384, .pieces = 3, .delay = 2, .reach = REACH_READ});
}

/* Chunks that fit the places of a link by their bytes, but come in more messages than it has
 * places: in segments, or cut by them. */
static void chunks_of_more_segments_than_a_link_has_places_do_not_stick(void **state)
{
    (void)state;
    static const size_t equal[] = {2050, 2050, 2050, 2050}, unequal[] = {4097, 1365, 1365, 1365};
    for (int i = 0; i < algo_count; i++) {
        for (int variant = 0; variant < 8; variant++) {
            const int size = variant % 2 == 0 ? 3 : 6;
            if (!algo_supports(&algo_list[i], size) || is_left_out((unsigned)(i + variant)))
                continue;
            const struct engine_mood mood = {
                .piece_bytes = 16384, .pieces = variant < 4 ? 3 : 4, .delay = 1, .reach = REACH_READ};
            const size_t part = variant < 4 ? 3 * 4096 - 90 : 2 * 4096;
            const struct engine_job job = {
                .algorithm = &algo_list[i],
                .size = size,
                .root = root_of(algo_list[i].collective, i, size),
                .count = variant / 2 % 2 == 0 ? part
                                              : part * (size_t)size, /* of a block, or of a part */
                .is_cut = true,
                .segments = variant < 4 ? equal : unequal};
            engine_run_job(&job, mood, (uint64_t)(i * 8 + variant));
        }
    }
}

static void buffers_in_segments_may_be_copied_by_receivers(void **state)
{
    (void)state;
    static const size_t counts[] = {36009};
    run_every_algorithm_cut(
        counts, 1,
        (struct engine_mood){.piece_bytes = 16384, .pieces = 3, .delay = 2, .reach = REACH_COPY});
}

/* ----------------------------------------------------------------------- blocks of other counts */

/* Whether the blocks of that algorithm may have different counts, if ranks know only what the v
 * forms tell them. */
static bool can_vary(const struct algorithm *algorithm)
{
    switch (algorithm->collective) {
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER: return true;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLTOALL: return algorithm->is_direct;
    default: return false;
    }
}

static void run_varying(size_t count_max, int rounds, struct engine_mood mood)
{
    int algorithms = 0;
    for (int i = 0; i < algo_count; i++) {
        if (!can_vary(&algo_list[i])) continue;
        algorithms++;
        for (int s = 0; s < SIZE_COUNT; s++) {
            if (!algo_supports(&algo_list[i], sizes[s])) continue;
            for (int round = 0; round < rounds; round++) {
                if (is_left_out((unsigned)(i + s + round))) continue;
                const uint64_t seed = (uint64_t)(i * 3001 + s * 211 + round);
                struct engine_job job = {
                    .algorithm = &algo_list[i],
                    .size = sizes[s],
                    .root = root_of(algo_list[i].collective, i + round, sizes[s]),
                    .in_place = round % 3 == 2 ? (unsigned)(seed * 0x9e3779b9u >> 8) & IN_PLACE : 0,
                    .is_cut = round % 2 == 1};
                engine_job_vary(&job, count_max, seed);
                engine_run_job(&job, mood, seed);
            }
        }
    }
    assert_true(algorithms > 10);
}

static void blocks_may_have_counts_of_their_own(void **state)
{
    (void)state;
    run_varying(30, 12, (struct engine_mood){.piece_bytes = 16384, .pieces = 4, .delay = 1});
    run_varying(12000, 6, (struct engine_mood){.piece_bytes = 8192, .pieces = 1, .delay = 3});
}

static void blocks_of_other_counts_may_go_by_reference(void **state)
{
    (void)state;
    run_varying(
        20000, 6,
        (struct engine_mood){.piece_bytes = 16384, .pieces = 3, .delay = 2, .reach = REACH_READ});
    run_varying(
        90000, 3,
        (struct engine_mood){.piece_bytes = 16384, .pieces = 3, .delay = 2, .reach = REACH_COPY});
}

static void blocks_may_all_be_empty(void **state)
{
    (void)state;
    run_varying(0, 3, (struct engine_mood){.piece_bytes = 8192, .pieces = 2, .delay = 2});
    for (int i = 0; i < algo_count; i++) {
        if (!can_vary(&algo_list[i]) || !algo_supports(&algo_list[i], 4)) continue;
        for (int in_place = 0; in_place < 2; in_place++) {
            const struct engine_job job = {.algorithm = &algo_list[i],
                                           .size = 4,
                                           .root = root_of(algo_list[i].collective, 1, 4),
                                           .in_place = in_place != 0 ? IN_PLACE : 0,
                                           .varies = true};
            engine_run_job(&job, (struct engine_mood){.piece_bytes = 8192, .pieces = 2, .delay = 2},
                           5);
        }
    }
}

/* --------------------------------------------------------------------------------- again, wrong */

/* Runs of one program over the same links: anything that the first run leaves behind would show. */
static void a_program_runs_again_and_again(void **state)
{
    (void)state;
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        const struct engine_job job = {.algorithm = algo_find(COLLECTIVE_ALLREDUCE, "ring"),
                                       .size = 4,
                                       .count = 30011,
                                       .is_cut = is_cut != 0};
        struct engine_net *net = engine_net_create(
            4, (struct engine_mood){.piece_bytes = 8192, .pieces = 2, .delay = 2}, 9);
        struct engine_rank ranks[4];
        for (int r = 0; r < 4; r++) engine_rank_prepare(&job, net, r, &ranks[r]);
        for (int round = 0; round < 5; round++) {
            engine_run(&job, net, ranks);
            for (int r = 0; r < 4; r++) {
                engine_expect_right(&job, r, &ranks[r]);
                for (size_t i = 0; i < job.count; i++) {
                    size_t bytes = 4;
                    memset(buffer_at(&ranks[r].output.buffer, 4 * i, &bytes), 0, 4);
                }
                engine_rank_prepare_again(net, r, &ranks[r]);
            }
        }
        for (int r = 0; r < 4; r++) engine_rank_release(&ranks[r]);
        engine_net_free(net);
    }
}

/* A message that is longer than the rest, or cut within an element, faults before anything is
 * written. */
static void messages_of_a_wrong_length_are_a_fault(void **state)
{
    (void)state;
    static const size_t wrong[] = {0, 3, 44, 4096};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        const struct engine_job job = {
            .algorithm = algo_find(COLLECTIVE_BROADCAST, "direct"), .size = 2, .count = 10};
        struct engine_net *net = engine_net_create(
            2, (struct engine_mood){.piece_bytes = 8192, .pieces = 4, .delay = 1}, 1);
        struct engine_rank own;
        engine_rank_prepare(&job, net, 1, &own);
        assert_int_equal(operation_run(&own.operation), RUN_BLOCKED);
        assert_int_equal(operation_waits_for(&own.operation), 0);
        const char noise[4096] = {1};
        engine_net_put(net, 0, noise, wrong[w]);
        assert_int_equal(operation_run(&own.operation), RUN_FAULT);
        assert_int_equal(own.operation.fault_peer, 0);
        assert_int_equal(operation_run(&own.operation), RUN_FAULT);
        for (int i = 0; i < 10; i++) assert_int_equal(own.output.memory[i], -1);
        engine_rank_release(&own);
        engine_net_free(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_program_is_right_with_room),
        cmocka_unit_test(every_program_is_right_in_one_slot),
        cmocka_unit_test(chunks_larger_than_all_slots_do_not_stick),
        cmocka_unit_test(every_program_is_right_by_reference),
        cmocka_unit_test(every_program_is_right_where_receivers_copy),
        cmocka_unit_test(every_program_is_right_with_shared_slots),
        cmocka_unit_test(too_few_shared_slots_hold_up_nobody),
        cmocka_unit_test(a_relay_hands_places_on),
        cmocka_unit_test(steps_that_lead_to_other_hosts_use_no_shared_slot),
        cmocka_unit_test(a_relay_hands_places_on_within_a_host),
        cmocka_unit_test(what_is_prepared_shows_nothing_before_it_opens),
        cmocka_unit_test(results_are_stored_where_they_are_expected),
        cmocka_unit_test(buffers_may_lie_in_segments),
        cmocka_unit_test(buffers_in_segments_may_go_by_reference),
        cmocka_unit_test(chunks_of_more_segments_than_a_link_has_places_do_not_stick),
        cmocka_unit_test(buffers_in_segments_may_be_copied_by_receivers),
        cmocka_unit_test(blocks_may_have_counts_of_their_own),
        cmocka_unit_test(blocks_of_other_counts_may_go_by_reference),
        cmocka_unit_test(blocks_may_all_be_empty),
        cmocka_unit_test(a_program_runs_again_and_again),
        cmocka_unit_test(messages_of_a_wrong_length_are_a_fault),
    };
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
