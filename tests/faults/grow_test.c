/* Processes join a communicator, and take the places of ranks that died: all ranks and all that
 * join have the new communicator, or none has; the old one serves meanwhile; and nobody joins
 * without the secret.
 *
 * ctest: label=once timeout=300 waits first
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/enlarge.h"
#include "comm/id.h"
#include "connect/admission.h"
#include "os/clock.h"
#include "tests/kit/chance.h"
#include "tests/kit/elements.h"
#include "tests/worlds/ranks.h"
#include "tutti/exclude.h"

enum { RANKS_MAX = 8, COUNT = 1000, VALUES_MAX = 8 };
static const uint64_t SECOND = 1000000000u;

/* ----------------------------------------------------------------------------------- the store */

/* In memory that all processes of a test share. A value may be set again. */
struct cupboard {
    _Atomic int lock, count;
    struct {
        char key[64];
        unsigned char value[128];
    } values[VALUES_MAX];
};

static struct cupboard *cupboard;

/* The communicator that each process had in the end; shared by all. */
struct ending {
    _Atomic int size, rank;
    _Atomic uint64_t ended_ns;
    _Atomic int step; /* of tests in which processes take turns */
    _Atomic pid_t pid;
};
static struct ending *endings;
static _Atomic int *met; /* see ranks_meet */

static void lock_cupboard(void)
{
    while (atomic_exchange(&cupboard->lock, 1) != 0) usleep(100);
}

static int find_value(const char *key)
{
    int at = 0;
    while (at < cupboard->count && strcmp(cupboard->values[at].key, key) != 0) at++;
    return at;
}

static int set(void *context, const char *key, const void *value, size_t value_bytes)
{
    (void)context;
    lock_cupboard();
    const int at = find_value(key);
    const bool fits = at < VALUES_MAX && value_bytes <= sizeof cupboard->values[at].value;
    if (fits) {
        snprintf(cupboard->values[at].key, sizeof cupboard->values[at].key, "%s", key);
        memcpy(cupboard->values[at].value, value, value_bytes);
        if (at == cupboard->count) cupboard->count = at + 1;
    }
    atomic_store(&cupboard->lock, 0);
    return fits ? 0 : 1;
}

static int get(void *context, const char *key, void *value, size_t value_bytes, uint64_t timeout_ns)
{
    (void)context;
    const uint64_t until_ns = clock_now_ns() + timeout_ns;
    for (;;) {
        lock_cupboard();
        const int at = find_value(key);
        const bool is_there = at < cupboard->count;
        if (is_there) memcpy(value, cupboard->values[at].value, value_bytes);
        atomic_store(&cupboard->lock, 0);
        if (is_there) return 0;
        if (clock_now_ns() > until_ns) return 1;
        usleep(1000);
    }
}

static const struct tutti_store store = {sizeof store, set, get, NULL};

/* ------------------------------------------------------------------------------ what ranks do */

static struct tutti_comm_options comm_options(void)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.store = &store;
    options.timeout_ns = 20 * SECOND;
    options.init_timeout_ns = 20 * SECOND;
    return options;
}

static enum tutti_status found(int rank, int size, struct tutti_comm **comm)
{
    struct tutti_comm_options options = comm_options();
    options.rank = rank;
    options.size = size;
    return tutti_comm_create(&options, comm);
}

/* wait_s below 0: for ever. */
static enum tutti_status grow(struct tutti_comm *comm, int joiners, double wait_s,
                              struct tutti_comm **larger)
{
    struct tutti_grow_options options = TUTTI_GROW_OPTIONS_INIT;
    options.store = &store;
    options.joiner_min = joiners;
    options.wait_ns = wait_s < 0 ? UINT64_MAX : (uint64_t)(wait_s * 1e9);
    return tutti_comm_grow(comm, &options, larger);
}

static enum tutti_status replace(struct tutti_comm *comm, struct tutti_comm **whole)
{
    struct tutti_grow_options options = TUTTI_GROW_OPTIONS_INIT;
    options.store = &store;
    options.wait_ns = 20 * SECOND;
    return tutti_comm_replace(comm, &options, whole);
}

static enum tutti_status join(double wait_s, struct tutti_comm **comm)
{
    struct tutti_comm_options options = comm_options();
    options.init_timeout_ns = (uint64_t)(wait_s * 1e9);
    return tutti_comm_join(&options, comm);
}

/* An exact sum of what all ranks have by their numbers. */
static bool sums(struct tutti_comm *comm)
{
    int64_t data[COUNT];
    const int size = tutti_comm_size(comm), rank = tutti_comm_rank(comm);
    for (int i = 0; i < COUNT; i++) data[i] = (int64_t)(rank + 1) * (i + 1);
    if (tutti_allreduce(data, data, COUNT, TUTTI_INT64, TUTTI_SUM, comm) != TUTTI_OK) return false;
    for (int i = 0; i < COUNT; i++)
        if (data[i] != (int64_t)size * (size + 1) / 2 * (i + 1)) return false;
    return true;
}

static void note_ending(int number, struct tutti_comm *comm)
{
    atomic_store(&endings[number].rank, tutti_comm_rank(comm));
    atomic_store(&endings[number].size, tutti_comm_size(comm));
    atomic_store(&endings[number].ended_ns, clock_now_ns());
}

static void *die_soon(void *us)
{
    usleep(*(const useconds_t *)us);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Dies after so long, whatever it does meanwhile. */
static void doom(useconds_t us)
{
    static useconds_t soon_us;
    pthread_t thread;
    soon_us = us;
    if (pthread_create(&thread, NULL, die_soon, &soon_us) != 0) abort();
}

static int run(int size, enum ranks_kind kind, ranks_function *function, void *context,
               struct ranks_outcome *outcomes)
{
    const struct ranks_options options = {
        .kind = kind, .deadline_ms = 60000, .without_comm = true, .outcomes = outcomes};
    memset(endings, 0, RANKS_MAX * sizeof *endings);
    memset(cupboard, 0, sizeof *cupboard);
    atomic_store(met, 0);
    return ranks_run(size, &options, function, context);
}

/* Those that have a communicator have the same, with ranks of their own. */
static void expect_one_team(int count, int size_wanted)
{
    uint64_t taken = 0;
    for (int i = 0; i < count; i++) {
        const int size = atomic_load(&endings[i].size), rank = atomic_load(&endings[i].rank);
        if (size == 0) continue;
        assert_true(size_wanted == 0 || size == size_wanted);
        assert_true(rank >= 0 && rank < size);
        assert_false(taken >> rank & 1);
        taken |= UINT64_C(1) << rank;
    }
}

/* -------------------------------------------------------------------------------- nobody fails */

/* Each process comes when the team has its number of ranks. */
static int one_after_the_other(struct tutti_comm *none, int rank, int size, uint64_t seed,
                               void *context)
{
    struct tutti_comm *comm, *larger;
    const int founders = *(const int *)context;
    (void)none, (void)seed;
    RANKS_EXPECT((rank < founders ? found(rank, founders, &comm) : join(20, &comm)) == TUTTI_OK);
    for (int now = tutti_comm_size(comm); now < size; now++) {
        RANKS_EXPECT(tutti_comm_size(comm) == now);
        RANKS_EXPECT(sums(comm));
        RANKS_EXPECT(grow(comm, 1, now % 2 == 0 ? 20 : -1, &larger) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_rank(larger) == tutti_comm_rank(comm));
        RANKS_EXPECT(sums(comm)); /* which is as it was */
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
        comm = larger;
    }
    RANKS_EXPECT(sums(comm));
    note_ending(rank, comm);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void a_team_grows_again_and_again(void **state)
{
    int founders = 2;
    (void)state;
    assert_int_equal(run(4, RANKS_DEFAULT, one_after_the_other, &founders, NULL), 0);
    expect_one_team(4, 4);
    founders = 1;
    assert_int_equal(run(3, RANKS_PROCESSES, one_after_the_other, &founders, NULL), 0);
    expect_one_team(3, 3);
}

/* The same, on two hosts as far as the processes know. */
static int apart(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    setenv("TUTTI_HOSTID", rank % 2 == 0 ? "even" : "odd", 1);
    return one_after_the_other(none, rank, size, seed, context);
}

static void hosts_join(void **state)
{
    int founders = 1;
    (void)state;
    assert_int_equal(run(4, RANKS_PROCESSES, apart, &founders, NULL), 0);
    expect_one_team(4, 4);
}

static int many_at_once(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *comm, *larger;
    (void)none, (void)seed, (void)context;
    if (rank < 2) {
        struct tutti_grow_options options = TUTTI_GROW_OPTIONS_INIT;
        options.store = &store;
        options.joiner_max = size; /* more than there are */
        options.joiner_min = 2;
        options.wait_ns = 2 * SECOND;
        RANKS_EXPECT(found(rank, 2, &comm) == TUTTI_OK);
        ranks_meet(met, size);
        RANKS_EXPECT(tutti_comm_grow(comm, &options, &larger) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    } else {
        ranks_meet(met, size);
        RANKS_EXPECT(join(20, &larger) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_rank(larger) >= 2);
    }
    RANKS_EXPECT(tutti_comm_size(larger) == size);
    RANKS_EXPECT(sums(larger));
    note_ending(rank, larger);
    RANKS_EXPECT(tutti_comm_free(larger) == TUTTI_OK);
    return 0;
}

static void all_that_wait_are_let_in_at_once(void **state)
{
    (void)state;
    assert_int_equal(run(6, RANKS_PROCESSES, many_at_once, NULL, NULL), 0);
    expect_one_team(6, 6);
}

/* ------------------------------------------------------------------------------- nobody joins */

static int alone(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *comm, *larger = NULL;
    (void)none, (void)seed, (void)context;
    RANKS_EXPECT(found(rank, size, &comm) == TUTTI_OK);
    const uint64_t begin_ns = clock_now_ns();
    RANKS_EXPECT(grow(comm, 1, 0.3, &larger) == TUTTI_TIMEOUT);
    RANKS_EXPECT(clock_now_ns() - begin_ns < 10 * SECOND);
    RANKS_EXPECT(larger == NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), "0 have come") != NULL);
    RANKS_EXPECT(sums(comm));
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void if_nobody_comes_the_team_goes_on_as_it_was(void **state)
{
    (void)state;
    assert_int_equal(run(3, RANKS_PROCESSES, alone, NULL, NULL), 0);
}

/* The team looks for joiners again and again, until the stranger has its answer. */
static int shut_out(int rank, int size)
{
    struct tutti_comm *comm, *larger;
    int32_t is_over = 0;
    RANKS_EXPECT(found(rank, size, &comm) == TUTTI_OK);
    while (is_over == 0) {
        RANKS_EXPECT(grow(comm, 1, 0.3, &larger) == TUTTI_TIMEOUT);
        RANKS_EXPECT(larger == NULL && strstr(tutti_error_message(), "0 have come") != NULL);
        is_over = atomic_load(&endings[size].step);
        RANKS_EXPECT(tutti_allreduce(&is_over, &is_over, 1, TUTTI_INT32, TUTTI_MAX, comm) ==
                     TUTTI_OK);
    }
    RANKS_EXPECT(sums(comm));
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static int with_a_stranger(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *comm;
    (void)none, (void)seed, (void)context;
    if (rank < size - 1) return shut_out(rank, size - 1);
    setenv("TUTTI_SECRET", "another secret, which nobody guesses either", 1);
    const enum tutti_status status = join(20, &comm);
    atomic_store(&endings[rank].step, 1);
    RANKS_EXPECT(status == TUTTI_AUTH_FAILED);
    RANKS_EXPECT(comm == NULL);
    return 0;
}

static void nobody_joins_with_another_secret(void **state)
{
    (void)state;
    assert_int_equal(run(3, RANKS_PROCESSES, with_a_stranger, NULL, NULL), 0);
}

static int without_a_team(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *comm;
    (void)none, (void)size, (void)seed, (void)context;
    RANKS_EXPECT(join(0.2, &comm) == TUTTI_INIT_TIMEOUT);
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    RANKS_EXPECT(tutti_comm_join(&options, &comm) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_comm_join(&options, NULL) == TUTTI_INVALID_COMM);
    return 0;
}

static void a_process_that_no_team_takes_in_ends_at_its_deadline(void **state)
{
    (void)state;
    assert_int_equal(run(1, RANKS_PROCESSES, without_a_team, NULL, NULL), 0);
}

static void await_address(void)
{
    struct tutti_id id;
    while (get(NULL, ENLARGE_STORE_KEY, id.bytes, sizeof id.bytes, SECOND) != 0) continue;
}

/* Two teams, of a rank each, and one store: the first gives up, and a process comes after that. */
static int beside_another_team(struct tutti_comm *none, int rank, int size, uint64_t seed,
                               void *context)
{
    struct tutti_comm *comm, *larger;
    (void)none, (void)size, (void)seed, (void)context;
    if (rank == 2) {
        while (atomic_load(&endings[0].ended_ns) == 0) usleep(1000);
        RANKS_EXPECT(join(20, &larger) == TUTTI_OK);
    } else {
        RANKS_EXPECT(found(0, 1, &comm) == TUTTI_OK);
        if (rank == 1) await_address(); /* so that its own replaces that of the other team */
        const enum tutti_status status = grow(comm, 1, rank == 0 ? 1 : 20, &larger);
        RANKS_EXPECT(status == (rank == 0 ? TUTTI_TIMEOUT : TUTTI_OK));
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
        if (rank == 0) atomic_store(&endings[0].ended_ns, clock_now_ns());
        if (rank == 0) return 0;
    }
    RANKS_EXPECT(tutti_comm_size(larger) == 2 && sums(larger));
    RANKS_EXPECT(tutti_comm_free(larger) == TUTTI_OK);
    return 0;
}

static void a_team_that_gives_up_leaves_the_address_of_another_team(void **state)
{
    (void)state;
    assert_int_equal(run(3, RANKS_PROCESSES, beside_another_team, NULL, NULL), 0);
}

static int wrongly(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *comm, *larger;
    struct tutti_grow_options options = TUTTI_GROW_OPTIONS_INIT;
    (void)none, (void)seed, (void)context;
    RANKS_EXPECT(found(rank, size, &comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_grow(comm, NULL, &larger) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_comm_grow(comm, &options, &larger) == TUTTI_INVALID_OPTIONS);
    options.store = &store;
    RANKS_EXPECT(tutti_comm_grow(comm, &options, NULL) == TUTTI_INVALID_COMM);
    options.joiner_min = 3;
    options.joiner_max = 2;
    RANKS_EXPECT(tutti_comm_grow(comm, &options, &larger) == TUTTI_INVALID_OPTIONS);
    options.joiner_min = options.joiner_max = 0;
    options.wait_ns = SECOND / 10;
    RANKS_EXPECT((rank == 0 ? tutti_comm_grow(comm, &options, &larger)
                            : tutti_comm_replace(comm, &options, &larger)) == TUTTI_DESYNC);
    RANKS_EXPECT(sums(comm));
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void mistakes_are_named_and_leave_the_team_as_it_was(void **state)
{
    (void)state;
    assert_int_equal(run(2, RANKS_PROCESSES, wrongly, NULL, NULL), 0);
}

/* -------------------------------------------------------------------------------------- deaths */

/* A rank dies, and another process takes its number. */
static int with_a_spare(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *comm, *whole;
    const int victim = *(const int *)context, members = size - 1;
    (void)none, (void)seed;
    if (rank == members) {
        RANKS_EXPECT(join(20, &whole) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_rank(whole) == victim);
    } else {
        RANKS_EXPECT(found(rank, members, &comm) == TUTTI_OK);
        RANKS_EXPECT(sums(comm));
        ranks_meet(met, members);
        if (rank == victim) raise(SIGKILL);
        while (sums(comm)) continue;
        RANKS_EXPECT(replace(comm, &whole) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_rank(whole) == rank);
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_comm_size(whole) == members);
    RANKS_EXPECT(sums(whole));
    note_ending(rank, whole);
    RANKS_EXPECT(tutti_comm_free(whole) == TUTTI_OK);
    return 0;
}

static void the_place_of_a_dead_rank_is_filled(void **state)
{
    (void)state;
    for (int victim = 0; victim < 3; victim++) {
        assert_int_equal(run(4, RANKS_PROCESSES, with_a_spare, &victim, NULL), 1);
        expect_one_team(4, 3);
    }
}

/* A member dies at some moment of the growth. */
struct fate {
    int members, victim;
    useconds_t after_us;
};

/* Goes on with whoever is left, until no rank is missing. */
static int go_on(struct tutti_comm *comm, int rank)
{
    for (int tries = 0; !sums(comm); tries++) {
        struct tutti_comm *smaller;
        RANKS_EXPECT(tries < 5);
        RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &smaller) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
        comm = smaller;
    }
    note_ending(rank, comm);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static int with_a_death(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *comm, *larger;
    const struct fate *const fate = context;
    (void)none, (void)seed;
    if (rank < fate->members) {
        RANKS_EXPECT(found(rank, fate->members, &comm) == TUTTI_OK);
        RANKS_EXPECT(sums(comm));
        ranks_meet(met, fate->members);
        if (rank == fate->victim) doom(fate->after_us);
        RANKS_EXPECT(grow(comm, size - fate->members, 20, &larger) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    } else {
        RANKS_EXPECT(join(20, &larger) == TUTTI_OK);
    }
    if (rank == fate->victim) pause();
    return go_on(larger, rank);
}

static void live_through(struct chance *chance, int victim)
{
    enum { SIZE = 5 };
    struct fate fate = {.members = 3, .victim = victim};
    fate.after_us = (useconds_t)chance_below(chance, 40000);
    struct ranks_outcome outcomes[SIZE];
    const int bad = run(SIZE, RANKS_PROCESSES, with_a_death, &fate, outcomes);
    if (bad != 1 || outcomes[victim].fate != RANKS_SIGNALLED)
        fail_msg("rank %d was to die after %u us, and %d ranks failed", victim, fate.after_us, bad);
    /* Everyone who lives is in the same team in the end. */
    int size = 0;
    for (int i = 0; i < SIZE; i++)
        if (i != victim && atomic_load(&endings[i].size) > size)
            size = atomic_load(&endings[i].size);
    expect_one_team(SIZE, size);
    assert_int_equal(size, SIZE - 1);
}

static void a_death_in_the_middle_is_another_round(void **state)
{
    struct chance chance = {.seed = chance_seed(clock_now_ns())};
    const int rounds = getenv("TUTTI_LONG") != NULL ? 100 : 1;
    (void)state;
    for (int i = 0; i < rounds; i++) {
        live_through(&chance, 0); /* the admitting rank */
        live_through(&chance, 1 + chance_below(&chance, 2));
    }
}

/* Two want to join, and one place is there: the process that gets it dies at some moment. */
static int with_a_mortal_joiner(struct tutti_comm *none, int rank, int size, uint64_t seed,
                                void *context)
{
    struct tutti_comm *comm, *larger;
    const useconds_t after_us = *(const useconds_t *)context;
    (void)none, (void)size, (void)seed;
    if (rank < 2) {
        RANKS_EXPECT(found(rank, 2, &comm) == TUTTI_OK);
        ranks_meet(met, 3);
        RANKS_EXPECT(grow(comm, 1, 20, &larger) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_size(larger) == 3);
        RANKS_EXPECT(sums(comm));
        if (sums(larger)) note_ending(rank, larger); /* or the dead one is its third rank */
        RANKS_EXPECT(tutti_comm_free(larger) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
        return 0;
    }
    if (rank == 2) doom(after_us);
    if (rank == 3)
        ranks_meet(met, 3); /* with the team, which needs it if the other one dies early */
    const enum tutti_status status = join(rank == 2 ? 20 : 3, &larger);
    if (rank == 2) pause();
    RANKS_EXPECT(status == TUTTI_OK || status == TUTTI_INIT_TIMEOUT);
    if (status != TUTTI_OK) return 0;
    if (sums(larger)) note_ending(rank, larger);
    return tutti_comm_free(larger) == TUTTI_OK ? 0 : 1;
}

static void a_joiner_that_dies_takes_nobody_along(void **state)
{
    struct chance chance = {.seed = chance_seed(clock_now_ns())};
    const int rounds = getenv("TUTTI_LONG") != NULL ? 100 : 1;
    (void)state;
    for (int i = 0; i < rounds; i++) {
        useconds_t after_us = (useconds_t)chance_below(&chance, 30000);
        struct ranks_outcome outcomes[4];
        const int bad = run(4, RANKS_PROCESSES, with_a_mortal_joiner, &after_us, outcomes);
        if (bad != 1 || outcomes[2].fate != RANKS_SIGNALLED)
            fail_msg("a joiner was to die after %u us, and %d ranks failed", after_us, bad);
        assert_int_equal(atomic_load(&endings[0].size), atomic_load(&endings[1].size));
    }
}

/* ------------------------------------------------------------------------- who is let in no more */

static void await_step(int process, int step)
{
    while (atomic_load(&endings[process].step) < step) usleep(1000);
}

static enum tutti_status put_out(struct tutti_comm *comm, int rank, int whole_host,
                                 struct tutti_comm **smaller)
{
    struct tutti_exclude_options options = TUTTI_EXCLUDE_OPTIONS_INIT;
    options.cause = TUTTI_CAUSE_CORRUPT;
    options.whole_host = whole_host;
    return tutti_comm_exclude(comm, &rank, 1, &options, smaller);
}

static bool says(const char *text)
{
    return strstr(tutti_error_message(), text) != NULL;
}

/* Rank 2 of three is put out, and has not heard of it when it comes again; then a new process comes. */
static int come_again(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *comm, *smaller, *larger;
    (void)none, (void)size, (void)seed, (void)context;
    if (rank == 3) {
        await_step(2, 1);
        RANKS_EXPECT(join(20, &comm) == TUTTI_OK);
        RANKS_EXPECT(sums(comm));
        return tutti_comm_free(comm) != TUTTI_OK;
    }
    RANKS_EXPECT(found(rank, 3, &comm) == TUTTI_OK);
    if (rank == 2) {
        await_step(0, 1), await_step(1, 1);
        for (int i = 0; i < 2; i++) {
            RANKS_EXPECT(join(20, &larger) == TUTTI_EXCLUDED && larger == NULL);
            RANKS_EXPECT(says("lets it in no more") && says("arrived changed"));
        }
        atomic_store(&endings[rank].step, 1);
        return tutti_comm_free(comm) != TUTTI_OK;
    }
    RANKS_EXPECT(put_out(comm, 2, 0, &smaller) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    atomic_store(&endings[rank].step, 1);
    RANKS_EXPECT(grow(smaller, 1, 20, &larger) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_size(larger) == 3 && sums(larger));
    RANKS_EXPECT(tutti_comm_free(smaller) == TUTTI_OK);
    return tutti_comm_free(larger) != TUTTI_OK;
}

static void a_process_that_was_put_out_is_refused_by_the_team(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip(); /* one process */
    assert_int_equal(run(4, RANKS_PROCESSES, come_again, NULL, NULL), 0);
}

/* Rank 2's host is put out; then a new process of that host comes, and a new process of another one. */
static int come_from_there(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *comm, *smaller, *larger;
    (void)none, (void)size, (void)seed, (void)context;
    setenv("TUTTI_HOSTID", rank == 2 || rank == 3 ? "sick" : "sound", 1);
    if (rank == 3) { /* also later, and after the team has grown */
        RANKS_EXPECT(join(20, &comm) == TUTTI_EXCLUDED && says("whole host"));
        atomic_store(&endings[rank].step, 1);
        await_step(4, 1);
        RANKS_EXPECT(join(20, &comm) == TUTTI_EXCLUDED && says("whole host"));
        return 0;
    }
    if (rank == 4) await_step(3, 1);
    RANKS_EXPECT((rank == 4 ? join(20, &larger) : found(rank, 3, &comm)) == TUTTI_OK);
    if (rank == 2) {
        await_step(0, 1), await_step(1, 1);
        return tutti_comm_free(comm) != TUTTI_OK;
    }
    if (rank < 2) {
        RANKS_EXPECT(put_out(comm, 2, 1, &smaller) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
        atomic_store(&endings[rank].step, 1);
        RANKS_EXPECT(grow(smaller, 1, 20, &larger) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(smaller) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_comm_size(larger) == 3 && sums(larger));
    atomic_store(&endings[rank].step, 1);
    /* The list goes on to communicators that are made from it. */
    RANKS_EXPECT(tutti_comm_shrink(larger, NULL, &smaller) == TUTTI_OK);
    RANKS_EXPECT(grow(smaller, 1, 3, &comm) == TUTTI_TIMEOUT && comm == NULL);
    RANKS_EXPECT(tutti_comm_free(smaller) == TUTTI_OK);
    return tutti_comm_free(larger) != TUTTI_OK;
}

static void a_host_that_was_put_out_stays_out(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    assert_int_equal(run(5, RANKS_PROCESSES, come_from_there, NULL, NULL), 0);
}

/* ----------------------------------------------------------------------------- a flood of joins */

enum { FLOOD = 10000, AT_ONCE = 100, APPLICANTS = 200 };

static int count_descriptors(pid_t pid)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *const folder = opendir(path);
    while (folder != NULL && readdir(folder) != NULL) count++;
    if (folder != NULL) closedir(folder);
    return count;
}

static long resident_kib(pid_t pid)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *const file = fopen(path, "r");
    if (file != NULL && fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    if (file != NULL) fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Where the team lets processes in. */
static struct id_content find_admission(void)
{
    struct tutti_id id;
    struct id_content content = {.magic = 0};
    while (!id_spans_hosts(&content)) {
        if (get(NULL, ENLARGE_STORE_KEY, id.bytes, sizeof id.bytes, SECOND) == 0)
            id_read(&id, &content);
        usleep(1000);
    }
    return content;
}

/* A connection that says nothing, something else, half of a hello, or goes at once; -1: none. */
static int knock(const struct sockaddr_in *address, int i)
{
    static const char sayings[][200] = {"GET / HTTP/1.1\r\n\r\n", "\0\1\2\3", "tutti"};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        (void)connect(fd, (const struct sockaddr *)address, sizeof *address);
    if (i % 4 > 0) (void)send(fd, sayings[i % 4 - 1], 1 + (size_t)i % 200, MSG_NOSIGNAL);
    return fd;
}

static void knock_often(const struct sockaddr_in *address)
{
    int open[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) open[i] = -1;
    for (int i = 0; i < FLOOD; i++) {
        int *const slot = &open[i % AT_ONCE];
        if (*slot >= 0) close(*slot);
        *slot = knock(address, i);
        if (i % AT_ONCE == 0) usleep(2000);
    }
    for (int i = 0; i < AT_ONCE; i++)
        if (open[i] >= 0) close(open[i]);
}

/* With the secret, and gone as soon as they are let in: all at once, as far as places go. */
static int apply_often(const struct id_content *at)
{
    int let_in = 0;
    for (int i = 0; i < APPLICANTS; i++) {
        struct admission_invitation invitation;
        static uint64_t survivors[ADMISSION_SET_WORDS_MAX];
        static struct bars bars;
        struct applicant *applicant;
        if (applicant_begin(&at->key, &at->address, false, clock_now_ns() + 5 * SECOND,
                            &applicant) != TUTTI_OK)
            continue;
        while (!applicant_is_in(applicant) &&
               applicant_test(applicant, &invitation, survivors, &bars) == TUTTI_IN_PROGRESS)
            usleep(200);
        let_in += applicant_is_in(applicant);
        applicant_end(applicant);
    }
    return let_in;
}

/* Ranks 0 and 1 wait for two processes. Process 2 floods them, and joins afterwards, as process 3 does. */
static int flood(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *comm, *larger;
    (void)none, (void)size, (void)seed, (void)context;
    if (rank < 2) {
        RANKS_EXPECT(found(rank, 2, &comm) == TUTTI_OK);
        atomic_store(&endings[rank].pid, getpid());
        RANKS_EXPECT(grow(comm, 2, 50, &larger) == TUTTI_OK);
        RANKS_EXPECT(sums(comm) && sums(larger));
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
        return tutti_comm_free(larger) != TUTTI_OK;
    }
    if (rank == 2) {
        const struct id_content at = find_admission();
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(at.address.port)};
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
        const pid_t admitter = atomic_load(&endings[0].pid);
        const int before = count_descriptors(admitter);
        const long before_kib = resident_kib(admitter);
        knock_often(&address);
        RANKS_EXPECT(count_descriptors(admitter) <= before + 64);
        RANKS_EXPECT(apply_often(&at) > 0);
        usleep(100000); /* until those that have gone are noticed */
        RANKS_EXPECT(count_descriptors(admitter) <= before + 64);
        RANKS_EXPECT(resident_kib(admitter) <= before_kib + 32 * 1024);
        atomic_store(&endings[2].step, 1);
    }
    await_step(2, 1);
    RANKS_EXPECT(join(20, &larger) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_size(larger) == 4 && sums(larger));
    return tutti_comm_free(larger) != TUTTI_OK;
}

static void a_flood_of_joins_neither_harms_the_team_nor_keeps_others_out(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    assert_int_equal(run(4, RANKS_PROCESSES, flood, NULL, NULL), 0);
}

int main(void)
{
    setenv("TUTTI_SECRET", "the secret of this test, which nobody guesses", 1);
    setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
    cupboard = ranks_share(sizeof *cupboard);
    endings = ranks_share(RANKS_MAX * sizeof *endings);
    met = ranks_share(sizeof *met);
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_team_grows_again_and_again),
        cmocka_unit_test(hosts_join),
        cmocka_unit_test(all_that_wait_are_let_in_at_once),
        cmocka_unit_test(if_nobody_comes_the_team_goes_on_as_it_was),
        cmocka_unit_test(nobody_joins_with_another_secret),
        cmocka_unit_test(a_process_that_no_team_takes_in_ends_at_its_deadline),
        cmocka_unit_test(a_team_that_gives_up_leaves_the_address_of_another_team),
        cmocka_unit_test(mistakes_are_named_and_leave_the_team_as_it_was),
        cmocka_unit_test(the_place_of_a_dead_rank_is_filled),
        cmocka_unit_test(a_death_in_the_middle_is_another_round),
        cmocka_unit_test(a_joiner_that_dies_takes_nobody_along),
        cmocka_unit_test(a_process_that_was_put_out_is_refused_by_the_team),
        cmocka_unit_test(a_host_that_was_put_out_stays_out),
        cmocka_unit_test(a_flood_of_joins_neither_harms_the_team_nor_keeps_others_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
