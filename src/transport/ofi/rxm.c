#include "transport/ofi/rxm.h"

#include <stdlib.h>
#include <string.h>

#include "os/lent_variables.h"

static const char *const asked_for[] = {"FI_OFI_RXM_BUFFER_SIZE=4224",
                                        "FI_OFI_RXM_MSG_RX_SIZE=1000", "FI_OFI_RXM_MSG_TX_SIZE=16"};
enum { ASKED_COUNT = sizeof asked_for / sizeof *asked_for };

/* The values of libfabric, 1.15 to 2.3 alike, if nothing else is asked for, and its path to
 * allocate. */
enum {
    BUFFER_BYTES = 16384,
    RECEIVES = 4096,
    SENDS = 128,
    CHUNK = 1024,     /* buffers that are allocated at a time */
    HEAD_BYTES = 384, /* of a buffer */
    PEERS = 256,      /* for which there are completions */
    COMPLETION_BYTES = 192,
    OTHER_BYTES = 2 << 20, /* queues of receives, transfers of sockets */
    BYTES_MAX = 1 << 26
};

bool ofi_rxm_is(const char *provider, size_t name_bytes)
{
    static const char *const names[] = {"tcp", "tcp;ofi_rxm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == name_bytes && memcmp(names[i], provider, name_bytes) == 0)
            return true;
    return false;
}

void ofi_rxm_ask(void)
{
    (void)lent_variables_put(asked_for, ASKED_COUNT); /* else it takes more memory */
}

void ofi_rxm_asked(void)
{
    lent_variables_take_back(asked_for, ASKED_COUNT);
}

static size_t value_of(const char *name, size_t otherwise)
{
    const char *const text = getenv(name);
    if (text == NULL) return otherwise;
    const unsigned long long value = strtoull(text, NULL, 0);
    return value == 0 ? otherwise : value < BYTES_MAX ? (size_t)value : BYTES_MAX;
}

static size_t round_up(size_t count, size_t unit)
{
    return (count + unit - 1) / unit * unit;
}

struct ofi_rxm ofi_rxm_sizes(void)
{
    const size_t buffer_bytes = value_of("FI_OFI_RXM_BUFFER_SIZE", BUFFER_BYTES),
                 receives = value_of("FI_OFI_RXM_MSG_RX_SIZE", RECEIVES),
                 sends = value_of("FI_OFI_RXM_MSG_TX_SIZE", SENDS);
    size_t completions = 1;
    while (completions < receives + sends * PEERS) completions *= 2;
    return (struct ofi_rxm){.message_bytes = buffer_bytes,
                            .endpoint_bytes =
                                (round_up(receives, CHUNK) + CHUNK) * (buffer_bytes + HEAD_BYTES) +
                                completions * COMPLETION_BYTES + OTHER_BYTES};
}
