#include "devices.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "base/printable.h"
#include "gpu/cuda_library.h"
#include "gpu/gpu.h"

/* Of ROCm, below HIP. */
#define ROCM_LIBRARY_FILE "libhsa-runtime64.so.1"
#define ROCM_NODES "/sys/class/kfd/kfd/topology/nodes"

static void take(struct cuda_devices *found, const struct gpu_driver *driver)
{
    const int count = driver->device_count();
    for (int number = 0; number < count && found->count < DEVICES_MAX; number++) {
        struct gpu_device gpu;
        if (driver->describe(number, &gpu) != TUTTI_OK) {
            snprintf(found->why, sizeof found->why, "%.255s", tutti_error_message());
            continue;
        }
        struct device *const device = &found->devices[found->count++];
        *device = (struct device){.number = number,
                                  .memory_bytes = gpu.memory_bytes,
                                  .processor_count = gpu.processor_count};
        snprintf(device->name, sizeof device->name, "%s", gpu.name);
        snprintf(device->bus, sizeof device->bus, "%s", gpu.bus);
        printable_make(device->name);
        printable_make(device->bus);
    }
}

/* A program that uses CUDA has loaded the driver when Tutti looks for it; this one has not, so it
 * names the file. */
void devices_ask_cuda(void *answer, int question)
{
    struct cuda_devices *const found = answer;
    const struct gpu_driver *driver;
    (void)question;
    setenv(option_names.CUDA_DRIVER, CUDA_LIBRARY_FILE, 0);
    snprintf(found->file, sizeof found->file, "%s", option_text(OPTION_CUDA_DRIVER));
    printable_make(found->file);
    const enum tutti_status status = gpu_driver(&driver);
    if (status != TUTTI_OK) {
        snprintf(found->why, sizeof found->why, "%.255s", tutti_error_message());
        return;
    }
    found->is_there = true;
    if (driver != NULL) take(found, driver);
}

/* The nodes that are no CPUs have a number other than 0. */
static int count_rocm_devices(void)
{
    int count = 0;
    DIR *const folder = opendir(ROCM_NODES);
    if (folder == NULL) return 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[512];
        unsigned long long number = 0;
        snprintf(path, sizeof path, ROCM_NODES "/%.200s/gpu_id", entry->d_name);
        FILE *const file = fopen(path, "re");
        if (file == NULL) continue;
        if (fscanf(file, "%llu", &number) == 1 && number != 0) count++;
        fclose(file);
    }
    closedir(folder);
    return count;
}

void devices_ask_rocm(void *answer, int question)
{
    struct rocm_devices *const found = answer;
    (void)question;
    snprintf(found->file, sizeof found->file, ROCM_LIBRARY_FILE);
    found->count = count_rocm_devices();
    found->is_there = dlopen(ROCM_LIBRARY_FILE, RTLD_LAZY | RTLD_LOCAL) != NULL;
}
