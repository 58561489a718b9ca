#include "membership/agreement.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "membership/rank_set.h"

/* ---------------------------------------------------------------------------------------------- ballots
 *
 * A number: by all (1 bit), round, rank of its leader (16 bits). 0 is none. */

#define BALLOT_BY_ALL (UINT64_C(1) << 63)
#define BALLOT_ROUND_MAX (UINT64_C(1) << 40)
/* The first ballot, by majority, with rank 0 as leader. All ranks have promised it before anything
 * is said. */
#define BALLOT_FIRST (UINT64_C(1) << 16)

static uint64_t ballot_make(bool is_by_all, uint64_t round, int leader)
{
    return (is_by_all ? BALLOT_BY_ALL : 0) | round << 16 | (uint64_t)leader;
}

static bool ballot_is_by_all(uint64_t ballot)
{
    return (ballot & BALLOT_BY_ALL) != 0;
}

static uint64_t ballot_round(uint64_t ballot)
{
    return (ballot & ~BALLOT_BY_ALL) >> 16;
}

static int ballot_leader(uint64_t ballot)
{
    return (int)(ballot & 0xffff);
}

static bool ballot_is_sound(uint64_t ballot, int size)
{
    return ballot_round(ballot) >= 1 && ballot_round(ballot) <= BALLOT_ROUND_MAX &&
           ballot_leader(ballot) < size;
}

/* ---------------------------------------------------------------------------------------- state */

/* The value on which ranks agree. A ballot has at most one value, so slices of the same ballot fit
 * together, whichever ranks sent them. */
struct value {
    uint64_t ballot; /* 0: none */
    uint64_t word;
    uint32_t slices; /* a bit for each that is there */
    uint64_t *set;
};

struct agreement {
    int size, rank;
    uint64_t *voters; /* whose votes make a majority */
    int voter_count, first_voter;
    size_t set_words;
    unsigned slice_count;
    uint64_t epoch;
    agreement_send *send;
    void *context;

    enum agreement_state state;
    struct value decided;
    struct value inbox; /* of a ballot whose value is coming, to be accepted or to be decided */

    /* as one who votes */
    uint64_t promised;
    struct value accepted;
    uint64_t prepare_ballot; /* whose dead are coming */
    uint32_t prepare_slices;

    /* as leader */
    uint64_t leading; /* the ballot; 0: none */
    bool has_proposed;
    uint64_t *promised_by, *accepted_by;
    uint64_t *ballot_dead; /* ranks that were declared dead when the ballot began */
    uint64_t *words;       /* of those in promised_by; this rank's own from the start */
    struct value latest;   /* of the highest ballot that any of them has accepted */
    uint64_t refused_for;  /* the highest ballot for which others refused this rank's */

    /* this rank's knowledge of others */
    uint64_t *suspected, *dead;

    bool has_started;
    bool is_stirred; /* something was noted that the next tick has to look at */
    uint64_t retry_ns_min, retry_ns_max;
    uint64_t interval_ns, repeat_ns; /* between repetitions; when the next one is due */
    uint64_t lead_ns;                /* not to begin a ballot before */
    unsigned setbacks;
    int ask_next;

    uint64_t storage[]; /* of the sets and words above */
};

static uint32_t all_slices(const struct agreement *a)
{
    return (UINT32_C(1) << a->slice_count) - 1;
}

static bool is_whole(const struct agreement *a, const struct value *value)
{
    return value->slices == all_slices(a);
}

static void copy_value(const struct agreement *a, struct value *to, const struct value *from)
{
    to->ballot = from->ballot;
    to->word = from->word;
    to->slices = from->slices;
    memcpy(to->set, from->set, a->set_words * sizeof *to->set);
}

static void clear_set(const struct agreement *a, uint64_t *set)
{
    memset(set, 0, a->set_words * sizeof *set);
}

/* More than half of the voters, or half with the lowest of them. */
static bool is_majority(int count, bool has_lowest, int size)
{
    return 2 * count > size || (2 * count == size && has_lowest);
}

/* Whether the voters outside of both sets are a majority. */
static bool is_majority_outside(const struct agreement *a, const uint64_t *one,
                                const uint64_t *other)
{
    int count = 0;
    for (size_t i = 0; i < a->set_words; i++)
        count += __builtin_popcountll(~(one[i] | other[i]) & a->voters[i]);
    const int lowest = a->first_voter;
    return is_majority(count, !rank_set_has(one, lowest) && !rank_set_has(other, lowest),
                       a->voter_count);
}

/* Whether the voters in the set are a majority. */
static bool is_majority_in(const struct agreement *a, const uint64_t *set)
{
    int count = 0;
    for (size_t i = 0; i < a->set_words; i++) count += __builtin_popcountll(set[i] & a->voters[i]);
    return is_majority(count, rank_set_has(set, a->first_voter), a->voter_count);
}

static bool a_majority_may_live(const struct agreement *a)
{
    return is_majority_outside(a, a->dead, a->dead);
}

/* Whether these win the ballot that this rank leads. */
static bool is_quorum(const struct agreement *a, const uint64_t *set)
{
    if (!ballot_is_by_all(a->leading)) return is_majority_in(a, set);
    for (size_t i = 0; i < a->set_words; i++)
        if ((set[i] | a->ballot_dead[i]) != rank_set_mask(a->size, i)) return false;
    return true;
}

/* Whether there is somebody to send to. */
static bool is_reachable(const struct agreement *a, int rank)
{
    return rank != a->rank && !rank_set_has(a->dead, rank);
}

static int lowest_unsuspected(const struct agreement *a)
{
    for (size_t i = 0; i < a->set_words; i++) {
        const uint64_t word = ~(a->suspected[i] | a->dead[i]) & rank_set_mask(a->size, i);
        if (word != 0) return (int)(i * 64) + __builtin_ctzll(word);
    }
    return a->rank; /* cannot be: nobody suspects itself, or declares itself dead */
}

/* --------------------------------------------------------------------------------------------- messages
 *
 *   0 magic  2 kind  3 slice  4 size  8 epoch  16 ballot  24 other ballot  32 word  40 other word  48 slice of a set
 *
 * Little-endian. Fields that a kind does not use are 0. */

enum agreement_kind {
    KIND_PREPARE = 1, /* leader: a ballot begins; whom it has declared dead */
    KIND_PROMISE, /* to it: no lower one from now on; my word; and what I have accepted, if anything */
    KIND_ACCEPT,   /* leader: the value of the ballot */
    KIND_ACCEPTED, /* to it */
    KIND_REFUSE,   /* to it: there is a higher ballot */
    KIND_DECIDE,   /* the value of a ballot that was won */
    KIND_ASK,      /* has anything been decided? */
    KIND_DEAD      /* whom I have declared dead */
};

enum { MAGIC = 0x6741, SLICE_BITS = 64 * AGREEMENT_SLICE_WORDS };

static_assert((AGREEMENT_SIZE_MAX + SLICE_BITS - 1) / SLICE_BITS < 32, "a bit for each slice");

struct agreement_message {
    enum agreement_kind kind;
    unsigned slice;
    uint64_t ballot;
    uint64_t other; /* PROMISE: the ballot of the accepted value, or 0; REFUSE: the higher ballot */
    uint64_t word;  /* PROMISE: the sender's; ACCEPT, DECIDE: the value's */
    uint64_t other_word;      /* PROMISE: of the accepted value */
    const unsigned char *set; /* the bits of that slice, or NULL */
};

static bool has_set(enum agreement_kind kind, uint64_t other)
{
    return kind == KIND_PREPARE || kind == KIND_ACCEPT || kind == KIND_DECIDE ||
           kind == KIND_DEAD || (kind == KIND_PROMISE && other != 0);
}

static size_t slice_words(const struct agreement *a, unsigned slice)
{
    const size_t left = a->set_words - (size_t)slice * AGREEMENT_SLICE_WORDS;
    return left < AGREEMENT_SLICE_WORDS ? left : AGREEMENT_SLICE_WORDS;
}

static void put16(unsigned char *at, unsigned value)
{
    const uint16_t little = htole16((uint16_t)value);
    memcpy(at, &little, sizeof little);
}

static void put32(unsigned char *at, uint32_t value)
{
    const uint32_t little = htole32(value);
    memcpy(at, &little, sizeof little);
}

static void put64(unsigned char *at, uint64_t value)
{
    const uint64_t little = htole64(value);
    memcpy(at, &little, sizeof little);
}

static uint16_t get16(const unsigned char *at)
{
    uint16_t little;
    memcpy(&little, at, sizeof little);
    return le16toh(little);
}

static uint32_t get32(const unsigned char *at)
{
    uint32_t little;
    memcpy(&little, at, sizeof little);
    return le32toh(little);
}

static uint64_t get64(const unsigned char *at)
{
    uint64_t little;
    memcpy(&little, at, sizeof little);
    return le64toh(little);
}

static void send_slice(const struct agreement *a, int to, const struct agreement_message *message,
                       const uint64_t *set, unsigned slice)
{
    unsigned char bytes[AGREEMENT_MESSAGE_BYTES_MAX];
    const size_t word_count = set != NULL ? slice_words(a, slice) : 0;
    put16(bytes, MAGIC);
    bytes[2] = (unsigned char)message->kind;
    bytes[3] = (unsigned char)slice;
    put32(bytes + 4, (uint32_t)a->size);
    put64(bytes + 8, a->epoch);
    put64(bytes + 16, message->ballot);
    put64(bytes + 24, message->other);
    put64(bytes + 32, message->word);
    put64(bytes + 40, message->other_word);
    for (size_t i = 0; i < word_count; i++)
        put64(bytes + AGREEMENT_HEAD_BYTES + 8 * i, set[slice * AGREEMENT_SLICE_WORDS + i]);
    a->send(a->context, to, bytes, AGREEMENT_HEAD_BYTES + 8 * word_count);
}

/* As many messages as the set has slices; one without a set. */
static void send_to(const struct agreement *a, int to, const struct agreement_message *message,
                    const uint64_t *set)
{
    const unsigned count = set != NULL ? a->slice_count : 1;
    for (unsigned slice = 0; slice < count; slice++) send_slice(a, to, message, set, slice);
}

/* To all but this rank, the dead, and those in `except` (may be NULL). */
static void send_to_all(const struct agreement *a, const struct agreement_message *message,
                        const uint64_t *set, const uint64_t *except)
{
    for (int rank = 0; rank < a->size; rank++) {
        if (!is_reachable(a, rank)) continue;
        if (except != NULL && rank_set_has(except, rank)) continue;
        send_to(a, rank, message, set);
    }
}

/* Whether the ballots are such as this kind may name between these two. */
static bool ballots_are_sound(const struct agreement *a, int from, const struct agreement_message *m)
{
    if (m->kind == KIND_ASK || m->kind == KIND_DEAD) return m->ballot == 0 && m->other == 0;
    if (!ballot_is_sound(m->ballot, a->size)) return false;
    const int leader = ballot_leader(m->ballot);
    switch (m->kind) {
    case KIND_PREPARE:
    case KIND_ACCEPT: return leader == from && m->other == 0;
    case KIND_ACCEPTED: return leader == a->rank && m->other == 0;
    case KIND_PROMISE:
        return leader == a->rank && m->other <= m->ballot &&
               (m->other == 0 || ballot_is_sound(m->other, a->size));
    case KIND_REFUSE:
        return leader == a->rank && m->other > m->ballot && ballot_is_sound(m->other, a->size);
    default: return m->other == 0;
    }
}

static bool words_are_sound(const struct agreement_message *m)
{
    switch (m->kind) {
    case KIND_PROMISE: return m->other != 0 || m->other_word == 0;
    case KIND_ACCEPT:
    case KIND_DECIDE: return m->other_word == 0;
    default: return m->word == 0 && m->other_word == 0;
    }
}

static uint64_t set_word(const struct agreement_message *m, size_t i)
{
    return get64(m->set + 8 * i);
}

static bool slice_has(const struct agreement *a, const struct agreement_message *m, int rank)
{
    const size_t first = (size_t)m->slice * AGREEMENT_SLICE_WORDS, word = (size_t)rank / 64;
    if (word < first || word >= first + slice_words(a, m->slice)) return false;
    return set_word(m, word - first) >> (rank % 64) & 1;
}

/* Nothing but ranks; among the dead neither the sender nor this one. */
static bool set_is_sound(const struct agreement *a, int from, const struct agreement_message *m)
{
    const size_t first = (size_t)m->slice * AGREEMENT_SLICE_WORDS;
    for (size_t i = 0; i < slice_words(a, m->slice); i++)
        if ((set_word(m, i) & ~rank_set_mask(a->size, first + i)) != 0) return false;
    const bool is_of_dead = m->kind == KIND_PREPARE || m->kind == KIND_DEAD;
    return !is_of_dead || (!slice_has(a, m, from) && !slice_has(a, m, a->rank));
}

bool agreement_message_epoch(const void *bytes, size_t byte_count, uint64_t *epoch)
{
    const unsigned char *const head = bytes;
    if (byte_count < AGREEMENT_HEAD_BYTES || byte_count > AGREEMENT_MESSAGE_BYTES_MAX) return false;
    if (get16(head) != MAGIC || head[2] < KIND_PREPARE || head[2] > KIND_DEAD) return false;
    *epoch = get64(head + 8);
    return true;
}

/* False: not a message for this agreement. */
static bool read_message(const struct agreement *a, int from, const unsigned char *bytes,
                         size_t byte_count, struct agreement_message *m)
{
    uint64_t epoch;
    if (!agreement_message_epoch(bytes, byte_count, &epoch)) return false;
    if (epoch != a->epoch) return false;
    if (get32(bytes + 4) != (uint32_t)a->size) return false;
    *m = (struct agreement_message){.kind = (enum agreement_kind)bytes[2],
                                    .slice = bytes[3],
                                    .ballot = get64(bytes + 16),
                                    .other = get64(bytes + 24),
                                    .word = get64(bytes + 32),
                                    .other_word = get64(bytes + 40)};
    if (!ballots_are_sound(a, from, m) || !words_are_sound(m)) return false;
    if (!has_set(m->kind, m->other)) return m->slice == 0 && byte_count == AGREEMENT_HEAD_BYTES;
    if (m->slice >= a->slice_count) return false;
    if (byte_count != AGREEMENT_HEAD_BYTES + 8 * slice_words(a, m->slice)) return false;
    m->set = bytes + AGREEMENT_HEAD_BYTES;
    return set_is_sound(a, from, m);
}

/* Puts a slice where it belongs; one of another ballot begins anew. */
static void take_slice(const struct agreement *a, struct value *value, uint64_t ballot,
                       uint64_t word, const struct agreement_message *m)
{
    if (value->ballot != ballot) value->slices = 0;
    value->ballot = ballot;
    value->word = word;
    value->slices |= UINT32_C(1) << m->slice;
    for (size_t i = 0; i < slice_words(a, m->slice); i++)
        value->set[m->slice * AGREEMENT_SLICE_WORDS + i] = set_word(m, i);
}

/* --------------------------------------------------------------------------------- what is sent */

static void send_dead(const struct agreement *a, int to)
{
    const struct agreement_message message = {.kind = KIND_DEAD};
    for (unsigned slice = 0; slice < a->slice_count; slice++) {
        uint64_t any = 0;
        for (size_t i = 0; i < slice_words(a, slice); i++)
            any |= a->dead[slice * AGREEMENT_SLICE_WORDS + i];
        if (any != 0) send_slice(a, to, &message, a->dead, slice);
    }
}

/* Leaders have to know of the dead, who may be what they wait for. So these go first. */
static void send_promise(const struct agreement *a)
{
    const struct agreement_message message = {.kind = KIND_PROMISE,
                                              .ballot = a->promised,
                                              .other = a->accepted.ballot,
                                              .word = a->words[a->rank],
                                              .other_word = a->accepted.word};
    const int leader = ballot_leader(a->promised);
    send_dead(a, leader);
    send_to(a, leader, &message, a->accepted.ballot != 0 ? a->accepted.set : NULL);
}

static void send_refusal(const struct agreement *a, uint64_t ballot)
{
    const struct agreement_message message = {
        .kind = KIND_REFUSE, .ballot = ballot, .other = a->promised};
    send_dead(a, ballot_leader(ballot));
    send_to(a, ballot_leader(ballot), &message, NULL);
}

static struct agreement_message decision_message(const struct agreement *a)
{
    return (struct agreement_message){
        .kind = KIND_DECIDE, .ballot = a->decided.ballot, .word = a->decided.word};
}

static void send_decision(const struct agreement *a, int to)
{
    const struct agreement_message message = decision_message(a);
    send_to(a, to, &message, a->decided.set);
}

static void send_accept(const struct agreement *a)
{
    const struct agreement_message message = {
        .kind = KIND_ACCEPT, .ballot = a->leading, .word = a->accepted.word};
    send_to_all(a, &message, a->accepted.set, a->accepted_by);
}

/* Sends to ranks that have not promised, or to all ranks if the rest of a value that somebody
 * accepted is missing. */
static void send_prepare(const struct agreement *a)
{
    const struct agreement_message message = {.kind = KIND_PREPARE, .ballot = a->leading};
    const bool lacks_value = a->latest.ballot != 0 && !is_whole(a, &a->latest);
    send_to_all(a, &message, a->ballot_dead, lacks_value ? NULL : a->promised_by);
}

/* ------------------------------------------------------------------------------------- deciding */

/* Others ask, or hear it from who led. */
static void decide(struct agreement *a, const struct value *value)
{
    const bool was_leading = a->leading != 0;
    copy_value(a, &a->decided, value);
    a->state = AGREEMENT_DECIDED;
    a->leading = 0;
    const struct agreement_message message = decision_message(a);
    if (was_leading) send_to_all(a, &message, a->decided.set, NULL);
}

void agreement_spread(const struct agreement *a)
{
    const struct agreement_message message = decision_message(a);
    if (a->state == AGREEMENT_DECIDED) send_to_all(a, &message, a->decided.set, NULL);
}

/* -------------------------------------------------------------------------------------- leading */

static void repeat_soon(struct agreement *a, uint64_t now_ns)
{
    a->interval_ns = a->retry_ns_min;
    a->repeat_ns = now_ns + a->interval_ns;
}

static uint64_t scramble(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

/* Lets others lead for a while: longer each time, and differently long on each rank, so that two
 * that keep disturbing each other come apart. */
static void let_others_lead(struct agreement *a, uint64_t now_ns)
{
    const unsigned doublings = a->setbacks < 16 ? a->setbacks : 16;
    const uint64_t patience_ns_max = 4 * a->retry_ns_max;
    uint64_t patience_ns = 4 * a->retry_ns_min << doublings;
    if (patience_ns > patience_ns_max) patience_ns = patience_ns_max;
    a->setbacks++;
    a->leading = 0;
    a->lead_ns = now_ns + patience_ns / 2 +
                 scramble(a->epoch * 31 + (uint64_t)a->rank * 7919 + a->setbacks) % patience_ns;
}

static void begin_ballot(struct agreement *a, uint64_t now_ns)
{
    const uint64_t known = ballot_round(a->promised), refused = ballot_round(a->refused_for);
    const uint64_t round = 1 + (known > refused ? known : refused);
    if (round > BALLOT_ROUND_MAX) return; /* only foreign bytes get here */
    a->leading = ballot_make(!a_majority_may_live(a), round, a->rank);
    a->promised = a->leading;
    a->has_proposed = false;
    memcpy(a->ballot_dead, a->dead, a->set_words * sizeof *a->dead);
    clear_set(a, a->accepted_by);
    clear_set(a, a->promised_by);
    rank_set_add(a->promised_by, a->rank);
    copy_value(a, &a->latest, &a->accepted);
    repeat_soon(a, now_ns);
    send_prepare(a);
}

/* Whether this ballot cannot be won any more: too many have died since it began. */
static bool is_outlived(const struct agreement *a)
{
    if (!ballot_is_by_all(a->leading)) return !a_majority_may_live(a);
    return memcmp(a->ballot_dead, a->dead, a->set_words * sizeof *a->dead) != 0;
}

/* A quorum has promised; and, where the value is open, all that are thought to be there, a quorum, too. */
static bool may_propose(const struct agreement *a)
{
    if (!is_quorum(a, a->promised_by)) return false;
    if (a->latest.ballot != 0) return is_whole(a, &a->latest);
    for (size_t i = 0; i < a->set_words; i++) {
        const uint64_t settled = a->promised_by[i] | a->suspected[i] | a->dead[i];
        if (settled != rank_set_mask(a->size, i)) return false;
    }
    return agreement_may_decide(a);
}

/* Makes the value: the set of the ranks whose word is here, without ranks that seem to have gone
 * since, and the AND of their words. */
static void make_value(struct agreement *a)
{
    struct value *const value = &a->accepted;
    value->slices = all_slices(a);
    value->word = UINT64_MAX;
    for (size_t i = 0; i < a->set_words; i++)
        value->set[i] = a->promised_by[i] & ~(a->suspected[i] | a->dead[i]);
    for (int rank = 0; rank < a->size; rank++)
        if (rank_set_has(value->set, rank)) value->word &= a->words[rank];
}

static void propose(struct agreement *a, uint64_t now_ns)
{
    if (a->latest.ballot != 0)
        copy_value(a, &a->accepted, &a->latest);
    else
        make_value(a);
    a->accepted.ballot = a->leading;
    a->has_proposed = true;
    rank_set_add(a->accepted_by, a->rank);
    repeat_soon(a, now_ns);
    send_accept(a);
}

/* Goes on as far as it can without another message. */
static void advance(struct agreement *a, uint64_t now_ns)
{
    if (a->state != AGREEMENT_RUNNING) return;
    const bool wants_to_lead = lowest_unsuspected(a) == a->rank && now_ns >= a->lead_ns;
    if (a->leading != 0 ? is_outlived(a) : wants_to_lead) begin_ballot(a, now_ns);
    if (a->leading == 0) return;
    if (!a->has_proposed && may_propose(a)) propose(a, now_ns);
    if (a->has_proposed && is_quorum(a, a->accepted_by)) decide(a, &a->accepted);
}

/* -------------------------------------------------------------------------------------- hearing */

static void declare_slice_dead(struct agreement *a, const struct agreement_message *m)
{
    for (size_t i = 0; i < slice_words(a, m->slice); i++)
        a->dead[m->slice * AGREEMENT_SLICE_WORDS + i] |= set_word(m, i);
}

/* Promises another rank's ballot, which is not lower than the last promise. */
static void promise(struct agreement *a, uint64_t ballot, uint64_t now_ns)
{
    if (ballot == a->promised) return;
    a->promised = ballot;
    let_others_lead(a, now_ns);
    repeat_soon(a, now_ns);
}

/* Nothing is promised before all of the ballot's dead are declared dead here. */
static void hear_prepare(struct agreement *a, const struct agreement_message *m, uint64_t now_ns)
{
    if (m->ballot < a->promised) {
        send_refusal(a, m->ballot);
        return;
    }
    declare_slice_dead(a, m);
    if (a->prepare_ballot != m->ballot) a->prepare_slices = 0;
    a->prepare_ballot = m->ballot;
    a->prepare_slices |= UINT32_C(1) << m->slice;
    if (a->prepare_slices != all_slices(a)) return;
    a->prepare_slices = 0; /* a repeated PREPARE is answered when it is whole again */
    if (ballot_is_by_all(m->ballot) && a_majority_may_live(a)) return; /* makes no sense */
    promise(a, m->ballot, now_ns);
    send_promise(a);
}

static bool is_empty(const struct agreement *a, const uint64_t *set)
{
    return rank_set_count(set, a->size) == 0;
}

static void hear_promise(struct agreement *a, int from, const struct agreement_message *m)
{
    if (m->ballot != a->leading || a->has_proposed) return;
    rank_set_add(a->promised_by, from);
    a->words[from] = m->word;
    if (m->other == 0 || m->other < a->latest.ballot) return;
    take_slice(a, &a->latest, m->other, m->other_word, m);
    if (is_whole(a, &a->latest) && is_empty(a, a->latest.set)) a->latest.ballot = 0; /* no sense */
}

/* True: the value of that ballot has become whole, and makes sense. */
static bool take_into_inbox(struct agreement *a, const struct agreement_message *m)
{
    if (is_whole(a, &a->inbox)) a->inbox.slices = 0; /* was used before */
    take_slice(a, &a->inbox, m->ballot, m->word, m);
    return is_whole(a, &a->inbox) && !is_empty(a, a->inbox.set);
}

static void hear_accept(struct agreement *a, int from, const struct agreement_message *m,
                        uint64_t now_ns)
{
    if (m->ballot < a->promised) {
        send_refusal(a, m->ballot);
        return;
    }
    if (!take_into_inbox(a, m)) return;
    promise(a, m->ballot, now_ns);
    copy_value(a, &a->accepted, &a->inbox);
    const struct agreement_message answer = {.kind = KIND_ACCEPTED, .ballot = m->ballot};
    send_to(a, from, &answer, NULL);
}

static void hear_accepted(struct agreement *a, int from, const struct agreement_message *m)
{
    if (m->ballot == a->leading && a->has_proposed) rank_set_add(a->accepted_by, from);
}

static void hear_refusal(struct agreement *a, const struct agreement_message *m, uint64_t now_ns)
{
    if (m->other > a->refused_for) a->refused_for = m->other;
    if (m->ballot == a->leading) let_others_lead(a, now_ns);
}

static void hear_decision(struct agreement *a, const struct agreement_message *m)
{
    if (take_into_inbox(a, m)) decide(a, &a->inbox);
}

/* A rank that has decided tells its decision to ranks that lack it, and says nothing else. */
static void hear_decided(const struct agreement *a, int from, const struct agreement_message *m)
{
    const bool lacks_it = m->kind == KIND_PREPARE || m->kind == KIND_PROMISE ||
                          m->kind == KIND_ACCEPT || m->kind == KIND_ASK;
    if (lacks_it && m->slice == 0) send_decision(a, from);
}

/* Before the first message is sent or heard. */
static void start(struct agreement *a, uint64_t now_ns)
{
    a->has_started = true;
    repeat_soon(a, now_ns);
    if (is_reachable(a, ballot_leader(a->promised))) send_promise(a);
}

void agreement_hear(struct agreement *a, int from, const void *bytes, size_t byte_count,
                    uint64_t now_ns)
{
    struct agreement_message m;
    if (from < 0 || from >= a->size || from == a->rank) return;
    if (rank_set_has(a->dead, from)) return;
    if (!read_message(a, from, bytes, byte_count, &m)) return;
    if (a->state == AGREEMENT_DECIDED) hear_decided(a, from, &m);
    if (a->state != AGREEMENT_RUNNING) return;
    if (!a->has_started) start(a, now_ns);
    switch (m.kind) {
    case KIND_PREPARE: hear_prepare(a, &m, now_ns); break;
    case KIND_PROMISE: hear_promise(a, from, &m); break;
    case KIND_ACCEPT: hear_accept(a, from, &m, now_ns); break;
    case KIND_ACCEPTED: hear_accepted(a, from, &m); break;
    case KIND_REFUSE: hear_refusal(a, &m, now_ns); break;
    case KIND_DECIDE: hear_decision(a, &m); break;
    case KIND_ASK: break;
    case KIND_DEAD: declare_slice_dead(a, &m); break;
    }
    advance(a, now_ns);
}

/* ----------------------------------------------------------------------------------------- time */

/* Asks the rank that should lead, which may wait for a rank that this rank knows to be dead, and the others in turn, as
 * perhaps only one of them knows the decision; all without a quorum: an answer of a suspect may have been lost. */
static void ask_around(struct agreement *a)
{
    const struct agreement_message ask = {.kind = KIND_ASK};
    const int lowest = lowest_unsuspected(a);
    if (lowest != a->rank && lowest != ballot_leader(a->promised)) {
        send_dead(a, lowest);
        send_to(a, lowest, &ask, NULL);
    }
    if (!agreement_may_decide(a)) send_to_all(a, &ask, NULL, NULL);
    for (int i = 0; i < a->size; i++) {
        a->ask_next = (a->ask_next + 1) % a->size;
        if (!is_reachable(a, a->ask_next)) continue;
        send_to(a, a->ask_next, &ask, NULL);
        return;
    }
}

static void repeat(struct agreement *a, uint64_t now_ns)
{
    a->interval_ns *= 2;
    if (a->interval_ns > a->retry_ns_max) a->interval_ns = a->retry_ns_max;
    a->repeat_ns = now_ns + a->interval_ns;
    if (a->leading != 0 && a->has_proposed)
        send_accept(a);
    else if (a->leading != 0)
        send_prepare(a);
    else if (is_reachable(a, ballot_leader(a->promised)))
        send_promise(a);
    ask_around(a);
}

void agreement_tick(struct agreement *a, uint64_t now_ns)
{
    a->is_stirred = false;
    if (a->state != AGREEMENT_RUNNING) return;
    if (!a->has_started) start(a, now_ns);
    advance(a, now_ns);
    if (a->state == AGREEMENT_RUNNING && now_ns >= a->repeat_ns) repeat(a, now_ns);
}

uint64_t agreement_due_ns(const struct agreement *a)
{
    if (a->state != AGREEMENT_RUNNING) return UINT64_MAX;
    if (!a->has_started || a->is_stirred) return 0;
    const bool waits_to_lead = a->leading == 0 && lowest_unsuspected(a) == a->rank;
    return waits_to_lead && a->lead_ns < a->repeat_ns ? a->lead_ns : a->repeat_ns;
}

/* -------------------------------------------------------------------------------- what is known */

static void check_other(const struct agreement *a, int rank)
{
    assert(rank >= 0 && rank < a->size && rank != a->rank);
    (void)a;
    (void)rank;
}

void agreement_suspect(struct agreement *a, int rank)
{
    check_other(a, rank);
    rank_set_add(a->suspected, rank);
    a->is_stirred = true;
}

void agreement_unsuspect(struct agreement *a, int rank)
{
    check_other(a, rank);
    rank_set_remove(a->suspected, rank);
    a->is_stirred = true;
}

void agreement_declare_dead(struct agreement *a, int rank)
{
    check_other(a, rank);
    rank_set_add(a->dead, rank);
    a->is_stirred = true;
}

bool agreement_may_decide(const struct agreement *a)
{
    if (is_majority_outside(a, a->suspected, a->dead)) return true;
    for (size_t i = 0; i < a->set_words; i++)
        if ((a->suspected[i] & ~a->dead[i]) != 0) return false;
    return true;
}

void agreement_give_up(struct agreement *a)
{
    if (a->state != AGREEMENT_RUNNING) return;
    a->state = agreement_may_decide(a) ? AGREEMENT_LATE : AGREEMENT_MINORITY;
}

/* ----------------------------------------------------------------------------- life and results */

static void place_sets(struct agreement *a)
{
    uint64_t **const sets[] = {&a->decided.set, &a->inbox.set,   &a->accepted.set, &a->latest.set,
                               &a->promised_by, &a->accepted_by, &a->ballot_dead,  &a->suspected,
                               &a->dead,        &a->voters};
    uint64_t *next = a->storage + a->size;
    a->words = a->storage;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++, next += a->set_words) *sets[i] = next;
}

static void note_voters(struct agreement *a, const uint64_t *voters)
{
    for (size_t i = 0; i < a->set_words; i++)
        a->voters[i] = rank_set_mask(a->size, i) & (voters != NULL ? voters[i] : UINT64_MAX);
    a->voter_count = rank_set_count(a->voters, a->size);
    assert(a->voter_count > 0);
    while (!rank_set_has(a->voters, a->first_voter)) a->first_voter++;
}

enum tutti_status agreement_create(const struct agreement_options *options,
                                   struct agreement **agreement)
{
    enum { SETS = 10 };
    const int size = options->size;
    assert(size >= 1 && size <= AGREEMENT_SIZE_MAX);
    assert(options->rank >= 0 && options->rank < size && options->send != NULL);
    const size_t set_words = rank_set_words(size), words = SETS * set_words + (size_t)size;
    struct agreement *a = calloc(1, sizeof *a + words * sizeof *a->storage);
    if (a == NULL) return error_set(TUTTI_NO_MEMORY, "agreement: no memory for %d ranks", size);
    a->size = size;
    a->rank = options->rank;
    a->set_words = set_words;
    a->slice_count = (unsigned)((set_words + AGREEMENT_SLICE_WORDS - 1) / AGREEMENT_SLICE_WORDS);
    a->epoch = options->epoch;
    a->send = options->send;
    a->context = options->context;
    a->retry_ns_min = options->retry_ns_min != 0 ? options->retry_ns_min : AGREEMENT_RETRY_NS_MIN;
    a->retry_ns_max = options->retry_ns_max != 0 ? options->retry_ns_max : AGREEMENT_RETRY_NS_MAX;
    place_sets(a);
    note_voters(a, options->voters);
    a->words[a->rank] = options->word;
    a->promised = BALLOT_FIRST;
    a->leading = a->rank == 0 ? BALLOT_FIRST : 0;
    a->ask_next = a->rank;
    rank_set_add(a->promised_by, a->rank);
    *agreement = a;
    return TUTTI_OK;
}

void agreement_free(struct agreement *agreement)
{
    free(agreement);
}

enum agreement_state agreement_state(const struct agreement *a)
{
    return a->state;
}

const uint64_t *agreement_set(const struct agreement *a)
{
    assert(a->state == AGREEMENT_DECIDED);
    return a->decided.set;
}

uint64_t agreement_word(const struct agreement *a)
{
    assert(a->state == AGREEMENT_DECIDED);
    return a->decided.word;
}

uint64_t agreement_next_epoch(const struct agreement *a)
{
    assert(a->state == AGREEMENT_DECIDED);
    uint64_t epoch = scramble(a->epoch + 1) + a->decided.word;
    for (size_t i = 0; i < a->set_words; i++) epoch = scramble(epoch * 3 + 1) + a->decided.set[i];
    return scramble(epoch * 3 + 1);
}

/* The first rank that a leader has not heard, and that nobody excuses; if all are excused, the
 * first of these. */
static int first_missing(const struct agreement *a, const uint64_t *came)
{
    int suspect = -1;
    for (int rank = 0; rank < a->size; rank++) {
        if (rank_set_has(came, rank) || !is_reachable(a, rank)) continue;
        if (!rank_set_has(a->suspected, rank)) return rank;
        if (suspect == -1) suspect = rank;
    }
    return suspect;
}

int agreement_awaited(const struct agreement *a)
{
    if (a->state != AGREEMENT_RUNNING) return -1;
    if (a->leading != 0) return first_missing(a, a->has_proposed ? a->accepted_by : a->promised_by);
    const int leader = ballot_leader(a->promised), lowest = lowest_unsuspected(a);
    if (is_reachable(a, leader)) return leader;
    return lowest != a->rank ? lowest : -1;
}
