#include "model/servers.h"

#include <stdlib.h>

const char *model_resource_name(enum model_resource resource)
{
    static const char *const names[MODEL_RESOURCES] = {[MODEL_CORE] = "core",
                                                       [MODEL_MEMORY] = "memory",
                                                       [MODEL_CARD_OUT] = "card out",
                                                       [MODEL_CARD_IN] = "card in",
                                                       [MODEL_UPLINK_OUT] = "uplink out",
                                                       [MODEL_UPLINK_IN] = "uplink in"};
    return (unsigned)resource < MODEL_RESOURCES ? names[resource] : "?";
}

int servers_count(const struct servers *servers, enum model_resource resource)
{
    const struct model_machine *machine = servers->machine;
    switch (resource) {
    case MODEL_CORE: return machine->host_count * machine->core_count;
    case MODEL_UPLINK_OUT:
    case MODEL_UPLINK_IN: return machine->rack_count;
    case MODEL_MEMORY:
    case MODEL_CARD_OUT:
    case MODEL_CARD_IN:
    case MODEL_RESOURCES: break;
    }
    return machine->host_count;
}

bool servers_init(struct servers *servers, const struct model_machine *machine, bool have_rested)
{
    *servers = (struct servers){.machine = machine, .free_flight = UINT32_MAX};
    for (int r = 0; r < MODEL_RESOURCES; r++) {
        const int count = servers_count(servers, (enum model_resource)r);
        servers->of[r] = calloc((size_t)count + 1, sizeof *servers->of[r]);
        if (servers->of[r] == NULL) return false;
        for (int i = 0; have_rested && i < count; i++) servers->of[r][i].free_ps = INT64_MIN / 2;
    }
    return true;
}

void servers_release(struct servers *servers)
{
    for (int r = 0; r < MODEL_RESOURCES; r++) free(servers->of[r]);
    free(servers->flights);
}

/* Work takes at most so long, so that times do not overflow even with absurd numbers. */
#define LONGEST_PS (INT64_MAX / 4)

static int64_t later(int64_t time_ps, uint64_t work_ps)
{
    const int64_t work = work_ps < LONGEST_PS ? (int64_t)work_ps : LONGEST_PS;
    return time_ps < LONGEST_PS - work ? time_ps + work : LONGEST_PS;
}

static uint64_t serve(struct server *server, uint64_t now_ps, uint64_t work_ps)
{
    if (server->free_ps < (int64_t)now_ps) server->free_ps = (int64_t)now_ps;
    server->free_ps = later(server->free_ps, work_ps);
    server->busy_ps += work_ps;
    return (uint64_t)server->free_ps;
}

uint64_t servers_compute(struct servers *servers, int core_number, int rank, uint64_t now_ps,
                         uint64_t core_ps, uint64_t memory_bytes)
{
    const struct model_machine *machine = servers->machine;
    struct server *core = &servers->of[MODEL_CORE][core_number];
    core_ps = model_on_host(machine, model_host_of(machine, rank), core_ps);
    const uint64_t end_ps = serve(core, now_ps, core_ps);
    if (memory_bytes == 0 || machine->memory_byte_fs == 0) return end_ps;
    const struct model_cost each = {.byte_fs = machine->memory_byte_fs};
    const uint64_t memory_ps = serve(&servers->of[MODEL_MEMORY][core_number / machine->core_count],
                                     now_ps, model_cost_ps(each, memory_bytes));
    if (memory_ps <= end_ps) return end_ps;
    core->free_ps = (int64_t)memory_ps;
    return memory_ps;
}

/* ---------------------------------------------------------------------------------------- ports */

/* A token bucket (the generic cell rate algorithm, ITU-T I.371): a port that has rested takes up to
 * its burst at once. Returns when the first byte passes. */
static uint64_t pass(struct servers *servers, enum model_resource resource, int number,
                     const struct model_port *kind, uint64_t now, struct served_piece *flight)
{
    struct server *port = &servers->of[resource][number];
    const struct model_cost each = {.byte_fs = kind->message.byte_fs};
    const int64_t now_ps = (int64_t)now,
                  rested_ps = now_ps - (int64_t)model_cost_ps(each, kind->burst_bytes);
    uint64_t work_ps = model_cost_ps(kind->message, flight->bytes);
    if (resource == MODEL_CARD_OUT || resource == MODEL_CARD_IN)
        work_ps = model_on_host(servers->machine, number, work_ps);
    if (kind->queue_bytes > 0 && resource != MODEL_CARD_OUT &&
        port->free_ps - now_ps > (int64_t)model_cost_ps(each, kind->queue_bytes))
        work_ps += work_ps * kind->again_permille / 1000;
    if (port->free_ps < rested_ps) port->free_ps = rested_ps;
    port->free_ps = later(port->free_ps, work_ps);
    port->busy_ps += work_ps;
    const int64_t end_ps = port->free_ps > now_ps ? port->free_ps : now_ps;
    if (flight->finish_ps < (uint64_t)end_ps) flight->finish_ps = (uint64_t)end_ps;
    return (uint64_t)(end_ps - now_ps > (int64_t)work_ps ? end_ps - (int64_t)work_ps : now_ps);
}

static uint32_t take_flight(struct servers *servers)
{
    if (servers->free_flight != UINT32_MAX) {
        const uint32_t index = servers->free_flight;
        servers->free_flight = servers->flights[index].port;
        return index;
    }
    if (servers->flight_count == servers->flight_room) {
        const uint32_t room = servers->flight_room == 0 ? 256 : 2 * servers->flight_room;
        struct served_piece *flights = realloc(servers->flights, room * sizeof *flights);
        if (flights == NULL) return UINT32_MAX;
        servers->flights = flights;
        servers->flight_room = room;
    }
    return servers->flight_count++;
}

uint64_t servers_wait_ps(const struct servers *servers, int host, uint64_t now_ps,
                         uint64_t bytes_max)
{
    const struct model_cost each = {.byte_fs = servers->machine->card.message.byte_fs};
    const uint64_t most_ps = model_on_host(servers->machine, host, model_cost_ps(each, bytes_max));
    const int64_t wait_ps = servers->of[MODEL_CARD_OUT][host].free_ps - (int64_t)now_ps;
    if (wait_ps <= 0) return 0;
    return (uint64_t)wait_ps < most_ps ? (uint64_t)wait_ps : most_ps;
}

void servers_depart(struct servers *servers, struct events *events, uint64_t now_ps, int from_host,
                    enum model_distance distance, uint64_t bytes, uint32_t port)
{
    const struct model_machine *machine = servers->machine;
    const uint32_t index = take_flight(servers);
    if (index == UINT32_MAX) {
        events->has_failed = true;
        return;
    }
    struct served_piece *flight = &servers->flights[index];
    *flight = (struct served_piece){.bytes = bytes, .port = port};
    const uint64_t at_ps = pass(servers, MODEL_CARD_OUT, from_host, &machine->card, now_ps, flight);
    if (distance == MODEL_OTHER_RACK)
        events_add(events, at_ps, FLIGHT_UPLINK_OUT, index);
    else
        events_add(events, at_ps + machine->latency_ps[distance], FLIGHT_CARD_IN, index);
}

bool servers_fly_on(struct servers *servers, struct events *events, uint64_t now_ps,
                    enum flight_event at, uint32_t index, int from_host, int to_host,
                    enum model_distance distance, uint64_t *arrival_ps)
{
    const struct model_machine *machine = servers->machine;
    const struct model_port *uplink = &machine->uplink;
    const uint64_t latency_ps = machine->latency_ps[distance];
    struct served_piece *flight = &servers->flights[index];
    uint64_t at_ps;
    switch (at) {
    case FLIGHT_UPLINK_OUT:
        at_ps = pass(servers, MODEL_UPLINK_OUT, model_rack_of(machine, from_host), uplink, now_ps,
                     flight);
        events_add(events, at_ps, FLIGHT_UPLINK_IN, index);
        return false;
    case FLIGHT_UPLINK_IN:
        at_ps =
            pass(servers, MODEL_UPLINK_IN, model_rack_of(machine, to_host), uplink, now_ps, flight);
        events_add(events, at_ps + latency_ps, FLIGHT_CARD_IN, index);
        return false;
    case FLIGHT_CARD_IN:
    case FLIGHT_EVENTS: break;
    }
    flight->finish_ps += latency_ps;
    pass(servers, MODEL_CARD_IN, to_host, &machine->card, now_ps, flight);
    *arrival_ps = flight->finish_ps;
    flight->port = servers->free_flight;
    servers->free_flight = index;
    return true;
}
