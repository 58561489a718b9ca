/* device_driver.h - the driver of a device as an application uses it: what tests need to make
 * memory of a device, and streams. CUDA's own, or the stand-in (cuda_standin.h): whatever
 * TUTTI_CUDA_DRIVER names.
 */
#ifndef TUTTI_TESTS_GPU_DEVICE_DRIVER_H
#define TUTTI_TESTS_GPU_DEVICE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Loads the driver in this process. false: there is none, and *reason says why. Not before a fork
 * whose child uses it. */
bool device_driver_open(const char **reason);
int device_driver_count(void);
/* Makes a device current in the calling thread. */
void device_driver_use(int device);

/* Memory of the current device. */
void *device_driver_allocate(size_t bytes);
void device_driver_free(void *memory);
/* Whether the current device has memory that is mapped by hand, and exports it as a descriptor.
 * false: *reason says what it lacks. */
bool device_driver_maps_by_hand(const char **reason);
/* The same, mapped by hand, as one mapping in a reservation of its own; another process can have it
 * if it may be exported. Rounds the number of bytes up, and so does unmap. */
void *device_driver_map(size_t bytes, bool may_be_exported);
void device_driver_unmap(void *memory, size_t bytes);
/* The same of two mappings side by side: half of the bytes lie in each. */
void *device_driver_map_two(size_t bytes);
void device_driver_unmap_two(void *memory, size_t bytes);
/* Wait until it is done. */
void device_driver_put(void *device, const void *host, size_t bytes);
void device_driver_get(void *host, const void *device, size_t bytes);

/* In the order of a stream, between memory of the device and pinned memory: of other memory a
 * driver waits for the stream, and keeps other threads out. The host's memory must stay as it is
 * until then. */
void *device_driver_stream(void);
void device_driver_free_stream(void *stream);
void device_driver_put_later(void *device, const void *host, size_t bytes, void *stream);
void device_driver_get_later(void *host, const void *device, size_t bytes, void *stream);
/* The same between two places of the host's memory, pinned or not. */
void device_driver_move_later(void *destination, const void *source, size_t bytes, void *stream);
void device_driver_finish(void *stream);
/* A kernel that runs for so long, and then writes where there is no memory: the device is of no use
 * to this process any more. CUDA's own driver only. */
void device_driver_fault_later(uint64_t after_ns, void *stream);
/* Memory of the host that the device reaches. */
void *device_driver_pinned(size_t bytes);
void device_driver_free_pinned(void *memory);

#endif
