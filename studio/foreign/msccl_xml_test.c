/* ctest: timeout=600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "plan/wiring.h"
#include "studio/foreign/msccl_export.h"
#include "studio/foreign/msccl_xml.h"

/* ---------------------------------------------------------------------------------------- trees */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

/* The operands may change places. */
static uint64_t join(uint64_t a, uint64_t b)
{
    return mix(mix(a) + mix(b)) ^ mix(a ^ b);
}

/* Expression trees of all chunks, as numbers. */
struct trees {
    const struct plan *plan;
    struct wiring wiring;
    uint64_t **cells[PLAN_BUFFER_COUNT]; /* of each rank */
    uint64_t **sent;                     /* of each step of all */
    bool *done;
};

static void evaluate(struct trees *trees, int rank, uint32_t index)
{
    const struct wiring *w = &trees->wiring;
    const struct rank_plan *rank_plan = trees->plan->ranks[rank];
    const struct plan_step *step = &rank_plan->steps[index];
    const uint32_t all = w->first_steps[rank] + index;
    uint64_t *results = calloc((size_t)step->chunk_count + 1, sizeof *results);
    assert_non_null(results);
    for (uint32_t i = 0; i < step->chunk_count; i++) {
        size_t receive = w->first_receives[all];
        for (uint32_t s = 0; s < step->source_count; s++) {
            const struct plan_source *source = &rank_plan->sources[step->first_source + s];
            uint64_t operand;
            if (source->is_link) {
                const struct wiring_receive *from = &w->receives[receive++];
                const uint32_t link = w->ports[from->port].link;
                uint32_t sender = UINT32_MAX;
                const struct wiring_lane *lane = &w->lanes[w->links[link].writer];
                for (uint32_t k = lane->first_step; k < lane->first_step + lane->step_count; k++)
                    for (size_t n = w->first_sends[k]; n < w->first_sends[k + 1]; n++)
                        if (w->sends[n].link == link && w->sends[n].sequence == from->sequence)
                            sender = k;
                assert_true(sender != UINT32_MAX);
                operand = trees->sent[sender][i];
            } else {
                operand = trees->cells[source->location.buffer][rank][source->location.first + i];
            }
            results[i] = s == 0 ? operand : join(results[i], operand);
        }
    }
    for (uint32_t i = 0; step->has_destination && i < step->chunk_count; i++)
        trees->cells[step->destination.buffer][rank][step->destination.first + i] = results[i];
    trees->sent[all] = results;
    trees->done[all] = true;
}

static bool is_ready(const struct trees *trees, int rank, uint32_t index)
{
    const struct wiring *w = &trees->wiring;
    const struct rank_plan *rank_plan = trees->plan->ranks[rank];
    const struct plan_step *step = &rank_plan->steps[index];
    for (uint32_t i = 0; i < step->after_count; i++)
        if (!trees->done[w->first_steps[rank] + rank_plan->afters[step->first_after + i]])
            return false;
    const uint32_t all = w->first_steps[rank] + index;
    for (size_t i = w->first_receives[all]; i < w->first_receives[all + 1]; i++) {
        const uint32_t link = w->ports[w->receives[i].port].link;
        const struct wiring_lane *lane = &w->lanes[w->links[link].writer];
        bool sent = false;
        for (uint32_t k = lane->first_step; k < lane->first_step + lane->step_count; k++)
            for (size_t n = w->first_sends[k]; n < w->first_sends[k + 1]; n++)
                sent |= trees->done[k] && w->sends[n].link == link &&
                        w->sends[n].sequence == w->receives[i].sequence;
        if (!sent) return false;
    }
    return true;
}

static void trees_init(struct trees *trees, const struct plan *plan)
{
    const struct plan_shape *shape = &plan->shape;
    struct verify_report report;
    *trees = (struct trees){.plan = plan};
    assert_int_equal(wiring_init(&trees->wiring, plan, NULL, &report), VERIFY_PROVEN);
    const size_t ranks = (size_t)shape->rank_count;
    for (int buffer = 0; buffer < PLAN_BUFFER_COUNT; buffer++) {
        trees->cells[buffer] = calloc(ranks, sizeof(uint64_t *));
        for (int rank = 0; rank < shape->rank_count; rank++) {
            const uint32_t count = buffer == PLAN_SCRATCH
                                       ? plan->ranks[rank]->scratch_count
                                       : plan_chunk_count(shape, rank, (enum plan_buffer)buffer);
            trees->cells[buffer][rank] = calloc((size_t)count + 1, sizeof(uint64_t));
            for (uint32_t i = 0; buffer == PLAN_INPUT && i < count; i++)
                trees->cells[buffer][rank][i] =
                    mix(((uint64_t)rank << 32 | plan_chunk_class(shape, rank, PLAN_INPUT, i)) + 1);
        }
    }
    trees->sent = calloc((size_t)trees->wiring.step_count + 1, sizeof(uint64_t *));
    trees->done = calloc((size_t)trees->wiring.step_count + 1, sizeof(bool));
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t lane = 0; lane < trees->wiring.lane_count; lane++) {
            const struct wiring_lane *of = &trees->wiring.lanes[lane];
            const uint32_t first = trees->wiring.first_steps[of->rank];
            for (uint32_t k = of->first_step; k < of->first_step + of->step_count; k++) {
                if (trees->done[k]) continue;
                if (!is_ready(trees, of->rank, k - first)) break;
                evaluate(trees, of->rank, k - first);
                moved = true;
            }
        }
    }
    for (uint32_t k = 0; k < trees->wiring.step_count; k++) assert_true(trees->done[k]);
}

static void trees_release(struct trees *trees)
{
    for (int buffer = 0; buffer < PLAN_BUFFER_COUNT; buffer++) {
        for (int rank = 0; rank < trees->plan->shape.rank_count; rank++)
            free(trees->cells[buffer][rank]);
        free(trees->cells[buffer]);
    }
    for (uint32_t k = 0; k < trees->wiring.step_count; k++) free(trees->sent[k]);
    free(trees->sent);
    free(trees->done);
    wiring_release(&trees->wiring);
}

static void assert_same_trees(const struct plan *a, const struct plan *b)
{
    struct trees left, right;
    trees_init(&left, a);
    trees_init(&right, b);
    for (int rank = 0; rank < a->shape.rank_count; rank++)
        for (uint32_t i = 0; i < plan_chunk_count(&a->shape, rank, PLAN_OUTPUT); i++)
            if (left.cells[PLAN_OUTPUT][rank][i] != right.cells[PLAN_OUTPUT][rank][i])
                fail_msg("rank %d: output chunk %u has another tree", rank, i);
    trees_release(&left);
    trees_release(&right);
}

/* ---------------------------------------------------------------------------------- round trips */

static char *exported(const struct plan *plan, const char *profile, bool in_place, size_t *size)
{
    char *text = NULL, message[200];
    FILE *file = open_memstream(&text, size);
    const struct msccl_export_options options = {
        .profile = msccl_profile_find(profile), .name = "a \"name\" <&>", .in_place = in_place};
    assert_non_null(file);
    const enum tutti_status status = msccl_export(plan, &options, file, message, sizeof message);
    assert_int_equal(fclose(file), 0);
    if (status != TUTTI_OK) fail_msg("%s", message);
    return text;
}

static void check_round_trip(const struct algorithm *algorithm, int rank_count, int root,
                             bool in_place, const struct algo_levels *levels)
{
    const struct algo_params params = {.collective = algorithm->collective,
                                       .rank_count = rank_count,
                                       .root = root,
                                       .in_place = in_place,
                                       .levels = levels};
    struct plan *plan, *again;
    const char *message;
    size_t size;
    struct msccl_report report;
    assert_int_equal(algo_plan(algorithm, &params, &plan, &message), TUTTI_OK);
    char *text = exported(plan, rank_count % 2 ? "msccl" : "rccl", in_place, &size);
    msccl_xml_load(text, size, &again, &report);
    if (again == NULL)
        fail_msg("%s %s of %d ranks%s: %s", collective_name(algorithm->collective), algorithm->name,
                 rank_count, in_place ? " in place" : "", report.message);
    assert_int_equal(report.in_place, in_place);
    assert_int_equal(again->shape.collective, plan->shape.collective);
    assert_int_equal(again->shape.root, plan->shape.root);
    assert_int_equal(again->shape.parts, plan->shape.parts);
    if (!in_place) assert_same_trees(plan, again);
    free(text);
    plan_free(plan);
    plan_free(again);
}

static void every_algorithm_comes_back_with_the_same_trees(void **state)
{
    static const int few[] = {2, 3, 8};
    const bool is_long = getenv("TUTTI_LONG") != NULL;
    int hosts[17];
    const struct algo_levels levels = {.level_count = 1, .group_of = {hosts}};
    int count = 0;
    (void)state;
    for (int i = 0; i < 17; i++) hosts[i] = i / 3;
    for (int i = 0; i < algo_count; i++)
        for (int n = 0; n < (is_long ? 16 : 3); n++) {
            const int ranks = is_long ? n + 2 : few[n];
            const struct algorithm *algorithm = &algo_list[i];
            if (algorithm->collective == COLLECTIVE_BARRIER) continue;
            if (!algo_supports_levels(algorithm, ranks)) continue;
            const int roots = collective_is_rooted(algorithm->collective) ? 2 : 1;
            for (int root = 0; root < roots; root++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    check_round_trip(algorithm, ranks, root, in_place != 0,
                                     algorithm->needs_levels ? &levels : NULL);
                    count++;
                }
        }
    print_message("%d plans\n", count);
    assert_true(count > 100);
}

/* ------------------------------------------------------------------------------------- refusals */

static const char pair[] =
    "<algo name=\"pair\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"1\" ngpus=\"2\" "
    "coll=\"allreduce\" inplace=\"0\">\n"
    "<gpu id=\"0\" i_chunks=\"1\" o_chunks=\"1\" s_chunks=\"0\">\n"
    "<tb id=\"0\" send=\"1\" recv=\"1\" chan=\"0\">\n"
    "<step s=\"0\" type=\"s\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n"
    "<step s=\"1\" type=\"rrc\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n"
    "</tb></gpu>\n"
    "<gpu id=\"1\" i_chunks=\"1\" o_chunks=\"1\" s_chunks=\"0\">\n"
    "<tb id=\"0\" send=\"0\" recv=\"0\" chan=\"0\">\n"
    "<step s=\"0\" type=\"s\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n"
    "<step s=\"1\" type=\"rrc\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n"
    "</tb></gpu></algo>\n";

/* The pair's file with one text in the place of another, the first one from `behind` on. */
static void check_changed(const char *behind, const char *old, const char *new,
                          enum msccl_verdict verdict, const char *expected)
{
    char text[4000];
    struct plan *plan;
    struct msccl_report report;
    const char *from = strstr(pair, behind);
    assert_non_null(from);
    const char *at = strstr(from, old);
    assert_non_null(at);
    const int size =
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - pair), pair, new, at + strlen(old));
    msccl_xml_load(text, (size_t)size, &plan, &report);
    if (report.verdict != verdict || strstr(report.message, expected) == NULL)
        fail_msg("%s -> %s: verdict %d: %s", old, new, (int)report.verdict, report.message);
    assert_true((plan != NULL) == (verdict == MSCCL_PROVEN));
    plan_free(plan);
}

static void what_is_wrong_is_said_with_its_place(void **state)
{
    (void)state;
    check_changed("<algo", "\"pair\"", "\"other\"", MSCCL_PROVEN, "");
    check_changed("<gpu id=\"1\"", "type=\"rrc\"", "type=\"r\"", MSCCL_WRONG,
                  "line 10: gpu 1 tb 0 step 1: output chunk 0 ends with 1 contributions of 2 (r)");
    check_changed("<gpu id=\"1\"", "type=\"s\"", "type=\"nop\"", MSCCL_WRONG, "gpu 0 tb 0");
    check_changed("<gpu id=\"1\"", "cnt=\"1\"", "cnt=\"2\"", MSCCL_WRONG,
                  "gpu 1 tb 0 step 0: reads chunks 0 to 1 of i, which has 1");
    check_changed("<gpu id=\"1\"", "srcoff=\"0\"", "srcoff=\"-1\"", MSCCL_WRONG,
                  "gpu 1 tb 0 step 0");
    check_changed("<gpu id=\"1\"", "depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"1\"",
                  MSCCL_WRONG, "which has hasdep=\"0\"");
    check_changed("<gpu id=\"1\"", "<tb id=\"0\"", "<tb id=\"1\"", MSCCL_WRONG, "gpu 1");
    check_changed("<gpu id=\"1\"", "recv=\"0\"", "recv=\"1\"", MSCCL_WRONG, "its own peer");
    check_changed("<algo", "ngpus=\"2\"", "ngpus=\"3\"", MSCCL_WRONG, "gpu 2 of 3 is missing");
    check_changed("<algo", "</algo>", "", MSCCL_WRONG, "line ");
    check_changed("<algo", "<algo", "<!DOCTYPE algo [<!ENTITY e \"e\">]><algo", MSCCL_WRONG,
                  "a document type is not expected");
    check_changed("<algo", "<gpu id=\"0\"", "<gpu id=\"1\"", MSCCL_WRONG,
                  "gpu 1: tb 0: the gpu is its own peer");
}

#define COPY(s, from, from_chunk, to, to_chunk)                                                 \
    "<step s=\"" s "\" type=\"cpy\" srcbuf=\"" from "\" srcoff=\"" from_chunk "\" dstbuf=\"" to \
    "\" dstoff=\"" to_chunk "\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
#define BLOCK(id, steps) "<tb id=\"" id "\" send=\"-1\" recv=\"-1\" chan=\"0\">" steps "</tb>\n"
#define ALONE(blocks)                                                                         \
    "<algo name=\"alone\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"3\" ngpus=\"1\" " \
    "coll=\"allreduce\" inplace=\"0\">\n<gpu id=\"0\" i_chunks=\"3\" o_chunks=\"3\" "         \
    "s_chunks=\"3\">\n" blocks "</gpu></algo>\n"

static void load(const char *text, struct msccl_report *report)
{
    struct plan *plan;
    msccl_xml_load(text, strlen(text), &plan, report);
    assert_null(plan);
    assert_int_equal(report->verdict, MSCCL_WRONG);
}

/* Thread blocks that read what another one writes, and wait for nothing: before it comes, or behind
 * it in the file. */
static void every_fault_is_told_with_the_writer(void **state)
{
    static const char first[] =
        ALONE(BLOCK("0", COPY("0", "s", "0", "o", "0")) BLOCK("1", COPY("0", "s", "1", "o", "1"))
                  BLOCK("2", COPY("0", "s", "2", "o", "2"))
                      BLOCK("3", COPY("0", "i", "0", "s", "0") COPY("1", "i", "1", "s", "1")));
    static const char behind[] = ALONE(
        BLOCK("0", COPY("0", "i", "0", "s", "0") COPY("1", "i", "1", "s", "1")
                       COPY("2", "i", "2", "s", "2")) BLOCK("1", COPY("0", "s", "0", "o", "0"))
            BLOCK("2", COPY("0", "s", "1", "o", "1")) BLOCK("3", COPY("0", "s", "2", "o", "2")));
    struct msccl_report report;
    (void)state;
    load(first, &report);
    assert_string_equal(report.message,
                        "line 3: gpu 0 tb 0 step 0: reads s chunk 0, which tb 3 step 0 writes; "
                        "nothing orders that before this (cpy)");
    assert_int_equal(report.further_count, 2);
    assert_string_equal(report.further[0],
                        "line 4: gpu 0 tb 1 step 0: reads s chunk 1, which tb 3 step 1 writes; "
                        "nothing orders that before this (cpy)");
    assert_string_equal(report.further[1],
                        "line 5: gpu 0 tb 2 step 0: reads s chunk 2, which nobody wrote (cpy)");
    load(behind, &report);
    assert_int_equal(report.further_count, 2);
    for (int i = 0; i < 3; i++) {
        char expected[200];
        snprintf(expected, sizeof expected,
                 "line %d: gpu 0 tb %d step 0: race: reads scratch chunk %d, which tb 0 step %d "
                 "writes; nothing orders them (cpy)",
                 4 + i, 1 + i, i, i);
        assert_string_equal(i == 0 ? report.message : report.further[i - 1], expected);
    }
}

/* Each of both gpus waits for the other; each misses what it should receive. */
static void all_gpus_are_looked_at(void **state)
{
    char text[4000];
    struct msccl_report report;
    (void)state;
    strcpy(text, pair);
    for (char *at; (at = strstr(text, "type=\"rrc\"")) != NULL;) memcpy(at, "type=\"r\"  ", 10);
    load(text, &report);
    assert_int_equal(report.further_count, 1);
    assert_non_null(strstr(report.message, "gpu 0 tb 0 step 1: output chunk 0 ends with 1"));
    assert_non_null(strstr(report.further[0], "gpu 1 tb 0 step 1: output chunk 0 ends with 1"));
    strcpy(text, pair);
    for (char *at = text; (at = strstr(at, "s=\"0\" type=\"s\"")) != NULL; at++) {
        memcpy(at + 6, "type=\"r\"", 8);
        char *other = strstr(at, "type=\"rrc\"");
        memcpy(other, "type=\"s\"  ", 10);
    }
    load(text, &report);
    assert_int_equal(report.further_count, 1);
    assert_non_null(
        strstr(report.message, "gpu 0 tb 0 step 0: deadlock: waits for gpu 1 tb 0 step 1 (r)"));
    assert_non_null(
        strstr(report.further[0], "gpu 1 tb 0 step 0: deadlock: waits for gpu 0 tb 0 step 1 (r)"));
}

static void what_a_plan_cannot_say_is_not_called_wrong(void **state)
{
    (void)state;
    check_changed("<algo", "coll=\"allreduce\"", "coll=\"custom\"", MSCCL_NOT_EXPRESSIBLE, "custom");
}

static void what_msccl_copies_before_it_sends_a_plan_copies_too(void **state)
{
    (void)state;
    check_changed("<algo", "inplace=\"0\"", "inplace=\"1\"", MSCCL_PROVEN, "");
}

static void barriers_are_refused_by_name(void **state)
{
    (void)state;
    const struct algorithm *algorithm = algo_find(COLLECTIVE_BARRIER, "dissemination");
    const struct algo_params params = {.collective = COLLECTIVE_BARRIER, .rank_count = 4};
    struct plan *plan;
    const char *why;
    char message[200];
    const struct msccl_export_options options = {.profile = msccl_profile_find("msccl"), .name = ""};
    assert_int_equal(algo_plan(algorithm, &params, &plan, &why), TUTTI_OK);
    assert_int_equal(msccl_export(plan, &options, stderr, message, sizeof message),
                     TUTTI_INVALID_ALGORITHM);
    assert_non_null(strstr(message, "barrier"));
    assert_null(msccl_profile_find("nccl"));
    plan_free(plan);
}

static void the_broken_limit_is_named(void **state)
{
    (void)state;
    const struct algorithm *algorithm = algo_find(COLLECTIVE_ALLREDUCE, "ring");
    const struct algo_params params = {.collective = COLLECTIVE_ALLREDUCE, .rank_count = 140};
    struct plan *plan;
    const char *why;
    char message[200];
    const struct msccl_export_options options = {.profile = msccl_profile_find("rccl"), .name = ""};
    assert_int_equal(algo_plan(algorithm, &params, &plan, &why), TUTTI_OK);
    assert_int_equal(msccl_export(plan, &options, stderr, message, sizeof message),
                     TUTTI_INVALID_ALGORITHM);
    assert_non_null(strstr(message, "steps, and rccl takes at most 64"));
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_comes_back_with_the_same_trees),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place),
        cmocka_unit_test(every_fault_is_told_with_the_writer),
        cmocka_unit_test(all_gpus_are_looked_at),
        cmocka_unit_test(what_a_plan_cannot_say_is_not_called_wrong),
        cmocka_unit_test(what_msccl_copies_before_it_sends_a_plan_copies_too),
        cmocka_unit_test(barriers_are_refused_by_name),
        cmocka_unit_test(the_broken_limit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
