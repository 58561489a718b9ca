/* limits.c - what the hardware and the kernel allow on this machine.
 *
 * Prints one line per fact: memory bandwidth (one core, all cores), cache
 * bandwidth, float32 sum bandwidth, cache-line ping-pong, futex / yield wake
 * latency, loopback TCP latency and bandwidth, process_vm_readv (CMA)
 * bandwidth, core-to-core bandwidth, io_uring availability.  Every number is the median of REP
 * repeats; the spread (min..max) follows in brackets.
 *
 * "GB/s copied" counts the bytes copied once (not read + written).
 *
 *   cc -O3 -march=native -pthread -o limits limits.c && ./limits
 *   ./limits 'atomics' 'copy 512 KiB'     only facts whose line contains one of these
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define REP 7
#define MiB (1024.0 * 1024.0)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static void pin(int cpu)
{
    cpu_set_t s;
    CPU_ZERO(&s);
    CPU_SET(cpu, &s);
    sched_setaffinity(0, sizeof s, &s);
}
static int cmp(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static char **wanted_parts; /* ends with NULL; empty: everything */
static int wanted(const char *name)
{
    for (char **part = wanted_parts; *part; part++)
        if (strstr(name, *part)) return 1;
    return !*wanted_parts;
}
static void report(const char *name, double *v, int n, const char *unit)
{
    qsort(v, n, sizeof *v, cmp);
    printf("%-58s %9.2f %-12s [%.2f .. %.2f]\n", name, v[n / 2], unit, v[0], v[n - 1]);
    fflush(stdout);
}
/* private memory; huge: aligned to 2 MiB and backed by huge pages where possible
 * (the in-cache lines use them too: with scattered 4 KiB pages a buffer that fits
 * in L2 may still collide in it, which here cost a factor of four) */
static void *big(size_t n, int huge)
{
    size_t H = (size_t)2 << 20, m = huge ? (n + 2 * H - 1) / H * H : n;
    char *p = mmap(0, m, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (huge) {
        p = (char *)(((uintptr_t)p + H - 1) / H * H);
        madvise(p, (n + H - 1) / H * H, MADV_HUGEPAGE);
    }
    memset(p, 1, n);
    return p;
}
static void *shared(size_t n)
{
    void *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(p, 1, n);
    return p;
}

/* ---------------------------------------------------------------- kernels */
typedef void kernel(void *d, void *s, size_t n);
static void k_memcpy(void *d, void *s, size_t n)
{
    memcpy(d, s, n);
}
static void k_movsb(void *d, void *s, size_t n)
{
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n)::"memory");
#else
    memcpy(d, s, n);
#endif
}
#if defined(__AVX512F__)
#define VEC "avx512"
static void k_cached(void *d, void *s, size_t n)
{
    char *a = d, *b = s;
    for (size_t i = 0; i < n; i += 256)
        for (int j = 0; j < 256; j += 64)
            _mm512_store_si512((void *)(a + i + j), _mm512_load_si512((void *)(b + i + j)));
}
static void k_nt(void *d, void *s, size_t n)
{
    char *a = d, *b = s;
    for (size_t i = 0; i < n; i += 256)
        for (int j = 0; j < 256; j += 64)
            _mm512_stream_si512((void *)(a + i + j), _mm512_load_si512((void *)(b + i + j)));
    _mm_sfence();
}
static void k_sum_nt(void *d, void *s, size_t n)
{ /* d = s + s2, s2 = s + n */
    char *a = d, *b = s, *c = (char *)s + n;
    for (size_t i = 0; i < n; i += 64)
        _mm512_stream_ps((void *)(a + i), _mm512_add_ps(_mm512_load_ps((void *)(b + i)),
                                                        _mm512_load_ps((void *)(c + i))));
    _mm_sfence();
}
#else
#define VEC "plain"
static void k_cached(void *d, void *s, size_t n)
{
    uint64_t *a = d, *b = s;
    for (size_t i = 0; i < n / 8; i++) a[i] = b[i];
}
#define k_nt k_cached
static void k_sum_nt(void *d, void *s, size_t n)
{
    float *a = d, *b = s, *c = (float *)((char *)s + n);
    for (size_t i = 0; i < n / 4; i++) a[i] = b[i] + c[i];
}
#endif
static void k_sum2(void *d, void *s, size_t n)
{ /* d += s */
    float *a = d, *b = s;
    for (size_t i = 0; i < n / 4; i++) a[i] += b[i];
}
static volatile uint64_t sink;
static void k_read(void *d, void *s, size_t n)
{
    uint64_t *b = s, x0 = 0, x1 = 0, x2 = 0, x3 = 0;
    (void)d;
    for (size_t i = 0; i < n / 8; i += 32)
        for (int j = 0; j < 32; j += 4) {
            x0 ^= b[i + j];
            x1 ^= b[i + j + 1];
            x2 ^= b[i + j + 2];
            x3 ^= b[i + j + 3];
        }
    sink = x0 ^ x1 ^ x2 ^ x3;
}

/* run kernel on `cores` processes at once, each its own buffers */
struct job {
    pthread_barrier_t bar;
    double t[64];
};
static void bw(const char *name, kernel *k, size_t n, int cores, size_t total, int huge)
{
    char b[128];
    snprintf(b, sizeof b, "%s, %d core%s", name, cores, cores > 1 ? "s (sum)" : "");
    if (!wanted(b)) return;
    double v[REP];
    int loops = (int)(total / n);
    if (loops < 1) loops = 1;
    struct job *j = shared(sizeof *j);
    pthread_barrierattr_t at;
    pthread_barrierattr_init(&at);
    pthread_barrierattr_setpshared(&at, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&j->bar, &at, cores);
    double *out = shared(sizeof(double) * REP * 64);
    for (int c = 0; c < cores; c++)
        if (!fork()) {
            pin(c);
            char *s = big(2 * n, huge), *d = big(n, huge);
            k(d, s, n);
            for (int r = 0; r < REP; r++) {
                pthread_barrier_wait(&j->bar);
                double t = now();
                for (int l = 0; l < loops; l++) k(d, s, n);
                out[r * 64 + c] = now() - t;
            }
            _exit(0);
        }
    for (int c = 0; c < cores; c++) wait(0);
    for (int r = 0; r < REP; r++) {
        double m = 0;
        for (int c = 0; c < cores; c++)
            if (out[r * 64 + c] > m) m = out[r * 64 + c];
        v[r] = (double)n * loops * cores / m / 1e9;
    }
    report(b, v, REP, "GB/s");
}

/* ------------------------------------------------------- latency ping-pong */
enum { SPIN, YIELD, FUTEX };
static void fwait(atomic_int *a, int v)
{
    syscall(SYS_futex, a, FUTEX_WAIT, v, 0, 0, 0);
}
static void fwake(atomic_int *a)
{
    syscall(SYS_futex, a, FUTEX_WAKE, 1, 0, 0, 0);
}
static void until(atomic_int *a, int v, int how)
{
    for (;;) {
        int x = atomic_load_explicit(a, memory_order_acquire);
        if (x == v) return;
        if (how == YIELD)
            sched_yield();
        else if (how == FUTEX)
            fwait(a, x);
    }
}
static void lat(const char *name, int how, int cpu0, int cpu1, int iters)
{
    if (!wanted(name)) return;
    char *m = shared(8192);
    atomic_int *a = (atomic_int *)m, *b = (atomic_int *)(m + 4096);
    atomic_store(a, 0);
    atomic_store(b, 0);
    pid_t p = fork();
    if (!p) {
        pin(cpu1);
        for (int i = 1; i <= iters * REP; i++) {
            until(a, i, how);
            atomic_store_explicit(b, i, memory_order_release);
            if (how == FUTEX) fwake(b);
        }
        _exit(0);
    }
    pin(cpu0);
    double v[REP];
    int i = 1;
    for (int r = 0; r < REP; r++) {
        double t = now();
        for (int k = 0; k < iters; k++, i++) {
            atomic_store_explicit(a, i, memory_order_release);
            if (how == FUTEX) fwake(a);
            until(b, i, how);
        }
        v[r] = (now() - t) / iters / 2 * 1e9;
    }
    waitpid(p, 0, 0);
    report(name, v, REP, "ns one way");
}

/* ------------------------------------------- bandwidth from core to core
 * A shared ring of 4 chunks: core 0 copies a private buffer into it, core 1 copies
 * it out (copy_out) or adds it to a private buffer (otherwise).  One direction. */
static void pipebw(size_t chunk, size_t priv, int sum)
{
    char b[96];
    snprintf(b, sizeof b, "shm ring core 0 -> 1, chunk %zu KiB, private %zu KiB, %s", chunk >> 10,
             priv >> 10, sum ? "sum" : "copy out");
    if (!wanted(b)) return;
    enum { SLOTS = 4 };
    char *ring = shared(SLOTS * chunk);
    atomic_size_t *m = shared(8192), *head = m, *tail = m + 512;
    size_t total = (size_t)1 << 30, per = total / chunk;
    atomic_store(head, 0);
    atomic_store(tail, 0);
    pid_t p = fork();
    if (!p) {
        pin(1);
        char *d = big(priv, 0);
        for (size_t i = 0; i < per * REP; i++) {
            while (atomic_load_explicit(head, memory_order_acquire) <= i) {
            }
            char *to = d + i * chunk % priv;
            if (sum)
                k_sum2(to, ring + i % SLOTS * chunk, chunk);
            else
                memcpy(to, ring + i % SLOTS * chunk, chunk);
            atomic_store_explicit(tail, i + 1, memory_order_release);
        }
        _exit(0);
    }
    pin(0);
    char *s = big(priv, 0);
    double v[REP];
    size_t i = 0;
    for (int r = 0; r < REP; r++) {
        double t = now();
        for (size_t e = i + per; i < e; i++) {
            while (atomic_load_explicit(tail, memory_order_acquire) + SLOTS <= i) {
            }
            memcpy(ring + i % SLOTS * chunk, s + i * chunk % priv, chunk);
            atomic_store_explicit(head, i + 1, memory_order_release);
        }
        while (atomic_load_explicit(tail, memory_order_acquire) < i) {
        }
        v[r] = total / (now() - t) / 1e9;
    }
    waitpid(p, 0, 0);
    munmap(s, priv);
    munmap(ring, SLOTS * chunk);
    report(b, v, REP, "GB/s");
}

/* --------------------------------------------------------------------- TCP */
static void pair(int *x, int *y)
{
    int l = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    bind(l, (void *)&a, n);
    listen(l, 1);
    getsockname(l, (void *)&a, &n);
    *x = socket(AF_INET, SOCK_STREAM, 0);
    connect(*x, (void *)&a, n);
    *y = accept(l, 0, 0);
    close(l);
    setsockopt(*x, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(*y, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}
static void rd(int f, char *b, size_t n, int flags)
{
    while (n) {
        ssize_t k = recv(f, b, n, flags);
        if (k > 0) {
            b += k;
            n -= k;
        } else if (!(k < 0 && (errno == EAGAIN || errno == EINTR)))
            _exit(1);
    }
}
static void tcplat(const char *name, int flags, size_t sz, int iters)
{
    if (!wanted(name)) return;
    int x, y;
    pair(&x, &y);
    char buf[65536] = {0};
    pid_t p = fork();
    if (!p) {
        pin(1);
        for (int i = 0; i < iters * REP; i++) {
            rd(y, buf, sz, flags);
            if (send(y, buf, sz, 0) < 0) _exit(1);
        }
        _exit(0);
    }
    pin(0);
    double v[REP];
    for (int r = 0; r < REP; r++) {
        double t = now();
        for (int i = 0; i < iters; i++) {
            if (send(x, buf, sz, 0) < 0) exit(1);
            rd(x, buf, sz, flags);
        }
        v[r] = (now() - t) / iters / 2 * 1e6;
    }
    waitpid(p, 0, 0);
    close(x);
    close(y);
    report(name, v, REP, "us one way");
}
static void tcpbw(const char *name, size_t chunk, int both)
{
    if (!wanted(name)) return;
    int x, y, x2, y2;
    pair(&x, &y);
    pair(&x2, &y2);
    size_t total = (size_t)2 << 30;
    char *b = big(chunk, 0);
    double *v = shared(sizeof(double) * REP);
    /* child 1 receives on y (and, for both, child 2 sends on x2) */
    pid_t p = fork();
    if (!p) {
        pin(1);
        pid_t q = both ? fork() : 0;
        if (both && !q) {
            for (int r = 0; r < REP; r++)
                for (size_t s = 0; s < total; s += chunk)
                    for (size_t o = 0; o < chunk;) {
                        ssize_t k = send(x2, b + o, chunk - o, 0);
                        if (k <= 0) _exit(1);
                        o += k;
                    }
            _exit(0);
        }
        for (int r = 0; r < REP; r++) {
            for (size_t s = 0; s < total; s += chunk) rd(y, b, chunk, 0);
            send(y, b, 1, 0);
        }
        if (both) waitpid(q, 0, 0);
        _exit(0);
    }
    pin(0);
    pid_t q = both ? fork() : 0;
    if (both && !q) {
        for (int r = 0; r < REP; r++)
            for (size_t s = 0; s < total; s += chunk) rd(y2, b, chunk, 0);
        _exit(0);
    }
    for (int r = 0; r < REP; r++) {
        double t = now();
        for (size_t s = 0; s < total; s += chunk)
            for (size_t o = 0; o < chunk;) {
                ssize_t k = send(x, b + o, chunk - o, 0);
                if (k <= 0) exit(1);
                o += k;
            }
        rd(x, b, 1, 0);
        v[r] = total / (now() - t) / 1e9;
    }
    waitpid(p, 0, 0);
    if (both) waitpid(q, 0, 0);
    close(x);
    close(y);
    close(x2);
    close(y2);
    double w[REP];
    memcpy(w, v, sizeof w);
    report(name, w, REP, both ? "GB/s per dir" : "GB/s");
}

/* --------------------------------------------------------------------- CMA */
static void cma(size_t n, int both)
{
    char b[96];
    snprintf(b, sizeof b, "process_vm_readv %zu KiB, %s", n >> 10,
             both ? "both ways at once (sum)" : "one reader");
    if (!wanted(b)) return;
    char *src = big(n, 0), *dst = big(n, 0);
    double *v = shared(sizeof(double) * REP * 2);
    int loops = (int)(((size_t)512 << 20) / n);
    struct job *j = shared(sizeof *j);
    pid_t *pids = shared(sizeof(pid_t) * 2);
    pthread_barrierattr_t at;
    pthread_barrierattr_init(&at);
    pthread_barrierattr_setpshared(&at, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&j->bar, &at, 2);
    for (int c = 0; c < 2; c++)
        if (!fork()) {
            pin(c);
            memset(src, c, n);
            memset(dst, c, n); /* own copies after fork */
            pids[c] = getpid();
            for (int r = 0; r < REP; r++) {
                pthread_barrier_wait(&j->bar);
                double t = now();
                if (c == 0 || both)
                    for (int l = 0; l < loops; l++) {
                        struct iovec a = {dst, n}, b = {src, n};
                        if (process_vm_readv(pids[1 - c], &a, 1, &b, 1, 0) != (ssize_t)n) {
                            perror("process_vm_readv");
                            break;
                        }
                    }
                v[r * 2 + c] = now() - t;
                pthread_barrier_wait(&j->bar);
            }
            _exit(0);
        }
    wait(0);
    wait(0);
    double w[REP];
    for (int r = 0; r < REP; r++) {
        double m = v[r * 2] > v[r * 2 + 1] ? v[r * 2] : v[r * 2 + 1];
        w[r] = (double)n * loops * (both ? 2 : 1) / m / 1e9;
    }
    report(b, w, REP, "GB/s copied");
    munmap(src, n);
    munmap(dst, n);
}

int main(int argc, char **argv)
{
    (void)argc;
    wanted_parts = argv + 1;
    int nc = (int)sysconf(_SC_NPROCESSORS_ONLN);
    size_t B = (size_t)256 << 20, T = (size_t)512 << 20;
    printf("cores %d, L2 %ld KiB, L3 %ld KiB\n", nc, sysconf(_SC_LEVEL2_CACHE_SIZE) >> 10,
           sysconf(_SC_LEVEL3_CACHE_SIZE) >> 10);
    int cs[2] = {1, nc};
    for (int i = 0; i < (nc > 1 ? 2 : 1); i++) {
        int c = cs[i];
        bw("copy 256 MiB, libc memcpy", k_memcpy, B, c, T, 0);
        bw("copy 256 MiB, libc memcpy, huge pages", k_memcpy, B, c, T, 1);
        bw("copy 256 MiB, " VEC " cached stores", k_cached, B, c, T, 0);
        bw("copy 256 MiB, " VEC " non-temporal stores", k_nt, B, c, T, 0);
        bw("copy 256 MiB, " VEC " non-temporal stores, huge pages", k_nt, B, c, T, 1);
        bw("copy 256 MiB, rep movsb", k_movsb, B, c, T, 0);
        bw("read 256 MiB", k_read, B, c, T, 0);
        bw("read 256 MiB, huge pages", k_read, B, c, T, 1);
        bw("sum a+=b float32 64 MiB (bytes of b)", k_sum2, B / 4, c, T, 0);
        bw("sum a=b+c float32 64 MiB, NT stores (bytes of a)", k_sum_nt, B / 4, c, T, 0);
        bw("copy 16 MiB, libc memcpy (L3)", k_memcpy, 16 << 20, c, T, 0);
        bw("copy 512 KiB (in L2), libc memcpy", k_memcpy, 512 << 10, c, T * 4, 1);
        bw("read 1 MiB (in L2)", k_read, 1 << 20, c, T * 4, 1);
        bw("sum a+=b float32 512 KiB (in L2)", k_sum2, 512 << 10, c, T * 4, 1);
        bw("copy 16 KiB (in L1)", k_memcpy, 16 << 10, c, T * 4, 1);
    }
    if (nc > 1) {
        lat("atomics ping-pong, 2 processes, one per core", SPIN, 0, 1, 200000);
        lat("futex wake ping-pong, one per core", FUTEX, 0, 1, 20000);
        lat("sched_yield ping-pong, one per core", YIELD, 0, 1, 50000);
    }
    if (nc > 1) {
        pipebw(4 << 10, 256 << 10, 0);
        pipebw(16 << 10, 256 << 10, 0);
        pipebw(64 << 10, 256 << 10, 0);
        pipebw(256 << 10, 256 << 10, 0);
        pipebw(64 << 10, 256 << 20, 0);
        pipebw(64 << 10, 256 << 10, 1);
        pipebw(64 << 10, 256 << 20, 1);
    }
    lat("futex wake ping-pong, same core", FUTEX, 0, 0, 20000);
    lat("sched_yield ping-pong, same core", YIELD, 0, 0, 20000);
    tcplat("TCP loopback 64 B, blocking recv", 0, 64, 20000);
    tcplat("TCP loopback 64 B, busy polling recv", MSG_DONTWAIT, 64, 20000);
    tcpbw("TCP loopback stream, 1 MiB writes, one connection", 1 << 20, 0);
    tcpbw("TCP loopback stream, 128 KiB writes, one connection", 128 << 10, 0);
    tcpbw("TCP loopback stream, both directions, 4 processes", 256 << 10, 1);
    cma(64 << 10, 0);
    cma(1 << 20, 0);
    cma(64 << 20, 0);
    cma(64 << 10, 1);
    cma(1 << 20, 1);
    cma(64 << 20, 1);
    if (!wanted("io_uring_setup")) return 0;
    char p[256] = {0};
    long fd = syscall(SYS_io_uring_setup, 8, p);
    printf("%-58s %s\n", "io_uring_setup", fd >= 0 ? "available" : strerror(errno));
    return 0;
}
