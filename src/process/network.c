#include "process/network.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "bootstrap/door.h"
#include "bootstrap/interface.h"
#include "os/clock.h"
#include "os/process.h"

enum { PURPOSE_LINKS = 1, PURPOSE_KNOCK, PAYLOAD_BYTES = sizeof(struct rendezvous_key) + 9 };
static const uint64_t KNOCK_NS = 2000000000;

struct network_socket {
    struct network_socket *next;
    int peer, fd; /* a knock has none */
    unsigned stream;
};

struct network_visit {
    struct network_visit *next;
    struct visit *visit;
    int peer;
    unsigned stream;
    bool is_knock;
};

/* A meeting that is to come to this door, and keeps it open. */
struct announced {
    struct announced *next;
    struct rendezvous_key name;
    uint32_t generation; /* of the process whose it is */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all below, and every client */
static struct door *door;
static struct net_address door_place; /* where others find it */
static bool door_is_everywhere;       /* not only on loopback */
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

/* Where ranks of other hosts find this process. towards: whom it has to reach; NULL: rank 0 of the place. */
static enum tutti_status choose_address(const struct launcher_place *place,
                                        const struct net_address *towards,
                                        struct net_address *chosen)
{
    struct net_address target = {0};
    struct interface_choice choice;
    size_t count;
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
    if (chosen->family != AF_UNSPEC && net_address_is_loopback(chosen))
        return TUTTI_OK; /* then all are here, whatever hosts they take themselves for */
    TRY(interface_find(&target, true, &choice));
    log_write(LOG_INFO, "others reach this process by %s", choice.why);
    *chosen = choice.interface.address;
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

/* With the lock held. */
static enum tutti_status open_door(const struct launcher_place *place,
                                   const struct net_address *towards)
{
    struct door_options options = {.guest_max = 0};
    struct secret_key key;
    uint16_t first;
    TRY(secret_read(place != NULL ? place->run_id : "tutti", &key));
    TRY(door_ports_read(&first, &options.port_last));
    hello_self_init(&options.self, &key, HELLO_ANY_RANK);
    if (place == NULL) {
        net_address_parse("127.0.0.1", &door_place);
        options.address = door_place;
        options.address.port = first;
        TRY(door_open(&options, &door));
    } else {
        TRY(choose_address(place, towards, &door_place));
        if (!key.is_secret && place->rank == 0)
            log_write(LOG_WARN, "neither TUTTI_SECRET nor TUTTI_SECRET_FILE is set: who can reach "
                                "this job's ports and knows its name can join it");
        if (place->rank == 0 && place->master_port > 0) {
            first = (uint16_t)place->master_port;
            options.port_last = (uint16_t)(first + NETWORK_MASTER_PORTS - 1);
        }
        TRY(open_everywhere(&options, first));
    }
    door_is_everywhere = place != NULL;
    struct net_address bound;
    door_address(door, &bound);
    door_place.port = bound.port;
    return TUTTI_OK;
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
        *address = door_place;
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

void network_close_door(void)
{
    pthread_mutex_lock(&lock);
    if (door_users > 0 && --door_users == 0) {
        door_close(door);
        door = NULL;
    }
    pthread_mutex_unlock(&lock);
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
        if (socket->fd >= 0) close(socket->fd);
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

static enum tutti_status begin_visit(struct network_client *client, int peer, unsigned stream,
                                     const struct net_address *address, uint64_t deadline_ns)
{
    const bool is_knock = peer > client->rank;
    struct door_call call = {
        .hello = {.peer_rank = HELLO_ANY_RANK, .purpose = is_knock ? PURPOSE_KNOCK : PURPOSE_LINKS},
        .address = *address,
        .deadline_ns = deadline_ns};
    write_payload(client, peer, stream, &call.hello);
    struct network_visit *visit = calloc(1, sizeof *visit);
    if (visit == NULL) return error_set(TUTTI_NO_MEMORY, "connecting: out of memory");
    visit->peer = peer;
    visit->stream = stream;
    visit->is_knock = is_knock;
    pthread_mutex_lock(&lock);
    const enum tutti_status status = door_connect(door, &call, &visit->visit);
    if (status == TUTTI_OK) {
        visit->next = client->visits;
        client->visits = visit;
    }
    pthread_mutex_unlock(&lock);
    if (status != TUTTI_OK) free(visit);
    return status;
}

enum tutti_status network_visit(struct network_client *client, int peer, unsigned stream,
                                const struct net_address *address, uint64_t deadline_ns)
{
    if (peer > client->rank) return TUTTI_OK;
    return begin_visit(client, peer, stream, address, deadline_ns);
}

enum tutti_status network_knock(struct network_client *client, int peer, unsigned stream,
                                const struct net_address *address)
{
    if (peer < client->rank) return TUTTI_OK;
    return begin_visit(client, peer, stream, address, clock_now_ns() + KNOCK_NS);
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

/* With the lock held. */
static void deliver(struct network_client *client, int peer, unsigned stream, int fd)
{
    struct network_socket *socket = malloc(sizeof *socket);
    if (socket == NULL) { /* its visitor comes again */
        if (fd >= 0) close(fd);
        return;
    }
    *socket = (struct network_socket){NULL, peer, fd, stream};
    struct network_socket **last = &client->arrived;
    while (*last != NULL) last = &(*last)->next; /* a few, in the order in which they came */
    *last = socket;
    atomic_fetch_add_explicit(&client->arrived_count, 1, memory_order_relaxed);
}

static void receive_guest(const struct door_arrival *arrival)
{
    int32_t ranks[2] = {-1, -1};
    const size_t identity_bytes = sizeof(struct rendezvous_key);
    if (arrival->status != TUTTI_OK) {
        log_write(LOG_WARN, "%s", arrival->text);
        return;
    }
    const bool knocks = arrival->purpose == PURPOSE_KNOCK;
    if ((knocks || arrival->purpose == PURPOSE_LINKS) && arrival->payload_bytes == PAYLOAD_BYTES) {
        memcpy(ranks, arrival->payload + identity_bytes, sizeof ranks);
        for (struct network_client *c = clients; c != NULL; c = c->next) {
            if (memcmp(&c->identity, arrival->payload, identity_bytes) != 0 ||
                c->rank != ranks[1] || ranks[0] < 0 || ranks[0] >= c->size ||
                (ranks[0] < c->rank) != knocks || ranks[0] == c->rank)
                continue;
            deliver(c, ranks[0], arrival->payload[PAYLOAD_BYTES - 1], knocks ? -1 : arrival->fd);
            if (knocks) break;
            return;
        }
    }
    close(arrival->fd); /* of a communicator that is gone, or of nobody */
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
            if (status == TUTTI_OK) close(arrival.fd);
        } else if (status == TUTTI_OK) {
            deliver(client, visit->peer, visit->stream, arrival.fd);
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

bool network_take(struct network_client *client, int *peer, unsigned *stream, int *fd)
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
    *fd = socket->fd;
    free(socket);
    return true;
}
