/* Every survivor and every joiner gets a rank of its own, and no rank is left over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "membership/growth.h"
#include "membership/rank_set.h"
#include "tests/kit/chance.h"

enum { RANK_MAX = 200, SET_WORDS = RANK_MAX / 64 + 1 };

static void expect_places(const struct growth_team *team, const int *wanted, uint64_t voters_wanted)
{
    int places[RANK_MAX];
    uint64_t voters[SET_WORDS];
    growth_place(team, places, voters);
    assert_memory_equal(places, wanted, (size_t)growth_size(team) * sizeof *wanted);
    assert_int_equal(voters[0], voters_wanted);
}

static void survivors_move_up_and_joiners_come_behind_them(void **state)
{
    (void)state;
    const uint64_t survivors = 0xd; /* 0, 2, 3 */
    const struct growth_team team = {4, &survivors, 2, false};
    assert_int_equal(growth_size(&team), 5);
    assert_int_equal(growth_gap_count(&team), 1);
    assert_int_equal(growth_number_of(&team, 3), 2);
    expect_places(&team, (const int[]){0, 1, 2, 3, 4}, 0x7);
}

static void joiners_fill_the_gaps_where_ranks_are_kept(void **state)
{
    (void)state;
    const uint64_t survivors = 0xd, last = 0x8;
    const struct growth_team team = {4, &survivors, 2, true}, alone = {4, &last, 3, true};
    expect_places(&team, (const int[]){0, 2, 3, 1, 4}, 0xd);
    expect_places(&alone, (const int[]){3, 0, 1, 2}, 0x8);
}

static void gaps_need_joiners(void **state)
{
    (void)state;
    const uint64_t survivors = 0x9;
    assert_true(growth_is_sound(&(struct growth_team){4, &survivors, 2, true}, 4));
    assert_false(growth_is_sound(&(struct growth_team){4, &survivors, 1, true}, 4));
    assert_true(growth_is_sound(&(struct growth_team){4, &survivors, 0, false}, 4));
    assert_false(growth_is_sound(&(struct growth_team){4, &survivors, 3, false}, 4));
    assert_false(growth_is_sound(&(struct growth_team){4, &survivors, -1, false}, 4));
    assert_false(growth_is_sound(&(struct growth_team){4, &(uint64_t){0}, 4, true}, 4));
}

static void a_team_is_made_of_all_its_ranks_only(void **state)
{
    (void)state;
    const uint64_t survivors = 0x3;
    const struct growth_team team = {2, &survivors, 1, false};
    assert_true(growth_is_made(&team, &(uint64_t){0x7}));
    assert_false(growth_is_made(&team, &(uint64_t){0x3}));
    assert_false(growth_is_made(&team, &(uint64_t){0x6}));
}

static void all_get_ranks_of_their_own(void **state)
{
    (void)state;
    uint64_t chance = 1;
    for (int i = 0; i < 2000; i++) {
        uint64_t survivors[SET_WORDS] = {0}, voters[SET_WORDS], taken[SET_WORDS] = {0};
        int places[RANK_MAX];
        struct growth_team team = {.old_size = 1 + (int)(chance_next(&chance) % 90),
                                   .survivors = survivors,
                                   .keeps_ranks = chance_next(&chance) & 1};
        for (int r = 0; r < team.old_size; r++)
            if (chance_next(&chance) % 4 != 0) rank_set_add(survivors, r);
        team.joiner_count = (int)(chance_next(&chance) % 90);
        if (!growth_is_sound(&team, RANK_MAX)) continue;
        growth_place(&team, places, voters);
        for (int n = 0; n < growth_size(&team); n++) {
            assert_true(places[n] >= 0 && places[n] < growth_size(&team));
            assert_false(rank_set_has(taken, places[n]));
            rank_set_add(taken, places[n]);
        }
        for (int r = 0; r < team.old_size; r++) {
            if (!rank_set_has(survivors, r)) continue;
            const int place = places[growth_number_of(&team, r)];
            assert_true(rank_set_has(voters, place));
            assert_true(!team.keeps_ranks || place == r);
        }
        assert_int_equal(rank_set_count(voters, growth_size(&team)),
                         rank_set_count(survivors, team.old_size));
        assert_true(growth_is_made(&team, taken));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_move_up_and_joiners_come_behind_them),
        cmocka_unit_test(joiners_fill_the_gaps_where_ranks_are_kept),
        cmocka_unit_test(gaps_need_joiners),
        cmocka_unit_test(a_team_is_made_of_all_its_ranks_only),
        cmocka_unit_test(all_get_ranks_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
