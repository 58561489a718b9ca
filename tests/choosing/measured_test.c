/* What a communicator over several hosts measures as it is made is what its ranks, all alike,
 * choose algorithms by; so do communicators that come from it. Where somebody calibrated, or wants
 * no measuring, nothing is measured.
 *
 * ctest: timeout=60 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "model/between.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 4 };

static const struct calibration *numbers_of(const struct tutti_comm *comm)
{
    return comm->team.members.site.calibration;
}

static enum calibration_known known(const struct tutti_comm *comm, enum between_number number)
{
    return numbers_of(comm)->numbers[between_parameter(number)].known;
}

static int all_have(struct tutti_comm *comm, int rank, uint64_t fingerprint)
{
    uint64_t least = fingerprint, most = fingerprint;
    RANKS_EXPECT(tutti_allreduce(&least, &least, 1, TUTTI_UINT64, TUTTI_MIN, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(&most, &most, 1, TUTTI_UINT64, TUTTI_MAX, comm) == TUTTI_OK);
    RANKS_EXPECT(least == most);
    return 0;
}

/* The numbers stay as long as one of the communicators. */
static int outlives(struct tutti_comm *comm, int rank)
{
    const uint64_t fingerprint = calibration_fingerprint(numbers_of(comm));
    struct tutti_comm *first, *second;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &first) == TUTTI_OK);
    RANKS_EXPECT(numbers_of(first) == numbers_of(comm));
    RANKS_EXPECT(tutti_comm_split(first, 0, -rank, NULL, &second) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(first) == TUTTI_OK);
    RANKS_EXPECT(calibration_fingerprint(numbers_of(second)) == fingerprint);
    if (all_have(second, rank, fingerprint) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(second) == TUTTI_OK);
    return 0;
}

/* tutti-trace compare predicts with what dumps have. */
static int dumps_have(struct tutti_comm *comm, int rank, const char *what)
{
    char folder[] = "/tmp/tutti-measured-XXXXXX", command[512];
    RANKS_EXPECT(mkdtemp(folder) != NULL);
    const enum tutti_status status = tutti_trace_dump(comm, folder);
    snprintf(command, sizeof command, "grep -q '%s' %s/tutti-*-rank%d.json", what, folder, rank);
    const int found = system(command);
    snprintf(command, sizeof command, "rm -r %s", folder);
    RANKS_EXPECT(system(command) == 0);
    RANKS_EXPECT(status == TUTTI_OK && found == 0);
    return 0;
}

static int measures(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(known(comm, BETWEEN_CARD_BYTE) == CALIBRATION_MEASURED);
    RANKS_EXPECT(known(comm, BETWEEN_LATENCY_RACK) == CALIBRATION_MEASURED);
    RANKS_EXPECT(known(comm, BETWEEN_UPLINK_BYTE) == CALIBRATION_ASSUMED); /* there are no racks */
    RANKS_EXPECT(known(comm, BETWEEN_LATENCY_CLUSTER) == CALIBRATION_ASSUMED);
    if (all_have(comm, rank, calibration_fingerprint(numbers_of(comm))) != 0) return 1;
    if (dumps_have(comm, rank, "measured.: {.*card_byte_fs.: [1-9]") != 0) return 1;
    return outlives(comm, rank);
}

static int measures_nothing(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)rank, (void)size, (void)seed, (void)context;
    for (unsigned i = 0; i < BETWEEN_NUMBERS; i++)
        RANKS_EXPECT(known(comm, i) == CALIBRATION_ASSUMED);
    return 0;
}

static void run(const char *hosts, const char *probe, const char *calibration,
                ranks_function *function)
{
    const struct ranks_options options = {.kind = RANKS_PROCESSES};
    assert_int_equal(setenv("TUTTI_TEST_HOSTS", hosts, 1), 0);
    assert_int_equal(setenv("TUTTI_PROBE", probe, 1), 0);
    assert_int_equal(setenv("XDG_CACHE_HOME", "/nowhere", 1), 0);
    unsetenv("TUTTI_CALIBRATION");
    if (calibration != NULL) setenv("TUTTI_CALIBRATION", calibration, 1);
    assert_int_equal(ranks_run(RANKS, &options, function, NULL), 0);
}

static void hosts_choose_by_what_they_measured(void **state)
{
    (void)state;
    run("2", "1", NULL, measures);
    run("3", "1", NULL, measures); /* in each round one sits out */
}

static void who_wants_no_measuring_gets_none(void **state)
{
    (void)state;
    run("2", "0", NULL, measures_nothing);
    run("2", "1", "shipped", measures_nothing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_choose_by_what_they_measured),
        cmocka_unit_test(who_wants_no_measuring_gets_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
