/* launcher.h - who started this process, and as which rank of what: read from the environment, by a table. */
#ifndef TUTTI_BOOTSTRAP_LAUNCHER_H
#define TUTTI_BOOTSTRAP_LAUNCHER_H

#include "bootstrap/rendezvous.h"
#include "tutti/tutti.h"

struct launcher_place {
    const char *launcher; /* static */
    int rank, size;
    struct rendezvous_key key; /* the same for all ranks of the job, another one for each call in a process */
};

/* Fills *place. INVALID_OPTIONS when no launcher is recognised or what it says makes no sense; the message
 * names the variable. Reads the environment: not while another thread changes it. */
enum tutti_status launcher_detect(struct launcher_place *place);

#endif
