#include "runner.h"

#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "gpu/kernels.h"
#include "gpu/worker_protocol.h"

enum { THREADS = 512, DEADLINE_S = 20 };

static struct cuda_function *worker;
static struct worker_control *control;
static uint64_t home;

static void await_state(enum worker_state state)
{
    const double begin = facts_seconds_now();
    while (__atomic_load_n(&control->said[0], __ATOMIC_ACQUIRE) >> 32 != state) {
        if (facts_seconds_now() > begin + DEADLINE_S) {
            fprintf(stderr, "the kernel is not in state %d after %d s\n", (int)state, DEADLINE_S);
            _exit(2);
        }
        sched_yield();
    }
}

void runner_make(void)
{
    if (worker != NULL) return;
    struct cuda_module *module = NULL;
    struct worker_home *const image = driver_pinned(sizeof *image);
    int threads;
    facts_need(cuda.module_load(&module, gpu_kernels_ptx, 0, NULL, NULL), "this library's kernels");
    facts_need(cuda.module_function(&worker, module, GPU_KERNEL_WORKER), GPU_KERNEL_WORKER);
    facts_need(cuda.function_attribute(&threads, CUDA_FUNCTION_MAX_THREADS, worker),
               GPU_KERNEL_WORKER);
    control = driver_pinned(sizeof *control);
    home = driver_allocated(sizeof *image);
    memset(image, 0, sizeof *image);
    image->control = (uintptr_t)control;
    image->team_size = 1;
    facts_need(driver_move(home, (uintptr_t)image, sizeof *image), "a copy");
}

void runner_begin(void)
{
    void *parameters[] = {&home};
    memset(control, 0, sizeof *control);
    facts_need(cuda.launch(worker, 1, 1, 1, THREADS, 1, 1, 0, driver.stream, parameters, NULL),
               "cuLaunchKernel");
    await_state(WORKER_PRESENT);
}

void runner_end(void)
{
    __atomic_store_n(&control->end, 1, __ATOMIC_RELEASE);
    await_state(WORKER_LEFT);
    facts_need(further.stream_synchronize(driver.stream), "a stream");
}

uintptr_t runner_spare(void)
{
    return (uintptr_t)control + offsetof(struct worker_control, unused);
}
