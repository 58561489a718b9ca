#include "bootstrap/interface.h"

#include <assert.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "base/status.h"

/* ----------------------------------------------------------------------------- the user's names */

struct names {
    const char *list;
    bool are_excluded, are_whole;
};

static struct names names_of(const char *text)
{
    struct names names = {.list = text == NULL ? "" : text};
    if (*names.list == '^') {
        names.are_excluded = true;
        names.list++;
    }
    if (*names.list == '=') {
        names.are_whole = true;
        names.list++;
    }
    names.list += strspn(names.list, ",");
    return names;
}

/* The place in the list of the first entry that fits; -1: none. */
static int place_in(const struct names *names, const char *interface)
{
    int place = 0;
    for (const char *entry = names->list; *entry != '\0'; place++) {
        const size_t bytes = strcspn(entry, ",");
        if (strncmp(interface, entry, bytes) == 0 && (!names->are_whole || interface[bytes] == '\0'))
            return place;
        entry += bytes;
        entry += strspn(entry, ",");
    }
    return -1;
}

/* --------------------------------------------------------------------------------------- choice */

/* The merits of an interface, the most important first. A member other than `place` is 1 if it
 * holds, else 0. */
struct merit {
    int place; /* minus the place in the user's list */
    int is_where_peers_are, is_source, is_sources_interface, is_real, is_routable, is_v4;
};

struct chooser {
    const struct interface *interfaces;
    size_t count;
    const struct interface_wish *wish;
    struct names names;
    bool on_loopback;        /* the others call there */
    const char *source_name; /* of the interface that has the source; NULL */
};

static bool is_bridge(const char *name)
{
    static const char *const prefixes[] = {"docker", "virbr", "veth",   "br-",
                                           "cni",    "lxc",   "podman", "flannel"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

static bool is_named(const struct chooser *chooser)
{
    return *chooser->names.list != '\0' && !chooser->names.are_excluded;
}

static bool is_candidate(const struct chooser *chooser, const struct interface *interface)
{
    const struct interface_wish *wish = chooser->wish;
    if (!interface->is_up) return false;
    if (wish->family != AF_UNSPEC && wish->family != interface->address.family) return false;
    if (place_in(&chooser->names, interface->name) >= 0) return !chooser->names.are_excluded;
    if (is_named(chooser)) return false;
    return !(interface->is_loopback && wish->is_beyond_host);
}

static struct merit merit_of(const struct chooser *chooser, const struct interface *interface)
{
    const struct net_address *source = &chooser->wish->source;
    return (struct merit){
        .place = is_named(chooser) ? -place_in(&chooser->names, interface->name) : 0,
        .is_where_peers_are = interface->is_loopback == chooser->on_loopback,
        .is_source = net_address_same_host(&interface->address, source),
        .is_sources_interface =
            chooser->source_name != NULL && strcmp(chooser->source_name, interface->name) == 0,
        .is_real = !is_bridge(interface->name),
        .is_routable = !net_address_is_link_local(&interface->address),
        .is_v4 = interface->address.family == AF_INET,
    };
}

static bool is_better(const struct merit *a, const struct merit *b)
{
    if (a->place != b->place) return a->place > b->place;
    if (a->is_where_peers_are != b->is_where_peers_are) return a->is_where_peers_are;
    if (a->is_source != b->is_source) return a->is_source;
    if (a->is_sources_interface != b->is_sources_interface) return a->is_sources_interface;
    if (a->is_real != b->is_real) return a->is_real;
    if (a->is_routable != b->is_routable) return a->is_routable;
    return a->is_v4 > b->is_v4;
}

static void explain(const struct chooser *chooser, struct interface_choice *choice)
{
    const struct interface *interface = &choice->interface;
    const struct merit merit = merit_of(chooser, interface);
    char address[NET_ADDRESS_TEXT_MAX], target[NET_ADDRESS_TEXT_MAX], reason[INTERFACE_WHY_MAX];
    net_address_print_host(&interface->address, address);
    net_address_print_host(&chooser->wish->target, target);
    if (is_named(chooser))
        snprintf(reason, sizeof reason, "%s names it", option_names.SOCKET_IFNAME);
    else if (merit.is_source || merit.is_sources_interface)
        snprintf(reason, sizeof reason, "the way to %s starts here", target);
    else if (interface->is_loopback)
        snprintf(reason, sizeof reason, "loopback: there is nothing else");
    else if (!merit.is_real)
        snprintf(reason, sizeof reason, "a bridge of containers, but there is nothing else");
    else
        snprintf(reason, sizeof reason, "the first that is up and leads out of this host");
    snprintf(choice->why, sizeof choice->why, "%s %s: %.100s", interface->name, address, reason);
}

static enum tutti_status nothing_fits(const struct chooser *chooser)
{
    char list[300] = "";
    size_t used = 0;
    for (size_t i = 0; i < chooser->count && used < sizeof list; i++) {
        const struct interface *interface = &chooser->interfaces[i];
        char address[NET_ADDRESS_TEXT_MAX];
        net_address_print_host(&interface->address, address);
        const int more = snprintf(list + used, sizeof list - used, "%s%s %s%s", i == 0 ? "" : ", ",
                                  interface->name, address, interface->is_up ? "" : " (down)");
        used += more < 0 ? 0 : (size_t)more;
    }
    const char *names = chooser->wish->names != NULL ? chooser->wish->names : "";
    const sa_family_t family = chooser->wish->family;
    return error_set(
        TUTTI_INVALID_OPTIONS,
        "no network interface fits (TUTTI_SOCKET_IFNAME=%.60s, TUTTI_SOCKET_FAMILY=%s%s); "
        "there are: %s",
        names,
        family == AF_INET    ? "4"
        : family == AF_INET6 ? "6"
                             : "",
        chooser->wish->is_beyond_host ? ", not loopback" : "", chooser->count == 0 ? "none" : list);
}

/* Whether it may carry data beside the rails that are chosen. */
static bool is_another_rail(const struct chooser *chooser, const struct interface *interface,
                            const struct interface_choice *rails, size_t rail_count)
{
    const struct interface *first = &rails[0].interface;
    if (first->is_loopback || interface->is_loopback) return false;
    if (interface->address.family != first->address.family) return false;
    if (interface->address.family == AF_INET6 && net_address_is_link_local(&interface->address))
        return false;
    if (is_bridge(interface->name) && !is_named(chooser)) return false;
    for (size_t i = 0; i < rail_count; i++)
        if (strcmp(rails[i].interface.name, interface->name) == 0 ||
            net_address_same_host(&rails[i].interface.address, &interface->address))
            return false;
    return true;
}

/* The best interface that is not chosen yet; NULL: none. */
static const struct interface *best_of(const struct chooser *chooser,
                                       const struct interface_choice *rails, size_t rail_count)
{
    const struct interface *best = NULL;
    struct merit best_merit = {0};
    for (size_t i = 0; i < chooser->count; i++) {
        const struct interface *interface = &chooser->interfaces[i];
        if (!is_candidate(chooser, interface)) continue;
        if (rail_count > 0 && !is_another_rail(chooser, interface, rails, rail_count)) continue;
        const struct merit merit = merit_of(chooser, interface);
        if (best != NULL && !is_better(&merit, &best_merit)) continue;
        best = interface;
        best_merit = merit;
    }
    return best;
}

enum tutti_status interface_choose(const struct interface *interfaces, size_t count,
                                   const struct interface_wish *wish, size_t rail_max,
                                   struct interface_choice *choices, size_t *rail_count)
{
    struct chooser chooser = {interfaces, count, wish, names_of(wish->names), false, NULL};
    chooser.on_loopback = net_address_is_loopback(&wish->source) && !wish->is_beyond_host;
    for (size_t i = 0; i < count; i++)
        if (net_address_same_host(&interfaces[i].address, &wish->source))
            chooser.source_name = interfaces[i].name;

    memset(choices, 0, rail_max * sizeof *choices);
    for (*rail_count = 0; *rail_count < rail_max; ++*rail_count) {
        const struct interface *best = best_of(&chooser, choices, *rail_count);
        if (best == NULL) break;
        choices[*rail_count].interface = *best;
        explain(&chooser, &choices[*rail_count]);
    }
    return *rail_count > 0 ? TUTTI_OK : nothing_fits(&chooser);
}

/* ------------------------------------------------------------------------------------ this host */

enum tutti_status interface_list(struct interface *interfaces, size_t max, size_t *count)
{
    struct ifaddrs *found = NULL;
    *count = 0;
    if (getifaddrs(&found) != 0) return error_system("listing network interfaces");
    for (const struct ifaddrs *one = found; one != NULL && *count < max; one = one->ifa_next) {
        struct interface *interface = &interfaces[*count];
        memset(interface, 0, sizeof *interface);
        if (!net_address_from_socket(one->ifa_addr, &interface->address)) continue;
        snprintf(interface->name, sizeof interface->name, "%s", one->ifa_name);
        interface->is_up = (one->ifa_flags & IFF_UP) && (one->ifa_flags & IFF_RUNNING);
        interface->is_loopback = one->ifa_flags & IFF_LOOPBACK;
        ++*count;
    }
    freeifaddrs(found);
    return TUTTI_OK;
}

static enum tutti_status read_family(sa_family_t *family)
{
    /* NCCL spells families AF_INET and AF_INET6. */
    static const sa_family_t choices[] = {AF_INET, AF_INET6, AF_INET, AF_INET6};
    int choice;
    TRY(option_choice(OPTION_SOCKET_FAMILY, &choice));
    *family = choice < 0 ? AF_UNSPEC : choices[choice];
    return TUTTI_OK;
}

enum tutti_status interface_wish_read(struct interface_wish *wish)
{
    *wish = (struct interface_wish){.names = option_text(OPTION_SOCKET_IFNAME)};
    return read_family(&wish->family);
}

enum tutti_status interface_rails_read(unsigned *rail_max)
{
    int count;
    TRY(option_count(OPTION_RAILS, &count));
    assert(count <= INTERFACE_RAILS_MAX);
    *rail_max = (unsigned)count;
    return TUTTI_OK;
}

enum tutti_status interface_find(const struct net_address *target, bool is_beyond_host,
                                 size_t rail_max, struct interface_choice *choices,
                                 size_t *rail_count)
{
    struct interface_wish wish;
    size_t count;
    TRY(interface_wish_read(&wish));
    wish.is_beyond_host = is_beyond_host;
    wish.target = *target;
    if (target->family != AF_UNSPEC) net_address_source(target, &wish.source);
    struct interface *interfaces = calloc(INTERFACES_MAX, sizeof *interfaces);
    if (interfaces == NULL) return error_set(TUTTI_NO_MEMORY, "listing network interfaces");
    enum tutti_status status = interface_list(interfaces, INTERFACES_MAX, &count);
    if (status == TUTTI_OK)
        status = interface_choose(interfaces, count, &wish, rail_max, choices, rail_count);
    free(interfaces);
    return status;
}
