#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/pmi1.h"
#include "os/clock.h"

#define INIT "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
#define MAXES "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"
#define SPACE "cmd=my_kvsname kvsname=kvs_7\n"
#define HELLO INIT MAXES SPACE

/* The manager says everything at once, before it is asked: the order of answers is all that the
 * client counts on. */
struct manager {
    int ours, clients;
};

static struct manager manager_that_says(const char *answers)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(write(ends[0], answers, strlen(answers)), (ssize_t)strlen(answers));
    return (struct manager){ends[0], ends[1]};
}

static void manager_end(struct manager *manager)
{
    close(manager->ours);
    close(manager->clients);
}

static uint64_t soon(void)
{
    return clock_now_ns() + 50000000;
}

static uint64_t later(void)
{
    return clock_now_ns() + 20000000000u;
}

static void expect_message(const char *word)
{
    if (strstr(tutti_error_message(), word) == NULL)
        fail_msg("\"%s\" does not say %s", tutti_error_message(), word);
}

static void words_are_taken_apart(void **state)
{
    (void)state;
    const char *line = "  cmd=get_result rc=0  value=a=b c=";
    size_t bytes = strlen(line);
    static const char *const expected[][2] = {
        {"cmd", "get_result"}, {"rc", "0"}, {"value", "a=b"}, {"c", ""}};
    struct pmi1_word word;
    for (int i = 0; i < 4; i++) {
        assert_true(pmi1_next_word(&line, &bytes, &word));
        assert_int_equal(word.name_bytes, strlen(expected[i][0]));
        assert_memory_equal(word.name, expected[i][0], word.name_bytes);
        assert_int_equal(word.value_bytes, strlen(expected[i][1]));
        assert_memory_equal(word.value, expected[i][1], word.value_bytes);
    }
    assert_false(pmi1_next_word(&line, &bytes, &word));
    assert_int_equal(bytes, 0);
}

static void what_is_no_word_ends_the_line(void **state)
{
    (void)state;
    static const char *const lines[] = {"x",          "=1",    "a b=1", "a=\x01",
                                        "a=\xff z=1", "a\t=1", "a=\t"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *line = lines[i];
        size_t bytes = strlen(line);
        struct pmi1_word word;
        assert_false(pmi1_next_word(&line, &bytes, &word));
        assert_true(bytes > 0);
        assert_false(pmi1_find(lines[i], strlen(lines[i]), "z", &word));
    }
    const char *line = "ab=12 cd=34";
    struct pmi1_word word;
    assert_false(pmi1_find(line, 11, "a", &word));
    assert_false(pmi1_find(line, 8, "cd", &word)); /* cut within the name */
    assert_true(pmi1_find(line, 10, "cd", &word));
    assert_int_equal(word.value_bytes, 1);
}

static void a_dialogue_goes_as_the_protocol_says(void **state)
{
    (void)state;
    struct manager manager = manager_that_says(HELLO "cmd=put_result rc=0 msg=success\n"
                                                     "cmd=barrier_out rc=0\n"
                                                     "cmd=get_result rc=0 msg=success value=abc\n"
                                                     "cmd=finalize_ack\n");
    struct pmi1 client;
    char value[16];
    assert_int_equal(pmi1_open(&client, manager.clients, later()), TUTTI_OK);
    assert_int_equal(client.key_bytes_max, 64);
    assert_int_equal(client.value_bytes_max, 1024);
    assert_int_equal(pmi1_put(&client, "k", "v", later()), TUTTI_OK);
    assert_int_equal(pmi1_fence(&client, later()), TUTTI_OK);
    assert_int_equal(pmi1_get(&client, "k2", value, sizeof value, later()), TUTTI_OK);
    assert_string_equal(value, "abc");
    assert_int_equal(pmi1_close(&client, later()), TUTTI_OK);
    char said[600];
    const ssize_t bytes = read(manager.ours, said, sizeof said - 1);
    assert_true(bytes > 0);
    said[bytes] = '\0';
    assert_string_equal(said, "cmd=init pmi_version=1 pmi_subversion=1\n"
                              "cmd=get_maxes\n"
                              "cmd=get_my_kvsname\n"
                              "cmd=put kvsname=kvs_7 key=k value=v\n"
                              "cmd=barrier_in\n"
                              "cmd=get kvsname=kvs_7 key=k2\n"
                              "cmd=finalize\n");
    assert_int_equal(pmi1_put(&client, "k", "v", later()), TUTTI_PROC_FAILED);
    manager_end(&manager);
}

static void answers_may_come_in_any_pieces(void **state)
{
    (void)state;
    static const char answers[] = HELLO "cmd=barrier_out\n";
    for (size_t piece = 1; piece < 12; piece += 5) {
        struct manager manager = manager_that_says("");
        fflush(NULL);
        const pid_t pid = fork();
        if (pid == 0) {
            for (size_t at = 0; at < sizeof answers - 1; at += piece) {
                const size_t left = sizeof answers - 1 - at;
                if (write(manager.ours, answers + at, left < piece ? left : piece) < 0) _exit(1);
                nanosleep(&(struct timespec){0, 200000}, NULL);
            }
            _exit(0);
        }
        struct pmi1 client;
        assert_int_equal(pmi1_open(&client, manager.clients, later()), TUTTI_OK);
        assert_int_equal(pmi1_fence(&client, later()), TUTTI_OK);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        manager_end(&manager);
    }
}

static void hellos_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *answers;
        enum tutti_status status;
        const char *word;
    } cases[] = {
        {"hello\n", TUTTI_AUTH_FAILED, "init"},
        {"\n", TUTTI_AUTH_FAILED, "init"},
        {"cmd=maxes\n", TUTTI_AUTH_FAILED, "cmd=maxes"},
        {"\x01\x02 cmd=response_to_init\n", TUTTI_AUTH_FAILED, "init"},
        {"cmd=response_to_init pmi_version=1 rc=-1 msg=sorry\n", TUTTI_UNSUPPORTED, "sorry"},
        {"cmd=response_to_init pmi_version=1 rc=zero\n", TUTTI_UNSUPPORTED, "rc=zero"},
        {"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n", TUTTI_UNSUPPORTED,
         "version 1"},
        {"cmd=response_to_init rc=0\n", TUTTI_UNSUPPORTED, "version 1"},
        {INIT "cmd=maxes\n", TUTTI_AUTH_FAILED, "kvsname_max"},
        {INIT "cmd=maxes kvsname_max=256 keylen_max=2 vallen_max=64\n", TUTTI_AUTH_FAILED,
         "keylen_max"},
        {INIT "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=99999999999\n", TUTTI_AUTH_FAILED,
         "vallen_max"},
        {INIT "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=-5\n", TUTTI_AUTH_FAILED,
         "vallen_max"},
        {INIT MAXES "cmd=my_kvsname\n", TUTTI_AUTH_FAILED, "kvsname"},
        {INIT MAXES "cmd=my_kvsname kvsname=\n", TUTTI_AUTH_FAILED, "kvsname"},
        {INIT MAXES "cmd=my_kvsname rc=1\n", TUTTI_UNSUPPORTED, "get_my_kvsname"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct manager manager = manager_that_says(cases[i].answers);
        struct pmi1 client;
        const enum tutti_status status = pmi1_open(&client, manager.clients, later());
        if (status != cases[i].status)
            fail_msg("case %zu: %s: %s", i, tutti_status_name(status), tutti_error_message());
        expect_message(cases[i].word);
        assert_int_equal(pmi1_fence(&client, later()), TUTTI_PROC_FAILED); /* at once */
        manager_end(&manager);
    }
}

static void lines_without_end_and_names_that_are_too_long_are_refused(void **state)
{
    (void)state;
    char answer[3000];
    memset(answer, 'x', sizeof answer);
    answer[sizeof answer - 1] = '\0';
    struct manager manager = manager_that_says(answer);
    struct pmi1 client;
    assert_int_equal(pmi1_open(&client, manager.clients, later()), TUTTI_AUTH_FAILED);
    expect_message("no end");
    manager_end(&manager);

    snprintf(answer, sizeof answer, INIT MAXES "cmd=my_kvsname kvsname=%0*d\n", PMI1_NAME_BYTES_MAX,
             0);
    manager = manager_that_says(answer);
    assert_int_equal(pmi1_open(&client, manager.clients, later()), TUTTI_AUTH_FAILED);
    expect_message("kvsname");
    manager_end(&manager);
}

static void a_silent_manager_ends_at_the_deadline(void **state)
{
    (void)state;
    struct manager manager = manager_that_says(HELLO);
    struct pmi1 client;
    assert_int_equal(pmi1_open(&client, manager.clients, later()), TUTTI_OK);
    assert_int_equal(pmi1_fence(&client, soon()), TUTTI_INIT_TIMEOUT);
    expect_message("barrier_in");
    /* Its answer may still come and would be taken for another one. */
    assert_int_equal(write(manager.ours, "cmd=barrier_out\n", 16), 16);
    assert_int_equal(pmi1_fence(&client, later()), TUTTI_PROC_FAILED);
    manager_end(&manager);
}

static void a_manager_that_does_not_read_ends_at_the_deadline(void **state)
{
    (void)state;
    struct manager manager = manager_that_says(HELLO);
    struct pmi1 client;
    assert_int_equal(pmi1_open(&client, manager.clients, later()), TUTTI_OK);
    char much[4096];
    memset(much, 'x', sizeof much);
    while (send(manager.clients, much, sizeof much, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    assert_int_equal(pmi1_put(&client, "k", "v", soon()), TUTTI_INIT_TIMEOUT);
    expect_message("put");
    manager_end(&manager);
}

static void a_dead_manager_is_noticed(void **state)
{
    (void)state;
    struct manager manager = manager_that_says(HELLO);
    struct pmi1 client;
    assert_int_equal(pmi1_open(&client, manager.clients, later()), TUTTI_OK);
    close(manager.ours);
    assert_int_equal(pmi1_fence(&client, later()), TUTTI_PROC_FAILED);
    expect_message("closed");
    close(manager.clients);
}

static void what_is_no_socket_is_said_to_be_none(void **state)
{
    (void)state;
    struct pmi1 client;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pmi1_open(&client, ends[0], later()), TUTTI_UNSUPPORTED);
    expect_message("PMI_FD");
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(pmi1_open(&client, ends[0], later()), TUTTI_UNSUPPORTED);
    assert_int_equal(pmi1_put(&client, "k", "v", later()), TUTTI_INVALID_OPTIONS);
}

static void keys_and_values_are_words_of_bounded_length(void **state)
{
    (void)state;
    struct manager manager = manager_that_says(HELLO "cmd=put_result rc=0\ncmd=put_result rc=-1 "
                                                     "msg=duplicate_key\n");
    struct pmi1 client;
    assert_int_equal(pmi1_open(&client, manager.clients, later()), TUTTI_OK);
    static const char *const keys[] = {
        "", "a b", "a=b", "a\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_int_equal(pmi1_put(&client, keys[i], "v", later()), TUTTI_INVALID_OPTIONS);
    assert_int_equal(pmi1_put(&client, "k", "", later()), TUTTI_INVALID_OPTIONS);
    assert_int_equal(pmi1_put(&client, "k", "a b", later()), TUTTI_INVALID_OPTIONS);
    char value[2000];
    memset(value, 'v', sizeof value);
    const size_t room = pmi1_value_room(&client, 1);
    assert_in_range(room, 800, 1000);
    value[room + 1] = '\0';
    assert_int_equal(pmi1_put(&client, "k", value, later()), TUTTI_INVALID_OPTIONS);
    value[room] = '\0';
    assert_int_equal(pmi1_put(&client, "k", value, later()), TUTTI_OK);
    assert_int_equal(pmi1_put(&client, "k", value, later()), TUTTI_UNSUPPORTED);
    expect_message("duplicate_key");
    manager_end(&manager);
}

static void values_that_are_missing_or_too_long_are_refused(void **state)
{
    (void)state;
    struct manager manager = manager_that_says(HELLO "cmd=get_result rc=-1 msg=no_such_key\n"
                                                     "cmd=get_result rc=0\n"
                                                     "cmd=get_result rc=0 value=12345678\n"
                                                     "cmd=get_result rc=0 value=1234567\n");
    struct pmi1 client;
    char value[8];
    assert_int_equal(pmi1_open(&client, manager.clients, later()), TUTTI_OK);
    assert_int_equal(pmi1_get(&client, "k", value, sizeof value, later()), TUTTI_UNSUPPORTED);
    expect_message("no_such_key");
    assert_int_equal(pmi1_get(&client, "k", value, sizeof value, later()), TUTTI_AUTH_FAILED);
    assert_int_equal(pmi1_get(&client, "k", value, sizeof value, later()), TUTTI_INVALID_OPTIONS);
    assert_int_equal(pmi1_get(&client, "k", value, sizeof value, later()), TUTTI_OK);
    assert_string_equal(value, "1234567");
    manager_end(&manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_taken_apart),
        cmocka_unit_test(what_is_no_word_ends_the_line),
        cmocka_unit_test(a_dialogue_goes_as_the_protocol_says),
        cmocka_unit_test(answers_may_come_in_any_pieces),
        cmocka_unit_test(hellos_that_make_no_sense_are_refused),
        cmocka_unit_test(lines_without_end_and_names_that_are_too_long_are_refused),
        cmocka_unit_test(a_silent_manager_ends_at_the_deadline),
        cmocka_unit_test(a_manager_that_does_not_read_ends_at_the_deadline),
        cmocka_unit_test(a_dead_manager_is_noticed),
        cmocka_unit_test(what_is_no_socket_is_said_to_be_none),
        cmocka_unit_test(keys_and_values_are_words_of_bounded_length),
        cmocka_unit_test(values_that_are_missing_or_too_long_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
