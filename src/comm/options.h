/* options.h - options from the caller, completed from the environment: the one table of knobs.
 *
 *     TUTTI_TIMEOUT       deadline of an operation, e.g. 30s, 500ms, 10m     (30m)
 *     TUTTI_INIT_TIMEOUT  for all ranks to arrive                            (5m)
 *     TUTTI_ALGORITHMS    rules, see tune/rules.h
 *     TUTTI_DETERMINISTIC 0 or 1
 *     TUTTI_INTEGRITY     network: checksums of what goes over TCP; on: and through shared memory; or off  (off)
 *     TUTTI_ENCRYPTION    on: what goes over TCP is encrypted, see os/tls.h; or off  (off)
 *     TUTTI_KERNEL        scalar, avx2, avx512                               (best)
 *     TUTTI_CMA           0: private memory always goes through slots        (1)
 *     TUTTI_TRANSPORT     tcp: data goes over TCP on one host, too; or auto  (auto)
 *     TUTTI_PROGRESS_CPUS CPUs of the thread that moves started operations, see process/progress.h  (any)
 *     TUTTI_UNEXPECTED    bytes of messages that wait for a recv, e.g. 64m   (16m)
 *     TUTTI_SOCKET_IFNAME names of network interfaces, see bootstrap/interface.h
 *     TUTTI_SOCKET_FAMILY 4 or 6                                             (both)
 *     TUTTI_RAILS         1 to 4: network cards that carry data at once, see comm/rails.h  (1)
 *     TUTTI_PORT_RANGE    ports to listen at, e.g. 5000-5100                 (any)
 *     TUTTI_SECRET        what the ranks of a job know and others do not, see bootstrap/secret.h
 *     TUTTI_SECRET_FILE   a file that has it
 *     TUTTI_ID_HOSTS      one or many: where those meet who have an id of this process, see comm/id.h  (as launched)
 *     TUTTI_RENDEZVOUS_DIR  a folder that all ranks see, see bootstrap/exchange.h
 *     TUTTI_HOSTID        ranks with different ones are on different hosts, see bootstrap/host_id.h
 *     TUTTI_TOPO_FILE     racks and switches of the hosts, see comm/host_levels.h
 *     TUTTI_PROBE         0: racks are not measured, see comm/racks.h                    (1)
 *     TUTTI_HEARTBEAT     milliseconds from beat to beat of a host, 10 to 10000; 0: none, see comm/beat.h  (100)
 *     TUTTI_TRACE_DIR     a folder: where communicators that fail leave their recorder, see comm/trace.h
 *     TUTTI_TRACE_SIGNAL  a signal on which healthy ones do, too, e.g. USR2, see process/monitor.h
 *     TUTTI_METRICS_DIR   a folder for numbers of this process, see process/metrics.h
 *     TUTTI_METRICS_INTERVAL  how often they are written, in seconds                     (10)
 *     TUTTI_LOG           off, warn, info, debug                             (warn)
 *
 * What the caller says wins over the environment.
 */
#ifndef TUTTI_COMM_OPTIONS_H
#define TUTTI_COMM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* Checks the caller's options (NULL: none) and fills in what is left open. */
enum tutti_status options_for_comm(const struct tutti_comm_options *user,
                                   struct tutti_comm_options *options);
/* The same for a communicator that is derived from one with the options `from`, which are complete: what the
 * caller leaves open is as there. */
enum tutti_status options_for_derived(const struct tutti_comm_options *user,
                                      const struct tutti_comm_options *from,
                                      struct tutti_comm_options *options);
/* Whether the options are good, as far as that can be told without the communicator that they are for; NULL is. */
enum tutti_status options_check_comm(const struct tutti_comm_options *user);
/* Checks the options that a caller gives for one call, and copies them. */
enum tutti_status options_for_call(const struct tutti_call_options *user,
                                   struct tutti_call_options *options);
/* Bytes of messages that may wait here unexpected: TUTTI_UNEXPECTED. */
enum tutti_status options_unexpected(size_t *bytes);
/* Whether racks that no file names may be measured: TUTTI_PROBE. */
enum tutti_status options_probe(bool *probes);
/* Whether data is to go over TCP in any case: TUTTI_TRANSPORT. */
enum tutti_status options_transport(bool *over_tcp);
/* From one beat of a host to the next, or 0: TUTTI_HEARTBEAT. */
enum tutti_status options_heartbeat(uint64_t *period_ns);

#endif
