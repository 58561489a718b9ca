#include "memory/unmapped.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "os/clock.h"
#include "os/fork.h"
#include "os/mapping.h"
#include "os/thread.h"
#include "os/userfault.h"

enum { READ_RANGES = 16, UNWATCH_TRIES = 64 };
static const uint64_t SETTLE_NS = 100000;

/* The thread that reads the messages, and its descriptors. */
struct reader {
    int fd, end_fd;
    pthread_t thread;
};

/* Held to open or end a reader; taken before `lock`, never by the reader, never at fork(). */
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;
/* Protects all that follows, and is held for moments only (invariant 2). */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct unmapped_listener *listeners;
static struct ranges watched_ranges;
static struct reader *reader; /* NULL: nothing is watched yet */
static bool is_impossible;    /* tried, and refused */

/* In the child: no thread reads there, and nothing is watched. The parent's descriptor would keep
 * the parent's threads waiting once the parent has closed its own. */
static void forget_all(bool is_held)
{
    (void)is_held;
    if (reader != NULL) {
        close(reader->fd);
        close(reader->end_fd);
    }
    reader = NULL;
    listeners = NULL;
    watched_ranges = (struct ranges){0};
    is_impossible = false;
    life = lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

__attribute__((constructor)) static void watch_forks(void)
{
    static const struct fork_participant unmapped = {.child = forget_all};
    fork_watch(FORK_UNMAPPED, &unmapped);
}

/* ------------------------------------------------------------------------------- what has gone */

static void extend(struct unmapped_range *range, uintptr_t begin, uintptr_t end)
{
    if (begin < range->begin) range->begin = begin;
    if (end > range->end) range->end = end;
}

static void append(struct unmapped_listener *listener, uintptr_t begin, uintptr_t end)
{
    struct unmapped_range *const last =
        listener->count > 0 ? &listener->pending[listener->count - 1] : NULL;
    if (last != NULL && begin <= last->end && end >= last->begin) {
        extend(last, begin, end);
    } else if (listener->count < UNMAPPED_PENDING) {
        listener->pending[listener->count++] = (struct unmapped_range){begin, end};
    } else {
        struct unmapped_range *const all = &listener->pending[0];
        for (int i = 1; i < UNMAPPED_PENDING; i++)
            extend(all, listener->pending[i].begin, listener->pending[i].end);
        extend(all, begin, end);
        listener->count = 1;
    }
}

static void tell_all(uintptr_t begin, uintptr_t end)
{
    for (struct unmapped_listener *each = listeners; each != NULL; each = each->next)
        append(each, begin, end);
}

/* With the lock held. */
static void drain(int fd)
{
    struct userfault_range gone[READ_RANGES];
    int count;
    while ((count = userfault_read(fd, gone, READ_RANGES)) > 0)
        for (int i = 0; i < count; i++) tell_all(gone[i].begin, gone[i].end);
}

void unmapped_announce(const void *address, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    tell_all((uintptr_t)address, (uintptr_t)address + bytes);
    pthread_mutex_unlock(&lock);
}

int unmapped_take(struct unmapped_listener *listener, struct unmapped_range *gone)
{
    pthread_mutex_lock(&lock);
    const int count = listener->count;
    memcpy(gone, listener->pending, (size_t)count * sizeof gone[0]);
    listener->count = 0;
    pthread_mutex_unlock(&lock);
    return count;
}

/* A thread counts as busy from before its memory goes until it has been let go. Only then can the
 * memory be told from later memory: between the two there may be other memory at the same place,
 * and not even a message yet. */
bool unmapped_settle(void)
{
    uint64_t begin_ns = 0;
    for (;;) {
        pthread_mutex_lock(&lock);
        const bool is_busy = reader != NULL && userfault_is_busy(reader->fd);
        if (is_busy) drain(reader->fd);
        pthread_mutex_unlock(&lock);
        if (!is_busy) return true;
        const uint64_t now = clock_now_ns();
        if (begin_ns == 0) begin_ns = now;
        if (now - begin_ns >= SETTLE_NS) return false;
        sched_yield();
    }
}

/* ---------------------------------------------------------------------------------- the reader */

static void *read_messages(void *context)
{
    const struct reader *const self = context;
    struct pollfd either[] = {{self->fd, POLLIN, 0}, {self->end_fd, POLLIN, 0}};
    thread_take_short_turns(); /* threads of the application wait for it */
    while (either[1].revents == 0) {
        if (poll(either, 2, -1) < 0) {
            either[1].revents = 0;
            continue;
        }
        if (either[0].revents == 0) continue;
        pthread_mutex_lock(&lock);
        drain(self->fd);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void close_keeping_errno(int fd)
{
    const int error = errno;
    close(fd);
    errno = error;
}

/* NULL with errno: not possible here. */
static struct reader *start_reader(void)
{
    struct reader *const made = malloc(sizeof *made);
    if (made == NULL) return NULL;
    made->fd = userfault_open();
    if (made->fd < 0) goto free_reader;
    made->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->end_fd < 0) goto close_fd;
    if (thread_start(&made->thread, read_messages, made, NULL, "the thread for unmapped memory") ==
        TUTTI_OK)
        return made;
    errno = EAGAIN;
    close_keeping_errno(made->end_fd);
close_fd:
    close_keeping_errno(made->fd);
free_reader:
    free(made); /* keeps errno */
    return NULL;
}

static void end_reader(struct reader *old)
{
    const uint64_t one = 1;
    /* It cannot fail: the counter is 0. */
    const ssize_t written = write(old->end_fd, &one, sizeof one);
    assert(written == sizeof one);
    (void)written;
    pthread_join(old->thread, NULL);
    close(old->end_fd);
    close(old->fd); /* lets go of threads that still wait */
    free(old);
}

/* Only when nothing is watched, so that no thread can be waiting for the lock's holder. */
static bool have_reader(void)
{
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&lock);
    const bool is_needed = reader == NULL && !is_impossible;
    pthread_mutex_unlock(&lock);
    struct reader *const made = is_needed ? start_reader() : NULL;
    if (is_needed && made == NULL)
        log_write(LOG_INFO,
                  "this process cannot see when its memory is unmapped (userfaultfd: %s): network "
                  "cards keep a registration only of memory from tutti_mem_alloc and "
                  "tutti_mem_register",
                  strerror(errno));
    pthread_mutex_lock(&lock);
    if (is_needed) reader = made;
    is_impossible = reader == NULL;
    const bool is_there = reader != NULL;
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&life);
    return is_there;
}

void unmapped_open(struct unmapped_listener *listener)
{
    pthread_mutex_lock(&lock);
    listener->count = 0;
    listener->next = listeners;
    listeners = listener;
    pthread_mutex_unlock(&lock);
}

void unmapped_close(struct unmapped_listener *listener)
{
    struct reader *old = NULL;
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&lock);
    struct unmapped_listener **link = &listeners;
    while (*link != NULL && *link != listener) link = &(*link)->next;
    if (*link != NULL) *link = listener->next;
    if (listeners == NULL) {
        old = reader;
        reader = NULL;
        is_impossible = false;
    }
    pthread_mutex_unlock(&lock);
    if (old != NULL) end_reader(old);
    pthread_mutex_unlock(&life);
}

bool unmapped_is_possible(void)
{
    pthread_mutex_lock(&lock);
    const bool is_possible = !is_impossible;
    pthread_mutex_unlock(&lock);
    return is_possible;
}

/* ------------------------------------------------------------------------------------ watching */

bool unmapped_watch(struct range *watched)
{
    uintptr_t begin, end;
    if (!have_reader() || !mapping_is_private(watched->begin, watched->end, &begin, &end))
        return false;
    watched->begin = begin;
    watched->end = end;
    pthread_mutex_lock(&lock);
    const bool is_watched = reader != NULL && userfault_watch(reader->fd, begin, end);
    if (is_watched) ranges_add(&watched_ranges, watched);
    pthread_mutex_unlock(&lock);
    return is_watched;
}

/* Other mappings, of kinds that cannot be watched, may be there by now: then the halves are
 * unwatched one by one, as far as the tries go. The rest is watched until the reader ends, which
 * costs a thread that unmaps it a moment. */
static void unwatch(uintptr_t begin, uintptr_t end, int *tries)
{
    if (userfault_unwatch(reader->fd, begin, end) || --*tries <= 0) return;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t middle = begin + (end - begin) / 2 / page * page;
    if (middle == begin) return;
    unwatch(begin, middle, tries);
    unwatch(middle, end, tries);
}

void unmapped_unwatch(struct range *watched)
{
    int tries = UNWATCH_TRIES;
    pthread_mutex_lock(&lock);
    ranges_remove(&watched_ranges, watched);
    uintptr_t at = watched->begin;
    /* Unwatches the parts that no other range covers. */
    for (const struct range *other = NULL;
         (other = ranges_next(&watched_ranges, watched->begin, watched->end, other)) != NULL;) {
        if (other->begin > at) unwatch(at, other->begin, &tries);
        if (other->end > at) at = other->end;
    }
    if (at < watched->end) unwatch(at, watched->end, &tries);
    pthread_mutex_unlock(&lock);
}
