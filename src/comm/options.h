/* options.h - options from the caller, completed from the environment: the one table of knobs.
 *
 *     TUTTI_TIMEOUT       deadline of an operation, e.g. 30s, 500ms, 10m     (30m)
 *     TUTTI_INIT_TIMEOUT  for all ranks to arrive                            (5m)
 *     TUTTI_ALGORITHMS    rules, see tune/rules.h
 *     TUTTI_DETERMINISTIC 0 or 1
 *     TUTTI_KERNEL        scalar, avx2, avx512                               (best)
 *     TUTTI_CMA           0: private memory always goes through slots        (1)
 *     TUTTI_TRANSPORT     tcp: data goes over TCP on one host, too; or auto  (auto)
 *     TUTTI_UNEXPECTED    bytes of messages that wait for a recv, e.g. 64m   (16m)
 *     TUTTI_SOCKET_IFNAME names of network interfaces, see bootstrap/interface.h
 *     TUTTI_SOCKET_FAMILY 4 or 6                                             (both)
 *     TUTTI_PORT_RANGE    ports to listen at, e.g. 5000-5100                 (any)
 *     TUTTI_SECRET        what the ranks of a job know and others do not, see bootstrap/secret.h
 *     TUTTI_SECRET_FILE   a file that has it
 *     TUTTI_ID_HOSTS      one or many: where those meet who have an id of this process, see comm/id.h  (as launched)
 *     TUTTI_RENDEZVOUS_DIR  a folder that all ranks see, see bootstrap/exchange.h
 *     TUTTI_HOSTID        ranks with different ones share no memory, see process/roll_call.h
 *     TUTTI_TOPO_FILE     racks and switches of the hosts, see comm/host_levels.h
 *     TUTTI_PROBE         0: racks are not measured, see comm/racks.h                    (1)
 *     TUTTI_LOG           off, warn, info, debug                             (warn)
 *
 * What the caller says wins over the environment.
 */
#ifndef TUTTI_COMM_OPTIONS_H
#define TUTTI_COMM_OPTIONS_H

#include <stdbool.h>

#include "tutti/tutti.h"

/* Checks the caller's options (NULL: none) and fills in what is left open. */
enum tutti_status options_for_comm(const struct tutti_comm_options *user,
                                   struct tutti_comm_options *options);
/* The same for a communicator that is derived from one with the options `from`, which are complete: what the
 * caller leaves open is as there. */
enum tutti_status options_for_derived(const struct tutti_comm_options *user,
                                      const struct tutti_comm_options *from,
                                      struct tutti_comm_options *options);
/* Whether the struct is one of this version; NULL is. */
enum tutti_status options_check_comm(const struct tutti_comm_options *user);
/* Bytes of messages that may wait here unexpected: TUTTI_UNEXPECTED. */
enum tutti_status options_unexpected(size_t *bytes);
/* Whether data is to go over TCP in any case: TUTTI_TRANSPORT. */
enum tutti_status options_transport(bool *over_tcp);
/* The same for a call. */
enum tutti_status options_check_call(const struct tutti_call_options *user);

#endif
