/* choose.h - chooses an algorithm for a call: a pure function of values that all ranks share.
 *
 * The first of these that names an algorithm decides: the call, the rules, the table of
 * measurements, the model. The call and the rules insist: if they name an algorithm that cannot do
 * the call, that is an error. The others only propose.
 */
#ifndef TUTTI_TUNE_CHOOSE_H
#define TUTTI_TUNE_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>

#include "algo/algo.h"
#include "tune/ranking.h"
#include "tune/rules.h"

struct choose_call {
    struct tune_question question;
    const struct tune_site *site;
    int root;           /* 0, where the collective has none */
    bool deterministic; /* one association tree for all elements */
    bool in_rank_order; /* operands: the operation does not commute */
    bool is_encoded;    /* on some links: replicas must stay bit-identical nevertheless */
    bool goes_in_units; /* encoded in units of several elements, for plans in which a contribution is encoded once on each level before its owner has it */
    bool ends_within_units; /* blocks do, so that no message may go on behind the end of one */
    bool varies;            /* blocks have counts of their own */
    bool counts_are_local;  /* and go end to end; no other rank knows them or question.bytes */
    const struct algorithm *algorithm; /* asked for; or NULL */
    unsigned radix;                    /* of it; 0: its default */
    const struct rules *rules;         /* of the communicator; or NULL */
};

/* Why an algorithm was chosen: X(ENUMERATOR, text) */
#define CHOICE_REASON_LIST(X)                                   \
    X(ASKED, "the call asks for it")                            \
    X(RULES, "the rules for algorithms ask for it")             \
    X(TABLE, "the table of measurements has it as the fastest") \
    X(MODEL, "the model takes it to be the fastest")

enum choice_reason {
#define X(enumerator, text) CHOICE_##enumerator,
    CHOICE_REASON_LIST(X)
#undef X
        CHOICE_REASONS
};
const char *choice_reason_text(enum choice_reason reason);

struct choice {
    const struct algorithm *algorithm;
    unsigned radix; /* 0: its default */
    bool only_hosts; /* the plan is to be made with the level of hosts alone: for this call, racks are no help */
    enum choice_reason reason;
    struct ranked next; /* maybe second by the model: see choose_next; no algorithm: not compared */
    uint64_t time_ps;   /* by the model, where it decided */
};

/* Calls of which no rank knows all counts are assumed to have blocks of so many bytes. */
enum { CHOOSE_ASSUMED_BLOCK_BYTES = 256 << 10 };

/* INVALID_ALGORITHM: there is none of that name for this collective and rank count, or it cannot do
 * the call. */
enum tutti_status choose_algorithm(const struct choose_call *call, struct choice *choice);
/* The second best algorithm by the model, for messages to people: it takes the model as long again.
 * No algorithm: there is none, or nothing was compared. NO_MEMORY. */
enum tutti_status choose_next(const struct choose_call *call, const struct choice *choice,
                              struct ranked *next);
/* Whether the call may get the algorithm without asking for it. */
bool choose_may_take(const struct choose_call *call, const struct algorithm *algorithm);
/* The time that each algorithm would take, apart from rules and wishes. Much more work than a
 * choice. NO_MEMORY. */
enum tutti_status choose_ranking(const struct choose_call *call, struct ranking *ranking);
/* NULL: the call can use the algorithm. Otherwise why it cannot: a static text, such as "needs a
 * commutative operation". */
const char *choose_why_not(const struct choose_call *call, const struct algorithm *algorithm);
/* The same of what encoded links alone ask of an algorithm; looks at the members of the call that
 * say how it is encoded. */
const char *choose_why_not_encoded(const struct choose_call *call,
                                   const struct algorithm *algorithm);
/* The same for a call that does not ask for it; NULL if choose_may_take is true. */
const char *choose_why_not_unasked(const struct choose_call *call,
                                   const struct algorithm *algorithm);

#endif
