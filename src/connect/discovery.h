/* discovery.h - rank discovery: every rank of a job learns on which host each other rank is, and at
 * which address its process's port.
 *
 * If the launcher offers an exchange (bootstrap/exchange.h), the ranks use that. Otherwise all
 * ranks report to rank 0's port, which is at MASTER_PORT, or where an id says. All entries then go
 * back down a binomial tree of connections, so no rank hands them to more than log2 n others:
 *
 *     up     rank r ──entry──────────────────► rank 0           at MASTER_ADDR, MASTER_PORT or one of the ports behind it
 *            rank r ◄──heard, the run───────── rank 0
 *     down   rank 0 ──all entries────────────► ranks 1, 2, 4 .. on the connections of the way up
 *                   ──where to connect───────► all others
 *            rank r ──all entries────────────► ranks r+1, r+2, r+4 .. below r's lowest bit, which connect to it
 *
 * When a job is started again, its ranks know the same before they meet (a name, an address, a
 * secret) as the ranks of the last run, which may still hang. So rank 0 makes a random number, the
 * *run*, and tells it to each rank that reports. Everything that comes afterwards has the run in
 * its name, here and in the communicator. A rank that was told of another run is turned away. A
 * rank that has not been told of any run cannot be told from a rank of this run, and becomes one if
 * it comes first.
 *
 * At the deadline rank 0 tells each rank that is there which ranks are missing. A rank checks all
 * that comes from a connection, though the other side has the job's key (hello.h).
 */
#ifndef TUTTI_CONNECT_DISCOVERY_H
#define TUTTI_CONNECT_DISCOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/launcher.h"
#include "connect/discovery_message.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

struct discovery_options {
    const struct launcher_facts *facts; /* rank, size, key, and the means to meet */
    struct discovery_entry self;
    uint64_t deadline_ns;
    unsigned exchange_means; /* of enum exchange_means: those that may be used; 0: only rank 0's port */
    bool is_encrypted;       /* whether the connections are */
    const struct net_address *meeting; /* rank 0's port, and nothing else is tried; NULL: not known */
    /* Asked some hundred times a second while this rank waits: whether the others can still come.
     * Not OK, with this thread's error set, ends rank discovery. NULL: they can, until the
     * deadline. */
    enum tutti_status (*look)(void *context);
    void *look_context;
};

/* Blocks until all ranks are there or the deadline has passed. The caller has opened the process's
 * port (port.h); rank 0's is at master_port or `meeting`. entries: has room for one entry per rank.
 * *meeting: a key of this run, which no other run has. *message_count: how many messages this rank
 * sent and received. INIT_TIMEOUT: the message names the missing ranks. INVALID_OPTIONS: some ranks
 * encrypt and others do not, which all ranks are told. PROC_FAILED: rank 0 is gone, and another run
 * has its place. */
enum tutti_status discovery_run(const struct discovery_options *options,
                                struct discovery_entry *entries, struct rendezvous_key *meeting,
                                unsigned *message_count);

#endif
