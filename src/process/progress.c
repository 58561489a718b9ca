#include "process/progress.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/option.h"
#include "base/status.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/fork.h"
#include "os/thread.h"

enum {
    NAP_NS_MIN = 20000,
    NAP_NS_MAX = 1000000, /* queues between hosts hold what comes meanwhile, 125 KB at 1 Gbit/s */
    AWAKE_NS =
        200000, /* after a move, where the CPU is free: others may have moved before a nap is over */
    OTHERS_RAN_NS = 5000,
    LISTEN_NS = 10000000, /* from one look for callers to the next */
    LINGER_NS =
        5000000, /* after the last operation: naps cost less than waking the thread for each one */
    FORK_NAPS_MAX = 100 /* between two passes: a fork looks for its turn more often than that */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects everything here but `asleep` */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static struct progress_client *clients;
static pthread_t thread;
static bool thread_runs, thread_to_join;
static bool thread_is_up; /* it has come as far as its loop */
static _Thread_local bool is_thread;
/* Exchanged on both sides: the second thread to come sees this, or what the first had written
 * before. */
static _Atomic unsigned asleep;

/* One pass over all clients: the busiest result. */
static enum progress_result pass(void)
{
    enum progress_result result = PROGRESS_NOTHING_TO_DO;
    for (struct progress_client *c = clients; c != NULL; c = c->next) {
        const enum progress_result r = c->progress(c);
        if (r > result) result = r;
    }
    return result;
}

static void wait_a_moment(long ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ns;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_clockwait(&wake, &lock, CLOCK_MONOTONIC, &until);
}

/* Sleeps until notified, or it is time to listen, with a last look after saying so. */
static void sleep_deeply(void)
{
    atomic_exchange(&asleep, 1);
    const enum progress_result result = pass();
    if (clients != NULL && result == PROGRESS_NOTHING_TO_DO)
        pthread_cond_wait(&wake, &lock);
    else if (clients != NULL && result == PROGRESS_LISTENING)
        wait_a_moment(LISTEN_NS);
    atomic_store(&asleep, 0);
}

/* The lock is free for a moment only between two passes, and a fork that sleeps would miss it.
 * Forks without end do not stop us. */
static void let_forks_go_first(void)
{
    for (int naps = 0; naps < FORK_NAPS_MAX && fork_awaits(FORK_PROGRESS); naps++)
        nanosleep(&(struct timespec){0, NAP_NS_MIN}, NULL);
}

/* When the next pass is worth its switches of context. After something moved the next pass follows
 * at once: ranks of a host wait for each other. What does not come is awaited ever longer: a
 * quarter is added to the wait at most. */
struct pace {
    uint64_t moved_ns; /* the end of the last pass that moved something */
    unsigned naps;     /* since then */
    bool is_awake;     /* since something moved, and nobody else wants this CPU */
};

/* As long as a quarter of the wait so far. */
static uint64_t next_nap_ns(const struct pace *pace, uint64_t now_ns)
{
    const uint64_t ns = (now_ns - pace->moved_ns) / 4;
    if (pace->naps == 0 || ns < NAP_NS_MIN) return NAP_NS_MIN;
    return ns > NAP_NS_MAX ? NAP_NS_MAX : ns;
}

static void nap(struct pace *pace, uint64_t ns)
{
    nanosleep(&(struct timespec){0, (long)ns}, NULL);
    pace->naps++;
}

/* Whether others ran meanwhile. */
static bool yield(void)
{
    const uint64_t begin_ns = clock_now_ns();
    sched_yield();
    return clock_now_ns() - begin_ns > OTHERS_RAN_NS;
}

static void after_a_move(struct pace *pace, uint64_t end_ns)
{
    *pace = (struct pace){.moved_ns = end_ns, .is_awake = !yield()};
}

static void after_none(struct pace *pace, uint64_t now_ns)
{
    pace->is_awake = pace->is_awake && now_ns - pace->moved_ns < AWAKE_NS && !yield();
    if (pace->is_awake) return;
    nap(pace, next_nap_ns(pace, now_ns));
}

static struct pace from_now(void)
{
    return (struct pace){.moved_ns = clock_now_ns()};
}

static void *thread_main(void *unused)
{
    (void)unused;
    struct pace pace = from_now();
    uint64_t busy_ns = pace.moved_ns;
    enum progress_result before = PROGRESS_NOTHING_TO_DO;
    thread_take_short_turns();
    is_thread = true;
    pthread_mutex_lock(&lock);
    thread_is_up = true;
    while (clients != NULL) {
        const enum progress_result result = pass();
        const uint64_t now_ns = clock_now_ns();
        if (result >= PROGRESS_BLOCKED) busy_ns = now_ns;
        if (result >= PROGRESS_BLOCKED && before < PROGRESS_BLOCKED) pace = from_now();
        before = result;
        if (result <= PROGRESS_LISTENING && now_ns - busy_ns > LINGER_NS) {
            sleep_deeply();
            continue;
        }
        pthread_mutex_unlock(&lock);
        if (result == PROGRESS_MOVED)
            after_a_move(&pace, now_ns);
        else
            after_none(&pace, now_ns);
        let_forks_go_first();
        pthread_mutex_lock(&lock);
    }
    thread_runs = false;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* With the lock held. A thread that has said its last word is waited for: who forks or unloads the
 * library after the last communicator is gone must not meet the rest of it, which may hold the
 * locks of others. */
static void join_thread(void)
{
    if (thread_runs || !thread_to_join) return;
    pthread_join(thread, NULL);
    thread_to_join = false;
}

/* In a pass: a client calls what the application gave it, such as a reduction, and that forks. */
static bool is_in_pass(void)
{
    return is_thread;
}

/* Whether the thread is between two passes, or gone: not on its way to the first one, nor at its
 * end. */
static bool is_between_passes(void)
{
    join_thread();
    return !thread_runs || thread_is_up;
}

/* In a child of fork: the thread is the parent's, and so are the clients. */
static void begin_anew(bool is_held)
{
    (void)is_held;
    wake = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    clients = NULL;
    thread_runs = thread_to_join = is_thread = false;
    atomic_store(&asleep, 0);
}

__attribute__((constructor)) static void watch_forks(void)
{
    static const struct fork_participant passes = {
        .lock = &lock, .is_inside = is_in_pass, .is_quiet = is_between_passes, .child = begin_anew};
    fork_watch(FORK_PROGRESS, &passes);
}

/* *is_said: whether it keeps to certain CPUs. */
static enum tutti_status read_cpus(cpu_set_t *cpus, bool *is_said)
{
    const char *text = option_text(OPTION_PROGRESS_CPUS);
    *is_said = text != NULL;
    if (!*is_said || (cpu_list_read(text, cpus) && CPU_COUNT(cpus) > 0)) return TUTTI_OK;
    return option_refuse(OPTION_PROGRESS_CPUS, text);
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
    thread_is_up = false;
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
    pthread_mutex_lock(&lock);
    enum tutti_status status = TUTTI_OK;
    if (!is_registered(client)) {
        client->next = clients;
        clients = client;
        if (!thread_runs) status = start_thread();
        if (status != TUTTI_OK) clients = client->next;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void progress_unregister(struct progress_client *client)
{
    pthread_mutex_lock(&lock);
    struct progress_client **link = &clients;
    while (*link != client) link = &(*link)->next;
    *link = client->next;
    pthread_cond_broadcast(&wake);
    while (clients == NULL && thread_runs) { /* it naps at most NAP_NS_MAX */
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += 1;
        pthread_cond_clockwait(&wake, &lock, CLOCK_MONOTONIC, &until);
    }
    join_thread();
    pthread_mutex_unlock(&lock);
}

void progress_notify(void)
{
    if (atomic_fetch_add(&asleep, 0) == 0) return;
    pthread_mutex_lock(&lock);
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
}
