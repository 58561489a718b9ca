/* ctest: waits */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/local_socket.h"
#include "process/monitor.h"
#include "tests/kit/metrics_file.h"
#include "tests/worlds/ranks.h"

static const uint64_t SECOND = 1000000000u;
static _Atomic int looks, dumps;

static void describe(struct monitor_client *client, FILE *file)
{
    (void)client;
    fputs("I am here", file);
}

static void look(struct monitor_client *client)
{
    (void)client;
    atomic_fetch_add(&looks, 1);
}

static void dump(struct monitor_client *client)
{
    (void)client;
    atomic_fetch_add(&dumps, 1);
}

static const _Atomic uint64_t held_ns[2] = {2500000000u, 0};

static void measure(struct monitor_client *client, struct metrics_counts *sum,
                    struct metrics_communicator *own)
{
    (void)client;
    sum->calls[COLLECTIVE_BARRIER] += 3;
    sum->bytes[METRICS_SEND] += 100;
    *own = (struct metrics_communicator){"cafe", 1, 2, 17, true, 1.25, held_ns};
}

static struct monitor_client client_here(void)
{
    return (struct monitor_client){
        .describe = describe, .look = look, .dump = dump, .measure = measure};
}

static int clear_environment(void **state)
{
    (void)state;
    unsetenv("TUTTI_TRACE_SIGNAL");
    unsetenv("TUTTI_METRICS_DIR");
    unsetenv("TUTTI_METRICS_INTERVAL");
    atomic_store(&looks, 0);
    atomic_store(&dumps, 0);
    return 0;
}

static bool becomes(_Atomic int *value, int wanted)
{
    const uint64_t begin_ns = clock_now_ns();
    while (atomic_load(value) != wanted && clock_now_ns() - begin_ns < 5 * SECOND)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return atomic_load(value) == wanted;
}

static int threads; /* without a monitor's */

static int thread_count(void)
{
    char line[128];
    int count = -1;
    FILE *file = fopen("/proc/self/status", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Threads: %d", &count) == 1) break;
    fclose(file);
    return count;
}

/* The kernel still counts a thread for a moment after others know that it has ended. */
static bool has_threads(int count)
{
    for (int i = 0; i < 5000 && thread_count() != count; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return thread_count() == count;
}

static void *own_id(void *id)
{
    *(long *)id = syscall(SYS_gettid);
    return NULL;
}

/* After a first thread, since the first may bring a thread of ThreadSanitizer's with it that
 * stays. */
static int threads_without_others(void)
{
    char name[64];
    pthread_t thread;
    long id;
    assert_int_equal(pthread_create(&thread, NULL, own_id, &id), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    snprintf(name, sizeof name, "/proc/self/task/%ld", id);
    for (int i = 0; i < 5000 && access(name, F_OK) == 0; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return thread_count();
}

/* Connected to this process's monitor; or -1. */
static int connect_to_monitor(void)
{
    char name[MONITOR_NAME_SIZE];
    int fd;
    monitor_name(getpid(), 0, name);
    return local_socket_connect(name, 0, &fd) == TUTTI_OK ? fd : -1;
}

static void ask(int fd, const char *what)
{
    struct monitor_request request = {""};
    memcpy(request.what, what, strlen(what));
    assert_int_equal(
        local_socket_send(fd, &request, sizeof request, NULL, 0, clock_now_ns() + SECOND), TUTTI_OK);
}

/* The answers that come until the other side closes; the first one is kept. */
static int hear(int fd, char *first, size_t size)
{
    int count = 0;
    for (;; count++) {
        char text[64] = "";
        struct pollfd entry = {fd, POLLIN, 0};
        assert_int_equal(poll(&entry, 1, 5000), 1);
        if (recv(fd, text, sizeof text - 1, 0) <= 0) return count;
        if (count == 0) snprintf(first, size, "%s", text);
    }
}

static void every_client_is_described(void **state)
{
    (void)state;
    struct monitor_client clients[2] = {client_here(), client_here()};
    char first[64];
    assert_int_equal(connect_to_monitor(), -1);
    monitor_register(&clients[0]);
    monitor_register(&clients[1]);
    const int fd = connect_to_monitor();
    assert_true(fd >= 0);
    ask(fd, "query");
    assert_int_equal(hear(fd, first, sizeof first), 2);
    assert_string_equal(first, "I am here");
    close(fd);
    monitor_unregister(&clients[0]);
    monitor_unregister(&clients[0]); /* once more does nothing */
    monitor_unregister(&clients[1]);
}

static size_t long_bytes;

/* Lines of digits that repeat after 80 bytes, which is no part's size: a part that is left out is
 * missed. */
static void describe_at_length(struct monitor_client *client, FILE *file)
{
    (void)client;
    for (size_t at = 0; at < long_bytes; at++)
        fputc(at % 8 == 7 ? '\n' : (int)('0' + at / 8 % 10), file);
}

/* Hears an answer of several messages: all the text that comes, and how many messages it was. */
static size_t hear_at_length(int fd, char *text, size_t size, int *messages)
{
    size_t heard = 0;
    for (*messages = 0;; ++*messages) {
        struct pollfd entry = {fd, POLLIN, 0};
        assert_int_equal(poll(&entry, 1, 5000), 1);
        const ssize_t bytes = recv(fd, text + heard, size - heard, MSG_TRUNC);
        if (bytes <= 0) return heard;
        assert_true(bytes <= MONITOR_MESSAGE_BYTES_MAX);
        heard += (size_t)bytes;
        assert_true(heard < size);
    }
}

static void answers_of_any_length_arrive_whole(void **state)
{
    (void)state;
    enum { PART = MONITOR_MESSAGE_BYTES_MAX, MOST = 40 * PART };
    static const size_t lengths[] = {1, PART - 1, PART, PART + 1, 2 * PART, 39 * PART + 12345};
    char *const text = malloc(MOST);
    assert_non_null(text);
    struct monitor_client client = client_here();
    client.describe = describe_at_length;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int messages;
        long_bytes = lengths[i];
        monitor_register(&client);
        const int fd = connect_to_monitor();
        assert_true(fd >= 0);
        ask(fd, "query");
        const size_t heard = hear_at_length(fd, text, MOST, &messages);
        assert_int_equal(messages, long_bytes / PART + 1);
        assert_int_equal(heard, long_bytes + (long_bytes % PART == 0));
        for (size_t at = 0; at < long_bytes; at++)
            if (text[at] != (at % 8 == 7 ? '\n' : (char)('0' + at / 8 % 10)))
                fail_msg("%zu bytes: another one at %zu", long_bytes, at);
        close(fd);
        monitor_unregister(&client);
    }
    free(text);
}

static void it_is_gone_with_the_last_client_and_comes_back(void **state)
{
    (void)state;
    const int next_fd = dup(0);
    close(next_fd);
    for (int turn = 0; turn < 20; turn++) {
        struct monitor_client client = client_here();
        monitor_register(&client);
        assert_true(has_threads(threads + 1));
        monitor_unregister(&client);
        assert_true(has_threads(threads));
        assert_int_equal(connect_to_monitor(), -1);
        const int fd = dup(0);
        assert_int_equal(fd, next_fd); /* no descriptor is left */
        close(fd);
    }
}

static void who_says_nothing_or_nonsense_holds_up_nobody(void **state)
{
    (void)state;
    struct monitor_client client = client_here();
    char first[64];
    int silent[3];
    monitor_register(&client);
    for (int i = 0; i < 3; i++) silent[i] = connect_to_monitor();
    const int nonsense = connect_to_monitor(), good = connect_to_monitor();
    assert_int_equal(send(nonsense, "GET / HTTP/1.0", 14, MSG_NOSIGNAL), 14);
    ask(good, "query");
    const uint64_t begin_ns = clock_now_ns();
    assert_int_equal(hear(good, first, sizeof first), 1);
    assert_true(clock_now_ns() - begin_ns < 3 * SECOND);
    for (int i = 0; i < 3; i++) close(silent[i]);
    close(nonsense);
    close(good);
    monitor_unregister(&client);
}

static uint64_t own_processor_ns(void)
{
    struct timespec used;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    return (uint64_t)used.tv_sec * SECOND + (uint64_t)used.tv_nsec;
}

/* A connection for which there is no descriptor stays in the queue: a thread that polls for it
 * again and again burns a processor. */
static void without_descriptors_it_rests_and_still_hears_the_others(void **state)
{
    (void)state;
    struct monitor_client client = client_here();
    char name[MONITOR_NAME_SIZE], first[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct rlimit before, none;
    monitor_register(&client);
    monitor_name(getpid(), 0, name);
    memcpy(address.sun_path + 1, name, strlen(name));
    const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 3; /* those that are open stay so */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int connected = connect(fd, (struct sockaddr *)&address, bytes);
    const uint64_t used_ns = own_processor_ns();
    nanosleep(&(struct timespec){1, 0}, NULL);
    const uint64_t burnt_ns = own_processor_ns() - used_ns;
    monitor_look();
    const bool looked = becomes(&looks, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(connected, 0);
    printf("in one second without descriptors: %llu us of a processor\n",
           (unsigned long long)burnt_ns / 1000);
    assert_true(burnt_ns < SECOND / 20);
    assert_true(looked);
    ask(fd, "query"); /* there are descriptors again: it is answered */
    assert_int_equal(hear(fd, first, sizeof first), 1);
    close(fd);
    monitor_unregister(&client);
}

static void others_can_make_it_look(void **state)
{
    (void)state;
    struct monitor_client client = client_here();
    monitor_register(&client);
    monitor_look();
    assert_true(becomes(&looks, 1));
    monitor_look_at(getpid());
    assert_true(becomes(&looks, 2));
    assert_int_equal(atomic_load(&dumps), 0);
    monitor_unregister(&client);
    monitor_look(); /* nobody is there */
    monitor_look_at(getpid());
}

static void a_signal_makes_it_dump(void **state)
{
    (void)state;
    struct monitor_client client = client_here();
    setenv("TUTTI_TRACE_SIGNAL", "SIGUSR2", 1);
    assert_int_equal(monitor_check_options(), TUTTI_OK);
    monitor_register(&client);
    raise(SIGUSR2);
    assert_true(becomes(&dumps, 1));
    monitor_unregister(&client);
    struct sigaction left;
    assert_int_equal(sigaction(SIGUSR2, NULL, &left), 0);
    assert_true(left.sa_handler == SIG_DFL);
}

static _Atomic int application_signals;

static void handle(int number)
{
    (void)number;
    atomic_fetch_add(&application_signals, 1);
}

static void the_applications_handler_stays(void **state)
{
    (void)state;
    struct monitor_client client = client_here();
    setenv("TUTTI_TRACE_SIGNAL", "USR2", 1);
    setenv("TUTTI_LOG", "off", 0);
    signal(SIGUSR2, handle);
    monitor_register(&client);
    raise(SIGUSR2);
    assert_int_equal(atomic_load(&application_signals), 1);
    monitor_unregister(&client);
    raise(SIGUSR2);
    assert_int_equal(atomic_load(&application_signals), 2);
    assert_int_equal(atomic_load(&dumps), 0);
    signal(SIGUSR2, SIG_DFL);
}

static void nonsense_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const signals[] = {"KILL", "9",  "SEGV", "11", "usr2",
                                          "0",    "-3", "10x",  "999"};
    static const char *const intervals[] = {"0", "-1", "x", "1.5", "86401", "10s"};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        setenv("TUTTI_TRACE_SIGNAL", signals[i], 1);
        assert_int_equal(monitor_check_options(), TUTTI_INVALID_OPTIONS);
        assert_non_null(strstr(tutti_error_message(), "TUTTI_TRACE_SIGNAL"));
    }
    unsetenv("TUTTI_TRACE_SIGNAL");
    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
        setenv("TUTTI_METRICS_INTERVAL", intervals[i], 1);
        assert_int_equal(monitor_check_options(), TUTTI_INVALID_OPTIONS);
        assert_non_null(strstr(tutti_error_message(), "TUTTI_METRICS_INTERVAL"));
    }
    setenv("TUTTI_METRICS_INTERVAL", "86400", 1);
    setenv("TUTTI_TRACE_SIGNAL", "12", 1);
    assert_int_equal(monitor_check_options(), TUTTI_OK);
}

/* The whole file, or "" while it is not there. */
static char *read_whole(const char *path)
{
    static char text[16384];
    FILE *file = fopen(path, "re");
    const size_t size = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    text[size] = '\0';
    if (file != NULL) fclose(file);
    return text;
}

static long barriers_in(const char *text)
{
    const char *line = strstr(text, "\ntutti_calls_total{collective=\"barrier\",process=\"");
    const char *value = line != NULL ? strstr(line, "\"} ") : NULL;
    return value != NULL ? strtol(value + 3, NULL, 10) : -1;
}

/* As its file tutti-X.prom does. */
static void name_process(const char *path, char *name, size_t size)
{
    const char *begin = strrchr(path, '/') + strlen("/tutti-");
    const char *end = strrchr(begin, '.');
    assert_non_null(end);
    snprintf(name, size, "%.*s", (int)(end - begin), begin);
}

static void numbers_are_written_again_and_again_and_never_shrink(void **state)
{
    (void)state;
    char folder[] = "/tmp/tutti-metrics-XXXXXX", path[256] = "";
    struct monitor_client clients[2] = {client_here(), client_here()};
    assert_non_null(mkdtemp(folder));
    setenv("TUTTI_METRICS_DIR", folder, 1);
    setenv("TUTTI_METRICS_INTERVAL", "1", 1);
    monitor_register(&clients[0]);
    monitor_register(&clients[1]);
    const uint64_t begin_ns = clock_now_ns();
    while ((metrics_file_find(folder, getpid(), path, sizeof path) == 0 ||
            strstr(read_whole(path), "\"} 2\n# HELP tutti_sequence ") == NULL) &&
           clock_now_ns() - begin_ns < 10 * SECOND)
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    const char *text = read_whole(path);
    assert_non_null(strstr(text, "# TYPE tutti_calls_total counter\n"));
    const long barriers = barriers_in(text); /* clients of other tests count, too */
    assert_true(barriers >= 6 && barriers % 3 == 0);
    char expected[512], process[256];
    name_process(path, process, sizeof process);
    snprintf(expected, sizeof expected,
             "\ntutti_bytes_total{collective=\"send\",process=\"%s\"} %ld\n", process,
             barriers / 3 * 100);
    assert_non_null(strstr(text, expected));
    assert_non_null(
        strstr(text, "\ntutti_sequence{communicator=\"cafe\",rank=\"1\",size=\"2\"} 17\n"));
    assert_non_null(
        strstr(text, "\ntutti_idle_seconds{communicator=\"cafe\",rank=\"1\",size=\"2\"} 1.250\n"));
    assert_non_null(strstr(
        text, "\ntutti_held_up_seconds_total{communicator=\"cafe\",rank=\"1\",by=\"0\"} 2.500\n"));
    monitor_unregister(&clients[0]);
    monitor_unregister(&clients[1]);
    text = read_whole(path); /* of what is gone the counts stay */
    assert_int_equal(barriers_in(text), barriers);
    snprintf(expected, sizeof expected, "\ntutti_communicators{process=\"%s\"} 0\n", process);
    assert_non_null(strstr(text, expected));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else lies there */
}

/* In a PID namespace of its own, as in a container. Returns 77 where there can be none. */
static int be_process_1(void)
{
    int fate;
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return 77;
    const pid_t child = fork();
    if (child < 0) return 77;
    if (child > 0)
        return waitpid(child, &fate, 0) == child && WIFEXITED(fate) ? WEXITSTATUS(fate) : 1;
    alarm(20);
    struct monitor_client own = client_here();
    monitor_register(&own);
    monitor_unregister(&own);
    _exit(getpid() != 1);
}

static void processes_of_the_same_pid_have_files_of_their_own(void **state)
{
    (void)state;
    enum { CONTAINERS = 3 };
    char folder[] = "/tmp/tutti-metrics-XXXXXX", path[256];
    if (ranks_are_threads()) skip(); /* no thread may start in a child under the thread sanitizer */
    assert_non_null(mkdtemp(folder));
    setenv("TUTTI_METRICS_DIR", folder, 1);
    int fate = 0;
    for (int i = 0; i < CONTAINERS && fate == 0; i++) {
        const pid_t child = fork();
        if (child == 0) _exit(be_process_1());
        assert_int_equal(waitpid(child, &fate, 0), child);
    }
    const size_t found = metrics_file_find(folder, 1, path, sizeof path);
    for (size_t left = found; left > 0; left = metrics_file_find(folder, 1, path, sizeof path))
        assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    if (WIFEXITED(fate) && WEXITSTATUS(fate) == 77) skip();
    assert_int_equal(fate, 0);
    assert_int_equal(found, CONTAINERS);
}

/* ---------------------------------------------------------------------------------------- forks */

static int be_a_child(void)
{
    struct monitor_client own = client_here();
    int fd = connect_to_monitor();
    if (fd >= 0) return 1; /* its parent's is not its */
    monitor_look();
    monitor_register(&own);
    if ((fd = connect_to_monitor()) < 0) return 2;
    close(fd);
    monitor_unregister(&own);
    return connect_to_monitor() < 0 ? 0 : 3;
}

static void a_child_of_fork_has_none_and_may_have_its_own(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip(); /* no thread may start in a child under the thread sanitizer */
    struct monitor_client client = client_here();
    monitor_register(&client);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(be_a_child());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    const int fd = connect_to_monitor();
    assert_true(fd >= 0);
    close(fd);
    monitor_unregister(&client);
    assert_int_equal(connect_to_monitor(), -1);
}

static volatile unsigned first, second; /* equal while the thread calls nobody */

static void change_pair(struct monitor_client *client)
{
    (void)client;
    first++;
    nanosleep(&(struct timespec){0, 500000}, NULL);
    second++;
}

static void a_fork_comes_between_two_answers(void **state)
{
    (void)state;
    int bad = 0, status;
    struct monitor_client client = client_here();
    client.look = change_pair;
    monitor_register(&client);
    for (int i = 0; i < 40; i++) {
        monitor_look();
        nanosleep(&(struct timespec){0, i * 20000}, NULL);
        const pid_t child = fork();
        if (child == 0) _exit(first != second);
        bad += child < 0 || waitpid(child, &status, 0) != child || status != 0;
    }
    monitor_unregister(&client);
    assert_true(first > 0);
    assert_int_equal(bad, 0);
}

/* Processes of other PID namespaces may have the same pid, and have come before. */
static void many_processes_may_have_the_same_pid(void **state)
{
    (void)state;
    enum { OTHERS = 20 };
    int others[OTHERS], fd;
    char name[MONITOR_NAME_SIZE];
    for (int i = 0; i < OTHERS; i++) {
        monitor_name(getpid(), i, name);
        assert_int_equal(local_socket_listen(name, &others[i]), TUTTI_OK);
    }
    struct monitor_client client = client_here();
    monitor_register(&client);
    monitor_name(getpid(), OTHERS, name);
    const enum tutti_status status = local_socket_connect(name, clock_now_ns() + 5 * SECOND, &fd);
    monitor_unregister(&client);
    for (int i = 0; i < OTHERS; i++) close(others[i]);
    assert_int_equal(status, TUTTI_OK);
    close(fd);
}

int main(void)
{
    threads = threads_without_others();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_client_is_described, clear_environment),
        cmocka_unit_test_setup(answers_of_any_length_arrive_whole, clear_environment),
        cmocka_unit_test_setup(it_is_gone_with_the_last_client_and_comes_back, clear_environment),
        cmocka_unit_test_setup(who_says_nothing_or_nonsense_holds_up_nobody, clear_environment),
        cmocka_unit_test_setup(without_descriptors_it_rests_and_still_hears_the_others,
                               clear_environment),
        cmocka_unit_test_setup(others_can_make_it_look, clear_environment),
        cmocka_unit_test_setup(a_signal_makes_it_dump, clear_environment),
        cmocka_unit_test_setup(the_applications_handler_stays, clear_environment),
        cmocka_unit_test_setup(nonsense_is_refused_by_name, clear_environment),
        cmocka_unit_test_setup(numbers_are_written_again_and_again_and_never_shrink,
                               clear_environment),
        cmocka_unit_test_setup(processes_of_the_same_pid_have_files_of_their_own, clear_environment),
        cmocka_unit_test_setup(many_processes_may_have_the_same_pid, clear_environment),
        cmocka_unit_test_setup(a_child_of_fork_has_none_and_may_have_its_own, clear_environment),
        cmocka_unit_test_setup(a_fork_comes_between_two_answers, clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
