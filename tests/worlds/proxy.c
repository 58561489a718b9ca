#include "tests/worlds/proxy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 64 << 10, LAST_BYTES_MS_MAX = 10000 };

/* Connections of which this process may have written what has not gone on. */
static atomic_int open_count;

struct proxy {
    int listener;
    proxy_look *look;
    struct sockaddr_in to;
};

/* One way of a connection; the other way is another thread's. */
struct way {
    int from, to;
    bool is_answer;
    proxy_look *look;
};

/* False: one side has closed. */
static bool carry(const struct way *way)
{
    char bytes[BUFFER_BYTES];
    const ssize_t got = recv(way->from, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    way->look(bytes, (size_t)got, way->is_answer);
    for (ssize_t done = 0; done < got;) {
        const ssize_t sent = send(way->to, bytes + done, (size_t)(got - done), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        done += sent;
    }
    return true;
}

static void *carry_on(void *context)
{
    const struct way way = *(struct way *)context;
    while (carry(&way)) continue;
    (void)shutdown(way.from, SHUT_RD);
    (void)shutdown(way.to, SHUT_WR);
    return NULL;
}

/* What this process sent and its proxies still hold goes on before it ends, as the kernel would see
 * to it without them. */
static void finish(void)
{
    for (int ms = 0; atomic_load(&open_count) > 0 && ms < LAST_BYTES_MS_MAX; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void finish_at_exit(void)
{
    atexit(finish);
}

static void *be_proxy(void *context)
{
    struct proxy proxy = *(struct proxy *)context;
    free(context);
    const int near = accept(proxy.listener, NULL, NULL);
    const int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct way there = {near, far, false, proxy.look}, back = {far, near, true, proxy.look};
    pthread_t thread;
    close(proxy.listener);
    const bool has_both = near >= 0 && far >= 0 &&
                          syscall(SYS_connect, far, &proxy.to, (socklen_t)sizeof proxy.to) == 0 &&
                          pthread_create(&thread, NULL, carry_on, &back) == 0;
    if (has_both) carry_on(&there);
    atomic_fetch_sub(&open_count, 1);
    if (has_both) pthread_join(thread, NULL);
    if (near >= 0) close(near);
    if (far >= 0) close(far);
    return NULL;
}

bool proxy_start(const struct sockaddr *to, proxy_look *look, struct sockaddr_in *at)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_t thread;
    socklen_t bytes = sizeof *at;
    pthread_once(&once, finish_at_exit);
    struct proxy *proxy = malloc(sizeof *proxy);
    if (proxy == NULL) return false;
    proxy->look = look;
    memcpy(&proxy->to, to, sizeof proxy->to);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (proxy->listener >= 0 && bind(proxy->listener, (struct sockaddr *)at, sizeof *at) == 0 &&
        listen(proxy->listener, 1) == 0 &&
        getsockname(proxy->listener, (struct sockaddr *)at, &bytes) == 0) {
        atomic_fetch_add(&open_count, 1);
        if (pthread_create(&thread, NULL, be_proxy, proxy) == 0) {
            pthread_detach(thread);
            return true;
        }
        atomic_fetch_sub(&open_count, 1);
    }
    if (proxy->listener >= 0) close(proxy->listener);
    free(proxy);
    return false;
}
