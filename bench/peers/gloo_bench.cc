/* gloo_bench.cc - times the collectives of Gloo (TCP transport).
 *
 *   ./gloo_bench -R RANK -N NRANKS -S STOREDIR [-A ADDR] OP MINBYTES MAXBYTES [options]
 *   ./gloo_bench -N NRANKS OP MINBYTES MAXBYTES [options]      (forks all ranks here)
 *
 *   OP        allreduce allgather reduce_scatter broadcast reduce alltoall
 *             gather scatter barrier
 *   MIN/MAX   as mpi_bench: MIN, MIN*FACTOR .. MAX, or a list and MAX = 0
 *   -a ALGO   allreduce: ring (default) bcube             the current API,
 *                        ring_old ring_chunked halving_doubling bcube_old
 *                        the older classes: buffers are registered once
 *             broadcast: binomial (default) one_to_all (old)
 *             allgather: ring (default) ring_old
 *             reduce_scatter exists only as halving_doubling (old)
 *   -s        old classes only: synchronous pairs with busy polling
 *   -S DIR    rendezvous directory (FileStore), the same for all ranks, empty
 *   -A ADDR   address of this rank's interface (default 127.0.0.1)
 *   -f -n -t -i -p -c -r -l   as mpi_bench (see the top of mpi_bench.c); the
 *             old classes always work in place
 *
 * Meaning of bytes, times, busbw, buffer rotation, check and the output columns
 * are those of mpi_bench.c.  The reduction function is Gloo's own gloo::sum<float>,
 * a template, hence compiled here with the flags of this file.
 *
 *   c++ -O3 -march=native -o gloo_bench gloo_bench.cc -lgloo
 */
#include <gloo/allgather.h>
#include <gloo/allgather_ring.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

static const size_t POOL = (size_t)256 << 20;
static int rank_ = -1, n = 0, inplace = 0;
static std::string op, algo, label = "gloo";
/* ctx carries the timed operation, ctl the harness's own barriers and maxima
 * (two, because synchronous pairs cannot serve the current API) */
static std::shared_ptr<gloo::Context> ctx, ctl;

static double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
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
static float *alloc(size_t floats)
{
    void *p = nullptr;
    const size_t page = floats >= 16384 ? size_t(2) << 20 : 4096; /* as in mpi_bench.c */
    if (posix_memalign(&p, page, (floats * 4 + 64 + page - 1) / page * page)) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    memset(p, 0, floats * 4 + 64);
    return (float *)p;
}

/* ------------------------------------------------ small helpers on top of Gloo */
static void barrier(const std::shared_ptr<gloo::Context> &c)
{
    gloo::BarrierOptions o(c);
    gloo::barrier(o);
}
static void barrier()
{
    barrier(ctl);
}
static void max_over_ranks(double *v, size_t m)
{
    gloo::AllreduceOptions o(ctl);
    o.setOutput(v, m);
    o.setReduceFunction([](void *c, const void *a, const void *b, size_t k) {
        for (size_t i = 0; i < k; i++)
            ((double *)c)[i] = std::max(((const double *)a)[i], ((const double *)b)[i]);
    });
    gloo::allreduce(o);
}
static double max_over_ranks(double v)
{
    max_over_ranks(&v, 1);
    return v;
}
static int from_root(int v)
{
    gloo::BroadcastOptions o(ctl);
    o.setOutput(&v, 1);
    o.setRoot(0);
    gloo::broadcast(o);
    return v;
}

/* ------------------------------------------- one operation call for one buffer set */
typedef std::function<void()> Call;
typedef void (*SumFn)(void *, const void *, const void *, size_t);
static const SumFn sum_ = &gloo::sum<float>;

static bool old_class()
{
    return algo == "ring_old" || algo == "ring_chunked" || algo == "halving_doubling" ||
           algo == "bcube_old" || algo == "one_to_all" || op == "reduce_scatter";
}
static Call keep(gloo::Algorithm *a)
{
    std::shared_ptr<gloo::Algorithm> p(a);
    return [p] { p->run(); };
}

static Call make(float *in, float *out, size_t c)
{
    if (op == "allreduce") {
        std::vector<float *> p{out};
        if (algo == "ring_old") return keep(new gloo::AllreduceRing<float>(ctx, p, (int)c));
        if (algo == "ring_chunked")
            return keep(new gloo::AllreduceRingChunked<float>(ctx, p, (int)c));
        if (algo == "halving_doubling")
            return keep(new gloo::AllreduceHalvingDoubling<float>(ctx, p, (int)c));
        if (algo == "bcube_old") return keep(new gloo::AllreduceBcube<float>(ctx, p, (int)c));
        return [=] {
            gloo::AllreduceOptions o(ctx);
            if (!inplace) o.setInput(in, c);
            o.setOutput(out, c);
            o.setReduceFunction(sum_);
            o.setAlgorithm(algo == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                           : gloo::AllreduceOptions::Algorithm::RING);
            gloo::allreduce(o);
        };
    }
    if (op == "allgather") {
        if (algo == "ring_old") return keep(new gloo::AllgatherRing<float>(ctx, {in}, out, (int)c));
        return [=] {
            gloo::AllgatherOptions o(ctx);
            if (!inplace) o.setInput(in, c);
            o.setOutput(out, c * n);
            gloo::allgather(o);
        };
    }
    if (op == "reduce_scatter")
        return keep(new gloo::ReduceScatterHalvingDoubling<float>(ctx, {out}, (int)(c * n),
                                                                  std::vector<int>(n, (int)c)));
    if (op == "broadcast") {
        if (algo == "one_to_all")
            return keep(new gloo::BroadcastOneToAll<float>(ctx, {out}, (int)c));
        return [=] {
            gloo::BroadcastOptions o(ctx);
            o.setOutput(out, c);
            o.setRoot(0);
            gloo::broadcast(o);
        };
    }
    if (op == "reduce")
        return [=] {
            gloo::ReduceOptions o(ctx);
            if (!inplace) o.setInput(in, c);
            o.setOutput(out, c);
            o.setRoot(0);
            o.setReduceFunction(sum_);
            gloo::reduce(o);
        };
    if (op == "alltoall")
        return [=] {
            gloo::AlltoallOptions o(ctx);
            o.setInput(in, c * n);
            o.setOutput(out, c * n);
            gloo::alltoall(o);
        };
    if (op == "gather")
        return [=] {
            gloo::GatherOptions o(ctx);
            o.setInput(in, c);
            if (rank_ == 0) o.setOutput(out, c * n);
            o.setRoot(0);
            gloo::gather(o);
        };
    if (op == "scatter")
        return [=] {
            gloo::ScatterOptions o(ctx);
            if (rank_ == 0) {
                std::vector<float *> v;
                for (int r = 0; r < n; r++) v.push_back(in + r * c);
                o.setInputs(v, c);
            }
            o.setOutput(out, c);
            o.setRoot(0);
            gloo::scatter(o);
        };
    if (op == "barrier") return [] { barrier(ctx); };
    fprintf(stderr, "gloo_bench: unknown operation %s\n", op.c_str());
    exit(2);
}

/* --------------------------------------------------------------- data and check */
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
static bool check(const float *out, size_t c)
{
    size_t bad = 0, i;
    int r;
    if (op == "allreduce" || (op == "reduce" && rank_ == 0))
        for (i = 0; i < c; i++) bad += out[i] != sum(i);
    else if (op == "reduce_scatter")
        for (i = 0; i < c; i++) bad += out[i] != sum(c * rank_ + i);
    else if (op == "broadcast")
        for (i = 0; i < c; i++) bad += out[i] != val(0, i);
    else if (op == "scatter")
        for (i = 0; i < c; i++) bad += out[i] != val(0, c * rank_ + i);
    else if (op == "allgather" || (op == "gather" && rank_ == 0)) {
        for (r = 0; r < n; r++)
            for (i = 0; i < c; i++) bad += out[r * c + i] != val(r, i);
    } else if (op == "alltoall")
        for (r = 0; r < n; r++)
            for (i = 0; i < c; i++) bad += out[r * c + i] != val(r, c * rank_ + i);
    return max_over_ranks(bad != 0) != 0;
}

int main(int argc, char **argv)
{
    double factor = 4, budget = 0.5;
    int fixed = 0, pin = 0, nocheck = 0, rotate = 1, sync = 0, o;
    std::string store, addr = "127.0.0.1";
    while ((o = getopt(argc, argv, "R:N:S:A:a:sf:n:t:ipcr:l:")) != -1) switch (o) {
        case 'R': rank_ = atoi(optarg); break;
        case 'N': n = atoi(optarg); break;
        case 'S': store = optarg; break;
        case 'A': addr = optarg; break;
        case 'a': algo = optarg; break;
        case 's': sync = 1; break;
        case 'f': factor = atof(optarg); break;
        case 'n': fixed = atoi(optarg); break;
        case 't': budget = atof(optarg); break;
        case 'i': inplace = 1; break;
        case 'p': pin = 1; break;
        case 'c': nocheck = 1; break;
        case 'r': rotate = !strcmp(optarg, "never") ? 0 : !strcmp(optarg, "always") ? 2 : 1; break;
        case 'l': label = optarg; break;
        default: fprintf(stderr, "bad option, see the top of gloo_bench.cc\n"); return 2;
        }
    if (argc - optind < 3 || n < 1) {
        fprintf(stderr, "usage: see the top of gloo_bench.cc\n");
        return 2;
    }
    op = argv[optind];

    /* no rank given: be the launcher, one forked process per rank */
    if (rank_ < 0) {
        char dir[] = "/tmp/gloo_bench.XXXXXX";
        if (store.empty()) {
            if (!mkdtemp(dir)) {
                perror("mkdtemp");
                return 2;
            }
        }
        for (int r = 0; r < n; r++)
            if (!fork()) {
                rank_ = r;
                break;
            }
        if (rank_ < 0) {
            int bad = 0, st;
            for (int r = 0; r < n; r++) {
                wait(&st);
                bad |= st;
            }
            if (store.empty()) {
                std::string c = std::string("rm -rf ") + dir;
                if (system(c.c_str())) bad = 1;
            }
            return bad != 0;
        }
        if (store.empty()) store = dir;
    }
    if (store.empty()) {
        fprintf(stderr, "-S is needed with -R\n");
        return 2;
    }
    if (pin) { /* before the device: its thread inherits the mask */
        cpu_set_t s;
        CPU_ZERO(&s);
        CPU_SET(rank_ % (int)sysconf(_SC_NPROCESSORS_ONLN), &s);
        sched_setaffinity(0, sizeof s, &s);
    }

    try {
        gloo::transport::tcp::attr attr(addr.c_str());
        std::shared_ptr<gloo::transport::Device> dev = gloo::transport::tcp::CreateDevice(attr);
        gloo::rendezvous::FileStore fs(store);
        for (auto *c : {&ctx, &ctl}) {
            auto rc = std::make_shared<gloo::rendezvous::Context>(rank_, n);
            gloo::rendezvous::PrefixStore ps(c == &ctx ? "ops" : "ctl", fs);
            rc->setTimeout(std::chrono::seconds(120));
            rc->connectFullMesh(ps, dev);
            *c = rc;
        }

        bool old = old_class();
        if (old) inplace = 1;
        if (op == "alltoall" || op == "gather" || op == "scatter" || op == "broadcast" ||
            (op == "allgather" && old))
            inplace = 0;
        std::vector<size_t> sizes;
        size_t hi = parse(argv[optind + 2]);
        if (hi == 0)
            for (char *p = strtok(argv[optind + 1], ","); p; p = strtok(nullptr, ","))
                sizes.push_back(parse(p));
        else
            for (double s = (double)parse(argv[optind + 1]); s <= (double)hi; s *= factor)
                sizes.push_back((size_t)s);
        if (op == "barrier") sizes.assign(1, 0);

        bool blocked = op == "allgather" || op == "reduce_scatter" || op == "alltoall" ||
                       op == "gather" || op == "scatter";
        double f = op == "allreduce" ? 2.0 * (n - 1) / n : blocked ? (double)(n - 1) / n : 1;
        long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
        if (l2 <= 0) l2 = 1 << 20;
        std::string name = label + (algo.empty() ? "" : ":" + algo) + (sync ? ":sync" : "");

        if (rank_ == 0)
            printf("%-14s %-16s %3s %2s %11s %6s %11s %11s %11s %11s %8s %8s %5s\n", "#lib", "op",
                   "n", "ip", "bytes", "iters", "min_us", "med_us", "max_us", "loop_us", "algbw",
                   "busbw", "check");

        for (size_t S : sizes) {
            size_t c = S / 4 / (blocked ? n : 1);
            if (c < 1 && op != "barrier") c = 1;
            size_t bytes = c * 4 * (blocked ? n : 1);
            size_t ins = c, outs = c;
            if (op == "allgather") outs = c * n;
            if (op == "alltoall") ins = outs = c * n;
            if (op == "gather") outs = rank_ ? 0 : c * n;
            if (op == "scatter") ins = rank_ ? 0 : c * n;
            if (op == "reduce_scatter") {
                ins = 0;
                outs = c * n;
            }
            if (op == "broadcast" || inplace) ins = 0;

            int sets = 1;
            size_t foot = bytes * (inplace || op == "broadcast" ? 1 : 2);
            if (rotate == 2 || (rotate == 1 && foot > (size_t)l2)) {
                sets = (int)((POOL + foot - 1) / std::max<size_t>(foot, 1));
                if (sets < 2) sets = foot > POOL ? 1 : 2;
                /* the old classes hold scratch buffers per set; fewer sets do */
                if (old && sets > 32) sets = 32;
                if (sets > 512) sets = 512;
            }
            std::vector<float *> in(sets), out(sets);
            std::vector<Call> call(sets);
            for (int k = 0; k < sets; k++) {
                in[k] = alloc(ins);
                out[k] = alloc(outs);
                call[k] = make(in[k], out[k], c);
            }
            /* constructing the old classes needs asynchronous pairs, so switch after */
            if (sync && old)
                for (int r = 0; r < n; r++)
                    if (r != rank_) ctx->getPair(r)->setSync(true, true);

            auto fill = [&](float *p, size_t m) {
                for (size_t i = 0; i < m; i++) p[i] = val(rank_, i);
            };
            auto prepare = [&](int k) {
                fill(in[k], ins);
                for (size_t i = 0; i < outs; i++) out[k][i] = -7;
                if (op == "broadcast" && rank_ == 0) fill(out[k], c);
                if (inplace && op == "allgather")
                    for (size_t i = 0; i < c; i++) out[k][c * rank_ + i] = val(rank_, i);
                else if (inplace)
                    fill(out[k], outs);
            };
            int bad = -1;
            if (!nocheck && op != "barrier") {
                prepare(0);
                barrier();
                call[0]();
                bad = check(out[0], c);
            }
            for (int k = 0; k < sets; k++) {
                prepare(k);
                if (inplace) memset(out[k], 0, outs * 4); /* sums in place would grow without end */
            }

            barrier();
            double t0 = now(), est = 1e30;
            int more = 1;
            for (int k = 0; more; k++) {
                double t = now();
                call[k % sets]();
                est = std::min(est, max_over_ranks(now() - t));
                more = from_root(k + 1 < std::max(4, sets) && now() - t0 < 2);
            }
            int iters = fixed ? fixed : std::min(2000, std::max(5, (int)(budget / (est + 1e-9))));
            iters = from_root(iters);
            std::vector<double> ts(iters);
            double stop = now() + 4 * budget + 1;
            int done = 0;
            for (int k = 0; k < iters; k++) {
                barrier();
                double t = now();
                call[k % sets]();
                ts[k] = now() - t;
                done++;
                if ((k & 15) == 15 && !fixed && !from_root(now() < stop)) break;
            }
            iters = done;
            ts.resize(iters);
            max_over_ranks(ts.data(), iters);
            if (bad == 0 && !inplace) bad = check(out[(iters - 1) % sets], c);

            barrier();
            double t = now();
            for (int k = 0; k < iters; k++) call[k % sets]();
            double loop = max_over_ranks((now() - t) / iters);

            std::sort(ts.begin(), ts.end());
            double med = ts[iters / 2];
            if (rank_ == 0) {
                printf(
                    "%-14s %-16s %3d %2s %11zu %6d %11.2f %11.2f %11.2f %11.2f %8.3f %8.3f %5s\n",
                    name.c_str(), op.c_str(), n, inplace ? "y" : "n", bytes, iters, ts[0] * 1e6,
                    med * 1e6, ts[iters - 1] * 1e6, loop * 1e6, bytes / med / 1e9,
                    bytes / med / 1e9 * f,
                    bad < 0 ? "-"
                    : bad   ? "BAD"
                            : "ok");
                fflush(stdout);
            }
            barrier();
            call.clear();
            for (int k = 0; k < sets; k++) {
                free(in[k]);
                free(out[k]);
            }
        }
        barrier();
    } catch (const std::exception &e) {
        fprintf(stderr, "gloo_bench rank %d: %s\n", rank_, e.what());
        _exit(1);
    }
    fflush(stdout);
    _exit(0); /* Gloo's teardown order does not matter to us */
}
