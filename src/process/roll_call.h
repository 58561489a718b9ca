/* roll_call.h - every rank of a job learns on which host each other one is, and where its process's door is.
 *
 * Over what started the ranks (bootstrap/exchange.h), where that offers it. Else all report to rank 0's door, which is at
 * MASTER_PORT, or where an id says; what came together there goes back down a binomial tree of doors, so nobody hands it to more than log2 n others:
 *
 *     up     rank r ──entry──────────────────► rank 0           visited at MASTER_ADDR, or the ports behind MASTER_PORT
 *            rank r ◄──heard, the run───────── rank 0
 *     down   rank 0 ──all entries────────────► ranks 1, 2, 4 .. on the connections of the way up
 *                   ──whom to visit──────────► all others
 *            rank r ──all entries────────────► ranks r+1, r+2, r+4 .. below r's lowest bit, which visit it
 *
 * What the ranks know before they meet (a name, an address, a secret) is the same when a job is started again, while ranks of its last
 * run may still hang. So rank 0 makes a random number, the *run*, and tells it to whoever reports: all that comes afterwards has it in
 * its name, here and in the communicator. A rank that was told of another run is turned away; one that nobody has told anything yet
 * has done nothing that could tell it from a rank of this run, and is one if it comes first.
 *
 * At the deadline rank 0 tells everybody who is there which ranks are missing. What comes from a connection is checked; who is on
 * it has the job's key (bootstrap/hello.h).
 */
#ifndef TUTTI_PROCESS_ROLL_CALL_H
#define TUTTI_PROCESS_ROLL_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/launcher.h"
#include "os/tcp_socket.h"
#include "process/roll_message.h"
#include "tutti/tutti.h"

/* Where abstract sockets can be reached from this process, as others can compare it: this boot of this machine, and the
 * network namespace. NO_DESCRIPTORS, NO_MEMORY. */
enum tutti_status roll_machine(uint64_t *machine);
/* The host of this process: the same, and what TUTTI_HOSTID says, which so can set ranks apart but not put them together. */
enum tutti_status roll_host(uint64_t *host);
/* What TUTTI_HOSTID says, for ranks that have met on one host: those with different ones take themselves to be on different hosts. 0: it is
 * not set, which is one of its own. */
uint64_t roll_host_id(void);

struct roll_options {
    const struct launcher_place *place; /* rank, size, key, and what there is to meet by */
    struct roll_entry self;
    uint64_t deadline_ns;
    unsigned exchange_means; /* of enum exchange_means that may be used; 0: only rank 0's door */
    bool is_encrypted;       /* what goes between doors */
    const struct net_address *meeting; /* rank 0's door, and nothing else is tried; NULL: not known */
};

/* Blocks until everybody is there or the deadline: INIT_TIMEOUT, and the message names who is missing; INVALID_OPTIONS: some
 * encrypt and others do not, which all are told; PROC_FAILED: rank 0 is gone, and another run has its place. *meeting: a key of this run,
 * which no other one has. The process's door is
 * open (network.h), rank 0's at master_port or `meeting`. entries: room for one a rank. *message_count: what this rank sent and received. */
enum tutti_status roll_call(const struct roll_options *options, struct roll_entry *entries,
                            struct rendezvous_key *meeting, unsigned *message_count);

#endif
