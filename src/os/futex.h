/* futex.h - sleep on a word of shared memory, and the fence that makes cheap wake-ups possible. */
#ifndef TUTTI_OS_FUTEX_H
#define TUTTI_OS_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Sleeps while *word == value, at most timeout_ns; may wake early. Works across processes. */
void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns);
/* Wakes all threads that sleep on the word. */
void futex_wake(_Atomic uint32_t *word);

/* Prepares this process to be a target of fence_everybody. False where the kernel cannot, or a
 * sandbox forbids it: then no other process's fence reaches this one, and its own reach no other.
 * All processes have to know that, and to fence for themselves. */
bool fence_register(void);
/* A full memory fence on every running thread of every registered process. A sleeper calls it
 * between "I am asleep" and its last look, so that a thread that publishes needs no fence of its
 * own. */
void fence_everybody(void);
/* A full memory fence on this thread alone: for publishers where fence_register() has failed for
 * some process. */
void fence_this_thread(void);

#endif
