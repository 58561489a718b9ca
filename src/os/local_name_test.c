/* bootstrap/rendezvous_test.c tries what another user can do to names, where ranks meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/local_name.h"
#include "os/local_socket.h"

static void own_name(char name[64])
{
    snprintf(name, 64, "tutti-local-name-test-%d", (int)getpid());
}

static void who_listens_is_found(void **state)
{
    (void)state;
    struct local_name_look look;
    char name[64];
    int listener, fd, other;
    own_name(name);
    for (int searches = 0; searches < 2; searches++) {
        assert_int_equal(local_name_reach(name, searches != 0, &fd, &look), TUTTI_INIT_TIMEOUT);
        assert_int_equal(fd, -1);
        assert_false(look.is_taken || look.is_busy);
    }
    assert_int_equal(local_name_listen(name, &listener, &look), TUTTI_OK);
    assert_false(look.is_taken);
    assert_int_equal(local_name_listen(name, &other, &look), TUTTI_IN_PROGRESS);
    assert_int_equal(other, -1);
    assert_int_equal(local_name_reach(name, false, &fd, &look), TUTTI_OK);
    close(fd);
    close(listener);
}

/* As where somebody else has the name itself. */
static void who_listens_under_a_random_name_is_found_in_the_list(void **state)
{
    (void)state;
    struct local_name_look look;
    char name[64], longer[LOCAL_NAME_MAX];
    int listener, fd;
    own_name(name);
    snprintf(longer, sizeof longer, "%s-00ff00ff00ff00ff", name);
    assert_int_equal(local_socket_listen(longer, &listener), TUTTI_OK);
    assert_int_equal(local_name_reach(name, false, &fd, &look), TUTTI_INIT_TIMEOUT);
    assert_int_equal(local_name_reach(name, true, &fd, &look), TUTTI_OK);
    close(fd);
    close(listener);
    assert_int_equal(local_name_reach(name, true, &fd, &look), TUTTI_INIT_TIMEOUT);
}

static void lines_of_others_are_not_taken_for_it(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "Num       RefCount Protocol Flags    Type St Inode Path\n",
        "0: 02 00 00010000 0005 01 17 @tutti-1\n",                   /* the name itself */
        "0: 02 00 00010000 0005 01 17 @tutti-12-0123456789abcdef\n", /* another one's */
        "0: 02 00 00010000 0005 01 17 @tutti-1-0123456789abcde\n",   /* too short */
        "0: 02 00 00010000 0005 01 17 @tutti-1-0123456789abcdef0\n", /* too long */
        "0: 02 00 00010000 0005 01 17 @tutti-1-0123456789ABCDEF\n",  /* other digits */
        "0: 02 00 00010000 0005 01 17 @tutti-1-0123456789abcdef@\n", /* a zero behind it */
        "0: 02 00 00010000 0005 01 17 /tutti-1-0123456789abcdef\n",  /* a file */
        "0: 02 00 00000000 0005 03 17 @tutti-1-0123456789abcdef\n",  /* a connection */
        "0: 02 00 00010000 0001 01 17 @tutti-1-0123456789abcdef\n",  /* a stream */
        "@tutti-1-0123456789abcdef\n",
        " @tutti-1-0123456789abcdef\n",
        "",
    };
    char found[LOCAL_NAME_MAX];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (local_name_in_line(lines[i], "tutti-1", found)) fail_msg("line %zu", i);
    assert_true(local_name_in_line("ff00: 02 00 00010000 0005 01 17 @tutti-1-0123456789abcdef\n",
                                   "tutti-1", found));
    assert_string_equal(found, "tutti-1-0123456789abcdef");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_listens_is_found),
        cmocka_unit_test(who_listens_under_a_random_name_is_found_in_the_list),
        cmocka_unit_test(lines_of_others_are_not_taken_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
