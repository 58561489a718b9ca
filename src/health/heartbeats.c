#include "health/heartbeats.h"

#include "health/failure.h"
#include "health/remote_rank.h"

#include <stddef.h>
#include <stdio.h>

#include "base/log.h"
#include "base/status.h"
#include "membership/heartbeat.h"
#include "os/clock.h"
#include "team/options.h"

enum {
    FIRST_NS = 300000000,
    LOOK_NS = 5000000,
    POKED_NOTES_MAX = 4 /* that may be unheard */
};
static const uint64_t WARN_APART_NS = 10000000000u;
/* A rank that was heard so lately is there, even if nothing comes from the rank that sends
 * heartbeats for it. */
static const uint64_t LATELY_NS = 1000000000u;

struct heartbeat_message {
    uint32_t kind, ignored;
    unsigned char bytes[HEARTBEAT_BYTES_MAX];
};
enum { HEAD_BYTES = offsetof(struct heartbeat_message, bytes) };
static_assert(sizeof(struct heartbeat_message) <= CONTROL_MESSAGE_BYTES_MAX,
              "a part of a heartbeat is a control message");

static int first_rank(const struct network *network, int host)
{
    return network->health->team->members.hosts->firsts[host];
}

enum tutti_status heartbeats_create(struct network *network)
{
    const struct team_hosts *hosts = network->health->team->members.hosts;
    const int host = hosts->host_of[network->health->team->rank];
    uint64_t period_ns;
    TRY(options_heartbeat(&period_ns));
    if (period_ns == 0 || first_rank(network, host) != network->health->team->rank) return TUTTI_OK;
    if (hosts->host_count > HEARTBEAT_HOSTS_MAX) {
        log_write(LOG_INFO, "rank %d: no heartbeats between more than %d hosts",
                  network->health->team->rank, HEARTBEAT_HOSTS_MAX);
        return TUTTI_OK;
    }
    const uint64_t now_ns = clock_now_ns();
    const struct heartbeat_options options = {.host = host,
                                              .host_count = hosts->host_count,
                                              .rank_counts = hosts->counts,
                                              .period_ns = period_ns,
                                              .now_ns = now_ns,
                                              .first_ns = now_ns + FIRST_NS};
    return heartbeat_create(&options, &network->heartbeat);
}

void heartbeats_free(struct network *network)
{
    heartbeat_free(network->heartbeat);
    network->heartbeat = NULL;
}

size_t heartbeats_bytes(const struct network *network)
{
    return network->heartbeat != NULL ? heartbeat_bytes(network->heartbeat) : 0;
}

void heartbeats_end(struct network *network)
{
    if (network->heartbeat != NULL) heartbeat_end(network->heartbeat);
}

void heartbeats_hear(struct network *network, int peer, const void *message, size_t bytes)
{
    const int host = network->health->team->members.hosts->host_of[peer];
    if (network->heartbeat == NULL || bytes < HEAD_BYTES || first_rank(network, host) != peer)
        return;
    heartbeat_hear(network->heartbeat, (const char *)message + HEAD_BYTES, bytes - HEAD_BYTES,
                   clock_now_ns());
}

/* -------------------------------------------------------------------------------------- sending */

static void send_heartbeat(struct network *network, int rank)
{
    struct heartbeat_message message = {.kind = CONTROL_HEARTBEAT};
    for (int part = 0; part < heartbeat_part_count(network->heartbeat); part++) {
        const size_t bytes = heartbeat_write(network->heartbeat, part, message.bytes);
        if (network->control->ops->tell(network->control, rank, &message, HEAD_BYTES + bytes) !=
            TUTTI_OK) {
            remote_count_untold(network, rank);
            return;
        }
    }
}

static void send_heartbeats(struct network *network)
{
    int host;
    bool is_poke;
    while (heartbeat_next(network->heartbeat, &host, &is_poke)) {
        const int rank = first_rank(network, host);
        if (network->flags[rank].is_dead || remote_has_left(network->health, rank)) continue;
        if (network->control->ops->unheard(network->control, rank) > (is_poke ? POKED_NOTES_MAX : 0))
            continue;
        send_heartbeat(network, rank);
    }
}

/* Looks for answers of silent hosts, which may only be stopped. */
static void look_for_answers(struct network *network)
{
    for (int h = 0; h < network->health->team->members.hosts->host_count; h++) {
        if (!heartbeat_wants_answer(network->heartbeat, h)) continue;
        const uint64_t at_ns = remote_answered_ns(network->health, first_rank(network, h));
        if (at_ns > 0) heartbeat_answered(network->heartbeat, h, at_ns);
    }
}

/* ------------------------------------------------------------------------------------- findings */

static void report_change(struct network *network, int host, enum heartbeat_state before,
                          enum heartbeat_state now, uint64_t now_ns)
{
    const int rank = first_rank(network, host);
    struct remote_flags *flags = &network->flags[rank];
    char who[128];
    health_name_rank(network->health, rank, who, sizeof who);
    if (now == HEARTBEAT_SUSPECTED) {
        struct remote_rank *remote = remote_know(network, rank);
        if (flags->is_suspect ||
            (remote != NULL && remote->warned_ns != 0 && now_ns - remote->warned_ns < WARN_APART_NS))
            return;
        flags->is_suspect = true;
        if (remote != NULL) remote->warned_ns = now_ns;
        log_write(LOG_WARN, "rank %d: SUSPECT: nothing was heard of %s and its host for %.1f s",
                  network->health->team->rank, who,
                  (double)heartbeat_silence_ns(network->heartbeat, host) * 1e-9);
    } else if (flags->is_suspect) {
        flags->is_suspect = false;
        log_write(LOG_WARN, "rank %d: %s and its host are heard again%s",
                  network->health->team->rank, who,
                  now == HEARTBEAT_STALLED ? ", but only the kernel answers" : "");
    } else if (now == HEARTBEAT_STALLED || before == HEARTBEAT_STALLED) {
        log_write(LOG_INFO, "rank %d: %s %s", network->health->team->rank, who,
                  now == HEARTBEAT_STALLED ? "is silent, but its kernel answers" : "is heard again");
    }
}

static long suspected_rank_count(const struct network *network)
{
    const struct team_hosts *hosts = network->health->team->members.hosts;
    long count = 0;
    for (int h = 0; h < hosts->host_count; h++)
        if (heartbeat_state(network->heartbeat, h) == HEARTBEAT_SUSPECTED)
            count += hosts->counts[h];
    return count;
}

static void fail(struct network *network, const struct heartbeat_verdict *verdict)
{
    struct health *health = network->health;
    const int rank = first_rank(network, verdict->culprit);
    const double silent_s = (double)verdict->silent_ns * 1e-9;
    struct call_name in_call;
    const struct call_name *call = health_call_under_way(health, &in_call) ? &in_call : NULL;
    char who[128], trouble[COMM_TROUBLE_MAX], others[48] = "";
    health_name_rank(health, rank, who, sizeof who);
    board_announce_verdict(health->board);
    if (verdict->suspect_count > 1)
        snprintf(others, sizeof others, ", nor of %d more hosts", verdict->suspect_count - 1);
    remote_trouble(health, rank, trouble);
    if (verdict->is_minority) {
        health_fail(health, call, TUTTI_MINORITY, rank,
                    "%ld of %d ranks are cut off: nothing was heard of %s for %.1f s%s%s",
                    health->team->size - suspected_rank_count(network), health->team->size, who,
                    silent_s, others, trouble);
    } else {
        health_fail(health, call, TUTTI_PROC_FAILED, rank,
                    "%s is gone: nothing was heard of its host for %.1f s%s%s", who, silent_s,
                    others, trouble);
    }
}

/* Its host, or the host's kernel, said so. */
static bool has_ended(const struct network *network, int rank)
{
    const struct health *health = network->health;
    struct tutti_failure failure;
    if (remote_has_ended(health, rank)) return true;
    return board_failure(health->board, &failure) == TUTTI_PROC_FAILED &&
           !board_is_verdict(health->board) && failure.culprit == rank;
}

/* Whether no rank sends heartbeats for the other ranks of that host any more, which may be well. */
static bool is_without_voice(const struct network *network, int host)
{
    const int first = first_rank(network, host);
    return remote_has_left(network->health, first) || has_ended(network, first);
}

/* A rank that is gone by a verdict is gone for all that waits for it, in whatever way. */
static void declare_dead(struct network *network, int host, uint64_t now_ns)
{
    const struct health *health = network->health;
    const struct team_hosts *hosts = health->team->members.hosts;
    const bool spares_others = is_without_voice(network, host);
    for (int r = 0; r < health->team->size; r++) {
        if (hosts->host_of[r] != host) continue;
        const bool is_spared = spares_others || now_ns < remote_heard_ns(health, r) + LATELY_NS;
        if (r == first_rank(network, host) || !is_spared) remote_declare_dead(network, r);
    }
}

static void judge(struct network *network, uint64_t now_ns)
{
    struct heartbeat_verdict verdict;
    int host;
    if (heartbeat_has_open_suspects(network->heartbeat))
        remote_look_at_all(network->health, now_ns);
    if (!network->is_judged && heartbeat_judge(network->heartbeat, &verdict)) {
        network->is_judged = true;
        fail(network, &verdict);
    }
    while (heartbeat_condemned(network->heartbeat, &host)) declare_dead(network, host, now_ns);
}

void heartbeats_progress(struct network *network, uint64_t now_ns)
{
    int host;
    enum heartbeat_state before, now;
    if (network->heartbeat == NULL || now_ns - network->heartbeat_looked_ns < LOOK_NS) return;
    network->heartbeat_looked_ns = now_ns;
    if (heartbeat_progress(network->heartbeat, now_ns)) {
        send_heartbeats(network);
        look_for_answers(network);
    }
    while (heartbeat_change(network->heartbeat, &host, &before, &now))
        report_change(network, host, before, now, now_ns);
    board_set_minority(network->health->board, heartbeat_is_minority(network->heartbeat));
    judge(network, now_ns);
}
