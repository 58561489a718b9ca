#include "transport/ofi/device_operations.h"

#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ofi/device_completions.h"
#include "transport/ofi/device_peers.h"
#include "transport/ofi/regions.h"

enum {
    COPIED_BYTES =
        1024, /* up to so many are copied beside their head: dearer for a card to fetch from two places */
};

static struct ofi_operation *take_operation(struct ofi_device *device, enum ofi_work work, int rank)
{
    struct ofi_operation *operation = device->free_operations;
    if (operation == NULL) return NULL;
    device->free_operations = operation->next;
    operation->context.work = work;
    operation->peer = rank;
    return operation;
}

static void give_operation_back(struct ofi_device *device, struct ofi_operation *operation)
{
    operation->next = device->free_operations;
    device->free_operations = operation;
}

/* Libfabric was given something for that peer. result: 0, and then it is under way unless it was
 * copied; or libfabric's error. */
static void note_given(struct ofi_device *device, struct ofi_peer *peer, ssize_t result,
                       bool is_copied)
{
    device->may_have_opened |= !peer->was_given;
    peer->was_given = true;
    peer->is_refused = result == -FI_EAGAIN;
    if (result != 0) return;
    peer->under_way += !is_copied;
    peer->steps++;
}

static void note_done(struct ofi_peer *peer)
{
    peer->under_way--;
    peer->steps++;
}

/* ------------------------------------------------------------------------------------- messages */

static void complete_send(struct ofi_device *device, int rank, uint64_t id, size_t bytes)
{
    ofi_completions_add(device, &(struct card_completion){
                                    .work = CARD_SENT, .peer = rank, .id = id, .bytes = bytes});
}

static size_t write_prefix(const struct ofi_peer *peer, const struct ofi_device *device,
                           unsigned char *to, const void *head, size_t head_bytes)
{
    const struct ofi_prefix prefix = {
        .nonce = peer->nonce, .rank = (uint32_t)device->options.rank, .magic = OFI_PREFIX_MAGIC};
    memcpy(to, &prefix, sizeof prefix);
    memcpy(to + sizeof prefix, head, head_bytes);
    return sizeof prefix + head_bytes;
}

/* Returns 0, or libfabric's error. */
static ssize_t give_message(struct ofi_device *device, struct ofi_operation *operation,
                            size_t head_bytes, const struct card_memory *memory)
{
    const struct ofi_peer *peer = device->peers[operation->peer];
    const bool is_copied = memory->bytes <= COPIED_BYTES || memory->key == 0 ||
                           device->provider.facts->tx_attr->iov_limit < 2;
    if (is_copied && memory->bytes > 0)
        memcpy(operation->bounce + head_bytes, memory->address, memory->bytes);
    const struct iovec parts[] = {{operation->bounce, head_bytes + (is_copied ? memory->bytes : 0)},
                                  {(void *)(uintptr_t)memory->address, memory->bytes}};
    void *descriptors[] = {ofi_regions_descriptor(device->regions, device->bounce_key),
                           is_copied ? NULL : ofi_regions_descriptor(device->regions, memory->key)};
    const struct fi_msg message = {.msg_iov = parts,
                                   .desc = descriptors,
                                   .iov_count = is_copied ? 1 : 2,
                                   .addr = peer->address,
                                   .context = &operation->context};
    return device->provider.verbs->send(device->provider.endpoint, &message, FI_COMPLETION);
}

bool ofi_operations_send(struct card_device *base, int rank, const void *head, size_t head_bytes,
                         const struct card_memory *memory, uint64_t id)
{
    struct ofi_device *device = ofi_device_of(base);
    struct ofi_peer *peer = device->peers[rank];
    assert(head_bytes + memory->bytes <= base->message_bytes && !device->options.is_further);
    if (device->is_stopped || peer->state != CARD_PEER_UP || peer->trouble_ns != 0 ||
        (base->keeps_order && peer->ungiven > 0) ||
        device->done_count + device->operation_count + OFI_WRITES_MAX >= device->done_room)
        return false;
    struct ofi_operation *operation = take_operation(device, OFI_SENDS, rank);
    if (operation == NULL) return false;
    const size_t at = write_prefix(peer, device, operation->bounce, head, head_bytes),
                 all = at + memory->bytes;
    operation->id = id;
    operation->bytes = memory->bytes;
    ssize_t result;
    const bool is_injected =
        all <= device->provider.facts->tx_attr->inject_size && all <= COPIED_BYTES;
    if (is_injected) {
        if (memory->bytes > 0) memcpy(operation->bounce + at, memory->address, memory->bytes);
        result = device->provider.verbs->inject(device->provider.endpoint, operation->bounce, all,
                                                peer->address);
    } else {
        result = give_message(device, operation, at, memory);
    }
    note_given(device, peer, result, is_injected);
    if (result != 0 || is_injected) give_operation_back(device, operation);
    if (result == 0 && is_injected) complete_send(device, rank, id, memory->bytes);
    if (result != 0 && result != -FI_EAGAIN)
        ofi_peers_trouble(device, rank, "does not send", (int)-result,
                          ofi_provider_why(&device->provider, result));
    return result == 0;
}

/* --------------------------------------------------------------------------------------- writes */

static void complete_write(struct ofi_device *device, struct ofi_write *write,
                           enum card_result result)
{
    const struct card_completion completion = {.work = CARD_WRITTEN,
                                               .result = result,
                                               .peer = write->peer,
                                               .id = write->id,
                                               .bytes = write->memory.bytes};
    if (write->given < write->memory.bytes) device->peers[write->peer]->ungiven--;
    write->is_used = false;
    device->write_count--;
    ofi_completions_add(device, &completion);
}

/* Gives libfabric parts of a write, as many as it takes. */
static bool give_parts(struct ofi_device *device, unsigned number)
{
    struct ofi_write *write = &device->writes[number];
    struct ofi_peer *peer = device->peers[write->peer];
    bool moved = false;
    while (write->given < write->memory.bytes && !write->has_failed && peer->trouble_ns == 0) {
        const size_t left = write->memory.bytes - write->given,
                     bytes = left < device->part_bytes ? left : device->part_bytes;
        struct ofi_operation *operation = take_operation(device, OFI_WRITES_PART, write->peer);
        if (operation == NULL) break;
        operation->write = number;
        operation->bytes = bytes;
        const struct iovec from = {(char *)(uintptr_t)write->memory.address + write->given, bytes};
        const struct fi_rma_iov to = {write->address + write->given, bytes, write->key};
        const struct fi_msg_rma message = {.msg_iov = &from,
                                           .desc = &write->descriptor,
                                           .iov_count = 1,
                                           .addr = peer->address,
                                           .rma_iov = &to,
                                           .rma_iov_count = 1,
                                           .context = &operation->context};
        const uint64_t flags = FI_COMPLETION | (device->base.keeps_order ? 0 : FI_DELIVERY_COMPLETE);
        const ssize_t result =
            device->provider.verbs->write(device->provider.endpoint, &message, flags);
        note_given(device, peer, result, false);
        if (result != 0) give_operation_back(device, operation);
        if (result != 0 && result != -FI_EAGAIN)
            ofi_peers_trouble(device, write->peer, "does not write", (int)-result,
                              ofi_provider_why(&device->provider, result));
        if (result != 0) break;
        write->given += bytes;
        peer->ungiven -= write->given == write->memory.bytes;
        moved = true;
    }
    return moved;
}

bool ofi_operations_write(struct card_device *base, int rank, const struct card_target *target,
                          uint64_t offset, const struct card_memory *memory, uint64_t id)
{
    struct ofi_device *device = ofi_device_of(base);
    struct ofi_peer *peer = device->peers[rank];
    assert(memory->bytes > 0 && memory->key != 0);
    if (device->is_stopped || peer->state != CARD_PEER_UP || peer->trouble_ns != 0 ||
        device->write_count == OFI_WRITES_MAX)
        return false;
    unsigned number = 0;
    while (device->writes[number].is_used) number++;
    device->writes[number] =
        (struct ofi_write){.is_used = true,
                           .peer = rank,
                           .id = id,
                           .key = target->key,
                           .address = target->base + offset,
                           .memory = *memory,
                           .descriptor = ofi_regions_descriptor(device->regions, memory->key)};
    device->write_count++;
    peer->ungiven++;
    (void)give_parts(device, number);
    return true;
}

/* No more of it is given, and nothing of it is under way. */
static bool is_over(const struct ofi_write *write)
{
    return write->has_failed && write->landed == write->given;
}

bool ofi_operations_give(struct ofi_device *device)
{
    unsigned left = device->write_count;
    bool moved = false;
    for (unsigned w = 0; left > 0 && w < OFI_WRITES_MAX && device->done_count < device->done_room;
         w++) {
        struct ofi_write *const write = &device->writes[w];
        if (!write->is_used) continue;
        left--;
        if (is_over(write)) { /* its peer has ended */
            complete_write(device, write, CARD_FLUSHED);
            moved = true;
        } else if (write->given < write->memory.bytes) {
            moved |= give_parts(device, w);
        }
    }
    return moved;
}

/* ---------------------------------------------------------------------------------- completions */

/* A part of a write has landed, or has failed. */
static void take_part(struct ofi_device *device, struct ofi_operation *operation, bool has_failed)
{
    struct ofi_write *write = &device->writes[operation->write];
    write->landed += operation->bytes;
    write->has_failed |= has_failed;
    give_operation_back(device, operation);
    if (write->landed == write->memory.bytes || is_over(write))
        complete_write(device, write, write->has_failed ? CARD_FLUSHED : CARD_DONE);
}

/* Whoever sent a message that failed hears that it has left: the peer is in trouble anyway. */
static void finish(struct ofi_device *device, struct ofi_operation *operation, bool has_failed)
{
    if (operation->context.work == OFI_WRITES_PART) {
        take_part(device, operation, has_failed);
        return;
    }
    const int rank = operation->peer;
    give_operation_back(device, operation);
    complete_send(device, rank, operation->id, operation->bytes);
}

void ofi_operations_done(struct ofi_device *device, struct ofi_operation *operation)
{
    note_done(device->peers[operation->peer]);
    finish(device, operation, false);
}

void ofi_operations_fail(struct ofi_device *device, struct ofi_operation *operation, int error)
{
    const char *const what =
        operation->context.work == OFI_WRITES_PART ? "could not write" : "could not send";
    note_done(device->peers[operation->peer]);
    ofi_peers_trouble(device, operation->peer, what, error,
                      device->options.choice->library->strerror(error));
    finish(device, operation, true);
}

/* ----------------------------------------------------------------------------------- life cycle */

enum tutti_status ofi_operations_create(struct ofi_device *device)
{
    /* Whole messages are copied if they cannot be gathered, or if memory may not be registered. */
    const bool copies_all = device->provider.facts->tx_attr->iov_limit < 2 ||
                            ofi_provider_needs(&device->provider, FI_MR_LOCAL);
    const size_t copied = device->options.is_further ? 0
                          : copies_all               ? device->base.message_bytes
                                                     : CARD_INLINE_BYTES_MAX + COPIED_BYTES,
                 stride = (OFI_PREFIX_BYTES + copied + OFI_ALIGNMENT - 1) / OFI_ALIGNMENT *
                          OFI_ALIGNMENT;
    device->bounce_bytes = stride;
    const size_t count = device->provider.facts->tx_attr->size;
    device->operation_count =
        count > 0 && count < OFI_OPERATIONS_MAX ? (unsigned)count : OFI_OPERATIONS_MAX;
    device->operations = calloc(device->operation_count, sizeof *device->operations);
    device->bounces = aligned_alloc(OFI_ALIGNMENT, device->operation_count * stride);
    device->writes = calloc(OFI_WRITES_MAX, sizeof *device->writes);
    if (device->operations == NULL || device->bounces == NULL || device->writes == NULL)
        return ofi_device_no_memory();
    for (unsigned i = 0; i < device->operation_count; i++) {
        device->operations[i].bounce = device->bounces + i * stride;
        device->operations[i].next = device->free_operations;
        device->free_operations = &device->operations[i];
    }
    if (!ofi_provider_needs(&device->provider, FI_MR_LOCAL)) return TUTTI_OK;
    TRY(ofi_regions_make_room(device->regions, 1));
    device->bounce_key = ofi_regions_add(device->regions, device->bounces,
                                         device->operation_count * stride, CARD_ACCESS_OWN);
    return device->bounce_key != 0
               ? TUTTI_OK
               : ofi_provider_refused(&device->provider, "does not register memory", -FI_ENOMEM);
}

void ofi_operations_free(struct ofi_device *device)
{
    free(device->operations);
    free(device->bounces);
    free(device->writes);
}

size_t ofi_operations_bytes(const struct ofi_device *device)
{
    return device->operation_count * (sizeof *device->operations + device->bounce_bytes) +
           OFI_WRITES_MAX * sizeof *device->writes;
}
