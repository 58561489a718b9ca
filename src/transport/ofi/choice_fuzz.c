/* Any text as TUTTI_FABRIC is refused, or the chosen cards are there, are up and lack nothing. */
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
    struct ofi_places places;
    ofi_choose_offers(wish, offers, COUNT, 1 + size % 4, &places);
    if (places.count > OFI_CARDS_MAX || (places.count > 0 && !ofi_wish_is_valid(wish))) abort();
    for (unsigned c = 0; c < places.count; c++) {
        const int place = places.places[c];
        if (place < 0 || place >= COUNT || offers[place].lacks != NULL || !offers[place].is_up)
            abort();
    }
    if (memchr(places.reason, '\0', sizeof places.reason) == NULL || places.reason[0] == '\0')
        abort();
    free(wish);
    return 0;
}
