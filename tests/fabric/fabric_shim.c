#include "tests/fabric/fabric_shim.h"

#if __has_include(<rdma/fabric.h>)

#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/chance.h"
#include "transport/ofi/calls.h"

enum { REGIONS_MAX = 4096, LATE_MAX = 4096, QUEUES_MAX = 8, RECEIVES_MAX = 1024 };

struct region {
    struct fid_mr *provider; /* NULL: free */
    const char *address;
    size_t bytes;
    uint64_t key, access;
    const struct fid_ep *bound_to;
};

struct queue {
    struct fid_cq *provider; /* NULL: free */
    struct fi_cq_msg_entry late[LATE_MAX];
    unsigned late_count;
    struct fi_cq_msg_entry failed;
    bool has_failed;
};

static struct {
    const struct fabric_shim *shim;
    uint64_t random, keys;
    struct region regions[REGIONS_MAX];
    struct queue queues[QUEUES_MAX];
    struct iovec receives[RECEIVES_MAX]; /* where it was to receive, of a provider that stays open */
    unsigned receive_count;
    struct fabric_shim_counts counts;
    unsigned done, devices;
    const struct ofi_calls *real;
} state;

static unsigned draw(unsigned bound)
{
    return (unsigned)chance_next(&state.random) % bound;
}

static bool happens(unsigned permille)
{
    return permille > 0 && draw(1000) < permille;
}

static bool comes_again(void)
{
    const bool does = happens(state.shim->again_permille);
    state.counts.again += does;
    return does;
}

static void describe(struct fi_info *info)
{
    const struct fabric_shim *shim = state.shim;
    int *mode = &info->domain_attr->mr_mode;
    if (shim->demands_local) *mode |= FI_MR_LOCAL;
    if (shim->demands_address) *mode |= FI_MR_VIRT_ADDR;
    if (shim->makes_keys) *mode |= FI_MR_PROV_KEY;
    if (shim->binds_to_endpoint) *mode |= FI_MR_ENDPOINT;
    if (shim->has_no_inject) info->tx_attr->inject_size = 0;
    if (shim->has_one_part) info->tx_attr->iov_limit = 1;
    if (shim->keeps_no_order) info->tx_attr->msg_order &= ~(uint64_t)FI_ORDER_SAW;
    if (shim->message_bytes != 0) info->ep_attr->max_msg_size = shim->message_bytes;
    if (shim->devices_max != 0 && state.devices++ >= shim->devices_max)
        info->ep_attr->max_msg_size = 100;
}

static struct region *region_of(const struct fid_mr *memory)
{
    for (int r = 0; r < REGIONS_MAX; r++)
        if (state.regions[r].provider == memory) return &state.regions[r];
    abort();
}

static int register_memory(struct fid_domain *domain, const void *address, size_t bytes,
                           uint64_t access, uint64_t requested_key, struct fid_mr **memory)
{
    struct region *region = state.regions;
    if (state.shim->registered_max != 0 && state.counts.registered >= state.shim->registered_max) {
        state.counts.refused++;
        return -FI_ENOMEM;
    }
    while (region->provider != NULL) region++;
    assert(region < state.regions + REGIONS_MAX);
    /* A provider of keys of its own is asked for none. */
    assert(!state.shim->makes_keys || requested_key == 0);
    if (state.shim->makes_keys) requested_key = state.keys += 0x10001;
    const int result =
        state.real->register_memory(domain, address, bytes, access, requested_key, memory);
    if (result != 0) return result;
    *region = (struct region){*memory, address, bytes, state.real->key(*memory), access, NULL};
    state.counts.registered++;
    return 0;
}

static int bind(struct fid_mr *memory, struct fid_ep *endpoint)
{
    region_of(memory)->bound_to = endpoint;
    return 0;
}

static int close_endpoint(struct fid_ep *endpoint)
{
    if (state.shim->stays_open) return -FI_EBUSY;
    for (int r = 0; r < REGIONS_MAX; r++)
        if (state.regions[r].provider != NULL && state.regions[r].bound_to == endpoint) {
            state.counts.busy++;
            return -FI_EBUSY;
        }
    return state.real->close_endpoint(endpoint);
}

static int close_memory(struct fid_mr *memory)
{
    struct region *region = region_of(memory);
    const int result = state.real->close_memory(memory);
    if (result != 0) return result;
    region->provider = NULL;
    state.counts.registered--;
    return 0;
}

static void *descriptor(struct fid_mr *memory)
{
    return region_of(memory);
}

static uint64_t key(struct fid_mr *memory)
{
    return region_of(memory)->key;
}

/* Memory that it reads or stores to lies in a region with that right, where it demands one. */
static void check_local(const void *descriptor_given, const void *address, size_t bytes,
                        uint64_t right)
{
    const struct region *region = descriptor_given;
    if (!state.shim->demands_local || bytes == 0) return;
    assert(region != NULL && region->provider != NULL && (region->access & right) != 0);
    assert((const char *)address >= region->address &&
           (const char *)address + bytes <= region->address + region->bytes);
    assert(region->bound_to != NULL || !state.shim->binds_to_endpoint);
}

/* Behind eight bytes of a message its sender says who it is (ofi/device_state.h). */
static void mask(void *message, size_t bytes)
{
    const struct fabric_shim *shim = state.shim;
    uint32_t rank;
    if (shim->mask_from == shim->mask_to || bytes < sizeof(uint64_t) + sizeof rank) return;
    memcpy(&rank, (char *)message + sizeof(uint64_t), sizeof rank);
    if (rank != (uint32_t)shim->mask_from) return;
    rank = (uint32_t)shim->mask_to;
    memcpy((char *)message + sizeof(uint64_t), &rank, sizeof rank);
}

static ssize_t inject(struct fid_ep *endpoint, const void *bytes, size_t count, fi_addr_t to)
{
    assert(!state.shim->has_no_inject);
    if (comes_again()) return -FI_EAGAIN;
    mask((void *)(uintptr_t)bytes, count);
    return state.real->inject(endpoint, bytes, count, to);
}

static ssize_t send(struct fid_ep *endpoint, const struct fi_msg *message, uint64_t flags)
{
    struct fi_msg bare = *message;
    size_t bytes = 0;
    assert(message->iov_count == 1 || !state.shim->has_one_part);
    for (size_t i = 0; i < message->iov_count; i++) {
        check_local(message->desc[i], message->msg_iov[i].iov_base, message->msg_iov[i].iov_len,
                    FI_SEND);
        bytes += message->msg_iov[i].iov_len;
    }
    assert(state.shim->message_bytes == 0 || bytes <= state.shim->message_bytes);
    if (comes_again()) return -FI_EAGAIN;
    mask(message->msg_iov[0].iov_base, message->msg_iov[0].iov_len);
    bare.desc = NULL;
    return state.real->send(endpoint, &bare, flags);
}

static ssize_t receive(struct fid_ep *endpoint, void *memory, size_t bytes, void *given,
                       void *context)
{
    check_local(given, memory, bytes, FI_RECV);
    if (comes_again()) return -FI_EAGAIN;
    if (state.shim->stays_open) {
        assert(state.receive_count < RECEIVES_MAX);
        state.receives[state.receive_count++] = (struct iovec){memory, bytes};
    }
    return state.real->receive(endpoint, memory, bytes, NULL, context);
}

/* The provider counts from the beginning of a region. */
static uint64_t offset_of(uint64_t address, uint64_t key_given, size_t bytes)
{
    for (int r = 0; r < REGIONS_MAX; r++) {
        const struct region *region = &state.regions[r];
        if (region->provider == NULL || region->key != key_given) continue;
        const uint64_t base = (uint64_t)(uintptr_t)region->address;
        assert(address >= base && address + bytes <= base + region->bytes);
        return address - base;
    }
    return 0; /* it is gone, and the provider will say so */
}

static ssize_t write(struct fid_ep *endpoint, const struct fi_msg_rma *message, uint64_t flags)
{
    struct fi_msg_rma bare = *message;
    struct fi_rma_iov to = *message->rma_iov;
    check_local(message->desc[0], message->msg_iov[0].iov_base, message->msg_iov[0].iov_len,
                FI_WRITE);
    assert(state.shim->message_bytes == 0 || to.len <= state.shim->message_bytes);
    if (comes_again()) return -FI_EAGAIN;
    if (state.shim->demands_address) to.addr = offset_of(to.addr, to.key, to.len);
    bare.desc = NULL;
    bare.rma_iov = &to;
    static char nothing[1 << 20];
    const struct iovec lost = {nothing, to.len};
    if ((flags & FI_DELIVERY_COMPLETE) == 0 && to.len <= sizeof nothing &&
        happens(state.shim->lost_permille)) {
        bare.msg_iov = &lost;
        state.counts.lost++;
    }
    return state.real->write(endpoint, &bare, flags);
}

static struct queue *queue_of(struct fid_cq *provider)
{
    struct queue *queue = state.queues;
    while (queue->provider != NULL && queue->provider != provider) queue++;
    assert(queue < state.queues + QUEUES_MAX);
    queue->provider = provider;
    return queue;
}

static ssize_t read_queue(struct fid_cq *provider, struct fi_cq_msg_entry *entries, size_t count)
{
    struct queue *queue = queue_of(provider);
    struct fi_cq_msg_entry entry;
    ssize_t result = 1;
    size_t shown = 0;
    if (queue->has_failed || state.shim->errors != 0)
        return -FI_EAVAIL; /* others were shown before it */
    while (queue->late_count < LATE_MAX &&
           (result = state.real->read_queue(provider, &entry, 1)) == 1)
        queue->late[queue->late_count++] = entry;
    if (queue->late_count == 0) return result;
    while (shown < count && queue->late_count > 0) {
        if (happens(state.shim->late_permille)) {
            state.counts.late++;
            break;
        }
        const unsigned which = state.shim->late_permille > 0 ? draw(queue->late_count) : 0;
        entry = queue->late[which];
        if (state.shim->late_permille > 0)
            queue->late[which] = queue->late[--queue->late_count];
        else
            for (unsigned i = 1; i < queue->late_count; i++) queue->late[i - 1] = queue->late[i];
        queue->late_count -= state.shim->late_permille == 0;
        if ((entry.flags & FI_RECV) == 0 && state.shim->done_max != 0 &&
            ++state.done > state.shim->done_max)
            continue;
        if ((entry.flags & FI_RECV) == 0 && happens(state.shim->failed_permille)) {
            queue->failed = entry;
            queue->has_failed = true;
            state.counts.failed++;
            return shown > 0 ? (ssize_t)shown : -FI_EAVAIL;
        }
        entries[shown++] = entry;
    }
    return shown > 0 ? (ssize_t)shown : -FI_EAGAIN;
}

static ssize_t read_error(struct fid_cq *provider, struct fi_cq_err_entry *error)
{
    struct queue *queue = queue_of(provider);
    if (state.shim->errors != 0) {
        *error = (struct fi_cq_err_entry){.err = FI_EIO};
        return state.shim->errors;
    }
    if (!queue->has_failed) return state.real->read_error(provider, error);
    *error = (struct fi_cq_err_entry){
        .op_context = queue->failed.op_context, .flags = queue->failed.flags, .err = FI_EIO};
    queue->has_failed = false;
    return 1;
}

static int try_to_wait(struct fid_fabric *fabric, struct fid_cq *provider)
{
    const struct queue *queue = queue_of(provider);
    return queue->late_count > 0 || queue->has_failed ? -FI_EAGAIN
                                                      : state.real->try_to_wait(fabric, provider);
}

static const struct ofi_calls calls = {.describe = describe,
                                       .register_memory = register_memory,
                                       .bind = bind,
                                       .close_memory = close_memory,
                                       .close_endpoint = close_endpoint,
                                       .descriptor = descriptor,
                                       .key = key,
                                       .inject = inject,
                                       .send = send,
                                       .receive = receive,
                                       .write = write,
                                       .read_queue = read_queue,
                                       .read_error = read_error,
                                       .try_to_wait = try_to_wait};

void fabric_shim_use(const struct fabric_shim *shim, uint64_t seed)
{
    ofi_replace_calls(NULL);
    state.real = ofi_calls();
    state.shim = shim;
    state.random = seed;
    state.keys = seed << 20;
    state.counts = (struct fabric_shim_counts){0};
    state.done = state.receive_count = 0;
    for (int r = 0; r < REGIONS_MAX; r++) state.regions[r].provider = NULL;
    for (int q = 0; q < QUEUES_MAX; q++) state.queues[q] = (struct queue){0};
    if (shim != NULL) ofi_replace_calls(&calls);
}

struct fabric_shim_counts fabric_shim_count(void)
{
    return state.counts;
}

void fabric_shim_move(void)
{
    for (int q = 0; q < QUEUES_MAX; q++)
        if (state.queues[q].provider != NULL)
            (void)state.real->read_queue(state.queues[q].provider, NULL, 0);
}

void fabric_shim_receive_late(void)
{
    for (unsigned r = 0; r < state.receive_count; r++)
        memset(state.receives[r].iov_base, 0xee, state.receives[r].iov_len);
}

#else

void fabric_shim_use(const struct fabric_shim *shim, uint64_t seed)
{
    (void)shim, (void)seed;
}

struct fabric_shim_counts fabric_shim_count(void)
{
    return (struct fabric_shim_counts){0};
}

void fabric_shim_move(void)
{
}

void fabric_shim_receive_late(void)
{
}

#endif
