/* machine.h - the properties of machines, and of the network between them, that a model knows.
 *
 *     core ── memory of a host ── card ══ switch of the rack ══ uplink ══ other racks
 *     ranks    copies, sums        port      latency               port
 *
 * The parameters are those of LogGP, for each class of links instead of one: L is `latency_ps`, o
 * is the cost of a path for its two ranks (struct path_cost, path/path.h), and g and G are the
 * times for which a message and a byte occupy a port (struct model_port). Sources: Culler et al.,
 * "LogP: Towards a Realistic Model of Parallel Computation", PPoPP 1993; Alexandrov et al.,
 * "LogGP", SPAA 1995; the gap of a core between two ranks and the shared ports are ours.
 *
 * Times are whole picoseconds, and costs of a byte are whole femtoseconds (80,000 are 12.5 GB/s).
 * So a model gives every rank the same number, whatever compiler built it.
 *
 * Neglected: the routes within a rack (its switch carries all that its ports do), caches except
 * through the costs of paths, traffic of other jobs, and changes of the processors' speed.
 */
#ifndef TUTTI_MODEL_MACHINE_H
#define TUTTI_MODEL_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "path/path.h"

/* The cost of a piece of work, and of each of its bytes. */
struct model_cost {
    uint64_t each_ps, byte_fs;
};

static inline uint64_t model_cost_ps(struct model_cost cost, uint64_t bytes)
{
    const unsigned __int128 fs = (unsigned __int128)cost.byte_fs * bytes;
    /* A division of 128 bits takes a call, and is hardly ever needed. */
    return cost.each_ps + (fs >> 64 == 0 ? (uint64_t)fs / 1000 : (uint64_t)(fs / 1000));
}

/* One direction of a resource that messages pass one after the other: a host's card, or a rack's
 * uplink. */
struct model_port {
    struct model_cost message; /* for how long one occupies it */
    uint64_t burst_bytes;      /* a token bucket: after a rest, so much passes at once; 0: none */
    uint64_t queue_bytes; /* more than that waits, from several senders: some of it is lost and sent again; 0: nothing is ever lost */
    unsigned again_permille; /* of what comes while so much waits */
};

enum model_distance { MODEL_SAME_HOST, MODEL_SAME_RACK, MODEL_OTHER_RACK, MODEL_DISTANCES };

struct model_machine {
    int rank_count, host_count, rack_count;
    const int *host_of;  /* of each rank; NULL: every rank is on host 0 */
    const int *rack_of;  /* of each host; NULL: every host is in rack 0 */
    int core_count;      /* of each host; its ranks get them in turns */
    const int *cores_of; /* of each host, the first host with which it shares cores and memory: they are containers of one machine; NULL: each has its own */
    const uint32_t *
        host_permille; /* how long each host takes for what its cores and its card do, in thousandths; NULL: 1000 each */

    uint64_t latency_ps[MODEL_DISTANCES]; /* from when a message leaves until it can be used */
    struct model_port card, uplink;       /* each direction of each of them */
    uint64_t turn_ps;                     /* a core goes from one rank to another */
    uint64_t retake_byte_fs; /* more for each byte that is stored in lines which another core has read */
    struct model_cost copy,
        reduce;            /* of a core: of a byte of result, in caches; reduce: of two sources */
    uint64_t more_byte_fs; /* of each further source of a sum */
    uint64_t far_copy_fs,
        far_reduce_fs; /* more for each byte that they read or write past the caches, in memory */
    uint64_t memory_byte_fs; /* of a byte that a host's cores read or write, all of them together; 0: they never wait for memory */

    const struct path_table *within,
        *between;   /* ranks of one host, and of several; NULL: messages cost their ranks nothing */
    bool is_mapped; /* buffers are memory that all ranks of a host can address */
    size_t piece_bytes_max;   /* the longest piece of a chunk; SIZE_MAX: the chunk stays whole */
    unsigned piece_count_max; /* under way on a link */
};

static inline int model_host_of(const struct model_machine *machine, int rank)
{
    return machine->host_of != NULL ? machine->host_of[rank] : 0;
}

/* The host whose cores and memory it uses: its own, or those of the first that shares them. */
static inline int model_cores_of(const struct model_machine *machine, int host)
{
    return machine->cores_of != NULL ? machine->cores_of[host] : host;
}

/* The time that a host takes for work that takes that time on a host as calibrated. */
static inline uint64_t model_on_host(const struct model_machine *machine, int host, uint64_t time_ps)
{
    if (machine->host_permille == NULL) return time_ps;
    return (uint64_t)((unsigned __int128)time_ps * machine->host_permille[host] / 1000);
}

static inline int model_rack_of(const struct model_machine *machine, int host)
{
    return machine->rack_of != NULL ? machine->rack_of[host] : 0;
}

#endif
