#include "proxy.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BUFFER_BYTES = 64 << 10 };

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

static void *be_proxy(void *context)
{
    struct proxy proxy = *(struct proxy *)context;
    free(context);
    const int near = accept(proxy.listener, NULL, NULL);
    const int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    close(proxy.listener);
    if (near >= 0 && far >= 0 &&
        syscall(SYS_connect, far, &proxy.to, (socklen_t)sizeof proxy.to) == 0) {
        struct way there = {near, far, false, proxy.look}, back = {far, near, true, proxy.look};
        pthread_t thread;
        if (pthread_create(&thread, NULL, carry_on, &back) == 0) {
            carry_on(&there);
            pthread_join(thread, NULL);
        }
    }
    if (near >= 0) close(near);
    if (far >= 0) close(far);
    return NULL;
}

bool proxy_start(const struct sockaddr *to, proxy_look *look, struct sockaddr_in *at)
{
    pthread_t thread;
    socklen_t bytes = sizeof *at;
    struct proxy *proxy = malloc(sizeof *proxy);
    if (proxy == NULL) return false;
    proxy->look = look;
    memcpy(&proxy->to, to, sizeof proxy->to);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (proxy->listener >= 0 && bind(proxy->listener, (struct sockaddr *)at, sizeof *at) == 0 &&
        listen(proxy->listener, 1) == 0 &&
        getsockname(proxy->listener, (struct sockaddr *)at, &bytes) == 0 &&
        pthread_create(&thread, NULL, be_proxy, proxy) == 0) {
        pthread_detach(thread);
        return true;
    }
    if (proxy->listener >= 0) close(proxy->listener);
    free(proxy);
    return false;
}
