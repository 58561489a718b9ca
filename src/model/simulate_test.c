/* Simulated plans compared with published closed forms, and with what must hold: more of anything
 * never makes a plan faster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "base/status.h"
#include "model/simulate.h"
#include "transport/paths.h"

enum { ELEMENT_BYTES = 4, RANKS_MAX = 64 };

/* Whole picoseconds and femtoseconds that nothing has to be rounded for. */
#define ALPHA_PS UINT64_C(5000000)
#define BETA_FS UINT64_C(800000)
#define GAMMA_FS UINT64_C(125000)

static uint64_t bytes_ps(uint64_t byte_fs, uint64_t bytes)
{
    return byte_fs * bytes / 1000;
}

static const int *each_alone(void)
{
    static int hosts[RANKS_MAX];
    for (int r = 0; r < RANKS_MAX; r++) hosts[r] = r;
    return hosts;
}

/* One port each way and one core for every rank; chunks stay whole. */
static struct model_machine one_port(int rank_count)
{
    return (struct model_machine){.rank_count = rank_count,
                                  .host_count = rank_count,
                                  .rack_count = 1,
                                  .host_of = each_alone(),
                                  .core_count = 1,
                                  .piece_bytes_max = SIZE_MAX,
                                  .piece_count_max = 64};
}

struct job {
    enum collective collective;
    const char *algorithm;
    unsigned radix;
    size_t bytes; /* of a block */
};

static struct plan *plan_of(const struct job *job, int rank_count, struct wiring *wiring)
{
    const struct algorithm *algorithm = algo_find(job->collective, job->algorithm);
    const struct algo_params params = {
        .collective = job->collective, .rank_count = rank_count, .radix = job->radix};
    struct plan *plan = NULL;
    struct verify_report report;
    const char *message = "no such algorithm";
    if (algorithm == NULL || algo_plan(algorithm, &params, &plan, &message) != TUTTI_OK)
        fail_msg("%s: %s", job->algorithm, message);
    if (wiring_init(wiring, plan, NULL, &report) != VERIFY_PROVEN) fail_msg("%s", report.message);
    return plan;
}

static struct model_result run(const struct job *job, const struct model_machine *machine)
{
    struct wiring wiring;
    struct plan *plan = plan_of(job, machine->rank_count, &wiring);
    struct model_result result = {.time_ps = 0};
    if (model_simulate(plan, &wiring, machine, job->bytes / ELEMENT_BYTES, ELEMENT_BYTES,
                       &result) != TUTTI_OK)
        fail_msg("%s of %s: %s", job->algorithm, collective_name(job->collective),
                 tutti_error_message());
    wiring_release(&wiring);
    plan_free(plan);
    return result;
}

static void expect_time(const struct job *job, const struct model_machine *machine,
                        uint64_t expected_ps)
{
    const uint64_t time_ps = run(job, machine).time_ps;
    const double error = (double)time_ps / (double)expected_ps - 1;
    if (error < -1e-9 || error > 1e-9)
        fail_msg("%s of %s on %d ranks, %zu bytes: %.6f us instead of %.6f us", job->algorithm,
                 collective_name(job->collective), machine->rank_count, job->bytes,
                 (double)time_ps * 1e-6, (double)expected_ps * 1e-6);
}

static uint64_t lg(uint64_t count)
{
    uint64_t rounds = 0;
    while (UINT64_C(1) << rounds < count) rounds++;
    return rounds;
}

/* --------------------------------------------------------------------------------- closed forms */

/* Hoefler, Schneider, Lumsdaine: LogGOPSim, HPDC 2010: 4 (2o + L). */
static void dissemination_costs_what_loggopsim_says(void **state)
{
    (void)state;
    static const struct path_row rows[] = {{.path = PATH_INLINE,
                                            .sender_memory = PATH_HOST_MEMORY,
                                            .receiver_memory = PATH_HOST_MEMORY,
                                            .alignment = 1,
                                            .in_flight = 1,
                                            .cost = {1500000, 1500000, 0, 0}}};
    static const struct path_rule rules[] = {{.path = PATH_INLINE,
                                              .bytes_max = SIZE_MAX,
                                              .traffic = PATH_ANY_TRAFFIC,
                                              .readers = PATH_ANY_READERS,
                                              .steps = PATH_ANY_SENDER,
                                              .cores = PATH_ANY_CORES,
                                              .senders = PATH_ANY_SENDERS,
                                              .why = "a test"}};
    static const struct path_table loggop = {.name = "LogGOP",
                                             .rows = rows,
                                             .row_count = 1,
                                             .rules = rules,
                                             .rule_count = 1,
                                             .sizes = PATH_SIZES};
    struct model_machine machine = one_port(16);
    machine.between = &loggop;
    machine.latency_ps[MODEL_SAME_RACK] = 2500000;
    machine.card.message.byte_fs = 6000000;
    expect_time(&(struct job){COLLECTIVE_BARRIER, "dissemination", 0, 0}, &machine, 22000000);
}

/* 100 kB over a link of 10 ms and 1 Mbit/s. */
static void a_link_costs_latency_and_bytes(void **state)
{
    (void)state;
    struct model_machine machine = one_port(2);
    machine.latency_ps[MODEL_SAME_RACK] = UINT64_C(10000000000);
    machine.card.message.byte_fs = UINT64_C(8000000000);
    expect_time(&(struct job){COLLECTIVE_BROADCAST, "direct", 0, 100000}, &machine,
                UINT64_C(810000000000));
}

static struct model_machine alpha_on_the_wire(int rank_count)
{
    struct model_machine machine = one_port(rank_count);
    machine.latency_ps[MODEL_SAME_RACK] = ALPHA_PS;
    machine.card.message.byte_fs = BETA_FS;
    return machine;
}

static struct model_machine alpha_on_the_port(int rank_count)
{
    struct model_machine machine = one_port(rank_count);
    machine.card.message = (struct model_cost){ALPHA_PS, BETA_FS};
    return machine;
}

/* Any p; n a multiple of 64 p. */
static void rings(void **state)
{
    (void)state;
    for (int p = 2; p <= 17; p++) {
        struct model_machine machine = alpha_on_the_wire(p);
        const uint64_t rounds = (uint64_t)p - 1, block = 64 * 1000;
        expect_time(&(struct job){COLLECTIVE_ALLGATHER, "ring", 0, block}, &machine,
                    rounds * (ALPHA_PS + bytes_ps(BETA_FS, block)));
        machine.reduce.byte_fs = machine.more_byte_fs = GAMMA_FS;
        expect_time(&(struct job){COLLECTIVE_REDUCE_SCATTER, "ring", 0, block}, &machine,
                    rounds * (ALPHA_PS + bytes_ps(BETA_FS + GAMMA_FS, block)));
    }
}

static void recursive_doubling(void **state)
{
    (void)state;
    for (int p = 2; p <= 64; p *= 2) {
        struct model_machine machine = alpha_on_the_wire(p);
        machine.reduce.byte_fs = machine.more_byte_fs = GAMMA_FS;
        const uint64_t n = 64000;
        expect_time(&(struct job){COLLECTIVE_ALLREDUCE, "doubling", 0, n}, &machine,
                    lg((uint64_t)p) * (ALPHA_PS + bytes_ps(BETA_FS + GAMMA_FS, n)));
    }
}

/* Rabenseifner. */
static void halving_doubling(void **state)
{
    (void)state;
    for (uint64_t p = 2; p <= 64; p *= 2) {
        struct model_machine machine = alpha_on_the_wire((int)p);
        machine.reduce.byte_fs = machine.more_byte_fs = GAMMA_FS;
        const uint64_t part = 64 * 40, n = p * part;
        expect_time(&(struct job){COLLECTIVE_ALLREDUCE, "halving_doubling", 0, n}, &machine,
                    2 * lg(p) * ALPHA_PS + 2 * (p - 1) * bytes_ps(BETA_FS, part) +
                        (p - 1) * bytes_ps(GAMMA_FS, part));
    }
}

static void twoshot(void **state)
{
    (void)state;
    for (uint64_t p = 2; p <= 16; p++) {
        struct model_machine machine = alpha_on_the_wire((int)p);
        machine.reduce.byte_fs = machine.more_byte_fs = GAMMA_FS;
        const uint64_t part = 64 * 40, n = p * part;
        expect_time(&(struct job){COLLECTIVE_ALLREDUCE, "twoshot", 0, n}, &machine,
                    2 * ALPHA_PS + 2 * (p - 1) * bytes_ps(BETA_FS, part) +
                        (p - 1) * bytes_ps(GAMMA_FS, part));
    }
}

/* For numbers of ranks with which every rank has a partner in every round. With others, one or two
 * ranks rest, and their messages wait for each other. */
static void exchanges(void **state)
{
    (void)state;
    for (uint64_t p = 2; p <= 64; p *= 2) {
        struct model_machine machine = alpha_on_the_port((int)p);
        const uint64_t block = 6400;
        expect_time(&(struct job){COLLECTIVE_ALLTOALL, "pairwise", 0, block}, &machine,
                    (p - 1) * (ALPHA_PS + bytes_ps(BETA_FS, block)));
    }
}

static uint64_t power(uint64_t base, unsigned exponent)
{
    uint64_t product = 1;
    while (exponent-- > 0) product *= base;
    return product;
}

static void bruck(void **state)
{
    (void)state;
    static const struct {
        uint64_t radix;
        unsigned digits;
    } shapes[] = {{2, 1}, {2, 2}, {2, 3}, {2, 4}, {2, 5}, {3, 2}, {3, 3}, {4, 2}, {4, 3}, {8, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const uint64_t r = shapes[i].radix, p = power(r, shapes[i].digits), block = 640;
        struct model_machine machine = alpha_on_the_port((int)p);
        expect_time(&(struct job){COLLECTIVE_ALLTOALL, "bruck", (unsigned)r, block}, &machine,
                    (r - 1) * shapes[i].digits * (ALPHA_PS + bytes_ps(BETA_FS, p / r * block)));
    }
}

/* In S pieces: the parts of the plan, or the pieces into which the machine cuts chunks. */
static void chain(void **state)
{
    (void)state;
    for (uint64_t p = 2; p <= 17; p++)
        for (uint64_t pieces = 1; pieces <= 16; pieces *= 4) {
            struct model_machine machine = alpha_on_the_port((int)p);
            const uint64_t n = 64 * 1024;
            machine.piece_bytes_max = n / pieces;
            expect_time(&(struct job){COLLECTIVE_BROADCAST, "chain", 0, n}, &machine,
                        (pieces + p - 2) * (ALPHA_PS + bytes_ps(BETA_FS, n / pieces)));
        }
}

/* The best number of pieces is sqrt((p - 2) n beta / alpha): here 10, and others cost more the
 * further they are from it. */
static void a_chain_has_a_best_piece(void **state)
{
    (void)state;
    enum { RANKS = 12 };
    static const uint64_t pieces[] = {1, 2, 5, 10, 20, 50, 125};
    uint64_t times_ps[sizeof pieces / sizeof *pieces];
    struct model_machine machine = alpha_on_the_port(RANKS);
    const struct job job = {COLLECTIVE_BROADCAST, "chain", 0, 64000};
    machine.card.message = (struct model_cost){ALPHA_PS, 781250}; /* 10 * 64000 beta = 100 alpha */
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        machine.piece_bytes_max = job.bytes / pieces[i];
        times_ps[i] = run(&job, &machine).time_ps;
    }
    for (size_t i = 0; i < 3; i++) assert_true(times_ps[i] > times_ps[i + 1]);
    for (size_t i = 3; i < 6; i++) assert_true(times_ps[i] < times_ps[i + 1]);
}

/* ------------------------------------------------------------------------ what else is modelled */

/* Hosts 0 and 1 in one rack, 2 and 3 in another. */
static struct model_machine two_racks(void)
{
    static const int racks[] = {0, 0, 1, 1};
    struct model_machine machine = alpha_on_the_wire(4);
    machine.rack_count = 2;
    machine.rack_of = racks;
    machine.latency_ps[MODEL_OTHER_RACK] = 2 * ALPHA_PS;
    machine.uplink.message.byte_fs = 2 * BETA_FS;
    return machine;
}

/* Each rank sends three blocks; two of them cross the uplink, together with two blocks of its
 * neighbour. */
static void an_uplink_is_shared(void **state)
{
    (void)state;
    const struct model_machine machine = two_racks();
    const struct job job = {COLLECTIVE_ALLTOALL, "direct", 0, 6400};
    const struct model_result result = run(&job, &machine);
    assert_int_equal(result.loads[MODEL_UPLINK_OUT].busy_ps, 4 * bytes_ps(2 * BETA_FS, job.bytes));
    assert_int_equal(result.loads[MODEL_UPLINK_IN].busy_ps, 4 * bytes_ps(2 * BETA_FS, job.bytes));
    assert_int_equal(result.loads[MODEL_CARD_OUT].busy_ps, 3 * bytes_ps(BETA_FS, job.bytes));
    assert_true(result.time_ps >= 2 * ALPHA_PS + 4 * bytes_ps(2 * BETA_FS, job.bytes));
    assert_true(result.time_ps <= 2 * ALPHA_PS + 6 * bytes_ps(2 * BETA_FS, job.bytes));
}

/* Bytes that fit into the burst pass at once, and the rest at the rate; but over many calls, no
 * port passes more than its rate. */
static void a_port_that_has_rested_takes_a_burst(void **state)
{
    (void)state;
    struct model_machine machine = alpha_on_the_wire(2);
    machine.card.burst_bytes = 10000;
    const uint64_t alpha_ps = bytes_ps(BETA_FS, 20000);
    machine.latency_ps[MODEL_SAME_RACK] = alpha_ps;
    expect_time(&(struct job){COLLECTIVE_BROADCAST, "direct", 0, 6400}, &machine, alpha_ps);
    expect_time(&(struct job){COLLECTIVE_BROADCAST, "direct", 0, 64000}, &machine,
                alpha_ps + bytes_ps(BETA_FS, 64000 - 10000));
    machine.latency_ps[MODEL_SAME_RACK] = alpha_ps / 4;
    expect_time(&(struct job){COLLECTIVE_BROADCAST, "direct", 0, 64000}, &machine,
                alpha_ps / 4 + bytes_ps(BETA_FS, 64000));
}

/* Swing sends its large messages to near ranks, and the smaller ones through the uplink: with its
 * burst, before the cards have done their work. In call after call the uplink has no burst left,
 * and holds the cards up. A ring never sends more than one message at a time there. */
static void bursts_do_not_last(void **state)
{
    enum { RANKS = 8 };
    static int rack_of[RANKS];
    (void)state;
    struct model_machine machine = alpha_on_the_wire(RANKS);
    for (int r = 0; r < RANKS; r++) rack_of[r] = r / (RANKS / 2);
    machine.rack_of = rack_of;
    machine.rack_count = 2;
    machine.latency_ps[MODEL_OTHER_RACK] = machine.latency_ps[MODEL_SAME_RACK];
    machine.uplink.message.byte_fs = BETA_FS;
    machine.card.burst_bytes = machine.uplink.burst_bytes = 128 << 10;
    machine.piece_bytes_max = 16 << 10;
    const struct job swing = {COLLECTIVE_ALLGATHER, "swing", 0, 64 << 10},
                     ring = {COLLECTIVE_ALLGATHER, "ring", 0, 64 << 10};
    const uint64_t least_ps = 7 * bytes_ps(BETA_FS, swing.bytes);
    assert_in_range(run(&ring, &machine).time_ps, least_ps, least_ps * 21 / 20);
    assert_true(run(&swing, &machine).time_ps > least_ps * 11 / 10);
}

/* A piece that comes while too many bytes wait costs its port more. */
static void many_senders_overflow_a_queue(void **state)
{
    (void)state;
    enum { RANKS = 9 };
    struct model_machine machine = alpha_on_the_wire(RANKS);
    const struct job job = {COLLECTIVE_GATHER, "direct", 0, 6400};
    const uint64_t block_ps = bytes_ps(BETA_FS, job.bytes);
    expect_time(&job, &machine, ALPHA_PS + (RANKS - 1) * block_ps);
    machine.card.queue_bytes = 6400 * 5 / 2; /* three find at most that much before them */
    machine.card.again_permille = 500;
    expect_time(&job, &machine, ALPHA_PS + (RANKS - 1) * block_ps + (RANKS - 1 - 3) * block_ps / 2);
    const struct job one = {COLLECTIVE_BROADCAST, "direct", 0, 64000};
    machine = alpha_on_the_wire(2);
    machine.piece_bytes_max = 6400;
    machine.card.queue_bytes = 6400;
    machine.card.again_permille = 500;
    expect_time(&one, &machine, ALPHA_PS + bytes_ps(BETA_FS, one.bytes)); /* one alone does not */
}

/* Two ranks on one core copy one after the other, and it takes time to go from one to the other. */
static void ranks_take_turns_on_a_core(void **state)
{
    (void)state;
    struct model_machine machine = {.rank_count = 4,
                                    .host_count = 1,
                                    .rack_count = 1,
                                    .core_count = 4,
                                    .copy = {1000, 1000},
                                    .piece_bytes_max = SIZE_MAX,
                                    .piece_count_max = 16};
    const struct job job = {COLLECTIVE_ALLTOALL, "direct", 0, 64000};
    const uint64_t copy_ps = model_cost_ps(machine.copy, job.bytes);
    expect_time(&job, &machine, copy_ps);
    machine.core_count = 2;
    expect_time(&job, &machine, 2 * copy_ps);
    machine.turn_ps = 500;
    expect_time(&job, &machine,
                2 * copy_ps + 500 + 250); /* the second core begins in the middle of a turn */
    machine.core_count = 4;
    machine.memory_byte_fs = 2000; /* each block is read and written */
    expect_time(&job, &machine, 4 * 4 * 2 * bytes_ps(2000, job.bytes));
}

/* Each message of swing goes to a rank on the other core. If both cores were in step, or one of
 * them began with its second rank at the same time, ranks would find it in their turns, and be done
 * after as many of them as with direct. */
static void rounds_take_turns_where_cores_are_out_of_step(void **state)
{
    enum { TURN_PS = 2000000 };
    (void)state;
    const struct model_machine machine = {.within = transport_paths("local"),
                                          .rank_count = 4,
                                          .host_count = 1,
                                          .rack_count = 1,
                                          .core_count = 2,
                                          .turn_ps = TURN_PS,
                                          .piece_bytes_max = SIZE_MAX,
                                          .piece_count_max = 16};
    const struct job direct = {COLLECTIVE_ALLGATHER, "direct", 0, 64},
                     swing = {COLLECTIVE_ALLGATHER, "swing", 0, 64};
    const uint64_t direct_ps = run(&direct, &machine).time_ps;
    assert_in_range(direct_ps, 2 * TURN_PS, 7 * TURN_PS / 2);
    assert_true(run(&swing, &machine).time_ps > direct_ps + TURN_PS / 2);
}

/* Hosts of a core each, or with the core of the first one. */
static void hosts_take_turns_on_shared_cores(void **state)
{
    enum { RANKS = 4 };
    static const int first[RANKS] = {0, 0, 0, 0}, pairs[RANKS] = {0, 0, 2, 2};
    static const uint32_t slow[RANKS] = {1000, 1000, 1000, 3000};
    (void)state;
    struct model_machine machine = one_port(RANKS);
    machine.copy = (struct model_cost){1000, 1000};
    const struct job job = {COLLECTIVE_ALLTOALL, "direct", 0, 64000};
    const uint64_t copy_ps = model_cost_ps(machine.copy, job.bytes);
    expect_time(&job, &machine, copy_ps);
    machine.cores_of = pairs;
    expect_time(&job, &machine, 2 * copy_ps);
    machine.cores_of = first;
    expect_time(&job, &machine, RANKS * copy_ps);
    assert_int_equal(run(&job, &machine).loads[MODEL_CORE].number, 0);
    machine.host_permille = slow;
    expect_time(&job, &machine, (RANKS + 2) * copy_ps);
    machine.host_permille = NULL;
    machine.core_count = 2;
    expect_time(&job, &machine, 2 * copy_ps);
    machine.memory_byte_fs = 2000; /* each block is read and written, in one memory */
    expect_time(&job, &machine, (uint64_t)RANKS * RANKS * 2 * bytes_ps(2000, job.bytes));
    machine.cores_of = NULL; /* or in one of each host */
    expect_time(&job, &machine, (uint64_t)RANKS * 2 * bytes_ps(2000, job.bytes));
}

/* -------------------------------------------------------------------------- paths within a host */

enum { PATHS_MAX = 16 };

struct free_paths {
    struct path_table table;
    struct path_row rows[PATHS_MAX];
};

/* Ranks of one host with a core each, whose work and messages cost nothing. */
static struct model_machine free_host(struct free_paths *paths, int rank_count)
{
    paths->table = *transport_paths("local");
    assert_true(paths->table.row_count <= PATHS_MAX);
    for (unsigned r = 0; r < paths->table.row_count; r++) {
        paths->rows[r] = paths->table.rows[r];
        paths->rows[r].cost = (struct path_cost){0};
    }
    paths->table.rows = paths->rows;
    return (struct model_machine){.rank_count = rank_count,
                                  .host_count = 1,
                                  .rack_count = 1,
                                  .core_count = rank_count,
                                  .within = &paths->table,
                                  .piece_bytes_max = 64 << 10,
                                  .piece_count_max = 4};
}

static void set_cost(struct free_paths *paths, enum path_kind path, struct path_cost cost)
{
    for (unsigned r = 0; r < paths->table.row_count; r++)
        if (paths->rows[r].path == path) paths->rows[r].cost = cost;
}

/* Each rank stores half of the sums where the other rank read those of the call before, unless both
 * are on one core. Inputs are only read, and sums that no other rank reads are not taken back
 * either. */
static void a_result_that_others_read_is_taken_back(void **state)
{
    (void)state;
    enum { LATENCY_PS = 48000, LATENCIES_MAX = 16, RETAKE_FS = 125000 };
    struct free_paths paths;
    const struct job twoshot = {COLLECTIVE_ALLREDUCE, "twoshot", 0, 64 << 10},
                     oneshot = {COLLECTIVE_ALLREDUCE, "oneshot", 0, 64 << 10};
    struct model_machine machine = free_host(&paths, 2);
    machine.is_mapped = true;
    machine.latency_ps[MODEL_SAME_HOST] = LATENCY_PS;
    machine.retake_byte_fs = RETAKE_FS;
    const uint64_t retaken_ps = bytes_ps(RETAKE_FS, twoshot.bytes / 2),
                   time_ps = run(&twoshot, &machine).time_ps;
    assert_in_range(time_ps, retaken_ps, retaken_ps + LATENCIES_MAX * LATENCY_PS);
    assert_true(run(&oneshot, &machine).time_ps <= LATENCIES_MAX * LATENCY_PS);
    /* More than a link to a group takes goes to the only other rank: straight to where it wants
     * it. */
    const struct job large = {COLLECTIVE_ALLREDUCE, "twoshot", 0, 512 << 10};
    assert_true(run(&large, &machine).time_ps <= LATENCIES_MAX * LATENCY_PS);
    machine.core_count = 1;
    assert_true(run(&twoshot, &machine).time_ps <= LATENCIES_MAX * LATENCY_PS);
}

/* No other rank can read a rank's scratch memory, so messages from there go through slots; messages
 * from mapped output do not. */
static void scratch_memory_is_never_mapped(void **state)
{
    (void)state;
    enum { SLOT_PS = 1000000 };
    struct free_paths paths;
    struct model_machine machine = free_host(&paths, 2);
    machine.is_mapped = true;
    set_cost(&paths, PATH_SLOT, (struct path_cost){.receiver_ps = SLOT_PS});
    assert_true(run(&(struct job){COLLECTIVE_ALLREDUCE, "twoshot", 0, 64 << 10}, &machine).time_ps <
                SLOT_PS);
    assert_true(run(&(struct job){COLLECTIVE_REDUCE, "twoshot", 0, 64 << 10}, &machine).time_ps >=
                SLOT_PS);
}

static void a_group_s_place_is_filled_once(void **state)
{
    (void)state;
    struct free_paths paths;
    const struct job job = {COLLECTIVE_BROADCAST, "direct", 0, 8 << 10};
    const struct model_machine machine = free_host(&paths, 4);
    set_cost(&paths, PATH_GROUP_SLOT, (struct path_cost){.sender_ps_a_byte = 1000});
    expect_time(&job, &machine, 1000 * job.bytes);
}

/* A rank that receives from many cores loads a line of each of them, one after the other, but not
 * those of ranks on its own core. */
static void a_receiver_loads_each_sender_s_line(void **state)
{
    (void)state;
    enum { RANKS = 9, LATENCY_PS = 100000 };
    struct free_paths paths;
    const struct job job = {COLLECTIVE_GATHER, "direct", 0, 8};
    struct model_machine machine = free_host(&paths, RANKS);
    machine.latency_ps[MODEL_SAME_HOST] = LATENCY_PS;
    expect_time(&job, &machine, LATENCY_PS / 4 + (RANKS - 1) * (LATENCY_PS / 4 * 3));
    machine.core_count = 1;
    machine.turn_ps = 0;
    expect_time(&job, &machine, LATENCY_PS);
}

/* A ring goes as fast as its slowest host: the others wait for a card that takes four times as
 * long. */
static void a_straggler_holds_up_a_ring(void **state)
{
    (void)state;
    enum { RANKS = 8, SLOW = 3 };
    uint32_t permille[RANKS];
    for (int h = 0; h < RANKS; h++) permille[h] = h == SLOW ? 4000 : 1000;
    struct model_machine machine = alpha_on_the_wire(RANKS);
    const struct job job = {COLLECTIVE_ALLGATHER, "ring", 0, 64000};
    const uint64_t even_ps = run(&job, &machine).time_ps;
    machine.host_permille = permille;
    const struct model_result result = run(&job, &machine);
    assert_true(result.time_ps > 3 * even_ps && result.time_ps < 4 * even_ps + 4 * ALPHA_PS);
    assert_int_equal(result.loads[MODEL_CARD_OUT].number, SLOW);
    assert_int_equal(result.loads[MODEL_CARD_OUT].busy_ps,
                     4 * (RANKS - 1) * bytes_ps(BETA_FS, job.bytes));
}

/* 100 kB over a link of 10 ms and 1 Mbit/s, by reference: it takes a round trip until the message
 * is consumed. If its sender asks for a place, that takes another round trip before. */
static void who_asks_for_a_place_waits_for_the_answer(void **state)
{
    (void)state;
    struct path_row row = {.path = PATH_READ,
                           .sender_memory = PATH_HOST_MEMORY,
                           .receiver_memory = PATH_HOST_MEMORY,
                           .alignment = 1,
                           .in_flight = 8};
    static const struct path_rule rules[] = {{.path = PATH_READ,
                                              .bytes_max = SIZE_MAX,
                                              .traffic = PATH_ANY_TRAFFIC,
                                              .readers = PATH_ANY_READERS,
                                              .steps = PATH_ANY_SENDER,
                                              .cores = PATH_ANY_CORES,
                                              .senders = PATH_ANY_SENDERS,
                                              .why = "a test"}};
    const struct path_table table = {.name = "asking",
                                     .rows = &row,
                                     .row_count = 1,
                                     .rules = rules,
                                     .rule_count = 1,
                                     .sizes = PATH_SIZES};
    const struct job job = {COLLECTIVE_BROADCAST, "direct", 0, 100000};
    struct model_machine machine = one_port(2);
    machine.between = &table;
    machine.latency_ps[MODEL_SAME_RACK] = UINT64_C(10000000000);
    machine.card.message.byte_fs = UINT64_C(8000000000);
    expect_time(&job, &machine, UINT64_C(820000000000));
    row.asked_bytes = 100001;
    expect_time(&job, &machine, UINT64_C(820000000000));
    row.asked_bytes = 100000;
    expect_time(&job, &machine, UINT64_C(840000000000));
}

/* However few pieces links take at a time, and whatever paths messages take, no plan comes to a
 * halt, and less room is never faster. */
static void narrow_links_hold_up_and_do_not_halt(void **state)
{
    (void)state;
    enum { ROWS_MAX = 16 };
    const struct path_table *shipped[] = {transport_paths("local"), transport_paths("tcp")};
    for (int i = 0; i < 2 * algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i / 2];
        for (int p = 2; p <= 8; p += 3) {
            if (!algo_supports(algorithm, p)) continue;
            uint64_t last_ps = UINT64_MAX;
            for (unsigned window = 1; window <= 16; window *= 4) {
                struct path_row rows[ROWS_MAX];
                struct path_table table = *shipped[i % 2];
                assert_true(table.row_count <= ROWS_MAX);
                for (unsigned r = 0; r < table.row_count; r++) {
                    rows[r] = table.rows[r];
                    rows[r].in_flight = window;
                }
                table.rows = rows;
                struct model_machine machine = alpha_on_the_wire(p);
                machine.between = &table;
                machine.piece_bytes_max = 64 << 10;
                machine.piece_count_max = 16;
                const struct job job = {algorithm->collective, algorithm->name, 0, 2 << 20};
                const uint64_t time_ps = run(&job, &machine).time_ps;
                if (window == 1) last_ps = time_ps;
                if (time_ps >
                    last_ps +
                        last_ps /
                            4) /* others come first, then: a double tree of five ranks takes 23 % more */
                    fail_msg("%s of %s on %d ranks: %.1f us with %u pieces under way, and %.1f",
                             algorithm->name, collective_name(algorithm->collective), p,
                             (double)time_ps * 1e-6, window, (double)last_ps * 1e-6);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dissemination_costs_what_loggopsim_says),
        cmocka_unit_test(a_link_costs_latency_and_bytes),
        cmocka_unit_test(who_asks_for_a_place_waits_for_the_answer),
        cmocka_unit_test(rings),
        cmocka_unit_test(recursive_doubling),
        cmocka_unit_test(halving_doubling),
        cmocka_unit_test(twoshot),
        cmocka_unit_test(exchanges),
        cmocka_unit_test(bruck),
        cmocka_unit_test(chain),
        cmocka_unit_test(a_chain_has_a_best_piece),
        cmocka_unit_test(an_uplink_is_shared),
        cmocka_unit_test(a_port_that_has_rested_takes_a_burst),
        cmocka_unit_test(bursts_do_not_last),
        cmocka_unit_test(many_senders_overflow_a_queue),
        cmocka_unit_test(ranks_take_turns_on_a_core),
        cmocka_unit_test(rounds_take_turns_where_cores_are_out_of_step),
        cmocka_unit_test(hosts_take_turns_on_shared_cores),
        cmocka_unit_test(a_result_that_others_read_is_taken_back),
        cmocka_unit_test(scratch_memory_is_never_mapped),
        cmocka_unit_test(a_group_s_place_is_filled_once),
        cmocka_unit_test(a_receiver_loads_each_sender_s_line),
        cmocka_unit_test(a_straggler_holds_up_a_ring),
        cmocka_unit_test(narrow_links_hold_up_and_do_not_halt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
