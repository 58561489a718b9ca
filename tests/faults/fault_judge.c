#include "tests/faults/fault_judge.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Of one communicator. */
struct members {
    int size;
    int ranks[FAULT_RANKS_MAX]; /* by its numbers: numbers of the first one; -1: died before it could say */
};

struct judgement {
    const struct fault_schedule *schedule;
    const struct fault_record *record;
    struct fault_verdict *verdict;
    int epoch; /* that is looked at */
    struct members members;
};

__attribute__((format(printf, 3, 4))) static void complain(struct judgement *j, int rank,
                                                           const char *format, ...)
{
    char *const text = j->verdict->text;
    size_t length = strlen(text);
    va_list arguments;
    j->verdict->complaint_count++;
    if (length + 200 > sizeof j->verdict->text) return;
    if (rank >= 0)
        length += (size_t)snprintf(text + length, 60, "rank %d, communicator %d: ", rank, j->epoch);
    va_start(arguments, format);
    length +=
        (size_t)vsnprintf(text + length, sizeof j->verdict->text - length - 2, format, arguments);
    va_end(arguments);
    if (length > sizeof j->verdict->text - 2) length = sizeof j->verdict->text - 2;
    memcpy(text + length, "\n", 2);
}

/* ---------------------------------------------------------------------------------------- looks */

static uint64_t struck_ns(const struct judgement *j, int fault)
{
    return atomic_load_explicit(&j->record->struck_ns[fault], memory_order_relaxed);
}

bool fault_rank_is_gone(const struct fault_schedule *schedule, const struct fault_record *record,
                        int rank)
{
    for (int i = 0; i < schedule->fault_count; i++)
        if (schedule->faults[i].rank == rank && fault_kind_ends(schedule->faults[i].kind) &&
            atomic_load_explicit(&record->struck_ns[i], memory_order_relaxed) != 0)
            return true;
    return false;
}

/* Whether connections of network cards were reset. A card does not send again what was lost, so
 * somebody fails; who cannot reach whom is seen differently at both ends, and whom the others take
 * for dead is alive. */
static bool has_lost_paths(const struct judgement *j)
{
    for (int i = 0; i < j->schedule->fault_count; i++)
        if (j->schedule->fabric[0] != '\0' && j->schedule->faults[i].kind == FAULT_RESET &&
            struck_ns(j, i) != 0)
            return true;
    return false;
}

static bool is_gone(const struct judgement *j, int rank)
{
    return fault_rank_is_gone(j->schedule, j->record, rank);
}

/* Its history of the epoch, or NULL when it was not there. */
static const struct fault_epoch_history *epoch_of(const struct judgement *j, int rank, int epoch)
{
    const struct fault_history *history = &j->record->ranks[rank];
    return epoch < history->epoch_count ? &history->epochs[epoch] : NULL;
}

/* When a fault that ends the rank struck; 0: none did. */
static uint64_t end_ns(const struct judgement *j, int rank)
{
    uint64_t end = 0;
    for (int i = 0; i < j->schedule->fault_count; i++)
        if (j->schedule->faults[i].rank == rank && fault_kind_ends(j->schedule->faults[i].kind) &&
            struck_ns(j, i) > end)
            end = struck_ns(j, i);
    return end;
}

/* Where paths were lost: whether that rank had come to its end by then. For a rank that it had left
 * out it is dead from then on. */
static bool had_ended(const struct judgement *j, int rank, uint64_t by_ns)
{
    const uint64_t frees_ns = j->record->ranks[rank].frees_ns;
    return has_lost_paths(j) && frees_ns != 0 && frees_ns < by_ns;
}

/* The same of an end by a fault. */
static bool was_ended(const struct judgement *j, int rank, uint64_t by_ns)
{
    const uint64_t end = end_ns(j, rank);
    return has_lost_paths(j) && end != 0 && end < by_ns;
}

/* Whether others that had that communicator had come to their end before this rank made one without
 * them. A fault may end a rank while another one still makes the same communicator, but not before
 * that one has agreed to. */
static bool goes_on_later(const struct judgement *j, int rank, int epoch)
{
    for (int other = 0; epoch > 0 && other < j->schedule->rank_count; other++) {
        const struct fault_epoch_history *before = &j->record->ranks[rank].epochs[epoch - 1];
        if (epoch_of(j, other, epoch) != NULL &&
            (had_ended(j, other, before->recovered_ns) || was_ended(j, other, before->agreed_ns)))
            return true;
    }
    return false;
}

/* The same of a rank that is expected to have come through, with the others. */
static const struct fault_epoch_history *survivor(const struct judgement *j, int rank)
{
    return is_gone(j, rank) || goes_on_later(j, rank, j->epoch) ? NULL : epoch_of(j, rank, j->epoch);
}

/* Whether the fault struck, while its rank was in this epoch. Who was struck before a call that it
 * did not come to was in its last one. */
static bool struck_here(const struct judgement *j, int fault)
{
    const struct fault *f = &j->schedule->faults[fault];
    const struct fault_history *history = &j->record->ranks[f->rank];
    const struct fault_call_history *call = &history->calls[f->operation];
    const int epoch = call->called ? call->epoch : history->epoch_count - 1;
    return struck_ns(j, fault) != 0 && epoch == j->epoch;
}

static void find_members(struct judgement *j)
{
    j->members.size = 0;
    for (int i = 0; i < FAULT_RANKS_MAX; i++) j->members.ranks[i] = -1;
    for (int rank = 0; rank < j->schedule->rank_count; rank++) {
        const struct fault_epoch_history *epoch = epoch_of(j, rank, j->epoch);
        if (epoch == NULL || epoch->rank < 0 || epoch->rank >= FAULT_RANKS_MAX ||
            goes_on_later(j, rank, j->epoch))
            continue;
        if (j->members.ranks[epoch->rank] >= 0)
            complain(j, rank, "is number %d, as rank %d is", epoch->rank,
                     j->members.ranks[epoch->rank]);
        j->members.ranks[epoch->rank] = rank;
        if (epoch->size > j->members.size) j->members.size = epoch->size;
    }
}

/* ---------------------------------------------------------------------- what explains a failure */

static bool is_named(const struct judgement *j, int number, int rank)
{
    return number >= 0 && number < j->members.size &&
           (j->members.ranks[number] == rank || j->members.ranks[number] < 0);
}

static bool has_decided(const struct fault_epoch_history *epoch)
{
    return epoch->agree_status == TUTTI_OK || epoch->agree_status == TUTTI_PROC_FAILED;
}

/* Whether the others went on without it. */
static bool is_left_out(const struct judgement *j, int rank)
{
    const struct fault_epoch_history *epoch = survivor(j, rank);
    return epoch != NULL && epoch->agreed &&
           (!has_decided(epoch) || (epoch->shrunk && epoch->shrink_status != TUTTI_OK));
}

/* A rank whose connections were cut fails to reach others, and they fail to reach it: one of such a
 * pair names the other. A rank that is left out finds later that the others have ended. */
static bool explains_as_reset(const struct judgement *j, int fault, int rank,
                              const struct tutti_failure *failure)
{
    const int cut = j->schedule->faults[fault].rank;
    if (!has_lost_paths(j) || struck_ns(j, fault) == 0) return false;
    return is_named(j, failure->culprit, cut) || is_named(j, failure->reporter, cut) ||
           is_left_out(j, rank);
}

/* What rank `rank` has of it. */
static bool explains(const struct judgement *j, int fault, int rank,
                     const struct tutti_failure *failure)
{
    const struct fault *f = &j->schedule->faults[fault];
    const bool names_it = is_named(j, failure->culprit, f->rank);
    switch (failure->status) {
    case TUTTI_MINORITY: return f->kind == FAULT_RESET && has_lost_paths(j);
    case TUTTI_PROC_FAILED:
        if (f->kind == FAULT_RESET) return explains_as_reset(j, fault, rank, failure);
        return fault_kind_ends(f->kind) && struck_ns(j, fault) != 0 && names_it;
    case TUTTI_MISMATCH: /* what another host called before is not known any more */
        return (f->kind == FAULT_MISMATCH ||
                (f->kind == FAULT_DESYNC && j->schedule->host_count > 1)) &&
               struck_here(j, fault) && names_it != is_named(j, failure->reporter, f->rank);
    case TUTTI_DESYNC:
        return f->kind == FAULT_DESYNC && struck_here(j, fault) &&
               names_it != is_named(j, failure->reporter, f->rank);
    case TUTTI_CORRUPT: return f->kind == FAULT_CORRUPT && struck_ns(j, fault) != 0 && names_it;
    case TUTTI_ABORTED: return f->kind == FAULT_ABORT && struck_here(j, fault);
    case TUTTI_REVOKED: return f->kind == FAULT_REVOKE && struck_here(j, fault);
    default: return false;
    }
}

/* The fault that struck first of those that explain it, or -1. */
static int explanation(const struct judgement *j, int rank, const struct tutti_failure *failure)
{
    int first = -1;
    for (int i = 0; i < j->schedule->fault_count; i++)
        if (explains(j, i, rank, failure) && (first < 0 || struck_ns(j, i) < struck_ns(j, first)))
            first = i;
    return first;
}

/* Whether some rank could not make or use a communicator made from this one, for which a fault may
 * be to blame. */
static bool another_comm_failed(const struct judgement *j)
{
    bool some_struck = false;
    for (int i = 0; i < j->schedule->fault_count; i++)
        some_struck |= struck_ns(j, i) != 0 && (fault_kind_ends(j->schedule->faults[i].kind) ||
                                                j->schedule->faults[i].kind == FAULT_DESCRIPTORS ||
                                                j->schedule->faults[i].kind == FAULT_CORRUPT);
    some_struck |= has_lost_paths(j);
    for (int rank = 0; some_struck && rank < j->schedule->rank_count; rank++)
        for (int i = 0; i < j->schedule->operation_count; i++) {
            const struct fault_call_history *call = &j->record->ranks[rank].calls[i];
            if (call->returned && call->status != TUTTI_OK && call->epoch == j->epoch &&
                j->schedule->operations[i].call >= FAULT_CALL_DUP)
                return true;
        }
    return false;
}

/* ---------------------------------------------------------------------------------------- rules */

static bool some_communicator_failed(const struct judgement *j, int rank)
{
    for (int epoch = 0; epoch < j->record->ranks[rank].epoch_count; epoch++)
        if (epoch_of(j, rank, epoch)->failed) return true;
    return false;
}

/* Provider tcp;ofi_rxm may keep the descriptor of a connection that was reset, or that a rank had
 * begun which died, or which closed its endpoint because a communicator failed. */
static bool is_left_by_provider(const struct judgement *j, const struct fault_history *h)
{
    bool some_broke = has_lost_paths(j);
    for (int rank = 0; rank < j->schedule->rank_count; rank++)
        some_broke |= is_gone(j, rank) || some_communicator_failed(j, rank);
    return some_broke && strcmp(j->schedule->fabric, "tcp;ofi_rxm") == 0 &&
           h->before.mappings == h->after.mappings && h->before.threads == h->after.threads &&
           h->before.descriptors < h->after.descriptors;
}

static void judge_ends(struct judgement *j)
{
    for (int rank = 0; rank < j->schedule->rank_count; rank++) {
        const struct fault_history *h = &j->record->ranks[rank];
        j->epoch = h->epoch_count - 1;
        if (h->fate == FAULT_HUNG) complain(j, rank, "hangs");
        if (h->created != TUTTI_OK)
            complain(j, rank, "could not begin: %s", tutti_status_name(h->created));
        if (h->fate == FAULT_SIGNALLED && (h->value != SIGKILL || !is_gone(j, rank)))
            complain(j, rank, "died of signal %d", h->value);
        if (h->fate == FAULT_EXITED && (h->value != 0 || (!h->finished && !is_gone(j, rank))))
            complain(j, rank, "ended with %d, not at its end", h->value);
        if (h->child_status != 0) complain(j, rank, "a child ended with %#x", h->child_status);
        const bool is_left = memcmp(&h->before, &h->after, sizeof h->before) != 0;
        if (h->finished && is_left && !is_left_by_provider(j, h))
            complain(j, rank, "%d descriptors, %d mappings, %d threads before and %d, %d, %d after",
                     h->before.descriptors, h->before.mappings, h->before.threads,
                     h->after.descriptors, h->after.mappings, h->after.threads);
    }
    if (j->record->orphans != 0) complain(j, -1, "%d processes are left", j->record->orphans);
}

static bool may_have(const struct judgement *j, int operation, enum tutti_status status,
                     const struct tutti_failure *failure)
{
    if (status == failure->status) return true;
    if (j->schedule->operations[operation].call < FAULT_CALL_DUP) return false;
    return status == TUTTI_PROC_FAILED || status == TUTTI_REVOKED || status == TUTTI_ABORTED ||
           status == TUTTI_NO_DESCRIPTORS || status == TUTTI_CORRUPT;
}

static void judge_in_time(struct judgement *j, int rank, int operation, int fault)
{
    const struct fault_call_history *call = &j->record->ranks[rank].calls[operation];
    const enum fault_kind kind = j->schedule->faults[fault].kind;
    const bool connected = j->schedule->tcp || j->schedule->host_count > 1;
    const uint64_t promised_ns = fault_kind_ends(kind) && !connected ? 500000000 : 1000000000;
    const uint64_t pauses_ns = fault_schedule_pauses_ns(j->schedule);
    const uint64_t begin_ns =
        struck_ns(j, fault) > call->begin_ns ? struck_ns(j, fault) : call->begin_ns;
    const uint64_t took_ns = call->end_ns > begin_ns ? call->end_ns - begin_ns : 0;
    if (took_ns > FAULT_PATIENCE * promised_ns + pauses_ns)
        complain(j, rank, "operation %d came back %.3f s after %s struck rank %d", operation,
                 (double)took_ns * 1e-9, fault_kind_name(kind), j->schedule->faults[fault].rank);
    if (pauses_ns == 0 && j->verdict->detection_count < FAULT_DETECTIONS_MAX)
        j->verdict->detections[j->verdict->detection_count++] =
            (struct fault_detection){kind, took_ns};
}

/* Of any rank: what was OK was right. Of survivors: what was not OK is the communicator's failure,
 * and came in time. */
static void judge_calls(struct judgement *j, int rank)
{
    const struct fault_epoch_history *epoch = survivor(j, rank);
    bool first = true;
    for (int i = 0; i < j->schedule->operation_count; i++) {
        const struct fault_call_history *call = &j->record->ranks[rank].calls[i];
        if (!call->called || call->epoch != j->epoch) continue;
        if (call->is_wrong) complain(j, rank, "operation %d has a wrong result", i);
        if (epoch == NULL || !call->returned || call->status == TUTTI_OK) continue;
        if (!may_have(j, i, call->status, &epoch->failure))
            complain(j, rank, "operation %d: %s, where the communicator has %s", i,
                     tutti_status_name(call->status), tutti_status_name(epoch->failure.status));
        const int fault = explanation(j, rank, &epoch->failure);
        if (first && fault >= 0) judge_in_time(j, rank, i, fault);
        first = false;
    }
}

/* Whether a rank that lives may get that from an agreement or a shrink: the others go on without
 * it. */
static bool may_be_left_out(const struct judgement *j, enum tutti_status status)
{
    return has_lost_paths(j) && (status == TUTTI_MINORITY || status == TUTTI_PROC_FAILED);
}

static void judge_failure(struct judgement *j, int rank)
{
    const struct fault_epoch_history *epoch = survivor(j, rank);
    if (epoch == NULL || !epoch->agreed) return;
    const struct tutti_failure *failure = &epoch->failure;
    if (failure->status != TUTTI_OK && explanation(j, rank, failure) < 0 &&
        !(failure->status == TUTTI_REVOKED && another_comm_failed(j)))
        complain(j, rank, "no fault explains %s, culprit %d, reporter %d: %.100s",
                 tutti_status_name(failure->status), failure->culprit, failure->reporter,
                 failure->message);
    if (epoch->failed && epoch->again != failure->status)
        complain(j, rank, "one more call gives %s after %s", tutti_status_name(epoch->again),
                 tutti_status_name(failure->status));
    if (!has_decided(epoch) && !may_be_left_out(j, epoch->agree_status))
        complain(j, rank, "agree: %s", tutti_status_name(epoch->agree_status));
    if (epoch->shrunk && epoch->shrink_status != TUTTI_OK &&
        !may_be_left_out(j, epoch->shrink_status))
        complain(j, rank, "shrink: %s", tutti_status_name(epoch->shrink_status));
    const uint64_t promised_ns = 2000000000, pauses_ns = fault_schedule_pauses_ns(j->schedule);
    if (epoch->shrunk &&
        epoch->recovered_ns - epoch->recovery_ns > FAULT_PATIENCE * promised_ns + pauses_ns)
        complain(j, rank, "recovery took %.3f s",
                 (double)(epoch->recovered_ns - epoch->recovery_ns) * 1e-9);
}

/* Of two failures at once, one may be the first on one host and the other one elsewhere; each is
 * explained. */
static bool may_differ(const struct judgement *j, int rank, int other_rank)
{
    const int hosts = j->schedule->host_count;
    return rank % hosts != other_rank % hosts && survivor(j, rank)->failure.status != TUTTI_OK &&
           survivor(j, other_rank)->failure.status != TUTTI_OK;
}

static void compare_survivors(struct judgement *j, int rank, int other_rank)
{
    const struct fault_epoch_history *epoch = survivor(j, rank), *other = survivor(j, other_rank);
    if (epoch == NULL || other == NULL || !epoch->agreed || !other->agreed) return;
    if ((epoch->failure.status != other->failure.status ||
         epoch->failure.culprit != other->failure.culprit) &&
        !may_differ(j, rank, other_rank) && !has_lost_paths(j))
        complain(j, rank, "has %s, culprit %d, and rank %d has %s, culprit %d",
                 tutti_status_name(epoch->failure.status), epoch->failure.culprit, other_rank,
                 tutti_status_name(other->failure.status), other->failure.culprit);
    if (has_lost_paths(j) && (!has_decided(epoch) || !has_decided(other))) return;
    if (had_ended(j, rank, other->agreed_ns) || had_ended(j, other_rank, epoch->agreed_ns)) return;
    if (epoch->agree_status != other->agree_status || epoch->word != other->word)
        complain(j, rank, "agreed on %#llx (%s), and rank %d on %#llx (%s)",
                 (unsigned long long)epoch->word, tutti_status_name(epoch->agree_status), other_rank,
                 (unsigned long long)other->word, tutti_status_name(other->agree_status));
}

static void judge_consistency(struct judgement *j)
{
    for (int rank = 0; rank < j->schedule->rank_count; rank++)
        for (int other = 0; other < rank; other++) compare_survivors(j, rank, other);
}

/* Whether every rank has to hear of it. What nobody called after need not be heard of. */
static bool must_be_noticed(const struct judgement *j, int fault)
{
    const struct fault *f = &j->schedule->faults[fault];
    const struct fault_epoch_history *epoch = epoch_of(j, f->rank, j->epoch);
    const bool last = f->operation == j->schedule->operation_count - 1;
    if (epoch == NULL || !struck_here(j, fault)) return false;
    switch (f->kind) {
    case FAULT_MISMATCH: /* where each of two takes itself, or the other, for the root, nobody may have to wait */
        return epoch->size > 1 && !last && f->detail != FAULT_OTHER_ROOT;
    case FAULT_DESYNC: return epoch->size > 1 && !last;
    case FAULT_ABORT:
    case FAULT_REVOKE: return f->phase == FAULT_BEFORE || !last;
    default: return false;
    }
}

static void judge_noticed(struct judgement *j, int rank)
{
    const struct fault_epoch_history *epoch = survivor(j, rank);
    if (epoch == NULL || !epoch->agreed) return;
    for (int i = 0; i < j->schedule->fault_count; i++)
        if (must_be_noticed(j, i) && epoch->failure.status == TUTTI_OK && !has_lost_paths(j))
            complain(j, rank, "has not heard of the %s of rank %d",
                     fault_kind_name(j->schedule->faults[i].kind), j->schedule->faults[i].rank);
    if (epoch->agree_status != TUTTI_OK) return;
    for (int i = 0; i < j->members.size; i++) {
        const int member = j->members.ranks[i];
        const struct fault_epoch_history *other = member < 0 ? NULL : epoch_of(j, member, j->epoch);
        if (other == NULL || !other->agrees)
            complain(j, rank, "agreed with all, and member %d was not there", i);
    }
    if (!fault_word_is_good(epoch->word)) return;
    if (epoch->failed || fault_word_operation(epoch->word) != j->schedule->operation_count)
        complain(j, rank, "agreed that all is done, and it is not");
    for (int i = epoch->first_operation; i < j->schedule->operation_count; i++)
        if (!j->record->ranks[rank].calls[i].returned ||
            j->record->ranks[rank].calls[i].status != TUTTI_OK)
            complain(j, rank, "operation %d was not done", i);
}

/* Whether it could be in the communicator that a shrink of this one made. */
static bool may_have_come_along(const struct judgement *j, int rank)
{
    const struct fault_epoch_history *epoch = epoch_of(j, rank, j->epoch);
    return epoch != NULL && epoch->shrinks;
}

/* That this communicator followed from the one before it. */
static void judge_members(struct judgement *j)
{
    struct judgement before = *j;
    int unknown = j->members.size, silent = 0, last = -1;
    before.epoch--;
    for (int i = 0; i < j->members.size; i++) {
        const int rank = j->members.ranks[i];
        if (rank < 0) continue;
        unknown--;
        if (rank < last) complain(j, rank, "is behind rank %d", last);
        last = rank;
        if (epoch_of(j, rank, j->epoch)->size != j->members.size)
            complain(j, rank, "size %d, elsewhere %d", epoch_of(j, rank, j->epoch)->size,
                     j->members.size);
        if (j->epoch > 0 && !may_have_come_along(&before, rank))
            complain(j, rank, "is in it without having come");
    }
    for (int rank = 0; rank < j->schedule->rank_count; rank++)
        silent += epoch_of(j, rank, j->epoch) == NULL && (is_gone(j, rank) || has_lost_paths(j)) &&
                  (j->epoch == 0 || may_have_come_along(&before, rank));
    if (unknown > silent)
        complain(j, -1, "communicator %d has %d members that nobody knows", j->epoch,
                 unknown - silent);
    for (int rank = 0; rank < j->schedule->rank_count; rank++)
        if (j->epoch > 0 && survivor(&before, rank) != NULL && survivor(j, rank) == NULL &&
            !has_lost_paths(j))
            complain(j, rank, "is alive, and not in it");
}

/* Where paths were lost any rank may be left out, but not most of them, unless others died that
 * went on. */
static void judge_going_on(struct judgement *j)
{
    int failed = 0;
    for (int rank = 0; rank < j->schedule->rank_count; rank++) {
        const struct fault_epoch_history *epoch = epoch_of(j, rank, j->epoch);
        if (epoch == NULL) continue;
        if (is_gone(j, rank) || epoch_of(j, rank, j->epoch + 1) != NULL) return;
        failed += epoch->shrunk && epoch->shrink_status == TUTTI_PROC_FAILED;
    }
    if (2 * failed > j->members.size)
        complain(j, -1, "communicator %d: %d of %d ranks could not shrink it, and nobody goes on",
                 j->epoch, failed, j->members.size);
}

void fault_judge(const struct fault_schedule *schedule, const struct fault_record *record,
                 struct fault_verdict *verdict)
{
    struct judgement judgement = {schedule, record, verdict, 0, {0}}, *const j = &judgement;
    *verdict = (struct fault_verdict){0};
    judge_ends(j);
    for (j->epoch = 0; j->epoch < FAULT_EPOCHS_MAX; j->epoch++) {
        find_members(j);
        if (j->members.size == 0) return;
        judge_members(j);
        judge_consistency(j);
        judge_going_on(j);
        for (int rank = 0; rank < schedule->rank_count; rank++) {
            judge_calls(j, rank);
            judge_failure(j, rank);
            judge_noticed(j, rank);
        }
    }
}
