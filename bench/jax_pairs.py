"""Collectives of JAX over Tutti beside gloo, in alternating pairs.

    python bench/jax_pairs.py                     # 2 processes, 4 KiB to 16 MiB: the table, and the geometric mean
    python bench/jax_pairs.py --ranks 4 --pairs 31

JAX has one kind of collectives in a process, so there are two jobs of --ranks processes, both alive for the whole run. They take turns: one
measures while the other waits for a line of input and uses no processor. A pair is a turn of each; the ratio of its two times is one
sample. A time is that of one call, from dispatch to the ready result, as the slowest process sees it: the median of the calls of the turn.

The table has the median of each side's times and of the ratios, and the 95 % limits of the latter (from the binomial distribution, so that no shape of the
samples is assumed). Needs JAX and tutti_jax. Nothing else should run beside it.
"""

import argparse
import math
import os
import socket
import statistics
import subprocess
import sys
import time

OPERATIONS = ("psum", "all_gather", "psum_scatter", "all_to_all", "ppermute")
SIDES = ("tutti", "gloo")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="4K,64K,1M,16M", help="bytes that each process gives, with K and M")
    parser.add_argument("--operations", default="psum", help=f"some of {','.join(OPERATIONS)}; all: each of them")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--work", choices=SIDES, help=argparse.SUPPRESS)  # a process of a job
    arguments = parser.parse_args()
    arguments.operations = OPERATIONS if arguments.operations == "all" else tuple(arguments.operations.split(","))
    if set(arguments.operations) - set(OPERATIONS) or arguments.ranks < 2 or arguments.pairs < 6:
        parser.error("at least 2 ranks, at least 6 pairs, and operations that there are")
    return arguments


def bytes_of(text):
    return int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1], 0)


# -------------------------------------------------------------------------------------- a process of a job


def work(side):
    """Answers each line of input, an operation and a size, with the seconds of a call."""
    import tutti_jax

    tutti_jax.initialize(collectives=side)
    import jax
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    size = jax.process_count()
    mesh = Mesh(np.array(jax.devices()), ("x",))
    ring = [(i, (i + 1) % size) for i in range(size)]
    functions = {
        "psum": (lambda a: lax.psum(a, "x"), P()),
        "all_gather": (lambda a: lax.all_gather(a, "x", tiled=True), P()),
        "psum_scatter": (lambda a: lax.psum_scatter(a, "x", tiled=True), P("x")),
        "all_to_all": (lambda a: lax.all_to_all(a, "x", 0, 0, tiled=True), P("x")),
        "ppermute": (lambda a: lax.ppermute(a, "x", ring), P("x")),
    }
    calls = {}

    def call_of(name, size_bytes):
        if (name, size_bytes) not in calls:
            function, out = functions[name]
            compiled = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=out, check_vma=False))
            mine = np.full(size_bytes // 4, 1.0 + jax.process_index(), np.float32)
            array = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine, (size_bytes // 4 * size,))
            result = np.asarray(compiled(array).addressable_shards[0].data)
            if name.startswith("psum"):
                assert (result == size * (size + 1) / 2).all(), result
            calls[name, size_bytes] = lambda: compiled(array).block_until_ready()
        return calls[name, size_bytes]

    print("ready", flush=True)
    for line in sys.stdin:
        name, size_bytes = line.split()
        call = call_of(name, int(size_bytes))
        for _ in range(3):
            call()
        times = []
        for _ in range(max(5, min(100, (32 << 20) // int(size_bytes)))):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        print("took", statistics.median(times), flush=True)
    jax.distributed.shutdown()


# ------------------------------------------------------------------------------------------ who asks them


def answer(process, word):
    """What stands behind the word in the process's next line that begins with it. Gloo says things of its own on standard output."""
    for line in process.stdout:
        if line.split()[:1] == [word]:
            return line[len(word) :].strip()
    sys.exit(f"a process of a job has ended: {' '.join(process.args)}")


class Job:
    """The processes of one side."""

    def __init__(self, side, ranks):
        with socket.socket() as place:
            place.bind(("127.0.0.1", 0))
            port = place.getsockname()[1]
        self.processes = []
        for rank in range(ranks):
            environment = dict(
                os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TF_CPP_MIN_LOG_LEVEL="2"
            )
            command = [sys.executable, os.path.abspath(__file__), "--work", side]
            self.processes.append(
                subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
        for process in self.processes:
            answer(process, "ready")

    def seconds(self, name, size_bytes):
        for process in self.processes:
            process.stdin.write(f"{name} {size_bytes}\n")
            process.stdin.flush()
        return max(float(answer(process, "took")) for process in self.processes)

    def end(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(timeout=60)


def limits(samples):
    """Of the median, with at least 95 % confidence: the k-th from below and from above."""
    ordered, count = sorted(samples), len(samples)
    below, tail = 0, 0.0
    while tail + math.comb(count, below) / 2**count <= 0.025:
        tail += math.comb(count, below) / 2**count
        below += 1
    return ordered[below - 1], ordered[count - below]


def text_of(seconds):
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def main():
    arguments = parse()
    if arguments.work:
        return work(arguments.work)
    jobs = {side: Job(side, arguments.ranks) for side in SIDES}
    print(f"{arguments.ranks} processes, {arguments.pairs} pairs; gloo / Tutti above 1: Tutti is faster")
    print(f"{'':14}{'bytes':>10}{'Tutti':>12}{'gloo':>12}{'gloo / Tutti':>14}   95 % limits")
    ratios = []
    for name in arguments.operations:
        for size_bytes in map(bytes_of, arguments.sizes.split(",")):
            times = {side: [] for side in SIDES}
            for side in SIDES:
                jobs[side].seconds(name, size_bytes)  # compiles
            for pair in range(arguments.pairs):
                for side in SIDES if pair % 2 == 0 else reversed(SIDES):
                    times[side].append(jobs[side].seconds(name, size_bytes))
            samples = [gloo / tutti for tutti, gloo in zip(times["tutti"], times["gloo"])]
            low, high = limits(samples)
            ratios.append(statistics.median(samples))
            medians = "".join(f"{text_of(statistics.median(times[side])):>12}" for side in SIDES)
            print(f"{name:14}{size_bytes:10}{medians}{ratios[-1]:14.2f}   {low:.2f} to {high:.2f}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}")
    for job in jobs.values():
        job.end()


main()
