/* thread.h - threads of the library's own: they take none of the application's signals. */
#ifndef TUTTI_OS_THREAD_H
#define TUTTI_OS_THREAD_H

#include <pthread.h>
#include <sched.h>

#include "tutti/tutti.h"

/* Starts a thread on those CPUs (NULL: where the caller may run). All signals are blocked in it but
 * those that a thread causes itself, SIGSEGV and its like. SYSTEM when there can be none; `name` is
 * for the message: "the progress thread". */
enum tutti_status thread_start(pthread_t *thread, void *(*run)(void *context), void *context,
                               const cpu_set_t *cpus, const char *name);

/* The calling thread works little and often. From Linux 6.12 on it runs as soon as it wakes, and
 * does not wait until the turn of a thread that computes on its CPU is over (some milliseconds).
 * Needs no privilege; if the kernel or the policy knows no turns, nothing changes. */
void thread_take_short_turns(void);

#endif
