#include "gpu/cuda.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "gpu/cuda_state.h"
#include "gpu/device_fault.h"
#include "os/process.h"

/* Held while a device is opened. No child of fork() takes it: it is refused before. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static const struct gpu_driver driver_of_cuda;

/* With `opening`. Another thread may have opened the device meanwhile. */
static enum tutti_status open_once(int number, struct cuda_device **device)
{
    *device = cuda_device_at(number);
    if (*device != NULL) return TUTTI_OK;
    TRY(cuda_make_device(number, device));
    (*device)->gpu.driver = &driver_of_cuda;
    gpu_fault_add(&(*device)->gpu);
    cuda_add_device(*device);
    return TUTTI_OK;
}

static enum tutti_status open_device(int number, struct gpu_device **device)
{
    TRY(cuda_check_number(number));
    struct cuda_device *opened = cuda_device_at(number);
    if (opened == NULL) {
        pthread_mutex_lock(&opening);
        const enum tutti_status status = open_once(number, &opened);
        pthread_mutex_unlock(&opening);
        TRY(status);
    }
    *device = &opened->gpu;
    return TUTTI_OK;
}

static int device_count(void)
{
    return cuda_is_child() ? 0 : cuda_get()->device_count;
}

struct gpu_device *cuda_of_kind(const struct memory_kind *kind)
{
    if (kind->allocate != cuda_allocate_memory) return NULL;
    return (struct gpu_device *)((uintptr_t)kind - offsetof(struct gpu_device, kind));
}

static const struct gpu_driver driver_of_cuda = {
    .name = "cuda",
    .device_count = device_count,
    .find = cuda_find,
    .describe = cuda_describe_device,
    .open = open_device,
    .check = cuda_check_device,
    .check_all = cuda_check_all,
    .copy_until = cuda_copy_until,
    .allocate_pinned = cuda_allocate_pinned,
    .release_pinned = cuda_release_pinned,
    .allocate_memory = cuda_allocate_plainly,
    .release_memory = cuda_release_plainly,
    .make_stream = cuda_make_stream,
    .free_stream = cuda_free_stream,
    .stream_is_done = cuda_stream_is_done,
    .stream_device = cuda_stream_device,
    .stream_check = cuda_stream_check,
    .start_worker = cuda_start_worker,
    .export_memory = cuda_export_memory,
    .is_kept = cuda_is_kept,
    .import_memory = cuda_import_memory,
};

static int count_devices(const struct cuda_library *library, bool is_ours, int *count)
{
    int result = is_ours ? library->init(0) : CUDA_OK;
    *count = 0;
    if (result != CUDA_OK) return result;
    result = library->device_count(count);
    if (result != CUDA_OK) *count = 0;
    if (*count > CUDA_DEVICES_MAX) *count = CUDA_DEVICES_MAX;
    return result;
}

/* Starts a driver that was loaded, if it is ours; *count: how many devices it has. */
static enum tutti_status start(const struct cuda_library *library, bool is_ours, int *count)
{
    const int result = count_devices(library, is_ours, count);
    /* If the program's own driver fails, or is not in use yet, that is the program's matter. */
    if (result == CUDA_OK || result == CUDA_NO_DEVICE || !is_ours) return TUTTI_OK;
    return cuda_fail_with(library, result, "the CUDA driver cannot be initialised");
}

static enum tutti_status load_and_start(const char *file, struct cuda *found)
{
    bool is_there;
    TRY(cuda_library_load(file, &found->calls, &is_there));
    return is_there ? start(&found->calls, file != NULL, &found->device_count) : TUTTI_OK;
}

/* A driver that the program has loaded and that will not do is as good as none. */
static enum tutti_status load_driver(const char *file, struct cuda *found)
{
    char before[ERROR_TEXT_MAX], why[ERROR_TEXT_MAX];
    error_copy(before, sizeof before);
    const enum tutti_status status = load_and_start(file, found);
    if (status == TUTTI_OK || file != NULL) return status;
    error_copy(why, sizeof why);
    log_write(LOG_INFO, "GPUs are not used: %s", why);
    return error_unless_ok(TUTTI_OK, before);
}

enum tutti_status cuda_driver(const struct gpu_driver **driver)
{
    const char *const file = option_text(OPTION_CUDA_DRIVER);
    *driver = NULL;
    if (cuda_get() != NULL) {
        *driver = &driver_of_cuda;
        return TUTTI_OK;
    }
    struct cuda *const found = calloc(1, sizeof *found);
    if (found == NULL) return error_system("the table of the CUDA driver");
    found->generation = process_generation();
    const enum tutti_status status = load_driver(file, found);
    /* If several threads come at once, one table stays. */
    if (status != TUTTI_OK || found->device_count == 0 || !cuda_keep(found)) free(found);
    TRY(status);
    if (cuda_get() == NULL) return TUTTI_OK;
    *driver = &driver_of_cuda;
    gpu_fault_add_driver(*driver);
    return TUTTI_OK;
}
