#include "contract.h"

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

void contract_expect_whole(const struct transport *transport, const struct link_tx *tx,
                           const struct link_rx *rx)
{
    expect_whole("transport_ops", transport->ops, sizeof *transport->ops);
    expect_whole("peer_ops", transport->peers, sizeof *transport->peers);
    expect_whole("link_tx_ops", tx->ops, sizeof *tx->ops);
    expect_whole("link_rx_ops", rx->ops, sizeof *rx->ops);
}
