#!/usr/bin/env python3
"""elastic_faults.py - how long an elastic training loop stands still when a rank is killed.

  python3 bench/elastic_faults.py [-r 20] [-n 4] [--mb 100] [--only spare,restart,shrink] [--verbose]

Ranks on this host, with --mb megabytes of state, take short steps: an allreduce of 1 MB, and the agreement that the step counts.
Then SIGKILL ends a rank other than rank 0:

  spare     a process that waits takes its place, and gets the state
  restart   the rank's program is started again at once, takes its place, and gets the state
  shrink    the others go on without it

A row is a case: how many runs it had; the seconds from the signal to the first step that a survivor's new team counts; and the seconds
from the moment when that survivor noticed to this step, as the loop's counters say (outage_ns). Each is a median, the value that 90 % of the runs
keep within, and the worst. A restart includes the start of Python and NumPy. A rank that dies in the commit, or after it, may have agreed that the
step counts. Then no call fails, and the loop makes the new team before the next step.

The program prints runs in which no such step came within 60 s, or in which a survivor's error names another rank, and then ends with exit code 1.

Environment: TUTTI_LIBRARY, the library (default build/lib/libtutti.so of the repository).
"""
import argparse
import os
import random
import secrets
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import typing

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASES = ("spare", "restart", "shrink")
PATIENCE_S = 60
FIRST_STEPS = 20

# ------------------------------------------------------------------------------------------------------------- a rank


def say(*words):
    print(*words, flush=True)


def train(options):
    """Prints S TEAM SIZE TIME OUTAGE for a step that counts, F MESSAGE for a call that fails."""
    import numpy as np
    import tutti.elastic

    state = np.zeros(options.mb * 250000, np.float32)
    gradients = np.ones(250000, np.float32)
    wait = None if options.worker == "shrink" else 50.0
    loop = tutti.elastic.Loop({"state": state}, replace_wait=wait, timeout=30.0, init_timeout=30.0)
    for step in loop:
        gradients[:] = 1
        loop.allreduce(gradients)
        if loop.failure is not None:
            say("F", str(loop.failure).replace("\n", " "))
        if loop.should_commit():
            say("S", step.generation, step.size, time.monotonic_ns(), loop.counters.outage_ns)


# ------------------------------------------------------------------------------------------------------------- a run


class Counted(typing.NamedTuple):
    """A step that counts; it compares by its time."""

    at_ns: int
    process: int
    team: int
    size: int
    outage_ns: int


class Job:
    """The processes of a run, and their lines. The first processes are the ranks that begin."""

    def __init__(self, options, case, folder):
        self.options, self.case = options, case
        self.lines = selectors.DefaultSelector()
        self.processes, self.steps, self.errors = [], [], []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.variables = {"TUTTI_ELASTIC_STORE": folder, "TUTTI_SECRET": secrets.token_hex(16), "WORLD_SIZE": str(options.n),
                          "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONPATH": os.path.join(ROOT, "bindings", "python", "src"),
                          "TUTTI_LIBRARY": os.environ.get("TUTTI_LIBRARY", os.path.join(ROOT, "build", "lib", "libtutti.so"))}

    def start(self, rank, joins):
        words = [sys.executable, os.path.abspath(__file__), "--worker", self.case, "--mb", str(self.options.mb)]
        variables = {**os.environ, **self.variables, "TUTTI_ELASTIC_JOIN": str(int(joins))}
        if not joins:
            variables["RANK"] = str(rank)
        process = subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, start_new_session=True,
                                   stderr=None if self.options.verbose else subprocess.DEVNULL)
        os.set_blocking(process.stdout.fileno(), False)
        self.lines.register(process.stdout, selectors.EVENT_READ, [len(self.processes), b""])
        self.processes.append(process)

    def take(self, process, line):
        kind, _, rest = line.decode(errors="replace").partition(" ")
        if kind == "F":
            self.errors.append((process, rest))
        elif kind == "S":
            team, size, at_ns, outage_ns = map(int, rest.split())
            self.steps.append(Counted(at_ns, process, team, size, outage_ns))

    def listen(self, seconds):
        """Takes in lines for so long, or until all processes have ended."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and self.lines.get_map():
            for key, _ in self.lines.select(left):
                process, rest = key.data
                received = os.read(key.fd, 1 << 16)
                if not received:
                    self.lines.unregister(key.fileobj)
                *lines, key.data[1] = (rest + received).split(b"\n")
                for line in lines:
                    self.take(process, line)

    def listen_until(self, holds):
        """Whether it held within PATIENCE_S."""
        until = time.monotonic() + PATIENCE_S
        while not holds() and time.monotonic() < until:
            self.listen(0.02)
        return holds()

    def has_begun(self):
        return all(sum(step.process == rank for step in self.steps) >= FIRST_STEPS for rank in range(self.options.n))

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
        self.lines.close()


def kill_one(job, chance):
    """(seconds from the signal to the next step, the survivor's outage in seconds), or a text that says what is wrong."""
    options, case = job.options, job.case
    victim = chance.randrange(1, options.n)
    job.listen(chance.uniform(0.3, 0.6))
    survivors = [rank for rank in range(options.n) if rank != victim]
    old_team, size = job.steps[-1].team, options.n - (case == "shrink")
    at_ns = time.monotonic_ns()
    os.killpg(job.processes[victim].pid, signal.SIGKILL)
    if case == "restart":
        job.start(victim, True)

    def find():
        return min((step for step in job.steps if step.team > old_team and step.size == size and step.process in survivors), default=None)

    if not job.listen_until(lambda: find() is not None):
        running = [rank for rank in survivors if job.processes[rank].poll() is None]
        return f"no step within {PATIENCE_S} s after the death of rank {victim}; of the survivors, {running} run; errors: {job.errors[:3]}"
    for process, message in job.errors:
        if process in survivors and f"rank {victim} " not in message:
            return f"rank {process} does not name rank {victim}: {message}"
    return (find().at_ns - at_ns) * 1e-9, find().outage_ns * 1e-9


def run_once(options, case, seed):
    with tempfile.TemporaryDirectory() as folder:
        job = Job(options, case, folder)
        try:
            for rank in range(options.n):
                job.start(rank, False)
            if case == "spare":
                job.start(options.n, True)
            return kill_one(job, random.Random(seed)) if job.listen_until(job.has_begun) else "it did not start"
        finally:
            job.end()


# ---------------------------------------------------------------------------------------------------------- the table


def spread(values):
    ordered = sorted(values)
    return f"{statistics.median(ordered):.2f} | {ordered[-(-9 * len(ordered) // 10) - 1]:.2f} | {ordered[-1]:.2f}"


def measure(options, case):
    """Prints a row; whether nothing was wrong."""
    times, is_fine = [], True
    for seed in range(options.r):
        result = run_once(options, case, seed)
        is_wrong = isinstance(result, str)
        if is_wrong or options.verbose:
            print(f"{case}, seed {seed}: {result}", file=sys.stderr, flush=True)
        if is_wrong:
            is_fine = False
        else:
            times.append(result)
    if times:
        print(f"| {case} | {len(times)} | {spread([t[0] for t in times])} | {spread([t[1] for t in times])} |", flush=True)
    return is_fine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-r", type=int, default=20, metavar="RUNS", help="of each case")
    parser.add_argument("-n", type=int, default=4, metavar="RANKS", help="that begin")
    parser.add_argument("--mb", type=int, default=100, help="megabytes of state")
    parser.add_argument("--only", default=",".join(CASES), metavar="CASES")
    parser.add_argument("--verbose", action="store_true", help="each run, and what its processes print")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        train(options)
        return 0
    cases = options.only.split(",")
    if any(case not in CASES for case in cases) or options.r < 1 or options.n < 2 or options.mb < 1:
        parser.error("cases are " + ", ".join(CASES) + "; RANKS is 2 or more, the other numbers 1 or more")
    print("| case | runs | signal to step, s: median | 90 % | worst | noticed to step, s: median | 90 % | worst |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    return 0 if all([measure(options, case) for case in cases]) else 1


if __name__ == "__main__":
    sys.exit(main())
