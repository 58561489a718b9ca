/* One rank of each of two hosts measures: small messages back and forth, of which the fastest
 * counts; then large messages both ways at once, until the time is over. A pair's lower host takes
 * the times. It says in the first byte of each large message how large the message after the next
 * is, 0 for none, so that the two hosts always agree. All pairs of a round begin together and send
 * equally long, however fast they are: pairs that share a link share it all the time. */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/option.h"
#include "base/status.h"
#include "os/clock.h"
#include "topo/probe.h"

enum {
    TRIPS = 30,
    SIZE_LOG_FIRST = 15,
    SIZE_LOG_MAX = 23,
    TOURNAMENTS_MAX = 5,
    ROUNDS_MAX = 48, /* of several tournaments; one is always played to its end */
    REST_REPEATS = 5,
    REST_NS = 30000000,
    BURST_LARGE = 256 << 10, /* messages after a rest */
    BURST_LARGER = 1 << 20,
    BURST_LEAST = 16 << 10, /* less is noise */
    TAG = 0
};
static const uint64_t warm_ns = 30000000, round_ns = 120000000, exchange_ns_min = 8000000;

/* Two exchanges are under way at any time, so that the wire is busy while one ends. */
struct exchange {
    char *send, *recv;
    char size_log; /* 0: none is under way */
    uint64_t begin_ns;
    struct tutti_request *sending, *receiving;
};

struct prober {
    struct tutti_comm *hosts; /* one rank of each host */
    int host, host_count, tournament_count;
    int *order;
    struct exchange exchanges[2];
    struct probe_result *result;
};

static enum tutti_status no_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "out of memory");
}

/* --------------------------------------------------------------------------------------- a pair */

static enum tutti_status measure_latency(struct prober *prober, int other, double *latency_ns)
{
    const bool first = prober->host < other;
    uint64_t least = UINT64_MAX;
    char byte = 0;
    for (int trip = 0; trip < TRIPS; trip++) {
        const uint64_t begin = clock_now_ns();
        if (first) TRY(tutti_send(&byte, 1, TUTTI_UINT8, other, TAG, prober->hosts));
        TRY(tutti_recv(&byte, 1, TUTTI_UINT8, other, TAG, NULL, prober->hosts));
        if (!first) TRY(tutti_send(&byte, 1, TUTTI_UINT8, other, TAG, prober->hosts));
        const uint64_t time = clock_now_ns() - begin;
        if (time < least) least = time;
    }
    *latency_ns = (double)least / 2;
    return TUTTI_OK;
}

/* The first byte says the size of the exchange after the next one. */
static enum tutti_status begin_exchange(struct prober *prober, int other, struct exchange *exchange,
                                        char size_log, char said)
{
    const size_t bytes = (size_t)1 << size_log;
    exchange->size_log = size_log;
    exchange->begin_ns = clock_now_ns();
    exchange->send[0] = said;
    TRY(tutti_recv_start(exchange->recv, bytes, TUTTI_UINT8, other, TAG, NULL, NULL, prober->hosts,
                         &exchange->receiving));
    return tutti_send_start(exchange->send, bytes, TUTTI_UINT8, other, TAG, NULL, prober->hosts,
                            &exchange->sending);
}

static enum tutti_status end_exchange(struct prober *prober, int other, struct exchange *exchange,
                                      char *said)
{
    TRY(tutti_wait(&exchange->sending));
    TRY(tutti_wait(&exchange->receiving));
    *said = prober->host < other ? exchange->send[0] : exchange->recv[0];
    if (*said < 0 || *said > SIZE_LOG_MAX)
        return error_set(TUTTI_INTERNAL, "host %d says a size that cannot be", other);
    return TUTTI_OK;
}

/* Exchanges get larger while they are so short that what begins and ends them counts; 0: it is
 * enough. */
static char next_size_log(char size_log, uint64_t last_ns, uint64_t passed_ns)
{
    if (passed_ns >= round_ns) return 0;
    return (char)(last_ns < exchange_ns_min && size_log < SIZE_LOG_MAX ? size_log + 1 : size_log);
}

/* Counts what ends between two ends of the same one of the two exchanges, the first one after the
 * warm-up: of the other exchange as much has passed at either time, whether the two share the wire
 * or take turns. When it is enough, two are still to end. */
static enum tutti_status measure_rate(struct prober *prober, int other, double *bytes_per_second)
{
    const uint64_t begin = clock_now_ns();
    uint64_t from_ns = 0, bytes = 0;
    int counted = -1;
    for (int i = 0; i < 2; i++)
        TRY(begin_exchange(prober, other, &prober->exchanges[i], SIZE_LOG_FIRST, SIZE_LOG_FIRST));
    for (int i = 0; prober->exchanges[i].size_log != 0; i = 1 - i) {
        struct exchange *const exchange = &prober->exchanges[i];
        const char size_log = exchange->size_log;
        char next;
        TRY(end_exchange(prober, other, exchange, &next));
        const uint64_t now = clock_now_ns();
        bytes += (uint64_t)1 << size_log;
        if (counted < 0 && now - begin >= warm_ns) {
            counted = i;
            from_ns = now;
            bytes = 0;
        } else if (counted == i) {
            *bytes_per_second = (double)bytes * 1e9 / (double)(now - from_ns);
        }
        exchange->size_log = 0;
        if (next != 0)
            TRY(begin_exchange(prober, other, exchange, next,
                               next_size_log(next, now - exchange->begin_ns, now - begin)));
    }
    return TUTTI_OK;
}

/* From rest: until the other has all of a message of the lower host, and its answer is here. */
static enum tutti_status time_after_rest(struct prober *prober, int other, size_t bytes,
                                         double *least_ns)
{
    char *const buffer = prober->exchanges[0].send;
    char answer = 0;
    *least_ns = 0;
    for (int i = 0; i < REST_REPEATS; i++) {
        nanosleep(&(struct timespec){0, REST_NS}, NULL);
        const uint64_t begin = clock_now_ns();
        if (prober->host < other) {
            TRY(tutti_send(buffer, bytes, TUTTI_UINT8, other, TAG, prober->hosts));
            TRY(tutti_recv(&answer, 1, TUTTI_UINT8, other, TAG, NULL, prober->hosts));
        } else {
            TRY(tutti_recv(buffer, bytes, TUTTI_UINT8, other, TAG, NULL, prober->hosts));
            TRY(tutti_send(&answer, 1, TUTTI_UINT8, other, TAG, prober->hosts));
        }
        const double took_ns = (double)(clock_now_ns() - begin);
        if (i == 0 || took_ns < *least_ns) *least_ns = took_ns;
    }
    return TUTTI_OK;
}

/* A token bucket lets a burst pass at once, and from then on a byte in the time of its rate, which
 * the step from one large message to a larger one tells: by how much the first one came too early
 * is the burst. */
static enum tutti_status measure_burst(struct prober *prober, int other, double *burst_bytes)
{
    double none_ns, large_ns, larger_ns;
    TRY(time_after_rest(prober, other, 1, &none_ns));
    TRY(time_after_rest(prober, other, BURST_LARGE, &large_ns));
    TRY(time_after_rest(prober, other, BURST_LARGER, &larger_ns));
    const double byte_ns = (larger_ns - large_ns) / (BURST_LARGER - BURST_LARGE);
    if (prober->host > other || byte_ns <= 0) return TUTTI_OK;
    const double burst = BURST_LARGE - (large_ns - none_ns) / byte_ns;
    *burst_bytes = burst > BURST_LEAST ? burst : 0;
    return TUTTI_OK;
}

/* Between the first two hosts that share a rack, or that do not. */
static enum tutti_status measure_burst_of(struct prober *prober, bool is_shared, double *burst_bytes)
{
    const int *const rack_of = prober->result->rack_of;
    TRY(tutti_barrier(prober->hosts));
    for (int a = 0; a < prober->host_count; a++)
        for (int b = a + 1; b < prober->host_count; b++) {
            if ((rack_of[a] == rack_of[b]) != is_shared) continue;
            if (prober->host == a) return measure_burst(prober, b, burst_bytes);
            return prober->host == b ? measure_burst(prober, a, burst_bytes) : TUTTI_OK;
        }
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------- all the pairs */

static enum tutti_status play_round(struct prober *prober, int tournament, int round)
{
    const size_t count = (size_t)prober->host_count, host = (size_t)prober->host;
    const int other = probe_partner(prober->order, prober->host_count, round, prober->host);
    double latency_ns = 0, rate = 0;
    TRY(tutti_barrier(prober->hosts));
    if (other >= 0) TRY(measure_latency(prober, other, &latency_ns));
    TRY(tutti_barrier(prober->hosts));
    if (other >= 0) TRY(measure_rate(prober, other, &rate));
    if (other < prober->host) return TUTTI_OK;
    /* The figures of the pair's lower host count for both. */
    double *const known = &prober->result->latency_ns[host * count + (size_t)other];
    if (*known == 0 || latency_ns < *known) *known = latency_ns;
    prober->result->latency_ns[(size_t)other * count + host] = *known;
    double *const rates = &prober->result->bytes_per_second[(size_t)tournament * count * count];
    rates[host * count + (size_t)other] = rates[(size_t)other * count + host] = rate;
    return TUTTI_OK;
}

static struct probe probe_of(const struct probe_result *result)
{
    return (struct probe){result->host_count, result->tournament_count, result->latency_ns,
                          result->bytes_per_second};
}

static enum tutti_status play(struct prober *prober)
{
    const int rounds = probe_round_count(prober->host_count);
    const size_t cells = (size_t)prober->host_count * (size_t)prober->host_count;
    struct probe_result *const result = prober->result;
    for (int t = 0; t < prober->tournament_count; t++) {
        probe_order(prober->host_count, t, prober->order);
        for (int round = 0; round < rounds; round++) TRY(play_round(prober, t, round));
    }
    /* Each cell has one rank that knows it, and is 0 elsewhere. */
    TRY(tutti_allreduce(result->latency_ns, result->latency_ns, cells, TUTTI_FLOAT64, TUTTI_SUM,
                        prober->hosts));
    TRY(tutti_allreduce(result->bytes_per_second, result->bytes_per_second,
                        cells * (size_t)prober->tournament_count, TUTTI_FLOAT64, TUTTI_SUM,
                        prober->hosts));
    const struct probe probe = probe_of(result);
    result->rack_count = probe_racks(&probe, result->rack_of);
    if (result->rack_count < 0) return no_memory();
    double bursts[2] = {0};
    for (int i = 0; i < 2; i++) TRY(measure_burst_of(prober, i == 0, &bursts[i]));
    TRY(tutti_allreduce(bursts, bursts, 2, TUTTI_FLOAT64, TUTTI_SUM, prober->hosts));
    result->rack_burst_bytes = bursts[0];
    result->cluster_burst_bytes = bursts[1];
    return TUTTI_OK;
}

static enum tutti_status allocate(struct prober *prober)
{
    struct probe_result *const result = prober->result;
    const size_t count = (size_t)prober->host_count, cells = count * count;
    result->host_count = prober->host_count;
    result->tournament_count = prober->tournament_count;
    result->rack_of = calloc(count, sizeof *result->rack_of);
    result->latency_ns = calloc(cells, sizeof *result->latency_ns);
    result->bytes_per_second =
        calloc(cells * (size_t)prober->tournament_count, sizeof *result->bytes_per_second);
    prober->order = calloc(count, sizeof *prober->order);
    bool all = result->rack_of && result->latency_ns && result->bytes_per_second && prober->order;
    for (int i = 0; i < 2; i++) {
        prober->exchanges[i].send = calloc(1, (size_t)1 << SIZE_LOG_MAX);
        prober->exchanges[i].recv = calloc(1, (size_t)1 << SIZE_LOG_MAX);
        all = all && prober->exchanges[i].send && prober->exchanges[i].recv;
    }
    return all ? TUTTI_OK : no_memory();
}

/* On one rank of each host. */
static enum tutti_status measure_hosts(struct tutti_comm *hosts, struct probe_result *result)
{
    struct prober prober = {.hosts = hosts,
                            .host = tutti_comm_rank(hosts),
                            .host_count = tutti_comm_size(hosts),
                            .result = result};
    prober.tournament_count = probe_tournament_count(prober.host_count, TOURNAMENTS_MAX, ROUNDS_MAX);
    enum tutti_status status = allocate(&prober);
    if (status == TUTTI_OK) status = play(&prober);
    free(prober.order);
    for (int i = 0; i < 2; i++) {
        free(prober.exchanges[i].send);
        free(prober.exchanges[i].recv);
    }
    return status;
}

/* -------------------------------------------------------------------------------------- the job */

/* TUTTI_HOSTID can set ranks of one host apart, for the library and here. */
static void name_host(char name[TOPO_NAME_SIZE])
{
    char host[TOPO_NAME_SIZE] = "", text[2 * TOPO_NAME_SIZE];
    const char *id = option_text(OPTION_HOSTID);
    if (gethostname(host, sizeof host - 1) != 0) strcpy(host, "host");
    snprintf(text, sizeof text, id == NULL ? "%s" : "%s.%s", host, id);
    topo_set_text(name, TOPO_NAME_SIZE, text);
}

static enum tutti_status gather_names(struct tutti_comm *comm, char (*names)[TOPO_NAME_SIZE])
{
    char own[TOPO_NAME_SIZE] = "";
    name_host(own);
    return tutti_allgather(own, names, TOPO_NAME_SIZE, TUTTI_INT8, comm);
}

/* Hosts are numbered as their first ranks come; their names move to the front. first: of each host,
 * its first rank. */
static int number_hosts(char (*names)[TOPO_NAME_SIZE], int size, int *host_of_rank, int *first)
{
    int hosts = 0;
    for (int rank = 0; rank < size; rank++) {
        int host = 0;
        while (host < hosts && strcmp(names[host], names[rank]) != 0) host++;
        host_of_rank[rank] = host;
        if (host < hosts) continue;
        first[hosts] = rank;
        memmove(names[hosts++], names[rank], TOPO_NAME_SIZE);
    }
    return hosts;
}

static enum tutti_status conclude(struct probe_result *result, const int *host_of_rank, int size)
{
    const struct probe probe = probe_of(result);
    const char *names[PROBE_HOSTS_MAX];
    for (int i = 0; i < result->host_count; i++) names[i] = result->host_names[i];
    return probe_topo(&probe, result->rack_of, result->rack_count, names, host_of_rank, size,
                      &result->topo);
}

/* Ranks that measure nothing wait until the other ranks have measured. hosts: the ranks that
 * measure; NULL: this rank does not. */
static enum tutti_status measure_and_wait(struct tutti_comm *comm, struct tutti_comm *hosts,
                                          struct probe_result *result, const int *host_of_rank)
{
    if (hosts != NULL) {
        TRY(measure_hosts(hosts, result));
        TRY(conclude(result, host_of_rank, tutti_comm_size(comm)));
    }
    return tutti_barrier(comm);
}

static enum tutti_status measure_job(struct tutti_comm *comm, struct probe_result *result,
                                     int *host_of_rank, int *first)
{
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    TRY(gather_names(comm, result->host_names));
    const int hosts = number_hosts(result->host_names, size, host_of_rank, first);
    if (hosts < 2)
        return error_set(TUTTI_UNSUPPORTED, "all ranks are on host %s: nothing to measure",
                         result->host_names[0]);
    if (hosts > PROBE_HOSTS_MAX)
        return error_set(TUTTI_UNSUPPORTED, "%d hosts: more than %d", hosts, PROBE_HOSTS_MAX);
    result->rank_count = size;
    struct tutti_comm *each = NULL;
    const bool measures = first[host_of_rank[rank]] == rank;
    TRY(tutti_comm_split(comm, measures ? 0 : TUTTI_NO_COLOR, rank, NULL, &each));
    const enum tutti_status status = measure_and_wait(comm, each, result, host_of_rank);
    const enum tutti_status freed = tutti_comm_free(each);
    return status != TUTTI_OK ? status : freed;
}

enum tutti_status probe_measure(struct probe_result *result, bool *shows)
{
    *result = (struct probe_result){0};
    *shows = false;
    struct tutti_comm *comm;
    TRY(tutti_comm_create(NULL, &comm));
    const size_t size = (size_t)tutti_comm_size(comm);
    int *const host_of_rank = calloc(size, sizeof *host_of_rank);
    int *const first = calloc(size, sizeof *first);
    result->host_names = calloc(size, sizeof *result->host_names);
    *shows = tutti_comm_rank(comm) == 0;
    enum tutti_status status = host_of_rank && first && result->host_names ? TUTTI_OK : no_memory();
    if (status == TUTTI_OK) status = measure_job(comm, result, host_of_rank, first);
    free(host_of_rank);
    free(first);
    if (tutti_comm_free(comm) != TUTTI_OK && status == TUTTI_OK) status = TUTTI_INTERNAL;
    return status;
}

void probe_release(struct probe_result *result)
{
    free(result->host_names);
    free(result->rack_of);
    free(result->latency_ns);
    free(result->bytes_per_second);
    topo_release(&result->topo);
    *result = (struct probe_result){0};
}

/* ----------------------------------------------------------------------------------- showing it */

/* The mean rate of a pair, over the tournaments. */
static double mean_rate(const struct probe_result *result, size_t cell)
{
    const size_t cells = (size_t)result->host_count * (size_t)result->host_count;
    double sum = 0;
    for (int t = 0; t < result->tournament_count; t++)
        sum += result->bytes_per_second[(size_t)t * cells + cell];
    return sum / result->tournament_count;
}

static void print_head(const struct probe_result *result, const char *title, FILE *file)
{
    fprintf(file, "%s\n%-16s", title, "");
    for (int i = 0; i < result->host_count; i++) fprintf(file, " %8d", i);
    fputc('\n', file);
}

static void print_cells(const struct probe_result *result, bool rates, FILE *file)
{
    for (int a = 0; a < result->host_count; a++) {
        fprintf(file, "%3d %-12.12s", a, result->host_names[a]);
        for (int b = 0; b < result->host_count; b++) {
            const size_t cell = (size_t)a * (size_t)result->host_count + (size_t)b;
            const double value =
                rates ? mean_rate(result, cell) / 1e6 : result->latency_ns[cell] / 1e3;
            if (a == b)
                fprintf(file, " %8s", "-");
            else
                fprintf(file, " %8.1f", value);
        }
        fputc('\n', file);
    }
}

enum tutti_status probe_print(const struct probe_result *result, FILE *file)
{
    print_head(result, "latency, us one way", file);
    print_cells(result, false, file);
    fputc('\n', file);
    print_head(result, "MB/s in each direction, while all others send as well", file);
    print_cells(result, true, file);
    fputc('\n', file);
    if (result->rack_count == 1) fputs("nothing tells racks apart\n", file);
    for (int rack = 0; rack < result->rack_count && result->rack_count > 1; rack++) {
        fprintf(file, "rack%d:", rack);
        for (int i = 0; i < result->host_count; i++)
            if (result->rack_of[i] == rack) fprintf(file, " %s", result->host_names[i]);
        fputc('\n', file);
    }
    return TUTTI_OK;
}
