/* A rank fails while a communicator is created, after it has met the others: they fail, too, at
 * once and not at the start-up deadline, and their error names that rank, its process and what went
 * wrong there. If all have joined by then, the first call says so.
 *
 * The functions below fail on one rank (cmake/tests.cmake); or it has an option that makes no
 * sense.
 *
 * ctest: label=notsan waits */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "bootstrap/rendezvous.h"
#include "call/communicator.h"
#include "comm/knowledge.h"
#include "comm/plans.h"
#include "comm/site.h"
#include "tests/kit/cases.h"
#include "tests/kit/sanitized.h"
#include "tests/worlds/card_world.h"
#include "tests/worlds/ranks.h"
#include "tests/worlds/ways.h"
#include "transport/ofi/ofi.h"
#include "transport/open.h"
#include "transport/router/router.h"

enum { RANKS = 5, HOSTS = 2, TEXT = 512 };

static bool is_busy;        /* each core is: naps last long */
static const char *failing; /* the function that fails in this process; NULL: none */
static atomic_int *gone;    /* so many ranks have failed: then a rank that is late goes on */

static enum tutti_status fail_in(const char *function)
{
    return failing != NULL && strcmp(failing, function) == 0
               ? error_set(TUTTI_NO_SPACE, "a test wants it so")
               : TUTTI_OK;
}

enum tutti_status __real_processes_open(struct processes *, const struct rendezvous_member *, int,
                                        int, const int *);
enum tutti_status __wrap_processes_open(struct processes *, const struct rendezvous_member *, int,
                                        int, const int *);
enum tutti_status __wrap_processes_open(struct processes *processes,
                                        const struct rendezvous_member *members, int number,
                                        int size, const int *names)
{
    TRY(fail_in("processes_open"));
    return __real_processes_open(processes, members, number, size, names);
}

enum tutti_status __real_comm_agree_on_knowledge(struct tutti_comm *,
                                                 const struct rendezvous_member *);
enum tutti_status __wrap_comm_agree_on_knowledge(struct tutti_comm *,
                                                 const struct rendezvous_member *);
enum tutti_status __wrap_comm_agree_on_knowledge(struct tutti_comm *comm,
                                                 const struct rendezvous_member *members)
{
    TRY(fail_in("comm_agree_on_knowledge"));
    return __real_comm_agree_on_knowledge(comm, members);
}

enum tutti_status __real_transports_open_remote(struct transport_set *,
                                                const struct remote_options *, const int *, int);
enum tutti_status __wrap_transports_open_remote(struct transport_set *,
                                                const struct remote_options *, const int *, int);
enum tutti_status __wrap_transports_open_remote(struct transport_set *set,
                                                const struct remote_options *options,
                                                const int *numbers, int host_size_max)
{
    TRY(fail_in("transports_open_remote"));
    return __real_transports_open_remote(set, options, numbers, host_size_max);
}

enum tutti_status __real_router_create(const struct router_options *, struct transport **);
enum tutti_status __wrap_router_create(const struct router_options *, struct transport **);
enum tutti_status __wrap_router_create(const struct router_options *router_options,
                                       struct transport **transport)
{
    *transport = NULL;
    TRY(fail_in("router_create"));
    return __real_router_create(router_options, transport);
}

enum tutti_status __real_plans_prove(struct tutti_comm *);
enum tutti_status __wrap_plans_prove(struct tutti_comm *);
enum tutti_status __wrap_plans_prove(struct tutti_comm *comm)
{
    TRY(fail_in("plans_prove"));
    return __real_plans_prove(comm);
}

static void be_killed(int number)
{
    (void)number;
    kill(getpid(), SIGKILL);
}

enum tutti_status __real_comm_find_site(struct tutti_comm *);
enum tutti_status __wrap_comm_find_site(struct tutti_comm *);
enum tutti_status __wrap_comm_find_site(struct tutti_comm *comm)
{
    TRY(fail_in("comm_find_site"));
    if (failing != NULL && strcmp(failing, "doomed") == 0) { /* it waits for other hosts by then */
        signal(SIGALRM, be_killed);
        ualarm(300000, 0);
    }
    while (failing != NULL && strcmp(failing, "late") == 0 && atomic_load(gone) < RANKS - 1)
        ranks_nap_ms(1);
    return __real_comm_find_site(comm);
}

enum tutti_status __real_handle_add(struct tutti_comm *);
enum tutti_status __wrap_handle_add(struct tutti_comm *);
enum tutti_status __wrap_handle_add(struct tutti_comm *comm)
{
    TRY(fail_in("handle_add"));
    return __real_handle_add(comm);
}

enum tutti_status __real_ofi_open(const struct remote_options *, struct data_order *,
                                  struct transport **);
enum tutti_status __wrap_ofi_open(const struct remote_options *, struct data_order *,
                                  struct transport **);
enum tutti_status __wrap_ofi_open(const struct remote_options *options, struct data_order *order,
                                  struct transport **transport)
{
    TRY(fail_in("ofi_open"));
    return __real_ofi_open(options, order, transport);
}

int __real_nanosleep(const struct timespec *, struct timespec *);
int __wrap_nanosleep(const struct timespec *, struct timespec *);
int __wrap_nanosleep(const struct timespec *nap, struct timespec *left)
{
    static const struct timespec long_nap = {0, 200000000};
    const bool is_short = nap->tv_sec == 0 && nap->tv_nsec < 1000000; /* none of this test's own */
    return __real_nanosleep(is_busy && is_short ? &long_nap : nap, left);
}

/* What all ranks say. */
struct said {
    pid_t pid;
    enum tutti_status created, called;
    char text[TEXT];
};

static struct scene {
    struct tutti_id id;
    const char *failing;
    int size, victim;
    struct said ranks[RANKS];
} * scene;

/* Joins, and calls if that works. */
static int join(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.id = &scene->id;
    const bool has_mistake = rank == scene->victim && scene->failing[0] == 'T';
    options.init_timeout_ns = has_mistake ? 0 : UINT64_C(50000000000); /* 0: as the variable says */
    options.timeout_ns = UINT64_C(20000000000);
    struct said *said = &scene->ranks[rank];
    if (has_mistake) setenv(scene->failing, "nonsense", 1);
    if (rank == scene->victim) failing = scene->failing;
    said->pid = getpid();
    said->created = tutti_comm_create(&options, &comm);
    if (said->created == TUTTI_OK) said->called = tutti_barrier(comm);
    snprintf(said->text, sizeof said->text, "%s", tutti_error_message());
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    while (rank == scene->victim) { /* its process lives on */
        bool all = true;
        for (int r = 0; r < size; r++) all &= scene->ranks[r].text[0] != '\0';
        if (all) break;
        ranks_nap_ms(1);
    }
    return 0;
}

/* Whether a rank has the right error: it names the rank at fault, and the cause. */
static bool is_right(const struct said *said, int rank, enum tutti_status status, bool may_join)
{
    char who[64];
    const bool is_victim = rank == scene->victim;
    const char *const cause = scene->failing[0] == 'T' ? "nonsense" : "a test wants it so";
    snprintf(who, sizeof who, "pid %d)", (int)scene->ranks[scene->victim].pid);
    return (may_join && !is_victim ? said->created == TUTTI_OK && said->called == status
                                   : said->created == status) &&
           (is_victim || (strstr(said->text, who) != NULL && strstr(said->text, "pid 0)") == NULL)) &&
           strstr(said->text, cause) != NULL;
}

/* A rank of another host that could not be told in time finds out that the rank, or all of its
 * host, do not come. */
static bool is_missed(const struct said *said, int rank)
{
    return rank % HOSTS != scene->victim % HOSTS && said->created != TUTTI_OK &&
           strstr(said->text, "pid 0)") == NULL;
}

static bool fail_one(int victim, enum tutti_status status, bool may_join, bool may_miss)
{
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .without_comm = true};
    bool all_right = true;
    scene->victim = victim;
    memset(scene->ranks, 0, sizeof scene->ranks);
    assert_int_equal(tutti_id_create(&scene->id), TUTTI_OK);
    assert_int_equal(ranks_run(scene->size, &options, join, NULL), 0);
    for (int r = 0; r < scene->size; r++) {
        const struct said *said = &scene->ranks[r];
        if (is_right(said, r, status, may_join)) continue;
        all_right = false;
        if (!may_miss || !is_missed(said, r))
            fail_msg("%s fails on rank %d (pid %d); rank %d: create %s, then %s: %s",
                     scene->failing, victim, (int)scene->ranks[victim].pid, r,
                     tutti_status_name(said->created), tutti_status_name(said->called), said->text);
    }
    return all_right;
}

enum { TRIES = 30 }; /* where the machine is busy: ranks of other hosts are told for a second */

static void expect_named_of(int size, const char *function, enum tutti_status status, bool may_join)
{
    scene->failing = function;
    scene->size = size;
    for (int victim = 0; victim < size; victim += is_sparse() ? 2 : 1)
        for (int i = 1; !fail_one(victim, status, may_join, ranks_are_on_hosts() && i < TRIES); i++)
            printf("%s on rank %d: once more\n", function, victim);
}

/* What fails on one rank, each in turn, and what comes of it. */
struct fault {
    const char *function; /* or a variable that is set to nonsense */
    enum tutti_status status;
    int size;
    bool may_join; /* the others create their communicators, and the first call fails */
};

static void ranks_fail_together(void **state)
{
    const struct fault *const fault = *state;
    expect_named_of(fault->size, fault->function, fault->status, fault->may_join);
}

/* It has a file or an option that the others do not have. */
static void expect_own_mistakes_named(size_t stride)
{
    static const char *const mistakes[] = {
        "TUTTI_TABLE",        "TUTTI_CALIBRATION", "TUTTI_PLANS",    "TUTTI_ALGORITHMS",
        "TUTTI_INIT_TIMEOUT", "TUTTI_TRANSPORT",   "TUTTI_INTEGRITY"};
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i += stride) {
        scene->failing = mistakes[i];
        scene->size = RANKS;
        for (int t = 1; !fail_one((int)i % RANKS, TUTTI_INVALID_OPTIONS, false,
                                  ranks_are_on_hosts() && t < TRIES);
             t++)
            printf("%s: once more\n", mistakes[i]);
    }
}

static void a_rank_with_a_mistake_of_its_own_tells_the_others(void **state)
{
    (void)state;
    expect_own_mistakes_named(ranks_are_on_hosts() ? 3 : 1);
}

/* The last rank does not come at all. */
static int join_without_the_last(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    (void)seed, (void)context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.id = &scene->id;
    options.init_timeout_ns = UINT64_C(50000000000);
    if (rank == size - 1) return 0;
    if (rank == scene->victim) {
        setenv("TUTTI_TABLE", "nonsense", 1);
        options.init_timeout_ns = UINT64_C(1000000000);
    }
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "nonsense") != NULL);
    return 0;
}

static void who_has_come_hears_of_a_mistake_although_others_are_missing(void **state)
{
    (void)state;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 40000, .without_comm = true};
    for (scene->victim = 0; scene->victim < 3; scene->victim += 2) {
        assert_int_equal(tutti_id_create(&scene->id), TUTTI_OK);
        assert_int_equal(ranks_run(RANKS, &options, join_without_the_last, NULL), 0);
    }
}

/* --------------------------------------------------------------------------------- derived ones */

enum derivation { SPLIT, DUP, GROUP, SHRINK, DERIVATIONS };

static enum tutti_status derive(struct tutti_comm *comm, enum derivation derivation,
                                const struct tutti_comm_options *options,
                                struct tutti_comm **derived)
{
    static const int all[RANKS] = {0, 1, 2, 3, 4};
    switch (derivation) {
    case SPLIT: return tutti_comm_split(comm, 0, 0, options, derived);
    case DUP: return tutti_comm_dup(comm, options, derived);
    case GROUP: return tutti_comm_group(comm, all, RANKS, options, derived);
    default: return tutti_comm_shrink(comm, options, derived);
    }
}

/* A survivor that hears for a second that another one has ended its meeting, and not why, knows
 * afterwards only that some rank could not meet the others. */
static bool has_missed_the_reason(void)
{
    return strstr(tutti_error_message(), "a rank could not meet the others") != NULL;
}

/* The last rank has rules that name a file that is not there, or that are none. */
static int derive_alone(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    static const char *const algorithms[] = {"allreduce=file:/nonsense.plan", "nonsense"};
    for (int i = 0; i < 2 * DERIVATIONS; i++) {
        char who[32];
        struct tutti_comm *derived;
        struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
        options.init_timeout_ns = UINT64_C(30000000000);
        if (rank == size - 1) options.algorithms = algorithms[i % 2];
        const enum tutti_status status = derive(comm, (enum derivation)(i / 2), &options, &derived);
        RANKS_EXPECT(status == TUTTI_INVALID_OPTIONS && derived == NULL); /* not INIT_TIMEOUT */
        snprintf(who, sizeof who, "rank %d (", size - 1);
        const bool is_late = i / 2 == SHRINK && rank != size - 1 && has_missed_the_reason();
        if (is_late) atomic_fetch_add(gone, 1);
        RANKS_EXPECT(is_late || strstr(tutti_error_message(), "nonsense") != NULL);
        RANKS_EXPECT(is_late || rank == size - 1 || strstr(tutti_error_message(), who) != NULL);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        options.algorithms = NULL;
        RANKS_EXPECT(derive(comm, (enum derivation)(i / 2), &options, &derived) == TUTTI_OK);
        RANKS_EXPECT(tutti_barrier(derived) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(derived) == TUTTI_OK);
    }
    return 0;
}

/* Until all ranks hear the reason, which they may not where the machine is busy. */
static void expect_derivations_fail_alike(void)
{
    const struct ranks_options options = {.deadline_ms = 60000};
    for (int i = 1, missed = 1; missed > 0; i++) {
        atomic_store(gone, 0);
        assert_int_equal(ranks_run(RANKS, &options, derive_alone, NULL), 0);
        missed = atomic_load(gone);
        assert_true(missed == 0 || i < TRIES);
        if (missed > 0) printf("%d survivors have missed the reason: once more\n", missed);
    }
    atomic_store(gone, 0);
}

static void a_rank_that_cannot_join_a_derived_communicator_tells_the_others(void **state)
{
    (void)state;
    expect_derivations_fail_alike();
}

/* Nobody else on the host of that rank has a way to the others. */
static void a_rank_without_its_card_tells_other_hosts(void **state)
{
    (void)state;
    expect_named_of(HOSTS, "processes_open", TUTTI_NO_SPACE, false);
    expect_named_of(HOSTS, "TUTTI_FABRIC", TUTTI_UNSUPPORTED, false);
    if (card_world_has_fabric("tcp;ofi_rxm")) {
        setenv("TUTTI_FABRIC", "tcp;ofi_rxm", 1);
        expect_named_of(HOSTS, "ofi_open", TUTTI_NO_SPACE, false);
        expect_named_of(HOSTS, "processes_open", TUTTI_NO_SPACE, false);
        unsetenv("TUTTI_FABRIC");
    }
}

/* Ranks of two hosts create a communicator; returns how many of them did not do what they
 * should. */
static int run_two_hosts(int size, int victim, ranks_function *function)
{
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 80000, .without_comm = true};
    memset(scene, 0, sizeof *scene);
    atomic_store(gone, 0);
    scene->victim = victim;
    assert_int_equal(tutti_id_create(&scene->id), TUTTI_OK);
    const int failed = ranks_run(size, &options, function, NULL);
    atomic_store(gone, 0);
    return failed;
}

static struct tutti_comm_options options_of(int rank, int size)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.id = &scene->id;
    options.init_timeout_ns = UINT64_C(50000000000);
    return options;
}

static int miss_without_network(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)seed, (void)context;
    char who[64];
    const struct tutti_comm_options options = options_of(rank, size);
    if (rank == scene->victim) failing = "transports_open_remote";
    scene->ranks[rank].pid = getpid();
    const enum tutti_status status = tutti_comm_create(&options, &comm);
    atomic_fetch_add(gone, 1);
    while (atomic_load(gone) < size) ranks_nap_ms(1); /* its process lives on */
    RANKS_EXPECT(status == (rank == scene->victim ? TUTTI_NO_SPACE : TUTTI_PROC_FAILED));
    snprintf(who, sizeof who, "pid %d) died or gave up", (int)scene->ranks[scene->victim].pid);
    RANKS_EXPECT(rank == scene->victim || strstr(tutti_error_message(), who) != NULL);
    return 0;
}

/* Nobody tells rank 0, to which the other host would connect; so it has to look there. If it did
 * not, its error would be that of the start-up deadline. */
static void rank_0_misses_a_host_without_a_network(void **state)
{
    (void)state;
    assert_int_equal(run_two_hosts(HOSTS, 1, miss_without_network), 0);
}

static void rank_0_misses_it_although_its_passes_are_rare(void **state)
{
    (void)state;
    is_busy = true;
    const int failed = run_two_hosts(HOSTS, 1, miss_without_network);
    is_busy = false;
    assert_int_equal(failed, 0);
}

/* Ranks 0, 2 and 4 are on a host, and wait for the other host, which is late; then rank 0 is
 * killed. */
static int lose_rank_0(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    const struct tutti_comm_options options = options_of(rank, size);
    if (rank % HOSTS != 0) failing = "late";
    if (rank == 0) failing = "doomed";
    const enum tutti_status status = tutti_comm_create(&options, &comm);
    if (rank % HOSTS == 0) atomic_fetch_add(gone, (RANKS - 1) / 2);
    RANKS_EXPECT(status == TUTTI_PROC_FAILED);
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 0 (") != NULL);
    return 0;
}

static void a_rank_that_dies_while_its_host_waits_for_others_is_named(void **state)
{
    (void)state;
    assert_int_equal(run_two_hosts(RANKS, -1, lose_rank_0), 1); /* rank 0 itself */
}

/* ----------------------------------------------------------------------------------------- late */

static int miss(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    char who[64];
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.id = &scene->id;
    options.init_timeout_ns = UINT64_C(2000000000);
    if (rank == scene->victim) failing = "late";
    const enum tutti_status status = tutti_comm_create(&options, &comm);
    snprintf(who, sizeof who, "rank %d (", scene->victim);
    atomic_fetch_add(gone, 1);
    RANKS_EXPECT(status == TUTTI_INIT_TIMEOUT);
    RANKS_EXPECT(rank == scene->victim || strstr(tutti_error_message(), who) != NULL);
    return 0;
}

static void a_rank_that_met_the_others_and_is_late_is_named(void **state)
{
    (void)state;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .without_comm = true};
    memset(scene, 0, sizeof *scene);
    scene->victim = 3;
    assert_int_equal(tutti_id_create(&scene->id), TUTTI_OK);
    assert_int_equal(ranks_run(RANKS, &options, miss, NULL), 0);
}

#define FAIL(function, status, size, may_join, way)                                  \
    CASE_WITH("ranks_fail_together, " #function ", " #way, ranks_fail_together, way, \
              (&(struct fault){#function, status, size, may_join}))
#define FAIL_ON_ONE_HOST(way)                                             \
    FAIL(processes_open, TUTTI_NO_SPACE, RANKS, false, way),              \
        FAIL(comm_agree_on_knowledge, TUTTI_NO_SPACE, RANKS, false, way), \
        FAIL(plans_prove, TUTTI_NO_SPACE, RANKS, false, way),             \
        FAIL(comm_find_site, TUTTI_NO_SPACE, RANKS, false, way),          \
        FAIL(handle_add, TUTTI_NO_SPACE, RANKS, true, way)
#define FAIL_OVER_A_NETWORK(way) \
    FAIL_ON_ONE_HOST(way), FAIL(transports_open_remote, TUTTI_NO_SPACE, RANKS, false, way)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAIL_OVER_A_NETWORK(on_two_hosts),
        /* Nobody tells for the rank. */
        FAIL(router_create, TUTTI_NO_SPACE, HOSTS, false, on_two_hosts),
        FAIL(TUTTI_TOPO_FILE, TUTTI_SYSTEM, RANKS, false, on_two_hosts),
        CASE_OF(a_rank_with_a_mistake_of_its_own_tells_the_others, on_two_hosts),
        CASE_OF(a_rank_that_cannot_join_a_derived_communicator_tells_the_others, on_two_hosts),
        CASE_OF(a_rank_without_its_card_tells_other_hosts, on_two_hosts),
        CASE_OF(rank_0_misses_a_host_without_a_network, on_two_hosts),
        CASE_OF(rank_0_misses_it_although_its_passes_are_rare, on_two_hosts),
        CASE_OF(a_rank_that_dies_while_its_host_waits_for_others_is_named, on_two_hosts),
        FAIL_ON_ONE_HOST(in_shared_memory),
        FAIL_OVER_A_NETWORK(over_tcp_on_one_host),
        CASE_OF(a_rank_with_a_mistake_of_its_own_tells_the_others, in_shared_memory),
        CASE_OF(who_has_come_hears_of_a_mistake_although_others_are_missing, in_shared_memory),
        CASE_OF(a_rank_that_cannot_join_a_derived_communicator_tells_the_others, in_shared_memory),
        CASE_OF(a_rank_that_met_the_others_and_is_late_is_named, in_shared_memory),
    };
    setenv("TUTTI_LOG", "off", 0); /* failures are what is expected here */
    setenv("TUTTI_SECRET", "a secret of this test alone", 1);
    scene = ranks_share(sizeof *scene);
    gone = ranks_share(sizeof *gone);
    return CASES_RUN_AT_ONCE(tests, 2);
}
