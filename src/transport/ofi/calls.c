#include "transport/ofi/calls.h"

#include <stddef.h>

static void describe_nothing(struct fi_info *info)
{
    (void)info;
}

static int register_memory(struct fid_domain *domain, const void *address, size_t bytes,
                           uint64_t access, uint64_t requested_key, struct fid_mr **region)
{
    return fi_mr_reg(domain, address, bytes, access, 0, requested_key, 0, region, NULL);
}

static int bind(struct fid_mr *region, struct fid_ep *endpoint)
{
    const int result = fi_mr_bind(region, &endpoint->fid, 0);
    return result == 0 ? fi_mr_enable(region) : result;
}

static int close_memory(struct fid_mr *region)
{
    return fi_close(&region->fid);
}

static int close_endpoint(struct fid_ep *endpoint)
{
    return fi_close(&endpoint->fid);
}

static void *descriptor(struct fid_mr *region)
{
    return fi_mr_desc(region);
}

static uint64_t key(struct fid_mr *region)
{
    return fi_mr_key(region);
}

static ssize_t inject(struct fid_ep *endpoint, const void *bytes, size_t count, fi_addr_t to)
{
    return fi_inject(endpoint, bytes, count, to);
}

static ssize_t send(struct fid_ep *endpoint, const struct fi_msg *message, uint64_t flags)
{
    return fi_sendmsg(endpoint, message, flags);
}

static ssize_t receive(struct fid_ep *endpoint, void *memory, size_t bytes, void *descriptor,
                       void *context)
{
    return fi_recv(endpoint, memory, bytes, descriptor, FI_ADDR_UNSPEC, context);
}

static ssize_t write(struct fid_ep *endpoint, const struct fi_msg_rma *message, uint64_t flags)
{
    return fi_writemsg(endpoint, message, flags);
}

static ssize_t read_queue(struct fid_cq *queue, struct fi_cq_msg_entry *entries, size_t count)
{
    return fi_cq_read(queue, entries, count);
}

static ssize_t read_error(struct fid_cq *queue, struct fi_cq_err_entry *error)
{
    return fi_cq_readerr(queue, error, 0);
}

static int try_to_wait(struct fid_fabric *fabric, struct fid_cq *queue)
{
    struct fid *waits[] = {&queue->fid};
    return fi_trywait(fabric, waits, 1);
}

static const struct ofi_calls own = {.describe = describe_nothing,
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
static const struct ofi_calls *in_force = &own;

const struct ofi_calls *ofi_calls(void)
{
    return in_force;
}

void ofi_replace_calls(const struct ofi_calls *calls)
{
    in_force = calls != NULL ? calls : &own;
}
