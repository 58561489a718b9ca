#!/usr/bin/env python3
"""elastic_peers.py - what deaths of replicas cost a training job: Tutti's elastic loop beside torchft.

  python3 bench/elastic_peers.py [-f 20] [--every 30] [--only wait,go-on,torchft] [--verbose]

Four replicas on this host train the same model with DistributedDataParallel: three layers, 2.1 million parameters, AdamW, so 25 MB of
state; 16 samples of a replica in a step. An accelerator is imitated by a sleep of --ms for 16 samples, beside the real passes. SIGKILL
ends one of the replicas every --every seconds, by the same list in all cases, and its program is started again at once. The cases:

  wait      Tutti: the ranks wait for the process that takes the place (replace_wait=30)
  go-on     Tutti: the others go on, with the same batch, and take the new process in when it is there (replace_wait=0,
            grow_every=1, grow_wait=0.1)
  torchft   torchft with ProcessGroupGloo: the others go on, with a smaller batch, and take the new process in. Its lighthouse has
            heartbeat_timeout_ms=1000, join_timeout_ms=1000, quorum_tick_ms=20; all else as it comes, so the quorum is asynchronous

The cases take turns: a job of each has --calm seconds without faults, and then up to five windows of --every seconds with a fault after
a sixth of them. If the machine itself stands still for four seconds or more, the window does not count, and a new job goes on.

A row is a case:

  to step    seconds from a signal to the first step that counts for a survivor in a team without the dead process
  lost       steps of survivors that did not count, for each fault
  back       seconds from a signal to the first step that counts in which the new process has a part; in brackets those until its program
             was ready to join: Python, PyTorch, the model
  goodput    samples in steps that count, divided by those of the same time at the rate of the calm seconds

A window without a step of the survivors, or without one of the new process, is printed, and makes the exit code 1. It needs PyTorch and
NumPy, and torchft for its case (pip install torchft): without it the case is left out.

Environment: TUTTI_LIBRARY, the library (default build/lib/libtutti.so of the repository).
"""
import argparse
import importlib.util
import os
import random
import secrets
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import types
import typing

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASES = ("wait", "go-on", "torchft")
REPLICAS, SAMPLES = 4, 16
START_S = 120
BLOCK = 5
STILL_S = 4

# ---------------------------------------------------------------------------------------------------------- a replica


class Diary:
    """Lines of a process: R (it is ready to join), S STEP TEAM SAMPLES HAS_PART (a step counts), L (a step does not)."""

    def __init__(self, path):
        self.file = open(path, "a", buffering=1)

    def write(self, *words):
        print(time.monotonic_ns(), *words, file=self.file)


def make_model():
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 512))
    data = torch.randn(4096, 512)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3), data, data.sin()


def train_tutti(case, ms, diary):
    import torch
    import torch.distributed as dist
    import tutti.elastic

    model, optimizer, data, wanted = make_model()
    state = tutti.elastic.torch_state(model, optimizer)
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    diary.write("R")
    waits = {"replace_wait": 30.0} if case == "wait" else {"replace_wait": None, "grow_every": 1.0, "grow_wait": 0.1}
    loop = tutti.elastic.Loop(state, batch=REPLICAS * SAMPLES, samples=len(data), seed=1, size_min=2, timeout=10.0, **waits)
    tutti.elastic.attach(loop, parallel)
    for step in loop:
        samples = torch.from_numpy(step.samples)
        optimizer.zero_grad()
        loss = (parallel(data[samples]) - wanted[samples]).square().sum() / step.batch_count
        time.sleep(ms * 1e-3 * len(samples) / SAMPLES)
        loss.backward()
        if loop.should_commit():
            optimizer.step()
            diary.write("S", step.number, step.generation, step.batch_count, 1)
        else:
            diary.write("L")


def train_torchft(number, ms, diary):
    import torch
    import torch.distributed as dist
    from torchft import Manager, ProcessGroupGloo
    from torchft.ddp import DistributedDataParallel
    from torchft.optim import OptimizerWrapper

    class Parallel(DistributedDataParallel):
        @staticmethod
        def _comm_hook(state, bucket):  # that of 0.2.0 ends the process when Gloo has an error: "assert fut._fut"
            state.allreduce(bucket.buffer()).wait()
            done = torch.futures.Future()
            done.set_result(bucket.buffer())
            return done

    def load(state):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    model, optimizer, data, wanted = make_model()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    diary.write("R")
    manager = Manager(
        pg=ProcessGroupGloo(), load_state_dict=load, min_replica_size=2, replica_id=f"replica_{number}", rank=0, world_size=1,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        store_addr="127.0.0.1", store_port=store.port, hostname="127.0.0.1")
    parallel = Parallel(manager, model)
    managed = OptimizerWrapper(manager, optimizer)
    chance = torch.Generator().manual_seed(number)
    while True:
        samples = torch.randint(len(data), (SAMPLES,), generator=chance)
        managed.zero_grad()  # begins the quorum
        loss = (parallel(data[samples]) - wanted[samples]).square().mean()
        time.sleep(ms * 1e-3)
        loss.backward()
        step = manager.current_step()
        managed.step()
        if manager.current_step() != step or manager._healing:
            diary.write("S", manager.current_step(), manager._quorum_id, manager.num_participants() * SAMPLES, int(manager.is_participating()))
        else:
            diary.write("L")


def train(options):
    case, number, path = options.worker
    if case == "torchft":
        train_torchft(int(number), options.ms, Diary(path))
    else:
        train_tutti(case, options.ms, Diary(path))


# ---------------------------------------------------------------------------------------------------------- a job


class Stood(Exception):
    """The machine stood still."""


class Counted(typing.NamedTuple):
    at_ns: int
    process: int
    step: int
    team: int
    samples: int
    has_part: int


def rest_until(until):
    """Sleeps until that time; raises Stood if the machine did not run meanwhile."""
    now = time.monotonic()
    while now < until:
        time.sleep(min(0.05, until - now))
        before, now = now, time.monotonic()
        if now - before > STILL_S:
            raise Stood(f"for {now - before:.1f} s")


class Job:
    """The processes of a job, in the order in which they were started."""

    def __init__(self, options, case, folder):
        self.options, self.case, self.folder = options, case, folder
        self.processes, self.servers = [], []
        self.variables = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "bindings", "python", "src"), "OMP_NUM_THREADS": "1"}
        self.variables.setdefault("TUTTI_LIBRARY", os.path.join(ROOT, "build", "lib", "libtutti.so"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        if case == "torchft":
            places = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
            self.servers.append(self.spawn([
                shutil.which("torchft_lighthouse", path=places), "--bind", f"127.0.0.1:{port}", "--min_replicas", "2",
                "--heartbeat_timeout_ms", "1000", "--join_timeout_ms", "1000", "--quorum_tick_ms", "20"]))
            self.variables["TORCHFT_LIGHTHOUSE"] = f"http://127.0.0.1:{port}"
        else:
            self.variables.update(TUTTI_ELASTIC_STORE=self.folder, TUTTI_SECRET=secrets.token_hex(16), WORLD_SIZE=str(REPLICAS),
                                  MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        self.alive = [self.start(replica, "0") for replica in range(REPLICAS)]  # replica -> its process

    def spawn(self, words, **variables):
        errors = None if self.options.verbose else subprocess.DEVNULL
        return subprocess.Popen(words, env={**self.variables, **variables}, stdout=errors, stderr=errors, start_new_session=True)

    def diary(self, process):
        return os.path.join(self.folder, f"diary-{process}")

    def start(self, replica, joins):
        number = len(self.processes)
        words = [sys.executable, "-W", "ignore", os.path.abspath(__file__), "--ms", str(self.options.ms), "--worker", self.case, str(replica),
                 self.diary(number)]
        self.processes.append(self.spawn(words, TUTTI_ELASTIC_JOIN=joins, RANK=str(replica)))
        return number

    def kill(self, replica):
        os.killpg(self.processes[self.alive[replica]].pid, signal.SIGKILL)
        self.processes[self.alive[replica]].wait()
        self.alive[replica] = self.start(replica, "1")

    def lines(self, process):
        try:
            with open(self.diary(process)) as diary:
                return [line.split() for line in diary if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def counted(self):
        """All steps that count, by time."""
        return sorted(Counted(int(line[0]), process, *map(int, line[2:])) for process in range(len(self.processes))
                      for line in self.lines(process) if line[1] == "S")

    def times(self, process, kind):
        return [int(line[0]) for line in self.lines(process) if line[1] == kind]

    def await_all(self):
        """Until all replicas have a part in the steps of one team."""
        until = time.monotonic() + START_S
        while True:
            steps = self.counted()
            latest = [next((step for step in reversed(steps) if step.process == process), None) for process in self.alive]
            if all(step and step.has_part and step.team == steps[-1].team and step.step > 5 for step in latest):
                return
            if time.monotonic() > until:
                raise RuntimeError(f"{self.case}: it did not start, or a process did not come back")
            rest_until(time.monotonic() + 0.2)

    def samples(self, begin_ns, end_ns):
        """In steps that count."""
        return sum({step.step: step.samples for step in self.counted() if begin_ns < step.at_ns <= end_ns}.values())

    def end(self):
        for process in self.processes + self.servers:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


# ---------------------------------------------------------------------------------------------------------- a window


def seconds_to(steps, at_ns, holds):
    """To the first of these steps after that time; None if there is none."""
    return next(((step.at_ns - at_ns) * 1e-9 for step in steps if step.at_ns > at_ns and holds(step)), None)


def fault(job, replica, result):
    """Kills it, and adds what comes of that within the window to the result."""
    begin = time.monotonic()
    rest_until(begin + job.options.every / 6)
    survivors = [process for other, process in enumerate(job.alive) if other != replica]
    at_ns = time.monotonic_ns()
    job.kill(replica)
    heir = job.alive[replica]
    rest_until(begin + job.options.every)
    steps = job.counted()
    team = max(step.team for step in steps if step.at_ns < at_ns)
    to_step = seconds_to(steps, at_ns, lambda step: step.process in survivors and step.team > team)
    back = seconds_to(steps, at_ns, lambda step: step.process == heir and step.has_part)
    ready = [(ready_ns - at_ns) * 1e-9 for ready_ns in job.times(heir, "R")]
    lost = max(sum(lost_ns > at_ns for lost_ns in job.times(process, "L")) for process in survivors)
    if job.options.verbose or to_step is None or back is None:
        print(f"{job.case}, replica {replica}: to step {to_step}, back {back}, ready {ready}, lost {lost}", file=sys.stderr, flush=True)
    result.faults += 1
    result.samples += job.samples(int(begin * 1e9), int((begin + job.options.every) * 1e9))
    result.lost += lost
    result.to_step += [] if to_step is None else [to_step]
    result.back += [] if back is None else [back]
    result.ready += ready


def calm(job, result):
    begin = time.monotonic()
    rest_until(begin + job.options.calm)
    result.calm_s += job.options.calm
    result.calm_samples += job.samples(int(begin * 1e9), int((begin + job.options.calm) * 1e9))


def run_block(options, case, victims, result):
    """A job; how long the machine stood still, if it did."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(options, case, folder)
        try:
            job.await_all()
            calm(job, result)
            while result.faults < len(victims):
                job.await_all()
                fault(job, victims[result.faults], result)
            return None
        except Stood as stood:
            return str(stood)
        finally:
            job.end()


# ---------------------------------------------------------------------------------------------------------- the table


def spread(values):
    return f"{statistics.median(values or [0]):.2f} | {max(values or [0]):.2f}"


def row(options, case, result):
    rate = result.calm_samples / result.calm_s
    faulty = result.samples / (max(1, result.faults) * options.every)
    return (f"| {case} | {result.faults} | {spread(result.to_step)} | {result.lost / max(1, result.faults):.2f} | {spread(result.back)} "
            f"({statistics.median(result.ready or [0]):.2f}) | {rate:.0f} | {faulty:.0f} | {100 * faulty / rate:.1f} % |")


def measure(options, cases):
    """Prints the table; whether each window had its steps."""
    chance = random.Random(1)
    victims = [chance.randrange(REPLICAS) for _ in range(options.f)]
    results = {case: types.SimpleNamespace(faults=0, samples=0, lost=0, to_step=[], back=[], ready=[], calm_s=0, calm_samples=0)
               for case in cases}
    for wanted in range(min(BLOCK, options.f), options.f + BLOCK, BLOCK):
        for case in cases:
            while stood := run_block(options, case, victims[:wanted], results[case]):
                print(f"{case}: the machine stood still {stood}; {results[case].faults} windows count", file=sys.stderr, flush=True)
        if options.verbose:
            print("\n".join(row(options, case, results[case]) for case in cases), file=sys.stderr, flush=True)
    print("| case | faults | to step, s: median | worst | lost | back, s: median | worst (ready) | samples/s, calm | with faults | goodput |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    print("\n".join(row(options, case, results[case]) for case in cases))
    return all(len(result.to_step) == len(result.back) == options.f for result in results.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-f", type=int, default=20, metavar="FAULTS", help="of each case")
    parser.add_argument("--every", type=float, default=30, metavar="SECONDS", help="from one fault to the next")
    parser.add_argument("--calm", type=float, default=10, metavar="SECONDS", help="without faults, at the begin of each job")
    parser.add_argument("--ms", type=float, default=100, help="milliseconds that 16 samples take an accelerator")
    parser.add_argument("--only", default=",".join(CASES), metavar="CASES")
    parser.add_argument("--verbose", action="store_true", help="each fault, and what the processes print")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        train(options)
        return 0
    cases = options.only.split(",")
    if any(case not in CASES for case in cases) or options.f < 1 or options.every <= 0 or options.calm <= 0 or options.ms < 0:
        parser.error(f"cases are {', '.join(CASES)}; numbers are above 0")
    if "torchft" in cases and importlib.util.find_spec("torchft") is None:
        print("torchft is not here (pip install torchft)", file=sys.stderr)
        cases.remove("torchft")
    return 0 if measure(options, cases) else 1


if __name__ == "__main__":
    sys.exit(main())
