#include "fabric.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/option.h"
#include "base/printable.h"
#include "base/status.h"
#include "transport/ofi/choice.h"
#include "transport/ofi/library.h"
#include "transport/ofi/offers.h"

enum { LINE_SIZE = 1024 };

void fabric_find(struct fabric_report *report, enum fabric_verdict verdict, const char *format, ...)
{
    static const char *const words[] = {"ok", "WARN", "FAIL"};
    char line[LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    printable_make(line);
    fprintf(report->file, "%-4s  %s\n", words[verdict], line);
    report->failed_count += verdict == FABRIC_FAIL;
}

/* ------------------------------------------------------------------------------------ providers */

static bool is_first(const struct ofi_offer *offers, int place)
{
    for (int i = 0; i < place; i++)
        if (strcmp(offers[i].provider, offers[place].provider) == 0) return false;
    return true;
}

/* One line a provider, with its cards, of which the first is opened. */
static void check_provider(struct fabric_report *report, const struct ofi_offers *found,
                           const struct ofi_offer *offers, int place, int count)
{
    char cards[LINE_SIZE / 4] = "", why[OFI_REASON_MAX];
    size_t used = 0;
    for (int i = place; i < count; i++) {
        if (offers[i].lacks != NULL || strcmp(offers[i].provider, offers[place].provider) != 0)
            continue;
        const int more =
            snprintf(cards + used, sizeof cards - used, "%s%.64s%s", used > 0 ? ", " : "",
                     offers[i].domain, offers[i].is_up ? "" : " (down)");
        if (more < 0 || used + (size_t)more >= sizeof cards) break;
        used += (size_t)more;
    }
    ofi_offers_try(found, place, why);
    const bool is_auto = ofi_offer_is_automatic(&offers[place]);
    if (why[0] != '\0')
        fabric_find(report, is_auto ? FABRIC_FAIL : FABRIC_WARN,
                    "provider %s: %s; FI_LOG_LEVEL=warn fi_info -p '%s' may say more",
                    offers[place].provider, why, offers[place].provider);
    else
        fabric_find(report, FABRIC_OK, "provider %s: it works with %s%s", offers[place].provider,
                    cards, is_auto ? "" : " (only where TUTTI_FABRIC names it)");
}

static void check_providers(struct fabric_report *report, const struct ofi_offers *found)
{
    int count;
    bool has_hardware = false;
    const struct ofi_offer *const offers = ofi_offers_list(found, &count);
    for (int i = 0; i < count; i++) {
        has_hardware |= ofi_offer_is_automatic(&offers[i]);
        if (!is_first(offers, i)) continue;
        if (offers[i].lacks == NULL)
            check_provider(report, found, offers, i, count);
        else
            fabric_find(report, FABRIC_OK, "provider %s: not for Tutti, it lacks %s",
                        offers[i].provider, offers[i].lacks);
    }
    if (!has_hardware && report->active_count > 0)
        fabric_find(report, FABRIC_FAIL,
                    "providers: none is for an RDMA card, though one is active; look at the lines "
                    "above, and whether this libfabric has verbs, efa, cxi, psm3 or psm2 at all: "
                    "FI_LOG_LEVEL=warn fi_info");
}

static void check_choice(struct fabric_report *report)
{
    struct ofi_choice choice;
    const char *protection = NULL;
    char names[OFI_REASON_MAX] = "";
    const char *const wish = option_text(OPTION_FABRIC);
    const bool is_chosen = ofi_choose_anew(wish, NULL, &choice) == TUTTI_OK &&
                           ofi_find_protection(&protection) == TUTTI_OK;
    const char *const cards = choice.card_count > 1 ? "cards" : "card";
    ofi_name_cards(&choice, names);
    if (!is_chosen)
        fabric_find(report, FABRIC_FAIL, "choice: %s", tutti_error_message());
    else if (choice.library == NULL)
        fabric_find(report, FABRIC_WARN, "choice: none, data goes over TCP (%s)", choice.reason);
    else if (protection != NULL)
        fabric_find(report, FABRIC_WARN,
                    "choice: none, data goes over TCP (%s, %s %s, cannot protect data as %s says)",
                    choice.provider, cards, names, protection);
    else
        fabric_find(report, FABRIC_OK, "choice: %s, %s %s (%s)", choice.provider, cards, names,
                    choice.reason);
    ofi_choice_release(&choice);
}

static void check_library(struct fabric_report *report)
{
    const struct ofi_library *library;
    struct ofi_offers *offers;
    if (ofi_library_load(&library) != TUTTI_OK) {
        fabric_find(report, report->card_count > 0 ? FABRIC_FAIL : FABRIC_WARN, "libfabric: %s",
                    tutti_error_message());
        return;
    }
    const uint32_t version = library->version();
    fabric_find(report, FABRIC_OK, "libfabric: version %u.%u", version >> 16, version & 0xffff);
    if (ofi_offers_find(library, NULL, true, &offers) != TUTTI_OK) {
        fabric_find(report, FABRIC_FAIL, "providers: %s", tutti_error_message());
        return;
    }
    check_providers(report, offers);
    ofi_offers_free(offers);
}

/* For whoever reads the lines of many hosts. */
static void name_host(struct fabric_report *report)
{
    struct utsname host;
    if (uname(&host) != 0) return;
    fabric_find(report, FABRIC_OK, "host: %s, Linux %s, user %u", host.nodename, host.release,
                (unsigned)geteuid());
}

bool fabric_check(const char *root, FILE *file)
{
    struct fabric_report report = {.file = file, .root = root};
    if (root[0] == '\0') name_host(&report);
    fabric_check_devices(&report);
    if (report.card_count > 0) fabric_check_memory(&report);
    if (root[0] == '\0') {
        check_library(&report);
        check_choice(&report);
    }
    return report.failed_count == 0;
}
