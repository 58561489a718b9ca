/* choice.h - which network cards this process uses for remote memory access, and through which
 * provider of libfabric: TUTTI_FABRIC, TUTTI_RAILS, and the cards that are there.
 *
 *     TUTTI_FABRIC      what it means
 *     (unset), auto     the best hardware: verbs, efa, cxi, psm3, psm2, in this order; the card
 *                       nearest to the process's cores. None: TCP as always. libfabric is not even
 *                       loaded where no such card is there (/sys/class/infiniband, cxi, hfi1), so
 *                       that programs start as fast as before
 *     off               none
 *     PROVIDER          that provider ("tcp;ofi_rxm", "verbs;ofi_rxm", "efa"); not there: an
 *                       error
 *     PROVIDER:CARD,... that provider and these cards, up to four, the first one named first
 *                       (card/card_rails.h); not all of them there, or not of one kind: an error
 *     ^NAME,NAME...     as auto, without providers whose name begins so
 *
 * Where no card is named, TUTTI_RAILS says how many cards of the kind that was chosen may be used:
 * the best one as the first, then others, the nearer ones first. Only hardware counts: an interface
 * below a provider over sockets may lead nowhere, so it is used only where it is the first or
 * named. Several ranks of a communicator on one host share the cards evenly (ofi_card_share).
 *
 * Tutti needs these of a provider: FI_EP_RDM endpoints, messages, and remote writes (FI_MSG,
 * FI_RMA, FI_WRITE, FI_REMOTE_WRITE). It copes with FI_MR_LOCAL, VIRT_ADDR, ALLOCATED, PROV_KEY and
 * ENDPOINT, and with FI_CONTEXT. If a provider lacks something, one line of the log names it, and
 * the next provider is taken.
 */
#ifndef TUTTI_TRANSPORT_OFI_CHOICE_H
#define TUTTI_TRANSPORT_OFI_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/card/card_rails.h"
#include "transport/ofi/library.h"
#include "tutti/tutti.h"

enum { OFI_NAME_MAX = 64, OFI_REASON_MAX = 256, OFI_CARDS_MAX = CARD_RAILS_MAX };

struct ofi_card {
    const struct fi_info *info; /* for endpoints; lives as long as the process */
    char domain[OFI_NAME_MAX];
    int place; /* among what libfabric offers */
};

struct ofi_choice {
    const struct ofi_library *library; /* NULL: no card is used */
    char provider[OFI_NAME_MAX];
    struct ofi_card cards[OFI_CARDS_MAX]; /* that may be used, the best one first */
    unsigned card_count;
    unsigned host_card_count; /* of this kind on this host; 0: TUTTI_FABRIC names those to be used */
    bool is_software;         /* the host's cores do the work */
    size_t message_bytes;     /* of the longest message that the provider sends at once; 0: any */
    size_t endpoint_bytes;    /* of memory that libfabric allocates for an endpoint; 0: not known */
    char reason[OFI_REASON_MAX]; /* why this one, or why none */
    /* The same, and not 0, on ranks whose cards can reach each other; 0: no card is used. Computed
     * from the provider's name, protocol and messages, not from the card. */
    uint32_t fingerprint;
};

/* The choice of this process, made once, with a line in the log (info). INVALID_OPTIONS:
 * TUTTI_FABRIC makes no sense; UNSUPPORTED: the provider or card that it names is not there.
 * NO_MEMORY, NO_DESCRIPTORS: there is too little of that to look for cards, whether one is named or
 * not; the next call tries again. Any thread. */
enum tutti_status ofi_choose(const struct ofi_choice **choice);

/* The parts of the choice, for tests and for tutti-topo. */

/* One entry of what libfabric offers. */
struct ofi_offer {
    const char *provider, *domain;
    const char *lacks; /* a need of Tutti's that it lacks; NULL: it lacks nothing */
    /* From this process's cores to the card: 0 the same NUMA node, 1 another one, 2 not known. For
     * a provider over sockets: 0 the interface that Tutti's own TCP would offer to other hosts, 1
     * another one. */
    int distance;
    bool is_up;           /* the port of the card is active */
    uint32_t fingerprint; /* as in struct ofi_choice */
};
/* The indices of the offers to take, the best one first. */
struct ofi_places {
    unsigned count; /* 0: none */
    int places[OFI_CARDS_MAX];
    unsigned host_card_count; /* as in struct ofi_choice */
    char reason[OFI_REASON_MAX];
};
/* wish: a value of TUTTI_FABRIC that has been checked; NULL or "": auto. card_max: from
 * TUTTI_RAILS, 1 or more; it does not count if the wish names cards. */
void ofi_choose_offers(const char *wish, const struct ofi_offer *offers, int count,
                       unsigned card_max, struct ofi_places *places);
/* Whether it is taken without being named: hardware, and nothing is lacking. */
bool ofi_offer_is_automatic(const struct ofi_offer *offer);
/* The option that asks for protection of data which cards do not give, by which TCP carries it;
 * *option is NULL: none does. INVALID_OPTIONS. */
enum tutti_status ofi_find_protection(const char **option);
/* The cards that a rank uses, if this host has so many ranks, by their numbers in choice->cards:
 * all cards that are named; or as many as there are for each rank, but at least a single card.
 * Several cards come in libfabric's order, so that hosts of the same make agree on it, whichever
 * card is nearest to a rank. Returns their number. */
unsigned ofi_card_share(const struct ofi_choice *choice, unsigned rank_count,
                        unsigned numbers[OFI_CARDS_MAX]);
/* Writes the names of the cards with commas between them. */
void ofi_name_cards(const struct ofi_choice *choice, char names[OFI_REASON_MAX]);
/* Whether the text is a value of TUTTI_FABRIC. Names have no spaces, and fewer than OFI_NAME_MAX
 * bytes. */
bool ofi_wish_is_valid(const char *wish);
/* Whether this machine has a card for which libfabric is worth loading. root: a folder like /sys;
 * NULL: /sys itself. */
bool ofi_hardware_is_there(const char *root);
/* Like ofi_choose, but chooses anew at each call, and without a line in the log. sys: a folder like
 * /sys; NULL: /sys itself. The caller releases *choice, also after a failure. */
enum tutti_status ofi_choose_anew(const char *wish, const char *sys, struct ofi_choice *choice);
void ofi_choice_release(struct ofi_choice *choice);

#endif
