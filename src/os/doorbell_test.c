/* Doorbells that are rung, hushed, and rung by those who have rung too much. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/doorbell.h"

enum { MANY = 2000 }; /* more than the kernel keeps of one socket's */
static const uint64_t LONG_NS = 20000000000;

struct door {
    uint64_t number;
    int fd;
};

static struct door open_door(void)
{
    struct door door;
    assert_int_equal(doorbell_open(&door.number, &door.fd), TUTTI_OK);
    return door;
}

static bool is_ringing(const struct door *door)
{
    struct pollfd entry = {.fd = door->fd, .events = POLLIN};
    return poll(&entry, 1, 0) == 1;
}

static void a_bell_rings_until_it_is_hushed(void **state)
{
    (void)state;
    struct door one = open_door(), other = open_door();
    assert_true(one.number != other.number);
    for (int round = 0; round < 4; round++) {
        const int from = round % 2 == 0 ? other.fd : -1;
        assert_false(is_ringing(&one));
        for (int i = 0; i <= round; i++) assert_true(doorbell_ring(from, one.number));
        assert_true(is_ringing(&one));
        assert_false(is_ringing(&other));
        const uint64_t begin_ns = clock_now_ns();
        doorbell_wait(one.fd, LONG_NS);
        assert_true(clock_now_ns() - begin_ns < LONG_NS / 2);
        assert_true(is_ringing(&one));
        doorbell_hush(one.fd);
    }
    assert_true(doorbell_ring(one.fd, one.number)); /* its own */
    assert_true(is_ringing(&one));
    close(one.fd);
    close(other.fd);
}

static void nobody_is_rung_where_nobody_is(void **state)
{
    (void)state;
    struct door gone = open_door(), here = open_door();
    close(gone.fd);
    assert_true(doorbell_ring(here.fd, gone.number));
    assert_true(doorbell_ring(-1, gone.number));
    assert_true(doorbell_ring(here.fd, 0));
    doorbell_hush(here.fd);
    assert_false(is_ringing(&here));
    close(here.fd);
}

/* Ranks that do not hush their doorbells do not keep any other doorbell from being rung. */
static void a_bell_rings_however_many_were_rung_before(void **state)
{
    (void)state;
    struct door ringer = open_door(), last = open_door(), deaf[40];
    enum { DEAF = sizeof deaf / sizeof *deaf };
    for (int d = 0; d < DEAF; d++) {
        deaf[d] = open_door();
        for (int i = 0; i < MANY / DEAF; i++) assert_true(doorbell_ring(ringer.fd, deaf[d].number));
        assert_true(is_ringing(&deaf[d]));
    }
    assert_true(doorbell_ring(ringer.fd, last.number));
    assert_true(is_ringing(&last));
    for (int d = 0; d < DEAF; d++) close(deaf[d].fd);
    close(ringer.fd);
    close(last.fd);
}

/* With as many descriptors as it may have, which are too few for another socket. */
static void who_cannot_ring_says_so(void **state)
{
    (void)state;
    struct door door = open_door();
    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const bool from_fresh = doorbell_ring(-1, door.number);
    const bool rang = recv(door.fd, &(char){0}, 1, MSG_DONTWAIT) >= 0;
    const bool from_own = doorbell_ring(door.fd, door.number);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_false(from_fresh || rang);
    assert_true(from_own && is_ringing(&door));
    close(door.fd);
}

static void many_rings_are_hushed_at_once(void **state)
{
    (void)state;
    struct door door = open_door();
    for (int i = 0; i < MANY; i++) assert_true(doorbell_ring(-1, door.number));
    assert_true(is_ringing(&door));
    doorbell_hush(door.fd);
    assert_false(is_ringing(&door));
    const uint64_t begin_ns = clock_now_ns();
    doorbell_wait(door.fd, 2000000);
    assert_true(clock_now_ns() - begin_ns >= 2000000);
    close(door.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bell_rings_until_it_is_hushed),
        cmocka_unit_test(nobody_is_rung_where_nobody_is),
        cmocka_unit_test(a_bell_rings_however_many_were_rung_before),
        cmocka_unit_test(who_cannot_ring_says_so),
        cmocka_unit_test(many_rings_are_hushed_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
