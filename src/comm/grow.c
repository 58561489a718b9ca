/* grow.c - a team takes processes in: the members' side of tutti_comm_grow and tutti_comm_replace.
 *
 * One round:
 *
 *     agree who is left ──► the lowest admits processes, and waits until enough have come
 *          ▲                 ──► agree on what it says: how many, and where they meet
 *          │                      ──► meet, make the communicator, agree whether all have it (enlarge.h)
 *          │ no: somebody went                                           │
 *          └─────────────────────────────────────────────────────────────┘
 *
 * The first two agreements are those of the old communicator, as in shrink.c: more than half of its
 * ranks, or half with rank 0, or all that are left. A member that does not hear how the last one
 * ended may be the only one that does not have the new team. It takes part in no further
 * agreement of the old communicator (derive_check_decided).
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/sized.h"
#include "base/status.h"
#include "call/communicator.h"
#include "comm/create.h"
#include "comm/derive.h"
#include "comm/enlarge.h"
#include "comm/id.h"
#include "comm/round.h"
#include "connect/admission.h"
#include "connect/bars.h"
#include "health/agree.h"
#include "health/failure.h"
#include "membership/growth.h"
#include "os/clock.h"
#include "plan/plan.h"
#include "team/options.h"

enum { NAP_NS = 1000000, WORDS = 3 };
/* A joiner whose round came to nothing comes again at once, so an admitter waits for it even when the
 * time for joiners is over. */
static const uint64_t GRACE_NS = 2000000000;
/* For what the store has already. */
static const uint64_t STORE_NS = 1000000000;
/* Bits of a rank's word that no status has: which function it called. */
#define WORD_GROWS (UINT64_C(1) << 62)
#define WORD_REPLACES (UINT64_C(1) << 63)

/* The word of the admitting rank to the others. */
struct admitter_word {
    enum tutti_status status; /* why nothing comes of it */
    int joiner_count;         /* that are invited; with TIMEOUT: that had come */
    struct net_address meeting;
};

struct growing {
    struct tutti_comm *comm;
    const char *function;
    bool replaces;
    struct tutti_store store;
    struct tutti_comm_options options; /* of the new communicator; complete */
    int joiner_min, joiner_max;
    uint64_t wait_ns, begin_ns;
    enum tutti_status last; /* how the last round ended here */
    char why[400];          /* and this rank's error */
    /* of the round */
    uint64_t *survivors;
    int *ranks, rank_count;
    uint64_t epoch, round_ns;
    struct admitter_word said;
    struct admission *admission; /* NULL: another rank keeps it, or none yet */
    struct rendezvous_key admission_name;
    struct net_address admission_address;
};

/* -------------------------------------------------------------------------------- who is left */

/* Agrees on a word; alone, this rank's is the word of all. more_ns: how long the others may wait for
 * something else before. */
static enum tutti_status agree_on(const struct growing *growing, uint64_t word, uint64_t more_ns,
                                  struct agreed *agreed)
{
    static const uint64_t alone = 1;
    struct tutti_comm *comm = growing->comm;
    if (comm->team.size > 1)
        return agree_later(&comm->health, growing->function, word, more_ns, agreed);
    *agreed = (struct agreed){.epoch = comm->derivations.count++, .word = word, .set = &alone};
    return TUTTI_OK;
}

static enum tutti_status judge_word(struct growing *growing, uint64_t word)
{
    if ((word & WORD_GROWS) == 0 && (word & WORD_REPLACES) == 0)
        return error_set(TUTTI_DESYNC, "tutti_%s: other ranks called tutti_comm_%s instead of it",
                         growing->function, growing->replaces ? "grow" : "replace");
    const enum tutti_status shortage = round_shortage_in(word);
    if (shortage == TUTTI_OK) return TUTTI_OK;
    if (growing->last == shortage) return error_set(shortage, "%s", growing->why);
    return error_set(shortage, "tutti_%s: a rank could not meet the others: %s", growing->function,
                     tutti_status_text(shortage));
}

static enum tutti_status note_survivors(struct growing *growing, const struct agreed *agreed)
{
    const int size = growing->comm->team.size;
    growing->epoch = agreed->epoch;
    free(growing->ranks);
    memcpy(growing->survivors, agreed->set, rank_set_words(size) * sizeof *growing->survivors);
    growing->ranks = round_list_ranks(growing->survivors, size, &growing->rank_count);
    if (growing->ranks != NULL) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "tutti_%s: out of memory", growing->function);
}

static enum tutti_status find_survivors(struct growing *growing, struct growth_event *event)
{
    struct tutti_comm *const comm = growing->comm;
    struct agreed agreed;
    const uint64_t mine =
        round_word_of(growing->last) & ~(growing->replaces ? WORD_REPLACES : WORD_GROWS);
    TRY(agree_on(growing, mine, 0, &agreed));
    event->is_decided = true;
    event->has_self = rank_set_has(agreed.set, comm->team.rank);
    if (!event->has_self)
        return error_set(TUTTI_PROC_FAILED,
                         "tutti_%s: the others take rank %d for dead and went on without it",
                         growing->function, comm->team.rank);
    enum tutti_status status = judge_word(growing, agreed.word);
    if (status == TUTTI_OK) status = note_survivors(growing, &agreed);
    event->is_useless = status != TUTTI_OK;
    return status;
}

static bool is_admitter(const struct growing *growing)
{
    return growing->ranks[0] == growing->comm->team.rank;
}

static struct growth_team team_of(const struct growing *growing, int joiner_count)
{
    return (struct growth_team){.old_size = growing->comm->team.size,
                                .survivors = growing->survivors,
                                .joiner_count = joiner_count,
                                .keeps_ranks = growing->replaces};
}

/* ------------------------------------------------------------------------------------ the admission */

static enum tutti_status publish(const struct growing *growing, const struct net_address *address)
{
    struct tutti_id id;
    TRY(id_write(&growing->admission_name, address, &id));
    if (growing->store.set(growing->store.context, ENLARGE_STORE_KEY, id.bytes, sizeof id.bytes) == 0)
        return TUTTI_OK;
    return error_set(TUTTI_INIT_TIMEOUT,
                     "tutti_%s: the store did not take the address for processes that join",
                     growing->function);
}

static enum tutti_status open_admission(struct growing *growing)
{
    char address[NET_ADDRESS_TEXT_MAX];
    if (growing->admission != NULL) return TUTTI_OK;
    TRY(admission_open(growing->options.encryption == TUTTI_ENCRYPTION_ON, growing->comm->bars,
                       &growing->admission_name, &growing->admission_address, &growing->admission));
    net_address_print(&growing->admission_address, address);
    log_write(LOG_INFO, "rank %d waits at %s for processes that join", growing->comm->team.rank,
              address);
    return publish(growing, &growing->admission_address);
}

/* Whether the store still has this team's admission: another team with the same store may have put its
 * own there meanwhile. */
static bool is_published(const struct growing *growing)
{
    struct tutti_id id;
    struct id_content content;
    if (growing->store.get(growing->store.context, ENLARGE_STORE_KEY, id.bytes, sizeof id.bytes,
                           STORE_NS) != 0)
        return false;
    id_read(&id, &content);
    return memcmp(&content.key, &growing->admission_name, sizeof content.key) == 0;
}

static void close_admission(struct growing *growing)
{
    static const struct net_address nowhere = {0};
    char before[ERROR_TEXT_MAX];
    if (growing->admission == NULL) return;
    error_copy(before, sizeof before);
    if (is_published(growing)) (void)publish(growing, &nowhere); /* nobody applies for nothing */
    admission_close(growing->admission);
    growing->admission = NULL;
    (void)error_unless_ok(TUTTI_OK, before);
}

/* How many of those that wait are let in: as many as are wanted, or fewer when time is up. */
static int await_joiners(struct growing *growing, int max)
{
    uint64_t until_ns = growing->begin_ns + growing->wait_ns;
    if (growing->last != TUTTI_OK && until_ns < growing->round_ns + GRACE_NS)
        until_ns = growing->round_ns + GRACE_NS;
    for (;;) {
        const int count = admission_look(growing->admission);
        if (count >= max) return max;
        if (clock_now_ns() > until_ns) return count;
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
}

/* The admitter's part: what it tells the others. */
static void admit(struct growing *growing, struct admitter_word *said)
{
    const struct growth_team nobody = team_of(growing, 0);
    const int gaps = growth_gap_count(&nobody);
    const int min = growing->replaces ? gaps : growing->joiner_min;
    const int max = growing->replaces ? gaps : growing->joiner_max;
    said->status = open_admission(growing);
    if (said->status != TUTTI_OK) return;
    said->meeting = growing->admission_address;
    said->joiner_count = max > 0 ? await_joiners(growing, max) : 0;
    const struct growth_team team = team_of(growing, said->joiner_count);
    if (said->joiner_count < min)
        said->status = TUTTI_TIMEOUT;
    else if (!growth_is_sound(&team, PLAN_RANKS_MAX))
        said->status = TUTTI_INVALID_RANK;
}

/* --------------------------------------------------------------------------- the admitter's word */

static void write_words(const struct admitter_word *said, uint64_t words[WORDS])
{
    words[0] = (uint64_t)said->joiner_count | (uint64_t)said->meeting.port << 16 |
               (uint64_t)said->meeting.family << 32 | (uint64_t)said->status << 40;
    memcpy(&words[1], said->meeting.bytes, sizeof said->meeting.bytes);
}

static void read_words(const uint64_t words[WORDS], struct admitter_word *said)
{
    *said = (struct admitter_word){.status = (enum tutti_status)(words[0] >> 40 & 0xff),
                                   .joiner_count = (int)(words[0] & 0xffff),
                                   .meeting = {.family = (sa_family_t)(words[0] >> 32 & 0xff),
                                               .port = (uint16_t)(words[0] >> 16)}};
    memcpy(said->meeting.bytes, &words[1], sizeof said->meeting.bytes);
}

/* All take the admitter's words, 64 bits with each agreement. *are_all: nobody has gone meanwhile. */
static enum tutti_status hear_admitter(struct growing *growing, struct admitter_word *said,
                                       bool *are_all)
{
    uint64_t words[WORDS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    static_assert(sizeof said->meeting.bytes == 2 * sizeof *words, "two words are an address");
    static_assert(PLAN_RANKS_MAX <= 1 << 16 && STATUS_COUNT < 256, "they fit the first");
    if (is_admitter(growing)) write_words(said, words);
    *are_all = true;
    for (int i = 0; i < WORDS; i++) {
        struct agreed agreed;
        /* The admitter waits for processes that join, perhaps for longer than calls do. */
        TRY(agree_on(growing, words[i], growing->wait_ns + GRACE_NS, &agreed));
        words[i] = agreed.word;
        *are_all &= round_are_all_in(agreed.set, growing->ranks, growing->rank_count);
    }
    if (*are_all && !is_admitter(growing)) read_words(words, said);
    return TUTTI_OK;
}

static enum tutti_status fail_for_admitter(const struct growing *growing,
                                           const struct admitter_word *said)
{
    char who[128];
    const double waited_s = (double)(clock_now_ns() - growing->begin_ns) * 1e-9;
    if (said->status == TUTTI_TIMEOUT)
        return error_set(TUTTI_TIMEOUT,
                         "tutti_%s: too few processes joined within %.1f s: %d have come",
                         growing->function, waited_s, said->joiner_count);
    if (said->status == TUTTI_INVALID_RANK)
        return error_set(TUTTI_INVALID_RANK, "tutti_%s: with %d more the ranks would be over %d",
                         growing->function, said->joiner_count, PLAN_RANKS_MAX);
    if (is_admitter(growing)) return said->status; /* its own error is there */
    health_name_rank(&growing->comm->health, growing->ranks[0], who, sizeof who);
    return error_set(
        said->status, "tutti_%s: %s cannot let processes in: %s", growing->function, who,
        said->status == TUTTI_INIT_TIMEOUT ? "its store did not take the address at which they come"
                                           : tutti_status_text(said->status));
}

/* ------------------------------------------------------------------------------------ a round */

static enum tutti_status look(void *context)
{
    struct growing *growing = context;
    if (growing->comm->team.size > 1)
        TRY(derive_look_at_survivors(growing->comm, growing->ranks, growing->rank_count,
                                     growing->round_ns));
    if (growing->admission != NULL && admission_has_lost(growing->admission))
        return error_set(TUTTI_PROC_FAILED, "a process that was to join has gone");
    return TUTTI_OK;
}

/* Of ranks that are dead by now the decisions may have been other ones (membership/agreement.h), and
 * whom they invited must not meet the ranks of this team. */
static struct rendezvous_key key_of(const struct growing *growing)
{
    static const uint64_t what_it_is = 0x776f7267; /* "grow" */
    const uint64_t what[] = {growing->epoch, (uint64_t)growing->said.joiner_count,
                             growing->said.meeting.port, what_it_is};
    struct rendezvous_key of_survivors, of_word, key;
    rendezvous_key_derive(&growing->comm->team.identity, growing->survivors,
                          rank_set_words(growing->comm->team.size) * sizeof *growing->survivors,
                          &of_survivors);
    rendezvous_key_derive(&of_survivors, what, sizeof what, &of_word);
    rendezvous_key_derive(&of_word, growing->said.meeting.bytes, sizeof growing->said.meeting.bytes,
                          &key);
    return key;
}

static void invite(struct growing *growing, const struct enlargement *enlargement)
{
    const struct growth_team *const team = &enlargement->team;
    const struct admission_invitation invitation = {.old_size = team->old_size,
                                                    .joiner_count = team->joiner_count,
                                                    .keeps_ranks = team->keeps_ranks,
                                                    .key = enlargement->key};
    if (team->joiner_count > 0) admission_invite(growing->admission, &invitation, team->survivors);
}

/* This rank does not know whether the others have the new team. */
static enum tutti_status be_undecided(struct growing *growing)
{
    char why[400];
    error_copy(why, sizeof why);
    growing->comm->derivations.is_undecided = true;
    health_fail(&growing->comm->health, NULL, TUTTI_MINORITY, growing->comm->team.rank,
                "rank %d did not hear how tutti_%s ended", growing->comm->team.rank,
                growing->function);
    return error_set(TUTTI_MINORITY, "tutti_%s: rank %d did not hear how it ended: %s",
                     growing->function, growing->comm->team.rank, why);
}

static struct enlargement describe(struct growing *growing)
{
    return (struct enlargement){
        .function = growing->function,
        .team = team_of(growing, growing->said.joiner_count),
        .number = growth_number_of(&(struct growth_team){.survivors = growing->survivors},
                                   growing->comm->team.rank),
        .key = key_of(growing),
        .meeting = growing->said.meeting,
        .options = &growing->options,
        .look = look,
        .look_context = growing};
}

static enum tutti_status take_word(struct growing *growing, struct growth_event *event)
{
    growing->said = (struct admitter_word){.status = TUTTI_OK};
    growing->round_ns = clock_now_ns();
    if (is_admitter(growing)) admit(growing, &growing->said);
    TRY(hear_admitter(growing, &growing->said, &event->has_all));
    event->is_decided = true;
    if (!event->has_all)
        return error_set(TUTTI_PROC_FAILED, "tutti_%s: a rank failed meanwhile", growing->function);
    event->is_useless = growing->said.status != TUTTI_OK;
    return event->is_useless ? fail_for_admitter(growing, &growing->said) : TUTTI_OK;
}

static enum tutti_status meet(struct growing *growing, struct growth_event *event,
                              struct tutti_comm **created)
{
    const struct enlargement enlargement = describe(growing);
    growing->round_ns = clock_now_ns();
    if (is_admitter(growing)) invite(growing, &enlargement);
    struct bars *const bars = bars_copy(growing->comm->bars);
    if (bars == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_%s: out of memory", growing->function);
    const enum tutti_status status = enlarge_meet(&enlargement, created);
    event->is_decided = status == TUTTI_OK;
    if (status == TUTTI_OK)
        (*created)->bars = bars;
    else
        free(bars);
    return status;
}

static enum tutti_status agree_on_team(struct growing *growing, struct growth_event *event,
                                       struct tutti_comm **created)
{
    const struct enlargement enlargement = describe(growing);
    const enum enlarge_end end = enlarge_agree(&enlargement, created);
    event->is_decided = end != ENLARGE_UNDECIDED;
    event->has_all = end == ENLARGE_MADE;
    if (!event->is_decided) return be_undecided(growing);
    return event->has_all ? TUTTI_OK
                          : error_set(TUTTI_PROC_FAILED, "tutti_%s: a rank went before all had met",
                                      growing->function);
}

static enum tutti_status do_step(struct growing *growing, enum growth_step step,
                                 struct growth_event *event, struct tutti_comm **created)
{
    switch (step) {
    case GROWTH_SURVIVORS: return find_survivors(growing, event);
    case GROWTH_WORD: return take_word(growing, event);
    case GROWTH_MEETING: return meet(growing, event, created);
    default: return agree_on_team(growing, event, created);
    }
}

/* The round came to nothing, with this thread's error: those that were invited come again. */
static void begin_anew(struct growing *growing, enum tutti_status status)
{
    growing->last = status;
    error_copy(growing->why, sizeof growing->why);
    log_write(LOG_INFO, "%s: rank %d begins another round: %s", growing->function,
              growing->comm->team.rank, growing->why);
    if (growing->admission != NULL) admission_dismiss(growing->admission);
}

static enum tutti_status grow(struct growing *growing, struct tutti_comm **created)
{
    enum tutti_status status = TUTTI_OK;
    enum growth_step step = GROWTH_SURVIVORS;
    const int size = growing->comm->team.size;
    growing->survivors = calloc(rank_set_words(size), sizeof *growing->survivors);
    if (growing->survivors == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_%s: out of memory", growing->function);
    growing->begin_ns = clock_now_ns();
    for (int round = 0; step < GROWTH_MADE && round < ROUNDS_MAX;) {
        struct growth_event event = {.is_decided = false};
        status = do_step(growing, step, &event, created);
        step = growth_next(step, &event);
        if (step != GROWTH_SURVIVORS) continue;
        begin_anew(growing, status);
        round++;
    }
    close_admission(growing);
    free(growing->ranks);
    free(growing->survivors);
    return status;
}

/* -------------------------------------------------------------------------------- what is asked */

static enum tutti_status read_options(struct growing *growing, const struct tutti_grow_options *user)
{
    struct tutti_grow_options own = TUTTI_GROW_OPTIONS_INIT;
    char what[64];
    snprintf(what, sizeof what, "tutti_%s: options", growing->function);
    if (user == NULL) return error_set(TUTTI_INVALID_OPTIONS, "%s must be given, is NULL", what);
    TRY(SIZED_READ(what, tutti_grow_options, user, &own));
    if (own.store == NULL)
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "%s.store must be a store, where the processes that join find this one, is "
            "NULL",
            what);
    TRY(SIZED_READ("store", tutti_store, own.store, &growing->store));
    if (growing->store.set == NULL || growing->store.get == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "%s.store must have both functions", what);
    growing->joiner_min = own.joiner_min != 0 ? own.joiner_min : 1;
    growing->joiner_max = own.joiner_max != 0 ? own.joiner_max : growing->joiner_min;
    if (growing->joiner_min < 1 || growing->joiner_max < growing->joiner_min ||
        growing->joiner_max >= PLAN_RANKS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "%s: 1 <= joiner_min <= joiner_max < %d is needed, are %d and %d", what,
                         PLAN_RANKS_MAX, own.joiner_min, own.joiner_max);
    TRY(derive_options(growing->comm, own.comm_options, &growing->options));
    growing->wait_ns = own.wait_ns != 0 ? own.wait_ns : growing->options.init_timeout_ns;
    if (growing->wait_ns > OPTIONS_TIMEOUT_MAX_NS) growing->wait_ns = OPTIONS_TIMEOUT_MAX_NS;
    return TUTTI_OK;
}

static enum tutti_status begin(struct tutti_comm *comm, const char *function, bool replaces,
                               const struct tutti_grow_options *options, struct tutti_comm **created)
{
    struct growing growing = {.comm = comm, .function = function, .replaces = replaces};
    if (created != NULL) *created = NULL;
    TRY(communicator_check_handle(comm, function));
    if (created == NULL)
        return error_set(TUTTI_INVALID_COMM,
                         "tutti_%s: created must be the address of a pointer, is NULL", function);
    TRY(read_options(&growing, options));
    TRY(derive_check_decided(comm, function));
    TRY(agree_enter(&comm->health, function));
    const enum tutti_status status = grow(&growing, created);
    agree_exit(&comm->health);
    return status;
}

enum tutti_status tutti_comm_grow(struct tutti_comm *comm, const struct tutti_grow_options *options,
                                  struct tutti_comm **created)
{
    return begin(comm, "comm_grow", false, options, created);
}

enum tutti_status tutti_comm_replace(struct tutti_comm *comm,
                                     const struct tutti_grow_options *options,
                                     struct tutti_comm **created)
{
    return begin(comm, "comm_replace", true, options, created);
}
