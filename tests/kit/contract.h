/* contract.h - what every transport owes to transport.h, whatever it carries bytes with. Assertions
 * are cmocka's. */
#ifndef TUTTI_TESTS_KIT_CONTRACT_H
#define TUTTI_TESTS_KIT_CONTRACT_H

#include "transport/transport.h"

/* No function is missing, neither of the transport nor of these links. */
void contract_expect_whole(const struct transport *transport, const struct link_tx *tx,
                           const struct link_rx *rx);

#endif
