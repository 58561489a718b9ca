/* at_exit.h - libraries that exit() takes down while threads still use them, and that fork() would
 * leave in the middle of what they do.
 *
 * exit() runs handlers, among them OpenSSL's, which frees the OpenSSL objects of all threads; the
 * other threads go on meanwhile. A rank that ends without freeing its communicators has such a
 * thread, and would crash in its last moment. So a thread must enter before it uses such a library,
 * and leave afterwards:
 *
 *     thread   ──enter──use──leave──enter──use──leave── enter: false
 *     exit()                    │ flag, then until nobody is in │ OpenSSL's handler ...
 *
 * Uses must be short: exit() waits for them, at most 2 s. From then on no thread can enter, for the
 * rest of the process.
 *
 * fork() waits, too, until no thread is in (os/fork.h), and meanwhile none enters: the locks of
 * OpenSSL would stay closed in the child. So what a library does when it is first used belongs
 * between enter and leave.
 */
#ifndef TUTTI_OS_AT_EXIT_H
#define TUTTI_OS_AT_EXIT_H

#include <stdbool.h>

/* Handlers run last in, first out: call this after the library has registered its own. Any thread,
 * any number of times. */
void at_exit_watch(void);
/* False: exit() has begun, and the library may be gone; the caller must not call at_exit_leave. Any
 * thread; blocks as long as a fork(). */
bool at_exit_enter(void);
void at_exit_leave(void);
/* For an owner of the library's objects who could not enter to free them: embedded in it, it keeps
 * owner and objects, for the moments that are left, where a checker of leaks sees that they are
 * still known. */
struct at_exit_kept {
    struct at_exit_kept *next;
};
/* Any thread; does not block. */
void at_exit_keep(struct at_exit_kept *kept);
/* Whether exit() has begun. Any thread; does not block. */
bool at_exit_has_begun(void);

#endif
