/* Ranks of other builds: the parts of the library that say a version are compiled once more here,
 * with one that each rank chooses. Ranks whose minor versions differ are one job; where the major
 * one does, nobody starts, and whoever called on the other names both.
 *
 * ctest: label=notsan label=once waits
 */
#include "tutti/tutti.h"

static unsigned major_version = TUTTI_VERSION_MAJOR, minor_version = TUTTI_VERSION_MINOR;
#undef TUTTI_VERSION_MAJOR
#undef TUTTI_VERSION_MINOR
#define TUTTI_VERSION_MAJOR major_version
#define TUTTI_VERSION_MINOR minor_version

/* These take the place of the library's own. */
#include "connect/hello.c"
#define MAGIC MAGIC_OF_MEETINGS
#include "bootstrap/rendezvous.c"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/kit/cases.h"
#include "tests/kit/fault_time.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 3 };

struct skew {
    int victim;
    unsigned major_step, minor_step; /* its version, beyond that of the others */
    struct tutti_id id;              /* of one host */
    /* Of all ranks that are told of another version: on one host as soon as they call, else after
     * the start-up deadline. */
    _Atomic uint64_t *slowest_ns;
};

static int join_with_skew(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    (void)none, (void)seed;
    const struct skew *skew = context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    char own[24], other[24];
    const uint64_t begin_ns = clock_now_ns();
    options.init_timeout_ns = skew->major_step == 0 ? 30000000000u : 2000000000u;
    if (!ranks_are_on_hosts()) {
        options.rank = rank;
        options.size = size;
        options.id = &skew->id;
    }
    snprintf(own, sizeof own, "%u.", major_version);
    snprintf(other, sizeof other, "%u.", major_version + skew->major_step);
    if (rank == skew->victim) {
        major_version += skew->major_step;
        minor_version += skew->minor_step;
    }
    const enum tutti_status status = tutti_comm_create(&options, &comm);
    const uint64_t took_ns = clock_now_ns() - begin_ns;
    if (skew->major_step == 0) {
        int32_t sum = 1;
        RANKS_EXPECT(status == TUTTI_OK);
        RANKS_EXPECT(tutti_allreduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
        RANKS_EXPECT(sum == size);
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
        return 0;
    }
    /* Whoever calls on another version is told so; who was called misses ranks, and its log names
     * both versions. */
    const bool is_told = rank != 0 && (rank == skew->victim || skew->victim == 0);
    fprintf(stderr, "rank %d: %s after %.2f s: %s\n", rank, tutti_status_name(status),
            (double)took_ns * 1e-9, tutti_error_message());
    RANKS_EXPECT(comm == NULL);
    const uint64_t late_ns = ranks_are_on_hosts() ? options.init_timeout_ns : 0;
    if (status == TUTTI_VERSION)
        fault_time_raise(skew->slowest_ns, fault_time_beyond(took_ns, late_ns));
    RANKS_EXPECT(status == TUTTI_VERSION || (!is_told && status == TUTTI_INIT_TIMEOUT));
    if (status == TUTTI_VERSION)
        RANKS_EXPECT(strstr(tutti_error_message(), own) != NULL &&
                     strstr(tutti_error_message(), other) != NULL);
    return 0;
}

/* On one host, and on three, each time another rank. */
static void run_skewed(unsigned major_step, unsigned minor_step)
{
    if (ranks_are_threads()) skip();
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .without_comm = true};
    _Atomic uint64_t *const slowest_ns =
        mmap(NULL, sizeof *slowest_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(slowest_ns, MAP_FAILED);
    for (int hosts = 1; hosts <= 3; hosts += 2) {
        for (int victim = 0; victim < 2; victim++) {
            struct skew skew = {victim, major_step, minor_step, {{0}}, slowest_ns};
            setenv("TUTTI_TEST_HOSTS", hosts == 1 ? "0" : "3", 1);
            assert_int_equal(tutti_id_create(&skew.id), TUTTI_OK);
            atomic_store(slowest_ns, 0);
            assert_int_equal(ranks_run(RANKS, &options, join_with_skew, &skew), 0);
            if (major_step == 0)
                fault_time_print_none("minor");
            else
                fault_time_print(hosts == 1 ? "version" : "version_far", atomic_load(slowest_ns));
        }
    }
    munmap(slowest_ns, sizeof *slowest_ns);
}

static void another_minor_version_joins(void **state)
{
    (void)state;
    run_skewed(0, 1);
}

static void another_major_version_is_refused_by_name(void **state)
{
    (void)state;
    run_skewed(1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_minor_version_joins),
        cmocka_unit_test(another_major_version_is_refused_by_name),
    };
    setenv("TUTTI_SECRET", "a secret of these tests alone", 1);
    return CASES_RUN_AT_ONCE(tests, 4);
}
