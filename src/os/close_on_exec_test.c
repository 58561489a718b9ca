/* Descriptors that a library has opened close when another program is executed, and those of others
 * stay open.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/close_on_exec.h"

static bool closes(int descriptor)
{
    const int flags = fcntl(descriptor, F_GETFD);
    assert_true(flags >= 0);
    return (flags & FD_CLOEXEC) != 0;
}

static void watch(int epoll, int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN};
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event), 0);
}

static void pair_up(int ends[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

/* As libfabric's tcp;ofi_rxm does it. */
static void what_a_library_opens_closes_and_nothing_else(void **state)
{
    (void)state;
    int own[2], wake_up[2], pipes[2];
    struct close_on_exec since;
    pair_up(own);
    close_on_exec_begin(&since);
    const int queue = epoll_create1(0), connections = epoll_create1(0),
              listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(pipe(pipes), 0); /* another thread does, for a program that it starts */
    pair_up(wake_up);
    watch(connections, listener);
    watch(queue, connections);
    watch(queue, wake_up[0]);
    close_on_exec_end(&since, queue);
    assert_true(closes(queue) && closes(connections) && closes(listener));
    assert_true(closes(wake_up[0]) && closes(wake_up[1]));
    assert_false(closes(own[0]) || closes(own[1]));
    assert_false(closes(pipes[0]) || closes(pipes[1]));

    const int connection = socket(AF_INET, SOCK_STREAM, 0), other = socket(AF_INET, SOCK_STREAM, 0);
    watch(connections, connection);
    close_on_exec_watched(queue);
    assert_true(closes(connection));
    assert_false(closes(other));
    const int all[] = {own[0], own[1],      wake_up[0], wake_up[1], pipes[0], pipes[1],
                       queue,  connections, listener,   connection, other};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) close(all[i]);
}

static void a_library_without_a_descriptor_to_wait_at_is_fine(void **state)
{
    (void)state;
    int wake_up[2];
    struct close_on_exec since;
    close_on_exec_begin(&since);
    pair_up(wake_up);
    close_on_exec_end(&since, -1);
    assert_true(closes(wake_up[0]) && closes(wake_up[1]));
    close(wake_up[0]);
    close(wake_up[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_library_opens_closes_and_nothing_else),
        cmocka_unit_test(a_library_without_a_descriptor_to_wait_at_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
