#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/calibration.h"
#include "transport/card/paths.h"
#include "transport/local/paths.h"
#include "transport/tcp/paths.h"

static struct calibration shipped(void)
{
    struct calibration calibration;
    calibration_init(&calibration, local_paths(false), tcp_paths());
    return calibration;
}

static void shipped_values_are_assumed_and_within_bounds(void **state)
{
    (void)state;
    const struct calibration calibration = shipped();
    for (unsigned i = 0; i < CALIBRATION_PARAMETERS; i++) {
        const struct calibration_info *info = calibration_info(i);
        const struct calibration_number *number = &calibration.numbers[i];
        assert_true(number->value >= info->least && number->value <= info->most);
        assert_int_equal(number->known, CALIBRATION_ASSUMED);
        assert_int_equal(calibration_find(info->name), i);
    }
    assert_int_equal(calibration_find("copy"), CALIBRATION_PARAMETERS);
    assert_false(calibration.is_loaded);
}

/* A model that is told to use them computes with the tables as they ship. */
static void shipped_paths_cost_what_the_tables_say(void **state)
{
    (void)state;
    const struct path_table *const tables[] = {local_paths(false), tcp_paths()};
    const struct calibration calibration = shipped();
    struct calibration_tables memory;
    struct model_machine machine = {.rank_count = 4, .host_count = 2, .core_count = 7};
    const struct calibration_use use = {
        .dtype = TUTTI_FLOAT32, .within = tables[0], .between = tables[1], .tables = &memory};
    calibration_apply(&calibration, &use, &machine);
    const struct path_table *const used[] = {machine.within, machine.between};
    for (int t = 0; t < 2; t++) {
        assert_int_equal(used[t]->row_count, tables[t]->row_count);
        assert_ptr_equal(used[t]->rules, tables[t]->rules);
        for (unsigned i = 0; i < tables[t]->row_count; i++)
            assert_memory_equal(&used[t]->rows[i], &tables[t]->rows[i], sizeof *used[t]->rows);
        assert_null(path_check(used[t]));
    }
    assert_int_equal(machine.core_count, 7); /* shipped values are of no machine */
}

/* Costs measured over TCP do not apply to a card. */
static void another_transport_keeps_its_costs(void **state)
{
    (void)state;
    struct calibration calibration = shipped();
    struct calibration_tables memory;
    struct model_machine machine = {.rank_count = 4, .host_count = 2};
    const struct calibration_use use = {.dtype = TUTTI_FLOAT32,
                                        .within = local_paths(false),
                                        .between = card_paths(),
                                        .tables = &memory};
    calibration.paths[CALIBRATION_BETWEEN][PATH_SLOT].values[CALIBRATION_PATH_sender_ps] = 123456789;
    calibration_apply(&calibration, &use, &machine);
    assert_ptr_equal(machine.between, card_paths());
}

static void a_machine_gets_every_number(void **state)
{
    (void)state;
    struct calibration calibration = shipped();
    struct calibration_tables memory;
    struct model_machine machine = {.rank_count = 4, .host_count = 2};
    struct calibration_use use = {
        .dtype = TUTTI_BFLOAT16, .is_far = true, .within = local_paths(false), .tables = &memory};
    for (unsigned i = 0; i < CALIBRATION_PARAMETERS; i++) calibration.numbers[i].value = 1000 + i;
    calibration.numbers[CALIBRATION_copy_far_byte_fs].value = 5000 + CALIBRATION_copy_near_byte_fs;
    calibration.numbers[CALIBRATION_reduce_float16_far_byte_fs].value =
        7000 + CALIBRATION_reduce_float16_near_byte_fs;
    calibration.key.hardware = (struct hardware){.cpu_count = 8, .cpus_a_cache = 2};
    calibration.paths[CALIBRATION_WITHIN][PATH_SLOT].values[CALIBRATION_PATH_sender_byte_fs] = 1499;
    calibration.paths[CALIBRATION_WITHIN][PATH_SLOT].values[CALIBRATION_PATH_receiver_byte_fs] =
        1500;
    calibration_apply(&calibration, &use, &machine);
    assert_int_equal(machine.core_count, 8);
    assert_int_equal(machine.turn_ps, 1000 + CALIBRATION_turn_ps);
    assert_int_equal(machine.copy.each_ps, 1000 + CALIBRATION_copy_each_ps);
    assert_int_equal(machine.copy.byte_fs, 1000 + CALIBRATION_copy_near_byte_fs);
    assert_int_equal(machine.far_copy_fs, 4000 / 2); /* a byte is read, and written */
    assert_int_equal(machine.reduce.each_ps, 1000 + CALIBRATION_reduce_float16_each_ps);
    assert_int_equal(machine.reduce.byte_fs, 1000 + CALIBRATION_reduce_float16_near_byte_fs);
    assert_int_equal(machine.more_byte_fs, (1000 + CALIBRATION_reduce_float16_near_byte_fs) / 3);
    assert_int_equal(machine.far_reduce_fs, 6000 / 3);
    assert_int_equal(machine.memory_byte_fs, 1000 + CALIBRATION_memory_byte_fs);
    assert_int_equal(machine.latency_ps[MODEL_SAME_HOST], 1000 + CALIBRATION_latency_near_ps);
    assert_int_equal(machine.retake_byte_fs, 1000 + CALIBRATION_retake_near_byte_fs);
    assert_int_equal(machine.latency_ps[MODEL_SAME_RACK], 1000 + CALIBRATION_latency_rack_ps);
    assert_int_equal(machine.latency_ps[MODEL_OTHER_RACK], 1000 + CALIBRATION_latency_cluster_ps);
    assert_int_equal(machine.card.message.each_ps, 1000 + CALIBRATION_card_message_ps);
    assert_int_equal(machine.card.queue_bytes, 1000 + CALIBRATION_card_queue_bytes);
    assert_int_equal(machine.uplink.message.byte_fs, 1000 + CALIBRATION_uplink_byte_fs);
    assert_int_equal(machine.uplink.burst_bytes, 1000 + CALIBRATION_uplink_burst_bytes);
    assert_int_equal(machine.uplink.again_permille, 1000 + CALIBRATION_uplink_again_permille);
    const struct path_row *slot = path_row_of(machine.within, PATH_SLOT);
    assert_int_equal(slot->cost.sender_ps_a_byte, 1);
    assert_int_equal(slot->cost.receiver_ps_a_byte, 2);
    assert_null(machine.between);

    machine.rank_count = 5; /* three ranks on a host: more than a cache has cores */
    use.is_far = false;
    use.dtype = TUTTI_INT8;
    calibration_apply(&calibration, &use, &machine);
    assert_int_equal(machine.latency_ps[MODEL_SAME_HOST], 1000 + CALIBRATION_latency_far_ps);
    assert_int_equal(machine.retake_byte_fs, 1000 + CALIBRATION_retake_far_byte_fs);
    assert_int_equal(machine.reduce.byte_fs, 1000 + CALIBRATION_reduce_plain_near_byte_fs);
    assert_int_equal(machine.far_copy_fs, 0);
    assert_int_equal(machine.far_reduce_fs, 0);
    assert_int_equal(machine.memory_byte_fs, 0);
}

static struct path_cost cost_of_slot(const struct calibration *calibration)
{
    struct calibration_tables memory;
    struct model_machine machine = {.rank_count = 2, .host_count = 1};
    const struct calibration_use use = {
        .dtype = TUTTI_FLOAT32, .within = local_paths(false), .tables = &memory};
    calibration_apply(calibration, &use, &machine);
    return path_row_of(machine.within, PATH_SLOT)->cost;
}

/* Paths that nobody measured cost as much more than their rows say as copies do. */
static void paths_are_slow_where_copies_are(void **state)
{
    (void)state;
    struct calibration calibration = shipped();
    struct calibration_number *const copy = &calibration.numbers[CALIBRATION_copy_near_byte_fs];
    struct calibration_path *const slot = &calibration.paths[CALIBRATION_WITHIN][PATH_SLOT];
    const struct path_cost row = path_row_of(local_paths(false), PATH_SLOT)->cost;
    copy->value *= 2;
    struct path_cost cost = cost_of_slot(&calibration); /* assumed: what a user has set */
    assert_memory_equal(&cost, &row, sizeof cost);
    copy->known = CALIBRATION_MEASURED;
    cost = cost_of_slot(&calibration);
    assert_int_equal(cost.sender_ps, 2 * row.sender_ps);
    assert_int_equal(cost.receiver_ps, 2 * row.receiver_ps);
    assert_int_equal(cost.sender_ps_a_byte, 2 * row.sender_ps_a_byte);
    assert_int_equal(cost.receiver_ps_a_byte, 2 * row.receiver_ps_a_byte);
    slot->known = CALIBRATION_MEASURED;
    cost = cost_of_slot(&calibration);
    assert_memory_equal(&cost, &row, sizeof cost);
    slot->known = CALIBRATION_ASSUMED;
    copy->value /= 4; /* lines need not go from core to core faster */
    cost = cost_of_slot(&calibration);
    assert_memory_equal(&cost, &row, sizeof cost);
    copy->value = CALIBRATION_BYTE_FS_MAX;
    slot->values[CALIBRATION_PATH_sender_ps] = UINT32_MAX;
    assert_int_equal(cost_of_slot(&calibration).sender_ps, UINT32_MAX);
}

static void memory_carries_what_one_core_moves(void **state)
{
    (void)state;
    struct calibration calibration = shipped();
    struct calibration_tables memory;
    struct model_machine machine = {.rank_count = 2, .host_count = 1};
    const struct calibration_use use = {
        .dtype = TUTTI_FLOAT32, .is_far = true, .within = local_paths(false), .tables = &memory};
    calibration.numbers[CALIBRATION_copy_far_byte_fs].value = 60000;
    calibration.numbers[CALIBRATION_memory_byte_fs].value = 29999;
    calibration_apply(&calibration, &use, &machine);
    assert_int_equal(machine.memory_byte_fs, 29999);
    calibration.numbers[CALIBRATION_memory_byte_fs].value = 90000;
    calibration_apply(&calibration, &use, &machine);
    assert_int_equal(machine.memory_byte_fs, 30000); /* it reads each byte, and writes it */
}

static void dtypes_have_classes(void **state)
{
    (void)state;
    assert_int_equal(calibration_class_of(TUTTI_FLOAT64), CALIBRATION_CLASS_PLAIN);
    assert_int_equal(calibration_class_of(TUTTI_UINT8), CALIBRATION_CLASS_PLAIN);
    assert_int_equal(calibration_class_of(TUTTI_FLOAT16), CALIBRATION_CLASS_FLOAT16);
    assert_int_equal(calibration_class_of(TUTTI_BFLOAT16), CALIBRATION_CLASS_FLOAT16);
    assert_int_equal(calibration_class_of(TUTTI_FLOAT8_E4M3), CALIBRATION_CLASS_FLOAT8);
}

static struct calibration_key some_key(void)
{
    struct calibration_key key = {.hardware = {.cpu_model = "EPYC",
                                               .cpu_count = 2,
                                               .cpus_a_cache = 2,
                                               .cache_bytes = {32 << 10, 512 << 10, 32 << 20},
                                               .kernel_release = "6.1.0",
                                               .cards = "eth0"}};
    return key;
}

static void expect_other(struct calibration_key here, const char *words)
{
    char why[CALIBRATION_WHY_SIZE];
    struct calibration calibration = shipped();
    calibration.key = some_key();
    assert_false(calibration_is_for(&calibration, &here, why));
    if (strstr(why, words) == NULL) fail_msg("%s\nand not: %s", why, words);
}

static void another_machine_is_told_apart_with_words(void **state)
{
    (void)state;
    char why[CALIBRATION_WHY_SIZE];
    struct calibration calibration = shipped();
    struct calibration_key here = some_key();
    calibration.key = some_key();
    assert_true(calibration_is_for(&calibration, &here, why));
    assert_string_equal(why, "");
    strcpy(here.hardware.cpu_model, "Xeon");
    expect_other(here, "it was measured with the processor \"EPYC\", and this is \"Xeon\"");
    here.hardware.cpu_count = 4;
    expect_other(here, "\"Xeon\"; it was measured with 2 processors, and here are 4");
    here = some_key();
    here.hardware.cpus_a_cache = 1;
    expect_other(here, "2 processors around a cache, and here are 1");
    here = some_key();
    here.hardware.cache_bytes[1] = 1 << 20;
    expect_other(here, "524288 bytes of cache on level 2, and here are 1048576");
    here = some_key();
    strcpy(here.hardware.kernel_release, "6.2.0");
    expect_other(here, "the kernel \"6.1.0\", and this is \"6.2.0\"");
    here = some_key();
    strcpy(here.hardware.cards, "eth0, eth1");
    expect_other(here, "the network cards \"eth0\"");
}

/* All properties of a host differ: the text ends where the room does. */
static void words_about_another_machine_have_a_bound(void **state)
{
    (void)state;
    struct calibration_key here = {.host_count = 0};
    struct calibration calibration = shipped();
    char why[CALIBRATION_WHY_SIZE + 1];
    calibration.key = some_key();
    memset(here.hardware.cpu_model, 'x', sizeof here.hardware.cpu_model - 1);
    memset(here.hardware.cards, 'x', sizeof here.hardware.cards - 1);
    memset(calibration.key.hardware.cards, 'y', sizeof here.hardware.cards - 1);
    why[CALIBRATION_WHY_SIZE] = '!';
    assert_false(calibration_is_for(&calibration, &here, why));
    assert_int_equal(why[CALIBRATION_WHY_SIZE], '!');
    assert_true(strlen(why) < CALIBRATION_WHY_SIZE);
}

static void ranks_count_if_hosts_were_measured(void **state)
{
    (void)state;
    char why[CALIBRATION_WHY_SIZE];
    struct calibration calibration = shipped();
    struct calibration_key here = some_key();
    calibration.key = some_key();
    here.host_count = 4, here.rank_count = 8;
    assert_true(calibration_is_for(&calibration, &here, why));
    calibration.key.host_count = 4, calibration.key.rank_count = 16;
    assert_false(calibration_is_for(&calibration, &here, why));
    assert_string_equal(why, "it was measured with 16 ranks, and here are 8");
}

static void expect_another(const struct calibration *one, const struct calibration *other)
{
    assert_int_not_equal(calibration_fingerprint(one), calibration_fingerprint(other));
}

/* Each number counts alone. Whether it was measured or assumed does not. */
static void every_number_counts(void **state)
{
    (void)state;
    const struct calibration root = shipped();
    struct calibration other = shipped();
    for (unsigned i = 0; i < CALIBRATION_PARAMETERS; i++, other = root) {
        other.numbers[i].value++;
        expect_another(&root, &other);
    }
    for (unsigned table = 0; table < CALIBRATION_TABLES; table++)
        for (unsigned path = 0; path < PATH_KIND_COUNT; path++)
            for (unsigned i = 0; i < CALIBRATION_PATH_VALUES; i++, other = root) {
                other.paths[table][path].values[i]++;
                expect_another(&root, &other);
            }
    other.key.hardware.cpu_count++;
    expect_another(&root, &other);
    other = root;
    /* How paths are known counts, where that changes what they cost. */
    other.numbers[CALIBRATION_copy_near_byte_fs].value *= 2;
    other.numbers[CALIBRATION_copy_near_byte_fs].known = CALIBRATION_MEASURED;
    const struct calibration slow = other;
    other.paths[CALIBRATION_WITHIN][PATH_SLOT].known = CALIBRATION_MEASURED;
    expect_another(&slow, &other);
    other = root;
    other.numbers[0].known = CALIBRATION_MEASURED;
    other.numbers[0].spread_permille = 7;
    assert_int_equal(calibration_fingerprint(&root), calibration_fingerprint(&other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_values_are_assumed_and_within_bounds),
        cmocka_unit_test(shipped_paths_cost_what_the_tables_say),
        cmocka_unit_test(another_transport_keeps_its_costs),
        cmocka_unit_test(a_machine_gets_every_number),
        cmocka_unit_test(paths_are_slow_where_copies_are),
        cmocka_unit_test(memory_carries_what_one_core_moves),
        cmocka_unit_test(dtypes_have_classes),
        cmocka_unit_test(another_machine_is_told_apart_with_words),
        cmocka_unit_test(words_about_another_machine_have_a_bound),
        cmocka_unit_test(ranks_count_if_hosts_were_measured),
        cmocka_unit_test(every_number_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
