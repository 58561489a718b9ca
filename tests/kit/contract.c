#include "tests/kit/contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void expect_whole(const char *name, const void *table, size_t bytes)
{
    void *const nothing = NULL;
    assert_non_null(table);
    for (size_t at = 0; at < bytes; at += sizeof nothing)
        if (memcmp((const char *)table + at, &nothing, sizeof nothing) == 0)
            fail_msg("function %zu of %s is missing", at / sizeof nothing, name);
}

/* Each message can take the first of these; without the second, ranks in a ring wait for each
 * other. */
static void expect_paths(const struct transport *transport)
{
    static const enum path_kind needed[] = {PATH_SLOT, PATH_STAGE};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const struct path_table *const table = transport->paths.tables[0];
        bool has_rule = false;
        for (unsigned r = 0; r < table->rule_count; r++)
            has_rule |= table->rules[r].path == needed[i] && table->rules[r].bytes_max == SIZE_MAX;
        if (path_row_of(table, needed[i]) == NULL || !has_rule)
            fail_msg("the paths of %s lack the way %s", table->name, path_kind_name(needed[i]));
    }
}

void contract_expect_whole(const struct transport *transport, const struct link_tx *tx,
                           const struct link_rx *rx)
{
    expect_whole("transport_ops", transport->ops, sizeof *transport->ops);
    expect_whole("sharing_ops", transport->sharing, sizeof *transport->sharing);
    if (transport->ordered != NULL)
        expect_whole("data_order_ops", transport->ordered, sizeof *transport->ordered);
    expect_paths(transport);
    expect_whole("link_tx_ops", tx->ops, sizeof *tx->ops);
    expect_whole("link_rx_ops", rx->ops, sizeof *rx->ops);
}
