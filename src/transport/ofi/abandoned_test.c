/* Locks in a file as provider shm makes it: freed after a death, and only then. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/ofi/abandoned.h"
#include "victim.h"

enum { FILE_BYTES = 8192, NUMBER = 7135, VERSION = 4 };

/* The head of a file of libfabric 1.17. */
struct head {
    uint8_t version, unused[3];
    int owner;
    char unused_too[16];
    pthread_spinlock_t lock;
    char unused_again[12];
    size_t bytes;
};

static_assert(offsetof(struct head, lock) == 24 && offsetof(struct head, bytes) == 40, "as it is");

static char name[64];
static struct head *head;
static pid_t peer; /* waits to be killed */
static struct abandoned *abandoned;

static int make(void **state)
{
    (void)state;
    snprintf(name, sizeof name, "/%d:%u:%d", (int)getpid(), (unsigned)getuid(), NUMBER);
    const int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, FILE_BYTES) != 0) return -1;
    head = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    shm_unlink(name); /* as another process may have done; it stays mapped */
    peer = victim_start();
    if (head == MAP_FAILED || peer < 0) return -1;
    *head = (struct head){.version = VERSION, .owner = getpid(), .bytes = FILE_BYTES};
    pthread_spin_init(&head->lock, PTHREAD_PROCESS_SHARED);
    pthread_spin_lock(&head->lock);
    const pid_t pids[] = {0, peer};
    return abandoned_init(pids, 2, &abandoned) == TUTTI_OK ? 0 : -1;
}

static int unmake(void **state)
{
    (void)state;
    abandoned_free(abandoned);
    kill(peer, SIGKILL);
    while (wait(NULL) > 0) continue;
    return munmap(head, FILE_BYTES);
}

static unsigned look(int times)
{
    unsigned freed = 0;
    for (int i = 0; i < times; i++) freed += abandoned_look(abandoned);
    return freed;
}

static bool is_free(void)
{
    return pthread_spin_trylock(&head->lock) == 0;
}

static void a_lock_of_the_dead_is_freed_at_the_last_look(void **state)
{
    (void)state;
    victim_kill(peer);
    assert_int_equal(look(ABANDONED_LOOKS - 1), 0);
    assert_false(is_free());
    assert_int_equal(look(1), 1);
    assert_true(is_free());
}

static void a_lock_stays_while_all_live(void **state)
{
    (void)state;
    assert_int_equal(look(2 * ABANDONED_LOOKS), 0);
    assert_false(is_free());
}

static void a_lock_that_was_free_in_between_stays(void **state)
{
    (void)state;
    victim_kill(peer);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(look(ABANDONED_LOOKS - 1), 0);
        pthread_spin_unlock(&head->lock);
        assert_int_equal(look(1), 0);
        pthread_spin_lock(&head->lock);
    }
    assert_int_equal(look(ABANDONED_LOOKS - 1), 0);
}

static void a_lock_stays_while_somebody_is_stopped(void **state)
{
    (void)state;
    siginfo_t stop;
    const pid_t stopped = victim_start(), pids[] = {stopped, peer};
    abandoned_free(abandoned);
    assert_int_equal(abandoned_init(pids, 2, &abandoned), TUTTI_OK);
    victim_kill(peer);
    kill(stopped, SIGSTOP);
    assert_int_equal(waitid(P_PID, (id_t)stopped, &stop, WSTOPPED), 0);
    const unsigned while_stopped = look(2 * ABANDONED_LOOKS);
    kill(stopped, SIGKILL);
    assert_int_equal(while_stopped, 0);
    assert_int_equal(look(ABANDONED_LOOKS), 1);
}

static void what_looks_otherwise_is_not_touched(void **state)
{
    (void)state;
    const struct head good = *head;
    victim_kill(peer);
    head->version = 9;
    assert_int_equal(look(2 * ABANDONED_LOOKS), 0);
    *head = good;
    head->owner++;
    assert_int_equal(look(2 * ABANDONED_LOOKS), 0);
    *head = good;
    head->bytes /= 2;
    assert_int_equal(look(2 * ABANDONED_LOOKS), 0);
    assert_false(is_free());
}

static void the_thread_looks_by_itself(void **state)
{
    (void)state;
    const pid_t pids[] = {0, peer};
    abandoned_free(abandoned);
    assert_int_equal(abandoned_create(pids, 2, &abandoned), TUTTI_OK);
    victim_kill(peer);
    pthread_spin_lock(&head->lock); /* hangs without it */
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make, unmake)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_lock_of_the_dead_is_freed_at_the_last_look),
                                       TEST(a_lock_stays_while_all_live),
                                       TEST(a_lock_that_was_free_in_between_stays),
                                       TEST(a_lock_stays_while_somebody_is_stopped),
                                       TEST(what_looks_otherwise_is_not_touched),
                                       TEST(the_thread_looks_by_itself)};
    alarm(30);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
