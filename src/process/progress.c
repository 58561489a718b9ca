#include "process/progress.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "os/clock.h"

enum {
    NAP_NS_MIN = 20000,
    NAP_NS_MAX = 500000,
    LISTEN_NS = 10000000, /* from one look for callers to the next */
    LINGER_NS =
        5000000 /* after the last operation: naps cost less than waking the thread for each one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects everything here but `asleep` */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static struct progress_client *clients;
static pthread_t thread;
static bool thread_runs, thread_to_join;
/* Exchanged on both sides: whoever comes second sees this, or what the first one had written before. */
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
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ns;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&wake, &lock, &until);
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

static void *thread_main(void *unused)
{
    (void)unused;
    long nap_ns = NAP_NS_MIN;
    uint64_t busy_ns = clock_now_ns();
    pthread_mutex_lock(&lock);
    while (clients != NULL) {
        const enum progress_result result = pass();
        if (result == PROGRESS_MOVED) {
            nap_ns = NAP_NS_MIN;
            busy_ns = clock_now_ns();
            pthread_mutex_unlock(&lock);
            sched_yield();
        } else if (result <= PROGRESS_LISTENING && clock_now_ns() - busy_ns > LINGER_NS) {
            sleep_deeply();
            continue;
        } else {
            if (result == PROGRESS_BLOCKED) busy_ns = clock_now_ns();
            pthread_mutex_unlock(&lock);
            nanosleep(&(struct timespec){0, nap_ns}, NULL);
            if (nap_ns < NAP_NS_MAX) nap_ns += nap_ns / 2;
        }
        pthread_mutex_lock(&lock);
    }
    thread_runs = false;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* In a child of fork: the thread is the parent's, and so are the clients. Whoever held the lock is not here. */
static void begin_anew(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    wake = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    clients = NULL;
    thread_runs = thread_to_join = false;
    atomic_store(&asleep, 0);
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

static enum tutti_status start_thread(void)
{
    join_thread();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&thread, NULL, thread_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return error_set(TUTTI_SYSTEM, "the progress thread cannot start: %s", strerror(error));
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
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        pthread_cond_timedwait(&wake, &lock, &until);
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
