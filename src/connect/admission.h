/* admission.h - admission to a team: how processes that want to join it wait until it takes them in.
 *
 *     a member admits                     processes outside apply
 *       opens it: an address, a name         find both, in a store for example
 *         │ ◄── hello (hello.h) ───────────── have they the job's secret?
 *         │ ◄── application ──────────────── which process is it? The team lets some in no more (bars.h): refusal
 *         │ waits until enough have come     wait
 *         │ ─── invitation ────────────────► learn the new team, and where it meets
 *         │     both keep the connection until the new team is there, or nowhere
 *         │ ─── closes it ─────────────────► nothing came of it: they apply again
 *
 * 1. Only a process that has shown the job's secret in a hello waits for admission. A recorded hello
 *    shows nothing (hello.h), so it takes no place.
 * 2. Processes that have come wait in that order. One that goes loses its place; if it comes again,
 *    it is another one.
 * 3. The connection says that the other side is there: a joiner whose admitter's process ends, or
 *    whose admitter's host is silent for some seconds, finds it closed, and the admitter likewise.
 * 4. The name of an admission is no secret: a store may have it.
 * 5. At most WAITING_MAX processes wait, with at most a quarter of the descriptors of the admitter's
 *    process; CALLERS_MAX more have not applied yet, for two seconds at most. Further processes are
 *    sent away, and come again.
 *
 * Thread safety: one thread at a time may use an admission or an applicant. Nothing here waits; callers
 * call again and again.
 */
#ifndef TUTTI_CONNECT_ADMISSION_H
#define TUTTI_CONNECT_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "connect/admission_message.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

/* ------------------------------------------------------------------------------ a member's side */

struct admission;

/* Opens an admission with a new name, at this process's port, which stays open as long as it. bars:
 * processes that are refused, which must stay as long as the admission; or NULL.
 * UNSUPPORTED: this process listens on loopback, for another communicator. The caller owns
 * *admission. */
enum tutti_status admission_open(bool is_encrypted, const struct bars *bars,
                                 struct rendezvous_key *name, struct net_address *address,
                                 struct admission **admission);
/* Lets in whoever came; returns how many wait. */
int admission_look(struct admission *admission);
/* Invites the first joiner_count that wait; *invitation is the same for all but for their number.
 * survivors: a set of old_size ranks. A process that does not take it is lost. */
void admission_invite(struct admission *admission, const struct admission_invitation *invitation,
                      const uint64_t *survivors);
/* Whether a process that was invited has gone since. */
bool admission_has_lost(struct admission *admission);
/* Closes the connections to all that were invited. */
void admission_dismiss(struct admission *admission);
/* Sends all away, and closes the port unless others use it. NULL is fine. */
void admission_close(struct admission *admission);

/* ------------------------------------------------------------------------------ a joiner's side */

struct applicant;

/* Begins to apply. It tries until the deadline. The caller owns *applicant. */
enum tutti_status applicant_begin(const struct rendezvous_key *name,
                                  const struct net_address *address, bool is_encrypted,
                                  uint64_t deadline_ns, struct applicant **applicant);
/* OK: the invitation is complete, with the team's bars; survivors has room for ADMISSION_SET_WORDS_MAX
 * words. IN_PROGRESS: not yet. EXCLUDED: the team has put this process or its host out. PROC_FAILED: the admission ended before. INIT_TIMEOUT: nobody answered until the deadline.
 * AUTH_FAILED: the admitter has another secret. */
enum tutti_status applicant_test(struct applicant *applicant,
                                 struct admission_invitation *invitation, uint64_t *survivors,
                                 struct bars *bars);
/* Whether the admitter has taken the hello, so that this process waits. */
bool applicant_is_in(const struct applicant *applicant);
/* OK while the admitter keeps the connection; PROC_FAILED once it has closed it. */
enum tutti_status applicant_look(const struct applicant *applicant);
/* NULL is fine. */
void applicant_end(struct applicant *applicant);

#endif
