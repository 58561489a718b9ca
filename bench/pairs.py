"""The parts that benchmarks of a framework over Tutti beside its own transport share (jax_pairs.py, tensorflow_pairs.py).

A process has one transport, so there are two jobs, both alive for the whole run. They take turns: one measures while the other waits for a
line of input and uses no processor. A pair is a turn of each; the ratio of its two times is one sample. A time is that of one call, from
the call to the ready result, as the slowest process sees it: the median of the calls of the turn.

With --hosts RATE each process is on an emulated host of its own (peers/cluster, which needs root), with links of RATE Mbit/s.

The table has the median of each side's times and of the ratios, and the 95 % limits of the latter (from the binomial distribution, so that no
shape of the samples is assumed). Nothing else should run beside it.
"""

import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import time

CLUSTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "cluster")


def bytes_of(text):
    return int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1], 0)


# -------------------------------------------------------------------------------------- a process of a job


def serve(call_of):
    """Answers each line of input, an operation and a size, with the seconds of a call. call_of(operation, bytes) makes the call."""
    calls = {}
    print("ready", flush=True)
    for line in sys.stdin:
        name, size_bytes = line.split()
        if (name, size_bytes) not in calls:
            calls[name, size_bytes] = call_of(name, int(size_bytes))
        call = calls[name, size_bytes]
        for _ in range(3):
            call()
        times = []
        for _ in range(max(5, min(100, (32 << 20) // int(size_bytes)))):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        print("took", statistics.median(times), flush=True)


# ------------------------------------------------------------------------------------------ who asks them


def answer(process, word):
    """The rest of the process's next line that begins with the word. Transports write lines of their own to standard output."""
    for line in process.stdout:
        if line.split()[:1] == [word]:
            return line[len(word) :].strip()
    sys.exit(f"a process of a job has ended: {' '.join(process.args)}")


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Job:
    """The processes of one side, with the environment of a launcher, and TensorFlow's TF_CONFIG."""

    def __init__(self, side, ranks, hosts):
        port, *workers = free_ports(1 + ranks)
        addresses = hosts or ["127.0.0.1"] * ranks
        self.processes = []
        for rank in range(ranks):
            config = {
                "cluster": {"worker": [f"{address}:{worker}" for address, worker in zip(addresses, workers)]},
                "task": {"type": "worker", "index": rank},
            }
            environment = dict(
                os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR=addresses[0], MASTER_PORT=str(port),
                TF_CONFIG=json.dumps(config), TF_CPP_MIN_LOG_LEVEL="3",
            )
            if hosts:
                environment["GLOO_SOCKET_IFNAME"] = "eth0"
            place = [CLUSTER, "exec", str(rank)] if hosts else []
            command = [*place, sys.executable, os.path.abspath(sys.argv[0]), "--work", side]
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


def compare(sides, chosen, arguments, hosts):
    jobs = {side: Job(side, arguments.ranks, hosts) for side in sides}
    other = sides[1]
    ratio = f"{other} / Tutti"
    print(f"{arguments.ranks} processes, {arguments.pairs} pairs; {ratio} above 1: Tutti is faster")
    print(f"{'':14}{'bytes':>10}{'Tutti':>12}{other:>12}{ratio:>14}   95 % limits")
    ratios = []
    for name in chosen:
        for size_bytes in map(bytes_of, arguments.sizes.split(",")):
            times = {side: [] for side in sides}
            for side in sides:
                jobs[side].seconds(name, size_bytes)  # compiles
            for pair in range(arguments.pairs):
                for side in sides if pair % 2 == 0 else reversed(sides):
                    times[side].append(jobs[side].seconds(name, size_bytes))
            samples = [theirs / tutti for tutti, theirs in zip(times["tutti"], times[other])]
            low, high = limits(samples)
            ratios.append(statistics.median(samples))
            medians = "".join(f"{text_of(statistics.median(times[side])):>12}" for side in sides)
            print(f"{name:14}{size_bytes:10}{medians}{ratios[-1]:14.2f}   {low:.2f} to {high:.2f}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}")
    for job in jobs.values():
        job.end()


def main(document, other, operations, work):
    """Of a benchmark: its text, the other side's name, its operations (the first is measured unless others are asked for), and the
    function that is a process of a job of one side."""
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="4K,64K,1M,16M", help="bytes that each process gives, with K and M")
    parser.add_argument("--operations", default=operations[0], help=f"some of {','.join(operations)}; all: each of them")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--hosts", type=float, metavar="RATE")
    sides = ("tutti", other)
    parser.add_argument("--work", choices=sides, help=argparse.SUPPRESS)  # a process of a job
    arguments = parser.parse_args()
    chosen = operations if arguments.operations == "all" else tuple(arguments.operations.split(","))
    if set(chosen) - set(operations) or arguments.ranks < 2 or arguments.pairs < 6:
        parser.error("at least 2 ranks, at least 6 pairs, and operations that there are")
    if arguments.work:
        return work(arguments.work)
    if arguments.hosts is None:
        compare(sides, chosen, arguments, [])
        return None
    subprocess.run([CLUSTER, "up", "--hosts", str(arguments.ranks), "--host-rate", f"{arguments.hosts}mbit"], check=True)
    try:
        addresses = subprocess.run([CLUSTER, "hostfile"], check=True, text=True, stdout=subprocess.PIPE).stdout.split()
        compare(sides, chosen, arguments, addresses)
    finally:
        subprocess.run([CLUSTER, "down"], check=False)
    return None
