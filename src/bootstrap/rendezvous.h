/* rendezvous.h - how the ranks of one host find each other and exchange descriptors.
 *
 * Rank 0 listens on an abstract socket whose name follows from the meeting's key; the others say hello and
 * hand over their heap; rank 0 answers all with the segment and everybody's heap when the last has come, or
 * with the list of who is missing at the deadline. The kernel vouches for the other side's user; who does
 * not know the key, or is somebody else, is dropped and the meeting goes on.
 *
 *     rank r ── hello(key, rank, size, process) + heap ──► rank 0
 *     rank r ◄── answer(status) + segment, members, heaps ── rank 0
 */
#ifndef TUTTI_BOOTSTRAP_RENDEZVOUS_H
#define TUTTI_BOOTSTRAP_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bootstrap/key.h"
#include "tutti/tutti.h"

struct rendezvous_options {
    struct rendezvous_key key;
    int rank, size;
    uint64_t deadline_ns;
    uint64_t process_key; /* equal for ranks of one process */
    int heap_fd;          /* stays the caller's */
    uint64_t heap_bytes;
    int segment_fd; /* rank 0: what to hand around, stays the caller's; others: -1 */
    /* Asked several times a second while ranks are missing: whether they can still come. Not OK, with this
     * thread's error set, ends the meeting at once. NULL: they can, until the deadline. */
    enum tutti_status (*look)(void *context);
    void *look_context;
};

struct rendezvous_member {
    int32_t pid;             /* as rank 0 sees it */
    uint32_t process;        /* index into the processes */
    uint32_t pid_is_visible; /* pid means the same process to rank 0 as to the member itself */
};

struct rendezvous_process {
    uint64_t key;
    uint64_t heap_bytes;
    int heap_fd;
};

struct rendezvous_result {
    int segment_fd;                 /* a descriptor of the caller's own; -1 on rank 0 */
    struct rendezvous_key identity; /* of what came out of it: the same on its ranks, and nowhere else */
    uint32_t process_count;
    struct rendezvous_member *members; /* one a rank */
    struct rendezvous_process *processes; /* their descriptors are the caller's; set to -1 what is taken */
};

/* Blocks until everybody is there or the deadline. On failure *result is empty. */
enum tutti_status rendezvous_meet(const struct rendezvous_options *options,
                                  struct rendezvous_result *result);
/* Closes what was not taken. */
void rendezvous_result_release(struct rendezvous_result *result);

#endif
