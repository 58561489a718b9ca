/* The smallest links keep the contract.
 *
 * ctest: label=notsan */
#include "tests/worlds/toy_links.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/kit/contract.h"

static void no_function_and_no_way_is_missing(void **state)
{
    const struct remote_options options = {.size = 2};
    struct transport *toy;
    struct link_tx *tx;
    struct link_rx *rx;
    (void)state;
    assert_int_equal(toy_remote_kind.open(&options, NULL, &toy), TUTTI_OK);
    assert_int_equal(toy->ops->open_tx(toy, 0, 0, 1, 8, &tx), TUTTI_OK);
    assert_int_equal(toy->ops->open_rx(toy, 0, 0, 1, &rx), TUTTI_OK);
    contract_expect_whole(toy, tx, rx);
    toy_remote_kind.close(toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_function_and_no_way_is_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
