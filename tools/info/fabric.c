#include "fabric.h"

#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "transport/ofi/choice.h"
#include "transport/ofi/library.h"
#include "transport/ofi/offers.h"
#include "tutti/tutti.h"

/* The provider of an offer: the same one, as far as Tutti can or cannot use it. NULL: there is no
 * room for more. */
static struct fabric_provider *find(struct fabric *fabric, const struct ofi_offer *offer,
                                    uint32_t version)
{
    const char *const lacks = offer->lacks != NULL ? offer->lacks : "";
    for (int i = 0; i < fabric->provider_count; i++) {
        struct fabric_provider *const provider = &fabric->providers[i];
        if (strncmp(provider->name, offer->provider, FABRIC_NAME_SIZE - 1) == 0 &&
            (provider->lacks[0] != '\0') == (lacks[0] != '\0'))
            return provider;
    }
    if (fabric->provider_count == FABRIC_PROVIDERS_MAX) return NULL;
    struct fabric_provider *const made = &fabric->providers[fabric->provider_count++];
    *made =
        (struct fabric_provider){.version = version, .is_automatic = ofi_offer_is_automatic(offer)};
    snprintf(made->name, sizeof made->name, "%s", offer->provider);
    snprintf(made->lacks, sizeof made->lacks, "%s", lacks);
    printable_make(made->name);
    return made;
}

static void add(struct fabric *fabric, const struct ofi_offer *offer, uint32_t version)
{
    struct fabric_provider *const provider = find(fabric, offer, version);
    if (provider == NULL) return;
    const size_t used = strlen(provider->cards);
    const int more = snprintf(provider->cards + used, sizeof provider->cards - used, "%s%.63s%s",
                              used > 0 ? ", " : "", offer->domain, offer->is_up ? "" : " (down)");
    if (more < 0 || used + (size_t)more >= sizeof provider->cards) provider->cards[used] = '\0';
    printable_make(provider->cards);
}

void fabric_ask(void *answer, int question)
{
    struct fabric *const fabric = answer;
    const struct ofi_library *library;
    struct ofi_offers *offers;
    int count;
    (void)question;
    if (ofi_library_load(&library) != TUTTI_OK) {
        snprintf(fabric->why, sizeof fabric->why, "%.255s", tutti_error_message());
        return;
    }
    fabric->is_there = true;
    fabric->version = library->version();
    if (ofi_offers_find(library, NULL, true, &offers) != TUTTI_OK) {
        snprintf(fabric->why, sizeof fabric->why, "%.255s", tutti_error_message());
        return;
    }
    const struct ofi_offer *const list = ofi_offers_list(offers, &count);
    for (int i = 0; i < count; i++) add(fabric, &list[i], ofi_offers_version(offers, i));
}
