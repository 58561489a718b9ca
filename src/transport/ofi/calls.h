/* calls.h - a table of the calls of libfabric that move data, so that tests can put a provider with
 * other properties in between (tests/fabric/fabric_shim.h): one that demands what this machine's
 * providers do not, lacks what they have, is late, or fails. */
#ifndef TUTTI_TRANSPORT_OFI_CALLS_H
#define TUTTI_TRANSPORT_OFI_CALLS_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

struct ofi_calls {
    /* Changes the promises and demands of the opened provider to those that the device must
     * believe. */
    void (*describe)(struct fi_info *info);
    /* As fi_mr_reg; a region of an endpoint (FI_MR_ENDPOINT) is bound to it afterwards. */
    int (*register_memory)(struct fid_domain *domain, const void *address, size_t bytes,
                           uint64_t access, uint64_t requested_key, struct fid_mr **region);
    int (*bind)(struct fid_mr *region, struct fid_ep *endpoint); /* and enables it */
    int (*close_memory)(struct fid_mr *region);
    int (*close_endpoint)(struct fid_ep *endpoint);
    void *(*descriptor)(struct fid_mr *region);
    uint64_t (*key)(struct fid_mr *region);
    ssize_t (*inject)(struct fid_ep *endpoint, const void *bytes, size_t count, fi_addr_t to);
    ssize_t (*send)(struct fid_ep *endpoint, const struct fi_msg *message, uint64_t flags);
    ssize_t (*receive)(struct fid_ep *endpoint, void *memory, size_t bytes, void *descriptor,
                       void *context);
    ssize_t (*write)(struct fid_ep *endpoint, const struct fi_msg_rma *message, uint64_t flags);
    ssize_t (*read_queue)(struct fid_cq *queue, struct fi_cq_msg_entry *entries, size_t count);
    ssize_t (*read_error)(struct fid_cq *queue, struct fi_cq_err_entry *error);
    int (*try_to_wait)(struct fid_fabric *fabric, struct fid_cq *queue);
};

/* The calls of libfabric itself, or the calls that a test has put in their place. */
const struct ofi_calls *ofi_calls(void);
/* For tests, while there is no device. NULL: libfabric's again. */
void ofi_replace_calls(const struct ofi_calls *calls);

#endif
