#include "connect/discovery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rank_list.h"
#include "base/status.h"
#include "bootstrap/exchange.h"
#include "connect/port.h"
#include "os/clock.h"

enum { NAP_NS = 200000, LOOK_NS = 5000000, RECONNECT_NS = 10000000, RECONNECT_NS_MAX = 320000000 };
enum {
    PROBE_NS = 30000000,
    REFUSALS = 10
}; /* as for peers of a communicator, transport/tcp/gone.h */
/* Ranks wait for so long after the deadline: rank 0's word on which ranks are missing may come a
 * moment later. */
static const uint64_t PATIENCE_NS = 1000000000;
/* For so long ranks take turns to hear that descriptors are at an end. */
static const uint64_t TURNS_NS = 1000000000;

/* One connection, and how far a message has got on it. */
struct connection {
    struct byte_stream socket;
    size_t done;
    bool has_reported; /* on rank 0: a sound report came over it */
    bool is_told;      /* on rank 0: and was answered with the run */
    bool is_answering; /* the message that is being sent is the answer */
    bool is_over;      /* everything has been sent */
    bool is_unfit;     /* its rank was refused, and has been told */
    bool is_claimed;   /* somebody else came as the same rank, and the log says so */
};

/* A rank's report to rank 0. */
struct report {
    struct discovery_head head;
    struct discovery_entry entry;
};

struct discovery {
    const struct discovery_options *options;
    const struct launcher_facts *facts;
    struct discovery_entry *entries;
    unsigned *message_count;
    uint64_t begin_ns;
    struct rendezvous_key report_identity; /* for the way up, before the run is known */
    struct rendezvous_key run;             /* zero: not known yet */
    struct port_client client; /* the others connect to it, and it connects to the parent, in this run alone */
    struct port_client calls[PORT_MASTER_COUNT]; /* these connect to rank 0, each at another port */
    unsigned called; /* a bit for each port to which one is connecting */
    unsigned port;   /* the number of the port that accepted this rank */
    unsigned others; /* a bit for each port that accepted this rank and closed without an answer */
    uint64_t forget_ns; /* when those are tried again */
    uint64_t reconnect_ns;
    bool is_entered;
    struct connection *connections; /* of each rank */
    struct report *reports;         /* on rank 0: of each rank */
    bool *is_known;                 /* on rank 0: has reported, or was refused */
    int known_count;
    bool is_complete;               /* on rank 0: entries stay as they are */
    uint64_t look_ns;               /* when to look next whether others can come */
    char unfit[DISCOVERY_TEXT_MAX]; /* why a rank was refused */
};

static void nap(void)
{
    nanosleep(&(struct timespec){0, NAP_NS}, NULL);
}

/* Asks the caller which ranks can come no more. */
static enum tutti_status look(struct discovery *discovery)
{
    const uint64_t now_ns = clock_now_ns();
    if (discovery->options->look == NULL || now_ns < discovery->look_ns) return TUTTI_OK;
    discovery->look_ns = now_ns + LOOK_NS;
    return discovery->options->look(discovery->options->look_context);
}

static void hang_up(struct connection *connection)
{
    byte_stream_close(&connection->socket);
    *connection = (struct connection){.socket = byte_stream_none()};
}

/* ------------------------------------------------------------------------------------- messages */

/* entry_max: for how many entries there is room. */
static enum tutti_status receive(const struct discovery *discovery, struct connection *connection,
                                 struct discovery_head *message, struct discovery_entry *entries,
                                 uint32_t entry_max)
{
    struct discovery_reader reader = {.head = message,
                                      .entries = entries,
                                      .entry_max = entry_max,
                                      .size = discovery->facts->size,
                                      .done = connection->done};
    void *to;
    for (size_t left; (left = discovery_reader_wants(&reader, &to)) > 0;
         connection->done = reader.done) {
        size_t bytes;
        TRY(byte_stream_read(&connection->socket, to, left, &bytes));
        if (bytes == 0) return TUTTI_IN_PROGRESS;
        TRY(discovery_reader_took(&reader, bytes));
    }
    connection->done = 0;
    ++*discovery->message_count;
    return TUTTI_OK;
}

static enum tutti_status transmit(const struct discovery *discovery, struct connection *connection,
                                  const struct discovery_head *message,
                                  const struct discovery_entry *entries)
{
    const size_t total = sizeof *message + message->entry_count * sizeof *entries;
    while (connection->done < total) {
        const bool in_head = connection->done < sizeof *message;
        const char *from = in_head ? (const char *)message + connection->done
                                   : (const char *)entries + (connection->done - sizeof *message);
        size_t bytes;
        TRY(byte_stream_write(&connection->socket, from,
                              (in_head ? sizeof *message : total) - connection->done, &bytes));
        if (bytes == 0) return TUTTI_IN_PROGRESS;
        connection->done += bytes;
    }
    TRY(byte_stream_flush(&connection->socket));
    connection->done = 0;
    ++*discovery->message_count;
    return TUTTI_OK;
}

static struct discovery_head make_message(const struct discovery *discovery,
                                          enum discovery_kind kind)
{
    struct discovery_head message =
        discovery_head_make(kind, discovery->facts->rank, discovery->facts->size);
    message.run = discovery->run;
    return message;
}

/* ------------------------------------------------------------------------------------------ run */

static bool is_same(const struct rendezvous_key *a, const struct rendezvous_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool is_none(const struct rendezvous_key *run)
{
    return is_same(run, &(struct rendezvous_key){.bytes = {0}});
}

/* From now on ranks of the same run are accepted, and nobody else. */
static void enter_run(struct discovery *discovery, const struct rendezvous_key *run)
{
    discovery->run = *run;
    rendezvous_key_derive(&discovery->report_identity, run, sizeof *run,
                          &discovery->client.identity);
    port_enter(&discovery->client);
}

/* ---------------------------------------------------------------------------------- connections */

/* Whether the other side still has the connection. A rank whose report was read sends nothing
 * more. */
static bool stands(const struct connection *connection)
{
    char byte;
    const ssize_t got = recv(connection->socket.fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

/* A rank that connects again has lost its first connection, unless it has reported and is still
 * there: then it is another process. */
static void seat(struct discovery *discovery, int peer, struct byte_stream socket)
{
    struct connection *connection = &discovery->connections[peer];
    if (socket.fd == PORT_UNFIT) {
        error_copy(discovery->unfit, sizeof discovery->unfit);
        connection->is_unfit = true;
    }
    if (socket.fd < 0) return; /* or a callback request, which nobody follows here */
    if (connection->socket.fd >= 0 && connection->has_reported && stands(connection)) {
        if (!connection->is_claimed)
            log_write(LOG_WARN,
                      "start-up: somebody else came as rank %d, which is here: is an earlier run "
                      "of this job still starting, or another job of the same name? "
                      "(TUTTI_JOB_ID tells jobs apart)",
                      peer);
        connection->is_claimed = true;
        byte_stream_close(&socket);
        return;
    }
    hang_up(connection);
    connection->socket = socket;
}

static void take_connections(struct discovery *discovery)
{
    int peer;
    unsigned stream;
    struct byte_stream socket;
    port_progress(clock_now_ns());
    while (port_take(&discovery->client, &peer, &stream, &socket)) seat(discovery, peer, socket);
}

/* The children of a rank lie below its lowest bit. */
static bool is_child(int rank, int of)
{
    return rank > of && (rank & (rank - 1)) == of;
}

static int parent_of(int rank)
{
    return rank & (rank - 1);
}

/* The message that tells a rank the table, where to get it, or how rank discovery failed. */
static struct discovery_head answer_for(const struct discovery *discovery, int rank,
                                        enum tutti_status status)
{
    struct discovery_head message;
    if (status != TUTTI_OK) {
        message = make_message(discovery, DISCOVERY_FAILURE);
        message.status = (int32_t)status;
        error_copy(message.text, sizeof message.text);
    } else if (is_child(rank, discovery->facts->rank)) {
        message = make_message(discovery, DISCOVERY_TABLE);
    } else {
        message = make_message(discovery, DISCOVERY_CONNECT);
        message.address = discovery->entries[parent_of(rank)].address;
    }
    return message;
}

/* ---------------------------------------------------------------------------- reports to rank 0 */

/* A rank that was told of another run stays out of this one, and ends: its rank 0 is gone. */
static void turn_away(struct discovery *discovery, struct connection *connection, int rank)
{
    struct discovery_head message = make_message(discovery, DISCOVERY_FAILURE);
    message.status = TUTTI_PROC_FAILED;
    snprintf(message.text, sizeof message.text,
             "start-up: rank 0 is gone, and another run of this job has its place");
    log_write(LOG_INFO, "start-up: rank %d of an earlier run is turned away", rank);
    (void)transmit(discovery, connection, &message,
                   NULL); /* a rank that misses this connects again */
    hang_up(connection);
}

/* Whether a rank that has lost its connection and connects again is still the rank that the others
 * are told of. */
static bool is_as_told(const struct discovery *discovery, int rank,
                       const struct discovery_entry *entry)
{
    const struct discovery_entry *told = &discovery->entries[rank];
    return !discovery->is_complete || (entry->host == told->host && entry->pid == told->pid &&
                                       net_address_equal(&entry->address, &told->address));
}

/* Reads a rank's report as far as it has come, and then tells the rank the run. */
static void hear_report(struct discovery *discovery, int r)
{
    struct connection *connection = &discovery->connections[r];
    struct report *report = &discovery->reports[r];
    if (connection->socket.fd >= 0 && !connection->has_reported) {
        const enum tutti_status got =
            receive(discovery, connection, &report->head, &report->entry, 1);
        if (got == TUTTI_IN_PROGRESS) return;
        if (got != TUTTI_OK || report->head.kind != DISCOVERY_ENTRY || report->head.rank != r ||
            report->entry.address.family == AF_UNSPEC || !is_as_told(discovery, r, &report->entry)) {
            log_write(LOG_INFO,
                      "start-up: a process that came as rank %d sent a report that makes no sense",
                      r);
            hang_up(connection);
            return;
        }
        if (!is_none(&report->head.run) && !is_same(&report->head.run, &discovery->run)) {
            turn_away(discovery, connection, r);
            return;
        }
        if (!discovery->is_complete) discovery->entries[r] = report->entry;
        connection->has_reported = true;
        discovery->known_count += !discovery->is_known[r];
        discovery->is_known[r] = true;
    }
    if (!connection->has_reported || connection->is_told) return;
    const struct discovery_head message = make_message(discovery, DISCOVERY_HEARD);
    const enum tutti_status sent = transmit(discovery, connection, &message, NULL);
    connection->is_told = sent == TUTTI_OK;
    if (sent != TUTTI_OK && sent != TUTTI_IN_PROGRESS) hang_up(connection);
}

/* Whether the answer may be sent now. A failure is told to every rank that is there, except in the
 * middle of a message. */
static bool is_ready(const struct connection *connection, enum tutti_status status)
{
    return connection->is_told || (status != TUTTI_OK && !connection->has_reported);
}

/* -------------------------------------------------------------------------------------- answers */

/* Whether this rank has not been able to let others in, or to go to them, for a while, for want of
 * descriptors, say. */
static enum tutti_status check_port(const struct discovery *discovery)
{
    char why[DISCOVERY_TEXT_MAX / 2];
    const enum tutti_status status = port_starves(discovery->begin_ns, clock_now_ns());
    if (status == TUTTI_OK) return TUTTI_OK;
    error_copy(why, sizeof why);
    return error_set(status, "start-up: rank %d (host %s, pid %d): %s", discovery->facts->rank,
                     discovery->options->self.host_name, discovery->options->self.pid, why);
}

/* Tells all ranks, or only those below this one. Waits for ranks that have not come yet, unless
 * something failed: if descriptors are at an end, each rank that was told makes room for another
 * one, so there is some waiting after all. */
static enum tutti_status answer(struct discovery *discovery, bool all, enum tutti_status status,
                                uint64_t deadline_ns)
{
    const int own = discovery->facts->rank;
    char why[DISCOVERY_TEXT_MAX] = "";
    const uint64_t turns_until_ns = clock_now_ns() + TURNS_NS;
    if (status != TUTTI_OK) error_copy(why, sizeof why);
    for (int missing = 0;;) {
        const bool takes_turns =
            own == 0 && status == TUTTI_NO_DESCRIPTORS && clock_now_ns() < turns_until_ns;
        take_connections(discovery);
        missing = -1;
        for (int r = own + 1; r < discovery->facts->size; r++) {
            struct connection *connection = &discovery->connections[r];
            if (connection->is_over || connection->is_unfit || (!all && !is_child(r, own)))
                continue;
            if (own == 0 && !connection->is_answering) hear_report(discovery, r);
            /* If it still sends, its bytes would make the kernel drop the answer. */
            const bool waits_for_it =
                own == 0 && !(takes_turns ? connection->is_told : is_ready(connection, status));
            if (connection->socket.fd < 0 || waits_for_it) {
                if (status == TUTTI_OK || connection->has_reported || takes_turns) missing = r;
                continue;
            }
            if (!connection->is_answering)
                connection->done = 0; /* a report that has come in part does not count now */
            connection->is_answering = true;
            if (status != TUTTI_OK) error_set(status, "%s", why);
            const struct discovery_head message = answer_for(discovery, r, status);
            const enum tutti_status sent =
                transmit(discovery, connection, &message, discovery->entries);
            connection->is_over = sent == TUTTI_OK;
            if (sent == TUTTI_IN_PROGRESS) missing = r;
            if (sent != TUTTI_OK && sent != TUTTI_IN_PROGRESS) hang_up(connection);
            if (connection->is_over && takes_turns) {
                hang_up(connection);
                connection->is_over = true;
            }
        }
        if (missing < 0 || (status != TUTTI_OK && clock_now_ns() > deadline_ns)) break;
        if (status == TUTTI_OK) {
            status = check_port(discovery);
            if (status == TUTTI_OK) status = look(discovery);
            if (status != TUTTI_OK) error_copy(why, sizeof why);
        }
        if (status == TUTTI_OK && clock_now_ns() > deadline_ns)
            return error_set(TUTTI_INIT_TIMEOUT,
                             "start-up: rank %d did not come for the list of ranks", missing);
        nap();
    }
    return status != TUTTI_OK ? error_set(status, "%s", why) : TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- rank 0 */

/* Rank 0 connects to nobody, so no connection of its own has failed. But if it cannot even reach
 * itself, others cannot either. */
static void look_at_own_port(const struct net_address *own, char *text, size_t text_bytes)
{
    int fd = -1;
    char why[DISCOVERY_TEXT_MAX];
    text[0] = '\0';
    enum tutti_status status = tcp_connect_start(own, NULL, &fd);
    if (status == TUTTI_OK) status = tcp_connect_test(fd, own);
    if (status == TUTTI_PROC_FAILED) {
        error_copy(why, sizeof why);
        snprintf(text, text_bytes, "; nor does rank 0 reach its own port: %.150s", why);
    }
    if (fd >= 0) close(fd);
}

static enum tutti_status say_who_is_missing(const struct discovery *discovery, uint64_t begin_ns)
{
    const double seconds = (double)(clock_now_ns() - begin_ns) * 1e-9;
    struct rank_list missing = RANK_LIST_EMPTY;
    const int size = discovery->facts->size;
    char own[208], refusal[PORT_TROUBLE_MAX];
    for (int r = 0; r < size; r++)
        if (!discovery->is_known[r]) rank_list_add(&missing, r);
    look_at_own_port(&discovery->options->self.address, own, sizeof own);
    const bool was_refused = port_refusal(begin_ns, refusal);
    return error_set(
        TUTTI_INIT_TIMEOUT,
        "start-up: %d of %d ranks did not report to rank 0 within %.1f s: rank%s %s%s%s%s",
        missing.count, size, seconds, missing.count > 1 ? "s" : "", missing.text, own,
        was_refused ? "; refused " : "", was_refused ? refusal : "");
}

/* Waits until all ranks have reported. */
static enum tutti_status collect(struct discovery *discovery)
{
    const uint64_t begin_ns = clock_now_ns();
    const int size = discovery->facts->size;
    discovery->known_count = 1;
    discovery->is_known[0] = true;
    while (discovery->known_count < size) {
        take_connections(discovery);
        for (int r = 1; r < size; r++) {
            if (discovery->connections[r].is_unfit && !discovery->is_known[r]) {
                discovery->is_known[r] = true;
                discovery->known_count++;
            }
            hear_report(discovery, r);
        }
        if (discovery->known_count < size) TRY(check_port(discovery));
        if (discovery->known_count < size) TRY(look(discovery));
        if (discovery->known_count < size && clock_now_ns() > discovery->options->deadline_ns)
            return say_who_is_missing(discovery, begin_ns);
        nap();
    }
    return discovery->unfit[0] == '\0'
               ? TUTTI_OK
               : error_set(TUTTI_INVALID_OPTIONS, "start-up: %s", discovery->unfit);
}

static enum tutti_status lead(struct discovery *discovery)
{
    const size_t size = (size_t)discovery->facts->size;
    discovery->reports = calloc(size, sizeof *discovery->reports);
    discovery->is_known = calloc(size, sizeof *discovery->is_known);
    if (discovery->reports == NULL || discovery->is_known == NULL)
        return error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
    const enum tutti_status status = collect(discovery);
    discovery->is_complete = status == TUTTI_OK;
    return answer(discovery, true, status, clock_now_ns() + PATIENCE_NS * 10);
}

/* ----------------------------------------------------------------------------------- the others */

/* How many ports rank 0 may be at. */
static unsigned master_port_count(const struct discovery *discovery)
{
    return discovery->options->meeting != NULL ? 1 : PORT_MASTER_COUNT;
}

static enum tutti_status resolve_master(const struct discovery *discovery,
                                        struct net_address *address)
{
    const struct launcher_facts *facts = discovery->facts;
    if (discovery->options->meeting != NULL) {
        *address = *discovery->options->meeting;
        return TUTTI_OK;
    }
    const uint16_t port = (uint16_t)facts->master_port;
    size_t count;
    if (net_address_resolve(facts->master_address, port, discovery->options->self.address.family,
                            address, 1, &count) == TUTTI_OK)
        return TUTTI_OK;
    return net_address_resolve(facts->master_address, port, AF_UNSPEC, address, 1, &count);
}

/* Connects to all ports of rank 0 but those where it just was not. */
static enum tutti_status call_rank_0(struct discovery *discovery, const struct net_address *master)
{
    if (clock_now_ns() >= discovery->forget_ns) discovery->others = 0;
    for (unsigned i = 0; i < master_port_count(discovery); i++) {
        struct net_address address = *master;
        address.port = (uint16_t)(master->port + i);
        if (address.port == 0 || ((discovery->called | discovery->others) & 1u << i) != 0) continue;
        discovery->called |= 1u << i;
        atomic_store_explicit(&discovery->calls[i].status, TUTTI_OK, memory_order_relaxed);
        TRY(port_connect(&discovery->calls[i], 0, 0, &address, discovery->options->deadline_ns));
    }
    return TUTTI_OK;
}

/* A process that accepted this rank and closed before it had read the report is not rank 0, or not
 * yet. The other ports are tried first, for a time that grows. */
static void leave_port(struct discovery *discovery, struct connection *connection)
{
    hang_up(connection);
    if (!is_none(&discovery->run)) return;
    if (discovery->others == 0) {
        discovery->reconnect_ns =
            discovery->reconnect_ns == 0 ? RECONNECT_NS : discovery->reconnect_ns * 2;
        if (discovery->reconnect_ns > RECONNECT_NS_MAX) discovery->reconnect_ns = RECONNECT_NS_MAX;
        discovery->forget_ns = clock_now_ns() + discovery->reconnect_ns;
    }
    discovery->others |= 1u << discovery->port;
}

/* Whether rank 0 has accepted this rank. If all ports failed, one of their reasons is the error. */
static enum tutti_status look_for_rank_0(struct discovery *discovery, struct connection *connection)
{
    int peer;
    unsigned stream, failed = 0, tried = 0, reason = 0;
    port_progress(clock_now_ns());
    for (unsigned i = 0; i < master_port_count(discovery); i++) {
        struct port_client *call = &discovery->calls[i];
        if ((discovery->called & 1u << i) == 0) continue;
        if (port_take(call, &peer, &stream, &connection->socket)) {
            discovery->port = i;
            discovery->called = 0;
            for (unsigned j = 0; j < master_port_count(discovery); j++)
                port_give_up(&discovery->calls[j], 0);
            return TUTTI_OK;
        }
        const int status = atomic_load_explicit(&call->status, memory_order_acquire);
        if (tried++ == 0 || status == TUTTI_AUTH_FAILED)
            reason = i; /* it says more than no answer */
        failed += status != TUTTI_OK;
        if (status == TUTTI_INVALID_OPTIONS) /* it was rank 0, so no other port will be */
            return error_set(TUTTI_INVALID_OPTIONS, "start-up: rank 0 refuses this rank: %s",
                             call->why);
    }
    if (failed < tried || discovery->others != 0) return TUTTI_IN_PROGRESS;
    return error_set((enum tutti_status)discovery->calls[reason].status,
                     "start-up: rank 0 cannot be reached: %s", discovery->calls[reason].why);
}

/* Why connections to a rank fail now, behind a "; "; "": they do not. */
static void find_trouble(const struct discovery *discovery, int rank,
                         char text[PORT_TROUBLE_MAX + 2])
{
    char why[PORT_TROUBLE_MAX] = "";
    bool is_known = port_trouble(&discovery->client, rank, why);
    for (unsigned i = 0; rank == 0 && !is_known && i < master_port_count(discovery); i++)
        is_known = port_trouble(&discovery->calls[i], rank, why);
    snprintf(text, PORT_TROUBLE_MAX + 2, "%s%s", is_known ? "; " : "", why);
}

static enum tutti_status is_too_late(const struct discovery *discovery, int awaited,
                                     const char *what)
{
    if (clock_now_ns() <= discovery->options->deadline_ns + PATIENCE_NS) return TUTTI_OK;
    char address[NET_ADDRESS_TEXT_MAX + 256], trouble[PORT_TROUBLE_MAX + 2];
    find_trouble(discovery, awaited, trouble);
    if (discovery->options->meeting != NULL)
        net_address_print(discovery->options->meeting, address);
    else
        snprintf(address, sizeof address, "%s, port %d", discovery->facts->master_address,
                 discovery->facts->master_port);
    return error_set(TUTTI_INIT_TIMEOUT, "start-up: rank 0 (%s) %s%s", address, what, trouble);
}

/* OK: the answer is complete. IN_PROGRESS: rank 0 has only said which run this is. */
static enum tutti_status read_answer(struct discovery *discovery,
                                     const struct discovery_head *answered)
{
    if (answered->kind == DISCOVERY_FAILURE) return TUTTI_OK;
    if (answered->kind == DISCOVERY_HEARD && is_none(&discovery->run) && !is_none(&answered->run)) {
        enter_run(discovery, &answered->run);
        return TUTTI_IN_PROGRESS;
    }
    if (is_none(&discovery->run) || !is_same(&answered->run, &discovery->run))
        return error_set(TUTTI_AUTH_FAILED, "start-up: rank 0 answers for another run");
    return answered->kind == DISCOVERY_HEARD ? TUTTI_IN_PROGRESS : TUTTI_OK;
}

/* Reports to rank 0 and reads its answer. */
static enum tutti_status report(struct discovery *discovery, struct connection *connection,
                                struct discovery_head *answered)
{
    struct net_address master;
    TRY(resolve_master(discovery, &master));
    while (true) {
        enum tutti_status status = TUTTI_OK;
        if (connection->socket.fd < 0) {
            TRY(call_rank_0(discovery, &master));
            TRY(is_too_late(discovery, 0, "was not found before the deadline"));
            status = look_for_rank_0(discovery, connection);
            if (status != TUTTI_OK && status != TUTTI_IN_PROGRESS) return status;
            if (status == TUTTI_IN_PROGRESS) TRY(check_port(discovery));
        } else if (!connection->is_over) {
            const struct discovery_head mine = make_message(discovery, DISCOVERY_ENTRY);
            status = transmit(discovery, connection, &mine, &discovery->options->self);
            connection->is_over = status == TUTTI_OK; /* the answer is next */
        } else {
            status = receive(discovery, connection, answered, discovery->entries,
                             (uint32_t)discovery->facts->size);
            if (status == TUTTI_OK) {
                status = read_answer(discovery, answered);
                if (status != TUTTI_IN_PROGRESS) return status;
            }
            TRY(is_too_late(discovery, 0, "has not said which ranks are there"));
        }
        if (status == TUTTI_OK) continue;
        TRY(look(discovery));
        if (status != TUTTI_IN_PROGRESS) { /* the other side did not expect this rank yet: once more */
            leave_port(discovery, connection);
            nanosleep(&(struct timespec){0, RECONNECT_NS}, NULL);
        }
        nap();
    }
}

/* Looks whether a process still has the port of a rank that has reported. */
struct probe {
    int fd; /* -1: no look is under way */
    unsigned refusals;
    uint64_t next_ns;
};

/* Whether the rank's host refuses connections to the port again and again: the rank is gone. Call
 * it again and again. */
static bool is_gone(struct probe *probe, const struct net_address *port)
{
    const uint64_t now = clock_now_ns();
    enum tutti_status status = TUTTI_OK;
    if (probe->fd < 0) {
        if (now < probe->next_ns) return false;
        probe->next_ns = now + PROBE_NS;
        status = tcp_connect_start(port, NULL, &probe->fd);
    }
    if (status == TUTTI_OK) status = tcp_connect_test(probe->fd, port);
    if (status == TUTTI_IN_PROGRESS) return false;
    probe->refusals = status == TUTTI_PROC_FAILED && errno == ECONNREFUSED ? probe->refusals + 1 : 0;
    if (probe->fd >= 0) close(probe->fd);
    probe->fd = -1;
    return probe->refusals >= REFUSALS;
}

/* Fetches the table from the rank that rank 0 has named. */
static enum tutti_status fetch_looking(struct discovery *discovery, struct connection *connection,
                                       const struct net_address *address,
                                       struct discovery_head *answered, struct probe *probe)
{
    const int parent = parent_of(discovery->facts->rank);
    char where[NET_ADDRESS_TEXT_MAX];
    bool is_connecting = false;
    net_address_print(address, where);
    while (true) {
        enum tutti_status status = TUTTI_IN_PROGRESS;
        if (connection->socket.fd < 0) {
            int peer;
            unsigned stream;
            if (!is_connecting)
                TRY(port_connect(&discovery->client, parent, 0, address,
                                 discovery->options->deadline_ns));
            is_connecting = true;
            port_progress(clock_now_ns());
            const int failed = atomic_load_explicit(&discovery->client.status, memory_order_acquire);
            if (failed != TUTTI_OK)
                return error_set((enum tutti_status)failed, "start-up: rank %d: %s", parent,
                                 discovery->client.why);
            TRY(check_port(discovery));
            if (is_gone(probe, address))
                return error_set(TUTTI_PROC_FAILED,
                                 "start-up: rank %d (%s) died or gave up during start-up", parent,
                                 where);
            if (port_take(&discovery->client, &peer, &stream, &connection->socket) &&
                peer != parent) {
                seat(discovery, peer, connection->socket); /* a child has connected already */
                connection->socket = byte_stream_none();
            }
        } else {
            status = receive(discovery, connection, answered, discovery->entries,
                             (uint32_t)discovery->facts->size);
            if (status == TUTTI_OK) break;
            if (status != TUTTI_IN_PROGRESS) {
                hang_up(connection);
                is_connecting = false;
                nanosleep(&(struct timespec){0, RECONNECT_NS}, NULL);
            }
        }
        TRY(look(discovery));
        TRY(is_too_late(discovery, parent, "said which ranks are there, but the list did not come"));
        nap();
    }
    return TUTTI_OK;
}

static enum tutti_status fetch(struct discovery *discovery, struct connection *connection,
                               const struct net_address *address, struct discovery_head *answered)
{
    struct probe probe = {.fd = -1};
    const enum tutti_status status = fetch_looking(discovery, connection, address, answered, &probe);
    if (probe.fd >= 0) close(probe.fd);
    return status;
}

/* Whether the table has this rank's own entry: another process may have come as the same rank. */
static bool has_own(const struct discovery *discovery)
{
    const struct discovery_entry *own = &discovery->entries[discovery->facts->rank];
    return own->host == discovery->options->self.host && own->pid == discovery->options->self.pid &&
           net_address_equal(&own->address, &discovery->options->self.address);
}

/* Whether the table came, and is the right one. */
static enum tutti_status judge(const struct discovery *discovery,
                               const struct discovery_head *answered)
{
    if (answered->kind == DISCOVERY_FAILURE)
        return error_set((enum tutti_status)answered->status, "%s", answered->text);
    if (answered->kind != DISCOVERY_TABLE || !is_same(&answered->run, &discovery->run) ||
        !has_own(discovery))
        return error_set(TUTTI_AUTH_FAILED, "start-up: an answer that makes no sense");
    return TUTTI_OK;
}

static enum tutti_status follow(struct discovery *discovery)
{
    struct discovery_head answered;
    struct connection connection = {.socket = byte_stream_none()};
    enum tutti_status status = report(discovery, &connection, &answered);
    hang_up(&connection);
    TRY(status);
    if (answered.kind == DISCOVERY_CONNECT) {
        const struct net_address parent = answered.address;
        status = fetch(discovery, &connection, &parent, &answered);
        hang_up(&connection);
    }
    if (status == TUTTI_OK) status = judge(discovery, &answered);
    return answer(discovery, false, status, discovery->options->deadline_ns + PATIENCE_NS);
}

/* ------------------------------------------------------------------------------------ the whole */

static enum tutti_status begin(struct discovery *discovery)
{
    const struct launcher_facts *facts = discovery->facts;
    static const char what[] = "roll call"; /* part of the wire format: identities follow from it */
    rendezvous_key_derive(&facts->key, what, sizeof what, &discovery->report_identity);
    discovery->client.rank = facts->rank;
    discovery->client.size = facts->size;
    discovery->client.is_encrypted = discovery->options->is_encrypted;
    discovery->connections = calloc((size_t)facts->size, sizeof *discovery->connections);
    if (discovery->connections == NULL)
        return error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
    for (int r = 0; r < facts->size; r++) discovery->connections[r].socket = byte_stream_none();
    if (facts->rank == 0) {
        TRY(rendezvous_key_create(&discovery->run));
        discovery->client.identity =
            discovery->report_identity; /* the ranks below it know this one already */
        port_enter(&discovery->client);
    }
    for (unsigned i = 0; i < PORT_MASTER_COUNT; i++) {
        discovery->calls[i].identity = discovery->report_identity;
        discovery->calls[i].is_encrypted = discovery->options->is_encrypted;
        discovery->calls[i].rank = facts->rank; /* their size is 0: nobody connects to these */
        port_enter(&discovery->calls[i]);
    }
    discovery->is_entered = true;
    return TUTTI_OK;
}

static void end(struct discovery *discovery)
{
    for (unsigned i = 0; discovery->is_entered && i < PORT_MASTER_COUNT; i++)
        port_leave(&discovery->calls[i]);
    if (!is_none(&discovery->run)) port_leave(&discovery->client);
    for (int r = 0; discovery->connections != NULL && r < discovery->facts->size; r++)
        hang_up(&discovery->connections[r]);
    free(discovery->connections);
    free(discovery->reports);
    free(discovery->is_known);
}

static enum tutti_status over_connections(struct discovery *discovery, struct rendezvous_key *run)
{
    enum tutti_status status = begin(discovery);
    if (status == TUTTI_OK)
        status = discovery->facts->rank == 0 ? lead(discovery) : follow(discovery);
    *run = discovery->run;
    end(discovery);
    return status;
}

static enum tutti_status over_exchange(struct exchange *exchange,
                                       const struct discovery_options *options,
                                       struct discovery_entry *entries, struct rendezvous_key *run)
{
    static const char key[] = "roll", run_key[] = "run"; /* part of the wire format */
    const uint64_t deadline_ns = options->deadline_ns;
    size_t run_bytes;
    TRY(exchange_put(exchange, key, &options->self, sizeof options->self, deadline_ns));
    if (options->facts->rank == 0) {
        TRY(rendezvous_key_create(run));
        TRY(exchange_put(exchange, run_key, run, sizeof *run, deadline_ns));
    }
    TRY(exchange_fence(exchange, deadline_ns));
    TRY(exchange_get(exchange, 0, run_key, run, sizeof *run, &run_bytes, deadline_ns));
    if (run_bytes != sizeof *run || is_none(run))
        return error_set(TUTTI_AUTH_FAILED, "start-up: rank 0 does not say which run this is");
    for (int r = 0; r < options->facts->size; r++) {
        size_t bytes;
        TRY(exchange_get(exchange, r, key, &entries[r], sizeof entries[r], &bytes, deadline_ns));
        if (bytes != sizeof entries[r] || discovery_entry_check(&entries[r]) != TUTTI_OK)
            return error_set(TUTTI_AUTH_FAILED,
                             "start-up: what rank %d says of itself makes no sense", r);
    }
    return exchange_fence(exchange, deadline_ns);
}

/* Over an exchange, if there is one, or else over connections. */
static enum tutti_status call(const struct discovery_options *options,
                              struct discovery_entry *entries, struct rendezvous_key *run,
                              unsigned *message_count)
{
    const struct launcher_facts *facts = options->facts;
    struct exchange *exchange = NULL;
    if (options->exchange_means != 0 && options->meeting == NULL) {
        enum tutti_status status =
            exchange_open(facts, options->exchange_means, options->deadline_ns, &exchange);
        if (status == TUTTI_OK) {
            status = over_exchange(exchange, options, entries, run);
            exchange_close(exchange);
            return status;
        }
        if (status != TUTTI_UNSUPPORTED || facts->master_address[0] == '\0') return status;
    }
    if (facts->master_address[0] == '\0' && options->meeting == NULL)
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "start-up: the ranks are on several hosts, and nothing says where they can meet: "
            "MASTER_ADDR and MASTER_PORT, or TUTTI_RENDEZVOUS_DIR");
    struct discovery discovery = {.options = options,
                                  .facts = facts,
                                  .entries = entries,
                                  .message_count = message_count,
                                  .begin_ns = clock_now_ns()};
    return over_connections(&discovery, run);
}

enum tutti_status discovery_run(const struct discovery_options *options,
                                struct discovery_entry *entries, struct rendezvous_key *meeting,
                                unsigned *message_count)
{
    struct rendezvous_key run;
    *message_count = 0;
    entries[options->facts->rank] = options->self;
    TRY(call(options, entries, &run, message_count));
    rendezvous_key_derive(&options->facts->key, &run, sizeof run, meeting);
    return TUTTI_OK;
}
