#include "process/progress.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/status.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/futex.h"
#include "os/thread.h"

enum {
    NAP_NS =
        1000000, /* where it cannot sleep until something happens; queues between hosts hold what comes meanwhile */
    SHORT_NAP_NS = 100000, /* a shorter one costs as much */
    NAP_PER_PASS =
        16, /* what came from a network in one pass is a portion: a larger one costs fewer switches */
    PORTION_NS = 100000, /* a pass that takes so long is worth two switches of context */
    LISTEN_NS = 10000000,
    AWAKE_NS = 200000,    /* after a move, where nobody else wants the CPU */
    OTHERS_RAN_NS = 5000, /* a yield that takes so long gave the CPU to somebody */
    LEFT_TO_OTHERS_NS = 4000000,
    SHORT_SLEEP_NS = 200000,
    CALLS_A_NAP = 4,      /* so many notifications cost more than a nap */
    FRUITLESS_SLEEPS = 16 /* in a row, and it is better to nap */
};

/* Protects clients, sleeps_on and the life of the thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct progress_client *clients, *sleeps_on;
static pthread_t thread;
static bool thread_runs, thread_to_join;
static _Thread_local bool is_thread;

/* How often somebody notified, and in the lowest bits whether the thread sleeps, there or on a client. Exchanged on both sides:
 * whoever comes second sees this, or what the first one had written before. */
enum { ASLEEP = 1, ASLEEP_ON_CLIENT = 2, ONE_CALL = 4 };
static _Atomic uint32_t calls;
static uint32_t calls_before; /* the thread fell asleep */
static const uint64_t LONG_NS = UINT64_C(3600000000000);

static uint32_t calls_now(void)
{
    return atomic_load(&calls) & ~(uint32_t)(ONE_CALL - 1);
}

/* ------------------------------------------------------------------------------------------ calling */

static void wake_from_client(void)
{
    pthread_mutex_lock(&lock);
    if (sleeps_on != NULL) sleeps_on->wake(sleeps_on);
    pthread_mutex_unlock(&lock);
}

void progress_notify(void)
{
    const uint32_t before = atomic_fetch_add(&calls, ONE_CALL);
    if (is_thread) return;
    if ((before & ASLEEP_ON_CLIENT) != 0)
        wake_from_client();
    else if ((before & ASLEEP) != 0)
        futex_wake(&calls);
}

bool progress_is_called(void)
{
    return calls_now() != calls_before;
}

/* ------------------------------------------------------------------------------------------ the thread */

struct pass {
    enum progress_result result; /* the busiest one */
    bool is_near;                /* of all that are busy */
    uint64_t took_ns;
    struct progress_client *blocked; /* the only one that is; or NULL */
};

static struct pass pass(void)
{
    struct pass pass = {PROGRESS_NOTHING_TO_DO, true, 0, NULL};
    const uint64_t begin_ns = clock_now_ns();
    unsigned blocked_count = 0;
    for (struct progress_client *c = clients; c != NULL; c = c->next) {
        const enum progress_result result = c->progress(c);
        if (result == PROGRESS_BLOCKED) pass.blocked = blocked_count++ == 0 ? c : NULL;
        if (result >= PROGRESS_BLOCKED) pass.is_near &= c->is_near;
        if (result > pass.result) pass.result = result;
    }
    pass.took_ns = clock_now_ns() - begin_ns;
    return pass;
}

/* False: the client cannot sleep. */
static bool sleep_on(struct progress_client *client)
{
    sleeps_on = client;
    atomic_fetch_or(&calls, ASLEEP_ON_CLIENT);
    pthread_mutex_unlock(&lock);
    const bool has_slept = client->sleep(client, LISTEN_NS);
    pthread_mutex_lock(&lock);
    atomic_fetch_and(&calls, ~(uint32_t)ASLEEP_ON_CLIENT);
    sleeps_on = NULL;
    pthread_cond_broadcast(&changed);
    return has_slept;
}

static void sleep_until_called(uint64_t timeout_ns)
{
    pthread_mutex_unlock(&lock);
    futex_wait(&calls, calls_before | ASLEEP, timeout_ns);
    pthread_mutex_lock(&lock);
}

/* With a last look after it has said so, for who notified before. */
static void sleep_until_something(bool may_sleep_on)
{
    calls_before = atomic_fetch_or(&calls, ASLEEP);
    const struct pass last = pass();
    if (clients == NULL || last.result > PROGRESS_BLOCKED)
        ;
    else if (last.result == PROGRESS_NOTHING_TO_DO)
        sleep_until_called(LONG_NS);
    else if (last.result < PROGRESS_BLOCKED)
        sleep_until_called(LISTEN_NS);
    else if (!may_sleep_on || last.blocked == NULL || !sleep_on(last.blocked))
        sleep_until_called(NAP_NS);
    atomic_fetch_and(&calls, ~(uint32_t)ASLEEP);
}

/* Is not woken by calls. True if there were as many meanwhile. */
static bool nap(uint64_t ns, unsigned call_count)
{
    const uint32_t before = calls_now();
    pthread_mutex_unlock(&lock);
    nanosleep(&(struct timespec){0, (long)ns}, NULL);
    pthread_mutex_lock(&lock);
    return (calls_now() - before) / ONE_CALL >= call_count;
}

/* Whether others ran meanwhile. */
static bool yield(void)
{
    const uint64_t begin_ns = clock_now_ns();
    pthread_mutex_unlock(&lock);
    sched_yield();
    pthread_mutex_lock(&lock);
    return clock_now_ns() - begin_ns > OTHERS_RAN_NS;
}

struct habits {
    uint64_t moved_ns;
    bool is_alone;      /* on this CPU, when it last looked */
    bool is_in_the_way; /* of others on it, with what they move as well */
    bool lingers;       /* is called so often that naps cost less than waking it each time */
    unsigned fruitless; /* sleeps since something moved */
};

/* What moves between ranks of a host costs this CPU the same if who waits for it moves it. Where others want the CPU that is left to
 * them, but for slow looks, which keep going what nobody waits for here. */
static void leave_to_others(struct habits *habits)
{
    habits->is_in_the_way = yield();
    habits->is_alone = !habits->is_in_the_way;
    if (habits->is_in_the_way) habits->lingers = nap(LEFT_TO_OTHERS_NS, 0);
}

/* Until the next portion from a network is larger. */
static void let_it_come(uint64_t pass_ns)
{
    const uint64_t nap_ns = pass_ns * NAP_PER_PASS;
    if (pass_ns < PORTION_NS && nap_ns >= SHORT_NAP_NS) nap(nap_ns < NAP_NS ? nap_ns : NAP_NS, 0);
}

static void after_move(struct habits *habits, const struct pass *pass)
{
    habits->moved_ns = clock_now_ns();
    habits->fruitless = 0;
    if (pass->is_near)
        leave_to_others(habits);
    else
        let_it_come(pass->took_ns);
}

static void after_none(struct habits *habits, bool is_near)
{
    if (is_near && habits->is_in_the_way) {
        leave_to_others(habits);
        return;
    }
    habits->is_alone =
        is_near && habits->is_alone && clock_now_ns() - habits->moved_ns < AWAKE_NS && !yield();
    if (habits->is_alone) return;
    sleep_until_something(habits->fruitless++ % FRUITLESS_SLEEPS != FRUITLESS_SLEEPS - 1);
}

static void after_nothing_to_do(struct habits *habits)
{
    if (habits->lingers && habits->is_in_the_way) {
        habits->lingers = nap(LISTEN_NS, 1);
    } else if (habits->lingers) {
        habits->lingers = nap(NAP_NS, CALLS_A_NAP);
    } else {
        const uint64_t begin_ns = clock_now_ns();
        sleep_until_something(true);
        habits->lingers = progress_is_called() && clock_now_ns() - begin_ns < SHORT_SLEEP_NS;
    }
}

static void *thread_main(void *unused)
{
    (void)unused;
    struct habits habits = {0};
    is_thread = true;
    thread_take_short_turns();
    pthread_mutex_lock(&lock);
    while (clients != NULL) {
        const struct pass now = pass();
        if (now.result == PROGRESS_MOVED)
            after_move(&habits, &now);
        else if (now.result == PROGRESS_BLOCKED)
            after_none(&habits, now.is_near);
        else
            after_nothing_to_do(&habits);
    }
    thread_runs = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* In a child of fork: the thread is the parent's, and so are the clients. Whoever held the lock is not here. */
static void begin_anew(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    clients = sleeps_on = NULL;
    thread_runs = thread_to_join = false;
    atomic_store(&calls, 0);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, begin_anew);
}

/* With the lock held. A thread that has said its last word is waited for: who forks or unloads the library after the
 * last communicator is gone must not meet the rest of it, which may hold the locks of others. */
static void join_thread(void)
{
    if (thread_runs || !thread_to_join) return;
    pthread_join(thread, NULL);
    thread_to_join = false;
}

/* *is_said: whether it keeps to certain CPUs. */
static enum tutti_status read_cpus(cpu_set_t *cpus, bool *is_said)
{
    const char *text = getenv("TUTTI_PROGRESS_CPUS");
    *is_said = text != NULL && *text != '\0';
    if (!*is_said || (cpu_list_read(text, cpus) && CPU_COUNT(cpus) > 0)) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "TUTTI_PROGRESS_CPUS=%.40s: a list of CPUs such as 3 or 0-1,8 is needed", text);
}

enum tutti_status progress_check_options(void)
{
    cpu_set_t cpus;
    bool is_said;
    return read_cpus(&cpus, &is_said);
}

bool progress_has_free_cpu(int rank_count)
{
    cpu_set_t cpus;
    bool is_said;
    if (read_cpus(&cpus, &is_said) == TUTTI_OK && is_said) return true;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > rank_count;
}

static enum tutti_status start_thread(void)
{
    cpu_set_t cpus;
    bool is_said;
    join_thread();
    TRY(read_cpus(&cpus, &is_said));
    TRY(thread_start(&thread, thread_main, NULL, is_said ? &cpus : NULL, "the progress thread"));
    thread_runs = thread_to_join = true;
    return TUTTI_OK;
}

static bool is_registered(const struct progress_client *client)
{
    for (const struct progress_client *c = clients; c != NULL; c = c->next)
        if (c == client) return true;
    return false;
}

enum tutti_status progress_register(struct progress_client *client)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    enum tutti_status status = TUTTI_OK;
    if (!is_registered(client)) {
        client->next = clients;
        clients = client;
        if (!thread_runs) status = start_thread();
        if (status != TUTTI_OK) clients = client->next;
    }
    pthread_mutex_unlock(&lock);
    if (status == TUTTI_OK) progress_notify(); /* it may want to be asked */
    return status;
}

void progress_unregister(struct progress_client *client)
{
    pthread_mutex_lock(&lock);
    struct progress_client **link = &clients;
    while (*link != client) link = &(*link)->next;
    *link = client->next;
    pthread_mutex_unlock(&lock);
    progress_notify();
    pthread_mutex_lock(&lock);
    while (sleeps_on == client || (clients == NULL && thread_runs))
        pthread_cond_wait(&changed, &lock);
    join_thread();
    pthread_mutex_unlock(&lock);
}
