/* Ranks that are threads are asked, and dumped, again and again while they work: nobody gets
 * anything torn. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/local_socket.h"
#include "process/monitor.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 3, TURNS = 300, MESSAGE_BYTES = MONITOR_MESSAGE_BYTES_MAX };

struct asking {
    char folder[64];
    _Atomic int begun, done; /* ranks */
    _Atomic int answers, bad_answers;
};

/* A whole dump, as far as its ends tell. */
static bool is_whole(const char *text, size_t size)
{
    return size > 40 && memcmp(text, "{\"tutti_trace\": 1, ", 19) == 0 &&
           memcmp(text + size - 3, "]}\n", 3) == 0;
}

static void ask_once(struct asking *asking)
{
    static char message[MESSAGE_BYTES];
    const struct monitor_request request = {"query"};
    char name[MONITOR_NAME_SIZE];
    int fd;
    const uint64_t deadline_ns = clock_now_ns() + 5000000000u;
    monitor_name(getpid(), 0, name);
    if (local_socket_connect(name, 0, &fd) != TUTTI_OK) return; /* all have left */
    if (local_socket_send(fd, &request, sizeof request, NULL, 0, deadline_ns) == TUTTI_OK) {
        const struct timeval patience = {5, 0};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        ssize_t bytes;
        while ((bytes = recv(fd, message, sizeof message, MSG_WAITALL)) > 0 ||
               (bytes < 0 && clock_now_ns() < deadline_ns)) {
            if (bytes < 0) continue; /* not yet: the socket does not block */
            atomic_fetch_add(&asking->answers, 1);
            if (!is_whole(message, (size_t)bytes)) atomic_fetch_add(&asking->bad_answers, 1);
        }
    }
    close(fd);
}

static void *ask(void *argument)
{
    struct asking *asking = argument;
    while (atomic_load(&asking->begun) < RANKS) ranks_nap_ms(1);
    while (atomic_load(&asking->done) < RANKS) ask_once(asking);
    return NULL;
}

static int work(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    struct asking *asking = context;
    atomic_fetch_add(&asking->begun, 1);
    for (int turn = 0; turn < TURNS; turn++) {
        int32_t one = 1, number = rank, heard = -1;
        struct tutti_request *requests[2];
        RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
        RANKS_EXPECT(one == size);
        RANKS_EXPECT(tutti_broadcast_start(&one, &one, 1, TUTTI_INT32, turn % size, NULL, comm,
                                           &requests[0]) == TUTTI_OK);
        RANKS_EXPECT(tutti_send_start(&number, 1, TUTTI_INT32, (rank + 1) % size, turn, NULL, comm,
                                      &requests[1]) == TUTTI_OK);
        RANKS_EXPECT(tutti_recv(&heard, 1, TUTTI_INT32, (rank + size - 1) % size, turn, NULL,
                                comm) == TUTTI_OK);
        RANKS_EXPECT(heard == (rank + size - 1) % size);
        for (int i = 0; i < 2; i++) RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_OK);
        if (turn % 50 == rank) RANKS_EXPECT(tutti_trace_dump(comm, asking->folder) == TUTTI_OK);
    }
    const uint64_t begin_ns = clock_now_ns();
    while (atomic_load(&asking->answers) < 10 && clock_now_ns() - begin_ns < 20000000000u)
        ranks_nap_ms(1);
    atomic_fetch_add(&asking->done, 1);
    return 0;
}

static void asking_disturbs_nobody(void **state)
{
    (void)state;
    struct asking asking = {.folder = "/tmp/tutti-trace-XXXXXX"};
    pthread_t thread;
    char command[96];
    assert_non_null(mkdtemp(asking.folder));
    assert_int_equal(pthread_create(&thread, NULL, ask, &asking), 0);
    const struct ranks_options options = {.kind = RANKS_THREADS};
    const int failed = ranks_run(RANKS, &options, work, &asking);
    atomic_store(&asking.begun, RANKS);
    atomic_store(&asking.done, RANKS);
    pthread_join(thread, NULL);
    snprintf(command, sizeof command, "rm -r %s", asking.folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(failed, 0);
    assert_true(atomic_load(&asking.answers) >= 10);
    assert_int_equal(atomic_load(&asking.bad_answers), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(asking_disturbs_nobody)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
