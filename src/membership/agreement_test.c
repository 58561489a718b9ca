/* Agreement, step by step: what is sent, what is dropped, and the corners that chance seldom finds.
 * One thread.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "membership/agreement.h"
#include "membership/rank_set.h"

enum { EPOCH = 7, PREPARE = 1, PROMISE, ACCEPT, ACCEPTED, REFUSE, DECIDE, ASK, DEAD };
#define MS UINT64_C(1000000)

struct letter {
    int from, to;
    size_t byte_count;
    unsigned char bytes[AGREEMENT_MESSAGE_BYTES_MAX];
};

/* Ranks `first` to `first + present - 1` of `size` are here; messages to others are lost. */
struct room;
struct chair {
    struct room *room;
    int rank;
    struct agreement *agreement;
};
struct room {
    int size, first, present;
    struct chair *chairs;
    struct letter *letters;
    size_t count, space, next;
    size_t sent, handled;
    uint64_t now_ns;
    bool (*is_lost)(const struct room *room, const struct letter *letter); /* NULL: none is */
};

static struct agreement *of(const struct room *room, int rank)
{
    assert_true(rank >= room->first && rank < room->first + room->present);
    return room->chairs[rank - room->first].agreement;
}

static void keep(void *context, int to, const void *bytes, size_t byte_count)
{
    const struct chair *chair = context;
    struct room *room = chair->room;
    assert_true(to >= 0 && to < room->size && to != chair->rank);
    assert_true(byte_count >= AGREEMENT_HEAD_BYTES && byte_count <= AGREEMENT_MESSAGE_BYTES_MAX);
    uint64_t epoch;
    assert_true(agreement_message_epoch(bytes, byte_count, &epoch) && epoch == EPOCH);
    room->sent++;
    if (room->count == room->space) {
        room->space = room->space == 0 ? 64 : 2 * room->space;
        room->letters = realloc(room->letters, room->space * sizeof *room->letters);
        assert_non_null(room->letters);
    }
    struct letter *letter = &room->letters[room->count++];
    *letter = (struct letter){.from = chair->rank, .to = to, .byte_count = byte_count};
    memcpy(letter->bytes, bytes, byte_count);
}

static uint64_t word_of(int rank)
{
    return ~(UINT64_C(1) << (rank % 64));
}

static struct room *open_room(int size, int first, int present)
{
    struct room *room = calloc(1, sizeof *room);
    assert_non_null(room);
    *room = (struct room){.size = size, .first = first, .present = present, .now_ns = MS};
    room->chairs = calloc((size_t)present, sizeof *room->chairs);
    assert_non_null(room->chairs);
    for (int i = 0; i < present; i++) {
        room->chairs[i] = (struct chair){.room = room, .rank = first + i};
        const struct agreement_options options = {.size = size,
                                                  .rank = first + i,
                                                  .epoch = EPOCH,
                                                  .word = word_of(first + i),
                                                  .send = keep,
                                                  .context = &room->chairs[i]};
        assert_int_equal(agreement_create(&options, &room->chairs[i].agreement), TUTTI_OK);
    }
    return room;
}

static void close_room(struct room *room)
{
    for (int i = 0; i < room->present; i++) agreement_free(room->chairs[i].agreement);
    free(room->letters);
    free(room->chairs);
    free(room);
}

static void hand_over(struct room *room, const struct letter *letter)
{
    const struct letter copy = *letter; /* its hearer may send letters, which may move the others */
    if (copy.to < room->first || copy.to >= room->first + room->present) return;
    agreement_hear(of(room, copy.to), copy.from, copy.bytes, copy.byte_count, room->now_ns);
}

/* Until nothing is under way. */
static void deliver(struct room *room)
{
    while (room->next < room->count) {
        const struct letter *letter = &room->letters[room->next++];
        room->handled++;
        if (room->is_lost == NULL || !room->is_lost(room, letter)) hand_over(room, letter);
    }
    room->next = room->count = 0;
}

static void tick_all(struct room *room)
{
    for (int i = 0; i < room->present; i++) agreement_tick(room->chairs[i].agreement, room->now_ns);
}

/* Time goes on in steps until all that are here have decided. */
static void run_until_decided(struct room *room)
{
    for (int step = 0; step < 2000; step++) {
        bool all_have = true;
        tick_all(room);
        deliver(room);
        for (int i = 0; i < room->present; i++)
            all_have &= agreement_state(room->chairs[i].agreement) == AGREEMENT_DECIDED;
        if (all_have) return;
        room->now_ns += 5 * MS;
    }
    fail_msg("nothing was decided");
}

static void check_decision(const struct room *room, int rank, int first, int count)
{
    uint64_t word = UINT64_MAX;
    const struct agreement *agreement = of(room, rank);
    assert_int_equal(agreement_state(agreement), AGREEMENT_DECIDED);
    assert_int_equal(rank_set_count(agreement_set(agreement), room->size), count);
    for (int i = first; i < first + count; i++) {
        assert_true(rank_set_has(agreement_set(agreement), i));
        word &= word_of(i);
    }
    assert_true(agreement_word(agreement) == word);
    assert_true(agreement_due_ns(agreement) == UINT64_MAX);
    assert_int_equal(agreement_awaited(agreement), -1);
}

static int kind_of(const struct letter *letter)
{
    return letter->bytes[2];
}

/* -------------------------------------------------------------------------------------- the way */

static void four_messages_for_each_other_rank(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 33, 64, 65, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int size = sizes[i];
        struct room *room = open_room(size, 0, size);
        assert_true(agreement_due_ns(of(room, 0)) == 0);
        tick_all(room);
        deliver(room);
        for (int rank = 0; rank < size; rank++) check_decision(room, rank, 0, size);
        assert_int_equal(room->sent, 4 * (size - 1));
        close_room(room);
    }
}

static void nobody_is_awaited_who_is_suspected_or_dead(void **state)
{
    (void)state;
    struct room *room = open_room(5, 0, 4); /* rank 4 never calls */
    tick_all(room);
    deliver(room);
    assert_int_equal(agreement_state(of(room, 0)), AGREEMENT_RUNNING);
    assert_int_equal(agreement_awaited(of(room, 0)), 4);
    assert_int_equal(agreement_awaited(of(room, 1)), 0);
    agreement_suspect(of(room, 0), 4);
    assert_true(agreement_due_ns(of(room, 0)) == 0);
    tick_all(room);
    deliver(room);
    for (int rank = 0; rank < 4; rank++) check_decision(room, rank, 0, 4);
    close_room(room);
}

static void who_comes_too_late_hears_that_it_is_not_in(void **state)
{
    (void)state;
    struct room *room = open_room(3, 0, 3);
    agreement_suspect(of(room, 0), 2);
    for (int rank = 0; rank < 2; rank++) agreement_tick(of(room, rank), room->now_ns);
    while (room->next < room->count && agreement_state(of(room, 1)) != AGREEMENT_DECIDED) {
        const struct letter *letter = &room->letters[room->next++];
        if (letter->to != 2) hand_over(room, letter);
    }
    room->next = room->count = 0;
    agreement_tick(of(room, 2), room->now_ns);
    deliver(room);
    for (int rank = 0; rank < 3; rank++) check_decision(room, rank, 0, 2);
    close_room(room);
}

/* ------------------------------------------------------------------------------ failing leaders */

static bool is_from_zero(const struct room *room, const struct letter *letter)
{
    (void)room;
    return letter->from == 0 || letter->to == 0;
}

static bool is_accept_to_last(const struct room *room, const struct letter *letter)
{
    return (kind_of(letter) == ACCEPT && letter->to != 1) ||
           (kind_of(letter) == ACCEPTED && letter->to == 0 && room->size > 0);
}

static void what_one_accepted_is_taken_over(void **state)
{
    (void)state;
    struct room *room = open_room(5, 0, 5);
    room->is_lost = is_accept_to_last;
    tick_all(room);
    deliver(room); /* rank 1 alone has accepted that all five are in */
    room->is_lost = is_from_zero;
    for (int rank = 1; rank < 5; rank++) agreement_declare_dead(of(room, rank), 0);
    for (int step = 0; step < 100; step++, room->now_ns += 5 * MS) {
        for (int rank = 1; rank < 5; rank++) agreement_tick(of(room, rank), room->now_ns);
        deliver(room);
    }
    for (int rank = 1; rank < 5; rank++) check_decision(room, rank, 0, 5);
    close_room(room);
}

static void a_dead_leader_that_decided_nothing_is_left_out(void **state)
{
    (void)state;
    struct room *room = open_room(4, 1, 3); /* rank 0 died before it called */
    for (int rank = 1; rank < 4; rank++) agreement_declare_dead(of(room, rank), 0);
    run_until_decided(room);
    for (int rank = 1; rank < 4; rank++) check_decision(room, rank, 1, 3);
    close_room(room);
}

/* Ranks 0 to 3 decide that all are in, tell only rank 5, and die. Rank 4 asks by all; the answer of
 * 5 is lost, and 5 dies. If the ballot of rank 4 went on without it, rank 6 could still hear from
 * 5. */
static bool is_accept_to_survivors(const struct room *room, const struct letter *letter)
{
    (void)room;
    if (letter->to >= 4 && kind_of(letter) == ACCEPT) return true;
    return kind_of(letter) == DECIDE && (letter->from != 0 || letter->to != 5);
}

static bool is_with_the_dead(const struct room *room, const struct letter *letter)
{
    (void)room;
    return letter->from < 4 || letter->to < 4 || letter->from == 5 || letter->to == 5;
}

static void who_dies_during_a_ballot_by_all_ends_it(void **state)
{
    (void)state;
    struct room *room = open_room(7, 0, 7);
    room->is_lost = is_accept_to_survivors;
    tick_all(room);
    deliver(room);
    check_decision(room, 5, 0, 7);
    assert_int_equal(agreement_state(of(room, 4)), AGREEMENT_RUNNING);
    assert_int_equal(agreement_state(of(room, 6)), AGREEMENT_RUNNING);

    room->is_lost = is_with_the_dead;
    for (int dead = 0; dead < 4; dead++) agreement_declare_dead(of(room, 4), dead);
    agreement_tick(of(room, 4), room->now_ns);
    deliver(room); /* 6 has promised, and declared 0 to 3 dead */
    room->now_ns += 100 * MS;
    agreement_tick(of(room, 6), room->now_ns);
    struct letter from_five = {.from = -1};
    while (from_five.from == -1) { /* 6 asks 5, sooner or later, and the answer is under way */
        room->now_ns += 400 * MS;
        agreement_tick(of(room, 6), room->now_ns);
        for (size_t i = 0; i < room->count; i++)
            if (room->letters[i].to == 5) hand_over(room, &room->letters[i]);
        for (size_t i = 0; i < room->count; i++)
            if (room->letters[i].from == 5 && room->letters[i].to == 6)
                from_five = room->letters[i];
    }
    deliver(room);
    assert_int_equal(agreement_state(of(room, 4)), AGREEMENT_RUNNING);

    agreement_declare_dead(of(room, 4), 5);
    agreement_tick(of(room, 4), room->now_ns);
    bool has_come = false;
    while (room->next < room->count) {
        const struct letter letter = room->letters[room->next++];
        if (kind_of(&letter) == DECIDE && letter.from == 4 && !has_come) {
            hand_over(room, &from_five);
            has_come = true;
        }
        if (!is_with_the_dead(room, &letter)) hand_over(room, &letter);
    }
    assert_true(has_come);
    for (int rank = 4; rank < 7; rank += 2) {
        const struct agreement *agreement = of(room, rank);
        assert_int_equal(agreement_state(agreement), AGREEMENT_DECIDED);
        assert_true(*agreement_set(agreement) == 0x50);
        assert_true(agreement_word(agreement) == (word_of(4) & word_of(6)));
    }
    close_room(room);
}

/* -------------------------------------------------------------------------------------- quorums */

static void half_goes_on_only_with_rank_0(void **state)
{
    (void)state;
    for (int lower = 0; lower < 2; lower++) {
        struct room *room = open_room(4, lower ? 0 : 2, 2);
        for (int rank = room->first; rank < room->first + 2; rank++)
            for (int other = 0; other < 4; other++)
                if (other < room->first || other >= room->first + 2)
                    agreement_suspect(of(room, rank), other);
        for (int step = 0; step < 200; step++, room->now_ns += 5 * MS) {
            tick_all(room);
            deliver(room);
        }
        for (int rank = room->first; rank < room->first + 2; rank++) {
            agreement_give_up(of(room, rank));
            if (lower)
                check_decision(room, rank, 0, 2);
            else
                assert_int_equal(agreement_state(of(room, rank)), AGREEMENT_MINORITY);
        }
        close_room(room);
    }
}

static void the_last_one_goes_on_when_all_others_are_dead_for_certain(void **state)
{
    (void)state;
    struct room *room = open_room(9, 8, 1);
    for (int other = 0; other < 7; other++) agreement_declare_dead(of(room, 8), other);
    agreement_suspect(of(room, 8), 7);
    for (int step = 0; step < 100; step++, room->now_ns += 5 * MS) tick_all(room);
    assert_int_equal(agreement_state(of(room, 8)), AGREEMENT_RUNNING);
    assert_int_equal(agreement_awaited(of(room, 8)), 7);
    agreement_declare_dead(of(room, 8), 7);
    tick_all(room);
    check_decision(room, 8, 8, 1);
    close_room(room);
}

static bool is_with_the_first_two(const struct room *room, const struct letter *letter)
{
    (void)room;
    return letter->from < 2 || letter->to < 2;
}

/* Rank 2 has the promise of 3, and waits for 1, which it only suspects. Rank 3 meanwhile led a
 * ballot of its own, which was refused, so it has no leader to answer to. It must say all the same
 * that 1 is dead. */
static void who_leads_is_told_of_the_dead_by_those_who_promised_nothing(void **state)
{
    (void)state;
    struct room *room = open_room(4, 0, 4);
    room->is_lost = is_with_the_first_two;
    agreement_declare_dead(of(room, 2), 0);
    agreement_suspect(of(room, 2), 1);
    for (int rank = 2; rank < 4; rank++) agreement_tick(of(room, rank), room->now_ns);
    deliver(room);
    for (int other = 0; other < 3; other++) agreement_suspect(of(room, 3), other);
    room->now_ns += 1000 * MS;
    agreement_tick(of(room, 3), room->now_ns);
    assert_int_equal(kind_of(&room->letters[0]), PREPARE);
    struct letter refusal = room->letters[0];
    refusal.from = 1, refusal.to = 3;
    refusal.byte_count = AGREEMENT_HEAD_BYTES;
    refusal.bytes[2] = REFUSE;
    memcpy(refusal.bytes + 24, refusal.bytes + 16, 8);
    refusal.bytes[26] = 9; /* a later round */
    hand_over(room, &refusal);
    room->next = room->count = 0; /* its messages are lost */

    agreement_unsuspect(of(room, 3), 2);
    for (int dead = 0; dead < 2; dead++) agreement_declare_dead(of(room, 3), dead);
    for (int step = 0; step < 200; step++, room->now_ns += 10 * MS) {
        for (int rank = 2; rank < 4; rank++) agreement_tick(of(room, rank), room->now_ns);
        deliver(room);
    }
    for (int rank = 2; rank < 4; rank++) check_decision(room, rank, 2, 2);
    close_room(room);
}

/* Whether an ASK to that rank is among the letters from that one on. */
static bool is_asked(const struct room *room, size_t from, int rank)
{
    for (size_t i = from; i < room->count; i++)
        if (room->letters[i].to == rank && kind_of(&room->letters[i]) == ASK) return true;
    return false;
}

/* Otherwise a rank of which one answer was lost would be asked again after all others. */
static void who_lacks_a_quorum_asks_all_each_time(void **state)
{
    (void)state;
    enum { SIZE = 40, SELF = 30 };
    struct room *room = open_room(SIZE, SELF, 1);
    agreement_declare_dead(of(room, SELF), 1);
    for (int rank = 5; rank < 24; rank++) agreement_suspect(of(room, SELF), rank);
    for (int round = 0; round < 5; round++, room->now_ns += 1000 * MS) {
        const size_t from = room->count;
        if (round == 2) agreement_suspect(of(room, SELF), 24);
        tick_all(room);
        int asked = 0;
        for (int rank = 5; rank < 25; rank++) asked += is_asked(room, from, rank);
        assert_int_equal(asked, round < 2 ? 0 : 20);
        assert_false(is_asked(room, from, 1));
    }
    close_room(room);
}

static void giving_up_says_whether_there_was_a_quorum(void **state)
{
    (void)state;
    struct room *room = open_room(3, 0, 1);
    tick_all(room);
    agreement_give_up(of(room, 0));
    assert_int_equal(agreement_state(of(room, 0)), AGREEMENT_LATE);
    const size_t sent = room->sent;
    room->now_ns += 1000 * MS;
    tick_all(room);
    assert_int_equal(room->sent, sent);
    assert_true(agreement_due_ns(of(room, 0)) == UINT64_MAX);
    close_room(room);
}

/* ----------------------------------------------------------------------------------- large sets */

static bool is_one_of_three(const struct room *room, const struct letter *letter)
{
    (void)letter;
    return room->handled * UINT64_C(0x9e3779b97f4a7c15) >> 32 & 1 && room->handled % 3 != 0;
}

static void sets_that_need_several_messages_arrive_whole(void **state)
{
    (void)state;
    static const int sizes[] = {3584, 3585, 10000, AGREEMENT_SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int size = sizes[i], first = size - 3;
        struct room *room = open_room(size, first, 3);
        room->is_lost = is_one_of_three;
        /* No one knows of all of the dead; together they do. */
        for (int other = 0; other < first; other++) {
            for (int rank = first; rank < size; rank++)
                if (other > 300 || rank == first + other % 3)
                    agreement_declare_dead(of(room, rank), other);
            agreement_suspect(of(room, first), other);
        }
        run_until_decided(room);
        for (int rank = first; rank < size; rank++) check_decision(room, rank, first, 3);
        close_room(room);
    }
}

static bool loses_accepted(const struct room *room, const struct letter *letter)
{
    return kind_of(letter) == ACCEPTED || kind_of(letter) == DECIDE || is_one_of_three(room, letter);
}

static void a_large_value_is_taken_over_from_several(void **state)
{
    (void)state;
    enum { SIZE = 9000, FIRST = SIZE - 3 };
    struct room *room = open_room(SIZE, FIRST, 3);
    for (int other = 0; other < FIRST; other++)
        for (int rank = FIRST; rank < SIZE; rank++) agreement_declare_dead(of(room, rank), other);
    room->is_lost = loses_accepted; /* so it is accepted by some, and never decided */
    for (int step = 0; step < 400; step++, room->now_ns += 5 * MS) {
        tick_all(room);
        deliver(room);
    }
    assert_int_equal(agreement_state(of(room, FIRST)), AGREEMENT_RUNNING);
    room->is_lost = is_one_of_three;
    agreement_suspect(of(room, FIRST + 1), FIRST);
    agreement_suspect(of(room, FIRST + 2), FIRST);
    run_until_decided(room);
    for (int rank = FIRST; rank < SIZE; rank++) check_decision(room, rank, FIRST, 3);
    close_room(room);
}

/* -------------------------------------------------------------------------------- foreign bytes */

struct change {
    const char *what;
    int kind; /* 0: any */
    size_t at;
    unsigned char flip;
    int longer;
    int from; /* -1: the true sender */
};

/* All kinds, as rank 1 of 3 gets or sends them, with one thing changed, to fresh ranks. */
static void what_makes_no_sense_is_dropped(void **state)
{
    (void)state;
    static const struct change changes[] = {
        {"magic", 0, 0, 1, 0, -1},
        {"kind", 0, 2, 0x40, 0, -1},
        {"slice", 0, 3, 1, 0, -1},
        {"size", 0, 4, 1, 0, -1},
        {"epoch", 0, 8, 1, 0, -1},
        {"epoch, high", 0, 15, 0x80, 0, -1},
        {"ballot of nobody", PREPARE, 16, 7, 0, -1},
        {"ballot of another", ACCEPT, 16, 1, 0, -1},
        {"other ballot", ACCEPT, 24, 1, 0, -1},
        {"other word", ACCEPT, 40, 1, 0, -1},
        {"word", PREPARE, 32, 1, 0, -1},
        {"other ballot", PREPARE, 26, 1, 0, -1},
        {"promise to another", PROMISE, 16, 1, 0, -1},
        {"word of nothing", PROMISE, 40, 1, 0, -1},
        {"short", 0, 0, 0, -1, -1},
        {"long", 0, 0, 0, 1, -1},
        {"rank that is none", ACCEPT, 48, 8, 0, -1},
        {"rank that is none", PREPARE, 55, 0x80, 0, -1},
        {"sender is dead", PREPARE, 48, 1, 0, -1},
        {"hearer is dead", PREPARE, 48, 4, 0, -1},
        {"from itself", 0, 0, 0, 0, 2},
        {"from nobody", 0, 0, 0, 0, 3},
        {"from nobody", 0, 0, 0, 0, -2},
    };
    struct letter samples[16];
    size_t sample_count = 0;
    struct room *room = open_room(3, 0, 3);
    agreement_suspect(of(room, 2), 0);
    agreement_suspect(of(room, 2), 1); /* so rank 2 begins a ballot */
    for (int rank = 2; rank >= 0; rank--) agreement_tick(of(room, rank), room->now_ns);
    agreement_unsuspect(of(room, 2), 0);
    agreement_unsuspect(of(room, 2), 1); /* and may propose */
    while (room->next < room->count) {
        const struct letter letter = room->letters[room->next++];
        bool is_new = sample_count < 16;
        for (size_t i = 0; i < sample_count; i++)
            is_new &= kind_of(&samples[i]) != kind_of(&letter);
        if (is_new) samples[sample_count++] = letter;
        hand_over(room, &letter);
    }
    close_room(room);
    assert_true(sample_count >= 5);

    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        for (size_t k = 0; k < sample_count; k++) {
            const struct change *change = &changes[i];
            struct letter letter = samples[k];
            const int hearer = letter.to;
            if (change->kind != 0 && kind_of(&letter) != change->kind) continue;
            if (change->at == 48 && (change->flip == 1 || change->flip == 4))
                letter.bytes[48] |= (unsigned char)(1 << (change->flip == 1 ? letter.from : hearer));
            else
                letter.bytes[change->at] ^= change->flip;
            letter.byte_count += (size_t)change->longer;
            if (change->from == 2)
                letter.from = hearer;
            else if (change->from != -1)
                letter.from = change->from == 3 ? 3 : -1;
            struct room *other = open_room(3, 0, 3);
            unsigned char before[64];
            memcpy(before, of(other, hearer), sizeof before);
            hand_over(other, &letter);
            if (other->sent != 0 || memcmp(before, of(other, hearer), sizeof before) != 0 ||
                agreement_due_ns(of(other, hearer)) != 0)
                fail_msg("%s: a message of kind %d was taken", change->what, kind_of(&samples[k]));
            close_room(other);
        }
}

static void who_decided_the_same_goes_on_to_the_same_epoch(void **state)
{
    (void)state;
    uint64_t epochs[2];
    for (int i = 0; i < 2; i++) {
        struct room *room = open_room(3, 0, 3);
        if (i == 1) agreement_suspect(of(room, 0), 2);
        agreement_tick(of(room, 0), room->now_ns); /* does not wait for the suspect */
        agreement_tick(of(room, 1), room->now_ns);
        deliver(room);
        run_until_decided(room);
        epochs[i] = agreement_next_epoch(of(room, 0));
        assert_true(epochs[i] != EPOCH);
        assert_true(agreement_next_epoch(of(room, 1)) == epochs[i]);
        close_room(room);
    }
    assert_true(epochs[0] != epochs[1]);
}

static void messages_name_their_epoch(void **state)
{
    (void)state;
    struct room *room = open_room(2, 0, 2);
    agreement_tick(of(room, 1), room->now_ns);
    assert_int_equal(room->count, 1);
    uint64_t epoch = 0;
    assert_true(agreement_message_epoch(room->letters[0].bytes, room->letters[0].byte_count, &epoch));
    assert_true(epoch == EPOCH);
    assert_false(agreement_message_epoch(room->letters[0].bytes, 20, &epoch));
    assert_false(agreement_message_epoch("no message of an agreement, but long enough for one",
                                         AGREEMENT_HEAD_BYTES, &epoch));
    close_room(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_messages_for_each_other_rank),
        cmocka_unit_test(nobody_is_awaited_who_is_suspected_or_dead),
        cmocka_unit_test(who_comes_too_late_hears_that_it_is_not_in),
        cmocka_unit_test(what_one_accepted_is_taken_over),
        cmocka_unit_test(a_dead_leader_that_decided_nothing_is_left_out),
        cmocka_unit_test(who_dies_during_a_ballot_by_all_ends_it),
        cmocka_unit_test(half_goes_on_only_with_rank_0),
        cmocka_unit_test(the_last_one_goes_on_when_all_others_are_dead_for_certain),
        cmocka_unit_test(who_leads_is_told_of_the_dead_by_those_who_promised_nothing),
        cmocka_unit_test(who_lacks_a_quorum_asks_all_each_time),
        cmocka_unit_test(giving_up_says_whether_there_was_a_quorum),
        cmocka_unit_test(sets_that_need_several_messages_arrive_whole),
        cmocka_unit_test(a_large_value_is_taken_over_from_several),
        cmocka_unit_test(what_makes_no_sense_is_dropped),
        cmocka_unit_test(who_decided_the_same_goes_on_to_the_same_epoch),
        cmocka_unit_test(messages_name_their_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
