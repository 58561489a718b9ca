#include "connect/admission.h"

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
/* So many wait at most; more are turned away, and apply again. */
enum { WAITING_MAX = 1024 };
/* An admitter whose message a joiner does not take for so long has lost it. */
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
struct entrant {
    struct byte_stream socket;
    int number; /* that it chose for itself */
};

struct admission {
    struct port_client client;
    int count;   /* that have come */
    int invited; /* the first of them */
    bool has_lost;
    struct entrant entrants[WAITING_MAX];
};

enum tutti_status admission_open(bool is_encrypted, struct rendezvous_key *name,
                                 struct net_address *address, struct admission **admission)
{
    struct admission *made = calloc(1, sizeof *made);
    if (made == NULL) return error_set(TUTTI_NO_MEMORY, "admission: out of memory");
    enum tutti_status status = rendezvous_key_create(name);
    if (status == TUTTI_OK) status = port_announce(name, address);
    if (status != TUTTI_OK) goto free_admission;
    if (is_encrypted) status = port_encrypt();
    if (status != TUTTI_OK) goto withdraw;
    made->client.identity = *name;
    made->client.size = INT_MAX;
    made->client.is_encrypted = is_encrypted;
    port_enter(&made->client);
    *admission = made;
    return TUTTI_OK;
withdraw:
    port_withdraw(name);
free_admission:
    free(made);
    return status;
}

/* The process's place is free, and the others move up. */
static void remove_entrant(struct admission *admission, int i)
{
    byte_stream_close(&admission->entrants[i].socket);
    memmove(&admission->entrants[i], &admission->entrants[i + 1],
            (size_t)(--admission->count - i) * sizeof *admission->entrants);
    if (i < admission->invited) {
        admission->invited--;
        admission->has_lost = true;
    }
}

/* A process that comes again has lost its first connection. */
static void seat(struct admission *admission, int number, struct byte_stream socket)
{
    for (int i = 0; i < admission->count; i++)
        if (admission->entrants[i].number == number) remove_entrant(admission, i--);
    if (socket.fd < 0) return; /* it was refused, and has been told */
    if (admission->count == WAITING_MAX) {
        byte_stream_close(&socket);
        return;
    }
    watch(socket.fd);
    admission->entrants[admission->count++] = (struct entrant){socket, number};
}

int admission_look(struct admission *admission)
{
    int number;
    unsigned stream;
    struct byte_stream socket;
    port_progress(clock_now_ns());
    while (port_take(&admission->client, &number, &stream, &socket))
        seat(admission, number, socket);
    for (int i = 0; i < admission->count; i++)
        if (!stands(&admission->entrants[i].socket)) remove_entrant(admission, i--);
    return admission->count;
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

void admission_invite(struct admission *admission, const struct admission_invitation *invitation,
                      const uint64_t *survivors)
{
    const uint64_t deadline_ns = clock_now_ns() + INVITE_NS;
    const size_t set_bytes = admission_set_words(invitation) * sizeof *survivors;
    struct admission_invitation own = *invitation;
    admission_invitation_sign(&own);
    admission->invited = 0;
    admission->has_lost = admission->count < own.joiner_count;
    for (int i = 0; i < own.joiner_count && !admission->has_lost; i++) {
        const struct byte_stream *socket = &admission->entrants[i].socket;
        own.joiner = i;
        admission->invited = i + 1;
        enum tutti_status status = send_all(socket, &own, sizeof own, deadline_ns);
        if (status == TUTTI_OK) status = send_all(socket, survivors, set_bytes, deadline_ns);
        admission->has_lost = status != TUTTI_OK;
    }
}

bool admission_has_lost(struct admission *admission)
{
    (void)admission_look(admission);
    return admission->has_lost;
}

void admission_dismiss(struct admission *admission)
{
    while (admission->invited > 0) remove_entrant(admission, 0);
    admission->has_lost = false;
}

void admission_close(struct admission *admission)
{
    if (admission == NULL) return;
    const struct rendezvous_key name = admission->client.identity;
    while (admission->count > 0) remove_entrant(admission, 0);
    port_leave(&admission->client);
    port_withdraw(&name);
    free(admission);
}

/* ------------------------------------------------------------------------------ a joiner's side */

struct applicant {
    struct port_client client;
    struct byte_stream socket;
    size_t done; /* of the invitation */
};

/* A number that no other process for admission has, most likely; 0 is the admitter's. If two have the
 * same, the later one sends the other away, which applies again with another number. */
static enum tutti_status choose_number(int *number)
{
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return error_system("getrandom");
    *number = 1 + (int)(random % (INT_MAX - 1));
    return TUTTI_OK;
}

enum tutti_status applicant_begin(const struct rendezvous_key *name,
                                  const struct net_address *address, bool is_encrypted,
                                  uint64_t deadline_ns, struct applicant **applicant)
{
    struct net_address own;
    struct applicant *made = calloc(1, sizeof *made);
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
        applicant_end(made);
    else
        *applicant = made;
    return status;
}

bool applicant_is_in(const struct applicant *applicant)
{
    return applicant->socket.fd >= 0;
}

static enum tutti_status closed(void)
{
    return error_set(TUTTI_PROC_FAILED, "the member that let this process in is gone, or has "
                                        "begun anew");
}

static enum tutti_status enter(struct applicant *applicant)
{
    int peer;
    unsigned stream;
    port_progress(clock_now_ns());
    if (port_take(&applicant->client, &peer, &stream, &applicant->socket)) {
        watch(applicant->socket.fd);
        return TUTTI_OK;
    }
    const int status = atomic_load_explicit(&applicant->client.status, memory_order_acquire);
    if (status != TUTTI_OK)
        return error_set((enum tutti_status)status, "%s", applicant->client.why);
    return TUTTI_IN_PROGRESS;
}

enum tutti_status applicant_test(struct applicant *applicant,
                                 struct admission_invitation *invitation, uint64_t *survivors)
{
    struct admission_reader reader = {
        .invitation = invitation, .survivors = survivors, .done = applicant->done};
    void *to;
    if (!applicant_is_in(applicant)) TRY(enter(applicant));
    for (size_t left; (left = admission_reader_wants(&reader, &to)) > 0;
         applicant->done = reader.done) {
        size_t bytes;
        if (byte_stream_read(&applicant->socket, to, left, &bytes) != TUTTI_OK) return closed();
        if (bytes == 0) return TUTTI_IN_PROGRESS;
        TRY(admission_reader_took(&reader, bytes));
    }
    return TUTTI_OK;
}

enum tutti_status applicant_look(const struct applicant *applicant)
{
    return stands(&applicant->socket) ? TUTTI_OK : closed();
}

void applicant_end(struct applicant *applicant)
{
    if (applicant == NULL) return;
    byte_stream_close(&applicant->socket);
    port_leave(&applicant->client);
    port_close();
    free(applicant);
}
