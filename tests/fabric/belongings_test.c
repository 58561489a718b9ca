/* What a communicator over libfabric's tcp;ofi_rxm has, beside its own: little memory, which its
 * footprint tells, and descriptors that no program inherits.
 *
 * ctest: label=nosan label=once timeout=120 waits */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>

#include "tests/worlds/card_world.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 2, COUNT = 1 << 18, MORE = 3 };

static const char provider[] = "tcp;ofi_rxm";
static const size_t MIB = 1 << 20;

static size_t resident_bytes(void)
{
    size_t kib = 0;
    char line[256];
    FILE *const file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "RssAnon: %zu kB", &kib) == 1) break;
    if (file != NULL) fclose(file);
    return kib * 1024;
}

static int use(struct tutti_comm *comm, int rank)
{
    static float numbers[COUNT];
    for (size_t count = 1; count <= COUNT; count *= 8)
        RANKS_EXPECT(tutti_allreduce(numbers, numbers, count, TUTTI_FLOAT32, TUTTI_SUM, comm) ==
                     TUTTI_OK);
    return 0;
}

/* The first communicator also takes what a process has once. */
static int measure(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)rank, (void)size, (void)seed, (void)context;
    struct tutti_comm *more[MORE];
    struct tutti_footprint footprint = {.size_bytes = sizeof footprint};
    if (use(comm, rank) != 0) return 1;
    const size_t before = resident_bytes();
    for (int i = 0; i < MORE; i++) {
        RANKS_EXPECT(tutti_comm_dup(comm, NULL, &more[i]) == TUTTI_OK);
        if (use(more[i], rank) != 0) return 1;
    }
    const size_t each = (resident_bytes() - before) / MORE;
    RANKS_EXPECT(tutti_comm_footprint(more[0], &footprint) == TUTTI_OK);
    for (int i = 0; i < MORE; i++) RANKS_EXPECT(tutti_comm_free(more[i]) == TUTTI_OK);
    if (rank == 0)
        print_message("%.1f MiB for each communicator; its footprint says %.1f MiB\n",
                      (double)each / (double)MIB, (double)footprint.private_bytes / (double)MIB);
    RANKS_EXPECT(each > MIB); /* it measures something */
    RANKS_EXPECT(each < 20 * MIB);
    RANKS_EXPECT(footprint.private_bytes > each / 4 * 3 && footprint.private_bytes < 2 * each);
    return 0;
}

static void a_communicator_is_small_and_says_how_small(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .deadline_ms = 100000};
    assert_int_equal(ranks_run(RANKS, &options, measure, NULL), 0);
}

/* Those that a program which this process executes would have, too. */
static int count_inherited(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        const int flags = fcntl(fd, F_GETFD);
        count += flags >= 0 && (flags & FD_CLOEXEC) == 0;
    }
    return count;
}

static int compare_inherited(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)unused, (void)seed;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm, *more;
    options.rank = rank;
    options.size = size;
    options.id = context;
    options.timeout_ns = options.init_timeout_ns = UINT64_C(60000000000);
    const int before = count_inherited();
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    RANKS_EXPECT(count_inherited() == before);
    if (use(comm, rank) != 0) return 1;
    RANKS_EXPECT(count_inherited() == before);
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &more) == TUTTI_OK);
    if (use(more, rank) != 0) return 1;
    RANKS_EXPECT(count_inherited() == before);
    RANKS_EXPECT(tutti_comm_free(more) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void no_program_inherits_a_descriptor(void **state)
{
    (void)state;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 100000, .without_comm = true};
    struct tutti_id id;
    assert_int_equal(tutti_id_create(&id), TUTTI_OK);
    assert_int_equal(ranks_run(RANKS, &options, compare_inherited, &id), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_communicator_is_small_and_says_how_small),
        cmocka_unit_test(no_program_inherits_a_descriptor),
    };
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    setenv("TUTTI_FABRIC", provider, 1);
    if (!card_world_has_fabric(provider)) {
        print_message("skipped: provider %s of libfabric is not here\n", provider);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
