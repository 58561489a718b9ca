/* Which votes are kept, and when a list of ranks can still have a majority. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "membership/standing.h"
#include "membership/vote.h"

static uint64_t vote_in(const void *context, int rank)
{
    return ((const uint64_t *)context)[rank];
}

static bool may(int size, uint32_t own, const uint64_t *votes)
{
    return vote_may_exclude(size, own, vote_in, votes);
}

static void a_list_may_win_while_a_majority_may_be_for_it(void **state)
{
    (void)state;
    assert_true(may(3, 5, (const uint64_t[]){5, 6, 6}));
    assert_false(may(3, 5, (const uint64_t[]){5, 6, 7}));
    assert_true(may(3, 5, (const uint64_t[]){5, 6, VOTE_UNKNOWN}));
    assert_true(may(3, 5, (const uint64_t[]){5, VOTE_UNKNOWN, VOTE_UNKNOWN}));
    assert_false(may(3, 5, (const uint64_t[]){5, 6, VOTE_NONE}));
    assert_true(may(4, 5, (const uint64_t[]){6, 6, 5, 7}));  /* half with rank 0 */
    assert_false(may(4, 5, (const uint64_t[]){5, 6, 6, 7})); /* half without it */
    assert_false(may(4, 6, (const uint64_t[]){6, 6, 6, 7})); /* the own list puts others out */
    assert_false(may(4, 5, (const uint64_t[]){0, 0, 0, 5})); /* ranks that are left put nobody out */
}

static void the_vote_of_the_present_number_is_kept(void **state)
{
    (void)state;
    const uint64_t at3 = standing_epoch(3, 9), at4 = standing_epoch(4, 8),
                   at5 = standing_epoch(5, 7);
    assert_int_equal(vote_keep(0, at3, 4), 0);     /* an old one says nothing */
    assert_int_equal(vote_keep(at3, at4, 4), at4); /* the present one counts */
    assert_int_equal(vote_keep(at4, at5, 4), at4); /* and stays when its rank has gone on */
    assert_int_equal(vote_keep(at5, at4, 4), at4); /* also if it is heard later */
    assert_int_equal(vote_keep(0, at4, 0), at4);   /* of ranks that were faster */
    assert_int_equal(vote_keep(at4, at5, 0), at4);
}

static void own_votes_are_found_for_a_while(void **state)
{
    struct vote_history history = {{0}};
    (void)state;
    assert_int_equal(vote_own_at(&history, 1), 0);
    for (uint64_t number = 1; number <= VOTE_HISTORY + 1; number++)
        vote_note_own(&history, standing_epoch(number, 3));
    assert_int_equal(vote_own_at(&history, 1), 0);
    assert_int_equal(vote_own_at(&history, 2), standing_epoch(2, 3));
    assert_int_equal(vote_own_at(&history, VOTE_HISTORY + 1), standing_epoch(VOTE_HISTORY + 1, 3));
}

static void only_sound_messages_are_read(void **state)
{
    unsigned char bytes[VOTE_BYTES + 1] = {0};
    struct vote_message message;
    (void)state;
    vote_write(&(struct vote_message){true, standing_epoch(7, 11)}, bytes);
    assert_true(vote_read(bytes, VOTE_BYTES, &message));
    assert_true(message.is_question && message.epoch == standing_epoch(7, 11));
    assert_false(vote_read(bytes, VOTE_BYTES + 1, &message));
    assert_false(vote_read(bytes, VOTE_BYTES - 1, &message));
    for (size_t i = 0; i < 8; i++) {
        bytes[i] ^= 0x40;
        assert_false(vote_read(bytes, VOTE_BYTES, &message));
        bytes[i] ^= 0x40;
    }
    vote_write(&(struct vote_message){false, standing_epoch(0, 11)}, bytes);
    assert_false(vote_read(bytes, VOTE_BYTES, &message));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_may_win_while_a_majority_may_be_for_it),
        cmocka_unit_test(the_vote_of_the_present_number_is_kept),
        cmocka_unit_test(own_votes_are_found_for_a_while),
        cmocka_unit_test(only_sound_messages_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
