/* health.h - what a rank knows of the others: which are there, which delay calls, and why the communicator failed. */
#ifndef TUTTI_COMM_HEALTH_H
#define TUTTI_COMM_HEALTH_H

#include <stdatomic.h>
#include <stdint.h>

#include "comm/report.h"
#include "comm/straggler.h"
#include "comm/trace.h"
#include "health/board.h"
#include "health/processes.h"
#include "health/recorder.h"

struct health {
    struct board *board; /* shared by the ranks of this host; private memory where there is one rank */
    struct board *remote_board; /* what ranks of other hosts have told this one; NULL: all are on one host */
    struct control_ring *
        control_rings; /* of each rank of this host, by local number, behind the board; NULL: one rank */
    struct recovery *_Atomic recovery; /* NULL until the first agreement, see recover.h */
    struct processes processes;
    _Alignas(64) struct recorder recorder; /* the last calls, by sequence number */
    struct recorder message_recorder;      /* the last messages */
    struct comm_report report;
    struct straggler straggler;
    struct trace trace;
};

#endif
