/* Each sample of an epoch is taken once, however many ranks there are, in another order each epoch.
 *
 * ctest: label=notsan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elastic_data.h"

static void a_permutation_has_each_number_once(void **state)
{
    (void)state;
    for (uint64_t count = 1; count < 300; count += count < 20 ? 1 : 31) {
        unsigned char seen[300] = {0};
        for (uint64_t place = 0; place < count; place++) {
            const uint64_t at = elastic_permute(place, count, 7, count % 3);
            assert_true(at < count);
            assert_int_equal(seen[at]++, 0);
        }
    }
    assert_true(elastic_permute(0, UINT64_MAX, 1, 0) < UINT64_MAX);
}

static void epochs_and_seeds_have_orders_of_their_own(void **state)
{
    enum { COUNT = 1000 };
    int same_epoch = 0, same_seed = 0, fixed = 0;
    (void)state;
    for (uint64_t place = 0; place < COUNT; place++) {
        const uint64_t at = elastic_permute(place, COUNT, 1, 0);
        same_epoch += at == elastic_permute(place, COUNT, 1, 1);
        same_seed += at == elastic_permute(place, COUNT, 2, 0);
        fixed += at == place;
    }
    /* One is expected of each. */
    assert_true(same_epoch < 12 && same_seed < 12 && fixed < 12);
}

/* Ranks come and go in the middle of an epoch. */
static void ranks_divide_each_batch_and_batches_an_epoch(void **state)
{
    enum { SAMPLES = 1003, BATCH = 64 };
    unsigned char seen[SAMPLES] = {0};
    uint64_t position = 0;
    (void)state;
    for (int step = 0; position < SAMPLES; step++) {
        const uint64_t batch = elastic_batch(position, BATCH, SAMPLES);
        const int size = 1 + step % 7;
        assert_true(batch == BATCH || position + batch == SAMPLES);
        for (int rank = 0; rank < size; rank++) {
            const uint64_t end = elastic_batch_first(batch, rank + 1, size);
            for (uint64_t i = elastic_batch_first(batch, rank, size); i < end; i++)
                assert_int_equal(seen[position + i]++, 0);
        }
        position += batch;
    }
    assert_null(memchr(seen, 0, sizeof seen));
    assert_int_equal(elastic_batch(UINT64_MAX - 1, BATCH, 0), BATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_permutation_has_each_number_once),
        cmocka_unit_test(epochs_and_seeds_have_orders_of_their_own),
        cmocka_unit_test(ranks_divide_each_batch_and_batches_an_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
