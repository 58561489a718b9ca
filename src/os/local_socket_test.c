/* The last word of who closes: it is heard, whatever else is true of the connection.
 *
 * ctest: waits */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/local_socket.h"

static const uint64_t LONG_NS = 20000000000;

struct talk {
    int fd;
    char word[64];
    enum tutti_status status;
};

static void make_pair(int ends[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
}

static void *speak_and_close(void *argument)
{
    struct talk *talk = argument;
    talk->status = local_socket_send(talk->fd, talk->word, sizeof talk->word, NULL, 0,
                                     clock_now_ns() + LONG_NS);
    close(talk->fd);
    return NULL;
}

static enum tutti_status hear(int fd, char word[64], uint64_t deadline_ns)
{
    int nothing = -1, count = 0;
    return local_socket_receive(fd, word, 64, &nothing, 0, &count, deadline_ns);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MOMENTS = 1000 }; /* too few to meet the moment often: the code runs under them */
#else
enum { MOMENTS = 8000 };
#endif

/* In one of 3000 such moments the kernel reports the end of the connection although a message is
 * still there. */
static void a_word_sent_while_listening_is_heard(void **state)
{
    (void)state;
    for (int round = 0; round < MOMENTS; round++) {
        int ends[2];
        make_pair(ends);
        struct talk talk = {.fd = ends[0], .word = "the last word"};
        char word[64];
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, speak_and_close, &talk), 0);
        enum tutti_status status;
        const uint64_t until_ns = clock_now_ns() + LONG_NS;
        do status = hear(ends[1], word, 0);
        while (status == TUTTI_IN_PROGRESS && clock_now_ns() < until_ns);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(talk.status, TUTTI_OK);
        assert_int_equal(status, TUTTI_OK);
        assert_string_equal(word, talk.word);
        assert_int_equal(hear(ends[1], word, 0), TUTTI_PROC_FAILED);
        close(ends[1]);
    }
}

static void a_word_before_a_reset_is_heard(void **state)
{
    (void)state;
    int ends[2];
    make_pair(ends);
    struct talk talk = {.fd = ends[0], .word = "the last word"};
    char word[64] = "never read";
    assert_int_equal(local_socket_send(ends[1], word, sizeof word, NULL, 0, 0), TUTTI_OK);
    speak_and_close(&talk);
    assert_int_equal(talk.status, TUTTI_OK);
    assert_int_equal(hear(ends[1], word, clock_now_ns() + LONG_NS), TUTTI_OK);
    assert_string_equal(word, talk.word);
    assert_int_equal(hear(ends[1], word, clock_now_ns() + LONG_NS), TUTTI_PROC_FAILED);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_sent_while_listening_is_heard),
        cmocka_unit_test(a_word_before_a_reset_is_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
