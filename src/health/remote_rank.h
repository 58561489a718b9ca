/* remote_rank.h - ranks of other hosts: what they are told and asked, and whether they are there. */
#ifndef TUTTI_HEALTH_REMOTE_RANK_H
#define TUTTI_HEALTH_REMOTE_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "health/board.h"

/* Only for a communicator that has a network, if nothing else is said; with the domain held. */

struct health;

/* Asks a rank of another host for its call of that number in a slot, now and then; its answer comes to the remote board. */
void remote_ask(struct health *health, int rank, int slot, uint64_t begun);
/* False: there are none. */
bool remote_ask_all(struct health *health, int slot, uint64_t begun);
/* Asks how it came to that call, of which this rank knows no more; straggler.c hears the answer. False: not now. */
bool remote_ask_after(struct health *health, int rank, int slot, uint64_t begun);
/* What it said last of itself: its latest call, and whether it was in one; and of whom it took to hold that up. */
struct board_finding remote_standing(const struct health *health, int rank);
bool remote_is_in_call(const struct health *health, int rank);
/* How far it was with its calls when it answered last, and when that was (0: never); false: not known. */
bool remote_read_progress(const struct health *health, int rank, struct board_progress *progress);
uint64_t remote_progress_heard_ns(const struct health *health, int rank);
bool remote_hearsay(const struct health *health, int rank, struct board_finding *finding);
/* Whether a rank that is asked since that time has not answered for a while, but its kernel has. */
bool remote_is_stopped(const struct health *health, int rank, uint64_t since_ns, uint64_t now_ns);
/* Whether it is known how far that rank is with it. */
bool remote_knows_call(const struct health *health, int rank, int slot, uint64_t begun);
/* Tells a rank of another host, once, that there are messages for it. */
void remote_invite(struct health *health, int rank);
/* A rank of another host whose process is gone, as far as its connections and its port tell; -1. */
int remote_find_dead(struct health *health, uint64_t now_ns);
enum { COMM_TROUBLE_MAX = 164 };
/* The end of a message that a rank is missed: why connecting to it fails now, as "; connecting to ADDRESS: ..."; or "" if there is no such
 * trouble. peer -1: to any rank. */
void remote_trouble(const struct health *health, int peer, char text[COMM_TROUBLE_MAX]);
bool remote_is_dead(const struct health *health, int rank);
/* When anything came from it last; 0: never. */
uint64_t remote_heard_ns(const struct health *health, int rank);
/* Looks at all of them; and whether one of them has died for certain, not only vanished. */
void remote_look_at_all(struct health *health, uint64_t now_ns);
bool remote_has_ended(const struct health *health, int rank);
/* A message of an agreement, to a rank of another host; best effort. */
void remote_tell_agreement(struct health *health, int rank, const void *bytes, size_t byte_count);

#endif
