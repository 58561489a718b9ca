/* Samples are what data.h says: each once in an epoch, never what is held out, the same for
 * everybody who asks.
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "counter.h"
#include "data.h"
#include "give_up.h"

enum { CONTEXT = 10, STRETCHES = 7, STRETCH = 20 * CONTEXT, TOKENS = STRETCHES * STRETCH + 1 };
enum { SAMPLES = 18 * STRETCHES }; /* of an epoch */

static void permutations_have_all_numbers(void **state)
{
    (void)state;
    for (uint64_t count = 1; count < 300; count++) {
        unsigned char seen[300] = {0};
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t place = counter_permuted(count, count, i);
            assert_true(place < count);
            assert_int_equal(seen[place]++, 0);
        }
    }
    size_t fixed = 0;
    for (uint64_t i = 0; i < 10000; i++) fixed += counter_permuted(1, 10000, i) == i;
    assert_true(fixed < 10); /* one, in the mean */
}

static void normal_numbers_are_normal(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    double sum = 0, squares = 0, fourths = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        const double x = counter_normal(11, i);
        sum += x;
        squares += x * x;
        fourths += x * x * x * x;
    }
    assert_true(fabs(sum / COUNT) < 0.02);
    assert_true(fabs(squares / COUNT - 1) < 0.03);
    assert_true(fabs(fourths / COUNT - 3) < 0.2);
}

/* Its tokens say where they stand. */
static struct data make_data(uint64_t seed)
{
    unsigned char bytes[TOKENS];
    struct data data;
    for (size_t i = 0; i < TOKENS; i++) bytes[i] = (unsigned char)i;
    struct tokenizer *tokenizer = tokenizer_train(bytes, TOKENS, 256);
    data_init(&data, tokenizer, bytes, TOKENS, CONTEXT, seed);
    for (uint32_t i = 0; i < TOKENS; i++) data.tokens[i] = i;
    tokenizer_free(tokenizer);
    return data;
}

static uint32_t expect_sample(const uint32_t *inputs, const uint32_t *targets)
{
    for (uint32_t i = 0; i < CONTEXT; i++) {
        assert_int_equal(inputs[i], inputs[0] + i);
        assert_int_equal(targets[i], inputs[0] + i + 1);
    }
    return inputs[0];
}

static void an_epoch_has_every_sample_once(void **state)
{
    (void)state;
    struct data data = make_data(1);
    uint32_t inputs[CONTEXT], targets[CONTEXT], before[SAMPLES];
    assert_int_equal(data.stretches, STRETCHES);
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        unsigned char seen[TOKENS] = {0};
        size_t same = 0, in_order = 0;
        for (uint64_t i = 0; i < SAMPLES; i++) {
            data_sample(&data, epoch * SAMPLES + i, inputs, targets);
            const uint32_t first = expect_sample(inputs, targets);
            for (uint32_t t = 0; t < CONTEXT; t++) {
                assert_int_equal(seen[first + t]++, 0);
                assert_true((first + t) % STRETCH < STRETCH - CONTEXT);
            }
            same += epoch > 0 && before[i] == first;
            in_order += i > 0 && first == before[i - 1] + CONTEXT;
            before[i] = first;
        }
        assert_true(same < SAMPLES / 4 && in_order < SAMPLES / 4);
    }
    data_release(&data);
}

static void held_out_samples_are_the_rest(void **state)
{
    (void)state;
    struct data data = make_data(1);
    uint32_t inputs[CONTEXT], targets[CONTEXT];
    assert_int_equal(data_held_out_count(&data), STRETCHES);
    for (size_t i = 0; i < STRETCHES; i++) {
        data_held_out(&data, i, inputs, targets);
        assert_int_equal(expect_sample(inputs, targets), (i + 1) * STRETCH - CONTEXT);
    }
    data_release(&data);
}

static void the_seed_decides_the_order(void **state)
{
    (void)state;
    struct data data[3] = {make_data(1), make_data(1), make_data(2)};
    uint32_t inputs[3][CONTEXT], targets[CONTEXT];
    size_t same = 0;
    for (uint64_t number = 500; number < 600; number++) {
        for (int i = 0; i < 3; i++) data_sample(&data[i], number, inputs[i], targets);
        assert_memory_equal(inputs[0], inputs[1], sizeof inputs[0]);
        same += inputs[0][0] == inputs[2][0];
    }
    assert_true(same < 10);
    for (int i = 0; i < 3; i++) data_release(&data[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutations_have_all_numbers),
        cmocka_unit_test(normal_numbers_are_normal),
        cmocka_unit_test(an_epoch_has_every_sample_once),
        cmocka_unit_test(held_out_samples_are_the_rest),
        cmocka_unit_test(the_seed_decides_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
