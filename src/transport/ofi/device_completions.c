#include "transport/ofi/device_completions.h"

#include <assert.h>
#include <stdlib.h>

void ofi_completions_add(struct ofi_device *device, const struct card_completion *completion)
{
    assert(device->done_count < device->done_room);
    device->done[(device->done_first + device->done_count++) & (device->done_room - 1)] =
        *completion;
    device->done_sends += completion->work == CARD_SENT;
}

bool ofi_completions_poll(struct card_device *base, struct card_completion *completion)
{
    struct ofi_device *device = ofi_device_of(base);
    if (device->done_count == 0) return false;
    *completion = device->done[device->done_first];
    device->done_first = (device->done_first + 1) & (device->done_room - 1);
    device->done_count--;
    device->done_sends -= completion->work == CARD_SENT;
    return true;
}

enum tutti_status ofi_completions_make_room(struct ofi_device *device)
{
    unsigned room = device->done_room;
    const unsigned needed = OFI_OPERATIONS_MAX + OFI_WRITES_MAX +
                            (device->prepared_count + 1) * (CARD_OPERATIONS_MAX + CARD_RECEIVES_MAX);
    while (room < needed) room = room == 0 ? 1024 : 2 * room;
    if (room == device->done_room) return TUTTI_OK;
    struct card_completion *done = malloc(room * sizeof *done);
    if (done == NULL) return ofi_device_no_memory();
    for (unsigned i = 0; i < device->done_count; i++)
        done[i] = device->done[(device->done_first + i) & (device->done_room - 1)];
    free(device->done);
    device->done = done;
    device->done_first = 0;
    device->done_room = room;
    return TUTTI_OK;
}
