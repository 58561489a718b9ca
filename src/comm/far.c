/* far.c - ranks of other hosts: what is told to them and heard of them, and whether they are still there.
 *
 *     rank of host a                                                    rank of host b
 *     first of its host: all are here ──── JOINED ────────────────────► rank 0: when all hosts are
 *     all have joined                     ◄─── ALL_JOINED ───────────── and they may begin
 *     fails, or sees that its host failed ──── FAILURE ───────────────► writes it on its host's board, and tells its own peers
 *     leaves, when all have what it sent  ──── LEFT ──────────────────► far board: left
 *     waits for 200 ms                    ──── ASK(slot, call) ───────►
 *     far board: the call, or none yet    ◄─── CALL(slot, latest, ..) ─ at the next progress, if need be the progress thread's
 *     sends the first message             ──── MESSAGES ──────────────► all of that host listen for messages
 *     every 0.1 s, first of its host      ──── BEAT ──────────────────► who is still there (beat.h)
 *     has several network cards, on the   ──── RAILS ─────────────────► further connections, if that one has, too (rails.h)
 *     first connection
 *
 * Notes go over connections that the data has made. A rank that waits for another one is connected with it, and that one with the rank
 * that it waits for; so a failure reaches all ranks that wait, over some others and over the boards of hosts. The first failure that a
 * host hears of stays the host's; two that happen at once may be named differently on different hosts.
 *
 * A rank whose connections are lost, or do not come about at first, is dead in three cases:
 *   - its host refuses new connections to its door again and again: its process has the door open for as long as it has the communicator;
 *   - somebody else answers there again and again: they got the port because it was free;
 *   - nobody answers there for LOST_NS. Long before that, heartbeats have found its host to be gone, if it is.
 * (The words of somebody else there count for nothing; it counts that it is not our rank. Somebody who can make a living rank look like
 * that can also make it look as if its host refused.)
 *
 * Where hosts were cut off from each other for longer than heartbeats bear, and then not any more, each side has its verdict, or hears the
 * other's: what is a PROC_FAILED of a living rank for one side is a MINORITY for that rank's, and the other way round.
 *
 * A note finds no place when its peer has not heard many before it, and one to a peer that was not known before may find no memory.
 * FAILURE and LEFT have places of their own and need no memory; JOINED, ALL_JOINED, MESSAGES and RAILS are told again until there
 * is a place; all others are asked for or said again in any case. Dropped notes are counted, and a line says so every 10 s at most.
 *
 * What comes from another host is foreign: numbers are checked, texts ended.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "comm/beat.h"
#include "comm/network.h"
#include "comm/recover.h"
#include "os/clock.h"
#include "os/tcp_socket.h"
#include "transport/tcp/tcp.h"

enum {
    ASK_NS = 100000000,
    ASKED_MAX = 8, /* notes that it has not heard */
    PROBE_NS = 30000000,
    REFUSALS = 10 /* a firewall that was told to reset connections refuses for a moment, too */
};
static const uint64_t LOST_NS = 30000000000u, LOG_EVERY_NS = 10000000000u;
/* Without an answer for SILENT_NS a rank may be stopped; what its kernel said then counts for FRESH_NS. */
static const uint64_t COMPARE_NS = 200000000u, SILENT_NS = 1300000000u, FRESH_NS = 2500000000u;
/* So long somebody may take to come who was knocked at. */
static const uint64_t LATE_NS = 300000000u;

enum note_kind {
    NOTE_FAILURE = 1,
    NOTE_LEFT,
    NOTE_ASK,
    NOTE_CALL,
    NOTE_MESSAGES,
    NOTE_JOINED,
    NOTE_ALL_JOINED,
    NOTE_RAILS
};

struct failure_note {
    int32_t status, culprit, reporter, is_verdict;
    uint64_t sequence;
    char message[256];
};

/* A struct straggler_answer. */
struct straggler_note {
    uint64_t age_ns, waits, mean_ns, name_age_ns;
    uint32_t held, calls;
    int32_t rank;
    uint32_t ignored;
};

/* A struct board_progress, which fits behind what an older version tells. */
struct progress_note {
    uint64_t blocking, started, awaited, sequence, blocking_count, started_count;
    uint32_t blocking_what, started_what; /* board_word_of */
    int32_t blocking_root, started_root;
    uint8_t is_there, is_blocked, knows_blocking, knows_started;
    uint32_t ignored;
};

/* A call that was asked for, as far as its rank is with it. */
struct call_note {
    uint64_t latest; /* the number of the last call that began there in the slot */
    uint64_t signature, count;
    int32_t collective, dtype, op, root;
    uint8_t is_described; /* the number asked for has begun, and is not forgotten */
    uint8_t has_ended, started, varies;
    uint8_t is_in_call;              /* whichever */
    uint8_t has_finding, is_stopped; /* it knows of a rank that holds that up */
    int32_t finding;
    uint64_t sequence, finding_sequence; /* of latest calls in all slots: its own, and that rank's */
    struct straggler_note straggler;
    struct progress_note progress;
};

struct joined_note {
    uint64_t levels; /* the fingerprint of what its rank takes for hosts and racks */
    uint32_t integrity;
    uint32_t ignored;
};

struct note {
    uint32_t kind;
    int32_t slot;
    uint64_t begun; /* the call that is asked for */
    union {
        struct failure_note failure;
        struct call_note call;
        struct joined_note joined;
        struct rails_addresses rails;
    } u;
};
static_assert(sizeof(struct note) == FAR_NOTE_BYTES, "as others know it");
static_assert(sizeof(struct note) <= TCP_NOTE_BYTES_MAX, "a note is one");

/* Whether it is on another host, and connected. */
static bool is_there(const struct comm_network *network, int rank)
{
    struct tcp_peer_report report;
    if (comm_is_near(network->comm, rank) || network->far[rank].is_dead) return false;
    tcp_state(network->tcp, rank, &report);
    return report.state != TCP_PEER_UNUSED && report.state != TCP_PEER_BROKEN;
}

/* ---------------------------------------------------------------------------------------------- telling */

void far_count_untold(struct comm_network *network, int rank)
{
    const uint64_t now = clock_now_ns();
    network->untold++;
    if (network->untold_log_ns != 0 && now < network->untold_log_ns) return;
    log_write(LOG_WARN, "rank %d: could not tell rank %d something (%" PRIu64 " times more): %s",
              network->comm->rank, rank, network->untold - network->untold_logged - 1,
              tutti_error_message());
    network->untold_logged = network->untold;
    network->untold_log_ns = now + LOG_EVERY_NS;
}

/* Tells a note that may be lost, because it will be asked for or said again. */
static bool tell(struct comm_network *network, int rank, const struct note *note)
{
    if (tcp_tell(network->tcp, rank, note, sizeof *note) == TUTTI_OK) return true;
    far_count_untold(network, rank);
    return false;
}

/* Nobody says them again, and whoever does not hear them waits for nothing: they have places of their own. */
static bool tell_last_word(struct comm_network *network, int rank, const struct note *note)
{
    if (tcp_tell_last_word(network->tcp, rank, note, sizeof *note) == TUTTI_OK) return true;
    far_count_untold(network, rank);
    return false;
}

static struct note joined_note(const struct tutti_comm *comm)
{
    struct note note = {.kind = NOTE_JOINED,
                        .u.joined = {.levels = comm->host_levels->fingerprint,
                                     .integrity = (uint32_t)comm->integrity}};
    /* Its ranks differ already: nobody else is of their mind. */
    if (board_has_failed(comm->board)) note.u.joined.integrity = TUTTI_INTEGRITY_DEFAULT;
    return note;
}

/* One that is told once and must come: again from far_progress, as long as there is no place for it. */
static void tell_once(struct comm_network *network, int rank, enum note_kind kind)
{
    const struct note note =
        kind == NOTE_JOINED ? joined_note(network->comm) : (struct note){.kind = kind};
    const unsigned bit = 1u << kind;
    struct far_rank *far = &network->far[rank];
    const bool was_owed = (far->owed & bit) != 0;
    far->owed &= ~bit;
    if (tcp_tell(network->tcp, rank, &note, sizeof note) == TUTTI_OK) return;
    if (!was_owed) far_count_untold(network, rank);
    far->owed |= bit;
    network->any_owed = true;
}

void far_progress(struct comm_network *network)
{
    static const enum note_kind kinds[] = {NOTE_MESSAGES, NOTE_JOINED, NOTE_ALL_JOINED};
    network->any_owed = false;
    for (int r = 0; network->far != NULL && r < network->comm->size; r++)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds && network->far[r].owed != 0; i++)
            if (network->far[r].owed & 1u << kinds[i]) tell_once(network, r, kinds[i]);
}

void far_tell_failure(struct comm_network *network)
{
    struct tutti_failure failure;
    if (network->far == NULL || board_failure(network->comm->board, &failure) == TUTTI_OK) return;
    struct note note = {.kind = NOTE_FAILURE,
                        .u.failure = {.status = (int32_t)failure.status,
                                      .culprit = failure.culprit,
                                      .reporter = failure.reporter,
                                      .is_verdict = board_is_verdict(network->comm->board),
                                      .sequence = failure.sequence}};
    memcpy(note.u.failure.message, failure.message, sizeof note.u.failure.message);
    for (int r = 0; r < network->comm->size; r++)
        if (!network->far[r].knows_failure && is_there(network, r))
            network->far[r].knows_failure = tell_last_word(network, r, &note);
}

void far_tell_leaving(struct comm_network *network)
{
    for (int r = 0; network->far != NULL && r < network->comm->size; r++)
        if (is_there(network, r))
            (void)tell_last_word(network, r, &(struct note){.kind = NOTE_LEFT});
}

void comm_network_ask(struct tutti_comm *comm, int rank, int slot, uint64_t begun)
{
    struct comm_network *network = comm->network;
    if (network->far == NULL || network->is_stopped) return;
    const uint64_t now = clock_now_ns();
    const unsigned unheard = tcp_unheard_notes(network->tcp, rank); /* it may be stopped */
    if (unheard >= ASKED_MAX || now - network->far[rank].asked_ns < ASK_NS * (1 + unheard)) return;
    network->far[rank].asked_ns = now;
    (void)tell(network, rank, &(struct note){.kind = NOTE_ASK, .slot = slot, .begun = begun});
}

bool comm_network_ask_after(struct tutti_comm *comm, int rank, int slot, uint64_t begun)
{
    struct comm_network *network = comm->network;
    if (network->far == NULL || network->is_stopped || tcp_unheard_notes(network->tcp, rank) > 0)
        return false;
    return tell(network, rank, &(struct note){.kind = NOTE_ASK, .slot = slot, .begun = begun});
}

void comm_network_ask_all(struct tutti_comm *comm, int slot, uint64_t begun)
{
    for (int r = 0; comm->hosts != NULL && r < comm->size; r++)
        if (!comm_is_near(comm, r) && !comm_network_knows(comm, r, slot, begun))
            comm_network_ask(comm, r, slot, begun);
}

bool comm_network_knows(const struct tutti_comm *comm, int rank, int slot, uint64_t begun)
{
    const struct far_rank *far = &comm->network->far[rank];
    return far->known_slot == slot && far->known_begun == begun;
}

struct board_finding comm_network_finding(const struct tutti_comm *comm, int rank)
{
    return (struct board_finding){.rank = rank, .sequence = comm->network->far[rank].sequence};
}

bool comm_network_is_in_call(const struct tutti_comm *comm, int rank)
{
    return comm->network->far[rank].is_in_call;
}

bool comm_network_read_progress(const struct tutti_comm *comm, int rank,
                                struct board_progress *progress)
{
    const struct far_rank *far = &comm->network->far[rank];
    *progress = far->progress;
    return far->has_progress;
}

uint64_t comm_network_progress_heard_ns(const struct tutti_comm *comm, int rank)
{
    return comm->network->far[rank].progress_ns;
}

bool comm_network_hearsay(const struct tutti_comm *comm, int rank, struct board_finding *finding)
{
    if (!comm->network->far[rank].has_finding) return false;
    *finding = comm->network->far[rank].finding;
    return true;
}

/* Asking begins COMPARE_NS after the call began to wait (failure.c). */
bool comm_network_is_stopped(const struct tutti_comm *comm, int rank, uint64_t since_ns,
                             uint64_t now_ns)
{
    const struct comm_network *network = comm->network;
    const uint64_t told_ns = network->far[rank].told_ns;
    const uint64_t asked_ns = since_ns + COMPARE_NS > told_ns ? since_ns + COMPARE_NS : told_ns;
    if (network->is_stopped || now_ns < asked_ns + SILENT_NS) return false;
    const uint64_t answered_ns = tcp_answered_ns(network->tcp, rank);
    return answered_ns > asked_ns + SILENT_NS / 4 && now_ns < answered_ns + FRESH_NS;
}

void comm_network_invite(struct tutti_comm *comm, int rank)
{
    struct comm_network *network = comm->network;
    if (network->far == NULL || comm_is_near(comm, rank) || network->far[rank].is_invited) return;
    network->far[rank].is_invited = true;
    tell_once(network, rank, NOTE_MESSAGES);
}

bool far_tell_rails(struct comm_network *network, int rank, const struct rails_addresses *rails)
{
    const struct note note = {.kind = NOTE_RAILS, .u.rails = *rails};
    return tell(network, rank, &note);
}

void comm_network_tell_agreement(struct tutti_comm *comm, int rank, const void *bytes,
                                 size_t byte_count)
{
    struct {
        uint32_t kind;
        char bytes[TCP_NOTE_BYTES_MAX - sizeof(uint32_t)];
    } note = {.kind = FAR_NOTE_AGREEMENT};
    if (byte_count > sizeof note.bytes) return;
    memcpy(note.bytes, bytes, byte_count);
    if (tcp_tell(comm->network->tcp, rank, &note, sizeof note.kind + byte_count) != TUTTI_OK)
        far_count_untold(comm->network, rank); /* it is said again */
}

/* ----------------------------------------------------------------------------------------------- joining */

bool far_all_hosts_have_joined(const struct comm_network *network)
{
    const struct comm_hosts *hosts = network->comm->hosts;
    for (int host = 1; host < hosts->host_count; host++) /* rank 0's is the first */
        if (!network->far[hosts->firsts[host]].has_joined) return false;
    return true;
}

void far_tell_joined(struct comm_network *network)
{
    tell_once(network, 0, NOTE_JOINED);
}

void far_tell_all_have_joined(struct comm_network *network)
{
    for (int r = 0; r < network->comm->size; r++)
        if (network->far[r].has_joined) tell_once(network, r, NOTE_ALL_JOINED);
}

/* ----------------------------------------------------------------------------------------------- hearing */

/* What is said on the other side of a cut that is no more means something else on this one. */
static void take_sides(struct tutti_comm *comm, int reporter, enum tutti_status *status,
                       int *culprit)
{
    if (*status == TUTTI_MINORITY && !board_is_in_minority(comm->board) &&
        !comm_is_near(comm, reporter)) {
        *status = TUTTI_PROC_FAILED;
        *culprit = reporter;
    } else if (*status == TUTTI_PROC_FAILED && *culprit >= 0 && comm_is_near(comm, *culprit) &&
               comm_state_of(comm, *culprit) == RANK_PRESENT && !comm_is_gone(comm, *culprit)) {
        *status = TUTTI_MINORITY;
        *culprit = reporter;
    }
}

static void hear_failure(struct comm_network *network, const struct failure_note *heard)
{
    struct tutti_comm *comm = network->comm;
    const bool fits = heard->status > TUTTI_IN_PROGRESS && heard->status < STATUS_COUNT &&
                      heard->culprit >= -1 && heard->culprit < comm->size && heard->reporter >= 0 &&
                      heard->reporter < comm->size;
    char message[sizeof heard->message];
    memcpy(message, heard->message, sizeof message);
    message[sizeof message - 1] = '\0';
    enum tutti_status status = fits ? (enum tutti_status)heard->status : TUTTI_INTERNAL;
    int culprit = fits ? heard->culprit : -1;
    const int reporter = fits ? heard->reporter : comm->rank;
    if (fits && heard->is_verdict != 0) {
        board_announce_verdict(comm->board);
        take_sides(comm, reporter, &status, &culprit);
    }
    if (!board_fail(comm->board, status, culprit, reporter, heard->sequence, message)) return;
    log_write(LOG_WARN, "rank %d: heard from another host: %s: %s", comm->rank,
              tutti_status_name(status), message);
    trace_tell_failure(comm);
    comm->local->ops->wake_all(comm->local);
}

static void write_straggler(const struct tutti_comm *comm, struct note *note)
{
    const struct straggler_answer answer = straggler_answer(comm, note->slot, note->begun);
    note->u.call.straggler =
        (struct straggler_note){.age_ns = answer.age_ns,
                                .waits = answer.waits,
                                .mean_ns = answer.name.mean_ns,
                                .name_age_ns = clock_now_ns() - answer.name.named_ns,
                                .held = answer.name.held,
                                .calls = answer.name.calls,
                                .rank = answer.name.rank};
}

static void hear_straggler(struct tutti_comm *comm, int peer, const struct note *note)
{
    const struct straggler_note *heard = &note->u.call.straggler;
    const struct straggler_answer answer = {
        .age_ns = heard->age_ns,
        .waits = heard->waits,
        .name = {.rank = heard->rank,
                 .held = heard->held,
                 .calls = heard->calls,
                 .mean_ns = heard->mean_ns,
                 .named_ns = clock_now_ns() - heard->name_age_ns}};
    straggler_hear(comm, peer, note->slot, note->begun, &answer);
}

static void write_progress(const struct tutti_comm *comm, struct progress_note *note)
{
    struct board_progress own;
    *note = (struct progress_note){
        .is_there = board_read_progress(comm->board, comm->size, comm->rank, &own)};
    if (!note->is_there) return;
    note->blocking = own.blocking;
    note->started = own.started;
    note->awaited = own.awaited;
    note->sequence = own.sequence;
    note->is_blocked = own.is_blocked;
    note->knows_blocking = own.knows_blocking;
    note->knows_started = own.knows_started;
    note->blocking_what = board_word_of(&own.blocking_what);
    note->blocking_count = own.blocking_what.count;
    note->blocking_root = own.blocking_what.root;
    note->started_what = board_word_of(&own.started_what);
    note->started_count = own.started_what.count;
    note->started_root = own.started_what.root;
}

static void hear_progress(struct far_rank *far, const struct progress_note *heard)
{
    if (heard->is_there == 0) return;
    far->has_progress = true;
    far->progress_ns = far->told_ns;
    far->progress = (struct board_progress){.blocking = heard->blocking,
                                            .started = heard->started,
                                            .awaited = heard->awaited,
                                            .sequence = heard->sequence,
                                            .is_blocked = heard->is_blocked != 0,
                                            .knows_blocking = heard->knows_blocking != 0,
                                            .knows_started = heard->knows_started != 0,
                                            .blocking_what = board_read_word(heard->blocking_what),
                                            .started_what = board_read_word(heard->started_what)};
    far->progress.blocking_what.count = heard->blocking_count;
    far->progress.blocking_what.root = heard->blocking_root;
    far->progress.started_what.count = heard->started_count;
    far->progress.started_what.root = heard->started_root;
}

static void answer(struct comm_network *network, int peer, const struct note *asked)
{
    const struct tutti_comm *comm = network->comm;
    if (asked->slot < 0 || asked->slot >= TRANSPORT_SLOT_COUNT) return;
    struct board_call *calls = comm_calls_of(comm, comm->rank, asked->slot);
    struct call_description what;
    struct note note = {.kind = NOTE_CALL, .slot = asked->slot, .begun = asked->begun};
    note.u.call.latest = board_begun(calls);
    if (board_read_call(calls, asked->begun, &what))
        note.u.call = (struct call_note){.latest = note.u.call.latest,
                                         .signature = what.signature,
                                         .count = what.count,
                                         .collective = (int32_t)what.collective,
                                         .dtype = (int32_t)what.dtype,
                                         .op = (int32_t)what.op,
                                         .root = what.root,
                                         .is_described = true,
                                         .has_ended = board_has_ended(calls, asked->begun),
                                         .started = what.started,
                                         .varies = what.varies};
    struct board_finding finding;
    note.u.call.sequence = comm_sequence_of(comm, comm->rank);
    note.u.call.is_in_call = board_is_in_call(comm->board, comm->size, comm->rank);
    if (board_read_finding(comm->board, comm->size, comm->rank, &finding)) {
        note.u.call.has_finding = true;
        note.u.call.is_stopped = finding.is_stopped;
        note.u.call.finding = finding.rank;
        note.u.call.finding_sequence = finding.sequence;
    }
    write_straggler(comm, &note);
    write_progress(comm, &note.u.call.progress);
    (void)tell(network, peer, &note);
}

static void hear_call(struct comm_network *network, int peer, const struct note *note)
{
    struct tutti_comm *comm = network->comm;
    const struct call_note *heard = &note->u.call;
    if (note->slot < 0 || note->slot >= TRANSPORT_SLOT_COUNT) return;
    struct board_call *calls = comm_calls_of(comm, peer, note->slot);
    struct far_rank *far = &network->far[peer];
    far->known_slot = note->slot;
    far->known_begun = note->begun;
    far->told_ns = clock_now_ns();
    far->sequence = heard->sequence;
    far->is_in_call = heard->is_in_call != 0;
    far->has_finding = heard->has_finding && heard->finding >= 0 && heard->finding < comm->size;
    far->finding = (struct board_finding){.rank = heard->finding,
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
        .signature = heard->signature};
    if (heard->is_described && note->begun > 0) board_begin(calls, &what, note->begun);
    if (heard->is_described && heard->has_ended) board_end(calls, note->begun);
    hear_progress(far, &heard->progress);
    hear_straggler(comm, peer, note);
}

static void hear_joined(struct comm_network *network, int peer, const struct joined_note *heard)
{
    struct tutti_comm *comm = network->comm;
    network->far[peer].has_joined = true;
    char who[128];
    comm_name_rank(comm, peer, who, sizeof who);
    if (heard->integrity != (uint32_t)comm->integrity)
        comm_fail(
            comm, NULL, TUTTI_INVALID_OPTIONS, peer,
            "%s and rank 0 differ in integrity: TUTTI_INTEGRITY, or what options say, has to be "
            "the same on all ranks",
            who);
    if (heard->levels == comm->host_levels->fingerprint) return;
    comm_fail(comm, NULL, TUTTI_MISMATCH, peer,
              "%s has other racks than rank 0: TUTTI_TOPO_FILE has to say the same on all hosts",
              who);
}

void far_hear(void *context, int peer, const void *bytes, size_t byte_count)
{
    struct comm_network *network = context;
    struct note note;
    uint32_t kind = 0;
    if (network->far == NULL || comm_is_near(network->comm, peer)) return;
    if (byte_count >= sizeof kind) memcpy(&kind, bytes, sizeof kind);
    if (kind == FAR_NOTE_BEAT) beat_hear(network, peer, bytes, byte_count);
    if (kind == FAR_NOTE_AGREEMENT)
        recover_hear(network->comm, peer, (const char *)bytes + sizeof kind,
                     byte_count - sizeof kind);
    if (kind >= FAR_NOTE_BEAT || byte_count != sizeof note) return;
    memcpy(&note, bytes, sizeof note);
    switch ((enum note_kind)note.kind) {
    case NOTE_FAILURE: hear_failure(network, &note.u.failure); break;
    case NOTE_LEFT:
        board_leave(network->comm->far_board, peer);
        if (!board_has_failed(network->comm->board)) beat_end(network);
        break;
    case NOTE_ASK: answer(network, peer, &note); break;
    case NOTE_CALL: hear_call(network, peer, &note); break;
    case NOTE_JOINED: hear_joined(network, peer, &note.u.joined); break;
    case NOTE_ALL_JOINED: network->all_have_joined |= peer == 0; break;
    case NOTE_RAILS: rails_hear(network->rails, peer, &note.u.rails); break;
    case NOTE_MESSAGES:
        atomic_store_explicit(&network->comm->board->has_messages, 1, memory_order_relaxed);
        break;
    }
}

/* ------------------------------------------------------------------------------------------------ deaths */

static void end_probe(struct far_rank *far)
{
    if (far->probe_fd >= 0) close(far->probe_fd);
    far->probe_fd = -1;
}

/* One look at whether somebody listens at its door: who does is asked again later. */
static void probe(struct comm_network *network, int rank, uint64_t now_ns)
{
    struct far_rank *far = &network->far[rank];
    const struct net_address *door = &network->addresses[rank];
    enum tutti_status status = TUTTI_OK;
    if (far->probe_fd < 0) {
        if (now_ns - far->probed_ns < PROBE_NS) return;
        far->probed_ns = now_ns;
        status = tcp_connect_start(door, NULL, &far->probe_fd);
    }
    if (status == TUTTI_OK) status = tcp_connect_test(far->probe_fd, door);
    if (status == TUTTI_IN_PROGRESS) return;
    if (status == TUTTI_PROC_FAILED && errno == ECONNREFUSED)
        far->refusals++;
    else if (status == TUTTI_OK)
        far->refusals = 0;
    end_probe(far);
}

static bool has_died(struct comm_network *network, int rank, uint64_t now_ns)
{
    struct far_rank *far = &network->far[rank];
    struct tcp_peer_report report;
    if (far->is_dead) return true;
    tcp_state(network->tcp, rank, &report);
    const bool is_late = report.state == TCP_PEER_WANTED && now_ns > report.since_ns + LATE_NS;
    /* A connection on which nothing was heard since the loss may lead to another process, which closes it. */
    const bool is_unheard =
        report.state == TCP_PEER_UP && far->lost_ns != 0 && report.heard_ns < far->lost_ns;
    if (report.state != TCP_PEER_LOST && !is_late && !is_unheard) {
        far->lost_ns = 0;
        far->refusals = 0;
        end_probe(far);
        return false;
    }
    if (far->lost_ns == 0) far->lost_ns = now_ns;
    probe(network, rank, now_ns);
    const bool is_replaced = port_foreign_answers(&network->client, rank) >= REFUSALS;
    if (is_replaced) far->refusals = REFUSALS; /* its process would have the port if it lived */
    far->is_dead =
        far->refusals >= REFUSALS || (!is_late && !is_unheard && now_ns - far->lost_ns > LOST_NS);
    if (far->is_dead)
        log_write(LOG_INFO, "rank %d: there are no connections to rank %d, and %s",
                  network->comm->rank, rank,
                  is_replaced                 ? "somebody else has its port"
                  : far->refusals >= REFUSALS ? "its host refuses new ones"
                                              : "no new one came about for 30 s");
    return far->is_dead;
}

int comm_network_find_dead(struct tutti_comm *comm, uint64_t now_ns)
{
    struct comm_network *network = comm->network;
    if (network == NULL || network->far == NULL || network->is_stopped) return -1;
    for (int r = 0; r < comm->size; r++)
        if (!comm_is_near(comm, r) && comm_state_of(comm, r) != RANK_LEFT &&
            has_died(network, r, now_ns))
            return r;
    return -1;
}

void comm_network_look_at_all(struct tutti_comm *comm, uint64_t now_ns)
{
    for (int r = 0; r < comm->size; r++)
        if (!comm_is_near(comm, r) && comm_state_of(comm, r) != RANK_LEFT)
            (void)has_died(comm->network, r, now_ns);
}

uint64_t comm_network_heard_ns(const struct tutti_comm *comm, int rank)
{
    struct tcp_peer_report report;
    tcp_state(comm->network->tcp, rank, &report);
    return report.heard_ns;
}

bool comm_network_has_died(const struct tutti_comm *comm, int rank)
{
    return comm->network->far[rank].refusals >= REFUSALS;
}

bool comm_network_is_dead(const struct tutti_comm *comm, int rank)
{
    return comm->network != NULL && comm->network->far != NULL && comm->network->far[rank].is_dead;
}

void far_free(struct comm_network *network)
{
    for (int r = 0; network->far != NULL && r < network->comm->size; r++)
        end_probe(&network->far[r]);
    free(network->far);
}
