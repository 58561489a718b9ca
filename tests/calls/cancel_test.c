/* Receives that are taken back: before a message came, while it comes, by a thread beside a blocked
 * one. No message is lost, and what cannot be taken back says so and goes on.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/patient.h"
#include "tests/worlds/ranks.h"

enum { SMALL = 3, LARGE = 100000, ROUNDS = 200, TAG = 5, UNTOUCHED = -7 };

static void fill(int32_t *data, int count, int value)
{
    for (int i = 0; i < count; i++) data[i] = value;
}

static bool is_filled(const int32_t *data, int count, int value)
{
    for (int i = 0; i < count; i++)
        if (data[i] != value) return false;
    return true;
}

/* Each way to name a sender; the message that comes then is another receive's. */
static int before_it_comes(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    static const int peers[] = {1, TUTTI_ANY_RANK}, counts[] = {SMALL, LARGE};
    int32_t *const first = malloc(LARGE * sizeof *first), *const then = malloc(LARGE * sizeof *then);
    RANKS_EXPECT(first != NULL && then != NULL);
    for (int i = 0; i < 4; i++) {
        const int count = counts[i / 2];
        struct tutti_request *request;
        fill(first, count, UNTOUCHED);
        if (rank == 0) {
            RANKS_EXPECT(tutti_recv_start(first, (size_t)count, TUTTI_INT32, peers[i % 2], TAG,
                                          NULL, NULL, comm, &request) == TUTTI_OK);
            RANKS_EXPECT(tutti_cancel(&request) == TUTTI_OK && request == NULL);
        }
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        fill(then, count, rank == 1 ? i : UNTOUCHED);
        if (rank == 1)
            RANKS_EXPECT(tutti_send(then, (size_t)count, TUTTI_INT32, 0, TAG, comm) == TUTTI_OK);
        if (rank == 0)
            RANKS_EXPECT(tutti_recv(then, (size_t)count, TUTTI_INT32, 1, TAG, NULL, comm) ==
                         TUTTI_OK);
        if (rank == 0) RANKS_EXPECT(is_filled(then, count, i));
        RANKS_EXPECT(is_filled(first, count, UNTOUCHED));
    }
    free(first);
    free(then);
    return 0;
}

static void a_receive_without_a_message_is_taken_back(void **state)
{
    (void)state;
    expect_good_both(2, before_it_comes, NULL);
}

/* Another thread holds the communicator, in a call that needs what this one does next. */
static void *be_in_a_barrier(void *argument)
{
    return (void *)(uintptr_t)tutti_barrier(argument);
}

static int beside_a_barrier(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)size, (void)seed, (void)context;
    int32_t data = 0, lost = UNTOUCHED;
    struct tutti_request *request;
    if (rank == 1) {
        RANKS_EXPECT(tutti_recv(&data, 1, TUTTI_INT32, 0, TAG, NULL, comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        return 0;
    }
    pthread_t thread;
    void *status;
    RANKS_EXPECT(tutti_recv_start(&lost, 1, TUTTI_INT32, 1, TAG, NULL, NULL, comm, &request) ==
                 TUTTI_OK);
    RANKS_EXPECT(pthread_create(&thread, NULL, be_in_a_barrier, comm) == 0);
    ranks_nap_ms(50);
    RANKS_EXPECT(tutti_cancel(&request) == TUTTI_OK && request == NULL);
    RANKS_EXPECT(tutti_recv_start(&lost, 1, TUTTI_INT32, 1, TAG, NULL, NULL, comm, &request) ==
                 TUTTI_OK); /* stands in line */
    RANKS_EXPECT(tutti_cancel(&request) == TUTTI_OK && request == NULL);
    RANKS_EXPECT(tutti_send(&data, 1, TUTTI_INT32, 1, TAG, comm) == TUTTI_OK);
    RANKS_EXPECT(pthread_join(thread, &status) == 0 && (uintptr_t)status == TUTTI_OK);
    RANKS_EXPECT(lost == UNTOUCHED);
    return 0;
}

static void a_thread_takes_back_beside_one_that_is_blocked(void **state)
{
    (void)state;
    expect_good_both(2, beside_a_barrier, NULL);
}

/* Whoever wins: the message is received once, whole. */
static int while_it_comes(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed;
    const int count = *(const int *)context;
    int32_t *const data = malloc((size_t)count * sizeof *data);
    int taken_back = 0;
    RANKS_EXPECT(data != NULL);
    for (int i = 0; i < ROUNDS; i++) {
        struct tutti_request *request;
        if (rank == 1) {
            fill(data, count, i);
            RANKS_EXPECT(tutti_send(data, (size_t)count, TUTTI_INT32, 0, TAG, comm) == TUTTI_OK);
            continue;
        }
        RANKS_EXPECT(tutti_recv_start(data, (size_t)count, TUTTI_INT32, TUTTI_ANY_RANK, TAG, NULL,
                                      NULL, comm, &request) == TUTTI_OK);
        for (volatile int spins = i * 500; spins > 0; spins--) {
        }
        const enum tutti_status status = tutti_cancel(&request);
        if (status == TUTTI_OK) {
            taken_back++;
            RANKS_EXPECT(request == NULL);
            RANKS_EXPECT(tutti_recv(data, (size_t)count, TUTTI_INT32, 1, TAG, NULL, comm) ==
                         TUTTI_OK);
        } else {
            RANKS_EXPECT(status == TUTTI_IN_PROGRESS && tutti_wait(&request) == TUTTI_OK);
        }
        RANKS_EXPECT(is_filled(data, count, i));
    }
    if (rank == 0) printf("%d of %d were taken back\n", taken_back, ROUNDS);
    free(data);
    return 0;
}

static void a_message_that_comes_meanwhile_is_not_lost(void **state)
{
    (void)state;
    static int counts[] = {SMALL, LARGE};
    for (int i = 0; i < 2; i++) expect_good_both(2, while_it_comes, &counts[i]);
}

static int what_cannot_be(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    int32_t *const data = calloc(LARGE, sizeof *data);
    int32_t ones[20];
    struct tutti_request *requests[20], *request = NULL;
    RANKS_EXPECT(data != NULL);
    RANKS_EXPECT(tutti_cancel(NULL) == TUTTI_INVALID_REQUEST);
    RANKS_EXPECT(tutti_cancel(&request) == TUTTI_INVALID_REQUEST);
    fill(ones, 20, 1);
    for (int i = 0; i < 20; i++) /* more than run at once */
        RANKS_EXPECT(tutti_allreduce_start(&ones[i], &ones[i], 1, TUTTI_INT32, TUTTI_SUM, NULL,
                                           comm, &requests[i]) == TUTTI_OK);
    for (int i = 0; i < 20; i++) RANKS_EXPECT(tutti_cancel(&requests[i]) == TUTTI_UNSUPPORTED);
    for (int i = 0; i < 20; i++) RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_OK);
    RANKS_EXPECT(is_filled(ones, 20, size));
    if (rank == 0) {
        RANKS_EXPECT(tutti_send_start(data, LARGE, TUTTI_INT32, 1, TAG, NULL, comm, &request) ==
                     TUTTI_OK);
        RANKS_EXPECT(tutti_cancel(&request) == TUTTI_UNSUPPORTED && request != NULL);
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    } else {
        RANKS_EXPECT(tutti_recv(data, LARGE, TUTTI_INT32, 0, TAG, NULL, comm) == TUTTI_OK);
    }
    free(data);
    return 0;
}

static void sends_and_collectives_go_on(void **state)
{
    (void)state;
    expect_good_both(2, what_cannot_be, NULL);
}

static int prepared_receive(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)seed, (void)context;
    int32_t mine = 41, theirs = UNTOUCHED;
    struct tutti_prepared *prepared;
    struct tutti_request *request;
    RANKS_EXPECT(tutti_recv_prepare(&theirs, 1, TUTTI_INT32, (rank + 1) % size, TAG, NULL, NULL,
                                    comm, &prepared) == TUTTI_OK);
    RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_cancel(&request) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_send(&mine, 1, TUTTI_INT32, (rank + size - 1) % size, TAG, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK && theirs == 41);
    RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
    return 0;
}

static void a_prepared_receive_can_be_started_again(void **state)
{
    (void)state;
    expect_good_both(3, prepared_receive, NULL);
    expect_good_both(1, prepared_receive, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receive_without_a_message_is_taken_back),
        cmocka_unit_test(a_thread_takes_back_beside_one_that_is_blocked),
        cmocka_unit_test(a_message_that_comes_meanwhile_is_not_lost),
        cmocka_unit_test(sends_and_collectives_go_on),
        cmocka_unit_test(a_prepared_receive_can_be_started_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
