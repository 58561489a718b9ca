/* tutti-trace_verdict.h - what the recorders of all ranks, laid side by side, say about who is at fault. Pure.
 *
 *     dead       the communicator failed of it, or it left no trace and others wait for it
 *     mismatched, desynchronised   its call of some number is another one than the others'
 *     failed     something else ended the communicator, and says why
 *     late       others wait in a call that it has not called, and it is in none
 *                or it has called it, and waits for its gate; or somebody is blocked in a message to or from it
 *     slow link  everybody is in the same call; of those who wait, one has waited longest, for it
 */
#ifndef TUTTI_TOOLS_TRACE_VERDICT_H
#define TUTTI_TOOLS_TRACE_VERDICT_H

#include "format/trace_json.h"

/* In the order of what explains what: a dead rank makes others late. */
enum verdict_kind {
    VERDICT_NOTHING,
    VERDICT_SLOW_LINK,
    VERDICT_LATE,
    VERDICT_FAILED,
    VERDICT_MISMATCHED,
    VERDICT_DESYNCHRONISED,
    VERDICT_DEAD
};

/* While nothing has failed, who waits less than this is not kept waiting. */
#define VERDICT_PATIENCE_NS ((uint64_t)2000000000)

enum { VERDICT_TEXT_SIZE = 2048 };

struct verdict {
    enum verdict_kind kind;
    int culprit;                  /* -1: nobody can be named */
    char text[VERDICT_TEXT_SIZE]; /* one line, without its end */
};

/* Of any number of traces, of one or more communicators; reorders them. INVALID_OPTIONS: traces of one communicator do not fit
 * together; NO_MEMORY. */
enum tutti_status verdict_find(struct trace_json *traces, size_t count, struct verdict *verdict);

#endif
