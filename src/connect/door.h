/* door.h - the door of a team: where processes that want to join it wait until they are taken in.
 *
 *     a member keeps the door              processes outside
 *       opens it: an address, a name         find both, in a store for example
 *         │ ◄── hello (hello.h) ───────────── knock: have they the job's secret?
 *         │ waits until enough have come     wait
 *         │ ─── invitation ────────────────► learn the new team, and where it meets
 *         │     both keep the connection until the new team is there, or nowhere
 *         │ ─── closes it ─────────────────► nothing came of it: they knock again
 *
 * 1. Only a process that has shown the job's secret in a hello waits at the door. A recorded hello
 *    shows nothing (hello.h), so it takes no place.
 * 2. Processes that have come wait in that order. One that goes loses its place; if it comes again,
 *    it is another one.
 * 3. The connection says that the other side is there: a joiner whose keeper's process ends, or
 *    whose keeper's host is silent for some seconds, finds it closed, and the keeper likewise.
 * 4. The name of the door is no secret: a store may have it.
 *
 * Thread safety: one thread at a time may use a door or a knock. Nothing here waits; callers call
 * again and again.
 */
#ifndef TUTTI_CONNECT_DOOR_H
#define TUTTI_CONNECT_DOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "connect/door_message.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

/* ------------------------------------------------------------------------------ a member's side */

struct door;

/* Opens a door with a new name, at this process's port, which stays open as long as the door.
 * UNSUPPORTED: this process listens on loopback, for another communicator. The caller owns
 * *door. */
enum tutti_status door_open(bool is_encrypted, struct rendezvous_key *name,
                            struct net_address *address, struct door **door);
/* Lets in whoever came; returns how many wait. */
int door_look(struct door *door);
/* Invites the first joiner_count that wait; *invitation is the same for all but for their number.
 * survivors: a set of old_size ranks. A process that does not take it is lost. */
void door_invite(struct door *door, const struct door_invitation *invitation,
                 const uint64_t *survivors);
/* Whether a process that was invited has gone since. */
bool door_has_lost(struct door *door);
/* Closes the connections to all that were invited. */
void door_dismiss(struct door *door);
/* Sends all away, and closes the port unless others use it. NULL is fine. */
void door_close(struct door *door);

/* ------------------------------------------------------------------------------ a joiner's side */

struct knock;

/* Begins to knock at a door. It tries until the deadline. The caller owns *knock. */
enum tutti_status knock_begin(const struct rendezvous_key *name, const struct net_address *address,
                              bool is_encrypted, uint64_t deadline_ns, struct knock **knock);
/* OK: the invitation is complete; survivors has room for DOOR_SET_WORDS_MAX words. IN_PROGRESS: not
 * yet. PROC_FAILED: the door was closed before. INIT_TIMEOUT: nobody opened until the deadline.
 * AUTH_FAILED: the keeper has another secret. */
enum tutti_status knock_test(struct knock *knock, struct door_invitation *invitation,
                             uint64_t *survivors);
/* Whether the keeper has let this process in, so that it waits at the door. */
bool knock_is_in(const struct knock *knock);
/* OK while the keeper keeps the connection; PROC_FAILED once it has closed it. */
enum tutti_status knock_look(const struct knock *knock);
/* NULL is fine. */
void knock_end(struct knock *knock);

#endif
