/* calls.h - the calls of a communicator that are under way, and how many there were. */
#ifndef TUTTI_CALL_CALLS_H
#define TUTTI_CALL_CALLS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "call/all_memory.h"
#include "call/repeat.h"
#include "call/report.h"
#include "call/request.h"
#include "transport/transport.h"

enum { STARTED_SLOT_COUNT = 16 };
static_assert(1 + STARTED_SLOT_COUNT == TRANSPORT_SLOT_MESSAGES, "every slot has one use");

/* The calls of a communicator. Only the thread that holds the domain may touch them, but for the
 * atomic counters. */
struct calls {
    uint64_t started;                     /* started calls so far, queued ones included */
    uint64_t begun_started;               /* how many of them have got a slot */
    uint64_t begun[TRANSPORT_SLOT_COUNT]; /* in each slot */
    struct all_memory all_memory;
    struct repeated_call repeated;
    struct call_request blocking;                       /* of slot 0 */
    struct call_request *running[TRANSPORT_SLOT_COUNT]; /* in each slot */
    struct call_request *order[STARTED_SLOT_COUNT];     /* the same requests, most urgent first */
    int running_count;
    _Atomic uint32_t outstanding; /* begun and not done; written with the domain held */
    struct report_call report;    /* what was said of who holds one up */
    uint64_t looked_ns;           /* when started calls and messages were last looked at */
};

#endif
