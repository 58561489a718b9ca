#include "connect/admission.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_limit.h"
#include "base/status.h"
#include "bootstrap/host_id.h"
#include "connect/port.h"
#include "os/byte_stream.h"
#include "os/clock.h"
#include "tutti/exclude.h"

/* A host that is silent for so long is gone: one second, and three more without an answer. */
enum { IDLE_S = 1, APART_S = 1, PROBES = 3 };
/* So many wait at most, and so many have not said yet who they are; more are turned away, and apply
 * again. */
enum { WAITING_MAX = 1024, CALLERS_MAX = 64 };
/* An admitter whose message a joiner does not take for so long has lost it. */
static const uint64_t INVITE_NS = 2000000000;
/* For an application, after the hello. */
static const uint64_t CALL_NS = 2000000000;

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

/* ------------------------------------------------------------------------------ a member's side */

/* A process that waits, or was invited. */
struct entrant {
    struct byte_stream socket;
    int number; /* that it chose for itself */
};

/* A process that has shown the secret, and whose application is coming. */
struct caller {
    struct byte_stream socket;
    int number;
    uint64_t until_ns;
    size_t done; /* of the application */
    struct admission_application application;
};

struct admission {
    struct port_client client;
    const struct bars *bars; /* or NULL */
    int caller_count;        /* in the order in which they came */
    struct caller callers[CALLERS_MAX];
    int waiting_max;
    int count;   /* that have come */
    int invited; /* the first of them */
    bool has_lost;
    struct log_limit refused;
    struct entrant entrants[WAITING_MAX];
};

/* Descriptors are the program's, too. */
static int count_places(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 4 > WAITING_MAX)
        return WAITING_MAX;
    return limit.rlim_cur < 8 ? 2 : (int)(limit.rlim_cur / 4);
}

enum tutti_status admission_open(bool is_encrypted, const struct bars *bars,
                                 struct rendezvous_key *name, struct net_address *address,
                                 struct admission **admission)
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
    made->bars = bars;
    made->waiting_max = count_places();
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

/* The caller's place is free; its socket, if it is still here, is closed. */
static void remove_caller(struct admission *admission, int i)
{
    byte_stream_close(&admission->callers[i].socket);
    memmove(&admission->callers[i], &admission->callers[i + 1],
            (size_t)(--admission->caller_count - i) * sizeof *admission->callers);
}

/* A process that comes again has lost its first connection. */
static void take_call(struct admission *admission, int number, struct byte_stream socket)
{
    for (int i = 0; i < admission->caller_count; i++)
        if (admission->callers[i].number == number) remove_caller(admission, i--);
    for (int i = 0; i < admission->count; i++)
        if (admission->entrants[i].number == number) remove_entrant(admission, i--);
    if (socket.fd < 0) return; /* it was refused, and has been told */
    if (admission->caller_count == CALLERS_MAX) remove_caller(admission, 0);
    watch(socket.fd);
    admission->callers[admission->caller_count++] =
        (struct caller){.socket = socket, .number = number, .until_ns = clock_now_ns() + CALL_NS};
}

static void refuse(struct admission *admission, const struct caller *caller, const struct bar *bar)
{
    char more[LOG_LIMIT_TEXT_SIZE];
    struct admission_invitation refusal = {.refusal = 1 + bar->cause,
                                           .is_whole_host = bar->pid == BAR_ANY_PID};
    admission_invitation_sign(&refusal);
    (void)send_all(&caller->socket, &refusal, sizeof refusal, clock_now_ns()); /* it fits at once */
    if (log_limit_allows(&admission->refused, clock_now_ns(), more))
        log_write(LOG_WARN, "pid %d wanted to join, and was refused: this team has put %s out%s",
                  caller->application.pid, bar->pid == BAR_ANY_PID ? "its host" : "that process",
                  more);
}

/* The process waits from now on, or is sent away. Its place as a caller is free. */
static void seat(struct admission *admission, int i)
{
    struct caller *const caller = &admission->callers[i];
    const struct bar *const bar =
        bars_find(admission->bars, caller->application.host, caller->application.pid);
    if (bar != NULL) {
        refuse(admission, caller, bar);
    } else if (admission->count < admission->waiting_max) {
        admission->entrants[admission->count++] = (struct entrant){caller->socket, caller->number};
        caller->socket = byte_stream_none();
    }
    remove_caller(admission, i);
}

/* False: the caller's place is free. */
static bool hear_caller(struct admission *admission, int i)
{
    struct caller *const caller = &admission->callers[i];
    const size_t left = sizeof caller->application - caller->done;
    size_t bytes;
    if (byte_stream_read(&caller->socket, (char *)&caller->application + caller->done, left,
                         &bytes) != TUTTI_OK ||
        (bytes == 0 && clock_now_ns() > caller->until_ns)) {
        remove_caller(admission, i);
        return false;
    }
    caller->done += bytes;
    if (bytes < left) return true;
    if (admission_application_is_sound(&caller->application))
        seat(admission, i);
    else
        remove_caller(admission, i);
    return false;
}

int admission_look(struct admission *admission)
{
    int number;
    unsigned stream;
    struct byte_stream socket;
    port_progress(clock_now_ns());
    while (port_take(&admission->client, &number, &stream, &socket))
        take_call(admission, number, socket);
    for (int i = 0; i < admission->caller_count;) i += hear_caller(admission, i);
    for (int i = 0; i < admission->count; i++)
        if (!stands(&admission->entrants[i].socket)) remove_entrant(admission, i--);
    return admission->count;
}

void admission_invite(struct admission *admission, const struct admission_invitation *invitation,
                      const uint64_t *survivors)
{
    const uint64_t deadline_ns = clock_now_ns() + INVITE_NS;
    const struct bars *const bars = admission->bars;
    const size_t set_bytes = admission_set_words(invitation) * sizeof *survivors;
    struct admission_invitation own = *invitation;
    own.bar_count = bars != NULL ? bars->count : 0;
    admission_invitation_sign(&own);
    admission->invited = 0;
    admission->has_lost = admission->count < own.joiner_count;
    for (int i = 0; i < own.joiner_count && !admission->has_lost; i++) {
        const struct byte_stream *socket = &admission->entrants[i].socket;
        own.joiner = i;
        admission->invited = i + 1;
        enum tutti_status status = send_all(socket, &own, sizeof own, deadline_ns);
        if (status == TUTTI_OK) status = send_all(socket, survivors, set_bytes, deadline_ns);
        if (status == TUTTI_OK && bars != NULL)
            status =
                send_all(socket, bars->all, (size_t)bars->count * sizeof *bars->all, deadline_ns);
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
    while (admission->caller_count > 0) remove_caller(admission, 0);
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

static enum tutti_status apply(const struct applicant *applicant)
{
    struct admission_application own = {.pid = getpid()};
    TRY(host_id_read(&own.host));
    admission_application_sign(&own);
    if (send_all(&applicant->socket, &own, sizeof own, clock_now_ns() + CALL_NS) != TUTTI_OK)
        return closed();
    return TUTTI_OK;
}

static enum tutti_status refused(const struct admission_invitation *refusal)
{
    static const char *const causes[] = {[TUTTI_CAUSE_NONE] = "no cause was said",
                                         [TUTTI_CAUSE_LATE] = "it came late to call after call",
                                         [TUTTI_CAUSE_STALLED] = "its process did not run",
                                         [TUTTI_CAUSE_CORRUPT] = "what it sent arrived changed",
                                         [TUTTI_CAUSE_DEVICE] = "its GPU had failed"};
    return error_set(
        TUTTI_EXCLUDED, "tutti_comm_join: the team has put %s out, and lets it in no more: %s",
        refusal->is_whole_host ? "a rank of this host, and so the whole host," : "this process",
        causes[refusal->refusal - 1]);
}

static enum tutti_status enter(struct applicant *applicant)
{
    int peer;
    unsigned stream;
    port_progress(clock_now_ns());
    if (port_take(&applicant->client, &peer, &stream, &applicant->socket)) {
        watch(applicant->socket.fd);
        return apply(applicant);
    }
    const int status = atomic_load_explicit(&applicant->client.status, memory_order_acquire);
    if (status != TUTTI_OK)
        return error_set((enum tutti_status)status, "%s", applicant->client.why);
    return TUTTI_IN_PROGRESS;
}

enum tutti_status applicant_test(struct applicant *applicant,
                                 struct admission_invitation *invitation, uint64_t *survivors,
                                 struct bars *bars)
{
    struct admission_reader reader = {
        .invitation = invitation, .survivors = survivors, .bars = bars, .done = applicant->done};
    void *to;
    if (!applicant_is_in(applicant)) TRY(enter(applicant));
    for (size_t left; (left = admission_reader_wants(&reader, &to)) > 0;
         applicant->done = reader.done) {
        size_t bytes;
        if (byte_stream_read(&applicant->socket, to, left, &bytes) != TUTTI_OK) return closed();
        if (bytes == 0) return TUTTI_IN_PROGRESS;
        TRY(admission_reader_took(&reader, bytes));
    }
    return invitation->refusal != 0 ? refused(invitation) : TUTTI_OK;
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
