/* The conclusions that a rank draws from messages where those before them were lost: ranks that seem to have called something
 * else are asked first, and a rank that is two agreements ahead proves nothing unless enough others are, too.
 *
 * The last rank begins an agreement alone, and hears what the test says in the name of other ranks. When it has drawn its
 * conclusion, the others come.
 *
 * ctest: waits */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "health/lock.h"
#include "health/recover.h"
#include "health/recover_state.h"
#include "membership/standing.h"
#include "tests/kit/patient.h"

static const uint64_t SECOND = 1000000000u;

struct rumour {
    int tellers;              /* so many ranks, the first ones */
    uint64_t ahead;           /* so many agreements */
    uint32_t about;           /* 0: the same as the agreement that is under way */
    bool is_asked;            /* the rank that hears it has to ask what these ranks have called */
    enum tutti_status status; /* of its call */
};

/* Shared by all ranks. */
struct play {
    struct rumour rumour;
    atomic_bool may_come;
};

/* The last rank, while it waits. */
struct hearer {
    struct play *play;
    struct health *health;
    uint64_t number; /* of its agreement */
    bool has_told, has_asked;
    uint64_t looked_ns; /* when it was told */
    atomic_bool is_over;
};

static void tell(struct hearer *hearer)
{
    unsigned char bytes[VOTE_BYTES];
    const struct rumour *const rumour = &hearer->play->rumour;
    const struct vote_message message = {
        .epoch = standing_epoch(hearer->number + rumour->ahead, rumour->about)};
    vote_write(&message, bytes);
    for (int r = 0; r < rumour->tellers; r++) recover_hear(hearer->health, r, bytes, sizeof bytes);
    hearer->looked_ns = hearer->health->recovery->looked_ns;
    hearer->has_told = true;
}

/* Whether the rank has drawn its conclusion: it has asked, or has looked once more and goes on. */
static bool has_concluded(struct hearer *hearer)
{
    struct recovery *const recovery = hearer->health->recovery;
    bool has_concluded = false;
    if (health_lock_failed(hearer->health, 60 * SECOND) != TUTTI_OK) return true;
    if (hearer->has_told) {
        hearer->has_asked = recovery->asked_ns != 0;
        has_concluded = hearer->play->rumour.is_asked ? hearer->has_asked
                                                      : recovery->looked_ns != hearer->looked_ns;
    } else if (recovery->epoch == hearer->number && recovery->looked_ns != 0) {
        tell(hearer);
    }
    health_unlock(hearer->health);
    return has_concluded;
}

static void *hear(void *of)
{
    struct hearer *const hearer = of;
    while (!has_concluded(hearer) && !atomic_load(&hearer->is_over)) ranks_nap_ms(1);
    atomic_store(&hearer->play->may_come, true);
    return NULL;
}

/* All agree, perhaps without a rank that the last one has not heard yet when others have come. */
static bool is_good(const struct rumour *rumour, enum tutti_status status)
{
    if (rumour->is_asked && status == TUTTI_PROC_FAILED) return true;
    return status == rumour->status;
}

static int be_last(struct tutti_comm *comm, int rank, struct play *play)
{
    struct hearer hearer = {.play = play, .health = &comm->health};
    const struct rumour *const rumour = &play->rumour;
    uint64_t word = 5;
    pthread_t thread;
    hearer.number = hearer.health->recovery->epoch + 1;
    RANKS_EXPECT(pthread_create(&thread, NULL, hear, &hearer) == 0);
    const enum tutti_status status = tutti_comm_agree(comm, &word);
    atomic_store(&hearer.is_over, true);
    RANKS_EXPECT(pthread_join(thread, NULL) == 0);
    RANKS_EXPECT(is_good(rumour, status));
    if (status != TUTTI_PROC_FAILED) RANKS_EXPECT(word == (status == TUTTI_OK ? 1 : 5));
    RANKS_EXPECT(hearer.has_asked == rumour->is_asked);
    return 0;
}

static int take_part(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct play *const play = context;
    uint64_t word = 1;
    (void)seed;
    RANKS_EXPECT(tutti_comm_agree(comm, &word) == TUTTI_OK && word == 1);
    if (rank == size - 1) return be_last(comm, rank, play);
    while (!atomic_load(&play->may_come)) ranks_nap_ms(1);
    word = 3;
    const enum tutti_status status = tutti_comm_agree(comm, &word);
    if (play->rumour.status == TUTTI_OK)
        RANKS_EXPECT(is_good(&play->rumour, status));
    else /* its word may have come before it gave up */
        RANKS_EXPECT(status == TUTTI_OK || status == TUTTI_PROC_FAILED);
    return 0;
}

static void run(int size, struct rumour rumour)
{
    struct play *const play = ranks_share(sizeof *play);
    play->rumour = rumour;
    expect_good(size, RANKS_DEFAULT, take_part, play);
}

static void ranks_that_seem_to_have_called_something_else_are_asked(void **state)
{
    (void)state;
    run(3, (struct rumour){
               .tellers = 2, .ahead = 1, .about = 77, .is_asked = true, .status = TUTTI_OK});
}

static void a_single_rank_that_is_far_ahead_proves_nothing(void **state)
{
    (void)state;
    run(4, (struct rumour){.tellers = 1, .ahead = 2, .status = TUTTI_OK});
    run(4, (struct rumour){.tellers = 1, .ahead = 1u << 20, .status = TUTTI_OK});
}

static void so_many_that_the_rest_is_no_majority_went_on_without_this_rank(void **state)
{
    (void)state;
    run(2, (struct rumour){.tellers = 1, .ahead = 2, .status = TUTTI_MINORITY});
    run(4, (struct rumour){.tellers = 2, .ahead = 2, .status = TUTTI_MINORITY});
    run(4, (struct rumour){.tellers = 3, .ahead = 1, .status = TUTTI_OK});
}

int main(void)
{
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_seem_to_have_called_something_else_are_asked),
        cmocka_unit_test(a_single_rank_that_is_far_ahead_proves_nothing),
        cmocka_unit_test(so_many_that_the_rest_is_no_majority_went_on_without_this_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
