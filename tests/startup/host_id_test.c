/* TUTTI_HOSTID alone makes several hosts of one: ranks with different values share no memory and
 * talk over TCP, whatever launcher has started them, whatever it says of hosts, and however they
 * meet. Ranks without a value are together.
 *
 * ctest: label=notsan label=once timeout=300
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "tests/kit/belongings.h"
#include "tests/kit/patient.h"
#include "tests/worlds/launched_rank.h"

enum { RANKS = 4 };

struct scene {
    const char *ids[RANKS]; /* NULL: none */
    int host_count;         /* that they make */
    bool is_launched; /* by what says that all ranks are on this host; else they meet by an id */
    struct tutti_id id;
};

static int sum_up(struct tutti_comm *comm, int rank)
{
    enum { COUNT = 30000 };
    static int32_t data[COUNT];
    const int size = tutti_comm_size(comm), own = tutti_comm_rank(comm);
    for (int i = 0; i < COUNT; i++) data[i] = own + i;
    RANKS_EXPECT(tutti_allreduce(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    for (int i = 0; i < COUNT; i++) RANKS_EXPECT(data[i] == size * (size - 1) / 2 + size * i);
    return 0;
}

static bool are_together(const struct scene *scene, int a, int b)
{
    const char *const one = scene->ids[a], *const other = scene->ids[b];
    return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

static int look_at(const struct scene *scene, struct tutti_comm *comm, int rank, int size)
{
    if (scene->host_count == 1) {
        RANKS_EXPECT(comm->team.members.hosts == NULL);
        return 0;
    }
    RANKS_EXPECT(comm->team.members.hosts != NULL && comm->health.network != NULL);
    RANKS_EXPECT(comm->team.members.hosts->host_count == scene->host_count);
    for (int r = 0; r < size; r++)
        RANKS_EXPECT(team_shares_host(&comm->team, r) == are_together(scene, rank, r));
    for (int r = 0; r < size; r++) /* this machine's cores are those of all of them */
        RANKS_EXPECT(comm->team.members.site.cores_of[r] == 0);
    return 0;
}

static int be_on_hosts(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    (void)none, (void)seed;
    const struct scene *scene = context;
    struct tutti_comm_options options = patient;
    struct tutti_comm *comm, *half;
    const int before = belongings_descriptors();
    if (scene->ids[rank] != NULL)
        setenv("TUTTI_HOSTID", scene->ids[rank], 1);
    else
        unsetenv("TUTTI_HOSTID");
    if (scene->is_launched) {
        launched_rank_become(&(struct launched_rank){
            .rank = rank, .size = size, .hosts = 1, .port = 1024 + (int)getppid() % 60000});
    } else {
        options.rank = rank;
        options.size = size;
        options.id = &scene->id;
    }
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    if (look_at(scene, comm, rank, size) != 0 || sum_up(comm, rank) != 0) return 1;
    /* A communicator derived from it keeps its hosts, whatever the variable says now. */
    setenv("TUTTI_HOSTID", rank % 2 == 0 ? "even" : "odd", 1);
    RANKS_EXPECT(tutti_comm_split(comm, rank / 2, rank, NULL, &half) == TUTTI_OK);
    RANKS_EXPECT((half->team.members.hosts == NULL) == are_together(scene, rank, rank ^ 1));
    if (sum_up(half, rank) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(half) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    RANKS_EXPECT(belongings_descriptors() == before);
    return 0;
}

static void run(struct scene scene)
{
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .without_comm = true, .deadline_ms = 60000};
    for (int launched = 0; launched < 2; launched++) {
        scene.is_launched = launched != 0;
        if (!scene.is_launched) assert_int_equal(tutti_id_create(&scene.id), TUTTI_OK);
        assert_int_equal(ranks_run(RANKS, &options, be_on_hosts, &scene), 0);
    }
}

static void ranks_with_different_ones_are_on_different_hosts(void **state)
{
    (void)state;
    run((struct scene){.ids = {"a", "b", "a", "b"}, .host_count = 2});
    run((struct scene){.ids = {"a", "b", "c", "d"}, .host_count = 4});
}

static void ranks_without_one_are_on_a_host_of_their_own(void **state)
{
    (void)state;
    run((struct scene){.ids = {NULL, "b", NULL, NULL}, .host_count = 2});
    run((struct scene){.ids = {"a", NULL, "b", NULL}, .host_count = 3});
}

static void ranks_with_the_same_are_on_one_host(void **state)
{
    (void)state;
    run((struct scene){.ids = {"a", "a", "a", "a"}, .host_count = 1});
    run((struct scene){.ids = {NULL, NULL, NULL, NULL}, .host_count = 1});
}

static void it_goes_with_tcp_for_everything(void **state)
{
    (void)state;
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    run((struct scene){.ids = {"a", "b", "a", "b"}, .host_count = 2});
    unsetenv("TUTTI_TRANSPORT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_with_different_ones_are_on_different_hosts),
        cmocka_unit_test(ranks_without_one_are_on_a_host_of_their_own),
        cmocka_unit_test(ranks_with_the_same_are_on_one_host),
        cmocka_unit_test(it_goes_with_tcp_for_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
