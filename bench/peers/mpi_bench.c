/* mpi_bench.c - times the collectives of whatever MPI it is built with.
 *
 *   mpirun -n N ./mpi_bench OP MINBYTES MAXBYTES [options]
 *
 *   OP        allreduce allgather reduce_scatter reduce_scatter_v broadcast
 *             reduce alltoall gather scatter sendrecv pingpong barrier
 *   MIN/MAX   sizes go MIN, MIN*FACTOR, ... MAX; suffixes K M G are powers of
 *             1024.  A list "8,64K,1M" may stand in for MIN with MAX = 0.
 *   -f FACTOR size step (default 4)
 *   -n ITERS  timed iterations (default: as many as fit in -t, 5..2000)
 *   -t SEC    time budget per size and mode (default 0.5)
 *   -i        in place (MPI_IN_PLACE where the operation has it)
 *   -p        pin rank r to core r mod cores (else the launcher decides)
 *   -c        no result check
 *   -r WHEN   rotate buffers: auto (default), always, never; see below
 *   -l LABEL  first column of the output (default: name of the MPI)
 *
 * Element type float32, reductions are sums.  BYTES has the nccl-tests
 * meaning, i.e. the larger of a rank's send and receive buffer:
 *   allreduce, broadcast, reduce  the buffer of one rank
 *   allgather, gather             the whole receive buffer (n blocks)
 *   reduce_scatter, scatter       the whole send buffer (n blocks)
 *   alltoall                      the whole send buffer (n blocks)
 *   sendrecv                      what a rank sends to rank+1 (and receives)
 *   pingpong                      one message, rank 0 <-> rank 1, time is half
 *                                 of a round trip
 * Blocked operations round the block down to whole floats, at least one; the
 * bytes column shows what was really used.
 *
 * Time.  Two figures per size:
 *   min/med/max  of the iteration times; an iteration is a barrier and then
 *                the operation, its time the largest over the ranks of (end -
 *                start) of the operation alone.
 *   loop         operations back to back without barriers, total time over
 *                iterations, largest over the ranks (nccl-tests and OSU style;
 *                for rooted operations this lets the root run ahead).
 * algbw = bytes / med.  busbw = algbw * factor: allreduce 2(n-1)/n; allgather,
 * reduce_scatter, alltoall, gather, scatter (n-1)/n; all others 1.
 *
 * Buffers are written before timing.  With -r auto, when the buffers of a rank
 * exceed its L2 cache, successive iterations use different buffers out of a
 * pool of at least POOL bytes per rank, so that large sizes measure memory and
 * not the cache.
 *
 * Check: once before timing (all ranks, every element, outputs poisoned
 * first), and out of place once more after timing.  Column "check" is ok, BAD
 * or -.
 */
#define _GNU_SOURCE
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POOL ((size_t)256 << 20)

enum {
    ALLREDUCE,
    ALLGATHER,
    REDUCE_SCATTER,
    REDUCE_SCATTER_V,
    BROADCAST,
    REDUCE,
    ALLTOALL,
    GATHER,
    SCATTER,
    SENDRECV,
    PINGPONG,
    BARRIER,
    NOPS
};
static const char *opname[NOPS] = {"allreduce", "allgather", "reduce_scatter", "reduce_scatter_v",
                                   "broadcast", "reduce",    "alltoall",       "gather",
                                   "scatter",   "sendrecv",  "pingpong",       "barrier"};

static int op, rank, n, inplace;
static int *counts; /* for reduce_scatter_v */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static void die(const char *m)
{
    if (rank == 0) fprintf(stderr, "mpi_bench: %s\n", m);
    MPI_Abort(MPI_COMM_WORLD, 2);
}
/* Larger buffers are whole huge pages, if malloc has any: else it is chance, by what lies around
 * them on the heap. */
static void *alloc(size_t bytes)
{
    void *p = 0;
    const size_t page = bytes >= 65536 ? (size_t)2 << 20 : 4096;
    if (posix_memalign(&p, page, (bytes + 64 + page - 1) / page * page)) die("out of memory");
    memset(p, 0, bytes + 64);
    return p;
}
static size_t parse(const char *s)
{
    char *e;
    double v = strtod(s, &e);
    switch (*e) {
    case 'k':
    case 'K': v *= 1024; break;
    case 'm':
    case 'M': v *= 1048576; break;
    case 'g':
    case 'G': v *= 1073741824; break;
    }
    return (size_t)v;
}

/* ------------------------------------------------------ one operation call */
/* cnt: floats in the block (blocked operations) or in the buffer (others).   */
static void run(float *in, float *out, size_t cnt)
{
    int c = (int)cnt;
    MPI_Comm w = MPI_COMM_WORLD;
    const void *IP = MPI_IN_PLACE;
    switch (op) {
    case ALLREDUCE: MPI_Allreduce(inplace ? IP : in, out, c, MPI_FLOAT, MPI_SUM, w); break;
    case ALLGATHER:
        if (inplace)
            MPI_Allgather(IP, 0, MPI_DATATYPE_NULL, out, c, MPI_FLOAT, w);
        else
            MPI_Allgather(in, c, MPI_FLOAT, out, c, MPI_FLOAT, w);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(inplace ? IP : in, out, c, MPI_FLOAT, MPI_SUM, w);
        break;
    case REDUCE_SCATTER_V:
        MPI_Reduce_scatter(inplace ? IP : in, out, counts, MPI_FLOAT, MPI_SUM, w);
        break;
    case BROADCAST: MPI_Bcast(out, c, MPI_FLOAT, 0, w); break;
    case REDUCE:
        MPI_Reduce(inplace ? (rank ? out : IP) : in, out, c, MPI_FLOAT, MPI_SUM, 0, w);
        break;
    case ALLTOALL:
        if (inplace)
            MPI_Alltoall(IP, 0, MPI_DATATYPE_NULL, out, c, MPI_FLOAT, w);
        else
            MPI_Alltoall(in, c, MPI_FLOAT, out, c, MPI_FLOAT, w);
        break;
    case GATHER: MPI_Gather(in, c, MPI_FLOAT, out, c, MPI_FLOAT, 0, w); break;
    case SCATTER: MPI_Scatter(in, c, MPI_FLOAT, out, c, MPI_FLOAT, 0, w); break;
    case SENDRECV:
        MPI_Sendrecv(in, c, MPI_FLOAT, (rank + 1) % n, 0, out, c, MPI_FLOAT, (rank + n - 1) % n, 0,
                     w, MPI_STATUS_IGNORE);
        break;
    case PINGPONG:
        if (rank == 0) {
            MPI_Send(in, c, MPI_FLOAT, 1, 0, w);
            MPI_Recv(out, c, MPI_FLOAT, 1, 0, w, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(out, c, MPI_FLOAT, 0, 0, w, MPI_STATUS_IGNORE);
            MPI_Send(in, c, MPI_FLOAT, 0, 0, w);
        }
        break;
    case BARRIER: MPI_Barrier(w); break;
    }
}

/* ------------------------------------------------------------ data + check */
/* Small integers, so that float32 sums are exact whatever the order.         */
static inline float val(int r, size_t i)
{
    return (float)((i + 31u * (unsigned)r) & 63u);
}
static inline float sum(size_t i)
{
    float s = 0;
    for (int r = 0; r < n; r++) s += val(r, i);
    return s;
}
static void fill(float *p, size_t m)
{
    for (size_t i = 0; i < m; i++) p[i] = val(rank, i);
}
static void poison(float *p, size_t m)
{
    for (size_t i = 0; i < m; i++) p[i] = -7;
}

/* input into in (or, in place, into out) and poison the rest */
static void prepare(float *in, float *out, size_t cnt, size_t ins, size_t outs)
{
    if (ins) fill(in, ins);
    if (outs) poison(out, outs);
    if (op == BROADCAST && rank == 0) fill(out, cnt);
    if (inplace) {
        if (op == ALLREDUCE || op == REDUCE)
            fill(out, cnt);
        else if (op == REDUCE_SCATTER || op == REDUCE_SCATTER_V || op == ALLTOALL)
            fill(out, cnt * n);
        else if (op == ALLGATHER)
            for (size_t i = 0; i < cnt; i++) out[cnt * rank + i] = val(rank, i);
    }
}
static int check(const float *out, size_t cnt)
{
    size_t bad = 0;
    switch (op) {
    case ALLREDUCE:
        for (size_t i = 0; i < cnt; i++) bad += out[i] != sum(i);
        break;
    case REDUCE:
        if (rank == 0)
            for (size_t i = 0; i < cnt; i++) bad += out[i] != sum(i);
        break;
    case REDUCE_SCATTER:
    case REDUCE_SCATTER_V:
        for (size_t i = 0; i < cnt; i++) bad += out[i] != sum(cnt * rank + i);
        break;
    case BROADCAST:
        for (size_t i = 0; i < cnt; i++) bad += out[i] != val(0, i);
        break;
    case GATHER:
        if (rank) break; /* fall through */
    case ALLGATHER:
        for (int r = 0; r < n; r++)
            for (size_t i = 0; i < cnt; i++) bad += out[r * cnt + i] != val(r, i);
        break;
    case ALLTOALL:
        for (int r = 0; r < n; r++)
            for (size_t i = 0; i < cnt; i++) bad += out[r * cnt + i] != val(r, rank * cnt + i);
        break;
    case SCATTER:
        for (size_t i = 0; i < cnt; i++) bad += out[i] != val(0, rank * cnt + i);
        break;
    case SENDRECV:
        for (size_t i = 0; i < cnt; i++) bad += out[i] != val((rank + n - 1) % n, i);
        break;
    case PINGPONG:
        if (rank < 2)
            for (size_t i = 0; i < cnt; i++) bad += out[i] != val(1 - rank, i);
        break;
    }
    int b = bad != 0, any;
    MPI_Allreduce(&b, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any;
}

static int cmpd(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* half a round trip for pingpong */
static double scale(void)
{
    return op == PINGPONG ? 0.5 : 1;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);

    char lib[MPI_MAX_LIBRARY_VERSION_STRING], label[64];
    int len;
    MPI_Get_library_version(lib, &len);
    strcpy(label, strstr(lib, "Open MPI") ? "openmpi" : strstr(lib, "MPICH") ? "mpich" : "mpi");

    double factor = 4, budget = 0.5;
    int fixed = 0, pin = 0, nocheck = 0, o, rotate = 1;
    while ((o = getopt(argc, argv, "f:n:t:ipcr:l:")) != -1) switch (o) {
        case 'f': factor = atof(optarg); break;
        case 'n': fixed = atoi(optarg); break;
        case 't': budget = atof(optarg); break;
        case 'i': inplace = 1; break;
        case 'p': pin = 1; break;
        case 'c': nocheck = 1; break;
        case 'r': rotate = !strcmp(optarg, "never") ? 0 : !strcmp(optarg, "always") ? 2 : 1; break;
        case 'l': snprintf(label, sizeof label, "%s", optarg); break;
        default: die("bad option, see the top of mpi_bench.c");
        }
    if (argc - optind < 3) die("usage: mpi_bench OP MINBYTES MAXBYTES [options]");
    for (op = 0; op < NOPS && strcmp(opname[op], argv[optind]); op++) {
    }
    if (op == NOPS) die("unknown operation");
    if (op == PINGPONG && n < 2) die("pingpong needs two ranks");
    if (inplace &&
        (op == GATHER || op == SCATTER || op == SENDRECV || op == PINGPONG || op == BARRIER))
        inplace = 0;
    if (pin) {
        cpu_set_t s;
        CPU_ZERO(&s);
        CPU_SET(rank % (int)sysconf(_SC_NPROCESSORS_ONLN), &s);
        sched_setaffinity(0, sizeof s, &s);
    }

    size_t sizes[128];
    int ns = 0;
    size_t hi = parse(argv[optind + 2]);
    if (hi == 0) {
        for (char *p = strtok(argv[optind + 1], ","); p && ns < 128; p = strtok(0, ","))
            sizes[ns++] = parse(p);
    } else {
        for (double s = (double)parse(argv[optind + 1]); s <= (double)hi && ns < 128; s *= factor)
            sizes[ns++] = (size_t)s;
    }
    if (op == BARRIER) {
        ns = 1;
        sizes[0] = 0;
    }

    int blocked = op == ALLGATHER || op == REDUCE_SCATTER || op == REDUCE_SCATTER_V ||
                  op == ALLTOALL || op == GATHER || op == SCATTER;
    double f = op == ALLREDUCE ? 2.0 * (n - 1) / n : blocked ? (double)(n - 1) / n : 1;
    long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (l2 <= 0) l2 = 1 << 20;
    counts = calloc(n, sizeof *counts);

    if (rank == 0)
        printf("%-14s %-16s %3s %2s %11s %6s %11s %11s %11s %11s %8s %8s %5s\n", "#lib", "op", "n",
               "ip", "bytes", "iters", "min_us", "med_us", "max_us", "loop_us", "algbw", "busbw",
               "check");

    for (int si = 0; si < ns; si++) {
        size_t cnt = sizes[si] / 4 / (blocked ? n : 1);
        if (cnt < 1 && op != BARRIER) cnt = 1;
        for (int r = 0; r < n; r++) counts[r] = (int)cnt;
        size_t bytes = cnt * 4 * (blocked ? n : 1);

        /* sizes of the two buffers of this rank, in floats */
        size_t ins = cnt, outs = cnt;
        switch (op) {
        case REDUCE_SCATTER:
        case REDUCE_SCATTER_V:
            ins = cnt * n;
            if (inplace) outs = cnt * n;
            break;
        case ALLGATHER: outs = cnt * n; break;
        case ALLTOALL: ins = outs = cnt * n; break;
        case GATHER: outs = rank ? 0 : cnt * n; break;
        case SCATTER: ins = rank ? 0 : cnt * n; break;
        case BROADCAST: ins = 0; break;
        }
        if (inplace) ins = 0;

        int sets = 1;
        size_t foot = bytes * (inplace || op == BROADCAST ? 1 : 2);
        if (rotate == 2 || (rotate == 1 && foot > (size_t)l2)) {
            sets = (int)((POOL + foot - 1) / (foot ? foot : 1));
            if (sets < 2) sets = foot > POOL ? 1 : 2;
            if (sets > 512) sets = 512;
        }
        float **in = calloc(sets, sizeof *in), **out = calloc(sets, sizeof *out);
        for (int k = 0; k < sets; k++) {
            in[k] = alloc(ins * 4);
            out[k] = alloc(outs * 4);
        }

        int bad = -1;
        if (!nocheck && op != BARRIER) {
            prepare(in[0], out[0], cnt, ins, outs);
            MPI_Barrier(MPI_COMM_WORLD);
            run(in[0], out[0], cnt);
            bad = check(out[0], cnt);
        }
        /* in place sums would grow without end: time those on zeros */
        for (int k = 0; k < sets; k++) {
            if (ins) fill(in[k], ins);
            if (outs) memset(out[k], 0, outs * 4);
            if (op == BROADCAST && rank == 0) fill(out[k], cnt);
        }

        /* warm up (every buffer set once, at most 2 s), then choose iterations */
        MPI_Barrier(MPI_COMM_WORLD);
        double t0 = now(), est = 1e30, mx;
        int more = 1;
        for (int k = 0; more; k++) {
            double t = now();
            run(in[k % sets], out[k % sets], cnt);
            t = now() - t;
            MPI_Allreduce(&t, &mx, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            if (mx < est) est = mx;
            more = k + 1 < (sets > 4 ? sets : 4) && now() - t0 < 2;
            MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
        int iters = fixed ? fixed : (int)(budget / (est + 1e-9));
        if (!fixed) {
            if (iters < 5) iters = 5;
            if (iters > 2000) iters = 2000;
        }
        MPI_Bcast(&iters, 1, MPI_INT, 0, MPI_COMM_WORLD);

        double *ts = malloc(sizeof(double) * iters), *all = malloc(sizeof(double) * iters);
        int done = 0;
        double stop = now() + 4 * budget + 1; /* in case the estimate was off */
        for (int k = 0; k < iters; k++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double t = now();
            run(in[k % sets], out[k % sets], cnt);
            ts[k] = (now() - t) * scale();
            done++;
            if ((k & 15) == 15 && !fixed) {
                int go = now() < stop;
                MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
                if (!go) break;
            }
        }
        iters = done;
        MPI_Allreduce(ts, all, iters, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (bad == 0 && !inplace) bad = check(out[(iters - 1) % sets], cnt);

        MPI_Barrier(MPI_COMM_WORLD);
        double t = now();
        for (int k = 0; k < iters; k++) run(in[k % sets], out[k % sets], cnt);
        t = (now() - t) / iters * scale();
        MPI_Allreduce(&t, &mx, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);

        qsort(all, iters, sizeof *all, cmpd);
        double med = all[iters / 2];
        if (rank == 0) {
            printf("%-14s %-16s %3d %2s %11zu %6d %11.2f %11.2f %11.2f %11.2f %8.3f %8.3f %5s\n",
                   label, opname[op], n, inplace ? "y" : "n", bytes, iters, all[0] * 1e6, med * 1e6,
                   all[iters - 1] * 1e6, mx * 1e6, bytes / med / 1e9, bytes / med / 1e9 * f,
                   bad < 0 ? "-"
                   : bad   ? "BAD"
                           : "ok");
            fflush(stdout);
        }
        for (int k = 0; k < sets; k++) {
            free(in[k]);
            free(out[k]);
        }
        free(in);
        free(out);
        free(ts);
        free(all);
    }
    MPI_Finalize();
    return 0;
}
