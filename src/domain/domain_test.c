/* domain_test.c - the lock of a domain under threads: of those that come at once, one after the other, and while
 * the favoured one holds it. Each holder changes plain memory, so a second holder shows as a sum
 * that is wrong, and as a race under TSan. */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "domain/domain.h"
#include "os/futex.h"

enum { THREADS = 3, ROUNDS = 200, TURNS = 300 };

struct game {
    struct domain domain;
    uint64_t sum, twin;
    pthread_barrier_t *start;
};

static void take_turns(struct game *game, unsigned turns)
{
    for (unsigned i = 0; i < turns; i++) {
        while (!domain_try_lock(&game->domain)) sched_yield();
        assert(!domain_try_lock(&game->domain)); /* it is no recursive lock */
        assert(domain_is_locked(&game->domain));
        game->sum++;
        game->twin += game->sum;
        domain_unlock(&game->domain);
    }
}

static void *run_thread(void *of)
{
    struct game *const game = of;
    pthread_barrier_wait(game->start);
    take_turns(game, TURNS);
    return NULL;
}

static void play(unsigned before)
{
    static struct game game;
    pthread_barrier_t start;
    game = (struct game){.start = &start};
    domain_init(&game.domain, NULL);
    pthread_barrier_init(&start, NULL, THREADS);
    pthread_t threads[THREADS - 1];
    for (int t = 0; t < THREADS - 1; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, run_thread, &game), 0);
    take_turns(&game, before);
    pthread_barrier_wait(&start);
    take_turns(&game, TURNS);
    for (int t = 0; t < THREADS - 1; t++) pthread_join(threads[t], NULL);
    const uint64_t turns = before + THREADS * TURNS;
    assert_int_equal(game.sum, turns);
    assert_int_equal(game.twin, turns * (turns + 1) / 2);
    assert_false(domain_is_locked(&game.domain));
    pthread_barrier_destroy(&start);
}

static void threads_that_come_at_once_take_turns(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++) play(0);
}

static void others_end_the_favour_of_the_first(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++) play(1 + (unsigned)i % 7);
}

static void one_thread_alone_keeps_its_favour(void **state)
{
    (void)state;
    struct domain domain = {.may_spin = false};
    domain_init(&domain, NULL);
    for (int i = 0; i < 3; i++) {
        assert_true(domain_try_lock(&domain));
        if (i > 0) assert_int_equal(domain.is_held_by_favour, fence_register());
        domain_unlock(&domain);
        assert_false(domain_is_locked(&domain));
    }
}

struct holding {
    struct domain domain;
    _Atomic bool is_held, may_end;
};

static void *hold(void *of)
{
    struct holding *const holding = of;
    for (int i = 0; i < 2; i++) { /* the second time by favour */
        const bool is_mine = domain_try_lock(&holding->domain);
        assert(is_mine);
        if (i == 0) domain_unlock(&holding->domain);
    }
    atomic_store(&holding->is_held, true);
    while (!atomic_load(&holding->may_end)) sched_yield();
    domain_unlock(&holding->domain);
    return NULL;
}

static void the_favoured_thread_keeps_what_it_holds(void **state)
{
    (void)state;
    static struct holding holding;
    domain_init(&holding.domain, NULL);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hold, &holding), 0);
    while (!atomic_load(&holding.is_held)) sched_yield();
    for (int i = 0; i < 100; i++) assert_false(domain_try_lock(&holding.domain));
    atomic_store(&holding.may_end, true);
    while (!domain_try_lock(&holding.domain)) sched_yield();
    domain_unlock(&holding.domain);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_come_at_once_take_turns),
        cmocka_unit_test(others_end_the_favour_of_the_first),
        cmocka_unit_test(one_thread_alone_keeps_its_favour),
        cmocka_unit_test(the_favoured_thread_keeps_what_it_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
