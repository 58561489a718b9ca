/* orphans.h - requests whose communicator was freed before their owner waited for them.
 *
 * They are done (tutti_comm_free waits for that), and their owner may still ask how they ended:
 * tutti_wait and tutti_test find no communicator in them, say how they ended, and free them here.
 * Requests that their owner never asks about stay in a list of the process.
 */
#ifndef TUTTI_CALL_ORPHANS_H
#define TUTTI_CALL_ORPHANS_H

struct tutti_request;

/* Takes over a request that is done. Any thread; does not block. */
void orphans_add(struct tutti_request *request);
/* Frees one of them. Any thread; does not block. */
void orphans_free(struct tutti_request *request);

#endif
