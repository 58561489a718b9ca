/* recover.h - what still works on a communicator when ranks of it have failed: agreeing, and going
 * on without them.
 *
 * The protocol is membership/agreement.h; here it gets its messages (messages on one host, control
 * messages to others), its knowledge of who is dead or out of reach, and its time. The calls are
 * collective over the ranks that are left, in the same order on each; each agreement has the next
 * epoch, and the last two are kept to answer ranks that missed something, by the progress thread
 * too.
 *
 *     shrink:   agree on who is left ──► these meet under a key of that agreement ──► agree that all could
 *                      ▲                                                                  │ no: somebody died meanwhile
 *                      └──────────────────────────────────────────────────────────────────┘
 *
 * A rank that is slow, or stopped, is waited for. One that was told something and gives no sign of
 * life for 5 s is suspected, and may be left out: membership/silence.h says what a sign is.
 *
 * A rank that left is treated as dead: it takes no part any more. Its last messages are read first,
 * because it tells all others what it knows before it leaves.
 * If it had decided something that this rank has not decided when it left, it is treated as suspected:
 * members of a team that has grown leave the old one like that, and what they decided lives on.
 */
#ifndef TUTTI_HEALTH_RECOVER_H
#define TUTTI_HEALTH_RECOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct health;

/* Whether this rank has taken part in an agreement; any thread. */
bool recover_has_begun(const struct health *health);
/* Answers others on this host, if ever there was an agreement; domain held. */
void recover_listen(struct health *health);
/* Takes what a rank of another host says of an agreement; domain held; may only tell. */
void recover_hear(struct health *health, int from, const void *bytes, size_t byte_count);
/* Whether an agreement found a rank dead or gone, even if no call has failed because of that;
 * domain held. */
bool recover_has_lost(const struct health *health);
void recover_free(struct health *health);
/* The bytes that malloc holds for agreements. */
size_t recover_bytes(const struct health *health);

#endif
