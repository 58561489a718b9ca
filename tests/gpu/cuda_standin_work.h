/* cuda_standin_work.h - the streams, events and hardware queues of the stand-in's devices
 * (cuda_standin.h), and the threads that run what is in them.
 *
 *     stream  a  [ kernel ][ copy ]        each runs one after the other
 *     stream  b  [ wait   ][ kernel ]
 *     queue   0  [ a kernel ][ b wait ][ a copy ][ b kernel ]      the head leaves when it begins: then the next one may
 *
 *
 *     copies  0  [ a copy out ][ b copy out ]                  the same of copies in one direction, if there are such queues
 *
 * An item may begin when all before it in its stream have ended; one of the default stream when all
 * earlier ones of blocking streams have, and the other way round; a wait when its event has come.
 * From then on it is late, for a time that follows from the seed.
 *
 * One thread for each device looks for what may begin. Copies run in it, each block of a kernel and
 * each function of the host in a thread of its own; functions of a device run one after the other.
 * Any thread calls, after work_init. Streams and events that are not there end the process, and so
 * does whoever waits longer than the deadline.
 */
#ifndef TUTTI_TESTS_GPU_CUDA_STANDIN_WORK_H
#define TUTTI_TESTS_GPU_CUDA_STANDIN_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/gpu/cuda_standin.h"

struct work_options {
    int device_count;
    unsigned queue_count, processor_count;
    unsigned copy_queue_count; /* of each direction; 0: copies stand in their stream's queue only */
    uint64_t seed;
    bool keeps_others_out; /* a thread that waits with work_hold */
};

void work_init(const struct work_options *options);

/* A stream may be NULL: the default one of `device`. For all others `device` does not matter. */
struct cuda_stream *work_stream_create(int device, bool is_blocking);
void work_stream_destroy(struct cuda_stream *stream);
/* Its device; -1: of NULL. */
int work_stream_device(const struct cuda_stream *stream);
int work_stream_capture(int device, struct cuda_stream *stream);
void work_stream_set_capture(int device, struct cuda_stream *stream, int status);
/* Whether a blocking stream of the device is being captured. */
bool work_is_capturing(int device);
void work_hold(int device, struct cuda_stream *stream, bool is_held);

void work_launch(int device, struct cuda_stream *stream, const char *name, gpu_twin *run,
                 uint64_t argument, unsigned blocks);
/* Returns when it is queued if both sides are of devices or pinned, and not both of the host.
 * Otherwise it waits as a driver may, and keeps other threads out meanwhile: from memory of the
 * host that is not pinned until what is before it in its stream has ended and the memory was read
 * (the copy itself comes later), to such memory, and from the host to the host, until the copy has
 * ended. */
void work_copy(int device, struct cuda_stream *stream, uint64_t destination, uint64_t source,
               size_t bytes);
/* The same, which returns only when the copy has ended; from memory of the host that is not pinned
 * it may come later all the same. */
void work_copy_now(int device, uint64_t destination, uint64_t source, size_t bytes);
void work_call_host(int device, struct cuda_stream *stream, void (*run)(void *context),
                    void *context);

struct cuda_event *work_event_create(void);
void work_event_destroy(struct cuda_event *event);
void work_event_record(int device, struct cuda_event *event, struct cuda_stream *stream);
void work_event_wait(int device, struct cuda_event *event, struct cuda_stream *stream);
bool work_event_has_come(struct cuda_event *event);
void work_event_synchronize(struct cuda_event *event);

bool work_stream_is_idle(int device, struct cuda_stream *stream);
/* Returns when what is queued by now has ended: of a stream, of a device. `what` waits. */
void work_synchronize_stream(const char *what, int device, struct cuda_stream *stream);
void work_synchronize_device(const char *what, int device);
void work_set_deadline(unsigned milliseconds);

/* From hold to let_go no other thread's call comes through work_enter, which waits. May be
 * nested. */
void work_enter(const char *what, int device);
void work_hold_driver(const char *what, int device);
void work_let_go(int device);

/* As `fault` and `fault_at` of cuda_standin.h. From then on nothing of the device begins or ends,
 * and whoever waits for it returns. */
void work_fault(int device, int result, unsigned questions);
void work_fault_at(int device, int result, uint64_t address);
/* The result as which the device has failed; CUDA_OK: it has not. */
int work_fault_of(int device);

/* In the thread of a block: where the stand-in reaches what lies at an address. */
void *work_reach(uint64_t address, size_t bytes);

void work_count(struct cuda_standin_counts *counts);

#endif
