#include "processes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "driver.h"
#include "memory.h"
#include "runner.h"
#include "waiting.h"

/* The message from the owner to the other process. */
struct offer {
    struct cuda_ipc_handle small, large;
    size_t grain;
    int pid, descriptor; /* in the owner; -1: none */
};

static void send_offer(int channel, const struct offer *offer)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } extra = {.room = {0}};
    struct iovec part = {(void *)(uintptr_t)offer, sizeof *offer};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (offer->descriptor >= 0) {
        message.msg_control = extra.room;
        message.msg_controllen = sizeof extra.room;
        extra.header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&extra.header), &offer->descriptor, sizeof(int));
    }
    if (sendmsg(channel, &message, 0) != (ssize_t)sizeof *offer) _exit(2);
}

/* False: there is no owner any more. *descriptor: a copy. */
static bool receive_offer(int channel, struct offer *offer, int *descriptor)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } extra = {.room = {0}};
    struct iovec part = {offer, sizeof *offer};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = extra.room,
                             .msg_controllen = sizeof extra.room};
    *descriptor = -1;
    if (recvmsg(channel, &message, 0) != (ssize_t)sizeof *offer) return false;
    const struct cmsghdr *const found = CMSG_FIRSTHDR(&message);
    if (found != NULL) memcpy(descriptor, CMSG_DATA(found), sizeof(int));
    return true;
}

static void tell_descriptor_rights(const struct offer *offer)
{
    const int process = (int)syscall(SYS_pidfd_open, offer->pid, 0);
    const int copy =
        process >= 0 ? (int)syscall(SYS_pidfd_getfd, process, offer->descriptor, 0) : -1;
    facts_say(
        "pidfd_getfd of the owner's descriptor: %s (of ranks started by one launcher see Yama, "
        "kernel.yama.ptrace_scope)",
        copy >= 0 ? "OK" : strerror(errno));
    if (copy >= 0) close(copy);
    if (process >= 0) close(process);
}

static void tell_bytes(const char *name, uint64_t address)
{
    unsigned char *const seen = driver_pinned(FACTS_SMALL);
    memset(seen, 0, FACTS_SMALL);
    const int result = driver_move((uintptr_t)seen, address, FACTS_SMALL);
    facts_say("%s: %s, holds %#x %#x", name,
              result == CUDA_OK ? "can be read" : driver_name_of(result), seen[0],
              seen[FACTS_SMALL - 1]);
}

static void expect_bytes(const char *name, uint64_t address, int value)
{
    unsigned char *const seen = driver_pinned(FACTS_SMALL);
    tell_bytes(name, address);
    facts_need(driver_move((uintptr_t)seen, address, FACTS_SMALL), name);
    facts_expect(seen[0] == value && seen[FACTS_SMALL - 1] == value,
                 "it does not hold what its owner stored");
}

static uint64_t open_handle(const char *name, const struct cuda_ipc_handle *handle)
{
    uint64_t address = 0, again = 0;
    const int result = cuda.ipc_open(&address, *handle, CUDA_IPC_ENABLE_PEER_ACCESS);
    facts_say("%s: cuIpcOpenMemHandle: %s", name, result == CUDA_OK ? "OK" : driver_name_of(result));
    facts_expect(result == CUDA_OK, "a handle of another process cannot be opened");
    if (result != CUDA_OK) return 0;
    memory_tell_attributes(name, address);
    memory_tell_range(name, address);
    const int second = cuda.ipc_open(&again, *handle, CUDA_IPC_ENABLE_PEER_ACCESS);
    facts_say("%s: opened once more: %s, %s", name,
              second == CUDA_OK ? "OK" : driver_name_of(second),
              again == address ? "the same address" : "another address");
    expect_bytes(name, address, 0x5a);
    return address;
}

static uint64_t map_descriptor(int descriptor)
{
    cuda_memory imported = 0;
    const int result =
        cuda.memory_import(&imported, (void *)(intptr_t)descriptor, CUDA_MEMORY_AS_DESCRIPTOR);
    facts_say("mapping of another process: cuMemImportFromShareableHandle: %s",
              result == CUDA_OK ? "OK" : driver_name_of(result));
    facts_expect(result == CUDA_OK, "a descriptor of another process cannot be imported");
    if (result != CUDA_OK) return 0;
    const uint64_t at = driver_reserved(1);
    driver_map(at, imported);
    facts_need(cuda.memory_release(imported), "cuMemRelease");
    memory_tell("mapping of another process", at, true);
    expect_bytes("mapping of another process", at, 0xa5);
    return at;
}

int processes_other(const char *file, int channel)
{
    static struct waiting_question legacy[] = {
        {.name = "cuIpcOpenMemHandle", .call = calls_ipc_open},
        {.name = "cuIpcCloseMemHandle", .call = calls_ipc_close}};
    static struct waiting_question by_hand[] = {
        {.name = "cuMemImportFromShareableHandle", .call = calls_import},
        {.name = "cuMemAddressReserve", .call = calls_reserve},
        {.name = "cuMemMap of imported memory", .call = calls_map},
        {.name = "cuMemSetAccess of imported memory", .call = calls_give_access},
        {.name = "cuMemUnmap of imported memory", .call = calls_unmap}};
    struct offer offer;
    char byte;
    facts_who = "other process: ";
    if (!receive_offer(channel, &offer, &calls.descriptor)) return 0;
    const int status = driver_open(file);
    if (status != 0) return status;
    driver.grain = offer.grain;
    const uint64_t small = open_handle("256 bytes", &offer.small),
                   large = open_handle("5 MiB", &offer.large);
    uint64_t mapped = 0;
    if (calls.descriptor >= 0) {
        tell_descriptor_rights(&offer);
        mapped = map_descriptor(calls.descriptor);
    }
    runner_make();
    calls.plain = driver_allocated(FACTS_LARGE);
    if (write(channel, "1", 1) != 1 || read(channel, &byte, 1) != 1) return 2;
    if (!driver.is_standin) { /* the owner has freed it all, and allocated as much anew */
        if (small != 0) tell_bytes("256 bytes that were freed", small);
        if (large != 0) tell_bytes("5 MiB that were freed", large);
        if (mapped != 0) expect_bytes("a mapping whose owner has unmapped it", mapped, 0xa5);
    }
    if (write(channel, "1", 1) != 1 || !receive_offer(channel, &offer, &calls.descriptor)) return 2;
    calls.handle = offer.large;
    waiting_try_all(legacy, 2);
    if (calls.descriptor >= 0) waiting_try_all(by_hand, sizeof by_hand / sizeof *by_hand);
    if (write(channel, "1", 1) != 1) return 2;
    return facts_unexpected != 0;
}

static void store(uint64_t address, size_t bytes, int value)
{
    unsigned char *const image = driver_pinned(bytes);
    memset(image, value, bytes);
    facts_need(driver_move(address, (uintptr_t)image, bytes), "a copy");
}

/* Memory for the other process. */
static struct offer make_offer(uint64_t *small, uint64_t *large, uint64_t *mapped, int value)
{
    struct offer offer = {.pid = getpid(), .descriptor = -1};
    *small = driver_allocated(FACTS_SMALL);
    *large = driver_allocated(FACTS_LARGE);
    store(*small, FACTS_SMALL, value);
    store(*large, FACTS_LARGE, value);
    facts_need(cuda.ipc_export(&offer.small, *small), "cuIpcGetMemHandle");
    facts_need(cuda.ipc_export(&offer.large, *large), "cuIpcGetMemHandle");
    if (!driver_has_mappings()) return offer;
    const cuda_memory physical = driver_created(true);
    *mapped = driver_reserved(1);
    driver_map(*mapped, physical);
    store(*mapped, FACTS_SMALL, value ^ 0xff);
    facts_need(cuda.memory_export(&offer.descriptor, physical, CUDA_MEMORY_AS_DESCRIPTOR, 0),
               "cuMemExportToShareableHandle");
    facts_need(cuda.memory_release(physical), "cuMemRelease");
    offer.grain = driver.grain;
    return offer;
}

void processes_part(int channel, pid_t other)
{
    uint64_t small = 0, large = 0, mapped = 0;
    int status = -1;
    char byte;
    struct offer offer = make_offer(&small, &large, &mapped, 0x5a);
    send_offer(channel, &offer);
    if (read(channel, &byte, 1) == 1) {
        facts_need(cuda.release(small), "cuMemFree of memory that another process has open");
        facts_need(cuda.release(large), "cuMemFree of memory that another process has open");
        if (mapped != 0) facts_need(cuda.unmap(mapped, driver.grain), "cuMemUnmap");
        if (offer.descriptor >= 0) close(offer.descriptor);
        offer = make_offer(&small, &large, &mapped, 0x3c);
        if (write(channel, "1", 1) != 1 || read(channel, &byte, 1) != 1) _exit(2);
        send_offer(channel, &offer);
        if (read(channel, &byte, 1) != 1) facts_say("the other process ended early");
    }
    if (waitpid(other, &status, 0) != other || !WIFEXITED(status) || WEXITSTATUS(status) > 1) {
        facts_say("the other process ended with status %#x", (unsigned)status);
        _exit(2);
    }
    facts_unexpected += (unsigned)WEXITSTATUS(status);
}
