/* offers.h - what libfabric offers on this host: one entry for each provider and card, and what
 * each entry lacks.
 *
 *  1. Two calls of fi_getinfo at most: one with Tutti's hints for entries that qualify, and one
 *     without hints for the rest.
 *  2. If a card has several addresses, the best one counts: first that of the interface which
 *     Tutti's own TCP would offer to other hosts, then IPv4, then IPv6 beyond the link.
 *
 * Any thread. Blocks as long as providers look for their devices.
 */
#ifndef TUTTI_TRANSPORT_OFI_OFFERS_H
#define TUTTI_TRANSPORT_OFI_OFFERS_H

#include <stdbool.h>

#include "transport/ofi/choice.h"

struct ofi_offers;

/* sys: a folder like /sys; NULL: /sys itself. with_rest: also entries that do not qualify. The
 * caller frees *offers. NO_MEMORY, NO_DESCRIPTORS, or UNSUPPORTED with libfabric's error; an empty
 * list is no failure. */
enum tutti_status ofi_offers_find(const struct ofi_library *library, const char *sys,
                                  bool with_rest, struct ofi_offers **offers);
void ofi_offers_free(struct ofi_offers *offers); /* or NULL */
/* Entries that qualify come first, in libfabric's order, the rest behind them. Texts and list live
 * as long as *offers. */
const struct ofi_offer *ofi_offers_list(const struct ofi_offers *offers, int *count);
/* The version of an entry's provider, as libfabric's own: 16 bits for each part. */
uint32_t ofi_offers_version(const struct ofi_offers *offers, int place);
/* A copy for endpoints of an entry that qualifies, which the caller owns; NULL: no memory. */
struct fi_info *ofi_offers_take(const struct ofi_offers *offers, int place);
/* Tries to open the first objects that a program opens: the fabric and the card. *why is empty if
 * that works, and otherwise says why not. */
void ofi_offers_try(const struct ofi_offers *offers, int place, char why[static OFI_REASON_MAX]);

#endif
