/* sim.h - machines and a network between them that exist in virtual time only: messages are lost,
 * doubled, late and overtake each other; machines crash, also in the middle of a broadcast, stall,
 * and are cut off from each other.
 *
 * All chance comes from one seed, so a run is repeated bit for bit. All that happens is in one
 * queue of events: messages, and whatever the caller puts there. Nothing happens at a machine that
 * has crashed. At a machine that stalls, events happen afterwards, in their order.
 *
 * Messages are enough for agreements and heartbeats. Links that lose nothing are made of events
 * (net.h).
 *
 * One thread at a time. Nothing fails: if memory is lacking, the process ends. This module is for
 * tests, and part of no library. */
#ifndef TUTTI_TESTS_SIM_SIM_H
#define TUTTI_TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_NODES_MAX = 33, SIM_NOBODY = -1, SIM_MESSAGE = 0 };

struct sim_weather {
    unsigned lost_permille, doubled_permille, late_permille;
    uint64_t delay_ns_min, delay_ns_max;
    uint64_t late_ns_max; /* on top, for those that are late */
};

/* Kinds other than SIM_MESSAGE are the caller's. */
struct sim_event {
    uint64_t at_ns, order;
    int kind;
    int node;   /* where it happens; SIM_NOBODY: everywhere */
    int number; /* of a message: its sender */
    int tag;
    size_t byte_count;
    unsigned char *bytes; /* of a message; until the next call of sim_next */
};

struct sim;

struct sim *sim_create(uint64_t seed);
void sim_free(struct sim *sim);

uint64_t sim_now_ns(const struct sim *sim);
uint64_t sim_random(struct sim *sim);
/* 0 .. bound - 1; from .. to. */
unsigned sim_below(struct sim *sim, unsigned bound);
uint64_t sim_between(struct sim *sim, uint64_t from, uint64_t to);
bool sim_chance(struct sim *sim, unsigned permille);

void sim_set_weather(struct sim *sim, const struct sim_weather *weather);
void sim_send(struct sim *sim, int from, int to, int tag, const void *bytes, size_t byte_count);
void sim_at(struct sim *sim, uint64_t at_ns, int kind, int node, int number, int tag);
/* False: nothing is left to happen. */
bool sim_next(struct sim *sim, struct sim_event *event);

/* The parts of sim_send, for callers that carry something else in the same way: how long a message
 * takes; whether it gets lost; and, to be asked before these, whether the node still sends it:
 * false if the node is down, perhaps from this very moment. */
uint64_t sim_delay_ns(struct sim *sim, int from, int to);
bool sim_loses(struct sim *sim, int from, int to);
bool sim_says(struct sim *sim, int node);
/* The same message over a connection: it comes once, and late if it would have got lost; only a cut
 * loses it. */
void sim_tell(struct sim *sim, int from, int to, int tag, const void *bytes, size_t byte_count);
/* The time after which something is said again. */
uint64_t sim_again_ns(struct sim *sim);

void sim_crash(struct sim *sim, int node);
/* It crashes after that many more messages. UINT_MAX: never mind. */
void sim_crash_after(struct sim *sim, int node, unsigned message_count);
bool sim_is_up(const struct sim *sim, int node);
void sim_stall(struct sim *sim, int node, uint64_t until_ns);
/* Both ways; what is on its way is lost, too, if it would arrive meanwhile. */
void sim_cut(struct sim *sim, int one, int other, bool is_cut);
bool sim_is_cut(const struct sim *sim, int one, int other);
/* Messages in this direction take up to that much longer, and get lost that often, whatever the
 * weather. */
void sim_spoil(struct sim *sim, int from, int to, uint64_t extra_ns_max, unsigned lost_permille);

/* The fingerprint of all that has happened so far. */
uint64_t sim_fingerprint(const struct sim *sim);

#endif
