#include "connect/handshake.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"

/* At most, between connections that come again and again. */
static const uint64_t STARVED_APART_NS = 1000000000;

/* ----------------------------------------------------------------------------------- event loop */

enum tutti_status handshake_loop_add(struct handshake_loop *loop, int fd, struct loop_entry *entry)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = entry};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return error_system("epoll for start-up");
    return TUTTI_OK;
}

enum tutti_status handshake_loop_open(struct handshake_loop *loop, const struct hello_self *self)
{
    *loop = (struct handshake_loop){.epoll = -1,
                                    .timer = -1,
                                    .timer_entry.kind = LOOP_TIMER,
                                    .next_ns = UINT64_MAX,
                                    .timer_ns = UINT64_MAX};
    loop->self =
        *self; /* not above: compilers may put all of that on the stack first, with the key */
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll < 0) return error_system("epoll for start-up");
    loop->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (loop->timer < 0) return error_system("a timer for start-up");
    return handshake_loop_add(loop, loop->timer, &loop->timer_entry);
}

void handshake_loop_close(struct handshake_loop *loop)
{
    if (loop->timer >= 0) close(loop->timer);
    if (loop->epoll >= 0) close(loop->epoll);
    loop->timer = loop->epoll = -1;
    tls_context_free(loop->tls);
    loop->tls = NULL;
    mac_wipe(&loop->self.key, sizeof loop->self.key);
}

void handshake_loop_wake_at(struct handshake_loop *loop, uint64_t when_ns)
{
    if (when_ns < loop->next_ns) loop->next_ns = when_ns;
}

void handshake_loop_set_timer(struct handshake_loop *loop)
{
    if (loop->timer_ns == loop->next_ns) return;
    loop->timer_ns = loop->next_ns;
    const uint64_t when = loop->next_ns == UINT64_MAX ? 0 : loop->next_ns == 0 ? 1 : loop->next_ns;
    const struct itimerspec at = {
        .it_value = {(time_t)(when / 1000000000u), (long)(when % 1000000000u)}};
    timerfd_settime(loop->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* ------------------------------------------------------------------------------------ shortages */

void handshake_loop_lacks(struct handshake_loop *loop, enum tutti_status status, uint64_t now_ns)
{
    struct shortage *const shortage = &loop->shortage;
    if (now_ns > shortage->last_ns + STARVED_APART_NS) shortage->first_ns = now_ns;
    shortage->last_ns = now_ns;
    shortage->status = status;
    snprintf(shortage->why, sizeof shortage->why, "%.200s", tutti_error_message());
}

void handshake_loop_has_enough(struct handshake_loop *loop)
{
    struct shortage *const shortage = &loop->shortage;
    if (shortage->status == TUTTI_NO_DESCRIPTORS || shortage->status == TUTTI_NO_MEMORY)
        shortage->last_ns = 0; /* a sandbox still denies what it denied */
}

enum tutti_status handshake_loop_starves(const struct handshake_loop *loop, uint64_t since_ns,
                                         uint64_t now_ns, uint64_t for_ns)
{
    const struct shortage *const shortage = &loop->shortage;
    const uint64_t last_ns = shortage->last_ns;
    const uint64_t first_ns = shortage->first_ns > since_ns ? shortage->first_ns : since_ns;
    const bool goes_on = last_ns != 0 && now_ns < last_ns + STARVED_APART_NS;
    if (!goes_on || last_ns <= first_ns + for_ns) return TUTTI_OK;
    return error_set(shortage->status, "connecting: no connection could be made for %.1f s: %s",
                     (double)for_ns * 1e-9, shortage->why);
}

/* ----------------------------------------------------------------------------------- handshakes */

void handshake_init(struct handshake *handshake)
{
    handshake->socket = byte_stream_none();
    handshake->events = 0;
}

bool handshake_watch(struct handshake_loop *loop, struct handshake *handshake,
                     struct loop_entry *entry, uint32_t events)
{
    if (handshake->events == events) return true;
    const int operation = handshake->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    struct epoll_event event = {.events = events, .data.ptr = entry};
    if (epoll_ctl(loop->epoll, operation, handshake->socket.fd, &event) != 0) return false;
    handshake->events = events;
    return true;
}

void handshake_unwatch(struct handshake_loop *loop, struct handshake *handshake)
{
    if (handshake->events != 0) epoll_ctl(loop->epoll, EPOLL_CTL_DEL, handshake->socket.fd, NULL);
    handshake->events = 0;
}

void handshake_close(struct handshake_loop *loop, struct handshake *handshake)
{
    handshake_unwatch(loop, handshake);
    handshake_forget(handshake);
}

void handshake_forget(struct handshake *handshake)
{
    byte_stream_close(&handshake->socket);
    hello_release(&handshake->hello);
}

static bool make_nonce(unsigned char nonce[HELLO_NONCE_BYTES])
{
    return getrandom(nonce, HELLO_NONCE_BYTES, 0) == HELLO_NONCE_BYTES;
}

bool handshake_answer(struct handshake_loop *loop, struct handshake *handshake, uint64_t now_ns)
{
    unsigned char nonce[HELLO_NONCE_BYTES];
    if (!make_nonce(nonce)) return false;
    hello_start_answer(&handshake->hello, &loop->self, nonce, now_ns);
    handshake_loop_wake_at(loop, handshake->hello.deadline_ns);
    return true;
}

bool handshake_call(struct handshake_loop *loop, struct handshake *handshake,
                    const struct hello_call *call, bool is_encrypted, uint64_t now_ns)
{
    unsigned char nonce[HELLO_NONCE_BYTES];
    if (!make_nonce(nonce)) return false;
    struct hello_self self = loop->self;
    if (is_encrypted) self.configuration |= HELLO_ENCRYPTS;
    hello_start_call(&handshake->hello, &self, call, nonce, now_ns);
    mac_wipe(&self, sizeof self);
    handshake_loop_wake_at(loop, handshake->hello.deadline_ns);
    return true;
}

/* Sends the bytes that the hello has now, and receives those that it wants. */
static void exchange_records(struct handshake *handshake, uint64_t now_ns)
{
    struct hello *const hello = &handshake->hello;
    hello_tick(hello, now_ns);
    size_t done = 1;
    while (hello->state == HELLO_GOING && done > 0) {
        unsigned char in[HELLO_BYTES];
        const void *out;
        const size_t out_bytes = hello_gives(hello, &out);
        enum tutti_status status;
        if (out_bytes > 0) {
            status = tcp_write(handshake->socket.fd, out, out_bytes, &done);
            hello_given(hello, done);
        } else {
            status = tcp_read(handshake->socket.fd, in, hello_wants(hello), &done);
            hello_take(hello, in, done, now_ns);
        }
        if (status != TUTTI_OK) hello_leave(hello);
    }
}

static enum tutti_status start_tls(struct handshake_loop *loop, struct handshake *handshake)
{
    struct tls_options options = {.fd = handshake->socket.fd,
                                  .is_client = handshake->hello.is_caller,
                                  .records_a_key = TLS_RECORDS_A_KEY};
    if (loop->tls == NULL) return error_set(TUTTI_UNSUPPORTED, "nobody encrypts here");
    enum tutti_status status = hello_key(&handshake->hello, options.key);
    if (status == TUTTI_OK) status = tls_start(loop->tls, &options, &handshake->socket.tls);
    mac_wipe(&options, sizeof options);
    return status;
}

/* Moves TLS, which comes after the hello where both sides encrypt. */
static void secure(struct handshake_loop *loop, struct handshake *handshake)
{
    enum tutti_status status = TUTTI_OK;
    if (handshake->socket.tls == NULL) status = start_tls(loop, handshake);
    if (status == TUTTI_OK) status = tls_handshake(handshake->socket.tls);
    if (status == TUTTI_IN_PROGRESS) return;
    if (status == TUTTI_UNSUPPORTED || status == TUTTI_AUTH_FAILED)
        log_write(LOG_INFO, "%s", tutti_error_message());
    hello_secured(&handshake->hello, status == TUTTI_OK);
}

bool handshake_is_over(const struct handshake *handshake)
{
    return handshake->hello.state != HELLO_GOING && handshake->hello.state != HELLO_SECURES;
}

void handshake_progress(struct handshake_loop *loop, struct handshake *handshake,
                        struct loop_entry *entry, uint64_t now_ns)
{
    const void *out;
    exchange_records(handshake, now_ns);
    if (handshake->hello.state == HELLO_SECURES) secure(loop, handshake);
    if (handshake_is_over(handshake)) return;
    const bool waits_for_room =
        hello_gives(&handshake->hello, &out) > 0 || byte_stream_has_output(&handshake->socket);
    if (!handshake_watch(loop, handshake, entry, waits_for_room ? EPOLLOUT : EPOLLIN))
        hello_leave(&handshake->hello);
}

void handshake_fill(struct handshake *handshake, struct accepted_connection *accepted)
{
    const struct hello *const hello = &handshake->hello;
    memset(accepted, 0, sizeof *accepted);
    accepted->status = hello->status;
    accepted->socket = hello->state == HELLO_DONE ? handshake->socket : byte_stream_none();
    accepted->address = handshake->address;
    accepted->rank = hello->peer.rank;
    accepted->version = hello->version;
    accepted->purpose = hello->call.purpose;
    accepted->payload_bytes = hello->call.payload_bytes;
    memcpy(accepted->payload, hello->call.payload, hello->call.payload_bytes);
    if (hello->status != TUTTI_OK) hello_explain(hello, accepted->text);
    handshake->socket = byte_stream_none();
}
