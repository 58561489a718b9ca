/* cuda_standin.h - a test double for CUDA's driver: libcuda_standin.so, which the library loads as
 * it loads the driver (TUTTI_CUDA_DRIVER), so that everything but the kernels' machine code is
 * tested without a GPU. It is strict where a driver may be lenient:
 *
 *   - memory of a device is a file without a name, mapped twice: PROT_NONE where the program sees
 *     it, so that the host faults there, and writable elsewhere, for copies and kernels
 *   - streams run as late, and in such an order, as events, the default stream and hardware queues
 *     allow. A queue is strictly first in, first out: an item leaves it when it begins, and until
 *     then nothing behind it begins, of whichever stream
 *   - a kernel runs as its twin on the host (tests/gpu/twins.h), each block a thread on a
 *     multiprocessor of its own; blocks wait for a free one
 *   - to free or to unpin memory, to close imported memory, and to unload a module wait for all
 *     work that is on the device by then; with TUTTI_STANDIN_WAIT also to allocate memory, of the
 *     device or pinned, to pin it, to open imported memory, to give access to a mapping or to unmap
 *     it, and to load a kernel
 *   - cuMemcpyAsync waits as CUDA documents it: with memory of the host that is not pinned for all
 *     that is before it in its stream, to such memory and between two places of the host until it
 *     is done. cuMemcpyHtoD from such memory returns before the data is on the device
 *   - whoever waits in a copy, or to free or allocate memory, keeps all other threads out of the
 *     device
 *   - cuMemHostAlloc without CU_MEMHOSTALLOC_PORTABLE is refused (NOT_SUPPORTED)
 *   - memory is exported in blocks of 2 MiB, as which importers see it; smaller allocations share
 *     them
 *   - memory of pools has a range of addresses, but no context, and no handle
 *   - to ask whether a stream is idle that is being captured is refused, and spoils the capture
 *   - use after free, double free, access out of an allocation, or from a device that does not
 *     reach it, access by the host, and streams and events that are not there end the process with
 *     a line that says so: "cuda stand-in: ..."; so does whoever waits for 30 s
 *   - in a child of fork() everything fails, once its parent has initialised the stand-in
 *   - a device that has failed (`fault`) does nothing any more, its kernels are gone, and what
 *     waits for it returns. All calls answer with the fault where such a device's context is the
 *     current one, but for those that change contexts or ask what a device is. So does a question
 *     about a pointer, unless it is to memory of a device that works
 *
 * Nothing is left behind, however processes end.
 *
 * From the environment, when it is initialised:
 *
 *     TUTTI_STANDIN_DEVICES=2      how many devices
 *     TUTTI_STANDIN_QUEUES=8       hardware queues of each, 64 at most; without it, what CUDA_DEVICE_MAX_CONNECTIONS says
 *     TUTTI_STANDIN_COPY_QUEUES=0  so many further queues for copies of each direction, first in, first out, whichever stream they are of; 0: none
 *     TUTTI_STANDIN_PROCESSORS=8   multiprocessors of each
 *     TUTTI_STANDIN_SEED=1         what is late, and in which order; 0: nothing is late
 *     TUTTI_STANDIN_LOCK=1         0: whoever waits in the driver keeps nobody out
 *     TUTTI_STANDIN_WAIT=0         1: to allocate waits, too, as a driver may
 *     TUTTI_STANDIN_PEERS=1        0: no device reaches memory of another one
 *     TUTTI_STANDIN_MAPPED=0       what it says of memory that is mapped by hand: enum mapped_manner
 *
 * Memory that is mapped by hand: cuda_standin_mapped.h.
 *
 * Lacks: graphs but for the state of a capture that a test sets, per-thread default streams, pools,
 * contexts beside the primary ones.
 */
#ifndef TUTTI_TESTS_GPU_CUDA_STANDIN_H
#define TUTTI_TESTS_GPU_CUDA_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda_library.h"
#include "tests/gpu/twins.h"

struct cuda_event;

enum { STANDIN_GRANULARITY = 2 << 20 }; /* of physical memory */

/* Further functions of the driver, for tests, as CUDA_FUNCTION_LIST has those of the library. */
#define CUDA_TEST_FUNCTION_LIST(X)                                                                 \
    X(context_set, "cuCtxSetCurrent", (struct cuda_context * context))                             \
    X(context_get, "cuCtxGetCurrent", (struct cuda_context * *context))                            \
    X(context_synchronize, "cuCtxSynchronize", (void))                                             \
    X(allocate_managed, "cuMemAllocManaged", (uint64_t * address, size_t bytes, unsigned flags))   \
    X(host_register, "cuMemHostRegister_v2", (void *memory, size_t bytes, unsigned flags))         \
    X(host_unregister, "cuMemHostUnregister", (void *memory))                                      \
    X(ipc_close, "cuIpcCloseMemHandle", (uint64_t address))                                        \
    X(memory_create, "cuMemCreate",                                                                \
      (cuda_memory * memory, size_t bytes, const struct cuda_memory_kind *kind,                    \
       unsigned long long flags))                                                                  \
    X(memory_granularity, "cuMemGetAllocationGranularity",                                         \
      (size_t * bytes, const struct cuda_memory_kind *kind, int option))                           \
    X(copy_to_device, "cuMemcpyHtoD_v2", (uint64_t destination, const void *source, size_t bytes)) \
    X(copy_to_host, "cuMemcpyDtoH_v2", (void *destination, uint64_t source, size_t bytes))         \
    X(stream_synchronize, "cuStreamSynchronize", (struct cuda_stream * stream))                    \
    X(call_host, "cuLaunchHostFunc",                                                               \
      (struct cuda_stream * stream, void (*run)(void *context), void *context))                    \
    X(stream_wait, "cuStreamWaitEvent",                                                            \
      (struct cuda_stream * stream, struct cuda_event * event, unsigned flags))                    \
    X(event_create, "cuEventCreate", (struct cuda_event * *event, unsigned flags))                 \
    X(event_record, "cuEventRecord", (struct cuda_event * event, struct cuda_stream * stream))     \
    X(event_query, "cuEventQuery", (struct cuda_event * event))                                    \
    X(event_synchronize, "cuEventSynchronize", (struct cuda_event * event))                        \
    X(event_destroy, "cuEventDestroy_v2", (struct cuda_event * event))

/* All that a test calls: of the stand-in or of a real driver. */
struct cuda_test_library {
    struct cuda_library driver;
#define CUDA_TEST_SLOT(slot, symbol, parameters) int(*slot) parameters;
    CUDA_TEST_FUNCTION_LIST(CUDA_TEST_SLOT)
#undef CUDA_TEST_SLOT
};

enum cuda_standin_memory {
    STANDIN_ORDINARY,
    STANDIN_BARE,   /* as memory of pools: no context, no handle */
    STANDIN_FOREIGN /* of a context that is not the primary one */
};

/* CUDA's documentation leaves open which numbers (CU_POINTER_ATTRIBUTE_BUFFER_ID) mappings have,
 * and what cuMemGetAddressRange says of them: so it is chosen by TUTTI_STANDIN_MAPPED. */
enum mapped_manner {
    MAPPED_NUMBER_OF_RESERVATION, /* and the range of each mapping */
    MAPPED_NUMBER_OF_MAPPING,
    MAPPED_NUMBER_OF_MEMORY,
    MAPPED_NO_NUMBER, /* 0 */
    MAPPED_RANGE_OF_RESERVATION,
    MAPPED_NO_RANGE, /* CUDA_NOT_FOUND */
    MAPPED_MANNERS
};

struct cuda_standin_counts {
    unsigned modules, launches; /* ever */
    unsigned questions;         /* ever: whether a stream is idle */
    unsigned waiting_copies; /* ever: calls that copy and wait, or waited, and have kept others out since */
    unsigned allocations, pinned, registered, imported, streams, events; /* now */
};

/* What only the stand-in has. Any thread. */
struct cuda_standin {
    /* A further kernel, which all modules have from now on, whatever their text says. */
    void (*add_kernel)(const char *name, gpu_twin *run);
    /* For such a kernel, while it runs: where the host reaches what lies at a device's address. */
    void *(*reach)(uint64_t address, size_t bytes);
    /* That function, by its symbol, fails so often, after it was called so often. NULL: none fails
     * any more. */
    void (*fail)(const char *symbol, int result, unsigned skipped, unsigned times);
    void (*set_capture)(struct cuda_stream *stream, enum cuda_capture_status status);
    /* The device fails for good with that result: at the n-th question from now on whether a stream
     * of it is idle; 0: now. */
    void (*fault)(int device, int result, unsigned questions);
    /* The same as soon as its work, a kernel or a copy, touches that byte. */
    void (*fault_at)(int device, int result, uint64_t address);
    /* Nothing of the stream begins while it is held. Of the NULL stream, the current context's. */
    void (*hold)(struct cuda_stream *stream, bool is_held);
    int (*allocate)(int device, size_t bytes, enum cuda_standin_memory kind, uint64_t *address);
    struct cuda_standin_counts (*count)(void);
    /* As TUTTI_STANDIN_WAIT. */
    void (*set_wait)(bool waits);
    /* Whoever waits longer than that for a device ends the process; 0: 30 s. */
    void (*set_deadline)(unsigned milliseconds);
};

/* Loads the stand-in and names it in TUTTI_CUDA_DRIVER; in a child, too. Once a process is
 * enough. */
const struct cuda_standin *cuda_standin_use(void);
/* The file. */
const char *cuda_standin_file(void);
/* The functions of a driver that was loaded from that file. Fails the test if it lacks any. */
void cuda_test_load(const char *file, struct cuda_test_library *library);

#endif
