/* domain.h - who moves what belongs to a communicator: one thread at a time. */
#ifndef TUTTI_COMM_DOMAIN_H
#define TUTTI_COMM_DOMAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "process/progress.h"

struct domain {
    _Alignas(64) _Atomic uint32_t lock; /* 1: some thread has it */
    _Atomic uint32_t wanted;            /* threads that wait for it */
    _Atomic unsigned awake_doubled;     /* how often the time before a sleep was doubled */
    _Atomic bool has_output;    /* something that is over here still waits for room in a socket */
    bool spins;                 /* a look costs no system call, and each rank here has a core */
    bool looks_rarely;          /* whoever has the domain will not look again soon */
    bool has_paused;            /* the progress thread has, since its last pass */
    _Atomic bool is_registered; /* the progress thread knows it */
    struct progress_client client;
};

#endif
