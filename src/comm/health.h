/* health.h - what the ranks of a communicator know of each other besides data: who is there, who holds up whom, why it failed. */
#ifndef TUTTI_COMM_HEALTH_H
#define TUTTI_COMM_HEALTH_H

#include <stdatomic.h>
#include <stdint.h>

#include "comm/board.h"
#include "comm/deaths.h"
#include "comm/recorder.h"
#include "comm/report.h"
#include "comm/straggler.h"
#include "comm/trace.h"

struct health {
    struct board *board;        /* shared by the ranks of this host; a private one for one rank */
    struct board *remote_board; /* what this rank was told of those of other hosts; or NULL */
    struct letter_ring *letters; /* of this host's ranks, by local number, behind the board; NULL for one */
    struct recovery *_Atomic recovery; /* NULL: nothing was ever agreed on, see recover.h */
    struct processes processes;
    _Alignas(64) struct recorder recorder; /* of calls, which are numbered by their sequence */
    struct recorder message_recorder;      /* from the first message on */
    struct comm_report report;
    struct straggler straggler;
    struct trace trace;
};

#endif
