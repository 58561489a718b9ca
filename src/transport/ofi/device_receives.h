/* device_receives.h - the receives that a device has posted, and the messages that come in them. */
#ifndef TUTTI_TRANSPORT_OFI_DEVICE_RECEIVES_H
#define TUTTI_TRANSPORT_OFI_DEVICE_RECEIVES_H

#include "transport/ofi/device_state.h"

/* As card/card_device.h says. */
enum tutti_status ofi_receives_prepare(struct card_device *base, int rank);
bool ofi_receives_post(struct card_device *base, int rank, uint64_t key, void *address, uint64_t id);
/* Posts the receives that libfabric did not take before. */
void ofi_receives_post_all(struct ofi_device *device);
/* A message of so many bytes, which may be foreign, has come. */
void ofi_receives_take(struct ofi_device *device, struct ofi_receive *receive, size_t bytes);
/* The message does not fit: it is too long, from a stranger, say. */
void ofi_receives_drop(struct ofi_device *device, struct ofi_receive *receive);
void ofi_receives_free(struct ofi_device *device);
size_t ofi_receives_bytes(const struct ofi_device *device);

#endif
