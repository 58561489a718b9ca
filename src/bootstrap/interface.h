/* interface.h - which address of this host to offer to the others.
 *
 * The user's wish decides first, then the way by which the kernel would reach the address that all
 * ranks know (MASTER_ADDR), then the look of an interface: not loopback, not a bridge of
 * containers. interface_choose is a pure function of a list; the readers of the system beside it
 * are thin.
 *
 *     TUTTI_SOCKET_IFNAME   prefixes of names, separated by commas: "eth,ib"; with ^ in front all but these; with =
 *                           (or ^=) whole names: "=eth0,eth1". Names that come first are better.
 *     TUTTI_SOCKET_FAMILY   4 or 6; both when not set
 *     TUTTI_RAILS           how many network cards carry data, 1 to 4; 1 when not set
 *
 * Each rail is an address of another card. The first is the one that is chosen if one is enough.
 * The others are of its family, in the order of the same preferences, each of another interface. A
 * bridge of containers, which is not meant for other hosts, is a further rail only if the user
 * names it. Loopback and link-local IPv6 (whose scope others do not know) never are.
 */
#ifndef TUTTI_BOOTSTRAP_INTERFACE_H
#define TUTTI_BOOTSTRAP_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>

#include "os/tcp_socket.h"
#include "tutti/tutti.h"

enum {
    INTERFACES_MAX = 256,
    INTERFACE_NAME_MAX = 16,
    INTERFACE_WHY_MAX = 200,
    INTERFACE_RAILS_MAX = 4
};

/* An address of an interface; one with two addresses is two of these. */
struct interface {
    char name[INTERFACE_NAME_MAX];
    struct net_address address; /* port 0 */
    bool is_up, is_loopback;
};

struct interface_wish {
    const char *names;         /* as TUTTI_SOCKET_IFNAME has it; NULL or "": any */
    sa_family_t family;        /* AF_UNSPEC: any */
    bool is_beyond_host;       /* ranks of other hosts will call: loopback only where it is named */
    struct net_address target; /* the address that all must reach; none: not known */
    struct net_address source; /* from where the kernel would send there; none: not known */
};

struct interface_choice {
    struct interface interface;
    char why[INTERFACE_WHY_MAX]; /* a line for the log: "eth0 10.0.0.5: ..." */
};

/* Up to rail_max (at least 1) of them, the best first, which does not depend on how many are
 * wanted; *rail_count is at least 1. INVALID_OPTIONS when nothing fits; the message lists what
 * there is. */
enum tutti_status interface_choose(const struct interface *interfaces, size_t count,
                                   const struct interface_wish *wish, size_t rail_max,
                                   struct interface_choice *choices, size_t *rail_count);

/* The addresses of this host, in the system's order; addresses that do not fit into `max` are left
 * out. */
enum tutti_status interface_list(struct interface *interfaces, size_t max, size_t *count);
/* The wish in the environment; wish->names points into it. The rest of *wish is empty. */
enum tutti_status interface_wish_read(struct interface_wish *wish);
/* The number of rails that are wanted: TUTTI_RAILS. */
enum tutti_status interface_rails_read(unsigned *rail_max);
/* All of it for this host: the list, the environment, and the way to target (none: not known). */
enum tutti_status interface_find(const struct net_address *target, bool is_beyond_host,
                                 size_t rail_max, struct interface_choice *choices,
                                 size_t *rail_count);

#endif
