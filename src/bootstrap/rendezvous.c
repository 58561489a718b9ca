#include "bootstrap/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_limit.h"
#include "base/rank_list.h"
#include "base/status.h"
#include "os/clock.h"
#include "os/local_name.h"
#include "os/local_socket.h"
#include "os/process.h"

enum {
    MAGIC = 0x74757469,
    STRANGERS_MAX = 64, /* connections of this user beyond those of the meeting */
    ACCEPTS_A_LOOK = 256,
    MEMBERS_A_MESSAGE = 256,
    MESSAGE_BYTES = 400
};
static const uint64_t HELLO_NS =
    2000000000; /* a connection that says nothing gives its place back */
static const uint64_t LOOK_NS =
    50000000; /* between two questions whether the missing can still come */
static const uint64_t ANSWER_NS =
    2000000000; /* rank 0 gets to say who is missing, and others to pass it on */
static const uint64_t RETRY_NS_MIN = 200000, RETRY_NS_MAX = 20000000; /* for who is not there yet */
static const uint64_t SEND_NS = 10000000000;
/* For sockets that have another name than they should, because another user has that: at once when
 * it is seen, else after a while, and then after twice as long. Looking through all sockets of a
 * host takes time that others may need. */
static const uint64_t SEARCH_NS = 50000000, BLIND_SEARCH_NS = 2000000000;

enum packet_kind {
    PACKET_HELLO,   /* to the parent, first of all */
    PACKET_REPORT,  /* to the parent: my subtree is complete; its members follow */
    PACKET_PRESENT, /* to rank 0, late: these are there, but we wait; members follow */
    PACKET_FAILED,  /* to the parent or rank 0: this cannot become anything */
    PACKET_ANSWER /* from the parent or rank 0; when all is well the segment and all members follow */
};
struct packet {
    uint32_t magic, kind, version_major, version_minor;
    int32_t rank, size, pid;
    uint32_t status, member_count;
    struct rendezvous_key key; /* of the meeting; in an answer the identity */
    char message[MESSAGE_BYTES];
};
struct members_message {
    struct rendezvous_member members[MEMBERS_A_MESSAGE];
};

/* A connection that another process has made to this rank. */
struct incoming {
    int fd;                     /* -1: place is free */
    int rank;                   /* -1: no hello yet */
    bool reports;               /* is a child; else only says that it is there */
    uint32_t left;              /* members that are to follow */
    uint64_t hello_until_ns;    /* for all that it has to say at once */
    const struct pollfd *entry; /* NULL: it is not watched */
};

struct meeting {
    const struct rendezvous_options *options;
    struct rendezvous_result *result;
    int rank, size, end; /* the subtree is the ranks from this one up to `end` */
    int listener;        /* -1: no children */
    struct incoming *incoming;
    struct pollfd *entries; /* of the open sockets: incoming, then listener, parent, rank 0 */
    int place_count;
    bool *is_known;   /* the member's record is here */
    bool *is_present; /* rank 0: somebody says that it is there */
    int known_count;
    int parent, rank_0; /* sockets; -1 */
    bool has_reported;
    uint64_t late_ns; /* from then on rank 0 is told who is here */
    uint64_t retry_at_ns, retry_ns;
    uint64_t search_at_ns,
        search_ns;   /* for names that others have taken: when next, and the pause after that */
    bool is_taken;   /* there are such */
    bool was_let_go; /* by the parent, once: if nobody listens there now, it is gone */
    unsigned dropped;
    struct log_limit misfits; /* the lines about processes that were refused */
    bool heard;               /* the failure came from above */
    bool is_foreign; /* or at least from another rank, which has said whose failure it is */
};

static void socket_name(const struct rendezvous_key *key, int rank, char name[64])
{
    int used = snprintf(name, 64, "tutti-");
    for (int i = 0; i < 16; i++)
        used += snprintf(name + used, 64 - (size_t)used, "%02x", key->bytes[i]);
    snprintf(name + used, 64 - (size_t)used, "-%d", rank);
}

static int parent_of(int rank)
{
    return rank & (rank - 1);
}

/* The number by which users know a rank: in messages of a meeting ranks are numbered from 0 on each
 * host. */
static int name_of(const struct meeting *m, int rank)
{
    const bool is_known = m->options->names != NULL && rank >= 0 && rank < m->size;
    return is_known ? m->options->names[rank] : rank;
}

/* The rank after the last of a rank's subtree. */
static int subtree_end(int rank, int size)
{
    const int64_t end = rank == 0 ? size : (int64_t)rank + (rank & -rank);
    return end < size ? (int)end : size;
}

void rendezvous_result_release(struct rendezvous_result *result)
{
    if (result->segment_fd >= 0) close(result->segment_fd);
    free(result->members);
    *result = (struct rendezvous_result){.segment_fd = -1};
}

/* ------------------------------------------------------------------------------------- messages */

static enum tutti_status send_packet(struct meeting *m, int fd, struct packet *packet,
                                     const char *message, const int *descriptor)
{
    packet->magic = MAGIC;
    packet->version_major = TUTTI_VERSION_MAJOR;
    packet->version_minor = TUTTI_VERSION_MINOR;
    packet->rank = m->rank;
    packet->size = m->size;
    packet->pid = getpid();
    snprintf(packet->message, sizeof packet->message, "%s", message);
    m->result->message_count++;
    return local_socket_send(fd, packet, sizeof *packet, descriptor, descriptor != NULL,
                             clock_now_ns() + SEND_NS);
}

/* Sends the members that are known. */
static enum tutti_status send_members(struct meeting *m, int fd)
{
    for (int rank = 0; rank < m->size;) {
        struct members_message message = {0};
        int count = 0;
        for (; rank < m->size && count < MEMBERS_A_MESSAGE; rank++)
            if (m->is_known[rank]) message.members[count++] = m->result->members[rank];
        if (count == 0) break;
        m->result->message_count++;
        TRY(local_socket_send(fd, &message, sizeof message, NULL, 0, clock_now_ns() + SEND_NS));
    }
    return TUTTI_OK;
}

static enum tutti_status receive(struct meeting *m, int fd, void *data, size_t bytes,
                                 int *descriptor, uint64_t deadline_ns)
{
    int count = 0, ignored = -1;
    const enum tutti_status status =
        local_socket_receive(fd, data, bytes, descriptor != NULL ? descriptor : &ignored,
                             descriptor != NULL, &count, deadline_ns);
    if (status == TUTTI_OK) m->result->message_count++;
    if (descriptor != NULL && count == 0) *descriptor = -1;
    return status;
}

/* ------------------------------------------------------------------------------------- incoming */

static void refuse(struct meeting *m, struct incoming *incoming, enum tutti_status status,
                   const char *message)
{
    struct packet packet = {.kind = PACKET_ANSWER, .status = status};
    if (status == TUTTI_OK)
        m->dropped++;
    else if (send_packet(m, incoming->fd, &packet, message, NULL) != TUTTI_OK)
        log_write(LOG_INFO, "start-up: a rank left before it was answered");
    close(incoming->fd);
    incoming->fd = -1;
}

/* Whether the packet comes from a rank of this meeting and belongs here. A stranger is dropped; a
 * rank with a mistake is told. */
static bool is_welcome(struct meeting *m, struct incoming *incoming, const struct packet *packet)
{
    pid_t pid;
    uid_t uid;
    if (packet->magic != MAGIC || packet->kind >= PACKET_ANSWER ||
        memcmp(&packet->key, &m->options->key, sizeof packet->key) != 0 ||
        local_socket_peer(incoming->fd, &pid, &uid) != TUTTI_OK || uid != geteuid()) {
        refuse(m, incoming, TUTTI_OK, NULL);
        return false;
    }
    char message[200] = "";
    enum tutti_status verdict = TUTTI_INVALID_RANK;
    if (packet->version_major != TUTTI_VERSION_MAJOR) {
        verdict = TUTTI_VERSION;
        snprintf(message, sizeof message, "rank %d runs version %d.%d, rank %d runs %u.%u",
                 name_of(m, m->rank), TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                 name_of(m, packet->rank), packet->version_major, packet->version_minor);
    } else if (packet->size != m->size || packet->rank < 1 || packet->rank >= m->size) {
        snprintf(message, sizeof message,
                 "rank %d makes a communicator of %d ranks, pid %d came as rank %d of %d", m->rank,
                 m->size, (int)pid, packet->rank, packet->size);
    } else if (packet->kind == PACKET_HELLO && parent_of(packet->rank) != m->rank) {
        refuse(m, incoming, TUTTI_OK, NULL);
        return false;
    } else if (packet->kind == PACKET_HELLO) {
        for (int i = 0; i < m->place_count && message[0] == '\0'; i++)
            if (m->incoming[i].fd >= 0 && m->incoming[i].reports &&
                m->incoming[i].rank == packet->rank)
                snprintf(message, sizeof message, "rank %d came twice, the second time as pid %d",
                         name_of(m, packet->rank), (int)pid);
    }
    if (message[0] == '\0') return true;
    char more[LOG_LIMIT_TEXT_SIZE];
    if (log_limit_allows(&m->misfits, clock_now_ns(), more))
        log_write(LOG_WARN, "start-up: %s%s", message, more);
    refuse(m, incoming, verdict, message);
    return false;
}

static enum tutti_status foreign_failure(struct meeting *m, const struct packet *packet)
{
    m->is_foreign = true;
    const bool makes_sense = packet->status > TUTTI_IN_PROGRESS && packet->status < STATUS_COUNT;
    return error_set(makes_sense ? (enum tutti_status)packet->status : TUTTI_INTERNAL, "%.*s",
                     MESSAGE_BYTES - 1, packet->message);
}

/* Reads the records of a subtree's members; false when they make no sense. */
static bool take_members(struct meeting *m, struct incoming *incoming)
{
    struct members_message message;
    const enum tutti_status status = receive(m, incoming->fd, &message, sizeof message, NULL, 0);
    if (status == TUTTI_IN_PROGRESS) return true;
    if (status != TUTTI_OK) return false;
    const uint32_t count = incoming->left < MEMBERS_A_MESSAGE ? incoming->left : MEMBERS_A_MESSAGE;
    const int end = subtree_end(incoming->rank, m->size);
    for (uint32_t i = 0; i < count; i++) {
        const struct rendezvous_member *member = &message.members[i];
        if (member->rank < incoming->rank || member->rank >= end) return false;
        if (!incoming->reports) {
            m->is_present[member->rank] = true;
            continue;
        }
        if (m->is_known[member->rank]) return false;
        m->result->members[member->rank] = *member;
        m->is_known[member->rank] = true;
        m->known_count++;
    }
    incoming->left -= count;
    return true;
}

/* Reads what an incoming connection has to say. A stranger's mistake harms that stranger alone; a
 * child that goes away ends the meeting. */
static enum tutti_status listen_to(struct meeting *m, struct incoming *incoming)
{
    if (incoming->left > 0) {
        if (!take_members(m, incoming)) refuse(m, incoming, TUTTI_OK, NULL);
        return TUTTI_OK;
    }
    struct packet packet;
    const enum tutti_status status = receive(m, incoming->fd, &packet, sizeof packet, NULL, 0);
    if (status == TUTTI_IN_PROGRESS) return TUTTI_OK;
    packet.message[sizeof packet.message - 1] = '\0';
    if (incoming->rank >= 0 && incoming->reports) {
        if (status != TUTTI_OK)
            return error_set(TUTTI_PROC_FAILED, "rank %d died during start-up",
                             name_of(m, incoming->rank));
        if (packet.magic == MAGIC && packet.kind == PACKET_FAILED)
            return foreign_failure(m, &packet);
        const uint32_t all = (uint32_t)(subtree_end(incoming->rank, m->size) - incoming->rank);
        if (packet.magic != MAGIC || packet.kind != PACKET_REPORT || packet.member_count != all ||
            m->is_known[incoming->rank])
            return error_set(TUTTI_AUTH_FAILED, "start-up: rank %d sent what makes no sense",
                             name_of(m, incoming->rank));
        incoming->left = all;
        return TUTTI_OK;
    }
    if (status != TUTTI_OK || incoming->rank >= 0) {
        const bool has_spoken = incoming->rank >= 0;
        if (has_spoken && status == TUTTI_OK && packet.magic == MAGIC && packet.kind == PACKET_FAILED)
            return foreign_failure(m, &packet);
        m->dropped -= has_spoken; /* it needs no answer any more */
        refuse(m, incoming, TUTTI_OK, NULL);
        return TUTTI_OK;
    }
    if (!is_welcome(m, incoming, &packet)) return TUTTI_OK;
    if (packet.kind == PACKET_FAILED) return foreign_failure(m, &packet);
    incoming->reports = packet.kind == PACKET_HELLO;
    if (packet.kind == PACKET_REPORT || (!incoming->reports && m->rank != 0) ||
        packet.member_count > (uint32_t)m->size) {
        refuse(m, incoming, TUTTI_OK, NULL);
        return TUTTI_OK;
    }
    incoming->rank = packet.rank;
    incoming->left = packet.member_count;
    if (m->rank == 0) m->is_present[packet.rank] = true;
    return TUTTI_OK;
}

static bool is_silent(const struct incoming *incoming)
{
    return incoming->fd >= 0 && incoming->rank < 0;
}

/* Finds a free place, or takes the place of the connection that has been silent for longest; NULL:
 * all have said which ranks they are. First reads bytes that a connection may have sent in the last
 * moment: only a connection without any is silent. */
static enum tutti_status make_place(struct meeting *m, struct incoming **place)
{
    for (;;) {
        struct incoming *oldest = NULL;
        *place = NULL;
        for (int i = 0; i < m->place_count; i++) {
            struct incoming *incoming = &m->incoming[i];
            if (incoming->fd < 0) {
                *place = incoming;
                return TUTTI_OK;
            }
            if (is_silent(incoming) &&
                (oldest == NULL || incoming->hello_until_ns < oldest->hello_until_ns))
                oldest = incoming;
        }
        if (oldest == NULL) return TUTTI_OK;
        TRY(listen_to(m, oldest));
        if (is_silent(oldest)) refuse(m, oldest, TUTTI_OK, NULL);
    }
}

/* Processes of other users have no place here, not even for a moment: *place is NULL. */
static enum tutti_status place_for(struct meeting *m, int fd, struct incoming **place)
{
    pid_t pid;
    uid_t uid;
    *place = NULL;
    TRY(local_socket_peer(fd, &pid, &uid));
    return uid == geteuid() ? make_place(m, place) : TUTTI_OK;
}

/* Whether the next accept may succeed, even a moment later. An error from a sandbox stays. */
static bool may_accept_later(int error)
{
    return error == EAGAIN || error == EINTR || error == ECONNABORTED;
}

static enum tutti_status let_in(struct meeting *m, uint64_t now)
{
    for (int i = 0; i < ACCEPTS_A_LOOK; i++) {
        const int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return may_accept_later(errno) ? TUTTI_OK
                                           : error_system("start-up: a rank cannot be let in");
        struct incoming *place;
        const enum tutti_status status = place_for(m, fd, &place);
        if (place == NULL) {
            m->dropped++;
            close(fd);
        }
        TRY(status);
        if (place == NULL) continue;
        *place = (struct incoming){.fd = fd, .rank = -1, .hello_until_ns = now + HELLO_NS};
        TRY(listen_to(m, place)); /* ranks greet as they come */
    }
    return TUTTI_OK;
}

static void tell_incoming(struct meeting *m, enum tutti_status status, const char *message)
{
    for (int i = 0; i < m->place_count; i++)
        if (m->incoming[i].fd >= 0 && m->incoming[i].rank >= 0)
            refuse(m, &m->incoming[i], status, message);
}

/* ------------------------------------------------------------------------------------- going up */

/* Somebody else's socket has a name of this meeting. */
static void tell_of_taken(struct meeting *m, int rank)
{
    if (m->is_taken) return;
    log_write(LOG_WARN,
              "start-up: another user has the name of the socket of rank %d: looking for it under "
              "other names",
              name_of(m, rank));
    m->is_taken = true;
    m->search_at_ns = 0;
    m->search_ns = SEARCH_NS;
}

/* Connects to a rank, if it is there; *fd is -1 if not. */
static enum tutti_status find(struct meeting *m, int rank, int *fd, struct local_name_look *look)
{
    char name[64];
    const uint64_t begin_ns = clock_now_ns();
    const bool searches = begin_ns >= m->search_at_ns || m->was_let_go;
    socket_name(&m->options->key, rank, name);
    const enum tutti_status status = local_name_reach(name, searches, fd, look);
    if (look->is_taken) tell_of_taken(m, rank);
    if (searches) {
        const uint64_t now = clock_now_ns(), took_ns = now - begin_ns;
        m->search_at_ns = now + (m->search_ns > 4 * took_ns ? m->search_ns : 4 * took_ns);
        if (!m->is_taken) m->search_ns *= 2;
    }
    return status == TUTTI_INIT_TIMEOUT ? TUTTI_OK : status;
}

/* Connects to a rank, if it is there, and says something. */
static enum tutti_status call_on(struct meeting *m, int rank, enum packet_kind kind,
                                 uint32_t member_count, int *fd)
{
    struct local_name_look look;
    TRY(find(m, rank, fd, &look));
    if (*fd < 0 && fd == &m->parent && m->was_let_go && !look.is_busy)
        return error_set(TUTTI_PROC_FAILED, "rank %d went away during start-up", name_of(m, rank));
    if (*fd < 0) return TUTTI_OK;
    struct packet packet = {.kind = kind, .member_count = member_count, .key = m->options->key};
    const bool sent = send_packet(m, *fd, &packet, "", NULL) == TUTTI_OK &&
                      (member_count == 0 || send_members(m, *fd) == TUTTI_OK);
    if (!sent) { /* the listener there does not want us: perhaps the right rank is there later */
        close(*fd);
        *fd = -1;
    }
    return TUTTI_OK;
}

/* An answer from above: *answered, with the segment, or what failed. */
static enum tutti_status hear(struct meeting *m, int *fd, bool is_parent, bool *answered)
{
    struct packet packet;
    int segment_fd = -1;
    const enum tutti_status status = receive(m, *fd, &packet, sizeof packet, &segment_fd, 0);
    if (status == TUTTI_IN_PROGRESS) return TUTTI_OK;
    if (status != TUTTI_OK && !is_parent) { /* it is through, or gone: the others will tell */
        close(*fd);
        *fd = -1;
        return TUTTI_OK;
    }
    if (status == TUTTI_NO_DESCRIPTORS) return status; /* for the segment's */
    if (status != TUTTI_OK) { /* it is gone, or had to make room before it heard who this is */
        close(*fd);
        *fd = -1;
        m->was_let_go = true;
        m->has_reported = false;
        return TUTTI_OK;
    }
    m->heard = true;
    packet.message[sizeof packet.message - 1] = '\0';
    const bool fine = packet.magic == MAGIC && packet.kind == PACKET_ANSWER;
    if (fine && packet.status == TUTTI_OK && is_parent && m->has_reported && segment_fd >= 0 &&
        packet.member_count == (uint32_t)m->size) {
        m->result->segment_fd = segment_fd;
        m->result->identity = packet.key;
        *answered = true;
        return TUTTI_OK;
    }
    if (segment_fd >= 0) close(segment_fd);
    if (fine && packet.status != TUTTI_OK) return foreign_failure(m, &packet);
    return error_set(TUTTI_AUTH_FAILED, "start-up: rank %d sent an answer that makes no sense",
                     name_of(m, is_parent ? parent_of(m->rank) : 0));
}

static enum tutti_status send_report(struct meeting *m)
{
    struct packet packet = {
        .kind = PACKET_REPORT, .member_count = (uint32_t)m->known_count, .key = m->options->key};
    m->has_reported = true;
    TRY(send_packet(m, m->parent, &packet, "", NULL));
    return send_members(m, m->parent);
}

/* A parent that refused this rank has closed, and its word lies here to be read. */
static enum tutti_status report(struct meeting *m)
{
    bool answered = false;
    if (send_report(m) == TUTTI_OK) return TUTTI_OK;
    TRY(hear(m, &m->parent, true, &answered));
    if (m->parent < 0) return TUTTI_OK; /* once more */
    return error_set(TUTTI_PROC_FAILED, "rank %d went away during start-up",
                     name_of(m, parent_of(m->rank)));
}

/* Finds the parent, reports to it, or tells rank 0, as far as it is time for that. */
static enum tutti_status reach_up(struct meeting *m, uint64_t now)
{
    if (m->rank == 0) return TUTTI_OK;
    const bool tries = now >= m->retry_at_ns;
    if (m->parent < 0 && tries) TRY(call_on(m, parent_of(m->rank), PACKET_HELLO, 0, &m->parent));
    if (m->parent >= 0 && !m->has_reported && m->known_count == m->end - m->rank) TRY(report(m));
    if (!m->has_reported && m->rank_0 < 0 && now >= m->late_ns && tries)
        TRY(call_on(m, 0, PACKET_PRESENT, (uint32_t)m->known_count, &m->rank_0));
    if (tries) {
        m->retry_ns = m->retry_ns * 3 / 2 < RETRY_NS_MAX ? m->retry_ns * 3 / 2 : RETRY_NS_MAX;
        m->retry_at_ns = now + m->retry_ns;
    }
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- waiting */

static enum tutti_status name_missing(const struct meeting *m)
{
    struct rank_list missing = RANK_LIST_EMPTY;
    for (int r = 0; r < m->size; r++)
        if (!m->is_known[r] && !m->is_present[r]) rank_list_add(&missing, name_of(m, r));
    return error_set(TUTTI_INIT_TIMEOUT,
                     "after the start-up deadline %d of %d ranks are missing: %s", missing.count,
                     m->size, missing.text);
}

static enum tutti_status check_deadline(const struct meeting *m, uint64_t now)
{
    const uint64_t deadline_ns = m->options->deadline_ns;
    if (now < deadline_ns) return TUTTI_OK;
    if (m->rank == 0) return name_missing(m);
    if (m->parent < 0 && m->rank_0 < 0)
        return error_set(TUTTI_INIT_TIMEOUT,
                         "after the start-up deadline rank %d is missing, and rank %d waits for it",
                         name_of(m, 0), name_of(m, m->rank));
    if (now < deadline_ns + ANSWER_NS) return TUTTI_OK;
    return error_set(TUTTI_INIT_TIMEOUT, "rank %d: no answer came from rank %d",
                     name_of(m, m->rank), name_of(m, m->parent >= 0 ? parent_of(m->rank) : 0));
}

static int nap_ms(const struct meeting *m, uint64_t now)
{
    uint64_t until = now + LOOK_NS;
    const bool calls =
        m->rank != 0 && (m->parent < 0 || (m->rank_0 < 0 && !m->has_reported && now >= m->late_ns));
    if (calls && m->retry_at_ns < until) until = m->retry_at_ns;
    const uint64_t deadline_ns = m->options->deadline_ns;
    if (now < deadline_ns && deadline_ns < until) until = deadline_ns;
    return until <= now ? 0 : (int)((until - now) / 1000000 + 1);
}

/* Only open sockets count: poll refuses more entries than a process may have descriptors. */
static struct pollfd *watch(struct meeting *m, int fd, nfds_t *count)
{
    if (fd < 0) return NULL;
    m->entries[*count] = (struct pollfd){fd, POLLIN, 0};
    return &m->entries[(*count)++];
}

static bool has_news(const struct pollfd *entry)
{
    return entry != NULL && entry->revents != 0;
}

/* Waits for something to happen and handles it. */
static enum tutti_status serve(struct meeting *m, bool *answered)
{
    uint64_t now = clock_now_ns();
    nfds_t count = 0;
    for (int i = 0; i < m->place_count; i++) {
        struct incoming *incoming = &m->incoming[i];
        const bool is_slow = incoming->fd >= 0 && (incoming->rank < 0 || incoming->left > 0) &&
                             now > incoming->hello_until_ns && !incoming->reports;
        if (is_slow) refuse(m, incoming, TUTTI_OK, NULL);
        incoming->entry = watch(m, incoming->fd, &count);
    }
    const struct pollfd *listener = watch(m, m->listener, &count),
                        *parent = watch(m, m->parent, &count), *rank_0 = watch(m, m->rank_0, &count);
    if (poll(m->entries, count, nap_ms(m, now)) <= 0) return TUTTI_OK;
    now = clock_now_ns();
    for (int i = 0; i < m->place_count; i++)
        if (has_news(m->incoming[i].entry)) TRY(listen_to(m, &m->incoming[i]));
    if (has_news(listener)) TRY(let_in(m, now));
    if (has_news(parent)) TRY(hear(m, &m->parent, true, answered));
    if (has_news(rank_0) && !*answered) TRY(hear(m, &m->rank_0, false, answered));
    return TUTTI_OK;
}

/* Until the whole tree is known (rank 0), or the answer has come. */
static enum tutti_status gather(struct meeting *m)
{
    bool is_over = m->rank == 0 && m->known_count == m->size; /* alone */
    uint64_t looked_ns = clock_now_ns();
    while (!is_over) {
        const uint64_t now = clock_now_ns();
        TRY(reach_up(m, now));
        TRY(check_deadline(m, now));
        TRY(serve(m, &is_over));
        if (m->rank == 0) is_over = m->known_count == m->size;
        if (is_over || m->options->look == NULL || now - looked_ns < LOOK_NS) continue;
        looked_ns = now;
        TRY(m->options->look(m->options->look_context));
    }
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------------------- going down */

static int compare_processes(const void *a, const void *b)
{
    const struct rendezvous_member *x = a, *y = b;
    if (x->process_key != y->process_key) return x->process_key < y->process_key ? -1 : 1;
    return x->rank - y->rank;
}

/* The lowest rank of each one's process. */
static enum tutti_status find_processes(struct meeting *m)
{
    struct rendezvous_member *members = m->result->members,
                             *sorted = malloc((size_t)m->size * sizeof *sorted);
    if (sorted == NULL) return error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
    memcpy(sorted, members, (size_t)m->size * sizeof *sorted);
    qsort(sorted, (size_t)m->size, sizeof *sorted, compare_processes);
    for (int i = 0, first = 0; i < m->size; i++) {
        if (sorted[i].process_key != sorted[first].process_key) first = i;
        members[sorted[i].rank].first = sorted[first].rank;
    }
    free(sorted);
    return TUTTI_OK;
}

static enum tutti_status receive_members(struct meeting *m)
{
    const uint64_t deadline_ns = clock_now_ns() + SEND_NS;
    for (int first = 0; first < m->size; first += MEMBERS_A_MESSAGE) {
        struct members_message message;
        TRY(receive(m, m->parent, &message, sizeof message, NULL, deadline_ns));
        for (int i = 0; i < MEMBERS_A_MESSAGE && first + i < m->size; i++) {
            const struct rendezvous_member *member = &message.members[i];
            if (member->rank != first + i || member->first < 0 || member->first > member->rank)
                return error_set(TUTTI_AUTH_FAILED,
                                 "start-up: rank %d sent a list of members that makes no sense",
                                 name_of(m, parent_of(m->rank)));
            m->result->members[member->rank] = *member;
            m->is_known[member->rank] = true;
        }
    }
    return TUTTI_OK;
}

/* Sends to the children what everybody needs. A child that is gone by now fails the others too, as
 * far as they wait. */
static enum tutti_status hand_out(struct meeting *m)
{
    const int segment_fd = m->rank == 0 ? m->options->segment_fd : m->result->segment_fd;
    for (int i = 0; i < m->place_count; i++) {
        struct incoming *incoming = &m->incoming[i];
        if (incoming->fd < 0 || !incoming->reports) continue;
        struct packet packet = {.kind = PACKET_ANSWER,
                                .status = TUTTI_OK,
                                .member_count = (uint32_t)m->size,
                                .key = m->result->identity};
        enum tutti_status status = send_packet(m, incoming->fd, &packet, "", &segment_fd);
        if (status == TUTTI_OK) status = send_members(m, incoming->fd);
        if (status != TUTTI_OK) {
            char why[256];
            error_copy(why, sizeof why);
            return error_set(status, "rank %d (pid %d): %s", name_of(m, incoming->rank),
                             m->result->members[incoming->rank].pid, why);
        }
        close(incoming->fd);
        incoming->fd = -1;
    }
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------ the whole */

static enum tutti_status meet(struct meeting *m)
{
    struct rendezvous_member *self = &m->result->members[m->rank];
    *self = m->options->self;
    self->rank = m->rank;
    self->pid = getpid();
    self->pid_namespace = process_pid_namespace();
    m->is_known[m->rank] = true;
    m->known_count = 1;
    if (m->end > m->rank + 1) {
        char name[64];
        socket_name(&m->options->key, m->rank, name);
        struct local_name_look look;
        const enum tutti_status status = local_name_listen(name, &m->listener, &look);
        if (status == TUTTI_IN_PROGRESS)
            return error_set(TUTTI_INVALID_RANK,
                             "two ranks %d: somebody meets as %s already (another job of the same "
                             "name, or a rank of an earlier run that still starts? TUTTI_JOB_ID "
                             "tells jobs apart)",
                             name_of(m, m->rank), name);
        TRY(status);
        if (look.is_taken) tell_of_taken(m, m->rank);
    }
    TRY(gather(m));
    if (m->rank == 0) {
        TRY(rendezvous_key_create(&m->result->identity));
        TRY(find_processes(m));
    } else {
        TRY(receive_members(m));
    }
    return hand_out(m);
}

/* Adds this rank's name to the message for the others, if it failed alone. */
static void name_failure(const struct meeting *m, enum tutti_status status,
                         char message[MESSAGE_BYTES])
{
    char why[MESSAGE_BYTES], host[64] = "";
    const bool is_own = status == TUTTI_NO_DESCRIPTORS || status == TUTTI_NO_MEMORY ||
                        status == TUTTI_NO_SPACE || status == TUTTI_SYSTEM;
    if (m->is_foreign || !is_own) return;
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "?");
    snprintf(why, sizeof why, "%s", message);
    snprintf(message, MESSAGE_BYTES, "rank %d (host %s, pid %d) could not join: %.250s",
             name_of(m, m->rank), host, (int)getpid(), why);
}

/* Everybody who can be reached hears why. */
static void tell_all(struct meeting *m, enum tutti_status status, const char *message)
{
    struct packet packet = {.kind = PACKET_FAILED, .status = status, .key = m->options->key};
    tell_incoming(m, status, message);
    if (m->rank == 0 || m->heard) return;
    if (m->parent < 0 && m->rank_0 < 0 &&
        call_on(m, 0, PACKET_PRESENT, (uint32_t)m->known_count, &m->rank_0) != TUTTI_OK)
        return;
    const int fd = m->parent >= 0 ? m->parent : m->rank_0;
    if (fd >= 0 && send_packet(m, fd, &packet, message, NULL) != TUTTI_OK)
        log_write(LOG_INFO, "start-up: nobody hears why this rank gives up");
}

static bool allocate(struct meeting *m)
{
    int children = 0;
    for (int step = 1; m->rank + step < m->end; step *= 2) children++;
    m->place_count = (m->rank == 0 ? m->size : children) + (children > 0 ? STRANGERS_MAX : 0);
    m->incoming = calloc((size_t)m->place_count + 1, sizeof *m->incoming);
    m->entries = calloc((size_t)m->place_count + 3, sizeof *m->entries);
    m->is_known = calloc((size_t)m->size, sizeof *m->is_known);
    m->is_present = calloc((size_t)m->size, sizeof *m->is_present);
    m->result->members = calloc((size_t)m->size, sizeof *m->result->members);
    for (int i = 0; m->incoming != NULL && i < m->place_count; i++)
        m->incoming[i] = (struct incoming){.fd = -1, .rank = -1};
    return m->incoming != NULL && m->entries != NULL && m->is_known != NULL &&
           m->is_present != NULL && m->result->members != NULL;
}

static void release(struct meeting *m)
{
    for (int i = 0; m->incoming != NULL && i < m->place_count; i++)
        if (m->incoming[i].fd >= 0) close(m->incoming[i].fd);
    if (m->listener >= 0) close(m->listener);
    if (m->parent >= 0) close(m->parent);
    if (m->rank_0 >= 0) close(m->rank_0);
    free(m->incoming);
    free(m->entries);
    free(m->is_known);
    free(m->is_present);
}

enum tutti_status rendezvous_meet(const struct rendezvous_options *options,
                                  struct rendezvous_result *result)
{
    const uint64_t now = clock_now_ns(),
                   whole_ns = options->deadline_ns > now ? options->deadline_ns - now : 0,
                   early_ns = whole_ns / 4 < ANSWER_NS ? whole_ns / 4 : ANSWER_NS;
    *result = (struct rendezvous_result){.segment_fd = -1};
    struct meeting m = {.options = options,
                        .result = result,
                        .rank = options->rank,
                        .size = options->size,
                        .end = subtree_end(options->rank, options->size),
                        .listener = -1,
                        .parent = -1,
                        .rank_0 = -1,
                        .late_ns = now + whole_ns - early_ns,
                        .search_at_ns =
                            now + (whole_ns / 8 < BLIND_SEARCH_NS ? whole_ns / 8 : BLIND_SEARCH_NS),
                        .search_ns = BLIND_SEARCH_NS,
                        .retry_ns = RETRY_NS_MIN};
    enum tutti_status status = TUTTI_OK;
    if (!allocate(&m))
        status = error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
    else
        status = meet(&m);
    if (status != TUTTI_OK && m.incoming != NULL) {
        char message[MESSAGE_BYTES], why[ERROR_TEXT_MAX];
        error_copy(why, sizeof why);
        snprintf(message, sizeof message, "%.*s", MESSAGE_BYTES - 1, why);
        if (options->is_foreign != NULL) {
            m.is_foreign = m.is_foreign || *options->is_foreign;
            *options->is_foreign = m.is_foreign;
        }
        name_failure(&m, status, message);
        tell_all(&m, status, message);
        error_set(status, "%s", why);
    }
    if (m.dropped > 0) log_write(LOG_WARN, "start-up: dropped %u strangers", m.dropped);
    release(&m);
    if (status != TUTTI_OK) rendezvous_result_release(result);
    return status;
}
