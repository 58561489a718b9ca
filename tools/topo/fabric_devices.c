#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric.h"
#include "fabric_files.h"

enum { ROCE_MTU_MIN = 4200 }; /* an Ethernet MTU that has room for RoCE's largest, 4096 */

/* A card, as the operating system shows it. */
struct card {
    const char *name;
    char driver[FABRIC_TEXT_SIZE], interface[FABRIC_TEXT_SIZE]; /* empty: not known */
    bool is_iwarp;
};

static void path_of_card(char path[static FABRIC_PATH_SIZE], const struct fabric_report *report,
                         const struct card *card, const char *file)
{
    fabric_path(path, report->root, "/sys/class/infiniband/%s/%s", card->name, file);
}

static void look(const struct fabric_report *report, const char *name, struct card *card)
{
    char path[FABRIC_PATH_SIZE], type[FABRIC_TEXT_SIZE];
    struct fabric_names interfaces;
    *card = (struct card){.name = name};
    path_of_card(path, report, card, "device/driver");
    fabric_read_link(path, card->driver);
    path_of_card(path, report, card, "node_type");
    fabric_read(path, type);
    card->is_iwarp = strstr(type, "RNIC") != NULL;
    path_of_card(path, report, card, "device/net");
    fabric_list(path, "", &interfaces);
    if (interfaces.count > 0)
        snprintf(card->interface, sizeof card->interface, "%.100s", interfaces.names[0]);
    fabric_names_release(&interfaces);
}

static bool is_omni_path(const struct card *card)
{
    return strncmp(card->name, "hfi1", 4) == 0;
}

static bool is_efa(const struct card *card)
{
    return strcmp(card->driver, "efa") == 0;
}

/* ------------------------------------------------------------------------------------ addresses */

/* On this host; of another one nobody knows. */
static bool has_address(const char *interface)
{
    struct ifaddrs *found = NULL;
    bool is_found = false;
    if (getifaddrs(&found) != 0) return true;
    for (const struct ifaddrs *one = found; one != NULL; one = one->ifa_next)
        is_found |= one->ifa_addr != NULL && strcmp(one->ifa_name, interface) == 0 &&
                    (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6);
    freeifaddrs(found);
    return is_found;
}

/* The IPv4 address in the eight groups of a GID; false: it is of something else. */
static bool is_ipv4(const char *gid, unsigned address[static 4])
{
    unsigned groups[8];
    if (sscanf(gid, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x", &groups[0], &groups[1], &groups[2],
               &groups[3], &groups[4], &groups[5], &groups[6], &groups[7]) != 8)
        return false;
    for (int i = 0; i < 4; i++) address[i] = groups[6 + i / 2] >> (i % 2 == 0 ? 8 : 0) & 0xff;
    return (groups[0] | groups[1] | groups[2] | groups[3] | groups[4]) == 0 && groups[5] == 0xffff;
}

/* The entry of the port's table that RoCE needs between hosts. */
static void check_gids(struct fabric_report *report, const struct card *card, const char *port)
{
    char path[FABRIC_PATH_SIZE], gid[FABRIC_TEXT_SIZE], type[FABRIC_TEXT_SIZE];
    struct fabric_names entries;
    fabric_path(path, report->root, "/sys/class/infiniband/%s/ports/%s/gids", card->name, port);
    fabric_list(path, "", &entries);
    bool has_v2 = false, is_good = false;
    for (int i = 0; i < entries.count && !is_good; i++) {
        unsigned address[4];
        fabric_path(path, report->root, "/sys/class/infiniband/%s/ports/%s/gid_attrs/types/%s",
                    card->name, port, entries.names[i]);
        const bool is_v2 = fabric_read(path, type) && strcmp(type, "RoCE v2") == 0;
        has_v2 |= is_v2;
        fabric_path(path, report->root, "/sys/class/infiniband/%s/ports/%s/gids/%s", card->name,
                    port, entries.names[i]);
        is_good = is_v2 && fabric_read(path, gid) && is_ipv4(gid, address);
        if (is_good)
            fabric_find(report, FABRIC_OK, "card %s port %s: GID %s is RoCE v2, %u.%u.%u.%u",
                        card->name, port, entries.names[i], address[0], address[1], address[2],
                        address[3]);
    }
    fabric_names_release(&entries);
    const char *const interface = card->interface[0] != '\0' ? card->interface : "its interface";
    if (!is_good && has_v2)
        fabric_find(report, FABRIC_WARN,
                    "card %s port %s: no RoCE v2 GID of an IPv4 address, so packets may not pass "
                    "routers; give %s one: ip address add ADDRESS/BITS dev %s",
                    card->name, port, interface, interface);
    else if (!is_good)
        fabric_find(report, FABRIC_FAIL,
                    "card %s port %s: no RoCE v2 GID; give %s an address: ip address add "
                    "ADDRESS/BITS dev %s (and RoCE v2 must be enabled: cma_roce_mode, rdma link)",
                    card->name, port, interface, interface);
}

static void check_mtu(struct fabric_report *report, const struct card *card)
{
    char path[FABRIC_PATH_SIZE], text[FABRIC_TEXT_SIZE];
    fabric_path(path, report->root, "/sys/class/infiniband/%s/device/net/%s/mtu", card->name,
                card->interface);
    if (card->interface[0] == '\0' || !fabric_read(path, text)) return;
    const long mtu = strtol(text, NULL, 10);
    if (mtu < ROCE_MTU_MIN)
        fabric_find(report, FABRIC_WARN,
                    "card %s: %s has an MTU of %ld, so packets of the card are small; if all "
                    "switches allow it: ip link set %s mtu 9000",
                    card->name, card->interface, mtu, card->interface);
    else
        fabric_find(report, FABRIC_OK, "card %s: %s has an MTU of %ld", card->name, card->interface,
                    mtu);
}

static void check_interface(struct fabric_report *report, const struct card *card)
{
    if (report->root[0] != '\0' || is_efa(card) || is_omni_path(card)) return;
    if (card->interface[0] == '\0')
        fabric_find(report, FABRIC_FAIL,
                    "card %s: it has no network interface; libfabric's verbs find ranks by IP: "
                    "modprobe ib_ipoib (InfiniBand), or load the driver of its Ethernet side",
                    card->name);
    else if (!has_address(card->interface))
        fabric_find(report, FABRIC_FAIL,
                    "card %s: %s has no IP address, by which libfabric's verbs find ranks; ip "
                    "address add ADDRESS/BITS dev %s",
                    card->name, card->interface, card->interface);
}

/* ---------------------------------------------------------------------------------------- ports */

static const char *advice_for_state(const char *state, const char *layer)
{
    if (strstr(state, "INIT") != NULL)
        return "no subnet manager has configured it; start opensm, or the switch's";
    if (strstr(state, "DOWN") != NULL && strcmp(layer, "Ethernet") == 0)
        return "check the cable, and ip link set INTERFACE up";
    if (strstr(state, "DOWN") != NULL)
        return "check the cable, the switch, and that the port is enabled";
    return "it is on its way up, or has a fault; see rdma link and dmesg";
}

static const char *or_unknown(const char *text)
{
    return text[0] != '\0' ? text : "(not known)";
}

/* Whether the port is active. */
static bool check_port(struct fabric_report *report, const struct card *card, const char *port)
{
    char path[FABRIC_PATH_SIZE], state[FABRIC_TEXT_SIZE], layer[FABRIC_TEXT_SIZE];
    char rate[FABRIC_TEXT_SIZE];
    fabric_path(path, report->root, "/sys/class/infiniband/%s/ports/%s/state", card->name, port);
    fabric_read(path, state);
    fabric_path(path, report->root, "/sys/class/infiniband/%s/ports/%s/link_layer", card->name,
                port);
    fabric_read(path, layer);
    fabric_path(path, report->root, "/sys/class/infiniband/%s/ports/%s/rate", card->name, port);
    fabric_read(path, rate);
    const bool is_active = strstr(state, "ACTIVE") != NULL;
    char what[5 * FABRIC_TEXT_SIZE];
    snprintf(what, sizeof what, "%s, %s%s%s%s, driver %s", or_unknown(state),
             card->is_iwarp       ? "iWARP over "
             : is_omni_path(card) ? "Omni-Path as "
                                  : "",
             or_unknown(layer), rate[0] != '\0' ? ", " : "", rate, or_unknown(card->driver));
    if (is_active)
        fabric_find(report, FABRIC_OK, "card %s port %s: %s", card->name, port, what);
    else
        fabric_find(report, FABRIC_WARN, "card %s port %s: %s; %s", card->name, port, what,
                    advice_for_state(state, layer));
    if (!is_active) return false;
    if (strcmp(layer, "Ethernet") == 0 && !card->is_iwarp && !is_efa(card)) {
        check_gids(report, card, port);
        check_mtu(report, card);
    }
    return true;
}

static void check_card(struct fabric_report *report, const char *name)
{
    struct card card;
    struct fabric_names ports;
    char path[FABRIC_PATH_SIZE];
    look(report, name, &card);
    path_of_card(path, report, &card, "ports");
    fabric_list(path, "", &ports);
    bool is_active = false;
    for (int i = 0; i < ports.count; i++) is_active |= check_port(report, &card, ports.names[i]);
    if (ports.count == 0)
        fabric_find(report, FABRIC_WARN, "card %s: it has no port; see rdma link and dmesg", name);
    fabric_names_release(&ports);
    report->card_count++;
    report->active_count += is_active;
    if (is_active) check_interface(report, &card);
}

/* -------------------------------------------------------------------------------------- drivers */

static bool is_loaded(const struct fabric_report *report, const char *module)
{
    char path[FABRIC_PATH_SIZE];
    fabric_path(path, report->root, "/sys/module/%s", module);
    return access(path, F_OK) == 0;
}

/* The network side of a card, and its RDMA side, which comes as a module of its own. */
static const struct {
    const char *network, *rdma;
} sides[] = {{"mlx5_core", "mlx5_ib"}, {"mlx4_core", "mlx4_ib"},  {"ice", "irdma"},
             {"i40e", "irdma"},        {"bnxt_en", "bnxt_re"},    {"cxgb4", "iw_cxgb4"},
             {"qede", "qedr"},         {"hns3", "hns_roce_hw_v2"}};

static void check_sides(struct fabric_report *report)
{
    bool is_said = false;
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        if (!is_loaded(report, sides[i].network) || is_loaded(report, sides[i].rdma)) continue;
        fabric_find(report, FABRIC_WARN,
                    "cards: none, but %s is loaded without its RDMA side; if the card has one: "
                    "modprobe %s",
                    sides[i].network, sides[i].rdma);
        is_said = true;
    }
    if (!is_said)
        fabric_find(
            report, FABRIC_WARN,
            "cards: none in /sys/class/infiniband or /sys/class/cxi; data goes over TCP. If "
            "there is one, load its driver (mlx5_ib, irdma, efa, erdma, cxi...) and see "
            "dmesg; a container sees the host's only with --device /dev/infiniband");
}

/* Device files that programs open. */
static void check_device_files(struct fabric_report *report)
{
    char path[FABRIC_PATH_SIZE];
    struct fabric_names files;
    fabric_path(path, report->root, "/dev/infiniband");
    fabric_list(path, "uverbs", &files);
    for (int i = 0; i < files.count; i++) {
        fabric_path(path, report->root, "/dev/infiniband/%s", files.names[i]);
        const bool is_open = access(path, R_OK | W_OK) == 0;
        fabric_find(report, is_open ? FABRIC_OK : FABRIC_FAIL, "/dev/infiniband/%s: %s",
                    files.names[i],
                    is_open ? "this user may use it"
                            : "this user may not read and write it; add the user to its group "
                              "(often rdma), or install rdma-core, whose rules open it to all");
    }
    if (files.count == 0)
        fabric_find(report, FABRIC_FAIL, "/dev/infiniband: no uverbs device; %s",
                    is_loaded(report, "ib_uverbs")
                        ? "udev has not made it; in a container: --device /dev/infiniband"
                        : "modprobe ib_uverbs (in a container also --device /dev/infiniband)");
    fabric_names_release(&files);
}

/* Connections between hosts are set up through it, but those of EFA, Omni-Path and Slingshot. */
static void check_connection_manager(struct fabric_report *report)
{
    char path[FABRIC_PATH_SIZE];
    fabric_path(path, report->root, "/dev/infiniband/rdma_cm");
    if (access(path, F_OK) != 0)
        fabric_find(report, FABRIC_FAIL,
                    "/dev/infiniband/rdma_cm: not there, and libfabric's verbs connect through it; "
                    "%s",
                    is_loaded(report, "rdma_ucm") ? "in a container: --device /dev/infiniband"
                                                  : "modprobe rdma_ucm");
    else if (access(path, R_OK | W_OK) != 0)
        fabric_find(report, FABRIC_FAIL,
                    "/dev/infiniband/rdma_cm: this user may not read and write it; install "
                    "rdma-core, whose rules open it to all, or add the user to its group");
    else
        fabric_find(report, FABRIC_OK, "/dev/infiniband/rdma_cm: this user may use it");
}

static bool needs_connection_manager(const struct fabric_report *report,
                                     const struct fabric_names *cards)
{
    for (int i = 0; i < cards->count; i++) {
        struct card card;
        look(report, cards->names[i], &card);
        if (!is_efa(&card) && !is_omni_path(&card)) return true;
    }
    return false;
}

void fabric_check_devices(struct fabric_report *report)
{
    char path[FABRIC_PATH_SIZE];
    struct fabric_names verbs, slingshot;
    fabric_path(path, report->root, "/sys/class/infiniband");
    fabric_list(path, "", &verbs);
    fabric_path(path, report->root, "/sys/class/cxi");
    fabric_list(path, "cxi", &slingshot);
    for (int i = 0; i < verbs.count; i++) check_card(report, verbs.names[i]);
    for (int i = 0; i < slingshot.count; i++)
        fabric_find(report, FABRIC_OK, "card %s: Slingshot", slingshot.names[i]);
    if (verbs.count > 0) check_device_files(report);
    if (needs_connection_manager(report, &verbs)) check_connection_manager(report);
    report->card_count += slingshot.count;
    report->active_count += slingshot.count;
    if (report->card_count == 0)
        check_sides(report);
    else if (report->active_count == 0)
        fabric_find(report, FABRIC_FAIL, "cards: none has an active port; see above");
    fabric_names_release(&verbs);
    fabric_names_release(&slingshot);
}
