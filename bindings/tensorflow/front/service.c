#include "front/service.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    TICK_MS = 250, /* how often rank 0 looks for late ranks */
    TAG = 0,
    LOST_SIZE = 512
};

static const uint64_t NEVER_NS = (uint64_t)1
                                 << 60; /* 36 years: a receive that waits for work is never late */

enum message_kind { MESSAGE_REPORT = 0x54460101, MESSAGE_ANSWER, MESSAGE_LEAVE };

/* To rank 0. Ranks of one job have one byte order: their Tuttis have found that out. */
struct report_message {
    uint32_t kind;
    int32_t group, instance, group_size, root, place;
    uint64_t timeout_ns;
    uint8_t has_communicator, has_place, zero[6];
    char what[ORDER_WHAT_MAX];
};

/* From rank 0. Behind it: the members, or the text. */
struct answer_message {
    uint32_t kind;
    int32_t group, instance, status, root, member_count;
    uint32_t has_communicator;
};

struct outgoing {
    struct outgoing *next;
    struct tutti_request *request;
    char data[];
};

struct joined {
    struct joined *next;
    int32_t key;
    bool has_communicator;
    struct tutti_comm *comm; /* NULL: it could not be made */
    enum tutti_status status;
    char lost[LOST_SIZE];
};

struct queue {
    struct service_call *first, **last;
};

static struct service {
    struct tutti_comm *comm;
    int rank, size;
    int wake; /* eventfd: something was submitted, has come, or is done */
    pthread_t thread, finisher;

    /* the thread's own */
    struct order *order; /* of rank 0 */
    bool warns;          /* of late ranks: as TUTTI_LOG says */
    bool *seen;          /* one for each rank: see are_members */
    struct joined *groups;
    struct queue waiting, running; /* for the others; for the end */
    struct outgoing *sends;
    struct tutti_request *hearing;
    int left_count; /* of rank 0: other ranks that have ended their service */
    bool is_deaf;   /* nobody who could send is left */
    struct tutti_message heard;
    char *message;
    size_t message_size;
    enum tutti_status status; /* of the job's communicator, as far as this is known */
    char lost[LOST_SIZE];
} service;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_finished = PTHREAD_COND_INITIALIZER;
/* The process that runs the service: a child of fork() has neither its threads nor a lock that it
 * could trust. */
static pid_t owner;
/* Under the lock. */
static bool is_running, is_stopping, is_over;
static struct queue submitted = {NULL, &submitted.first}, finished = {NULL, &finished.first};

/* --------------------------------------------------------------------------------------- queues */

static void put(struct queue *queue, struct service_call *call)
{
    call->next = NULL;
    *queue->last = call;
    queue->last = &call->next;
}

static void empty(struct queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}

/* Takes the call out that `link` leads to. */
static struct service_call *take(struct queue *queue, struct service_call **link)
{
    struct service_call *const call = *link;
    *link = call->next;
    if (queue->last == &call->next) queue->last = link;
    return call;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void wake(int fd)
{
    const uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR) continue;
}

/* -------------------------------------------------------------------------------------- the end */

/* Hands a call to the finisher. */
static void finish(struct service_call *call, enum tutti_status status, const char *text)
{
    call->status = status;
    call->text = status == TUTTI_OK || text == NULL ? NULL : strdup(text);
    pthread_mutex_lock(&lock);
    put(&finished, call);
    pthread_cond_signal(&has_finished);
    pthread_mutex_unlock(&lock);
}

/* Executors run what follows in the thread that says that something is done, so this is no thread
 * that anybody waits for. */
static void *finish_calls(void *unused)
{
    pthread_mutex_lock(&lock);
    while (finished.first != NULL || !is_over) {
        if (finished.first == NULL) {
            pthread_cond_wait(&has_finished, &lock);
            continue;
        }
        struct service_call *const call = take(&finished, &finished.first);
        pthread_mutex_unlock(&lock);
        char *const text = call->text;
        call->done(call, call->status, text != NULL ? text : tutti_status_text(call->status));
        free(text);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

/* The part of a text of Tutti's that says what happened, without the status and the call: calls of
 * the library are this service's own, and mean nothing to a program of TensorFlow.
 *
 *     PROC_FAILED: allreduce_start(count 8, float32, sum) #2: rank 1 (host a, pid 77) died
 *     PROC_FAILED: recv(count 640, uint8, from any rank, tag 0): rank 1 (host a, pid 77) died
 *                                                                ^
 */
static const char *cause_of(const char *text)
{
    const size_t status = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    if (status > 0 && strncmp(text + status, ": ", 2) == 0) text += status + 2;
    const size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    if (name == 0 || text[name] != '(') return text;
    const char *end = text + name + 1 + strcspn(text + name + 1, "()");
    if (*end++ != ')') return text;
    if (strncmp(end, " #", 2) == 0) end += 2 + strspn(end + 2, "0123456789");
    return strncmp(end, ": ", 2) == 0 ? end + 2 : text;
}

/* Fails a call, by the name that the program knows. */
static void fail_call(struct service_call *call, enum tutti_status status, const char *cause)
{
    char text[sizeof call->report.what + LOST_SIZE + 64];
    snprintf(text, sizeof text, "%s of group %d, instance %d: %s", call->report.what,
             call->report.key.group, call->report.key.instance, cause);
    finish(call, status, text);
}

static void fail_calls(struct queue *queue, enum tutti_status status, const char *cause)
{
    while (queue->first != NULL) fail_call(take(queue, &queue->first), status, cause);
}

/* The job's communicator has failed: nothing that waits will ever run. */
static void lose(enum tutti_status status, const char *text)
{
    if (service.status == TUTTI_OK) {
        service.status = status;
        snprintf(service.lost, sizeof service.lost, "%s", cause_of(text));
    }
    fail_calls(&service.waiting, service.status, service.lost);
}

/* A message from another rank makes no sense, or one cannot be sent: the job ends, on all ranks. */
static void give_up(const char *text)
{
    (void)tutti_comm_abort(service.comm, text);
    lose(TUTTI_INTERNAL, text);
}

/* ------------------------------------------------------------------------------------- messages */

/* Sends without waiting; what has gone is freed by free_sent. */
static void send_message(int rank, const void *head, size_t head_bytes, const void *rest,
                         size_t rest_bytes)
{
    if (service.status != TUTTI_OK) return;
    struct outgoing *const sent = malloc(sizeof *sent + head_bytes + rest_bytes);
    if (sent == NULL) {
        give_up("the TensorFlow front of a rank is out of memory");
        return;
    }
    memcpy(sent->data, head, head_bytes);
    if (rest_bytes > 0) memcpy(sent->data + head_bytes, rest, rest_bytes);
    const enum tutti_status status =
        tutti_send_start(sent->data, head_bytes + rest_bytes, TUTTI_UINT8, rank, TAG, NULL,
                         service.comm, &sent->request);
    if (status != TUTTI_OK) {
        free(sent);
        lose(status, tutti_error_message());
        return;
    }
    sent->next = service.sends;
    service.sends = sent;
}

static void free_sent(bool waits)
{
    struct outgoing **link = &service.sends;
    while (*link != NULL) {
        struct outgoing *const sent = *link;
        const enum tutti_status status =
            waits ? tutti_wait(&sent->request) : tutti_test(&sent->request);
        if (status == TUTTI_IN_PROGRESS) {
            link = &sent->next;
            continue;
        }
        if (status != TUTTI_OK) lose(status, tutti_error_message());
        *link = sent->next;
        free(sent);
    }
}

static void take_answer(const struct order_answer *answer);

/* Rank 0 tells a rank. */
static void tell(void *context, int rank, const struct order_answer *answer)
{
    (void)context;
    if (rank == service.rank) {
        take_answer(answer);
        return;
    }
    const bool runs = answer->status == TUTTI_OK;
    const struct answer_message message = {.kind = MESSAGE_ANSWER,
                                           .group = answer->key.group,
                                           .instance = answer->key.instance,
                                           .status = (int32_t)answer->status,
                                           .root = answer->root,
                                           .member_count = runs ? answer->member_count : 0,
                                           .has_communicator = answer->key.has_communicator};
    send_message(rank, &message, sizeof message, runs ? (const void *)answer->members : answer->text,
                 runs ? (size_t)answer->member_count * sizeof(int) : strlen(answer->text) + 1);
}

/* As for the library's own lines: warnings, unless it is off. */
static bool wants_warnings(void)
{
    const char *const level = getenv("TUTTI_LOG");
    return level == NULL || strcmp(level, "off") != 0;
}

static void warn(void *context, const char *text)
{
    (void)context;
    if (!service.warns) return;
    char line[ORDER_TEXT_MAX + 64];
    int length = snprintf(line, sizeof line, "tutti[%d]: tensorflow: LATE: %s", (int)getpid(), text);
    if (length >= (int)sizeof line) length = (int)sizeof line - 1;
    for (int i = 0; i < length; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 127) line[i] = '?'; /* another rank's text */
    fprintf(stderr, "%s\n", line);
}

static void report(const struct service_call *call)
{
    const struct order_report *const own = &call->report;
    if (service.rank == 0) {
        order_take(service.order, 0, own, now_ns());
        return;
    }
    struct report_message message = {.kind = MESSAGE_REPORT,
                                     .group = own->key.group,
                                     .instance = own->key.instance,
                                     .group_size = own->group_size,
                                     .root = (int32_t)own->root,
                                     .place = own->place,
                                     .timeout_ns = own->timeout_ns,
                                     .has_communicator = own->key.has_communicator,
                                     .has_place = own->has_place};
    memcpy(message.what, own->what, sizeof message.what);
    send_message(0, &message, sizeof message, NULL, 0);
}

static bool hear_report(int source, const char *data, size_t bytes)
{
    struct report_message message;
    if (service.rank != 0 || bytes != sizeof message) return false;
    memcpy(&message, data, sizeof message);
    if (message.root < ORDER_NO_ROOT || message.root > ORDER_NOT_ROOT ||
        message.has_communicator > 1 || message.has_place > 1 ||
        message.what[sizeof message.what - 1] != '\0')
        return false;
    struct order_report heard = {.key = {message.group, message.instance, message.has_communicator},
                                 .group_size = message.group_size,
                                 .has_place = message.has_place,
                                 .place = message.place,
                                 .root = (enum order_root)message.root,
                                 .timeout_ns = message.timeout_ns};
    memcpy(heard.what, message.what, sizeof heard.what);
    order_take(service.order, source, &heard, now_ns());
    return true;
}

/* Distinct ranks of the job, this one among them. */
static bool are_members(const int *members, int count)
{
    memset(service.seen, 0, (size_t)service.size * sizeof *service.seen);
    for (int i = 0; i < count; i++) {
        if (members[i] < 0 || members[i] >= service.size || service.seen[members[i]]) return false;
        service.seen[members[i]] = true;
    }
    return service.seen[service.rank];
}

static bool hear_answer(int source, const char *data, size_t bytes)
{
    struct answer_message message;
    if (source != 0 || service.rank == 0 || bytes < sizeof message) return false;
    memcpy(&message, data, sizeof message);
    if (message.has_communicator > 1) return false;
    struct order_answer answer = {.key = {message.group, message.instance, message.has_communicator},
                                  .status = (enum tutti_status)message.status,
                                  .root = message.root,
                                  .member_count = message.member_count};
    const size_t rest = bytes - sizeof message;
    if (message.status == TUTTI_OK) {
        const int *const members = (const int *)(data + sizeof message);
        if (message.member_count < 1 || message.member_count > service.size ||
            rest != (size_t)message.member_count * sizeof *members || message.root < -1 ||
            message.root >= message.member_count || !are_members(members, message.member_count))
            return false;
        answer.members = members;
    } else {
        if (message.status < 0 || message.status > TUTTI_EXCLUDED || rest < 1 ||
            rest > ORDER_TEXT_MAX || data[bytes - 1] != '\0')
            return false;
        answer.text = data + sizeof message;
    }
    take_answer(&answer);
    return true;
}

/* A rank has ended its service. Without rank 0 nothing more can run here, and without all others nothing on rank 0: nobody waits for
 * messages then, so that their leaving is no failure. */
static bool hear_leave(int source, size_t bytes)
{
    if (bytes != sizeof(uint32_t) || (service.rank != 0 && source != 0)) return false;
    service.left_count++;
    service.is_deaf = service.rank != 0 || service.left_count == service.size - 1;
    if (service.is_deaf && service.rank != 0)
        lose(TUTTI_PROC_FAILED, "rank 0 has ended tutti_tensorflow");
    return true;
}

/* Takes what has come, and waits for the next message. */
static void hear(void)
{
    const struct tutti_call_options options = {.size_bytes = sizeof options, .timeout_ns = NEVER_NS};
    while (service.status == TUTTI_OK && !service.is_deaf) {
        if (service.hearing != NULL) {
            const enum tutti_status status = tutti_test(&service.hearing);
            if (status == TUTTI_IN_PROGRESS) return;
            if (status != TUTTI_OK) {
                lose(status, tutti_error_message());
                return;
            }
            uint32_t kind = 0;
            if (service.heard.count >= sizeof kind) memcpy(&kind, service.message, sizeof kind);
            const bool makes_sense =
                kind == MESSAGE_REPORT
                    ? hear_report(service.heard.source, service.message, service.heard.count)
                : kind == MESSAGE_ANSWER
                    ? hear_answer(service.heard.source, service.message, service.heard.count)
                : kind == MESSAGE_LEAVE ? hear_leave(service.heard.source, service.heard.count)
                                        : false;
            if (!makes_sense) {
                char text[128];
                snprintf(
                    text, sizeof text,
                    "rank %d sent the TensorFlow front of rank %d a message that makes no sense",
                    service.heard.source, service.rank);
                give_up(text);
                return;
            }
        }
        if (service.is_deaf) return;
        service.heard = (struct tutti_message){.size_bytes = sizeof service.heard};
        enum tutti_status status =
            tutti_recv_start(service.message, service.message_size, TUTTI_UINT8, TUTTI_ANY_RANK,
                             TAG, &service.heard, &options, service.comm, &service.hearing);
        if (status == TUTTI_OK) status = tutti_notify(service.hearing, service.wake);
        if (status != TUTTI_OK) lose(status, tutti_error_message());
    }
}

/* -------------------------------------------------------------------------------------- running */

/* The group, made now if this is its first collective. */
static struct joined *group_of(const struct order_answer *answer)
{
    struct joined *group = service.groups;
    while (group != NULL && (group->key != answer->key.group ||
                             group->has_communicator != answer->key.has_communicator))
        group = group->next;
    if (group != NULL) return group;
    group = calloc(1, sizeof *group);
    if (group == NULL) return NULL;
    group->key = answer->key.group;
    group->has_communicator = answer->key.has_communicator;
    group->status =
        tutti_comm_group(service.comm, answer->members, answer->member_count, NULL, &group->comm);
    if (group->status != TUTTI_OK)
        snprintf(group->lost, sizeof group->lost, "%s", cause_of(tutti_error_message()));
    group->next = service.groups;
    service.groups = group;
    return group;
}

static enum tutti_status start(struct service_call *call, int root, struct tutti_comm *comm)
{
    const struct tutti_call_options options = {.size_bytes = sizeof options,
                                               .timeout_ns = call->report.timeout_ns};
    switch (call->kind) {
    case SERVICE_ALLREDUCE:
        return tutti_allreduce_start(call->send, call->recv, call->count, call->dtype, call->op,
                                     &options, comm, &call->request);
    case SERVICE_ALLGATHER:
        return tutti_allgather_start(call->send, call->recv, call->count, call->dtype, &options,
                                     comm, &call->request);
    case SERVICE_REDUCE_SCATTER:
        return tutti_reduce_scatter_start(call->send, call->recv, call->count, call->dtype,
                                          call->op, &options, comm, &call->request);
    case SERVICE_ALLTOALL:
        return tutti_alltoall_start(call->send, call->recv, call->count, call->dtype, &options,
                                    comm, &call->request);
    case SERVICE_BROADCAST:
        return tutti_broadcast_start(call->recv, call->recv, call->count, call->dtype, root,
                                     &options, comm, &call->request);
    case SERVICE_GROUP: break; /* has nothing to start */
    }
    return TUTTI_INTERNAL;
}

static void run(struct service_call *call, const struct order_answer *answer)
{
    struct joined *const group = group_of(answer);
    if (group == NULL || group->comm == NULL) {
        fail_call(call, group != NULL ? group->status : TUTTI_NO_MEMORY,
                  group != NULL ? group->lost : tutti_status_text(TUTTI_NO_MEMORY));
        return;
    }
    if (call->kind == SERVICE_GROUP) {
        finish(call, TUTTI_OK, NULL);
        return;
    }
    enum tutti_status status = start(call, answer->root, group->comm);
    if (status != TUTTI_OK) {
        fail_call(call, status, cause_of(tutti_error_message()));
        return;
    }
    put(&service.running, call);
    if (tutti_notify(call->request, service.wake) != TUTTI_OK) give_up(tutti_error_message());
}

static void take_answer(const struct order_answer *answer)
{
    struct service_call **link = &service.waiting.first;
    while (*link != NULL && ((*link)->report.key.group != answer->key.group ||
                             (*link)->report.key.instance != answer->key.instance ||
                             (*link)->report.key.has_communicator != answer->key.has_communicator))
        link = &(*link)->next;
    if (*link == NULL) { /* of a call that nobody here has made */
        give_up("rank 0 of the TensorFlow front tells a rank to run what it has not reported");
        return;
    }
    struct service_call *const call = take(&service.waiting, link);
    if (answer->status == TUTTI_OK)
        run(call, answer);
    else
        finish(call, answer->status, answer->text);
}

static void check_running(bool waits)
{
    struct service_call **link = &service.running.first;
    while (*link != NULL) {
        struct service_call *const call = *link;
        const enum tutti_status status =
            waits ? tutti_wait(&call->request) : tutti_test(&call->request);
        if (status == TUTTI_IN_PROGRESS) {
            link = &call->next;
            continue;
        }
        take(&service.running, link);
        if (status == TUTTI_OK)
            finish(call, TUTTI_OK, NULL);
        else
            fail_call(call, status, cause_of(tutti_error_message()));
    }
}

/* ----------------------------------------------------------------------------------- the thread */

/* Reports what was submitted. False: the service is to stop. */
static bool take_submitted(void)
{
    struct queue taken = {NULL, &taken.first};
    pthread_mutex_lock(&lock);
    while (submitted.first != NULL) put(&taken, take(&submitted, &submitted.first));
    const bool goes_on = !is_stopping;
    pthread_mutex_unlock(&lock);
    while (taken.first != NULL) {
        struct service_call *const call = take(&taken, &taken.first);
        if (service.status != TUTTI_OK) {
            fail_call(call, service.status, service.lost);
            continue;
        }
        put(&service.waiting, call);
        report(call);
    }
    return goes_on;
}

static void sleep_until_something_happens(void)
{
    const bool looks = service.order != NULL && order_waits(service.order);
    struct pollfd entry = {.fd = service.wake, .events = POLLIN};
    uint64_t count;
    (void)poll(&entry, 1, looks ? TICK_MS : -1);
    while (read(service.wake, &count, sizeof count) < 0 && errno == EINTR) continue;
}

/* Tells those who would miss this rank. */
static void say_goodbye(void)
{
    const uint32_t kind = MESSAGE_LEAVE;
    if (service.is_deaf) return;
    for (int r = service.rank == 0 ? 1 : 0; r < (service.rank == 0 ? service.size : 1); r++)
        send_message(r, &kind, sizeof kind, NULL, 0);
}

static void leave(void)
{
    fail_calls(&service.waiting, TUTTI_ABORTED,
               "Tutti was disabled before all ranks had begun this");
    if (service.hearing != NULL && tutti_cancel(&service.hearing) != TUTTI_OK &&
        tutti_wait(&service.hearing) != TUTTI_OK)
        lose(TUTTI_ABORTED, "Tutti was disabled");
    check_running(true);
    say_goodbye();
    free_sent(true);
    while (service.groups != NULL) {
        struct joined *const next = service.groups->next;
        (void)tutti_comm_free(service.groups->comm);
        free(service.groups);
        service.groups = next;
    }
    order_free(service.order);
    free(service.message);
    free(service.seen);
}

static void *serve(void *unused)
{
    do {
        hear();
        check_running(false);
        free_sent(false);
        if (service.order != NULL && service.status == TUTTI_OK)
            order_tick(service.order, now_ns());
        sleep_until_something_happens();
    } while (take_submitted());
    leave();
    return unused;
}

/* -------------------------------------------------------------------------------- the interface */

static void end_finisher(void)
{
    pthread_mutex_lock(&lock);
    is_over = true;
    pthread_cond_signal(&has_finished);
    pthread_mutex_unlock(&lock);
    pthread_join(service.finisher, NULL);
}

static enum tutti_status start_threads(void)
{
    errno = pthread_create(&service.finisher, NULL, finish_calls, NULL);
    if (errno != 0) return TUTTI_SYSTEM;
    const int error = pthread_create(&service.thread, NULL, serve, NULL);
    if (error == 0) return TUTTI_OK;
    end_finisher();
    errno = error;
    return TUTTI_SYSTEM;
}

enum tutti_status service_start(struct tutti_comm *comm)
{
    if (is_running && owner == getpid()) return TUTTI_INVALID_OPTIONS;
    const int size = tutti_comm_size(comm);
    if (size < 1) return TUTTI_INVALID_COMM;
    const size_t text = ORDER_TEXT_MAX, list = (size_t)size * sizeof(int);
    service = (struct service){.comm = comm, .rank = tutti_comm_rank(comm), .size = size};
    empty(&service.waiting);
    empty(&service.running);
    service.message_size = sizeof(struct answer_message) + (text > list ? text : list);
    if (service.message_size < sizeof(struct report_message))
        service.message_size = sizeof(struct report_message);
    service.message = malloc(service.message_size);
    service.seen = calloc((size_t)size, sizeof *service.seen);
    service.warns = wants_warnings();
    if (service.rank == 0) service.order = order_create(size, tell, warn, NULL);
    service.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    enum tutti_status status = service.wake < 0 ? TUTTI_SYSTEM : TUTTI_OK;
    if (service.message == NULL || service.seen == NULL ||
        (service.rank == 0 && service.order == NULL))
        status = TUTTI_NO_MEMORY;
    is_stopping = is_over = false;
    owner = getpid();
    if (status == TUTTI_OK) status = start_threads();
    if (status != TUTTI_OK) {
        if (service.wake >= 0) close(service.wake);
        order_free(service.order);
        free(service.message);
        free(service.seen);
        return status;
    }
    pthread_mutex_lock(&lock);
    is_running = true;
    pthread_mutex_unlock(&lock);
    return TUTTI_OK;
}

void service_stop(void)
{
    if (owner != getpid()) return;
    pthread_mutex_lock(&lock);
    const bool was_running = is_running;
    is_running = false;
    is_stopping = true;
    pthread_mutex_unlock(&lock);
    if (!was_running) return;
    wake(service.wake);
    pthread_join(service.thread, NULL);
    end_finisher();
    close(service.wake);
}

void service_submit(struct service_call *call)
{
    call->request = NULL;
    call->text = NULL;
    if (owner != 0 && owner != getpid()) {
        call->done(call, TUTTI_INVALID_COMM,
                   "this process is a child of the process that enabled tutti_tensorflow");
        return;
    }
    pthread_mutex_lock(&lock);
    const bool is_taken = is_running;
    if (is_taken) {
        put(&submitted, call);
        wake(service.wake);
    }
    pthread_mutex_unlock(&lock);
    if (!is_taken)
        call->done(call, TUTTI_ABORTED, "tutti_tensorflow is not enabled, or not any more");
}
