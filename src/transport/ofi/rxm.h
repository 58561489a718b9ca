/* rxm.h - the memory of libfabric's provider ofi_rxm over TCP sockets (tcp;ofi_rxm).
 *
 * rxm posts buffers of its own for messages, which all connections of an endpoint share. Unless it
 * is told otherwise it posts 4096 of 16 KiB for each endpoint, allocates 1024 more to send from,
 * and touches all of them: 86 MB for each communicator. Tutti always has receives posted before a
 * peer sends, and long messages do not come by rxm's messages (card/link.h). So it asks for fewer
 * and smaller buffers:
 *
 *     FI_OFI_RXM_BUFFER_SIZE   4224   a message over the card fits, with a piece of 4 KiB
 *     FI_OFI_RXM_MSG_RX_SIZE   1000   posted; when all are full, connections wait
 *     FI_OFI_RXM_MSG_TX_SIZE     16   of this the ring of completions is a multiple: 192 bytes for each, times 256 peers
 *
 * rxm has no other place for these than the environment, where it looks once in a process: when
 * libfabric is first asked what there is. Variables that the user has set remain as they are. If
 * another user of libfabric in this process was first, rxm takes as much as by default.
 *
 * Any thread.
 */
#ifndef TUTTI_TRANSPORT_OFI_RXM_H
#define TUTTI_TRANSPORT_OFI_RXM_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a provider of libfabric, or one that TUTTI_FABRIC names, is ofi_rxm. */
bool ofi_rxm_is(const char *provider, size_t name_bytes);
/* Between these two calls, libfabric finds the values that this module asks for. */
void ofi_rxm_ask(void);
void ofi_rxm_asked(void);

struct ofi_rxm {
    size_t message_bytes;  /* of the longest message that goes without a question */
    size_t endpoint_bytes; /* that it allocates for an endpoint */
};
/* As the environment says now. */
struct ofi_rxm ofi_rxm_sizes(void);

#endif
