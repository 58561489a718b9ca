/* id.h - what the bytes of a tutti_id say.
 *
 *     key      random: the name of the meeting
 *     machine  where it was made: only there can ranks with an id for one host meet
 *     address  of an id for several hosts: where its maker listens, which is rank 0's process
 *
 * Whether ranks may be on several hosts has to be the same on all of them before any rank has heard
 * of another, so the id says it: its maker decides, by what started it (several hosts) or
 * TUTTI_ID_HOSTS. With an id for one host no process listens and none connects. Bytes that did not
 * come from tutti_id_create are a key and nothing more.
 */
#ifndef TUTTI_COMM_ID_H
#define TUTTI_COMM_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/key.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

enum { ID_HOST_NAME_MAX = 32 };

struct id_content {
    struct rendezvous_key key;
    uint64_t magic;
    uint64_t machine;           /* see host_id_machine */
    struct net_address address; /* none: for ranks of one host */
    int32_t pid;                /* of its maker, for messages like the name of its host */
    char host_name[ID_HOST_NAME_MAX];
};

/* The bytes of an id that names a meeting, or an admission, of this process at that address (none: for
 * ranks of this host). */
enum tutti_status id_write(const struct rendezvous_key *key, const struct net_address *address,
                           struct tutti_id *id);
/* The contents of an id; one that has only a key has machine 0. */
void id_read(const struct tutti_id *id, struct id_content *content);
/* Whether ranks of several hosts meet by it. */
bool id_spans_hosts(const struct id_content *content);
/* INVALID_OPTIONS when it is for one host and this rank is elsewhere; or it spans hosts, this is
 * rank 0, and its maker was another process or has used it already. */
enum tutti_status id_check(const struct id_content *content, int rank);

#endif
