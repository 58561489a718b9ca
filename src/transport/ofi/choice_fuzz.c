/* Any text as TUTTI_FABRIC is refused, or the chosen card is there, is up and lacks nothing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ofi/choice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct ofi_offer offers[] = {{"tcp;ofi_rxm", "eth0", NULL, 0, true, 1},
                                          {"verbs;ofi_rxm", "mlx5_0", NULL, 1, true, 2},
                                          {"verbs;ofi_rxm", "mlx5_1", NULL, 0, true, 2},
                                          {"verbs;ofi_rxm", "mlx5_2", NULL, 0, false, 2},
                                          {"verbs", "mlx5_0", "endpoints", 0, true, 3},
                                          {"efa", "rdmap0s31-rdm", NULL, 2, true, 4},
                                          {"shm", "shm", NULL, 2, true, 5}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { COUNT = sizeof offers / sizeof *offers };
    char *const wish = malloc(size + 1);
    if (wish == NULL) return 0;
    if (size > 0) memcpy(wish, data, size);
    wish[size] = '\0';
    char reason[OFI_REASON_MAX] = "";
    const int place = ofi_choose_offer(wish, offers, COUNT, reason);
    if (place < -1 || place >= COUNT) abort();
    if (place >= 0 &&
        (!ofi_wish_is_valid(wish) || offers[place].lacks != NULL || !offers[place].is_up))
        abort();
    if (memchr(reason, '\0', sizeof reason) == NULL || reason[0] == '\0') abort();
    free(wish);
    return 0;
}
