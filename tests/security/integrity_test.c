/* Bits that flip between hosts. Every connection between ranks goes through a proxy in the process
 * that makes it, which can flip a bit of the data that goes to the other side, once or again and
 * again.
 *
 * ctest: label=notsan */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/cases.h"
#include "tests/kit/fault_time.h"
#include "tests/kit/patient.h"
#include "tests/security/disagreement.h"
#include "tests/worlds/proxy.h"
#include "tests/worlds/ranks.h"
#include "tutti/tutti.h"

enum { CULPRIT = 1, RUN_BYTES = 256, BYTES = 1 << 20, ROUNDS = 4 };
enum { FOR_EVER = 1 << 30 };

/* ----------------------------------------------------------------------------------- on the way */

static atomic_int flips_left, flipped;

/* Of all ranks: when the first bit flipped, and how long after that the last one had its error. */
static struct moment {
    _Atomic uint64_t flipped_ns, slowest_ns;
} * moment;

static int map_moment(void)
{
    moment = mmap(NULL, sizeof *moment, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return moment == MAP_FAILED ? -1 : 0;
}

/* Bytes of data are all alike, and what lies around it is not. */
static void flip_data(char *bytes, size_t count, bool is_answer)
{
    size_t alike = 1;
    if (is_answer || atomic_load(&flips_left) <= 0) return;
    for (size_t i = 1; i < count; i++) {
        alike = bytes[i] != 0 && bytes[i] == bytes[i - 1] ? alike + 1 : 1;
        if (alike < RUN_BYTES) continue;
        if (atomic_fetch_sub(&flips_left, 1) > 0) {
            uint64_t never = 0;
            bytes[i - RUN_BYTES / 2] ^= 4;
            atomic_compare_exchange_strong(&moment->flipped_ns, &never, clock_now_ns());
            atomic_fetch_add(&flipped, 1);
        } else {
            atomic_store(&flips_left, 0);
        }
        return;
    }
}

/* Takes the place of the C library's: all that is called by this program comes here. */
int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t bytes)
{
    const struct sockaddr *address = to.__sockaddr__;
    struct sockaddr_in at;
    if (address->sa_family == AF_INET && proxy_start(address, flip_data, &at))
        return (int)syscall(SYS_connect, fd, &at, (socklen_t)sizeof at);
    return (int)syscall(SYS_connect, fd, address, bytes);
}

/* ---------------------------------------------------------------------------------------- ranks */

static unsigned char value_of(int rank, int round)
{
    return (unsigned char)(1 + rank * 16 + round);
}

/* Every rank sends to every other one, and counts the bytes that are not right. */
static enum tutti_status exchange(struct tutti_comm *comm, int round, size_t *wrong)
{
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    unsigned char *send = calloc((size_t)size, BYTES), *recv = calloc((size_t)size, BYTES);
    enum tutti_status status = send != NULL && recv != NULL ? TUTTI_OK : TUTTI_NO_MEMORY;
    if (status == TUTTI_OK) {
        memset(send, value_of(rank, round), (size_t)size * BYTES);
        status = tutti_alltoall(send, recv, BYTES, TUTTI_UINT8, comm);
    }
    for (size_t i = 0; i < (size_t)size * BYTES && status == TUTTI_OK; i++)
        *wrong += recv[i] != value_of((int)(i / BYTES), round);
    free(send);
    free(recv);
    return status;
}

static int exchange_over_a_flip(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)size, (void)seed, (void)context;
    size_t wrong = 0;
    if (rank == CULPRIT) atomic_store(&flips_left, 1);
    for (int round = 0; round < ROUNDS; round++)
        RANKS_EXPECT(exchange(comm, round, &wrong) == TUTTI_OK);
    RANKS_EXPECT(wrong == 0);
    RANKS_EXPECT(rank != CULPRIT || atomic_load(&flipped) == 1);
    return 0;
}

static int exchange_unchecked_over_a_flip(struct tutti_comm *comm, int rank, int size,
                                          uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    size_t wrong = 0;
    if (rank == CULPRIT) atomic_store(&flips_left, 1);
    for (int round = 0; round < ROUNDS; round++)
        RANKS_EXPECT(exchange(comm, round, &wrong) == TUTTI_OK);
    RANKS_EXPECT(rank != CULPRIT || atomic_load(&flipped) == 1);
    RANKS_EXPECT(rank != 0 || wrong == 1);
    return 0;
}

static int exchange_in_a_checked_copy(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                      void *context)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *copy, *copy_of_copy;
    options.integrity = TUTTI_INTEGRITY_NETWORK;
    RANKS_EXPECT(tutti_comm_dup(comm, &options, &copy) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_dup(copy, NULL, &copy_of_copy) == TUTTI_OK); /* inherits */
    const int result = exchange_over_a_flip(copy_of_copy, rank, size, seed, context);
    RANKS_EXPECT(tutti_comm_free(copy_of_copy) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    return result;
}

static int exchange_until_corrupt(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                  void *context)
{
    (void)size, (void)seed, (void)context;
    size_t wrong = 0;
    enum tutti_status status = TUTTI_OK;
    for (int round = 0; round < ROUNDS && status == TUTTI_OK; round++) {
        /* Others may still wait for what this rank has sent in the round before. */
        if (rank == CULPRIT && round == 1) atomic_store(&flips_left, FOR_EVER);
        status = exchange(comm, round, &wrong);
    }
    fault_time_raise(&moment->slowest_ns, clock_now_ns() - atomic_load(&moment->flipped_ns));
    RANKS_EXPECT(status == TUTTI_CORRUPT && wrong == 0);
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT(failure.status == TUTTI_CORRUPT && failure.culprit == CULPRIT);
    RANKS_EXPECT(failure.reporter == 0 && failure.sequence > 0);
    RANKS_EXPECT(strstr(failure.message, "rank 1 ") != NULL &&
                 strstr(failure.message, "changed") != NULL);
    return 0;
}

static int send_until_corrupt(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)size, (void)seed, (void)context;
    static unsigned char bytes[BYTES];
    enum tutti_status status = TUTTI_OK;
    memset(bytes, 77, sizeof bytes);
    if (rank == CULPRIT) atomic_store(&flips_left, FOR_EVER);
    if (rank == CULPRIT) status = tutti_send(bytes, BYTES, TUTTI_UINT8, 0, 5, comm);
    if (rank == 0) status = tutti_recv(bytes, BYTES, TUTTI_UINT8, CULPRIT, 5, NULL, comm);
    if (rank > 1) status = tutti_recv(bytes, BYTES, TUTTI_UINT8, 0, 6, NULL, comm);
    fault_time_raise(&moment->slowest_ns, clock_now_ns() - atomic_load(&moment->flipped_ns));
    RANKS_EXPECT(status == TUTTI_CORRUPT);
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT(failure.status == TUTTI_CORRUPT && failure.culprit == CULPRIT);
    return 0;
}

static int run_on(const char *hosts, int size, enum tutti_integrity integrity,
                  ranks_function *function)
{
    struct tutti_comm_options comm_options = patient;
    comm_options.integrity = integrity;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .comm_options = &comm_options};
    setenv("TUTTI_TEST_HOSTS", hosts, 1);
    return ranks_run(size, &options, function, NULL);
}

static void one_flipped_bit_is_mended(void **state)
{
    (void)state;
    assert_int_equal(run_on("2", 2, TUTTI_INTEGRITY_NETWORK, exchange_over_a_flip), 0);
    assert_int_equal(run_on("3", 3, TUTTI_INTEGRITY_NETWORK, exchange_over_a_flip), 0);
    assert_int_equal(run_on("2", 3, TUTTI_INTEGRITY_ON, exchange_over_a_flip), 0);
    fault_time_print_none("flip");
}

static void it_goes_through_where_nobody_looks(void **state)
{
    (void)state;
    assert_int_equal(run_on("2", 2, TUTTI_INTEGRITY_DEFAULT, exchange_unchecked_over_a_flip), 0);
}

static void communicators_made_from_others_may_check_and_inherit_it(void **state)
{
    (void)state;
    assert_int_equal(run_on("2", 3, TUTTI_INTEGRITY_OFF, exchange_in_a_checked_copy), 0);
}

static void expect_corruption(const char *hosts, int size, enum tutti_integrity integrity,
                              ranks_function *function)
{
    memset(moment, 0, sizeof *moment);
    assert_int_equal(run_on(hosts, size, integrity, function), 0);
    fault_time_print("corrupt", atomic_load(&moment->slowest_ns));
    assert_true(atomic_load(&moment->slowest_ns) < UINT64_C(10000000000));
}

static void bits_that_always_flip_are_corruption_on_all_ranks(void **state)
{
    (void)state;
    expect_corruption("2", 2, TUTTI_INTEGRITY_NETWORK, exchange_until_corrupt);
    expect_corruption("3", 3, TUTTI_INTEGRITY_NETWORK, exchange_until_corrupt);
    expect_corruption("2", 4, TUTTI_INTEGRITY_NETWORK, exchange_until_corrupt);
    expect_corruption("2", 3, TUTTI_INTEGRITY_NETWORK, send_until_corrupt);
    expect_corruption("2", 4, TUTTI_INTEGRITY_ON, exchange_until_corrupt);
}

/* ------------------------------------------------------------------------------------ agreement */

static void ranks_that_differ_are_told_so(void **state)
{
    (void)state;
    disagreement_expect(&(struct disagreement){"TUTTI_INTEGRITY", "network", "off"});
    disagreement_expect(&(struct disagreement){"TUTTI_INTEGRITY", "network", "on"});
    disagreement_expect(&(struct disagreement){"TUTTI_INTEGRITY", "off", "on"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_flipped_bit_is_mended),
        cmocka_unit_test(it_goes_through_where_nobody_looks),
        cmocka_unit_test(communicators_made_from_others_may_check_and_inherit_it),
        cmocka_unit_test(bits_that_always_flip_are_corruption_on_all_ranks),
        cmocka_unit_test(ranks_that_differ_are_told_so),
    };
    if (map_moment() != 0) return 1;
    return CASES_RUN_AT_ONCE(tests, 3);
}
