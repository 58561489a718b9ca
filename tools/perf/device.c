#include "device.h"

#include <sched.h>
#include <stdlib.h>

#include "base/option.h"
#include "base/status.h"
#include "bootstrap/launcher.h"
#include "gpu/cuda_library.h"
#include "gpu/gpu.h"

void perf_device_name_driver(void)
{
    setenv(option_names.CUDA_DRIVER, CUDA_LIBRARY_FILE, 0);
    /* Ranks that are threads need a hardware queue for each stream (docs/how-to/devices.md): CUDA's
     * default, 8, is too few for eight ranks. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

/* The rank's number on this host; where no launcher says it, among all. */
static int local_rank(const struct perf_rank *rank)
{
    struct launcher_facts facts;
    if (!rank->options->launched || launcher_look(&facts) != TUTTI_OK || facts.local_rank < 0)
        return rank->rank;
    return facts.local_rank;
}

enum tutti_status perf_device_find(const struct perf_options *options)
{
    const struct gpu_driver *driver;
    char why[ERROR_TEXT_MAX];
    if (!perf_uses_device(options)) return TUTTI_OK;
    const enum tutti_status status = gpu_driver(&driver);
    if (status == TUTTI_OK && driver != NULL && driver->device_count() > 0) return TUTTI_OK;
    if (status == TUTTI_OK)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "--memory device and --stream need a GPU, but the driver finds none");
    error_copy(why, sizeof why);
    return error_set(status, "--memory device and --stream need a GPU's driver: %.400s", why);
}

enum tutti_status perf_device_open(struct perf_rank *rank)
{
    const struct perf_options *const options = rank->options;
    const struct gpu_driver *driver;
    if (!perf_uses_device(options)) return TUTTI_OK;
    TRY(gpu_driver(&driver));
    const int number = options->device != DEVICE_BY_RANK ? options->device
                                                         : local_rank(rank) % driver->device_count();
    TRY(driver->open(number, &rank->device));
    return options->on_stream ? driver->make_stream(rank->device, &rank->stream) : TUTTI_OK;
}

void perf_device_close(struct perf_rank *rank)
{
    if (rank->stream) rank->device->driver->free_stream(rank->device, rank->stream);
    rank->stream = NULL;
}

enum tutti_status perf_device_finish(const struct perf_rank *rank)
{
    if (!rank->stream) return TUTTI_OK;
    const double deadline = perf_seconds() + rank->options->timeout_seconds;
    for (bool is_done = false; !is_done;) {
        TRY(rank->device->driver->stream_is_done(rank->device, rank->stream, &is_done));
        if (is_done) break;
        if (perf_seconds() > deadline)
            return error_set(TUTTI_TIMEOUT, "the stream has not come to its end within %g s",
                             rank->options->timeout_seconds);
        sched_yield();
    }
    /* Nobody else tells of a call that nobody waits for. */
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    TRY(tutti_comm_failure(rank->comm, &failure));
    return failure.status == TUTTI_OK ? TUTTI_OK : error_set(failure.status, "%s", failure.message);
}
