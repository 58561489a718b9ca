#include "membership/seat_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum {
    SERVERS = 3,
    SEATS = 3 * SERVERS
}; /* shares 0 to 2, their backups, a spare on each server */

static void take_out(struct seat_map *map, int server)
{
    for (int s = 0; s < map->seat_count; s++)
        if (seat_map_server(map, s) == server) map->seats[s].state = SEAT_OUT;
}

static void a_part_stays_alone_when_no_spare_can_have_it(void **state)
{
    (void)state;
    struct seat_map map;
    assert_true(seat_map_init(&map, SERVERS, 2, 1));
    assert_int_equal(map.seat_count, SEATS);
    assert_int_equal(seat_map_unbacked(&map), 0);
    take_out(&map, 1);
    assert_int_equal(seat_map_unbacked(&map), 2);
    assert_int_equal(seat_map_stay_alone(&map), 0); /* spares can have both */

    for (int share = 0; share < SERVERS; share++) {
        const int spare = seat_map_choose(&map, share), first = seat_map_full(&map, share, -1);
        if (seat_map_full(&map, share, first) >= 0) continue;
        assert_true(spare >= 0);
        assert_true(seat_map_move(&map, spare, SEAT_INVITED, share));
        assert_int_equal(seat_map_stay_alone(&map), 0); /* this one is about to be backed */
        assert_true(seat_map_move(&map, spare, SEAT_JOINED, share));
        assert_int_equal(seat_map_stay_alone(&map), 0);
        assert_true(seat_map_move(&map, spare, SEAT_FULL, share));
    }
    assert_int_equal(seat_map_unbacked(&map), 0);

    take_out(&map, 2); /* server 0 has all parts, and nobody is left */
    assert_int_equal(seat_map_unbacked(&map), 3);
    assert_int_equal(seat_map_stay_alone(&map), 3);
    seat_map_release(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_stays_alone_when_no_spare_can_have_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
