/* device_completions.h - completions that the user of a card has yet to see: a ring, which has room
 * for all that can be under way. */
#ifndef TUTTI_TRANSPORT_OFI_DEVICE_COMPLETIONS_H
#define TUTTI_TRANSPORT_OFI_DEVICE_COMPLETIONS_H

#include "transport/ofi/device_state.h"

void ofi_completions_add(struct ofi_device *device, const struct card_completion *completion);
/* As card/card_device.h says. */
bool ofi_completions_poll(struct card_device *base, struct card_completion *completion);
/* Makes room for all that can be under way with one more peer. */
enum tutti_status ofi_completions_make_room(struct ofi_device *device);

#endif
