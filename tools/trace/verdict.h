/* verdict.h - finds the rank at fault from the recorders of all ranks, laid side by
 * side. Pure.
 *
 *     dead       the communicator failed because of it, or it left no trace and others wait for it
 *     stalled    others wait for it, and one of them has noticed that its process does not run
 *     mismatched, desynchronised   its call of some number differs from the others'
 *     failed     something else ended the communicator, and says why
 *     late       others wait in a call that it has not called, and it is in none
 *                or it has called it, and waits for its gate; or a rank is blocked in a message to
 *                or from it
 *     slow link all ranks are in the same call; of those that wait, one has waited longest, for it
 */
#ifndef TUTTI_TOOLS_TRACE_VERDICT_H
#define TUTTI_TOOLS_TRACE_VERDICT_H

#include "studio/trace/trace_json.h"

/* A later kind explains the earlier ones: a dead rank makes others late. */
enum verdict_kind {
    VERDICT_NOTHING,
    VERDICT_SLOW_LINK,
    VERDICT_LATE,
    VERDICT_FAILED,
    VERDICT_STALLED,
    VERDICT_MISMATCHED,
    VERDICT_DESYNCHRONISED,
    VERDICT_DEAD
};

/* While nothing has failed, a rank that waits less than this counts as not kept waiting. */
#define VERDICT_PATIENCE_NS ((uint64_t)2000000000)

enum { VERDICT_TEXT_SIZE = 2048, VERDICT_WHY_SIZE = 1400 };

struct verdict {
    enum verdict_kind kind;
    int culprit;                  /* -1: no rank can be named */
    struct trace_place place;     /* of the culprit, if there is one */
    uint64_t sequence;            /* the call in which it shows; 0: it shows in none */
    char why[VERDICT_WHY_SIZE];   /* "" of VERDICT_NOTHING */
    char text[VERDICT_TEXT_SIZE]; /* who, what and why in one line, without its end */
    size_t surplus_count; /* dumps of all communicators that do not count: trace_json_keep_newest */
};

/* "is late"; "" of VERDICT_NOTHING. */
const char *verdict_words(enum verdict_kind kind);

/* Takes any number of traces, of one or more communicators, and reorders them. Of each rank the
 * newest counts, as in a report. NO_MEMORY. */
enum tutti_status verdict_find(struct trace_json *traces, size_t count, struct verdict *verdict);

#endif
