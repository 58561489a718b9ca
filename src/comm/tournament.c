#include "comm/tournament.h"

#include <stdlib.h>

#include "base/status.h"
#include "call/message_call.h"
#include "call/own_call.h"
#include "comm/create.h"
#include "comm/derive.h"
#include "os/clock.h"
#include "topo/probe.h"

enum { TRIPS = 5, WARM_BYTES = 128 << 10, BYTES_MIN = 1 << 20, BYTES_MAX = 16 << 20 };
#define ROUND_S 0.01

struct player {
    struct tutti_comm *hosts;
    int rank, host_count;
    size_t bytes; /* of an exchange; at least those of the warm-up */
    int *order;
    char *send, *recv;
};

static enum tutti_status no_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "measuring between hosts: out of memory");
}

static enum tutti_status start_message(const struct player *player, bool is_send, int other,
                                       void *buffer, size_t bytes, struct tutti_request **request)
{
    struct message_call call = {.is_send = is_send,
                                .buffer = buffer,
                                .count = bytes,
                                .dtype = TUTTI_UINT8,
                                .peer = other,
                                .timeout_ns = player->hosts->team.settings.timeout_ns};
    return message_call_start(player->hosts, &call, false, request);
}

static enum tutti_status pass(const struct player *player, bool is_send, int other)
{
    struct tutti_request *request = NULL;
    TRY(start_message(player, is_send, other, is_send ? player->send : player->recv, 1, &request));
    return tutti_wait(&request);
}

/* The first trip may have to make the connection. */
static enum tutti_status time_trips(const struct player *player, int other, double *latency_ns)
{
    const bool begins = player->rank < other;
    uint64_t least_ns = UINT64_MAX;
    for (int trip = 0; trip < TRIPS; trip++) {
        const uint64_t begin_ns = clock_now_ns();
        TRY(pass(player, begins, other));
        TRY(pass(player, !begins, other));
        const uint64_t time_ns = clock_now_ns() - begin_ns;
        if (time_ns < least_ns) least_ns = time_ns;
    }
    const double here_ns = (double)(least_ns + 1) / 2;
    if (*latency_ns == 0 || here_ns < *latency_ns) *latency_ns = here_ns;
    return TUTTI_OK;
}

/* Both ways at once, with the host that it meets; all pairs begin together. */
static enum tutti_status exchange(const struct player *player, int other, uint64_t *time_ns)
{
    enum { WARM, TIMED, PARTS };
    const size_t bytes[PARTS] = {WARM_BYTES, player->bytes};
    struct tutti_request *sending[PARTS] = {NULL}, *receiving[PARTS] = {NULL};
    uint64_t end_ns[PARTS];
    char *const recv[PARTS] = {player->recv, player->recv + WARM_BYTES};
    TRY(own_barrier(player->hosts));
    if (other < 0) return TUTTI_OK;
    const uint64_t begin_ns = clock_now_ns();
    for (int part = 0; part < PARTS; part++) {
        TRY(start_message(player, false, other, recv[part], bytes[part], &receiving[part]));
        TRY(start_message(player, true, other, player->send, bytes[part], &sending[part]));
    }
    for (int part = 0; part < PARTS; part++) {
        TRY(tutti_wait(&receiving[part]));
        end_ns[part] = clock_now_ns();
    }
    for (int part = 0; part < PARTS; part++) TRY(tutti_wait(&sending[part]));
    /* A rank that the machine holds up finds all of it at once. */
    const uint64_t timed_ns = end_ns[TIMED] - end_ns[WARM] + 1,
                   least_ns = (end_ns[TIMED] - begin_ns + 1) / 2;
    *time_ns = timed_ns > least_ns ? timed_ns : least_ns;
    return TUTTI_OK;
}

static enum tutti_status play_round(const struct player *player, int round,
                                    double *bytes_per_second, double *latency_ns)
{
    const int other = probe_partner(player->order, player->host_count, round, player->rank);
    uint64_t time_ns = 1;
    TRY(own_barrier(player->hosts));
    if (other >= 0) TRY(time_trips(player, other, &latency_ns[other]));
    TRY(exchange(player, other, &time_ns));
    if (other >= 0) bytes_per_second[other] = (double)player->bytes * 1e9 / (double)time_ns;
    return TUTTI_OK;
}

static enum tutti_status make_room(struct player *player, size_t bytes)
{
    free(player->send);
    free(player->recv);
    player->bytes = bytes;
    player->send = calloc(1, bytes);
    player->recv = malloc(WARM_BYTES + bytes);
    return player->send != NULL && player->recv != NULL ? TUTTI_OK : no_memory();
}

static size_t bytes_for(double bytes_per_second)
{
    const double wanted = bytes_per_second * ROUND_S;
    size_t bytes = BYTES_MIN;
    while (bytes < BYTES_MAX && 2.0 * (double)bytes <= wanted) bytes *= 2;
    return bytes;
}

/* Sets how much is sent from what came in the first round, on all hosts together. */
static enum tutti_status find_bytes(struct player *player, const double *rates)
{
    enum { SUM, COUNT, FIGURES };
    const int other = probe_partner(player->order, player->host_count, 0, player->rank);
    double figures[FIGURES] = {other >= 0 ? rates[other] : 0, other >= 0};
    TRY(own_sum(player->hosts, figures, FIGURES, TUTTI_FLOAT64));
    const size_t bytes = bytes_for(figures[SUM] / figures[COUNT]);
    return bytes == player->bytes ? TUTTI_OK : make_room(player, bytes);
}

static enum tutti_status play(struct player *player, const struct tournament *tournament,
                              double *bytes_per_second, double *latency_ns)
{
    const size_t hosts = (size_t)player->host_count, row = (size_t)player->rank * hosts;
    const bool is_expected = tournament->bytes_per_second > 0;
    TRY(make_room(player, bytes_for(tournament->bytes_per_second)));
    for (int t = 0; t < tournament->tournament_count; t++) {
        double *const rates = bytes_per_second + (size_t)t * hosts * hosts + row;
        probe_order(player->host_count, t, player->order);
        for (int round = 0; round < tournament->round_count; round++) {
            TRY(play_round(player, round, rates, latency_ns + row));
            if (t == 0 && round == 0 && !is_expected) TRY(find_bytes(player, rates));
        }
    }
    return TUTTI_OK;
}

/* Memory that a failed message may still use stays until the ranks have left. */
enum tutti_status tournament_play(struct tutti_comm *comm, int host,
                                  const struct tournament *tournament, double *bytes_per_second,
                                  double *latency_ns)
{
    const struct derive_wish wish = {CALL_FOR_SPLIT, 0, host >= 0 ? 0 : TUTTI_NO_COLOR,
                                     comm->team.rank, NULL};
    struct player player = {.rank = host, .host_count = tournament->host_count};
    TRY(derive_split(comm, "comm_split", &wish, &player.hosts));
    if (host < 0) return TUTTI_OK;
    player.order = calloc((size_t)player.host_count, sizeof *player.order);
    const enum tutti_status status =
        player.order != NULL ? play(&player, tournament, bytes_per_second, latency_ns) : no_memory();
    comm_end(player.hosts);
    free(player.order);
    free(player.send);
    free(player.recv);
    return status;
}
