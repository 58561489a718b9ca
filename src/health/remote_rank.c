/* remote_rank.c - ranks of other hosts: what is told to them and heard of them, and whether they
 * are still there.
 *
 *     rank of host a                                                    rank of host b
 *     first of its host: all are here ──── JOINED ────────────────────► rank 0: when all hosts are
 *     all have joined                     ◄─── ALL_JOINED ───────────── and they may begin
 *     fails, or sees that its host failed ──── FAILURE ───────────────► writes it on its host's board, and tells its own peers
 *     leaves, when all have what it sent  ──── LEFT ──────────────────► remote board: left
 *     waits for 200 ms                    ──── ASK(slot, call) ───────►
 *     remote board: the call, or none yet ◄─── CALL(slot, latest, ..) ─ at the next progress, if need be the progress thread's
 *     sends the first message             ──── MESSAGES ──────────────► all of that host listen for messages
 *     every 0.1 s, first of its host      ──── HEARTBEAT ─────────────► who is still there (heartbeats.h)
 *
 * Control messages go over connections that the data has made. A rank that waits for another one is
 * connected with it, and that one with the rank that it waits for; so a failure reaches all ranks
 * that wait, over some others and over the boards of hosts. The first failure that a host hears of
 * stays the host's; two that happen at once may be named differently on different hosts.
 *
 * Whether a rank is still there control tells by its connections and links (control.h, `look`), and
 * heartbeats by its host (heartbeats.h).
 *
 * Where hosts were cut off from each other for longer than heartbeats bear, and then not any more,
 * each side has its verdict, or hears the other's: what is a PROC_FAILED of a living rank for one
 * side is a MINORITY for that rank's, and the other way round.
 *
 * A control message finds no place when its peer has not heard many before it, and one to a peer
 * that was not known before may find no memory. FAILURE and LEFT have places of their own and need
 * no memory, and what is remembered for them (struct remote_flags) is there from the beginning;
 * JOINED, ALL_JOINED and MESSAGES are told again until there is a place; all others are asked for
 * or said again in any case. Dropped control messages are counted, and a line says so every 10 s at
 * most.
 *
 * What comes from another host is foreign: numbers are checked, texts ended.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "health/control_message.h"
#include "health/remote_rank.h"
#include "membership/rank_set.h"
#include "os/clock.h"

enum {
    ASK_NS = 100000000,
    ASKED_MAX = 8, /* control messages that it has not heard */
    AGREED_MAX = 12
};

/* Without an answer for SILENT_NS a rank may be stopped; what its kernel said then counts for
 * FRESH_NS. */
static const uint64_t SILENT_NS = 1300000000u, FRESH_NS = 2500000000u;

/* -------------------------------------------------------------------------------- what is known */

struct remote_flags *remote_of(const struct health *health, int rank)
{
    struct network *network = health->network;
    return network == NULL || network->flags == NULL || team_shares_host(health->team, rank)
               ? NULL
               : &network->flags[rank];
}

const struct remote_rank *remote_find(const struct network *network, int rank)
{
    return rank_map_find(&network->ranks, rank);
}

struct remote_rank *remote_know(struct network *network, int rank)
{
    const bool is_new = remote_find(network, rank) == NULL;
    struct remote_rank *const remote = rank_map_get(&network->ranks, rank, sizeof *remote);
    if (is_new && remote != NULL) remote->known_slot = -1;
    return remote;
}

struct board_call *remote_know_calls(struct remote_rank *remote, int slot)
{
    struct board_call **const calls = &remote->calls[slot];
    const size_t bytes = BOARD_CALLS * sizeof **calls;
    if (*calls == NULL && (*calls = aligned_alloc(sizeof **calls, bytes)) != NULL)
        memset(*calls, 0, bytes);
    return *calls;
}

void remote_free_all(struct network *network)
{
    struct remote_rank *remote;
    for (int at = 0; (remote = rank_map_next(&network->ranks, &at)) != NULL;) {
        for (int slot = 0; slot < TRANSPORT_SLOT_COUNT; slot++) free(remote->calls[slot]);
        free(remote);
    }
    rank_map_release(&network->ranks);
    free(network->flags);
    network->flags = NULL;
}

bool remote_has_left(const struct health *health, int rank)
{
    const struct remote_flags *flags = remote_of(health, rank);
    return flags != NULL && atomic_load_explicit(&flags->has_left, memory_order_acquire);
}

uint64_t remote_left_at(const struct health *health, int rank)
{
    const struct remote_rank *remote =
        remote_of(health, rank) != NULL ? remote_find(health->network, rank) : NULL;
    return remote != NULL ? remote->left_at : 0;
}

struct board_call *remote_calls(const struct health *health, int rank, int slot)
{
    static const struct board_call none[BOARD_CALLS]; /* of which none has begun */
    const struct remote_rank *remote =
        remote_of(health, rank) != NULL ? remote_find(health->network, rank) : NULL;
    if (remote != NULL && remote->calls[slot] != NULL) return remote->calls[slot];
    return (struct board_call *)(uintptr_t)none;
}

/* Whether a rank of another host is connected. */
static bool is_there(const struct network *network, int rank)
{
    struct peer_report report;
    if (network->flags[rank].is_dead) return false;
    network->control->ops->report(network->control, rank, &report);
    return report.state != PEER_UNUSED && report.state != PEER_BROKEN;
}

/* -------------------------------------------------------------------------------------- telling */

void remote_count_untold(struct network *network, int rank)
{
    char more[LOG_LIMIT_TEXT_SIZE];
    network->untold++;
    if (!log_limit_allows(&network->untold_limit, clock_now_ns(), more)) return;
    log_write(LOG_WARN, "rank %d: could not tell rank %d something%s: %s",
              network->health->team->rank, rank, more, tutti_error_message());
}

/* Tells a control message that may be lost, because it will be asked for or said again. */
bool remote_tell(struct network *network, int rank, const struct control_message *message)
{
    if (network->control->ops->tell(network->control, rank, message, sizeof *message) == TUTTI_OK)
        return true;
    remote_count_untold(network, rank);
    return false;
}

/* Nobody says them again, and whoever does not hear them waits for nothing: they have places of
 * their own. */
static bool tell_final(struct network *network, int rank, const struct control_message *message)
{
    if (network->control->ops->tell_final(network->control, rank, message, sizeof *message) ==
        TUTTI_OK)
        return true;
    remote_count_untold(network, rank);
    return false;
}

static struct control_message joined_message(const struct health *health)
{
    struct control_message message = {
        .kind = CONTROL_JOINED,
        .u.joined = {.levels = health->team->members.levels->fingerprint,
                     .integrity = (uint32_t)health->team->settings.integrity}};
    /* Its ranks differ already: nobody else is of their mind. */
    if (board_has_failed(health->board)) message.u.joined.integrity = TUTTI_INTEGRITY_DEFAULT;
    return message;
}

/* Tells a message that is told once and must come: again from remote_tell_owed, as long as there is
 * no place for it. */
static void tell_once(struct network *network, int rank, enum control_kind kind)
{
    const struct control_message message = kind == CONTROL_JOINED
                                               ? joined_message(network->health)
                                               : (struct control_message){.kind = kind};
    const unsigned bit = 1u << kind;
    struct remote_flags *remote = &network->flags[rank];
    const bool was_owed = (remote->owed & bit) != 0;
    remote->owed &= (uint16_t)~bit;
    if (network->control->ops->tell(network->control, rank, &message, sizeof message) == TUTTI_OK)
        return;
    if (!was_owed) remote_count_untold(network, rank);
    remote->owed |= (uint16_t)bit;
    network->any_owed = true;
}

void remote_tell_owed(struct network *network)
{
    static const enum control_kind kinds[] = {CONTROL_MESSAGES, CONTROL_JOINED, CONTROL_ALL_JOINED};
    network->any_owed = false;
    for (int at = 0, r; (r = team_next_remote(network->health->team, &at)) >= 0;)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds && network->flags[r].owed != 0; i++)
            if (network->flags[r].owed & 1u << kinds[i]) tell_once(network, r, kinds[i]);
}

/* False: there is none. */
static bool write_failure(const struct network *network, struct control_message *message)
{
    struct tutti_failure failure;
    if (board_failure(network->health->board, &failure) == TUTTI_OK) return false;
    *message = (struct control_message){
        .kind = CONTROL_FAILURE,
        .u.failure = {.status = (int32_t)failure.status,
                      .culprit = failure.culprit,
                      .reporter = failure.reporter,
                      .is_verdict = board_is_verdict(network->health->board),
                      .sequence = failure.sequence}};
    memcpy(message->u.failure.message, failure.message, sizeof message->u.failure.message);
    return true;
}

void remote_tell_failure_to(struct network *network, int rank)
{
    struct control_message message;
    struct remote_flags *const remote = &network->flags[rank];
    if (!remote->knows_failure && !remote->is_dead && write_failure(network, &message))
        remote->knows_failure = tell_final(network, rank, &message);
}

void remote_tell_failure(struct network *network)
{
    struct control_message message;
    if (!write_failure(network, &message)) return;
    for (int at = 0, r; (r = team_next_remote(network->health->team, &at)) >= 0;)
        if (!network->flags[r].knows_failure && is_there(network, r))
            network->flags[r].knows_failure = tell_final(network, r, &message);
}

void remote_tell_leaving(struct network *network)
{
    const struct health *const health = network->health;
    const struct control_message message = {
        .kind = CONTROL_LEFT,
        .begun = atomic_load_explicit(&health->board->ranks[health->board_number].left_at,
                                      memory_order_relaxed)};
    for (int at = 0, r; (r = team_next_remote(network->health->team, &at)) >= 0;)
        if (is_there(network, r)) (void)tell_final(network, r, &message);
}

void remote_ask(struct health *health, int rank, int slot, uint64_t begun)
{
    struct network *network = health->network;
    if (remote_of(health, rank) == NULL) return;
    struct remote_rank *remote = remote_know(network, rank);
    if (remote == NULL) return; /* it is asked again */
    const uint64_t now = clock_now_ns();
    const unsigned unheard =
        network->control->ops->unheard(network->control, rank); /* it may be stopped */
    if (unheard >= ASKED_MAX || now - remote->asked_ns < ASK_NS * (1 + unheard)) return;
    remote->asked_ns = now;
    /* A rank that has heard all questions is running, though an answer may be lost. */
    if (unheard == 0 || remote->waited_ns == 0) remote->waited_ns = now;
    (void)remote_tell(network, rank,
                      &(struct control_message){.kind = CONTROL_ASK, .slot = slot, .begun = begun});
}

bool remote_ask_after(struct health *health, int rank, int slot, uint64_t begun)
{
    struct network *network = health->network;
    if (remote_of(health, rank) == NULL || network->is_stopped ||
        network->control->ops->unheard(network->control, rank) > 0)
        return false;
    return remote_tell(network, rank,
                       &(struct control_message){.kind = CONTROL_ASK, .slot = slot, .begun = begun});
}

bool remote_ask_all(struct health *health, int slot, uint64_t begun)
{
    bool any = false;
    for (int at = 0, r; (r = team_next_remote(health->team, &at)) >= 0; any = true)
        if (!remote_knows_call(health, r, slot, begun)) remote_ask(health, r, slot, begun);
    return any;
}

bool remote_knows_call(const struct health *health, int rank, int slot, uint64_t begun)
{
    const struct remote_rank *remote = remote_find(health->network, rank);
    return remote != NULL && remote->known_slot == slot && remote->known_begun == begun;
}

struct board_finding remote_standing(const struct health *health, int rank)
{
    const struct remote_rank *remote = remote_find(health->network, rank);
    return (struct board_finding){.rank = rank, .sequence = remote != NULL ? remote->sequence : 0};
}

bool remote_is_in_call(const struct health *health, int rank)
{
    const struct remote_rank *remote = remote_find(health->network, rank);
    return remote != NULL && remote->is_in_call;
}

bool remote_agrees(const struct health *health, int rank)
{
    const struct remote_rank *remote = remote_find(health->network, rank);
    return remote != NULL && remote->agrees;
}

bool remote_read_progress(const struct health *health, int rank, struct board_progress *progress)
{
    const struct remote_rank *remote = remote_find(health->network, rank);
    *progress = remote != NULL ? remote->progress : (struct board_progress){0};
    return remote != NULL && remote->has_progress;
}

uint64_t remote_progress_heard_ns(const struct health *health, int rank)
{
    const struct remote_rank *remote = remote_find(health->network, rank);
    return remote != NULL ? remote->progress_ns : 0;
}

bool remote_hearsay(const struct health *health, int rank, struct board_finding *finding)
{
    const struct remote_rank *remote = remote_find(health->network, rank);
    if (remote == NULL || !remote->has_finding) return false;
    *finding = remote->finding;
    return true;
}

bool remote_is_stopped(const struct health *health, int rank, uint64_t now_ns)
{
    const struct network *network = health->network;
    const struct remote_rank *remote = remote_find(network, rank);
    if (network->is_stopped || remote == NULL || remote->waited_ns == 0 ||
        now_ns < remote->waited_ns + SILENT_NS)
        return false;
    const uint64_t answered_ns = remote_answered_ns(health, rank);
    return answered_ns > remote->waited_ns + SILENT_NS / 4 && now_ns < answered_ns + FRESH_NS &&
           network->control->ops->unheard(network->control, rank) > 0;
}

uint64_t remote_silent_ns(const struct health *health, int rank, uint64_t now_ns)
{
    const struct network *network = health->network;
    if (remote_of(health, rank) == NULL || network->is_stopped) return 0;
    const struct remote_rank *remote = remote_find(network, rank);
    if (remote == NULL || remote->waited_ns == 0 ||
        network->control->ops->unheard(network->control, rank) == 0)
        return 0;
    const uint64_t heard_ns = remote_heard_ns(health, rank);
    const uint64_t since_ns = heard_ns > remote->waited_ns ? heard_ns : remote->waited_ns;
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

void remote_invite(struct health *health, int rank)
{
    struct remote_flags *remote = remote_of(health, rank);
    if (remote == NULL || remote->is_invited) return;
    remote->is_invited = true;
    tell_once(health->network, rank, CONTROL_MESSAGES);
}

void remote_tell_agreement(struct health *health, int rank, const void *bytes, size_t byte_count)
{
    struct {
        uint32_t kind;
        char bytes[CONTROL_MESSAGE_BYTES_MAX - sizeof(uint32_t)];
    } message = {.kind = CONTROL_AGREEMENT};
    struct network *network = health->network;
    if (byte_count > sizeof message.bytes) return;
    /* It is said again. A rank that does not run must find room for what is told once. */
    if (network->control->ops->unheard(network->control, rank) >= AGREED_MAX) return;
    memcpy(message.bytes, bytes, byte_count);
    if (network->control->ops->tell(network->control, rank, &message,
                                    sizeof message.kind + byte_count) != TUTTI_OK)
        remote_count_untold(network, rank); /* it is said again */
}

/* -------------------------------------------------------------------------------------- joining */

bool remote_all_hosts_have_joined(const struct network *network)
{
    const struct team_hosts *hosts = network->health->team->members.hosts;
    for (int host = 1; host < hosts->host_count; host++) /* rank 0's is the first */
        if (!network->flags[hosts->firsts[host]].has_joined) return false;
    return true;
}

void remote_tell_joined(struct network *network)
{
    tell_once(network, 0, CONTROL_JOINED);
}

void remote_tell_all_have_joined(struct network *network)
{
    for (int r = 0; r < network->health->team->size; r++)
        if (network->flags[r].has_joined) tell_once(network, r, CONTROL_ALL_JOINED);
}

/* --------------------------------------------------------------------------------------- deaths */

/* Asks control whether it is there, which stays as it finds it. True: it is dead. */
static bool look_at(struct network *network, int rank, uint64_t now_ns)
{
    struct remote_flags *remote = &network->flags[rank];
    if (remote->is_dead) return true;
    const enum peer_presence presence = network->control->ops->look(network->control, rank, now_ns);
    remote->has_ended = presence == PEER_ENDED;
    if (presence != PEER_PRESENT) remote_declare_dead(network, rank);
    return remote->is_dead;
}

void remote_declare_dead(struct network *network, int rank)
{
    network->flags[rank].is_dead = true;
    network->control->ops->forget(network->control, rank);
}

int remote_find_dead(struct health *health, uint64_t now_ns)
{
    struct network *network = health->network;
    for (int at = 0, r; (r = team_next_remote(health->team, &at)) >= 0 && !network->is_stopped;)
        if (!remote_has_left(health, r) && look_at(network, r, now_ns)) return r;
    return -1;
}

void remote_look_at_all(struct health *health, uint64_t now_ns)
{
    for (int at = 0, r; (r = team_next_remote(health->team, &at)) >= 0;)
        if (!remote_has_left(health, r)) (void)look_at(health->network, r, now_ns);
}

uint64_t remote_heard_ns(const struct health *health, int rank)
{
    const struct control *control = health->network->control;
    struct peer_report report;
    control->ops->report(control, rank, &report);
    return report.heard_ns;
}

uint64_t remote_answered_ns(const struct health *health, int rank)
{
    const struct control *control = health->network->control;
    return control->ops->answered_ns(control, rank);
}

bool remote_has_ended(const struct health *health, int rank)
{
    return health->network->flags[rank].has_ended;
}

bool remote_is_dead(const struct health *health, int rank)
{
    const struct remote_flags *remote = remote_of(health, rank);
    return remote != NULL && remote->is_dead;
}

void remote_note_agreement(struct health *health, const uint64_t *set)
{
    for (int at = 0, r; (r = team_next_remote(health->team, &at)) >= 0;) {
        struct remote_flags *remote = remote_of(health, r);
        if (remote != NULL) remote->was_found = remote->is_dead && rank_set_has(set, r);
    }
}

bool remote_is_missed(const struct health *health, int rank)
{
    const struct remote_flags *remote = remote_of(health, rank);
    return remote != NULL && remote->is_dead && !remote->was_found;
}

/* ----------------------------------------------------------------- what is known of connections */

void remote_trouble(const struct health *health, int peer, char text[COMM_TROUBLE_MAX])
{
    const struct control *control = health->team->transports.set.control;
    char why[CONTROL_TROUBLE_MAX];
    text[0] = '\0';
    if (control == NULL || !control->ops->trouble(control, peer, why)) return;
    snprintf(text, COMM_TROUBLE_MAX, "; %s", why);
}
