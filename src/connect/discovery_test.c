/* Ranks are threads that share one port: messages between processes go over the same sockets.
 *
 * ctest: waits
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "connect/discovery.h"
#include "connect/port.h"
#include "os/clock.h"

enum { RANKS_MAX = 24, MASTER_PORT = 21873 };
static const uint64_t SOON_NS = 1000000000u, LONG_NS = 60000000000u;

struct rank {
    pthread_t thread;
    struct launcher_facts facts;
    struct discovery_options options;
    struct discovery_entry entries[RANKS_MAX];
    struct rendezvous_key meeting;
    unsigned message_count;
    enum tutti_status status;
    char why[400];
};

static struct rank ranks[RANKS_MAX];

static void *take_part(void *argument)
{
    struct rank *rank = argument;
    rank->status =
        discovery_run(&rank->options, rank->entries, &rank->meeting, &rank->message_count);
    if (rank->status != TUTTI_OK) error_copy(rank->why, sizeof rank->why);
    return NULL;
}

static void describe(int size, uint64_t time_ns)
{
    memset(ranks, 0, sizeof ranks);
    for (int r = 0; r < size; r++) {
        struct rank *rank = &ranks[r];
        rank->facts = (struct launcher_facts){.launcher = "test",
                                              .rank = r,
                                              .size = size,
                                              .master_address = "127.0.0.1",
                                              .master_port = MASTER_PORT,
                                              .run_id = "roll call"};
        memset(&rank->facts.key, 7, sizeof rank->facts.key);
        rank->options = (struct discovery_options){
            .facts = &rank->facts,
            .self = {.host = (uint64_t)r / 2, .pid = 1000 + r, .core_count = 1 + r},
            .deadline_ns = clock_now_ns() + time_ns};
        snprintf(rank->options.self.host_name, DISCOVERY_HOST_NAME_MAX, "host-%d", r / 2);
    }
}

static void prepare(int size, uint64_t time_ns)
{
    describe(size, time_ns);
    for (int r = 0; r < size; r++)
        assert_int_equal(port_open(&ranks[0].facts, &ranks[r].options.self.address), TUTTI_OK);
}

static void close_ports(int size)
{
    for (int r = 0; r < size; r++) port_close();
}

static void run_all_but(int missing, int size)
{
    for (int r = 0; r < size; r++)
        if (r != missing)
            assert_int_equal(pthread_create(&ranks[r].thread, NULL, take_part, &ranks[r]), 0);
    for (int r = 0; r < size; r++)
        if (r != missing) pthread_join(ranks[r].thread, NULL);
}

static void encrypt(int rank)
{
    assert_int_equal(port_encrypt(), TUTTI_OK);
    ranks[rank].options.is_encrypted = true;
}

static void learn_of_all(bool encrypts)
{
    static const int sizes[] = {1, 2, 3, 4, 7, 16, 24};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int size = sizes[i];
        prepare(size, LONG_NS);
        for (int r = 0; encrypts && r < size; r++) encrypt(r);
        run_all_but(-1, size);
        for (int r = 0; r < size; r++) {
            if (ranks[r].status != TUTTI_OK) fail_msg("rank %d of %d: %s", r, size, ranks[r].why);
            for (int other = 0; other < size; other++) {
                const struct discovery_entry *said = &ranks[other].options.self;
                const struct discovery_entry *heard = &ranks[r].entries[other];
                assert_int_equal(heard->host, said->host);
                assert_int_equal(heard->pid, said->pid);
                assert_int_equal(heard->core_count, said->core_count);
                assert_string_equal(heard->host_name, said->host_name);
                assert_true(net_address_equal(&heard->address, &said->address));
            }
            assert_memory_equal(&ranks[r].meeting, &ranks[0].meeting, sizeof ranks[r].meeting);
        }
        close_ports(size);
    }
}

static void everybody_learns_of_everybody(void **state)
{
    (void)state;
    learn_of_all(false);
}

static void nobody_else_does_where_it_is_encrypted(void **state)
{
    (void)state;
    learn_of_all(true);
}

/* Whichever rank it is, all ranks are told at once. */
static void who_does_not_encrypt_as_others_do_is_named(void **state)
{
    (void)state;
    for (int odd = 0; odd < 5; odd++) {
        prepare(5, LONG_NS);
        encrypt(odd);
        run_all_but(-1, 5);
        for (int r = 0; r < 5; r++) {
            assert_int_equal(ranks[r].status, TUTTI_INVALID_OPTIONS);
            assert_non_null(strstr(ranks[r].why, "TUTTI_ENCRYPTION"));
        }
        close_ports(5);
    }
}

/* Bits of the highest rank. */
static unsigned depth(int size)
{
    unsigned bits = 0;
    for (int rest = size - 1; rest > 0; rest /= 2) bits++;
    return bits;
}

static void nobody_but_rank_0_has_more_than_a_few_messages(void **state)
{
    (void)state;
    prepare(24, LONG_NS);
    run_all_but(-1, 24);
    assert_int_equal(ranks[0].message_count, 3 * 23); /* with the run */
    for (int r = 1; r < 24; r++) /* a report, the run, its answer, the table, and its children's */
        assert_in_range(ranks[r].message_count, 3, 4 + depth(24));
    close_ports(24);
}

static void who_is_missing_is_named_to_all(void **state)
{
    (void)state;
    prepare(5, SOON_NS);
    run_all_but(3, 5);
    for (int r = 0; r < 5; r++) {
        if (r == 3) continue;
        assert_int_equal(ranks[r].status, TUTTI_INIT_TIMEOUT);
        assert_non_null(strstr(ranks[r].why, "1 of 5 ranks did not report"));
        assert_non_null(strstr(ranks[r].why, "rank 3"));
    }
    close_ports(5);
}

/* The ranks know the same before they meet, each time. */
static void each_run_has_a_meeting_of_its_own(void **state)
{
    (void)state;
    struct rendezvous_key before;
    for (int turn = 0; turn < 2; turn++) {
        prepare(3, LONG_NS);
        run_all_but(-1, 3);
        for (int r = 0; r < 3; r++) assert_int_equal(ranks[r].status, TUTTI_OK);
        const struct rendezvous_key *meeting = &ranks[0].meeting;
        assert_memory_not_equal(meeting, &ranks[0].facts.key, sizeof *meeting);
        if (turn > 0) assert_memory_not_equal(meeting, &before, sizeof before);
        before = *meeting;
        close_ports(3);
    }
}

/* As a rank of the last run comes to where its rank 0 was: with the same key, but it was told of
 * that run. */
static void connect_as(int rank, const struct discovery_head *said, struct discovery_head *answers,
                       size_t count)
{
    static const char what[] = "roll call";
    struct port_client old = {.rank = rank};
    struct net_address port;
    struct byte_stream socket = byte_stream_none();
    struct discovery_entry entry = ranks[rank].options.self;
    const uint64_t deadline_ns = clock_now_ns() + LONG_NS;
    int peer;
    unsigned stream;
    size_t done = 0, bytes;
    rendezvous_key_derive(&ranks[0].facts.key, what, sizeof what, &old.identity);
    assert_true(net_address_parse("127.0.0.1", &port));
    port.port = MASTER_PORT;
    port_enter(&old);
    while (done < count * sizeof *answers) {
        assert_true(clock_now_ns() < deadline_ns);
        enum tutti_status status = TUTTI_OK;
        if (socket.fd < 0) {
            done = 0;
            assert_int_equal(port_connect(&old, 0, 0, &port, deadline_ns), TUTTI_OK);
            while (!port_take(&old, &peer, &stream, &socket)) port_progress(clock_now_ns());
            status = byte_stream_write(&socket, said, sizeof *said, &bytes);
            if (status == TUTTI_OK)
                status = byte_stream_write(&socket, &entry, sizeof entry, &bytes);
        }
        port_progress(clock_now_ns());
        bytes = 0;
        if (status == TUTTI_OK)
            status = byte_stream_read(&socket, (char *)answers + done,
                                      count * sizeof *answers - done, &bytes);
        done += bytes;
        if (status == TUTTI_OK) continue;
        byte_stream_close(&socket); /* rank 0 was not in yet */
        socket = byte_stream_none();
    }
    byte_stream_close(&socket);
    port_leave(&old);
}

static void a_rank_of_an_earlier_run_is_turned_away(void **state)
{
    (void)state;
    struct discovery_head said = discovery_head_make(DISCOVERY_ENTRY, 1, 3), answer;
    memset(&said.run, 9, sizeof said.run);
    prepare(3, LONG_NS);
    assert_int_equal(pthread_create(&ranks[0].thread, NULL, take_part, &ranks[0]), 0);
    connect_as(1, &said, &answer, 1);
    assert_int_equal(answer.kind, DISCOVERY_FAILURE);
    assert_int_equal(answer.status, TUTTI_PROC_FAILED);
    assert_non_null(strstr(answer.text, "another run"));
    for (int r = 1; r < 3; r++)
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, take_part, &ranks[r]), 0);
    for (int r = 0; r < 3; r++) {
        pthread_join(ranks[r].thread, NULL);
        if (ranks[r].status != TUTTI_OK) fail_msg("rank %d: %s", r, ranks[r].why);
    }
    assert_memory_equal(&ranks[1].meeting, &ranks[0].meeting, sizeof ranks[0].meeting);
    close_ports(3);
}

static void without_rank_0_the_others_say_where_they_looked(void **state)
{
    (void)state;
    prepare(3, SOON_NS);
    close_ports(3); /* nobody listens */
    struct launcher_facts elsewhere = ranks[0].facts;
    elsewhere.rank = 1; /* a port, but not the master's */
    struct net_address address;
    assert_int_equal(port_open(&elsewhere, &address), TUTTI_OK);
    run_all_but(0, 3);
    for (int r = 1; r < 3; r++) {
        assert_int_equal(ranks[r].status, TUTTI_INIT_TIMEOUT);
        assert_non_null(strstr(ranks[r].why, "rank 0"));
        assert_non_null(strstr(ranks[r].why, "127.0.0.1"));
    }
    port_close();
}

/* Rank 2 has reported, so rank 3 is to fetch the list from it; but nobody listens there any
 * more. */
static void who_gets_the_list_from_a_dead_rank_learns_that(void **state)
{
    (void)state;
    int listener;
    struct discovery_head said = discovery_head_make(DISCOVERY_ENTRY, 2, 4), answers[2];
    const uint64_t begin_ns = clock_now_ns();
    prepare(4, LONG_NS);
    struct net_address *const port = &ranks[2].options.self.address;
    assert_true(net_address_parse("127.0.0.1", port));
    assert_int_equal(tcp_listen(port, 0, &listener, port), TUTTI_OK);
    close(listener);
    for (int r = 0; r < 4; r++)
        if (r != 2)
            assert_int_equal(pthread_create(&ranks[r].thread, NULL, take_part, &ranks[r]), 0);
    connect_as(2, &said, answers, 2); /* the run, and the head of the list */
    assert_int_equal(answers[1].kind, DISCOVERY_TABLE);
    for (int r = 0; r < 4; r++) {
        if (r == 2) continue;
        pthread_join(ranks[r].thread, NULL);
        assert_int_equal(ranks[r].status, r == 3 ? TUTTI_PROC_FAILED : TUTTI_OK);
    }
    assert_true(clock_now_ns() - begin_ns < LONG_NS);
    assert_non_null(strstr(ranks[3].why, "rank 2 (127.0.0.1:"));
    close_ports(4);
}

/* The outcome of a rank that is a process of its own. */
struct heard {
    enum tutti_status status;
    char why[256];
};

static pid_t start_rank(int rank, struct heard *heard)
{
    const pid_t pid = fork();
    if (pid != 0) return pid;
    heard->status = port_open(&ranks[rank].facts, &ranks[rank].options.self.address);
    if (heard->status == TUTTI_OK) take_part(&ranks[rank]);
    heard->status = ranks[rank].status;
    snprintf(heard->why, sizeof heard->why, "%.200s", ranks[rank].why);
    _exit(0);
}

/* From now on this process can open that many more. */
static void leave_descriptors(int count, struct rlimit *before)
{
    int end = 0;
    for (int free = 0; free < count; end++) free += fcntl(end, F_GETFD) < 0;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, before), 0);
    const struct rlimit limit = {(rlim_t)end, before->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Rank 0 has room for the connection of one of three ranks. */
static void all_hear_that_rank_0_has_no_descriptors(void **state)
{
    (void)state;
    enum { SIZE = 4 };
    pid_t pids[SIZE] = {0};
    struct rlimit before;
    struct heard *const heard =
        mmap(NULL, SIZE * sizeof *heard, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(heard, MAP_FAILED);
    const uint64_t begin_ns = clock_now_ns();
    describe(SIZE, LONG_NS / 3);
    for (int r = 1; r < SIZE; r++) assert_true((pids[r] = start_rank(r, &heard[r])) > 0);
    assert_int_equal(port_open(&ranks[0].facts, &ranks[0].options.self.address), TUTTI_OK);
    leave_descriptors(1, &before);
    take_part(&ranks[0]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    port_close();
    snprintf(heard[0].why, sizeof heard[0].why, "%.200s", ranks[0].why);
    heard[0].status = ranks[0].status;
    for (int r = 1; r < SIZE; r++) assert_int_equal(waitpid(pids[r], NULL, 0), pids[r]);
    assert_true(clock_now_ns() - begin_ns < LONG_NS / 3);
    for (int r = 0; r < SIZE; r++)
        if (heard[r].status != TUTTI_NO_DESCRIPTORS ||
            strstr(heard[r].why, "rank 0 (host host-0, pid 1000)") == NULL)
            fail_msg("rank %d: %s", r, heard[r].why);
    munmap(heard, SIZE * sizeof *heard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_learns_of_everybody),
        cmocka_unit_test(nobody_else_does_where_it_is_encrypted),
        cmocka_unit_test(who_does_not_encrypt_as_others_do_is_named),
        cmocka_unit_test(nobody_but_rank_0_has_more_than_a_few_messages),
        cmocka_unit_test(who_is_missing_is_named_to_all),
        cmocka_unit_test(each_run_has_a_meeting_of_its_own),
        cmocka_unit_test(a_rank_of_an_earlier_run_is_turned_away),
        cmocka_unit_test(without_rank_0_the_others_say_where_they_looked),
        cmocka_unit_test(who_gets_the_list_from_a_dead_rank_learns_that),
        cmocka_unit_test(all_hear_that_rank_0_has_no_descriptors),
    };
    setenv("TUTTI_SECRET", "only the ranks of this test know it", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
