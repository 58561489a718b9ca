/* comm.h - communicators as MPI's callers see them: one for each device of a group, or what is left
 * of one that could not be made. */
#ifndef TUTTI_JAX_COMM_H
#define TUTTI_JAX_COMM_H

#include "front/error.h"

struct front_comm {
    struct tutti_comm *comm; /* NULL: it could not be made */
    int rank, size;
    int class; /* of the failure */
    char message[FRONT_ERROR_BYTES];
};

/* The communicator of Tutti behind a handle on which operations can run, until front_leave;
 * otherwise an error, which says why not, and nothing to leave. Any thread; does not block. */
int front_comm_enter(const char *function, front_handle handle, struct tutti_comm **comm);

/* Frees all that are left. Blocks as tutti_comm_free does. */
void front_comms_free(void);

#endif
