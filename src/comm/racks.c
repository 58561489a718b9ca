#include "comm/racks.h"

#include "call/message_call.h"
#include "call/program.h"
#include "health/life.h"
#include "health/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "call/own_call.h"
#include "comm/create.h"
#include "comm/derive.h"
#include "comm/site.h"
#include "os/clock.h"
#include "team/options.h"
#include "topo/probe.h"

enum {
    HOSTS_MIN = 4, /* fewer are no racks of several */
    HOSTS_MAX = 64,
    TOURNAMENTS_MAX = 2,
    ROUNDS_MAX = 24, /* of several tournaments; one is always played to its end */
    WARM_BYTES = 128 << 10,
    BYTES = 1 << 20
};

struct prober {
    struct tutti_comm *comm;
    struct tutti_comm *hosts; /* one rank of each host, numbered alike; NULL on the others */
    int host_count, tournament_count;
    int *order, *rack_of;
    double *bytes_per_second;
    char *send, *recv;
};

static enum tutti_status start_message(struct prober *prober, bool is_send, int other, size_t bytes,
                                       struct tutti_request **request)
{
    struct message_call call = {.is_send = is_send,
                                .buffer = is_send ? prober->send : prober->recv,
                                .count = bytes,
                                .dtype = TUTTI_UINT8,
                                .peer = other,
                                .timeout_ns = prober->hosts->team.settings.timeout_ns};
    return comm_message_start(prober->hosts, &call, false, request);
}

/* Both ways at once, with the host that it meets; all pairs begin together. */
static enum tutti_status exchange(struct prober *prober, int other, size_t bytes, uint64_t *time_ns)
{
    struct tutti_request *sending = NULL, *receiving = NULL;
    TRY(own_barrier(prober->hosts));
    if (other < 0) return TUTTI_OK;
    const uint64_t begin = clock_now_ns();
    TRY(start_message(prober, false, other, bytes, &receiving));
    TRY(start_message(prober, true, other, bytes, &sending));
    TRY(tutti_wait(&sending));
    TRY(tutti_wait(&receiving));
    *time_ns = clock_now_ns() - begin + 1;
    return TUTTI_OK;
}

static enum tutti_status play_round(struct prober *prober, int tournament, int round)
{
    const int host = prober->hosts->team.rank,
              other = probe_partner(prober->order, prober->host_count, round, host);
    uint64_t time_ns = 1;
    TRY(exchange(prober, other, WARM_BYTES, &time_ns));
    TRY(exchange(prober, other, BYTES, &time_ns));
    if (other < host) return TUTTI_OK;
    /* The lower one's figure is that of both. */
    const size_t count = (size_t)prober->host_count, a = (size_t)host, b = (size_t)other;
    double *const rates = prober->bytes_per_second + (size_t)tournament * count * count;
    rates[a * count + b] = rates[b * count + a] = BYTES * 1e9 / (double)time_ns;
    return TUTTI_OK;
}

static enum tutti_status play(struct prober *prober)
{
    for (int t = 0; t < prober->tournament_count; t++) {
        probe_order(prober->host_count, t, prober->order);
        for (int round = 0; round < probe_round_count(prober->host_count); round++)
            TRY(play_round(prober, t, round));
    }
    return TUTTI_OK;
}

/* Ranks that measure nothing wait for the figures. Each cell has one rank that knows it, and is 0 elsewhere: all get the same
 * bits. */
static enum tutti_status measure(struct prober *prober)
{
    struct tutti_comm *const comm = prober->comm;
    const struct comm_hosts *hosts = comm->team.members.hosts;
    const bool measures = hosts->firsts[hosts->host_of[comm->team.rank]] == comm->team.rank;
    const struct derive_wish wish = {DERIVE_SPLIT, 0, measures ? 0 : TUTTI_NO_COLOR,
                                     comm->team.rank, NULL};
    TRY(derive_split(comm, "comm_split", &wish, &prober->hosts));
    enum tutti_status status = measures ? play(prober) : TUTTI_OK;
    if (status == TUTTI_OK)
        status = own_sum(comm, prober->bytes_per_second,
                         (size_t)prober->host_count * (size_t)prober->host_count *
                             (size_t)prober->tournament_count,
                         TUTTI_FLOAT64);
    if (prober->hosts != NULL) comm_end(prober->hosts);
    return status;
}

/* What was made for the levels that were known before goes. */
static enum tutti_status take_racks(const struct prober *prober)
{
    struct tutti_comm *const comm = prober->comm;
    struct host_levels levels;
    TRY(host_levels_init_racks(&levels, comm->team.size, comm->team.members.hosts->host_of,
                               prober->rack_of));
    TRY(health_lock(&comm->health, comm->team.settings.timeout_ns));
    comm_programs_free(comm);
    host_levels_release(comm->team.members.levels);
    *comm->team.members.levels = levels;
    const enum tutti_status status = comm_find_site(comm);
    health_unlock(&comm->health);
    return status;
}

static enum tutti_status conclude(const struct prober *prober)
{
    const struct probe probe = {.host_count = prober->host_count,
                                .tournament_count = prober->tournament_count,
                                .bytes_per_second = prober->bytes_per_second};
    const int racks = probe_racks(&probe, prober->rack_of);
    if (racks < 0) return error_set(TUTTI_NO_MEMORY, "finding racks: out of memory");
    if (racks > 1) TRY(take_racks(prober));
    if (prober->comm->team.rank != 0) return TUTTI_OK;
    char text[4 * HOSTS_MAX] = "", *end = text;
    for (int i = 0; i < prober->host_count; i++)
        end += snprintf(end, (size_t)(text + sizeof text - end), " %d", prober->rack_of[i]);
    log_write(LOG_INFO, "%d hosts measured, racks of theirs:%s", prober->host_count, text);
    return TUTTI_OK;
}

static enum tutti_status allocate(struct prober *prober)
{
    const size_t hosts = (size_t)prober->host_count, cells = hosts * hosts;
    prober->order = calloc(hosts, sizeof *prober->order);
    prober->rack_of = calloc(hosts, sizeof *prober->rack_of);
    prober->bytes_per_second =
        calloc(cells * (size_t)prober->tournament_count, sizeof *prober->bytes_per_second);
    prober->send = calloc(1, BYTES);
    prober->recv = malloc(BYTES);
    if (prober->order == NULL || prober->rack_of == NULL || prober->bytes_per_second == NULL ||
        prober->send == NULL || prober->recv == NULL)
        return error_set(TUTTI_NO_MEMORY, "finding racks: out of memory");
    return TUTTI_OK;
}

static void release(struct prober *prober)
{
    free(prober->order);
    free(prober->rack_of);
    free(prober->bytes_per_second);
    free(prober->send);
    free(prober->recv);
}

static enum tutti_status is_wanted(struct tutti_comm *comm, bool *wanted)
{
    bool probes;
    TRY(options_probe(&probes));
    int32_t wish = probes && option_text(OPTION_TOPO_FILE) == NULL;
    TRY(own_broadcast(comm, &wish, 1, TUTTI_INT32, 0));
    *wanted = wish != 0;
    return TUTTI_OK;
}

enum tutti_status comm_find_racks(struct tutti_comm *comm)
{
    const struct comm_hosts *hosts = comm->team.members.hosts;
    if (hosts == NULL || hosts->host_count < HOSTS_MIN || hosts->host_count > HOSTS_MAX)
        return TUTTI_OK;
    struct prober prober = {.comm = comm, .host_count = hosts->host_count};
    prober.tournament_count = probe_tournament_count(prober.host_count, TOURNAMENTS_MAX, ROUNDS_MAX);
    bool wanted;
    enum tutti_status status = is_wanted(comm, &wanted);
    if (status == TUTTI_OK && wanted) {
        status = allocate(&prober);
        if (status == TUTTI_OK) status = measure(&prober);
        if (status == TUTTI_OK) status = conclude(&prober);
        release(&prober);
    }
    /* Calls of the application's count from 1. */
    health_restart_numbers(&comm->health);
    return status;
}
