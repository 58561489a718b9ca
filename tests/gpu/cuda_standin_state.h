/* cuda_standin_state.h - the functions of the stand-in for a driver (cuda_standin.h), by topic, and
 * what they share.
 *
 *     cuda_standin.c                 the start, and functions for tests
 *     cuda_standin_device_calls.c    devices
 *     cuda_standin_context_calls.c   contexts: which one is current; waiting for its device
 *     cuda_standin_module_calls.c    modules, and kernels in them
 *     cuda_standin_memory_calls.c    memory of devices and of the host
 *     cuda_standin_mapped_calls.c    memory that a program maps by hand
 *     cuda_standin_stream_calls.c    copies, streams, events
 *     cuda_standin_errors.c          names and texts of results
 *     cuda_standin_state.c           how each call begins, and which ones are to fail
 *
 * Below them: cuda_standin_memory.h, cuda_standin_mapped.h, cuda_standin_work.h, which do what the
 * functions say.
 *
 * Each function of the driver is declared here, by its line in the lists of cuda_standin.h and
 * gpu/cuda_library.h: its name in C is standin_SLOT, and the linker sees its symbol. It begins with
 * one of the macros at the end. Any thread.
 */
#ifndef TUTTI_TESTS_GPU_CUDA_STANDIN_STATE_H
#define TUTTI_TESTS_GPU_CUDA_STANDIN_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/gpu/cuda_standin.h"
#include "tests/gpu/cuda_standin_memory.h"
#include "tests/gpu/cuda_standin_work.h"

#define EXPORTED __attribute__((visibility("default")))
#define DECLARE(slot, symbol, parameters) EXPORTED int standin_##slot parameters __asm__(symbol);
CUDA_FUNCTION_LIST(DECLARE)
CUDA_TEST_FUNCTION_LIST(DECLARE)
#undef DECLARE

enum { STANDIN_NAME_BYTES = 48 };

struct cuda_context {
    int device;
    _Atomic int retained;
};

/* Set by standin_init, with `lock`. From then on only waits_to_allocate and the counts of contexts
 * change. */
struct standin_state {
    pthread_mutex_t lock;
    _Atomic pid_t owner; /* the process that initialised it; 0: none */
    int device_count;
    bool are_peers; /* devices reach memory of each other */
    atomic_bool waits_to_allocate;
    struct cuda_context contexts[STANDIN_DEVICES_MAX], foreign;
};
extern struct standin_state standin_state;

static inline bool standin_is_device(int device)
{
    return device >= 0 && device < standin_state.device_count;
}

/* cuda_standin_state.c */

/* CUDA_NOT_INITIALIZED, or the result as which a test wants that call to fail; else CUDA_OK. */
int standin_begin_call(const char *symbol);
/* The second half of that, for the call that initialises. */
int standin_fails(const char *symbol);
/* `fail` of cuda_standin.h. */
void standin_fail(const char *symbol, int result, unsigned skipped, unsigned times);
/* A number from the environment, within bounds; value NULL or empty: the last one. */
long standin_number_from(const char *value, long least, long most, long otherwise);

/* cuda_standin_context_calls.c */

/* NULL: this thread has none. */
struct cuda_context *standin_current(void);
/* The result as which the device of the current context has failed. */
int standin_current_fault(void);
/* The device of a stream; of the default stream, that of the current context. */
int standin_device_of(struct cuda_stream *stream);
/* CUDA_CAPTURE_UNSUPPORTED for calls that a driver does not allow while a thread captures. */
int standin_refuse_in_capture(void);
/* Waits until all is over that is on the device by now; no other thread comes in meanwhile. */
void standin_finish_device(const char *what, int device);
void standin_finish_devices(const char *what);
/* The same for calls in which a driver may wait: if a test asks for it. The second one is for the
 * current device. */
void standin_finish_device_if_asked(const char *what, int device);
void standin_finish_if_asked(const char *what);

/* cuda_standin_module_calls.c */

/* `add_kernel` of cuda_standin.h. */
void standin_add_kernel(const char *name, gpu_twin *run);
/* How many modules were loaded, ever. */
unsigned standin_module_count(void);

#define RETURN_UNLESS_OK(call)                          \
    do {                                                \
        const int call_result = (call);                 \
        if (call_result != CUDA_OK) return call_result; \
    } while (0)
#define BEGIN(symbol) RETURN_UNLESS_OK(standin_begin_call(symbol))
/* Waits while another thread keeps it out of that device. */
#define BEGIN_IN_CONTEXT(symbol)                                \
    BEGIN(symbol);                                              \
    if (standin_current() == NULL) return CUDA_INVALID_CONTEXT; \
    work_enter(symbol, standin_current()->device);              \
    RETURN_UNLESS_OK(standin_current_fault())
/* The same of a call that needs no context. */
#define BEGIN_ANYWHERE(symbol) \
    BEGIN(symbol);             \
    RETURN_UNLESS_OK(standin_current_fault())

#endif
