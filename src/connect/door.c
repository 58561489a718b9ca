#include "connect/door.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/status.h"
#include "connect/port.h"
#include "os/byte_stream.h"
#include "os/clock.h"

/* A host that is silent for so long is gone: one second, and three more without an answer. */
enum { IDLE_S = 1, APART_S = 1, PROBES = 3 };
/* So many wait at most; more are turned away, and knock again. */
enum { WAITING_MAX = 1024 };
/* A keeper whose message a joiner does not take for so long has lost it. */
static const uint64_t INVITE_NS = 2000000000;

static void watch(int fd)
{
    const int one = 1, idle_s = IDLE_S, apart_s = APART_S, probes = PROBES;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &apart_s, sizeof apart_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/* Whether the other side still has the connection. Its bytes stay where they are. */
static bool stands(const struct byte_stream *socket)
{
    char byte;
    const ssize_t got = recv(socket->fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

/* ------------------------------------------------------------------------------ a member's side */

/* A process that waits, or was invited. */
struct guest {
    struct byte_stream socket;
    int number; /* that it chose for itself */
};

struct door {
    struct port_client client;
    int count;   /* that have come */
    int invited; /* the first of them */
    bool has_lost;
    struct guest guests[WAITING_MAX];
};

enum tutti_status door_open(bool is_encrypted, struct rendezvous_key *name,
                            struct net_address *address, struct door **door)
{
    struct door *made = calloc(1, sizeof *made);
    if (made == NULL) return error_set(TUTTI_NO_MEMORY, "a door: out of memory");
    enum tutti_status status = rendezvous_key_create(name);
    if (status == TUTTI_OK) status = port_announce(name, address);
    if (status != TUTTI_OK) goto free_door;
    if (is_encrypted) status = port_encrypt();
    if (status != TUTTI_OK) goto withdraw;
    made->client.identity = *name;
    made->client.size = INT_MAX;
    made->client.is_encrypted = is_encrypted;
    port_enter(&made->client);
    *door = made;
    return TUTTI_OK;
withdraw:
    port_withdraw(name);
free_door:
    free(made);
    return status;
}

/* The process's place is free, and the others move up. */
static void remove_guest(struct door *door, int i)
{
    byte_stream_close(&door->guests[i].socket);
    memmove(&door->guests[i], &door->guests[i + 1],
            (size_t)(--door->count - i) * sizeof *door->guests);
    if (i < door->invited) {
        door->invited--;
        door->has_lost = true;
    }
}

/* A process that comes again has lost its first connection. */
static void seat(struct door *door, int number, struct byte_stream socket)
{
    for (int i = 0; i < door->count; i++)
        if (door->guests[i].number == number) remove_guest(door, i--);
    if (socket.fd < 0) return; /* it was refused, and has been told */
    if (door->count == WAITING_MAX) {
        byte_stream_close(&socket);
        return;
    }
    watch(socket.fd);
    door->guests[door->count++] = (struct guest){socket, number};
}

int door_look(struct door *door)
{
    int number;
    unsigned stream;
    struct byte_stream socket;
    port_progress(clock_now_ns());
    while (port_take(&door->client, &number, &stream, &socket)) seat(door, number, socket);
    for (int i = 0; i < door->count; i++)
        if (!stands(&door->guests[i].socket)) remove_guest(door, i--);
    return door->count;
}

static enum tutti_status send_all(const struct byte_stream *socket, const void *from, size_t bytes,
                                  uint64_t deadline_ns)
{
    for (size_t done = 0, more; done < bytes; done += more) {
        TRY(byte_stream_write(socket, (const char *)from + done, bytes - done, &more));
        if (more == 0 && clock_now_ns() > deadline_ns) return TUTTI_TIMEOUT;
    }
    enum tutti_status status;
    while ((status = byte_stream_flush(socket)) == TUTTI_IN_PROGRESS)
        if (clock_now_ns() > deadline_ns) return TUTTI_TIMEOUT;
    return status;
}

void door_invite(struct door *door, const struct door_invitation *invitation,
                 const uint64_t *survivors)
{
    const uint64_t deadline_ns = clock_now_ns() + INVITE_NS;
    const size_t set_bytes = door_set_words(invitation) * sizeof *survivors;
    struct door_invitation own = *invitation;
    door_invitation_sign(&own);
    door->invited = 0;
    door->has_lost = door->count < own.joiner_count;
    for (int i = 0; i < own.joiner_count && !door->has_lost; i++) {
        const struct byte_stream *socket = &door->guests[i].socket;
        own.joiner = i;
        door->invited = i + 1;
        enum tutti_status status = send_all(socket, &own, sizeof own, deadline_ns);
        if (status == TUTTI_OK) status = send_all(socket, survivors, set_bytes, deadline_ns);
        door->has_lost = status != TUTTI_OK;
    }
}

bool door_has_lost(struct door *door)
{
    (void)door_look(door);
    return door->has_lost;
}

void door_dismiss(struct door *door)
{
    while (door->invited > 0) remove_guest(door, 0);
    door->has_lost = false;
}

void door_close(struct door *door)
{
    if (door == NULL) return;
    const struct rendezvous_key name = door->client.identity;
    while (door->count > 0) remove_guest(door, 0);
    port_leave(&door->client);
    port_withdraw(&name);
    free(door);
}

/* ------------------------------------------------------------------------------ a joiner's side */

struct knock {
    struct port_client client;
    struct byte_stream socket;
    size_t done; /* of the invitation */
};

/* A number that no other process at the door has, most likely; 0 is the keeper's. If two have the
 * same, the later one sends the other away, which knocks again with another number. */
static enum tutti_status choose_number(int *number)
{
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return error_system("getrandom");
    *number = 1 + (int)(random % (INT_MAX - 1));
    return TUTTI_OK;
}

enum tutti_status knock_begin(const struct rendezvous_key *name, const struct net_address *address,
                              bool is_encrypted, uint64_t deadline_ns, struct knock **knock)
{
    struct net_address own;
    struct knock *made = calloc(1, sizeof *made);
    if (made == NULL) return error_set(TUTTI_NO_MEMORY, "joining: out of memory");
    made->socket = byte_stream_none();
    made->client.identity = *name;
    made->client.is_encrypted = is_encrypted; /* its size is 0: nobody connects to it */
    enum tutti_status status = choose_number(&made->client.rank);
    if (status == TUTTI_OK) status = port_open_towards(address, &own);
    if (status != TUTTI_OK) {
        free(made);
        return status;
    }
    port_enter(&made->client);
    if (is_encrypted) status = port_encrypt();
    if (status == TUTTI_OK) status = port_connect(&made->client, 0, 0, address, deadline_ns);
    if (status != TUTTI_OK)
        knock_end(made);
    else
        *knock = made;
    return status;
}

bool knock_is_in(const struct knock *knock)
{
    return knock->socket.fd >= 0;
}

static enum tutti_status closed(void)
{
    return error_set(TUTTI_PROC_FAILED, "the member that let this process in is gone, or has "
                                        "begun anew");
}

static enum tutti_status enter(struct knock *knock)
{
    int peer;
    unsigned stream;
    port_progress(clock_now_ns());
    if (port_take(&knock->client, &peer, &stream, &knock->socket)) {
        watch(knock->socket.fd);
        return TUTTI_OK;
    }
    const int status = atomic_load_explicit(&knock->client.status, memory_order_acquire);
    if (status != TUTTI_OK) return error_set((enum tutti_status)status, "%s", knock->client.why);
    return TUTTI_IN_PROGRESS;
}

enum tutti_status knock_test(struct knock *knock, struct door_invitation *invitation,
                             uint64_t *survivors)
{
    struct door_reader reader = {
        .invitation = invitation, .survivors = survivors, .done = knock->done};
    void *to;
    if (!knock_is_in(knock)) TRY(enter(knock));
    for (size_t left; (left = door_reader_wants(&reader, &to)) > 0; knock->done = reader.done) {
        size_t bytes;
        if (byte_stream_read(&knock->socket, to, left, &bytes) != TUTTI_OK) return closed();
        if (bytes == 0) return TUTTI_IN_PROGRESS;
        TRY(door_reader_took(&reader, bytes));
    }
    return TUTTI_OK;
}

enum tutti_status knock_look(const struct knock *knock)
{
    return stands(&knock->socket) ? TUTTI_OK : closed();
}

void knock_end(struct knock *knock)
{
    if (knock == NULL) return;
    byte_stream_close(&knock->socket);
    port_leave(&knock->client);
    port_close();
    free(knock);
}
