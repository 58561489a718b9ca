/* done.h - keeps the callback of an asynchronous kernel beyond the call that got it.
 *
 * TensorFlow's C API passes the address of a std::function<void()> that ends with the computing
 * call, so that a kernel can call it later only if it has a copy. The C API has no function for
 * that. This copies it as libstdc++ does, whose std::function has had one layout since GCC 4.3: 16
 * bytes for the callable, a manager that copies and destroys it, an invoker. done_is_known says
 * whether a TensorFlow has that std::function; with another one the kernels must not be registered.
 */
#ifndef TUTTI_TENSORFLOW_DONE_H
#define TUTTI_TENSORFLOW_DONE_H

#include <stdbool.h>
#include <stddef.h>

/* A function of TensorFlow's that takes a std::function<void()>: libstdc++'s has this name,
 * libc++'s another one. */
#define DONE_WITNESS "_ZN3tsl6thread10ThreadPool8ScheduleESt8functionIFvvEE"

struct done {
    void *callable[2];
    bool (*manage)(void *to, const void *from, int operation);
    void (*invoke)(const void *callable);
};

enum { DONE_CLONE = 2, DONE_DESTROY = 3 };

/* Copies what the C API passed. */
static inline void done_keep(struct done *done, const void *passed)
{
    const struct done *const function = passed;
    *done = *function;
    if (function->manage != NULL) function->manage(done->callable, function->callable, DONE_CLONE);
}

/* Calls it, once, and destroys it. */
static inline void done_call(struct done *done)
{
    if (done->manage == NULL) return;
    done->invoke(done->callable);
    done->manage(done->callable, done->callable, DONE_DESTROY);
}

#endif
