#include "comm/recover.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rank_list.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/derive.h"
#include "comm/letters.h"
#include "comm/options.h"
#include "control/agreement.h"
#include "control/rank_set.h"
#include "os/clock.h"

static_assert((int)LETTER_BYTES_MAX >= (int)AGREEMENT_MESSAGE_BYTES_MAX, "a message is a letter");

enum {
    NAP_NS = 50000,
    SETTLING_NS = 1000000000,
    LOOK_NS = 5000000 /* between looks at who is there */
};
/* Who was told something and shows no sign of life for so long is suspected; heartbeats find out sooner, as long as they are judged. */
static const uint64_t SILENT_NS = 5000000000u;
/* Who reaches too few others for so long is on the side of a partition that does not go on. */
static const uint64_t CUT_OFF_NS = 4000000000u;

enum standing { STANDS, SUSPECTED, BURIED };

/* Of another rank. */
struct other {
    enum standing standing; /* as the agreement knows it */
    bool is_lost;           /* dead or left, as was seen before its last words were read */
    uint64_t told_ns; /* when it was told something first, after which it has not shown a sign of life; 0: it has */
    uint64_t read; /* of its letters */
};

/* A letter of the pass that is under way. */
struct sent {
    bool is_to_all;
    size_t byte_count;
    char bytes[LETTER_BYTES_MAX];
};

struct recovery {
    struct tutti_comm *comm;
    struct agreement *current, *previous; /* or NULL */
    uint64_t epoch;                       /* of the current one */
    uint64_t written;                     /* letters */
    struct sent sent[LETTERS_KEPT];
    unsigned sent_count;
    uint64_t looked_ns;
    int awaited;       /* whom a given up one waited for, or -1 */
    uint64_t ahead_ns; /* since when somebody is at the agreement after the current one; 0: nobody is */
    int ahead;
    struct other others[]; /* one a rank */
};

/* What goes to several goes once, to all: a ring holds few letters, and all may hear what more than one may. */
static void send_letter(struct recovery *recovery, int to, const void *bytes, size_t byte_count)
{
    struct tutti_comm *comm = recovery->comm;
    struct letter_ring *own = &comm->letters[comm_local_number(comm, comm->rank)];
    struct sent *same = NULL;
    for (unsigned i = 0; i < recovery->sent_count && same == NULL; i++)
        if (recovery->sent[i].byte_count == byte_count &&
            memcmp(recovery->sent[i].bytes, bytes, byte_count) == 0)
            same = &recovery->sent[i];
    if (same != NULL && same->is_to_all) return;
    letters_write(own, &recovery->written, same != NULL ? LETTER_TO_ALL : to, bytes, byte_count);
    if (same != NULL) {
        same->is_to_all = true;
        return;
    }
    if (recovery->sent_count == LETTERS_KEPT) recovery->sent_count = 0;
    struct sent *next = &recovery->sent[recovery->sent_count++];
    next->is_to_all = false;
    next->byte_count = byte_count;
    memcpy(next->bytes, bytes, byte_count);
}

static void send_message(void *context, int to, const void *bytes, size_t byte_count)
{
    struct recovery *recovery = context;
    struct tutti_comm *comm = recovery->comm;
    if (comm_is_near(comm, to)) {
        send_letter(recovery, to, bytes, byte_count);
        return;
    }
    if (recovery->others[to].told_ns == 0) recovery->others[to].told_ns = clock_now_ns();
    comm_network_tell_agreement(comm, to, bytes, byte_count);
}

static enum tutti_status get_recovery(struct tutti_comm *comm, struct recovery **recovery)
{
    if (comm->recovery == NULL) {
        struct recovery *made = calloc(1, sizeof *made + (size_t)comm->size * sizeof *made->others);
        if (made == NULL) return error_set(TUTTI_NO_MEMORY, "agreeing: out of memory");
        made->comm = comm;
        comm->recovery = made;
        progress_notify(); /* from now on there is something to listen for */
    }
    *recovery = comm->recovery;
    return TUTTI_OK;
}

void recover_free(struct tutti_comm *comm)
{
    if (comm->recovery == NULL) return;
    agreement_free(comm->recovery->current);
    agreement_free(comm->recovery->previous);
    free(comm->recovery);
    comm->recovery = NULL;
}

/* ------------------------------------------------------------------------------------------- messages */

static void hear(struct recovery *recovery, int from, const void *bytes, size_t byte_count)
{
    uint64_t epoch;
    if (!agreement_message_epoch(bytes, byte_count, &epoch)) return;
    struct agreement *of = NULL;
    if (epoch == recovery->epoch) of = recovery->current;
    if (epoch + 1 == recovery->epoch) of = recovery->previous;
    /* What is ahead of this rank's calls is said again when it has come so far. */
    if (epoch == recovery->epoch + 1 && recovery->ahead_ns == 0) {
        recovery->ahead_ns = clock_now_ns();
        recovery->ahead = from;
    }
    if (of != NULL) agreement_hear(of, from, bytes, byte_count, clock_now_ns());
}

void recover_hear(struct tutti_comm *comm, int from, const void *bytes, size_t byte_count)
{
    if (comm->recovery != NULL) hear(comm->recovery, from, bytes, byte_count);
}

static void read_letters(struct recovery *recovery)
{
    struct tutti_comm *comm = recovery->comm;
    char bytes[LETTER_BYTES_MAX];
    size_t byte_count;
    recovery->sent_count = 0;
    for (int i = 0; i < comm_local_size(comm); i++) {
        const int rank = comm_local_rank(comm, i);
        if (rank == comm->rank) continue;
        while (letters_read(&comm->letters[i], &recovery->others[rank].read, comm->rank, bytes,
                            &byte_count))
            hear(recovery, rank, bytes, byte_count);
    }
}

void recover_listen(struct tutti_comm *comm)
{
    if (comm->recovery != NULL) read_letters(comm->recovery);
}

/* ------------------------------------------------------------------------------------------ who is there */

static void look_who_is_lost(struct recovery *recovery, uint64_t now_ns)
{
    struct tutti_comm *comm = recovery->comm;
    (void)comm_look_at_processes(comm);
    if (comm->hosts != NULL) comm_network_look_at_all(comm, now_ns);
    for (int r = 0; r < comm->size; r++) {
        const bool has_left = comm_state_of(comm, r) == RANK_LEFT;
        const bool has_died =
            comm_is_near(comm, r) ? comm_is_gone(comm, r) : comm_network_has_died(comm, r);
        recovery->others[r].is_lost |= r != comm->rank && (has_left || has_died);
    }
}

static bool is_silent(struct recovery *recovery, int rank, uint64_t now_ns)
{
    const struct tutti_comm *comm = recovery->comm;
    struct other *other = &recovery->others[rank];
    if (comm_is_near(comm, rank)) return false;
    if (other->told_ns != 0 && comm_network_heard_ns(comm, rank) > other->told_ns)
        other->told_ns = 0;
    return comm_network_is_dead(comm, rank) ||
           (other->told_ns != 0 && now_ns > other->told_ns + SILENT_NS);
}

static void tell_who_is_lost(struct recovery *recovery, uint64_t now_ns)
{
    for (int r = 0; r < recovery->comm->size; r++) {
        struct other *other = &recovery->others[r];
        enum standing standing = STANDS;
        if (other->is_lost)
            standing = BURIED;
        else if (is_silent(recovery, r, now_ns))
            standing = SUSPECTED;
        if (standing == other->standing) continue;
        other->standing = standing;
        if (standing == BURIED)
            agreement_bury(recovery->current, r);
        else if (standing == SUSPECTED)
            agreement_suspect(recovery->current, r);
        else
            agreement_unsuspect(recovery->current, r);
    }
}

int recover_gone_ahead(struct tutti_comm *comm, uint64_t now_ns)
{
    const struct recovery *recovery = comm->recovery;
    if (!comm_try_lock(comm)) return -1;
    const bool is_behind = recovery->ahead_ns != 0 && now_ns > recovery->ahead_ns + SETTLING_NS;
    const int rank = is_behind ? recovery->ahead : -1;
    comm_unlock(comm);
    return rank;
}

/* ------------------------------------------------------------------------------------------- agreeing */

static enum tutti_status begin(struct recovery *recovery, uint64_t word)
{
    struct tutti_comm *comm = recovery->comm;
    const struct agreement_options options = {.size = comm->size,
                                              .rank = comm->rank,
                                              .epoch = recovery->epoch + 1,
                                              .word = word,
                                              .send = send_message,
                                              .context = recovery};
    struct agreement *next;
    TRY(agreement_create(&options, &next));
    agreement_free(recovery->previous);
    recovery->previous = recovery->current;
    recovery->current = next;
    recovery->epoch++;
    recovery->looked_ns = 0;
    recovery->ahead_ns = 0;
    for (int r = 0; r < comm->size; r++) {
        struct other *other = &recovery->others[r];
        other->standing = other->is_lost ? BURIED : STANDS;
        if (other->is_lost)
            agreement_bury(next, r); /* before anything of its last words is heard */
    }
    return TUTTI_OK;
}

/* One look at everything; domain held. */
static void pass(struct recovery *recovery, uint64_t now_ns)
{
    struct tutti_comm *comm = recovery->comm;
    const bool looks = now_ns - recovery->looked_ns >= LOOK_NS;
    if (looks) look_who_is_lost(recovery, now_ns);
    if (comm->network != NULL) (void)comm_network_progress(comm);
    read_letters(recovery);
    if (looks) tell_who_is_lost(recovery, now_ns); /* whose last words have been heard by now */
    if (looks) recovery->looked_ns = now_ns;
    if (now_ns >= agreement_due_ns(recovery->current)) agreement_tick(recovery->current, now_ns);
}

static enum tutti_status fail(const struct recovery *recovery, const char *function,
                              uint64_t timeout_ns)
{
    const struct tutti_comm *comm = recovery->comm;
    char who[128], trouble[COMM_TROUBLE_MAX];
    if (agreement_state(recovery->current) == AGREEMENT_MINORITY)
        return error_set(TUTTI_MINORITY,
                         "tutti_%s: rank %d reaches too few others to go on without the rest",
                         function, comm->rank);
    const int awaited = recovery->awaited;
    if (awaited < 0)
        return error_set(TUTTI_TIMEOUT, "tutti_%s: no agreement; deadline of %.3g s", function,
                         (double)timeout_ns * 1e-9);
    comm_name_rank(comm, awaited, who, sizeof who);
    comm_network_trouble(comm, awaited, trouble);
    return error_set(TUTTI_TIMEOUT, "tutti_%s: rank %d still waits for %s; deadline of %.3g s%s",
                     function, comm->rank, who, (double)timeout_ns * 1e-9, trouble);
}

/* Until it is decided or given up. With the domain held before and after, but not all the time: others have calls to make. On failure
 * it is not held. */
static enum tutti_status wait_for_decision(struct tutti_comm *comm, struct recovery *recovery)
{
    const uint64_t begin_ns = clock_now_ns();
    uint64_t quorum_ns = begin_ns; /* when there last was one to hope for */
    for (;;) {
        const uint64_t now = clock_now_ns();
        pass(recovery, now);
        if (agreement_state(recovery->current) != AGREEMENT_RUNNING) return TUTTI_OK;
        if (agreement_may_decide(recovery->current)) quorum_ns = now;
        if (now - begin_ns > comm->timeout_ns || now - quorum_ns > CUT_OFF_NS) {
            recovery->awaited = agreement_awaited(recovery->current);
            agreement_give_up(recovery->current);
            return TUTTI_OK;
        }
        comm_unlock(comm);
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        TRY(comm_lock_failed(comm, comm->timeout_ns));
    }
}

/* Blocks until the next agreement is decided; the result is the current one's. */
static enum tutti_status agree(struct tutti_comm *comm, const char *function, uint64_t word,
                               struct recovery **result)
{
    struct recovery *recovery = NULL;
    TRY(comm_ensure_progress(comm)); /* answers when this call is over */
    TRY(comm_lock_failed(comm, comm->timeout_ns));
    enum tutti_status status = get_recovery(comm, &recovery);
    if (status == TUTTI_OK) status = begin(recovery, word);
    if (status != TUTTI_OK) {
        comm_unlock(comm);
        return status;
    }
    TRY(wait_for_decision(comm, recovery));
    if (agreement_state(recovery->current) != AGREEMENT_DECIDED)
        status = fail(recovery, function, comm->timeout_ns);
    if (comm->network != NULL) (void)comm_network_progress(comm); /* the word of it */
    comm_unlock(comm);
    *result = recovery;
    return status;
}

enum tutti_status tutti_comm_agree(struct tutti_comm *comm, uint64_t *word)
{
    TRY(comm_check_handle(comm, "comm_agree"));
    if (word == NULL) return error_set(TUTTI_INVALID_BUFFER, "tutti_comm_agree: word is NULL");
    if (comm->size == 1) return TUTTI_OK;
    struct recovery *recovery;
    TRY(agree(comm, "comm_agree", *word, &recovery));
    *word = agreement_word(recovery->current);
    char who[128];
    struct rank_list missing = RANK_LIST_EMPTY;
    for (int r = 0; r < comm->size; r++)
        if (!rank_set_has(agreement_set(recovery->current), r)) rank_list_add(&missing, r);
    if (missing.count == 0) return TUTTI_OK;
    comm_name_rank(comm, missing.first, who, sizeof who);
    return error_set(TUTTI_PROC_FAILED,
                     "tutti_comm_agree: agreed without %s (all that are missing: %s)", who,
                     missing.text);
}

enum tutti_status tutti_comm_revoke(struct tutti_comm *comm)
{
    TRY(comm_check_handle(comm, "comm_revoke"));
    comm_fail(comm, NULL, TUTTI_REVOKED, comm->rank, "rank %d revoked the communicator", comm->rank);
    return TUTTI_OK;
}

void recover_leave(struct tutti_comm *comm)
{
    struct recovery *recovery = comm->recovery;
    if (recovery == NULL || comm_lock_failed(comm, comm->timeout_ns) != TUTTI_OK) return;
    recovery->sent_count = 0;
    if (recovery->current != NULL) agreement_spread(recovery->current);
    comm_unlock(comm);
}

static bool is_left_out(const struct agreement *agreement, int rank)
{
    return agreement != NULL && agreement_state(agreement) == AGREEMENT_DECIDED &&
           !rank_set_has(agreement_set(agreement), rank);
}

bool recover_has_lost(const struct tutti_comm *comm)
{
    const struct recovery *recovery = comm->recovery;
    for (int r = 0; recovery != NULL && r < comm->size; r++)
        if (recovery->others[r].is_lost || is_left_out(recovery->current, r)) return true;
    return false;
}

/* ------------------------------------------------------------------------------------------- shrinking */

/* The ranks of the set, in order; NULL: no memory. */
static int *list_ranks(const struct tutti_comm *comm, const uint64_t *set, int *count)
{
    int *ranks = calloc((size_t)comm->size, sizeof *ranks);
    *count = 0;
    for (int r = 0; ranks != NULL && r < comm->size; r++)
        if (rank_set_has(set, r)) ranks[(*count)++] = r;
    return ranks;
}

static bool are_all_in(const uint64_t *set, const int *ranks, int count)
{
    for (int i = 0; i < count; i++)
        if (!rank_set_has(set, ranks[i])) return false;
    return true;
}

/* What a rank says of how it met the others: all bits, but that of its failure. */
static uint64_t word_of(enum tutti_status status)
{
    static_assert(STATUS_COUNT <= 64, "a bit for each");
    return status == TUTTI_OK ? UINT64_MAX : ~(UINT64_C(1) << status);
}

/* What one of them is short of it will be short of in the next round, too; else OK. */
static enum tutti_status shortage_in(uint64_t word)
{
    static const enum tutti_status shortages[] = {TUTTI_NO_MEMORY, TUTTI_NO_SPACE,
                                                  TUTTI_NO_DESCRIPTORS};
    for (size_t i = 0; i < sizeof shortages / sizeof *shortages; i++)
        if ((word & word_of(shortages[i])) == word) return shortages[i];
    return TUTTI_OK;
}

/* One round: *is_over when all are through with it, and made the communicator or failed. */
static enum tutti_status shrink_once(struct tutti_comm *comm,
                                     const struct tutti_comm_options *options, bool *is_over,
                                     struct tutti_comm **created)
{
    struct recovery *recovery;
    int count = 0;
    *is_over = true;
    TRY(agree(comm, "comm_shrink", UINT64_MAX, &recovery));
    const uint64_t *set = agreement_set(recovery->current);
    if (!rank_set_has(set, comm->rank))
        return error_set(
            TUTTI_PROC_FAILED,
            "tutti_comm_shrink: the others take rank %d for dead and went on without it",
            comm->rank);
    int *const ranks = list_ranks(comm, set, &count);
    enum tutti_status status =
        ranks != NULL ? derive_survivors(comm, ranks, count, recovery->epoch, options, created)
                      : error_set(TUTTI_NO_MEMORY, "tutti_comm_shrink: out of memory");
    char why[400];
    error_copy(why, sizeof why);
    const enum tutti_status agreed = agree(comm, "comm_shrink", word_of(status), &recovery);
    const uint64_t word = agreed == TUTTI_OK ? agreement_word(recovery->current) : 0;
    const bool all_have =
        word == UINT64_MAX && are_all_in(agreement_set(recovery->current), ranks, count);
    free(ranks);
    if (all_have) return TUTTI_OK;
    (void)tutti_comm_free(*created);
    *created = NULL;
    if (agreed != TUTTI_OK) return agreed;
    const enum tutti_status shortage = shortage_in(word);
    *is_over = shortage != TUTTI_OK;
    if (*is_over && status != shortage)
        return error_set(shortage, "tutti_comm_shrink: a rank could not meet the others: %s",
                         tutti_status_text(shortage));
    if (status == TUTTI_OK)
        return error_set(TUTTI_PROC_FAILED,
                         "tutti_comm_shrink: a rank failed while the survivors met");
    return error_set(status, "%s", why);
}

enum tutti_status tutti_comm_shrink(struct tutti_comm *comm,
                                    const struct tutti_comm_options *options,
                                    struct tutti_comm **created)
{
    enum { ROUNDS_MAX = 16 };
    if (created != NULL) *created = NULL;
    TRY(comm_check_handle(comm, "comm_shrink"));
    if (created == NULL)
        return error_set(TUTTI_INVALID_COMM,
                         "tutti_comm_shrink: created must be the address of a pointer, is NULL");
    TRY(options_check_comm(options));
    if (comm->size == 1) return derive_survivors(comm, &(int){0}, 1, 0, options, created);
    enum tutti_status status = TUTTI_OK;
    bool is_over = false;
    for (int round = 0; round < ROUNDS_MAX && !is_over; round++)
        status = shrink_once(comm, options, &is_over, created);
    return status;
}
