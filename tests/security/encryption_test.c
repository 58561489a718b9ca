/* What goes between hosts, encrypted and not. Every connection between ranks goes through a proxy
 * in the process that makes it, which looks for a text that is in the users' data, and can change a
 * byte.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/patient.h"
#include "tests/security/disagreement.h"
#include "tests/worlds/proxy.h"
#include "tests/worlds/ranks.h"
#include "tutti/tutti.h"

enum { VISITOR = 1, BYTES = 1 << 20, ROUNDS = 3, CHANGED_BYTES_MIN = 4096 };
static const char text[] = "what the ranks of this job tell each other and nobody else";

/* ----------------------------------------------------------------------------------- on the way */

static atomic_int seen, changes_left;

static void look(char *bytes, size_t count, bool is_answer)
{
    if (memmem(bytes, count, text, sizeof text) != NULL) atomic_fetch_add(&seen, 1);
    if (!is_answer && count >= CHANGED_BYTES_MIN && atomic_load(&changes_left) > 0 &&
        atomic_fetch_sub(&changes_left, 1) > 0)
        bytes[count / 2] ^= 4;
}

/* Ranks that end at once would take what is still on its way through their proxies with them. */
static bool is_direct;

/* Takes the place of the C library's: all that is called by this program comes here. */
int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t bytes)
{
    const struct sockaddr *address = to.__sockaddr__;
    struct sockaddr_in at;
    if (address->sa_family == AF_INET && !is_direct && proxy_start(address, look, &at))
        return (int)syscall(SYS_connect, fd, &at, (socklen_t)sizeof at);
    return (int)syscall(SYS_connect, fd, address, bytes);
}

/* ---------------------------------------------------------------------------------------- ranks */

/* Every rank sends the text, again and again, to every other one. */
static int exchange(struct tutti_comm *comm, int rank)
{
    const size_t bytes = (size_t)tutti_comm_size(comm) * BYTES;
    char *const send = malloc(bytes), *const recv = malloc(bytes);
    RANKS_EXPECT(send != NULL && recv != NULL);
    for (size_t i = 0; i < bytes; i++) send[i] = text[i % BYTES % sizeof text];
    for (int round = 0; round < ROUNDS; round++) {
        memset(recv, 0, bytes);
        RANKS_EXPECT(tutti_alltoall(send, recv, BYTES, TUTTI_UINT8, comm) == TUTTI_OK);
        RANKS_EXPECT(memcmp(send, recv, bytes) == 0);
    }
    free(send);
    free(recv);
    return 0;
}

static int be_seen(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(exchange(comm, rank) == 0);
    RANKS_EXPECT(rank != VISITOR || atomic_load(&seen) > 0);
    return 0;
}

static int be_unseen(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(exchange(comm, rank) == 0);
    RANKS_EXPECT(atomic_load(&seen) == 0);
    return 0;
}

static int be_unseen_in_a_copy(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *copy, *copy_of_copy;
    options.encryption = TUTTI_ENCRYPTION_ON;
    RANKS_EXPECT(tutti_comm_dup(comm, &options, &copy) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_dup(copy, NULL, &copy_of_copy) == TUTTI_OK); /* inherits */
    RANKS_EXPECT(exchange(copy_of_copy, rank) == 0);
    RANKS_EXPECT(atomic_load(&seen) == 0);
    RANKS_EXPECT(tutti_comm_free(copy_of_copy) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    return 0;
}

static int exchange_over_changes(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    (void)size, (void)seed, (void)context;
    enum { CHANGES = 5 };
    if (rank == VISITOR) atomic_store(&changes_left, CHANGES);
    RANKS_EXPECT(exchange(comm, rank) == 0);
    RANKS_EXPECT(rank != VISITOR || atomic_load(&changes_left) == 0);
    return 0;
}

static int run_on(const char *hosts, int size, enum tutti_encryption encryption,
                  ranks_function *function)
{
    struct tutti_comm_options comm_options = patient;
    comm_options.encryption = encryption;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .comm_options = &comm_options};
    setenv("TUTTI_TEST_HOSTS", hosts, 1);
    return ranks_run(size, &options, function, NULL);
}

static void what_is_not_encrypted_is_seen(void **state)
{
    (void)state;
    assert_int_equal(run_on("2", 2, TUTTI_ENCRYPTION_DEFAULT, be_seen), 0);
}

static void what_is_encrypted_is_not(void **state)
{
    (void)state;
    assert_int_equal(run_on("2", 2, TUTTI_ENCRYPTION_ON, be_unseen), 0);
    assert_int_equal(run_on("3", 4, TUTTI_ENCRYPTION_ON, be_unseen), 0);
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    assert_int_equal(run_on("1", 3, TUTTI_ENCRYPTION_ON, be_unseen), 0);
    unsetenv("TUTTI_TRANSPORT");
}

static void communicators_made_from_others_may_encrypt_and_inherit_it(void **state)
{
    (void)state;
    assert_int_equal(run_on("2", 3, TUTTI_ENCRYPTION_OFF, be_unseen_in_a_copy), 0);
}

static void what_is_changed_on_the_way_comes_again(void **state)
{
    (void)state;
    setenv("TUTTI_LOG", "off", 1);
    assert_int_equal(run_on("2", 2, TUTTI_ENCRYPTION_ON, exchange_over_changes), 0);
    unsetenv("TUTTI_LOG");
}

/* ------------------------------------------------------------------------------------ agreement */

static int encrypt_without_a_secret(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                    void *context)
{
    (void)comm, (void)seed, (void)context;
    unsetenv("TUTTI_SECRET");
    setenv("TUTTI_ENCRYPTION", "on", 1);
    return disagreement_be_refused(rank, size, "TUTTI_SECRET_FILE");
}

static void ranks_that_differ_are_told_so(void **state)
{
    (void)state;
    is_direct = true;
    disagreement_expect(&(struct disagreement){"TUTTI_ENCRYPTION", "on", "off"});
}

static int run_without_secret(const char *hosts)
{
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .without_comm = true};
    is_direct = true;
    setenv("TUTTI_TEST_HOSTS", hosts, 1);
    return ranks_run(2, &options, encrypt_without_a_secret, NULL);
}

static void without_a_secret_nothing_is_encrypted_in_appearance_only(void **state)
{
    (void)state;
    setenv("TUTTI_LOG", "off", 1);
    assert_int_equal(run_without_secret("2"), 0);
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    assert_int_equal(run_without_secret("1"), 0);
    unsetenv("TUTTI_TRANSPORT");
    unsetenv("TUTTI_LOG");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_encrypted_is_seen),
        cmocka_unit_test(what_is_encrypted_is_not),
        cmocka_unit_test(communicators_made_from_others_may_encrypt_and_inherit_it),
        cmocka_unit_test(what_is_changed_on_the_way_comes_again),
        cmocka_unit_test(ranks_that_differ_are_told_so),
        cmocka_unit_test(without_a_secret_nothing_is_encrypted_in_appearance_only),
    };
    setenv("TUTTI_SECRET", "only the ranks of this test know it", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
