/* at_exit.h - libraries that are taken down by exit() while threads still use them.
 *
 * exit() runs handlers, among them OpenSSL's, which frees what all threads have of it; the other threads go on meanwhile. A rank that
 * ends without freeing its communicators has such a thread, and would crash in its last moment. So whoever uses such a library comes
 * in before and goes out afterwards:
 *
 *     thread   ──enter──use──leave──enter──use──leave── enter: false
 *     exit()                    │ flag, then until nobody is in │ OpenSSL's handler ...
 *
 * Uses must be short: exit() waits for them, at most 2 s. From then on nobody comes in, for the rest of the process.
 */
#ifndef TUTTI_OS_AT_EXIT_H
#define TUTTI_OS_AT_EXIT_H

#include <stdbool.h>

/* Handlers run last in, first out: call this after the library has registered its own. Any thread, any number of times. */
void at_exit_watch(void);
/* False: exit() has begun, the library may be gone; then there is nothing to leave. Any thread; does not block. */
bool at_exit_enter(void);
void at_exit_leave(void);
/* Whether exit() has begun. Any thread; does not block. */
bool at_exit_has_begun(void);

#endif
