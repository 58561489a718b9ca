/* Ids that carry where to meet: ranks that take themselves to be on several hosts and know nothing
 * but an id or a store.
 *
 * With arguments it is one rank of a job on real hosts, for tests/hosts/cluster_test.sh:
 *
 *     tests_startup_id_hosts_test FILE RANK SIZE     rank 0 makes an id and leaves it in the file
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "comm/id.h"
#include "tests/kit/belongings.h"
#include "tests/worlds/launched_rank.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 4, HOSTS = 2, IDS = 4 };

/* Of all processes. */
struct notice {
    struct tutti_id ids[IDS];
    atomic_int is_there[IDS];
    int port;
};

static struct notice *make_notice(void)
{
    struct notice *shared = ranks_share(sizeof *shared);
    shared->port = 20000 + getpid() % 8000;
    return shared;
}

static void be_on_host(int host)
{
    char number[16];
    snprintf(number, sizeof number, "%d", host);
    setenv("TUTTI_HOSTID", number, 1);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 1);
}

static void wait_for(atomic_int *flag, int value)
{
    while (atomic_load(flag) < value) ranks_nap_ms(1);
}

static int sum_up(struct tutti_comm *comm, int rank)
{
    int64_t value = tutti_comm_rank(comm) + 1;
    const int64_t size = tutti_comm_size(comm);
    RANKS_EXPECT(tutti_allreduce(&value, &value, 1, TUTTI_INT64, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(value == size * (size + 1) / 2);
    return 0;
}

static struct tutti_comm_options options_of(int rank, int size, const struct tutti_id *id)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.id = id;
    options.init_timeout_ns = 40000000000u;
    return options;
}

/* Rank 0 makes the id, the others wait for it; all meet. */
static int meet(struct notice *shared, int number, int rank, int size, struct tutti_comm **comm)
{
    if (rank == 0) {
        RANKS_EXPECT(tutti_id_create(&shared->ids[number]) == TUTTI_OK);
        atomic_store(&shared->is_there[number], 1);
    }
    wait_for(&shared->is_there[number], 1);
    const struct tutti_comm_options options = options_of(rank, size, &shared->ids[number]);
    RANKS_EXPECT(tutti_comm_create(&options, comm) == TUTTI_OK);
    return sum_up(*comm, rank);
}

static int meet_on_two_hosts(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    struct notice *shared = context;
    struct tutti_comm *half;
    (void)seed;
    be_on_host(rank % HOSTS);
    if (rank == 0) setenv("TUTTI_ID_HOSTS", "many", 1);
    if (meet(shared, 0, rank, size, &comm) != 0) return 1;
    RANKS_EXPECT(comm->team.members.hosts != NULL && comm->team.members.hosts->host_count == HOSTS);
    RANKS_EXPECT(tutti_comm_split(comm, rank / 2, rank, NULL, &half) == TUTTI_OK);
    if (sum_up(half, rank) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(half) == TUTTI_OK);

    if (rank == 0) { /* an id is used once */
        struct tutti_comm *again;
        const struct tutti_comm_options options = options_of(0, size, &shared->ids[0]);
        RANKS_EXPECT(tutti_comm_create(&options, &again) == TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(strstr(tutti_error_message(), "used once") != NULL);
    }
    struct tutti_comm *second; /* while the first one goes on; the door is open already */
    if (meet(shared, 1, rank, size, &second) != 0 || sum_up(comm, rank) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    if (sum_up(second, rank) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(second) == TUTTI_OK);
    return 0;
}

static void run(ranks_function *function, struct notice *shared)
{
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .without_comm = true};
    assert_int_equal(ranks_run(RANKS, &options, function, shared), 0);
    munmap(shared, sizeof *shared);
}

static void ranks_of_two_hosts_meet_by_an_id(void **state)
{
    (void)state;
    run(meet_on_two_hosts, make_notice());
}

/* -------------------------------------------------------------------------------------- a store */

static int keep(void *context, const char *key, const void *value, size_t value_bytes)
{
    struct notice *shared = context;
    (void)key;
    if (value_bytes != sizeof shared->ids[0]) return 1;
    memcpy(&shared->ids[0], value, value_bytes);
    atomic_store(&shared->is_there[0], 1);
    return 0;
}

static int give(void *context, const char *key, void *value, size_t value_bytes, uint64_t timeout_ns)
{
    struct notice *shared = context;
    (void)key;
    (void)timeout_ns;
    wait_for(&shared->is_there[0], 1);
    memcpy(value, &shared->ids[0], value_bytes);
    return 0;
}

static int meet_through_a_store(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    const struct tutti_store store = {sizeof store, keep, give, context};
    struct tutti_comm_options options = options_of(rank, size, NULL);
    (void)seed;
    be_on_host(rank % HOSTS);
    setenv("TUTTI_ID_HOSTS", "many", 1);
    options.store = &store;
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    RANKS_EXPECT(comm->team.members.hosts != NULL && comm->team.members.hosts->host_count == HOSTS);
    if (sum_up(comm, rank) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void ranks_of_two_hosts_meet_through_a_store(void **state)
{
    (void)state;
    run(meet_through_a_store, make_notice());
}

/* ------------------------------------------------------------------------------------- one host */

static int meet_on_one_host(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)seed;
    be_on_host(0);
    setenv("TUTTI_ID_HOSTS", "many", 1);
    const int before = belongings_descriptors();
    if (meet(context, 0, rank, size, &comm) != 0) return 1;
    RANKS_EXPECT(comm->team.members.hosts == NULL && comm->health.network == NULL);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    RANKS_EXPECT(belongings_descriptors() == before); /* the door is closed */
    return 0;
}

static void an_id_for_many_hosts_does_for_one(void **state)
{
    (void)state;
    run(meet_on_one_host, make_notice());
}

static void an_id_for_one_host_opens_nothing(void **state)
{
    (void)state;
    struct tutti_id id;
    struct id_content content;
    const int before = belongings_descriptors();
    assert_int_equal(tutti_id_create(&id), TUTTI_OK);
    assert_int_equal(belongings_descriptors(), before);
    id_read(&id, &content);
    assert_false(id_spans_hosts(&content));
}

static void an_id_for_one_host_says_so_on_another(void **state)
{
    (void)state;
    struct tutti_id id;
    struct id_content content;
    struct tutti_comm *comm;
    assert_int_equal(tutti_id_create(&id), TUTTI_OK);
    id_read(&id, &content);
    content.machine++; /* as if this were elsewhere */
    memcpy(&id, &content, sizeof content);
    const struct tutti_comm_options options = options_of(1, 2, &id);
    assert_int_equal(tutti_comm_create(&options, &comm), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), content.host_name));
    assert_non_null(strstr(tutti_error_message(), "TUTTI_ID_HOSTS=many"));
}

static void bytes_of_any_kind_are_a_key(void **state)
{
    (void)state;
    struct tutti_id id;
    struct id_content content;
    for (int kind = 0; kind < 3; kind++) {
        assert_int_equal(tutti_id_create(&id), TUTTI_OK);
        id_read(&id, &content);
        if (kind == 0) content.magic++;
        if (kind == 1) content.address.family = AF_UNIX;
        if (kind == 2) memset(content.host_name, 'x', sizeof content.host_name);
        memcpy(&id, &content, sizeof content);
        id_read(&id, &content);
        assert_false(id_spans_hosts(&content));
        assert_int_equal(content.machine, 0);
        assert_memory_equal(&content.key, &id, sizeof content.key);
    }
}

/* -------------------------------------------------------------------------------------- refused */

/* Whether the process has a listening socket. */
static bool listens(void)
{
    for (int fd = 0; fd < 100; fd++) {
        int is = 0;
        socklen_t bytes = sizeof is;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &bytes) == 0 && is != 0) return true;
    }
    return false;
}

static int be_elsewhere(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct notice *shared = context;
    (void)seed;
    if (rank == 1) { /* a child of the maker has not got its door either, nor keeps it open */
        RANKS_EXPECT(!listens());
        const struct tutti_comm_options options = options_of(0, size, &shared->ids[0]);
        RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(strstr(tutti_error_message(), "process of rank 0") != NULL);
    }
    return 0;
}

static void rank_0_has_to_be_where_the_id_was_made(void **state)
{
    (void)state;
    struct notice *shared = make_notice();
    setenv("TUTTI_ID_HOSTS", "many", 1);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 1);
    assert_false(listens());
    assert_int_equal(tutti_id_create(&shared->ids[0]), TUTTI_OK);
    assert_true(listens());
    unsetenv("TUTTI_ID_HOSTS");
    unsetenv("TUTTI_SOCKET_IFNAME");
    run(be_elsewhere, shared);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct tutti_id id;
    setenv("TUTTI_ID_HOSTS", "3", 1);
    assert_int_equal(tutti_id_create(&id), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "TUTTI_ID_HOSTS=3"));
    unsetenv("TUTTI_ID_HOSTS");
}

/* ---------------------------------------------------------------------------- beside a launcher */

/* A launcher that says several hosts needs no word: some of the ranks meet by an id, then all as it
 * says. */
static int meet_some_and_then_all(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                  void *context)
{
    struct notice *shared = context;
    (void)seed;
    be_on_host(rank % HOSTS);
    launched_rank_become(
        &(struct launched_rank){.rank = rank, .size = size, .hosts = HOSTS, .port = shared->port});
    if (rank == 0 ||
        rank == 3) { /* rank 0, whose door has to be at MASTER_PORT later, is the second one */
        if (meet(shared, 0, rank == 3 ? 0 : 1, 2, &comm) != 0) return 1;
        RANKS_EXPECT(comm->team.members.hosts != NULL &&
                     comm->team.members.hosts->host_count == HOSTS);
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_comm_create(NULL, &comm) == TUTTI_OK);
    RANKS_EXPECT(comm->team.members.hosts != NULL && comm->team.members.hosts->host_count == HOSTS);
    if (sum_up(comm, rank) != 0) return 1;
    struct tutti_comm *
        reversed; /* the launcher's size, and other ranks; the middle of three would be as it says */
    if (meet(shared, 1, size - 1 - rank, size, &reversed) != 0) return 1;
    RANKS_EXPECT(reversed->team.members.hosts != NULL);
    RANKS_EXPECT(tutti_comm_free(reversed) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void ids_and_a_launcher_do_not_disturb_each_other(void **state)
{
    (void)state;
    run(meet_some_and_then_all, make_notice());
}

/* -------------------------------------------------------------------------------- on real hosts */

static int leave_id(const char *path, struct tutti_id *id)
{
    const int rank = 0;
    char new[4096];
    snprintf(new, sizeof new, "%s.new", path);
    RANKS_EXPECT(tutti_id_create(id) == TUTTI_OK);
    FILE *file = fopen(new, "we");
    if (file == NULL || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) != 0) return 1;
    return rename(new, path);
}

static int find_id(const char *path, struct tutti_id *id)
{
    FILE *file;
    while ((file = fopen(path, "re")) == NULL) ranks_nap_ms(10);
    const size_t count = fread(id, sizeof *id, 1, file);
    return fclose(file) == 0 && count == 1 ? 0 : 1;
}

static int be_rank(const char *path, int rank, int size)
{
    struct tutti_id id;
    struct tutti_comm *comm;
    if ((rank == 0 ? leave_id(path, &id) : find_id(path, &id)) != 0) return 1;
    struct tutti_comm_options options = options_of(rank, size, &id);
    options.init_timeout_ns = 0; /* as the environment says */
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    const int host_count =
        comm->team.members.hosts != NULL ? comm->team.members.hosts->host_count : 1;
    if (sum_up(comm, rank) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    printf("rank %d, hosts %d: all right\n", rank, host_count);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4) return be_rank(argv[1], atoi(argv[2]), atoi(argv[3]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_two_hosts_meet_by_an_id),
        cmocka_unit_test(ranks_of_two_hosts_meet_through_a_store),
        cmocka_unit_test(an_id_for_many_hosts_does_for_one),
        cmocka_unit_test(an_id_for_one_host_opens_nothing),
        cmocka_unit_test(an_id_for_one_host_says_so_on_another),
        cmocka_unit_test(bytes_of_any_kind_are_a_key),
        cmocka_unit_test(ids_and_a_launcher_do_not_disturb_each_other),
        cmocka_unit_test(rank_0_has_to_be_where_the_id_was_made),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
