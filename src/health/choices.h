/* choices.h - which algorithms the calls of this rank got on a communicator, and why: the last
 * choices that differ.
 *
 *     a program is made ──► choices_note ──► ring ──► trace_choices.h tells whoever asks a job that runs
 *
 * It stands beside the recorder (recorder.h), which knows for each call what it took, but not why.
 * A choice is made once for a shape of calls, so nothing here is on the way of a call.
 *
 * Invariants
 *  1. Choice n lies at n % the ring's size. A reader that finds the number n before and after the
 *     rest has read one choice.
 *  2. The thread that holds the domain writes; any thread may read meanwhile. None takes a lock.
 *  3. The memory comes with the first choice. If there is none, no choice is kept, and calls go on.
 *
 * Texts are not copied: they live as long as the communicator.
 */
#ifndef TUTTI_HEALTH_CHOICES_H
#define TUTTI_HEALTH_CHOICES_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "health/recorder.h"

enum { CHOICES_KEPT = 32, CHOICE_UNUSED_MAX = 4 };

/* An algorithm that was not chosen. */
struct choice_rival {
    const char *algorithm; /* NULL: none */
    const char *why;       /* it could not be; NULL: it would take longer */
    uint64_t expected_ps;  /* 0: not known */
    bool only_hosts;       /* as below */
};

struct choice_note {
    enum collective collective;
    enum tutti_dtype dtype;
    uint64_t count; /* elements, as called; of the v forms 0 */
    uint64_t bytes; /* of a block, as the choice took them */
    uint64_t signature;
    const char *algorithm;
    const char *reason;
    uint64_t expected_ps; /* by the model; 0: it was not asked */
    unsigned radix;       /* 0: the algorithm's default */
    bool only_hosts;      /* there are racks, and the plan has no level for them */
    bool varies;          /* a v form */
    bool bytes_are_assumed, is_mapped;
    const char *encoding;     /* of elements on some links; NULL: they go as they are */
    struct choice_rival next; /* the second best, if any were compared */
    struct choice_rival unused[CHOICE_UNUSED_MAX]; /* plans of the user that might have been chosen */
    uint64_t unused_left_out;                      /* how many more of them there were */
};

enum { CHOICE_NOTE_WORDS = sizeof(struct choice_note) / sizeof(uint64_t) };
static_assert(sizeof(struct choice_note) % sizeof(uint64_t) == 0, "copied word by word");

struct choice_entry {
    _Atomic uint64_t number; /* 0 while the rest is being written */
    _Atomic uint64_t words[CHOICE_NOTE_WORDS];
};

/* A plan of the user that cannot be chosen on this communicator at all. */
struct unused_plan {
    const char *algorithm;
    enum collective collective; /* COLLECTIVE_COUNT: nobody knows it, for the file cannot be read */
    char why[120];
};
enum { UNUSED_PLANS_MAX = 8 };

struct choices {
    struct choice_entry *_Atomic entries; /* NULL: there was none yet */
    _Atomic uint64_t latest;              /* number of the latest choice, from 1 */
    _Atomic uint64_t forgotten;           /* so do those up to this number count as not there */
    struct unused_plan *_Atomic plans;    /* NULL: none */
    _Atomic int plan_count;
    _Atomic uint64_t plans_left_out; /* for which there was no room */
};

/* With the domain held. A choice that is there already is not kept twice. */
void choices_note(struct choices *choices, const struct choice_note *note);
/* The first UNUSED_PLANS_MAX are kept, and the others counted. One thread at a time. */
void choices_note_unused(struct choices *choices, enum collective collective, const char *algorithm,
                         const char *why);
/* Forgets the choices so far. With the domain held. */
void choices_restart(struct choices *choices);
/* No other code reads. */
void choices_release(struct choices *choices);
size_t choices_bytes(const struct choices *choices); /* of memory */

/* Choice `number`; false when it is not there, or not any more. Any thread, as the rest. */
bool choices_read(const struct choices *choices, uint64_t number, struct choice_note *note);
static inline uint64_t choices_latest(const struct choices *choices)
{
    return atomic_load_explicit(&choices->latest, memory_order_acquire);
}
/* The oldest one that may be there, where `last` is the newest; more than that: there is none. */
static inline uint64_t choices_first(const struct choices *choices, uint64_t last)
{
    const uint64_t forgotten = atomic_load_explicit(&choices->forgotten, memory_order_relaxed);
    return forgotten + CHOICES_KEPT >= last ? forgotten + 1 : last - CHOICES_KEPT + 1;
}
/* Plan i, from 0, that cannot be chosen at all; NULL: there are no more. */
const struct unused_plan *choices_unused(const struct choices *choices, int i);
/* How many more such plans there were. */
uint64_t choices_unused_left_out(const struct choices *choices);
/* The latest choice that a call of the recorder may have been made with, and its number; 0: none is
 * known. Calls of one collective, count, dtype and algorithm are alike here, in whatever memory
 * they are; of the v forms those with the same counts. */
uint64_t choices_find(const struct choices *choices, const struct record *call,
                      struct choice_note *note);

#endif
