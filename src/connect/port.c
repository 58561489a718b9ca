#include "connect/port.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "bootstrap/interface.h"
#include "connect/listener.h"
#include "os/clock.h"
#include "os/process.h"

enum { PURPOSE_LINKS = 1, PURPOSE_KNOCK, PAYLOAD_BYTES = sizeof(struct rendezvous_key) + 9 };
static const uint64_t KNOCK_NS = 2000000000, STARVED_NS = 1000000000;
static const uint64_t FRESH_NS =
    2000000000; /* until a knock is old; the next one is under way then */

struct network_socket {
    struct network_socket *next;
    struct channel channel; /* or what came instead, see network_take */
    int peer;
    unsigned stream;
    char why[300]; /* nothing was reached, or what came did not fit */
};

struct network_visit {
    struct network_visit *next;
    struct visit *visit;
    int peer;
    unsigned stream;
    bool is_knock, is_optional;
};

/* A meeting that is to come to this door, and keeps it open. */
struct announced {
    struct announced *next;
    struct rendezvous_key name;
    uint32_t generation; /* of the process whose it is */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all below, and every client */
static struct door *door;
static_assert((int)NETWORK_RAILS_MAX == (int)INTERFACE_RAILS_MAX, "as the user may want");
static struct net_address door_rails[NETWORK_RAILS_MAX]; /* where others find it: the first best */
static unsigned door_rail_count;
static bool door_is_everywhere; /* not only on loopback */
static unsigned door_users;
static struct network_client *clients;
static struct announced *announced;

/* -------------------------------------------------------------------------------------------- forks */

static void hold(void)
{
    pthread_mutex_lock(&lock);
}

static void let_go(void)
{
    pthread_mutex_unlock(&lock);
}

/* The parent's door stays the parent's: a listening socket that a child kept would answer for a parent that is dead. */
static void forget(void)
{
    door_forget(door);
    door = NULL;
    door_users = 0;
    clients = NULL;
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    process_watch_forks();
    pthread_atfork(hold, let_go, forget);
}

/* --------------------------------------------------------------------------------------------- door */

/* One line, where several are wanted. */
static void tell_rails(const struct interface_choice *choices, size_t count, unsigned rail_max)
{
    char list[NETWORK_RAILS_MAX * (INTERFACE_NAME_MAX + NET_ADDRESS_TEXT_MAX + 4)] = "";
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

/* Where ranks of other hosts find this process. towards: whom it has to reach; NULL: rank 0 of the place. */
static enum tutti_status choose_addresses(const struct launcher_place *place,
                                          const struct net_address *towards)
{
    struct net_address target = {0}, *const chosen = &door_rails[0];
    struct interface_choice choices[NETWORK_RAILS_MAX];
    unsigned rail_max;
    size_t count;
    TRY(interface_rails_read(&rail_max));
    door_rail_count = 1;
    if (towards != NULL)
        target = *towards;
    else if (place->master_address[0] != '\0' &&
             net_address_resolve(place->master_address, (uint16_t)place->master_port, AF_UNSPEC,
                                 &target, 1, &count) != TUTTI_OK)
        target = (struct net_address){0}; /* who has to reach it will say so */
    if (towards != NULL)
        *chosen = *towards;
    else if (!net_address_parse(place->master_address, chosen))
        *chosen = (struct net_address){0};
    if (chosen->family != AF_UNSPEC && net_address_is_loopback(chosen)) {
        tell_rails(NULL, 0, rail_max);
        return TUTTI_OK; /* then all are here, whatever hosts they take themselves for */
    }
    TRY(interface_find(&target, true, rail_max, choices, &count));
    log_write(LOG_INFO, "others reach this process by %s", choices[0].why);
    tell_rails(choices, count, rail_max);
    door_rail_count = (unsigned)count;
    for (size_t i = 0; i < count; i++) door_rails[i] = choices[i].interface.address;
    return TUTTI_OK;
}

/* On all addresses of the host, of both families where there are two. */
static enum tutti_status open_everywhere(struct door_options *options, uint16_t first)
{
    net_address_parse("::", &options->address);
    options->address.port = first;
    if (door_open(options, &door) == TUTTI_OK) return TUTTI_OK;
    net_address_parse("0.0.0.0", &options->address);
    options->address.port = first;
    return door_open(options, &door);
}

/* Whose call this is; the payload says so. NULL: of a communicator that is not here (yet). */
static struct network_client *client_of(const uint8_t *payload, uint8_t bytes, bool knocks,
                                        int *peer)
{
    int32_t ranks[2];
    const size_t identity_bytes = sizeof(struct rendezvous_key);
    if (bytes != PAYLOAD_BYTES) return NULL;
    memcpy(ranks, payload + identity_bytes, sizeof ranks);
    *peer = ranks[0];
    for (struct network_client *c = clients; c != NULL; c = c->next)
        if (memcmp(&c->identity, payload, identity_bytes) == 0 && c->rank == ranks[1] &&
            ranks[0] >= 0 && ranks[0] < c->size && (ranks[0] < c->rank) == knocks &&
            ranks[0] != c->rank)
            return c;
    return NULL;
}

/* Who calls nobody is let in, to hear at once that nobody is there. */
static uint64_t configure(void *context, const struct hello_call *call, uint64_t theirs)
{
    int peer;
    (void)context;
    const struct network_client *const client =
        client_of(call->payload, call->payload_bytes, call->purpose == PURPOSE_KNOCK, &peer);
    return client == NULL ? theirs : client->is_encrypted ? HELLO_ENCRYPTS : 0;
}

/* With the options as far as they come from the environment. */
static enum tutti_status open_door_with(struct door_options *options, uint16_t first,
                                        const struct launcher_place *place,
                                        const struct net_address *towards)
{
    if (place == NULL) {
        net_address_parse("127.0.0.1", &door_rails[0]);
        door_rail_count = 1;
        options->address = door_rails[0];
        options->address.port = first;
        TRY(door_open(options, &door));
    } else {
        TRY(choose_addresses(place, towards));
        if (!options->self.key.is_secret && place->rank == 0)
            log_write(LOG_WARN, "neither TUTTI_SECRET nor TUTTI_SECRET_FILE is set: who can reach "
                                "this job's ports and knows its name can join it");
        if (place->rank == 0 && place->master_port > 0) {
            first = (uint16_t)place->master_port;
            options->port_last = (uint16_t)(first + NETWORK_MASTER_PORTS - 1);
        }
        TRY(open_everywhere(options, first));
    }
    door_is_everywhere = place != NULL;
    struct net_address bound;
    door_address(door, &bound);
    for (unsigned i = 0; i < door_rail_count; i++) door_rails[i].port = bound.port;
    return TUTTI_OK;
}

/* With the lock held. Only the door keeps the key. */
static enum tutti_status open_door(const struct launcher_place *place,
                                   const struct net_address *towards)
{
    struct door_options options = {.guest_max = 0};
    struct secret_key key;
    uint16_t first;
    enum tutti_status status = secret_read(place != NULL ? place->run_id : "tutti", &key);
    if (status == TUTTI_OK) status = door_ports_read(&first, &options.port_last);
    if (status == TUTTI_OK) {
        hello_self_init(&options.self, &key, HELLO_ANY_RANK);
        options.self.configure = configure;
        status = open_door_with(&options, first, place, towards);
    }
    mac_wipe(&key, sizeof key);
    mac_wipe(&options.self.key, sizeof options.self.key);
    return status;
}

static enum tutti_status use_door(const struct launcher_place *place,
                                  const struct net_address *towards, struct net_address *address)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    enum tutti_status status = TUTTI_OK;
    if (door_users == 0)
        status = open_door(place, towards);
    else if (place != NULL && !door_is_everywhere)
        status = error_set(TUTTI_UNSUPPORTED,
                           "this process listens on loopback for another communicator, where "
                           "other hosts cannot reach it");
    if (status == TUTTI_OK) {
        *address = door_rails[0];
        door_users++;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

enum tutti_status network_open_door(const struct launcher_place *place, struct net_address *address)
{
    return use_door(place, NULL, address);
}

/* What a launcher says, or that there is none. */
static void look_for_launcher(int rank_without, struct launcher_place *place)
{
    if (launcher_look(place) != TUTTI_OK)
        *place = (struct launcher_place){.launcher = "id", .rank = rank_without};
}

enum tutti_status network_open_door_towards(const struct net_address *meeting,
                                            struct net_address *address)
{
    struct launcher_place place;
    look_for_launcher(-1, &place);
    return use_door(&place, meeting, address);
}

enum tutti_status network_encrypt(void)
{
    pthread_mutex_lock(&lock);
    const enum tutti_status status = door_encrypt(door);
    pthread_mutex_unlock(&lock);
    return status;
}

void network_close_door(void)
{
    pthread_mutex_lock(&lock);
    if (door_users > 0 && --door_users == 0) {
        door_close(door);
        door = NULL;
    }
    pthread_mutex_unlock(&lock);
}

unsigned network_rails(struct net_address rails[NETWORK_RAILS_MAX])
{
    pthread_mutex_lock(&lock);
    const unsigned count = door_users > 0 ? door_rail_count : 0;
    memcpy(rails, door_rails, count * sizeof *rails);
    pthread_mutex_unlock(&lock);
    return count;
}

/* ----------------------------------------------------------------------------------------- announced */

enum tutti_status network_announce(const struct rendezvous_key *name, struct net_address *address)
{
    struct launcher_place place;
    struct announced *new = calloc(1, sizeof *new);
    if (new == NULL) return error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
    look_for_launcher(0, &place);
    const enum tutti_status status = use_door(&place, NULL, address);
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

/* With the lock held; NULL: none. */
static struct announced **find_announced(const struct rendezvous_key *name)
{
    for (struct announced **link = &announced; *link != NULL; link = &(*link)->next)
        if ((*link)->generation == process_generation() &&
            memcmp(&(*link)->name, name, sizeof *name) == 0)
            return link;
    return NULL;
}

bool network_is_announced(const struct rendezvous_key *name)
{
    pthread_mutex_lock(&lock);
    const bool is = find_announced(name) != NULL;
    pthread_mutex_unlock(&lock);
    return is;
}

void network_withdraw(const struct rendezvous_key *name)
{
    struct announced *gone = NULL;
    pthread_mutex_lock(&lock);
    struct announced **link = find_announced(name);
    if (link != NULL) {
        gone = *link;
        *link = gone->next;
    }
    pthread_mutex_unlock(&lock);
    if (gone != NULL) network_close_door();
    free(gone);
}

/* ------------------------------------------------------------------------------------------- clients */

void network_enter(struct network_client *client)
{
    client->generation = process_generation();
    pthread_mutex_lock(&lock);
    client->next = clients;
    clients = client;
    pthread_mutex_unlock(&lock);
}

void network_leave(struct network_client *client)
{
    if (client->generation != process_generation()) return;
    pthread_mutex_lock(&lock);
    struct network_client **link = &clients;
    while (*link != NULL && *link != client) link = &(*link)->next;
    if (*link != NULL) *link = client->next;
    while (client->visits != NULL) {
        struct network_visit *visit = client->visits;
        client->visits = visit->next;
        visit_free(visit->visit);
        free(visit);
    }
    while (client->arrived != NULL) {
        struct network_socket *socket = client->arrived;
        client->arrived = socket->next;
        channel_close(&socket->channel);
        free(socket);
    }
    pthread_mutex_unlock(&lock);
}

/* What a visitor says: the communicator, who it is, whom it wants, and the connection's number. */
static void write_payload(const struct network_client *client, int peer, unsigned stream,
                          struct hello_call *call)
{
    const int32_t ranks[2] = {client->rank, peer};
    call->payload_bytes = PAYLOAD_BYTES;
    memcpy(call->payload, &client->identity, sizeof client->identity);
    memcpy(call->payload + sizeof client->identity, ranks, sizeof ranks);
    call->payload[PAYLOAD_BYTES - 1] = (uint8_t)stream;
}

/* With the lock held. A rank that knocks again and again must not make this rank go there more than once at a time. */
static bool is_under_way(const struct network_client *client, const struct network_visit *visit)
{
    for (const struct network_visit *v = client->visits; v != NULL; v = v->next)
        if (v->peer == visit->peer && v->stream == visit->stream &&
            v->is_knock == visit->is_knock && !v->is_optional && !visit->is_optional)
            return true;
    return false;
}

/* Where to, from where and until when: *call. */
static enum tutti_status begin_visit(struct network_client *client, int peer, unsigned stream,
                                     bool is_optional, struct door_call *call)
{
    const bool is_knock = peer > client->rank;
    call->is_encrypted = client->is_encrypted;
    call->hello.peer_rank = HELLO_ANY_RANK;
    call->hello.purpose = is_knock ? PURPOSE_KNOCK : PURPOSE_LINKS;
    write_payload(client, peer, stream, &call->hello);
    struct network_visit *visit = calloc(1, sizeof *visit);
    if (visit == NULL) return error_set(TUTTI_NO_MEMORY, "connecting: out of memory");
    visit->peer = peer;
    visit->stream = stream;
    visit->is_knock = is_knock;
    visit->is_optional = is_optional;
    pthread_mutex_lock(&lock);
    const bool is_needed = !is_under_way(client, visit);
    const enum tutti_status status = is_needed ? door_connect(door, call, &visit->visit) : TUTTI_OK;
    if (is_needed && status == TUTTI_OK) {
        visit->next = client->visits;
        client->visits = visit;
    }
    pthread_mutex_unlock(&lock);
    if (!is_needed || status != TUTTI_OK) free(visit);
    return status;
}

enum tutti_status network_visit(struct network_client *client, int peer, unsigned stream,
                                const struct net_address *address, uint64_t deadline_ns)
{
    if (peer > client->rank) return TUTTI_OK;
    return begin_visit(client, peer, stream, false,
                       &(struct door_call){.address = *address, .deadline_ns = deadline_ns});
}

enum tutti_status network_visit_by(struct network_client *client, int peer, unsigned stream,
                                   const struct net_address *from,
                                   const struct net_address *address, uint64_t deadline_ns)
{
    assert(peer < client->rank);
    return begin_visit(
        client, peer, stream, true,
        &(struct door_call){.address = *address, .from = from, .deadline_ns = deadline_ns});
}

enum tutti_status network_knock(struct network_client *client, int peer, unsigned stream,
                                const struct net_address *address)
{
    if (peer < client->rank) return TUTTI_OK;
    return begin_visit(
        client, peer, stream, false,
        &(struct door_call){.address = *address, .deadline_ns = clock_now_ns() + KNOCK_NS});
}

unsigned network_foreign_answers(const struct network_client *client, int peer)
{
    unsigned most = 0;
    pthread_mutex_lock(&lock);
    for (const struct network_visit *visit = client->visits; visit != NULL; visit = visit->next) {
        const unsigned count = visit->peer == peer ? visit_foreign_answers(visit->visit) : 0;
        if (count > most) most = count;
    }
    pthread_mutex_unlock(&lock);
    return most;
}

bool network_trouble(const struct network_client *client, int peer, char text[NETWORK_TROUBLE_MAX])
{
    char why[VISIT_TEXT_MAX] = "";
    const uint64_t now = clock_now_ns();
    pthread_mutex_lock(&lock);
    for (struct network_visit *v = client->visits; v != NULL && why[0] == '\0'; v = v->next)
        if (!v->is_optional && (peer < 0 || v->peer == peer))
            (void)visit_trouble(v->visit, now, why);
    const bool was_knocked = client->knocked_ns != 0 && now < client->knocked_ns + FRESH_NS &&
                             (peer < 0 || client->knocked_peer == peer);
    snprintf(text, NETWORK_TROUBLE_MAX, "%.150s",
             why[0] == '\0' && was_knocked ? client->knocked_why : why);
    pthread_mutex_unlock(&lock);
    return text[0] != '\0';
}

void network_give_up(struct network_client *client, int peer)
{
    pthread_mutex_lock(&lock);
    for (struct network_visit **link = &client->visits; *link != NULL;) {
        struct network_visit *visit = *link;
        if (visit->peer != peer) {
            link = &visit->next;
            continue;
        }
        *link = visit->next;
        visit_free(visit->visit);
        free(visit);
    }
    pthread_mutex_unlock(&lock);
}

/* Whether one of these lies in the queue already, and stands for both: of each peer and connection there is one at most, however
 * often the peer comes while nobody takes. Of two connections the later one counts, as it would where they are attached. */
static bool is_waiting(struct network_client *client, int peer, unsigned stream,
                       struct channel channel)
{
    for (struct network_socket *socket = client->arrived; socket != NULL; socket = socket->next) {
        const bool is_channel = socket->channel.fd >= 0 && channel.fd >= 0;
        if (socket->peer != peer || socket->stream != stream ||
            (socket->channel.fd != channel.fd && !is_channel))
            continue;
        if (is_channel) channel_close(&socket->channel);
        if (is_channel) socket->channel = channel;
        return true;
    }
    return false;
}

/* With the lock held; what came instead of a channel: this thread's error message says why. */
static void deliver(struct network_client *client, int peer, unsigned stream, struct channel channel)
{
    if (is_waiting(client, peer, stream, channel)) return;
    struct network_socket *socket = malloc(sizeof *socket);
    if (socket == NULL) { /* its visitor comes again */
        channel_close(&channel);
        return;
    }
    *socket = (struct network_socket){NULL, channel, peer, stream, ""};
    if (channel.fd < NETWORK_KNOCK) error_copy(socket->why, sizeof socket->why);
    struct network_socket **last = &client->arrived;
    while (*last != NULL) last = &(*last)->next; /* in the order in which they came */
    *last = socket;
    atomic_fetch_add_explicit(&client->arrived_count, 1, memory_order_relaxed);
}

static void receive_unfit(const struct door_arrival *arrival, struct network_client *client,
                          int peer)
{
    if (client == NULL || arrival->status != TUTTI_INVALID_OPTIONS) {
        log_write(LOG_WARN, "%s", arrival->text);
        return;
    }
    (void)error_set(arrival->status, "rank %d came, and rank %d refused it: %s", peer, client->rank,
                    arrival->text);
    deliver(client, peer, 0, (struct channel){.fd = NETWORK_UNFIT});
}

static void receive_guest(const struct door_arrival *arrival)
{
    const bool knocks = arrival->purpose == PURPOSE_KNOCK;
    struct channel channel = arrival->channel;
    struct network_client *client = NULL;
    int peer = -1;
    if (knocks || arrival->purpose == PURPOSE_LINKS)
        client = client_of(arrival->payload, arrival->payload_bytes, knocks, &peer);
    if (arrival->status != TUTTI_OK) {
        receive_unfit(arrival, client, peer);
        return;
    }
    const unsigned stream = client != NULL ? arrival->payload[PAYLOAD_BYTES - 1] : 0;
    const bool fits = client != NULL && client->is_encrypted == (channel.tls != NULL) &&
                      stream < NETWORK_STREAMS_MAX;
    if (fits && !knocks) {
        deliver(client, peer, stream, channel);
        return;
    }
    if (fits) deliver(client, peer, stream, (struct channel){.fd = NETWORK_KNOCK});
    channel_close(&channel); /* of a communicator that is gone, or of nobody */
}

/* One that was let in takes back what earlier ones met with. */
static void note_knock(struct network_client *client, const struct network_visit *knock,
                       enum tutti_status status)
{
    char why[VISIT_TEXT_MAX];
    const uint64_t now = clock_now_ns();
    if (status == TUTTI_OK && client->knocked_peer == knock->peer) client->knocked_ns = 0;
    if (status == TUTTI_OK || !visit_trouble(knock->visit, now, why)) return;
    client->knocked_peer = knock->peer;
    client->knocked_ns = now;
    snprintf(client->knocked_why, sizeof client->knocked_why, "%.150s", why);
}

static void look_at_visits(struct network_client *client)
{
    struct network_visit **link = &client->visits;
    while (*link != NULL) {
        struct network_visit *visit = *link;
        struct door_arrival arrival;
        const enum tutti_status status = visit_test(visit->visit, &arrival);
        if (status == TUTTI_IN_PROGRESS) {
            link = &visit->next;
            continue;
        }
        if (visit->is_knock) {
            if (status == TUTTI_OK) channel_close(&arrival.channel);
            note_knock(client, visit, status);
        } else if (status == TUTTI_OK) {
            deliver(client, visit->peer, visit->stream, arrival.channel);
        } else if (visit->is_optional) {
            deliver(client, visit->peer, visit->stream, (struct channel){.fd = NETWORK_NOT_REACHED});
        } else if (atomic_load_explicit(&client->status, memory_order_relaxed) == TUTTI_OK) {
            error_copy(client->why, sizeof client->why);
            atomic_store_explicit(&client->status, (int)status,
                                  memory_order_release); /* pairs with whoever reads why */
        }
        *link = visit->next;
        visit_free(visit->visit);
        free(visit);
    }
}

void network_progress(uint64_t now_ns)
{
    struct door_arrival arrival;
    if (pthread_mutex_trylock(&lock) != 0) return;
    if (door != NULL) {
        door_progress(door, now_ns);
        while (door_take(door, &arrival)) receive_guest(&arrival);
        for (struct network_client *c = clients; c != NULL; c = c->next) look_at_visits(c);
    }
    pthread_mutex_unlock(&lock);
}

bool network_starves(uint64_t now_ns)
{
    if (pthread_mutex_trylock(&lock) != 0) return false;
    const bool does = door != NULL && door_starved_ns(door, now_ns) > STARVED_NS;
    pthread_mutex_unlock(&lock);
    if (does)
        error_set(TUTTI_NO_DESCRIPTORS,
                  "connecting: there has been no descriptor for who wants to come in for %.1f s",
                  (double)STARVED_NS * 1e-9);
    return does;
}

bool network_take(struct network_client *client, int *peer, unsigned *stream,
                  struct channel *channel)
{
    if (atomic_load_explicit(&client->arrived_count, memory_order_relaxed) == 0) return false;
    pthread_mutex_lock(&lock);
    struct network_socket *socket = client->arrived;
    if (socket != NULL) {
        client->arrived = socket->next;
        atomic_fetch_sub_explicit(&client->arrived_count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    if (socket == NULL) return false;
    *peer = socket->peer;
    *stream = socket->stream;
    *channel = socket->channel;
    if (channel->fd < NETWORK_KNOCK)
        (void)error_set(channel->fd == NETWORK_UNFIT ? TUTTI_INVALID_OPTIONS : TUTTI_PROC_FAILED,
                        "%s", socket->why);
    free(socket);
    return true;
}
