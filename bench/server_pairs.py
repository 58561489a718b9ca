"""Parameter servers of Tutti beside those of MXNet (dist_sync and dist_async), in alternating pairs (pairs.py says how).

    python bench/server_pairs.py                             # 2 workers; 1 and 2 servers; 4 KiB to 64 MiB, and rows of a table
    python bench/server_pairs.py --servers 2 --modes sync --sides tutti,tutti-tcp

A call pushes a gradient and pulls the values: `push_pull` of tutti.server; `push` and `pull` of MXNet's kvstore and a wait for the values.
The servers apply plain SGD. Sizes are bytes of a dense tensor, or "rows": 10,000 draws of Zipf's distribution with exponent 1, about
5,000 different rows, of a table of 1,000,000 rows of 16; each side keeps the array of a pull. "tutti-tcp" is Tutti over TCP, which
MXNet uses within a host, too.

Needs NumPy and, for "mxnet", MXNet 1.9.1 (Python 3.11 and numpy 1.23.5 work).
"""

import argparse
import functools
import os
import statistics
import subprocess
import sys
import time

import pairs

ROWS, WIDTH, DRAWS = 1_000_000, 16, 10_000
RATE = 2.0**-10
SIDES = ("tutti", "tutti-tcp", "mxnet")
TURN_S = 0.15


def elements_of(size):
    return pairs.bytes_of(size) // 4


def rows_of(np, worker):
    random = np.random.default_rng(worker)
    return np.unique((float(ROWS) ** random.random(DRAWS)).astype(np.int64) - 1)


# ----------------------------------------------------------------------------------------- a process of a job


def serve(call_of, workers, checks):
    """Answers each line, a size and a number of calls, with the seconds of a call. call_of(size) makes three functions: one that makes
    the gradient, outside of the time; the call; and one that gives the last value of the call's result, which is checked in
    synchronous modes."""
    made, done = {}, {}
    print("ready", flush=True)
    for line in sys.stdin:
        size, count = line.split()
        if size not in made:
            made[size], done[size] = call_of(size), 0
        (prepare, call, last_of), times = made[size], []
        for _ in range(1 + int(count)):
            prepare()
            began = time.perf_counter()
            result = call()
            times.append(time.perf_counter() - began)
        done[size] += len(times)
        if checks and size != "rows":
            assert last_of(result) == -RATE * workers * done[size], (size, last_of(result), done[size])
        print("took", statistics.median(times[1:]), flush=True)


def work_of_tutti(role, servers, workers, mode, sizes):
    import numpy as np
    import tutti
    from tutti import server

    optimizer = server.SGD(RATE)
    tables = [
        server.Table(size, rows=ROWS, width=WIDTH, optimizer=optimizer)
        if size == "rows"
        else server.Table(size, shape=(elements_of(size),), optimizer=optimizer)
        for size in sizes
    ]
    modes = {"sync": "synchronous", "async": "asynchronous"}
    with tutti.init() as comm:
        with server.Server(comm, tables, servers=range(servers), mode=modes[mode]) as made:
            made.serve()

            def call_of(size):
                rows = rows_of(np, comm.rank) if size == "rows" else None
                gradient = np.ones(elements_of(size) if rows is None else (len(rows), WIDTH), np.float32)
                values = np.empty_like(gradient)
                given = {size: gradient if rows is None else (rows, gradient)}
                wanted = {size: values if rows is None else (rows, values)}
                return (
                    lambda: gradient.fill(1),
                    lambda: made.push_pull(given, wanted)[size],
                    lambda values: values.flat[-1],
                )

            if made.is_worker:
                serve(call_of, workers, mode == "sync")


def work_of_mxnet(role, servers, workers, mode, sizes):
    import numpy as np

    if role != "worker":
        import mxnet  # noqa: F401 - serves, and ends with the job

        return
    import mxnet as mx

    store = mx.kv.create(f"dist_{mode}")
    for key, size in enumerate(sizes):
        if size == "rows":
            store.init(key, mx.nd.ones((ROWS, WIDTH)).tostype("row_sparse"))  # every row: servers refuse an empty table
        else:
            store.init(key, mx.nd.zeros(elements_of(size)))
    store.set_optimizer(mx.optimizer.SGD(learning_rate=RATE, wd=0))

    def call_of(size):
        key = sizes.index(size)
        if size == "rows":
            rows = rows_of(np, store.rank)
            ids = mx.nd.array(rows, dtype="int64")
            gradient = mx.nd.sparse.row_sparse_array((mx.nd.ones((len(rows), WIDTH)), ids), shape=(ROWS, WIDTH))
            values = mx.nd.sparse.zeros("row_sparse", (ROWS, WIDTH))
            pull = functools.partial(store.row_sparse_pull, key, out=values, row_ids=ids)
        else:
            gradient, values = mx.nd.ones(elements_of(size)), mx.nd.zeros(elements_of(size))
            pull = functools.partial(store.pull, key, out=values)

        def prepare():  # the pull of a dense tensor leaves its values in the gradient, too
            if size != "rows":
                gradient[:] = 1
                gradient.wait_to_read()

        def call():
            store.push(key, gradient)
            pull()
            values.wait_to_read()
            return values

        return prepare, call, lambda values: values[-1].asscalar()

    serve(call_of, workers, mode == "sync")


# ----------------------------------------------------------------------------------------------- the jobs


class Job:
    """The processes of one side."""

    def __init__(self, side, servers, workers, mode, sizes):
        (port,) = pairs.free_ports(1)
        roles = (["scheduler"] if side == "mxnet" else []) + ["server"] * servers + ["worker"] * workers
        self.others, self.workers = [], []
        for rank, role in enumerate(roles):
            environment = dict(os.environ)
            if side == "mxnet":
                environment.update(
                    DMLC_ROLE=role, DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=str(port), DMLC_NUM_SERVER=str(servers),
                    DMLC_NUM_WORKER=str(workers), DMLC_NODE_HOST="127.0.0.1",
                )  # fmt: skip
            else:
                environment.update(
                    RANK=str(rank), WORLD_SIZE=str(len(roles)), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
                )
            if side == "tutti-tcp":
                environment["TUTTI_TRANSPORT"] = "tcp"
            command = [sys.executable, os.path.abspath(__file__), "--work", side, role, str(servers), str(workers), mode, *sizes]
            process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            (self.workers if role == "worker" else self.others).append(process)
        for process in self.workers:
            pairs.answer(process, "ready")

    def seconds(self, size, count):
        for process in self.workers:
            process.stdin.write(f"{size} {count}\n")
            process.stdin.flush()
        return max(float(pairs.answer(process, "took")) for process in self.workers)

    def end(self):
        for process in self.workers:
            process.stdin.close()
        for process in self.workers + self.others:
            process.wait(timeout=60)


def measure(jobs, sides, size, pair_count):
    """Times of each side, pair by pair. A turn has as many calls as take TURN_S."""
    counts = {}
    for side in sides:
        jobs[side].seconds(size, 1)
        counts[side] = max(1, min(100, int(TURN_S / jobs[side].seconds(size, 1))))
    times = {side: [] for side in sides}
    for pair in range(pair_count):
        for side in sides if pair % 2 == 0 else reversed(sides):
            times[side].append(jobs[side].seconds(size, counts[side]))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="1,2")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--modes", default="sync,async")
    parser.add_argument("--sides", default=",".join(SIDES), help="the last one is compared with each other one")
    parser.add_argument("--sizes", default="4K,64K,1M,16M,64M,rows")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        side, role, servers, workers, mode, *sizes = arguments.work
        work = work_of_mxnet if side == "mxnet" else work_of_tutti
        return work(role, int(servers), int(workers), mode, sizes)
    sides, sizes = arguments.sides.split(","), arguments.sizes.split(",")
    if set(sides) - set(SIDES) or arguments.pairs < 6:
        parser.error(f"sides of {', '.join(SIDES)}, and at least 6 pairs")
    ratios = {side: [] for side in sides[:-1]}
    print(f"{arguments.workers} workers, {arguments.pairs} pairs; the columns on the right are {sides[-1]} / the other side")
    print(f"{'mode':6}{'servers':>8}{'bytes':>7}" + "".join(f"{side:>12}" for side in sides + sides[:-1]))
    for mode in arguments.modes.split(","):
        for servers in map(int, arguments.servers.split(",")):
            jobs = {side: Job(side, servers, arguments.workers, mode, sizes) for side in sides}
            for size in sizes:
                times = measure(jobs, sides, size, arguments.pairs)
                line = f"{mode:6}{servers:8}{size:>7}" + "".join(
                    f"{pairs.text_of(statistics.median(times[side])):>12}" for side in sides
                )
                for side in sides[:-1]:
                    ratios[side].append(statistics.median(b / a for a, b in zip(times[side], times[sides[-1]])))
                    line += f"{ratios[side][-1]:12.2f}"
                print(line, flush=True)
            for job in jobs.values():
                job.end()
    for side, samples in ratios.items():
        print(f"geometric mean {statistics.geometric_mean(samples):.2f}, least {min(samples):.2f}: {sides[-1]} / {side}")
    return None


main()
