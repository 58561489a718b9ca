/* host_id.h - which host this process is on, as numbers that ranks can compare. */
#ifndef TUTTI_BOOTSTRAP_HOST_ID_H
#define TUTTI_BOOTSTRAP_HOST_ID_H

#include <stdint.h>

#include "tutti/tutti.h"

/* A number for the set of processes that can reach this process's abstract sockets: it follows from
 * this boot of this machine, and from the network namespace. NO_DESCRIPTORS, NO_MEMORY. */
enum tutti_status host_id_machine(uint64_t *machine);
/* A number for the host of this process. It follows from the machine and from TUTTI_HOSTID, which
 * can therefore set ranks of one machine apart but not put ranks of two machines together. */
enum tutti_status host_id_read(uint64_t *host);
/* The number for a host of that machine whose host_id_option is that. */
uint64_t host_id_of(uint64_t machine, uint64_t option);
/* The value of TUTTI_HOSTID as a number, for ranks that have met on one host: ranks with different
 * values take themselves to be on different hosts. 0: TUTTI_HOSTID is not set, which counts as a
 * value of its own. */
uint64_t host_id_option(void);
/* A number for the set of cores that this process may run on: equal for processes of one machine
 * with the same set. It does not tell whether two sets overlap. A process that is tied to one core
 * counts like a process that may use all cores, since it is one of several that are tied to others.
 * Not 0. NO_DESCRIPTORS, NO_MEMORY. */
enum tutti_status host_id_cores(uint64_t *cores);

#endif
