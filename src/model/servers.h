/* servers.h - resources that serve one piece of work after the other, first come, first served:
 * cores, memory, cards, uplinks. Also the path of pieces through cards and uplinks.
 *
 *     card of the sender ──────── latency ────────► card of the receiver          hosts of a rack
 *     card ──► uplink ──► uplink of the other rack ── latency ──► card            hosts of two racks
 *
 * A piece begins to pass a port as soon as its first byte is there (cut through), and has passed it
 * only when its last byte has passed it and all ports before it.
 */
#ifndef TUTTI_MODEL_SERVERS_H
#define TUTTI_MODEL_SERVERS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/events.h"
#include "model/machine.h"

enum model_resource {
    MODEL_CORE,
    MODEL_MEMORY,
    MODEL_CARD_OUT,
    MODEL_CARD_IN,
    MODEL_UPLINK_OUT,
    MODEL_UPLINK_IN,
    MODEL_RESOURCES
};
const char *model_resource_name(enum model_resource resource);
/* Whether a resource is a port of the network. */
static inline bool resource_is_port(enum model_resource resource)
{
    return resource >= MODEL_CARD_OUT;
}
static inline bool resource_is_uplink(enum model_resource resource)
{
    return resource == MODEL_UPLINK_OUT || resource == MODEL_UPLINK_IN;
}

struct server {
    int64_t free_ps; /* when it has done all that has come */
    uint64_t busy_ps;
};

/* A piece on its way. */
struct served_piece {
    uint64_t finish_ps; /* of its last byte where it is */
    uint64_t bytes;
    uint32_t port; /* the caller's; of a free one: the next one */
};

struct servers {
    const struct model_machine *machine;
    struct server *of[MODEL_RESOURCES];
    struct served_piece *flights;
    uint32_t flight_count, flight_room, free_flight;
};

/* have_rested: ports begin with all of their bursts; otherwise with nothing of them. False: out of
 * memory; the caller releases *servers in any case. */
bool servers_init(struct servers *servers, const struct model_machine *machine, bool have_rested);
void servers_release(struct servers *servers);
/* The number of resources of a kind; cores are counted over all hosts. */
int servers_count(const struct servers *servers, enum model_resource resource);

/* Does work of a rank on a core, which reads and writes so many bytes of its host's memory. Returns
 * the time when it is done. */
uint64_t servers_compute(struct servers *servers, int core, int rank, uint64_t now_ps,
                         uint64_t core_ps, uint64_t memory_bytes);

/* Kinds of events in which pieces arrive at a port; their indices are those of flights. */
enum flight_event { FLIGHT_UPLINK_OUT, FLIGHT_UPLINK_IN, FLIGHT_CARD_IN, FLIGHT_EVENTS };

/* The time for which a message of no bytes waits until it leaves that host, behind so many bytes at
 * most. */
uint64_t servers_wait_ps(const struct servers *servers, int host, uint64_t now_ps,
                         uint64_t bytes_max);
/* A piece leaves its host for another one. (Without memory events->has_failed is set.) */
void servers_depart(struct servers *servers, struct events *events, uint64_t now_ps, int from_host,
                    enum model_distance distance, uint64_t bytes, uint32_t port);
/* A piece is at the next port on its way. True: that was the last one, and all of the piece has
 * arrived at *arrival_ps; its flight is over. */
bool servers_fly_on(struct servers *servers, struct events *events, uint64_t now_ps,
                    enum flight_event at, uint32_t flight, int from_host, int to_host,
                    enum model_distance distance, uint64_t *arrival_ps);

#endif
