#include "transport/ofi/ofi_device.h"

#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "os/close_on_exec.h"
#include "transport/ofi/device_completions.h"
#include "transport/ofi/device_operations.h"
#include "transport/ofi/device_peers.h"
#include "transport/ofi/device_receives.h"

enum {
    MESSAGE_BYTES_MIN =
        4160, /* with the pair's head; even if the provider does not send as much at once */
    COMPLETIONS_A_LOOK = 64,
    SHORT_SLEEP_NS = 200000, /* where a provider has nothing to wait for */
    LOOKS_A_SWEEP = 4096
};

/* -------------------------------------------------------------------------------------- regions */

static enum tutti_status ofi_make_room(struct card_device *base, unsigned regions)
{
    return ofi_regions_make_room(ofi_device_of(base)->regions, regions);
}

static uint64_t ofi_enroll(struct card_device *base, void *address, size_t bytes,
                           enum card_access access)
{
    struct ofi_device *device = ofi_device_of(base);
    return device->is_stopped ? 0 : ofi_regions_add(device->regions, address, bytes, access);
}

static void ofi_deregister(struct card_device *base, uint64_t key)
{
    ofi_regions_remove(ofi_device_of(base)->regions, key);
}

static struct card_target ofi_target(const struct card_device *base, uint64_t key)
{
    return ofi_regions_target(ofi_const_device_of(base)->regions, key);
}

static unsigned ofi_count_regions(const struct card_device *base)
{
    const struct ofi_device *device = ofi_const_device_of(base);
    return ofi_regions_count(device->regions) - (device->bounce_key != 0);
}

/* -------------------------------------------------------------------------------------- looking */

static void take_entry(struct ofi_device *device, const struct fi_cq_msg_entry *entry)
{
    struct ofi_context *const context = entry->op_context;
    if (context->work == OFI_RECEIVES)
        ofi_receives_take(device, (struct ofi_receive *)context, entry->len);
    else
        ofi_operations_done(device, (struct ofi_operation *)context);
}

/* False: there is none, whatever the queue says. An error of nothing that this device has begun
 * changes nothing. */
static bool take_error(struct ofi_device *device)
{
    struct fi_cq_err_entry error = {0};
    if (device->provider.verbs->read_error(device->provider.queue, &error) != 1) return false;
    struct ofi_context *const context = error.op_context;
    if (context != NULL && context->work == OFI_RECEIVES)
        ofi_receives_drop(device, (struct ofi_receive *)context);
    else if (context != NULL)
        ofi_operations_fail(device, (struct ofi_operation *)context, error.err);
    return true;
}

/* An operation that a device has begun completes once, so only errors of nothing could come without
 * end. */
static bool read_queue(struct ofi_device *device)
{
    struct fi_cq_msg_entry entries[COMPLETIONS_A_LOOK];
    unsigned errors = 0;
    bool moved = false;
    for (;;) {
        const unsigned room = device->done_room - device->done_count;
        if (room < COMPLETIONS_A_LOOK) return moved;
        const ssize_t count =
            device->provider.verbs->read_queue(device->provider.queue, entries, COMPLETIONS_A_LOOK);
        if (count == -FI_EAVAIL) {
            if (errors++ == COMPLETIONS_A_LOOK || !take_error(device)) return moved;
            moved = true;
            continue;
        }
        if (count <= 0) return moved;
        for (ssize_t i = 0; i < count; i++) take_entry(device, &entries[i]);
        moved = true;
        if (count < COMPLETIONS_A_LOOK) return moved;
    }
}

static void stop_ringing(struct ofi_device *device)
{
    uint64_t count;
    if (!atomic_exchange_explicit(&device->is_rung, false, memory_order_acq_rel)) return;
    (void)!read(device->bell, &count, sizeof count);
}

static bool ofi_progress(struct card_device *base)
{
    struct ofi_device *device = ofi_device_of(base);
    stop_ringing(device);
    device->is_restless = false;
    if (device->is_stopped) return false;
    bool moved = read_queue(device);
    if (device->write_count > 0) moved |= ofi_operations_give(device);
    ofi_receives_post_all(device);
    if (++device->looks % LOOKS_A_SWEEP == 0) {
        ofi_regions_sweep(device->regions);
        device->may_have_opened = true; /* one in place of a connection that ended */
    }
    if (device->may_have_opened) close_on_exec_watched(device->provider.queue_fd);
    device->may_have_opened = false;
    if (device->any_owed) ofi_peers_greet_again(device);
    return moved || device->done_count > 0;
}

/* Operations that libfabric has do not count, since they end by themselves. Nor do completions of
 * messages: no caller waits to hear that a message has left. */
static bool ofi_is_busy(const struct card_device *base)
{
    const struct ofi_device *device = ofi_const_device_of(base);
    return device->done_count > device->done_sends;
}

static void ofi_look_again(struct card_device *base)
{
    ofi_device_of(base)->is_restless = true;
}

static void ofi_wake(struct card_device *base)
{
    struct ofi_device *device = ofi_device_of(base);
    const uint64_t one = 1;
    if (atomic_exchange_explicit(&device->is_rung, true, memory_order_acq_rel)) return;
    (void)!write(device->bell, &one, sizeof one);
}

static int ofi_descriptor(struct card_device *base)
{
    struct ofi_device *device = ofi_device_of(base);
    if (device->both < 0) return -1;
    if (device->is_stopped) return device->both;
    if (device->is_restless || device->done_count > 0 || device->unposted != NULL ||
        device->provider.verbs->try_to_wait(device->provider.fabric, device->provider.queue) != 0)
        ofi_wake(base);
    return device->both;
}

static void ofi_sleep(struct card_device *base, uint64_t timeout_ns)
{
    const int descriptor = ofi_descriptor(base);
    if (descriptor < 0 && timeout_ns > SHORT_SLEEP_NS) timeout_ns = SHORT_SLEEP_NS;
    const struct timespec timeout = {(time_t)(timeout_ns / 1000000000u),
                                     (long)(timeout_ns % 1000000000u)};
    struct pollfd entry = {.fd = descriptor >= 0 ? descriptor : ofi_device_of(base)->bell,
                           .events = POLLIN};
    (void)ppoll(&entry, 1, &timeout, NULL);
}

/* ----------------------------------------------------------------------------------- life cycle */

/* Returns 0, or libfabric's error. An endpoint to which memory is bound cannot be closed before
 * that; any other is closed first, so that nothing is under way in the memory. */
static int let_go(struct ofi_device *device)
{
    const bool is_bound =
        device->regions != NULL && ofi_provider_needs(&device->provider, FI_MR_ENDPOINT);
    const int unregistered = is_bound ? ofi_regions_stop(device->regions) : 0,
              closed = ofi_provider_stop(&device->provider);
    return closed != 0 ? closed : unregistered;
}

/* A provider may not unregister memory, either, before the endpoint is closed. */
static bool ofi_stop(struct card_device *base)
{
    struct ofi_device *device = ofi_device_of(base);
    const bool is_first = !device->is_stopped;
    device->is_stopped = true;
    int result = device->has_let_go ? 0 : let_go(device);
    if (result != 0) result = let_go(device);
    device->has_let_go = result == 0;
    if (result != 0 && is_first)
        log_write(LOG_WARN,
                  "network card: provider %s of libfabric does not close (%s): memory that it may "
                  "still write to is kept, and not used again",
                  device->options.choice->provider, ofi_provider_why(&device->provider, result));
    return device->has_let_go;
}

static size_t ofi_bytes(const struct card_device *base)
{
    const struct ofi_device *device = ofi_const_device_of(base);
    return sizeof *device + device->options.choice->endpoint_bytes + ofi_peers_bytes(device) +
           ofi_operations_bytes(device) + ofi_receives_bytes(device) +
           (device->regions != NULL ? ofi_regions_bytes(device->regions) : 0) +
           device->done_room * sizeof *device->done;
}

static void ofi_free(struct card_device *base)
{
    struct ofi_device *device = ofi_device_of(base);
    const bool has_let_go = ofi_stop(base);
    if (device->both >= 0) close(device->both);
    if (device->bell >= 0) close(device->bell);
    if (!has_let_go) return; /* libfabric has what is under way */
    ofi_regions_free(device->regions);
    ofi_provider_close(&device->provider);
    ofi_receives_free(device);
    ofi_operations_free(device);
    ofi_peers_free(device);
    free(device->done);
    free(device);
}

static const struct card_device_ops ops = {.make_room = ofi_make_room,
                                           .enroll = ofi_enroll,
                                           .deregister = ofi_deregister,
                                           .target = ofi_target,
                                           .regions = ofi_count_regions,
                                           .prepare = ofi_receives_prepare,
                                           .connect = ofi_peers_connect,
                                           .state = ofi_peers_state,
                                           .caller = ofi_peers_caller,
                                           .forget = ofi_peers_forget,
                                           .break_pair = ofi_peers_break,
                                           .post_receive = ofi_receives_post,
                                           .send = ofi_operations_send,
                                           .write = ofi_operations_write,
                                           .progress = ofi_progress,
                                           .poll = ofi_completions_poll,
                                           .is_busy = ofi_is_busy,
                                           .look_again = ofi_look_again,
                                           .sleep = ofi_sleep,
                                           .wake = ofi_wake,
                                           .descriptor = ofi_descriptor,
                                           .stop = ofi_stop,
                                           .bytes = ofi_bytes,
                                           .free = ofi_free};

static enum tutti_status open_bell(struct ofi_device *device)
{
    struct epoll_event event = {.events = EPOLLIN};
    device->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (device->bell < 0) return error_system("a network card: eventfd");
    if (device->provider.queue_fd < 0) return TUTTI_OK;
    device->both = epoll_create1(EPOLL_CLOEXEC);
    if (device->both < 0 || epoll_ctl(device->both, EPOLL_CTL_ADD, device->bell, &event) != 0 ||
        epoll_ctl(device->both, EPOLL_CTL_ADD, device->provider.queue_fd, &event) != 0)
        return error_system("a network card: epoll");
    return TUTTI_OK;
}

static void find_limits(struct ofi_device *device)
{
    const struct fi_info *info = device->provider.facts;
    const size_t most = info->ep_attr->max_msg_size, at_once = device->options.choice->message_bytes;
    size_t bytes = CARD_MESSAGE_BYTES_USUAL;
    if (at_once != 0 && at_once < bytes + OFI_PREFIX_BYTES)
        bytes = at_once < MESSAGE_BYTES_MIN + OFI_PREFIX_BYTES ? MESSAGE_BYTES_MIN
                                                               : at_once - OFI_PREFIX_BYTES;
    if (bytes + OFI_PREFIX_BYTES > most)
        bytes = most > OFI_PREFIX_BYTES ? most - OFI_PREFIX_BYTES : 0;
    device->base.message_bytes = bytes / OFI_ALIGNMENT * OFI_ALIGNMENT;
    device->base.head_room = OFI_HEAD_ROOM;
    device->part_bytes = most < SIZE_MAX / 2 ? most : SIZE_MAX / 2;
    /* When a connection ends and the provider makes another one, writes may be lost although the
     * message behind them comes. */
    const struct ofi_choice *const choice = device->options.choice;
    const bool has_connections = strstr(choice->provider, "ofi_rxm") != NULL || choice->is_software;
    device->base.keeps_order =
        !device->options.is_of_several &&
        (info->tx_attr->msg_order & info->rx_attr->msg_order & FI_ORDER_SAW) != 0 &&
        !has_connections;
    device->posted_max = ofi_provider_receives_max(&device->provider);
}

static enum tutti_status open_device(struct ofi_device *device)
{
    const struct ofi_choice *choice = device->options.choice;
    TRY(ofi_provider_open(&device->provider, choice, device->options.card, device->options.size,
                          OFI_OPERATIONS_MAX));
    find_limits(device);
    if (device->base.message_bytes < 1024)
        return error_set(TUTTI_UNSUPPORTED, "provider %s of libfabric: messages of %zu bytes",
                         choice->provider, device->provider.facts->ep_attr->max_msg_size);
    TRY(ofi_regions_create(device->provider.verbs, device->provider.facts, device->provider.space,
                           device->provider.endpoint, &device->regions));
    TRY(open_bell(device));
    TRY(ofi_peers_create(device));
    TRY(ofi_operations_create(device));
    return ofi_completions_make_room(device);
}

enum tutti_status ofi_device_create(const struct ofi_device_options *options,
                                    struct card_device **created)
{
    struct ofi_device *device = calloc(1, sizeof *device);
    *created = NULL;
    if (device == NULL) return ofi_device_no_memory();
    device->base.ops = &ops;
    device->options = *options;
    device->bell = device->both = -1;
    const enum tutti_status status = open_device(device);
    if (status != TUTTI_OK) {
        ofi_free(&device->base);
        return status;
    }
    *created = &device->base;
    return TUTTI_OK;
}

unsigned ofi_device_strays(const struct card_device *base)
{
    return ofi_const_device_of(base)->strays;
}
