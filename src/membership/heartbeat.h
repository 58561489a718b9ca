/* heartbeat.h - which hosts are still there, found out by all of them together. Pure: time and
 * messages are arguments.
 *
 *     host 0 ──heartbeat──► 1, 2, 4, ...          each host tells those at distances 1, 2, 4, ... in a ring of all: log2 n of them
 *     host 1 ──heartbeat──► 2, 3, 5, ...          a heartbeat has, for every host, the newest number that its sender knows
 *
 *     unheard ──► alive ──1 s silent──► suspect ──2 s more──► verdict, for good
 *                  ▲ │                     │
 *                  │ └─silent, but its     └──heard again──► alive
 *                  │   kernel answers──► stalled
 *                  └───────heard again──────┘
 *
 * One host is one participant: one process sends for all of its ranks. Every period it counts its
 * own number up and tells its neighbours all numbers; a host that hears a larger one of some host
 * has heard of that host. So news of every host reaches every host in log2 n steps, by whatever way
 * is left, and a connection that breaks between two hosts makes no host a suspect. While one is
 * suspected all others are told, too, four per period in turns, for the neighbours that are left
 * may not hold together.
 *
 * A host of which nothing new comes may be cut off, or dead, or its process may only be stopped or
 * starved. A host that has a connection to it sees the difference: a kernel acknowledges what a
 * process does not read. That evidence is passed on as a second number of the silent host, which
 * each host with new evidence counts up. The silent host is then *stalled*, and no verdict is
 * passed on it.
 *
 * The verdict. When a host was suspected for 2 s, all suspects are taken together. If the others,
 * as far as they were heard, have more than half of the ranks, or half of them with the lowest
 * rank, they go on without the suspects: the culprit is the lowest suspected host. Else this side
 * is a minority and may not go on. Hosts that vanish after a verdict are judged as soon as others
 * were before, so that the survivors of one failure do not wait for the next one.
 *
 * Invariants
 *   1. If a cut stays for the time of a verdict, at most one side goes on: sides share no host,
 *      so they cannot both have a majority. A host that one side counts as its own was heard there
 *      within the last second; it passes on which hosts it hears, so a side that counts it suspects
 *      none of these. (A host that changes sides just after one had its verdict may be counted by
 *      both, one after the other. To settle that takes an agreement that waits for answers; this
 *      only detects.)
 *   2. One side names one culprit. When hosts vanish in short succession (1 s), all wait until the
 *      suspicion of all of them is as old; then the lowest host that is not suspected decides
 *      first, and its word reaches the others, which adopt it, before they would decide by
 *      themselves 0.4 s later: they have heard the same numbers, some steps apart.
 *   3. Time in which this process itself did not run counts as no host's silence.
 *   4. A host that was never heard is not suspected, but it does not count for a majority either.
 *   5. When a host says that it leaves, all hosts stop judging: its silence means nothing, nor does
 *      that of the hosts whose heartbeats it would have passed on.
 *
 * It does not send, tell others of the verdict (a host that hears of one adopts it), or find out
 * which process of a host died.
 *
 * Cost: each host sends log2 n messages in a period, with 4 bytes for each host. Limits: all hosts
 * use one period; numbers are compared modulo 2^16.
 *
 * R. van Renesse, Y. Minsky, M. Hayden: A gossip-style failure detection service. Middleware 1998
 * (numbers that rise, and are merged). A. Das, I. Gupta, A. Motivala: SWIM: scalable
 * weakly-consistent infection-style process group membership. DSN 2002 (suspicion before the
 * verdict, taken back by what others heard). G. Bosilca, A. Bouteiller, A. Guermouche, T. Herault,
 * Y. Robert, P. Sens, J. Dongarra: Failure detection and propagation in HPC systems. SC 2016 (a
 * ring of observers, and the verdict over a graph of logarithmic diameter).
 */
#ifndef TUTTI_MEMBERSHIP_HEARTBEAT_H
#define TUTTI_MEMBERSHIP_HEARTBEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum {
    HEARTBEAT_PART_HOSTS = 120,
    HEARTBEAT_PARTS_MAX = 4,
    HEARTBEAT_HOSTS_MAX = HEARTBEAT_PART_HOSTS * HEARTBEAT_PARTS_MAX,
    HEARTBEAT_BYTES_MAX = 4 + 4 * HEARTBEAT_PART_HOSTS,
    /* in periods: */
    HEARTBEAT_SUSPECT = 10,
    HEARTBEAT_VERDICT = 30
};

enum heartbeat_state { HEARTBEAT_UNHEARD, HEARTBEAT_ALIVE, HEARTBEAT_STALLED, HEARTBEAT_SUSPECTED };

struct heartbeat_options {
    int host, host_count;   /* this one, of how many: 2 to HEARTBEAT_HOSTS_MAX */
    const int *rank_counts; /* of each host; copied. Host 0 has the lowest rank */
    uint64_t period_ns;
    uint64_t now_ns, first_ns; /* of the first heartbeat */
};

struct heartbeat_verdict {
    bool is_minority;
    int culprit;        /* the lowest suspected host */
    int suspect_count;  /* hosts */
    uint64_t silent_ns; /* of the culprit */
};

struct heartbeat;

/* NO_MEMORY. */
enum tutti_status heartbeat_create(const struct heartbeat_options *options,
                                   struct heartbeat **heartbeat);
void heartbeat_free(struct heartbeat *heartbeat);
/* The bytes that malloc holds for it. */
size_t heartbeat_bytes(const struct heartbeat *heartbeat);

/* Lets time pass, to be called a few times per period; true when heartbeats are due, see
 * heartbeat_next. */
bool heartbeat_progress(struct heartbeat *heartbeat, uint64_t now_ns);
/* The next host to send a heartbeat to; false: that was all. is_poke: the host is silent, and gets
 * something that its kernel must acknowledge, so this must be sent even when the host has not heard
 * the previous heartbeat. */
bool heartbeat_next(struct heartbeat *heartbeat, int *host, bool *is_poke);
/* The number of parts of a heartbeat, one message each. */
int heartbeat_part_count(const struct heartbeat *heartbeat);
/* Returns its size. */
size_t heartbeat_write(const struct heartbeat *heartbeat, int part,
                       unsigned char bytes[HEARTBEAT_BYTES_MAX]);
/* A part of a heartbeat has come; it may be anything. */
void heartbeat_hear(struct heartbeat *heartbeat, const void *bytes, size_t byte_count,
                    uint64_t now_ns);

/* Whether it matters when that host's kernel answered last, and then: when it did, or 0. */
bool heartbeat_wants_answer(const struct heartbeat *heartbeat, int host);
void heartbeat_answered(struct heartbeat *heartbeat, int host, uint64_t at_ns);

/* This host leaves, or another one has: heartbeats go on to say so, and no host is judged any
 * more. */
void heartbeat_end(struct heartbeat *heartbeat);

enum heartbeat_state heartbeat_state(const struct heartbeat *heartbeat, int host);
/* For how long nothing was heard of it. */
uint64_t heartbeat_silence_ns(const struct heartbeat *heartbeat, int host);
/* A host whose state is another one than at the last call for it; false: no more. For the log. */
bool heartbeat_change(struct heartbeat *heartbeat, int *host, enum heartbeat_state *before,
                      enum heartbeat_state *now);
/* Whether the hosts that are heard, with this one, could not go on without the others. */
bool heartbeat_is_minority(const struct heartbeat *heartbeat);
/* The first verdict: true from the moment on that it is found; then it stays, but that a later one
 * may make this side a minority. */
bool heartbeat_judge(const struct heartbeat *heartbeat, struct heartbeat_verdict *verdict);
/* A host on which there was a verdict, the first or a later one, and that was not named here
 * before; false: no more. */
bool heartbeat_condemned(struct heartbeat *heartbeat, int *host);
/* Whether a host is suspected on which there was no verdict yet. */
bool heartbeat_has_open_suspects(const struct heartbeat *heartbeat);

#endif
