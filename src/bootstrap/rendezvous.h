/* rendezvous.h - how the ranks of one host find each other.
 *
 * The ranks are a binomial tree: each connects to its parent's abstract socket, whose name follows
 * from the meeting's key and the parent's rank. The records of a subtree's ranks go up, the records
 * of all ranks come down, with the segment's descriptor. So no rank talks to more than log2(n) + 1
 * others, and keeps no descriptor but the segment's.
 *
 *     0 ◄─┬── 1                        rank r's parent is r without its lowest bit
 *         ├── 2 ◄──── 3                up:   hello(key, rank, size), members of the subtree
 *         └── 4 ◄─┬── 5                down: answer(status), segment, all members
 *                 └── 6 ◄── 7
 *
 * The kernel vouches for the other side's user. Connections of other users are closed as they come,
 * and names that other users have taken are passed by (os/local_name.h). If the same user has too
 * many connections, those that have been silent for longest make room: a rank that had to go comes
 * again. A connection without the key is dropped, and the meeting goes on. A rank that does not
 * find its parent in time tells rank 0 that it is there, so that at the deadline all ranks hear
 * exactly which ranks are missing.
 */
#ifndef TUTTI_BOOTSTRAP_RENDEZVOUS_H
#define TUTTI_BOOTSTRAP_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bootstrap/key.h"
#include "tutti/tutti.h"

/* A rank's description of itself. */
struct rendezvous_member {
    int32_t rank;
    int32_t pid;
    uint32_t pid_namespace; /* of os/process.h: ranks in the same one know it by that pid; 0: unknown */
    uint16_t port;          /* where it listens, or 0 */
    uint8_t integrity;      /* of enum tutti_integrity */
    uint8_t is_encrypted; /* its traffic over TCP */
    uint64_t process_key; /* equal for ranks of one process */
    /* of its process's memory, see memory/heap.h */
    uint64_t heap_inode, heap_bytes;
    int32_t heap_fd;    /* its number there */
    int32_t first;      /* the lowest rank of its process; set by rank 0 */
    uint64_t host_id;   /* of the host that it takes itself to be on, see host_id_option */
    uint64_t cores;     /* which it may run on, as in connect/discovery_message.h */
    int32_t core_count; /* and how many */
    uint32_t knowledge; /* fingerprint of the numbers by which it chooses algorithms */
    uint32_t table;     /* and of its table of measured choices */
    uint32_t plans;  /* and of its plans from files: 0: none; 1: it cannot join, and will say why */
    uint32_t fabric; /* and of the network card that it would use: 0: none */
};

struct rendezvous_options {
    struct rendezvous_key key;
    int rank, size;
    const int *names; /* the names of the ranks in messages; NULL: their numbers */
    uint64_t deadline_ns;
    struct rendezvous_member self; /* rank, pid and the like are filled in */
    int segment_fd;                /* rank 0: to hand around, stays the caller's; others: -1 */
    /* Asked several times a second while ranks are missing: whether they can still come. Not OK,
     * with this thread's error set, ends the meeting at once. NULL: they can, until the
     * deadline. */
    enum tutti_status (*look)(void *context);
    void *look_context;
    /* Becomes true if the meeting ends because another rank has failed; look() may say so, too. Or
     * NULL. */
    bool *is_foreign;
};

struct rendezvous_result {
    int segment_fd;                    /* a descriptor of the caller's own; -1 on rank 0 */
    struct rendezvous_key identity;    /* of this result: the same on its ranks, and nowhere else */
    struct rendezvous_member *members; /* one per rank */
    unsigned message_count;            /* sent and received by this rank */
};

/* Blocks until all ranks are there, or until the deadline. On failure *result is empty. */
enum tutti_status rendezvous_meet(const struct rendezvous_options *options,
                                  struct rendezvous_result *result);
/* Closes the descriptors that the caller has not taken. */
void rendezvous_result_release(struct rendezvous_result *result);

#endif
