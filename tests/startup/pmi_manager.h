/* pmi_manager.h - a process manager for tests: answers PMI-1 (src/bootstrap/pmi1.h) for the
 * processes of one job. */
#ifndef TUTTI_TESTS_STARTUP_PMI_MANAGER_H
#define TUTTI_TESTS_STARTUP_PMI_MANAGER_H

/* Serves until all clients have hung up; fds are its ends of their sockets. vallen_max is what it
 * says of values. Returns 0 when every client finalized, and asked nothing that the protocol does
 * not have. */
int pmi_manager_serve(const int *fds, int client_count, int vallen_max);

#endif
