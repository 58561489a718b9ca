#include "transport/ofi/choice.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "os/clock.h"
#include "os/turn.h"
#include "transport/ofi/offers.h"
#include "transport/ofi/rxm.h"
#include "transport/ofi/shortage.h"

/* ------------------------------------------------------------------------------------- the wish */

struct wish {
    bool is_off;
    const char *excluded; /* prefixes of names, separated by commas; NULL: none */
    const char *provider; /* of that many bytes, and the whole domain behind it; NULL: any */
    int provider_bytes;
    const char *domains; /* separated by commas; NULL: any */
    const char *domain;  /* the current item of these, with its length; NULL: any */
    int domain_bytes;
};

enum { MISTAKE_MAX = 160 };

/* Whether the number-th item of a list has a name; if not, writes the mistake. */
static bool is_name(const char *what, int number, const char *text, size_t bytes,
                    char mistake[MISTAKE_MAX])
{
    const char *wrong = bytes == 0 ? "is empty" : bytes >= OFI_NAME_MAX ? "is too long" : NULL;
    for (size_t i = 0; i < bytes; i++)
        if (text[i] <= ' ' || text[i] > '~') wrong = "has a space, or a character beyond ASCII";
    if (wrong != NULL) snprintf(mistake, MISTAKE_MAX, "the name of %s %d %s", what, number, wrong);
    return wrong == NULL;
}

/* Goes to the next of the cards that are named; false: there is none. */
static bool next_domain(struct wish *wish)
{
    const char *next = wish->domain == NULL ? wish->domains : wish->domain + wish->domain_bytes;
    if (next == NULL || *next == '\0') return false;
    if (wish->domain != NULL) next++;
    wish->domain = next;
    wish->domain_bytes = (int)strcspn(next, ",");
    return true;
}

/* Whether a card that is named before this one has the same name. */
static bool is_named_before(const struct wish *wish)
{
    struct wish before = *wish;
    for (before.domain = NULL; next_domain(&before) && before.domain != wish->domain;)
        if (before.domain_bytes == wish->domain_bytes &&
            memcmp(before.domain, wish->domain, (size_t)wish->domain_bytes) == 0)
            return true;
    return false;
}

static bool domains_make_sense(struct wish wish, char mistake[MISTAKE_MAX])
{
    int count = 0;
    if (wish.domains == NULL) return true;
    while (next_domain(&wish)) {
        if (!is_name("card", ++count, wish.domain, (size_t)wish.domain_bytes, mistake))
            return false;
        if (is_named_before(&wish)) {
            snprintf(mistake, MISTAKE_MAX, "card %d, %.*s, is named before", count,
                     wish.domain_bytes, wish.domain);
            return false;
        }
    }
    if (count > OFI_CARDS_MAX)
        snprintf(mistake, MISTAKE_MAX, "%d cards are named, and at most %d may be", count,
                 OFI_CARDS_MAX);
    return count > 0 ? count <= OFI_CARDS_MAX : is_name("card", 1, "", 0, mistake);
}

static bool exclusions_make_sense(const char *text, char mistake[MISTAKE_MAX])
{
    for (int number = 1;; number++) {
        const size_t bytes = strcspn(text, ",");
        if (!is_name("provider", number, text, bytes, mistake)) return false;
        text += bytes;
        if (*text++ == '\0') return true;
    }
}

/* False: the wish makes no sense, and the mistake is written. */
static bool parse_wish(const char *text, struct wish *wish, char mistake[MISTAKE_MAX])
{
    *wish = (struct wish){0};
    if (text == NULL || *text == '\0' || strcmp(text, "auto") == 0) return true;
    wish->is_off = strcmp(text, "off") == 0;
    if (wish->is_off) return true;
    if (*text == '^') {
        wish->excluded = text + 1;
        return exclusions_make_sense(wish->excluded, mistake);
    }
    const size_t bytes = strcspn(text, ":");
    wish->provider = text;
    wish->provider_bytes = (int)bytes;
    if (text[bytes] == ':') wish->domains = text + bytes + 1;
    if (memchr(text, ',', bytes) != NULL) {
        snprintf(mistake, MISTAKE_MAX, "only one provider may be named");
        return false;
    }
    return is_name("provider", 1, text, bytes, mistake) && domains_make_sense(*wish, mistake);
}

static enum tutti_status refuse_wish(const char *text, const char *mistake)
{
    char needed[ERROR_TEXT_MAX];
    const enum tutti_status status = option_refuse(OPTION_FABRIC, text);
    error_copy(needed, sizeof needed);
    return error_set(status, "%.300s; here %s", needed, mistake);
}

bool ofi_wish_is_valid(const char *text)
{
    struct wish wish;
    char mistake[MISTAKE_MAX];
    return parse_wish(text, &wish, mistake);
}

static bool is_excluded(const struct wish *wish, const char *provider)
{
    for (const char *name = wish->excluded; name != NULL && *name != '\0';) {
        const size_t bytes = strcspn(name, ",");
        if (strncmp(provider, name, bytes) == 0) return true;
        name += bytes;
        name += *name == ',';
    }
    return false;
}

/* ----------------------------------------------------------------------------------- the choice */

/* Providers that are taken without being named, the best first. A card of Omni-Path has verbs, too,
 * but they are slow. */
static const struct {
    const char *provider, *card; /* how its name begins, or with ! does not begin */
} hardware[] = {{"verbs;ofi_rxm", "!hfi1"}, {"efa", ""}, {"cxi", ""}, {"psm3", ""}, {"psm2", ""},
                {"verbs;ofi_rxm", ""}};

/* Whether the provider drives hardware, whatever it is layered with. */
static bool is_hardware(const char *provider)
{
    const size_t bytes = strcspn(provider, ";");
    for (int i = 0; i < (int)(sizeof hardware / sizeof *hardware); i++)
        if (strcspn(hardware[i].provider, ";") == bytes &&
            strncmp(provider, hardware[i].provider, bytes) == 0)
            return true;
    return false;
}

static int rank_of_hardware(const struct ofi_offer *offer)
{
    for (int i = 0; i < (int)(sizeof hardware / sizeof *hardware); i++) {
        const char *const card = hardware[i].card;
        const bool fits = card[0] == '!' ? strncmp(offer->domain, card + 1, strlen(card + 1)) != 0
                                         : strncmp(offer->domain, card, strlen(card)) == 0;
        if (strcmp(offer->provider, hardware[i].provider) == 0 && fits) return i;
    }
    return -1;
}

/* 0: the whole name; 1 and 2: the part before ";", as users say it: verbs for verbs;ofi_rxm, or
 * else verbs;ofi_rxd; -1: another one. */
static int rank_of_named(const struct wish *wish, const struct ofi_offer *offer)
{
    const size_t bytes = (size_t)wish->provider_bytes;
    if (strncmp(offer->provider, wish->provider, bytes) != 0) return -1;
    if (offer->provider[bytes] == '\0') return 0;
    if (strcmp(offer->provider + bytes, ";ofi_rxm") == 0) return 1;
    return offer->provider[bytes] == ';' ? 2 : -1;
}

/* The place of an offer in the order of preference: the lower, the better; -1: not wanted at
 * all. */
static int rank_of(const struct wish *wish, const struct ofi_offer *offer)
{
    if (wish->provider != NULL) return rank_of_named(wish, offer);
    return is_excluded(wish, offer->provider) ? -1 : rank_of_hardware(offer);
}

static bool is_card_wanted(const struct wish *wish, const struct ofi_offer *offer)
{
    const size_t bytes = (size_t)wish->domain_bytes;
    return wish->domain == NULL ||
           (strncmp(offer->domain, wish->domain, bytes) == 0 && offer->domain[bytes] == '\0');
}

static bool is_taken(const struct ofi_places *taken, int place)
{
    for (unsigned i = 0; i < taken->count; i++)
        if (taken->places[i] == place) return true;
    return false;
}

static bool is_usable(const struct wish *wish, const struct ofi_offer *offer)
{
    return offer->lacks == NULL && offer->is_up && is_card_wanted(wish, offer);
}

/* Whether two cards can be used beside each other. */
static bool is_of_kind(const struct ofi_offer *offer, const struct ofi_offer *first)
{
    return offer->fingerprint == first->fingerprint && strcmp(offer->provider, first->provider) == 0;
}

/* The best offer that is not taken, of the same kind as the taken offers; -1: none. */
static int best_of(const struct wish *wish, const struct ofi_offer *offers, int count,
                   const struct ofi_places *taken)
{
    int best = -1, best_rank = 0;
    for (int i = 0; i < count; i++) {
        const int rank = rank_of(wish, &offers[i]);
        if (rank < 0 || !is_usable(wish, &offers[i]) || is_taken(taken, i) ||
            (taken->count > 0 && !is_of_kind(&offers[i], &offers[taken->places[0]])))
            continue;
        if (best < 0 || rank < best_rank ||
            (rank == best_rank && offers[i].distance < offers[best].distance)) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}

struct text {
    char *bytes;
    size_t used;
};

static void say(struct text *text, const char *separator, const char *words)
{
    const size_t room = OFI_REASON_MAX - text->used;
    const int more = snprintf(text->bytes + text->used, room, "%s%s", separator, words);
    text->used = more < 0 || (size_t)more >= room ? OFI_REASON_MAX - 1 : text->used + (size_t)more;
}

/* Writes why the offers that come nearest to the wish are not taken. */
static void explain_none(const struct wish *wish, const struct ofi_offer *offers, int count,
                         char reason[OFI_REASON_MAX])
{
    struct text cards = {(char[OFI_REASON_MAX]){""}, 0}, providers = {(char[OFI_REASON_MAX]){""}, 0};
    for (int i = 0; i < count; i++) {
        const struct ofi_offer *const offer = &offers[i];
        const bool is_wanted = rank_of(wish, offer) >= 0;
        if (is_wanted && is_card_wanted(wish, offer)) {
            if (offer->lacks != NULL)
                snprintf(reason, OFI_REASON_MAX, "%.64s lacks %.160s", offer->provider,
                         offer->lacks);
            else
                snprintf(reason, OFI_REASON_MAX, "the port of %.64s is down", offer->domain);
            return;
        }
        if (is_wanted && offer->lacks == NULL)
            say(&cards, cards.used > 0 ? ", " : "", offer->domain);
        if (offer->lacks == NULL && (i == 0 || strcmp(offer->provider, offers[i - 1].provider) != 0))
            say(&providers, providers.used > 0 ? ", " : "", offer->provider);
    }
    if (cards.used > 0)
        snprintf(reason, OFI_REASON_MAX, "no card %.*s; with this provider there are: %.150s",
                 wish->domain_bytes, wish->domain, cards.bytes);
    else if (wish->provider != NULL)
        snprintf(reason, OFI_REASON_MAX,
                 "libfabric offers no provider %.*s here; there are: %.150s", wish->provider_bytes,
                 wish->provider, providers.used > 0 ? providers.bytes : "none");
    else
        snprintf(reason, OFI_REASON_MAX, "libfabric offers no RDMA card%s",
                 wish->excluded != NULL ? " beside those that are ruled out" : "");
}

/* Takes all cards that are named, or none. */
static void choose_named(struct wish *wish, const struct ofi_offer *offers, int count,
                         struct ofi_places *places)
{
    while (next_domain(wish)) {
        const int place = best_of(wish, offers, count, places);
        if (place >= 0) {
            places->places[places->count++] = place;
            continue;
        }
        const bool is_other_kind =
            places->count > 0 && best_of(wish, offers, count, &(struct ofi_places){0}) >= 0;
        places->count = 0;
        if (is_other_kind)
            snprintf(places->reason, OFI_REASON_MAX, "card %.*s is not of the kind of the first one",
                     wish->domain_bytes, wish->domain);
        else
            explain_none(wish, offers, count, places->reason);
        return;
    }
    snprintf(places->reason, OFI_REASON_MAX, "%s names %s", option_names.FABRIC,
             places->count > 1 ? "them" : "it");
}

/* Takes further cards of the kind of the first card, and counts the cards of that kind. */
static void choose_further(const struct wish *wish, const struct ofi_offer *offers, int count,
                           unsigned card_max, struct ofi_places *places)
{
    const struct ofi_offer *const first = &offers[places->places[0]];
    const bool is_over_sockets = !is_hardware(first->provider);
    places->host_card_count = 1;
    if (is_over_sockets) return;
    for (int i = 0; i < count; i++)
        places->host_card_count +=
            i != places->places[0] && is_usable(wish, &offers[i]) && is_of_kind(&offers[i], first);
    while (places->count < card_max && places->count < OFI_CARDS_MAX) {
        const int place = best_of(wish, offers, count, places);
        if (place < 0) return;
        places->places[places->count++] = place;
    }
}

static void choose_unnamed(const struct wish *wish, const struct ofi_offer *offers, int count,
                           unsigned card_max, struct ofi_places *places)
{
    static const char *const nearness[] = {"near these cores", "on another NUMA node",
                                           "NUMA node not known"};
    const int best = best_of(wish, offers, count, places);
    if (best < 0) {
        explain_none(wish, offers, count, places->reason);
        return;
    }
    const int distance = offers[best].distance;
    places->places[places->count++] = best;
    if (wish->provider != NULL)
        snprintf(places->reason, OFI_REASON_MAX, "%s names it", option_names.FABRIC);
    else
        snprintf(places->reason, OFI_REASON_MAX, "%s",
                 nearness[distance >= 0 && distance < 2 ? distance : 2]);
    choose_further(wish, offers, count, card_max, places);
}

void ofi_choose_offers(const char *text, const struct ofi_offer *offers, int count,
                       unsigned card_max, struct ofi_places *places)
{
    struct wish wish;
    char mistake[MISTAKE_MAX];
    *places = (struct ofi_places){0};
    if (!parse_wish(text, &wish, mistake) || wish.is_off)
        snprintf(places->reason, OFI_REASON_MAX, "%s=%s", option_names.FABRIC,
                 wish.is_off ? "off" : "(no sense)");
    else if (wish.domains != NULL)
        choose_named(&wish, offers, count, places);
    else
        choose_unnamed(&wish, offers, count, card_max, places);
}

unsigned ofi_card_share(const struct ofi_choice *choice, unsigned rank_count,
                        unsigned numbers[OFI_CARDS_MAX])
{
    const bool is_named = choice->host_card_count == 0;
    const unsigned for_each = choice->host_card_count / rank_count;
    unsigned count = choice->card_count;
    if (!is_named && count > for_each) count = for_each > 0 ? for_each : 1;
    for (unsigned c = 0; c < count; c++) {
        unsigned at = c;
        for (; !is_named && at > 0; at--) {
            if (choice->cards[numbers[at - 1]].place < choice->cards[c].place) break;
            numbers[at] = numbers[at - 1];
        }
        numbers[at] = c;
    }
    return count;
}

void ofi_name_cards(const struct ofi_choice *choice, char names[OFI_REASON_MAX])
{
    struct text text = {names, 0};
    for (unsigned c = 0; c < choice->card_count; c++)
        say(&text, c > 0 ? ", " : "", choice->cards[c].domain);
}

/* --------------------------------------------------------------------------------- this process */

static bool has_entries(const char *folder)
{
    DIR *const directory = opendir(folder);
    if (directory == NULL) return false;
    const struct dirent *entry;
    do {
        entry = readdir(directory);
    } while (entry != NULL && entry->d_name[0] == '.');
    closedir(directory);
    return entry != NULL;
}

bool ofi_hardware_is_there(const char *root)
{
    static const char *const classes[] = {"infiniband", "cxi", "hfi1"};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        char folder[256];
        const int length = snprintf(folder, sizeof folder, "%s/class/%s",
                                    root != NULL ? root : "/sys", classes[i]);
        if (length < (int)sizeof folder && has_entries(folder)) return true;
    }
    return false;
}

/* Ranks whose messages are not as long do not understand each other. */
static void note_sizes(struct ofi_choice *choice)
{
    if (!ofi_rxm_is(choice->provider, strlen(choice->provider))) return;
    const struct ofi_rxm sizes = ofi_rxm_sizes();
    const uint64_t hash = hash_take(choice->fingerprint, sizes.message_bytes);
    choice->message_bytes = sizes.message_bytes;
    choice->endpoint_bytes = sizes.endpoint_bytes;
    choice->fingerprint = (uint32_t)(hash ^ hash >> 32);
    if (choice->fingerprint == 0) choice->fingerprint = 1;
}

static enum tutti_status take(const struct ofi_library *library, const struct ofi_offers *offers,
                              const struct ofi_places *places, struct ofi_choice *choice)
{
    int count;
    const struct ofi_offer *const list = ofi_offers_list(offers, &count);
    const struct ofi_offer *const offer = &list[places->places[0]];
    choice->library = library;
    for (unsigned c = 0; c < places->count; c++) {
        struct ofi_card *const card = &choice->cards[c];
        card->info = ofi_offers_take(offers, places->places[c]);
        if (card->info == NULL) {
            ofi_choice_release(choice);
            return error_set(TUTTI_NO_MEMORY, "the choice of a network card");
        }
        snprintf(card->domain, sizeof card->domain, "%s", list[places->places[c]].domain);
        card->place = places->places[c];
        choice->card_count = c + 1;
    }
    choice->host_card_count = places->host_card_count;
    snprintf(choice->provider, sizeof choice->provider, "%s", offer->provider);
    choice->is_software = !is_hardware(offer->provider);
    choice->fingerprint = offer->fingerprint;
    note_sizes(choice);
    return TUTTI_OK;
}

static enum tutti_status choose_among(const struct ofi_library *library, const char *wish,
                                      const char *sys, bool with_rest, struct ofi_choice *choice)
{
    struct ofi_offers *offers;
    struct ofi_places places;
    int count, card_max;
    TRY(option_count(OPTION_RAILS, &card_max));
    TRY(ofi_offers_find(library, sys, with_rest, &offers));
    const struct ofi_offer *const list = ofi_offers_list(offers, &count);
    ofi_choose_offers(wish, list, count, (unsigned)card_max, &places);
    memcpy(choice->reason, places.reason, sizeof choice->reason);
    const enum tutti_status status =
        places.count == 0 ? TUTTI_OK : take(library, offers, &places, choice);
    ofi_offers_free(offers);
    return status;
}

/* Every failure sets the error's text. */
static enum tutti_status choose_by(const char *text, const struct wish *wish, const char *sys,
                                   struct ofi_choice *choice)
{
    const struct ofi_library *library;
    TRY(ofi_library_load(&library));
    TRY(choose_among(library, text, sys, false, choice));
    if (choice->library == NULL) TRY(choose_among(library, text, sys, true, choice)); /* why not */
    if (choice->library != NULL) return TUTTI_OK;
    const enum tutti_status status = ofi_refuse(0, "%s", choice->reason);
    return ofi_is_shortage(status) || wish->provider != NULL ? status : TUTTI_OK;
}

enum tutti_status ofi_choose_anew(const char *text, const char *sys, struct ofi_choice *choice)
{
    struct wish wish;
    char mistake[MISTAKE_MAX];
    *choice = (struct ofi_choice){0};
    if (!parse_wish(text, &wish, mistake)) return refuse_wish(text, mistake);
    if (wish.is_off) {
        snprintf(choice->reason, sizeof choice->reason, "%s=off", option_names.FABRIC);
        return TUTTI_OK;
    }
    if (wish.provider == NULL && !ofi_hardware_is_there(sys)) {
        snprintf(choice->reason, sizeof choice->reason, "no RDMA card is in this host");
        return TUTTI_OK;
    }
    char before[ERROR_TEXT_MAX], message[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    const bool is_rxm = wish.provider != NULL && ofi_rxm_is(text, (size_t)wish.provider_bytes);
    if (is_rxm) ofi_rxm_ask();
    const enum tutti_status status = choose_by(text, &wish, sys, choice);
    if (is_rxm) ofi_rxm_asked();
    if (status == TUTTI_OK) return error_unless_ok(TUTTI_OK, before);
    error_copy(message, sizeof message);
    snprintf(choice->reason, sizeof choice->reason, "%.255s", message);
    if (wish.provider != NULL)
        return error_set(status, "%s=%.80s: %.300s", option_names.FABRIC, text, message);
    if (ofi_is_shortage(status)) return error_set(status, "a network card: %.300s", message);
    return error_unless_ok(TUTTI_OK, before); /* no card was asked for by name: TCP will do */
}

void ofi_choice_release(struct ofi_choice *choice)
{
    for (unsigned c = 0; c < choice->card_count; c++)
        choice->library->freeinfo((struct fi_info *)(uintptr_t)choice->cards[c].info);
    *choice = (struct ofi_choice){0};
}

bool ofi_offer_is_automatic(const struct ofi_offer *offer)
{
    struct ofi_places places;
    ofi_choose_offers("auto", offer, 1, 1, &places);
    return places.count > 0;
}

enum tutti_status ofi_find_protection(const char **option)
{
    int is_encrypted, integrity;
    *option = NULL;
    TRY(option_choice(OPTION_ENCRYPTION, &is_encrypted));
    TRY(option_choice(OPTION_INTEGRITY, &integrity));
    *option = is_encrypted ? option_names.ENCRYPTION : integrity ? option_names.INTEGRITY : NULL;
    return TUTTI_OK;
}

static struct {
    struct ofi_choice choice;
    enum tutti_status status;
    char error[ERROR_TEXT_MAX];
} made;

static struct turn making;
static const uint64_t MAKE_NS = 120000000000; /* for providers to look for cards */
static bool is_made;                          /* for good */

static void tell(const struct ofi_choice *choice)
{
    char names[OFI_REASON_MAX];
    ofi_name_cards(choice, names);
    if (choice->library != NULL)
        log_write(LOG_INFO, "fabric: %s, %s %s (%s)", choice->provider,
                  choice->card_count > 1 ? "cards" : "card", names, choice->reason);
    else if (made.status == TUTTI_OK)
        log_write(LOG_INFO, "fabric: none (%s)", choice->reason);
}

static void make(void)
{
    made.status = ofi_choose_anew(option_text(OPTION_FABRIC), NULL, &made.choice);
    if (made.status != TUTTI_OK) error_copy(made.error, sizeof made.error);
    tell(&made.choice);
}

/* Libfabric and its providers are left as they were in the middle of what another thread did. */
static void give_up(void)
{
    made.status = TUTTI_OK;
    made.choice = (struct ofi_choice){
        .reason = "this process was forked while another thread was looking for network cards"};
    is_made = true;
    tell(&made.choice);
}

enum tutti_status ofi_choose(const struct ofi_choice **choice)
{
    const enum turn_result turn = turn_take(&making, clock_now_ns() + MAKE_NS);
    *choice = NULL;
    if (turn == TURN_LATE)
        return error_set(TUTTI_TIMEOUT,
                         "a network card: another thread of this process has been looking for one "
                         "for two minutes");
    if (turn == TURN_TAKEN_OVER && !is_made) give_up();
    if (!is_made) make();
    is_made = !ofi_is_shortage(made.status); /* else the next one tries again */
    *choice = &made.choice;
    const enum tutti_status status =
        made.status == TUTTI_OK ? TUTTI_OK : error_set(made.status, "%s", made.error);
    turn_give(&making);
    return status;
}
