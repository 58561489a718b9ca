/* progress.h - what was started moves. */
#ifndef TUTTI_COMM_PROGRESS_H
#define TUTTI_COMM_PROGRESS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "comm/request.h"
#include "transport/transport.h"

enum { STARTED_SLOT_COUNT = 16 };
static_assert(1 + STARTED_SLOT_COUNT == TRANSPORT_SLOT_MESSAGES, "every slot has one use");

/* The calls of a communicator, and those that are under way; with the domain held, but for the counters. */
struct calls {
    _Atomic uint64_t sequence;            /* calls so far */
    uint64_t unnumbered;                  /* before those: of its own, while it was made */
    uint64_t started;                     /* so far, also those in line */
    uint64_t begun_started;               /* of them, how many have got their slot */
    uint64_t begun[TRANSPORT_SLOT_COUNT]; /* in each slot */
    uint64_t mapped;              /* blocking ones whose algorithm heeds whether memory is mapped */
    struct call_request blocking; /* of slot 0 */
    struct call_request *running[TRANSPORT_SLOT_COUNT]; /* of each slot */
    struct call_request *order[STARTED_SLOT_COUNT];     /* the same, most urgent first */
    int running_count;
    _Atomic uint32_t outstanding; /* begun and not done; written with the domain held */
    uint64_t looked_ns;           /* when started calls and messages were last looked at */
};

/* One pass over everything that was started; domain held. True when something moved. */
bool comm_progress(struct tutti_comm *comm);
/* Starts a request with the domain held: at once, if nothing is before it. */
enum tutti_status comm_start_held(struct tutti_comm *comm, struct call_request *request);
/* Numbers a started call, which is made now: by one thread at a time. */
void comm_count_started(struct tutti_comm *comm, struct call_request *request);
/* Finds its program, unless it has one (is prepared), and holds that; domain held. */
enum tutti_status comm_find_program(struct tutti_comm *comm, struct call_request *request);
/* Makes sure that the progress thread knows this communicator; any thread. */
enum tutti_status comm_ensure_progress(struct tutti_comm *comm);

#endif
