#include "transport/ofi/offers.h"

#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "bootstrap/interface.h"
#include "os/tcp_socket.h"
#include "transport/card/message.h"
#include "transport/ofi/card_distance.h"
#include "transport/ofi/shortage.h"

enum { OFFERS_MAX = 128 };

/* The capabilities that Tutti uses, and the modes with which it copes. */
#define NEEDED_CAPS (FI_MSG | FI_SEND | FI_RECV | FI_RMA | FI_WRITE | FI_REMOTE_WRITE)
#define POSSIBLE_MODE (FI_CONTEXT | FI_CONTEXT2)
#define POSSIBLE_MR_MODE \
    (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT)

struct ofi_offers {
    const struct ofi_library *library;
    struct fi_info *fitting, *all; /* libfabric's lists, which the entries point into */
    int count;
    struct ofi_offer offers[OFFERS_MAX];
    const struct fi_info *infos[OFFERS_MAX];
    const char *sys;
    struct interface way_out; /* where Tutti's own TCP would go; no name: not known */
};

/* ----------------------------------------------------------------------- one entry of libfabric */

static const char *name_or_nothing(const char *name)
{
    return name != NULL ? name : "";
}

static const char *provider_of(const struct fi_info *info)
{
    return name_or_nothing(info->fabric_attr->prov_name);
}

static const char *domain_of(const struct fi_info *info)
{
    return name_or_nothing(info->domain_attr->name);
}

static const char LOCKS[] = "locks that come free when a process is killed";

/* Processes that use shm map files of each other, and take spin locks in them. If one is killed
 * while it holds such a lock, the next one spins in a call of libfabric that never returns, and no
 * deadline of Tutti's ends it. */
static bool may_hang(const struct fi_info *info)
{
    return strcmp(provider_of(info), "shm") == 0;
}

/* Names a thing that the entry lacks; NULL: the entry shows no lack. */
static const char *lack_of(const struct fi_info *info)
{
    if (may_hang(info)) return LOCKS;
    if (info->ep_attr->type != FI_EP_RDM)
        return "reliable endpoints without connections (FI_EP_RDM)";
    if ((info->caps & (FI_MSG | FI_SEND | FI_RECV)) != (FI_MSG | FI_SEND | FI_RECV))
        return "messages (FI_MSG)";
    if ((info->caps & NEEDED_CAPS) != NEEDED_CAPS) return "remote writes (FI_RMA)";
    if ((info->mode & ~(POSSIBLE_MODE | FI_LOCAL_MR)) != 0)
        return "a mode that Tutti copes with (such as FI_CONTEXT)";
    if ((info->domain_attr->mr_mode & ~POSSIBLE_MR_MODE) != 0)
        return "registration of memory in a mode that Tutti copes with (such as FI_MR_LOCAL)";
    return NULL;
}

static bool is_over_sockets(const struct fi_info *info)
{
    static const char *const providers[] = {"tcp", "net", "sockets", "udp"};
    const char *const provider = provider_of(info);
    const size_t bytes = strcspn(provider, ";");
    for (size_t i = 0; i < sizeof providers / sizeof *providers; i++)
        if (strlen(providers[i]) == bytes && strncmp(provider, providers[i], bytes) == 0)
            return true;
    return false;
}

static bool address_of(const struct fi_info *info, struct net_address *address)
{
    const bool is_socket = info->addr_format == FI_SOCKADDR || info->addr_format == FI_SOCKADDR_IN ||
                           info->addr_format == FI_SOCKADDR_IN6;
    return is_socket && info->src_addr != NULL && info->src_addrlen >= sizeof(struct sockaddr_in) &&
           net_address_from_socket(info->src_addr, address);
}

/* The larger the result, the better the address. */
static int merit_of_address(const struct ofi_offers *offers, const struct fi_info *info)
{
    struct net_address address;
    if (!address_of(info, &address)) return 0;
    if (offers->way_out.name[0] != '\0' && net_address_same_host(&address, &offers->way_out.address))
        return 4;
    if (net_address_is_link_local(&address)) return 1;
    return address.family == AF_INET ? 3 : 2;
}

static int distance_of(const struct ofi_offers *offers, const struct fi_info *info)
{
    if (is_over_sockets(info)) return strcmp(domain_of(info), offers->way_out.name) == 0 ? 0 : 1;
    if (info->nic != NULL && info->nic->bus_attr != NULL &&
        info->nic->bus_attr->bus_type == FI_BUS_PCI) {
        const struct fi_pci_attr *const pci = &info->nic->bus_attr->attr.pci;
        char device[64];
        snprintf(device, sizeof device, "bus/pci/devices/%04x:%02x:%02x.%x", pci->domain_id,
                 pci->bus_id, pci->device_id, pci->function_id);
        const int distance = card_distance_of_device(offers->sys, device);
        if (distance < DISTANCE_UNKNOWN) return distance;
    }
    return card_distance(offers->sys, domain_of(info));
}

/* Ranks with one fingerprint speak one protocol. */
static uint32_t fingerprint_of(const struct fi_info *info)
{
    uint64_t hash = 1;
    for (const char *name = provider_of(info); *name != '\0'; name++)
        hash = hash_take(hash, (unsigned char)*name);
    hash = hash_take(hash, info->ep_attr->protocol);
    hash = hash_take(hash, info->ep_attr->protocol_version);
    hash = hash_take(hash, info->addr_format);
    hash = hash_take(hash, CARD_PROTOCOL);
    const uint32_t folded = (uint32_t)(hash ^ hash >> 32);
    return folded != 0 ? folded : 1;
}

/* ------------------------------------------------------------------------------------- the list */

static int place_of(const struct ofi_offers *offers, const struct fi_info *info)
{
    for (int i = 0; i < offers->count; i++)
        if (strcmp(offers->offers[i].provider, provider_of(info)) == 0 &&
            strcmp(offers->offers[i].domain, domain_of(info)) == 0)
            return i;
    return -1;
}

static void set(struct ofi_offers *offers, int place, const struct fi_info *info, const char *lacks)
{
    const bool is_down = info->nic != NULL && info->nic->link_attr != NULL &&
                         info->nic->link_attr->state == FI_LINK_DOWN;
    offers->infos[place] = info;
    offers->offers[place] = (struct ofi_offer){.provider = provider_of(info),
                                               .domain = domain_of(info),
                                               .lacks = lacks,
                                               .distance = distance_of(offers, info),
                                               .is_up = !is_down,
                                               .fingerprint = fingerprint_of(info)};
}

static void add_fitting(struct ofi_offers *offers)
{
    for (const struct fi_info *info = offers->fitting; info != NULL; info = info->next) {
        int place = place_of(offers, info);
        if (place >= 0 &&
            merit_of_address(offers, info) <= merit_of_address(offers, offers->infos[place]))
            continue;
        if (place < 0 && offers->count == OFFERS_MAX) continue;
        if (place < 0) place = offers->count++;
        set(offers, place, info, may_hang(info) ? LOCKS : NULL);
    }
}

static void add_rest(struct ofi_offers *offers)
{
    for (const struct fi_info *info = offers->all; info != NULL; info = info->next) {
        if (offers->count == OFFERS_MAX || place_of(offers, info) >= 0) continue;
        const char *const lack = lack_of(info);
        set(offers, offers->count++, info,
            lack != NULL ? lack : "a form that has all of it at once");
    }
}

static struct fi_info *hints_create(const struct ofi_library *library)
{
    struct fi_info *const hints = library->dupinfo(NULL);
    if (hints == NULL) return NULL;
    hints->caps = NEEDED_CAPS;
    hints->mode = POSSIBLE_MODE;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = POSSIBLE_MR_MODE;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->data_progress =
        FI_PROGRESS_MANUAL; /* no threads of the provider are needed */
    hints->tx_attr->iov_limit = 1;
    hints->rx_attr->iov_limit = 1;
    return hints;
}

static enum tutti_status ask(const struct ofi_library *library, const struct fi_info *hints,
                             struct fi_info **infos)
{
    const int result =
        library->getinfo(FI_VERSION(OFI_API_MAJOR, OFI_API_MINOR), NULL, NULL, 0, hints, infos);
    if (result == 0) return TUTTI_OK;
    *infos = NULL;
    if (result == -FI_ENODATA) return TUTTI_OK;
    return ofi_refuse(-result, "libfabric: fi_getinfo failed: %s", library->strerror(-result));
}

static void find_way_out(struct interface *way_out)
{
    char before[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    const struct net_address nowhere = {.family = AF_UNSPEC};
    struct interface_choice choice;
    size_t count;
    if (interface_find(&nowhere, true, 1, &choice, &count) == TUTTI_OK ||
        interface_find(&nowhere, false, 1, &choice, &count) == TUTTI_OK)
        *way_out = choice.interface;
    error_unless_ok(TUTTI_OK, before);
}

enum tutti_status ofi_offers_find(const struct ofi_library *library, const char *sys,
                                  bool with_rest, struct ofi_offers **offers)
{
    *offers = NULL;
    struct ofi_offers *const found = calloc(1, sizeof *found);
    struct fi_info *const hints = hints_create(library);
    enum tutti_status status = TUTTI_OK;
    if (found == NULL || hints == NULL) {
        status = error_set(TUTTI_NO_MEMORY, "the list of network cards");
        goto free_hints;
    }
    found->library = library;
    found->sys = sys != NULL ? sys : "/sys";
    find_way_out(&found->way_out);
    status = ask(library, hints, &found->fitting);
    if (status == TUTTI_OK && with_rest) status = ask(library, NULL, &found->all);
    if (status == TUTTI_OK) {
        add_fitting(found);
        add_rest(found);
        *offers = found;
    }
free_hints:
    if (hints != NULL) library->freeinfo(hints);
    if (status != TUTTI_OK && found != NULL) ofi_offers_free(found);
    return status;
}

void ofi_offers_free(struct ofi_offers *offers)
{
    if (offers == NULL) return;
    if (offers->fitting != NULL) offers->library->freeinfo(offers->fitting);
    if (offers->all != NULL) offers->library->freeinfo(offers->all);
    free(offers);
}

const struct ofi_offer *ofi_offers_list(const struct ofi_offers *offers, int *count)
{
    *count = offers->count;
    return offers->offers;
}

uint32_t ofi_offers_version(const struct ofi_offers *offers, int place)
{
    return offers->infos[place]->fabric_attr->prov_version;
}

struct fi_info *ofi_offers_take(const struct ofi_offers *offers, int place)
{
    return offers->library->dupinfo(offers->infos[place]);
}

void ofi_offers_try(const struct ofi_offers *offers, int place, char why[static OFI_REASON_MAX])
{
    const struct ofi_library *const library = offers->library;
    struct fi_info *const info = ofi_offers_take(offers, place);
    struct fid_fabric *fabric = NULL;
    struct fid_domain *card = NULL;
    why[0] = '\0';
    if (info == NULL) {
        snprintf(why, OFI_REASON_MAX, "no memory");
        return;
    }
    const char *step = "fi_fabric";
    int result = library->fabric(info->fabric_attr, &fabric, NULL);
    if (result == 0) {
        step = "fi_domain";
        result = fi_domain(fabric, info, &card, NULL);
    }
    if (result != 0)
        snprintf(why, OFI_REASON_MAX, "%s failed: %.200s", step, library->strerror(-result));
    if (card != NULL) fi_close(&card->fid);
    if (fabric != NULL) fi_close(&fabric->fid);
    library->freeinfo(info);
}
