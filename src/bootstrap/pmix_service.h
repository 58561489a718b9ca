/* pmix_service.h - keys through PMIx: the service of Open MPI's mpirun, of srun --mpi=pmix and
 * others.
 *
 *  1. The library (libpmix.so.2) is loaded when it is first needed, and never unloaded: it has
 *     threads. Tutti can be built without its header (pmix.h); then, and where the library is
 *     missing, opening returns UNSUPPORTED.
 *  2. PMIx counts its users, but cannot be begun again after its last user has left. So the first
 *     open begins it, and this process leaves it at exit(): an MPI library in it may begin and end
 *     before, meanwhile or afterwards. mpirun takes a process that ends without exit() for a rank
 *     that failed.
 *  3. Keys live as long as the process: one may be put once.
 *  4. A fence or a get that comes too late is left behind: its answer, should it ever come, finds
 *     nobody. After a fence that timed out the service can only be closed.
 *
 * Connecting and leaving have no deadline of ours (PMIx has its own): the server is on this host.
 * Several threads may have a service each.
 */
#ifndef TUTTI_BOOTSTRAP_PMIX_SERVICE_H
#define TUTTI_BOOTSTRAP_PMIX_SERVICE_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct pmix_service;

/* Connects to the server that the environment names. INVALID_RANK when it knows this process as
 * another rank or the job as one of another size. INIT_TIMEOUT: another thread was still connecting
 * at the deadline. UNSUPPORTED, in a child of fork() too whose parent is connected or
 * connecting. */
enum tutti_status pmix_service_open(int rank, int size, uint64_t deadline_ns,
                                    struct pmix_service **service);
/* Key: a short word. The bytes are copied; others get them after the fence. */
enum tutti_status pmix_service_put(struct pmix_service *service, const char *key, const void *value,
                                   size_t value_bytes);
enum tutti_status pmix_service_fence(struct pmix_service *service, uint64_t deadline_ns);
/* INVALID_OPTIONS when the value does not fit. */
enum tutti_status pmix_service_get(struct pmix_service *service, int rank, const char *key,
                                   void *buffer, size_t buffer_bytes, size_t *value_bytes,
                                   uint64_t deadline_ns);
/* Loads the library, and connects to nobody. *version: what it says of itself, which stays.
 * UNSUPPORTED: it is not here. */
enum tutti_status pmix_service_version(const char **version);
/* Does not leave PMIx. NULL is fine. */
void pmix_service_close(struct pmix_service *service);

#endif
