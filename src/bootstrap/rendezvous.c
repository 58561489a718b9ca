#include "bootstrap/rendezvous.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "os/clock.h"
#include "os/local_socket.h"

enum {
    MAGIC = 0x74757469,
    HELLO_TIMEOUT_MS = 2000, /* a connection that says nothing gives its place back */
    LOOK_NS = 50000000, /* between two questions whether those who are missing can still come */
    STRANGERS_MAX = 64, /* connections beyond the ranks still missing */
    MEMBERS_A_MESSAGE = 512,
    HEAPS_A_MESSAGE = 64
};

struct hello {
    uint32_t magic, version_major, version_minor;
    int32_t rank, size, pid;
    uint64_t process_key, heap_bytes;
    struct rendezvous_key key;
};
struct answer {
    uint32_t magic, status, process_count;
    struct rendezvous_key identity;
    char message[400];
};
struct member_message {
    struct rendezvous_member members[MEMBERS_A_MESSAGE];
};
struct process_message {
    struct {
        uint64_t key, heap_bytes;
    } processes[HEAPS_A_MESSAGE];
};

static void socket_name(const struct rendezvous_key *key, char name[64])
{
    int used = snprintf(name, 64, "tutti-");
    for (int i = 0; i < 16; i++)
        used += snprintf(name + used, 64 - (size_t)used, "%02x", key->bytes[i]);
}

void rendezvous_result_release(struct rendezvous_result *result)
{
    for (uint32_t i = 0; result->processes != NULL && i < result->process_count; i++)
        if (result->processes[i].heap_fd >= 0) close(result->processes[i].heap_fd);
    if (result->segment_fd >= 0) close(result->segment_fd);
    free(result->processes);
    free(result->members);
    *result = (struct rendezvous_result){.segment_fd = -1};
}

static enum tutti_status result_allocate(struct rendezvous_result *result, int size,
                                         uint32_t process_max)
{
    *result = (struct rendezvous_result){.segment_fd = -1};
    result->members = calloc((size_t)size, sizeof *result->members);
    result->processes = calloc(process_max, sizeof *result->processes);
    if (result->members != NULL && result->processes != NULL) return TUTTI_OK;
    rendezvous_result_release(result);
    return error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
}

static enum tutti_status look_around(const struct rendezvous_options *options)
{
    return options->look == NULL ? TUTTI_OK : options->look(options->look_context);
}

/* The next time to look around, if there is anything to look at, or the deadline. */
static uint64_t next_look(const struct rendezvous_options *options, uint64_t deadline_ns)
{
    const uint64_t next_ns = clock_now_ns() + LOOK_NS;
    return options->look == NULL || next_ns > deadline_ns ? deadline_ns : next_ns;
}

/* ----------------------------------------------------------------------------------------- rank 0 */

struct guest {
    int fd;   /* -1: place is free */
    int rank; /* -1: no hello yet */
    uint64_t hello_deadline_ns;
};

struct host {
    const struct rendezvous_options *options;
    struct rendezvous_result *result;
    struct guest *guests;
    int *socket_of; /* of each rank that has come; -1 */
    int arrived;
    unsigned dropped;
};

static void send_answer(int fd, struct answer *answer, const char *message, const int *segment_fd)
{
    answer->magic = MAGIC;
    snprintf(answer->message, sizeof answer->message, "%s", message);
    const uint64_t deadline = clock_now_ns() + HELLO_TIMEOUT_MS * 1000000ull;
    if (local_socket_send(fd, answer, sizeof *answer, segment_fd, segment_fd != NULL, deadline) !=
        TUTTI_OK)
        log_write(LOG_INFO, "start-up: a rank left before it was answered");
}

static void send_refusal(int fd, enum tutti_status status, const char *message)
{
    send_answer(fd, &(struct answer){.status = status}, message, NULL);
}

static void refuse(struct guest *guest, enum tutti_status status, const char *message)
{
    if (status != TUTTI_OK) send_refusal(guest->fd, status, message);
    close(guest->fd);
    guest->fd = -1;
}

static uint32_t process_index(struct rendezvous_result *result, uint64_t key, uint64_t heap_bytes,
                              int *heap_fd)
{
    for (uint32_t i = 0; i < result->process_count; i++)
        if (result->processes[i].key == key) return i;
    result->processes[result->process_count] =
        (struct rendezvous_process){key, heap_bytes, *heap_fd};
    *heap_fd = -1;
    return result->process_count++;
}

/* Reads one guest's hello; whatever is wrong with it is the guest's problem alone. */
static void welcome(struct host *host, struct guest *guest)
{
    const struct rendezvous_options *options = host->options;
    struct hello hello;
    int heap_fd = -1, count = 0;
    const enum tutti_status status =
        local_socket_receive(guest->fd, &hello, sizeof hello, &heap_fd, 1, &count, 0);
    if (status == TUTTI_IN_PROGRESS) return;
    pid_t pid = 0;
    uid_t uid = (uid_t)-1;
    char message[200] = "";
    enum tutti_status verdict = TUTTI_OK;
    if (status != TUTTI_OK || count != 1 || hello.magic != MAGIC ||
        !local_socket_peer(guest->fd, &pid, &uid) || uid != geteuid() ||
        memcmp(&hello.key, &options->key, sizeof hello.key) != 0) {
        host->dropped++;
        refuse(guest, TUTTI_OK, NULL);
        if (heap_fd >= 0) close(heap_fd);
        return;
    }
    if (hello.version_major != TUTTI_VERSION_MAJOR) {
        verdict = TUTTI_VERSION;
        snprintf(message, sizeof message, "rank 0 runs version %d.%d, rank %d runs %u.%u",
                 TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, hello.rank, hello.version_major,
                 hello.version_minor);
    } else if (hello.size != options->size || hello.rank < 1 || hello.rank >= options->size) {
        verdict = TUTTI_INVALID_RANK;
        snprintf(message, sizeof message,
                 "rank 0 makes a communicator of %d ranks, pid %d came as rank %d of %d",
                 options->size, (int)pid, hello.rank, hello.size);
    } else if (host->socket_of[hello.rank] >= 0) {
        verdict = TUTTI_INVALID_RANK;
        snprintf(message, sizeof message, "rank %d came twice: pid %d and pid %d", hello.rank,
                 host->result->members[hello.rank].pid, (int)pid);
    }
    if (verdict != TUTTI_OK) {
        log_write(LOG_WARN, "start-up: %s", message);
        refuse(guest, verdict, message);
    } else {
        guest->rank = hello.rank;
        host->socket_of[hello.rank] = guest->fd;
        host->result->members[hello.rank] = (struct rendezvous_member){
            pid, process_index(host->result, hello.process_key, hello.heap_bytes, &heap_fd),
            pid == hello.pid};
        host->arrived++;
    }
    if (heap_fd >= 0) close(heap_fd);
}

static void list_missing(const struct host *host, char *message, size_t bytes)
{
    int used = snprintf(message, bytes, "after the start-up deadline %d of %d ranks are missing:",
                        host->options->size - host->arrived, host->options->size);
    int listed = 0;
    for (int r = 1; r < host->options->size && used > 0 && (size_t)used + 16 < bytes; r++)
        if (host->socket_of[r] < 0 && listed++ < 40)
            used += snprintf(message + used, bytes - (size_t)used, " %d", r);
    if (listed > 40 && (size_t)used + 5 < bytes)
        snprintf(message + used, bytes - (size_t)used, " ...");
}

/* Waits for something to happen and handles it. */
static void serve(struct host *host, int listener, struct pollfd *entries, int place_count)
{
    const uint64_t now = clock_now_ns();
    int free_place = -1;
    entries[0] = (struct pollfd){listener, POLLIN, 0};
    for (int i = 0; i < place_count; i++) {
        struct guest *guest = &host->guests[i];
        if (guest->fd >= 0 && guest->rank < 0 && now > guest->hello_deadline_ns) {
            host->dropped++;
            refuse(guest, TUTTI_OK, NULL);
        }
        if (guest->fd < 0) free_place = i;
        entries[i + 1] = (struct pollfd){guest->rank < 0 ? guest->fd : -1, POLLIN, 0};
    }
    if (free_place < 0) entries[0].fd = -1;
    const uint64_t left_ms = (host->options->deadline_ns - now) / 1000000 + 1;
    if (now >= host->options->deadline_ns) return;
    const uint64_t nap_ms = host->options->look != NULL ? LOOK_NS / 1000000 : 200;
    if (poll(entries, (nfds_t)place_count + 1, (int)(left_ms < nap_ms ? left_ms : nap_ms)) <= 0)
        return;
    for (int i = 0; i < place_count; i++)
        if (entries[i + 1].revents != 0) welcome(host, &host->guests[i]);
    if (entries[0].revents != 0) {
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            host->guests[free_place] = (struct guest){fd, -1, now + HELLO_TIMEOUT_MS * 1000000ull};
    }
}

/* Sends what everybody needs to one rank. */
static enum tutti_status hand_out(const struct host *host, int fd)
{
    const struct rendezvous_result *result = host->result;
    const uint64_t deadline = clock_now_ns() + 10000000000ull;
    struct answer answer = {
        .status = TUTTI_OK, .process_count = result->process_count, .identity = result->identity};
    send_answer(fd, &answer, "", &host->options->segment_fd);
    for (int first = 0; first < host->options->size; first += MEMBERS_A_MESSAGE) {
        struct member_message message = {0};
        const int left = host->options->size - first;
        memcpy(message.members, result->members + first,
               sizeof *message.members *
                   (size_t)(left < MEMBERS_A_MESSAGE ? left : MEMBERS_A_MESSAGE));
        TRY(local_socket_send(fd, &message, sizeof message, NULL, 0, deadline));
    }
    for (uint32_t first = 0; first < result->process_count; first += HEAPS_A_MESSAGE) {
        struct process_message message = {0};
        int descriptors[HEAPS_A_MESSAGE], count = 0;
        for (uint32_t i = first; i < result->process_count && count < HEAPS_A_MESSAGE; i++, count++) {
            message.processes[count].key = result->processes[i].key;
            message.processes[count].heap_bytes = result->processes[i].heap_bytes;
            descriptors[count] = i == 0 ? host->options->heap_fd : result->processes[i].heap_fd;
        }
        TRY(local_socket_send(fd, &message, sizeof message, descriptors, count, deadline));
    }
    return TUTTI_OK;
}

/* Who is gone by now fails the others too, as far as they wait for their answer. */
static enum tutti_status hand_out_to_all(const struct host *host)
{
    for (int r = 1; r < host->options->size; r++) {
        const enum tutti_status status = hand_out(host, host->socket_of[r]);
        if (status == TUTTI_OK) continue;
        char message[400];
        snprintf(message, sizeof message, "rank %d (pid %d): %.300s", r,
                 (int)host->result->members[r].pid, tutti_error_message());
        for (int later = r + 1; later < host->options->size; later++)
            send_refusal(host->socket_of[later], status, message);
        return error_set(status, "%s", message);
    }
    return TUTTI_OK;
}

static enum tutti_status gather_guests(struct host *host, int listener, int place_count)
{
    struct pollfd *entries = calloc((size_t)place_count + 1, sizeof *entries);
    if (entries == NULL) return error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
    enum tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK && host->arrived < host->options->size &&
           clock_now_ns() < host->options->deadline_ns) {
        serve(host, listener, entries, place_count);
        if (host->arrived < host->options->size) status = look_around(host->options);
    }
    free(entries);
    if (host->dropped > 0) log_write(LOG_WARN, "start-up: dropped %u strangers", host->dropped);
    char message[400];
    if (status != TUTTI_OK) {
        error_copy(message, sizeof message);
    } else if (host->arrived < host->options->size) {
        status = TUTTI_INIT_TIMEOUT;
        list_missing(host, message, sizeof message);
    } else {
        return hand_out_to_all(host);
    }
    for (int r = 1; r < host->options->size; r++)
        if (host->socket_of[r] >= 0) send_refusal(host->socket_of[r], status, message);
    return error_set(status, "%s", message);
}

static enum tutti_status meet_as_host(const struct rendezvous_options *options, const char *name,
                                      struct rendezvous_result *result)
{
    const int size = options->size, place_count = size - 1 + STRANGERS_MAX;
    int listener = -1;
    TRY(result_allocate(result, size, (uint32_t)size));
    result->members[0] = (struct rendezvous_member){getpid(), 0, true};
    result->processes[0] =
        (struct rendezvous_process){options->process_key, options->heap_bytes, -1};
    result->process_count = 1;

    enum tutti_status status = rendezvous_key_create(&result->identity);
    struct host host = {.options = options, .result = result, .arrived = 1};
    host.guests = calloc((size_t)place_count, sizeof *host.guests);
    host.socket_of = calloc((size_t)size, sizeof *host.socket_of);
    if (host.guests == NULL || host.socket_of == NULL)
        status = error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
    if (status != TUTTI_OK) goto free_tables;
    for (int i = 0; i < place_count; i++) host.guests[i] = (struct guest){-1, -1, 0};
    for (int r = 0; r < size; r++) host.socket_of[r] = -1;

    status = local_socket_listen(name, &listener);
    if (status == TUTTI_IN_PROGRESS)
        status = error_set(TUTTI_INVALID_RANK, "two ranks 0: somebody meets as %s already", name);
    if (status != TUTTI_OK) goto free_tables;
    status = gather_guests(&host, listener, place_count);
    close(listener);
    for (int i = 0; i < place_count; i++)
        if (host.guests[i].fd >= 0) close(host.guests[i].fd);
free_tables:
    free(host.guests);
    free(host.socket_of);
    if (status != TUTTI_OK) rendezvous_result_release(result);
    return status;
}

/* ----------------------------------------------------------------------------------- everyone else */

static enum tutti_status receive_members(int fd, int size, struct rendezvous_result *result,
                                         uint64_t deadline)
{
    int count;
    for (int first = 0; first < size; first += MEMBERS_A_MESSAGE) {
        struct member_message message;
        TRY(local_socket_receive(fd, &message, sizeof message, NULL, 0, &count, deadline));
        const int left = size - first;
        memcpy(result->members + first, message.members,
               sizeof *message.members *
                   (size_t)(left < MEMBERS_A_MESSAGE ? left : MEMBERS_A_MESSAGE));
    }
    for (int r = 0; r < size; r++)
        if (result->members[r].process >= result->process_count)
            return error_set(TUTTI_AUTH_FAILED,
                             "start-up: rank 0 sent a list of members that makes no sense");
    return TUTTI_OK;
}

static enum tutti_status receive_processes(int fd, struct rendezvous_result *result,
                                           uint64_t deadline)
{
    for (uint32_t i = 0; i < result->process_count; i++) result->processes[i].heap_fd = -1;
    for (uint32_t first = 0; first < result->process_count; first += HEAPS_A_MESSAGE) {
        struct process_message message;
        int descriptors[HEAPS_A_MESSAGE], count;
        TRY(local_socket_receive(fd, &message, sizeof message, descriptors, HEAPS_A_MESSAGE, &count,
                                 deadline));
        const uint32_t left = result->process_count - first;
        const int expected = left < HEAPS_A_MESSAGE ? (int)left : HEAPS_A_MESSAGE;
        for (int i = 0; i < count; i++) {
            if (i < expected)
                result->processes[first + (uint32_t)i] = (struct rendezvous_process){
                    message.processes[i].key, message.processes[i].heap_bytes, descriptors[i]};
            else
                close(descriptors[i]);
        }
        if (count != expected)
            return error_set(TUTTI_NO_DESCRIPTORS, "start-up: %d of %d descriptors arrived", count,
                             expected);
    }
    return TUTTI_OK;
}

static enum tutti_status receive_answer(int fd, const struct rendezvous_options *options,
                                        struct rendezvous_result *result)
{
    struct answer answer;
    int count, segment_fd = -1;
    /* Rank 0 answers at its own deadline at the latest; leave it the time to say who is missing. */
    const uint64_t deadline = options->deadline_ns + 2000000000ull;
    enum tutti_status received;
    while ((received = local_socket_receive(fd, &answer, sizeof answer, &segment_fd, 1, &count,
                                            next_look(options, deadline))) == TUTTI_INIT_TIMEOUT &&
           clock_now_ns() < deadline)
        TRY(look_around(options));
    TRY(received);
    answer.message[sizeof answer.message - 1] = '\0';
    if (answer.magic != MAGIC ||
        (answer.status == TUTTI_OK && (count != 1 || answer.process_count < 1 ||
                                       answer.process_count > (uint32_t)options->size))) {
        if (segment_fd >= 0) close(segment_fd);
        return error_set(TUTTI_AUTH_FAILED, "start-up: rank 0 sent an answer that makes no sense");
    }
    if (answer.status != TUTTI_OK) {
        if (segment_fd >= 0) close(segment_fd);
        return error_set((enum tutti_status)answer.status, "%s", answer.message);
    }
    const enum tutti_status status = result_allocate(result, options->size, answer.process_count);
    if (status != TUTTI_OK) {
        close(segment_fd);
        return status;
    }
    result->segment_fd = segment_fd;
    result->identity = answer.identity;
    result->process_count = answer.process_count;
    for (uint32_t i = 0; i < result->process_count; i++) result->processes[i].heap_fd = -1;
    TRY(receive_members(fd, options->size, result, deadline));
    return receive_processes(fd, result, deadline);
}

static enum tutti_status meet_as_guest(const struct rendezvous_options *options, const char *name,
                                       struct rendezvous_result *result)
{
    int fd;
    *result = (struct rendezvous_result){.segment_fd = -1};
    enum tutti_status status;
    while ((status = local_socket_connect(name, next_look(options, options->deadline_ns), &fd)) ==
               TUTTI_INIT_TIMEOUT &&
           clock_now_ns() < options->deadline_ns)
        TRY(look_around(options));
    if (status == TUTTI_INIT_TIMEOUT)
        return error_set(TUTTI_INIT_TIMEOUT,
                         "rank %d of %d: after the start-up deadline rank 0 is missing",
                         options->rank, options->size);
    if (status != TUTTI_OK) return status;
    pid_t pid;
    uid_t uid;
    if (!local_socket_peer(fd, &pid, &uid) || uid != geteuid()) {
        status =
            error_set(TUTTI_AUTH_FAILED, "start-up: user %d (pid %d) listens in place of rank 0",
                      (int)uid, (int)pid);
    } else {
        const struct hello hello = {.magic = MAGIC,
                                    .version_major = TUTTI_VERSION_MAJOR,
                                    .version_minor = TUTTI_VERSION_MINOR,
                                    .rank = options->rank,
                                    .size = options->size,
                                    .pid = getpid(),
                                    .process_key = options->process_key,
                                    .heap_bytes = options->heap_bytes,
                                    .key = options->key};
        status =
            local_socket_send(fd, &hello, sizeof hello, &options->heap_fd, 1, options->deadline_ns);
        if (status == TUTTI_OK) status = receive_answer(fd, options, result);
    }
    close(fd);
    if (status != TUTTI_OK) rendezvous_result_release(result);
    return status;
}

enum tutti_status rendezvous_meet(const struct rendezvous_options *options,
                                  struct rendezvous_result *result)
{
    char name[64];
    socket_name(&options->key, name);
    return options->rank == 0 ? meet_as_host(options, name, result)
                              : meet_as_guest(options, name, result);
}
