/* gpu_check.cu - for gpu_check: one reduction by the whole grid, without a worker; the address of a struct gpu_reduce and its pointers. */
#include "gpu/reduce_run.h"

enum { WORDS_MAX = 32 };

extern "C" __attribute__((global, launch_bounds(512))) void
tutti_reduce_once(uint64_t reduce_and_pointers)
{
    /* Near the threads, as a worker has its orders. */
    DEVICE_SHARED uint64_t words[WORDS_MAX];
    const struct gpu_reduce *const reduce = (const struct gpu_reduce *)words;
    const uint32_t thread = device_thread(), head = sizeof(*reduce) / sizeof(uint64_t);
    if (thread < head) words[thread] = device_load64(reduce_and_pointers + 8 * thread);
    device_barrier();
    const uint32_t count = head + reduce->source_count + reduce->destination_count;
    if (thread >= head && thread < count && thread < WORDS_MAX)
        words[thread] = device_load64(reduce_and_pointers + 8 * thread);
    device_barrier();
    gpu_reduce_run(reduce, words + head, device_block() * device_thread_count() + thread,
                   device_block_count() * device_thread_count());
}
