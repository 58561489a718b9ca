#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "base/dtype.h"
#include "engine/bind.h"
#include "plan/build.h"
#include "tests/kit/call.h"
#include "tests/worlds/host_map.h"
#include "transport/paths.h"

static const struct tutti_operation sum = {.kind = OP_SUM, .commutative = true};
static struct path_map paths;
static const struct bind_options usual = {.count = 1000,
                                          .dtype = TUTTI_FLOAT32,
                                          .op = &sum,
                                          .level = KERNEL_SCALAR,
                                          .paths = &paths,
                                          .piece_bytes_max = 64 << 10,
                                          .piece_count_max = 4};

static struct program *bound(const struct algorithm *algorithm, int size, int rank,
                             const struct bind_options *options)
{
    const struct algo_params params = {.collective = algorithm->collective, .rank_count = size};
    struct rank_plan *plan;
    struct program *program;
    const char *message = "";
    if (algo_rank_plan(algorithm, &params, rank, &plan, &message) != TUTTI_OK)
        fail_msg("%s", message);
    if (bind_program(plan, options, &program) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    plan_rank_free(plan);
    return program;
}

/* The group of a transport with links to all. */
static const int everybody[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
enum { SIZE_MAX_HERE = sizeof everybody / sizeof *everybody };

typedef void program_check(const struct program *program, const struct algorithm *algorithm,
                           int size, int rank, const struct bind_options *options);

static void for_all(const struct bind_options *options, program_check *check)
{
    for (int i = 0; i < algo_count; i++) {
        for (int size = 1; size <= SIZE_MAX_HERE; size++) {
            if (!algo_supports(&algo_list[i], size)) continue;
            const struct transport_group all = {everybody, size};
            for (int to_all = 0; to_all < 2; to_all++) {
                struct bind_options with = *options;
                with.groups = &all;
                with.group_count = to_all;
                for (int rank = 0; rank < size; rank++) {
                    struct program *program = bound(&algo_list[i], size, rank, &with);
                    check(program, &algo_list[i], size, rank, &with);
                    program_free(program);
                }
            }
        }
    }
}

/* Every access of every step lies inside its buffer. */
static void check_ranges(const struct program *program, const struct algorithm *algorithm, int size,
                         int rank, const struct bind_options *options)
{
    const size_t block = options->count * tutti_dtype_size(options->dtype);
    const size_t bytes[PLAN_BUFFER_COUNT] = {
        [PLAN_INPUT] = test_send_blocks(algorithm->collective, rank, size, 0) * block,
        [PLAN_OUTPUT] = test_recv_blocks(algorithm->collective, rank, size, 0) * block,
        [PLAN_SCRATCH] = program->scratch_bytes};
    for (uint32_t s = 0; s < program->step_count; s++) {
        const struct program_step *step = &program->steps[s];
        assert_true(step->first_source + step->source_count <= program->source_count);
        assert_true(step->source_count >= 1 && step->source_count <= program->source_count_max);
        assert_true(step->first_tx + step->tx_count <= program->step_tx_count);
        assert_true(step->first_after + step->after_count <= program->after_count);
        for (uint32_t i = 0; i < step->source_count; i++) {
            const struct program_source *source = &program->sources[step->first_source + i];
            if (source->rx != PROGRAM_NONE)
                assert_true(source->rx >= 0 && (uint32_t)source->rx < program->rx_count);
            else
                assert_true(source->offset + step->bytes <= bytes[source->buffer]);
        }
        if (step->destination_buffer != PROGRAM_NONE)
            assert_true(step->destination_offset + step->bytes <= bytes[step->destination_buffer]);
        for (uint32_t t = 0; t < step->tx_count; t++) {
            const int tx = program->step_tx[step->first_tx + t];
            assert_true(tx >= 0 && (uint32_t)tx < program->tx_count);
            assert_true(step->bytes <= program->tx_links[tx].bytes_max);
        }
    }
}

static void every_step_stays_inside_its_buffers(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 5, 1000, 65541};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct bind_options options = usual;
        options.count = counts[c];
        options.dtype = c % 2 == 0 ? TUTTI_FLOAT64 : TUTTI_BFLOAT16;
        for_all(&options, check_ranges);
    }
}

static void check_lanes(const struct program *program, const struct algorithm *algorithm, int size,
                        int rank, const struct bind_options *options)
{
    (void)algorithm, (void)size, (void)rank, (void)options;
    uint32_t steps = 0;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        assert_int_equal(program->lanes[l].first_step, steps);
        steps = program->lanes[l].end_step;
    }
    assert_int_equal(steps, program->step_count);
}

static void lanes_cover_all_steps(void **state)
{
    (void)state;
    for_all(&usual, check_lanes);
}

static void check_links(const struct program *program, const struct algorithm *algorithm, int size,
                        int rank, const struct bind_options *options)
{
    (void)algorithm;
    for (uint32_t i = 0; i < program->tx_count; i++) {
        const struct program_link *a = &program->tx_links[i];
        if (a->group != PROGRAM_NONE)
            assert_true(a->peer == PROGRAM_NONE && a->group < options->group_count);
        else
            assert_true(a->peer >= 0 && a->peer < size && a->peer != rank);
        for (uint32_t j = 0; j < i; j++)
            assert_false(program->tx_links[j].peer == a->peer &&
                         program->tx_links[j].group == a->group &&
                         program->tx_links[j].channel == a->channel);
    }
    for (uint32_t i = 0; i < program->rx_count; i++) {
        const struct program_link *a = &program->rx_links[i];
        assert_true(a->peer >= 0 && a->peer < size && a->peer != rank);
        for (uint32_t j = 0; j < i; j++)
            assert_false(program->rx_links[j].peer == a->peer &&
                         program->rx_links[j].channel == a->channel &&
                         program->rx_links[j].group == a->group);
    }
}

static void each_link_is_there_once(void **state)
{
    (void)state;
    for_all(&usual, check_links);
}

/* --------------------------------------------------------------------------------------- groups */

/* Rank 1 of six: it sends to a group of the plan, and receives what rank 3 sends there. */
static struct program *bound_to(const int *members, int member_count,
                                const struct bind_options *options)
{
    struct plan_builder *b = plan_builder_create(COLLECTIVE_ALLTOALL, 6, 0, 1);
    assert_non_null(b);
    plan_lane(b);
    const int group = plan_group(b, members, member_count);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_send_group(b, group);
    plan_end(b);
    plan_begin(b, 1);
    plan_receive_group(b, 3, group);
    plan_write(b, PLAN_OUTPUT, 3);
    plan_end(b);
    struct rank_plan *plan;
    struct program *program;
    const char *message = "";
    if (plan_builder_finish(b, &plan, &message) != TUTTI_OK) fail_msg("%s", message);
    plan_builder_free(b);
    assert_int_equal(bind_program(plan, options, &program), TUTTI_OK);
    plan_rank_free(plan);
    return program;
}

static void messages_go_at_once_to_groups_that_the_transport_names(void **state)
{
    (void)state;
    static const int pair[] = {1, 3}, host[] = {1, 3, 4}, other[] = {1, 3, 5},
                     all[] = {0, 1, 2, 3, 4, 5};
    const struct transport_group groups[] = {{pair, 2}, {host, 3}};
    static const struct {
        const int *members;
        int member_count, group_count, found;
    } cases[] = {{host, 3, 2, 1},
                 {pair, 2, 2, 0},
                 {other, 3, 2, PROGRAM_NONE},
                 {all, 6, 2, PROGRAM_NONE},
                 {host, 3, 1, PROGRAM_NONE},
                 {host, 3, 0, PROGRAM_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bind_options options = usual;
        options.groups = groups;
        options.group_count = cases[i].group_count;
        struct program *program = bound_to(cases[i].members, cases[i].member_count, &options);
        const int found = cases[i].found;
        assert_int_equal(program->tx_count, found != PROGRAM_NONE ? 1 : cases[i].member_count - 1);
        for (uint32_t t = 0; t < program->tx_count; t++) {
            assert_int_equal(program->tx_links[t].group, found);
            assert_int_equal(program->tx_links[t].peer == PROGRAM_NONE, found != PROGRAM_NONE);
        }
        assert_int_equal(program->rx_count, 1);
        assert_int_equal(program->rx_links[0].peer, 3);
        assert_int_equal(program->rx_links[0].group, found);
        program_free(program);
    }
}

/* Programs of all ranks of several hosts, whose ranks are groups of the transport. */
struct hosts {
    struct host_map map;
    int size;
    int ranks[SIZE_MAX_HERE][SIZE_MAX_HERE]; /* of the host of each rank */
    int counts[SIZE_MAX_HERE];
    struct program *programs[SIZE_MAX_HERE];
};

static void find_hosts(struct hosts *hosts, const struct host_shape *shape, int number)
{
    host_map_init(&hosts->map, shape, (enum numbering)(number % NUMBERING_COUNT), (uint32_t)number);
    hosts->size = hosts->map.rank_count;
    assert_true(hosts->size <= SIZE_MAX_HERE);
    for (int rank = 0; rank < hosts->size; rank++) {
        hosts->counts[rank] = 0;
        for (int r = 0; r < hosts->size; r++)
            if (hosts->map.host_of[r] == hosts->map.host_of[rank])
                hosts->ranks[rank][hosts->counts[rank]++] = r;
    }
}

static void bind_on_hosts(struct hosts *hosts, const struct algorithm *algorithm, size_t count)
{
    const struct algo_params params = {.collective = algorithm->collective,
                                       .rank_count = hosts->size,
                                       .levels = &hosts->map.levels};
    for (int rank = 0; rank < hosts->size; rank++) {
        const struct transport_group group = {hosts->ranks[rank], hosts->counts[rank]};
        struct bind_options options = usual;
        options.count = count;
        options.groups = &group;
        options.group_count = hosts->counts[rank] > 1;
        struct rank_plan *plan;
        const char *message = "";
        if (algo_rank_plan(algorithm, &params, rank, &plan, &message) != TUTTI_OK)
            fail_msg("%s", message);
        if (bind_program(plan, &options, &hosts->programs[rank]) != TUTTI_OK)
            fail_msg("%s", tutti_error_message());
        plan_rank_free(plan);
    }
}

static const struct program_link *find_multicast(const struct program_link *links, uint32_t count,
                                                 int peer, int channel)
{
    for (uint32_t i = 0; i < count; i++)
        if (links[i].group != PROGRAM_NONE && links[i].peer == peer && links[i].channel == channel)
            return &links[i];
    return NULL;
}

/* The number of messages that go over one of the links on which the rank sends, or which it
 * reads. */
static unsigned messages_on(const struct program *program, const struct program_link *link)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < program->step_tx_count; i++)
        count += &program->tx_links[program->step_tx[i]] == link;
    for (uint32_t i = 0; i < program->source_count; i++)
        count += program->sources[i].rx != PROGRAM_NONE &&
                 &program->rx_links[program->sources[i].rx] == link;
    return count;
}

/* Checks that each rank on the sender's host reads as many messages as were sent; returns the
 * number of multicast links of all ranks. */
static unsigned check_agreement(const struct hosts *hosts)
{
    unsigned multicast = 0, read = 0;
    for (int rank = 0; rank < hosts->size; rank++) {
        const struct program *program = hosts->programs[rank];
        for (uint32_t t = 0; t < program->tx_count; t++) {
            const struct program_link *tx = &program->tx_links[t];
            if (tx->group == PROGRAM_NONE) continue;
            multicast++;
            for (int i = 0; i < hosts->counts[rank]; i++) {
                const int reader = hosts->ranks[rank][i];
                const struct program *theirs = hosts->programs[reader];
                if (reader == rank) continue;
                const struct program_link *rx =
                    find_multicast(theirs->rx_links, theirs->rx_count, rank, tx->channel);
                assert_non_null(rx);
                assert_int_equal(rx->bytes_max, tx->bytes_max);
                assert_int_equal(messages_on(theirs, rx), messages_on(program, tx));
                read++;
            }
        }
        for (uint32_t i = 0; i < program->rx_count; i++)
            read -= program->rx_links[i].group != PROGRAM_NONE;
    }
    assert_int_equal(read, 0); /* and no rank reads another one */
    return multicast;
}

static void all_ranks_of_a_host_agree_on_what_is_multicast(void **state)
{
    (void)state;
    static const struct host_shape shapes[] = {
        {.hosts = {2, 3, 1}}, {.hosts = {4, 4}}, {.hosts = {1, 2}}, {.hosts = {3, 1, 2, 1}}};
    static const size_t counts[] = {1, 1000, 60000, 65536, 70000, 131072, 500000, 1 << 20};
    unsigned some = 0, none = 0, hierarchical = 0;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        if (!algorithm->needs_levels) continue;
        for (int s = 0; s < 4; s++) {
            struct hosts hosts;
            find_hosts(&hosts, &shapes[s], s);
            if (!algo_supports_levels(algorithm, hosts.size)) continue;
            hierarchical++;
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                bind_on_hosts(&hosts, algorithm, counts[c]);
                const unsigned multicast = check_agreement(&hosts);
                some += multicast > 0;
                none += multicast == 0 && counts[c] == 1 << 20;
                for (int r = 0; r < hosts.size; r++) program_free(hosts.programs[r]);
            }
        }
    }
    print_message("%u shapes, %u with multicast links\n", hierarchical * 8, some);
    assert_true(some > 0 && none > 0);
}

/* ------------------------------------------------------------------------------------- channels */

static enum tutti_status bind_on_channel(int channel, bool receives)
{
    struct plan_builder *b = plan_builder_create(COLLECTIVE_ALLTOALL, 2, 0, 0);
    assert_non_null(b);
    plan_lane(b);
    plan_channel(b, receives ? 0 : channel);
    plan_send_from(b, 1, PLAN_INPUT, 1, 1);
    plan_channel(b, receives ? channel : 0);
    plan_begin(b, 1);
    plan_receive(b, 1);
    plan_write(b, PLAN_OUTPUT, 1);
    plan_end(b);
    struct rank_plan *plan;
    struct program *program;
    const char *message = "";
    if (plan_builder_finish(b, &plan, &message) != TUTTI_OK) fail_msg("%s", message);
    plan_builder_free(b);
    struct bind_options options = usual;
    options.algorithm = "wide";
    const enum tutti_status status = bind_program(plan, &options, &program);
    plan_rank_free(plan);
    if (status == TUTTI_OK) assert_string_equal(program->algorithm, "wide");
    program_free(program);
    return status;
}

static void links_have_every_channel_of_a_plan(void **state)
{
    (void)state;
    for (int receives = 0; receives < 2; receives++)
        for (int channel = 0; channel < PLAN_CHANNELS_MAX; channel++)
            assert_int_equal(bind_on_channel(channel, receives), TUTTI_OK);
}

static unsigned divisions(const struct program *program)
{
    unsigned count = 0;
    for (uint32_t s = 0; s < program->step_count; s++) count += program->steps[s].divisor != 0;
    return count;
}

static void only_averages_are_divided(void **state)
{
    (void)state;
    struct bind_options options = usual;
    unsigned divided = 0;
    for (int rank = 0; rank < 4; rank++) {
        options.op = op_builtin(OP_AVG);
        struct program *program =
            bound(algo_find(COLLECTIVE_ALLREDUCE, "twoshot"), 4, rank, &options);
        for (uint32_t s = 0; s < program->step_count; s++)
            if (program->steps[s].divisor != 0) assert_int_equal(program->steps[s].divisor, 4);
        divided += divisions(program);
        program_free(program);
        options.op = op_builtin(OP_SUM);
        program = bound(algo_find(COLLECTIVE_ALLREDUCE, "twoshot"), 4, rank, &options);
        assert_int_equal(divisions(program), 0);
        program_free(program);
    }
    assert_int_equal(divided, 4); /* each rank its part */
}

/* A step that stores nothing gets scratch only if its chunk is larger than a link can hold. */
static void what_does_not_fit_into_a_link_is_staged(void **state)
{
    (void)state;
    const struct algorithm *ring = algo_find(COLLECTIVE_REDUCE_SCATTER, "ring");
    struct bind_options options = usual;
    for (int large = 0; large < 2; large++) {
        options.count = large ? 1 << 20 : 1000;
        struct program *program = bound(ring, 4, 1, &options);
        unsigned staging = 0, direct = 0;
        for (uint32_t s = 0; s < program->step_count; s++) {
            const struct program_step *step = &program->steps[s];
            if (step_has(step, STEP_STAGES))
                assert_int_equal(step->destination_buffer, PLAN_SCRATCH);
            staging += step_has(step, STEP_STAGES);
            direct += !step_has(step, STEP_STAGES | STEP_ONLY_SENDS) &&
                      step->destination_buffer == PROGRAM_NONE;
        }
        assert_true(large ? staging > 0 && direct == 0 : staging == 0 && direct > 0);
        assert_true(program->piece_bytes <= options.piece_bytes_max);
        program_free(program);
    }
}

/* ------------------------------------------------------------------------------------ expecting */

/* The actions of rank 0, besides receiving part 1 of an allreduce in two parts from rank 1, which
 * reduces that part. */
enum wish {
    IN_PLACE = 1,
    SENDS_TO_OTHERS = 2, /* its part 1 */
    SENDS_BOTH = 4,      /* parts together, to rank 1 */
    READS_LATER = 8,     /* the result, in the same lane */
    READS_AT_ONCE = 16,  /* in another one */
    WAITS = 32,          /* for another step before it receives */
    SCALES = 64,
    IS_SMALL = 128,
    RESULT_TO_OTHERS = 256 /* part 0 goes to a rank that it was not reduced from */
};

static struct program *wished(unsigned wish)
{
    struct plan_builder *b = plan_builder_create(COLLECTIVE_ALLREDUCE, 3, 0, 0);
    assert_non_null(b);
    plan_parts(b, 2);
    plan_lane(b);
    plan_send_from(b, 1, PLAN_INPUT, wish & SENDS_BOTH ? 0 : 1, wish & SENDS_BOTH ? 2 : 1);
    if (wish & SENDS_TO_OTHERS) plan_send_from(b, 2, PLAN_INPUT, 1, 1);
    plan_begin(b, 1);
    plan_receive(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_channel(b, 1);
    plan_send(b, wish & RESULT_TO_OTHERS ? 2 : 1);
    const uint32_t reduced = plan_end(b);
    plan_lane(b);
    plan_channel(b, 1);
    plan_begin(b, 1);
    if (wish & WAITS) plan_after(b, reduced);
    plan_receive(b, 1);
    plan_write(b, PLAN_OUTPUT, 1);
    if (wish & SCALES) plan_final(b);
    plan_end(b);
    if (wish & READS_LATER) plan_send_from(b, 2, PLAN_OUTPUT, 1, 1);
    if (wish & READS_AT_ONCE) {
        plan_lane(b);
        plan_channel(b, 2);
        plan_send_from(b, 2, PLAN_OUTPUT, 1, 1);
    }
    struct rank_plan *plan;
    struct program *program;
    const char *message = "";
    if (plan_builder_finish(b, &plan, &message) != TUTTI_OK) fail_msg("%s", message);
    plan_builder_free(b);
    struct bind_options options = usual;
    options.count = wish & IS_SMALL ? 10000 : 100000;
    options.op = op_builtin(OP_AVG);
    options.in_place = wish & IN_PLACE;
    assert_int_equal(bind_program(plan, &options, &program), TUTTI_OK);
    plan_rank_free(plan);
    return program;
}

static void messages_are_expected_where_nothing_else_touches_that_memory(void **state)
{
    (void)state;
    static const struct {
        unsigned wish;
        uint32_t expects;
    } cases[] = {
        {0, 1},
        {IN_PLACE, 1}, /* rank 1 reads there before it has a result */
        {SENDS_TO_OTHERS, 1},
        {IN_PLACE | SENDS_TO_OTHERS, 0},
        {SENDS_BOTH, 1},
        {IN_PLACE | SENDS_BOTH, 0},
        {READS_LATER, 1},
        {IN_PLACE | READS_LATER, 1},
        {READS_AT_ONCE, 0},
        {IN_PLACE | READS_AT_ONCE, 0},
        {WAITS, 0},
        {SCALES, 0},
        {IS_SMALL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct program *program = wished(cases[i].wish);
        if (program->expect_count != cases[i].expects)
            fail_msg("with %x %u messages are expected", cases[i].wish, program->expect_count);
        uint32_t steps = 0;
        for (uint32_t s = 0; s < program->step_count; s++)
            steps += step_has(&program->steps[s], STEP_EXPECTS);
        assert_int_equal(steps, cases[i].expects);
        if (steps > 0) {
            const struct program_expect *expect = &program->expects[0];
            const struct program_link *from = &program->rx_links[expect->rx];
            assert_true(from->peer == 1 && from->channel == 1);
            assert_int_equal(expect->bytes, 200000);
            assert_int_equal(expect->offset, 200000);
        }
        program_free(program);
    }
}

static void results_are_placed_with_those_that_they_were_reduced_from(void **state)
{
    (void)state;
    for (int variant = 0; variant < 3; variant++) {
        struct program *program = wished(variant == 0   ? 0
                                         : variant == 1 ? RESULT_TO_OTHERS
                                                        : IS_SMALL);
        uint32_t places = 0;
        for (uint32_t s = 0; s < program->step_count; s++) {
            const struct program_step *step = &program->steps[s];
            places += step_has(step, STEP_PLACES);
            if (step_has(step, STEP_PLACES))
                assert_true(step->source_count == 2 && step->tx_count == 1);
        }
        assert_int_equal(places, variant == 0);
        program_free(program);
    }
}

static void check_nothing_is_expected(const struct program *program,
                                      const struct algorithm *algorithm, int size, int rank,
                                      const struct bind_options *options)
{
    (void)size, (void)rank, (void)options;
    if (collective_reduces(algorithm->collective)) return;
    assert_int_equal(program->expect_count, 0);
    for (uint32_t s = 0; s < program->step_count; s++)
        assert_false(step_has(&program->steps[s], STEP_PLACES));
}

static void what_is_only_copied_is_not_expected(void **state)
{
    (void)state;
    struct bind_options options = usual;
    options.count = 1 << 20;
    for_all(&options, check_nothing_is_expected);
}

static const struct kernel_encoding tenths = {.name = "tenths", .unit_elements = 10, .unit_bytes = 6};

/* Pieces are whole units that fit into places of links; links are opened for the sizes that go over
 * them. */
static void check_units(const struct program *program, const struct algorithm *algorithm, int size,
                        int rank, const struct bind_options *options)
{
    (void)algorithm, (void)size, (void)rank;
    const size_t unit = 10 * sizeof(float);
    assert_true(program->moves_by_kernels && program->piece_bytes % unit == 0);
    assert_true(program->piece_bytes / unit * 6 <= options->piece_bytes_max);
    size_t most = 0, on_links = 0;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const struct program_step *step = &program->steps[s];
        assert_false(step_has(step, STEP_EXPECTS | STEP_PLACES | STEP_PLACES_DIRECTLY));
        if (step->tx_count > 0 && step->bytes > most) most = step->bytes;
        for (uint32_t i = 0; i < step->tx_count; i++) {
            const struct path_list *list =
                &program->lists[program->step_tx_paths[step->first_tx + i]];
            assert_int_equal(list->bits & PATH_AS_THEY_LIE, 0);
        }
    }
    for (uint32_t t = 0; t < program->tx_count; t++)
        if (program->tx_links[t].bytes_max > on_links) on_links = program->tx_links[t].bytes_max;
    assert_int_equal(on_links, (most + unit - 1) / unit * 6);
}

static void what_is_encoded_goes_in_units(void **state)
{
    (void)state;
    const struct kernel_set kernels = {NULL, NULL}; /* binding runs none */
    struct bind_options options = usual;
    options.encoding = &tenths;
    options.kernels = &kernels;
    for (options.count = 0; options.count < 3000000; options.count = options.count * 7 + 1)
        for_all(&options, check_units);
}

static const struct kernel_encoding wide = {
    .name = "wide", .unit_elements = 5000, .unit_bytes = 20000};

static void check_wide(const struct program *program, const struct algorithm *algorithm, int size,
                       int rank, const struct bind_options *options)
{
    (void)algorithm, (void)size, (void)rank;
    size_t largest = 0;
    for (uint32_t t = 0; t < program->tx_count; t++)
        if (program->tx_links[t].bytes_max > largest) largest = program->tx_links[t].bytes_max;
    const size_t on_link = program->piece_bytes / (5000 * sizeof(float)) * 20000;
    assert_true(on_link > 0 && on_link <= options->piece_bytes_max);
    /* If pieces may be so large, the largest message is as many pieces as a link has room for. */
    const size_t most = options->piece_bytes_max / 20000 * 20000;
    assert_true(on_link == most || on_link * options->piece_count_max >= largest);
}

/* Whether a unit fits into a piece depends on the limits of links, not on the count, since all
 * ranks must find the same. */
static void a_unit_that_links_take_fits_whatever_the_count(void **state)
{
    (void)state;
    const struct kernel_set kernels = {NULL, NULL};
    struct bind_options options = usual;
    options.encoding = &wide;
    options.kernels = &kernels;
    for (options.count = 0; options.count < 3000000; options.count = options.count * 13 + 1)
        for_all(&options, check_wide);
}

static void a_unit_larger_than_a_piece_is_refused(void **state)
{
    (void)state;
    const struct kernel_encoding large = {.name = "large", .unit_elements = 1, .unit_bytes = 70000};
    struct bind_options options = usual;
    options.encoding = &large;
    const struct algorithm *ring = algo_find(COLLECTIVE_ALLREDUCE, "ring");
    const struct algo_params params = {.collective = COLLECTIVE_ALLREDUCE, .rank_count = 2};
    struct rank_plan *plan;
    struct program *program;
    const char *message = "";
    assert_int_equal(algo_rank_plan(ring, &params, 0, &plan, &message), TUTTI_OK);
    assert_int_equal(bind_program(plan, &options, &program), TUTTI_UNSUPPORTED);
    plan_rank_free(plan);
}

static int know_paths(void **state)
{
    (void)state;
    paths.tables[0] = transport_paths("local");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_stays_inside_its_buffers),
        cmocka_unit_test(lanes_cover_all_steps),
        cmocka_unit_test(each_link_is_there_once),
        cmocka_unit_test(messages_go_at_once_to_groups_that_the_transport_names),
        cmocka_unit_test(all_ranks_of_a_host_agree_on_what_is_multicast),
        cmocka_unit_test(links_have_every_channel_of_a_plan),
        cmocka_unit_test(only_averages_are_divided),
        cmocka_unit_test(what_does_not_fit_into_a_link_is_staged),
        cmocka_unit_test(messages_are_expected_where_nothing_else_touches_that_memory),
        cmocka_unit_test(results_are_placed_with_those_that_they_were_reduced_from),
        cmocka_unit_test(what_is_only_copied_is_not_expected),
        cmocka_unit_test(what_is_encoded_goes_in_units),
        cmocka_unit_test(a_unit_that_links_take_fits_whatever_the_count),
        cmocka_unit_test(a_unit_larger_than_a_piece_is_refused),
    };
    return cmocka_run_group_tests(tests, know_paths, NULL);
}
