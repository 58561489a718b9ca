/* start.h - the job: its processes, and the devices of this one, each of which is a rank of Tutti.
 *
 *     not started ──► starting ──► started ──► finalized
 *          ▲              │
 *          └── failed ────┘      the message is kept for who asks later
 */
#ifndef TUTTI_JAX_START_H
#define TUTTI_JAX_START_H

#include <stdbool.h>

#include "front/error.h"

/* FRONT_SUCCESS while the job is started; otherwise an error with the reason. Any thread; does not
 * block. */
int front_require_start(const char *function);
/* The same, and until front_leave MPI_Finalize frees nothing: for calls that use communicators.
 * After an error there is nothing to leave. */
int front_enter(const char *function);
/* Returns `error`. */
int front_leave(int error);
/* Whether MPI_Finalize was called. */
bool front_is_finalized(void);

/* This process among all. */
void front_job(int *process, int *process_count);

/* Gives the calling thread the communicator of one device, with all devices of the job, for one
 * call. Only between front_enter and front_leave. Blocks while all devices of this process are
 * taken, until the start-up deadline. */
int front_device_take(const char *function, struct tutti_comm **device);
void front_device_give_back(struct tutti_comm *device);

/* The communicator of all processes if each has one device; otherwise an error. Only between
 * front_enter and front_leave; does not block. */
int front_world(const char *function, struct tutti_comm **world);

#endif
