#include "connect/port.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_limit.h"
#include "base/option.h"
#include "base/status.h"
#include "bootstrap/interface.h"
#include "connect/listener.h"
#include "os/clock.h"
#include "os/fork.h"
#include "os/process.h"

enum { PURPOSE_LINKS = 1, PURPOSE_CALLBACK, PAYLOAD_BYTES = sizeof(struct rendezvous_key) + 9 };
static const uint64_t CALLBACK_NS = 2000000000, STARVED_NS = 1000000000;
/* For so long the failure of a callback request counts. The next request is under way by then. */
static const uint64_t FRESH_NS = 2000000000;
/* For so long the answers to it count as answers in a row. The next request has failed by then. */
static const uint64_t ROW_NS = 5000000000;

/* A connection for a client that has not taken it. */
struct port_delivery {
    struct port_delivery *next;
    struct byte_stream socket; /* or what stands instead of it, see port_take */
    int peer;
    unsigned stream;
    char why[300]; /* of PORT_NOT_REACHED and PORT_UNFIT: the error message */
};

/* A connection or a callback request that is being made. */
struct port_pending {
    struct port_pending *next;
    struct connector *connector;
    int peer;
    unsigned stream;
    bool is_callback; /* a callback request */
    bool is_optional; /* of port_connect_from: others can stand in for it */
};

/* A meeting that will take place at this port, and keeps it open. */
struct announced {
    struct announced *next;
    struct rendezvous_key name;
    uint32_t generation; /* of the process that announced it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all below, and every client */
static struct listener *listener;
static_assert((int)PORT_RAILS_MAX == (int)INTERFACE_RAILS_MAX, "as the user may want");
static struct net_address own_rails[PORT_RAILS_MAX]; /* where others find the port: the best address first */
static unsigned own_rail_count;
static bool is_everywhere;         /* not only on loopback */
static enum tcp_protocol protocol; /* of the listener, and of connections for data */
static unsigned user_count;
static struct port_client *clients;
static struct announced *announced;
static struct log_limit unfit; /* connections of other versions, say */

/* ---------------------------------------------------------------------------------------- forks */

/* The listener stays the parent's: a listening socket that a child kept would answer for a dead
 * parent. If another thread was changing the listener, nobody can tell which descriptors are its
 * own. */
static void forget(bool is_held)
{
    if (is_held && listener != NULL) listener_forget(listener);
    listener = NULL;
    user_count = 0;
    clients = NULL;
}

__attribute__((constructor)) static void watch_forks(void)
{
    static const struct fork_participant port = {.lock = &lock, .child = forget};
    fork_watch(FORK_PORT, &port);
}

/* ---------------------------------------------------------------------------------- open, close */

/* Logs the rails, if several are wanted. */
static void tell_rails(const struct interface_choice *choices, size_t count, unsigned rail_max)
{
    char list[PORT_RAILS_MAX * (INTERFACE_NAME_MAX + NET_ADDRESS_TEXT_MAX + 4)] = "";
    size_t used = 0;
    if (rail_max == 1) return;
    for (size_t i = 0; i < count && used < sizeof list; i++) {
        char address[NET_ADDRESS_TEXT_MAX];
        net_address_print_host(&choices[i].interface.address, address);
        const int more = snprintf(list + used, sizeof list - used, "%s%s %s", i > 0 ? ", " : "",
                                  choices[i].interface.name, address);
        used += more < 0 ? 0 : (size_t)more;
    }
    log_write(LOG_INFO, "rails: %s (%u wanted)", count > 0 ? list : "loopback alone", rail_max);
}

/* Chooses the addresses at which ranks of other hosts find this process. towards: the address that
 * it has to reach; NULL: rank 0's, as the place has it. */
static enum tutti_status choose_addresses(const struct launcher_facts *facts,
                                          const struct net_address *towards)
{
    struct net_address target = {0}, *const chosen = &own_rails[0];
    struct interface_choice choices[PORT_RAILS_MAX];
    unsigned rail_max;
    size_t count;
    TRY(interface_rails_read(&rail_max));
    own_rail_count = 1;
    if (towards != NULL)
        target = *towards;
    else if (facts->master_address[0] != '\0' &&
             net_address_resolve(facts->master_address, (uint16_t)facts->master_port, AF_UNSPEC,
                                 &target, 1, &count) != TUTTI_OK)
        target = (struct net_address){0}; /* a rank that has to reach it will report that */
    if (towards != NULL)
        *chosen = *towards;
    else if (!net_address_parse(facts->master_address, chosen))
        *chosen = (struct net_address){0};
    if (chosen->family != AF_UNSPEC && net_address_is_loopback(chosen)) {
        tell_rails(NULL, 0, rail_max);
        return TUTTI_OK; /* all ranks are on this host, even if they pretend to be on several */
    }
    TRY(interface_find(&target, true, rail_max, choices, &count));
    log_write(LOG_INFO, "others reach this process by %s", choices[0].why);
    tell_rails(choices, count, rail_max);
    own_rail_count = (unsigned)count;
    for (size_t i = 0; i < count; i++) own_rails[i] = choices[i].interface.address;
    return TUTTI_OK;
}

/* Listens at all addresses of the host, of both families if there are two. */
static enum tutti_status open_everywhere(struct listener_options *options, uint16_t first)
{
    net_address_parse("::", &options->address);
    options->address.port = first;
    if (listener_open(options, &listener) == TUTTI_OK) return TUTTI_OK;
    net_address_parse("0.0.0.0", &options->address);
    options->address.port = first;
    return listener_open(options, &listener);
}

/* The client that a hello's payload names. NULL: its communicator is not here, or not yet. */
static struct port_client *client_of(const uint8_t *payload, uint8_t bytes, bool is_callback,
                                     int *peer)
{
    int32_t ranks[2];
    const size_t identity_bytes = sizeof(struct rendezvous_key);
    if (bytes != PAYLOAD_BYTES) return NULL;
    memcpy(ranks, payload + identity_bytes, sizeof ranks);
    *peer = ranks[0];
    for (struct port_client *c = clients; c != NULL; c = c->next)
        if (memcmp(&c->identity, payload, identity_bytes) == 0 && c->rank == ranks[1] &&
            ranks[0] >= 0 && ranks[0] < c->size && (ranks[0] < c->rank) == is_callback &&
            ranks[0] != c->rank)
            return c;
    return NULL;
}

/* The configuration of the client that a caller wants. If there is none, the caller's own one does:
 * its hello succeeds, and it hears at once that the communicator is not here. */
static uint64_t configure(void *context, const struct hello_call *call, uint64_t theirs)
{
    int peer;
    (void)context;
    const struct port_client *const client =
        client_of(call->payload, call->payload_bytes, call->purpose == PURPOSE_CALLBACK, &peer);
    return client == NULL ? theirs : client->is_encrypted ? HELLO_ENCRYPTS : 0;
}

/* The options are filled in as far as they come from the environment. */
static enum tutti_status open_port_with(struct listener_options *options, uint16_t first,
                                        const struct launcher_facts *facts,
                                        const struct net_address *towards)
{
    if (facts == NULL) {
        net_address_parse("127.0.0.1", &own_rails[0]);
        own_rail_count = 1;
        options->address = own_rails[0];
        options->address.port = first;
        TRY(listener_open(options, &listener));
    } else {
        TRY(choose_addresses(facts, towards));
        if (!options->self.key.is_secret && facts->rank == 0)
            log_write(LOG_WARN, "neither TUTTI_SECRET nor TUTTI_SECRET_FILE is set: anybody who "
                                "can reach this job's ports and knows its name can join it");
        if (facts->rank == 0 && facts->master_port > 0) {
            first = (uint16_t)facts->master_port;
            options->port_last = (uint16_t)(first + PORT_MASTER_COUNT - 1);
        }
        TRY(open_everywhere(options, first));
    }
    is_everywhere = facts != NULL;
    struct net_address bound;
    listener_address(listener, &bound);
    for (unsigned i = 0; i < own_rail_count; i++) own_rails[i].port = bound.port;
    return TUTTI_OK;
}

static enum tutti_status read_protocol(enum tcp_protocol *wanted)
{
    int choice;
    TRY(option_choice(OPTION_SOCKET_PROTOCOL, &choice));
    *wanted = (enum tcp_protocol)choice;
    return TUTTI_OK;
}

/* Reads the job's key, the range of ports and the protocol from the environment. */
static enum tutti_status read_options(const struct launcher_facts *facts, struct secret_key *key,
                                      uint16_t *first, struct listener_options *options)
{
    TRY(secret_read(facts != NULL ? facts->run_id : "tutti", key));
    TRY(listener_ports_read(first, &options->port_last));
    TRY(read_protocol(&protocol));
    options->protocol = protocol;
    hello_self_init(&options->self, key, HELLO_ANY_RANK);
    options->self.configure = configure;
    return TUTTI_OK;
}

/* With the lock held. Only the listener keeps the key. */
static enum tutti_status open_port(const struct launcher_facts *facts,
                                   const struct net_address *towards)
{
    struct listener_options options = {.incoming_max = 0};
    struct secret_key key;
    uint16_t first;
    enum tutti_status status = read_options(facts, &key, &first, &options);
    if (status == TUTTI_OK) status = open_port_with(&options, first, facts, towards);
    mac_wipe(&key, sizeof key);
    mac_wipe(&options.self.key, sizeof options.self.key);
    return status;
}

static enum tutti_status use_port(const struct launcher_facts *facts,
                                  const struct net_address *towards, struct net_address *address)
{
    pthread_mutex_lock(&lock);
    enum tutti_status status = TUTTI_OK;
    if (user_count == 0)
        status = open_port(facts, towards);
    else if (facts != NULL && !is_everywhere)
        status = error_set(TUTTI_UNSUPPORTED,
                           "this process listens on loopback for another communicator, where "
                           "other hosts cannot reach it");
    if (status == TUTTI_OK) {
        *address = own_rails[0];
        user_count++;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

enum tutti_status port_open(const struct launcher_facts *facts, struct net_address *address)
{
    return use_port(facts, NULL, address);
}

/* The place that a launcher has given this process, or one without a launcher. */
static void look_for_launcher(int rank_without, struct launcher_facts *facts)
{
    if (launcher_look(facts) != TUTTI_OK)
        *facts = (struct launcher_facts){.launcher = "id", .rank = rank_without};
}

enum tutti_status port_open_towards(const struct net_address *meeting, struct net_address *address)
{
    struct launcher_facts facts;
    look_for_launcher(-1, &facts);
    return use_port(&facts, meeting, address);
}

enum tutti_status port_encrypt(void)
{
    pthread_mutex_lock(&lock);
    const enum tutti_status status = listener_encrypt(listener);
    pthread_mutex_unlock(&lock);
    return status;
}

void port_close(void)
{
    pthread_mutex_lock(&lock);
    if (user_count > 0 && --user_count == 0) {
        listener_close(listener);
        listener = NULL;
    }
    pthread_mutex_unlock(&lock);
}

unsigned port_rails(struct net_address rails[PORT_RAILS_MAX])
{
    pthread_mutex_lock(&lock);
    const unsigned count = user_count > 0 ? own_rail_count : 0;
    memcpy(rails, own_rails, count * sizeof *rails);
    pthread_mutex_unlock(&lock);
    return count;
}

/* ------------------------------------------------------------------------------------ announced */

enum tutti_status port_announce(const struct rendezvous_key *name, struct net_address *address)
{
    struct launcher_facts facts;
    struct announced *new = calloc(1, sizeof *new);
    if (new == NULL) return error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
    look_for_launcher(0, &facts);
    const enum tutti_status status = use_port(&facts, NULL, address);
    if (status != TUTTI_OK) {
        free(new);
        return status;
    }
    new->name = *name;
    new->generation = process_generation();
    pthread_mutex_lock(&lock);
    new->next = announced;
    announced = new;
    pthread_mutex_unlock(&lock);
    return TUTTI_OK;
}

/* With the lock held; NULL: it was not announced. */
static struct announced **find_announced(const struct rendezvous_key *name)
{
    for (struct announced **link = &announced; *link != NULL; link = &(*link)->next)
        if ((*link)->generation == process_generation() &&
            memcmp(&(*link)->name, name, sizeof *name) == 0)
            return link;
    return NULL;
}

bool port_is_announced(const struct rendezvous_key *name)
{
    pthread_mutex_lock(&lock);
    const bool is = find_announced(name) != NULL;
    pthread_mutex_unlock(&lock);
    return is;
}

void port_withdraw(const struct rendezvous_key *name)
{
    struct announced *gone = NULL;
    pthread_mutex_lock(&lock);
    struct announced **link = find_announced(name);
    if (link != NULL) {
        gone = *link;
        *link = gone->next;
    }
    pthread_mutex_unlock(&lock);
    if (gone != NULL) port_close();
    free(gone);
}

/* -------------------------------------------------------------------------------------- clients */

void port_enter(struct port_client *client)
{
    client->generation = process_generation();
    pthread_mutex_lock(&lock);
    client->next = clients;
    clients = client;
    pthread_mutex_unlock(&lock);
}

void port_leave(struct port_client *client)
{
    if (client->generation != process_generation()) return;
    pthread_mutex_lock(&lock);
    struct port_client **link = &clients;
    while (*link != NULL && *link != client) link = &(*link)->next;
    if (*link != NULL) *link = client->next;
    while (client->pending != NULL) {
        struct port_pending *pending = client->pending;
        client->pending = pending->next;
        connector_free(pending->connector);
        free(pending);
    }
    while (client->delivered != NULL) {
        struct port_delivery *delivery = client->delivered;
        client->delivered = delivery->next;
        byte_stream_close(&delivery->socket);
        free(delivery);
    }
    pthread_mutex_unlock(&lock);
}

/* The payload of a connector's hello: the communicator's identity, this rank, the peer, and the
 * connection's number. */
static void write_payload(const struct port_client *client, int peer, unsigned stream,
                          struct hello_call *call)
{
    const int32_t ranks[2] = {client->rank, peer};
    call->payload_bytes = PAYLOAD_BYTES;
    memcpy(call->payload, &client->identity, sizeof client->identity);
    memcpy(call->payload + sizeof client->identity, ranks, sizeof ranks);
    call->payload[PAYLOAD_BYTES - 1] = (uint8_t)stream;
}

/* With the lock held. A rank that sends callback requests again and again must not make this rank
 * connect more than once at a time. */
static bool is_under_way(const struct port_client *client, const struct port_pending *pending)
{
    for (const struct port_pending *c = client->pending; c != NULL; c = c->next)
        if (c->peer == pending->peer && c->stream == pending->stream &&
            c->is_callback == pending->is_callback && !c->is_optional && !pending->is_optional)
            return true;
    return false;
}

/* *options says to where, from where and until when. */
static enum tutti_status begin_connecting(struct port_client *client, int peer, unsigned stream,
                                          bool is_optional, struct connector_options *options)
{
    const bool is_callback = peer > client->rank;
    options->is_encrypted = client->is_encrypted;
    options->ends_at_shortage = is_optional;
    options->protocol = client->carries_data && !is_callback ? protocol : TCP_PROTOCOL_TCP;
    options->hello.peer_rank = HELLO_ANY_RANK;
    options->hello.purpose = is_callback ? PURPOSE_CALLBACK : PURPOSE_LINKS;
    write_payload(client, peer, stream, &options->hello);
    struct port_pending *pending = calloc(1, sizeof *pending);
    if (pending == NULL) return error_set(TUTTI_NO_MEMORY, "connecting: out of memory");
    pending->peer = peer;
    pending->stream = stream;
    pending->is_callback = is_callback;
    pending->is_optional = is_optional;
    pthread_mutex_lock(&lock);
    const bool is_needed = !is_under_way(client, pending);
    const enum tutti_status status =
        is_needed ? listener_connect(listener, options, &pending->connector) : TUTTI_OK;
    if (is_needed && status == TUTTI_OK) {
        pending->next = client->pending;
        client->pending = pending;
    }
    pthread_mutex_unlock(&lock);
    if (!is_needed || status != TUTTI_OK) free(pending);
    return status;
}

enum tutti_status port_connect(struct port_client *client, int peer, unsigned stream,
                               const struct net_address *address, uint64_t deadline_ns)
{
    if (peer > client->rank) return TUTTI_OK;
    return begin_connecting(
        client, peer, stream, false,
        &(struct connector_options){.address = *address, .deadline_ns = deadline_ns});
}

enum tutti_status port_connect_from(struct port_client *client, int peer, unsigned stream,
                                    const struct net_address *from,
                                    const struct net_address *address, uint64_t deadline_ns)
{
    assert(peer < client->rank);
    return begin_connecting(
        client, peer, stream, true,
        &(struct connector_options){.address = *address, .from = from, .deadline_ns = deadline_ns});
}

enum tutti_status port_request_callback(struct port_client *client, int peer, unsigned stream,
                                        const struct net_address *address)
{
    if (peer < client->rank) return TUTTI_OK;
    return begin_connecting(client, peer, stream, false,
                            &(struct connector_options){
                                .address = *address, .deadline_ns = clock_now_ns() + CALLBACK_NS});
}

/* With the lock held: whether the last callback request that failed was to that peer (-1: to any),
 * and was no longer ago than that. */
static bool has_failed_callback(const struct port_client *client, int peer, uint64_t since_ns)
{
    return client->callback_ns != 0 && client->callback_ns > since_ns &&
           (peer < 0 || client->callback_peer == peer);
}

unsigned port_foreign_answers(const struct port_client *client, int peer)
{
    unsigned most = 0;
    pthread_mutex_lock(&lock);
    for (const struct port_pending *pending = client->pending; pending != NULL;
         pending = pending->next) {
        const unsigned count =
            pending->peer == peer ? connector_foreign_answers(pending->connector) : 0;
        if (count > most) most = count;
    }
    if (has_failed_callback(client, peer, clock_now_ns() - ROW_NS))
        most += client->callback_foreign;
    pthread_mutex_unlock(&lock);
    return most;
}

bool port_trouble(const struct port_client *client, int peer, char text[PORT_TROUBLE_MAX])
{
    char why[CONNECTOR_TEXT_MAX] = "";
    const uint64_t now = clock_now_ns();
    pthread_mutex_lock(&lock);
    for (struct port_pending *c = client->pending; c != NULL && why[0] == '\0'; c = c->next)
        if (!c->is_optional && (peer < 0 || c->peer == peer))
            (void)connector_trouble(c->connector, now, why);
    const bool was_callback = has_failed_callback(client, peer, now - FRESH_NS);
    snprintf(text, PORT_TROUBLE_MAX, "%.150s",
             why[0] == '\0' && was_callback ? client->callback_why : why);
    pthread_mutex_unlock(&lock);
    return text[0] != '\0';
}

bool port_refusal(uint64_t since_ns, char text[PORT_TROUBLE_MAX])
{
    char why[CONNECTOR_TEXT_MAX] = "";
    pthread_mutex_lock(&lock);
    const bool is_known = listener != NULL && listener_refusal(listener, since_ns, why);
    pthread_mutex_unlock(&lock);
    snprintf(text, PORT_TROUBLE_MAX, "%.*s", PORT_TROUBLE_MAX - 1, why);
    return is_known;
}

void port_give_up(struct port_client *client, int peer)
{
    pthread_mutex_lock(&lock);
    for (struct port_pending **link = &client->pending; *link != NULL;) {
        struct port_pending *pending = *link;
        if (pending->peer != peer) {
            link = &pending->next;
            continue;
        }
        *link = pending->next;
        connector_free(pending->connector);
        free(pending);
    }
    pthread_mutex_unlock(&lock);
}

/* Whether the queue has an entry of this peer, number and kind already, which then stands for both.
 * So the queue has at most one for each, however often the peer connects while nobody takes. The
 * later of two connections counts, as it would where they are attached. */
static bool is_waiting(struct port_client *client, int peer, unsigned stream,
                       struct byte_stream socket)
{
    for (struct port_delivery *delivery = client->delivered; delivery != NULL;
         delivery = delivery->next) {
        const bool is_channel = delivery->socket.fd >= 0 && socket.fd >= 0;
        if (delivery->peer != peer || delivery->stream != stream ||
            (delivery->socket.fd != socket.fd && !is_channel))
            continue;
        if (is_channel) byte_stream_close(&delivery->socket);
        if (is_channel) delivery->socket = socket;
        return true;
    }
    return false;
}

/* Logs what became of the protocol that the user wants, once for each peer and each time that it is
 * connected again. */
static void tell_protocol(const struct port_client *client, int peer, int fd)
{
    const enum tcp_protocol got = tcp_protocol_of(fd);
    const char *const name = tcp_protocol_name(protocol);
    if (got != protocol)
        log_write(LOG_INFO,
                  "rank %d: data to rank %d goes over TCP: one of the two does not speak %s",
                  client->rank, peer, name);
    else if (protocol == TCP_PROTOCOL_MPTCP)
        log_write(LOG_INFO, "rank %d: data to rank %d goes over %s", client->rank, peer, name);
    else
        log_write(LOG_INFO,
                  "rank %d: %s was asked for data to rank %d; `smcss` shows what it became",
                  client->rank, name, peer);
}

/* With the lock held. If it is no socket but PORT_NOT_REACHED or PORT_UNFIT, this thread's error
 * message says why. */
static void deliver(struct port_client *client, int peer, unsigned stream, struct byte_stream socket)
{
    if (socket.fd >= 0 && stream == 0 && client->carries_data && protocol != TCP_PROTOCOL_TCP)
        tell_protocol(client, peer, socket.fd);
    if (is_waiting(client, peer, stream, socket)) return;
    struct port_delivery *delivery = malloc(sizeof *delivery);
    if (delivery == NULL) { /* the peer connects again */
        byte_stream_close(&socket);
        return;
    }
    *delivery = (struct port_delivery){NULL, socket, peer, stream, ""};
    if (socket.fd < PORT_CALLBACK) error_copy(delivery->why, sizeof delivery->why);
    struct port_delivery **last = &client->delivered;
    while (*last != NULL) last = &(*last)->next; /* in the order in which they came */
    *last = delivery;
    atomic_fetch_add_explicit(&client->delivered_count, 1, memory_order_relaxed);
}

static void receive_unfit(const struct accepted_connection *accepted, struct port_client *client,
                          int peer)
{
    if (client == NULL || accepted->status != TUTTI_INVALID_OPTIONS) {
        char more[LOG_LIMIT_TEXT_SIZE];
        if (log_limit_allows(&unfit, clock_now_ns(), more))
            log_write(LOG_WARN, "%s%s", accepted->text, more);
        return;
    }
    (void)error_set(accepted->status, "rank %d came, and rank %d refused it: %s", peer,
                    client->rank, accepted->text);
    deliver(client, peer, 0, (struct byte_stream){.fd = PORT_UNFIT});
}

static void receive_accepted(const struct accepted_connection *accepted)
{
    const bool is_callback = accepted->purpose == PURPOSE_CALLBACK;
    struct byte_stream socket = accepted->socket;
    struct port_client *client = NULL;
    int peer = -1;
    if (is_callback || accepted->purpose == PURPOSE_LINKS)
        client = client_of(accepted->payload, accepted->payload_bytes, is_callback, &peer);
    if (accepted->status != TUTTI_OK) {
        receive_unfit(accepted, client, peer);
        return;
    }
    const unsigned stream = client != NULL ? accepted->payload[PAYLOAD_BYTES - 1] : 0;
    const bool fits =
        client != NULL && client->is_encrypted == (socket.tls != NULL) && stream < PORT_STREAMS_MAX;
    if (fits && !is_callback) {
        deliver(client, peer, stream, socket);
        return;
    }
    if (fits) deliver(client, peer, stream, (struct byte_stream){.fd = PORT_CALLBACK});
    byte_stream_close(&socket); /* its communicator is gone, or it has none */
}

/* With this thread's error: a connection cannot be made. */
static void fail_client(struct port_client *client, enum tutti_status status)
{
    if (atomic_load_explicit(&client->status, memory_order_relaxed) != TUTTI_OK) return;
    error_copy(client->why, sizeof client->why);
    atomic_store_explicit(&client->status, (int)status,
                          memory_order_release); /* pairs with the acquire of a reader of `why` */
}

/* A request that got through takes back the failures of earlier requests. */
static void note_callback(struct port_client *client, const struct port_pending *request,
                          enum tutti_status status)
{
    char why[CONNECTOR_TEXT_MAX];
    const uint64_t now = clock_now_ns();
    if (status == TUTTI_OK && client->callback_peer == request->peer) client->callback_ns = 0;
    if (status == TUTTI_OK || !connector_trouble(request->connector, now, why)) return;
    if (!has_failed_callback(client, request->peer, now - ROW_NS)) client->callback_foreign = 0;
    client->callback_foreign += connector_foreign_answers(request->connector);
    client->callback_peer = request->peer;
    client->callback_ns = now;
    snprintf(client->callback_why, sizeof client->callback_why, "%.150s", why);
}

static void look_at_pending(struct port_client *client)
{
    struct port_pending **link = &client->pending;
    while (*link != NULL) {
        struct port_pending *pending = *link;
        struct accepted_connection accepted;
        const enum tutti_status status = connector_test(pending->connector, &accepted);
        if (status == TUTTI_IN_PROGRESS) {
            link = &pending->next;
            continue;
        }
        if (pending->is_callback) {
            if (status == TUTTI_OK) byte_stream_close(&accepted.socket);
            note_callback(client, pending, status);
        } else if (status == TUTTI_OK) {
            deliver(client, pending->peer, pending->stream, accepted.socket);
        } else if (pending->is_optional) {
            deliver(client, pending->peer, pending->stream,
                    (struct byte_stream){.fd = PORT_NOT_REACHED});
        } else {
            fail_client(client, status);
        }
        *link = pending->next;
        connector_free(pending->connector);
        free(pending);
    }
}

void port_progress(uint64_t now_ns)
{
    struct accepted_connection accepted;
    if (pthread_mutex_trylock(&lock) != 0) return;
    if (listener != NULL) {
        /* Each client asks for its own failures; the thread that happens to move the port is busy
         * with something else. */
        char before[ERROR_TEXT_MAX];
        error_copy(before, sizeof before);
        listener_progress(listener, now_ns);
        while (listener_take(listener, &accepted)) receive_accepted(&accepted);
        for (struct port_client *c = clients; c != NULL; c = c->next) look_at_pending(c);
        (void)error_unless_ok(TUTTI_OK, before);
    }
    pthread_mutex_unlock(&lock);
}

enum tutti_status port_starves(uint64_t since_ns, uint64_t now_ns)
{
    if (pthread_mutex_trylock(&lock) != 0) return TUTTI_OK;
    const enum tutti_status status =
        listener != NULL ? listener_starves(listener, since_ns, now_ns, STARVED_NS) : TUTTI_OK;
    pthread_mutex_unlock(&lock);
    return status;
}

bool port_take(struct port_client *client, int *peer, unsigned *stream, struct byte_stream *socket)
{
    if (atomic_load_explicit(&client->delivered_count, memory_order_relaxed) == 0) return false;
    pthread_mutex_lock(&lock);
    struct port_delivery *delivery = client->delivered;
    if (delivery != NULL) {
        client->delivered = delivery->next;
        atomic_fetch_sub_explicit(&client->delivered_count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    if (delivery == NULL) return false;
    *peer = delivery->peer;
    *stream = delivery->stream;
    *socket = delivery->socket;
    if (socket->fd < PORT_CALLBACK)
        (void)error_set(socket->fd == PORT_UNFIT ? TUTTI_INVALID_OPTIONS : TUTTI_PROC_FAILED, "%s",
                        delivery->why);
    free(delivery);
    return true;
}
