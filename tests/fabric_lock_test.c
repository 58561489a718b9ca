/* A rank is killed while it holds a lock of provider shm of libfabric: the others are told, instead of waiting for that lock for ever.
 *
 * ctest: label=nosan label=once timeout=120 waits */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ranks.h"

enum { RANKS = 3, HOLDER = 1, VERSION = 4, LOCK_AT = 24 };

/* Locks the files of the other ranks that are mapped here, and its own. How many there are; -1: this libfabric has other ones. */
static int lock_all(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        char *begin;
        const char *name = strstr(line, "/dev/shm/");
        int pid, user, number;
        if (name == NULL || sscanf(name, "/dev/shm/%d:%d:%d", &pid, &user, &number) != 3) continue;
        begin = (char *)strtoull(line, NULL, 16); /* NOLINT: an address, as text */
        if (*begin != VERSION) {
            fclose(maps);
            return -1;
        }
        pthread_spin_lock((pthread_spinlock_t *)(void *)(begin + LOCK_AT));
        count++;
    }
    if (maps != NULL) fclose(maps);
    return count;
}

static int *others; /* what lock_all said, shared */

static int die_with_the_locks(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)seed, (void)context;
    int one = 1;
    for (int i = 0; i < 10; i++)
        RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_MAX, comm) == TUTTI_OK);
    if (rank == HOLDER) {
        *others = lock_all();
        kill(getpid(), SIGKILL);
    }
    enum tutti_status status = TUTTI_OK;
    for (int i = 0; i < 10 && status == TUTTI_OK; i++)
        status = tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comm);
    RANKS_EXPECT(status == TUTTI_PROC_FAILED);
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    tutti_comm_failure(comm, &failure);
    RANKS_EXPECT(failure.culprit == HOLDER);
    struct tutti_comm *smaller;
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &smaller) == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_MAX, smaller) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_size(smaller) == size - 1);
    RANKS_EXPECT(tutti_comm_free(smaller) == TUTTI_OK);
    return 0;
}

static void who_dies_with_a_lock_is_named(void **state)
{
    (void)state;
    struct ranks_outcome outcomes[RANKS];
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .outcomes = outcomes};
    others = ranks_share(sizeof *others);
    (void)ranks_run(RANKS, &options, die_with_the_locks, NULL);
    if (*others <= 0) {
        print_message("no files of provider shm that this test knows: %d\n", *others);
        skip();
    }
    assert_int_equal(outcomes[HOLDER].fate, RANKS_SIGNALLED);
    for (int rank = 0; rank < RANKS; rank++)
        if (rank != HOLDER) assert_int_equal(outcomes[rank].fate, RANKS_GOOD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_dies_with_a_lock_is_named)};
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    setenv("TUTTI_FABRIC", "shm", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
