#include "tests/security/disagreement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worlds/launched_rank.h"

int disagreement_be_refused(int rank, int size, const char *word)
{
    struct tutti_comm *comm;
    if (getenv("TUTTI_HOSTID") == NULL) /* one host: nobody has said who is who */
        launched_rank_become(&(struct launched_rank){
            .rank = rank, .size = size, .hosts = 1, .port = 1024 + (int)getppid() % 60000});
    setenv("TUTTI_INIT_TIMEOUT", "60s", 1);
    const enum tutti_status status = tutti_comm_create(NULL, &comm);
    if (status == TUTTI_OK) tutti_comm_free(comm);
    RANKS_EXPECT(status == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), word) != NULL);
    return 0;
}

struct scene {
    const struct disagreement *disagreement;
    int odd_rank;
};

static int differ(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    (void)none, (void)seed;
    const struct scene *const scene = context;
    const struct disagreement *const of = scene->disagreement;
    setenv(of->variable, rank == scene->odd_rank ? of->odd : of->common, 1);
    return disagreement_be_refused(rank, size, of->variable);
}

void disagreement_expect(const struct disagreement *disagreement)
{
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .without_comm = true};
    setenv("TUTTI_LOG", "off", 1); /* failures are what is expected here */
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    for (int odd = 0; odd < 4; odd++)
        assert_int_equal(ranks_run(4, &options, differ, &(struct scene){disagreement, odd}), 0);
    setenv("TUTTI_TEST_HOSTS", "1", 1);
    assert_int_equal(ranks_run(3, &options, differ, &(struct scene){disagreement, 1}), 0);
    unsetenv("TUTTI_LOG");
}
