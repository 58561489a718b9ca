/* device_fault.h - notices that a device has failed for good: a kernel touched memory that is not
 * there, memory of the device has an error that cannot be corrected, or the device is gone. From
 * then on the driver answers every question with that error, no worker says anything any more, and
 * only a new process can use the device.
 *
 *     call     gpu_fault_began ──── waits for its worker, looks at gpu_fault_of ────► gpu_fault_ended
 *     watch    every 50 ms: a worker is out, and none has ended since ──► asks the driver ──► gpu_fault_of
 *
 * A thread of its own asks, the *watch*, and not the thread that moves calls: another thread of the
 * program may have the driver to itself until a call is over (cuMemFree waits for the worker), and
 * a thread that asks the driver meanwhile waits, too. So a call asks nothing: it counts its worker,
 * and looks at a word while it waits.
 *
 * The watch asks about a stream of this library's own. Streams of the application may be destroyed
 * by now, or be captured into a graph, which a question would spoil.
 *
 * Invariants
 *  1. A fault never goes away, and its text never changes.
 *  2. The watch runs while anybody has joined it. It sleeps until a worker begins if none is out.
 */
#ifndef TUTTI_GPU_DEVICE_FAULT_H
#define TUTTI_GPU_DEVICE_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu_device;
struct gpu_driver;

enum { GPU_FAULT_TEXT_MAX = 192 };

/* The fault of a device; zeroed at first. */
struct gpu_fault {
    struct gpu_device *next;       /* of the devices that are known here */
    _Atomic uint32_t begun, ended; /* workers, counted without end */
    _Atomic(const char *) text;    /* NULL: it works, as far as is known */
    uint32_t seen_ended;           /* the watch's: at its last look */
    bool was_out;                  /* the watch's: a worker was out then */
    char room[GPU_FAULT_TEXT_MAX];
};

/* The process's driver was found: it can be asked about devices that were never opened. Any
 * thread. */
void gpu_fault_add_driver(const struct gpu_driver *driver);
/* A device that was opened is known from now on. Once for each; any thread. */
void gpu_fault_add(struct gpu_device *device);

/* Somebody may wait for workers from now on: the watch runs. Without a thread for it a line in the
 * log says that faults show at deadlines only. Blocks; any thread. */
void gpu_fault_join_watch(void);
/* The opposite. With the last one the watch has ended when this returns; or it ends later, if the
 * driver holds it up for two seconds. */
void gpu_fault_leave_watch(void);

/* A worker was put on a stream, or was told to end. Prompt; any thread. */
void gpu_fault_began(struct gpu_device *device);
void gpu_fault_ended(struct gpu_device *device);

/* Whether a worker has begun that was not told to end. Any thread. */
bool gpu_fault_any_is_out(const struct gpu_device *device);

/* The fault of a device and what to do about it, "GPU 0 (NVIDIA H200) has failed: ..."; NULL: there
 * is none. A load; any thread. */
const char *gpu_fault_of(const struct gpu_device *device);
/* Asks the driver about a device, or (NULL) about all devices, also those that were never added:
 * for callers that have had an error of the driver. Returns the fault of the first device that has
 * failed, as gpu_fault_of does. Keeps the thread's error. Blocks, perhaps for as long as another
 * thread is in the driver; any thread. */
const char *gpu_fault_look(const struct gpu_device *device);

#endif
