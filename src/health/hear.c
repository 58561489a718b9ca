/* hear.c - what ranks of other hosts say, and what it means here. All of it is foreign: numbers are
 * checked, texts ended. */
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "health/control_message.h"
#include "health/deaths.h"
#include "health/exclusion.h"
#include "health/failure.h"
#include "health/heartbeats.h"
#include "health/known.h"
#include "health/recover.h"
#include "os/clock.h"

/* A failure that was found on the other side of a cut, which has healed, means something else on
 * this side. */
static void take_sides(struct health *health, int reporter, enum tutti_status *status, int *culprit)
{
    if (*status == TUTTI_MINORITY && !board_is_in_minority(health->board) &&
        !team_shares_host(health->team, reporter)) {
        *status = TUTTI_PROC_FAILED;
        *culprit = reporter;
    } else if (*status == TUTTI_PROC_FAILED && *culprit >= 0 &&
               team_shares_host(health->team, *culprit) &&
               known_state(health, *culprit) == RANK_PRESENT && !health_is_dead(health, *culprit)) {
        *status = TUTTI_MINORITY;
        *culprit = reporter;
    }
}

static void hear_failure(struct network *network, const struct failure_message *heard)
{
    struct health *health = network->health;
    const bool fits = heard->status > TUTTI_IN_PROGRESS && heard->status < STATUS_COUNT &&
                      heard->culprit >= -1 && heard->culprit < health->team->size &&
                      heard->reporter >= 0 && heard->reporter < health->team->size;
    char message[sizeof heard->message];
    memcpy(message, heard->message, sizeof message);
    message[sizeof message - 1] = '\0';
    enum tutti_status status = fits ? (enum tutti_status)heard->status : TUTTI_INTERNAL;
    int culprit = fits ? heard->culprit : -1;
    const int reporter = fits ? heard->reporter : health->team->rank;
    if (fits && heard->is_verdict != 0) {
        board_announce_verdict(health->board);
        take_sides(health, reporter, &status, &culprit);
    }
    const struct board_failure failure = {.status = status,
                                          .culprit = culprit,
                                          .reporter = reporter,
                                          .culprit_pid =
                                              culprit >= 0 ? health_pid_of(health, culprit) : 0,
                                          .sequence = heard->sequence,
                                          .message = message};
    if (!board_fail(health->board, &failure)) return;
    log_write(LOG_WARN, "rank %d: heard from another host: %s: %s", health->team->rank,
              tutti_status_name(status), message);
    trace_tell_failure(health);
    health->team->transports.set.host->ops->wake_all(health->team->transports.set.host);
}

static void write_straggler(const struct health *health, struct control_message *message)
{
    const struct straggler_answer answer = straggler_answer(health, message->slot, message->begun);
    message->u.call.straggler =
        (struct straggler_message){.age_ns = answer.age_ns,
                                   .waits = answer.waits,
                                   .delay = answer.delay,
                                   .mean_ns = answer.name.mean_ns,
                                   .name_age_ns = clock_now_ns() - answer.name.named_ns,
                                   .held = answer.name.held,
                                   .calls = answer.name.calls,
                                   .rank = answer.name.rank};
}

static void hear_straggler(struct health *health, int peer, const struct control_message *message)
{
    const struct straggler_message *heard = &message->u.call.straggler;
    const struct straggler_answer answer = {
        .age_ns = heard->age_ns,
        .waits = heard->waits,
        .delay = heard->delay,
        .name = {.rank = heard->rank,
                 .held = heard->held,
                 .calls = heard->calls,
                 .mean_ns = heard->mean_ns,
                 .named_ns = clock_now_ns() - heard->name_age_ns}};
    straggler_hear(health, peer, message->slot, message->begun, &answer);
}

static void write_progress(const struct health *health, struct progress_message *message)
{
    struct board_progress own;
    *message =
        (struct progress_message){.is_there = board_read_progress(health->board, health->board_size,
                                                                  health->board_number, &own)};
    if (!message->is_there) return;
    message->blocking = own.blocking;
    message->started = own.started;
    message->awaited = own.awaited;
    message->sequence = own.sequence;
    message->is_blocked = own.is_blocked;
    message->knows_blocking = own.knows_blocking;
    message->knows_started = own.knows_started;
    message->blocking_what = board_word_of(&own.blocking_what);
    message->blocking_count = own.blocking_what.count;
    message->blocking_root = own.blocking_what.root;
    message->started_what = board_word_of(&own.started_what);
    message->started_count = own.started_what.count;
    message->started_root = own.started_what.root;
}

static void hear_progress(struct remote_rank *remote, const struct progress_message *heard)
{
    if (heard->is_there == 0) return;
    remote->has_progress = true;
    remote->progress_ns = remote->told_ns;
    remote->progress =
        (struct board_progress){.blocking = heard->blocking,
                                .started = heard->started,
                                .awaited = heard->awaited,
                                .sequence = heard->sequence,
                                .is_blocked = heard->is_blocked != 0,
                                .knows_blocking = heard->knows_blocking != 0,
                                .knows_started = heard->knows_started != 0,
                                .blocking_what = board_read_word(heard->blocking_what),
                                .started_what = board_read_word(heard->started_what)};
    remote->progress.blocking_what.count = heard->blocking_count;
    remote->progress.blocking_what.root = heard->blocking_root;
    remote->progress.started_what.count = heard->started_count;
    remote->progress.started_what.root = heard->started_root;
}

static void answer(struct network *network, int peer, const struct control_message *asked)
{
    const struct health *health = network->health;
    if (asked->slot < 0 || asked->slot >= TRANSPORT_SLOT_COUNT) return;
    struct board_call *calls = health_own_calls(health, asked->slot);
    struct call_description what;
    struct control_message message = {
        .kind = CONTROL_CALL, .slot = asked->slot, .begun = asked->begun};
    message.u.call.latest = board_begun(calls);
    if (board_read_call(calls, asked->begun, &what))
        message.u.call =
            (struct call_message){.latest = message.u.call.latest,
                                  .signature = what.signature,
                                  .count = what.count,
                                  .collective = (int32_t)what.collective,
                                  .dtype = (int32_t)what.dtype | (int32_t)what.encoding << 8,
                                  .op = (int32_t)what.op,
                                  .root = what.root,
                                  .is_described = true,
                                  .has_ended = board_has_ended(calls, asked->begun),
                                  .started = what.started,
                                  .varies = what.varies,
                                  .purpose = (uint32_t)what.purpose,
                                  .is_gated = board_is_gated(calls, asked->begun)};
    struct board_finding finding;
    message.u.call.sequence = health_sequence_of(health, health->board_number);
    const struct board_rank *const own = &health->board->ranks[health->board_number];
    message.u.call.is_in_call =
        board_is_in_call(health->board, health->board_size, health->board_number);
    if (atomic_load_explicit(&own->agrees, memory_order_relaxed) != 0)
        message.u.call.is_in_call |= CONTROL_AGREES;
    if (board_read_finding(health->board, health->board_size, health->board_number,
                           health->team->size, &finding)) {
        message.u.call.has_finding = true;
        message.u.call.is_stopped = finding.is_stopped;
        message.u.call.finding = finding.rank;
        message.u.call.finding_sequence = finding.sequence;
    }
    write_straggler(health, &message);
    write_progress(health, &message.u.call.progress);
    (void)remote_tell(network, peer, &message);
}

static void hear_call(struct network *network, int peer, const struct control_message *message)
{
    struct health *health = network->health;
    const struct call_message *heard = &message->u.call;
    if (message->slot < 0 || message->slot >= TRANSPORT_SLOT_COUNT) return;
    struct remote_rank *remote = remote_know(network, peer);
    struct board_call *calls = remote != NULL ? remote_know_calls(remote, message->slot) : NULL;
    if (calls == NULL) return; /* it is asked again */
    remote->known_slot = message->slot;
    remote->known_begun = message->begun;
    remote->told_ns = clock_now_ns();
    remote->waited_ns = 0;
    remote->sequence = heard->sequence;
    remote->is_in_call = (heard->is_in_call & 1) != 0;
    remote->agrees = (heard->is_in_call & CONTROL_AGREES) != 0;
    remote->has_finding =
        heard->has_finding && heard->finding >= 0 && heard->finding < health->team->size;
    remote->finding = (struct board_finding){.rank = heard->finding,
                                             .is_stopped = heard->is_stopped != 0,
                                             .sequence = heard->finding_sequence};
    const struct call_description what = {
        .collective = (enum collective)((uint32_t)heard->collective % COLLECTIVE_COUNT),
        .dtype = (enum tutti_dtype)(heard->dtype & 255),
        .op = (enum op)(heard->op & 255),
        .root = heard->root,
        .count = heard->count,
        .started = heard->started != 0,
        .varies = heard->varies != 0,
        .purpose = (enum call_purpose)(heard->purpose % CALL_PURPOSE_COUNT),
        .encoding = (uint32_t)heard->dtype >> 8 & 15,
        .signature = heard->signature};
    if (heard->is_described && message->begun > 0) board_begin(calls, &what, message->begun);
    if (heard->is_described && message->begun > 0 && heard->is_gated == 1)
        board_set_gated(calls, message->begun, true);
    if (heard->is_described && heard->has_ended) board_end(calls, message->begun);
    hear_progress(remote, &heard->progress);
    hear_straggler(health, peer, message);
}

static void hear_joined(struct network *network, int peer, const struct joined_message *heard)
{
    struct health *health = network->health;
    network->flags[peer].has_joined = true;
    if (board_has_failed(health->board)) return; /* it hears of that */
    char who[128];
    health_name_rank(health, peer, who, sizeof who);
    if (heard->integrity != (uint32_t)health->team->settings.integrity)
        health_fail(
            health, NULL, TUTTI_INVALID_OPTIONS, peer,
            "%s and rank 0 differ in integrity: TUTTI_INTEGRITY, or what options say, has to be "
            "the same on all ranks",
            who);
    if (heard->levels == health->team->members.levels->fingerprint) return;
    health_fail(health, NULL, TUTTI_MISMATCH, peer,
                "%s has other racks than rank 0: TUTTI_TOPO_FILE has to say the same on all hosts",
                who);
}

static void hear_word(struct network *network, int peer, const void *bytes, size_t byte_count)
{
    struct word_message message;
    if (byte_count != sizeof message) return;
    memcpy(&message, bytes, sizeof message);
    if (message.kind == CONTROL_EXCLUDED) {
        exclusion_hear(network->health, message.word);
        return;
    }
    struct remote_rank *const remote = remote_know(network, peer);
    if (remote != NULL) remote->withdrawn = message.word;
}

static void hear_left(struct network *network, int peer, const struct control_message *message)
{
    struct remote_rank *const remote = remote_know(network, peer);
    if (remote != NULL) remote->left_at = message->begun;
    atomic_store_explicit(&network->flags[peer].has_left, true,
                          memory_order_release); /* pairs with remote_has_left */
    network->control->ops->forget(network->control, peer);
    if (!board_has_failed(network->health->board)) heartbeats_end(network);
}

void remote_hear(void *context, int peer, const void *bytes, size_t byte_count)
{
    struct network *network = context;
    struct control_message message;
    uint32_t kind = 0;
    if (remote_of(network->health, peer) == NULL) return;
    if (byte_count >= sizeof kind) memcpy(&kind, bytes, sizeof kind);
    if (kind == CONTROL_HEARTBEAT) heartbeats_hear(network, peer, bytes, byte_count);
    if (kind == CONTROL_AGREEMENT)
        recover_hear(network->health, peer, (const char *)bytes + sizeof kind,
                     byte_count - sizeof kind);
    if (kind == CONTROL_WITHDRAWN || kind == CONTROL_EXCLUDED)
        hear_word(network, peer, bytes, byte_count);
    if (kind >= CONTROL_HEARTBEAT || byte_count != sizeof message) return;
    memcpy(&message, bytes, sizeof message);
    switch ((enum control_kind)message.kind) {
    case CONTROL_FAILURE: hear_failure(network, &message.u.failure); break;
    case CONTROL_LEFT: hear_left(network, peer, &message); break;
    case CONTROL_ASK: answer(network, peer, &message); break;
    case CONTROL_CALL: hear_call(network, peer, &message); break;
    case CONTROL_JOINED: hear_joined(network, peer, &message.u.joined); break;
    case CONTROL_ALL_JOINED: network->all_have_joined |= peer == 0; break;
    case CONTROL_MESSAGES: board_begin_messages(network->health->board); break;
    }
}
