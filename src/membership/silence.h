/* silence.h - whether a rank that was told something is silent. Pure: time, and what is known of
 * the rank, are arguments.
 *
 *     told ──5 s without a sign of life──► silent ──a sign──► not silent
 *
 * A sign of life is anything that comes from the rank. At the end of the 5 s the word of its host's
 * kernel counts, too, which acknowledges what a process does not read, as long as there is a
 * connection: a rank that is stopped, or gets no CPU, is late and not gone.
 *
 * Time counts only as far as this process looks: a gap between two looks, in which it may not have
 * run, counts for 0.1 s at most.
 */
#ifndef TUTTI_MEMBERSHIP_SILENCE_H
#define TUTTI_MEMBERSHIP_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

/* The silence of a rank; zeroed at first: the rank was told nothing. */
struct silence {
    uint64_t told_ns;   /* when it was told something first, or gave a sign last; 0: it owes none */
    uint64_t looked_ns; /* the last look after that; 0: none yet */
    uint64_t silent_ns; /* the part of the time since that counts */
};

/* It is told something. */
void silence_tell(struct silence *silence, uint64_t now_ns);
/* One look, to be repeated every few milliseconds. heard_ns: when anything came from it last; 0:
 * never. True: it is silent, as far as the rank itself can tell: now its kernel is asked. */
bool silence_look(struct silence *silence, uint64_t heard_ns, uint64_t now_ns);
/* After such a look. answered_ns: when its host's kernel acknowledged anything last; 0: not known.
 * True: it is silent. */
bool silence_is_long(struct silence *silence, uint64_t answered_ns, uint64_t now_ns);

#endif
