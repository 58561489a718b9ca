#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/build.h"
#include "plan/text.h"

static struct plan *parse(const char *text)
{
    struct plan *plan;
    char message[200];
    const enum tutti_status status = plan_parse(text, strlen(text), &plan, message, sizeof message);
    if (status != TUTTI_OK) fail_msg("%s", message);
    assert_string_equal(message, "");
    return plan;
}

static char *print(const struct plan *plan)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    plan_print(plan, file);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void refuses(const char *text, const char *why)
{
    struct plan *plan;
    char message[200];
    assert_int_equal(plan_parse(text, strlen(text), &plan, message, sizeof message),
                     TUTTI_INVALID_ALGORITHM);
    assert_null(plan);
    assert_string_equal(message, why);
}

static void places_equal(struct plan_location one, struct plan_location other)
{
    assert_int_equal(one.buffer, other.buffer);
    assert_int_equal(one.first, other.first);
}

static void sources_equal(const struct plan_source *one, const struct plan_source *other)
{
    assert_int_equal(one->is_link, other->is_link);
    places_equal(one->location, other->location);
    assert_int_equal(one->peer, other->peer);
    assert_int_equal(one->group, other->group);
    assert_int_equal(one->channel, other->channel);
}

static void steps_equal(const struct plan_step *one, const struct plan_step *other)
{
    assert_int_equal(one->chunk_count, other->chunk_count);
    assert_int_equal(one->first_source, other->first_source);
    assert_int_equal(one->source_count, other->source_count);
    assert_int_equal(one->has_destination, other->has_destination);
    assert_int_equal(one->final, other->final);
    places_equal(one->destination, other->destination);
    assert_int_equal(one->first_target, other->first_target);
    assert_int_equal(one->target_count, other->target_count);
    assert_int_equal(one->target_group, other->target_group);
    assert_int_equal(one->target_channel, other->target_channel);
    assert_int_equal(one->first_after, other->first_after);
    assert_int_equal(one->after_count, other->after_count);
    assert_int_equal(one->lane, other->lane);
}

#define ARRAYS_EQUAL(one, other, items, count)                                                      \
    do {                                                                                            \
        assert_int_equal((one)->count, (other)->count);                                             \
        if ((one)->count > 0)                                                                       \
            assert_memory_equal((one)->items, (other)->items, (one)->count * sizeof *(one)->items); \
    } while (0)

static void rank_plans_equal(const struct rank_plan *one, const struct rank_plan *other)
{
    assert_int_equal(one->rank, other->rank);
    assert_int_equal(one->shape.parts, other->shape.parts);
    assert_int_equal(one->shape.root, other->shape.root);
    ARRAYS_EQUAL(one, other, lanes, lane_count);
    ARRAYS_EQUAL(one, other, targets, target_count);
    ARRAYS_EQUAL(one, other, afters, after_count);
    ARRAYS_EQUAL(one, other, groups, group_count);
    ARRAYS_EQUAL(one, other, members, member_count);
    ARRAYS_EQUAL(one, other, scratch_like, scratch_count);
    assert_int_equal(one->source_count, other->source_count);
    for (uint32_t i = 0; i < one->source_count; i++)
        sources_equal(&one->sources[i], &other->sources[i]);
    assert_int_equal(one->step_count, other->step_count);
    for (uint32_t i = 0; i < one->step_count; i++) steps_equal(&one->steps[i], &other->steps[i]);
}

/* ------------------------------------------------------------------------------------- the form */

static void a_plan_reads_like_this(void **state)
{
    (void)state;
    static const char text[] =
        "plan reduce ranks 4 root 1 parts 6\n"
        "rank 0\n"
        "  group 0: 0..3\n"
        "  group 1: 0 2..3\n"
        "  scratch like 0..3 1\n"
        "  lane 0\n"
        "    0: in[0..3] -> scratch[0..3], to group 0 channel 2  after 1.1  # copy_send\n"
        "    1: from 3 + in[1] -> to 1, to 2  after 1.0 0.0  # recv_reduce_send\n"
        "  lane 1\n"
        "    0: in[4] -> to 3 channel 15                   # send\n"
        "    1: from 2 group 1 channel 1 + from 3 -> to 1  final  chunks 2  # recv_reduce_send\n"
        "  lane 2\n"
        "rank 1\n"
        "rank 2\n"
        "rank 3\n";
    struct plan *plan = parse(text);
    char *printed = print(plan);
    assert_string_equal(printed, text);
    const struct rank_plan *zero = plan->ranks[0];
    assert_int_equal(zero->lane_count, 3);
    assert_int_equal(zero->steps[0].chunk_count, 4);
    assert_int_equal(zero->steps[3].chunk_count, 2);
    assert_int_equal(zero->afters[0], 3);
    assert_int_equal(zero->scratch_like[4], 1);
    assert_int_equal(plan->shape.root, 1);
    free(printed);
    plan_free(plan);
}

static void a_person_may_be_brief(void **state)
{
    (void)state;
    struct plan *plan = parse("# my barrier\n\nplan barrier ranks 2 parts 1\r\n"
                              "rank 0\nlane 0\n\tin[]->to 1   # hello\nfrom 1->out[]\n"
                              "rank 1 # the other\nlane 0\nin[]->to 0\n from 0 -> out[ ]");
    char *printed = print(plan);
    assert_string_equal(printed, "plan barrier ranks 2 parts 1\n"
                                 "rank 0\n"
                                 "  lane 0\n"
                                 "    0: in[] -> to 1                               # send\n"
                                 "    1: from 1 -> out[]                            # recv\n"
                                 "rank 1\n"
                                 "  lane 0\n"
                                 "    0: in[] -> to 0                               # send\n"
                                 "    1: from 0 -> out[]                            # recv\n");
    free(printed);
    plan_free(plan);
}

/* -------------------------------------------------------------------- printing and reading back */

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Well-formed, and otherwise nonsense. */
static void random_step(struct plan_builder *builder, uint32_t *seed, int rank, uint32_t emitted)
{
    const uint32_t chunk_count = 1 + next_random(seed) % 3, first = next_random(seed) % 4;
    plan_channel(builder, (int)(next_random(seed) % PLAN_CHANNELS_MAX));
    plan_begin(builder, chunk_count);
    const int peer = (rank + 1 + (int)(next_random(seed) % 4)) % 5;
    do {
        switch (next_random(seed) % 4) {
        case 0: plan_read(builder, PLAN_INPUT, first); break;
        case 1: plan_read(builder, PLAN_SCRATCH, first); break;
        case 2: plan_receive(builder, peer); break;
        default: plan_receive_group(builder, peer, 0);
        }
    } while (next_random(seed) % 2 == 0);
    plan_channel(builder, (int)(next_random(seed) % PLAN_CHANNELS_MAX));
    const bool stores = next_random(seed) % 2 == 0;
    if (stores) plan_write(builder, next_random(seed) % 2 ? PLAN_OUTPUT : PLAN_SCRATCH, first);
    if (!stores || next_random(seed) % 2 == 0) {
        if (next_random(seed) % 3 == 0)
            plan_send_group(builder, 0);
        else
            for (int i = 0; i < 5; i++)
                if (i == peer || (i != rank && next_random(seed) % 3 == 0)) plan_send(builder, i);
    }
    if (next_random(seed) % 4 == 0) plan_final(builder);
    while (emitted > 0 && next_random(seed) % 3 == 0)
        plan_after(builder, next_random(seed) % emitted);
    plan_end(builder);
}

static void what_is_printed_reads_back_as_the_same_plan(void **state)
{
    (void)state;
    uint32_t seed = 20240607;
    for (int round = 0; round < 200; round++) {
        struct rank_plan *ranks[5];
        for (int rank = 0; rank < 5; rank++) {
            struct plan_builder *builder = plan_builder_create(COLLECTIVE_ALLREDUCE, 5, 0, rank);
            plan_parts(builder, 7);
            plan_group_all(builder);
            for (uint32_t i = 0; i < 7; i++) plan_scratch(builder, i);
            const uint32_t lane_count = 1 + next_random(&seed) % 4;
            for (uint32_t i = 0; i < lane_count; i++) plan_lane(builder);
            const uint32_t step_count = next_random(&seed) % 20;
            for (uint32_t i = 0; i < step_count; i++) {
                plan_lane_again(builder, next_random(&seed) % lane_count);
                random_step(builder, &seed, rank, i);
            }
            const char *message;
            if (plan_builder_finish(builder, &ranks[rank], &message) != TUTTI_OK)
                fail_msg("round %d rank %d: %s", round, rank, message);
            plan_builder_free(builder);
        }
        const struct plan plan = {ranks[0]->shape, ranks};
        char *text = print(&plan);
        struct plan *again = parse(text);
        for (int rank = 0; rank < 5; rank++) {
            rank_plans_equal(ranks[rank], again->ranks[rank]);
            plan_rank_free(ranks[rank]);
        }
        free(text);
        plan_free(again);
    }
}

/* ------------------------------------------------------------------------------------- refusing */

static void says_line_and_cause(void **state)
{
    (void)state;
#define HEAD "plan allreduce ranks 2 parts 3\nrank 0\n"
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "line 1: there is no plan in it"},
        {"\n# nothing\n", "line 3: there is no plan in it"},
        {"plane", "line 1: expected `plan COLLECTIVE ranks N parts P`"},
        {"plan sing ranks 2 parts 1", "line 1: expected a collective's name"},
        {"plan allreduce ranks 0 parts 1", "line 1: no ranks"},
        {"plan allreduce ranks 65537 parts 1", "line 1: number of ranks is above 65536"},
        {"plan allreduce ranks 99999999999999999999 parts 1",
         "line 1: number of ranks is above 65536"},
        {"plan allreduce ranks -1 parts 1", "line 1: expected a number: number of ranks"},
        {"plan allreduce ranks 2 root 0 parts 1", "line 1: expected `parts P`"},
        {"plan reduce ranks 2 parts 1", "line 1: expected `root R`"},
        {"plan reduce ranks 2 root 2 parts 1", "line 1: root is above 1"},
        {"plan allreduce ranks 2 parts 1 now", "line 1: unexpected `n`"},
        {"plan allreduce ranks 2 parts 1\nlane 0", "line 2: expected `rank 0`"},
        {"plan allreduce ranks 2 parts 0\nrank 0", "line 2: no parts"},
        {"plan alltoall ranks 65536 parts 9\nrank 0",
         "line 2: more chunks, over all ranks, than 32 bits can count"},
        {"plan allreduce ranks 2 parts 1\nrank 1", "line 2: rank 1 where rank 0 was expected"},
        {HEAD, "line 3: the text ends before rank 1"},
        {HEAD "rank 1\nrank 1", "line 4: rank 1 where rank 2 was expected"},
        {HEAD "in[0] -> to 1", "line 3: a step before the first lane"},
        {HEAD "lane 1", "line 3: expected lane 0"},
        {HEAD "lane 64", "line 3: lane is above 63"},
        {HEAD "group 1: 0", "line 3: expected group 0"},
        {HEAD "group 0: 1 0", "line 3: the members of a group do not ascend"},
        {HEAD "group 0: 0..4000000000", "line 3: member of a group is above 1"},
        {HEAD "group 0: 1",
         "line 3: a group is not made of ascending ranks with this one among them"},
        {HEAD "group 0: 0 1\ngroup 1: 0..1", "line 4: the same group twice"},
        {HEAD "scratch like 3", "line 3: scratch is like no chunk of the plan"},
        {HEAD "scratch like 0..4294967295",
         "line 3: more group members and scratch chunks than 16777216"},
        {HEAD "scratch like 2..1", "line 3: a range that ends before it begins"},
        {HEAD "lane 0\n1: in[0] -> to 1", "line 4: expected step 0"},
        {HEAD "lane 0\nin[0]", "line 4: expected `->`"},
        {HEAD "lane 0\nin[0] -> ", "line 4: expected a sink: out[], scratch[] or to"},
        {HEAD "lane 0\ninto[0] -> to 1",
         "line 4: expected a source: in[], out[], scratch[] or from"},
        {HEAD "lane 0\nin[0 -> to 1", "line 4: expected `]`"},
        {HEAD "lane 0\nin[3] -> to 1", "line 4: chunks outside of their buffer"},
        {HEAD "lane 0\nin[0..4294967295] -> to 1", "line 4: chunk is above 4294967294"},
        {HEAD "lane 0\nin[] -> to 1", "line 4: steps act on no chunks in barriers, and only there"},
        {HEAD "lane 0\nin[0..1] -> out[0..2]", "line 4: 2 and 3 chunks in one step"},
        {HEAD "lane 0\nin[0] -> out[0] chunks 2", "line 4: 1 and 2 chunks in one step"},
        {HEAD "lane 0\nin[0] -> out[1]", "line 4: a step joins chunks of different classes"},
        {HEAD "lane 0\nin[0] -> to 0", "line 4: a rank is its own peer"},
        {HEAD "lane 0\nin[0] -> to 2", "line 4: peer is above 1"},
        {HEAD "lane 0\nin[0] -> to 1 channel 16", "line 4: channel is above 15"},
        {HEAD "lane 0\nin[0] -> to group 0", "line 4: no such group"},
        {HEAD "lane 0\nin[0] -> to 1 after 0.1", "line 4: there is no step 0.1"},
        {HEAD "lane 0\nin[0] -> to 1 after 7.0", "line 4: there is no step 7.0"},
        {HEAD "lane 0\nin[0] -> to 1 finally", "line 4: unexpected `f`"},
        {HEAD "lane 0\nin[0] -> to 1 \x80", "line 4: unexpected byte 128"},
        {HEAD "lane 0\nin[0] -> to 1 after 0.0\nrank 1",
         "line 5: rank 0: a step waits for itself or for a later one of its lane"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refuses(cases[i].text, cases[i].why);
#undef HEAD
}

/* A hundred lines of two ranks that repeat what grows faster than the text. */
static void costs_more_than_its_text(const char *head, const char *line, const char *what)
{
    struct plan *plan;
    char message[200], *text = NULL;
    size_t size;
    FILE *const file = open_memstream(&text, &size);
    assert_non_null(file);
    fprintf(file, "%s", head);
    for (int i = 0; i < 100; i++) fprintf(file, "%s\n", line);
    assert_int_equal(fclose(file), 0);
    const struct plan_budget limits = plan_budget_default();
    struct plan_budget budget = plan_budget_to_read(&limits);
    assert_true(budget.work_max < limits.work_max);
    budget.work_max = size;
    assert_int_equal(plan_parse_within(text, size, &budget, &plan, message, sizeof message),
                     TUTTI_INVALID_ALGORITHM);
    assert_null(plan);
    if (strncmp(message, "line ", 5) != 0 || strstr(message, what) == NULL) fail_msg("%s", message);
    free(text);
}

/* The head, and then what the format makes of the numbers from first to end - 1. */
static char *repeat(const char *head, const char *format, int first, int end)
{
    char *text = NULL;
    size_t size;
    FILE *const file = open_memstream(&text, &size);
    assert_non_null(file);
    fprintf(file, "%s", head);
    for (int i = first; i < end; i++) fprintf(file, format, i);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void what_grows_faster_than_the_text_is_charged(void **state)
{
    (void)state;
    char *const afters = repeat("in[0] -> out[0] after", " 0.%d", 0, 1000);
    char *const steps =
        repeat("plan allreduce ranks 2 parts 1\nrank 0\nlane 0\n", "%d: in[0] -> to 1\n", 0, 1000);
    char *const lanes = repeat(steps, "lane %d\n", 1, 2);
    costs_more_than_its_text(lanes, afters, "looks at chunks");
    free(afters), free(steps), free(lanes);

    char *const targets = repeat("in[0] -> to 1", ", to %d", 2, 2000);
    costs_more_than_its_text("plan broadcast ranks 2000 root 0 parts 1\nrank 0\nlane 0\n", targets,
                             "looks at chunks");
    free(targets);
    costs_more_than_its_text("plan allreduce ranks 2 parts 1000000\nrank 0\n"
                             "scratch like 0..99999\nlane 0\n",
                             "in[0..99999] -> scratch[0..99999]", "looks at chunks");
    costs_more_than_its_text("plan alltoall ranks 60000 parts 1\nrank 0\nlane 0\n",
                             "in[1..50000] -> out[1..50000]", "looks at chunks");
}

static void memory_is_charged_too(void **state)
{
    (void)state;
    static const char text[] = "plan allreduce ranks 2 parts 16000000\nrank 0\n"
                               "scratch like 0..9999999\nlane 0\nin[0] -> to 1\nrank 1\n";
    struct plan *plan;
    char message[200];
    struct plan_budget budget = plan_budget_default();
    budget.bytes_max = 1 << 20;
    assert_int_equal(
        plan_parse_within(text, sizeof text - 1, &budget, &plan, message, sizeof message),
        TUTTI_INVALID_ALGORITHM);
    if (strstr(message, "line 3: it takes at least 2 MiB of memory, and 1 are") == NULL)
        fail_msg("%s", message);
}

static void every_beginning_of_a_text_is_refused_in_peace(void **state)
{
    (void)state;
    static const char text[] = "plan allreduce ranks 2 parts 1\n"
                               "rank 0\n group 0: 0..1\n scratch like 0\n lane 0\n"
                               "  0: from 1 group 0 channel 2 + in[0] -> scratch[0], to 1  final\n"
                               "rank 1\n lane 0\n  0: in[0] -> to 0  after 1.0\n lane 1\n"
                               "  0: in[0] -> out[0]";
    for (size_t size = 0; size < strlen(text); size++) {
        char *piece = malloc(size + 1); /* its own memory, so that reading beyond it shows */
        assert_non_null(piece);
        memcpy(piece, text, size);
        struct plan *plan;
        char message[200];
        const enum tutti_status status = plan_parse(piece, size, &plan, message, sizeof message);
        if (strstr(text, "rank 1") + strlen("rank 1") - text > (ptrdiff_t)size) {
            assert_int_equal(status, TUTTI_INVALID_ALGORITHM);
            assert_memory_equal(message, "line ", 5);
        }
        plan_free(plan);
        free(piece);
    }
    plan_free(parse(text));
}

static void a_short_message_buffer_is_enough(void **state)
{
    (void)state;
    struct plan *plan;
    char message[8];
    assert_int_equal(plan_parse("plane", 5, &plan, message, sizeof message),
                     TUTTI_INVALID_ALGORITHM);
    assert_string_equal(message, "line 1:");
    assert_int_equal(plan_parse("plane", 5, &plan, NULL, 0), TUTTI_INVALID_ALGORITHM);
    assert_null(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_reads_like_this),
        cmocka_unit_test(a_person_may_be_brief),
        cmocka_unit_test(what_is_printed_reads_back_as_the_same_plan),
        cmocka_unit_test(says_line_and_cause),
        cmocka_unit_test(what_grows_faster_than_the_text_is_charged),
        cmocka_unit_test(memory_is_charged_too),
        cmocka_unit_test(every_beginning_of_a_text_is_refused_in_peace),
        cmocka_unit_test(a_short_message_buffer_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
