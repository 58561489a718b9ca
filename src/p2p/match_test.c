/* Matching by itself: order, tags, any source, bounds, and memory that is used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "p2p/match.h"

enum { SOURCES = 3, RECEIVES = 10000 };

static struct matcher create(size_t bytes_max, size_t count_max)
{
    struct matcher matcher;
    assert_int_equal(match_init(&matcher, SOURCES, bytes_max, count_max), TUTTI_OK);
    return matcher;
}

static struct p2p_request receive(int peer, int tag)
{
    return (struct p2p_request){.peer = peer, .tag = tag};
}

static void the_receive_posted_first_gets_the_message(void **state)
{
    (void)state;
    struct matcher matcher = create(1000, 10);
    struct p2p_request posted[] = {receive(1, 5),
                                   receive(TUTTI_ANY_RANK, 6),
                                   receive(1, TUTTI_ANY_TAG),
                                   receive(TUTTI_ANY_RANK, TUTTI_ANY_TAG),
                                   receive(1, 6),
                                   receive(2, 6)};
    for (int i = 0; i < 6; i++) match_post(&matcher, &posted[i]);
    assert_ptr_equal(match_take_posted(&matcher, 0, 5), &posted[3]); /* the only one for rank 0 */
    assert_ptr_equal(match_take_posted(&matcher, 1, 6), &posted[1]);
    assert_ptr_equal(match_take_posted(&matcher, 1, 6), &posted[2]);
    assert_ptr_equal(match_take_posted(&matcher, 1, 6), &posted[4]);
    assert_null(match_take_posted(&matcher, 1, 6));
    assert_ptr_equal(match_take_posted(&matcher, 1, 5), &posted[0]);
    assert_null(match_take_posted(&matcher, 1, 5));
    assert_null(match_take_posted(&matcher, 0, 6));
    assert_ptr_equal(match_take_posted(&matcher, 2, 6), &posted[5]);
    match_release(&matcher);
}

static void a_queue_survives_taking_from_its_ends_and_its_middle(void **state)
{
    (void)state;
    for (int gone = 0; gone < 3; gone++) {
        struct matcher matcher = create(1000, 10);
        struct p2p_request posted[] = {receive(1, 0), receive(1, 1), receive(1, 2), receive(1, 3)};
        for (int i = 0; i < 3; i++) match_post(&matcher, &posted[i]);
        assert_ptr_equal(match_take_posted(&matcher, 1, gone), &posted[gone]);
        match_post(&matcher, &posted[3]);
        for (int i = 0; i < 4; i++) {
            struct p2p_request *const found = match_take_posted(&matcher, 1, i);
            assert_ptr_equal(found, i == gone ? NULL : &posted[i]);
        }
        match_release(&matcher);
    }
}

static void what_is_taken_back_gets_no_message(void **state)
{
    (void)state;
    for (int peer = TUTTI_ANY_RANK; peer <= 1; peer += 1 - TUTTI_ANY_RANK)
        for (int gone = 0; gone < 3; gone++) {
            struct matcher matcher = create(1000, 10);
            struct p2p_request posted[] = {receive(peer, 4), receive(peer, 4), receive(peer, 4)};
            for (int i = 0; i < 3; i++) match_post(&matcher, &posted[i]);
            assert_true(match_take_back(&matcher, &posted[gone]));
            assert_false(match_take_back(&matcher, &posted[gone]));
            match_post(&matcher, &posted[gone]); /* now the last one */
            for (int i = 0; i < 3; i++)
                if (i != gone) assert_ptr_equal(match_take_posted(&matcher, 1, 4), &posted[i]);
            assert_ptr_equal(match_take_posted(&matcher, 1, 4), &posted[gone]);
            assert_null(match_take_posted(&matcher, 1, 4));
            match_release(&matcher);
        }
}

static void the_oldest_arrival_that_fits_is_received(void **state)
{
    (void)state;
    static const struct {
        int source, tag;
    } order[] = {{1, 5}, {2, 5}, {1, 6}, {1, 5}, {2, 7}};
    struct matcher matcher = create(1000, 10);
    struct arrival *arrivals[5];
    for (int i = 0; i < 5; i++)
        assert_non_null(arrivals[i] =
                            match_add_arrival(&matcher, order[i].source, order[i].tag, 10));
    static const struct {
        int source, tag, expected;
    } takes[] = {{TUTTI_ANY_RANK, 7, 4},  {1, 6, 2},  {1, 7, -1},
                 {TUTTI_ANY_RANK, 5, 0},  {1, -1, 3}, {TUTTI_ANY_RANK, -1, 1},
                 {TUTTI_ANY_RANK, -1, -1}};
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++) {
        struct arrival *const taken = match_take_arrival(&matcher, takes[i].source, takes[i].tag);
        assert_ptr_equal(taken, takes[i].expected < 0 ? NULL : arrivals[takes[i].expected]);
        if (taken != NULL) match_free_arrival(&matcher, taken);
    }
    assert_int_equal(matcher.count, 0);
    assert_int_equal(matcher.bytes, 0);
    match_release(&matcher);
}

static void what_waits_is_bounded(void **state)
{
    (void)state;
    struct matcher matcher = create(100, 3);
    assert_null(match_add_arrival(&matcher, 0, 0, 101));
    assert_null(match_add_arrival(&matcher, 0, 0, SIZE_MAX));
    assert_non_null(match_add_arrival(&matcher, 0, 1, 60));
    assert_null(match_add_arrival(&matcher, 1, 2, 41));
    assert_non_null(match_add_arrival(&matcher, 1, 3, 40));
    assert_non_null(match_add_arrival(&matcher, 2, 4, 0));
    assert_null(match_add_arrival(&matcher, 2, 5, 0)); /* three is enough */
    match_free_arrival(&matcher, match_take_arrival(&matcher, 1, 3));
    assert_null(match_add_arrival(&matcher, 2, 6, 41));
    assert_non_null(match_add_arrival(&matcher, 2, 6, 40));
    match_release(&matcher);
}

static void memory_is_used_again(void **state)
{
    (void)state;
    struct matcher matcher = create(SIZE_MAX, 1000);
    struct arrival *const first = match_add_arrival(&matcher, 0, 0, 5000);
    assert_non_null(first);
    memset(first->payload, 1, 5000);
    match_free_arrival(&matcher, match_take_arrival(&matcher, 0, 0));
    assert_true(matcher.spare_bytes >= 5000);
    assert_ptr_equal(match_add_arrival(&matcher, 1, 1, 5100), first); /* of the same class */
    assert_int_equal(matcher.spare_bytes, 0);
    /* but not more is kept than was agreed */
    for (int i = 0; i < 4; i++) assert_non_null(match_add_arrival(&matcher, 2, i, 600000));
    for (int i = 0; i < 4; i++) match_free_arrival(&matcher, match_take_arrival(&matcher, 2, i));
    assert_true(matcher.spare_bytes <= matcher.spare_bytes_max);
    match_release(&matcher);
}

static void many_in_order_are_matched_from_the_front(void **state)
{
    (void)state;
    static struct p2p_request posted[RECEIVES];
    struct matcher matcher = create(SIZE_MAX, RECEIVES);
    for (int i = 0; i < RECEIVES; i++) {
        posted[i] = receive(i % 4 == 3 ? TUTTI_ANY_RANK : 1, i);
        match_post(&matcher, &posted[i]);
    }
    for (int i = 0; i < RECEIVES; i++)
        assert_ptr_equal(match_take_posted(&matcher, 1, i), &posted[i]);
    for (int i = 0; i < RECEIVES; i++)
        assert_non_null(match_add_arrival(&matcher, i % SOURCES, i, 8));
    for (int i = 0; i < RECEIVES; i++) {
        struct arrival *const arrival =
            match_take_arrival(&matcher, i % 2 == 0 ? i % SOURCES : TUTTI_ANY_RANK, i);
        assert_non_null(arrival);
        assert_int_equal(arrival->tag, i);
        match_free_arrival(&matcher, arrival);
    }
    match_release(&matcher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_receive_posted_first_gets_the_message),
        cmocka_unit_test(a_queue_survives_taking_from_its_ends_and_its_middle),
        cmocka_unit_test(what_is_taken_back_gets_no_message),
        cmocka_unit_test(the_oldest_arrival_that_fits_is_received),
        cmocka_unit_test(what_waits_is_bounded),
        cmocka_unit_test(memory_is_used_again),
        cmocka_unit_test(many_in_order_are_matched_from_the_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
