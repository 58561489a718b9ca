/* remote_rank.h - one rank of another host: what it is told and asked, what it has answered, and
 * whether it is there. network.h is about all of them.
 *
 * For a communicator with a network only, unless a function says otherwise; with the domain held.
 * Whether a rank is there is found out by transport/tcp/gone.h and membership/heartbeat.h. */
#ifndef TUTTI_HEALTH_REMOTE_RANK_H
#define TUTTI_HEALTH_REMOTE_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "health/board.h"

struct health;

/* Asks it for its call of that number in a slot, unless it was asked just now; the answer goes to
 * the remote board. Also after a failure, when musters ask which call it is in. */
void remote_ask(struct health *health, int rank, int slot, uint64_t begun);
/* Asks all of them; false if there are none. */
bool remote_ask_all(struct health *health, int slot, uint64_t begun);
/* Asks when it came to that call; straggler.c gets the answer. False: not now. */
bool remote_ask_after(struct health *health, int rank, int slot, uint64_t begun);
/* Whether it said that it leaves. Any thread. */
bool remote_has_left(const struct health *health, int rank);
/* Of a rank that left: 1 + the last agreement that it may have decided; 0: it has not said. */
uint64_t remote_left_at(const struct health *health, int rank);
/* Its latest calls in a slot, as far as it told them; to be read only. */
struct board_call *remote_calls(const struct health *health, int rank, int slot);
/* The latest call of which it told, and whether it was in one; and (hearsay) which rank it took to
 * delay that call. */
struct board_finding remote_standing(const struct health *health, int rank);
bool remote_is_in_call(const struct health *health, int rank);
/* Whether it was in a call that makes agreements when it answered last. */
bool remote_agrees(const struct health *health, int rank);
/* The numbers of calls that it had made when it answered last, and when that was (0: never). False:
 * not known. */
bool remote_read_progress(const struct health *health, int rank, struct board_progress *progress);
uint64_t remote_progress_heard_ns(const struct health *health, int rank);
bool remote_hearsay(const struct health *health, int rank, struct board_finding *finding);
/* Whether it has been asked for a while and has not answered, although its kernel has acknowledged
 * that: its process is stopped. */
bool remote_is_stopped(const struct health *health, int rank, uint64_t now_ns);
/* For how long it has said nothing although it was asked; 0: it is of this host, was not asked, or
 * has heard all that it was asked. */
uint64_t remote_silent_ns(const struct health *health, int rank, uint64_t now_ns);
/* Whether it has said how far it is with that call. */
bool remote_knows_call(const struct health *health, int rank, int slot, uint64_t begun);
/* Tells it, once, that messages are sent to it: it has to listen from then on. */
void remote_invite(struct health *health, int rank);
/* The first rank of another host whose process is gone, as far as its connections and its port
 * tell; -1: none. */
int remote_find_dead(struct health *health, uint64_t now_ns);
enum { COMM_TROUBLE_MAX = 164 };
/* For the end of an error that a rank is missing: why connecting to it fails now, as "; connecting
 * to ADDRESS: ...", or "" if it does not. peer -1: to any rank. */
void remote_trouble(const struct health *health, int peer, char text[COMM_TROUBLE_MAX]);
bool remote_is_dead(const struct health *health, int rank);
/* An agreement has decided that these ranks are left (membership/rank_set.h). A rank that this one
 * takes for dead, because it hears nothing of it, may be among them: the others reach it. */
void remote_note_agreement(struct health *health, const uint64_t *set);
/* Whether this rank takes it for dead, and the last agreement did not find it alive after that. */
bool remote_is_missed(const struct health *health, int rank);
/* When anything came from it last; 0: never. */
uint64_t remote_heard_ns(const struct health *health, int rank);
/* When its kernel acknowledged anything last, whether its process runs or not; 0: not known. */
uint64_t remote_answered_ns(const struct health *health, int rank);
/* Looks at all ranks of other hosts. Then: whether that one has ended for certain, and has not only
 * vanished. */
void remote_look_at_all(struct health *health, uint64_t now_ns);
bool remote_has_ended(const struct health *health, int rank);
/* Sends it a message of an agreement; best effort. */
void remote_tell_agreement(struct health *health, int rank, const void *bytes, size_t byte_count);

#endif
