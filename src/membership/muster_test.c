/* Musters: tables of evidence, and random worlds in which no rank that is healthy may be put out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "membership/muster.h"
#include "membership/rank_set.h"
#include "membership/standing.h"

#define SECOND UINT64_C(1000000000)
enum { RANKS_MAX = 9, WORLDS = 20000 };

static const struct muster_time at_once = {.waited_ns = 4 * SECOND, .absent_ns = 5 * SECOND};

static enum muster_verdict judge(struct muster_sign sign)
{
    return muster_judge(&sign, &at_once);
}

/* ------------------------------------------------------------------------------------- verdicts */

static void a_rank_that_does_not_run_is_sick(void **state)
{
    (void)state;
    assert_int_equal(judge((struct muster_sign){.stopped_ns = MUSTER_STOPPED_NS}), MUSTER_STOPPED);
    assert_int_equal(judge((struct muster_sign){.stopped_ns = MUSTER_STOPPED_NS - 1}), MUSTER_OPEN);
    assert_int_equal(judge((struct muster_sign){.silent_ns = MUSTER_SILENT_NS}), MUSTER_SILENT);
    assert_int_equal(judge((struct muster_sign){.silent_ns = MUSTER_SILENT_NS - 1}), MUSTER_OPEN);
    /* Even where it was stopped in a call, or after it had come. */
    assert_int_equal(judge((struct muster_sign){.silent_ns = MUSTER_SILENT_NS, .is_in_call = true}),
                     MUSTER_SILENT);
    assert_int_equal(judge((struct muster_sign){.stopped_ns = MUSTER_STOPPED_NS, .has_come = true}),
                     MUSTER_STOPPED);
}

static void a_rank_that_waits_is_not_sick_however_long(void **state)
{
    const struct muster_time late = {.waited_ns = 1000 * SECOND, .absent_ns = SECOND};
    const struct muster_sign waits = {.is_in_call = true}, absent = {.is_in_call = false};
    (void)state;
    assert_int_equal(muster_judge(&waits, &late), MUSTER_OPEN);
    assert_int_equal(muster_judge(&absent, &late), MUSTER_ABSENT);
    assert_false(muster_is_sick(MUSTER_OPEN) || muster_is_sick(MUSTER_HERE) ||
                 muster_is_sick(MUSTER_LOST));
}

static void nobody_is_sick_before_the_patience_ends(void **state)
{
    struct muster_time time = {
        .waited_ns = 4 * SECOND, .patience_ns = 5 * SECOND, .absent_ns = 3 * SECOND};
    const struct muster_sign stopped = {.stopped_ns = 4 * SECOND}, absent = {.has_come = false},
                             here = {.has_come = true}, lost = {.is_lost = true};
    (void)state;
    assert_int_equal(muster_judge(&stopped, &time), MUSTER_OPEN);
    assert_int_equal(muster_judge(&here, &time), MUSTER_HERE);
    assert_int_equal(muster_judge(&lost, &time), MUSTER_LOST);
    time.waited_ns = 5 * SECOND;
    assert_int_equal(muster_judge(&stopped, &time), MUSTER_STOPPED);
    assert_int_equal(muster_judge(&absent, &time), MUSTER_OPEN);
    time.waited_ns = 8 * SECOND;
    assert_int_equal(muster_judge(&absent, &time), MUSTER_ABSENT);
}

/* ------------------------------------------------------------------------ going on without them */

/* "HLOTSA": here, lost, open, stopped, silent, absent. */
static int read_verdicts(const char *text, enum muster_verdict *verdicts)
{
    static const char letters[] = "HLOTSA";
    const int size = (int)strlen(text);
    for (int r = 0; r < size; r++)
        verdicts[r] = (enum muster_verdict)(strchr(letters, text[r]) - letters);
    return size;
}

static bool may_close(const char *text)
{
    enum muster_verdict verdicts[RANKS_MAX];
    const int size = read_verdicts(text, verdicts);
    return muster_may_close(verdicts, size);
}

static void it_goes_on_when_all_are_known_and_a_majority_is_here(void **state)
{
    (void)state;
    assert_true(may_close("HHTH"));
    assert_true(may_close("SHHH"));  /* the leader itself */
    assert_true(may_close("HHTS"));  /* half, with rank 0 */
    assert_true(may_close("HLHTH")); /* one is dead besides */
    assert_false(may_close("THSH")); /* half, without rank 0 */
    assert_false(may_close("HTTT"));
    assert_false(may_close("HHOT")); /* rank 2 waits for rank 3, perhaps */
    assert_false(may_close("HHHH"));
    assert_false(may_close("HHLH")); /* the dead need no muster */
    assert_true(may_close("HA"));
    assert_false(may_close("AH"));
}

/* ---------------------------------------------------------------------------------------- votes */

static enum muster_opinion opinion(const char *text, uint64_t set)
{
    enum muster_verdict verdicts[RANKS_MAX];
    const int size = read_verdicts(text, verdicts);
    return muster_opinion(verdicts, &set, size);
}

static void an_opinion_is_about_all_that_are_missing(void **state)
{
    (void)state;
    assert_int_equal(opinion("HHTH", 0xb), MUSTER_ALL_SICK);
    assert_int_equal(opinion("HHOH", 0xb), MUSTER_UNSURE);
    assert_int_equal(opinion("HHHH", 0xb), MUSTER_UNSURE); /* it came, as this rank sees it */
    assert_int_equal(opinion("HHTO", 0x3), MUSTER_UNSURE);
    assert_int_equal(opinion("HHTL", 0x3), MUSTER_ALL_SICK);
    assert_int_equal(opinion("HHLL", 0x3), MUSTER_ALL_LOST);
    assert_int_equal(opinion("HHTA", 0xb), MUSTER_ALL_SICK); /* rank 3 has come, whatever it is */
}

/* opinions: a letter for each rank: 's'ick, 'l'ost, 'u'nsure; '-': not in the set. */
static enum muster_opinion outcome(const char *opinions)
{
    const int size = (int)strlen(opinions);
    uint64_t set = 0, word = UINT64_MAX;
    for (int r = 0; r < size; r++)
        if (opinions[r] != '-') rank_set_add(&set, r);
    for (int r = 0; r < size; r++) {
        const enum muster_opinion own = opinions[r] == 's'   ? MUSTER_ALL_SICK
                                        : opinions[r] == 'l' ? MUSTER_ALL_LOST
                                                             : MUSTER_UNSURE;
        word &= muster_word(&set, r, own);
    }
    return muster_outcome(&set, size, word);
}

static void most_voters_decide(void **state)
{
    (void)state;
    assert_int_equal(outcome("ss-s"), MUSTER_ALL_SICK);
    assert_int_equal(outcome("su-s"), MUSTER_ALL_SICK);
    assert_int_equal(outcome("uu-s"), MUSTER_UNSURE);
    assert_int_equal(outcome("us-"), MUSTER_UNSURE); /* half of two */
    assert_int_equal(outcome("ss-"), MUSTER_ALL_SICK);
    assert_int_equal(outcome("s-"), MUSTER_ALL_SICK);
    assert_int_equal(outcome("-s"), MUSTER_UNSURE);
    assert_int_equal(outcome("ss--"), MUSTER_ALL_SICK);
    assert_int_equal(outcome("--ss"), MUSTER_UNSURE);
    assert_int_equal(outcome("s----"), MUSTER_UNSURE); /* a rank that is cut off */
    assert_int_equal(outcome("ll-l"), MUSTER_ALL_LOST);
    assert_int_equal(outcome("ls-s"), MUSTER_ALL_SICK);
    assert_int_equal(outcome("ll-s"), MUSTER_UNSURE);
}

static void one_liar_decides_nothing(void **state)
{
    (void)state;
    assert_int_equal(outcome("su-u"), MUSTER_UNSURE);
    assert_int_equal(outcome("uul-"), MUSTER_UNSURE);
    assert_int_equal(outcome("sl-u"), MUSTER_UNSURE);
    /* Nor does it protect a rank. */
    assert_int_equal(outcome("ssu-s"), MUSTER_ALL_SICK);
    assert_int_equal(outcome("ssl-s"), MUSTER_ALL_SICK);
}

static void of_many_ranks_the_lowest_vote(void **state)
{
    enum { SIZE = 200 };
    uint64_t set[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, 0xff}, yes = UINT64_MAX;
    (void)state;
    rank_set_remove(set, 5);
    for (int r = 0; r < SIZE; r++) {
        const uint64_t word = muster_word(set, r, MUSTER_ALL_SICK);
        const bool votes = r <= MUSTER_VOTERS_MAX && r != 5;
        assert_int_equal(rank_set_count((const uint64_t[]){~word}, 64), r == 5 ? 0 : votes ? 2 : 1);
        if (r < 33) yes &= word;
    }
    assert_int_equal(muster_outcome(set, SIZE, yes), MUSTER_ALL_SICK); /* 32 of 63 */
    yes = UINT64_MAX;
    for (int r = 0; r < 32; r++) yes &= muster_word(set, r, MUSTER_ALL_SICK);
    assert_int_equal(muster_outcome(set, SIZE, yes), MUSTER_UNSURE); /* 31 of 63 */
}

/* --------------------------------------------------------------------------------------- worlds */

/* The truth about a rank. WAITS: for a rank with a higher number, in a call. */
enum truth { COMES, WAITS, STOPPED, HUNG, DEAD };

struct world {
    int size, liar; /* -1: nobody lies */
    enum truth truth[RANKS_MAX];
    bool is_far[RANKS_MAX];            /* on a host of its own */
    bool is_cut[RANKS_MAX][RANKS_MAX]; /* nothing comes from the second to the first */
    uint64_t late_ns[RANKS_MAX];       /* when it came */
    enum muster_verdict seen[RANKS_MAX][RANKS_MAX];
};

typedef enum muster_verdict judge_function(const struct muster_sign *sign,
                                           const struct muster_time *time);

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % below;
}

static void make_world(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof *world);
    world->size = 2 + (int)draw(&seed, RANKS_MAX - 1);
    world->liar = draw(&seed, 4) == 0 ? (int)draw(&seed, (uint64_t)world->size) : -1;
    const bool has_cut = draw(&seed, 4) == 0;
    for (int r = 0; r < world->size; r++) {
        world->is_far[r] = draw(&seed, 2) == 0;
        world->truth[r] = COMES;
        if (draw(&seed, 3) == 0) world->truth[r] = (enum truth)draw(&seed, 5);
        world->late_ns[r] = draw(&seed, 4) == 0 ? draw(&seed, 3 * SECOND) : 0;
        for (int other = 0; other < world->size && has_cut; other++)
            world->is_cut[r][other] = draw(&seed, 12) == 0;
    }
}

/* The signs that rank `by` has of rank `on` after so long. */
static struct muster_sign sign_of(const struct world *world, int by, int on, uint64_t waited_ns)
{
    const enum truth truth = world->truth[on];
    const bool is_near = !world->is_far[by] && !world->is_far[on];
    const bool hears = !world->is_cut[by][on];
    return (struct muster_sign){.is_lost = truth == DEAD,
                                .has_come = truth == COMES && hears,
                                .is_in_call = truth == WAITS || (truth == STOPPED && on % 2 == 0),
                                .stopped_ns = truth == STOPPED && is_near ? waited_ns : 0,
                                .silent_ns =
                                    !is_near && (truth == STOPPED || !hears) ? waited_ns : 0};
}

/* The set of ranks that a leader, the first rank that is here, goes on with; 0: it waits on. */
static uint64_t close_muster(struct world *world, judge_function *judge_sign, uint64_t waited_ns)
{
    const struct muster_time time = {.waited_ns = waited_ns, .absent_ns = 5 * SECOND};
    uint64_t set = 0;
    int leader = -1;
    for (int by = 0; by < world->size; by++) {
        if (world->truth[by] == COMES && leader < 0) leader = by;
        for (int on = 0; on < world->size; on++) {
            const uint64_t own_ns =
                waited_ns > world->late_ns[by] ? waited_ns - world->late_ns[by] : 0;
            const struct muster_sign sign = sign_of(world, by, on, own_ns);
            world->seen[by][on] = by == on ? MUSTER_HERE : judge_sign(&sign, &time);
        }
        if (by == world->liar) /* it says that ranks are sick which it likes to see go */
            for (int on = 0; on < world->size; on++)
                if (on != by) world->seen[by][on] = on % 3 == by % 3 ? MUSTER_HERE : MUSTER_SILENT;
    }
    if (leader < 0 || !muster_may_close(world->seen[leader], world->size)) return 0;
    for (int r = 0; r < world->size; r++)
        if (world->seen[leader][r] == MUSTER_HERE && world->truth[r] == COMES)
            set |= UINT64_C(1) << r;
    return standing_is_majority(rank_set_count(&set, world->size), set & 1, world->size) ? set : 0;
}

static enum muster_opinion vote(const struct world *world, uint64_t set)
{
    uint64_t word = UINT64_MAX;
    for (int r = 0; r < world->size; r++)
        if (rank_set_has(&set, r))
            word &= muster_word(&set, r, muster_opinion(world->seen[r], &set, world->size));
    return muster_outcome(&set, world->size, word);
}

/* Healthy: it comes or waits, and most of those that are here hear it. */
static bool is_healthy(const struct world *world, uint64_t set, int rank)
{
    int hear = 0;
    if (world->truth[rank] != COMES && world->truth[rank] != WAITS) return false;
    for (int by = 0; by < world->size; by++)
        hear += rank_set_has(&set, by) && !world->is_cut[by][rank] && by != world->liar;
    return 2 * hear >= rank_set_count(&set, world->size);
}

struct tally {
    int put_out, spared, wrong;
};

static struct tally run_worlds(judge_function *judge_sign)
{
    struct tally tally = {0};
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        struct world world;
        make_world(&world, seed);
        for (uint64_t ns = 0; ns <= 12 * SECOND; ns += SECOND / 2) {
            const uint64_t set = close_muster(&world, judge_sign, ns);
            if (set == 0) continue;
            const bool puts_out = vote(&world, set) == MUSTER_ALL_SICK;
            tally.put_out += puts_out;
            tally.spared += !puts_out;
            for (int r = 0; r < world.size && puts_out; r++)
                tally.wrong += !rank_set_has(&set, r) && is_healthy(&world, set, r);
            break;
        }
    }
    return tally;
}

static void no_healthy_rank_is_put_out_in_any_world(void **state)
{
    (void)state;
    const struct tally tally = run_worlds(muster_judge);
    assert_int_equal(tally.wrong, 0);
    assert_true(tally.put_out > WORLDS / 10 && tally.spared > WORLDS / 1000);
}

/* Wrong rules, of which the worlds must tell. */
static enum muster_verdict blames_who_waits(const struct muster_sign *sign,
                                            const struct muster_time *time)
{
    struct muster_sign blind = *sign;
    blind.is_in_call = false;
    return muster_judge(&blind, time);
}

static enum muster_verdict blames_who_is_not_here(const struct muster_sign *sign,
                                                  const struct muster_time *time)
{
    (void)time;
    return sign->is_lost ? MUSTER_LOST : sign->has_come ? MUSTER_HERE : MUSTER_ABSENT;
}

static void wrong_rules_are_found_out(void **state)
{
    (void)state;
    assert_true(run_worlds(blames_who_waits).wrong > WORLDS / 1000);
    assert_true(run_worlds(blames_who_is_not_here).wrong > WORLDS / 1000);
}

int main(void)
{
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_does_not_run_is_sick),
        cmocka_unit_test(a_rank_that_waits_is_not_sick_however_long),
        cmocka_unit_test(nobody_is_sick_before_the_patience_ends),
        cmocka_unit_test(it_goes_on_when_all_are_known_and_a_majority_is_here),
        cmocka_unit_test(an_opinion_is_about_all_that_are_missing),
        cmocka_unit_test(most_voters_decide),
        cmocka_unit_test(one_liar_decides_nothing),
        cmocka_unit_test(of_many_ranks_the_lowest_vote),
        cmocka_unit_test(no_healthy_rank_is_put_out_in_any_world),
        cmocka_unit_test(wrong_rules_are_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
