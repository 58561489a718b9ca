/* device_operations.h - messages and writes of a device that are under way. libfabric gets a write
 * in parts, if it is longer than the provider takes at once. */
#ifndef TUTTI_TRANSPORT_OFI_DEVICE_OPERATIONS_H
#define TUTTI_TRANSPORT_OFI_DEVICE_OPERATIONS_H

#include "transport/ofi/device_state.h"

/* Makes the memory for all that can be under way. UNSUPPORTED, NO_MEMORY; the caller frees it in
 * any case. */
enum tutti_status ofi_operations_create(struct ofi_device *device);
void ofi_operations_free(struct ofi_device *device);
size_t ofi_operations_bytes(const struct ofi_device *device);

/* As card/card_device.h says. */
bool ofi_operations_send(struct card_device *base, int rank, const void *head, size_t head_bytes,
                         const struct card_memory *memory, uint64_t id);
bool ofi_operations_write(struct card_device *base, int rank, const struct card_target *target,
                          uint64_t offset, const struct card_memory *memory, uint64_t id);
/* Gives libfabric the parts of writes that it did not take before, and completes writes whose peer
 * has ended. True: something moved. */
bool ofi_operations_give(struct ofi_device *device);
/* libfabric is done with an operation, or says that it has failed. */
void ofi_operations_done(struct ofi_device *device, struct ofi_operation *operation);
void ofi_operations_fail(struct ofi_device *device, struct ofi_operation *operation, int error);

#endif
